-- Workers.  F16: identity reuse.
-- F-numbers: docs/design/known-failures.md.
SELECT * FROM no_plan();
SET client_min_messages = error;

SELECT pgqrs_create_queue('jobs', visibility_timeout => '10 min', max_attempts => 3);
SELECT pgqrs_create_queue('team.a');
SELECT pgqrs_create_queue('team.b');
SELECT pgqrs_create_workflow('flow', max_crashes => 2);

-- A worker registered for this one test, never called before.
CREATE FUNCTION pg_temp.fresh(patterns text[] = '{*}') RETURNS bigint LANGUAGE sql
AS $$ SELECT pgqrs_register_worker('fresh ' || random()::text, patterns) $$;

-- Moves a worker's last sign of life into the past.
CREATE FUNCTION pg_temp.age(id bigint, by interval) RETURNS bigint LANGUAGE sql
AS $$ UPDATE pgqrs_workers SET heartbeat_at = heartbeat_at - by WHERE worker_id = id RETURNING worker_id $$;

CREATE FUNCTION pg_temp.silence(id bigint) RETURNS interval LANGUAGE sql
AS $$ SELECT clock_timestamp() - heartbeat_at FROM pgqrs_workers WHERE worker_id = id $$;

CREATE FUNCTION pg_temp.status(id bigint) RETURNS text LANGUAGE sql
AS $$ SELECT status::text FROM pgqrs_workers WHERE worker_id = id $$;

-- Arguments.
SELECT throws_ok($$ SELECT pgqrs_register_worker(NULL, '{jobs}') $$, '22004', NULL,
	'a worker without a name is refused');
SELECT throws_ok($$ SELECT pgqrs_register_worker('', '{jobs}') $$, '22023', NULL,
	'a worker with an empty name is refused');
SELECT throws_ok($$ SELECT pgqrs_register_worker(repeat('x', 256), '{jobs}') $$, '22023', NULL,
	'a worker with a name of 256 bytes is refused');
SELECT throws_ok($$ SELECT pgqrs_register_worker(E'a\tb', '{jobs}') $$, '22023', NULL,
	'a worker with a control character in its name is refused');
SELECT throws_ok($$ SELECT pgqrs_register_worker('w', NULL) $$, '22004', NULL, 'a worker without queues is refused');
SELECT throws_ok($$ SELECT pgqrs_register_worker('w', '{}') $$, '22023', NULL,
	'a worker with an empty array of queues is refused');
SELECT throws_ok($$ SELECT pgqrs_register_worker('w', ARRAY['jobs', NULL]) $$, '22004', NULL,
	'a worker with a NULL among its queues is refused');
SELECT throws_ok($$ SELECT pgqrs_register_worker('w', '{{jobs},{team.a}}') $$, '22023', NULL,
	'a worker with a two-dimensional array of queues is refused');
SELECT throws_ok($$ SELECT pgqrs_register_worker('w', '{jobs,*,jobs}') $$, '22023',
	'item 3 of "queues" repeats item 1: "jobs"', 'a worker with a repeated queue is refused, naming both items');
SELECT throws_ok($$ SELECT pgqrs_register_worker('w', '{jobs,a*b}') $$, '22023',
	'invalid value for argument "queues[2]": "a*b"',
		'a worker with a queue that is no pattern is refused, naming the item');
SELECT throws_ok($$ SELECT pgqrs_register_worker('w', ARRAY(SELECT 'q' || g FROM generate_series(1, 10001) g)) $$,
	'22023', NULL, 'a worker with more than 10,000 queues is refused');
SELECT throws_ok($$ SELECT pgqrs_register_worker('w', '{jobs}', port => 0) $$, '22023', NULL,
	'a worker with port 0 is refused');
SELECT throws_ok($$ SELECT pgqrs_register_worker('w', '{jobs}', port => 65536) $$, '22023', NULL,
	'a worker with port 65536 is refused');
