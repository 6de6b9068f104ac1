SELECT pgq.next_batch('bench', 'bench') AS batch \gset
SELECT * FROM pgq.get_batch_events(:batch);
SELECT pgq.finish_batch(:batch);
