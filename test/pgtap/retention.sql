-- Retention: what goes, what stays, and when.
SELECT * FROM no_plan();
SET client_min_messages = error;

SELECT pgqrs_create_queue('q', retention => '1 day', dead_retention => '2 days', max_attempts => 1) AS q,
	pgqrs_create_queue('forever', retention => '366000 days', max_attempts => 1),
	pgqrs_create_workflow('flow', max_attempts => 1) AS flow, pgqrs_create_workflow('brief'),
		pgqrs_create_workflow('family'), pgqrs_create_queue('many') \gset
SELECT pgqrs_alter_queue('flow', retention => '1 day', dead_retention => '2 days'), pgqrs_alter_queue('brief',
	retention => '0', dead_retention => '0');

CREATE FUNCTION pg_temp.applied() RETURNS text LANGUAGE sql AS
$$ SELECT coalesce(string_agg(key || ' ' || value, ', ' ORDER BY key), 'nothing')
	FROM jsonb_each(pgqrs_apply_retention()) WHERE value NOT IN ('0', 'false') $$;
CREATE FUNCTION pg_temp.age(by interval, ids bigint[] = NULL) RETURNS void LANGUAGE sql AS
$$ UPDATE pgqrs_archive SET archived_at = archived_at - by WHERE ids IS NULL OR message_id = ANY (ids) $$;
-- A message that ended in each way.
CREATE FUNCTION pg_temp.message(queue text, how text) RETURNS bigint LANGUAGE plpgsql AS
$$
DECLARE
	m record;
BEGIN
	PERFORM pgqrs_enqueue(queue, '1');
	SELECT * INTO STRICT m FROM pgqrs_dequeue(queue);
	CASE how WHEN 'DONE' THEN PERFORM pgqrs_archive_message(m.message_id, m.lease);
		WHEN 'DELETED' THEN PERFORM pgqrs_delete_message(m.message_id, m.lease);
		WHEN 'DEAD' THEN PERFORM pgqrs_nack_message(m.message_id, m.lease);
	END CASE;
	RETURN m.message_id;
END
$$;
-- A run with a step, a signal and an event.
CREATE FUNCTION pg_temp.run(workflow text, how text, key text = NULL) RETURNS bigint LANGUAGE plpgsql AS
$$
DECLARE
	r record;
BEGIN
	PERFORM pgqrs_trigger(workflow, idempotency_key => key);
	SELECT * INTO STRICT r FROM pgqrs_dequeue(workflow);
	PERFORM pgqrs_step_begin(r.run_id, r.lease, 'one'), pgqrs_step_complete(r.run_id, r.lease, 'one', '1'),
		pgqrs_signal(r.run_id, 's');
	INSERT INTO pgqrs_run_events (event_id, run_id, at, event) SELECT nextval('pgqrs_event_id_seq'), r.run_id,
		clock_timestamp(), 'tested';
	CASE how WHEN 'SUCCESS' THEN PERFORM pgqrs_complete_run(r.run_id, r.lease);
		WHEN 'ERROR' THEN PERFORM pgqrs_fail_run(r.run_id, r.lease, '{}');
		WHEN 'CANCELLED' THEN PERFORM pgqrs_cancel_run(r.run_id), pgqrs_acknowledge_cancel(r.run_id, r.lease);
	END CASE;
	RETURN r.run_id;
END
$$;
CREATE FUNCTION pg_temp.rows_of(run bigint) RETURNS text LANGUAGE sql AS
$$ SELECT concat_ws(' ', (SELECT count(*) FROM pgqrs_workflow_runs WHERE run_id = run), (SELECT count(*)
	FROM pgqrs_workflow_steps WHERE run_id = run),
	(SELECT count(*) FROM pgqrs_run_signals WHERE run_id = run), (SELECT count(*) FROM pgqrs_run_events
		WHERE run_id = run), (SELECT count(*) FROM pgqrs_archive WHERE message_id = run)) $$;

SELECT is(pgqrs_apply_retention(), '{"messages_removed": 0, "runs_removed": 0, "firings_removed": 0, "more": false}',
	'retention finds nothing to remove in empty tables');

-- Messages.
CREATE TEMP TABLE kept AS SELECT queue || ' ' || how AS what, pg_temp.message(queue, how) AS id
	FROM unnest(ARRAY['q', 'forever']) queue, unnest(ARRAY['DONE', 'DELETED', 'DEAD']) how;
CREATE FUNCTION pg_temp.left() RETURNS text LANGUAGE sql AS $$ SELECT string_agg(what, ', ' ORDER BY what) FROM kept
	JOIN pgqrs_archive ON message_id = id $$;
