-- pgqrs_verify(): a database that went through all kinds of operations is well,
-- and each kind of fault, made behind the functions' back, is found by its check.
SET client_min_messages = error;
SELECT * FROM no_plan();

--
-- All kinds of operations
--

CREATE FUNCTION pg_temp.claim(queue text, OUT id bigint, OUT held bigint) LANGUAGE sql AS
$$ SELECT message_id, lease FROM public.pgqrs_dequeue(queue, (SELECT worker_id FROM public.pgqrs_workers
	WHERE name = 'w' AND stopped_at IS NULL)) $$;

\o /dev/null
SELECT pgqrs_register_worker('w', '{*}'), pgqrs_register_worker('w', '{*}'),
	pgqrs_stop_worker(pgqrs_register_worker('gone', '{*}'));
SELECT pgqrs_create_queue('mail', max_attempts => 2), pgqrs_create_queue('events'), pgqrs_create_queue('brief',
	retention => '0'),
	pgqrs_create_workflow('flow', initial_interval => '1 us', outbox_queue => 'events', max_crashes => 2),
		pgqrs_create_workflow('child', key_scope => 'active', timeout => '1 day');

-- messages
SELECT pgqrs_enqueue('mail', '1', idempotency_key => 'a'), pgqrs_enqueue('mail', '1', idempotency_key => 'b'),
	pgqrs_enqueue('mail', '2', delay => '1 hour'), pgqrs_enqueue_batch('mail', '{3,4,5,6,7,8,9}', priority => -3);
SELECT id, held FROM pg_temp.claim('mail') \gset
SELECT pgqrs_archive_message(:id, :held);
SELECT id, held FROM pg_temp.claim('mail') \gset
SELECT pgqrs_nack_message(:id, :held, '{}', '0');
SELECT id, held FROM pg_temp.claim('mail') \gset
SELECT pgqrs_nack_message(:id, :held);
SELECT id, held FROM pg_temp.claim('mail') \gset
SELECT pgqrs_delete_message(:id, :held);
SELECT id, held FROM pg_temp.claim('mail') \gset
SELECT pgqrs_release_message(:id, :held, '1 min');
SELECT id, held FROM pg_temp.claim('mail') \gset
SELECT pgqrs_set_visibility(:id, now());
SELECT id, held FROM pg_temp.claim('mail') \gset
SELECT pgqrs_extend_lease(:id, :held, '1 hour');
SELECT pgqrs_dequeue('mail', visibility_timeout => '1 us');
SELECT pgqrs_dequeue('mail', visibility_timeout => '1 us', batch_size => 2);
SELECT pgqrs_dequeue('mail', visibility_timeout => '1 us', batch_size => 2);
SELECT pgqrs_replay_message(message_id) FROM pgqrs_dead_letters WHERE queue = 'mail' LIMIT 1;
SELECT pgqrs_enqueue('brief', '1');
SELECT pgqrs_archive_message(id, held) FROM pg_temp.claim('brief');

-- runs: queued, running, to be tried again, asked to stop, parked in each way
SELECT pgqrs_trigger('flow', '1'), pgqrs_trigger('flow', idempotency_key => 'k', tags => '{"a": 1}',
	timeout => '1 hour', delay => '1 hour'), pgqrs_trigger('child', idempotency_key => 'k', priority => 9);
SELECT id, held FROM pg_temp.claim('child') \gset
SELECT pgqrs_step_begin(:id, :held, 'a'), pgqrs_set_progress(:id, :held, '1');
SELECT id, held FROM pg_temp.claim('flow') \gset
SELECT pgqrs_step_fail(:id, :held, 'a', '{}', retry_after => '1 hour');
SELECT pgqrs_trigger('flow', priority => 5) AS asked \gset
SELECT id, held FROM pg_temp.claim('flow') \gset
SELECT pgqrs_step_begin(:id, :held, 'a'), pgqrs_cancel_run(:id);
SELECT pgqrs_trigger('flow');
SELECT id, held FROM pg_temp.claim('flow') \gset
SELECT pgqrs_pause_run(:id, :held, 'p');
SELECT pgqrs_trigger('flow');
SELECT id, held FROM pg_temp.claim('flow') \gset
SELECT pgqrs_sleep(:id, :held, 'z', '1 hour');
SELECT pgqrs_trigger('flow');
SELECT id, held FROM pg_temp.claim('flow') \gset
SELECT pgqrs_signal(:id, 'go', idempotency_key => 'k'), pgqrs_signal(:id, 'later', idempotency_key => 'l'),
	pgqrs_await_signal(:id, :held, 's', 'go');
