-- Every argument of every function of queues' messages.
-- Bad input is refused with its SQLSTATE, a message that names the argument
-- and a HINT, before anything is written.
\ir include/messages.sql
SELECT * FROM no_plan();

--
-- Names, order, defaults and results
--

CREATE TEMP TABLE signatures (name text, arguments text, result text);
INSERT INTO signatures VALUES
	('enqueue', 'queue text, payload jsonb, delay interval DEFAULT ''00:00:00''::interval, run_at timestamp with '
		'time zone DEFAULT NULL::timestamp with time zone, '
		'priority integer DEFAULT 0, idempotency_key text DEFAULT NULL::text, headers jsonb DEFAULT NULL::jsonb, '
			'concurrency_key text DEFAULT NULL::text, on_duplicate text DEFAULT ''return''::text', 'bigint'),
	('enqueue_batch', 'queue text, payloads jsonb[], delay interval DEFAULT ''00:00:00''::interval, run_at '
		'timestamp with time zone DEFAULT NULL::timestamp with time zone, '
		'priority integer DEFAULT 0, headers jsonb[] DEFAULT NULL::jsonb[], idempotency_keys text[] DEFAULT '
			'NULL::text[], concurrency_keys text[] DEFAULT NULL::text[]', 'bigint[]'),
	('dequeue', 'queue text DEFAULT NULL::text, worker_id bigint DEFAULT NULL::bigint, batch_size integer DEFAULT '
		'1, visibility_timeout interval DEFAULT NULL::interval', 'SETOF pgqrs_delivery'),
	('archive_message', 'message_id bigint, lease bigint', 'boolean'),
	('archive_messages', 'message_ids bigint[], leases bigint[]', 'boolean[]'),
	('delete_message', 'message_id bigint, lease bigint', 'void'),
	('release_message', 'message_id bigint, lease bigint, delay interval DEFAULT ''00:00:00''::interval', 'void'),
	('nack_message', 'message_id bigint, lease bigint, error jsonb DEFAULT NULL::jsonb, delay interval DEFAULT '
		'NULL::interval, retryable boolean DEFAULT true', 'timestamp with time zone'),
	('extend_lease', 'message_id bigint, lease bigint, visibility_timeout interval DEFAULT NULL::interval, OUT '
		'extended boolean, OUT cancel_requested boolean', 'record'),
	('extend_leases', 'message_ids bigint[], leases bigint[], visibility_timeout interval DEFAULT NULL::interval',
		'TABLE(message_id bigint, extended boolean, cancel_requested boolean)'),
	('set_visibility', 'message_id bigint, visible_after timestamp with time zone', 'void'),
	('replay_message', 'message_id bigint, payload jsonb DEFAULT NULL::jsonb', 'void'),
	('dismiss_dead_letter', 'message_id bigint', 'void'),
	('replay_queue', 'queue text, max_rows integer DEFAULT NULL::integer, error_type text DEFAULT NULL::text',
		'bigint'),
	('purge_dead_letters', 'queue text, older_than interval', 'bigint');
SELECT is(array_agg(pg_get_function_arguments(oid) || ' -> ' || pg_get_function_result(oid)),
	ARRAY[arguments || ' -> ' || result], name || ' has the documented signature')
	FROM signatures LEFT JOIN pg_proc ON proname = 'pgqrs_' || name GROUP BY name, arguments, result;
SELECT is(ROW(provolatile, proparallel, proisstrict, prosecdef)::text, '(v,u,f,f)',
	name || ' is volatile, parallel unsafe, not strict and runs as its caller')
	FROM signatures JOIN pg_proc ON proname = 'pgqrs_' || name;
SELECT isnt(obj_description(oid, 'pg_proc'), NULL, name || ' has a comment') FROM signatures
	JOIN pg_proc ON proname = 'pgqrs_' || name;
SELECT is(string_agg(attname || ' ' || format_type(atttypid, NULL), ', ' ORDER BY attnum),
	'message_id bigint, queue text, lease bigint, attempt integer, failures integer, priority integer, enqueued_at '
	'timestamp with time zone, visible_after timestamp with time zone, payload jsonb, headers jsonb, run_id bigint, '
	'workflow text, input jsonb, cancel_requested boolean', 'pgqrs_dequeue() returns the documented columns')
	FROM pg_attribute WHERE attrelid = 'pgqrs_delivery'::regclass AND attnum > 0;

