-- Functions called by one that is marked PARALLEL SAFE by mistake say so, and how
-- to mend it.
SELECT * FROM no_plan();
SET client_min_messages = error;
SELECT set_config(name, 'on', false) FROM pg_settings
	WHERE name IN ('force_parallel_mode', 'debug_parallel_query') \g /dev/null

CREATE FUNCTION wrong(query text) RETURNS text LANGUAGE plpgsql PARALLEL SAFE AS
$$
DECLARE
	result text;
BEGIN
	EXECUTE query INTO result;
	RETURN result;
END
$$;
CREATE FUNCTION pg_temp.said(query text) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	hint text;
BEGIN
	EXECUTE format('SELECT wrong(%L)', query);
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(' ', SQLSTATE, SQLERRM, hint);
END
$$;

SELECT pgqrs_create_queue('jobs'), pgqrs_create_workflow('flow'), pgqrs_trigger('flow') AS run \gset
SELECT is(pg_temp.said(format('SELECT %s', replace(call, 'RUN', :'run'))),
	format('25000 cannot execute %s() during a parallel operation Mark the function that calls it PARALLEL UNSAFE, '
		'as is the default.', substring(call, '^\w+')),
		'the error in a parallel worker names the function and says how to mark its caller: ' || call)
FROM unnest(ARRAY['pgqrs_peek(''jobs'')', 'pgqrs_get_run(RUN)', 'pgqrs_result(RUN)', 'pgqrs_list_runs(''flow'')',
	'pgqrs_list_steps(RUN)',
	'pgqrs_find_run(''flow'', ''k'')', 'pgqrs_enqueue(''jobs'', ''1'')', 'pgqrs_trigger(''flow'')',
		'pgqrs_dequeue(''jobs'')', 'pgqrs_cancel_run(RUN)']) call;
SELECT is(pg_temp.said('SELECT pgqrs_version()'), 'no error',
	'a function that is PARALLEL SAFE runs in a parallel worker');

SELECT * FROM finish();
