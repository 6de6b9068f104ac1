-- Cancelling runs: at once, on request, many; acknowledging, deleting.  F27.
-- F-numbers: docs/design/known-failures.md.
\ir include/runs.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_workflow('job', visibility_timeout => '10 min', max_attempts => 3), pgqrs_create_workflow('keyed',
	key_scope => 'retained') \g /dev/null

CREATE FUNCTION pg_temp.state(run bigint) RETURNS text LANGUAGE sql AS
$$
	SELECT concat_ws(', ', r.status, r.cancel_reason, CASE WHEN r.cancel_requested_at IS NOT NULL THEN 'asked' END,
		CASE WHEN m.lease IS NOT NULL THEN 'held' END, a.outcome)
	FROM pgqrs_workflow_runs r LEFT JOIN pgqrs_messages m USING (run_id) LEFT JOIN pgqrs_archive a USING (run_id)
		WHERE r.run_id = run
$$;

-- At once.
SELECT pgqrs_trigger('job') AS run \gset
SELECT is(pgqrs_cancel_run(:run, 'not needed'), 'CANCELLED', 'cancelling a queued run says that it is CANCELLED');
SELECT is(pg_temp.state(:run), 'CANCELLED, not needed, CANCELLED',
	'cancelling a queued run ends the run and its message');
SELECT ok(completed_at IS NOT NULL AND started_at IS NULL AND output IS NULL AND error IS NULL,
	'a run cancelled before its start has neither output nor error') FROM pgqrs_get_run(:run);
SELECT is(pgqrs_cancel_run(:run, 'again'), 'CANCELLED', 'cancelling a cancelled run again says CANCELLED');
SELECT is(cancel_reason, 'not needed', 'a repeated cancellation keeps the first reason') FROM pgqrs_get_run(:run);

-- On request.
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_step_begin(:run, :lease, 'one') \g /dev/null
SELECT is(pgqrs_cancel_run(:run, 'stop'), 'RUNNING', 'cancelling a run under a live lease leaves it RUNNING');
SELECT is(pg_temp.state(:run), 'RUNNING, stop, asked, held',
	'cancelling a run under a live lease stores the request and keeps the lease');
SELECT cancel_requested_at AS at FROM pgqrs_get_run(:run) \gset
SELECT is(pgqrs_cancel_run(:run, 'again'), 'RUNNING', 'a repeated request leaves the run RUNNING');
SELECT is((cancel_requested_at, cancel_reason)::text, format('("%s",stop)', :'at'),
	'a repeated request keeps the time and reason of the first one') FROM pgqrs_get_run(:run);
SELECT is(pgqrs_extend_lease(:run, :lease)::text, '(t,t)', 'extending the lease tells the worker of the request');
SELECT is(pgqrs_extend_lease(:run, :lease)::text, '(t,t)', 'each extension tells the worker of the request again');
SELECT is(left(pg_temp.answer(format('SELECT ' || call, :run, :lease)), 5), 'PQ010',
	'a worker that was asked to stop cannot go on: ' || call)
	FROM unnest(ARRAY['pgqrs_step_begin(%s, %s, ''two'')', 'pgqrs_step_begin(%s, %s, ''one'')',
		'pgqrs_pause_run(%s, %s, ''p'')', 'pgqrs_sleep(%s, %s, ''s'', ''0'')',
		'pgqrs_await_signal(%s, %s, ''w'', ''go'', ''0'')']) call;
SELECT lives_ok(format('SELECT pgqrs_step_complete(%s, %s, ''one'')', :run, :lease),
	'a worker that was asked to stop can still complete the step that it has begun');
SELECT lives_ok(format('SELECT pgqrs_set_progress(%s, %s, ''1'')', :run, :lease),
	'a worker that was asked to stop can still report progress');
SELECT lives_ok(format('SELECT pgqrs_acknowledge_cancel(%s, %s, ''"cleaned up"'')', :run, :lease),
	'a worker acknowledges the request');
