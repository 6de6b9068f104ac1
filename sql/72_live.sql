-- Views of what is not done: live runs, signals that no step has consumed, all signals, and the
-- settings of queues and workflows.

-- The oldest live runs come first, found by the primary key of messages.  As in
-- pgqrs_runs, nothing is joined, and the id is that of the message, so that a
-- condition on it uses the key, too: the planner does not know of a LIMIT outside of the
-- security barrier, and a join would read all live runs first.  A subquery with a
-- limit is not pulled up into a join.
CREATE VIEW @extschema@.pgqrs_live_runs WITH (security_barrier) AS
	SELECT m.message_id AS run_id,
		@extschema@.pgqrs_queue_name(m.queue_id) COLLATE pg_catalog."default" AS workflow,
		r.status::pg_catalog.text AS status,
		CASE
			WHEN m.lease IS NOT NULL AND m.visible_after <= (SELECT @extschema@.pgqrs_now()) THEN 'expired'
			WHEN m.waiting_for = 'cancel' THEN 'cancel requested'
			WHEN m.lease IS NOT NULL THEN 'held'
			WHEN m.visible_after <= (SELECT @extschema@.pgqrs_now()) THEN 'ready'
			WHEN r.status = 'PAUSED' THEN 'parked'
			WHEN r.status = 'QUEUED' THEN 'delayed'
			ELSE 'retry'
		END AS state,
		r.waiting_for COLLATE pg_catalog."default" AS waiting_for,
		s.step_id COLLATE pg_catalog."default" AS step_id,
		s.kind::pg_catalog.text AS step_kind,
		CASE
			WHEN m.lease IS NOT NULL AND m.visible_after <= (SELECT @extschema@.pgqrs_now()) THEN m.visible_after
			WHEN m.waiting_for = 'cancel' THEN r.cancel_requested_at
			WHEN m.lease IS NOT NULL THEN m.dequeued_at
			WHEN m.visible_after <= (SELECT @extschema@.pgqrs_now()) THEN m.visible_after
			WHEN r.status = 'PAUSED' THEN r.paused_at
			WHEN r.status = 'QUEUED' THEN r.created_at
			ELSE m.dequeued_at
		END AS since,
		m.visible_after,
		(SELECT w.name FROM @extschema@.pgqrs_workers AS w WHERE w.worker_id = m.worker_id) COLLATE pg_catalog."default" AS worker,
		CASE WHEN m.lease IS NOT NULL THEN m.visible_after END AS lease_end,
		m.failures AS crashes,
		r.failures,
		r.attempt,
		r.created_at,
		r.deadline_at,
		r.parent_run_id,
		r.tags,
		r.undo_cause::pg_catalog.text AS undo_cause
	FROM @extschema@.pgqrs_messages AS m
		CROSS JOIN LATERAL (
			SELECT r.* FROM @extschema@.pgqrs_workflow_runs AS r WHERE r.run_id = m.run_id LIMIT 1
		) AS r
		LEFT JOIN LATERAL (
			SELECT s.step_id, s.kind FROM @extschema@.pgqrs_workflow_steps AS s
			WHERE s.run_id = m.run_id AND s.status IN ('PENDING', 'RUNNING', 'PAUSED')
			ORDER BY s.started_at DESC, s.step_id DESC LIMIT 1
		) AS s ON true
	WHERE m.run_id IS NOT NULL AND @extschema@.pgqrs_queue_name(m.queue_id) IS NOT NULL
	ORDER BY m.message_id;
