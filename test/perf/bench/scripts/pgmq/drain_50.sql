SELECT array_agg(msg_id) AS ids, array_agg(message) AS messages FROM pgmq.read('bench', 30, 50) \gset
SELECT count(*) FROM pgmq.archive('bench', :ids::bigint[]);
