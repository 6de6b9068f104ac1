-- Reading runs, steps and messages, and the roles that may.

\set QUIET on
SET client_min_messages = error;
SELECT no_plan();

-- the type and the view are two sides of one thing

SELECT results_eq(
	$$SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attcollation
		FROM pg_catalog.pg_attribute AS a JOIN pg_catalog.pg_type AS t ON t.typrelid = a.attrelid
		WHERE t.typname = 'pgqrs_runs' AND a.attnum > 0 ORDER BY a.attnum$$,
	$$SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attcollation
		FROM pg_catalog.pg_attribute AS a JOIN pg_catalog.pg_type AS t ON t.typrelid = a.attrelid
		WHERE t.typname = 'pgqrs_run' AND a.attnum > 0 ORDER BY a.attnum$$,
	'the view pgqrs_runs has the columns of the type pgqrs_run');

SELECT is(pgqrs_version(), extversion, 'the version is that of the extension')
	FROM pg_extension WHERE extname = 'pgqrs';
SELECT current_setting('server_version_num')::int >= 180000 AS tells \gset
\if :tells
SELECT is(version, pgqrs_version(), 'the server tells the version of the loaded library')
	FROM pg_get_loaded_modules() WHERE module_name = 'pgqrs';
\endif

BEGIN;
SELECT ok(pgqrs_now() > now() AND pgqrs_now() <= clock_timestamp() + interval '1 s',
	'pgqrs_now() is not the time of the transaction');
COMMIT;

-- a run from its trigger to its result

SELECT pgqrs_create_workflow('read.job');
SELECT pgqrs_create_workflow('read.other');
SELECT pgqrs_register_worker('reader''s worker', ARRAY['read.*'], version => '7.1') AS worker \gset
SELECT pgqrs_trigger('read.job', '{"n": 1}', idempotency_key => 'first', priority => 5,
	timeout => '1 day', tags => '{"tenant": "a", "size": 3}', headers => '{"trace": "x"}') AS run \gset

SELECT results_eq(
	format($$SELECT workflow, status, waiting_for, attempt, failures, priority, input, output, error,
			progress, tags, headers, idempotency_key, parent_run_id, rerun_of, worker, worker_version,
			started_at, paused_at, completed_at, cancel_requested_at, cancel_reason, deleted_at
		FROM pgqrs_get_run(%s)$$, :run),
	$$SELECT 'read.job', 'QUEUED', NULL::text, 0, 0, 5, '{"n": 1}'::jsonb, NULL::jsonb, NULL::jsonb,
			NULL::jsonb, '{"tenant": "a", "size": 3}'::jsonb, '{"trace": "x"}'::jsonb, 'first',
			NULL::bigint, NULL::bigint, NULL::text, NULL::text, NULL::timestamptz, NULL::timestamptz,
			NULL::timestamptz, NULL::timestamptz, NULL::text, NULL::timestamptz$$,
	'a triggered run has what the trigger asked for');
SELECT ok(r.run_id = :run AND r.created_at <= clock_timestamp() AND r.visible_after = r.created_at AND
		r.deadline_at = r.created_at + interval '1 day', 'a triggered run has the times of the trigger')
	FROM pgqrs_get_run(:run) AS r;
SELECT results_eq(format('SELECT * FROM pgqrs_result(%s)', :run),
	$$SELECT 'QUEUED', NULL::jsonb, NULL::jsonb$$, 'a triggered run has no result');
SELECT results_eq(
	$$SELECT message_id, priority, attempt, failures, leased, run_id, payload, headers FROM pgqrs_peek('read.job')$$,
	format($$SELECT %s::bigint, 5, 0, 0, false, %1$s::bigint, '{"run_id": %1$s}'::jsonb, '{"trace": "x"}'::jsonb$$,
		:run),
	'peek shows the message of a run');
SELECT is_empty(format('SELECT * FROM pgqrs_list_steps(%s)', :run), 'a triggered run has no steps');

