-- Rows written without the functions: by hand, COPY or logical replication.

CREATE FUNCTION pgqrs_settings_written()
RETURNS trigger LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_settings_written';
COMMENT ON FUNCTION pgqrs_settings_written() IS
'row trigger of the tables that sessions cache: they read rows again that are written without the functions of pgqrs';

CREATE TRIGGER pgqrs_queues_written BEFORE INSERT OR UPDATE OR DELETE ON pgqrs_queues
	FOR EACH ROW EXECUTE FUNCTION pgqrs_settings_written();
CREATE TRIGGER pgqrs_workflows_written BEFORE INSERT OR UPDATE OR DELETE ON pgqrs_workflows
	FOR EACH ROW EXECUTE FUNCTION pgqrs_settings_written();
CREATE TRIGGER pgqrs_schedules_written BEFORE INSERT OR UPDATE OR DELETE ON pgqrs_schedules
	FOR EACH ROW EXECUTE FUNCTION pgqrs_settings_written();
CREATE TRIGGER pgqrs_grants_written BEFORE INSERT OR UPDATE OR DELETE ON pgqrs_grants
	FOR EACH ROW EXECUTE FUNCTION pgqrs_settings_written();
ALTER TABLE pgqrs_queues ENABLE ALWAYS TRIGGER pgqrs_queues_written;
ALTER TABLE pgqrs_workflows ENABLE ALWAYS TRIGGER pgqrs_workflows_written;
ALTER TABLE pgqrs_schedules ENABLE ALWAYS TRIGGER pgqrs_schedules_written;
ALTER TABLE pgqrs_grants ENABLE ALWAYS TRIGGER pgqrs_grants_written;
COMMENT ON TRIGGER pgqrs_queues_written ON pgqrs_queues IS
'lets sessions read rows again that are written without the functions of pgqrs';
COMMENT ON TRIGGER pgqrs_workflows_written ON pgqrs_workflows IS
'lets sessions read rows again that are written without the functions of pgqrs';
COMMENT ON TRIGGER pgqrs_schedules_written ON pgqrs_schedules IS
'wakes the background worker for rows that are written without the functions of pgqrs';
COMMENT ON TRIGGER pgqrs_grants_written ON pgqrs_grants IS
'lets sessions read rows again that are written without the functions of pgqrs';

-- Expressions: see 70_views.sql.
SET LOCAL search_path = '';

CREATE FUNCTION @extschema@.pgqrs_advance_sequence(sequence regclass, last_id bigint, largest_id bigint) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE STRICT
AS 'MODULE_PATHNAME', 'sql_advance_sequence';
COMMENT ON FUNCTION @extschema@.pgqrs_advance_sequence(regclass, bigint, bigint) IS
'Sets a sequence that was at last_id to largest_id, unless it is beyond it, and returns its new value. Waits for transactions that took an id and are open. Part of pgqrs_advance_sequences(). Errors: 42501 unless called by the extension''s owner or a superuser.';

-- The run of a step, signal or event, and the worker of a message, may be removed.
CREATE FUNCTION @extschema@.pgqrs_advance_sequences() RETURNS TABLE (sequence text, last_id bigint)
LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 5
BEGIN ATOMIC
	SELECT s.sequence::pg_catalog.text,
		@extschema@.pgqrs_advance_sequence(s.sequence, s.last, s.largest)
	FROM (VALUES
			('@extschema@.pgqrs_queue_id_seq'::pg_catalog.regclass,
				(SELECT CASE WHEN q.is_called THEN q.last_value ELSE 0 END FROM @extschema@.pgqrs_queue_id_seq AS q),
				GREATEST((SELECT pg_catalog.max(t.queue_id) FROM @extschema@.pgqrs_queues AS t),
					(SELECT pg_catalog.max(t.workflow_id) FROM @extschema@.pgqrs_workflows AS t), 0)),
			('@extschema@.pgqrs_message_id_seq',
				(SELECT CASE WHEN q.is_called THEN q.last_value ELSE 0 END FROM @extschema@.pgqrs_message_id_seq AS q),
				GREATEST((SELECT pg_catalog.max(t.message_id) FROM @extschema@.pgqrs_messages AS t),
					(SELECT pg_catalog.max(t.message_id) FROM @extschema@.pgqrs_archive AS t),
					(SELECT pg_catalog.max(t.run_id) FROM @extschema@.pgqrs_workflow_runs AS t),
					(SELECT pg_catalog.max(t.parent_run_id) FROM @extschema@.pgqrs_workflow_runs AS t),
					(SELECT pg_catalog.max(GREATEST(t.run_id, t.parent_run_id)) FROM @extschema@.pgqrs_workflow_run_parents AS t),
					(SELECT pg_catalog.max(t.run_id) FROM @extschema@.pgqrs_workflow_steps AS t),
					(SELECT pg_catalog.max(t.run_id) FROM @extschema@.pgqrs_run_signals AS t),
					(SELECT pg_catalog.max(t.run_id) FROM @extschema@.pgqrs_schedule_firings AS t),
					(SELECT pg_catalog.max(t.last_run_id) FROM @extschema@.pgqrs_schedules AS t),
					(SELECT pg_catalog.max(t.run_id) FROM @extschema@.pgqrs_run_events AS t), 0)),
			('@extschema@.pgqrs_worker_id_seq',
				(SELECT CASE WHEN q.is_called THEN q.last_value ELSE 0 END FROM @extschema@.pgqrs_worker_id_seq AS q),
				GREATEST((SELECT pg_catalog.max(t.worker_id) FROM @extschema@.pgqrs_workers AS t),
					(SELECT pg_catalog.max(t.worker_id) FROM @extschema@.pgqrs_messages AS t), 0)),
			('@extschema@.pgqrs_signal_id_seq',
				(SELECT CASE WHEN q.is_called THEN q.last_value ELSE 0 END FROM @extschema@.pgqrs_signal_id_seq AS q),
				GREATEST((SELECT pg_catalog.max(t.signal_id) FROM @extschema@.pgqrs_run_signals AS t), 0)),
			('@extschema@.pgqrs_schedule_id_seq',
				(SELECT CASE WHEN q.is_called THEN q.last_value ELSE 0 END FROM @extschema@.pgqrs_schedule_id_seq AS q),
				GREATEST((SELECT pg_catalog.max(t.schedule_id) FROM @extschema@.pgqrs_schedules AS t),
					(SELECT pg_catalog.max(t.schedule_id) FROM @extschema@.pgqrs_schedule_firings AS t), 0)),
			('@extschema@.pgqrs_event_id_seq',
				(SELECT CASE WHEN q.is_called THEN q.last_value ELSE 0 END FROM @extschema@.pgqrs_event_id_seq AS q),
				GREATEST((SELECT pg_catalog.max(t.event_id) FROM @extschema@.pgqrs_run_events AS t), 0))
		) AS s (sequence, last, largest);
END;
COMMENT ON FUNCTION @extschema@.pgqrs_advance_sequences() IS
'Sets each sequence of the extension to the largest id in its tables, unless it is beyond it: after rows arrived without the sequences, as by logical replication. Returns the new values. May be called repeatedly, and beside other work; if a sequence is behind, it waits for open transactions that took an id from it. Is not undone by a rollback. Errors: 42501 unless called by the extension''s owner or a superuser.';

SET LOCAL search_path = @extschema@, pg_temp;
