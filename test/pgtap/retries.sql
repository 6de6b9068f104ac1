-- Failures of steps and runs: what is retried, what ends.  F22.
-- F-numbers: docs/design/known-failures.md.
\ir include/runs.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_workflow('job', non_retryable => '{fatal,net.dns}') \g /dev/null

CREATE FUNCTION pg_temp.fail(run bigint, lease bigint, step text, error jsonb = '{"type": "x"}',
	retryable boolean = true,
	retry_after interval = NULL, max_attempts int = NULL, fail_run boolean = true) RETURNS text LANGUAGE sql AS
$$ SELECT concat_ws(' ', outcome, 'at ' || retry_at) FROM pgqrs_step_fail(run, lease, step, error, retryable,
	retry_after, max_attempts, fail_run) $$;
CREATE FUNCTION pg_temp.outcome(run bigint, lease bigint, step text, error jsonb = '{"type": "x"}',
	retryable boolean = true,
	retry_after interval = NULL, max_attempts int = NULL, fail_run boolean = true) RETURNS text LANGUAGE sql AS
$$ SELECT split_part(pg_temp.fail(run, lease, step, error, retryable, retry_after, max_attempts, fail_run), ' ',
	1) $$;
CREATE FUNCTION pg_temp.step(run bigint, step text) RETURNS jsonb LANGUAGE sql AS
$$ SELECT jsonb_strip_nulls(to_jsonb(s)) - '{run_id,step_id,started_at,lease,history,kind}'::text[]
	FROM pgqrs_workflow_steps s WHERE run_id = run AND step_id = step $$;
CREATE FUNCTION pg_temp.run(run bigint) RETURNS text LANGUAGE sql AS
$$ SELECT concat_ws(' ', r.status, 'failures ' || r.failures, m.lease IS NOT NULL, r.error) FROM pgqrs_workflow_runs r
	LEFT JOIN pgqrs_messages m USING (run_id) WHERE r.run_id = run $$;

-- A step fails and is tried again.
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_step_begin(:run, :lease, 'a', '1') \g /dev/null
SELECT clock_timestamp() AS before \gset
SELECT * FROM pgqrs_step_fail(:run, :lease, 'a', '{"type": "net", "message": "gone"}') \gset
SELECT is(:'outcome'::text, 'RETRY', 'the first failure of a step is retried');
SELECT ok(:'retry_at'::timestamptz BETWEEN :'before'::timestamptz + interval '0.75 s'
	AND clock_timestamp() + interval '1.25 s',
	'the first retry is about a second later');
SELECT is(visible_after, :'retry_at'::timestamptz, 'the run is due at the time of the retry') FROM pgqrs_messages
	WHERE message_id = :run;
SELECT is(pg_temp.step(:run, 'a'),
	'{"status": "PENDING", "attempt": 1, "failures": 1, "input": 1, "error": {"type": "net", "message": "gone"}}',
	'a step that waits for its retry is PENDING with its error');
SELECT is(pg_temp.run(:run), 'RUNNING failures 0 f',
	'a retry of a step gives the lease up and counts no failure of the run');
SELECT is(last_error, '{"type": "net", "message": "gone"}', 'the message has the error of the step')
	FROM pgqrs_messages WHERE message_id = :run;
SELECT is(ROW(failures, worker_id)::text, '(0,)', 'a retry of a step counts no failure of the message')
	FROM pgqrs_messages WHERE message_id = :run;
SELECT is(count(*), 0::bigint, 'a claim does not return the run before its retry') FROM pgqrs_dequeue('job');
SELECT pg_temp.contents() AS contents \gset
SELECT is(pg_temp.answer(format(call, :run, :lease)), 'PQ006', 'after the retry was granted the lease is refused: '
	|| call)
	FROM unnest('{"SELECT pgqrs_step_fail(%s, %s, ''a'', ''{}'')","SELECT pgqrs_step_begin(%s, %s, ''a'')",'
		'"SELECT pgqrs_step_complete(%s, %s, ''a'')","SELECT pgqrs_complete_run(%s, %s)",'
		'"SELECT pgqrs_fail_run(%s, %s, ''{}'')"}'::text[]) call;
