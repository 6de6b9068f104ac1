-- Races of two transactions on one run, and their allowed results.
--
-- Two sessions, a and b, race; this one prepares runs, observes and judges.
-- The judge knows nothing of pgqrs: the same two are carried out one after the
-- other on a fresh run in the same state, both ways, and the race must have
-- given the answers and the rows of one of these.
\ir runs.sql
CREATE EXTENSION dblink;
SELECT count(dblink_connect(who, format('host=%s port=%s dbname=%s application_name=%s',
		current_setting('unix_socket_directories'), current_setting('port'), current_database(), who))),
	-- deadlocks, and waits that never end, are reported soon
	count(dblink_exec(who,
		'SET deadlock_timeout = ''20 ms''; SET statement_timeout = ''60 s''; SET client_min_messages = error'))
	FROM (VALUES ('a'), ('b')) v (who) \g /dev/null
CREATE TEMP TABLE sessions AS SELECT who, pid FROM (VALUES ('a'), ('b')) v (who),
	dblink(who, 'SELECT pg_backend_pid()') p (pid int);

-- The operations that race: each is a transaction of one call or several.
CREATE TEMP TABLE operations (operation text PRIMARY KEY, calls text[], place int GENERATED ALWAYS AS IDENTITY);

-- A lease as seen by the holder of the first one.
CREATE FUNCTION pg_temp.lease_name(lease bigint, own bigint) RETURNS text LANGUAGE plpgsql AS
$$ BEGIN RETURN (SELECT CASE WHEN lease IS NULL THEN 'no lease' WHEN lease = own THEN 'own lease' ELSE 'another lease'
	END); END $$;

-- The rows of a run as text, without ids and instants, which differ between two runs.
CREATE FUNCTION pg_temp.portrait(run bigint, own bigint) RETURNS text LANGUAGE plpgsql AS
$$
BEGIN
	RETURN (SELECT concat_ws(E'\n',
		(SELECT concat_ws(' ', 'run:', r.status, r.waiting_for, r.attempt, r.failures, pg_temp.lease_name(r.lease,
			own),
				CASE WHEN r.started_at IS NOT NULL THEN 'started' END, CASE WHEN r.paused_at IS NOT NULL THEN 'paused'
					END,
				CASE WHEN r.completed_at IS NOT NULL THEN 'completed' END, CASE
					WHEN r.cancel_requested_at IS NOT NULL THEN 'asked to stop' END,
				CASE WHEN r.deleted_at IS NOT NULL THEN 'deleted' END, r.cancel_reason, r.delete_reason, r.output,
					r.error, r.progress,
					r.undo_cause, CASE WHEN r.undone THEN 'undone' END)
			FROM pgqrs_workflow_runs r WHERE run_id = run),
		(SELECT concat_ws(' ', 'message:', CASE WHEN visible_after <= clock_timestamp() THEN 'due'
			ELSE round(extract(epoch FROM visible_after - clock_timestamp()) / 3600) || ' h' END,
				pg_temp.lease_name(lease, own), attempt, failures, waiting_for, CASE
					WHEN exhausted_at IS NOT NULL THEN 'the last' END, last_error,
						CASE WHEN undo THEN 'undo' END)
			FROM pgqrs_messages WHERE message_id = run),
		(SELECT concat_ws(' ', 'archived:', outcome, attempt, failures, waiting_for, last_error) FROM pgqrs_archive
			WHERE message_id = run),
		(SELECT string_agg(concat_ws(' ', 'step:', step_id, kind, status, attempt, failures, pg_temp.lease_name(lease,
			own), output, error, reason,
			CASE WHEN undo THEN 'undo' END), E'\n' ORDER BY step_id)
			FROM pgqrs_workflow_steps WHERE run_id = run),
		(SELECT string_agg(concat_ws(' ', 'signal:', name, payload, consumed_by), E'\n' ORDER BY signal_id)
			FROM pgqrs_run_signals WHERE run_id = run),
		(SELECT string_agg(concat_ws(' ', 'again:', r.status, r.input), E'\n' ORDER BY r.run_id)
			FROM pgqrs_workflow_runs r WHERE r.run_id > run AND rerun_of = run)));
