-- Cancelling runs: at once, on request, many; acknowledging, deleting.  F27.
-- F-numbers: docs/design/known-failures.md.
\ir include/runs.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_workflow('job', visibility_timeout => '10 min', max_attempts => 3), pgqrs_create_workflow('keyed', key_scope => 'retained') \g /dev/null

CREATE FUNCTION pg_temp.state(run bigint) RETURNS text LANGUAGE sql AS
$$
	SELECT concat_ws(', ', r.status, r.cancel_reason, CASE WHEN r.cancel_requested_at IS NOT NULL THEN 'asked' END, CASE WHEN m.lease IS NOT NULL THEN 'held' END, a.outcome)
	FROM pgqrs_workflow_runs r LEFT JOIN pgqrs_messages m USING (run_id) LEFT JOIN pgqrs_archive a USING (run_id) WHERE r.run_id = run
$$;

-- At once.
SELECT pgqrs_trigger('job') AS run \gset
SELECT is(pgqrs_cancel_run(:run, 'not needed'), 'CANCELLED', 'a queued run');
SELECT is(pg_temp.state(:run), 'CANCELLED, not needed, CANCELLED', 'is cancelled, its message too');
SELECT ok(completed_at IS NOT NULL AND started_at IS NULL AND output IS NULL AND error IS NULL, 'and has neither output nor error') FROM pgqrs_get_run(:run);
SELECT is(pgqrs_cancel_run(:run, 'again'), 'CANCELLED', 'again');
SELECT is(cancel_reason, 'not needed', 'the first reason stays') FROM pgqrs_get_run(:run);

-- On request.
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_step_begin(:run, :lease, 'one') \g /dev/null
SELECT is(pgqrs_cancel_run(:run, 'stop'), 'RUNNING', 'a run that somebody works on');
SELECT is(pg_temp.state(:run), 'RUNNING, stop, asked, held', 'is asked to stop');
SELECT cancel_requested_at AS at FROM pgqrs_get_run(:run) \gset
SELECT is(pgqrs_cancel_run(:run, 'again'), 'RUNNING', 'again');
SELECT is((cancel_requested_at, cancel_reason)::text, format('("%s",stop)', :'at'), 'which changes nothing') FROM pgqrs_get_run(:run);
SELECT is(pgqrs_extend_lease(:run, :lease)::text, '(t,t)', 'extending tells');
SELECT is(pgqrs_extend_lease(:run, :lease)::text, '(t,t)', 'every time');
SELECT is(left(pg_temp.answer(format('SELECT ' || call, :run, :lease)), 5), 'PQ010', call)
	FROM unnest(ARRAY['pgqrs_step_begin(%s, %s, ''two'')', 'pgqrs_step_begin(%s, %s, ''one'')', 'pgqrs_pause_run(%s, %s, ''p'')', 'pgqrs_sleep(%s, %s, ''s'', ''0'')', 'pgqrs_await_signal(%s, %s, ''w'', ''go'', ''0'')']) call;
SELECT lives_ok(format('SELECT pgqrs_step_complete(%s, %s, ''one'')', :run, :lease), 'what is done is stored');
SELECT lives_ok(format('SELECT pgqrs_set_progress(%s, %s, ''1'')', :run, :lease), 'progress too');
SELECT lives_ok(format('SELECT pgqrs_acknowledge_cancel(%s, %s, ''"cleaned up"'')', :run, :lease), 'the worker has stopped');
SELECT is((pg_temp.state(:run), output)::text, '("CANCELLED, stop, asked, CANCELLED","""cleaned up""")', 'cancelled, with what it left') FROM pgqrs_get_run(:run);
SELECT is(pg_temp.answer(format('SELECT pgqrs_acknowledge_cancel(%s, %s, ''2'')', :run, :lease)), '', 'a repeated acknowledgement, of which the answer was lost, succeeds');
SELECT is(output, '"cleaned up"', 'and leaves the output as it was') FROM pgqrs_get_run(:run);
SELECT is(pg_temp.answer(format('SELECT pgqrs_step_complete(%s, %s, ''two'')', :run, :lease)), 'PQ010', 'any other call under that lease is told of the cancellation');

