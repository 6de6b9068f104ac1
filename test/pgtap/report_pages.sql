-- The pages for a web server: well-formed, made of nothing but what the role may
-- read, with every value escaped, no script and no style of their own; filters and
-- parts of lists; the SQL of actions; and 100,000 runs.
BEGIN;
SELECT no_plan();

CREATE TEMP TABLE pages (name text PRIMARY KEY, page text, document xml);
GRANT ALL ON pages TO public;
CREATE FUNCTION pg_temp.found(name text, path text) RETURNS text[] LANGUAGE sql AS
$$
	SELECT array_agg(trim(x::text)) FROM pages AS p, unnest(xpath(path, p.document)) AS x WHERE p.name = $1
$$;
-- Stores a page under a name.
CREATE FUNCTION pg_temp.ask(name text, page text, parameters jsonb = NULL, csrf text = NULL) RETURNS void LANGUAGE sql
	SET search_path = public, pg_temp AS
$$
	INSERT INTO pg_temp.pages SELECT name, p, xmlparse(DOCUMENT p) FROM pgqrs_report_page(page, parameters, csrf) AS p
	ON CONFLICT ON CONSTRAINT pages_pkey DO UPDATE SET page = EXCLUDED.page, document = EXCLUDED.document
$$;
-- The ids in the first column of the first table of a page.
CREATE FUNCTION pg_temp.ids(page text, parameters jsonb) RETURNS text LANGUAGE sql AS
$$
	SELECT pg_temp.ask('ids', page, parameters);
	SELECT array_to_string(pg_temp.found('ids', '(//table)[1]/tbody/tr/th//a/text()'), ' ')
$$;

SELECT pg_temp.ask('empty ' || p, p, '{}', 'secret') FROM unnest('{"",queues,runs,workers,schedules,dead}'::text[]) AS p
	\g /dev/null
SELECT pg_temp.ask('empty live', 'runs', '{"status": "live"}') \g /dev/null
\ir include/busy.sql
SELECT run_id AS run FROM pgqrs_runs WHERE workflow = 'parcel.<b>label</b>' AND idempotency_key IS NOT NULL \gset
SELECT min(run_id) AS failed FROM pgqrs_runs WHERE status = 'ERROR' \gset
SELECT queue AS hostile FROM pgqrs_queues_list WHERE queue LIKE '<script>%' \gset
-- nothing serves what waits
SELECT pgqrs_stop_worker(worker_id) FROM pgqrs_worker_stats WHERE status <> 'STOPPED' \g /dev/null
UPDATE pgqrs_messages SET visible_after = visible_after - interval '1 min';
SELECT pg_temp.ask(name, page, parameters, 'secret') FROM (VALUES
	('overview', '', '{}'::jsonb), ('queues', 'queues', '{}'), ('queue', 'queue', '{"queue": "thumbnails"}'),
	('hostile queue', 'queue', jsonb_build_object('queue', :'hostile')), ('runs', 'runs', '{}'),
	('filtered runs', 'runs', '{"workflow": "\"><script>", "status": "ERROR", "tags": "<i>=&", "error": "''\"<b>",
		"after": "2026-01-01", "before": "2099-01-01", "refresh": "<b>"}'),
	('live runs', 'runs', '{"status": "live"}'), ('run', 'run', jsonb_build_object('run', :'run')),
	('failed run', 'run', jsonb_build_object('run', :'failed')), ('workers', 'workers', '{}'),
	('schedules', 'schedules', '{}'), ('dead', 'dead', '{}'), ('dead of a queue', 'dead', '{"queue": "mail"}'),
	('form', 'do', '{"action": "cancel_runs", "workflow": "\"/><script>alert(1)</script>", "reason": "</textarea>"}'),
	('form of a signal', 'do',
		'{"action": "signal", "run": "1", "signal": "\" onfocus=\"x", "payload": "{\"a\": \"<\"}"}'))
	AS v (name, page, parameters) \g /dev/null
INSERT INTO pages SELECT 'answer', p, xmlparse(DOCUMENT p) FROM pgqrs_report_answer(
	'{"run": "<b>", "queue": "<i>", "name": "x", "workflow": "\"><script>"}', 'SELECT ''<b>''', false,
		'<script>&', NULL) AS p;

--
-- Documents
--

