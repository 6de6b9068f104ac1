-- A busy database: an hour of ended messages, several workflows with runs of
-- all kinds, and names and errors that try to leave their place in the page.
SET client_min_messages = error;
\o /dev/null
SELECT setseed(0.5);
SELECT pgqrs_create_queue('mail', max_attempts => 2), pgqrs_create_queue('thumbnails'),
	pgqrs_create_queue('tenant.billing.exports'),
	pgqrs_create_queue('<script>alert("q")</script> & ''x'' ' || repeat('long', 50)),
		pgqrs_create_queue(U&'\0437\0430\043A\0430\0437\044B \65E5\672C\8A9E'),
	pgqrs_create_workflow('ship_order', initial_interval => '1 us', max_interval => '1 us'),
		pgqrs_create_workflow('nightly_report'), pgqrs_create_workflow('parcel.<b>label</b>');
SELECT pgqrs_register_worker('packer-1', '{*}', max_concurrent => 8, hostname => 'node-a', version => '2.4.1') AS w1,
	pgqrs_register_worker('packer-2', '{*}', hostname => 'node-b', version => '2.4.1') AS w2,
	pgqrs_register_worker('<img src=x onerror=alert(1)>', '{mail}', hostname => 'old"host',
		version => '2.3.0 & up') AS w3 \gset
SELECT pgqrs_suspend_worker(:w2), pgqrs_stop_worker(:w3);
SELECT pgqrs_pause_queue('tenant.billing.exports');

-- ended within the last hour, more of them now than then
INSERT INTO pgqrs_archive (message_id, queue_id, archived_at, visible_after, enqueued_at, attempt, failures, outcome,
	priority, last_error, payload)
	SELECT nextval('pgqrs_message_id_seq'), q.queue_id, t.at, t.at,
		t.at - interval '1 s' * exp(4 * random() - 3.5) * (1 + 6 * (m.m = 31)::integer), 1, 0,
		CASE WHEN random() < 0.02 + 0.15 * (m.m BETWEEN 30 AND 33)::integer THEN 'DEAD'
			WHEN random() < 0.02 THEN 'CANCELLED' ELSE 'DONE' END::pgqrs_outcome, 0,
		(ARRAY['{"type": "smtp", "message": "550 no such user"}',
			'{"type": "timeout", "message": "upstream did not answer within 30 s"}',
			'"<script>alert(''plain'')</script> & more"',
			'{"code": 17}'])[1 + floor(4 * random())]::jsonb, '1'
	FROM generate_series(1, 57) AS m (m)
		CROSS JOIN generate_series(1, (40 + 30 * sin(m.m / 7.0) - 35 * (m.m BETWEEN 30 AND 33)::integer)::integer) AS
			n
		CROSS JOIN LATERAL (SELECT pgqrs_now() - interval '1 min' * m.m - interval '1 s' * (60 * random() + n * 0) AS
			at) AS t
		JOIN pgqrs_queues AS q ON q.name = CASE WHEN n % 3 = 0 THEN 'mail' ELSE 'thumbnails' END
	ORDER BY t.at;

-- what waits
SELECT count(pgqrs_enqueue('thumbnails', '{}')) FROM generate_series(1, 340);
SELECT count(pgqrs_enqueue('mail', '{}', delay => '1 hour')) FROM generate_series(1, 12);
SELECT pgqrs_enqueue(name, '{}') FROM pgqrs_queues WHERE name LIKE '<script>%';
SELECT count(*) FROM pgqrs_dequeue('thumbnails', :w1, 6);

-- runs
DO $$
DECLARE
	run bigint;
	d record;
