-- Failures of steps and runs: what is retried, what ends.  F22.
-- F-numbers: docs/design/known-failures.md.
\ir include/runs.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_workflow('job', non_retryable => '{fatal,net.dns}') \g /dev/null

CREATE FUNCTION pg_temp.fail(run bigint, lease bigint, step text, error jsonb = '{"type": "x"}', retryable boolean = true,
	retry_after interval = NULL, max_attempts int = NULL, fail_run boolean = true) RETURNS text LANGUAGE sql AS
$$ SELECT concat_ws(' ', outcome, 'at ' || retry_at) FROM pgqrs_step_fail(run, lease, step, error, retryable, retry_after, max_attempts, fail_run) $$;
CREATE FUNCTION pg_temp.outcome(run bigint, lease bigint, step text, error jsonb = '{"type": "x"}', retryable boolean = true,
	retry_after interval = NULL, max_attempts int = NULL, fail_run boolean = true) RETURNS text LANGUAGE sql AS
$$ SELECT split_part(pg_temp.fail(run, lease, step, error, retryable, retry_after, max_attempts, fail_run), ' ', 1) $$;
CREATE FUNCTION pg_temp.step(run bigint, step text) RETURNS jsonb LANGUAGE sql AS
$$ SELECT jsonb_strip_nulls(to_jsonb(s)) - '{run_id,step_id,started_at,lease,history,kind}'::text[] FROM pgqrs_workflow_steps s WHERE run_id = run AND step_id = step $$;
CREATE FUNCTION pg_temp.run(run bigint) RETURNS text LANGUAGE sql AS
$$ SELECT concat_ws(' ', r.status, 'failures ' || r.failures, m.lease IS NOT NULL, r.error) FROM pgqrs_workflow_runs r LEFT JOIN pgqrs_messages m USING (run_id) WHERE r.run_id = run $$;

-- A step fails and is tried again.
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_step_begin(:run, :lease, 'a', '1') \g /dev/null
SELECT clock_timestamp() AS before \gset
SELECT * FROM pgqrs_step_fail(:run, :lease, 'a', '{"type": "net", "message": "gone"}') \gset
SELECT is(:'outcome'::text, 'RETRY', 'the outcome');
SELECT ok(:'retry_at'::timestamptz - :'before'::timestamptz BETWEEN interval '0.75 s' AND interval '5 s', 'in about a second');
SELECT is(visible_after, :'retry_at'::timestamptz, 'when it can be claimed') FROM pgqrs_messages WHERE message_id = :run;
SELECT is(pg_temp.step(:run, 'a'), '{"status": "PENDING", "attempt": 1, "failures": 1, "input": 1, "error": {"type": "net", "message": "gone"}}', 'the step waits');
SELECT is(pg_temp.run(:run), 'RUNNING failures 0 f', 'the lease is given up, the run has not failed');
SELECT is(last_error, '{"type": "net", "message": "gone"}', 'the message has the error') FROM pgqrs_messages WHERE message_id = :run;
SELECT is(ROW(failures, worker_id)::text, '(0,)', 'but has not crashed') FROM pgqrs_messages WHERE message_id = :run;
SELECT is(count(*), 0::bigint, 'not delivered before its time') FROM pgqrs_dequeue('job');
SELECT pg_temp.contents() AS contents \gset
SELECT is(pg_temp.answer(format(call, :run, :lease)), 'PQ006', 'the lease is gone: ' || call)
	FROM unnest('{"SELECT pgqrs_step_fail(%s, %s, ''a'', ''{}'')","SELECT pgqrs_step_begin(%s, %s, ''a'')","SELECT pgqrs_step_complete(%s, %s, ''a'')","SELECT pgqrs_complete_run(%s, %s)","SELECT pgqrs_fail_run(%s, %s, ''{}'')"}'::text[]) call;
SELECT is(pg_temp.contents(), :'contents', 'nothing changes');
SELECT pgqrs_trigger('job') AS other \gset
SELECT is(run_id, :other::bigint, 'F22: the retry does not keep others waiting') FROM pgqrs_dequeue('job');

