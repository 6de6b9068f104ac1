-- Whatever happened to a queue before, a claim delivers what a plain query
-- says is due, in its order.  Random calls, some of them rolled back, against
-- that query, at each isolation level.
\ir include/messages.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_queue('q', max_attempts => 4) AS q, pgqrs_create_queue('noise') \gset
CREATE TEMP TABLE held (id bigint, lease bigint);
CREATE TEMP TABLE wrong (round int, wanted bigint[], got bigint[]);
CREATE TEMP TABLE done (what text, times bigint);

-- The due messages of q in the order of claims.  What is not due is so for at
-- least half an hour, so that no clock has to be read at the same time.
CREATE FUNCTION pg_temp.expected(size int) RETURNS bigint[] LANGUAGE sql AS
$$
	SELECT array_agg(message_id ORDER BY priority DESC, visible_after, message_id) FROM (
		SELECT message_id, priority, visible_after FROM pgqrs_messages m JOIN pgqrs_queues USING (queue_id)
		WHERE name = 'q' AND visible_after < clock_timestamp() + interval '1 min'
			AND failures + (lease IS NOT NULL)::int < max_attempts
		ORDER BY priority DESC, visible_after, message_id LIMIT size) m
$$;

-- One random call.
CREATE FUNCTION pg_temp.call(round int) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	what text := (ARRAY['enqueue', 'enqueue', 'enqueue', 'enqueue many', 'keyed', 'dequeue', 'dequeue', 'dequeue',
		'dequeue', 'archive', 'archive many', 'release', 'nack', 'extend',
		'set visible', 'set visible', 'replay', 'noise'])[1 + floor(random() * 18)];
	later interval := CASE WHEN random() < 0.3 THEN interval '1 h' ELSE '0' END;
	briefly interval := CASE WHEN random() < 0.4 THEN interval '1 us' ELSE '1 h' END;
	level int := floor(random() * 5) - 2;
	size int := CASE WHEN random() < 0.5 THEN 1 ELSE 1 + floor(random() * 20) END;
	h record;
	wanted bigint[];
	claimed bigint[];
BEGIN
	SELECT held.* INTO h FROM held LEFT JOIN pgqrs_messages m ON m.message_id = held.id AND m.lease = held.lease
		ORDER BY m.lease IS NOT NULL AND random() < 0.4 DESC, random() LIMIT 1;
	CASE what
		WHEN 'enqueue' THEN
			PERFORM pgqrs_enqueue('q', to_jsonb(round), delay => later, priority => level);
		WHEN 'enqueue many' THEN
			PERFORM pgqrs_enqueue_batch('q', array_fill(to_jsonb(round), ARRAY[size]), delay => later,
				priority => level);
		WHEN 'keyed' THEN
			PERFORM pgqrs_enqueue('q', to_jsonb(round), priority => level, idempotency_key => 'k' || level);
		WHEN 'dequeue' THEN
			wanted := pg_temp.expected(size);
			WITH d AS (SELECT * FROM pgqrs_dequeue('q', batch_size => size,
				visibility_timeout => briefly) WITH ORDINALITY),
				kept AS (INSERT INTO held SELECT message_id, lease FROM d)
			SELECT array_agg(message_id ORDER BY ordinality) INTO claimed FROM d;
			IF claimed IS DISTINCT FROM wanted THEN
				INSERT INTO wrong VALUES (round, wanted, claimed);
			END IF;
		WHEN 'archive' THEN
			PERFORM pgqrs_archive_message(h.id, h.lease) WHERE h.id IS NOT NULL;
		WHEN 'archive many' THEN
			PERFORM pgqrs_archive_messages(array_agg(id), array_agg(lease)) FROM (SELECT DISTINCT ON (id) id, lease
				FROM held WHERE random() < 0.5 ORDER BY id, random()) s HAVING count(*) > 0;
		WHEN 'release' THEN
			PERFORM pgqrs_release_message(h.id, h.lease, later) WHERE h.id IS NOT NULL;
		WHEN 'nack' THEN
			PERFORM pgqrs_nack_message(h.id, h.lease, delay => later) WHERE h.id IS NOT NULL;
		WHEN 'extend' THEN
			PERFORM pgqrs_extend_lease(h.id, h.lease, briefly) WHERE h.id IS NOT NULL;
		WHEN 'set visible' THEN
			PERFORM pgqrs_set_visibility(message_id, clock_timestamp() + later) FROM (SELECT message_id
				FROM pgqrs_messages ORDER BY random() LIMIT 1) m;
		WHEN 'replay' THEN
			PERFORM pgqrs_replay_queue('q', size);
		WHEN 'noise' THEN
			PERFORM pgqrs_enqueue('noise', '1', priority => level), pgqrs_dequeue('noise', batch_size => size);
	END CASE;
	RETURN what;
