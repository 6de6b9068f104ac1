-- F42: hostile names and a hostile search_path.  Every function that takes a
-- name, for names that quoting, arrays, patterns, formats and encodings might
-- trip over, called while a schema earlier in search_path shadows the
-- extension's objects and what they are made of.
-- F-numbers: docs/design/known-failures.md.
SELECT * FROM no_plan();
SET client_min_messages = error;

--
-- The trap: whatever resolves a name by search_path ends up here.
--

CREATE SCHEMA evil;
CREATE FUNCTION evil.caught() RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'search_path was used';
	END $$;
CREATE TABLE evil.trap (name text DEFAULT evil.caught());

-- tables, views, sequences and types of the extension
SELECT format('CREATE VIEW evil.%I AS SELECT evil.caught() AS name', relname) FROM pg_class
	WHERE relname LIKE 'pgqrs%' AND relkind IN ('r', 'v', 'S', 'i', 'c')
		AND relnamespace = 'public'::regnamespace \gexec
SELECT format('CREATE TYPE evil.%I AS ENUM (''evil'')', typname) FROM pg_type
	WHERE typname LIKE 'pgqrs%' AND typtype = 'e' AND typnamespace = 'public'::regnamespace \gexec

-- its functions
SELECT format('CREATE FUNCTION evil.%I(%s) RETURNS text LANGUAGE sql AS $f$ SELECT evil.caught() $f$', proname,
	pg_get_function_identity_arguments(oid))
	FROM pg_proc WHERE proname LIKE 'pgqrs%' AND pronamespace = 'public'::regnamespace AND prokind = 'f'
		AND NOT proretset
		AND pg_get_function_identity_arguments(oid) !~ 'OUT' \gexec

-- operators and functions that SQL would use
CREATE FUNCTION evil.op(text, text) RETURNS boolean LANGUAGE sql AS $$ SELECT evil.caught() IS NULL $$;
CREATE FUNCTION evil.op(bigint, bigint) RETURNS boolean LANGUAGE sql AS $$ SELECT evil.caught() IS NULL $$;
CREATE FUNCTION evil.op(integer, integer) RETURNS boolean LANGUAGE sql AS $$ SELECT evil.caught() IS NULL $$;
CREATE FUNCTION evil.op(timestamptz, timestamptz) RETURNS boolean LANGUAGE sql AS $$ SELECT evil.caught() IS NULL $$;
CREATE FUNCTION evil.op(jsonb, jsonb) RETURNS boolean LANGUAGE sql AS $$ SELECT evil.caught() IS NULL $$;
SELECT format('CREATE OPERATOR evil.%s (FUNCTION = evil.op, LEFTARG = %2$s, RIGHTARG = %2$s)', operator, type)
	FROM unnest(ARRAY['=', '<>', '<', '>', '<=', '>=', '||', '-', '+', '@>']) AS operator,
		unnest(ARRAY['text', 'bigint', 'integer', 'timestamptz', 'jsonb']) AS type \gexec
SELECT format('CREATE FUNCTION evil.%s RETURNS text LANGUAGE sql AS $f$ SELECT evil.caught() $f$', signature)
	FROM unnest(ARRAY['now()', 'clock_timestamp()', 'count(bigint)', 'unnest(text[])', 'coalesce_(text)',
		'jsonb_build_object(text, bigint)', 'to_jsonb(text)',
		'current_setting(text)', 'length(text)', 'lower(text)', 'format(text, text)', 'greatest_(bigint)',
			'nextval(regclass)']) AS signature \gexec
CREATE DOMAIN evil.text AS pg_catalog.text CHECK (evil.caught() IS NULL);
CREATE DOMAIN evil.int8 AS pg_catalog.int8 CHECK (evil.caught() IS NULL);
CREATE DOMAIN evil.jsonb AS pg_catalog.jsonb CHECK (evil.caught() IS NULL);

-- Runs a query under that search_path and returns its only value, as text.
-- $1 in it is the name; the query itself is qualified, with "public" for the
-- extension's schema.
CREATE FUNCTION pg_temp.call(query text, name text) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	normal pg_catalog.text := current_setting('search_path');
	result pg_catalog.text;
