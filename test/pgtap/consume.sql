-- Working off a queue with a function, in one transaction.
\ir include/messages.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_queue('jobs', max_attempts => 2), pgqrs_create_queue('other'),
	pgqrs_create_workflow('flow') \g /dev/null
CREATE TABLE effects (payload jsonb, place int GENERATED ALWAYS AS IDENTITY);
CREATE FUNCTION handle(payload jsonb) RETURNS text LANGUAGE plpgsql AS
$$
BEGIN
	INSERT INTO effects (payload) VALUES (payload);
	IF payload ? 'fail' THEN
		RAISE EXCEPTION USING ERRCODE = payload->>'fail', MESSAGE = 'failed as told';
	END IF;
	RETURN 'done';
END
$$;
CREATE FUNCTION pg_temp.effects() RETURNS text LANGUAGE sql AS
$$ SELECT coalesce(string_agg(payload::text, ' ' ORDER BY place), 'none') FROM effects $$;

-- Taken.
SELECT is(pgqrs_consume('jobs', 'handle'), 0, 'consuming an empty queue handles no message');
SELECT pgqrs_enqueue_batch('jobs', '{1,2,3,4}') AS ids \gset
SELECT is(pgqrs_consume('jobs', 'handle'), 1, 'pgqrs_consume() handles one message unless told otherwise');
SELECT is(pgqrs_consume('jobs', 'public.handle', 2), 2, 'pgqrs_consume() handles as many messages as asked for');
SELECT is(pgqrs_consume('jobs', 'handle', 10), 1, 'pgqrs_consume() handles fewer messages if there are no more');
SELECT is(pg_temp.effects(), '1 2 3 4', 'the handler is called once per message, in order');
SELECT is(pg_temp.state(id), 'DONE 1 0', 'a handled message is archived as DONE: ' || id)
	FROM unnest(:'ids'::bigint[]) id;

-- A transaction that is rolled back has done nothing.
SELECT pgqrs_enqueue('jobs', '"undone"') AS id \gset
BEGIN;
SELECT is(pgqrs_consume('jobs', 'handle'), 1, 'pgqrs_consume() handles a message in a transaction');
ROLLBACK;
SELECT is(pg_temp.state(:id), 'live 0 0', 'a rollback leaves the message as if it had never been claimed');
SELECT is(pg_temp.effects(), '1 2 3 4', 'a rollback undoes what the handler wrote');
BEGIN;
SAVEPOINT s;
SELECT is(pgqrs_consume('jobs', 'handle'), 1, 'pgqrs_consume() handles a message after a savepoint');
ROLLBACK TO s;
SELECT is(pgqrs_consume('jobs', 'handle'), 1, 'rolling back to the savepoint makes the message available again');
COMMIT;
SELECT is(pg_temp.effects(), '1 2 3 4 "undone"',
	'the handler''s write from before the rollback to the savepoint is gone');

-- Failures: what was done to this message is undone, it is nacked, others go on.
TRUNCATE effects;
SELECT pgqrs_enqueue('jobs', '1') AS a, pgqrs_enqueue('jobs', '{"fail": "XX123"}') AS b, pgqrs_enqueue('jobs',
	'2') AS c \gset
SELECT is(pgqrs_consume('jobs', 'handle', 10), 2, 'pgqrs_consume() does not count a message whose handler failed');
SELECT is(pg_temp.effects(), '1 2', 'rows of a failed handler are undone, rows of the other handlers stay');
SELECT is(pg_temp.state(:b), 'live 1 1', 'a message whose handler failed stays with one failure');
SELECT is(last_error, '{"type": "XX123", "message": "failed as told"}',
	'a message whose handler failed has the error of the handler') FROM pg_temp.message(:b);
SELECT ok(visible_after - enqueued_at >= interval '0.75 s' AND pg_temp.wait(:b) < 1.3,
	'a message whose handler failed is retried after a delay') FROM pg_temp.message(:b);