SELECT pgqrs_await_signal(:id, :held, 'never', 'never', timeout => '0');
SELECT pgqrs_await_signal(:id, :held, 's 2', 'go');
SELECT pgqrs_trigger('flow');
SELECT id, held FROM pg_temp.claim('flow') \gset
SELECT pgqrs_start_child(:id, :held, 'c', 'child', on_parent_end => 'abandon'), pgqrs_start_children(:id, :held, 'cs',
	'child', '{1,2,3}');
SELECT pgqrs_await_children(:id, :held, 'cs');
-- woken and claimed again
SELECT pgqrs_trigger('flow');
SELECT id, held FROM pg_temp.claim('flow') \gset
SELECT pgqrs_await_signal(:id, :held, 's', 'go');
SELECT pgqrs_signal(:id, 'go');
SELECT pgqrs_trigger('flow');
SELECT id, held FROM pg_temp.claim('flow') \gset
SELECT pgqrs_pause_run(:id, :held, 'p');
SELECT pgqrs_resume_run(:id);
SELECT held FROM pg_temp.claim('flow') \gset
-- ended in each way
SELECT pgqrs_trigger('flow', idempotency_key => 'success', priority => 5) AS success \gset
SELECT id, held FROM pg_temp.claim('flow') \gset
SELECT pgqrs_step_begin(:id, :held, 'a'), pgqrs_step_complete(:id, :held, 'a'), pgqrs_step_begin(:id, :held, 'b'),
	pgqrs_complete_run(:id, :held);
SELECT pgqrs_trigger('flow', priority => 5) AS error \gset
SELECT id, held FROM pg_temp.claim('flow') \gset
SELECT pgqrs_start_child(:id, :held, 'c', 'child'), pgqrs_step_fail(:id, :held, 'b', '{}', retryable => false,
	fail_run => false), pgqrs_step_fail(:id, :held, 'a', '{}', retryable => false);
SELECT pgqrs_trigger('flow');
SELECT id, held FROM pg_temp.claim('flow') \gset
SELECT pgqrs_fail_run(:id, :held, '{}');
SELECT pgqrs_replay_message(:id);
SELECT pgqrs_trigger('flow', priority => 5);
SELECT id, held FROM pg_temp.claim('flow') \gset
SELECT pgqrs_fail_run(:id, :held, '{}');
SELECT pgqrs_purge_dead_letters('flow', '0');
SELECT pgqrs_trigger('flow', priority => 5) AS crashed \gset
SELECT pgqrs_dequeue('flow', visibility_timeout => '1 us'), pgqrs_dequeue('flow', visibility_timeout => '1 us');
SELECT pgqrs_trigger('flow', timeout => '1 us', priority => 5) AS late \gset
SELECT pgqrs_trigger('flow', priority => 5);
SELECT id, held FROM pg_temp.claim('flow') \gset
SELECT pgqrs_cancel_run(:id, 'no'), pgqrs_acknowledge_cancel(:id, :held, '1');
SELECT pgqrs_cancel_run(pgqrs_trigger('flow')) AS cancelled,
	pgqrs_delete_run(pgqrs_trigger('child', idempotency_key => 'deleted'), 'why');
SELECT pgqrs_rerun(:success, from_step => 'b'), pgqrs_rerun(:error, keep_finished => true);
SELECT pgqrs_create_workflow('dropped'), pgqrs_trigger('dropped'), pgqrs_schedule('dropped', '@daily', 'dropped');
SELECT pgqrs_delete_workflow('dropped', true);
SELECT pgqrs_schedule('daily', '@daily', 'child');
SELECT pgqrs_trigger_schedule('daily');
UPDATE pgqrs_schedules SET next_fire_at = now() - interval '3 days';
SELECT pgqrs_maintain(), pgqrs_apply_retention(), pgqrs_maintain();
SELECT pgqrs_replay_queue('flow', 1);
-- as pgqrs.audit writes them
INSERT INTO pgqrs_run_events SELECT nextval('pgqrs_event_id_seq'), run_id, now(), 'created' FROM pgqrs_workflow_runs;
\o

SELECT cmp_ok(count(*), '>', 0::bigint, 'the test has runs that are ' || status)
	FROM unnest('{QUEUED,RUNNING,PAUSED,SUCCESS,ERROR,CANCELLED}'::text[]) AS status JOIN pgqrs_runs USING (status)
	GROUP BY status;
