-- Children: started once, awaited, one and many; what follows a parent's end.
\ir include/runs.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_workflow('parent', visibility_timeout => '10 min'), pgqrs_create_workflow('child', visibility_timeout => '10 min', max_attempts => 1) \g /dev/null

CREATE FUNCTION pg_temp.state(run bigint) RETURNS text LANGUAGE sql AS
$$ SELECT concat_ws(', ', r.status, r.waiting_for, CASE WHEN r.cancel_requested_at IS NOT NULL THEN 'asked' END) FROM pgqrs_workflow_runs r WHERE r.run_id = run $$;
CREATE FUNCTION pg_temp.step(run bigint, step text) RETURNS text LANGUAGE sql AS
$$ SELECT concat_ws(' ', kind, status, output, error->>'type') FROM pgqrs_steps WHERE run_id = run AND step_id = step $$;
CREATE FUNCTION pg_temp.is_due(run bigint) RETURNS boolean LANGUAGE sql AS
$$ SELECT visible_after <= clock_timestamp() FROM pgqrs_messages WHERE run_id = run $$;
-- Ends a child, which somebody claims for that.
CREATE FUNCTION pg_temp.finish(run bigint, error jsonb = NULL) RETURNS void LANGUAGE plpgsql AS
$$
BEGIN
	IF error IS NULL THEN
		PERFORM pgqrs_complete_run(run, pg_temp.claim(run), to_jsonb('of ' || run));
	ELSE
		PERFORM pgqrs_fail_run(run, pg_temp.claim(run), error);
	END IF;
END
$$;

--
-- One
--

SELECT * FROM pg_temp.start('parent') \gset
SELECT pgqrs_start_child(:run, :lease, 'c', 'child', '{"n": 1}', tags => '{"t": 1}') AS child \gset
SELECT is(pgqrs_start_child(:run, :lease, 'c', 'child', '{"n": 2}'), :child::bigint, 'started once');
SELECT is((workflow, status, input, tags, parent_run_id, parent_step_id, priority, deadline_at)::text, format('(child,QUEUED,"{""n"": 1}","{""t"": 1}",%s,c,0,)', :run), 'as a trigger would, with its parent') FROM pgqrs_get_run(:child);
SELECT is((pg_temp.step(:run, 'c'), input)::text, format('("CHILD RUNNING","{""run_id"": %s}")', :child), 'its step says which it is') FROM pgqrs_steps WHERE run_id = :run AND step_id = 'c';
SELECT is(pgqrs_await_child(:run, :lease, 'c')::text, '(f,,,)', 'it has not ended');
SELECT is(pg_temp.state(:run), 'PAUSED, child c', 'so the parent is parked');
SELECT is(visible_after, 'infinity', 'for as long as it takes') FROM pgqrs_messages WHERE run_id = :run;
SELECT pg_temp.finish(:child);
SELECT ok(pg_temp.is_due(:run), 'the end of the child wakes it');
SELECT lease FROM pgqrs_dequeue('parent') \gset
SELECT is(pgqrs_start_child(:run, :lease, 'c', 'child'), :child::bigint, 'under another lease it is the same child');
SELECT is(pgqrs_await_child(:run, :lease, 'c')::text, format('(t,SUCCESS,"""of %s""",)', :child), 'its output');
SELECT is(pgqrs_await_child(:run, :lease, 'c')::text, format('(t,SUCCESS,"""of %s""",)', :child), 'again');
DELETE FROM pgqrs_workflow_runs WHERE run_id = :child;
SELECT is(pgqrs_await_child(:run, :lease, 'c')::text, format('(t,SUCCESS,"""of %s""",)', :child), 'it is the parent''s own then');

-- One that ended before anybody waits; that failed, was cancelled, is gone.
SELECT pgqrs_start_child(:run, :lease, 'early', 'child') AS early, pgqrs_start_child(:run, :lease, 'bad', 'child') AS bad,
	pgqrs_start_child(:run, :lease, 'stopped', 'child') AS stopped, pgqrs_start_child(:run, :lease, 'gone', 'child') AS gone \gset
SELECT pg_temp.finish(:early), pg_temp.finish(:bad, '{"type": "e"}'), pgqrs_cancel_run(:stopped, 'why'), pgqrs_cancel_run(:gone) \g /dev/null
DELETE FROM pgqrs_workflow_runs WHERE run_id = :gone;
SELECT is(pgqrs_await_child(:run, :lease, 'early')::text, format('(t,SUCCESS,"""of %s""",)', :early), 'ended before');
SELECT is(pgqrs_await_child(:run, :lease, 'bad')::text, '(t,ERROR,,"{""type"": ""e""}")', 'failed');
SELECT is(pgqrs_await_child(:run, :lease, 'stopped')::text, '(t,CANCELLED,,"{""type"": ""cancelled"", ""message"": ""why""}")', 'cancelled');
SELECT is((pgqrs_await_child(:run, :lease, 'gone')).status, 'CANCELLED', 'deleted');
SELECT is(pgqrs_await_child(:run, :lease, 'bad')::text, '(t,ERROR,,"{""type"": ""e""}")', 'failed, again');
SELECT is(pg_temp.step(:run, 'bad'), 'CHILD ERROR e', 'its step has failed');
SELECT is(pg_temp.step(:run, 'stopped'), 'CHILD ERROR cancelled', 'likewise');
SELECT is(pg_temp.state(:run), 'RUNNING', 'the parent has not');

-- Steps of other kinds.
SELECT pgqrs_step_begin(:run, :lease, 'f') \g /dev/null
SELECT is(pg_temp.answer(format('SELECT pgqrs_start_child(%s, %s, ''f'', ''child'')', :run, :lease)), 'PQ016 It is a step of kind FUNCTION.', 'a function is no child');
SELECT is(pg_temp.answer(format('SELECT pgqrs_step_begin(%s, %s, ''c'')', :run, :lease)), 'PQ016 It is a step of kind CHILD.', 'nor the other way round');
SELECT is(pg_temp.answer(format('SELECT pgqrs_await_child(%s, %s, ''nothing'')', :run, :lease)), 'PQ016 There is no such step.', 'no child was started');
SELECT is(pg_temp.answer(format('SELECT pgqrs_await_children(%s, %s, ''nothing'')', :run, :lease)), 'PQ016 There is no such step.', 'nor many');
SELECT is(pg_temp.answer(format('SELECT pgqrs_await_children(%s, %s, ''bad'')', :run, :lease)), 'PQ016 It was started with pgqrs_start_child().', 'one is not many');
SELECT is(pg_temp.answer(format('SELECT pgqrs_start_child(%s, %s, ''x'', ''nothing'')', :run, :lease)), 'PQ002', 'no such workflow');
SELECT is_empty(format('SELECT * FROM pgqrs_steps WHERE run_id = %s AND step_id = ''x''', :run), 'which leaves no step');

