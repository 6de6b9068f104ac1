SELECT pgmq.send('bench', :payload);
