-- Working off a queue with a function, in one transaction.
\ir include/messages.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_queue('jobs', max_attempts => 2), pgqrs_create_queue('other'), pgqrs_create_workflow('flow') \g /dev/null
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
SELECT is(pgqrs_consume('jobs', 'handle'), 0, 'nothing to do');
SELECT pgqrs_enqueue_batch('jobs', '{1,2,3,4}') AS ids \gset
SELECT is(pgqrs_consume('jobs', 'handle'), 1, 'one');
SELECT is(pgqrs_consume('jobs', 'public.handle', 2), 2, 'two');
SELECT is(pgqrs_consume('jobs', 'handle', 10), 1, 'as many as there are');
SELECT is(pg_temp.effects(), '1 2 3 4', 'each once, in order');
SELECT is(pg_temp.state(id), 'DONE 1 0', 'archived: ' || id) FROM unnest(:'ids'::bigint[]) id;

-- A transaction that is rolled back has done nothing.
SELECT pgqrs_enqueue('jobs', '"undone"') AS id \gset
BEGIN;
SELECT is(pgqrs_consume('jobs', 'handle'), 1, 'taken');
ROLLBACK;
SELECT is(pg_temp.state(:id), 'live 0 0', 'never claimed');
SELECT is(pg_temp.effects(), '1 2 3 4', 'and never handled');
BEGIN;
SAVEPOINT s;
SELECT is(pgqrs_consume('jobs', 'handle'), 1, 'taken');
ROLLBACK TO s;
SELECT is(pgqrs_consume('jobs', 'handle'), 1, 'and again after a savepoint');
COMMIT;
SELECT is(pg_temp.effects(), '1 2 3 4 "undone"', 'once');

-- Failures: what was done to this message is undone, it is nacked, others go on.
TRUNCATE effects;
SELECT pgqrs_enqueue('jobs', '1') AS a, pgqrs_enqueue('jobs', '{"fail": "XX123"}') AS b, pgqrs_enqueue('jobs', '2') AS c \gset
SELECT is(pgqrs_consume('jobs', 'handle', 10), 2, 'the failed one does not count');
SELECT is(pg_temp.effects(), '1 2', 'nor leaves anything');
SELECT is(pg_temp.state(:b), 'live 1 1', 'it has failed once');
SELECT is(last_error, '{"type": "XX123", "message": "failed as told"}', 'with that error') FROM pg_temp.message(:b);
SELECT ok(pg_temp.wait(:b) BETWEEN 0 AND 1.3, 'to be tried again after a while');
SELECT pg_temp.due(:b) \g /dev/null
SELECT is(pgqrs_consume('jobs', 'handle', 10), 0, 'failed again');
SELECT is(pg_temp.state(:b), 'DEAD 2 2', 'dead');
SELECT is(last_error->>'type', 'XX123', 'with its error') FROM pg_temp.archived(:b);
SELECT is(pg_temp.effects(), '1 2', 'and without effects');

-- Errors that are no fault of the message are passed on.
SELECT pgqrs_enqueue('jobs', jsonb_build_object('fail', state)) AS id FROM unnest('{40001}'::text[]) state \gset
SELECT is(left(pg_temp.answer('SELECT pgqrs_consume(''jobs'', ''handle'')'), 5), '40001', 'a serialization failure');
SELECT is(pg_temp.state(:id), 'live 0 0', 'is not counted');
UPDATE pgqrs_messages SET payload = '{"fail": "40P01"}' WHERE message_id = :id;
SELECT is(left(pg_temp.answer('SELECT pgqrs_consume(''jobs'', ''handle'')'), 5), '40P01', 'a deadlock');
UPDATE pgqrs_messages SET payload = '{"fail": "57P01"}' WHERE message_id = :id;
SELECT is(left(pg_temp.answer('SELECT pgqrs_consume(''jobs'', ''handle'')'), 5), '57P01', 'what comes from operators');
SELECT is(pg_temp.state(:id), 'live 0 0', 'likewise');
DELETE FROM pgqrs_messages;

