\echo Use "ALTER EXTENSION pgqrs UPDATE TO '0.1.1'" to load this file. \quit

ALTER FUNCTION @extschema@.pgqrs_extend_leases(bigint[], bigint[], interval) ROWS 10;
ALTER FUNCTION @extschema@.pgqrs_verify() ROWS 30;
ALTER FUNCTION @extschema@.pgqrs_install_cron() ROWS 5;
ALTER FUNCTION @extschema@.pgqrs_advance_sequences() ROWS 5;
COMMENT ON FUNCTION @extschema@.pgqrs_heartbeat(bigint) IS
'A heartbeat of the worker; returns READY or SUSPENDED. Every call that names a worker or is made under one of its leases counts as a heartbeat, except suspending and resuming it, which an operator does; with the library preloaded, also if its transaction rolls back. The worker''s row is written at most once per pgqrs.heartbeat_flush. Call it, or one of those, at least every third of pgqrs.worker_timeout. Errors: PQ005 for a worker that does not exist or belongs to another role (the extension''s owner and superusers reach all), PQ014 once it is STOPPED.';

CREATE OR REPLACE VIEW @extschema@.pgqrs_histograms WITH (security_barrier) AS
	SELECT q.name COLLATE pg_catalog."default" AS queue,
		m.measure,
		b.le,
		n.counters[m.first + b.bucket] AS count
	FROM @extschema@.pgqrs_queues AS q
		CROSS JOIN LATERAL @extschema@.pgqrs_counters_of(q.queue_id) AS n (counters)
		CROSS JOIN (VALUES ('wait', 32), ('work', 44)) AS m (measure, first)
		CROSS JOIN (VALUES (1, 0.001::pg_catalog.float8), (2, 0.005), (3, 0.01), (4, 0.05), (5, 0.1), (6, 0.5), (7, 1), (8, 5), (9, 30), (10, 300), (11, 3600), (12, 'Infinity')) AS b (bucket, le)
	WHERE @extschema@.pgqrs_may_monitor(q.queue_id);