SELECT throws_ok($$ SELECT pgqrs_register_worker('w', '{jobs}', max_concurrent => 0) $$, '22023', NULL,
	'a worker with max_concurrent 0 is refused');
SELECT throws_ok($$ SELECT pgqrs_register_worker('w', '{jobs}', hostname => repeat('x', 256)) $$, '22023', NULL,
	'a worker with a hostname of 256 bytes is refused');
SELECT throws_ok($$ SELECT pgqrs_register_worker('w', '{jobs}', version => repeat('x', 256)) $$, '22023', NULL,
	'a worker with a version of 256 bytes is refused');
SELECT throws_ok($$ SELECT pgqrs_register_worker('w', '{jobs}', labels => to_jsonb(repeat('x', 3000000))) $$,
	'PQ008', NULL, 'a worker with labels that are too large is refused');
SELECT is(count(*), 0::bigint, 'refused registrations write nothing') FROM pgqrs_workers;

SELECT throws_ok(format('SELECT %s', call), '22004', NULL, 'a NULL worker is refused: ' || call)
FROM unnest('{pgqrs_heartbeat(NULL),pgqrs_extend_worker(NULL),pgqrs_suspend_worker(NULL),pgqrs_resume_worker(NULL),'
	'pgqrs_stop_worker(NULL)}'::text[]) call;
SELECT throws_ok(format('SELECT %s', call), 'PQ005', NULL, 'an unknown worker is refused: ' || call)
FROM unnest('{pgqrs_heartbeat(0),pgqrs_heartbeat(-1),pgqrs_extend_worker(99),pgqrs_suspend_worker(99),'
	'pgqrs_resume_worker(99),pgqrs_stop_worker(99),"pgqrs_dequeue(''jobs'', 99)"}'::text[]) call;

-- Registering.
SELECT pgqrs_register_worker('full', '{team.*,jobs}', 'host', 8080, 'v1.2', 4, '{"zone": "a"}') AS full_id \gset
SELECT is(ROW(name, owner, queues, hostname, port, version, max_concurrent, labels, status, stopped_at)::text,
	'(full,' || current_user || ',"{team.*,jobs}",host,8080,v1.2,4,"{""zone"": ""a""}",READY,)',
		'registering stores every argument, owner and status READY')
FROM pgqrs_workers WHERE worker_id = :full_id;
SELECT cmp_ok(pgqrs_register_worker('plain', '{jobs}'), '>', :full_id::bigint, 'worker ids ascend');
SELECT is(ROW(hostname, port, version, max_concurrent, labels)::text, '(,,,,)',
	'registering stores NULL for what is not given')
FROM pgqrs_workers WHERE name = 'plain';
SELECT lives_ok($$ SELECT pgqrs_register_worker(repeat('x', 255), '{jobs}', repeat('h', 255), 65535, repeat('v', 255),
	2147483647, '[]') $$,
	'registering accepts values at their limits');

-- Signs of life.
SELECT is(pgqrs_heartbeat(:full_id), 'READY', 'a heartbeat returns the status of the worker');
SELECT pg_temp.age(pg_temp.fresh(), '1 s') AS id \gset
SELECT pgqrs_heartbeat(:id);
SELECT cmp_ok(pg_temp.silence(:id), '>', '1 s'::interval, 'a heartbeat within heartbeat_flush is not written');
SELECT pg_temp.age(pg_temp.fresh(), '1 hour') AS id \gset
SELECT pgqrs_heartbeat(:id);
SELECT cmp_ok(pg_temp.silence(:id), '<', '50 min'::interval, 'a heartbeat after heartbeat_flush is written');
SELECT pg_temp.age(pg_temp.fresh(), '-1 hour') AS id \gset
SELECT pgqrs_heartbeat(:id);
SELECT cmp_ok(pg_temp.silence(:id), '>', '-1 min'::interval, 'a heartbeat after the clock was set back is written');
SELECT pg_temp.age(pg_temp.fresh(), '11 s') AS id \gset
BEGIN;
SELECT pgqrs_heartbeat(:id);
SELECT cmp_ok(pg_temp.silence(:id), '>', '10 s'::interval,
	'in a transaction block a heartbeat is not written before a third of worker_timeout');