COMMENT ON VIEW @extschema@.pgqrs_live_runs IS 'runs that have not ended, the oldest first, and what each is doing; the cost depends on live messages, not on ended ones';
COMMENT ON COLUMN @extschema@.pgqrs_live_runs.run_id IS 'also the id of the run''s message';
COMMENT ON COLUMN @extschema@.pgqrs_live_runs.workflow IS 'the workflow of the run';
COMMENT ON COLUMN @extschema@.pgqrs_live_runs.status IS 'QUEUED, RUNNING or PAUSED';
COMMENT ON COLUMN @extschema@.pgqrs_live_runs.state IS 'ready: claimable; delayed: its first claim is not due; held: under a lease; cancel requested: held, and its worker is asked to stop; expired: its lease ran out, and it is claimable; retry: its next try is not due; parked: it waits, see waiting_for';
COMMENT ON COLUMN @extschema@.pgqrs_live_runs.waiting_for IS 'what the run waits for while it is PAUSED';
COMMENT ON COLUMN @extschema@.pgqrs_live_runs.step_id IS 'the step that was begun last and has not ended; NULL without one';
COMMENT ON COLUMN @extschema@.pgqrs_live_runs.step_kind IS 'the kind of that step';
COMMENT ON COLUMN @extschema@.pgqrs_live_runs.since IS 'ready, expired: when the run became claimable; delayed: the trigger; held, retry: the last claim; cancel requested: the request; parked: the begin of the wait';
COMMENT ON COLUMN @extschema@.pgqrs_live_runs.visible_after IS 'when work continues: the end of the lease while a worker holds it';
COMMENT ON COLUMN @extschema@.pgqrs_live_runs.worker IS 'the name of the worker that holds the run; NULL for a claim without a worker';
COMMENT ON COLUMN @extschema@.pgqrs_live_runs.lease_end IS 'the end of the lease; NULL if the run is not held';
COMMENT ON COLUMN @extschema@.pgqrs_live_runs.crashes IS 'leases that expired since the last success of a step or the last wait; limited by max_crashes';
COMMENT ON COLUMN @extschema@.pgqrs_live_runs.failures IS 'failures that pgqrs_fail_run() reported';
COMMENT ON COLUMN @extschema@.pgqrs_live_runs.attempt IS 'the number of claims';
COMMENT ON COLUMN @extschema@.pgqrs_live_runs.created_at IS 'when the run was triggered';
COMMENT ON COLUMN @extschema@.pgqrs_live_runs.deadline_at IS 'when the run ends in ERROR, unless it has ended before';
COMMENT ON COLUMN @extschema@.pgqrs_live_runs.parent_run_id IS 'the run that started this run as a child';
COMMENT ON COLUMN @extschema@.pgqrs_live_runs.tags IS 'of the trigger';
COMMENT ON COLUMN @extschema@.pgqrs_live_runs.undo_cause IS 'cancel or timeout: the run is delivered to be undone, or will be once its lease has ended; NULL: it was not asked to stop, or ends without an undo';

-- A resume that came before its pause is a step of kind PAUSE that was never begun.
CREATE VIEW @extschema@.pgqrs_signals WITH (security_barrier) AS
	SELECT g.signal_id,
		m.message_id AS run_id,
		@extschema@.pgqrs_queue_name(m.queue_id) COLLATE pg_catalog."default" AS workflow,
		g.name COLLATE pg_catalog."default" AS name,
		g.payload,
		g.headers,
		g.sent_at,
		(SELECT r.waiting_for FROM @extschema@.pgqrs_workflow_runs AS r WHERE r.run_id = m.run_id) COLLATE pg_catalog."default" AS waiting_for
	FROM @extschema@.pgqrs_messages AS m
		CROSS JOIN LATERAL (
			SELECT g.signal_id, g.name, g.payload, g.headers, g.sent_at
			FROM @extschema@.pgqrs_run_signals AS g
			WHERE g.run_id = m.run_id AND g.consumed_by IS NULL
			UNION ALL
			SELECT NULL, s.step_id, s.output, NULL, s.started_at
			FROM @extschema@.pgqrs_workflow_steps AS s
			WHERE s.run_id = m.run_id AND s.kind = 'PAUSE' AND s.attempt = 0
		) AS g
	WHERE m.run_id IS NOT NULL AND @extschema@.pgqrs_queue_name(m.queue_id) IS NOT NULL;