SELECT lease FROM pgqrs_dequeue('read.job', :worker) \gset
SELECT should_execute FROM pgqrs_step_begin(:run, :lease, 'zeta', '{"z": 1}') \gset
SELECT pgqrs_step_complete(:run, :lease, 'zeta', '"Z"');
SELECT should_execute FROM pgqrs_step_begin(:run, :lease, 'alpha') \gset
SELECT outcome FROM pgqrs_step_fail(:run, :lease, 'alpha', '{"type": "x", "message": "m"}', fail_run => false,
	retryable => false) \gset
SELECT should_execute FROM pgqrs_step_begin(:run, :lease, 'beta') \gset
SELECT pgqrs_set_progress(:run, :lease, '{"percent": 50}');

SELECT results_eq(
	format('SELECT status, attempt, progress, worker, worker_version FROM pgqrs_get_run(%s)', :run),
	$$SELECT 'RUNNING', 1, '{"percent": 50}'::jsonb, 'reader''s worker', '7.1'$$,
	'a running run shows its worker and progress');
SELECT ok(r.started_at BETWEEN r.created_at AND clock_timestamp() AND r.visible_after > clock_timestamp(),
	'a running run has a start, and visible_after is the end of its lease') FROM pgqrs_get_run(:run) AS r;
SELECT is(r, v, 'the view pgqrs_runs shows what pgqrs_get_run() returns')
	FROM pgqrs_get_run(:run) AS r, (SELECT v::text::pgqrs_run AS v FROM pgqrs_runs AS v WHERE run_id = :run) AS v;
