-- F47: no row, whatever is wrong with it, keeps another one from being claimed,
-- ended, listed, purged, replayed, reported or maintained.  Each column of each
-- table is damaged by hand, and each row deleted, with a good neighbour beside it.
-- F-numbers: docs/design/known-failures.md.
SET client_min_messages = error;
SELECT * FROM no_plan();

CREATE TEMP TABLE bad (tab regclass, id bigint);
CREATE TEMP TABLE failed (what text);

CREATE FUNCTION pg_temp.held(run bigint, OUT lease bigint) LANGUAGE sql AS
	'SELECT m.lease FROM pgqrs_messages m WHERE m.message_id = run';

-- Two of each kind; the first of them is in the table bad.
CREATE FUNCTION pg_temp.furnish() RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
	g jsonb := '{}';
	id bigint;
	held bigint;
	child bigint;
BEGIN
	TRUNCATE bad;
	PERFORM pgqrs_create_queue(q, retention => '1 day', max_attempts => 1) FROM unnest('{q,bq}'::text[]) q;
	PERFORM pgqrs_create_workflow(w) FROM unnest('{w,bw,c,p}'::text[]) w;
	INSERT INTO bad SELECT 'pgqrs_queues', queue_id FROM pgqrs_queues WHERE name IN ('bq', 'bw');
	INSERT INTO bad SELECT 'pgqrs_workflows', workflow_id FROM pgqrs_workflows WHERE name = 'bw';
	PERFORM pgqrs_enqueue('bq', '1'), pgqrs_trigger('bw');
	FOR n IN 1..2 LOOP
		-- what was kept long enough, a dead letter, a run that failed
		id := pgqrs_enqueue('q', '1');
		SELECT lease INTO held FROM pgqrs_dequeue('q');
		PERFORM pgqrs_archive_message(id, held);
		UPDATE pgqrs_archive SET archived_at = archived_at - interval '100 days' WHERE message_id = id;
		IF n = 1 THEN INSERT INTO bad VALUES ('pgqrs_archive', id); ELSE g := g || jsonb_build_object('kept', id);
			END IF;
		id := pgqrs_enqueue('q', '1', idempotency_key => 'd' || n);
		SELECT lease INTO held FROM pgqrs_dequeue('q');
		PERFORM pgqrs_nack_message(id, held);
		IF n = 1 THEN INSERT INTO bad VALUES ('pgqrs_archive', id); ELSE g := g || jsonb_build_object('dead', id);
			END IF;
		id := pgqrs_trigger('w', idempotency_key => 'e' || n, timeout => '1 hour');
		SELECT lease INTO held FROM pgqrs_dequeue('w');
		PERFORM pgqrs_step_begin(id, held, 's'), pgqrs_fail_run(id, held, '{"type": "x"}');
		IF n = 1 THEN INSERT INTO bad VALUES ('pgqrs_archive', id), ('pgqrs_workflow_runs', id),
			('pgqrs_workflow_steps', id);
		ELSE g := g || jsonb_build_object('ended', id); END IF;
	END LOOP;
	FOR n IN 1..2 LOOP
		-- a run that waits for a signal, a message, and a run with a step, a child and a signal
		id := pgqrs_trigger('p');
		SELECT lease INTO held FROM pgqrs_dequeue('p');
		PERFORM pgqrs_await_signal(id, held, 'wait', 'go', '1 hour');
		IF n = 1 THEN INSERT INTO bad VALUES ('pgqrs_messages', id), ('pgqrs_workflow_runs', id),
			('pgqrs_workflow_steps', id);
		ELSE g := g || jsonb_build_object('parked', id); END IF;
		id := pgqrs_trigger('w', idempotency_key => 'r' || n, timeout => '1 hour',
			retry_policy => '{"max_attempts": 5}', tags => '{"a": 1}');
		SELECT lease INTO held FROM pgqrs_dequeue('w');
		PERFORM pgqrs_step_begin(id, held, 's'), pgqrs_start_child(id, held, 'c', 'c'), pgqrs_signal(id, 'later');
		IF n = 1 THEN
			INSERT INTO bad VALUES ('pgqrs_messages', id), ('pgqrs_workflow_runs', id), ('pgqrs_workflow_steps', id),
				('pgqrs_run_signals', id);
		ELSE g := g || jsonb_build_object('run', id); END IF;
		PERFORM pgqrs_register_worker('k' || n, '{*}'), pgqrs_schedule('s' || n, '* * * * *', 'w');
	END LOOP;
	FOR n IN 1..2 LOOP
		-- a child that was there already, and the parent that waits for it
		child := pgqrs_trigger('c', idempotency_key => 'shared' || n);
		id := pgqrs_trigger('p');
		SELECT lease INTO held FROM pgqrs_dequeue('p');
		PERFORM pgqrs_start_child(id, held, 'k', 'c', idempotency_key => 'shared' || n), pgqrs_await_child(id, held,
			'k');
		IF n = 1 THEN INSERT INTO bad VALUES ('pgqrs_workflow_run_parents', child);
		ELSE g := g || jsonb_build_object('shared', child, 'parent', id); END IF;
		-- a queue and a workflow that were deleted with what they had
		PERFORM pgqrs_create_queue('dq'), pgqrs_create_workflow('dw'), pgqrs_enqueue('dq', '1'), pgqrs_trigger('dw');
		IF n = 1 THEN INSERT INTO bad SELECT 'pgqrs_queues', queue_id FROM pgqrs_queues
			WHERE name IN ('dq', 'dw') AND deleted_at IS NULL;
		ELSE g := g || jsonb_build_object('deleted', (SELECT array_agg(queue_id) FROM pgqrs_queues
			WHERE name IN ('dq', 'dw') AND deleted_at IS NULL)); END IF;
		PERFORM pgqrs_delete_queue('dq', force => true), pgqrs_delete_workflow('dw', force => true);
	END LOOP;
	FOR n IN 1..2 LOOP
		id := pgqrs_enqueue('q', '1', idempotency_key => 'm' || n);
		IF n = 1 THEN INSERT INTO bad VALUES ('pgqrs_messages', id); ELSE g := g || jsonb_build_object('message', id);
			END IF;
	END LOOP;
	PERFORM pgqrs_release_message(m.message_id, m.lease) FROM pgqrs_messages m WHERE m.lease IS NOT NULL;
	UPDATE pgqrs_schedules SET next_fire_at = date_trunc('minute', pgqrs_now());
	INSERT INTO bad SELECT 'pgqrs_schedules', schedule_id FROM pgqrs_schedules WHERE name = 's1';
	INSERT INTO bad SELECT 'pgqrs_workers', worker_id FROM pgqrs_workers WHERE name = 'k1';
	RETURN g;