CREATE OR REPLACE FUNCTION @extschema@.pgqrs_html_error(error jsonb) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT pg_catalog.left(COALESCE(NULLIF(pg_catalog.concat_ws(': ', l.lines[1], l.lines[2]), ''), l.lines[3]), 300)
	FROM (
		SELECT pg_catalog.array_agg(CASE
				WHEN pg_catalog.jsonb_typeof(v.value) IN ('object', 'array') THEN pg_catalog.regexp_replace(pg_catalog.regexp_replace(
					pg_catalog.left(@extschema@.pgqrs_html_json(v.value), 4000), '([[{])\n *|\n *([]}])', '\1\2', 'g'), '\n *', ' ', 'g')
				ELSE pg_catalog.left(v.value #>> '{}', 300) END ORDER BY v.n)
		FROM (SELECT error #> '{}' OFFSET 0) AS e (error)
			CROSS JOIN LATERAL (VALUES (1, e.error -> 'type'), (2, e.error -> 'message'),
				(3, CASE WHEN e.error -> 'message' NOT IN ('null', '""') THEN NULL ELSE e.error END)) AS v (n, value)
	) AS l (lines);
END;

-- The header of a stored value has its size, which costs no reading.
CREATE FUNCTION @extschema@.pgqrs_html_size(value jsonb) RETURNS integer
LANGUAGE c IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_html_size';
COMMENT ON FUNCTION @extschema@.pgqrs_html_size(jsonb) IS
'The bytes of a value when it is read, without reading it; 0 for NULL. Errors: none.';

CREATE FUNCTION @extschema@.pgqrs_html_large(size integer) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT size WHERE size BETWEEN 65537 AND 4194304;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_large(integer) IS
'The size, if values of this size count towards the 10 MB of pgqrs_html_unread(): over 64 kB, up to 4 MB; otherwise NULL.';

CREATE FUNCTION @extschema@.pgqrs_html_unread(size integer, total bigint, view text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT pg_catalog.format('%s not read, see %s', pg_catalog.pg_size_pretty(size::bigint), view)
	WHERE size > 4194304 OR @extschema@.pgqrs_html_large(size) > 0 AND total > 10485760;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_unread(integer, bigint, text) IS
'What a page shows instead of a value over 4 MB, or of one over 64 kB once total, the bytes of such values up to it, exceeds 10 MB; NULL if the page may read the value. view: where it is.';

-- pgqrs_sync_grants() grants them to the roles that read.
REVOKE ALL ON FUNCTION @extschema@.pgqrs_html_size(jsonb), @extschema@.pgqrs_html_large(integer), @extschema@.pgqrs_html_unread(integer, bigint, text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION @extschema@.pgqrs_html_run(run_id bigint, is_linked boolean, from_child bigint) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	WITH run AS MATERIALIZED (
		SELECT r.*, c.now, COALESCE(r.completed_at, c.now) AS until,
			GREATEST(extract(epoch FROM @extschema@.pgqrs_elapsed(r.created_at, COALESCE(r.completed_at, c.now)))::float8, 0.000001) AS seconds
		FROM @extschema@.pgqrs_get_run(run_id) AS r CROSS JOIN (SELECT @extschema@.pgqrs_now() AS now) AS c
	), lines AS MATERIALIZED (
		SELECT 0 AS place, 'until its first claim' AS name, NULL AS kind, NULL AS status, NULL AS what, r.created_at AS since, COALESCE(r.started_at, r.until) AS until,
			'f3' AS class, NULL::jsonb AS error, NULL::jsonb AS history, NULL AS unread, false AS undo
		FROM run AS r
		UNION ALL
		SELECT pg_catalog.row_number() OVER (ORDER BY s.started_at, s.step_id), s.step_id, s.kind, s.status,
			CASE WHEN s.kind = 'FUNCTION' THEN pg_catalog.concat_ws(', ',
					CASE WHEN s.attempt > 1 THEN s.attempt || ' attempts' END, CASE WHEN s.failures > 0 THEN s.failures || ' failed' END)
				WHEN u.unread IS NULL THEN s.reason #>> '{}' END,
			s.started_at, COALESCE(s.completed_at, r.until),
			CASE WHEN s.status = 'ERROR' THEN 'f2' WHEN s.kind = 'FUNCTION' THEN 'f1' WHEN s.kind = 'CHILD' THEN 'f6' ELSE 'f5' END,
			CASE WHEN u.unread IS NULL THEN s.error END, CASE WHEN u.unread IS NULL THEN s.history END, u.unread, s.undo
		FROM run AS r
			CROSS JOIN LATERAL (
				SELECT s.*, pg_catalog.sum(@extschema@.pgqrs_html_large(s.size)) OVER (ORDER BY s.started_at, s.step_id) AS total
				FROM (
					SELECT s.step_id, s.kind, s.status, s.attempt, s.failures, s.error, s.history, s.reason, s.started_at, s.completed_at, s.undo,
						@extschema@.pgqrs_html_size(COALESCE(s.history, s.error)) + @extschema@.pgqrs_html_size(s.reason) AS size
					FROM @extschema@.pgqrs_steps AS s WHERE s.run_id = r.run_id ORDER BY s.started_at, s.step_id LIMIT 500
				) AS s
			) AS s
			CROSS JOIN LATERAL (SELECT @extschema@.pgqrs_html_unread(s.size, s.total, text 'pgqrs_steps') OFFSET 0) AS u (unread)
	)
	SELECT (SELECT '<dl class="facts">' || pg_catalog.string_agg(@extschema@.pgqrs_html(text '<div><dt>%s</dt><dd>%s</dd></div>', ARRAY[f.name, pg_catalog.left(f.value, 300)]::text[]), '') || '</dl>'
			FROM (
				VALUES ('triggered', pg_catalog.to_char(r.created_at, 'YYYY-MM-DD HH24:MI:SS TZ')),
					('took', CASE WHEN r.completed_at IS NOT NULL THEN @extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(r.created_at, r.until)) END),
					('goes on for', CASE WHEN r.completed_at IS NULL THEN @extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(r.created_at, r.until)) END),
					('ended', pg_catalog.to_char(r.completed_at, 'YYYY-MM-DD HH24:MI:SS TZ')),
					('waits for', r.waiting_for),
					('work continues, or the lease ends', pg_catalog.to_char(r.visible_after, 'YYYY-MM-DD HH24:MI:SS TZ')),
					('deadline', pg_catalog.to_char(r.deadline_at, 'YYYY-MM-DD HH24:MI:SS TZ')),
					('claims', r.attempt::text), ('failures', NULLIF(r.failures, 0)::text), ('crashes', NULLIF(r.crashes, 0)::text),
					('worker', r.worker || COALESCE(', version ' || r.worker_version, '')),
					('priority', NULLIF(r.priority, 0)::text), ('idempotency key', r.idempotency_key), ('tags', r.tags::text),
					('child of run', (SELECT p.run_id || ', step ' || r.parent_step_id FROM @extschema@.pgqrs_runs AS p WHERE p.run_id = r.parent_run_id)),
					('rerun of run', (SELECT p.run_id::text FROM @extschema@.pgqrs_runs AS p WHERE p.run_id = r.rerun_of)),
					('slot of its schedule', pg_catalog.to_char(r.schedule_slot, 'YYYY-MM-DD HH24:MI TZ')),
					('cancellation', pg_catalog.to_char(r.cancel_requested_at, 'YYYY-MM-DD HH24:MI:SS TZ') || COALESCE(': ' || r.cancel_reason, '')),
					('undo', CASE WHEN r.completed_at IS NULL THEN (
							SELECT 'its steps are to be undone, for a ' || l.undo_cause FROM @extschema@.pgqrs_live_runs AS l WHERE l.run_id = r.run_id
						) WHEN EXISTS (SELECT FROM lines AS l WHERE l.undo) THEN 'its steps were undone, for a ' || CASE r.status WHEN 'ERROR' THEN 'timeout' ELSE 'cancel' END END),
					('deleted', pg_catalog.to_char(r.deleted_at, 'YYYY-MM-DD HH24:MI:SS TZ') || COALESCE(': ' || r.delete_reason, ''))
			) AS f (name, value)
			WHERE f.value IS NOT NULL)
		|| COALESCE(@extschema@.pgqrs_html(text '<h2 class="bad">Error</h2><pre>%s</pre>', ARRAY[COALESCE(@extschema@.pgqrs_html_unread(@extschema@.pgqrs_html_size(r.error), NULL::bigint, text 'pgqrs_runs'), @extschema@.pgqrs_html_json(r.error))]::text[]), '')

		|| '<h2>Steps<small>the first 500, in the order of their start; red marks are failures, the last ten of each</small></h2><ol class="line">'
		|| (SELECT pg_catalog.string_agg(@extschema@.pgqrs_html(text '<li><div><strong>%s</strong> ', ARRAY[l.name]::text[])
					|| pg_catalog.concat(@extschema@.pgqrs_html_status(l.status), CASE WHEN l.undo THEN ' <span class="b warn">undo</span>' END, @extschema@.pgqrs_html(text '<span class="sub">%s</span>', ARRAY[pg_catalog.concat_ws(', ', pg_catalog.lower(l.kind), NULLIF(pg_catalog.left(l.what, 300), ''))]::text[]), '</div>')
					|| pg_catalog.format('<svg class="g" role="img" viewBox="0 0 1000 10" preserveAspectRatio="none"><title>after %s, for %s</title><rect class="%s" x="%s" width="%s" height="10"/>%s</svg>',
						@extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(r.created_at, l.since)), @extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(l.since, l.until)), l.class,
						pg_catalog.round(LEAST(b.x, 996)::numeric, 1), pg_catalog.round(GREATEST(LEAST(b.w, 1000 - b.x), 4)::numeric, 1),
						(SELECT pg_catalog.string_agg(pg_catalog.format('<rect class="f2" x="%s" width="4" height="10"/>',
								pg_catalog.round(LEAST(GREATEST(1000 * extract(epoch FROM @extschema@.pgqrs_elapsed(r.created_at, (h.value ->> 'at')::timestamptz))::float8 / r.seconds, 0), 996)::numeric, 1)), '')
							FROM pg_catalog.jsonb_array_elements(l.history) AS h (value)))
					|| pg_catalog.format('<div class="t">%s</div>', @extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(l.since, l.until)))
					|| COALESCE('<div class="e">' || (
							SELECT pg_catalog.string_agg(@extschema@.pgqrs_html(text '<p><span class="bad">attempt %s, after %s</span> %s</p>', ARRAY[h.value ->> 'attempt',
								@extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(r.created_at, (h.value ->> 'at')::timestamptz)), @extschema@.pgqrs_html_error(h.value -> 'error')]::text[]), '' ORDER BY h.n)
							FROM pg_catalog.jsonb_array_elements(l.history) WITH ORDINALITY AS h (value, n)) || '</div>',
						@extschema@.pgqrs_html(text '<div class="e"><p class="bad">%s</p></div>', ARRAY[COALESCE(l.unread, @extschema@.pgqrs_html_error(l.error))]::text[]), '')
					|| '</li>', '' ORDER BY l.place)
			FROM lines AS l
				CROSS JOIN LATERAL (
					SELECT 1000 * extract(epoch FROM @extschema@.pgqrs_elapsed(r.created_at, l.since))::float8 / r.seconds AS x,
						1000 * extract(epoch FROM @extschema@.pgqrs_elapsed(l.since, l.until))::float8 / r.seconds AS w
				) AS b)
		|| '</ol>' || CASE WHEN (SELECT pg_catalog.count(*) FROM lines) > 1 THEN '' ELSE '<p class="soft">No step has begun.</p>' END

		|| @extschema@.pgqrs_html_family(r.run_id, is_linked, from_child)

		|| COALESCE((SELECT '<h2>Reruns<small>the first 50</small></h2>' || @extschema@.pgqrs_html_table('{run,status,triggered,#time}'::text[], pg_catalog.array_agg(ARRAY[
					CASE WHEN is_linked THEN @extschema@.pgqrs_html_link(text 'run', pg_catalog.jsonb_build_object('run', n.run_id), n.run_id::text) ELSE n.run_id::text END,
					pg_catalog.concat(@extschema@.pgqrs_html_status(n.status), @extschema@.pgqrs_html(text '<span class="sub">%s</span>', ARRAY[COALESCE(@extschema@.pgqrs_html_unread(n.size, n.total, text 'pgqrs_runs'), @extschema@.pgqrs_html_error(n.error))]::text[])),
					pg_catalog.to_char(n.created_at, 'YYYY-MM-DD HH24:MI:SS'),
					@extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(n.created_at, COALESCE(n.completed_at, r.now)))] ORDER BY n.run_id), text '')
			FROM (
				SELECT n.*, pg_catalog.sum(@extschema@.pgqrs_html_large(n.size)) OVER (ORDER BY n.run_id) AS total
				FROM (
					SELECT n.run_id, n.status, n.error, n.created_at, n.completed_at, @extschema@.pgqrs_html_size(n.error) AS size
					FROM @extschema@.pgqrs_runs AS n WHERE n.rerun_of = r.run_id ORDER BY n.run_id LIMIT 50
				) AS n
			) AS n
			HAVING pg_catalog.count(*) > 0), '')

		|| COALESCE((SELECT '<h2>Signals<small>the first 100</small></h2>' || @extschema@.pgqrs_html_table('{signal,sent,consumed by,payload}'::text[], pg_catalog.array_agg(ARRAY[
					@extschema@.pgqrs_html(text '%s', ARRAY[s.name]::text[]), pg_catalog.to_char(s.sent_at, 'YYYY-MM-DD HH24:MI:SS'),
					COALESCE(@extschema@.pgqrs_html(text 'step %s', ARRAY[s.consumed_by]::text[]), '<span class="b warn">no step</span>'),
					@extschema@.pgqrs_html(text '<code>%s</code>', ARRAY[COALESCE(@extschema@.pgqrs_html_unread(s.size, s.total, s.view), pg_catalog.left(@extschema@.pgqrs_html_json(s.payload), 300))]::text[])] ORDER BY s.signal_id), text '')
			FROM (
				SELECT s.*, pg_catalog.sum(@extschema@.pgqrs_html_large(s.size)) OVER (ORDER BY s.signal_id, s.name) AS total
				FROM (
					SELECT s.*, @extschema@.pgqrs_html_size(s.payload) AS size
					FROM (
						SELECT s.signal_id, s.name, s.sent_at, s.consumed_by, s.payload, text 'pgqrs_sent_signals' AS view FROM @extschema@.pgqrs_sent_signals AS s WHERE s.run_id = r.run_id
						UNION ALL
						SELECT NULL, s.name, s.sent_at, NULL, s.payload, text 'pgqrs_signals' FROM @extschema@.pgqrs_signals AS s WHERE s.run_id = r.run_id AND s.signal_id IS NULL
						ORDER BY signal_id LIMIT 100
					) AS s
				) AS s
			) AS s
			HAVING pg_catalog.count(*) > 0), '')

		|| COALESCE((SELECT '<h2>Events<small>while pgqrs.audit was on, the first 200</small></h2>' || @extschema@.pgqrs_html_table('{event,at,#after,data}'::text[], pg_catalog.array_agg(ARRAY[
					@extschema@.pgqrs_html(text '%s', ARRAY[e.event]::text[]), pg_catalog.to_char(e.at, 'YYYY-MM-DD HH24:MI:SS.MS'), @extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(r.created_at, e.at)),
					@extschema@.pgqrs_html(text '<code>%s</code>', ARRAY[COALESCE(@extschema@.pgqrs_html_unread(e.size, e.total, text 'pgqrs_events'), @extschema@.pgqrs_html_error(e.data))]::text[])] ORDER BY e.event_id), text '')
			FROM (
				SELECT e.*, pg_catalog.sum(@extschema@.pgqrs_html_large(e.size)) OVER (ORDER BY e.event_id) AS total
				FROM (
					SELECT e.event_id, e.event, e.at, e.data, @extschema@.pgqrs_html_size(e.data) AS size
					FROM @extschema@.pgqrs_events AS e WHERE e.run_id = r.run_id ORDER BY e.event_id LIMIT 200
				) AS e
			) AS e
			HAVING pg_catalog.count(*) > 0), '')

		|| COALESCE((SELECT pg_catalog.string_agg(@extschema@.pgqrs_html(text '<h2>%s</h2><pre tabindex="0">%s</pre>', ARRAY[d.name,
				COALESCE(@extschema@.pgqrs_html_unread(@extschema@.pgqrs_html_size(d.value), NULL::bigint, text 'pgqrs_runs'), @extschema@.pgqrs_html_json(d.value))]::text[]), '' ORDER BY d.n)
			FROM (VALUES (1, 'Input', r.input), (2, 'Progress', r.progress), (3, 'Output', r.output)) AS d (n, name, value)
			WHERE d.value IS NOT NULL), '')
	FROM run AS r;
