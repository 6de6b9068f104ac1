-- JSON values that are too large, progress, and errors, which are never lost.
-- F-numbers: docs/design/known-failures.md.
\ir include/runs.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_workflow('job', non_retryable => '{fatal}') \g /dev/null

-- A string that makes a value of so many bytes.
CREATE FUNCTION pg_temp.sized(bytes int) RETURNS jsonb LANGUAGE sql AS
$$ SELECT to_jsonb(repeat('x', bytes - 12)) $$;
SELECT is(pg_column_size(pg_temp.sized(b)), b, 'the value of the test has ' || b || ' bytes')
	FROM unnest('{2000,2097152}'::int[]) b;

-- At the limit, and one byte over it.
SELECT * FROM pg_temp.start('job') \gset
CREATE TEMP TABLE calls (call text);
INSERT INTO calls VALUES ('pgqrs_trigger(''job'', pg_temp.sized(%3$s))'),
	('pgqrs_trigger(''job'', tags => pg_temp.sized(%3$s))'),
	('pgqrs_trigger(''job'', headers => pg_temp.sized(%3$s))'),
	('pgqrs_trigger_batch(''job'', ARRAY[''1'', pg_temp.sized(%3$s)])'),
		('pgqrs_trigger_batch(''job'', ''{1}'', tags => pg_temp.sized(%3$s))'),
		('pgqrs_step_begin(%1$s, %2$s, ''a'', pg_temp.sized(%3$s))'),
	('pgqrs_step_complete(%1$s, %2$s, ''a'', pg_temp.sized(%3$s))'),
		('pgqrs_complete_run(%1$s, %2$s, pg_temp.sized(%3$s))'),
		('pgqrs_set_progress(%1$s, %2$s, pg_temp.sized(%3$s))');
SELECT is(left(pg_temp.answer(format('SELECT ' || call, :run, :lease, 2097152)), 5) ~ '^PQ|^22', false,
	'a value of the largest size is accepted by ' || call) FROM calls;
SELECT pg_temp.contents() AS contents \gset
SELECT format('SELECT is(pg_temp.refusal(%L), ''PQ008'', %L)', format('SELECT ' || call, :run, :lease, 2097153),
	'a value one byte too large is refused by ' || call) FROM calls \gexec
SELECT is(pg_temp.refusal('SELECT pgqrs_trigger(''job'', retry_policy => jsonb_build_object(''non_retryable'', '
	'jsonb_build_array(repeat(''x'', 3000000))))'), 'PQ008', 'a retry policy that is too large is refused');
SELECT is(pg_temp.contents(), :'contents', 'refused values leave every table unchanged');
SELECT is(pg_temp.answer(format('SELECT pgqrs_step_complete(%s, %s, ''a'', pg_temp.sized(3000000))', :run,
	:lease + 1)), 'PQ008 It has 3000000 bytes; pgqrs.payload_max allows 2097152.',
	'the size of a value is checked before the lease');

-- What is compressed in a table counts with its whole size.
CREATE TABLE compressed AS SELECT pg_temp.sized(3000000) AS value;
SELECT cmp_ok(pg_column_size(value), '<', 100000, 'the value is small in its table') FROM compressed;
SELECT is(left(pg_temp.answer('SELECT pgqrs_trigger(''job'', value) FROM compressed'), 5), 'PQ008',
	'a value that is small in its table counts with its whole size');

-- JSON of as many levels as PostgreSQL just takes could not be put into the
-- event, the history or the result that its run's end makes of it.  Each
-- argument of each function refuses it, before it looks at anything else; an
-- error is truncated instead.
CREATE FUNCTION pg_temp.nested(levels int, inside text = '1') RETURNS jsonb LANGUAGE sql AS
$$ SELECT (repeat('[', levels) || inside || repeat(']', levels))::jsonb $$;
CREATE TEMP VIEW arguments AS
	SELECT p.oid, i AS n, p.proargnames[i] AS name, format_type(p.proargtypes[i - 1], NULL) AS type,
		i > p.pronargs - p.pronargdefaults AS defaulted
	FROM pg_proc p, generate_series(1, p.pronargs) i WHERE p.proname LIKE 'pgqrs%';
