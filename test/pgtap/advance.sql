-- pgqrs_advance(): the time of a waiting run passes.
\ir include/runs.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_workflow('job', jitter => 0, initial_interval => '1 hour', max_interval => '1 hour'),
	pgqrs_create_workflow('late') \g /dev/null

-- In seconds, which are multiples of ten minutes when the test begins to look.
CREATE FUNCTION pg_temp.left(run bigint) RETURNS numeric LANGUAGE sql AS
$$
	SELECT ceil(extract(epoch FROM visible_after - clock_timestamp()) / 600) * 600 FROM pgqrs_messages
		WHERE message_id = run
$$;
CREATE FUNCTION pg_temp.advance(run bigint, by interval) RETURNS numeric LANGUAGE sql AS
$$ SELECT ceil(extract(epoch FROM pgqrs_advance(run, by) - clock_timestamp()) / 600) * 600 $$;
CREATE FUNCTION pg_temp.claimed(run bigint) RETURNS boolean LANGUAGE sql AS
$$ SELECT EXISTS (SELECT FROM pgqrs_dequeue('job', batch_size => 100) d WHERE d.run_id = run) $$;
CREATE FUNCTION pg_temp.lease(run bigint) RETURNS bigint LANGUAGE sql AS
$$ SELECT lease FROM pgqrs_messages WHERE message_id = run $$;

-- A start that is delayed.
SELECT pgqrs_trigger('job', delay => '1 hour') AS run \gset
SELECT is(pg_temp.advance(:run, '20 min'), 2400::numeric, 'advance returns when the run can be claimed');
SELECT is(pg_temp.left(:run), 2400::numeric, 'a delayed start comes earlier');
SELECT is(pg_temp.advance(:run, '0'), 2400::numeric, 'an advance by nothing changes nothing');
SELECT is(pg_temp.claimed(:run), false, 'a start that is still to come is not claimed');
SELECT ok(pgqrs_advance(:run, '1 day') <= clock_timestamp(), 'a start comes now at the earliest');
SELECT ok(visible_after > clock_timestamp() - interval '20 min', 'a start does not come before now')
	FROM pgqrs_messages WHERE message_id = :run;
SELECT visible_after AS due FROM pgqrs_messages WHERE message_id = :run \gset
SELECT is(pgqrs_advance(:run, '1 day'), :'due'::timestamptz, 'a start that has come stays where it is');
SELECT is(pg_temp.claimed(:run), true, 'a run whose start has come is claimed');

-- A lease, live or expired, and an end.
SELECT is(pg_temp.answer(format('SELECT pgqrs_advance(%s, ''1 s'')', :run)),
	'PQ016 The status is RUNNING, under a lease.', 'a run under a lease does not wait');
SELECT pg_temp.due(:run);
SELECT is(pg_temp.answer(format('SELECT pgqrs_advance(%s, ''1 s'')', :run)),
	'PQ016 The status is RUNNING, under a lease.', 'a run whose lease has expired does not wait');
SELECT pgqrs_complete_run(:run, pg_temp.lease(:run)) \g /dev/null
SELECT is(pg_temp.answer(format('SELECT pgqrs_advance(%s, ''1 s'')', :run)), 'PQ016 The status is SUCCESS.',
	'a run that has ended does not wait');

-- A sleep.
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_sleep(:run, :lease, 'night', '8 hours') \g /dev/null
SELECT is(pg_temp.advance(:run, '1 hour'), 25200::numeric, 'a sleep ends earlier');
SELECT is(pg_temp.claimed(:run), false, 'a sleep that goes on is not delivered');
SELECT pgqrs_advance(:run, '7 hours') \g /dev/null
SELECT is(pg_temp.claimed(:run), true, 'a sleep whose end has come is delivered');
SELECT is(pgqrs_sleep(:run, pg_temp.lease(:run), 'night', '8 hours'), true, 'the handler learns that it has slept');
SELECT is(pgqrs_sleep(:run, pg_temp.lease(:run), 'more', '8 hours'), false, 'the next sleep takes its own time');
SELECT is(pg_temp.left(:run), 28800::numeric, 'the next sleep is not shorter');

