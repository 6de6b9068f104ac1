-- Everything that a user meets in \d and \df says what it is.
SELECT * FROM no_plan();

CREATE TEMP TABLE objects AS SELECT classid, objid FROM pg_depend
	WHERE refclassid = 'pg_extension'::regclass AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pgqrs')
		AND deptype = 'e';

SELECT is(obj_description(objid, classid::regclass::name) IS NOT NULL, true, pg_describe_object(classid, objid, 0)
	|| ' has a comment')
	FROM objects WHERE pg_describe_object(classid, objid, 0) !~ '^type [a-z_]+\[\]$|^type' OR EXISTS (SELECT
		FROM pg_type t WHERE t.oid = objid AND t.typtype IN ('e', 'd'));
SELECT is(col_description(objid, attnum) IS NOT NULL, true, format('column %s.%s has a comment', relname, attname))
	FROM objects JOIN pg_class c ON c.oid = objid JOIN pg_attribute a ON attrelid = objid
	WHERE classid = 'pg_class'::regclass AND relkind = 'v' AND attnum > 0 ORDER BY relname, attnum;
SELECT is(col_description(typrelid, attnum) IS NOT NULL, true, format('column %s.%s has a comment', typname, attname))
	FROM pg_type t JOIN pg_class c ON c.oid = typrelid JOIN pg_attribute a ON attrelid = typrelid
	WHERE typname = 'pgqrs_run' AND relkind = 'c' AND attnum > 0 ORDER BY attnum;

-- Too large a JSON value is PQ008 everywhere; errors, which are cut, and parts of the report are not meant.
SELECT is_empty($$
	SELECT p.oid::regprocedure FROM pg_depend AS d JOIN pg_proc AS p ON p.oid = d.objid, unnest(p.proargnames,
		p.proargtypes::oid[]) AS a (name, type)
	WHERE d.classid = 'pg_proc'::regclass AND d.deptype = 'e' AND d.refclassid = 'pg_extension'::regclass
		AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pgqrs')
		AND a.type IN ('jsonb'::regtype, 'jsonb[]'::regtype) AND a.name <> 'error' AND p.prokind = 'f'
		AND p.proname !~ '^pgqrs_(html|report)'
		AND coalesce(obj_description(p.oid, 'pg_proc'), '') !~ 'PQ008|[Ee]rrors as pgqrs_|those of pgqrs_'
$$, 'the comment of each function that takes JSON names PQ008');

SELECT * FROM finish();
