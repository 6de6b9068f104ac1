-- The delay before a retry: min(max_interval, initial_interval *
-- backoff_coefficient ^ (failures - 1)) times uniform [1 - jitter, 1 + jitter].
-- F39: retries of one instant are spread.
-- F-numbers: docs/design/known-failures.md.
\ir include/runs.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_workflow('job', max_attempts => -1) AS job \gset

-- The failure of a step that has failed n - 1 times: when it is retried, and
-- two readings of the clock before and after the call read it.
CREATE FUNCTION pg_temp.retry(run bigint, n int, OUT since timestamptz, OUT retry_at timestamptz,
	OUT until timestamptz) LANGUAGE plpgsql AS
$$
DECLARE
	lease bigint := pg_temp.claim(run);
BEGIN
	LOOP
		PERFORM pgqrs_step_begin(run, lease, 's');
		UPDATE pgqrs_workflow_steps SET failures = n - 1 WHERE run_id = run;
		since := clock_timestamp();
		SELECT f.retry_at INTO retry_at FROM pgqrs_step_fail(run, lease, 's', '{}') f;
		until := clock_timestamp();
		EXIT WHEN until - since < interval '0.4 s'; -- else the machine stood still
		lease := pg_temp.claim(run);
	END LOOP;
END
$$;

-- In seconds, by the formula, so that nothing overflows.
CREATE FUNCTION pg_temp.expected(initial float8, coefficient float8, max float8, n int) RETURNS float8 LANGUAGE sql AS
$$
	SELECT CASE WHEN initial = 0 OR max = 0 THEN 0 WHEN e >= ln(max) THEN max WHEN e < -100 THEN 0 ELSE exp(e) END
	FROM (VALUES (CASE WHEN initial > 0 THEN ln(initial) + (n - 1) * ln(coefficient) END)) v (e)
$$;
SELECT is(round(pg_temp.expected(1, 2, 60, n)::numeric, 6), e,
	'the formula of this test gives the base delay of failure ' || n) FROM (VALUES (1, 1.0), (2, 2), (6, 32), (7, 60),
	(5000, 60)) v (n, e);

CREATE TEMP TABLE policies (initial float8, coefficient float8, max float8, jitter float8);
INSERT INTO policies
	SELECT i, c, m, j FROM unnest('{0,0.000001,1,3600,31622400000}'::float8[]) i,
		unnest('{1e-300,0.5,0.999,1,1.5,2,1e300}'::float8[]) c,
		unnest('{0,0.5,60,31622400000}'::float8[]) m, unnest('{0,1}'::float8[]) j;
CREATE TEMP TABLE delays AS
	SELECT p.*, n, r.*, pg_temp.expected(initial, coefficient, max, n) AS base
	FROM policies p,
		LATERAL pgqrs_trigger('job', retry_policy => jsonb_build_object('initial_interval',
			make_interval(secs => initial), 'backoff_coefficient', coefficient, 'max_interval',
			make_interval(secs => max), 'jitter', jitter)) run,
		unnest('{1,2,10,1100,2147483646}'::int[]) n, pg_temp.retry(run, n) r;
SELECT is(count(*), 280::bigint * 5, 'each of the 280 policies has been tried with five counts of failures')
	FROM delays;

-- The delay itself is between these.
ALTER TABLE delays ADD least float8, ADD most float8;
UPDATE delays SET least = extract(epoch FROM retry_at - until), most = extract(epoch FROM retry_at - since);
SELECT is_empty('SELECT * FROM delays WHERE retry_at IS NULL OR most < 0 OR least > max * (1 + jitter) + 0.000002',
	'a retry is due neither before the failure nor later than max_interval * (1 + jitter)');
SELECT is_empty('SELECT * FROM delays WHERE most < base * (1 - jitter) * (1 - 1e-9) - 0.000002',
	'no retry is due earlier than the formula allows');
SELECT is_empty('SELECT * FROM delays WHERE least > base * (1 + jitter) * (1 + 1e-9) + 0.000002',
	'no retry is due later than the formula allows');