-- Calls with a place, %1$s, for one of the arguments of a type or of arrays of it.
CREATE FUNCTION pg_temp.calls_with(of_type text) RETURNS TABLE (proname name, name text, prokind "char", list text)
	LANGUAGE sql AS
$$
	SELECT p.proname, a.name, p.prokind, (SELECT string_agg(format('%I => %s', b.name,
			CASE WHEN b.n = a.n THEN CASE WHEN b.type LIKE '%[]' THEN 'ARRAY[''1'', %1$s]' ELSE '%1$s' END
				WHEN b.type = 'text' THEN quote_literal('job') WHEN b.type = 'jsonb' THEN quote_literal('1')
				ELSE format('%L::%s', CASE WHEN b.type LIKE '%[]' THEN '{1,2}' ELSE '1' END, b.type) END), ', ')
			FROM arguments b WHERE b.oid = p.oid AND (b.n = a.n OR NOT b.defaulted
				OR p.proname = 'pgqrs_next' AND b.name IN ('queue', 'done_ids', 'done_leases')))
	FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
		JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'pgqrs'
		JOIN arguments a ON a.oid = p.oid AND a.type IN (of_type, of_type || '[]')
	WHERE p.prolang = (SELECT oid FROM pg_language WHERE lanname = 'c')
$$;
-- What only shows a value takes any.
CREATE TEMP VIEW json_arguments AS SELECT * FROM pg_temp.calls_with('jsonb') WHERE proname NOT IN
	('pgqrs_html_json', 'pgqrs_html_size');
CREATE TEMP VIEW text_arguments AS SELECT * FROM pg_temp.calls_with('text');
SELECT cmp_ok(count(*), '>', 25::bigint, 'the functions have more than 25 arguments of JSON') FROM json_arguments;
SELECT format('SELECT is(pg_temp.refusal(%L), %L, %L)', format('SELECT %I(%s)', proname,
	format(list, 'pg_temp.nested(1001)')), '54000', format('%s refuses %s of 1,001 levels', proname, name))
	FROM json_arguments WHERE name <> 'error' AND prokind = 'f' \gexec
SELECT format('SELECT isnt(pg_temp.refusal(%L), %L, %L)', format('SELECT %I(%s)', proname,
	format(list, 'pg_temp.nested(1000)')), '54000', format('%s accepts %s of 1,000 levels', proname, name))
	FROM json_arguments WHERE name <> 'error' AND prokind = 'f' \gexec
SELECT is(pg_temp.refusal('SELECT pgqrs_trigger(''job'', pg_temp.nested(2, pg_temp.nested(999)::text || '', '' || '
	'pg_temp.nested(999)::text))'), '54000', 'the levels of every element of an array count');
SELECT is(left(pg_temp.answer('SELECT pgqrs_trigger(''job'', jsonb_build_object(''a'', repeat(''x'', 7), ''b'', '
	'pg_temp.nested(1000)))'), 5), '54000', 'the levels of the values of an object count');
SELECT isnt(left(pg_temp.answer('SELECT pgqrs_trigger(''job'', jsonb_build_object(''a'', repeat(''x'', 7), ''b'', '
	'pg_temp.nested(999)))'), 5), '54000', 'an object of one level fewer is accepted');

-- No text is without a limit either.
SELECT format('SELECT ok(pg_temp.refusal(%L) IN (''22023'', ''0A000'', ''PQ015''), %L)', format('SELECT %I(%s)',
	proname, format(list, 'repeat(''x'', 8193)')), format('%s refuses a %s of 8193 bytes', proname, name))
	FROM text_arguments WHERE prokind = 'f' \gexec

