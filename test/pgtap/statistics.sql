-- The views of statistics against what queries over the tables say.
-- F-numbers: docs/design/known-failures.md.
SET client_min_messages = error;
SELECT * FROM no_plan();

CREATE FUNCTION pg_temp.claim(queue text, OUT id bigint, OUT held bigint) LANGUAGE sql AS
$$SELECT message_id, lease FROM public.pgqrs_dequeue(queue)$$;

-- Nothing yet.
SELECT pgqrs_create_workflow('flow', initial_interval => '1 us') AS flow, pgqrs_create_workflow('idle') AS idle,
	pgqrs_create_queue('plain', max_attempts => 1) AS plain \gset
SELECT results_eq($$SELECT queued, running, paused, success, error, cancelled, success_rate, avg_duration,
	p50_duration, p95_duration,
		retries, since, live_workers, drained FROM pgqrs_workflow_stats WHERE workflow = 'idle'$$,
	$$VALUES (0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint, NULL::numeric, NULL::interval,
		NULL::interval, NULL::interval,
		0::bigint, NULL::timestamptz, 0, true)$$, 'a workflow without runs has zeros, no times and is drained');
SELECT results_eq($$SELECT ready, delayed, in_flight, dead, oldest_ready_age
	FROM pgqrs_queue_stats WHERE queue = 'plain'$$,
	$$VALUES (0::bigint, 0::bigint, 0::bigint, 0::bigint, NULL::interval)$$,
		'a queue without messages has zeros and no age');

-- Runs in every state: queued, running, waiting for a retry, paused in each
-- way, woken, asked to stop, ended in each way, with retries of steps and runs.
SELECT pgqrs_trigger('flow') FROM generate_series(1, 12);
SELECT id, held FROM pg_temp.claim('flow') \gset
SELECT pgqrs_sleep(:id, :held, 'z', '1 hour');
SELECT id, held FROM pg_temp.claim('flow') \gset
SELECT pgqrs_pause_run(:id, :held, 'p');
SELECT id AS woken, held FROM pg_temp.claim('flow') \gset
SELECT pgqrs_await_signal(:woken, :held, 's', 'go');
SELECT id, held FROM pg_temp.claim('flow') \gset
SELECT pgqrs_await_signal(:id, :held, 's', 'never');
SELECT id, held FROM pg_temp.claim('flow') \gset
SELECT pgqrs_step_fail(:id, :held, 'a', '{}', retry_after => '1 hour');
SELECT id, held FROM pg_temp.claim('flow') \gset
SELECT pgqrs_cancel_run(:id);
SELECT id, held FROM pg_temp.claim('flow') \gset
SELECT pgqrs_release_message(:id, :held, '1 hour');
SELECT id AS retried, held FROM pg_temp.claim('flow') \gset
SELECT pgqrs_step_fail(:retried, :held, 'a', '{}', retry_after => '0');
SELECT held FROM pgqrs_dequeue('flow', batch_size => 5) d, LATERAL (SELECT d.lease AS held) l
	WHERE message_id = :retried \gset
SELECT pgqrs_fail_run(:retried, :held, '{}', retryable => true, retry_after => '0');
SELECT held FROM pgqrs_dequeue('flow', batch_size => 5) d, LATERAL (SELECT d.lease AS held) l
	WHERE message_id = :retried \gset
SELECT pgqrs_complete_run(:retried, :held);
SELECT pgqrs_trigger('flow') AS failed \gset
SELECT held FROM pgqrs_dequeue('flow') d, LATERAL (SELECT d.lease AS held) l WHERE message_id = :failed \gset
SELECT pgqrs_step_fail(:failed, :held, 'a', '{}', retry_after => '0');
SELECT held FROM pgqrs_dequeue('flow') d, LATERAL (SELECT d.lease AS held) l WHERE message_id = :failed \gset
SELECT pgqrs_step_fail(:failed, :held, 'a', '{}', retryable => false);
SELECT pgqrs_cancel_run(pgqrs_trigger('flow'));
SELECT pgqrs_trigger('flow'), pgqrs_trigger('flow', delay => '1 hour');
SELECT pgqrs_signal(:woken, 'go');

CREATE VIEW pg_temp.counted AS
SELECT count(*) FILTER (WHERE status = 'QUEUED') AS queued, count(*) FILTER (WHERE status = 'RUNNING') AS running,
	count(*) FILTER (WHERE status = 'PAUSED') AS paused, count(*) FILTER (WHERE status = 'SUCCESS') AS success,
	count(*) FILTER (WHERE status = 'ERROR') AS error, count(*) FILTER (WHERE status = 'CANCELLED') AS cancelled
	FROM public.pgqrs_runs WHERE workflow = 'flow';