-- Keys: another run may have it.
SELECT pgqrs_trigger('child', idempotency_key => 'k') AS other \gset
SELECT is(pgqrs_start_child(:run, :lease, 'keyed', 'child', idempotency_key => 'k'), :other::bigint, 'the run that has the key');
SELECT is(pg_temp.answer(format('SELECT pgqrs_start_child(%s, %s, ''raised'', ''child'', idempotency_key => ''k'', on_duplicate => ''raise'')', :run, :lease)) ~ '^23505', true, 'or a refusal');
SELECT is(parent_run_id, NULL, 'it is not adopted') FROM pgqrs_get_run(:other);
SELECT is(pgqrs_await_child(:run, :lease, 'keyed')::text, '(f,,,)', 'but awaited');
SELECT pg_temp.finish(:other);
SELECT ok(pg_temp.is_due(:run), 'its end wakes the parent at once');
SELECT lease FROM pgqrs_dequeue('parent') \gset
SELECT is((pgqrs_await_child(:run, :lease, 'keyed')).status, 'SUCCESS', 'and it is done');
SELECT pgqrs_complete_run(:run, :lease);

-- A run cannot be its own child.
SELECT pgqrs_trigger('parent', idempotency_key => 'me') AS run \gset
SELECT pg_temp.claim(:run) AS lease \gset
SELECT is(pg_temp.answer(format('SELECT pgqrs_start_child(%s, %s, ''x'', ''parent'', idempotency_key => ''me'')', :run, :lease)), 'PQ016 It has the idempotency key that the child was to have.', 'a run is not its own child');
SELECT is(pg_temp.answer(format('SELECT pgqrs_start_children(%s, %s, ''x'', ''parent'', ''{1}'', ''{me}'')', :run, :lease)), 'PQ016 It has the idempotency key that the child was to have.', 'nor one of many');
SELECT pgqrs_complete_run(:run, :lease);

-- A key that is taken: no child, and the step has succeeded.
SELECT * FROM pg_temp.start('parent') \gset
SELECT pgqrs_trigger('child', idempotency_key => 'elsewhere') AS elsewhere \gset
SELECT is(pgqrs_start_child(:run, :lease, 'x', 'child', idempotency_key => 'elsewhere', on_duplicate => 'null'), NULL, 'null where the key is taken');
SELECT is(pg_temp.step(:run, 'x'), 'CHILD SUCCESS null', 'the step has succeeded without a child');
SELECT pgqrs_delete_run(:elsewhere);
SELECT is(pgqrs_start_child(:run, :lease, 'x', 'child', idempotency_key => 'elsewhere', on_duplicate => 'null'), NULL, 'a repeated call answers the same, also when the key is free');
SELECT ok(pg_temp.answer(format('SELECT pgqrs_await_child(%s, %s, ''x'')', :run, :lease)) ~ '^PQ016', 'there is no child to wait for');
SELECT pgqrs_complete_run(:run, :lease);

-- What a child takes from its parent.
SELECT pgqrs_create_workflow('short', timeout => '1 min') \g /dev/null
SELECT pgqrs_trigger('parent', priority => 7, timeout => '1 h') AS run \gset
SELECT pg_temp.claim(:run) AS lease, deadline_at AS deadline FROM pgqrs_get_run(:run) \gset
SELECT is((priority, deadline_at)::text, format('(7,"%s")', :'deadline'), 'priority and deadline') FROM pgqrs_get_run(pgqrs_start_child(:run, :lease, 'a', 'child'));
SELECT is((priority, deadline_at < :'deadline')::text, '(-3,t)', 'its own, if given, and the earlier deadline') FROM pgqrs_get_run(pgqrs_start_child(:run, :lease, 'b', 'short', priority => -3));
SELECT is(deadline_at, :'deadline', 'never later') FROM pgqrs_get_run(pgqrs_start_child(:run, :lease, 'd', 'child', timeout => '2 h'));
SELECT is(deadline_at, NULL, 'one that is abandoned has only its own deadline') FROM pgqrs_get_run(pgqrs_start_child(:run, :lease, 'e', 'child', on_parent_end => 'abandon'));
SELECT is(m.deadline_at, :'deadline', 'the messages too') FROM pgqrs_messages m JOIN pgqrs_runs USING (run_id) WHERE parent_step_id IN ('a', 'd') AND parent_run_id = :run;
SELECT pgqrs_complete_run(:run, :lease);
SELECT is(count(*), 4::bigint, 'success of the parent leaves children alone') FROM pgqrs_runs WHERE parent_run_id = :run AND status = 'QUEUED';
SELECT pgqrs_cancel_runs('child'), pgqrs_cancel_runs('short') \g /dev/null

--
-- Many
--

SELECT * FROM pg_temp.start('parent') \gset
SELECT pgqrs_start_children(:run, :lease, 'm', 'child', '{1,NULL,3}') AS ids \gset
SELECT is(pgqrs_start_children(:run, :lease, 'm', 'child', '{4,5,6}'), :'ids'::bigint[], 'started once');
SELECT is(pg_temp.answer(format('SELECT pgqrs_start_children(%s, %s, ''m'', ''child'', %L)', :run, :lease, inputs)), 'PQ016 They were started by an earlier call.', 'another number of inputs is refused: ' || inputs)
	FROM unnest(ARRAY['{}', '{1,2}', '{1,2,3,4}']) inputs;
