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
SELECT is(pg_temp.settings('q'), '(00:00:30,5,,"7 days","30 days",f,f,,,)', 'the defaults');
SELECT ok(created_at BETWEEN now() - interval '1 min' AND clock_timestamp(), 'created_at') FROM pgqrs_queues WHERE name = 'q';
SELECT is(queue_id, :q::bigint, 'the id that was returned') FROM pgqrs_queues WHERE name = 'q';
SELECT pgqrs_create_queue('q2', '1 min', 7, 3, '0', '366000 days') AS q2 \gset
SELECT ok(:q2 > :q, 'another id');
SELECT is(pg_temp.settings('q2'), '(00:01:00,7,3,00:00:00,"366000 days",f,f,,,)', 'everything given, by position');
SELECT is(pgqrs_create_queue(queue => 'q3', visibility_timeout => '366 days', max_attempts => 2147483647, max_in_flight => 2147483647,
	retention => '36 h', dead_retention => '0') > :q2, true, 'by name');
SELECT is(pg_temp.settings('q3'), '("366 days",2147483647,2147483647,"1 day 12:00:00",00:00:00,f,f,,,)', 'a day is 24 hours');
SELECT is(pgqrs_create_queue('q4', visibility_timeout => '0.000001 s', max_attempts => 1, max_in_flight => 1) > :q2, true, 'the least');

SELECT pg_temp.contents() AS before \gset
SELECT is(pgqrs_create_queue('q'), :q::bigint, 'again: the same id');
SELECT is(pgqrs_create_queue('q', '1 h', 9, 9, '1 h', '1 h'), :q::bigint, 'with other settings: the same id');
SELECT is(pgqrs_create_queue('q2'), :q2::bigint, 'and with the defaults');
SELECT is(pg_temp.contents(), :'before', 'and the queue is left as it is');

CREATE FUNCTION pg_temp.twice() RETURNS boolean LANGUAGE sql AS $$ SELECT pgqrs_create_queue('twice') = pgqrs_create_queue('twice') $$;
SELECT ok(pg_temp.twice(), 'twice in one statement');
BEGIN;
SELECT pgqrs_create_queue('gone');
ROLLBACK;
SELECT is(count(*), 0::bigint, 'gone with its transaction') FROM pgqrs_queues WHERE name = 'gone';
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT is(pgqrs_create_queue('rr'), pgqrs_create_queue('rr'), 'twice at REPEATABLE READ');
SELECT is(pgqrs_create_queue('q'), :q::bigint, 'an old one at REPEATABLE READ');
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT is(pgqrs_create_queue('q'), :q::bigint, 'an old one at SERIALIZABLE');
COMMIT;

--
-- Names, of every function that takes one
--

CREATE TEMP TABLE calls (call text);
INSERT INTO calls VALUES ('pgqrs_create_queue(%L)'), ('pgqrs_alter_queue(%L)'), ('pgqrs_delete_queue(%L)'),
	('pgqrs_delete_queue(%L, force => true)'), ('pgqrs_purge_queue(%L)'), ('pgqrs_pause_queue(%L)'), ('pgqrs_resume_queue(%L)');
CREATE TEMP TABLE bad_names AS SELECT unnest(ARRAY[NULL, '', repeat('n', 256), repeat('n', 254) || 'ü', '*', 'a.*', 'a*b',
	E'a\tb', E'a\n', E'\x7f', ' a', 'a ', ' ', 'pgqrs.', 'pgqrs.queue']) AS name;
SELECT is(got, CASE WHEN call ~ 'NULL' THEN '22004' ELSE '22023' END, call)
	FROM pg_temp.refusals_of(VARIADIC ARRAY(SELECT format(call, name) FROM calls, bad_names));
SELECT is(got, 'PQ001', call) FROM pg_temp.refusals_of(VARIADIC ARRAY(SELECT format(call, 'nobody') FROM calls WHERE call !~ 'create|delete'));
SELECT is(pgqrs_delete_queue('nobody'), false, 'nothing to delete');
SELECT is(pgqrs_delete_queue('nobody', true), false, 'nothing to delete by force');