SELECT is((pg_temp.state(:run), output)::text, '("CANCELLED, stop, asked, CANCELLED","""cleaned up""")',
	'an acknowledged request ends the run as CANCELLED with the given output') FROM pgqrs_get_run(:run);
SELECT is(pg_temp.answer(format('SELECT pgqrs_acknowledge_cancel(%s, %s, ''2'')', :run, :lease)), '',
	'a repeated acknowledgement, of which the answer was lost, succeeds');
SELECT is(output, '"cleaned up"', 'a repeated acknowledgement keeps the first output') FROM pgqrs_get_run(:run);
SELECT is(pg_temp.answer(format('SELECT pgqrs_step_complete(%s, %s, ''two'')', :run, :lease)), 'PQ010',
	'another call under the lease of a cancelled run is told of the cancellation');

SELECT * FROM pg_temp.start('job') \gset
SELECT is(pg_temp.answer(format('SELECT pgqrs_acknowledge_cancel(%s, %s)', :run, :lease)),
	'PQ016 The status is RUNNING.',
	'acknowledging is refused without a request');
SELECT pgqrs_cancel_run(:run) \g /dev/null
SELECT is(pg_temp.answer(format('SELECT pgqrs_acknowledge_cancel(%s, 1)', :run)), 'PQ006',
	'acknowledging is refused under another lease');
SELECT lives_ok(format('SELECT pgqrs_acknowledge_cancel(%s, %s)', :run, :lease),
	'an acknowledgement needs no output');
