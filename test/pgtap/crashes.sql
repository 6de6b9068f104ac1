-- Leases of runs that run out: the next claim goes on, max_crashes ends.  F15, F18.
-- F-numbers: docs/design/known-failures.md.
\ir include/runs.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_workflow('job', max_crashes => 3), pgqrs_create_workflow('frail', max_crashes => 1) \g /dev/null
SELECT pgqrs_register_worker('w1', '{*}', version => '1') AS w1, pgqrs_register_worker('w2', '{*}',
	version => '2') AS w2 \gset

CREATE FUNCTION pg_temp.crashes(run bigint) RETURNS int LANGUAGE sql AS
$$ SELECT crashes FROM pgqrs_get_run(run) $$;
CREATE FUNCTION pg_temp.end(run bigint) RETURNS text LANGUAGE sql AS
$$ SELECT concat_ws(' ', r.status, r.error->>'type', r.attempt, a.outcome, a.failures, a.last_error->>'type')
	FROM pgqrs_workflow_runs r LEFT JOIN pgqrs_archive a USING (run_id) WHERE r.run_id = run $$;
-- The lease of a run runs out; what the next claim on its queue delivers.
CREATE FUNCTION pg_temp.crash(run bigint) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	delivered bigint;
BEGIN
	UPDATE pgqrs_messages SET visible_after = '2000-01-01' WHERE message_id = run;
	SELECT d.run_id INTO delivered FROM pgqrs_queues q, pgqrs_dequeue(name) d WHERE queue_id = (SELECT workflow_id
		FROM pgqrs_workflow_runs r WHERE r.run_id = run);
	RETURN CASE delivered WHEN run THEN 'again' ELSE coalesce('another one: ' || delivered, 'nothing') END;
END
$$;

-- A worker vanishes; the second finds what the first has finished.
SELECT pgqrs_trigger('job', '"in"') AS run \gset
SELECT lease, started_at FROM pgqrs_dequeue('job', :w1), pgqrs_get_run(:run) \gset
SELECT started_at, worker, worker_version FROM pgqrs_get_run(:run) \gset first_
SELECT is(ROW(:'first_worker', :'first_worker_version')::text, '(w1,1)',
	'a run shows the worker that has claimed it, and its version');
SELECT pgqrs_step_begin(:run, :lease, 'a'), pgqrs_step_complete(:run, :lease, 'a', '1'), pgqrs_step_begin(:run,
	:lease, 'b') \g /dev/null
SELECT is(count(*), 0::bigint, 'a claim does not return a run under a live lease') FROM pgqrs_dequeue('job', :w2);
SELECT pg_temp.due(:run);
SELECT is(status, 'RUNNING', 'a run whose lease has run out is still RUNNING') FROM pgqrs_get_run(:run);
SELECT run_id, attempt, failures, input, lease AS second, payload FROM pgqrs_dequeue('job', :w2) \gset again_
SELECT is(ROW(:again_run_id, :again_attempt, :again_failures, :'again_input')::text, format('(%s,2,1,"""in""")',
	:run), 'the next claim returns the same run as attempt 2 after one failure of its message');
SELECT isnt(:again_second::bigint, :lease::bigint, 'the next claim has a new lease');
SELECT is(ROW(status, attempt, failures, worker, worker_version, started_at)::text, format('(RUNNING,2,0,w2,2,"%s")',
	:'first_started_at'), 'a crash gives the run a new worker and attempt, and counts no failure of the run')
	FROM pgqrs_get_run(:run);
SELECT is(concat_ws(' ', should_execute::text, output), 'false 1',
	'after a crash a completed step returns its output') FROM pgqrs_step_begin(:run, :again_second, 'a');
SELECT is(concat_ws(' ', should_execute::text, attempt), 'true 2',
	'after a crash an open step is executed again as attempt 2') FROM pgqrs_step_begin(:run, :again_second, 'b');
