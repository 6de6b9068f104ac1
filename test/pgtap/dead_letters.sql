-- Failures, dead letters, replay and purge.  F18: poison messages.
-- F-numbers: docs/design/known-failures.md.
\ir include/messages.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_queue('q', max_attempts => 2, retention => '0') AS q, pgqrs_create_queue('other',
	max_attempts => 1) AS other \gset

-- Claims one message after the other, and lets the lease of each run out.
-- Returns what was delivered: payload, attempt, failures.
CREATE FUNCTION pg_temp.poison(name text, size int = 1) RETURNS text[] LANGUAGE plpgsql AS
$$
DECLARE
	result text[] := '{}';
	batch text[];
	due bigint;
BEGIN
	LOOP
		SELECT array_agg(concat_ws(' ', payload, attempt, failures)), max(pg_temp.due(message_id)) INTO batch, due
			FROM pgqrs_dequeue(name, batch_size => size);
		EXIT WHEN batch IS NULL;
		result := result || batch;
	END LOOP;
	RETURN result;
END
$$;

-- Sends a message and lets it die.
CREATE FUNCTION pg_temp.dead(name text, payload jsonb = '1', key text = NULL) RETURNS bigint LANGUAGE plpgsql AS
$$
DECLARE id bigint := pgqrs_enqueue(name, payload, idempotency_key => key);
BEGIN
	WHILE pgqrs_nack_message(id, pg_temp.claim(id)) IS NOT NULL LOOP
	END LOOP;
	RETURN id;
END
$$;

--
-- F18: exactly max_attempts deliveries to workers that die after each claim
--

CREATE FUNCTION pg_temp.limited(attempts int) RETURNS text LANGUAGE sql AS
$$
	SELECT pgqrs_create_queue('limit ' || attempts, max_attempts => attempts);
	SELECT 'limit ' || attempts
$$;
SELECT pgqrs_enqueue(pg_temp.limited(n), '"x"') FROM unnest('{1,2,5,50}'::int[]) n \g /dev/null
SELECT is(pg_temp.poison('limit ' || attempts), ARRAY(SELECT format('"x" %s %s', n, n - 1)
	FROM generate_series(1, attempts) n),
	format('a message whose leases run out is delivered %s times, with a failure more each time', attempts))
		FROM unnest('{1,2,5,50}'::int[]) attempts;
SELECT is(string_agg(concat_ws(' ', name, outcome, attempt, failures), ', ' ORDER BY queue_id),
	'limit 1 DEAD 1 1, limit 2 DEAD 2 2, limit 5 DEAD 5 5, limit 50 DEAD 50 50',
	'a message delivered max_attempts times is a dead letter') FROM pgqrs_archive JOIN pgqrs_queues USING (queue_id);
SELECT is(count(*), 0::bigint, 'no message that is a dead letter is live') FROM pgqrs_messages;
SELECT is(string_agg(DISTINCT last_error ->> 'type', ','), 'max_attempts',
	'a message that was delivered too often has max_attempts as its error') FROM pgqrs_archive;

SELECT pgqrs_enqueue_batch('limit 2', '{1,2,3}') \g /dev/null
SELECT is(array_agg(d ORDER BY d), '{1 1 0,1 2 1,2 1 0,2 2 1,3 1 0,3 2 1}',
	'messages claimed in batches are delivered max_attempts times') FROM unnest(pg_temp.poison('limit 2', 2)) d;
SELECT pgqrs_enqueue_batch('limit 1', '{1,2,3,4}') AS ids \gset
SELECT pg_temp.due(message_id) FROM pgqrs_dequeue('limit 1', batch_size => 2) \g /dev/null
SELECT is(array_agg(payload), '{3,4}', 'exhausted messages do not take the place of others in a batch')
	FROM pgqrs_dequeue('limit 1', batch_size => 2);
SELECT is(array_agg(pg_temp.state(id) ORDER BY id), '{DEAD 1 1,DEAD 1 1,held 1 0,held 1 0}',
	'the claim has ended the exhausted messages') FROM unnest(:'ids'::bigint[]) id;