SELECT ok(page LIKE E'<!DOCTYPE html>\n<html lang="en">%', 'the page is a document of HTML: ' || name) FROM pages;
SELECT is(pg_temp.found(name, '//script | //style | //img | //iframe | //object | //base | '
	'//body/descendant::*[name() = "body"] | //i[not(@class)] | //table//b'), NULL,
	'the page has no script, no style of its own, and no element that came from a value: ' || name) FROM pages;
SELECT is(pg_temp.found(name, '//@style | //@src | //@*[starts-with(name(), "on")]'), NULL,
	'the page has no attribute that a strict policy forbids: ' || name) FROM pages;
SELECT is(array_remove(array_agg(h), 'style.css'), '{}',
	'every address of the page is relative and leads to a page: ' || name)
	FROM pages LEFT JOIN LATERAL unnest(pg_temp.found(name, '//@href | //@action | //@formaction')) AS h
		ON h !~ '^(\.|queues|queue|runs|run|workers|schedules|dead|do|#main)(\?[A-Za-z0-9_.~%=&;-]*)?$' GROUP BY name
	HAVING array_remove(array_agg(h), 'style.css') <> '{NULL}';
SELECT is(pg_temp.found(name, '//table[count(thead/tr/th) * count(tbody/tr) != count(tbody/tr/*)]'), NULL,
	'every row of a table has a cell for each column: ' || name) FROM pages;
SELECT is(pg_temp.found(name, '//input[not(@type = "hidden")][not(parent::label)] | //select[not(parent::label)] | '
	'//textarea[not(parent::label)]'), NULL, 'every field of the page has a label: ' || name) FROM pages;
SELECT is(array_length(pg_temp.found(name, '//h1'), 1), 1, 'the page has one heading of the first level: ' || name)
	FROM pages;
SELECT is(pg_temp.found(name, '//form[@method = "post"]//*[@name = "csrf"][not(self::button)]'), NULL,
	'the secret of a form is sent with its action alone: ' || name) FROM pages;
SELECT is(array_length(pg_temp.found(name, '//nav/a'), 1), 6, 'the page leads to the six others: ' || name) FROM pages;
SELECT unalike(pgqrs_report_style(), '%' || w || '%', 'the style sheet loads nothing: ' || w)
	FROM unnest('{url(,@import,http:,https:}'::text[]) AS w;
SELECT is(pgqrs_report_page('nothing'), NULL, 'a page that is none is NULL');

--
-- What pages show
--

SELECT is(pg_temp.found('overview',
	'//h2[starts-with(., "Longest waits")]/following-sibling::table[1]/tbody/tr[1]//strong/text()'),
	'{"no worker"}', 'the overview says why the oldest message waits');
SELECT ok(pg_temp.found('overview', '//span[@class = "b bad"]/text()') @> '{unserved}',
	'the overview marks unserved workflows');
SELECT is(pg_temp.found('hostile queue', '//h1/text()'), ARRAY[trim(replace(replace(replace(:'hostile', '&', '&amp;'),
	'<', '&lt;'), '>', '&gt;'))],
	'the page of a queue shows its name as it is');
SELECT ok(pg_temp.found('hostile queue', '//table[1]/thead/tr/th/text()') @> '{reason,detail}',
	'the page of a queue says why nothing is delivered');
SELECT is(pg_temp.found('schedules', '(//table//tr[starts-with(th, "labels")]/td[4]/span)[3]/text()') IS NOT NULL, true,
	'the page of schedules shows the next three firings');
SELECT is(array_length(pg_temp.found('run', '//table//span[@class = "d1"]'), 1), 3,
	'the page of a run shows its children as a tree');
SELECT is(pg_temp.found('live runs', '//table//span[contains(@class, "warn")]/text()') @> '{waiting}', true,
	'the page of live runs marks those that wait');
SELECT is(array_length(pg_temp.found('run', '//a[@class = "act"]'), 1), 4, 'the page of a live run has its actions');
SELECT is(pg_temp.found('failed run', '//a[@class = "act"]/text()'), '{Replay,Rerun}',
	'a run that failed can be replayed and rerun');
SELECT is(pg_temp.found('run', '//h2[starts-with(., "Signals")]/following-sibling::table[1]/tbody/tr/td[2]/text()'),
	'{step approval}', 'the page of a run shows which step consumed a signal');
SELECT pgqrs_rerun(:'failed') AS rerun \gset
SELECT pg_temp.ask('origin', 'run', jsonb_build_object('run', :'failed')),
	pg_temp.ask('rerun', 'run', jsonb_build_object('run', :'rerun')) \g /dev/null
