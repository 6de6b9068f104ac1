-- The messages of runs, used as messages.
-- F-numbers: docs/design/known-failures.md.
\ir include/messages.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_workflow('flow', visibility_timeout => '1 min', max_crashes => 3) AS flow,
	pgqrs_create_queue('plain') AS plain \gset

CREATE FUNCTION pg_temp.run(run bigint) RETURNS pgqrs_workflow_runs LANGUAGE sql AS
$$ SELECT r FROM pgqrs_workflow_runs r WHERE run_id = run $$;
-- The status of a run and the state of its message.
CREATE FUNCTION pg_temp.both(run bigint) RETURNS text LANGUAGE sql AS
$$ SELECT status || ', ' || pg_temp.state(run) FROM pgqrs_workflow_runs WHERE run_id = run $$;

--
-- What is delivered
--

SELECT pgqrs_trigger('flow', '{"n": 1}', priority => 4, headers => '{"h": 1}') AS run \gset
SELECT is(to_jsonb(d) - '{lease,enqueued_at,visible_after}'::text[],
	format('{"message_id": %s, "queue": "flow", "attempt": 1, "failures": 0, "priority": 4, "payload": {"run_id": '
	'%1$s}, '
	'"headers": {"h": 1}, "run_id": %1$s, "workflow": "flow", "input": {"n": 1}, "cancel_requested": false}',
		:run)::jsonb, 'a claim returns a run with its id, workflow, input and headers') FROM pgqrs_dequeue('flow') d;
SELECT lease FROM pg_temp.message(:run) \gset
SELECT is(pg_temp.both(:run), 'RUNNING, held 1 0', 'a claimed run is RUNNING and its message is under a lease');
SELECT is(ROW(lease, attempt, worker_id)::text, format('(%s,1,)', :lease),
	'a claimed run has the lease and attempt of its message') FROM pg_temp.run(:run);
SELECT pgqrs_trigger('flow') AS other \gset
SELECT is(ROW(payload, input, headers)::text, format('("{""run_id"": %s}",,)', :other),
	'a run without input or headers is returned with NULLs') FROM pgqrs_dequeue('flow');
SELECT pgqrs_trigger('flow', 'null') \g /dev/null
SELECT is(input, 'null', 'a JSON null is an input') FROM pgqrs_dequeue('flow');
SELECT pgqrs_enqueue('plain', format('{"run_id": %s}', :run)::jsonb) \g /dev/null
SELECT is(ROW(run_id, workflow, input)::text, '(,,)',
	'a plain message whose payload looks like that of a run is none') FROM pgqrs_dequeue('plain');

--
-- What is refused
--

SELECT pg_temp.contents() AS before \gset
INSERT INTO refused SELECT format(call, :run, l), CASE l WHEN :lease THEN 'PQ016' ELSE 'PQ006' END
	FROM unnest(ARRAY[:lease, 1, 0, -1]) l,
	unnest(ARRAY['pgqrs_archive_message(%s, %s)', 'pgqrs_delete_message(%s, %s)', 'pgqrs_nack_message(%s, %s)',
		'pgqrs_nack_message(%s, %s, ''"x"'', ''1 h'')']) call;
INSERT INTO refused VALUES ('pgqrs_enqueue(''flow'', ''1'')', 'PQ016'),
	('pgqrs_enqueue(''flow'', ''1'', idempotency_key => ''k'')', 'PQ016'),
	('pgqrs_enqueue_batch(''flow'', ''{1,2}'')', 'PQ016'),
	(format('pgqrs_replay_message(%s)', :run), 'PQ016'), (format('pgqrs_release_message(%s, 1)', :run), 'PQ006');
SELECT is(got, state, 'the call on the message of a run is refused: ' || call) FROM pg_temp.refusals();
SELECT is(pgqrs_archive_messages(ARRAY[:run, :other], ARRAY[1, 1]), '{NULL,NULL}',
	'archiving a batch of runs under stale leases returns NULLs');
SELECT is(left(pg_temp.answer(format('SELECT pgqrs_archive_messages(ARRAY[%s, %s], ARRAY[%s, 1])', :run, :other,
	:lease)), 5), 'PQ016', 'archiving a batch that has a run under its lease is refused');
