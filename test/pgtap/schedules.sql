-- F30: schedules.  Slots that were missed, edits between ticks, overlaps, whose
-- privileges they fire with.  What their expressions mean is tested in
-- f30_cron.sql; two tickers and the clock in t/f30_schedules.pl.
-- F-numbers: docs/design/known-failures.md.
\ir include/runs.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_workflow('flow'), pgqrs_create_workflow('other') \g /dev/null

-- An hourly schedule, half an hour away from its slots.
SELECT extract(minute FROM pgqrs_now() + interval '30 min') || ' * * * *' AS hourly \gset
SELECT f AS next, f - interval '1 hour' AS last FROM pgqrs_next_firings(:'hourly', n => 1) f \gset

-- As if no tick had run since then.
CREATE FUNCTION pg_temp.missed(schedule text, since timestamptz) RETURNS void LANGUAGE sql AS
$$ UPDATE pgqrs_schedules SET next_fire_at = since WHERE name = schedule $$;
-- A tick: how many runs it triggered.
CREATE FUNCTION pg_temp.tick() RETURNS int LANGUAGE sql AS $$ SELECT (pgqrs_maintain()->>'schedules_fired')::int $$;
-- The slots of the runs that are there, as hours before the last one, in the
-- order in which they were triggered; they are gone then.
CREATE FUNCTION pg_temp.runs(last timestamptz) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	hours text;
BEGIN
	SELECT string_agg((extract(epoch FROM last - schedule_slot) / 3600)::int::text, ' ' ORDER BY run_id) INTO hours
		FROM pgqrs_runs WHERE schedule_slot IS NOT NULL;
	DELETE FROM pgqrs_messages;
	DELETE FROM pgqrs_workflow_runs;
	DELETE FROM pgqrs_schedule_firings;
	RETURN COALESCE(hours, 'none');
END
$$;

--
-- Making
--

SELECT pgqrs_schedule('s', :'hourly', 'flow', '{"a": 1}', tags => '{"t": 1}', priority => 7,
	timeout => '1 day') AS s \gset
SELECT is(l, ROW(:s, 's', :'hourly', 'UTC', 'flow', true, :'next', NULL, NULL, NULL, 'allow', 100, 7, '1 day',
	'{"a": 1}', '{"t": 1}', current_user, true)::pgqrs_schedule_list,
	'the list shows a new schedule with its settings and next slot')
	FROM pgqrs_schedule_list l;
SELECT is(pg_temp.tick(), 0, 'a tick before the slot fires nothing');
SELECT pg_temp.missed('s', :'last');
SELECT is(pg_temp.tick(), 1, 'a tick after one missed slot fires once');
SELECT is(ROW(workflow, status, input, tags, priority, schedule_slot, deadline_at - created_at,
	idempotency_key)::text,
	ROW('flow', 'QUEUED', '{"a": 1}'::jsonb, '{"t": 1}'::jsonb, 7, :'last'::timestamptz, '1 day'::interval,
		NULL)::text, 'the run of a firing has input, tags, priority and deadline of its schedule') FROM pgqrs_runs;
SELECT is(ROW(schedule_id, slot, run_id)::text, ROW(:s, :'last'::timestamptz, (SELECT run_id FROM pgqrs_runs))::text,
	'a firing stores its slot and run') FROM pgqrs_schedule_firings;
SELECT is(ROW(next_fire_at, last_fired_at > pgqrs_now() - interval '1 min', last_run_id, last_status)::text,
	ROW(:'next'::timestamptz, true, (SELECT run_id FROM pgqrs_runs), 'QUEUED')::text,
	'the list shows the next slot and the last run') FROM pgqrs_schedule_list;
SELECT is(pg_temp.tick(), 0, 'a second tick fires nothing');
SELECT pg_temp.missed('s', :'last');
SELECT is(pg_temp.tick(), 0, 'a slot that has fired does not fire again when it is looked at again');
SELECT is(next_fire_at, :'next'::timestamptz, 'a slot that has fired moves the schedule on') FROM pgqrs_schedule_list;
SELECT is(pg_temp.runs(:'last'), '0', 'one slot has one run');

--
-- Slots that were missed: three, and none on time
--

CREATE FUNCTION pg_temp.catch_up(cron text, max int, since timestamptz, last timestamptz) RETURNS text
	LANGUAGE plpgsql AS
