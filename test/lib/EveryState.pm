# Work in every state, for the tests that take it elsewhere, and whether that goes on.
package EveryState;

use strict;
use warnings;

use Exporter qw(import);
use Pgqrs;
use Test::More;

our @EXPORT = qw(work_in_every_state undelivered contents goes_on);

# Puts it into a database that is empty; the role tom exists.  version: of the extension.
sub work_in_every_state
{
	my ($node, $database, $version) = @_;
	$node->safe_psql($database, defined $version ? "CREATE EXTENSION pgqrs VERSION '$version'" : 'CREATE EXTENSION pgqrs');
	$node->safe_psql($database, <<'SQL');
SELECT pgqrs_create_queue('jobs', '1 hour', max_attempts => 2), pgqrs_create_workflow('flow', visibility_timeout => '1 hour'), pgqrs_create_workflow('child');
SELECT pgqrs_grant('jobs', 'tom', 'trigger'), pgqrs_register_worker('w', '{*}');
SELECT pgqrs_schedule('nightly', '@daily', 'child', '"scheduled"');
CREATE TABLE held (state text, message_id bigint, run_id bigint, lease bigint);
CREATE PROCEDURE claim(state text, queue text, timeout interval = NULL) LANGUAGE sql AS
	$$ INSERT INTO held SELECT state, message_id, run_id, lease FROM pgqrs_dequeue(queue, visibility_timeout => timeout) $$;

SELECT pgqrs_enqueue('jobs', '"dead"');
SELECT pgqrs_nack_message(message_id, lease, '{"type": "x"}', '0') FROM pgqrs_dequeue('jobs');
SELECT pgqrs_nack_message(message_id, lease, '{"type": "x"}', '0') FROM pgqrs_dequeue('jobs');
SELECT pgqrs_enqueue('jobs', '"archived"');
SELECT pgqrs_archive_message(message_id, lease) FROM pgqrs_dequeue('jobs');
-- counters: these are flushed, what comes is not
SELECT pgqrs_maintain() IS NULL;
SELECT pgqrs_enqueue('jobs', '"retry"');
SELECT pgqrs_nack_message(message_id, lease, '{"type": "x"}', '1 hour') FROM pgqrs_dequeue('jobs');
SELECT pgqrs_enqueue('jobs', '"held"');
SELECT message_id FROM pgqrs_dequeue('jobs', worker_id => (SELECT worker_id FROM pgqrs_workers)) AS d;
SELECT pgqrs_enqueue('jobs', '"finishes"');
CALL claim('finishes', 'jobs');
SELECT pgqrs_enqueue('jobs', '"expired"');
CALL claim('expired', 'jobs', '1 us');
SELECT pgqrs_enqueue('jobs', '"ready"'), pgqrs_enqueue('jobs', '"urgent"', priority => 9), pgqrs_enqueue('jobs', '"key"', idempotency_key => 'k'),
	pgqrs_enqueue('jobs', '"delayed"', delay => '1 hour');

SELECT pgqrs_trigger('flow', '"failed"'); CALL claim('failed', 'flow');
SELECT pgqrs_fail_run(run_id, lease, '{"type": "x"}') FROM held WHERE state = 'failed';
SELECT pgqrs_trigger('flow', '"ended"', idempotency_key => 'ended'); CALL claim('ended', 'flow');
SELECT pgqrs_step_complete(run_id, lease, 'a', '1'), pgqrs_complete_run(run_id, lease, '"output"') FROM held WHERE state = 'ended';
SELECT pgqrs_trigger('flow', '"running"'); CALL claim('running', 'flow');
SELECT pgqrs_step_complete(run_id, lease, 'a', '"stored"'), pgqrs_step_begin(run_id, lease, 'b'), pgqrs_signal(run_id, 'unconsumed', '1') FROM held WHERE state = 'running';
SELECT pgqrs_trigger('flow', '"cancelled"'); CALL claim('cancelled', 'flow');
SELECT pgqrs_cancel_run(run_id) FROM held WHERE state = 'cancelled';
SELECT pgqrs_trigger('flow', '"run expired"'); CALL claim('run expired', 'flow', '1 us');
SELECT pgqrs_trigger('flow', '"sleep"', priority => 1); CALL claim('sleep', 'flow');
SELECT pgqrs_sleep(run_id, lease, 's', '1 hour') FROM held WHERE state = 'sleep';
SELECT pgqrs_trigger('flow', '"signal"', priority => 1); CALL claim('signal', 'flow');
SELECT pgqrs_await_signal(run_id, lease, 's', 'go') FROM held WHERE state = 'signal';
SELECT pgqrs_trigger('flow', '"pause"', priority => 1); CALL claim('pause', 'flow');
SELECT pgqrs_pause_run(run_id, lease, 'p') FROM held WHERE state = 'pause';
SELECT pgqrs_trigger('flow', '"parent"', priority => 1); CALL claim('parent', 'flow');
SELECT pgqrs_start_child(run_id, lease, 'c', 'child', '"child"') FROM held WHERE state = 'parent';
SELECT pgqrs_await_child(run_id, lease, 'c') FROM held WHERE state = 'parent';
SELECT pgqrs_trigger('flow', '"run retry"', priority => 1); CALL claim('run retry', 'flow');
SELECT pgqrs_step_fail(run_id, lease, 'f', '{"type": "x"}', retry_after => '1 hour') FROM held WHERE state = 'run retry';
SELECT pgqrs_trigger('flow', '"queued"', idempotency_key => 'queued');
-- runs that are to be undone: not yet claimed again, held, asked while a lease is live, undone, and failed
SELECT pgqrs_create_workflow('trip', visibility_timeout => '1 hour', on_cancel => 'deliver');
SELECT pgqrs_trigger('trip', '"undone"'), pgqrs_trigger('trip', '"not undone"'), pgqrs_trigger('trip', '"to undo"', priority => -1);
CALL claim('undone', 'trip'); CALL claim('not undone', 'trip'); CALL claim('to undo', 'trip');
SELECT pgqrs_step_complete(run_id, lease, 'book', '"seat"'), pgqrs_await_signal(run_id, lease, 'paid', 'paid'), pgqrs_cancel_run(run_id)
	FROM held WHERE state IN ('undone', 'not undone', 'to undo');
UPDATE held SET lease = d.lease FROM pgqrs_dequeue('trip', batch_size => 2) AS d WHERE d.run_id = held.run_id;
SELECT pgqrs_step_complete(run_id, lease, 'give back', '"seat"'), pgqrs_acknowledge_cancel(run_id, lease) FROM held WHERE state = 'undone';
SELECT pgqrs_fail_run(run_id, lease, '{"type": "x"}') FROM held WHERE state = 'not undone';
SELECT pgqrs_trigger('trip', '"undoing"', priority => 1); CALL claim('undoing', 'trip');
SELECT pgqrs_await_signal(run_id, lease, 'paid', 'paid'), pgqrs_cancel_run(run_id) FROM held WHERE state = 'undoing';
UPDATE held SET lease = d.lease FROM pgqrs_dequeue('trip') AS d WHERE d.run_id = held.run_id;
SELECT pgqrs_step_complete(run_id, lease, 'give back', '"seat"') FROM held WHERE state = 'undoing';
SELECT pgqrs_trigger('trip', '"asked"', priority => 1); CALL claim('asked', 'trip');
SELECT pgqrs_cancel_run(run_id) FROM held WHERE state = 'asked';
-- the highest id of a message is one that was taken in vain
BEGIN; SELECT pgqrs_enqueue('jobs', '"undone"'); ROLLBACK;
SQL
	return;
}

