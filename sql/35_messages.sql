-- Messages.

-- Claims start at a floor in shared memory, above dead index entries.  Rows that
-- are written without the functions, by hand, COPY or logical replication, lower it.
CREATE FUNCTION pgqrs_messages_written()
RETURNS trigger LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_messages_written';
COMMENT ON FUNCTION pgqrs_messages_written() IS
'row trigger of pgqrs_messages: claims must find rows that are written without the functions of pgqrs';
CREATE TRIGGER pgqrs_messages_written BEFORE INSERT OR UPDATE OR DELETE ON pgqrs_messages
	FOR EACH ROW EXECUTE FUNCTION pgqrs_messages_written();
ALTER TABLE pgqrs_messages ENABLE ALWAYS TRIGGER pgqrs_messages_written;
COMMENT ON TRIGGER pgqrs_messages_written ON pgqrs_messages IS
'lets claims find rows that are written without the functions of pgqrs';

CREATE FUNCTION pgqrs_enqueue(queue text, payload jsonb, delay interval = '0', run_at timestamptz = NULL,
	priority int = 0, idempotency_key text = NULL, headers jsonb = NULL, concurrency_key text = NULL,
	on_duplicate text = 'return')
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_enqueue';
COMMENT ON FUNCTION pgqrs_enqueue(text, jsonb, interval, timestamptz, int, text, jsonb, text, text) IS
'stores a message, part of the caller''s transaction, and returns its id. Claimable after delay or at run_at (not both; past counts as now), higher priority (-100..100) first. With an idempotency_key that a live message of the queue has: its id, or with on_duplicate => ''raise'' 23505, with ''null'' NULL. Errors: PQ001 no such queue, PQ016 the queue of a workflow, PQ008 payload or headers too large, 0A000 concurrency_key and on_duplicate => ''replace'' or ''replace_input'', not supported yet, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_enqueue_batch(queue text, payloads jsonb[], delay interval = '0', run_at timestamptz = NULL,
	priority int = 0, headers jsonb[] = NULL, idempotency_keys text[] = NULL, concurrency_keys text[] = NULL)
RETURNS bigint[] LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_enqueue_batch';
COMMENT ON FUNCTION pgqrs_enqueue_batch(text, jsonb[], interval, timestamptz, int, jsonb[], text[], text[]) IS
'stores up to 10000 messages in order and returns their ids in order, an empty array for no payloads; headers and idempotency_keys, if given, one per payload, each of which may be NULL, no key twice; for a key that is taken, the id of the message that has it is returned. One bad item fails the batch, naming its 1-based index. Errors as pgqrs_enqueue().';

-- A named type, since the row type of OUT parameters is built again by every call.
CREATE TYPE pgqrs_delivery AS (
	message_id bigint, queue text, lease bigint, attempt int, failures int, priority int,
	enqueued_at timestamptz, visible_after timestamptz, payload jsonb, headers jsonb,
	run_id bigint, workflow text, input jsonb, cancel_requested boolean
);
COMMENT ON TYPE pgqrs_delivery IS 'a claimed message as pgqrs_dequeue() returns it; visible_after is the end of its lease, cancel_requested is true for a run of a workflow with on_cancel => ''deliver'' that has to be undone';

CREATE FUNCTION pgqrs_dequeue(queue text = NULL, worker_id bigint = NULL, batch_size int = 1, visibility_timeout interval = NULL)
RETURNS SETOF pgqrs_delivery LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'sql_dequeue';
COMMENT ON FUNCTION pgqrs_dequeue(text, bigint, int, interval) IS
'claims up to batch_size (0..10000) messages of a queue, of all that match a pattern, or with NULL of all to which the worker subscribes (of at most 100 queues with max_in_flight), each under a new lease that ends at visible_after (NULL timeout: the queue''s). Commit right after it: an uncommitted claim is no claim. No rows: nothing is due, the queue is paused or at max_in_flight, the worker is suspended or at max_concurrent, or the call ended 1000 exhausted messages and stopped there. Errors: PQ001 no such queue, PQ005 no such worker, PQ014 the worker is stopped, 22023 the worker does not subscribe to the queue, 22004 neither given, 42501.';

CREATE FUNCTION pgqrs_archive_message(message_id bigint, lease bigint)
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_archive_message';
COMMENT ON FUNCTION pgqrs_archive_message(bigint, bigint) IS
'the message is done. true: by this call; false: by an earlier call under this lease (roll back repeated writes), as long as the queue''s retention keeps the message. Errors: PQ006 stale lease, PQ010 a cancelled run, PQ007 ended under it, PQ016 a run''s message, 42501.';

CREATE FUNCTION pgqrs_archive_messages(message_ids bigint[], leases bigint[])
RETURNS boolean[] LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_archive_messages';
COMMENT ON FUNCTION pgqrs_archive_messages(bigint[], bigint[]) IS
'the same for up to 10000 different messages; returns for each, in order, true: done by this call, false: by an earlier call, NULL: the lease is not the current one. Errors: PQ016 a run''s message, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_delete_message(message_id bigint, lease bigint)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_delete_message';
COMMENT ON FUNCTION pgqrs_delete_message(bigint, bigint) IS
'drops the message, which is archived as DELETED unless the queue''s retention is 0. Errors: PQ006 stale lease, PQ010 a cancelled run, PQ007 ended under it, PQ016 a run''s message, 42501.';