--
-- Calls that are good
--

SELECT pgqrs_create_queue('q', max_attempts => 5) \g /dev/null
SELECT * FROM pg_temp.held('q') AS h (id, lease) \gset
SELECT * FROM pg_temp.held('q') AS h (id2, lease2) \gset
SELECT pgqrs_create_queue('dead', max_attempts => 1), pgqrs_enqueue('dead', '1') AS letter \gset
SELECT pgqrs_nack_message(:letter, pg_temp.claim(:letter)) \g /dev/null

-- The arguments of a call that is accepted; kind: what is bad for it.
CREATE TEMP TABLE arguments (function text, place serial, argument text, kind text, good text);
INSERT INTO arguments (function, argument, kind, good) VALUES
	('enqueue', 'queue', 'name', '''q'''), ('enqueue', 'payload', 'payload', '''1'''),
		('enqueue', 'delay', 'duration', '''0'''), ('enqueue', 'run_at', 'instant', 'NULL'),
	('enqueue', 'priority', 'priority', '0'), ('enqueue', 'idempotency_key', 'key', '''k'''), ('enqueue', 'headers',
		'json', '''{}'''), ('enqueue', 'concurrency_key', 'reserved', 'NULL'), ('enqueue', 'on_duplicate',
		'on duplicate', '''raise'''),
	('enqueue_batch', 'queue', 'name', '''q'''), ('enqueue_batch', 'payloads', 'payloads', '''{1,2,3}'''),
		('enqueue_batch', 'delay', 'duration', '''0'''),
	('enqueue_batch', 'run_at', 'instant', 'NULL'), ('enqueue_batch', 'priority', 'priority', '0'),
		('enqueue_batch', 'headers', 'many headers', 'ARRAY[''1'', NULL, ''3'']::jsonb[]'),
	('enqueue_batch', 'idempotency_keys', 'many keys', '''{a,NULL,c}'''), ('enqueue_batch', 'concurrency_keys',
		'many reserved', '''{NULL,NULL,NULL}'''),
	('dequeue', 'queue', 'pattern', '''q'''), ('dequeue', 'worker_id', 'worker', 'NULL'), ('dequeue', 'batch_size',
		'batch size', '1'), ('dequeue', 'visibility_timeout', 'lease time', '''1 ms'''),
	('archive_message', 'message_id', 'id', :'id'), ('archive_message', 'lease', 'id', :'lease'),
	('archive_messages', 'message_ids', 'ids', format('ARRAY[%s, %s]', :id, :id2)), ('archive_messages', 'leases',
		'leases', format('ARRAY[%s, %s]', :lease, :lease2)),
	('delete_message', 'message_id', 'id', :'id'), ('delete_message', 'lease', 'id', :'lease'),
	('release_message', 'message_id', 'id', :'id'), ('release_message', 'lease', 'id', :'lease'),
		('release_message', 'delay', 'duration', '''0'''),
	('nack_message', 'message_id', 'id', :'id'), ('nack_message', 'lease', 'id', :'lease'), ('nack_message', 'error',
		'any json', '''{}'''), ('nack_message', 'delay', 'duration', 'NULL'), ('nack_message', 'retryable',
		'any boolean', 'true'),
	('extend_lease', 'message_id', 'id', :'id'), ('extend_lease', 'lease', 'id', :'lease'),
		('extend_lease', 'visibility_timeout', 'lease time', '''1 ms'''),
	('extend_leases', 'message_ids', 'ids', format('ARRAY[%s, %s]', :id, :id2)), ('extend_leases', 'leases', 'leases',
		format('ARRAY[%s, %s]', :lease, :lease2)),
	('extend_leases', 'visibility_timeout', 'lease time', '''1 ms'''),
	('set_visibility', 'message_id', 'id', :'id'), ('set_visibility', 'visible_after', 'required instant',
		'''2100-01-01'''),
	('replay_message', 'message_id', 'id', :'letter'), ('replay_message', 'payload', 'json', '''1'''),
		('dismiss_dead_letter', 'message_id', 'id', :'letter'),
	('replay_queue', 'queue', 'name', '''dead'''), ('replay_queue', 'max_rows', 'max rows', '1'),
		('replay_queue', 'error_type', 'any text', '''x'''),
	('purge_dead_letters', 'queue', 'name', '''dead'''), ('purge_dead_letters', 'older_than', 'required duration',
		'''0'''),
	('peek', 'queue', 'name', '''q'''), ('peek', 'n', 'batch size', '1');