$$
BEGIN
	PERFORM pgqrs_schedule('s', cron, 'flow', max_catchup => max);
	PERFORM pg_temp.missed('s', since);
	FOR i IN 1..20 LOOP
		EXIT WHEN pg_temp.tick() = 0;
	END LOOP;
	RETURN pg_temp.runs(last);
END
$$;
SELECT is(pg_temp.catch_up(:'hourly', 0, :'last'::timestamptz - interval '2 hours', :'last'), 'none',
	'with max_catchup 0 none of three missed slots fires');
SELECT is(next_fire_at, :'next'::timestamptz, 'with max_catchup 0 the schedule goes on from the next slot')
	FROM pgqrs_schedule_list;
SELECT is(pg_temp.catch_up(:'hourly', 1, :'last'::timestamptz - interval '2 hours', :'last'), '0',
	'with max_catchup 1 the newest of three missed slots fires');
SELECT is(pg_temp.catch_up(:'hourly', 2, :'last'::timestamptz - interval '2 hours', :'last'), '1 0',
	'with max_catchup 2 the newest two of three missed slots fire, the older first');
SELECT is(pg_temp.catch_up(:'hourly', 3, :'last'::timestamptz - interval '2 hours', :'last'), '2 1 0',
	'with max_catchup 3 all of three missed slots fire');
SELECT is(pg_temp.catch_up(:'hourly', 100, :'last'::timestamptz - interval '2 hours', :'last'), '2 1 0',
	'with max_catchup 100 all of three missed slots fire');
SELECT is(pg_temp.catch_up(:'hourly', 100, :'last'::timestamptz - interval '23 hours', :'last'),
	(SELECT string_agg(h::text, ' ' ORDER BY h DESC) FROM generate_series(0, 23) h),
		'with max_catchup 100 all 24 slots of a missed day fire');
SELECT is(pg_temp.catch_up(:'hourly', 3, :'last'::timestamptz - interval '10000 hours', :'last'), '2 1 0',
	'with max_catchup 3 the newest three slots of a missed year fire');
SELECT is(pg_temp.catch_up(:'hourly', 1200, :'last'::timestamptz - interval '1099 hours', :'last'),
	(SELECT string_agg(h::text, ' ' ORDER BY h DESC) FROM generate_series(0, 1099) h),
		'more missed slots than one tick takes fire in several ticks');
SELECT is(next_fire_at, :'next'::timestamptz, 'after several ticks the schedule goes on from the next slot')
	FROM pgqrs_schedule_list;

-- Every minute, ten years back, in one tick.
SELECT pgqrs_schedule('s', '* * * * *', 'flow', max_catchup => 5) \g /dev/null
SELECT pg_temp.missed('s', date_trunc('minute', pgqrs_now()) - interval '10 years');
SELECT clock_timestamp() AS before \gset
SELECT cmp_ok(pg_temp.tick(), '>=', 6, 'a slot that is on time fires besides the missed ones');
SELECT cmp_ok(clock_timestamp() - :'before'::timestamptz, '<', interval '1 s',
	'a tick finds the newest slots of ten missed years of minutes within a second');
SELECT is(max(schedule_slot) - min(schedule_slot), (count(*) - 1) * interval '1 min',
	'of ten missed years the newest slots fire, without a gap') FROM pgqrs_runs;
SELECT is(array_agg(schedule_slot ORDER BY run_id), array_agg(schedule_slot ORDER BY schedule_slot),
	'missed slots fire in order') FROM pgqrs_runs;
SELECT pg_temp.runs(:'last') \g /dev/null

-- A slot that is hardly over is on time, however little may be made up for.
SELECT pgqrs_schedule('s', '* * * * *', 'flow', max_catchup => 0) \g /dev/null
SELECT pg_temp.missed('s', date_trunc('minute', pgqrs_now()));
SELECT cmp_ok(pg_temp.tick(), '>=', 1, 'with max_catchup 0 a slot of this minute fires');
SELECT pg_temp.runs(:'last') \g /dev/null

--
-- Edits between ticks
--

SELECT pgqrs_schedule('s', :'hourly', 'flow') \g /dev/null
SELECT pg_temp.missed('s', :'last');
SELECT pgqrs_schedule('s', :'hourly', 'other', '2', priority => -3) \g /dev/null
SELECT is(next_fire_at, :'last'::timestamptz,
	'changing a schedule whose times stay the same keeps the slot that is due') FROM pgqrs_schedule_list;
SELECT is(pg_temp.tick(), 1, 'the slot that was kept fires');
SELECT is(ROW(workflow, input, priority)::text, '(other,2,-3)',
	'the slot that was kept fires with the changed settings') FROM pgqrs_runs;
