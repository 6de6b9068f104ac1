-- Calls that do what two others do, in one round trip and one commit.

CREATE FUNCTION pgqrs_next(worker_id bigint = NULL, queue text = NULL, batch_size int = 1, visibility_timeout interval = NULL,
	done_ids bigint[] = '{}', done_leases bigint[] = '{}', outputs jsonb[] = NULL)
RETURNS SETOF pgqrs_delivery LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'sql_next';
COMMENT ON FUNCTION pgqrs_next(bigint, text, int, interval, bigint[], bigint[], jsonb[]) IS
'ends the items of done_ids (archives messages, completes runs with outputs, one each, NULL as JSON null) and then claims as pgqrs_dequeue() does; what has ended holds no place of max_concurrent or max_in_flight any more. An item that ended before under the same lease is done. An item that is refused changes nothing and has a row before the claimed ones, in order of id: its message_id, payload {"sqlstate": "PQ006"} (or PQ007, PQ010, 42501, as pgqrs_archive_message() and pgqrs_complete_run()), all else NULL. A suspended worker ends and claims nothing. Commit right after it. Errors, after which nothing is done: PQ001 no such queue, PQ005 no such worker, PQ008 an output is too large, PQ014 the worker is stopped, 22023 the worker does not subscribe to the queue, 22004, 42501.';

CREATE FUNCTION pgqrs_start(workflow text, input jsonb = NULL, worker_id bigint = NULL, idempotency_key text = NULL,
	delay interval = '0', run_at timestamptz = NULL, priority int = 0, timeout interval = NULL, tags jsonb = NULL,
	headers jsonb = NULL, retry_policy jsonb = NULL, on_duplicate text = 'return', require_worker boolean = false,
	concurrency_key text = NULL)
RETURNS SETOF pgqrs_delivery LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'sql_start';
COMMENT ON FUNCTION pgqrs_start(text, jsonb, bigint, text, interval, timestamptz, int, interval, jsonb, jsonb, jsonb, text, boolean, text) IS
'triggers a run as pgqrs_trigger() does and claims it for the caller, in one transaction. Returns one row, as pgqrs_dequeue(). If the run cannot be the caller''s it is triggered all the same, and the row has message_id, run_id, queue and workflow only, lease NULL: the idempotency_key has a run, the workflow is paused or at max_in_flight, the worker is suspended or at max_concurrent, or timeout has passed. No row: on_duplicate => ''null'' and the key has a run. Needs trigger and work on the workflow. Errors: PQ002 no such workflow, PQ005 no such worker, PQ008 too large, PQ013 with require_worker, PQ014 the worker is stopped, 0A000 concurrency_key and on_duplicate => ''replace'' or ''replace_input'', not supported yet, 22023 delay or run_at is given, or the worker does not subscribe to the workflow, 23505 with on_duplicate => ''raise'', 22004, 42501.';

CREATE FUNCTION pgqrs_step_next(run_id bigint, lease bigint, step_id text, output jsonb, next_step text,
	started_at timestamptz = NULL, next_input jsonb = NULL, OUT stored boolean, OUT should_execute boolean,
	OUT status text, OUT output jsonb, OUT error jsonb, OUT attempt int, OUT cancel_requested boolean)
RETURNS record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_step_next';
COMMENT ON FUNCTION pgqrs_step_next(bigint, bigint, text, jsonb, text, timestamptz, jsonb) IS
'completes a step with output as pgqrs_step_complete() does (stored: by this call) and begins next_step with next_input as pgqrs_step_begin() does (the other columns), in one transaction. If the cancellation of the run was requested, it stores, begins nothing and cancel_requested is true: call pgqrs_acknowledge_cancel(). A repeated call under the same lease returns the same, but stored. Errors, after which neither step is written: PQ003 no such run, PQ006 stale lease, PQ010 cancelled, PQ007 ended or past its deadline, PQ016 a step has failed or is of another kind, PQ008 too large, 22023 the two steps are the same, 22004, 42501.';