SELECT results_eq(format('SELECT run_id, parent_step_id, input FROM pgqrs_runs WHERE parent_run_id = %s ORDER BY 1', :run),
	format($$SELECT id, 'm[' || n || ']', i FROM unnest(%L::bigint[], '{1,NULL,3}'::jsonb[]) WITH ORDINALITY u (id, i, n)$$, :'ids'), 'in order, each with its step');
SELECT is(pg_temp.answer(format('SELECT pgqrs_await_child(%s, %s, ''m'')', :run, :lease)), 'PQ016 They were started with pgqrs_start_children().', 'many are not one');
SELECT is(pg_temp.answer(format('SELECT pgqrs_start_child(%s, %s, ''m'', ''child'')', :run, :lease)), 'PQ016 They were started with pgqrs_start_children().', 'likewise');
SELECT is(pgqrs_await_children(:run, :lease, 'm')::text, '(f,)', 'none has ended');
SELECT is(pg_temp.state(:run), 'PAUSED, all children m', 'the parent waits for all');
SELECT pg_temp.finish((:'ids'::bigint[])[3]);
SELECT ok(NOT pg_temp.is_due(:run), 'one is not enough');
SELECT pg_temp.finish((:'ids'::bigint[])[1]);
SELECT ok(NOT pg_temp.is_due(:run), 'nor two');
SELECT pg_temp.finish((:'ids'::bigint[])[2], '{"type": "e"}');
SELECT ok(pg_temp.is_due(:run), 'all three are, however they ended');
SELECT lease FROM pgqrs_dequeue('parent') \gset
SELECT results_eq(format($$SELECT r.* FROM pgqrs_await_children(%s, %s, 'm') a, jsonb_to_recordset(results) r (run_id bigint, status text, output text, error jsonb) WHERE done$$, :run, :lease),
	format($$VALUES ((%1$L::bigint[])[1], 'SUCCESS', 'of ' || (%1$L::bigint[])[1], NULL::jsonb), ((%1$L::bigint[])[2], 'ERROR', NULL, '{"type": "e"}'), ((%1$L::bigint[])[3], 'SUCCESS', 'of ' || (%1$L::bigint[])[3], NULL)$$, :'ids'), 'what became of each, in order');
SELECT is((pgqrs_await_child(:run, :lease, 'm[2]')).status, 'ERROR', 'each is a step of its own, too');
SELECT is(left(pg_temp.step(:run, 'm'), 11), 'CHILD ERROR', 'one that failed is a failure of the step');

-- With keys and settings, which are those of all.
SELECT pgqrs_start_children(:run, :lease, 'k', 'child', '{1,2}', '{b,NULL}', -4, '1 h', '{"t": 2}', 'abandon') AS keyed \gset
SELECT results_eq(format('SELECT run_id, idempotency_key, priority, deadline_at IS NOT NULL, tags, parent_step_id FROM pgqrs_runs WHERE run_id = ANY (%L) ORDER BY input', :'keyed'),
	format($$VALUES (%s::bigint, 'b', -4, true, '{"t": 2}'::jsonb, 'k[1]'), (%s, NULL, -4, true, '{"t": 2}', 'k[2]')$$, (:'keyed'::bigint[])[1], (:'keyed'::bigint[])[2]), 'keys, priority, timeout, tags and step');
SELECT is(array_agg(DISTINCT on_parent_end::text), '{abandon}', 'and what becomes of them with the parent') FROM pgqrs_workflow_runs WHERE run_id = ANY (:'keyed'::bigint[]);
SELECT pgqrs_cancel_run(id) FROM unnest(:'keyed'::bigint[]) id \g /dev/null

-- None: a step that has succeeded, for which there is nothing to wait.
SELECT is(pgqrs_start_children(:run, :lease, 'none', 'child', '{}'), '{}', 'no inputs start no run');
SELECT is(pg_temp.step(:run, 'none'), 'CHILD SUCCESS []', 'the step is recorded');
SELECT is((kind, status, output, completed_at IS NOT NULL)::text, '(CHILD,SUCCESS,[],t)', 'as one that has succeeded with an empty list') FROM pgqrs_list_steps(:run) WHERE step_id = 'none';
SELECT is(pgqrs_start_children(:run, :lease, 'none', 'child', '{}'), '{}', 'a repeated call answers the same');
SELECT is(pgqrs_await_children(:run, :lease, 'none', mode)::text, '(t,[])', 'there is nothing to wait for: ' || mode) FROM unnest('{all,any}'::text[]) mode;
SELECT is(pg_temp.answer(format('SELECT pgqrs_start_children(%s, %s, ''none'', ''child'', ''{1}'')', :run, :lease)), 'PQ016 They were started by an earlier call.', 'a later call with an input is refused');
SELECT is(left(pg_temp.answer(format('SELECT pgqrs_start_children(%s, %s, ''no'', ''nothing'', ''{}'')', :run, :lease)), 5), 'PQ002', 'the workflow is looked up all the same');

-- Any one.
SELECT pgqrs_start_children(:run, :lease, 'n', 'child', '{1,2}') AS ids \gset
SELECT is(pgqrs_await_children(:run, :lease, 'n', 'any')::text, '(f,)', 'none has ended');
SELECT is(pg_temp.state(:run), 'PAUSED, any child n', 'the parent waits for any');
SELECT pg_temp.finish((:'ids'::bigint[])[2]);
SELECT ok(pg_temp.is_due(:run), 'one is enough');
SELECT lease FROM pgqrs_dequeue('parent') \gset
SELECT is(jsonb_path_query_array(results, '$[*].status'), '["QUEUED", "SUCCESS"]', 'the other one is as it is') FROM pgqrs_await_children(:run, :lease, 'n', 'any');
SELECT pg_temp.finish((:'ids'::bigint[])[1]);
SELECT is(jsonb_path_query_array(results, '$[*].status'), '["QUEUED", "SUCCESS"]', 'and stays so in this answer') FROM pgqrs_await_children(:run, :lease, 'n', 'any');
SELECT is(left(pg_temp.step(:run, 'n'), 13), 'CHILD SUCCESS', 'which is a success');

