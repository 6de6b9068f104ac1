-- Every two operations on one run, at the same time, come to the same as one
-- after the other: F13, F22, F27, F28, F34.
--
-- For each two of the operations below, in each state of a run, the first one
-- is open while the second one is called, in both orders, at READ COMMITTED
-- and REPEATABLE READ, and commits or rolls back; and what a worker may do in
-- one transaction is raced against what comes in the middle of it, which may
-- come between its two calls and is no deadlock.  See include/races.sql.
-- F-numbers: docs/design/known-failures.md.
\ir include/races.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_workflow('race', max_attempts => 10, max_crashes => 3) \g /dev/null

-- A run in that state, and the lease of the worker that has it or had it.
CREATE FUNCTION pg_temp.bring(state text, OUT run bigint, OUT lease bigint) LANGUAGE plpgsql AS
$$
DECLARE
	crashes int := CASE state WHEN 'claimed again' THEN 2 WHEN 'expired, the last' THEN 3 ELSE 1 END;
BEGIN
	run := pgqrs_trigger('race');
	lease := 1;
	IF state = 'queued' THEN
		RETURN;
	END IF;
	FOR crash IN REVERSE crashes - 1 .. 0 LOOP
		SELECT d.lease INTO lease FROM pgqrs_dequeue('race', visibility_timeout => CASE WHEN crash > 0
			OR state LIKE '%expired%' THEN interval '1 us' END) d;
		IF crash > 0 THEN
			PERFORM pgqrs_step_begin(run, lease, 'step');
		END IF;
	END LOOP;
	CASE state
		WHEN 'to be retried' THEN PERFORM pgqrs_step_fail(run, lease, 'step', '"fail"', retry_after => '1 h');
		WHEN 'paused' THEN PERFORM pgqrs_pause_run(run, lease, 'pause', '3 h');
		WHEN 'awaiting' THEN PERFORM pgqrs_await_signal(run, lease, 'await', 'go', '4 h');
		WHEN 'awaiting any' THEN PERFORM pgqrs_await_any(run, lease, 'any', '{go}', timeout => '4 h');
		WHEN 'asked to stop', 'asked to stop, expired' THEN
			UPDATE pgqrs_messages SET visible_after = clock_timestamp() + interval '5 min' WHERE message_id = run;
			PERFORM pgqrs_cancel_run(run);
			IF state LIKE '%expired' THEN
				PERFORM pg_temp.due(run);
			END IF;
		WHEN 'late' THEN PERFORM pg_temp.late(run);
		WHEN 'failed' THEN PERFORM pgqrs_step_fail(run, lease, 'step', '"fail"', retryable => false);
		WHEN 'succeeded' THEN PERFORM pgqrs_step_complete(run, lease, 'step', '1'), pgqrs_complete_run(run, lease,
			'1');
		ELSE
	END CASE;
END
$$;
CREATE TEMP TABLE states AS SELECT state
	FROM unnest('{queued,running,claimed again,expired,"expired, the last",to be retried,paused,awaiting,awaiting any,'
	'asked to stop,"asked to stop, expired",late,failed,succeeded}'::text[]) state;

