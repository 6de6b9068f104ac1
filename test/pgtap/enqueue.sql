-- Sending messages.  F31: NUL and surrogates.  F41: subtransactions.
-- F-numbers: docs/design/known-failures.md.
\ir include/messages.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_queue('q') AS q, pgqrs_create_queue('other') AS other \gset
SELECT pgqrs_create_workflow('flow') \g /dev/null

--
-- What is stored
--

SELECT clock_timestamp() AS before \gset
SELECT pgqrs_enqueue('q', '{"a": [1, null]}') AS id \gset
SELECT is(to_jsonb(m) - '{message_id,enqueued_at,visible_after}'::text[],
	format('{"queue_id": %s, "dequeued_at": null, "lease": null, "worker_id": null, "run_id": null, "deadline_at": null,
		"attempt": 0, "failures": 0, "priority": 0, "waiting_for": null, "exhausted_at": null,
		"undo": null, "children_after": null,
		"concurrency_key": null, "idempotency_key": null,
		"payload": {"a": [1, null]}, "headers": null, "last_error": null}', :q)::jsonb,
	'a message sent with nothing but its payload has the defaults')
	FROM pg_temp.message(:id) m;
SELECT ok(enqueued_at BETWEEN :'before' AND clock_timestamp() + interval '1 ms',
	'a message stores the time of the call') FROM pg_temp.message(:id);
SELECT is(visible_after, enqueued_at, 'a message without a delay is due at once') FROM pg_temp.message(:id);
SELECT ok(:id BETWEEN 1 AND 9007199254740991, 'a message id is safe as a JSON number');
SELECT cmp_ok(pgqrs_enqueue('q', '1'), '>', :id::bigint, 'message ids ascend');

SELECT is(ROW(payload, visible_after - enqueued_at, priority, idempotency_key, headers)::text,
	'(1,00:01:30,7,key,"{""h"": 1}")',
	'a message stores every argument, given by position') FROM pg_temp.message(pgqrs_enqueue('q', '1', '90 s', NULL,
		7, 'key', '{"h": 1}'));
SELECT is(ROW(payload, priority, idempotency_key, headers)::text, '(2,-3,"by name",[])',
	'a message stores every argument, given by name')
	FROM pg_temp.message(pgqrs_enqueue(headers => '[]', queue => 'q', payload => '2', idempotency_key => 'by name',
		priority => -3));

CREATE TEMP TABLE payloads (payload jsonb);
INSERT INTO payloads VALUES ('null'), ('0'), ('""'), ('true'), ('[]'), ('{}'), ('1e1000'), ('{"": {"": [[[]]]}}'),
	('"a\"b''c\\d\u0001"'), ('"\ud83d\ude00 é"'), ('{"run_id": 1}'),
		((repeat('[', 1000) || repeat(']', 1000))::jsonb);
SELECT is(m.payload, p.payload, 'a message keeps its payload: ' || left(p.payload::text, 20)) FROM payloads p,
	pg_temp.message(pgqrs_enqueue('q', p.payload)) m;
SELECT is(m.headers, p.payload, 'a message keeps its headers: ' || left(p.payload::text, 20)) FROM payloads p,
	pg_temp.message(pgqrs_enqueue('q', '1', headers => p.payload)) m;
SELECT is(priority::int, p, 'a message keeps its priority: ' || p) FROM unnest('{-100,-1,0,1,100}'::int[]) p,
	pg_temp.message(pgqrs_enqueue('q', '1', priority => p));

-- Values that live out of line elsewhere are copied: the other table may go.
CREATE TABLE elsewhere (n int, value jsonb);
ALTER TABLE elsewhere ALTER value SET STORAGE EXTERNAL;
INSERT INTO elsewhere SELECT n, to_jsonb(repeat(n::text, 100000)) FROM generate_series(1, 4) n;
SELECT pgqrs_enqueue('q', value, headers => value) AS one FROM elsewhere WHERE n = 1 \gset
SELECT pgqrs_enqueue('q', value, headers => value, idempotency_key => 'elsewhere') AS keyed FROM elsewhere
	WHERE n = 2 \gset
SELECT pgqrs_enqueue_batch('q', array_agg(value ORDER BY n), headers => array_agg(value ORDER BY n DESC)) AS many
	FROM elsewhere \gset
