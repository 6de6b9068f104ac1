-- The readable surface: a change of it shows here.  Definitions are no promise,
-- and versions of PostgreSQL print them differently.
\pset format unaligned
\pset tuples_only on

SELECT CASE a.attnum WHEN 1 THEN E'\n' || a.attrelid::regclass || E'\n' ELSE '' END
		|| format('%s %s: %s', a.attname, format_type(a.atttypid, a.atttypmod), col_description(a.attrelid, a.attnum))
	FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
	WHERE c.relkind IN ('v', 'c') AND a.attnum > 0 AND NOT a.attisdropped
		AND EXISTS (SELECT FROM pg_depend AS d WHERE d.deptype = 'e' AND d.objid IN (c.oid, c.reltype))
	ORDER BY c.relkind DESC, c.relname COLLATE "C", a.attnum;

SELECT format('%s %s: %s', c.oid::regclass, c.reloptions, obj_description(c.oid, 'pg_class'))
	FROM pg_class AS c JOIN pg_depend AS d ON d.objid = c.oid AND d.classid = 'pg_class'::regclass
	WHERE d.deptype = 'e' AND d.refclassid = 'pg_extension'::regclass AND c.relkind = 'v'
	ORDER BY c.relname COLLATE "C";

-- no view shows a lease
SELECT attrelid::regclass, attname FROM pg_attribute
	WHERE attrelid IN (SELECT objid FROM pg_depend WHERE deptype = 'e')
		AND attrelid IN (SELECT oid FROM pg_class WHERE relkind IN ('v', 'c'))
		AND attname ~ 'lease' AND attname <> 'lease_end' ORDER BY 1, 2;
