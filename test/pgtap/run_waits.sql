-- Steps that wait: pause and resume, sleep, signals.  F28.
-- F-numbers: docs/design/known-failures.md.
\ir include/runs.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_workflow('job', visibility_timeout => '10 min', max_crashes => 3) \g /dev/null
SELECT pgqrs_create_workflow('late', timeout => '1 h') \g /dev/null

-- What is seen of a run, and of its message; the seconds until it can be claimed.
CREATE FUNCTION pg_temp.state(run bigint) RETURNS text LANGUAGE sql AS
$$
	SELECT concat_ws(', ', r.status, r.waiting_for, CASE WHEN r.paused_at IS NOT NULL THEN 'paused' END, CASE
		WHEN m.lease IS NOT NULL THEN 'held' END)
	FROM pgqrs_workflow_runs r LEFT JOIN pgqrs_messages m USING (run_id) WHERE r.run_id = run
$$;
CREATE FUNCTION pg_temp.left(run bigint) RETURNS numeric LANGUAGE sql AS
$$ SELECT CASE WHEN isfinite(visible_after) THEN ceil(extract(epoch FROM visible_after - clock_timestamp()) / 60) * 60
	END
	FROM pgqrs_messages WHERE run_id = run $$;
CREATE FUNCTION pg_temp.step(run bigint, step text) RETURNS text LANGUAGE sql AS
$$ SELECT concat_ws(' ', kind, status, attempt, output, error->>'type', reason) FROM pgqrs_steps WHERE run_id = run
	AND step_id = step $$;

--
-- Pause
--

SELECT * FROM pg_temp.start('job') \gset
SELECT is(pgqrs_pause_run(:run, :lease, 'approve', reason => '"ask"')::text, '(f,)',
	'a pause without a resume suspends the run');
SELECT is(pg_temp.state(:run), 'PAUSED, pause approve, paused', 'a suspended run is PAUSED without a lease');
SELECT is(round(pg_temp.left(:run), -1), 3600::numeric, 'a suspended run is checked again after an hour');
SELECT is(pg_temp.step(:run, 'approve'), 'PAUSE PAUSED 1 "ask"', 'the step of a pause stores the reason');
SELECT is(pg_temp.answer(format('SELECT pgqrs_pause_run(%s, %s, ''approve'')', :run, :lease)), 'PQ006',
	'the lease is refused after the run was suspended');
SELECT is_empty($$SELECT * FROM pgqrs_dequeue('job')$$, 'a claim does not return a suspended run before check_after');
SELECT is(waiting_for, 'pause approve', 'a suspended run shows what it waits for') FROM pgqrs_get_run(:run);

-- Delivered to look by itself.
SELECT pg_temp.claim(:run) AS lease \gset
SELECT is(pg_temp.state(:run), 'RUNNING, held', 'a claim returns the suspended run after check_after');
SELECT is(failures, 0, 'the claim of a suspended run counts no failure') FROM pgqrs_messages WHERE run_id = :run;
SELECT is(pgqrs_pause_run(:run, :lease, 'approve', check_after => '5 min')::text, '(f,)',
	'a second pause without a resume suspends the run again');
SELECT is(pg_temp.left(:run), 300::numeric, 'the second pause takes the check_after of its call');
SELECT is(pg_temp.step(:run, 'approve'), 'PAUSE PAUSED 2 "ask"',
	'the second pause counts an attempt and keeps the reason');

-- Resumed.
SELECT is(pgqrs_resume_run(:run, output => '{"ok": 1}'), true,
	'resuming a run without a step resumes the pause in which it waits');
SELECT is(pgqrs_resume_run(:run, output => '2'), false,
	'a second resume without a step says that it was resumed before');
SELECT is(pgqrs_resume_run(:run, 'approve', '2'), false,
	'a second resume of the step says that it was resumed before');
SELECT ok(pg_temp.left(:run) <= 0, 'a resumed run is due at once');
SELECT is(pg_temp.state(:run), 'PAUSED, pause approve, paused', 'a resumed run is PAUSED until a claim takes it');
SELECT lease FROM pgqrs_dequeue('job') \gset
SELECT is(pgqrs_pause_run(:run, :lease, 'approve')::text, '(t,"{""ok"": 1}")',
	'the pause of a resumed run returns the output of the resume');
