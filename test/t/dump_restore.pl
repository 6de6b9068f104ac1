# The life of a database, F37 as far as it goes: dump and restore, templates,
# DROP and CREATE EXTENSION, rolled back and not, in sessions that remember
# what was there before.
# F-numbers: docs/design/known-failures.md.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('dump_restore', "fsync = off\n");
my $dir = PostgreSQL::Test::Utils::tempdir;

sub sql
{
	my ($query, $database) = @_;
	return $node->safe_psql($database // 'postgres', $query);
}

# All rows of all tables, and what the sequences say, sorted.
sub contents
{
	my ($database) = @_;
	my $query = sql("SELECT string_agg(format('SELECT %L, %s::text FROM %s AS r', relname,
			CASE relkind WHEN 'S' THEN '(last_value, is_called)' ELSE 'r' END, oid::regclass), ' UNION ALL ')
		FROM pg_class WHERE relname LIKE 'pgqrs%' AND relkind IN ('r', 'S')", $database);
	return sql("$query ORDER BY 1, 2", $database);
}

# What the extension left behind.
sub remains
{
	my ($database) = @_;
	return sql("SELECT string_agg(name, ' ') FROM (SELECT relname AS name FROM pg_class UNION ALL SELECT proname FROM pg_proc
		UNION ALL SELECT typname FROM pg_type UNION ALL SELECT extname FROM pg_extension
		UNION ALL SELECT defaclrole::text FROM pg_default_acl) o WHERE name LIKE '%pgqrs%'", $database);
}

sql('CREATE ROLE tom; CREATE ROLE kim');
sql('CREATE DATABASE one');
sql('CREATE SCHEMA "a b"; CREATE EXTENSION pgqrs SCHEMA "a b"', 'one');
sql(q(ALTER DATABASE one SET search_path = "a b"));

sql(<<'SQL', 'one');
SELECT pgqrs_create_queue('jobs', '1 hour', max_attempts => 2), pgqrs_create_queue('team.a"b', '90 s', 7, 3, '1 day', '2 days'),
	pgqrs_create_workflow('flow', max_attempts => 9, visibility_timeout => '1 hour', non_retryable => '{a,b}', timeout => '1 day');
SELECT pgqrs_pause_queue('team.a"b');
SELECT pgqrs_grant('jobs', 'tom', 'trigger'), pgqrs_grant('team.*', 'tom', 'work'), pgqrs_grant('*', 'kim', 'admin');
SELECT pgqrs_register_worker('w', '{*}', 'host', 80, 'v1', 4, '{"a": 1}');
SELECT pgqrs_enqueue('jobs', '"dead"');
SELECT pgqrs_nack_message(message_id, lease, '{"type": "x"}', '0') FROM pgqrs_dequeue('jobs');
SELECT pgqrs_nack_message(message_id, lease, '{"type": "y"}', '0') FROM pgqrs_dequeue('jobs');
SELECT pgqrs_enqueue('jobs', '"done"');
SELECT pgqrs_archive_message(message_id, lease) FROM pgqrs_dequeue('jobs');
SELECT pgqrs_enqueue('jobs', '"held"', headers => '{"h": "1"}');
CREATE TABLE held AS SELECT message_id, lease FROM pgqrs_dequeue('jobs');
SELECT pgqrs_enqueue('jobs', '"live"', priority => 7, idempotency_key => 'key'), pgqrs_enqueue('jobs', '"later"', delay => '1 h');
SELECT pgqrs_trigger('flow', '"held"', idempotency_key => 'key', tags => '{"t": "1"}');
CREATE TABLE held_run AS SELECT run_id, lease FROM pgqrs_dequeue('flow');
SELECT pgqrs_step_begin(run_id, lease, 'a', '1'), pgqrs_step_complete(run_id, lease, 'a', '"stored"'), pgqrs_step_begin(run_id, lease, 'b'),
	pgqrs_set_progress(run_id, lease, '0.5') FROM held_run;
SELECT pgqrs_trigger('flow', '"failed"', priority => 9);
SELECT pgqrs_step_fail(run_id, lease, 's', '{"type": "a"}') FROM pgqrs_dequeue('flow');
SELECT pgqrs_trigger('flow', '"ended"', priority => 9);
SELECT pgqrs_complete_run(run_id, lease, '"output"') FROM pgqrs_dequeue('flow');
SELECT pgqrs_trigger('flow', '"queued"');
SELECT pgqrs_create_queue('deleted'), pgqrs_create_workflow('deleted flow');
SELECT pgqrs_enqueue('deleted', '1'), pgqrs_trigger('deleted flow');
SELECT pgqrs_delete_queue('deleted', force => true), pgqrs_delete_workflow('deleted flow', force => true);
-- filled by later versions
INSERT INTO pgqrs_run_signals (signal_id, run_id, sent_at, name) SELECT 100, run_id, now(), 'signal' FROM held_run;
INSERT INTO pgqrs_schedules (schedule_id, max_catchup, overlap, priority, enabled, owner, name, cron, timezone, workflow)
	VALUES (5, 1, 'skip', 0, true, current_user, 'nightly', '@daily', 'UTC', 'flow');
