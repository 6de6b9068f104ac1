-- F30: cron expressions, time zones and the clock's jumps in spring and
-- autumn.  The expected slots were found by another program, which shares
-- nothing with the extension: test/cron/slots.py, with Python's zoneinfo and a
-- look at every minute.
-- F-numbers: docs/design/known-failures.md.
SET client_min_messages = error;
SELECT * FROM no_plan();

CREATE TEMP TABLE expected (id int GENERATED ALWAYS AS IDENTITY, name text, cron text, zone text, after timestamptz,
	slots timestamptz[]);
\ir include/f30_slots.sql
SELECT cmp_ok(count(*), '>=', 60::bigint, 'the table has at least 60 expressions') FROM expected;
SELECT is((SELECT array_agg(f ORDER BY n) FROM pgqrs_next_firings(cron, zone, cardinality(slots),
	after) WITH ORDINALITY AS a (f, n)), slots,
	format('%s fires at the slots of the other program: %s', name, cron)) FROM expected ORDER BY id;

-- Each slot leads to the next, and there is none between them.
SELECT is((SELECT f FROM pgqrs_next_firings(cron, zone, 1, slot - interval '1 us') f), slot,
	format('%s fires at a slot when asked right before it: %s', name, slot))
	FROM expected, unnest(slots) slot WHERE zone <> 'UTC' ORDER BY id, slot;

-- The two that everybody gets wrong, by hand.
SELECT is((SELECT array_agg(f) FROM pgqrs_next_firings('30 2 * * *', 'America/New_York', 3,
	'2026-03-07 00:00 EST') f),
	'{2026-03-07 02:30-05,2026-03-08 03:00-04,2026-03-09 02:30-04}',
		'a schedule for 2:30 fires at 3:00 on the day that has no 2:30');
SELECT is((SELECT array_agg(f) FROM pgqrs_next_firings('30 1 * * *', 'America/New_York', 3,
	'2026-10-31 00:00 EDT') f),
	'{2026-10-31 01:30-04,2026-11-01 01:30-04,2026-11-02 01:30-05}',
		'a schedule for 1:30 fires once on the day that has 1:30 twice');

-- The session's zone and calendar play no part.
SET timezone = 'Asia/Tokyo';
SET datestyle = 'German';
SELECT is((SELECT f FROM pgqrs_next_firings('0 0 * * *', 'UTC', 1, '2026-05-05 00:00+00') f), '2026-05-06 00:00+00',
	'the time zone of the session plays no part');
RESET timezone;
RESET datestyle;

-- Ways to write the same.
SELECT is((SELECT array_agg(f) FROM pgqrs_next_firings(cron, 'UTC', 20, '2026-05-05 00:00+00') f),
	(SELECT array_agg(f) FROM pgqrs_next_firings(same, 'UTC', 20, '2026-05-05 00:00+00') f),
		format('%s means the same as %s', cron, same))
	FROM (VALUES (E'\t0  0 *   * *  ', '@daily'), ('0 0 * * *', '@DAILY'), ('0-59 * * * *', '* * * * *'),
		('*/1 * * * *', '* * * * *'), ('5,5,5 1 1 1 *', '05 01 01 01 *'),
		('0 0 1-31 1-12 0-7', '@daily'), ('0 0 * * sun-sat', '@daily'), ('0 0 * * 1-5', '0 0 * * Mon-FRI'),
			('0 0 1 jan-mar,dec *', '0 0 1 12,1-3 *'),
		('*/60 * * * *', '@hourly'), ('0 0 * * 0', '0 0 * * 7'), (E'\n 0 3 * * *\r\n', '0 3 * * *'),
			(E' @daily \n', '@daily'), ('0 0 l 1,2 *', '0 0 $ 2,1 *'), ('0 0 * * 6-7', '0 0 * * sat,sun')) v (cron,
			same);

-- Without "after" from now on; the numbers of rows.
SELECT is(bool_and(f > pgqrs_now() - interval '1 min' AND f <= pgqrs_now() + interval '5 min'), true,
	'without "after" the slots are those from now on') FROM pgqrs_next_firings('* * * * *') f;