DROP TABLE elsewhere;
SELECT is(array_agg(payload = to_jsonb(repeat(p, 100000)) AND headers = to_jsonb(repeat(h, 100000))), '{t,t,t,t,t,t}',
	'large values are stored whole after the table that they came from is dropped')
	FROM unnest(ARRAY[:one, :keyed] || :'many'::bigint[], '{1,2,1,2,3,4}'::text[], '{1,2,4,3,2,1}'::text[]) AS v (id,
		p, h), pg_temp.message(id);

--
-- When
--

SELECT is(extract(epoch FROM visible_after - enqueued_at), s, 'a message is due after the delay ' || delay)
	FROM (VALUES (interval '0', 0::numeric), ('0.000001 s', 0.000001), ('1 day', 86400), ('1 day -23 h', 3600),
		('1 day -86400 s', 0), ('400 days', 34560000)) v (delay, s),
	pg_temp.message(pgqrs_enqueue('q', '1', delay => delay));
SELECT is(visible_after, at, 'a message is due at run_at ' || at)
	FROM (VALUES (timestamptz '2100-01-02 03:04:05.678901+00'), (clock_timestamp() + '1 min')) v (at),
	pg_temp.message(pgqrs_enqueue('q', '1', run_at => at));
SELECT is(visible_after, enqueued_at, 'a run_at in the past counts as now: ' || at)
	FROM unnest('{-infinity,4713-01-01 BC,1999-12-31 23:59:59.999999+00,2000-01-01 '
		'00:00:00+00,2020-01-01}'::timestamptz[]) at,
	pg_temp.message(pgqrs_enqueue('q', '1', run_at => at));
INSERT INTO refused SELECT format('pgqrs_%s, ''1 s'', %L)', call, at), '22023'
	FROM unnest('{2100-01-01,2000-01-01 00:00:00+00,1999-01-01,-infinity}'::timestamptz[]) at,
	unnest(ARRAY['enqueue(''q'', ''1''', 'enqueue_batch(''q'', ''{1}''']) call;
SELECT is(got, state, 'delay and run_at exclude each other: ' || call) FROM pg_temp.refusals();

BEGIN;
SELECT clock_timestamp() AS before FROM pg_sleep(0.002) \gset
SELECT ok(enqueued_at >= :'before' AND enqueued_at > now(),
	'the time of a message is that of the call, not of the transaction')
	FROM pg_temp.message(pgqrs_enqueue('q', '1'));
COMMIT;

--
-- Where to
--

INSERT INTO refused VALUES ('pgqrs_enqueue(''nobody'', ''1'')', 'PQ001'), ('pgqrs_enqueue_batch(''nobody'', ''{1}'')',
	'PQ001'),
	('pgqrs_enqueue(''flow'', ''1'')', 'PQ016'), ('pgqrs_enqueue_batch(''flow'', ''{1}'')', 'PQ016'),
	('pgqrs_enqueue(''q'', ''1'', concurrency_key => ''k'')', '0A000');
SELECT is(got, state, 'the call is refused for its queue: ' || call) FROM pg_temp.refusals();
SELECT is(queue_id, :other::bigint, 'a message belongs to the queue of the call')
	FROM pg_temp.message(pgqrs_enqueue('other', '1'));

SELECT pgqrs_pause_queue('other');
SELECT is(pg_temp.refusal('SELECT pgqrs_enqueue(''other'', ''1'')'), 'accepted', 'a paused queue accepts a message');
SELECT is(pg_temp.refusal('SELECT pgqrs_enqueue_batch(''other'', ''{1,2}'')'), 'accepted',
	'a paused queue accepts a batch');
SELECT pgqrs_resume_queue('other');

BEGIN READ ONLY;
SELECT throws_ok(call, '25006', NULL, 'a read-only transaction refuses: ' || call)
	FROM unnest(ARRAY['SELECT pgqrs_enqueue(''q'', ''1'')', 'SELECT pgqrs_enqueue_batch(''q'', ''{1}'')',
		'SELECT pgqrs_dequeue(''q'')']) call;
COMMIT;

--
-- Batches
--

