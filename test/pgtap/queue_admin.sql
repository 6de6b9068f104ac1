-- Administration of queues: create, alter, pause, purge, delete.
SELECT * FROM no_plan();
\ir include/refusals.sql

CREATE FUNCTION pg_temp.settings(queue text) RETURNS text LANGUAGE sql AS
$$
	SELECT ROW(visibility_timeout, max_attempts, max_in_flight, retention, dead_retention, is_workflow,
		paused_at IS NOT NULL, rate_period, max_per_key, rate_limit)::text
	FROM pgqrs_queues WHERE name = $1
$$;

--
-- create
--

SELECT pgqrs_create_queue('q') AS q \gset
SELECT is(pg_temp.settings('q'), '(00:00:30,5,,"7 days","30 days",f,f,,,)',
	'a queue created with nothing but its name has the defaults');
SELECT ok(created_at BETWEEN now() - interval '1 hour' AND clock_timestamp(),
	'a queue stores the time of its creation') FROM pgqrs_queues WHERE name = 'q';
SELECT is(queue_id, :q::bigint, 'pgqrs_create_queue() returns the id of the queue') FROM pgqrs_queues
	WHERE name = 'q';
SELECT pgqrs_create_queue('q2', '1 min', 7, 3, '0', '366000 days') AS q2 \gset
SELECT ok(:q2 > :q, 'the second queue has a higher id');
SELECT is(pg_temp.settings('q2'), '(00:01:00,7,3,00:00:00,"366000 days",f,f,,,)',
	'a queue stores every argument, given by position');
SELECT is(pgqrs_create_queue(queue => 'q3', visibility_timeout => '366 days', max_attempts => 2147483647,
	max_in_flight => 2147483647,
	retention => '36 h', dead_retention => '0') > :q2, true, 'arguments are given by name');
SELECT is(pg_temp.settings('q3'), '("366 days",2147483647,2147483647,"1 day 12:00:00",00:00:00,f,f,,,)',
	'a day of a setting has 24 hours');
SELECT is(pgqrs_create_queue('q4', visibility_timeout => '0.000001 s', max_attempts => 1, max_in_flight => 1) > :q2,
	true, 'a queue stores values at their lower bounds');

SELECT pg_temp.contents() AS before \gset
SELECT is(pgqrs_create_queue('q'), :q::bigint, 'creating an existing queue returns its id');
SELECT is(pgqrs_create_queue('q', '1 h', 9, 9, '1 h', '1 h'), :q::bigint,
	'creating an existing queue with other settings returns its id');
SELECT is(pgqrs_create_queue('q2'), :q2::bigint, 'creating an existing queue with the defaults returns its id');
SELECT is(pg_temp.contents(), :'before', 'creating an existing queue changes nothing');

CREATE FUNCTION pg_temp.twice() RETURNS boolean LANGUAGE sql AS $$
	SELECT pgqrs_create_queue('twice') = pgqrs_create_queue('twice') $$;
SELECT ok(pg_temp.twice(), 'creating a queue twice in one statement returns one id');
BEGIN;
SELECT pgqrs_create_queue('gone');
ROLLBACK;
SELECT is(count(*), 0::bigint, 'a rollback removes the queue') FROM pgqrs_queues WHERE name = 'gone';
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT is(pgqrs_create_queue('rr'), pgqrs_create_queue('rr'),
	'creating a queue twice at REPEATABLE READ returns one id');
SELECT is(pgqrs_create_queue('q'), :q::bigint, 'an existing queue is found at REPEATABLE READ');
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT is(pgqrs_create_queue('q'), :q::bigint, 'an existing queue is found at SERIALIZABLE');
COMMIT;

--
-- Names, of every function that takes one
--

CREATE TEMP TABLE calls (call text);
INSERT INTO calls VALUES ('pgqrs_create_queue(%L)'), ('pgqrs_alter_queue(%L)'), ('pgqrs_delete_queue(%L)'),
	('pgqrs_delete_queue(%L, force => true)'), ('pgqrs_purge_queue(%L)'), ('pgqrs_pause_queue(%L)'),
		('pgqrs_resume_queue(%L)');
CREATE TEMP TABLE bad_names AS SELECT unnest(ARRAY[NULL, '', repeat('n', 256), repeat('n', 254) || 'ü', '*', 'a.*',
	'a*b',
	E'a\tb', E'a\n', E'\x7f', ' a', 'a ', ' ', 'pgqrs.', 'pgqrs.queue']) AS name;
SELECT is(got, CASE WHEN call ~ 'NULL' THEN '22004' ELSE '22023' END, 'the name is refused: ' || call)
	FROM pg_temp.refusals_of(VARIADIC ARRAY(SELECT format(call, name) FROM calls, bad_names));