SELECT is(pgqrs_pause_run(:run, :lease, 'approve')::text, '(t,"{""ok"": 1}")',
	'a repeated pause returns the same output');
SELECT is(pg_temp.state(:run), 'RUNNING, held', 'a pause that was resumed does not suspend the run');

-- Resumed before.
SELECT is(pgqrs_resume_run(:run, 'sign', NULL), true, 'a pause can be resumed before it begins');
SELECT is(pgqrs_resume_run(:run, 'sign', '1'), false,
	'a second resume before the pause says that it was resumed before');
SELECT is(pgqrs_pause_run(:run, :lease, 'sign')::text, '(t,null)',
	'a pause that was resumed before does not suspend the run; NULL is JSON null');
SELECT is(pgqrs_resume_run(:run), false, 'resuming a run that is not suspended, without a step, resumes nothing');
SELECT pgqrs_step_begin(:run, :lease, 'work') \g /dev/null
SELECT is(pg_temp.answer(format('SELECT pgqrs_resume_run(%s, ''work'')', :run)),
	'PQ016 The kind of the step is FUNCTION.', 'resuming a step of another kind is refused');
SELECT is(pg_temp.answer(format('SELECT pgqrs_pause_run(%s, %s, ''work'')', :run, :lease)),
	'PQ016 The kind of the step is FUNCTION.', 'a pause is refused at a step of another kind');
SELECT is(pg_temp.answer(format('SELECT pgqrs_step_begin(%s, %s, ''sign'')', :run, :lease)),
	'PQ016 The kind of the step is PAUSE.', 'a step of a pause is refused as a function');

-- Resumed before at what turns out to be no pause: the resume is dropped.
SELECT is(pgqrs_resume_run(:run, id, '1'), true, id || ' is resumed before it has begun')
	FROM unnest('{typo,nap,mail,call}'::text[]) AS id;
SELECT is((pgqrs_step_begin(:run, :lease, 'typo')).status, 'RUNNING',
	'a function begins at a step that was resumed before');
SELECT is(pg_temp.step(:run, 'typo'), 'FUNCTION RUNNING 1', 'the step of a function keeps nothing of the resume');
SELECT is(pgqrs_step_complete(:run, :lease, 'typo', '2'), true, 'the step of a function is completed');
SELECT is(pgqrs_sleep(:run, :lease, 'nap', '0'), true, 'a sleep begins at a step that was resumed before');
SELECT is(pg_temp.step(:run, 'nap'), 'SLEEP SUCCESS 1 null', 'the step of a sleep keeps nothing of the resume');
SELECT is(pgqrs_cancel_run(pgqrs_start_child(:run, :lease, 'call', 'job')), 'CANCELLED',
	'a child is started at a step that was resumed before, and cancelled');
SELECT is(pg_temp.step(:run, 'call'), 'CHILD RUNNING 1', 'the step of a child keeps nothing of the resume');
SELECT is(pgqrs_await_signal(:run, :lease, 'mail', 'letter', timeout => '0')::text, '(f,t,,)',
	'a wait for a signal at a step that was resumed before times out');

-- Another pause than the one in which the run waits.
SELECT pgqrs_pause_run(:run, :lease, 'second') \g /dev/null
SELECT is(pgqrs_resume_run(:run, 'third', '3'), true,
	'another pause than the one at which the run waits can be resumed');
SELECT is(pg_temp.left(:run), 3600::numeric, 'resuming another pause does not wake the run');
SELECT is(pgqrs_resume_run(:run, 'second', '2'), true, 'the pause at which the run waits is resumed');
SELECT ok(pg_temp.left(:run) <= 0, 'resuming the pause at which the run waits wakes it');
SELECT pg_temp.claim(:run) AS lease \gset
SELECT pgqrs_complete_run(:run, :lease);
SELECT is(pg_temp.answer(format('SELECT pgqrs_resume_run(%s)', :run)), 'PQ016 The status is SUCCESS.',
	'resuming an ended run is refused');

