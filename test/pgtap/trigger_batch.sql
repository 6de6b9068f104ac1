-- pgqrs_trigger_batch(): order, keys, what refuses it.  F25, F31: one bad item.
-- F-numbers: docs/design/known-failures.md.
\ir include/runs.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_workflow('job') AS job, pgqrs_create_workflow('timed', timeout => '1 h'),
	pgqrs_create_workflow('active', key_scope => 'active') \gset

-- The ids of a batch, in its order.
CREATE FUNCTION pg_temp.inputs(ids bigint[]) RETURNS jsonb[] LANGUAGE sql AS
$$ SELECT array_agg(input ORDER BY n) FROM unnest(ids) WITH ORDINALITY i (id, n)
	JOIN pgqrs_workflow_runs ON run_id = id $$;

SELECT pgqrs_trigger_batch('job', '{"{\"n\": 1}",NULL,3,"null",3}') AS ids \gset
SELECT is(pg_temp.inputs(:'ids'), '{"{\"n\": 1}",NULL,3,"null",3}'::jsonb[],
	'a batch makes one run per input, in order, equal inputs and NULLs too');
SELECT is(:'ids'::bigint[], ARRAY(SELECT unnest(:'ids'::bigint[]) ORDER BY 1), 'the ids of a batch ascend');
SELECT results_eq('SELECT run_id FROM pgqrs_dequeue(''job'', batch_size => 10)', :'ids'::bigint[],
	'a claim returns the runs of a batch in order');
SELECT is(count(DISTINCT visible_after), 5::bigint, 'each message of a batch has an instant of its own')
	FROM pgqrs_messages WHERE message_id = ANY (:'ids');

SELECT pgqrs_trigger_batch(workflow => 'job', inputs => '{1,2}', idempotency_keys => '{a,b}', delay => '1 h',
	priority => 7, tags => '{"t": 1}') AS ids \gset
SELECT results_eq(format('SELECT status::text, input, idempotency_key COLLATE "default", priority::int, tags, '
	'headers, retry_policy, timeout FROM pgqrs_workflow_runs WHERE run_id = ANY (%L) ORDER BY run_id', :'ids'),
	$$VALUES ('QUEUED', '1'::jsonb, 'a', 7, '{"t": 1}'::jsonb, NULL::jsonb, NULL::jsonb, NULL::interval),
		('QUEUED', '2', 'b', 7, '{"t": 1}', NULL, NULL, NULL)$$, 'each run of a batch has what the call gave');
SELECT ok(visible_after - enqueued_at = '1 h' AND priority = 7,
	'the messages of a batch have the delay and priority that the call gave') FROM pgqrs_messages
	WHERE message_id = ANY (:'ids');
SELECT is(visible_after, '2100-01-01 00:00Z', 'run_at sets when the runs of a batch become due') FROM pgqrs_messages
	WHERE message_id = (pgqrs_trigger_batch('job', '{1}', NULL, '0', '2100-01-01 00:00Z', -100, NULL))[1];
SELECT is(deadline_at - visible_after, interval '1 h', 'the deadline of a run in a batch counts from when it is due')
	FROM pgqrs_messages WHERE message_id = (pgqrs_trigger_batch('timed', '{1}', delay => '1 h'))[1];
SELECT is(deadline_at, NULL, 'a workflow without a timeout gives its runs no deadline') FROM pgqrs_messages
	WHERE message_id = (pgqrs_trigger_batch('job', '{1}'))[1];

-- Keys: a run that has one is answered with, in its place.
SELECT pgqrs_find_run('job', 'a') AS a, pgqrs_find_run('job', 'b') AS b \gset
SELECT is(:'ids'::bigint[], ARRAY[:a, :b]::bigint[], 'pgqrs_find_run() finds the runs of a batch by their keys');
SELECT pgqrs_trigger_batch('job', '{10,20,30,40,50}', '{z,b,NULL,a,NULL}') AS mixed \gset
SELECT is((:'mixed'::bigint[])[2], :b::bigint, 'a batch returns the run that has the second key');
SELECT is((:'mixed'::bigint[])[4], :a::bigint, 'a batch returns the run that has the fourth key');
SELECT is(pg_temp.inputs(:'mixed'), '{10,2,30,1,50}'::jsonb[],
	'a batch makes new runs for free keys and keeps the inputs of existing ones');
SELECT is(ARRAY(SELECT idempotency_key FROM unnest(:'mixed'::bigint[]) WITH ORDINALITY i (id, n)
	JOIN pgqrs_workflow_runs ON run_id = id ORDER BY n),
	'{z,b,NULL,a,NULL}'::text[], 'the runs of a batch store their keys');
SELECT is(pgqrs_trigger_batch('job', '{10,20,30,40,50}', '{z,b,y,a,x}') && (:'mixed'::bigint[])[3:3], false,
	'a later batch does not find a run without a key');
SELECT is(pgqrs_trigger_batch('job', '{1,2}', '{NULL,NULL}') && :'mixed'::bigint[], false,
	'NULL keys are never duplicates');
SELECT is(pgqrs_trigger_batch('job', '{1,2}', ARRAY['A', 'a '])  && ARRAY[:a]::bigint[], false,
	'keys that differ in case or blanks are different');
SELECT is(pgqrs_trigger_batch('job', '{1}', '{a}'), ARRAY[:a]::bigint[],
	'a batch whose only key is taken makes no run');
SELECT is(pgqrs_trigger('job', idempotency_key => 'z'), (:'mixed'::bigint[])[1],
	'pgqrs_trigger() finds a key that a batch has taken');
