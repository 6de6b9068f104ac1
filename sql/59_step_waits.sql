-- Runs that wait.  Each of these steps ends the lease until its wait is over; the
-- handler calls it again after each delivery.

CREATE FUNCTION pgqrs_pause_run(run_id bigint, lease bigint, step_id text, check_after interval = '1 hour', reason jsonb = NULL,
	OUT resumed boolean, OUT output jsonb)
RETURNS record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_pause_run';
COMMENT ON FUNCTION pgqrs_pause_run(bigint, bigint, text, interval, jsonb) IS
'a step that waits for pgqrs_resume_run(). false: the run is PAUSED and the lease has ended; leave the handler. The run is delivered when it is resumed, and after check_after, so that the handler can check by itself; then call this again. true: resumed; continue with output. Errors: PQ003 no such run, PQ006 stale lease, PQ010 cancelled or cancellation requested, PQ007 ended or past its deadline, PQ016 a step of another kind, PQ008 too large, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_resume_run(run_id bigint, step_id text = NULL, output jsonb = NULL)
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_resume_run';
COMMENT ON FUNCTION pgqrs_resume_run(bigint, text, jsonb) IS
'ends a pause: the step succeeds with output (NULL is stored as JSON null), and a run that waits in it can be claimed at once. A resume before the pause has begun is kept, and pgqrs_pause_run() does not wait; if the step begins as another kind, the resume is dropped. step_id NULL: the pause in which the run waits. false: no effect. Errors: PQ003 no such run, PQ016 the run has ended, or a step of another kind, PQ008 too large, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_sleep(run_id bigint, lease bigint, step_id text, duration interval = NULL, until timestamptz = NULL)
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_sleep';
COMMENT ON FUNCTION pgqrs_sleep(bigint, bigint, text, interval, timestamptz) IS
'a step that sleeps for a duration, or until an instant (one of them). The first call sets the end. false: the run is PAUSED until then and the lease has ended; leave the handler and call this again after the next delivery. true: the sleep has ended. Errors: PQ003 no such run, PQ006 stale lease, PQ010 cancelled or cancellation requested, PQ007 ended or past its deadline, PQ016 a step of another kind, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_await_signal(run_id bigint, lease bigint, step_id text, signal text, timeout interval = NULL,
	OUT received boolean, OUT timed_out boolean, OUT payload jsonb, OUT headers jsonb)
RETURNS record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_await_signal';
COMMENT ON FUNCTION pgqrs_await_signal(bigint, bigint, text, text, interval) IS
'a step that consumes the oldest signal of that name that no other step has consumed, sent before or after the call. received: continue with payload (JSON null if it has none) and headers (NULL if it has none). timed_out: no signal came within timeout (NULL: no limit) of the first call. Neither: the run is PAUSED and the lease has ended; leave the handler and call this again after the next delivery. Errors: PQ003 no such run, PQ006 stale lease, PQ010 cancelled or cancellation requested, PQ007 ended or past its deadline, PQ016 a step of another kind, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_signal(run_id bigint, signal text, payload jsonb = NULL, idempotency_key text = NULL, headers jsonb = NULL)
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_signal';
COMMENT ON FUNCTION pgqrs_signal(bigint, text, jsonb, text, jsonb) IS
'sends a signal to a live run, waiting or not, as part of the caller''s transaction, and returns its id. With an idempotency_key that a signal to that run has, consumed or not: the id of that signal. Errors: PQ003 no such run, PQ016 the run has ended, PQ008 too large, 22004, 22023, 42501.';

-- Children.

CREATE FUNCTION pgqrs_start_child(run_id bigint, lease bigint, step_id text, workflow text, input jsonb = NULL, idempotency_key text = NULL,
	delay interval = '0', run_at timestamptz = NULL, priority int = NULL, timeout interval = NULL, tags jsonb = NULL, headers jsonb = NULL,
	retry_policy jsonb = NULL, on_duplicate text = 'return', require_worker boolean = false, concurrency_key text = NULL,
	on_parent_end text = 'cancel')
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_start_child';
COMMENT ON FUNCTION pgqrs_start_child(bigint, bigint, text, text, jsonb, text, interval, timestamptz, int, interval, jsonb, jsonb, jsonb, text, boolean, text, text) IS
'a step that starts a run of a workflow as a child, once; each call returns the id of that child. With on_duplicate => ''null'' and a key that is taken no child is started: the step has succeeded, and NULL is returned. Like pgqrs_trigger(), but priority NULL is that of the parent, and the deadline is no later than the parent''s. When the parent ends in ERROR or CANCELLED, the child is cancelled; with on_parent_end => ''abandon'' it continues, and has only its own deadline. An existing run with the key becomes a child of this run, too: it is cancelled when its last parent that has not abandoned it ends so. Needs the privilege trigger on the child''s workflow. Errors: PQ003 no such run, PQ006 stale lease, PQ010 cancelled or cancellation requested, PQ007 ended or past its deadline, PQ016 a step of another kind, and those of pgqrs_trigger().';

