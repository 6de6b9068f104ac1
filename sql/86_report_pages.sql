-- Pages for a web server: it calls pgqrs_report_page() for what a browser asks for,
-- and executes what pgqrs_report_action() makes of a form.  pgqrs web is such a
-- server.  Addresses are relative, pages need no script, and none has a style of
-- its own, so that a strict Content-Security-Policy holds.
--
-- As for the reports: all values pass pgqrs_html() or pgqrs_html_url(), and every
-- query is bounded.

CREATE FUNCTION @extschema@.pgqrs_report_style() RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT @extschema@.pgqrs_html_style() || text '
.skip { position: absolute; left: -99em } .skip:focus { left: 12px; top: 8px; z-index: 2; padding: 6px 12px; background: var(--bg) }
a, button, summary { text-underline-offset: 3px } :focus-visible { outline: 2px solid var(--blue); outline-offset: 2px; border-radius: 2px }
body > header.site { max-width: none; margin: 0; padding: 0; border-bottom: 1px solid var(--line); background: var(--fill) }
header.site > div { max-width: 1160px; margin: 0 auto; padding: 10px clamp(16px, 3vw, 40px); display: flex; flex-wrap: wrap; gap: 4px 22px; align-items: baseline }
header.site strong { font-weight: 650; letter-spacing: -.01em } header.site nav { margin: 0; flex: 1 1 auto; gap: 4px 18px }
header.site > div > a { font-size: 14px } header.site a { text-decoration: none } header.site a:hover { text-decoration: underline } header.site a[aria-current] { color: var(--fg); font-weight: 600; border-bottom: 2px solid var(--blue) }
main { padding-top: clamp(18px, 2.5vw, 32px) !important } main h1 + p { margin-top: 2px } h1 .b { vertical-align: 6px } h1 code { font-size: inherit }
main > h2:first-child { margin-top: 0 } table + p, .pages { margin: 14px 0; display: flex; gap: 18px; flex-wrap: wrap }
@media (min-width: 1000px) { td:not(.n):not(.none) { min-width: 9em } } @media (min-width: 701px) { tbody tr:hover { background: var(--fill) } } .figures div:not(:first-child) { padding-left: 12px }
@media (max-width: 700px) { .figures div:nth-child(3n+1) { padding-left: 0 } .figures div:nth-child(5):last-child { grid-column: span 2 } }
.d2 { padding-left: 1.2em } .d3 { padding-left: 2.4em } .d4 { padding-left: 3.6em } .d5 { padding-left: 4.8em } .d6 { padding-left: 6em }
.d2::before, .d3::before, .d4::before, .d5::before, .d6::before { content: "- "; color: var(--grey) }
input, select, textarea, button { font: inherit; color: inherit; background: var(--bg); border: 1px solid var(--grey); border-radius: 4px; padding: 5px 9px; max-width: 100%; min-width: 0 } input, select { height: 36px } .filter input, .filter select { font-size: 14px } input[type="datetime-local"] { font-size: 13px; padding: 5px 6px }
textarea { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: 13px; min-height: 6em; resize: vertical } label { font-size: 13px; color: var(--soft); display: grid; gap: 3px; min-width: 0 } label > * { color: var(--fg) }
form.filter { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 150px), 1fr)); gap: 10px 14px; align-items: end; margin: 18px 0; padding: 14px; background: var(--fill); border-radius: 6px }
form.act { display: grid; gap: 14px; max-width: 680px; margin: 18px 0 } .buttons { display: flex; flex-wrap: wrap; gap: 10px; align-items: center } .filter .buttons { grid-column: 1 / -1 }
button { cursor: pointer; padding: 5px 16px } button.go { background: var(--blue); border-color: var(--blue); color: var(--bg); font-weight: 600 }
a.act { display: inline-block; padding: 2px 10px; border: 1px solid var(--grey); border-radius: 4px; font-size: 14px; text-decoration: none; white-space: nowrap } a.act:hover { border-color: var(--blue) }
.note { padding: 10px 14px; margin: 14px 0; background: var(--fill); border-left: 4px solid var(--amber); border-radius: 2px } .note.bad { border-left-color: var(--red); color: inherit } .note.ok { border-left-color: var(--green); color: inherit }
@media (max-width: 700px) { h1 .b { vertical-align: 3px } td .act { margin: 2px 0 } input, select, textarea { width: 100% } button { min-height: 40px } }
';
END;
COMMENT ON FUNCTION @extschema@.pgqrs_report_style() IS
'The style sheet of the pages of pgqrs_report_page(). Needs read, trigger, work or admin on any name. Errors: none.';

CREATE FUNCTION @extschema@.pgqrs_html_view(title text, page text, parameters jsonb, body text) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT @extschema@.pgqrs_html_document(title || ' - pgqrs',
		'<link rel="stylesheet" href="style.css"/>
' || CASE WHEN page IS NOT NULL AND parameters ->> 'refresh' = '5' THEN '<meta http-equiv="refresh" content="5"/>' ELSE '' END,
		'<header class="site"><div><a class="skip" href="#main">Skip to the page</a><strong>pgqrs</strong><nav aria-label="Pages">'
		|| (SELECT pg_catalog.string_agg(pg_catalog.format('<a href="%s"%s>%s</a>',
					@extschema@.pgqrs_html_url(n.page, pg_catalog.jsonb_build_object('refresh', parameters ->> 'refresh')),
					CASE WHEN n.page = pgqrs_html_view.page THEN ' aria-current="page"' END, n.title), '' ORDER BY n.n)
			FROM (VALUES (1, '.', 'Overview'), (2, 'queues', 'Queues'), (3, 'runs', 'Runs'), (4, 'workers', 'Workers'), (5, 'schedules', 'Schedules'), (6, 'dead', 'Dead letters')) AS n (n, page, title))
		|| '</nav>'
		|| CASE WHEN page IS NULL THEN ''
			WHEN parameters ->> 'refresh' = '5' THEN pg_catalog.format('<a href="%s">Refreshes every 5 s: stop</a>', @extschema@.pgqrs_html_url(page, parameters - 'refresh'))
			ELSE pg_catalog.format('<a href="%s">Refresh every 5 s</a>', @extschema@.pgqrs_html_url(page, COALESCE(parameters, '{}') || '{"refresh": "5"}')) END
		|| '</div></header>
<main id="main">' || body || '</main>'
		|| @extschema@.pgqrs_html(text '
<footer>pgqrs %s, database %s as role %s, at %s</footer>',
			ARRAY[@extschema@.pgqrs_version(), pg_catalog.current_database(), current_user, pg_catalog.to_char(@extschema@.pgqrs_now(), 'YYYY-MM-DD HH24:MI:SS TZ')]::text[]));
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_view(text, text, jsonb, text) IS
'The frame of a page of pgqrs_report_page(). page: its address, NULL if it must not be asked for again; body: HTML.';

