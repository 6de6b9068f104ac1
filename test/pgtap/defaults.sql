-- NULL for an argument that has a default means the default, for every function
-- and procedure of the extension; and an empty batch is no error.
-- Every function with a default has a call here, or fails.
\ir include/refusals.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_queue('q'), pgqrs_create_queue('brief', max_attempts => 1) \g /dev/null
SELECT pgqrs_create_workflow('flow'), pgqrs_create_workflow('child') \g /dev/null
SELECT pgqrs_register_worker('w', '{q}') AS worker \gset
SELECT pgqrs_enqueue('q', '1', idempotency_key => 'taken') AS sent, pgqrs_enqueue('brief', '1') AS letter \gset
SELECT pgqrs_nack_message(message_id, lease) FROM pgqrs_dequeue('brief') \g /dev/null
SELECT message_id, lease FROM pgqrs_dequeue('q') \gset
SELECT pgqrs_enqueue('q', '2'), pgqrs_trigger('flow', idempotency_key => 'taken', priority => 1) AS run \gset
SELECT lease AS run_lease FROM pgqrs_dequeue('flow') \gset
SELECT pgqrs_start_children(:run, :run_lease, 'many', 'child', '{1,2}') \g /dev/null
SELECT pgqrs_trigger('flow', priority => 1) AS asked \gset
SELECT lease AS asked_lease FROM pgqrs_dequeue('flow') \gset
SELECT pgqrs_cancel_run(:asked) \g /dev/null
SELECT pgqrs_trigger('flow') AS ended \gset
SELECT pgqrs_cancel_run(:ended) \g /dev/null
CREATE FUNCTION handler(payload jsonb) RETURNS void LANGUAGE sql AS '';

-- The arguments that have no default; also of a default that is only taken
-- when another argument is given, in which case that is there too.
CREATE TEMP TABLE calls (function text, required text);
INSERT INTO calls SELECT 'pgqrs_' || function,
	replace(replace(replace(replace(replace(required, 'ASKED', format('%s, %s', :asked, :asked_lease)), 'ENDED',
	:'ended'),
		'RUN', format('%s, %s', :run, :run_lease)), 'HELD', format('%s, %s', :message_id, :lease)), 'RID', :'run')
	FROM (VALUES
		('create_queue', '''new'''), ('create_queue', '''brief'', replace => true'), ('alter_queue', '''q'''),
			('delete_queue', '''q'''), ('delete_queue', '''nothing'''),
		('enqueue', '''q'', ''1'''), ('enqueue', '''q'', ''1'', idempotency_key => ''taken'''),
			('enqueue_batch', '''q'', ''{1,2}'''),
		('dequeue', '''q'''), ('dequeue', 'worker_id => ' || :worker), ('next', 'queue => ''q'''),
			('next', 'worker_id => ' || :worker), ('release_message', 'HELD'),
			('nack_message', 'HELD'), ('extend_lease', 'HELD'),
		('extend_leases', format('ARRAY[%s], ARRAY[%s]', :message_id, :lease)), ('consume', '''q'', ''handler'''),
			('peek', '''q'''),
		('replay_message', :'letter'), ('replay_queue', '''brief'''),
		('register_worker', '''w'', ''{q}'''), ('extend_worker', :'worker'),
		('create_workflow', '''new'''), ('create_workflow', '''flow'', max_attempts => 9, replace => true'),
			('alter_workflow', '''flow'''), ('delete_workflow', '''flow'''), ('delete_workflow', '''nothing'''),
		('trigger', '''flow'''), ('trigger', '''flow'', idempotency_key => ''taken'''),
			('trigger_batch', '''flow'', ''{1,2}'''), ('start', '''flow'''),
			('start', '''flow'', idempotency_key => ''taken'''),
		('wait', 'ENDED'), ('wait_for_work', '''q'''), ('poll', :'worker'),
		('step_begin', 'RUN, ''s'''), ('step_complete', 'RUN, ''s'''), ('step_fail', 'RUN, ''s'', ''{}'''),
			('step_next', 'RUN, ''s'', ''1'', ''t'''),
			('complete_run', 'RUN'), ('fail_run', 'RUN, ''{}'''),
		('pause_run', 'RUN, ''s'''), ('resume_run', 'RID'), ('resume_run', 'RID, step_id => ''s'''),
			('sleep', 'RUN, ''s'', ''1 h'''), ('await_signal', 'RUN, ''s'', ''go'''), ('signal', 'RID, ''go'''),
		('start_child', 'RUN, ''s'', ''child'''), ('start_children', 'RUN, ''s'', ''child'', ''{1}'''),
			('await_children', 'RUN, ''many'''), ('await_any', 'RUN, ''s'', signals => ''{go}'''),
			('await_any', 'RUN, ''s'', timeout => ''1 h'''), ('wait_any', '''{}'''),
		('cancel_run', 'RID'), ('cancel_runs', '''flow'''), ('replay_runs', '''flow'''),
		('rerun_runs', '''flow'''), ('acknowledge_cancel', 'ASKED'), ('rerun', 'ENDED'),
			('delete_run', 'ENDED'),
		('list_runs', ''), ('report_page', '''nothing'''),
			('schedule', '''s'', ''@yearly'', ''flow'''), ('next_firings', '''@yearly''')) v (function,
			required);

