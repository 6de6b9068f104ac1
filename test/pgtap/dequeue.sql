-- Claiming messages.
\ir include/messages.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_queue('q') AS q, pgqrs_create_queue('other') AS other \gset

-- Claims one message and returns its payload.
CREATE FUNCTION pg_temp.next(name text) RETURNS jsonb LANGUAGE sql AS $$ SELECT payload FROM pgqrs_dequeue(name) $$;

--
-- What is delivered
--

SELECT is(count(*), 0::bigint, 'a claim on an empty queue returns nothing') FROM pgqrs_dequeue('q');
SELECT is(count(*), 0::bigint, 'a claim of many on an empty queue returns nothing')
	FROM pgqrs_dequeue('q', batch_size => 10000);
CREATE TEMP TABLE delivery AS SELECT * FROM pgqrs_dequeue('q');
SELECT is(string_agg(attname || ' ' || atttypid::regtype, ', ' ORDER BY attnum),
	'message_id bigint, queue text, lease bigint, attempt integer, failures integer, '
	'priority integer, enqueued_at timestamp with time zone, visible_after timestamp with time zone, payload jsonb, '
		'headers jsonb, run_id bigint, workflow text, input jsonb, cancel_requested boolean',
	'pgqrs_dequeue() returns the documented columns') FROM pg_attribute WHERE attrelid = 'delivery'::regclass
		AND attnum > 0;

SELECT pgqrs_enqueue('q', '{"a": 1}', priority => 3, headers => '{"h": 2}') AS id \gset
SELECT enqueued_at FROM pg_temp.message(:id) \gset
SELECT clock_timestamp() AS before \gset
SELECT * FROM pgqrs_dequeue('q') \gset d_
SELECT clock_timestamp() + interval '1 ms' AS after \gset
SELECT is(ROW(:d_message_id, :'d_queue', :d_attempt, :d_failures, :d_priority, :'d_enqueued_at'::timestamptz,
	:'d_payload', :'d_headers')::text,
	ROW(:id, 'q', 1, 0, 3, :'enqueued_at'::timestamptz, '{"a": 1}', '{"h": 2}')::text,
		'a claim returns the message as it was sent, as attempt 1 without failures');
\set absent :d_run_id:d_workflow:d_input
SELECT is(:'absent', ':d_run_id:d_workflow:d_input'::text, 'a plain message has no run, workflow or input');
SELECT ok(:d_lease BETWEEN 1 AND 9007199254740991, 'a lease is safe as a JSON number');
SELECT ok(:'d_visible_after'::timestamptz - interval '30 s' BETWEEN :'before' AND :'after',
	'a lease ends after the queue''s visibility_timeout');
SELECT is(ROW(lease, visible_after, attempt, failures, worker_id, priority, payload, headers, enqueued_at)::text,
	ROW(:d_lease, :'d_visible_after'::timestamptz, 1, 0, NULL::bigint, 3, '{"a": 1}'::jsonb, '{"h": 2}'::jsonb,
		:'enqueued_at'::timestamptz)::text, 'a claim stores lease, attempt and end, and leaves the rest as it was')
	FROM pg_temp.message(:id);
SELECT ok(dequeued_at BETWEEN :'before' AND :'after', 'a claim stores its time') FROM pg_temp.message(:id);
SELECT is(count(*), 0::bigint, 'a second claim does not get a message under a lease')
	FROM pgqrs_dequeue('q', batch_size => 10);

SELECT pgqrs_enqueue('q', 'null') AS id \gset
SELECT is(ROW(payload, headers, run_id, workflow, input)::text, '(null,,,,)',
	'a claim returns a JSON null as such, and NULL for what a message lacks') FROM pgqrs_dequeue('q');
SELECT pgqrs_enqueue_batch('q', '{1,2,3}') \g /dev/null
SELECT is(array_agg(DISTINCT ceil(extract(epoch FROM visible_after - clock_timestamp()) / 600) * 600), '{7200}',
	'visibility_timeout of the call sets the end of each lease')
	FROM pgqrs_dequeue('q', visibility_timeout => '2 h', batch_size => 3);
