-- Runs that wait.  Each of these steps gives the run back until it may go on;
-- the handler calls it again after every delivery.

CREATE FUNCTION pgqrs_pause_run(run_id bigint, lease bigint, step_id text, check_after interval = '1 hour', reason jsonb = NULL,
	OUT resumed boolean, OUT output jsonb)
RETURNS record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_pause_run';
COMMENT ON FUNCTION pgqrs_pause_run(bigint, bigint, text, interval, jsonb) IS
'a step that waits for pgqrs_resume_run(). false: the run is PAUSED, the lease is given up; leave the handler. It is delivered when it was resumed, and after check_after, to look by itself; then call this again. true: it was resumed; go on with output. Errors: PQ003 no such run, PQ006 stale lease, PQ010 cancelled or asked to be, PQ007 ended or past its deadline, PQ016 a step of another kind, PQ008 too large, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_resume_run(run_id bigint, step_id text = NULL, output jsonb = NULL)
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_resume_run';
COMMENT ON FUNCTION pgqrs_resume_run(bigint, text, jsonb) IS
'ends a pause: the step succeeds with output (NULL is stored as JSON null), and a run that is parked at it can be claimed at once. Also before the pause has begun: it is kept, and pgqrs_pause_run() does not wait; if the step turns out to be of another kind, the resume is dropped. Without a step: the one whose pause the run is parked at. false: nothing was to be done. Errors: PQ003 no such run, PQ016 the run has ended, or a step of another kind, PQ008 too large, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_sleep(run_id bigint, lease bigint, step_id text, duration interval = NULL, until timestamptz = NULL)
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_sleep';
COMMENT ON FUNCTION pgqrs_sleep(bigint, bigint, text, interval, timestamptz) IS
'a step that lets time pass: duration, or until an instant (one of them). The first call fixes when it ends. false: the run is PAUSED until then, the lease is given up; leave the handler and call this again after the next delivery. true: that time has come. Errors: PQ003 no such run, PQ006 stale lease, PQ010 cancelled or asked to be, PQ007 ended or past its deadline, PQ016 a step of another kind, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_await_signal(run_id bigint, lease bigint, step_id text, signal text, timeout interval = NULL,
	OUT received boolean, OUT timed_out boolean, OUT payload jsonb, OUT headers jsonb)
RETURNS record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_await_signal';
COMMENT ON FUNCTION pgqrs_await_signal(bigint, bigint, text, text, interval) IS
'a step that takes the oldest signal of that name which no other step took, sent before or after. received: go on with payload (JSON null if it has none) and headers (NULL if it has none). timed_out: none came within timeout (NULL: wait for ever) of the first call; go on without. Neither: the run is PAUSED, the lease is given up; leave the handler and call this again after the next delivery. Errors: PQ003 no such run, PQ006 stale lease, PQ010 cancelled or asked to be, PQ007 ended or past its deadline, PQ016 a step of another kind, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_signal(run_id bigint, signal text, payload jsonb = NULL, idempotency_key text = NULL, headers jsonb = NULL)
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_signal';
COMMENT ON FUNCTION pgqrs_signal(bigint, text, jsonb, text, jsonb) IS
'sends a signal to a run, whether or not it waits for it, part of the caller''s transaction, and returns its id. With an idempotency_key that a signal to that run has, also one that was taken: its id. Errors: PQ003 no such run, PQ016 the run has ended, PQ008 too large, 22004, 22023, 42501.';

-- Children.

CREATE FUNCTION pgqrs_start_child(run_id bigint, lease bigint, step_id text, workflow text, input jsonb = NULL, idempotency_key text = NULL,
	delay interval = '0', run_at timestamptz = NULL, priority int = NULL, timeout interval = NULL, tags jsonb = NULL, headers jsonb = NULL,
	retry_policy jsonb = NULL, on_duplicate text = 'return', require_worker boolean = false, concurrency_key text = NULL,
	on_parent_end text = 'cancel')
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_start_child';
COMMENT ON FUNCTION pgqrs_start_child(bigint, bigint, text, text, jsonb, text, interval, timestamptz, int, interval, jsonb, jsonb, jsonb, text, boolean, text, text) IS
'a step that starts a run of a workflow as a child, once, and returns its id, whenever it is called. With on_duplicate => ''null'' and a key that is taken there is no child: the step has succeeded, and NULL is returned. As pgqrs_trigger(), but the priority (NULL) is that of the parent, and the deadline no later than its. When the parent ends in ERROR or CANCELLED, the child is cancelled, or with on_parent_end => ''abandon'' goes on, and has only its own deadline. With the key of a run that is there already, that run becomes its child too: it is cancelled when the last parent that holds it ends so. Needs the privilege trigger on the child''s workflow. Errors: PQ003 no such run, PQ006 stale lease, PQ010 cancelled or asked to be, PQ007 ended or past its deadline, PQ016 a step of another kind, and those of pgqrs_trigger().';

CREATE FUNCTION pgqrs_start_children(run_id bigint, lease bigint, step_id text, workflow text, inputs jsonb[],
	idempotency_keys text[] = NULL, priority int = NULL, timeout interval = NULL, tags jsonb = NULL, on_parent_end text = 'cancel')
