-- Running an ended run again: from the start, from a step, what is kept.
\ir include/runs.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_workflow('job', timeout => '1 h'), pgqrs_create_workflow('parent'),
	pgqrs_create_workflow('child') \g /dev/null

-- A run with steps of all kinds, three of them finished in order, that fails.
SELECT pgqrs_trigger('job', '{"n": 1}', idempotency_key => 'key', priority => 5, timeout => '2 h', tags => '{"t": 1}',
	headers => '{"h": 1}', retry_policy => '{"max_attempts": 7}') AS run \gset
SELECT pg_temp.claim(:run) AS lease \gset
SELECT pgqrs_step_begin(:run, :lease, 'a'), pgqrs_step_complete(:run, :lease, 'a', '"of a"') \g /dev/null
SELECT pgqrs_step_fail(:run, :lease, 'b', '{}', retry_after => '0') \g /dev/null
SELECT pg_temp.claim(:run) AS lease \gset
SELECT pgqrs_step_complete(:run, :lease, 'b', to_jsonb(repeat('x', 100000))) \g /dev/null
SELECT pgqrs_sleep(:run, :lease, 'slept', '0') \g /dev/null
SELECT pgqrs_resume_run(:run, 'resumed', '"output"'), pgqrs_signal(:run, 'go', '"payload"'), pgqrs_await_signal(:run,
	:lease, 'signal', 'go') \g /dev/null
SELECT pgqrs_start_child(:run, :lease, 'child', 'child') AS child \gset
SELECT pgqrs_complete_run(:child, pg_temp.claim(:child), '"of the child"'), pgqrs_await_child(:run, :lease,
	'child') \g /dev/null
SELECT pgqrs_step_fail(:run, :lease, 'handled', '{}', retryable => false, fail_run => false),
	pgqrs_step_complete(:run, :lease, 'after', '1'), pgqrs_step_begin(:run, :lease, 'open') \g /dev/null
SELECT is(pg_temp.answer(format('SELECT pgqrs_rerun(%s)', :run)), 'PQ016 The status is RUNNING.',
	'a run that has not ended cannot be rerun');
SELECT pgqrs_set_progress(:run, :lease, '1'), pgqrs_fail_run(:run, :lease, '{"type": "e"}') \g /dev/null
SELECT pg_temp.contents() AS contents \gset

-- From the start.
SELECT pgqrs_rerun(:run) AS new \gset
SELECT ok(:new > :run, 'a rerun is another run');
SELECT is((status, input, priority, tags, headers, rerun_of)::text,
	format('(QUEUED,"{""n"": 1}",5,"{""t"": 1}","{""h"": 1}",%s)', :run),
	'a rerun has input, priority, tags and headers of the old run') FROM pgqrs_get_run(:new);
SELECT is((idempotency_key, parent_run_id, progress, error, attempt, started_at)::text, '(,,,,0,)',
	'a rerun has neither key, parent, progress nor error of the old run') FROM pgqrs_get_run(:new);
SELECT is(round(extract(epoch FROM deadline_at - created_at)), 7200::numeric,
	'a rerun has the timeout of the old run, counted anew') FROM pgqrs_get_run(:new);
SELECT is(retry_policy, '{"max_attempts": 7}', 'a rerun has the retry policy of the old run') FROM pgqrs_workflow_runs
	WHERE run_id = :new;
SELECT is_empty(format('SELECT * FROM pgqrs_steps WHERE run_id = %s', :new), 'a rerun from the start has no step');
SELECT is((status, error->>'type', idempotency_key)::text, '(ERROR,e,key)', 'the old run is as it was')
	FROM pgqrs_get_run(:run);
SELECT is(input, '{"other": 1}', 'a rerun may have another input')
	FROM pgqrs_get_run(pgqrs_rerun(:run, '{"other": 1}'));

