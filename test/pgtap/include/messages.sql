-- What the tests of queues and messages share.
\ir refusals.sql

-- The same for all calls of a list, before any is reported, since that writes.
-- Empties the list.
CREATE TEMP TABLE refused (call text, state text);
CREATE FUNCTION pg_temp.refusals() RETURNS TABLE (call text, state text, got text) LANGUAGE plpgsql AS
$$
BEGIN
	FOR call, state IN SELECT * FROM refused LOOP
		got := pg_temp.refusal('SELECT ' || call);
		RETURN NEXT;
	END LOOP;
	DELETE FROM refused;
END
$$;

-- SQLSTATE, message and DETAIL of a query that is refused, or its first
-- column; nothing of it stays.
CREATE FUNCTION pg_temp.answer(query text) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	result text;
	state text;
	detail text;
BEGIN
	EXECUTE query INTO result;
	RAISE EXCEPTION USING ERRCODE = 'UNDO0';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, detail = PG_EXCEPTION_DETAIL;
	RETURN CASE state WHEN 'UNDO0' THEN coalesce(result, 'NULL')
		ELSE concat_ws(' ', state, SQLERRM, NULLIF(detail, '')) END;
END
$$;

CREATE FUNCTION pg_temp.message(id bigint) RETURNS pgqrs_messages LANGUAGE sql AS
$$ SELECT m FROM pgqrs_messages m WHERE message_id = id $$;

CREATE FUNCTION pg_temp.archived(id bigint) RETURNS pgqrs_archive LANGUAGE sql AS
$$ SELECT a FROM pgqrs_archive a WHERE message_id = id $$;

-- A message becomes claimable: its lease has run out, its delay is over.
CREATE FUNCTION pg_temp.due(INOUT id bigint) LANGUAGE plpgsql AS
$$
BEGIN
	UPDATE pgqrs_messages SET visible_after = clock_timestamp() - interval '1 s' WHERE message_id = id
		RETURNING message_id INTO id;
END
$$;

-- Claims a message, which becomes the first of its priority for that, and
-- returns its lease.
CREATE FUNCTION pg_temp.claim(id bigint) RETURNS bigint LANGUAGE plpgsql AS
$$
DECLARE
	d record;
BEGIN
	UPDATE pgqrs_messages SET visible_after = '2000-01-01' WHERE message_id = id;
	SELECT q.* INTO d FROM pgqrs_messages m JOIN pgqrs_queues USING (queue_id), pgqrs_dequeue(name) q
		WHERE m.message_id = id;
	IF d.message_id IS DISTINCT FROM id THEN
		RAISE 'claimed % instead of %', d.message_id, id;
	END IF;
	RETURN d.lease;
END
$$;

-- Sends a message and claims it.
CREATE FUNCTION pg_temp.held(queue text, OUT id bigint, OUT lease bigint) LANGUAGE plpgsql AS
$$
BEGIN
	id := pgqrs_enqueue(queue, '"held"');
	lease := pg_temp.claim(id);
END
$$;

-- Where a message is: live or held with attempt and failures, or its outcome.
CREATE FUNCTION pg_temp.state(id bigint) RETURNS text LANGUAGE sql AS
$$
	SELECT coalesce(
		(SELECT concat_ws(' ', CASE WHEN lease IS NULL THEN 'live' ELSE 'held' END, attempt, failures)
			FROM pgqrs_messages WHERE message_id = id),
		(SELECT concat_ws(' ', outcome, attempt, failures) FROM pgqrs_archive WHERE message_id = id),
		'gone')
$$;

-- How long from now, in seconds, until a message can be claimed.
CREATE FUNCTION pg_temp.wait(id bigint) RETURNS numeric LANGUAGE sql AS
$$ SELECT extract(epoch FROM visible_after - clock_timestamp()) FROM pgqrs_messages WHERE message_id = id $$;

-- What a queue delivers, one call for each message, in order.
CREATE FUNCTION pg_temp.drain(name text) RETURNS jsonb LANGUAGE plpgsql AS
$$
DECLARE
	result jsonb := '[]';
	d record;
BEGIN
	LOOP
		SELECT * INTO d FROM pgqrs_dequeue(name);
		EXIT WHEN NOT FOUND;
		result := result || jsonb_build_array(d.payload);
		PERFORM pgqrs_archive_message(d.message_id, d.lease);
	END LOOP;
	RETURN result;
END
$$;
