-- Runs that wait.  Each of these steps gives the run back until it may go on;
-- the handler calls it again after every delivery.

CREATE FUNCTION pgqrs_pause_run(run_id bigint, lease bigint, step_id text, check_after interval = '1 hour', reason jsonb = NULL,
	OUT resumed boolean, OUT output jsonb)
RETURNS record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgqrs_pause_run';
COMMENT ON FUNCTION pgqrs_pause_run(bigint, bigint, text, interval, jsonb) IS
'a step that waits for pgqrs_resume_run(). false: the run is PAUSED, the lease is given up; leave the handler. It is delivered when it was resumed, and after check_after, to look by itself; then call this again. true: it was resumed; go on with output. Errors: PQ003 no such run, PQ010 cancelled or asked to be, PQ007 ended, past its deadline, or a step of another kind, PQ006 stale lease, PQ008 too large, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_resume_run(run_id bigint, step_id text = NULL, output jsonb = NULL)
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgqrs_resume_run';
COMMENT ON FUNCTION pgqrs_resume_run(bigint, text, jsonb) IS
'ends a pause: the step succeeds with output (NULL is stored as JSON null), and a run that is parked at it can be claimed at once. Also before the pause has begun: then pgqrs_pause_run() does not wait. Without a step: the one whose pause the run is parked at. false: nothing was to be done. Errors: PQ003 no such run, PQ007 the run has ended, or a step of another kind, PQ008 too large, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_sleep(run_id bigint, lease bigint, step_id text, duration interval = NULL, until timestamptz = NULL)
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgqrs_sleep';
COMMENT ON FUNCTION pgqrs_sleep(bigint, bigint, text, interval, timestamptz) IS
'a step that lets time pass: duration, or until an instant (one of them). The first call fixes when it ends. false: the run is PAUSED until then, the lease is given up; leave the handler and call this again after the next delivery. true: that time has come. Errors: PQ003 no such run, PQ010 cancelled or asked to be, PQ007 ended, past its deadline, or a step of another kind, PQ006 stale lease, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_await_signal(run_id bigint, lease bigint, step_id text, signal text, timeout interval = NULL,
	OUT received boolean, OUT timed_out boolean, OUT payload jsonb)
RETURNS record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgqrs_await_signal';
COMMENT ON FUNCTION pgqrs_await_signal(bigint, bigint, text, text, interval) IS
'a step that takes the oldest signal of that name which no other step took, sent before or after. received: go on with payload (JSON null if it has none). timed_out: none came within timeout (NULL: wait for ever) of the first call; go on without. Neither: the run is PAUSED, the lease is given up; leave the handler and call this again after the next delivery. Errors: PQ003 no such run, PQ010 cancelled or asked to be, PQ007 ended, past its deadline, or a step of another kind, PQ006 stale lease, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_signal(run_id bigint, signal text, payload jsonb = NULL, idempotency_key text = NULL, headers jsonb = NULL)
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgqrs_signal';
COMMENT ON FUNCTION pgqrs_signal(bigint, text, jsonb, text, jsonb) IS
'sends a signal to a run, whether or not it waits for it, part of the caller''s transaction, and returns its id. With an idempotency_key that a signal to that run has, also one that was taken: its id. Errors: PQ003 no such run, PQ007 the run has ended, PQ008 too large, 22004, 22023, 42501.';

-- Cancelling and deleting.

CREATE FUNCTION pgqrs_cancel_run(run_id bigint, reason text = NULL)
RETURNS text LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgqrs_cancel_run';
COMMENT ON FUNCTION pgqrs_cancel_run(bigint, text) IS
'cancels a run and returns its status after that. CANCELLED: nobody held a live lease on it. RUNNING: the worker that does was asked to stop: from now on its calls that would begin something get PQ010, extending tells it, and the run is CANCELLED when the worker says so, fails, or loses its lease; if it completes the run after all, that counts. A run that has ended stays as it is. Live children follow, unless they were started with on_parent_end => ''abandon''. Errors: PQ003 no such run, 22004, 42501.';

CREATE FUNCTION pgqrs_cancel_runs(workflow text, status text = NULL, tags jsonb = NULL, max_rows int = 1000)
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgqrs_cancel_runs';
COMMENT ON FUNCTION pgqrs_cancel_runs(text, text, jsonb, int) IS
'the same for up to max_rows live runs of a workflow in one transaction, with that status (NULL: any), whose tags contain tags; returns how many were cancelled or asked to stop. Those that were asked before are passed over, so repeat it until it returns 0. Errors: PQ002 no such workflow, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_acknowledge_cancel(run_id bigint, lease bigint, output jsonb = NULL)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgqrs_acknowledge_cancel';
COMMENT ON FUNCTION pgqrs_acknowledge_cancel(bigint, bigint, jsonb) IS
'the worker has stopped and cleaned up: the run that was asked to stop is CANCELLED now, with that output if there is one. Errors: PQ003 no such run, PQ010 cancelled already, PQ007 ended, past its deadline, or not asked to stop, PQ006 stale lease, PQ008 too large, 22004, 42501.';

CREATE FUNCTION pgqrs_delete_run(run_id bigint, reason text = NULL)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pgqrs_delete_run';
COMMENT ON FUNCTION pgqrs_delete_run(bigint, text) IS
'marks a run as deleted: it is found by its id only, its idempotency key is free, it cannot be replayed. A live one is CANCELLED first, even if a worker holds it. Repeated it changes nothing. Errors: PQ003 no such run, 22004, 42501.';
