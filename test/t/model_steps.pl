# The model of the floor protocol speaks of the code as it is: each step that its
# table names is there, each function, too, and those that an order matters for come
# in the same order in both.  Each variant that it describes is one, and is run.
use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;

my $root = "$FindBin::Bin/../..";
my $model = slurp_file("$root/test/soak/model/floor.pml");
my %code = map { s{^\Q$root/\E}{}r => slurp_file($_) } glob "$root/src/*/*.c";
my @protocol = ('src/shmem/claim_floor.c', 'src/shmem/published_keys.c');

# The body of a function of the code, without its comments; undef if no file has it.
sub body
{
	my ($function, @files) = @_;
	for my $file (@files ? @files : sort keys %code)
	{
		return $1 =~ s{/\*.*?\*/}{}sgr if $code{$file} =~ /^\Q$function\E\([^;]*?\)\n\{(.*?)^\}/ms;
	}
	return;
}

# That of a step of the model as it is without variants, with all that it can do.
my ($text) = run_command([ qw(gcc -E -P -x c -DFINE -DSET_BACK -DPREPARERS=1 -DWRITERS=1 -DCLAIMERS=1), "$root/test/soak/model/floor.pml" ]);

sub step
{
	my ($name) = @_;
	return $text =~ /^inline \Q$name\E\([^)]*\)\s*\{(.*?)^\}/ms ? $1 : undef;
}

# Names, for each the text that it is found by, come one after the other.
sub in_order
{
	my ($body, @names) = @_;
	my $at = 0;
	return 'is not there' unless defined $body;
	for my $name (@names)
	{
		my $found = index $body, $name, $at;
		return "$name does not come" . ($at ? ' after the others' : '') if $found < 0;
		$at = $found + length $name;
	}
	return '';
}

# The table.
my ($table) = $model =~ /^ \* Steps of the model.*?:\n \*\n(.*?)^ \*\n/ms;
my @rows = $table =~ /^ \*\t +?(\S.*?)\t+|^ \*\t(\S.*?)\t+/mg;
my @steps = map { split /, / } grep { defined } @rows;
cmp_ok(scalar(@steps), '>', 25, 'the table of steps is found');
is(join(' ', grep { $model !~ /^(?:inline|proctype) \Q$_\E\(/m } grep { $_ ne 'dirty' } @steps), '', 'each step of the table is one of the model');
is(join(' ', grep { my $step = $_; !grep { $_ eq $step } @steps } $model =~ /^proctype (\w+)\(/mg), 'backend', 'each process of the model is in the table');
my %named = map { $_ => 1 } $table =~ /(\w+)\(\)/g;
is(join(' ', grep { !defined body($_) } sort keys %named), '', 'each function of the table is one of the code');
for my $path ($model =~ m{(src/\w+/\w+\.c)}g)
{
	ok(exists $code{$path}, "the model names a file, $path");
}

# Orders that the protocol rests on.
for my $order (
	[ 'a key is announced before the clock is read for it, and published after',
		[ write => 'open()', 'read_clock(', 'close(' ], [ pgqrs_publish_clock => 'open_key(', 'pgqrs_clock()', 'close_key(' ] ],
	[ 'an announcement ends after its key is published',
		[ close => 'publish(', 'opening[me] = 0' ], [ close_key => 'publish_key(', 'opening, 0' ] ],
	[ 'the epoch and the floor are read before the clock, and this before what is pending',
		[ scan_queue => 'scan_epoch = epoch', 'start = floor', 'read_clock(', 'read_pending()' ],
		[ init_scan => 'scan->epoch = pgqrs_clock_epoch()', 'read_floor(', 'scan->now = pgqrs_clock()', 'pg_memory_barrier()', 'read_pending(', 'pg_memory_barrier()' ] ],
	[ 'what is pending is read before the snapshot is taken, and the floor is raised last',
		[ scan_queue => 'read_pending()', 'take_snapshot()', 'claim()', 'scan_end()' ],
		[ scan_priority => 'pgqrs_floor_scan_begin(', 'pgqrs_scan_begin(', 'claim_part(', 'pgqrs_floor_scan_end(' ] ],
	[ 'an announcement is read before the keys of its backend',
		[ read_published => 'read_opening(', 'read_ranges(' ], [ read_published => '->opening)', '->count)' ] ],
	[ 'what is recorded of prepared transactions is read after what is published',
		[ read_pending => 'read_published(', 'read_prepared_keys()' ], [ pgqrs_published_read => 'read_published(', 'pg_read_barrier()', 'read_prepared_keys(' ] ],
	[ 'what has ended is forgotten before another prepared transaction is recorded',
		[ prepare => 'forget_ended_prepared()', 'recorded = range_from', 'withdraw()' ], [ pgqrs_published_pre_prepare => 'forget_ended_prepared(', 'record_prepared(' ] ],
	[ 'the end of a transaction is visible before its keys are withdrawn',
		[ end_transaction => 'end_visibly(', 'withdraw()' ] ])
{
	my ($name, $in_model, $in_code) = @$order;
	my ($inline, @model_steps) = @$in_model;
	is(in_order(step($inline), @model_steps), '', "$name, in the model");
	next unless $in_code;
	my ($function, @calls) = @$in_code;
	is(in_order(body($function, @protocol, 'src/delivery/claim.c'), @calls), '', "$name, in $function()");
}

# Variants.
my ($described) = $model =~ /^ \* Variants\.(.*?)^ \*\//ms;
my @described = $described =~ /^ \*\t([A-Z]{1,2})\t/mg;
my %used = map { $_ => 1 } $model =~ /\bVARIANT_(\w+)/g;
my ($list) = slurp_file("$root/test/soak/model/run") =~ /^variants='\n(.*?)^'/ms;
my @run = $list =~ /^([A-Z]{1,2})\|/mg;
is(join(' ', sort keys %used), join(' ', sort @described), 'each variant that is described is in the model');
is(join(' ', sort @run), join(' ', sort @described), 'each variant that is described is run');

done_testing();
