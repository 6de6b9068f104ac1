-- Leases of runs that run out: the next claim goes on, max_crashes ends.  F15, F18.
-- F-numbers: docs/design/known-failures.md.
\ir include/runs.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_workflow('job', max_crashes => 3), pgqrs_create_workflow('frail', max_crashes => 1) \g /dev/null
SELECT pgqrs_register_worker('w1', '{*}', version => '1') AS w1, pgqrs_register_worker('w2', '{*}', version => '2') AS w2 \gset

CREATE FUNCTION pg_temp.crashes(run bigint) RETURNS int LANGUAGE sql AS
$$ SELECT crashes FROM pgqrs_get_run(run) $$;
CREATE FUNCTION pg_temp.end(run bigint) RETURNS text LANGUAGE sql AS
$$ SELECT concat_ws(' ', r.status, r.error->>'type', r.attempt, a.outcome, a.failures, a.last_error->>'type') FROM pgqrs_workflow_runs r LEFT JOIN pgqrs_archive a USING (run_id) WHERE r.run_id = run $$;
-- The lease of a run runs out; what the next claim on its queue delivers.
CREATE FUNCTION pg_temp.crash(run bigint) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	delivered bigint;
BEGIN
	UPDATE pgqrs_messages SET visible_after = '2000-01-01' WHERE message_id = run;
	SELECT d.run_id INTO delivered FROM pgqrs_queues q, pgqrs_dequeue(name) d WHERE queue_id = (SELECT workflow_id FROM pgqrs_workflow_runs r WHERE r.run_id = run);
	RETURN CASE delivered WHEN run THEN 'again' ELSE coalesce('another one: ' || delivered, 'nothing') END;
END
$$;

-- A worker vanishes; the second finds what the first has finished.
SELECT pgqrs_trigger('job', '"in"') AS run \gset
SELECT lease, started_at FROM pgqrs_dequeue('job', :w1), pgqrs_get_run(:run) \gset
SELECT started_at, worker, worker_version FROM pgqrs_get_run(:run) \gset first_
SELECT is(ROW(:'first_worker', :'first_worker_version')::text, '(w1,1)', 'the worker');
SELECT pgqrs_step_begin(:run, :lease, 'a'), pgqrs_step_complete(:run, :lease, 'a', '1'), pgqrs_step_begin(:run, :lease, 'b') \g /dev/null
SELECT is(count(*), 0::bigint, 'not delivered while the lease lives') FROM pgqrs_dequeue('job', :w2);
SELECT pg_temp.due(:run);
SELECT is(status, 'RUNNING', 'still RUNNING when it has run out') FROM pgqrs_get_run(:run);
SELECT run_id, attempt, failures, input, lease AS second, payload FROM pgqrs_dequeue('job', :w2) \gset again_
SELECT is(ROW(:again_run_id, :again_attempt, :again_failures, :'again_input')::text, format('(%s,2,1,"""in""")', :run), 'the same run again, a second attempt after one failure');
SELECT isnt(:again_second::bigint, :lease::bigint, 'a new lease');
SELECT is(ROW(status, attempt, failures, worker, worker_version, started_at)::text, format('(RUNNING,2,0,w2,2,"%s")', :'first_started_at'), 'the run: the crash is no failure of its own') FROM pgqrs_get_run(:run);
SELECT is(concat_ws(' ', should_execute::text, output), 'false 1', 'the finished step returns its output') FROM pgqrs_step_begin(:run, :again_second, 'a');
SELECT is(concat_ws(' ', should_execute::text, attempt), 'true 2', 'the unfinished one is executed again') FROM pgqrs_step_begin(:run, :again_second, 'b');
SELECT pg_temp.contents() AS contents \gset
SELECT is(pg_temp.answer(format(call, :run, :lease)), 'PQ006', 'F15: refused for the first: ' || call)
	FROM unnest('{"SELECT pgqrs_step_begin(%s, %s, ''b'')","SELECT pgqrs_step_complete(%s, %s, ''b'')","SELECT pgqrs_step_fail(%s, %s, ''b'', ''{}'')","SELECT pgqrs_complete_run(%s, %s)","SELECT pgqrs_fail_run(%s, %s, ''{}'')","SELECT pgqrs_set_progress(%s, %s, ''1'')","SELECT pgqrs_release_message(%s, %s)"}'::text[]) call;