-- Many exhausted ones before a good one.
SELECT pgqrs_create_queue('many', max_attempts => 1) AS many \gset
SELECT pgqrs_enqueue_batch('many', array_fill('0'::jsonb, ARRAY[3000])) \g /dev/null
SELECT count(pg_temp.due(message_id)) FROM pgqrs_dequeue('many', batch_size => 3000) \g /dev/null
SELECT pgqrs_enqueue('many', '"good"') \g /dev/null
CREATE FUNCTION pg_temp.calls(name text) RETURNS int LANGUAGE plpgsql AS
$$
BEGIN
	FOR n IN 1..10 LOOP
		IF EXISTS (SELECT FROM pgqrs_dequeue(name)) THEN
			RETURN n;
		END IF;
	END LOOP;
END
$$;
SELECT cmp_ok(pg_temp.calls('many'), '<=', 4, 'a few claims reach a good message behind thousands of exhausted ones');
SELECT is(count(*), 3000::bigint, 'the claims have ended each of the exhausted messages') FROM pgqrs_archive
	WHERE queue_id = :many AND outcome = 'DEAD';

--
-- What is a failure and what is none
--

SELECT pgqrs_create_queue('mixed', max_attempts => 3) \g /dev/null
SELECT pgqrs_enqueue('mixed', '1') AS id \gset
SELECT pgqrs_release_message(:id, pg_temp.claim(:id)) FROM generate_series(1, 10);
BEGIN;
SELECT pg_temp.claim(:id) \g /dev/null
ROLLBACK;
SELECT pg_temp.claim(:id), pgqrs_set_visibility(:id, '2020-01-01');
SELECT is(pg_temp.state(:id), 'live 11 0', 'releases, rollbacks and pgqrs_set_visibility() count no failure');
SELECT pg_temp.claim(:id) \g /dev/null
SELECT is(pg_temp.state(:id), 'held 12 0', 'a live lease counts no failure');
SELECT pg_temp.claim(:id) AS lease \gset
SELECT is(pg_temp.state(:id), 'held 13 1', 'a lease that ran out counts a failure');
SELECT pgqrs_nack_message(:id, :lease, '"reported"', '0') IS NOT NULL \g /dev/null
SELECT is(pg_temp.state(:id), 'live 13 2', 'a nack counts a failure');
SELECT pg_temp.claim(:id) AS lease \gset
SELECT pg_temp.due(:id) \g /dev/null
SELECT is(count(*), 0::bigint, 'a message is not claimed after its last attempt') FROM pgqrs_dequeue('mixed');
SELECT is(ROW(pg_temp.state(:id), last_error)::text, '("DEAD 14 3","""reported""")',
	'a message that ended after a nack keeps the reported error') FROM pg_temp.archived(:id);
INSERT INTO refused VALUES (format('pgqrs_archive_message(%s, %s)', :id, :lease), 'PQ007'),
	(format('pgqrs_nack_message(%s, %s)', :id, :lease), 'PQ007'),
	(format('pgqrs_release_message(%s, %s)', :id, :lease), 'PQ007'), (format('pgqrs_delete_message(%s, %s)', :id,
		:lease), 'PQ007');
SELECT is(got, state, 'the last holder of a dead letter is refused: ' || call) FROM pg_temp.refusals();
SELECT is(ROW(extended, pgqrs_archive_messages(ARRAY[:id], ARRAY[:lease]))::text, '(f,{NULL})',
	'the last holder of a dead letter can neither extend nor archive it in a batch') FROM pgqrs_extend_lease(:id,
	:lease);

SELECT pgqrs_enqueue('other', '1') AS id \gset
SELECT pg_temp.claim(:id) AS lease \gset
SELECT pg_temp.due(:id) \g /dev/null
SELECT lives_ok(format('SELECT pgqrs_archive_message(%s, %s)', :id, :lease),
	'the last holder of an exhausted message may finish until the next claim');
SELECT is(pg_temp.state(:id), 'DONE 1 0', 'an exhausted message that was finished is DONE');

SELECT pgqrs_enqueue('other', '1') AS id \gset
SELECT pg_temp.claim(:id) AS lease \gset
SELECT is(pgqrs_nack_message(:id, :lease, '{"type": "broken"}', '1 h'), NULL,
	'a nack that makes a dead letter returns NULL');
SELECT is(ROW(pg_temp.state(:id), last_error)::text, '("DEAD 1 1","{""type"": ""broken""}")',
	'a nack at the last attempt makes a dead letter with its error') FROM pg_temp.archived(:id);
SELECT is(lease, :lease::bigint, 'a dead letter keeps its last lease') FROM pg_temp.archived(:id);
SELECT is(count(*), 1::bigint, 'a dead letter is listed') FROM pgqrs_dead_letters WHERE message_id = :id;