END
$$;

-- The inconsistencies of a run, which no history permits.
CREATE FUNCTION pg_temp.wrong(run bigint) RETURNS text LANGUAGE plpgsql AS
$$
BEGIN
	RETURN (SELECT nullif(concat_ws(', ',
		CASE WHEN (m.message_id IS NULL) = (a.message_id IS NULL) THEN 'not either a message or an archived one' END,
		CASE WHEN (m.message_id IS NULL) <> (r.status IN ('SUCCESS', 'ERROR', 'CANCELLED')) THEN r.status
			|| ' with the wrong one of message and archived message' END,
		CASE WHEN a.outcome::text <> CASE r.status WHEN 'SUCCESS' THEN 'DONE' WHEN 'ERROR' THEN CASE
			WHEN r.deleted_at IS NULL THEN 'DEAD' ELSE 'DELETED' END ELSE 'CANCELLED' END THEN r.status || ' and '
			|| a.outcome END,
		CASE WHEN m.lease IS NOT NULL AND (r.status <> 'RUNNING'
			OR r.lease <> m.lease) THEN 'a lease on what is not held' END,
		CASE WHEN (m.lease IS NOT NULL) <> EXISTS (SELECT FROM pgqrs_in_flight f
			WHERE f.run_id = run) THEN 'pgqrs_in_flight says something else' END,
		CASE WHEN (r.status = 'PAUSED') <> (r.waiting_for IS NOT NULL) THEN 'PAUSED for nothing' END,
		CASE WHEN m.waiting_for ~ '^(signal|any of) ' AND m.visible_after > clock_timestamp()
				AND EXISTS (SELECT FROM pgqrs_run_signals s WHERE s.run_id = run
					AND m.waiting_for IN ('signal ' || s.name, 'any of any') AND consumed_by IS NULL) THEN 'waits beside its signal'
					END,
		CASE WHEN r.waiting_for LIKE 'pause %' AND m.visible_after > clock_timestamp()
				AND EXISTS (SELECT FROM pgqrs_workflow_steps s WHERE s.run_id = run
					AND 'pause ' || s.step_id = r.waiting_for
					AND s.status = 'SUCCESS') THEN 'waits in a pause that is over' END), '')
	FROM pgqrs_workflow_runs r LEFT JOIN pgqrs_messages m ON m.message_id = run
		LEFT JOIN pgqrs_archive a ON a.message_id = run
	WHERE r.run_id = run);
END
$$;

-- A due message that must not end is delivered: no hint in shared memory hides it.
CREATE FUNCTION pg_temp.undelivered(run bigint) RETURNS text LANGUAGE plpgsql AS
$$
BEGIN
	PERFORM FROM pgqrs_messages WHERE message_id = run AND visible_after <= clock_timestamp();
	IF FOUND THEN
		PERFORM pgqrs_dequeue('race', batch_size => 10);
		PERFORM FROM pgqrs_messages WHERE message_id = run AND visible_after <= clock_timestamp();
		IF FOUND THEN
			RETURN 'due, and not delivered';
		END IF;
	END IF;
	RETURN NULL;
END
$$;

-- Nothing of a race is left for the next one to find.
CREATE FUNCTION pg_temp.forget() RETURNS void LANGUAGE plpgsql AS
$$ BEGIN PERFORM pgqrs_delete_run(run_id) FROM pgqrs_messages; END $$;

CREATE FUNCTION pg_temp.begin(who text, isolation text) RETURNS void LANGUAGE plpgsql AS
$$
BEGIN
	PERFORM dblink_exec(who, 'BEGIN ISOLATION LEVEL ' || isolation || '; DO $do$ BEGIN END $do$');
END
$$;

-- Sends a call to a session and does not wait for its end.
CREATE FUNCTION pg_temp.send(who text, call text, run bigint, lease bigint) RETURNS void LANGUAGE plpgsql AS
$$ BEGIN PERFORM dblink_send_query(who, replace(replace(call, 'RUN', run::text), 'LEASE', lease::text)); END $$;