SELECT is(pg_temp.contents(), :'contents', 'calls refused after the retry change nothing');
SELECT pgqrs_trigger('job') AS other \gset
SELECT is(run_id, :other::bigint, 'F22: a run that waits for its retry does not hold up others')
	FROM pgqrs_dequeue('job');

-- The second and the third failure; three is the workflow's limit.
SELECT pg_temp.claim(:run) AS lease \gset
SELECT is(should_execute::text || ' ' || attempt || ' ' || coalesce(error::text, '-'), 'true 2 -',
	'the retry begins the step as attempt 2 without an error') FROM pgqrs_step_begin(:run, :lease, 'a');
SELECT is(pg_temp.step(:run, 'a'), '{"status": "RUNNING", "attempt": 2, "failures": 1, "input": 1}',
	'a step that is retried has no error while it runs');
SELECT is(pg_temp.outcome(:run, :lease, 'a', '2'), 'RETRY', 'the second failure of a step is retried');
SELECT pg_temp.claim(:run) AS lease \gset
SELECT pgqrs_step_begin(:run, :lease, 'a'), pgqrs_step_complete(:run, :lease, 'b', '1') \g /dev/null
SELECT is(pg_temp.fail(:run, :lease, 'a', '{"type": "net", "n": 3}'), 'RUN_FAILED',
	'the third failure of a step fails the run');
SELECT is(pg_temp.step(:run, 'a') - 'completed_at',
	'{"status": "ERROR", "attempt": 3, "failures": 3, "input": 1, "error": {"type": "net", "n": 3}}',
	'the step of the last failure is in ERROR with the error and counts');
SELECT ok(completed_at BETWEEN :'before' AND clock_timestamp(),
	'the step of the last failure ends at the time of the call') FROM pgqrs_workflow_steps WHERE run_id = :run
	AND step_id = 'a';
SELECT is(pg_temp.run(:run), 'ERROR failures 0 f {"n": 3, "type": "net"}',
	'the run is in ERROR with the error of its step');
SELECT is(ROW(outcome, last_error, failures, attempt)::text, '(DEAD,"{""n"": 3, ""type"": ""net""}",0,3)',
	'the message of a failed run is a dead letter with the error') FROM pgqrs_archive WHERE message_id = :run;
SELECT is(count(*), 0::bigint, 'the message of a failed run is no longer live') FROM pgqrs_messages
	WHERE message_id = :run;
SELECT is(r::text, '(ERROR,,"{""n"": 3, ""type"": ""net""}")', 'the result of a failed run is the error of its step')
	FROM pgqrs_result(:run) r;
SELECT ok(completed_at BETWEEN :'before' AND clock_timestamp(), 'a failed run ends at the time of the call')
	FROM pgqrs_get_run(:run);
SELECT results_eq(format('SELECT e->''attempt'', e->''error'' FROM pgqrs_workflow_steps, '
	'jsonb_array_elements(history) e WHERE run_id = %s AND step_id = ''a''', :run),
	$$VALUES ('1'::jsonb, '{"type": "net", "message": "gone"}'::jsonb), ('2', '2'),
		('3', '{"type": "net", "n": 3}')$$, 'the history of a step has the error of each failure');
SELECT ok((e->>'at')::timestamptz BETWEEN :'before' AND clock_timestamp(),
	'the history of a step has the time of each failure') FROM pgqrs_list_steps(:run), jsonb_array_elements(history) e
	WHERE step_id = 'a';
SELECT is(pg_temp.answer(format('SELECT pgqrs_step_fail(%s, %s, ''a'', ''{}'')', :run, :lease)),
	'PQ007 The status is ERROR.',
	'failing the step again after the end of the run is refused');

