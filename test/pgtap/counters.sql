-- The counters of pgqrs_queue_stats and the histograms, exact for each way in
-- and out.
SET client_min_messages = error;
SELECT * FROM no_plan();

CREATE FUNCTION pg_temp.claim(queue text, OUT id bigint, OUT held bigint) LANGUAGE sql AS
$$SELECT message_id, lease FROM public.pgqrs_dequeue(queue)$$;
CREATE TEMP TABLE before (queue text, sent bigint, claimed bigint, done bigint, failed bigint, died bigint,
	cancelled bigint, waits bigint, works bigint);
CREATE VIEW pg_temp.counted AS
SELECT s.queue, s.sent, s.claimed, s.done, s.failed, s.died, s.cancelled,
	(SELECT max(count)::bigint FROM public.pgqrs_histograms AS h WHERE h.queue = s.queue AND measure = 'wait') AS waits,
	(SELECT max(count)::bigint FROM public.pgqrs_histograms AS h WHERE h.queue = s.queue AND measure = 'work') AS works
FROM public.pgqrs_queue_stats AS s;

-- What was added since the last call: sent, claimed, done, failed, died,
-- cancelled, and the counts of the two histograms.
CREATE FUNCTION pg_temp.added(queue text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	is_new text;
BEGIN
	SELECT concat_ws(' ', c.sent - coalesce(b.sent, 0), c.claimed - coalesce(b.claimed, 0),
		c.done - coalesce(b.done, 0), c.failed - coalesce(b.failed, 0), c.died - coalesce(b.died, 0),
		c.cancelled - coalesce(b.cancelled, 0), c.waits - coalesce(b.waits, 0), c.works - coalesce(b.works, 0))
	INTO is_new FROM pg_temp.counted AS c LEFT JOIN pg_temp.before AS b USING (queue) WHERE c.queue = added.queue;
	DELETE FROM pg_temp.before AS b WHERE b.queue = added.queue;
	INSERT INTO pg_temp.before SELECT * FROM pg_temp.counted AS c WHERE c.queue = added.queue;
	RETURN is_new;
END $$;

SELECT pgqrs_create_queue('q', max_attempts => 2), pgqrs_create_queue('flash', retention => '0'),
	pgqrs_create_workflow('flow', max_attempts => 2, initial_interval => '1 us') \gset _
SELECT is(pg_temp.added('q'), '0 0 0 0 0 0 0 0', 'a new queue has counted nothing');

-- Messages.
SELECT pgqrs_enqueue('q', '1'), pgqrs_enqueue('q', '1', idempotency_key => 'k') \gset _
SELECT pgqrs_enqueue('q', '1', idempotency_key => 'k'), pgqrs_enqueue_batch('q', '{1,2}') \gset _
SELECT is(pg_temp.added('q'), '4 0 0 0 0 0 0 0', 'messages are counted as sent, a duplicate is not');
SELECT id, held FROM pg_temp.claim('q') \gset
SELECT is(pg_temp.added('q'), '0 1 0 0 0 0 1 0', 'a claim is counted with its wait');
SELECT pgqrs_archive_message(:id, :held), pgqrs_archive_message(:id, :held) \gset _
SELECT is(pg_temp.added('q'), '0 0 1 0 0 0 0 1', 'an archived message is done once, with its work');
SELECT pgqrs_archive_messages(array_agg(message_id), array_agg(lease)) FROM pgqrs_dequeue('q', batch_size => 2) \gset _
SELECT is(pg_temp.added('q'), '0 2 2 0 0 0 2 2', 'a batch counts each of its messages');
SELECT id, held FROM pg_temp.claim('q') \gset
SELECT pgqrs_release_message(:id, :held) \gset _
SELECT is(pg_temp.added('q'), '0 1 0 0 0 0 1 1', 'a released message is a claim that ended, and no failure');
SELECT id, held FROM pg_temp.claim('q') \gset
SELECT pgqrs_nack_message(:id, :held, delay => '0') \gset _
SELECT is(pg_temp.added('q'), '0 1 0 1 0 0 1 1', 'a nack is a failure');
SELECT id, held FROM pg_temp.claim('q') \gset
SELECT pgqrs_nack_message(:id, :held) \gset _
SELECT is(pg_temp.added('q'), '0 1 0 1 1 0 1 1', 'the last nack is a failure and a dead letter');
SELECT pgqrs_replay_message(:id) \gset _
SELECT is(pg_temp.added('q'), '1 0 0 0 0 0 0 0', 'a replayed dead letter is sent again');
SELECT id, held FROM pg_temp.claim('q') \gset
SELECT pgqrs_delete_message(:id, :held) \gset _
SELECT is(pg_temp.added('q'), '0 1 0 0 0 1 1 1', 'a deleted message counts as cancelled');
SELECT pgqrs_purge_queue('q'), pg_temp.added('q') \gset _
SELECT pgqrs_enqueue('q', '1') \gset _
SELECT pgqrs_dequeue('q', visibility_timeout => '1 us') \gset _
SELECT is(pg_temp.added('q'), '1 1 0 0 0 0 1 0', 'a lease that ran out still counts as held');
SELECT pgqrs_dequeue('q', visibility_timeout => '1 us') \gset _
SELECT is(pg_temp.added('q'), '0 1 0 1 0 0 1 1', 'the next claim counts the lost lease as a failure');
SELECT count(*) FROM pgqrs_dequeue('q') \gset _
SELECT is(pg_temp.added('q'), '0 0 0 1 1 0 0 1', 'the last lost lease makes a dead letter');
SELECT pgqrs_enqueue('q', '1'), pgqrs_enqueue('q', '2'), pgqrs_purge_queue('q') \gset _
SELECT is(pg_temp.added('q'), '2 0 0 0 0 2 0 0', 'purged messages count as cancelled');
SELECT pgqrs_enqueue('q', '1') \gset _
SELECT message_id AS id FROM pgqrs_dequeue('q') \gset
SELECT pgqrs_set_visibility(:id, now()) \gset _
SELECT is(pg_temp.added('q'), '1 1 0 0 0 0 1 1', 'a revoked lease is no failure');
SELECT pgqrs_register_worker('w', '{*}') AS worker \gset
SELECT pgqrs_dequeue('q', :worker) \gset _
SELECT pgqrs_stop_worker(:worker) \gset _
SELECT is(pg_temp.added('q'), '0 1 0 0 0 0 1 1', 'a worker that stops gives back its messages without a failure');
SELECT pgqrs_register_worker('w', '{*}') AS worker \gset
SELECT pgqrs_dequeue('q', :worker) \gset _
SELECT pgqrs_register_worker('w', '{*}'), pgqrs_maintain() \gset _
SELECT is(pg_temp.added('q'), '0 1 0 1 0 0 1 1', 'maintenance counts the lease of a superseded worker as a failure');
SELECT message_id AS id, lease AS held FROM pgqrs_next(queue => 'q') \gset
SELECT pgqrs_enqueue('q', '1') \gset _
SELECT pgqrs_next(queue => 'q', done_ids => ARRAY[:id], done_leases => ARRAY[:held]) \gset _
SELECT is(pg_temp.added('q'), '1 2 1 0 0 0 2 1', 'pgqrs_next counts what it ends and what it claims');
SELECT pgqrs_enqueue('flash', '1') \gset _
SELECT pgqrs_archive_message(message_id, lease) FROM pgqrs_dequeue('flash') \gset _
SELECT is(pg_temp.added('flash'), '1 1 1 0 0 0 1 1', 'messages that are not kept are counted');

-- Transactions.
BEGIN;
SELECT pgqrs_enqueue('q', '1') \gset _
SELECT pgqrs_dequeue('q') \gset _
SELECT is(pg_temp.added('q'), '0 0 0 0 0 0 0 0', 'nothing is counted before the commit');
ROLLBACK;
SELECT is(pg_temp.added('q'), '0 0 0 0 0 0 0 0', 'what is rolled back counts nothing');
BEGIN;
SELECT pgqrs_enqueue('q', '1') \gset _
SAVEPOINT a;
SELECT pgqrs_enqueue_batch('q', '{1,2}') \gset _
SAVEPOINT b;
SELECT pgqrs_enqueue_batch('q', '{1,2,3,4}') \gset _
ROLLBACK TO b;
RELEASE a;
SAVEPOINT c;
SELECT pgqrs_enqueue_batch('q', '{1,2,3,4,5,6,7,8}') \gset _
ROLLBACK TO c;
SAVEPOINT d;
SELECT pgqrs_enqueue('flash', '1'), pgqrs_enqueue('q', '1') \gset _
COMMIT;
SELECT is(pg_temp.added('q'), '4 0 0 0 0 0 0 0', 'a rollback to a savepoint takes back what came after it');
SELECT pgqrs_purge_queue('q'), pg_temp.added('q') \gset _

-- Runs.
SELECT pgqrs_trigger('flow'), pgqrs_trigger_batch('flow', '{1,2}') \gset _
SELECT is(pg_temp.added('flow'), '3 0 0 0 0 0 0 0', 'a triggered run is sent');
SELECT id, held FROM pg_temp.claim('flow') \gset
SELECT pgqrs_complete_run(:id, :held) \gset _
SELECT is(pg_temp.added('flow'), '0 1 1 0 0 0 1 1', 'a completed run is done');
SELECT id, held FROM pg_temp.claim('flow') \gset
SELECT pgqrs_fail_run(:id, :held, '{}', retryable => true, retry_after => '0') \gset _
SELECT is(pg_temp.added('flow'), '0 1 0 1 0 0 1 1', 'a run that failed and will be retried is a failure');
SELECT lease AS held FROM pgqrs_dequeue('flow', batch_size => 2) AS d WHERE run_id = :id \gset
SELECT pgqrs_fail_run(:id, :held, '{}') \gset _
SELECT is(pg_temp.added('flow'), '0 2 0 1 1 0 2 1', 'a run in ERROR is a failure and dead');
SELECT pgqrs_replay_message(:id) \gset _
SELECT id, held FROM pg_temp.claim('flow') \gset
SELECT pgqrs_step_fail(:id, :held, 's', '{}', retry_after => '0', max_attempts => 2) \gset _
SELECT id, held FROM pg_temp.claim('flow') \gset
SELECT pgqrs_step_fail(:id, :held, 's', '{}', max_attempts => 2, fail_run => false),
	pgqrs_sleep(:id, :held, 'z', '1 hour') \gset _
SELECT is(pg_temp.added('flow'), '1 2 0 1 0 0 2 2',
	'a step that fails counts if it ends the claim; waiting ends a claim, too');
SELECT pgqrs_cancel_run(:id) \gset _
SELECT is(pg_temp.added('flow'), '0 0 0 0 0 1 0 0', 'a cancelled run counts as cancelled');
SELECT run_id AS id, lease AS held FROM pgqrs_start('flow') \gset
SELECT is(pg_temp.added('flow'), '1 1 0 0 0 0 1 0', 'a started run is sent and claimed');
SELECT pgqrs_cancel_run(:id) \gset _
SELECT pgqrs_acknowledge_cancel(:id, :held) \gset _
SELECT is(pg_temp.added('flow'), '0 0 0 0 0 1 0 1', 'an acknowledged cancel counts as cancelled and ends the claim');
SELECT pgqrs_trigger('flow', timeout => '1 us') \gset _
SELECT pgqrs_maintain() \gset _
SELECT is(pg_temp.added('flow'), '1 0 0 0 1 0 0 0', 'a run past its deadline is dead');
SELECT pgqrs_maintain() \gset _
SELECT is(pg_temp.added('flow'), '0 0 0 0 0 0 0 0', 'a flush changes no counter');

-- A transaction that sends to many queues in turn.
SELECT count(pgqrs_create_queue('turn' || n)) FROM generate_series(1, 100) AS n \gset _
SELECT pg_temp.added('turn1'), pg_temp.added('turn100') \gset _
CREATE VIEW pg_temp.memory AS SELECT total_bytes FROM pg_backend_memory_contexts WHERE name = 'TopMemoryContext';
BEGIN;
SELECT total_bytes AS before FROM pg_temp.memory \gset
SELECT count(pgqrs_enqueue('turn' || n, '1')) FROM generate_series(1, 50), generate_series(1, 100) AS n \gset _
SELECT cmp_ok(total_bytes, '<', :before + 500000::bigint, 'what is pending for 100 queues does not grow by message')
	FROM pg_temp.memory;
SAVEPOINT a;
SELECT count(pgqrs_enqueue('turn' || n, '1')) FROM generate_series(1, 3), generate_series(1, 100) AS n \gset _
ROLLBACK TO a;
SAVEPOINT b;
SELECT count(pgqrs_enqueue('turn' || n, '1')) FROM generate_series(1, 2), generate_series(1, 100) AS n \gset _
COMMIT;
SELECT is(pg_temp.added(queue), '52 0 0 0 0 0 0 0', 'each of them is counted exactly: ' || queue)
	FROM unnest('{turn1,turn100}'::text[]) AS queue;
SELECT is(sum(sent), 5200::numeric, 'all together are counted exactly') FROM pgqrs_queue_stats WHERE queue LIKE 'turn%';

-- All claims but those that are held have ended, and nothing is counted twice.
SELECT is(count(*), 0::bigint, 'every claim ended once, and every message once')
	FROM pgqrs_queue_stats AS s JOIN pg_temp.counted AS c USING (queue)
	WHERE s.claimed <> c.works + (SELECT count(*) FROM pgqrs_messages AS m
			WHERE m.queue_id = s.queue_id AND lease IS NOT NULL)
		OR s.claimed <> c.waits
		OR s.sent <> s.done + s.died + s.cancelled + (SELECT count(*) FROM pgqrs_messages AS m WHERE m.queue_id = s.queue_id);

-- Times.
SELECT pgqrs_create_queue('slow') AS slow \gset
SELECT pgqrs_enqueue('slow', '1') AS id \gset
UPDATE pgqrs_messages SET visible_after = visible_after - interval '20 s' WHERE message_id = :id;
SELECT id, held FROM pg_temp.claim('slow') \gset
UPDATE pgqrs_messages SET dequeued_at = dequeued_at - interval '2 h' WHERE message_id = :id;
SELECT pgqrs_archive_message(:id, :held) \gset _
SELECT ok(wait_seconds BETWEEN 20 AND 620 AND work_seconds BETWEEN 7200 AND 7800,
	format('the times add up: %s, %s', wait_seconds, work_seconds)) FROM pgqrs_queue_stats WHERE queue = 'slow';
SELECT is(string_agg(format('%s %s', le, count), ', ' ORDER BY le), '0.001 0, 0.005 0, 0.01 0, 0.05 0, 0.1 0, '
	'0.5 0, 1 0, 5 0, 30 1, 300 1, 3600 1, Infinity 1', 'the wait is in its bucket')
	FROM pgqrs_histograms WHERE queue = 'slow' AND measure = 'wait';
SELECT is(string_agg(count::text, '' ORDER BY le), '000000000001', 'the work is in the last bucket')
	FROM pgqrs_histograms WHERE queue = 'slow' AND measure = 'work';

-- Prepared transactions.
SELECT pg_temp.added('q') \gset _
BEGIN;
SELECT pgqrs_enqueue_batch('q', '{1,2,3}') \gset _
PREPARE TRANSACTION 'counted';
BEGIN;
SELECT pgqrs_enqueue_batch('q', '{1,2,3,4}') \gset _
PREPARE TRANSACTION 'not counted';
SELECT is(pg_temp.added('q'), '0 0 0 0 0 0 0 0', 'a prepared transaction counts nothing yet');
COMMIT PREPARED 'counted';
ROLLBACK PREPARED 'not counted';
SELECT is(pg_temp.added('q'), '3 0 0 0 0 0 0 0', 'a prepared transaction counts when it is committed');
SELECT count(*) AS rows FROM pgqrs_counters WHERE epoch < 0 \gset
SELECT pgqrs_maintain() \gset _
SELECT is(pg_temp.added('q'), '0 0 0 0 0 0 0 0', 'storing its counts changes no counter');
SELECT is(format('%s %s', :rows, count(*)), '1 0', 'its row becomes part of the row of the queue')
	FROM pgqrs_counters WHERE epoch < 0;

-- A deleted queue.
SELECT pgqrs_enqueue('slow', '1') \gset _
SELECT pgqrs_delete_queue('slow', force => true), pgqrs_create_queue('slow') \gset _
SELECT is(sent, 0::bigint, 'a new queue of the same name begins at 0') FROM pgqrs_queue_stats WHERE queue = 'slow';
SELECT pgqrs_maintain(), pgqrs_maintain() \gset _
SELECT is(count(*), 0::bigint, 'the counters of a deleted queue are removed') FROM pgqrs_counters
	WHERE queue_id = :slow;

SELECT pgqrs_create_queue('empty') AS empty \gset
SELECT pgqrs_enqueue('empty', '1'), pgqrs_purge_queue('empty') \gset _
SELECT pgqrs_maintain() \gset _
SELECT is(count(*), 1::bigint, 'the test has counters of a queue without messages') FROM pgqrs_counters
	WHERE queue_id = :empty;
SELECT pgqrs_delete_queue('empty') \gset _
SELECT is(count(*), 0::bigint, 'counters that wait for their removal are no fault') FROM pgqrs_verify() WHERE NOT ok;
SELECT pgqrs_maintain() \gset _
SELECT is(count(*), 0::bigint, 'the counters of a queue that was deleted without force are removed, too')
	FROM pgqrs_counters WHERE queue_id = :empty;

SELECT * FROM finish();
