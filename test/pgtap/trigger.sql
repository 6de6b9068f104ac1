-- pgqrs_trigger(): each argument, and what it stores.
-- F-numbers: docs/design/known-failures.md.
\ir include/runs.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_workflow('plain') AS plain, pgqrs_create_workflow('timed', timeout => '2 h') AS timed,
	pgqrs_create_queue('queue') \gset

-- One run and one message, of one id.
CREATE FUNCTION pg_temp.stored(id bigint) RETURNS jsonb LANGUAGE sql AS
$$ SELECT jsonb_strip_nulls(to_jsonb(r)) - '{run_id,workflow_id,created_at}'::text[] FROM pgqrs_workflow_runs r
	WHERE r.run_id = id $$;
CREATE FUNCTION pg_temp.queued(id bigint) RETURNS jsonb LANGUAGE sql AS
$$ SELECT jsonb_strip_nulls(to_jsonb(m)) - '{message_id,queue_id,enqueued_at,visible_after}'::text[]
	FROM pgqrs_messages m WHERE message_id = id $$;

SELECT clock_timestamp() AS before \gset
SELECT pgqrs_trigger('plain') AS run \gset
SELECT cmp_ok(:run::bigint, '>', 0::bigint, 'a trigger returns the id of its run');
SELECT is(pg_temp.stored(:run), '{"status": "QUEUED", "attempt": 0, "failures": 0, "priority": 0}',
	'a run triggered with nothing but its workflow is QUEUED with the defaults');
SELECT is(pg_temp.queued(:run), jsonb_build_object('run_id', :run, 'attempt', 0, 'failures', 0, 'priority', 0),
	'the message of a run has the id of the run and the defaults');
SELECT is(workflow_id, :plain::bigint, 'a run belongs to its workflow') FROM pgqrs_workflow_runs WHERE run_id = :run;
SELECT ok(created_at BETWEEN :'before' AND clock_timestamp(), 'a run stores the time of the call')
	FROM pgqrs_workflow_runs WHERE run_id = :run;
SELECT ok(queue_id = :plain AND enqueued_at = created_at AND visible_after = created_at,
	'the message of a run has the time of the run and is due at once')
	FROM pgqrs_messages JOIN pgqrs_workflow_runs USING (run_id) WHERE message_id = :run;
SELECT is(count(*), 0::bigint, 'a trigger makes no step') FROM pgqrs_workflow_steps;

SELECT pgqrs_trigger(workflow => 'plain', input => '{"n": 1}', idempotency_key => 'k', delay => '1 h',
	priority => -100,
	timeout => '36 h', tags => '{"tenant": "a"}', headers => '{"trace": "x"}',
		retry_policy => '{"max_attempts": 7, "max_interval": "1 min"}',
	on_duplicate => 'raise', require_worker => false, concurrency_key => NULL) AS full \gset
SELECT is(pg_temp.stored(:full) - 'deadline_at',
	'{"status": "QUEUED", "attempt": 0, "failures": 0, "priority": -100, "timeout": "1 day 12:00:00",
	"input": {"n": 1}, "idempotency_key": "k", "key_scope": "retained",
	"tags": {"tenant": "a"}, "headers": {"trace": "x"},
	"retry_policy": {"max_attempts": 7, "max_interval": "1 min"}}', 'a run stores every argument of the call');
SELECT is(pg_temp.queued(:full) - 'deadline_at', jsonb_build_object('run_id', :full, 'attempt', 0, 'failures', 0,
	'priority', -100, 'headers', '{"trace": "x"}'::jsonb),
	'the message of a run has the headers of the call');
SELECT ok(visible_after = created_at + interval '1 h' AND m.deadline_at = visible_after + interval '36 h'
	AND r.deadline_at = m.deadline_at, 'delay and timeout set when the message is due and its deadline')
	FROM pgqrs_messages m JOIN pgqrs_workflow_runs r USING (run_id) WHERE message_id = :full;
SELECT pgqrs_trigger('plain', 'null', NULL, '0', '2100-01-01 00:00Z', 100, '1 s', '[1, 2]', '"h"', '{}', 'return',
	false, NULL) AS positional \gset
SELECT is(pg_temp.stored(:positional),
	'{"status": "QUEUED", "attempt": 0, "failures": 0, "priority": 100, "timeout": "00:00:01", "input": null, '
	'"tags": [1, 2],
	"headers": "h", "retry_policy": {}, "deadline_at": "2100-01-01T00:00:01+00:00"}'::jsonb - 'input',
	'the arguments have the order of the documents');
