-- Loads a history straight into the tables, as years of work would have left
-- it, for tests of what depends on its size.
--
-- Variables: archived, how many messages have ended, a fifth of them runs; live,
-- how many have not.  40 queues, half of them of workflows, the first of which
-- has half of the runs.  One of 100 ended badly, one of 200 was cancelled.  The
-- last week, evenly; ids and places in the tables follow time.  Half of the
-- runs are from one region, ten from each customer, and 1 % of all but the last
-- quarter from a campaign.
\set ON_ERROR_STOP on
\set QUIET on
SET client_min_messages = error;

SELECT count(pgqrs_create_queue('queue.' || n)) FROM generate_series(1, 20) AS n \g /dev/null
SELECT count(pgqrs_create_workflow('flow.' || n)) FROM generate_series(1, 20) AS n \g /dev/null
SELECT count(pgqrs_register_worker('worker ' || n, ARRAY['queue.' || n, 'flow.' || n])) FROM generate_series(1, 20) AS n \g /dev/null
SELECT count(pgqrs_schedule('daily ' || n, '@daily', 'flow.' || n)) FROM generate_series(1, 20) AS n \g /dev/null

-- How the n-th message ended, and when; queues by their number.
CREATE TEMP VIEW ended AS
SELECT n AS id, n % 5 = 0 AS is_run,
	CASE WHEN n % 5 <> 0 THEN 'queue.' || 1 + n % 20 WHEN n % 10 = 0 THEN 'flow.1' ELSE 'flow.' || 1 + n / 10 % 20 END AS name,
	CASE WHEN n % 100 < 2 AND n % 200 < 100 THEN 'DEAD' WHEN n % 200 = 150 THEN 'CANCELLED' ELSE 'DONE' END::pgqrs_outcome AS outcome,
	pgqrs_now() - interval '7 days' * ((:archived - n)::float8 / :archived) AS at,
	interval '1 ms' * (100 + n * 7919 % 10000) AS duration
FROM generate_series(1, :archived::bigint) AS n;

INSERT INTO pgqrs_archive (message_id, queue_id, archived_at, visible_after, enqueued_at, dequeued_at,
	lease, run_id, attempt, failures, outcome, priority, payload, last_error)
SELECT id, queue_id, at, at + interval '30 s', at - 2 * duration, at - duration, 1, CASE WHEN is_run THEN id END, 1, 0, outcome, 0,
	CASE WHEN NOT is_run THEN '{"to": "somebody@example.com"}'::jsonb END, CASE WHEN outcome = 'DEAD' THEN '{"type": "smtp"}'::jsonb END
FROM ended JOIN pgqrs_queues USING (name) ORDER BY id;

INSERT INTO pgqrs_workflow_runs (run_id, workflow_id, created_at, started_at, completed_at, cancel_requested_at, lease,
	attempt, failures, status, priority, input, output, error, tags)
SELECT id, queue_id, at - 2 * duration, at - duration, at, CASE WHEN outcome = 'CANCELLED' THEN at END, 1, 1, (outcome = 'DEAD')::int,
	CASE outcome WHEN 'DONE' THEN 'SUCCESS' WHEN 'DEAD' THEN 'ERROR' ELSE 'CANCELLED' END::pgqrs_run_status, 0,
	jsonb_build_object('order', id), CASE outcome WHEN 'DONE' THEN '{"sent": true}'::jsonb END, CASE outcome WHEN 'DEAD' THEN '{"type": "smtp"}'::jsonb END,
	CASE WHEN id % 10 = 0 THEN '{"region": "eu"}'::jsonb END || CASE WHEN id % 20 = 0 THEN jsonb_build_object('customer', id / 200) ELSE '{}' END
		|| CASE WHEN id % 500 = 0 AND id <= :archived * 0.75 THEN '{"campaign": "spring"}'::jsonb ELSE '{}' END
FROM ended JOIN pgqrs_queues USING (name) WHERE is_run ORDER BY id;