--
-- Bad settings, of create and alter
--

CREATE TEMP TABLE bad_settings AS SELECT unnest(ARRAY[
	'visibility_timeout => ''0''', 'visibility_timeout => ''-1 s''', 'visibility_timeout => ''366 days 0.000001 s''',
	'visibility_timeout => ''1 month''', 'visibility_timeout => ''-1 day 24 h''', 'visibility_timeout => ''2000000000 days''',
	'visibility_timeout => ''213503983 days''', 'retention => ''-213503982 days''',
	'max_attempts => 0', 'max_attempts => -1', 'max_attempts => -2147483648',
	'max_in_flight => 0', 'max_in_flight => -1',
	'retention => ''-1 s''', 'retention => ''1 year''', 'retention => ''366001 days''',
	'dead_retention => ''-0.000001 s''', 'dead_retention => ''1 month -30 days''']) AS setting;
SELECT is(got, '22023', call) FROM pg_temp.refusals_of(VARIADIC ARRAY(SELECT format(call, setting) FROM bad_settings,
	unnest(ARRAY['pgqrs_create_queue(''bad'', %s)', 'pgqrs_create_queue(''q'', %s)', 'pgqrs_alter_queue(''q'', %s)', 'pgqrs_alter_queue(''nobody'', %s)']) AS call));
SELECT is(got, '22004', call) FROM pg_temp.refusals_of('pgqrs_alter_queue(''q'', reset => ''{NULL}'')', 'pgqrs_alter_queue(''q'', reset => ''{max_attempts,NULL}'')');
SELECT is(got, '22023', call) FROM pg_temp.refusals_of(VARIADIC ARRAY(SELECT format('pgqrs_alter_queue(''q'', reset => %L)', reset)
	FROM unnest(ARRAY['{nothing}', '{""}', '{MAX_ATTEMPTS}', '{name}', '{paused_at}', '{max_crashes}', '{{max_attempts},{retention}}']) AS reset));
SELECT is(got, '22023', call) FROM pg_temp.refusals_of(VARIADIC ARRAY(SELECT format('pgqrs_alter_queue(''q'', %1$s => %2$s, reset => ''{%1$s}'')', setting, value)
	FROM (VALUES ('visibility_timeout', '''1 s'''), ('max_attempts', '5'), ('max_in_flight', '1'), ('retention', '''1 s'''), ('dead_retention', '''1 s''')) AS s (setting, value)));

-- What is not supported yet.
SELECT is(got, '0A000', call) FROM pg_temp.refusals_of(VARIADIC ARRAY(SELECT format(call, setting)
	FROM unnest(ARRAY['max_per_key => 1', 'max_per_key => 0', 'ordered => true', 'fair => true', 'rate_limit => 10', 'rate_period => ''2 s''', 'rate_period => ''0''', 'rate_per_key => true']) AS setting,
		unnest(ARRAY['pgqrs_create_queue(''bad'', %s)', 'pgqrs_create_queue(''q'', %s)', 'pgqrs_create_queue(''q'', %s, replace => true)', 'pgqrs_alter_queue(''q'', %s)']) AS call));

--
-- replace
--