COMMENT ON VIEW @extschema@.pgqrs_signals IS 'signals of live runs that no step has consumed, and what pgqrs_resume_run() keeps for a pause that has not come';
COMMENT ON COLUMN @extschema@.pgqrs_signals.signal_id IS 'as pgqrs_signal() returned it; NULL: kept by pgqrs_resume_run()';
COMMENT ON COLUMN @extschema@.pgqrs_signals.run_id IS 'the run to which the signal was sent';
COMMENT ON COLUMN @extschema@.pgqrs_signals.workflow IS 'the workflow of that run';
COMMENT ON COLUMN @extschema@.pgqrs_signals.name IS 'the name of the signal; of a resume: the step id';
COMMENT ON COLUMN @extschema@.pgqrs_signals.payload IS 'of the signal; of a resume: the output of the pause';
COMMENT ON COLUMN @extschema@.pgqrs_signals.headers IS 'of the signal';
COMMENT ON COLUMN @extschema@.pgqrs_signals.sent_at IS 'the time of the call';
COMMENT ON COLUMN @extschema@.pgqrs_signals.waiting_for IS 'what the run waits for while it is PAUSED';

CREATE VIEW @extschema@.pgqrs_sent_signals WITH (security_barrier) AS
	SELECT g.signal_id,
		g.run_id,
		q.name COLLATE pg_catalog."default" AS workflow,
		g.name COLLATE pg_catalog."default" AS name,
		g.payload,
		g.headers,
		g.sent_at,
		g.consumed_by COLLATE pg_catalog."default" AS consumed_by
	FROM @extschema@.pgqrs_run_signals AS g
		JOIN @extschema@.pgqrs_workflow_runs AS r ON r.run_id = g.run_id
		JOIN @extschema@.pgqrs_queues AS q ON q.queue_id = r.workflow_id
	WHERE q.queue_id = ANY ((SELECT @extschema@.pgqrs_readable_queues())::pg_catalog.int8[]);
COMMENT ON VIEW @extschema@.pgqrs_sent_signals IS 'signals of runs, consumed ones and those of ended runs included';
COMMENT ON COLUMN @extschema@.pgqrs_sent_signals.signal_id IS 'as pgqrs_signal() returned it';
COMMENT ON COLUMN @extschema@.pgqrs_sent_signals.run_id IS 'the run to which the signal was sent';
COMMENT ON COLUMN @extschema@.pgqrs_sent_signals.workflow IS 'the workflow of that run';
COMMENT ON COLUMN @extschema@.pgqrs_sent_signals.name IS 'the name of the signal';
COMMENT ON COLUMN @extschema@.pgqrs_sent_signals.payload IS 'of the signal';
COMMENT ON COLUMN @extschema@.pgqrs_sent_signals.headers IS 'of the signal';
COMMENT ON COLUMN @extschema@.pgqrs_sent_signals.sent_at IS 'the time of the call';
COMMENT ON COLUMN @extschema@.pgqrs_sent_signals.consumed_by IS 'the step that consumed the signal; NULL: none has';

CREATE VIEW @extschema@.pgqrs_queues_list WITH (security_barrier) AS
	SELECT q.queue_id,
		q.name COLLATE pg_catalog."default" AS queue,
		q.is_workflow,
		q.visibility_timeout,
		q.max_attempts,
		q.max_in_flight,
		q.retention,
		q.dead_retention,
		q.paused_at,
		q.created_at
	FROM @extschema@.pgqrs_queues AS q
	WHERE q.deleted_at IS NULL AND q.queue_id = ANY ((SELECT @extschema@.pgqrs_readable_queues())::pg_catalog.int8[]);