SELECT cmp_ok(least(queued, running, paused, success, error, cancelled), '>', 0::bigint,
	'the test has runs in every status') FROM pg_temp.counted;
SELECT results_eq($$SELECT queued, running, paused, success, error, cancelled FROM pgqrs_workflow_stats
	WHERE workflow = 'flow'$$,
	'SELECT * FROM pg_temp.counted', 'pgqrs_workflow_stats counts runs by status');
SELECT results_eq($$SELECT success_rate, retries, drained FROM pgqrs_workflow_stats WHERE workflow = 'flow'$$,
	'VALUES (0.5, 3::bigint, false)',
		'pgqrs_workflow_stats counts retries and ended runs, and says that the workflow is not drained');

-- The newest 100 that ended, whatever their ids.
INSERT INTO pgqrs_workflow_runs (run_id, workflow_id, created_at, started_at, completed_at, attempt, failures, status,
	priority)
	SELECT 1000 - n, :idle, now(), CASE WHEN n % 7 > 0 THEN now() - n * n * interval '1 s' END,
		now() + n * interval '1 s', 1, 0,
		CASE WHEN n % 3 = 0 THEN 'ERROR' ELSE 'SUCCESS' END::pgqrs_run_status, 0
	FROM generate_series(1, 250) AS n;
INSERT INTO pgqrs_archive (message_id, queue_id, archived_at, visible_after, enqueued_at, run_id, attempt, failures,
	outcome, priority)
	SELECT run_id, workflow_id, completed_at, now(), now() - interval '1 day', run_id, 1, 0, CASE status
		WHEN 'ERROR' THEN 'DEAD' ELSE 'DONE' END::pgqrs_outcome, 0
	FROM pgqrs_workflow_runs WHERE workflow_id = :idle;
CREATE VIEW pg_temp.newest AS SELECT * FROM public.pgqrs_runs WHERE workflow = 'idle' ORDER BY completed_at DESC
	LIMIT 100;
SELECT results_eq($$SELECT success, error, cancelled, success_rate, since, date_trunc('milliseconds', avg_duration),
		date_trunc('milliseconds', p50_duration), date_trunc('milliseconds', p95_duration), drained
			FROM pgqrs_workflow_stats WHERE workflow = 'idle'$$,
	$$SELECT count(*) FILTER (WHERE status = 'SUCCESS'), count(*) FILTER (WHERE status = 'ERROR'), 0::bigint,
		round(avg((status = 'SUCCESS')::int), 4), min(completed_at), date_trunc('milliseconds',
			avg(completed_at - started_at)),
		date_trunc('milliseconds', percentile_cont(0.5) WITHIN GROUP (ORDER BY completed_at - started_at)),
		date_trunc('milliseconds', percentile_cont(0.95) WITHIN GROUP (ORDER BY completed_at - started_at)), true
	FROM pg_temp.newest$$, 'pgqrs_workflow_stats sums up the 100 runs that ended last, whatever their ids');

-- Messages that live and that ended.
SELECT pgqrs_enqueue_batch('plain', array_agg('1'::jsonb)) FROM generate_series(1, 30);
SELECT pgqrs_archive_messages(array_agg(message_id), array_agg(lease)) FROM pgqrs_dequeue('plain', batch_size => 12);
SELECT pgqrs_nack_message(message_id, lease) FROM pgqrs_dequeue('plain', batch_size => 3);
SELECT results_eq($$SELECT ready, in_flight, dead FROM pgqrs_queue_stats WHERE queue = 'plain'$$,
	'VALUES (15::bigint, 0::bigint, 3::bigint)', 'pgqrs_queue_stats counts messages');

-- Where vacuum has been the rows of what is due are not looked at: as exact.
VACUUM pgqrs_messages, pgqrs_archive;
SELECT results_eq('SELECT ready, in_flight, dead FROM pgqrs_queue_stats WHERE queue = ''plain''',
	'VALUES (15::bigint, 0::bigint, 3::bigint)', 'after a vacuum the counts are as exact');
SELECT pgqrs_archive_message(message_id, lease) FROM pgqrs_dequeue('plain');
SELECT pgqrs_enqueue('plain', '1'), message_id AS held FROM pgqrs_dequeue('plain') \gset
SELECT results_eq('SELECT ready, in_flight FROM pgqrs_queue_stats WHERE queue = ''plain''',
	'VALUES (14::bigint, 1::bigint)', 'the counts follow changes after a vacuum');
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT results_eq('SELECT ready, in_flight, dead FROM pgqrs_queue_stats WHERE queue = ''plain''',
	'VALUES (14::bigint, 1::bigint, 3::bigint)', 'at SERIALIZABLE the counts are the same');
