-- Children: started once, awaited, one and many; what follows a parent's end.
\ir include/runs.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_workflow('parent', visibility_timeout => '10 min'), pgqrs_create_workflow('child',
	visibility_timeout => '10 min', max_attempts => 1) \g /dev/null

CREATE FUNCTION pg_temp.state(run bigint) RETURNS text LANGUAGE sql AS
$$ SELECT concat_ws(', ', r.status, r.waiting_for, CASE WHEN r.cancel_requested_at IS NOT NULL THEN 'asked' END)
	FROM pgqrs_workflow_runs r WHERE r.run_id = run $$;
CREATE FUNCTION pg_temp.step(run bigint, step text) RETURNS text LANGUAGE sql AS
$$ SELECT concat_ws(' ', kind, status, output, error->>'type') FROM pgqrs_steps WHERE run_id = run
	AND step_id = step $$;
CREATE FUNCTION pg_temp.is_due(run bigint) RETURNS boolean LANGUAGE sql AS
$$ SELECT visible_after <= clock_timestamp() FROM pgqrs_messages WHERE run_id = run $$;
-- Ends a child, which it claims for that.
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
SELECT is(pgqrs_start_child(:run, :lease, 'c', 'child', '{"n": 2}'), :child::bigint,
	'a second call of the step returns the child of the first call');
SELECT is((workflow, status, input, tags, parent_run_id, parent_step_id, priority, deadline_at)::text,
	format('(child,QUEUED,"{""n"": 1}","{""t"": 1}",%s,c,0,)', :run),
	'a child is what a trigger would make, with its parent') FROM pgqrs_get_run(:child);
SELECT is((pg_temp.step(:run, 'c'), input)::text, format('("CHILD RUNNING","{""run_id"": %s}")', :child),
	'the step of a child stores the id of the child') FROM pgqrs_steps WHERE run_id = :run AND step_id = 'c';
SELECT is(pgqrs_await_child(:run, :lease, 'c')::text, '(f,,,)',
	'waiting for a child that goes on says that it has not ended');
SELECT is(pg_temp.state(:run), 'PAUSED, child c', 'waiting for a child that goes on suspends the parent');
SELECT is(visible_after, 'infinity', 'a parent that waits for a child is not due by itself') FROM pgqrs_messages
	WHERE run_id = :run;
SELECT pg_temp.finish(:child);
SELECT ok(pg_temp.is_due(:run), 'the end of the child wakes the parent');
SELECT lease FROM pgqrs_dequeue('parent') \gset
SELECT is(pgqrs_start_child(:run, :lease, 'c', 'child'), :child::bigint,
	'under another lease the step returns the same child');
SELECT is(pgqrs_await_child(:run, :lease, 'c')::text, format('(t,SUCCESS,"""of %s""",)', :child),
	'waiting for an ended child returns its output');
SELECT is(pgqrs_await_child(:run, :lease, 'c')::text, format('(t,SUCCESS,"""of %s""",)', :child),
	'waiting again returns the same output');
DELETE FROM pgqrs_workflow_runs WHERE run_id = :child;
SELECT is(pgqrs_await_child(:run, :lease, 'c')::text, format('(t,SUCCESS,"""of %s""",)', :child),
	'the parent has the output after the child was removed');

-- A child that ended before the parent waits; that failed, was cancelled, was removed.
SELECT pgqrs_start_child(:run, :lease, 'early', 'child') AS early, pgqrs_start_child(:run, :lease, 'bad',
	'child') AS bad,
	pgqrs_start_child(:run, :lease, 'stopped', 'child') AS stopped, pgqrs_start_child(:run, :lease, 'gone',
		'child') AS gone \gset
SELECT pg_temp.finish(:early), pg_temp.finish(:bad, '{"type": "e"}'), pgqrs_cancel_run(:stopped, 'why'),
	pgqrs_cancel_run(:gone) \g /dev/null
DELETE FROM pgqrs_workflow_runs WHERE run_id = :gone;
SELECT is(pgqrs_await_child(:run, :lease, 'early')::text, format('(t,SUCCESS,"""of %s""",)', :early),
	'waiting for a child that ended before returns its output');
SELECT is(pgqrs_await_child(:run, :lease, 'bad')::text, '(t,ERROR,,"{""type"": ""e""}")',
	'waiting for a child that failed returns its error');
SELECT is(pgqrs_await_child(:run, :lease, 'stopped')::text,
	'(t,CANCELLED,,"{""type"": ""cancelled"", ""message"": ""why""}")',
	'waiting for a cancelled child returns the reason');
SELECT is((pgqrs_await_child(:run, :lease, 'gone')).status, 'CANCELLED',
	'waiting for a child that was removed returns CANCELLED');
SELECT is(pgqrs_await_child(:run, :lease, 'bad')::text, '(t,ERROR,,"{""type"": ""e""}")',
	'waiting again for a child that failed returns the same error');
SELECT is(pg_temp.step(:run, 'bad'), 'CHILD ERROR e', 'the step of a child that failed is in ERROR');
SELECT is(pg_temp.step(:run, 'stopped'), 'CHILD ERROR cancelled', 'the step of a cancelled child is in ERROR');
SELECT is(pg_temp.state(:run), 'RUNNING', 'a child that failed does not fail its parent');

-- Steps of other kinds.
SELECT pgqrs_step_begin(:run, :lease, 'f') \g /dev/null
SELECT is(pg_temp.answer(format('SELECT pgqrs_start_child(%s, %s, ''f'', ''child'')', :run, :lease)),
	'PQ016 The kind of the step is FUNCTION.', 'the step of a function cannot start a child');
SELECT is(pg_temp.answer(format('SELECT pgqrs_step_begin(%s, %s, ''c'')', :run, :lease)),
	'PQ016 The kind of the step is CHILD.', 'the step of a child cannot begin as a function');