SELECT is(got, 'PQ001', 'a queue that does not exist is refused: ' || call)
	FROM pg_temp.refusals_of(VARIADIC ARRAY(SELECT format(call, 'nobody') FROM calls WHERE call !~ 'create|delete'));
SELECT is(pgqrs_delete_queue('nobody'), false, 'deleting a queue that does not exist returns false');
SELECT is(pgqrs_delete_queue('nobody', true), false, 'deleting a queue that does not exist by force returns false');

--
-- Bad settings, of create and alter
--

CREATE TEMP TABLE bad_settings AS SELECT unnest(ARRAY[
	'visibility_timeout => ''0''', 'visibility_timeout => ''-1 s''', 'visibility_timeout => ''366 days 0.000001 s''',
	'visibility_timeout => ''1 month''', 'visibility_timeout => ''-1 day 24 h''',
		'visibility_timeout => ''2000000000 days''',
	'visibility_timeout => ''213503983 days''', 'retention => ''-213503982 days''',
	'max_attempts => 0', 'max_attempts => -1', 'max_attempts => -2147483648',
	'max_in_flight => 0', 'max_in_flight => -1',
	'retention => ''-1 s''', 'retention => ''1 year''', 'retention => ''366001 days''',
	'dead_retention => ''-0.000001 s''', 'dead_retention => ''1 month -30 days''']) AS setting;
SELECT is(got, '22023', 'the setting is refused: ' || call)
	FROM pg_temp.refusals_of(VARIADIC ARRAY(SELECT format(call, setting) FROM bad_settings,
	unnest(ARRAY['pgqrs_create_queue(''bad'', %s)', 'pgqrs_create_queue(''q'', %s)', 'pgqrs_alter_queue(''q'', %s)',
		'pgqrs_alter_queue(''nobody'', %s)']) AS call));
SELECT is(got, '22004', 'a NULL in reset is refused: ' || call)
	FROM pg_temp.refusals_of('pgqrs_alter_queue(''q'', reset => ''{NULL}'')',
	'pgqrs_alter_queue(''q'', reset => ''{max_attempts,NULL}'')');
SELECT is(got, '22023', 'a name in reset that is no setting is refused: ' || call)
	FROM pg_temp.refusals_of(VARIADIC ARRAY(SELECT format('pgqrs_alter_queue(''q'', reset => %L)', reset)
	FROM unnest(ARRAY['{nothing}', '{""}', '{MAX_ATTEMPTS}', '{name}', '{paused_at}', '{max_crashes}',
		'{{max_attempts},{retention}}']) AS reset));
SELECT is(got, '22023', 'a setting that is both set and reset is refused: ' || call)
	FROM pg_temp.refusals_of(VARIADIC ARRAY(SELECT format('pgqrs_alter_queue(''q'', %1$s => %2$s, reset => '
	'''{%1$s}'')', setting, value)
	FROM (VALUES ('visibility_timeout', '''1 s'''), ('max_attempts', '5'), ('max_in_flight', '1'),
		('retention', '''1 s'''), ('dead_retention', '''1 s''')) AS s (setting, value)));

-- What is not supported yet.
SELECT is(got, '0A000', 'the setting is refused as not supported yet: ' || call)
	FROM pg_temp.refusals_of(VARIADIC ARRAY(SELECT format(call, setting)
	FROM unnest(ARRAY['max_per_key => 1', 'max_per_key => 0', 'ordered => true', 'fair => true', 'rate_limit => 10',
		'rate_period => ''2 s''', 'rate_period => ''0''', 'rate_per_key => true']) AS setting,
		unnest(ARRAY['pgqrs_create_queue(''bad'', %s)', 'pgqrs_create_queue(''q'', %s)',
			'pgqrs_create_queue(''q'', %s, replace => true)', 'pgqrs_alter_queue(''q'', %s)']) AS call));

--
-- replace
--

SELECT pg_temp.contents() AS before \gset
SELECT is(pgqrs_create_queue('q', replace => true), :q::bigint,
	'replacing a queue by its own settings returns its id');
SELECT is(pgqrs_create_queue('q2', '1 min', 7, 3, '0', '366000 days', NULL, false, false, NULL, '1 s', false, true),
	:q2::bigint, 'replacing a queue by position by its own settings returns its id');
SELECT is(pg_temp.contents(), :'before', 'replacing a queue by its own settings changes nothing');
SELECT is((SELECT xmin::text FROM pgqrs_queues WHERE name = 'q' AND pgqrs_create_queue('q', replace => true) > 0),
	(SELECT xmin::text FROM pgqrs_queues WHERE name = 'q'), 'replacing a queue by its own settings writes no row');
