-- What the tests of runs and steps share.
\ir refusals.sql

-- The SQLSTATE and DETAIL of a query that is refused, or its first column;
-- nothing of it stays.
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
	RETURN CASE state WHEN 'UNDO0' THEN coalesce(result, 'NULL') ELSE trim(state || ' ' || detail) END;
END
$$;

-- In plpgsql, so that the rest of a query sees what these write.
-- A run's message becomes claimable: its lease has run out, its delay or its
-- wait for a retry is over.
CREATE FUNCTION pg_temp.due(run bigint) RETURNS void LANGUAGE plpgsql AS
$$ BEGIN UPDATE pgqrs_messages SET visible_after = clock_timestamp() - interval '1 s' WHERE message_id = run; END $$;

-- A run's deadline has passed.
CREATE FUNCTION pg_temp.late(run bigint) RETURNS void LANGUAGE plpgsql AS
$$
BEGIN
	UPDATE pgqrs_messages SET deadline_at = clock_timestamp() - interval '1 s' WHERE message_id = run;
	UPDATE pgqrs_workflow_runs SET deadline_at = clock_timestamp() - interval '1 s' WHERE run_id = run;
END
$$;

-- Claims a run, which becomes the first in its queue for that, and returns its
-- lease.
CREATE FUNCTION pg_temp.claim(run bigint) RETURNS bigint LANGUAGE plpgsql AS
$$
DECLARE
	d record;
BEGIN
	UPDATE pgqrs_messages SET visible_after = '2000-01-01' WHERE message_id = run;
	SELECT q.* INTO d FROM pgqrs_messages m JOIN pgqrs_queues USING (queue_id), pgqrs_dequeue(name) q
		WHERE m.message_id = run;
	IF d.run_id IS DISTINCT FROM run THEN
		RAISE 'claimed % instead of %', d.run_id, run;
	END IF;
	RETURN d.lease;
END
$$;

-- Starts a run and claims it.
CREATE FUNCTION pg_temp.start(workflow text, OUT run bigint, OUT lease bigint) LANGUAGE plpgsql AS
$$
BEGIN
	run := pgqrs_trigger(workflow);
	lease := pg_temp.claim(run);
END
$$;