SELECT * FROM pg_temp.start('job') \gset
SELECT is(pg_temp.answer(format('SELECT pgqrs_acknowledge_cancel(%s, %s)', :run, :lease)), 'PQ016 It is RUNNING.', 'nobody asked');
SELECT pgqrs_cancel_run(:run) \g /dev/null
SELECT is(pg_temp.answer(format('SELECT pgqrs_acknowledge_cancel(%s, 1)', :run)), 'PQ006', 'another lease');
SELECT lives_ok(format('SELECT pgqrs_acknowledge_cancel(%s, %s)', :run, :lease), 'without an output');
SELECT is(output, NULL, 'there is none') FROM pgqrs_get_run(:run);

-- A run that was asked to stop ends by whatever its worker does.
CREATE FUNCTION pg_temp.ends(call text) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	r record;
BEGIN
	SELECT * INTO r FROM pg_temp.start('job');
	PERFORM pgqrs_cancel_run(r.run);
	EXECUTE format('SELECT ' || call, r.run, r.lease);
	RETURN pg_temp.state(r.run);
END
$$;
SELECT is(pg_temp.ends(call), result, call) FROM (VALUES
	('pgqrs_complete_run(%s, %s)', 'SUCCESS, asked, DONE'),
	('pgqrs_fail_run(%s, %s, ''{}'')', 'CANCELLED, asked, CANCELLED'),
	('pgqrs_fail_run(%s, %s, ''{}'', true)', 'CANCELLED, asked, CANCELLED'),
	('pgqrs_step_fail(%s, %s, ''s'', ''{}'')', 'CANCELLED, asked, CANCELLED'),
	('pgqrs_step_fail(%s, %s, ''s'', ''{}'', fail_run => false)', 'RUNNING, asked, held'),
	('pgqrs_release_message(%s, %s)', 'CANCELLED, asked, CANCELLED'),
	('pgqrs_set_visibility(%s, clock_timestamp())', 'CANCELLED, asked, CANCELLED'),
	('pg_temp.due(%s), pgqrs_dequeue(''job'')', 'CANCELLED, asked, CANCELLED'),
	('pg_temp.due(%s), pgqrs_cancel_run(%1$s)', 'CANCELLED, asked, CANCELLED'),
	('pg_temp.due(%s), pgqrs_maintain()', 'CANCELLED, asked, CANCELLED')) v (call, result);
SELECT pgqrs_register_worker('w', '{job}') AS w \gset
SELECT pgqrs_trigger('job') AS run \gset
SELECT lease FROM pgqrs_dequeue('job', :w) \gset
SELECT pgqrs_cancel_run(:run) \g /dev/null
SELECT is(pgqrs_stop_worker(:w), 1::bigint, 'a worker that stops');
SELECT is(pg_temp.state(:run), 'CANCELLED, asked, CANCELLED', 'leaves it cancelled');
SELECT pgqrs_register_worker('w', '{job}') AS w \gset
SELECT pgqrs_trigger('job') AS run \gset
SELECT lease FROM pgqrs_dequeue('job', :w) \gset
SELECT pgqrs_cancel_run(:run), pgqrs_register_worker('w', '{job}') \g /dev/null
SELECT is(pg_temp.state(:run), 'CANCELLED, asked, CANCELLED', 'so does one that is superseded');