SELECT pgqrs_create_queue('batch') \g /dev/null
SELECT pgqrs_enqueue_batch('batch', ARRAY['"a"', 'null', '{}', '4']::jsonb[]) AS ids \gset
SELECT is(array_agg(payload ORDER BY n), ARRAY['"a"', 'null', '{}', '4']::jsonb[],
	'a batch returns its ids in the order of its payloads')
	FROM unnest(:'ids'::bigint[]) WITH ORDINALITY AS i (id, n), pg_temp.message(id);
SELECT is(pg_temp.drain('batch'), '["a", null, {}, 4]', 'a batch is delivered in order');
SELECT is(string_agg(ROW(payload, headers, priority, extract(epoch FROM visible_after - enqueued_at))::text, ' '
	ORDER BY n),
	'(1,"{""a"": 1}",9,60.000000) (2,,9,60.000000) (3,null,9,60.000000)',
		'a batch gives its delay and priority to each message, and headers to those that have some')
	FROM unnest(pgqrs_enqueue_batch('batch', '{1,2,3}', delay => '1 min', priority => 9, headers => ARRAY['{"a": 1}',
		NULL, 'null']::jsonb[])) WITH ORDINALITY AS i (id, n),
	pg_temp.message(id);
SELECT is(array_agg(DISTINCT visible_after), ARRAY['2100-01-01 00:00+00']::timestamptz[],
	'a batch gives its run_at to each message')
	FROM unnest(pgqrs_enqueue_batch('batch', '{1,2,3}', run_at => '2100-01-01 00:00+00')) id, pg_temp.message(id);
SELECT is(pgqrs_enqueue_batch('batch', '[5:6]={1,2}') @> '{}', true, 'an array of payloads may start at any index');
SELECT is(array_dims(pgqrs_enqueue_batch('batch', '[5:6]={1,2}')), '[1:2]', 'the array of ids starts at 1');

SELECT pgqrs_create_queue('large') AS large \gset
SELECT pgqrs_enqueue_batch('large', array_agg(to_jsonb(n) ORDER BY n)) AS ids FROM generate_series(1, 10000) n \gset
SELECT is(count(*), 10000::bigint, 'a batch of 10,000 payloads makes 10,000 messages') FROM pgqrs_messages
	WHERE queue_id = :large;
SELECT is(count(*), 10000::bigint, 'each payload of a batch is stored under its id')
	FROM unnest(:'ids'::bigint[]) WITH ORDINALITY AS i (id, n)
	JOIN pgqrs_messages m ON message_id = id AND payload = to_jsonb(n);
