-- Replays and reruns of many runs: filters, order, what is skipped, and what a
-- second call does.
SELECT no_plan();
\ir include/runs.sql

CREATE FUNCTION pg_temp.fail(n integer, error jsonb, tags jsonb DEFAULT NULL) RETURNS bigint[] LANGUAGE sql AS $$
	WITH t AS MATERIALIZED (SELECT pgqrs_trigger_batch('flow', array_fill('1'::jsonb, ARRAY[n]), tags => tags) AS ids),
		c AS MATERIALIZED (SELECT d.run_id, d.lease FROM t, pgqrs_dequeue('flow', batch_size => n) AS d),
		s AS MATERIALIZED (SELECT run_id, lease, pgqrs_step_begin(run_id, lease, 'kept') AS b FROM c),
		e AS MATERIALIZED (SELECT run_id, lease, pgqrs_step_complete(run_id, lease, 'kept', '7') AS b FROM s),
		f AS MATERIALIZED (SELECT run_id, pgqrs_fail_run(run_id, lease, error) AS b FROM e)
	SELECT array_agg(run_id ORDER BY run_id) FROM f
$$;
CREATE FUNCTION pg_temp.status(ids bigint[]) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(status || ' ' || n, ', ' ORDER BY status)
	FROM (
		SELECT status, count(*) AS n
		FROM unnest(ids) AS id, LATERAL (SELECT (pgqrs_get_run(id)).status) AS s
		GROUP BY 1
	) AS s
$$;
SELECT pgqrs_create_workflow('flow'), pgqrs_create_workflow('other') \g /dev/null
SELECT pg_temp.fail(5, '{"type": "smtp"}', '{"team": "a"}') AS smtp, pg_temp.fail(3, '{"type": "disk"}') AS disk \gset

-- replays
SELECT results_eq($$SELECT * FROM pgqrs_replay_runs('flow', error_type => 'smt')$$,
	'VALUES (0::bigint, 0::bigint, NULL::bigint)',
	'an error type that no run has matches nothing');
SELECT results_eq($$SELECT * FROM pgqrs_replay_runs('flow', 'SUCCESS')$$,
	'VALUES (0::bigint, 0::bigint, NULL::bigint)',
	'runs of another status than ERROR are not replayed');
SELECT results_eq($$SELECT * FROM pgqrs_replay_runs('flow', max_rows => 0)$$,
	'VALUES (0::bigint, 0::bigint, NULL::bigint)',
	'no rows are no work');
SELECT results_eq($$SELECT * FROM pgqrs_replay_runs('flow', tags => '{"team": "a"}', max_rows => 2)$$,
	format('VALUES (2::bigint, 0::bigint, %s::bigint)', (:'smtp'::bigint[])[2]),
	'a replay stops at max_rows, and names the last run');
SELECT is(pg_temp.status(:'smtp'), 'ERROR 3, QUEUED 2', 'the runs with the lowest ids are replayed');
SELECT is((SELECT output FROM pgqrs_list_steps((:'smtp'::bigint[])[1])), '7',
	'a replayed run keeps its finished steps');
SELECT results_eq(format($$SELECT * FROM pgqrs_replay_runs('flow', error_type => 'smtp', after_run_id => %s)$$,
	(:'smtp'::bigint[])[4]),
	'VALUES (1::bigint, 0::bigint, NULL::bigint)', 'a replay goes on after a run');
SELECT results_eq($$SELECT * FROM pgqrs_replay_runs('flow', error_type => 'smtp')$$,
	'VALUES (2::bigint, 0::bigint, NULL::bigint)',
	'a call without after_run_id replays what is left, and nothing twice');