-- Expired, waiting for a retry, parked: nobody is asked.
SELECT run, pg_temp.due(run) FROM pg_temp.start('job') \gset
SELECT is(pgqrs_cancel_run(:run), 'CANCELLED', 'an expired lease');
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_fail_run(:run, :lease, '{}', true, '1 h') \g /dev/null
SELECT is(pgqrs_cancel_run(:run), 'CANCELLED', 'waiting for a retry');
SELECT is(error, NULL, 'which is no error') FROM pgqrs_get_run(:run);
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_await_signal(:run, :lease, 'w', 'go') \g /dev/null
SELECT is(pgqrs_cancel_run(:run), 'CANCELLED', 'parked');
SELECT is((waiting_for, paused_at)::text, '(,)', 'and waits no more') FROM pgqrs_get_run(:run);

-- Many.
UPDATE pgqrs_messages SET visible_after = 'infinity'; -- what is left is not ours
SELECT pgqrs_create_workflow('many') \g /dev/null
SELECT pgqrs_trigger_batch('many', array_fill('1'::jsonb, '{6}'), tags => '{"team": "a", "n": 1}'), pgqrs_trigger_batch('many', array_fill('1'::jsonb, '{6}'), tags => '{"team": "b"}'), pgqrs_trigger_batch('many', array_fill('1'::jsonb, '{2}')) \g /dev/null
SELECT count(*) FROM pgqrs_dequeue('many', batch_size => 2) \g /dev/null
SELECT is((SELECT changed FROM pgqrs_cancel_runs('many', tags => '{"team": "c"}')), 0::bigint, 'none has these tags');
SELECT is((SELECT changed FROM pgqrs_cancel_runs('many', 'PAUSED')), 0::bigint, 'none this status');
SELECT is((SELECT changed FROM pgqrs_cancel_runs('many', 'SUCCESS')), 0::bigint, 'an end is no status to cancel');
SELECT is((SELECT changed FROM pgqrs_cancel_runs('many', 'RUNNING', '{"team": "b"}')), 0::bigint, 'nor both');
SELECT is((SELECT changed FROM pgqrs_cancel_runs('many', tags => '{"team": "b"}', max_rows => 2)), 2::bigint, 'two of them');
SELECT is((SELECT changed FROM pgqrs_cancel_runs('many', tags => '{"team": "b"}')), 4::bigint, 'and the rest');
SELECT is((SELECT changed FROM pgqrs_cancel_runs('many', 'RUNNING')), 2::bigint, 'those that are held are asked');
SELECT is((SELECT changed FROM pgqrs_cancel_runs('many', 'RUNNING')), 0::bigint, 'once');
SELECT is((SELECT changed FROM pgqrs_cancel_runs('many', tags => '{"team": "a"}', max_rows => 100)), 4::bigint, 'what waits behind them');
SELECT is((SELECT changed FROM pgqrs_cancel_runs('many')), 2::bigint, 'those without tags');
SELECT results_eq($$SELECT status, count(*) FROM pgqrs_runs WHERE workflow = 'many' GROUP BY 1 ORDER BY 1$$, $$VALUES ('CANCELLED', 12::bigint), ('RUNNING', 2)$$, 'all of them');
SELECT count(pgqrs_trigger_batch('many', array_fill('1'::jsonb, '{1500}'))) \g /dev/null
SELECT is((SELECT changed FROM pgqrs_cancel_runs('many')), 1000::bigint, 'a thousand at a time');
SELECT is((SELECT changed FROM pgqrs_cancel_runs('many', max_rows => 2000)), 500::bigint, 'or more');