SELECT pg_temp.contents() AS contents \gset
SELECT is(pg_temp.answer(format(call, :run, :lease)), 'PQ006', 'F15: the former holder is refused: ' || call)
	FROM unnest('{"SELECT pgqrs_step_begin(%s, %s, ''b'')","SELECT pgqrs_step_complete(%s, %s, ''b'')",'
		'"SELECT pgqrs_step_fail(%s, %s, ''b'', ''{}'')","SELECT pgqrs_complete_run(%s, %s)",'
		'"SELECT pgqrs_fail_run(%s, %s, ''{}'')","SELECT pgqrs_set_progress(%s, %s, ''1'')",'
		'"SELECT pgqrs_release_message(%s, %s)"}'::text[]) call;
SELECT is(r::text, '(f,f)', 'F15: the former holder cannot extend its lease') FROM pgqrs_extend_lease(:run, :lease) r;
SELECT is(pg_temp.contents(), :'contents', 'F15: refused calls of the former holder change nothing');
SELECT pgqrs_step_complete(:run, :again_second, 'b', '2'), pgqrs_complete_run(:run, :again_second,
	'"second"') \g /dev/null
SELECT is(r::text, '(SUCCESS,"""second""",)', 'F15: the result is that of the second worker')
	FROM pgqrs_result(:run) r;

-- An expired lease is current until the next claim.
SELECT * FROM pg_temp.start('job') \gset
SELECT pg_temp.due(:run);
SELECT lives_ok(format(call, :run, :lease), 'with an expired lease that no claim has replaced the call is accepted: '
	|| call)
	FROM unnest('{"SELECT pgqrs_step_begin(%s, %s, ''a'')","SELECT pgqrs_step_complete(%s, %s, ''a'')",'
		'"SELECT pgqrs_set_progress(%s, %s, ''1'')","SELECT pgqrs_complete_run(%s, %s)"}'::text[]) call;
SELECT is(pg_temp.end(:run), 'SUCCESS 1 DONE 0', 'a run completed after its lease ran out counts no crash');

-- F18: a run that ends every worker is delivered max_crashes times.
SELECT pgqrs_trigger('job') AS run, pgqrs_trigger('job') AS next \gset
SELECT is(pg_temp.crash(:run), 'again', 'F18: claim ' || g || ' of a run that crashes every worker returns it')
	FROM generate_series(1, 3) g;
SELECT is(pg_temp.crashes(:run), 2, 'three claims without an end make two crashes');
SELECT is(crashes, 2, 'the view shows two crashes') FROM pgqrs_runs WHERE run_id = :run;
SELECT is(pg_temp.crash(:run), format('another one: %s', :next),
	'the fourth claim passes over the run and returns the next one');
SELECT is(pg_temp.end(:run), 'ERROR max_crashes 3 DEAD 3 max_crashes',
	'the fourth claim ends the run for max_crashes');
SELECT is(array[pg_temp.crashes(:run), crashes], '{3,3}', 'an ended run shows its crashes in the view as well')
	FROM pgqrs_runs WHERE run_id = :run;

SELECT is(jsonb_typeof(error->'message'), 'string', 'the error for max_crashes has a message')
	FROM pgqrs_result(:run);
SELECT is(pg_temp.crash(:next), 'again', 'the run behind the one that crashed too often is returned again');
SELECT pgqrs_trigger('frail') AS run \gset
SELECT is(pg_temp.crash(:run), 'again', 'with max_crashes 1 the first claim returns the run');
SELECT is(pg_temp.crash(:run), 'nothing', 'with max_crashes 1 the second claim does not return the run');
SELECT is(pg_temp.end(:run), 'ERROR max_crashes 1 DEAD 1 max_crashes',
	'with max_crashes 1 the second claim ends the run');

-- The old holder of such a run.
SELECT * FROM pg_temp.start('frail') \gset
SELECT is(pg_temp.crash(:run), 'nothing', 'a claim ends a run that has no crash left');
SELECT is(pg_temp.answer(format('SELECT pgqrs_complete_run(%s, %s)', :run, :lease)), 'PQ007 The status is ERROR.',
	'the former holder of a run ended for max_crashes is refused');