-- Waits for the end of a session's call; returns its result or SQLSTATE.
CREATE FUNCTION pg_temp.answer_of(who text) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	answer text;
BEGIN
	BEGIN
		SELECT r.answer INTO answer FROM dblink_get_result(who) r (answer text);
	EXCEPTION WHEN OTHERS THEN
		answer := SQLSTATE;
	END;
	PERFORM FROM dblink_get_result(who) r (answer text);
	RETURN coalesce(nullif(answer, ''), 'done');
END
$$;

-- Waits until a call has returned or is blocked; true: it is blocked.
CREATE FUNCTION pg_temp.waits(who text) RETURNS boolean LANGUAGE plpgsql AS
$$
DECLARE
	pid int := (SELECT s.pid FROM sessions s WHERE s.who = waits.who);
BEGIN
	WHILE dblink_is_busy(who) = 1 LOOP
		IF cardinality(pg_blocking_pids(pid)) > 0 THEN
			RETURN true;
		END IF;
		PERFORM pg_sleep(0.0002);
	END LOOP;
	RETURN false;
END
$$;

-- A transaction that fails has done nothing, whatever its first calls answered.
CREATE FUNCTION pg_temp.failure(answers text[]) RETURNS text LANGUAGE plpgsql AS
$$ BEGIN RETURN (SELECT a FROM unnest(answers) a WHERE a ~ '^[0-9A-Z]{5}$' AND a ~ '[0-9]' LIMIT 1); END $$;
CREATE FUNCTION pg_temp.as_whole(answers text[]) RETURNS text LANGUAGE plpgsql AS
$$ BEGIN RETURN (SELECT coalesce(pg_temp.failure(answers), array_to_string(answers, '; '))); END $$;

-- Carries out calls one after the other.
CREATE FUNCTION pg_temp.call_all(who text, calls text[], run bigint, lease bigint) RETURNS text[] LANGUAGE plpgsql AS
$$
DECLARE
	answers text[] = '{}';
	call text;
BEGIN
	FOREACH call IN ARRAY calls LOOP
		EXIT WHEN pg_temp.failure(answers) IS NOT NULL;
		PERFORM pg_temp.send(who, call, run, lease);
		answers := answers || pg_temp.answer_of(who);
	END LOOP;
	RETURN answers;
END
$$;

-- Two transactions one after the other; second NULL: only one.
CREATE TEMP TABLE serial (state text, first text, second text, answers text[], portrait text, UNIQUE (state, first,
	second));
CREATE PROCEDURE pg_temp.in_turn(state text, first text, second text) LANGUAGE plpgsql AS
$$
DECLARE
	o record;
	which text;
	answers text[] = '{}';
BEGIN
	SELECT * INTO o FROM pg_temp.bring(state);
	COMMIT;
	FOREACH which IN ARRAY ARRAY[first, second] LOOP
		CONTINUE WHEN which IS NULL;
		PERFORM pg_temp.begin('a', 'READ COMMITTED');
		answers := answers || pg_temp.as_whole(pg_temp.call_all('a', (SELECT calls FROM operations
			WHERE operation = which), o.run, o.lease));
		PERFORM dblink_exec('a', 'COMMIT');
	END LOOP;
	INSERT INTO serial VALUES (state, first, second, answers, pg_temp.portrait(o.run, o.lease));
	PERFORM pg_temp.forget();
	COMMIT;
END
$$;

-- Carries out two transactions in turn unless the result is known.
CREATE PROCEDURE pg_temp.know(state text, first text, second text) LANGUAGE plpgsql AS
$$
BEGIN
	IF NOT EXISTS (SELECT FROM serial s WHERE s.state = know.state AND s.first = know.first
		AND s.second IS NOT DISTINCT FROM know.second) THEN
		CALL pg_temp.in_turn(state, first, second);
	END IF;
END
$$;

