# Released install scripts never change, and updates lead from each of them to what a
# new database has, with work in every state and under load.
use strict;
use warnings;

use Digest::SHA qw(sha256_hex);
use EveryState;
use FindBin;
use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;

# The install scripts of released versions.
my %released = (
	'0.1.0' => '678bca84ca96b24fca08263b09d6de1f1c712b7f776dea5e889944dd09b51877',
);

my $root = "$FindBin::Bin/../..";
my ($newest) = slurp_file("$root/pgqrs.control") =~ /^default_version = '(.*)'/m;
my %scripts = map { /pgqrs--([0-9.]+)\.sql$/ ? ($1 => sha256_hex(slurp_file($_))) : () } glob("$root/sql/pgqrs--*.sql");
is_deeply(\%scripts, \%released, 'the install scripts of released versions are as they were released');
isnt($released{$newest} // '', $scripts{$newest} // 'none', 'the version under way is not released');

my $node = new_node('updates', "fsync = off\n");

# All objects of the extension, as pg_upgrade takes them along, without OIDs and the grants to
# a role; and the tables whose rows pg_dump takes.
sub objects
{
	my ($database) = @_;
	my ($dump, $err) = run_command([ 'pg_dump', '--schema-only', '--binary-upgrade', $node->connstr($database) ]);
	die $err if $err;
	$dump = join '', grep { /^-- Name: (?:[A-Z ]+ )?pgqrs/ } split /^--\n(?=-- Name: )/m, $dump;
	$dump =~ s/^SELECT pg_catalog\.(?:binary_upgrade_|setval).*\n|^UPDATE pg_catalog\.[^;]*;\n|^--.*\n|^\\.*\n|^.* TO tom;\n|^\n//mg;
	return "$dump\n" . $node->safe_psql($database,
		q{SELECT unnest(extconfig)::regclass, unnest(extcondition) FROM pg_extension WHERE extname = 'pgqrs' ORDER BY 1});
}

# What two databases have differently.
sub differences
{
	my ($one, $other) = map { { map { $_ => 1 } split /;\n/, objects($_) } } @_;
	return join ";\n", sort((grep { !$other->{$_} } keys %$one), (grep { !$one->{$_} } keys %$other));
}

# A session that works in a database until the table "enough" is there.
sub start_working
{
	my ($database) = @_;
	return start_client($node, <<'SQL', database => $database);
DO $$
DECLARE
	m record;
BEGIN
	WHILE to_regclass('enough') IS NULL LOOP
		PERFORM pgqrs_enqueue('load', '1');
		COMMIT;
		SELECT message_id, lease INTO m FROM pgqrs_dequeue('load');
		COMMIT;
		CONTINUE WHEN m.lease IS NULL;
		PERFORM pgqrs_archive_message(m.message_id, m.lease);
		COMMIT;
	END LOOP;
END
$$;
SELECT 'worked until the end';
SQL
}

# Whether the sessions go on working.
sub is_worked
{
	my ($database) = @_;
	my $archived = q{SELECT count(*) FROM pgqrs_archive JOIN pgqrs_queues USING (queue_id) WHERE name = 'load'};
	my $count = $node->safe_psql($database, $archived);
	return $node->poll_query_until($database, "SELECT ($archived) > $count + 100");
}

sub pause
{
	my ($paused) = @_;
	$node->safe_psql('postgres', "ALTER SYSTEM SET pgqrs.paused = $paused");
	$node->reload;
	return;
}

$node->safe_psql('postgres', 'CREATE ROLE tom; CREATE DATABASE fresh');
$node->safe_psql('fresh', 'CREATE EXTENSION pgqrs; CREATE EXTENSION amcheck');
my $fresh = objects('fresh');
cmp_ok(scalar(() = $fresh =~ /^CREATE FUNCTION/mg), '>', 100, 'the functions of the extension are compared');
like($fresh, qr/^CREATE TABLE public\.pgqrs_messages.*^COMMENT ON TABLE public\.pgqrs_messages/ms, 'tables and comments are compared, too');

for my $version (sort keys %released)
{
	my $database = "from_$version" =~ tr/./_/r;
	$node->safe_psql('postgres', "CREATE DATABASE $database");
	work_in_every_state($node, $database, $version);
	is($node->safe_psql($database, 'SELECT check_name, detail FROM pgqrs_verify() WHERE NOT ok'), '',
		"with the objects of $version the library does work in every state");
	isnt(differences($database, 'fresh'), '', "the objects of $version are others");
	my @live = undelivered($node, $database);

	$node->safe_psql($database, q{SELECT pgqrs_create_queue('load')});
	my @sessions = map { start_working($database) } 1 .. 3;
	ok(is_worked($database), "sessions work with the objects of $version");
	is(sqlstate($node, "SET lock_timeout = '10 s'; ALTER EXTENSION pgqrs UPDATE", $database), '', "the update from $version is done under load");
	ok(is_worked($database), "they go on after the update from $version");
	$node->safe_psql($database, 'CREATE TABLE enough ()');
	is(finish_client($_), 'worked until the end', "no call of a session fails by the update from $version") for @sessions;
	$node->safe_psql($database, q{SELECT count(pgqrs_archive_message(message_id, lease)) FROM pgqrs_dequeue('load', batch_size => 10000)});
	is($node->safe_psql($database, q{SELECT extversion FROM pg_extension WHERE extname = 'pgqrs'}), $newest, "the update from $version leads to $newest");
	is(differences($database, 'fresh'), '', "what is updated from $version has the objects of a new database");

	$node->safe_psql($database, 'CREATE EXTENSION amcheck');
	goes_on($node, "work in every state after the update from $version", $database, @live);
	pause('off');
	ok(is_served($node, $database), "the background worker comes after the update from $version");
	pause('on');
}
$node->stop('fast');
done_testing();
