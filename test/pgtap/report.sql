-- The reports: pages that are well-formed, show what is there and nothing else,
-- escape what the database holds (F42), and ask nothing of the network.
-- F-numbers: docs/design/known-failures.md.
BEGIN;
SELECT no_plan();

--
-- What pages are made of
--

SELECT is(pgqrs_html('<b>%s</b>%s', ARRAY['<a href="x">&''', U&'\+01F600']),
	'<b>&lt;a href=&quot;x&quot;&gt;&amp;&#39;</b>' || U&'\+01F600', 'pgqrs_html() escapes its values');
SELECT is(pgqrs_html('%s|%s', ARRAY[NULL, '%s %1$s']), '|%s %1$s',
	'pgqrs_html() shows NULL as nothing and does not take a value as a template');
SELECT is(pgqrs_html('<b>%s</b>', ARRAY[NULL]), NULL, 'pgqrs_html() returns NULL if every value is NULL');
SELECT is(pgqrs_html('%s %s|%s %s', '{{a,b},{NULL,<}}'), 'a b| &lt;', 'pgqrs_html() takes an array of arrays');
SELECT is(pgqrs_html('<b>%s</b>', '{{NULL},{NULL}}'), NULL,
	'pgqrs_html() returns NULL if every value of an array of arrays is NULL');
SELECT is(pgqrs_html(t, v), NULL, 'pgqrs_html() returns NULL without values: ' || COALESCE(v::text, 'NULL'))
	FROM (VALUES ('<b/>', '{}'::text[]), ('<b/>', NULL), (NULL, '{a}')) AS v (t, v);
SELECT is(pgqrs_html('%s', ARRAY[E'a\tb\nc\x01\x1b\x7f']), E'a\tb\nc???',
	'pgqrs_html() shows control characters as question marks');
SELECT is(length(pgqrs_html('%s', ARRAY[repeat('&', 5000)])), 3999 * 5 + 3,
	'pgqrs_html() cuts long values before it escapes them');
SELECT is(pgqrs_html_duration(d), e, 'pgqrs_html_duration() writes the duration with two digits or units: '
	|| d::text)
	FROM (VALUES ('0 s'::interval, '0 ms'), ('-1 h', '0 ms'), ('40 us', '0 ms'), ('60 us', '0.1 ms'),
		('9.94 ms', '9.9 ms'), ('9.96 ms', '10 ms'),
		('999.4 ms', '999 ms'), ('999.6 ms', '1.0 s'), ('9.94 s', '9.9 s'), ('9.96 s', '10 s'), ('59.4 s', '59 s'),
			('1 min', '1 min'), ('61 s', '1 min 1 s'),
		('59 min 59 s', '59 min 59 s'), ('1 h', '1 h'), ('25 h', '1 d 1 h'), ('400 d', '400 d')) AS v (d, e);
SELECT is(pgqrs_html_duration('59.6 s'), '1 min', 'pgqrs_html_duration() rounds up to a minute');
SELECT is(pgqrs_html_duration('59 min 59.7 s'), '1 h', 'pgqrs_html_duration() rounds up to an hour');
SELECT is(pgqrs_html_duration(NULL), NULL, 'pgqrs_html_duration() of NULL is NULL');
-- PostgreSQL 15 and 16 have no infinite intervals.
SELECT is(pgqrs_html_duration(v.d::interval), v.e, 'pgqrs_html_duration() writes an interval without end: ' || v.d)
	FROM (VALUES ('infinity', 'forever', 170000), ('-infinity', '0 ms', 170000), ('3000000 d', '3000000 d', 0))
		AS v (d, e, since)
	WHERE current_setting('server_version_num')::integer >= v.since;