SELECT ok(bool_and(visible_after > before AND message_id > id_before),
	'the messages of a batch have ascending instants and ids')
	FROM (SELECT visible_after, message_id, lag(visible_after) OVER w AS before, lag(message_id) OVER w AS id_before
		FROM pgqrs_messages WHERE queue_id = :large WINDOW w AS (ORDER BY (payload #>> '{}')::int)) AS m;
SELECT is(max(message_id) - min(message_id) >= 9999 AND count(DISTINCT message_id) = 10000, true,
	'the messages of a batch have different ids') FROM pgqrs_messages WHERE queue_id = :large;
-- What is sent after a batch is claimed after it, too.
SELECT pgqrs_enqueue('large', '10001') \g /dev/null
SELECT is(max(visible_after), (SELECT visible_after FROM pgqrs_messages WHERE queue_id = :large
	AND payload = '10001'), 'a message sent after a batch is due after it')
	FROM pgqrs_messages WHERE queue_id = :large;

--
-- F31: one bad item, one typed error, nothing poisoned
--

SELECT pgqrs_create_queue('f31') AS f31 \gset
CREATE TEMP TABLE unstorable (value text, state text);
INSERT INTO unstorable VALUES ('"\u0000"', '22P05'), ('{"\u0000": 1}', '22P05'), ('["a\u0000b"]', '22P05'),
	('"\ud800"', '22P02'),
	('"\udc00\ud800"', '22P02'), ('"\ud83d x"', '22P02'), ('{"a": "\ude00"}', '22P02'), ('{', '22P02'), ('', '22P02');
INSERT INTO refused SELECT format(call, value, ARRAY['1', value, '3']), state || ' without a hint'
	-- PostgreSQL's own
	FROM unstorable, unnest(ARRAY['pgqrs_enqueue(''f31'', %1$L)', 'pgqrs_enqueue(''f31'', ''1'', headers => %1$L)',
		'pgqrs_enqueue_batch(''f31'', %2$L)', 'pgqrs_enqueue_batch(''f31'', ''{1,2,3}'', headers => %2$L)']) call;
SELECT is(got, state, 'F31: a value that cannot be stored is refused: ' || call) FROM pg_temp.refusals();
SELECT is(count(*), 0::bigint, 'F31: a batch with one bad item stores nothing') FROM pgqrs_messages
	WHERE queue_id = :f31;
DO $$
DECLARE item text;
BEGIN
	FOREACH item IN ARRAY ARRAY['1', '"\u0000"', '2', '"\ud800"', '"\ud83d\ude00"', '3'] LOOP
		BEGIN
			PERFORM pgqrs_enqueue('f31', item::jsonb);
		EXCEPTION WHEN untranslatable_character OR invalid_text_representation THEN
			NULL;
		END;
	END LOOP;
END $$;
SELECT is(pg_temp.drain('f31'), '[1, 2, "😀", 3]',
	'F31: the good messages of a transaction with bad ones are delivered');
SELECT pgqrs_enqueue('f31', '1') \g /dev/null
SELECT message_id AS id, lease FROM pgqrs_dequeue('f31') \gset
SELECT is(left(pg_temp.refusal(format('SELECT pgqrs_nack_message(%s, %s, ''"\u0000"'')', :id, :lease)), 5), '22P05',
	'F31: an error that cannot be stored is refused');
SELECT is(pg_temp.state(:id), 'held 1 0', 'F31: a refused error leaves the lease as it was');
SELECT is(pg_temp.refusal(format('SELECT pgqrs_nack_message(%s, %s, ''{"type": "unserializable_error"}'')', :id,
	:lease)), 'accepted', 'F31: the error is stored once it is replaced by another one');

--
-- The caller's transaction
--

SELECT pgqrs_create_queue('tx') AS tx \gset
BEGIN;
SELECT pgqrs_enqueue('tx', '"gone"'), pgqrs_enqueue_batch('tx', '{1,2}') \g /dev/null
ROLLBACK;
SELECT is(count(*), 0::bigint, 'a rollback removes the messages of the transaction') FROM pgqrs_messages
	WHERE queue_id = :tx;
BEGIN;
SELECT pgqrs_enqueue('tx', '"a"') \g /dev/null
SAVEPOINT s;
SELECT pgqrs_enqueue('tx', '"b"'), pgqrs_enqueue_batch('tx', '{1,2}') \g /dev/null
ROLLBACK TO s;
SAVEPOINT s2;
SELECT pgqrs_enqueue('tx', '"c"') \g /dev/null
RELEASE s2;
SELECT is(count(*), 2::bigint, 'a transaction sees the messages that it has sent and not rolled back')
	FROM pgqrs_peek('tx');
COMMIT;
SELECT is(pg_temp.drain('tx'), '["a", "c"]', 'rolling back to a savepoint removes the messages sent after it');

BEGIN;
SELECT pgqrs_enqueue('tx', '"own"') AS id \gset
SELECT lease FROM pgqrs_dequeue('tx') \gset
SELECT is(pg_temp.state(:id), 'held 1 0', 'a transaction claims the message that it has sent');
SELECT pgqrs_archive_message(:id, :lease);
SELECT is(pg_temp.state(:id), 'DONE 1 0', 'a transaction archives the message that it has sent');
ROLLBACK;
SELECT is(pg_temp.state(:id), 'gone', 'a rollback removes the message that was sent, claimed and archived');
SELECT is(pg_temp.refusal(format('SELECT pgqrs_archive_message(%s, %s)', :id, :lease)), 'PQ006',
	'the lease of a claim that was rolled back is refused');

CREATE FUNCTION pg_temp.through(name text) RETURNS text LANGUAGE sql AS
$$
	SELECT pgqrs_enqueue(name, '"through"');
	SELECT concat(d.payload, ' ', pgqrs_archive_message(d.message_id, d.lease)) FROM pgqrs_dequeue(name) d;
$$;
SELECT is(pg_temp.through('tx'), '"through" t', 'a message is sent, claimed and archived in one statement');

--
-- F41: enqueue and trigger inside 1,000 savepoints, some of them rolled back
--

SELECT pgqrs_create_queue('f41') AS f41 \gset
SELECT pgqrs_create_workflow('f41.flow') AS flow \gset
-- One inside the other.
BEGIN;
\o /dev/null
SELECT format('SAVEPOINT s%s', n),
	format('SELECT pgqrs_enqueue(''f41'', ''%s'', idempotency_key => ''k%1$s'')', n),
	format('SELECT pgqrs_trigger(''f41.flow'', ''%s'', idempotency_key => ''k%1$s'')', n),
	CASE WHEN n % 3 = 0 THEN format('ROLLBACK TO s%s', n) END
	FROM generate_series(1, 1000) n
\gexec
\o
COMMIT;
SELECT is(array_agg((payload #>> '{}')::int ORDER BY message_id), ARRAY(SELECT n FROM generate_series(1, 1000) n
	WHERE n % 3 <> 0),
	'F41: of messages sent in 1,000 nested savepoints those remain that were not rolled back') FROM pgqrs_messages
		WHERE queue_id = :f41;
SELECT is(array_agg((input #>> '{}')::int ORDER BY run_id), ARRAY(SELECT n FROM generate_series(1, 1000) n
	WHERE n % 3 <> 0),
	'F41: of runs triggered in 1,000 nested savepoints those remain that were not rolled back')
		FROM pgqrs_workflow_runs JOIN pgqrs_messages USING (run_id) WHERE workflow_id = :flow;
-- One after the other; and the keys are those of what was not rolled back.
DO $$
BEGIN
	FOR n IN 1..1000 LOOP
		BEGIN
			PERFORM pgqrs_enqueue('f41', to_jsonb(-n), idempotency_key => 'k' || n);
			PERFORM pgqrs_trigger('f41.flow', to_jsonb(-n), idempotency_key => 'k' || n);
			IF n % 2 = 0 THEN
				RAISE EXCEPTION USING ERRCODE = 'UNDO0';
			END IF;
		EXCEPTION WHEN SQLSTATE 'UNDO0' THEN
			NULL;
		END;
	END LOOP;
END $$;
SELECT is(array_agg((payload #>> '{}')::int ORDER BY (payload #>> '{}')::int),
	ARRAY(SELECT CASE WHEN n % 3 = 0 THEN -n ELSE n END AS n FROM generate_series(1, 1000) n WHERE n % 6 <> 0
		ORDER BY 1),
	'F41: of messages sent in 1,000 savepoints in a row those remain that were not rolled back') FROM pgqrs_messages
		WHERE queue_id = :f41;
SELECT is(array_agg((input #>> '{}')::int ORDER BY (input #>> '{}')::int),
	ARRAY(SELECT CASE WHEN n % 3 = 0 THEN -n ELSE n END AS n FROM generate_series(1, 1000) n WHERE n % 6 <> 0
		ORDER BY 1),
	'F41: of runs triggered in 1,000 savepoints in a row those remain that were not rolled back')
		FROM pgqrs_workflow_runs WHERE workflow_id = :flow;
-- Claims and ends inside them.
SELECT count(*) AS sent FROM pgqrs_messages WHERE queue_id = :f41 \gset
DO $$
DECLARE
	m record;
	n int := 0;
BEGIN
	LOOP
		BEGIN
			SELECT * INTO m FROM pgqrs_dequeue('f41');
			EXIT WHEN NOT FOUND;
			n := n + 1;
			IF n % 3 = 0 THEN
				PERFORM pgqrs_archive_message(m.message_id, m.lease);
				RAISE EXCEPTION USING ERRCODE = 'UNDO0';
			END IF;
			BEGIN
				PERFORM pgqrs_extend_lease(m.message_id, m.lease);
				PERFORM pgqrs_nack_message(m.message_id, m.lease);
				RAISE EXCEPTION USING ERRCODE = 'UNDO0';
			EXCEPTION WHEN SQLSTATE 'UNDO0' THEN
				PERFORM pgqrs_archive_message(m.message_id, m.lease);
			END;
		EXCEPTION WHEN SQLSTATE 'UNDO0' THEN
			NULL;
		END;
	END LOOP;
END $$;
SELECT is(ROW(count(*), min(attempt), max(attempt), max(failures), min(outcome), max(outcome))::text,
	format('(%s,1,1,0,DONE,DONE)', :sent),
	'F41: messages claimed and archived in nested savepoints are each archived once') FROM pgqrs_archive
		WHERE queue_id = :f41;
SELECT * FROM finish();
