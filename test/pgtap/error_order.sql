-- Several reasons to refuse a call: not found, PQ006, PQ010, PQ007, PQ016, in
-- this order, for every function that takes a lease and every state of a run.
\ir include/runs.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_workflow('job') \g /dev/null

-- call: one that the state of steps allows; wrong: one that it does not, which
-- is PQ016 when nothing else speaks against it; missing: of a run that is not
-- there; repeats: what it answers to the lease under which the run succeeded,
-- and was cancelled.
CREATE TEMP TABLE calls (call text, wrong text, heeds_cancel boolean, missing text DEFAULT 'PQ003',
	succeeded text DEFAULT 'PQ007', cancelled text DEFAULT 'PQ010');
INSERT INTO calls VALUES
	('pgqrs_step_begin(%s, %s, ''done'')', 'pgqrs_step_begin(%s, %s, ''pause'')', true, DEFAULT, '', DEFAULT),
	('pgqrs_step_begin(%s, %s, ''new'')', NULL, true, DEFAULT, DEFAULT, DEFAULT),
	('pgqrs_step_complete(%s, %s, ''done'')', 'pgqrs_step_complete(%s, %s, ''pause'')', false, DEFAULT, '', DEFAULT),
	('pgqrs_step_complete(%s, %s, ''new'')', 'pgqrs_step_complete(%s, %s, ''failed'')', false, DEFAULT, DEFAULT,
		DEFAULT),
	('pgqrs_step_fail(%s, %s, ''new'', ''{}'')', 'pgqrs_step_fail(%s, %s, ''pause'', ''{}'')', false, DEFAULT,
		DEFAULT, DEFAULT),
	('pgqrs_step_fail(%s, %s, ''new'', ''{}'', fail_run => false)', 'pgqrs_step_fail(%s, %s, ''done'', ''{}'')',
		false, DEFAULT, DEFAULT, DEFAULT),
	('pgqrs_complete_run(%s, %s)', NULL, false, DEFAULT, '', DEFAULT),
	('pgqrs_fail_run(%s, %s, ''{}'')', NULL, false, DEFAULT, DEFAULT, DEFAULT),
		('pgqrs_fail_run(%s, %s, ''{}'', true)', NULL, false, DEFAULT, DEFAULT, DEFAULT),
		('pgqrs_set_progress(%s, %s, ''1'')', NULL, false, DEFAULT, DEFAULT, DEFAULT),
	('pgqrs_pause_run(%s, %s, ''pause'')', 'pgqrs_pause_run(%s, %s, ''done'')', true, DEFAULT, DEFAULT, DEFAULT),
	('pgqrs_sleep(%s, %s, ''s'', ''1 s'')', 'pgqrs_sleep(%s, %s, ''pause'', ''1 s'')', true, DEFAULT, DEFAULT,
		DEFAULT),
	('pgqrs_await_signal(%s, %s, ''s'', ''go'')', 'pgqrs_await_signal(%s, %s, ''pause'', ''go'')', true, DEFAULT,
		DEFAULT, DEFAULT),
	('pgqrs_start_child(%s, %s, ''child'', ''job'')', 'pgqrs_start_child(%s, %s, ''pause'', ''job'')', true, DEFAULT,
		'', DEFAULT),
	('pgqrs_start_child(%s, %s, ''new'', ''job'')', 'pgqrs_start_child(%s, %s, ''children'', ''job'')', true, DEFAULT,
		DEFAULT, DEFAULT),
	('pgqrs_start_children(%s, %s, ''children'', ''job'', ''{1,2}'')',
		'pgqrs_start_children(%s, %s, ''pause'', ''job'', ''{1,2}'')', true, DEFAULT, '', DEFAULT),
	('pgqrs_start_children(%s, %s, ''new'', ''job'', ''{1}'')',
		'pgqrs_start_children(%s, %s, ''child'', ''job'', ''{1}'')', true, DEFAULT, DEFAULT, DEFAULT),
	('pgqrs_await_child(%s, %s, ''child'')', 'pgqrs_await_child(%s, %s, ''nothing'')', true, DEFAULT, DEFAULT,
		DEFAULT),
	('pgqrs_await_children(%s, %s, ''children'')', 'pgqrs_await_children(%s, %s, ''child'')', true, DEFAULT, DEFAULT,
		DEFAULT),
	('pgqrs_await_any(%s, %s, ''any'', ''{go}'')', 'pgqrs_await_any(%s, %s, ''any'', children => ''{nothing}'')', true,
		DEFAULT, DEFAULT, DEFAULT),
	(NULL, 'pgqrs_acknowledge_cancel(%s, %s)', false, DEFAULT, DEFAULT, ''),
	('pgqrs_release_message(%s, %s)', NULL, false, 'PQ006', DEFAULT, DEFAULT),
	(NULL, 'pgqrs_archive_message(%s, %s)', false, 'PQ006', DEFAULT, DEFAULT), (NULL, 'pgqrs_delete_message(%s, %s)',
		false, 'PQ006', DEFAULT, DEFAULT), (NULL, 'pgqrs_nack_message(%s, %s)', false, 'PQ006', DEFAULT, DEFAULT);