-- Steps are counted each for itself; a success does not forget failures of others.
SELECT * FROM pg_temp.start('job') \gset
SELECT is(pg_temp.outcome(:run, :lease, 'a'), 'RETRY', 'the failure of a step that was never begun is retried');
SELECT is(pg_temp.step(:run, 'a') - 'error', '{"status": "PENDING", "attempt": 1, "failures": 1}',
	'fail creates the step if its begin was lost');
SELECT is(pg_temp.outcome(:run, pg_temp.claim(:run), 'b'), 'RETRY', 'another step has failures of its own');
SELECT is(pg_temp.outcome(:run, pg_temp.claim(:run), 'a'), 'RETRY',
	'the second failure of the first step is retried');
SELECT is(pg_temp.step(:run, 'a') - 'error', '{"status": "PENDING", "attempt": 2, "failures": 2}',
	'fail counts the attempt if the second begin was lost');
SELECT is(pg_temp.outcome(:run, pg_temp.claim(:run), 'b'), 'RETRY',
	'the second failure of the other step is retried');
SELECT pg_temp.claim(:run) AS lease \gset
SELECT pgqrs_step_complete(:run, :lease, 'a', '1');
SELECT is(pg_temp.step(:run, 'a') - 'completed_at', '{"status": "SUCCESS", "attempt": 3, "failures": 2, "output": 1}',
	'a step that succeeds after failures has its output and no error');
SELECT is(jsonb_array_length(history), 2, 'a step that succeeds keeps the history of its failures')
	FROM pgqrs_list_steps(:run) WHERE step_id = 'a';
SELECT is(pg_temp.answer(format('SELECT pgqrs_step_fail(%s, %s, ''a'', ''{}'')', :run, :lease)),
	'PQ016 The status is SUCCESS.', 'a completed step cannot fail');
SELECT is(pg_temp.outcome(:run, :lease, 'b'), 'RUN_FAILED', 'the third failure of the other step fails the run');

-- Whose max_attempts: the call's, the run's, the workflow's.
CREATE FUNCTION pg_temp.attempts(of_call int, of_run int, workflow text) RETURNS int LANGUAGE plpgsql AS
$$
DECLARE
	run bigint := pgqrs_trigger(workflow, retry_policy => CASE
		WHEN of_run IS NOT NULL THEN jsonb_build_object('max_attempts', of_run) END);
BEGIN
	FOR n IN 1..20 LOOP
		IF pg_temp.outcome(run, pg_temp.claim(run), 'a', max_attempts => of_call) = 'RUN_FAILED' THEN
			RETURN n;
		END IF;
	END LOOP;
	RETURN NULL;
END
$$;
SELECT pgqrs_create_workflow('once', max_attempts => 1), pgqrs_create_workflow('endless',
	max_attempts => -1) \g /dev/null
SELECT is(pg_temp.attempts(c, r, w), n,
	format('max_attempts is that of the call, else of the run, else of the workflow: %s, %s, %s', c, r, w))
	FROM (VALUES (NULL::int, NULL::int, 'job', 3), (NULL, NULL, 'once', 1), (NULL, NULL, 'endless', NULL),
		(NULL, 2, 'job', 2), (NULL, 5, 'once', 5),
		(NULL, -1, 'once', NULL), (NULL, 4, 'endless', 4), (1, NULL, 'job', 1), (4, NULL, 'once', 4),
			(4, 2, 'job', 4), (2, -1, 'job', 2), (-1, 2, 'job', NULL),
		(-1, NULL, 'once', NULL), (2147483647, 1, 'once', NULL)) v (c, r, w, n);
DELETE FROM pgqrs_messages;

-- The last ten failures are kept.
SELECT pgqrs_trigger('endless') AS run \gset
SELECT count(pg_temp.outcome(:run, pg_temp.claim(:run), 'a', to_jsonb(g))) FROM generate_series(1, 13) g \g /dev/null
SELECT is(jsonb_path_query_array(history, '$[*].error'), '[4, 5, 6, 7, 8, 9, 10, 11, 12, 13]',
	'the history keeps the errors of the last ten failures') FROM pgqrs_list_steps(:run);
