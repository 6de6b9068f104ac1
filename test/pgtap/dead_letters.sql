-- Failures, dead letters, replay and purge.  F18: poison messages.
-- F-numbers: docs/design/known-failures.md.
\ir include/messages.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_queue('q', max_attempts => 2, retention => '0') AS q, pgqrs_create_queue('other', max_attempts => 1) AS other \gset

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
SELECT is(pg_temp.poison('limit ' || attempts), ARRAY(SELECT format('"x" %s %s', n, n - 1) FROM generate_series(1, attempts) n),
	format('%s attempts, each a failure more', attempts)) FROM unnest('{1,2,5,50}'::int[]) attempts;
SELECT is(string_agg(concat_ws(' ', name, outcome, attempt, failures), ', ' ORDER BY queue_id), 'limit 1 DEAD 1 1, limit 2 DEAD 2 2, limit 5 DEAD 5 5, limit 50 DEAD 50 50',
	'then they are dead') FROM pgqrs_archive JOIN pgqrs_queues USING (queue_id);
SELECT is(count(*), 0::bigint, 'and not live') FROM pgqrs_messages;
SELECT is(string_agg(DISTINCT last_error ->> 'type', ','), 'max_attempts', 'with the reason') FROM pgqrs_archive;

SELECT pgqrs_enqueue_batch('limit 2', '{1,2,3}') \g /dev/null
SELECT is(array_agg(d ORDER BY d), '{1 1 0,1 2 1,2 1 0,2 2 1,3 1 0,3 2 1}', 'in batches, too') FROM unnest(pg_temp.poison('limit 2', 2)) d;
SELECT pgqrs_enqueue_batch('limit 1', '{1,2,3,4}') AS ids \gset
SELECT pg_temp.due(message_id) FROM pgqrs_dequeue('limit 1', batch_size => 2) \g /dev/null
SELECT is(array_agg(payload), '{3,4}', 'the exhausted ones do not take the place of others') FROM pgqrs_dequeue('limit 1', batch_size => 2);
SELECT is(array_agg(pg_temp.state(id) ORDER BY id), '{DEAD 1 1,DEAD 1 1,held 1 0,held 1 0}', 'and are dead') FROM unnest(:'ids'::bigint[]) id;

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
SELECT cmp_ok(pg_temp.calls('many'), '<=', 4, 'a good one behind thousands comes after a few calls');
SELECT is(count(*), 3000::bigint, 'which have ended all before it') FROM pgqrs_archive WHERE queue_id = :many AND outcome = 'DEAD';

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
SELECT is(pg_temp.state(:id), 'live 11 0', 'released, rolled back, revoked: none');
SELECT pg_temp.claim(:id) \g /dev/null
SELECT is(pg_temp.state(:id), 'held 12 0', 'a live lease: none yet');
SELECT pg_temp.claim(:id) AS lease \gset
SELECT is(pg_temp.state(:id), 'held 13 1', 'a lease that ran out: one');
SELECT pgqrs_nack_message(:id, :lease, '"reported"', '0') IS NOT NULL \g /dev/null
SELECT is(pg_temp.state(:id), 'live 13 2', 'a nack: one');
SELECT pg_temp.claim(:id) AS lease \gset
SELECT pg_temp.due(:id) \g /dev/null
SELECT is(count(*), 0::bigint, 'that was the last attempt') FROM pgqrs_dequeue('mixed');
SELECT is(ROW(pg_temp.state(:id), last_error)::text, '("DEAD 14 3","""reported""")', 'dead, with the error that was reported') FROM pg_temp.archived(:id);
INSERT INTO refused VALUES (format('pgqrs_archive_message(%s, %s)', :id, :lease), 'PQ007'), (format('pgqrs_nack_message(%s, %s)', :id, :lease), 'PQ007'),
	(format('pgqrs_release_message(%s, %s)', :id, :lease), 'PQ007'), (format('pgqrs_delete_message(%s, %s)', :id, :lease), 'PQ007');
SELECT is(got, state, 'a dead one''s last holder: ' || call) FROM pg_temp.refusals();
SELECT is(ROW(extended, pgqrs_archive_messages(ARRAY[:id], ARRAY[:lease]))::text, '(f,{NULL})', 'is too late') FROM pgqrs_extend_lease(:id, :lease);

