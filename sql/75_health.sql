-- The health of pgqrs, for roles with any privilege; what concerns queues, of
-- those that the role may monitor.  ok is
-- NULL if it is not known; if it is false, the hint says what to do.

CREATE FUNCTION @extschema@.pgqrs_floor_stats(
	OUT preloaded boolean, OUT floors integer, OUT max_floors integer,
	OUT raised bigint, OUT lowered bigint, OUT looked bigint, OUT claimed bigint,
	OUT displaced_at timestamptz
) RETURNS record
LANGUAGE c VOLATILE PARALLEL SAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_floor_stats';
COMMENT ON FUNCTION @extschema@.pgqrs_floor_stats() IS
'Statistics of the floors at which claims start. preloaded: whether the library is; if not, all else is NULL. floors of max_floors are in use, by all databases. displaced_at: the last time that a floor which was used within a minute made room for the floor of another queue, NULL if never. Of this database, since the server started: raised and lowered, how often claims raised a floor and pgqrs_maintain() lowered one; looked and claimed, how many index entries claims read for how many messages. Needs monitor.';

CREATE FUNCTION @extschema@.pgqrs_background_stats(
	OUT idle_reason text, OUT pid integer, OUT failures integer, OUT retry_at timestamptz,
	OUT due timestamptz, OUT last_pass timestamptz, OUT passes bigint, OUT done text,
	OUT failing text, OUT went_back_by interval, OUT went_back_at timestamptz, OUT realigning boolean,
	OUT unconfirmed interval, OUT confirmed_at timestamptz
) RETURNS record
LANGUAGE c VOLATILE PARALLEL SAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_background_stats';
COMMENT ON FUNCTION @extschema@.pgqrs_background_stats() IS
'The state of background work in this database. idle_reason: why no background work runs, or NULL (not preloaded, standby, subscriber, not in pgqrs.databases, too many databases, paused, version, no launcher). pid: that of the background worker, which runs only while a duty is due; 0 for a role that is not a member of pg_read_all_stats. failures: consecutive ones of background workers, and when the next one is started. due: when a background worker is needed next, NULL if no duty is known to be due. Since the server started: last_pass, passes and their counts. failing: the duties whose last batch failed, each with its error and its retry, the error''s message only for the extension''s owner and members of pg_read_all_stats; NULL if none failed. went_back_by, went_back_at: the last step back of the clock that this server has seen, and the clock after it. realigning: whether the background worker still has to search for rows that were written while the clock was ahead. unconfirmed: time that this server has not seen pass, because it was down or the clock was set forward; retention does not count it before confirmed_at, NULL without such time. Needs monitor.';

CREATE FUNCTION @extschema@.pgqrs_old_sessions() RETURNS TABLE (
	pid integer, kind text, role text, application_name text, state text, query text,
	transactions integer, began timestamptz
)
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT ROWS 10
AS 'MODULE_PATHNAME', 'sql_old_sessions';
COMMENT ON FUNCTION @extschema@.pgqrs_old_sessions() IS
'Sessions that keep vacuum of this database from removing rows that were deleted since they began: how many transactions ago that was, and when. The columns that identify a session are NULL except for members of its role and of pg_read_all_stats. Without this session and autovacuum workers. Needs monitor.';