SELECT pgqrs_enqueue('mixed', '1') AS id \gset
SELECT pgqrs_nack_message(:id, pg_temp.claim(:id), delay => '0') FROM generate_series(1, 2) \g /dev/null
SELECT pgqrs_alter_queue('mixed', max_attempts => 4);
SELECT pgqrs_nack_message(:id, pg_temp.claim(:id), delay => '0') \g /dev/null
SELECT is(pg_temp.state(:id), 'live 3 3', 'a raised max_attempts holds for live messages');
SELECT pgqrs_alter_queue('mixed', max_attempts => 2);
SELECT is(count(*), 0::bigint, 'a lowered max_attempts holds for live messages: the claim returns nothing')
	FROM pgqrs_dequeue('mixed');
SELECT is(pg_temp.state(:id), 'DEAD 3 3', 'a lowered max_attempts makes the claim end the message');

-- A claim that is rolled back ends nothing, either.
SELECT pgqrs_enqueue('other', '1') AS id \gset
SELECT pg_temp.claim(:id), pg_temp.due(:id) \g /dev/null
BEGIN;
SELECT is(count(*), 0::bigint, 'a claim does not return an exhausted message') FROM pgqrs_dequeue('other');
SELECT is(pg_temp.state(:id), 'DEAD 1 1', 'a claim makes the exhausted message a dead letter');
ROLLBACK;
SELECT is(pg_temp.state(:id), 'held 1 0', 'a rollback undoes what the claim ended');

--
-- Replay
--

SELECT pgqrs_enqueue('q', '{"a": 1}', priority => 7, idempotency_key => 'k', headers => '{"h": 2}') AS id \gset
SELECT pgqrs_nack_message(:id, pg_temp.claim(:id), '"broken"', '0') FROM generate_series(1, 2) \g /dev/null
SELECT lease AS old_lease FROM pg_temp.archived(:id) \gset
SELECT to_jsonb(a) - '{archived_at,outcome,visible_after}'::text[] AS letter FROM pg_temp.archived(:id) a \gset
SELECT clock_timestamp() AS before \gset
SELECT pgqrs_replay_message(:id);
SELECT is((to_jsonb(m) - '{visible_after,last_error,dequeued_at,exhausted_at,undo,children_after}'::text[]),
	(:'letter'::jsonb || '{"attempt": 0, "failures": 0, "lease": null}') - '{last_error,dequeued_at}'::text[],
	'a replay resets attempt, failures and lease, and keeps the rest') FROM pg_temp.message(:id) m;
SELECT ok(visible_after BETWEEN :'before' AND clock_timestamp() + interval '1 ms',
	'a replayed message is due at once') FROM pg_temp.message(:id);
SELECT is(count(*), 0::bigint, 'a replayed message is no dead letter') FROM pgqrs_archive WHERE message_id = :id;
INSERT INTO refused VALUES (format('pgqrs_archive_message(%s, %s)', :id, :old_lease), 'PQ006');
SELECT is(got, state, 'the lease from before the replay is refused') FROM pg_temp.refusals();
SELECT is(pgqrs_enqueue('q', '2', idempotency_key => 'k'), :id::bigint,
	'the key of a replayed message is taken again');
SELECT is(pg_temp.poison('q'), '{"{\"a\": 1} 1 0","{\"a\": 1} 2 1"}', 'a replayed message has all its attempts');
SELECT is(pg_temp.state(:id), 'DEAD 2 2', 'a replayed message becomes a dead letter again');
SELECT pgqrs_replay_message(:id);
SELECT pgqrs_archive_message(:id, pg_temp.claim(:id));
SELECT is(pg_temp.state(:id), 'gone', 'a replayed message that is done leaves nothing where retention is 0');

BEGIN;
SELECT pg_temp.dead('q') AS id \gset
SELECT pgqrs_replay_message(:id);
SELECT is(pg_temp.state(:id), 'live 0 0', 'a message is replayed in the transaction that made it a dead letter');
ROLLBACK;
SELECT pg_temp.dead('q') AS id \gset
BEGIN;
SELECT pgqrs_replay_message(:id);
ROLLBACK;
SELECT is(pg_temp.state(:id), 'DEAD 2 2', 'a rollback undoes a replay');

