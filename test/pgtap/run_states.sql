-- The state machine of runs: every operation in every state of a run that
-- exists so far, against a table written from the contract.
--
-- A cell is what the call answers, and the status of the run after it.  PQ007
-- comes with the state that its DETAIL names.
\ir include/runs.sql
SELECT * FROM no_plan();

-- The states, with the lease that the caller has.
CREATE TEMP TABLE states (state text PRIMARY KEY, run bigint, lease bigint, place int GENERATED ALWAYS AS IDENTITY);
CREATE FUNCTION pg_temp.bring(state text, OUT run bigint, OUT lease bigint) LANGUAGE plpgsql AS
$$
DECLARE
	newer bigint;
BEGIN
	PERFORM pgqrs_create_workflow(state, key_scope => 'active');
	run := pgqrs_trigger(state, idempotency_key => 'k', delay => CASE state WHEN 'delayed' THEN interval '1 h' ELSE '0' END);
	lease := 1;
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
		WHEN 'parked' THEN	-- as a pause will leave it
			UPDATE pgqrs_workflow_runs r SET status = 'PAUSED', paused_at = clock_timestamp(), waiting_for = 'pause' WHERE r.run_id = run;
			UPDATE pgqrs_messages m SET lease = NULL, waiting_for = 'pause', visible_after = clock_timestamp() + interval '1 h' WHERE message_id = run;
		WHEN 'cancelling' THEN
			UPDATE pgqrs_workflow_runs r SET cancel_requested_at = clock_timestamp() WHERE r.run_id = run;
		WHEN 'cancelling, expired' THEN
			UPDATE pgqrs_workflow_runs r SET cancel_requested_at = clock_timestamp() WHERE r.run_id = run;
			PERFORM pg_temp.due(run);
		WHEN 'succeeded' THEN PERFORM pgqrs_complete_run(run, lease);
		WHEN 'succeeded for another' THEN
			newer := pg_temp.claim(run);
			PERFORM pgqrs_complete_run(run, newer);
		WHEN 'failed' THEN PERFORM pgqrs_fail_run(run, lease, '{}');
		WHEN 'cancelled' THEN
			PERFORM pg_temp.due(run), pgqrs_purge_queue(state);
		WHEN 'purged' THEN PERFORM pgqrs_purge_queue(state);
		ELSE
	END CASE;
END
$$;
INSERT INTO states SELECT state, b.* FROM unnest('{queued,delayed,running,expired,taken,given back,retry,late,"late, expired",parked,cancelling,"cancelling, expired",succeeded,succeeded for another,failed,cancelled,purged}'::text[]) state, pg_temp.bring(state) b;

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
	('fail only open', 'SELECT outcome FROM pgqrs_step_fail(RUN, LEASE, ''open'', ''{}'', retryable => false, fail_run => false)'),
	('complete', 'SELECT pgqrs_complete_run(RUN, LEASE)'),
	('fail', 'SELECT CASE WHEN pgqrs_fail_run(RUN, LEASE, ''{}'') IS NULL THEN ''ended'' ELSE ''retried'' END'),
	('retry', 'SELECT CASE WHEN pgqrs_fail_run(RUN, LEASE, ''{}'', true, ''1 h'') IS NULL THEN ''ended'' ELSE ''retried'' END'),
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
	('result', 'SELECT status FROM pgqrs_result(RUN)');

-- Carries out one operation in one state and undoes it.
CREATE FUNCTION pg_temp.outcome(state text, run bigint, lease bigint, call text) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	answer text;
	status text;
	detail text;
BEGIN
	BEGIN
		EXECUTE replace(replace(replace(call, 'RUN', run::text), 'LEASE', lease::text), 'STATE', quote_literal(state)) INTO answer;
	EXCEPTION WHEN OTHERS THEN
		GET STACKED DIAGNOSTICS answer = RETURNED_SQLSTATE, detail = PG_EXCEPTION_DETAIL;
		IF answer = 'PQ007' THEN
			answer := answer || ' ' || detail;
		END IF;
	END;
	SELECT r.status INTO status FROM pgqrs_workflow_runs r WHERE run_id = run;
	RAISE EXCEPTION USING ERRCODE = 'UNDO0';