-- What actions there are: the function that each calls, and the fields of its form with
-- the arguments that they become.  Functions and arguments that the installed version
-- does not have, and functions that the role may not call, are left out.
CREATE FUNCTION @extschema@.pgqrs_html_fields(
	action text, OUT function text, OUT place integer, OUT field text, OUT argument text, OUT kind text, OUT is_required boolean
) RETURNS SETOF record
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT ROWS 5
BEGIN ATOMIC
	SELECT a.function, f.place, f.field, f.argument, f.kind, f.is_required
	FROM (
		VALUES ('cancel', 'pgqrs_cancel_run'), ('replay', 'pgqrs_replay_message'), ('dismiss', 'pgqrs_dismiss_dead_letter'),
			('resume', 'pgqrs_resume_run'), ('signal', 'pgqrs_signal'), ('rerun', 'pgqrs_rerun'),
			('pause_queue', 'pgqrs_pause_queue'), ('resume_queue', 'pgqrs_resume_queue'), ('replay_queue', 'pgqrs_replay_queue'),
			('trigger_schedule', 'pgqrs_trigger_schedule'), ('enable_schedule', 'pgqrs_enable_schedule'),
			('cancel_runs', 'pgqrs_cancel_runs'), ('replay_runs', 'pgqrs_replay_runs'), ('rerun_runs', 'pgqrs_rerun_runs')
	) AS a (action, function)
		JOIN (
			VALUES ('{cancel,resume,signal,rerun}'::text[], 1, 'run', 'run_id', 'number', true),
				('{replay,dismiss}', 1, 'message', 'message_id', 'number', true),
				('{replay}', 2, 'payload', 'payload', 'json', false),
				('{resume}', 2, 'step', 'step_id', 'text', false),
				('{resume}', 3, 'output', 'output', 'json', false),
				('{signal}', 2, 'signal', 'signal', 'text', true),
				('{signal}', 3, 'payload', 'payload', 'json', false),
				('{rerun}', 2, 'from_step', 'from_step', 'text', false),
				('{rerun}', 3, 'input', 'input', 'json', false),
				('{pause_queue,resume_queue,replay_queue}', 1, 'queue', 'queue', 'text', true),
				('{trigger_schedule,enable_schedule}', 1, 'name', 'name', 'text', true),
				('{enable_schedule}', 2, 'enabled', 'enabled', 'boolean', true),
				('{cancel_runs,replay_runs,rerun_runs}', 1, 'workflow', 'workflow', 'text', true),
				('{cancel_runs,replay_runs,rerun_runs}', 2, 'status', 'status', 'text', false),
				('{cancel_runs,replay_runs,rerun_runs}', 3, 'tags', 'tags', 'tags', false),
				('{replay_runs,rerun_runs,replay_queue}', 4, 'error', 'error_type', 'text', false),
				('{cancel_runs,replay_runs,rerun_runs}', 5, 'after', 'created_after', 'time', false),
				('{cancel_runs,replay_runs,rerun_runs}', 6, 'before', 'created_before', 'time', false),
				('{cancel_runs,replay_runs,rerun_runs,replay_queue}', 7, 'number', 'max_rows', 'number', true),
				('{cancel,cancel_runs}', 8, 'reason', 'reason', 'text', false)
		) AS f (actions, place, field, argument, kind, is_required) ON a.action = ANY (f.actions)
		JOIN pg_catalog.pg_proc AS p ON p.proname = a.function AND p.pronamespace = '@extschema@'::pg_catalog.regnamespace
			AND f.argument = ANY (p.proargnames) AND pg_catalog.has_function_privilege(p.oid, 'EXECUTE')
	WHERE a.action = pgqrs_html_fields.action;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_fields(text) IS
'The fields of an action''s form; none if there is no such action or the current role may not call its function.';

CREATE FUNCTION @extschema@.pgqrs_html_act(action text, parameters jsonb, label text, csrf text) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT pg_catalog.format('<a class="act" href="%s">%s</a> ', @extschema@.pgqrs_html_url(text 'do', parameters || pg_catalog.jsonb_build_object('action', action)), label)
	WHERE csrf IS NOT NULL AND EXISTS (SELECT FROM @extschema@.pgqrs_html_fields(action));
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_act(text, jsonb, text, text) IS
'A link to the form of an action; NULL if the current role may not call its function, or there are no actions.';

CREATE FUNCTION @extschema@.pgqrs_html_tags(tags text) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT CASE WHEN tags LIKE '{%' THEN tags::jsonb
		WHEN tags LIKE '%=%' THEN pg_catalog.jsonb_build_object(pg_catalog.split_part(tags, '=', 1), pg_catalog.substr(tags, pg_catalog.strpos(tags, '=') + 1))
		WHEN tags <> '' THEN pg_catalog.to_jsonb(tags)
	END;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_tags(text) IS
'The tags that a field asks for: an object in JSON, or key=value. Errors: as of pgqrs_report_page().';

-- Ids follow the time of creation, so that a search by halves finds where an instant is.
CREATE FUNCTION @extschema@.pgqrs_html_runs_before(workflow text, instant timestamptz) RETURNS bigint
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	WITH RECURSIVE search (low, high) AS (
		SELECT bigint '0', COALESCE((SELECT r.run_id + 1 FROM @extschema@.pgqrs_list_runs(workflow, NULL::text, NULL::jsonb, NULL::bigint, 1) AS r), 0)
		UNION ALL
		SELECT CASE WHEN r.created_at >= instant THEN s.low ELSE s.middle + 1 END,
			CASE WHEN r.created_at >= instant THEN r.run_id ELSE s.high END
		FROM (SELECT s.low, s.high, s.low + (s.high - s.low) / 2 AS middle FROM search AS s WHERE s.low < s.high) AS s
			LEFT JOIN LATERAL @extschema@.pgqrs_list_runs(workflow, NULL::text, NULL::jsonb, s.middle + 1, 1) AS r ON true
	)
	SELECT pg_catalog.min(s.high) FROM search AS s WHERE instant IS NOT NULL;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_runs_before(text, timestamptz) IS
'The id that runs which were created before an instant are less than; NULL for NULL.';

CREATE FUNCTION @extschema@.pgqrs_html_matches(parameters jsonb, before_run_id bigint, page_size integer) RETURNS SETOF @extschema@.pgqrs_run
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT ROWS 50
BEGIN ATOMIC
	SELECT r.*
	FROM @extschema@.pgqrs_list_runs(NULLIF(parameters ->> 'workflow', ''), NULLIF(parameters ->> 'status', ''), @extschema@.pgqrs_html_tags(parameters ->> 'tags'),
			LEAST(before_run_id, @extschema@.pgqrs_html_runs_before(NULLIF(parameters ->> 'workflow', ''), NULLIF(parameters ->> 'before', '')::timestamptz)), page_size) AS r;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_matches(jsonb, bigint, integer) IS
'The newest runs that match the parameters workflow, status, tags and before of a page; the others are not looked at. Errors: as of pgqrs_report_page().';

-- Lists of runs have the newest 10000; an action changes the oldest that match.
CREATE FUNCTION @extschema@.pgqrs_html_count(parameters jsonb, OUT count bigint, OUT is_cut boolean) RETURNS record
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT LEAST(pg_catalog.count(*) FILTER (WHERE l.matches), 10000), COALESCE(pg_catalog.bool_or(l.n >= 10000), false)
	FROM (
		SELECT pg_catalog.count(*) OVER () AS n, COALESCE(parameters ->> 'error', '') = '' OR l.last_error ->> 'type' = parameters ->> 'error' AS matches
		FROM (
			SELECT l.last_error FROM @extschema@.pgqrs_dead_letters AS l WHERE l.queue = parameters ->> 'queue' AND parameters ->> 'action' = 'replay_queue' LIMIT 10000
		) AS l
		UNION ALL
		SELECT pg_catalog.count(*) OVER (PARTITION BY s.status),
			r.deleted_at IS NULL AND (COALESCE(parameters ->> 'error', '') = '' OR r.error ->> 'type' = parameters ->> 'error')
				AND (COALESCE(parameters ->> 'after', '') = '' OR r.created_at >= (parameters ->> 'after')::timestamptz)
		FROM (
			VALUES ('cancel_runs', '{"", QUEUED}'::text[], 'QUEUED'), ('cancel_runs', '{"", RUNNING}', 'RUNNING'), ('cancel_runs', '{"", PAUSED}', 'PAUSED'),
				('replay_runs', '{"", ERROR}', 'ERROR'),
				('rerun_runs', '{"", ERROR}', 'ERROR'), ('rerun_runs', '{SUCCESS}', 'SUCCESS'), ('rerun_runs', '{CANCELLED}', 'CANCELLED')
		) AS s (action, asked, status)
			CROSS JOIN LATERAL @extschema@.pgqrs_html_matches(parameters || pg_catalog.jsonb_build_object('status', s.status), NULL::bigint, 10000) AS r
		WHERE s.action = parameters ->> 'action' AND COALESCE(parameters ->> 'status', '') = ANY (s.asked)
	) AS l;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_count(jsonb) IS