SELECT is(pgqrs_create_queue('fresh', max_attempts => 2, replace => true) > :q2, true,
	'replace creates a queue that does not exist');
SELECT pgqrs_pause_queue('fresh'), created_at AS fresh_since FROM pgqrs_queues WHERE name = 'fresh' \gset
SELECT is(pgqrs_create_queue('fresh', max_in_flight => 3, retention => '1 h', replace => true), queue_id,
	'a replaced queue keeps its id') FROM pgqrs_queues WHERE name = 'fresh';
SELECT is(pg_temp.settings('fresh'), '(00:00:30,5,3,01:00:00,"30 days",f,t,,,)',
	'replace sets what is passed and the defaults of the rest, and keeps the pause');
SELECT is(created_at, :'fresh_since', 'replace keeps the time of the creation') FROM pgqrs_queues
	WHERE name = 'fresh';
SELECT is(pgqrs_create_queue('fresh', replace => false), queue_id,
	'creating without replace returns the id of the existing queue') FROM pgqrs_queues WHERE name = 'fresh';
SELECT is(pg_temp.settings('fresh'), '(00:00:30,5,3,01:00:00,"30 days",f,t,,,)',
	'creating without replace changes no setting');
BEGIN;
SELECT pgqrs_create_queue('fresh', replace => true) \g /dev/null
SELECT is(pg_temp.settings('fresh'), '(00:00:30,5,,"7 days","30 days",f,t,,,)',
	'replace without settings sets the defaults');
ROLLBACK;
SELECT is(pg_temp.settings('fresh'), '(00:00:30,5,3,01:00:00,"30 days",f,t,,,)', 'a rollback undoes a replace');
SELECT pgqrs_delete_queue('fresh') \g /dev/null
SELECT pgqrs_create_workflow('a flow') \g /dev/null
SELECT is(left(pg_temp.refusal('SELECT pgqrs_create_queue(''a flow'', max_attempts => 9, replace => true)'), 5),
	'PQ016', 'the queue of a workflow is not replaced');
SELECT pgqrs_delete_workflow('a flow') \g /dev/null

--
-- alter
--

SELECT pg_temp.contents() AS before \gset
SELECT pgqrs_alter_queue('q2');
SELECT is(pg_temp.contents(), :'before', 'altering nothing changes nothing');
SELECT pgqrs_alter_queue('q2', visibility_timeout => '2 min');
SELECT is(pg_temp.settings('q2'), '(00:02:00,7,3,00:00:00,"366000 days",f,f,,,)',
	'altering visibility_timeout leaves the other settings');
SELECT pgqrs_alter_queue('q2', max_attempts => 8, max_in_flight => 4);
SELECT is(pg_temp.settings('q2'), '(00:02:00,8,4,00:00:00,"366000 days",f,f,,,)',
	'altering two settings leaves the others');
SELECT pgqrs_alter_queue('q2', retention => '1 day', dead_retention => '0', reset => '{max_in_flight,max_in_flight}');
SELECT is(pg_temp.settings('q2'), '(00:02:00,8,,"1 day",00:00:00,f,f,,,)',
	'altering sets some settings and resets others');
SELECT pgqrs_alter_queue('q2', max_per_key => NULL, ordered => false, fair => false, rate_limit => NULL,
	rate_period => '1000 ms', rate_per_key => false);
SELECT is(pg_temp.settings('q2'), '(00:02:00,8,,"1 day",00:00:00,f,f,,,)',
	'altering to the defaults of what is not supported yet changes nothing');
SELECT pgqrs_alter_queue('q2',
	reset => '{visibility_timeout,max_attempts,max_in_flight,retention,dead_retention,max_per_key,ordered,fair,'
	'rate_limit,rate_period,rate_per_key}');
SELECT is(pg_temp.settings('q2'), pg_temp.settings('q'), 'reset restores the defaults of pgqrs_create_queue()');
SELECT is(concat((SELECT to_jsonb(q) FROM pgqrs_queues q WHERE name = 'q2')),
	concat((SELECT to_jsonb(q) || jsonb_build_object('queue_id', q2.queue_id, 'name', q2.name, 'created_at',
		q2.created_at)
		FROM pgqrs_queues q, pgqrs_queues q2 WHERE q.name = 'q' AND q2.name = 'q2')),
			'reset restores the default of every column');
SELECT is((SELECT max_attempts FROM pgqrs_queues WHERE name = 'q3'), 2147483647,
	'altering leaves other queues alone');

