-- What several reasons to refuse a call answer: not found, PQ010, PQ007, PQ006.
\ir include/runs.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_workflow('job') \g /dev/null

CREATE TEMP TABLE calls (call text, heeds_cancel boolean);
INSERT INTO calls VALUES
	('pgqrs_step_begin(%s, %s, ''s'')', true), ('pgqrs_step_complete(%s, %s, ''s'')', false), ('pgqrs_step_fail(%s, %s, ''s'', ''{}'')', false),
	('pgqrs_complete_run(%s, %s)', false), ('pgqrs_fail_run(%s, %s, ''{}'')', false), ('pgqrs_set_progress(%s, %s, ''1'')', false),
	('pgqrs_pause_run(%s, %s, ''s'')', true), ('pgqrs_sleep(%s, %s, ''s'', ''1 s'')', true), ('pgqrs_await_signal(%s, %s, ''s'', ''go'')', true),
	('pgqrs_start_child(%s, %s, ''s'', ''job'')', true), ('pgqrs_start_children(%s, %s, ''s'', ''job'', ''{1}'')', true);
CREATE FUNCTION pg_temp.state(call text, run bigint, lease bigint) RETURNS text LANGUAGE sql AS
$$ SELECT left(pg_temp.answer(format('SELECT ' || call, run, lease)), 5) $$;

-- Each run: what speaks against it, and what it answers with a lease that is
-- its own and with another one, to a call that heeds a request to cancel and
-- to one that does not.
CREATE TEMP TABLE runs (what text, run bigint, lease bigint, own text, own_heeding text, other text, other_heeding text);
CREATE FUNCTION pg_temp.make(late boolean, cancelling boolean, done text, OUT run bigint, OUT lease bigint) LANGUAGE plpgsql AS
$$
BEGIN
	SELECT * INTO run, lease FROM pg_temp.start('job');
	IF cancelling THEN
		PERFORM pgqrs_cancel_run(run);
	END IF;
	IF done = 'SUCCESS' THEN
		PERFORM pgqrs_complete_run(run, lease);
	ELSIF done = 'ERROR' THEN
		PERFORM pgqrs_fail_run(run, lease, '{}');
	ELSIF done = 'CANCELLED' THEN
		PERFORM pg_temp.due(run), pgqrs_purge_queue('job');
	END IF;
	IF late THEN
		PERFORM pg_temp.late(run);
	END IF;
END
$$;
INSERT INTO runs SELECT what, r.*, own, own_heeding, other, other_heeding
	FROM (VALUES
		('another lease', false, false, NULL, NULL, NULL, 'PQ006', 'PQ006'),
		('late', true, false, NULL, 'PQ007', 'PQ007', 'PQ007', 'PQ007'),
		('asked to stop', false, true, NULL, NULL, 'PQ010', 'PQ006', 'PQ010'),
		('asked to stop, late', true, true, NULL, 'PQ007', 'PQ010', 'PQ007', 'PQ010'),
		('failed', false, false, 'ERROR', 'PQ007', 'PQ007', 'PQ007', 'PQ007'),
		('cancelled', false, false, 'CANCELLED', 'PQ010', 'PQ010', 'PQ010', 'PQ010'),
		('cancelled, late', true, false, 'CANCELLED', 'PQ010', 'PQ010', 'PQ010', 'PQ010'),
		('succeeded', false, false, 'SUCCESS', NULL, NULL, 'PQ007', 'PQ007')) v (what, late, cancelling, done, own, own_heeding, other, other_heeding),
	LATERAL pg_temp.make(late, cancelling, done) r;

SELECT pg_temp.contents() AS contents \gset
SELECT is(pg_temp.state(call, run, lease), CASE WHEN heeds_cancel THEN own_heeding ELSE own END, format('%s, its own lease: %s', what, call)) FROM runs, calls WHERE own IS NOT NULL OR (heeds_cancel AND own_heeding IS NOT NULL);
SELECT is(pg_temp.state(call, run, lease + 1), CASE WHEN heeds_cancel THEN other_heeding ELSE other END, format('%s, another lease: %s', what, call)) FROM runs, calls;
SELECT is(pg_temp.state(call, 9007199254740991, 1), 'PQ003', 'no such run: ' || call) FROM calls;

-- Bad arguments come before all of them.
SELECT is(pg_temp.state(replace(call, '''s''', ''''''), 9007199254740991, 1), '22023', 'a bad argument: ' || call) FROM calls WHERE call ~ '''s''';
SELECT is(pg_temp.answer(format('SELECT pgqrs_fail_run(%s, 1, NULL)', run)), '22004', 'a NULL') FROM runs WHERE what = 'cancelled, late';
SELECT is(pg_temp.contents(), :'contents', 'nothing was written');

-- A plain message is no run.
SELECT pgqrs_create_queue('queue'), pgqrs_enqueue('queue', '1') AS message \gset
SELECT lease FROM pgqrs_dequeue('queue') \gset
SELECT is(pg_temp.state(call, :message, :lease), 'PQ003', 'a plain message: ' || call) FROM calls;
SELECT is(pg_temp.answer(format('SELECT %s(%s)', f, :message)), 'PQ003', f || ' of a plain message') FROM unnest('{pgqrs_get_run,pgqrs_result,pgqrs_list_steps}'::text[]) f;

SELECT * FROM finish();