'How many runs, or dead letters, that match the parameters an action would change; is_cut: there may be more than the 10000 that were looked at. Errors: as of pgqrs_report_page().';

--
-- Pages
--

CREATE FUNCTION @extschema@.pgqrs_html_overview(parameters jsonb, csrf text) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	WITH queues AS MATERIALIZED (
		SELECT s.queue, s.is_workflow, s.paused, s.ready, s.delayed, s.in_flight, s.dead, s.oldest_ready_age FROM @extschema@.pgqrs_queue_stats AS s
	)
	SELECT @extschema@.pgqrs_html_view(text 'Overview', text '.', parameters,
		@extschema@.pgqrs_html(text '<h1>%s</h1>', ARRAY[pg_catalog.current_database()]::text[])
		|| @extschema@.pgqrs_html_health()
		|| (SELECT @extschema@.pgqrs_html_figures(pg_catalog.sum(q.ready), pg_catalog.max(q.oldest_ready_age), pg_catalog.sum(q.in_flight), pg_catalog.sum(q.delayed), pg_catalog.sum(q.dead), NULL::bigint)
			FROM queues AS q)
		|| '<h2>Longest waits<small>queues whose oldest ready message is due for over a second, and why; 10 at most</small></h2>'
		|| (SELECT @extschema@.pgqrs_html_table('{queue,#ready,#oldest,why}'::text[], pg_catalog.array_agg(ARRAY[
					@extschema@.pgqrs_html_link(text 'queue', pg_catalog.jsonb_build_object('queue', q.queue), q.queue), q.ready::text, @extschema@.pgqrs_html_duration(q.oldest_ready_age),
					@extschema@.pgqrs_html(text '<strong>%s</strong> %s', ARRAY[w.reason, w.detail]::text[])] ORDER BY q.oldest_ready_age DESC), text 'Nothing waits.')
			FROM (SELECT q.* FROM queues AS q WHERE q.oldest_ready_age > '1 s' ORDER BY q.oldest_ready_age DESC LIMIT 10) AS q
				LEFT JOIN LATERAL (SELECT w.reason, w.detail FROM @extschema@.pgqrs_why(q.queue) AS w LIMIT 1) AS w ON true)
		|| '<h2>Newest failures<small>runs in ERROR, 10 at most</small></h2>'
		|| (SELECT @extschema@.pgqrs_html_table('{run,workflow,error,#ended}'::text[], pg_catalog.array_agg(ARRAY[
					@extschema@.pgqrs_html_link(text 'run', pg_catalog.jsonb_build_object('run', r.run_id), r.run_id::text), @extschema@.pgqrs_html(text '%s', ARRAY[r.workflow]::text[]),
					@extschema@.pgqrs_html(text '%s', ARRAY[@extschema@.pgqrs_html_error(r.error)]::text[]),
					@extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(r.completed_at, @extschema@.pgqrs_now())) || ' ago'] ORDER BY r.run_id DESC), text 'No run failed.')
			FROM @extschema@.pgqrs_list_runs(NULL::text, text 'ERROR', NULL::jsonb, NULL::bigint, 10) AS r)
		|| '<h2>Workflows<small>50 at most, by their 100 newest runs that ended</small></h2>' || @extschema@.pgqrs_html_workflows(true)
		|| '<h2>Oldest live runs<small>20 at most</small></h2>' || @extschema@.pgqrs_html_live_runs(true));
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_overview(jsonb, text) IS 'The first page: health, figures, what waits and why, failures, workflows.';

CREATE FUNCTION @extschema@.pgqrs_html_queues(parameters jsonb, csrf text) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT @extschema@.pgqrs_html_view(text 'Queues', text 'queues', parameters, '<h1>Queues</h1><p class="soft">Those of workflows included; those with most to do first, 200 at most.</p>'
		|| @extschema@.pgqrs_html(text '<form class="filter" action="queues"><label>name contains <input name="contains" value="%s"/></label><div class="buttons"><button>Filter</button></div></form>', ARRAY[COALESCE(parameters ->> 'contains', '')]::text[])
		|| (SELECT @extschema@.pgqrs_html_table('{queue,#ready,#oldest ready,#in flight,#delayed,#dead,#workers}'::text[], pg_catalog.array_agg(ARRAY[
				@extschema@.pgqrs_html_link(text 'queue', pg_catalog.jsonb_build_object('queue', q.queue), q.queue) || CASE WHEN q.paused THEN ' ' || @extschema@.pgqrs_html_status(text 'paused') ELSE '' END
					|| CASE WHEN q.is_workflow THEN '<span class="sub">workflow</span>' ELSE '' END,
				q.ready::text, @extschema@.pgqrs_html_duration(q.oldest_ready_age), q.in_flight::text, q.delayed::text,
				CASE WHEN q.dead > 0 THEN pg_catalog.format('<a class="bad" href="%s">%s</a>', @extschema@.pgqrs_html_url(text 'dead', pg_catalog.jsonb_build_object('queue', q.queue)), CASE WHEN q.dead >= 1000 THEN '1000 or more' ELSE q.dead::text END) ELSE '0' END,
				pg_catalog.format(CASE WHEN q.live_workers = 0 AND q.ready > 0 THEN '<span class="bad">%s</span>' ELSE '%s' END, q.live_workers)]
					ORDER BY q.ready + q.in_flight + q.dead DESC, q.queue), text 'There is no such queue.')
			FROM (
				SELECT s.*, @extschema@.pgqrs_live_workers(s.queue_id) AS live_workers
				FROM (
					SELECT s.queue_id, s.queue, s.is_workflow, s.paused, s.ready, s.delayed, s.in_flight, s.dead, s.oldest_ready_age
					FROM @extschema@.pgqrs_queue_stats AS s
					WHERE pg_catalog.strpos(s.queue, COALESCE(parameters ->> 'contains', '')) > 0
					ORDER BY s.ready + s.in_flight + s.dead DESC, s.queue
					LIMIT 200
				) AS s
			) AS q));
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_queues(jsonb, text) IS 'The page of queues.';

CREATE FUNCTION @extschema@.pgqrs_html_messages(queue text) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT @extschema@.pgqrs_html_table('{message,#priority,state,#age,#claims,#failures,payload}'::text[], pg_catalog.array_agg(ARRAY[
			CASE WHEN m.run_id IS NULL THEN m.message_id::text ELSE 'run ' || @extschema@.pgqrs_html_link(text 'run', pg_catalog.jsonb_build_object('run', m.run_id), m.run_id::text) END,
			m.priority::text,
			@extschema@.pgqrs_html_status(CASE WHEN m.leased AND m.visible_after > c.now THEN 'held' WHEN m.leased THEN 'expired' WHEN m.visible_after > c.now THEN 'delayed' ELSE 'ready' END)
				|| CASE WHEN m.visible_after > c.now THEN '<span class="sub">for ' || @extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(c.now, m.visible_after)) || '</span>' ELSE '' END,
			@extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(m.enqueued_at, c.now)), m.attempt::text, m.failures::text,
			CASE WHEN m.run_id IS NULL THEN @extschema@.pgqrs_html(text '<code>%s</code>', ARRAY[pg_catalog.left(@extschema@.pgqrs_html_json(m.payload), 300)]::text[]) END] ORDER BY m.n), text 'There is no message.')
	FROM (SELECT @extschema@.pgqrs_now() AS now OFFSET 0) AS c
		CROSS JOIN @extschema@.pgqrs_peek(queue, 20) WITH ORDINALITY AS m (message_id, priority, visible_after, enqueued_at, attempt, failures, leased, run_id, payload, headers, n);
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_messages(text) IS 'A table of the first messages of a queue. Errors: PQ001 no such queue.';

