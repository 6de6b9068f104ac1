-- From here on the script has expressions.  Roles that may create in the target
-- schema must not be able to supply the operators or functions in them, so the
-- search path is empty: operators are pg_catalog's, and own objects are qualified.
-- Qualification alone does not help a call: arguments have exactly the declared
-- types, so that an overload in the same schema never matches better.
SET LOCAL search_path = '';

-- Views: the readable part of the tables.  Each shows a role the rows of the
-- queues and workflows that it may read, views of figures those that it may
-- monitor, by way of pgqrs_queues, whose rows are few: pgqrs_readable_queues() is
-- called once per query, and a condition on an id still uses the index.
-- security_barrier: no function in
-- a reader's condition gets to see other rows.  Leases are secrets between
-- pgqrs and their holders, so no view shows them.
--
-- Text has the database's collation, so that it compares with a user's text.
--
-- Like any query, a view shows the database as of the query's snapshot; the
-- functions show the newest committed state.

CREATE FUNCTION @extschema@.pgqrs_readable_queues() RETURNS bigint[]
LANGUAGE c STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_readable_queues';
COMMENT ON FUNCTION @extschema@.pgqrs_readable_queues() IS
'The ids of the queues and workflows that the current role may read. Needs read.';

CREATE FUNCTION @extschema@.pgqrs_may_monitor(queue_id bigint) RETURNS boolean
LANGUAGE c STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_may_monitor';
COMMENT ON FUNCTION @extschema@.pgqrs_may_monitor(bigint) IS
'Whether the current role sees the name and figures of a queue or workflow: has monitor or another privilege on it; false if it does not exist. Needs monitor. Errors: 22004.';

CREATE FUNCTION @extschema@.pgqrs_queue_name(queue_id bigint) RETURNS text
LANGUAGE c STABLE PARALLEL UNSAFE CALLED ON NULL INPUT COST 1000
AS 'MODULE_PATHNAME', 'sql_queue_name';
COMMENT ON FUNCTION @extschema@.pgqrs_queue_name(bigint) IS
'The name of a queue or workflow; NULL if it does not exist or the current role may not read it. Needs read. Errors: 22004.';

-- A row that was written by hand may have infinite instants; only this function
-- subtracts them.
CREATE FUNCTION @extschema@.pgqrs_elapsed(since timestamptz, until timestamptz) RETURNS interval
LANGUAGE c IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_elapsed';
COMMENT ON FUNCTION @extschema@.pgqrs_elapsed(timestamptz, timestamptz) IS
'until - since; NULL if one of them is NULL or infinity. Errors: none.';

-- A function, since a subquery on each table costs its estimated rows.
CREATE FUNCTION @extschema@.pgqrs_run_crashes(run_id bigint) RETURNS integer
LANGUAGE c STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_run_crashes';
COMMENT ON FUNCTION @extschema@.pgqrs_run_crashes(bigint) IS
'The crashes of a run; NULL if the run does not exist or the current role may not read its workflow. Needs read. Errors: 22004.';

-- ORDER BY, and the absence of joins, let an index find the newest runs, also
-- those of one workflow or status.  Inside of a security barrier the planner does
-- not know of a LIMIT outside, and would collect and sort all matching runs.  The
-- estimated cost of the name's function dominates, so that all paths through many
-- runs look alike and the ordered one wins.
CREATE VIEW @extschema@.pgqrs_runs WITH (security_barrier) AS
	SELECT r.run_id,
		@extschema@.pgqrs_queue_name(r.workflow_id) COLLATE pg_catalog."default" AS workflow,
		r.status::pg_catalog.text AS status,
		r.waiting_for COLLATE pg_catalog."default" AS waiting_for,
		(SELECT m.visible_after FROM @extschema@.pgqrs_messages AS m WHERE m.message_id = r.run_id) AS visible_after,
		r.attempt,
		r.failures,
		@extschema@.pgqrs_run_crashes(r.run_id) AS crashes,
		r.priority::pg_catalog.int4 AS priority,
		r.input,
		r.output,
		r.error,
		r.progress,
		r.tags,
		r.headers,
		r.idempotency_key COLLATE pg_catalog."default" AS idempotency_key,
		r.parent_run_id,
		r.parent_step_id COLLATE pg_catalog."default" AS parent_step_id,
		r.rerun_of,
		r.schedule_slot,
		(SELECT w.name FROM @extschema@.pgqrs_workers AS w WHERE w.worker_id = r.worker_id) COLLATE pg_catalog."default" AS worker,
		r.worker_version,
		r.created_at,
		r.started_at,
		r.paused_at,
		r.completed_at,
		r.deadline_at,
		r.cancel_requested_at,
		r.cancel_reason,
		r.deleted_at,
		r.delete_reason
	FROM @extschema@.pgqrs_workflow_runs AS r
	WHERE @extschema@.pgqrs_queue_name(r.workflow_id) IS NOT NULL
	ORDER BY r.run_id DESC;
