# pgqrs.audit: each event of a run, stored in the transaction of what it tells
# of, and seen by roles that may see the run.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('audit', "pgqrs.audit = on\n");

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

# The events of a run, and what data has under a key, if that is given.
sub events
{
	my ($run, $key) = @_;
	my $data = $key ? "coalesce(' ' || (data->>'$key'), '')" : "''";
	return sql("SELECT string_agg(event || $data, ', ' ORDER BY event_id) FROM pgqrs_events WHERE run_id = $run");
}

# What the last event of a run has to say, but for the role and the times.
sub last_data
{
	my ($run) = @_;
	return sql("SELECT event, data - 'role' - 'until' FROM pgqrs_events WHERE run_id = $run ORDER BY event_id DESC LIMIT 1");
}

sub trigger { return sql("SELECT pgqrs_trigger('job')") }
sub claim { return sql("SELECT lease FROM pgqrs_dequeue('job')") }

# Makes a message claimable, as time would.
sub due
{
	my ($run) = @_;
	sql("UPDATE pgqrs_messages SET visible_after = clock_timestamp() - interval '1 s' WHERE message_id = $run");
	return;
}

sub start
{
	my $run = trigger();
	return ($run, claim());
}

sub set_audit
{
	my ($value) = @_;
	sql("ALTER SYSTEM SET pgqrs.audit = $value");
	sql('SELECT pg_reload_conf()');
	$node->poll_query_until('postgres', "SELECT current_setting('pgqrs.audit') = '$value'") or die;
	return;
}

sql("SELECT pgqrs_create_workflow('job', initial_interval => '0', max_attempts => 2, max_crashes => 2)");

# The usual way of a run.
my ($run, $lease) = start();
is(events($run), 'created, claimed', 'triggering and claiming a run leave one event each');
is(last_data($run), 'claimed|{"attempt": 1}', 'the event of the first claim has attempt 1');
sql("SELECT pgqrs_step_begin($run, $lease, 'one')");
is(last_data($run), 'step_begun|{"attempt": 1, "step_id": "one"}', 'the event of a begun step names the step and attempt 1');
sql("SELECT pgqrs_step_begin($run, $lease, 'one')");
is(events($run), 'created, claimed, step_begun', 'a second begin under the same lease leaves no event');
sql("SELECT pgqrs_step_fail($run, $lease, 'one', '{\"type\": \"x\"}', retry_after => '1 h')");
is(events($run), 'created, claimed, step_begun, step_failed, retried', 'a step that fails leaves an event of its own and one of the retry');
is(last_data($run), 'retried|{"error": {"type": "x"}}', 'the event of the retry has the error of the step');
is(sql("SELECT data->'until' IS NOT NULL FROM pgqrs_events WHERE run_id = $run AND event = 'retried'"), 't', 'the event of the retry has the time from which the run is claimable');
due($run);
$lease = claim();
is(last_data($run), 'claimed|{"attempt": 2}', 'the event of the second claim has attempt 2');
sql("SELECT pgqrs_step_begin($run, $lease, 'one')");
is(last_data($run), 'step_begun|{"attempt": 2, "step_id": "one"}', 'the event of the step that begins again has attempt 2');
sql("SELECT pgqrs_step_complete($run, $lease, 'one')");
is(last_data($run), 'step_done|{"attempt": 2, "step_id": "one"}', 'the event of the completed step has its attempt');
sql("SELECT pgqrs_step_complete($run, $lease, 'one')");
sql("SELECT pgqrs_step_complete($run, $lease, 'two')");
is(last_data($run), 'step_done|{"attempt": 1, "step_id": "two"}', 'the event of a step that was completed without a begin has attempt 1');
sql("SELECT pgqrs_complete_run($run, $lease)");
sql("SELECT pgqrs_complete_run($run, $lease)");
is(last_data($run), 'finished|{"attempt": 2}', 'the event of the end has the attempt of the run');
is(events($run), 'created, claimed, step_begun, step_failed, retried, claimed, step_begun, step_done, step_done, finished',
	'the events of a run come in order, and repeated calls leave none');
is(sql("SELECT bool_and(data->>'role' = 'postgres' AND workflow = 'job' AND at BETWEEN created_at AND completed_at + interval '1 s') FROM pgqrs_events e JOIN pgqrs_runs r USING (run_id, workflow) WHERE run_id = $run"),
	't', 'each event has the role that called and a time within the life of the run');