CREATE FUNCTION @extschema@.pgqrs_html_queue(parameters jsonb, csrf text) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT @extschema@.pgqrs_html_view(parameters ->> 'queue', text 'queue', parameters,
		(SELECT @extschema@.pgqrs_html(text '<h1>%s </h1>', ARRAY[q.queue]::text[])
				|| pg_catalog.format('<p class="soft">%s%s</p><p class="buttons">', CASE WHEN q.is_workflow THEN 'The queue of a workflow' ELSE 'A queue of messages' END,
					CASE WHEN q.paused_at IS NOT NULL THEN ' ' || @extschema@.pgqrs_html_status(text 'paused') ELSE '' END)
				|| pg_catalog.concat(CASE WHEN q.paused_at IS NULL THEN @extschema@.pgqrs_html_act(text 'pause_queue', o.o, text 'Pause', csrf)
						ELSE @extschema@.pgqrs_html_act(text 'resume_queue', o.o, text 'Resume', csrf) END,
					CASE WHEN q.is_workflow THEN @extschema@.pgqrs_html_link(text 'runs', pg_catalog.jsonb_build_object('workflow', q.queue), text 'Runs') || ' ' END,
					@extschema@.pgqrs_html_link(text 'dead', o.o, text 'Dead letters'))
				|| '</p>'
				|| '<h2>Why nothing is delivered<small>the most decisive reasons first</small></h2>'
				|| (SELECT @extschema@.pgqrs_html_table('{reason,detail,what to do}'::text[], pg_catalog.array_agg(ARRAY[@extschema@.pgqrs_html(text '%s', ARRAY[w.reason]::text[]),
							@extschema@.pgqrs_html(text '%s', ARRAY[w.detail]::text[]), @extschema@.pgqrs_html(text '%s', ARRAY[w.hint]::text[])] ORDER BY w.n), text 'No reason is known.')
					FROM @extschema@.pgqrs_why(q.queue) WITH ORDINALITY AS w (reason, detail, hint, n))
				|| '<h2>Settings</h2><dl class="facts">'
				|| (SELECT pg_catalog.string_agg(@extschema@.pgqrs_html(text '<div><dt>%s</dt><dd>%s</dd></div>', ARRAY[f.name, f.value]::text[]), '' ORDER BY f.n)
					FROM (
						VALUES (1, 'visibility timeout', @extschema@.pgqrs_html_duration(q.visibility_timeout)), (2, CASE WHEN q.is_workflow THEN 'max crashes' ELSE 'max attempts' END, q.max_attempts::text),
							(3, 'max in flight', COALESCE(q.max_in_flight::text, 'no limit')), (4, 'retention', @extschema@.pgqrs_html_duration(q.retention)),
							(5, 'retention of dead letters', @extschema@.pgqrs_html_duration(q.dead_retention)), (6, 'paused since', pg_catalog.to_char(q.paused_at, 'YYYY-MM-DD HH24:MI:SS TZ')),
							(7, 'created', pg_catalog.to_char(q.created_at, 'YYYY-MM-DD HH24:MI:SS TZ'))
					) AS f (n, name, value)
					WHERE f.value IS NOT NULL)
				|| '</dl>'
			FROM @extschema@.pgqrs_queues_list AS q
				CROSS JOIN LATERAL (SELECT pg_catalog.jsonb_build_object('queue', q.queue)) AS o (o)
			WHERE q.queue = parameters ->> 'queue')
		|| '<h2>Messages<small>the first 20 in the order of claims</small></h2>' || @extschema@.pgqrs_html_messages(parameters ->> 'queue'));
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_queue(jsonb, text) IS 'The page of a queue: why nothing is delivered, settings, the first messages; NULL if there is none. Errors: as of pgqrs_report_page().';

CREATE FUNCTION @extschema@.pgqrs_html_run_list(parameters jsonb) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	WITH looked AS MATERIALIZED (
		SELECT r.run_id, r.workflow, r.status, r.waiting_for, @extschema@.pgqrs_html_error(r.error) AS error, r.tags, r.attempt, r.created_at, r.started_at, r.completed_at,
			(COALESCE(parameters ->> 'error', '') = '' OR r.error ->> 'type' = parameters ->> 'error')
				AND (COALESCE(parameters ->> 'after', '') = '' OR r.created_at >= (parameters ->> 'after')::timestamptz) AS matches
		FROM @extschema@.pgqrs_html_matches(
				CASE WHEN COALESCE(parameters ->> 'error', '') <> '' AND COALESCE(parameters ->> 'status', '') = '' THEN parameters || '{"status": "ERROR"}' ELSE parameters END,
				(parameters ->> 'from')::bigint, CASE WHEN COALESCE(parameters ->> 'error', '') <> '' THEN 2000 ELSE 51 END) AS r
	), rows AS (
		SELECT l.* FROM looked AS l WHERE l.matches ORDER BY l.run_id DESC LIMIT 50
	)
	SELECT @extschema@.pgqrs_html_table('{run,workflow,status,tags,#claims,#triggered,#time}'::text[], pg_catalog.array_agg(ARRAY[
				@extschema@.pgqrs_html_link(text 'run', pg_catalog.jsonb_build_object('run', r.run_id), r.run_id::text), @extschema@.pgqrs_html(text '%s', ARRAY[r.workflow]::text[]),
				pg_catalog.concat(@extschema@.pgqrs_html_status(r.status), @extschema@.pgqrs_html(text '<span class="sub">%s</span>', ARRAY[COALESCE(r.error, 'for ' || r.waiting_for)]::text[])),
				@extschema@.pgqrs_html(text '<code>%s</code>', ARRAY[pg_catalog.left(r.tags::text, 100)]::text[]), r.attempt::text, pg_catalog.to_char(r.created_at, 'MM-DD HH24:MI:SS'),
				@extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(r.created_at, COALESCE(r.completed_at, @extschema@.pgqrs_now())))] ORDER BY r.run_id DESC), text 'No run matches.')
		|| '<p class="pages">'
		|| CASE WHEN parameters ->> 'from' <> '' THEN @extschema@.pgqrs_html_link(text 'runs', parameters - 'from', text 'Newest') ELSE '' END
		|| CASE WHEN (SELECT pg_catalog.count(*) FROM looked AS l WHERE l.matches) > 50 THEN @extschema@.pgqrs_html_link(text 'runs', parameters || pg_catalog.jsonb_build_object('from', pg_catalog.min(r.run_id)), text 'Older')
			WHEN (SELECT pg_catalog.count(*) FROM looked AS l) = 2000 THEN @extschema@.pgqrs_html_link(text 'runs', parameters || pg_catalog.jsonb_build_object('from', (SELECT pg_catalog.min(l.run_id) FROM looked AS l)), text 'Search older ones')
			ELSE '' END
		|| '</p>'
	FROM rows AS r;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_run_list(jsonb) IS 'A table of 50 runs, newest first, and links to other parts of the list. Errors: as of pgqrs_report_page().';