CREATE FUNCTION pgqrs_start_children(run_id bigint, lease bigint, step_id text, workflow text, inputs jsonb[],
	idempotency_keys text[] = NULL, priority int = NULL, timeout interval = NULL, tags jsonb = NULL, on_parent_end text = 'cancel')
RETURNS bigint[] LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_start_children';
COMMENT ON FUNCTION pgqrs_start_children(bigint, bigint, text, text, jsonb[], text[], int, interval, jsonb, text) IS
'the same for up to 10000 children in order; returns their ids. idempotency_keys, if given, one per input, each of which may be NULL; all children share priority, timeout, tags and on_parent_end. Without inputs the step has succeeded with an empty list. A repeated call with another number of inputs: PQ016. The children are the steps step_id[1] to step_id[n], for pgqrs_await_child(), and step_id is the step of all of them, for pgqrs_await_children(). Errors as pgqrs_start_child().';

CREATE FUNCTION pgqrs_await_child(run_id bigint, lease bigint, step_id text,
	OUT done boolean, OUT status text, OUT output jsonb, OUT error jsonb)
RETURNS record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_await_child';
COMMENT ON FUNCTION pgqrs_await_child(bigint, bigint, text) IS
'waits for the child that was started as that step. done: the child has ended; status is SUCCESS, with output, or ERROR or CANCELLED, with error. Not done: the run is PAUSED and the lease has ended; leave the handler and call this again after the next delivery. Errors: PQ003 no such run, PQ006 stale lease, PQ010 cancelled or cancellation requested, PQ007 ended or past its deadline, PQ016 no child was started as that step, or a step of another kind, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_await_children(run_id bigint, lease bigint, step_id text, mode text = 'all',
	OUT done boolean, OUT results jsonb)
RETURNS record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_await_children';
COMMENT ON FUNCTION pgqrs_await_children(bigint, bigint, text, text) IS
'waits until all of the children that were started together have ended, or with mode => ''any'' until one has, in any status. results: [{"run_id", "status", "output", "error"}] of all children, in order; those that have not ended have their current status. Not done and errors: as pgqrs_await_child().';

CREATE FUNCTION pgqrs_await_any(run_id bigint, lease bigint, step_id text, signals text[] = '{}', children text[] = '{}', timeout interval = NULL,
	OUT ready boolean, OUT source text, OUT name text, OUT payload jsonb)
RETURNS record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_await_any';
COMMENT ON FUNCTION pgqrs_await_any(bigint, bigint, text, text[], text[], interval) IS
'a step that waits for the first of several: signals of these names, children that were started as these steps, timeout (NULL: no limit). ready: source is signal, child or timeout, name is that of the signal or the child''s step id, payload is that of the signal or {"status", "output", "error"} of the child. What is there when it is called wins over a timeout that has passed; of several the one that was sent or ended first. A signal is consumed as by pgqrs_await_signal(). A child is not: pgqrs_await_child() returns its end, too; later calls for other steps leave it out. Not ready: the run is PAUSED and the lease has ended; leave the handler and call this again after the next delivery. Each array has at most 10000 elements. Errors: PQ003 no such run, PQ006 stale lease, PQ010 cancelled or cancellation requested, PQ007 ended or past its deadline, PQ016 no child was started as one of the steps, or a step of another kind, 22004, 22023 also if there is nothing to wait for, 42501.';

-- Cancelling, deleting, running again.

CREATE FUNCTION pgqrs_cancel_run(run_id bigint, reason text = NULL)
RETURNS text LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_cancel_run';
COMMENT ON FUNCTION pgqrs_cancel_run(bigint, text) IS
'cancels a run and returns its new status. CANCELLED: the run was not under a live lease. RUNNING: the worker that holds the lease was asked to stop: its calls that begin a step or a wait get PQ010, extending reports it, and the run is CANCELLED when the worker acknowledges, fails, or loses its lease; if the worker completes the run, that counts. Of a workflow with on_cancel => ''deliver'' a run that was claimed before does not end: it becomes claimable once no lease is live, and is delivered with cancel_requested to be undone; its status is returned; another call changes nothing. An ended run stays as it is. Live children are cancelled, too, unless they were started with on_parent_end => ''abandon''. Errors: PQ003 no such run, 22004, 42501.';

CREATE FUNCTION pgqrs_cancel_runs(workflow text, status text = NULL, tags jsonb = NULL, max_rows int = 1000, reason text = NULL,
	error_type text = NULL, created_after timestamptz = NULL, created_before timestamptz = NULL, after_run_id bigint = NULL)