# Failures of the run itself; replay; what a step may fail with.
($run, $lease) = start();
sql("SELECT pgqrs_fail_run($run, $lease, '{\"type\": \"a\"}', retryable => true)");
is(last_data($run), 'retried|{"error": {"type": "a"}}', 'a run that fails and is retried leaves an event with its error');
$lease = claim();
sql("SELECT pgqrs_step_fail($run, $lease, 's', '{\"type\": \"b\"}', retryable => false, fail_run => false)");
is(last_data($run), 'step_failed|{"error": {"type": "b"}, "attempt": 1, "step_id": "s"}', 'a step that fails for good leaves its error, attempt and id');
sql("SELECT pgqrs_fail_run($run, $lease, '{\"type\": \"c\"}')");
is(last_data($run), 'dead|{"error": {"type": "c"}, "attempt": 2}', 'a run that fails for good leaves an event with the error and the attempt');
sql("SELECT pgqrs_replay_message($run)");
is(last_data($run), 'replayed|{}', 'a replay leaves an event');
$lease = claim();
sql("SELECT pgqrs_step_fail($run, $lease, 's', '{\"type\": \"d\"}', retryable => false)");
is(events($run), 'created, claimed, retried, claimed, step_failed, dead, replayed, claimed, step_failed, dead', 'a replayed run whose step fails for good leaves the events of the claim, the step and the end');

# Reruns point at each other, and a deleted run keeps its events.
my $rerun = sql("SELECT pgqrs_rerun($run)");
is(last_data($run), qq(rerun|{"new_run_id": $rerun}), 'the event of a rerun names the new run');
is(last_data($rerun), qq(created|{"rerun_of": $run}), 'the first event of the new run names the run that it repeats');
sql("SELECT pgqrs_delete_run($rerun, 'mistake')");
is(events($rerun, 'reason'), 'created, cancelled mistake, deleted mistake', 'a live run is cancelled, then deleted');

# Crashes, revoked leases, deadlines: claims, the reaper, the maintenance.
($run, $lease) = start();
due($run);
$lease = claim();
is(last_data($run), 'claimed|{"attempt": 2, "failures": 1}', 'the event of the claim after a crash counts the failure');
due($run);
is(claim(), '', 'a run whose last lease has run out is not delivered');
is(events($run), 'created, claimed, claimed, dead', 'the claim that finds the last lease expired ends the run with an event');
is(sql("SELECT data->'error'->>'type' FROM pgqrs_events WHERE run_id = $run AND event = 'dead'"), 'max_crashes', 'the event names max_crashes as the error');
$run = sql("SELECT pgqrs_trigger('job', timeout => '1 h')");
sql("UPDATE pgqrs_messages SET deadline_at = clock_timestamp() - interval '1 s' WHERE message_id = $run");
sql('SELECT pgqrs_maintain()');
is(sql("SELECT data->'error'->>'type' FROM pgqrs_events WHERE run_id = $run AND event = 'dead'"), 'timeout', 'maintenance that ends a run past its deadline leaves an event with the error timeout');
my $worker = sql("SELECT pgqrs_register_worker('w', '{job}')");
$run = trigger();
sql("SELECT lease FROM pgqrs_dequeue(worker_id => $worker)");
is(last_data($run), qq(claimed|{"attempt": 1, "worker_id": $worker}), 'the event of a claim by a worker names the worker');
sql("SELECT pgqrs_stop_worker($worker)");
is(last_data($run), 'released|{"reason": "the worker was stopped"}', 'the event of a release names the worker that stopped');
$worker = sql("SELECT pgqrs_register_worker('v', '{job}')");
sql("SELECT lease FROM pgqrs_dequeue(worker_id => $worker)");
sql("UPDATE pgqrs_workers SET heartbeat_at = clock_timestamp() - interval '1 h' WHERE worker_id = $worker");
clock($node, '2 min');
sql('SELECT pgqrs_maintain()');
clock($node, '0');
is(last_data($run), 'released|{"reason": "the lease was revoked", "failures": 1}', 'revoking the lease of a silent worker leaves an event with the failure');
due($run);
$lease = claim();
sql("SELECT pgqrs_release_message($run, $lease, '1 h')");
is(events($run), 'created, claimed, released, claimed, released, claimed, released', 'a release by the holder of the lease leaves an event');
sql("SELECT pgqrs_set_visibility($run, now())");
is(events($run), 'created, claimed, released, claimed, released, claimed, released, rescheduled', 'moving a message by an operator leaves an event');

