-- Statistics of many queues: a statement that reads one queue after another gets the
-- figures that each queue has alone, with few scans; workers cost what they are, not
-- that times the queues.
SET client_min_messages = error;
SELECT * FROM no_plan();
\ir include/time.sql

-- Queue n has n % 4 ready messages and n % 3 delayed ones; some are held, some dead.
CREATE TEMP TABLE many AS SELECT n, pgqrs_create_queue('t' || n % 7 || '.q' || n, max_attempts => 1) AS queue_id
	FROM generate_series(1, 600) AS n;
CREATE FUNCTION pg_temp.send(n bigint, count bigint, delay interval = '0') RETURNS bigint LANGUAGE sql AS
$$
	SELECT count(pgqrs_enqueue('t' || n % 7 || '.q' || n, '1', delay => delay)) FROM generate_series(1, count)
$$;
-- Claims so many messages, which then die.
CREATE FUNCTION pg_temp.die(n bigint, count integer) RETURNS bigint LANGUAGE sql AS
$$
	SELECT count(pgqrs_nack_message(d.message_id, d.lease)) FROM pgqrs_dequeue('t' || n % 7 || '.q' || n,
		batch_size => count) AS d
$$;
SELECT sum(pg_temp.send(n, n % 4)), sum(pg_temp.send(n, n % 3, '1 h')) FROM many \g /dev/null
SELECT sum(pg_temp.die(n, 1)) FROM many WHERE n % 5 = 0 \g /dev/null
SELECT count(d) FROM many, pgqrs_dequeue('t' || n % 7 || '.q' || n) AS d WHERE n % 6 = 0 \g /dev/null
-- More than is read ahead, of each kind, one after the other and apart.
SELECT pg_temp.send(n, 1200), pg_temp.send(n + 1, 800), pg_temp.send(n + 2, 700) FROM (VALUES (400)) AS v (n)
	\g /dev/null
SELECT pg_temp.send(n, 1200), pg_temp.die(n, 1000), pg_temp.die(n, 200) FROM (VALUES (450), (451)) AS v (n)
	\g /dev/null

-- By functions that are no part of FROM: each call reads for itself.
CREATE VIEW pg_temp.alone AS SELECT queue_id, (c).ready, (c).delayed, (c).in_flight, (c).dead, counters[1] AS sent,
	counters[5] AS died
	FROM (SELECT queue_id, pgqrs_count_messages(queue_id) AS c, pgqrs_counters_of(queue_id) AS counters FROM many
		OFFSET 0) AS n;
CREATE VIEW pg_temp.together AS SELECT queue_id, ready, delayed, in_flight, dead, sent, died FROM pgqrs_queue_stats;
SELECT set_eq('SELECT * FROM pg_temp.together', 'SELECT * FROM pg_temp.alone',
	'a queue has the figures in a list of all that it has alone');
SELECT set_eq('SELECT * FROM pg_temp.together WHERE queue_id % 9 < 4',
	'SELECT * FROM pg_temp.alone WHERE queue_id % 9 < 4', 'and in a list of some');
SELECT is(array_agg(s ORDER BY queue_id)::text[], ARRAY[format('(%s,1200,1,0,0,1201,0)', q),
	format('(%s,801,2,0,0,803,0)', q + 1), format('(%s,701,0,1,0,702,0)', q + 2)],
	'so have queues with more messages than are read ahead')
	FROM (SELECT queue_id AS q FROM many WHERE n = 400) AS q JOIN pg_temp.together AS s ON queue_id BETWEEN q AND q + 2
	GROUP BY q;
SELECT is(array_agg(dead ORDER BY queue_id), '{1000,1000,0}', 'so have queues with more dead letters than are counted')
	FROM pg_temp.together WHERE queue_id BETWEEN (SELECT queue_id FROM many WHERE n = 450)
		AND (SELECT queue_id FROM many WHERE n = 452);
SELECT set_eq('SELECT s.* FROM (SELECT n FROM generate_series(600, 1, -1) AS n OFFSET 0) AS o JOIN many USING (n),
	LATERAL (SELECT many.queue_id, c.ready FROM pgqrs_count_messages(many.queue_id) AS c) AS s',
	'SELECT queue_id, ready FROM pg_temp.alone', 'the order in which a statement asks for them does not matter');

CREATE TEMP TABLE scans AS SELECT index FROM unnest('{pgqrs_messages_claim_idx,pgqrs_archive_dead_idx,
	pgqrs_counters_pkey}'::regclass[]) AS index;
-- The index scans of a query.
CREATE FUNCTION pg_temp.scans(query text) RETURNS bigint LANGUAGE plpgsql AS
$$
DECLARE
	before bigint := (SELECT sum(pg_stat_get_xact_numscans(index)) FROM scans);
BEGIN
	EXECUTE query;
	RETURN (SELECT sum(pg_stat_get_xact_numscans(index)) FROM scans) - before;
END
$$;
SELECT cmp_ok(pg_temp.scans('SELECT * FROM pgqrs_queue_stats'), '<', 200::bigint,
	'a list of 600 queues takes few scans');
SELECT cmp_ok(pg_temp.scans(format('SELECT * FROM pgqrs_queue_stats WHERE queue_id = %s', queue_id)), '<', 6::bigint,
	'a list of one queue reads that one') FROM many WHERE n = 1;

-- 20 workers of 1,000 patterns each, of which none is of a queue.
BEGIN;
CREATE ROLE reader;
SELECT pgqrs_grant('t1.*', 'reader', 'read'), pgqrs_grant('t1.*', 'reader', 'monitor') \g /dev/null
SELECT count(pgqrs_register_worker('w' || w, (SELECT array_agg(format('t%s.w%s.%s.*', n % 7, w, n))
	FROM generate_series(1, 1000) AS n))) FROM generate_series(1, 20) AS w \g /dev/null
SELECT pgqrs_register_worker('one', ARRAY['t1.w1.*', 't1.q1', 't2.q2']),
	pgqrs_register_worker('other', '{t2.*,t1.q11}'), pgqrs_register_worker('many', '{t1.*}'),
	pgqrs_register_worker('none', '{t1.q1.*}'), pgqrs_register_worker('twice', '{*,t1.q1}') \g /dev/null
SELECT is(string_agg(queue || ' ' || live_workers, ', ' ORDER BY queue), 't1.q1 3, t2.q2 3, t2.q9 2, t3.q10 1',
	'a queue has the live workers of which a pattern matches it, each once') FROM pgqrs_queue_stats
	WHERE queue IN ('t1.q1', 't2.q2', 't2.q9', 't3.q10');
-- Trying each pattern for each queue takes three times as long as these comparisons.
GRANT pg_read_server_files TO reader;
CREATE FUNCTION pg_temp.is_fast(query text) RETURNS text LANGUAGE sql AS
$$
	SELECT cmp_ok(pg_temp.milliseconds(query), '<', pg_temp.milliseconds(
		'SELECT count(*) FROM generate_series(1, 200000) AS n WHERE (''t'' || n) LIKE ''q%'''),
		'patterns are not tried for each queue: ' || query)
$$;
SELECT pg_temp.is_fast('SELECT live_workers FROM pgqrs_queue_stats');
SET ROLE reader;
SELECT pg_temp.is_fast('SELECT worker FROM pgqrs_worker_stats');
SELECT is(string_agg(worker, ' ' ORDER BY worker), 'many one twice', 'a role sees the workers that serve its queues')
	FROM pgqrs_worker_stats WHERE queues IS NULL;
RESET ROLE;
SELECT * FROM finish();