COMMENT ON VIEW @extschema@.pgqrs_runs IS 'workflow runs, ended and deleted ones included; the columns of the type pgqrs_run';
COMMENT ON COLUMN @extschema@.pgqrs_runs.run_id IS 'also the id of the run''s message';
COMMENT ON COLUMN @extschema@.pgqrs_runs.workflow IS 'the workflow of the run';
COMMENT ON COLUMN @extschema@.pgqrs_runs.status IS 'QUEUED, RUNNING (also while it waits for a retry or for the next worker), PAUSED, SUCCESS, ERROR or CANCELLED';
COMMENT ON COLUMN @extschema@.pgqrs_runs.waiting_for IS 'what the run waits for while it is PAUSED';
COMMENT ON COLUMN @extschema@.pgqrs_runs.visible_after IS 'when work continues: the end of the lease while a worker holds it; NULL once the run has ended';
COMMENT ON COLUMN @extschema@.pgqrs_runs.attempt IS 'the number of claims';
COMMENT ON COLUMN @extschema@.pgqrs_runs.failures IS 'failures that pgqrs_fail_run() reported';
COMMENT ON COLUMN @extschema@.pgqrs_runs.crashes IS 'leases that expired since the last success of a step or the last wait; limited by max_crashes';
COMMENT ON COLUMN @extschema@.pgqrs_runs.priority IS '-100 to 100, high first';
COMMENT ON COLUMN @extschema@.pgqrs_runs.input IS 'the input of the trigger';
COMMENT ON COLUMN @extschema@.pgqrs_runs.output IS 'the output, JSON null if it has none; NULL unless status is SUCCESS';
COMMENT ON COLUMN @extschema@.pgqrs_runs.error IS 'the error of a run in ERROR';
COMMENT ON COLUMN @extschema@.pgqrs_runs.progress IS 'the last value of pgqrs_set_progress()';
COMMENT ON COLUMN @extschema@.pgqrs_runs.tags IS 'of the trigger';
COMMENT ON COLUMN @extschema@.pgqrs_runs.headers IS 'of the trigger; claims deliver them';
COMMENT ON COLUMN @extschema@.pgqrs_runs.idempotency_key IS 'of the trigger';
COMMENT ON COLUMN @extschema@.pgqrs_runs.parent_run_id IS 'the run that started this run as a child';
COMMENT ON COLUMN @extschema@.pgqrs_runs.parent_step_id IS 'the step of that run';
COMMENT ON COLUMN @extschema@.pgqrs_runs.rerun_of IS 'the run of which this run is a rerun';
COMMENT ON COLUMN @extschema@.pgqrs_runs.schedule_slot IS 'the slot of the schedule that triggered the run';
COMMENT ON COLUMN @extschema@.pgqrs_runs.worker IS 'the name of the worker that claimed the run last';
COMMENT ON COLUMN @extschema@.pgqrs_runs.worker_version IS 'the version with which that worker registered';
COMMENT ON COLUMN @extschema@.pgqrs_runs.created_at IS 'when the run was triggered';
COMMENT ON COLUMN @extschema@.pgqrs_runs.started_at IS 'when the run was claimed first';
COMMENT ON COLUMN @extschema@.pgqrs_runs.paused_at IS 'since when a PAUSED run waits';
COMMENT ON COLUMN @extschema@.pgqrs_runs.completed_at IS 'when the run ended; NULL before';
COMMENT ON COLUMN @extschema@.pgqrs_runs.deadline_at IS 'when the run ends in ERROR, unless it has ended before';
COMMENT ON COLUMN @extschema@.pgqrs_runs.cancel_requested_at IS 'when it was asked to stop: by a cancel, or by its deadline if it is undone then';
COMMENT ON COLUMN @extschema@.pgqrs_runs.cancel_reason IS 'the reason given with the cancel';
COMMENT ON COLUMN @extschema@.pgqrs_runs.deleted_at IS 'when the run was deleted; NULL unless it was';
COMMENT ON COLUMN @extschema@.pgqrs_runs.delete_reason IS 'the reason given with the deletion';

CREATE VIEW @extschema@.pgqrs_steps WITH (security_barrier) AS
	SELECT s.run_id,
		q.name COLLATE pg_catalog."default" AS workflow,
		s.step_id COLLATE pg_catalog."default" AS step_id,
		s.kind::pg_catalog.text AS kind,
		s.status::pg_catalog.text AS status,
		s.attempt,
		s.failures,
		s.input,
		s.output,
		s.error,
		s.history,
		s.reason,
		s.started_at,
		s.completed_at,
		s.undo IS NOT NULL AS undo
	FROM @extschema@.pgqrs_workflow_steps AS s
		JOIN @extschema@.pgqrs_workflow_runs AS r ON r.run_id = s.run_id
		JOIN @extschema@.pgqrs_queues AS q ON q.queue_id = r.workflow_id
	WHERE q.queue_id = ANY ((SELECT @extschema@.pgqrs_readable_queues())::pg_catalog.int8[]);