SELECT pg_temp.due(:b) \g /dev/null
SELECT is(pgqrs_consume('jobs', 'handle', 10), 0, 'a second failure of the handler is not counted as handled either');
SELECT is(pg_temp.state(:b), 'DEAD 2 2', 'a message whose handler failed max_attempts times is a dead letter');
SELECT is(last_error->>'type', 'XX123', 'the dead letter has the error of the handler') FROM pg_temp.archived(:b);
SELECT is(pg_temp.effects(), '1 2', 'the last failure leaves no write of the handler');

-- Errors that are no fault of the message are passed on.
SELECT pgqrs_enqueue('jobs', jsonb_build_object('fail', state)) AS id FROM unnest('{40001}'::text[]) state \gset
SELECT is(left(pg_temp.answer('SELECT pgqrs_consume(''jobs'', ''handle'')'), 5), '40001',
	'a serialization failure in the handler is passed on to the caller');
SELECT is(pg_temp.state(:id), 'live 0 0', 'a serialization failure counts neither an attempt nor a failure');
UPDATE pgqrs_messages SET payload = '{"fail": "40P01"}' WHERE message_id = :id;
SELECT is(left(pg_temp.answer('SELECT pgqrs_consume(''jobs'', ''handle'')'), 5), '40P01',
	'a deadlock in the handler is passed on to the caller');
UPDATE pgqrs_messages SET payload = '{"fail": "57P01"}' WHERE message_id = :id;
SELECT is(left(pg_temp.answer('SELECT pgqrs_consume(''jobs'', ''handle'')'), 5), '57P01',
	'a shutdown during the handler is passed on to the caller');
SELECT is(pg_temp.state(:id), 'live 0 0', 'a deadlock or shutdown counts neither an attempt nor a failure');
DELETE FROM pgqrs_messages;

-- What a handler may do: use the queues itself, and fail in odd ways.
CREATE FUNCTION forward(payload jsonb) RETURNS void LANGUAGE sql AS $$ SELECT pgqrs_enqueue('other', payload) $$;
CREATE FUNCTION greedy(payload jsonb) RETURNS void LANGUAGE sql AS $$ SELECT pgqrs_archive_message(message_id, lease)
	FROM pgqrs_dequeue('jobs') $$;
CREATE FUNCTION nested(payload jsonb) RETURNS int LANGUAGE sql AS $$ SELECT pgqrs_consume('jobs', 'handle') $$;
CREATE FUNCTION divide(payload jsonb) RETURNS int LANGUAGE sql AS $$ SELECT 1 / (payload::int) $$;
CREATE FUNCTION meddle(payload jsonb) RETURNS void LANGUAGE sql AS $$ DELETE FROM pgqrs_messages $$;
TRUNCATE effects;
SELECT pgqrs_enqueue_batch('jobs', '{1,2}') \g /dev/null
SELECT is(pgqrs_consume('jobs', 'forward', 2), 2, 'a handler may send messages to another queue');
SELECT is(pg_temp.drain('other'), '[1, 2]', 'messages sent by a handler arrive in order');
SELECT pgqrs_enqueue_batch('jobs', '{1,2,3}') \g /dev/null
SELECT is(pgqrs_consume('jobs', 'greedy'), 1, 'a handler may claim and archive another message of the queue');
SELECT is(pgqrs_consume('jobs', 'nested'), 1, 'a message that handles a nested call is counted by the outer one');
SELECT is(pg_temp.effects(), 'none', 'the nested call found no message left');
SELECT pgqrs_enqueue_batch('jobs', '{1,2}') \g /dev/null
SELECT is(pgqrs_consume('jobs', 'nested'), 1, 'a handler may call pgqrs_consume() itself');
SELECT is(pg_temp.effects(), '2', 'the nested pgqrs_consume() handles the second message');
SELECT is(count(*), 0::bigint, 'both messages of nested calls are archived') FROM pgqrs_peek('jobs');
SELECT pgqrs_enqueue_batch('jobs', '{0,1,0}') AS ids \gset
SELECT is(pgqrs_consume('jobs', 'divide', 3), 1, 'a handler that fails on two of three messages leaves one handled');
SELECT is(last_error->>'type', '22012', 'an error that the server raises in a handler is stored with its SQLSTATE')
	FROM pg_temp.message((:'ids'::bigint[])[1]);
