-- What the clients of t/stress.pl do and write down.
--
-- Queues "short.*" see short transactions of few clients, so that claims start
-- close to the present; "long.mixed" everything, and dead letters;
-- "long.once" mostly claims that end what has expired; "long.direct" also what a superuser writes by hand.
CREATE SCHEMA stress;

SELECT pgqrs_create_queue('short.1', max_attempts => 1000000),
	pgqrs_create_queue('short.2', max_attempts => 1000000),
	pgqrs_create_queue('long.mixed', max_attempts => 3),
	pgqrs_create_queue('long.once', max_attempts => 1),
	pgqrs_create_queue('long.direct', max_attempts => 1000000);

-- Each row is written in the transaction that did it.  A transaction that changes a
-- message after that waits for its lock, so rows of one message are in the
-- order of "at".  A claim is right if its "since", the instant from which its
-- lease runs, is not before the "not_before" of the row above.
CREATE TABLE stress.log (
	message_id bigint NOT NULL,
	at timestamptz NOT NULL DEFAULT clock_timestamp(),
	since timestamptz,
	not_before timestamptz NOT NULL,
	lease bigint,
	kind text NOT NULL,
	pid int NOT NULL DEFAULT pg_backend_pid(),
	xid xid8 DEFAULT pg_current_xact_id()
);

CREATE FUNCTION stress.pick(VARIADIC choices text[]) RETURNS text LANGUAGE sql
	RETURN choices[1 + floor(random() * cardinality(choices))];

-- What a session holds as id, lease, id, lease, …; a setting, since those end
-- with a rollback as claims do.
CREATE FUNCTION stress.held(queue text) RETURNS bigint[] LANGUAGE sql
	RETURN coalesce(nullif(current_setting('stress.' || translate(queue, '.', '_'), true), '')::bigint[], '{}');
CREATE FUNCTION stress.hold(queue text, held bigint[]) RETURNS void LANGUAGE sql
	RETURN set_config('stress.' || translate(queue, '.', '_'), held::text, false);

CREATE FUNCTION stress.claim(pattern text, batch_size int, visibility_timeout interval) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	d record;
	count int := 0;
BEGIN
	FOR d IN SELECT * FROM pgqrs_dequeue(pattern, NULL, batch_size, visibility_timeout) LOOP
		INSERT INTO stress.log (kind, message_id, lease, since, not_before)
			VALUES ('claim', d.message_id, d.lease, d.visible_after - visibility_timeout, d.visible_after);
		PERFORM stress.hold(d.queue, stress.held(d.queue) || d.message_id || d.lease);
		count := count + 1;
	END LOOP;
	RETURN count;
END
$$;

