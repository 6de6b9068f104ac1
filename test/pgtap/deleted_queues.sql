-- What was deleted by force is absent from the commit on, for every function, view
-- and page, while its rows wait for retention; and retention removes them in batches.
SELECT * FROM no_plan();
\ir include/refusals.sql

CREATE FUNCTION pg_temp.left_over() RETURNS bigint LANGUAGE sql AS
$$
	SELECT (SELECT count(*) FROM pgqrs_queues WHERE deleted_at IS NOT NULL)
		+ (SELECT count(*) FROM pgqrs_messages m WHERE NOT EXISTS (SELECT FROM pgqrs_queues q WHERE q.queue_id = m.queue_id))
		+ (SELECT count(*) FROM pgqrs_archive a WHERE NOT EXISTS (SELECT FROM pgqrs_queues q WHERE q.queue_id = a.queue_id))
		+ (SELECT count(*) FROM pgqrs_workflows w
			WHERE NOT EXISTS (SELECT FROM pgqrs_queues q WHERE q.queue_id = w.workflow_id))
		+ (SELECT count(*) FROM pgqrs_workflow_runs r
			WHERE NOT EXISTS (SELECT FROM pgqrs_workflows w WHERE w.workflow_id = r.workflow_id))
		+ (SELECT count(*) FROM pgqrs_workflow_steps s
			WHERE NOT EXISTS (SELECT FROM pgqrs_workflow_runs r WHERE r.run_id = s.run_id))
		+ (SELECT count(*) FROM pgqrs_run_signals s
			WHERE NOT EXISTS (SELECT FROM pgqrs_workflow_runs r WHERE r.run_id = s.run_id))
$$;

-- A value, or the SQLSTATE of the error.
CREATE FUNCTION pg_temp.answer(call text) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	value text;
BEGIN
	EXECUTE 'SELECT x::text FROM ' || call || ' AS x' INTO value;
	RETURN coalesce(value, 'NULL');
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END
$$;

--
-- A queue and a workflow with something of each kind
--

\o /dev/null
SELECT pgqrs_create_queue('lost queue', max_attempts => 1), pgqrs_create_workflow('lost flow', max_attempts => 1),
	pgqrs_create_workflow('child'), pgqrs_create_workflow('parent', outbox_queue => 'lost queue');
SELECT queue_id AS q FROM pgqrs_queues WHERE name = 'lost queue' \gset
SELECT queue_id AS w FROM pgqrs_queues WHERE name = 'lost flow' \gset
SELECT pgqrs_register_worker('worker', '{*}') AS worker \gset
SELECT pgqrs_enqueue('lost queue', '"done"') AS done \gset
SELECT lease AS done_lease FROM pgqrs_dequeue('lost queue') \gset
SELECT pgqrs_archive_message(:done, :done_lease);
SELECT pgqrs_enqueue('lost queue', '"dead"') AS dead \gset
SELECT pgqrs_nack_message(message_id, lease, '{"type": "lost"}') FROM pgqrs_dequeue('lost queue');
SELECT pgqrs_enqueue('lost queue', '"held"', priority => 1) AS held \gset
SELECT lease AS held_lease FROM pgqrs_dequeue('lost queue', worker_id => :worker) \gset
SELECT pgqrs_enqueue('lost queue', '"keyed"', idempotency_key => 'k') AS keyed \gset
SELECT pgqrs_enqueue('lost queue', '"delayed"', delay => '1 h');
SELECT pgqrs_trigger('lost flow') AS success, pgqrs_trigger('lost flow') AS error \gset
SELECT pgqrs_complete_run(run_id, lease, '"lost"') FROM pgqrs_dequeue('lost flow') WHERE run_id = :success;
SELECT pgqrs_fail_run(run_id, lease, '{"type": "lost"}') FROM pgqrs_dequeue('lost flow');
SELECT pgqrs_trigger('lost flow', idempotency_key => 'k', tags => '{"lost": "1"}', priority => 1) AS run \gset
SELECT lease AS run_lease FROM pgqrs_dequeue('lost flow', worker_id => :worker) \gset
SELECT pgqrs_step_begin(:run, :run_lease, 'lost step'), pgqrs_step_complete(:run, :run_lease, 'lost step', '1'),
	pgqrs_signal(:run, 'lost signal');