SELECT pg_temp.runs(:'last') \g /dev/null
SELECT pg_temp.missed('s', :'last');
SELECT pgqrs_schedule('s', '0 0 1 1 *', 'flow') \g /dev/null
SELECT is(pg_temp.tick(), 0, 'changing the expression drops the slots missed by the former one');
SELECT is(next_fire_at, (SELECT pgqrs_next_firings('@yearly', n => 1)),
	'a schedule with another expression goes on from its next slot') FROM pgqrs_schedule_list;
SELECT pgqrs_schedule('s', '0 0 1 1 *', 'flow', timezone => 'Asia/Tokyo') \g /dev/null
SELECT is(next_fire_at, (SELECT pgqrs_next_firings('@yearly', 'Asia/Tokyo', 1)),
	'a schedule with another zone goes on from its next slot') FROM pgqrs_schedule_list;
SELECT is(input IS NULL AND tags IS NULL AND timeout IS NULL, true, 'changing a schedule resets what is not given')
	FROM pgqrs_schedule_list;

SELECT pgqrs_schedule('s', :'hourly', 'flow') \g /dev/null
SELECT pg_temp.missed('s', :'last');
SELECT pgqrs_enable_schedule('s', false);
SELECT is(ROW(enabled, next_fire_at)::text, '(f,)', 'a disabled schedule has no next slot') FROM pgqrs_schedule_list;
SELECT is(pg_temp.tick(), 0, 'a disabled schedule does not fire');
SELECT pgqrs_schedule('s', :'hourly', 'flow', '3') \g /dev/null
SELECT is(ROW(enabled, next_fire_at, input)::text, '(f,,3)', 'changing a disabled schedule leaves it disabled')
	FROM pgqrs_schedule_list;
SELECT pgqrs_enable_schedule('s', true);
SELECT is(ROW(enabled, next_fire_at)::text, ROW(true, :'next'::timestamptz)::text,
	'an enabled schedule goes on from its next slot and drops missed ones') FROM pgqrs_schedule_list;
SELECT pg_temp.missed('s', :'last');
SELECT pgqrs_enable_schedule('s', true);
SELECT is(next_fire_at, :'last'::timestamptz, 'enabling an enabled schedule keeps the slot that is due')
	FROM pgqrs_schedule_list;
SELECT pgqrs_schedule('s', :'hourly', 'flow', enabled => false) \g /dev/null
SELECT is(ROW(enabled, next_fire_at)::text, '(f,)', 'a change may disable a schedule') FROM pgqrs_schedule_list;
SELECT pgqrs_schedule('s', :'hourly', 'flow', enabled => true) \g /dev/null
SELECT is(ROW(enabled, next_fire_at)::text, ROW(true, :'next'::timestamptz)::text, 'a change may enable a schedule')
	FROM pgqrs_schedule_list;
SELECT is(enabled, false, 'a new schedule may be disabled') FROM (SELECT pgqrs_schedule('off', '@daily', 'flow',
	enabled => false)) x, LATERAL (SELECT enabled FROM pgqrs_schedules WHERE name = 'off') y;

SELECT is(pgqrs_unschedule('off'), true, 'pgqrs_unschedule() removes a schedule');
SELECT is(pgqrs_unschedule('off'), false, 'pgqrs_unschedule() returns false for a schedule that is gone');
SELECT pg_temp.missed('s', :'last');
SELECT is(pg_temp.tick(), 1, 'the schedule to be removed has fired');
SELECT is(pgqrs_unschedule('s'), true, 'pgqrs_unschedule() removes a schedule that has fired');
SELECT is((SELECT count(*) FROM pgqrs_schedules) + (SELECT count(*) FROM pgqrs_schedule_firings), 0::bigint,
	'pgqrs_unschedule() removes the firings');
SELECT is(pg_temp.runs(:'last'), '0', 'pgqrs_unschedule() keeps the runs');

-- Undone.
BEGIN;
SELECT pgqrs_schedule('undone', '* * * * *', 'flow') \g /dev/null
ROLLBACK;
SELECT is(count(*), 0::bigint, 'a rollback removes a new schedule') FROM pgqrs_schedules;

--
-- Overlap, and runs by hand
--

SELECT pgqrs_schedule('s', :'hourly', 'flow', overlap => 'skip') AS s \gset
SELECT pg_temp.missed('s', :'last'::timestamptz - interval '2 hours');
SELECT is(pg_temp.tick(), 1, 'overlap skip fires only the first of three slots while its run goes on');
SELECT is(array_agg(run_id IS NOT NULL ORDER BY slot), '{t,f,f}',
	'overlap skip stores the slots that were left out without a run') FROM pgqrs_schedule_firings;
