-- Lists of failed runs of 10,000 workflows take no memory for each: the most that the
-- session has had does not grow.
SET client_min_messages = error;
SELECT count(pgqrs_create_workflow('many.' || n)) FROM generate_series(1, 10000) AS n \g /dev/null
\connect -
SELECT * FROM no_plan();

-- In kB; NULL where the system does not say.
CREATE FUNCTION pg_temp.peak() RETURNS integer LANGUAGE sql VOLATILE AS
$$
	SELECT substring(pg_read_file('/proc/self/status', 0, 10000, true) FROM 'VmHWM:\s+(\d+)')::integer
$$;
-- The first lists read what all of them need, such as the names of the workflows.
SELECT count(*) FROM pgqrs_list_runs(status => 'SUCCESS') \g /dev/null
SELECT count(*) FROM pgqrs_list_runs('many.1', 'ERROR') \g /dev/null
SELECT pg_temp.peak() AS peak \gset
SELECT count(*) AS failed FROM pgqrs_list_runs(status => 'ERROR') \gset
SELECT count(*) AS cancelled FROM pgqrs_list_runs(status => 'CANCELLED') \gset
SELECT pg_temp.peak() AS now \gset
SELECT is(array[:failed, :cancelled], '{0,0}', 'no run failed');
SELECT cmp_ok(coalesce(nullif(:'now', '')::integer - nullif(:'peak', '')::integer, 0), '<', 2000,
	'lists of failed runs took less than 2 MB');
SELECT * FROM finish(true);