SELECT results_eq(
	format('SELECT step_id, kind, status, attempt, failures, input, output, error, jsonb_array_length(history)
		FROM pgqrs_list_steps(%s)', :run),
	$$VALUES
		('zeta', 'FUNCTION', 'SUCCESS', 1, 0, '{"z": 1}'::jsonb, '"Z"'::jsonb, NULL::jsonb, NULL::int),
		('alpha', 'FUNCTION', 'ERROR', 1, 1, NULL, NULL, '{"type": "x", "message": "m"}', 1),
		('beta', 'FUNCTION', 'RUNNING', 1, 0, NULL, NULL, NULL, NULL)$$,
	'pgqrs_list_steps() returns the steps in order of their start');
SELECT ok(bool_and(started_at <= clock_timestamp() AND (completed_at >= started_at) IS DISTINCT FROM false) AND
		count(completed_at) = 2, 'steps have the times of their start and end') FROM pgqrs_list_steps(:run);
SELECT results_eq(
	format('SELECT step_id, kind, status, attempt, failures, input, output, error, history,
			started_at, completed_at, undo
		FROM pgqrs_steps WHERE run_id = %s ORDER BY started_at, step_id', :run),
	format('SELECT * FROM pgqrs_list_steps(%s)', :run), 'the view pgqrs_steps shows what pgqrs_list_steps() returns');
SELECT results_eq($$SELECT leased, visible_after > clock_timestamp() FROM pgqrs_peek('read.job')$$,
	'SELECT true, true', 'peek shows a leased message with the end of its lease');
SELECT results_eq(
	$$SELECT queue, run_id, worker, expired, attempt, failures FROM pgqrs_in_flight$$,
	format($$SELECT 'read.job', %s::bigint, 'reader''s worker', false, 1, 0$$, :run),
		'pgqrs_in_flight shows which worker holds which run');

SELECT pgqrs_complete_run(:run, :lease, '{"sum": 2}');
SELECT results_eq(format('SELECT * FROM pgqrs_result(%s)', :run),
	$$SELECT 'SUCCESS', '{"sum": 2}'::jsonb, NULL::jsonb$$, 'the result of a run that succeeded is its output');
SELECT ok(r.status = 'SUCCESS' AND r.output = '{"sum": 2}' AND r.error IS NULL AND r.visible_after IS NULL AND
		r.completed_at BETWEEN r.started_at AND clock_timestamp(),
			'an ended run has its end and is not visible to claims')
	FROM pgqrs_get_run(:run) AS r;
SELECT is_empty($$SELECT * FROM pgqrs_peek('read.job')$$, 'peek does not show the message of an ended run');

-- what does not exist, and what is not allowed

SELECT throws_ok('SELECT pgqrs_get_run(-1)', 'PQ003', NULL, 'pgqrs_get_run() refuses a run that does not exist');
SELECT throws_ok('SELECT pgqrs_result(-1)', 'PQ003', NULL, 'pgqrs_result() refuses a run that does not exist');
SELECT throws_ok('SELECT pgqrs_list_steps(-1)', 'PQ003', NULL,
	'pgqrs_list_steps() refuses a run that does not exist');
SELECT throws_ok($$SELECT pgqrs_peek('read.none')$$, 'PQ001', NULL,
	'pgqrs_peek() refuses a queue that does not exist');
SELECT throws_ok($$SELECT pgqrs_find_run('read.none', 'k')$$, 'PQ002', NULL,
	'pgqrs_find_run() refuses a workflow that does not exist');
SELECT throws_ok('SELECT pgqrs_get_run(NULL)', '22004', NULL, 'pgqrs_get_run() refuses NULL');
SELECT throws_ok('SELECT pgqrs_result(NULL)', '22004', NULL, 'pgqrs_result() refuses NULL');
SELECT throws_ok('SELECT pgqrs_list_steps(NULL)', '22004', NULL, 'pgqrs_list_steps() refuses NULL');
SELECT throws_ok('SELECT pgqrs_peek(NULL)', '22004', NULL, 'pgqrs_peek() refuses NULL');
SELECT throws_ok($$SELECT pgqrs_peek('')$$, '22023', NULL, 'pgqrs_peek() refuses an empty name');
SELECT throws_ok($$SELECT pgqrs_peek('read.*')$$, '22023', NULL, 'pgqrs_peek() refuses a pattern');
SELECT is_empty($$SELECT pgqrs_peek('read.job', 0)$$, 'pgqrs_peek() of 0 messages shows none');
SELECT throws_ok($$SELECT pgqrs_peek('read.job', 10001)$$, '22023', NULL,
	'pgqrs_peek() refuses more than 10,000 messages');
SELECT throws_ok($$SELECT pgqrs_find_run(NULL, 'k')$$, '22004', NULL, 'pgqrs_find_run() refuses a NULL workflow');
SELECT throws_ok($$SELECT pgqrs_find_run('read.job', NULL)$$, '22004', NULL, 'pgqrs_find_run() refuses a NULL key');
SELECT throws_ok($$SELECT pgqrs_find_run('read.job', '')$$, '22023', NULL, 'pgqrs_find_run() refuses an empty key');
SELECT throws_ok($$SELECT pgqrs_find_run('read.job', repeat('x', 256))$$, '22023', NULL,
	'pgqrs_find_run() refuses a key of 256 bytes');
SELECT throws_ok($$SELECT pgqrs_list_runs(status => 'running')$$, '22023', NULL,
	'pgqrs_list_runs() refuses an unknown status');
SELECT throws_ok($$SELECT pgqrs_list_runs('a*')$$, '22023', NULL,
	'pgqrs_list_runs() refuses a name with an asterisk that is no pattern');
SELECT throws_ok($$SELECT pgqrs_list_runs('')$$, '22023', NULL, 'pgqrs_list_runs() refuses an empty name');
SELECT is_empty('SELECT pgqrs_list_runs(page_size => 0)', 'pgqrs_list_runs() with page_size 0 shows no runs');
SELECT throws_ok('SELECT pgqrs_list_runs(page_size => 10001)', '22023', NULL,
	'pgqrs_list_runs() refuses a page of more than 10,000 runs');

-- idempotency keys

SELECT is(pgqrs_find_run('read.job', 'first'), :run::bigint, 'pgqrs_find_run() finds an ended run by its key');
SELECT is(pgqrs_find_run('read.job', 'second'), NULL::bigint,
	'pgqrs_find_run() returns NULL for a key that no run has');
SELECT is(pgqrs_find_run('read.other', 'first'), NULL::bigint,
	'pgqrs_find_run() does not find a key of another workflow');
SELECT pgqrs_create_workflow('read.active', key_scope => 'active');
SELECT pgqrs_trigger('read.active', idempotency_key => 'k') AS active \gset
SELECT is(pgqrs_find_run('read.active', 'k'), :active::bigint,
	'in key_scope active a queued run is found by its key');
SELECT lease FROM pgqrs_dequeue('read.active') \gset
SELECT is(pgqrs_find_run('read.active', 'k'), :active::bigint,
	'in key_scope active a running run is found by its key');
SELECT pgqrs_fail_run(:active, :lease, '{"type": "bad"}') AS failed \gset
SELECT is(pgqrs_find_run('read.active', 'k'), NULL::bigint,
	'in key_scope active an ended run is not found by its key');
SELECT pgqrs_trigger('read.active', idempotency_key => 'k') AS again \gset
SELECT is(pgqrs_find_run('read.active', 'k'), :again::bigint, 'in key_scope active the next run is found by the key');

-- results that are errors

SELECT results_eq(format('SELECT * FROM pgqrs_result(%s)', :active),
	$$SELECT 'ERROR', NULL::jsonb, '{"type": "bad"}'::jsonb$$, 'the result of a run that failed is its error');
SELECT results_eq(
	$$SELECT message_id, queue, run_id, workflow, attempt, last_error, payload FROM pgqrs_dead_letters$$,
	format($$SELECT %s::bigint, 'read.active', %1$s::bigint, 'read.active', 1, '{"type": "bad"}'::jsonb,
		'{"run_id": %1$s}'::jsonb$$, :active), 'pgqrs_dead_letters shows a run that failed');

-- plain messages

SELECT pgqrs_create_queue('plain', max_attempts => 1);
SELECT pgqrs_enqueue('plain', '"late"', delay => '1 hour') AS late \gset
SELECT pgqrs_enqueue('plain', '"low"', priority => -3) AS low \gset
SELECT pgqrs_enqueue('plain', '"normal"', headers => '{"h": 1}') AS normal \gset
SELECT pgqrs_enqueue('plain', '"high"', priority => 3) AS high \gset
SELECT pgqrs_enqueue('plain', '"next"') AS next \gset
SELECT results_eq(
	$$SELECT message_id, priority, payload, headers, run_id, leased FROM pgqrs_peek('plain')$$,
	format($$VALUES (%s::bigint, 3, '"high"'::jsonb, NULL::jsonb, NULL::bigint, false),
		(%s, 0, '"normal"', '{"h": 1}', NULL, false), (%s, 0, '"next"', NULL, NULL, false),
		(%s, 0, '"late"', NULL, NULL, false), (%s, -3, '"low"', NULL, NULL, false)$$,
		:high, :normal, :next, :late, :low), 'peek shows messages in the order of claims');
SELECT is(array_agg(message_id), ARRAY[:high, :normal]::bigint[], 'peek stops after n messages')
	FROM pgqrs_peek('plain', 2);
SELECT results_eq(
	$$SELECT ready, delayed, in_flight, dead, paused, is_workflow FROM pgqrs_queue_stats WHERE queue = 'plain'$$,
	'VALUES (4::bigint, 1::bigint, 0::bigint, 0::bigint, false, false)',
		'pgqrs_queue_stats counts ready and delayed messages');
SELECT ok(oldest_ready_age BETWEEN '0' AND '10 min', 'pgqrs_queue_stats shows the age of the oldest ready message')
	FROM pgqrs_queue_stats WHERE queue = 'plain';

SELECT lease AS dead_lease FROM pgqrs_dequeue('plain') \gset
SELECT lease AS held_lease FROM pgqrs_dequeue('plain') \gset
SELECT pgqrs_nack_message(:high, :dead_lease, '{"type": "poison"}') AS dead_at \gset
SELECT pgqrs_pause_queue('plain');
SELECT results_eq(
	$$SELECT ready, delayed, in_flight, dead, paused FROM pgqrs_queue_stats WHERE queue = 'plain'$$,
	'VALUES (2::bigint, 1::bigint, 1::bigint, 1::bigint, true)', 'the counts follow a claim, a nack and a pause');
SELECT results_eq(
	$$SELECT message_id, run_id, workflow, priority, attempt, failures, last_error, payload FROM pgqrs_dead_letters
		WHERE queue = 'plain'$$,
	format($$SELECT %s::bigint, NULL::bigint, NULL::text, 3, 1, 1, '{"type": "poison"}'::jsonb, '"high"'::jsonb$$,
		:high),
	'pgqrs_dead_letters shows a message that failed for good');
SELECT results_eq(
	$$SELECT message_id, run_id, worker, expired FROM pgqrs_in_flight WHERE queue = 'plain'$$,
	format('SELECT %s::bigint, NULL::bigint, NULL::text, false', :normal),
		'pgqrs_in_flight shows a claim without a worker');
SELECT extended FROM pgqrs_extend_lease(:normal, :held_lease, '1 us') \gset
SELECT results_eq($$SELECT expired FROM pgqrs_in_flight WHERE queue = 'plain'$$, 'SELECT true',
	'pgqrs_in_flight shows that a lease has run out');
SELECT results_eq(
	$$SELECT ready, delayed, in_flight FROM pgqrs_queue_stats WHERE queue = 'plain'$$,
	'VALUES (3::bigint, 1::bigint, 0::bigint)', 'a message whose lease ran out counts as ready');
SELECT results_eq($$SELECT leased, visible_after < clock_timestamp() FROM pgqrs_peek('plain') WHERE leased$$,
	'SELECT true, true', 'peek shows a message whose lease ran out as leased, with its past end');
SELECT pgqrs_create_queue('empty');
SELECT results_eq(
	$$SELECT queue_id > 0, ready, delayed, in_flight, dead, oldest_ready_age FROM pgqrs_queue_stats
		WHERE queue = 'empty'$$,
	'VALUES (true, 0::bigint, 0::bigint, 0::bigint, 0::bigint, NULL::interval)',
		'pgqrs_queue_stats shows an empty queue');

-- leases are secret

SELECT run_id AS secret_run, lease AS secret FROM pgqrs_dequeue('read.active') \gset
SELECT should_execute FROM pgqrs_step_begin(:secret_run, :secret, 'step') \gset
SELECT is(count(*), 3::bigint, 'the views show the run, the step and the claim of the lease looked for')
	FROM (SELECT run_id FROM pgqrs_runs WHERE run_id = :secret_run AND status = 'RUNNING'
		UNION ALL SELECT run_id FROM pgqrs_steps WHERE run_id = :secret_run
		UNION ALL SELECT run_id FROM pgqrs_in_flight WHERE run_id = :secret_run) AS shown;
SELECT is_empty(
	format($$SELECT * FROM (
			SELECT v::text AS shown FROM pgqrs_runs AS v UNION ALL SELECT v::text FROM pgqrs_steps AS v
			UNION ALL SELECT v::text FROM pgqrs_in_flight AS v UNION ALL SELECT v::text FROM pgqrs_dead_letters AS v
			UNION ALL SELECT v::text FROM pgqrs_queue_stats AS v UNION ALL SELECT v::text
				FROM pgqrs_peek('read.active') AS v
			UNION ALL SELECT v::text FROM pgqrs_get_run(%s) AS v UNION ALL SELECT v::text
				FROM pgqrs_list_steps(%1$s) AS v) AS all_of_it
		WHERE shown ~ '%s'$$, :secret_run, :secret), 'no view shows a lease');

-- lists

SELECT pgqrs_create_workflow('list.a');
SELECT pgqrs_create_workflow('list.b');
SELECT pgqrs_create_workflow('list.b.sub');
SELECT pgqrs_create_workflow('list');
SELECT format('{%s}', string_agg(pgqrs_trigger(w, priority => i, tags => jsonb_build_object('i', i, 'odd',
	i % 2 = 1))::text, ','))
	AS listed FROM generate_series(1, 12) AS i,
		LATERAL (SELECT (ARRAY['list.a', 'list.b', 'list.b.sub'])[1 + i % 3] AS w) AS w \gset
CREATE FUNCTION listed(workflow text = NULL, status text = NULL, tags jsonb = NULL, before_run_id bigint = NULL,
	page_size int = 50)
	RETURNS int[] LANGUAGE sql AS
	$$SELECT array_agg((l.tags->>'i')::int) FROM pgqrs_list_runs($1, $2, $3, $4, $5) AS l WHERE l.tags ? 'i'$$;

SELECT is(listed('list.*'), ARRAY[12,11,10,9,8,7,6,5,4,3,2,1], 'a list by a pattern shows the newest runs first');
SELECT is(listed('list.a'), ARRAY[12,9,6,3], 'a list of one workflow shows its runs');
SELECT is(listed('list.b.*'), ARRAY[11,8,5,2], 'a list by a longer pattern shows fewer runs');
SELECT is(listed('list.b'), ARRAY[10,7,4,1],
	'a list of one workflow does not show workflows whose names begin with it');
SELECT is(listed('list'), NULL, 'a list of a workflow without runs is empty');
SELECT is(listed('list.none'), NULL, 'a list of an unknown workflow is empty');
SELECT is(listed(), ARRAY[12,11,10,9,8,7,6,5,4,3,2,1], 'a list of every workflow shows every run');
SELECT is(listed('*'), ARRAY[12,11,10,9,8,7,6,5,4,3,2,1], 'a list by the pattern * shows every run');
SELECT is(listed('list.*', tags => '{"odd": true}'), ARRAY[11,9,7,5,3,1],
	'a list by tags shows runs whose tags contain them');
SELECT is(listed('list.*', tags => '{"odd": true, "i": 3}'), ARRAY[3],
	'a list by several tags shows runs that have each of them');
SELECT is(listed('list.*', tags => '{}'), ARRAY[12,11,10,9,8,7,6,5,4,3,2,1], 'a list by no tags shows every run');
SELECT is(listed('list.*', page_size => 5), ARRAY[12,11,10,9,8], 'the first page has page_size runs');
SELECT is(listed('list.*', before_run_id => (:'listed'::bigint[])[8], page_size => 5), ARRAY[7,6,5,4,3],
	'the second page goes on before before_run_id');
SELECT is(listed('list.*', before_run_id => (:'listed'::bigint[])[3], page_size => 5), ARRAY[2,1],
	'the last page has the rest');
SELECT is(listed('list.*', before_run_id => (:'listed'::bigint[])[1]), NULL, 'the page after the last one is empty');
SELECT is(listed('list.*', tags => '{"odd": false}', before_run_id => (:'listed'::bigint[])[10], page_size => 3),
	ARRAY[8,6,4],
	'a page by tags goes on before before_run_id');

SELECT count(pgqrs_fail_run(run_id, lease, '{}')) AS failed FROM pgqrs_dequeue('list.a', batch_size => 2) \gset
SELECT lease AS done_lease, run_id AS done_run FROM pgqrs_dequeue('list.b') \gset
SELECT pgqrs_complete_run(:done_run, :done_lease);
SELECT is(listed('list.*', status => 'ERROR'), ARRAY[12,9], 'a list by ERROR shows runs that failed');
SELECT is(listed('list.*', status => 'SUCCESS'), ARRAY[10], 'a list by SUCCESS shows runs that succeeded');
SELECT is(listed('list.*', status => 'QUEUED', page_size => 4), ARRAY[11,8,7,6],
	'a list by QUEUED shows runs that wait');
SELECT is(listed('list.*', status => 'CANCELLED'), NULL, 'a list by CANCELLED is empty without such runs');
SELECT results_eq('SELECT * FROM pgqrs_list_runs(page_size => 10000)',
	'SELECT (pgqrs_get_run(run_id)).* FROM pgqrs_runs ORDER BY run_id DESC',
		'pgqrs_list_runs() returns what pgqrs_get_run() returns');

UPDATE pgqrs_workflow_runs SET deleted_at = clock_timestamp(), delete_reason = 'unwanted'
	WHERE run_id = (:'listed'::bigint[])[5];
SELECT is(listed('list.*', page_size => 9), ARRAY[12,11,10,9,8,7,6,4,3], 'a deleted run is not listed');
SELECT is(r.delete_reason, 'unwanted', 'a deleted run is found by its id')
	FROM pgqrs_get_run((:'listed'::bigint[])[5]) AS r;

-- roles that may read

CREATE ROLE read_nobody;
CREATE ROLE read_trigger;
CREATE ROLE read_work;
CREATE ROLE read_admin;
CREATE ROLE read_stranger;
SELECT pgqrs_grant('list.a', 'read_trigger', 'trigger');
SELECT pgqrs_grant('list.a', 'read_work', 'work');
SELECT pgqrs_grant('list.a', 'read_admin', 'admin');
SELECT pgqrs_grant('empty', 'read_stranger', 'admin');
SELECT pgqrs_trigger('list.a', idempotency_key => 'mine') AS mine \gset
SELECT lease AS mine_lease FROM pgqrs_dequeue('list.a') \gset

-- pgTAP keeps its results in tables of the session's owner
CREATE FUNCTION as_role(role text, query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	answer text;
BEGIN
	EXECUTE format('SET ROLE %I', role);
	BEGIN
		EXECUTE query INTO answer;
	EXCEPTION WHEN OTHERS THEN
		answer := SQLSTATE;
	END;
	RESET ROLE;
	RETURN answer;
END
$$;

SELECT is(as_role(role, format(query, :mine)), expected, 'a role sees what its privileges allow: ' || role || ': '
	|| query)
	FROM (VALUES ('read_trigger'), ('read_work'), ('read_admin')) AS roles (role), (VALUES
		('SELECT run_id FROM pgqrs_get_run(%s)', :mine::text),
		('SELECT status FROM pgqrs_result(%s)', 'QUEUED'),
		('SELECT count(*) FROM pgqrs_list_steps(%s)', '0'),
		($$SELECT pgqrs_find_run('list.a', 'mine')$$, :mine::text),
		($$SELECT count(*) FROM pgqrs_peek('list.a')$$, '3'),
		('SELECT count(*) FROM pgqrs_list_runs()', '5'),
		($$SELECT string_agg(DISTINCT workflow, ',') FROM pgqrs_list_runs('list.*')$$, 'list.a'),
		('SELECT string_agg(DISTINCT workflow, $$,$$) FROM pgqrs_runs', 'list.a'),
		('SELECT string_agg(DISTINCT queue, $$,$$) FROM pgqrs_queue_stats', 'list.a'),
		('SELECT string_agg(DISTINCT queue, $$,$$) FROM pgqrs_in_flight', 'list.a'),
		('SELECT string_agg(DISTINCT queue, $$,$$) FROM pgqrs_dead_letters', 'list.a'),
		('SELECT count(*) FROM pgqrs_steps', '0'),
		($$SELECT pgqrs_peek('plain')$$, 'PQ001'),
		($$SELECT pgqrs_find_run('list.b', 'mine')$$, 'PQ002'),
		('SELECT 1 FROM pgqrs_messages', '42501'),
		('SELECT 1 FROM pgqrs_workflow_runs', '42501'),
		('SELECT pgqrs_version()', pgqrs_version())
	) AS checks (query, expected);

SELECT is(as_role('read_stranger', format(query, :mine)), expected, 'a role without a privilege sees nothing: '
	|| query)
	FROM (VALUES
		('SELECT pgqrs_get_run(%s)', 'PQ003'),
		('SELECT pgqrs_result(%s)', 'PQ003'),
		('SELECT pgqrs_list_steps(%s)', 'PQ003'),
		($$SELECT pgqrs_find_run('list.a', 'mine')$$, 'PQ002'),
		($$SELECT pgqrs_peek('list.a')$$, 'PQ001'),
		($$SELECT count(*) FROM pgqrs_peek('empty')$$, '0'),
		('SELECT count(*) FROM pgqrs_list_runs()', '0'),
		($$SELECT count(*) FROM pgqrs_list_runs('list.a')$$, '0'),
		('SELECT count(*) FROM pgqrs_runs', '0'),
		('SELECT count(*) FROM pgqrs_steps', '0'),
		('SELECT count(*) FROM pgqrs_in_flight', '0'),
		('SELECT count(*) FROM pgqrs_dead_letters', '0'),
		('SELECT string_agg(queue, $$,$$) FROM pgqrs_queue_stats', 'empty')
	) AS checks (query, expected);

SELECT is(as_role('read_nobody', format(query, :mine)), '42501', 'a role that was granted nothing may not look: '
	|| query)
	FROM unnest(ARRAY['SELECT pgqrs_get_run(%s)', 'SELECT pgqrs_result(%s)', 'SELECT pgqrs_list_steps(%s)',
		'SELECT pgqrs_list_runs()', $$SELECT pgqrs_peek('list.a')$$, $$SELECT pgqrs_find_run('list.a', 'mine')$$,
		'SELECT 1 FROM pgqrs_runs', 'SELECT 1 FROM pgqrs_steps', 'SELECT 1 FROM pgqrs_in_flight',
		'SELECT 1 FROM pgqrs_dead_letters', 'SELECT 1 FROM pgqrs_queue_stats']) AS query;

-- a condition of the reader's own never gets to see the rows of others
CREATE TABLE seen (run_id bigint);
CREATE FUNCTION spy(run_id bigint) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS
	$$BEGIN INSERT INTO seen VALUES (run_id); RETURN true; END$$;
GRANT INSERT ON seen TO read_trigger;
SELECT is(as_role('read_trigger', 'SELECT count(*) FROM pgqrs_runs WHERE spy(run_id)'), '5',
	'a condition of the reader is called for the rows that it may see');
SELECT results_eq('SELECT DISTINCT workflow FROM seen JOIN pgqrs_runs USING (run_id)', $$VALUES ('list.a')$$,
	'a condition of the reader is not called for rows that it may not see');

-- how it is found

SELECT array_length(pgqrs_trigger_batch('list.a', array_agg('{}'::jsonb)), 1) FROM generate_series(1, 5000) \gset
ANALYZE;
CREATE FUNCTION plan_of(query text) RETURNS SETOF text LANGUAGE plpgsql AS
	$$BEGIN RETURN QUERY EXECUTE 'EXPLAIN (COSTS OFF) ' || query; END$$;
\ir include/buffers.sql
SELECT ok(as_role(role, format($$SELECT string_agg(p, E'\n') FROM plan_of('SELECT * FROM %s WHERE run_id = 1') AS p$$,
	view))
		~ ('Index Scan using ' || index || '.*\n *Index Cond: \(run_id = .?1'),
			format('%s finds a row of %s by the index %s', role, view, index))
	FROM (VALUES ('postgres'), ('read_trigger')) AS roles (role),
		(VALUES ('pgqrs_runs', 'pgqrs_workflow_runs_pkey')) AS checks (view, index);
SELECT buffers('SELECT * FROM pgqrs_list_runs($$list.a$$)') AS before_pages \gset
SELECT array_length(pgqrs_trigger_batch('list.a', array_agg('{}'::jsonb)), 1) FROM generate_series(1, 10000) \gset
SELECT array_length(pgqrs_trigger_batch('list.b', array_agg('{}'::jsonb)), 1) FROM generate_series(1, 10000) \gset
SELECT cmp_ok(buffers('SELECT * FROM pgqrs_list_runs($$list.a$$)'), '<', :before_pages + 150,
	'a page costs the same however many runs there are');

SELECT * FROM finish();