SELECT is(extended, false, 'a stale lease is not extended') FROM pgqrs_extend_lease(:run, 1);
SELECT is(pg_temp.contents(), :'before', 'refused calls change nothing');
SELECT alike(pg_temp.answer(format('SELECT pgqrs_archive_message(%s, %s)', :run, :lease)), 'PQ016 %run%',
	'the error says that the message is that of a run');

--
-- What is allowed
--

SELECT is(pgqrs_extend_lease(:run, :lease, '1 h')::text, '(t,f)',
	'the lease of a run can be extended by a given time');
SELECT ok(pg_temp.wait(:run) BETWEEN 3000 AND 3600, 'the extended lease ends after the given time');
SELECT is(pgqrs_extend_lease(:run, :lease)::text, '(t,f)',
	'the lease of a run can be extended by the workflow''s timeout');
SELECT ok(pg_temp.wait(:run) BETWEEN 3000 AND 3600, 'an extension does not make a lease shorter');
SELECT is(e::text, format('(%s,t,f)', :run), 'the lease of a run can be extended in a batch')
	FROM pgqrs_extend_leases(ARRAY[:run], ARRAY[:lease], '1 h') e;
BEGIN;
SELECT is(pgqrs_cancel_run(:run), 'RUNNING', 'cancelling a run under a live lease asks its holder to stop');
SELECT is(pgqrs_extend_lease(:run, :lease)::text, '(t,t)', 'an extension tells of a request to cancel');
SELECT is(e::text, format('(%s,t,t)', :run), 'an extension in a batch tells of a request to cancel')
	FROM pgqrs_extend_leases(ARRAY[:run], ARRAY[:lease]) e;
SAVEPOINT s;
SELECT pgqrs_release_message(:run, :lease, '1 h');
SELECT is(pg_temp.both(:run), 'CANCELLED, CANCELLED 1 0',
	'a release by the worker that was asked to stop cancels the run');
ROLLBACK TO s;
SELECT pgqrs_set_visibility(:run, '2100-01-01');
SELECT is(pg_temp.both(:run), 'CANCELLED, CANCELLED 1 0',
	'pgqrs_set_visibility() on a run that was asked to stop cancels it');
ROLLBACK;

SELECT pgqrs_release_message(:run, :lease, '1 h');
SELECT is(pg_temp.both(:run), 'RUNNING, live 1 0',
	'a released run stays RUNNING without a lease, and counts no failure');
SELECT ok(pg_temp.wait(:run) BETWEEN 3000 AND 3600, 'a released run is due after the given delay');
INSERT INTO refused SELECT format(call, :run, :lease), state FROM (VALUES ('pgqrs_complete_run(%s, %s)', 'PQ006'),
	('pgqrs_fail_run(%s, %s, ''{}'')', 'PQ006'),
	('pgqrs_step_begin(%s, %s, ''s'')', 'PQ006'), ('pgqrs_set_progress(%s, %s, ''1'')', 'PQ006'),
		('pgqrs_release_message(%s, %s)', 'PQ006'), ('pgqrs_archive_message(%s, %s)', 'PQ006')) v (call, state);
SELECT is(split_part(got, ' after', 1), state, 'after the release the lease is refused: ' || call)
	FROM pg_temp.refusals();
SELECT is(extended, false, 'after the release the lease is not extended') FROM pgqrs_extend_lease(:run, :lease);
SELECT pgqrs_set_visibility(:run, '2020-01-01');
SELECT is(ROW(message_id, attempt, failures)::text, format('(%s,2,0)', :run),
	'a run made due by pgqrs_set_visibility() is claimed as attempt 2 without a failure') FROM pgqrs_dequeue('flow');
SELECT lease FROM pg_temp.message(:run) \gset
SELECT is(ROW(lease, attempt, status)::text, format('(%s,2,RUNNING)', :lease),
	'the run has the new lease and attempt') FROM pg_temp.run(:run);
SELECT pgqrs_set_visibility(:run, '2100-01-01');
SELECT is(pg_temp.both(:run), 'RUNNING, live 2 0', 'pgqrs_set_visibility() takes the lease without a failure');
INSERT INTO refused SELECT format(call, :run, :lease), 'PQ006'
	FROM unnest(ARRAY['pgqrs_complete_run(%s, %s)', 'pgqrs_step_begin(%s, %s, ''s'')',
	'pgqrs_step_complete(%s, %s, ''s'')',
	'pgqrs_step_fail(%s, %s, ''s'', ''{}'')', 'pgqrs_release_message(%s, %s)']) call;