BEGIN
	FOR i IN 1..60 LOOP
		run := pgqrs_trigger('ship_order', jsonb_build_object('order', i), tags => '{"shop": "<i>main</i>"}');
		SELECT * INTO d FROM pgqrs_dequeue('ship_order');
		PERFORM pgqrs_step_begin(run, d.lease, 'charge');
		PERFORM pgqrs_step_complete(run, d.lease, 'charge', '"R-1"');
		IF i % 7 = 0 THEN
			PERFORM pgqrs_fail_run(run, d.lease, jsonb_build_object('type', 'payment.declined', 'message',
				format('card of order %s was declined by <bank> & "co"', i)));
		ELSIF i % 11 = 0 THEN
			PERFORM pgqrs_cancel_run(run, 'changed </p> mind');
			PERFORM pgqrs_acknowledge_cancel(run, d.lease);
		ELSE
			PERFORM pgqrs_complete_run(run, d.lease, '"sent"');
		END IF;
	END LOOP;
	UPDATE pgqrs_workflow_runs SET started_at = started_at - interval '1 s' * 40 * random() ^ 4
		WHERE started_at IS NOT NULL;
	UPDATE pgqrs_workflow_runs SET created_at = started_at - interval '10 ms';

	-- one that has seen everything; its times are moved below
	run := pgqrs_trigger('parcel.<b>label</b>', '{"order": 99, "note": "</pre><script>alert(1)</script>"}',
		tags => '{"k": "\"quoted\""}', idempotency_key => '<key> & ''co''');
	FOR i IN 1..4 LOOP
		SELECT * INTO d FROM pgqrs_dequeue('parcel.<b>label</b>');
		PERFORM pgqrs_step_begin(run, d.lease, 'look up the address <script>');
		PERFORM pgqrs_step_fail(run, d.lease, 'look up the address <script>',
			jsonb_build_object('type', 'http.503', 'message', 'try ' || i || ': <body onload="alert(1)"> '
				|| repeat('0123456789', 40)), retry_after => '0', max_attempts => -1);
	END LOOP;
	SELECT * INTO d FROM pgqrs_dequeue('parcel.<b>label</b>');
	PERFORM pgqrs_step_begin(run, d.lease, 'look up the address <script>');
	PERFORM pgqrs_step_complete(run, d.lease, 'look up the address <script>', '{"street": "A & B"}');
	PERFORM pgqrs_sleep(run, d.lease, 'cool down', '1 us');
	PERFORM pg_sleep(0.001);
	SELECT * INTO d FROM pgqrs_dequeue('parcel.<b>label</b>');
	PERFORM pgqrs_sleep(run, d.lease, 'cool down', '1 us');
	PERFORM pgqrs_signal(run, 'approved & signed', '{"by": "<ada>"}');
	PERFORM pgqrs_await_signal(run, d.lease, 'approval', 'approved & signed');
	PERFORM pgqrs_start_children(run, d.lease, 'notify', 'nightly_report', '{1,2,3}'::jsonb[]);
	PERFORM pgqrs_set_progress(run, d.lease, '{"done": 3, "of": 5}');
	PERFORM pgqrs_step_begin(run, d.lease, 'print');
	PERFORM pgqrs_await_child(run, d.lease, 'notify[1]');
	UPDATE pgqrs_workflow_runs AS r SET created_at = pgqrs_now() - interval '5 min',
		started_at = pgqrs_now() - interval '4 min 50 s' WHERE r.run_id = run;
	UPDATE pgqrs_workflow_steps AS s SET started_at = pgqrs_now() - t.since, completed_at = CASE
		WHEN s.completed_at IS NOT NULL THEN pgqrs_now() - t.until END
		FROM (VALUES ('look up the address <script>', interval '4 min 50 s', interval '2 min 40 s'),
			('cool down', '2 min 38 s', '1 min 30 s'), ('approval', '1 min 29 s', '55 s')) AS t (step_id, since,
			until)
		WHERE s.run_id = run AND s.step_id = t.step_id;
	UPDATE pgqrs_workflow_steps AS s SET history = (SELECT jsonb_agg(jsonb_set(h, '{at}',
		to_jsonb(pgqrs_now() - interval '1 s' * (290 - 25 * n))) ORDER BY n)
		FROM jsonb_array_elements(history) WITH ORDINALITY AS h (h, n))
		WHERE s.run_id = run AND history IS NOT NULL;
	INSERT INTO pgqrs_run_events VALUES (nextval('pgqrs_event_id_seq'), run, pgqrs_now(), 'CLAIMED <b>',
		'{"worker": "<i>"}');
END
$$;
SELECT pgqrs_schedule('nightly <report>', '30 2 * * mon-fri', 'nightly_report', timezone => 'Europe/Berlin',
	overlap => 'skip'), pgqrs_schedule('every quarter', '*/15 * * * *', 'ship_order', enabled => false),
	pgqrs_schedule('labels', '@hourly', 'parcel.<b>label</b>');
UPDATE pgqrs_schedules SET last_fired_at = pgqrs_now(), last_run_id = pgqrs_trigger_schedule('labels')
	WHERE name = 'labels';
\o