CREATE FUNCTION @extschema@.pgqrs_html_live_list(parameters jsonb) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	WITH asked AS (
		SELECT COALESCE(NULLIF(parameters ->> 'workflow', ''), '*') AS pattern, @extschema@.pgqrs_html_tags(parameters ->> 'tags') AS tags,
			NULLIF(parameters ->> 'after', '')::timestamptz AS after, NULLIF(parameters ->> 'before', '')::timestamptz AS before
	), looked AS MATERIALIZED (
		SELECT r.*, (a.pattern IN ('*', r.workflow) OR a.pattern LIKE '%.*' AND pg_catalog.starts_with(r.workflow, pg_catalog.left(a.pattern, -1)))
				AND (a.tags IS NULL OR r.tags @> a.tags) AND (a.after IS NULL OR r.created_at >= a.after) AND (a.before IS NULL OR r.created_at < a.before) AS matches
		FROM asked AS a
			CROSS JOIN (
				SELECT r.* FROM @extschema@.pgqrs_live_runs AS r WHERE r.run_id > COALESCE(NULLIF(parameters ->> 'from', '')::bigint, 0) ORDER BY r.run_id
				LIMIT CASE WHEN COALESCE(parameters ->> 'workflow', '') || COALESCE(parameters ->> 'tags', '') || COALESCE(parameters ->> 'after', '') || COALESCE(parameters ->> 'before', '') = '' THEN 51 ELSE 2000 END
			) AS r
	), rows AS (
		SELECT l.* FROM looked AS l WHERE l.matches ORDER BY l.run_id LIMIT 50
	)
	SELECT @extschema@.pgqrs_html_table('{run,workflow,state,step,#for,#crashes,tags,#triggered}'::text[], pg_catalog.array_agg(ARRAY[
				@extschema@.pgqrs_html_link(text 'run', pg_catalog.jsonb_build_object('run', r.run_id), r.run_id::text), @extschema@.pgqrs_html(text '%s', ARRAY[r.workflow]::text[]),
				pg_catalog.concat(@extschema@.pgqrs_html_status(CASE r.state WHEN 'parked' THEN 'waiting' ELSE r.state END),
					@extschema@.pgqrs_html(text '<span class="sub">%s</span>', ARRAY[COALESCE('for ' || r.waiting_for, 'by ' || r.worker)]::text[])),
				@extschema@.pgqrs_html(text '%s', ARRAY[r.step_id]::text[]), @extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(r.since, @extschema@.pgqrs_now())), r.crashes::text,
				@extschema@.pgqrs_html(text '<code>%s</code>', ARRAY[pg_catalog.left(r.tags::text, 100)]::text[]), pg_catalog.to_char(r.created_at, 'MM-DD HH24:MI:SS')] ORDER BY r.run_id), text 'No live run matches.')
		|| '<p class="pages">'
		|| CASE WHEN parameters ->> 'from' <> '' THEN @extschema@.pgqrs_html_link(text 'runs', parameters - 'from', text 'Oldest') ELSE '' END
		|| CASE WHEN (SELECT pg_catalog.count(*) FROM looked AS l WHERE l.matches) > 50 THEN @extschema@.pgqrs_html_link(text 'runs', parameters || pg_catalog.jsonb_build_object('from', pg_catalog.max(r.run_id)), text 'Newer')
			WHEN (SELECT pg_catalog.count(*) FROM looked AS l) = 2000 THEN @extschema@.pgqrs_html_link(text 'runs', parameters || pg_catalog.jsonb_build_object('from', (SELECT pg_catalog.max(l.run_id) FROM looked AS l)), text 'Search newer ones')
			ELSE '' END
		|| '</p>'
	FROM rows AS r;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_live_list(jsonb) IS 'A table of 50 live runs, oldest first, and links to other parts of the list. Errors: as of pgqrs_report_page().';

CREATE FUNCTION @extschema@.pgqrs_html_runs(parameters jsonb, csrf text) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT @extschema@.pgqrs_html_view(text 'Runs', text 'runs', parameters, '<h1>Runs</h1>'
		|| @extschema@.pgqrs_html(text '<form class="filter" action="runs"><label>workflow, or a pattern <input name="workflow" value="%s" placeholder="billing.*"/></label><label>status <select name="status">', ARRAY[COALESCE(parameters ->> 'workflow', '')]::text[])
		|| (SELECT pg_catalog.string_agg(pg_catalog.format('<option value="%s"%s>%s</option>', s.status, CASE WHEN s.status = COALESCE(parameters ->> 'status', '') THEN ' selected="selected"' END, s.label), '' ORDER BY s.n)
			FROM (VALUES (1, '', 'any'), (2, 'live', 'live, oldest first'), (3, 'QUEUED', 'QUEUED'), (4, 'RUNNING', 'RUNNING'), (5, 'PAUSED', 'PAUSED'), (6, 'SUCCESS', 'SUCCESS'), (7, 'ERROR', 'ERROR'), (8, 'CANCELLED', 'CANCELLED')) AS s (n, status, label))
		|| @extschema@.pgqrs_html(text '</select></label><label>tag <input name="tags" value="%s" placeholder="key=value"/></label><label>error type <input name="error" value="%s"/></label>'
				'<label>triggered from <input type="datetime-local" name="after" value="%s"/></label><label>and before, in %s <input type="datetime-local" name="before" value="%s"/></label>'
				'<div class="buttons"><button>Filter</button><a href="runs">All runs</a><a href="runs?status=live">Live runs</a><a href="runs?status=ERROR">Failed runs</a></div></form>', ARRAY[
			COALESCE(parameters ->> 'tags', ''), parameters ->> 'error', pg_catalog.to_char(NULLIF(parameters ->> 'after', '')::timestamptz, 'YYYY-MM-DD"T"HH24:MI'),
			pg_catalog.current_setting('TimeZone'), pg_catalog.to_char(NULLIF(parameters ->> 'before', '')::timestamptz, 'YYYY-MM-DD"T"HH24:MI')]::text[])
		|| CASE WHEN csrf IS NULL THEN ''
			WHEN COALESCE(parameters ->> 'workflow', '') = '' OR parameters ->> 'workflow' LIKE '%*' THEN '<p class="soft">All runs that match can be cancelled or run again if one workflow is named.</p>'
			ELSE (SELECT COALESCE('<p class="buttons">All that match: ' || NULLIF(pg_catalog.concat(CASE WHEN COALESCE(parameters ->> 'error', '') = '' THEN @extschema@.pgqrs_html_act(text 'cancel_runs', p.p, text 'Cancel', csrf) END,
					@extschema@.pgqrs_html_act(text 'replay_runs', p.p, text 'Replay', csrf), @extschema@.pgqrs_html_act(text 'rerun_runs', p.p, text 'Rerun', csrf)), '') || '</p>', '')
				FROM (SELECT CASE WHEN parameters ->> 'status' = 'live' THEN parameters - 'status' ELSE parameters END - '{from,refresh}'::text[]) AS p (p)) END
		|| CASE WHEN parameters ->> 'status' = 'live' THEN @extschema@.pgqrs_html_live_list(parameters) ELSE @extschema@.pgqrs_html_run_list(parameters) END);
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_runs(jsonb, text) IS 'The page of runs, with filters. Errors: as of pgqrs_report_page().';