SELECT is(input, 'null', 'a JSON null is an input') FROM pgqrs_workflow_runs WHERE run_id = :positional;

-- When it starts.
CREATE FUNCTION pg_temp.wait(id bigint) RETURNS interval LANGUAGE sql AS
$$ SELECT visible_after - enqueued_at FROM pgqrs_messages WHERE message_id = id $$;
SELECT is(pg_temp.wait(pgqrs_trigger('plain', delay => '1 day 2 h')), interval '26 h',
	'delay postpones a run; a day has 24 hours');
SELECT is(pg_temp.wait(pgqrs_trigger('plain', run_at => '2000-01-01 12:00Z')), interval '0',
	'a run_at in the past counts as now');
SELECT is(pg_temp.wait(pgqrs_trigger('plain', run_at => '-infinity')), interval '0',
	'a run_at of -infinity counts as now');
SELECT is(pg_temp.wait(pgqrs_trigger('plain', run_at => '2000-01-01 00:00Z')), interval '0',
	'a run_at at the epoch of the server counts as now');
SELECT is(visible_after, '2100-06-01 00:00Z', 'run_at sets when a run is due') FROM pgqrs_messages
	WHERE message_id = (SELECT pgqrs_trigger('plain', run_at => '2100-06-01 00:00Z'));
SELECT ok(visible_after - clock_timestamp() BETWEEN interval '365999 days' AND interval '366000 days',
	'the longest delay is accepted')
	FROM pgqrs_messages WHERE message_id = (SELECT pgqrs_trigger('plain', delay => '366000 days'));
SELECT is(pg_temp.refusal('SELECT pgqrs_trigger(''plain'', run_at => ''2000-01-01 00:00Z'', delay => ''1 h'')'),
	'22023', 'delay and run_at exclude each other, whichever instant it is');

-- The time is that of the call, not of the transaction.
BEGIN;
SELECT now() AS began, pg_sleep(0.01) \gset
SELECT cmp_ok(created_at, '>', (:'began'::timestamptz + interval '9 ms'),
	'the time of a run is that of the call, not of the transaction') FROM pgqrs_workflow_runs
	WHERE run_id = (SELECT pgqrs_trigger('plain'));
ROLLBACK;

-- Deadlines: the first visible_after plus the timeout of the call or of the workflow.
CREATE FUNCTION pg_temp.limit(id bigint) RETURNS text LANGUAGE sql AS
$$
	SELECT concat_ws(' ', m.deadline_at - visible_after, r.timeout, CASE
		WHEN m.deadline_at IS DISTINCT FROM r.deadline_at THEN 'differs' END)
	FROM pgqrs_messages m JOIN pgqrs_workflow_runs r USING (run_id) WHERE message_id = id
$$;
SELECT is(pg_temp.limit(pgqrs_trigger('plain')), '', 'a run without a timeout has no deadline');
SELECT is(pg_temp.limit(pgqrs_trigger('timed')), '02:00:00 02:00:00', 'a run has the timeout of its workflow');
SELECT is(pg_temp.limit(pgqrs_trigger('timed', timeout => '0.000001 s')), '00:00:00.000001 00:00:00.000001',
	'the timeout of the call replaces that of the workflow');
SELECT is(pg_temp.limit(pgqrs_trigger('timed', delay => '1 h')), '02:00:00 02:00:00',
	'the deadline counts from the end of the delay');
SELECT is(pg_temp.limit(pgqrs_trigger('timed', run_at => '2100-01-01')), '02:00:00 02:00:00',
	'the deadline counts from run_at');
SELECT is(pg_temp.limit(pgqrs_trigger('timed', delay => '366000 days', timeout => '366000 days')),
	'366000 days 366000 days', 'the longest delay and timeout are accepted together');
SELECT is(pg_temp.refusal('SELECT pgqrs_trigger(''plain'', run_at => ''294276-12-31'', timeout => ''366000 days'')'),
	'22023', 'a deadline after the last timestamp is refused');
SELECT is(pg_temp.refusal('SELECT pgqrs_trigger_batch(''timed'', ''{1}'', run_at => ''294276-12-31 '
	'23:59:59.999999'')'), '22023', 'a deadline after the last timestamp is refused in a batch');
