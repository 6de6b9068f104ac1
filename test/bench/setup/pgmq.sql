SELECT pgmq.create('bench');