CREATE FUNCTION @extschema@.pgqrs_html_run_page(parameters jsonb, csrf text) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT @extschema@.pgqrs_html_view(pg_catalog.format('Run %s of %s', r.run_id, r.workflow), text 'run', parameters,
		@extschema@.pgqrs_html(text '<h1>Run %s ', ARRAY[r.run_id::text]::text[]) || @extschema@.pgqrs_html_status(r.status) || '</h1><p class="soft">'
		|| @extschema@.pgqrs_html_link(text 'runs', pg_catalog.jsonb_build_object('workflow', r.workflow), r.workflow)
		|| COALESCE((SELECT ', child of ' || @extschema@.pgqrs_html_link(text 'run', pg_catalog.jsonb_build_object('run', p.run_id), 'run ' || p.run_id) FROM @extschema@.pgqrs_runs AS p WHERE p.run_id = r.parent_run_id), '')
		|| COALESCE((SELECT ', rerun of ' || @extschema@.pgqrs_html_link(text 'run', pg_catalog.jsonb_build_object('run', p.run_id), 'run ' || p.run_id) FROM @extschema@.pgqrs_runs AS p WHERE p.run_id = r.rerun_of), '')
		|| '</p>'
		|| COALESCE('<p class="buttons">' || NULLIF(pg_catalog.concat(
				CASE WHEN r.completed_at IS NULL THEN @extschema@.pgqrs_html_act(text 'cancel', o.o, text 'Cancel', csrf) END,
				CASE WHEN r.status = 'ERROR' THEN @extschema@.pgqrs_html_act(text 'replay', pg_catalog.jsonb_build_object('message', r.run_id), text 'Replay', csrf) END,
				CASE WHEN r.completed_at IS NULL THEN @extschema@.pgqrs_html_act(text 'resume', o.o, text 'Resume a pause', csrf) END,
				CASE WHEN r.completed_at IS NULL THEN @extschema@.pgqrs_html_act(text 'signal', o.o, text 'Send a signal', csrf) END,
				@extschema@.pgqrs_html_act(text 'rerun', o.o, text 'Rerun', csrf)), '') || '</p>', '')
		|| @extschema@.pgqrs_html_run(r.run_id, true, NULLIF(parameters ->> 'child', '')::bigint))
	FROM @extschema@.pgqrs_get_run((parameters ->> 'run')::bigint) AS r
		CROSS JOIN LATERAL (SELECT pg_catalog.jsonb_build_object('run', r.run_id)) AS o (o);
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_run_page(jsonb, text) IS 'The page of a run. Errors: as of pgqrs_report_page().';

CREATE FUNCTION @extschema@.pgqrs_html_workers(parameters jsonb, csrf text) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT @extschema@.pgqrs_html_view(text 'Workers', text 'workers', parameters, '<h1>Workers</h1><p class="soft">Live, or stopped within the hour; 200 at most.</p>'
		|| (SELECT @extschema@.pgqrs_html_table('{worker,status,#holds,#heard of,version,queues}'::text[], pg_catalog.array_agg(ARRAY[
					@extschema@.pgqrs_html(text '%s<span class="sub">%s</span>', ARRAY[w.worker, pg_catalog.concat_ws(' on ', w.owner, w.hostname)]::text[]),
					@extschema@.pgqrs_html_status(CASE WHEN w.stopped_at IS NULL AND w.heard > pg_catalog.current_setting('pgqrs.worker_timeout')::interval THEN 'silent' ELSE w.status END),
					pg_catalog.concat_ws(' of ', w.in_flight + w.expired, w.max_concurrent), @extschema@.pgqrs_html_duration(w.heard) || ' ago', @extschema@.pgqrs_html(text '%s', ARRAY[w.version]::text[]),
					@extschema@.pgqrs_html(text '%s', ARRAY[pg_catalog.array_to_string(w.queues[1:20], ', ')]::text[])] ORDER BY w.stopped_at DESC NULLS FIRST, w.worker), text 'There is no worker.')
			FROM (
				SELECT w.worker, w.owner, w.hostname, w.version, w.queues, w.status, w.in_flight, w.expired, w.max_concurrent, w.stopped_at, @extschema@.pgqrs_elapsed(w.heartbeat_at, @extschema@.pgqrs_now()) AS heard
				FROM @extschema@.pgqrs_worker_stats AS w
				WHERE w.stopped_at IS NULL OR w.stopped_at > @extschema@.pgqrs_now() - interval '1 hour'
				ORDER BY w.stopped_at DESC NULLS FIRST, w.worker
				LIMIT 200
			) AS w));
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_workers(jsonb, text) IS 'The page of workers.';

CREATE FUNCTION @extschema@.pgqrs_html_schedules(parameters jsonb, csrf text) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT @extschema@.pgqrs_html_view(text 'Schedules', text 'schedules', parameters, '<h1>Schedules</h1><p class="soft">The next first, 200 at most.</p>'
		|| (SELECT @extschema@.pgqrs_html_table('{schedule,workflow,when,last run,next firings,actions}'::text[], pg_catalog.array_agg(ARRAY[
					@extschema@.pgqrs_html(text '%s ', ARRAY[s.name]::text[]) || CASE WHEN NOT s.enabled THEN @extschema@.pgqrs_html_status(text 'paused') WHEN NOT s.may_fire THEN '<span class="b bad">cannot fire</span>' ELSE '' END,
					@extschema@.pgqrs_html_link(text 'runs', pg_catalog.jsonb_build_object('workflow', s.workflow), s.workflow),
					@extschema@.pgqrs_html(text '<code>%s</code> <span class="sub">%s</span>', ARRAY[s.cron, s.timezone]::text[]),
					pg_catalog.concat(@extschema@.pgqrs_html_link(text 'run', pg_catalog.jsonb_build_object('run', s.last_run_id), s.last_run_id::text), ' ', @extschema@.pgqrs_html_status(s.last_status),
						@extschema@.pgqrs_html(text '<span class="sub">%s ago</span>', ARRAY[@extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(s.last_fired_at, @extschema@.pgqrs_now()))]::text[])),
					CASE WHEN s.next_fire_at IS NOT NULL THEN (SELECT pg_catalog.string_agg(pg_catalog.format('<span class="sub">%s</span>', pg_catalog.to_char(n.at, 'YYYY-MM-DD HH24:MI TZ')), '' ORDER BY n.at)
						FROM @extschema@.pgqrs_next_firings(s.cron, s.timezone, 3, NULL::timestamptz) AS n (at)) END,
					pg_catalog.concat(@extschema@.pgqrs_html_act(text 'trigger_schedule', pg_catalog.jsonb_build_object('name', s.name), text 'Run now', csrf),
						@extschema@.pgqrs_html_act(text 'enable_schedule', pg_catalog.jsonb_build_object('name', s.name, 'enabled', NOT s.enabled), CASE WHEN s.enabled THEN 'Disable' ELSE 'Enable' END, csrf))]
						ORDER BY s.next_fire_at, s.name), text 'There is no schedule.')
			FROM (SELECT s.* FROM @extschema@.pgqrs_schedule_list AS s ORDER BY s.next_fire_at, s.name LIMIT 200) AS s));
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_schedules(jsonb, text) IS 'The page of schedules, with their next firings.';