SELECT is(split_part(got, ' after', 1), state, 'after pgqrs_set_visibility() the lease is refused: ' || call)
	FROM pg_temp.refusals();
SELECT is(count(*), 0::bigint, 'refused calls have stored no step') FROM pgqrs_workflow_steps;

--
-- The end of a run is the end of its message
--

SELECT pg_temp.claim(:run) AS lease \gset
SELECT pgqrs_complete_run(:run, :lease, '{"ok": true}');
SELECT is(pg_temp.both(:run), 'SUCCESS, DONE 3 0', 'completing a run archives its message as DONE');
INSERT INTO refused VALUES (format('pgqrs_release_message(%s, %s)', :run, :lease), 'PQ007'),
	(format('pgqrs_set_visibility(%s, ''2100-01-01'')', :run), 'PQ004'),
	(format('pgqrs_replay_message(%s)', :run), 'PQ016');
SELECT is(split_part(got, ' after', 1), state, 'after the end of the run the call is refused: ' || call)
	FROM pg_temp.refusals();
SELECT is(pgqrs_archive_messages(ARRAY[:run], ARRAY[:lease]), '{NULL}',
	'archiving the message of an ended run returns NULL');
SELECT is(extended, false, 'the lease of an ended run is not extended') FROM pgqrs_extend_lease(:run, :lease);

-- F18 for runs: max_crashes deliveries, then ERROR.
SELECT pgqrs_trigger('flow') AS run \gset
SELECT pg_temp.claim(:run) FROM generate_series(1, 3) \g /dev/null
SELECT is(pg_temp.both(:run), 'RUNNING, held 3 2', 'a run is delivered max_crashes times');
SELECT lease FROM pg_temp.message(:run) \gset
SELECT pg_temp.due(:run) \g /dev/null
SELECT is(count(*), 0::bigint, 'a claim does not return a run that crashed max_crashes times')
	FROM pgqrs_dequeue('flow') WHERE run_id = :run;
SELECT is(pg_temp.both(:run), 'ERROR, DEAD 3 3', 'a run that crashed max_crashes times is dead');
SELECT is(error ->> 'type', 'max_crashes', 'a run that crashed max_crashes times has that as its error')
	FROM pg_temp.run(:run);

--
-- Replay of a failed run
--

SELECT pgqrs_trigger('flow', '{"n": 2}', priority => 9, timeout => '1 h', tags => '{"t": 1}') AS run \gset
SELECT pg_temp.claim(:run) AS lease \gset
SELECT pgqrs_step_begin(:run, :lease, 'good'), pgqrs_step_complete(:run, :lease, 'good', '"kept"'),
	pgqrs_step_begin(:run, :lease, 'bad') \g /dev/null
SELECT outcome FROM pgqrs_step_fail(:run, :lease, 'bad', '{"type": "broken"}', retryable => false) \gset
SELECT is(:'outcome' || ' ' || pg_temp.both(:run), 'RUN_FAILED ERROR, DEAD 1 0',
	'a failed step that is not retryable fails the run');
SELECT started_at FROM pg_temp.run(:run) \gset
UPDATE pgqrs_workflow_runs SET deadline_at = '2020-01-01' WHERE run_id = :run;
SELECT clock_timestamp() AS before \gset
SELECT pgqrs_replay_message(:run);
SELECT is(pg_temp.both(:run), 'QUEUED, live 0 0', 'a replayed run is QUEUED with its counts at 0');
SELECT is(ROW(error, completed_at, attempt, failures, priority, input, tags)::text,
	'(,,0,0,9,"{""n"": 2}","{""t"": 1}")', 'a replay clears error and end, and keeps priority, input and tags')
	FROM pg_temp.run(:run);
SELECT is(ROW(priority, pg_temp.wait(:run) BETWEEN -600 AND 0)::text, '(9,t)',
	'a replayed message is due now with its priority') FROM pg_temp.message(:run);
SELECT ok(r.deadline_at - interval '1 h' BETWEEN :'before' AND clock_timestamp() AND r.deadline_at = m.deadline_at,
	'a replayed run has a new deadline, and its message the same') FROM pg_temp.run(:run) r, pg_temp.message(:run) m;
