-- Five queues stand still at once, each for a cause of its own: pgqrs_health names
-- them, pgqrs_why() the causes, and its hints mend them.
SELECT * FROM no_plan();
SET client_min_messages = warning;
CREATE EXTENSION dblink;
CREATE FUNCTION pg_temp.session(name text) RETURNS integer LANGUAGE sql AS
$$
	SELECT dblink_connect(name, format('host=%s port=%s dbname=%s user=%s application_name=%s',
		current_setting('unix_socket_directories'), current_setting('port'), current_database(), current_user, name));
	SELECT pid FROM dblink(name, 'SELECT pg_backend_pid()') AS s (pid integer)
$$;

SELECT pgqrs_create_queue('crm.' || name, '1 day', max_in_flight => CASE name WHEN 'full' THEN 1 END),
	pgqrs_enqueue_batch('crm.' || name, '{1,2}') FROM unnest('{full,lonely,open,paused,suspended}'::text[]) AS name
	\g /dev/null
SELECT pgqrs_pause_queue('crm.paused') \g /dev/null
SELECT pgqrs_register_worker('sleeper', '{crm.suspended}') AS sleeper,
	pgqrs_register_worker('worker', '{crm.full,crm.open,crm.paused}') AS worker \gset
SELECT pgqrs_suspend_worker(:sleeper) \g /dev/null
SELECT pg_temp.session('hung_script') AS hung, pg_temp.session('left_open') AS open \gset
SELECT message_id AS held FROM dblink('hung_script', $$SELECT message_id FROM pgqrs_dequeue('crm.full')$$)
	AS d (message_id bigint) \gset
SELECT dblink_exec('left_open', 'BEGIN') \g /dev/null
SELECT count(*) FROM dblink('left_open', $$SELECT message_id FROM pgqrs_dequeue('crm.open', batch_size => 9)$$)
	AS d (message_id bigint) \g /dev/null
SELECT is((SELECT count(*) FROM pgqrs_dequeue('crm.*', :worker, 9)), 0::bigint, 'no queue delivers anything');
UPDATE pgqrs_messages SET visible_after = visible_after - interval '6 min', dequeued_at = dequeued_at - interval '6 min'
	WHERE queue_id <> (SELECT queue_id FROM pgqrs_queues WHERE name = 'crm.open');

-- What the page for the operator on call asks.
SELECT is(value, 'crm.full, crm.lonely, crm.paused, crm.suspended', 'health names the queues that stand still')
	FROM pgqrs_health WHERE item = 'queues that stand still' AND NOT ok;
UPDATE pgqrs_messages SET dequeued_at = dequeued_at + interval '6 min' WHERE message_id = :held; -- no session is older
SELECT results_eq($$SELECT s.queue, w.reason
		FROM pgqrs_queue_stats AS s, LATERAL (SELECT * FROM pgqrs_why(s.queue) WHERE hint IS NOT NULL LIMIT 1) AS w
		WHERE s.ready > 0 ORDER BY s.queue$$,
	$$VALUES ('crm.full', 'max_in_flight'), ('crm.lonely', 'no worker'), ('crm.open', 'open transaction'),
		('crm.paused', 'paused'), ('crm.suspended', 'suspended')$$, 'one query names the cause of each');
SELECT matches(detail, format('without a worker \(pid %s, role %s, hung_script\) until', :hung, current_user),
	'the session that uses up the limit is named') FROM pgqrs_why('crm.full') WHERE reason = 'max_in_flight';
SELECT matches(detail, format('pid %s, role %s, left_open, open since', :open, current_user),
	'the session that has the claim open is named') FROM pgqrs_why('crm.open') WHERE reason = 'open transaction';
SELECT is(detail, 'suspended workers: "sleeper"', 'the suspended worker is named')
	FROM pgqrs_why('crm.suspended') WHERE reason = 'suspended';
SELECT is(concat_ws(' ', message_id = :held, pid = :hung, application_name), 't t hung_script',
	'pgqrs_in_flight names the session that holds the message') FROM pgqrs_in_flight WHERE queue = 'crm.full';
SELECT is(string_agg(queue || ' ' || live_workers, ', ' ORDER BY queue) FILTER (WHERE live_workers = 0),
	'crm.lonely 0, crm.suspended 0', 'the figures tell which queues have no live worker') FROM pgqrs_queue_stats;

-- Each mend, as the hints say it.
SELECT pgqrs_resume_queue('crm.paused'), pgqrs_resume_worker(:sleeper),
	pgqrs_register_worker('new', '{crm.lonely}') \g /dev/null
SELECT pg_terminate_backend(pid, 60000), pgqrs_set_visibility(message_id, pgqrs_now())
	FROM pgqrs_in_flight WHERE application_name = 'hung_script' \g /dev/null
SELECT pg_terminate_backend(:open, 60000) \g /dev/null
SELECT is(string_agg(DISTINCT w.reason, ', '), 'ready', 'nothing stands in the way any more')
	FROM pgqrs_queue_stats AS s, pgqrs_why(s.queue) AS w WHERE w.reason <> 'background work';
SELECT is((SELECT count(*) FROM pgqrs_dequeue('crm.*', batch_size => 20)), 9::bigint,
	'all that the limit allows is delivered');
SELECT is(value, '0', 'no queue stands still') FROM pgqrs_health WHERE item = 'queues that stand still' AND ok;
SELECT dblink_disconnect(name) FROM unnest(dblink_get_connections()) AS name \g /dev/null
SELECT * FROM finish();