SELECT is(array_agg(schedule_slot), ARRAY[:'last'::timestamptz - interval '2 hours'],
	'overlap skip fires the oldest slot') FROM pgqrs_runs;
SELECT run_id, lease FROM pgqrs_dequeue('flow') \gset
UPDATE pgqrs_schedules SET next_fire_at = :'last';
DELETE FROM pgqrs_schedule_firings WHERE run_id IS NULL;
SELECT is(pg_temp.tick(), 0, 'overlap skip fires nothing while the last run is RUNNING');
SELECT pgqrs_complete_run(:run_id, :lease);
DELETE FROM pgqrs_schedule_firings WHERE run_id IS NULL;
UPDATE pgqrs_schedules SET next_fire_at = :'last';
SELECT is(pg_temp.tick(), 1, 'overlap skip fires once the last run has ended');
SELECT is(last_status, 'QUEUED', 'the list shows the status of the run fired after that') FROM pgqrs_schedule_list;
SELECT pgqrs_trigger_schedule('s') AS by_hand \gset
SELECT is(ROW(workflow, schedule_slot)::text, '(flow,)',
	'pgqrs_trigger_schedule() starts a run although the last one goes on') FROM pgqrs_get_run(:by_hand);
SELECT pgqrs_enable_schedule('s', false);
SELECT isnt(pgqrs_trigger_schedule('s'), NULL, 'pgqrs_trigger_schedule() starts a run of a disabled schedule');
SELECT is(last_run_id = :by_hand, false, 'the list does not show runs of pgqrs_trigger_schedule() as the last one')
	FROM pgqrs_schedule_list;
SELECT pg_temp.runs(:'last') \g /dev/null

-- Cancel: one that waits, one that is held.
SELECT pgqrs_schedule('s', :'hourly', 'flow', overlap => 'cancel', enabled => true) \g /dev/null
SELECT pg_temp.missed('s', :'last'::timestamptz - interval '2 hours');
SELECT is(pg_temp.tick(), 3, 'overlap cancel fires each of three slots');
SELECT is(array_agg(status || ' ' || COALESCE(cancel_reason, '') ORDER BY run_id),
	'{"CANCELLED the next run of its schedule is due","CANCELLED the next run of its schedule is due","QUEUED "}',
	'overlap cancel cancels the run of the slot before') FROM pgqrs_runs WHERE schedule_slot IS NOT NULL;
SELECT run_id, lease FROM pgqrs_dequeue('flow') \gset
DELETE FROM pgqrs_schedule_firings;
SELECT pg_temp.missed('s', :'last');
SELECT is(pg_temp.tick(), 1, 'overlap cancel fires while the last run is under a lease');
SELECT is(ROW(status, cancel_requested_at IS NOT NULL)::text, '(RUNNING,t)',
	'overlap cancel asks a run under a lease to stop') FROM pgqrs_get_run(:run_id);
SELECT pgqrs_acknowledge_cancel(:run_id, :lease);
SELECT is(last_run_id > :run_id AND last_status = 'QUEUED', true,
	'overlap cancel has started the next run beside the one that stops') FROM pgqrs_schedule_list;
SELECT pg_temp.runs(:'last') \g /dev/null

--
-- Workflows that go
--

SELECT throws_ok('SELECT pgqrs_delete_workflow(''flow'')', 'PQ009', NULL,
	'a workflow with schedules is not deleted without force');
SELECT pgqrs_schedule('t', '@daily', 'other') \g /dev/null
SELECT is(pgqrs_delete_workflow('flow', force => true), true, 'a workflow with schedules is deleted by force');
SELECT is(array_agg(name), '{t}', 'schedules of other workflows stay') FROM pgqrs_schedules;
SELECT pgqrs_create_workflow('flow') \g /dev/null

-- A workflow deleted without the functions, or a zone that no longer exists.
SELECT pgqrs_schedule('s', :'hourly', 'flow'), pgqrs_schedule('u', :'hourly', 'flow'), pgqrs_schedule('v', :'hourly',
	'flow') \g /dev/null
UPDATE pgqrs_schedules SET next_fire_at = :'last', workflow = CASE name WHEN 's' THEN 'nothing' ELSE workflow END,
	timezone = CASE name WHEN 'u' THEN 'Mars/Olympus' ELSE timezone END
	WHERE name IN ('s', 'u', 'v');
