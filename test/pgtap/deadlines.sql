-- Deadlines of runs: first visible_after + timeout; calls that notice it, and what it ends.
\ir include/runs.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_workflow('job', timeout => '1 h', jitter => 0, max_attempts => -1),
	pgqrs_create_workflow('free') \g /dev/null

CREATE FUNCTION pg_temp.end(run bigint) RETURNS text LANGUAGE sql AS
$$ SELECT concat_ws(' ', r.status, r.error->>'type', a.outcome, a.last_error->>'type') FROM pgqrs_workflow_runs r
	LEFT JOIN pgqrs_archive a USING (run_id) WHERE r.run_id = run $$;
CREATE FUNCTION pg_temp.deadline(run bigint) RETURNS timestamptz LANGUAGE sql AS
$$ SELECT CASE WHEN m.deadline_at = r.deadline_at THEN m.deadline_at END FROM pgqrs_messages m
	JOIN pgqrs_workflow_runs r USING (run_id) WHERE run_id = run $$;

-- Not moved by claims, retries, crashes, releases and the operator.
SELECT pgqrs_trigger('job', delay => '10 min') AS run \gset
SELECT pg_temp.deadline(:run) AS deadline \gset
SELECT is(:'deadline'::timestamptz, visible_after + interval '1 h',
	'the deadline is timeout after the run may first start') FROM pgqrs_messages WHERE message_id = :run;
SELECT is(deadline_at, :'deadline'::timestamptz, 'pgqrs_get_run() returns the deadline') FROM pgqrs_get_run(:run);
SELECT pgqrs_set_visibility(:run, clock_timestamp() + interval '20 min');
SELECT is(pg_temp.deadline(:run), :'deadline'::timestamptz, 'pgqrs_set_visibility() does not move the deadline');
SELECT pg_temp.claim(:run) AS lease \gset
SELECT is(pg_temp.deadline(:run), :'deadline'::timestamptz, 'a claim does not move the deadline');
SELECT extended FROM pgqrs_extend_lease(:run, :lease, '2 h') \g /dev/null
SELECT outcome FROM pgqrs_step_fail(:run, :lease, 'a', '{}') \g /dev/null
SELECT is(pg_temp.deadline(:run), :'deadline'::timestamptz,
	'neither an extension nor a retry of a step moves the deadline');
SELECT pgqrs_fail_run(:run, pg_temp.claim(:run), '{}', true) \g /dev/null
SELECT is(pg_temp.deadline(:run), :'deadline'::timestamptz, 'a retry of the run does not move the deadline');
SELECT pg_temp.claim(:run) \g /dev/null
SELECT pg_temp.claim(:run) AS lease \gset
SELECT is(pg_temp.deadline(:run), :'deadline'::timestamptz, 'a crash does not move the deadline');
SELECT pgqrs_release_message(:run, :lease);
SELECT is(pg_temp.deadline(:run), :'deadline'::timestamptz, 'a release does not move the deadline');
UPDATE pgqrs_workflow_runs SET status = 'PAUSED', paused_at = clock_timestamp() WHERE run_id = :run;
SELECT pg_temp.claim(:run) AS lease \gset
SELECT is(pg_temp.deadline(:run), :'deadline'::timestamptz, 'a pause does not move the deadline');
SELECT pgqrs_complete_run(:run, :lease);
SELECT is(pg_temp.end(:run), 'SUCCESS DONE', 'a run completed before its deadline succeeds');
SELECT is(deadline_at, :'deadline'::timestamptz, 'an ended run keeps its deadline') FROM pgqrs_get_run(:run);

-- A claim ends what is late, whatever state it is in, and goes on with the next.
CREATE FUNCTION pg_temp.late_in(state text) RETURNS bigint LANGUAGE plpgsql AS
$$
DECLARE
	run bigint := pgqrs_trigger('job');
	lease bigint;
BEGIN
	IF state <> 'queued' THEN
		lease := pg_temp.claim(run);
	END IF;
	IF state = 'waiting' THEN
		PERFORM pgqrs_step_fail(run, lease, 'a', '{"type": "own"}');
	ELSIF state = 'parked' THEN
		UPDATE pgqrs_workflow_runs SET status = 'PAUSED', waiting_for = 'x' WHERE run_id = run;
		UPDATE pgqrs_messages m SET lease = NULL, waiting_for = 'x' WHERE message_id = run;
	END IF;
	PERFORM pg_temp.late(run), pg_temp.due(run);
	RETURN run;
