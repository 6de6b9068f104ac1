SELECT message_id, lease, attempt, failures, priority, enqueued_at, visible_after, payload, headers
	FROM pgqrs_dequeue('bench', visibility_timeout => '1 hour');