SELECT is(jsonb_path_query_array(history, '$[*].attempt'), '[4, 5, 6, 7, 8, 9, 10, 11, 12, 13]',
	'the history keeps the attempts of the last ten failures') FROM pgqrs_list_steps(:run);
SELECT is(ROW(failures, attempt)::text, '(13,13)', 'failures beyond the tenth are counted')
	FROM pgqrs_list_steps(:run);
SELECT pgqrs_alter_workflow('endless', max_attempts => 14);
SELECT is(pg_temp.outcome(:run, pg_temp.claim(:run), 'a'), 'RUN_FAILED',
	'a changed max_attempts of the workflow holds for live runs');

-- When: retry_after instead of backoff.
SELECT * FROM pg_temp.start('job') \gset
SELECT clock_timestamp() AS before \gset
SELECT retry_at FROM pgqrs_step_fail(:run, :lease, 'a', '{}', retry_after => '3 days 1 h') \gset
SELECT ok(:'retry_at'::timestamptz BETWEEN :'before'::timestamptz + interval '73 h'
	AND clock_timestamp() + interval '73 h',
	'retry_after replaces the computed delay, also above max_interval');
SELECT pg_temp.claim(:run) AS lease \gset
SELECT retry_at FROM pgqrs_step_fail(:run, :lease, 'a', '{}', retry_after => '0') \gset
SELECT is(run_id, :run::bigint, 'retry_after 0 makes the run due at once') FROM pgqrs_dequeue('job');

-- What is never retried.
CREATE FUNCTION pg_temp.outcome_of(error jsonb, policy jsonb = NULL, fail_run boolean = true,
	retryable boolean = true) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	run bigint := pgqrs_trigger('job', retry_policy => policy);
BEGIN
	RETURN pg_temp.outcome(run, pg_temp.claim(run), 'a', error, retryable, fail_run => fail_run);
END
$$;
SELECT is(pg_temp.outcome_of(e), o, 'non_retryable matches the type of an error or its first parts: ' || e::text)
	FROM (VALUES ('{"type": "fatal"}'::jsonb, 'RUN_FAILED'), ('{"type": "fatal.disk"}', 'RUN_FAILED'),
	('{"type": "fatally"}', 'RUN_FAILED'),
	('{"type": "net.dns.timeout"}', 'RUN_FAILED'), ('{"type": "net"}', 'RETRY'), ('{"type": "net.tcp"}', 'RETRY'),
		('{"type": "Fatal"}', 'RETRY'), ('{"type": " fatal"}', 'RETRY'),
	('{"type": ""}', 'RETRY'), ('{"type": null}', 'RETRY'), ('{"type": ["fatal"]}', 'RETRY'), ('{"message": "fatal"}',
		'RETRY'), ('{"type": "fata"}', 'RETRY'),
	('"fatal"', 'RETRY'), ('["fatal"]', 'RETRY'), ('{"error": {"type": "fatal"}}', 'RETRY'), ('{}', 'RETRY'),
		('null', 'RETRY'), ('1', 'RETRY'), ('[]', 'RETRY')) v (e, o);
SELECT is(pg_temp.outcome_of('{"type": "fatal"}', '{"non_retryable": ["other"]}'), 'RETRY',
	'non_retryable of the run replaces that of the workflow');
SELECT is(pg_temp.outcome_of('{"type": "other"}', '{"non_retryable": ["x", "other"]}'), 'RUN_FAILED',
	'non_retryable of the run holds for its own types');
SELECT is(pg_temp.outcome_of('{"type": "fatal"}', '{"non_retryable": []}'), 'RETRY',
	'an empty non_retryable of the run retries every type');