SELECT is(pg_temp.found('origin', '//h2[starts-with(., "Reruns")]/following-sibling::table[1]/tbody/tr/th/a/@href'),
	ARRAY['run?run=' || :'rerun'], 'the page of a run leads to its reruns');
SELECT is(pg_temp.found('rerun', '//h1/following-sibling::p[1]/a[2]/@href'), ARRAY['run?run=' || :'failed'],
	'the page of a rerun leads to its origin');
SELECT pgqrs_create_workflow('undone', on_cancel => 'deliver'), pgqrs_trigger('undone') AS undone \gset
SELECT lease FROM pgqrs_dequeue('undone') \gset
SELECT pgqrs_step_begin(:undone, :lease, 'book'), pgqrs_step_complete(:undone, :lease, 'book', '1'),
	pgqrs_release_message(:undone, :lease), pgqrs_cancel_run(:undone) \g /dev/null
SELECT pg_temp.ask('to be undone', 'run', jsonb_build_object('run', :'undone')) \g /dev/null
SELECT lease FROM pgqrs_dequeue('undone') \gset
SELECT pgqrs_step_begin(:undone, :lease, 'unbook'), pgqrs_step_complete(:undone, :lease, 'unbook', '1'),
	pgqrs_acknowledge_cancel(:undone, :lease) \g /dev/null
SELECT pg_temp.ask('undone', 'run', jsonb_build_object('run', :'undone')) \g /dev/null
SELECT is(pg_temp.found(name, '//dt[. = "undo"]/following-sibling::dd/text()'), ARRAY[undo],
	'the page of a run tells of its undo: ' || name)
	FROM (VALUES ('to be undone', 'its steps are to be undone, for a cancel'),
		('undone', 'its steps were undone, for a cancel')) AS v (name, undo);
SELECT is(pg_temp.found('undone', '//li[.//span = "undo"]//strong/text()'), '{unbook}',
	'the page of a run marks the steps of its undo');
SELECT pg_temp.ask('plain', 'run', jsonb_build_object('run', :'run')) \g /dev/null
SELECT is(pg_temp.found('plain', '//a[@class = "act"] | //form'), NULL, 'without a secret a page has no actions');
SELECT is(pgqrs_report_page('do', '{"action": "cancel", "run": "1"}'), NULL, 'without a secret there is no form');
SELECT is(pgqrs_report_page('do', '{"action": "drop"}', 'secret'), NULL, 'there is no form of an action that is none');
SELECT pg_temp.ask('refreshed', 'queues', '{"refresh": "5", "contains": "a"}') \g /dev/null
SELECT is(pg_temp.found('refreshed', '//meta[@http-equiv = "refresh"]/@content'), '{5}',
	'a page refreshes itself if it is asked to');
SELECT is(pg_temp.found('filtered runs', '//meta[@http-equiv = "refresh"]'), NULL,
	'a page refreshes itself at no other pace');
SELECT throws_ok(format('SELECT pgqrs_report_page(%L, %L)', p, a), e, NULL, format('the page %s with %s is refused',
	p, a))
	FROM (VALUES ('run', '{"run": "99999999999"}', 'PQ003'), ('run', '{}', '22004'), ('run', '{"run": "x"}', '22P02'),
		('queue', '{"queue": "nothing"}', 'PQ001'), ('runs', '{"status": "x"}', '22023'), ('runs', '{"from": "x"}',
			'22P02'),
		('runs', '{"after": "x"}', '22007'), ('runs', '{"after": "2026-02-31"}', '22008'),
		('runs', '{"before": "2026-02-01+99"}', '22009'), ('runs', '{"tags": "{\"a\": \"\\u0000\"}"}', '22P05'),
		('runs', '{"from": "9223372036854775808"}', '22003')) AS v (p, a, e);

--
-- Actions, as SQL
--

