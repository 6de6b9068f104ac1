INSERT INTO plain_messages (message_id, queue_id, visible_after, enqueued_at, attempt, failures, priority, payload)
	VALUES (nextval('plain_message_id_seq'), 1, clock_timestamp(), clock_timestamp(), 0, 0, 0, :payload) RETURNING message_id;
UPDATE plain_messages AS m
	SET lease = ceil(random() * 9007199254740991)::bigint, visible_after = clock_timestamp() + interval '30 seconds',
		dequeued_at = clock_timestamp(), attempt = m.attempt + 1, failures = m.failures + (m.lease IS NOT NULL)::int
	FROM (SELECT message_id FROM plain_messages
		WHERE queue_id = 1 AND visible_after <= now()
		ORDER BY priority DESC, visible_after, message_id LIMIT 1 FOR UPDATE SKIP LOCKED) AS c
	WHERE m.message_id = c.message_id
	RETURNING m.message_id, m.lease, m.attempt, m.failures, m.priority, m.enqueued_at, m.visible_after, m.payload, m.headers \gset
WITH d AS (DELETE FROM plain_messages WHERE message_id = :message_id AND lease = :lease RETURNING *)
INSERT INTO plain_archive (message_id, queue_id, archived_at, visible_after, enqueued_at, dequeued_at, lease, worker_id, run_id,
		deadline_at, attempt, failures, outcome, priority, waiting_for, concurrency_key, idempotency_key, payload, headers, last_error)
	SELECT message_id, queue_id, clock_timestamp(), visible_after, enqueued_at, dequeued_at, lease, worker_id, run_id,
		deadline_at, attempt, failures, 'DONE', priority, waiting_for, concurrency_key, idempotency_key, payload, headers, last_error FROM d;
