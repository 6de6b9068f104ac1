-- Steps: begin and complete, repeated calls, and the caller's own writes.
-- F-numbers: docs/design/known-failures.md.
\ir include/runs.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_workflow('job') \g /dev/null
SELECT * FROM pg_temp.start('job') \gset

CREATE FUNCTION pg_temp.begin(run bigint, lease bigint, step text, input jsonb = NULL) RETURNS text LANGUAGE sql AS
$$ SELECT concat_ws(' ', should_execute::text, status, 'output', coalesce(output::text, '-'), 'error',
	coalesce(error::text, '-'), 'attempt', attempt) FROM pgqrs_step_begin(run, lease, step, input) $$;
CREATE FUNCTION pg_temp.step(run bigint, step text) RETURNS jsonb LANGUAGE sql AS
$$ SELECT jsonb_strip_nulls(to_jsonb(s)) - '{run_id,step_id,started_at,completed_at,lease}'::text[]
	FROM pgqrs_workflow_steps s WHERE run_id = run AND step_id = step $$;
CREATE FUNCTION pg_temp.output(run bigint, step text) RETURNS text LANGUAGE sql AS
$$ SELECT output::text FROM pgqrs_workflow_steps WHERE run_id = run AND step_id = step $$;

-- The first attempt.
SELECT clock_timestamp() AS before \gset
SELECT is(pg_temp.begin(:run, :lease, 'a', '{"n": 1}'), 'true RUNNING output - error - attempt 1',
	'the first begin of a step tells the worker to execute it as attempt 1');
SELECT is(pg_temp.step(:run, 'a'),
	'{"kind": "FUNCTION", "status": "RUNNING", "attempt": 1, "failures": 0, "input": {"n": 1}}',
	'a step that has begun is RUNNING with its input, attempt 1 and no failure');
SELECT ok(started_at BETWEEN :'before' AND clock_timestamp() AND completed_at IS NULL AND lease = :lease,
	'begin stores the time of the call and the caller''s lease') FROM pgqrs_workflow_steps WHERE run_id = :run;
SELECT pg_temp.contents() AS contents \gset
SELECT is(pg_temp.begin(:run, :lease, 'a', '{"n": 2}'), 'true RUNNING output - error - attempt 1',
	'a second begin under the same lease keeps attempt 1');
SELECT is(pg_temp.contents(), :'contents', 'a second begin under the same lease writes nothing');
SELECT pgqrs_step_complete(:run, :lease, 'a', '{"out": 1}');
SELECT is(pg_temp.step(:run, 'a'),
	'{"kind": "FUNCTION", "status": "SUCCESS", "attempt": 1, "failures": 0, "input": {"n": 1}, "output": {"out": 1}}',
	'complete makes the step SUCCESS and stores its output');
SELECT ok(completed_at BETWEEN started_at AND clock_timestamp(), 'complete stores the time of the call')
	FROM pgqrs_workflow_steps WHERE run_id = :run;
SELECT pg_temp.contents() AS contents \gset
SELECT is(pg_temp.begin(:run, :lease, 'a'), 'false SUCCESS output {"out": 1} error - attempt 1',
	'begin of a completed step returns the stored output instead of executing the step');
SELECT is(pgqrs_step_complete(:run, :lease, 'a', '{"out": 1}'), false,
	'a repeated complete says that the output was stored before');
SELECT pgqrs_step_complete(:run, :lease, 'a', '{"out": 2}');
SELECT pgqrs_step_complete(:run, :lease, 'a');
SELECT is(pg_temp.contents(), :'contents', 'a repeated complete keeps the first output');
SELECT is((SELECT status || attempt FROM pgqrs_get_run(:run)), 'RUNNING1',
	'completing a step leaves the run RUNNING at attempt 1');

-- Outputs.
SELECT pgqrs_step_begin(:run, :lease, 'null'), pgqrs_step_complete(:run, :lease, 'null') \g /dev/null
SELECT is(pg_temp.output(:run, 'null'), 'null', 'complete without an output stores JSON null');
SELECT is(pg_temp.begin(:run, :lease, 'null'), 'false SUCCESS output null error - attempt 1',
	'begin returns JSON null as the output of a step completed without one');