SELECT lives_ok($$SELECT pgqrs_trigger('plain', run_at => '294276-12-31')$$,
	'the last timestamp is accepted as run_at if there is no timeout');
SELECT pgqrs_trigger('timed') AS kept \gset
SELECT pgqrs_alter_workflow('timed', timeout => '5 h');
SELECT is(pg_temp.limit(:kept), '02:00:00 02:00:00', 'a new timeout of the workflow leaves existing runs alone');
SELECT is(pg_temp.limit(pgqrs_trigger('timed')), '05:00:00 05:00:00',
	'a new timeout of the workflow holds for new runs');

-- Order: priority, then when it became visible.
SELECT pgqrs_create_workflow('order') \g /dev/null
SELECT pgqrs_trigger('order', '"low"', priority => -100), pgqrs_trigger('order', '"first"'), pgqrs_trigger('order',
	'"second"'),
	pgqrs_trigger('order', '"high"', priority => 100), pgqrs_trigger('order', '"later"', delay => '1 h',
		priority => 100) \g /dev/null
CREATE TEMP TABLE delivered AS SELECT * FROM pgqrs_dequeue('order', batch_size => 10);
SELECT results_eq('SELECT input FROM delivered', '{"\"high\"","\"first\"","\"second\"","\"low\""}'::jsonb[],
	'runs are delivered by priority, then by the time from which they are due');
SELECT is(count(*), 4::bigint, 'a claim returns run_id, workflow, queue and payload of each run')
	FROM delivered WHERE run_id = message_id AND workflow = 'order' AND queue = 'order'
		AND payload = jsonb_build_object('run_id', run_id) AND attempt = 1 AND failures = 0;

-- A WARNING or PQ013 is no obstacle to the others: see no_worker.pl.
SELECT is(pg_temp.answer('SELECT pgqrs_trigger(''plain'', require_worker => true)'), 'PQ013',
	'require_worker refuses a workflow without a live worker');
SELECT pg_temp.contents() AS contents \gset
SELECT is(pg_temp.refusal('SELECT pgqrs_trigger(''plain'', require_worker => true, idempotency_key => ''new'')'),
	'PQ013', 'require_worker refuses the trigger before anything is written');
SELECT is(pg_temp.contents(), :'contents', 'the refused trigger changed nothing');
SELECT pgqrs_register_worker('w', '{other.*}') AS worker \gset
SELECT is(pg_temp.answer('SELECT pgqrs_trigger(''plain'', require_worker => true)'), 'PQ013',
	'a worker of another workflow is not enough for require_worker');
SELECT pgqrs_create_workflow('other.job') \g /dev/null
SELECT lives_ok('SELECT pgqrs_trigger(''other.job'', require_worker => true)',
	'a worker whose pattern covers the workflow is enough for require_worker');
SELECT pgqrs_suspend_worker(:worker);
SELECT is(pg_temp.answer('SELECT pgqrs_trigger(''other.job'', require_worker => true)'), 'PQ013',
	'a suspended worker is not enough for require_worker');
SELECT pgqrs_resume_worker(:worker);
SELECT lives_ok('SELECT pgqrs_trigger(''other.job'', require_worker => true)',
	'a resumed worker is enough for require_worker');
SELECT pgqrs_stop_worker(:worker) \g /dev/null
SELECT is(pg_temp.answer('SELECT pgqrs_trigger(''other.job'', require_worker => true)'), 'PQ013',
	'a stopped worker is not enough for require_worker');

-- A paused queue goes on accepting.
SELECT pgqrs_pause_queue('plain');
SELECT is(pg_temp.refusal('SELECT pgqrs_trigger(''plain'')'), 'accepted', 'a paused workflow accepts a trigger');
SELECT is(pg_temp.refusal('SELECT pgqrs_trigger_batch(''plain'', ''{1}'')'), 'accepted',
	'a paused workflow accepts a batch');
SELECT is(count(*), 0::bigint, 'a paused workflow delivers nothing') FROM pgqrs_dequeue('plain');
SELECT pgqrs_resume_queue('plain');

-- Names that are none of a workflow.
SELECT is(pg_temp.answer('SELECT pgqrs_trigger(''nothing'')'), 'PQ002', 'a workflow that does not exist is refused');
SELECT is(pg_temp.answer('SELECT pgqrs_trigger(''queue'')'), 'PQ002', 'a plain queue is refused as a workflow');
SELECT is(pg_temp.answer('SELECT pgqrs_trigger_batch(''queue'', ''{1}'')'), 'PQ002',
	'a plain queue is refused as the workflow of a batch');
