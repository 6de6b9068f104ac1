-- Steps that wait for the first of several: signals, children, a time.
\ir include/runs.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_workflow('job', visibility_timeout => '10 min', max_crashes => 3), pgqrs_create_workflow('child'),
	pgqrs_create_workflow('late', timeout => '1 h') \g /dev/null

CREATE FUNCTION pg_temp.state(run bigint) RETURNS text LANGUAGE sql AS
$$
	SELECT concat_ws(', ', r.status, r.waiting_for, CASE WHEN m.visible_after <= clock_timestamp() THEN 'due' END)
	FROM pgqrs_workflow_runs r LEFT JOIN pgqrs_messages m USING (run_id) WHERE r.run_id = run
$$;
CREATE FUNCTION pg_temp.step(run bigint, step text) RETURNS text LANGUAGE sql AS
$$ SELECT concat_ws(' ', kind, status, attempt, input, output, error) FROM pgqrs_steps WHERE run_id = run
	AND step_id = step $$;
CREATE FUNCTION pg_temp.complete(child bigint, output jsonb) RETURNS boolean LANGUAGE sql AS
$$ SELECT pgqrs_complete_run(child, pg_temp.claim(child), output) $$;

--
-- A signal
--

SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_start_child(:run, :lease, 'c', 'child') AS child \gset
SELECT is(pgqrs_await_any(:run, :lease, 'first', '{yes,no}', '{c}', '1 h')::text, '(f,,,)',
	'a wait for the first of several answers that none is there');
SELECT is(pg_temp.state(:run), 'PAUSED, any of first', 'the run waits without a lease');
SELECT is((waiting_for, visible_after > clock_timestamp() + '50 min')::text, '("any of first",t)',
	'the message waits until the time-out') FROM pgqrs_messages WHERE run_id = :run;
SELECT is(concat_ws(' ', kind, status, input - 'deadline'), format('ANY PAUSED {"run_ids": [%s], "signals": '
	'["yes", "no"], "children": ["c"]}', :child),
		'the step is listed with what it waits for') FROM pgqrs_list_steps(:run)
	WHERE step_id = 'first';
SELECT pgqrs_signal(:run, 'other') \g /dev/null
SELECT is(pg_temp.state(:run), 'PAUSED, any of first', 'a signal of another name does not wake the run');
SELECT pgqrs_signal(:run, 'no', '{"why": 1}') \g /dev/null
SELECT is(pg_temp.state(:run), 'PAUSED, any of first, due', 'a signal of one of the names wakes the run');
SELECT pg_temp.claim(:run) AS lease \gset
SELECT is(pgqrs_await_any(:run, :lease, 'first', '{yes,no}', '{c}', '1 h')::text,
	'(t,signal,no,"{""why"": 1}")', 'the wait returns the signal that came');
SELECT is(pgqrs_await_any(:run, :lease, 'first', '{yes,no}', '{c}', '1 h')::text,
	'(t,signal,no,"{""why"": 1}")', 'a second call returns the stored answer');
SELECT is(pgqrs_await_any(:run, :lease, 'first', '{other}')::text, '(t,signal,no,"{""why"": 1}")',
	'the stored answer does not depend on what the call names');
SELECT is(consumed_by, 'first', 'the signal is used up') FROM pgqrs_run_signals WHERE run_id = :run AND name = 'no';
SELECT is(pg_temp.step(:run, 'first'), 'ANY SUCCESS 2 {"name": "no", "source": "signal"} '
	'{"name": "no", "source": "signal", "payload": {"why": 1}}', 'the step stores what it has taken');
SELECT is(pgqrs_await_any(:run, :lease, 'none', '{other,x}')::text, '(t,signal,other,null)',
	'a signal without a payload has a JSON null, and one sent before the wait is there');