-- Maintenance ends it, too; the holder of the lease may finish before that.
SELECT * FROM pg_temp.start('frail') \gset
SELECT pg_temp.due(:run);
SELECT is(pgqrs_maintain() ->> 'messages_dead', '1', 'a pass ends a run that has no crash left');
SELECT is(pg_temp.end(:run), 'ERROR max_crashes 1 DEAD 1 max_crashes',
	'a run ended by a pass is in ERROR for max_crashes');
SELECT * FROM pg_temp.start('job') \gset
SELECT pg_temp.due(:run);
SELECT pgqrs_maintain() \g /dev/null
SELECT pgqrs_complete_run(:run, :lease);
SELECT is(pg_temp.end(:run), 'SUCCESS 1 DONE 0', 'a pass leaves a run with crashes left to its holder');

-- A step that succeeds: crashes are counted anew.
SELECT pgqrs_trigger('job') AS run \gset
SELECT pg_temp.crash(:run), pg_temp.crash(:run), pg_temp.crash(:run) \g /dev/null
SELECT is(pg_temp.crashes(:run), 2, 'three claims without a completed step make two crashes');
SELECT lease FROM pgqrs_messages WHERE message_id = :run \gset
SELECT pgqrs_step_begin(:run, :lease, 'a') \g /dev/null
SELECT is(pg_temp.crashes(:run), 2, 'a begin does not reset the count of crashes');
SELECT pgqrs_step_complete(:run, :lease, 'a', '1');
SELECT is(pg_temp.crashes(:run), 0, 'completing a step resets the count of crashes');
SELECT is(ROW(lease, visible_after > clock_timestamp())::text, format('(%s,t)', :lease),
	'resetting the count of crashes leaves the lease as it was') FROM pgqrs_messages WHERE message_id = :run;
SELECT is(pg_temp.crash(:run), 'again', 'claim ' || g || ' after the completed step returns the run')
	FROM generate_series(1, 2) g;
SELECT is(pg_temp.crashes(:run), 2, 'crashes after the completed step are counted anew');

-- Storing the same step once more is no progress.
SELECT lease FROM pgqrs_messages WHERE message_id = :run \gset
SELECT pgqrs_step_complete(:run, :lease, 'a', '1');
SELECT is(concat_ws(' ', should_execute::text, output), 'false 1', 'reading a completed step returns its output')
	FROM pgqrs_step_begin(:run, :lease, 'a');
SELECT is(pg_temp.crashes(:run), 2,
	'completing a completed step, or reading it, does not reset the count of crashes');
SELECT is(pg_temp.crash(:run), 'nothing', 'the third crash in a row makes the claim end the run');
SELECT is(pg_temp.end(:run), 'ERROR max_crashes 5 DEAD 3 max_crashes',
	'a run ends for max_crashes after three crashes in a row, not in total');

-- Nor are failures, of steps or of the run; and they are no crashes.
SELECT pgqrs_trigger('job', retry_policy => '{"max_attempts": -1}') AS run \gset
SELECT pg_temp.crash(:run), pg_temp.crash(:run) \g /dev/null
SELECT lease FROM pgqrs_messages WHERE message_id = :run \gset
SELECT outcome FROM pgqrs_step_fail(:run, :lease, 'a', '{}', fail_run => false, retryable => false) \g /dev/null
SELECT is(pg_temp.crashes(:run), 1, 'a step that fails without its run does not reset the count of crashes');
SELECT outcome FROM pgqrs_step_fail(:run, :lease, 'b', '{}') \g /dev/null
SELECT is(pg_temp.crashes(:run), 1, 'a retry of a step counts no crash');
SELECT is(pg_temp.crash(:run), 'again', 'a claim returns the run after the retry of its step');
SELECT is(pg_temp.crashes(:run), 1, 'the claim after a retry of a step counts no crash');
SELECT lease FROM pgqrs_messages WHERE message_id = :run \gset
SELECT pgqrs_fail_run(:run, :lease, '{}', true) \g /dev/null
SELECT is(pg_temp.crash(:run), 'again', 'a claim returns the run after its own retry');
SELECT is(pg_temp.crashes(:run), 1, 'a retry of the run counts no crash');
SELECT is(pg_temp.crash(:run), 'again', 'a claim returns the run after another crash');
SELECT is(ROW(pg_temp.crashes(:run), failures, attempt)::text, '(2,1,5)',
	'crashes, failures of the run and attempts are counted apart') FROM pgqrs_get_run(:run);