-- Progress: replaced, cleared, kept by the end.
SELECT pgqrs_set_progress(:run, :lease, '{"done": 1}');
SELECT is(progress, '{"done": 1}', 'progress is stored') FROM pgqrs_get_run(:run);
SELECT pgqrs_set_progress(:run, :lease, '"half"');
SELECT is(progress, '"half"', 'progress is replaced') FROM pgqrs_get_run(:run);
SELECT pgqrs_set_progress(:run, :lease, 'null');
SELECT is(progress, 'null', 'progress may be a JSON null') FROM pgqrs_get_run(:run);
SELECT pgqrs_set_progress(:run, :lease, NULL);
SELECT is(progress, NULL, 'progress is cleared by NULL') FROM pgqrs_get_run(:run);
SELECT pgqrs_set_progress(:run, :lease, '3');
SELECT pg_temp.claim(:run) AS lease \gset
SELECT is(progress, '3', 'progress stays after a crash') FROM pgqrs_get_run(:run);
SELECT pgqrs_complete_run(:run, :lease);
SELECT is(progress, '3', 'progress stays after the end of the run') FROM pgqrs_get_run(:run);
SELECT is(pg_temp.answer(format('SELECT pgqrs_set_progress(%s, %s, ''4'')', :run, :lease)),
	'PQ007 The status is SUCCESS.',
	'progress of an ended run cannot be changed');

-- Errors that fit are stored as they are.
CREATE FUNCTION pg_temp.failed(error jsonb, how text = 'fail_run') RETURNS jsonb LANGUAGE plpgsql AS
$$
DECLARE
	run bigint := pgqrs_trigger('job');
	lease bigint := pg_temp.claim(run);
BEGIN
	IF how = 'fail_run' THEN
		PERFORM pgqrs_fail_run(run, lease, error);
	ELSE
		PERFORM pgqrs_step_fail(run, lease, 's', error, retryable => false);
	END IF;
	RETURN (SELECT jsonb_build_object('run', r.error, 'letter', a.last_error, 'step', s.error, 'history',
		s.history->0->'error')
		FROM pgqrs_workflow_runs r JOIN pgqrs_archive a USING (run_id) LEFT JOIN pgqrs_workflow_steps s USING (run_id)
			WHERE r.run_id = run);
END
$$;
SELECT is(pg_temp.failed(e), jsonb_build_object('run', e, 'letter', e, 'step', NULL, 'history', NULL),
	'pgqrs_fail_run() stores the error as it is: ' || left(e::text, 40))
	FROM unnest(ARRAY['{"type": "x", "n": [1]}', '"text"', '[]', '1', 'true', 'null', '{}',
	pg_temp.sized(2097152)]::jsonb[]) e;
SELECT is(pg_temp.failed(e, 'step'), jsonb_build_object('run', e, 'letter', e, 'step', e, 'history', e),
	'pgqrs_step_fail() stores the error as it is: ' || left(e::text, 40))
	FROM unnest(ARRAY['{"type": "x", "n": [1]}', '"text"', '[]', '1', 'true', 'null', '{}',
	pg_temp.sized(2097152)]::jsonb[]) e;

-- Oversized ones are truncated and marked, not refused.
SELECT is(jsonb_object_agg(place, e.truncated ORDER BY place), jsonb_build_object('run', true, 'letter', true, 'step',
	true, 'history', true), 'an error that is too large is marked as truncated wherever it is stored')
	FROM jsonb_each(pg_temp.failed('{"type": "disk.full"}' || jsonb_build_object('message', repeat('ab', 2000000)),
		'step')) f (place, error), jsonb_to_record(error) e (truncated boolean);
CREATE TEMP TABLE oversized (what text, error jsonb, type text, message text);
INSERT INTO oversized VALUES
	('type and message', jsonb_build_object('type', 'disk.full', 'message', repeat('ab', 2000000)), 'disk.full',
		'^(ab)+$'),
	('message, and much else', jsonb_build_object('type', 'disk.full', 'message', 'no room', 'rest',
		repeat('x', 3000000)), 'disk.full', '^no room$'),
	('type alone', jsonb_build_object('type', 'disk.full', 'rest', repeat('x', 3000000)), 'disk.full',
		'^\{"rest": "xx'),
	('a long type', jsonb_build_object('type', repeat('t', 3000000), 'message', 'm'), repeat('t', 10), '^m$'),
	('a type of characters of two bytes', jsonb_build_object('type', 'x' || repeat('ä', 2000000), 'message',
		repeat('ü', 2000000)), 'xä', '^ü+$'),
	('no object', to_jsonb(repeat('y', 3000000)), NULL, '^"yyy'),
	('many levels', pg_temp.nested(5000), NULL, '^\[\[\['),
	('many levels in an object', jsonb_build_object('type', 'deep', 'rest', pg_temp.nested(1000)), 'deep',
		'^\{"rest": \[\['),
	('an array', jsonb_build_array(repeat('z', 3000000)), NULL, '^\["zz'),
	('a message that is no string', jsonb_build_object('message', jsonb_build_array(repeat('z', 3000000))), NULL,
		'^\{"message": \["zz');