CREATE FUNCTION pgqrs_release_message(message_id bigint, lease bigint, delay interval = '0')
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_release_message';
COMMENT ON FUNCTION pgqrs_release_message(bigint, bigint, interval) IS
'ends the lease of a message or run without a failure; it can be claimed again after delay. Errors: PQ006 stale lease, PQ010 cancelled, PQ007 ended under it or past the run''s deadline, 42501.';

CREATE FUNCTION pgqrs_nack_message(message_id bigint, lease bigint, error jsonb = NULL, delay interval = NULL,
	retryable boolean = true)
RETURNS timestamptz LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_nack_message';
COMMENT ON FUNCTION pgqrs_nack_message(bigint, bigint, jsonb, interval, boolean) IS
'the message failed: counts a failure and returns when it can be claimed again, by default after min(60 s, 1 s * 2^(failures-1)) +- 25 %; NULL: the message is exhausted (the queue''s max_attempts-th failure) or not retryable, and now a dead letter. Errors: PQ006 stale lease, PQ010 a cancelled run, PQ007 ended under it, PQ016 a run''s message, 42501.';

CREATE FUNCTION pgqrs_extend_lease(message_id bigint, lease bigint, visibility_timeout interval = NULL,
	OUT extended boolean, OUT cancel_requested boolean)
RETURNS record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_extend_lease';
COMMENT ON FUNCTION pgqrs_extend_lease(bigint, bigint, interval) IS
'moves the end of the lease to now + visibility_timeout, also if that is earlier; NULL: the queue''s, but never earlier than before. While another transaction is writing the message, extended is true and the end stays: extend again in time. extended is false for a stale lease, past the run''s deadline, and for an expired lease if max_in_flight or max_concurrent leave no room: stop the work. Errors: 22023, 42501.';

CREATE FUNCTION pgqrs_extend_leases(message_ids bigint[], leases bigint[], visibility_timeout interval = NULL)
RETURNS TABLE (message_id bigint, extended boolean, cancel_requested boolean)
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'sql_extend_leases';
COMMENT ON FUNCTION pgqrs_extend_leases(bigint[], bigint[], interval) IS
'the same for up to 10000 different messages, one row each in order. Errors: 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_set_visibility(message_id bigint, visible_after timestamptz)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_set_visibility';
COMMENT ON FUNCTION pgqrs_set_visibility(bigint, timestamptz) IS
'for operators: the message can be claimed at visible_after (past counts as now); revokes a lease without a failure. Errors: PQ004 no such live message, 22023 infinity, 42501.';

CREATE FUNCTION pgqrs_replay_message(message_id bigint, payload jsonb = NULL)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_replay_message';
COMMENT ON FUNCTION pgqrs_replay_message(bigint, jsonb) IS
'a dead letter becomes claimable again under the same id, without attempts and failures; payload replaces its payload unless NULL (of a run: 22023, use pgqrs_rerun()). A run in ERROR goes back to QUEUED: finished steps stay, failed ones may run again, a new deadline is set. An undo that failed goes on. Errors: PQ004 no such message, PQ008 payload too large, PQ016 not a dead letter, its run was undone, or its idempotency key is taken, 42501.';

CREATE FUNCTION pgqrs_replay_queue(queue text, max_rows int = NULL, error_type text = NULL)
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_replay_queue';
COMMENT ON FUNCTION pgqrs_replay_queue(text, int, text) IS
'replays up to max_rows (NULL: all) dead letters of a queue, oldest first, with error_type only those whose last error has that type; skips those that cannot be replayed, and returns the number of replayed ones. Errors: PQ001 no such queue, 22023, 42501.';

CREATE FUNCTION pgqrs_dismiss_dead_letter(message_id bigint)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_dismiss_dead_letter';
COMMENT ON FUNCTION pgqrs_dismiss_dead_letter(bigint) IS
'drops a dead letter. Its run stays in ERROR and can no longer be replayed. Needs admin on its queue. Errors: PQ004 no such message, PQ016 not a dead letter, 22004, 42501.';

CREATE FUNCTION pgqrs_purge_dead_letters(queue text, older_than interval)
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_purge_dead_letters';
COMMENT ON FUNCTION pgqrs_purge_dead_letters(text, interval) IS
'drops the dead letters of a queue that ended longer than older_than ago, and returns their number. Runs stay and can no longer be replayed. Errors: PQ001 no such queue, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_consume(queue text, handler text, batch_size int = 1)
RETURNS int LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_consume';
COMMENT ON FUNCTION pgqrs_consume(text, text, int) IS
'claims up to batch_size (0..10000) messages of a queue, calls handler, a function that takes one jsonb, with the payload of each, and archives them, all in the caller''s transaction, so that what the handler writes happens exactly once; returns the number of messages that the handler processed. If it fails, its changes for that message are rolled back and the message is nacked with {"type": SQLSTATE, "message"}; serialization failures, deadlocks and cancelled queries are raised to the caller. Errors: PQ001 no such queue, PQ016 the queue of a workflow, 42602 no name of a function, 42883 no such function, 22004, 22023, 42501.';
