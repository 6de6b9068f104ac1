-- The state machine of runs: every operation in every state of a run, against
-- the moves of docs/concepts.md.
--
-- A cell is what the call answers, and the status of the run after it.  PQ007
-- and PQ016 come with the state that their DETAIL names.
\ir include/runs.sql
SELECT * FROM no_plan();

-- The states, with the lease that the caller has.
CREATE TEMP TABLE states (state text PRIMARY KEY, run bigint, lease bigint, place int GENERATED ALWAYS AS IDENTITY);
SELECT pgqrs_create_workflow('children') \g /dev/null
CREATE FUNCTION pg_temp.bring(state text, OUT run bigint, OUT lease bigint) LANGUAGE plpgsql AS
$$
DECLARE
	newer bigint;
BEGIN
	PERFORM pgqrs_create_workflow(state, key_scope => 'active');
	run := pgqrs_trigger(state, idempotency_key => 'k', delay => CASE state WHEN 'delayed' THEN interval '1 h'
		ELSE '0' END);
	lease := 1;
	PERFORM pgqrs_resume_run(run, 'resumed', '1'), pgqrs_signal(run, 'sent', '1');
	IF state NOT IN ('queued', 'delayed', 'purged') THEN
		lease := pg_temp.claim(run);
		PERFORM pgqrs_step_begin(run, lease, 'open');
		PERFORM pgqrs_step_complete(run, lease, 'done');
	END IF;
	CASE state
		WHEN 'expired' THEN PERFORM pg_temp.due(run);
		WHEN 'taken' THEN PERFORM pg_temp.claim(run);
		WHEN 'given back' THEN PERFORM pgqrs_release_message(run, lease);
		WHEN 'retry' THEN PERFORM pgqrs_step_fail(run, lease, 'open', '{}', retry_after => '1 h');
		WHEN 'late' THEN PERFORM pg_temp.late(run);
		WHEN 'late, expired' THEN PERFORM pg_temp.late(run), pg_temp.due(run);
		WHEN 'parked' THEN PERFORM pgqrs_pause_run(run, lease, 'pause');
		WHEN 'parked for a signal' THEN PERFORM pgqrs_await_signal(run, lease, 'signal', 'go');
		WHEN 'deleted' THEN PERFORM pgqrs_delete_run(run);
		WHEN 'cancelling' THEN
			PERFORM pgqrs_cancel_run(run);
		WHEN 'cancelling, expired' THEN
			PERFORM pgqrs_cancel_run(run);
			PERFORM pg_temp.due(run);
		WHEN 'succeeded' THEN PERFORM pgqrs_complete_run(run, lease);
		WHEN 'succeeded for another' THEN
			newer := pg_temp.claim(run);
			PERFORM pgqrs_complete_run(run, newer);
		WHEN 'failed' THEN PERFORM pgqrs_fail_run(run, lease, '{}');
		WHEN 'failed, deleted' THEN PERFORM pgqrs_fail_run(run, lease, '{}'), pgqrs_delete_run(run);
		WHEN 'cancelled' THEN
			PERFORM pg_temp.due(run), pgqrs_purge_queue(state);
		WHEN 'purged' THEN PERFORM pgqrs_purge_queue(state);
		ELSE
	END CASE;
END
$$;
INSERT INTO states SELECT state, b.*
	FROM unnest('{queued,delayed,running,expired,taken,given back,retry,late,"late, expired",parked,parked for a '
	'signal,cancelling,"cancelling, expired",succeeded,succeeded for '
	'another,failed,cancelled,purged,deleted,"failed, deleted"}'::text[]) state, pg_temp.bring(state) b;