-- A pause.
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_pause_run(:run, :lease, 'ask', check_after => '1 hour') \g /dev/null
SELECT pgqrs_advance(:run, '1 hour') \g /dev/null
SELECT is(pg_temp.claimed(:run), true, 'a pause is delivered again');
SELECT is((SELECT resumed FROM pgqrs_pause_run(:run, pg_temp.lease(:run), 'ask')), false,
	'a pause does not end by time');

-- A wait for a signal.
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_await_signal(:run, :lease, 'sign', 'go', '1 hour') \g /dev/null
SELECT is(pg_temp.advance(:run, '10 min'), 3000::numeric, 'the time-out of a wait for a signal comes earlier');
SELECT pgqrs_advance(:run, '50 min') \g /dev/null
SELECT is(pg_temp.claimed(:run), true, 'a wait that has timed out is delivered');
SELECT is(pgqrs_await_signal(:run, pg_temp.lease(:run), 'sign', 'go', '1 hour')::text, '(f,t,,)',
	'the handler learns that the wait has timed out');
SELECT is(pgqrs_await_signal(:run, pg_temp.lease(:run), 'again', 'go')::text, '(f,f,,)',
	'the next wait of the run has no time-out');
SELECT is(pgqrs_advance(:run, '1 hour'), 'infinity', 'a wait without a time-out stays infinite');
SELECT is(pg_temp.claimed(:run), false, 'a wait without a time-out is not delivered');
SELECT pgqrs_signal(:run, 'go', '1') \g /dev/null
SELECT is(pg_temp.claimed(:run), true, 'the signal wakes a run that waits without a time-out');

-- A retry.
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_step_begin(:run, :lease, 's'), pgqrs_step_fail(:run, :lease, 's', '{"type": "e"}') \g /dev/null
SELECT is(pg_temp.advance(:run, '30 min'), 1800::numeric, 'a retry comes earlier');
SELECT pgqrs_advance(:run, '30 min') \g /dev/null
SELECT is(pg_temp.claimed(:run), true, 'a retry whose time has come is delivered');
SELECT is((SELECT attempt FROM pgqrs_step_begin(:run, pg_temp.lease(:run), 's')), 2, 'the step is tried again');

-- The deadline of the run; children keep theirs.
SELECT pgqrs_trigger('late', timeout => '2 hours') AS run \gset
SELECT pg_temp.claim(:run) AS lease \gset
SELECT pgqrs_start_child(:run, :lease, 'child', 'late') AS child \gset
SELECT deadline_at AS deadline FROM pgqrs_get_run(:run) \gset
SELECT pgqrs_await_child(:run, :lease, 'child') \g /dev/null
SELECT is(pgqrs_advance(:run, '1 hour'), 'infinity', 'a wait for a child ends with the child');
SELECT is(:'deadline'::timestamptz - deadline_at, interval '1 hour', 'the deadline of a run comes earlier')
	FROM pgqrs_get_run(:run);
SELECT is(m.deadline_at, r.deadline_at, 'the message of the run has the same deadline') FROM pgqrs_messages m
	JOIN pgqrs_workflow_runs r ON r.run_id = m.run_id WHERE m.run_id = :run;
SELECT is(deadline_at, :'deadline'::timestamptz, 'a child keeps its deadline') FROM pgqrs_get_run(:child);
SELECT pgqrs_advance(:run, '1 hour') \g /dev/null
SELECT pgqrs_maintain() \g /dev/null
SELECT is((SELECT status || (error->>'type') FROM pgqrs_result(:run)), 'ERRORtimeout',
	'a run whose deadline has come ends');

-- Arguments.
SELECT pgqrs_trigger('job', delay => '1 hour') AS run \gset
SELECT is(replace(pg_temp.refusal('SELECT ' || call), ' after a write', ''), expected, call) FROM (VALUES
	('pgqrs_advance(999999, ''1 s'')', 'PQ003'), ('pgqrs_advance(NULL, ''1 s'')', '22004'),
	(format('pgqrs_advance(%s, NULL)', :run), '22004'), (format('pgqrs_advance(%s, ''-1 s'')', :run), '22023'),
	(format('pgqrs_advance(%s, ''1 month'')', :run), '22023')) AS v (call, expected);
SELECT is(pg_temp.left(:run), 3600::numeric, 'an advance that is refused changes nothing');
SELECT is_empty('SELECT check_name, detail FROM pgqrs_verify() WHERE NOT ok', 'the tables say only what they can');

SELECT * FROM finish();