SELECT is(pg_temp.tick(), 1, 'schedules that cannot fire do not prevent others from firing');
SELECT is(string_agg(name || ' ' || COALESCE((next_fire_at = :'next')::text, 'never'), ', ' ORDER BY name),
	's true, u never, v true', 'each schedule has gone on as it could') FROM pgqrs_schedules WHERE name <> 't';
SELECT is(pgqrs_unschedule('v'), true, 'a schedule whose workflow is gone can be removed');
UPDATE pgqrs_schedules SET workflow = 'flow';
SELECT throws_ok('SELECT pgqrs_enable_schedule(''u'', false), pgqrs_enable_schedule(''u'', true)', 'PQ015', NULL,
	'enabling a schedule with an unknown zone is refused');
SELECT count(pgqrs_unschedule(name)) FROM pgqrs_schedules \g /dev/null
SELECT pg_temp.runs(:'last') \g /dev/null

--
-- Privileges
--

CREATE ROLE ada;
CREATE ROLE bob;
CREATE ROLE eve;
SELECT pgqrs_grant('flow', 'ada', 'trigger'), pgqrs_grant('flow', 'bob', 'work'), pgqrs_grant('flow', 'bob',
	'trigger'), pgqrs_grant('other', 'eve', 'admin'),
	pgqrs_grant('hers', 'ada', 'trigger'), pgqrs_grant('x', 'ada', 'trigger'), pgqrs_grant('hers', 'bob',
		'trigger') \g /dev/null
SET ROLE ada;
SELECT pgqrs_schedule('hers', :'hourly', 'flow') \g /dev/null
SELECT throws_ok(format('SELECT pgqrs_schedule(''x'', %L, ''other'')', :'hourly'), 'PQ002', NULL,
	'a workflow that a role does not see is refused');
SELECT is(owner, 'ada', 'a schedule belongs to the role that made it') FROM pgqrs_schedule_list;
SET ROLE bob;
SELECT is(array_agg(name), '{hers}', 'a role with a privilege on the name of a schedule sees it')
	FROM pgqrs_schedule_list;
SELECT throws_ok(call, '42501', NULL, 'a role that does not own the schedule is refused: ' || call)
	FROM unnest(ARRAY['SELECT pgqrs_unschedule(''hers'')', 'SELECT pgqrs_enable_schedule(''hers'', false)',
	'SELECT pgqrs_trigger_schedule(''hers'')', 'SELECT pgqrs_schedule(''hers'', ''@daily'', ''flow'')']) call;
SET ROLE eve;
SELECT is(count(*), 0::bigint, 'a role without a privilege does not see the schedule') FROM pgqrs_schedule_list;
SELECT is(pgqrs_unschedule('hers'), false,
	'pgqrs_unschedule() returns false to a role that does not see the schedule');
SELECT throws_ok(call, '42704', NULL, 'a role that does not see the schedule is told that it does not exist: '
	|| call) FROM unnest(ARRAY['SELECT pgqrs_enable_schedule(''hers'', false)',
	'SELECT pgqrs_trigger_schedule(''hers'')']) call;
SELECT throws_ok(format('SELECT pgqrs_schedule(%L, ''@daily'', ''other'')', name), '42501',
	format('permission denied for "%s"', name),
	'without trigger on a name a role cannot make a schedule nor learn of one: ' || name)
	FROM unnest('{hers,free}'::text[]) name;
RESET ROLE;
SELECT pgqrs_grant('hers', 'eve', 'trigger');
SET ROLE eve;
SELECT throws_ok('SELECT pgqrs_schedule(''hers'', ''@daily'', ''other'')', '42501',
	'permission denied for schedule "hers"',
	'a role with trigger on the name is told that the schedule belongs to another role');
RESET ROLE;
SELECT is(may_fire, true, 'a schedule whose owner has trigger may fire') FROM pgqrs_schedule_list WHERE name = 'hers';
SELECT is(value, '0', 'pgqrs_health finds no schedule that cannot fire') FROM pgqrs_health
	WHERE item = 'schedules that cannot fire';
SELECT pg_temp.missed('hers', :'last');
SELECT is(pg_temp.tick(), 1, 'a schedule fires with the privilege of its owner');
SELECT pgqrs_revoke('flow', 'ada', 'trigger');
SELECT pgqrs_grant('flow', 'ada', 'work');
SELECT is(may_fire, false, 'a schedule whose owner has lost trigger may not fire') FROM pgqrs_schedule_list
	WHERE name = 'hers';