-- The second and the third failure; three is the workflow's limit.
SELECT pg_temp.claim(:run) AS lease \gset
SELECT is(should_execute::text || ' ' || attempt || ' ' || coalesce(error::text, '-'), 'true 2 -', 'begin again') FROM pgqrs_step_begin(:run, :lease, 'a');
SELECT is(pg_temp.step(:run, 'a'), '{"status": "RUNNING", "attempt": 2, "failures": 1, "input": 1}', 'while it runs it has no error');
SELECT is(pg_temp.outcome(:run, :lease, 'a', '2'), 'RETRY', 'the second failure');
SELECT pg_temp.claim(:run) AS lease \gset
SELECT pgqrs_step_begin(:run, :lease, 'a'), pgqrs_step_complete(:run, :lease, 'b', '1') \g /dev/null
SELECT is(pg_temp.fail(:run, :lease, 'a', '{"type": "net", "n": 3}'), 'RUN_FAILED', 'the third');
SELECT is(pg_temp.step(:run, 'a') - 'completed_at', '{"status": "ERROR", "attempt": 3, "failures": 3, "input": 1, "error": {"type": "net", "n": 3}}', 'the step has failed');
SELECT ok(completed_at BETWEEN :'before' AND clock_timestamp(), 'now') FROM pgqrs_workflow_steps WHERE run_id = :run AND step_id = 'a';
SELECT is(pg_temp.run(:run), 'ERROR failures 0 f {"n": 3, "type": "net"}', 'and the run');
SELECT is(ROW(outcome, last_error, failures, attempt)::text, '(DEAD,"{""n"": 3, ""type"": ""net""}",0,3)', 'its message is dead') FROM pgqrs_archive WHERE message_id = :run;
SELECT is(count(*), 0::bigint, 'and gone') FROM pgqrs_messages WHERE message_id = :run;
SELECT is(r::text, '(ERROR,,"{""n"": 3, ""type"": ""net""}")', 'the result') FROM pgqrs_result(:run) r;
SELECT ok(completed_at BETWEEN :'before' AND clock_timestamp(), 'completed_at') FROM pgqrs_get_run(:run);
SELECT results_eq(format('SELECT e->''attempt'', e->''error'' FROM pgqrs_workflow_steps, jsonb_array_elements(history) e WHERE run_id = %s AND step_id = ''a''', :run),
	$$VALUES ('1'::jsonb, '{"type": "net", "message": "gone"}'::jsonb), ('2', '2'), ('3', '{"type": "net", "n": 3}')$$, 'the history');
SELECT ok((e->>'at')::timestamptz BETWEEN :'before' AND clock_timestamp(), 'with times') FROM pgqrs_list_steps(:run), jsonb_array_elements(history) e WHERE step_id = 'a';
SELECT is(pg_temp.answer(format('SELECT pgqrs_step_fail(%s, %s, ''a'', ''{}'')', :run, :lease)), 'PQ007 It is ERROR.', 'repeated after the end');

-- Steps are counted each for itself; a success does not forget failures of others.
SELECT * FROM pg_temp.start('job') \gset
SELECT is(pg_temp.outcome(:run, :lease, 'a'), 'RETRY', 'a, never begun');
SELECT is(pg_temp.step(:run, 'a') - 'error', '{"status": "PENDING", "attempt": 1, "failures": 1}', 'fail creates the step if begin was lost');
SELECT is(pg_temp.outcome(:run, pg_temp.claim(:run), 'b'), 'RETRY', 'b');
SELECT is(pg_temp.outcome(:run, pg_temp.claim(:run), 'a'), 'RETRY', 'a again');
SELECT is(pg_temp.step(:run, 'a') - 'error', '{"status": "PENDING", "attempt": 2, "failures": 2}', 'when the second begin was lost');
SELECT is(pg_temp.outcome(:run, pg_temp.claim(:run), 'b'), 'RETRY', 'b again');
SELECT pg_temp.claim(:run) AS lease \gset
SELECT pgqrs_step_complete(:run, :lease, 'a', '1');
SELECT is(pg_temp.step(:run, 'a') - 'completed_at', '{"status": "SUCCESS", "attempt": 3, "failures": 2, "output": 1}', 'a succeeds; its last error is no error any more');
SELECT is(jsonb_array_length(history), 2, 'but history') FROM pgqrs_list_steps(:run) WHERE step_id = 'a';
SELECT is(pg_temp.answer(format('SELECT pgqrs_step_fail(%s, %s, ''a'', ''{}'')', :run, :lease)), 'PQ016 It is SUCCESS.', 'a succeeded step cannot fail');
SELECT is(pg_temp.outcome(:run, :lease, 'b'), 'RUN_FAILED', 'b a third time');

