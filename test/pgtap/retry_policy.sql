-- retry_policy of a trigger: each key over the workflow's policy, and what is
-- refused.
\ir include/runs.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_workflow('job', max_attempts => 2, initial_interval => '10 s', backoff_coefficient => 3,
	max_interval => '25 s', jitter => 0, non_retryable => '{fatal}') \g /dev/null

-- What four failures of one step make of a run: seconds to each retry, and the end.
CREATE FUNCTION pg_temp.course(policy jsonb, type text = 'x', n int = 4) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	run bigint := pgqrs_trigger('job', retry_policy => policy);
	course text[];
	since timestamptz;
	f record;
BEGIN
	FOR i IN 1..n LOOP
		since := clock_timestamp();
		SELECT * INTO f FROM pgqrs_step_fail(run, pg_temp.claim(run), 's', jsonb_build_object('type', type));
		IF f.outcome <> 'RETRY' THEN
			RETURN concat_ws(' ', array_to_string(course, ' '), f.outcome);
		END IF;
		course := course || round(extract(epoch FROM f.retry_at - since))::text;
	END LOOP;
	RETURN array_to_string(course, ' ');
END
$$;
SELECT is(pg_temp.course(policy), course, 'four failures take their course by the policy ' || coalesce(policy::text,
	'NULL'))
	FROM (VALUES (NULL::jsonb, '10 RUN_FAILED'), ('{}', '10 RUN_FAILED'), ('{"max_attempts": 1}', 'RUN_FAILED'),
		('{"max_attempts": 4}', '10 25 25 RUN_FAILED'),
		('{"max_attempts": -1}', '10 25 25 25'), ('{"max_attempts": 3.0}', '10 25 RUN_FAILED'),
			('{"max_attempts": 2147483647}', '10 25 25 25'),
		('{"max_attempts": -1, "initial_interval": "2 s"}', '2 6 18 25'),
			('{"max_attempts": -1, "initial_interval": "0"}', '0 0 0 0'),
		('{"max_attempts": -1, "initial_interval": "PT1M"}', '25 25 25 25'),
			('{"max_attempts": -1, "initial_interval": "00:00:05"}', '5 15 25 25'),
		('{"max_attempts": -1, "max_interval": "1 day"}', '10 30 90 270'),
			('{"max_attempts": -1, "max_interval": "0 s"}', '0 0 0 0'),
		('{"max_attempts": -1, "backoff_coefficient": 1}', '10 10 10 10'),
			('{"max_attempts": -1, "backoff_coefficient": 0.5}', '10 5 3 1'),
		('{"max_attempts": -1, "backoff_coefficient": 1e300}', '10 25 25 25'),
		('{"max_attempts": 3, "initial_interval": "1 s", "backoff_coefficient": 60, "max_interval": "2 h", '
			'"jitter": 0, "non_retryable": ["y"]}', '1 60 RUN_FAILED')) v (policy, course);
SELECT is(pg_temp.course(policy, type, 1), course, 'an error of type ' || type || ' is retried or not by the policy '
	|| policy::text)
	FROM (VALUES ('{}'::jsonb, 'fatal', 'RUN_FAILED'), ('{"non_retryable": []}', 'fatal', '10'),
		('{"non_retryable": ["soft", "gone"]}', 'gone.away', 'RUN_FAILED'),
		('{"non_retryable": ["soft"]}', 'fatal', '10')) v (policy, type, course);
SELECT isnt(pg_temp.course('{"max_attempts": -1, "jitter": 1, "initial_interval": "1 day", "max_interval": "1 day"}'),
	'86400 86400 86400 86400', 'jitter 1 changes the delays');

-- The rest of the policy is the workflow's, as it is when the step fails.
SELECT * FROM pgqrs_trigger('job', retry_policy => '{"max_attempts": 3}') run \gset
SELECT pgqrs_alter_workflow('job', initial_interval => '20 s', max_attempts => 1);
SELECT since, f.* FROM pg_temp.claim(:run) lease, clock_timestamp() since, pgqrs_step_fail(:run, lease, 's',
	'{}') f \gset