SELECT pg_temp.age('23 h 59 min');
SELECT is(pg_temp.applied(), 'nothing', 'nothing is removed before its retention is over');
SELECT pg_temp.age('1 min');
SELECT is(pg_temp.applied(), 'messages_removed 2', 'messages that were archived a day ago are removed');
SELECT is(pg_temp.left(), 'forever DEAD, forever DELETED, forever DONE, q DEAD',
	'only done and deleted messages of the queue with a retention of a day are gone');
SELECT pg_temp.age('23 h 59 min');
SELECT is(pg_temp.applied(), 'nothing', 'a dead letter stays for its own retention');
SELECT pg_temp.age('1 min');
SELECT is(pg_temp.applied(), 'messages_removed 1', 'a dead letter is removed after two days');
SELECT pgqrs_alter_queue('forever', retention => '1 day');
SELECT is(pg_temp.applied(), 'messages_removed 2', 'a lowered retention holds for messages archived before');
DELETE FROM pgqrs_archive;

-- Runs.
CREATE TEMP TABLE runs AS SELECT how, pg_temp.run('flow', how, 'key ' || how) AS run
	FROM unnest(ARRAY['SUCCESS', 'ERROR', 'CANCELLED']) how;
SELECT run AS success FROM runs WHERE how = 'SUCCESS' \gset
SELECT is(pg_temp.rows_of(run), '1 1 1 1 1', 'a run of the test has a row in each table: ' || how) FROM runs;
SELECT pgqrs_delete_run(run) FROM runs WHERE how = 'CANCELLED';
SELECT pg_temp.age('1 day');
SELECT is(pgqrs_trigger('flow', idempotency_key => 'key SUCCESS'), :success::bigint,
	'the key of an ended run is taken as long as the run is kept');
SELECT is(pg_temp.applied(), 'runs_removed 2', 'runs that ended a day ago are removed, deleted ones too');
SELECT is(pg_temp.rows_of(run), CASE how WHEN 'ERROR' THEN '1 1 1 1 1' ELSE '0 0 0 0 0' END, CASE how
	WHEN 'ERROR' THEN 'every row stays of a run in ' ELSE 'no row is left of a run in ' END || how) FROM runs;
SELECT throws_ok(format('SELECT %s(%s)', call, :success), 'PQ003', NULL, call || '() does not find a removed run')
	FROM unnest(ARRAY['pgqrs_get_run', 'pgqrs_result', 'pgqrs_rerun', 'pgqrs_list_steps', 'pgqrs_cancel_run',
	'pgqrs_delete_run']) call;
SELECT throws_ok(format('SELECT pgqrs_signal(%s, ''s'')', :success), 'PQ003', NULL,
	'pgqrs_signal() does not find a removed run');
SELECT throws_ok(format('SELECT pgqrs_replay_message(%s)', :success), 'PQ004', NULL,
	'pgqrs_replay_message() does not find a removed run');
SELECT is(pgqrs_find_run('flow', 'key SUCCESS'), NULL::bigint, 'the key of a removed run is found no longer');
SELECT isnt(pgqrs_trigger('flow', idempotency_key => 'key SUCCESS'), :success::bigint,
	'the key of a removed run is free for another run');
SELECT pg_temp.age('1 day');
SELECT is(pg_temp.applied(), 'runs_removed 1', 'a run in ERROR is removed after the retention of dead letters');
SELECT is((SELECT count(*) FROM pgqrs_workflow_runs), 1::bigint, 'a run that has not ended stays');

-- However old, never one that has not ended: not even where the archive says so.
SELECT pg_temp.run('flow', 'SUCCESS') AS wrong \gset
SELECT pg_temp.age('1 day'); -- newer than what this session has removed, so that it looks at it
UPDATE pgqrs_workflow_runs SET status = 'RUNNING' WHERE run_id = :wrong;
SELECT is(pg_temp.applied(), 'nothing',
	'a run that has not ended is not removed, even if the archive has its message');
SELECT is(pg_temp.rows_of(:wrong), '1 1 1 1 1', 'a run that was not removed has each of its rows');
DELETE FROM pgqrs_archive;

-- A letter that was thrown away.
SELECT pg_temp.run('flow', 'ERROR') AS purged \gset
SELECT is(pgqrs_purge_dead_letters('flow', '0'), 1::bigint, 'a dead letter is purged');
SELECT is(pgqrs_purge_dead_letters('flow', '0'), 0::bigint, 'a dead letter is purged once');
SELECT is((SELECT count(*) FROM pgqrs_dead_letters), 0::bigint, 'a purged run is no dead letter');
SELECT throws_ok(format('SELECT pgqrs_replay_message(%s)', :purged), 'PQ004', NULL,
	'a purged run cannot be replayed');
