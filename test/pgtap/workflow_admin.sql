-- Administration of workflows: create, alter, delete; retry policies.
SELECT * FROM no_plan();
\ir include/refusals.sql

CREATE FUNCTION pg_temp.settings(workflow text) RETURNS text LANGUAGE sql AS
$$
	SELECT ROW(handler, w.max_attempts, initial_interval, backoff_coefficient, max_interval, jitter, non_retryable,
		timeout,
		visibility_timeout, q.max_attempts, key_scope, outbox_queue)::text
	FROM pgqrs_workflows w JOIN pgqrs_queues q ON q.queue_id = w.workflow_id AND q.name = w.name
	WHERE w.name = $1 AND is_workflow
$$;

--
-- create
--

SELECT pgqrs_create_workflow('w') AS w \gset
SELECT is(pg_temp.settings('w'), '(,3,00:00:01,2,00:01:00,0.25,{},,00:05:00,5,retained,)',
	'a workflow created with nothing but its name has the defaults');
SELECT is(ROW(workflow_id, owner, created_at BETWEEN now() - interval '1 hour' AND clock_timestamp())::text,
	format('(%s,%s,t)', :w, current_user), 'a workflow has an id, its owner and the time of its creation')
	FROM pgqrs_workflows WHERE name = 'w';
SELECT is(ROW(retention, dead_retention, max_in_flight, paused_at)::text, '("7 days","30 days",,)',
	'a workflow has a queue with the defaults') FROM pgqrs_queues WHERE queue_id = :w;
SELECT pgqrs_create_workflow('w2', NULL, -1, '1 min', 1e-300, '0', 1, '{a,b c}', '1 day', '366 days', 1, 'active',
	NULL) AS w2 \gset
SELECT ok(:w2 > :w, 'the second workflow has a higher id');
SELECT is(pg_temp.settings('w2'), '(,-1,00:01:00,1e-300,00:00:00,1,"{a,""b c""}","1 day","366 days",1,active,)',
	'a workflow stores every argument, given by position');
SELECT ok(pgqrs_create_workflow(workflow => 'w3', handler => NULL, max_attempts => 2147483647,
	initial_interval => '0', backoff_coefficient => 1.7e308,
	max_interval => '366000 days', jitter => 0, non_retryable => '[5:5]={x}', timeout => '0.000001 s',
		visibility_timeout => '0.000001 s',
	max_crashes => 2147483647, key_scope => 'retained', outbox_queue => NULL) > :w2, 'arguments are given by name');
SELECT is(pg_temp.settings('w3'),
	'(,2147483647,00:00:00,1.7e+308,"366000 days",0,{x},00:00:00.000001,00:00:00.000001,2147483647,retained,)',
	'a workflow stores values at their bounds');

SELECT pg_temp.contents() AS before \gset
SELECT is(pgqrs_create_workflow('w'), :w::bigint, 'creating an existing workflow returns its id');
SELECT is(pgqrs_create_workflow('w', max_attempts => 9, key_scope => 'active', max_crashes => 1,
	visibility_timeout => '1 s'), :w::bigint, 'creating an existing workflow with other settings returns its id');
SELECT is(pgqrs_create_workflow('w2'), :w2::bigint, 'creating an existing workflow with the defaults returns its id');
SELECT is(pg_temp.contents(), :'before', 'creating an existing workflow changes nothing');
BEGIN;
SELECT pgqrs_create_workflow('gone');
ROLLBACK;
SELECT is((SELECT count(*) FROM pgqrs_workflows WHERE name = 'gone') + (SELECT count(*) FROM pgqrs_queues
	WHERE name = 'gone'), 0::bigint, 'a rollback removes workflow and queue');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT is(pgqrs_create_workflow('rr'), pgqrs_create_workflow('rr'),
	'creating a workflow twice at REPEATABLE READ returns one id');