SELECT pgqrs_enqueue('other', '1') AS id \gset
SELECT pg_temp.claim(:id) AS lease \gset
SELECT pg_temp.due(:id) \g /dev/null
SELECT lives_ok(format('SELECT pgqrs_archive_message(%s, %s)', :id, :lease), 'the last holder may finish until somebody claims');
SELECT is(pg_temp.state(:id), 'DONE 1 0', 'then it is done, not dead');

SELECT pgqrs_enqueue('other', '1') AS id \gset
SELECT pg_temp.claim(:id) AS lease \gset
SELECT is(pgqrs_nack_message(:id, :lease, '{"type": "broken"}', '1 h'), NULL, 'a nack that exhausts it answers NULL');
SELECT is(ROW(pg_temp.state(:id), last_error)::text, '("DEAD 1 1","{""type"": ""broken""}")', 'and it is dead') FROM pg_temp.archived(:id);
SELECT is(lease, :lease::bigint, 'whose last lease is known') FROM pg_temp.archived(:id);
SELECT is(count(*), 1::bigint, 'listed as a dead letter') FROM pgqrs_dead_letters WHERE message_id = :id;

SELECT pgqrs_enqueue('mixed', '1') AS id \gset
SELECT pgqrs_nack_message(:id, pg_temp.claim(:id), delay => '0') FROM generate_series(1, 2) \g /dev/null
SELECT pgqrs_alter_queue('mixed', max_attempts => 4);
SELECT pgqrs_nack_message(:id, pg_temp.claim(:id), delay => '0') \g /dev/null
SELECT is(pg_temp.state(:id), 'live 3 3', 'max_attempts raised: it goes on');
SELECT pgqrs_alter_queue('mixed', max_attempts => 2);
SELECT is(count(*), 0::bigint, 'lowered: not delivered any more') FROM pgqrs_dequeue('mixed');
SELECT is(pg_temp.state(:id), 'DEAD 3 3', 'but dead');

-- A claim that is rolled back ends nothing, either.
SELECT pgqrs_enqueue('other', '1') AS id \gset
SELECT pg_temp.claim(:id), pg_temp.due(:id) \g /dev/null
BEGIN;
SELECT is(count(*), 0::bigint, 'exhausted') FROM pgqrs_dequeue('other');
SELECT is(pg_temp.state(:id), 'DEAD 1 1', 'dead');
ROLLBACK;
SELECT is(pg_temp.state(:id), 'held 1 0', 'not after a rollback');

--
-- Replay
--

SELECT pgqrs_enqueue('q', '{"a": 1}', priority => 7, idempotency_key => 'k', headers => '{"h": 2}') AS id \gset
SELECT pgqrs_nack_message(:id, pg_temp.claim(:id), '"broken"', '0') FROM generate_series(1, 2) \g /dev/null
SELECT lease AS old_lease FROM pg_temp.archived(:id) \gset
SELECT to_jsonb(a) - '{archived_at,outcome,visible_after}'::text[] AS letter FROM pg_temp.archived(:id) a \gset
SELECT clock_timestamp() AS before \gset
SELECT pgqrs_replay_message(:id);
SELECT is((to_jsonb(m) - '{visible_after,last_error,dequeued_at,exhausted_at}'::text[]), (:'letter'::jsonb || '{"attempt": 0, "failures": 0, "lease": null}') - '{last_error,dequeued_at}'::text[],
	'attempt, failures and lease are reset, all else is kept') FROM pg_temp.message(:id) m;
SELECT ok(visible_after BETWEEN :'before' AND clock_timestamp() + interval '1 ms', 'claimable at once') FROM pg_temp.message(:id);
SELECT is(count(*), 0::bigint, 'no dead letter any more') FROM pgqrs_archive WHERE message_id = :id;
INSERT INTO refused VALUES (format('pgqrs_archive_message(%s, %s)', :id, :old_lease), 'PQ006');
SELECT is(got, state, 'the old lease is stale') FROM pg_temp.refusals();
SELECT is(pgqrs_enqueue('q', '2', idempotency_key => 'k'), :id::bigint, 'its key is taken again');
SELECT is(pg_temp.poison('q'), '{"{\"a\": 1} 1 0","{\"a\": 1} 2 1"}', 'a new life, with all attempts');
SELECT is(pg_temp.state(:id), 'DEAD 2 2', 'and another death');
SELECT pgqrs_replay_message(:id);
SELECT pgqrs_archive_message(:id, pg_temp.claim(:id));
SELECT is(pg_temp.state(:id), 'gone', 'replayed and done');