SELECT pg_temp.contents() AS before \gset
SELECT is(pgqrs_create_queue('q', replace => true), :q::bigint, 'replaced by what it has: the same id');
SELECT is(pgqrs_create_queue('q2', '1 min', 7, 3, '0', '366000 days', NULL, false, false, NULL, '1 s', false, true), :q2::bigint, 'by position');
SELECT is(pg_temp.contents(), :'before', 'and nothing is written');
SELECT is((SELECT xmin::text FROM pgqrs_queues WHERE name = 'q' AND pgqrs_create_queue('q', replace => true) > 0), (SELECT xmin::text FROM pgqrs_queues WHERE name = 'q'), 'not even the same again');
SELECT is(pgqrs_create_queue('fresh', max_attempts => 2, replace => true) > :q2, true, 'a queue that does not exist is created');
SELECT pgqrs_pause_queue('fresh'), created_at AS fresh_since FROM pgqrs_queues WHERE name = 'fresh' \gset
SELECT is(pgqrs_create_queue('fresh', max_in_flight => 3, retention => '1 h', replace => true), queue_id, 'one that exists keeps its id') FROM pgqrs_queues WHERE name = 'fresh';
SELECT is(pg_temp.settings('fresh'), '(00:00:30,5,3,01:00:00,"30 days",f,t,,,)', 'gets what is passed and the defaults of the rest, and stays paused');
SELECT is(created_at, :'fresh_since', 'as old as it is') FROM pgqrs_queues WHERE name = 'fresh';
SELECT is(pgqrs_create_queue('fresh', replace => false), queue_id, 'without replace it is left as it is') FROM pgqrs_queues WHERE name = 'fresh';
SELECT is(pg_temp.settings('fresh'), '(00:00:30,5,3,01:00:00,"30 days",f,t,,,)', 'so it is');
BEGIN;
SELECT pgqrs_create_queue('fresh', replace => true) \g /dev/null
SELECT is(pg_temp.settings('fresh'), '(00:00:30,5,,"7 days","30 days",f,t,,,)', 'all defaults');
ROLLBACK;
SELECT is(pg_temp.settings('fresh'), '(00:00:30,5,3,01:00:00,"30 days",f,t,,,)', 'not if it is rolled back');
SELECT pgqrs_delete_queue('fresh') \g /dev/null
SELECT pgqrs_create_workflow('a flow') \g /dev/null
SELECT is(left(pg_temp.refusal('SELECT pgqrs_create_queue(''a flow'', max_attempts => 9, replace => true)'), 5), 'PQ016', 'a workflow''s queue is not replaced');
SELECT pgqrs_delete_workflow('a flow') \g /dev/null

--
-- alter
--

SELECT pg_temp.contents() AS before \gset
SELECT pgqrs_alter_queue('q2');
SELECT is(pg_temp.contents(), :'before', 'nothing given: nothing changes');
SELECT pgqrs_alter_queue('q2', visibility_timeout => '2 min');
SELECT is(pg_temp.settings('q2'), '(00:02:00,7,3,00:00:00,"366000 days",f,f,,,)', 'visibility_timeout');
SELECT pgqrs_alter_queue('q2', max_attempts => 8, max_in_flight => 4);
SELECT is(pg_temp.settings('q2'), '(00:02:00,8,4,00:00:00,"366000 days",f,f,,,)', 'numbers');
SELECT pgqrs_alter_queue('q2', retention => '1 day', dead_retention => '0', reset => '{max_in_flight,max_in_flight}');
SELECT is(pg_temp.settings('q2'), '(00:02:00,8,,"1 day",00:00:00,f,f,,,)', 'set and reset together');
SELECT pgqrs_alter_queue('q2', max_per_key => NULL, ordered => false, fair => false, rate_limit => NULL, rate_period => '1000 ms', rate_per_key => false);
SELECT is(pg_temp.settings('q2'), '(00:02:00,8,,"1 day",00:00:00,f,f,,,)', 'the defaults of what is not supported yet');
SELECT pgqrs_alter_queue('q2', reset => '{visibility_timeout,max_attempts,max_in_flight,retention,dead_retention,max_per_key,ordered,fair,rate_limit,rate_period,rate_per_key}');
SELECT is(pg_temp.settings('q2'), pg_temp.settings('q'), 'reset is what create takes for default');
SELECT is(concat((SELECT to_jsonb(q) FROM pgqrs_queues q WHERE name = 'q2')),
	concat((SELECT to_jsonb(q) || jsonb_build_object('queue_id', q2.queue_id, 'name', q2.name, 'created_at', q2.created_at)
		FROM pgqrs_queues q, pgqrs_queues q2 WHERE q.name = 'q' AND q2.name = 'q2')), 'in every column');
