-- In a read-only transaction every function that writes says which it is and
-- what to do, before it looks at anything else; those that read work.
\ir include/refusals.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_queue('q'), pgqrs_create_workflow('w') \g /dev/null

CREATE FUNCTION handle(jsonb) RETURNS void LANGUAGE sql AS '';

-- A call of each function with arguments of the right types.
CREATE TEMP TABLE calls AS
	SELECT proname AS name, format('SELECT %s(%s)', proname, COALESCE((
		SELECT string_agg(CASE format_type(type, NULL)
				WHEN 'text' THEN CASE proargnames[n] WHEN 'workflow' THEN '''w''' WHEN 'privilege' THEN '''work'''
					WHEN 'next_step' THEN '''next'''
					WHEN 'role' THEN '''public'''
					WHEN 'on_duplicate' THEN '''return''' WHEN 'overlap' THEN '''allow'''
						WHEN 'key_scope' THEN '''active''' WHEN 'handler' THEN CASE proname
						WHEN 'pgqrs_consume' THEN '''handle''' ELSE 'NULL' END WHEN 'mode' THEN '''all'''
						WHEN 'on_parent_end' THEN '''cancel''' WHEN 'outbox_queue' THEN 'NULL'
					WHEN 'concurrency_key' THEN 'NULL' WHEN 'on_cancel' THEN '''end''' WHEN 'status' THEN 'NULL'
						ELSE '''q''' END
				WHEN 'interval' THEN CASE proargnames[n] WHEN 'delay' THEN '''0''' WHEN 'rate_period' THEN '''1 s'''
					ELSE '''1 min''' END
				WHEN 'timestamp with time zone' THEN CASE proargnames[n] WHEN 'run_at' THEN 'NULL'
					WHEN 'until' THEN 'NULL' ELSE '''2030-01-01''' END
				WHEN 'boolean' THEN 'false'
				WHEN 'text[]' THEN CASE proargnames[n] WHEN 'reset' THEN '''{}'''
					WHEN 'concurrency_keys' THEN '''{NULL}''' WHEN 'queues' THEN '''{*}''' ELSE '''{a}''' END
				WHEN 'jsonb' THEN CASE proargnames[n] WHEN 'retry_policy' THEN '''{}''' ELSE '''1''' END
				WHEN 'bigint[]' THEN '''{1}''' WHEN 'jsonb[]' THEN '''{1}'''
				WHEN 'integer' THEN CASE WHEN proargnames[n] IN ('max_per_key', 'rate_limit') THEN 'NULL' ELSE '1' END
				ELSE '1' END || '::' || format_type(type, NULL), ', ' ORDER BY n)
		FROM unnest(proargtypes) WITH ORDINALITY AS a (type, n)), '')) AS call
	FROM pg_proc
	WHERE proname LIKE 'pgqrs\_%' AND pronamespace = 'public'::regnamespace AND prorettype <> 'trigger'::regtype
		AND prokind = 'f'
		AND proname NOT IN ('pgqrs_get_run', 'pgqrs_find_run', 'pgqrs_result', 'pgqrs_list_runs', 'pgqrs_list_steps',
			'pgqrs_peek', 'pgqrs_now', 'pgqrs_version',
			'pgqrs_readable_queues', 'pgqrs_readable_workers', 'pgqrs_may_monitor',
			'pgqrs_schedule_may_fire', 'pgqrs_queue_name', 'pgqrs_run_crashes', 'pgqrs_role_of',
				'pgqrs_function_privileges', 'pgqrs_floor_stats', 'pgqrs_elapsed', 'pgqrs_old_sessions',
				'pgqrs_background_stats', 'pgqrs_count_messages', 'pgqrs_count_runs', 'pgqrs_counters_of',
				'pgqrs_live_workers', 'pgqrs_holder_of', 'pgqrs_next_firings',
				'pgqrs_verify', 'pgqrs_below_floors', 'pgqrs_why')
		AND proname NOT LIKE 'pgqrs\_report%' AND proname NOT LIKE 'pgqrs\_html%';
SELECT cmp_ok(count(*), '>=', 35::bigint, 'the test calls at least 35 functions that write') FROM calls;

CREATE FUNCTION pg_temp.answer(call text) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	message text;
	hint text;
BEGIN
	EXECUTE call;
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(' ', SQLSTATE, message, '-', hint);
END
$$;
BEGIN READ ONLY;
SELECT is(pg_temp.answer(call),
	format('25006 cannot execute %s() in a read-only transaction - Use a transaction that is READ WRITE.',
		replace(name, 'sequences', 'sequence')), 'a read-only transaction refuses ' || call)
	FROM calls ORDER BY name COLLATE "C";
SELECT is((SELECT count(*) FROM pgqrs_peek('q')) + (SELECT count(*) FROM pgqrs_list_runs()) + (SELECT count(*)
	FROM pgqrs_runs), 0::bigint, 'functions and views that only read work in a read-only transaction');
COMMIT;

SELECT * FROM finish();