SELECT is(array_agg(name ORDER BY name), ARRAY(SELECT DISTINCT function FROM arguments WHERE function <> 'peek'
	ORDER BY 1), 'the table of arguments has every function') FROM signatures;

-- The call with one argument replaced.
CREATE FUNCTION pg_temp.call(name text, replaced text = NULL, value text = NULL) RETURNS text LANGUAGE sql AS
$$
	SELECT format('pgqrs_%s(%s)', name, string_agg(argument || ' => ' || CASE argument WHEN replaced THEN value
		ELSE good END, ', ' ORDER BY place))
	FROM arguments WHERE function = name
$$;

-- All answers are to the same contents.
SELECT pg_temp.contents() AS before \gset
SELECT unalike(pg_temp.answer('SELECT ' || pg_temp.call(function)), '_____ %', 'the call of this test is accepted: '
	|| pg_temp.call(function)) FROM arguments GROUP BY function;
SELECT is(pg_temp.contents(), :'before', 'the accepted calls were undone');

--
-- What is bad
--

CREATE TEMP TABLE bad (kind text, value text, state text, item int);
INSERT INTO bad VALUES
	('name', 'NULL', '22004'),
	('name', '''''', '22023'), ('name', 'repeat(''n'', 256)', '22023'), ('name', 'repeat(''é'', 128)', '22023'),
		('name', 'repeat(''n'', 100000)', '22023'),
	('name', 'E''a\tb''', '22023'), ('name', 'E''a\n''', '22023'), ('name', 'E''\x01''', '22023'),
		('name', 'E''\x7f''', '22023'),
	('name', ''' q''', '22023'), ('name', '''q ''', '22023'), ('name', ''' ''', '22023'), ('name', '''*''', '22023'),
		('name', '''q.*''', '22023'), ('name', '''q*''', '22023'),
	('name', '''pgqrs.''', '22023'), ('name', '''pgqrs.q''', '22023'),
	('pattern', '''''', '22023'), ('pattern', 'repeat(''n'', 256)', '22023'),
		('pattern', 'repeat(''n'', 256) || ''.*''', '22023'), ('pattern', 'E''a\tb''', '22023'),
		('pattern', 'E''a\n.*''', '22023'),
	('pattern', ''' q''', '22023'), ('pattern', '''q ''', '22023'), ('pattern', ''' q.*''', '22023'),
		('pattern', '''**''', '22023'), ('pattern', '''q*''', '22023'), ('pattern', '''*q''', '22023'),
	('pattern', '''.*''', '22023'), ('pattern', '''*.*''', '22023'), ('pattern', '''*.q''', '22023'),
		('pattern', '''q.*.r''', '22023'), ('pattern', '''q*.*''', '22023'), ('pattern', '''* ''', '22023'),
	('pattern', '''pgqrs.q''', '22023'),
	('payload', 'NULL', '22004'), ('payload', 'to_jsonb(repeat(''x'', 2097152))', 'PQ008'),
		('payload', 'jsonb_build_array(repeat(''x'', 3000000), 1)', 'PQ008'),
	('json', 'to_jsonb(repeat(''x'', 2097152))', 'PQ008'),
	('required duration', 'NULL', '22004'),
	('priority', '-101', '22023'), ('priority', '101', '22023'), ('priority', '-2147483648', '22023'),
		('priority', '2147483647', '22023'), ('priority', '65536', '22023'),
	('batch size', '-1', '22023'), ('batch size', '10001', '22023'), ('batch size', '2147483647', '22023'),
		('batch size', '-2147483648', '22023'),
	('max rows', '-1', '22023'), ('max rows', '-2147483648', '22023'),
	('instant', '''infinity''', '22023'), ('required instant', '''infinity''', '22023'), ('required instant', 'NULL',
		'22004'),
	('key', '''''', '22023'), ('key', 'repeat(''k'', 256)', '22023'), ('key', 'repeat(''é'', 128)', '22023'),
		('key', 'E''a\tb''', '22023'), ('key', 'E''\x7f''', '22023'),
	('reserved', '''k''', '0A000'), ('reserved', '''''', '22023'), ('many reserved', '''{NULL,k,NULL}''', '0A000'),
		('many reserved', '''{NULL}''', '22023'),
	('on duplicate', '''replace''', '0A000'), ('on duplicate', '''replace_input''', '0A000'),
		('on duplicate', '''RETURN''', '22023'), ('on duplicate', '''''', '22023'), ('id', 'NULL', '22004'),
	('lease time', '''0''', '22023');
