CREATE EXTENSION pgq;
SELECT pgq.create_queue('bench'), pgq.register_consumer('bench', 'bench');