SELECT is(output, NULL, 'a run cancelled without an output has none') FROM pgqrs_get_run(:run);

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
SELECT is(pg_temp.ends(call), result, 'a run with a cancel request ends by ' || call) FROM (VALUES
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
SELECT is(pgqrs_stop_worker(:w), 1::bigint, 'pgqrs_stop_worker() releases the worker''s run');
SELECT is(pg_temp.state(:run), 'CANCELLED, asked, CANCELLED',
	'a run with a cancel request is CANCELLED when its worker stops');
SELECT pgqrs_register_worker('w', '{job}') AS w \gset
SELECT pgqrs_trigger('job') AS run \gset
SELECT lease FROM pgqrs_dequeue('job', :w) \gset
SELECT pgqrs_cancel_run(:run), pgqrs_register_worker('w', '{job}') \g /dev/null
SELECT is(pg_temp.state(:run), 'CANCELLED, asked, CANCELLED',
	'a run with a cancel request is CANCELLED when its worker registers anew');

-- Expired, before a retry, waiting: no worker is asked to stop.
SELECT run, pg_temp.due(run) FROM pg_temp.start('job') \gset
SELECT is(pgqrs_cancel_run(:run), 'CANCELLED', 'cancelling a run whose lease has run out ends it at once');
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_fail_run(:run, :lease, '{}', true, '1 h') \g /dev/null
SELECT is(pgqrs_cancel_run(:run), 'CANCELLED', 'cancelling a run that waits for a retry ends it at once');
SELECT is(error, NULL, 'cancelling a run that waits for a retry leaves it without an error') FROM pgqrs_get_run(:run);
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_await_signal(:run, :lease, 'w', 'go') \g /dev/null
SELECT is(pgqrs_cancel_run(:run), 'CANCELLED', 'cancelling a run that waits for a signal ends it at once');
SELECT is((waiting_for, paused_at)::text, '(,)', 'a cancelled run waits for nothing') FROM pgqrs_get_run(:run);

-- Many.
UPDATE pgqrs_messages SET visible_after = 'infinity'; -- what is left is not ours
SELECT pgqrs_create_workflow('many') \g /dev/null
SELECT pgqrs_trigger_batch('many', array_fill('1'::jsonb, '{6}'), tags => '{"team": "a", "n": 1}'),
	pgqrs_trigger_batch('many', array_fill('1'::jsonb, '{6}'), tags => '{"team": "b"}'), pgqrs_trigger_batch('many',
	array_fill('1'::jsonb, '{2}')) \g /dev/null
SELECT count(*) FROM pgqrs_dequeue('many', batch_size => 2) \g /dev/null
SELECT is((SELECT changed FROM pgqrs_cancel_runs('many', tags => '{"team": "c"}')), 0::bigint,
	'pgqrs_cancel_runs() passes over runs without the given tags');
SELECT is((SELECT changed FROM pgqrs_cancel_runs('many', 'PAUSED')), 0::bigint,
	'pgqrs_cancel_runs() passes over runs of another status');
SELECT is((SELECT changed FROM pgqrs_cancel_runs('many', 'SUCCESS')), 0::bigint,
	'pgqrs_cancel_runs() changes nothing for the status of an ended run');
SELECT is((SELECT changed FROM pgqrs_cancel_runs('many', 'RUNNING', '{"team": "b"}')), 0::bigint,
	'pgqrs_cancel_runs() needs both the status and the tags to match');
SELECT is((SELECT changed FROM pgqrs_cancel_runs('many', tags => '{"team": "b"}', max_rows => 2)), 2::bigint,
	'pgqrs_cancel_runs() stops at max_rows');
SELECT is((SELECT changed FROM pgqrs_cancel_runs('many', tags => '{"team": "b"}')), 4::bigint,
	'the next pgqrs_cancel_runs() cancels the rest with these tags');
SELECT is((SELECT changed FROM pgqrs_cancel_runs('many', 'RUNNING')), 2::bigint,
	'pgqrs_cancel_runs() asks runs under a live lease to stop');
SELECT is((SELECT changed FROM pgqrs_cancel_runs('many', 'RUNNING')), 0::bigint,
	'pgqrs_cancel_runs() does not count runs that have been asked before');
SELECT is((SELECT changed FROM pgqrs_cancel_runs('many', tags => '{"team": "a"}', max_rows => 100)), 4::bigint,
	'max_rows counts cancelled runs only, not those that were asked before');
SELECT is((SELECT changed FROM pgqrs_cancel_runs('many')), 2::bigint,
	'pgqrs_cancel_runs() without tags cancels runs that have none');
SELECT results_eq($$SELECT status, count(*) FROM pgqrs_runs WHERE workflow = 'many' GROUP BY 1 ORDER BY 1$$,
	$$VALUES ('CANCELLED', 12::bigint), ('RUNNING', 2)$$,
	'every run of the workflow is cancelled, but for the two that were asked');
SELECT count(pgqrs_trigger_batch('many', array_fill('1'::jsonb, '{1500}'))) \g /dev/null
SELECT is((SELECT changed FROM pgqrs_cancel_runs('many')), 1000::bigint,
	'pgqrs_cancel_runs() cancels a thousand runs unless told otherwise');
SELECT is((SELECT changed FROM pgqrs_cancel_runs('many', max_rows => 2000)), 500::bigint,
	'max_rows above a thousand is obeyed');

-- Page by page, in ascending order; by error and by time of creation.
SELECT runs[1] AS r1, runs[2] AS r2, runs[3] AS r3, runs[4] AS r4, runs[5] AS r5 FROM pgqrs_trigger_batch('many',
	array_fill('1'::jsonb, '{4}')) b, LATERAL (SELECT b || pgqrs_trigger('many', priority => 1) AS runs) r \gset
SELECT results_eq('SELECT changed, skipped, last_run_id FROM pgqrs_cancel_runs(''many'', max_rows => 2, reason => '
	'''a flood'')', format('VALUES (2::bigint, 0::bigint, %s::bigint)', :r2),
	'pgqrs_cancel_runs() goes by ascending ids, whatever the priority');
SELECT is((status, cancel_reason)::text, '(CANCELLED,"a flood")', 'pgqrs_cancel_runs() stores its reason in each run')
	FROM pgqrs_get_run(:r2);
SELECT results_eq(format('SELECT * FROM pgqrs_cancel_runs(''many'', max_rows => 2, after_run_id => %s)', :r3),
	'VALUES (2::bigint, 0::bigint, NULL::bigint)',
	'after_run_id skips runs up to that id, and the last page returns no id');
SELECT results_eq('SELECT * FROM pgqrs_cancel_runs(''many'', max_rows => 0)',
	'VALUES (0::bigint, 0::bigint, NULL::bigint)', 'max_rows 0 returns no id, so that a loop over pages ends');
SELECT is(status, 'QUEUED', 'a run before after_run_id, or with max_rows 0, stays QUEUED') FROM pgqrs_get_run(:r3);
SELECT created_at AS c3 FROM pgqrs_get_run(:r3) \gset
SELECT is((SELECT changed FROM pgqrs_cancel_runs('many', created_before => :'c3')), 0::bigint,
	'created_before excludes a run created at that instant');
SELECT is((SELECT changed FROM pgqrs_cancel_runs('many', created_after => :'c3'::timestamptz + interval '1 us')),
	0::bigint, 'created_after excludes a run created before that instant');
SELECT message_id AS failed, pgqrs_fail_run(message_id, lease, '{"type": "smtp"}', true, '1 h') IS NOT NULL AS failing
	FROM pgqrs_dequeue('many') \gset
SELECT is((SELECT changed FROM pgqrs_cancel_runs('many', error_type => 'smt')), 0::bigint,
	'error_type does not match a part of the error''s type');
SELECT pgqrs_trigger('many') \g /dev/null
SELECT results_eq(format('SELECT changed, skipped, last_run_id FROM pgqrs_cancel_runs(''many'', error_type => '
	'''smtp'', created_after => %L)', :'c3'), 'VALUES (1::bigint, 0::bigint, NULL::bigint)',
	'error_type and created_after match the run that failed with it, created at that instant');