EXCEPTION WHEN SQLSTATE 'UNDO0' THEN
	RETURN concat_ws(', ', coalesce(nullif(answer, ''), 'done'), status);
END
$$;

-- By the contract.  One line: the operation, the answer, the states.
CREATE TEMP TABLE expected (operation text, answer text, states text[]);
-- Under a lease: by the state of the run, whatever is done.
INSERT INTO expected
	SELECT operation, answer, states
	FROM operations, (VALUES
		('PQ006, QUEUED', '{queued,delayed}'::text[]), ('PQ006, RUNNING', '{taken,given back,retry}'), ('PQ006, PAUSED', '{parked}'),
		('PQ007 It is past its deadline., RUNNING', '{late,"late, expired"}'), ('PQ007 It is SUCCESS., SUCCESS', '{succeeded for another}'),
		('PQ007 It is ERROR., ERROR', '{failed}'), ('PQ010, CANCELLED', '{cancelled,purged}')) v (answer, states)
	WHERE operation IN ('begin open', 'begin done', 'complete open', 'complete done', 'fail open', 'fail open for good', 'fail only open', 'complete', 'fail', 'retry', 'progress');
INSERT INTO expected VALUES
	('begin open', 'true, RUNNING', '{running,expired}'),
	('begin done', 'false, RUNNING', '{running,expired}'),
	('complete open', 'done, RUNNING', '{running,expired}'),
	('complete done', 'done, RUNNING', '{running,expired}'),
	('fail open', 'RETRY, RUNNING', '{running,expired}'),
	('fail open for good', 'RUN_FAILED, ERROR', '{running,expired}'),
	('fail only open', 'STEP_FAILED, RUNNING', '{running,expired}'),
	('complete', 'done, SUCCESS', '{running,expired}'),
	('fail', 'ended, ERROR', '{running,expired}'),
	('retry', 'retried, RUNNING', '{running,expired}'),
	('progress', 'done, RUNNING', '{running,expired}'),
	-- asked to stop: begin stops, complete wins, a failure is the end; a result of work done is stored
	('begin open', 'PQ010, RUNNING', '{cancelling,"cancelling, expired"}'),
	('begin done', 'PQ010, RUNNING', '{cancelling,"cancelling, expired"}'),
	('complete open', 'done, RUNNING', '{cancelling,"cancelling, expired"}'),
	('complete done', 'done, RUNNING', '{cancelling,"cancelling, expired"}'),
	('fail open', 'RUN_FAILED, CANCELLED', '{cancelling,"cancelling, expired"}'),
	('fail open for good', 'RUN_FAILED, CANCELLED', '{cancelling,"cancelling, expired"}'),
	('fail only open', 'STEP_FAILED, RUNNING', '{cancelling,"cancelling, expired"}'),
	('complete', 'done, SUCCESS', '{cancelling,"cancelling, expired"}'),
	('fail', 'ended, CANCELLED', '{cancelling,"cancelling, expired"}'),
	('retry', 'ended, CANCELLED', '{cancelling,"cancelling, expired"}'),
	('progress', 'done, RUNNING', '{cancelling,"cancelling, expired"}'),
	-- repeated by who has completed it
	('complete', 'done, SUCCESS', '{succeeded}'),
	('complete done', 'done, SUCCESS', '{succeeded}'),
	('begin done', 'false, SUCCESS', '{succeeded}'),
	('begin open', 'PQ007 It is SUCCESS., SUCCESS', '{succeeded}'),
	('complete open', 'PQ007 It is SUCCESS., SUCCESS', '{succeeded}'),
	('fail open', 'PQ007 It is SUCCESS., SUCCESS', '{succeeded}'),
	('fail open for good', 'PQ007 It is SUCCESS., SUCCESS', '{succeeded}'),
	('fail only open', 'PQ007 It is SUCCESS., SUCCESS', '{succeeded}'),
	('fail', 'PQ007 It is SUCCESS., SUCCESS', '{succeeded}'),
	('retry', 'PQ007 It is SUCCESS., SUCCESS', '{succeeded}'),
	('progress', 'PQ007 It is SUCCESS., SUCCESS', '{succeeded}'),
	-- a claim takes what is due, ends what must not go on, and leaves the rest
	('claim', '1, RUNNING', '{queued,expired,given back}'),
	('claim', '0, QUEUED', '{delayed}'),
	('claim', '0, RUNNING', '{running,taken,retry,late,cancelling}'),
	('claim', '0, PAUSED', '{parked}'),
	('claim', '0, ERROR', '{"late, expired",failed}'),
	('claim', '0, CANCELLED', '{"cancelling, expired",cancelled,purged}'),
	('claim', '0, SUCCESS', '{succeeded,succeeded for another}'),
	-- maintenance ends the three that are late or cancelled, and nothing else
	('maintain', '3, QUEUED', '{queued,delayed}'),
	('maintain', '3, RUNNING', '{running,expired,taken,given back,retry,cancelling}'),
	('maintain', '3, PAUSED', '{parked}'),
	('maintain', '3, ERROR', '{late,"late, expired",failed}'),
	('maintain', '3, SUCCESS', '{succeeded,succeeded for another}'),
	('maintain', '3, CANCELLED', '{"cancelling, expired",cancelled,purged}'),
	-- the message of a run: released, extended, moved, but never ended by itself
	('release', 'PQ006, QUEUED', '{queued,delayed}'),
	('release', 'done, RUNNING', '{running,expired}'),
	('release', 'PQ006, RUNNING', '{taken,given back,retry}'),
	('release', 'PQ006, PAUSED', '{parked}'),
	('release', 'PQ007 It is past its deadline., RUNNING', '{late,"late, expired"}'),
	('release', 'PQ006, SUCCESS', '{succeeded,succeeded for another}'),
	('release', 'PQ006, ERROR', '{failed}'),
	('release', 'PQ006, CANCELLED', '{cancelled,purged}'),
	('extend', '(f,f), QUEUED', '{queued,delayed}'),
	('extend', '(t,f), RUNNING', '{running,expired}'),
	('extend', '(t,t), RUNNING', '{cancelling,"cancelling, expired"}'),
	('extend', '(f,f), RUNNING', '{taken,given back,retry,late,"late, expired"}'),
	('extend', '(f,f), PAUSED', '{parked}'),
	('extend', '(f,f), SUCCESS', '{succeeded,succeeded for another}'),
	('extend', '(f,f), ERROR', '{failed}'),
	('extend', '(f,f), CANCELLED', '{cancelled,purged}'),
	('set visibility', 'done, QUEUED', '{queued,delayed}'),
	('set visibility', 'done, RUNNING', '{running,expired,taken,given back,retry,late,"late, expired",cancelling,"cancelling, expired"}'),
	('set visibility', 'done, PAUSED', '{parked}'),
	('set visibility', 'PQ004, SUCCESS', '{succeeded,succeeded for another}'),
	('set visibility', 'PQ004, ERROR', '{failed}'),
	('set visibility', 'PQ004, CANCELLED', '{cancelled,purged}'),
	-- out of ERROR leads a replay, and only out of that
	('replay', 'done, QUEUED', '{failed}'),
	('replay', 'PQ007 It is still live., QUEUED', '{queued,delayed}'),
	('replay', 'PQ007 It is still live., RUNNING', '{running,expired,taken,given back,retry,late,"late, expired",cancelling,"cancelling, expired"}'),
	('replay', 'PQ007 It is still live., PAUSED', '{parked}'),
	('replay', 'PQ007 It is DONE., SUCCESS', '{succeeded,succeeded for another}'),
	('replay', 'PQ007 It is CANCELLED., CANCELLED', '{cancelled,purged}'),
	-- what nobody works on
	('purge', '1, CANCELLED', '{queued,delayed,expired,given back,retry,"late, expired",parked,"cancelling, expired"}'),
	('purge', '0, RUNNING', '{running,taken,late,cancelling}'),
	('purge', '0, SUCCESS', '{succeeded,succeeded for another}'),
	('purge', '0, ERROR', '{failed}'),
	('purge', '0, CANCELLED', '{cancelled,purged}'),
	-- the key is held while the run has not ended
	('trigger', 'same, QUEUED', '{queued,delayed}'),
	('trigger', 'same, RUNNING', '{running,expired,taken,given back,retry,late,"late, expired",cancelling,"cancelling, expired"}'),
	('trigger', 'same, PAUSED', '{parked}'),
	('trigger', 'new, SUCCESS', '{succeeded,succeeded for another}'),
	('trigger', 'new, ERROR', '{failed}'),
	('trigger', 'new, CANCELLED', '{cancelled,purged}'),
	('result', 'QUEUED, QUEUED', '{queued,delayed}'),
	('result', 'RUNNING, RUNNING', '{running,expired,taken,given back,retry,late,"late, expired",cancelling,"cancelling, expired"}'),
	('result', 'PAUSED, PAUSED', '{parked}'),
	('result', 'SUCCESS, SUCCESS', '{succeeded,succeeded for another}'),
	('result', 'ERROR, ERROR', '{failed}'),
	('result', 'CANCELLED, CANCELLED', '{cancelled,purged}');
