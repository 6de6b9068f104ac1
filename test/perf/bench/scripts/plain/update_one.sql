\set id random(1, :backlog)
UPDATE plain_messages
	SET lease = ceil(random() * 9007199254740991)::bigint, visible_after = clock_timestamp() + interval '1 hour',
		dequeued_at = clock_timestamp(), attempt = attempt + 1
	WHERE message_id = :id
	RETURNING message_id, lease, attempt, failures, priority, enqueued_at, visible_after, payload, headers;