SELECT is(pgqrs_report_action(p), s, 'the form is this SQL: ' || coalesce(s, 'none')) FROM (VALUES
	('{"action": "cancel", "run": "7", "reason": "it''s \\ over"}'::jsonb,
		'SELECT * FROM public.pgqrs_cancel_run(run_id => 7, reason => E''it''''s \\ over'')'),
	('{"action": "cancel", "run": "7", "reason": ""}', 'SELECT * FROM public.pgqrs_cancel_run(run_id => 7)'),
	('{"action": "replay", "message": "7"}', 'SELECT * FROM public.pgqrs_replay_message(message_id => 7)'),
	('{"action": "signal", "run": "7", "signal": "go", "payload": "{\"a\":  1}"}',
		'SELECT * FROM public.pgqrs_signal(run_id => 7, signal => ''go'', payload => ''{"a": 1}''::jsonb)'),
	('{"action": "resume", "run": "7", "step": "s"}',
		'SELECT * FROM public.pgqrs_resume_run(run_id => 7, step_id => ''s'')'),
	('{"action": "rerun", "run": "7", "from_step": "s"}',
		'SELECT * FROM public.pgqrs_rerun(run_id => 7, from_step => ''s'')'),
	('{"action": "pause_queue", "queue": "''); DROP TABLE x; --"}',
		'SELECT * FROM public.pgqrs_pause_queue(queue => ''''''); DROP TABLE x; --'')'),
	('{"action": "enable_schedule", "name": "n", "enabled": "true"}',
		'SELECT * FROM public.pgqrs_enable_schedule(name => ''n'', enabled => true)'),
	('{"action": "cancel_runs", "workflow": "nightly_report", "tags": "k=v", "number": "0", "matching": "0"}',
		'SELECT * FROM public.pgqrs_cancel_runs(workflow => ''nightly_report'', '
			|| 'tags => ''{"k": "v"}''::jsonb, max_rows => 0)'),
	('{"action": "cancel_runs", "workflow": "nightly_report", "tags": "k=v", "after": "2030-02-01 12:00+00",
		"number": "0", "matching": "0"}', 'SELECT * FROM public.pgqrs_cancel_runs(workflow => ''nightly_report'', '
			|| 'tags => ''{"k": "v"}''::jsonb, created_after => ''2030-02-01T12:00:00+00:00''::timestamptz, max_rows => 0)'),
	('{"action": "cancel_runs", "workflow": "nightly_report", "number": "1", "matching": "1"}', NULL),
	('{"action": "cancel_runs", "workflow": "w", "number": "3", "matching": "4"}', NULL),
	('{"action": "cancel_runs", "workflow": "w", "matching": "4"}', NULL),
	('{"action": "cancel_runs", "number": "3", "matching": "3"}', NULL), ('{"action": "cancel"}', NULL),
	('{"action": "drop", "run": "7"}', NULL), ('{}', NULL)) AS v (p, s);
SELECT pgqrs_report_action('{"action": "cancel_runs", "workflow": "nightly_report", "tags": "k=v", "number": "0",
	"after": "2030-02-01", "matching": "0"}') AS statement \gset
SET search_path = pg_catalog;
SET datestyle = 'SQL, DMY';
SELECT changed AS pasted FROM (VALUES (1)) AS v (n) CROSS JOIN LATERAL (:statement) AS c \gset
RESET search_path;
RESET datestyle;
SELECT is(:pasted, 0, 'the SQL can be pasted into a session with another search_path and DateStyle');
SELECT throws_ok(format('SELECT pgqrs_report_action(%L)', p), e, NULL, 'the form is refused: ' || p)
	FROM (VALUES ('{"action": "cancel", "run": "7); x"}', '22P02'),
		('{"action": "signal", "run": "7", "signal": "s", "payload": "{"}', '22P02')) AS v (p, e);
SELECT is((SELECT count FROM pgqrs_html_count(p)), n,
		'the number is that of those that the action changes: ' || p::text)
	FROM (VALUES ('{"action": "cancel_runs", "workflow": "nightly_report"}'::jsonb, (SELECT count(*) FROM pgqrs_live_runs
			WHERE workflow = 'nightly_report')),
		('{"action": "cancel_runs", "workflow": "nightly_report", "error": "e"}', 0),
		('{"action": "cancel_runs", "workflow": "ship_order", "status": "SUCCESS"}', 0),
		('{"action": "replay_runs", "workflow": "ship_order"}', 8),
		('{"action": "replay_runs", "workflow": "ship_order", "status": "SUCCESS"}', 0),
		('{"action": "rerun_runs", "workflow": "ship_order", "error": "payment.declined"}', 8),
		('{"action": "rerun_runs", "workflow": "nightly_report", "status": "QUEUED"}', 0)) AS v (p, n);
SELECT is(pg_temp.found('form', '//p[@class = "note"]/strong/text()'), '{0}',
	'the form of many runs says how many match');
SELECT pg_temp.ask('many', 'do', '{"action": "cancel_runs", "workflow": "nightly_report"}', 'secret') \g /dev/null
SELECT is(pg_temp.found('many', '//p[@class = "note"]/strong/text()'), ARRAY[count(*)::text],
	'the form of many runs counts those that are live')
	FROM pgqrs_live_runs WHERE workflow = 'nightly_report';

--
-- What a role may read
--

CREATE ROLE reader;
CREATE ROLE stranger;
SELECT pgqrs_create_queue('mine.q'), pgqrs_create_workflow('mine.w'), pgqrs_trigger('mine.w', '"mine"') AS mine \gset
SELECT pgqrs_grant('mine.*', 'reader', 'read') \g /dev/null
SET ROLE reader;
SELECT pg_temp.ask('reader ' || p, p, '{}',
	'secret') FROM unnest('{"",queues,runs,workers,schedules,dead}'::text[]) AS p
	\g /dev/null
SELECT pg_temp.ask('reader run', 'run', jsonb_build_object('run', :'mine'), 'secret'),
	pg_temp.ask('reader live', 'runs', '{"status": "live"}', 'secret') \g /dev/null
-- packer-1 serves its queue, too
SELECT is(replace(page, 'packer-',
	'') ~ 'mail|thumbnails|ship_order|nightly|parcel|packer|node-|labels|payment|script', false,
	'a role that reads one prefix sees nothing else: ' || name) FROM pages WHERE name LIKE 'reader %';
SELECT is(page LIKE '%mine.w%', true, 'a role that reads a prefix sees that: ' || name)
	FROM pages WHERE name IN ('reader ', 'reader queues', 'reader runs', 'reader run', 'reader live');
SELECT is(pg_temp.found(name, '//a[@class = "act"]'), NULL, 'a role that only reads is offered no action: ' || name)
	FROM pages WHERE name LIKE 'reader %';
SELECT is(pgqrs_report_page('do', jsonb_build_object('action', 'cancel', 'run', :'mine'), 'secret'), NULL,
	'a role that only reads gets no form');
SELECT is(pgqrs_report_action(jsonb_build_object('action', 'cancel', 'run', :'mine')), NULL,
	'a role that only reads gets no SQL');
SELECT is(length(pgqrs_report()) > 1000 AND pgqrs_report() !~ 'mail|thumbnails|ship_order|parcel', true,
	'the report shows a role what it may read and nothing else');
SELECT throws_ok(format('SELECT pgqrs_report_run(%s)', :'run'), 'PQ003', NULL,
	'the report of a run that the role may not read is refused');
SELECT throws_ok(format('SELECT pgqrs_report_page(''run'', ''{"run": "%s"}'')', :'run'), 'PQ003',
	format('run %s does not exist', :'run'),
	'a run that the role may not read is answered as if it did not exist');
SELECT throws_ok($$SELECT pgqrs_report_page('queue', '{"queue": "mail"}')$$, 'PQ001', NULL,
	'a queue that the role may not read does not exist');
SET ROLE stranger;
SELECT throws_ok($$SELECT pgqrs_report_page('')$$, '42501', NULL, 'a role without a privilege gets no page');
RESET ROLE;

--
-- 100,000 runs, of which 20,000 are live
--

SELECT pgqrs_create_workflow('many.a'), pgqrs_create_workflow('many.b') \g /dev/null
CREATE TEMP TABLE many AS
	SELECT 1000000 + n AS run_id, w.workflow_id, now() - (100001 - n) * interval '1 min' AS at,
		CASE WHEN n > 80000 THEN 'QUEUED' WHEN n % 10 = 0 THEN 'ERROR' ELSE 'SUCCESS' END::pgqrs_run_status AS status
	FROM generate_series(1,
		100000) AS n JOIN pgqrs_workflows AS w ON w.name = CASE WHEN n % 2 = 0 THEN 'many.a' ELSE 'many.b' END;
INSERT INTO pgqrs_workflow_runs (run_id, workflow_id, created_at, started_at, completed_at, attempt, failures, status,
	priority, tags, error)
	SELECT run_id, workflow_id, at, at, CASE WHEN status <> 'QUEUED' THEN at END, 1, 0, status, 0,
		CASE WHEN run_id % 1000 = 0 THEN '{"k": "v"}'::jsonb END,
		CASE WHEN status = 'ERROR' THEN jsonb_build_object('type', 'e' || run_id % 7, 'message', 'm') END
	FROM many ORDER BY run_id;
INSERT INTO pgqrs_archive (message_id, queue_id, archived_at, visible_after, enqueued_at, run_id, attempt, failures,
	outcome, priority)
	SELECT run_id, workflow_id, at, at, at, run_id, 1, 0,
		CASE status WHEN 'ERROR' THEN 'DEAD' ELSE 'DONE' END::pgqrs_outcome, 0
	FROM many WHERE status <> 'QUEUED' ORDER BY run_id;
INSERT INTO pgqrs_messages (message_id, queue_id, visible_after, enqueued_at, run_id, attempt, failures, priority)
	SELECT run_id, workflow_id, at, at, run_id, 0, 0, 0 FROM many WHERE status = 'QUEUED' ORDER BY run_id;
ANALYZE pgqrs_workflow_runs, pgqrs_archive, pgqrs_messages;

SELECT is(pg_temp.ids('runs', p::jsonb), e, 'the page of runs shows those that match: ' || p)
	FROM (VALUES
		('{"workflow": "many.a", "tags": "k=v", "status": "QUEUED", "from": "1083000"}', '1082000 1081000'),
		('{"workflow": "many.*", "tags": "{\"k\": \"v\"}", "from": "1003000"}', '1002000 1001000'),
		(format('{"workflow": "many.*", "before": "%s"}', now() - 99998.5 * interval '1 min'), '1000002 1000001'),
		(format('{"workflow": "many.*", "after": "%s"}', now() - 2.5 * interval '1 min'), '1100000 1099999'),
		(format('{"workflow": "many.*", "after": "%s", "before": "%s"}', now() - 99998.5 * interval '1 min',
			now() - 99996.5 * interval '1 min'), '1000004 1000003'),
		('{"workflow": "many.b", "before": "2020-01-01"}', NULL),
		(format('{"workflow": "many.*", "status": "live", "before": "%s"}', now() - 19998.5 * interval '1 min'),
			'1080001 1080002'),
		('{"workflow": "many.a", "status": "live", "tags": "k=v", "from": "1098000"}', '1099000 1100000'),
		(format('{"workflow": "many.*", "error": "e3", "before": "%s"}', now() - 99900 * interval '1 min'),
			(SELECT string_agg(run_id::text, ' ' ORDER BY run_id DESC) FROM many
				WHERE status = 'ERROR' AND run_id % 7 = 3 AND at < now() - 99900 * interval '1 min'))) AS v (p, e);
SELECT is(array_length(string_to_array(pg_temp.ids('runs', p), ' '), 1), 50, 'a page of runs has 50: ' || p::text)
	FROM (VALUES ('{}'::jsonb), ('{"status": "live"}'), ('{"status": "ERROR"}'), ('{"workflow": "many.*"}')) AS v (p);
-- The links to other parts lead through all that match, each once.
CREATE FUNCTION pg_temp.walk(parameters jsonb) RETURNS bigint LANGUAGE plpgsql AS
$$
DECLARE
	seen text[] = '{}';
	next text;
BEGIN
	LOOP
		seen := seen || string_to_array(pg_temp.ids('runs', parameters), ' ');
		next := (SELECT substring(h FROM 'from=(\d+)') FROM unnest(pg_temp.found('ids',
			'//p[@class = "pages"]/a[last()]/@href')) AS h);
		EXIT WHEN next IS NULL;
		parameters := parameters || jsonb_build_object('from', next);
	END LOOP;
	RETURN (SELECT CASE WHEN count(*) = count(DISTINCT s) THEN count(*) END FROM unnest(seen) AS s);
END
$$;
SELECT is(pg_temp.walk(p), c, 'the parts of a list of runs have each run once: ' || p::text)
	FROM (VALUES ('{"workflow": "many.*", "tags": "k=v"}'::jsonb, 100::bigint),
		('{"workflow": "many.*", "tags": "k=v", "status": "live"}', 20),
		('{"workflow": "many.*", "tags": "k=v", "error": "e0"}', (SELECT count(*) FROM many
			WHERE status = 'ERROR' AND run_id % 7000 = 0))) AS v (p, c);

-- A family that is wide, one that is deep, and reruns.
UPDATE pgqrs_workflow_runs SET parent_run_id = CASE WHEN run_id <= 1010001 THEN 1000001 WHEN run_id <= 1020000 THEN
		1000002 + run_id % 60 ELSE run_id - 1 END, parent_step_id = 's'
	WHERE run_id BETWEEN 1000002 AND 1020000 OR run_id BETWEEN 1020003 AND 1020020;
UPDATE pgqrs_workflow_runs SET rerun_of = 1000010 WHERE run_id BETWEEN 1030000 AND 1030100;
SELECT pg_temp.ask('wide', 'run', '{"run": "1000001"}'),
	pg_temp.ask('next', 'run', '{"run": "1000001", "child": "1000052"}'),
	pg_temp.ask('deep', 'run', '{"run": "1020002"}') \g /dev/null
CREATE FUNCTION pg_temp.children(name text, depth integer) RETURNS text LANGUAGE sql AS
$$
	SELECT concat_ws(' ', f[1], f[array_length(f, 1)], array_length(f, 1))
	FROM pg_temp.found(name, format('//table//span[@class = "d%s"]/a/text()', depth)) AS f
$$;
SELECT is(pg_temp.children('wide', 1), '1000002 9950 more 51',
	'of many children 50 are shown, and how many more there are');
SELECT is(pg_temp.children('next', 1), '1000052 9900 more 51', 'the number leads to the next children');
SELECT is(array_length(pg_temp.found('wide', '//table//span[@class = "d2"]/a[not(contains(., "more"))]'), 1), 150,
	'200 of a wide family are shown');
SELECT is(pg_temp.found('wide', '//table//span[@class = "d2"]/a[contains(., "more")]/text()') @> '{over 50 more}',
	true, 'a wide family says what is left out of each');
SELECT is(pg_temp.children('deep', 5), '1020007 1020007 1', 'of a deep family five generations are shown');
SELECT is(pg_temp.children('deep', 6), '1 more 1 more 1', 'a deep family says that there are more');

\ir include/time.sql
-- The fastest of three, as a session that has made the page before.
CREATE FUNCTION pg_temp.milliseconds(page text, parameters jsonb) RETURNS numeric LANGUAGE plpgsql AS
$$
DECLARE
	fastest numeric;
	began numeric;
BEGIN
	FOR i IN 1..3 LOOP
		began := pg_temp.now();
		PERFORM pgqrs_report_page(page, parameters, 'secret');
		fastest := least(fastest, pg_temp.now() - began);
	END LOOP;
	RETURN fastest;
END
$$;
-- A server with assertions is built without optimizations.
SELECT current_setting('debug_assertions')::boolean AS slow \gset
SELECT cmp_ok(pg_temp.milliseconds(page, parameters), '<=', CASE WHEN :'slow' THEN 600.0 ELSE 200.0 END,
	format('with 100,000 runs the page takes at most 200 ms: %s %s', page, parameters))
	FROM (VALUES ('', '{}'::jsonb), ('queues', '{}'), ('queue', '{"queue": "many.a"}'), ('runs', '{}'), ('runs',
		'{"status": "live"}'),
		('runs', '{"status": "live", "workflow": "many.a", "tags": "k=v"}'), ('runs', '{"status": "ERROR"}'), ('runs',
			'{"status": "RUNNING"}'),
		('runs', '{"workflow": "many.a", "tags": "k=v"}'), ('runs', '{"workflow": "many.a", "error": "nothing"}'),
		('runs', '{"before": "2020-01-01"}'), ('runs', '{"workflow": "many.b", "after": "2099-01-01"}'),
		('run', '{"run": "1000010"}'), ('run', '{"run": "1000001"}'), ('run', '{"run": "1020002"}'),
		('workers', '{}'), ('schedules', '{}'), ('dead', '{}'), ('dead',
			'{"queue": "many.a"}'),
		('dead', '{"queue": "many.a", "error": "e3"}'), ('do', '{"action": "cancel_runs", "workflow": "many.a"}'),
		('do', '{"action": "replay_queue", "queue": "many.a"}')) AS v (page, parameters);

SELECT is((SELECT count(*)::int FROM pgqrs_html_letters('many.a', v.size)), v.letters,
		'pgqrs_html_letters() returns ' || v.letters || ' letters for a page of ' || COALESCE(v.size::text, 'NULL'))
	FROM (VALUES (2, 2), (0, 0), (-1, 0), (NULL, 0)) AS v (size, letters);

SELECT * FROM finish();
ROLLBACK;
