-- Runs and steps are updated in place: at least 95 % of the updates are HOT,
-- where runs are worked off as they come and where a backlog is, whose pages
-- are filled before any of their rows grows.
\ir include/runs.sql
SELECT * FROM no_plan();

-- The snapshot of an autovacuum's ANALYZE would keep what updates prune.
SELECT format('ALTER TABLE %s SET (autovacuum_enabled = off)', oid::regclass) FROM pg_class
	WHERE relname LIKE 'pgqrs\_%' AND relkind = 'r' \gexec

SELECT pgqrs_create_workflow('job'), pgqrs_create_workflow('backlog') \g /dev/null

-- Works off one run of three steps in transactions as a worker's.
CREATE PROCEDURE pg_temp.work(workflow text) LANGUAGE plpgsql AS
$$
DECLARE
	run bigint;
	lease bigint;
BEGIN
	SELECT d.run_id, d.lease INTO run, lease FROM pgqrs_dequeue(workflow) d;
	COMMIT;
	FOR step IN 1..3 LOOP
		PERFORM pgqrs_step_begin(run, lease, 'step ' || step, '{"in": "some input"}');
		COMMIT;
		PERFORM pgqrs_step_complete(run, lease, 'step ' || step, '{"out": "some output"}');
		COMMIT;
	END LOOP;
	PERFORM pgqrs_complete_run(run, lease, '{"out": "some output"}');
	COMMIT;
END
$$;

CREATE FUNCTION pg_temp.updates(name text, OUT updates bigint, OUT hot bigint) LANGUAGE sql AS
$$ SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = name $$;
-- Reports what the updates of a table were since the last call.
CREATE TEMP TABLE seen AS SELECT name, 0::bigint AS updates, 0::bigint AS hot
	FROM unnest('{pgqrs_workflow_runs,pgqrs_workflow_steps}'::text[]) name;
CREATE FUNCTION pg_temp.check(what text, percent_at_least numeric) RETURNS SETOF text LANGUAGE plpgsql AS
$$
DECLARE
	d record;
BEGIN
	FOR d IN SELECT s.name, u.updates - s.updates AS updates,
		round(100.0 * (u.hot - s.hot) / nullif(u.updates - s.updates, 0), 1) AS percent FROM seen s,
		pg_temp.updates(s.name) u ORDER BY 1 LOOP
		RETURN NEXT cmp_ok(d.updates, '>=', 4000::bigint, format('%s: the statistics counted the updates of %s', what,
			d.name));
		RETURN NEXT cmp_ok(d.percent, '>=', percent_at_least, format('%s: %s %% of %s updates of %s are HOT', what,
			d.percent, d.updates, d.name));
	END LOOP;
	UPDATE seen s SET updates = u.updates, hot = u.hot FROM seen s2, pg_temp.updates(s2.name) u
		WHERE s.name = s2.name;
END
$$;

DO $$
BEGIN
	FOR n IN 1..2000 LOOP
		PERFORM pgqrs_trigger('job', '{"in": "some input"}');
		COMMIT;
		CALL pg_temp.work('job');
	END LOOP;
END
$$;
SELECT pg_stat_force_next_flush();
SELECT is(count(*), 2000::bigint, '2,000 runs, each triggered and then worked off, have succeeded')
	FROM pgqrs_list_runs('job', 'SUCCESS', page_size => 10000);
SELECT pg_temp.check('one by one', 95);

SELECT count(pgqrs_trigger('backlog', '{"in": "some input"}')) FROM generate_series(1, 2000) \g /dev/null
DO $$
BEGIN
	FOR n IN 1..2000 LOOP
		CALL pg_temp.work('backlog');
	END LOOP;
END
$$;
SELECT pg_stat_force_next_flush();
SELECT is(count(*), 2000::bigint, '2,000 runs of a backlog have succeeded') FROM pgqrs_list_runs('backlog', 'SUCCESS',
	page_size => 10000);
SELECT pg_temp.check('after a backlog', 95);

SELECT * FROM finish();