END;

CREATE OR REPLACE FUNCTION @extschema@.pgqrs_html_letters(
	queue text, page_size integer, OUT message_id bigint, OUT queue_name text, OUT run_id bigint,
	OUT attempt integer, OUT archived_at timestamptz, OUT cause text, OUT error text
) RETURNS SETOF record
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT l.message_id, l.queue, l.run_id, l.attempt, l.archived_at,
		CASE WHEN u.unread IS NULL THEN COALESCE(l.last_error ->> 'type', @extschema@.pgqrs_html_error(l.last_error)) END,
		COALESCE(u.unread, @extschema@.pgqrs_html_error(l.last_error))
	FROM (
		SELECT l.*, pg_catalog.sum(@extschema@.pgqrs_html_large(l.size)) OVER (ORDER BY l.archived_at DESC, l.message_id DESC) AS total
		FROM (
			SELECT l.message_id, l.queue, l.run_id, l.attempt, l.archived_at, l.last_error, @extschema@.pgqrs_html_size(l.last_error) AS size
			FROM (
				SELECT s.queue FROM @extschema@.pgqrs_queue_stats AS s WHERE s.dead > 0 AND (s.queue = pgqrs_html_letters.queue OR pgqrs_html_letters.queue IS NULL)
				ORDER BY s.queue LIMIT 500
			) AS q
				CROSS JOIN LATERAL (SELECT l.* FROM @extschema@.pgqrs_dead_letters AS l WHERE l.queue = q.queue LIMIT GREATEST(page_size, 0)) AS l
			ORDER BY l.archived_at DESC, l.message_id DESC
			LIMIT 1000
		) AS l
	) AS l
		CROSS JOIN LATERAL (SELECT @extschema@.pgqrs_html_unread(l.size, l.total, text 'pgqrs_dead_letters') OFFSET 0) AS u (unread);
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_letters(text, integer) IS
'The newest dead letters of a queue, or of each queue, so many at most and 1000 in all, with their cause and error in one line. Of an error that pgqrs_html_unread() leaves out, the cause is NULL.';

CREATE OR REPLACE FUNCTION @extschema@.pgqrs_html_document(title text, head text, body text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT @extschema@.pgqrs_html(text $html$<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="%s"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta name="color-scheme" content="light dark"/>
<title>%s</title>
$html$, ARRAY[COALESCE(
			'{"LATIN7": "iso-8859-13", "LATIN8": "iso-8859-14", "LATIN9": "iso-8859-15", "LATIN10": "iso-8859-16", "WIN866": "ibm866", "KOI8R": "koi8-r",
				"KOI8U": "koi8-u", "UHC": "euc-kr", "EUC_CN": "gb2312", "SHIFT_JIS_2004": "shift_jis", "EUC_JIS_2004": "euc-jp", "SQL_ASCII": "utf-8"}'::jsonb ->> pg_catalog.pg_client_encoding()::text,
			pg_catalog.replace(pg_catalog.replace(pg_catalog.lower(pg_catalog.pg_client_encoding()), 'win', 'windows-'), '_', '-')), title]::text[])
		|| head || text '</head>
<body>
' || body || text '
</body>
</html>';
END;
