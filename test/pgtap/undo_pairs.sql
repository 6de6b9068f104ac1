-- Every two operations on one run that is to be undone, at the same time, come to the same as
-- one after the other; see pairs.sql and include/races.sql.
\ir include/races.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_workflow('race', max_attempts => 10, max_crashes => 3, timeout => '9 h', on_cancel => 'deliver')
	\g /dev/null

-- A run in that state, and the lease of the worker that has it or had it.
CREATE FUNCTION pg_temp.bring(state text, OUT run bigint, OUT lease bigint) LANGUAGE plpgsql AS
$$
BEGIN
	run := pgqrs_trigger('race');
	SELECT d.lease INTO lease FROM pgqrs_dequeue('race') d;
	PERFORM pgqrs_step_complete(run, lease, 'before', '1');
	CASE state
		WHEN 'running' THEN NULL;
		WHEN 'late' THEN PERFORM pg_temp.late(run);
		WHEN 'waiting' THEN PERFORM pgqrs_await_signal(run, lease, 'await', 'go', '4 h');
		ELSE
			PERFORM pgqrs_cancel_run(run);
	END CASE;
	IF state LIKE 'undo%' THEN
		PERFORM pgqrs_acknowledge_cancel(run, lease);
		SELECT d.lease INTO lease FROM pgqrs_dequeue('race') d;
	END IF;
	IF state LIKE '% expired' THEN
		PERFORM pg_temp.due(run);
		UPDATE pgqrs_messages SET exhausted_at = visible_after WHERE message_id = run AND exhausted_at IS NOT NULL;
	END IF;
	IF state LIKE '% late' THEN
		PERFORM pg_temp.late(run);
	END IF;
	IF state = 'undo waiting' THEN
		PERFORM pgqrs_await_signal(run, lease, 'undo await', 'go', '4 h');
	END IF;
END
$$;
CREATE TEMP TABLE states AS SELECT state
	FROM unnest('{running,late,waiting,asked,asked and expired,undo,undo expired,undo late,undo waiting}'::text[]) state;

INSERT INTO operations VALUES
	('dequeue', '{SELECT count(*) FILTER (WHERE cancel_requested) FROM pgqrs_dequeue(''race'')}'),
	('step_begin', '{"SELECT b FROM pgqrs_step_begin(RUN, LEASE, ''step'') b"}'),
	('complete', '{"SELECT pgqrs_complete_run(RUN, LEASE, ''1'')"}'),
	('fail', '{"SELECT pgqrs_fail_run(RUN, LEASE, ''\"fail\"'') IS NULL"}'),
	('late retry', '{"SELECT pgqrs_fail_run(RUN, LEASE, ''\"fail\"'', true, ''10 h'') IS NULL"}'),
	('acknowledge', '{"SELECT pgqrs_acknowledge_cancel(RUN, LEASE)"}'),
	('release', '{"SELECT pgqrs_release_message(RUN, LEASE)"}'),
	('await_signal', '{"SELECT pgqrs_await_signal(RUN, LEASE, ''await'', ''go'', ''4 h'')"}'),
	('cancel', '{"SELECT pgqrs_cancel_run(RUN, ''why'')"}'),
	('maintain', '{"SELECT coalesce(string_agg(key || '' '' || value, '', ''), ''0'') FROM '
		'jsonb_each_text(pgqrs_maintain()) WHERE value <> ''0''"}'),
	('delete_run', '{"SELECT pgqrs_delete_run(RUN, ''why'')"}'),
	('signal', '{"SELECT pgqrs_signal(RUN, ''go'', ''1'') > 0"}');
INSERT INTO passes_over VALUES
	('dequeue', 'waits for no lock: messages that another transaction has locked are left to the next call'),
	('maintain', 'the same');
INSERT INTO leaves_to_the_pass VALUES
	('signal', 'waits for no lock: a waiting run that is locked is rechecked after the commit');

-- A claim that finds a run past its deadline requests the undo, which the next claim delivers.
CREATE OR REPLACE FUNCTION pg_temp.undelivered(run bigint) RETURNS text LANGUAGE plpgsql AS
$$
BEGIN
	PERFORM pgqrs_dequeue('race', batch_size => 10) FROM generate_series(1, 2);
	PERFORM FROM pgqrs_messages WHERE message_id = run AND visible_after <= clock_timestamp();
	RETURN CASE WHEN FOUND THEN 'due, and not delivered' END;
END
$$;

CALL pg_temp.race_pairs('{commit}');
SELECT is(pg_temp.faults(a.operation, b.operation), NULL,
	format('%s and %s of a run that is to be undone have the effect of one order or the other',
		a.operation, b.operation))
	FROM singles a JOIN singles b ON a.place <= b.place ORDER BY a.place, b.place;
SELECT is_empty('SELECT * FROM pgqrs_verify() WHERE NOT ok AND check_name <> ''messages below floors''',
	'every row that the races left is consistent');
SELECT * FROM finish();