SELECT is(pg_temp.outcome_of('{"type": "x"}', NULL, true, false), 'RUN_FAILED',
	'retryable false of the call fails the run');
SELECT is(pg_temp.outcome_of('{"type": "x"}', '{"max_attempts": -1}', true, false), 'RUN_FAILED',
	'retryable false of the call fails the run whatever its policy');
SELECT is(pg_temp.outcome_of('{"type": "fatal"}', NULL, false), 'STEP_FAILED',
	'fail_run false with a type that is not retryable fails only the step');
SELECT is(pg_temp.outcome_of('{"type": "x"}', NULL, false), 'RETRY',
	'fail_run false with attempts left retries the step');
SELECT is(pg_temp.outcome_of('{"type": "x"}', '{"max_attempts": 1}', false), 'STEP_FAILED',
	'fail_run false without attempts left fails only the step');

-- A step that has failed, and a run that goes on.
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_step_begin(:run, :lease, 'a') \g /dev/null
SELECT is(pg_temp.fail(:run, :lease, 'a', '{"type": "fatal", "n": 1}', fail_run => false), 'STEP_FAILED',
	'fail_run false fails the step and not the run');
SELECT is(pg_temp.run(:run), 'RUNNING failures 0 t', 'after fail_run false the worker keeps its lease');
SELECT is(concat_ws(' ', should_execute::text, status, output, error, attempt),
	'false ERROR {"n": 1, "type": "fatal"} 1', 'begin of a failed step returns its error instead of executing it')
	FROM pgqrs_step_begin(:run, :lease, 'a');
SELECT pg_temp.contents() AS contents \gset
SELECT is(pg_temp.outcome(:run, :lease, 'a', '{"n": 2}', fail_run => false, retryable => false), 'STEP_FAILED',
	'a repeated failure of the step is answered');
SELECT is(pg_temp.contents(), :'contents', 'a repeated failure of the step changes nothing');
SELECT is(pg_temp.answer(format('SELECT pgqrs_step_complete(%s, %s, ''a'')', :run, :lease)),
	'PQ016 The status is ERROR.',
	'a failed step cannot complete');
SELECT pgqrs_step_begin(:run, :lease, 'compensate'), pgqrs_step_complete(:run, :lease, 'compensate', '1') \g /dev/null
SELECT pg_temp.claim(:run) AS lease \gset
SELECT is(concat_ws(' ', should_execute::text, status, error), 'false ERROR {"n": 1, "type": "fatal"}',
	'after a crash a failed step still returns its error') FROM pgqrs_step_begin(:run, :lease, 'a');
SELECT pgqrs_complete_run(:run, :lease, '1');
SELECT is(pg_temp.run(:run), 'SUCCESS failures 0 f', 'a run with a failed step can succeed');
SELECT is(pg_temp.step(:run, 'a') ->> 'status', 'ERROR', 'a failed step of a run that succeeded stays in ERROR');

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
SELECT is(pg_temp.fail_after(:run, step), outcome,
	'a step that is new resets the failures of the run, a known one does not: ' || step)
	FROM (VALUES ('one', 'RUNNING 1'), ('two', 'RUNNING 1'), ('sleep', 'RUNNING 1'), ('sleep', 'ERROR 2')) v (step,
	outcome);

-- fail_run: not retryable unless told so.
SELECT * FROM pg_temp.start('job') \gset
SELECT is(pgqrs_fail_run(:run, :lease, '{"type": "x"}'), NULL, 'pgqrs_fail_run() does not retry unless told so');
SELECT is(pg_temp.run(:run), 'ERROR failures 1 f {"type": "x"}',
	'pgqrs_fail_run() puts the run in ERROR and counts a failure');
SELECT is(outcome || ' ' || last_error, 'DEAD {"type": "x"}', 'pgqrs_fail_run() makes the message a dead letter')
	FROM pgqrs_archive WHERE message_id = :run;