COMMENT ON VIEW @extschema@.pgqrs_steps IS 'steps of workflow runs';
COMMENT ON COLUMN @extschema@.pgqrs_steps.run_id IS 'the run of the step';
COMMENT ON COLUMN @extschema@.pgqrs_steps.workflow IS 'the workflow of that run';
COMMENT ON COLUMN @extschema@.pgqrs_steps.step_id IS 'given by the worker, unique within the run';
COMMENT ON COLUMN @extschema@.pgqrs_steps.kind IS 'FUNCTION, SLEEP, SIGNAL, CHILD or PAUSE';
COMMENT ON COLUMN @extschema@.pgqrs_steps.status IS 'PENDING (waits for a retry), RUNNING, PAUSED, SUCCESS or ERROR';
COMMENT ON COLUMN @extschema@.pgqrs_steps.attempt IS 'the number of begins';
COMMENT ON COLUMN @extschema@.pgqrs_steps.failures IS 'the number of failures';
COMMENT ON COLUMN @extschema@.pgqrs_steps.input IS 'the input of the last begin';
COMMENT ON COLUMN @extschema@.pgqrs_steps.output IS 'the output, JSON null if it has none; NULL unless status is SUCCESS';
COMMENT ON COLUMN @extschema@.pgqrs_steps.error IS 'the error of the last failure; NULL once the step was begun again or succeeded';
COMMENT ON COLUMN @extschema@.pgqrs_steps.history IS 'the last ten failures: [{"attempt", "at", "error"}]';
COMMENT ON COLUMN @extschema@.pgqrs_steps.reason IS 'why a PAUSE step waits';
COMMENT ON COLUMN @extschema@.pgqrs_steps.started_at IS 'when the step was begun first';
COMMENT ON COLUMN @extschema@.pgqrs_steps.completed_at IS 'when the step ended in SUCCESS or ERROR';
COMMENT ON COLUMN @extschema@.pgqrs_steps.undo IS 'whether the undo of the run recorded the step';

CREATE VIEW @extschema@.pgqrs_run_parents WITH (security_barrier) AS
	SELECT r.run_id,
		r.parent_run_id,
		r.parent_step_id COLLATE pg_catalog."default" AS parent_step_id,
		r.on_parent_end::pg_catalog.text AS on_parent_end
	FROM @extschema@.pgqrs_workflow_runs AS r
	WHERE r.parent_run_id IS NOT NULL AND @extschema@.pgqrs_queue_name(r.workflow_id) IS NOT NULL
	UNION ALL
	SELECT r.run_id,
		p.parent_run_id,
		p.parent_step_id COLLATE pg_catalog."default",
		p.on_parent_end::pg_catalog.text
	FROM @extschema@.pgqrs_workflow_run_parents AS p
		JOIN @extschema@.pgqrs_workflow_runs AS r ON r.run_id = p.run_id
	WHERE @extschema@.pgqrs_queue_name(r.workflow_id) IS NOT NULL;
COMMENT ON VIEW @extschema@.pgqrs_run_parents IS 'parents of workflow runs; a run that several parents started by its key has several';
COMMENT ON COLUMN @extschema@.pgqrs_run_parents.run_id IS 'the child';
COMMENT ON COLUMN @extschema@.pgqrs_run_parents.parent_run_id IS 'a run that started the child';
COMMENT ON COLUMN @extschema@.pgqrs_run_parents.parent_step_id IS 'the step of that run';
COMMENT ON COLUMN @extschema@.pgqrs_run_parents.on_parent_end IS 'cancel or abandon: what happens to the child when that run ends in ERROR or CANCELLED';

CREATE VIEW @extschema@.pgqrs_events WITH (security_barrier) AS
	SELECT e.event_id,
		e.run_id,
		q.name COLLATE pg_catalog."default" AS workflow,
		e.event,
		e.data,
		e.at
	FROM @extschema@.pgqrs_run_events AS e
		JOIN @extschema@.pgqrs_workflow_runs AS r ON r.run_id = e.run_id
		JOIN @extschema@.pgqrs_queues AS q ON q.queue_id = r.workflow_id
	WHERE q.queue_id = ANY ((SELECT @extschema@.pgqrs_readable_queues())::pg_catalog.int8[]);
COMMENT ON VIEW @extschema@.pgqrs_events IS 'events of workflow runs while pgqrs.audit was on; event_id orders the events of a run';
COMMENT ON COLUMN @extschema@.pgqrs_events.event_id IS 'ascending for the events of a run';
COMMENT ON COLUMN @extschema@.pgqrs_events.run_id IS 'the run of the event';
COMMENT ON COLUMN @extschema@.pgqrs_events.workflow IS 'the workflow of that run';
COMMENT ON COLUMN @extschema@.pgqrs_events.event IS 'created, claimed, released, rescheduled, step_begun, step_done, step_failed, child_started, paused, resumed, resume_dropped, signalled, retried, cancel_requested, cancelled, finished, dead, replayed, rerun or deleted';
COMMENT ON COLUMN @extschema@.pgqrs_events.data IS 'the role that caused the event, and its details: step_id, attempt, failures, worker_id, error, reason and so on';
COMMENT ON COLUMN @extschema@.pgqrs_events.at IS 'when the event happened, by the server''s clock';

-- A limit whose value the planner does not know makes it prefer the index's order
-- to sorting all rows of a queue.
CREATE VIEW @extschema@.pgqrs_dead_letters WITH (security_barrier) AS
	SELECT a.message_id,
		q.name COLLATE pg_catalog."default" AS queue,
		a.run_id,
		CASE WHEN a.run_id IS NOT NULL THEN q.name COLLATE pg_catalog."default" END AS workflow,
		a.enqueued_at,
		a.archived_at,
		a.priority::pg_catalog.int4 AS priority,
		a.attempt,
		a.failures,
		COALESCE((SELECT r.error FROM @extschema@.pgqrs_workflow_runs AS r WHERE r.run_id = a.run_id), a.last_error) AS last_error,
		CASE WHEN a.run_id IS NOT NULL THEN pg_catalog.jsonb_build_object('run_id', a.run_id)
			ELSE a.payload END AS payload,
		a.headers
	FROM @extschema@.pgqrs_queues AS q
		CROSS JOIN LATERAL (
			SELECT a.*
			FROM @extschema@.pgqrs_archive AS a
			WHERE a.queue_id = q.queue_id AND a.outcome = 'DEAD'
			ORDER BY a.archived_at DESC
			LIMIT (SELECT NULL::pg_catalog.int8)
		) AS a
	WHERE q.queue_id = ANY ((SELECT @extschema@.pgqrs_readable_queues())::pg_catalog.int8[]);