CREATE FUNCTION @extschema@.pgqrs_html_dead(parameters jsonb, csrf text) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	WITH letters AS MATERIALIZED (
		SELECT l.*, COALESCE(parameters ->> 'error', '') = '' OR l.cause = parameters ->> 'error' AS matches
		FROM @extschema@.pgqrs_html_letters(NULLIF(parameters ->> 'queue', ''), CASE WHEN COALESCE(parameters ->> 'queue', '') <> '' THEN 1000 ELSE 100 END) AS l
		ORDER BY l.archived_at DESC
		LIMIT 1000
	)
	SELECT @extschema@.pgqrs_html_view(text 'Dead letters', text 'dead', parameters, '<h1>Dead letters</h1><p class="soft">The newest 1000 of a queue, or 100 of each queue and 1000 in all.</p>'
		|| @extschema@.pgqrs_html(text '<form class="filter" action="dead"><label>queue <input name="queue" value="%s"/></label><label>error type <input name="error" value="%s"/></label><div class="buttons"><button>Filter</button><a href="dead">All</a></div></form>',
			ARRAY[COALESCE(parameters ->> 'queue', ''), parameters ->> 'error']::text[])
		|| CASE WHEN COALESCE(parameters ->> 'queue', '') <> '' THEN COALESCE('<p class="buttons">All that match: ' || @extschema@.pgqrs_html_act(text 'replay_queue', parameters - 'refresh', text 'Replay', csrf) || '</p>', '') ELSE '' END
		|| '<h2>Causes</h2>'
		|| (SELECT @extschema@.pgqrs_html_table('{cause,queue,#dead,#newest,latest error}'::text[], pg_catalog.array_agg(ARRAY[
					@extschema@.pgqrs_html_link(text 'dead', pg_catalog.jsonb_build_object('queue', l.queue_name, 'error', l.cause), COALESCE(pg_catalog.left(l.cause, 100), 'unknown')), @extschema@.pgqrs_html(text '%s', ARRAY[l.queue_name]::text[]), l.count::text,
					@extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(l.newest, @extschema@.pgqrs_now())) || ' ago', @extschema@.pgqrs_html(text '%s', ARRAY[l.error]::text[])] ORDER BY l.count DESC, l.newest DESC), text 'Nothing failed for good.')
			FROM (
				SELECT l.queue_name, l.cause, pg_catalog.count(*) AS count, pg_catalog.max(l.archived_at) AS newest, (pg_catalog.array_agg(l.error ORDER BY l.archived_at DESC))[1] AS error
				FROM letters AS l WHERE l.matches
				GROUP BY l.queue_name, l.cause
				ORDER BY pg_catalog.count(*) DESC, pg_catalog.max(l.archived_at) DESC
				LIMIT 30
			) AS l)
		|| '<h2>Dead letters<small>the newest 50</small></h2>'
		|| (SELECT @extschema@.pgqrs_html_table('{message,queue,#died,#claims,error,actions}'::text[], pg_catalog.array_agg(ARRAY[
					CASE WHEN l.run_id IS NULL THEN l.message_id::text ELSE 'run ' || @extschema@.pgqrs_html_link(text 'run', pg_catalog.jsonb_build_object('run', l.run_id), l.run_id::text) END,
					@extschema@.pgqrs_html_link(text 'queue', pg_catalog.jsonb_build_object('queue', l.queue_name), l.queue_name),
					@extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(l.archived_at, @extschema@.pgqrs_now())) || ' ago', l.attempt::text, @extschema@.pgqrs_html(text '%s', ARRAY[l.error]::text[]),
					pg_catalog.concat(@extschema@.pgqrs_html_act(text 'replay', pg_catalog.jsonb_build_object('message', l.message_id), text 'Replay', csrf), @extschema@.pgqrs_html_act(text 'dismiss', pg_catalog.jsonb_build_object('message', l.message_id), text 'Dismiss', csrf))]
						ORDER BY l.archived_at DESC), text 'There are no dead letters.')
			FROM (SELECT l.* FROM letters AS l WHERE l.matches ORDER BY l.archived_at DESC LIMIT 50) AS l));
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_dead(jsonb, text) IS 'The page of dead letters.';

--
-- Actions
--

