-- Verification: whether the tables are consistent, as they are unless pgqrs has a
-- bug or a statement wrote them without its functions.  Each check is a SELECT of
-- the wrong rows; all checks are one statement, and so have one snapshot.

CREATE FUNCTION @extschema@.pgqrs_below_floors() RETURNS SETOF bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'sql_below_floors';
COMMENT ON FUNCTION @extschema@.pgqrs_below_floors() IS
'Ids of messages that no claim finds: none, unless pgqrs_messages was written with its trigger disabled. Changes nothing; after pgqrs_maintain() claims find them. Errors: 42501 unless called by the extension''s owner or a superuser.';

CREATE FUNCTION @extschema@.pgqrs_verify() RETURNS TABLE (check_name text, ok boolean, detail text)
LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 30
BEGIN ATOMIC
	WITH faults (check_name, what) AS (
		SELECT 'messages without queue', pg_catalog.format('message %s', c.message_id)
		FROM @extschema@.pgqrs_messages AS c
		WHERE NOT EXISTS (SELECT FROM @extschema@.pgqrs_queues AS p WHERE p.queue_id = c.queue_id)
		UNION ALL
		SELECT 'archived messages without queue', pg_catalog.format('message %s', c.message_id)
		FROM @extschema@.pgqrs_archive AS c
		WHERE NOT EXISTS (SELECT FROM @extschema@.pgqrs_queues AS p WHERE p.queue_id = c.queue_id)
		UNION ALL
		SELECT 'workflows without queue', pg_catalog.format('workflow %s', c.name)
		FROM @extschema@.pgqrs_workflows AS c
		WHERE NOT EXISTS (SELECT FROM @extschema@.pgqrs_queues AS p WHERE p.queue_id = c.workflow_id)
		UNION ALL
		SELECT 'queues without workflow', pg_catalog.format('queue %s', c.name)
		FROM @extschema@.pgqrs_queues AS c
		WHERE c.is_workflow AND c.deleted_at IS NULL AND NOT EXISTS (SELECT FROM @extschema@.pgqrs_workflows AS p WHERE p.workflow_id = c.queue_id)
		UNION ALL
		SELECT 'runs without workflow', pg_catalog.format('run %s', c.run_id)
		FROM @extschema@.pgqrs_workflow_runs AS c
		WHERE NOT EXISTS (SELECT FROM @extschema@.pgqrs_workflows AS p WHERE p.workflow_id = c.workflow_id)
		UNION ALL
		SELECT 'parents without run', pg_catalog.format('run %s', c.run_id)
		FROM @extschema@.pgqrs_workflow_run_parents AS c
		WHERE NOT EXISTS (SELECT FROM @extschema@.pgqrs_workflow_runs AS p WHERE p.run_id = c.run_id)
		UNION ALL
		SELECT 'steps without run', pg_catalog.format('step %s of run %s', c.step_id, c.run_id)
		FROM @extschema@.pgqrs_workflow_steps AS c
		WHERE NOT EXISTS (SELECT FROM @extschema@.pgqrs_workflow_runs AS p WHERE p.run_id = c.run_id)
		UNION ALL
		SELECT 'signals without run', pg_catalog.format('signal %s', c.signal_id)
		FROM @extschema@.pgqrs_run_signals AS c
		WHERE NOT EXISTS (SELECT FROM @extschema@.pgqrs_workflow_runs AS p WHERE p.run_id = c.run_id)
		UNION ALL
		SELECT 'events without run', pg_catalog.format('event %s', c.event_id)
		FROM @extschema@.pgqrs_run_events AS c
		WHERE NOT EXISTS (SELECT FROM @extschema@.pgqrs_workflow_runs AS p WHERE p.run_id = c.run_id)
		UNION ALL
		SELECT 'schedules without workflow', pg_catalog.format('schedule %s', c.name)
		FROM @extschema@.pgqrs_schedules AS c
		WHERE NOT EXISTS (SELECT FROM @extschema@.pgqrs_queues AS p WHERE p.name = c.workflow AND p.is_workflow AND p.deleted_at IS NULL)
		UNION ALL
		SELECT 'firings without schedule', pg_catalog.format('schedule %s', c.schedule_id)
		FROM @extschema@.pgqrs_schedule_firings AS c
		WHERE NOT EXISTS (SELECT FROM @extschema@.pgqrs_schedules AS p WHERE p.schedule_id = c.schedule_id)
		UNION ALL
		-- the next flush removes those of a queue that has a row with a negative epoch
		SELECT 'counters without queue', pg_catalog.format('queue %s', c.queue_id)
		FROM @extschema@.pgqrs_counters AS c
		WHERE NOT EXISTS (SELECT FROM @extschema@.pgqrs_queues AS p WHERE p.queue_id = c.queue_id)
			AND NOT EXISTS (SELECT FROM @extschema@.pgqrs_counters AS p WHERE p.queue_id = c.queue_id AND p.epoch < 0)
		UNION ALL
		SELECT 'runs without message', pg_catalog.format('run %s', r.run_id)
		FROM @extschema@.pgqrs_workflow_runs AS r
		WHERE r.completed_at IS NULL AND NOT EXISTS (SELECT FROM @extschema@.pgqrs_messages AS m WHERE m.message_id = r.run_id)
		UNION ALL
		SELECT 'messages without run', pg_catalog.format('message %s', m.message_id)
		FROM @extschema@.pgqrs_messages AS m
		WHERE m.run_id IS NOT NULL AND NOT EXISTS (SELECT FROM @extschema@.pgqrs_workflow_runs AS r WHERE r.run_id = m.run_id)
		UNION ALL
		SELECT 'ended runs without message', pg_catalog.format('run %s', r.run_id)
		FROM @extschema@.pgqrs_workflow_runs AS r
		WHERE r.completed_at IS NOT NULL AND NOT EXISTS (SELECT FROM @extschema@.pgqrs_archive AS a WHERE a.message_id = r.run_id)
		UNION ALL
		SELECT 'archived messages without run', pg_catalog.format('message %s', a.message_id)
		FROM @extschema@.pgqrs_archive AS a
		WHERE a.run_id IS NOT NULL AND NOT EXISTS (SELECT FROM @extschema@.pgqrs_workflow_runs AS r WHERE r.run_id = a.run_id)
		UNION ALL
		SELECT 'messages both live and archived', pg_catalog.format('message %s', m.message_id)
		FROM @extschema@.pgqrs_messages AS m
			JOIN @extschema@.pgqrs_archive AS a ON a.message_id = m.message_id
		UNION ALL
		SELECT 'outcomes of runs', pg_catalog.format('run %s is %s, its message %s', r.run_id, r.status, a.outcome)
		FROM @extschema@.pgqrs_workflow_runs AS r
			JOIN @extschema@.pgqrs_archive AS a ON a.message_id = r.run_id
		WHERE r.completed_at IS NOT NULL AND CASE r.status
			WHEN 'SUCCESS' THEN a.outcome <> 'DONE'
			WHEN 'ERROR' THEN a.outcome NOT IN ('DEAD', 'DELETED')
			ELSE a.outcome <> 'CANCELLED' END
		UNION ALL
		SELECT 'states of messages', pg_catalog.format('message %s: %s', m.message_id, s.wrong)
		FROM @extschema@.pgqrs_messages AS m
			LEFT JOIN @extschema@.pgqrs_queues AS q ON q.queue_id = m.queue_id
			CROSS JOIN LATERAL (SELECT CASE
				WHEN m.run_id <> m.message_id THEN 'it has the id of another run'
				WHEN (m.run_id IS NOT NULL) <> q.is_workflow THEN 'it is in a queue of the other kind'
				WHEN (m.run_id IS NOT NULL) <> (m.payload IS NULL) THEN 'it has a run and a payload, or neither'
				WHEN m.run_id IS NULL AND (m.deadline_at IS NOT NULL OR m.waiting_for IS NOT NULL) THEN 'only a run has a deadline and waits'
				WHEN m.lease NOT BETWEEN 1 AND 9007199254740991 THEN 'its lease is out of range'
				WHEN m.lease IS NOT NULL AND (m.attempt = 0 OR m.dequeued_at IS NULL) THEN 'it is leased, but was not claimed'
				WHEN m.lease IS NULL AND (m.worker_id IS NOT NULL OR m.exhausted_at IS NOT NULL) THEN 'it has a worker or a last lease, but no lease'
				WHEN m.undo AND m.run_id IS NULL OR m.children_after IS NOT NULL AND m.undo IS NULL THEN 'it is undone without a run, or has children to cancel without an undo'
				WHEN m.exhausted_at <> m.visible_after THEN 'its last lease ends at another time than its lease'
				WHEN (m.waiting_for = 'cancel') <> (m.lease IS NOT NULL) THEN 'it waits while leased, or for a worker without a lease'
				WHEN m.attempt < 0 OR m.failures < 0 OR m.priority NOT BETWEEN -100 AND 100 THEN 'a number is out of range'
			END) AS s (wrong)
		WHERE s.wrong IS NOT NULL
		UNION ALL
		SELECT 'states of runs', pg_catalog.format('run %s: %s', r.run_id, s.wrong)
		FROM @extschema@.pgqrs_workflow_runs AS r
			CROSS JOIN LATERAL (SELECT CASE
				WHEN (r.status IN ('SUCCESS', 'ERROR', 'CANCELLED')) <> (r.completed_at IS NOT NULL) THEN 'it has ended without a time, or the reverse'
				WHEN (r.status = 'PAUSED') <> (r.paused_at IS NOT NULL) OR (r.status = 'PAUSED') <> (r.waiting_for IS NOT NULL) THEN 'it waits without a time or a reason, or the reverse'
				WHEN r.status = 'QUEUED' AND (r.lease IS NOT NULL OR r.worker_id IS NOT NULL OR r.attempt <> 0) THEN 'it is queued, but was claimed'
				WHEN r.status IN ('RUNNING', 'PAUSED', 'SUCCESS') AND (r.lease IS NULL OR r.started_at IS NULL OR r.attempt < 1) THEN 'it has run, but was not claimed'
				WHEN r.status = 'SUCCESS' AND (r.output IS NULL OR r.error IS NOT NULL) THEN 'it succeeded without an output or with an error'
				WHEN r.status = 'ERROR' AND (r.error IS NULL OR r.output IS NOT NULL) THEN 'it failed without an error or with an output'
				WHEN r.status IN ('QUEUED', 'RUNNING', 'PAUSED') AND (r.output IS NOT NULL OR r.error IS NOT NULL OR r.deleted_at IS NOT NULL) THEN 'it is live, but has a result or was deleted'
				WHEN (r.parent_run_id IS NULL) <> (r.parent_step_id IS NULL) OR (r.parent_run_id IS NULL) <> (r.on_parent_end IS NULL) THEN 'it has an incomplete parent'
				WHEN (r.idempotency_key IS NULL) <> (r.key_scope IS NULL) THEN 'it has an incomplete key'
				WHEN r.undo_cause IS NOT NULL AND r.cancel_requested_at IS NULL OR r.undone AND (r.undo_cause IS NULL OR r.status NOT IN ('CANCELLED', 'ERROR')) THEN 'it is undone without a request, or without an end'
				WHEN r.attempt < 0 OR r.failures < 0 OR r.priority NOT BETWEEN -100 AND 100 THEN 'a number is out of range'
			END) AS s (wrong)
		WHERE s.wrong IS NOT NULL
		UNION ALL
		SELECT 'runs and their messages', pg_catalog.format('run %s: %s', r.run_id, s.wrong)
		FROM @extschema@.pgqrs_workflow_runs AS r
			JOIN @extschema@.pgqrs_messages AS m ON m.message_id = r.run_id AND m.run_id = r.run_id
			CROSS JOIN LATERAL (SELECT CASE
				WHEN r.completed_at IS NOT NULL THEN 'it has ended, but its message has not'
				WHEN m.queue_id <> r.workflow_id THEN 'its message is in another queue'
				WHEN m.attempt <> r.attempt OR m.priority <> r.priority THEN 'its message has another attempt or priority'
				WHEN m.deadline_at IS DISTINCT FROM r.deadline_at THEN 'its message has another deadline'
				WHEN m.idempotency_key IS DISTINCT FROM CASE r.key_scope WHEN 'active' THEN r.idempotency_key END THEN 'its message has another key'
				WHEN m.lease IS NOT NULL AND r.status <> 'RUNNING' THEN 'it is leased, but not RUNNING'
				WHEN m.lease <> r.lease OR m.lease IS NOT NULL AND m.worker_id IS DISTINCT FROM r.worker_id THEN 'another worker or lease holds its message'
				WHEN (r.cancel_requested_at IS NOT NULL AND r.undo_cause IS NULL) <> (m.waiting_for IS NOT DISTINCT FROM 'cancel') AND (r.undo_cause IS NULL OR m.waiting_for IS DISTINCT FROM 'cancel') THEN 'only one of both has the request to cancel'
				WHEN (r.undo_cause IS NOT NULL) <> (m.undo IS NOT NULL) THEN 'only one of both is to be undone'
				WHEN m.waiting_for <> 'cancel' AND m.waiting_for IS DISTINCT FROM r.waiting_for THEN 'its message waits for another event'
				WHEN m.waiting_for IS NULL AND m.visible_after = 'infinity' THEN 'it waits without end, and no event will wake it'
			END) AS s (wrong)
		WHERE s.wrong IS NOT NULL
		UNION ALL
		SELECT 'states of steps', pg_catalog.format('step %s of run %s: %s', t.step_id, t.run_id, s.wrong)
		FROM @extschema@.pgqrs_workflow_steps AS t
			CROSS JOIN LATERAL (SELECT CASE
				WHEN (t.status IN ('SUCCESS', 'ERROR')) <> (t.completed_at IS NOT NULL) THEN 'it has ended without a time, or the reverse'
				WHEN t.status = 'ERROR' AND t.error IS NULL OR t.status = 'SUCCESS' AND t.error IS NOT NULL AND t.kind <> 'SIGNAL' THEN 'it failed without an error, or succeeded with one'
				WHEN t.status = 'PAUSED' AND t.kind = 'FUNCTION' OR t.status IN ('PENDING', 'RUNNING') AND t.kind NOT IN ('FUNCTION', 'CHILD') THEN 'it is of a kind that has no such status'
				WHEN t.status IN ('RUNNING', 'PAUSED') AND (t.lease IS NULL OR t.attempt < 1) THEN 'it is RUNNING or PAUSED, but without a lease'
				WHEN t.attempt < 0 OR t.failures < 0 THEN 'a number is out of range'
			END) AS s (wrong)
		WHERE s.wrong IS NOT NULL
		UNION ALL
		SELECT 'states of workers', pg_catalog.format('worker %s: %s', w.worker_id, s.wrong)
		FROM @extschema@.pgqrs_workers AS w
			CROSS JOIN LATERAL (SELECT CASE
				WHEN (w.status = 'STOPPED') <> (w.stopped_at IS NOT NULL) THEN 'it was stopped without a time, or the reverse'
				WHEN w.max_concurrent < 1 THEN 'its max_concurrent is out of range'
			END) AS s (wrong)
		WHERE s.wrong IS NOT NULL
		UNION ALL
		SELECT 'duplicate keys of messages', pg_catalog.format('queue %s, key %s', k.queue_id, k.idempotency_key)
		FROM @extschema@.pgqrs_messages AS k
		WHERE k.idempotency_key IS NOT NULL
		GROUP BY k.queue_id, k.idempotency_key
		HAVING pg_catalog.count(*) > 1
		UNION ALL
		SELECT 'duplicate keys of runs', pg_catalog.format('workflow %s, key %s', k.workflow_id, k.idempotency_key)
		FROM @extschema@.pgqrs_workflow_runs AS k
		WHERE k.idempotency_key IS NOT NULL AND k.key_scope = 'retained' AND k.deleted_at IS NULL
		GROUP BY k.workflow_id, k.idempotency_key
		HAVING pg_catalog.count(*) > 1
		UNION ALL
		SELECT 'duplicate keys of signals', pg_catalog.format('run %s, key %s', k.run_id, k.idempotency_key)
		FROM @extschema@.pgqrs_run_signals AS k
		WHERE k.idempotency_key IS NOT NULL
		GROUP BY k.run_id, k.idempotency_key
		HAVING pg_catalog.count(*) > 1
		UNION ALL
		SELECT 'messages below floors', pg_catalog.format('message %s', b.b)
		FROM @extschema@.pgqrs_below_floors() AS b (b)
		UNION ALL
		SELECT 'triggers', pg_catalog.format('trigger %s_written', c.relname)
		FROM pg_catalog.pg_class AS c
		WHERE c.oid = ANY (ARRAY['@extschema@.pgqrs_queues', '@extschema@.pgqrs_messages', '@extschema@.pgqrs_workflows', '@extschema@.pgqrs_schedules', '@extschema@.pgqrs_grants']::pg_catalog.regclass[]::pg_catalog.oid[])
			AND NOT EXISTS (SELECT FROM pg_catalog.pg_trigger AS t
				WHERE t.tgrelid = c.oid AND t.tgname = pg_catalog.format('%s_written', c.relname) AND t.tgenabled = 'A')
		UNION ALL
		SELECT 'open tables', pg_catalog.format('%s of %s to %s', a.privilege_type, c.relname, CASE WHEN a.grantee = 0 THEN 'public' ELSE pg_catalog.pg_get_userbyid(a.grantee) END)
		FROM pg_catalog.pg_depend AS d
			JOIN pg_catalog.pg_class AS c ON c.oid = d.objid AND c.relkind IN ('r', 'v', 'S')
			CROSS JOIN LATERAL (
				SELECT a.grantee, a.privilege_type FROM pg_catalog.aclexplode(c.relacl) AS a
				UNION ALL
				SELECT a.grantee, a.privilege_type FROM pg_catalog.pg_attribute AS t CROSS JOIN LATERAL pg_catalog.aclexplode(t.attacl) AS a WHERE t.attrelid = c.oid
			) AS a
		WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid AND d.deptype = 'e'
			AND d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass::pg_catalog.oid
			AND d.refobjid = (SELECT e.oid FROM pg_catalog.pg_extension AS e WHERE e.extname = 'pgqrs')
			AND a.grantee <> c.relowner AND NOT (c.relkind = 'v' AND a.privilege_type = 'SELECT')
	), counted AS (
		SELECT n.check_name, pg_catalog.count(*) AS count,
			pg_catalog.string_agg(n.what, '; ' ORDER BY n.what) FILTER (WHERE n.place <= 3) AS first
		FROM (SELECT f.*, pg_catalog.row_number() OVER (PARTITION BY f.check_name) AS place FROM faults AS f) AS n
		GROUP BY n.check_name
	)
	SELECT k.name, c.count IS NULL, c.count || CASE WHEN c.count > 3 THEN ', such as ' ELSE ': ' END || c.first
	FROM (VALUES
			(1, 'messages without queue'),
			(2, 'archived messages without queue'),
			(3, 'workflows without queue'),
			(4, 'queues without workflow'),
			(5, 'runs without workflow'),
			(6, 'steps without run'),
			(7, 'signals without run'),
			(8, 'events without run'),
			(9, 'schedules without workflow'),
			(10, 'firings without schedule'),
			(11, 'runs without message'),
			(12, 'messages without run'),
			(13, 'ended runs without message'),
			(14, 'archived messages without run'),
			(15, 'messages both live and archived'),
			(16, 'outcomes of runs'),
			(17, 'states of messages'),
			(18, 'states of runs'),
			(19, 'runs and their messages'),
			(20, 'states of steps'),
			(21, 'states of workers'),
			(22, 'duplicate keys of messages'),
			(23, 'duplicate keys of runs'),
			(24, 'duplicate keys of signals'),
			(25, 'messages below floors'),
			(26, 'triggers'),
			(27, 'open tables'),
			(28, 'parents without run'),
			(29, 'counters without queue')
		) AS k (place, name)
		LEFT JOIN counted AS c ON c.check_name = k.name
	ORDER BY k.place;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_verify() IS
'Searches the tables for inconsistencies: references to missing rows, live runs without a message and messages without a run, ends that do not match, states that no operation leads to, duplicate keys, messages that no claim finds, triggers of the extension that are disabled or do not fire always, privileges of other roles on its tables. One row for each check; if it is not ok, detail has the number of wrong rows and three of them. Changes and locks nothing, and reads all rows: minutes for tens of millions. pgqrs_maintain() repairs the floors and the triggers, pgqrs_sync_grants() the privileges. No function repairs other findings: a statement wrote to the tables without the functions, a restore was incomplete, an index is corrupt, or pgqrs has a bug. Errors: 42501 unless called by the extension''s owner or a superuser.';
