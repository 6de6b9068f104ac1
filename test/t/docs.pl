# README.md and the pages under docs/: every block of SQL is run in order and
# prints what the page prints, the lists of the reference are complete, every
# link leads somewhere, and README leads to every page.
use strict;
use warnings;

use Encode qw(decode_utf8);
use File::Find;
use FindBin;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $root = "$FindBin::Bin/../..";
my %pages;       # by path, relative to the root
my @others;      # Markdown elsewhere, of which only the links are checked
find({ no_chdir => 1, wanted => sub {
	my $path = $File::Find::name =~ s/^\Q$root\E\///r;
	return $File::Find::prune = 1 if $path =~ m{(?:^|/)(?:\.git|node_modules|tmp_check)$};
	return unless -f && $path =~ /\.md$/;
	if ($path eq 'README.md' || $path =~ m{^docs/}) { $pages{$path} = slurp_file("$root/$path"); }
	else { push @others, $path; }
} }, $root);

my $node = PostgreSQL::Test::Cluster->new('docs');
$node->init;
$node->append_conf('postgresql.conf',
	"shared_preload_libraries = 'pgqrs'\npgqrs.paused = on\nfsync = off\nmax_prepared_transactions = 10\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION pgqrs');
$node->safe_psql('postgres', 'CREATE DATABASE extended TEMPLATE postgres');

# A page.
sub page
{
	my ($path) = @_;
	return $pages{$path} // die "there is no page $path\n";
}

# A page without what stands in fences.
sub prose
{
	my ($text) = @_;
	return $text =~ s/^( *)```.*?^ *```$//gmsr;
}

# The blocks of SQL of a page, each with the output that follows it.
sub blocks
{
	my ($path) = @_;
	my $text = page($path);
	my @blocks;
	while ($text =~ /^```sql\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?/gms)
	{
		my ($sql, $output, $before) = ($1, $2 // '', substr($text, 0, $-[0]));
		push @blocks, { sql => $sql, output => $output, line => 1 + ($before =~ tr/\n//) };
	}
	return @blocks;
}

# Output without what differs from one time to the next, and without the
# widths that depend on it.
sub normal
{
	my ($output) = @_;
	$output =~ s/^[-+]+$/--/gm;
	$output =~ s/\d{10,}/NUMBER/g;
	$output =~ s/[ \t]+/ /g;
	$output =~ s/ ?\n\s*/\n/g;
	$output =~ s/^\s+|\s+$//g;
	return $output;
}

# The database of a page.
sub database
{
	my ($path) = @_;
	return lc($path) =~ s/\W/_/gr;
}

# Makes the database of a page, with the extension unless the page makes it.
sub make_database
{
	my ($path, @blocks) = @_;
	my $extension = grep { $_->{sql} =~ /^CREATE EXTENSION/m } @blocks;
	$node->safe_psql('template1', 'CREATE DATABASE ' . database($path) . ($extension ? '' : ' TEMPLATE extended'));
}

# Starts a page's blocks, one after the other in one session.
sub start_page
{
	my ($path, @blocks) = @_;
	my $in = join '', map { "$_->{sql}\\echo end of script\n" } @blocks;
	my $out = '';
	return { path => $path, blocks => \@blocks, out => \$out,
		run => IPC::Run::start([ 'psql', '-X', '-d', $node->connstr(database($path)) ], '<', \$in, '>&', \$out,
			IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default)) };
}

sub finish_page
{
	my ($page) = @_;
	$page->{run}->finish or diag("psql failed at $page->{path}");
	my @outputs = split /end of script\n/, ${ $page->{out} }, -1;
	my @blocks = @{ $page->{blocks} };
	for my $i (0 .. $#blocks)
	{
		is(normal($outputs[$i] // 'nothing'), normal($blocks[$i]{output}),
			"$page->{path} line $blocks[$i]{line} prints what the page says");
	}
	is(scalar(@outputs), @blocks + 1, "$page->{path} prints no more than that");
}

# A list of a query's values.
sub values_of
{
	my ($query) = @_;
	return [ split /\n/, $node->safe_psql('postgres', $query) ];
}

# The part of a page under a heading.
sub section
{
	my ($path, $heading) = @_;
	my ($marks) = $heading =~ /^(#+)/;
	page($path) =~ /^\Q$heading\E\n(.*?)(?=^#{1,${\ length $marks}} |\z)/ms
	  or die "$path has no section $heading\n";
	return $1;
}

sub unique
{
	my %seen;
	return [ sort grep { !$seen{$_}++ } @_ ];
}

# Blocks of SQL: the pages side by side, four at a time.
my %blocks = map { my $path = $_; my @blocks = blocks($path); @blocks ? ($path => \@blocks) : () } sort keys %pages;
cmp_ok(scalar(keys %blocks), '>', 5, 'there are pages with SQL');
make_database($_, @{ $blocks{$_} }) foreach sort keys %blocks;
my @running;
foreach my $path (sort keys %blocks)
{
	finish_page(shift @running) if @running == 4;
	push @running, start_page($path, @{ $blocks{$path} });
}
finish_page($_) foreach @running;

# The worker of README does what README says of it, in the database of README.
{
	my ($program) = page('README.md') =~ /^```python\n(.*?)^```\n/ms;
	cmp_ok(($program =~ tr/\n//), '<=', 30, 'the worker of README is short');
	my ($out, $database) = ('', database('README.md'));
	my $run = $node->safe_psql($database, q{
		CREATE TABLE orders (order_id int PRIMARY KEY, paid boolean NOT NULL DEFAULT false);
		INSERT INTO orders VALUES (8);
		SELECT pgqrs_trigger('ship_order', '{"order": 8}') FROM pgqrs_enqueue('mail', '{"to": "bob"}')});
	local @ENV{qw(PYTHONDONTWRITEBYTECODE PYTHONPATH)} = (1, "$root/clients/python");
	my $worker = IPC::Run::start([ '/usr/bin/python3', '-u', '-c', $program, $node->connstr($database) ], '<', '/dev/null', '>&', \$out,
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	is($node->safe_psql($database, "CALL pgqrs_wait($run, '60 s')"), 'SUCCESS|{"parcel": "P-8", "receipt": "R-8"}|', 'the run of the example of README.md succeeds');
	is($node->safe_psql($database, 'SELECT paid FROM orders'), 't', 'the step of the example has written its row');
	$worker->signal('TERM');
	ok($worker->finish, 'the worker of README.md ends at SIGTERM');
	is($out, "mail to bob\n", 'the worker of README.md has handled its message');
}

# Names.  Objects that the pages name exist; pages about the source may name
# what stands in the source.
my $members = q{FROM pg_depend d LEFT JOIN pg_proc p ON p.oid = objid AND classid = 'pg_proc'::regclass
	LEFT JOIN pg_class c ON c.oid = objid AND classid = 'pg_class'::regclass
	LEFT JOIN pg_type t ON t.oid = objid AND classid = 'pg_type'::regclass
	WHERE refclassid = 'pg_extension'::regclass
	AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pgqrs') AND deptype = 'e'};
my %known = map { $_ => 1 } @{ values_of("SELECT coalesce(proname, relname, typname) $members") },
  slurp_file("$root/examples/monitoring/pgqrs.collector.yml") =~ /metric_name: (\w+)$/mg;
my %in_source;
find({ no_chdir => 1, wanted => sub { @in_source{ slurp_file($_) =~ /\b(pgqrs_\w+)/g } = () if -f && /\.(?:[ch]|sql|pml|pl)$/ } },
	"$root/src", "$root/sql", "$root/test/soak");
foreach my $path (sort keys %pages)
{
	my $of_source = $path =~ m{^docs/(?:design/|internals|performance)};
	is_deeply([ grep { !$known{$_} && !($of_source && exists $in_source{$_}) } @{ unique($pages{$path} =~ /\bpgqrs_\w+(?![\w<])/g) } ], [],
		"each function, view and setting that $path names exists");
}

# Words that hide the subject of a sentence.
foreach my $path (sort keys %pages)
{
	is_deeply([ prose($pages{$path}) =~ /\b((?:who|some|no|any)body|who(?:ever)?)\b/gi ], [], "$path names its subjects");
}

# Functions.  Those in the reference are those of the extension, each with its
# signature; in place of arguments of which only the default is taken so far
# there is one list of them.
my $functions = 'docs/reference/functions.md';
my $reserved = q{name IN ('concurrency_key', 'concurrency_keys', 'max_per_key', 'ordered', 'fair',
	'rate_limit', 'rate_period', 'rate_per_key') OR name = 'handler' AND proname <> 'pgqrs_consume'};
my @helpers = section($functions, '## Helpers of views and reports') =~ /`(pgqrs_\w+)`/g;
my %entries = page($functions) =~ /^### (pgqrs_\w+)\n\n(.*?)(?=^###? |\z)/gms;
is_deeply([ sort keys %entries, @helpers ],
	values_of(qq{SELECT proname $members AND prorettype <> 'trigger'::regtype ORDER BY proname COLLATE "C"}), 'the reference lists the functions of the extension');
is_deeply(unique(map { /`(\w+)`/g } section($functions, '## Reserved arguments') =~ /^\| .* \| (.*) \|$/gm),
	unique(@{ values_of(qq{SELECT name FROM (SELECT p.* $members AND p.oid IS NOT NULL) AS p, unnest(proargnames) AS a (name)
		WHERE $reserved}) }), 'the reference lists the functions with reserved arguments');

# A list of "name type" or "name type = default".
sub arguments
{
	my ($list) = @_;
	my @arguments;
	while ($list =~ /\G\s*(?:INOUT )?(\w+) ([\w\[\]]+)(?: = ('[^']*'|[^,\s]+))?\s*(?:,|\z)/gc)
	{
		push @arguments, { name => $1, type => $2, default => $3 };
	}
	return @arguments;
}

my (@shown, @results);
foreach my $function (sort keys %entries)
{
	my ($arguments, $result) = $entries{$function} =~ /\A```text\n(?:CALL )?$function\((.*?)\)(?:\s+→ (.*?))?\n```\n/s;
	if (!defined $arguments)
	{
		fail("$function has a signature");
		next;
	}
	push @shown, map { { function => $function, %$_ } } arguments($arguments);
	$result = ($result // 'none') =~ s/\s+/ /gr;
	my $columns = $result =~ /\((.*)\)$/ ? $1 : undef;
	push @results, { function => $function, set => $result =~ /^(?:SETOF|TABLE)/ ? 't' : 'f',
		columns => defined $columns ? [ arguments($columns) ] : undef, type => $result =~ s/^SETOF //r };
}
my %type = map { split /\|/ } @{ values_of(join ' UNION ALL ', map { "SELECT '$_', '$_'::regtype" }
	@{ unique(grep { /^[\w\[\]]+$/ && $_ ne 'none' } map { ($_->{type}, map { $_->{type} } @{ $_->{columns} // [] }) } @shown, @results) }) };
my @catalog = map { [ split /\|/, $_, -1 ] } @{ values_of(qq{
	SELECT proname, name, type::regtype, pg_get_function_arg_default(p.oid, n::int)
	FROM (SELECT p.* $members AND prorettype <> 'trigger'::regtype) AS p,
		unnest(proargnames, proargmodes, coalesce(proallargtypes, proargtypes::oid[])) WITH ORDINALITY AS a (name, mode, type, n)
	WHERE coalesce(mode, 'i') IN ('i', 'b') AND NOT ($reserved) ORDER BY proname COLLATE "C", n}) };
@catalog = grep { $entries{ $_->[0] } } @catalog;
is_deeply([ map { "$_->{function} $_->{name} $type{$_->{type}}" . (defined $_->{default} ? ' with a default' : '') } @shown ],
	[ map { "$_->[0] $_->[1] $_->[2]" . ($_->[3] ne '' ? ' with a default' : '') } @catalog ], 'the reference shows the arguments of each function');
my %default = map { ("$_->[0] $_->[1]" => $_->[3]) } @catalog;
is_deeply(values_of(join ' UNION ALL ', map {
			my $default = $default{"$_->{function} $_->{name}"} // '';
			$default = 'NULL' if $default eq '';
			"SELECT '$_->{function} $_->{name}' WHERE ($default) IS DISTINCT FROM CAST($_->{default} AS $_->{type})"
		} grep { defined $_->{default} } @shown), [], 'the reference shows the default of each argument');
is_deeply([ map { join ' ', $_->{function}, $_->{set},
				$_->{columns} ? map({ "$_->{name} $type{$_->{type}}" } @{ $_->{columns} }) : $type{ $_->{type} } // $_->{type} } @results ],
	[ grep { /^(\w+)/ && $entries{$1} } @{ values_of(qq{
		SELECT concat_ws(' ', proname, CASE WHEN prokind = 'p' THEN 'f' ELSE left(proretset::text, 1) END, coalesce(columns,
			CASE WHEN prokind = 'p' THEN 'none' ELSE prorettype::regtype::text END))
		FROM (SELECT p.* $members AND prorettype <> 'trigger'::regtype) AS p, LATERAL (
			SELECT string_agg(name || ' ' || type::regtype, ' ' ORDER BY n) AS columns
			FROM unnest(proargnames, proargmodes, proallargtypes) WITH ORDINALITY AS a (name, mode, type, n)
			WHERE mode IN ('o', 't')) AS a
		ORDER BY proname COLLATE "C"}) } ], 'the reference shows the result of each function');

# Each SQLSTATE that the comment of a function names stands in its entry.
my %comments = map { split /\t/, $_, 2 } @{ values_of(qq{
	SELECT proname || E'\\t' || replace(coalesce(obj_description(p.oid, 'pg_proc'), ''), E'\\n', ' ') $members AND proname IS NOT NULL}) };
my $code = qr/\b(PQ\d{3}|(?:0A|22|23|25|40|42|53|54|55)[0-9A-Z]{3})\b/;
is_deeply([ map {
			my $function = $_;
			my ($raised) = ($comments{$function} // '') =~ /\b[Ee]rrors?: (.*)/;
			my ($errors) = $entries{$function} =~ /^Errors: (.*?)^$/ms;
			my %shown = map { $_ => 1 } ($errors // '') =~ /$code/g;
			map { "$function $_" } grep { !$shown{$_} } @{ unique(($raised // '') =~ /$code/g) }
		} sort keys %entries ], [], 'the entry of each function names the errors of its COMMENT');
is_deeply([ map {
			my $function = $_;
			my ($errors) = $entries{$function} =~ /^Errors: (.*?)^$/ms;
			my %named = map { $_ => 1 } $comments{$function} =~ /$code/g;
			map { "$function $_" } grep { !$named{$_} } @{ unique(($errors // '') =~ /$code/g) }
		} grep { ($comments{$_} // '') !~ /\b[Ee]rrors?:? .*\bpgqrs_\w+\(\)/ } sort keys %entries ], [],
	'the COMMENT of each function names the errors of its entry, unless they are as those of another');

# Tables of defaults say what the signatures say.
foreach (['queues', 'pgqrs_create_queue'], ['workflows', 'pgqrs_create_workflow'], ['schedules', 'pgqrs_schedule'])
{
	my ($heading, $function) = @$_;
	my ($table) = section($functions, "#### Defaults of $heading") =~ /^\| argument \| default .*\n((?:\|.*\n)+)/m;
	my %shown = $table =~ /^\| `(\w+)` \| ([^|]+?) \|/gm;
	my @arguments = grep { $_->[0] eq $function && $_->[3] ne '' } @catalog;

	is_deeply([ $table =~ /^\| `(\w+)` \|/gm ], [ map { $_->[1] } @arguments ], "the reference has the table of the arguments of $function");
	is_deeply(values_of(join ' UNION ALL ', map {
				my (undef, $name, $type, $default) = @$_;
				my $value = ($shown{$name} // 'none') eq 'none' ? 'NULL' : "'$shown{$name}'";
				"SELECT '$name' WHERE $default IS DISTINCT FROM CAST($value AS $type)"
			} @arguments), [], "the table of $function shows the defaults");
}

# Views and their columns.
my %views = page('docs/reference/views.md') =~ /^### (pgqrs_\w+)\n(.*?)(?=^###? |\z)/gms;
is_deeply([ map { my $view = $_; map { "$view $_" } $views{$view} =~ /^\| `(\w+)` \|/gm } sort keys %views ],
	values_of(qq{SELECT relname || ' ' || attname FROM (SELECT c.oid, relname $members AND relkind = 'v') AS v
		JOIN pg_attribute ON attrelid = v.oid AND attnum > 0 AND NOT attisdropped
		ORDER BY relname COLLATE "C", attnum}), 'the reference lists the views and their columns');

my %settings = page('docs/reference/settings.md') =~ /^\| `(pgqrs\.\w+)` \| ([^|]+?) \|/gm;
is_deeply([ map { "$_ $settings{$_}" } sort keys %settings ],
	values_of(q{SELECT name || ' ' || CASE unit
			WHEN 'ms' THEN coalesce(nullif(boot_val::int / 1000, 0) || ' s', '0')
			WHEN 'B' THEN boot_val::int / 1024 / 1024 || ' MB'
			ELSE boot_val END
		FROM pg_settings WHERE name LIKE 'pgqrs.%' ORDER BY name COLLATE "C"}),
	'the reference lists the settings and their defaults');

# The one table of all pages with this head.
sub table
{
	my ($head) = @_;
	my @found = map { /^\| \Q$head\E \|.*\n\|---.*\n((?:\|.*\n)+)/mg } @pages{ sort keys %pages };
	is(scalar(@found), 1, "there is one table with the head $head");
	return $found[0] // '';
}

is_deeply([ table('item') =~ /^\| `([^`]+)` \|/gm ], values_of('SELECT item FROM pgqrs_health'), 'the reference lists the items of pgqrs_health');
is_deeply(unique(map { /`([^`]+)`/g } table('checks') =~ /^\| ([^|]+) \|/gm),
	unique(@{ values_of('SELECT check_name FROM pgqrs_verify()') }), 'the reference lists the checks of pgqrs_verify()');

# Privileges: what the table says of a function is what the function says.
my %allows = section('docs/privileges.md', '## What each privilege allows') =~ /^\| ((?:`\w+`|owner only)) \| (.*) \|$/gm;
for my $privilege ('trigger', 'work', 'admin', 'owner only')
{
	my $key = $privilege =~ / / ? $privilege : "`$privilege`";
	my @named = $allows{$key} =~ /`(pgqrs_\w+)`/g;
	my $needed = $privilege eq 'owner only' ? q{'{}'} : $privilege eq 'admin' ? q{'{admin}'} : "'{$privilege,admin}'";
	cmp_ok(scalar(@named), '>', 0, "the page names functions of $privilege");
	is_deeply(values_of("SELECT f FROM unnest('{" . join(',', @named) . "}'::text[]) f
		WHERE pgqrs_function_privileges(f) IS DISTINCT FROM $needed"), [], "the page gives the functions of $privilege the privilege that they need");
}

# Codes and moves are those of the source.
my %codes;
my $errors = slurp_file("$root/src/base/errors.h");
while ($errors =~ /ERRCODE_PGQRS_(\w+)\s+MAKE_SQLSTATE\(([^)]*)\)/g)
{
	$codes{ join '', $2 =~ /'(.)'/g } = lc $1;
}
is_deeply([ page('docs/reference/errors.md') =~ /^\| \[(PQ\d+)\]\(#pq\d+\) \| (\w+) \|/gm ],
	[ map { ($_, $codes{$_}) } sort keys %codes ], 'the reference lists the SQLSTATEs of the library');
is_deeply([ page('docs/reference/errors.md') =~ /^### (PQ\d+)\n\n\*\*(\w+)\.\*\* [^#]*?\*Remedy\*/gm ],
	[ map { ($_, $codes{$_}) } sort keys %codes ], 'the reference gives each SQLSTATE a cause and a remedy');

my $states = slurp_file("$root/src/base/status.c");
for my $kind ('run', 'step', 'message')
{
	my $prefix = uc $kind;
	is_deeply(unique(map { s/ \| / to /r } section('docs/concepts.md', '### ' . ucfirst($kind) . 's') =~ /^\| ([A-Z]+ \| [A-Z]+) \|/gm),
		unique(map { s/\]\[${prefix}_/ to /r } $states =~ /\[${prefix}_([A-Z]+\]\[${prefix}_[A-Z]+)\] = true/g),
		"the page shows the moves of a $kind that the library allows");
}

# The loop of the page on workers and the program are the same: they call the
# same functions and know the same SQLSTATEs.
my $worker = slurp_file("$root/examples/worker/worker.py");
my $loop = section('docs/workers.md', '## The loop') . section('docs/workers.md', '## Extending leases');
is_deeply(unique($loop =~ /$code/g), unique($worker =~ /$code/g), 'the loop and examples/worker know the same SQLSTATEs');
is_deeply([ grep { $worker !~ /$_/ } @{ unique(grep { $_ ne 'pgqrs_extend_worker' } $loop =~ /\b(pgqrs_\w+)/g) } ], [],
	'examples/worker calls what the loop calls');
is_deeply([ grep { page('docs/workers.md') !~ /$_\b/ && page('docs/workflows.md') !~ /$_\b/ } @{ unique($worker =~ /\b(pgqrs_\w+)/g) } ], [],
	'the pages name what examples/worker calls');

# README is a door: short, with the commands, and figures that were measured.
cmp_ok((page('README.md') =~ tr/\n//), '<=', 300, 'README.md has at most 300 lines');
is_deeply([ grep { page('README.md') !~ /`$_`/ } 'make test', 'make demo' ], [], 'README.md names the commands');
my $results = slurp_file("$root/test/perf/bench/RESULTS.md");
is_deeply([ grep { $results !~ /\| \Q$_\E +\|/ } section('README.md', '## Speed') =~ /\| (\d[\d,]*) (?=\|)/g ], [], 'figures of speed are measured ones');

# Headings as GitHub links to them.
sub anchors
{
	my ($text) = @_;
	my (%anchors, %count);
	foreach my $heading (prose($text) =~ /^#+ (.*)$/gm)
	{
		my $anchor = lc(decode_utf8($heading)) =~ s/[^\w\s-]//gr =~ s/ /-/gr;
		my $count = $count{$anchor}++;
		$anchors{ $count ? "$anchor-$count" : $anchor } = 1;
	}
	return \%anchors;
}

# Links within the tree, as [the file, the anchor].
sub links
{
	my ($path, $text) = @_;
	my ($folder) = $path =~ m{^(.*/)?[^/]*$};
	return map {
		my ($file, $anchor) = /^([^#]*)(?:#(.*))?$/;
		$file = $file eq '' ? $path : ($folder // '') . $file;
		1 while $file =~ s{(?:^|(?<=/))(?!\.\./)[^/]+/\.\./}{};
		[ $file, $anchor ];
	} prose($text) =~ /\]\(((?![a-z]+:)[^)\s]+)\)/g;
}

my %text = (%pages, map { $_ => slurp_file("$root/$_") } @others);
my %anchors = map { $_ => anchors($text{$_}) } keys %text;
foreach my $path (sort keys %text)
{
	my @lost = grep { !-e "$root/$_->[0]" || defined $_->[1] && $anchors{ $_->[0] } && !$anchors{ $_->[0] }{ $_->[1] } }
	  links($path, $text{$path});
	is_deeply([ map { join '#', grep { defined } @$_ } @lost ], [], "the links of $path lead to existing pages and headings");
}

# README leads to each page in two links, and the list of groups to each group.
my %reached = map { $_->[0] => 1 } links('README.md', page('README.md'));
@reached{ map { $_->[0] } links($_, $pages{$_}) } = () foreach grep { $pages{$_} } keys %reached;
is_deeply([ grep { !exists $reached{$_} && $_ ne 'README.md' } sort keys %pages ], [], 'links lead from README.md to each page');
is_deeply([ page($functions) =~ /^\| \[(.*?)\]\(#[\w-]+\) \|/gm ], [ page($functions) =~ /^## (.*)$/gm ], 'the list of groups names each heading of the reference');

$node->stop;
done_testing();