-- Any one, then all: each has its own answer.
SELECT pgqrs_start_children(:run, :lease, 'both', 'child', '{1,2,3}') AS ids \gset
SELECT pg_temp.finish((:'ids'::bigint[])[2]);
SELECT is(jsonb_path_query_array(results, '$[*].status'), '["QUEUED", "SUCCESS", "QUEUED"]', 'the first one is there') FROM pgqrs_await_children(:run, :lease, 'both', 'any');
SELECT is(pgqrs_await_children(:run, :lease, 'both')::text, '(f,)', 'all are not there when one is');
SELECT is(pg_temp.state(:run), 'PAUSED, all children both', 'so the parent waits for all');
SELECT pg_temp.finish((:'ids'::bigint[])[3]);
SELECT ok(NOT pg_temp.is_due(:run), 'two of three do not wake it');
SELECT pg_temp.finish((:'ids'::bigint[])[1], '{"type": "e"}');
SELECT ok(pg_temp.is_due(:run), 'three do');
SELECT lease FROM pgqrs_dequeue('parent') \gset
SELECT is(jsonb_path_query_array(results, '$[*].status'), '["QUEUED", "SUCCESS", "QUEUED"]', 'the answer for any one is what it was') FROM pgqrs_await_children(:run, :lease, 'both', 'any');
SELECT is(jsonb_path_query_array(results, '$[*].status'), '["ERROR", "SUCCESS", "SUCCESS"]', 'all have their own') FROM pgqrs_await_children(:run, :lease, 'both');
SELECT is(left(pg_temp.step(:run, 'both'), 11), 'CHILD ERROR', 'one that failed is a failure of the step now');
SELECT is(jsonb_path_query_array(results, '$[*].status'), '["QUEUED", "SUCCESS", "QUEUED"]', 'any one, again') FROM pgqrs_await_children(:run, :lease, 'both', 'any');
SELECT is(jsonb_path_query_array(results, '$[*].status'), '["ERROR", "SUCCESS", "SUCCESS"]', 'all, again') FROM pgqrs_await_children(:run, :lease, 'both');