SELECT is(pgqrs_html_error(j), e, 'pgqrs_html_error() shows type and message of an error: ' || j::text)
	FROM (VALUES ('{"type": "a", "message": "b", "x": 1}'::jsonb, 'a: b'), ('{"type": "a"}', 'a'),
		('{"x": 1}', '{"x": 1}'), ('"text"', 'text'), ('[1]', '[1]'),
		('{"type": null, "message": ["<"]}', '["<"]'), ('null', NULL)) AS v (j, e);
SELECT is(length(pgqrs_html_error(to_jsonb(repeat('x', 1000)))), 300, 'pgqrs_html_error() cuts a long error');

SELECT is(pgqrs_html_json(j), jsonb_pretty(j), concat('pgqrs_html_json() writes as jsonb_pretty() does: ', j))
	FROM (VALUES ('{"a": 1, "b": [true, null, {"c": "d\n", "e": {}}, []], "f": "\u00e9\""}'::jsonb),
		('[1.50, -2e40]'), ('"x"'), ('17'), ('null'), ('[]'), ('{}'), ('[[[]], {"a": [1]}]')) AS v (j);
SELECT is(pgqrs_html_json(NULL), NULL, 'pgqrs_html_json() of NULL is NULL');
-- 900 levels around 300,000 elements: jsonb_pretty() takes 1 GB for that.
SELECT (repeat('[', 900) || (SELECT string_agg('true', ',') FROM generate_series(1, 300000)) || repeat(']',
	900))::jsonb AS deep \gset
SELECT ok(length(pgqrs_html_json(:'deep')) BETWEEN 4001 AND 20000,
	'pgqrs_html_json() shows a part of a value that is deep and wide');
SELECT matches(pgqrs_html_error(:'deep'), '^\[{30,250}$',
	'pgqrs_html_error() shows the beginning of a value that is deep and wide');
-- By the processor's time, which what else runs on the machine does not change.
CREATE FUNCTION pg_temp.cost(expression text, value jsonb) RETURNS numeric LANGUAGE plpgsql AS
$$
DECLARE
	read text = 'SELECT coalesce(split_part(pg_read_file(''/proc/self/schedstat'', 0, 1000, true), '' '', 1)::numeric, '
		'1e9 * extract(epoch FROM clock_timestamp()))';
	began numeric;
	ended numeric;
BEGIN
	EXECUTE read INTO began;
	EXECUTE format('SELECT count(%s) FROM generate_series(1, 20) AS i, (VALUES ($1, 0)) AS v (value, n)', expression)
		USING value;
	EXECUTE read INTO ended;
	RETURN ended - began;
END
$$;
SELECT cmp_ok(pg_temp.cost('pgqrs_html_error(CASE WHEN i > 0 THEN value END)', :'deep') * 4, '<',
	pg_temp.cost('left(CASE WHEN i > 0 THEN value END::text, 300)', :'deep'),
	'an error that is deep and wide is never made text as a whole');
SELECT ok(length(pgqrs_html_json(to_jsonb(repeat(U&'\00e9', 1000000)))) BETWEEN 4001 AND 20000,
	'pgqrs_html_json() shows a part of a long text');
SELECT ok(length(pgqrs_html_json(jsonb_build_object(repeat(U&'\+01F600', 100000), 1))) BETWEEN 4001 AND 20000,
	'pgqrs_html_json() shows a part of a long key');

-- The names are labels of the Encoding Standard, which browsers follow.
CREATE FUNCTION pg_temp.charset(encoding text) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	own text = current_setting('client_encoding');
	label text;
BEGIN
	PERFORM set_config('client_encoding', encoding, true);
	label := substring(pgqrs_html_document('', '', '') FROM 'charset="(.*?)"');
	PERFORM set_config('client_encoding', own, true);
	RETURN label;