-- Resumed while it is delivered: the worker that asks gets it.
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_pause_run(:run, :lease, 'p', '0') \g /dev/null
SELECT lease FROM pgqrs_dequeue('job') \gset
SELECT is(pgqrs_resume_run(:run, 'p', '1'), true, 'a pause is resumed while a worker holds the run');
SELECT ok(pg_temp.left(:run) > 500, 'resuming a run under a lease leaves the lease as it was');
SELECT is(pgqrs_pause_run(:run, :lease, 'p')::text, '(t,1)',
	'the worker that holds the run gets the output at its pause');
SELECT pgqrs_complete_run(:run, :lease);

--
-- Crashes are forgotten where a run is suspended or a wait is over
--

SELECT * FROM pg_temp.start('job') \gset
SELECT pg_temp.claim(:run) \g /dev/null
SELECT pg_temp.claim(:run) AS lease \gset
SELECT is(failures, 2, 'two leases that ran out are two failures of the message') FROM pgqrs_messages
	WHERE run_id = :run;
SELECT pgqrs_sleep(:run, :lease, 's', '1 h') \g /dev/null
SELECT is(failures, 0, 'suspending the run resets the failures of the message') FROM pgqrs_messages WHERE run_id = :run;
SELECT pg_temp.claim(:run) \g /dev/null
SELECT pg_temp.claim(:run) AS lease \gset
SELECT is(failures, 1, 'a lease that ran out after that is one failure') FROM pgqrs_messages WHERE run_id = :run;
SELECT pgqrs_sleep(:run, :lease, 't', '0') \g /dev/null
SELECT is(failures, 0, 'a wait that is over at once resets the failures of the message') FROM pgqrs_messages
	WHERE run_id = :run;
SELECT pgqrs_complete_run(:run, :lease);

--
-- Sleep
--

SELECT * FROM pg_temp.start('job') \gset
SELECT is(pgqrs_sleep(:run, :lease, 'none', '0'), true, 'a sleep of no time is over at once');
SELECT is(pgqrs_sleep(:run, :lease, 'past', until => '2000-01-01'), true,
	'a sleep until a past instant is over at once');
SELECT is(pg_temp.step(:run, 'past'), 'SLEEP SUCCESS 1 null', 'a sleep that is over at once is SUCCESS');
SELECT is(pgqrs_sleep(:run, :lease, 'nap', '1 h'), false, 'a sleep suspends the run');
SELECT is(pg_temp.state(:run), 'PAUSED, sleep nap, paused', 'a sleeping run is PAUSED without a lease');
SELECT is(pg_temp.left(:run), 3600::numeric, 'a sleeping run is due after the sleep');
SELECT (input->>'until')::timestamptz AS until FROM pgqrs_steps WHERE run_id = :run AND step_id = 'nap' \gset
SELECT is(visible_after, :'until', 'a sleeping run is due at the stored instant, to the microsecond')
	FROM pgqrs_messages WHERE run_id = :run;
SELECT is(pgqrs_resume_run(:run), false, 'resuming without a step does not resume a sleep');
SELECT is(pg_temp.answer(format('SELECT pgqrs_resume_run(%s, ''nap'')', :run)), 'PQ016 The kind of the step is SLEEP.',
	'resuming the step of a sleep is refused');

-- Delivered early: the first call has fixed when it ends.
SELECT pg_temp.claim(:run) AS lease \gset
SELECT is(pgqrs_sleep(:run, :lease, 'nap', '1 s'), false, 'a sleep that is called early suspends the run again');
SELECT is(visible_after, :'until', 'the first call of a sleep has fixed its end') FROM pgqrs_messages
	WHERE run_id = :run;
SELECT pg_temp.claim(:run) AS lease \gset
UPDATE pgqrs_workflow_steps SET input = jsonb_build_object('until', clock_timestamp()) WHERE run_id = :run
	AND step_id = 'nap';
