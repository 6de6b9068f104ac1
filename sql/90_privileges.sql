-- Privileges.

CREATE FUNCTION @extschema@.pgqrs_grant(pattern text, role text, privilege text) RETURNS void
	LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
	AS 'MODULE_PATHNAME', 'sql_grant';
COMMENT ON FUNCTION @extschema@.pgqrs_grant(text, text, text) IS
'allows a role (or public) to monitor, read, trigger, work or admin on the queues and workflows that a pattern matches, also later ones; grants the role EXECUTE on the needed functions, SELECT on the views and USAGE on the schema; only the extension''s owner and superusers; 42704: no such role, 22023: no such privilege';

CREATE FUNCTION @extschema@.pgqrs_revoke(pattern text, role text, privilege text) RETURNS void
	LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
	AS 'MODULE_PATHNAME', 'sql_revoke';
COMMENT ON FUNCTION @extschema@.pgqrs_revoke(text, text, text) IS
'revokes the privilege that pgqrs_grant() gave with the same arguments, and EXECUTE and SELECT that no other grant to the role needs, but not USAGE on the schema; also for a dropped role; a NOTICE if it was not granted; only the extension''s owner and superusers. Errors: 22023, 42704 no such role.';

CREATE FUNCTION @extschema@.pgqrs_sync_grants() RETURNS void
	LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
	AS 'MODULE_PATHNAME', 'sql_sync_grants';
COMMENT ON FUNCTION @extschema@.pgqrs_sync_grants() IS
'grants each role of pgqrs_grant() the rights on functions and views that it needs, and revokes all other rights on the tables, views, sequences, functions and types from all roles but the owner, such as those of ALTER DEFAULT PRIVILEGES: after a restore without privileges, or an upgrade; only the extension''s owner and superusers';

CREATE FUNCTION @extschema@.pgqrs_function_privileges(function text) RETURNS text[]
	LANGUAGE c STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
	AS 'MODULE_PATHNAME', 'sql_function_privileges';
COMMENT ON FUNCTION @extschema@.pgqrs_function_privileges(text) IS
'the privileges any of which permits calling a function of the extension; empty: only the owner may; NULL: not a function of the extension';

-- Only the owner may use the objects of the extension, until pgqrs_grant(): other
-- roles may not, not even those that ALTER DEFAULT PRIVILEGES names.  PUBLIC keeps
-- USAGE on types, which gives access to no row.
DO $$
DECLARE
	entry record;
BEGIN
	FOR entry IN
		SELECT DISTINCT o.kind, o.name, a.grantee, r.rolname
		FROM pg_catalog.pg_depend AS d
			CROSS JOIN LATERAL (
				SELECT CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind, c.oid::pg_catalog.regclass::pg_catalog.text AS name,
					c.relowner AS owner, c.relacl AS acl
				FROM pg_catalog.pg_class AS c
				WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND c.oid = d.objid AND c.relkind IN ('r', 'v', 'S')
				UNION ALL
				SELECT 'ROUTINE', p.oid::pg_catalog.regprocedure::pg_catalog.text,
					p.proowner, COALESCE(p.proacl, pg_catalog.acldefault('f', p.proowner))
				FROM pg_catalog.pg_proc AS p
				WHERE d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND p.oid = d.objid
				UNION ALL
				SELECT 'TYPE', t.oid::pg_catalog.regtype::pg_catalog.text, t.typowner, t.typacl
				FROM pg_catalog.pg_type AS t
				WHERE d.classid = 'pg_catalog.pg_type'::pg_catalog.regclass AND t.oid = d.objid AND t.typtype IN ('c', 'e')
			) AS o
			CROSS JOIN LATERAL pg_catalog.aclexplode(o.acl) AS a
			LEFT JOIN pg_catalog.pg_roles AS r ON r.oid = a.grantee
		WHERE d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass
			AND d.refobjid = (SELECT e.oid FROM pg_catalog.pg_extension AS e WHERE e.extname = 'pgqrs')
			AND d.deptype = 'e'
			AND a.grantee <> o.owner
			AND NOT (o.kind = 'TYPE' AND a.grantee = 0)
	LOOP
		EXECUTE pg_catalog.format('REVOKE ALL ON %s %s FROM %s CASCADE', entry.kind, entry.name,
			CASE WHEN entry.grantee = 0 THEN 'PUBLIC' ELSE pg_catalog.quote_ident(entry.rolname) END);
	END LOOP;
END
$$;