-- Page by page, in ascending order; by error and by time of creation.
SELECT runs[1] AS r1, runs[2] AS r2, runs[3] AS r3, runs[4] AS r4, runs[5] AS r5 FROM pgqrs_trigger_batch('many', array_fill('1'::jsonb, '{4}')) b, LATERAL (SELECT b || pgqrs_trigger('many', priority => 1) AS runs) r \gset
SELECT results_eq('SELECT changed, skipped, last_run_id FROM pgqrs_cancel_runs(''many'', max_rows => 2, reason => ''a flood'')', format('VALUES (2::bigint, 0::bigint, %s::bigint)', :r2), 'the two lowest ids, whatever the order of claims');
SELECT is((status, cancel_reason)::text, '(CANCELLED,"a flood")', 'the reason is kept') FROM pgqrs_get_run(:r2);
SELECT results_eq(format('SELECT * FROM pgqrs_cancel_runs(''many'', max_rows => 2, after_run_id => %s)', :r3), 'VALUES (2::bigint, 0::bigint, NULL::bigint)', 'those after an id, and no more match');
SELECT results_eq('SELECT * FROM pgqrs_cancel_runs(''many'', max_rows => 0)', 'VALUES (0::bigint, 0::bigint, NULL::bigint)', 'a loop that asks for none ends');
SELECT is(status, 'QUEUED', 'nothing of it happens to a run before that id, or with max_rows 0') FROM pgqrs_get_run(:r3);
SELECT created_at AS c3 FROM pgqrs_get_run(:r3) \gset
SELECT is((SELECT changed FROM pgqrs_cancel_runs('many', created_before => :'c3')), 0::bigint, 'created before its instant: it is not');
SELECT is((SELECT changed FROM pgqrs_cancel_runs('many', created_after => :'c3'::timestamptz + interval '1 us')), 0::bigint, 'nor after it');
SELECT message_id AS failed, pgqrs_fail_run(message_id, lease, '{"type": "smtp"}', true, '1 h') IS NOT NULL AS failing FROM pgqrs_dequeue('many') \gset
SELECT is((SELECT changed FROM pgqrs_cancel_runs('many', error_type => 'smt')), 0::bigint, 'a part of its error''s type is another type');
SELECT pgqrs_trigger('many') \g /dev/null
SELECT results_eq(format('SELECT changed, skipped, last_run_id FROM pgqrs_cancel_runs(''many'', error_type => ''smtp'', created_after => %L)', :'c3'), 'VALUES (1::bigint, 0::bigint, NULL::bigint)', 'the one that failed with it, created at that instant');
SELECT is((SELECT changed FROM pgqrs_cancel_runs('many')), 1::bigint, 'the other has no error and was left');

-- Deleted.
SELECT pgqrs_trigger('keyed', idempotency_key => 'k') AS run \gset
SELECT lease FROM pgqrs_dequeue('keyed') \gset
SELECT lives_ok(format('SELECT pgqrs_delete_run(%s, ''a mistake'')', :run), 'deleted under a live lease');
SELECT is((status, cancel_reason, delete_reason, deleted_at >= completed_at)::text, '(CANCELLED,"a mistake","a mistake",t)', 'it is cancelled first') FROM pgqrs_get_run(:run);
SELECT is(pg_temp.answer(format('SELECT pgqrs_complete_run(%s, %s)', :run, :lease)), 'PQ010', 'its worker is told');
SELECT is_empty(format('SELECT * FROM pgqrs_list_runs(''keyed'') WHERE run_id = %s', :run), 'not listed');
SELECT is(pgqrs_find_run('keyed', 'k'), NULL, 'nor found by its key');
SELECT isnt(pgqrs_trigger('keyed', idempotency_key => 'k'), :run::bigint, 'which is free');
SELECT deleted_at AS at FROM pgqrs_get_run(:run) \gset
SELECT pgqrs_delete_run(:run, 'again');
SELECT is((deleted_at, delete_reason)::text, format('("%s","a mistake")', :'at'), 'again: nothing changes') FROM pgqrs_get_run(:run);
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_complete_run(:run, :lease, '1'), pgqrs_delete_run(:run);
SELECT is((status, output, delete_reason, deleted_at IS NOT NULL)::text, '(SUCCESS,1,,t)', 'an ended one keeps what it is') FROM pgqrs_get_run(:run);
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_fail_run(:run, :lease, '{}'), pgqrs_delete_run(:run);
SELECT is(pg_temp.answer(format('SELECT pgqrs_replay_message(%s)', :run)), 'PQ004', 'it cannot be replayed');

SELECT * FROM finish();
