-- The state machine of plain messages: every operation in every state of a
-- message, against the moves of docs/concepts.md.
--
-- A cell is what the call answers, or its SQLSTATE with the DETAIL of PQ007 and PQ016,
-- and where the message is after it, with its failures.
\ir include/runs.sql
SELECT * FROM no_plan();
CREATE FUNCTION public.handle(payload jsonb) RETURNS void LANGUAGE sql AS 'SELECT';

-- The states, with the lease that the caller has or had.
CREATE TEMP TABLE states (state text PRIMARY KEY, message bigint, lease bigint,
	place int GENERATED ALWAYS AS IDENTITY);
CREATE FUNCTION pg_temp.bring(state text, OUT message bigint, OUT lease bigint) LANGUAGE plpgsql AS
$$
DECLARE
	newer bigint;
BEGIN
	PERFORM pgqrs_create_queue(state, max_attempts => CASE WHEN state IN ('exhausted', 'dead') THEN 1 ELSE 3 END);
	message := pgqrs_enqueue(state, '1', delay => CASE state WHEN 'delayed' THEN interval '1 h' ELSE '0' END,
		idempotency_key => 'k');
	lease := 1;
	IF state NOT IN ('ready', 'delayed', 'gone') THEN
		SELECT d.lease INTO lease FROM pgqrs_dequeue(state) d;
	END IF;
	IF state IN ('expired', 'taken', 'done by another', 'exhausted') THEN
		UPDATE pgqrs_messages SET visible_after = clock_timestamp(), exhausted_at = CASE
			WHEN exhausted_at IS NOT NULL THEN clock_timestamp() END WHERE message_id = message;
	END IF;
	IF state IN ('taken', 'done by another') THEN
		SELECT d.lease INTO newer FROM pgqrs_dequeue(state) d;
	END IF;
	CASE state
		WHEN 'given back' THEN PERFORM pgqrs_release_message(message, lease);
		WHEN 'failed' THEN PERFORM pgqrs_nack_message(message, lease, delay => '1 h');
		WHEN 'done' THEN PERFORM pgqrs_archive_message(message, lease);
		WHEN 'done by another' THEN PERFORM pgqrs_archive_message(message, newer);
		WHEN 'dead' THEN PERFORM pgqrs_nack_message(message, lease);
		WHEN 'deleted' THEN PERFORM pgqrs_delete_message(message, lease);
		WHEN 'gone' THEN PERFORM pgqrs_purge_queue(state);
		ELSE
	END CASE;
END
$$;
INSERT INTO states SELECT state, b.*
	FROM unnest('{ready,delayed,held,expired,taken,given back,failed,exhausted,done,done by '
	'another,dead,deleted,gone}'::text[]) state, pg_temp.bring(state) b;

