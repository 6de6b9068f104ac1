-- Replay of runs that have failed: the one move out of ERROR.
\ir include/runs.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_workflow('job', timeout => '1 h', max_crashes => 2, key_scope => 'active'),
	pgqrs_create_workflow('kept') \g /dev/null
SELECT pgqrs_register_worker('w', '{*}', version => '1') AS w \gset

-- A run with much behind it.
SELECT pgqrs_trigger('job', '"in"', priority => 7, tags => '{"t": 1}', headers => '{"h": 1}', idempotency_key => 'k',
	retry_policy => '{"max_attempts": 2, "max_interval": "1 s"}') AS run \gset
SELECT lease FROM pgqrs_dequeue('job', :w) \gset
SELECT pgqrs_step_begin(:run, :lease, 'done', '1'), pgqrs_step_complete(:run, :lease, 'done', '"out"'),
	pgqrs_set_progress(:run, :lease, '50'),
	pgqrs_step_fail(:run, :lease, 'soft', '{"type": "soft"}', retryable => false, fail_run => false),
		pgqrs_step_begin(:run, :lease, 'open'),
	pgqrs_step_fail(:run, :lease, 'flaky', '{"type": "first"}') \g /dev/null
SELECT pgqrs_step_begin(:run, lease, 'flaky') AS b, lease FROM pg_temp.claim(:run) lease \gset
SELECT outcome FROM pgqrs_step_fail(:run, :lease, 'flaky', '{"type": "second"}') \gset
SELECT is(:'outcome'::text, 'RUN_FAILED', 'the second failure of the step has failed the run');
UPDATE pgqrs_workflow_runs SET created_at = created_at - interval '2 h', started_at = started_at - interval '2 h',
	completed_at = completed_at - interval '1 h', deadline_at = deadline_at - interval '2 h' WHERE run_id = :run;
UPDATE pgqrs_archive SET enqueued_at = enqueued_at - interval '2 h', deadline_at = deadline_at - interval '2 h'
	WHERE message_id = :run;
SELECT to_jsonb(r) AS before FROM pgqrs_workflow_runs r WHERE run_id = :run \gset

SELECT clock_timestamp() AS since \gset
SELECT pgqrs_replay_message(:run);
SELECT is(jsonb_strip_nulls(to_jsonb(r)) - 'deadline_at',
	jsonb_strip_nulls(:'before'::jsonb) - '{deadline_at,error,completed_at,lease,worker_id,worker_version}'::text[]
	|| '{"status": "QUEUED", "attempt": 0, "failures": 0}',
	'a replayed run is QUEUED without error and end, its counts and lease reset, the rest as it was')
		FROM pgqrs_workflow_runs r WHERE run_id = :run;
SELECT ok(deadline_at BETWEEN :'since'::timestamptz + interval '1 h' AND clock_timestamp() + interval '1 h',
	'a replayed run gets a new deadline') FROM pgqrs_workflow_runs WHERE run_id = :run;
SELECT is(jsonb_strip_nulls(to_jsonb(m)) - '{queue_id,visible_after,deadline_at,last_error,enqueued_at}'::text[],
	jsonb_build_object('message_id', :run, 'run_id', :run, 'attempt', 0, 'failures', 0, 'priority', 7, 'headers',
		'{"h": 1}'::jsonb, 'idempotency_key', 'k'),
		'a replayed run has its message back, with priority, headers and key')
	FROM pgqrs_messages m WHERE message_id = :run;
SELECT ok(visible_after BETWEEN :'since' AND clock_timestamp() AND m.deadline_at = r.deadline_at
	AND enqueued_at = created_at, 'a replayed run is due now') FROM pgqrs_messages m
	JOIN pgqrs_workflow_runs r USING (run_id) WHERE run_id = :run;
SELECT is(count(*), 0::bigint, 'a replayed run is no dead letter any more') FROM pgqrs_archive
	WHERE message_id = :run;
SELECT results_eq(format('SELECT step_id, status, attempt, failures, output, error FROM pgqrs_list_steps(%s) ORDER '
	'BY step_id', :run),
	$$VALUES ('done', 'SUCCESS', 1, 0, '"out"'::jsonb, NULL::jsonb), ('flaky', 'PENDING', 2, 0, NULL, NULL),
		('open', 'RUNNING', 1, 0, NULL, NULL), ('soft', 'PENDING', 1, 0, NULL, NULL)$$,
	'the failed steps of a replayed run may run again with failures 0, the others are as they were');
