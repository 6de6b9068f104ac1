-- The state machine of steps that wait: every operation in every state of such
-- a step, against the moves of docs/concepts.md.
--
-- A cell is what the call answers, or its SQLSTATE with the DETAIL of a PQ016,
-- and status and attempt of the step after it.
\ir include/runs.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_workflow('job'), pgqrs_create_workflow('child', max_attempts => 1) \g /dev/null

-- A run that is held, with a step s in that state.
CREATE FUNCTION pg_temp.bring(state text, OUT run bigint, OUT lease bigint) LANGUAGE plpgsql AS
$$
DECLARE
	c bigint;
BEGIN
	SELECT * INTO run, lease FROM pg_temp.start('job');
	CASE
		WHEN state LIKE 'paused%' THEN PERFORM pgqrs_pause_run(run, lease, 's');
		WHEN state = 'resumed before' THEN PERFORM pgqrs_resume_run(run, 's', '1');
		WHEN state = 'sleeping' THEN PERFORM pgqrs_sleep(run, lease, 's', '1 h');
		WHEN state = 'over' THEN PERFORM pgqrs_sleep(run, lease, 's', '10 ms');
		WHEN state = 'slept' THEN PERFORM pgqrs_sleep(run, lease, 's', '0');
		WHEN state IN ('waiting', 'signalled') THEN PERFORM pgqrs_await_signal(run, lease, 's', 'go', '1 h');
		WHEN state = 'received' THEN PERFORM pgqrs_signal(run, 'go', '1'), pgqrs_await_signal(run, lease, 's', 'go');
		WHEN state = 'timed out' THEN PERFORM pgqrs_await_signal(run, lease, 's', 'go', '0');
		WHEN state IN ('any', 'any, signalled') THEN PERFORM pgqrs_await_any(run, lease, 's', '{go}', timeout => '1 h');
		WHEN state = 'any, received' THEN
			PERFORM pgqrs_signal(run, 'go', '1'), pgqrs_await_any(run, lease, 's', '{go}');
		WHEN state = 'any, timed out' THEN PERFORM pgqrs_await_any(run, lease, 's', timeout => '0');
		WHEN state LIKE 'child%' THEN
			c := pgqrs_start_child(run, lease, 's', 'child');
			IF state = 'child, awaited' THEN
				PERFORM pgqrs_await_child(run, lease, 's');
			ELSIF state LIKE 'child, well%' THEN
				PERFORM pgqrs_complete_run(c, pg_temp.claim(c), '1');
			ELSIF state LIKE 'child, badly%' THEN
				PERFORM pgqrs_fail_run(c, pg_temp.claim(c), '{"e": 1}');
			END IF;
			IF state LIKE '%known' THEN
				PERFORM pgqrs_await_child(run, lease, 's');
			ELSIF state = 'child, replayed' THEN
				PERFORM pgqrs_fail_run(run, lease, '{}'), pgqrs_replay_message(run);
			END IF;
		ELSE
	END CASE;
	IF state = 'paused, resumed' THEN
		PERFORM pgqrs_resume_run(run, 's', '1');
	ELSIF state IN ('signalled', 'any, signalled') THEN
		PERFORM pgqrs_signal(run, 'go', '1');
	ELSIF state = 'over' THEN
		PERFORM pg_sleep(0.02);
	END IF;
	IF state ~ '^(paused|sleeping|over|waiting|signalled|any$|any, signalled|child, awaited|child, replayed)' THEN
		lease := pg_temp.claim(run);
	END IF;
END
$$;
CREATE TEMP TABLE states (state text PRIMARY KEY, kind text, step text);
INSERT INTO states VALUES ('none', NULL, NULL), ('paused', 'PAUSE', 'PAUSED 1'), ('paused, resumed', 'PAUSE',
	'SUCCESS 1'), ('resumed before', 'PAUSE', 'SUCCESS 0'),
	('sleeping', 'SLEEP', 'PAUSED 1'), ('over', 'SLEEP', 'PAUSED 1'), ('slept', 'SLEEP', 'SUCCESS 1'),
	('waiting', 'SIGNAL', 'PAUSED 1'), ('signalled', 'SIGNAL', 'PAUSED 1'), ('received', 'SIGNAL', 'SUCCESS 1'),
		('timed out', 'SIGNAL', 'SUCCESS 1'),
	('any', 'ANY', 'PAUSED 1'), ('any, signalled', 'ANY', 'PAUSED 1'), ('any, received', 'ANY', 'SUCCESS 1'),
		('any, timed out', 'ANY', 'SUCCESS 1'),
	('child', 'CHILD', 'RUNNING 1'), ('child, awaited', 'CHILD', 'PAUSED 1'), ('child, well', 'CHILD', 'RUNNING 1'),
		('child, badly', 'CHILD', 'RUNNING 1'),
	('child, well, known', 'CHILD', 'SUCCESS 1'), ('child, badly, known', 'CHILD', 'ERROR 1'),
		('child, replayed', 'CHILD', 'PENDING 1');