CREATE TEMP VIEW defaulted AS
	SELECT p.oid, proname::text AS function, prokind, a::text AS argument, coalesce(proallargtypes[n],
		proargtypes[n - 1])::regtype::text AS type, n <= cardinality(string_to_array(proargtypes::text,
		' ')) AS is_input
	FROM pg_proc p JOIN pg_depend d ON classid = 'pg_proc'::regclass AND objid = p.oid AND deptype = 'e'
		JOIN pg_extension e ON e.oid = refobjid AND extname = 'pgqrs',
		unnest(proargnames[:pronargs]) WITH ORDINALITY u (a, n)
	WHERE n > pronargs - pronargdefaults;
SELECT is(array_agg(DISTINCT function), NULL, 'every function with a default has a call in this test') FROM defaulted
	WHERE function NOT IN (SELECT function FROM calls);

-- What a call answers and writes; nothing of it stays.  Random and passing
-- numbers are left out: leases, jitter, and of instants that were not there
-- before all but the distance from now.
CREATE FUNCTION pg_temp.normal(value text, before text) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	found text;
BEGIN
	FOR found IN SELECT DISTINCT m[1] FROM regexp_matches(value, '\d{4}-\d\d-\d\d[ T]\d\d:\d\d:[0-9.]+[+0-9:]*',
		'g') m WHERE strpos(before, m[1]) = 0 LOOP
		value := replace(value, found,
			'in ' || round(extract(epoch FROM found::timestamptz - clock_timestamp()) / 20)::bigint * 20 || ' s');
	END LOOP;
	RETURN regexp_replace(value, '\d{10,}', 'N', 'g');
END
$$;
CREATE FUNCTION pg_temp.all_rows() RETURNS text LANGUAGE sql AS
$$
	SELECT concat_ws(E'\n', (SELECT jsonb_agg(m ORDER BY message_id) FROM pgqrs_messages m),
		(SELECT jsonb_agg(a ORDER BY message_id) FROM pgqrs_archive a),
		(SELECT jsonb_agg(q ORDER BY queue_id) FROM pgqrs_queues q),
		(SELECT jsonb_agg(w ORDER BY workflow_id) FROM pgqrs_workflows w),
		(SELECT jsonb_agg(r ORDER BY run_id) FROM pgqrs_workflow_runs r),
		(SELECT jsonb_agg(s ORDER BY run_id, step_id) FROM pgqrs_workflow_steps s),
		(SELECT jsonb_agg(s ORDER BY name) FROM pgqrs_schedules s),
		(SELECT jsonb_agg(w ORDER BY worker_id) FROM pgqrs_workers w))
$$;
CREATE FUNCTION pg_temp.effect(call text) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	before text := pg_temp.all_rows();
	result text;
	sequence text;
BEGIN
	BEGIN
		EXECUTE format('SELECT jsonb_agg(c)::text FROM %s c', call) INTO result;
		result := pg_temp.normal(concat_ws(E'\n', result, pg_temp.all_rows()), before);
		RAISE EXCEPTION USING ERRCODE = 'UNDO0';
	EXCEPTION WHEN OTHERS THEN
		IF SQLSTATE <> 'UNDO0' THEN
			result := SQLSTATE || ' ' || SQLERRM;
		END IF;
	END;
	FOR sequence IN SELECT 'pgqrs_' || unnest('{queue,message,worker,signal,schedule}'::text[]) || '_id_seq' LOOP
		PERFORM setval(sequence, 100);
	END LOOP;
	RETURN result;
END
$$;
SELECT pg_temp.effect('pgqrs_now()') \g /dev/null

SELECT is(pg_temp.effect(call || ')'), pg_temp.effect(format('%s%s%s => NULL)', call, CASE
	WHEN call NOT LIKE '%(' THEN ', ' END, argument)), format('NULL as %s, %s, is its default: %s)', argument, type,
	call))
	FROM calls JOIN defaulted d USING (function), LATERAL (SELECT format('%s(%s', function, required) AS call) c
	WHERE prokind = 'f' AND required !~ ('\y' || argument || ' =>') AND NOT (function = 'pgqrs_sleep'
		AND argument = 'duration')
		AND NOT (function IN ('pgqrs_dequeue', 'pgqrs_next') AND argument = 'queue');