DELETE FROM pgqrs_messages;
SELECT pgqrs_enqueue('jobs', '1') AS id \gset
SELECT is(pgqrs_consume('jobs', 'meddle'), 0, 'a handler that deletes its own message has failed');
SELECT is(pg_temp.state(:id), 'live 1 1', 'the message that its handler deleted is back, with one failure');
DELETE FROM pgqrs_messages;

-- An expired lease counts as a failure like for any claim.
SELECT pgqrs_enqueue('jobs', '1') AS id \gset
SELECT pg_temp.claim(:id) \g /dev/null
SELECT pg_temp.due(:id) \g /dev/null
SELECT is(pgqrs_consume('jobs', 'handle'), 1, 'pgqrs_consume() takes a message whose lease has run out');
SELECT is(pg_temp.state(:id), 'DONE 2 1', 'the expired lease of the former holder counts as a failure');

-- Refused.
CREATE FUNCTION many(payload jsonb) RETURNS SETOF int LANGUAGE sql AS $$ SELECT 1 $$;
CREATE PROCEDURE proc(payload jsonb) LANGUAGE sql AS $$ SELECT 1 $$;
CREATE FUNCTION "odd Name"(jsonb) RETURNS void LANGUAGE sql AS $$ $$;
CREATE FUNCTION closed(payload jsonb) RETURNS void LANGUAGE sql AS $$ $$;
REVOKE EXECUTE ON FUNCTION closed(jsonb) FROM PUBLIC;
INSERT INTO refused VALUES ('pgqrs_consume(NULL, ''handle'')', '22004'), ('pgqrs_consume(''jobs'', NULL)', '22004'),
	('pgqrs_consume(''jobs'', ''handle'', 10001)', '22023'), ('pgqrs_consume(''nothing'', ''handle'')', 'PQ001'),
		('pgqrs_consume(''j*'', ''handle'')', '22023'),
	('pgqrs_consume(''*'', ''handle'')', '22023'), ('pgqrs_consume(''flow'', ''handle'')', 'PQ016'),
		('pgqrs_consume(''jobs'', ''nothing'')', '42883'), ('pgqrs_consume(''jobs'', ''pg_catalog.now'')', '42883'),
	('pgqrs_consume(''jobs'', ''many'')', '22023'), ('pgqrs_consume(''jobs'', ''proc'')', '42883'),
		('pgqrs_consume(''jobs'', ''pg_catalog.jsonb_agg'')', '42883');
SELECT is(got, state, 'the call is refused: ' || call) FROM pg_temp.refusals();
SELECT is(left(pg_temp.answer($$SELECT pgqrs_consume('jobs', 'handle; DROP TABLE effects')$$), 5), '42602',
	'a handler that is no name is refused');
SELECT is(left(pg_temp.answer(format('SELECT pgqrs_consume(%L, %L)', 'jobs', name)), 5), '42602',
	'a handler is refused that is no name: ' || name)
	FROM (VALUES (''), ('.'), ('a.'), ('.a'), ('a.b.c'), ('a b'), ('"a')) AS n (name);
SELECT is(left(pg_temp.answer($$SELECT pgqrs_consume('jobs', '')$$), 5), '42602', 'an empty handler is refused');
SELECT pgqrs_enqueue('jobs', '1') \g /dev/null
SELECT is(pgqrs_consume('jobs', '"odd Name"'), 1, 'a quoted name is a handler');
CREATE ROLE consumer;
SELECT pgqrs_grant('jobs', 'consumer', 'work'), pgqrs_enqueue('jobs', '1') AS id \gset
SET ROLE consumer;
SELECT is(pgqrs_consume('jobs', 'closed'), 0, 'a handler that the caller may not execute fails');
RESET ROLE;
SELECT is(last_error->>'type', '42501', 'the message has the error that its handler may not be executed')
	FROM pg_temp.message(:id);

SELECT * FROM finish();