-- What cannot be replayed.
SELECT pgqrs_enqueue('other', '1') AS live \gset
SELECT * FROM pg_temp.held('other') AS h (held, lease) \gset
SELECT * FROM pg_temp.held('other') AS h (done, lease) \gset
SELECT pgqrs_archive_message(:done, :lease);
SELECT * FROM pg_temp.held('other') AS h (deleted, lease) \gset
SELECT pgqrs_delete_message(:deleted, :lease);
SELECT pg_temp.dead('other', '"old"', 'taken') AS taken, pgqrs_enqueue('other', '"new"',
	idempotency_key => 'taken') AS taker \gset
SELECT pg_temp.contents() AS before \gset
INSERT INTO refused VALUES (format('pgqrs_replay_message(%s)', :live), 'PQ016'),
	(format('pgqrs_replay_message(%s)', :held), 'PQ016'),
	('pgqrs_replay_message(0)', 'PQ004'), ('pgqrs_replay_message(-1)', 'PQ004'),
		('pgqrs_replay_message(9007199254740991)', 'PQ004'), ('pgqrs_replay_message(9223372036854775807)', 'PQ004'),
	(format('pgqrs_replay_message(%s)', :done), 'PQ016'), (format('pgqrs_replay_message(%s)', :deleted), 'PQ016'),
		(format('pgqrs_replay_message(%s)', :taken), 'PQ016');
SELECT is(split_part(got, ' after', 1), state, 'the replay is refused: ' || call) FROM pg_temp.refusals();
SELECT is(pg_temp.contents(), :'before', 'refused replays change nothing');
SELECT alike(pg_temp.answer(format('SELECT pgqrs_replay_message(%s)', id)), 'PQ016 %' || state || '%',
	'the DETAIL of a refused replay names the state: ' || state)
	FROM (VALUES (:live, 'live'), (:held, 'live'), (:done, 'DONE'), (:deleted, 'DELETED'), (:taken, 'key')) v (id,
		state);
SELECT pgqrs_archive_message(:taker, pg_temp.claim(:taker));
SELECT lives_ok(format('SELECT pgqrs_replay_message(%s)', :taken), 'a message can be replayed once its key is free');
SELECT is(pg_temp.state(:taken), 'live 0 0', 'the message with the free key is live');

--
-- Replay of a queue
--

