-- Live runs and what each is doing, signals that wait, and the settings of queues and workflows.
\ir include/runs.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_workflow('job', initial_interval => '1 hour', jitter => 0), pgqrs_create_workflow('wait'),
	pgqrs_create_queue('plain', max_in_flight => 7, retention => '1 day') \g /dev/null
SELECT pgqrs_register_worker('w', '{*}') AS w \gset

-- A run in each state.
SELECT pgqrs_trigger('job') AS held_run \gset
SELECT lease AS held_lease FROM pgqrs_dequeue('job', :w) \gset
SELECT pgqrs_step_begin(:held_run, :held_lease, 'a'), pgqrs_step_complete(:held_run, :held_lease, 'a'),
	pgqrs_step_begin(:held_run, :held_lease, 'b') \g /dev/null
SELECT * FROM pg_temp.start('job') \gset asked_
SELECT pgqrs_cancel_run(:asked_run) \g /dev/null
SELECT * FROM pg_temp.start('job') \gset expired_
SELECT pg_temp.due(:expired_run);
SELECT * FROM pg_temp.start('job') \gset retried_
SELECT pgqrs_step_begin(:retried_run, :retried_lease, 'a'),
	pgqrs_step_fail(:retried_run, :retried_lease, 'a', '{"type": "x"}') \g /dev/null
SELECT * FROM pg_temp.start('job') \gset parked_
SELECT pgqrs_await_signal(:parked_run, :parked_lease, 'approval', 'ok') \g /dev/null
SELECT pgqrs_trigger('job', tags => '{"t": 1}') AS ready, pgqrs_trigger('job', delay => '1 day') AS delayed \gset
SELECT * FROM pg_temp.start('job') \gset ended_
SELECT pgqrs_complete_run(:ended_run, :ended_lease), pgqrs_enqueue('plain', '1') \g /dev/null

SELECT results_eq(
	'SELECT run_id, workflow, status, state, waiting_for, step_id, step_kind, worker, crashes, attempt
		FROM pgqrs_live_runs',
	format($$VALUES (%s::bigint, 'job', 'RUNNING', 'held', NULL, 'b', 'FUNCTION', 'w', 0, 1),
		(%s, 'job', 'RUNNING', 'cancel requested', NULL, NULL, NULL, NULL, 0, 1),
		(%s, 'job', 'RUNNING', 'expired', NULL, NULL, NULL, NULL, 0, 1),
		(%s, 'job', 'RUNNING', 'retry', NULL, 'a', 'FUNCTION', NULL, 0, 1),
		(%s, 'job', 'PAUSED', 'parked', 'signal ok', 'approval', 'SIGNAL', NULL, 0, 1),
		(%s, 'job', 'QUEUED', 'ready', NULL, NULL, NULL, NULL, 0, 0),
		(%s, 'job', 'QUEUED', 'delayed', NULL, NULL, NULL, NULL, 0, 0)$$, :held_run, :asked_run, :expired_run,
		:retried_run, :parked_run, :ready, :delayed),
	'pgqrs_live_runs tells of each live run, the oldest first, what it is doing');
SELECT is(l.lease_end, CASE WHEN state IN ('held', 'cancel requested', 'expired') THEN m.visible_after END,
		format('a run that is %s shows the end of its lease if it has one', state))
	FROM pgqrs_live_runs AS l JOIN pgqrs_messages AS m ON m.message_id = l.run_id;
SELECT is(l.since, CASE state
			WHEN 'held' THEN m.dequeued_at
			WHEN 'cancel requested' THEN r.cancel_requested_at
			WHEN 'retry' THEN m.dequeued_at
			WHEN 'parked' THEN r.paused_at
			WHEN 'delayed' THEN r.created_at
			ELSE m.visible_after END,
		format('since when a run is %s', state))
	FROM pgqrs_live_runs AS l JOIN pgqrs_messages AS m ON m.message_id = l.run_id
		JOIN pgqrs_workflow_runs AS r ON r.run_id = l.run_id;
SELECT is(tags, '{"t": 1}', 'pgqrs_live_runs shows the tags of a run') FROM pgqrs_live_runs WHERE run_id = :ready;

-- A wait that is over is claimable, whatever it waited for.
SELECT pgqrs_signal(:parked_run, 'ok', '{"by": "ada"}', headers => '{"h": 1}') AS signal,
	pgqrs_signal(:ready, 'early', '1') AS early \gset
SELECT is(state, 'ready', 'a run whose signal came is ready') FROM pgqrs_live_runs WHERE run_id = :parked_run;