-- A child.
SELECT is(pgqrs_await_any(:run, :lease, 'second', '{yes}', '{c}')::text, '(f,,,)', 'the next wait has no answer yet');
SELECT is(pg_temp.complete(:child, '{"a": 1}'), true, 'the child ends');
SELECT is(pg_temp.state(:run), 'PAUSED, any of second, due', 'the end of one of the children wakes the run');
SELECT pg_temp.claim(:run) AS lease \gset
SELECT is(pgqrs_await_any(:run, :lease, 'second', '{yes}', '{c}')::text,
	'(t,child,c,"{""error"": null, ""output"": {""a"": 1}, ""status"": ""SUCCESS""}")',
	'the wait returns the end of the child');
SELECT is(left(pg_temp.step(:run, 'c'), 15), 'CHILD SUCCESS 2', 'the child''s own step has ended with it');
SELECT is(pgqrs_await_child(:run, :lease, 'c')::text, '(t,SUCCESS,"{""a"": 1}",)',
	'the child is not used up: awaiting it answers, too');
SELECT is(pg_temp.answer(format('SELECT pgqrs_await_any(%s, %s, ''third'', children => ''{c}'')', :run, :lease)),
	'22023 Earlier steps have returned each of the children.',
	'a later wait leaves the child out, and refuses to wait for nothing');
SELECT is(pgqrs_await_any(:run, :lease, 'third', '{yes}', '{c}')::text, '(f,,,)',
	'a later wait leaves the child out, and waits for the rest');
SELECT is(input, '{"run_ids": [], "signals": ["yes"], "children": []}', 'the child that is left out wakes no more')
	FROM pgqrs_list_steps(:run) WHERE step_id = 'third';
SELECT is((pgqrs_maintain()->'runs_woken')::text, '0', 'a pass wakes no run whose wait is not over');
SELECT pgqrs_signal(:run, 'yes') \g /dev/null
SELECT pg_temp.claim(:run) AS lease \gset
SELECT is(pgqrs_await_any(:run, :lease, 'third', '{yes}', '{c}')::text, '(t,signal,yes,null)',
	'the run goes on with the signal');

--
-- Time-outs
--

SELECT is(pgqrs_await_any(:run, :lease, 'now', '{x}', timeout => '0')::text, '(t,timeout,,)',
	'a time-out that has passed is the answer where none of the others is there');
SELECT is(pgqrs_await_any(:run, :lease, 'now', '{x}', timeout => '0')::text, '(t,timeout,,)',
	'a time-out is stored, too');
SELECT is(pg_temp.step(:run, 'now'), 'ANY SUCCESS 1 {"source": "timeout"} '
	'{"name": null, "source": "timeout", "payload": null}', 'a step that has timed out is SUCCESS');
SELECT pgqrs_signal(:run, 'x', '1') \g /dev/null
SELECT is(pgqrs_await_any(:run, :lease, 'now', '{x}')::text, '(t,timeout,,)', 'a later signal does not change it');
SELECT is(pgqrs_await_any(:run, :lease, 'there', '{x}', timeout => '0')::text, '(t,signal,x,1)',
	'a signal that is there wins over a time-out that has passed');
SELECT is(pgqrs_await_any(:run, :lease, 'pause', '{z}', timeout => '1 h')::text, '(f,,,)', 'the run waits');
SELECT pg_temp.claim(:run) AS lease \gset
SELECT is(pgqrs_await_any(:run, :lease, 'pause', '{z}', timeout => '0')::text, '(f,,,)',
	'the first call sets the time-out');
UPDATE pgqrs_workflow_steps SET input = input || '{"deadline": "2020-01-01T00:00:00+00:00"}'
	WHERE run_id = :run AND step_id = 'pause';
SELECT pgqrs_signal(:run, 'z', '2') \g /dev/null
SELECT pg_temp.claim(:run) AS lease \gset
SELECT is(pgqrs_await_any(:run, :lease, 'pause', '{z}')::text, '(t,signal,z,2)',
	'a signal that came after the time-out, but before the call, wins');
