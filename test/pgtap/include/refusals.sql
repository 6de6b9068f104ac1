-- What tests of calls that are refused share.
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

-- The same for many, before any of them is reported, since that writes.
CREATE FUNCTION pg_temp.refusals_of(VARIADIC calls text[]) RETURNS TABLE (call text, got text) LANGUAGE plpgsql AS
$$
BEGIN
	FOREACH call IN ARRAY calls LOOP
		got := pg_temp.refusal('SELECT ' || call);
		RETURN NEXT;
	END LOOP;
END
$$;

-- Everything that the functions write.
CREATE FUNCTION pg_temp.contents() RETURNS text LANGUAGE sql AS
$$
	SELECT md5(concat((SELECT jsonb_agg(m ORDER BY message_id) FROM pgqrs_messages m),
		(SELECT jsonb_agg(a ORDER BY message_id) FROM pgqrs_archive a),
		(SELECT jsonb_agg(q ORDER BY queue_id) FROM pgqrs_queues q),
		(SELECT jsonb_agg(w ORDER BY workflow_id) FROM pgqrs_workflows w),
		(SELECT jsonb_agg(r ORDER BY run_id) FROM pgqrs_workflow_runs r),
		(SELECT jsonb_agg(s ORDER BY run_id, step_id) FROM pgqrs_workflow_steps s),
		(SELECT jsonb_agg(s ORDER BY signal_id) FROM pgqrs_run_signals s)))
$$;

-- Removes what deleted queues have left, as the background worker does.
CREATE FUNCTION pg_temp.empty_deleted() RETURNS void LANGUAGE plpgsql AS
$$
BEGIN
	FOR i IN 1..1000 LOOP
		EXIT WHEN NOT EXISTS (SELECT FROM pgqrs_queues WHERE deleted_at IS NOT NULL);
		PERFORM pgqrs_maintain();
	END LOOP;
END
$$;