-- Signals.
SELECT pgqrs_resume_run(:held_run, 'review', '"yes"') \g /dev/null
SELECT results_eq('SELECT signal_id, run_id, workflow, name, payload, headers, waiting_for FROM pgqrs_signals
		ORDER BY sent_at',
	format($$VALUES (%s::bigint, %s::bigint, 'job', 'ok', '{"by": "ada"}'::jsonb, '{"h": 1}'::jsonb, 'signal ok'),
		(%s, %s, 'job', 'early', '1', NULL, NULL), (NULL, %s, 'job', 'review', '"yes"', NULL, NULL)$$,
		:signal, :parked_run, :early, :ready, :held_run),
	'pgqrs_signals shows signals that no step has consumed, and a resume that came before its pause');
SELECT pg_temp.claim(:parked_run) AS again_lease \gset
SELECT received FROM pgqrs_await_signal(:parked_run, :again_lease, 'approval', 'ok') \g /dev/null
SELECT is_empty(format('SELECT 1 FROM pgqrs_signals WHERE signal_id = %s', :signal),
	'a signal that a step has consumed is not shown');
SELECT pgqrs_pause_run(:held_run, :held_lease, 'review') \g /dev/null
SELECT is_empty(format('SELECT 1 FROM pgqrs_signals WHERE run_id = %s', :held_run),
	'a resume whose pause has come is not shown');
SELECT pgqrs_cancel_run(:ready) \g /dev/null
SELECT is_empty(format('SELECT 1 FROM pgqrs_signals WHERE run_id = %s', :ready),
	'a signal of a run that has ended is not shown');

-- A page is found by the primary key, without reading all live runs.
SELECT count(pgqrs_trigger('wait', delay => '1 day')) FROM generate_series(1, 2000) \g /dev/null
ANALYZE pgqrs_messages, pgqrs_workflow_runs, pgqrs_workflow_steps;
CREATE FUNCTION pg_temp.plan_of(query text) RETURNS SETOF text LANGUAGE plpgsql AS
$$BEGIN RETURN QUERY EXECUTE 'EXPLAIN ' || query; END$$;
SELECT is(count(*), 1::bigint, 'a page of live runs sorts nothing but the steps of a run')
	FROM pg_temp.plan_of('SELECT * FROM pgqrs_live_runs LIMIT 50') AS line WHERE line ~ 'Sort Key';
SELECT alike(string_agg(line, E'\n'), '%Index Scan using pgqrs_messages_pkey%',
		'a page of live runs is found by the key of messages')
	FROM pg_temp.plan_of('SELECT * FROM pgqrs_live_runs LIMIT 50') AS line;

-- Settings.
SELECT results_eq(
	$$SELECT is_workflow, visibility_timeout, max_attempts, max_in_flight, retention, dead_retention, paused_at
		FROM pgqrs_queues_list WHERE queue = 'plain'$$,
	$$VALUES (false, interval '30 s', 5, 7, interval '1 day', interval '30 days', NULL::timestamptz)$$,
	'pgqrs_queues_list shows the settings of a queue');
SELECT pgqrs_create_workflow('all', max_attempts => 9, initial_interval => '2 s', backoff_coefficient => 3,
	max_interval => '1 min', jitter => 0.5, non_retryable => '{a,b}', timeout => '1 day',
	visibility_timeout => '1 min', max_crashes => 4, key_scope => 'active', outbox_queue => 'plain') \g /dev/null
SELECT pgqrs_alter_queue('all', max_in_flight => 3), pgqrs_pause_queue('all') \g /dev/null
SELECT results_eq(
	$$SELECT owner, max_attempts, initial_interval, backoff_coefficient, max_interval, jitter, non_retryable, timeout,
			visibility_timeout, max_crashes, key_scope, outbox_queue, max_in_flight, retention, paused_at IS NOT NULL
		FROM pgqrs_workflows_list WHERE workflow = 'all'$$,
	$$VALUES (current_user::text, 9, interval '2 s', 3::float8, interval '1 min', 0.5::float8, '{a,b}'::text[],
		interval '1 day', interval '1 min', 4, 'active', 'plain', 3, interval '7 days', true)$$,
	'pgqrs_workflows_list shows the settings of a workflow, and those of its queue');
SELECT set_eq('SELECT queue FROM pgqrs_queues_list', '{plain,job,wait,all}'::text[],
	'pgqrs_queues_list shows all queues');
SELECT pgqrs_delete_queue('plain', force => true), pgqrs_delete_workflow('wait', force => true) \g /dev/null
SELECT set_eq('SELECT queue FROM pgqrs_queues_list', '{job,all}'::text[],
	'pgqrs_queues_list leaves deleted queues out');
SELECT set_eq('SELECT workflow FROM pgqrs_workflows_list', '{job,all}'::text[],
	'pgqrs_workflows_list leaves deleted workflows out');
SELECT is_empty($$SELECT 1 FROM pgqrs_live_runs WHERE workflow IS NULL OR workflow = 'wait'$$,
	'pgqrs_live_runs leaves runs of deleted workflows out');

SELECT * FROM finish();