-- Given back, or moved by the operator: no crash.
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_release_message(:run, :lease);
SELECT is(pg_temp.crash(:run), 'again', 'a claim returns a released run');
SELECT is(pg_temp.crashes(:run), 0, 'a release counts no crash');
SELECT pgqrs_set_visibility(:run, clock_timestamp());
SELECT is(pg_temp.crash(:run), 'again', 'a claim returns a run that pgqrs_set_visibility() took from its holder');
SELECT is(ROW(pg_temp.crashes(:run), attempt)::text, '(0,3)',
	'pgqrs_set_visibility() counts no crash, but the next claim is another attempt') FROM pgqrs_get_run(:run);

-- A worker that is superseded, reaped or stopped.
CREATE FUNCTION pg_temp.hold(worker bigint) RETURNS bigint LANGUAGE plpgsql AS
$$
DECLARE
	run bigint := pgqrs_trigger('job');
BEGIN
	UPDATE pgqrs_messages SET visible_after = '2000-01-01' WHERE message_id = run;
	PERFORM FROM pgqrs_dequeue('job', worker);
	RETURN run;
END
$$;
SELECT pg_temp.hold(:w1) AS superseded, pg_temp.hold(:w2) AS stopped \gset
SELECT pgqrs_register_worker('w1', '{*}') AS w1b, pgqrs_stop_worker(:w2) \gset
SELECT is(ROW(m.failures, m.lease, visible_after <= clock_timestamp(), status)::text, '(1,,t,RUNNING)',
	'registering a worker anew makes its run due at once and counts a crash') FROM pgqrs_messages m
	JOIN pgqrs_workflow_runs USING (run_id) WHERE run_id = :superseded;
SELECT is(ROW(m.failures, m.lease, visible_after <= clock_timestamp(), status)::text, '(0,,t,RUNNING)',
	'a worker that stops makes its run due at once and counts no crash') FROM pgqrs_messages m
	JOIN pgqrs_workflow_runs USING (run_id) WHERE run_id = :stopped;
SELECT is(pg_temp.crash(:superseded), 'again', 'a claim returns the run of the worker that registered anew');
SELECT is(pg_temp.crashes(:superseded), 1, 'the crash of the worker that registered anew is not counted twice');
SELECT pg_temp.hold(:w1b) AS silent \gset
UPDATE pgqrs_workers SET heartbeat_at = '2000-01-01', status = 'STOPPED', stopped_at = clock_timestamp()
	WHERE worker_id = :w1b;
SELECT pgqrs_maintain() \g /dev/null
SELECT is(ROW(pg_temp.crashes(:silent), lease)::text, '(1,)',
	'a pass counts a crash for the run of a worker that was found dead') FROM pgqrs_messages
	WHERE message_id = :silent;

-- A limit that changes counts for live runs.
SELECT pgqrs_alter_workflow('job', max_crashes => 1);
SELECT isnt(pg_temp.crash(:silent), 'again', 'a lowered max_crashes holds for live runs');
SELECT is(pg_temp.end(:silent), 'ERROR max_crashes 1 DEAD 1 max_crashes',
	'a run above the lowered max_crashes is ended for it');

SELECT * FROM finish();