SELECT is(string_agg(concat_ws(' ', step_id, status, failures, output, error), ', ' ORDER BY step_id),
	'bad PENDING 0, good SUCCESS 0 "kept"', 'a replay keeps completed steps and opens failed ones')
	FROM pgqrs_workflow_steps WHERE run_id = :run;
INSERT INTO refused VALUES (format('pgqrs_complete_run(%s, %s)', :run, :lease), 'PQ006'),
	(format('pgqrs_release_message(%s, %s)', :run, :lease), 'PQ006'), (format('pgqrs_replay_message(%s)', :run),
	'PQ016');
SELECT is(split_part(got, ' after', 1), state, 'after the replay the call is refused: ' || call)
	FROM pg_temp.refusals();
SELECT is(to_jsonb(d) - '{lease,enqueued_at,visible_after,headers}'::text[],
	format('{"message_id": %s, "queue": "flow", "attempt": 1, "failures": 0, "priority": 9, "payload": {"run_id": '
	'%1$s}, '
	'"run_id": %1$s, "workflow": "flow", "input": {"n": 2}, "cancel_requested": false}', :run)::jsonb,
		'a claim returns a replayed run like a new one') FROM pgqrs_dequeue('flow') d;
SELECT lease FROM pg_temp.message(:run) \gset
SELECT is(ROW(should_execute, status, output)::text, '(f,SUCCESS,"""kept""")',
	'a step completed before the replay is not executed again') FROM pgqrs_step_begin(:run, :lease, 'good');
SELECT is(ROW(should_execute, status)::text, '(t,RUNNING)', 'a step that failed before the replay is executed again')
	FROM pgqrs_step_begin(:run, :lease, 'bad');
SELECT pgqrs_step_complete(:run, :lease, 'bad', '"better"'), pgqrs_complete_run(:run, :lease, '"done"');
SELECT is(pg_temp.both(:run) || (SELECT output FROM pg_temp.run(:run)), 'SUCCESS, DONE 1 0"done"',
	'a replayed run succeeds');
SELECT ok(completed_at IS NOT NULL AND error IS NULL, 'a replayed run that succeeded has an end and no error')
	FROM pg_temp.run(:run);

-- Many, and what cannot be replayed.
SELECT pgqrs_trigger_batch('flow', '{1,2,3,4}') AS runs \gset
SELECT pgqrs_fail_run(run, pg_temp.claim(run), '{"type": "x"}') FROM unnest(:'runs'::bigint[]) run \g /dev/null
UPDATE pgqrs_workflow_runs SET deleted_at = clock_timestamp() WHERE run_id = (:'runs'::bigint[])[2];
SELECT pgqrs_purge_dead_letters('flow', '1 day') AS purged \gset
SELECT is(:purged, 0, 'pgqrs_purge_dead_letters() leaves younger letters alone');
DELETE FROM pgqrs_archive WHERE message_id = (:'runs'::bigint[])[3];
SELECT is(pgqrs_replay_queue('flow'), 3::bigint, 'pgqrs_replay_queue() replays the failed runs of a workflow');
SELECT is(string_agg(status::text, ' ' ORDER BY run_id), 'QUEUED ERROR ERROR QUEUED',
	'pgqrs_replay_queue() passes over a deleted run and one without a dead letter') FROM pgqrs_workflow_runs
	WHERE run_id = ANY (:'runs');
INSERT INTO refused VALUES (format('pgqrs_replay_message(%s)', (:'runs'::bigint[])[2]), 'PQ016'),
	(format('pgqrs_replay_message(%s)', (:'runs'::bigint[])[3]), 'PQ004');
SELECT is(split_part(got, ' after', 1), state, 'the replay is refused: ' || call) FROM pg_temp.refusals();
SELECT is(pgqrs_purge_dead_letters('flow', '0'), 1::bigint, 'the dead letter of a deleted run is purged');
SELECT is(status, 'ERROR', 'the run of a purged letter stays in ERROR') FROM pg_temp.run((:'runs'::bigint[])[2]);
INSERT INTO refused VALUES (format('pgqrs_replay_message(%s)', (:'runs'::bigint[])[2]), 'PQ004');
SELECT is(got, state, 'the run of a purged letter cannot be replayed') FROM pg_temp.refusals();

SELECT * FROM finish();
