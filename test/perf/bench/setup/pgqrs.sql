-- The extension, its queues, and a workflow that a worker serves, so that no
-- trigger warns.
CREATE EXTENSION pgqrs;
SELECT pgqrs_create_queue('bench'),
	pgqrs_create_queue('bench_drop', retention => '0'),	-- done messages are not kept
	pgqrs_create_queue('ring', max_attempts => 2147483647),	-- a lease may run out ever so often
	pgqrs_create_workflow('bench_wf');
SELECT pgqrs_register_worker('bench', '{bench_wf}');