CREATE FUNCTION stress.enqueue(queue text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	t timestamptz := clock_timestamp();
	delay interval := stress.pick('0', '0', '0', '1 ms', '5 ms', '50 ms');
	priority int := stress.pick('0', '5');
	ids bigint[];
BEGIN
	IF random() < 0.7 THEN
		ids := ARRAY[pgqrs_enqueue(queue, '1', delay, priority => priority)];
	ELSE
		ids := pgqrs_enqueue_batch(queue, '{1,2,3}', delay, priority => priority);
	END IF;
	INSERT INTO stress.log (kind, message_id, not_before) SELECT 'enqueue', id, t + delay FROM unnest(ids) AS id;
END
$$;

-- Something under one of the session's leases, which may be lost by now.
CREATE FUNCTION stress.work(queue text, what text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	held bigint[] := stress.held(queue);
	t timestamptz := clock_timestamp();
	i int := 2 * floor(random() * cardinality(held) / 2);
	id bigint := held[i + 1];
	token bigint := held[i + 2];
	delay interval := stress.pick('0', '0', '5 ms', '20 ms');
	ok boolean := true;
BEGIN
	IF id IS NULL THEN
		RETURN;
	END IF;
	IF what <> 'extend' THEN
		PERFORM stress.hold(queue, held[:i] || held[i + 3:]);
	END IF;
	CASE what
		WHEN 'archive' THEN
			IF random() < 0.9 THEN
				ok := coalesce((pgqrs_archive_messages(ARRAY[id], ARRAY[token]))[1], false);
			ELSE
				PERFORM pgqrs_archive_message(id, token);
			END IF;
		WHEN 'release' THEN
			PERFORM pgqrs_release_message(id, token, delay);
		WHEN 'nack' THEN
			delay := '0';
			PERFORM pgqrs_nack_message(id, token, delay => delay);
		WHEN 'extend' THEN
			delay := stress.pick('1 ms', '10 ms', '100 ms');
			ok := (pgqrs_extend_lease(id, token, delay)).extended;
			-- the end stays while another transaction is writing the message
			ok := ok AND EXISTS (SELECT FROM pgqrs_messages WHERE message_id = id AND lease = token
				AND xmin IN (SELECT transactionid FROM pg_locks WHERE pid = pg_backend_pid() AND mode = 'ExclusiveLock'));
	END CASE;
	IF ok THEN
		INSERT INTO stress.log (kind, message_id, lease, not_before)
			VALUES (what, id, token, CASE what WHEN 'archive' THEN 'infinity' ELSE t + delay END);
	END IF;
END
$$;

-- What claims have passed would be found again if it were moved: what is due
-- for long is left alone.
CREATE FUNCTION stress.is_recent(visible_after timestamptz) RETURNS boolean LANGUAGE sql
	RETURN visible_after > clock_timestamp() - interval '50 ms';

CREATE FUNCTION stress.set_visibility(queue text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	instant timestamptz := clock_timestamp() + stress.pick('0', '0', '5 ms', '20 ms')::interval;
	id bigint := (SELECT message_id FROM pgqrs_peek(queue, 20) WHERE stress.is_recent(visible_after) ORDER BY random() LIMIT 1);
BEGIN
	IF id IS NOT NULL THEN
		PERFORM pgqrs_set_visibility(id, instant);
		INSERT INTO stress.log (kind, message_id, not_before) VALUES ('set_visibility', id, instant);
	END IF;
END
$$;

CREATE FUNCTION stress.replay(queue text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	t timestamptz := clock_timestamp();
	id bigint;
BEGIN
	IF random() < 0.5 THEN
		PERFORM pgqrs_replay_queue(queue, 2);
		RETURN;
	END IF;
	SELECT message_id INTO id FROM pgqrs_dead_letters AS d WHERE d.queue = replay.queue LIMIT 1;
	IF FOUND THEN
		PERFORM pgqrs_replay_message(id);
		INSERT INTO stress.log (kind, message_id, not_before) VALUES ('replay', id, t);
	END IF;
END
$$;

-- One random operation.  wide: also on several queues at once.
CREATE FUNCTION stress.act(queue text, wide boolean = false) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	dice int := random() * 100;
BEGIN
	IF dice < 35 THEN
		PERFORM stress.claim(CASE WHEN wide THEN 'long.*' ELSE queue END, 1 + (random() * 9)::int,
			stress.pick('1 ms', '10 ms', '10 ms', '100 ms', '500 ms')::interval);
	ELSIF dice < 55 THEN
		PERFORM stress.enqueue(queue);
	ELSIF dice < 78 THEN
		PERFORM stress.work(queue, 'archive') FROM generate_series(1, 1 + (random() * 3)::int);
	ELSIF dice < 93 THEN
		PERFORM stress.work(queue, stress.pick('release', 'nack', 'extend'));
	ELSIF dice < 97 THEN
		PERFORM stress.set_visibility(queue);
	ELSE
		PERFORM stress.replay(queue);
	END IF;
END
$$;

-- The same in a subtransaction, which may be rolled back.
CREATE FUNCTION stress.act_sub(queue text, wide boolean = false) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM stress.act(queue, wide);
	IF random() < 0.4 THEN
		RAISE EXCEPTION 'undo';
	END IF;
EXCEPTION WHEN raise_exception OR SQLSTATE 'PQ004' OR SQLSTATE 'PQ006' OR SQLSTATE 'PQ007' OR SQLSTATE 'PQ016' THEN
END
$$;

-- The next transaction begins with a random isolation level.
CREATE PROCEDURE stress.begin() LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('default_transaction_isolation', stress.pick('read committed', 'repeatable read', 'serializable'), false);
	COMMIT;
END
$$;

CREATE PROCEDURE stress.end(undo float) LANGUAGE plpgsql AS $$
BEGIN
	IF random() < undo THEN
		ROLLBACK;
	ELSE
		COMMIT;
	END IF;
END
$$;

-- A message that is due and committed, and that claims which took all they found
-- have missed for most of a second, though it was not locked three times in between:
-- it is lost, even if something that another client does brings it back.
CREATE TABLE stress.missed (LIKE pgqrs_messages);

CREATE PROCEDURE stress.look_for_missed(queue text) LANGUAGE plpgsql AS $$
DECLARE
	of_queue bigint := (SELECT queue_id FROM pgqrs_queues WHERE name = queue);
	versions text[] := ARRAY(SELECT message_id || ' ' || xmin FROM pgqrs_messages
		WHERE queue_id = of_queue AND visible_after <= clock_timestamp());
BEGIN
	FOR i IN 1 .. 30 LOOP
		COMMIT;
		PERFORM stress.claim(queue, 100, '50 ms');
		COMMIT;
		versions := ARRAY(SELECT message_id || ' ' || xmin FROM pgqrs_messages
			WHERE queue_id = of_queue AND message_id || ' ' || xmin = ANY (versions));
		IF versions <> '{}' AND i % 10 = 0 THEN
			versions := ARRAY(SELECT message_id || ' ' || xmin FROM pgqrs_messages
				WHERE queue_id = of_queue AND message_id || ' ' || xmin = ANY (versions) FOR UPDATE SKIP LOCKED);
		END IF;
		EXIT WHEN versions = '{}';
		PERFORM pg_sleep(0.02);
	END LOOP;
	INSERT INTO stress.missed SELECT * FROM pgqrs_messages WHERE message_id || ' ' || xmin = ANY (versions);
	COMMIT;
END
$$;

-- A client; an error ends it, and the next call begins anew.
CREATE PROCEDURE stress.client(until timestamptz) LANGUAGE plpgsql AS $$
DECLARE
	queue text;
	short boolean;
	wide boolean;
BEGIN
	WHILE clock_timestamp() < until LOOP
		CALL stress.begin();
		queue := stress.pick('short.1', 'short.2', 'long.mixed', 'long.once', 'long.direct');
		short := queue LIKE 'short.%';
		wide := NOT short AND random() < 0.3;
		IF random() < 0.05 THEN
			-- nothing but a claim, which is not written down and a crash may take back
			PERFORM pgqrs_dequeue(queue, NULL, 3, '10 ms');
			CONTINUE;
		END IF;
		IF random() < 0.05 THEN
			CALL stress.look_for_missed(queue);
			CONTINUE;
		END IF;
		IF short AND random() < 0.3 THEN
			-- so that the first key of the transaction is another queue's
			PERFORM stress.act('long.mixed');
		END IF;
		FOR i IN 1 .. 1 + (random() * CASE WHEN short THEN 1 ELSE 6 END)::int LOOP
			IF random() < 0.3 THEN
				PERFORM stress.act_sub(queue, wide);
			ELSE
				PERFORM stress.act(queue, wide);
			END IF;
			IF NOT short AND random() < 0.3 THEN
				PERFORM pg_sleep(0.01 * random());
			END IF;
		END LOOP;
		IF NOT short AND NOT wide AND random() < 0.01 THEN
			PERFORM pg_sleep(least(1 + random(), extract(epoch FROM until - clock_timestamp())));
		END IF;
		CALL stress.end(0.25);
	END LOOP;
END
$$;

-- By hand: mostly near the present, rarely where every claim looks again.
CREATE FUNCTION stress.any_time() RETURNS timestamptz LANGUAGE sql
	RETURN CASE WHEN random() < 0.03 THEN stress.pick('-infinity', '1999-12-31', '2020-01-01')::timestamptz
		ELSE clock_timestamp() + stress.pick('-100 ms', '-20 ms', '-5 ms', '0', '5 ms', '300 ms')::interval END;

CREATE FUNCTION stress.write_by_hand() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	dice float := random();
	direct bigint := (SELECT queue_id FROM pgqrs_queues WHERE name = 'long.direct');
	target bigint := (SELECT message_id FROM pgqrs_messages WHERE queue_id = direct AND stress.is_recent(visible_after)
		ORDER BY random() LIMIT 1 FOR UPDATE SKIP LOCKED);
	id bigint;
	instant timestamptz := stress.any_time();
	what text;
BEGIN
	IF dice < 0.4 THEN
		what := 'insert';
		INSERT INTO pgqrs_messages (message_id, queue_id, visible_after, enqueued_at, attempt, failures, priority, payload)
			VALUES (nextval('pgqrs_message_id_seq'), direct, instant, now(), 0, 0, stress.pick('0', '5')::smallint, '1')
			RETURNING message_id INTO id;
	ELSIF dice < 0.7 THEN
		what := 'update';
		UPDATE pgqrs_messages SET visible_after = instant WHERE message_id = target RETURNING message_id INTO id;
	ELSIF dice < 0.9 THEN
		what := 'update';
		UPDATE pgqrs_messages SET visible_after = instant, lease = NULL, priority = stress.pick('0', '5')::smallint
			WHERE message_id = target RETURNING message_id INTO id;
	ELSE
		what := 'delete';
		instant := 'infinity';
		DELETE FROM pgqrs_messages WHERE message_id = target RETURNING message_id INTO id;
	END IF;
	IF id IS NOT NULL THEN
		INSERT INTO stress.log (kind, message_id, not_before) VALUES (what, id, instant);
	END IF;
END
$$;

CREATE PROCEDURE stress.superuser(until timestamptz) LANGUAGE plpgsql AS $$
BEGIN
	WHILE clock_timestamp() < until LOOP
		FOR i IN 1 .. 1 + (random() * 3)::int LOOP
			IF random() < 0.6 THEN
				PERFORM stress.write_by_hand();
			ELSE
				PERFORM stress.act('long.direct');
			END IF;
		END LOOP;
		IF random() < 0.3 THEN
			PERFORM pg_sleep(0.2 * random());
		END IF;
		CALL stress.end(0.3);
		PERFORM pg_sleep(0.05 * random());
	END LOOP;
END
$$;

-- After the load: claims until nothing is left that is not held here.  What a
-- pass leaves that was due when it began is lost.
CREATE TABLE stress.drained (message_id bigint, lease bigint);
CREATE TABLE stress.lost (LIKE pgqrs_messages);

CREATE PROCEDURE stress.drain() LANGUAGE plpgsql AS $$
DECLARE
	long_lease CONSTANT interval := '1 hour';
	names text[] := ARRAY['short.1', 'short.2', 'long.mixed', 'long.once', 'long.direct'];
	begun timestamptz;
BEGIN
	TRUNCATE stress.drained, stress.lost;
	COMMIT;
	LOOP
		begun := clock_timestamp();
		FOR i IN 1 .. cardinality(names) LOOP
			WHILE stress.claim(names[i], 100, long_lease) > 0 LOOP
				COMMIT;
			END LOOP;
			COMMIT;
		END LOOP;
		INSERT INTO stress.lost SELECT * FROM pgqrs_messages WHERE visible_after <= begun;
		EXIT WHEN FOUND OR NOT EXISTS (SELECT FROM pgqrs_messages WHERE visible_after < begun + long_lease / 2);
		COMMIT;
		PERFORM pg_sleep(0.02);
	END LOOP;
	-- the queues are empty again
	PERFORM pgqrs_archive_messages(array_agg(message_id), array_agg(lease)) FROM (
		SELECT message_id, lease, row_number() OVER () / 10000 AS part FROM pgqrs_messages WHERE visible_after >= begun
	) AS m GROUP BY part;
END
$$;

CREATE VIEW stress.history AS
	SELECT *, lag(kind) OVER w AS kind_before, lag(not_before) OVER w AS earliest
	FROM stress.log WINDOW w AS (PARTITION BY message_id ORDER BY at);
CREATE VIEW stress.wrong AS
	SELECT format('message %s was claimed at %s (lease %s) after %s, before %s', message_id, since, lease, kind_before, earliest)
	FROM stress.history WHERE kind = 'claim' AND since < earliest
	UNION ALL
	SELECT format('message %s was sent at %s and is nowhere', message_id, at)
	FROM stress.log AS l WHERE kind IN ('enqueue', 'insert')
		AND NOT EXISTS (SELECT FROM pgqrs_messages AS m WHERE m.message_id = l.message_id)
		AND NOT EXISTS (SELECT FROM pgqrs_archive AS m WHERE m.message_id = l.message_id)
		AND NOT EXISTS (SELECT FROM stress.log AS d WHERE d.message_id = l.message_id AND d.kind = 'delete');