CREATE TEMP TABLE runs AS SELECT state, b.* FROM states, pg_temp.bring(state) b;
SELECT is(concat_ws(' ', s.status, s.attempt), coalesce(states.step, ''),
	'the test has brought its step into the state ' || state) FROM states JOIN runs USING (state)
	LEFT JOIN pgqrs_workflow_steps s ON run_id = run;

CREATE TEMP TABLE operations (operation text PRIMARY KEY, kind text, call text);
INSERT INTO operations VALUES
	('pause', 'PAUSE', 'SELECT pgqrs_pause_run(RUN, LEASE, ''s'')'),
	('sleep', 'SLEEP', 'SELECT pgqrs_sleep(RUN, LEASE, ''s'', ''1 h'')'),
	('await', 'SIGNAL', 'SELECT pgqrs_await_signal(RUN, LEASE, ''s'', ''go'')'),
	('await any', 'ANY', 'SELECT pgqrs_await_any(RUN, LEASE, ''s'', ''{go}'')'),
	('start', 'CHILD', 'SELECT CASE WHEN pgqrs_start_child(RUN, LEASE, ''s'', ''child'') = (SELECT '
		'(input->>''run_id'')::bigint FROM before) THEN ''same'' ELSE ''new'' END'),
	('await child', 'CHILD', 'SELECT pgqrs_await_child(RUN, LEASE, ''s'')'),
	('start many', 'CHILD', 'SELECT cardinality(pgqrs_start_children(RUN, LEASE, ''s'', ''child'', ''{1}''))'),
	('await many', 'CHILD', 'SELECT pgqrs_await_children(RUN, LEASE, ''s'')'),
	('begin', 'FUNCTION', 'SELECT should_execute FROM pgqrs_step_begin(RUN, LEASE, ''s'')'),
	('complete', 'FUNCTION', 'SELECT pgqrs_step_complete(RUN, LEASE, ''s'')'),
	('fail', 'FUNCTION', 'SELECT outcome FROM pgqrs_step_fail(RUN, LEASE, ''s'', ''{}'')'),
	('resume', 'PAUSE', 'SELECT pgqrs_resume_run(RUN, ''s'', ''2'')'),
	('claim', NULL, 'SELECT pg_temp.claim(RUN) > 0'),
	('signal', NULL, 'SELECT pgqrs_signal(RUN, ''go'') > 0'),
	('fail and replay the run', NULL, 'SELECT concat(pgqrs_fail_run(RUN, LEASE, ''{}''), pgqrs_replay_message(RUN))');

CREATE TEMP TABLE before (input jsonb);
CREATE FUNCTION pg_temp.outcome(run bigint, lease bigint, call text) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	answer text;
	step text;
	detail text;
BEGIN
	INSERT INTO before SELECT input FROM pgqrs_workflow_steps WHERE run_id = run AND step_id = 's';
	BEGIN
		EXECUTE replace(replace(call, 'RUN', run::text), 'LEASE', lease::text) INTO answer;
	EXCEPTION WHEN OTHERS THEN
		GET STACKED DIAGNOSTICS answer = RETURNED_SQLSTATE, detail = PG_EXCEPTION_DETAIL;
		answer := concat_ws(' ', answer, nullif(detail, ''));
	END;
	SELECT concat_ws(' ', status, attempt) INTO step FROM pgqrs_workflow_steps WHERE run_id = run AND step_id = 's';
	RAISE EXCEPTION USING ERRCODE = 'UNDO0';
EXCEPTION WHEN SQLSTATE 'UNDO0' THEN
	RETURN concat_ws(', ', coalesce(nullif(answer, ''), 'done'), step);
END
$$;

CREATE TEMP TABLE expected (operation text, state text, outcome text);
-- A step id keeps its kind.
INSERT INTO expected SELECT operation, state, concat_ws(', ', 'PQ016 The kind of the step is ' || s.kind || '.', s.step)
	FROM operations o, states s WHERE o.kind <> s.kind AND s.state <> 'resumed before';
-- Nothing else touches it, but a replay, and that only a child that has not ended well.
INSERT INTO expected SELECT operation, state, concat_ws(', ', CASE operation
	WHEN 'fail and replay the run' THEN 'done' ELSE 'true' END,
		CASE WHEN operation = 'fail and replay the run' AND s.kind = 'CHILD' AND s.step !~ 'SUCCESS' THEN 'PENDING 1'
			ELSE s.step END)
	FROM operations o, states s WHERE o.kind IS NULL;
