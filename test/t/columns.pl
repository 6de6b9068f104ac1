# What C knows of the tables comes out of their SQL, and out of nothing else.
use strict;
use warnings;

use File::Temp qw(tempdir);
use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;

my $root = "$FindBin::Bin/../..";
my $dir = tempdir(CLEANUP => 1);

# The header made of the install script, with another text in place of the tables'.
sub header_of
{
	my ($tables) = @_;
	unlink "$dir/tables.sql";
	append_to_file("$dir/tables.sql", $tables);
	my @files = map { /20_tables/ ? "$dir/tables.sql" : $_ } sort glob("$root/sql/[0-9]*.sql");
	my ($out, $err) = run_command([ $^X, "$root/tools/generate_columns", "$dir/columns.h", @files ]);
	return $err eq '' ? slurp_file("$dir/columns.h") : $err;
}

my $tables = slurp_file("$root/sql/20_tables.sql");
my $header = header_of($tables);
like($header, qr/Runs_started_at,\s+Runs_paused_at,/, 'columns have the order of the table');

my $swapped = $tables =~ s/(\tstarted_at timestamptz,\n)(\tpaused_at timestamptz,\n)/$2$1/r;
isnt($swapped, $tables, 'two columns of the SQL are swapped');
like(header_of($swapped), qr/Runs_paused_at,\s+Runs_started_at,/, 'columns.h follows the order of the SQL');

like($header, qr/\{"pgqrs_messages_claim_idx", \{Messages_queue_id, Messages_priority, Messages_visible_after, Messages_message_id\}\}/,
	'an index is known with its columns in order');
like($header, qr/CLAIM_QUEUE_ID = 1,\s+CLAIM_PRIORITY,/, 'the columns of the claim index have names');
like($header, qr/\{"pgqrs_run_status", 6, \{"QUEUED", /, 'a type is known with its labels');
like($header, qr/RUN_QUEUED,\s+RUN_RUNNING,/, 'each label of a type has a name in columns.h');
like($header, qr/Run_run_id,\s+Run_workflow,/, 'the columns of a result have names');
like($header, qr/PGQRS_RUN_STORED \\\s+\{ \\\s+Runs_run_id, \\\s+0, \\\s+0, \\\s+Runs_waiting_for,/,
	'a column that has the name and type of a stored one is taken from it, and no other');

utime 1, 1, "$dir/columns.h";
header_of("$swapped-- a comment\n");
is((stat "$dir/columns.h")[9], 1, 'a header that would say the same is left alone');

like(header_of("CREATE TABLE pgqrs_t (a bigint, 2);\n"), qr/cannot read " 2"/, 'the generator refuses a column that it cannot read');

my @numbers = grep { slurp_file($_) =~ /^\s*[A-Z]\w*_[a-z]\w* = \d/m } grep { !/columns\.h$/ } glob("$root/src/*/*.[ch]");
is("@numbers", '', 'no source file numbers columns itself');

done_testing();
