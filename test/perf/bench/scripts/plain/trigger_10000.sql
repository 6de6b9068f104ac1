WITH r AS (
	INSERT INTO plain_runs (run_id, workflow_id, created_at, attempt, failures, status, priority, input)
		SELECT nextval('plain_message_id_seq'), 1, clock_timestamp(), 0, 0, 'QUEUED', 0, p
		FROM payloads, unnest(payloads) AS p
		RETURNING run_id)
INSERT INTO plain_messages (message_id, run_id, queue_id, visible_after, enqueued_at, attempt, failures, priority)
	SELECT run_id, run_id, 1, clock_timestamp(), clock_timestamp(), 0, 0, 0 FROM r;