-- Whether two transactions, or one, carried out in turn gave these answers and rows.
CREATE FUNCTION pg_temp.is_as(state text, first text, second text, answers text[], portrait text) RETURNS boolean
	LANGUAGE plpgsql AS
$$
BEGIN
	RETURN EXISTS (SELECT FROM serial s WHERE s.state = is_as.state AND s.first = is_as.first
		AND s.second IS NOT DISTINCT FROM is_as.second
		AND s.answers = is_as.answers AND s.portrait = is_as.portrait);
END
$$;

-- Results that are legal besides one order or the other; each test lists its own.
CREATE TEMP TABLE passes_over (operation text PRIMARY KEY, reason text);
CREATE TEMP TABLE leaves_to_the_pass (operation text PRIMARY KEY, reason text);

-- Repeats an operation that has passed over the locked run.
CREATE FUNCTION pg_temp.call_again(who text, operation text, answers text[], run bigint, lease bigint) RETURNS text[]
	LANGUAGE plpgsql AS
$$
BEGIN
	IF answers = '{0}' AND EXISTS (SELECT FROM passes_over p WHERE p.operation = call_again.operation) THEN
		RETURN pg_temp.call_all(who, (SELECT calls FROM operations o WHERE o.operation = call_again.operation), run,
			lease);
	END IF;
	RETURN answers;
END
$$;

-- One race.  How: the first one is open while the second one is called, and
-- then commits or rolls back; or it commits after the second one has taken its
-- snapshot and before it is called; or both are called at once.  The session that has
-- waited for the first one comes after it.  Of a transaction of two calls only
-- what must never be is looked for: the second one may come between them.
CREATE TEMP TABLE raced (state text, first text, second text, isolation text, how text, waited boolean, fault text);
CREATE PROCEDURE pg_temp.race(state text, first text, second text, isolation text, how text) LANGUAGE plpgsql AS
$$
DECLARE
	mine text[] := (SELECT calls FROM operations WHERE operation = first);
	theirs text[] := (SELECT calls FROM operations WHERE operation = second);
	o record;
	a text[];
	b text[];
	waited boolean := false;
	answers text[];
	portrait text;
	fault text;
	legal boolean := false;
BEGIN
	IF cardinality(mine) = 1 THEN
		CALL pg_temp.know(state, first, second);
		CALL pg_temp.know(state, second, first);
		CALL pg_temp.know(state, second, NULL);
	END IF;
	SELECT * INTO o FROM pg_temp.bring(state);
	COMMIT;
	IF how = 'at once' THEN
		PERFORM pg_temp.send('a', mine[1], o.run, o.lease), pg_temp.send('b', theirs[1], o.run, o.lease);
		a := ARRAY[pg_temp.answer_of('a')];
		b := ARRAY[pg_temp.answer_of('b')];
	ELSE
		PERFORM pg_temp.begin('b', isolation), pg_temp.begin('a', isolation);
		a := pg_temp.call_all('a', mine[1:1], o.run, o.lease);
		IF how = 'before' THEN
			PERFORM dblink_exec('a', 'COMMIT');
		END IF;
		PERFORM pg_temp.send('b', theirs[1], o.run, o.lease);
		waited := pg_temp.waits('b');
		IF NOT waited THEN
			b := ARRAY[pg_temp.answer_of('b')];
			PERFORM dblink_exec('b', 'COMMIT');
		END IF;
		IF how <> 'before' THEN
			IF pg_temp.failure(a) IS NULL THEN
				a := a || pg_temp.call_all('a', mine[2:], o.run, o.lease);
			END IF;
			PERFORM dblink_exec('a', upper(how));
		END IF;
		IF waited THEN
			b := ARRAY[pg_temp.answer_of('b')];
			PERFORM dblink_exec('b', 'COMMIT');
		END IF;
	END IF;
	fault := 'SQLSTATE ' || substring(array_to_string(a || b, ' ') FROM '\m40...\M');
	IF pg_temp.wrong(o.run) = 'waits beside its signal' AND EXISTS (SELECT FROM leaves_to_the_pass
		WHERE operation IN (first, second)) THEN
		PERFORM pgqrs_maintain();
	END IF;

	FOR attempt IN 1 .. 2 LOOP
		answers := ARRAY[pg_temp.as_whole(a), pg_temp.as_whole(b)];
		portrait := pg_temp.portrait(o.run, o.lease);
		IF cardinality(mine) > 1 THEN
			legal := true;
		ELSIF how = 'rollback' THEN
			legal := pg_temp.is_as(state, second, NULL, answers[2:], portrait);
		ELSE
			legal := pg_temp.is_as(state, first, second, answers, portrait)
				OR (NOT waited AND how <> 'before' AND pg_temp.is_as(state, second, first,
					ARRAY[answers[2], answers[1]], portrait));
		END IF;
		EXIT WHEN legal OR attempt = 2;
		b := pg_temp.call_again('b', second, b, o.run, o.lease);
		IF how = 'at once' THEN
			a := pg_temp.call_again('a', first, a, o.run, o.lease);
		END IF;
	END LOOP;
	fault := concat_ws(', ', fault, pg_temp.wrong(o.run), CASE WHEN NOT legal THEN 'neither order' END,
		pg_temp.undelivered(o.run));
	IF fault <> '' THEN
		INSERT INTO raced VALUES (state, first, second, isolation, how, waited, format(E'%s\n%s; %s\n%s', fault,
			answers[1], answers[2], portrait));
	ELSE
		INSERT INTO raced VALUES (state, first, second, isolation, how, waited, NULL);
	END IF;
	PERFORM pg_temp.forget();
	COMMIT;
