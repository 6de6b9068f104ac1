INSERT INTO plain_messages (message_id, queue_id, visible_after, enqueued_at, attempt, failures, priority, payload)
	VALUES (nextval('plain_message_id_seq'), 1, clock_timestamp(), clock_timestamp(), 0, 0, 0, :payload) RETURNING message_id;
