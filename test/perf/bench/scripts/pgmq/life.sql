SELECT pgmq.send('bench', :payload);
SELECT msg_id, read_ct, enqueued_at, vt, message FROM pgmq.read('bench', 30, 1) \gset
SELECT pgmq.archive('bench', :msg_id::bigint);
