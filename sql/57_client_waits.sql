-- Waiting in the server.

CREATE PROCEDURE pgqrs_wait(run_id bigint, timeout interval = '300 s', INOUT status text = NULL,
	INOUT output jsonb = NULL, INOUT error jsonb = NULL)
LANGUAGE c AS 'MODULE_PATHNAME', 'sql_wait';
COMMENT ON PROCEDURE pgqrs_wait(bigint, interval, text, jsonb, jsonb) IS
'waits until the run has ended and returns the result of pgqrs_result(). Only in autocommit mode: it commits before it sleeps, and holds no snapshot and no lock then. Needs read on the run''s workflow. Without the library preloaded, and on a standby, it polls at growing intervals of up to 1 s. Errors: PQ012 the run did not end within timeout, PQ003 no such run, 25001 in a transaction block or a function, 22004, 22023, 42501.';

CREATE PROCEDURE pgqrs_wait_any(run_ids bigint[], timeout interval = '300 s', INOUT run_id bigint = NULL,
	INOUT status text = NULL, INOUT output jsonb = NULL, INOUT error jsonb = NULL)
LANGUAGE c AS 'MODULE_PATHNAME', 'sql_wait_any';
COMMENT ON PROCEDURE pgqrs_wait_any(bigint[], interval, bigint, text, jsonb, jsonb) IS
'like pgqrs_wait() for up to 10000 runs: waits until one of them has ended, and returns its id and its result. Of several that have ended, the first by the time of its end, then by its place in run_ids. Without run_ids: NULLs at once. Errors: PQ012 none of the runs ended within timeout, PQ003 one of the runs does not exist, before it sleeps, 25001 in a transaction block or a function, 22004, 22023, 42501.';

CREATE PROCEDURE pgqrs_wait_for_work(queue text = NULL, worker_id bigint = NULL, timeout interval = '30 s',
	INOUT available boolean = NULL)
LANGUAGE c AS 'MODULE_PATHNAME', 'sql_wait_for_work';
COMMENT ON PROCEDURE pgqrs_wait_for_work(text, bigint, interval, boolean) IS
'waits until pgqrs_dequeue() with the same queue and worker_id has a message to claim, then returns true; false after timeout. Another worker may claim the message first. Only in autocommit mode: it commits before it sleeps, and holds no snapshot and no lock then. The wait counts as a heartbeat; a worker that is suspended or at max_concurrent is not woken for messages. Without the library preloaded it polls at growing intervals of up to 1 s. Errors: PQ001 no such queue, PQ005 no such worker, PQ014 the worker is stopped, 25001 in a transaction block or a function, 22004, 22023, 42501.';

CREATE PROCEDURE pgqrs_poll(worker_id bigint, timeout interval = '30 s', batch_size int = 1,
	held_ids bigint[] = '{}', held_leases bigint[] = '{}',
	INOUT work jsonb = NULL, INOUT held jsonb = NULL, INOUT worker_status text = NULL)
LANGUAGE c AS 'MODULE_PATHNAME', 'sql_poll';
COMMENT ON PROCEDURE pgqrs_poll(bigint, interval, int, bigint[], bigint[], jsonb, jsonb, text) IS
'one round trip of a worker''s loop: extends the leases in held_ids and held_leases, claims up to batch_size (0..10000; 0: none) messages, and if it has nothing to tell sleeps until it has, for timeout or a third of the shortest lease held at most (''0'': not at all). work: an array, in the order of claims, of objects with the columns of pgqrs_dequeue() and for a run steps, {step_id: {kind, status, output, error, undo}} of those that are SUCCESS or ERROR, oldest first; those over 4 MB are left out, and "steps_truncated" is true. held: an array in the order of held_ids of {message_id, state}; state is extended, cancel_requested (extended too) or gone. worker_status: READY or SUSPENDED. What an earlier poll of the worker claimed and this one does not name was not received: it is released without a failure. A newer poll of the worker ends this one. Only in autocommit mode: it commits before it sleeps. Errors: PQ005 no such worker, PQ014 the worker is stopped, 25001 in a transaction block or a function, 22004, 22023.';