SELECT is(status, 'ERROR', 'a purged run can still be read') FROM pgqrs_result(:purged);
UPDATE pgqrs_archive SET archived_at = archived_at - interval '1 day';
SELECT is(pgqrs_apply_retention()->>'runs_removed', '1', 'a purged run is removed after the usual retention');
SELECT is((SELECT count(*) FROM pgqrs_workflow_runs WHERE status = 'ERROR'), 0::bigint, 'no run in ERROR is left');

-- What is needed yet.
SELECT pgqrs_trigger('family') AS parent \gset
SELECT lease FROM pgqrs_dequeue('family') \gset
SELECT pgqrs_start_child(:parent, :lease, 'child', 'brief') AS child \gset
SELECT pgqrs_complete_run(run_id, lease, '"precious"') FROM pgqrs_dequeue('brief');
UPDATE pgqrs_archive SET archived_at = archived_at - interval '10 days' WHERE message_id = :child;
SELECT is(pgqrs_apply_retention()->>'runs_removed', '0', 'a child is kept as long as its parent goes on');
SELECT is(output, '"precious"', 'a parent reads the result of a child that ended long ago')
	FROM pgqrs_await_child(:parent, :lease, 'child');
SELECT pgqrs_fail_run(:parent, :lease, '{}');
SELECT is(pgqrs_apply_retention()->>'runs_removed', '0',
	'a child is kept as long as its failed parent may be replayed');
UPDATE pgqrs_archive SET waiting_for = 'children:0', archived_at = archived_at - interval '40 days'
	WHERE message_id = :parent;
SELECT is(pgqrs_apply_retention()->>'runs_removed', '0',
	'a parent is kept as long as its children are to be cancelled');
UPDATE pgqrs_archive SET waiting_for = NULL WHERE message_id = :parent;
SELECT is(pgqrs_apply_retention()->>'runs_removed', '1', 'the parent is removed before its child');
SELECT is(pgqrs_apply_retention()->>'runs_removed', '1', 'the child is removed after its parent');

-- A retention of 0: a client that waits still reads the result.
SELECT pgqrs_trigger('brief') AS brief \gset
SELECT pgqrs_complete_run(run_id, lease) FROM pgqrs_dequeue('brief');
SELECT is(pgqrs_apply_retention()->>'runs_removed', '0', 'a run of a workflow without retention is kept at first');
SELECT is(status, 'SUCCESS', 'the result of a run without retention can be read for a minute')
	FROM pgqrs_result(:brief);
UPDATE pgqrs_archive SET archived_at = archived_at - interval '1 min' WHERE message_id = :brief;
SELECT is(pgqrs_apply_retention()->>'runs_removed', '1', 'a run without retention is removed after a minute');

-- Firings of schedules.
SELECT pgqrs_schedule('nightly', '0 0 * * *', 'flow') AS nightly \gset
INSERT INTO pgqrs_schedule_firings (schedule_id, slot, fired_at) SELECT :nightly, at, at
	FROM generate_series(clock_timestamp() - interval '240 h 1 min', clock_timestamp(), '12 h') at;
SELECT is(pgqrs_apply_retention()->>'firings_removed', '19',
	'firings older than the workflow''s retention of a day are removed');
SELECT pgqrs_alter_queue('flow', retention => '0');
SELECT is(pgqrs_apply_retention()->>'firings_removed', '0', 'firings are kept for a day at least');

-- A pass is bounded, the next one goes on, and what was skipped is tried again.
DELETE FROM pgqrs_archive;
INSERT INTO pgqrs_archive (message_id, queue_id, archived_at, visible_after, enqueued_at, attempt, failures, outcome,
	priority)
	SELECT g, (SELECT queue_id FROM pgqrs_queues WHERE name = 'many'),
		'2020-01-01'::timestamptz + g * interval '1 ms', '2020-01-01', '2020-01-01', 1, 0, CASE g % 3
		WHEN 0 THEN 'DEAD' ELSE 'DONE' END::pgqrs_outcome, 0
	FROM generate_series(1000001, 1025000) g;
CREATE FUNCTION pg_temp.passes() RETURNS TABLE (removed bigint) LANGUAGE plpgsql AS
$$
DECLARE
	pass jsonb;
BEGIN
	LOOP
		pass := pgqrs_apply_retention();
		removed := pass->>'messages_removed';
		RETURN NEXT;
		EXIT WHEN NOT (pass->>'more')::bool;
	END LOOP;
END
$$;
SELECT ok(max(removed) <= 10000 AND count(*) >= 3 AND sum(removed) = 25000,
	'a pass is bounded, tells that there is more, and the next pass goes on') FROM pg_temp.passes();
SELECT is((SELECT count(*) FROM pgqrs_archive), 0::bigint, 'the passes have removed every message');

SELECT * FROM finish();