COMMENT ON VIEW @extschema@.pgqrs_dead_letters IS 'exhausted and permanently failed messages, and runs that ended in ERROR, in each queue the latest first; pgqrs_replay_message() makes them claimable again';
COMMENT ON COLUMN @extschema@.pgqrs_dead_letters.message_id IS 'of a run: the id of the run';
COMMENT ON COLUMN @extschema@.pgqrs_dead_letters.queue IS 'the queue of the message; of a run: the workflow''s';
COMMENT ON COLUMN @extschema@.pgqrs_dead_letters.run_id IS 'NULL for a plain message';
COMMENT ON COLUMN @extschema@.pgqrs_dead_letters.workflow IS 'NULL for a plain message';
COMMENT ON COLUMN @extschema@.pgqrs_dead_letters.enqueued_at IS 'when the message was sent, or the run triggered';
COMMENT ON COLUMN @extschema@.pgqrs_dead_letters.archived_at IS 'when the message became a dead letter';
COMMENT ON COLUMN @extschema@.pgqrs_dead_letters.priority IS '-100 to 100, high first';
COMMENT ON COLUMN @extschema@.pgqrs_dead_letters.attempt IS 'the number of claims';
COMMENT ON COLUMN @extschema@.pgqrs_dead_letters.failures IS 'of a message: nacks and leases lost; of a run: leases lost since a step last succeeded';
COMMENT ON COLUMN @extschema@.pgqrs_dead_letters.last_error IS 'of a run: the error of the run';
COMMENT ON COLUMN @extschema@.pgqrs_dead_letters.payload IS 'of a run: {"run_id": N}';
COMMENT ON COLUMN @extschema@.pgqrs_dead_letters.headers IS 'of the message or the trigger';

CREATE FUNCTION @extschema@.pgqrs_holder_of(
	message_id bigint, OUT pid integer, OUT role text, OUT application_name text
) RETURNS record
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_holder_of';
COMMENT ON FUNCTION @extschema@.pgqrs_holder_of(bigint) IS
'The session that holds a message under a lease: the last one that called for its worker, or the one that claimed without a worker. NULLs if the session has ended or is not known, if the library is not preloaded, except for members of its role and of pg_read_all_stats, and for a message of a queue on which the current role has no monitor. Errors: 22004.';

CREATE VIEW @extschema@.pgqrs_in_flight WITH (security_barrier) AS
	SELECT m.message_id,
		q.name COLLATE pg_catalog."default" AS queue,
		m.run_id,
		w.name COLLATE pg_catalog."default" AS worker,
		m.dequeued_at,
		m.visible_after,
		m.visible_after <= (SELECT @extschema@.pgqrs_now()) AS expired,
		m.attempt,
		m.failures,
		h.pid,
		h.role,
		h.application_name
	FROM @extschema@.pgqrs_messages AS m
		JOIN @extschema@.pgqrs_queues AS q ON q.queue_id = m.queue_id
		LEFT JOIN @extschema@.pgqrs_workers AS w ON w.worker_id = m.worker_id
		CROSS JOIN LATERAL @extschema@.pgqrs_holder_of(m.message_id) AS h
	WHERE m.lease IS NOT NULL
		AND @extschema@.pgqrs_may_monitor(q.queue_id);
COMMENT ON VIEW @extschema@.pgqrs_in_flight IS 'messages and runs under a lease';
COMMENT ON COLUMN @extschema@.pgqrs_in_flight.message_id IS 'of a run: the id of the run';
COMMENT ON COLUMN @extschema@.pgqrs_in_flight.queue IS 'the queue of the message; of a run: the workflow''s';
COMMENT ON COLUMN @extschema@.pgqrs_in_flight.run_id IS 'NULL for a plain message';
COMMENT ON COLUMN @extschema@.pgqrs_in_flight.worker IS 'the name of the worker that holds the lease; NULL for a claim without a worker';
COMMENT ON COLUMN @extschema@.pgqrs_in_flight.dequeued_at IS 'the time of the claim';
COMMENT ON COLUMN @extschema@.pgqrs_in_flight.visible_after IS 'the end of the lease';
COMMENT ON COLUMN @extschema@.pgqrs_in_flight.expired IS 'the lease has expired; its holder may still finish until the next claim';
COMMENT ON COLUMN @extschema@.pgqrs_in_flight.attempt IS 'the number of claims';
COMMENT ON COLUMN @extschema@.pgqrs_in_flight.failures IS 'of a message: nacks and leases lost; of a run: leases lost since a step last succeeded';
COMMENT ON COLUMN @extschema@.pgqrs_in_flight.pid IS 'the process of the session that called last for the worker, or that claimed without one; NULL if it has ended or is not known, and except for members of its role and of pg_read_all_stats';
COMMENT ON COLUMN @extschema@.pgqrs_in_flight.role IS 'the role of that session';
COMMENT ON COLUMN @extschema@.pgqrs_in_flight.application_name IS 'of that session';