SELECT is((SELECT max_attempts FROM pgqrs_queues WHERE name = 'q3'), 2147483647, 'other queues stay');

-- What is altered counts for the very next call, also of one statement.
CREATE FUNCTION pg_temp.lease_length(queue text) RETURNS numeric LANGUAGE sql AS
$$ SELECT round(extract(epoch FROM visible_after - clock_timestamp()) / 10) * 10 FROM pgqrs_dequeue(queue) $$;
SELECT pgqrs_create_queue('now'), pgqrs_enqueue('now', '1'), pgqrs_enqueue('now', '2');
SELECT is(pg_temp.lease_length('now'), 30::numeric, 'created with 30 s');
SELECT is(concat(pgqrs_alter_queue('now', visibility_timeout => '1 h'), pg_temp.lease_length('now')), '3600', 'altered and used at once');
SELECT is(pg_temp.refusal('SELECT pgqrs_delete_queue(''now'', true), pgqrs_enqueue(''now'', ''1'')'), 'PQ001 after a write', 'deleted and used at once');

--
-- pause and resume
--

SELECT pgqrs_pause_queue('q');
SELECT ok(paused_at BETWEEN now() - interval '1 min' AND clock_timestamp(), 'paused') FROM pgqrs_queues WHERE name = 'q';
SELECT pg_temp.contents() AS before \gset
SELECT pgqrs_pause_queue('q');
SELECT is(pg_temp.contents(), :'before', 'since the first call');
SELECT pgqrs_resume_queue('q');
SELECT is(paused_at, NULL, 'resumed') FROM pgqrs_queues WHERE name = 'q';
SELECT pg_temp.contents() AS before \gset
SELECT pgqrs_resume_queue('q');
SELECT is(pg_temp.contents(), :'before', 'resumed again');
SELECT pgqrs_enqueue('q', '"held"'), pgqrs_enqueue('q', '"waits"') \g /dev/null
SELECT message_id AS held, lease FROM pgqrs_dequeue('q') \gset
SELECT pgqrs_pause_queue('q');
SELECT is(count(*), 0::bigint, 'delivers nothing') FROM pgqrs_dequeue('q');
SELECT is(count(*), 0::bigint, 'nor to a pattern') FROM pgqrs_dequeue('*', batch_size => 100) WHERE queue = 'q';
SELECT is(extended, true, 'a lease can be extended') FROM pgqrs_extend_lease(:held, :lease);
SELECT pgqrs_archive_message(:held, :lease);
SELECT is(count(*), 1::bigint, 'what is held can be finished') FROM pgqrs_archive WHERE message_id = :held;
SELECT pgqrs_resume_queue('q');
SELECT is(payload, '"waits"', 'and the rest comes after resume') FROM pgqrs_dequeue('q');
SELECT pgqrs_delete_queue('q', true);

--
-- purge: plain messages
--

SELECT pgqrs_create_queue('p', visibility_timeout => '1 h') AS p, pgqrs_create_queue('other') AS other \gset
SELECT pgqrs_enqueue('other', '1'), pgqrs_enqueue('p', '"held"', priority => 1), pgqrs_enqueue('p', '"expired"', priority => 1),
	pgqrs_enqueue('p', '"waits"', idempotency_key => 'k'), pgqrs_enqueue('p', '"later"', delay => '1 day', priority => -100) \g /dev/null