SELECT is(count(*), 5::bigint, 'five slots are returned unless told otherwise') FROM pgqrs_next_firings('@daily');
SELECT is(count(*), 10000::bigint, 'up to 10,000 slots are returned') FROM pgqrs_next_firings('* * * * *',
	n => 10000);
SELECT is(min(f), '0001-02-01 00:00+00'::timestamptz, 'slots in the first century are found')
	FROM pgqrs_next_firings('@monthly', n => 1, after => '0001-01-15 00:00+00') f;
SELECT is(count(*), 5::bigint, 'an "after" of -infinity returns slots') FROM pgqrs_next_firings('@monthly',
	after => '-infinity') f;
SELECT is(count(*), 3::bigint, 'slots end with the calendar of PostgreSQL') FROM pgqrs_next_firings('@monthly',
	n => 10, after => '294276-09-15 00:00+00') f;
SELECT is(count(*), 0::bigint, 'there is no slot after the end of the calendar') FROM pgqrs_next_firings('@yearly',
	after => '294276-12-31 00:00+00') f;
SELECT is(count(*), 200::bigint, '200 slots that are decades apart are found') FROM pgqrs_next_firings('0 0 29 2 */7',
	'Europe/Berlin', 200) f;

-- What is refused: which field, and why.
CREATE FUNCTION pg_temp.why(cron text, zone text = 'UTC') RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	detail text;
	hint text;
BEGIN
	PERFORM pgqrs_next_firings(cron, zone);
	RETURN 'accepted';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(' ', SQLSTATE, detail, CASE WHEN hint = '' THEN 'no hint' END);
END
$$;
SELECT is(pg_temp.why(cron), 'PQ015 ' || detail, 'the expression is refused with its field and reason: ' || cron)
	FROM (VALUES
	('', 'The expression has 0 fields instead of 5.'), ('* * * *', 'The expression has 4 fields instead of 5.'),
		('* * * * * *', 'The expression has 6 fields; seconds and years are not supported.'),
	('* * * * * * *', 'The expression has 7 fields instead of 5.'), (E'@daily\n# comment', 'The word is not supported.'),
		('@reboot', 'The word is not supported.'), ('@', 'The word is not supported.'),
	('60 * * * *', 'Field 1 (minute), "60": 60 is not from 0 to 59.'),
		('* 24 * * *', 'Field 2 (hour), "24": 24 is not from 0 to 23.'),
	('* * 0 * *', 'Field 3 (day of month), "0": 0 is not from 1 to 31.'),
		('* * 32 * *', 'Field 3 (day of month), "32": 32 is not from 1 to 31.'),
	('* * * 13 *', 'Field 4 (month), "13": 13 is not from 1 to 12.'),
		('* * * * 8', 'Field 5 (day of week), "8": 8 is not from 0 to 7.'),
	('* * * mon *', 'Field 4 (month), "mon": a number or a name is expected.'),
		('jan * * * *', 'Field 1 (minute), "jan": a number or a name is expected.'),
	('-1 * * * *', 'Field 1 (minute), "-1": a number or a name is expected.'),
		('1- * * * *', 'Field 1 (minute), "1-": a number or a name is expected.'),
	('1,, * * * *', 'Field 1 (minute), "1,,": a number or a name is expected.'),
		(', * * * *', 'Field 1 (minute), ",": a number or a name is expected.'),
	('20-10 * * * *', 'Field 1 (minute), "20-10": a range must not end before it begins.'),
		('* 22-4 * * *', 'Field 2 (hour), "22-4": a range must not end before it begins.'),
	('5/10 * * * *', 'Field 1 (minute), "5/10": a step follows an asterisk or a range.'),
		('*/0 * * * *', 'Field 1 (minute), "*/0": a step is a number from 1 to 60.'),
	('*/61 * * * *', 'Field 1 (minute), "*/61": a step is a number from 1 to 60.'),
		('* */ * * *', 'Field 2 (hour), "*/": a step is a number from 1 to 24.'),
	('*/-5 * * * *', 'Field 1 (minute), "*/-5": a step is a number from 1 to 60.'), ('99999999999 * * * *',
		'Field 1 (minute), "99999999999": 999999 is not from 0 to 59.'),
	('* * * L *', 'Field 4 (month), "L": a number or a name is expected.'),
		('* * * * 5L', 'Field 5 (day of week), "5L": only lists (1,2), ranges (1-5), steps (*/2) and names are '
		'supported.'),
	('* * LW * *', 'Field 3 (day of month), "LW": only lists (1,2), ranges (1-5), steps (*/2) and names are supported.'),
	('* * L-2 * *', 'Field 3 (day of month), "L-2": only lists (1,2), ranges (1-5), steps (*/2) and names are '
		'supported.'),
	('* * 1-L * *', 'Field 3 (day of month), "1-L": a number or a name is expected.'),
	(repeat('1,', 500) || '1 * * * *', 'The expression has 1009 bytes; at most 1000 are allowed.'),
		(repeat('ä', 4096), 'The expression has 8192 bytes; at most 1000 are allowed.'),
	('* * ? * *', 'Field 3 (day of month), "?": a number or a name is expected.'),
	('* * * * monday', 'Field 5 (day of week), "monday": only lists (1,2), ranges (1-5), steps (*/2) and names are '
		'supported.'),
	('* * * * 1#2', 'Field 5 (day of week), "1#2": only lists (1,2), ranges (1-5), steps (*/2) and names are supported.'),
	('** * * * *', 'Field 1 (minute), "**": only lists (1,2), ranges (1-5), steps (*/2) and names are supported.'),
		('*-5 * * * *', 'Field 1 (minute), "*-5": only lists (1,2), ranges (1-5), steps (*/2) and names are supported.'),
	('0 0 30 2 *', 'No month of field 4 (month), "2", has a day of field 3 (day of month), "30".'),
	('0 0 31 feb,apr,jun,sep,nov *',
		'No month of field 4 (month), "feb,apr,jun,sep,nov", has a day of field 3 (day of month), "31".'),
	('0 0 31 4 */2', 'No month of field 4 (month), "4", has a day of field 3 (day of month), "31".')) v
		(cron, detail);
