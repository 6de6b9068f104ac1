SELECT pgmq.send_batch('bench', :payloads);