CREATE FUNCTION pg_temp.kept(run bigint) RETURNS text LANGUAGE sql AS
$$ SELECT coalesce(string_agg(step_id, ' ' ORDER BY started_at), 'nothing') FROM pgqrs_steps WHERE run_id = run $$;
SELECT is(pg_temp.kept(pgqrs_rerun(:run, from_step => step, keep_finished => keep)), kept,
	format('a rerun from %s%s keeps the right steps', coalesce(step, 'the start'), CASE
	WHEN keep THEN ', keeping what finished,' ELSE '' END))
	FROM (VALUES (NULL, true, 'a b slept resumed signal child after'), ('a', false, 'nothing'), ('b', false, 'a'),
		('slept', false, 'a b'), ('child', false, 'a b slept resumed signal'),
		('handled', false, 'a b slept resumed signal child'), ('open', false, 'a b slept resumed signal child after'),
		('b', true, 'a slept resumed signal child after'), ('open', true, 'a b slept resumed signal child after')) v
			(step, keep, kept);
SELECT is(pg_temp.answer(format('SELECT pgqrs_rerun(%s, from_step => ''nothing'')', :run)) ~ '^22023', true,
	'a rerun from an unknown step is refused');

-- What is kept is finished for the handler.
SELECT pgqrs_rerun(:run, keep_finished => true) AS new \gset
SELECT results_eq(format('SELECT step_id, kind, status, attempt, failures, input, output, error, history, '
	'started_at, completed_at FROM pgqrs_list_steps(%s)', :new),
	format('SELECT step_id, kind, status, attempt, failures, input, output, error, history, started_at, '
		'completed_at FROM pgqrs_list_steps(%s) WHERE status = ''SUCCESS''', :run),
		'the steps of a rerun that were kept are as they were');
SELECT pg_temp.claim(:new) AS lease \gset
SELECT is(b::text, '(f,SUCCESS,"""of a""",,1)', 'a function that was kept is not executed again')
	FROM pgqrs_step_begin(:new, :lease, 'a') b;
SELECT is(length(output::text), 100002, 'a large output that was kept comes back whole') FROM pgqrs_step_begin(:new,
	:lease, 'b');
SELECT is(pgqrs_sleep(:new, :lease, 'slept', '1 h'), true, 'a sleep that was kept is over');
SELECT is(pgqrs_pause_run(:new, :lease, 'resumed')::text, '(t,"""output""")',
	'a pause that was kept is over and has its output');
SELECT is(pgqrs_await_signal(:new, :lease, 'signal', 'go')::text, '(t,f,"""payload""",)',
	'a signal that was kept has been received');
SELECT is(pgqrs_start_child(:new, :lease, 'child', 'child'), :child::bigint,
	'a child that was kept is not started again');
SELECT is(pgqrs_await_child(:new, :lease, 'child')::text, '(t,SUCCESS,"""of the child""",)',
	'a child that was kept has its output');
SELECT is(should_execute, true, 'a step that had failed is executed again in the rerun') FROM pgqrs_step_begin(:new,
	:lease, 'handled');
SELECT pgqrs_complete_run(:new, :lease);

-- Children that were started together: whichever of them and of all together
-- was known to have ended, the handler comes by the same calls, and none that
-- succeeded is started again.
CREATE FUNCTION pg_temp.family(mode text, one int, step text, keep boolean) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	p bigint;
	l bigint;
	old bigint[];
	new bigint[];