SELECT pgqrs_start_child(:run, :run_lease, 'c', 'child', delay => '1 h') AS child \gset
SELECT pgqrs_trigger('parent') AS parent \gset
SELECT lease AS parent_lease FROM pgqrs_dequeue('parent') \gset
SELECT pgqrs_start_child(:parent, :parent_lease, 'c', 'lost flow') AS own \gset
SELECT pgqrs_await_child(:parent, :parent_lease, 'c');
SELECT pgqrs_schedule('lost schedule', '@daily', 'lost flow');
CREATE ROLE lost_sender;
SELECT pgqrs_grant('lost queue', 'lost_sender', 'trigger');

-- Every function that takes the id of a message or a run, with what it answers.
CREATE TEMP TABLE calls AS
	SELECT p.proname::text AS name, format('%s(%s)', p.oid::regproc, (
			SELECT string_agg(CASE
					WHEN a.name IN ('run_id', 'message_id') THEN 'ID'
					WHEN a.name = 'lease' THEN 'LEASE'
					WHEN a.name = 'next_step' THEN 'next_step => ''next'''
					ELSE format('%s => %L', a.name, CASE a.type
						WHEN 'text'::regtype THEN 'child' WHEN 'jsonb'::regtype THEN '{}' WHEN 'timestamptz'::regtype THEN 'now'
						WHEN 'interval'::regtype THEN '1 s' WHEN 'jsonb[]'::regtype THEN '{1}' END) END, ', ' ORDER BY a.place)
			FROM unnest(p.proargnames[:p.pronargs], p.proargtypes::oid[]) WITH ORDINALITY AS a (name, type, place)
			WHERE a.place <= p.pronargs - p.pronargdefaults
				OR (p.proname, a.name) IN (('pgqrs_sleep', 'duration'), ('pgqrs_await_any', 'timeout')))) AS call,
		'lease' = ANY (p.proargnames[:p.pronargs]) AS by_lease, p.proargnames[1] = 'run_id' AS of_run
	FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
	WHERE p.prokind = 'f' AND p.proargnames[1] IN ('run_id', 'message_id');
\o
SELECT cmp_ok(count(*), '>', 30::bigint, 'functions take an id') FROM calls;

SELECT is(pgqrs_delete_queue('lost queue', force => true), true, 'a queue is deleted that has messages');
SELECT is(pgqrs_delete_workflow('lost flow', force => true), true, 'a workflow is deleted that has runs');

--
-- Absent from the commit on
--

SELECT is((SELECT count(*) FROM pgqrs_messages WHERE queue_id IN (:q, :w))
	+ (SELECT count(*) FROM pgqrs_workflow_runs WHERE workflow_id = :w), 9::bigint,
	'nothing has removed their rows yet');
SELECT is(pg_temp.answer(replace(replace(call, 'ID', :'run'), 'LEASE', :'run_lease')),
	CASE name WHEN 'pgqrs_run_crashes' THEN 'NULL' ELSE 'PQ003' END,
	format('a live run of a deleted workflow is absent for %s()', name)) FROM calls WHERE of_run;
SELECT is(pg_temp.answer(replace(call, 'ID', :'success')),
	CASE name WHEN 'pgqrs_run_crashes' THEN 'NULL' ELSE 'PQ003' END,
	format('an ended run of a deleted workflow is absent for %s()', name)) FROM calls WHERE of_run AND NOT by_lease;
SELECT is(pg_temp.answer(replace(replace(call, 'ID', id), 'LEASE', lease)),
	CASE WHEN name = 'pgqrs_extend_lease' THEN '(f,f)' WHEN name = 'pgqrs_holder_of' THEN '(,,)'
		WHEN by_lease THEN 'PQ006' ELSE 'PQ004' END,
	format('a %s message of a deleted queue is absent for %s()', what, name))
	FROM calls, (VALUES ('held', :'held', :'held_lease'), ('done', :'done', :'done_lease'),
		('dead', :'dead', '1')) AS m (what, id, lease) WHERE NOT of_run;
SELECT is(pgqrs_archive_messages(ARRAY[:held, :done, :run], ARRAY[:held_lease, :done_lease, :run_lease]),
	'{NULL,NULL,NULL}', 'their leases are not current for archive_messages()');
SELECT is(array_agg(extended), '{f,f}', 'their leases are not extended')
	FROM pgqrs_extend_leases(ARRAY[:held, :run], ARRAY[:held_lease, :run_lease]);
SELECT is(count(*), 0::bigint, 'a worker holds nothing of them any more') FROM pgqrs_extend_worker(:worker)
	WHERE extended;
