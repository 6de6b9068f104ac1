-- Runs: starting and ending them.

CREATE FUNCTION pgqrs_trigger(workflow text, input jsonb = NULL, idempotency_key text = NULL, delay interval = '0',
	run_at timestamptz = NULL, priority int = 0, timeout interval = NULL, tags jsonb = NULL, headers jsonb = NULL,
	retry_policy jsonb = NULL, on_duplicate text = 'return', require_worker boolean = false, concurrency_key text = NULL)
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_trigger';
COMMENT ON FUNCTION pgqrs_trigger(text, jsonb, text, interval, timestamptz, int, interval, jsonb, jsonb, jsonb, text, boolean, text) IS
'starts a run, part of the caller''s transaction, and returns its id. Starts after delay or at run_at (not both), higher priority (-100..100) first; must end within timeout (NULL: the workflow''s) from then. retry_policy: an object with keys of pgqrs_create_workflow(). With an idempotency_key that a run of the workflow has: its id, or with on_duplicate => ''raise'' 23505, with ''null'' NULL. A WARNING, or with require_worker PQ013, if no live worker serves it. Errors: PQ002 no such workflow, PQ008 too large, 0A000 concurrency_key and on_duplicate => ''replace'' or ''replace_input'', not supported yet, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_trigger_batch(workflow text, inputs jsonb[], idempotency_keys text[] = NULL, delay interval = '0',
	run_at timestamptz = NULL, priority int = 0, tags jsonb = NULL)
RETURNS bigint[] LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_trigger_batch';
COMMENT ON FUNCTION pgqrs_trigger_batch(text, jsonb[], text[], interval, timestamptz, int, jsonb) IS
'starts up to 10000 runs in order and returns their ids in order, an empty array for no inputs; idempotency_keys, if given, one per input, each of which may be NULL. One bad item fails the batch, naming its 1-based index. Errors as pgqrs_trigger().';

CREATE FUNCTION pgqrs_complete_run(run_id bigint, lease bigint, output jsonb = NULL)
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_complete_run';
COMMENT ON FUNCTION pgqrs_complete_run(bigint, bigint, jsonb) IS
'the run ends in SUCCESS with this output (NULL is stored as JSON null). true: by this call; false: by an earlier call under this lease (roll back repeated writes). Errors: PQ003 no such run, PQ006 stale lease, PQ010 cancelled, PQ007 ended or past its deadline, PQ008 too large, 42501.';

CREATE FUNCTION pgqrs_fail_run(run_id bigint, lease bigint, error jsonb, retryable boolean = false, retry_after interval = NULL)
RETURNS timestamptz LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_fail_run';
COMMENT ON FUNCTION pgqrs_fail_run(bigint, bigint, jsonb, boolean, interval) IS
'the run failed. Exhausted or not retryable: it ends in ERROR and NULL is returned. A lease from before a request to undo the run ends, and the run is claimable at once. Otherwise the lease ends and the time of the retry is returned, after retry_after or the policy''s backoff. An oversized error is truncated. Errors: PQ003 no such run, PQ006 stale lease, PQ010 cancelled, PQ007 ended or past its deadline, 22004, 42501.';

CREATE FUNCTION pgqrs_set_progress(run_id bigint, lease bigint, progress jsonb)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_set_progress';
COMMENT ON FUNCTION pgqrs_set_progress(bigint, bigint, jsonb) IS
'sets the progress of the run that pgqrs_get_run() returns; NULL clears it. Errors: PQ003 no such run, PQ006 stale lease, PQ010 cancelled, PQ007 ended or past its deadline, PQ008 too large, 42501.';

