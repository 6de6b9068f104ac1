-- What one tenant's many queues take from all others, in numbers that do not depend
-- on the machine: buffers of statistics, locks of deletions.
SELECT * FROM no_plan();
SET client_min_messages = warning;

CREATE FUNCTION pg_temp.buffers(query text) RETURNS bigint LANGUAGE plpgsql AS
$$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) ' || query INTO plan;
	RETURN (plan -> 0 -> 'Plan' ->> 'Shared Hit Blocks')::bigint + (plan -> 0 -> 'Plan' ->>
		'Shared Read Blocks')::bigint;
END
$$;

SELECT count(pgqrs_create_queue('many.' || g, max_in_flight => 5)) FROM generate_series(1, 2000) g \g /dev/null
SELECT cmp_ok(pg_temp.buffers('SELECT * FROM pgqrs_queue_stats'), '<', 2000 * 10::bigint,
	'statistics of 2,000 empty queues take less than 10 buffers for each');
SELECT cmp_ok(pg_temp.buffers('SELECT * FROM pgqrs_queue_stats WHERE queue = ''many.7'''), '<', 200::bigint,
	'statistics of one queue do not read the other queues');

SELECT count(pgqrs_enqueue('many.' || g, '1')) FROM generate_series(1, 2000) g \g /dev/null
BEGIN;
SELECT is(count(*), 100::bigint, 'a claim by pattern looks at 100 queues with a limit at most')
	FROM pgqrs_dequeue('many.*', batch_size => 10000);
SELECT cmp_ok(count(*), '<', 300::bigint, 'a claim by pattern holds a bounded number of locks') FROM pg_locks
	WHERE pid = pg_backend_pid();
SELECT is(count(*), 100::bigint, 'the next claim by pattern takes from queues that the first one left out')
	FROM pgqrs_dequeue('many.*', batch_size => 10000);
ROLLBACK;
BEGIN;
SELECT pgqrs_delete_queue('many.' || g, force => true) FROM generate_series(1, 100) g \g /dev/null
SELECT cmp_ok(count(*), '<', 300::bigint,
	'deleting 100 queues holds few locks: their table is shared by all of the server') FROM pg_locks
	WHERE pid = pg_backend_pid();
COMMIT;
SELECT * FROM finish();