SELECT is(jsonb_array_length(history), 2, 'a replayed step keeps the history of its failures')
	FROM pgqrs_list_steps(:run) WHERE step_id = 'flaky';
SELECT is(completed_at, NULL, 'a replayed step is not completed') FROM pgqrs_list_steps(:run) WHERE step_id = 'flaky';
SELECT is(r::text, '(QUEUED,,)', 'a replayed run has no result yet') FROM pgqrs_result(:run) r;
SELECT pg_temp.contents() AS contents \gset
SELECT is(pg_temp.answer(format('SELECT %s(%s, %s%s)', f, :run, :lease, rest)), 'PQ006',
	'the lease from before the replay is refused by ' || f)
	FROM (VALUES ('pgqrs_step_begin', ', ''done'''), ('pgqrs_step_complete', ', ''done'''), ('pgqrs_complete_run',
		''), ('pgqrs_fail_run', ', ''{}''')) v (f, rest);
SELECT is(pg_temp.answer(format('SELECT pgqrs_replay_message(%s)', :run)), 'PQ016 The message is live.',
	'a replay of a replayed run is refused');
SELECT is(pg_temp.contents(), :'contents', 'refused calls on a replayed run change nothing');

-- It runs as from the beginning, but for what is finished.
SELECT attempt, failures, priority, input, lease FROM pgqrs_dequeue('job', :w) \gset again_
SELECT is(ROW(:again_attempt, :again_failures, :again_priority, :'again_input')::text, '(1,0,7,"""in""")',
	'a claim returns a replayed run as attempt 1 with its input and priority');
SELECT is(concat_ws(' ', should_execute::text, output), 'false "out"',
	'a step that was completed before the replay is not executed again') FROM pgqrs_step_begin(:run, :again_lease,
	'done');
SELECT is(concat_ws(' ', should_execute::text, attempt, error), 'true 3',
	'a step that had failed is executed again, and its attempts go on') FROM pgqrs_step_begin(:run, :again_lease,
	'flaky');
SELECT is(concat_ws(' ', should_execute::text, attempt, error), 'true 2',
	'a step that had failed without failing the run is executed again') FROM pgqrs_step_begin(:run, :again_lease,
	'soft');
SELECT is(outcome, 'RETRY', 'a step has its retries again after a replay') FROM pgqrs_step_fail(:run, :again_lease,
	'flaky', '{"type": "third"}');
SELECT outcome FROM pgqrs_step_fail(:run, pg_temp.claim(:run), 'flaky', '{"type": "fourth"}') \gset
SELECT is(:'outcome'::text, 'RUN_FAILED', 'a step fails the run again after as many failures as before the replay');
SELECT pgqrs_replay_message(:run);
SELECT pg_temp.claim(:run) AS lease \gset
SELECT pgqrs_complete_run(:run, :lease, '1');
SELECT is(r::text, '(SUCCESS,1,)', 'a run replayed twice succeeds') FROM pgqrs_result(:run) r;
SELECT is(pg_temp.answer(format('SELECT pgqrs_replay_message(%s)', :run)), 'PQ016 The status is DONE.',
	'a replay of a run that succeeded is refused');

-- However it came to its ERROR.
CREATE FUNCTION pg_temp.dead(how text) RETURNS bigint LANGUAGE plpgsql AS
$$
DECLARE
	run bigint := pgqrs_trigger('job');
	lease bigint := pg_temp.claim(run);
BEGIN
	CASE how
		WHEN 'fail_run' THEN PERFORM pgqrs_fail_run(run, lease, '{"type": "fail_run"}');
		WHEN 'timeout' THEN PERFORM pg_temp.late(run), pgqrs_maintain();
		WHEN 'max_crashes' THEN PERFORM pg_temp.claim(run), pg_temp.due(run), pgqrs_maintain();
	END CASE;
	RETURN run;
END
$$;
CREATE TEMP TABLE dead AS SELECT how, pg_temp.dead(how) AS run
	FROM unnest('{fail_run,timeout,max_crashes}'::text[]) how;
