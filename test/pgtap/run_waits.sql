-- Steps that wait: pause and resume, sleep, signals.  F28.
-- F-numbers: docs/design/known-failures.md.
\ir include/runs.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_workflow('job', visibility_timeout => '10 min', max_crashes => 3) \g /dev/null
SELECT pgqrs_create_workflow('late', timeout => '1 h') \g /dev/null

-- What is seen of a run, and of its message; the seconds until it can be claimed.
CREATE FUNCTION pg_temp.state(run bigint) RETURNS text LANGUAGE sql AS
$$
	SELECT concat_ws(', ', r.status, r.waiting_for, CASE WHEN r.paused_at IS NOT NULL THEN 'paused' END, CASE WHEN m.lease IS NOT NULL THEN 'held' END)
	FROM pgqrs_workflow_runs r LEFT JOIN pgqrs_messages m USING (run_id) WHERE r.run_id = run
$$;
CREATE FUNCTION pg_temp.left(run bigint) RETURNS numeric LANGUAGE sql AS
$$ SELECT CASE WHEN isfinite(visible_after) THEN round(extract(epoch FROM visible_after - clock_timestamp())) END FROM pgqrs_messages WHERE run_id = run $$;
CREATE FUNCTION pg_temp.step(run bigint, step text) RETURNS text LANGUAGE sql AS
$$ SELECT concat_ws(' ', kind, status, attempt, output, error->>'type', reason) FROM pgqrs_steps WHERE run_id = run AND step_id = step $$;

--
-- Pause
--

SELECT * FROM pg_temp.start('job') \gset
SELECT is(pgqrs_pause_run(:run, :lease, 'approve', reason => '"ask"')::text, '(f,)', 'a pause parks the run');
SELECT is(pg_temp.state(:run), 'PAUSED, pause approve, paused', 'which nobody holds then');
SELECT is(round(pg_temp.left(:run), -1), 3600::numeric, 'for an hour');
SELECT is(pg_temp.step(:run, 'approve'), 'PAUSE PAUSED 1 "ask"', 'its step says why');
SELECT is(pg_temp.answer(format('SELECT pgqrs_pause_run(%s, %s, ''approve'')', :run, :lease)), 'PQ006', 'the lease was given up');
SELECT is_empty($$SELECT * FROM pgqrs_dequeue('job')$$, 'it is not delivered');
SELECT is(waiting_for, 'pause approve', 'and shown as what it is') FROM pgqrs_get_run(:run);

-- Delivered to look by itself.
SELECT pg_temp.claim(:run) AS lease \gset
SELECT is(pg_temp.state(:run), 'RUNNING, held', 'delivered after check_after');
SELECT is(failures, 0, 'without a failure') FROM pgqrs_messages WHERE run_id = :run;
SELECT is(pgqrs_pause_run(:run, :lease, 'approve', check_after => '5 min')::text, '(f,)', 'it goes on to wait');
SELECT is(pg_temp.left(:run), 300::numeric, 'as long as this call says');
SELECT is(pg_temp.step(:run, 'approve'), 'PAUSE PAUSED 2 "ask"', 'a second attempt; the reason stays');

-- Resumed.
SELECT is(pgqrs_resume_run(:run, output => '{"ok": 1}'), true, 'resumed without naming the step');
SELECT is(pgqrs_resume_run(:run, output => '2'), false, 'once');
SELECT is(pgqrs_resume_run(:run, 'approve', '2'), false, 'also by name');
SELECT ok(pg_temp.left(:run) <= 0, 'it can be claimed at once');
SELECT is(pg_temp.state(:run), 'PAUSED, pause approve, paused', 'and is PAUSED until it is');
SELECT lease FROM pgqrs_dequeue('job') \gset
SELECT is(pgqrs_pause_run(:run, :lease, 'approve')::text, '(t,"{""ok"": 1}")', 'the handler goes on with the output');
SELECT is(pgqrs_pause_run(:run, :lease, 'approve')::text, '(t,"{""ok"": 1}")', 'whenever it asks');
SELECT is(pg_temp.state(:run), 'RUNNING, held', 'which parks nothing');

