# Counters beyond one session: stops and crashes of the server, more queues than
# shared memory has slots for, readers beside writers and flushes, other
# databases, a standby, a dump.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# 64 slots; a flush when the test asks for one
my $node = new_node('counters', "fsync = off\npgqrs.max_floors = 0\nautovacuum = off\n", allows_streaming => 1);

sub sql
{
	my ($query, $database) = @_;
	return $node->safe_psql($database // 'postgres', $query);
}

my $sums = "SELECT concat_ws(' ', sum(sent), sum(claimed), sum(done), round(sum(wait_seconds)::numeric, 3) = round((SELECT sum(earlier[7] + counts[7]) FROM pgqrs_counters)::numeric / 1e6, 3)) FROM pgqrs_queue_stats";
my $counts = "SELECT concat_ws(' ', sum(sent), sum(claimed), sum(done)) FROM pgqrs_queue_stats";

# A clean stop.
sql("SELECT pgqrs_create_queue('a'); SELECT pgqrs_enqueue_batch('a', '{1,2,3}')");
is(sql('SELECT count(*) FROM pgqrs_counters'), '0', 'nothing is flushed while background work is paused');
$node->restart;
is(sql($counts), '3 0 0', 'a clean stop loses no count');
ok(!-e $node->data_dir . '/pg_stat/pgqrs.counters', 'the file of the stop is gone after the start');
sql("SELECT pgqrs_enqueue('a', '4')");
$node->restart;
is(sql($counts), '4 0 0', 'the next stop loses none either');

# A crash.
sql('SELECT pgqrs_maintain()');
sql("SELECT pgqrs_enqueue_batch('a', '{5,6}')");
is(sql($counts), '6 0 0', 'counts are there before they are flushed');
my $client = start_client($node, 'SELECT pg_sleep(1000)');
my $pid;
$node->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE '%1000%' AND pid <> pg_backend_pid()");
$pid = sql("SELECT pid FROM pg_stat_activity WHERE query LIKE '%1000%' AND pid <> pg_backend_pid()");
kill 'KILL', $pid;
eval { finish_client($client) };
$node->stop('immediate', fail_ok => 1) if -e $node->data_dir . '/postmaster.pid';
$node->_update_pid(0);
$node->start;
is(sql($counts), '4 0 0', 'a crash loses what was counted since the last flush, and no more');
sql("SELECT pgqrs_enqueue('a', '7')");
is(sql($counts), '5 0 0', 'a counter goes on from the last flush');

# An immediate stop is a crash, although the postmaster ends without an error.
sql('SELECT pgqrs_maintain()');
sql("SELECT pgqrs_enqueue('a', '8')");
$node->stop('immediate');
$node->start;
is(sql($counts), '5 0 0', 'counts that an immediate stop saved are not trusted');

# A file that cannot be written.
my $file = $node->data_dir . '/pg_stat/pgqrs.counters.tmp';
mkdir $file or die $!;
$node->restart;
rmdir $file;
is(log_count($node, qr{could not open file "pg_stat/pgqrs.counters.tmp"}), 1, 'a stop that cannot save the counters says why');
is(sql($counts), '5 0 0', 'and what was flushed is there after it');

# More queues than slots.
sql("SELECT pgqrs_create_queue('q' || n) FROM generate_series(1, 200) n");
sql("SELECT pgqrs_maintain()");
sql("SELECT pgqrs_enqueue('q' || n, '1') FROM generate_series(1, 200) n");
is(sql($counts), '205 0 0', 'with more queues than slots the counters are exact');
cmp_ok(sql('SELECT count(*) FROM pgqrs_counters WHERE epoch < 0'), '>', 100, 'the counts without a slot are rows of the transactions');
sql('SELECT pgqrs_maintain()');
is(sql($counts), '205 0 0', 'the counters are as exact after a flush');
is(sql('SELECT count(*) FROM pgqrs_counters WHERE epoch < 0'), '0', 'a flush leaves one row per queue');
sql("SELECT pgqrs_enqueue('q' || n, '1') FROM generate_series(1, 30) n") for 1 .. 2;
sql("SELECT pgqrs_maintain(); SELECT pgqrs_enqueue('q' || n, '1') FROM generate_series(100, 130) n; SELECT pgqrs_maintain()");
is(sql($counts), '296 0 0', 'a queue that takes the slot of another one changes no counter of either');

# Readers beside writers and flushes see counters that only grow.
my @writers = map { start_client($node, "SELECT setseed(0.$_);\n"
	  . "SELECT pgqrs_enqueue('q' || (1 + (random() * 199)::int), '1') \\g /dev/null\n" x 400
	  . "SELECT count(pgqrs_archive_message(message_id, lease)) FROM pgqrs_dequeue('*') \\g /dev/null\n" x 200) } 1, 2;
my $flusher = start_client($node, "SELECT pgqrs_maintain() \\g /dev/null\n" x 60);
my $reader = start_client($node, q{
	CREATE TEMP TABLE seen AS SELECT queue, sent, claimed, done, wait_seconds, work_seconds FROM pgqrs_queue_stats;
	DO $$
	DECLARE
		wrong text;
	BEGIN
		FOR i IN 1 .. 60 LOOP
			CREATE TEMP TABLE now AS SELECT queue, sent, claimed, done, wait_seconds, work_seconds FROM pgqrs_queue_stats;
			SELECT string_agg(format('%s then %s', s, n), ', ') INTO wrong FROM now n JOIN seen s USING (queue)
				WHERE n.sent < s.sent OR n.claimed < s.claimed OR n.done < s.done OR n.wait_seconds < s.wait_seconds OR n.work_seconds < s.work_seconds;
			IF wrong IS NOT NULL THEN RAISE '%', wrong; END IF;
			DROP TABLE seen;
			ALTER TABLE now RENAME TO seen;
		END LOOP;
	END $$;
	SELECT 'grew'});
is(finish_client($reader), 'grew', 'a reader beside writers and flushes never sees a counter fall');
finish_client($_) for @writers, $flusher;
is(sql($counts), join(' ', 296 + 800, 400, 400), 'two writers of 200 queues beside flushes are counted exactly');
sql('SELECT pgqrs_maintain()') for 1 .. 2;
is(sql($sums), join(' ', 296 + 800, 400, 400, 't'), 'a flush stores all');

# A commit while the background worker stores the counters of its queue.
sql(q{ALTER SYSTEM SET pgqrs.heartbeat_flush = '100ms';
	CREATE FUNCTION wait_for_gate(bigint) RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM pg_advisory_xact_lock_shared(53);
		RETURN $1;
	END $$;
	CREATE INDEX gate ON pgqrs_counters (public.wait_for_gate(queue_id));
	SELECT pgqrs_create_queue('beside')});
my $gate = start_client($node, "SET application_name = gate;
SELECT pg_advisory_lock(53);
SELECT pg_sleep(1000)");
$node->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND granted");
sql("SELECT pgqrs_enqueue('beside', '1')");
sql('ALTER SYSTEM SET pgqrs.paused = off');
$node->reload;
$node->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted");
sql("SELECT pgqrs_enqueue('beside', '2')");
sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'gate'");
eval { finish_client($gate) };
ok($node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pgqrs_counters WHERE queue_id = (SELECT queue_id FROM pgqrs_queues WHERE name = 'beside') AND counts[1] = 2"), 'a commit during a flush is stored by the next one');
sql('ALTER SYSTEM SET pgqrs.paused = on');
$node->reload;
$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'pgqrs worker'");
sql('DROP INDEX gate; DROP FUNCTION wait_for_gate');

# A reader whose queue loses its slot, and another one, while it reads.
sql("SELECT pgqrs_enqueue('q1', '1')");
sql('SELECT pgqrs_maintain()');
my $q1 = sql("SELECT queue_id FROM pgqrs_queues WHERE name = 'q1'");
my $exact = sql("SELECT (pgqrs_counters_of($q1))[1]");
my $flushing = start_client($node, "BEGIN;
	LOCK TABLE pgqrs_counters;
	DO \$\$ BEGIN WHILE NOT EXISTS (SELECT FROM pgqrs_queues WHERE name = 'displaced') LOOP PERFORM pg_sleep(0.02); END LOOP; END \$\$;
	UPDATE pgqrs_counters SET epoch = 42, counts = '{0}',
		earlier = (SELECT array_agg(a + b ORDER BY n) FROM unnest(earlier, counts) WITH ORDINALITY AS u (a, b, n)) WHERE queue_id = $q1;
	COMMIT");
$node->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_locks WHERE relation = 'pgqrs_counters'::regclass AND mode = 'AccessExclusiveLock' AND granted");
my $reading = start_client($node, "SET application_name = reading;\nSELECT (pgqrs_counters_of($q1))[1]");
waits_for_lock($node, 'reading');
sql("SELECT pgqrs_enqueue('q' || n, '1') FROM generate_series(2, 65) n");
sql("SELECT pgqrs_create_queue('displaced')");
finish_client($flushing);
is(finish_client($reading), $exact, 'a reader counts nothing twice whose queue has lost its slot meanwhile');
sql('SELECT pgqrs_maintain()');

# Another database, with the same ids; DROP EXTENSION.
sql('CREATE DATABASE other');
sql("CREATE EXTENSION pgqrs; SELECT pgqrs_create_queue('a'); SELECT pgqrs_enqueue('a', '1')", 'other');
is(sql($counts, 'other'), '1 0 0', 'databases count apart');
sql("DROP EXTENSION pgqrs; CREATE EXTENSION pgqrs; SELECT pgqrs_create_queue('a')", 'other');
is(sql($counts, 'other'), '0 0 0', 'an extension that is created again begins at 0');
sql("BEGIN; SELECT pgqrs_enqueue('a', '1'); SET TRANSACTION READ ONLY; COMMIT; BEGIN; SELECT pgqrs_enqueue('a', '1'); DROP EXTENSION pgqrs; COMMIT", 'other');
sql("CREATE EXTENSION pgqrs; SELECT pgqrs_create_queue('q' || n) FROM generate_series(1, 64) n", 'other');
sql("SELECT pgqrs_enqueue('q' || n, '1') FROM generate_series(1, 64) n", 'other');
my $spilled = 'SELECT count(*) FROM pgqrs_counters WHERE epoch < 0';
sql("SELECT pgqrs_enqueue('q1', '1')");
is(sql($spilled), '1', 'the test has no free slot');
sql('DROP EXTENSION pgqrs', 'other');
sql("ALTER SYSTEM SET pgqrs.databases = 'other'");
sql('ALTER SYSTEM SET pgqrs.paused = off');
$node->reload;
my ($was, $is) = (0, 1);
for (my $end = time + $PostgreSQL::Test::Utils::timeout_default; $was != $is && time < $end;)
{
	$was = sql($spilled);
	sql("SELECT pgqrs_enqueue('q1', '1')");
	$is = sql($spilled);
}
is($is, $was, 'the slots of an extension that was dropped become free');
sql('ALTER SYSTEM SET pgqrs.paused = on');
sql('ALTER SYSTEM RESET pgqrs.databases');
$node->reload;
sql('SELECT pgqrs_maintain()');
sql('DROP DATABASE other');

# A dump.
$node->command_ok([ 'pg_dump', '-d', $node->connstr('postgres'), '-f', $node->data_dir . '/../dump.sql' ], 'pg_dump succeeds');
sql('CREATE DATABASE restored');
$node->command_ok([ 'psql', '-Xqv', 'ON_ERROR_STOP=1', '-d', $node->connstr('restored'), '-f', $node->data_dir . '/../dump.sql' ], 'psql restores the dump');
is(sql($counts, 'restored'), sql($counts), 'a restored database has the counters');
sql("SELECT pgqrs_enqueue('a', '8'); SELECT pgqrs_maintain()", 'restored');
is(sql("SELECT sent FROM pgqrs_queue_stats WHERE queue = 'a'", 'restored'), '6', 'a restored queue counts on');

# A standby, and a copy of a stopped server.
$node->backup('copy');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'copy', has_streaming => 1);
$standby->start;
my $before = sql($counts);
sql("SELECT pgqrs_enqueue_batch('a', '{1,2,3}'); SELECT pgqrs_maintain()");
$node->wait_for_catchup($standby);
is($standby->safe_psql('postgres', $counts), sql($counts), 'a standby has what was flushed');
sql("SELECT pgqrs_enqueue('a', '9')");
$node->stop;
$standby->promote;
$standby->safe_psql('postgres', "SELECT pgqrs_enqueue('a', '10')");
my ($sent) = split / /, $before;
is($standby->safe_psql('postgres', $counts), join(' ', $sent + 4, 400, 400), 'a promoted standby counts on from the last flush');
$node->start;
is(sql($counts), join(' ', $sent + 4, 400, 400), 'the old primary has its own');

done_testing();