SELECT is_empty($$SELECT proname FROM pg_proc p WHERE 'lease' = ANY (proargnames) AND proname ~ '^pgqrs_'
	AND prokind <> 'a' AND proname NOT IN ('pgqrs_extend_lease', 'pgqrs_dequeue')
	AND proargmodes IS NULL AND NOT EXISTS (SELECT FROM calls WHERE concat(call, wrong) ~ (proname || '\('))$$,
		'the table of this test has every function that takes a lease');

-- '' or the SQLSTATE, and what a refusal lacks.
CREATE FUNCTION pg_temp.state(call text, run bigint, lease bigint) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	state text;
	detail text;
	hint text;
BEGIN
	EXECUTE format('SELECT ' || call, run, lease);
	RAISE EXCEPTION USING ERRCODE = 'UNDO0';
EXCEPTION WHEN SQLSTATE 'UNDO0' THEN
	RETURN '';
WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(' ', state, CASE WHEN state IN ('PQ007', 'PQ016') AND detail = '' THEN 'without a detail' END,
		CASE WHEN hint = '' THEN 'without a hint' END);
END
$$;

-- Each run, what speaks against its own lease to a call that heeds a request to
-- cancel and to one that does not, and where both have the same answer.
CREATE TEMP TABLE runs (what text, run bigint, lease bigint, own text, own_heeding text);
CREATE FUNCTION pg_temp.make(late boolean, cancelling boolean, done text, OUT run bigint, OUT lease bigint)
	LANGUAGE plpgsql AS
$$
BEGIN
	SELECT * INTO run, lease FROM pg_temp.start('job');
	PERFORM pgqrs_pause_run(run, lease, 'pause'), pgqrs_resume_run(run);
	lease := pg_temp.claim(run);
	PERFORM pgqrs_pause_run(run, lease, 'pause'), pgqrs_step_complete(run, lease, 'done'), pgqrs_step_fail(run, lease,
		'failed', '{}', false, fail_run => false),
		pgqrs_start_child(run, lease, 'child', 'job'), pgqrs_start_children(run, lease, 'children', 'job', '{1,2}');
	IF cancelling THEN
		PERFORM pgqrs_cancel_run(run);
	END IF;
	IF done = 'SUCCESS' THEN
		PERFORM pgqrs_complete_run(run, lease);
	ELSIF done = 'ERROR' THEN
		PERFORM pgqrs_fail_run(run, lease, '{}');
	ELSIF done = 'CANCELLED' THEN
		PERFORM pgqrs_delete_run(run);
	END IF;
	IF late THEN
		PERFORM pg_temp.late(run);
	END IF;
END
$$;
INSERT INTO runs SELECT what, r.*, own, own_heeding
	FROM (VALUES
		('running', false, false, NULL, '', ''),
		('late', true, false, NULL, 'PQ007', 'PQ007'),
		('asked to stop', false, true, NULL, '', 'PQ010'),
		('asked to stop, late', true, true, NULL, 'PQ007', 'PQ010'),
		('failed', false, false, 'ERROR', 'PQ007', 'PQ007'),
		('cancelled', false, false, 'CANCELLED', 'PQ010', 'PQ010'),
		('cancelled, late', true, false, 'CANCELLED', 'PQ010', 'PQ010'),
		('succeeded', false, false, 'SUCCESS', 'PQ007', 'PQ007')) v (what, late, cancelling, done, own, own_heeding),
	LATERAL pg_temp.make(late, cancelling, done) r;