-- Resumed before.
SELECT is(pgqrs_resume_run(:run, 'sign', NULL), true, 'resumed before the pause');
SELECT is(pgqrs_resume_run(:run, 'sign', '1'), false, 'once');
SELECT is(pgqrs_pause_run(:run, :lease, 'sign')::text, '(t,null)', 'the pause does not wait; NULL is JSON null');
SELECT is(pgqrs_resume_run(:run), false, 'a run that is not parked has no pause of its own');
SELECT pgqrs_step_begin(:run, :lease, 'work') \g /dev/null
SELECT is(pg_temp.answer(format('SELECT pgqrs_resume_run(%s, ''work'')', :run)), 'PQ016 It is a step of kind FUNCTION.', 'a step of another kind');
SELECT is(pg_temp.answer(format('SELECT pgqrs_pause_run(%s, %s, ''work'')', :run, :lease)), 'PQ016 It is a step of kind FUNCTION.', 'likewise');
SELECT is(pg_temp.answer(format('SELECT pgqrs_step_begin(%s, %s, ''sign'')', :run, :lease)), 'PQ016 It is a step of kind PAUSE.', 'and the other way round');

-- Resumed before at what turns out to be no pause: the resume is dropped.
SELECT is(pgqrs_resume_run(:run, id, '1'), true, id || ' is resumed before it has begun') FROM unnest('{typo,nap,mail,call}'::text[]) AS id;
SELECT is((pgqrs_step_begin(:run, :lease, 'typo')).status, 'RUNNING', 'a step of that id begins');
SELECT is(pg_temp.step(:run, 'typo'), 'FUNCTION RUNNING 1', 'and is the handler''s');
SELECT is(pgqrs_step_complete(:run, :lease, 'typo', '2'), true, 'it is completed');
SELECT is(pgqrs_sleep(:run, :lease, 'nap', '0'), true, 'a sleep');
SELECT is(pg_temp.step(:run, 'nap'), 'SLEEP SUCCESS 1 null', 'and is one');
SELECT is(pgqrs_cancel_run(pgqrs_start_child(:run, :lease, 'call', 'job')), 'CANCELLED', 'a child is started, and cancelled');
SELECT is(pg_temp.step(:run, 'call'), 'CHILD RUNNING 1', 'and is no resumed pause');
SELECT is(pgqrs_await_signal(:run, :lease, 'mail', 'letter', timeout => '0')::text, '(f,t,,)', 'a signal that does not come in time');

-- Another pause than the one it is parked at.
SELECT pgqrs_pause_run(:run, :lease, 'second') \g /dev/null
SELECT is(pgqrs_resume_run(:run, 'third', '3'), true, 'another pause is resumed');
SELECT is(pg_temp.left(:run), 3600::numeric, 'which wakes nobody');
SELECT is(pgqrs_resume_run(:run, 'second', '2'), true, 'its own');
SELECT ok(pg_temp.left(:run) <= 0, 'wakes it');
SELECT pg_temp.claim(:run) AS lease \gset
SELECT pgqrs_complete_run(:run, :lease);
SELECT is(pg_temp.answer(format('SELECT pgqrs_resume_run(%s)', :run)), 'PQ016 It is SUCCESS.', 'an ended run');

-- Resumed while it is delivered: the worker that asks gets it.
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_pause_run(:run, :lease, 'p', '0') \g /dev/null
SELECT lease FROM pgqrs_dequeue('job') \gset
SELECT is(pgqrs_resume_run(:run, 'p', '1'), true, 'resumed while a worker holds it');
SELECT ok(pg_temp.left(:run) > 500, 'which keeps its lease');
SELECT is(pgqrs_pause_run(:run, :lease, 'p')::text, '(t,1)', 'and goes on');
SELECT pgqrs_complete_run(:run, :lease);

--
-- Crashes are forgotten where a run parks or a wait is over
--

SELECT * FROM pg_temp.start('job') \gset
SELECT pg_temp.claim(:run) \g /dev/null
SELECT pg_temp.claim(:run) AS lease \gset
SELECT is(failures, 2, 'two crashes') FROM pgqrs_messages WHERE run_id = :run;
SELECT pgqrs_sleep(:run, :lease, 's', '1 h') \g /dev/null
SELECT is(failures, 0, 'parked: forgotten') FROM pgqrs_messages WHERE run_id = :run;
SELECT pg_temp.claim(:run) \g /dev/null
SELECT pg_temp.claim(:run) AS lease \gset
SELECT is(failures, 1, 'another') FROM pgqrs_messages WHERE run_id = :run;
SELECT pgqrs_sleep(:run, :lease, 't', '0') \g /dev/null
SELECT is(failures, 0, 'slept: forgotten') FROM pgqrs_messages WHERE run_id = :run;
SELECT pgqrs_complete_run(:run, :lease);