EXCEPTION WHEN SQLSTATE 'PQ006' OR SQLSTATE 'PQ007' THEN
	RETURN 'stale';
END
$$;

-- Rounds of calls, in transactions and savepoints that end either way.
CREATE PROCEDURE pg_temp.play(first int, last int) LANGUAGE plpgsql AS
$$
DECLARE what text;
BEGIN
	FOR round IN first .. last LOOP
		BEGIN
			what := pg_temp.call(round);
			IF random() < 0.15 AND NOT EXISTS (SELECT FROM wrong) THEN
				RAISE EXCEPTION USING ERRCODE = 'UNDO0';
			END IF;
		EXCEPTION WHEN SQLSTATE 'UNDO0' THEN
			what := 'undone';
		END;
		INSERT INTO done VALUES (what, 1);
		IF random() < 0.5 OR round = last OR EXISTS (SELECT FROM wrong) THEN
			IF random() < 0.8 OR round = last OR EXISTS (SELECT FROM wrong) THEN
				COMMIT;
			ELSE
				ROLLBACK;
			END IF;
			EXIT WHEN EXISTS (SELECT FROM wrong);
		END IF;
	END LOOP;
END
$$;

SELECT setseed(0.5) \g /dev/null
CALL pg_temp.play(1, 1000);
SELECT is_empty('SELECT * FROM wrong', 'at READ COMMITTED each claim returns the due messages in order');
SET default_transaction_isolation = 'repeatable read';
CALL pg_temp.play(1001, 1500);
SELECT is_empty('SELECT * FROM wrong', 'at REPEATABLE READ each claim returns the due messages in order');
SET default_transaction_isolation = 'serializable';
CALL pg_temp.play(1501, 2000);
SELECT is_empty('SELECT * FROM wrong', 'at SERIALIZABLE each claim returns the due messages in order');
RESET default_transaction_isolation;
SELECT ok(count(*) > CASE what WHEN 'stale' THEN 2 ELSE 10 END, 'the random calls include enough of the kind '
	|| what) FROM done GROUP BY what ORDER BY what;
SELECT is(count(DISTINCT what), 14::bigint, 'the random calls include every kind, stale ones and undone ones')
	FROM done;

-- In the end nothing is lost.
SELECT pgqrs_set_visibility(message_id, '2000-01-01') FROM pgqrs_messages WHERE queue_id = :q;
SELECT is((SELECT array_agg(message_id ORDER BY ordinality)
	FROM pgqrs_dequeue('q', batch_size => 10000) WITH ORDINALITY), expected,
	'a last claim returns every message that is left, in order') FROM pg_temp.expected(10000) expected;
SELECT is(count(*), 0::bigint, 'the last claim leaves no message behind') FROM pgqrs_messages WHERE queue_id = :q
	AND lease IS NULL;
SELECT is(count(*), 0::bigint, 'no message is both live and archived') FROM pgqrs_messages
	JOIN pgqrs_archive USING (message_id);

SELECT * FROM finish();