SELECT is(pgqrs_create_workflow('w'), :w::bigint, 'an existing workflow is found at REPEATABLE READ');
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT is(pgqrs_create_workflow('w'), :w::bigint, 'an existing workflow is found at SERIALIZABLE');
COMMIT;
SELECT pgqrs_create_queue('plain');
SELECT pg_temp.contents() AS before \gset
SELECT is(left(pg_temp.refusal('SELECT pgqrs_create_workflow(''plain'')'), 5), 'PQ016',
	'a workflow with the name of a plain queue is refused');
SELECT is(pgqrs_delete_workflow('plain'), false, 'a plain queue is not deleted as a workflow');
SELECT is(pgqrs_delete_workflow('plain', true), false, 'a plain queue is not deleted as a workflow by force');
SELECT is(left(pg_temp.refusal('SELECT pgqrs_alter_workflow(''plain'', jitter => 0)'), 5), 'PQ002',
	'a plain queue is not altered as a workflow');
SELECT is(pg_temp.contents(), :'before', 'refused calls on a plain queue change nothing');

--
-- Names, of every function that takes one
--

CREATE TEMP TABLE calls AS SELECT unnest(ARRAY['pgqrs_create_workflow(%L)', 'pgqrs_alter_workflow(%L)',
	'pgqrs_delete_workflow(%L)',
	'pgqrs_delete_workflow(%L, force => true)']) AS call;
CREATE TEMP TABLE bad_names AS SELECT unnest(ARRAY[NULL, '', repeat('n', 256), repeat('n', 254) || 'ü', '*', 'a.*',
	'a*b',
	E'a\tb', E'a\n', E'\x7f', ' a', 'a ', ' ', 'pgqrs.', 'pgqrs.queue']) AS name;
SELECT is(got, CASE WHEN call ~ 'NULL' THEN '22004' ELSE '22023' END, 'the name is refused: ' || call)
	FROM pg_temp.refusals_of(VARIADIC ARRAY(SELECT format(call, name) FROM calls, bad_names));
SELECT is(pg_temp.refusal('SELECT pgqrs_alter_workflow(''nobody'')'), 'PQ002',
	'altering a workflow that does not exist is refused');
SELECT is(pgqrs_delete_workflow('nobody'), false, 'deleting a workflow that does not exist returns false');
SELECT is(pgqrs_delete_workflow('nobody', true), false,
	'deleting a workflow that does not exist by force returns false');

--
-- Bad settings, of create and alter
--

CREATE TEMP TABLE bad_settings (setting text, state text);
INSERT INTO bad_settings
	SELECT unnest(ARRAY['handler => ''f''', 'handler => ''''']), '0A000'
	UNION ALL SELECT unnest(ARRAY['max_per_key => 1', 'max_per_key => 0',
		'ordered => true', 'fair => true', 'rate_limit => 10', 'rate_period => ''2 s''', 'rate_period => ''0''',
		'rate_per_key => true']), '0A000'
	UNION ALL SELECT unnest(ARRAY['on_cancel => ''''', 'on_cancel => ''End''', 'on_cancel => ''stop''']), '22023'
	UNION ALL SELECT 'non_retryable => ''{a,NULL}''', '22004'
	UNION ALL SELECT unnest(ARRAY[
	'max_attempts => 0', 'max_attempts => -2', 'max_attempts => -2147483648',
	'initial_interval => ''-1 s''', 'initial_interval => ''1 month''', 'initial_interval => ''366001 days''',
	'max_interval => ''-0.000001 s''', 'max_interval => ''1 year''', 'max_interval => ''366000 days 1 s''',
	'backoff_coefficient => 0', 'backoff_coefficient => -1', 'backoff_coefficient => ''NaN''',
		'backoff_coefficient => ''Infinity''', 'backoff_coefficient => ''-Infinity''',
	'jitter => -0.01', 'jitter => 1.01', 'jitter => ''NaN''', 'jitter => ''Infinity''',
	'non_retryable => ''{""}''', 'non_retryable => ''{a,""}''', 'non_retryable => ''{{a},{b}}''',
		'non_retryable => array_fill(''a''::text, ARRAY[10001])',
	'timeout => ''0''', 'timeout => ''-1 s''', 'timeout => ''1 month''', 'timeout => ''366001 days''',
	'visibility_timeout => ''0''', 'visibility_timeout => ''-1 s''', 'visibility_timeout => ''367 days''',
		'visibility_timeout => ''1 month''',
	'max_crashes => 0', 'max_crashes => -1',
	'outbox_queue => ''''', 'outbox_queue => ''*''', 'key_scope => ''''', 'key_scope => ''RETAINED''',
		'key_scope => ''forever''']), '22023';