--
-- Sleep
--

SELECT * FROM pg_temp.start('job') \gset
SELECT is(pgqrs_sleep(:run, :lease, 'none', '0'), true, 'no time at all');
SELECT is(pgqrs_sleep(:run, :lease, 'past', until => '2000-01-01'), true, 'a time that has passed');
SELECT is(pg_temp.step(:run, 'past'), 'SLEEP SUCCESS 1 null', 'is over at once');
SELECT is(pgqrs_sleep(:run, :lease, 'nap', '1 h'), false, 'a sleep parks');
SELECT is(pg_temp.state(:run), 'PAUSED, sleep nap, paused', 'the run');
SELECT is(pg_temp.left(:run), 3600::numeric, 'for that time');
SELECT (input->>'until')::timestamptz AS until FROM pgqrs_steps WHERE run_id = :run AND step_id = 'nap' \gset
SELECT is(visible_after, :'until', 'to the microsecond') FROM pgqrs_messages WHERE run_id = :run;
SELECT is(pgqrs_resume_run(:run), false, 'it is no pause');
SELECT is(pg_temp.answer(format('SELECT pgqrs_resume_run(%s, ''nap'')', :run)), 'PQ016 It is a step of kind SLEEP.', 'nor is its step');

-- Delivered early: the first call has fixed when it ends.
SELECT pg_temp.claim(:run) AS lease \gset
SELECT is(pgqrs_sleep(:run, :lease, 'nap', '1 s'), false, 'it goes on to sleep');
SELECT is(visible_after, :'until', 'until then') FROM pgqrs_messages WHERE run_id = :run;
SELECT pg_temp.claim(:run) AS lease \gset
UPDATE pgqrs_workflow_steps SET input = jsonb_build_object('until', clock_timestamp()) WHERE run_id = :run AND step_id = 'nap';
SELECT is(pgqrs_sleep(:run, :lease, 'nap', '1 h'), true, 'slept, when that time has come');
SELECT is(pg_temp.step(:run, 'nap'), 'SLEEP SUCCESS 3 null', 'a result');
SELECT is(pgqrs_sleep(:run, :lease, 'nap', '1 h'), true, 'that stays');
SELECT is(pgqrs_sleep(:run, :lease, 'long', until => '294276-12-31'), false, 'as long as a timestamp goes');
SELECT is(pg_temp.answer(format('SELECT pgqrs_sleep(%s, 1, ''x'', ''1 s'', now())', :run)), '22023', 'two times');
SELECT is(pg_temp.answer(format('SELECT pgqrs_sleep(%s, 1, ''x'')', :run)), '22004', 'none');
SELECT pgqrs_cancel_run(:run) \g /dev/null

-- In whatever time zone and style, it is the same instant.
SELECT * FROM pg_temp.start('job') \gset
SET timezone = 'America/New_York';
SET datestyle = 'German';
SELECT pgqrs_sleep(:run, :lease, 'z', until => '2100-07-04 12:00:00.123456+00') \g /dev/null
RESET timezone;
RESET datestyle;
SELECT is(visible_after, '2100-07-04 12:00:00.123456+00', 'an instant is an instant') FROM pgqrs_messages WHERE run_id = :run;
SELECT pg_temp.claim(:run) AS lease \gset
SET datestyle = 'SQL, DMY';
SELECT is(pgqrs_sleep(:run, :lease, 'z', '0'), false, 'also when it is read again');
RESET datestyle;
SELECT is(visible_after, '2100-07-04 12:00:00.123456+00', 'the same') FROM pgqrs_messages WHERE run_id = :run;
SELECT pgqrs_cancel_run(:run) \g /dev/null