BEGIN
	SELECT replace(query, 'public.', quote_ident(nspname) || '.') INTO query FROM pg_extension e
		JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'pgqrs';
	PERFORM pg_catalog.set_config('search_path', 'evil, pg_catalog, public', false);
	EXECUTE query INTO result USING name;
	PERFORM pg_catalog.set_config('search_path', normal, false);
	RETURN result;
END
$$;

SELECT throws_ok('SELECT pg_temp.call(''SELECT 1::bigint = 1::bigint'', '''')', 'P0001', 'search_path was used',
	'the trap on search_path catches operators');
SELECT throws_ok('SELECT pg_temp.call(''SELECT name FROM pgqrs_queues'', '''')', 'P0001', 'search_path was used',
	'the trap on search_path catches tables');
SELECT throws_ok('SELECT pg_temp.call(''SELECT pgqrs_version()'', '''')', 'P0001', 'search_path was used',
	'the trap on search_path catches functions');

--
-- Names
--

CREATE TEMP TABLE names (name text);
INSERT INTO names VALUES ('plain'), ('a"b'), ('a''b'), ('""'), (''''), (E'back\\slash'), ('$1'), ('$$'), ('$f$'),
	('%s%n%d'), ('%I'), ('; DROP TABLE pgqrs_queues; --'),
	('two words'), ('{}'), ('{a,b}'), ('"{"'), ('NULL'), ('null'), ('a,b'), ('.'), ('..'), ('a.'), ('.a'), ('a..b'),
		('a.b.c'), ('pgqrs'), ('PGQRS.x'), ('Pgqrs_queues'),
	('?'), ('_'), ('a%'), ('ünï.çødé'), ('日本語'), ('🐘.queue'), (U&'e\0301'), (U&'\00E9'), (U&'\FEFFbom'),
		(U&'\200Fright'), (U&'a\00A0b'), (U&'a\2003b'), (U&'\00A1'), (U&'\200Bnothing'), (repeat('n', 255)),
	(repeat('日', 85)), (repeat('é', 127) || 'x'), (repeat('a.', 127) || 'z');
SELECT is((SELECT max(octet_length(name)) FROM names), 255, 'the names of this test have up to 255 bytes');

-- What is no name, and no pattern's.
CREATE TEMP TABLE bad AS SELECT bad FROM unnest(ARRAY[U&'\00A0', U&'\00A0a', U&'a\00A0', U&'\2003a', U&'a\2000',
	U&'a\200A', U&'\1680a', U&'a\2028', U&'a\2029', U&'a\202F', U&'\205Fa', U&'a\3000',
		' a', 'a ', U&'a\0080b', U&'\0085', U&'a\009F', E'a\tb', E'a\x7f']) bad;
SELECT throws_ok(format('SELECT pgqrs_create_queue(%L)', bad), '22023', NULL, 'the name of a queue is refused: '
	|| quote_literal(bad)) FROM bad;
SELECT throws_ok(format('SELECT pgqrs_register_worker(''w'', ARRAY[%L || ''.*''])', bad), '22023', NULL,
	'the name in a pattern is refused: ' || quote_literal(bad)) FROM bad;
SELECT throws_ok(format('SELECT pgqrs_register_worker(%L, ''{*}'')', bad), '22023', NULL,
	'a worker''s name with a control character is refused: ' || quote_literal(bad))
	FROM unnest(ARRAY[U&'a\0080b', U&'\0085', U&'a\009F', E'a\tb']) bad;
SELECT lives_ok(format('SELECT pgqrs_register_worker(%L, ''{*}'')', key), 'a worker''s name with blanks is accepted: '
	|| quote_literal(key)) FROM unnest(ARRAY[' a ', U&'\00A0']) key;
DELETE FROM pgqrs_workers;

-- The hint fits what is wrong.
CREATE FUNCTION pg_temp.hint(query text) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	said text;
BEGIN
	EXECUTE query;
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS said = PG_EXCEPTION_HINT;
	RETURN said;
END
$$;
SELECT matches(pg_temp.hint(query), hint, 'the hint fits the name: ' || query) FROM (VALUES
	('SELECT pgqrs_create_queue(''a*'')', '^Use 1 to 255 bytes'), ('SELECT pgqrs_create_queue('' a'')',
		'^Use 1 to 255 bytes'),
	('SELECT pgqrs_create_queue(''pgqrs.a'')', '^Use another name'),
		('SELECT pgqrs_register_worker(''w'', ''{pgqrs.a.*}'')', '^Use another name'),
	('SELECT pgqrs_dequeue(''a*'')', '^Use a name, or a name followed by'), ('SELECT pgqrs_dequeue(''*.a'')',
		'^Use a name, or a name followed by'),
	('SELECT pgqrs_register_worker(''w'', ''{a.*.b}'')', '^Use a name, or a name followed by'),
		('SELECT pgqrs_list_runs(''a.**'')', '^Use a name, or a name followed by'),
	('SELECT pgqrs_grant(''.*.*'', ''public'', ''work'')', '^Use a name, or a name followed by')) q (query, hint);

-- A queue's whole life.
CREATE FUNCTION pg_temp.queue_life(name text) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	log text;
	held text[];
BEGIN
	log := concat_ws(' ',
		pg_temp.call('SELECT public.pgqrs_create_queue($1, max_attempts => 2) IS NOT NULL', name),
		pg_temp.call('SELECT public.pgqrs_create_queue(queue => $1) IS NOT NULL', name),
		pg_temp.call('SELECT public.pgqrs_enqueue($1, ''1'', idempotency_key => $1, headers => '
			'pg_catalog.jsonb_build_object($1, $1)) IS NOT NULL', name),
		pg_temp.call('SELECT pg_catalog.cardinality(public.pgqrs_enqueue_batch($1, ''{2,3,4}''))', name),
		pg_temp.call('SELECT public.pgqrs_alter_queue($1, visibility_timeout => ''1 h'')', name),
		pg_temp.call('SELECT public.pgqrs_pause_queue($1)', name),
		pg_temp.call('SELECT public.pgqrs_resume_queue($1)', name),
		pg_temp.call('SELECT pg_catalog.count(*) FROM public.pgqrs_peek($1)', name),
		pg_temp.call('SELECT public.pgqrs_register_worker($1, ARRAY[$1], hostname => $1, version => $1) IS NOT NULL',
			name));
	log := concat_ws(' ', log,
		pg_temp.call('SELECT payload FROM public.pgqrs_dequeue($1)', name),
		pg_temp.call(format('SELECT queue FROM public.pgqrs_dequeue(worker_id => %s)', (SELECT worker_id
			FROM pgqrs_workers w WHERE w.name = $1)), name) = name);
	SELECT array_agg(format('%s, %s', message_id, lease) ORDER BY message_id) INTO held FROM pgqrs_messages
		WHERE lease IS NOT NULL;
	log := concat_ws(' ', log,
		pg_temp.call(format('SELECT public.pgqrs_archive_message(%s)', held[1]), name),
		pg_temp.call(format('SELECT public.pgqrs_nack_message(%s) IS NOT NULL', held[2]), name));
	UPDATE pgqrs_messages SET failures = 1;
	held[3] := (SELECT format('%s, %s', message_id, lease) FROM pgqrs_dequeue(name));
	log := concat_ws(' ', log,
		pg_temp.call(format('SELECT public.pgqrs_nack_message(%s) IS NULL', held[3]), name));
	log := concat_ws(' ', log,
		pg_temp.call('SELECT public.pgqrs_replay_queue($1)', name),
		pg_temp.call('SELECT public.pgqrs_purge_dead_letters($1, ''0'')', name),
		pg_temp.call(format('SELECT queue FROM public.pgqrs_queue_stats WHERE queue OPERATOR(pg_catalog.=) %L', name),
			name) = name,
		pg_temp.call('SELECT public.pgqrs_grant($1, ''public'', ''admin'')', name),
		pg_temp.call('SELECT public.pgqrs_revoke($1, ''public'', ''admin'')', name),
		pg_temp.call('SELECT public.pgqrs_purge_queue($1)', name),
		pg_temp.call(format('SELECT public.pgqrs_stop_worker(%s)', (SELECT worker_id FROM pgqrs_workers w
			WHERE w.name = $1)), name),
		pg_temp.call('SELECT public.pgqrs_delete_queue($1, force => true)', name));
	PERFORM pgqrs_maintain();
	RETURN concat_ws(' ', log,
		(SELECT count(*) FROM pgqrs_queues WHERE deleted_at IS NULL)
			+ (SELECT count(*) FROM pgqrs_messages) + (SELECT count(*) FROM pgqrs_archive));
END
$$;

-- A workflow's.
CREATE FUNCTION pg_temp.workflow_life(name text) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	log text;
	held record;
BEGIN
	log := concat_ws(' ',
		pg_temp.call('SELECT public.pgqrs_create_workflow($1, non_retryable => ARRAY[$1]) IS NOT NULL', name),
		pg_temp.call('SELECT public.pgqrs_alter_workflow($1, jitter => 0)', name),
		pg_temp.call('SELECT public.pgqrs_trigger($1, pg_catalog.to_jsonb($1), idempotency_key => $1, tags => '
			'pg_catalog.jsonb_build_object($1, $1)) IS NOT NULL', name),
		pg_temp.call('SELECT pg_catalog.cardinality(public.pgqrs_trigger_batch($1, ''{2,3}'', ARRAY[NULL, $1]))',
			name));
	SELECT run_id, lease, workflow = name AND queue = name AND input = to_jsonb(name) AS is_it INTO held
		FROM pgqrs_dequeue(name);
	log := concat_ws(' ', log, held.is_it,
		pg_temp.call(format('SELECT should_execute FROM public.pgqrs_step_begin(%s, %s, $1)', held.run_id,
			held.lease), name),
		pg_temp.call(format('SELECT outcome FROM public.pgqrs_step_fail(%s, %s, $1, ''{"type": "x"}'', retry_after '
			'=> ''0 s'')', held.run_id, held.lease), name));
	SELECT run_id, lease INTO held FROM pgqrs_dequeue(name) WHERE run_id = held.run_id;
	IF NOT FOUND THEN
		SELECT run_id, lease INTO held FROM pgqrs_dequeue(name);
	END IF;
	log := concat_ws(' ', log,
		pg_temp.call(format('SELECT should_execute FROM public.pgqrs_step_begin(%s, %s, $1)', held.run_id,
			held.lease), name),
		pg_temp.call(format('SELECT public.pgqrs_step_complete(%s, %s, $1, pg_catalog.to_jsonb($1))', held.run_id,
			held.lease), name),
		pg_temp.call(format('SELECT step_id FROM public.pgqrs_list_steps(%s)', held.run_id), name) = name,
		pg_temp.call(format('SELECT public.pgqrs_set_progress(%s, %s, pg_catalog.to_jsonb($1))', held.run_id,
			held.lease), name),
		pg_temp.call(format('SELECT public.pgqrs_complete_run(%s, %s, pg_catalog.to_jsonb($1))', held.run_id,
			held.lease), name),
		pg_temp.call(format('SELECT output FROM public.pgqrs_result(%s)', held.run_id), name)::jsonb = to_jsonb(name),
		pg_temp.call('SELECT public.pgqrs_find_run($1, $1) IS NOT NULL', name),
		pg_temp.call(format('SELECT workflow FROM public.pgqrs_get_run(%s)', held.run_id), name) = name,
		pg_temp.call('SELECT pg_catalog.count(*) FROM public.pgqrs_list_runs($1)', name),
		pg_temp.call('SELECT pg_catalog.count(*) FROM public.pgqrs_list_runs($1, ''SUCCESS'', tags => '
			'pg_catalog.jsonb_build_object($1, $1))', name),
		pg_temp.call('SELECT public.pgqrs_purge_queue($1)', name),
		pg_temp.call('SELECT public.pgqrs_delete_workflow($1, force => true)', name));
	PERFORM pgqrs_maintain();
	RETURN concat_ws(' ', log,
		(SELECT count(*) FROM pgqrs_queues WHERE deleted_at IS NULL)
			+ (SELECT count(*) FROM pgqrs_workflow_runs)
			+ (SELECT count(*) FROM pgqrs_workflow_steps) + (SELECT count(*) FROM pgqrs_messages) + (SELECT count(*)
				FROM pgqrs_archive));
END
$$;

\set queue_answers 'true true true 3    4 true 1 t true true true 1 0 t   3 0 true 0'
\set workflow_answers 'true  true 2 t true RETRY true true t  true t true t 2 1 0 true 0'
SELECT is(pg_temp.queue_life(name), :'queue_answers', 'every call works on the queue ' || left(name, 30)) FROM names;
SELECT is(pg_temp.workflow_life(name), :'workflow_answers', 'every call works on the workflow ' || left(name, 30))
	FROM names;

-- Names that look alike are not the same, and all can be there at once.
SELECT is(count(DISTINCT pgqrs_create_queue(name)), count(DISTINCT name),
	'names that look alike are different queues') FROM names;
SELECT is(count(*), (SELECT count(*) FROM names), 'the statistics show each name') FROM pgqrs_queue_stats
	JOIN names ON queue = name;
SELECT bag_eq('SELECT name FROM pgqrs_queues WHERE deleted_at IS NULL', 'SELECT name FROM names',
	'the table has each name as it was given');
SELECT count(pgqrs_enqueue(name, to_jsonb(name))) FROM names;
SELECT is(count(*) FILTER (WHERE payload = to_jsonb(queue)), (SELECT count(*) FROM names),
	'a claim by one pattern returns the message of each queue') FROM pgqrs_dequeue('*', batch_size => 1000);
SELECT count(pgqrs_enqueue(name, '1')) FROM names;
SELECT is(array_agg(queue ORDER BY queue COLLATE "C"), (SELECT array_agg(name ORDER BY name COLLATE "C") FROM names
	WHERE starts_with(name, 'a.')),
	'a pattern claims from the queues whose names begin with it') FROM pgqrs_dequeue('a.*', batch_size => 1000);
SELECT count(pgqrs_delete_queue(name, true)) FROM names;

-- A schema of the extension's own, with any name but one in which a script cannot
-- quote itself: PostgreSQL refuses those, and nothing is left of the attempt.  Of
-- comments and line breaks only some versions think so; to the others they are names.
DROP EXTENSION pgqrs;
CREATE FUNCTION pg_temp.install(schema text) RETURNS void LANGUAGE plpgsql AS
$$
BEGIN
	EXECUTE format('CREATE SCHEMA %I', schema);
	EXECUTE format('CREATE EXTENSION pgqrs SCHEMA %I', schema);
END
$$;
CREATE FUNCTION pg_temp.try_install(schema text) RETURNS text LANGUAGE plpgsql AS
$$
BEGIN
	PERFORM pg_temp.install(schema);
	RAISE EXCEPTION USING ERRCODE = 'UNDO0';
EXCEPTION WHEN OTHERS THEN
	RETURN CASE SQLSTATE WHEN 'UNDO0' THEN 'installs' ELSE SQLSTATE END;
END
$$;
SELECT is(pg_temp.try_install(schema), '22P02', 'the extension refuses the schema ' || schema)
	FROM unnest(ARRAY['a"b', 'a$b', 'a''b', 'a\b']) schema;
SELECT matches(pg_temp.try_install(schema), '^(22P02|installs)$',
	'the extension refuses or accepts the schema ' || schema)
	FROM unnest(ARRAY['a--b', '/*', '*/', E'a\nb']) schema;
SELECT is((SELECT count(*) FROM pg_proc WHERE proname LIKE 'pgqrs%' AND pronamespace <> 'evil'::regnamespace),
	0::bigint, 'a refused installation leaves no function');
SELECT lives_ok(format('SELECT pg_temp.install(%L)', 'A; b.c %s, é (d)'),
	'the extension accepts another odd name of a schema');
SET search_path = "A; b.c %s, é (d)", public;
SELECT is(pg_temp.queue_life(name), :'queue_answers', 'in another schema every call works on the queue ' || left(name,
	30)) FROM names WHERE name ~ '^(a["'']b|plain)$';
SELECT is(pg_temp.workflow_life(name), :'workflow_answers', 'in another schema every call works on the workflow '
	|| left(name, 30)) FROM names WHERE name ~ '^(a["'']b|plain)$';

SELECT * FROM finish();