-- What is altered counts for the very next call, also of one statement.
CREATE FUNCTION pg_temp.lease_length(queue text) RETURNS numeric LANGUAGE sql AS
$$ SELECT ceil(extract(epoch FROM visible_after - clock_timestamp()) / 30) * 30 FROM pgqrs_dequeue(queue) $$;
SELECT pgqrs_create_queue('now'), pgqrs_enqueue('now', '1'), pgqrs_enqueue('now', '2');
SELECT is(pg_temp.lease_length('now'), 30::numeric, 'a claim has the visibility_timeout of its queue');
SELECT is(concat(pgqrs_alter_queue('now', visibility_timeout => '1 h'), pg_temp.lease_length('now')), '3600',
	'an altered visibility_timeout holds for a claim in the same statement');
SELECT is(pg_temp.refusal('SELECT pgqrs_delete_queue(''now'', true), pgqrs_enqueue(''now'', ''1'')'),
	'PQ001 after a write', 'a queue cannot be sent to in the statement that deletes it');

--
-- pause and resume
--

SELECT pgqrs_pause_queue('q');
SELECT ok(paused_at BETWEEN now() - interval '1 hour' AND clock_timestamp(), 'a pause stores its time')
	FROM pgqrs_queues WHERE name = 'q';
SELECT pg_temp.contents() AS before \gset
SELECT pgqrs_pause_queue('q');
SELECT is(pg_temp.contents(), :'before', 'a second pause keeps the time of the first one');
SELECT pgqrs_resume_queue('q');
SELECT is(paused_at, NULL, 'a resume ends the pause') FROM pgqrs_queues WHERE name = 'q';
SELECT pg_temp.contents() AS before \gset
SELECT pgqrs_resume_queue('q');
SELECT is(pg_temp.contents(), :'before', 'a second resume changes nothing');
SELECT pgqrs_enqueue('q', '"held"'), pgqrs_enqueue('q', '"waits"') \g /dev/null
SELECT message_id AS held, lease FROM pgqrs_dequeue('q') \gset
SELECT pgqrs_pause_queue('q');
SELECT is(count(*), 0::bigint, 'a claim on a paused queue returns nothing') FROM pgqrs_dequeue('q');
SELECT is(count(*), 0::bigint, 'a claim by a pattern returns nothing of a paused queue')
	FROM pgqrs_dequeue('*', batch_size => 100) WHERE queue = 'q';
SELECT is(extended, true, 'a lease on a paused queue is extended') FROM pgqrs_extend_lease(:held, :lease);
SELECT pgqrs_archive_message(:held, :lease);
SELECT is(count(*), 1::bigint, 'a message of a paused queue is archived by its holder') FROM pgqrs_archive
	WHERE message_id = :held;
SELECT pgqrs_resume_queue('q');
SELECT is(payload, '"waits"', 'a claim on a resumed queue returns the message that waited') FROM pgqrs_dequeue('q');
SELECT pgqrs_delete_queue('q', true);

--
-- purge: plain messages
--

SELECT pgqrs_create_queue('p', visibility_timeout => '1 h') AS p, pgqrs_create_queue('other') AS other \gset
SELECT pgqrs_enqueue('other', '1'), pgqrs_enqueue('p', '"held"', priority => 1), pgqrs_enqueue('p', '"expired"',
	priority => 1),
	pgqrs_enqueue('p', '"waits"', idempotency_key => 'k'), pgqrs_enqueue('p', '"later"', delay => '1 day',
		priority => -100) \g /dev/null
SELECT message_id AS held, lease FROM pgqrs_dequeue('p') \gset
SELECT message_id AS expired, lease AS expired_lease FROM pgqrs_dequeue('p', visibility_timeout => '1 us') \gset
SELECT is(pgqrs_purge_queue('p'), 3::bigint, 'a purge removes waiting, delayed and expired messages');
SELECT is(array_agg(payload), ARRAY['"held"']::jsonb[], 'a purge leaves messages under live leases')
	FROM pgqrs_messages WHERE queue_id = :p;
SELECT is(count(*), 0::bigint, 'a purge does not archive messages') FROM pgqrs_archive WHERE queue_id = :p;
SELECT is(count(*), 1::bigint, 'a purge leaves other queues alone') FROM pgqrs_messages WHERE queue_id = :other;
SELECT is(pg_temp.refusal(format('SELECT pgqrs_archive_message(%s, %s)', :expired, :expired_lease)), 'PQ006',
	'the lease of a purged message is refused');