INSERT INTO expected SELECT o, a || ', ' || s.status, s.states
	FROM unnest('{archive,delete,nack}'::text[]) o, (VALUES ('PQ007 It ends with its run.', 'QUEUED', '{queued,delayed}'::text[]),
		('PQ007 It ends with its run.', 'RUNNING', '{running,expired,taken,given back,retry,late,"late, expired",cancelling,"cancelling, expired"}'), ('PQ007 It ends with its run.', 'PAUSED', '{parked}'),
		('PQ006', 'SUCCESS', '{succeeded,succeeded for another}'), ('PQ006', 'ERROR', '{failed}'), ('PQ006', 'CANCELLED', '{cancelled,purged}')) s (a, status, states);
-- Releasing what was asked to stop belongs to cancellation, which is not there yet.
CREATE TEMP TABLE left_out (operation text, state text);
INSERT INTO left_out VALUES ('release', 'cancelling'), ('release', 'cancelling, expired');

SELECT is_empty($$SELECT operation, state, count(e.operation) FROM operations CROSS JOIN states LEFT JOIN (SELECT e.operation, unnest(states) AS state FROM expected e) e USING (operation, state)
	WHERE (operation, state) NOT IN (SELECT * FROM left_out) GROUP BY 1, 2 HAVING count(e.operation) <> 1$$, 'the table has every pair once');
SELECT pg_temp.contents() AS contents \gset
SELECT is(pg_temp.outcome(state, run, lease, call), answer, format('%s, when it is %s', operation, state))
	FROM expected JOIN operations USING (operation), states WHERE state = ANY (expected.states) ORDER BY operation, place;
SELECT is(pg_temp.contents(), :'contents', 'all of it was undone');

-- A run that is not there.
SELECT is(pg_temp.outcome('nothing', 9007199254740991, 1, call), answer, operation || ', when there is no such run')
	FROM operations, LATERAL (SELECT CASE WHEN operation IN ('release', 'archive', 'delete', 'nack') THEN 'PQ006' WHEN operation IN ('set visibility', 'replay') THEN 'PQ004' WHEN operation IN ('claim', 'purge') THEN 'PQ001'
		WHEN operation = 'trigger' THEN 'PQ002' WHEN operation = 'extend' THEN '(f,f)' WHEN operation = 'maintain' THEN '3' ELSE 'PQ003' END AS answer) a;

SELECT * FROM finish();