SELECT is(ROW(value, ok)::text, '(hers,f)', 'pgqrs_health names the schedule that cannot fire') FROM pgqrs_health
	WHERE item = 'schedules that cannot fire';
DELETE FROM pgqrs_schedule_firings;
SELECT pg_temp.missed('hers', :'last');
SELECT is(pg_temp.tick(), 0, 'a schedule whose owner has lost trigger does not fire');
SELECT is(ROW(run_id, slot)::text, ROW(NULL::bigint, :'last'::timestamptz)::text,
	'the slot of a schedule that may not fire is stored without a run') FROM pgqrs_schedule_firings;
SET ROLE ada;
SELECT throws_ok('SELECT pgqrs_unschedule(''hers'')', '42501', NULL,
	'an owner that has lost trigger cannot remove the schedule');
RESET ROLE;
SELECT pgqrs_grant('flow', 'eve', 'admin');
SET ROLE eve;
SELECT pgqrs_enable_schedule('hers', false);
SELECT pgqrs_schedule('hers', :'hourly', 'flow', enabled => true) \g /dev/null
SELECT is(owner, 'eve', 'an administrator of the workflow may change a schedule and owns it then')
	FROM pgqrs_schedule_list WHERE name = 'hers';
RESET ROLE;
SELECT pgqrs_revoke('flow', 'eve', 'admin'), pgqrs_revoke('other', 'eve', 'admin'), pgqrs_revoke('flow', 'ada',
	'work'), pgqrs_revoke('flow', 'bob', 'work'), pgqrs_revoke('flow', 'bob', 'trigger'),
	pgqrs_revoke('hers', 'ada', 'trigger'), pgqrs_revoke('x', 'ada', 'trigger'), pgqrs_revoke('hers', 'bob',
		'trigger'), pgqrs_revoke('hers', 'eve', 'trigger') \g /dev/null
DROP ROLE eve;
DELETE FROM pgqrs_schedule_firings;
SELECT pg_temp.missed('hers', :'last');
SELECT is(pg_temp.tick(), 0, 'a schedule whose owner was dropped does not fire');
SELECT is(may_fire, false, 'a schedule whose owner was dropped may not fire') FROM pgqrs_schedule_list
	WHERE name = 'hers';
DROP ROLE ada, bob;

--
-- Arguments
--

SELECT throws_ok(format('SELECT pgqrs_%s', call), state, NULL, 'the call is refused: pgqrs_' || call) FROM (VALUES
	('schedule(NULL, ''@daily'', ''flow'')', '22004'), ('schedule(''a'', NULL, ''flow'')', '22004'),
		('schedule(''a'', ''@daily'', NULL)', '22004'),
	('schedule('''', ''@daily'', ''flow'')', '22023'), ('schedule(''a*'', ''@daily'', ''flow'')', '22023'),
		('schedule(''pgqrs.a'', ''@daily'', ''flow'')', '22023'),
	('schedule(''a'', ''@daily'', ''nothing'')', 'PQ002'), ('schedule(''a'', ''@dayly'', ''flow'')', 'PQ015'),
		('schedule(''a'', ''0 0 30 2 *'', ''flow'')', 'PQ015'),
	('schedule(''a'', ''@daily'', ''flow'', timezone => ''CEST'')', 'PQ015'),
		('schedule(''a'', ''@daily'', ''flow'', max_catchup => -1)', '22023'),
	('schedule(''a'', ''@daily'', ''flow'', max_catchup => 10001)', '22023'),
		('schedule(''a'', ''@daily'', ''flow'', overlap => ''queue'')', '22023'),
	('schedule(''a'', ''@daily'', ''flow'', priority => 101)', '22023'),
		('schedule(''a'', ''@daily'', ''flow'', timeout => ''0'')', '22023'),
		('schedule(''a'', ''@daily'', ''flow'', timeout => ''1 month'')', '22023'),
	('schedule(''a'', ''@daily'', ''flow'', to_jsonb(repeat(''x'', 3000000)))', 'PQ008'),
		('unschedule(NULL)', '22004'), ('enable_schedule(NULL, true)', '22004'), ('enable_schedule(''hers'', NULL)',
		'22004'),
	('enable_schedule(''nothing'', true)', '42704'), ('trigger_schedule(''nothing'')', '42704'),
		('trigger_schedule(NULL)', '22004')) v (call, state);

SELECT * FROM finish();