SELECT isnt(pgqrs_enqueue('p', '2', idempotency_key => 'k'), NULL, 'the key of a purged message is free');
SELECT is(pgqrs_purge_queue('p'), 1::bigint, 'a second purge removes the message sent since');
SELECT is(pgqrs_purge_queue('p'), 0::bigint, 'a purge of a queue without waiting messages returns 0');
SELECT pgqrs_archive_message(:held, :lease);
SELECT count(pgqrs_enqueue('p', '1')) FROM generate_series(1, 2500);
BEGIN;
SELECT is(pgqrs_purge_queue('p'), 2500::bigint, 'a purge removes 2,500 messages');
SELECT is(count(*), 0::bigint, 'a purge leaves none of 2,500 messages') FROM pgqrs_messages WHERE queue_id = :p;
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) FROM pgqrs_queues;
SELECT is(pgqrs_purge_queue('p'), 2500::bigint, 'a purge at SERIALIZABLE removes 2,500 messages');
COMMIT;
BEGIN;
SELECT pgqrs_enqueue('p', '1') \g /dev/null
SELECT is(pgqrs_purge_queue('p'), 1::bigint, 'a purge removes the message that its transaction has sent');
COMMIT;

--
-- purge: runs
--

SELECT pgqrs_create_workflow('w', visibility_timeout => '1 h', key_scope => 'active') AS w \gset
SELECT pgqrs_trigger('w', '1', priority => 1) AS held, pgqrs_trigger('w', '2', priority => 1) AS expired,
	pgqrs_trigger('w', '3', idempotency_key => 'k', timeout => '1 h') AS queued, pgqrs_trigger('w', '4',
		priority => 1) AS retries,
	pgqrs_trigger('w', '5', delay => '1 day') AS later \gset
SELECT lease FROM pgqrs_dequeue('w') \gset
SELECT message_id = :expired AS claimed, lease AS expired_lease
	FROM pgqrs_dequeue('w', visibility_timeout => '1 us') \gset