COMMIT;

-- More dead letters than are counted.
INSERT INTO pgqrs_archive (message_id, queue_id, archived_at, visible_after, enqueued_at, attempt, failures, outcome,
	priority)
	SELECT 10000 + n, :plain, pgqrs_now() - (3000 - n) * interval '1 ms', now(),
		pgqrs_now() - (3000 - n) * interval '1 ms', 1, 0, 'DEAD', 0
	FROM generate_series(1, 3000) AS n;
SELECT is(dead, 1000::bigint, 'dead letters are counted up to 1,000') FROM pgqrs_queue_stats WHERE queue = 'plain';

-- Workers, and the workflows that they serve.
CREATE ROLE stranger;
SELECT pgqrs_register_worker('w', '{flow,plain}', max_concurrent => 5, version => '2') AS w,
	pgqrs_register_worker('all', '{*}') AS other \gset
SELECT pgqrs_suspend_worker(:other);
SELECT pgqrs_dequeue('plain', :w, 2), pgqrs_dequeue('plain', :w, 1, visibility_timeout => '1 us');
SELECT is(string_agg(concat_ws(' ', worker, status, queues, in_flight, expired, max_concurrent, version), ', '
	ORDER BY worker_id),
	'w READY {flow,plain} 2 1 5 2, all SUSPENDED {*} 0 0',
		'pgqrs_worker_stats shows each worker with its leases, live and expired') FROM pgqrs_worker_stats;
SELECT is(string_agg(workflow || ' ' || live_workers, ', ' ORDER BY workflow), 'flow 2, idle 0',
	'pgqrs_workflow_stats counts live workers, and this session, which claimed without one')
	FROM pgqrs_workflow_stats;
SELECT pgqrs_grant('flow', 'stranger', 'work');
SET ROLE stranger;
SELECT results_eq($$SELECT worker, version, status, in_flight, jsonb_strip_nulls(to_jsonb(w))
		- '{worker_id,worker,version,status,in_flight,heartbeat_at}'::text[]
		FROM pgqrs_worker_stats AS w ORDER BY worker_id$$,
	$$VALUES ('w', '2', 'READY', 0::bigint, '{}'::jsonb), ('all', NULL, 'SUSPENDED', 0, '{}')$$,
	'of other roles'' workers that serve its queues a role sees the name, version, state and heartbeat, no more');
SELECT is(string_agg(workflow, ', '), 'flow', 'a role does not see workflows on which it has no privilege')
	FROM pgqrs_workflow_stats;
SELECT results_eq(format('SELECT (pgqrs_count_messages(%s)).ready, (pgqrs_count_runs(%s)).success', :plain, :idle),
	'VALUES (NULL::bigint, NULL::bigint)', 'a role gets no counts of queues on which it has no privilege');
SELECT pgqrs_register_worker('mine', '{flow}');
SELECT is(string_agg(worker || ' ' || owner, ', '), 'mine stranger', 'a role sees its own worker')
	FROM pgqrs_worker_stats;
RESET ROLE;
SELECT is(live_workers, 3, 'a worker of another role counts as live for the workflow') FROM pgqrs_workflow_stats
	WHERE workflow = 'flow';
SELECT pgqrs_revoke('flow', 'stranger', 'work');
SELECT is(live_workers, 2, 'a worker whose role has lost its privilege does not count as live')
	FROM pgqrs_workflow_stats WHERE workflow = 'flow';

-- F23: what is starved by higher priorities is what the statistics call oldest.
SELECT pgqrs_create_queue('starving') AS starving, pgqrs_enqueue('starving', '"low"') AS low \gset
UPDATE pgqrs_messages SET visible_after = visible_after - interval '1 hour' WHERE message_id = :low;
SELECT count(pgqrs_enqueue('starving', '"high"', priority => 1)) AS sent FROM generate_series(1, 3) \gset
SELECT is(string_agg(payload #>> '{}', ' '), 'high high', 'a claim returns messages of the higher priority first')
	FROM pgqrs_dequeue('starving', batch_size => 2);
SELECT is(ready, 2::bigint, 'two messages are ready after the claim') FROM pgqrs_queue_stats WHERE queue = 'starving';
SELECT cmp_ok(oldest_ready_age, '>=', '1 hour', 'the age of the oldest ready message is that of the starved one')
	FROM pgqrs_queue_stats WHERE queue = 'starving';

DROP ROLE stranger;
SELECT * FROM finish();