SELECT is(count(DISTINCT outcome), 4::bigint, 'the test has messages that ended in each way') FROM pgqrs_archive;
SELECT ok(count(*) > 2, 'the test has firings of schedules') FROM pgqrs_schedule_firings;

CREATE VIEW pg_temp.found AS SELECT coalesce(string_agg(check_name || ' ' || detail, ', '), 'nothing') AS found
	FROM public.pgqrs_verify() WHERE NOT ok;
SELECT is(found, 'nothing', 'pgqrs_verify() finds nothing wrong in sound tables') FROM pg_temp.found;
SELECT is(count(*), 29::bigint, 'pgqrs_verify() returns each check once, without a detail if it holds')
	FROM pgqrs_verify() WHERE ok AND detail IS NULL;

--
-- Faults
--

-- The checks that find a fault, which is undone.
CREATE FUNCTION pg_temp.found_by(fault text, OUT checks text) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('session_replication_role', 'replica', true);
	EXECUTE fault;
	SELECT string_agg(check_name, ', ') INTO checks FROM public.pgqrs_verify() WHERE NOT ok;
	RAISE EXCEPTION SQLSTATE 'ZZ000';
EXCEPTION WHEN SQLSTATE 'ZZ000' THEN
END
$$;

-- A row of each kind, by what tells it.
CREATE FUNCTION pg_temp.a(kind text) RETURNS bigint LANGUAGE sql STABLE AS $$
	SELECT CASE kind
		WHEN 'waiting' THEN (SELECT min(message_id) FROM public.pgqrs_messages WHERE run_id IS NULL AND lease IS NULL)
		WHEN 'held' THEN (SELECT min(message_id) FROM public.pgqrs_messages WHERE run_id IS NULL AND lease IS NOT NULL
			AND worker_id IS NOT NULL)
		WHEN 'dead' THEN (SELECT min(message_id) FROM public.pgqrs_archive WHERE run_id IS NULL)
		WHEN 'asked' THEN (SELECT min(run_id) FROM public.pgqrs_workflow_runs WHERE status = 'RUNNING'
			AND cancel_requested_at IS NOT NULL)
		WHEN 'signalled' THEN (SELECT min(run_id) FROM public.pgqrs_workflow_runs WHERE waiting_for LIKE 'signal%')
		WHEN 'keyed' THEN (SELECT min(run_id) FROM public.pgqrs_workflow_runs WHERE key_scope = 'active'
			AND status = 'RUNNING')
		WHEN 'RUNNING' THEN (SELECT min(run_id) FROM public.pgqrs_workflow_runs
			JOIN public.pgqrs_messages AS m USING (run_id) WHERE status = 'RUNNING' AND cancel_requested_at IS NULL
			AND m.lease IS NOT NULL)
		ELSE (SELECT min(run_id) FROM public.pgqrs_workflow_runs WHERE status::text = kind) END
$$;