# Waits.
$lease = claim();
sql("SELECT pgqrs_pause_run($run, $lease, 'ask')");
is(last_data($run), 'paused|{"step_id": "ask", "waiting_for": "pause ask"}', 'the event of a pause names the step and the wait');
sql("SELECT pgqrs_resume_run($run)");
is(last_data($run), 'resumed|{"step_id": "ask"}', 'the event of a resume names the step');
sql("SELECT pgqrs_resume_run($run, 'ask')");
my $count = sql("SELECT count(*) FROM pgqrs_events WHERE run_id = $run");
$lease = claim();
sql("SELECT pgqrs_pause_run($run, $lease, 'ask')");
is(sql("SELECT count(*) FROM pgqrs_events WHERE run_id = $run"), $count + 1, 'a second resume and the answered pause leave no event but that of the claim');
sql("SELECT pgqrs_resume_run($run, 'nap'); SELECT pgqrs_sleep($run, $lease, 'nap', '0')");
is(sql("SELECT event || '|' || (data - 'role') FROM pgqrs_events WHERE run_id = $run ORDER BY event_id DESC OFFSET 1 LIMIT 1"),
	'resume_dropped|{"step_id": "nap"}', 'a resume for a step that is not a pause is dropped with an event');
is(last_data($run), 'step_done|{"attempt": 1, "step_id": "nap"}', 'a sleep that is over leaves the event of a completed step');
sql("SELECT pgqrs_await_signal($run, $lease, 'w', 'go')");
is(last_data($run), 'paused|{"step_id": "w", "waiting_for": "signal go"}', 'a wait for a signal leaves an event that names step and signal');
my $signal = sql("SELECT pgqrs_signal($run, 'go', idempotency_key => 'k')");
sql("SELECT pgqrs_signal($run, 'go', idempotency_key => 'k')");
is(last_data($run), qq(signalled|{"signal": "go", "signal_id": $signal}), 'a signal sent twice with one key leaves one event');
due($run);
$lease = claim();
sql("SELECT pgqrs_await_signal($run, $lease, 'w', 'go')");
my $child = sql("SELECT pgqrs_start_child($run, $lease, 'kid', 'job')");
is(last_data($run), qq(child_started|{"step_id": "kid", "child_run_id": $child}), 'the event of a started child names the step and the child');
is(last_data($child), qq(created|{"parent_run_id": $run}), 'the first event of the child names its parent');
my @children = split /,/, sql("SELECT trim('{}' FROM pgqrs_start_children($run, $lease, 'kids', 'job', ARRAY['1', '2']::jsonb[])::text)");
is(sql("SELECT string_agg(data->>'step_id' || ' ' || (data->>'child_run_id'), ', ' ORDER BY event_id) FROM pgqrs_events WHERE run_id = $run AND event = 'child_started' AND data->>'step_id' <> 'kid'"),
	"kids[1] $children[0], kids[2] $children[1]", 'children that are started together leave an event each, with their step ids');
sql("SELECT pgqrs_cancel_run($run, 'enough')");
is(last_data($run), 'cancel_requested|{"reason": "enough"}', 'the request to cancel a live run leaves an event with the reason');
sql("SELECT pgqrs_cancel_run($run, 'more')");
sql("SELECT pgqrs_acknowledge_cancel($run, $lease)");
is(last_data($run), 'cancelled|{"reason": "enough", "attempt": 6}', 'the end of the cancelled run has the reason of the first request');
is(sql("SELECT count(*) FROM pgqrs_events WHERE run_id = $run AND event LIKE 'cancel%'"), 2, 'a repeated request to cancel leaves no event');
is(events($_), 'created, cancelled', "the cancel of a run cancels child $_ and records an event of it") for $child, @children;