INSERT INTO pgqrs_schedule_firings VALUES (5, now(), now(), 1);
INSERT INTO pgqrs_run_events VALUES (7, 1, now(), 'event', '{}');
INSERT INTO pgqrs_counters VALUES (1, 1, '{1}', '{2}');
INSERT INTO pgqrs_workflow_run_parents SELECT run_id, run_id + 1000, 'cancel', 'child' FROM held_run;
SELECT setval('pgqrs_signal_id_seq', 100), setval('pgqrs_schedule_id_seq', 5), setval('pgqrs_event_id_seq', 7);
SQL
my $original = contents('one');
is(scalar(() = sql("SELECT relname FROM pg_class WHERE relname LIKE 'pgqrs%' AND relkind IN ('r', 'S')", 'one') =~ /\w+/g),
	scalar(keys %{ { map { /^(\w+)/ => 1 } split /\n/, $original } }), 'every table has rows');

# Three ways to copy it.
command_ok([ 'pg_dump', '-Fc', '-f', "$dir/custom", $node->connstr('one') ], 'pg_dump writes a custom archive');
sql('CREATE DATABASE two');
command_ok([ 'pg_restore', '-e', '-d', $node->connstr('two'), "$dir/custom" ], 'pg_restore restores the custom archive without an error');
command_ok([ 'pg_dump', '-f', "$dir/plain", $node->connstr('one') ], 'pg_dump writes a script');
sql('CREATE DATABASE three');
command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('three'), '-f', "$dir/plain" ], 'psql runs the script without an error');
sql('CREATE DATABASE four TEMPLATE one');

# Statements as a role.
sub as
{
	my ($role, $query, $database) = @_;
	return sqlstate($node, "SET SESSION AUTHORIZATION $role; $query", $database);
}

for my $database ('two', 'three', 'four')
{
	sql(qq(ALTER DATABASE $database SET search_path = "a b"));
	is(contents($database), $original, "$database: tables and sequences have the contents of the original");
	is(sql("SELECT count(*) FROM pg_proc p WHERE proname LIKE 'pgqrs%' AND has_function_privilege('public', p.oid, 'EXECUTE')", $database),
		'0', "$database: PUBLIC may execute no function");

	my $last = sql('SELECT last_value FROM pgqrs_message_id_seq', $database);
	cmp_ok(sql("SELECT pgqrs_enqueue('jobs', '\"new\"')", $database), '>', $last, "$database: a new message has a higher id than those before the copy");
	is(as('tom', "SELECT pgqrs_enqueue('jobs', '\"tom\"')", $database), '', "$database: a role with the privilege trigger sends a message");
	is(as('tom', "SELECT pgqrs_dequeue('jobs')", $database), '42501', "$database: a role with the privilege trigger may not claim");
	is(as('tom', "SELECT pgqrs_dequeue('team.*')", $database), '', "$database: a role that was granted a pattern claims by it");
	is(as('kim', "SELECT pgqrs_create_queue('kim')", $database), '', "$database: a role with the privilege admin creates a queue");
	is(sql("SELECT pgqrs_enqueue('team.a\"b', '1') > 0, (SELECT count(*) FROM pgqrs_dequeue('team.a\"b'))", $database), 't|0',
		"$database: a queue that was paused takes messages and delivers none");
	is(sql("SELECT pgqrs_enqueue('jobs', '1', idempotency_key => 'key') = (SELECT message_id FROM pgqrs_messages WHERE payload = '\"live\"')", $database), 't',
		"$database: an idempotency key returns the message that has it");
	is(sql('SELECT pgqrs_heartbeat(worker_id) FROM pgqrs_workers', $database), 'READY', "$database: a registered worker is READY");
	is(sql('SELECT extended FROM held, pgqrs_extend_lease(message_id, lease)', $database), 't', "$database: a worker extends a lease from before the copy");
	is(sqlstate($node, 'SELECT pgqrs_archive_message(message_id, lease) FROM held', $database), '', "$database: a worker archives the message of that lease");
	is(sql("SELECT payload FROM pgqrs_dequeue('jobs')", $database), '"live"', "$database: a claim returns the next message");
	is(sqlstate($node, "SELECT pgqrs_enqueue('deleted', '1')", $database), 'PQ001', "$database: a queue that was deleted is absent");
	is(sql('SELECT count(*) FROM pgqrs_queues WHERE deleted_at IS NOT NULL', $database), '2', "$database: rows of the deleted queues are still to be removed");
	sql('SELECT pgqrs_maintain()', $database);
	is(sql("SELECT count(*) FROM pgqrs_queues LEFT JOIN pgqrs_messages USING (queue_id) LEFT JOIN pgqrs_workflow_runs ON workflow_id = queue_id WHERE name LIKE 'deleted%'", $database), '0',
		"$database: maintenance removes the rows of the deleted queues");
	is(sql('SELECT pgqrs_replay_message(message_id), queue, last_error->>\'type\' FROM pgqrs_dead_letters WHERE run_id IS NULL', $database), '|jobs|y',
		"$database: a dead letter of the queue is replayed");
	is(sql("SELECT should_execute, output FROM held_run, pgqrs_step_begin(run_id, lease, 'a')", $database), 'f|"stored"', "$database: a step that is done returns its output");
	is(sql("SELECT should_execute, attempt FROM held_run, pgqrs_step_begin(run_id, lease, 'b')", $database), 't|1', "$database: a step that has begun keeps attempt 1 under the same lease");
	is(sqlstate($node, "SELECT pgqrs_complete_run(run_id, lease, '\"end\"') FROM held_run", $database), '', "$database: a worker completes the run under its lease");
	is(sql("SELECT r.status, r.output FROM held_run, pgqrs_result(run_id) r", $database), 'SUCCESS|"end"', "$database: the result of the run is stored");
	is(sql("SELECT pgqrs_trigger('flow', idempotency_key => 'key') = run_id FROM held_run", $database), 't', "$database: the idempotency key of the run returns it");
	is(sql("SELECT input FROM pgqrs_get_run((SELECT run_id FROM pgqrs_dequeue('flow')))", $database), '"queued"', "$database: a claim returns the next run with its input");
}
is(contents('one'), $original, 'calls in the copies change nothing in the original');