BEGIN
	SELECT run, lease INTO p, l FROM pg_temp.start('parent');
	old := pgqrs_start_children(p, l, 'many', 'child', '{1,2,3}');
	PERFORM pgqrs_complete_run(old[1], pg_temp.claim(old[1]), '"one"'), pgqrs_complete_run(old[2],
		pg_temp.claim(old[2]), '"two"');
	IF mode <> 'any' THEN
		PERFORM pgqrs_complete_run(old[3], pg_temp.claim(old[3]), '"three"');
	END IF;
	IF mode <> '' THEN
		PERFORM pgqrs_await_children(p, l, 'many', mode);
	END IF;
	IF one > 0 THEN
		PERFORM pgqrs_await_child(p, l, format('many[%s]', one));
	END IF;
	PERFORM pgqrs_step_complete(p, l, 'next'), pgqrs_fail_run(p, l, '{}'), pgqrs_maintain();
	p := pgqrs_rerun(p, from_step => step, keep_finished => keep);
	l := pg_temp.claim(p);
	new := pgqrs_start_children(p, l, 'many', 'child', '{1,2,3}');
	RETURN (SELECT string_agg(CASE WHEN n = o THEN 'kept' ELSE 'new' END, ' ' ORDER BY i)
		FROM unnest(old, new) WITH ORDINALITY f (o, n, i))
		|| CASE WHEN mode = 'any' OR old <> new THEN '' ELSE ', ' || (pgqrs_await_children(p, l, 'many')).done::text
			END
		|| CASE WHEN mode = 'any' AND old = new THEN ', ' || (pgqrs_await_child(p, l, 'many[3]')).status ELSE '' END
		|| CASE WHEN old[2] = new[2] THEN ', ' || (pgqrs_await_child(p, l, 'many[2]')).output::text ELSE '' END;
END
$$;
SELECT is(pg_temp.family(mode, one, step, keep), answer,
	format('a rerun keeps the right children: awaited%s%s, from %s%s', ' ' || mode, ' many[' || nullif(one, 0) || ']',
	coalesce(step, 'the start'), CASE WHEN keep THEN ', keeping what finished' ELSE '' END))
	FROM (VALUES ('all', 0, NULL, true, 'kept kept kept, true, "two"'), ('all', 2, NULL, true,
		'kept kept kept, true, "two"'), ('all', 0, 'next', false, 'kept kept kept, true, "two"'),
		('any', 0, NULL, true, 'kept kept kept, CANCELLED, "two"'), ('any', 2, 'next', false,
			'kept kept kept, CANCELLED, "two"'),
		('', 2, NULL, true, 'new kept new, "two"'), ('', 2, 'next', false, 'new kept new, "two"'),
			('', 0, NULL, true, 'new new new'),
		('all', 2, 'many', true, 'new new new'), ('all', 2, 'many', false, 'new new new'), ('', 2, 'many', true,
			'new new new')) v (mode, one, step, keep, answer);

-- One that has not ended tells its own parent of its end, not the new run, which
-- starts another; of the others it has the results.
SELECT run, lease FROM pg_temp.start('parent') \gset
SELECT c[1] AS one, c[2] AS two, c[3] AS three FROM pgqrs_start_children(:run, :lease, 'many', 'child',
	'{1,2,3}') c \gset
SELECT pgqrs_complete_run(:one, pg_temp.claim(:one), '"one"'), pgqrs_fail_run(:two, pg_temp.claim(:two),
	'{"type": "e"}', retryable => false), pgqrs_await_children(:run, :lease, 'many', 'any'), pgqrs_complete_run(:run,
	:lease) \g /dev/null
SELECT pgqrs_rerun(:run, keep_finished => true) AS again \gset
SELECT results_eq(format('SELECT step_id, status::text, output, error->>''type'' FROM pgqrs_list_steps(%s) ORDER BY '
	'step_id', :again),
	$$VALUES ('many', 'PENDING', NULL, NULL), ('many[1]', 'SUCCESS', '"one"'::jsonb, NULL), ('many[2]', 'ERROR', NULL,
		'e')$$, 'a rerun has the results of the children that have ended');
SELECT pg_temp.claim(:again) AS lease \gset
SELECT pgqrs_start_children(:again, :lease, 'many', 'child', '{1,2,3}') AS c \gset
SELECT is((c[1], c[2], c[3] > :again)::text, format('(%s,%s,t)', :one, :two),
	'a rerun starts another child only for the one that goes on') FROM (VALUES (:'c'::bigint[])) v (c);
