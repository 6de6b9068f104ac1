-- Claiming from several queues: patterns, workers, privileges.
\ir include/messages.sql
SELECT * FROM no_plan();

--
-- What a pattern covers
--

SELECT pgqrs_create_queue(name)
	FROM unnest('{billing,billingx,billing.a,billing.b,billing.b.c,Billing.a,'
		'other.billing.a,bill_ng.a,billing%a}'::text[]) name \g /dev/null
SELECT pgqrs_create_workflow('billing.flow') \g /dev/null

-- The names of the queues that a pattern delivers from; all is undone.
CREATE FUNCTION pg_temp.covers(pattern text) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE names text;
BEGIN
	PERFORM pgqrs_enqueue(name, '1') FROM pgqrs_queues WHERE NOT is_workflow;
	PERFORM pgqrs_trigger(name) FROM pgqrs_queues WHERE is_workflow;
	SELECT string_agg(queue, ' ' ORDER BY queue COLLATE "C") INTO names FROM pgqrs_dequeue(pattern,
		batch_size => 1000);
	RAISE EXCEPTION USING ERRCODE = 'UNDO0';
EXCEPTION WHEN SQLSTATE 'UNDO0' THEN
	RETURN coalesce(names, 'none');
END
$$;
SELECT is(pg_temp.covers(pattern), names, 'a claim takes messages of the queues that the pattern covers: ' || pattern)
	FROM (VALUES
	('*', 'Billing.a bill_ng.a billing billing%a billing.a billing.b billing.b.c billing.flow billingx '
		'other.billing.a'),
	('billing.*', 'billing.a billing.b billing.b.c billing.flow'), ('billing.b.*', 'billing.b.c'),
		('bill_ng.*', 'bill_ng.a'), ('Billing.*', 'Billing.a'),
	('other.*', 'other.billing.a'), ('billing.a.*', 'none'), ('nothing.*', 'none'), ('billing', 'billing'),
		('billing%a', 'billing%a'), ('billing.flow', 'billing.flow')) p (pattern, names);

-- Queues that come and go.
SELECT pgqrs_create_queue('billing.new') \g /dev/null
SELECT is(pg_temp.covers('billing.*'), 'billing.a billing.b billing.b.c billing.flow billing.new',
	'a pattern covers a new queue at once');
SELECT pgqrs_pause_queue('billing.a');
SELECT pgqrs_delete_queue('billing.new') \g /dev/null
SELECT pgqrs_enqueue('billing.b', '1') AS id \gset
SELECT is(array_agg(queue), '{billing.b}', 'a pattern does not claim from a deleted or paused queue')
	FROM pgqrs_dequeue('billing.*', batch_size => 10);
SELECT pgqrs_resume_queue('billing.a');
SELECT pgqrs_delete_workflow('billing.flow', force => true) \g /dev/null

--
-- Across queues the start rotates, so that none starves
--

-- How many of some calls each queue gets.
CREATE FUNCTION pg_temp.shares(calls int, pattern text, worker bigint = NULL, size int = 1)
	RETURNS TABLE (queue text, share bigint) LANGUAGE sql AS
$$
	SELECT d.queue, count(*) FROM generate_series(1, calls) n, pgqrs_dequeue(pattern, worker, CASE
		WHEN n > 0 THEN size END) d GROUP BY 1 ORDER BY 1
$$;
SELECT pgqrs_create_queue(name) FROM unnest('{r.a,r.b,r.c}'::text[]) name \g /dev/null
SELECT pgqrs_enqueue_batch(name, array_agg(to_jsonb(n) ORDER BY n), priority => CASE name WHEN 'r.b' THEN 100
	ELSE -100 END)
	FROM unnest('{r.a,r.b,r.c}'::text[]) name, generate_series(1, 1000) n GROUP BY name \g /dev/null
SELECT is(array_agg(share), '{10,10,10}',
	'claims of one message get the same share of each queue, whatever the priorities') FROM pg_temp.shares(30, 'r.*');