SELECT is(pgqrs_await_any(:run, :lease, 'only', timeout => '1 h')::text, '(f,,,)', 'a wait for a time alone waits');
SELECT pg_temp.claim(:run) AS lease \gset
UPDATE pgqrs_workflow_steps SET input = input || '{"deadline": "2020-01-01T00:00:00+00:00"}'
	WHERE run_id = :run AND step_id = 'only';
SELECT is(pgqrs_await_any(:run, :lease, 'only', timeout => '1 h')::text, '(t,timeout,,)',
	'a wait for a time alone ends with its time-out');
-- The same of pgqrs_await_signal().
SELECT is(pgqrs_await_signal(:run, :lease, 'one', 'w', '1 h')::text, '(f,f,,)', 'a wait for one signal waits');
UPDATE pgqrs_workflow_steps SET input = input || '{"deadline": "2020-01-01T00:00:00+00:00"}'
	WHERE run_id = :run AND step_id = 'one';
SELECT pgqrs_signal(:run, 'w', '3') \g /dev/null
SELECT pg_temp.claim(:run) AS lease \gset
SELECT is(pgqrs_await_signal(:run, :lease, 'one', 'w', '1 h')::text, '(t,f,3,)',
	'a signal that is there when pgqrs_await_signal() is called wins over a time-out that has passed');
SELECT is(pgqrs_complete_run(:run, :lease), true, 'the run ends');

--
-- The first of several
--

SELECT * FROM pg_temp.start('job') \gset
SELECT cardinality(pgqrs_start_children(:run, :lease, 'm', 'child', '{1,2,3}')) \g /dev/null
SELECT pgqrs_signal(:run, 'a', '1') \g /dev/null
SELECT pg_temp.complete((input->>'run_id')::bigint, '"three"') FROM pgqrs_list_steps(:run)
	WHERE step_id = 'm[3]' \g /dev/null
SELECT pgqrs_signal(:run, 'b', '2') \g /dev/null
SELECT pg_temp.complete((input->>'run_id')::bigint, '"one"') FROM pgqrs_list_steps(:run)
	WHERE step_id = 'm[1]' \g /dev/null
CREATE FUNCTION pg_temp.next(run bigint, lease bigint, step text) RETURNS text LANGUAGE sql AS
$$ SELECT concat_ws(' ', source, name, coalesce(payload->>'output', payload::text))
	FROM pgqrs_await_any(run, lease, step, '{b,a}', '{m[1],m[2],m[3]}', '0') $$;
SELECT is(ARRAY[pg_temp.next(:run, :lease, '1'), pg_temp.next(:run, :lease, '2'), pg_temp.next(:run, :lease, '3'),
	pg_temp.next(:run, :lease, '4'), pg_temp.next(:run, :lease, '5')],
	'{signal a 1,child m[3] three,signal b 2,child m[1] one,timeout}',
	'each signal and child is returned once, the one that was sent or ended first before the others');
UPDATE pgqrs_run_signals SET consumed_by = NULL, sent_at = '2026-01-01' WHERE run_id = :run;
SELECT is(pg_temp.next(:run, :lease, '6'), 'signal a 1',
	'of two signals of the same time the one with the lower id is returned');
SELECT is(pg_temp.answer(format('SELECT pgqrs_await_any(%s, %s, ''s'', children => ''{m}'')', :run, :lease)),
	'PQ016 The children were started with pgqrs_start_children().',
		'the step of pgqrs_start_children() names no child');
SELECT is(pg_temp.answer(format('SELECT pgqrs_await_any(%s, %s, ''s'', children => ''{m[2],nothing}'')', :run,
	:lease)), 'PQ016 No call has started a child under this step id.', 'a child that was not started is refused');
SELECT is(pg_temp.answer(format('SELECT pgqrs_await_any(%s, %s, ''s'', children => ''{1}'')', :run, :lease)),
	'PQ016 The kind of the step is ANY.', 'a step that is no child is refused');
