INSERT INTO plain_messages (message_id, queue_id, visible_after, enqueued_at, attempt, failures, priority, payload)
	SELECT nextval('plain_message_id_seq'), 1, clock_timestamp(), clock_timestamp(), 0, 0, 0, p FROM payloads, unnest(payloads) AS p;