SELECT is(count(*), 0::bigint,
	'a claim by pattern returns no message of the deleted queues') FROM pgqrs_dequeue('*', batch_size => 100)
	WHERE queue LIKE 'lost%';
SELECT is(count(*), 0::bigint, 'a claim for a worker of all queues returns no message of the deleted queues')
	FROM pgqrs_dequeue(worker_id => :worker, batch_size => 100) WHERE queue LIKE 'lost%';
SELECT is(pg_temp.answer(call), expected, 'by its name it is absent: ' || call) FROM (VALUES
	('pgqrs_enqueue(''lost queue'', ''1'')', 'PQ001'), ('pgqrs_enqueue_batch(''lost queue'', ''{1}'')', 'PQ001'),
		('pgqrs_dequeue(''lost queue'')', 'PQ001'),
	('pgqrs_peek(''lost queue'')', 'PQ001'), ('pgqrs_purge_queue(''lost queue'')', 'PQ001'),
		('pgqrs_pause_queue(''lost queue'')', 'PQ001'),
	('pgqrs_alter_queue(''lost queue'')', 'PQ001'), ('pgqrs_replay_queue(''lost queue'')', 'PQ001'),
		('pgqrs_purge_dead_letters(''lost queue'', ''0'')', 'PQ001'),
	('pgqrs_delete_queue(''lost queue'')', 'false'), ('pgqrs_delete_queue(''lost queue'', force => true)', 'false'),
	('pgqrs_alter_workflow(''parent'', outbox_queue => ''lost queue'')', 'PQ001'),
		('pgqrs_alter_workflow(''lost flow'')', 'PQ002'),
	('pgqrs_trigger(''lost flow'')', 'PQ002'), ('pgqrs_find_run(''lost flow'', ''k'')', 'PQ002'),
		('pgqrs_schedule(''s'', ''@daily'', ''lost flow'')', 'PQ002'),
	('pgqrs_delete_workflow(''lost flow'', force => true)', 'false'),
		('pgqrs_trigger_schedule(''lost schedule'')', '42704'),
	('pgqrs_replay_runs(''lost flow'')', 'PQ002'),
	('pgqrs_rerun_runs(''lost flow'')', 'PQ002'),
	('pgqrs_cancel_runs(''lost flow'')', 'PQ002')) AS c (call, expected);
CREATE FUNCTION pg_temp.shows(view regclass) RETURNS boolean LANGUAGE plpgsql AS
$$
DECLARE
	found boolean;
BEGIN
	EXECUTE format('SELECT bool_or(v::text LIKE ''%%lost%%'') FROM %s AS v', view) INTO found;
	RETURN coalesce(found, false);
END
$$;
SELECT is(pg_temp.shows(c.oid), false, format('view %s leaves out what is deleted', c.relname))
	FROM pg_class c JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'
		WHERE c.relkind = 'v';
SELECT is(count(*), 0::bigint, 'no list of runs has them') FROM pgqrs_list_runs() WHERE workflow LIKE 'lost%';
SELECT is(pgqrs_report() LIKE '%lost%', false, 'the report leaves out what is deleted');
SELECT is(string_agg(check_name, ' '), NULL, 'verify finds nothing wrong') FROM pgqrs_verify() WHERE NOT ok;

--
-- The name is free
--

SELECT is(pgqrs_create_queue('lost queue') > :q AND pgqrs_create_workflow('lost flow') > :w, true,
	'both are created again at once');
SELECT is((SELECT count(*) FROM pgqrs_peek('lost queue')) + (SELECT count(*) FROM pgqrs_list_runs('lost flow'))
	+ (SELECT count(*) FROM pgqrs_dead_letters), 0::bigint,
	'the new queue and workflow are empty');
SELECT is(pgqrs_find_run('lost flow', 'k'), NULL, 'the key of a run is free');
SELECT is(pgqrs_trigger('lost flow', idempotency_key => 'k') > :run
	AND pgqrs_enqueue('lost queue', '1', idempotency_key => 'k') > :keyed, true,
		'the keys of the deleted queue and workflow are free');
SELECT is(count(*), 0::bigint, 'the new workflow has no schedules') FROM pgqrs_schedule_list;
SELECT is(outbox_queue, NULL, 'the new queue is no outbox') FROM pgqrs_workflows WHERE name = 'parent';
SET ROLE lost_sender;
SELECT is(pgqrs_enqueue('lost queue', '2') > 0, true, 'grants on the name stay');
RESET ROLE;
SELECT is(pg_temp.answer(format('pgqrs_get_run(%s)', :run)), 'PQ003',
	'a run of the old workflow is no run of the new one');