END
$$;
CREATE TEMP TABLE late AS SELECT state, pg_temp.late_in(state) AS run
	FROM unnest('{queued,expired,waiting,parked}'::text[]) state;
SELECT pgqrs_trigger('job') AS next \gset
SELECT is(run_id, :next::bigint, 'a claim passes over runs past their deadline and returns the next one')
	FROM pgqrs_dequeue('job', batch_size => 10);
SELECT is(pg_temp.end(run), 'ERROR timeout DEAD timeout', 'a claim ends a run past its deadline that is ' || state)
	FROM late;
SELECT is(jsonb_typeof(error->'message'), 'string', 'the timeout error has a message') FROM late, pgqrs_result(run)
	WHERE state = 'queued';
SELECT ok(completed_at IS NOT NULL AND waiting_for IS NULL AND paused_at IS NULL,
	'a run ended for its deadline waits for nothing: ' || state) FROM late, pgqrs_get_run(run);
SELECT is(status, 'PENDING', 'a step that waits for a retry is left as it was when its run times out') FROM late,
	pgqrs_list_steps(run) WHERE state = 'waiting';

-- Maintenance ends the run before any claim, also under a live lease.
DROP TABLE late;
CREATE TEMP TABLE late AS SELECT state, pg_temp.late_in(state) AS run
	FROM unnest('{queued,expired,waiting,parked}'::text[]) state;
SELECT * FROM pg_temp.start('job') \gset
SELECT pg_temp.late(:run);
SELECT * FROM pg_temp.start('job') \gset fresh_
SELECT is(pgqrs_maintain() ->> 'runs_timed_out', '5', 'a pass ends every run past its deadline');
SELECT is(pg_temp.end(run), 'ERROR timeout DEAD timeout', 'a pass ends a run past its deadline that is ' || state)
	FROM late;
SELECT is(pg_temp.end(:run), 'ERROR timeout DEAD timeout', 'a pass ends a run past its deadline under a live lease');
SELECT is(pg_temp.end(:fresh_run), 'RUNNING', 'a pass does not end a run before its deadline');

-- Its holder gets PQ007, before and after the run has been ended.
CREATE TEMP TABLE calls (call text);
INSERT INTO calls VALUES ('pgqrs_step_begin(%s, %s, ''open'')'), ('pgqrs_step_begin(%s, %s, ''done'')'),
	('pgqrs_step_begin(%s, %s, ''new'')'), ('pgqrs_step_complete(%s, %s, ''open'')'),
	('pgqrs_step_complete(%s, %s, ''done'')'),
	('pgqrs_step_fail(%s, %s, ''open'', ''{}'')'), ('pgqrs_step_fail(%s, %s, ''open'', ''{}'', fail_run => false)'),
		('pgqrs_complete_run(%s, %s)'), ('pgqrs_fail_run(%s, %s, ''{}'')'), ('pgqrs_fail_run(%s, %s, ''{}'', true)'),
		('pgqrs_set_progress(%s, %s, ''1'')');
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_step_begin(:run, :lease, 'open'), pgqrs_step_complete(:run, :lease, 'done') \g /dev/null
SELECT is(left(pg_temp.answer(format('SELECT ' || call, :run, :lease)), 5) <> 'PQ007', true,
	'before the deadline the call is not refused for it: ' || call) FROM calls;
SELECT pg_temp.late(:run);
SELECT pg_temp.contents() AS contents \gset
SELECT is(pg_temp.answer(format('SELECT ' || call, :run, :lease)), 'PQ007 The deadline of the run has passed.',
	'after the deadline the call is refused: ' || call) FROM calls;
SELECT is(pg_temp.answer(format('SELECT ' || call, :run, :lease + 1)), 'PQ006',
	'a caller with another lease gets PQ006, not the deadline: ' || call) FROM calls LIMIT 1;
SELECT is(r::text, '(f,f)', 'an extension after the deadline is refused') FROM pgqrs_extend_lease(:run, :lease) r;
SELECT is(r::text, format('(%s,f,f)', :run), 'an extension in a batch after the deadline is refused')
	FROM pgqrs_extend_leases(ARRAY[:run], ARRAY[:lease]::bigint[]) r;
