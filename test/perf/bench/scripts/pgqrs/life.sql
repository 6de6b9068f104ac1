SELECT pgqrs_enqueue(:queue, :payload);
SELECT * FROM pgqrs_dequeue(:queue) \gset
SELECT pgqrs_archive_message(:message_id, :lease);