SELECT is(array_agg(share), '{50,50,50}', 'claims of ten messages get the same share of each queue')
	FROM pg_temp.shares(15, 'r.*', size => 10);
SELECT pgqrs_register_worker('rotating', '{r.a,r.c,r.b}') AS worker \gset
SELECT is(array_agg(share), '{10,10,10}', 'claims of a worker get the same share of each queue')
	FROM pg_temp.shares(30, NULL, :worker);
SELECT is(array_agg(share), '{10,10,10}', 'claims of a worker by a pattern get the same share of each queue')
	FROM pg_temp.shares(30, '*', :worker);
SELECT ok(bool_and(ordered), 'a claim by a pattern keeps the order within each queue')
	FROM (SELECT n > coalesce(lag(n) OVER (PARTITION BY queue ORDER BY place), 0) AS ordered
		FROM (SELECT queue, (payload #>> '{}')::int AS n, ordinality AS place
			FROM pgqrs_dequeue('r.*', batch_size => 2000) WITH ORDINALITY) d) o;
SELECT pgqrs_purge_queue(name) FROM unnest('{r.a,r.b,r.c}'::text[]) name \g /dev/null
SELECT pgqrs_enqueue_batch('r.a', '{1,2,3}'), pgqrs_enqueue_batch('r.c', '{1}') \g /dev/null
SELECT is(array_agg(queue || payload ORDER BY queue, payload), '{r.a1,r.a2,r.a3,r.c1}',
	'a claim by a pattern fills its batch from several queues') FROM pgqrs_dequeue('r.*', batch_size => 10);
SELECT pgqrs_create_queue('r.d', max_in_flight => 2) \g /dev/null
SELECT pgqrs_enqueue_batch('r.d', '{1,2,3,4}'), pgqrs_enqueue_batch('r.a', '{1,2,3}') \g /dev/null
SELECT is(array_agg(queue || payload ORDER BY queue, payload), '{r.a1,r.a2,r.a3,r.d1,r.d2}',
	'the limit of one queue does not limit the others of the pattern') FROM pgqrs_dequeue('r.*', batch_size => 10);

--
-- Workers
--

SELECT pgqrs_create_queue(name) FROM unnest('{w.a,w.b,x.a,x.b}'::text[]) name \g /dev/null
SELECT pgqrs_register_worker('one', '{w.*,x.a}') AS one, pgqrs_register_worker('all', '{*}') AS all,
	pgqrs_register_worker('none', '{nobody,nothing.*}') AS none \gset
CREATE FUNCTION pg_temp.fill() RETURNS void LANGUAGE sql AS
$$
	DELETE FROM pgqrs_messages;
	SELECT pgqrs_enqueue_batch(name, '{1,2}') FROM unnest('{w.a,w.b,x.a,x.b}'::text[]) name;
$$;
CREATE FUNCTION pg_temp.gets(pattern text, worker bigint, size int = 100) RETURNS text LANGUAGE sql AS
$$
	SELECT pg_temp.fill();
	SELECT coalesce(string_agg(queue || ' ' || payload, ', ' ORDER BY queue, payload), 'nothing')
		FROM pgqrs_dequeue(pattern, worker, size);
$$;
SELECT is(pg_temp.gets(NULL, :one), 'w.a 1, w.a 2, w.b 1, w.b 2, x.a 1, x.a 2',
	'a claim without a queue takes from every queue that the worker subscribes to');
SELECT is(pg_temp.gets('w.a', :one), 'w.a 1, w.a 2', 'a claim takes from one queue that the worker subscribes to');
SELECT is(pg_temp.gets('x.*', :one), 'x.a 1, x.a 2',
	'a claim by a pattern takes only from queues that the worker subscribes to');
SELECT is(pg_temp.gets('*', :one), 'w.a 1, w.a 2, w.b 1, w.b 2, x.a 1, x.a 2',
	'the pattern * takes only from queues that the worker subscribes to');
SELECT is(pg_temp.gets('nobody.*', :one), 'nothing', 'a claim by a pattern without a queue returns nothing');
SELECT is(pg_temp.gets('x.b', :all), 'x.b 1, x.b 2', 'a worker of * claims from any queue');
SELECT is(pg_temp.gets(NULL, :none), 'nothing', 'a worker whose patterns cover no queue claims nothing');
SELECT pg_temp.fill(), pgqrs_stop_worker(pgqrs_register_worker('stopped', '{*}'));
INSERT INTO refused VALUES (format('pgqrs_dequeue(''x.b'', %s)', :one), '22023'),
	(format('pgqrs_dequeue(''w.a'', %s)', :none), '22023'),
	(format('pgqrs_dequeue(''nobody'', %s)', :one), 'PQ001'), ('pgqrs_dequeue(''nobody'')', 'PQ001'),
		('pgqrs_dequeue()', '22004'), ('pgqrs_dequeue(NULL, NULL, 5)', '22004'),
	('pgqrs_dequeue(''w.a'', 99999)', 'PQ005'), ('pgqrs_dequeue(NULL, 99999)', 'PQ005'), ('pgqrs_dequeue(NULL, 0)',
		'PQ005'), ('pgqrs_dequeue(''w.a'', -1)', 'PQ005'),
	((SELECT format('pgqrs_dequeue(''w.a'', %s)', worker_id) FROM pgqrs_workers WHERE name = 'stopped'), 'PQ014'),
	((SELECT format('pgqrs_dequeue(NULL, %s)', worker_id) FROM pgqrs_workers WHERE name = 'stopped'), 'PQ014');
SELECT is(got, state, 'the call is refused: ' || call) FROM pg_temp.refusals();
SELECT is(worker_id, :one::bigint, 'a message stores the worker that has claimed it')
	FROM pgqrs_dequeue('w.a', :one) d, pg_temp.message(d.message_id);
SELECT is(worker_id, NULL, 'a message claimed without a worker stores none') FROM pgqrs_dequeue('w.a') d,
	pg_temp.message(d.message_id);

-- A suspended worker finishes what it holds and gets nothing new.
SELECT pg_temp.fill();
SELECT message_id AS id, lease FROM pgqrs_dequeue('w.a', :one) \gset
SELECT pgqrs_suspend_worker(:one);
SELECT is((SELECT count(*) FROM pgqrs_dequeue('w.a', :one)) + (SELECT count(*) FROM pgqrs_dequeue(NULL, :one)),
	0::bigint, 'a suspended worker claims nothing');
SELECT lives_ok(format('SELECT pgqrs_archive_message(%s, %s)', :id, :lease),
	'a suspended worker finishes what it holds');
SELECT pgqrs_resume_worker(:one);
SELECT is(count(*), 1::bigint, 'a resumed worker claims again') FROM pgqrs_dequeue('w.a', :one);

-- max_concurrent.
SELECT pgqrs_register_worker('three', '{w.*}', max_concurrent => 3) AS three \gset
SELECT pg_temp.fill();
SELECT is(count(*), 3::bigint, 'a worker holds no more messages than max_concurrent') FROM pgqrs_dequeue(NULL, :three,
	100);
SELECT is((SELECT count(*) FROM pgqrs_dequeue('w.a', :three)) + (SELECT count(*) FROM pgqrs_dequeue('w.b', :three)),
	0::bigint, 'a worker at max_concurrent gets nothing from any queue');
SELECT is(count(*), 1::bigint, 'another worker gets the messages that one at max_concurrent left')
	FROM pgqrs_dequeue('w.*', :one, 100);
SELECT message_id AS id, lease FROM pgqrs_messages WHERE worker_id = :three LIMIT 1 \gset
SELECT pgqrs_release_message(:id, :lease);
SELECT is(array_agg(message_id), ARRAY[:id]::bigint[],
	'a worker at max_concurrent may claim one for each that it releases') FROM pgqrs_dequeue(NULL, :three, 100);
SELECT pgqrs_nack_message(:id, lease, delay => '1 h') FROM pg_temp.message(:id) \g /dev/null
SELECT pgqrs_enqueue_batch('w.a', '{3,4,5,6,7,8}') \g /dev/null
SELECT is(array_agg(payload), '{3}', 'a message that waits for its retry does not count for max_concurrent')
	FROM pgqrs_dequeue(NULL, :three, 100);
SELECT pg_temp.due(message_id) FROM pgqrs_messages WHERE worker_id = :three ORDER BY message_id LIMIT 2 \g /dev/null
SELECT is(count(*), 2::bigint, 'a message whose lease ran out does not count for max_concurrent')
	FROM pgqrs_dequeue(NULL, :three, 100);
SELECT is(count(*), 3::bigint, 'the worker holds three messages under live leases') FROM pgqrs_messages
	WHERE worker_id = :three AND visible_after > clock_timestamp();

--
-- A pattern skips queues on which the caller lacks work
--

CREATE ROLE pgqrs_test_patterns;
SELECT pgqrs_grant('w.a', 'pgqrs_test_patterns', 'work'), pgqrs_grant('w.b', 'pgqrs_test_patterns', 'trigger'),
	pgqrs_grant('x.a', 'pgqrs_test_patterns', 'admin');
GRANT INSERT, SELECT, DELETE ON refused TO pgqrs_test_patterns;
SELECT pg_temp.fill();
SET ROLE pgqrs_test_patterns;
SELECT array_agg(queue || ' ' || payload ORDER BY queue, payload) AS got
	FROM pgqrs_dequeue('*', batch_size => 100) \gset
RESET ROLE;
SELECT is(:'got', '{"w.a 1","w.a 2","x.a 1","x.a 2"}'::text,
	'a pattern claims only from queues on which the role has the privilege work');
SELECT pg_temp.fill();
INSERT INTO refused VALUES ('pgqrs_dequeue(''w.b'')', '42501'), ('pgqrs_dequeue(''x.b'')', 'PQ001'),
	(format('pgqrs_dequeue(''w.a'', %s)', :one), 'PQ005'), (format('pgqrs_dequeue(NULL, %s)', :one), 'PQ005');
SET ROLE pgqrs_test_patterns;
SELECT array_agg(got) AS answers FROM pg_temp.refusals() \gset
SELECT pgqrs_register_worker('theirs', '{*}') AS theirs \gset
SELECT array_agg(queue || ' ' || payload ORDER BY queue, payload) AS got FROM pgqrs_dequeue(NULL, :theirs,
	batch_size => 100) \gset
RESET ROLE;
SELECT is(:'answers', '{42501,PQ001,PQ005,PQ005}'::text,
	'the role is refused on a queue without work, on an invisible queue and as another role''s worker');
SELECT is(:'got', '{"w.a 1","w.a 2","x.a 1","x.a 2"}'::text,
	'a worker gets messages only from queues on which its role has the privilege work');
DROP OWNED BY pgqrs_test_patterns;
DROP ROLE pgqrs_test_patterns;

-- A limit is locked to the end of the transaction only where something was claimed.
SELECT count(pgqrs_create_queue('lim.' || g, max_in_flight => 1)) FROM generate_series(1, 20) g \g /dev/null
SELECT pgqrs_enqueue('lim.7', '1') \g /dev/null
BEGIN;
SELECT count(*) AS claimed FROM pgqrs_dequeue('lim.*', batch_size => 2) \gset
SELECT count(*) AS locks FROM pg_locks WHERE classid = 'pgqrs_queues'::regclass AND mode = 'ExclusiveLock'
	AND pid = pg_backend_pid() \gset
COMMIT;
SELECT is((:claimed, :locks)::text, '(1,1)',
	'a claim by a pattern locks the limit only of the queue from which it has claimed');

SELECT * FROM finish();