-- A deadline counts over a sleep.
SELECT * FROM pg_temp.start('late') \gset
SELECT pgqrs_sleep(:run, :lease, 's', '2 h') \g /dev/null
SELECT pg_temp.late(:run) \g /dev/null
SELECT is((pgqrs_maintain()->'runs_timed_out')::text, '1', 'past its deadline');
SELECT is((status, error->>'type')::text, '(ERROR,timeout)', 'it ends') FROM pgqrs_result(:run);
SELECT is((waiting_for, paused_at, completed_at IS NOT NULL)::text, '(,,t)', 'and waits no more') FROM pgqrs_get_run(:run);
-- Replayed, it sleeps until the same time.
SELECT input AS input FROM pgqrs_steps WHERE run_id = :run \gset
SELECT pgqrs_replay_message(:run) \g /dev/null
SELECT pg_temp.claim(:run) AS lease \gset
SELECT is(pgqrs_sleep(:run, :lease, 's', '0'), false, 'replayed: the sleep goes on');
SELECT is(input, :'input'::jsonb, 'as it was') FROM pgqrs_steps WHERE run_id = :run;
SELECT pgqrs_cancel_run(:run) \g /dev/null

--
-- Signals
--

SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_signal(:run, 'go', '1') AS s1, pgqrs_signal(:run, 'other', '"other"') AS other, pgqrs_signal(:run, 'go', '2', headers => '{"h": 1}') AS s2, pgqrs_signal(:run, 'go') AS s3 \gset
SELECT ok(:s1 < :s2 AND :s2 < :s3, 'ids in order');
SELECT is(pgqrs_await_signal(:run, :lease, 'a', 'go')::text, '(t,f,1,)', 'sent before: the oldest one');
SELECT is(pgqrs_await_signal(:run, :lease, 'a', 'go')::text, '(t,f,1,)', 'the same for the same step');
SELECT is(pgqrs_await_signal(:run, :lease, 'b', 'go')::text, '(t,f,2,"{""h"": 1}")', 'the next for the next');
SELECT is(pgqrs_await_signal(:run, :lease, 'c', 'go')::text, '(t,f,null,)', 'no payload is JSON null');
SELECT is(pg_temp.state(:run), 'RUNNING, held', 'nothing was waited for');
SELECT results_eq(format('SELECT signal_id, consumed_by, payload FROM pgqrs_run_signals WHERE run_id = %s ORDER BY 1', :run),
	format($$VALUES (%s::bigint, 'a' COLLATE "C", '1'::jsonb), (%s, NULL, '"other"'), (%s, 'b', '2'), (%s, 'c', NULL)$$, :s1, :other, :s2, :s3), 'each was taken once');

SELECT is(pgqrs_await_signal(:run, :lease, 'b', 'go')::text, '(t,f,2,"{""h"": 1}")', 'headers are part of the stored answer');
SELECT is(pgqrs_await_signal(:run, :lease, 'd', 'go')::text, '(f,f,,)', 'none is left');
SELECT is(pg_temp.state(:run), 'PAUSED, signal go, paused', 'so the run waits');
SELECT is(visible_after, 'infinity', 'for ever') FROM pgqrs_messages WHERE run_id = :run;
SELECT pgqrs_signal(:run, 'more') \g /dev/null
SELECT is(visible_after, 'infinity', 'one of another name does not wake it') FROM pgqrs_messages WHERE run_id = :run;
SELECT is((pgqrs_maintain()->'runs_woken')::text, '0', 'nor does a pass');
SELECT pgqrs_signal(:run, 'go', '4') \g /dev/null
SELECT ok(pg_temp.left(:run) <= 0, 'its own does');
SELECT lease FROM pgqrs_dequeue('job') \gset
SELECT is(pgqrs_await_signal(:run, :lease, 'd', 'go')::text, '(t,f,4,)', 'and is taken');
SELECT is(pgqrs_await_signal(:run, :lease, 'd2', 'other')::text, '(t,f,"""other""",)', 'those of other names are there still');

-- A signal that is rolled back is none.
SELECT is(pgqrs_await_signal(:run, :lease, 'e', 'go')::text, '(f,f,,)', 'parked');
BEGIN;
SELECT pgqrs_signal(:run, 'go') \g /dev/null
ROLLBACK;
SELECT is(visible_after, 'infinity', 'a signal that was rolled back wakes nobody') FROM pgqrs_messages WHERE run_id = :run;

-- If nobody saw it in time, a pass finds it.
INSERT INTO pgqrs_run_signals (signal_id, run_id, sent_at, name) VALUES (nextval('pgqrs_signal_id_seq'), :run, now(), 'go');
SELECT is((pgqrs_maintain()->'runs_woken')::text, '1', 'a pass wakes it');
SELECT is((pgqrs_maintain()->'runs_woken')::text, '0', 'once');
SELECT lease FROM pgqrs_dequeue('job') \gset
SELECT is(pgqrs_await_signal(:run, :lease, 'e', 'go')::text, '(t,f,null,)', 'and it is taken');