SELECT pgqrs_enqueue('q', '1') \g /dev/null
SELECT is(ceil(extract(epoch FROM visible_after - clock_timestamp()) / 600) * 600, 86400::numeric,
	'visibility_timeout may be given by position; a day has 24 hours') FROM pgqrs_dequeue('q', NULL, 1, '1 day');

SELECT pgqrs_enqueue('q', to_jsonb(repeat('x', 1500000)), headers => to_jsonb(repeat('y', 1500000))) \g /dev/null
SELECT is(md5(payload::text) || md5(headers::text), md5(to_json(repeat('x', 1500000))::text)
	|| md5(to_json(repeat('y', 1500000))::text), 'a claim returns large payload and headers whole')
	FROM pgqrs_dequeue('q');

SELECT pgqrs_enqueue_batch('other', array_fill('1'::jsonb, ARRAY[1000])) \g /dev/null
SELECT ok(count(DISTINCT lease) = 1000 AND min(lease) > 0 AND max(lease) > 2::numeric ^ 52
	AND max(lease) < 2::numeric ^ 53 AND min(lease) < 2::numeric ^ 47, 'leases are random numbers')
	FROM pgqrs_dequeue('other', batch_size => 1000);

--
-- How many
--

SELECT pgqrs_create_queue('many') \g /dev/null
SELECT pgqrs_enqueue_batch('many', array_agg(to_jsonb(n) ORDER BY n)) FROM generate_series(1, 10000) n \g /dev/null
SELECT is(array_agg(payload), '{1}', 'a claim returns one message unless told otherwise') FROM pgqrs_dequeue('many');
SELECT is(array_agg(payload), '{2,3,4,5,6}', 'a claim returns as many messages as asked for')
	FROM pgqrs_dequeue('many', batch_size => 5);