COMMENT ON VIEW @extschema@.pgqrs_queues_list IS 'queues, those of workflows included, and their settings; pgqrs_alter_queue() changes them';
COMMENT ON COLUMN @extschema@.pgqrs_queues_list.queue_id IS 'of a workflow''s queue: the workflow''s id, too';
COMMENT ON COLUMN @extschema@.pgqrs_queues_list.queue IS 'the name';
COMMENT ON COLUMN @extschema@.pgqrs_queues_list.is_workflow IS 'whether this is the queue of the workflow of that name';
COMMENT ON COLUMN @extschema@.pgqrs_queues_list.visibility_timeout IS 'the length of a lease';
COMMENT ON COLUMN @extschema@.pgqrs_queues_list.max_attempts IS 'failures after which a message becomes a dead letter; of a workflow''s queue: the workflow''s max_crashes';
COMMENT ON COLUMN @extschema@.pgqrs_queues_list.max_in_flight IS 'the limit of live leases; NULL: no limit';
COMMENT ON COLUMN @extschema@.pgqrs_queues_list.retention IS 'how long ended messages are kept';
COMMENT ON COLUMN @extschema@.pgqrs_queues_list.dead_retention IS 'how long dead letters are kept';
COMMENT ON COLUMN @extschema@.pgqrs_queues_list.paused_at IS 'since when the queue delivers nothing; NULL unless it is paused';
COMMENT ON COLUMN @extschema@.pgqrs_queues_list.created_at IS 'when the queue was created';

CREATE VIEW @extschema@.pgqrs_workflows_list WITH (security_barrier) AS
	SELECT w.workflow_id,
		w.name COLLATE pg_catalog."default" AS workflow,
		w.owner::pg_catalog.text AS owner,
		w.max_attempts,
		w.initial_interval,
		w.backoff_coefficient,
		w.max_interval,
		w.jitter,
		w.non_retryable,
		w.timeout,
		q.visibility_timeout,
		q.max_attempts AS max_crashes,
		w.key_scope::pg_catalog.text AS key_scope,
		w.outbox_queue COLLATE pg_catalog."default" AS outbox_queue,
		q.on_cancel::pg_catalog.text AS on_cancel,
		q.max_in_flight,
		q.retention,
		q.dead_retention,
		q.paused_at,
		w.created_at
	FROM @extschema@.pgqrs_workflows AS w
		JOIN @extschema@.pgqrs_queues AS q ON q.queue_id = w.workflow_id
	WHERE q.deleted_at IS NULL AND q.queue_id = ANY ((SELECT @extschema@.pgqrs_readable_queues())::pg_catalog.int8[]);
COMMENT ON VIEW @extschema@.pgqrs_workflows_list IS 'workflows and their settings; pgqrs_alter_workflow() and, for those of the queue, pgqrs_alter_queue() change them';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.workflow_id IS 'also the id of the workflow''s queue';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.workflow IS 'the name';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.owner IS 'the role that created the workflow';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.max_attempts IS 'failures after which a step or run fails for good; -1: no limit';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.initial_interval IS 'the delay of the first retry';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.backoff_coefficient IS 'the factor from each delay to the next';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.max_interval IS 'the limit of delays';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.jitter IS 'a delay is multiplied by a random factor of 1 - jitter to 1 + jitter';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.non_retryable IS 'errors whose type begins so are not retried';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.timeout IS 'from the earliest start of a run to its deadline; NULL: none';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.visibility_timeout IS 'the length of a lease';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.max_crashes IS 'leases that expire without progress after which a run ends';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.key_scope IS 'an idempotency key holds while its run is kept (retained) or while it has not ended (active)';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.outbox_queue IS 'the queue to which each run that ends sends a CloudEvent; NULL: none';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.on_cancel IS 'end: a request to stop ends a run; deliver: it delivers a run that was claimed before once more, to be undone';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.max_in_flight IS 'the limit of live leases; NULL: no limit';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.retention IS 'how long runs that succeeded or were cancelled are kept';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.dead_retention IS 'how long runs in ERROR are kept';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.paused_at IS 'since when the workflow''s queue delivers nothing; NULL unless it is paused';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.created_at IS 'when the workflow was created';
