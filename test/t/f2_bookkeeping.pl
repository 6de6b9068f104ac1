# F2 and F20: the small tables neither bloat nor become hot.  Signs of life
# write at most one row per worker and pgqrs.heartbeat_flush, however often it is
# called; queues and workflows are not written at all.
# F-numbers: docs/design/known-failures.md.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant { WORKERS => 50, HOUR => 3600, FLUSH => 10, PAGES => 600 };

my $node = new_node('f2_bookkeeping', "fsync = off\nsynchronous_commit = off\n");

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

# Tables and indexes of the extension that are too large, those left out that
# hold the messages themselves.
sub bloated
{
	return sql("SELECT string_agg(format('%s: %s pages', t.relname, p.pages), ', ')
		FROM pg_class t LEFT JOIN pg_index i ON indexrelid = t.oid
			JOIN pg_depend d ON d.objid = coalesce(i.indrelid, t.oid) AND d.classid = 'pg_class'::regclass
				AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e',
			LATERAL (SELECT pg_relation_size(t.oid) / current_setting('block_size')::int AS pages) p
		WHERE t.relkind IN ('r', 'i') AND p.pages >= ${\ PAGES}
			AND coalesce(i.indrelid, t.oid) NOT IN ('pgqrs_messages'::regclass, 'pgqrs_archive'::regclass)");
}

# How many versions of its rows a table has got since it was filled.
sub updates
{
	my ($table) = @_;
	$node->poll_query_until('postgres', 'SELECT pg_stat_force_next_flush() IS NOT NULL');
	return sql("SELECT n_tup_upd FROM pg_stat_all_tables WHERE relname = '$table'");
}

# A psql script that moves the clock on: a session notices between two
# statements, some time after the reload.
sub set_clock
{
	my ($seconds) = @_;
	return "ALTER SYSTEM SET pgqrs.clock_offset = '${seconds}s';\nALTER SYSTEM SET pgqrs.time_passed = '${seconds}s';\nSELECT pg_reload_conf() \\g /dev/null\n" . join '',
	  map { "SELECT pg_sleep($_) WHERE current_setting('pgqrs.clock_offset')::interval <> '${seconds}s' \\g /dev/null\n" }
	  0.001, 0.002, 0.005, 0.01, 0.1, 1, 10;
}

sql("SELECT pgqrs_create_queue('jobs'), pgqrs_create_workflow('flow')");
sql("SELECT pgqrs_register_worker('worker ' || g, '{jobs,flow}', 'host-' || g || '.example.com', 8080, 'v1.2.3', 10, '{\"zone\": \"a\"}')
	FROM generate_series(1, ${\ WORKERS}) g");

# An hour of signs of life, while a session looks on.
my $holder = $node->background_psql('postgres');
$holder->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
$holder->query_safe('SELECT count(*) FROM pgqrs_workers');
my @calls = split /\n/, sql(join '',
	map { set_clock($_ * FLUSH) . "SELECT count(pgqrs_heartbeat(worker_id)) FROM pgqrs_workers, generate_series(1, 5);\n" }
	1 .. HOUR / FLUSH);
is(scalar(grep { $_ == 5 * WORKERS } @calls), HOUR / FLUSH, 'the workers have called in each interval');
my $written = updates('pgqrs_workers');
cmp_ok($written, '<=', HOUR / FLUSH * WORKERS, 'calls write at most one row per worker and interval');
cmp_ok($written, '>=', HOUR / FLUSH * WORKERS / 2, 'calls write at least half of the rows');
note(sql("SELECT format('%s updates, %s of them HOT; %s pages', n_tup_upd, n_tup_hot_upd, pg_relation_size(relid) / 8192)
	FROM pg_stat_all_tables WHERE relname = 'pgqrs_workers'"));
is(bloated(), '', "no table or index has ${\ PAGES} pages");
is(sql("SELECT pgqrs_maintain()->'workers_stopped'"), '0', 'a pass stops none of these workers');

# Many clients in the name of one worker, and all of it on one queue: no client
# waits, and the calls write nothing but messages.
my $dir = PostgreSQL::Test::Utils::tempdir;
append_to_file("$dir/work", <<'SQL');
BEGIN;
SELECT pgqrs_heartbeat(1);
SELECT pgqrs_enqueue('jobs', '1');
COMMIT;
SELECT coalesce(max(message_id), 0) AS m, max(lease) AS lease, count(*) > 0 AS claimed FROM pgqrs_dequeue('jobs', 1) \gset
\if :claimed
SELECT pgqrs_extend_lease(:m, :lease, '1 min');
SELECT pgqrs_archive_message(:m, :lease);
\endif
SELECT pgqrs_trigger('flow');
SELECT coalesce(max(message_id), 0) AS m, max(lease) AS lease, count(*) > 0 AS claimed FROM pgqrs_dequeue('flow', 1) \gset
\if :claimed
BEGIN;
SELECT pgqrs_step_begin(:m, :lease, 'step');
SELECT pgqrs_step_complete(:m, :lease, 'step');
COMMIT;
SELECT pgqrs_complete_run(:m, :lease);
\endif
SQL
sql('UPDATE pgqrs_workers SET max_concurrent = NULL WHERE worker_id = 1');
my $before = updates('pgqrs_workers');
my $locks = $node->background_psql('postgres');
my $start = time;
my $clients = start_client($node, "\\! pgbench -n -c 16 -j 2 -M prepared -t 25 -f $dir/work '${\ $node->connstr('postgres')}' > $dir/out 2>&1; touch $dir/done\n");
my ($waits, $looks) = (0, 0);
until (-e "$dir/done")
{
	$waits += $locks->query_safe("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype IN ('tuple', 'transactionid')");
	$looks++;
}
finish_client($clients);
$locks->quit;
like(slurp_file("$dir/out"), qr{number of transactions actually processed: 400/400}, 'many work in the name of one');
is($waits, 0, "in $looks looks no backend waited for a row");
cmp_ok(updates('pgqrs_workers') - $before, '<=', (time - $start) / FLUSH + 2, 'calls write the row of the worker about once per interval');
is(updates($_), 0, "$_ was not written") for qw(pgqrs_queues pgqrs_workflows);
is(bloated(), '', 'no table or index has grown');

$holder->quit;
done_testing();