SELECT is(pgqrs_sleep(:run, :lease, 'nap', '1 h'), true, 'a sleep is over once its instant has passed');
SELECT is(pg_temp.step(:run, 'nap'), 'SLEEP SUCCESS 3 null',
	'the step of a sleep that is over is SUCCESS and counts its attempts');
SELECT is(pgqrs_sleep(:run, :lease, 'nap', '1 h'), true, 'a sleep that is over stays so');
SELECT is(pgqrs_sleep(:run, :lease, 'long', until => '294276-12-31'), false,
	'a sleep until the last timestamp suspends the run');
SELECT is(pg_temp.answer(format('SELECT pgqrs_sleep(%s, 1, ''x'', ''1 s'', now())', :run)), '22023',
	'a sleep with both duration and instant is refused');
SELECT is(pg_temp.answer(format('SELECT pgqrs_sleep(%s, 1, ''x'')', :run)), '22004',
	'a sleep with neither duration nor instant is refused');
SELECT pgqrs_cancel_run(:run) \g /dev/null

-- In whatever time zone and style, it is the same instant.
SELECT * FROM pg_temp.start('job') \gset
SET timezone = 'America/New_York';
SET datestyle = 'German';
SELECT pgqrs_sleep(:run, :lease, 'z', until => '2100-07-04 12:00:00.123456+00') \g /dev/null
RESET timezone;
RESET datestyle;
SELECT is(visible_after, '2100-07-04 12:00:00.123456+00',
	'a sleep ends at the same instant whatever time zone and date style the session has') FROM pgqrs_messages
	WHERE run_id = :run;
SELECT pg_temp.claim(:run) AS lease \gset
SET datestyle = 'SQL, DMY';
SELECT is(pgqrs_sleep(:run, :lease, 'z', '0'), false, 'a sleep called in another date style suspends the run again');
RESET datestyle;
SELECT is(visible_after, '2100-07-04 12:00:00.123456+00', 'a sleep called in another date style keeps its end')
	FROM pgqrs_messages WHERE run_id = :run;
SELECT pgqrs_cancel_run(:run) \g /dev/null

-- A deadline counts over a sleep.
SELECT * FROM pg_temp.start('late') \gset
SELECT pgqrs_sleep(:run, :lease, 's', '2 h') \g /dev/null
SELECT pg_temp.late(:run) \g /dev/null
SELECT is((pgqrs_maintain()->'runs_timed_out')::text, '1', 'a pass ends a sleeping run past its deadline');
SELECT is((status, error->>'type')::text, '(ERROR,timeout)',
	'a sleeping run past its deadline is in ERROR for timeout') FROM pgqrs_result(:run);
SELECT is((waiting_for, paused_at, completed_at IS NOT NULL)::text, '(,,t)',
	'a sleeping run past its deadline waits for nothing') FROM pgqrs_get_run(:run);
-- Replayed, it sleeps until the same time.
SELECT input AS input FROM pgqrs_steps WHERE run_id = :run \gset
SELECT pgqrs_replay_message(:run) \g /dev/null
SELECT pg_temp.claim(:run) AS lease \gset
SELECT is(pgqrs_sleep(:run, :lease, 's', '0'), false, 'a replayed run goes on sleeping');
SELECT is(input, :'input'::jsonb, 'a replayed run sleeps until the same instant') FROM pgqrs_steps
	WHERE run_id = :run;
SELECT pgqrs_cancel_run(:run) \g /dev/null

--
-- Signals
--

SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_signal(:run, 'go', '1') AS s1, pgqrs_signal(:run, 'other', '"other"') AS other, pgqrs_signal(:run, 'go',
	'2', headers => '{"h": 1}') AS s2, pgqrs_signal(:run, 'go') AS s3 \gset
SELECT ok(:s1 < :s2 AND :s2 < :s3, 'ids of signals ascend');
SELECT is(pgqrs_await_signal(:run, :lease, 'a', 'go')::text, '(t,f,1,)',
	'a wait takes the oldest signal that was sent before');