SELECT is(pg_temp.answer(format('pgqrs_set_visibility(%s, now())', :held)), 'PQ004',
	'a message of the old queue is no message of the new one');

--
-- Retention
--

SELECT pgqrs_maintain() \g /dev/null
SELECT is((pgqrs_result(:child)).status, 'CANCELLED', 'the child of a deleted run is cancelled');
SELECT lease AS parent_lease FROM pgqrs_dequeue('parent') \gset
SELECT is(pgqrs_await_child(:parent, :parent_lease, 'c')::text LIKE '(t,CANCELLED,%', true,
	'the parent of a deleted run is woken and told that it was cancelled');
SELECT pg_temp.empty_deleted();
SELECT is(pg_temp.left_over(), 0::bigint, 'retention leaves no row of the deleted queues');
SELECT is((SELECT count(*) FROM pgqrs_messages WHERE queue_id IN (:q, :w))
	+ (SELECT count(*) FROM pgqrs_workflow_runs WHERE workflow_id = :w), 0::bigint,
		'messages and runs of the deleted queues are removed');
SELECT is((SELECT count(*) FROM pgqrs_peek('lost queue')) + (SELECT count(*) FROM pgqrs_peek('lost flow')), 3::bigint,
	'messages of the new queues stay');
SELECT is(string_agg(check_name, ' '), NULL, 'verify finds nothing wrong afterwards') FROM pgqrs_verify() WHERE NOT ok;

-- Batches
SELECT pgqrs_create_queue('large'), pgqrs_create_workflow('large flow') \g /dev/null
SELECT cardinality(pgqrs_enqueue_batch('large', array_fill('1'::jsonb, ARRAY[1500]))),
	cardinality(pgqrs_trigger_batch('large flow', array_fill('1'::jsonb, ARRAY[700]))) \g /dev/null
SELECT pgqrs_delete_queue('large', force => true), pgqrs_delete_workflow('large flow', force => true) \g /dev/null
SELECT is(pgqrs_apply_retention() - 'runs_removed', '{"messages_removed": 1000, "firings_removed": 0, "more": true}',
	'a batch of retention ends a thousand live messages of deleted queues');
CREATE TEMP TABLE batches AS SELECT g, pgqrs_apply_retention() AS removed FROM generate_series(1, 3) g;
SELECT is((removed->>'messages_removed', removed->>'runs_removed', removed->>'more')::text, '(500,500,true)',
	'the next batch removes the other messages and as many runs') FROM batches WHERE g = 1;
SELECT is((removed->>'runs_removed', removed->>'more')::text, '(200,false)',
	'the batch after that removes the last runs')
	FROM batches WHERE g = 2;
SELECT is(pg_temp.left_over(), 0::bigint, 'the last batch removes the queues');

-- A transaction that had sent to the queue before it was deleted, and is prepared.
SELECT pgqrs_create_queue('sent to'), pgqrs_create_workflow('sent to flow') \g /dev/null
BEGIN;
SELECT pgqrs_enqueue('sent to', '1'), pgqrs_trigger('sent to flow', idempotency_key => 'k') \g /dev/null
PREPARE TRANSACTION 'pgqrs deleted_queues';
SELECT is(pgqrs_delete_queue('sent to', force => true) AND pgqrs_delete_workflow('sent to flow', force => true), true,
	'with force a delete does not wait for senders');
SELECT pgqrs_create_queue('sent to'), pgqrs_create_workflow('sent to flow') \g /dev/null
SELECT pgqrs_maintain() \g /dev/null
SELECT is(count(*), 2::bigint, 'the deleted queues wait for their senders') FROM pgqrs_queues
	WHERE deleted_at IS NOT NULL;
COMMIT PREPARED 'pgqrs deleted_queues';
SELECT is(count(*), 0::bigint,
	'a message that was sent to a deleted queue is not delivered') FROM pgqrs_dequeue('*', batch_size => 100)
	WHERE queue LIKE 'sent to%';
SELECT is(pgqrs_find_run('sent to flow', 'k'), NULL,
	'a run that was sent to a deleted workflow is not found by its key');
SELECT pg_temp.empty_deleted();
SELECT is(pg_temp.left_over(), 0::bigint, 'retention removes that message and run with their queues');

SELECT pgqrs_revoke('lost queue', 'lost_sender', 'trigger');
DROP ROLE lost_sender;

SELECT * FROM finish();