-- The operations.
CREATE TEMP TABLE operations (operation text PRIMARY KEY, call text);
INSERT INTO operations VALUES
	('claim', 'SELECT count(*) FROM pgqrs_dequeue(STATE)'),
	('begin open', 'SELECT should_execute FROM pgqrs_step_begin(RUN, LEASE, ''open'')'),
	('begin done', 'SELECT should_execute FROM pgqrs_step_begin(RUN, LEASE, ''done'')'),
	('complete open', 'SELECT pgqrs_step_complete(RUN, LEASE, ''open'')'),
	('complete done', 'SELECT pgqrs_step_complete(RUN, LEASE, ''done'')'),
	('fail open', 'SELECT outcome FROM pgqrs_step_fail(RUN, LEASE, ''open'', ''{}'')'),
	('fail open for good', 'SELECT outcome FROM pgqrs_step_fail(RUN, LEASE, ''open'', ''{}'', retryable => false)'),
	('fail only open', 'SELECT outcome FROM pgqrs_step_fail(RUN, LEASE, ''open'', ''{}'', retryable => false, '
		'fail_run => false)'),
	('complete', 'SELECT pgqrs_complete_run(RUN, LEASE)'),
	('fail', 'SELECT CASE WHEN pgqrs_fail_run(RUN, LEASE, ''{}'') IS NULL THEN ''ended'' ELSE ''retried'' END'),
	('retry', 'SELECT CASE WHEN pgqrs_fail_run(RUN, LEASE, ''{}'', true, ''1 h'') IS NULL THEN ''ended'' ELSE '
		'''retried'' END'),
	('progress', 'SELECT pgqrs_set_progress(RUN, LEASE, ''1'')'),
	('release', 'SELECT pgqrs_release_message(RUN, LEASE)'),
	('extend', 'SELECT pgqrs_extend_lease(RUN, LEASE)'),
	('archive', 'SELECT pgqrs_archive_message(RUN, LEASE)'),
	('delete', 'SELECT pgqrs_delete_message(RUN, LEASE)'),
	('nack', 'SELECT pgqrs_nack_message(RUN, LEASE)'),
	('set visibility', 'SELECT pgqrs_set_visibility(RUN, clock_timestamp())'),
	('replay', 'SELECT pgqrs_replay_message(RUN)'),
	('purge', 'SELECT pgqrs_purge_queue(STATE)'),
	('maintain', 'SELECT sum(value::int) FROM jsonb_each_text(pgqrs_maintain()) WHERE key <> ''workers_stopped'''),
	('trigger', 'SELECT CASE pgqrs_trigger(STATE, idempotency_key => ''k'') WHEN RUN THEN ''same'' ELSE ''new'' END'),
	('pause', 'SELECT pgqrs_pause_run(RUN, LEASE, ''p'')'),
	('go on', 'SELECT pgqrs_pause_run(RUN, LEASE, ''resumed'')'),
	('sleep', 'SELECT pgqrs_sleep(RUN, LEASE, ''z'', ''1 h'')'),
	('wake', 'SELECT pgqrs_sleep(RUN, LEASE, ''z'', ''0'')'),
	('await a signal', 'SELECT pgqrs_await_signal(RUN, LEASE, ''w'', ''other'')'),
	('take a signal', 'SELECT pgqrs_await_signal(RUN, LEASE, ''w'', ''sent'')'),
	('start a child', 'SELECT pgqrs_start_child(RUN, LEASE, ''child'', ''children'') > 0'),
	('start children', 'SELECT cardinality(pgqrs_start_children(RUN, LEASE, ''many'', ''children'', ''{1,2}''))'),
	('await no child', 'SELECT pgqrs_await_child(RUN, LEASE, ''child'')'),
	('rerun', 'SELECT pgqrs_rerun(RUN) > RUN'),
	('resume', 'SELECT pgqrs_resume_run(RUN)'),
	('resume a step', 'SELECT pgqrs_resume_run(RUN, ''q'')'),
	('signal', 'SELECT pgqrs_signal(RUN, ''go'') > 0'),
	('cancel', 'SELECT pgqrs_cancel_run(RUN)'),
	('cancel all', 'SELECT changed FROM pgqrs_cancel_runs(STATE)'),
	('acknowledge', 'SELECT pgqrs_acknowledge_cancel(RUN, LEASE)'),
	('delete the run', 'SELECT pgqrs_delete_run(RUN)'),
	('result', 'SELECT status FROM pgqrs_result(RUN)'),
	('complete open, begin another', 'SELECT concat_ws('' '', stored, should_execute, cancel_requested) FROM '
		'pgqrs_step_next(RUN, LEASE, ''open'', ''1'', ''then'')'),
	('complete, claim', 'SELECT coalesce(string_agg(payload ->> ''sqlstate'', '' ''), ''ended'') FROM '
		'pgqrs_next(queue => STATE, batch_size => 0, done_ids => ARRAY[RUN], done_leases => ARRAY[LEASE]::bigint[])'),
	('start', 'SELECT concat_ws('', '', CASE run_id WHEN RUN THEN ''same'' ELSE ''new'' END, ''leased'' || '
		'left(lease::text, 0)) FROM pgqrs_start(STATE, idempotency_key => ''k'')'),
	('advance', 'SELECT pgqrs_advance(RUN, ''1 s'') IS NOT NULL');

