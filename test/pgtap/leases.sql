-- Calls of the holder of a lease, and of callers without one.
-- F-numbers: docs/design/known-failures.md.
\ir include/messages.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_queue('q', visibility_timeout => '1 min') AS q, pgqrs_create_queue('brief',
	retention => '0') AS brief,
	pgqrs_create_queue('other') \gset

--
-- Archive and delete
--

SELECT pgqrs_enqueue('q', '{"a": 1}', priority => 3, idempotency_key => 'k', headers => '{"h": 2}') AS id \gset
SELECT pg_temp.claim(:id) AS lease \gset
SELECT pgqrs_nack_message(:id, :lease, '"once"', '0') \g /dev/null
SELECT pg_temp.claim(:id) AS lease \gset
SELECT to_jsonb(m) - '{exhausted_at,undo,children_after}'::text[] AS message FROM pg_temp.message(:id) m \gset
SELECT clock_timestamp() AS before \gset
SELECT pgqrs_archive_message(:id, :lease);
SELECT is(count(*), 0::bigint, 'archiving takes the message out of the live ones') FROM pgqrs_messages
	WHERE message_id = :id;
SELECT is(to_jsonb(a) - '{archived_at,outcome}'::text[], :'message'::jsonb,
	'the archive has every column of the message') FROM pg_temp.archived(:id) a;
SELECT is(outcome, 'DONE', 'an archived message has the outcome DONE') FROM pg_temp.archived(:id);
SELECT ok(archived_at BETWEEN :'before' AND clock_timestamp() + interval '1 ms',
	'the archive has the time of the call') FROM pg_temp.archived(:id);
SELECT pg_temp.contents() AS before \gset
SELECT is(pgqrs_archive_message(:id, :lease), false, 'a repeated archive says that it was done before');
SELECT is(pgqrs_archive_messages(ARRAY[:id], ARRAY[:lease]), '{f}',
	'a repeated archive in a batch says that it was done before');