SELECT is(array_agg((payload #>> '{}')::int), ARRAY(SELECT generate_series(7, 10000)),
	'a claim returns all the messages that there are, in order') FROM pgqrs_dequeue('many', batch_size => 10000);
SELECT is(count(*), 0::bigint, 'after all messages were claimed there is none') FROM pgqrs_dequeue('many');

--
-- Order: priority high to low, then visible_after, then id
--

SELECT pgqrs_create_queue('order') AS ordered \gset
SELECT pgqrs_enqueue('order', '"3 low"', priority => -1), pgqrs_enqueue('order', '"2 first"'), pgqrs_enqueue('order',
	'"1 high"', priority => 1), pgqrs_enqueue('order', '"2 second"') \g /dev/null
SELECT is(pg_temp.drain('order'), '["1 high", "2 first", "2 second", "3 low"]',
	'a claim goes by priority, then by the time from which messages are due');
SELECT pgqrs_enqueue('order', '"third"') AS third, pgqrs_enqueue('order', '"second"') AS second,
	pgqrs_enqueue('order', '"first"') AS first \gset
UPDATE pgqrs_messages SET visible_after = '2020-01-03' WHERE message_id = :third;
UPDATE pgqrs_messages SET visible_after = '2020-01-02' WHERE message_id = :second;
UPDATE pgqrs_messages SET visible_after = '2020-01-01' WHERE message_id = :first;
SELECT is(pg_temp.drain('order'), '["first", "second", "third"]', 'a claim goes by visible_after, not by id');
SELECT pgqrs_enqueue_batch('order', '{1,2,3,4,5}', run_at => '2100-01-01') \g /dev/null
SELECT pgqrs_enqueue('order', '"now"', priority => -100) \g /dev/null
SELECT is(pg_temp.drain('order'), '["now"]', 'messages that are not due hold up no other');
UPDATE pgqrs_messages SET visible_after = '2020-01-01' WHERE queue_id = :ordered;
SELECT is(pg_temp.drain('order'), '[1, 2, 3, 4, 5]', 'messages due at the same instant are delivered by id');

-- Any mixture, in batches of any size: what is due comes in order, each once.
SELECT pgqrs_enqueue('order', to_jsonb(n), priority => n * 7919 % 201 - 100)
	FROM generate_series(1, 1000) n \g /dev/null
UPDATE pgqrs_messages SET visible_after = CASE WHEN message_id % 5 = 0 THEN clock_timestamp() + interval '1 h'
	ELSE '2020-01-01'::timestamptz END + message_id * 31 % 7 * interval '1 min'
	WHERE queue_id = :ordered;
UPDATE pgqrs_messages SET priority = 0 WHERE queue_id = :ordered AND message_id % 3 = 0;
SELECT array_agg(message_id ORDER BY priority DESC, visible_after, message_id) AS expected FROM pgqrs_messages
	WHERE queue_id = :ordered AND visible_after < clock_timestamp() \gset
CREATE FUNCTION pg_temp.batches(name text) RETURNS bigint[] LANGUAGE plpgsql AS
$$
DECLARE
	result bigint[] := '{}';
	batch bigint[];
	size int := 1;
BEGIN
	LOOP
		SELECT array_agg(message_id) INTO batch FROM pgqrs_dequeue(name, batch_size => size);
		EXIT WHEN batch IS NULL;
		IF cardinality(batch) > size THEN
			RAISE 'more than asked for';
		END IF;
		result := result || batch;
		size := size * 3 % 17;
	END LOOP;
	RETURN result;
END
$$;
SELECT is(pg_temp.batches('order'), :'expected'::bigint[],
	'claims of any size return a mixture of priorities and times in order');
SELECT is(count(*), 200::bigint, 'messages that are not due were not claimed') FROM pgqrs_messages
	WHERE queue_id = :ordered AND lease IS NULL;

--
-- A message is claimable the moment visible_after has passed
--

-- Asks until there is one; fails if it came early, or took long.
CREATE FUNCTION pg_temp.await(name text, at timestamptz) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	deadline timestamptz := clock_timestamp() + interval '180 s';
	found_at timestamptz;
BEGIN
	WHILE found_at IS NULL AND clock_timestamp() < deadline LOOP
		SELECT clock_timestamp() INTO found_at FROM pgqrs_dequeue(name);
		PERFORM pg_sleep(0.001);
	END LOOP;
	RETURN CASE WHEN found_at < at THEN 'early' WHEN found_at IS NULL THEN 'never' ELSE 'in time' END;
END
$$;
SELECT pgqrs_create_queue('time') \g /dev/null
SELECT pgqrs_enqueue('time', '1', delay => '200 ms') AS id \gset
SELECT is(pg_temp.await('time', visible_after), 'in time',
	'a delayed message is claimed as soon as it is due, not before') FROM pg_temp.message(:id);
SELECT pg_temp.due(:id) \g /dev/null
SELECT message_id AS id, visible_after FROM pgqrs_dequeue('time', visibility_timeout => '200 ms') \gset
SELECT is(pg_temp.await('time', :'visible_after'), 'in time',
	'a message is claimed as soon as its lease has run out, not before');
SELECT is(pg_temp.state(:id), 'held 3 2', 'a lease that ran out needs no call but the next claim');

--
-- A lease that ran out is claimed again, under a new lease, as a failure
--

SELECT pgqrs_create_queue('again') \g /dev/null
SELECT pgqrs_enqueue('again', '1') AS id \gset
SELECT lease AS first FROM pgqrs_dequeue('again') \gset
SELECT pg_temp.due(:id) \g /dev/null
SELECT lease AS second, attempt, failures FROM pgqrs_dequeue('again') \gset
SELECT isnt(:first::bigint, :second::bigint, 'the claim after a lease ran out has a new lease');
SELECT is(ROW(:attempt, :failures)::text, '(2,1)',
	'the claim after a lease ran out returns attempt 2 and one failure');
SELECT is(pg_temp.state(:id), 'held 2 1', 'the claim after a lease ran out stores attempt 2 and one failure');
INSERT INTO refused VALUES (format('pgqrs_archive_message(%s, %s)', :id, :first), 'PQ006');
SELECT is(got, state, 'the lease that ran out is refused after the next claim') FROM pg_temp.refusals();
SELECT pgqrs_enqueue('again', '"older"') AS older \gset
UPDATE pgqrs_messages SET visible_after = '2020-01-01' WHERE message_id = :older;
SELECT pg_temp.due(:id) \g /dev/null
SELECT is(array_agg(payload), '{"\"older\"",1}', 'a message whose lease ran out is due from the end of the lease')
	FROM pgqrs_dequeue('again', batch_size => 2);

--
-- The caller's transaction
--

SELECT pgqrs_create_queue('tx') \g /dev/null
SELECT pgqrs_enqueue('tx', '1') AS id \gset
BEGIN;
SELECT lease FROM pgqrs_dequeue('tx') \gset
SELECT is(count(*), 0::bigint, 'a second claim in the transaction does not get the message again')
	FROM pgqrs_dequeue('tx');
ROLLBACK;
SELECT is(pg_temp.state(:id), 'live 0 0', 'a claim that is rolled back counts neither an attempt nor a failure');
INSERT INTO refused VALUES (format('pgqrs_archive_message(%s, %s)', :id, :lease), 'PQ006');
SELECT is(got, state, 'the lease of a claim that was rolled back is refused') FROM pg_temp.refusals();
BEGIN;
SAVEPOINT s;
SELECT lease AS lost FROM pgqrs_dequeue('tx') \gset
ROLLBACK TO s;
SELECT lease, attempt FROM pgqrs_dequeue('tx') \gset
SELECT isnt(:lease::bigint, :lost::bigint,
	'a message is claimed again after rolling back to a savepoint, under another lease');
SELECT is(:attempt, 1, 'a claim that was rolled back to a savepoint counts no attempt');
COMMIT;
SELECT is(pg_temp.state(:id), 'held 1 0', 'the second claim is committed');
SELECT lives_ok(format('SELECT pgqrs_archive_message(%s, %s)', :id, :lease),
	'the lease of the second claim is accepted');

CREATE FUNCTION pg_temp.newest(name text) RETURNS text LANGUAGE sql AS
$$
	SELECT pgqrs_enqueue(name, '"sent"');
	SELECT concat(payload, pgqrs_release_message(message_id, lease)) FROM pgqrs_dequeue(name);
	SELECT concat(attempt, failures, pgqrs_nack_message(message_id, lease, delay => '0') IS NOT NULL)
		FROM pgqrs_dequeue(name);
	SELECT concat_ws(' ', payload, attempt, failures) FROM pgqrs_dequeue(name);
$$;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT is(pg_temp.newest('tx'), '"sent" 3 1', 'a REPEATABLE READ transaction claims the newest state of a message');
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT is(pg_temp.newest('tx'), '"sent" 3 1', 'a SERIALIZABLE transaction claims the newest state of a message');
COMMIT;

--
-- max_in_flight
--

SELECT pgqrs_create_queue('limit', max_in_flight => 3) AS limited \gset
SELECT pgqrs_enqueue_batch('limit', '{1,2,3,4,5,6,7,8,9}') \g /dev/null
SELECT is(count(*), 3::bigint, 'a claim returns no more messages than max_in_flight') FROM pgqrs_dequeue('limit',
	batch_size => 10);
SELECT is(count(*), 0::bigint, 'a claim on a queue at max_in_flight returns nothing') FROM pgqrs_dequeue('limit');
SELECT message_id AS id, lease FROM pgqrs_messages WHERE queue_id = :limited AND lease IS NOT NULL ORDER BY 1
	LIMIT 1 \gset
SELECT pgqrs_extend_lease(:id, :lease, '1 h') \g /dev/null
SELECT is(count(*), 0::bigint, 'an extended lease counts for max_in_flight') FROM pgqrs_dequeue('limit');
SELECT pgqrs_archive_message(:id, :lease);
SELECT is(array_agg(payload), '{4}', 'archiving a message makes room for one more') FROM pgqrs_dequeue('limit',
	batch_size => 10);
SELECT message_id AS id, lease FROM pgqrs_messages WHERE queue_id = :limited AND lease IS NOT NULL ORDER BY 1
	LIMIT 1 \gset
SELECT pgqrs_nack_message(:id, :lease, delay => '1 h') \g /dev/null
SELECT is(array_agg(payload), '{5}', 'a message that waits for its retry makes room for one more')
	FROM pgqrs_dequeue('limit', batch_size => 10);
SELECT pg_temp.due(message_id) FROM pgqrs_messages WHERE queue_id = :limited AND lease IS NOT NULL \g /dev/null
SELECT is(count(*), 3::bigint, 'a lease that ran out does not count for max_in_flight') FROM pgqrs_dequeue('limit',
	batch_size => 10);
SELECT pgqrs_alter_queue('limit', max_in_flight => 1);
SELECT is(count(*), 0::bigint, 'a lowered max_in_flight holds for the next claim') FROM pgqrs_dequeue('limit');
SELECT pgqrs_alter_queue('limit', max_in_flight => 5);
SELECT is(count(*), 2::bigint, 'a raised max_in_flight holds for the next claim') FROM pgqrs_dequeue('limit',
	batch_size => 10);
SELECT pgqrs_alter_queue('limit', reset => '{max_in_flight}');
SELECT is(count(*), 2::bigint, 'without max_in_flight a claim returns what there is') FROM pgqrs_dequeue('limit',
	batch_size => 10);

-- Keeping a limit looks at what is held or delayed, not at what waits.
SELECT pgqrs_create_queue('backlog', max_in_flight => 4) \g /dev/null
SELECT pgqrs_enqueue_batch('backlog', array_fill('1'::jsonb, '{500}'), priority => p)
	FROM unnest('{-100,0,7,100}'::int[]) p \g /dev/null
SELECT count(*) FROM pgqrs_dequeue('backlog') \g /dev/null
SELECT pgqrs_release_message(message_id, lease, '1 day') FROM pgqrs_dequeue('backlog') \g /dev/null
SELECT count(*) FROM pgqrs_dequeue('backlog', visibility_timeout => '1 us') \g /dev/null
BEGIN;
SELECT pg_stat_get_xact_tuples_fetched('pgqrs_messages_claim_idx'::regclass) AS fetched \gset
SELECT is(count(*), 3::bigint, 'a claim fills max_in_flight up beside the one message in flight')
	FROM pgqrs_dequeue('backlog', batch_size => 10);
SELECT is(count(*), 0::bigint, 'a claim on the full queue returns nothing') FROM pgqrs_dequeue('backlog',
	batch_size => 10);
SELECT cmp_ok(pg_stat_get_xact_tuples_fetched('pgqrs_messages_claim_idx'::regclass) - :fetched, '<', 500::bigint,
	'keeping max_in_flight looks at few of 2,000 waiting messages');
COMMIT;

--
-- pause
--

SELECT pgqrs_create_queue('paused'), pgqrs_enqueue_batch('paused', '{1,2}') \g /dev/null
SELECT message_id AS id, lease FROM pgqrs_dequeue('paused') \gset
SELECT pgqrs_pause_queue('paused');
SELECT is(count(*), 0::bigint, 'a claim on a paused queue returns nothing') FROM pgqrs_dequeue('paused',
	batch_size => 10);
SELECT pg_temp.due(:id) \g /dev/null
SELECT is(count(*), 0::bigint, 'a claim on a paused queue does not return a message whose lease ran out')
	FROM pgqrs_dequeue('paused', batch_size => 10);
SELECT is(pg_temp.state(:id), 'held 1 0', 'a claim on a paused queue counts no failure for a lease that ran out');
SELECT lives_ok(format('SELECT pgqrs_archive_message(%s, %s)', :id, :lease),
	'the holder finishes a message of a paused queue');
SELECT pgqrs_resume_queue('paused');
SELECT is(pg_temp.next('paused'), '2', 'a resumed queue delivers again');

-- The lowest priority there is, which only the tables' owner can give.
SELECT pgqrs_create_queue('lowest') AS lowest, pgqrs_enqueue('lowest', '1', delay => '1 hour') AS id \gset
UPDATE pgqrs_messages SET priority = -32768 WHERE message_id = :id;
SET statement_timeout = '180 s';
SELECT is(count(*), 0::bigint, 'a claim ends on a queue whose only message has the lowest priority and is not due')
	FROM pgqrs_dequeue('lowest');
CALL pgqrs_wait_for_work('lowest', timeout => '1 ms') \gset
SELECT is(:'available'::bool, false, 'a wait does not report a message of the lowest priority that is not due');
SELECT isnt(pgqrs_maintain(), NULL, 'a pass ends on a queue with the lowest priority');
SELECT pgqrs_alter_queue('lowest', max_in_flight => 1);
SELECT is(count(*), 0::bigint, 'counting for max_in_flight ends on a queue with the lowest priority')
	FROM pgqrs_dequeue('lowest');
RESET statement_timeout;

SELECT * FROM finish();