-- Months, negative and endless durations.
INSERT INTO bad SELECT kind, quote_literal(value), '22023'
	FROM unnest('{duration,required duration,lease time}'::text[]) kind,
	unnest('{-1 us,-1 day,1 day -25 h,1 month,1 year,-1 month,1 month -30 days,1000 years,366001 days,2147483647 '
		'days,2147483647 days 2000000000 h,-2147483648 days,213503983 days,-213503982 days}'::text[]) value;
SELECT current_setting('server_version_num')::int >= 170000 AS has_infinity \gset
\if :has_infinity
INSERT INTO bad SELECT kind, quote_literal(value), '22023'
	FROM unnest('{duration,required duration,lease time}'::text[]) kind, unnest('{infinity,-infinity}'::text[]) value;
SELECT throws_ok($$SELECT pgqrs_create_queue('q', visibility_timeout => 'infinity')$$, '22023',
	'argument "visibility_timeout" is out of range', 'an infinite duration is no matter of months');
\endif
-- Arrays; item: which one the message has to name.
INSERT INTO bad SELECT kind, v.* FROM (VALUES
	('payloads', 'jsonb', '1'), ('ids', 'bigint', '1'), ('leases', 'bigint', '1'), ('many headers', 'jsonb',
		'1')) a (kind, type, element),
	LATERAL (VALUES (CASE kind WHEN 'many headers' THEN NULL ELSE 'NULL' END, '22004', NULL::int),
		(CASE WHEN kind <> 'payloads' THEN '''{}''' END, '22023', NULL), ('''{{1,2,3}}''', '22023', NULL),
		('''{{1},{2}}''', '22023', NULL),
		('''{{{1}},{{2}}}''', '22023', NULL), (format('array_fill(1::%s, ARRAY[10001])', replace(type, 'jsonb',
			'text')) || '::' || type || '[]', '22023', NULL),
		(CASE WHEN kind <> 'payloads' THEN '''{1,2,3,4}''' END, '22023', NULL),
			(CASE WHEN kind <> 'payloads' THEN '''{1}''' END, '22023', NULL)) v (value, state, item)
	WHERE v.value IS NOT NULL;
INSERT INTO bad VALUES ('many keys', '''{a,NULL}''', '22023', NULL), ('many keys', '''{a,NULL,a}''', '22023', 3),
	('many keys', '''{a,"",c}''', '22023', NULL), ('many keys', 'ARRAY[''a'', NULL, repeat(''k'', 256)]', '22023',
	NULL),
	('many keys', '''{{a,b,c}}''', '22023', NULL), ('payloads', 'ARRAY[''1'', NULL, ''3'']::jsonb[]', '22004', 2),
		('payloads', 'ARRAY[''1'', ''2'', NULL]::jsonb[]', '22004', 3),
		('payloads', 'ARRAY[NULL, ''2'', ''3'']::jsonb[]', '22004', 1),
	('payloads', 'ARRAY[''1'', to_jsonb(repeat(''x'', 3000000)), ''3'']', 'PQ008', 2),
		('payloads', 'ARRAY[''1'', ''2'', to_jsonb(repeat(''x'', 3000000))]', 'PQ008', 3),
	('payloads', '(''[7:9]='' || ARRAY[''1'', NULL, ''3'']::text)::jsonb[]', '22004', 2),
	('many headers', 'ARRAY[''1'', NULL, to_jsonb(repeat(''x'', 3000000))]', 'PQ008', 3),
	('ids', format('ARRAY[%s, NULL]', :id), '22004', 2), ('ids', format('ARRAY[NULL, %s]', :id2), '22004', 1),
		('ids', format('ARRAY[%s, %1$s]', :id), '22023', 2),
	('leases', format('ARRAY[NULL, %s]', :lease2), '22004', 1), ('leases', format('ARRAY[%s, NULL]', :lease), '22004',
		2);