-- Whose max_attempts: the call's, the run's, the workflow's.
CREATE FUNCTION pg_temp.attempts(of_call int, of_run int, workflow text) RETURNS int LANGUAGE plpgsql AS
$$
DECLARE
	run bigint := pgqrs_trigger(workflow, retry_policy => CASE WHEN of_run IS NOT NULL THEN jsonb_build_object('max_attempts', of_run) END);
BEGIN
	FOR n IN 1..20 LOOP
		IF pg_temp.outcome(run, pg_temp.claim(run), 'a', max_attempts => of_call) = 'RUN_FAILED' THEN
			RETURN n;
		END IF;
	END LOOP;
	RETURN NULL;
END
$$;
SELECT pgqrs_create_workflow('once', max_attempts => 1), pgqrs_create_workflow('endless', max_attempts => -1) \g /dev/null
SELECT is(pg_temp.attempts(c, r, w), n, format('call %s, run %s, workflow %s', c, r, w))
	FROM (VALUES (NULL::int, NULL::int, 'job', 3), (NULL, NULL, 'once', 1), (NULL, NULL, 'endless', NULL), (NULL, 2, 'job', 2), (NULL, 5, 'once', 5),
		(NULL, -1, 'once', NULL), (NULL, 4, 'endless', 4), (1, NULL, 'job', 1), (4, NULL, 'once', 4), (4, 2, 'job', 4), (2, -1, 'job', 2), (-1, 2, 'job', NULL),
		(-1, NULL, 'once', NULL), (2147483647, 1, 'once', NULL)) v (c, r, w, n);
DELETE FROM pgqrs_messages;

-- The last ten failures are kept.
SELECT pgqrs_trigger('endless') AS run \gset
SELECT count(pg_temp.outcome(:run, pg_temp.claim(:run), 'a', to_jsonb(g))) FROM generate_series(1, 13) g \g /dev/null
SELECT is(jsonb_path_query_array(history, '$[*].error'), '[4, 5, 6, 7, 8, 9, 10, 11, 12, 13]', 'errors') FROM pgqrs_list_steps(:run);
SELECT is(jsonb_path_query_array(history, '$[*].attempt'), '[4, 5, 6, 7, 8, 9, 10, 11, 12, 13]', 'attempts') FROM pgqrs_list_steps(:run);
SELECT is(ROW(failures, attempt)::text, '(13,13)', 'but all are counted') FROM pgqrs_list_steps(:run);
SELECT pgqrs_alter_workflow('endless', max_attempts => 14);
SELECT is(pg_temp.outcome(:run, pg_temp.claim(:run), 'a'), 'RUN_FAILED', 'a policy that changes counts for live runs');

-- When: retry_after instead of backoff.
SELECT * FROM pg_temp.start('job') \gset
SELECT clock_timestamp() AS before \gset
SELECT retry_at FROM pgqrs_step_fail(:run, :lease, 'a', '{}', retry_after => '3 days 1 h') \gset
SELECT ok(:'retry_at'::timestamptz - :'before'::timestamptz BETWEEN interval '73 h' AND interval '73 h 10 s', 'retry_after, also above max_interval');
SELECT pg_temp.claim(:run) AS lease \gset
SELECT retry_at FROM pgqrs_step_fail(:run, :lease, 'a', '{}', retry_after => '0') \gset
SELECT is(run_id, :run::bigint, 'at once') FROM pgqrs_dequeue('job');

-- What is never retried.
CREATE FUNCTION pg_temp.outcome_of(error jsonb, policy jsonb = NULL, fail_run boolean = true, retryable boolean = true) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	run bigint := pgqrs_trigger('job', retry_policy => policy);
BEGIN
	RETURN pg_temp.outcome(run, pg_temp.claim(run), 'a', error, retryable, fail_run => fail_run);
