-- Steps.

CREATE FUNCTION pgqrs_step_begin(run_id bigint, lease bigint, step_id text, input jsonb = NULL,
	OUT should_execute boolean, OUT status text, OUT output jsonb, OUT error jsonb, OUT attempt int)
RETURNS record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_step_begin';
COMMENT ON FUNCTION pgqrs_step_begin(bigint, bigint, text, jsonb) IS
'asks whether to execute a step (id of 1 to 255 bytes). false: it has finished; SUCCESS: use output, ERROR: raise error into the handler. true: execute it, then pgqrs_step_complete() or pgqrs_step_fail(). Repeated under the same lease it answers the same; a transaction that is completing the step it waits for. Errors: PQ003 no such run, PQ006 stale lease, PQ010 cancelled or asked to be, PQ007 ended or past its deadline, PQ016 a step of another kind, PQ008 too large, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_step_complete(run_id bigint, lease bigint, step_id text, output jsonb = NULL, started_at timestamptz = NULL)
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_step_complete';
COMMENT ON FUNCTION pgqrs_step_complete(bigint, bigint, text, jsonb, timestamptz) IS
'stores a step''s output (NULL as JSON null) in the caller''s transaction; the first stored output stays. started_at: when a step began that was not begun with pgqrs_step_begin() (NULL or in the future: now). true: stored now; false: it was before, perhaps by a call whose answer was lost (roll back what was written again). Errors: PQ003 no such run, PQ006 stale lease, PQ010 cancelled, PQ007 ended or past its deadline, PQ016 the step has failed or is of another kind, PQ008 too large, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_step_fail(run_id bigint, lease bigint, step_id text, error jsonb, retryable boolean = true,
	retry_after interval = NULL, max_attempts int = NULL, fail_run boolean = true, OUT outcome text, OUT retry_at timestamptz)
RETURNS record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_step_fail';
COMMENT ON FUNCTION pgqrs_step_fail(bigint, bigint, text, jsonb, boolean, interval, int, boolean) IS
'the step failed. RETRY: the lease is given up, the run can be claimed again at retry_at, after retry_after or the policy''s backoff; leave the handler. Not retryable, out of attempts (max_attempts of the call, run or workflow; -1: unlimited) or too late for the deadline: RUN_FAILED, the run has ended in ERROR, or with fail_run => false STEP_FAILED, go on. An oversized error is truncated. Errors: PQ003 no such run, PQ006 stale lease, PQ010 cancelled, PQ007 ended or past its deadline, PQ016 the step has finished or is of another kind, 22004, 22023, 42501.';