BEGIN;
SELECT pg_temp.dead('q') AS id \gset
SELECT pgqrs_replay_message(:id);
SELECT is(pg_temp.state(:id), 'live 0 0', 'in the transaction of its death');
ROLLBACK;
SELECT pg_temp.dead('q') AS id \gset
BEGIN;
SELECT pgqrs_replay_message(:id);
ROLLBACK;
SELECT is(pg_temp.state(:id), 'DEAD 2 2', 'a rollback undoes it');

-- What cannot be replayed.
SELECT pgqrs_enqueue('other', '1') AS live \gset
SELECT * FROM pg_temp.held('other') AS h (held, lease) \gset
SELECT * FROM pg_temp.held('other') AS h (done, lease) \gset
SELECT pgqrs_archive_message(:done, :lease);
SELECT * FROM pg_temp.held('other') AS h (deleted, lease) \gset
SELECT pgqrs_delete_message(:deleted, :lease);
SELECT pg_temp.dead('other', '"old"', 'taken') AS taken, pgqrs_enqueue('other', '"new"', idempotency_key => 'taken') AS taker \gset
SELECT pg_temp.contents() AS before \gset
INSERT INTO refused VALUES (format('pgqrs_replay_message(%s)', :live), 'PQ016'), (format('pgqrs_replay_message(%s)', :held), 'PQ016'),
	('pgqrs_replay_message(0)', 'PQ004'), ('pgqrs_replay_message(-1)', 'PQ004'), ('pgqrs_replay_message(9007199254740991)', 'PQ004'), ('pgqrs_replay_message(9223372036854775807)', 'PQ004'),
	(format('pgqrs_replay_message(%s)', :done), 'PQ016'), (format('pgqrs_replay_message(%s)', :deleted), 'PQ016'), (format('pgqrs_replay_message(%s)', :taken), 'PQ016');
SELECT is(split_part(got, ' after', 1), state, call) FROM pg_temp.refusals();
SELECT is(pg_temp.contents(), :'before', 'and nothing changed');
SELECT alike(pg_temp.answer(format('SELECT pgqrs_replay_message(%s)', id)), 'PQ016 %' || state || '%', 'DETAIL names the state: ' || state)
	FROM (VALUES (:live, 'live'), (:held, 'live'), (:done, 'DONE'), (:deleted, 'DELETED'), (:taken, 'key')) v (id, state);
SELECT pgqrs_archive_message(:taker, pg_temp.claim(:taker));
SELECT lives_ok(format('SELECT pgqrs_replay_message(%s)', :taken), 'once its key is free it can');
SELECT is(pg_temp.state(:taken), 'live 0 0', 'and is');

--
-- Replay of a queue
--

