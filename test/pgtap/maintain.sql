-- pgqrs_maintain(): what it ends and what it leaves alone.  F16.
-- F-numbers: docs/design/known-failures.md.
SELECT * FROM no_plan();
SET client_min_messages = error;

SELECT pgqrs_create_queue('jobs', visibility_timeout => '10 min', max_attempts => 2);
SELECT pgqrs_create_workflow('flow', max_crashes => 2);

-- A pass, without what it found nothing to do of.
CREATE FUNCTION pg_temp.pass() RETURNS text LANGUAGE sql AS
$$ SELECT coalesce(string_agg(key || ' ' || value, ', ' ORDER BY key), 'nothing') FROM jsonb_each(pgqrs_maintain())
	WHERE value <> '0' $$;

SELECT is(pgqrs_maintain(),
	'{"workers_stopped": 0, "leases_reaped": 0, "messages_dead": 0, "runs_cancelled": 0, "runs_timed_out": 0, '
	'"runs_woken": 0, "floors_lowered": 0, "messages_realigned": 0, "grants_removed": 0, "schedules_fired": 0, '
	'"messages_removed": 0, "runs_removed": 0, "firings_removed": 0}',
	'a pass over an empty database finds nothing to do');

-- Expired leases.
SELECT pgqrs_enqueue('jobs', '"live"') AS live, pgqrs_enqueue('jobs', '"expired"') AS expired,
	pgqrs_enqueue('jobs', '"used up"', priority => -100) AS used, pgqrs_enqueue('jobs', '"later"', delay => '1 hour',
		priority => 5) AS later,
	pgqrs_enqueue('jobs', '"waits"', priority => -7) AS waits \gset
UPDATE pgqrs_messages SET failures = 1 WHERE message_id IN (:live, :used, :waits, :later);
SELECT lease AS live_lease FROM pgqrs_dequeue('jobs') \gset
SELECT lease AS expired_lease FROM pgqrs_dequeue('jobs', visibility_timeout => '1 us') \gset
UPDATE pgqrs_messages SET lease = 1, dequeued_at = clock_timestamp() WHERE message_id = :used;
SELECT is(pg_temp.pass(), 'messages_dead 1', 'a pass ends the message whose lease ran out at its last attempt');
SELECT is(ROW(outcome, failures, last_error->>'type')::text, '(DEAD,2,max_attempts)',
	'a message that was claimed too often is a dead letter for max_attempts') FROM pgqrs_archive
	WHERE message_id = :used;
SELECT is(count(*), 4::bigint, 'a pass leaves messages that have attempts left alone') FROM pgqrs_messages;
SELECT is(pg_temp.pass(), 'nothing', 'a second pass finds nothing to do');
SELECT lives_ok(format('SELECT pgqrs_archive_message(%s, %s)', :expired, :expired_lease),
	'the holder of an expired lease may still finish until another claim');
SELECT lives_ok(format('SELECT pgqrs_archive_message(%s, %s)', :live, :live_lease),
	'the holder of a live lease may finish after a pass');
DELETE FROM pgqrs_messages;

SELECT pgqrs_trigger('flow') AS run \gset
SELECT count(*) FROM pgqrs_dequeue('flow', visibility_timeout => '1 us');
SELECT is(pg_temp.pass(), 'nothing', 'a pass leaves a run that crashed once alone');
SELECT count(*) FROM pgqrs_dequeue('flow', visibility_timeout => '1 us');
SELECT is(pg_temp.pass(), 'messages_dead 1', 'a pass ends a run that crashed max_crashes times');
SELECT is(ROW(status, error->>'type')::text, '(ERROR,max_crashes)',
	'a run that crashed too often is in ERROR for max_crashes') FROM pgqrs_result(:run);
SELECT is(outcome::text, 'DEAD', 'the message of a run that crashed too often is a dead letter') FROM pgqrs_archive
	WHERE message_id = :run;

-- More than a pass may end, over several priorities and queues.
SELECT pgqrs_create_queue('other', max_attempts => 1);
SELECT count(pgqrs_enqueue(CASE g % 2 WHEN 0 THEN 'jobs' ELSE 'other' END, '1', priority => g % 3))
	FROM generate_series(1, 2500) g;
UPDATE pgqrs_messages SET failures = 1, lease = 1;
SELECT is(pg_temp.pass(), 'messages_dead 1000', 'a pass ends a thousand messages at most');
SELECT is(pg_temp.pass(), 'messages_dead 1000', 'the next pass goes on with a thousand more');
SELECT is(pg_temp.pass(), 'messages_dead 500', 'a third pass ends the rest');
SELECT is(pg_temp.pass(), 'nothing', 'a fourth pass finds nothing to do');

-- Deadlines.
SELECT pgqrs_trigger('flow', timeout => '1 hour') AS held, pgqrs_trigger('flow', timeout => '1 hour') AS queued,
	pgqrs_trigger('flow', timeout => '1 hour') AS parked, pgqrs_trigger('flow', timeout => '1 hour') AS early \gset
SELECT lease FROM pgqrs_dequeue('flow') \gset
UPDATE pgqrs_messages SET deadline_at = clock_timestamp() WHERE message_id <> :early;
UPDATE pgqrs_messages SET visible_after = clock_timestamp() + '1 hour', waiting_for = 'PAUSE'
	WHERE message_id = :parked;
UPDATE pgqrs_workflow_runs SET status = 'PAUSED' WHERE run_id = :parked;
SELECT is(pg_temp.pass(), 'runs_timed_out 3',
	'a pass ends runs past their deadline, whether running, queued or paused');
