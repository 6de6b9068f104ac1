-- The index of tags has an entry for each run that has tags, whichever way the
-- run was written, and after updates that moved it.
\ir include/runs.sql
SELECT * FROM no_plan();
SET client_min_messages = error;

-- The ids of the runs whose tags contain some, by the index or by a look at all.
CREATE FUNCTION pg_temp.tagged(contained jsonb, by_index boolean) RETURNS bigint[] LANGUAGE plpgsql AS
$$
DECLARE
	ids bigint[];
BEGIN
	PERFORM set_config('enable_seqscan', (NOT by_index)::text, true), set_config('enable_bitmapscan', by_index::text,
		true), set_config('enable_indexscan', by_index::text, true);
	EXECUTE format('SELECT COALESCE(array_agg(run_id ORDER BY run_id), ''{}'') FROM pgqrs_workflow_runs WHERE tags '
		'@> %L', contained) INTO ids;
	RETURN ids;
END
$$;
CREATE FUNCTION pg_temp.plan(contained jsonb) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	line text;
	plan text = '';
BEGIN
	FOR line IN EXECUTE format('EXPLAIN SELECT * FROM pgqrs_workflow_runs WHERE tags @> %L', contained) LOOP
		plan := plan || line;
	END LOOP;
	RETURN plan;
END
$$;
-- The same ids by the index, by a look at all, and in a list, and how many.
CREATE FUNCTION pg_temp.check(contained jsonb, number integer, what text) RETURNS SETOF text LANGUAGE plpgsql AS
$$
DECLARE
	ids bigint[] = pg_temp.tagged(contained, false);
BEGIN
	RETURN NEXT is(array_length(ids, 1), number, format('%s runs have the tags, %s', number, what));
	RETURN NEXT is(pg_temp.tagged(contained, true), ids, 'the index finds the runs that a sequential scan finds, '
		|| what);
	RETURN NEXT is((SELECT COALESCE(array_agg(run_id ORDER BY run_id), '{}') FROM pgqrs_list_runs(tags => contained,
		page_size => 10000)), ids, 'pgqrs_list_runs() finds the runs that a sequential scan finds, ' || what);
END
$$;

SELECT pgqrs_create_workflow('flow'), pgqrs_create_workflow('child') \g /dev/null

SELECT pgqrs_trigger('flow', tags => '{"way": "one", "n": [1, {"deep": true}]}') AS one \gset
SELECT count(pgqrs_trigger('flow')) FROM generate_series(1, 10) \g /dev/null
SELECT pgqrs_trigger('flow', tags => '{}') \g /dev/null
SELECT pgqrs_trigger('flow', tags => '{"way": "key"}', idempotency_key => 'k') \g /dev/null
SELECT pgqrs_trigger('flow', tags => '{"way": "key again"}', idempotency_key => 'k') \g /dev/null
SELECT pgqrs_trigger_batch('flow', array_fill('1'::jsonb, '{2500}'), tags => '{"way": "batch"}') \g /dev/null
SELECT pgqrs_trigger('flow', tags => jsonb_build_object('way', 'large', 'names', (SELECT jsonb_agg(md5(n::text))
	FROM generate_series(1, 200) AS n))) \g /dev/null
DO $$
BEGIN
	PERFORM pgqrs_trigger('flow', tags => '{"way": "undone"}');
	RAISE 'undone';
EXCEPTION WHEN raise_exception THEN
	PERFORM pgqrs_trigger('flow', tags => '{"way": "done"}');
END
$$;
SELECT pg_temp.claim(:one) AS lease \gset
SELECT pgqrs_start_child(:one, :lease, 'c', 'child', tags => '{"way": "child"}') \g /dev/null
SELECT pgqrs_complete_run(:one, :lease) \g /dev/null
SELECT pgqrs_rerun(:one) \g /dev/null

SELECT matches(pg_temp.plan('{"way": "one"}'), 'pgqrs_workflow_runs_tags_idx', 'the planner uses the index of tags')
	FROM (SELECT set_config('enable_seqscan', 'off', false)) AS s;
SET enable_seqscan = on;
SELECT pg_temp.check('{"way": "one"}', 2, 'of a triggered run and its rerun');
SELECT pg_temp.check('{"n": [{"deep": true}]}', 2, 'by a part of an array');
SELECT pg_temp.check('{"way": "key"}', 1, 'with an idempotency key');
SELECT pg_temp.check('{"way": "key again"}', NULL, 'of a trigger that found its key taken');
SELECT pg_temp.check('{"way": "batch"}', 2500, 'of a batch');
SELECT pg_temp.check('{"way": "large", "names": ["a87ff679a2f3e71d9181a67b7542122c", '
	'"1679091c5a880faf6fb5e6087eb1b2dc"]}', 1, 'with large tags');
SELECT pg_temp.check('{"way": "done"}', 1, 'of a transaction that went on after an error');
SELECT pg_temp.check('{"way": "child"}', 1, 'of a child');
SELECT pg_temp.check('{}', 2507, 'of all runs with tags');

-- Outputs that their pages have no room for.
DO $$
DECLARE
	d record;
BEGIN
	FOR d IN SELECT * FROM pgqrs_dequeue('flow', batch_size => 1000) LOOP
		PERFORM pgqrs_complete_run(d.run_id, d.lease, to_jsonb(repeat(md5(d.run_id::text), 40)));
	END LOOP;
END
$$;
SELECT pg_stat_force_next_flush();
SELECT cmp_ok(n_tup_upd - n_tup_hot_upd, '>', 100::bigint, 'updates moved more than 100 runs to other pages')
	FROM pg_stat_user_tables WHERE relname = 'pgqrs_workflow_runs';
VACUUM pgqrs_workflow_runs;
SELECT pg_temp.check('{"way": "batch"}', 2500, 'of a batch, after they were moved');
SELECT pg_temp.check('{}', 2507, 'of all runs with tags, after they were moved');

SELECT * FROM finish();