-- What a handler may do: use the queues itself, and fail in odd ways.
CREATE FUNCTION forward(payload jsonb) RETURNS void LANGUAGE sql AS $$ SELECT pgqrs_enqueue('other', payload) $$;
CREATE FUNCTION greedy(payload jsonb) RETURNS void LANGUAGE sql AS $$ SELECT pgqrs_archive_message(message_id, lease) FROM pgqrs_dequeue('jobs') $$;
CREATE FUNCTION nested(payload jsonb) RETURNS int LANGUAGE sql AS $$ SELECT pgqrs_consume('jobs', 'handle') $$;
CREATE FUNCTION divide(payload jsonb) RETURNS int LANGUAGE sql AS $$ SELECT 1 / (payload::int) $$;
CREATE FUNCTION meddle(payload jsonb) RETURNS void LANGUAGE sql AS $$ DELETE FROM pgqrs_messages $$;
TRUNCATE effects;
SELECT pgqrs_enqueue_batch('jobs', '{1,2}') \g /dev/null
SELECT is(pgqrs_consume('jobs', 'forward', 2), 2, 'forwarded');
SELECT is(pg_temp.drain('other'), '[1, 2]', 'to another queue');
SELECT pgqrs_enqueue_batch('jobs', '{1,2,3}') \g /dev/null
SELECT is(pgqrs_consume('jobs', 'greedy'), 1, 'a handler that takes another one');
SELECT is(pgqrs_consume('jobs', 'nested'), 1, 'nothing is left for this one');
SELECT is(pg_temp.effects(), 'none', 'which was told');
SELECT pgqrs_enqueue_batch('jobs', '{1,2}') \g /dev/null
SELECT is(pgqrs_consume('jobs', 'nested'), 1, 'one within the other');
SELECT is(pg_temp.effects(), '2', 'takes the second');
SELECT is(count(*), 0::bigint, 'both are done') FROM pgqrs_peek('jobs');
SELECT pgqrs_enqueue_batch('jobs', '{0,1,0}') AS ids \gset
SELECT is(pgqrs_consume('jobs', 'divide', 3), 1, 'an error of the server');
SELECT is(last_error->>'type', '22012', 'is one like any') FROM pg_temp.message((:'ids'::bigint[])[1]);
DELETE FROM pgqrs_messages;
SELECT pgqrs_enqueue('jobs', '1') AS id \gset
SELECT is(pgqrs_consume('jobs', 'meddle'), 0, 'a handler that removes its message has failed');
SELECT is(pg_temp.state(:id), 'live 1 1', 'and its message is there still');
DELETE FROM pgqrs_messages;

-- An expired lease counts as a failure like for any claim.
SELECT pgqrs_enqueue('jobs', '1') AS id \gset
SELECT pg_temp.claim(:id) \g /dev/null
SELECT pg_temp.due(:id) \g /dev/null
SELECT is(pgqrs_consume('jobs', 'handle'), 1, 'taken over');
SELECT is(pg_temp.state(:id), 'DONE 2 1', 'with the failure of who had it before');

-- Refused.
CREATE FUNCTION many(payload jsonb) RETURNS SETOF int LANGUAGE sql AS $$ SELECT 1 $$;
CREATE PROCEDURE proc(payload jsonb) LANGUAGE sql AS $$ SELECT 1 $$;
CREATE FUNCTION "odd Name"(jsonb) RETURNS void LANGUAGE sql AS $$ $$;
CREATE FUNCTION closed(payload jsonb) RETURNS void LANGUAGE sql AS $$ $$;
REVOKE EXECUTE ON FUNCTION closed(jsonb) FROM PUBLIC;
INSERT INTO refused VALUES ('pgqrs_consume(NULL, ''handle'')', '22004'), ('pgqrs_consume(''jobs'', NULL)', '22004'),
	('pgqrs_consume(''jobs'', ''handle'', 10001)', '22023'), ('pgqrs_consume(''nothing'', ''handle'')', 'PQ001'), ('pgqrs_consume(''j*'', ''handle'')', '22023'),
	('pgqrs_consume(''*'', ''handle'')', '22023'), ('pgqrs_consume(''flow'', ''handle'')', 'PQ016'), ('pgqrs_consume(''jobs'', ''nothing'')', '42883'), ('pgqrs_consume(''jobs'', ''pg_catalog.now'')', '42883'),
	('pgqrs_consume(''jobs'', ''many'')', '22023'), ('pgqrs_consume(''jobs'', ''proc'')', '42883'), ('pgqrs_consume(''jobs'', ''pg_catalog.jsonb_agg'')', '42883');
SELECT is(got, state, call) FROM pg_temp.refusals();
SELECT is(left(pg_temp.answer($$SELECT pgqrs_consume('jobs', 'handle; DROP TABLE effects')$$), 5), '42602', 'a handler is a name');
SELECT is(left(pg_temp.answer(format('SELECT pgqrs_consume(%L, %L)', 'jobs', name)), 5), '42602', 'no name: ' || name)
	FROM (VALUES (''), ('.'), ('a.'), ('.a'), ('a.b.c'), ('a b'), ('"a')) AS n (name);
SELECT is(left(pg_temp.answer($$SELECT pgqrs_consume('jobs', '')$$), 5), '42602', 'not an empty one');
SELECT pgqrs_enqueue('jobs', '1') \g /dev/null
SELECT is(pgqrs_consume('jobs', '"odd Name"'), 1, 'an odd name');
CREATE ROLE consumer;
SELECT pgqrs_grant('jobs', 'consumer', 'work'), pgqrs_enqueue('jobs', '1') AS id \gset
SET ROLE consumer;
SELECT is(pgqrs_consume('jobs', 'closed'), 0, 'a function that the caller may not call fails');
RESET ROLE;
SELECT is(last_error->>'type', '42501', 'for that') FROM pg_temp.message(:id);

SELECT * FROM finish();