SELECT message_id AS held, lease FROM pgqrs_dequeue('p') \gset
SELECT message_id AS expired, lease AS expired_lease FROM pgqrs_dequeue('p', visibility_timeout => '1 us') \gset
SELECT is(pgqrs_purge_queue('p'), 3::bigint, 'waiting, delayed and expired ones');
SELECT is(array_agg(payload), ARRAY['"held"']::jsonb[], 'a live lease stays') FROM pgqrs_messages WHERE queue_id = :p;
SELECT is(count(*), 0::bigint, 'no copy in the archive') FROM pgqrs_archive WHERE queue_id = :p;
SELECT is(count(*), 1::bigint, 'other queues stay') FROM pgqrs_messages WHERE queue_id = :other;
SELECT is(pg_temp.refusal(format('SELECT pgqrs_archive_message(%s, %s)', :expired, :expired_lease)), 'PQ006', 'a lease that had run out is lost');
SELECT isnt(pgqrs_enqueue('p', '2', idempotency_key => 'k'), NULL, 'the key is free again');
SELECT is(pgqrs_purge_queue('p'), 1::bigint, 'that one');
SELECT is(pgqrs_purge_queue('p'), 0::bigint, 'nothing left that waits');
SELECT pgqrs_archive_message(:held, :lease);
SELECT count(pgqrs_enqueue('p', '1')) FROM generate_series(1, 2500);
BEGIN;
SELECT is(pgqrs_purge_queue('p'), 2500::bigint, 'many');
SELECT is(count(*), 0::bigint, 'all of them') FROM pgqrs_messages WHERE queue_id = :p;
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) FROM pgqrs_queues;
SELECT is(pgqrs_purge_queue('p'), 2500::bigint, 'at SERIALIZABLE');
COMMIT;
BEGIN;
SELECT pgqrs_enqueue('p', '1') \g /dev/null
SELECT is(pgqrs_purge_queue('p'), 1::bigint, 'what the same transaction sent');
COMMIT;

--
-- purge: runs
--

SELECT pgqrs_create_workflow('w', visibility_timeout => '1 h', key_scope => 'active') AS w \gset
SELECT pgqrs_trigger('w', '1', priority => 1) AS held, pgqrs_trigger('w', '2', priority => 1) AS expired,
	pgqrs_trigger('w', '3', idempotency_key => 'k', timeout => '1 h') AS queued, pgqrs_trigger('w', '4', priority => 1) AS retries,
	pgqrs_trigger('w', '5', delay => '1 day') AS later \gset