CREATE TEMP TABLE fault (found text, fault text);
INSERT INTO fault VALUES
	('messages without queue', 'UPDATE pgqrs_messages SET queue_id = 1000 WHERE message_id = pg_temp.a(''waiting'')'),
	('archived messages without queue',
		'UPDATE pgqrs_archive SET queue_id = 1000 WHERE message_id = pg_temp.a(''dead'')'),
	('workflows without queue',
		'INSERT INTO pgqrs_workflows SELECT (jsonb_populate_record(w, ''{"workflow_id": 1000, "name": "x"}'')).* '
		'FROM pgqrs_workflows AS w WHERE name = ''flow'''),
	('queues without workflow', 'UPDATE pgqrs_queues SET is_workflow = true WHERE name = ''brief'''),
	('runs without workflow',
		'UPDATE pgqrs_workflow_runs SET workflow_id = 1000 WHERE run_id = pg_temp.a(''SUCCESS'')'),
	('steps without run', 'UPDATE pgqrs_workflow_steps SET run_id = 1000000 WHERE run_id = pg_temp.a(''SUCCESS'')'),
	('parents without run', 'INSERT INTO pgqrs_workflow_run_parents VALUES (1000000, 1000001, ''cancel'', ''c'')'),
	('signals without run', 'UPDATE pgqrs_run_signals SET run_id = 1000000 WHERE idempotency_key = ''k'''),
	('events without run',
		'UPDATE pgqrs_run_events SET run_id = 1000000 WHERE event_id = (SELECT min(event_id) FROM pgqrs_run_events)'),
	('schedules without workflow', 'UPDATE pgqrs_schedules SET workflow = ''mail'''),
	('firings without schedule', 'DELETE FROM pgqrs_schedules'),
	('counters without queue', 'INSERT INTO pgqrs_counters VALUES (1000000, 1, ''{}'', ''{}'')'),
	('runs without message', 'DELETE FROM pgqrs_messages WHERE message_id = pg_temp.a(''QUEUED'')'),
	('runs without message', 'DELETE FROM pgqrs_messages WHERE message_id = pg_temp.a(''RUNNING'')'),
	('runs without message', 'DELETE FROM pgqrs_messages WHERE message_id = pg_temp.a(''PAUSED'')'),
	('messages without run',
		'DELETE FROM pgqrs_run_events; DELETE FROM pgqrs_workflow_runs WHERE run_id = pg_temp.a(''QUEUED'')'),
	('ended runs without message', 'DELETE FROM pgqrs_archive WHERE message_id = pg_temp.a(''ERROR'')'),
	('archived messages without run',
		'UPDATE pgqrs_archive SET run_id = 1000000 WHERE message_id = pg_temp.a(''dead'')'),
	('messages both live and archived',
		'UPDATE pgqrs_archive SET message_id = pg_temp.a(''held'') WHERE message_id = pg_temp.a(''dead'')'),
	('outcomes of runs', 'UPDATE pgqrs_archive SET outcome = ''DEAD'' WHERE message_id = pg_temp.a(''SUCCESS'')'),
	('outcomes of runs', 'UPDATE pgqrs_archive SET outcome = ''DONE'' WHERE message_id = pg_temp.a(''ERROR'')'),
	('outcomes of runs',
		'UPDATE pgqrs_archive SET outcome = ''DELETED'' WHERE message_id = pg_temp.a(''CANCELLED'')'),
	('duplicate keys of messages',
		'UPDATE pg_index SET indisunique = false WHERE indexrelid = ''pgqrs_messages_key_idx''::regclass; UPDATE '
		'pgqrs_messages SET idempotency_key = ''x'' WHERE run_id IS NULL'),
	('duplicate keys of runs',
		'UPDATE pg_index SET indisunique = false WHERE indexrelid = ''pgqrs_workflow_runs_key_idx''::regclass; '
		'UPDATE pgqrs_workflow_runs SET idempotency_key = ''k'' WHERE idempotency_key = ''success'''),
	('duplicate keys of signals',
		'UPDATE pg_index SET indisunique = false WHERE indexrelid = ''pgqrs_run_signals_key_idx''::regclass; UPDATE '
		'pgqrs_run_signals SET idempotency_key = ''k'' WHERE idempotency_key = ''l''');
INSERT INTO fault SELECT 'states of messages', format('UPDATE pgqrs_messages SET %s WHERE message_id = pg_temp.a(%L)',
	change, kind)
	FROM (VALUES ('waiting', 'payload = NULL'),
		('waiting', 'queue_id = (SELECT workflow_id FROM pgqrs_workflows WHERE name = ''flow'')'),
		('QUEUED', 'payload = ''1'''), ('waiting', 'deadline_at = now()'), ('waiting', 'waiting_for = ''signal go'''),
		('QUEUED', 'run_id = pg_temp.a(''RUNNING'')'), ('held', 'lease = 0'), ('held', 'attempt = 0'),
			('held', 'dequeued_at = NULL'), ('waiting', 'worker_id = 1'), ('waiting', 'exhausted_at = visible_after'),
		('held', 'exhausted_at = now()'), ('waiting', 'attempt = -1'), ('waiting', 'failures = -1'),
			('waiting', 'priority = 101')) AS v (kind, change);
INSERT INTO fault SELECT 'states of runs', format('UPDATE pgqrs_workflow_runs SET %s WHERE run_id = pg_temp.a(%L)',
	change, kind)
	FROM (VALUES ('PAUSED', 'paused_at = NULL'), ('PAUSED', 'waiting_for = NULL'), ('SUCCESS', 'paused_at = now()'),
		('RUNNING', 'waiting_for = ''signal go'''),
		('QUEUED', 'lease = 1'), ('QUEUED', 'worker_id = 1'), ('RUNNING', 'started_at = NULL'),
			('SUCCESS', 'lease = NULL'), ('SUCCESS', 'attempt = 0'), ('SUCCESS', 'output = NULL'),
			('SUCCESS', 'error = ''1'''),
		('ERROR', 'error = NULL'), ('ERROR', 'output = ''1'''), ('QUEUED', 'output = ''1'''),
			('PAUSED', 'error = ''1'''), ('RUNNING', 'deleted_at = now()'), ('SUCCESS', 'parent_run_id = 1'),
		('SUCCESS', 'on_parent_end = ''cancel'''), ('ERROR', 'idempotency_key = ''x'''), ('ERROR', 'failures = -1'),
			('ERROR', 'priority = -101')) AS v (kind, change);
