-- What the tests of runs and steps share.
SET client_min_messages = error;

-- The SQLSTATE of a query that is refused; whether the refusal lacks a HINT,
-- and whether it came after something was written or locked.  Called by
-- itself, outside of a transaction block.
CREATE FUNCTION pg_temp.refusal(query text) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	state text;
	hint text;
BEGIN
	BEGIN
		EXECUTE query;
		RETURN 'accepted';
	EXCEPTION WHEN OTHERS THEN
		GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, hint = PG_EXCEPTION_HINT;
	END;
	RETURN concat_ws(' ', state, CASE WHEN hint = '' THEN 'without a hint' END,
		CASE WHEN pg_current_xact_id_if_assigned() IS NOT NULL THEN 'after a write' END);
END
$$;

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

-- Everything that triggers and workers write.
CREATE FUNCTION pg_temp.contents() RETURNS text LANGUAGE sql AS
$$
	SELECT md5(concat((SELECT jsonb_agg(m ORDER BY message_id) FROM pgqrs_messages m),
		(SELECT jsonb_agg(a ORDER BY message_id) FROM pgqrs_archive a),
		(SELECT jsonb_agg(q ORDER BY queue_id) FROM pgqrs_queues q),
		(SELECT jsonb_agg(w ORDER BY workflow_id) FROM pgqrs_workflows w),
		(SELECT jsonb_agg(r ORDER BY run_id) FROM pgqrs_workflow_runs r),
		(SELECT jsonb_agg(s ORDER BY run_id, step_id) FROM pgqrs_workflow_steps s)))
$$;

-- A run's message becomes claimable: its lease has run out, its delay or its
-- wait for a retry is over.
CREATE FUNCTION pg_temp.due(run bigint) RETURNS void LANGUAGE sql AS
$$ UPDATE pgqrs_messages SET visible_after = clock_timestamp() - interval '1 s' WHERE message_id = run $$;

-- A run's deadline has passed.
CREATE FUNCTION pg_temp.late(run bigint) RETURNS void LANGUAGE sql AS
$$
	UPDATE pgqrs_messages SET deadline_at = clock_timestamp() - interval '1 s' WHERE message_id = run;
	UPDATE pgqrs_workflow_runs SET deadline_at = clock_timestamp() - interval '1 s' WHERE run_id = run;
$$;

-- Claims a run, which becomes the first in its queue for that, and returns its
-- lease.
CREATE FUNCTION pg_temp.claim(run bigint) RETURNS bigint LANGUAGE plpgsql AS
$$
DECLARE
	d record;
BEGIN
	UPDATE pgqrs_messages SET visible_after = '2000-01-01' WHERE message_id = run;
	SELECT q.* INTO d FROM pgqrs_messages m JOIN pgqrs_queues USING (queue_id), pgqrs_dequeue(name) q WHERE m.message_id = run;
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