# Two databases do not see each other, also where all OIDs and ids are equal.
sql("SELECT pgqrs_create_queue('limited', max_in_flight => 1); SELECT pgqrs_enqueue('limited', '\"one\"')", 'one');
sql('CREATE DATABASE five TEMPLATE one');
sql('ALTER DATABASE five SET search_path = "a b"');
sql("UPDATE pgqrs_messages SET payload = '\"five\"' WHERE payload = '\"one\"'", 'five');
my $one = $node->background_psql('one');
$one->query_safe('BEGIN');
is($one->query_safe("SELECT payload FROM pgqrs_dequeue('limited')"), '"one"', 'a claim in one database takes its message and the place of max_in_flight');
is(sql("SELECT payload FROM pgqrs_dequeue('limited')", 'five'), '"five"', 'an open claim in one database does not limit the queue with the same id in another');
is($one->query_safe("SELECT count(*) FROM pgqrs_runs r JOIN pgqrs_steps USING (run_id)"),
	sql("SELECT count(*) FROM pgqrs_runs r JOIN pgqrs_steps USING (run_id)", 'five'), 'both databases have the same runs and steps');
$one->query_safe('ROLLBACK');
sql("SELECT pgqrs_delete_queue('limited', force => true)", 'five');
is($one->query_safe("SELECT payload FROM pgqrs_dequeue('limited')"), '"one"', 'deleting the queue in one database leaves that of the other one');