-- Statistics.  Live rows are counted; of ended rows only the newest are read, so
-- that history costs nothing.  C code counts, since a plan would depend on the
-- planner's estimates of the moment.

CREATE FUNCTION @extschema@.pgqrs_count_messages(
	queue_id bigint, OUT ready bigint, OUT delayed bigint, OUT in_flight bigint,
	OUT dead bigint, OUT oldest_ready timestamptz
) RETURNS record
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_count_messages';
COMMENT ON FUNCTION @extschema@.pgqrs_count_messages(bigint) IS
'The columns of pgqrs_queue_stats for one queue; NULLs if it does not exist. Needs monitor on it. Errors: 22004.';

CREATE FUNCTION @extschema@.pgqrs_counters_of(queue_id bigint) RETURNS bigint[]
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_counters_of';
COMMENT ON FUNCTION @extschema@.pgqrs_counters_of(bigint) IS
'The counters of a queue for pgqrs_queue_stats and pgqrs_histograms; NULL if it does not exist, or if the library is not preloaded. Needs monitor on it. Errors: 22004.';

CREATE FUNCTION @extschema@.pgqrs_count_runs(
	workflow_id bigint, OUT queued bigint, OUT running bigint, OUT paused bigint,
	OUT success bigint, OUT error bigint, OUT cancelled bigint,
	OUT avg_duration interval, OUT p50_duration interval, OUT p95_duration interval,
	OUT retries bigint, OUT since timestamptz, OUT live_workers integer
) RETURNS record
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_count_runs';
COMMENT ON FUNCTION @extschema@.pgqrs_count_runs(bigint) IS
'The columns of pgqrs_workflow_stats for one workflow; NULLs if it does not exist. Needs monitor on it. Errors: 22004.';

CREATE FUNCTION @extschema@.pgqrs_live_workers(queue_id bigint) RETURNS integer
LANGUAGE c STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_live_workers';
COMMENT ON FUNCTION @extschema@.pgqrs_live_workers(bigint) IS
'live_workers of pgqrs_queue_stats for one queue; NULL if it does not exist. Needs monitor on it. Errors: 22004.';

CREATE VIEW @extschema@.pgqrs_queue_stats WITH (security_barrier) AS
	SELECT q.queue_id,
		q.name COLLATE pg_catalog."default" AS queue,
		q.is_workflow,
		q.paused_at IS NOT NULL AS paused,
		c.ready,
		c.delayed,
		c.in_flight,
		c.dead,
		@extschema@.pgqrs_elapsed(c.oldest_ready, (SELECT @extschema@.pgqrs_now())) AS oldest_ready_age,
		n.counters[1] AS sent,
		n.counters[2] AS claimed,
		n.counters[3] AS done,
		n.counters[4] AS failed,
		n.counters[5] AS died,
		n.counters[6] AS cancelled,
		n.counters[7] / 1e6::pg_catalog.float8 AS wait_seconds,
		n.counters[8] / 1e6::pg_catalog.float8 AS work_seconds,
		@extschema@.pgqrs_live_workers(q.queue_id) AS live_workers
	FROM @extschema@.pgqrs_queues AS q
		CROSS JOIN LATERAL @extschema@.pgqrs_count_messages(q.queue_id) AS c
		CROSS JOIN LATERAL @extschema@.pgqrs_counters_of(q.queue_id) AS n (counters)
	WHERE @extschema@.pgqrs_may_monitor(q.queue_id);
COMMENT ON VIEW @extschema@.pgqrs_queue_stats IS 'counts of queues and of the queues of workflows; the cost depends on live messages, not on ended ones';
COMMENT ON COLUMN @extschema@.pgqrs_queue_stats.queue_id IS 'of a workflow''s queue: the workflow''s id, too';
COMMENT ON COLUMN @extschema@.pgqrs_queue_stats.queue IS 'the name';
COMMENT ON COLUMN @extschema@.pgqrs_queue_stats.is_workflow IS 'whether this is the queue of the workflow of that name';
COMMENT ON COLUMN @extschema@.pgqrs_queue_stats.paused IS 'whether the queue accepts messages and delivers none';
COMMENT ON COLUMN @extschema@.pgqrs_queue_stats.ready IS 'due messages, and those with an expired lease; includes messages of uncommitted claims';
COMMENT ON COLUMN @extschema@.pgqrs_queue_stats.delayed IS 'messages that are not due: delayed, before a retry, and those of waiting runs';
COMMENT ON COLUMN @extschema@.pgqrs_queue_stats.in_flight IS 'messages under a live lease';
COMMENT ON COLUMN @extschema@.pgqrs_queue_stats.dead IS 'dead letters, counted up to 1000, which means 1000 or more';
COMMENT ON COLUMN @extschema@.pgqrs_queue_stats.oldest_ready_age IS 'how long the oldest ready message has been due; NULL without one';
COMMENT ON COLUMN @extschema@.pgqrs_queue_stats.sent IS 'messages sent, runs triggered, and dead letters replayed, since the queue was created; like the columns after it, this only grows, counts committed transactions, loses at most pgqrs.heartbeat_flush in a crash, and is NULL if the library is not preloaded';
COMMENT ON COLUMN @extschema@.pgqrs_queue_stats.claimed IS 'claims';
COMMENT ON COLUMN @extschema@.pgqrs_queue_stats.done IS 'messages archived and runs completed';
COMMENT ON COLUMN @extschema@.pgqrs_queue_stats.failed IS 'claims that ended by a failure: nacked, failed, or their lease ran out or was revoked from a silent worker';
COMMENT ON COLUMN @extschema@.pgqrs_queue_stats.died IS 'messages that became dead letters, and runs that ended in ERROR';
COMMENT ON COLUMN @extschema@.pgqrs_queue_stats.cancelled IS 'messages and runs that were cancelled, deleted or purged';
COMMENT ON COLUMN @extschema@.pgqrs_queue_stats.wait_seconds IS 'sum over all claims: the time from when the message was due until it was claimed';
COMMENT ON COLUMN @extschema@.pgqrs_queue_stats.work_seconds IS 'sum over all ended claims: the time from the claim until the lease ended, by a call or by running out';
COMMENT ON COLUMN @extschema@.pgqrs_queue_stats.live_workers IS 'live workers that may claim from the queue, and sessions that claimed from it, or waited for it, within pgqrs.worker_timeout without a worker; those sessions are not known if the library is not preloaded';