SELECT message_id = :retries AS claimed, lease AS retry_lease FROM pgqrs_dequeue('w') \gset
SELECT pgqrs_fail_run(:retries, :retry_lease, '{"type": "x"}', retryable => true, retry_after => '1 h') \g /dev/null
SELECT is(pgqrs_purge_queue('w'), 4::bigint, 'a purge of a workflow cancels its runs');
SELECT is(jsonb_object_agg(input #>> '{}', status),
	'{"1": "RUNNING", "2": "CANCELLED", "3": "CANCELLED", "4": "CANCELLED", "5": "CANCELLED"}',
	'a purge of a workflow leaves a run under a live lease RUNNING') FROM pgqrs_workflow_runs WHERE workflow_id = :w;
SELECT is(count(completed_at), 4::bigint, 'a purge sets the end of the cancelled runs') FROM pgqrs_workflow_runs
	WHERE workflow_id = :w;
SELECT is(array_agg(message_id), ARRAY[:held]::bigint[], 'a purge removes the messages of the cancelled runs')
	FROM pgqrs_messages WHERE queue_id = :w;
SELECT is(array_agg(message_id || ' ' || outcome ORDER BY message_id), ARRAY[:expired || ' CANCELLED',
	:queued || ' CANCELLED', :retries || ' CANCELLED', :later || ' CANCELLED'],
	'a purge archives the messages of the cancelled runs') FROM pgqrs_archive WHERE queue_id = :w;
SELECT is(pg_temp.refusal(format('SELECT pgqrs_complete_run(%s, %s)', :expired, :expired_lease)), 'PQ010',
	'the holder of a cancelled run is told of the cancellation');
SELECT isnt(pgqrs_trigger('w', idempotency_key => 'k'), :queued::bigint, 'the key of a cancelled run is free');
SELECT is(pgqrs_purge_queue('w'), 1::bigint, 'a second purge cancels the run triggered since');
SELECT is(pgqrs_purge_queue('w'), 0::bigint, 'a purge of a workflow without waiting runs returns 0');
SELECT pgqrs_complete_run(:held, :lease);
SELECT count(*) FROM unnest(pgqrs_trigger_batch('w', array_fill('1'::jsonb, ARRAY[2500])));
SELECT is(pgqrs_purge_queue('w'), 2500::bigint, 'a purge cancels 2,500 runs');
SELECT is(count(*), 0::bigint, 'a purge leaves none of 2,500 messages of runs') FROM pgqrs_messages
	WHERE queue_id = :w;
SELECT is(count(*), 2505::bigint, 'every purged run is CANCELLED') FROM pgqrs_workflow_runs WHERE workflow_id = :w
	AND status = 'CANCELLED';

-- a child first, whose end wakes the parent
SELECT pgqrs_trigger('w') AS parent \gset
SELECT lease FROM pgqrs_dequeue('w') \gset
SELECT pgqrs_start_child(:parent, :lease, 'c', 'w', priority => 1) AS child \gset
SELECT pgqrs_await_child(:parent, :lease, 'c');
SELECT is(pgqrs_purge_queue('w'), 2::bigint, 'a purge cancels a child and the parent that waits for it');
SELECT is(array_agg(status::text), '{CANCELLED,CANCELLED}', 'parent and child of the purge are CANCELLED')
	FROM pgqrs_workflow_runs WHERE run_id IN (:parent, :child);

--
-- A workflow's queue, altered and deleted as a queue
--

SELECT pgqrs_alter_queue('w', max_in_flight => 5, retention => '1 h', dead_retention => '2 h');
SELECT is(pg_temp.settings('w'), '(01:00:00,5,5,01:00:00,02:00:00,t,f,,,)',
	'pgqrs_alter_queue() alters what a workflow has no setting for');
SELECT pg_temp.contents() AS before \gset
SELECT is(pg_temp.refusal(format('SELECT pgqrs_alter_queue(''w'', %s)', a)), 'PQ016 after a write',
	'pgqrs_alter_queue() refuses a setting of the workflow: ' || a)
	FROM unnest(ARRAY['visibility_timeout => ''1 s''', 'max_attempts => 9', 'reset => ''{max_attempts}''',
		'reset => ''{retention,visibility_timeout}''']) AS a;
SELECT is(left(pg_temp.refusal('SELECT pgqrs_create_queue(''w'')'), 5), 'PQ016',
	'pgqrs_create_queue() refuses the name of a workflow');
SELECT is(left(pg_temp.refusal('SELECT pgqrs_delete_queue(''w'')'), 5), 'PQ016',
	'pgqrs_delete_queue() refuses the queue of a workflow');
SELECT is(pg_temp.contents(), :'before', 'calls refused for a workflow change nothing');

SELECT pgqrs_create_workflow('w3') AS w3 \gset
SELECT pgqrs_trigger('w3') AS live, pgqrs_trigger('w3') AS done \gset
SELECT run_id AS held, lease FROM pgqrs_dequeue('w3') \gset
SELECT should_execute FROM pgqrs_step_begin(:held, :lease, 's');
SELECT pgqrs_step_complete(:held, :lease, 's');
SELECT is(pgqrs_delete_queue('w', force => true), true, 'pgqrs_delete_queue() deletes a workflow by force');
SELECT pg_temp.empty_deleted();
SELECT is((SELECT count(*) FROM pgqrs_queues WHERE queue_id = :w) + (SELECT count(*) FROM pgqrs_workflows
	WHERE workflow_id = :w)
	+ (SELECT count(*) FROM pgqrs_workflow_runs WHERE workflow_id = :w) + (SELECT count(*) FROM pgqrs_archive
		WHERE queue_id = :w)
	+ (SELECT count(*) FROM pgqrs_messages WHERE queue_id = :w), 0::bigint,
		'nothing is left of a workflow deleted by force');
SELECT is((SELECT count(*) FROM pgqrs_workflow_runs) + (SELECT count(*) FROM pgqrs_workflow_steps), 3::bigint,
	'runs and steps of other workflows stay');
SELECT is(pgqrs_delete_queue('w', force => true), false, 'deleting a deleted workflow returns false');

--
-- delete: plain queues
--

SELECT pgqrs_create_queue('d') AS d \gset
SELECT is(pgqrs_delete_queue('d'), true, 'an empty queue is deleted');
SELECT is(pgqrs_delete_queue('d'), false, 'deleting a deleted queue returns false');
SELECT pgqrs_create_queue('d') AS d2 \gset
SELECT isnt(:d::bigint, :d2::bigint, 'a queue created again under a deleted name has another id');

CREATE TEMP TABLE uses (what text, make text, undo text);
INSERT INTO uses VALUES
	('a message', 'SELECT pgqrs_enqueue(''d'', ''1'')', 'SELECT pgqrs_purge_queue(''d'')'),
	('a delayed message', 'SELECT pgqrs_enqueue(''d'', ''1'', delay => ''1 day'', priority => -100)',
		'SELECT pgqrs_purge_queue(''d'')'),
	('a held message', 'SELECT pgqrs_enqueue(''d'', ''1''), (SELECT lease FROM pgqrs_dequeue(''d''))',
		'DELETE FROM pgqrs_messages WHERE queue_id = (SELECT queue_id FROM pgqrs_queues WHERE name = ''d'')'),
	('an archived message',
		'SELECT pgqrs_enqueue(''d'', ''1''); SELECT pgqrs_archive_message(message_id, lease) FROM '
		'pgqrs_dequeue(''d'')', 'DELETE FROM pgqrs_archive WHERE outcome = ''DONE''');

CREATE FUNCTION pg_temp.delete_used(make text, undo text) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	before text;
	refusal text;
BEGIN
	EXECUTE make;
	before := pg_temp.contents();
	refusal := left(pg_temp.refusal('SELECT pgqrs_delete_queue(''d'')'), 5);
	IF pg_temp.contents() <> before THEN
		refusal := refusal || ' and something changed';
	END IF;
	EXECUTE undo;
	RETURN refusal || ' ' || pgqrs_delete_queue('d') || pgqrs_create_queue('d');
END
$$;
SELECT alike(pg_temp.delete_used(make, undo), 'PQ009 true%', 'a queue in use is not deleted: ' || what) FROM uses;

SELECT pgqrs_enqueue('d', '1', idempotency_key => 'k'), pgqrs_enqueue('d', '2') \g /dev/null
SELECT message_id AS done, lease AS done_lease FROM pgqrs_dequeue('d') \gset
SELECT pgqrs_archive_message(:done, :done_lease);
SELECT message_id AS held, lease FROM pgqrs_dequeue('d') \gset
SELECT pgqrs_enqueue('d', '3') \g /dev/null
SELECT pg_temp.contents() AS before \gset
BEGIN;
SELECT is(pgqrs_delete_queue('d', force => true), true, 'deleting a queue by force succeeds');
ROLLBACK;
SELECT is(pg_temp.contents(), :'before', 'a rollback undoes a deletion by force');
SELECT is(count(*), 1::bigint, 'a claim works after the deletion was rolled back') FROM pgqrs_dequeue('d');
SELECT is(pgqrs_delete_queue('d', force => true), true, 'deleting a queue by force succeeds again');
SELECT pg_temp.empty_deleted();
SELECT is((SELECT count(*) FROM pgqrs_queues WHERE name = 'd') + (SELECT count(*) FROM pgqrs_archive
	WHERE message_id = :done)
	+ (SELECT count(*) FROM pgqrs_messages WHERE message_id = :held), 0::bigint,
		'nothing is left of a queue deleted by force');
SELECT is((SELECT count(*) FROM pgqrs_messages LEFT JOIN pgqrs_queues USING (queue_id) WHERE name IS NULL)
	+ (SELECT count(*) FROM pgqrs_archive LEFT JOIN pgqrs_queues USING (queue_id) WHERE name IS NULL), 0::bigint,
		'no message is left without a queue');
SELECT is((SELECT count(*) FROM pgqrs_messages WHERE queue_id = :other), 1::bigint, 'messages of other queues stay');
SELECT is(pg_temp.refusal(format('SELECT pgqrs_archive_message(%s, %s)', :held, :lease)), 'PQ006',
	'the lease of a message of a deleted queue is refused');
SELECT is(pg_temp.refusal('SELECT pgqrs_enqueue(''d'', ''1'')'), 'PQ001', 'a deleted queue cannot be sent to');
SELECT pgqrs_create_queue('d');
SELECT is(count(*), 0::bigint, 'a new queue of a deleted name is empty') FROM pgqrs_peek('d');
BEGIN;
SELECT pgqrs_create_queue('brief'), pgqrs_enqueue('brief', '1') \g /dev/null
SELECT is(pgqrs_delete_queue('brief', true), true, 'a queue is created, used and deleted in one transaction');
SELECT is(pgqrs_create_queue('brief') > 0, true, 'the name of a queue deleted in the transaction is free');
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) FROM pgqrs_messages;
SELECT pgqrs_enqueue('brief', '1') \g /dev/null
SELECT is(pgqrs_delete_queue('brief', true), true, 'a queue is deleted by force at SERIALIZABLE');
COMMIT;