COMMIT;
SELECT pg_temp.age(pg_temp.fresh(), '1 hour') AS id \gset
BEGIN;
SELECT pgqrs_heartbeat(:id);
SELECT cmp_ok(pg_temp.silence(:id), '<', '50 min'::interval,
	'in a transaction block a heartbeat is written after a third of worker_timeout');
ROLLBACK;
SELECT cmp_ok(pg_temp.silence(:id), '>', '59 min'::interval, 'a rollback undoes a written heartbeat');
SELECT pgqrs_heartbeat(:id);
SELECT cmp_ok(pg_temp.silence(:id), '>', '59 min'::interval,
	'a heartbeat that was undone counts as written for heartbeat_flush');

-- A call is a call, whatever becomes of its transaction.
SELECT pg_temp.age(pg_temp.fresh(), '1 day') AS rolled_back, pg_temp.age(pg_temp.fresh(), '1 day') AS savepoint,
	pg_temp.age(pg_temp.fresh(), '1 day') AS failed \gset
BEGIN;
SELECT pgqrs_heartbeat(:rolled_back);
ROLLBACK;
BEGIN;
SAVEPOINT s;
SELECT pgqrs_heartbeat(:savepoint);
ROLLBACK TO s;
COMMIT;
SELECT throws_ok(format('SELECT 1 / (length(pgqrs_heartbeat(%s)) - 5)', :failed), '22012', NULL,
	'a statement with a heartbeat fails');
SELECT cmp_ok(pg_temp.silence(id), '>', '23 h'::interval, 'the row does not have a heartbeat that was rolled back')
FROM unnest(ARRAY[:rolled_back, :savepoint, :failed]::bigint[]) id;
SELECT is((pgqrs_maintain()->'workers_stopped')::text, '0', 'a pass stops no worker whose heartbeat was rolled back');
SELECT is(pg_temp.status(id), 'READY', 'a worker whose heartbeat was rolled back stays READY')
	FROM unnest(ARRAY[:rolled_back, :savepoint, :failed]::bigint[]) id;
UPDATE pgqrs_workers SET status = 'STOPPED', stopped_at = clock_timestamp() WHERE worker_id NOT IN (:rolled_back,
	:savepoint, :failed);
SELECT lives_ok($$ SELECT pgqrs_trigger('flow', require_worker => true) $$,
	'a worker whose heartbeat was rolled back counts as serving');
UPDATE pgqrs_workers SET status = 'READY', stopped_at = NULL WHERE worker_id NOT IN (:rolled_back, :savepoint,
	:failed);
SELECT pgqrs_purge_queue('flow');

