# What README.md shows and says: every block of SQL is run in order and prints
# what the README prints, and the lists of the reference are complete.
use strict;
use warnings;

use FindBin;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $root = "$FindBin::Bin/../..";
my $readme = slurp_file("$root/README.md");

my $node = PostgreSQL::Test::Cluster->new('readme');
$node->init;
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'pgqrs'\npgqrs.paused = on\nfsync = off\n");
$node->start;

# The blocks of SQL, each with the output that follows it; the place: the
# line of the README.
sub blocks
{
	my @blocks;
	while ($readme =~ /^```sql\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?/gms)
	{
		my ($sql, $output, $before) = ($1, $2 // '', substr($readme, 0, $-[0]));
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

# Runs scripts one after the other in one session; what each prints.
sub outputs
{
	my (@scripts) = @_;
	my $in = join '', map { "$_\\echo end of script\n" } @scripts;
	my $out = '';
	IPC::Run::run([ 'psql', '-X', '-d', $node->connstr('postgres') ],
		'<', \$in, '>&', \$out,
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default))
	  or diag("psql failed");
	return split /end of script\n/, $out, -1;
}

# A list of a query's values.
sub values_of
{
	my ($query) = @_;
	return [ split /\n/, $node->safe_psql('postgres', $query) ];
}

# The part of the README under a heading.
sub section
{
	my ($heading) = @_;
	my ($marks) = $heading =~ /^(#+)/;
	$readme =~ /^\Q$heading\E\n(.*?)(?=^#{1,${\ length $marks}} |\z)/ms
	  or die "README.md has no section $heading\n";
	return $1;
}

sub unique
{
	my %seen;
	return [ sort grep { !$seen{$_}++ } @_ ];
}

my @blocks = blocks();
cmp_ok(scalar(@blocks), '>', 10, 'there are blocks of SQL');
my @outputs = outputs(map { $_->{sql} } @blocks);
for my $i (0 .. $#blocks)
{
	is(normal($outputs[$i] // 'nothing'), normal($blocks[$i]{output}), "line $blocks[$i]{line}");
}
is(scalar(@outputs), @blocks + 1, 'no more was printed');

# Names.  Objects that the README names exist, and functions and views that
# exist are named in their tables.
my $members = q{FROM pg_depend d LEFT JOIN pg_proc p ON p.oid = objid AND classid = 'pg_proc'::regclass
	LEFT JOIN pg_class c ON c.oid = objid AND classid = 'pg_class'::regclass
	LEFT JOIN pg_type t ON t.oid = objid AND classid = 'pg_type'::regclass
	WHERE refclassid = 'pg_extension'::regclass
	AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pgqrs') AND deptype = 'e'};
my %members = map { $_ => 1 } @{ values_of("SELECT coalesce(proname, relname, typname) $members") };
my $metrics = slurp_file("$root/examples/monitoring/pgqrs.collector.yml");
is_deeply([ grep { !$members{$_} && $metrics !~ /metric_name: $_$/m } @{ unique($readme =~ /\bpgqrs_\w+(?![\w<])/g) } ], [],
	'what is named exists');
# Arguments of which only the default is taken, so far.
my $not_built = q{name IN ('concurrency_key', 'concurrency_keys', 'on_cancel', 'max_per_key', 'ordered', 'fair',
	'rate_limit', 'rate_period', 'rate_per_key') OR name = 'handler' AND proname <> 'pgqrs_consume'};
# The functions with their arguments, but for what is not built; those that
# have a default in brackets.
my ($calls, $others) = section('### Functions') =~ /^(.*)^(Views and reports are made with .*?)\n\n/ms;
my @others = $others =~ /`(pgqrs_\w+)`/g;
my @functions = @{ values_of(qq{
	SELECT proname || '(' || concat_ws(' ',
		string_agg(name, ', ' ORDER BY n) FILTER (WHERE n <= pronargs - pronargdefaults),
		'[, ' || string_agg(name, ', ' ORDER BY n) FILTER (WHERE n > pronargs - pronargdefaults) || ']') || ')'
	FROM (SELECT p.* $members AND prorettype <> 'trigger'::regtype) AS p
		LEFT JOIN unnest(proargnames, proargmodes) WITH ORDINALITY AS a (name, mode, n)
			ON coalesce(mode, 'i') = 'i' AND NOT ($not_built)
	GROUP BY p.oid, proname}) };
s/\(\[, /([/ for @functions;
is_deeply([ sort $calls =~ /^\| `(pgqrs_\w+\(.*?\))` \|/gm, @others ],
	[ sort map { my $call = $_; (grep { $call =~ /^$_\(/ } @others)[0] // $call } @functions ], 'functions');
is_deeply(unique(section('### Views') =~ /^\| `(pgqrs_\w+)`/gm),
	values_of(qq{SELECT relname $members AND relkind = 'v' ORDER BY relname COLLATE "C"}), 'views');

my %settings = section('### Settings') =~ /^\| `(pgqrs\.\w+)` \| ([^|]+?) \|/gm;
is_deeply([ map { "$_ $settings{$_}" } sort keys %settings ],
	values_of(q{SELECT name || ' ' || CASE unit
			WHEN 'ms' THEN coalesce(nullif(boot_val::int / 1000, 0) || ' s', '0')
			WHEN 'B' THEN boot_val::int / 1024 / 1024 || ' MB'
			ELSE boot_val END
		FROM pg_settings WHERE name LIKE 'pgqrs.%' ORDER BY name COLLATE "C"}),
	'settings and their defaults');

# Arguments that have a default, but for what is not built.
for my $function ('pgqrs_create_queue', 'pgqrs_create_workflow', 'pgqrs_schedule')
{
	my ($table) = section('### Arguments and their defaults') =~ /^\| `$function` \| default .*\n((?:\|.*\n)+)/m;
	my %shown = $table =~ /^\| `(\w+)` \| ([^|]+?) \|/gm;
	my @arguments = map { [ split /\|/ ] } @{ values_of(qq{
		SELECT name, type::regtype, pg_get_function_arg_default(p.oid, n::int)
		FROM pg_proc p, unnest(proargnames, proargtypes::oid[]) WITH ORDINALITY AS a (name, type, n)
		WHERE proname = '$function' AND n > pronargs - pronargdefaults AND NOT ($not_built) ORDER BY n}) };

	is_deeply([ $table =~ /^\| `(\w+)` \|/gm ], [ map { $_->[0] } @arguments ], "arguments of $function");
	is_deeply(values_of(join ' UNION ALL ', map {
				my ($name, $type, $default) = @$_;
				my $value = $shown{$name} eq 'none' ? 'NULL' : "'$shown{$name}'";
				"SELECT '$name' WHERE $default IS DISTINCT FROM CAST($value AS $type)"
			} @arguments), [], "defaults of $function");
}

# What to watch and to verify.
my ($watched) = section('### What to watch') =~ /^\| item \|.*\n\|---.*\n((?:\|.*\n)+)/m;
is_deeply([ $watched =~ /^\| `([^`]+)` \|/gm ], values_of('SELECT item FROM pgqrs_health'), 'items of pgqrs_health');
my ($verified) = section('### Verify') =~ /^\| checks \|.*\n\|---.*\n((?:\|.*\n)+)/m;
is_deeply(unique(map { /`([^`]+)`/g } $verified =~ /^\| ([^|]+) \|/gm),
	unique(@{ values_of('SELECT check_name FROM pgqrs_verify()') }), 'checks of pgqrs_verify()');

# Privileges: what the table says of a function is what the function says.
my %allows = section('### Privileges') =~ /^\| ((?:`\w+`|owner only)) \| (.*) \|$/gm;
for my $privilege ('trigger', 'work', 'admin', 'owner only')
{
	my $key = $privilege =~ / / ? $privilege : "`$privilege`";
	my @named = $allows{$key} =~ /`(pgqrs_\w+)`/g;
	my $needed = $privilege eq 'owner only' ? q{'{}'} : $privilege eq 'admin' ? q{'{admin}'} : "'{$privilege,admin}'";
	cmp_ok(scalar(@named), '>', 0, "functions of $privilege are named");
	is_deeply(values_of("SELECT f FROM unnest('{" . join(',', @named) . "}'::text[]) f
		WHERE pgqrs_function_privileges(f) IS DISTINCT FROM $needed"), [], "functions of $privilege");
}

# Codes and moves are those of the source.
my @codes;
my $errors = slurp_file("$root/src/base/errors.h");
push @codes, join '', $1 =~ /'(.)'/g while $errors =~ /MAKE_SQLSTATE\(([^)]*)\)/g;
is_deeply([ section('### Errors') =~ /^\| (PQ\d+) \|/gm ], [ sort @codes ], 'SQLSTATEs');

my $states = slurp_file("$root/src/base/status.c");
for my $kind ('run', 'step', 'message')
{
	my $prefix = uc $kind;
	my $heading = '#### ' . ucfirst($kind) . 's';
	is_deeply(unique(map { s/ \| / to /r } section($heading) =~ /^\| ([A-Z]+ \| [A-Z]+) \|/gm),
		unique(map { s/\]\[${prefix}_/ to /r } $states =~ /\[${prefix}_([A-Z]+\]\[${prefix}_[A-Z]+)\] = true/g),
		"moves of a $kind");
}

# The contents lead to every heading of two levels.
my ($contents) = $readme =~ /^Contents:\n(.*?)^## /ms;
is_deeply([ map { (lc) =~ s/[^\w\s-]//gr =~ s/\s/-/gr } $readme =~ /^###? (.*)$/gm ],
	[ grep { $readme !~ /<a name="$_">/ } $contents =~ /\(#([\w-]+)\)/g ], 'the contents');

# Links within the tree and within the text.
my %anchors = map { $_ => 1 } $readme =~ /<a name="(\w+)">/g,
  map { (lc) =~ s/[^\w\s-]//gr =~ s/\s/-/gr } $readme =~ /^#+ (.*)$/gm;
my @links = $readme =~ /\]\(((?!https?:)[^)]+)\)/g;
cmp_ok(scalar(@links), '>', 5, 'there are links');
is_deeply([ grep { /^#(.*)/ ? !$anchors{$1} : !-e "$root/$_" } @links ], [], 'links lead somewhere');

$node->stop;
done_testing();
