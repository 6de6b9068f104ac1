-- Pages of a run and of dead letters with many large values: what they show, and that
-- a page reads the first of them alone, in buffers.
SELECT * FROM no_plan();
\ir include/buffers.sql
SET client_min_messages = error;

-- Each large value is compressed once, and stored again as it is.
CREATE TEMP TABLE stored (name text, value jsonb);
INSERT INTO stored SELECT v.name, jsonb_build_object('type', 'E' || v.name, 'message', repeat('x', v.bytes))
	FROM (VALUES ('small', 1000), ('medium', 60000), ('large', 1638400), ('huge', 5000000)) AS v (name, bytes);
INSERT INTO stored SELECT 'history', jsonb_build_array(jsonb_build_object('at', now(), 'attempt', 1, 'error', value))
	FROM stored WHERE name = 'large';

SELECT pgqrs_create_workflow('heavy') AS workflow \gset
SELECT pgqrs_trigger('heavy', '1') AS run \gset
UPDATE pgqrs_workflow_runs SET input = value FROM stored WHERE run_id = :run AND name = 'huge';
SELECT pgqrs_trigger('heavy', value) AS light FROM stored WHERE name = 'large' \gset
INSERT INTO pgqrs_run_events (event_id, run_id, at, event, data)
SELECT 1000 + n, :run, now(), 'step_failed', s.value
	FROM generate_series(1, 200) AS n JOIN stored AS s ON s.name = CASE n WHEN 1 THEN 'huge' WHEN 200 THEN 'medium' ELSE
		'large' END;
INSERT INTO pgqrs_run_signals (signal_id, run_id, sent_at, name, payload)
SELECT 1000 + n, :run, now(), 's', s.value FROM generate_series(1, 99) AS n JOIN stored AS s ON s.name = 'large';
INSERT INTO pgqrs_workflow_steps (run_id, started_at, completed_at, attempt, failures, kind, status, step_id, error,
	history)
SELECT :run, now(), now(), 1, 1, 'FUNCTION', 'ERROR', 's' || n, s.value, CASE WHEN n % 2 = 0 THEN h.value END
	FROM generate_series(1001, 1200) AS n JOIN stored AS s ON s.name = 'large' JOIN stored AS h ON h.name = 'history';
INSERT INTO pgqrs_workflow_steps (run_id, started_at, attempt, failures, kind, status, step_id, output)
SELECT :run, now(), 0, 0, 'PAUSE', 'SUCCESS', 'kept', value FROM stored WHERE name = 'large';
INSERT INTO pgqrs_workflow_runs (run_id, workflow_id, created_at, started_at, completed_at, attempt, failures, status,
	priority, rerun_of, error)
SELECT :run + 1000 + n, :workflow, now(), now(), now(), 1, 0, 'ERROR', 0, :run, s.value
	FROM generate_series(1, 50) AS n JOIN stored AS s ON s.name = 'large';
SELECT pgqrs_create_queue('letters') AS queue \gset
INSERT INTO pgqrs_archive (message_id, queue_id, archived_at, visible_after, enqueued_at, attempt, failures, outcome,
	priority, last_error)
SELECT :run + 2000 + n, :queue, now() - n * interval '1 s', now(), now(), 1, 1, 'DEAD', 0, s.value
	FROM generate_series(1, 200) AS n JOIN stored AS s ON s.name = CASE n WHEN 1 THEN 'small' ELSE 'large' END;
SELECT cmp_ok(pg_total_relation_size('pgqrs_run_events'), '<', 8 * 1024 * 1024::bigint, 'the values are compressed');

-- How often a page has a text.
CREATE FUNCTION pg_temp.times(page text, shown text) RETURNS bigint LANGUAGE sql AS
$$
	SELECT count(*) FROM regexp_matches(page, shown, 'g')
$$;
SELECT pgqrs_report_page('run', jsonb_build_object('run', :'run')) AS page \gset
SELECT pgqrs_report_page('run', jsonb_build_object('run', :'light')) AS page_light \gset
SELECT pgqrs_report_page('dead') AS dead \gset

-- 6 of 1600 kB are 10 MB.
SELECT is(pg_temp.times(:'page', '1600 kB not read, see ' || v.view || '<'), v.times,
	'the page of a run leaves out the large values after 10 MB: ' || v.view)
	FROM (VALUES ('pgqrs_events', bigint '192'), ('pgqrs_sent_signals', 93), ('pgqrs_signals', 1), ('pgqrs_runs', 44)) AS v
		(view,
		times);
SELECT is(pg_temp.times(:'page', '[0-9]+ kB not read, see pgqrs_steps<'), 194::bigint,
	'the page of a run leaves out the large errors and histories of steps after 10 MB');
SELECT is(pg_temp.times(:'page', '4883 kB not read, see ' || v.view || '<'), 1::bigint,
	'of a value over 4 MB the page of a run has the size: ' || v.view)
	FROM (VALUES ('pgqrs_events'), ('pgqrs_runs')) AS v (view);
SELECT is(pg_temp.times(:'page', 'Elarge: xxx'), (6 + 6 + 6)::bigint,
	'the page of a run shows the first large events, steps and reruns');
SELECT is(pg_temp.times(:'page', 'Emedium: xxx'), 1::bigint, 'it shows a value of 60 kB after them');
SELECT is(pg_temp.times(:'page_light', 'not read'), 0::bigint, 'one large input is shown');
SELECT is(pg_temp.times(:'dead', '1600 kB not read, see pgqrs_dead_letters<'), (50 - 7 + 1)::bigint,
	'the page of dead letters leaves out the large errors after 10 MB, and of them all there is one cause');
SELECT is(pg_temp.times(:'dead', 'Elarge: xxx'), (6 + 1)::bigint, 'it shows the newest of them');
SELECT cmp_ok(length(p), '<', 1024 * 1024, 'the page has less than 1 MB') FROM unnest(ARRAY[:'page', :'dead']) AS p;

-- Each value has 10 buffers of its own, which reading it touches once or more often.
SELECT cmp_ok(buffers(format('SELECT pgqrs_report_page(''run'', ''{"run": "%s"}'')', :run)), '<', 2000,
	'the page of a run does not read the others');
SELECT cmp_ok(buffers('SELECT pgqrs_report_page(''dead'')'), '<', 700,
	'the page of dead letters does not read the others');
SELECT * FROM finish(true);