# DROP EXTENSION: all of it, but what is not its own.
isnt(remains('one'), '', 'the catalogs have objects of an installed extension');
is(sqlstate($node, 'DROP EXTENSION pgqrs', 'one'), '', 'DROP EXTENSION succeeds');
is(remains('one'), '', 'DROP EXTENSION leaves no object of the extension');
is(sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'a b'", 'one'), '1', 'DROP EXTENSION leaves a schema that was there before');
is($one->query_safe("SELECT to_regproc('pgqrs_enqueue') IS NULL"), 't', 'a session that has used the extension does not find its functions');
sql('CREATE EXTENSION pgqrs SCHEMA "a b"', 'one');
my $use = "SELECT pgqrs_create_queue('jobs'), pgqrs_enqueue('jobs', '1'), pgqrs_create_workflow('flow'), pgqrs_trigger('flow'),
	(SELECT payload FROM pgqrs_dequeue('jobs') WHERE attempt = 1 AND failures = 0)";
is($one->query_safe($use), '1|1|2|2|1', 'that session uses the extension that was created again');
is($one->query_safe('SELECT count(*) FROM pgqrs_runs'), '1', 'that session reads the new views');
sql('DROP SCHEMA "a b" CASCADE', 'one');
is(remains('one'), '', 'DROP SCHEMA CASCADE leaves no object of the extension');
$one->quit;

# CREATE and DROP in every order, seen by the session that does it and by one
# that remembers all.
my $doer = $node->background_psql('postgres', on_error_stop => 0);
my $other = $node->background_psql('postgres', on_error_stop => 0);
sql('DROP EXTENSION pgqrs');
my $new = '1|1|2|2|1';

sub used_by
{
	my ($session) = @_;
	return $session->query($use);
}

$doer->query('BEGIN; CREATE EXTENSION pgqrs');
is(used_by($doer), $new, 'the transaction that creates the extension uses it');
$doer->query('ROLLBACK');
is(remains('postgres'), '', 'a rolled back CREATE EXTENSION leaves no object');
$doer->query('CREATE EXTENSION pgqrs');
is(used_by($doer), $new, 'a session creates and uses the extension after a rolled back CREATE');
is($other->query('SELECT count(*) FROM pgqrs_queue_stats'), '2', 'another session sees the queues of the new extension');
$other->query('SELECT * FROM pgqrs_dequeue(NULL, pgqrs_register_worker(\'w\', \'{*}\'))');

$doer->query('BEGIN; DROP EXTENSION pgqrs; CREATE EXTENSION pgqrs');
is(used_by($doer), $new, 'a transaction that drops and creates the extension uses the new one');
$doer->query('ROLLBACK');
is($doer->query("SELECT pgqrs_enqueue('jobs', '1') > 1"), 't', 'after the rollback that session uses the old extension again');
is($other->query("SELECT count(*) FROM pgqrs_peek('jobs')"), '2', 'after the rollback another session finds the messages of the old extension');

$doer->query('BEGIN; SAVEPOINT s; DROP EXTENSION pgqrs; CREATE EXTENSION pgqrs');
is(used_by($doer), $new, 'the extension is dropped, created and used after a savepoint');
$doer->query('ROLLBACK TO s');
is($doer->query("SELECT count(*) FROM pgqrs_peek('jobs')"), '2', 'after ROLLBACK TO the session finds the messages of the old extension');
$doer->query('COMMIT');
is($other->query("SELECT count(*) FROM pgqrs_peek('jobs')"), '2', 'after that commit another session finds the messages of the old extension');

$doer->query('BEGIN; DROP EXTENSION pgqrs; CREATE EXTENSION pgqrs; COMMIT');
is(used_by($doer), $new, 'the session that has dropped and created the extension uses the new one');
is($other->query("SELECT count(*) FROM pgqrs_peek('jobs')"), '1', 'after that commit another session finds the messages of the new extension');
for (1 .. 3)
{
	$doer->query('DROP EXTENSION pgqrs');
	$doer->query('CREATE EXTENSION pgqrs');
	is(used_by($_ % 2 ? $doer : $other), $new, "a session uses the extension of DROP and CREATE number $_");
}
is($other->query('SELECT pgqrs_heartbeat(1)'), '', 'a worker of a dropped extension is unknown');
$doer->query('DROP EXTENSION pgqrs; CREATE SCHEMA "s 1"; CREATE EXTENSION pgqrs SCHEMA "s 1"');
(my $qualified = $use) =~ s/pgqrs_/"s 1".pgqrs_/g;
is($other->query($qualified), $new, 'a session uses the extension in another schema');
$doer->query('ALTER SCHEMA "s 1" RENAME TO "s 2"');
is($other->query('SELECT count(*) FROM "s 2".pgqrs_peek(\'jobs\')'), '1', 'a session uses the extension after its schema was renamed');
is(sqlstate($node, 'ALTER EXTENSION pgqrs SET SCHEMA public'), '0A000', 'ALTER EXTENSION SET SCHEMA is refused');

# A plan that was made before.
$other->query('SET search_path = "s 2"; PREPARE send AS SELECT pgqrs_enqueue(\'jobs\', \'1\'); PREPARE look AS SELECT count(*) FROM pgqrs_in_flight');
isnt($other->query('EXECUTE send'), '', 'a prepared statement sends a message') for 1 .. 7;
$doer->query('DROP EXTENSION pgqrs; CREATE EXTENSION pgqrs SCHEMA "s 2"; SET search_path = "s 2"; SELECT pgqrs_create_queue(\'jobs\')');
is($other->query('EXECUTE send'), '1', 'the prepared statement sends to the extension that was created again');
is($other->query('EXECUTE look'), '0', 'a prepared statement reads the view that was created again');
$doer->quit;
$other->quit;

done_testing();