END
$$;
SELECT is(pg_temp.charset(v.encoding), v.label, 'browsers know the encoding that a page names: ' || v.encoding)
	FROM (VALUES ('UTF8', 'utf8'), ('LATIN1', 'latin1'), ('LATIN2', 'latin2'), ('LATIN6', 'latin6'),
		('LATIN7', 'iso-8859-13'), ('LATIN8', 'iso-8859-14'), ('LATIN9', 'iso-8859-15'), ('LATIN10', 'iso-8859-16'),
		('ISO_8859_5', 'iso-8859-5'), ('WIN1252', 'windows-1252'), ('WIN866', 'ibm866'), ('KOI8R', 'koi8-r'),
		('KOI8U', 'koi8-u'), ('SJIS', 'sjis'), ('SHIFT_JIS_2004', 'shift_jis'), ('EUC_JP', 'euc-jp'),
		('EUC_JIS_2004', 'euc-jp'), ('EUC_KR', 'euc-kr'), ('UHC', 'euc-kr'), ('EUC_CN', 'gb2312'), ('BIG5', 'big5'),
		('GBK', 'gbk'), ('GB18030', 'gb18030'), ('SQL_ASCII', 'utf-8')) AS v (encoding, label);

SELECT is((SELECT array_agg(m[1]) FROM regexp_matches(pgqrs_html_plot('', '', '', ticks, '{}', '', '', ''),
		'bottom:(.*?)%', 'g') AS m), bottoms, 'pgqrs_html_plot() keeps ticks within the plot: ' || ticks::text)
	FROM (VALUES ('{0,0.5,1}'::float8[], '{0.00,50.00,100.00}'::text[]), ('{-1,2,1e308,-1e308}',
		'{0.00,100.00,100.00,0.00}'), ('{NaN,Infinity,-Infinity}', '{100.00,100.00,0.00}')) AS v (ticks, bottoms);

--
-- Pages, as documents
--

CREATE TEMP TABLE pages (name text PRIMARY KEY, page text NOT NULL, document xml);

-- What a path finds, as text.
CREATE FUNCTION pg_temp.found(name text, path text) RETURNS text[] LANGUAGE sql AS
$$
	SELECT array_agg(trim(x::text)) FROM pages AS p, unnest(xpath(path, p.document)) AS x WHERE p.name = $1
$$;
CREATE FUNCTION pg_temp.row_of(name text, section text, first text) RETURNS text LANGUAGE sql AS
$$
	SELECT array_to_string(pg_temp.found(name,
		format('//h2[@id="%s"]/following-sibling::table[1]/tbody/tr[starts-with(normalize-space(th), '
		'"%s")]/td//text()', section, first)), ' | ')
$$;

INSERT INTO pages VALUES ('empty', pgqrs_report());
\ir include/busy.sql
INSERT INTO pages VALUES ('busy', pgqrs_report());
INSERT INTO pages SELECT 'run', pgqrs_report_run(run_id) FROM pgqrs_runs WHERE workflow = 'parcel.<b>label</b>'
	AND schedule_slot IS NULL AND idempotency_key IS NOT NULL;
INSERT INTO pages SELECT 'failed run', pgqrs_report_run(min(run_id)) FROM pgqrs_runs WHERE status = 'ERROR';
INSERT INTO pages SELECT 'cancelled run', pgqrs_report_run(min(run_id)) FROM pgqrs_runs WHERE status = 'CANCELLED';
INSERT INTO pages SELECT 'queued run', pgqrs_report_run(min(run_id)) FROM pgqrs_runs WHERE status = 'QUEUED';
SELECT pgqrs_create_workflow('bare') AS workflow, pgqrs_trigger('bare') AS run \gset
INSERT INTO pages VALUES ('run without input', pgqrs_report_run(:run));
SELECT pgqrs_delete_workflow('bare', force => true) \g /dev/null
SELECT is(count(*), 7::bigint, 'the test has made seven pages') FROM pages;

SELECT ok(page LIKE E'<!DOCTYPE html>\n<html lang="en">%' AND xml_is_well_formed_document(page),
	'the page is a well-formed document: ' || name) FROM pages;
