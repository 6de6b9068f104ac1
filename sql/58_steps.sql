-- Steps.

CREATE FUNCTION pgqrs_step_begin(run_id bigint, lease bigint, step_id text, input jsonb = NULL,
	OUT should_execute boolean, OUT status text, OUT output jsonb, OUT error jsonb, OUT attempt int)
RETURNS record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_step_begin';
COMMENT ON FUNCTION pgqrs_step_begin(bigint, bigint, text, jsonb) IS
'begins a step (id of 1 to 255 bytes). should_execute false: the step has finished; SUCCESS: use output, ERROR: raise error in the handler. true: execute the step, then call pgqrs_step_complete() or pgqrs_step_fail(). A repeated call under the same lease returns the same, and waits for a transaction that is completing the step. Errors: PQ003 no such run, PQ006 stale lease, PQ010 cancelled or cancellation requested, PQ007 ended or past its deadline, PQ016 a step of another kind, PQ008 too large, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_step_complete(run_id bigint, lease bigint, step_id text, output jsonb = NULL, started_at timestamptz = NULL)
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_step_complete';
COMMENT ON FUNCTION pgqrs_step_complete(bigint, bigint, text, jsonb, timestamptz) IS
'stores a step''s output (NULL as JSON null) in the caller''s transaction; the first stored output stays. started_at: when a step without pgqrs_step_begin() was started (NULL or in the future: now). true: stored by this call; false: by an earlier call, whose result may have been lost (roll back repeated writes). Errors: PQ003 no such run, PQ006 stale lease, PQ010 cancelled, PQ007 ended or past its deadline, PQ016 the step has failed or is of another kind, PQ008 too large, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_step_fail(run_id bigint, lease bigint, step_id text, error jsonb, retryable boolean = true,
	retry_after interval = NULL, max_attempts int = NULL, fail_run boolean = true, OUT outcome text, OUT retry_at timestamptz)
RETURNS record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_step_fail';
COMMENT ON FUNCTION pgqrs_step_fail(bigint, bigint, text, jsonb, boolean, interval, int, boolean) IS
'the step failed. RETRY: the lease has ended, the run can be claimed again at retry_at, after retry_after or the policy''s backoff; leave the handler. If the step is not retryable, exhausted (max_attempts of the call, run or workflow; -1: unlimited) or could only be retried after the deadline: RUN_FAILED, the run has ended in ERROR (where on_cancel => ''deliver'' has it undone first: RETRY), or with fail_run => false STEP_FAILED, the run continues. An oversized error is truncated. Errors: PQ003 no such run, PQ006 stale lease, PQ010 cancelled, PQ007 ended or past its deadline, PQ016 the step has finished or is of another kind, 22004, 22023, 42501.';