SELECT is(pg_temp.answer(format('SELECT pgqrs_await_any(%s, %s, ''m[2]'', ''{a}'')', :run, :lease)),
	'PQ016 The kind of the step is CHILD.', 'a step id keeps its kind');

-- A child that fails, and one that was deleted.
SELECT pgqrs_start_child(:run, :lease, 'bad', 'child') AS bad \gset
SELECT pgqrs_fail_run(:bad, pg_temp.claim(:bad), '{"type": "x"}') \g /dev/null
SELECT is(payload, '{"status": "ERROR", "output": null, "error": {"type": "x"}}',
	'the end of a failed child has its error') FROM pgqrs_await_any(:run, :lease, '7', children => '{bad}');
SELECT is((pgqrs_await_child(:run, :lease, 'bad')).status, 'ERROR', 'awaiting the failed child answers the same');
SELECT pgqrs_start_child(:run, :lease, 'known', 'child') AS known \gset
SELECT pg_temp.complete(:known, '1'), pgqrs_await_child(:run, :lease, 'known') \g /dev/null
SELECT is(name, 'known', 'a child that was awaited before is there, too')
	FROM pgqrs_await_any(:run, :lease, '8', children => '{known}');
SELECT pgqrs_start_child(:run, :lease, 'gone', 'child') AS gone \gset
SELECT is(ready, false, 'the run waits for the child') FROM pgqrs_await_any(:run, :lease, '9', children => '{gone}');
SELECT pgqrs_cancel_run(:gone, 'enough') \g /dev/null
SELECT is(pg_temp.state(:run), 'PAUSED, any of 9, due', 'a child that is cancelled wakes the run');
SELECT pg_temp.claim(:run) AS lease \gset
SELECT is(payload, '{"status": "CANCELLED", "output": null, "error": {"type": "cancelled", "message": "enough"}}',
	'a child that was cancelled has ended') FROM pgqrs_await_any(:run, :lease, '9', children => '{gone}');

--
-- Reruns and replays keep stored answers
--

SELECT is(pgqrs_fail_run(:run, :lease, '{}'), NULL, 'the run fails');
SELECT pgqrs_replay_message(:run) \g /dev/null
SELECT pg_temp.claim(:run) AS lease \gset
SELECT is(ARRAY[pg_temp.next(:run, :lease, '1'), pg_temp.next(:run, :lease, '2'), pg_temp.next(:run, :lease, '5')],
	'{signal a 1,child m[3] three,timeout}', 'a replay keeps the stored answers');
SELECT is(pgqrs_complete_run(:run, :lease), true, 'the replayed run ends');
SELECT pgqrs_rerun(:run, keep_finished => true) AS again \gset
SELECT pg_temp.claim(:again) AS lease \gset
SELECT is(ARRAY[pg_temp.next(:again, :lease, '1'), pg_temp.next(:again, :lease, '2'),
	pg_temp.next(:again, :lease, '5')], '{signal a 1,child m[3] three,timeout}', 'a rerun keeps the stored answers');
SELECT is(pgqrs_await_child(:again, :lease, 'm[3]')::text, '(t,SUCCESS,"""three""",)',
	'a rerun keeps a child whose end was returned');
SELECT is(pg_temp.answer(format('SELECT pgqrs_await_any(%s, %s, ''new'', children => ''{m[1],m[3]}'')', :again,
	:lease)), '22023 Earlier steps have returned each of the children.',
	'the waits of a rerun leave out what its kept steps returned');
SELECT pgqrs_cancel_run(:again), pgqrs_acknowledge_cancel(:again, :lease) \g /dev/null

