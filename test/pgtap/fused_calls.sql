-- Calls that do what two others do: pgqrs_next(), pgqrs_start() and pgqrs_step_next().
\ir include/runs.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_queue('q', visibility_timeout => '1 hour'), pgqrs_create_queue('one', max_in_flight => 1),
	pgqrs_create_workflow('flow', visibility_timeout => '1 hour'), pgqrs_create_workflow('narrow'),
	pgqrs_register_worker('w', '{q,flow,narrow,one}') AS worker,
	pgqrs_register_worker('single', '{q,flow}', max_concurrent => 1) AS single,
	pgqrs_register_worker('else', '{elsewhere}') AS elsewhere \gset
SELECT pgqrs_alter_queue('narrow', max_in_flight => 1) \g /dev/null

-- The rows of pgqrs_next(): the refused items, then what was claimed.
CREATE FUNCTION pg_temp.rows_of(query text) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	result text;
BEGIN
	EXECUTE format('SELECT string_agg(CASE WHEN queue IS NULL THEN ''refused '' || (payload->>''sqlstate'')
		ELSE ''claimed '' || coalesce(input, payload)::text END, '', '' ORDER BY n)
		FROM %s WITH ORDINALITY AS d (message_id, queue, lease, attempt, failures, priority, enqueued_at,
			visible_after, payload, headers, run_id, workflow, input, cancel_requested, n)', query) INTO result;
	RETURN coalesce(result, 'nothing');
END
$$;
CREATE FUNCTION big() RETURNS jsonb LANGUAGE sql AS $$ SELECT to_jsonb(repeat('x', 3000000)) $$;
-- The SQLSTATE of a query that is refused.
CREATE FUNCTION pg_temp.state(query text) RETURNS text LANGUAGE plpgsql AS
$$ BEGIN RETURN replace(pg_temp.refusal(query), ' after a write', ''); END $$;

-- pgqrs_next(): ends and claims.
SELECT pgqrs_enqueue_batch('q', '{1,2,3,4,5,6}') \g /dev/null
SELECT message_id AS a, lease AS a_lease FROM pgqrs_next(:worker, 'q') \gset
SELECT is((SELECT concat_ws(' ', queue, attempt, failures, payload, worker_id) FROM pgqrs_messages
		JOIN pgqrs_queues q USING (queue_id), LATERAL (SELECT q.name AS queue) n WHERE message_id = :a),
	'q 1 0 1 ' || :worker, 'next without done items claims as pgqrs_dequeue() does');
SELECT message_id AS b, lease AS b_lease, payload AS b_payload
	FROM pgqrs_next(:worker, 'q', done_ids => ARRAY[:a], done_leases => ARRAY[:a_lease]::bigint[]) \gset
SELECT is(:'b_payload'::text, '2', 'next with a done item returns the message it claimed, and no row for the item');
SELECT is((SELECT outcome::text FROM pgqrs_archive WHERE message_id = :a), 'DONE', 'next archives a done message');
SELECT is(pg_temp.rows_of(format('pgqrs_next(%s, ''q'', 0, done_ids => ''{%s}'', done_leases => ''{%s}'')', :worker, :a,
	:a_lease)), 'nothing',
	'next accepts an item again that ended under the same lease, and batch_size 0 claims nothing');
SELECT message_id AS c, lease AS c_lease FROM pgqrs_next(:worker, 'q', visibility_timeout => '10 s') \gset
SELECT ok(visible_after < clock_timestamp() + interval '11 s', 'next claims for visibility_timeout')
	FROM pgqrs_messages WHERE message_id = :c;