SELECT is((pgqrs_await_children(:again, :lease, 'many')).done, false,
	'a rerun waits for the child that it has started');
SELECT pgqrs_complete_run(:three, pg_temp.claim(:three), '"not mine"') \g /dev/null
SELECT is(status, 'PAUSED', 'the end of the old run''s child does not wake the rerun') FROM pgqrs_get_run(:again);
SELECT pgqrs_complete_run((:'c'::bigint[])[3], pg_temp.claim((:'c'::bigint[])[3]), '"three"') \g /dev/null
SELECT pg_temp.claim(:again) AS lease \gset
SELECT is((pgqrs_await_child(:again, :lease, 'many[3]')).output, '"three"',
	'the end of its own child wakes the rerun');
SELECT is((pgqrs_await_child(:again, :lease, 'many[1]')).output, '"one"',
	'the output of a child that was kept is known to the rerun');

-- A child that failed, and ended well after a replay.
SELECT run, lease FROM pg_temp.start('parent') \gset
SELECT c[1] AS one, c[2] AS two FROM pgqrs_start_children(:run, :lease, 'many', 'child', '{1,2}') c \gset
SELECT pgqrs_fail_run(:one, pg_temp.claim(:one), '{"type": "e"}', retryable => false), pgqrs_complete_run(:two,
	pg_temp.claim(:two), '"two"'), pgqrs_await_children(:run, :lease, 'many', 'any'), pgqrs_complete_run(:run,
	:lease) \g /dev/null
SELECT pgqrs_rerun(:run, keep_finished => true) AS again \gset
SELECT is((status, output, error->>'type')::text, '(ERROR,,e)', 'a rerun has the error of a child that failed')
	FROM pgqrs_list_steps(:again) WHERE step_id = 'many[1]';
SELECT pgqrs_complete_run(:again, pg_temp.claim(:again)), pgqrs_replay_message(:one) \g /dev/null
SELECT pgqrs_complete_run(:one, pg_temp.claim(:one), '1') \g /dev/null
SELECT pgqrs_rerun(:again, keep_finished => true) AS again \gset
SELECT is((status, output, error)::text, '(SUCCESS,1,)',
	'a rerun has the output of a child that succeeded after a replay, without the error')
	FROM pgqrs_list_steps(:again) WHERE step_id = 'many[1]';
SELECT is_empty('SELECT * FROM pgqrs_verify() WHERE NOT ok', 'pgqrs_verify() finds nothing wrong with reruns');

-- However it ended; of a rerun, too, and of one that was deleted.
SELECT is(rerun_of, :new::bigint, 'a run that succeeded can be rerun') FROM pgqrs_get_run(pgqrs_rerun(:new));
SELECT pgqrs_trigger('job') AS cancelled \gset
SELECT pgqrs_cancel_run(:cancelled), pgqrs_delete_run(:cancelled) \g /dev/null
SELECT is((status, deleted_at, input)::text, '(QUEUED,,)', 'a run that was cancelled and deleted can be rerun')
	FROM pgqrs_get_run(pgqrs_rerun(:cancelled));
SELECT is(pg_temp.answer('SELECT pgqrs_rerun(9007199254740991)'), 'PQ003',
	'a run that does not exist cannot be rerun');
-- A run without a time-out stays without.
SELECT pgqrs_create_workflow('free') \g /dev/null
SELECT pgqrs_trigger('free') AS run \gset
SELECT pgqrs_cancel_run(:run), pgqrs_alter_workflow('free', timeout => '1 h') \g /dev/null
SELECT is(deadline_at, NULL, 'a rerun of a run without a timeout has none, whatever the workflow says now')
	FROM pgqrs_get_run(pgqrs_rerun(:run));

SELECT * FROM finish();
