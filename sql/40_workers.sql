-- Workers.

CREATE FUNCTION pgqrs_register_worker(
	name text, queues text[], hostname text = NULL, port integer = NULL,
	version text = NULL, max_concurrent integer = NULL, labels jsonb = NULL
) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_register_worker';
COMMENT ON FUNCTION pgqrs_register_worker(text, text[], text, integer, text, integer, jsonb) IS
'Registers a worker of the current role and returns its id. queues: 1 to 10000 different patterns (a name, "billing.*", "*") of the queues that it serves; each claim checks its privileges. max_concurrent: the messages that it may hold (NULL: no limit). port 1..65535; name, hostname and version up to 255 bytes. A live worker of the same role and name is superseded: it is STOPPED, and its leases end like expired ones, with one failure. Waits for a transaction that has written that worker''s row. Errors: 22004, 22023, PQ008.';

CREATE FUNCTION pgqrs_heartbeat(worker_id bigint) RETURNS text
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_heartbeat';
COMMENT ON FUNCTION pgqrs_heartbeat(bigint) IS
'A heartbeat of the worker; returns READY or SUSPENDED. Every call that names a worker or is made under one of its leases counts as a heartbeat, except suspending and resuming it, which an operator does; with the library preloaded, also if its transaction rolls back. The worker''s row is written at most once per pgqrs.heartbeat_flush. Call it, or one of those, at least every third of pgqrs.worker_timeout. Errors: PQ005 for a worker that does not exist or belongs to another role (the extension''s owner and superusers reach all), PQ014 once it is STOPPED.';

CREATE FUNCTION pgqrs_extend_worker(
	worker_id bigint, visibility_timeout interval = NULL
) RETURNS TABLE (message_id bigint, run_id bigint, extended boolean, cancel_requested boolean)
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT ROWS 10
AS 'MODULE_PATHNAME', 'sql_extend_worker';
COMMENT ON FUNCTION pgqrs_extend_worker(bigint, interval) IS
'Extends every lease that the worker holds, also an expired one whose message was not claimed again, to now + visibility_timeout (NULL: each queue''s, but never earlier than before). Returns a row for each in the order of the ids; run_id is NULL for plain messages. extended = false: the lease was lost during the call; leases lost earlier are not listed, so use pgqrs_extend_leases() with the leases in hand. While another transaction is writing a message, extended is true and the end stays. Do not call it in a loop: it also keeps claims whose result was lost. Errors: PQ005, PQ014, 22023.';

CREATE FUNCTION pgqrs_suspend_worker(worker_id bigint) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_suspend_worker';
COMMENT ON FUNCTION pgqrs_suspend_worker(bigint) IS
'The worker gets no new messages and finishes those that it holds. No effect on a SUSPENDED worker. Waits for a transaction that has written the worker''s row. For the worker''s own role, the extension''s owner and superusers. Errors: PQ005, PQ014 for a STOPPED worker.';

CREATE FUNCTION pgqrs_resume_worker(worker_id bigint) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_resume_worker';
COMMENT ON FUNCTION pgqrs_resume_worker(bigint) IS
'Ends a suspension. No effect on a READY worker. Waits for a transaction that has written the worker''s row. For the worker''s own role, the extension''s owner and superusers. Errors: PQ005, PQ014 for a STOPPED worker, which is final.';

CREATE FUNCTION pgqrs_stop_worker(worker_id bigint) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_stop_worker';
COMMENT ON FUNCTION pgqrs_stop_worker(bigint) IS
'Stops a worker: its messages are claimable at once without a failure. Returns their number; 0 for a STOPPED worker. Waits for a transaction that has written the worker''s row. Does not wait for messages that another transaction has locked, such as an open step: their leases end like expired ones, at the latest when they expire. For the worker''s own role, the extension''s owner and superusers. Errors: PQ005.';