-- Carries out one operation in one state and undoes it.
CREATE FUNCTION pg_temp.outcome(state text, run bigint, lease bigint, call text) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	answer text;
	status text;
	detail text;
BEGIN
	BEGIN
		EXECUTE replace(replace(replace(call, 'RUN', run::text), 'LEASE', lease::text), 'STATE',
			quote_literal(state)) INTO answer;
	EXCEPTION WHEN OTHERS THEN
		GET STACKED DIAGNOSTICS answer = RETURNED_SQLSTATE, detail = PG_EXCEPTION_DETAIL;
		IF answer IN ('PQ007', 'PQ016') THEN
			answer := answer || ' ' || detail;
		END IF;
	END;
	SELECT r.status INTO status FROM pgqrs_workflow_runs r WHERE run_id = run;
	RAISE EXCEPTION USING ERRCODE = 'UNDO0';
EXCEPTION WHEN SQLSTATE 'UNDO0' THEN
	RETURN concat_ws(', ', coalesce(nullif(answer, ''), 'done'), status);
END
$$;

-- As documented.  One line: the operation, the answer, the states.
CREATE TEMP TABLE expected (operation text, answer text, states text[]);
-- Under a lease: by the state of the run, whatever is done.
INSERT INTO expected
	SELECT operation, answer, states
	FROM operations, (VALUES
		('PQ006, QUEUED', '{queued,delayed}'::text[]), ('PQ006, RUNNING', '{taken,given back,retry}'),
			('PQ006, PAUSED', '{parked,parked for a signal}'),
		('PQ007 The deadline of the run has passed., RUNNING', '{late,"late, expired"}'),
			('PQ006, SUCCESS', '{succeeded for another}'), ('PQ006, CANCELLED', '{purged}'),
		('PQ007 The status is ERROR., ERROR', '{failed,"failed, deleted"}'),
			('PQ010, CANCELLED', '{cancelled,deleted}')) v (answer, states)
	WHERE operation IN ('begin open', 'begin done', 'complete open', 'complete done', 'fail open',
		'fail open for good', 'fail only open', 'complete', 'fail', 'retry', 'progress', 'pause', 'go on', 'sleep',
		'wake', 'await a signal', 'take a signal', 'start a child', 'start children', 'await no child', 'acknowledge',
		'complete open, begin another')
		AND NOT (operation = 'acknowledge' AND answer ~ 'PQ010');
-- That of pgqrs_next says it of the item, without the state found.
INSERT INTO expected
	SELECT 'complete, claim', regexp_replace(answer, ' The [^,]*', ''), states FROM expected WHERE operation = 'complete';
-- From outside, to what has ended.
INSERT INTO expected
	SELECT operation, answer, states
	FROM operations, (VALUES ('PQ016 The status is SUCCESS., SUCCESS', '{succeeded,succeeded for another}'::text[]),
		('PQ016 The status is ERROR., ERROR', '{failed,"failed, deleted"}'), ('PQ016 The status is CANCELLED., CANCELLED',
		'{cancelled,purged,deleted}')) v (answer, states)
	WHERE operation IN ('resume', 'resume a step', 'signal');
-- What begins something stops where the run was asked to stop, and is no repeated call after its end.
INSERT INTO expected
	SELECT operation, answer, states
	FROM operations, (VALUES ('PQ010, RUNNING', '{cancelling,"cancelling, expired"}'::text[]),
		('PQ007 The status is SUCCESS., SUCCESS', '{succeeded}')) v (answer, states)
	WHERE operation IN ('pause', 'go on', 'sleep', 'wake', 'await a signal', 'take a signal', 'start a child',
		'start children', 'await no child');