UPDATE pages SET document = xmlparse(DOCUMENT page);
SELECT is(pg_temp.found(name,
	'//script | //img | //link | //iframe | //body/descendant::*[name() = "body"] | //i[not(@class)]'), NULL,
	'the page has no element that came from a value: ' || name) FROM pages;
SELECT is(pg_temp.found(name,
	'//@*[name() = "src" or name() = "onload" or name() = "onerror" or name() = "srcset"] | '
	'//@href[not(starts-with(., "#"))]'), NULL, 'the page loads nothing: ' || name) FROM pages;
SELECT ok(page !~ '(url\(|@import|https?:)', 'the page has no address: ' || name) FROM pages;
SELECT is((SELECT array_agg(h) FROM unnest(pg_temp.found(name, '//nav/a/@href')) AS h
	WHERE pg_temp.found(name, format('//*[@id="%s"]', ltrim(h, '#'))) IS NULL), NULL,
	'every link leads to a place in the page: ' || name) FROM pages;
SELECT is(pg_temp.found(name, '//table[count(thead/tr/th) * count(tbody/tr) != count(tbody/tr/*)]'), NULL,
	'every row of a table has a cell for each column: ' || name) FROM pages;
SELECT is(pg_temp.found(name, '//svg[@role = "img"][not(title)]'), NULL, 'every drawing has a title: ' || name)
	FROM pages;
SELECT is(pg_temp.found(name, '//rect/@*[starts-with(., "-") or . = "NaN" or . = ""]'), NULL,
	'no drawing has a negative or missing size: ' || name) FROM pages;

SELECT is(pg_temp.found('empty', '//p[@class="empty"]/text()'),
	'{"Nothing ended.","There is no queue.","There is no workflow.","No run is live.","No run has started.",'
		'"Nothing failed for good.","There are no dead letters.","There is no worker.","There is no schedule."}',
	'the page of an empty database says in each section that there is nothing');

-- health
SELECT is(array_length(pg_temp.found('busy', '//details/table/tbody/tr'), 1), count(*)::integer,
	'the page shows every check of pgqrs_health') FROM pgqrs_health;
SELECT is(pg_temp.found('busy', '//ul[@class="health"]/li/strong/text()'), array_agg(item || ': ' || value),
	'the page shows the checks that failed as warnings') FROM pgqrs_health WHERE NOT ok;

-- queues
SELECT is(array_length(pg_temp.found('busy', '//h2[@id="queues"]/following-sibling::table[1]/tbody/tr'), 1), 8,
	'the page shows every queue');
SELECT alike(pg_temp.row_of('busy', 'queues', 'thumbnails'), '334 | % | 6 | 0 | %',
	'the page shows how many messages of a queue are ready and in flight');
SELECT alike(pg_temp.row_of('busy', 'queues', 'mail'), '0 | % | 0 | 12 | %',
	'the page shows how many messages of a queue are delayed');