SELECT is(pg_temp.contents(), :'before', 'a repeated archive changes nothing');
INSERT INTO refused SELECT format('pgqrs_archive_message(%s, %s)', :id, l), 'PQ006'
	FROM unnest(ARRAY[:lease # 1, 0]) l;
SELECT is(got, state, 'an archived message is refused under another lease') FROM pg_temp.refusals();
SELECT is(pgqrs_archive_messages(ARRAY[:id], ARRAY[:lease # 1]), '{NULL}',
	'an archived message under another lease gets NULL in a batch');

SELECT * FROM pg_temp.held('q') \gset
BEGIN;
SELECT pgqrs_archive_message(:id, :lease), pgqrs_archive_message(:id, :lease);
SELECT is(pg_temp.state(:id), 'DONE 1 0', 'archiving twice in a transaction archives once');
ROLLBACK;
SELECT is(pg_temp.state(:id), 'held 1 0', 'a rollback gives the archived message back to its holder');
SELECT pgqrs_delete_message(:id, :lease);
SELECT is(pg_temp.state(:id), 'DELETED 1 0', 'a deleted message has the outcome DELETED');

SELECT * FROM pg_temp.held('brief') \gset
SELECT pgqrs_archive_message(:id, :lease);
SELECT is(pg_temp.state(:id), 'gone', 'a queue with retention 0 keeps nothing of an archived message');
INSERT INTO refused VALUES (format('pgqrs_archive_message(%s, %s)', :id, :lease), 'PQ006');
SELECT is(got, state, 'a repeated archive finds nothing where retention is 0') FROM pg_temp.refusals();
SELECT is(pgqrs_archive_messages(ARRAY[:id], ARRAY[:lease]), '{NULL}',
	'a repeated archive in a batch finds nothing where retention is 0');
SELECT pgqrs_alter_queue('brief', retention => '1 us');
SELECT * FROM pg_temp.held('brief') \gset
SELECT pgqrs_archive_message(:id, :lease);
SELECT is(pg_temp.state(:id), 'DONE 1 0', 'a queue with the shortest retention keeps an archived message');

--
-- Release
--

SELECT * FROM pg_temp.held('q') \gset
SELECT pgqrs_nack_message(:id, :lease, delay => '0') \g /dev/null
SELECT pg_temp.claim(:id) AS lease \gset
SELECT pgqrs_release_message(:id, :lease);
SELECT is(pg_temp.state(:id), 'live 2 1', 'a release gives the lease up and counts no failure');
SELECT ok(pg_temp.wait(:id) BETWEEN -600 AND 0, 'a released message is due at once');
SELECT is(ROW(attempt, failures)::text, '(3,1)', 'the claim after a release counts an attempt and no failure')
	FROM pgqrs_dequeue('q');
SELECT lease FROM pg_temp.message(:id) \gset
SELECT pgqrs_release_message(:id, :lease, '90 min');
SELECT ok(pg_temp.wait(:id) BETWEEN 4800 AND 5400, 'a release with a delay makes the message due after it');
SELECT is(count(*), 0::bigint, 'a claim does not return a message released with a delay') FROM pgqrs_dequeue('q');

--
-- Nack
--

SELECT pgqrs_create_queue('nack', max_attempts => 2147483647) AS nack \gset
SELECT * FROM pg_temp.held('nack') \gset
SELECT pgqrs_nack_message(:id, :lease, '{"type": "first"}', '90 min') AS at \gset
SELECT is(visible_after, :'at', 'a nack returns when the message is due again') FROM pg_temp.message(:id);
SELECT ok(pg_temp.wait(:id) BETWEEN 4800 AND 5400, 'a nack makes the message due after the delay');
SELECT is(ROW(pg_temp.state(:id), last_error)::text, '("live 1 1","{""type"": ""first""}")',
	'a nack counts one failure and stores the error') FROM pg_temp.message(:id);
SELECT pg_temp.claim(:id) AS lease \gset
SELECT is(pg_temp.state(:id), 'held 2 1', 'the claim after a nack counts no further failure');
SELECT pgqrs_nack_message(:id, :lease, '"second"', '0') AS at \gset
SELECT is(ROW(pg_temp.state(:id), last_error, pg_temp.wait(:id) <= 0)::text, '("live 2 2","""second""",t)',
	'a second nack replaces the error and, without a delay, makes the message due at once') FROM pg_temp.message(:id);
SELECT is(count(*), 1::bigint, 'a nacked message is delivered') FROM pgqrs_dequeue('nack');
SELECT lease FROM pg_temp.message(:id) \gset
SELECT pgqrs_nack_message(:id, :lease, jsonb_build_object('type', 'big', 'message', repeat('x', 3000000)))
	\g /dev/null
SELECT is(last_error ->> 'type', 'big', 'a nack with an error that is too large keeps the error''s type')
	FROM pg_temp.message(:id);
SELECT ok(last_error::text ~ 'truncated' AND last_error::text ~ 'xxxx' AND length(last_error::text) < 2000000,
	'a nack with an error that is too large keeps its beginning, marked as truncated') FROM pg_temp.message(:id);

-- min(60 s, 1 s * 2^(failures-1)) +- 25 %; another one, where the machine stood still
CREATE FUNCTION pg_temp.backoff(id bigint, failed int) RETURNS numeric LANGUAGE plpgsql AS
$$
DECLARE
	lease bigint;
	before timestamptz;
	at timestamptz;
BEGIN
	LOOP
		lease := pg_temp.claim(id);
		UPDATE pgqrs_messages SET failures = failed - 1 WHERE message_id = id;
		before := clock_timestamp();
		at := pgqrs_nack_message(id, lease);
		EXIT WHEN clock_timestamp() - before < interval '0.4 s';
	END LOOP;
	RETURN extract(epoch FROM at - before);
END
$$;
SELECT ok(bool_and(delay BETWEEN 0.75 * base AND 1.25 * base + 0.5),
	format('the delay after %s failures is the base times 0.75 to 1.25', failed))
	FROM (VALUES (1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 32), (7, 60), (8, 60), (64, 60), (1100, 60),
		(2147483646, 60)) b (failed, base),
	LATERAL (SELECT pg_temp.backoff(:id, failed) AS delay FROM generate_series(1, 20)) d GROUP BY failed
		ORDER BY failed;
SELECT ok(min(delay) < 54 AND max(delay) > 66 AND count(DISTINCT delay) > 30,
	'the delays of one count of failures are spread over the whole range')
	FROM (SELECT pg_temp.backoff(:id, 10) AS delay FROM generate_series(1, 40)) d;

--
-- Extend
--

SELECT * FROM pg_temp.held('q') \gset
SELECT is(pgqrs_extend_lease(:id, :lease, '1 h')::text, '(t,f)', 'extending a live lease succeeds');
SELECT ok(pg_temp.wait(:id) BETWEEN 3000 AND 3600, 'an extension ends visibility_timeout after the call');
SELECT is(pgqrs_extend_lease(:id, :lease)::text, '(t,f)', 'extending without a timeout takes that of the queue');
SELECT ok(pg_temp.wait(:id) BETWEEN 3000 AND 3600, 'extending without a timeout never shortens a lease');
SELECT is(pgqrs_extend_lease(:id, :lease, '45 min')::text, '(t,f)',
	'extending with a timeout that is shorter succeeds');
SELECT ok(pg_temp.wait(:id) BETWEEN 2100 AND 2700, 'an extension with a timeout ends after it even if that is earlier');
SELECT is(pgqrs_extend_lease(:id, :lease, visibility_timeout => '1 day')::text, '(t,f)',
	'an extension by a day succeeds');
SELECT ok(pg_temp.wait(:id) BETWEEN 85800 AND 86400, 'an extension by a day ends after 24 hours');
SELECT is(ROW(lease, attempt, failures)::text, format('(%s,1,0)', :lease),
	'an extension changes neither lease, attempt nor failures') FROM pg_temp.message(:id);
SELECT is(pgqrs_extend_lease(:id, :lease, '1 us')::text, '(t,f)', 'an extension by a microsecond succeeds');
SELECT is(ROW(attempt, failures)::text, '(2,1)', 'a message extended by a microsecond is claimed again as attempt 2')
	FROM pgqrs_dequeue('q');
SELECT to_jsonb(m) AS before FROM pg_temp.message(:id) m \gset
SELECT is(pgqrs_extend_lease(:id, :lease, '1 h')::text, '(f,f)',
	'a lease that another claim has replaced is not extended');
SELECT is(pgqrs_extend_leases(ARRAY[:id], ARRAY[:lease], '1 h')::text, format('(%s,f,f)', :id),
	'a lease that another claim has replaced is not extended in a batch');
SELECT is(to_jsonb(m), :'before'::jsonb, 'refused extensions change nothing') FROM pg_temp.message(:id) m;

--
-- An expired lease is current until the next claim
--

CREATE TEMP TABLE uses (call text, first text, again text);
INSERT INTO uses VALUES
	('pgqrs_archive_message(%s, %s)', 'DONE 1 0', 'accepted'),
	('pgqrs_delete_message(%s, %s)', 'DELETED 1 0', 'PQ007'),
	('pgqrs_release_message(%s, %s)', 'live 1 0', 'PQ006'),
	('pgqrs_nack_message(%s, %s)', 'live 1 1', 'PQ006'),
	('pgqrs_extend_lease(%s, %s)', 'held 1 0', 'accepted'),
	('pgqrs_archive_messages(ARRAY[%s], ARRAY[%s])', 'DONE 1 0', 'accepted'),
	('pgqrs_extend_leases(ARRAY[%s], ARRAY[%s])', 'held 1 0', 'accepted');
CREATE FUNCTION pg_temp.use(call text, OUT id bigint, OUT lease bigint, OUT state text) LANGUAGE plpgsql AS
$$
BEGIN
	SELECT h.id, h.lease INTO id, lease FROM pg_temp.held('q') h;
	PERFORM pg_temp.due(id);
	EXECUTE 'SELECT ' || format(call, id, lease);
	state := pg_temp.state(id);
END
$$;
CREATE TEMP TABLE used AS SELECT uses.*, used.* FROM uses, pg_temp.use(call) used;
SELECT is(state, first, 'an expired lease that no claim has replaced is accepted: ' || call) FROM used;

-- The same call again under the same lease.
INSERT INTO refused SELECT format(call, id, lease), again FROM used WHERE again <> 'accepted';
INSERT INTO refused SELECT format(call, id, lease), again FROM used WHERE again = 'accepted';
SELECT is(split_part(got, ' after', 1), state, 'the same call again under the same lease is answered: ' || call)
	FROM pg_temp.refusals();
SELECT is(pg_temp.state(id), first, 'the same call again changes nothing: ' || call) FROM used;

-- Another call under a lease that was given up or ended.
INSERT INTO refused SELECT format(uses.call, id, lease), CASE WHEN used.first ~ 'DONE|DELETED' THEN 'PQ007'
	ELSE 'PQ006' END FROM used, uses
	WHERE used.first !~ 'held' AND uses.call !~ 'extend|messages' AND NOT (used.first ~ 'DONE'
		AND uses.call ~ 'archive');
SELECT is(got, state, 'another call under a lease that was given up is refused: ' || call) FROM pg_temp.refusals();

--
-- Callers without the lease
--

SELECT * FROM pg_temp.held('q') \gset
SELECT other.id AS other_id, other.lease AS other_lease FROM pg_temp.held('other') other \gset
SELECT pgqrs_enqueue('q', '"waits"', delay => '1 day') AS waits \gset
SELECT * FROM pg_temp.held('q') AS old (old_id, old_lease) \gset
SELECT pg_temp.claim(:old_id) AS new_lease \gset
CREATE TEMP TABLE stale (what text, id bigint, lease bigint);
INSERT INTO stale VALUES ('another message''s', :id, :other_lease), ('the next number', :id, CASE :lease
	WHEN 9007199254740991 THEN 1 ELSE :lease + 1 END),
	('0', :id, 0), ('-1', :id, -1), ('the largest number', :id, 9223372036854775807), ('the least number', :id,
		-9223372036854775808),
	('of a message that is not held', :waits, :lease), ('0 of one that is not held', :waits, 0),
		('superseded', :old_id, :old_lease),
	('of no message', 9007199254740991, :lease), ('of message 0', 0, :lease), ('of message -1', -1, :lease);
SELECT pg_temp.contents() AS before \gset
INSERT INTO refused SELECT format(call, id, lease), 'PQ006' FROM uses, stale WHERE call !~ 'extend|messages';
SELECT is(got, state, 'a lease that is none is refused: ' || call) FROM pg_temp.refusals();
SELECT is(pgqrs_extend_lease(id, lease)::text, '(f,f)', 'pgqrs_extend_lease() answers false for a lease that is '
	|| what) FROM stale;
SELECT is(pgqrs_archive_messages(ARRAY[id], ARRAY[lease]), '{NULL}',
	'pgqrs_archive_messages() answers NULL for a lease that is ' || what) FROM stale;
SELECT is(e::text, format('(%s,f,f)', id), 'pgqrs_extend_leases() answers false for a lease that is ' || what)
	FROM stale, pgqrs_extend_leases(ARRAY[id], ARRAY[lease]) e;
SELECT is(pg_temp.contents(), :'before', 'calls under stale leases change nothing');

--
-- Batches answer per item
--

SELECT pgqrs_create_queue('batch', visibility_timeout => '1 min') AS batch \gset
CREATE TEMP TABLE held AS SELECT n, h.* FROM generate_series(1, 6) n, pg_temp.held(CASE WHEN n > 0 THEN 'batch'
	END) h;
UPDATE held SET lease = lease # 1 WHERE n = 2;
SELECT pgqrs_release_message(id, lease) FROM held WHERE n = 3;
SELECT pgqrs_archive_message(id, lease) FROM held WHERE n = 4;
SELECT pg_temp.due(id) FROM held WHERE n = 5 \g /dev/null
SELECT array_agg(id ORDER BY -n) || '{0}' AS ids, array_agg(lease ORDER BY -n) || '{1}' AS leases FROM held \gset
SELECT results_eq(format('SELECT * FROM pgqrs_extend_leases(%L, %L, ''1 h'')', :'ids', :'leases'),
	format('SELECT * FROM unnest(%L::bigint[], ''{t,t,f,f,f,t,f}''::boolean[], ''{f,f,f,f,f,f,f}''::boolean[])',
		:'ids'), 'pgqrs_extend_leases() answers for each item in the order given');
SELECT is(array_agg(round(pg_temp.wait(id) / 3600) ORDER BY n), '{1,0,0,NULL,1,1}',
	'pgqrs_extend_leases() extends the live leases by the given time') FROM held;
SELECT results_eq(format('SELECT extended FROM pgqrs_extend_leases(%L, %L)', :'ids', :'leases'),
	'SELECT unnest(''{t,t,f,f,f,t,f}''::boolean[])',
	'pgqrs_extend_leases() without a timeout answers for each item in the order given');
SELECT is(array_agg(round(pg_temp.wait(id) / 60) ORDER BY n), '{60,1,0,NULL,60,60}',
	'pgqrs_extend_leases() without a timeout shortens no lease') FROM held;
SELECT is(pgqrs_archive_messages(:'ids', :'leases'), '{t,t,f,NULL,NULL,t,NULL}',
	'pgqrs_archive_messages() answers true for what it did, false for what was done before, NULL for stale leases');
SELECT is(string_agg(pg_temp.state(id), ',' ORDER BY n), 'DONE 1 0,held 1 0,live 1 0,DONE 1 0,DONE 1 0,DONE 1 0',
	'pgqrs_archive_messages() archives the messages under live leases') FROM held;
SELECT pg_temp.contents() AS before \gset
SELECT is(pgqrs_archive_messages(:'ids', :'leases'), '{f,f,f,NULL,NULL,f,NULL}',
	'a repeated pgqrs_archive_messages() says that everything was done before');
SELECT is(pg_temp.contents(), :'before', 'a repeated pgqrs_archive_messages() changes nothing');
SELECT pgqrs_enqueue_batch('batch', array_fill('0'::jsonb, ARRAY[10000])) \g /dev/null
SELECT array_agg(message_id) AS ids, array_agg(lease) AS leases FROM pgqrs_dequeue('batch', batch_size => 10000) \gset
SELECT is(count(*) FILTER (WHERE extended), 10000::bigint, 'pgqrs_extend_leases() extends 10,000 leases')
	FROM pgqrs_extend_leases(:'ids', :'leases');
SELECT is(cardinality(array_positions(pgqrs_archive_messages(:'ids', :'leases'), true)), 10000,
	'pgqrs_archive_messages() archives 10,000 messages');

--
-- set_visibility
--

SELECT * FROM pg_temp.held('q') \gset
SELECT pgqrs_nack_message(:id, :lease, '"error"', '0') \g /dev/null
SELECT pg_temp.claim(:id) AS lease \gset
SELECT pgqrs_set_visibility(:id, '2100-01-01 00:00Z');
SELECT is(ROW(pg_temp.state(:id), visible_after, last_error)::text, ROW('live 2 1', '2100-01-01 00:00Z'::timestamptz,
	'"error"'::jsonb)::text,
	'pgqrs_set_visibility() takes the lease and counts no failure') FROM pg_temp.message(:id);
INSERT INTO refused SELECT format(call, :id, :lease), 'PQ006' FROM uses WHERE call !~ 'extend|messages';
SELECT is(got, state, 'the lease is refused after pgqrs_set_visibility(): ' || call) FROM pg_temp.refusals();
SELECT is(extended, false, 'the lease is not extended after pgqrs_set_visibility()') FROM pgqrs_extend_lease(:id,
	:lease);
SELECT pgqrs_set_visibility(:id, '2020-01-01');
SELECT ok(pg_temp.wait(:id) BETWEEN -600 AND 0, 'pgqrs_set_visibility() counts a past instant as now');
SELECT pgqrs_set_visibility(:id, '-infinity');
SELECT ok(pg_temp.wait(:id) BETWEEN -600 AND 0, 'pgqrs_set_visibility() counts -infinity as now');
SELECT pg_temp.claim(:id) AS lease \gset
SELECT is(pg_temp.state(:id), 'held 3 1', 'the claim after pgqrs_set_visibility() counts no further failure');
SELECT pgqrs_archive_message(:id, :lease);
INSERT INTO refused SELECT format('pgqrs_set_visibility(%s, ''2100-01-01'')', id), 'PQ004'
	FROM unnest(ARRAY[:id, 9007199254740991, 0, -1]) id;
SELECT is(got, state, 'a message that is not live is refused: ' || call) FROM pg_temp.refusals();

--
-- Limits
--

-- A lease that has run out takes room like a claim when it is extended (F19).
SELECT pgqrs_create_queue('narrow', max_in_flight => 1) \g /dev/null
SELECT pgqrs_enqueue_batch('narrow', '{1,2}') \g /dev/null
SELECT message_id AS late, lease AS late_lease FROM pgqrs_dequeue('narrow') \gset
SELECT is(extended, true, 'a live lease is extended in a queue at max_in_flight') FROM pgqrs_extend_lease(:late,
	:late_lease);
SELECT pg_temp.due(:late) \g /dev/null
SELECT is(extended, true, 'an expired lease is extended while max_in_flight has room') FROM pgqrs_extend_lease(:late,
	:late_lease, '1 us');
SELECT ok(visible_after < clock_timestamp(), 'a lease extended by a microsecond has run out') FROM pgqrs_messages
	WHERE message_id = :late;
UPDATE pgqrs_messages SET priority = -1 WHERE message_id = :late;
SELECT message_id AS next, lease AS next_lease FROM pgqrs_dequeue('narrow') \gset
SELECT isnt(:next::bigint, :late::bigint, 'another claim takes the room of the expired lease');
SELECT is(extended, false, 'an expired lease is not extended in a queue at max_in_flight')
	FROM pgqrs_extend_lease(:late, :late_lease);
SELECT pgqrs_archive_message(:next, :next_lease);
SELECT is(extended, true, 'an expired lease is extended once there is room again') FROM pgqrs_extend_lease(:late,
	:late_lease);

SELECT pgqrs_create_queue('wide') \g /dev/null
SELECT pgqrs_enqueue_batch('wide', '{1,2}') \g /dev/null
SELECT pgqrs_register_worker('one at a time', '{wide}', max_concurrent => 1) AS single \gset
SELECT message_id AS late, lease AS late_lease FROM pgqrs_dequeue('wide', :single) \gset
SELECT pg_temp.due(:late) \g /dev/null
UPDATE pgqrs_messages SET priority = -1 WHERE message_id = :late;
SELECT message_id AS next FROM pgqrs_dequeue('wide', :single) \gset
SELECT isnt(:next::bigint, :late::bigint, 'the worker claims another message after its lease ran out');
SELECT is(extended, false, 'an expired lease is not extended for a worker at max_concurrent')
	FROM pgqrs_extend_lease(:late, :late_lease);

SELECT * FROM finish();
