-- Privileges: every function of the extension for every kind of role, what a
-- grant gives and what a revoke takes.
--
-- The matrix is a table: a new function needs a row in it, or the test fails.

BEGIN;
SELECT no_plan();

-- Ids that are found in no message by chance.
SELECT setval('pgqrs_queue_id_seq', 7100001), setval('pgqrs_message_id_seq', 7200001),
	setval('pgqrs_worker_id_seq', 7300001) \g /dev/null

--
-- Roles.  The queues and workflows are tenant_a's; tenant_b is another role.
--

CREATE TEMP TABLE who (
	role name PRIMARY KEY,
	on_a text[] NOT NULL,		-- may do on tenant_a.*; a privilege brings those before it
	anywhere text[] NOT NULL	-- may do on some name
);
INSERT INTO who VALUES
	('nothing', '{}', '{}'),
	('monitor_a', '{monitor}', '{monitor}'),
	('read_a', '{monitor,read}', '{monitor,read}'),
	('trigger_a', '{monitor,read,trigger}', '{monitor,read,trigger}'),
	('work_a', '{monitor,read,work}', '{monitor,read,work}'),
	('admin_a', '{monitor,read,trigger,work,admin}', '{monitor,read,trigger,work,admin}'),
	('monitor_b', '{}', '{monitor}'),
	('read_b', '{}', '{monitor,read}'),
	('admin_b', '{}', '{monitor,read,trigger,work,admin}'),
	('monitor_a_admin_b', '{monitor}', '{monitor,read,trigger,work,admin}'),
	('read_a_admin_b', '{monitor,read}', '{monitor,read,trigger,work,admin}'),
	('trigger_a_admin_b', '{monitor,read,trigger}', '{monitor,read,trigger,work,admin}'),
	('work_a_admin_b', '{monitor,read,work}', '{monitor,read,trigger,work,admin}'),
	('Group "A"''s member', '{monitor,read,trigger,work,admin}', '{monitor,read,trigger,work,admin}'),
	('without_inherit', '{}', '{monitor,read,trigger,work,admin}');
CREATE ROLE nothing;
CREATE ROLE monitor_a;
CREATE ROLE monitor_b;
CREATE ROLE monitor_a_admin_b;
CREATE ROLE read_a;
CREATE ROLE read_b;
CREATE ROLE read_a_admin_b;
CREATE ROLE trigger_a;
CREATE ROLE work_a;
CREATE ROLE admin_a;
CREATE ROLE admin_b;
CREATE ROLE trigger_a_admin_b;
CREATE ROLE work_a_admin_b;
CREATE ROLE "Group ""A""";
CREATE ROLE "Group ""A""'s member" IN ROLE "Group ""A""";
CREATE ROLE without_inherit NOINHERIT IN ROLE "Group ""A""";

SELECT pgqrs_grant(pattern, role, privilege)
	FROM (VALUES
		('tenant_a.*', 'monitor_a', 'monitor'),
		('tenant_b.*', 'monitor_b', 'monitor'),
		('tenant_a.*', 'monitor_a_admin_b', 'monitor'),
		('tenant_b.*', 'monitor_a_admin_b', 'admin'),
		('tenant_a.*', 'read_a', 'read'),
		('tenant_b.*', 'read_b', 'read'),
		('tenant_a.*', 'read_a_admin_b', 'read'),
		('tenant_b.*', 'read_a_admin_b', 'admin'),
		('tenant_a.*', 'trigger_a', 'trigger'),
		('tenant_a.*', 'work_a', 'work'),
		('tenant_a.*', 'admin_a', 'admin'),
		('tenant_b.*', 'admin_b', 'admin'),
		('tenant_a.*', 'trigger_a_admin_b', 'trigger'),
		('tenant_b.*', 'trigger_a_admin_b', 'admin'),
		('tenant_a.*', 'work_a_admin_b', 'work'),
		('tenant_b.*', 'work_a_admin_b', 'admin'),
		('tenant_b.*', 'without_inherit', 'admin'),
		('tenant_a.*', 'Group "A"', 'admin')
	) AS g (pattern, role, privilege) \g /dev/null

--
-- Probes
--

-- What a role gets for a query: SQLSTATE, then the rows or the error.  Leaves
-- no trace.
CREATE FUNCTION pg_temp.probe(role name, query text, OUT state text, OUT answer text)
LANGUAGE plpgsql AS $$
DECLARE
	message text;
	detail text;
	hint text;
BEGIN
	PERFORM set_config('role', role, true);
	EXECUTE 'SELECT string_agg(r::text, chr(10)) FROM (' || query || ') AS r' INTO answer;
	RAISE EXCEPTION SQLSTATE 'ZZ000' USING MESSAGE = 'undo';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
		hint = PG_EXCEPTION_HINT;
	state := CASE SQLSTATE WHEN 'ZZ000' THEN '00000' ELSE SQLSTATE END;
	IF state <> '00000' THEN
		answer := concat_ws(' | ', message, detail, hint);
	END IF;
END
$$;