END $$;

-- Notes what is not so, or raises an error.
CREATE FUNCTION pg_temp.expect(damage text, what text, query text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	so boolean;
BEGIN
	EXECUTE 'SELECT ' || query INTO so;
	IF so IS NOT TRUE THEN
		INSERT INTO failed VALUES (damage || ': ' || what);
	END IF;
EXCEPTION WHEN OTHERS THEN
	INSERT INTO failed VALUES (format('%s: %s: %s %s', damage, what, SQLSTATE, SQLERRM));
END $$;

CREATE FUNCTION pg_temp.examine(damage text, g jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	run bigint := g ->> 'run';
	view text;
BEGIN
	PERFORM pg_temp.expect(damage, 'claimed by a pattern',
		format('array_agg(message_id) @> ''{%s,%s}'' FROM pgqrs_dequeue(''*'', batch_size => 100)', g ->> 'message',
		run));
	PERFORM pg_temp.expect(damage, 'a step begins',
		format('should_execute FROM pgqrs_step_begin(%s, pg_temp.held(%1$s), ''t'')', run));
	PERFORM pg_temp.expect(damage, 'ended', format('count(*) = 1 FROM pgqrs_complete_run(%s, pg_temp.held(%1$s))',
		run));
	PERFORM pg_temp.expect(damage, 'listed', format('count(*) = 1 FROM pgqrs_list_runs(''w'') WHERE run_id = %s',
		run));
	PERFORM pg_temp.expect(damage, 'listed by tags',
		format('count(*) = 1 FROM pgqrs_list_runs(''w'', tags => ''{"a": 1}'') WHERE run_id = %s', run));
	PERFORM pg_temp.expect(damage, 'its steps are listed', format('count(*) = 3 FROM pgqrs_list_steps(%s)', run));
	PERFORM pg_temp.expect(damage, 'peeked at',
		format('count(*) = 1 FROM pgqrs_peek(''q'', 100) WHERE message_id = %s', g ->> 'message'));
	PERFORM pg_temp.expect(damage, 'a shared child ends',
		format('count(*) = 1 FROM pgqrs_complete_run(%s, pg_temp.held(%1$s))', g ->> 'shared'));
	PERFORM pg_temp.expect(damage, 'maintained', 'NOT pgqrs_maintain() ? ''failed''');
	PERFORM pg_temp.expect(damage, 'removed when it was kept long enough',
		format('count(*) = 0 FROM pgqrs_archive WHERE message_id = %s', g ->> 'kept'));
	PERFORM pg_temp.expect(damage, 'removed with its queue',
		format('count(*) = 0 FROM pgqrs_messages WHERE queue_id = ANY (ARRAY%s)', g -> 'deleted'));
	PERFORM pg_temp.expect(damage, 'fired',
		'count(*) >= 1 FROM pgqrs_schedule_firings f JOIN pgqrs_schedules s USING (schedule_id) WHERE s.name = '
		'''s2''');
	PERFORM pg_temp.expect(damage, 'woken', format('pgqrs_signal(%s, ''go'') > 0', g ->> 'parked'));
	PERFORM pg_temp.expect(damage, 'delivered then',
		format('array_agg(message_id) @> ''{%s,%s}'' FROM pgqrs_dequeue(''p'', batch_size => 10)', g ->> 'parked',
		g ->> 'parent'));
	PERFORM pg_temp.expect(damage, 'replayed', 'pgqrs_replay_queue(''q'') > 0');
	PERFORM pg_temp.expect(damage, 'replayed as a run', 'pgqrs_replay_queue(''w'') > 0');
	PERFORM pg_temp.expect(damage, 'its status is QUEUED then', format('status = ''QUEUED'' FROM pgqrs_result(%s)',
		g ->> 'ended'));
	PERFORM pg_temp.expect(damage, 'a worker calls',
		'pgqrs_heartbeat(worker_id) = ''READY'' FROM pgqrs_workers WHERE name = ''k2''');
	PERFORM pg_temp.expect(damage, 'a run is triggered', 'pgqrs_trigger(''w'') > 0');
	FOREACH view IN ARRAY
		'{pgqrs_runs,pgqrs_steps,pgqrs_queue_stats,pgqrs_workflow_stats,pgqrs_worker_stats,'
			'pgqrs_dead_letters,pgqrs_in_flight,pgqrs_schedule_list,pgqrs_live_runs,pgqrs_signals,pgqrs_sent_signals,'
			'pgqrs_queues_list,pgqrs_workflows_list,pgqrs_health}'::text[] LOOP
		PERFORM pg_temp.expect(damage, view, format('count(v::text) >= 0 FROM %I v', view));
	END LOOP;
	PERFORM pg_temp.expect(damage, 'verified', 'count(*) > 0 FROM pgqrs_verify()');
	PERFORM pg_temp.expect(damage, 'reported', 'pgqrs_report() <> ''''');
	PERFORM pg_temp.expect(damage, 'reported as a run', format('pgqrs_report_run(%s) <> ''''', run));
	PERFORM pg_temp.expect(damage, 'purged', 'pgqrs_purge_queue(''q'') > 0');
	PERFORM pg_temp.expect(damage, 'gone by a purge', format('count(*) = 0 FROM pgqrs_messages WHERE message_id = %s',
		g ->> 'dead'));
	PERFORM pg_temp.expect(damage, 'cancelled by a purge', 'pgqrs_purge_queue(''w'') > 0');
END $$;

-- One damage, and all that is undone.
CREATE FUNCTION pg_temp.damage(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	found text[];
	g jsonb;
BEGIN
	BEGIN
		TRUNCATE failed;
		g := pg_temp.furnish();
		IF query <> '' THEN
			BEGIN
				EXECUTE query;
			EXCEPTION WHEN OTHERS THEN
				RAISE EXCEPTION USING ERRCODE = 'ZZ000', MESSAGE = '{}';
			END;
		END IF;
		PERFORM pg_temp.examine(query, g);
		RAISE EXCEPTION USING ERRCODE = 'ZZ000', MESSAGE = (SELECT coalesce(array_agg(what), '{}') FROM failed)::text;
	EXCEPTION WHEN SQLSTATE 'ZZ000' THEN
		found := SQLERRM;
	END;
	RETURN QUERY SELECT unnest(found);
END $$;

CREATE FUNCTION pg_temp.nonsense(type regtype) RETURNS text[] LANGUAGE sql AS $$
	SELECT CASE
		WHEN type = ANY ('{bigint,integer}'::regtype[]) THEN '{-1,2147483647}'
		WHEN type = 'smallint'::regtype THEN '{-32768,32767}'
		WHEN type = 'double precision'::regtype THEN '{NaN,-1}'
		WHEN type = 'timestamptz'::regtype THEN '{2000-01-01,2100-01-01,infinity}'
		WHEN type = 'interval'::regtype THEN '{-1 day,1 month}'
		WHEN type = 'jsonb'::regtype THEN ARRAY['"x"', '[null]',
			'{"run_id": "x", "until": "x", "deadline": "x", "run_ids": 1, "max_attempts": "x", "type": 1}']
		WHEN type = 'boolean'::regtype THEN '{t,f}'
		WHEN type = 'text[]'::regtype THEN ARRAY['{}', '{NULL}']
		WHEN type = 'name'::regtype THEN '{nobody}'
		WHEN type = 'text'::regtype THEN ARRAY['', 'no such thing', 'child:', repeat('x', 300)]
		ELSE (SELECT array_agg(enumlabel) FROM pg_enum WHERE enumtypid = type)
	END
$$;

SELECT is(ARRAY(SELECT pg_temp.damage('')), '{}', 'without damage every call goes as it should');

CREATE TEMP TABLE tables (tab regclass, key name);
INSERT INTO tables VALUES ('pgqrs_queues', 'queue_id'), ('pgqrs_workflows', 'workflow_id'),
	('pgqrs_messages', 'message_id'), ('pgqrs_archive', 'message_id'),
	('pgqrs_workflow_runs', 'run_id'), ('pgqrs_workflow_run_parents', 'run_id'),
		('pgqrs_workflow_steps', 'run_id'), ('pgqrs_run_signals', 'run_id'), ('pgqrs_schedules', 'schedule_id'),
		('pgqrs_workers', 'worker_id');

SELECT is(ARRAY(SELECT pg_temp.damage(format('DELETE FROM %s WHERE %I IN (SELECT id FROM bad WHERE tab = '
	'%L::regclass)', tab, key, tab))), '{}',
	format('a row of %s that was deleted is in the way of no other', tab))
FROM tables;

SELECT is(ARRAY(
		SELECT pg_temp.damage(format('UPDATE %s SET %I = %L WHERE %I IN (SELECT id FROM bad WHERE tab = '
			'%L::regclass)', tab, attname, value, key, tab))
		FROM pg_attribute a, unnest(pg_temp.nonsense(atttypid) || CASE WHEN NOT attnotnull THEN '{NULL}'::text[]
			ELSE '{}' END) value
		WHERE attrelid = tab AND attnum > 0 AND NOT attisdropped AND attname <> key),
	'{}', format('a row of %s with nonsense in it is in the way of no other', tab))
FROM tables;

SELECT * FROM finish();