-- Time-outs.
SELECT is(pgqrs_await_signal(:run, :lease, 'f', 'go', '0')::text, '(f,t,,)', 'no time: only what is there');
SELECT is(pgqrs_await_signal(:run, :lease, 'g', 'go', '10 min')::text, '(f,f,,)', 'ten minutes');
SELECT is(pg_temp.left(:run), 600::numeric, 'until then');
SELECT pg_temp.claim(:run) AS lease \gset
SELECT is(pgqrs_await_signal(:run, :lease, 'g', 'go', '1 h')::text, '(f,f,,)', 'delivered early');
SELECT ok(pg_temp.left(:run) BETWEEN 590 AND 600, 'the first call has fixed the deadline');
SELECT pg_temp.claim(:run) AS lease \gset
UPDATE pgqrs_workflow_steps SET input = input || jsonb_build_object('deadline', clock_timestamp()) WHERE run_id = :run AND step_id = 'g';
SELECT is(pgqrs_await_signal(:run, :lease, 'g', 'go', '1 h')::text, '(f,t,,)', 'timed out');
SELECT is(pg_temp.step(:run, 'g'), 'SIGNAL SUCCESS 3 null wait_timeout', 'the step says so');
SELECT pgqrs_signal(:run, 'go', '"late"') \g /dev/null
SELECT is(pgqrs_await_signal(:run, :lease, 'g', 'go')::text, '(f,t,,)', 'and it stays so');
SELECT is(pgqrs_await_signal(:run, :lease, 'h', 'go', '0')::text, '(t,f,"""late""",)', 'one that came too late is the next step''s');
SELECT pgqrs_await_signal(:run, :lease, 'i', 'go', '1 h') \g /dev/null
SELECT pgqrs_signal(:run, 'go', '"in time"') \g /dev/null
UPDATE pgqrs_workflow_steps SET input = input || jsonb_build_object('deadline', clock_timestamp()) WHERE run_id = :run AND step_id = 'i';
SELECT lease FROM pgqrs_dequeue('job') \gset
SELECT is(pgqrs_await_signal(:run, :lease, 'i', 'go')::text, '(t,f,"""in time""",)', 'what is there is taken, though the time is over');

-- Keys.
SELECT pgqrs_signal(:run, 'keyed', '1', 'key') AS first \gset
SELECT is(pgqrs_signal(:run, 'keyed', '2', 'key'), :first::bigint, 'a key: the first one');
SELECT is(pgqrs_await_signal(:run, :lease, 'j', 'keyed')::text, '(t,f,1,)', 'which is taken');
SELECT is(pgqrs_signal(:run, 'keyed', '2', 'key'), :first::bigint, 'the key counts on');
SELECT is(pgqrs_await_signal(:run, :lease, 'k', 'keyed', '0')::text, '(f,t,,)', 'there is no second');
SELECT run AS another FROM pg_temp.start('job') \gset
SELECT isnt(pgqrs_signal(:another, 'keyed', '2', 'key'), :first::bigint, 'of another run it is another');

SELECT pgqrs_complete_run(:run, :lease);
SELECT is(pg_temp.answer(format('SELECT pgqrs_signal(%s, ''go'')', :run)), 'PQ016 It is SUCCESS.', 'an ended run takes no signal');
SELECT is(pgqrs_signal(:run, 'keyed', '2', 'key'), :first::bigint, 'but tells of one that it had');

-- Many at once, in order.
SELECT * FROM pg_temp.start('job') \gset
SELECT count(pgqrs_signal(:run, 'n', to_jsonb(g))) FROM generate_series(1, 100) g \g /dev/null
SELECT is(array_agg((pgqrs_await_signal(:run, :lease, 's' || g, 'n')).payload::int ORDER BY g), array_agg(g ORDER BY g), 'a hundred in order') FROM generate_series(1, 100) g;
-- They go with the workflow.
SELECT is(pgqrs_delete_workflow('job', true), true, 'the workflow is deleted');
SELECT pg_temp.empty_deleted();
SELECT is(count(*), 0::bigint, 'its signals too') FROM pgqrs_run_signals;

SELECT * FROM finish();