SELECT is(pg_temp.answer(format('SELECT pgqrs_fail_run(%s, %s, ''{}'')', :run, :lease)), 'PQ007 The status is ERROR.',
	'a repeated pgqrs_fail_run() after the end is refused');
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_step_begin(:run, :lease, 'a') \g /dev/null
SELECT clock_timestamp() AS before \gset
SELECT pgqrs_fail_run(:run, :lease, '1', retryable => true) AS retry_at \gset
SELECT ok(:'retry_at'::timestamptz BETWEEN :'before'::timestamptz + interval '0.75 s'
	AND clock_timestamp() + interval '1.25 s',
	'the first retry of a run is about a second later');
SELECT is(visible_after, :'retry_at'::timestamptz, 'the run is due at the time of its retry') FROM pgqrs_messages
	WHERE message_id = :run;
SELECT is(pg_temp.run(:run), 'RUNNING failures 1 f', 'a retry of the run gives the lease up');
SELECT is(pg_temp.answer(format('SELECT pgqrs_fail_run(%s, %s, ''{}'', true)', :run, :lease)), 'PQ006',
	'a repeated pgqrs_fail_run() after the retry was granted is refused');
SELECT pg_temp.claim(:run) AS lease \gset
SELECT is(pg_temp.outcome(:run, :lease, 'a'), 'RETRY', 'failures of the run do not count for its steps');
SELECT pg_temp.claim(:run) AS lease \gset
SELECT clock_timestamp() AS before \gset
SELECT pgqrs_fail_run(:run, :lease, '2', true, '2 h') AS retry_at \gset
SELECT ok(:'retry_at'::timestamptz BETWEEN :'before'::timestamptz + interval '2 h'
	AND clock_timestamp() + interval '2 h',
	'retry_after replaces the computed delay of a run');
SELECT is(pgqrs_fail_run(:run, pg_temp.claim(:run), '3', true), NULL, 'the third failure of a run ends it');
SELECT is(pg_temp.run(:run), 'ERROR failures 3 f 3', 'the run has the error of its last failure');
SELECT * FROM pg_temp.start('job') \gset
SELECT is(pgqrs_fail_run(:run, :lease, '{"type": "fatal"}', true, '1 s'), NULL,
	'an error whose type is not retryable ends the run');
SELECT is(pgqrs_fail_run(run, pg_temp.claim(run), '1', true) IS NULL, ended,
	'the number of tries is that of the run''s policy: ' || policy::text)
	FROM (VALUES ('{"max_attempts": 1}'::jsonb, true), ('{"max_attempts": 2}', false), ('{"max_attempts": -1}',
		false)) v (policy, ended), pgqrs_trigger('job', retry_policy => policy) run;

-- Given back: no failure of anything.
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_step_begin(:run, :lease, 'a') \g /dev/null
SELECT pgqrs_release_message(:run, :lease, '1 h');
SELECT is(pg_temp.run(:run), 'RUNNING failures 0 f', 'a release counts no failure of the run');
SELECT is(ROW(failures, visible_after - clock_timestamp() BETWEEN '50 min' AND '1 h')::text, '(0,t)',
	'a release counts no failure of the message and obeys its delay') FROM pgqrs_messages WHERE message_id = :run;
SELECT is(pg_temp.answer(format('SELECT pgqrs_step_complete(%s, %s, ''a'')', :run, :lease)), 'PQ006',
	'the lease is refused after a release');
SELECT is(pg_temp.answer(format('SELECT pgqrs_release_message(%s, %s)', :run, :lease)), 'PQ006',
	'a repeated release is refused');
SELECT pg_temp.claim(:run) AS lease \gset
SELECT is(ROW(attempt, failures)::text, '(2,0)', 'the claim after a release is attempt 2 without a failure')
	FROM pgqrs_get_run(:run);
SELECT is(attempt, 2, 'a step that was open at the release is executed again as attempt 2')
	FROM pgqrs_step_begin(:run, :lease, 'a');

SELECT * FROM finish();