SELECT is(r::text, '(f,f)', 'F15: nor is it extended') FROM pgqrs_extend_lease(:run, :lease) r;
SELECT is(pg_temp.contents(), :'contents', 'F15: nothing changes');
SELECT pgqrs_step_complete(:run, :again_second, 'b', '2'), pgqrs_complete_run(:run, :again_second, '"second"') \g /dev/null
SELECT is(r::text, '(SUCCESS,"""second""",)', 'F15: the result is that of the second') FROM pgqrs_result(:run) r;

-- An expired lease that nobody has taken is still current.
SELECT * FROM pg_temp.start('job') \gset
SELECT pg_temp.due(:run);
SELECT lives_ok(format(call, :run, :lease), 'with an expired lease: ' || call)
	FROM unnest('{"SELECT pgqrs_step_begin(%s, %s, ''a'')","SELECT pgqrs_step_complete(%s, %s, ''a'')","SELECT pgqrs_set_progress(%s, %s, ''1'')","SELECT pgqrs_complete_run(%s, %s)"}'::text[]) call;
SELECT is(pg_temp.end(:run), 'SUCCESS 1 DONE 0', 'done after its lease, without a crash');

-- F18: a run that ends every worker is delivered max_crashes times.
SELECT pgqrs_trigger('job') AS run, pgqrs_trigger('job') AS next \gset
SELECT is(pg_temp.crash(:run), 'again', 'delivery ' || g) FROM generate_series(1, 3) g;
SELECT is(pg_temp.crashes(:run), 2, 'two crashes so far');
SELECT is(crashes, 2, 'two in the view') FROM pgqrs_runs WHERE run_id = :run;
SELECT is(pg_temp.crash(:run), format('another one: %s', :next), 'the fourth claim passes on');
SELECT is(pg_temp.end(:run), 'ERROR max_crashes 3 DEAD 3 max_crashes', 'and ends it');
SELECT is(array[pg_temp.crashes(:run), crashes], '{3,3}', 'a run that has ended shows its crashes, also in the view') FROM pgqrs_runs WHERE run_id = :run;

SELECT is(jsonb_typeof(error->'message'), 'string', 'with a message') FROM pgqrs_result(:run);
SELECT is(pg_temp.crash(:next), 'again', 'the next one is not harmed');
SELECT pgqrs_trigger('frail') AS run \gset
SELECT is(pg_temp.crash(:run), 'again', 'max_crashes 1: once');
SELECT is(pg_temp.crash(:run), 'nothing', 'and never again');
SELECT is(pg_temp.end(:run), 'ERROR max_crashes 1 DEAD 1 max_crashes', 'ended');

-- The old holder of such a run.
SELECT * FROM pg_temp.start('frail') \gset
SELECT is(pg_temp.crash(:run), 'nothing', 'used up');
SELECT is(pg_temp.answer(format('SELECT pgqrs_complete_run(%s, %s)', :run, :lease)), 'PQ007 It is ERROR.', 'comes too late');

-- Maintenance ends it, too; whoever has it may finish before that.
SELECT * FROM pg_temp.start('frail') \gset
SELECT pg_temp.due(:run);
SELECT is(pgqrs_maintain() ->> 'messages_dead', '1', 'by maintenance');
SELECT is(pg_temp.end(:run), 'ERROR max_crashes 1 DEAD 1 max_crashes', 'ended');
SELECT * FROM pg_temp.start('job') \gset
SELECT pg_temp.due(:run);
SELECT pgqrs_maintain() \g /dev/null
SELECT pgqrs_complete_run(:run, :lease);
SELECT is(pg_temp.end(:run), 'SUCCESS 1 DONE 0', 'one that is not used up is left to its holder');

-- A step that succeeds: crashes are counted anew.
SELECT pgqrs_trigger('job') AS run \gset
SELECT pg_temp.crash(:run), pg_temp.crash(:run), pg_temp.crash(:run) \g /dev/null
SELECT is(pg_temp.crashes(:run), 2, 'two crashes');
SELECT lease FROM pgqrs_messages WHERE message_id = :run \gset
SELECT pgqrs_step_begin(:run, :lease, 'a') \g /dev/null
SELECT is(pg_temp.crashes(:run), 2, 'a begin is no progress');
SELECT pgqrs_step_complete(:run, :lease, 'a', '1');
SELECT is(pg_temp.crashes(:run), 0, 'none since the step succeeded');
SELECT is(ROW(lease, visible_after > clock_timestamp())::text, format('(%s,t)', :lease), 'its lease is as it was') FROM pgqrs_messages WHERE message_id = :run;
SELECT is(pg_temp.crash(:run), 'again', 'delivery ' || g) FROM generate_series(1, 2) g;
SELECT is(pg_temp.crashes(:run), 2, 'two again');