CREATE VIEW @extschema@.pgqrs_health WITH (security_barrier) AS
	SELECT h.item, h.value, h.ok, CASE WHEN NOT h.ok THEN h.hint END AS hint
	FROM @extschema@.pgqrs_floor_stats() AS f
		CROSS JOIN @extschema@.pgqrs_background_stats() AS b
		CROSS JOIN (
			SELECT @extschema@.pgqrs_version() AS library, e.extversion COLLATE pg_catalog."default" AS installed
			FROM pg_catalog.pg_extension AS e
			WHERE e.extname = 'pgqrs'
		) AS v
		CROSS JOIN (
			SELECT pg_catalog.pg_stat_get_dead_tuples('@extschema@.pgqrs_messages'::pg_catalog.regclass) AS dead,
				pg_catalog.pg_stat_get_live_tuples('@extschema@.pgqrs_messages'::pg_catalog.regclass) AS live
		) AS m
		CROSS JOIN pg_catalog.pg_notification_queue_usage() AS n (usage)
		CROSS JOIN (
			SELECT pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE') AS visible
		) AS s
		CROSS JOIN (
			SELECT pg_catalog.string_agg(pg_catalog.format('%s_written', c.relname), ', ' ORDER BY c.relname) AS demoted
			FROM pg_catalog.pg_class AS c
			WHERE c.oid = ANY (ARRAY['@extschema@.pgqrs_queues', '@extschema@.pgqrs_messages', '@extschema@.pgqrs_workflows', '@extschema@.pgqrs_schedules', '@extschema@.pgqrs_grants']::pg_catalog.regclass[]::pg_catalog.oid[])
				AND NOT EXISTS (SELECT FROM pg_catalog.pg_trigger AS t
					WHERE t.tgrelid = c.oid AND t.tgname = pg_catalog.format('%s_written', c.relname) AND t.tgenabled = 'A')
		) AS g
		CROSS JOIN (
			-- also for a view: a role that may write the view could write the table;
			-- the check "open tables" of pgqrs_verify() lists the same rights
			SELECT pg_catalog.count(DISTINCT c.oid) AS count
			FROM pg_catalog.pg_depend AS d
				JOIN pg_catalog.pg_class AS c ON c.oid = d.objid AND c.relkind IN ('r', 'v', 'S')
				CROSS JOIN LATERAL (
					SELECT a.grantee, a.privilege_type FROM pg_catalog.aclexplode(c.relacl) AS a
					UNION ALL
					SELECT a.grantee, a.privilege_type FROM pg_catalog.pg_attribute AS t CROSS JOIN LATERAL pg_catalog.aclexplode(t.attacl) AS a WHERE t.attrelid = c.oid
				) AS a
			WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid AND d.deptype = 'e'
				AND d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass::pg_catalog.oid
				AND d.refobjid = (SELECT e.oid FROM pg_catalog.pg_extension AS e WHERE e.extname = 'pgqrs')
				AND a.grantee <> c.relowner AND NOT (c.relkind = 'v' AND a.privilege_type = 'SELECT')
		) AS r
		CROSS JOIN (
			SELECT pg_catalog.count(*) AS count, pg_catalog.min(l.name) AS name
			FROM @extschema@.pgqrs_schedules AS l
				JOIN @extschema@.pgqrs_queues AS q ON q.name = l.workflow
			WHERE l.enabled AND @extschema@.pgqrs_may_monitor(q.queue_id) AND NOT @extschema@.pgqrs_schedule_may_fire(l.schedule_id)
		) AS l
		LEFT JOIN LATERAL (
			-- rows that were deleted since then are not removed
			SELECT x.holder, x.transactions, x.open_for
			FROM (
				SELECT CASE WHEN a.pid IS NULL THEN 'another session' ELSE pg_catalog.concat_ws(', ',
						pg_catalog.format('pid %s (%s)', a.pid, a.kind), 'role ' || a.role, a.application_name, a.state,
						pg_catalog.left(pg_catalog.regexp_replace(a.query, '\s+', ' ', 'g'), 60)) END AS holder,
					a.transactions, @extschema@.pgqrs_elapsed(a.began, pg_catalog.clock_timestamp()) AS open_for
				FROM @extschema@.pgqrs_old_sessions() AS a
				UNION ALL
				SELECT CASE WHEN s.visible OR pg_catalog.pg_has_role(p.owner, 'USAGE') THEN pg_catalog.format('prepared transaction %L', p.gid)
						ELSE 'a prepared transaction' END,
					pg_catalog.age(p.transaction), @extschema@.pgqrs_elapsed(p.prepared, pg_catalog.clock_timestamp())
				FROM pg_catalog.pg_prepared_xacts AS p
				WHERE p.database = pg_catalog.current_database()
				UNION ALL
				SELECT CASE WHEN s.visible THEN pg_catalog.format('replication slot %L', r.slot_name) ELSE 'a replication slot' END,
					pg_catalog.age(r.xmin), NULL
				FROM pg_catalog.pg_replication_slots AS r
			) AS x
			WHERE x.transactions IS NOT NULL
			ORDER BY x.transactions DESC, x.open_for DESC NULLS LAST
			LIMIT 1
		) AS o ON true
		CROSS JOIN (
			SELECT pg_catalog.count(*) AS ahead
			FROM (
				SELECT n.queue_id, n.enqueued_at, n.dequeued_at
				FROM @extschema@.pgqrs_messages AS n
				ORDER BY n.message_id DESC
				LIMIT 1000
			) AS n
			WHERE GREATEST(n.enqueued_at, n.dequeued_at) > @extschema@.pgqrs_now() + interval '5 s'
				AND @extschema@.pgqrs_may_monitor(n.queue_id)
		) AS w
		CROSS JOIN (
			-- something is due for five minutes, and nothing was claimed or ended since
			SELECT pg_catalog.count(*) AS count, pg_catalog.array_to_string((pg_catalog.array_agg(q.name ORDER BY q.name))[1:5], ', ') AS names
			FROM @extschema@.pgqrs_queues AS q
				CROSS JOIN (SELECT @extschema@.pgqrs_now() - interval '5 min' AS since) AS c
			WHERE @extschema@.pgqrs_may_monitor(q.queue_id)
				AND EXISTS (SELECT FROM @extschema@.pgqrs_messages AS d WHERE d.queue_id = q.queue_id AND d.visible_after < c.since)
				AND NOT EXISTS (SELECT FROM @extschema@.pgqrs_messages AS d WHERE d.queue_id = q.queue_id AND d.visible_after > c.since AND d.dequeued_at > c.since)
				AND NOT EXISTS (SELECT FROM @extschema@.pgqrs_archive AS d WHERE d.queue_id = q.queue_id AND d.outcome <> 'DEAD' AND d.archived_at > c.since)
				AND NOT EXISTS (SELECT FROM @extschema@.pgqrs_archive AS d WHERE d.queue_id = q.queue_id AND d.outcome = 'DEAD' AND d.archived_at > c.since)
		) AS still
		LEFT JOIN LATERAL (
			-- of the oldest live messages; a sleep ends by itself
			SELECT r.run_id, r.waiting_for, r.paused_at
			FROM (
				SELECT d.run_id, d.queue_id FROM @extschema@.pgqrs_messages AS d WHERE d.run_id IS NOT NULL ORDER BY d.message_id LIMIT 1000
			) AS d
				JOIN @extschema@.pgqrs_workflow_runs AS r ON r.run_id = d.run_id
			WHERE r.status = 'PAUSED' AND r.waiting_for NOT LIKE 'sleep%' AND @extschema@.pgqrs_may_monitor(d.queue_id)
			ORDER BY r.paused_at
			LIMIT 1
		) AS parked ON true
		CROSS JOIN LATERAL (
			VALUES
				('version',
					CASE WHEN v.library = v.installed THEN v.library
						ELSE pg_catalog.format('library %s, installed objects %s', v.library, v.installed) END,
					v.library = v.installed,
					'ALTER EXTENSION pgqrs UPDATE, or if the library is the older one, restart the server.'),
				('preloaded',
					CASE WHEN f.preloaded THEN 'yes' ELSE 'no' END,
					f.preloaded,
					'Add pgqrs to shared_preload_libraries and restart the server: without it claims slow down with dead index entries, and each waits for the WAL.'),
				('background worker',
					CASE WHEN b.idle_reason = 'version' THEN 'none, as the versions differ'
						WHEN b.idle_reason = 'standby' THEN 'none, on a standby'
						WHEN b.idle_reason = 'subscriber' THEN 'none, as a subscription writes the tables'
						WHEN b.idle_reason IS NOT NULL THEN 'none: ' || b.idle_reason
						WHEN b.pid > 0 THEN 'running, pid ' || b.pid
						WHEN b.pid = 0 THEN 'running'
						WHEN b.failures > 0 THEN pg_catalog.format('failed %s times, next try at %s', b.failures, pg_catalog.date_trunc('second', b.retry_at))
						WHEN b.due < @extschema@.pgqrs_now() - interval '1 min' THEN 'needed since ' || pg_catalog.date_trunc('second', b.due)
						WHEN b.due IS NOT NULL THEN 'needed next at ' || pg_catalog.date_trunc('second', b.due)
						ELSE 'not needed' END,
					COALESCE(b.idle_reason IN ('standby', 'subscriber'),
						b.pid IS NOT NULL OR b.failures = 0 AND COALESCE(b.due >= @extschema@.pgqrs_now() - interval '1 min', true)),
					CASE b.idle_reason
						WHEN 'not preloaded' THEN 'Add pgqrs to shared_preload_libraries and restart the server, or call pgqrs_maintain() every few seconds.'
						WHEN 'paused' THEN 'Set pgqrs.paused to off and reload the configuration.'
						WHEN 'not in pgqrs.databases' THEN 'Add the database to pgqrs.databases and reload the configuration.'
						WHEN 'too many databases' THEN 'List the databases that have the extension in pgqrs.databases and reload the configuration.'
						WHEN 'version' THEN 'ALTER EXTENSION pgqrs UPDATE, or if the library is the older one, restart the server.'
						ELSE 'See the server''s log. If it has no message, raise max_worker_processes, which all background workers of the server share, or pgqrs.max_workers.' END),
				('last pass',
					CASE WHEN b.passes IS NULL THEN NULL
						WHEN b.last_pass IS NULL THEN 'none since the server started'
						ELSE pg_catalog.format('at %s, the %s. since the server started', pg_catalog.date_trunc('second', b.last_pass), b.passes) END,
					b.last_pass <= @extschema@.pgqrs_now() OR b.last_pass IS NULL AND b.passes >= 0,
					'The clock was set back. The check passes once the background worker has realigned the messages.'),
				('duties',
					CASE WHEN b.passes >= 0 THEN COALESCE(b.failing, 'none fails') END,
					CASE WHEN b.passes >= 0 THEN b.failing IS NULL END,
					'A failing duty does not delay the others. The server''s log has the whole error; remove its cause.'),
				('clock',
					CASE WHEN b.passes IS NULL THEN NULL
						WHEN b.unconfirmed > interval '1 day' THEN pg_catalog.format('%s that this server has not seen pass; retention counts them from %s on', pg_catalog.justify_hours(pg_catalog.date_trunc('second', b.unconfirmed + interval '0.5 s')), pg_catalog.date_trunc('second', b.confirmed_at))
						WHEN b.went_back_at IS NULL THEN 'no step back since the server started'
						ELSE pg_catalog.format('went back by %s at %s', pg_catalog.date_trunc('second', b.went_back_by + interval '0.5 s'), pg_catalog.date_trunc('second', b.went_back_at)) END,
					CASE WHEN b.passes >= 0 THEN b.unconfirmed <= interval '1 day' AND (b.went_back_at IS NULL OR NOT b.realigning OR b.idle_reason = 'standby') END,
					CASE WHEN b.unconfirmed > interval '1 day' THEN 'The server was down, or its clock was set forward. If the clock is wrong, correct it before that time; if it is right, wait, or restart the server to count the time at once.' ELSE
					'The background worker still has to search for rows that were written while the clock was ahead. Let it run, or call pgqrs_maintain().' END),
				('work sent from the future',
					CASE WHEN w.ahead = 0 THEN 'none' ELSE w.ahead || ' of the newest 1000 messages' END,
					w.ahead = 0,
					'The clock was ahead when the messages were sent or claimed. The background worker or pgqrs_maintain() makes them due earlier; pgqrs_set_visibility() does so for one message.'),
				('done in the background', b.done, b.passes >= 0, NULL),
				('floors',
					f.floors || ' of ' || f.max_floors,
					f.floors >= 0 AND (f.displaced_at IS NULL OR f.displaced_at < @extschema@.pgqrs_now() - INTERVAL '10 minutes'),
					'Raise pgqrs.max_floors and restart the server: more queues, times priorities, are busy than there are floors, so that claims slow down with dead index entries.'),
				('floors raised', f.raised::pg_catalog.text, f.raised >= 0, NULL),
				('floors lowered', f.lowered::pg_catalog.text, f.lowered = 0,
					'Claims did not find some messages: was pgqrs_messages written with its trigger disabled? If not, report a bug.'),
				('index entries per claim',
					CASE WHEN f.claimed = 0 THEN 'nothing was claimed yet'
						ELSE pg_catalog.round(f.looked::pg_catalog.numeric / f.claimed, 1)::pg_catalog.text END,
					f.looked <= 100 * GREATEST(f.claimed, 1000),
					'Claims skip many dead or locked entries. Look for transactions that wrote messages and stay open.'),
				('oldest xmin',
					CASE WHEN o.holder IS NULL THEN 'none'
						ELSE pg_catalog.concat_ws(', ', o.holder, 'open for ' || pg_catalog.date_trunc('second', o.open_for),
							o.transactions || ' transactions ago') END,
					COALESCE(o.transactions < 1000000, true) AND COALESCE(o.open_for < '10 min', true),
					'Vacuum removes no rows that were deleted since then. End the session, finish the prepared transaction or drop the slot, unless it is needed.'),
				('notification queue',
					pg_catalog.round(n.usage::pg_catalog.numeric * 100, 1) || ' % full',
					n.usage < 0.5,
					'Commits that notify fail when the queue is full. A listening session has a transaction open: the server''s log names its pid. End that session.'),
				('dead messages', m.dead::pg_catalog.text, m.dead <= GREATEST(1000000, m.live),
					'Vacuum of pgqrs_messages does not keep up. Is autovacuum on, and how old is the oldest xmin?'),
				('triggers', COALESCE(g.demoted, 'as they should be'), g.demoted IS NULL,
					'Triggers are disabled or do not fire always, so that rows written without the functions are not reported. Call pgqrs_maintain().'),
				('tables readable by others', r.count::pg_catalog.text, r.count = 0,
					'Other roles have privileges on tables, views or sequences of pgqrs by GRANT, which bypass the checks of the functions. Call pgqrs_sync_grants(), and look at ALTER DEFAULT PRIVILEGES.'),
				('schedules that cannot fire',
					CASE WHEN l.count < 2 THEN COALESCE(l.name, '0') ELSE pg_catalog.format('%s, such as %s', l.count, l.name) END, l.count = 0,
					'The owners were dropped, or no longer have trigger on the workflow: see may_fire of pgqrs_schedule_list. Call pgqrs_schedule() again as a role with the privilege.'),
				('queues that stand still',
					CASE WHEN still.count <= 5 THEN COALESCE(still.names, '0') ELSE pg_catalog.format('%s, such as %s', still.count, still.names) END, still.count = 0,
					'Messages are due for more than 5 minutes, and none was claimed or has ended since. pgqrs_why() of the queue tells the reason.'),
				('oldest parked run',
					CASE WHEN parked.run_id IS NULL THEN 'none' ELSE pg_catalog.format('%s, since %s', parked.run_id, pg_catalog.date_trunc('second', parked.paused_at)) END,
					COALESCE(parked.paused_at > @extschema@.pgqrs_now() - interval '7 days', true),
					'The run waits for a signal, a child or a resume for more than 7 days. pgqrs_live_runs tells for which. Send it, or cancel the run.')
		) AS h (item, value, ok, hint);
COMMENT ON VIEW @extschema@.pgqrs_health IS 'the health of pgqrs in this database; WHERE NOT ok lists the problems';
COMMENT ON COLUMN @extschema@.pgqrs_health.item IS 'version, preloaded, background worker, last pass, duties, clock, work sent from the future, done in the background, floors, floors raised, floors lowered, index entries per claim, oldest xmin, notification queue, dead messages, triggers, tables readable by others, schedules that cannot fire, queues that stand still, oldest parked run';
COMMENT ON COLUMN @extschema@.pgqrs_health.value IS 'NULL if it is not known: figures of shared memory where the library is not preloaded';
COMMENT ON COLUMN @extschema@.pgqrs_health.ok IS 'false: see the hint; NULL if it is not known';
COMMENT ON COLUMN @extschema@.pgqrs_health.hint IS 'what to do; NULL if it is ok';