INSERT INTO expected VALUES
	('pause', 'none', '(f,), PAUSED 1'), ('pause', 'paused', '(f,), PAUSED 2'), ('pause', 'paused, resumed',
		'(t,1), SUCCESS 1'), ('pause', 'resumed before', '(t,1), SUCCESS 1'),
	('resume', 'none', 'true, SUCCESS 0'), ('resume', 'paused', 'true, SUCCESS 1'), ('resume', 'paused, resumed',
		'false, SUCCESS 1'), ('resume', 'resumed before', 'false, SUCCESS 0'),
	('sleep', 'none', 'false, PAUSED 1'), ('sleep', 'sleeping', 'false, PAUSED 2'),
		('sleep', 'over', 'true, SUCCESS 2'), ('sleep', 'slept', 'true, SUCCESS 1'),
	('await', 'none', '(f,f,,), PAUSED 1'), ('await', 'waiting', '(f,f,,), PAUSED 2'), ('await', 'signalled',
		'(t,f,1,), SUCCESS 2'), ('await', 'received', '(t,f,1,), SUCCESS 1'), ('await', 'timed out',
		'(f,t,,), SUCCESS 1'),
	('await any', 'none', '(f,,,), PAUSED 1'), ('await any', 'any', '(f,,,), PAUSED 2'), ('await any',
		'any, signalled', '(t,signal,go,1), SUCCESS 2'), ('await any', 'any, received', '(t,signal,go,1), SUCCESS 1'),
		('await any', 'any, timed out', '(t,timeout,,), SUCCESS 1'),
	('start', 'none', 'new, RUNNING 1'), ('start', 'child', 'same, RUNNING 1'), ('start', 'child, awaited',
		'same, PAUSED 1'), ('start', 'child, well', 'same, RUNNING 1'), ('start', 'child, badly', 'same, RUNNING 1'),
	('start', 'child, well, known', 'same, SUCCESS 1'), ('start', 'child, badly, known', 'same, ERROR 1'),
		('start', 'child, replayed', 'new, RUNNING 2'),
	('await child', 'none', 'PQ016 No call has started a child under this step id.'),
		('await child', 'child', '(f,,,), PAUSED 1'),
		('await child', 'child, awaited', '(f,,,), PAUSED 2'), ('await child', 'child, well',
		'(t,SUCCESS,1,), SUCCESS 1'),
	('await child', 'child, badly', '(t,ERROR,,"{""e"": 1}"), ERROR 1'), ('await child', 'child, well, known',
		'(t,SUCCESS,1,), SUCCESS 1'), ('await child', 'child, badly, known', '(t,ERROR,,"{""e"": 1}"), ERROR 1'),
	('start many', 'none', '1, RUNNING 1'), ('await many', 'none',
		'PQ016 No call has started a child under this step id.'),
	('begin', 'none', 'true, RUNNING 1'), ('complete', 'none', 'true, SUCCESS 1'),
		('fail', 'none', 'RETRY, PENDING 1');
-- A resume that was kept for a pause is dropped where the step is none.
INSERT INTO expected SELECT operation, 'resumed before', outcome || CASE WHEN outcome LIKE 'PQ016%' THEN ', SUCCESS 0'
	ELSE '' END
	FROM expected JOIN operations USING (operation) WHERE state = 'none' AND kind <> 'PAUSE';
-- One is not many.
INSERT INTO expected SELECT operation, state, 'PQ016 The child was started with pgqrs_start_child()., ' || s.step
	FROM operations o, states s WHERE s.kind = 'CHILD' AND operation IN ('start many', 'await many');
-- The child was cancelled with its parent, which was replayed: awaited without being started again, it is told so.
INSERT INTO expected SELECT 'await child', 'child, replayed',
	format('(t,CANCELLED,,"{""type"": ""cancelled"", ""message"": ""run %s, its parent, has ended""}"), ERROR 2', run)
	FROM runs WHERE state = 'child, replayed';

SELECT is_empty('SELECT operation, state FROM operations CROSS JOIN states EXCEPT SELECT operation, state FROM '
	'expected', 'the table of expected outcomes has every pair of operation and state');
SELECT is(count(*), (SELECT count(*) FROM operations) * (SELECT count(*) FROM states),
	'the table of expected outcomes has each pair once') FROM expected;
SELECT pg_temp.contents() AS contents \gset
SELECT is(pg_temp.outcome(run, lease, call), outcome,
	format('the operation "%s" on a step that is %s has the outcome of the contract', operation, state)) FROM expected
	JOIN operations USING (operation) JOIN runs USING (state) ORDER BY operation, state;
SELECT is(pg_temp.contents(), :'contents', 'every outcome was undone, so that the next pair finds its state');

SELECT * FROM finish();