END
$$;

-- Races every two operations of one call in every state; how_repeatable: how at REPEATABLE READ.
CREATE TEMP VIEW singles AS SELECT * FROM operations WHERE cardinality(calls) = 1;
CREATE PROCEDURE pg_temp.race_pairs(how_repeatable text[]) LANGUAGE plpgsql AS
$$
DECLARE
	pair record;
	how text;
BEGIN
	FOR pair IN SELECT state, operation FROM states, singles LOOP
		CALL pg_temp.know(pair.state, pair.operation, NULL);
	END LOOP;
	-- an operation that is refused takes no lock and changes nothing
	FOR pair IN SELECT s.state, a.operation AS first, b.operation AS second,
		pg_temp.failure(t.answers) IS NOT NULL AS refused, a.place <= b.place AS in_order
		FROM serial s JOIN singles a ON s.first = a.operation, serial t JOIN singles b ON t.first = b.operation
		WHERE s.state = t.state AND s.second IS NULL AND t.second IS NULL AND pg_temp.failure(s.answers) IS NULL LOOP
		CALL pg_temp.know(pair.state, pair.first, pair.second);
		CONTINUE WHEN pair.refused AND (SELECT pg_temp.failure(answers) FROM serial s
			WHERE (s.state, s.first, s.second) = (pair.state, pair.first, pair.second)) IS NOT NULL;
		CALL pg_temp.race(pair.state, pair.first, pair.second, 'READ COMMITTED', 'commit');
		CALL pg_temp.race(pair.state, pair.first, pair.second, 'READ COMMITTED', 'rollback');
		FOREACH how IN ARRAY how_repeatable LOOP
			CALL pg_temp.race(pair.state, pair.first, pair.second, 'REPEATABLE READ', how);
		END LOOP;
		IF pair.in_order THEN
			CALL pg_temp.race(pair.state, pair.first, pair.second, 'READ COMMITTED', 'at once');
		END IF;
	END LOOP;
END
$$;

-- The faults of the races between two operations, a line each; NULL without one.
CREATE FUNCTION pg_temp.faults(one text, other text) RETURNS text LANGUAGE sql AS
$$
	SELECT string_agg(format(E'%s, then %s, %s: %s, %s: %s', first, second, state, isolation, how, fault), E'\n'
		ORDER BY first, state, isolation, how)
	FROM raced WHERE (first, second) IN ((one, other), (other, one)) AND fault IS NOT NULL
$$;