SELECT pg_temp.contents() AS contents \gset
SELECT is(pg_temp.state(call, run, lease), CASE WHEN what ~ 'succeeded' THEN succeeded
	WHEN what ~ '^cancelled' THEN cancelled WHEN heeds_cancel THEN own_heeding ELSE own END,
	format('%s under the lease of a run that is %s', call, what)) FROM runs, calls WHERE call IS NOT NULL;
SELECT is(pg_temp.state(wrong, run, lease), CASE WHEN what ~ '^cancelled' THEN cancelled WHEN what = 'asked to stop'
	AND wrong ~ 'acknowledge' THEN ''
		ELSE coalesce(nullif(CASE WHEN heeds_cancel THEN own_heeding ELSE own END, ''), 'PQ016') END,
	format('%s, which steps do not allow, under the lease of a run that is %s', wrong, what)) FROM runs, calls
	WHERE wrong IS NOT NULL AND NOT (what = 'succeeded' AND wrong ~ 'children|''child''');
		-- of a child and many the repeated call knows more
SELECT is(pg_temp.state(coalesce(call, wrong), run, lease + 1), 'PQ006',
	format('PQ006 comes first: %s under another lease of a run that is %s', coalesce(call, wrong), what)) FROM runs,
	calls;
SELECT is(pg_temp.state(coalesce(wrong, call), 9007199254740991, 1), missing,
	format('an unknown run is reported by %s', coalesce(wrong, call))) FROM calls;

SELECT is(pg_temp.contents(), :'contents', 'refused calls write nothing');

-- A run that ended when no lease was held knows none.
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_release_message(:run, :lease), pgqrs_cancel_run(:run) \g /dev/null
SELECT is(pg_temp.state(coalesce(call, wrong), :run, :lease), 'PQ006',
	format('PQ006: %s under a lease that was released before the run was cancelled', coalesce(call, wrong)))
	FROM calls;

-- From outside: whatever the state of another run does not allow is PQ016.
SELECT is(pg_temp.state(call, run, lease), 'PQ016', format('PQ016: %s of a run that is %s', call, what)) FROM runs,
	unnest('{"pgqrs_signal(%s, ''go'')","pgqrs_resume_run(%s)","pgqrs_resume_run(%s, ''pause'')"}'::text[]) call
	WHERE what IN ('failed', 'cancelled', 'succeeded');
SELECT is(pg_temp.state(call, run, lease), 'PQ016', format('PQ016: %s of a run that is %s', call, what)) FROM runs,
	unnest('{pgqrs_rerun(%s),pgqrs_replay_message(%s)}'::text[]) call WHERE what = 'running';

-- Bad arguments come before all of them.
SELECT is(pg_temp.state(regexp_replace(coalesce(call, wrong), '''\w+''', ''''''), 9007199254740991, 1), '22023',
	'a bad argument comes before an unknown run: ' || call) FROM calls
	WHERE coalesce(call, wrong) ~ '%s, ''[a-z]\w*''';
SELECT is(pg_temp.answer(format('SELECT pgqrs_fail_run(%s, 1, NULL)', run)), '22004',
	'a NULL argument comes before every state of the run') FROM runs WHERE what = 'cancelled, late';

-- A plain message is no run.
SELECT pgqrs_create_queue('queue'), pgqrs_enqueue('queue', '1') AS message \gset
SELECT lease FROM pgqrs_dequeue('queue') \gset
SELECT is(pg_temp.state(coalesce(call, wrong), :message, :lease), 'PQ003', 'a plain message is no run: '
	|| coalesce(call, wrong)) FROM calls WHERE missing = 'PQ003';
SELECT is(pg_temp.answer(format('SELECT %s(%s)', f, :message)), 'PQ003', f || ' refuses a plain message as no run')
	FROM unnest('{pgqrs_get_run,pgqrs_result,pgqrs_list_steps}'::text[]) f;

SELECT * FROM finish();