INSERT INTO fault VALUES ('messages without run, states of messages',
	'UPDATE pgqrs_messages SET run_id = 1000000 WHERE message_id = pg_temp.a(''waiting'')'),
	('states of messages, runs and their messages',
		'UPDATE pgqrs_messages SET waiting_for = ''signal go'' WHERE message_id = pg_temp.a(''RUNNING'')'),
	('states of messages, runs and their messages',
		'UPDATE pgqrs_messages SET waiting_for = ''cancel'' WHERE message_id = pg_temp.a(''signalled'')'),
	('ended runs without message, states of runs, runs and their messages',
		'UPDATE pgqrs_workflow_runs SET completed_at = now() WHERE run_id = pg_temp.a(''QUEUED'')'),
	('runs without message, states of runs',
		'UPDATE pgqrs_workflow_runs SET completed_at = NULL WHERE run_id = pg_temp.a(''CANCELLED'')'),
	('ended runs without message, runs and their messages',
		'UPDATE pgqrs_workflow_runs SET completed_at = now(), status = ''SUCCESS'', output = ''1'' WHERE run_id = '
		'pg_temp.a(''RUNNING'')');
INSERT INTO fault SELECT 'runs and their messages',
	format('UPDATE pgqrs_messages SET %s WHERE message_id = pg_temp.a(%L)', change, kind)
	FROM (VALUES ('RUNNING', 'queue_id = (SELECT sum(workflow_id) FROM pgqrs_workflows) - queue_id'),
		('RUNNING', 'attempt = attempt + 1'), ('RUNNING', 'priority = priority + 1'),
		('RUNNING', 'deadline_at = ''2100-01-01'''), ('keyed', 'idempotency_key = NULL'),
			('QUEUED', 'idempotency_key = ''x'''), ('RUNNING', 'lease = 1 + lease % 1000'),
			('RUNNING', 'worker_id = 1000'), ('asked', 'waiting_for = NULL'),
		('RUNNING', 'waiting_for = ''cancel'''), ('signalled', 'waiting_for = ''signal x'''),
			('PAUSED', 'visible_after = ''infinity'', waiting_for = NULL'),
			('PAUSED', '(lease, worker_id) = (SELECT lease, worker_id FROM pgqrs_workflow_runs WHERE run_id = '
			'message_id)')) AS v (kind, change);
INSERT INTO fault SELECT 'states of steps',
	format('UPDATE pgqrs_workflow_steps SET %s WHERE (run_id, step_id) = (SELECT run_id, step_id FROM '
	'pgqrs_workflow_steps WHERE %s LIMIT 1)', change, kind)
	FROM (VALUES ('status = ''SUCCESS''', 'completed_at = NULL'), ('status = ''RUNNING''', 'completed_at = now()'),
		('status = ''ERROR''', 'error = NULL'), ('status = ''SUCCESS'' AND kind = ''FUNCTION''', 'error = ''1'''),
		('status = ''PAUSED''', 'kind = ''FUNCTION'''), ('status = ''PENDING''', 'kind = ''SLEEP'''),
			('status = ''RUNNING''', 'kind = ''SIGNAL'''), ('status = ''RUNNING''', 'lease = NULL'),
			('status = ''PAUSED''', 'attempt = 0'),
		('status = ''SUCCESS''', 'failures = -1'), ('status = ''SUCCESS''', 'attempt = -1')) AS v (kind, change);
INSERT INTO fault SELECT 'states of workers', format('UPDATE pgqrs_workers SET %s WHERE name = %L', change, kind)
	FROM (VALUES ('gone', 'stopped_at = NULL'), ('w', 'stopped_at = now()'), ('w', 'max_concurrent = 0')) AS v (kind,
		change);

SELECT is(pg_temp.found_by(fault), found, 'the fault is found by its checks: ' || regexp_replace(fault,
	'^UPDATE pgqrs_|pg_temp.a', '', 'g')) FROM fault;