SELECT pgqrs_step_complete(:run, :lease, 'null', '1');
SELECT is(pg_temp.output(:run, 'null'), 'null', 'a later complete does not replace JSON null');
SELECT pgqrs_step_complete(:run, :lease, 'big', jsonb_build_object('x', repeat('ab', 500000)));
SELECT is(length(pg_temp.output(:run, 'big')), 1000009, 'an output of a megabyte is stored whole');
SELECT is((SELECT output::text FROM pgqrs_step_begin(:run, :lease, 'big')), pg_temp.output(:run, 'big'),
	'begin returns an output of a megabyte unchanged');

-- A step that was never begun.
SELECT pgqrs_step_complete(:run, :lease, 'lost', '1');
SELECT is(pg_temp.step(:run, 'lost'),
	'{"kind": "FUNCTION", "status": "SUCCESS", "attempt": 1, "failures": 0, "output": 1}',
	'complete creates the step if its begin was lost');
SELECT ok(started_at <= completed_at, 'a step created by complete has a start no later than its end')
	FROM pgqrs_workflow_steps WHERE run_id = :run AND step_id = 'lost';

-- Ids are bytes.
SELECT is(pg_temp.begin(:run, :lease, s), 'true RUNNING output - error - attempt 1', 'begin takes the step id '
	|| left(s, 12) || ' for a new step') FROM unnest(ARRAY['A', 'a ', ' a', 'a*', 'pgqrs.a', 'ä', repeat('ä', 127),
	'a''"\']) s;
SELECT is(count(*), 12::bigint, 'step ids that differ in a byte, a blank or case are different steps')
	FROM pgqrs_list_steps(:run);

-- In order of start.
SELECT results_eq(format('SELECT step_id FROM pgqrs_list_steps(%s)', :run),
	format('SELECT step_id COLLATE "default" FROM pgqrs_workflow_steps WHERE run_id = %s ORDER BY started_at', :run),
	'pgqrs_list_steps() returns the steps in order of their start');

-- The next attempt, after a crash.
SELECT pgqrs_step_begin(:run, :lease, 'crashed', '1') \g /dev/null
SELECT pg_temp.claim(:run) AS second \gset
SELECT is(pg_temp.begin(:run, :second, 'a'), 'false SUCCESS output {"out": 1} error - attempt 1',
	'the next attempt of the run does not execute a completed step again');
SELECT is(pg_temp.begin(:run, :second, 'crashed', '2'), 'true RUNNING output - error - attempt 2',
	'the next attempt of the run executes a step that had only begun, as attempt 2');
SELECT is(pg_temp.step(:run, 'crashed'),
	'{"kind": "FUNCTION", "status": "RUNNING", "attempt": 2, "failures": 0, "input": 2}',
	'a step begun again has the new input and counts no failure');
SELECT is(lease, :second::bigint, 'a step begun again has the lease of the new attempt') FROM pgqrs_workflow_steps
	WHERE run_id = :run AND step_id = 'crashed';
SELECT is(pg_temp.begin(:run, :second, 'crashed'), 'true RUNNING output - error - attempt 2',
	'a repeated begin under the new lease keeps attempt 2');
SELECT pg_temp.contents() AS contents \gset
SELECT is(pg_temp.answer(format('SELECT pgqrs_step_begin(%s, %s, %L)', :run, :lease, s)), 'PQ006',
	'F15: begin of the step ' || s || ' is refused under a lease that another worker has replaced')
	FROM unnest('{a,crashed,new}'::text[]) s;
SELECT is(pg_temp.answer(format('SELECT pgqrs_step_complete(%s, %s, %L)', :run, :lease, s)), 'PQ006',
	'F15: complete of the step ' || s || ' is refused under a lease that another worker has replaced')
	FROM unnest('{a,crashed,new}'::text[]) s;
SELECT is(pg_temp.contents(), :'contents', 'F15: refused calls of the former holder change nothing');
SELECT pg_temp.claim(:run) AS third \gset
SELECT pgqrs_step_complete(:run, :third, 'crashed', '3');
SELECT is(pg_temp.step(:run, 'crashed'),
	'{"kind": "FUNCTION", "status": "SUCCESS", "attempt": 3, "failures": 0, "input": 2, "output": 3}',
	'complete stores the output as attempt 3 if the begin of attempt 3 was lost');
SELECT pg_temp.contents() AS contents \gset
SELECT pgqrs_step_complete(:run, :third, 'a', '{"out": 3}');
SELECT is(pg_temp.output(:run, 'a'), '{"out": 1}',
	'a stored output stays when a later lease completes the step again');

-- Lost acknowledgements, also when the run completed meanwhile.
SELECT pgqrs_step_begin(:run, :third, 'open') \g /dev/null
SELECT pgqrs_complete_run(:run, :third, '"done"');
SELECT pg_temp.contents() AS contents \gset
SELECT is(pg_temp.answer(format('SELECT pgqrs_step_complete(%s, %s, ''crashed'', ''4'')', :run, :third)), 'false',
	'after the end of the run, a repeated complete under its last lease is answered');
SELECT is(pg_temp.begin(:run, :third, 'crashed'), 'false SUCCESS output 3 error - attempt 3',
	'after the end of the run, a repeated begin under its last lease returns the output');
SELECT is(pg_temp.answer(format('SELECT pgqrs_complete_run(%s, %s, ''"other"'')', :run, :third)), 'false',
	'a repeated pgqrs_complete_run() says that the run was completed before');
SELECT pgqrs_step_complete(:run, :third, 'crashed', '4'), pgqrs_complete_run(:run, :third, '"other"'),
	pgqrs_complete_run(:run, :third) \g /dev/null
SELECT is(pg_temp.contents(), :'contents', 'repeated calls after the end of the run change nothing');
SELECT is((SELECT output FROM pgqrs_result(:run)), '"done"', 'the first output of the run stays');
SELECT is(pg_temp.answer(format(call, :run, :third)), 'PQ007 The status is SUCCESS.',
	'after the end of the run, a call that repeats none is refused: ' || call)
	FROM unnest('{"SELECT pgqrs_step_complete(%s, %s, ''open'')","SELECT pgqrs_step_complete(%s, %s, ''new'')",'
		'"SELECT pgqrs_step_begin(%s, %s, ''new'')","SELECT pgqrs_step_fail(%s, %s, ''crashed'', ''{}'')"}'::text[])
		call;
SELECT is(pg_temp.answer(format(call, :run, :second)), 'PQ006',
	'after the end of the run, a call under an older lease is refused: ' || call)
	FROM unnest('{"SELECT pgqrs_step_complete(%s, %s, ''a'')","SELECT pgqrs_step_begin(%s, %s, ''a'')",'
		'"SELECT pgqrs_complete_run(%s, %s)"}'::text[]) call;

-- A step id keeps its kind.
SELECT * FROM pg_temp.start('job') \gset
INSERT INTO pgqrs_workflow_steps (run_id, step_id, kind, status, started_at, attempt, failures, lease)
	SELECT :run, k || ' ' || s, k, s, clock_timestamp(), 1, 0, :lease
		FROM unnest('{SLEEP,SIGNAL,CHILD,PAUSE}'::pgqrs_step_kind[]) k,
		unnest('{PENDING,RUNNING,PAUSED,SUCCESS,ERROR}'::pgqrs_step_status[]) s;
SELECT pg_temp.contents() AS contents \gset
SELECT is(pg_temp.answer(format('SELECT %s(%s, %s, %L%s)', f, :run, :lease, step_id, CASE f
	WHEN 'pgqrs_step_fail' THEN ', ''{}''' END)), format('PQ016 The kind of the step is %s.', kind),
	f || ' refuses the step ' || step_id || ' for its kind')
	FROM pgqrs_workflow_steps, unnest('{pgqrs_step_begin,pgqrs_step_complete,pgqrs_step_fail}'::text[]) f
		WHERE run_id = :run;
SELECT is(pg_temp.contents(), :'contents', 'calls refused for the kind of the step change nothing');

-- Exactly once with the caller's own writes.
CREATE TABLE effects (step text);
BEGIN;
INSERT INTO effects VALUES ('kept');
SELECT pgqrs_step_begin(:run, :lease, 'kept'), pgqrs_step_complete(:run, :lease, 'kept', '1') \g /dev/null
COMMIT;
BEGIN;
INSERT INTO effects VALUES ('undone');
SELECT pgqrs_step_begin(:run, :lease, 'undone'), pgqrs_step_complete(:run, :lease, 'undone', '1') \g /dev/null
SELECT is(pg_temp.begin(:run, :lease, 'undone'), 'false SUCCESS output 1 error - attempt 1',
	'a transaction sees the output that it has stored');
ROLLBACK;
SELECT results_eq('SELECT step FROM effects', '{kept}'::text[],
	'the write of the transaction that was rolled back is gone, the other one stays');
SELECT is(pg_temp.step(:run, 'undone'), NULL, 'the step of the transaction that was rolled back is gone');
SELECT is(pg_temp.begin(:run, :lease, 'kept'), 'false SUCCESS output 1 error - attempt 1',
	'the step that was committed with its write is not executed again');
SELECT is(pg_temp.begin(:run, :lease, 'undone'), 'true RUNNING output - error - attempt 1',
	'the step that was rolled back with its write is executed again');
CREATE FUNCTION pg_temp.stale(run bigint, lease bigint) RETURNS void LANGUAGE plpgsql AS
$$
BEGIN
	INSERT INTO effects VALUES ('stale');
	PERFORM pgqrs_step_complete(run, lease, 'undone', '1');
EXCEPTION WHEN SQLSTATE 'PQ006' THEN
END
$$;
SELECT pg_temp.claim(:run) AS newer \gset
SELECT pg_temp.stale(:run, :lease);
SELECT results_eq('SELECT step FROM effects', '{kept}'::text[],
	'the write of a worker that lost its lease is undone together with its complete');
BEGIN;
INSERT INTO effects VALUES ('savepoint');
SAVEPOINT s;
SELECT pgqrs_step_complete(:run, :newer, 'inner', '1');
ROLLBACK TO s;
SELECT is(pg_temp.begin(:run, :newer, 'inner'), 'true RUNNING output - error - attempt 1',
	'rolling back to a savepoint removes the step stored after it');
COMMIT;

-- At SERIALIZABLE, behind a snapshot that sees none of it.
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) FROM pgqrs_workflow_steps \g /dev/null
SELECT is(pg_temp.begin(:run, :newer, 'serial'), 'true RUNNING output - error - attempt 1',
	'a SERIALIZABLE transaction with an old snapshot begins a step');
SELECT pgqrs_step_complete(:run, :newer, 'serial', '1');
SELECT is(pg_temp.begin(:run, :newer, 'serial'), 'false SUCCESS output 1 error - attempt 1',
	'a SERIALIZABLE transaction with an old snapshot sees the step that it has completed');
SELECT pgqrs_complete_run(:run, :newer);
COMMIT;
SELECT is((SELECT status FROM pgqrs_result(:run)), 'SUCCESS',
	'a run is worked on from begin to end in one SERIALIZABLE transaction');

-- A whole run in one transaction with its trigger.
BEGIN;
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_step_begin(:run, :lease, 'a'), pgqrs_step_complete(:run, :lease, 'a', '1'), pgqrs_complete_run(:run,
	:lease, '2') \g /dev/null
COMMIT;
SELECT is(r::text, '(SUCCESS,2,)', 'a run is triggered, worked on and completed in one transaction')
	FROM pgqrs_result(:run) r;

-- When a step began whose begin was lost.
SELECT pgqrs_create_workflow('begun') \g /dev/null
SELECT * FROM pg_temp.start('begun') \gset
SELECT pgqrs_step_complete(:run, :lease, 'past', started_at => '2020-01-01 00:00:00+00'), pgqrs_step_complete(:run,
	:lease, 'future', started_at => '2100-01-01'), pgqrs_step_begin(:run, :lease, 'begun') \g /dev/null
SELECT pgqrs_step_complete(:run, :lease, 'begun', started_at => '2020-01-01') \g /dev/null
SELECT is(array_agg(step_id || ' ' || CASE started_at WHEN '2020-01-01 00:00:00+00' THEN 'as told' ELSE 'by the clock'
	END ORDER BY step_id), '{"begun by the clock","future by the clock","past as told"}',
	'complete uses started_at only where there was no begin and it is not in the future') FROM pgqrs_list_steps(:run);

SELECT * FROM finish();