CREATE VIEW @extschema@.pgqrs_histograms WITH (security_barrier) AS
	SELECT q.name COLLATE pg_catalog."default" AS queue,
		m.measure,
		b.le,
		n.counters[m.first + b.bucket] AS count
	FROM @extschema@.pgqrs_queues AS q
		CROSS JOIN LATERAL @extschema@.pgqrs_counters_of(q.queue_id) AS n (counters)
		CROSS JOIN (VALUES ('wait', 32), ('work', 44)) AS m (measure, first)
		CROSS JOIN (VALUES (1, 0.001::pg_catalog.float8), (2, 0.005), (3, 0.01), (4, 0.05), (5, 0.1), (6, 0.5), (7, 1), (8, 5), (9, 30), (10, 300), (11, 3600), (12, 'Infinity')) AS b (bucket, le)
	WHERE @extschema@.pgqrs_may_monitor(q.queue_id);
COMMENT ON VIEW @extschema@.pgqrs_histograms IS 'how long messages and runs waited, and how long they were worked on: claims by duration, cumulative';
COMMENT ON COLUMN @extschema@.pgqrs_histograms.queue IS 'the name; of a workflow''s queue: the workflow';
COMMENT ON COLUMN @extschema@.pgqrs_histograms.measure IS 'wait: from due to claimed; work: from claimed to the end of the lease, so of ended claims';
COMMENT ON COLUMN @extschema@.pgqrs_histograms.le IS 'the upper bound in seconds; the last one is Infinity';
COMMENT ON COLUMN @extschema@.pgqrs_histograms.count IS 'claims that took at most so long; only grows, as the counters of pgqrs_queue_stats; NULL if the library is not preloaded';

CREATE VIEW @extschema@.pgqrs_workflow_stats WITH (security_barrier) AS
	SELECT q.queue_id AS workflow_id,
		q.name COLLATE pg_catalog."default" AS workflow,
		c.queued,
		c.running,
		c.paused,
		c.success,
		c.error,
		c.cancelled,
		pg_catalog.round(c.success::pg_catalog.numeric / NULLIF(c.success + c.error, 0), 4) AS success_rate,
		c.avg_duration,
		c.p50_duration,
		c.p95_duration,
		c.retries,
		c.since,
		c.live_workers,
		c.queued + c.running + c.paused = 0 AS drained
	FROM @extschema@.pgqrs_queues AS q
		CROSS JOIN LATERAL @extschema@.pgqrs_count_runs(q.queue_id) AS c
	WHERE q.is_workflow
		AND @extschema@.pgqrs_may_monitor(q.queue_id);
COMMENT ON VIEW @extschema@.pgqrs_workflow_stats IS 'live runs of workflows, and the results of the newest 100 ended runs; the cost depends on live runs, not on ended ones';
COMMENT ON COLUMN @extschema@.pgqrs_workflow_stats.workflow_id IS 'also the id of the workflow''s queue';
COMMENT ON COLUMN @extschema@.pgqrs_workflow_stats.workflow IS 'the name';
COMMENT ON COLUMN @extschema@.pgqrs_workflow_stats.queued IS 'runs that were not claimed yet';
COMMENT ON COLUMN @extschema@.pgqrs_workflow_stats.running IS 'runs in status RUNNING';
COMMENT ON COLUMN @extschema@.pgqrs_workflow_stats.paused IS 'runs in status PAUSED, which wait';
COMMENT ON COLUMN @extschema@.pgqrs_workflow_stats.success IS 'of the newest 100 ended runs: those in SUCCESS';
COMMENT ON COLUMN @extschema@.pgqrs_workflow_stats.error IS 'of the newest 100 ended runs: those in ERROR';
COMMENT ON COLUMN @extschema@.pgqrs_workflow_stats.cancelled IS 'of the newest 100 ended runs: those that are CANCELLED';
COMMENT ON COLUMN @extschema@.pgqrs_workflow_stats.success_rate IS 'success / (success + error); NULL without such runs';
COMMENT ON COLUMN @extschema@.pgqrs_workflow_stats.avg_duration IS 'of the newest 100 ended runs, from the first claim to the end; without runs that were never claimed';
COMMENT ON COLUMN @extschema@.pgqrs_workflow_stats.p50_duration IS 'the median of those durations';
COMMENT ON COLUMN @extschema@.pgqrs_workflow_stats.p95_duration IS 'the 95th percentile of those durations';
COMMENT ON COLUMN @extschema@.pgqrs_workflow_stats.retries IS 'of the newest 100 ended runs: failures of steps and runs that workers reported, without the last one of a run in ERROR';
COMMENT ON COLUMN @extschema@.pgqrs_workflow_stats.since IS 'when the oldest of the newest 100 ended runs ended; NULL without one';
COMMENT ON COLUMN @extschema@.pgqrs_workflow_stats.live_workers IS 'live workers that may claim runs of the workflow, and sessions that do so without a worker';
COMMENT ON COLUMN @extschema@.pgqrs_workflow_stats.drained IS 'no run is live: the workflow can be removed once no caller triggers it';