RETURNS bigint[] LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_start_children';
COMMENT ON FUNCTION pgqrs_start_children(bigint, bigint, text, text, jsonb[], text[], int, interval, jsonb, text) IS
'the same for up to 10000 children in order; returns their ids. idempotency_keys, if given, one per input, each of which may be NULL; priority, timeout, tags and on_parent_end are those of all. Of none the step has succeeded with an empty list. Repeated with another number of inputs: PQ016. They are the steps step_id[1] to step_id[n], for pgqrs_await_child(), and step_id stands for all of them, for pgqrs_await_children(). Errors as pgqrs_start_child().';

CREATE FUNCTION pgqrs_await_child(run_id bigint, lease bigint, step_id text,
	OUT done boolean, OUT status text, OUT output jsonb, OUT error jsonb)
RETURNS record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_await_child';
COMMENT ON FUNCTION pgqrs_await_child(bigint, bigint, text) IS
'waits for the child that was started as that step. done: it has ended; status is SUCCESS, with output, or ERROR or CANCELLED, with error. Not done: the run is PAUSED, the lease is given up; leave the handler and call this again after the next delivery. Errors: PQ003 no such run, PQ006 stale lease, PQ010 cancelled or asked to be, PQ007 ended or past its deadline, PQ016 no child was started as that step, or a step of another kind, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_await_children(run_id bigint, lease bigint, step_id text, mode text = 'all',
	OUT done boolean, OUT results jsonb)
RETURNS record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_await_children';
COMMENT ON FUNCTION pgqrs_await_children(bigint, bigint, text, text) IS
'waits until all of the children that were started together have ended, or with mode => ''any'' until one has, however it ended. results: [{"run_id", "status", "output", "error"}] of all of them, in order; those that have not ended have their status of that moment. Not done and errors: as pgqrs_await_child().';

-- Cancelling, deleting, running again.

CREATE FUNCTION pgqrs_cancel_run(run_id bigint, reason text = NULL)
RETURNS text LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_cancel_run';
COMMENT ON FUNCTION pgqrs_cancel_run(bigint, text) IS
'cancels a run and returns its status after that. CANCELLED: nobody held a live lease on it. RUNNING: the worker that does was asked to stop: from now on its calls that would begin something get PQ010, extending tells it, and the run is CANCELLED when the worker says so, fails, or loses its lease; if it completes the run after all, that counts. A run that has ended stays as it is. Live children follow, unless they were started with on_parent_end => ''abandon''. Errors: PQ003 no such run, 22004, 42501.';

CREATE FUNCTION pgqrs_cancel_runs(workflow text, status text = NULL, tags jsonb = NULL, max_rows int = 1000, reason text = NULL,
	error_type text = NULL, created_after timestamptz = NULL, created_before timestamptz = NULL, after_run_id bigint = NULL)
RETURNS TABLE (changed bigint, skipped bigint, last_run_id bigint) LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'sql_cancel_runs';
COMMENT ON FUNCTION pgqrs_cancel_runs(text, text, jsonb, int, text, text, timestamptz, timestamptz, bigint) IS
'the same for up to max_rows live runs of a workflow in one transaction, in ascending order of their ids: those after after_run_id, with that status, whose tags contain tags, whose last error has that type, created from created_after on and before created_before; NULL: any. Those that were asked before are passed over. changed: how many were cancelled or asked to stop; skipped: how many another transaction ended, or asked to stop, before it was their turn; last_run_id: call it again with this as after_run_id, until it is NULL: no more match. Reads all live runs of the workflow. Errors: PQ002 no such workflow, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_acknowledge_cancel(run_id bigint, lease bigint, output jsonb = NULL)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_acknowledge_cancel';
COMMENT ON FUNCTION pgqrs_acknowledge_cancel(bigint, bigint, jsonb) IS
'the worker has stopped and cleaned up: the run that was asked to stop is CANCELLED now, with that output if there is one. Repeated under the same lease it changes nothing. Errors: PQ003 no such run, PQ006 stale lease, PQ007 ended otherwise or past its deadline, PQ016 not asked to stop, PQ008 too large, 22004, 42501.';

CREATE FUNCTION pgqrs_delete_run(run_id bigint, reason text = NULL)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_delete_run';
COMMENT ON FUNCTION pgqrs_delete_run(bigint, text) IS
'marks a run as deleted: it is found by its id only, its idempotency key is free, its dead letter is dropped. A live one is CANCELLED first, even if a worker holds it. Repeated it changes nothing. Errors: PQ003 no such run, 22004, 42501.';

CREATE FUNCTION pgqrs_rerun(run_id bigint, input jsonb = NULL, from_step text = NULL, keep_finished boolean = false)
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_rerun';
COMMENT ON FUNCTION pgqrs_rerun(bigint, jsonb, text, boolean) IS
'starts a new run of the workflow of a run that has ended, however it ended, and returns its id: with that run''s input (unless one is given), priority, tags, headers, retry policy and timeout, without its idempotency key and parent. From the start; or from a step: those that succeeded and were started before it are kept, with their outputs; or with keep_finished, all that succeeded are, but for from_step. Errors: PQ003 no such run, PQ016 it has not ended, PQ008 too large, 22023 no such step, 22004, 42501.';