SELECT is(array_agg(DISTINCT kind), '{"any boolean","any json","any text",worker}',
	'the test has bad values for each kind of argument but four') FROM arguments WHERE kind NOT IN (SELECT kind
	FROM bad);
SELECT format('SELECT is(pg_temp.refusal(%L), %L, %L)', 'SELECT ' || call, state, left(call, 300))
	FROM arguments JOIN bad USING (kind), LATERAL (SELECT pg_temp.call(function, argument, value) AS call) c
\gexec
SELECT is(pg_temp.contents(), :'before', 'refused calls write nothing');

-- The message names the argument and, in a batch, the 1-based item.
SELECT matches(answer, '\y' || argument || '\y', 'the message names the argument: ' || left(call, 200))
	FROM arguments JOIN bad USING (kind), LATERAL (SELECT pg_temp.call(function, argument, value) AS call) c,
		LATERAL (SELECT pg_temp.answer('SELECT ' || call) AS answer) a;
SELECT matches(answer, '\y(item|element) ' || item || '\y', format('the message names item %s of %s', item, argument))
	FROM arguments JOIN bad USING (kind), LATERAL (SELECT pg_temp.answer('SELECT ' || pg_temp.call(function, argument,
		value)) AS answer) a WHERE item IS NOT NULL;

-- NULL where it means something.
SELECT unalike(pg_temp.answer('SELECT ' || pg_temp.call(function, argument, 'NULL')), '_____ %', 'NULL is accepted: '
	|| pg_temp.call(function, argument, 'NULL'))
	FROM arguments WHERE kind NOT IN (SELECT kind FROM bad WHERE value = 'NULL') AND NOT (function = 'dequeue'
		AND argument = 'queue');

-- Limits that are still allowed.
SELECT unalike(pg_temp.answer('SELECT ' || call), '_____ %', 'the value is accepted: ' || left(call, 120))
	FROM arguments JOIN (VALUES
	('priority', '-100'), ('priority', '100'), ('batch size', '10000'), ('batch size', '0'), ('max rows', '0'),
		('max rows', '2147483647'), ('key', 'repeat(''k'', 255)'), ('key', 'repeat(''é'', 127)'),
		('duration', '''366000 days'''),
	('required duration', '''366000 days'''), ('lease time', '''0.000001 s'''), ('lease time', '''366 days'''),
		('pattern', 'repeat(''n'', 253) || ''.*'''), ('pattern', '''*'''),
	('payload', 'to_jsonb(repeat(''x'', 2097100))'), ('json', 'to_jsonb(repeat(''x'', 2097100))'),
		('any json', 'to_jsonb(repeat(''x'', 3000000))'), ('instant', '''-infinity''')) v (kind, value)
	USING (kind), LATERAL (SELECT pg_temp.call(function, argument, value) AS call) c;
SELECT unalike(pg_temp.answer(format('SELECT pgqrs_peek(%L)', name)), '22%', 'the name is accepted: ' || left(name,
	20))
	FROM unnest(ARRAY[repeat('n', 255), repeat('é', 127), 'a b', 'a"b', 'a''b', '.', 'pgqrs', 'PGQRS.a', 'ä.ö', '\',
		'%']) name;
SELECT is(pg_temp.contents(), :'before', 'accepted calls were undone');

SELECT * FROM finish();
