-- Reports: self-contained pages of HTML.
--
-- All values of the database on a page pass pgqrs_html(), which escapes them; all
-- other text is ASCII, so that this file and the pages do not depend on the
-- encoding of the database.  Every query is bounded by an index and a LIMIT,
-- and a page states its limits.  Pages read views, which show the current role what it
-- has a privilege on; only the plots of the last hour read a table.

CREATE FUNCTION @extschema@.pgqrs_html(template text, "values" text[]) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT pg_catalog.format(template, VARIADIC ARRAY(
		SELECT pg_catalog.replace(pg_catalog.replace(pg_catalog.replace(pg_catalog.replace(pg_catalog.replace(pg_catalog.regexp_replace(
				CASE WHEN pg_catalog.length(v.value) > 4000 THEN pg_catalog.left(v.value, 3999) || '...' ELSE v.value END,
				'[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]', '?', 'g'),
				'&', '&amp;'), '<', '&lt;'), '>', '&gt;'), '"', '&quot;'), '''', '&#39;')
		FROM pg_catalog.unnest("values") WITH ORDINALITY AS v (value, n)
		ORDER BY v.n))
	WHERE pg_catalog.num_nonnulls(VARIADIC "values") > 0;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html(text, text[]) IS
'An HTML template, like format(), with an escaped value for each %s or %1$s; NULL if all values are NULL, otherwise a NULL is empty. Shows the first 4000 characters of a value, with a question mark for each control character.';

CREATE FUNCTION @extschema@.pgqrs_html_duration(duration interval) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT CASE
			WHEN s.s = 'Infinity' THEN 'forever'
			WHEN s.s < 0.00005 THEN '0 ms'
			WHEN s.s < 0.00995 THEN pg_catalog.to_char(s.s * 1000, 'FM990.0') || ' ms'
			WHEN s.s < 0.9995 THEN pg_catalog.round(s.s * 1000) || ' ms'
			WHEN s.s < 9.95 THEN pg_catalog.to_char(s.s, 'FM990.0') || ' s'
			WHEN s.s < 59.5 THEN pg_catalog.round(s.s) || ' s'
			WHEN s.s < 3600 THEN pg_catalog.concat_ws(' ', pg_catalog.floor(s.s / 60) || ' min', NULLIF(pg_catalog.floor(pg_catalog.mod(s.s, 60)), 0) || ' s')
			WHEN s.s < 86400 THEN pg_catalog.concat_ws(' ', pg_catalog.floor(s.s / 3600) || ' h', NULLIF(pg_catalog.floor(pg_catalog.mod(s.s, 3600) / 60), 0) || ' min')
			ELSE pg_catalog.concat_ws(' ', pg_catalog.floor(s.s / 86400) || ' d', NULLIF(pg_catalog.floor(pg_catalog.mod(s.s, 86400) / 3600), 0) || ' h')
		END
	FROM (SELECT CASE WHEN d.d < 0 THEN 0 WHEN d.d > 59.5 THEN pg_catalog.round(d.d) ELSE d.d END FROM (SELECT extract(epoch FROM duration)) AS d (d)) AS s (s)
	WHERE duration IS NOT NULL;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_duration(interval) IS
'A duration in readable form, such as 4 ms or 2 h 5 min; 0 ms for a negative one, forever for an infinite one.';

CREATE FUNCTION @extschema@.pgqrs_html_json(value jsonb) RETURNS text
LANGUAGE c IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_html_json';
COMMENT ON FUNCTION @extschema@.pgqrs_html_json(jsonb) IS
'A value like jsonb_pretty(), cut to what pgqrs_html() shows, and indented by at most 20 levels; NULL for NULL. Errors: none.';

-- #> '{}' reads a stored value once, for all that is looked up in it.
CREATE FUNCTION @extschema@.pgqrs_html_error(error jsonb) RETURNS text
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
COMMENT ON FUNCTION @extschema@.pgqrs_html_error(jsonb) IS
'An error in one line: its type and message, otherwise the whole value; at most 300 characters, not escaped.';

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

CREATE FUNCTION @extschema@.pgqrs_html_table(columns text[], cells text[], empty text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT CASE WHEN cells IS NULL THEN @extschema@.pgqrs_html(text '<p class="empty">%s</p>', ARRAY[empty]::text[])
		ELSE pg_catalog.format('<table><thead><tr>%s</tr></thead><tbody>%s</tbody></table>',
			(SELECT pg_catalog.string_agg(pg_catalog.format('<th scope="col"%s>%s</th>',
					CASE WHEN c.name LIKE '#%' THEN ' class="n"' END, pg_catalog.ltrim(c.name, '#')), '' ORDER BY c.n)
				FROM pg_catalog.unnest(columns) WITH ORDINALITY AS c (name, n)),
			(SELECT pg_catalog.string_agg('<tr>' || r.row || '</tr>', '' ORDER BY r.n)
				FROM (
					SELECT r.n, pg_catalog.string_agg(CASE c.n
							WHEN 1 THEN pg_catalog.format('<th scope="row">%s</th>', cells[r.n][c.n])
							ELSE pg_catalog.format('<td data-l="%s"%s>%s</td>', pg_catalog.ltrim(c.name, '#'),
								CASE WHEN COALESCE(cells[r.n][c.n], '') = '' THEN pg_catalog.format(' class="none%s"', CASE WHEN c.name LIKE '#%' THEN ' n' END)
									WHEN c.name LIKE '#%' THEN ' class="n"' END,
								COALESCE(NULLIF(cells[r.n][c.n], ''), '&#8211;')) END, '' ORDER BY c.n) AS row
					FROM pg_catalog.generate_subscripts(cells, 1) AS r (n)
						CROSS JOIN pg_catalog.unnest(columns) WITH ORDINALITY AS c (name, n)
					GROUP BY r.n
				) AS r)) END;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_table(text[], text[], text) IS
'An HTML table. columns: their names, with a leading # if they hold numbers; cells: rows of cells, as HTML; empty: the text without rows.';

CREATE FUNCTION @extschema@.pgqrs_html_style() RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT text ':root { --bg: #fcfcfa; --fg: #1c1c1a; --soft: #5c5c57; --line: #e2e1dc; --fill: #f2f1ec;
	--blue: #2a5d8f; --pale: #a9c4dd; --green: #22703f; --amber: #855300; --red: #b0281c; --grey: #8b8a84 }
@media (prefers-color-scheme: dark) { :root { --bg: #151618; --fg: #e9e7e2; --soft: #a5a39c; --line: #303236; --fill: #1f2124;
	--blue: #85b3e2; --pale: #37536f; --green: #79c898; --amber: #e3b25b; --red: #f28b80; --grey: #7f7e79 } }
* { box-sizing: border-box }
body { margin: 0; background: var(--bg); color: var(--fg); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
	font-variant-numeric: tabular-nums; -webkit-text-size-adjust: 100%; overflow-wrap: anywhere }
body > * { max-width: 1160px; margin: 0 auto; padding: 0 clamp(16px, 3vw, 40px) }
header { padding-top: clamp(20px, 4vw, 44px) }
h1 { margin: 0; font-size: clamp(22px, 3vw, 30px); line-height: 1.2; font-weight: 650; letter-spacing: -.01em }
h2 { margin: 44px 0 10px; font-size: 18px; line-height: 1.3; font-weight: 650 }
h2 small, figcaption small { font-size: 13px; font-weight: 400; color: var(--soft); margin-left: 6px }
h3 { margin: 24px 0 6px; font-size: 15px; font-weight: 650 }
p { margin: 6px 0 } a { color: var(--blue) }
.soft, .empty, footer, dt, .sub { color: var(--soft) }
.empty { padding: 14px 0; border-top: 1px solid var(--line); border-bottom: 1px solid var(--line) }
.sub { display: block; font-size: 13px; font-weight: 400 }
code, pre { font: 13px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; unicode-bidi: isolate }
pre { margin: 6px 0; padding: 10px 12px; background: var(--fill); border-radius: 4px; white-space: pre-wrap; max-height: 30em; overflow: auto }
nav { margin: 14px 0 0; font-size: 14px; display: flex; flex-wrap: wrap; gap: 4px 18px }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(130px, 1fr)); gap: 1px; margin: 26px 0 0; padding: 0; background: var(--line);
	border-top: 1px solid var(--line); border-bottom: 1px solid var(--line) }
.figures div { background: var(--bg); padding: 12px 12px 12px 0 }
.figures dt { font-size: 13px } .figures dd { margin: 0; font-size: 24px; line-height: 1.25; font-weight: 600; letter-spacing: -.01em }
table { width: 100%; border-collapse: collapse; font-size: 14px }
th, td { padding: 7px 14px 7px 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); unicode-bidi: isolate }
th:last-child, td:last-child { padding-right: 0 }
thead th { font-size: 13px; font-weight: 400; color: var(--soft); vertical-align: bottom; white-space: nowrap }
tbody th { font-weight: 600; min-width: 9em; max-width: 30em } th.n, td.n { text-align: right; white-space: nowrap } td.none { color: var(--grey) } thead th.n ~ th { white-space: nowrap }
.b { display: inline-block; padding: 0 6px; border: 1px solid currentColor; border-radius: 3px; font-size: 12px; line-height: 18px; font-weight: 600; white-space: nowrap; color: var(--soft); vertical-align: 1px }
.ok { color: var(--green) } .bad { color: var(--red) } .warn { color: var(--amber) } .busy { color: var(--blue) }
ul.health { list-style: none; margin: 12px 0; padding: 0 } ul.health li { padding: 10px 14px; margin: 8px 0; background: var(--fill); border-left: 4px solid var(--red); border-radius: 2px }
ul.health p { margin: 2px 0 0 } summary { cursor: pointer; color: var(--soft); padding: 4px 0; font-size: 14px }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); gap: 26px 44px }
figure { margin: 0 } figcaption { font-weight: 600; font-size: 14px }
.key { font-size: 13px; color: var(--soft); margin: 0 0 8px } .key i { display: inline-block; width: 10px; height: 10px; margin: 0 5px 0 12px; border-radius: 2px } .key i:first-child { margin-left: 0 }
.plot { position: relative; height: 150px; margin: 0 0 0 58px; border-bottom: 1px solid var(--grey) }
.plot svg { position: absolute; inset: 0; width: 100%; height: 100%; overflow: visible }
.plot span { position: absolute; left: 0; right: 0; border-top: 1px solid var(--line) } .plot b { position: absolute; right: 100%; top: -.75em; margin-right: 8px; font-size: 12px; line-height: 1.5em; font-weight: 400; color: var(--soft); white-space: nowrap }
.axis { display: flex; justify-content: space-between; margin: 4px 0 0 58px; font-size: 12px; color: var(--soft) }
.f1 { fill: var(--blue); background: var(--blue) } .f2 { fill: var(--red); background: var(--red) } .f3 { fill: var(--grey); background: var(--grey) } .f4 { fill: var(--pale); background: var(--pale) } .f5 { fill: var(--amber); background: var(--amber) } .f6 { fill: var(--green); background: var(--green) }
.rate { display: inline-block; vertical-align: middle; width: 64px; height: 6px; margin-right: 8px; border-radius: 3px; overflow: hidden }
dl.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 150px), 1fr)); gap: 12px 28px; margin: 22px 0 0 } dl.facts dt { font-size: 13px } dl.facts dd { margin: 0 }
ol.line { list-style: none; margin: 0; padding: 0; border-top: 1px solid var(--line) }
ol.line > li { display: grid; grid-template-columns: minmax(0, 300px) minmax(0, 1fr) 92px; gap: 2px 20px; padding: 9px 0; border-bottom: 1px solid var(--line) }
ol.line strong { font-weight: 600 } ol.line svg { width: 100%; height: 14px; margin-top: 4px; display: block; background: var(--fill); border-radius: 2px } ol.line .t { text-align: right; white-space: nowrap } ol.line .e { grid-column: 2 / -1; font-size: 13px } ol.line rect + rect { stroke: var(--red); stroke-width: 2px; vector-effect: non-scaling-stroke }
ol.line .e p { margin: 2px 0 } footer { margin-top: 56px; padding-bottom: 40px; font-size: 13px }
@media (max-width: 700px) {
	thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%) }
	table, tbody { display: block } tbody { border-top: 1px solid var(--line) }
	tbody tr { display: grid; grid-template-columns: repeat(3, minmax(0, 1fr)); gap: 4px 14px; padding: 12px 0; border-bottom: 1px solid var(--line) }
	tbody th, tbody td { display: block; padding: 0; border: 0; min-width: 0 } tbody th { grid-column: 1 / -1 } tbody th { max-width: none } tbody td.n { text-align: left } tbody td.none { display: none }
	tbody td.n { white-space: normal } tbody td:not(.n):not(.none) { grid-column: span 3 } tbody td:has(> .b) { grid-column: auto !important }
	td::before { content: attr(data-l); display: block; font-size: 12px; color: var(--soft); font-weight: 400 }
	ol.line > li { grid-template-columns: minmax(0, 1fr) auto } ol.line .g { grid-column: 1 / -1; grid-row: 2 } ol.line .e { grid-column: 1 / -1 }
	.figures { grid-template-columns: repeat(3, 1fr) } .figures dd { font-size: 20px }
}
@media print { body { background: none } nav { display: none } h2, tr, figure { break-inside: avoid } }
';
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_style() IS
'The style sheet of the reports.';

CREATE FUNCTION @extschema@.pgqrs_html_document(title text, head text, body text) RETURNS text
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
COMMENT ON FUNCTION @extschema@.pgqrs_html_document(text, text, text) IS
'An HTML document in the encoding of the client. title: not escaped; head, body: HTML.';

CREATE FUNCTION @extschema@.pgqrs_html_page(title text, at timestamptz, body text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT @extschema@.pgqrs_html_document(title, '<style>' || @extschema@.pgqrs_html_style() || '</style>',
		body || @extschema@.pgqrs_html(text '
<footer>Made by pgqrs %s in the database %s at %s. A page does not change: make another one to see changes.</footer>',
			ARRAY[@extschema@.pgqrs_version(), pg_catalog.current_database(), pg_catalog.to_char(at, 'YYYY-MM-DD HH24:MI:SS TZ')]::text[]));
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_page(text, timestamptz, text) IS
'An HTML page in the style of the reports. title: not escaped; body: HTML; at: the time of its creation.';

CREATE FUNCTION @extschema@.pgqrs_html_status(status text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT @extschema@.pgqrs_html(text '<span class="b %s">%s</span>', ARRAY[CASE
			WHEN status IN ('SUCCESS', 'DONE', 'READY', 'on') THEN 'ok'
			WHEN status IN ('ERROR', 'DEAD', 'silent', 'unserved', 'expired') THEN 'bad'
			WHEN status IN ('PAUSED', 'PENDING', 'SUSPENDED', 'paused', 'waiting', 'retry', 'delayed', 'cancel requested') THEN 'warn'
			WHEN status IN ('RUNNING', 'held') THEN 'busy' END, status]::text[])
	WHERE status IS NOT NULL;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_status(text) IS
'A status as a coloured HTML label.';

CREATE FUNCTION @extschema@.pgqrs_html_plot(
	title text, note text, key text, ticks double precision[], names text[],
	bars text, "from" text, "to" text
) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT pg_catalog.format('<figure><figcaption>%s<small>%s</small></figcaption><p class="key">%s</p><div class="plot">%s'
			'<svg role="img" viewBox="0 0 600 100" preserveAspectRatio="none"><title>%1$s, %2$s</title>%5$s</svg></div>'
			'<div class="axis"><span>%6$s</span><span>%7$s</span></div></figure>',
		title, note, key,
		(SELECT pg_catalog.string_agg(pg_catalog.format('<span style="bottom:%s%%"><b>%s</b></span>', pg_catalog.round((100 * LEAST(GREATEST(t.tick, 0), 1))::numeric, 2), t.name), '')
			FROM ROWS FROM (pg_catalog.unnest(ticks), pg_catalog.unnest(names)) AS t (tick, name)),
		bars, "from", "to");
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_plot(text, text, text, double precision[], text[], text, text, text) IS
'An HTML figure around an SVG drawing of 600 by 100, which is stretched: title, note, legend, labelled ticks from 0 to 1 on the vertical axis, the drawing, and the begin and end of the time axis. All texts are HTML.';

CREATE FUNCTION @extschema@.pgqrs_report_hour(at timestamptz) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	WITH ended AS MATERIALIZED (
		SELECT a.outcome, a.archived_at, a.enqueued_at, extract(epoch FROM @extschema@.pgqrs_elapsed(a.enqueued_at, a.archived_at))::float8 AS took
		FROM @extschema@.pgqrs_archive AS a
		ORDER BY a.message_id DESC
		LIMIT 20000
	), span AS (
		SELECT s.span, extract(epoch FROM s.span)::float8 AS seconds, s.cut
		FROM (
			SELECT CASE WHEN e.cut THEN LEAST(GREATEST(@extschema@.pgqrs_elapsed(e.first, at), '1 min'), '1 hour') ELSE '1 hour' END AS span, e.cut
			FROM (SELECT pg_catalog.count(*) = 20000 AS cut, pg_catalog.min(e.enqueued_at) AS first FROM ended AS e) AS e
		) AS s
	), minutes AS (
		SELECT b.n, at - s.span * (60 - b.n) / 60 AS since,
			COALESCE(e.done, 0) AS done, COALESCE(e.dead, 0) AS dead, COALESCE(e.cancelled, 0) AS cancelled,
			COALESCE(e.done + e.dead + e.cancelled, 0) AS total, e.took[1] AS p50, e.took[2] AS p95
		FROM span AS s
			CROSS JOIN pg_catalog.generate_series(0, 59) AS b (n)
			LEFT JOIN (
				SELECT pg_catalog.floor(60 - 60 * extract(epoch FROM @extschema@.pgqrs_elapsed(e.archived_at, at))::float8 / s.seconds)::integer AS n,
					pg_catalog.count(*) FILTER (WHERE e.outcome IN ('DONE', 'DELETED')) AS done,
					pg_catalog.count(*) FILTER (WHERE e.outcome = 'DEAD') AS dead,
					pg_catalog.count(*) FILTER (WHERE e.outcome = 'CANCELLED') AS cancelled,
					pg_catalog.percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY GREATEST(e.took, 0.0001)) AS took
				FROM ended AS e CROSS JOIN span AS s
				WHERE e.archived_at > at - s.span AND e.archived_at < at
				GROUP BY 1
			) AS e ON e.n = b.n
	), scale AS (
		SELECT t.total, t.dead, t.low, GREATEST(t.high, t.low + 1) AS high, f.unit, f.factor,
			(SELECT pg_catalog.min(n.n * f.power) FROM pg_catalog.unnest('{1,2,4,6,8,10}'::integer[]) AS n (n) WHERE n.n * f.power >= t.most * f.factor) AS top
		FROM (
			SELECT pg_catalog.sum(m.total) AS total, pg_catalog.sum(m.dead) AS dead, GREATEST(pg_catalog.max(m.total), 2)::float8 AS most,
				pg_catalog.floor(pg_catalog.log(pg_catalog.min(m.p50)))::integer AS low, pg_catalog.ceil(pg_catalog.log(pg_catalog.max(m.p95)))::integer AS high
			FROM minutes AS m
		) AS t
			CROSS JOIN span AS s
			CROSS JOIN LATERAL (
				SELECT u.unit, u.factor, 10 ^ pg_catalog.floor(pg_catalog.log(t.most * u.factor)) AS power
				FROM (VALUES ('minute', 3600 / s.seconds), ('second', 60 / s.seconds)) AS u (unit, factor)
				WHERE (u.unit = 'second') = (t.most * 3600 / s.seconds > 3000)
			) AS f
	)
	SELECT pg_catalog.format('<h2 id="hour">%s<small>%s</small></h2>', CASE WHEN p.cut AND p.span < '1 hour'
				THEN 'The last ' || @extschema@.pgqrs_html_duration(p.span) ELSE 'The last hour' END,
			CASE WHEN p.cut THEN 'the 20000 messages and runs sent last, of those that have ended' ELSE 'messages and runs that ended' END)
		|| CASE WHEN c.total = 0 THEN '<p class="empty">Nothing ended.</p>'
			ELSE '<div class="plots">'
				|| @extschema@.pgqrs_html_plot(text 'Throughput', pg_catalog.format('ended per %s; %s in all, %s dead', c.unit, c.total, c.dead),
					text '<i class="f1"></i>done<i class="f2"></i>dead<i class="f3"></i>cancelled',
					ARRAY[0.5, 1]::double precision[], ARRAY[(c.top / 2)::text, c.top::text],
					(SELECT pg_catalog.string_agg(pg_catalog.format('<g><title>%s: %s done, %s dead, %s cancelled</title>', pg_catalog.to_char(m.since, 'HH24:MI:SS'), m.done, m.dead, m.cancelled)
							|| (SELECT pg_catalog.string_agg(pg_catalog.format('<rect class="%s" x="%s" width="8.6" y="%s" height="%s"/>', r.class, 10 * m.n,
									pg_catalog.round((100 - 100 * (r.below + r.count) * c.factor / c.top)::numeric, 2), pg_catalog.round((100 * r.count * c.factor / c.top)::numeric, 2)), '')
								FROM (VALUES ('f1', m.done, 0), ('f2', m.dead, m.done), ('f3', m.cancelled, m.done + m.dead)) AS r (class, count, below)
								WHERE r.count > 0)
							|| '</g>', '' ORDER BY m.n)
						FROM minutes AS m WHERE m.total > 0),
					CASE WHEN p.span = '1 hour' THEN '60 min' ELSE @extschema@.pgqrs_html_duration(p.span) END || ' ago', text 'now')
				|| @extschema@.pgqrs_html_plot(text 'Latency', text 'from sending to the end; a logarithmic scale',
					text '<i class="f1"></i>half took less<i class="f4"></i>95 of 100 took less',
					(SELECT pg_catalog.array_agg((d.d - c.low)::float8 / (c.high - c.low) ORDER BY d.d) FROM pg_catalog.generate_series(c.low, c.high) AS d (d)),
					(SELECT pg_catalog.array_agg(CASE WHEN d.d < 0 THEN 10 ^ (d.d + 3) || ' ms' ELSE 10 ^ d.d || ' s' END ORDER BY d.d) FROM pg_catalog.generate_series(c.low, c.high) AS d (d)),
					(SELECT pg_catalog.string_agg(pg_catalog.format('<g><title>%s: half took less than %s, 95 of 100 less than %s</title>'
								'<rect class="f4" x="%s" width="8.6" y="%s" height="%s"/><rect class="f1" x="%4$s" width="8.6" y="%7$s" height="2.2"/></g>',
							pg_catalog.to_char(m.since, 'HH24:MI:SS'), @extschema@.pgqrs_html_duration(pg_catalog.make_interval(secs => m.p50)), @extschema@.pgqrs_html_duration(pg_catalog.make_interval(secs => m.p95)),
							10 * m.n, pg_catalog.round((100 - y.p95)::numeric, 2), pg_catalog.round((y.p95 - y.p50)::numeric, 2), pg_catalog.round((98.9 - y.p50)::numeric, 2)), '' ORDER BY m.n)
						FROM minutes AS m
							CROSS JOIN LATERAL (
								SELECT 100 * (pg_catalog.log(m.p50) - c.low) / (c.high - c.low) AS p50, 100 * (pg_catalog.log(m.p95) - c.low) / (c.high - c.low) AS p95
							) AS y
						WHERE m.total > 0),
					CASE WHEN p.span = '1 hour' THEN '60 min' ELSE @extschema@.pgqrs_html_duration(p.span) END || ' ago', text 'now')
				|| '</div>' END
	FROM scale AS c CROSS JOIN span AS p
	WHERE pg_catalog.isfinite(at);
END;
COMMENT ON FUNCTION @extschema@.pgqrs_report_hour(timestamptz) IS
'Plots of throughput and latency for pgqrs_report(), of the hour before an instant; from the 20000 ended messages with the highest ids; NULL for infinity.';

CREATE FUNCTION @extschema@.pgqrs_html_url(page text, parameters jsonb) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT page || COALESCE((
		SELECT '?' || pg_catalog.string_agg(p.key || '=' || (
				SELECT pg_catalog.string_agg(CASE WHEN c.c ~ '^[A-Za-z0-9_.~-]$' THEN c.c
						ELSE pg_catalog.regexp_replace(pg_catalog.upper(pg_catalog.encode(pg_catalog.convert_to(c.c, 'UTF8'), 'hex')), '(..)', '%\1', 'g') END, '' ORDER BY c.n)
				FROM pg_catalog.regexp_split_to_table(p.value, '') WITH ORDINALITY AS c (c, n)), '&amp;' ORDER BY p.key COLLATE "C")
		FROM pg_catalog.jsonb_each_text(parameters) AS p
		WHERE p.value <> ''), '');
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_url(text, jsonb) IS
'An address within the pages, as HTML: that of a page with those parameters that are not empty.';

CREATE FUNCTION @extschema@.pgqrs_html_link(page text, parameters jsonb, label text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT pg_catalog.format('<a href="%s">%s</a>', @extschema@.pgqrs_html_url(page, parameters), @extschema@.pgqrs_html(text '%s', ARRAY[label]::text[]))
	WHERE label IS NOT NULL;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_link(text, jsonb, text) IS
'A link to a page with parameters; NULL without a label.';

CREATE FUNCTION @extschema@.pgqrs_html_health() RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT CASE WHEN pg_catalog.bool_and(h.ok IS DISTINCT FROM false) THEN '<p class="ok">Nothing needs attention.</p>'
			ELSE '<ul class="health">' || pg_catalog.string_agg(@extschema@.pgqrs_html(text '<li><strong>%s: %s</strong><p>%s</p></li>', ARRAY[h.item, h.value, h.hint]::text[]), '') FILTER (WHERE NOT h.ok) || '</ul>' END
		|| '<details><summary>All checks</summary>'
		|| @extschema@.pgqrs_html_table('{item,is,value}'::text[], pg_catalog.array_agg(ARRAY[@extschema@.pgqrs_html(text '%s', ARRAY[h.item]::text[]),
				CASE h.ok WHEN true THEN '<span class="b ok">ok</span>' WHEN false THEN '<span class="b bad">not ok</span>' ELSE '<span class="b">not known</span>' END,
				@extschema@.pgqrs_html(text '%s', ARRAY[h.value]::text[])]), text '') || '</details>'
	FROM @extschema@.pgqrs_health AS h;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_health() IS
'The items of pgqrs_health that need attention as a list, and all items as a table.';

CREATE FUNCTION @extschema@.pgqrs_html_figures(ready numeric, oldest_ready interval, in_flight numeric, delayed numeric, dead numeric, live_workers bigint) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT pg_catalog.format('<dl class="figures">%s</dl>', pg_catalog.string_agg(pg_catalog.format('<div><dt>%s</dt><dd%s>%s</dd></div>', f.name, f.class, f.value), ''))
	FROM (
		VALUES ('ready', '', COALESCE(ready, 0)::text), ('oldest ready', '', COALESCE(@extschema@.pgqrs_html_duration(oldest_ready), '&#8211;')),
			('in flight', '', COALESCE(in_flight, 0)::text), ('delayed or waiting', '', COALESCE(delayed, 0)::text),
			('dead', CASE WHEN dead > 0 THEN ' class="bad"' END, COALESCE(dead, 0)::text),
			('live workers', '', live_workers::text)
	) AS f (name, class, value)
	WHERE f.value IS NOT NULL;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_figures(numeric, interval, numeric, numeric, numeric, bigint) IS
'Sums over queues as a row of figures; NULL is 0 for messages, and leaves out the live workers.';

CREATE FUNCTION @extschema@.pgqrs_html_workflows(is_linked boolean) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT @extschema@.pgqrs_html_table('{workflow,success,#median,#95 %,#queued,#running,#paused,#failed,#retries}'::text[], pg_catalog.array_agg(ARRAY[
			CASE WHEN is_linked THEN @extschema@.pgqrs_html_link(text 'runs', pg_catalog.jsonb_build_object('workflow', w.workflow), w.workflow) ELSE @extschema@.pgqrs_html(text '%s', ARRAY[w.workflow]::text[]) END
				|| CASE WHEN w.live_workers = 0 AND w.queued + w.running + w.paused > 0 THEN ' ' || @extschema@.pgqrs_html_status(text 'unserved') ELSE '' END,
			CASE WHEN w.success + w.error > 0 THEN pg_catalog.format('<svg class="rate" role="img" viewBox="0 0 100 10" preserveAspectRatio="none"><title>%s %% succeeded</title><rect class="f2" width="100" height="10"/><rect class="f6" width="%1$s" height="10"/></svg>%1$s %%',
				pg_catalog.floor(100.0 * w.success / (w.success + w.error))) END,
			@extschema@.pgqrs_html_duration(w.p50_duration), @extschema@.pgqrs_html_duration(w.p95_duration),
			w.queued::text, w.running::text, w.paused::text,
			CASE WHEN w.error > 0 THEN pg_catalog.format('<span class="bad">%s</span>', w.error) ELSE '0' END, w.retries::text]
				ORDER BY w.workflow), text 'There is no workflow.')
	FROM (
		SELECT w.workflow, s.*
		FROM @extschema@.pgqrs_workflows_list AS w
			CROSS JOIN LATERAL @extschema@.pgqrs_count_runs(w.workflow_id) AS s
		ORDER BY s.queued + s.running + s.paused DESC, s.error DESC, w.workflow
		LIMIT 50
	) AS w;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_workflows(boolean) IS
'A table of 50 workflows, those with most live runs first. unserved: it has live runs and no live worker may claim them. is_linked: they are links.';

CREATE FUNCTION @extschema@.pgqrs_html_live_runs(is_linked boolean) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT @extschema@.pgqrs_html_table('{run,workflow,state,step,#for,continues}'::text[], pg_catalog.array_agg(ARRAY[
			CASE WHEN is_linked THEN @extschema@.pgqrs_html_link(text 'run', pg_catalog.jsonb_build_object('run', r.run_id), r.run_id::text) ELSE r.run_id::text END,
			@extschema@.pgqrs_html(text '%s', ARRAY[r.workflow]::text[]),
			pg_catalog.concat(@extschema@.pgqrs_html_status(CASE r.state WHEN 'parked' THEN 'waiting' ELSE r.state END),
				@extschema@.pgqrs_html(text '<span class="sub">%s</span>', ARRAY[COALESCE('for ' || r.waiting_for, 'by ' || r.worker)]::text[])),
			@extschema@.pgqrs_html(text '%s', ARRAY[r.step_id]::text[]),
			@extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(r.since, c.now)),
			CASE WHEN r.visible_after > c.now THEN 'in ' || @extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(c.now, r.visible_after)) END]
				ORDER BY r.run_id), text 'No run is live.')
	FROM (SELECT @extschema@.pgqrs_now() AS now OFFSET 0) AS c
		CROSS JOIN (SELECT r.* FROM @extschema@.pgqrs_live_runs AS r ORDER BY r.run_id LIMIT 20) AS r;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_live_runs(boolean) IS
'A table of the oldest 20 live runs, those that wait included. is_linked: they are links.';

-- In each queue the view has the latest first, and the lateral subquery ends there.
-- Errors are read after that, as many as pgqrs_html_unread() lets pass.
CREATE FUNCTION @extschema@.pgqrs_html_letters(
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

CREATE FUNCTION @extschema@.pgqrs_report() RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	WITH clock AS MATERIALIZED (
		SELECT @extschema@.pgqrs_now() AS now
	), queues AS MATERIALIZED (
		SELECT s.* FROM @extschema@.pgqrs_queue_stats AS s
	), workers AS MATERIALIZED (
		SELECT w.worker AS name, w.owner, w.hostname, w.version, w.queues, w.max_concurrent, w.stopped_at, w.status, w.in_flight + w.expired AS holds,
			w.stopped_at IS NULL AND @extschema@.pgqrs_elapsed(w.heartbeat_at, c.now) > pg_catalog.current_setting('pgqrs.worker_timeout')::interval AS silent,
			@extschema@.pgqrs_elapsed(w.heartbeat_at, c.now) AS heard
		FROM clock AS c CROSS JOIN @extschema@.pgqrs_worker_stats AS w
		WHERE w.stopped_at IS NULL OR w.stopped_at > c.now - interval '1 hour'
		ORDER BY w.stopped_at DESC NULLS FIRST, w.worker
		LIMIT 50
	), letters AS MATERIALIZED (
		SELECT l.* FROM @extschema@.pgqrs_html_letters(NULL::text, 100) AS l ORDER BY l.archived_at DESC LIMIT 1000
	), newest AS (
		-- a window of ids bounds the search of a role that may read few of the runs
		SELECT r.run_id, r.workflow, r.status, r.waiting_for, r.attempt, r.started_at, r.completed_at
		FROM @extschema@.pgqrs_list_runs(NULL::text, NULL::text, NULL::jsonb, NULL::bigint, 1) AS l
			CROSS JOIN LATERAL (
				SELECT r.run_id, r.workflow, r.status, r.waiting_for, r.attempt, r.started_at, r.completed_at
				FROM @extschema@.pgqrs_runs AS r
				WHERE r.run_id > l.run_id - 50000 AND r.deleted_at IS NULL
				ORDER BY r.run_id DESC
				LIMIT 5000
			) AS r
	)
	SELECT @extschema@.pgqrs_html_page('pgqrs: ' || pg_catalog.current_database(), c.now,
		@extschema@.pgqrs_html(text '<header><h1>%s</h1><p class="soft">Queues and workflows at %s</p>'
			'<nav aria-label="Sections"><a href="#health">Health</a><a href="#hour">Last hour</a><a href="#queues">Queues</a><a href="#workflows">Workflows</a>'
			'<a href="#live">Live runs</a><a href="#slow">Slowest runs</a><a href="#failing">Failures</a><a href="#letters">Dead letters</a><a href="#workers">Workers</a><a href="#schedules">Schedules</a></nav></header><main>', ARRAY[
			pg_catalog.current_database(), pg_catalog.to_char(c.now, 'YYYY-MM-DD HH24:MI:SS TZ')]::text[])

		|| '<h2 id="health">Health</h2>' || @extschema@.pgqrs_html_health()
		|| (SELECT @extschema@.pgqrs_html_figures(pg_catalog.sum(q.ready), pg_catalog.max(q.oldest_ready_age), pg_catalog.sum(q.in_flight), pg_catalog.sum(q.delayed), pg_catalog.sum(q.dead),
				(SELECT pg_catalog.count(*) FROM workers AS w WHERE w.stopped_at IS NULL AND NOT w.silent))
			FROM queues AS q)

		|| CASE WHEN pg_catalog.has_table_privilege('@extschema@.pgqrs_archive'::pg_catalog.regclass, 'SELECT') THEN @extschema@.pgqrs_report_hour(c.now) ELSE '' END

		|| '<h2 id="queues">Queues<small>those with most to do first, 100 at most</small></h2>'
		|| (SELECT @extschema@.pgqrs_html_table('{queue,#ready,#oldest ready,#in flight,#delayed,#dead}'::text[], pg_catalog.array_agg(ARRAY[
					@extschema@.pgqrs_html(text '%s ', ARRAY[q.queue]::text[]) || CASE WHEN q.paused THEN @extschema@.pgqrs_html_status(text 'paused') ELSE '' END
						|| CASE WHEN q.is_workflow THEN '<span class="sub">workflow</span>' ELSE '' END,
					q.ready::text, @extschema@.pgqrs_html_duration(q.oldest_ready_age), q.in_flight::text, q.delayed::text,
					CASE WHEN q.dead > 0 THEN pg_catalog.format('<span class="bad">%s</span>', q.dead) ELSE '0' END]), text 'There is no queue.')
			FROM (SELECT * FROM queues AS q ORDER BY q.ready + q.in_flight + q.dead DESC, q.queue LIMIT 100) AS q)

		|| '<h2 id="workflows">Workflows<small>by their 100 newest runs each that ended, 50 at most</small></h2>'
		|| @extschema@.pgqrs_html_workflows(false)

		|| '<h2 id="live">Live runs<small>the oldest 20</small></h2>'
		|| @extschema@.pgqrs_html_live_runs(false)

		|| '<h2 id="slow">Slowest runs<small>of the 5000 newest, from their first claim on</small></h2>'
		|| (SELECT @extschema@.pgqrs_html_table('{run,workflow,status,#time,#claims,started}'::text[], pg_catalog.array_agg(ARRAY[
					r.run_id::text, @extschema@.pgqrs_html(text '%s', ARRAY[r.workflow]::text[]), pg_catalog.concat(@extschema@.pgqrs_html_status(r.status), @extschema@.pgqrs_html(text '<span class="sub">%s</span>', ARRAY[r.waiting_for]::text[])),
					@extschema@.pgqrs_html_duration(r.took), r.attempt::text, pg_catalog.to_char(r.started_at, 'MM-DD HH24:MI:SS')] ORDER BY r.took DESC), text 'No run has started.')
			FROM (
				SELECT r.run_id, r.workflow, r.status, r.waiting_for, r.attempt, r.started_at, @extschema@.pgqrs_elapsed(r.started_at, COALESCE(r.completed_at, c.now)) AS took
				FROM newest AS r
				WHERE r.started_at IS NOT NULL
				ORDER BY took DESC
				LIMIT 10
			) AS r)

		|| '<h2 id="failing">Failures<small>by cause, of the newest 100 dead letters of each queue, 1000 in all</small></h2>'
		|| (SELECT @extschema@.pgqrs_html_table('{cause,queue,#dead,#newest,latest error}'::text[], pg_catalog.array_agg(ARRAY[
					@extschema@.pgqrs_html(text '%s', ARRAY[COALESCE(pg_catalog.left(l.cause, 100), 'unknown')]::text[]), @extschema@.pgqrs_html(text '%s', ARRAY[l.queue]::text[]), l.count::text, @extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(l.newest, c.now)) || ' ago',
					@extschema@.pgqrs_html(text '%s', ARRAY[l.error]::text[])] ORDER BY l.count DESC, l.newest DESC), text 'Nothing failed for good.')
			FROM (
				SELECT l.queue_name AS queue, l.cause, pg_catalog.count(*) AS count, pg_catalog.max(l.archived_at) AS newest, (pg_catalog.array_agg(l.error ORDER BY l.archived_at DESC))[1] AS error
				FROM letters AS l
				GROUP BY l.queue_name, l.cause
				ORDER BY pg_catalog.count(*) DESC, pg_catalog.max(l.archived_at) DESC
				LIMIT 15
			) AS l)

		|| '<h2 id="letters">Dead letters<small>the newest 15; pgqrs_replay_message() gives one another chance</small></h2>'
		|| (SELECT @extschema@.pgqrs_html_table('{message,queue,#died,#claims,error}'::text[], pg_catalog.array_agg(ARRAY[
					CASE WHEN l.run_id IS NULL THEN '' ELSE 'run ' END || l.message_id,
					@extschema@.pgqrs_html(text '%s', ARRAY[l.queue]::text[]), @extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(l.archived_at, c.now)) || ' ago', l.attempt::text,
					@extschema@.pgqrs_html(text '%s', ARRAY[l.error]::text[])] ORDER BY l.archived_at DESC), text 'There are no dead letters.')
			FROM (SELECT l.*, l.queue_name AS queue FROM letters AS l ORDER BY l.archived_at DESC LIMIT 15) AS l)

		|| '<h2 id="workers">Workers<small>live, or stopped within the hour; 50 at most</small></h2>'
		|| (SELECT @extschema@.pgqrs_html_table('{worker,status,#holds,#heard of,version,queues}'::text[], pg_catalog.array_agg(ARRAY[
					@extschema@.pgqrs_html(text '%s<span class="sub">%s</span>', ARRAY[w.name, pg_catalog.concat_ws(' on ', w.owner, w.hostname)]::text[]),
					@extschema@.pgqrs_html_status(CASE WHEN w.silent THEN 'silent' ELSE w.status END),
					pg_catalog.concat_ws(' of ', w.holds, w.max_concurrent), @extschema@.pgqrs_html_duration(w.heard) || ' ago', @extschema@.pgqrs_html(text '%s', ARRAY[w.version]::text[]),
					@extschema@.pgqrs_html(text '%s', ARRAY[pg_catalog.array_to_string(w.queues[1:20], ', ')]::text[])] ORDER BY w.stopped_at DESC NULLS FIRST, w.name), text 'There is no worker.')
			FROM workers AS w)

		|| '<h2 id="schedules">Schedules<small>the next first, 50 at most</small></h2>'
		|| (SELECT @extschema@.pgqrs_html_table('{schedule,workflow,when,last run,next}'::text[], pg_catalog.array_agg(ARRAY[
					@extschema@.pgqrs_html(text '%s ', ARRAY[s.name]::text[]) || CASE WHEN s.enabled THEN '' ELSE @extschema@.pgqrs_html_status(text 'paused') END, @extschema@.pgqrs_html(text '%s', ARRAY[s.workflow]::text[]),
					@extschema@.pgqrs_html(text '<code>%s</code> <span class="sub">%s</span>', ARRAY[s.cron, s.timezone]::text[]),
					pg_catalog.concat(s.last_run_id || ' ', @extschema@.pgqrs_html_status(s.last_status), @extschema@.pgqrs_html(text '<span class="sub">%s ago</span>', ARRAY[@extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(s.last_fired_at, c.now))]::text[])),
					@extschema@.pgqrs_html(text 'in %s<span class="sub">%s</span>', ARRAY[@extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(c.now, s.next_fire_at)), pg_catalog.to_char(s.next_fire_at, 'MM-DD HH24:MI')]::text[])]
						ORDER BY s.next_fire_at, s.name), text 'There is no schedule.')
			FROM (SELECT * FROM @extschema@.pgqrs_schedule_list AS s ORDER BY s.next_fire_at, s.name LIMIT 50) AS s)
		|| '</main>')
	FROM clock AS c;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_report() IS
'The state of the queues and workflows of this database as one self-contained HTML page: psql -XAtqc ''SELECT pgqrs_report()'' > report.html. Shows what the current role may read; the plots of the last hour only to the extension''s owner and superusers. Needs read, trigger, work or admin on any name.';

-- Additional parents are found by their own index; LIMIT keeps the views out of joins.
-- Children are counted only where some are left out.
CREATE FUNCTION @extschema@.pgqrs_html_family(run_id bigint, is_linked boolean, from_child bigint) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	WITH RECURSIVE tree (run_id, parent_step_id, depth, path) AS (
		SELECT r.run_id, NULL::text, 0, ARRAY[r.run_id] FROM @extschema@.pgqrs_get_run(run_id) AS r
		UNION ALL
		SELECT p.run_id, p.parent_step_id, t.depth + 1, t.path || p.run_id
		FROM tree AS t
			CROSS JOIN LATERAL (
				SELECT p.run_id, p.parent_step_id FROM @extschema@.pgqrs_run_parents AS p
				WHERE p.parent_run_id = t.run_id AND p.run_id >= CASE t.depth WHEN 0 THEN COALESCE(from_child, 0) ELSE 0 END
				ORDER BY p.run_id LIMIT 50
			) AS p
		WHERE t.depth < 5 AND NOT p.run_id = ANY (t.path)
	), shown AS MATERIALIZED (
		SELECT t.* FROM tree AS t LIMIT 201
	), rows (depth, path, cells) AS (
		SELECT t.depth, t.path, ARRAY[
			CASE WHEN is_linked THEN @extschema@.pgqrs_html_link(text 'run', pg_catalog.jsonb_build_object('run', k.run_id), k.run_id::text) ELSE k.run_id::text END,
			@extschema@.pgqrs_html(text '%s', ARRAY[k.workflow]::text[]), pg_catalog.concat(@extschema@.pgqrs_html_status(k.status), @extschema@.pgqrs_html(text '<span class="sub">%s</span>', ARRAY['for ' || k.waiting_for]::text[])),
			@extschema@.pgqrs_html(text '%s', ARRAY[t.parent_step_id]::text[]),
			@extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(k.created_at, COALESCE(k.completed_at, @extschema@.pgqrs_now())))]
		FROM shown AS t
			CROSS JOIN LATERAL (
				SELECT k.run_id, k.workflow, k.status, k.waiting_for, k.created_at, k.completed_at FROM @extschema@.pgqrs_runs AS k WHERE k.run_id = t.run_id LIMIT 1
			) AS k
		WHERE t.depth > 0
		UNION ALL
		SELECT t.depth + 1, t.path || 9223372036854775807, ARRAY[(
			SELECT CASE WHEN is_linked THEN @extschema@.pgqrs_html_link(text 'run', pg_catalog.jsonb_build_object('run', t.run_id, 'child', l.first), l.label) ELSE l.label END
			FROM (SELECT l.first, pg_catalog.format('%s more', CASE WHEN l.n < l.most THEN l.n::text ELSE 'over ' || (l.most - 1) END) AS label) AS l), NULL, NULL, NULL, NULL]
		FROM (
			SELECT t.*, (SELECT pg_catalog.count(*) FROM shown AS s WHERE s.depth = t.depth + 1 AND s.path[t.depth + 1] = t.run_id AND s.path[:t.depth + 1] = t.path) AS children,
				(SELECT pg_catalog.max(s.run_id) FROM shown AS s WHERE s.depth = t.depth + 1 AND s.path[:t.depth + 1] = t.path) AS last_child,
				(SELECT pg_catalog.count(*) FROM shown) > 200 AS is_full
			FROM shown AS t
		) AS t
			CROSS JOIN LATERAL (
				SELECT pg_catalog.count(*) AS n, pg_catalog.min(p.run_id) AS first, m.most
				FROM (SELECT CASE t.depth WHEN 0 THEN 10001 ELSE 51 END AS most) AS m
					LEFT JOIN LATERAL (
						SELECT p.run_id FROM @extschema@.pgqrs_run_parents AS p WHERE p.parent_run_id = t.run_id AND p.run_id > COALESCE(t.last_child, 0) AND NOT p.run_id = ANY (t.path)
						ORDER BY p.run_id LIMIT m.most
					) AS p ON true
				WHERE p.run_id IS NOT NULL
				GROUP BY m.most
			) AS l
		WHERE t.children = 50 OR t.depth = 5 OR t.is_full
	)
	SELECT COALESCE((SELECT '<h2>Children<small>to the fifth generation, 50 of each run, 200 in all</small></h2>'
			|| CASE WHEN from_child > 0 AND is_linked THEN @extschema@.pgqrs_html(text '<p class="pages"><a href="run?run=%s">First children</a></p>', ARRAY[run_id::text]::text[]) ELSE '' END
			|| @extschema@.pgqrs_html_table('{run,workflow,status,step,#time}'::text[],
				pg_catalog.array_agg(ARRAY[pg_catalog.format('<span class="d%s">%s</span>', r.depth, r.cells[1])] || r.cells[2:] ORDER BY r.path), text '')
		FROM rows AS r
		HAVING pg_catalog.count(*) > 0), '');
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_family(bigint, boolean, bigint) IS
'The children of a run and theirs, as a table that shows the tree and how many are left out; empty without children. is_linked: they are links; from_child: without the children that have a lesser id. Errors: PQ003 no such run.';

CREATE FUNCTION @extschema@.pgqrs_html_run(run_id bigint, is_linked boolean, from_child bigint) RETURNS text
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
COMMENT ON FUNCTION @extschema@.pgqrs_html_run(bigint, boolean, bigint) IS
'The sections of the page of a run. is_linked: other runs are links; from_child: as of pgqrs_html_family(). Errors: PQ003 no such run.';

CREATE FUNCTION @extschema@.pgqrs_report_run(run_id bigint) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT @extschema@.pgqrs_html_page(pg_catalog.format('Run %s of %s', r.run_id, r.workflow), @extschema@.pgqrs_now(),
		@extschema@.pgqrs_html(text '<header><h1>Run %s </h1><p class="soft">%s ', ARRAY[r.run_id::text, r.workflow]::text[]) || @extschema@.pgqrs_html_status(r.status)
			|| '</p></header><main>' || @extschema@.pgqrs_html_run(r.run_id, false, NULL::bigint) || '</main>')
	FROM @extschema@.pgqrs_get_run(run_id) AS r;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_report_run(bigint) IS
'One run as an HTML page: its steps, attempts, waits and errors on a time line, undo, signals, children, reruns, and its events while pgqrs.audit was on: psql -XAtqc ''SELECT pgqrs_report_run(1)'' > run.html. Needs read, trigger, work or admin on its workflow. Errors: 22004, PQ003.';