INSERT INTO expected VALUES
	('begin open', 'true, RUNNING', '{running,expired}'),
	('begin done', 'false, RUNNING', '{running,expired}'),
	('complete open', 'true, RUNNING', '{running,expired}'),
	('complete done', 'false, RUNNING', '{running,expired}'),
	('fail open', 'RETRY, RUNNING', '{running,expired}'),
	('fail open for good', 'RUN_FAILED, ERROR', '{running,expired}'),
	('fail only open', 'STEP_FAILED, RUNNING', '{running,expired}'),
	('complete', 'true, SUCCESS', '{running,expired}'),
	('fail', 'ended, ERROR', '{running,expired}'),
	('retry', 'retried, RUNNING', '{running,expired}'),
	('progress', 'done, RUNNING', '{running,expired}'),
	-- asked to stop: begin stops, complete wins, a failure is the end; a result of work done is stored
	('begin open', 'PQ010, RUNNING', '{cancelling,"cancelling, expired"}'),
	('begin done', 'PQ010, RUNNING', '{cancelling,"cancelling, expired"}'),
	('complete open', 'true, RUNNING', '{cancelling,"cancelling, expired"}'),
	('complete done', 'false, RUNNING', '{cancelling,"cancelling, expired"}'),
	('fail open', 'RUN_FAILED, CANCELLED', '{cancelling,"cancelling, expired"}'),
	('fail open for good', 'RUN_FAILED, CANCELLED', '{cancelling,"cancelling, expired"}'),
	('fail only open', 'STEP_FAILED, RUNNING', '{cancelling,"cancelling, expired"}'),
	('complete', 'true, SUCCESS', '{cancelling,"cancelling, expired"}'),
	('fail', 'ended, CANCELLED', '{cancelling,"cancelling, expired"}'),
	('retry', 'ended, CANCELLED', '{cancelling,"cancelling, expired"}'),
	('progress', 'done, RUNNING', '{cancelling,"cancelling, expired"}'),
	-- pgqrs_step_next: it stores the result of work done, and begins nothing
	('complete open, begin another', 't t f, RUNNING', '{running,expired}'),
	('complete open, begin another', 't f t, RUNNING', '{cancelling,"cancelling, expired"}'),
	('complete open, begin another', 'PQ007 The status is SUCCESS., SUCCESS', '{succeeded}'),
	('complete, claim', 'ended, SUCCESS', '{running,expired,cancelling,"cancelling, expired",succeeded}'),
	-- repeated by the worker that has completed it
	('complete', 'false, SUCCESS', '{succeeded}'),
	('complete done', 'false, SUCCESS', '{succeeded}'),
	('begin done', 'false, SUCCESS', '{succeeded}'),
	('begin open', 'PQ007 The status is SUCCESS., SUCCESS', '{succeeded}'),
	('complete open', 'PQ007 The status is SUCCESS., SUCCESS', '{succeeded}'),
	('fail open', 'PQ007 The status is SUCCESS., SUCCESS', '{succeeded}'),
	('fail open for good', 'PQ007 The status is SUCCESS., SUCCESS', '{succeeded}'),
	('fail only open', 'PQ007 The status is SUCCESS., SUCCESS', '{succeeded}'),
	('fail', 'PQ007 The status is SUCCESS., SUCCESS', '{succeeded}'),
	('retry', 'PQ007 The status is SUCCESS., SUCCESS', '{succeeded}'),
	('progress', 'PQ007 The status is SUCCESS., SUCCESS', '{succeeded}'),
	-- a claim takes what is due, ends what must not go on, and leaves the rest
	('claim', '1, RUNNING', '{queued,expired,given back}'),
	('claim', '0, QUEUED', '{delayed}'),
	('claim', '0, RUNNING', '{running,taken,retry,late,cancelling}'),
	('claim', '0, PAUSED', '{parked,parked for a signal}'),
	('claim', '0, ERROR', '{"late, expired",failed,"failed, deleted"}'),
	('claim', '0, CANCELLED', '{"cancelling, expired",cancelled,purged,deleted}'),
	('claim', '0, SUCCESS', '{succeeded,succeeded for another}'),
	-- maintenance ends the three that are late or cancelled, and nothing else
	('maintain', '3, QUEUED', '{queued,delayed}'),
	('maintain', '3, RUNNING', '{running,expired,taken,given back,retry,cancelling}'),
	('maintain', '3, PAUSED', '{parked,parked for a signal}'),
	('maintain', '3, ERROR', '{late,"late, expired",failed,"failed, deleted"}'),
	('maintain', '3, SUCCESS', '{succeeded,succeeded for another}'),
	('maintain', '3, CANCELLED', '{"cancelling, expired",cancelled,purged,deleted}'),
	-- the message of a run: released, extended, moved, but never ended by itself
	('release', 'PQ006, QUEUED', '{queued,delayed}'),
	('release', 'done, CANCELLED', '{cancelling,"cancelling, expired"}'),
	('release', 'done, RUNNING', '{running,expired}'),
	('release', 'PQ006, RUNNING', '{taken,given back,retry}'),
	('release', 'PQ006, PAUSED', '{parked,parked for a signal}'),
	('release', 'PQ007 The deadline of the run has passed., RUNNING', '{late,"late, expired"}'),
	('release', 'PQ007 The status is SUCCESS., SUCCESS', '{succeeded}'),
	('release', 'PQ006, SUCCESS', '{succeeded for another}'),
	('release', 'PQ007 The status is ERROR., ERROR', '{failed,"failed, deleted"}'),
	('release', 'PQ010, CANCELLED', '{cancelled,deleted}'),
	('release', 'PQ006, CANCELLED', '{purged}'),
	('extend', '(f,f), QUEUED', '{queued,delayed}'),
	('extend', '(t,f), RUNNING', '{running,expired}'),
	('extend', '(t,t), RUNNING', '{cancelling,"cancelling, expired"}'),
	('extend', '(f,f), RUNNING', '{taken,given back,retry,late,"late, expired"}'),
	('extend', '(f,f), PAUSED', '{parked,parked for a signal}'),
	('extend', '(f,f), SUCCESS', '{succeeded,succeeded for another}'),
	('extend', '(f,f), ERROR', '{failed,"failed, deleted"}'),
	('extend', '(f,f), CANCELLED', '{cancelled,purged,deleted}'),
	('set visibility', 'done, QUEUED', '{queued,delayed}'),
	('set visibility', 'done, RUNNING', '{running,expired,taken,given back,retry,late,"late, expired"}'),
	('set visibility', 'done, CANCELLED', '{cancelling,"cancelling, expired"}'),
	('set visibility', 'done, PAUSED', '{parked,parked for a signal}'),
	('set visibility', 'PQ004, SUCCESS', '{succeeded,succeeded for another}'),
	('set visibility', 'PQ004, ERROR', '{failed,"failed, deleted"}'),
	('set visibility', 'PQ004, CANCELLED', '{cancelled,purged,deleted}'),
	-- out of ERROR leads a replay, and only out of that
	('replay', 'done, QUEUED', '{failed}'),
	('replay', 'PQ004, ERROR', '{"failed, deleted"}'),
	('replay', 'PQ016 The message is live., QUEUED', '{queued,delayed}'),
	('replay', 'PQ016 The message is live., RUNNING',
		'{running,expired,taken,given back,retry,late,"late, expired",cancelling,"cancelling, expired"}'),
	('replay', 'PQ016 The message is live., PAUSED', '{parked,parked for a signal}'),
	('replay', 'PQ016 The status is DONE., SUCCESS', '{succeeded,succeeded for another}'),
	('replay', 'PQ016 The status is CANCELLED., CANCELLED', '{cancelled,purged,deleted}'),
	-- runs that no worker holds
	('purge', '1, CANCELLED',
		'{queued,delayed,expired,given back,retry,"late, expired",parked,parked for a signal,"cancelling, expired"}'),
	('purge', '0, RUNNING', '{running,taken,late,cancelling}'),
	('purge', '0, SUCCESS', '{succeeded,succeeded for another}'),
	('purge', '0, ERROR', '{failed,"failed, deleted"}'),
	('purge', '0, CANCELLED', '{cancelled,purged,deleted}'),
	-- the key is held while the run has not ended
	('trigger', 'same, QUEUED', '{queued,delayed}'),
	('trigger', 'same, RUNNING',
		'{running,expired,taken,given back,retry,late,"late, expired",cancelling,"cancelling, expired"}'),
	('trigger', 'same, PAUSED', '{parked,parked for a signal}'),
	('trigger', 'new, SUCCESS', '{succeeded,succeeded for another}'),
	('trigger', 'new, ERROR', '{failed,"failed, deleted"}'),
	('trigger', 'new, CANCELLED', '{cancelled,purged,deleted}'),
	('start', 'same, QUEUED', '{queued,delayed}'),
	('start', 'same, RUNNING',
		'{running,expired,taken,given back,retry,late,"late, expired",cancelling,"cancelling, expired"}'),
	('start', 'same, PAUSED', '{parked,parked for a signal}'),
	('start', 'new, leased, SUCCESS', '{succeeded,succeeded for another}'),
	('start', 'new, leased, ERROR', '{failed,"failed, deleted"}'),
	('start', 'new, leased, CANCELLED', '{cancelled,purged,deleted}'),
	-- time passes only for a run that waits
	('advance', 'true, QUEUED', '{queued,delayed}'),
	('advance', 'true, RUNNING', '{given back,retry}'),
	('advance', 'true, PAUSED', '{parked,parked for a signal}'),
	('advance', 'PQ016 The status is RUNNING, under a lease., RUNNING',
		'{running,expired,taken,late,"late, expired",cancelling,"cancelling, expired"}'),
	('advance', 'PQ016 The status is SUCCESS., SUCCESS', '{succeeded,succeeded for another}'),
	('advance', 'PQ016 The status is ERROR., ERROR', '{failed,"failed, deleted"}'),
	('advance', 'PQ016 The status is CANCELLED., CANCELLED', '{cancelled,purged,deleted}'),
	-- steps that wait give the run back
	('pause', '(f,), PAUSED', '{running,expired}'),
	('go on', '(t,1), RUNNING', '{running,expired}'),
	('sleep', 'false, PAUSED', '{running,expired}'),
	('wake', 'true, RUNNING', '{running,expired}'),
	('await a signal', '(f,f,,), PAUSED', '{running,expired}'),
	('take a signal', '(t,f,1,), RUNNING', '{running,expired}'),
	('start a child', 'true, RUNNING', '{running,expired}'),
	('start children', '2, RUNNING', '{running,expired}'),
	('await no child', 'PQ016 No call has started a child under this step id., RUNNING', '{running,expired}'),
	-- again, as another run, what has ended
	('rerun', 'PQ016 The status is QUEUED., QUEUED', '{queued,delayed}'),
	('rerun', 'PQ016 The status is RUNNING., RUNNING',
		'{running,expired,taken,given back,retry,late,"late, expired",cancelling,"cancelling, expired"}'),
	('rerun', 'PQ016 The status is PAUSED., PAUSED', '{parked,parked for a signal}'),
	('rerun', 'true, SUCCESS', '{succeeded,succeeded for another}'),
	('rerun', 'true, ERROR', '{failed,"failed, deleted"}'),
	('rerun', 'true, CANCELLED', '{cancelled,purged,deleted}'),
	-- from outside
	('resume', 'false, QUEUED', '{queued,delayed}'),
	('resume', 'false, RUNNING',
		'{running,expired,taken,given back,retry,late,"late, expired",cancelling,"cancelling, expired"}'),
	('resume', 'true, PAUSED', '{parked}'),
	('resume', 'false, PAUSED', '{parked for a signal}'),
	('resume a step', 'true, QUEUED', '{queued,delayed}'),
	('resume a step', 'true, RUNNING',
		'{running,expired,taken,given back,retry,late,"late, expired",cancelling,"cancelling, expired"}'),
	('resume a step', 'true, PAUSED', '{parked,parked for a signal}'),
	('signal', 'true, QUEUED', '{queued,delayed}'),
	('signal', 'true, RUNNING',
		'{running,expired,taken,given back,retry,late,"late, expired",cancelling,"cancelling, expired"}'),
	('signal', 'true, PAUSED', '{parked,parked for a signal}'),
	-- cancelled at once unless a worker holds a live lease; an end stays
	('cancel', 'CANCELLED, CANCELLED',
		'{queued,delayed,expired,given back,retry,"late, expired",parked,parked for a signal,"cancelling, '
		'expired",cancelled,purged,deleted}'),
	('cancel', 'RUNNING, RUNNING', '{running,taken,late,cancelling}'),
	('cancel', 'SUCCESS, SUCCESS', '{succeeded,succeeded for another}'),
	('cancel', 'ERROR, ERROR', '{failed,"failed, deleted"}'),
	('cancel all', '1, CANCELLED',
		'{queued,delayed,expired,given back,retry,"late, expired",parked,parked for a signal}'),
	('cancel all', '1, RUNNING', '{running,taken,late}'),
	('cancel all', '0, RUNNING', '{cancelling,"cancelling, expired"}'),
	('cancel all', '0, SUCCESS', '{succeeded,succeeded for another}'),
	('cancel all', '0, ERROR', '{failed,"failed, deleted"}'),
	('cancel all', '0, CANCELLED', '{cancelled,purged,deleted}'),
	('acknowledge', 'done, CANCELLED', '{cancelling,"cancelling, expired"}'),
	('acknowledge', 'PQ016 The status is RUNNING., RUNNING', '{running,expired}'),
	-- repeated, or ended otherwise
	('acknowledge', 'done, CANCELLED', '{cancelled,deleted}'),
	('acknowledge', 'PQ007 The status is SUCCESS., SUCCESS', '{succeeded}'),
	-- what is deleted does not go on
	('delete the run', 'done, CANCELLED',
		'{queued,delayed,running,expired,taken,given back,retry,late,"late, expired",parked,parked for a '
		'signal,cancelling,"cancelling, expired",cancelled,purged,deleted}'),
	('delete the run', 'done, SUCCESS', '{succeeded,succeeded for another}'),
	('delete the run', 'done, ERROR', '{failed,"failed, deleted"}'),
	('result', 'QUEUED, QUEUED', '{queued,delayed}'),
	('result', 'RUNNING, RUNNING',
		'{running,expired,taken,given back,retry,late,"late, expired",cancelling,"cancelling, expired"}'),
	('result', 'PAUSED, PAUSED', '{parked,parked for a signal}'),
	('result', 'SUCCESS, SUCCESS', '{succeeded,succeeded for another}'),
	('result', 'ERROR, ERROR', '{failed,"failed, deleted"}'),
	('result', 'CANCELLED, CANCELLED', '{cancelled,purged,deleted}');