INSERT INTO operations VALUES
	('dequeue', '{SELECT count(*) FROM pgqrs_dequeue(''race'')}'),
	('extend', '{SELECT pgqrs_extend_lease(RUN, LEASE, ''2 h'')}'),
	('step_begin', '{"SELECT b FROM pgqrs_step_begin(RUN, LEASE, ''step'') b"}'),
	('step_complete', '{"SELECT pgqrs_step_complete(RUN, LEASE, ''step'', ''1'')"}'),
	('step_next', '{"SELECT n FROM pgqrs_step_next(RUN, LEASE, ''step'', ''1'', ''then'') n"}'),
	('next', '{"SELECT coalesce(string_agg(payload::text, '', ''), ''ended'') FROM pgqrs_next(queue => ''race'', '
		'batch_size => 0, done_ids => ARRAY[RUN], done_leases => ARRAY[LEASE])"}'),
	('step_fail', '{"SELECT outcome FROM pgqrs_step_fail(RUN, LEASE, ''step'', ''\"fail\"'', retry_after => ''1 '
		'h'')"}'),
	('complete', '{"SELECT pgqrs_complete_run(RUN, LEASE, ''1'')"}'),
	('fail', '{"SELECT pgqrs_fail_run(RUN, LEASE, ''\"fail\"'') IS NULL"}'),
	('retry', '{"SELECT pgqrs_fail_run(RUN, LEASE, ''\"fail\"'', true, ''1 h'') IS NULL"}'),
	('progress', '{"SELECT pgqrs_set_progress(RUN, LEASE, ''1'')"}'),
	('pause', '{"SELECT pgqrs_pause_run(RUN, LEASE, ''pause'', ''3 h'')"}'),
	('resume', '{"SELECT pgqrs_resume_run(RUN, ''pause'', ''1'')"}'),
	('signal', '{"SELECT pgqrs_signal(RUN, ''go'', ''1'') > 0"}'),
	('await_signal', '{"SELECT pgqrs_await_signal(RUN, LEASE, ''await'', ''go'', ''4 h'')"}'),
	('await_any', '{"SELECT pgqrs_await_any(RUN, LEASE, ''any'', ARRAY[''go''], timeout => ''4 h'')"}'),
	('cancel', '{"SELECT pgqrs_cancel_run(RUN, ''why'')"}'),
	('maintain', '{"SELECT coalesce(string_agg(key || '' '' || value, '', ''), ''0'') FROM '
		'jsonb_each_text(pgqrs_maintain()) WHERE value <> ''0''"}'),
	('advance', '{"SELECT pgqrs_advance(RUN, ''1 h'') IS NOT NULL"}'),
	('rerun', '{"SELECT pgqrs_rerun(RUN, keep_finished => true) > 0"}'),
	('replay', '{"SELECT pgqrs_replay_message(RUN)"}'),
	('delete_run', '{"SELECT pgqrs_delete_run(RUN, ''why'')"}'),
	('purge', '{SELECT pgqrs_purge_queue(''race'')}');

-- Two calls of a worker in one transaction.
CREATE TEMP TABLE transactions AS
	SELECT format('%s + %s', x.operation, y.operation) AS operation, x.calls || y.calls AS calls
	FROM operations x, operations y
	WHERE x.operation IN ('step_begin', 'step_complete', 'progress', 'extend') AND x.operation <> y.operation
		AND y.operation IN ('step_complete', 'step_fail', 'complete', 'fail', 'progress', 'pause', 'await_signal',
			'await_any', 'extend');

-- Not raced against these: branches of one run that go on beside each other.
-- If both then give the run up, each waits for the other, and one gets 40P01.
CREATE TEMP TABLE beside AS SELECT unnest('{step_begin,step_complete,step_next,progress}'::text[]) AS operation;

-- What is legal besides one order or the other.
INSERT INTO passes_over VALUES
	('dequeue', 'waits for no lock: messages that another transaction has locked are left to the next call'),
	('purge', 'the same'),
	('maintain', 'the same');
INSERT INTO leaves_to_the_pass VALUES
	('signal', 'waits for no lock: a waiting run that is locked, or that begins to wait at that moment, is rechecked '
		'after the commit by the background worker, or by maintenance');

INSERT INTO operations SELECT operation, calls FROM transactions;
CALL pg_temp.race_pairs('{commit,before}');
DO $$
DECLARE
	pair record;
BEGIN
	FOR pair IN SELECT state, a.operation AS first, b.operation AS second
		FROM unnest('{running,claimed again}'::text[]) state, transactions a, singles b
		WHERE b.operation NOT IN (SELECT operation FROM beside) LOOP
		CALL pg_temp.race(pair.state, pair.first, pair.second, 'READ COMMITTED', 'commit');
	END LOOP;
END
$$;

SELECT is(pg_temp.faults(a.operation, b.operation), NULL,
	format('%s and %s have the effect of one order or the other', a.operation, b.operation))
	FROM singles a JOIN singles b ON a.place <= b.place ORDER BY a.place, b.place;
SELECT is(pg_temp.faults(a.operation, b.operation), NULL,
	format('%s in one transaction, and %s between its calls, break no rule', a.operation, b.operation))
	FROM transactions a, singles b WHERE b.operation NOT IN (SELECT operation FROM beside) ORDER BY a.operation,
		b.place;
SELECT * FROM finish();