SELECT is(pg_temp.answer(format('SELECT pgqrs_await_child(%s, %s, ''nothing'')', :run, :lease)),
	'PQ016 No call has started a child under this step id.', 'waiting for a child that was not started is refused');
SELECT is(pg_temp.answer(format('SELECT pgqrs_await_children(%s, %s, ''nothing'')', :run, :lease)),
	'PQ016 No call has started a child under this step id.', 'waiting for children that were not started is refused');
SELECT is(pg_temp.answer(format('SELECT pgqrs_await_children(%s, %s, ''bad'')', :run, :lease)),
	'PQ016 The child was started with pgqrs_start_child().', 'waiting for one child as for many is refused');
SELECT is(pg_temp.answer(format('SELECT pgqrs_start_child(%s, %s, ''x'', ''nothing'')', :run, :lease)), 'PQ002',
	'a child of an unknown workflow is refused');
SELECT is_empty(format('SELECT * FROM pgqrs_steps WHERE run_id = %s AND step_id = ''x''', :run),
	'a refused child leaves no step');

-- Keys: another run may have it.
SELECT pgqrs_trigger('child', idempotency_key => 'k') AS other \gset
SELECT is(pgqrs_start_child(:run, :lease, 'keyed', 'child', idempotency_key => 'k'), :other::bigint,
	'a child with a taken key is the run that has the key');
SELECT is(pg_temp.answer(format('SELECT pgqrs_start_child(%s, %s, ''raised'', ''child'', idempotency_key => ''k'', '
	'on_duplicate => ''raise'')', :run, :lease)) ~ '^23505', true,
	'a child with a taken key is refused with on_duplicate raise');
SELECT is(parent_run_id, NULL, 'a run that is a child by its key keeps having no parent') FROM pgqrs_get_run(:other);
SELECT is(pgqrs_await_child(:run, :lease, 'keyed')::text, '(f,,,)',
	'waiting for a child by its key suspends the parent');
SELECT pg_temp.finish(:other);
SELECT ok(pg_temp.is_due(:run), 'the end of a child by its key wakes the parent');
SELECT lease FROM pgqrs_dequeue('parent') \gset
SELECT is((pgqrs_await_child(:run, :lease, 'keyed')).status, 'SUCCESS',
	'waiting for a child by its key returns its end');
SELECT pgqrs_complete_run(:run, :lease);

-- A run cannot be its own child.
SELECT pgqrs_trigger('parent', idempotency_key => 'me') AS run \gset
SELECT pg_temp.claim(:run) AS lease \gset
SELECT is(pg_temp.answer(format('SELECT pgqrs_start_child(%s, %s, ''x'', ''parent'', idempotency_key => ''me'')',
	:run, :lease)), 'PQ016 The run has the idempotency key of the new child.',
	'a run cannot be its own child by its key');
SELECT is(pg_temp.answer(format('SELECT pgqrs_start_children(%s, %s, ''x'', ''parent'', ''{1}'', ''{me}'')', :run,
	:lease)), 'PQ016 The run has the idempotency key of the new child.',
	'a run cannot be one of its own children by its key');
SELECT pgqrs_complete_run(:run, :lease);

-- A key that is taken: no child, and the step has succeeded.
SELECT * FROM pg_temp.start('parent') \gset
SELECT pgqrs_trigger('child', idempotency_key => 'elsewhere') AS elsewhere \gset
SELECT is(pgqrs_start_child(:run, :lease, 'x', 'child', idempotency_key => 'elsewhere', on_duplicate => 'null'), NULL,
	'on_duplicate null returns NULL for a child whose key is taken');
SELECT is(pg_temp.step(:run, 'x'), 'CHILD SUCCESS null',
	'the step of a child whose key was taken is SUCCESS without a child');
SELECT pgqrs_delete_run(:elsewhere);
SELECT is(pgqrs_start_child(:run, :lease, 'x', 'child', idempotency_key => 'elsewhere', on_duplicate => 'null'), NULL,
	'a repeated call returns NULL although the key is free by then');
SELECT ok(pg_temp.answer(format('SELECT pgqrs_await_child(%s, %s, ''x'')', :run, :lease)) ~ '^PQ016',
	'waiting at a step without a child is refused');
SELECT pgqrs_complete_run(:run, :lease);

-- What a child takes from its parent.
SELECT pgqrs_create_workflow('short', timeout => '1 min') \g /dev/null
SELECT pgqrs_trigger('parent', priority => 7, timeout => '1 h') AS run \gset
SELECT pg_temp.claim(:run) AS lease, deadline_at AS deadline FROM pgqrs_get_run(:run) \gset
SELECT is((priority, deadline_at)::text, format('(7,"%s")', :'deadline'),
	'a child has the priority and deadline of its parent') FROM pgqrs_get_run(pgqrs_start_child(:run, :lease, 'a',
	'child'));
SELECT is((priority, deadline_at < :'deadline')::text, '(-3,t)', 'a child has its own priority and timeout if given')
	FROM pgqrs_get_run(pgqrs_start_child(:run, :lease, 'b', 'short', priority => -3));
SELECT is(deadline_at, :'deadline', 'a child has no deadline after that of its parent')
	FROM pgqrs_get_run(pgqrs_start_child(:run, :lease, 'd', 'child', timeout => '2 h'));
SELECT is(deadline_at, NULL, 'an abandoned child does not have the deadline of its parent')
	FROM pgqrs_get_run(pgqrs_start_child(:run, :lease, 'e', 'child', on_parent_end => 'abandon'));
SELECT is(m.deadline_at, :'deadline', 'the messages of children have the deadline of the parent')
	FROM pgqrs_messages m JOIN pgqrs_runs USING (run_id) WHERE parent_step_id IN ('a', 'd') AND parent_run_id = :run;
SELECT pgqrs_complete_run(:run, :lease);
SELECT is(count(*), 4::bigint, 'the success of a parent leaves its children alone') FROM pgqrs_runs
	WHERE parent_run_id = :run AND status = 'QUEUED';
