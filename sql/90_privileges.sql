-- Privileges.

CREATE FUNCTION pgqrs_grant(pattern text, role text, privilege text) RETURNS void
	LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
	AS 'MODULE_PATHNAME', 'pgqrs_grant';
COMMENT ON FUNCTION pgqrs_grant(text, text, text) IS
'allows a role (or public) to trigger, work or admin on the queues and workflows that a pattern matches, also later ones; gives it EXECUTE on the functions needed, SELECT on the views and USAGE on the schema; only the extension''s owner and superusers; 42704: no such role, 22023: no such privilege';

CREATE FUNCTION pgqrs_revoke(pattern text, role text, privilege text) RETURNS void
	LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
	AS 'MODULE_PATHNAME', 'pgqrs_revoke';
COMMENT ON FUNCTION pgqrs_revoke(text, text, text) IS
'takes back exactly what pgqrs_grant() gave with the same arguments, and EXECUTE and SELECT where no other grant to the role needs them, but not USAGE on the schema; also for a role that was dropped; a NOTICE if it was not granted; only the extension''s owner and superusers';

CREATE FUNCTION pgqrs_sync_grants() RETURNS void
	LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
	AS 'MODULE_PATHNAME', 'pgqrs_sync_grants';
COMMENT ON FUNCTION pgqrs_sync_grants() IS
'gives every role that pgqrs_grant() named the rights on functions and views that it needs, and takes back those it does not: after a restore without them, or an upgrade; only the extension''s owner and superusers';

CREATE FUNCTION pgqrs_function_privileges(function text) RETURNS text[]
	LANGUAGE c STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
	AS 'MODULE_PATHNAME', 'pgqrs_function_privileges';
COMMENT ON FUNCTION pgqrs_function_privileges(text) IS
'the privileges of which one is enough to call a function of the extension; none: only its owner may; NULL: not a function of the extension';

-- Nothing is for everybody.  Only what belongs to the extension: its schema
-- may hold other things.
DO $$
DECLARE
	object record;
BEGIN
	FOR object IN
		SELECT CASE d.classid
				WHEN 'pg_catalog.pg_proc'::pg_catalog.regclass
				THEN 'ROUTINE ' || d.objid::pg_catalog.regprocedure::pg_catalog.text
				ELSE CASE c.relkind WHEN 'S' THEN 'SEQUENCE ' ELSE 'TABLE ' END ||
					d.objid::pg_catalog.regclass::pg_catalog.text
			END AS name
			FROM pg_catalog.pg_depend AS d
				LEFT JOIN pg_catalog.pg_class AS c
					ON d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND c.oid = d.objid
			WHERE d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass
				AND d.refobjid = (SELECT e.oid FROM pg_catalog.pg_extension AS e WHERE e.extname = 'pgqrs')
				AND d.deptype = 'e'
				AND (d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass OR c.relkind IN ('r', 'v', 'S'))
	LOOP
		EXECUTE 'REVOKE ALL ON ' || object.name || ' FROM PUBLIC';
	END LOOP;
END
$$;