END
$$;
SELECT is(pg_temp.outcome_of(e), o, 'error ' || e::text) FROM (VALUES ('{"type": "fatal"}'::jsonb, 'RUN_FAILED'), ('{"type": "fatal.disk"}', 'RUN_FAILED'), ('{"type": "fatally"}', 'RUN_FAILED'),
	('{"type": "net.dns.timeout"}', 'RUN_FAILED'), ('{"type": "net"}', 'RETRY'), ('{"type": "net.tcp"}', 'RETRY'), ('{"type": "Fatal"}', 'RETRY'), ('{"type": " fatal"}', 'RETRY'),
	('{"type": ""}', 'RETRY'), ('{"type": null}', 'RETRY'), ('{"type": ["fatal"]}', 'RETRY'), ('{"message": "fatal"}', 'RETRY'), ('{"type": "fata"}', 'RETRY'),
	('"fatal"', 'RETRY'), ('["fatal"]', 'RETRY'), ('{"error": {"type": "fatal"}}', 'RETRY'), ('{}', 'RETRY'), ('null', 'RETRY'), ('1', 'RETRY'), ('[]', 'RETRY')) v (e, o);
SELECT is(pg_temp.outcome_of('{"type": "fatal"}', '{"non_retryable": ["other"]}'), 'RETRY', 'the run''s list instead');
SELECT is(pg_temp.outcome_of('{"type": "other"}', '{"non_retryable": ["x", "other"]}'), 'RUN_FAILED', 'has its own');
SELECT is(pg_temp.outcome_of('{"type": "fatal"}', '{"non_retryable": []}'), 'RETRY', 'or none');
SELECT is(pg_temp.outcome_of('{"type": "x"}', NULL, true, false), 'RUN_FAILED', 'the caller says so');
SELECT is(pg_temp.outcome_of('{"type": "x"}', '{"max_attempts": -1}', true, false), 'RUN_FAILED', 'whatever the policy');
SELECT is(pg_temp.outcome_of('{"type": "fatal"}', NULL, false), 'STEP_FAILED', 'fail_run false: only the step');
SELECT is(pg_temp.outcome_of('{"type": "x"}', NULL, false), 'RETRY', 'once it is not retried');
SELECT is(pg_temp.outcome_of('{"type": "x"}', '{"max_attempts": 1}', false), 'STEP_FAILED', 'out of attempts');

-- A step that has failed, and a run that goes on.
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_step_begin(:run, :lease, 'a') \g /dev/null
SELECT is(pg_temp.fail(:run, :lease, 'a', '{"type": "fatal", "n": 1}', fail_run => false), 'STEP_FAILED', 'the outcome');
SELECT is(pg_temp.run(:run), 'RUNNING failures 0 t', 'the run still has its lease');
SELECT is(concat_ws(' ', should_execute::text, status, output, error, attempt), 'false ERROR {"n": 1, "type": "fatal"} 1', 'begin answers with the error') FROM pgqrs_step_begin(:run, :lease, 'a');
SELECT pg_temp.contents() AS contents \gset
SELECT is(pg_temp.outcome(:run, :lease, 'a', '{"n": 2}', fail_run => false, retryable => false), 'STEP_FAILED', 'repeated');
SELECT is(pg_temp.contents(), :'contents', 'nothing changes');
SELECT is(pg_temp.answer(format('SELECT pgqrs_step_complete(%s, %s, ''a'')', :run, :lease)), 'PQ016 It is ERROR.', 'it cannot complete');
SELECT pgqrs_step_begin(:run, :lease, 'compensate'), pgqrs_step_complete(:run, :lease, 'compensate', '1') \g /dev/null
SELECT pg_temp.claim(:run) AS lease \gset
SELECT is(concat_ws(' ', should_execute::text, status, error), 'false ERROR {"n": 1, "type": "fatal"}', 'after a crash, too') FROM pgqrs_step_begin(:run, :lease, 'a');
SELECT pgqrs_complete_run(:run, :lease, '1');
SELECT is(pg_temp.run(:run), 'SUCCESS failures 0 f', 'the run succeeds');
SELECT is(pg_temp.step(:run, 'a') ->> 'status', 'ERROR', 'its step has failed');

-- What fail_run counted goes back to 0 whenever a step succeeds.
SELECT pgqrs_trigger('job', retry_policy => '{"max_attempts": 2}') AS run \gset
CREATE FUNCTION pg_temp.fail_after(run bigint, step text) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	lease bigint := pg_temp.claim(run);
BEGIN
	IF step ~ 'sleep' THEN
		PERFORM pgqrs_sleep(run, lease, step, '0');
	ELSE
		PERFORM pgqrs_step_complete(run, lease, step);
	END IF;
	PERFORM pgqrs_fail_run(run, lease, '{"type": "x"}', true, '0');
	RETURN (SELECT status || ' ' || failures FROM pgqrs_get_run(run));