-- A growing delay, without jitter.
CREATE FUNCTION pg_temp.seconds(policy jsonb, n int) RETURNS int LANGUAGE sql AS
$$ SELECT round(extract(epoch FROM r.retry_at - r.since)) FROM pgqrs_trigger('job', retry_policy => policy
	|| '{"jitter": 0}') run, pg_temp.retry(run, n) r $$;
SELECT is(array_agg(pg_temp.seconds('{"initial_interval": "10 s", "backoff_coefficient": 3, "max_interval": "500 s"}',
	n) ORDER BY n), '{10,30,90,270,500,500}',
	'the delay grows by backoff_coefficient at each failure, up to max_interval')
	FROM generate_series(1, 6) n;
SELECT is(array_agg(pg_temp.seconds('{"initial_interval": "80 s", "backoff_coefficient": 0.5, "max_interval": "500 '
	's"}', n) ORDER BY n), '{80,40,20,10}', 'the delay shrinks at each failure if backoff_coefficient is below 1')
	FROM generate_series(1, 4) n;
SELECT is(pg_temp.seconds('{"initial_interval": "100 s", "max_interval": "50 s"}', 1), 50,
	'an initial_interval above max_interval is cut to max_interval');

-- The defaults: one second, doubled, at most a minute, a quarter more or less.
SELECT pgqrs_trigger('job') AS run \gset
SELECT ok(extract(epoch FROM retry_at - until) <= e * 1.25 AND extract(epoch FROM retry_at - since) >= e * 0.75,
	'the default policy doubles one second up to a minute, plus or minus a quarter: failure ' || n)
	FROM (VALUES (1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (100, 60)) v (n, e), pg_temp.retry(:run, n);

-- fail_run has the same delay, by the run's failures.
CREATE FUNCTION pg_temp.run_retry(run bigint, n int) RETURNS int LANGUAGE plpgsql AS
$$
DECLARE
	since timestamptz;
	retry_at timestamptz;
BEGIN
	LOOP
		UPDATE pgqrs_workflow_runs SET failures = n - 1 WHERE run_id = run;
		since := clock_timestamp();
		retry_at := pgqrs_fail_run(run, pg_temp.claim(run), '{}', true);
		EXIT WHEN clock_timestamp() - since < interval '0.4 s'; -- else the machine stood still
	END LOOP;
	RETURN round(extract(epoch FROM retry_at - since));
END
$$;
SELECT is(array_agg(pg_temp.run_retry(run, n) ORDER BY n), '{10,20,40,80,100}',
	'pgqrs_fail_run() has the same delays, by the failures of the run')
	FROM pgqrs_trigger('job', retry_policy => '{"initial_interval": "10 s", "max_interval": "100 s", "jitter": 0}')
		run, generate_series(1, 5) n;

-- Jitter is uniform: 400 retries of one instant.
SELECT pgqrs_trigger('job', retry_policy => '{"initial_interval": "1000 s", "max_interval": "1000 s"}') AS run \gset
CREATE TEMP TABLE spread AS SELECT extract(epoch FROM retry_at - since) AS delay FROM generate_series(1, 400) g,
	pg_temp.retry(:run, 1 + g * 0);
SELECT cmp_ok(count(DISTINCT delay), '>', 390::bigint, 'retries of one instant differ from each other') FROM spread;
SELECT cmp_ok(avg(delay), '>', 950.0, 'jitter does not make delays shorter on average') FROM spread;
SELECT cmp_ok(avg(delay), '<', 1050.0, 'jitter does not make delays longer on average') FROM spread;
SELECT ok(min(delay) BETWEEN 750 AND 800 AND max(delay) BETWEEN 1200 AND 1251,
	'jitter reaches both of its bounds and does not pass them') FROM spread;
SELECT ok(count(*) BETWEEN 60 AND 140, format('a quarter of the delays is in quarter %s of the jitter''s range', q))
	FROM spread, generate_series(0, 3) q WHERE floor((delay - 750) / 125) = q GROUP BY q;

SELECT * FROM finish();