SELECT is(pgqrs_await_signal(:run, :lease, 'a', 'go')::text, '(t,f,1,)', 'a repeated wait returns the same signal');
SELECT is(pgqrs_await_signal(:run, :lease, 'b', 'go')::text, '(t,f,2,"{""h"": 1}")',
	'the next wait takes the next signal');
SELECT is(pgqrs_await_signal(:run, :lease, 'c', 'go')::text, '(t,f,null,)',
	'a signal without a payload has JSON null');
SELECT is(pg_temp.state(:run), 'RUNNING, held', 'waits for signals that are there do not suspend the run');
SELECT results_eq(format('SELECT signal_id, consumed_by, payload FROM pgqrs_run_signals WHERE run_id = %s ORDER BY 1',
	:run),
	format($$VALUES (%s::bigint, 'a' COLLATE "C", '1'::jsonb), (%s, NULL, '"other"'), (%s, 'b', '2'),
		(%s, 'c', NULL)$$, :s1, :other, :s2, :s3), 'each signal is taken by one step');

SELECT is(pgqrs_await_signal(:run, :lease, 'b', 'go')::text, '(t,f,2,"{""h"": 1}")',
	'a repeated wait returns the headers of its signal');
SELECT is(pgqrs_await_signal(:run, :lease, 'd', 'go')::text, '(f,f,,)', 'a wait without a signal suspends the run');
SELECT is(pg_temp.state(:run), 'PAUSED, signal go, paused',
	'a run that waits for a signal is PAUSED without a lease');
SELECT is(visible_after, 'infinity', 'a wait without a timeout is never due by itself') FROM pgqrs_messages
	WHERE run_id = :run;
SELECT pgqrs_signal(:run, 'more') \g /dev/null
SELECT is(visible_after, 'infinity', 'a signal of another name does not wake the run') FROM pgqrs_messages
	WHERE run_id = :run;
SELECT is((pgqrs_maintain()->'runs_woken')::text, '0', 'a pass does not wake a run for a signal of another name');
SELECT pgqrs_signal(:run, 'go', '4') \g /dev/null
SELECT ok(pg_temp.left(:run) <= 0, 'the signal that the run waits for wakes it');
SELECT lease FROM pgqrs_dequeue('job') \gset
SELECT is(pgqrs_await_signal(:run, :lease, 'd', 'go')::text, '(t,f,4,)', 'the woken run takes the signal');
SELECT is(pgqrs_await_signal(:run, :lease, 'd2', 'other')::text, '(t,f,"""other""",)',
	'signals of other names stay for their waits');

-- A signal that is rolled back is none.
SELECT is(pgqrs_await_signal(:run, :lease, 'e', 'go')::text, '(f,f,,)',
	'a wait without a signal suspends the run again');
BEGIN;
SELECT pgqrs_signal(:run, 'go') \g /dev/null
ROLLBACK;
SELECT is(visible_after, 'infinity', 'a signal that is rolled back does not wake the run') FROM pgqrs_messages
	WHERE run_id = :run;

-- If no transaction saw it in time, a pass finds it.
INSERT INTO pgqrs_run_signals (signal_id, run_id, sent_at, name) VALUES (nextval('pgqrs_signal_id_seq'), :run, now(),
	'go');
SELECT is((pgqrs_maintain()->'runs_woken')::text, '1', 'a pass wakes a run whose signal woke nothing');
SELECT is((pgqrs_maintain()->'runs_woken')::text, '0', 'a second pass does not wake the run again');
SELECT lease FROM pgqrs_dequeue('job') \gset
SELECT is(pgqrs_await_signal(:run, :lease, 'e', 'go')::text, '(t,f,null,)',
	'the run woken by a pass takes the signal');

-- Time-outs.
SELECT is(pgqrs_await_signal(:run, :lease, 'f', 'go', '0')::text, '(f,t,,)', 'a wait with timeout 0 answers at once');
SELECT is(pgqrs_await_signal(:run, :lease, 'g', 'go', '10 min')::text, '(f,f,,)',
	'a wait with a timeout suspends the run');
