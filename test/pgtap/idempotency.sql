-- Idempotency keys of messages.  F26, as far as one session can tell.
-- F-numbers: docs/design/known-failures.md.
\ir include/messages.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_queue('q', max_attempts => 1) AS q, pgqrs_create_queue('other'), pgqrs_create_queue('brief',
	retention => '0') \gset
SELECT pgqrs_create_workflow('flow', key_scope => 'active') \g /dev/null

CREATE FUNCTION pg_temp.send(key text, payload jsonb = '1') RETURNS bigint LANGUAGE sql AS
$$ SELECT pgqrs_enqueue('q', payload, idempotency_key => key) $$;

-- The first one stays, whatever the second says.
SELECT pgqrs_enqueue('q', '{"n": 1}', priority => -5, idempotency_key => 'k', headers => '"h"') AS first \gset
SELECT pg_temp.contents() AS before \gset
SELECT is(pg_temp.send('k', '{"n": 1}'), :first::bigint,
	'the same message with the same key returns the id of the first one');
SELECT is(pgqrs_enqueue('q', '{"n": 2}', delay => '1 h', priority => 5, idempotency_key => 'k'), :first::bigint,
	'another message with the same key returns the id of the first one');
SELECT is(pg_temp.contents(), :'before', 'a key that is taken leaves every table unchanged');
SELECT is(pg_temp.send('k') = pg_temp.send('k') AND pg_temp.send('twice') = pg_temp.send('twice'), true,
	'two calls with one key in one statement return the same id');
SELECT isnt(pg_temp.send(NULL), pg_temp.send(NULL), 'messages without a key are never duplicates');
SELECT is(idempotency_key, NULL, 'a message without a key stores NULL') FROM pg_temp.message(pg_temp.send(NULL));

-- What a key is.
SELECT isnt(pgqrs_enqueue('other', '1', idempotency_key => 'k'), :first::bigint, 'a key belongs to its queue');
SELECT isnt(pg_temp.send(key), :first::bigint, 'a key is compared byte by byte, so it differs from k: '
	|| to_json(key)) FROM unnest(ARRAY['K', 'k ', ' k', 'kk', '*', 'k*', 'ｋ']) key;
SELECT isnt(pg_temp.send(E'\u00e9'), pg_temp.send(E'e\u0301'),
	'keys that look equal in Unicode but differ in bytes are different');
SELECT is(pg_temp.send(key), id, 'any text of 1 to 255 bytes is a key: ' || left(to_json(key)::text, 20))
	FROM (SELECT key, pg_temp.send(key) AS id FROM unnest(ARRAY[repeat('k', 255), '''"', ' ', '\', 'pgqrs.',
		'%']) key OFFSET 0) AS first;

-- Among messages that still exist.
CREATE TEMP TABLE ends (how text, call text, free boolean);
INSERT INTO ends VALUES
	('waiting', 'SELECT 1', false),
	('delayed', 'SELECT pgqrs_set_visibility(%s, ''2100-01-01'')', false),
	('held', 'SELECT pg_temp.claim(%s)', false),
	('held, run out', 'SELECT pg_temp.claim(%1$s), pg_temp.due(%1$s)', false),
	('released', 'SELECT pgqrs_release_message(%1$s, pg_temp.claim(%1$s))', false),
	('archived', 'SELECT pgqrs_archive_message(%1$s, pg_temp.claim(%1$s))', true),
	('deleted', 'SELECT pgqrs_delete_message(%1$s, pg_temp.claim(%1$s))', true),
	('dead by nack', 'SELECT pgqrs_nack_message(%1$s, pg_temp.claim(%1$s))', true),
	('dead by expiry', 'SELECT pg_temp.claim(%1$s), pg_temp.due(%1$s), (SELECT count(*) FROM pgqrs_dequeue(''q'', '
		'batch_size => 100))', true),
	('purged', 'SELECT pgqrs_purge_queue(''q'')', true);
CREATE FUNCTION pg_temp.free(how text, call text) RETURNS boolean LANGUAGE plpgsql AS
$$
DECLARE id bigint := pg_temp.send(how);
BEGIN
	EXECUTE format(call, id);
	RETURN pg_temp.send(how) <> id;
END
$$;
SELECT is(pg_temp.free(how, call), free, 'the key of a message that is ' || how || CASE WHEN free THEN ' is free'
	ELSE ' is taken' END) FROM ends;
SELECT pgqrs_enqueue('brief', '1', idempotency_key => 'k') \g /dev/null
SELECT message_id AS id FROM pgqrs_dequeue('brief') d, pgqrs_archive_message(message_id, lease) \gset
SELECT isnt(pgqrs_enqueue('brief', '1', idempotency_key => 'k'), :id::bigint,
	'a queue without retention frees the key when the message is archived');

-- Transactions and savepoints, at each isolation level.
CREATE FUNCTION pg_temp.count(key text) RETURNS bigint LANGUAGE sql AS $$ SELECT count(*) FROM pgqrs_messages
	WHERE idempotency_key = key $$;
\set level 'READ COMMITTED'
\ir include/idempotency.sql
\set level 'REPEATABLE READ'
\ir include/idempotency.sql
\set level 'SERIALIZABLE'
\ir include/idempotency.sql

-- What a key that is taken answers.
SELECT pgqrs_enqueue('q', '9', idempotency_key => 'kept') AS kept \gset
SELECT is(pgqrs_enqueue('q', '2', idempotency_key => 'kept', on_duplicate => 'return'), :kept::bigint,
	'on_duplicate return gives the id of the message that has the key');
SELECT is(pgqrs_enqueue('q', '2', idempotency_key => 'kept', on_duplicate => 'null'), NULL,
	'on_duplicate null gives NULL');
SELECT is(pg_temp.answer('SELECT pgqrs_enqueue(''q'', ''2'', idempotency_key => ''kept'', on_duplicate => '
	'''raise'')'),
	format('23505 queue "q" has a message with idempotency key "kept" It is message %s.', :kept),
		'on_duplicate raise gives an error that names the message');
SELECT isnt(pgqrs_enqueue('q', '2', idempotency_key => 'free ' || d, on_duplicate => d), NULL,
	'a free key is taken whatever on_duplicate says: ' || d) FROM unnest('{return,raise,null}'::text[]) d;

-- Keys of a batch: each message that exists already is answered in its place.
SELECT pgqrs_enqueue_batch('q', '{10,11,12,13}', idempotency_keys => '{batch b,kept,NULL,batch a}') AS ids \gset
SELECT is((:'ids'::bigint[])[2], :kept::bigint,
	'a batch returns, in its place, the id of the message that has the key');
SELECT results_eq(format('SELECT payload::text, idempotency_key COLLATE "default" FROM pgqrs_messages JOIN '
	'unnest(%L::bigint[]) WITH ORDINALITY u (message_id, n) USING (message_id) ORDER BY n', :'ids'),
	$$VALUES ('10', 'batch b'), ('9', 'kept'), ('12', NULL), ('13', 'batch a')$$,
		'a batch stores the other messages, each with its key');
SELECT is(pgqrs_enqueue_batch('q', '{20,21}', idempotency_keys => '{batch a,batch b}'), ARRAY[(:'ids'::bigint[])[4],
	(:'ids'::bigint[])[1]], 'the same batch again returns the same ids');
SELECT ok(pg_temp.answer('SELECT pgqrs_enqueue_batch(''q'', ''{1,2,3}'', idempotency_keys => ''{x,y,x}'')') LIKE
	'22023 item 3 of "idempotency_keys" repeats item 1%', 'a batch that has a key twice is refused');

SELECT * FROM finish();
