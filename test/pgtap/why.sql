-- pgqrs_why(): each reason for which a queue delivers nothing.
\ir include/runs.sql
SELECT * FROM no_plan();

CREATE FUNCTION pg_temp.why(queue text) RETURNS text LANGUAGE sql AS
$$ SELECT string_agg(reason, ',') FROM pgqrs_why(queue) WHERE reason <> 'background work' $$;
CREATE FUNCTION pg_temp.detail(queue text, what text) RETURNS text LANGUAGE sql AS
$$ SELECT detail FROM pgqrs_why(queue) WHERE reason = what $$;

SELECT pgqrs_create_queue('q'), pgqrs_create_queue('limited', max_in_flight => 1), pgqrs_create_workflow('job',
	initial_interval => '1 hour', jitter => 0) \g /dev/null

SELECT is(pg_temp.why('q'), 'no worker,empty', 'an empty queue without a worker says both');
SELECT matches(hint, 'unless the clients', 'a queue may be claimed from without a worker')
	FROM pgqrs_why('q') WHERE reason = 'no worker';
SELECT matches(hint, 'registers for the workflow', 'a workflow needs a worker')
	FROM pgqrs_why('job') WHERE reason = 'no worker';
SELECT is(detail, 'none runs in this database: paused', 'background work that is paused is told')
	FROM pgqrs_why('q') WHERE reason = 'background work';

SELECT pgqrs_register_worker('w', '{q,job,limited}', max_concurrent => 2) AS w \gset
SELECT is(pg_temp.why('q'), 'empty', 'a live worker is no reason');
SELECT pgqrs_suspend_worker(:w) \g /dev/null
SELECT is(pg_temp.why('q'), 'suspended,empty', 'a suspended worker claims nothing');
SELECT is(pg_temp.detail('q', 'suspended'), 'suspended workers: "w"', 'the suspended worker is named');
SELECT pgqrs_resume_worker(:w) \g /dev/null

-- messages
SELECT pgqrs_enqueue('q', '1') AS due, pgqrs_enqueue('q', '2', delay => '1 day') AS delayed \gset
SELECT is(pg_temp.why('q'), 'ready,delayed', 'due and delayed messages are told apart');
SELECT alike(pg_temp.detail('q', 'ready'), format('1 message (%s) claimable, %%', :due),
	'a claimable message is named');
SELECT pgqrs_pause_queue('q') \g /dev/null
SELECT is(pg_temp.why('q'), 'paused,ready,delayed', 'a paused queue delivers nothing');
SELECT pgqrs_resume_queue('q') \g /dev/null
SELECT lease FROM pgqrs_dequeue('q', :w) \gset
SELECT is(pg_temp.why('q'), 'in flight,delayed', 'a claimed message is in flight');
SELECT matches(pg_temp.detail('q', 'in flight'), format(
		'^1 message \(%s\) under a lease: %1$s by "w" \(pid %s, .*\) until ', :due, pg_backend_pid()),
	'the worker that holds a message is named');
SELECT pgqrs_nack_message(:due, :lease, delay => '1 hour') \g /dev/null
SELECT is(pg_temp.why('q'), 'backing off,delayed', 'a message that failed waits for its next try');

-- limits
SELECT pgqrs_enqueue('limited', '1') AS first, pgqrs_enqueue('limited', '2') AS second \gset
SELECT lease FROM pgqrs_dequeue('limited', :w) \gset
SELECT is(pg_temp.why('limited'), 'max_in_flight,ready,in flight', 'a limit that is used up keeps a due message');
SELECT matches(pg_temp.detail('limited', 'max_in_flight'),
	format('^the limit of 1 is used up: %s by "w" \(pid %s, .*\) until ', :first, pg_backend_pid()),
		'the detail names the message that uses up the limit');
SELECT pgqrs_alter_queue('limited', reset => '{max_in_flight}') \g /dev/null
SELECT lease FROM pgqrs_dequeue('limited', :w) \gset
SELECT is(pg_temp.why('limited'), 'max_concurrent,in flight', 'a worker that holds all it may claims nothing');
SELECT is(pg_temp.detail('limited', 'max_concurrent'), 'workers that hold all that they may: "w"',
	'the worker whose slots are full is named');