-- A replay starts a failed child anew, and its end counts.
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_start_child(:run, :lease, 'c', 'child') AS child \gset
SELECT pgqrs_fail_run(:run, :lease, '{}'), pgqrs_replay_message(:run) \g /dev/null
SELECT pg_temp.claim(:run) AS lease \gset
SELECT isnt(pgqrs_start_child(:run, :lease, 'c', 'child'), :child::bigint, 'a replay starts a cancelled child anew');
SELECT is(ready, false, 'the end of the first child does not count')
	FROM pgqrs_await_any(:run, :lease, 'w', children => '{c}');

-- Earlier crashes do not count after an answer, or a wait.
SELECT * FROM pg_temp.start('job') \gset
SELECT pg_temp.due(:run), pgqrs_signal(:run, 'x') \g /dev/null
SELECT pg_temp.claim(:run) AS lease \gset
SELECT is(failures, 1, 'a crash counts') FROM pgqrs_messages WHERE run_id = :run;
SELECT pgqrs_start_child(:run, :lease, 'c', 'child') AS child \gset
SELECT pg_temp.complete(:child, '1') \g /dev/null
SELECT is(name, 'c', 'the wait is over') FROM pgqrs_await_any(:run, :lease, 'w', children => '{c}');
SELECT is(failures, 0, 'crashes count no more after a wait that has ended') FROM pgqrs_messages WHERE run_id = :run;

--
-- Refusals
--

SELECT is(pg_temp.answer(format('SELECT pgqrs_await_any(%s, %s, ''s'')', :run, :lease)), '22023',
	'a wait for nothing is refused');
SELECT is(pg_temp.answer(format('SELECT pgqrs_await_any(%s, %s, ''s'', NULL, NULL, NULL)', :run, :lease)), '22023',
	'a wait whose arguments are NULL is refused as a wait for nothing');
SELECT is(pg_temp.answer(format('SELECT pgqrs_await_any(%s, %s, ''s'', ''{a,a}'')', :run, :lease)) ~ '^22023', true,
	'a name that is given twice is refused');
SELECT pgqrs_cancel_run(:run) \g /dev/null
SELECT is(pg_temp.answer(format('SELECT pgqrs_await_any(%s, %s, ''w'', ''{a}'')', :run, :lease)), 'PQ010',
	'a wait of a run that was asked to stop is refused');

-- The deadline of the run ends the wait.
SELECT * FROM pg_temp.start('late') \gset
SELECT is(ready, false, 'a run with a deadline waits') FROM pgqrs_await_any(:run, :lease, 'w', '{a}');
SELECT pg_temp.late(:run), pgqrs_maintain() \g /dev/null
SELECT is(error->>'type', 'timeout', 'a run that waits ends at its deadline') FROM pgqrs_result(:run);

-- Damaged rows raise no internal error and wake nothing.
SELECT * FROM pg_temp.start('job') \gset
SELECT is(ready, false, 'a run waits') FROM pgqrs_await_any(:run, :lease, 'w', '{a}');
SELECT pg_temp.state(:run) AS before \gset
CREATE TEMP TABLE damage AS SELECT unnest('{"1","{}","[]",null,"{\"signals\": 1}","{\"signals\": [1, null, {}]}",'
	'"{\"signals\": [\"b\"], \"run_ids\": []}"}'::jsonb[]) AS input;
CREATE FUNCTION pg_temp.damaged(run bigint, value jsonb) RETURNS text LANGUAGE plpgsql AS
$$
BEGIN
	UPDATE pgqrs_workflow_steps SET input = value WHERE run_id = run;
	PERFORM pgqrs_signal(run, 'a');
	RETURN pg_temp.state(run);
END
$$;
SELECT is(pg_temp.damaged(:run, input), :'before', 'a damaged wait is not over: ' || coalesce(input::text, 'NULL'))
	FROM damage;

SELECT is_empty('SELECT * FROM pgqrs_verify() WHERE NOT ok AND check_name <> ''messages below floors''',
	'every row of this test is consistent');
SELECT * FROM finish();