SELECT pgqrs_cancel_runs('child'), pgqrs_cancel_runs('short') \g /dev/null

--
-- Many
--

SELECT * FROM pg_temp.start('parent') \gset
SELECT pgqrs_start_children(:run, :lease, 'm', 'child', '{1,NULL,3}') AS ids \gset
SELECT is(pgqrs_start_children(:run, :lease, 'm', 'child', '{4,5,6}'), :'ids'::bigint[],
	'a second call of the step returns the children of the first call');
SELECT is(pg_temp.answer(format('SELECT pgqrs_start_children(%s, %s, ''m'', ''child'', %L)', :run, :lease, inputs)),
	'PQ016 An earlier call has started the children.', 'another number of inputs than in the first call is refused: '
	|| inputs)
	FROM unnest(ARRAY['{}', '{1,2}', '{1,2,3,4}']) inputs;
SELECT results_eq(format('SELECT run_id, parent_step_id, input FROM pgqrs_runs WHERE parent_run_id = %s ORDER BY 1',
	:run),
	format($$SELECT id, 'm[' || n || ']', i FROM unnest(%L::bigint[], '{1,NULL,3}'::jsonb[]) WITH ORDINALITY u (id, i,
		n)$$, :'ids'), 'children are started in order, each with a step');
SELECT is(pg_temp.answer(format('SELECT pgqrs_await_child(%s, %s, ''m'')', :run, :lease)),
	'PQ016 The children were started with pgqrs_start_children().', 'waiting for many children as for one is refused');
SELECT is(pg_temp.answer(format('SELECT pgqrs_start_child(%s, %s, ''m'', ''child'')', :run, :lease)),
	'PQ016 The children were started with pgqrs_start_children().',
		'starting one child at the step of many is refused');
SELECT is(pgqrs_await_children(:run, :lease, 'm')::text, '(f,)',
	'waiting for children that go on says that they have not ended');
SELECT is(pg_temp.state(:run), 'PAUSED, all children m', 'a parent that waits for its children is suspended');
SELECT pg_temp.finish((:'ids'::bigint[])[3]);
SELECT ok(NOT pg_temp.is_due(:run), 'the end of one of three children does not wake the parent');
SELECT pg_temp.finish((:'ids'::bigint[])[1]);
SELECT ok(NOT pg_temp.is_due(:run), 'the end of two of three children does not wake the parent');
SELECT pg_temp.finish((:'ids'::bigint[])[2], '{"type": "e"}');
SELECT ok(pg_temp.is_due(:run), 'the end of all three children wakes the parent, however they ended');
SELECT lease FROM pgqrs_dequeue('parent') \gset
SELECT results_eq(format($$SELECT r.* FROM pgqrs_await_children(%s, %s, 'm') a,
	jsonb_to_recordset(results) r (run_id bigint, status text, output text, error jsonb) WHERE done$$, :run, :lease),
	format($$VALUES ((%1$L::bigint[])[1], 'SUCCESS', 'of ' || (%1$L::bigint[])[1], NULL::jsonb), ((%1$L::bigint[])[2],
		'ERROR', NULL, '{"type": "e"}'), ((%1$L::bigint[])[3], 'SUCCESS', 'of ' || (%1$L::bigint[])[3], NULL)$$,
		:'ids'), 'waiting for ended children returns the end of each, in order');
SELECT is((pgqrs_await_child(:run, :lease, 'm[2]')).status, 'ERROR', 'each of many children can be waited for');
SELECT is(left(pg_temp.step(:run, 'm'), 11), 'CHILD ERROR', 'the step of many children is in ERROR if one failed');

-- With keys and settings, which are those of all.
SELECT pgqrs_start_children(:run, :lease, 'k', 'child', '{1,2}', '{b,NULL}', -4, '1 h', '{"t": 2}',
	'abandon') AS keyed \gset
SELECT results_eq(format('SELECT run_id, idempotency_key, priority, deadline_at IS NOT NULL, tags, parent_step_id '
	'FROM pgqrs_runs WHERE run_id = ANY (%L) ORDER BY input', :'keyed'),
	format($$VALUES (%s::bigint, 'b', -4, true, '{"t": 2}'::jsonb, 'k[1]'), (%s, NULL, -4, true, '{"t": 2}',
		'k[2]')$$, (:'keyed'::bigint[])[1], (:'keyed'::bigint[])[2]),
		'children have the keys, priority, timeout and tags of the call');
SELECT is(array_agg(DISTINCT on_parent_end::text), '{abandon}', 'children have the on_parent_end of the call')
	FROM pgqrs_workflow_runs WHERE run_id = ANY (:'keyed'::bigint[]);
SELECT pgqrs_cancel_run(id) FROM unnest(:'keyed'::bigint[]) id \g /dev/null

-- None: a step that has succeeded, for which there is nothing to wait.
SELECT is(pgqrs_start_children(:run, :lease, 'none', 'child', '{}'), '{}',
	'starting children for no inputs starts no run');
SELECT is(pg_temp.step(:run, 'none'), 'CHILD SUCCESS []', 'the step of no children is stored');
SELECT is((kind, status, output, completed_at IS NOT NULL)::text, '(CHILD,SUCCESS,[],t)',
	'the step of no children is SUCCESS with an empty list') FROM pgqrs_list_steps(:run) WHERE step_id = 'none';
SELECT is(pgqrs_start_children(:run, :lease, 'none', 'child', '{}'), '{}',
	'a second call for no inputs returns no children');
SELECT is(pgqrs_await_children(:run, :lease, 'none', mode)::text, '(t,[])',
	'waiting for no children returns at once: ' || mode) FROM unnest('{all,any}'::text[]) mode;
SELECT is(pg_temp.answer(format('SELECT pgqrs_start_children(%s, %s, ''none'', ''child'', ''{1}'')', :run, :lease)),
	'PQ016 An earlier call has started the children.', 'inputs at the step of no children are refused');