-- A transaction that wrote a message and does not end: refused within a second,
-- and whatever happens meanwhile leaves the transaction usable.
SELECT pgqrs_create_queue('busy') \g /dev/null
BEGIN;
SELECT pgqrs_enqueue('busy', '1') \g /dev/null
PREPARE TRANSACTION 'pgqrs queue_admin';
CREATE FUNCTION pg_temp.interrupted() RETURNS text LANGUAGE plpgsql AS
$$
BEGIN
	INSERT INTO uses VALUES ('before');
	BEGIN
		INSERT INTO uses VALUES ('undone');
		PERFORM pgqrs_delete_queue('busy');
	EXCEPTION WHEN query_canceled THEN
		INSERT INTO uses VALUES ('after');
	END;
	RETURN (SELECT string_agg(what, ' ') FROM uses WHERE make IS NULL);
END
$$;
SET statement_timeout = '300 ms';
SELECT is(pg_temp.interrupted(), 'before after', 'a deletion that is cancelled while it waits is undone');
RESET statement_timeout;
CREATE FUNCTION pg_temp.timed(query text) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	start timestamptz := clock_timestamp();
	answer text := left(pg_temp.refusal(query), 5);
BEGIN
	RETURN answer || CASE WHEN clock_timestamp() - start < interval '5 s' THEN ' soon' ELSE ' late' END;