SELECT is(pg_temp.why(repeat(' ', 11) || repeat('1,', 490) || '1 * * * *'), 'accepted',
	'an expression of 1,000 bytes is accepted, blanks around it not counted');
SELECT is(pg_temp.why(cron), 'accepted', 'an expression that fires rarely is accepted: ' || cron)
	FROM (VALUES ('0 0 L 2 *'), ('0 0 30,L 2 *'), ('0 0 29 2 *'), ('0 0 31 4 mon'), ('0 0 30,1 2 *'),
	('0 0 31 3-4 *')) v (cron);
SELECT is(pg_temp.why('@daily', zone), 'PQ015 Argument "timezone" must be the name of an IANA time zone.',
	'the zone is refused: ' || zone) FROM unnest(ARRAY['', 'Nowhere', 'Europe/Nowhere',
	'UTC+3', 'UTC-3', 'CET-1CEST', 'CET-1CEST,M3.5.0,M10.5.0/3', '<+03>-3', '+03', '3', 'Europe/Berlin5',
		'Etc/GMT+13', 'Etc/GMT-15', 'Etc/GMT+05', 'Etc/GMT3', '../Berlin', repeat('x', 1000)]) zone;
SELECT is(pg_temp.why('@daily', zone), 'accepted', 'the zone is accepted: ' || zone)
	FROM unnest(ARRAY['UTC', 'utc', 'Europe/Berlin', 'europe/berlin', 'EST5EDT', 'GMT0', 'GMT', 'Etc/GMT+12',
	'Etc/GMT-14', 'Etc/GMT+5']) zone;
SELECT throws_ok(format('SELECT pgqrs_next_firings(%s)', args), state, NULL, 'the arguments are refused: ' || args)
	FROM (VALUES ('NULL', '22004'), ('''@daily'', n => -1', '22023'),
	('''@daily'', n => 10001', '22023'), ('''@daily'', after => ''infinity''', '22023')) v (args, state);

SELECT * FROM finish();