CREATE FUNCTION @extschema@.pgqrs_html_statement(parameters jsonb) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT pg_catalog.format('SELECT * FROM %s.%s(%s)', '@extschema@', f.function,
		pg_catalog.string_agg(pg_catalog.format('%s => %s', f.argument, CASE f.kind
			WHEN 'number' THEN f.value::bigint::text
			WHEN 'boolean' THEN f.value::boolean::text
			WHEN 'json' THEN pg_catalog.quote_literal(f.value::jsonb::text) || '::jsonb'
			WHEN 'tags' THEN pg_catalog.quote_literal(@extschema@.pgqrs_html_tags(f.value)::text) || '::jsonb'
			WHEN 'time' THEN pg_catalog.quote_literal(pg_catalog.to_jsonb(f.value::timestamptz) #>> '{}') || '::timestamptz'
			ELSE pg_catalog.quote_literal(f.value) END), ', ' ORDER BY f.place) FILTER (WHERE f.value <> ''))
	FROM (
		SELECT f.*, parameters ->> f.field AS value FROM @extschema@.pgqrs_html_fields(parameters ->> 'action') AS f
	) AS f
	GROUP BY f.function
	HAVING pg_catalog.bool_and(NOT f.is_required OR COALESCE(f.value, '') <> '');
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_statement(jsonb) IS
'The statement of SQL of an action, which means the same in any session: names with their schema, instants with their offset; NULL if a field is missing or the current role may not call its function. Errors: as of pgqrs_report_page().';

CREATE FUNCTION @extschema@.pgqrs_report_action(parameters jsonb) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT CASE WHEN NOT EXISTS (SELECT FROM @extschema@.pgqrs_html_fields(parameters ->> 'action') AS f WHERE f.field = 'number')
			OR parameters ->> 'number' = parameters ->> 'matching' AND parameters ->> 'number' = (SELECT c.count::text FROM @extschema@.pgqrs_html_count(parameters) AS c)
		THEN @extschema@.pgqrs_html_statement(parameters) END;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_report_action(jsonb) IS
'The statement of SQL, one call, that the form of a page asks for; parameters: the fields of the form. NULL if a field is missing, if the number that was typed to confirm an action is not the one that was asked for, or not the one of those that match by now, if there is no such action, or if the current role may not call its function. Needs read, trigger, work or admin on any name. Errors: 22003, 22007, 22008, 22009, 22023, 22P02, 22P05 of a field that is no number, time or JSON.';

CREATE FUNCTION @extschema@.pgqrs_html_form(parameters jsonb, csrf text, is_again boolean, OUT title text, OUT form text) RETURNS record
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	WITH fields AS MATERIALIZED (
		SELECT f.*, COALESCE(parameters ->> f.field, '') AS value FROM @extschema@.pgqrs_html_fields(parameters ->> 'action') AS f
	), matching AS MATERIALIZED (
		SELECT c.count, c.is_cut FROM @extschema@.pgqrs_html_count(parameters) AS c WHERE EXISTS (SELECT FROM fields AS f WHERE f.field = 'number')
	)
	SELECT t.title,
		@extschema@.pgqrs_html(CASE WHEN is_again THEN text '<h2>%s</h2><p>%s</p>' ELSE text '<h1>%s</h1><p>%s</p>' END, ARRAY[t.title, t.note]::text[])
		|| COALESCE((SELECT pg_catalog.format('<p class="note"><strong>%s</strong> %s now%s.%s</p>', m.count,
				CASE WHEN parameters ->> 'action' = 'replay_queue' THEN 'dead letters match' ELSE 'runs match' END,
				CASE WHEN m.is_cut THEN ' at least; of all that match the oldest so many are changed' END,
				CASE WHEN m.count = 0 THEN ' There is nothing to do.' ELSE ' Type the number to confirm.' END) FROM matching AS m), '')
		|| CASE WHEN (SELECT m.count = 0 FROM matching AS m) THEN '' ELSE '<form class="act" method="post" action="do">'
			|| @extschema@.pgqrs_html(text '<input type="hidden" name="action" value="%s"/>', ARRAY[parameters ->> 'action']::text[])
			|| COALESCE((SELECT pg_catalog.format('<input type="hidden" name="matching" value="%s"/>', m.count) FROM matching AS m), '')
			|| (SELECT pg_catalog.string_agg(CASE
						WHEN f.field = 'number' THEN '<label>number <input name="number" inputmode="numeric" autocomplete="off" required="required"/></label>'
						WHEN f.field IN ('run', 'message', 'queue', 'name', 'enabled') OR f.field IN ('workflow', 'status', 'tags', 'error', 'after', 'before') THEN
							CASE WHEN f.value = '' THEN '' ELSE @extschema@.pgqrs_html(text '<p><span class="soft">%s</span> <strong>%s</strong><input type="hidden" name="%1$s" value="%2$s"/></p>', ARRAY[f.field, f.value]::text[]) END
						WHEN f.kind = 'json' THEN @extschema@.pgqrs_html(text '<label>%s, as JSON<textarea name="%s" spellcheck="false">%s</textarea></label>', ARRAY[f.field, f.field, f.value]::text[])
						ELSE @extschema@.pgqrs_html(text '<label>%s <input name="%s" value="%s"', ARRAY[pg_catalog.replace(f.field, '_', ' '), f.field, f.value]::text[])
							|| CASE WHEN f.is_required THEN ' required="required"/></label>' ELSE '/></label>' END END, '' ORDER BY f.place)
				FROM fields AS f)
			|| CASE WHEN is_again THEN '' ELSE COALESCE(@extschema@.pgqrs_html(text '<div><span class="soft">The SQL that it runs, with what the fields had when the page was made</span><pre>%s</pre></div>',
				ARRAY[@extschema@.pgqrs_html_statement(parameters || COALESCE((SELECT pg_catalog.jsonb_build_object('number', m.count) FROM matching AS m), '{}'))]::text[]), '') END
			|| @extschema@.pgqrs_html(text '<div class="buttons"><button class="go" name="csrf" value="%s">%s</button> <button formmethod="get" formaction="do" formnovalidate="formnovalidate">Show the SQL</button></div></form>', ARRAY[csrf, t.title]::text[]) END
	FROM (
		VALUES ('cancel', 'Cancel the run', 'It ends now. If a worker holds it, that worker is asked to stop. Live children are cancelled, too.'),
			('replay', 'Replay', 'It is claimable again. Steps of a run that have finished stay so.'),
			('dismiss', 'Dismiss', 'The dead letter is removed.'),
			('resume', 'Resume a pause', 'The pause is over, and the run claimable. Without a step it is the one at which the run waits.'),
			('signal', 'Send a signal', 'It wakes the run if it waits for a signal of that name; else it is kept.'),
			('rerun', 'Rerun', 'A new run with the same input; from a step on, with the outputs of the steps before it.'),
			('pause_queue', 'Pause the queue', 'It accepts messages, and delivers none.'),
			('resume_queue', 'Resume the queue', 'It delivers messages again.'),
			('replay_queue', 'Replay dead letters', 'They are claimable again.'),
			('trigger_schedule', 'Run the schedule now', 'A run is triggered. Its slots are not affected.'),
			('enable_schedule', 'Enable or disable the schedule', 'While it is disabled, slots pass without a run.'),
			('cancel_runs', 'Cancel runs', 'All live runs that match, the oldest first.'),
			('replay_runs', 'Replay runs', 'All failed runs that match are claimable again, the oldest first.'),
			('rerun_runs', 'Rerun runs', 'A new run for each that matches and was not rerun before, the oldest first.')
	) AS t (action, title, note)
	WHERE t.action = parameters ->> 'action' AND csrf IS NOT NULL AND EXISTS (SELECT FROM fields);
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_form(jsonb, text, boolean) IS
'The form of an action, with the SQL that it runs; NULL if there is no such action, or none is allowed. is_again: below an answer, and without the SQL, so that the fields may have any values. Errors: as of pgqrs_report_page().';

CREATE FUNCTION @extschema@.pgqrs_report_answer(parameters jsonb, statement text, is_done boolean, answer text, csrf text) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT @extschema@.pgqrs_html_view(CASE WHEN is_done THEN 'Done' ELSE 'Not done' END, NULL::text, NULL::jsonb,
		CASE WHEN is_done THEN '<h1>Done</h1><div class="note ok">' ELSE '<h1>Not done</h1><div class="note bad">' END
		|| @extschema@.pgqrs_html(text '<pre>%s</pre></div>', ARRAY[COALESCE(answer, CASE WHEN is_done THEN '' ELSE (
				SELECT CASE WHEN pg_catalog.count(*) = 0 THEN 'Nothing was done: there is no such action, or the role may not do it.'
					WHEN pg_catalog.bool_or(f.is_required AND COALESCE(parameters ->> f.field, '') = '') THEN 'Nothing was done: a field is empty.'
					ELSE 'Nothing was done: the number that was typed is not the number of those that match now.' END
				FROM @extschema@.pgqrs_html_fields(parameters ->> 'action') AS f) END)]::text[])
		|| COALESCE(@extschema@.pgqrs_html(text '<p class="soft">The SQL</p><pre>%s</pre>', ARRAY[statement]::text[]), '')
		|| CASE WHEN is_done THEN '' ELSE COALESCE((SELECT f.form FROM @extschema@.pgqrs_html_form(parameters, csrf, true) AS f), '') END
		|| '<p class="buttons">'
		|| pg_catalog.concat_ws(' ',
			@extschema@.pgqrs_html_link(text 'run', pg_catalog.jsonb_build_object('run', parameters ->> 'run'), 'Run ' || (parameters ->> 'run')),
			@extschema@.pgqrs_html_link(text 'queue', pg_catalog.jsonb_build_object('queue', parameters ->> 'queue'), 'Queue ' || (parameters ->> 'queue')),
			CASE WHEN parameters ->> 'message' <> '' THEN '<a href="dead">Dead letters</a>' END,
			CASE WHEN parameters ->> 'name' <> '' THEN '<a href="schedules">Schedules</a>' END,
			@extschema@.pgqrs_html_link(text 'runs', pg_catalog.jsonb_build_object('workflow', parameters ->> 'workflow'), 'Runs of ' || (parameters ->> 'workflow')))
		|| '</p>');
END;
COMMENT ON FUNCTION @extschema@.pgqrs_report_answer(jsonb, text, boolean, text, text) IS
'A page that says what came of a statement of pgqrs_report_action(), or of a page that could not be made. parameters: those of the request; answer: the result or the error, as text, NULL: pgqrs_report_action() returned NULL; csrf: as of pgqrs_report_page(), for the form again if it was not done. Needs read, trigger, work or admin on any name. Errors: 22003, 22007, 22008, 22009, 22023, 22P02, 22P05 of a filter that is no time or JSON.';

CREATE FUNCTION @extschema@.pgqrs_report_page(page text, parameters jsonb = NULL, csrf text = NULL) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT CASE page
		WHEN '' THEN @extschema@.pgqrs_html_overview(p.p, csrf)
		WHEN 'queues' THEN @extschema@.pgqrs_html_queues(p.p, csrf)
		WHEN 'queue' THEN @extschema@.pgqrs_html_queue(p.p, csrf)
		WHEN 'runs' THEN @extschema@.pgqrs_html_runs(p.p, csrf)
		WHEN 'run' THEN @extschema@.pgqrs_html_run_page(p.p, csrf)
		WHEN 'workers' THEN @extschema@.pgqrs_html_workers(p.p, csrf)
		WHEN 'schedules' THEN @extschema@.pgqrs_html_schedules(p.p, csrf)
		WHEN 'dead' THEN @extschema@.pgqrs_html_dead(p.p, csrf)
		WHEN 'do' THEN (SELECT @extschema@.pgqrs_html_view(f.title, NULL::text, p.p, f.form) FROM @extschema@.pgqrs_html_form(p.p, csrf, false) AS f)
		END
	FROM (SELECT COALESCE(parameters, '{}') OFFSET 0) AS p (p);
END;
COMMENT ON FUNCTION @extschema@.pgqrs_report_page(text, jsonb, text) IS
'A page for a web server, as HTML that refers to style.css (pgqrs_report_style()) and to other pages by relative addresses. page: empty, queues, queue, runs, run, workers, schedules, dead, do; parameters: those of the request, as an object of texts; csrf: a secret that the forms of actions send back, NULL: there are no actions. NULL if there is no such page. Shows what the current role may read. Needs read, trigger, work or admin on any name. Errors: PQ001, PQ003 not there or not readable, 22004, 22003, 22007, 22008, 22009, 22023, 22P02, 22P05 of a parameter that is missing or no number, time or JSON.';