-- Results that are too large together: each is there on its own.
SELECT pgqrs_start_children(:run, :lease, 'large', 'child', '{1,2,3}') AS ids \gset
SELECT pgqrs_complete_run(id, pg_temp.claim(id), to_jsonb(repeat('x', 1000000))) FROM unnest(:'ids'::bigint[]) id \g /dev/null
SELECT is(results, (SELECT jsonb_agg(jsonb_build_object('run_id', id, 'status', 'SUCCESS', 'output', '{"truncated": true}'::jsonb, 'error', NULL)) FROM unnest(:'ids'::bigint[]) id), 'outputs over payload_max together are not told together') FROM pgqrs_await_children(:run, :lease, 'large');
SELECT is(left(pg_temp.step(:run, 'large'), 13), 'CHILD SUCCESS', 'the step has succeeded all the same');
SELECT is((status, length(output #>> '{}'))::text, '(SUCCESS,1000000)', 'each one is told whole') FROM pgqrs_await_child(:run, :lease, 'large[2]');

-- The last child first: what is looked at for each end does not grow with their number.
SELECT pgqrs_start_children(:run, :lease, 'back', 'child', array_agg('{}'::jsonb)) AS ids FROM generate_series(1, 400) \gset
SELECT pgqrs_await_children(:run, :lease, 'back') \g /dev/null
CREATE FUNCTION pg_temp.looks() RETURNS bigint LANGUAGE sql AS
$$ SELECT pg_stat_get_xact_numscans('pgqrs_workflow_runs_pkey'::regclass) $$;
CREATE FUNCTION pg_temp.end_backwards(ids bigint[]) RETURNS bigint LANGUAGE plpgsql AS
$$
DECLARE
	before bigint := pg_temp.looks();
BEGIN
	FOR i IN REVERSE cardinality(ids)..1 LOOP
		PERFORM pg_temp.finish(ids[i]);
	END LOOP;
	RETURN pg_temp.looks() - before;
END
$$;
SELECT cmp_ok(pg_temp.end_backwards(:'ids'), '<', 400 * 20::bigint, 'ends in the opposite order are looked at a few times each, not all of them each time');
SELECT ok(pg_temp.is_due(:run), 'and the last one wakes the parent');
SELECT lease FROM pgqrs_dequeue('parent') \gset
SELECT pgqrs_step_complete(:run, :lease, 'taken[2]') \g /dev/null
SELECT is(pg_temp.answer(format('SELECT pgqrs_start_children(%s, %s, ''taken'', ''child'', ''{1,2}'')', :run, :lease)), 'PQ016 It is none of the children of step "taken".', 'a step that is somebody else''s');
SELECT is(left(pg_temp.answer(format('SELECT pgqrs_start_children(%s, %s, repeat(''x'', 253), ''child'', ''{1,2}'')', :run, :lease)), 5), '22023', 'their step ids are ids');
SELECT pgqrs_complete_run(:run, :lease);

--
-- Parents that end badly
--

-- The parent, a child of each kind, a grandchild; ended by a call.
CREATE FUNCTION pg_temp.family(OUT run bigint, OUT lease bigint, OUT waiting bigint, OUT held bigint, OUT parked bigint, OUT grandchild bigint, OUT abandoned bigint, OUT ended bigint) LANGUAGE plpgsql AS
$$
DECLARE
	l bigint;
BEGIN
	SELECT * INTO run, lease FROM pg_temp.start('parent');
	waiting := pgqrs_start_child(run, lease, 'waiting', 'child', delay => '1 h');
	held := pgqrs_start_child(run, lease, 'held', 'child');
	l := pg_temp.claim(held);
	parked := pgqrs_start_child(run, lease, 'parked', 'child');
	l := pg_temp.claim(parked);
	grandchild := pgqrs_start_child(parked, l, 'c', 'child', delay => '1 h');
	PERFORM pgqrs_await_child(parked, l, 'c');
	abandoned := pgqrs_start_child(run, lease, 'abandoned', 'child', delay => '1 h', on_parent_end => 'abandon');
	ended := pgqrs_start_child(run, lease, 'ended', 'child');
	PERFORM pg_temp.finish(ended);
END
$$;
CREATE FUNCTION pg_temp.follows(call text) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	f record;
BEGIN
	SELECT * INTO f FROM pg_temp.family();
	EXECUTE format('SELECT ' || call, f.run, f.lease);
	RETURN concat_ws('; ', pg_temp.state(f.run), pg_temp.state(f.waiting), pg_temp.state(f.held), pg_temp.state(f.parked), pg_temp.state(f.grandchild), pg_temp.state(f.abandoned), pg_temp.state(f.ended));
END
$$;
SELECT is(pg_temp.follows(call), status || '; CANCELLED; RUNNING, asked; CANCELLED; CANCELLED; QUEUED; SUCCESS', call) FROM (VALUES
	('pgqrs_fail_run(%s, %s, ''{}'')', 'ERROR'),
	('pgqrs_step_fail(%s, %s, ''s'', ''{}'', retryable => false)', 'ERROR'),
	('pgqrs_delete_run(%s)', 'CANCELLED'),
	('pg_temp.due(%s), pgqrs_cancel_run(%1$s)', 'CANCELLED'),
	('pgqrs_cancel_run(%s), pgqrs_acknowledge_cancel(%1$s, %s)', 'CANCELLED, asked'),
	('pgqrs_cancel_run(%s), pgqrs_release_message(%1$s, %s)', 'CANCELLED, asked'),
	('pg_temp.late(%s), pgqrs_maintain()', 'ERROR'),
	('pg_temp.late(%s), pg_temp.due(%1$s), pgqrs_dequeue(''parent''), pgqrs_maintain()', 'ERROR'),
	('pg_temp.due(%s), pgqrs_cancel_runs(''parent'')', 'CANCELLED'),
	('pg_temp.due(%s), pgqrs_purge_queue(''parent''), pgqrs_maintain()', 'CANCELLED')) v (call, status);
SELECT is(pg_temp.follows(call), status || '; QUEUED; RUNNING; PAUSED, child c; QUEUED; QUEUED; SUCCESS', call) FROM (VALUES
	('pgqrs_complete_run(%s, %s)', 'SUCCESS'),
	('pgqrs_fail_run(%s, %s, ''{}'', true)', 'RUNNING'),
	('pgqrs_cancel_run(%s)', 'RUNNING, asked')) v (call, status);
SELECT is(cancel_reason ~ 'its parent, has ended', true, 'the reason is told') FROM pgqrs_runs WHERE status = 'CANCELLED' AND parent_step_id = 'waiting' LIMIT 1;
SELECT is_empty('SELECT * FROM pgqrs_archive WHERE waiting_for IS NOT NULL', 'nothing is left to be done');

-- What somebody has locked at that moment, and what is too many, is done later.
SELECT * FROM pg_temp.start('parent') \gset
SELECT count(pgqrs_start_children(:run, :lease, 'm' || g, 'child', array_fill('1'::jsonb, '{500}'))) FROM generate_series(1, 5) g \g /dev/null
SELECT pgqrs_fail_run(:run, :lease, '{}') \g /dev/null
SELECT is(count(*), 1000::bigint, 'a large family: a thousand at once') FROM pgqrs_runs WHERE parent_run_id = :run AND status = 'CANCELLED';
SELECT is(waiting_for ~ '^children after [1-9]', true, 'the rest is noted') FROM pgqrs_archive WHERE message_id = :run;
SELECT is((pgqrs_maintain()->'runs_cancelled')::text, '1000', 'and done by passes');
SELECT is((pgqrs_maintain()->'runs_cancelled')::text, '500', 'until none is left');
SELECT is((count(*) FILTER (WHERE status = 'CANCELLED'), count(*))::text, '(2500,2500)', 'all are cancelled') FROM pgqrs_runs WHERE parent_run_id = :run;
SELECT is(waiting_for, NULL, 'and no note is left') FROM pgqrs_archive WHERE message_id = :run;

--
-- Several parents
--

-- Two that have the same child: by its key, from a parent, and from none.
CREATE FUNCTION pg_temp.two(end_1 text, end_2 text, key text, OUT a bigint, OUT la bigint, OUT b bigint, OUT lb bigint, OUT child bigint) LANGUAGE plpgsql AS
$$
BEGIN
	SELECT * INTO a, la FROM pg_temp.start('parent');
	SELECT * INTO b, lb FROM pg_temp.start('parent');
	child := pgqrs_start_child(a, la, 'one', 'child', idempotency_key => key, on_parent_end => end_1);
	IF pgqrs_start_child(b, lb, 'two', 'child', idempotency_key => key, on_parent_end => end_2) <> child THEN
		RAISE 'not the same child';
	END IF;
END
$$;
SELECT * FROM pg_temp.two('cancel', 'abandon', 'shared') \gset
SELECT results_eq(format('SELECT * FROM pgqrs_run_parents WHERE run_id = %s ORDER BY 2', :child), format($$VALUES (%1$s::bigint, %2$s::bigint, 'one', 'cancel'), (%1$s, %3$s, 'two', 'abandon')$$, :child, :a, :b), 'both are its parents');
SELECT pgqrs_await_child(:a, :la, 'one'), pgqrs_await_child(:b, :lb, 'two') \g /dev/null
SELECT pg_temp.finish(:child);
SELECT is((pg_temp.is_due(:a), pg_temp.is_due(:b))::text, '(t,t)', 'its end wakes both');
-- Retention would remove it, but for a parent that has not asked yet.
UPDATE pgqrs_archive SET archived_at = archived_at - interval '1 year' WHERE message_id = :child;
SELECT pg_temp.claim(:a) AS la, pg_temp.claim(:b) AS lb \gset
SELECT is((pgqrs_await_child(:a, :la, 'one')).status, 'SUCCESS', 'the one that triggered it reads its result');
SELECT pgqrs_complete_run(:a, :la), pgqrs_apply_retention() \g /dev/null
SELECT is((pgqrs_await_child(:b, :lb, 'two')).status, 'SUCCESS', 'the other one, too, however late it asks');
SELECT pgqrs_complete_run(:b, :lb), pgqrs_apply_retention() \g /dev/null
SELECT is_empty(format('SELECT run_id FROM pgqrs_workflow_runs WHERE run_id = %1$s UNION ALL SELECT run_id FROM pgqrs_workflow_run_parents WHERE run_id = %1$s', :child), 'then it goes, and what is known of its parents');

-- It is cancelled when the last one that holds it ends badly.
CREATE FUNCTION pg_temp.ends(end_1 text, end_2 text, first_1 boolean, succeeds boolean, OUT after_one text, OUT after_both text) LANGUAGE plpgsql AS
$$
DECLARE
	f record;
BEGIN
	SELECT * INTO f FROM pg_temp.two(end_1, end_2, concat_ws(' ', end_1, end_2, first_1, succeeds));
	IF succeeds THEN
		PERFORM pgqrs_complete_run(CASE WHEN first_1 THEN f.a ELSE f.b END, CASE WHEN first_1 THEN f.la ELSE f.lb END);
	ELSE
		PERFORM pgqrs_fail_run(CASE WHEN first_1 THEN f.a ELSE f.b END, CASE WHEN first_1 THEN f.la ELSE f.lb END, '{}');
	END IF;
	PERFORM pgqrs_maintain();
	after_one := pg_temp.state(f.child);
	PERFORM pgqrs_fail_run(CASE WHEN first_1 THEN f.b ELSE f.a END, CASE WHEN first_1 THEN f.lb ELSE f.la END, '{}');
	PERFORM pgqrs_maintain();
	after_both := pg_temp.state(f.child);
	PERFORM pgqrs_cancel_run(f.child);
END
$$;
SELECT is(pg_temp.ends(end_1, end_2, first_1, succeeds)::text, format('(QUEUED,%s)', CASE WHEN end_1 = 'abandon' OR end_2 = 'abandon' OR succeeds THEN 'QUEUED' ELSE 'CANCELLED' END),
		format('%s and %s, the %s parent ends first, %s', end_1, end_2, CASE WHEN first_1 THEN 'first' ELSE 'second' END, CASE WHEN succeeds THEN 'well' ELSE 'badly' END))
	FROM unnest('{cancel,abandon}'::text[]) end_1, unnest('{cancel,abandon}'::text[]) end_2, unnest('{t,f}'::boolean[]) first_1, unnest('{t,f}'::boolean[]) succeeds;
SELECT pgqrs_trigger('child', idempotency_key => 'free') AS free \gset
SELECT * FROM pg_temp.two('cancel', 'cancel', 'free') \gset
SELECT pgqrs_fail_run(:a, :la, '{}'), pgqrs_fail_run(:b, :lb, '{}'), pgqrs_maintain() \g /dev/null
SELECT is(pg_temp.state(:free), 'QUEUED', 'a run that had no parent when it was triggered goes on');
SELECT pgqrs_cancel_run(:free) \g /dev/null

-- Workflows that are deleted: their runs end badly, as parents and as children.
SELECT pgqrs_create_workflow('gone') \g /dev/null
SELECT pgqrs_trigger('gone') AS g \gset
SELECT pg_temp.claim(:g) AS lg \gset
SELECT * FROM pg_temp.start('parent') \gset
SELECT pgqrs_start_child(:g, :lg, 'own', 'child', delay => '1 h') AS own, pgqrs_start_child(:g, :lg, 'both', 'child', idempotency_key => 'of gone', delay => '1 h') AS both,
	pgqrs_start_child(:run, :lease, 'both', 'child', idempotency_key => 'of gone') AS same \gset
SELECT pgqrs_delete_workflow('gone', force => true), pgqrs_maintain(), pgqrs_maintain() \g /dev/null
SELECT is((pg_temp.state(:own), pg_temp.state(:both))::text, '(CANCELLED,QUEUED)', 'with the workflow of its parent a child ends, unless another parent holds it');
SELECT pgqrs_await_child(:run, :lease, 'both') \g /dev/null
SELECT pgqrs_cancel_run(:run) \g /dev/null
SELECT is(pg_temp.state(:both), 'CANCELLED', 'which it does until its end');
SELECT pgqrs_create_workflow('gone') \g /dev/null
SELECT * FROM pg_temp.start('parent') \gset
SELECT run AS run_2, lease AS lease_2 FROM pg_temp.start('parent') \gset
SELECT pgqrs_start_child(:run, :lease, 'c', 'gone', idempotency_key => 'c') AS child, pgqrs_start_child(:run_2, :lease_2, 'c', 'gone', idempotency_key => 'c') AS same \gset
SELECT pgqrs_await_child(:run, :lease, 'c'), pgqrs_await_child(:run_2, :lease_2, 'c') \g /dev/null
SELECT pgqrs_delete_workflow('gone', force => true), pgqrs_maintain() \g /dev/null
SELECT is((pg_temp.is_due(:run), pg_temp.is_due(:run_2))::text, '(t,t)', 'a child that ends with its workflow wakes all its parents');
SELECT pgqrs_cancel_run(:run), pgqrs_cancel_run(:run_2) \g /dev/null

-- Many, by keys; and nobody waits for its own end.
SELECT * FROM pg_temp.two('cancel', 'cancel', 'with many') \gset
SELECT pgqrs_start_children(:b, :lb, 'm', 'child', '{1,2}', '{"with many",NULL}') AS ids \gset
SELECT is(array_agg(parent_step_id ORDER BY parent_step_id), '{m[1],one,two}', 'a child that is one of many') FROM pgqrs_run_parents WHERE run_id = :child;
SELECT pgqrs_complete_run(:b, :lb), pgqrs_complete_run(:a, :la), pgqrs_cancel_runs('child') \g /dev/null
SELECT pgqrs_trigger('parent', idempotency_key => 'x') AS x \gset
SELECT pg_temp.claim(:x) AS lx \gset
SELECT pgqrs_start_child(:x, :lx, 'y', 'parent', idempotency_key => 'y') AS y \gset
SELECT pg_temp.claim(:y) AS ly \gset
SELECT is(pg_temp.answer(format('SELECT pgqrs_start_child(%s, %s, ''x'', ''parent'', idempotency_key => ''x'')', :y, :ly)), 'PQ016 It is one of its parents, or a parent of those.', 'two runs are not each the other''s child');
SELECT pgqrs_complete_run(:y, :ly), pgqrs_complete_run(:x, :lx);

--
-- Replays
--

SELECT * FROM pg_temp.start('parent') \gset
SELECT pgqrs_start_child(:run, :lease, 'good', 'child') AS good, pgqrs_start_child(:run, :lease, 'bad', 'child') AS bad, pgqrs_start_child(:run, :lease, 'open', 'child', delay => '1 h') AS open,
	pgqrs_start_child(:run, :lease, 'abandoned', 'child', delay => '1 h', on_parent_end => 'abandon') AS abandoned, pgqrs_start_children(:run, :lease, 'm', 'child', '{1,2}') AS ids \gset
SELECT pg_temp.finish(:good), pg_temp.finish(:bad, '{}'), pg_temp.finish((:'ids'::bigint[])[1]), pg_temp.finish((:'ids'::bigint[])[2], '{}');
SELECT pgqrs_await_child(:run, :lease, 'good'), pgqrs_await_child(:run, :lease, 'bad'), pgqrs_await_children(:run, :lease, 'm'), pgqrs_fail_run(:run, :lease, '{}') \g /dev/null
SELECT pgqrs_replay_message(:run), pg_temp.claim(:run) AS lease \gset
SELECT is(pgqrs_start_child(:run, :lease, 'good', 'child'), :good::bigint, 'a child that succeeded stays');
SELECT isnt(pgqrs_start_child(:run, :lease, 'bad', 'child'), :bad::bigint, 'one that failed is started again');
SELECT isnt(pgqrs_start_child(:run, :lease, 'open', 'child'), :open::bigint, 'so is one that was cancelled with the parent');
SELECT is(pgqrs_start_child(:run, :lease, 'abandoned', 'child'), :abandoned::bigint, 'one that went on is still the parent''s');
SELECT is(pg_temp.answer(format('SELECT pgqrs_start_children(%s, %s, ''m'', ''child'', ''{1,2,3}'')', :run, :lease)), 'PQ016 They were started by an earlier call.', 'as many as before');
SELECT pgqrs_start_children(:run, :lease, 'm', 'child', '{1,2}') AS again \gset
SELECT is((:'again'::bigint[])[1], (:'ids'::bigint[])[1], 'of many, those that succeeded stay');
SELECT isnt((:'again'::bigint[])[2], (:'ids'::bigint[])[2], 'those that failed are started again');
SELECT is(parent_step_id, 'm[2]', 'as the same step') FROM pgqrs_get_run((:'again'::bigint[])[2]);
SELECT is(pgqrs_start_children(:run, :lease, 'm', 'child', '{1,2}'), :'again'::bigint[], 'once');
SELECT pg_temp.finish((:'again'::bigint[])[2]);
SELECT is(jsonb_path_query_array(results, '$[*].status'), '["SUCCESS", "SUCCESS"]', 'and awaited') FROM pgqrs_await_children(:run, :lease, 'm');

SELECT array_agg(v::text) AS wrong FROM pgqrs_verify() v WHERE NOT ok \gset

-- With keys: what failed does not keep its key from what is started in its place.
SELECT pgqrs_complete_run(:run, :lease);
SELECT * FROM pg_temp.start('parent') \gset
SELECT pgqrs_start_child(:run, :lease, 'c', 'child', idempotency_key => 'order') AS child, pgqrs_start_children(:run, :lease, 'm', 'child', '{1,2}', '{m1,m2}') AS ids \gset
SELECT pg_temp.finish(:child, '{}'), pg_temp.finish((:'ids'::bigint[])[1]), pg_temp.finish((:'ids'::bigint[])[2], '{}');
SELECT pgqrs_await_child(:run, :lease, 'c'), pgqrs_await_children(:run, :lease, 'm'), pgqrs_fail_run(:run, :lease, '{}') \g /dev/null
SELECT pgqrs_trigger('child', idempotency_key => 'order') AS kept \gset
SELECT is(:kept::bigint, :child::bigint, 'for all others the failed child has its key');
SELECT pgqrs_replay_message(:run), pg_temp.claim(:run) AS lease \gset
SELECT pgqrs_start_child(:run, :lease, 'c', 'child', idempotency_key => 'order') AS anew, pgqrs_start_children(:run, :lease, 'm', 'child', '{1,2}', '{m1,m2}') AS again \gset
SELECT isnt(:anew::bigint, :child::bigint, 'a failed child with a key is started again');
SELECT is(pgqrs_start_child(:run, :lease, 'c', 'child', idempotency_key => 'order'), :anew::bigint, 'once');
SELECT is((status, idempotency_key)::text, '(QUEUED,order)', 'with the key') FROM pgqrs_get_run(:anew);
SELECT is(pgqrs_trigger('child', idempotency_key => 'order'), :anew::bigint, 'which is its own now');
SELECT is(pg_temp.answer(format('SELECT pgqrs_replay_message(%s)', :child)), 'PQ016 Another message has taken its idempotency key.', 'so that the one that failed is not replayed beside it');
SELECT is(((:'again'::bigint[])[1] = (:'ids'::bigint[])[1], (:'again'::bigint[])[2] = (:'ids'::bigint[])[2])::text, '(t,f)', 'of many with keys, those that failed');
SELECT is(array_agg(v::text)::text, :'wrong', 'their rows agree') FROM pgqrs_verify() v WHERE NOT ok;
SELECT pg_temp.finish(:anew, '{}'), pgqrs_await_child(:run, :lease, 'c'), pgqrs_fail_run(:run, :lease, '{}') \g /dev/null
SELECT pgqrs_rerun(:run) AS run \gset
SELECT pg_temp.claim(:run) AS lease \gset
SELECT pgqrs_start_child(:run, :lease, 'c', 'child', idempotency_key => 'order') AS other \gset
SELECT isnt(:other::bigint, :anew::bigint, 'a rerun starts a failed child with a key again, too');
SELECT pg_temp.finish(:other, '{}');
SELECT is(pgqrs_start_child(:run, :lease, 'd', 'child', idempotency_key => 'order'), :other::bigint, 'but not what has failed since');
SELECT pgqrs_complete_run(:run, :lease);

-- A child that is only asked to stop is waited for.
CREATE FUNCTION pg_temp.stopping(OUT run bigint, OUT lease bigint, OUT child bigint, OUT held bigint, OUT ids bigint[], OUT held_2 bigint) LANGUAGE plpgsql AS
$$
BEGIN
	SELECT s.run, s.lease INTO run, lease FROM pg_temp.start('parent') s;
	child := pgqrs_start_child(run, lease, 'c', 'child', idempotency_key => 'stopping ' || run);
	ids := pgqrs_start_children(run, lease, 'm', 'child', '{1,2}');
	held := pg_temp.claim(child);
	held_2 := pg_temp.claim(ids[2]);
	PERFORM pgqrs_fail_run(run, lease, '{}');
	PERFORM pgqrs_maintain();
	PERFORM pgqrs_replay_message(run);
	lease := pg_temp.claim(run);
END
$$;
CREATE FUNCTION pg_temp.start_again(run bigint, lease bigint, OUT child bigint, OUT ids bigint[]) LANGUAGE plpgsql AS
$$
BEGIN
	child := pgqrs_start_child(run, lease, 'c', 'child', idempotency_key => 'stopping ' || run);
	ids := pgqrs_start_children(run, lease, 'm', 'child', '{1,2}');
END
$$;
SELECT * FROM pg_temp.stopping() \gset
SELECT is(pg_temp.state(:child), 'RUNNING, asked', 'the child is held by a worker that was asked to stop');
SELECT child AS same, ids AS again FROM pg_temp.start_again(:run, :lease) \gset
SELECT is(:same::bigint, :child::bigint, 'while it goes on there is no other');
SELECT is(((:'again'::bigint[])[1] = (:'ids'::bigint[])[1], (:'again'::bigint[])[2] = (:'ids'::bigint[])[2])::text, '(f,t)', 'of many, one that was cancelled is started again');
SELECT is(pgqrs_await_child(:run, :lease, 'c')::text, '(f,,,)', 'it is awaited');
SELECT pgqrs_complete_run(:child, :held, '1');
SELECT pg_temp.claim(:run) AS lease \gset
SELECT child AS same, ids AS same_ids FROM pg_temp.start_again(:run, :lease) \gset
SELECT is((pgqrs_await_child(:run, :lease, 'c')).status, 'SUCCESS', 'if it succeeds after all it is the child');
SELECT is(:'same_ids'::bigint[], :'again'::bigint[], 'the others are still the same');
SELECT pg_temp.finish((:'again'::bigint[])[1]), pgqrs_acknowledge_cancel((:'ids'::bigint[])[2], :held_2) \g /dev/null
SELECT is(pgqrs_await_children(:run, :lease, 'm')::text, '(f,)', 'one of many that has stopped is no answer');
SELECT is((pgqrs_maintain()->'runs_woken')::text, '1', 'the parent is delivered again');
SELECT pg_temp.claim(:run) AS lease \gset
SELECT ids AS new_ids FROM pg_temp.start_again(:run, :lease) \gset
SELECT isnt((:'new_ids'::bigint[])[2], (:'ids'::bigint[])[2], 'and starts another in its place');
SELECT pg_temp.finish((:'new_ids'::bigint[])[2]);
SELECT is(jsonb_path_query_array(results, '$[*].status'), '["SUCCESS", "SUCCESS"]', 'which is awaited') FROM pgqrs_await_children(:run, :lease, 'm');
SELECT pgqrs_complete_run(:run, :lease);

SELECT * FROM pg_temp.stopping() \gset
SELECT child AS same FROM pg_temp.start_again(:run, :lease) \gset
SELECT is(pgqrs_await_child(:run, :lease, 'c')::text, '(f,,,)', 'it is awaited');
SELECT pgqrs_acknowledge_cancel(:child, :held) \g /dev/null
SELECT ok(pg_temp.is_due(:run), 'if it stops, its parent is delivered again');
SELECT pg_temp.claim(:run) AS lease \gset
SELECT child AS anew FROM pg_temp.start_again(:run, :lease) \gset
SELECT isnt(:anew::bigint, :child::bigint, 'and starts another, with its key');
SELECT is(array_agg(run_id), ARRAY[:anew::bigint], 'of which one is alive') FROM pgqrs_runs WHERE parent_run_id = :run AND parent_step_id = 'c' AND status NOT IN ('SUCCESS', 'ERROR', 'CANCELLED');
SELECT pgqrs_cancel_run(:run) \g /dev/null

-- A child that is replayed ends with its parent still.
SELECT pgqrs_trigger('parent', timeout => '1 h') AS run \gset
SELECT pg_temp.claim(:run) AS lease, deadline_at AS deadline FROM pgqrs_get_run(:run) \gset
SELECT pgqrs_start_child(:run, :lease, 'c', 'child') AS child, pgqrs_start_child(:run, :lease, 's', 'short') AS short \gset
SELECT pg_temp.finish(:child, '{}'), pg_temp.finish(:short, '{}'), pgqrs_replay_message(:child), pgqrs_replay_message(:short);
SELECT is((r.deadline_at, m.deadline_at)::text, format('("%1$s","%1$s")', :'deadline'), 'a replayed child has its parent''s deadline') FROM pgqrs_get_run(:child) r, pgqrs_messages m WHERE message_id = :child;
SELECT ok(deadline_at BETWEEN clock_timestamp() AND clock_timestamp() + '1 min', 'or its own anew') FROM pgqrs_get_run(:short);
SELECT pg_temp.finish(:child, '{}'), pgqrs_complete_run(:run, :lease), pgqrs_replay_message(:child);
SELECT is((r.deadline_at, m.deadline_at)::text, '(,)', 'if the parent has ended, none') FROM pgqrs_get_run(:child) r, pgqrs_messages m WHERE message_id = :child;
SELECT pgqrs_trigger('parent', timeout => '1 h') AS run \gset
SELECT pg_temp.claim(:run) AS lease \gset
SELECT pgqrs_start_child(:run, :lease, 'c', 'child', on_parent_end => 'abandon') AS child \gset
SELECT pg_temp.finish(:child, '{}'), pgqrs_replay_message(:child);
SELECT is(deadline_at, NULL, 'one that is abandoned has none after a replay either') FROM pgqrs_get_run(:child);

SELECT * FROM finish();