RETURNS TABLE (changed bigint, skipped bigint, last_run_id bigint) LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'sql_cancel_runs';
COMMENT ON FUNCTION pgqrs_cancel_runs(text, text, jsonb, int, text, text, timestamptz, timestamptz, bigint) IS
'the same for up to max_rows live runs of a workflow in one transaction, in ascending order of their ids: those after after_run_id, with that status, whose tags contain tags, whose last error has that type, created from created_after on and before created_before; NULL: any. Runs whose worker was asked before are skipped. changed: the number of runs that were cancelled or whose worker was asked to stop; skipped: of runs that another transaction ended or asked first; last_run_id: pass it as after_run_id to continue, until it is NULL. Reads all live runs of the workflow. Errors: PQ002 no such workflow, PQ008 tags too large, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_replay_runs(workflow text, status text = NULL, tags jsonb = NULL, error_type text = NULL,
	created_after timestamptz = NULL, created_before timestamptz = NULL, after_run_id bigint = NULL, max_rows int = 1000)
RETURNS TABLE (changed bigint, skipped bigint, last_run_id bigint) LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'sql_replay_runs';
COMMENT ON FUNCTION pgqrs_replay_runs(text, text, jsonb, text, timestamptz, timestamptz, bigint, int) IS
'replays as pgqrs_replay_message() up to max_rows runs in ERROR of a workflow in one transaction, in ascending order of their ids: those after after_run_id, whose tags contain tags, whose error has that type, created from created_after on and before created_before; NULL: any. status: NULL or ERROR, since runs of another status cannot be replayed. changed: the number of replayed runs; skipped: of runs that cannot be replayed or that another transaction changed; last_run_id: pass it as after_run_id to continue, until it is NULL. Needs admin on the workflow. Errors: PQ002 no such workflow, PQ008 tags too large, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_rerun_runs(workflow text, status text = NULL, tags jsonb = NULL, error_type text = NULL,
	created_after timestamptz = NULL, created_before timestamptz = NULL, after_run_id bigint = NULL, max_rows int = 1000, from_failed boolean = true)
RETURNS TABLE (changed bigint, skipped bigint, last_run_id bigint) LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'sql_rerun_runs';
COMMENT ON FUNCTION pgqrs_rerun_runs(text, text, jsonb, text, timestamptz, timestamptz, bigint, int, boolean) IS
'starts a new run as pgqrs_rerun() for each of up to max_rows ended runs of a workflow, with the filters and the result of pgqrs_replay_runs(). status: NULL means ERROR. from_failed: the new runs keep the finished steps and begin with the step that failed; false: they begin anew. A run that has a rerun is skipped. Needs trigger on the workflow. Errors: PQ002 no such workflow, PQ008 tags too large, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_acknowledge_cancel(run_id bigint, lease bigint, output jsonb = NULL)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_acknowledge_cancel';
COMMENT ON FUNCTION pgqrs_acknowledge_cancel(bigint, bigint, jsonb) IS
'the worker acknowledges a request to cancel, after its cleanup: the run is CANCELLED now, with that output unless NULL. Of a workflow with on_cancel => ''deliver'' a lease from before the request ends, and the run is delivered to be undone; under a lease of that delivery the run ends, CANCELLED, or for a deadline in ERROR with the type timeout. A repeated call under the same lease has no effect. Errors: PQ003 no such run, PQ006 stale lease, PQ007 ended otherwise or past its deadline, PQ016 not asked to stop, PQ008 too large, 22004, 42501.';

CREATE FUNCTION pgqrs_advance(run_id bigint, by interval)
RETURNS timestamptz LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_advance';
COMMENT ON FUNCTION pgqrs_advance(bigint, interval) IS
'lets the time of a waiting run pass, for tests and operators: moves the instant of its next claim (start, wake-up, retry), the time-outs of the steps in which it waits, and its own deadline earlier by so much, but not before now. Returns when it can be claimed then; infinity: when a signal comes or a child ends. Children keep their deadlines. Needs admin on the workflow. Waits for a transaction that changes the run. Errors: PQ003 no such run, PQ016 the run is under a lease or has ended, 22004, 22023 by is negative, 42501.';

CREATE FUNCTION pgqrs_delete_run(run_id bigint, reason text = NULL)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_delete_run';
COMMENT ON FUNCTION pgqrs_delete_run(bigint, text) IS
'marks a run as deleted: only its id finds it, its idempotency key is free, its dead letter is dropped. A live run is CANCELLED first, also under a live lease. A repeated call has no effect. Errors: PQ003 no such run, 22004, 42501.';

CREATE FUNCTION pgqrs_rerun(run_id bigint, input jsonb = NULL, from_step text = NULL, keep_finished boolean = false)
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_rerun';
COMMENT ON FUNCTION pgqrs_rerun(bigint, jsonb, text, boolean) IS
'starts a new run with the workflow, input (unless one is given), priority, tags, headers, retry policy and timeout of an ended run, without its idempotency key and parent, and returns the new run''s id. The new run executes all steps; with from_step it keeps the steps that succeeded and were started before that step, with their outputs; with keep_finished it keeps all steps that succeeded, except from_step; steps of an undo are not kept. Errors: PQ003 no such run, PQ016 the run has not ended, or is to keep steps that were undone, PQ008 too large, 22023 no such step, 22004, 42501.';