SELECT ok((e->'truncated') = 'true' AND (e->>'message') ~ message AND starts_with(coalesce(e->>'type', ''),
	coalesce(type, '')) AND (e ? 'type') = (type IS NOT NULL) AND octet_length(e::text) BETWEEN 10 AND 10000,
	'an error that is too large keeps its type and a part of its message: ' || what)
	FROM oversized, LATERAL (SELECT pg_temp.failed(error)->'run' AS e) f;

-- As deep as it may be, a run ends in each way, with an outbox too.
SELECT pgqrs_create_queue('out'), pgqrs_create_workflow('deep', outbox_queue => 'out') \g /dev/null
SELECT pgqrs_trigger('deep', pg_temp.nested(1000), tags => pg_temp.nested(1000),
	headers => pg_temp.nested(1000)) AS run FROM generate_series(1, 4) ORDER BY 1 \g /dev/null
SELECT pgqrs_cancel_run(min(run_id)) FROM pgqrs_runs WHERE workflow = 'deep' \g /dev/null
SELECT pgqrs_complete_run(run_id, lease, pg_temp.nested(1000)) FROM pgqrs_dequeue('deep') \g /dev/null
SELECT pgqrs_fail_run(run_id, lease, pg_temp.nested(1000)) FROM pgqrs_dequeue('deep') \g /dev/null
SELECT pgqrs_step_fail(run_id, lease, 's', pg_temp.nested(1000), retryable => false)
	FROM pgqrs_dequeue('deep') \g /dev/null
SELECT is(string_agg(status, ' ' ORDER BY run_id), 'CANCELLED SUCCESS ERROR ERROR',
	'runs with values of 1,000 levels end in each way') FROM pgqrs_runs WHERE workflow = 'deep';
SELECT is(count(*), 4::bigint, 'runs with values of 1,000 levels send their events to the outbox')
	FROM pgqrs_peek('out');

-- It still decides on the retry.
SELECT * FROM pg_temp.start('job') \gset
SELECT is(outcome, 'RETRY', 'an error that is too large is retried by its type') FROM pgqrs_step_fail(:run, :lease,
	'a', jsonb_build_object('type', 'x', 'message', repeat('ab', 2000000)));
SELECT pg_temp.claim(:run) AS lease \gset
SELECT is(outcome, 'RUN_FAILED', 'an error that is too large fails the run for good by its type')
	FROM pgqrs_step_fail(:run, :lease, 'a', jsonb_build_object('type', 'fatal', 'message', repeat('ab', 2000000)));

-- F31: what jsonb cannot hold is refused by PostgreSQL, and nothing is poisoned.
SELECT * FROM pg_temp.start('job') \gset
SELECT is(left(pg_temp.answer(format('SELECT pgqrs_step_complete(%s, %s, ''a'', %L)', :run, :lease, '"\u0000"')), 5),
	'22P05', 'F31: a NUL in a string is refused');
SELECT is(left(pg_temp.answer(format('SELECT pgqrs_step_complete(%s, %s, ''a'', %L)', :run, :lease, '"\ud800"')), 5),
	'22P02', 'F31: half a surrogate is refused');
SELECT pgqrs_step_complete(:run, :lease, 'a', '"\\u0000"'), pgqrs_fail_run(:run, :lease,
	'{"type": "unserializable_error"}') \g /dev/null
SELECT is(error, '{"type": "unserializable_error"}', 'F31: the worker can fail the run after a refused value')
	FROM pgqrs_result(:run);

SELECT * FROM finish();