SELECT is(left(pg_temp.answer('SELECT pgqrs_enqueue(''plain'', ''1'')'), 5), 'PQ016',
	'a workflow is refused as the queue of a plain message');
SELECT is(left(pg_temp.answer('SELECT pgqrs_enqueue_batch(''plain'', ''{1}'')'), 5), 'PQ016',
	'a workflow is refused as the queue of a batch of plain messages');

-- Part of the caller's transaction: savepoints, rollback, two-phase commit, every isolation level.
SELECT pg_temp.contents() AS contents \gset
BEGIN;
SELECT pgqrs_trigger('order', '"gone"') \g /dev/null
ROLLBACK;
SELECT is(pg_temp.contents(), :'contents', 'a rollback leaves nothing of a trigger');
BEGIN;
SAVEPOINT s;
SELECT pgqrs_trigger('order', '"inner"', idempotency_key => 'inner', priority => 100) AS gone \gset
SELECT is(status, 'QUEUED', 'a savepoint sees the run that it has triggered') FROM pgqrs_result(:gone);
ROLLBACK TO s;
SELECT is(pg_temp.answer(format('SELECT pgqrs_result(%s)', :gone)), 'PQ003',
	'rolling back to a savepoint removes the run');
SELECT pgqrs_trigger('order', '"outer"', idempotency_key => 'inner') AS outer \gset
COMMIT;
SELECT is(input, '"outer"', 'a run triggered after the rollback to the savepoint stays, with the same key')
	FROM pgqrs_dequeue('order') WHERE run_id = :outer;
BEGIN;
SELECT pgqrs_trigger('order', '"prepared"') AS prepared \gset
PREPARE TRANSACTION 'trigger_test';
SELECT is(count(*), 0::bigint, 'a run triggered by a prepared transaction is not delivered')
	FROM pgqrs_dequeue('order');
COMMIT PREPARED 'trigger_test';
SELECT is(run_id, :prepared::bigint, 'a run is delivered once its prepared transaction is committed')
	FROM pgqrs_dequeue('order');
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) FROM pgqrs_workflow_runs \g /dev/null
SELECT pgqrs_trigger('order', '"serial"', idempotency_key => 'serial') AS serial \gset
SELECT is(pgqrs_trigger('order', idempotency_key => 'serial'), :serial::bigint,
	'a second trigger with the key in one SERIALIZABLE transaction returns the same run');
SELECT is(input, '"serial"', 'a SERIALIZABLE transaction claims the run that it has triggered')
	FROM pgqrs_dequeue('order');
COMMIT;
CREATE FUNCTION pg_temp.many_savepoints(n int) RETURNS void LANGUAGE plpgsql AS
$$
BEGIN
	FOR i IN 1..n LOOP
		BEGIN
			PERFORM pgqrs_trigger('order', to_jsonb(i), idempotency_key => 'savepoint ' || i % 700);
			IF i % 10 = 0 THEN
				RAISE 'undo';
			END IF;
		EXCEPTION WHEN raise_exception THEN
		END;
	END LOOP;
END
$$;
SELECT pg_temp.many_savepoints(1000);
SELECT is(count(*), 630::bigint, 'F41: of runs triggered in 1,000 savepoints those remain that were not rolled back')
	FROM pgqrs_workflow_runs WHERE idempotency_key LIKE 'savepoint %';

-- A key that is taken.
SELECT pgqrs_create_workflow('dup') \g /dev/null
SELECT pgqrs_trigger('dup', idempotency_key => 'k') AS first \gset
SELECT is(pgqrs_trigger('dup', idempotency_key => 'k', on_duplicate => 'null'), NULL,
	'on_duplicate null returns NULL for a key that is taken');
SELECT isnt(pgqrs_trigger('dup', idempotency_key => 'free', on_duplicate => 'null'), NULL,
	'on_duplicate null starts a run for a free key');
SELECT throws_ok(format('SELECT pgqrs_trigger(''dup'', idempotency_key => ''k'', on_duplicate => %L)', d), '0A000',
	NULL, 'on_duplicate is refused as not supported yet: ' || d) FROM unnest('{replace,replace_input}'::text[]) d;

SELECT * FROM finish();