SELECT is(left(pg_temp.answer(format('SELECT pgqrs_start_children(%s, %s, ''no'', ''nothing'', ''{}'')', :run,
	:lease)), 5), 'PQ002', 'starting no children of an unknown workflow is refused');

-- Any one.
SELECT pgqrs_start_children(:run, :lease, 'n', 'child', '{1,2}') AS ids \gset
SELECT is(pgqrs_await_children(:run, :lease, 'n', 'any')::text, '(f,)',
	'waiting for any child says that none has ended');
SELECT is(pg_temp.state(:run), 'PAUSED, any child n', 'a parent that waits for any child is suspended');
SELECT pg_temp.finish((:'ids'::bigint[])[2]);
SELECT ok(pg_temp.is_due(:run), 'the end of one child wakes a parent that waits for any');
SELECT lease FROM pgqrs_dequeue('parent') \gset
SELECT is(jsonb_path_query_array(results, '$[*].status'), '["QUEUED", "SUCCESS"]',
	'waiting for any child returns the status of each') FROM pgqrs_await_children(:run, :lease, 'n', 'any');
SELECT pg_temp.finish((:'ids'::bigint[])[1]);
SELECT is(jsonb_path_query_array(results, '$[*].status'), '["QUEUED", "SUCCESS"]',
	'waiting again for any child returns the same statuses') FROM pgqrs_await_children(:run, :lease, 'n', 'any');
SELECT is(left(pg_temp.step(:run, 'n'), 13), 'CHILD SUCCESS', 'the step of any child that ended is SUCCESS');

-- Any one, then all: each has its own answer.
SELECT pgqrs_start_children(:run, :lease, 'both', 'child', '{1,2,3}') AS ids \gset
SELECT pg_temp.finish((:'ids'::bigint[])[2]);
SELECT is(jsonb_path_query_array(results, '$[*].status'), '["QUEUED", "SUCCESS", "QUEUED"]',
	'waiting for any child returns at once if one has ended') FROM pgqrs_await_children(:run, :lease, 'both', 'any');
SELECT is(pgqrs_await_children(:run, :lease, 'both')::text, '(f,)',
	'waiting for all children says that not all have ended');
SELECT is(pg_temp.state(:run), 'PAUSED, all children both',
	'a parent that has waited for any child waits for all');
SELECT pg_temp.finish((:'ids'::bigint[])[3]);
SELECT ok(NOT pg_temp.is_due(:run), 'the end of two of three children does not wake a parent that waits for all');
SELECT pg_temp.finish((:'ids'::bigint[])[1], '{"type": "e"}');
SELECT ok(pg_temp.is_due(:run), 'the end of three children wakes a parent that waits for all');
SELECT lease FROM pgqrs_dequeue('parent') \gset
SELECT is(jsonb_path_query_array(results, '$[*].status'), '["QUEUED", "SUCCESS", "QUEUED"]',
	'waiting again for any child returns its first answer') FROM pgqrs_await_children(:run, :lease, 'both', 'any');
SELECT is(jsonb_path_query_array(results, '$[*].status'), '["ERROR", "SUCCESS", "SUCCESS"]',
	'waiting for all children has an answer of its own') FROM pgqrs_await_children(:run, :lease, 'both');
SELECT is(left(pg_temp.step(:run, 'both'), 11), 'CHILD ERROR',
	'the step is in ERROR once all have ended and one failed');
SELECT is(jsonb_path_query_array(results, '$[*].status'), '["QUEUED", "SUCCESS", "QUEUED"]',
	'waiting for any child a third time returns its first answer') FROM pgqrs_await_children(:run, :lease, 'both',
	'any');
SELECT is(jsonb_path_query_array(results, '$[*].status'), '["ERROR", "SUCCESS", "SUCCESS"]',
	'waiting again for all children returns the same answer') FROM pgqrs_await_children(:run, :lease, 'both');

-- Results that are too large together: each is there on its own.
SELECT pgqrs_start_children(:run, :lease, 'large', 'child', '{1,2,3}') AS ids \gset
SELECT pgqrs_complete_run(id, pg_temp.claim(id), to_jsonb(repeat('x', 1000000)))
	FROM unnest(:'ids'::bigint[]) id \g /dev/null
SELECT is(results, (SELECT jsonb_agg(jsonb_build_object('run_id', id, 'status', 'SUCCESS', 'output',
	'{"truncated": true}'::jsonb, 'error', NULL)) FROM unnest(:'ids'::bigint[]) id),
	'outputs that together exceed payload_max are replaced by a mark') FROM pgqrs_await_children(:run, :lease,
	'large');
SELECT is(left(pg_temp.step(:run, 'large'), 13), 'CHILD SUCCESS',
	'the step with outputs that exceed payload_max is SUCCESS');
