-- Rows of pgqrs_health about queues and runs: what makes each red, and green again.
-- Stopped workers: when they leave the view, and when the table.
SELECT no_plan();
\ir include/runs.sql
CREATE FUNCTION pg_temp.row(item text) RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws(' | ', value, ok) FROM pgqrs_health AS h WHERE h.item = row.item
$$;
SELECT pgqrs_create_queue('q') AS q, pgqrs_create_workflow('flow') \gset
SELECT is(pg_temp.row('queues that stand still'), '0 | t', 'no queue stands still without messages');
SELECT pgqrs_enqueue('q', '1') AS id, pgqrs_enqueue('q', '2') \g /dev/null
SELECT is(pg_temp.row('queues that stand still'), '0 | t', 'a message that is due for a moment is no trouble');
UPDATE pgqrs_messages SET visible_after = now() - interval '6 min' WHERE queue_id = :q;
SELECT is(pg_temp.row('queues that stand still'), 'q | f', 'a queue stands still whose messages are due for 6 minutes');
SELECT message_id, lease FROM pgqrs_dequeue('q') \gset
SELECT is(pg_temp.row('queues that stand still'), '0 | t', 'a queue with a claim does not stand still');
SELECT pgqrs_archive_message(:message_id, :lease) \g /dev/null
SELECT is(pg_temp.row('queues that stand still'), '0 | t', 'a queue whose message has ended does not stand still');
UPDATE pgqrs_archive SET archived_at = now() - interval '6 min';
SELECT is(pg_temp.row('queues that stand still'), 'q | f',
	'a queue whose last message ended 6 minutes ago stands still');
CREATE ROLE health_stranger;
SELECT pgqrs_grant('flow', 'health_stranger', 'monitor') \g /dev/null
SET ROLE health_stranger;
SELECT is((SELECT value FROM pgqrs_health WHERE item = 'queues that stand still'), '0',
	'a role is not told of queues that it may not monitor');
RESET ROLE;
SELECT pgqrs_revoke('flow', 'health_stranger', 'monitor') \g /dev/null
DROP OWNED BY health_stranger;
DROP ROLE health_stranger;

SELECT is(pg_temp.row('oldest parked run'), 'none | t', 'no run waits');
SELECT pgqrs_trigger('flow') AS run \gset
SELECT pg_temp.claim(:run) AS lease \gset
SELECT pgqrs_await_signal(:run, :lease, 's', 'go') \g /dev/null
SELECT matches(pg_temp.row('oldest parked run'), format('^%s, since .* \| t$', :run),
	'the oldest run that waits is named');
UPDATE pgqrs_workflow_runs SET paused_at = now() - interval '8 days' WHERE run_id = :run;
SELECT matches(pg_temp.row('oldest parked run'), format('^%s, since .* \| f$', :run),
	'a run that waits for 8 days needs a look');
SELECT pgqrs_signal(:run, 'go') \g /dev/null
SELECT pgqrs_cancel_run(:run) \g /dev/null
SELECT is(pg_temp.row('oldest parked run'), 'none | t', 'a run that has ended does not wait');

-- workers
SELECT pgqrs_register_worker('named', '{flow}') AS named, pgqrs_register_worker('gone', '{flow}') AS gone,
	pgqrs_register_worker('recent', '{flow}') AS recent, pgqrs_register_worker('live', '{flow}') AS live \gset
SELECT pgqrs_trigger('flow') AS run \gset
SELECT pgqrs_complete_run(run_id, lease) FROM pgqrs_dequeue('flow', :named) \g /dev/null
SELECT pgqrs_stop_worker(id) FROM unnest(ARRAY[:named, :gone, :recent]::bigint[]) AS id \g /dev/null
SELECT is(count(*), 4::bigint, 'a worker that has just stopped is in the view') FROM pgqrs_worker_stats;
UPDATE pgqrs_workers SET stopped_at = now() - interval '61 min' WHERE worker_id = :recent;
SELECT is(string_agg(worker, ' ' ORDER BY worker), 'gone live named', 'a worker that stopped an hour ago left the view')
	FROM pgqrs_worker_stats;
UPDATE pgqrs_workers SET stopped_at = now() - interval '8 days' WHERE worker_id IN (:named, :gone);
UPDATE pgqrs_workers SET stopped_at = now() - interval '6 days' WHERE worker_id = :recent;
UPDATE pgqrs_workflow_runs SET created_at = now() - interval '9 days' WHERE run_id = :run;
SELECT pgqrs_apply_retention() \g /dev/null
SELECT is(string_agg(name, ' ' ORDER BY name), 'live named recent',
	'a worker that stopped 7 days ago is removed, unless a run names it') FROM pgqrs_workers;
SELECT is((SELECT worker FROM pgqrs_get_run(:run)), 'named', 'the run names its worker');
SELECT is_empty('SELECT * FROM pgqrs_verify() WHERE NOT ok', 'the tables say only what they can');
SELECT * FROM finish();
