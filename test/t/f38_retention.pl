# F38: the background worker removes 100,000 messages and runs that were kept
# long enough in batches of less than a second, and nothing else, while claims
# go on.  make retention does it with 10 million.
# F-numbers: docs/design/known-failures.md.
use strict;
use warnings;

use Pgqrs;
use Test::More;

use constant { ARCHIVED => 125_000, LIVE => 20_000 };

my $node = new_node('f38_retention', "fsync = off\nautovacuum = off\nmax_wal_size = 4GB\n");

sub sql
{
	return $node->safe_psql('postgres', @_);
}

# A week of history, kept for a day, dead letters for two.
sql('\set archived ' . ARCHIVED . "\n" . '\set live ' . LIVE . "\n" . '\i perf/size/load.sql');
sql(<<'SQL');
SELECT count(pgqrs_alter_queue(name, retention => '1 day', dead_retention => '2 days')) FROM pgqrs_queues;
CREATE VIEW ages AS SELECT message_id, run_id, pgqrs_now() - CASE outcome WHEN 'DEAD' THEN interval '2 days' ELSE '1 day' END - archived_at AS expired FROM pgqrs_archive;
CREATE TABLE expired AS SELECT message_id, run_id FROM ages WHERE expired >= '0';
CREATE TABLE kept AS SELECT message_id, run_id FROM ages WHERE expired < '-1 hour' UNION ALL SELECT message_id, run_id FROM pgqrs_messages;
CREATE TABLE kept_steps AS SELECT run_id, step_id FROM pgqrs_workflow_steps JOIN kept USING (run_id);
CREATE TABLE claims (message_id bigint, began timestamptz, ended timestamptz);
CREATE TABLE over ();
SQL
my ($messages, $runs) = split /\|/, sql('SELECT count(*) - count(run_id), count(run_id) FROM expired');
cmp_ok($messages + $runs, '>', 100_000, "there is enough to remove: $messages messages and $runs runs");
cmp_ok($runs, '>', 20_000, 'the expired history has more than 20,000 runs');

my $watch = start_client($node, '\i perf/retention/watch.sql');
my $claims = start_client($node, <<'SQL');
DO $$
DECLARE
	began timestamptz;
BEGIN
	WHILE NOT EXISTS (SELECT FROM over) LOOP
		began := clock_timestamp();
		INSERT INTO claims SELECT message_id, began, clock_timestamp() FROM pgqrs_dequeue('queue.1', visibility_timeout => '1 hour');
		COMMIT;
		PERFORM pg_sleep(0.002);
		COMMIT;
	END LOOP;
END
$$;
SQL
sql(q{ALTER SYSTEM SET pgqrs.paused = off});
sql('SELECT pg_reload_conf()');
ok($node->poll_query_until('postgres', 'SELECT NOT EXISTS (SELECT FROM expired JOIN pgqrs_archive USING (message_id))'), 'retention removes all expired messages');
sql('INSERT INTO over DEFAULT VALUES');
is(finish_client($claims), '', 'claims beside retention succeed');
sql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query ~ 'INSERT INTO batches' AND pid <> pg_backend_pid()});
finish_client($watch);

# The batches.
my ($batches, $longest) = split /\|/, sql('SELECT count(*), 1000 * extract(epoch FROM max(lasted)) FROM batches');
cmp_ok($batches, '>=', 5, "retention works in batches, of which $batches were seen");
cmp_ok($longest, '<', 1000, 'each batch takes less than a second');

# Claims.
my ($claimed, $slowest) = split /\|/, sql(<<'SQL');
SELECT count(DISTINCT message_id), 1000 * extract(epoch FROM max(ended - began)) FROM claims
WHERE began BETWEEN (SELECT min(begun) FROM batches) AND (SELECT max(begun + lasted) FROM batches)
SQL
cmp_ok($claimed, '>=', 100, "$claimed claims went on meanwhile");
cmp_ok($slowest, '<', 1000, 'each claim takes less than a second');

# What is left.
is(sql('SELECT count(*) FROM expired JOIN pgqrs_workflow_runs USING (run_id)'), '0', 'retention leaves no expired run');
is(sql('SELECT count(*) FROM expired JOIN pgqrs_workflow_steps USING (run_id)'), '0', 'retention leaves no step of an expired run');
is(sql('SELECT count(*) FROM kept WHERE message_id NOT IN (SELECT message_id FROM pgqrs_archive UNION ALL SELECT message_id FROM pgqrs_messages)'), '0',
	'retention keeps younger and live messages');
is(sql('SELECT count(*) FROM kept WHERE run_id IS NOT NULL AND run_id NOT IN (SELECT run_id FROM pgqrs_workflow_runs)'), '0', 'retention keeps their runs');
is(sql('SELECT count(*) FROM kept_steps LEFT JOIN pgqrs_workflow_steps s USING (run_id, step_id) WHERE s.run_id IS NULL'), '0', 'retention keeps their steps');

done_testing();