# Keys and batches: only what is created is.
sql("SELECT pgqrs_trigger('job', idempotency_key => 'k'), pgqrs_trigger('job', idempotency_key => 'k')");
is(sql("SELECT count(*) FROM pgqrs_events JOIN pgqrs_workflow_runs USING (run_id) WHERE idempotency_key = 'k'"), 1, 'a trigger that finds its key taken leaves no event');
sql(q{SELECT pgqrs_trigger_batch('job', ARRAY['1', '2']::jsonb[], ARRAY['l', NULL])});
is(sql(q{SELECT count(*) FROM pgqrs_runs JOIN pgqrs_events USING (run_id) WHERE input IN ('1', '2') AND parent_run_id IS NULL}), 2, 'each run of a batch with a key has one event');
sql(q{SELECT pgqrs_trigger_batch('job', ARRAY['3', '4']::jsonb[])});
is(sql(q{SELECT count(*) FROM pgqrs_runs JOIN pgqrs_events USING (run_id) WHERE input IN ('3', '4')}), 2, 'each run of a batch without keys has one event');
sql("SELECT pgqrs_purge_queue('job')");
is(sql(q{SELECT count(*) FROM pgqrs_runs JOIN pgqrs_events USING (run_id) WHERE input IN ('3', '4') AND event = 'cancelled'}), 2, 'purging the queue leaves the event of a cancellation for each run');

# With the change or not at all.
my $all = 'SELECT count(*) FROM pgqrs_run_events';
$count = sql($all);
sql("BEGIN; SELECT pgqrs_trigger('job'); SELECT lease FROM pgqrs_dequeue('job'); ROLLBACK");
sql("BEGIN; SAVEPOINT s; SELECT pgqrs_trigger('job'); ROLLBACK TO s; COMMIT");
is(sql($all), $count, 'a rollback leaves no event');
($run, $lease) = start();
sql("BEGIN; SELECT pgqrs_complete_run($run, $lease); ROLLBACK");
is(events($run), 'created, claimed', 'a rolled back end leaves no event');
is(sqlstate($node, "SELECT pgqrs_complete_run($run, 1)"), 'PQ006', 'an end under a wrong lease is refused');
is(events($run), 'created, claimed', 'the refused end leaves no event');

# The claim that a crash loses takes its event along.
sql('CHECKPOINT');
sql('SELECT pgqrs_trigger(\'job\') FROM generate_series(1, 5)');
sql("SELECT lease FROM pgqrs_dequeue('job', batch_size => 5)");
$node->stop('immediate');
$node->start;
is(sql(q{SELECT count(*) FROM pgqrs_runs r WHERE attempt <> (SELECT count(*) FROM pgqrs_events e WHERE e.run_id = r.run_id AND event = 'claimed') AND status IN ('QUEUED', 'RUNNING')}),
	0, 'after a crash each live run has as many events of claims as attempts');

# Off is off.
sql("SELECT pgqrs_purge_queue('job')");
set_audit('off');
$count = sql($all);
($run, $lease) = start();
sql("SELECT pgqrs_step_begin($run, $lease, 's'); SELECT pgqrs_step_complete($run, $lease, 's'); SELECT pgqrs_complete_run($run, $lease)");
is(sql($all), $count, 'calls record no event while the audit is off');
set_audit('on');

# A role that does not see a run sees none of its events.
sql(q{CREATE ROLE ada; CREATE ROLE bob; SELECT pgqrs_create_workflow('other'); SELECT pgqrs_grant('other', 'ada', 'work'), pgqrs_grant('job', 'bob', 'trigger')});
sql("SELECT pgqrs_trigger('other')");
is(sql('SET ROLE ada; SELECT DISTINCT workflow FROM pgqrs_events'), 'other', 'a role with a privilege on one workflow sees the events of that one');
is(sql('SET ROLE bob; SELECT DISTINCT workflow FROM pgqrs_events'), 'job', 'a role with a privilege on another workflow sees only the events of that');
$run = sql("SET ROLE bob; SELECT pgqrs_trigger('job')");
is(events($run, 'role'), 'created bob', 'the event has the role that was set when the run was triggered');

# A workflow is deleted with all that there was of it.
sql("SELECT pgqrs_delete_workflow('job', force => true)");
ok($node->poll_query_until('postgres', 'SELECT pgqrs_maintain() IS NULL OR NOT EXISTS (SELECT FROM pgqrs_queues WHERE deleted_at IS NOT NULL)'), 'maintenance removes the rows of a deleted workflow');
is(sql(q{SELECT count(*) FROM pgqrs_run_events e WHERE NOT EXISTS (SELECT FROM pgqrs_runs r WHERE r.run_id = e.run_id)}), 0, 'deleting a workflow leaves no event without its run');

$node->stop;
done_testing();
