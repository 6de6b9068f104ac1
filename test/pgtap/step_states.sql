-- The state machine of steps: every operation in every state of a step, against
-- the moves of docs/concepts.md.
--
-- A cell is what the call answers, and status, attempt and failures of the
-- step after it.
\ir include/runs.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_workflow('job', max_attempts => 3) \g /dev/null

-- A run with a step in that state, and the lease that the caller has.
CREATE FUNCTION pg_temp.bring(state text, OUT run bigint, OUT lease bigint) LANGUAGE plpgsql AS
$$
BEGIN
	SELECT * INTO run, lease FROM pg_temp.start('job');
	IF state = 'none' THEN
		RETURN;
	END IF;
	PERFORM pgqrs_step_begin(run, lease, 's');
	CASE
		WHEN state LIKE 'succeeded%' THEN PERFORM pgqrs_step_complete(run, lease, 's', '1');
		WHEN state LIKE 'failed%' THEN PERFORM pgqrs_step_fail(run, lease, 's', '{"e": 1}', retryable => false,
			fail_run => false);
		WHEN state LIKE 'pending%' THEN
			PERFORM pgqrs_step_fail(run, lease, 's', '{"e": 1}');
			lease := pg_temp.claim(run);
		WHEN state = 'replayed' THEN
			PERFORM pgqrs_step_fail(run, lease, 's', '{"e": 1}', retryable => false), pgqrs_replay_message(run);
			lease := pg_temp.claim(run);
		ELSE
	END CASE;
	IF state LIKE '%before' THEN
		lease := pg_temp.claim(run);
	ELSIF state = 'pending for the last time' THEN
		PERFORM pgqrs_step_fail(run, lease, 's', '{"e": 2}');
		lease := pg_temp.claim(run);
	END IF;
END
$$;
CREATE TEMP TABLE states AS SELECT state, b.*, row_number() OVER () AS place
	FROM unnest('{none,running,running before,pending,pending for the last time,replayed,succeeded,succeeded '
		'before,failed,failed before}'::text[]) state, pg_temp.bring(state) b;