SELECT is((SELECT changed FROM pgqrs_cancel_runs('many')), 1::bigint,
	'error_type has left the run without an error QUEUED');

-- Deleted.
SELECT pgqrs_trigger('keyed', idempotency_key => 'k') AS run \gset
SELECT lease FROM pgqrs_dequeue('keyed') \gset
SELECT lives_ok(format('SELECT pgqrs_delete_run(%s, ''a mistake'')', :run),
	'a run can be deleted under a live lease');
SELECT is((status, cancel_reason, delete_reason, deleted_at >= completed_at)::text,
	'(CANCELLED,"a mistake","a mistake",t)', 'deleting a running run cancels it with the reason of the deletion')
	FROM pgqrs_get_run(:run);
SELECT is(pg_temp.answer(format('SELECT pgqrs_complete_run(%s, %s)', :run, :lease)), 'PQ010',
	'the worker of a deleted run is told of the cancellation');
SELECT is_empty(format('SELECT * FROM pgqrs_list_runs(''keyed'') WHERE run_id = %s', :run),
	'a deleted run is not listed');
SELECT is(pgqrs_find_run('keyed', 'k'), NULL, 'a deleted run is not found by its idempotency key');
SELECT isnt(pgqrs_trigger('keyed', idempotency_key => 'k'), :run::bigint,
	'the idempotency key of a deleted run is free');
SELECT deleted_at AS at FROM pgqrs_get_run(:run) \gset
SELECT pgqrs_delete_run(:run, 'again');
SELECT is((deleted_at, delete_reason)::text, format('("%s","a mistake")', :'at'),
	'deleting a deleted run again keeps the first time and reason') FROM pgqrs_get_run(:run);
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_complete_run(:run, :lease, '1'), pgqrs_delete_run(:run);
SELECT is((status, output, delete_reason, deleted_at IS NOT NULL)::text, '(SUCCESS,1,,t)',
	'deleting an ended run keeps its status and output') FROM pgqrs_get_run(:run);
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_fail_run(:run, :lease, '{}'), pgqrs_delete_run(:run);
SELECT is(pg_temp.answer(format('SELECT pgqrs_replay_message(%s)', :run)), 'PQ004',
	'a deleted run cannot be replayed');

SELECT * FROM finish();