INSERT INTO expected SELECT o, a || ', ' || s.status, s.states
	FROM unnest('{archive,delete,nack}'::text[]) o, (VALUES ('PQ006', 'QUEUED', '{queued,delayed}'::text[]),
		('PQ006', 'RUNNING', '{taken,given back,retry}'), ('PQ006', 'PAUSED', '{parked,parked for a signal}'),
		('PQ016 The message of a run ends with its run.', 'RUNNING', '{running,expired,cancelling,"cancelling, expired"}'),
			('PQ007 The deadline of the run has passed.', 'RUNNING', '{late,"late, expired"}'),
		('PQ007 The status is SUCCESS.', 'SUCCESS', '{succeeded}'), ('PQ006', 'SUCCESS', '{succeeded for another}'),
			('PQ007 The status is ERROR.', 'ERROR', '{failed,"failed, deleted"}'),
		('PQ010', 'CANCELLED', '{cancelled,deleted}'), ('PQ006', 'CANCELLED', '{purged}')) s (a, status, states);
SELECT is_empty($$SELECT operation, state, count(e.operation) FROM operations CROSS JOIN states
	LEFT JOIN (SELECT e.operation, unnest(states) AS state FROM expected e) e USING (operation, state) GROUP BY 1, 2
	HAVING count(e.operation) <> 1$$, 'the table of expected outcomes has every pair of operation and state once');
SELECT pg_temp.contents() AS contents \gset
SELECT is(pg_temp.outcome(state, run, lease, call), answer,
	format('the operation "%s" on a run that is %s has the outcome of the contract', operation, state))
	FROM expected JOIN operations USING (operation), states WHERE state = ANY (expected.states) ORDER BY operation,
		place;
SELECT is(pg_temp.contents(), :'contents', 'every outcome was undone, so that the next pair finds its state');

-- A run that is not there.
SELECT is(pg_temp.outcome('nothing', 9007199254740991, 1, call), answer,
	format('the operation "%s" on a run that does not exist is refused', operation))
	FROM operations, LATERAL (SELECT CASE WHEN operation IN ('release', 'archive', 'delete', 'nack') THEN 'PQ006'
		WHEN operation IN ('set visibility', 'replay') THEN 'PQ004'
		WHEN operation IN ('claim', 'purge', 'complete, claim') THEN 'PQ001'
		WHEN operation = 'cancel all' THEN 'PQ002'
		WHEN operation IN ('trigger', 'start') THEN 'PQ002' WHEN operation = 'extend' THEN '(f,f)'
			WHEN operation = 'maintain' THEN '3' ELSE 'PQ003' END AS answer) a;

SELECT * FROM finish();