CREATE TEMP TABLE operations (operation text PRIMARY KEY, call text);
INSERT INTO operations VALUES
	('claim', 'SELECT count(*) FROM pgqrs_dequeue(STATE)'),
	('consume', 'SELECT pgqrs_consume(STATE, ''public.handle'')'),
	('archive', 'SELECT pgqrs_archive_message(ID, LEASE)'),
	('archive several', 'SELECT pgqrs_archive_messages(ARRAY[ID], ARRAY[LEASE])'),
	('archive, claim', 'SELECT coalesce(string_agg(payload ->> ''sqlstate'', '' ''), ''ended'') FROM '
		'pgqrs_next(queue => STATE, batch_size => 0, done_ids => ARRAY[ID], done_leases => ARRAY[LEASE]::bigint[])'),
	('delete', 'SELECT pgqrs_delete_message(ID, LEASE)'),
	('release', 'SELECT pgqrs_release_message(ID, LEASE)'),
	('nack', 'SELECT CASE WHEN pgqrs_nack_message(ID, LEASE, delay => ''1 h'') IS NULL THEN ''dead'' ELSE ''later'' '
		'END'),
	('extend', 'SELECT pgqrs_extend_lease(ID, LEASE)'),
	('extend several', 'SELECT extended FROM pgqrs_extend_leases(ARRAY[ID], ARRAY[LEASE])'),
	('make visible', 'SELECT pgqrs_set_visibility(ID, clock_timestamp())'),
	('hide', 'SELECT pgqrs_set_visibility(ID, clock_timestamp() + interval ''1 h'')'),
	('replay', 'SELECT pgqrs_replay_message(ID)'),
	('replay all', 'SELECT pgqrs_replay_queue(STATE)'),
	('purge', 'SELECT pgqrs_purge_queue(STATE)'),
	('purge dead letters', 'SELECT pgqrs_purge_dead_letters(STATE, ''0'')'),
	('maintain', 'SELECT pgqrs_maintain()->''messages_dead'''),
	('send again', 'SELECT CASE pgqrs_enqueue(STATE, ''2'', idempotency_key => ''k'') WHEN ID THEN ''same'' ELSE '
		'''new'' END'),
	('peek', 'SELECT count(*) FROM pgqrs_peek(STATE)');

-- Where the message is.
CREATE FUNCTION pg_temp.place_of(message bigint) RETURNS text LANGUAGE sql AS
$$
	SELECT coalesce(
		(SELECT CASE WHEN lease IS NULL THEN CASE WHEN visible_after <= clock_timestamp() THEN 'ready' ELSE 'delayed'
			END
				WHEN visible_after <= clock_timestamp() THEN 'expired' ELSE 'held' END || ' ' || failures
					FROM pgqrs_messages WHERE message_id = message),
		(SELECT outcome || ' ' || failures FROM pgqrs_archive WHERE message_id = message), 'gone')
$$;

-- Carries out one operation in one state and undoes it.
CREATE FUNCTION pg_temp.outcome(state text, message bigint, lease bigint, call text) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	answer text;
	place text;
	detail text;
BEGIN
	BEGIN
		EXECUTE replace(replace(replace(call, 'ID', message::text), 'LEASE', lease::text), 'STATE',
			quote_literal(state)) INTO answer;
	EXCEPTION WHEN OTHERS THEN
		GET STACKED DIAGNOSTICS answer = RETURNED_SQLSTATE, detail = PG_EXCEPTION_DETAIL;
		IF answer IN ('PQ007', 'PQ016') THEN
			answer := answer || ' ' || detail;
		END IF;
	END;
	place := pg_temp.place_of(message);
	RAISE EXCEPTION USING ERRCODE = 'UNDO0';
EXCEPTION WHEN SQLSTATE 'UNDO0' THEN
	RETURN coalesce(nullif(answer, ''), 'done') || ', ' || place;
END
$$;

-- Where it is before, and so after whatever changes nothing.
CREATE TEMP TABLE at_rest (state text, place text);
INSERT INTO at_rest VALUES ('ready', 'ready 0'), ('delayed', 'delayed 0'), ('held', 'held 0'),
	('expired', 'expired 0'), ('taken', 'held 1'), ('given back', 'ready 0'),
	('failed', 'delayed 1'), ('exhausted', 'expired 0'), ('done', 'DONE 0'), ('done by another', 'DONE 1'),
		('dead', 'DEAD 1'), ('deleted', 'DELETED 0'), ('gone', 'gone');
SELECT is(pg_temp.place_of(message), at_rest.place, 'the test has brought its message into the state ' || state)
	FROM states JOIN at_rest USING (state) ORDER BY states.place;

-- As documented.  One line: the operation, the answer, the states.
CREATE TEMP TABLE expected (operation text, answer text, states text[]);
INSERT INTO expected VALUES
	-- a claim takes what is due, counts a lease that was lost, and ends what was held too often
	('claim', '1, held 0', '{ready,given back}'),
	('claim', '1, held 1', '{expired}'),
	('claim', '0, DEAD 1', '{exhausted}'),
	('consume', '1, DONE 0', '{ready,given back}'),
	('consume', '1, DONE 1', '{expired}'),
	('consume', '0, DEAD 1', '{exhausted}'),
	-- under the current lease, also when it has run out
	('archive', 'true, DONE 0', '{held,expired,exhausted}'),
	('archive several', '{t}, DONE 0', '{held,expired,exhausted}'),
	('archive, claim', 'ended, DONE 0', '{held,expired,exhausted}'),
	('delete', 'done, DELETED 0', '{held,expired,exhausted}'),
	('release', 'done, ready 0', '{held,expired,exhausted}'),
	('nack', 'later, delayed 1', '{held,expired}'),
	('nack', 'dead, DEAD 1', '{exhausted}'),
	('extend', '(t,f), held 0', '{held,expired,exhausted}'),
	('extend several', 'true, held 0', '{held,expired,exhausted}'),
	-- repeated, because the answer was lost
	('archive', 'false, DONE 0', '{done}'),
	('archive several', '{f}, DONE 0', '{done}'),
	('archive, claim', 'ended, DONE 0', '{done}'),
	-- an operator moves what is live, and takes it away without a failure
	('make visible', 'done, ready 0', '{ready,delayed,held,expired,given back,exhausted}'),
	('make visible', 'done, ready 1', '{taken,failed}'),
	('hide', 'done, delayed 0', '{ready,delayed,held,expired,given back,exhausted}'),
	('hide', 'done, delayed 1', '{taken,failed}'),
	-- out of the archive leads a replay, and only for what is dead
	('replay', 'done, ready 0', '{dead}'),
	('replay all', '1, ready 0', '{dead}'),
	('purge dead letters', '1, gone', '{dead}'),
	-- messages that no worker holds
	('purge', '1, gone', '{ready,delayed,expired,given back,failed,exhausted}'),
	-- maintenance ends the one that is exhausted
	('maintain', '1, DEAD 1', '{exhausted}');
-- Whatever changes nothing.
INSERT INTO expected SELECT operation, answer || ', ' || place, ARRAY[state] FROM (VALUES
	('claim', '0', '{delayed,held,taken,failed,done,done by another,dead,deleted,gone}'::text[]),
	('consume', '0', '{delayed,held,taken,failed,done,done by another,dead,deleted,gone}'),
	('archive', 'PQ006', '{ready,delayed,taken,given back,failed,done by another,gone}'),
	('archive', 'PQ007 The status is DEAD.', '{dead}'),
	('archive', 'PQ007 The status is DELETED.', '{deleted}'),
	('archive several', '{NULL}', '{ready,delayed,taken,given back,failed,done by another,dead,deleted,gone}'),
	('archive, claim', 'PQ006', '{ready,delayed,taken,given back,failed,done by another,gone}'),
	('archive, claim', 'PQ007', '{dead,deleted}'),
	('delete', 'PQ006', '{ready,delayed,taken,given back,failed,done by another,gone}'),
	('delete', 'PQ007 The status is DONE.', '{done}'),
	('delete', 'PQ007 The status is DEAD.', '{dead}'),
	('delete', 'PQ007 The status is DELETED.', '{deleted}'),
	('release', 'PQ006', '{ready,delayed,taken,given back,failed,done by another,gone}'),
	('release', 'PQ007 The status is DONE.', '{done}'),
	('release', 'PQ007 The status is DEAD.', '{dead}'),
	('release', 'PQ007 The status is DELETED.', '{deleted}'),
	('nack', 'PQ006', '{ready,delayed,taken,given back,failed,done by another,gone}'),
	('nack', 'PQ007 The status is DONE.', '{done}'),
	('nack', 'PQ007 The status is DEAD.', '{dead}'),
	('nack', 'PQ007 The status is DELETED.', '{deleted}'),
	('extend', '(f,f)', '{ready,delayed,taken,given back,failed,done,done by another,dead,deleted,gone}'),
	('extend several', 'false', '{ready,delayed,taken,given back,failed,done,done by another,dead,deleted,gone}'),
	('make visible', 'PQ004', '{done,done by another,dead,deleted,gone}'),
	('hide', 'PQ004', '{done,done by another,dead,deleted,gone}'),
	('replay', 'PQ016 The message is live.', '{ready,delayed,held,expired,taken,given back,failed,exhausted}'),
	('replay', 'PQ016 The status is DONE.', '{done,done by another}'),
	('replay', 'PQ016 The status is DELETED.', '{deleted}'),
	('replay', 'PQ004', '{gone}'),
	('replay all', '0', '{ready,delayed,held,expired,taken,given back,failed,exhausted,done,done by '
		'another,deleted,gone}'),
	('purge', '0', '{held,taken,done,done by another,dead,deleted,gone}'),
	('purge dead letters', '0',
		'{ready,delayed,held,expired,taken,given back,failed,exhausted,done,done by another,deleted,gone}'),
	('maintain', '1', '{ready,delayed,held,expired,taken,given back,failed,done,done by another,dead,deleted,gone}'),
	('send again', 'same', '{ready,delayed,held,expired,taken,given back,failed,exhausted}'),
	('send again', 'new', '{done,done by another,dead,deleted,gone}'),
	('peek', '1', '{ready,delayed,held,expired,taken,given back,failed,exhausted}'),
	('peek', '0', '{done,done by another,dead,deleted,gone}')) v (operation, answer, states), at_rest
		WHERE state = ANY (states);
SELECT is_empty($$SELECT operation, state, count(e.operation) FROM operations CROSS JOIN states
	LEFT JOIN (SELECT e.operation, unnest(states) AS state FROM expected e) e USING (operation, state) GROUP BY 1, 2
	HAVING count(e.operation) <> 1$$, 'the table of expected outcomes has every pair of operation and state once');
SELECT pg_temp.contents() AS contents \gset
SELECT is(pg_temp.outcome(state, message, lease, call), answer,
	format('the operation "%s" on a message that is %s has the outcome of the contract', operation, state))
	FROM expected JOIN operations USING (operation), states WHERE state = ANY (expected.states) ORDER BY operation,
		place;
SELECT is(pg_temp.contents(), :'contents', 'every outcome was undone, so that the next pair finds its state');
SELECT * FROM finish();
