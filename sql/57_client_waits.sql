-- Waiting in the server.

CREATE PROCEDURE pgqrs_wait(run_id bigint, timeout interval = '300 s', INOUT status text = NULL,
	INOUT output jsonb = NULL, INOUT error jsonb = NULL)
LANGUAGE c AS 'MODULE_PATHNAME', 'sql_wait';
COMMENT ON PROCEDURE pgqrs_wait(bigint, interval, text, jsonb, jsonb) IS
'waits until the run has ended and returns the result of pgqrs_result(). Only in autocommit mode: it commits before it sleeps, and holds no snapshot and no lock then. Needs any privilege on the run''s workflow. Without the library preloaded, and on a standby, it polls at growing intervals of up to 1 s. Errors: PQ012 the run did not end within timeout, PQ003 no such run, 25001 in a transaction block or a function, 22004, 22023.';

CREATE PROCEDURE pgqrs_wait_for_work(queue text = NULL, worker_id bigint = NULL, timeout interval = '30 s',
	INOUT available boolean = NULL)
LANGUAGE c AS 'MODULE_PATHNAME', 'sql_wait_for_work';
COMMENT ON PROCEDURE pgqrs_wait_for_work(text, bigint, interval, boolean) IS
'waits until pgqrs_dequeue() with the same queue and worker_id has a message to claim, then returns true; false after timeout. Another worker may claim the message first. Only in autocommit mode: it commits before it sleeps, and holds no snapshot and no lock then. The wait counts as a heartbeat; a worker that is suspended or at max_concurrent is not woken for messages. Without the library preloaded it polls at growing intervals of up to 1 s. Errors: PQ001 no such queue, PQ005 no such worker, PQ014 the worker is stopped, 25001 in a transaction block or a function, 22004, 22023, 42501.';
