SELECT array_agg(message_id) AS ids, array_agg(lease) AS leases, array_agg(payload) AS payloads
	FROM pgqrs_dequeue('bench', batch_size => 50) \gset
SELECT pgqrs_archive_messages(:ids, :leases);