-- Refused items: reported first, in order of id; the others are done.
SELECT is(pg_temp.rows_of(format('pgqrs_next(%s, ''q'', 2, done_ids => ''{%s,%s,999999,%s}'',
		done_leases => ''{1,%s,5,7}'')', :worker, :c, :b, :a, :b_lease)),
	'refused PQ006, refused PQ006, refused PQ006, claimed 4, claimed 5',
	'next returns a row with PQ006 for each stale or unknown item, before the messages that it claims');
SELECT is((SELECT outcome::text FROM pgqrs_archive WHERE message_id = :b), 'DONE',
	'an item beside refused ones is done');
SELECT is((SELECT lease FROM pgqrs_messages WHERE message_id = :c), :c_lease, 'a refused item is as it was before');
SELECT results_eq(format('SELECT message_id, (to_jsonb(d) - ''message_id'')::text
		FROM pgqrs_next(NULL, ''q'', 0, done_ids => ''{%s,999999}'', done_leases => ''{1,5}'') d', :c),
	format($$VALUES (%s::bigint, '%2$s'), (999999, '%2$s')$$, :c, (SELECT jsonb_object_agg(attname, NULL::text)
		|| '{"payload": {"sqlstate": "PQ006"}}' FROM pg_attribute WHERE attrelid = 'pgqrs_delivery'::regclass
		AND attnum > 0 AND attname <> 'message_id')::text),
	'the row of a refused item has its id and payload, and NULL in the other columns; rows are in order of id');
SELECT pgqrs_nack_message(:c, :c_lease, retryable => false) \g /dev/null
SELECT is(pg_temp.rows_of(format('pgqrs_next(queue => ''q'', batch_size => 0, done_ids => ''{%s}'',
	done_leases => ''{%s}'')', :c, :c_lease)), 'refused PQ007',
	'an item that ended otherwise under its lease is PQ007');

-- Runs.
SELECT pgqrs_trigger_batch('flow', '{"\"r1\"","\"r2\"","\"r3\"","\"r4\"","\"r5\"","\"r6\""}') \g /dev/null
SELECT run_id AS r1, lease AS r1_lease, input AS r1_input FROM pgqrs_next(:worker, 'flow') \gset
SELECT run_id AS r2, lease AS r2_lease, input AS r2_input FROM pgqrs_next(:worker, 'flow',
	done_ids => ARRAY[:r1]::bigint[], done_leases => ARRAY[:r1_lease]::bigint[],
	outputs => ARRAY['{"out": 1}']::jsonb[])
	\gset
SELECT is(:'r1_input' || :'r2_input'::text, '"r1""r2"', 'next claims runs, with their inputs');
SELECT is((SELECT status || output FROM pgqrs_result(:r1)), 'SUCCESS{"out": 1}',
	'next completes a run with its output');
SELECT is((SELECT outcome::text FROM pgqrs_archive WHERE message_id = :r1), 'DONE',
	'next archives the message of a run that it completes');
SELECT run_id AS r3, lease AS r3_lease FROM pgqrs_next(:worker, 'flow', done_ids => ARRAY[:r2]::bigint[],
	done_leases => ARRAY[:r2_lease]::bigint[]) \gset
SELECT is((SELECT status || output FROM pgqrs_result(:r2)), 'SUCCESSnull',
	'a run completed without outputs has JSON null');
SELECT message_id AS d, lease AS d_lease FROM pgqrs_messages WHERE payload = '4' \gset
SELECT run_id AS r4, lease AS r4_lease FROM pgqrs_next(:worker, 'flow', done_ids => ARRAY[:r3, :d]::bigint[],
	done_leases => ARRAY[:r3_lease, :d_lease]::bigint[], outputs => ARRAY[NULL, '"ignored"']::jsonb[]) \gset
SELECT is((SELECT status || output FROM pgqrs_result(:r3)) || (SELECT outcome FROM pgqrs_archive WHERE message_id = :d),
	'SUCCESSnullDONE', 'one call ends messages and runs; a NULL output is JSON null');
SELECT is(pg_temp.rows_of(format('pgqrs_next(%s, ''q'', 0, done_ids => ''{%s,%s}'', done_leases => ''{%s,%s}'')',
	:worker,
	:r2, :r3, :r2_lease, :r3_lease)), 'nothing', 'completing runs again under their leases is no refusal');
SELECT pgqrs_cancel_run(:r4) \g /dev/null
SELECT run_id AS r5, lease AS r5_lease FROM pgqrs_dequeue('flow', :worker) \gset
SELECT pgqrs_cancel_run(:r5), pgqrs_acknowledge_cancel(:r5, :r5_lease) \g /dev/null
SELECT run_id AS r6, lease AS r6_lease FROM pgqrs_dequeue('flow', :worker) \gset
SELECT pg_temp.late(:r6);
SELECT is(pg_temp.rows_of(format('pgqrs_next(%s, ''flow'', done_ids => ''{%s,%s,%s}'', done_leases => ''{%s,%s,%s}'')',
		:worker, :r4, :r5, :r6, :r4_lease, :r5_lease, :r6_lease)), 'refused PQ010, refused PQ007',
	'a run that was asked to stop is completed; one that is CANCELLED is PQ010, one past its deadline PQ007');
SELECT is((SELECT status FROM pgqrs_get_run(:r4)), 'SUCCESS', 'a run beside refused ones is completed');
SELECT is((SELECT status FROM pgqrs_get_run(:r6)), 'RUNNING', 'a refused run keeps its status');

-- What ended holds no place of a limit any more.
SELECT pgqrs_enqueue_batch('one', '{1,2,3}') \g /dev/null
SELECT message_id AS a, lease AS a_lease FROM pgqrs_next(queue => 'one') \gset
SELECT is(pg_temp.rows_of('pgqrs_next(queue => ''one'')'), 'nothing', 'next claims no more than max_in_flight allows');
SELECT is(pg_temp.rows_of(format('pgqrs_next(queue => ''one'', batch_size => 5, done_ids => ''{%s}'',
	done_leases => ''{%s}'')', :a, :a_lease)), 'claimed 2',
	'an item that next ends makes room under max_in_flight for its claim');
SELECT message_id AS a, lease AS a_lease FROM pgqrs_next(:single, 'q') \gset
SELECT is(pg_temp.rows_of(format('pgqrs_next(%s)', :single)), 'nothing',
	'next claims no more than max_concurrent allows');
SELECT is(pg_temp.rows_of(format('pgqrs_next(%s, ''q'', done_ids => ''{%s}'', done_leases => ''{5}'')', :single, :a)),
	'refused PQ006', 'an item that is refused still holds its place');
SELECT pgqrs_enqueue('q', '7') \g /dev/null
SELECT is(pg_temp.rows_of(format('pgqrs_next(%s, ''q'', batch_size => 5, done_ids => ''{%s}'',
	done_leases => ''{%s}'')',
	:single, :a, :a_lease)), 'claimed 7', 'an item that next ends makes room under max_concurrent for its claim');

-- Suspended and stopped workers.
SELECT pgqrs_enqueue('q', '8'), pgqrs_suspend_worker(:single) \g /dev/null
SELECT message_id AS a, lease AS a_lease FROM pgqrs_messages WHERE payload = '7' \gset
SELECT is(pg_temp.rows_of(format('pgqrs_next(%s, ''q'', done_ids => ''{%s}'', done_leases => ''{%s}'')', :single, :a,
	:a_lease)), 'nothing', 'a suspended worker claims nothing');
SELECT is((SELECT outcome::text FROM pgqrs_archive WHERE message_id = :a), 'DONE',
	'a suspended worker ends what it has done');
SELECT message_id AS a, lease AS a_lease FROM pgqrs_dequeue('q') \gset
SELECT pgqrs_stop_worker(:single) \g /dev/null
SELECT is(pg_temp.state(format('SELECT pgqrs_next(%s, ''q'', done_ids => ''{%s}'', done_leases => ''{%s}'')', :single,
	:a,
	:a_lease)), 'PQ014', 'next of a stopped worker is PQ014');
SELECT is((SELECT lease FROM pgqrs_messages WHERE message_id = :a), :a_lease, 'next of a stopped worker ends nothing');

-- A role that may no longer work on one queue ends what it may.
SELECT pgqrs_create_queue('lost') \g /dev/null
CREATE ROLE pgqrs_test_fused;
SELECT pgqrs_grant(pattern, 'pgqrs_test_fused', 'work') FROM unnest('{q,lost}'::text[]) pattern \g /dev/null
SELECT pgqrs_enqueue('lost', '1') AS lost, pgqrs_enqueue('q', '9') AS kept, pgqrs_enqueue('lost', '2') AS hidden \gset
SET ROLE pgqrs_test_fused;
CREATE TEMP TABLE mine AS SELECT message_id, lease FROM pgqrs_dequeue('*', batch_size => 100);
RESET ROLE;
SELECT pgqrs_grant('lost', 'pgqrs_test_fused', 'trigger'), pgqrs_revoke('lost', 'pgqrs_test_fused', 'work') \g /dev/null
SET ROLE pgqrs_test_fused;
CREATE TEMP TABLE answered AS SELECT message_id, queue, payload FROM (SELECT array_agg(message_id) AS ids,
	array_agg(lease) AS leases FROM mine) m, pgqrs_next(queue => 'q', batch_size => 0, done_ids => ids,
	done_leases => leases);
RESET ROLE;
SELECT results_eq('SELECT * FROM answered', format($$VALUES (%s::bigint, NULL::text, '{"sqlstate": "42501"}'::jsonb),
	(%s, NULL, '{"sqlstate": "42501"}')$$, :lost, :hidden), 'an item of a queue on which the role lacks work is 42501');
SELECT is((SELECT outcome::text FROM pgqrs_archive WHERE message_id = :kept), 'DONE',
	'items between those that the role may not end are done');
DROP OWNED BY pgqrs_test_fused;
DROP ROLE pgqrs_test_fused;

-- Arguments.
SELECT is(pg_temp.state('SELECT ' || call), expected, call) FROM (VALUES
	('pgqrs_next()', '22004'), ('pgqrs_next(NULL, NULL)', '22004'), ('pgqrs_next(0)', 'PQ005'),
	('pgqrs_next(queue => ''nothing'')', 'PQ001'), (format('pgqrs_next(%s, ''q'')', :elsewhere), '22023'),
	('pgqrs_next(queue => ''q'', done_ids => ''{1}'')', '22023'),
	('pgqrs_next(queue => ''q'', done_ids => ''{1}'', done_leases => NULL)', '22023'),
	('pgqrs_next(queue => ''q'', done_ids => ''{1,1}'', done_leases => ''{1,2}'')', '22023'),
	('pgqrs_next(queue => ''q'', done_ids => ''{NULL}'', done_leases => ''{1}'')', '22004'),
	('pgqrs_next(queue => ''q'', outputs => ''{1}'')', '22023'),
	('pgqrs_next(queue => ''q'', batch_size => -1)', '22023'), ('pgqrs_next(queue => ''q'', batch_size => 10001)',
	'22023'),
	('pgqrs_next(queue => ''q'', done_ids => ''{1}'', done_leases => ''{1}'', outputs => ARRAY[big()])',
	'PQ008')) AS v (call, expected);
SELECT is(pg_temp.rows_of('pgqrs_next(queue => ''q'', batch_size => 0, done_ids => NULL, done_leases => NULL)'),
	'nothing',
	'next takes NULL for done_ids and done_leases');

-- Dead index entries do not pile up in front of claims of sessions that only call next,
-- while an old snapshot keeps vacuum and scans from removing them.
CREATE EXTENSION dblink;
SELECT dblink_connect('old', format('host=%s port=%s dbname=%s', current_setting('unix_socket_directories'),
		current_setting('port'), current_database())),
	dblink_exec('old', 'BEGIN ISOLATION LEVEL REPEATABLE READ') \g /dev/null
SELECT * FROM dblink('old', 'SELECT count(*) FROM pgqrs_messages') AS d (n bigint) \g /dev/null
SELECT pgqrs_create_queue('busy'), pgqrs_enqueue_batch('busy', array_fill('1'::jsonb, '{401}')) \g /dev/null
CREATE PROCEDURE pg_temp.work_off(count int) LANGUAGE plpgsql AS
$$
DECLARE
	d record;
BEGIN
	SELECT * INTO d FROM pgqrs_next(queue => 'busy');
	FOR i IN 1..count LOOP
		COMMIT;
		SELECT * INTO d FROM pgqrs_next(queue => 'busy', done_ids => ARRAY[d.message_id], done_leases => ARRAY[d.lease]);
	END LOOP;
END
$$;
SELECT looked, claimed FROM pgqrs_floor_stats() \gset
CALL pg_temp.work_off(400);
SELECT cmp_ok((looked - :looked) / (claimed - :claimed), '<', 30::bigint,
	'a claim of pgqrs_next() beside an old snapshot steps over few dead entries') FROM pgqrs_floor_stats();
SELECT dblink_disconnect('old') \g /dev/null

-- pgqrs_start(): a run that the caller holds.
SELECT pgqrs_purge_queue('flow'), pgqrs_purge_queue('q') \g /dev/null
CREATE TEMP TABLE started AS SELECT * FROM pgqrs_start('flow', '{"n": 1}', :worker, priority => 5,
	headers => '{"h": 1}', tags => '{"t": 1}');
SELECT results_eq('SELECT s.message_id, s.queue, m.lease, 1, 0, 5, s.run_id, s.workflow, s.input, false FROM started s
		JOIN pgqrs_messages m USING (message_id)',
	'SELECT run_id, ''flow'', lease, attempt, failures, priority, run_id, ''flow'', ''{"n": 1}''::jsonb,
		cancel_requested FROM started', 'start returns the row of a delivery');
SELECT is((SELECT concat_ws(' ', r.status, r.attempt, r.tags, m.worker_id, s.headers, s.payload) FROM started s
		JOIN pgqrs_workflow_runs r USING (run_id) JOIN pgqrs_messages m USING (run_id)),
	format('RUNNING 1 {"t": 1} %s {"h": 1} {"run_id": %s}', :worker, (SELECT run_id FROM started)),
	'a run that was started is RUNNING, held by the worker');
SELECT ok(visible_after BETWEEN clock_timestamp() + interval '50 min' AND clock_timestamp() + interval '1 hour',
	'the lease of a start lasts for the visibility timeout of the workflow') FROM started;
SELECT ok((pgqrs_step_begin(run_id, lease, 'a')).should_execute, 'the lease of a start is good for steps') FROM started;
SELECT is(pgqrs_complete_run(run_id, lease, '1'), true,
	'the lease of a start is good to complete the run') FROM started;
SELECT is(pgqrs_complete_run(run_id, lease), true, 'a run is started without a worker') FROM pgqrs_start('flow');

-- A run that exists is not the caller's.
SELECT run_id AS run, lease AS lease FROM pgqrs_start('flow', '1', :worker, 'key') \gset
SELECT ok(:lease > 0, 'a start with a new key claims the run');
SELECT is((SELECT (to_jsonb(s) - '{message_id,run_id,queue,workflow}'::text[]) = (SELECT jsonb_object_agg(attname,
	NULL::text)
		FROM pg_attribute WHERE attrelid = 'pgqrs_delivery'::regclass AND attnum > 0
		AND attname <> ALL ('{message_id,run_id,queue,workflow}')) AND message_id = :run AND run_id = :run
		AND queue = 'flow' AND workflow = 'flow' FROM pgqrs_start('flow', '2', :worker, 'key') s), true,
	'a start whose key is taken returns the id of the run that has it, without a lease');
SELECT is((SELECT lease FROM pgqrs_messages WHERE message_id = :run), :lease,
	'the run that has the key keeps its lease');
SELECT is((SELECT count(*)::int FROM pgqrs_start('flow', '2', :worker, 'key', on_duplicate => 'null')), 0,
	'on_duplicate null: no row if the key is taken');
SELECT is((SELECT count(lease)::int FROM pgqrs_start('flow', '2', :worker, 'other', on_duplicate => 'null')), 1,
	'on_duplicate null: a row if the key is free');
SELECT is(pg_temp.state(format('SELECT pgqrs_start(''flow'', ''2'', %s, ''key'', on_duplicate => ''raise'')', :worker)),
	'23505', 'on_duplicate raise: 23505 if the key is taken');
SELECT is(pg_temp.state(format('SELECT pgqrs_start(''flow'', ''2'', %s, ''key'')', :single)), 'PQ014',
	'start of a stopped worker is PQ014, also if the run exists');
SELECT pgqrs_release_message(:run, :lease) \g /dev/null
SELECT is((SELECT lease FROM pgqrs_start('flow', '2', :worker, 'key')), NULL,
	'a run that existed is not claimed even if it waits for a claim');

-- Always one row: paused, at a limit, a worker that takes nothing.
SELECT is((SELECT count(*) || ' ' || count(lease) FROM pgqrs_start('narrow')), '1 1',
	'a start under max_in_flight claims');
SELECT is((SELECT count(*) || ' ' || count(lease) FROM pgqrs_start('narrow')), '1 0',
	'at max_in_flight a start returns the run without a lease');
SELECT is((SELECT string_agg(status, ' ' ORDER BY run_id) FROM pgqrs_list_runs('narrow')), 'RUNNING QUEUED',
	'a run that could not be claimed is QUEUED');
SELECT pgqrs_pause_queue('flow') \g /dev/null
SELECT is((SELECT count(*) || ' ' || count(lease) FROM pgqrs_start('flow')), '1 0',
	'of a paused workflow a start returns the run without a lease');
SELECT pgqrs_resume_queue('flow'), pgqrs_suspend_worker(:worker) \g /dev/null
SELECT is((SELECT count(*) || ' ' || count(lease) FROM pgqrs_start('flow', NULL, :worker)), '1 0',
	'for a suspended worker a start returns the run without a lease');
SELECT pgqrs_resume_worker(:worker), pgqrs_register_worker('single', '{q,flow}', max_concurrent => 1) AS single \gset
SELECT is((SELECT count(*) || ' ' || count(lease) FROM pgqrs_start('flow', NULL, :single)), '1 1',
	'a start for a worker under max_concurrent claims');
SELECT is((SELECT count(*) || ' ' || count(lease) FROM pgqrs_start('flow', NULL, :single)), '1 0',
	'for a worker at max_concurrent a start returns the run without a lease');
SELECT is((SELECT count(*) || ' ' || count(lease) FROM pgqrs_start('flow', timeout => '1 us')), '1 0',
	'a run whose deadline passed at once is returned without a lease');

-- Arguments.
SELECT is(pg_temp.state('SELECT ' || call), expected, call) FROM (VALUES
	('pgqrs_start(''flow'', delay => ''1 s'')', '22023'), ('pgqrs_start(''flow'', run_at => ''2000-01-01'')', '22023'),
	('pgqrs_start(''flow'', NULL, 0)', 'PQ005'), ('pgqrs_start(''flow'', NULL, 999999)', 'PQ005'),
	('pgqrs_start(NULL)', '22004'), ('pgqrs_start(''nothing'')', 'PQ002'), ('pgqrs_start(''q'')', 'PQ002'),
	(format('pgqrs_start(''flow'', NULL, %s)', :elsewhere), '22023'),
	(format('pgqrs_start(''flow'', NULL, %s, ''key'')', :elsewhere), '22023'),
	('pgqrs_start(''flow'', concurrency_key => ''k'')', '0A000'),
	('pgqrs_start(''flow'', idempotency_key => ''k'', on_duplicate => ''replace'')', '0A000'),
	('pgqrs_start(''flow'', priority => 101)', '22023')) AS v (call, expected);
SELECT is((SELECT count(lease)::int FROM pgqrs_start('flow', delay => '0', run_at => NULL, priority => NULL)), 1,
	'start takes the defaults of delay and run_at, and NULL');
SELECT pgqrs_create_workflow('unserved') \g /dev/null
SELECT is(pg_temp.state('SELECT pgqrs_start(''unserved'', require_worker => true)'), 'PQ013',
	'start with require_worker is PQ013 if no live worker serves the workflow');

-- pgqrs_step_next(): completes a step and begins another.
CREATE FUNCTION pg_temp.step_next(run bigint, lease bigint, step text, output jsonb, next text, input jsonb = NULL)
RETURNS text LANGUAGE sql AS
$$ SELECT concat_ws(' ', 'stored', stored::text, 'execute', should_execute::text, coalesce(status, '-'),
	coalesce(s.output::text, '-'), coalesce(error::text, '-'), 'attempt', coalesce(attempt::text, '-'), 'cancel',
	cancel_requested::text) FROM pgqrs_step_next(run, lease, step, output, next, next_input => input) s $$;
CREATE FUNCTION pg_temp.step(run bigint, step text) RETURNS jsonb LANGUAGE sql AS
$$ SELECT jsonb_strip_nulls(to_jsonb(s)) - '{run_id,step_id,started_at,completed_at,lease}'::text[]
	FROM pgqrs_workflow_steps s WHERE run_id = run AND step_id = step $$;

SELECT run_id AS run, lease FROM pgqrs_start('flow') \gset
SELECT pgqrs_step_begin(:run, :lease, 'a') \g /dev/null
SELECT is(pg_temp.step_next(:run, :lease, 'a', '1', 'b', '{"in": 2}'),
	'stored true execute true RUNNING - - attempt 1 cancel false',
	'step_next stores an output and begins the next step');
SELECT is(pg_temp.step(:run, 'a'),
	'{"kind": "FUNCTION", "status": "SUCCESS", "attempt": 1, "failures": 0, "output": 1}',
	'step_next completes a step as pgqrs_step_complete() does');
SELECT is(pg_temp.step(:run, 'b'),
	'{"kind": "FUNCTION", "status": "RUNNING", "attempt": 1, "failures": 0, "input": {"in": 2}}',
	'step_next begins a step with its input as pgqrs_step_begin() does');
SELECT pg_temp.contents() AS contents \gset
SELECT is(pg_temp.step_next(:run, :lease, 'a', '7', 'b'),
	'stored false execute true RUNNING - - attempt 1 cancel false',
	'a repeated step_next says that the output was stored before, and gives the same answer');
SELECT is(pg_temp.contents(), :'contents', 'a repeated step_next writes nothing');
SELECT is(pg_temp.step_next(:run, :lease, 'b', '2', 'a'),
	'stored true execute false SUCCESS 1 - attempt 1 cancel false',
	'step_next returns the output of a next step that has finished');
SELECT is((SELECT outcome FROM pgqrs_step_fail(:run, :lease, 'bad', '{"type": "e"}', fail_run => false,
	retryable => false)), 'STEP_FAILED', 'a step fails alone');
SELECT is(pg_temp.step_next(:run, :lease, 'c', NULL, 'bad'),
	'stored true execute false ERROR - {"type": "e"} attempt 1 cancel false',
	'step_next returns the error of a next step that has failed');
SELECT is(output, 'null', 'an output that is NULL is stored as JSON null') FROM pgqrs_workflow_steps
	WHERE run_id = :run AND step_id = 'c';
SELECT ok(started_at = '2020-01-01', 'started_at is that of a step whose begin was lost')
	FROM pgqrs_step_next(:run, :lease, 'd', '4', 'e', '2020-01-01') n, LATERAL (SELECT started_at
		FROM pgqrs_workflow_steps WHERE run_id = :run AND step_id = 'd' AND n.stored) s;

-- Refusals: neither step is written.
SELECT pgqrs_start_child(:run, :lease, 'child', 'flow') \g /dev/null
SELECT pg_temp.contents() AS contents \gset
SELECT is(pg_temp.state('SELECT ' || call), expected, call) FROM (VALUES
	(format('pgqrs_step_next(%s, 5, ''e'', ''1'', ''f'')', :run), 'PQ006'),
	(format('pgqrs_step_next(999999, %s, ''e'', ''1'', ''f'')', :lease), 'PQ003'),
	(format('pgqrs_step_next(%s, %s, ''e'', ''1'', ''e'')', :run, :lease), '22023'),
	(format('pgqrs_step_next(%s, %s, ''e'', ''1'', ''child'')', :run, :lease), 'PQ016'),
	(format('pgqrs_step_next(%s, %s, ''child'', ''1'', ''f'')', :run, :lease), 'PQ016'),
	(format('pgqrs_step_next(%s, %s, ''e'', ''1'', NULL)', :run, :lease), '22004'),
	(format('pgqrs_step_next(%s, %s, ''e'', big(), ''f'')', :run, :lease), 'PQ008')) AS v (call, expected);
SELECT is(pg_temp.contents(), :'contents', 'a step_next that is refused writes neither step');

-- A run that was asked to stop: never PQ010 while it lives.
SELECT pgqrs_cancel_run(:run) \g /dev/null
SELECT is(pg_temp.state(format('SELECT pgqrs_step_begin(%s, %s, ''f'')', :run, :lease)), 'PQ010',
	'step_begin is PQ010');
SELECT is(pg_temp.step_next(:run, :lease, 'e', '5', 'f'), 'stored true execute false - - - attempt - cancel true',
	'after a request to cancel step_next stores, begins nothing and says so');
SELECT is(pg_temp.step(:run, 'e')->>'status' || coalesce(pg_temp.step(:run, 'f')::text, ''), 'SUCCESS',
	'after a request to cancel the output is there and the next step is not');
SELECT is(pg_temp.step_next(:run, :lease, 'e', '5', 'f'), 'stored false execute false - - - attempt - cancel true',
	'the same call again gets the same answer');
SELECT pgqrs_acknowledge_cancel(:run, :lease) \g /dev/null
SELECT is(pg_temp.state(format('SELECT pgqrs_step_next(%s, %s, ''e'', ''5'', ''f'')', :run, :lease)), 'PQ010',
	'step_next of a run that is CANCELLED is PQ010');

-- After its end, and its deadline.
SELECT run_id AS run, lease FROM pgqrs_start('flow') \gset
SELECT pg_temp.step_next(:run, :lease, 'a', '1', 'b'), pgqrs_step_complete(:run, :lease, 'b', '2'),
	pgqrs_complete_run(:run, :lease) \g /dev/null
SELECT is(pg_temp.step_next(:run, :lease, 'a', '1', 'b'),
	'stored false execute false SUCCESS 2 - attempt 1 cancel false',
	'a step_next repeated after the run was completed gets the stored result');
SELECT is(pg_temp.state(format('SELECT pgqrs_step_next(%s, %s, ''b'', ''2'', ''c'')', :run, :lease)), 'PQ007',
	'step_next does not begin a step of a completed run');
SELECT run_id AS run, lease FROM pgqrs_start('flow') \gset
SELECT pg_temp.late(:run);
SELECT is(pg_temp.state(format('SELECT pgqrs_step_next(%s, %s, ''a'', ''1'', ''b'')', :run, :lease)), 'PQ007',
	'step_next past the deadline is PQ007');

-- A step succeeds, so earlier crashes no longer count; a second delivery continues.
SELECT run_id AS run, lease AS first FROM pgqrs_start('flow') \gset
SELECT pgqrs_step_begin(:run, :first, 'a'), pg_temp.due(:run) \g /dev/null
SELECT pg_temp.claim(:run) AS lease \gset
SELECT is((SELECT failures FROM pgqrs_messages WHERE message_id = :run), 1, 'a lease that was lost counts a crash');
SELECT is(pg_temp.step_next(:run, :lease, 'a', '1', 'b'), 'stored true execute true RUNNING - - attempt 1 cancel false',
	'step_next continues a run of a second delivery');
SELECT is((SELECT failures FROM pgqrs_messages WHERE message_id = :run), 0, 'step_next clears the crashes of its run');
SELECT is(pg_temp.state(format('SELECT pgqrs_step_next(%s, %s, ''a'', ''1'', ''b'')', :run, :first)), 'PQ006',
	'step_next under the lease before is PQ006');

SELECT * FROM finish();