SELECT is(pg_temp.status(:'disk'), 'ERROR 3', 'runs with another error stay');
SELECT pgqrs_delete_run((:'disk'::bigint[])[1]), pgqrs_dismiss_dead_letter((:'disk'::bigint[])[2]) \g /dev/null
SELECT created_at AS created FROM pgqrs_get_run((:'disk'::bigint[])[3]) \gset
SELECT is((SELECT changed FROM pgqrs_replay_runs('flow', created_before => :'created')), 0::bigint,
	'a run created at the end of the interval is left out');
SELECT is((SELECT changed FROM pgqrs_replay_runs('flow', created_after => :'created')), 1::bigint,
	'a replay passes over deleted runs and dismissed dead letters, and takes a run created at the begin of the interval');
SELECT is(count(*), 6::bigint, 'each replayed run is claimable once') FROM pgqrs_dequeue('flow', batch_size => 100);

-- reruns
SELECT pg_temp.fail(4, '{"type": "net"}') AS net \gset
SELECT pgqrs_rerun((:'net'::bigint[])[2]) AS by_hand \gset
SELECT results_eq($$SELECT changed, skipped FROM pgqrs_rerun_runs('flow', error_type => 'net')$$,
	'VALUES (3::bigint, 1::bigint)',
	'a run that has a rerun is skipped');
SELECT results_eq($$SELECT changed, skipped FROM pgqrs_rerun_runs('flow', error_type => 'net')$$,
	'VALUES (0::bigint, 4::bigint)',
	'a second call starts no rerun twice');
SELECT is(array_agg(rerun_of ORDER BY rerun_of), :'net'::bigint[], 'each run has one rerun')
	FROM pgqrs_runs WHERE rerun_of IS NOT NULL;
SELECT is((SELECT string_agg(step_id || ' ' || output, ', ') FROM pgqrs_list_steps(r.run_id)), 'kept 7',
		'a rerun keeps the finished steps')
	FROM pgqrs_runs AS r WHERE rerun_of = (:'net'::bigint[])[1];
SELECT pg_temp.fail(1, '{"type": "anew"}') \g /dev/null
SELECT is((SELECT changed FROM pgqrs_rerun_runs('flow', error_type => 'anew', from_failed => false)), 1::bigint,
	'a rerun may begin anew');
SELECT is((SELECT count(*) FROM pgqrs_list_steps(max(run_id))), 0::bigint, 'a rerun from the beginning keeps no step')
	FROM pgqrs_runs WHERE rerun_of IS NOT NULL;
SELECT pgqrs_trigger('other') AS done, pgqrs_trigger('other') AS gone \gset
SELECT pgqrs_cancel_run(:gone) \g /dev/null
SELECT pgqrs_complete_run(run_id, lease) FROM pgqrs_dequeue('other') \g /dev/null
SELECT results_eq($$SELECT changed, skipped FROM pgqrs_rerun_runs('other')$$, 'VALUES (0::bigint, 0::bigint)',
	'without a status only runs in ERROR are rerun');
SELECT results_eq(format($$SELECT changed FROM pgqrs_rerun_runs('other', %L)$$, status), 'VALUES (1::bigint)',
	'runs are rerun by status: ' || status) FROM unnest('{SUCCESS,CANCELLED}'::text[]) AS status;
SELECT results_eq($$SELECT changed FROM pgqrs_rerun_runs('other', 'QUEUED')$$,
	'VALUES (0::bigint)', 'live runs are not rerun');

SELECT throws_ok(format('SELECT %s(''absent'')', f), 'PQ002', NULL, f || '() of an unknown workflow is an error')
	FROM unnest('{pgqrs_replay_runs,pgqrs_rerun_runs}'::text[]) AS f;
SELECT throws_ok(format('SELECT %s(''flow'', max_rows => -1)', f), '22023', NULL, f || '() refuses a negative max_rows')
	FROM unnest('{pgqrs_replay_runs,pgqrs_rerun_runs}'::text[]) AS f;
SELECT is_empty('SELECT * FROM pgqrs_verify() WHERE NOT ok', 'the tables say only what they can');
SELECT * FROM finish();