-- Storing the same step once more is no progress.
SELECT lease FROM pgqrs_messages WHERE message_id = :run \gset
SELECT pgqrs_step_complete(:run, :lease, 'a', '1');
SELECT is(concat_ws(' ', should_execute::text, output), 'false 1', 'nor is reading it') FROM pgqrs_step_begin(:run, :lease, 'a');
SELECT is(pg_temp.crashes(:run), 2, 'still two');
SELECT is(pg_temp.crash(:run), 'nothing', 'the third');
SELECT is(pg_temp.end(:run), 'ERROR max_crashes 5 DEAD 3 max_crashes', 'is the last in a row');

-- Nor are failures, of steps or of the run; and they are no crashes.
SELECT pgqrs_trigger('job', retry_policy => '{"max_attempts": -1}') AS run \gset
SELECT pg_temp.crash(:run), pg_temp.crash(:run) \g /dev/null
SELECT lease FROM pgqrs_messages WHERE message_id = :run \gset
SELECT outcome FROM pgqrs_step_fail(:run, :lease, 'a', '{}', fail_run => false, retryable => false) \g /dev/null
SELECT is(pg_temp.crashes(:run), 1, 'one crash, and a step that failed');
SELECT outcome FROM pgqrs_step_fail(:run, :lease, 'b', '{}') \g /dev/null
SELECT is(pg_temp.crashes(:run), 1, 'a retry of a step');
SELECT is(pg_temp.crash(:run), 'again', 'is delivered');
SELECT is(pg_temp.crashes(:run), 1, 'without a crash');
SELECT lease FROM pgqrs_messages WHERE message_id = :run \gset
SELECT pgqrs_fail_run(:run, :lease, '{}', true) \g /dev/null
SELECT is(pg_temp.crash(:run), 'again', 'a retry of the run');
SELECT is(pg_temp.crashes(:run), 1, 'too');
SELECT is(pg_temp.crash(:run), 'again', 'a crash');
SELECT is(ROW(pg_temp.crashes(:run), failures, attempt)::text, '(2,1,5)', 'the second; the run has failed once, attempts only grow') FROM pgqrs_get_run(:run);

-- Given back, or moved by the operator: no crash.
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_release_message(:run, :lease);
SELECT is(pg_temp.crash(:run), 'again', 'released');
SELECT is(pg_temp.crashes(:run), 0, 'without a crash');
SELECT pgqrs_set_visibility(:run, clock_timestamp());
SELECT is(pg_temp.crash(:run), 'again', 'revoked');
SELECT is(ROW(pg_temp.crashes(:run), attempt)::text, '(0,3)', 'without a crash, but a third attempt') FROM pgqrs_get_run(:run);

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
SELECT is(ROW(m.failures, m.lease, visible_after <= clock_timestamp(), status)::text, '(1,,t,RUNNING)', 'superseded: a crash, claimable at once') FROM pgqrs_messages m JOIN pgqrs_workflow_runs USING (run_id) WHERE run_id = :superseded;
SELECT is(ROW(m.failures, m.lease, visible_after <= clock_timestamp(), status)::text, '(0,,t,RUNNING)', 'stopped by itself: none') FROM pgqrs_messages m JOIN pgqrs_workflow_runs USING (run_id) WHERE run_id = :stopped;
SELECT is(pg_temp.crash(:superseded), 'again', 'delivered');
SELECT is(pg_temp.crashes(:superseded), 1, 'and not counted twice');
SELECT pg_temp.hold(:w1b) AS silent \gset
UPDATE pgqrs_workers SET heartbeat_at = '2000-01-01', status = 'STOPPED', stopped_at = clock_timestamp() WHERE worker_id = :w1b;
SELECT pgqrs_maintain() \g /dev/null
SELECT is(ROW(pg_temp.crashes(:silent), lease)::text, '(1,)', 'reaped: a crash') FROM pgqrs_messages WHERE message_id = :silent;

-- A limit that changes counts for live runs.
SELECT pgqrs_alter_workflow('job', max_crashes => 1);
SELECT isnt(pg_temp.crash(:silent), 'again', 'not delivered any more');
SELECT is(pg_temp.end(:silent), 'ERROR max_crashes 1 DEAD 1 max_crashes', 'ended');

SELECT * FROM finish();