INSERT INTO pgqrs_workflow_steps (run_id, started_at, completed_at, lease, attempt, failures, kind, status, step_id, output)
SELECT id, at - duration, at, 1, 1, 0, 'FUNCTION', 'SUCCESS', step, '{"sent": true}'
FROM ended, unnest('{look up,send}'::text[]) AS step
WHERE is_run AND outcome = 'DONE' AND id > :archived - 500000 ORDER BY id;

-- What is live: ready, delayed and held messages, queued, running and parked
-- runs, by the last digit of the number.
CREATE TEMP VIEW live AS
SELECT l.*, l.kind IN ('held', 'running') AS held, l.kind IN ('queued', 'running', 'parked') AS is_run, q.queue_id
FROM (
	SELECT :archived + n AS id,
		CASE WHEN n % 10 < 5 THEN 'ready' WHEN n % 100 = 5 THEN 'held' WHEN n % 10 = 5 THEN 'delayed'
			WHEN n % 10 < 9 THEN 'queued' WHEN n % 100 = 9 THEN 'running' ELSE 'parked' END AS kind,
		pgqrs_now() - interval '1 ms' * (:live - n) AS at
	FROM generate_series(1, :live::bigint) AS n
) AS l JOIN pgqrs_queues AS q ON q.name = CASE l.kind WHEN 'ready' THEN 'queue.1' WHEN 'delayed' THEN 'queue.2'
	WHEN 'held' THEN 'queue.3' WHEN 'queued' THEN 'flow.1' WHEN 'running' THEN 'flow.3' ELSE 'flow.2' END;

INSERT INTO pgqrs_messages (message_id, queue_id, visible_after, enqueued_at, dequeued_at, lease, worker_id, run_id, attempt, failures,
	priority, waiting_for, payload)
SELECT id, l.queue_id, CASE WHEN kind IN ('ready', 'queued') THEN at WHEN held THEN pgqrs_now() + interval '1 hour' ELSE at + interval '1 day' END,
	at, CASE WHEN held THEN at END, CASE WHEN held THEN 1 END, CASE WHEN held THEN worker_id END,
	CASE WHEN is_run THEN id END, (held OR kind = 'parked')::int, 0, 0, CASE kind WHEN 'parked' THEN 'signal go' END,
	CASE WHEN NOT is_run THEN '{"to": "somebody@example.com"}'::jsonb END
FROM live AS l CROSS JOIN (SELECT worker_id FROM pgqrs_workers WHERE name = 'worker 3') AS w ORDER BY id;

INSERT INTO pgqrs_workflow_runs (run_id, workflow_id, created_at, started_at, paused_at, lease, worker_id, attempt, failures, status, priority,
	waiting_for, input)
SELECT id, l.queue_id, at, CASE WHEN kind <> 'queued' THEN at END, CASE kind WHEN 'parked' THEN at END, CASE WHEN kind <> 'queued' THEN 1 END,
	CASE WHEN held THEN worker_id END, (kind <> 'queued')::int, 0,
	CASE kind WHEN 'queued' THEN 'QUEUED' WHEN 'running' THEN 'RUNNING' ELSE 'PAUSED' END::pgqrs_run_status, 0,
	CASE kind WHEN 'parked' THEN 'signal go' END, jsonb_build_object('order', id)
FROM live AS l CROSS JOIN (SELECT worker_id FROM pgqrs_workers WHERE name = 'worker 3') AS w WHERE is_run ORDER BY id;

INSERT INTO pgqrs_workflow_steps (run_id, started_at, lease, attempt, failures, kind, status, step_id)
SELECT id, at, 1, 1, 0, 'SIGNAL', 'PAUSED', 'go' FROM live WHERE kind = 'parked' ORDER BY id;

SELECT setval('pgqrs_message_id_seq', :archived + :live) \g /dev/null
VACUUM (ANALYZE) pgqrs_archive, pgqrs_messages, pgqrs_workflow_runs, pgqrs_workflow_steps, pgqrs_queues, pgqrs_workflows, pgqrs_workers;