SELECT is(ROW(status, error->>'type')::text, '(ERROR,timeout)', 'a run past its deadline is in ERROR for timeout: '
	|| run) FROM unnest(ARRAY[:held, :queued, :parked]::bigint[]) run, pgqrs_result(run);
SELECT is(status, 'QUEUED', 'a pass does not end a run before its deadline') FROM pgqrs_result(:early);
SELECT throws_ok(format('SELECT pgqrs_complete_run(%s, %s)', :held, :lease), 'PQ007', NULL,
	'the holder''s call on a run ended for its deadline is refused with PQ007');
DELETE FROM pgqrs_messages;

-- Cancelled, and the lease has run out.
SELECT pgqrs_trigger('flow') AS gone, pgqrs_trigger('flow') AS live \gset
SELECT count(*) FROM pgqrs_dequeue('flow', batch_size => 2);
SELECT is(pgqrs_cancel_run(run), 'RUNNING', 'cancelling a running run only asks it to stop')
	FROM unnest(ARRAY[:gone, :live]::bigint[]) run;
SELECT is(pg_temp.pass(), 'nothing', 'a pass leaves a run that was asked to stop alone while its lease lasts');
UPDATE pgqrs_messages SET visible_after = clock_timestamp(), exhausted_at = clock_timestamp()
	WHERE message_id = :gone;
SELECT is(pg_temp.pass(), 'runs_cancelled 1',
	'a pass cancels a run that was asked to stop when its lease has run out');
SELECT is(status, 'CANCELLED', 'a run cancelled by a pass is CANCELLED') FROM pgqrs_result(:gone);
SELECT is(outcome::text, 'CANCELLED', 'the message of a run cancelled by a pass is CANCELLED') FROM pgqrs_archive
	WHERE message_id = :gone;
SELECT isnt(status, 'CANCELLED', 'a pass does not cancel a run under a live lease') FROM pgqrs_result(:live);
DELETE FROM pgqrs_messages;

-- What stopped workers left behind.
SELECT pgqrs_register_worker('a', '{*}') AS a, pgqrs_register_worker('b', '{*}') AS b, pgqrs_register_worker('c',
	'{*}') AS c \gset
SELECT pgqrs_enqueue('jobs', '1') AS m1, pgqrs_enqueue('jobs', '2') AS m2, pgqrs_enqueue('jobs', '3') AS m3,
	pgqrs_enqueue('jobs', '4') AS m4 \gset
UPDATE pgqrs_messages SET failures = 1 WHERE message_id = :m2;
SELECT lease AS l1 FROM pgqrs_dequeue('jobs', :a) \gset
SELECT lease AS l2 FROM pgqrs_dequeue('jobs', :a) \gset
SELECT lease AS l3 FROM pgqrs_dequeue('jobs', :b) \gset
SELECT lease AS l4 FROM pgqrs_dequeue('jobs', :c) \gset
SELECT is(pg_temp.pass(), 'nothing', 'a pass takes nothing from workers that are alive');
UPDATE pgqrs_workers SET status = 'STOPPED', stopped_at = clock_timestamp() WHERE worker_id = :a;
DELETE FROM pgqrs_workers WHERE worker_id = :b;
SELECT is(pg_temp.pass(), 'leases_reaped 2, messages_dead 1',
	'a pass ends the leases of a stopped worker and of a deleted one');
SELECT is(ROW(failures, lease, worker_id)::text, '(1,,)',
	'a pass takes the lease from a message and counts a failure: ' || message_id) FROM pgqrs_messages
	WHERE message_id IN (:m1, :m3);
SELECT is(outcome::text, 'DEAD', 'a message whose worker stopped at its last attempt is a dead letter')
	FROM pgqrs_archive WHERE message_id = :m2;
SELECT throws_ok(format('SELECT pgqrs_archive_message(%s, %s)', :m3, :l3), 'PQ006', NULL,
	'a lease that a pass has ended is refused');
SELECT lives_ok(format('SELECT pgqrs_archive_message(%s, %s)', :m4, :l4),
	'a pass leaves the lease of another worker alone');
SELECT results_eq('SELECT message_id FROM pgqrs_dequeue(''jobs'', batch_size => 10) ORDER BY 1',
	ARRAY[:m1, :m3]::bigint[], 'messages of stopped workers are claimed again');

-- A call under a lease of a worker whose row is gone.
SELECT lives_ok(format('SELECT pgqrs_archive_message(message_id, lease) FROM pgqrs_messages WHERE message_id = %s',
	:m1), 'a call under a lease is accepted although the row of its worker is gone');

-- Behind many that only wait, at the same instant.
INSERT INTO pgqrs_messages (message_id, queue_id, visible_after, enqueued_at, attempt, failures, priority, payload)
	SELECT nextval('pgqrs_message_id_seq'), queue_id, '2020-01-01', clock_timestamp(), 0, 0, 0, '1' FROM pgqrs_queues,
		generate_series(1, 45000) WHERE name = 'jobs';
SELECT pgqrs_enqueue('jobs', '1', priority => -1) AS used \gset
UPDATE pgqrs_messages SET failures = 1, lease = 1 WHERE message_id = :used;
SELECT set_eq('SELECT pg_temp.pass() FROM generate_series(1, 6)', ARRAY['nothing', 'messages_dead 1'],
	'a few passes reach an exhausted message behind many due ones');
SELECT is(count(*), 45000::bigint, 'a pass ends none of the due messages') FROM pgqrs_messages
	WHERE visible_after = '2020-01-01';

SELECT * FROM finish();