CREATE TEMP TABLE operations (operation text PRIMARY KEY, call text);
INSERT INTO operations VALUES
	('begin', 'SELECT concat_ws('' '', should_execute::text, output, error) FROM pgqrs_step_begin(RUN, LEASE, '
		'''s'')'),
	('complete', 'SELECT pgqrs_step_complete(RUN, LEASE, ''s'', ''2'')'),
	('complete, begin the next', 'SELECT concat_ws('' '', stored::text, should_execute::text) FROM '
		'pgqrs_step_next(RUN, LEASE, ''s'', ''2'', ''t'')'),
	('complete another, begin', 'SELECT concat_ws('' '', stored::text, should_execute::text, output, error) FROM '
		'pgqrs_step_next(RUN, LEASE, ''t'', ''2'', ''s'')'),
	('end the run, claim', 'SELECT count(queue) FROM pgqrs_next(queue => ''job'', batch_size => 0, '
		'done_ids => ARRAY[RUN]::bigint[], done_leases => ARRAY[LEASE]::bigint[])'),
	('fail', 'SELECT outcome FROM pgqrs_step_fail(RUN, LEASE, ''s'', ''{"e": 3}'')'),
	('fail for good', 'SELECT outcome FROM pgqrs_step_fail(RUN, LEASE, ''s'', ''{"e": 3}'', retryable => false)'),
	('fail only the step',
		'SELECT outcome FROM pgqrs_step_fail(RUN, LEASE, ''s'', ''{"e": 3}'', retryable => false, fail_run => '
		'false)'),
	('claim', 'SELECT pg_temp.claim(RUN) > 0'),
	('release', 'SELECT pgqrs_release_message(RUN, LEASE)'),
	('complete the run', 'SELECT pgqrs_complete_run(RUN, LEASE)'),
	('fail the run', 'SELECT pgqrs_fail_run(RUN, LEASE, ''{}'') IS NULL'),
	('retry the run', 'SELECT pgqrs_fail_run(RUN, LEASE, ''{}'', true) IS NOT NULL'),
	('fail and replay the run', 'SELECT concat(pgqrs_fail_run(RUN, LEASE, ''{}''), pgqrs_replay_message(RUN))'),
	('another step', 'SELECT pgqrs_step_complete(RUN, LEASE, ''t'')'),
	('begin, another step', 'SELECT attempt FROM pgqrs_step_begin(RUN, LEASE, ''t'')');

CREATE FUNCTION pg_temp.outcome(run bigint, lease bigint, call text) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	answer text;
	step text;
	detail text;
BEGIN
	BEGIN
		EXECUTE replace(replace(call, 'RUN', run::text), 'LEASE', lease::text) INTO answer;
	EXCEPTION WHEN OTHERS THEN
		GET STACKED DIAGNOSTICS answer = RETURNED_SQLSTATE, detail = PG_EXCEPTION_DETAIL;
		answer := concat_ws(' ', answer, nullif(detail, ''));
	END;
	SELECT concat_ws(' ', status, attempt, failures) INTO step FROM pgqrs_workflow_steps WHERE run_id = run
		AND step_id = 's';
	RAISE EXCEPTION USING ERRCODE = 'UNDO0';
EXCEPTION WHEN SQLSTATE 'UNDO0' THEN
	RETURN concat_ws(', ', coalesce(nullif(answer, ''), 'done'), step);
END
$$;

-- As documented.
CREATE TEMP TABLE expected (operation text, state text, outcome text);
INSERT INTO expected VALUES
	('begin', 'none', 'true, RUNNING 1 0'),
	('begin', 'running', 'true, RUNNING 1 0'),
	('begin', 'running before', 'true, RUNNING 2 0'),
	('begin', 'pending', 'true, RUNNING 2 1'),
	('begin', 'pending for the last time', 'true, RUNNING 3 2'),
	('begin', 'replayed', 'true, RUNNING 2 0'),
	('begin', 'succeeded', 'false 1, SUCCESS 1 0'),
	('begin', 'succeeded before', 'false 1, SUCCESS 1 0'),
	('begin', 'failed', 'false {"e": 1}, ERROR 1 1'),
	('begin', 'failed before', 'false {"e": 1}, ERROR 1 1'),
	-- creates it, or counts the attempt, if begin was lost
	('complete', 'none', 'true, SUCCESS 1 0'),
	('complete', 'running', 'true, SUCCESS 1 0'),
	('complete', 'running before', 'true, SUCCESS 2 0'),
	('complete', 'pending', 'true, SUCCESS 2 1'),
	('complete', 'pending for the last time', 'true, SUCCESS 3 2'),
	('complete', 'replayed', 'true, SUCCESS 2 0'),
	('complete', 'succeeded', 'false, SUCCESS 1 0'),
	('complete', 'succeeded before', 'false, SUCCESS 1 0'),
	('complete', 'failed', 'PQ016 The status is ERROR., ERROR 1 1'),
	('complete', 'failed before', 'PQ016 The status is ERROR., ERROR 1 1'),
	('fail', 'none', 'RETRY, PENDING 1 1'),
	('fail', 'running', 'RETRY, PENDING 1 1'),
	('fail', 'running before', 'RETRY, PENDING 2 1'),
	('fail', 'pending', 'RETRY, PENDING 2 2'),
	('fail', 'pending for the last time', 'RUN_FAILED, ERROR 3 3'),
	('fail', 'replayed', 'RETRY, PENDING 2 1'),
	('fail', 'succeeded', 'PQ016 The status is SUCCESS., SUCCESS 1 0'),
	('fail', 'succeeded before', 'PQ016 The status is SUCCESS., SUCCESS 1 0'),
	('fail', 'failed', 'PQ016 The status is ERROR., ERROR 1 1'),
	('fail', 'failed before', 'PQ016 The status is ERROR., ERROR 1 1'),
	('fail for good', 'none', 'RUN_FAILED, ERROR 1 1'),
	('fail for good', 'running', 'RUN_FAILED, ERROR 1 1'),
	('fail for good', 'running before', 'RUN_FAILED, ERROR 2 1'),
	('fail for good', 'pending', 'RUN_FAILED, ERROR 2 2'),
	('fail for good', 'pending for the last time', 'RUN_FAILED, ERROR 3 3'),
	('fail for good', 'replayed', 'RUN_FAILED, ERROR 2 1'),
	('fail for good', 'succeeded', 'PQ016 The status is SUCCESS., SUCCESS 1 0'),
	('fail for good', 'succeeded before', 'PQ016 The status is SUCCESS., SUCCESS 1 0'),
	('fail for good', 'failed', 'PQ016 The status is ERROR., ERROR 1 1'),
	('fail for good', 'failed before', 'PQ016 The status is ERROR., ERROR 1 1'),
	('fail only the step', 'none', 'STEP_FAILED, ERROR 1 1'),
	('fail only the step', 'running', 'STEP_FAILED, ERROR 1 1'),
	('fail only the step', 'running before', 'STEP_FAILED, ERROR 2 1'),
	('fail only the step', 'pending', 'STEP_FAILED, ERROR 2 2'),
	('fail only the step', 'pending for the last time', 'STEP_FAILED, ERROR 3 3'),
	('fail only the step', 'replayed', 'STEP_FAILED, ERROR 2 1'),
	('fail only the step', 'succeeded', 'PQ016 The status is SUCCESS., SUCCESS 1 0'),
	('fail only the step', 'succeeded before', 'PQ016 The status is SUCCESS., SUCCESS 1 0'),
	('fail only the step', 'failed', 'STEP_FAILED, ERROR 1 1'),	-- repeated
	('fail only the step', 'failed before', 'PQ016 The status is ERROR., ERROR 1 1'),
	('fail and replay the run', 'none', 'done'),
	('fail and replay the run', 'running', 'done, RUNNING 1 0'),
	('fail and replay the run', 'running before', 'done, RUNNING 1 0'),
	('fail and replay the run', 'pending', 'done, PENDING 1 1'),
	('fail and replay the run', 'pending for the last time', 'done, PENDING 2 2'),
	('fail and replay the run', 'replayed', 'done, PENDING 1 0'),
	('fail and replay the run', 'succeeded', 'done, SUCCESS 1 0'),
	('fail and replay the run', 'succeeded before', 'done, SUCCESS 1 0'),
	('fail and replay the run', 'failed', 'done, PENDING 1 0'),
	('fail and replay the run', 'failed before', 'done, PENDING 1 0');
-- Two calls in one.
INSERT INTO expected
	SELECT 'complete, begin the next', state, regexp_replace(outcome, '^(true|false)', '\1 true')
	FROM expected WHERE operation = 'complete';
INSERT INTO expected
	SELECT 'complete another, begin', state, 'true ' || outcome FROM expected WHERE operation = 'begin';
-- Nothing else touches it.
INSERT INTO expected
	SELECT operation, state, concat_ws(', ', answer, step)
	FROM (VALUES ('claim', 'true'), ('release', 'done'), ('complete the run', 'true'), ('end the run, claim', '0'),
		('fail the run', 'true'),
		('retry the run', 'true'), ('another step', 'true'), ('begin, another step', '1')) o (operation, answer),
		(VALUES ('none', NULL), ('running', 'RUNNING 1 0'), ('running before', 'RUNNING 1 0'),
			('pending', 'PENDING 1 1'), ('pending for the last time', 'PENDING 2 2'), ('replayed', 'PENDING 1 0'),
			('succeeded', 'SUCCESS 1 0'), ('succeeded before', 'SUCCESS 1 0'), ('failed', 'ERROR 1 1'),
				('failed before', 'ERROR 1 1')) s (state, step);

SELECT is_empty('SELECT operation, state FROM operations CROSS JOIN states EXCEPT SELECT operation, state FROM '
	'expected', 'the table of expected outcomes has every pair of operation and state');
SELECT is(count(*), (SELECT count(*) FROM operations) * (SELECT count(*) FROM states),
	'the table of expected outcomes has each pair once') FROM expected;
SELECT pg_temp.contents() AS contents \gset
SELECT is(pg_temp.outcome(run, lease, call), outcome,
	format('the operation "%s" on a step that is %s has the outcome of the contract', operation, state))
	FROM expected JOIN operations USING (operation) JOIN states USING (state) ORDER BY operation, place;
SELECT is(pg_temp.contents(), :'contents', 'every outcome was undone, so that the next pair finds its state');

SELECT * FROM finish();