# The payloads and inputs of what is live.
sub undelivered
{
	my ($node, $database) = @_;
	my @payloads = sort split /\n/, $node->safe_psql($database, 'SELECT COALESCE(payload, input) FROM pgqrs_messages LEFT JOIN pgqrs_workflow_runs USING (run_id)');
	return @payloads;
}

# All rows of all tables, sorted; and where the sequences are.
sub contents
{
	my ($node, $database, $kinds) = @_;
	my $query = $node->safe_psql($database, "SELECT string_agg(format('SELECT %L, %s::text FROM %s AS r', relname,
			CASE relkind WHEN 'S' THEN '(last_value, is_called)' ELSE 'r' END, oid::regclass), ' UNION ALL ')
		FROM pg_class WHERE relname LIKE 'pgqrs%' AND relkind IN ($kinds)");
	# the ids of roles are taken anew where a grant is made or synced
	return $node->safe_psql($database, "$query ORDER BY 1, 2") =~ s/^(pgqrs_grants\|\("[^"]*",)-?\d*/$1/mgr;
}

# Goes on working until nothing is left; expected: the payloads that have not been delivered.
sub goes_on
{
	my ($node, $name, $database, @expected) = @_;
	my $sql = sub { return $node->safe_psql($database, $_[0]) };
	subtest $name => sub {
		is($sql->('SELECT check_name, detail FROM pgqrs_verify() WHERE NOT ok'), '', 'pgqrs_verify() finds no fault in the copy');
		my ($key, $id) = split /\n/, $sql->(q{SELECT pgqrs_enqueue('jobs', '1', idempotency_key => 'k') = (SELECT message_id FROM pgqrs_messages WHERE payload = '"key"')
				AND pgqrs_trigger('flow', idempotency_key => 'ended') = (SELECT run_id FROM pgqrs_workflow_runs WHERE input = '"ended"');
			SELECT pgqrs_enqueue('jobs', '"new"') > GREATEST((SELECT max(message_id) FROM pgqrs_archive), (SELECT max(run_id) FROM pgqrs_workflow_runs))});
		is($key, 't', 'keys of live and ended work are as unique as before');
		is($id, 't', 'a new message of the copy has a higher id than all before');
		is(sqlstate($node, q{SELECT pgqrs_archive_message(message_id, lease) FROM held WHERE state = 'finishes';
			SELECT pgqrs_complete_run(run_id, lease, '1') FROM held WHERE state = 'cancelled'}, $database), '', 'a lease is as good as before');
		is(sqlstate($node, q{SET SESSION AUTHORIZATION tom; SELECT pgqrs_enqueue('jobs', '"tom"')}, $database), '', 'a role with the privilege trigger sends a message in the copy');

		# without a pass, which would lower floors
		my $claimed = $sql->(q{SELECT payload #>> '{}' FROM pgqrs_dequeue('jobs', batch_size => 3, visibility_timeout => '1 us')});
		is($claimed, "urgent\nexpired\nready", 'claims in the copy return the messages that were ready');
		$sql->(q{SELECT count(pgqrs_set_visibility(message_id, now())) FROM pgqrs_messages JOIN pgqrs_queues USING (queue_id) LEFT JOIN pgqrs_workflow_runs USING (run_id)
				WHERE COALESCE(pgqrs_messages.waiting_for, 'cancel') = 'cancel' AND name <> 'child';
			SELECT pgqrs_signal(run_id, 'go'), pgqrs_resume_run((SELECT run_id FROM held WHERE state = 'pause'), 'p') FROM held WHERE state = 'signal';
			CREATE TABLE drained (what jsonb)});
		my $drain = q{INSERT INTO drained SELECT COALESCE(input, payload) FROM (SELECT d.payload, d.input,
				CASE WHEN run_id IS NULL THEN pgqrs_archive_message(message_id, lease)::text ELSE pgqrs_complete_run(run_id, lease, '1')::text END FROM pgqrs_dequeue('*', batch_size => 100) AS d) AS e;
			SELECT pgqrs_maintain() IS NULL};
		$sql->($drain) for 1 .. 3;
		is($sql->('SELECT what FROM drained ORDER BY what::text COLLATE "C"'), join("\n", sort '"new"', '"tom"', grep { !/"(?:finishes|cancelled)"/ } @expected), 'the copy delivers each message and run once');
		is($sql->('SELECT count(*) FROM pgqrs_messages'), '0', 'no message is left in the copy');
		is($sql->(q{SELECT count(pgqrs_replay_message(message_id)) FROM pgqrs_dead_letters WHERE queue = 'jobs' AND run_id IS NULL;
			SELECT payload FROM pgqrs_dequeue('jobs'); SELECT pgqrs_trigger_schedule('nightly') > 0}), "1\n\"dead\"\nt", 'a dead letter and a schedule go on');
		is($sql->('SELECT check_name, detail FROM pgqrs_verify() WHERE NOT ok'), '', 'pgqrs_verify() finds no fault in the copy after all work is done');
		is($sql->(q{SELECT count(bt_index_parent_check(c.oid, true)) >= 20 FROM pg_class c JOIN pg_am a ON a.oid = relam AND amname = 'btree' WHERE relname LIKE 'pgqrs%' AND relkind = 'i'}), 't', 'amcheck finds no fault in the indexes of the copy');
		is($sql->(q{SELECT count(v.msg) FROM pg_class c, verify_heapam(c.oid) v WHERE relname LIKE 'pgqrs%' AND relkind = 'r'}), '0', 'amcheck finds no fault in the tables of the copy');
	};
	return;
}

1;