SELECT is(pg_temp.effect(format('%s(%s)', function, required)) ~ '^22004', false,
	'the call of this test is accepted: ' || function || '(' || required || ')') FROM calls
	WHERE function NOT LIKE 'pgqrs\_wait%' AND function <> 'pgqrs_poll';

-- Procedures, which are called by themselves.
SELECT is(array_agg(DISTINCT function || ' ' || argument ORDER BY function || ' ' || argument),
	'{"pgqrs_poll batch_size","pgqrs_poll held","pgqrs_poll held_ids","pgqrs_poll held_leases","pgqrs_poll timeout",'
		'"pgqrs_poll work","pgqrs_poll worker_status",'
		'"pgqrs_wait error","pgqrs_wait output","pgqrs_wait status","pgqrs_wait timeout",'
		'"pgqrs_wait_any error","pgqrs_wait_any output","pgqrs_wait_any run_id","pgqrs_wait_any status",'
		'"pgqrs_wait_any timeout",'
		'"pgqrs_wait_for_work available","pgqrs_wait_for_work queue","pgqrs_wait_for_work timeout",'
		'"pgqrs_wait_for_work worker_id"}',
	'the procedures with defaults are those called below') FROM defaulted WHERE prokind = 'p';
CALL pgqrs_wait(:ended, NULL, NULL, NULL, NULL) \gset
SELECT is(:'status'::text, 'CANCELLED', 'pgqrs_wait() takes NULL for each argument that has a default');
CALL pgqrs_wait_any(ARRAY[:ended], NULL, NULL, NULL, NULL, NULL) \gset any_
SELECT is(:'any_status'::text, 'CANCELLED', 'pgqrs_wait_any() takes NULL for each argument that has a default');
CALL pgqrs_wait_for_work('q', NULL, NULL, NULL) \gset
SELECT is(:'available'::text, 't', 'pgqrs_wait_for_work() takes NULL for each argument that has a default');
CALL pgqrs_poll(:worker, NULL, NULL, NULL, NULL, NULL, NULL, NULL) \gset
SELECT is(jsonb_array_length(:'work') || :'held', '1[]',
	'pgqrs_poll() takes NULL for each argument that has a default');

--
-- Empty batches
--

SELECT is(pg_temp.effect(empty), concat_ws(E'\n', answer, substr(nothing, strpos(nothing, E'\n') + 1)),
	'an empty batch does nothing: ' || empty)
	FROM (VALUES ('pgqrs_enqueue_batch(''q'', ''{}'')', '[[]]'),
		('pgqrs_enqueue_batch(''q'', ''{}'', headers => ''{}'')', '[[]]'), ('pgqrs_archive_messages(''{}'', ''{}'')',
		'[[]]'), ('pgqrs_extend_leases(''{}'', ''{}'')', NULL),
		('pgqrs_trigger_batch(''flow'', ''{}'')', '[[]]'), ('pgqrs_trigger_batch(''flow'', ''{}'', ''{}'')', '[[]]'),
			('pgqrs_dequeue(''q'', batch_size => 0)', NULL),
		('pgqrs_dequeue(''*'', batch_size => 0)', NULL), ('pgqrs_next(queue => ''q'', batch_size => 0)', NULL),
		('pgqrs_next(queue => ''q'', batch_size => 0, done_ids => ''{}'', done_leases => ''{}'', outputs => ''{}'')', NULL),
		 ('pgqrs_consume(''q'', ''handler'', 0)', '[0]'),
			('pgqrs_peek(''q'', 0)', NULL), ('pgqrs_replay_queue(''brief'', 0)', '[0]'),
		('pgqrs_list_runs(page_size => 0)', NULL), ('pgqrs_next_firings(''@yearly'', n => 0)', NULL)) v (empty,
			answer),
	LATERAL (SELECT pg_temp.effect('(SELECT 1)') AS nothing) n;
SELECT is(pg_temp.effect(call), state, 'an empty batch is checked all the same: ' || call)
	FROM (VALUES ('pgqrs_enqueue_batch(''nothing'', ''{}'')', 'PQ001 queue "nothing" does not exist'),
		('pgqrs_trigger_batch(''nothing'', ''{}'')', 'PQ002 workflow "nothing" does not exist'),
		('pgqrs_dequeue(''nothing'', batch_size => 0)', 'PQ001 queue "nothing" does not exist'),
			('pgqrs_enqueue_batch(''q'', ''{}'', headers => ''{NULL}'')',
			'22023 array "payloads" has 0 elements, "headers" has 1'),
		('pgqrs_archive_messages(''{}'', ''{1}'')', '22023 array "message_ids" has 0 elements, "leases" has 1'),
			('pgqrs_register_worker(''none'', ''{}'')', '22023 array "queues" is empty')) v (call, state);

SELECT * FROM finish();