-- Runs a query as a role, for good.
CREATE FUNCTION pg_temp.run(role name, query text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	before text := current_setting('role');
	answer text;
BEGIN
	PERFORM set_config('role', role, true);
	EXECUTE query INTO answer;
	PERFORM set_config('role', before, true);
	RETURN answer;
END
$$;

--
-- tenant_a's things, and the same kinds of things that do not exist
--

CREATE TEMP TABLE target (
	name text PRIMARY KEY,
	value text NOT NULL,
	missing text NOT NULL
);
INSERT INTO target VALUES
	('queue', 'tenant_a.queue', 'tenant_c.queue'),
	('new', 'tenant_a.new', 'tenant_c.new'),
	('workflow', 'tenant_a.workflow', 'tenant_c.workflow'),
	('schedule', 'tenant_a.schedule', 'tenant_c.schedule'),
	('pattern', 'tenant_a.*', 'tenant_c.*');

CREATE TEMP TABLE given AS SELECT
	pgqrs_create_queue('tenant_a.queue', max_attempts => 1) AS queue_id,
	pgqrs_create_workflow('tenant_a.workflow') AS workflow_id,
	pgqrs_register_worker('fleet', '{tenant_a.*}') AS worker,
	NULL::bigint AS waiting, NULL::bigint AS leased, NULL::bigint AS lease,
	NULL::bigint AS dead, NULL::bigint AS run, NULL::bigint AS run_lease,
	NULL::bigint AS asked, NULL::bigint AS asked_lease, NULL::bigint AS ended,
	NULL::bigint AS queued;
SELECT pgqrs_create_queue('tenant_b.queue') \g /dev/null
SELECT pgqrs_schedule('tenant_a.schedule', '@daily', 'tenant_a.workflow', '{"secret": 1}') \g /dev/null

-- a dead letter, a leased and a waiting message; a run with a step under way
-- and a waiting one
SELECT pgqrs_enqueue('tenant_a.queue', '1') \g /dev/null
UPDATE given SET (dead, lease) = (SELECT message_id, lease FROM pgqrs_dequeue('tenant_a.queue'));
SELECT pgqrs_nack_message(dead, lease) FROM given \g /dev/null
SELECT pgqrs_enqueue('tenant_a.queue', '2') \g /dev/null
UPDATE given SET (leased, lease) = (SELECT message_id, lease FROM pgqrs_dequeue('tenant_a.queue'));
UPDATE given SET waiting = pgqrs_enqueue('tenant_a.queue', '3');
UPDATE given SET run = pgqrs_trigger('tenant_a.workflow', '{"secret": 1}', 'key', require_worker => true);
UPDATE given SET run_lease = (SELECT lease FROM pgqrs_dequeue('tenant_a.workflow'));
SELECT pgqrs_step_begin(run, run_lease, 'step') FROM given \g /dev/null
-- children of it, one that has ended
UPDATE given SET ended = pgqrs_start_child(run, run_lease, 'child', 'tenant_a.workflow');
SELECT pgqrs_cancel_run(ended), pgqrs_start_children(run, run_lease, 'children', 'tenant_a.workflow', '{1}')
	FROM given \g /dev/null
CREATE FUNCTION pg_temp.handler(jsonb) RETURNS void LANGUAGE sql AS 'SELECT';
-- a run whose worker was asked to stop
UPDATE given SET asked = pgqrs_trigger('tenant_a.workflow', priority => 1);
UPDATE given SET asked_lease = (SELECT lease FROM pgqrs_dequeue('tenant_a.workflow'));
SELECT pgqrs_cancel_run(asked) FROM given \g /dev/null
UPDATE given SET queued = pgqrs_trigger('tenant_a.workflow');

INSERT INTO target
	SELECT v.* FROM given, LATERAL (VALUES
		('worker', worker::text, '9000000000000001'),
		('waiting', waiting::text, '9000000000000002'),
		('leased', leased::text, '9000000000000003'),
		('dead', dead::text, '9000000000000004'),
		('run', run::text, '9000000000000005'),
		('queued', queued::text, '9000000000000015'),
		('lease', lease::text, lease::text),
		('run_lease', run_lease::text, run_lease::text),
		('ended', ended::text, '9000000000000007'),
		('asked', asked::text, '9000000000000006'),
		('asked_lease', asked_lease::text, asked_lease::text)) AS v;

CREATE FUNCTION pg_temp.fill(template text, missing boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	t target;
BEGIN
	FOR t IN SELECT * FROM target LOOP
		template := replace(template, '{' || t.name || '}', CASE WHEN missing THEN t.missing ELSE t.value END);
	END LOOP;
	RETURN template;
END
$$;

-- The other way round.
CREATE FUNCTION pg_temp.unfill(answer text, missing boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	t target;
BEGIN
	FOR t IN SELECT * FROM target ORDER BY length(value) DESC, name LOOP
		answer := replace(answer, CASE WHEN missing THEN t.missing ELSE t.value END, '{' || t.name || '}');
	END LOOP;
	RETURN answer;
END
$$;

-- Each role's own worker, where it may have one.
CREATE TEMP TABLE own AS
	SELECT role, CASE WHEN 'work' = ANY (anywhere)
			THEN pg_temp.run(role, 'SELECT pgqrs_register_worker(''own'', ''{*}'')')
			ELSE '9000000000000001'
		END AS worker
	FROM who;

--
-- The matrix.  needs: the privilege that the function needs on its target.
-- SQLSTATEs for a role that has it; that has another one on the target; that
-- has none there but may call the function for what is elsewhere.  A role that
-- may not call it at all gets 42501.
--

CREATE TEMP TABLE matrix (
	query text NOT NULL,
	needs text NOT NULL,		-- a privilege, or 'owner'
	hidden text NOT NULL DEFAULT '42501',
	lacking text NOT NULL DEFAULT '42501',
	allowed text NOT NULL DEFAULT '00000'
);
INSERT INTO matrix (query, needs, hidden) VALUES
	-- queues and messages
	($$SELECT * FROM pgqrs_create_queue('{queue}')$$, 'admin', '42501'),
	($$SELECT * FROM pgqrs_create_queue('{new}')$$, 'admin', '42501'),
	($$SELECT * FROM pgqrs_alter_queue('{queue}', max_attempts => 2)$$, 'admin', 'PQ001'),
	($$SELECT * FROM pgqrs_delete_queue('{queue}', force => true)$$, 'admin', '00000'),
	($$SELECT * FROM pgqrs_purge_queue('{queue}')$$, 'admin', 'PQ001'),
	($$SELECT * FROM pgqrs_pause_queue('{queue}')$$, 'admin', 'PQ001'),
	($$SELECT * FROM pgqrs_resume_queue('{queue}')$$, 'admin', 'PQ001'),
	($$SELECT * FROM pgqrs_enqueue('{queue}', '1')$$, 'trigger', 'PQ001'),
	($$SELECT * FROM pgqrs_enqueue_batch('{queue}', ARRAY['1', '2']::jsonb[])$$, 'trigger', 'PQ001'),
	($$SELECT * FROM pgqrs_dequeue('{queue}')$$, 'work', 'PQ001'),
	($$SELECT * FROM pgqrs_dequeue('{workflow}')$$, 'work', 'PQ001'),
	($$SELECT * FROM pgqrs_next(queue => '{queue}')$$, 'work', 'PQ001'),
	($$SELECT * FROM pgqrs_next(queue => '{queue}', done_ids => ARRAY[{leased}], done_leases => ARRAY[{lease}])$$,
		'work', 'PQ001'),
	($$SELECT * FROM pgqrs_archive_message({leased}, {lease})$$, 'work', 'PQ006'),
	($$SELECT * FROM pgqrs_archive_messages(ARRAY[{leased}], ARRAY[{lease}])$$, 'work', '00000'),
	($$SELECT * FROM pgqrs_delete_message({leased}, {lease})$$, 'work', 'PQ006'),
	($$SELECT * FROM pgqrs_release_message({leased}, {lease})$$, 'work', 'PQ006'),
	($$SELECT * FROM pgqrs_nack_message({leased}, {lease})$$, 'work', 'PQ006'),
	($$SELECT * FROM pgqrs_extend_lease({leased}, {lease})$$, 'work', '00000'),
	($$SELECT * FROM pgqrs_extend_lease({run}, {run_lease})$$, 'work', '00000'),
	($$SELECT * FROM pgqrs_extend_leases(ARRAY[{leased}], ARRAY[{lease}])$$, 'work', '00000'),
	($$SELECT * FROM pgqrs_set_visibility({waiting}, now())$$, 'admin', 'PQ004'),
	($$SELECT * FROM pgqrs_peek('{queue}')$$, 'read', 'PQ001'),
	($$SELECT reason FROM pgqrs_why('{queue}')$$, 'monitor', 'PQ001'),
	($$SELECT 1 FROM pgqrs_report_run({run})$$, 'read', 'PQ003'),
	($$SELECT 1 FROM pgqrs_report_page('run', '{"run": "{run}"}')$$, 'read', 'PQ003'),
	($$SELECT 1 FROM pgqrs_html_run({run}, true, NULL)$$, 'read', 'PQ003'),
	($$SELECT 1 FROM pgqrs_html_family({run}, true, NULL)$$, 'read', 'PQ003'),
	($$SELECT 1 FROM pgqrs_html_run_page('{"run": "{run}"}', NULL)$$, 'read', 'PQ003'),
	($$SELECT 1 FROM pgqrs_html_queue('{"queue": "{queue}"}', NULL)$$, 'read', 'PQ001'),
	($$SELECT 1 FROM pgqrs_html_messages('{queue}')$$, 'read', 'PQ001'),
	($$SELECT * FROM pgqrs_replay_message({dead})$$, 'admin', 'PQ004'),
	($$SELECT * FROM pgqrs_replay_queue('{queue}')$$, 'admin', 'PQ001'),
	($$SELECT * FROM pgqrs_dismiss_dead_letter({dead})$$, 'admin', 'PQ004'),
	($$SELECT * FROM pgqrs_purge_dead_letters('{queue}', '0')$$, 'admin', 'PQ001'),
	-- workflows
	($$SELECT * FROM pgqrs_create_workflow('{workflow}')$$, 'admin', '42501'),
	($$SELECT * FROM pgqrs_create_workflow('{new}')$$, 'admin', '42501'),
	($$SELECT * FROM pgqrs_alter_workflow('{workflow}', max_attempts => 2)$$, 'admin', 'PQ002'),
	($$SELECT * FROM pgqrs_delete_workflow('{workflow}', force => true)$$, 'admin', '00000'),
	($$SELECT * FROM pgqrs_trigger('{workflow}')$$, 'trigger', 'PQ002'),
	($$SELECT * FROM pgqrs_trigger('{workflow}', NULL, 'key')$$, 'trigger', 'PQ002'),
	($$SELECT * FROM pgqrs_trigger_batch('{workflow}', ARRAY['1', '2']::jsonb[])$$, 'trigger', 'PQ002'),
	($$SELECT * FROM pgqrs_get_run({run})$$, 'read', 'PQ003'),
	($$SELECT * FROM pgqrs_find_run('{workflow}', 'key')$$, 'read', 'PQ002'),
	($$SELECT * FROM pgqrs_result({run})$$, 'read', 'PQ003'),
	($$SELECT * FROM pgqrs_step_begin({run}, {run_lease}, 'other')$$, 'work', 'PQ003'),
	($$SELECT * FROM pgqrs_step_complete({run}, {run_lease}, 'step')$$, 'work', 'PQ003'),
	($$SELECT * FROM pgqrs_step_next({run}, {run_lease}, 'step', '1', 'other')$$, 'work', 'PQ003'),
	($$SELECT * FROM pgqrs_step_fail({run}, {run_lease}, 'step', '{}')$$, 'work', 'PQ003'),
	($$SELECT * FROM pgqrs_complete_run({run}, {run_lease})$$, 'work', 'PQ003'),
	($$SELECT * FROM pgqrs_fail_run({run}, {run_lease}, '{}')$$, 'work', 'PQ003'),
	($$SELECT * FROM pgqrs_set_progress({run}, {run_lease}, '1')$$, 'work', 'PQ003'),
	($$SELECT * FROM pgqrs_list_steps({run})$$, 'read', 'PQ003'),
	($$SELECT * FROM pgqrs_pause_run({run}, {run_lease}, 'other')$$, 'work', 'PQ003'),
	($$SELECT * FROM pgqrs_resume_run({run})$$, 'trigger', 'PQ003'),
	($$SELECT * FROM pgqrs_sleep({run}, {run_lease}, 'other', '1 s')$$, 'work', 'PQ003'),
	($$SELECT * FROM pgqrs_await_signal({run}, {run_lease}, 'other', 'go')$$, 'work', 'PQ003'),
	($$SELECT 1 FROM pgqrs_signal({run}, 'go')$$, 'trigger', 'PQ003'),
	($$SELECT * FROM pgqrs_cancel_run({run})$$, 'trigger', 'PQ003'),
	($$SELECT 1 FROM pgqrs_rerun({ended})$$, 'trigger', 'PQ003'),
	($$SELECT * FROM pgqrs_await_child({run}, {run_lease}, 'child')$$, 'work', 'PQ003'),
	($$SELECT * FROM pgqrs_await_children({run}, {run_lease}, 'children')$$, 'work', 'PQ003'),
	($$SELECT * FROM pgqrs_await_any({run}, {run_lease}, 'read', '{go}')$$, 'work', 'PQ003'),
	($$SELECT * FROM pgqrs_consume('{queue}', 'pg_temp.handler')$$, 'work', 'PQ001'),
	($$SELECT * FROM pgqrs_cancel_runs('{workflow}')$$, 'trigger', 'PQ002'),
	($$SELECT * FROM pgqrs_replay_runs('{workflow}')$$, 'admin', 'PQ002'),
	($$SELECT * FROM pgqrs_rerun_runs('{workflow}')$$, 'trigger', 'PQ002'),
	($$SELECT * FROM pgqrs_delete_run({run})$$, 'admin', 'PQ003'),
	($$SELECT 1 FROM pgqrs_advance({queued}, '0')$$, 'admin', 'PQ003'),
	($$SELECT * FROM pgqrs_acknowledge_cancel({asked}, {asked_lease})$$, 'work', 'PQ003'),
	-- schedules, here the owner's own
	($$SELECT * FROM pgqrs_schedule('{new}', '@daily', '{workflow}')$$, 'trigger', '42501'),
	($$SELECT * FROM pgqrs_schedule('{schedule}', '@daily', '{workflow}')$$, 'admin', '42501'),
	($$SELECT * FROM pgqrs_enable_schedule('{schedule}', false)$$, 'admin', '42704'),
	($$SELECT * FROM pgqrs_trigger_schedule('{schedule}')$$, 'admin', '42704'),
	($$SELECT * FROM pgqrs_unschedule('{schedule}')$$, 'admin', '00000'),
	-- the owner's
	($$SELECT * FROM pgqrs_maintain()$$, 'owner', '42501'),
	($$SELECT * FROM pgqrs_apply_retention()$$, 'owner', '42501'),
	($$SELECT * FROM pgqrs_install_cron()$$, 'owner', '42501'),
	($$SELECT 1 FROM pgqrs_advance_sequences()$$, 'owner', '42501'),
	($$SELECT pgqrs_advance_sequence(1::regclass, 1, 1)$$, 'owner', '42501'),
	($$SELECT * FROM pgqrs_grant('{pattern}', 'nothing', 'work')$$, 'owner', '42501'),
	($$SELECT * FROM pgqrs_revoke('{pattern}', 'work_a', 'work')$$, 'owner', '42501'),
	($$SELECT * FROM pgqrs_sync_grants()$$, 'owner', '42501'),
	($$SELECT * FROM pgqrs_function_privileges('pgqrs_enqueue')$$, 'owner', '42501'),
	($$SELECT 1 FROM pgqrs_verify()$$, 'owner', '42501'),
	($$SELECT 1 FROM pgqrs_below_floors()$$, 'owner', '42501');

-- What is on no target, or shows or takes only what the role may have.
INSERT INTO matrix (query, needs, hidden, lacking) VALUES
	($$SELECT * FROM pgqrs_dequeue('{pattern}')$$, 'work', '00000', '00000'),
	($$SELECT * FROM pgqrs_list_runs('{workflow}')$$, 'read', '00000', '00000'),
	($$SELECT * FROM pgqrs_list_runs('{pattern}')$$, 'read', '00000', '00000'),
	($$SELECT * FROM pgqrs_version()$$, 'monitor', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_now()$$, 'monitor', '00000', '00000'),
	($$SELECT * FROM pgqrs_next_firings('@daily')$$, 'monitor', '00000', '00000'),
	($$SELECT * FROM pgqrs_readable_queues()$$, 'read', '00000', '00000'),
	($$SELECT * FROM pgqrs_queue_name(1)$$, 'read', '00000', '00000'),
	($$SELECT * FROM pgqrs_run_crashes(1)$$, 'read', '00000', '00000'),
	($$SELECT * FROM pgqrs_readable_workers()$$, 'read', '00000', '00000'),
	($$SELECT * FROM pgqrs_may_monitor(1)$$, 'monitor', '00000', '00000'),
	($$SELECT * FROM pgqrs_schedule_may_fire(1)$$, 'monitor', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_background_stats()$$, 'monitor', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_floor_stats()$$, 'monitor', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_old_sessions()$$, 'monitor', '00000', '00000'),
	($$SELECT item FROM pgqrs_health$$, 'monitor', '00000', '00000'),
	($$SELECT * FROM pgqrs_runs WHERE workflow = '{workflow}'$$, 'read', '00000', '00000'),
	($$SELECT * FROM pgqrs_steps WHERE run_id = {run}$$, 'read', '00000', '00000'),
	($$SELECT * FROM pgqrs_run_parents WHERE run_id = {run}$$, 'read', '00000', '00000'),
	($$SELECT * FROM pgqrs_events WHERE run_id = {run}$$, 'read', '00000', '00000'),
	($$SELECT * FROM pgqrs_schedule_list WHERE name = '{schedule}'$$, 'read', '00000', '00000'),
	($$SELECT * FROM pgqrs_dead_letters WHERE message_id = {dead}$$, 'read', '00000', '00000'),
	($$SELECT * FROM pgqrs_in_flight WHERE queue = '{queue}'$$, 'monitor', '00000', '00000'),
	($$SELECT * FROM pgqrs_live_runs WHERE run_id = {run}$$, 'read', '00000', '00000'),
	($$SELECT * FROM pgqrs_signals WHERE run_id = {run}$$, 'read', '00000', '00000'),
	($$SELECT * FROM pgqrs_sent_signals WHERE run_id = {run}$$, 'read', '00000', '00000'),
	($$SELECT * FROM pgqrs_queues_list WHERE queue = '{queue}'$$, 'read', '00000', '00000'),
	($$SELECT * FROM pgqrs_workflows_list WHERE workflow = '{workflow}'$$, 'read', '00000', '00000'),
	($$SELECT * FROM pgqrs_queue_stats WHERE queue = '{queue}'$$, 'monitor', '00000', '00000'),
	($$SELECT * FROM pgqrs_workflow_stats WHERE workflow = '{workflow}'$$, 'monitor', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_worker_stats$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_count_messages(1)$$, 'monitor', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_count_runs(1)$$, 'monitor', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_counters_of(1)$$, 'monitor', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_live_workers(1)$$, 'monitor', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_holder_of(1)$$, 'monitor', '00000', '00000'),
	($$SELECT * FROM pgqrs_histograms WHERE queue = '{queue}'$$, 'monitor', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_register_worker('another', '{*}')$$, 'work', '00000', '00000'),
	($$SELECT * FROM pgqrs_heartbeat({own})$$, 'work', '00000', '00000'),
	($$SELECT * FROM pgqrs_extend_worker({own})$$, 'work', '00000', '00000'),
	($$SELECT * FROM pgqrs_suspend_worker({own})$$, 'work', '00000', '00000'),
	($$SELECT * FROM pgqrs_resume_worker({own})$$, 'work', '00000', '00000'),
	($$SELECT * FROM pgqrs_elapsed('2030-01-01', '2030-01-02')$$, 'monitor', '00000', '00000'),
	($$SELECT * FROM pgqrs_role_of(1, 'x')$$, 'read', '00000', '00000'),
	($$SELECT * FROM pgqrs_stop_worker({own})$$, 'work', '00000', '00000');

-- Pages show what the role may read, and one table to the owner alone.
INSERT INTO matrix (query, needs, hidden, lacking) VALUES
	($$SELECT 1 FROM pgqrs_report()$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_report_page('')$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_report_style()$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_report_action('{}')$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_report_answer('{}', 'a', true, 'b', NULL)$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_html('%s', '{a}')$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_html_document('a', 'b', 'c')$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_html_figures(1, '1 s', 1, 1, 1, 1)$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_html_health()$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_html_duration('1 s')$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_html_error('1')$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_html_json('1')$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_html_large(65537)$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_html_size('1')$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_html_unread(1, 1, 'a')$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_html_page('a', '2030-01-01', 'b')$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_html_plot('a', 'b', 'c', '{1}', '{1}', 'd', 'e', 'f')$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_html_status('DONE')$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_html_table('{a}', '{{b}}', 'c')$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_html_style()$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_html_url('a', '{}')$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_html_link('a', '{}', 'b')$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_html_tags('a=b')$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_html_view('a', 'b', '{}', 'c')$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_html_act('cancel', '{}', 'a', 'b')$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_html_fields('cancel')$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_html_form('{}', 'a', false)$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_html_letters('{queue}', 1)$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_html_live_runs(true)$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_html_workflows(true)$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_html_runs_before('{workflow}', '2030-01-01')$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_html_matches('{"workflow": "{workflow}"}', 1, 1)$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_html_statement('{}')$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_html_count('{"workflow": "{workflow}"}')$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_html_overview('{}', NULL)$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_html_queues('{}', NULL)$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_html_runs('{}', NULL)$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_html_run_list('{"workflow": "{workflow}"}')$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_html_live_list('{"workflow": "{workflow}"}')$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_html_workers('{}', NULL)$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_html_schedules('{}', NULL)$$, 'read', '00000', '00000'),
	($$SELECT 1 FROM pgqrs_html_dead('{"queue": "{queue}"}', NULL)$$, 'read', '00000', '00000');
INSERT INTO matrix (query, needs, hidden, lacking, allowed) VALUES
	($$SELECT 1 FROM pgqrs_report_hour(pgqrs_now())$$, 'read', '42501', '42501', '42501');

-- Starting a run or a child needs to trigger its workflow, too, which admin brings.
INSERT INTO matrix (query, needs, hidden, lacking) VALUES
	($$SELECT 1 FROM pgqrs_start('{workflow}')$$, 'admin', 'PQ002', '42501'),
	($$SELECT 1 FROM pgqrs_start('{workflow}', NULL, NULL, 'key')$$, 'admin', 'PQ002', '42501'),
	($$SELECT 1 FROM pgqrs_start_child({run}, {run_lease}, 'other', '{workflow}')$$, 'admin', 'PQ002', '42501'),
	($$SELECT 1 FROM pgqrs_start_children({run}, {run_lease}, 'other', '{workflow}', '{1}')$$, 'admin', 'PQ002',
		'42501');

-- Workers are their role's own; no privilege on names reaches another's.
INSERT INTO matrix (query, needs, hidden, lacking, allowed)
	SELECT query, 'work', 'PQ005', 'PQ005', 'PQ005'
	FROM (VALUES
		($$SELECT * FROM pgqrs_dequeue(worker_id => {worker})$$),
		($$SELECT * FROM pgqrs_next({worker})$$),
		($$SELECT * FROM pgqrs_heartbeat({worker})$$),
		($$SELECT * FROM pgqrs_extend_worker({worker})$$),
		($$SELECT * FROM pgqrs_suspend_worker({worker})$$),
		($$SELECT * FROM pgqrs_resume_worker({worker})$$),
		($$SELECT * FROM pgqrs_stop_worker({worker})$$)) AS v (query);

-- Only the owner may use the tables.
INSERT INTO matrix (query, needs)
	SELECT format('SELECT count(*) FROM %s', c.oid::regclass), 'owner'
	FROM pg_class AS c
	WHERE c.relname LIKE 'pgqrs\_%' AND c.relkind IN ('r', 'S');

CREATE FUNCTION pg_temp.expected(m matrix, w who) RETURNS text
LANGUAGE sql AS $$
	SELECT CASE
		WHEN m.needs = 'owner' THEN '42501'
		WHEN m.needs <> ALL (w.anywhere) THEN '42501'
		WHEN m.needs = ANY (w.on_a) THEN m.allowed
		WHEN w.on_a = '{}' THEN m.hidden
		ELSE m.lacking
	END
$$;

SELECT is(p.state || CASE WHEN p.state = e.state THEN '' ELSE ' ' || p.answer END, e.state,
		format('the call is allowed or refused by the privileges: %s: %s', w.role, m.query))
	FROM matrix AS m
		CROSS JOIN who AS w
		JOIN own AS o ON o.role = w.role
		CROSS JOIN LATERAL pg_temp.probe(w.role, replace(pg_temp.fill(m.query), '{own}', o.worker)) AS p
		CROSS JOIN LATERAL (SELECT pg_temp.expected(m, w) AS state) AS e;

-- The owner of the extension and superusers may do everything; pg_cron is not
-- here (test/t/pg_cron.pl).
SELECT is(p.state || CASE WHEN p.state = '00000' OR m.query ~ 'install_cron' THEN '' ELSE ' ' || p.answer END,
		CASE WHEN m.query ~ 'install_cron' THEN '55000' ELSE '00000' END,
		format('a superuser may call: %s', m.query))
	FROM matrix AS m
		CROSS JOIN LATERAL pg_temp.probe(current_user, replace(pg_temp.fill(m.query), '{own}',
			(SELECT worker FROM own WHERE role = 'work_a'))) AS p;

-- To a role without a privilege on them, objects do not exist: SQLSTATE, rows, message,
-- detail and hint are equal.  What shows only what may be read shows no more to
-- monitor.
SELECT is(concat_ws(' ', there.state, pg_temp.unfill(there.answer)),
		concat_ws(' ', missing.state, pg_temp.unfill(missing.answer, true)),
		format('a role without a privilege is answered as if it did not exist: %s: %s', o.role, m.query))
	FROM matrix AS m
		JOIN own AS o ON o.role IN (SELECT role FROM who
			WHERE on_a = '{}' OR on_a = '{monitor}' AND m.needs = 'read' AND m.lacking = '00000')
		CROSS JOIN LATERAL pg_temp.probe(o.role, replace(pg_temp.fill(m.query), '{own}', o.worker)) AS there
		CROSS JOIN LATERAL pg_temp.probe(o.role, replace(pg_temp.fill(m.query, true), '{own}', o.worker)) AS missing
	WHERE m.query ~ '{(?!own)';

-- What is allowed is also done: the probes saw rows.
SELECT isnt(p.answer, NULL, format('a role that may call it sees something: %s', m.query))
	FROM matrix AS m
		CROSS JOIN LATERAL pg_temp.probe('admin_a', pg_temp.fill(m.query)) AS p
	WHERE m.query ~ 'list_|_list|peek|dequeue\(''|'
		'pgqrs_(runs|live_runs|steps|dead_letters|in_flight|queue_stats|workflow_stats|health)';

-- A pattern takes only from where the role may work.
SELECT is((pg_temp.probe(role, $$SELECT * FROM pgqrs_dequeue('*')$$)).answer, NULL,
		format('a claim of %s by a pattern takes nothing', role))
	FROM unnest('{trigger_a_admin_b,admin_b}'::name[]) AS role;
SELECT is((pg_temp.probe(role, $$SELECT cardinality(pgqrs_readable_queues())$$)).answer, answer,
		format('%s reads %s queues', role, answer))
	FROM (VALUES ('trigger_a', '(2)'), ('admin_b', '(1)'), ('work_a_admin_b', '(3)')) AS v (role, answer);
SELECT is((pg_temp.probe(role, format('SELECT count(pgqrs_queue_name(id)) FROM unnest(%L::bigint[]) AS id',
	pgqrs_readable_queues()))).answer, answer,
		format('%s gets %s names of queues', role, answer))
	FROM (VALUES ('trigger_a', '(2)'), ('admin_b', '(1)'), ('work_a_admin_b', '(3)')) AS v (role, answer);

--
-- Nothing is missing
--

CREATE TEMP VIEW ours AS
	SELECT p.oid, p.proname, p.prokind, p.proowner, p.proacl
	FROM pg_depend AS d
		JOIN pg_proc AS p ON p.oid = d.objid
	WHERE d.classid = 'pg_proc'::regclass AND d.deptype = 'e'
		AND d.refclassid = 'pg_extension'::regclass
		AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pgqrs')
		AND p.prorettype <> 'trigger'::regtype;

SELECT is_empty('SELECT proname FROM ours WHERE pgqrs_function_privileges(proname) IS NULL',
	'every function belongs to privileges');
-- procedures cannot be called from here; test/t/waits.pl does
SELECT is_empty($$SELECT proname FROM ours
	WHERE prokind <> 'p' AND NOT EXISTS (SELECT FROM matrix WHERE query ~ (proname || '\('))$$,
	'the matrix of this test has every function');
SELECT is_empty($$SELECT proname FROM ours GROUP BY proname HAVING count(*) > 1$$,
	'no function is overloaded');
SELECT is_empty($$SELECT proname FROM ours
	CROSS JOIN LATERAL aclexplode(COALESCE(proacl, acldefault('f', proowner))) AS a WHERE a.grantee = 0$$,
	'no function is executable by public');
SELECT is_empty($$SELECT c.relname FROM pg_class AS c, aclexplode(c.relacl) AS a
	WHERE c.relname LIKE 'pgqrs\_%' AND a.grantee = 0$$,
	'no table, view or sequence is open to public');
SELECT set_has($$SELECT relname FROM pg_class, aclexplode(relacl) AS a
		WHERE relkind = 'v' AND a.grantee = 'trigger_a'::regrole AND a.privilege_type = 'SELECT'$$,
	$$SELECT relname FROM pg_class WHERE relkind = 'v' AND relname LIKE 'pgqrs\_%'$$,
	'a role with a privilege may read every view');

-- The functions that a role was given are those of its privileges.
SELECT is((SELECT array_agg(o.proname ORDER BY o.proname) FROM ours AS o, aclexplode(o.proacl) AS a
			WHERE a.grantee = r.role::regrole),
		(SELECT array_agg(o.proname ORDER BY o.proname) FROM ours AS o
			WHERE r.privilege = ANY (pgqrs_function_privileges(o.proname))),
		format('%s has EXECUTE on exactly the functions that need %s', r.role, r.privilege))
	FROM (VALUES ('monitor_a', 'monitor'), ('read_a', 'read'), ('trigger_a', 'trigger'), ('work_a', 'work'),
		('admin_a', 'admin')) AS r (role, privilege);

--
-- Patterns
--

CREATE ROLE reader;
CREATE FUNCTION pg_temp.may_trigger(name text) RETURNS boolean
LANGUAGE sql AS $$
	SELECT state = 'PQ016' OR state = '00000'
	FROM pg_temp.probe('reader', format('SELECT pgqrs_enqueue(%L, ''1'')', name))
$$;
SELECT count(pgqrs_create_queue(name))
	FROM unnest('{shop,shop.eu,shop.eu.bills,shop.us,shopping,Shop.eu}'::text[]) AS name \g /dev/null
CREATE FUNCTION pg_temp.covered(pattern text) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
	names text[];
BEGIN
	PERFORM pgqrs_grant(pattern, 'reader', 'trigger');
	SELECT array_agg(name ORDER BY i) INTO names
		FROM unnest('{shop,shop.eu,shop.eu.bills,shop.us,shopping,Shop.eu}'::text[]) WITH ORDINALITY AS n (name, i)
		WHERE pg_temp.may_trigger(name);
	PERFORM pgqrs_revoke(pattern, 'reader', 'trigger');
	RETURN names;
END
$$;
SELECT is(pg_temp.covered('shop'), '{shop}', 'a name covers itself');
SELECT is(pg_temp.covered('shop.eu'), '{shop.eu}', 'a name covers no names below it');
SELECT is(pg_temp.covered('shop.*'), '{shop.eu,shop.eu.bills,shop.us}',
	'a pattern covers the names below its prefix');
SELECT is(pg_temp.covered('shop.eu.*'), '{shop.eu.bills}', 'a longer pattern covers fewer names');
SELECT is(pg_temp.covered('*'), '{shop,shop.eu,shop.eu.bills,shop.us,shopping,Shop.eu}',
	'the pattern * covers every name');

-- Several rows on one name add up, in whatever order they sort.
SELECT pgqrs_grant('shop.*', 'reader', 'work'), pgqrs_grant('shop.eu', 'reader', 'trigger') \g /dev/null
SELECT ok(pg_temp.may_trigger('shop.eu'), 'a grant on a name adds to one on a pattern');
SELECT is((pg_temp.probe('reader', $$SELECT pgqrs_dequeue('shop.eu')$$)).state, '00000',
	'a grant on a pattern adds to one on a name');
SELECT ok(NOT pg_temp.may_trigger('shop.us'), 'a grant on a name adds nothing to other names');
SELECT pgqrs_revoke('shop.*', 'reader', 'work'), pgqrs_revoke('shop.eu', 'reader', 'trigger') \g /dev/null

-- A pattern covers what is created later, and lets admin create it.
SELECT pgqrs_grant('later.*', 'reader', 'admin') \g /dev/null
SELECT lives_ok($$SELECT pg_temp.run('reader', 'SELECT pgqrs_create_queue(''later.queue'')')$$,
	'a role with admin on a pattern creates a queue');
SELECT ok(pg_temp.may_trigger('later.queue'), 'a role with admin on a pattern may use a queue created later');
SELECT is((pg_temp.probe('reader', $$SELECT pgqrs_create_queue('sooner.queue')$$)).state, '42501',
	'a role with admin on a pattern may not create a queue elsewhere');
SELECT pgqrs_revoke('later.*', 'reader', 'admin') \g /dev/null

--
-- Grants and revokes
--

CREATE FUNCTION pg_temp.rights(grantee oid) RETURNS bigint
LANGUAGE sql AS $$
	SELECT (SELECT count(*) FROM pg_proc, aclexplode(proacl) AS a
			WHERE proname LIKE 'pgqrs\_%' AND a.grantee = rights.grantee) +
		(SELECT count(*) FROM pg_class, aclexplode(relacl) AS a
			WHERE relname LIKE 'pgqrs\_%' AND a.grantee = rights.grantee)
$$;
SELECT is(pg_temp.rights('reader'::regrole), 0::bigint, 'the last revoke takes every right');

SELECT pgqrs_grant('one.*', 'reader', 'trigger'), pgqrs_grant('two.*', 'reader', 'trigger'),
	pgqrs_grant('one.*', 'reader', 'work') \g /dev/null
SELECT ok(has_function_privilege('reader', 'pgqrs_heartbeat(bigint)', 'EXECUTE'),
	'a grant of work gives EXECUTE on the functions of workers');
SELECT pgqrs_revoke('one.*', 'reader', 'work') \g /dev/null
SELECT ok(NOT has_function_privilege('reader', 'pgqrs_heartbeat(bigint)', 'EXECUTE'),
	'a revoke of work takes EXECUTE on the functions of workers');
SELECT pgqrs_revoke('one.*', 'reader', 'trigger') \g /dev/null
SELECT ok(has_function_privilege('reader', 'pgqrs_find_run(text, text)', 'EXECUTE')
	AND has_table_privilege('reader', 'pgqrs_runs', 'SELECT'), 'a revoke leaves what another grant needs');
SELECT pgqrs_grant('two.*', 'reader', 'trigger') \g /dev/null
SELECT is((SELECT count(*) FROM pgqrs_grants WHERE grantee = 'reader'), 1::bigint,
	'granting a privilege twice makes one grant');
SELECT pgqrs_revoke('two.*', 'reader', 'trigger') \g /dev/null
SELECT is(pg_temp.rights('reader'::regrole), 0::bigint, 'one revoke takes a privilege that was granted twice');

-- What is written
SELECT pgqrs_grant('x.*', 'reader', 'work') \g /dev/null
SELECT is((SELECT (pattern, privilege, granted_by)::text FROM pgqrs_grants WHERE grantee = 'reader'),
	format('(x.*,work,%s)', current_user), 'a grant stores pattern, privilege and grantor');
SELECT cmp_ok((SELECT granted_at FROM pgqrs_grants WHERE grantee = 'reader'), '>', now(),
	'a grant stores the time of the call, not of the transaction');

-- Rights that went missing come back.
REVOKE EXECUTE ON FUNCTION pgqrs_heartbeat(bigint) FROM reader;
GRANT EXECUTE ON FUNCTION pgqrs_enqueue TO reader;
SELECT pgqrs_sync_grants() \g /dev/null
SELECT ok(has_function_privilege('reader', 'pgqrs_heartbeat(bigint)', 'EXECUTE'),
	'pgqrs_sync_grants() gives back a right that was revoked by hand');
SELECT is_empty($$SELECT FROM ours WHERE proname = 'pgqrs_enqueue'
	AND has_function_privilege('reader', oid, 'EXECUTE')$$,
		'pgqrs_sync_grants() takes a right that was granted by hand');

-- A savepoint that is rolled back takes the grant with it.
SAVEPOINT before;
SELECT pgqrs_grant('shop', 'reader', 'trigger') \g /dev/null
SELECT ok(pg_temp.may_trigger('shop'), 'a grant counts at once');
ROLLBACK TO before;
SELECT ok(NOT pg_temp.may_trigger('shop'), 'rolling back to a savepoint undoes a grant');
SELECT pgqrs_grant('shop', 'reader', 'trigger') \g /dev/null
SAVEPOINT before;
SELECT pgqrs_revoke('shop', 'reader', 'trigger') \g /dev/null
SELECT ok(NOT pg_temp.may_trigger('shop'), 'a revoke counts at once');
ROLLBACK TO before;
SELECT ok(pg_temp.may_trigger('shop'), 'rolling back to a savepoint undoes a revoke');

-- Membership and attributes of roles count as they are now.
CREATE ROLE member;
SELECT is((pg_temp.probe('member', 'SELECT pgqrs_version()')).state, '42501',
	'a role that is no member may not call');
GRANT reader TO member;
SELECT is((pg_temp.probe('member', $$SELECT pgqrs_enqueue('shop', '1')$$)).state, '00000',
	'a member has the privileges of its role');
REVOKE reader FROM member;
SELECT pgqrs_grant('other.*', 'member', 'trigger') \g /dev/null
SELECT is((pg_temp.probe('member', $$SELECT pgqrs_enqueue('shop', '1')$$)).state, 'PQ001',
	'a role that is no longer a member has only its own privileges');
ALTER ROLE member SUPERUSER;
SELECT is((pg_temp.probe('member', $$SELECT pgqrs_enqueue('shop', '1')$$)).state, '00000', 'a superuser may call');
ALTER ROLE member NOSUPERUSER;
SELECT is((pg_temp.probe('member', $$SELECT pgqrs_enqueue('shop', '1')$$)).state, 'PQ001',
	'a role that is no longer a superuser has only its own privileges');

-- public is everybody, today's and tomorrow's.
SELECT pgqrs_grant('shop', 'public', 'work') \g /dev/null
CREATE ROLE newcomer;
SELECT is((pg_temp.probe('newcomer', $$SELECT pgqrs_dequeue('shop')$$)).state, '00000',
	'a role created later has the privileges of public');
SELECT is((pg_temp.probe('newcomer', $$SELECT pgqrs_enqueue('shop', '1')$$)).state, '42501',
	'a role created later has no privilege that public lacks');
SELECT is((pg_temp.probe('newcomer', $$SELECT pgqrs_dequeue('shop.eu')$$)).state, 'PQ001',
	'a role with privileges of public sees no other queue');
SELECT pgqrs_revoke('shop', 'public', 'work') \g /dev/null
SELECT is(pg_temp.rights(0), 0::bigint, 'the last revoke from public takes every right');
SELECT is((pg_temp.probe('newcomer', $$SELECT pgqrs_dequeue('shop')$$)).state, '42501',
	'a role created later loses the privileges of public');

-- A role that is gone counts for nothing, and can still be revoked from.
DROP OWNED BY reader;
DROP ROLE reader;
SELECT lives_ok($$SELECT pgqrs_revoke('shop', 'reader', 'trigger')$$,
	'a privilege of a dropped role is revoked by its name');
SELECT is((SELECT count(*) FROM pgqrs_grants WHERE grantee = 'reader' AND pattern = 'shop'), 0::bigint,
	'the revoked privilege of a dropped role is gone');
SELECT lives_ok($$SELECT pgqrs_grant('shop', 'member', 'work')$$,
	'a grant works beside the grants of a dropped role');
SELECT lives_ok('SELECT pgqrs_sync_grants()', 'pgqrs_sync_grants() works beside the grants of a dropped role');
SELECT is((pg_temp.probe('member', $$SELECT pgqrs_dequeue('shop')$$)).state, '00000',
	'a check of privileges works beside the grants of a dropped role');

-- Bad arguments
SELECT throws_ok(format('SELECT %s(%s)', f, arguments), state, NULL, format('%s(%s) is refused with %s', f, arguments,
	state))
	FROM unnest('{pgqrs_grant,pgqrs_revoke}'::text[]) AS f,
		(VALUES
			($$NULL, 'member', 'work'$$, '22004'),
			($$'a', NULL, 'work'$$, '22004'),
			($$'a', 'member', NULL$$, '22004'),
			($$'', 'member', 'work'$$, '22023'),
			($$'a.*.b', 'member', 'work'$$, '22023'),
			($$'a*', 'member', 'work'$$, '22023'),
			($$'pgqrs.a', 'member', 'work'$$, '22023'),
			($$' a', 'member', 'work'$$, '22023'),
			($$repeat('a', 256), 'member', 'work'$$, '22023'),
			($$'a', 'member', 'write'$$, '22023'),
			($$'a', 'member', 'WORK'$$, '22023'),
			($$'a', 'no such role', 'work'$$, '42704'),
			($$'a', 'Member', 'work'$$, '42704'),
			($$'a', '"member"', 'work'$$, '42704'),
			($$'a', '', 'work'$$, '42704'),
			($$'a', repeat('member', 11), 'work'$$, '42704'),
			($$'a', 'PUBLIC', 'work'$$, '42704')) AS v (arguments, state);
SELECT is_empty($$SELECT FROM pgqrs_grants WHERE pattern = 'a'$$, 'refused grants write nothing');

-- What is remembered for the current role does not grow.
SELECT count((pg_temp.probe(w.role, $$SELECT pgqrs_readable_queues()$$)).state)
	FROM generate_series(1, 200), who AS w \g /dev/null
SELECT cmp_ok((SELECT sum(total_bytes) FROM pg_backend_memory_contexts WHERE name = 'pgqrs grants'), '<',
	65536::numeric,
	'thousands of checks of privileges keep the memory for grants small');

--
-- Another schema, another owner
--

DROP EXTENSION pgqrs CASCADE;
CREATE ROLE "the ""owner""" SUPERUSER;
CREATE ROLE deputy IN ROLE "the ""owner""";
CREATE ROLE "A ""role""";
CREATE SCHEMA "a b";
GRANT USAGE ON SCHEMA "a b" TO "the ""owner""";
SET LOCAL ROLE "the ""owner""";
CREATE EXTENSION pgqrs SCHEMA "a b";
RESET ROLE;

SELECT lives_ok($$SELECT "a b".pgqrs_grant('*', 'A "role"', 'admin')$$,
	'a superuser that does not own the extension may grant');
SELECT ok(has_schema_privilege('A "role"', 'a b', 'USAGE'), 'a grant gives USAGE on the extension''s schema');
SELECT is((SELECT DISTINCT a.grantor::regrole::text FROM pg_proc, aclexplode(proacl) AS a
		WHERE proname LIKE 'pgqrs\_%'), '"the ""owner"""', 'the rights of a grant come from the owner');
SELECT is((pg_temp.probe('A "role"', $$SELECT "a b".pgqrs_create_queue('q')$$)).state, '00000',
	'a role with a grant calls a function in another schema');
SELECT is((pg_temp.probe('A "role"', $$SELECT * FROM "a b".pgqrs_queue_stats$$)).state, '00000',
	'a role with a grant reads a view in another schema');
SET LOCAL client_min_messages = error;	-- no say over the schema: a warning
SELECT is((pg_temp.probe('deputy', $$SELECT "a b".pgqrs_grant('q', 'newcomer', 'work')$$)).state, '00000',
	'a member of the owner may grant');
SELECT is((pg_temp.probe('deputy', $$SELECT "a b".pgqrs_create_queue('q')$$)).state, '00000',
	'a member of the owner may call everything');
SELECT lives_ok($$SELECT "a b".pgqrs_grant('q', 'the "owner"', 'work'), "a b".pgqrs_revoke('q', 'the "owner"',
	'work')$$,
	'a grant to the owner, and its revoke, are accepted');
SELECT ok(has_function_privilege('the "owner"', '"a b".pgqrs_heartbeat(bigint)', 'EXECUTE')
	AND EXISTS (SELECT FROM pg_proc, aclexplode(proacl) AS a
		WHERE proname = 'pgqrs_heartbeat' AND a.grantee = '"the ""owner"""'::regrole),
	'a grant to the owner, and its revoke, leave the owner''s rights alone');
SELECT lives_ok($$SELECT "a b".pgqrs_revoke('*', 'A "role"', 'admin')$$,
	'a superuser that does not own the extension may revoke');
SELECT is(pg_temp.rights('"A ""role"""'::regrole), 0::bigint, 'the revoke of a superuser takes every right');

SELECT finish();
ROLLBACK;