SELECT is(:'outcome'::text, 'RETRY', 'a key of the run''s own policy outlives a change of the workflow');
SELECT is(round(extract(epoch FROM :'retry_at'::timestamptz - :'since'::timestamptz)), 20.0,
	'a key that the run''s policy lacks is taken from the workflow as it is now');
SELECT is(retry_policy, '{"max_attempts": 3}', 'the run stores its policy as it was given') FROM pgqrs_workflow_runs
	WHERE run_id = :run;

-- What is refused: 22023, with a hint, before anything is written.
SELECT pg_temp.contents() AS contents \gset
SELECT format('SELECT is(pg_temp.refusal(%L), ''22023'', %L)',
	format('SELECT pgqrs_trigger(''job'', retry_policy => %L)', policy), 'pgqrs_trigger() refuses the policy '
	|| policy)
	FROM unnest(ARRAY['null', '[]', '1', '"x"', '[{"max_attempts": 1}]', '{"": 1}', '{"Max_attempts": 1}',
		'{"max_attempt": 1}', '{"max_attempts": 1, "x": 1}', '{"timeout": "1 s"}',
		'{"max_attempts": 0}', '{"max_attempts": -2}', '{"max_attempts": 1.5}', '{"max_attempts": 2147483648}',
			'{"max_attempts": 1e400}', '{"max_attempts": "3"}', '{"max_attempts": null}', '{"max_attempts": true}',
			'{"max_attempts": []}',
		'{"initial_interval": 1}', '{"initial_interval": "soon"}', '{"initial_interval": ""}',
			'{"initial_interval": "-1 s"}', '{"initial_interval": "1 month"}', '{"initial_interval": "1 year"}',
		'{"initial_interval": "366001 days"}', '{"initial_interval": "infinity"}',
			'{"initial_interval": "1e30 days"}', '{"initial_interval": null}', '{"initial_interval": {"s": 1}}',
		'{"max_interval": 60}', '{"max_interval": "-1 us"}', '{"max_interval": "366001 days"}',
			'{"max_interval": "1 mon"}', '{"max_interval": null}', '{"max_interval": ["1 s"]}',
		'{"backoff_coefficient": 0}', '{"backoff_coefficient": -1}', '{"backoff_coefficient": "2"}',
			'{"backoff_coefficient": 1e309}', '{"backoff_coefficient": 1e-400}', '{"backoff_coefficient": null}',
			'{"backoff_coefficient": [2]}',
		'{"jitter": -0.01}', '{"jitter": 1.01}', '{"jitter": "0"}', '{"jitter": null}', '{"jitter": false}',
			'{"jitter": 1e400}',
		'{"non_retryable": "fatal"}', '{"non_retryable": [""]}', '{"non_retryable": ["a", 1]}',
			'{"non_retryable": ["a", null]}', '{"non_retryable": [["a"]]}', '{"non_retryable": {"a": 1}}',
			'{"non_retryable": null}']) policy \gexec
SELECT is(pg_temp.contents(), :'contents', 'refused policies leave every table unchanged');
SELECT is(pg_temp.answer(format('SELECT pgqrs_trigger(''job'', retry_policy => %L)', policy)) ~ '^[0-9]+$', true,
	'pgqrs_trigger() accepts the policy ' || policy)
	FROM unnest(ARRAY['{}', '{"max_attempts": 1}', '{"initial_interval": "366000 days"}',
		'{"initial_interval": "0.000001 s", "max_interval": "0"}', '{"backoff_coefficient": 1e-300}', '{"jitter": 0}',
		'{"jitter": 1}', '{"non_retryable": []}', '{"non_retryable": ["a", "a"]}']) policy;

SELECT * FROM finish();