SELECT pgqrs_create_queue('letters', max_attempts => 1) AS letters \gset
SELECT is(pgqrs_replay_queue('letters'), 0::bigint, 'nothing to replay');
SELECT pg_temp.dead('letters', to_jsonb(n)) FROM generate_series(1, 5) n \g /dev/null
UPDATE pgqrs_archive SET archived_at = timestamptz '2020-01-01' - (payload #>> '{}')::int * interval '1 day' WHERE queue_id = :letters;
SELECT pg_temp.dead('other', '"other"') AS id \gset
SELECT pgqrs_archive_message(h.id, h.lease) FROM pg_temp.held('letters') h;
SELECT is(pgqrs_replay_queue('letters', 2), 2::bigint, 'max_rows');
SELECT is(pg_temp.drain('letters'), '[5, 4]', 'those that have been dead longest');
SELECT is(pgqrs_replay_queue('letters', max_rows => NULL), 3::bigint, 'all');
SELECT is(pg_temp.drain('letters'), '[3, 2, 1]', 'in order');
SELECT is(pgqrs_replay_queue('letters'), 0::bigint, 'none is left');
SELECT is(pg_temp.state(:id), 'DEAD 1 1', 'another queue''s stay');
SELECT is(count(*), 6::bigint, 'what was done stays') FROM pgqrs_archive WHERE queue_id = :letters AND outcome = 'DONE';

-- Passing over those whose key is taken, by a live one or by the one before.
SELECT pg_temp.dead('letters', '"a1"', 'a'), pg_temp.dead('letters', '"b1"', 'b') FROM (SELECT pg_sleep(0)) s \g /dev/null
SELECT pg_temp.dead('letters', '"a2"', 'a'), pg_temp.dead('letters', '"c1"'), pgqrs_enqueue('letters', '"b2"', delay => '1 h', idempotency_key => 'b') \g /dev/null
SELECT is(pgqrs_replay_queue('letters', 2), 2::bigint, 'those that cannot be do not count');
SELECT is(pg_temp.drain('letters'), '["a1", "c1"]', 'one for each key');
SELECT is(pgqrs_replay_queue('letters'), 1::bigint, 'later, those that can be by then');
SELECT is(pg_temp.drain('letters'), '["a2"]', 'the next of that key');

SELECT pgqrs_enqueue_batch('letters', array_fill('0'::jsonb, ARRAY[3000])) \g /dev/null
SELECT count(*) FROM pgqrs_dequeue('letters', batch_size => 3000, visibility_timeout => '1 us') \g /dev/null
SELECT count(*) FROM generate_series(1, 4) n, pgqrs_dequeue('letters', batch_size => n) \g /dev/null
SELECT is(pgqrs_replay_queue('letters'), 3000::bigint, 'thousands');
SELECT is(array_agg(DISTINCT ROW(attempt, failures, lease)::text), '{"(0,0,)"}', 'all reset') FROM pgqrs_messages WHERE queue_id = :letters AND idempotency_key IS NULL;

--
-- Purge
--

SELECT pgqrs_create_queue('purge', max_attempts => 1) AS purge \gset
SELECT is(pgqrs_purge_dead_letters('purge', '0'), 0::bigint, 'nothing to purge');
SELECT pg_temp.dead('purge', to_jsonb(n)) FROM generate_series(1, 5) n \g /dev/null
SELECT pgqrs_archive_message(h.id, h.lease) FROM pg_temp.held('purge') h;
SELECT pgqrs_enqueue('purge', '"live"') \g /dev/null
UPDATE pgqrs_archive SET archived_at = clock_timestamp() - CASE outcome WHEN 'DEAD' THEN (payload #>> '{}')::int ELSE 9 END * interval '1 day' + interval '1 min', enqueued_at = '2000-01-01'
	WHERE queue_id = :purge;
CREATE FUNCTION pg_temp.left() RETURNS jsonb[] LANGUAGE sql AS
$$ SELECT array_agg(payload ORDER BY archived_at) FROM pgqrs_archive JOIN pgqrs_queues USING (queue_id) WHERE name = 'purge' AND outcome = 'DEAD' $$;
SELECT is(pgqrs_purge_dead_letters('purge', '5 days'), 0::bigint, 'none is that old');
SELECT is(pgqrs_purge_dead_letters('purge', older_than => '72 h'), 2::bigint, 'those that died longer ago');
SELECT is(pg_temp.left(), '{3,2,1}', 'younger ones stay');
BEGIN;
SELECT is(pgqrs_purge_dead_letters('purge', '0'), 3::bigint, 'all');
ROLLBACK;
SELECT is(pg_temp.left(), '{3,2,1}', 'a rollback undoes it');
SELECT is(pgqrs_purge_dead_letters('purge', '0'), 3::bigint, 'all');
SELECT is(pg_temp.left(), NULL, 'gone for good');
SELECT is(ROW((SELECT count(*) FROM pgqrs_archive WHERE queue_id = :purge), (SELECT count(*) FROM pgqrs_messages WHERE queue_id = :purge))::text, '(1,1)',
	'not what is done, nor what is live');
SELECT is(pg_temp.state(:id), 'DEAD 1 1', 'nor another queue''s');
-- A failure that is not retryable.
SELECT pgqrs_create_queue('mend') \g /dev/null
SELECT * FROM pg_temp.held('mend') \gset
SELECT is(pgqrs_nack_message(:id, :lease, '{"type": "bad"}', retryable => false), NULL, 'a failure that is not retryable ends the message');
SELECT is(pg_temp.state(:id), 'DEAD 1 1', 'as a dead letter, after one failure');
SELECT is((pg_temp.archived(:id)).last_error, '{"type": "bad"}', 'with its error');

-- Replayed with a mended payload.
SELECT is((pg_temp.archived(:id)).payload, '"held"', 'what it was sent with');
SELECT pgqrs_replay_message(:id, '"mended"');
SELECT is((payload, headers, attempt, failures)::text, '("""mended""",,0,0)', 'it is claimable again, with the payload of the replay') FROM pg_temp.message(:id);

-- Replayed by the type of the error.
SELECT * FROM pg_temp.held('mend') AS h (a, a_lease) \gset
SELECT pgqrs_nack_message(:a, :a_lease, '{"type": "a"}', retryable => false) \g /dev/null
SELECT * FROM pg_temp.held('mend') AS h (b, b_lease) \gset
SELECT pgqrs_nack_message(:b, :b_lease, '{"type": "b"}', retryable => false) \g /dev/null
SELECT * FROM pg_temp.held('mend') AS h (c, c_lease) \gset
SELECT pgqrs_nack_message(:c, :c_lease, '"b"', retryable => false), pgqrs_nack_message(h.id, h.lease, retryable => false) FROM pg_temp.held('mend') h \g /dev/null
SELECT is(pgqrs_replay_queue('mend', error_type => ''), 0::bigint, 'no error has that type');
SELECT is(pgqrs_replay_queue('mend', error_type => 'b'), 1::bigint, 'one has that type');
SELECT is(pg_temp.state(:a) || ', ' || pg_temp.state(:b) || ', ' || pg_temp.state(:c), 'DEAD 1 1, live 0 0, DEAD 1 1', 'and no other is replayed');

-- Dismissed, one by one.
SELECT matches(pg_temp.answer(format('SELECT pgqrs_dismiss_dead_letter(%s)', :b)), format('^PQ016 message %s is not a dead letter It is still live.$', :b), 'a live message is no dead letter');
SELECT pgqrs_dismiss_dead_letter(:a);
SELECT is(pg_temp.state(:a), 'gone', 'a letter that is dismissed is gone');
SELECT is(left(pg_temp.answer(format('SELECT pgqrs_dismiss_dead_letter(%s)', :a)), 5), 'PQ004', 'and there is none any more');
SELECT pgqrs_create_workflow('letter', max_attempts => 1) \g /dev/null
SELECT pgqrs_trigger('letter') AS one, pgqrs_trigger('letter') AS two \gset
SELECT pgqrs_fail_run(run_id, lease, '{"type": "e"}') FROM pgqrs_dequeue('letter', batch_size => 2) \g /dev/null
SELECT is(pg_temp.answer(format('SELECT pgqrs_replay_message(%s, ''1'')', :one)), format('22023 message %s belongs to a run A run keeps its input.', :one), 'a run is not replayed with another input');
SELECT pgqrs_dismiss_dead_letter(:one);
SELECT is((status, error->>'type')::text, '(ERROR,e)', 'the run of a letter that was dismissed stays') FROM pgqrs_get_run(:one);
SELECT is(left(pg_temp.answer(format('SELECT pgqrs_replay_message(%s)', :one)), 5), 'PQ004', 'and is not replayed');
-- A deleted run takes its dead letter with it.
SELECT is(array_agg(message_id), ARRAY[:two]::bigint[], 'the other letter is there') FROM pgqrs_dead_letters WHERE queue = 'letter';
SELECT pgqrs_delete_run(:two), pgqrs_delete_run(:one);
SELECT is(count(*), 0::bigint, 'a deleted run leaves no dead letter') FROM pgqrs_dead_letters WHERE queue = 'letter';
SELECT is(pgqrs_replay_queue('letter'), 0::bigint, 'there is none to replay');
SELECT is(status, 'ERROR', 'the run is found by its id') FROM pgqrs_get_run(:two);

INSERT INTO refused VALUES ('pgqrs_replay_queue(''nobody'')', 'PQ001'), ('pgqrs_purge_dead_letters(''nobody'', ''0'')', 'PQ001');
SELECT is(got, state, call) FROM pg_temp.refusals();

SELECT * FROM finish();