SELECT lease FROM pgqrs_dequeue('w') \gset
SELECT message_id = :expired AS claimed, lease AS expired_lease FROM pgqrs_dequeue('w', visibility_timeout => '1 us') \gset
SELECT message_id = :retries AS claimed, lease AS retry_lease FROM pgqrs_dequeue('w') \gset
SELECT pgqrs_fail_run(:retries, :retry_lease, '{"type": "x"}', retryable => true, retry_after => '1 h') \g /dev/null
SELECT is(pgqrs_purge_queue('w'), 4::bigint, 'runs that nobody works on');
SELECT is(jsonb_object_agg(input #>> '{}', status), '{"1": "RUNNING", "2": "CANCELLED", "3": "CANCELLED", "4": "CANCELLED", "5": "CANCELLED"}',
	'are cancelled, but not one under a live lease') FROM pgqrs_workflow_runs WHERE workflow_id = :w;
SELECT is(count(completed_at), 4::bigint, 'completed_at') FROM pgqrs_workflow_runs WHERE workflow_id = :w;
SELECT is(array_agg(message_id), ARRAY[:held]::bigint[], 'the messages are gone') FROM pgqrs_messages WHERE queue_id = :w;
SELECT is(array_agg(message_id || ' ' || outcome ORDER BY message_id), ARRAY[:expired || ' CANCELLED', :queued || ' CANCELLED', :retries || ' CANCELLED', :later || ' CANCELLED'],
	'to the archive') FROM pgqrs_archive WHERE queue_id = :w;
SELECT is(pg_temp.refusal(format('SELECT pgqrs_complete_run(%s, %s)', :expired, :expired_lease)), 'PQ010', 'a holder whose lease had run out has to stop');
SELECT isnt(pgqrs_trigger('w', idempotency_key => 'k'), :queued::bigint, 'the key is free again');
SELECT is(pgqrs_purge_queue('w'), 1::bigint, 'that one');
SELECT is(pgqrs_purge_queue('w'), 0::bigint, 'nothing left that waits');
SELECT pgqrs_complete_run(:held, :lease);
SELECT count(*) FROM unnest(pgqrs_trigger_batch('w', array_fill('1'::jsonb, ARRAY[2500])));
SELECT is(pgqrs_purge_queue('w'), 2500::bigint, 'many');
SELECT is(count(*), 0::bigint, 'none live') FROM pgqrs_messages WHERE queue_id = :w;
SELECT is(count(*), 2505::bigint, 'all cancelled') FROM pgqrs_workflow_runs WHERE workflow_id = :w AND status = 'CANCELLED';

-- a child first, whose end wakes the parent
SELECT pgqrs_trigger('w') AS parent \gset
SELECT lease FROM pgqrs_dequeue('w') \gset
SELECT pgqrs_start_child(:parent, :lease, 'c', 'w', priority => 1) AS child \gset
SELECT pgqrs_await_child(:parent, :lease, 'c');
SELECT is(pgqrs_purge_queue('w'), 2::bigint, 'a child and the parent that waits for it');
SELECT is(array_agg(status::text), '{CANCELLED,CANCELLED}', 'both cancelled') FROM pgqrs_workflow_runs WHERE run_id IN (:parent, :child);

--
-- A workflow's queue, altered and deleted as a queue
--

SELECT pgqrs_alter_queue('w', max_in_flight => 5, retention => '1 h', dead_retention => '2 h');
SELECT is(pg_temp.settings('w'), '(01:00:00,5,5,01:00:00,02:00:00,t,f,,,)', 'what the workflow has no setting for');
SELECT pg_temp.contents() AS before \gset
SELECT is(pg_temp.refusal(format('SELECT pgqrs_alter_queue(''w'', %s)', a)), 'PQ016 after a write', a)
	FROM unnest(ARRAY['visibility_timeout => ''1 s''', 'max_attempts => 9', 'reset => ''{max_attempts}''', 'reset => ''{retention,visibility_timeout}''']) AS a;
SELECT is(left(pg_temp.refusal('SELECT pgqrs_create_queue(''w'')'), 5), 'PQ016', 'create_queue on a workflow''s name');
SELECT is(left(pg_temp.refusal('SELECT pgqrs_delete_queue(''w'')'), 5), 'PQ016', 'delete_queue of a workflow''s queue');
SELECT is(pg_temp.contents(), :'before', 'nothing changed');

SELECT pgqrs_create_workflow('w3') AS w3 \gset
SELECT pgqrs_trigger('w3') AS live, pgqrs_trigger('w3') AS done \gset
SELECT run_id AS held, lease FROM pgqrs_dequeue('w3') \gset
SELECT should_execute FROM pgqrs_step_begin(:held, :lease, 's');
SELECT pgqrs_step_complete(:held, :lease, 's');
SELECT is(pgqrs_delete_queue('w', force => true), true, 'by force');
SELECT pg_temp.empty_deleted();
SELECT is((SELECT count(*) FROM pgqrs_queues WHERE queue_id = :w) + (SELECT count(*) FROM pgqrs_workflows WHERE workflow_id = :w)
	+ (SELECT count(*) FROM pgqrs_workflow_runs WHERE workflow_id = :w) + (SELECT count(*) FROM pgqrs_archive WHERE queue_id = :w)
	+ (SELECT count(*) FROM pgqrs_messages WHERE queue_id = :w), 0::bigint, 'everything of it is gone');
SELECT is((SELECT count(*) FROM pgqrs_workflow_runs) + (SELECT count(*) FROM pgqrs_workflow_steps), 3::bigint, 'and nothing else');
SELECT is(pgqrs_delete_queue('w', force => true), false, 'there is none any more');

--
-- delete: plain queues
--

SELECT pgqrs_create_queue('d') AS d \gset
SELECT is(pgqrs_delete_queue('d'), true, 'an empty one');
SELECT is(pgqrs_delete_queue('d'), false, 'again');
SELECT pgqrs_create_queue('d') AS d2 \gset
SELECT isnt(:d::bigint, :d2::bigint, 'created anew');

CREATE TEMP TABLE uses (what text, make text, undo text);
INSERT INTO uses VALUES
	('a message', 'SELECT pgqrs_enqueue(''d'', ''1'')', 'SELECT pgqrs_purge_queue(''d'')'),
	('a delayed message', 'SELECT pgqrs_enqueue(''d'', ''1'', delay => ''1 day'', priority => -100)', 'SELECT pgqrs_purge_queue(''d'')'),
	('a held message', 'SELECT pgqrs_enqueue(''d'', ''1''), (SELECT lease FROM pgqrs_dequeue(''d''))', 'DELETE FROM pgqrs_messages WHERE queue_id = (SELECT queue_id FROM pgqrs_queues WHERE name = ''d'')'),
	('an archived message', 'SELECT pgqrs_enqueue(''d'', ''1''); SELECT pgqrs_archive_message(message_id, lease) FROM pgqrs_dequeue(''d'')', 'DELETE FROM pgqrs_archive WHERE outcome = ''DONE''');

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
SELECT alike(pg_temp.delete_used(make, undo), 'PQ009 true%', what) FROM uses;

SELECT pgqrs_enqueue('d', '1', idempotency_key => 'k'), pgqrs_enqueue('d', '2') \g /dev/null
SELECT message_id AS done, lease AS done_lease FROM pgqrs_dequeue('d') \gset
SELECT pgqrs_archive_message(:done, :done_lease);
SELECT message_id AS held, lease FROM pgqrs_dequeue('d') \gset
SELECT pgqrs_enqueue('d', '3') \g /dev/null
SELECT pg_temp.contents() AS before \gset
BEGIN;
SELECT is(pgqrs_delete_queue('d', force => true), true, 'by force');
ROLLBACK;
SELECT is(pg_temp.contents(), :'before', 'not if it is rolled back');
SELECT is(count(*), 1::bigint, 'and it can be used') FROM pgqrs_dequeue('d');
SELECT is(pgqrs_delete_queue('d', force => true), true, 'by force');
SELECT pg_temp.empty_deleted();
SELECT is((SELECT count(*) FROM pgqrs_queues WHERE name = 'd') + (SELECT count(*) FROM pgqrs_archive WHERE message_id = :done)
	+ (SELECT count(*) FROM pgqrs_messages WHERE message_id = :held), 0::bigint, 'everything of it is gone');
SELECT is((SELECT count(*) FROM pgqrs_messages LEFT JOIN pgqrs_queues USING (queue_id) WHERE name IS NULL)
	+ (SELECT count(*) FROM pgqrs_archive LEFT JOIN pgqrs_queues USING (queue_id) WHERE name IS NULL), 0::bigint, 'no message without a queue');
SELECT is((SELECT count(*) FROM pgqrs_messages WHERE queue_id = :other), 1::bigint, 'other queues stay');
SELECT is(pg_temp.refusal(format('SELECT pgqrs_archive_message(%s, %s)', :held, :lease)), 'PQ006', 'the holder has lost its lease');
SELECT is(pg_temp.refusal('SELECT pgqrs_enqueue(''d'', ''1'')'), 'PQ001', 'nothing can be sent there');
SELECT pgqrs_create_queue('d');
SELECT is(count(*), 0::bigint, 'a new queue of the name is empty') FROM pgqrs_peek('d');
BEGIN;
SELECT pgqrs_create_queue('brief'), pgqrs_enqueue('brief', '1') \g /dev/null
SELECT is(pgqrs_delete_queue('brief', true), true, 'created, used and deleted in one transaction');
SELECT is(pgqrs_create_queue('brief') > 0, true, 'and created again');
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) FROM pgqrs_messages;
SELECT pgqrs_enqueue('brief', '1') \g /dev/null
SELECT is(pgqrs_delete_queue('brief', true), true, 'at SERIALIZABLE');
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
SELECT is(pg_temp.interrupted(), 'before after', 'cancelled while it waits');
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
SELECT is(pg_temp.timed('SELECT pgqrs_delete_queue(''busy'')'), '55P03 soon', 'a prepared transaction may have sent to the queue');
BEGIN;
SET LOCAL statement_timeout = '10 s';
SELECT is(pgqrs_delete_queue('busy', true), true, 'with force no transaction is waited for');
ROLLBACK;
SET lock_timeout = '20 ms';
SELECT is(pg_temp.timed('SELECT pgqrs_delete_queue(''busy'')'), '55P03 soon', 'lock_timeout bounds the wait for senders');
SELECT is(current_setting('lock_timeout'), '20ms', 'which stays');
RESET lock_timeout;
ROLLBACK PREPARED 'pgqrs queue_admin';
SELECT is(pgqrs_delete_queue('busy'), true, 'when the senders have ended, the empty queue is deleted');