SELECT is(pg_temp.left(:run), 600::numeric, 'a wait with a timeout is due at its end');
SELECT pg_temp.claim(:run) AS lease \gset
SELECT is(pgqrs_await_signal(:run, :lease, 'g', 'go', '1 h')::text, '(f,f,,)',
	'a wait that is called early suspends the run again');
SELECT ok(pg_temp.left(:run) BETWEEN 540 AND 600, 'the first call of a wait has fixed its end');
SELECT pg_temp.claim(:run) AS lease \gset
UPDATE pgqrs_workflow_steps SET input = input || jsonb_build_object('deadline', clock_timestamp()) WHERE run_id = :run
	AND step_id = 'g';
SELECT is(pgqrs_await_signal(:run, :lease, 'g', 'go', '1 h')::text, '(f,t,,)',
	'a wait times out once its end has passed');
SELECT is(pg_temp.step(:run, 'g'), 'SIGNAL SUCCESS 3 null wait_timeout', 'the step of a wait that timed out says so');
SELECT pgqrs_signal(:run, 'go', '"late"') \g /dev/null
SELECT is(pgqrs_await_signal(:run, :lease, 'g', 'go')::text, '(f,t,,)',
	'a wait that timed out stays so when the signal comes later');
SELECT is(pgqrs_await_signal(:run, :lease, 'h', 'go', '0')::text, '(t,f,"""late""",)',
	'a signal that came too late for one wait is taken by the next');
SELECT pgqrs_await_signal(:run, :lease, 'i', 'go', '1 h') \g /dev/null
SELECT pgqrs_signal(:run, 'go', '"in time"') \g /dev/null
UPDATE pgqrs_workflow_steps SET input = input || jsonb_build_object('deadline', clock_timestamp()) WHERE run_id = :run
	AND step_id = 'i';
SELECT lease FROM pgqrs_dequeue('job') \gset
SELECT is(pgqrs_await_signal(:run, :lease, 'i', 'go')::text, '(t,f,"""in time""",)',
	'a wait takes a signal that is there although its end has passed');

-- Keys.
SELECT pgqrs_signal(:run, 'keyed', '1', 'key') AS first \gset
SELECT is(pgqrs_signal(:run, 'keyed', '2', 'key'), :first::bigint,
	'a second signal with a key returns the id of the first one');
SELECT is(pgqrs_await_signal(:run, :lease, 'j', 'keyed')::text, '(t,f,1,)',
	'a wait takes the first signal with the key');
SELECT is(pgqrs_signal(:run, 'keyed', '2', 'key'), :first::bigint, 'the key of a signal that was taken is taken');
SELECT is(pgqrs_await_signal(:run, :lease, 'k', 'keyed', '0')::text, '(f,t,,)',
	'a second signal with the key was not sent');
SELECT run AS another FROM pg_temp.start('job') \gset
SELECT isnt(pgqrs_signal(:another, 'keyed', '2', 'key'), :first::bigint, 'a key of signals belongs to its run');

SELECT pgqrs_complete_run(:run, :lease);
SELECT is(pg_temp.answer(format('SELECT pgqrs_signal(%s, ''go'')', :run)), 'PQ016 The status is SUCCESS.',
	'a signal to an ended run is refused');
SELECT is(pgqrs_signal(:run, 'keyed', '2', 'key'), :first::bigint,
	'a signal to an ended run with a key that it had returns the first id');

-- Many at once, in order.
SELECT * FROM pg_temp.start('job') \gset
SELECT count(pgqrs_signal(:run, 'n', to_jsonb(g))) FROM generate_series(1, 100) g \g /dev/null
SELECT is(array_agg((pgqrs_await_signal(:run, :lease, 's' || g, 'n')).payload::int ORDER BY g),
	array_agg(g ORDER BY g), 'a hundred waits take a hundred signals in order') FROM generate_series(1, 100) g;
-- They go with the workflow.
SELECT is(pgqrs_delete_workflow('job', true), true, 'the workflow is deleted');
SELECT pg_temp.empty_deleted();
SELECT is(count(*), 0::bigint, 'the signals are removed with the workflow') FROM pgqrs_run_signals;

SELECT * FROM finish();
