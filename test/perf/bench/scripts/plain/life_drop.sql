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
DELETE FROM plain_messages WHERE message_id = :message_id AND lease = :lease;