--
-- Roles
--

BEGIN;
CREATE ROLE sender;
CREATE ROLE administrator;
CREATE ROLE nobody;
SELECT pgqrs_grant('t.*', 'sender', 'trigger'), pgqrs_grant('t.*', 'administrator', 'admin'), pgqrs_grant('u.*', 'nobody', 'admin');
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
INSERT INTO role_calls VALUES ('pgqrs_alter_queue(%L, max_attempts => 6)', 'PQ001'), ('pgqrs_pause_queue(%L)', 'PQ001'), ('pgqrs_resume_queue(%L)', 'PQ001'),
	('pgqrs_purge_queue(%L)', 'PQ001'), ('pgqrs_delete_queue(%L)', 'accepted'), ('pgqrs_delete_queue(%L, true)', 'accepted'), ('pgqrs_create_queue(%L)', '42501');
SELECT pg_temp.contents() AS before \gset
SELECT is(pg_temp.refusal_for('sender', 'SELECT ' || format(call, 't.q')), '42501', 'only to be seen: ' || call) FROM role_calls;
SELECT is(pg_temp.refusal_for('nobody', 'SELECT ' || format(call, 't.q')), missing, 'not even that: ' || call) FROM role_calls;
SELECT is(pg_temp.refusal_for('administrator', 'SELECT ' || format(call, 'v.q')), missing, 'another name: ' || call) FROM role_calls;
SELECT is(pg_temp.refusal_for('administrator', 'SELECT ' || format(call, 'v.new')), missing, 'a new one of another name: ' || call) FROM role_calls;
SELECT is(pg_temp.contents(), :'before', 'nothing changed');
SELECT is(pg_temp.refusal_for('administrator', 'SELECT ' || format(call, 't.q')), 'accepted', 'an administrator: ' || call) FROM role_calls WHERE call <> 'pgqrs_delete_queue(%L)';
SELECT is(pg_temp.refusal_for('administrator', 'SELECT pgqrs_create_queue(''t.new'')'), 'accepted', 'and a new queue');
SELECT is(pg_temp.refusal_for('administrator', 'SELECT pgqrs_create_queue(''t'')'), '42501', 'but not one beside the pattern');
SELECT is(array_agg(name), '{t.new,t.q}', 'are there') FROM (SELECT name FROM pgqrs_queues WHERE name LIKE 't.%' ORDER BY 1) q;

--
-- A queue that its own command created and failed after is not remembered
--

SELECT throws_ok($$ SELECT pgqrs_create_queue('undone'), (SELECT count(*) FROM pgqrs_peek('undone')), 1 / (random() * 0)::int $$, '22012', NULL, 'a command fails');
SELECT throws_ok($$ SELECT pgqrs_enqueue('undone', '1') $$, 'PQ001', NULL, 'its queue is not there');

SELECT * FROM finish();
ROLLBACK;