CREATE FUNCTION @extschema@.pgqrs_role_of(id bigint, name name) RETURNS oid
LANGUAGE c STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_role_of';
COMMENT ON FUNCTION @extschema@.pgqrs_role_of(bigint, name) IS
'OID of the role of a row of pgqrs_grants, pgqrs_workers or pgqrs_schedules, by the row''s role id and name, also after a renaming of the role; NULL if the role does not exist. Errors: none.';

CREATE FUNCTION @extschema@.pgqrs_readable_workers() RETURNS bigint[]
LANGUAGE c STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_readable_workers';
COMMENT ON FUNCTION @extschema@.pgqrs_readable_workers() IS
'The ids of the workers that serve a queue or workflow which the current role may read. Needs read.';

-- Of a worker of another role only what tells whether its queues are served.
CREATE VIEW @extschema@.pgqrs_worker_stats WITH (security_barrier) AS
	SELECT w.worker_id,
		w.name COLLATE pg_catalog."default" AS worker,
		CASE WHEN v.is_own THEN w.owner::pg_catalog.text END AS owner,
		w.status::pg_catalog.text AS status,
		CASE WHEN v.is_own THEN w.queues COLLATE pg_catalog."default" END AS queues,
		(SELECT pg_catalog.count(*) FROM @extschema@.pgqrs_messages AS m
			WHERE m.worker_id = w.worker_id AND m.visible_after > (SELECT @extschema@.pgqrs_now())
				AND (v.is_own OR @extschema@.pgqrs_queue_name(m.queue_id) IS NOT NULL)) AS in_flight,
		CASE WHEN v.is_own THEN (SELECT pg_catalog.count(*) FROM @extschema@.pgqrs_messages AS m
			WHERE m.worker_id = w.worker_id AND m.visible_after <= (SELECT @extschema@.pgqrs_now())) END AS expired,
		CASE WHEN v.is_own THEN w.max_concurrent END AS max_concurrent,
		CASE WHEN v.is_own THEN w.hostname END AS hostname,
		CASE WHEN v.is_own THEN w.port END AS port,
		w.version,
		CASE WHEN v.is_own THEN w.labels END AS labels,
		CASE WHEN v.is_own THEN w.created_at END AS created_at,
		w.heartbeat_at,
		CASE WHEN v.is_own THEN w.stopped_at END AS stopped_at
	FROM @extschema@.pgqrs_workers AS w
		CROSS JOIN LATERAL (
			SELECT (SELECT pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE'))
				OR (SELECT pg_catalog.pg_has_role(e.extowner, 'USAGE') FROM pg_catalog.pg_extension AS e WHERE e.extname = 'pgqrs')
				OR COALESCE(pg_catalog.pg_has_role(@extschema@.pgqrs_role_of(w.owner_id, w.owner), 'USAGE'), false) AS is_own
			OFFSET 0
		) AS v
	WHERE (w.stopped_at IS NULL OR w.stopped_at > (SELECT @extschema@.pgqrs_now()) - interval '1 hour')
		AND (v.is_own OR w.worker_id = ANY ((SELECT @extschema@.pgqrs_readable_workers())::pg_catalog.int8[]));
COMMENT ON VIEW @extschema@.pgqrs_worker_stats IS 'workers of the roles that the current role is a member of, and of those that serve a queue which it may read the name, version, status, leases and heartbeat; all of all workers for the extension''s owner and members of pg_read_all_stats; without workers that stopped more than an hour ago';
COMMENT ON COLUMN @extschema@.pgqrs_worker_stats.worker_id IS 'as pgqrs_register_worker() returned it';
COMMENT ON COLUMN @extschema@.pgqrs_worker_stats.worker IS 'the name';
COMMENT ON COLUMN @extschema@.pgqrs_worker_stats.owner IS 'the role that registered the worker; none if it was dropped';
COMMENT ON COLUMN @extschema@.pgqrs_worker_stats.status IS 'READY, SUSPENDED or STOPPED';
COMMENT ON COLUMN @extschema@.pgqrs_worker_stats.queues IS 'the patterns to which the worker subscribes';
COMMENT ON COLUMN @extschema@.pgqrs_worker_stats.in_flight IS 'messages that the worker holds under live leases';
COMMENT ON COLUMN @extschema@.pgqrs_worker_stats.expired IS 'messages that the worker holds under expired leases';
COMMENT ON COLUMN @extschema@.pgqrs_worker_stats.max_concurrent IS 'the limit of messages that the worker may hold; NULL: no limit';
COMMENT ON COLUMN @extschema@.pgqrs_worker_stats.hostname IS 'given at the registration';
COMMENT ON COLUMN @extschema@.pgqrs_worker_stats.port IS 'given at the registration';
COMMENT ON COLUMN @extschema@.pgqrs_worker_stats.version IS 'given at the registration';
COMMENT ON COLUMN @extschema@.pgqrs_worker_stats.labels IS 'given at the registration';
COMMENT ON COLUMN @extschema@.pgqrs_worker_stats.created_at IS 'when the worker registered';
COMMENT ON COLUMN @extschema@.pgqrs_worker_stats.heartbeat_at IS 'the last call of the worker, written at most once per pgqrs.heartbeat_flush';
COMMENT ON COLUMN @extschema@.pgqrs_worker_stats.stopped_at IS 'when the worker was stopped';

CREATE FUNCTION @extschema@.pgqrs_schedule_may_fire(schedule_id bigint) RETURNS boolean
LANGUAGE c STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_schedule_may_fire';
COMMENT ON FUNCTION @extschema@.pgqrs_schedule_may_fire(bigint) IS
'Whether the owner of a schedule exists and has trigger on its workflow; NULL if the schedule does not exist or the current role has no privilege on its workflow. Needs monitor. Errors: 22004.';

CREATE VIEW @extschema@.pgqrs_schedule_list WITH (security_barrier) AS
	SELECT s.schedule_id,
		s.name COLLATE pg_catalog."default" AS name,
		s.cron,
		s.timezone,
		s.workflow COLLATE pg_catalog."default" AS workflow,
		s.enabled,
		s.next_fire_at,
		s.last_fired_at,
		s.last_run_id,
		r.status::pg_catalog.text AS last_status,
		s.overlap::pg_catalog.text AS overlap,
		s.max_catchup,
		s.priority::pg_catalog.int4 AS priority,
		s.timeout,
		s.input,
		s.tags,
		s.owner::pg_catalog.text AS owner,
		@extschema@.pgqrs_schedule_may_fire(s.schedule_id) AS may_fire
	FROM @extschema@.pgqrs_schedules AS s
		LEFT JOIN @extschema@.pgqrs_queues AS q ON q.name = s.workflow
		LEFT JOIN @extschema@.pgqrs_workflow_runs AS r ON r.run_id = s.last_run_id AND r.workflow_id = q.queue_id
	WHERE q.queue_id = ANY ((SELECT @extschema@.pgqrs_readable_queues())::pg_catalog.int8[]);
COMMENT ON VIEW @extschema@.pgqrs_schedule_list IS 'schedules of existing workflows';
COMMENT ON COLUMN @extschema@.pgqrs_schedule_list.schedule_id IS 'as pgqrs_schedule() returned it';
COMMENT ON COLUMN @extschema@.pgqrs_schedule_list.name IS 'unique in the database';
COMMENT ON COLUMN @extschema@.pgqrs_schedule_list.cron IS 'the cron expression; see pgqrs_next_firings()';
COMMENT ON COLUMN @extschema@.pgqrs_schedule_list.timezone IS 'the time zone of cron';
COMMENT ON COLUMN @extschema@.pgqrs_schedule_list.workflow IS 'the workflow of the triggered runs';
COMMENT ON COLUMN @extschema@.pgqrs_schedule_list.enabled IS 'whether the schedule fires';
COMMENT ON COLUMN @extschema@.pgqrs_schedule_list.next_fire_at IS 'the next slot, or the first missed one that will be served; NULL if the schedule is disabled or its time zone is no longer known';
COMMENT ON COLUMN @extschema@.pgqrs_schedule_list.last_fired_at IS 'when the schedule last triggered a run';
COMMENT ON COLUMN @extschema@.pgqrs_schedule_list.last_run_id IS 'the run that the schedule triggered last';
COMMENT ON COLUMN @extschema@.pgqrs_schedule_list.last_status IS 'the status of that run; NULL if the run was removed';
COMMENT ON COLUMN @extschema@.pgqrs_schedule_list.overlap IS 'what happens at a slot while the previous run has not ended: allow, skip or cancel';
COMMENT ON COLUMN @extschema@.pgqrs_schedule_list.max_catchup IS 'how many missed slots are served at most';
COMMENT ON COLUMN @extschema@.pgqrs_schedule_list.priority IS 'of its runs, -100 to 100, high first';
COMMENT ON COLUMN @extschema@.pgqrs_schedule_list.timeout IS 'of its runs; NULL: the workflow''s';
COMMENT ON COLUMN @extschema@.pgqrs_schedule_list.input IS 'of its runs';
COMMENT ON COLUMN @extschema@.pgqrs_schedule_list.tags IS 'of its runs';
COMMENT ON COLUMN @extschema@.pgqrs_schedule_list.may_fire IS 'false: the owner was dropped or no longer has trigger on the workflow, so that slots pass without a run; a role with the privilege has to call pgqrs_schedule() again';
COMMENT ON COLUMN @extschema@.pgqrs_schedule_list.owner IS 'the role that wrote the schedule last, with whose privileges it fires; none if the role was dropped';