SELECT ok(q.name = ANY (SELECT xpath_string FROM pages AS p,
	unnest(xpath('//h2[@id="queues"]/following-sibling::table[1]/tbody/tr/th/text()[1]', p.document)) AS x,
		LATERAL (SELECT trim(replace(replace(replace(replace(replace(x::text, '&lt;', '<'), '&gt;', '>'), '&quot;',
			'"'), '&#39;', ''''), '&amp;', '&')) AS xpath_string) AS t
		WHERE p.name = 'busy'), 'the page shows the name of a queue as it is: ' || left(q.name, 40))
	FROM pgqrs_queues AS q WHERE q.deleted_at IS NULL;
SELECT is(pg_temp.found('busy', '//h2[@id="queues"]/following-sibling::table[1]//th[span[@class="b warn"]]/text()'),
	'{tenant.billing.exports}', 'the page marks a paused queue');

-- the hour
SELECT alike(pg_temp.found('busy', '//figure[1]//small/text()')::text, '%' || count(*) || ' in all, '
	|| count(*) FILTER (WHERE outcome = 'DEAD') || ' dead%', 'the page sums up what ended within the hour')
	FROM pgqrs_archive WHERE archived_at > pgqrs_now() - interval '1 hour';
SELECT is((SELECT sum((regexp_match(t, ': (\d+) done, (\d+) dead'))[1]::integer)
	FROM unnest(pg_temp.found('busy', '//figure[1]//g/title/text()')) AS t), count(*),
	'the page shows what ended minute by minute')
	FROM pgqrs_archive WHERE archived_at > pgqrs_now() - interval '1 hour' AND outcome = 'DONE';
SELECT cmp_ok(array_length(pg_temp.found('busy', '//figure[2]//g'), 1), '>=', 50,
	'the page draws latencies of at least 50 minutes');

-- workflows and runs
SELECT alike(pg_temp.row_of('busy', 'workflows', 'ship_order'), '85 \% succeeded | 85 \% | %s | %s |%',
	'the page shows the share of runs that succeeded');
SELECT is(array_length(pg_temp.found('busy', '//h2[@id="slow"]/following-sibling::table[1]/tbody/tr'), 1), 10,
	'the page shows the ten slowest runs');
SELECT is(pg_temp.found('busy', '//h2[@id="slow"]/following-sibling::table[1]/tbody/tr[1]/th/text()'),
	ARRAY[min(run_id)::text], 'the page shows the slowest run first')
	FROM pgqrs_runs WHERE workflow = 'parcel.<b>label</b>';

-- failures
SELECT alike(pg_temp.row_of('busy', 'failing', 'payment.declined'),
	'ship_order | 8 | % ago | payment.declined: card of order 56 was declined by &lt;bank&gt; &amp; "co"',
	'the page shows each cause of failures with its count and last error');
SELECT is(array_length(pg_temp.found('busy', '//h2[@id="letters"]/following-sibling::table[1]/tbody/tr'), 1), 15,
	'the page shows fifteen dead letters');
SELECT is(pg_temp.found('busy', '//h2[@id="letters"]/following-sibling::table[1]/tbody/tr[1]/th/text()'),
	ARRAY['run ' || max(run_id)], 'the page shows the newest dead letter first')
	FROM pgqrs_runs WHERE status = 'ERROR';

-- workers and schedules
SELECT alike(pg_temp.row_of('busy', 'workers', 'packer-1'), 'READY | 6 of 8 | % ago | 2.4.1 | *',
	'the page shows a worker with its load and version');
SELECT alike(pg_temp.row_of('busy', 'workers', '<img'), 'STOPPED | 0 | % ago | 2.3.0 &amp; up | mail',
	'the page shows a stopped worker');
SELECT alike(pg_temp.row_of('busy', 'schedules', 'labels'),
	'parcel.&lt;b&gt;label&lt;/b&gt; | @hourly | % | UTC | % | QUEUED | % ago | in %',
	'the page shows a schedule with its last and next firing');

-- a run
SELECT is(pg_temp.found('run', '//ol/li/div[1]/strong/text()'),
	'{"until its first claim","look up the address &lt;script&gt;","cool down","approval","notify","notify[1]",'
		'"notify[2]","notify[3]","print"}', 'the page of a run shows its steps in order');
SELECT alike(array_to_string(pg_temp.found('run', '//ol/li[2]//text()'), ' | '),
	'% | SUCCESS | function, 5 attempts, 4 failed | after 10 s, for 2 min 10 s | 2 min 10 s | attempt 1, after % | '
	'http.503: try 1: %attempt 4%', 'the page of a run shows the attempts and failures of a step');
SELECT is(array_length(pg_temp.found('run', '//ol/li[2]/svg/rect'), 1), 5,
	'the page of a run marks the failures of a step in its drawing');
SELECT is(array_length(pg_temp.found('run', '//h2[starts-with(., "Children")]/following-sibling::table[1]/tbody/tr'),
	1), 3, 'the page of a run shows its children');
SELECT alike(array_to_string(pg_temp.found('run',
	'//h2[starts-with(., "Events")]/following-sibling::table[1]/tbody/tr//text()'), ' | '),
	'CLAIMED &lt;b&gt; | % | {"worker": "&lt;i&gt;"}', 'the page of a run shows its events');
SELECT alike(array_to_string(pg_temp.found('run', '//h2[. = "Input"]/following-sibling::pre[1]/text()'), ''),
	'%"note": "&lt;/pre&gt;&lt;script&gt;alert(1)&lt;/script&gt;"%', 'the page of a run shows its input');
SELECT alike(array_to_string(pg_temp.found('failed run', '//h2[. = "Error"]/following-sibling::pre[1]/text()'), ''),
	'%payment.declined%', 'the page of a run shows its error');
SELECT alike(array_to_string(pg_temp.found('cancelled run', '//dl//text()'), ' | '),
	'%cancellation | %: changed &lt;/p&gt; mind%', 'the page of a run shows the reason of its cancellation');
SELECT is(pg_temp.found('queued run', '//ol/following-sibling::p/text()'), '{"No step has begun."}',
	'the page of a queued run says that no step has begun');
SELECT throws_ok('SELECT pgqrs_report_run(1 << 40)', 'PQ003', NULL, 'a page of a run that does not exist is refused');
SELECT throws_ok('SELECT pgqrs_report_run(NULL)', '22004', NULL, 'a page of no run is refused');

-- Where more has ended than is looked at, the page says what it shows.
INSERT INTO pgqrs_archive (message_id, queue_id, archived_at, visible_after, enqueued_at, attempt, failures, outcome,
	priority)
	SELECT nextval('pgqrs_message_id_seq'), queue_id, t, t, t - interval '1 s', 1, 0, 'DONE', 0
	FROM pgqrs_queues, generate_series(1, 21000) AS n,
		LATERAL (SELECT pgqrs_now() - interval '10 min' + interval '28 ms' * n) AS x (t)
	WHERE name = 'mail';
SELECT pgqrs_create_workflow('queued'), pgqrs_trigger_batch('queued', array_fill('1'::jsonb, '{300}')) \g /dev/null
INSERT INTO pages VALUES ('much', pgqrs_report());
UPDATE pages SET document = xmlparse(DOCUMENT page) WHERE name = 'much';
SELECT alike(array_to_string(pg_temp.found('much', '//h2[@id="hour"]//text()'), ' | '),
	'The last 9 min % s | the 20000 messages and runs sent last, of those that have ended',
	'the page says that it shows only the part of a busy hour that it has looked at');
SELECT alike(array_to_string(pg_temp.found('much', '//figure[1]//text()'), ' | '),
	'%ended per minute; 20000 in all, 0 dead%4000%',
	'the page computes the rate of a busy hour from the part that it shows');
SELECT is(array_length(pg_temp.found('much', '//h2[@id="slow"]/following-sibling::*[1][self::table]'), 1), 1,
	'the page lists the slowest runs, also if 300 newer ones have not started');



-- Values that are deep and wide.
SELECT pgqrs_create_workflow('deep') AS workflow, pgqrs_trigger('deep', :'deep') AS run \gset
SELECT lease FROM pgqrs_dequeue('deep') \gset
SELECT pgqrs_step_begin(:run, :lease, 's'), pgqrs_set_progress(:run, :lease, :'deep'), pgqrs_signal(:run, 'deep',
	:'deep'),
	pgqrs_step_fail(:run, :lease, 's', :'deep', retryable => false) \g /dev/null
SELECT pgqrs_report_run(:run) AS page \gset
SELECT ok(length(:'page') < 100000 AND xml_is_well_formed_document(:'page'),
	'the page of a run shows little of values that are deep and wide');

SELECT * FROM finish();
ROLLBACK;