SELECT pgqrs_register_worker('w', '{q,job,limited}'), pgqrs_purge_queue('limited') \g /dev/null

-- runs
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_await_signal(:run, :lease, 'a', 'go') \g /dev/null
SELECT is(pg_temp.why('job'), 'waiting', 'a run that waits for a signal is told as waiting');
SELECT matches(pg_temp.detail('job', 'waiting'), format('^1 run \(%s\) waiting', :run), 'a run is called a run');
SELECT pgqrs_signal(:run, 'go') \g /dev/null
SELECT is(pg_temp.why('job'), 'ready', 'a run whose signal came is claimable');
SELECT pg_temp.claim(:run) AS lease \gset
SELECT pgqrs_step_begin(:run, :lease, 'b'), pgqrs_step_fail(:run, :lease, 'b', '{"type": "x"}') \g /dev/null
SELECT is(pg_temp.why('job'), 'backing off', 'a run whose step failed waits for its next try');
SELECT pgqrs_cancel_run(:run) \g /dev/null
SELECT pgqrs_trigger('job') AS broken \gset
DELETE FROM pgqrs_workflow_runs WHERE run_id = :broken;
SELECT is(pg_temp.why('job'), 'damaged', 'a message whose run is missing is told as damaged');
DELETE FROM pgqrs_messages WHERE message_id = :broken;

-- a worker without a handler, and an old transaction
SELECT pgqrs_create_workflow('lost') \g /dev/null
SELECT * FROM pg_temp.start('lost') \gset
SELECT pgqrs_fail_run(:run, :lease, '{"type": "no_handler_registered"}') \g /dev/null
SELECT is(pg_temp.why('lost'), 'no handler,empty', 'a run that no handler took is told');
SELECT matches(pg_temp.detail('lost', 'no handler'), format('^1 run \(%s\) failed', :run), 'the run is named');
SELECT pgqrs_replay_runs('lost', error_type => 'no_handler_registered') \g /dev/null
SELECT is(pg_temp.why('lost'), 'ready', 'a run that was replayed is told no more');
SELECT pg_temp.claim(:run) AS lease \gset
SELECT pgqrs_fail_run(:run, :lease, '{"type": "x"}') \g /dev/null
SELECT pgqrs_enqueue('q', '1') AS odd \gset
SELECT pgqrs_nack_message(:odd, lease, '{"type": "no_handler_registered"}', retryable => false)
	FROM pgqrs_dequeue('q') WHERE message_id = :odd \g /dev/null
SELECT matches(pg_temp.why('q'), 'no handler', 'so is a message');
SELECT is(pg_temp.why('lost'), 'empty', 'another error of a run is no reason');
UPDATE pgqrs_archive SET archived_at = archived_at - interval '2 hours' WHERE message_id = :odd;
SELECT doesnt_match(pg_temp.why('q'), 'no handler', 'what failed hours ago is not told');

-- more than can be looked at
SELECT cardinality(pgqrs_enqueue_batch('limited', array_fill('1'::jsonb, '{10000}'))),
	pgqrs_enqueue('limited', '1') \g /dev/null
SELECT is(pg_temp.why('limited'), 'ready,many messages',
	'pgqrs_why() looks at the first 10000 messages of a long backlog');
SELECT matches(pg_temp.detail('limited', 'ready'), '^10000 messages \(\d+, \d+, \d+, …\) claimable',
	'the detail names three of many messages');

-- privileges
CREATE ROLE why_reader;
SELECT pgqrs_grant('limited', 'why_reader', 'trigger') \g /dev/null
SET ROLE why_reader;
SELECT lives_ok($$SELECT pgqrs_why('limited')$$, 'a role with any privilege may ask');
SELECT throws_ok($$SELECT pgqrs_why('q')$$, 'PQ001', NULL, 'a queue of others does not exist for a role');
RESET ROLE;
SELECT pgqrs_revoke('limited', 'why_reader', 'trigger') \g /dev/null
DROP ROLE why_reader;
SELECT throws_ok($$SELECT pgqrs_why('absent')$$, 'PQ001', NULL, 'a queue that does not exist is an error');
SELECT throws_ok('SELECT pgqrs_why(NULL)', '22004', NULL, 'the queue is required');

SELECT * FROM finish();