SELECT is((status, length(output #>> '{}'))::text, '(SUCCESS,1000000)', 'each child''s output is returned whole')
	FROM pgqrs_await_child(:run, :lease, 'large[2]');

-- The last child first: what is looked at for each end does not grow with their number.
SELECT pgqrs_start_children(:run, :lease, 'back', 'child', array_agg('{}'::jsonb)) AS ids
	FROM generate_series(1, 400) \gset
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
SELECT cmp_ok(pg_temp.end_backwards(:'ids'), '<', 400 * 20::bigint,
	'children that end in the opposite order are looked at a few times each, not all of them each time');
SELECT ok(pg_temp.is_due(:run), 'the last of children that end in the opposite order wakes the parent');
SELECT lease FROM pgqrs_dequeue('parent') \gset
SELECT pgqrs_step_complete(:run, :lease, 'taken[2]') \g /dev/null
SELECT is(pg_temp.answer(format('SELECT pgqrs_start_children(%s, %s, ''taken'', ''child'', ''{1,2}'')', :run,
	:lease)), 'PQ016 The existing step is not a child of step "taken".',
	'children whose step id is taken by a function are refused');
SELECT is(left(pg_temp.answer(format('SELECT pgqrs_start_children(%s, %s, repeat(''x'', 253), ''child'', ''{1,2}'')',
	:run, :lease)), 5), '22023', 'a step id that gets too long for its children is refused');
SELECT pgqrs_complete_run(:run, :lease);

--
-- Parents that end badly
--

-- The parent, a child of each kind, a grandchild; ended by a call.
CREATE FUNCTION pg_temp.family(OUT run bigint, OUT lease bigint, OUT waiting bigint, OUT held bigint,
	OUT parked bigint, OUT grandchild bigint, OUT abandoned bigint, OUT ended bigint) LANGUAGE plpgsql AS
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
	RETURN concat_ws('; ', pg_temp.state(f.run), pg_temp.state(f.waiting), pg_temp.state(f.held),
		pg_temp.state(f.parked), pg_temp.state(f.grandchild), pg_temp.state(f.abandoned), pg_temp.state(f.ended));
END
$$;
SELECT is(pg_temp.follows(call), status || '; CANCELLED; RUNNING, asked; CANCELLED; CANCELLED; QUEUED; SUCCESS',
	'the end of the parent reaches its children, by ' || call) FROM (VALUES
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
SELECT is(pg_temp.follows(call), status || '; QUEUED; RUNNING; PAUSED, child c; QUEUED; QUEUED; SUCCESS',
	'the parent goes on and its children with it, by ' || call) FROM (VALUES
	('pgqrs_complete_run(%s, %s)', 'SUCCESS'),
	('pgqrs_fail_run(%s, %s, ''{}'', true)', 'RUNNING'),
	('pgqrs_cancel_run(%s)', 'RUNNING, asked')) v (call, status);
SELECT is(cancel_reason ~ 'its parent, has ended', true, 'a child cancelled with its parent has that as its reason')
	FROM pgqrs_runs WHERE status = 'CANCELLED' AND parent_step_id = 'waiting' LIMIT 1;
SELECT is_empty('SELECT * FROM pgqrs_archive WHERE waiting_for IS NOT NULL',
	'no parent is left whose children are still to be cancelled');

-- Children that are locked at that moment, or too many, are cancelled later.
SELECT * FROM pg_temp.start('parent') \gset
SELECT count(pgqrs_start_children(:run, :lease, 'm' || g, 'child', array_fill('1'::jsonb, '{500}')))
	FROM generate_series(1, 5) g \g /dev/null
SELECT pgqrs_fail_run(:run, :lease, '{}') \g /dev/null
SELECT is(count(*), 1000::bigint, 'the end of a parent cancels a thousand of its 2,500 children at once')
	FROM pgqrs_runs WHERE parent_run_id = :run AND status = 'CANCELLED';
SELECT is(waiting_for ~ '^children after [1-9]', true, 'the archived parent remembers after which child to go on')
	FROM pgqrs_archive WHERE message_id = :run;
SELECT is((pgqrs_maintain()->'runs_cancelled')::text, '1000', 'a pass cancels a thousand more children');
SELECT is((pgqrs_maintain()->'runs_cancelled')::text, '500', 'the next pass cancels the rest');
SELECT is((count(*) FILTER (WHERE status = 'CANCELLED'), count(*))::text, '(2500,2500)',
	'every child of the parent is CANCELLED') FROM pgqrs_runs WHERE parent_run_id = :run;
SELECT is(waiting_for, NULL, 'the archived parent remembers nothing once every child is cancelled') FROM pgqrs_archive
	WHERE message_id = :run;

--
-- Several parents
--

-- Two that have the same child: by its key, from a parent, and from none.
CREATE FUNCTION pg_temp.two(end_1 text, end_2 text, key text, OUT a bigint, OUT la bigint, OUT b bigint,
	OUT lb bigint, OUT child bigint) LANGUAGE plpgsql AS
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
SELECT results_eq(format('SELECT * FROM pgqrs_run_parents WHERE run_id = %s ORDER BY 2', :child),
	format($$VALUES (%1$s::bigint, %2$s::bigint, 'one', 'cancel'), (%1$s, %3$s, 'two', 'abandon')$$, :child, :a, :b),
	'a child that two parents started has both as its parents');
SELECT pgqrs_await_child(:a, :la, 'one'), pgqrs_await_child(:b, :lb, 'two') \g /dev/null
SELECT pg_temp.finish(:child);
SELECT is((pg_temp.is_due(:a), pg_temp.is_due(:b))::text, '(t,t)', 'the end of a shared child wakes both parents');
-- Retention would remove it, but for a parent that has not asked yet.
UPDATE pgqrs_archive SET archived_at = archived_at - interval '1 year' WHERE message_id = :child;
SELECT pg_temp.claim(:a) AS la, pg_temp.claim(:b) AS lb \gset
SELECT is((pgqrs_await_child(:a, :la, 'one')).status, 'SUCCESS',
	'the parent that triggered the shared child reads its result');
SELECT pgqrs_complete_run(:a, :la), pgqrs_apply_retention() \g /dev/null
SELECT is((pgqrs_await_child(:b, :lb, 'two')).status, 'SUCCESS',
	'the other parent reads the result however late it asks');
SELECT pgqrs_complete_run(:b, :lb), pgqrs_apply_retention() \g /dev/null
SELECT is_empty(format('SELECT run_id FROM pgqrs_workflow_runs WHERE run_id = %1$s UNION ALL SELECT run_id FROM '
	'pgqrs_workflow_run_parents WHERE run_id = %1$s', :child),
	'the shared child and the rows of its parents are removed after both parents have ended');

-- It is cancelled when the last one that holds it ends badly.
CREATE FUNCTION pg_temp.ends(end_1 text, end_2 text, first_1 boolean, succeeds boolean, OUT after_one text,
	OUT after_both text) LANGUAGE plpgsql AS
$$
DECLARE
	f record;
BEGIN
	SELECT * INTO f FROM pg_temp.two(end_1, end_2, concat_ws(' ', end_1, end_2, first_1, succeeds));
	IF succeeds THEN
		PERFORM pgqrs_complete_run(CASE WHEN first_1 THEN f.a ELSE f.b END, CASE WHEN first_1 THEN f.la ELSE f.lb
			END);
	ELSE
		PERFORM pgqrs_fail_run(CASE WHEN first_1 THEN f.a ELSE f.b END, CASE WHEN first_1 THEN f.la ELSE f.lb END,
			'{}');
	END IF;
	PERFORM pgqrs_maintain();
	after_one := pg_temp.state(f.child);
	PERFORM pgqrs_fail_run(CASE WHEN first_1 THEN f.b ELSE f.a END, CASE WHEN first_1 THEN f.lb ELSE f.la END, '{}');
	PERFORM pgqrs_maintain();
	after_both := pg_temp.state(f.child);
	PERFORM pgqrs_cancel_run(f.child);
END
$$;
SELECT is(pg_temp.ends(end_1, end_2, first_1, succeeds)::text, format('(QUEUED,%s)', CASE WHEN end_1 = 'abandon'
	OR end_2 = 'abandon' OR succeeds THEN 'QUEUED' ELSE 'CANCELLED' END),
		format('a shared child ends with its last parent that does not abandon it: %s and %s, the %s parent ends '
			'first, %s', end_1, end_2, CASE WHEN first_1 THEN 'first' ELSE 'second' END, CASE
			WHEN succeeds THEN 'well' ELSE 'badly' END))
	FROM unnest('{cancel,abandon}'::text[]) end_1, unnest('{cancel,abandon}'::text[]) end_2,
		unnest('{t,f}'::boolean[]) first_1, unnest('{t,f}'::boolean[]) succeeds;
SELECT pgqrs_trigger('child', idempotency_key => 'free') AS free \gset
SELECT * FROM pg_temp.two('cancel', 'cancel', 'free') \gset
SELECT pgqrs_fail_run(:a, :la, '{}'), pgqrs_fail_run(:b, :lb, '{}'), pgqrs_maintain() \g /dev/null
SELECT is(pg_temp.state(:free), 'QUEUED', 'a run that had no parent when it was triggered goes on after its parents');
SELECT pgqrs_cancel_run(:free) \g /dev/null

-- Workflows that are deleted: their runs end badly, as parents and as children.
SELECT pgqrs_create_workflow('gone') \g /dev/null
SELECT pgqrs_trigger('gone') AS g \gset
SELECT pg_temp.claim(:g) AS lg \gset
SELECT * FROM pg_temp.start('parent') \gset
SELECT pgqrs_start_child(:g, :lg, 'own', 'child', delay => '1 h') AS own, pgqrs_start_child(:g, :lg, 'both', 'child',
	idempotency_key => 'of gone', delay => '1 h') AS both,
	pgqrs_start_child(:run, :lease, 'both', 'child', idempotency_key => 'of gone') AS same \gset
SELECT pgqrs_delete_workflow('gone', force => true), pgqrs_maintain(), pgqrs_maintain() \g /dev/null
SELECT is((pg_temp.state(:own), pg_temp.state(:both))::text, '(CANCELLED,QUEUED)',
	'the workflow of its parent takes a child with it unless another parent holds it');
SELECT pgqrs_await_child(:run, :lease, 'both') \g /dev/null
SELECT pgqrs_cancel_run(:run) \g /dev/null
SELECT is(pg_temp.state(:both), 'CANCELLED', 'a shared child goes on until its other parent ends');
SELECT pgqrs_create_workflow('gone') \g /dev/null
SELECT * FROM pg_temp.start('parent') \gset
SELECT run AS run_2, lease AS lease_2 FROM pg_temp.start('parent') \gset
SELECT pgqrs_start_child(:run, :lease, 'c', 'gone', idempotency_key => 'c') AS child, pgqrs_start_child(:run_2,
	:lease_2, 'c', 'gone', idempotency_key => 'c') AS same \gset
SELECT pgqrs_await_child(:run, :lease, 'c'), pgqrs_await_child(:run_2, :lease_2, 'c') \g /dev/null
SELECT pgqrs_delete_workflow('gone', force => true), pgqrs_maintain() \g /dev/null
SELECT is((pg_temp.is_due(:run), pg_temp.is_due(:run_2))::text, '(t,t)',
	'a child that ends with its workflow wakes all its parents');
SELECT pgqrs_cancel_run(:run), pgqrs_cancel_run(:run_2) \g /dev/null

-- Many, by keys; and no run waits for its own end.
SELECT * FROM pg_temp.two('cancel', 'cancel', 'with many') \gset
SELECT pgqrs_start_children(:b, :lb, 'm', 'child', '{1,2}', '{"with many",NULL}') AS ids \gset
SELECT is(array_agg(parent_step_id ORDER BY parent_step_id), '{m[1],one,two}', 'a shared child may be one of many')
	FROM pgqrs_run_parents WHERE run_id = :child;
SELECT pgqrs_complete_run(:b, :lb), pgqrs_complete_run(:a, :la), pgqrs_cancel_runs('child') \g /dev/null
SELECT pgqrs_trigger('parent', idempotency_key => 'x') AS x \gset
SELECT pg_temp.claim(:x) AS lx \gset
SELECT pgqrs_start_child(:x, :lx, 'y', 'parent', idempotency_key => 'y') AS y \gset
SELECT pg_temp.claim(:y) AS ly \gset
SELECT is(pg_temp.answer(format('SELECT pgqrs_start_child(%s, %s, ''x'', ''parent'', idempotency_key => ''x'')', :y,
	:ly)), 'PQ016 The child is an ancestor of the parent.', 'two runs cannot be each other''s child');
SELECT pgqrs_complete_run(:y, :ly), pgqrs_complete_run(:x, :lx);

--
-- Replays
--

SELECT * FROM pg_temp.start('parent') \gset
SELECT pgqrs_start_child(:run, :lease, 'good', 'child') AS good, pgqrs_start_child(:run, :lease, 'bad',
	'child') AS bad, pgqrs_start_child(:run, :lease, 'open', 'child', delay => '1 h') AS open,
	pgqrs_start_child(:run, :lease, 'abandoned', 'child', delay => '1 h', on_parent_end => 'abandon') AS abandoned,
		pgqrs_start_children(:run, :lease, 'm', 'child', '{1,2}') AS ids \gset
SELECT pg_temp.finish(:good), pg_temp.finish(:bad, '{}'), pg_temp.finish((:'ids'::bigint[])[1]),
	pg_temp.finish((:'ids'::bigint[])[2], '{}');
SELECT pgqrs_await_child(:run, :lease, 'good'), pgqrs_await_child(:run, :lease, 'bad'), pgqrs_await_children(:run,
	:lease, 'm'), pgqrs_fail_run(:run, :lease, '{}') \g /dev/null
SELECT pgqrs_replay_message(:run), pg_temp.claim(:run) AS lease \gset
SELECT is(pgqrs_start_child(:run, :lease, 'good', 'child'), :good::bigint,
	'after a replay of the parent a child that succeeded stays');
SELECT isnt(pgqrs_start_child(:run, :lease, 'bad', 'child'), :bad::bigint,
	'after a replay of the parent a child that failed is started again');
SELECT isnt(pgqrs_start_child(:run, :lease, 'open', 'child'), :open::bigint,
	'after a replay of the parent a child cancelled with it is started again');
SELECT is(pgqrs_start_child(:run, :lease, 'abandoned', 'child'), :abandoned::bigint,
	'after a replay of the parent an abandoned child that goes on stays');
SELECT is(pg_temp.answer(format('SELECT pgqrs_start_children(%s, %s, ''m'', ''child'', ''{1,2,3}'')', :run, :lease)),
	'PQ016 An earlier call has started the children.',
	'after a replay of the parent the number of children must be as before');
SELECT pgqrs_start_children(:run, :lease, 'm', 'child', '{1,2}') AS again \gset
SELECT is((:'again'::bigint[])[1], (:'ids'::bigint[])[1],
	'after a replay of the parent those of many that succeeded stay');
SELECT isnt((:'again'::bigint[])[2], (:'ids'::bigint[])[2],
	'after a replay of the parent those of many that failed are started again');
SELECT is(parent_step_id, 'm[2]', 'a child that is started again has the step of the former one')
	FROM pgqrs_get_run((:'again'::bigint[])[2]);
SELECT is(pgqrs_start_children(:run, :lease, 'm', 'child', '{1,2}'), :'again'::bigint[],
	'a child is started again once');
SELECT pg_temp.finish((:'again'::bigint[])[2]);
SELECT is(jsonb_path_query_array(results, '$[*].status'), '["SUCCESS", "SUCCESS"]',
	'children of which some were started again are waited for') FROM pgqrs_await_children(:run, :lease, 'm');

SELECT array_agg(v::text) AS wrong FROM pgqrs_verify() v WHERE NOT ok \gset

-- With keys: what failed does not keep its key from what is started in its place.
SELECT pgqrs_complete_run(:run, :lease);
SELECT * FROM pg_temp.start('parent') \gset
SELECT pgqrs_start_child(:run, :lease, 'c', 'child', idempotency_key => 'order') AS child, pgqrs_start_children(:run,
	:lease, 'm', 'child', '{1,2}', '{m1,m2}') AS ids \gset
SELECT pg_temp.finish(:child, '{}'), pg_temp.finish((:'ids'::bigint[])[1]), pg_temp.finish((:'ids'::bigint[])[2],
	'{}');
SELECT pgqrs_await_child(:run, :lease, 'c'), pgqrs_await_children(:run, :lease, 'm'), pgqrs_fail_run(:run, :lease,
	'{}') \g /dev/null
SELECT pgqrs_trigger('child', idempotency_key => 'order') AS kept \gset
SELECT is(:kept::bigint, :child::bigint, 'outside of the parent a failed child keeps its key');
SELECT pgqrs_replay_message(:run), pg_temp.claim(:run) AS lease \gset
SELECT pgqrs_start_child(:run, :lease, 'c', 'child', idempotency_key => 'order') AS anew, pgqrs_start_children(:run,
	:lease, 'm', 'child', '{1,2}', '{m1,m2}') AS again \gset
SELECT isnt(:anew::bigint, :child::bigint, 'a failed child with a key is started again');
SELECT is(pgqrs_start_child(:run, :lease, 'c', 'child', idempotency_key => 'order'), :anew::bigint,
	'a failed child with a key is started again once');
SELECT is((status, idempotency_key)::text, '(QUEUED,order)',
	'a child that is started again has the key of the former one') FROM pgqrs_get_run(:anew);
SELECT is(pgqrs_trigger('child', idempotency_key => 'order'), :anew::bigint,
	'a trigger with the key returns the child that was started again');
SELECT is(pg_temp.answer(format('SELECT pgqrs_replay_message(%s)', :child)),
	'PQ016 Another message has the same idempotency key.',
	'a failed child whose key was taken by its successor cannot be replayed');
SELECT is(((:'again'::bigint[])[1] = (:'ids'::bigint[])[1], (:'again'::bigint[])[2] = (:'ids'::bigint[])[2])::text,
	'(t,f)', 'of many children with keys those that failed are started again');
SELECT is(array_agg(v::text)::text, :'wrong', 'pgqrs_verify() finds nothing wrong after children were started again')
	FROM pgqrs_verify() v WHERE NOT ok;
SELECT pg_temp.finish(:anew, '{}'), pgqrs_await_child(:run, :lease, 'c'), pgqrs_fail_run(:run, :lease,
	'{}') \g /dev/null
SELECT pgqrs_rerun(:run) AS run \gset
SELECT pg_temp.claim(:run) AS lease \gset
SELECT pgqrs_start_child(:run, :lease, 'c', 'child', idempotency_key => 'order') AS other \gset
SELECT isnt(:other::bigint, :anew::bigint, 'a rerun starts a failed child with a key again');
SELECT pg_temp.finish(:other, '{}');
SELECT is(pgqrs_start_child(:run, :lease, 'd', 'child', idempotency_key => 'order'), :other::bigint,
	'a rerun does not start a child again that failed since');
SELECT pgqrs_complete_run(:run, :lease);

-- A child that is only asked to stop is waited for.
CREATE FUNCTION pg_temp.stopping(OUT run bigint, OUT lease bigint, OUT child bigint, OUT held bigint,
	OUT ids bigint[], OUT held_2 bigint) LANGUAGE plpgsql AS
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
SELECT is(pg_temp.state(:child), 'RUNNING, asked', 'the child of the test is RUNNING and was asked to stop');
SELECT child AS same, ids AS again FROM pg_temp.start_again(:run, :lease) \gset
SELECT is(:same::bigint, :child::bigint, 'a child that was asked to stop is not started again while it goes on');
SELECT is(((:'again'::bigint[])[1] = (:'ids'::bigint[])[1], (:'again'::bigint[])[2] = (:'ids'::bigint[])[2])::text,
	'(f,t)', 'of many children one that was cancelled is started again');
SELECT is(pgqrs_await_child(:run, :lease, 'c')::text, '(f,,,)', 'a child that was asked to stop is waited for');
SELECT pgqrs_complete_run(:child, :held, '1');
SELECT pg_temp.claim(:run) AS lease \gset
SELECT child AS same, ids AS same_ids FROM pg_temp.start_again(:run, :lease) \gset
SELECT is((pgqrs_await_child(:run, :lease, 'c')).status, 'SUCCESS',
	'a child that succeeds although it was asked to stop is the child');
SELECT is(:'same_ids'::bigint[], :'again'::bigint[], 'the other children stay the same');
SELECT pg_temp.finish((:'again'::bigint[])[1]), pgqrs_acknowledge_cancel((:'ids'::bigint[])[2], :held_2) \g /dev/null
SELECT is(pgqrs_await_children(:run, :lease, 'm')::text, '(f,)',
	'waiting says that the children have not ended if one has stopped');
SELECT is((pgqrs_maintain()->'runs_woken')::text, '1', 'a pass wakes the parent of a child that has stopped');
SELECT pg_temp.claim(:run) AS lease \gset
SELECT ids AS new_ids FROM pg_temp.start_again(:run, :lease) \gset
SELECT isnt((:'new_ids'::bigint[])[2], (:'ids'::bigint[])[2],
	'the parent starts another child for the one that has stopped');
SELECT pg_temp.finish((:'new_ids'::bigint[])[2]);
SELECT is(jsonb_path_query_array(results, '$[*].status'), '["SUCCESS", "SUCCESS"]',
	'waiting returns the end of the child started in its place') FROM pgqrs_await_children(:run, :lease, 'm');
SELECT pgqrs_complete_run(:run, :lease);

SELECT * FROM pg_temp.stopping() \gset
SELECT child AS same FROM pg_temp.start_again(:run, :lease) \gset
SELECT is(pgqrs_await_child(:run, :lease, 'c')::text, '(f,,,)',
	'a child that was asked to stop is waited for by a replayed parent');
SELECT pgqrs_acknowledge_cancel(:child, :held) \g /dev/null
SELECT ok(pg_temp.is_due(:run), 'the parent is due once the child has stopped');
SELECT pg_temp.claim(:run) AS lease \gset
SELECT child AS anew FROM pg_temp.start_again(:run, :lease) \gset
SELECT isnt(:anew::bigint, :child::bigint, 'the parent starts another child with the key');
SELECT is(array_agg(run_id), ARRAY[:anew::bigint], 'one child of the step is alive') FROM pgqrs_runs
	WHERE parent_run_id = :run AND parent_step_id = 'c' AND status NOT IN ('SUCCESS', 'ERROR', 'CANCELLED');
SELECT pgqrs_cancel_run(:run) \g /dev/null

-- A child that is replayed ends with its parent still.
SELECT pgqrs_trigger('parent', timeout => '1 h') AS run \gset
SELECT pg_temp.claim(:run) AS lease, deadline_at AS deadline FROM pgqrs_get_run(:run) \gset
SELECT pgqrs_start_child(:run, :lease, 'c', 'child') AS child, pgqrs_start_child(:run, :lease, 's',
	'short') AS short \gset
SELECT pg_temp.finish(:child, '{}'), pg_temp.finish(:short, '{}'), pgqrs_replay_message(:child),
	pgqrs_replay_message(:short);
SELECT is((r.deadline_at, m.deadline_at)::text, format('("%1$s","%1$s")', :'deadline'),
	'a replayed child has the deadline of its parent') FROM pgqrs_get_run(:child) r, pgqrs_messages m
	WHERE message_id = :child;
SELECT ok(deadline_at BETWEEN clock_timestamp() - interval '10 min' AND clock_timestamp() + '1 min',
	'a replayed child has its own timeout if that is earlier') FROM pgqrs_get_run(:short);
SELECT pg_temp.finish(:child, '{}'), pgqrs_complete_run(:run, :lease), pgqrs_replay_message(:child);
SELECT is((r.deadline_at, m.deadline_at)::text, '(,)', 'a replayed child of an ended parent has no deadline')
	FROM pgqrs_get_run(:child) r, pgqrs_messages m WHERE message_id = :child;
SELECT pgqrs_trigger('parent', timeout => '1 h') AS run \gset
SELECT pg_temp.claim(:run) AS lease \gset
SELECT pgqrs_start_child(:run, :lease, 'c', 'child', on_parent_end => 'abandon') AS child \gset
SELECT pg_temp.finish(:child, '{}'), pgqrs_replay_message(:child);
SELECT is(deadline_at, NULL, 'a replayed child that is abandoned has no deadline') FROM pgqrs_get_run(:child);

SELECT * FROM finish();
