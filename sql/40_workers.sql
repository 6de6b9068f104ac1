-- Workers.

CREATE FUNCTION pgqrs_register_worker(
	name text, queues text[], hostname text = NULL, port integer = NULL,
	version text = NULL, max_concurrent integer = NULL, labels jsonb = NULL
) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_register_worker';
COMMENT ON FUNCTION pgqrs_register_worker(text, text[], text, integer, text, integer, jsonb) IS
'Registers a worker of the current role and returns its id. queues: 1 to 10000 different patterns (a name, "billing.*", "*") of what it will serve; what it may take is checked by each claim. max_concurrent: how many messages it holds at most (NULL: no limit). port 1..65535; name, hostname and version up to 255 bytes. A live worker of the same role and name is superseded: it is STOPPED, and what it holds ends as an expired lease does, with one failure. Waits for a transaction that has written that worker''s row. Errors: 22004, 22023, PQ008.';

CREATE FUNCTION pgqrs_heartbeat(worker_id bigint) RETURNS text
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_heartbeat';
COMMENT ON FUNCTION pgqrs_heartbeat(bigint) IS
'A worker''s sign of life; returns READY or SUSPENDED. Every call that names a worker or is made under one of its leases counts as one too, also if its transaction rolls back where the library is preloaded; the worker''s row is written at most once per pgqrs.heartbeat_flush. Call it, or one of those, at least every third of pgqrs.worker_timeout. Errors: PQ005 for a worker that does not exist or belongs to another role (the extension''s owner and superusers reach all), PQ014 once it is STOPPED.';

CREATE FUNCTION pgqrs_extend_worker(
	worker_id bigint, visibility_timeout interval = NULL
) RETURNS TABLE (message_id bigint, run_id bigint, extended boolean, cancel_requested boolean)
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT ROWS 10
AS 'MODULE_PATHNAME', 'sql_extend_worker';
COMMENT ON FUNCTION pgqrs_extend_worker(bigint, interval) IS
'Extends every lease that the worker holds, also one that has run out but was not claimed by another, to now + visibility_timeout (NULL: each queue''s, but never earlier than before), and answers for each in the order of the ids; run_id is NULL for plain messages. extended = false: the lease was lost just now; what was lost before is not listed, so ask with pgqrs_extend_leases() of what is worked on. While another transaction is writing a message, extended is true and the end stays. Do not call it in a loop: it also keeps a claim whose answer was lost. Errors: PQ005, PQ014, 22023.';

CREATE FUNCTION pgqrs_suspend_worker(worker_id bigint) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_suspend_worker';
COMMENT ON FUNCTION pgqrs_suspend_worker(bigint) IS
'The worker gets nothing new and finishes what it holds. Again: no effect. Waits for a transaction that has written the worker''s row. For the worker''s own role, the extension''s owner and superusers. Errors: PQ005, PQ014 for a STOPPED worker.';

CREATE FUNCTION pgqrs_resume_worker(worker_id bigint) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_resume_worker';
COMMENT ON FUNCTION pgqrs_resume_worker(bigint) IS
'Ends a suspension. Again: no effect. Waits for a transaction that has written the worker''s row. For the worker''s own role, the extension''s owner and superusers. Errors: PQ005, PQ014 for a STOPPED worker, which is final.';

CREATE FUNCTION pgqrs_stop_worker(worker_id bigint) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_stop_worker';
COMMENT ON FUNCTION pgqrs_stop_worker(bigint) IS
'A worker''s clean exit: it is STOPPED, what it holds is claimable at once without a failure. Returns how many messages; 0 for a worker that is STOPPED already. Waits for a transaction that has written the worker''s row. What another transaction has locked, such as an open step, is not waited for: it ends as an expired lease does, at the latest when it runs out. For the worker''s own role, the extension''s owner and superusers. Errors: PQ005.';