SELECT is(got, state, 'the setting is refused: ' || call)
	FROM pg_temp.refusals_of(VARIADIC ARRAY(SELECT format(call, setting) FROM bad_settings,
	unnest(ARRAY['pgqrs_create_workflow(''bad'', %s)', 'pgqrs_create_workflow(''w'', %s)',
		'pgqrs_alter_workflow(''w'', %s)', 'pgqrs_alter_workflow(''nobody'', %s)']) AS call))
	JOIN bad_settings ON strpos(call, ', ' || setting || ')') > 0;
SELECT is(got, '22004', 'a NULL in reset is refused: ' || call)
	FROM pg_temp.refusals_of('pgqrs_alter_workflow(''w'', reset => ''{NULL}'')',
	'pgqrs_alter_workflow(''w'', reset => ''{jitter,NULL}'')');
SELECT is(got, '22023', 'a name in reset that is no setting is refused: ' || call)
	FROM pg_temp.refusals_of(VARIADIC ARRAY(SELECT format('pgqrs_alter_workflow(''w'', reset => %L)', reset)
	FROM unnest(ARRAY['{nothing}', '{""}', '{JITTER}', '{name}', '{owner}', '{retention}', '{{jitter},{timeout}}']) AS
		reset));
SELECT is(got, '22023', 'a setting that is both set and reset is refused: ' || call)
	FROM pg_temp.refusals_of(VARIADIC ARRAY(SELECT format('pgqrs_alter_workflow(''w'', %1$s => %2$s, reset => '
	'''{%1$s}'')', setting, value)
	FROM (VALUES ('max_attempts', '1'), ('initial_interval', '''1 s'''), ('backoff_coefficient', '1'),
		('max_interval', '''1 s'''), ('jitter', '0'), ('non_retryable', '''{}'''),
		('timeout', '''1 s'''), ('visibility_timeout', '''1 s'''), ('max_crashes', '1'),
			('key_scope', '''active''')) AS s (setting, value)));

--
-- replace
--

SELECT pg_temp.contents() AS before \gset
SELECT is(pgqrs_create_workflow('w', replace => true), :w::bigint,
	'replacing a workflow by its own settings returns its id');
SELECT is(pgqrs_create_workflow('w2', NULL, -1, '1 min', 1e-300, '0', 1, '{a,b c}', '1 day', '366 days', 1, 'active',
	NULL, 'end', NULL, false, false, NULL, '1 s', false, true), :w2::bigint,
	'replacing a workflow by position by its own settings returns its id');
SELECT is(pg_temp.contents(), :'before', 'replacing a workflow by its own settings changes nothing');
SELECT is((SELECT concat(w.xmin, ' ', q.xmin) FROM pgqrs_workflows w JOIN pgqrs_queues q USING (name) WHERE name = 'w'
	AND pgqrs_create_workflow('w', replace => true) > 0),
	(SELECT concat(w.xmin, ' ', q.xmin) FROM pgqrs_workflows w JOIN pgqrs_queues q USING (name) WHERE name = 'w'),
		'replacing a workflow by its own settings writes no row');
SELECT is(pgqrs_create_workflow('fresh', max_attempts => 9, timeout => '1 h', replace => true) > :w2, true,
	'replace creates a workflow that does not exist');
SELECT pgqrs_alter_queue('fresh', max_in_flight => 3), xmin::text AS fresh_row FROM pgqrs_workflows
	WHERE name = 'fresh' \gset
SELECT is(pgqrs_create_workflow('fresh', max_attempts => 9, timeout => '1 h', max_crashes => 2, replace => true),
	workflow_id, 'a replaced workflow keeps its id') FROM pgqrs_workflows WHERE name = 'fresh';
SELECT is(pg_temp.settings('fresh'), '(,9,00:00:01,2,00:01:00,0.25,{},01:00:00,00:05:00,2,retained,)',
	'replace sets a setting of the workflow''s queue');
SELECT is(xmin::text, :'fresh_row', 'replace writes only the one of two rows that differs') FROM pgqrs_workflows
	WHERE name = 'fresh';
SELECT is(pgqrs_create_workflow('fresh', jitter => 0.5, key_scope => 'active', replace => true), workflow_id,
	'a workflow replaced again keeps its id') FROM pgqrs_workflows WHERE name = 'fresh';
SELECT is(pg_temp.settings('fresh'), '(,3,00:00:01,2,00:01:00,0.5,{},,00:05:00,5,active,)',
	'replace sets what is passed and the defaults of the rest');
SELECT is(max_in_flight, 3, 'replace keeps settings that are no argument') FROM pgqrs_queues WHERE name = 'fresh';
SELECT is(left(pg_temp.refusal('SELECT pgqrs_create_workflow(''plain'', replace => true)'), 5), 'PQ016',
	'a plain queue is not replaced by a workflow');
SELECT pgqrs_delete_workflow('fresh') \g /dev/null

--
-- alter
--

SELECT pg_temp.contents() AS before \gset
SELECT pgqrs_alter_workflow('w2');
SELECT is(pg_temp.contents(), :'before', 'altering nothing changes nothing');
SELECT pgqrs_alter_workflow('w2', on_cancel => 'end', max_per_key => NULL, ordered => false, fair => false,
	rate_limit => NULL, rate_period => '1000 ms', rate_per_key => false);
SELECT is(pg_temp.contents(), :'before', 'altering to the defaults of what is not supported yet changes nothing');
SELECT pgqrs_alter_workflow('w2', max_attempts => 4);
SELECT is(pg_temp.settings('w2'), '(,4,00:01:00,1e-300,00:00:00,1,"{a,""b c""}","1 day","366 days",1,active,)',
	'altering one setting of the workflow leaves the others');
SELECT pgqrs_alter_workflow('w2', max_crashes => 2);
SELECT is(pg_temp.settings('w2'), '(,4,00:01:00,1e-300,00:00:00,1,"{a,""b c""}","1 day","366 days",2,active,)',
	'altering one setting of its queue leaves the others');
SELECT pgqrs_alter_workflow('w2', initial_interval => '2 s', backoff_coefficient => 3, max_interval => '4 s',
	jitter => 0.5, non_retryable => '{}', timeout => '6 s',
	visibility_timeout => '7 s', key_scope => 'retained', reset => '{max_crashes,handler}');
SELECT is(pg_temp.settings('w2'), '(,4,00:00:02,3,00:00:04,0.5,{},00:00:06,00:00:07,5,retained,)',
	'altering sets several settings and resets others');
SELECT pgqrs_alter_workflow('w2', key_scope => 'active',
	reset => '{handler,max_attempts,initial_interval,backoff_coefficient,max_interval,jitter,non_retryable,timeout,'
		'visibility_timeout,max_crashes,outbox_queue,on_cancel,max_per_key,ordered,fair,rate_limit,rate_period,'
		'rate_per_key}');
SELECT is(pg_temp.settings('w2'), replace(pg_temp.settings('w'), 'retained', 'active'),
	'reset restores the defaults of pgqrs_create_workflow()');
SELECT pgqrs_alter_workflow('w2', reset => '{key_scope}');
SELECT is(pg_temp.settings('w2'), pg_temp.settings('w'), 'reset restores the default of key_scope');
SELECT is(pg_temp.settings('w3') LIKE '(,2147483647,%', true, 'altering leaves other workflows alone');
SELECT pgqrs_alter_queue('w2', max_in_flight => 3);
SELECT pgqrs_alter_workflow('w2', visibility_timeout => '1 min');
SELECT is(ROW(max_in_flight, visibility_timeout)::text, '(3,00:01:00)',
	'altering a workflow keeps what only its queue has') FROM pgqrs_queues WHERE queue_id = :w2;
SELECT is(concat(pgqrs_alter_workflow('w2', visibility_timeout => '1 h'), pgqrs_trigger('w2') IS NULL,
	(SELECT ceil(extract(epoch FROM visible_after - clock_timestamp()) / 600) * 600 FROM pgqrs_dequeue('w2'))),
		'f3600', 'an altered setting holds for a claim in the same statement');

--
-- Retry policies of single runs
--

CREATE TEMP TABLE policies (policy text);
INSERT INTO policies VALUES ('{}'), ('{"max_attempts": -1}'), ('{"max_attempts": 1}'),
	('{"max_attempts": 2147483647}'), ('{"max_attempts": 2.0}'),
	('{"initial_interval": "1 s"}'), ('{"initial_interval": "0"}'), ('{"initial_interval": "PT1M"}'),
		('{"max_interval": "366000 days"}'),
	('{"backoff_coefficient": 0.5}'), ('{"backoff_coefficient": 1e300}'), ('{"jitter": 0}'), ('{"jitter": 1}'),
		('{"non_retryable": []}'), ('{"non_retryable": ["a", "b"]}'),
	('{"max_attempts": 2, "initial_interval": "1 s", "backoff_coefficient": 1, "max_interval": "2 s", "jitter": '
		'0.1, "non_retryable": ["x"]}');
SELECT is(pg_temp.refusal(format('SELECT pgqrs_trigger(''w'', retry_policy => %L)', policy)), 'accepted',
	'the retry policy is accepted: ' || policy) FROM policies;
TRUNCATE policies;
INSERT INTO policies VALUES ('null'), ('1'), ('"x"'), ('[]'), ('[{"jitter": 0}]'), ('{"nothing": 1}'), ('{"": 1}'),
	('{"Jitter": 0}'), ('{"timeout": "1 s"}'), ('{"jitter": 0, "handler": "f"}'),
	('{"max_attempts": 0}'), ('{"max_attempts": -2}'), ('{"max_attempts": 1.5}'), ('{"max_attempts": 2147483648}'),
		('{"max_attempts": 1e1000}'), ('{"max_attempts": "1"}'),
	('{"max_attempts": null}'), ('{"max_attempts": true}'), ('{"max_attempts": {}}'), ('{"max_attempts": [1]}'),
	('{"initial_interval": 1}'), ('{"initial_interval": null}'), ('{"initial_interval": ""}'),
		('{"initial_interval": "soon"}'), ('{"initial_interval": "-1 s"}'),
	('{"initial_interval": "1 month"}'), ('{"initial_interval": "366001 days"}'),
		('{"initial_interval": "99999999999999999999 s"}'), ('{"initial_interval": {}}'),
		('{"initial_interval": ["1 s"]}'),
	('{"max_interval": 1}'), ('{"max_interval": "1 year"}'), ('{"max_interval": false}'),
	('{"backoff_coefficient": 0}'), ('{"backoff_coefficient": -1}'), ('{"backoff_coefficient": "2"}'),
		('{"backoff_coefficient": 1e309}'), ('{"backoff_coefficient": 1e-400}'), ('{"backoff_coefficient": null}'),
	('{"jitter": -0.1}'), ('{"jitter": 1.1}'), ('{"jitter": "0"}'), ('{"jitter": null}'),
	('{"non_retryable": "a"}'), ('{"non_retryable": null}'), ('{"non_retryable": {}}'), ('{"non_retryable": [""]}'),
		('{"non_retryable": ["a", null]}'), ('{"non_retryable": [1]}'), ('{"non_retryable": [["a"]]}');
SELECT is(got, '22023', 'the retry policy is refused: ' || call)
	FROM pg_temp.refusals_of(VARIADIC ARRAY(SELECT format('pgqrs_trigger(''w'', retry_policy => %L)', policy)
	FROM policies));
SELECT is(pg_temp.refusal('SET IntervalStyle = sql_standard; SELECT pgqrs_trigger(''w'', retry_policy => '
	'''{"initial_interval": "-1 0:00:01"}'')'), '22023', 'a negative interval is refused in any style');
RESET IntervalStyle;

-- Which policy counts: the run's keys, and for the others the workflow's newest.
CREATE FUNCTION pg_temp.delay(retry_at timestamptz) RETURNS numeric LANGUAGE sql AS $$
	SELECT ceil(extract(epoch FROM retry_at - clock_timestamp()) / 100) * 100 $$;
SELECT pgqrs_create_workflow('policy', max_attempts => 2, initial_interval => '100 s', max_interval => '1 day',
	jitter => 0) \g /dev/null
SELECT pgqrs_trigger('policy') AS own \gset
SELECT pgqrs_trigger('policy',
	retry_policy => '{"max_attempts": 4, "backoff_coefficient": 3, "non_retryable": ["fatal"]}') AS other \gset
SELECT lease FROM pgqrs_dequeue('policy') \gset
SELECT is(pg_temp.delay(pgqrs_fail_run(:own, :lease, '{"type": "fatal"}', true)), 100::numeric,
	'a run without a policy of its own retries by the workflow''s');
SELECT lease FROM pgqrs_dequeue('policy') \gset
SELECT is(pg_temp.delay(pgqrs_fail_run(:other, :lease, '{"type": "x"}', true)), 100::numeric,
	'a run whose policy lacks the initial interval takes the workflow''s');
SELECT pgqrs_alter_workflow('policy', initial_interval => '200 s');
SELECT pgqrs_set_visibility(:other, '-infinity');
SELECT lease FROM pgqrs_dequeue('policy') \gset
SELECT is(pg_temp.delay(pgqrs_fail_run(:other, :lease, '{"type": "x"}', true)), 600::numeric,
	'a run takes its own coefficient, and the workflow''s interval as it is now');
SELECT pgqrs_set_visibility(:other, '-infinity');
SELECT lease FROM pgqrs_dequeue('policy') \gset
SELECT is(pgqrs_fail_run(:other, :lease, '{"type": "fatally"}', true), NULL, 'a run takes its own non_retryable');
SELECT pgqrs_set_visibility(:own, '-infinity');
SELECT lease FROM pgqrs_dequeue('policy') \gset
SELECT is(pgqrs_fail_run(:own, :lease, '{"type": "x"}', true), NULL,
	'a run without max_attempts of its own takes the workflow''s');

--
-- delete
--

SELECT pgqrs_create_workflow('d') AS d \gset
SELECT is(pgqrs_delete_workflow('d'), true, 'an unused workflow is deleted');
SELECT is((SELECT count(*) FROM pgqrs_workflows WHERE workflow_id = :d) + (SELECT count(*) FROM pgqrs_queues
	WHERE queue_id = :d), 0::bigint, 'deleting a workflow removes its queue');
SELECT is(pgqrs_delete_workflow('d'), false, 'deleting a deleted workflow returns false');
SELECT pgqrs_create_workflow('d') AS d2 \gset
SELECT isnt(:d::bigint, :d2::bigint, 'a workflow created again under a deleted name has another id');

SELECT pgqrs_trigger('d', idempotency_key => 'k') AS queued \gset
SELECT pg_temp.contents() AS before \gset
SELECT is(left(pg_temp.refusal('SELECT pgqrs_delete_workflow(''d'')'), 5), 'PQ009',
	'deleting a workflow with a queued run is refused');
SELECT is(pg_temp.contents(), :'before', 'refused deletions change nothing');
SELECT pgqrs_purge_queue('d');
SELECT is(left(pg_temp.refusal('SELECT pgqrs_delete_workflow(''d'')'), 5), 'PQ009',
	'deleting a workflow with a cancelled run is refused');
SELECT pgqrs_trigger('d', '1') AS held, pgqrs_trigger('d', '2') AS done, pgqrs_trigger('d', '3') AS queued \gset
SELECT run_id AS held, lease FROM pgqrs_dequeue('d') \gset
SELECT should_execute FROM pgqrs_step_begin(:held, :lease, 's');
SELECT pgqrs_step_complete(:held, :lease, 's'), pgqrs_step_begin(:held, :lease, 't');
SELECT lease AS done_lease FROM pgqrs_dequeue('d') \gset
SELECT pgqrs_step_begin(:done, :done_lease, 's'), pgqrs_complete_run(:done, :done_lease);
SELECT pgqrs_trigger('w', '1') AS kept \gset
SELECT pg_temp.contents() AS before \gset
BEGIN;
SELECT is(pgqrs_delete_workflow('d', force => true), true, 'deleting a workflow by force succeeds');
ROLLBACK;
SELECT is(pg_temp.contents(), :'before', 'a rollback undoes a deletion by force');
SELECT pgqrs_step_complete(:held, :lease, 't');
SELECT is(pgqrs_delete_workflow('d', force => true), true,
	'deleting a workflow by force succeeds with a step being worked on');
SELECT pg_temp.empty_deleted();
SELECT is((SELECT count(*) FROM pgqrs_workflows WHERE name = 'd') + (SELECT count(*) FROM pgqrs_queues
	WHERE name = 'd')
	+ (SELECT count(*) FROM pgqrs_workflow_runs WHERE workflow_id = :d2) + (SELECT count(*) FROM pgqrs_messages
		WHERE queue_id = :d2)
	+ (SELECT count(*) FROM pgqrs_archive WHERE queue_id = :d2) + (SELECT count(*) FROM pgqrs_workflow_steps),
		0::bigint, 'nothing is left of a workflow deleted by force');
SELECT is(count(*), 1::bigint, 'runs of other workflows stay') FROM pgqrs_workflow_runs WHERE run_id = :kept;
SELECT is(split_part(pg_temp.refusal(format('SELECT pgqrs_%s', call)), ' ', 1), 'PQ003',
	'the holder of a run of a deleted workflow is refused: ' || split_part(call, '(', 1))
	FROM unnest(ARRAY[format('complete_run(%s, %s)', :held, :lease), format('fail_run(%s, %s, ''1'')', :held, :lease),
		format('step_begin(%s, %s, ''u'')', :held, :lease),
		format('step_complete(%s, %s, ''t'')', :held, :lease), format('result(%s)', :held)]) AS call;
SELECT is(pg_temp.refusal('SELECT pgqrs_trigger(''d'')'), 'PQ002', 'a deleted workflow cannot be triggered');
SELECT pgqrs_create_workflow('d');
SELECT isnt(pgqrs_trigger('d', idempotency_key => 'k'), NULL, 'the keys of a deleted workflow are free');
SELECT is(pg_temp.refusal('SELECT pgqrs_delete_workflow(''d'', true), pgqrs_trigger(''d'')'), 'PQ002 after a write',
	'a workflow cannot be triggered in the statement that deletes it');
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) FROM pgqrs_messages;
SELECT pgqrs_create_workflow('brief') \g /dev/null
SELECT pgqrs_trigger('brief') \g /dev/null
SELECT is(pgqrs_delete_workflow('brief', true), true, 'a workflow is created, used and deleted in one transaction');
SELECT isnt(pgqrs_create_queue('brief'), NULL,
	'the name of a workflow deleted in the transaction is free for a queue');
COMMIT;

--
-- A paused workflow
--

SELECT pgqrs_pause_queue('d');
SELECT is(pg_temp.refusal('SELECT pgqrs_trigger(''d'')'), 'accepted', 'a paused workflow accepts a trigger');
SELECT is(count(*), 0::bigint, 'a paused workflow delivers nothing') FROM pgqrs_dequeue('d');
SELECT pgqrs_resume_queue('d');
SELECT is(count(*), 1::bigint, 'a resumed workflow delivers') FROM pgqrs_dequeue('d');

--
-- Roles
--

BEGIN;
CREATE ROLE sender;
CREATE ROLE administrator;
CREATE ROLE nobody;
SELECT pgqrs_grant('t.*', 'sender', 'trigger'), pgqrs_grant('t.*', 'administrator', 'admin'),
	pgqrs_grant('u.*', 'nobody', 'admin');
SELECT pgqrs_create_workflow('t.w'), pgqrs_create_workflow('v.w') \g /dev/null
SELECT pgqrs_trigger('t.w') \g /dev/null
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO sender;
CREATE FUNCTION pg_temp.refusal_for(role name, query text) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	answer text;
BEGIN
	EXECUTE format('SET ROLE %I', role);
	answer := split_part(pg_temp.refusal(query), ' ', 1);
	RESET ROLE;
	RETURN answer;
END
$$;
CREATE TEMP TABLE role_calls (call text, missing text);
INSERT INTO role_calls VALUES ('pgqrs_alter_workflow(%L, max_attempts => 6)', 'PQ002'), ('pgqrs_delete_workflow(%L)',
	'accepted'),
	('pgqrs_delete_workflow(%L, true)', 'accepted'), ('pgqrs_create_workflow(%L)', '42501'),
		('pgqrs_create_workflow(%L, max_attempts => 7, replace => true)', '42501');
SELECT pg_temp.contents() AS before \gset
SELECT is(pg_temp.refusal_for('sender', 'SELECT ' || format(call, 't.w')), '42501',
	'a role with another privilege is refused: ' || call) FROM role_calls;
SELECT is(pg_temp.refusal_for('nobody', 'SELECT ' || format(call, 't.w')), missing,
	'a role without a privilege is told that there is no such workflow: ' || call) FROM role_calls;
SELECT is(pg_temp.refusal_for('administrator', 'SELECT ' || format(call, 'v.w')), missing,
	'an administrator of other names is told that there is no such workflow: ' || call) FROM role_calls;
SELECT is(pg_temp.refusal_for('administrator', 'SELECT ' || format(call, 'v.new')), missing,
	'an administrator of other names cannot create it: ' || call) FROM role_calls;
SELECT is(pg_temp.contents(), :'before', 'calls refused to roles change nothing');
SELECT is(pg_temp.refusal_for('administrator', 'SELECT ' || format(call, 't.w')), CASE
	WHEN call = 'pgqrs_delete_workflow(%L)' THEN 'PQ009' ELSE 'accepted' END,
	'an administrator of the name may call: ' || call)
	FROM role_calls;
SELECT is(pg_temp.refusal_for('administrator', 'SELECT pgqrs_create_workflow(''t.new'')'), 'accepted',
	'an administrator of the pattern may create a workflow');
SELECT is(owner, 'administrator', 'a workflow belongs to the role that created it') FROM pgqrs_workflows
	WHERE name = 't.new';

SELECT * FROM finish();
ROLLBACK;