SELECT is(array_agg(check_name), '{messages below floors,triggers,open tables}',
	'every check but three has found a fault of this test') FROM pgqrs_verify()
	WHERE check_name NOT IN (SELECT unnest(string_to_array(found, ', ')) FROM fault);
SELECT is(found, 'nothing', 'pgqrs_verify() finds nothing once each fault is undone') FROM pg_temp.found;

-- what it says
DELETE FROM pgqrs_archive WHERE message_id = :success;
SELECT is(found, format('ended runs without message 1: run %s', :success),
	'the detail names the one run that is wrong') FROM pg_temp.found;
SELECT string_agg(run_id::text, ', ') AS four FROM (SELECT run_id FROM pgqrs_runs WHERE completed_at IS NOT NULL
	AND run_id <> :success LIMIT 3) AS r \gset
\set four :success', ':four
DELETE FROM pgqrs_archive WHERE message_id IN (:four);
SELECT matches(found, 'ended runs without message 4, such as run \d+; run \d+; run \d+$',
	'the detail counts four wrong runs and names three') FROM pg_temp.found;
DELETE FROM pgqrs_workflow_steps WHERE run_id IN (:four);
DELETE FROM pgqrs_run_events WHERE run_id IN (:four);
DELETE FROM pgqrs_workflow_runs WHERE run_id IN (:four);
SELECT is(found, 'nothing', 'pgqrs_verify() finds nothing once the wrong runs are removed') FROM pg_temp.found;

--
-- Floors: a message where no claim looks
--

SELECT pgqrs_create_queue('floor') AS floor \gset
SELECT pgqrs_enqueue('floor', '1') FROM generate_series(1, 20) \g /dev/null
SELECT pgqrs_archive_message(message_id, lease) FROM pgqrs_dequeue('floor', batch_size => 20) \g /dev/null
SELECT pgqrs_enqueue('floor', '1', delay => '1 hour') AS id \gset
SELECT is(count(*), 0::bigint, 'a claim finds the delayed message not due') FROM pgqrs_dequeue('floor');
SELECT is(count(*), 0::bigint, 'a second claim finds nothing, so that the floor rises') FROM pgqrs_dequeue('floor');
-- past utility hooks; the index makes this session read the triggers again
UPDATE pg_trigger SET tgenabled = 'D' WHERE tgname = 'pgqrs_messages_written';
CREATE INDEX again ON pgqrs_messages (enqueued_at);
UPDATE pgqrs_messages SET visible_after = now() - interval '1 hour' WHERE message_id = :id;
UPDATE pg_trigger SET tgenabled = 'A' WHERE tgname = 'pgqrs_messages_written';
DROP INDEX again;
SELECT is(count(*), 0::bigint, 'a claim misses a message below its floor') FROM pgqrs_dequeue('floor');
SELECT is(found, format('messages below floors 1: message %s', :id),
	'pgqrs_verify() names the message below its floor') FROM pg_temp.found;
SELECT is(count(*), 1::bigint, 'pgqrs_verify() has not changed the floor') FROM pgqrs_below_floors();
SELECT is(pgqrs_maintain() ->> 'floors_lowered', '1', 'a pass repairs the floor');
SELECT is(found, 'nothing', 'pgqrs_verify() finds nothing after the repair') FROM pg_temp.found;
SELECT is(count(*), 1::bigint, 'a claim returns the message after the repair') FROM pgqrs_dequeue('floor');
SELECT is(found, 'nothing', 'pgqrs_verify() finds nothing after the claim') FROM pg_temp.found;

--
-- Triggers
--

ALTER TABLE pgqrs_queues DISABLE TRIGGER USER;
ALTER TABLE pgqrs_grants DISABLE TRIGGER USER;
SELECT is(found, 'triggers 2: trigger pgqrs_grants_written; trigger pgqrs_queues_written',
	'pgqrs_verify() names triggers that are disabled') FROM pg_temp.found;
SELECT is(pgqrs_maintain() ->> 'floors_lowered', '0', 'a pass finds no message below its floor');
SELECT is(found, 'nothing', 'a pass enables the triggers') FROM pg_temp.found;
ALTER TABLE pgqrs_messages ENABLE REPLICA TRIGGER pgqrs_messages_written;
ALTER TABLE pgqrs_workflows ENABLE TRIGGER ALL;
SELECT is(found, 'nothing', 'triggers that are enabled in another way are accepted') FROM pg_temp.found;

SELECT * FROM finish();