END
$$;
SELECT is(pg_temp.timed('SELECT pgqrs_delete_queue(''busy'')'), '55P03 soon',
	'a deletion without force gives up soon if a prepared transaction may have sent to the queue');
BEGIN;
SET LOCAL statement_timeout = '10 s';
SELECT is(pgqrs_delete_queue('busy', true), true, 'a deletion by force waits for no transaction');
ROLLBACK;
SET lock_timeout = '20 ms';
SELECT is(pg_temp.timed('SELECT pgqrs_delete_queue(''busy'')'), '55P03 soon',
	'lock_timeout bounds the wait of a deletion for senders');
SELECT is(current_setting('lock_timeout'), '20ms', 'a deletion leaves lock_timeout as it was');
RESET lock_timeout;
ROLLBACK PREPARED 'pgqrs queue_admin';
SELECT is(pgqrs_delete_queue('busy'), true, 'an empty queue is deleted once its senders have ended');

--
-- Roles
--

BEGIN;
CREATE ROLE sender;
CREATE ROLE administrator;
CREATE ROLE nobody;
SELECT pgqrs_grant('t.*', 'sender', 'trigger'), pgqrs_grant('t.*', 'administrator', 'admin'),
	pgqrs_grant('u.*', 'nobody', 'admin');
SELECT pgqrs_create_queue('t.q'), pgqrs_create_queue('v.q'), pgqrs_enqueue('t.q', '1') \g /dev/null
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
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO sender;
CREATE TEMP TABLE role_calls (call text, missing text);
INSERT INTO role_calls VALUES ('pgqrs_alter_queue(%L, max_attempts => 6)', 'PQ001'), ('pgqrs_pause_queue(%L)',
	'PQ001'), ('pgqrs_resume_queue(%L)', 'PQ001'),
	('pgqrs_purge_queue(%L)', 'PQ001'), ('pgqrs_delete_queue(%L)', 'accepted'), ('pgqrs_delete_queue(%L, true)',
		'accepted'), ('pgqrs_create_queue(%L)', '42501');
SELECT pg_temp.contents() AS before \gset
SELECT is(pg_temp.refusal_for('sender', 'SELECT ' || format(call, 't.q')), '42501',
	'a role with another privilege is refused: ' || call) FROM role_calls;
SELECT is(pg_temp.refusal_for('nobody', 'SELECT ' || format(call, 't.q')), missing,
	'a role without a privilege is told that there is no such queue: ' || call) FROM role_calls;
SELECT is(pg_temp.refusal_for('administrator', 'SELECT ' || format(call, 'v.q')), missing,
	'an administrator of other names is told that there is no such queue: ' || call) FROM role_calls;
SELECT is(pg_temp.refusal_for('administrator', 'SELECT ' || format(call, 'v.new')), missing,
	'an administrator of other names cannot create it: ' || call) FROM role_calls;
SELECT is(pg_temp.contents(), :'before', 'calls refused to roles change nothing');
SELECT is(pg_temp.refusal_for('administrator', 'SELECT ' || format(call, 't.q')), 'accepted',
	'an administrator of the name may call: ' || call) FROM role_calls WHERE call <> 'pgqrs_delete_queue(%L)';
SELECT is(pg_temp.refusal_for('administrator', 'SELECT pgqrs_create_queue(''t.new'')'), 'accepted',
	'an administrator of the pattern may create a queue');
SELECT is(pg_temp.refusal_for('administrator', 'SELECT pgqrs_create_queue(''t'')'), '42501',
	'an administrator of the pattern may not create a queue beside it');
SELECT is(array_agg(name), '{t.new,t.q}', 'the queues of the pattern are there') FROM (SELECT name FROM pgqrs_queues
	WHERE name LIKE 't.%' AND deleted_at IS NULL ORDER BY 1) q;

--
-- A queue that its own command created and failed after is not remembered
--

SELECT throws_ok($$ SELECT pgqrs_create_queue('undone'), (SELECT count(*) FROM pgqrs_peek('undone')),
	1 / (random() * 0)::int $$, '22012', NULL, 'a command that created a queue fails');
SELECT throws_ok($$ SELECT pgqrs_enqueue('undone', '1') $$, 'PQ001', NULL,
	'the queue of a command that failed is not there');

SELECT * FROM finish();
ROLLBACK;