SELECT is(status || ' ' || (error->>'type'), 'ERROR ' || how, 'the run has failed for ' || how) FROM dead,
	pgqrs_result(run);
SELECT pgqrs_replay_message(run) FROM dead;
SELECT is(ROW(r.status, r.attempt, r.failures, m.attempt, m.failures, lease,
	m.deadline_at > clock_timestamp() + interval '59 min')::text, '(QUEUED,0,0,0,0,,t)',
	'a replayed run is QUEUED with counts at 0 and a new deadline, after ' || how)
	FROM dead, pgqrs_get_run(run) r, pgqrs_messages m WHERE m.message_id = run;
SELECT is((SELECT sum(value::int) FROM jsonb_each_text(pgqrs_maintain())), 0::bigint,
	'a pass ends none of the replayed runs, which have time and crashes again');
SELECT pgqrs_complete_run(run, pg_temp.claim(run)) FROM dead;
SELECT is(status, 'SUCCESS', 'a replayed run succeeds, after ' || how) FROM dead, pgqrs_result(run);

-- What cannot be replayed.
SELECT pgqrs_trigger('kept', idempotency_key => 'deleted') AS deleted, pgqrs_trigger('kept') AS gone,
	pgqrs_trigger('kept', idempotency_key => 'x') AS cancelled \gset
SELECT pgqrs_fail_run(run, pg_temp.claim(run), '1') FROM unnest(ARRAY[:deleted, :gone]::bigint[]) run \g /dev/null
SELECT pgqrs_purge_queue('kept') \g /dev/null
UPDATE pgqrs_workflow_runs SET deleted_at = clock_timestamp() WHERE run_id = :deleted;
SELECT pgqrs_purge_dead_letters('job', '0') \g /dev/null
DELETE FROM pgqrs_archive WHERE message_id = :gone;
SELECT pgqrs_trigger('kept') AS queued \gset
SELECT pg_temp.contents() AS contents \gset
SELECT is(pg_temp.answer(format('SELECT pgqrs_replay_message(%s)', id)), answer, 'no replay is possible of ' || what)
	FROM (VALUES (:cancelled::bigint, 'PQ016 The status is CANCELLED.', 'a cancelled run'),
		(:queued, 'PQ016 The message is live.', 'a live one'),
		(:deleted, 'PQ016 The message''s run was deleted or undone, or its status is not ERROR.', 'a deleted one'),
			(:gone, 'PQ004', 'one whose dead letter was thrown away'), (9007199254740991, 'PQ004', 'none')) v (id,
			answer, what);
SELECT is(pg_temp.contents(), :'contents', 'refused replays change nothing');

-- All of a queue, oldest first.
SELECT array_agg(run) AS runs FROM (SELECT pg_temp.dead('fail_run') AS run FROM generate_series(1, 5)) r \gset
SELECT is(pgqrs_replay_queue('job', 2), 2::bigint, 'pgqrs_replay_queue() stops at its limit');
SELECT is(array_agg(status ORDER BY run_id), '{QUEUED,QUEUED,ERROR,ERROR,ERROR}',
	'pgqrs_replay_queue() replays the oldest runs first') FROM pgqrs_workflow_runs WHERE run_id = ANY (:'runs');
SELECT is(pgqrs_replay_queue('job'), 3::bigint, 'pgqrs_replay_queue() without a limit replays the rest');
SELECT is(count(*), 5::bigint, 'every failed run is QUEUED again') FROM pgqrs_workflow_runs
	WHERE run_id = ANY (:'runs') AND status = 'QUEUED';
SELECT is(pgqrs_replay_queue('job'), 0::bigint, 'a second pgqrs_replay_queue() finds nothing to replay');
SELECT is(pgqrs_replay_queue('kept'), 0::bigint, 'pgqrs_replay_queue() passes over deleted and cancelled runs');

-- Part of the transaction.
SELECT pg_temp.dead('fail_run') AS run \gset
BEGIN;
SELECT pgqrs_replay_message(:run);
SELECT is(status, 'QUEUED', 'the transaction of a replay sees the run QUEUED') FROM pgqrs_result(:run);
ROLLBACK;
SELECT is(status, 'ERROR', 'a rollback undoes a replay') FROM pgqrs_result(:run);

SELECT * FROM finish();