SELECT is(pg_temp.contents(), :'contents', 'calls refused for the deadline change nothing');
SELECT is(status, 'RUNNING', 'the run is RUNNING until a claim or a pass ends it') FROM pgqrs_result(:run);
SELECT pgqrs_maintain() \g /dev/null
SELECT is(pg_temp.answer(format('SELECT ' || call, :run, :lease)), 'PQ007 The status is ERROR.',
	'after the run was ended for its deadline the call is refused: ' || call) FROM calls;

-- release of a late run.
SELECT * FROM pg_temp.start('job') \gset
SELECT pg_temp.late(:run);
SELECT is(left(pg_temp.answer(format('SELECT pgqrs_release_message(%s, %s)', :run, :lease)), 5), 'PQ007',
	'a run past its deadline cannot be released');

-- A retry that would start after the deadline ends the run now, with its own error.
SELECT * FROM pg_temp.start('job') \gset
SELECT is(r::text, '(RUN_FAILED,)', 'a step whose retry would start after the deadline fails the run now')
	FROM pgqrs_step_fail(:run, :lease, 'a', '{"type": "own"}', retry_after => '61 min') r;
SELECT is(pg_temp.end(:run), 'ERROR own DEAD own', 'a run failed for lack of time has the error of its step');
SELECT ok(deadline_at > completed_at, 'a run whose retry would be too late ends before its deadline')
	FROM pgqrs_get_run(:run);
SELECT is(status || ' ' || (error->>'type'), 'ERROR own', 'a step whose retry would be too late is in ERROR')
	FROM pgqrs_list_steps(:run);
SELECT * FROM pg_temp.start('job') \gset
SELECT is(outcome, 'RETRY', 'a step whose retry starts before the deadline is retried')
	FROM pgqrs_step_fail(:run, :lease, 'a', '{}', retry_after => '59 min');
SELECT * FROM pg_temp.start('job') \gset
SELECT is(pgqrs_fail_run(:run, :lease, '{"type": "own"}', true, '61 min'), NULL,
	'pgqrs_fail_run() does not retry beyond the deadline');
SELECT is(pg_temp.end(:run), 'ERROR own DEAD own', 'pgqrs_fail_run() beyond the deadline keeps its own error');
SELECT * FROM pg_temp.start('job') \gset
SELECT isnt(pgqrs_fail_run(:run, :lease, '{"type": "own"}', true, '59 min'), NULL,
	'pgqrs_fail_run() retries before the deadline');
SELECT lease, run FROM pgqrs_trigger('job', timeout => '30 min',
	retry_policy => '{"initial_interval": "1 h", "max_interval": "1 h"}') run, pg_temp.claim(run) lease \gset
SELECT is(outcome, 'RUN_FAILED', 'a step whose backoff ends after the deadline fails the run now')
	FROM pgqrs_step_fail(:run, :lease, 'a', '{}');
SELECT * FROM pg_temp.start('job') \gset
SELECT is(outcome, 'STEP_FAILED', 'with fail_run false a retry beyond the deadline fails only the step')
	FROM pgqrs_step_fail(:run, :lease, 'a', '{}', retry_after => '61 min', fail_run => false);
SELECT pgqrs_complete_run(:run, :lease);
SELECT is(pg_temp.end(:run), 'SUCCESS DONE',
	'the worker completes the run after a step that failed for lack of time');

-- Without a timeout there is none.
SELECT * FROM pg_temp.start('free') \gset
SELECT is(deadline_at, NULL, 'a workflow without a timeout gives its run no deadline') FROM pgqrs_get_run(:run);
SELECT is(outcome, 'RETRY', 'a run without a deadline is retried however late') FROM pgqrs_step_fail(:run, :lease,
	'a', '{}', retry_after => '366000 days');

-- A deadline and a crash at once: the deadline counts; a deadline is no dead letter of plain messages.
SELECT pgqrs_alter_workflow('job', max_crashes => 1);
SELECT * FROM pg_temp.start('job') \gset
SELECT pg_temp.late(:run), pg_temp.due(:run);
SELECT count(*) FROM pgqrs_dequeue('job', batch_size => 10) \g /dev/null
SELECT is(pg_temp.end(:run), 'ERROR timeout DEAD timeout',
	'a run that is both past its deadline and exhausted ends for its deadline');

SELECT * FROM finish();
