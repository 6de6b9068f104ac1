SELECT * FROM pgmq.read('bench', 3600, 1);