SELECT pgqrs_create_queue('letters', max_attempts => 1) AS letters \gset
SELECT is(pgqrs_replay_queue('letters'), 0::bigint, 'pgqrs_replay_queue() on a queue without dead letters returns 0');
SELECT pg_temp.dead('letters', to_jsonb(n)) FROM generate_series(1, 5) n \g /dev/null
UPDATE pgqrs_archive SET archived_at = timestamptz '2020-01-01' - (payload #>> '{}')::int * interval '1 day'
	WHERE queue_id = :letters;
SELECT pg_temp.dead('other', '"other"') AS id \gset
SELECT pgqrs_archive_message(h.id, h.lease) FROM pg_temp.held('letters') h;
SELECT is(pgqrs_replay_queue('letters', 2), 2::bigint, 'pgqrs_replay_queue() stops at max_rows');
SELECT is(pg_temp.drain('letters'), '[5, 4]', 'pgqrs_replay_queue() begins with the oldest dead letters');
SELECT is(pgqrs_replay_queue('letters', max_rows => NULL), 3::bigint,
	'pgqrs_replay_queue() without max_rows replays the rest');
SELECT is(pg_temp.drain('letters'), '[3, 2, 1]', 'pgqrs_replay_queue() replays in order');
SELECT is(pgqrs_replay_queue('letters'), 0::bigint, 'a second pgqrs_replay_queue() finds nothing');
SELECT is(pg_temp.state(:id), 'DEAD 1 1', 'pgqrs_replay_queue() leaves dead letters of other queues alone');
SELECT is(count(*), 6::bigint, 'pgqrs_replay_queue() leaves archived messages alone') FROM pgqrs_archive
	WHERE queue_id = :letters AND outcome = 'DONE';

-- Passing over those whose key is taken, by a live one or by the one before.
SELECT pg_temp.dead('letters', '"a1"', 'a'), pg_temp.dead('letters', '"b1"', 'b')
	FROM (SELECT pg_sleep(0)) s \g /dev/null
SELECT pg_temp.dead('letters', '"a2"', 'a'), pg_temp.dead('letters', '"c1"'), pgqrs_enqueue('letters', '"b2"',
	delay => '1 h', idempotency_key => 'b') \g /dev/null
SELECT is(pgqrs_replay_queue('letters', 2), 2::bigint,
	'pgqrs_replay_queue() does not count letters whose key is taken');
SELECT is(pg_temp.drain('letters'), '["a1", "c1"]', 'pgqrs_replay_queue() replays one letter for each key');
SELECT is(pgqrs_replay_queue('letters'), 1::bigint,
	'a later pgqrs_replay_queue() replays a letter whose key is free by then');
SELECT is(pg_temp.drain('letters'), '["a2"]', 'the letter replayed later is the next one with that key');

SELECT pgqrs_enqueue_batch('letters', array_fill('0'::jsonb, ARRAY[3000])) \g /dev/null
SELECT count(*) FROM pgqrs_dequeue('letters', batch_size => 3000, visibility_timeout => '1 us') \g /dev/null
SELECT count(*) FROM generate_series(1, 4) n, pgqrs_dequeue('letters', batch_size => n) \g /dev/null
SELECT is(pgqrs_replay_queue('letters'), 3000::bigint, 'pgqrs_replay_queue() replays thousands of letters');
SELECT is(array_agg(DISTINCT ROW(attempt, failures, lease)::text), '{"(0,0,)"}',
	'pgqrs_replay_queue() resets each message') FROM pgqrs_messages WHERE queue_id = :letters
	AND idempotency_key IS NULL;

--
-- Purge
--

SELECT pgqrs_create_queue('purge', max_attempts => 1) AS purge \gset
SELECT is(pgqrs_purge_dead_letters('purge', '0'), 0::bigint,
	'pgqrs_purge_dead_letters() on a queue without dead letters returns 0');
SELECT pg_temp.dead('purge', to_jsonb(n)) FROM generate_series(1, 5) n \g /dev/null
SELECT pgqrs_archive_message(h.id, h.lease) FROM pg_temp.held('purge') h;
SELECT pgqrs_enqueue('purge', '"live"') \g /dev/null
UPDATE pgqrs_archive SET archived_at = clock_timestamp() - CASE outcome WHEN 'DEAD' THEN (payload #>> '{}')::int
	ELSE 9 END * interval '1 day' + interval '1 hour', enqueued_at = '2000-01-01'
	WHERE queue_id = :purge;
CREATE FUNCTION pg_temp.left() RETURNS jsonb[] LANGUAGE sql AS
$$ SELECT array_agg(payload ORDER BY archived_at) FROM pgqrs_archive JOIN pgqrs_queues USING (queue_id)
	WHERE name = 'purge' AND outcome = 'DEAD' $$;
SELECT is(pgqrs_purge_dead_letters('purge', '5 days'), 0::bigint,
	'pgqrs_purge_dead_letters() leaves letters younger than older_than alone');
SELECT is(pgqrs_purge_dead_letters('purge', older_than => '72 h'), 2::bigint,
	'pgqrs_purge_dead_letters() removes letters older than older_than');
SELECT is(pg_temp.left(), '{3,2,1}', 'the younger letters are there after a purge');
BEGIN;
SELECT is(pgqrs_purge_dead_letters('purge', '0'), 3::bigint, 'a purge of age 0 removes every letter');
ROLLBACK;
SELECT is(pg_temp.left(), '{3,2,1}', 'a rollback undoes a purge');
SELECT is(pgqrs_purge_dead_letters('purge', '0'), 3::bigint, 'a purge after the rollback removes every letter');
SELECT is(pg_temp.left(), NULL, 'purged letters are gone');
SELECT is(ROW((SELECT count(*) FROM pgqrs_archive WHERE queue_id = :purge), (SELECT count(*) FROM pgqrs_messages
	WHERE queue_id = :purge))::text, '(1,1)',
	'a purge leaves archived and live messages alone');
SELECT is(pg_temp.state(:id), 'DEAD 1 1', 'a purge leaves dead letters of other queues alone');
-- A failure that is not retryable.
SELECT pgqrs_create_queue('mend') \g /dev/null
SELECT * FROM pg_temp.held('mend') \gset
SELECT is(pgqrs_nack_message(:id, :lease, '{"type": "bad"}', retryable => false), NULL,
	'a nack with retryable false ends the message');
SELECT is(pg_temp.state(:id), 'DEAD 1 1', 'a nack with retryable false makes a dead letter after one failure');
SELECT is((pg_temp.archived(:id)).last_error, '{"type": "bad"}', 'a nack with retryable false stores its error');

-- Replayed with a mended payload.
SELECT is((pg_temp.archived(:id)).payload, '"held"', 'a dead letter has the payload that was sent');
SELECT pgqrs_replay_message(:id, '"mended"');
SELECT is((payload, headers, attempt, failures)::text, '("""mended""",,0,0)',
	'a replay with a payload makes the message due with that payload') FROM pg_temp.message(:id);

-- Replayed by the type of the error.
SELECT * FROM pg_temp.held('mend') AS h (a, a_lease) \gset
SELECT pgqrs_nack_message(:a, :a_lease, '{"type": "a"}', retryable => false) \g /dev/null
SELECT * FROM pg_temp.held('mend') AS h (b, b_lease) \gset
SELECT pgqrs_nack_message(:b, :b_lease, '{"type": "b"}', retryable => false) \g /dev/null
SELECT * FROM pg_temp.held('mend') AS h (c, c_lease) \gset
SELECT pgqrs_nack_message(:c, :c_lease, '"b"', retryable => false), pgqrs_nack_message(h.id, h.lease,
	retryable => false) FROM pg_temp.held('mend') h \g /dev/null
SELECT is(pgqrs_replay_queue('mend', error_type => ''), 0::bigint,
	'pgqrs_replay_queue() finds no error of an empty type');
SELECT is(pgqrs_replay_queue('mend', error_type => 'b'), 1::bigint,
	'pgqrs_replay_queue() replays the letter whose error has the type');
SELECT is(pg_temp.state(:a) || ', ' || pg_temp.state(:b) || ', ' || pg_temp.state(:c), 'DEAD 1 1, live 0 0, DEAD 1 1',
	'pgqrs_replay_queue() leaves letters with other types alone');

-- Dismissed, one by one.
SELECT matches(pg_temp.answer(format('SELECT pgqrs_dismiss_dead_letter(%s)', :b)),
	format('^PQ016 message %s is not a dead letter The message is live.$', :b), 'a live message cannot be dismissed');
SELECT pgqrs_dismiss_dead_letter(:a);
SELECT is(pg_temp.state(:a), 'gone', 'a dismissed dead letter is gone');
SELECT is(left(pg_temp.answer(format('SELECT pgqrs_dismiss_dead_letter(%s)', :a)), 5), 'PQ004',
	'a dismissed dead letter cannot be dismissed again');
SELECT pgqrs_create_workflow('letter', max_attempts => 1) \g /dev/null
SELECT pgqrs_trigger('letter') AS one, pgqrs_trigger('letter') AS two \gset
SELECT pgqrs_fail_run(run_id, lease, '{"type": "e"}') FROM pgqrs_dequeue('letter', batch_size => 2) \g /dev/null
SELECT is(pg_temp.answer(format('SELECT pgqrs_replay_message(%s, ''1'')', :one)),
	format('22023 message %s belongs to a run The input of a run cannot be replaced.', :one),
	'the replay of a run with another input is refused');
SELECT pgqrs_dismiss_dead_letter(:one);
SELECT is((status, error->>'type')::text, '(ERROR,e)', 'the run of a dismissed dead letter stays in ERROR')
	FROM pgqrs_get_run(:one);
SELECT is(left(pg_temp.answer(format('SELECT pgqrs_replay_message(%s)', :one)), 5), 'PQ004',
	'the run of a dismissed dead letter cannot be replayed');
-- A deleted run takes its dead letter with it.
SELECT is(array_agg(message_id), ARRAY[:two]::bigint[], 'the dead letter of the other run is there')
	FROM pgqrs_dead_letters WHERE queue = 'letter';
SELECT pgqrs_delete_run(:two), pgqrs_delete_run(:one);
SELECT is(count(*), 0::bigint, 'deleting a run removes its dead letter') FROM pgqrs_dead_letters
	WHERE queue = 'letter';
SELECT is(pgqrs_replay_queue('letter'), 0::bigint, 'pgqrs_replay_queue() does not replay a deleted run');
SELECT is(status, 'ERROR', 'a deleted run is found by its id') FROM pgqrs_get_run(:two);

INSERT INTO refused VALUES ('pgqrs_replay_queue(''nobody'')', 'PQ001'),
	('pgqrs_purge_dead_letters(''nobody'', ''0'')', 'PQ001');
SELECT is(got, state, 'the call is refused for its queue: ' || call) FROM pg_temp.refusals();

SELECT * FROM finish();