SELECT is(pgqrs_trigger_batch('active', '{1,2}', '{k,l}'), ARRAY[pgqrs_find_run('active', 'k'),
	pgqrs_find_run('active', 'l')], 'a batch takes keys in a workflow of key_scope active');
SELECT run_id, lease FROM pgqrs_dequeue('active') \gset
SELECT pgqrs_complete_run(:run_id, :lease);
SELECT pgqrs_trigger_batch('active', '{3,4}', '{k,l}') AS again \gset
SELECT is(pg_temp.inputs(:'again'), '{3,2}'::jsonb[],
	'in key_scope active, a batch makes a new run for an ended one and keeps a live one');
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) FROM pgqrs_workflow_runs \g /dev/null
SELECT is(pgqrs_trigger_batch('job', '{1,2}', '{s,a}') = pgqrs_trigger_batch('job', '{1,2}', '{s,a}'), true,
	'two equal batches in one SERIALIZABLE transaction return the same ids');
ROLLBACK;
SELECT is(pgqrs_find_run('job', 's'), NULL, 'rolling back a batch frees its keys');

-- Many.
SELECT is(count(DISTINCT id), 10000::bigint, 'a batch of 10,000 inputs makes 10,000 runs')
	FROM unnest(pgqrs_trigger_batch('job', array_fill('1'::jsonb, '{10000}'))) id;
SELECT pgqrs_trigger_batch('job', ARRAY(SELECT to_jsonb(g) FROM generate_series(1, 10000) g), ARRAY(SELECT 'k' || g
	FROM generate_series(10000, 1, -1) g)) AS many \gset
SELECT is(pg_temp.inputs(:'many'), ARRAY(SELECT to_jsonb(g) FROM generate_series(1, 10000) g),
	'a batch of 10,000 keys keeps the order of its inputs');
SELECT ok(idempotency_key = 'k' || (10001 - input::int), 'a run in a batch of 10,000 has its own key')
	FROM pgqrs_workflow_runs WHERE run_id = (:'many'::bigint[])[77];
SELECT is(pgqrs_trigger_batch('job', ARRAY(SELECT to_jsonb(g) FROM generate_series(1, 10000) g), ARRAY(SELECT 'k' || g
	FROM generate_series(10000, 1, -1) g)), :'many'::bigint[],
	'the same batch of 10,000 keys again returns the same ids');
DELETE FROM pgqrs_messages;

-- What is refused: all of it, before anything is written.
CREATE TEMP TABLE refusals (call text, state text, message text);
INSERT INTO refusals VALUES
	($$'job', NULL$$, '22004', NULL),
	($$NULL, '{1}'$$, '22004', NULL),
	($$'job', '{{1,2},{3,4}}'$$, '22023', NULL),
	($$'job', array_fill('1'::jsonb, '{10001}')$$, '22023', NULL),
	($$'job', '{1,2}', '{}'$$, '22023', NULL),
	($$'job', '{1,2}', '{a}'$$, '22023', '%"inputs" has 2 elements, "idempotency_keys" has 1%'),
	($$'job', '{1,2}', '{a,b,c}'$$, '22023', NULL),
	($$'job', '{1,2}', '{{a,b}}'$$, '22023', NULL),
	($$'job', '{1,2,3}', '{new,other,new}'$$, '22023', '%"new"%'),
	($$'job', '{1,2,3}', '{a,other,a}'$$, '22023', '%"a"%'),
	($$'job', '{1,2}', '{new,""}'$$, '22023', '%idempotency_keys[2]%'),
	($$'job', '{1,2}', ARRAY[repeat('x', 256), 'new']$$, '22023', '%idempotency_keys[1]%'),
	($$'job', '{1,2}', ARRAY['new', E'a\nb']$$, '22023', '%idempotency_keys[2]%'),
	($$'job', ARRAY['1', to_jsonb(repeat('x', 2097152))]$$, 'PQ008', '%item 2%'),
	($$'job', ARRAY[to_jsonb(repeat('x', 2097152)), '1'], '{new,other}'$$, 'PQ008', '%item 1%'),
	($$'job', '{1}', delay => '-1 s'$$, '22023', NULL),
	($$'job', '{1}', delay => '1 s', run_at => '2100-01-01'$$, '22023', NULL),
	($$'job', '{1}', run_at => 'infinity'$$, '22023', NULL),
	($$'job', '{1}', priority => 101$$, '22023', NULL),
	($$'job', '{1}', tags => to_jsonb(repeat('x', 2097152))$$, 'PQ008', '%tags%'),
	($$'nothing', '{1}'$$, 'PQ002', NULL);
CREATE FUNCTION pg_temp.message(query text) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	message text;
BEGIN
	EXECUTE query;
	RETURN 'accepted';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT;
	RETURN message;
END
$$;
SELECT pg_temp.contents() AS contents \gset
SELECT format('SELECT is(pg_temp.refusal(%L), %L, %L)', 'SELECT pgqrs_trigger_batch(' || call || ')', state,
	'a batch is refused as a whole: ' || left(call, 60)) FROM refusals \gexec
SELECT ok(pg_temp.message('SELECT pgqrs_trigger_batch(' || call || ')') LIKE message,
	'the message says which argument is wrong: ' || left(call, 50)) FROM refusals WHERE message IS NOT NULL;
SELECT is(pg_temp.contents(), :'contents', 'refused batches leave every table unchanged');

SELECT * FROM finish();