-- Each call that names a worker counts.
CREATE FUNCTION pg_temp.counts(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE id bigint := pg_temp.age(pg_temp.fresh(), '1 hour');
BEGIN
	EXECUTE format(call, id);
	RETURN ok(pg_temp.silence(id) < '50 min', call || ' is a sign of life');
END $$;
SELECT pg_temp.counts(call)
FROM unnest(ARRAY['SELECT pgqrs_heartbeat(%s)', 'SELECT * FROM pgqrs_extend_worker(%s)',
	'SELECT * FROM pgqrs_dequeue(''jobs'', %s)', 'SELECT * FROM pgqrs_dequeue(NULL, %s)']) call;
SELECT pg_temp.age(pg_temp.fresh(), '1 hour') AS id \gset
SELECT pgqrs_suspend_worker(:id), pgqrs_resume_worker(:id) \g /dev/null
SELECT ok(pg_temp.silence(:id) > '50 min', 'suspending and resuming, by an operator, are no sign of life');

-- And each call under a lease.
CREATE FUNCTION pg_temp.counts_under_lease(queue text, call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	id bigint := pg_temp.age(pg_temp.fresh(), '1 hour');
	m record;
BEGIN
	IF queue = 'flow' THEN
		PERFORM pgqrs_trigger(queue);
	ELSE
		PERFORM pgqrs_enqueue(queue, '1');
	END IF;
	SELECT message_id, lease INTO m FROM pgqrs_dequeue(queue);
	UPDATE pgqrs_messages SET worker_id = id WHERE message_id = m.message_id;
	EXECUTE format(call, m.message_id, m.lease);
	DELETE FROM pgqrs_messages WHERE message_id = m.message_id;
	RETURN ok(pg_temp.silence(id) < '50 min', call || ' is a sign of life');
END $$;
SELECT pg_temp.counts_under_lease('jobs', call)
FROM unnest(ARRAY['SELECT pgqrs_archive_message(%s, %s)', 'SELECT pgqrs_archive_messages(''{%s}'', ''{%s}'')',
	'SELECT pgqrs_delete_message(%s, %s)', 'SELECT pgqrs_release_message(%s, %s)',
		'SELECT pgqrs_nack_message(%s, %s)',
	'SELECT pgqrs_extend_lease(%s, %s)', 'SELECT pgqrs_extend_leases(''{%s}'', ''{%s}'')']) call;
SELECT pg_temp.counts_under_lease('flow', call)
FROM unnest(ARRAY['SELECT pgqrs_step_begin(%s, %s, ''s'')', 'SELECT pgqrs_step_complete(%s, %s, ''s'')',
	'SELECT pgqrs_step_fail(%s, %s, ''s'', ''{}'')', 'SELECT pgqrs_complete_run(%s, %s)',
		'SELECT pgqrs_fail_run(%s, %s, ''{}'')',
	'SELECT pgqrs_set_progress(%s, %s, ''1'')', 'SELECT pgqrs_extend_lease(%s, %s)']) call;

-- Superseding, F16: the same name registered again inside a lease.
SELECT pgqrs_purge_queue('jobs'), pgqrs_purge_queue('flow');
SELECT pgqrs_enqueue('jobs', '1') AS m1, pgqrs_enqueue('jobs', '2') AS m2, pgqrs_trigger('flow') AS r1 \gset
UPDATE pgqrs_messages SET failures = 2 WHERE message_id = :m2;
SELECT pgqrs_register_worker('again', '{jobs,flow}') AS old_id \gset
SELECT lease AS l1 FROM pgqrs_dequeue('jobs', :old_id) \gset
SELECT lease AS l2 FROM pgqrs_dequeue('jobs', :old_id) \gset
SELECT lease AS l3 FROM pgqrs_dequeue('flow', :old_id) \gset
SELECT pgqrs_register_worker('again', '{jobs,flow}') AS new_id \gset
SELECT is(pg_temp.status(:old_id), 'STOPPED', 'registering a name again stops the worker that had it');
SELECT isnt(stopped_at, NULL, 'a worker whose name was registered again has a time of its stop') FROM pgqrs_workers
	WHERE worker_id = :old_id;
SELECT is(pg_temp.status(:new_id), 'READY', 'the worker that registered the name again is READY');
SELECT throws_ok(format('SELECT pgqrs_heartbeat(%s)', :old_id), 'PQ014', NULL,
	'a heartbeat of the replaced worker is refused');
SELECT throws_ok(format('SELECT pgqrs_dequeue(''jobs'', %s)', :old_id), 'PQ014', NULL,
	'a claim of the replaced worker is refused');
SELECT throws_ok(format('SELECT pgqrs_extend_worker(%s)', :old_id), 'PQ014', NULL,
	'an extension by the replaced worker is refused');
SELECT throws_ok(format('SELECT pgqrs_suspend_worker(%s)', :old_id), 'PQ014', NULL,
	'the replaced worker cannot be suspended');
SELECT throws_ok(format('SELECT pgqrs_resume_worker(%s)', :old_id), 'PQ014', NULL,
	'the replaced worker cannot be resumed');
SELECT throws_ok(format('SELECT pgqrs_archive_message(%s, %s)', :m1, :l1), 'PQ006', NULL,
	'the lease of the replaced worker on a message is refused');
SELECT throws_ok(format('SELECT pgqrs_complete_run(%s, %s)', :r1, :l3), 'PQ006', NULL,
	'the lease of the replaced worker on a run is refused');
SELECT is(ROW(failures, lease, worker_id)::text, '(1,,)',
	'a message of the replaced worker counts a failure and has no lease') FROM pgqrs_messages WHERE message_id = :m1;
SELECT is(outcome::text || ' ' || failures, 'DEAD 3',
	'a message of the replaced worker at its last attempt is a dead letter') FROM pgqrs_archive
	WHERE message_id = :m2;
SELECT is((d.message_id, d.attempt, d.failures)::text, format('(%s,2,1)', :m1),
	'the new worker claims the message as attempt 2') FROM pgqrs_dequeue('jobs', :new_id) d;
SELECT is((d.run_id, d.attempt, d.failures)::text, format('(%s,2,1)', :r1),
	'the new worker claims the run as attempt 2') FROM pgqrs_dequeue('flow', :new_id) d;
SELECT pgqrs_register_worker('again', '{jobs,flow}') AS newer_id \gset
SELECT is(ROW(status, error->>'type')::text, '(ERROR,max_crashes)', 'a run of replaced workers ends for max_crashes')
	FROM pgqrs_result(:r1);

BEGIN;
SELECT pgqrs_register_worker('again', '{jobs}') AS id \gset
SELECT pgqrs_register_worker('again', '{jobs}') AS id2 \gset
SELECT is(pg_temp.status(:id) || pg_temp.status(:id2), 'STOPPEDREADY',
	'registering twice in a transaction stops the first of the two workers');
ROLLBACK;
SELECT is(pgqrs_heartbeat(:newer_id), 'READY', 'a registration that is rolled back stops no worker');

-- Names belong to roles.
CREATE ROLE pgqrs_worker_one;
CREATE ROLE pgqrs_worker_two;
SELECT pgqrs_grant('jobs', 'pgqrs_worker_one', 'work'), pgqrs_grant('team.*', 'pgqrs_worker_two', 'work');
SET ROLE pgqrs_worker_one;
SELECT pgqrs_register_worker('again', '{*}') AS one_id \gset
SET ROLE pgqrs_worker_two;
SELECT pgqrs_register_worker('again', '{*}') AS two_id \gset
SELECT throws_ok(format('SELECT %s', format(call, :one_id)), 'PQ005', NULL,
	call || ' refuses the worker of another role')
FROM unnest(ARRAY['pgqrs_heartbeat(%s)', 'pgqrs_extend_worker(%s)', 'pgqrs_suspend_worker(%s)',
	'pgqrs_resume_worker(%s)',
	'pgqrs_stop_worker(%s)', 'pgqrs_dequeue(''team.a'', %s)', 'pgqrs_dequeue(NULL, %s)']) call;
SELECT is(pgqrs_heartbeat(:two_id), 'READY', 'a role reaches its own worker');
SELECT throws_ok('SELECT pgqrs_maintain()', '42501', NULL,
	'pgqrs_maintain() refuses a role that does not own the tables');
RESET ROLE;
SELECT is(pgqrs_heartbeat(:one_id), 'READY', 'the owner of the tables reaches every worker');
SELECT is(pgqrs_heartbeat(:newer_id), 'READY', 'another role''s worker of the same name is not stopped');
SELECT pgqrs_purge_queue('jobs');
SELECT pgqrs_enqueue('jobs', '1'), pgqrs_enqueue('team.a', '2');
SET ROLE pgqrs_worker_two;
SELECT results_eq(format('SELECT queue FROM pgqrs_dequeue(NULL, %s, 10)', :two_id), $$ VALUES ('team.a') $$,
	'a worker gets messages only from queues on which its role has the privilege work');
RESET ROLE;
SELECT pgqrs_purge_queue('jobs');

-- Subscriptions.
SELECT pgqrs_enqueue(q, '1') FROM unnest('{team.a,team.b,jobs}'::text[]) q;
SELECT pg_temp.fresh('{team.*}') AS id \gset
SELECT throws_ok(format('SELECT pgqrs_dequeue(''jobs'', %s)', :id), '22023', NULL,
	'a claim from a queue to which the worker does not subscribe is refused');
SELECT results_eq(format('SELECT queue FROM pgqrs_dequeue(NULL, %s, 10) ORDER BY 1', :id), $$
	VALUES ('team.a'), ('team.b') $$,
	'a claim without a queue takes from each queue to which the worker subscribes');
SELECT is_empty(format('SELECT * FROM pgqrs_dequeue(''*'', %s, 10)', :id),
	'a claim by a pattern does not reach queues to which the worker does not subscribe');
SELECT is(pgqrs_stop_worker(:id), 2::bigint, 'stopping the worker releases both messages');
SELECT pgqrs_purge_queue(q) FROM unnest('{team.a,team.b,jobs}'::text[]) q;

-- max_concurrent.
SELECT pgqrs_register_worker('few', '{jobs,flow}', max_concurrent => 2) AS few_id \gset
SELECT pgqrs_enqueue('jobs', to_jsonb(g)) FROM generate_series(1, 5) g;
SELECT pgqrs_trigger('flow') AS run \gset
SELECT message_id AS run_message, lease AS run_lease FROM pgqrs_dequeue('flow', :few_id) \gset
SELECT is(count(*), 1::bigint, 'max_concurrent counts over every queue of the worker')
	FROM pgqrs_dequeue('jobs', :few_id, 10);
SELECT is_empty(format('SELECT * FROM pgqrs_dequeue(''jobs'', %s, 10)', :few_id),
	'a worker at max_concurrent gets nothing');
SELECT pgqrs_step_fail(:run, :run_lease, 's', '{}', retry_after => '1 hour');
SELECT is(count(*), 1::bigint, 'a run that waits for its retry does not count for max_concurrent')
	FROM pgqrs_dequeue('jobs', :few_id, 10);
SELECT count(pgqrs_archive_message(message_id, lease)) FROM pgqrs_messages WHERE worker_id = :few_id;
SELECT is(count(*), 2::bigint, 'archived messages do not count for max_concurrent')
	FROM pgqrs_dequeue('jobs', :few_id, 10, '1 us');
SELECT is(count(*), 2::bigint, 'leases that ran out do not count for max_concurrent')
	FROM pgqrs_dequeue('jobs', :few_id, 10);
SELECT pgqrs_stop_worker(:few_id);
SELECT pgqrs_purge_queue('jobs'), pgqrs_purge_queue('flow');

-- Suspending.
SELECT pg_temp.fresh() AS id \gset
SELECT pgqrs_enqueue('jobs', '1') AS m, pgqrs_enqueue('jobs', '2') AS m2 \gset
SELECT lease FROM pgqrs_dequeue('jobs', :id) \gset
SELECT lives_ok(format('SELECT pgqrs_suspend_worker(%s), pgqrs_suspend_worker(%1$s)', :id),
	'suspending a suspended worker succeeds');
SELECT is(pgqrs_heartbeat(:id), 'SUSPENDED', 'a heartbeat of a suspended worker returns SUSPENDED');
SELECT is_empty(format('SELECT * FROM pgqrs_dequeue(''jobs'', %s)', :id), 'a suspended worker claims nothing');
SELECT is(extended, true, 'a suspended worker extends what it holds') FROM pgqrs_extend_worker(:id);
SELECT lives_ok(format('SELECT pgqrs_archive_message(%s, %s)', :m, :lease),
	'a suspended worker finishes what it holds');
SELECT lives_ok(format('SELECT pgqrs_resume_worker(%s), pgqrs_resume_worker(%1$s)', :id),
	'resuming a resumed worker succeeds');
SELECT is(message_id, :m2::bigint, 'a resumed worker claims again') FROM pgqrs_dequeue('jobs', :id);

-- Stopping.
SELECT is(pgqrs_stop_worker(:id), 1::bigint, 'stopping returns the number of released messages');
SELECT is(ROW(failures, lease, worker_id)::text, '(0,,)', 'stopping releases a message without a failure')
	FROM pgqrs_messages WHERE message_id = :m2;
SELECT is(pgqrs_stop_worker(:id), 0::bigint, 'stopping a stopped worker releases nothing');
SELECT is((d.message_id, d.attempt, d.failures)::text, format('(%s,2,0)', :m2),
	'a message released by stopping is claimed at once without a failure') FROM pgqrs_dequeue('jobs') d;
SELECT throws_ok(format('SELECT pgqrs_heartbeat(%s)', :id), 'PQ014', NULL, 'a stopped worker is refused');
SELECT throws_ok(format('SELECT pgqrs_resume_worker(%s)', :id), 'PQ014', NULL, 'a stopped worker cannot be resumed');
SELECT pgqrs_purge_queue('jobs');
SELECT pgqrs_trigger('flow') AS run \gset
SELECT pg_temp.fresh() AS id \gset
SELECT lease FROM pgqrs_dequeue('flow', :id) \gset
SELECT is(pgqrs_stop_worker(:id), 1::bigint, 'stopping releases a run');
SELECT is(status, 'RUNNING', 'a run released by stopping is RUNNING') FROM pgqrs_result(:run);
SELECT throws_ok(format('SELECT pgqrs_complete_run(%s, %s)', :run, :lease), 'PQ006', NULL,
	'the lease of a run released by stopping is refused');
SELECT is((d.run_id, d.attempt, d.failures)::text, format('(%s,2,0)', :run),
	'a run released by stopping is claimed without a crash') FROM pgqrs_dequeue('flow') d;
DELETE FROM pgqrs_messages;

-- Extending all that a worker holds.
SELECT pg_temp.fresh() AS id \gset
SELECT is_empty(format('SELECT * FROM pgqrs_extend_worker(%s)', :id),
	'extending the leases of a worker that holds none returns nothing');
SELECT pgqrs_enqueue('jobs', '1', priority => -1) AS m1, pgqrs_enqueue('jobs', '2', priority => 1) AS m2,
	pgqrs_enqueue('jobs', '3') AS m3, pgqrs_trigger('flow') AS r \gset
SELECT count(*) FROM pgqrs_dequeue(NULL, :id, 10, '1 us');
SELECT lease AS stolen FROM pgqrs_dequeue('jobs') \gset
SELECT results_eq(format('SELECT message_id, run_id, extended, cancel_requested FROM pgqrs_extend_worker(%s)', :id),
	format('VALUES (%s::bigint, NULL::bigint, true, false), (%s, NULL, true, false), (%s, %3$s, true, false)', :m1,
		:m3, :r),
	'pgqrs_extend_worker() extends each current lease in order, expired ones too, stolen ones not');
SELECT results_eq(format('SELECT message_id, round(extract(epoch FROM visible_after - clock_timestamp()) / 60) FROM '
	'pgqrs_messages WHERE worker_id = %s ORDER BY 1', :id),
	format('VALUES (%s::bigint, 10::numeric), (%s, 10), (%s, 5)', :m1, :m3, :r),
		'pgqrs_extend_worker() extends each lease by its queue''s visibility_timeout');
SELECT is(count(*), 3::bigint, 'pgqrs_extend_worker() accepts a timeout') FROM pgqrs_extend_worker(:id, '1 hour')
	WHERE extended;
SELECT is(round(extract(epoch FROM min(visible_after) - clock_timestamp()) / 60), 60::numeric,
	'pgqrs_extend_worker() extends each lease by its timeout') FROM pgqrs_messages WHERE worker_id = :id;
SELECT pgqrs_cancel_run(:r) \g /dev/null
SELECT is((extended, cancel_requested)::text, '(t,t)', 'pgqrs_extend_worker() tells of a request to cancel')
	FROM pgqrs_extend_worker(:id) WHERE run_id = :r;
SELECT throws_ok(format('SELECT pgqrs_extend_worker(%s, ''-1 s'')', :id), '22023', NULL,
	'a negative timeout of pgqrs_extend_worker() is refused');
SELECT throws_ok(format('SELECT pgqrs_extend_worker(%s, ''0 s'')', :id), '22023', NULL,
	'a timeout 0 of pgqrs_extend_worker() is refused');
SELECT throws_ok(format('SELECT pgqrs_extend_worker(%s, ''1 month'')', :id), '22023', NULL,
	'a timeout of months of pgqrs_extend_worker() is refused');
DELETE FROM pgqrs_messages;

-- A role that may not work on a queue any more.
SELECT pgqrs_enqueue('jobs', '1') AS m \gset
SELECT pgqrs_grant('team.a', 'pgqrs_worker_one', 'work'), pgqrs_grant('jobs', 'pgqrs_worker_one', 'trigger');
SET ROLE pgqrs_worker_one;
SELECT pgqrs_register_worker('again', '{*}') AS one_id \gset
SELECT lease FROM pgqrs_dequeue('jobs', :one_id) \gset
RESET ROLE;
SELECT pgqrs_revoke('jobs', 'pgqrs_worker_one', 'work');
SET ROLE pgqrs_worker_one;
SELECT results_eq(format('SELECT message_id, extended FROM pgqrs_extend_worker(%s)', :one_id),
	format('VALUES (%s::bigint, false)', :m),
	'pgqrs_extend_worker() does not extend a lease on a queue without the privilege work');
RESET ROLE;
DELETE FROM pgqrs_messages;

-- Workers that serve a workflow.
UPDATE pgqrs_workers SET status = 'STOPPED', stopped_at = clock_timestamp();
SELECT throws_ok($$ SELECT pgqrs_trigger('flow', require_worker => true) $$, 'PQ013', NULL,
	'require_worker refuses a workflow without a worker');
SELECT pgqrs_register_worker('server', '{jobs,team.*}') AS id \gset
SELECT throws_ok($$ SELECT pgqrs_trigger('flow', require_worker => true) $$, 'PQ013', NULL,
	'require_worker refuses a workflow that its workers do not subscribe to');
SELECT pgqrs_register_worker('server', '{jobs,flow}') AS id \gset
SELECT lives_ok($$ SELECT pgqrs_trigger('flow', require_worker => true) $$,
	'require_worker accepts a workflow that a worker subscribes to');
SELECT pgqrs_suspend_worker(:id);
SELECT throws_ok($$ SELECT pgqrs_trigger('flow', require_worker => true) $$, 'PQ013', NULL,
	'require_worker refuses a workflow whose worker is suspended');
SELECT pgqrs_stop_worker(:id);
SELECT throws_ok($$ SELECT pgqrs_trigger('flow', require_worker => true) $$, 'PQ013', NULL,
	'require_worker refuses a workflow whose worker has stopped');
DELETE FROM pgqrs_messages;

DROP OWNED BY pgqrs_worker_one, pgqrs_worker_two;
SELECT pgqrs_revoke('team.a', 'pgqrs_worker_one', 'work'), pgqrs_revoke('jobs', 'pgqrs_worker_one', 'trigger'),
	pgqrs_revoke('team.*', 'pgqrs_worker_two', 'work');
DROP ROLE pgqrs_worker_one, pgqrs_worker_two;
SELECT * FROM finish();