END
$$;
SELECT is(pg_temp.fail_after(:run, step), outcome, 'a failure after the step ' || step) FROM (VALUES ('one', 'RUNNING 1'), ('two', 'RUNNING 1'), ('sleep', 'RUNNING 1'), ('sleep', 'ERROR 2')) v (step, outcome);

-- fail_run: not retryable unless told so.
SELECT * FROM pg_temp.start('job') \gset
SELECT is(pgqrs_fail_run(:run, :lease, '{"type": "x"}'), NULL, 'ended');
SELECT is(pg_temp.run(:run), 'ERROR failures 1 f {"type": "x"}', 'in ERROR');
SELECT is(outcome || ' ' || last_error, 'DEAD {"type": "x"}', 'its message is dead') FROM pgqrs_archive WHERE message_id = :run;
SELECT is(pg_temp.answer(format('SELECT pgqrs_fail_run(%s, %s, ''{}'')', :run, :lease)), 'PQ007 It is ERROR.', 'repeated');
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_step_begin(:run, :lease, 'a') \g /dev/null
SELECT clock_timestamp() AS before \gset
SELECT pgqrs_fail_run(:run, :lease, '1', retryable => true) AS retry_at \gset
SELECT ok(:'retry_at'::timestamptz - :'before'::timestamptz BETWEEN interval '0.75 s' AND interval '5 s', 'in about a second');
SELECT is(visible_after, :'retry_at'::timestamptz, 'when it can be claimed') FROM pgqrs_messages WHERE message_id = :run;
SELECT is(pg_temp.run(:run), 'RUNNING failures 1 f', 'the lease is given up');
SELECT is(pg_temp.answer(format('SELECT pgqrs_fail_run(%s, %s, ''{}'', true)', :run, :lease)), 'PQ006', 'repeated');
SELECT pg_temp.claim(:run) AS lease \gset
SELECT is(pg_temp.outcome(:run, :lease, 'a'), 'RETRY', 'steps are counted apart');
SELECT pg_temp.claim(:run) AS lease \gset
SELECT clock_timestamp() AS before \gset
SELECT pgqrs_fail_run(:run, :lease, '2', true, '2 h') AS retry_at \gset
SELECT ok(:'retry_at'::timestamptz - :'before'::timestamptz BETWEEN interval '2 h' AND interval '2 h 10 s', 'retry_after');
SELECT is(pgqrs_fail_run(:run, pg_temp.claim(:run), '3', true), NULL, 'the third time is the last');
SELECT is(pg_temp.run(:run), 'ERROR failures 3 f 3', 'with its own error');
SELECT * FROM pg_temp.start('job') \gset
SELECT is(pgqrs_fail_run(:run, :lease, '{"type": "fatal"}', true, '1 s'), NULL, 'a permanent error');
SELECT is(pgqrs_fail_run(run, pg_temp.claim(run), '1', true) IS NULL, ended, 'the run''s policy ' || policy::text)
	FROM (VALUES ('{"max_attempts": 1}'::jsonb, true), ('{"max_attempts": 2}', false), ('{"max_attempts": -1}', false)) v (policy, ended), pgqrs_trigger('job', retry_policy => policy) run;

-- Given back: no failure of anything.
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_step_begin(:run, :lease, 'a') \g /dev/null
SELECT pgqrs_release_message(:run, :lease, '1 h');
SELECT is(pg_temp.run(:run), 'RUNNING failures 0 f', 'released');
SELECT is(ROW(failures, visible_after - clock_timestamp() BETWEEN '59 min' AND '1 h')::text, '(0,t)', 'for an hour') FROM pgqrs_messages WHERE message_id = :run;
SELECT is(pg_temp.answer(format('SELECT pgqrs_step_complete(%s, %s, ''a'')', :run, :lease)), 'PQ006', 'the lease is gone');
SELECT is(pg_temp.answer(format('SELECT pgqrs_release_message(%s, %s)', :run, :lease)), 'PQ006', 'repeated');
SELECT pg_temp.claim(:run) AS lease \gset
SELECT is(ROW(attempt, failures)::text, '(2,0)', 'the next attempt') FROM pgqrs_get_run(:run);
SELECT is(attempt, 2, 'of the step, too') FROM pgqrs_step_begin(:run, :lease, 'a');

SELECT * FROM finish();
