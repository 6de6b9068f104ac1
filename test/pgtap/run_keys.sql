-- Idempotency keys of runs: how long they hold, what a duplicate gets.  F26.
-- F-numbers: docs/design/known-failures.md.
\ir include/runs.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_workflow('kept') AS kept, pgqrs_create_workflow('live', key_scope => 'active') AS live,
	pgqrs_create_workflow('other') \gset

-- Starts a run with a key and brings it to an end.
CREATE FUNCTION pg_temp.ended(workflow text, key text, how text) RETURNS bigint LANGUAGE plpgsql AS
$$
DECLARE
	run bigint := pgqrs_trigger(workflow, idempotency_key => key);
	lease bigint;
BEGIN
	IF how = 'CANCELLED' THEN
		PERFORM pgqrs_purge_queue(workflow);
		RETURN run;
	END IF;
	lease := pg_temp.claim(run);
	IF how = 'SUCCESS' THEN
		PERFORM pgqrs_complete_run(run, lease);
	ELSE
		PERFORM pgqrs_fail_run(run, lease, '{"type": "x"}');
	END IF;
	RETURN run;
END
$$;
-- What a trigger with the key gets: the same run, a new one, or an SQLSTATE.
CREATE FUNCTION pg_temp.again(workflow text, key text, run bigint, on_duplicate text = 'return') RETURNS text
	LANGUAGE sql AS
$$
	SELECT CASE a WHEN run::text THEN 'same' ELSE CASE WHEN a ~ '^[0-9]+$' AND a <> '23505' THEN 'new' ELSE a END END
	FROM pg_temp.answer(format('SELECT pgqrs_trigger(%L, idempotency_key => %L, on_duplicate => %L)', workflow, key,
		on_duplicate)) a
$$;

-- While the run lives, in both scopes.
SELECT pgqrs_trigger(w, '1', idempotency_key => 'k') AS id, w FROM unnest('{kept,live}'::text[]) w \g /dev/null
SELECT is(pgqrs_trigger(w, '2', idempotency_key => 'k'), pgqrs_find_run(w, 'k'),
	w || ': a second trigger with a key returns the run that has it') FROM unnest('{kept,live}'::text[]) w;
SELECT is(input, '1', workflow || ': a second trigger with a key leaves the run as it was') FROM pgqrs_list_runs();
SELECT is(pg_temp.again(w, 'k', pgqrs_find_run(w, 'k'), 'raise'), format('23505 Run %s has the key.',
	pgqrs_find_run(w, 'k')), w || ': on_duplicate raise names the run that has the key')
	FROM unnest('{kept,live}'::text[]) w;
SELECT pg_temp.contents() AS contents \gset
SELECT is(pg_temp.refusal('SELECT pgqrs_trigger(''kept'', idempotency_key => ''k'', on_duplicate => ''raise'')'),
	'23505', 'on_duplicate raise refuses the trigger before anything is written, in scope retained');
SELECT is(pg_temp.refusal('SELECT pgqrs_trigger(''live'', idempotency_key => ''k'', on_duplicate => ''raise'')'),
	'23505', 'on_duplicate raise refuses the trigger before anything is written, in scope active');
SELECT is(pg_temp.contents(), :'contents', 'refused triggers change nothing');
SELECT is(pg_temp.again(w, 'k2', pgqrs_find_run(w, 'k')), 'new', w || ': another key starts another run')
	FROM unnest('{kept,live}'::text[]) w;
SELECT is(pg_temp.again(w, 'K', pgqrs_find_run(w, 'k')), 'new',
	w || ': keys that differ in case start different runs') FROM unnest('{kept,live}'::text[]) w;
SELECT is(pg_temp.again('other', 'k', pgqrs_find_run('kept', 'k')), 'new', 'a key belongs to its workflow');
SELECT isnt(pgqrs_trigger('kept'), pgqrs_trigger('kept'), 'runs without a key are never duplicates');
SELECT is(pg_temp.again('kept', repeat('é', 127),
	(SELECT pgqrs_trigger('kept', idempotency_key => repeat('é', 127)))), 'same', 'a key may have 254 bytes');
SELECT is(pgqrs_find_run('kept', 'none'), NULL, 'pgqrs_find_run() returns NULL for a key that no run has');
SELECT is(pg_temp.answer('SELECT pgqrs_find_run(''nothing'', ''k'')'), 'PQ002',
	'pgqrs_find_run() refuses a workflow that does not exist');
DELETE FROM pgqrs_messages; DELETE FROM pgqrs_workflow_runs;

-- Every live state.
CREATE FUNCTION pg_temp.in_state(workflow text, state text) RETURNS bigint LANGUAGE plpgsql AS
$$
DECLARE
	run bigint := pgqrs_trigger(workflow, idempotency_key => state);
	lease bigint;
BEGIN
	IF state = 'QUEUED' THEN
		RETURN run;
	END IF;
	lease := pg_temp.claim(run);
	IF state = 'retry' THEN
		PERFORM pgqrs_fail_run(run, lease, '{}', true, '1 h');
	ELSIF state = 'PAUSED' THEN
		UPDATE pgqrs_workflow_runs SET status = 'PAUSED' WHERE run_id = run;
		UPDATE pgqrs_messages m SET lease = NULL WHERE message_id = run;
	END IF;
	RETURN run;
END
$$;
SELECT is(pg_temp.again(w, state, pg_temp.in_state(w, state)), 'same', w || ': the key is taken while its run is '
	|| state) FROM unnest('{kept,live}'::text[]) w, unnest('{QUEUED,RUNNING,retry,PAUSED}'::text[]) state;
DELETE FROM pgqrs_messages; DELETE FROM pgqrs_workflow_runs;

-- After the end.
SELECT is(pg_temp.again('kept', how, pg_temp.ended('kept', how, how)), 'same',
	'in scope retained the key is taken after ' || how) FROM unnest('{SUCCESS,ERROR,CANCELLED}'::text[]) how;
SELECT is(pg_temp.again('kept', how, pgqrs_find_run('kept', how), 'raise'), format('23505 Run %s has the key.',
	pgqrs_find_run('kept', how)), 'in scope retained on_duplicate raise refuses the key after ' || how)
	FROM unnest('{SUCCESS,ERROR,CANCELLED}'::text[]) how;
SELECT is(pg_temp.again('live', how, pg_temp.ended('live', how, how)), 'new', 'in scope active the key is free after '
	|| how) FROM unnest('{SUCCESS,ERROR,CANCELLED}'::text[]) how;
SELECT is(pg_temp.again('live', how, 0, 'raise'), 'new', 'in scope active on_duplicate raise takes the key after '
	|| how) FROM unnest('{SUCCESS,ERROR,CANCELLED}'::text[]) how;
SELECT is(pgqrs_find_run('live', 'SUCCESS'), NULL, 'in scope active pgqrs_find_run() finds no ended run');

-- Deleted.
SELECT pgqrs_find_run('kept', 'SUCCESS') AS gone \gset
UPDATE pgqrs_workflow_runs SET deleted_at = clock_timestamp() WHERE run_id = :gone;
SELECT is(pgqrs_find_run('kept', 'SUCCESS'), NULL, 'a deleted run is not found by its key');
SELECT is(pg_temp.again('kept', 'SUCCESS', :gone), 'new', 'the key of a deleted run is free');
SELECT isnt(pgqrs_trigger('kept', idempotency_key => 'SUCCESS'), :gone::bigint,
	'the key of a deleted run goes to a new run');
SELECT is(pg_temp.again('kept', 'SUCCESS', pgqrs_find_run('kept', 'SUCCESS')), 'same',
	'the new run with the key of a deleted one has it from then on');
SELECT is(run_id, :gone::bigint, 'a deleted run is still found by its id') FROM pgqrs_get_run(:gone);

-- Replay, with the key taken meanwhile.
SELECT pg_temp.ended('live', 'r', 'ERROR') AS failed \gset
SELECT pgqrs_trigger('live', idempotency_key => 'r') AS taker \gset
SELECT pg_temp.contents() AS contents \gset
SELECT is(pg_temp.answer(format('SELECT pgqrs_replay_message(%s)', :failed)),
	'PQ016 Another message has the same idempotency key.', 'a replay is refused if another run has taken the key');
SELECT is(pgqrs_replay_queue('live'), 1::bigint,
	'pgqrs_replay_queue() passes over the run whose key is taken and replays the other one');
SELECT is(status, 'ERROR', 'a run whose replay was refused is in ERROR as before') FROM pgqrs_result(:failed);
SELECT is(pgqrs_find_run('live', 'r'), :taker::bigint, 'the key stays with the run that took it');
SELECT lease FROM pg_temp.claim(:taker) lease \gset
SELECT pgqrs_complete_run(:taker, :lease);
SELECT pgqrs_replay_message(:failed);
SELECT is(pg_temp.again('live', 'r', :failed), 'same',
	'a run is replayed and gets its key back once the other one has ended');
SELECT pgqrs_replay_message(pgqrs_find_run('kept', 'ERROR'));
SELECT is(status, 'QUEUED', 'in scope retained a run''s own key does not prevent its replay')
	FROM pgqrs_result(pgqrs_find_run('kept', 'ERROR'));
SELECT is(pg_temp.again('kept', 'ERROR', pgqrs_find_run('kept', 'ERROR')), 'same',
	'in scope retained a replayed run still has its key');

-- The scope is changed: each run keeps the scope that it was triggered with.
SELECT pgqrs_create_workflow('change', key_scope => 'active') \g /dev/null
SELECT pgqrs_trigger('change', idempotency_key => 'early') AS early \gset
SELECT pgqrs_alter_workflow('change', key_scope => 'retained');
SELECT is(pgqrs_find_run('change', 'early'), :early::bigint,
	'when the scope turns retained, a live run keeps its key');
SELECT is(pg_temp.again('change', 'early', :early), 'same',
	'when the scope turns retained, a live run''s key is taken');
SELECT is(pgqrs_trigger_batch('change', '{1}', '{early}'), ARRAY[:early]::bigint[],
	'when the scope turns retained, a live run''s key is taken for batches too');
SELECT pg_temp.claim(:early) AS lease \gset
SELECT pgqrs_complete_run(:early, :lease);
SELECT is(pg_temp.again('change', 'early', :early), 'new',
	'a run triggered in scope active frees its key at its end, whatever the scope is then');
SELECT pg_temp.ended('change', 'late', 'SUCCESS') AS late \gset
SELECT pgqrs_trigger('change', idempotency_key => 'running') AS running \gset
SELECT pgqrs_alter_workflow('change', key_scope => 'active');
SELECT is(pg_temp.again('change', 'running', :running), 'same',
	'when the scope turns active, a live run''s key is taken');
SELECT is(pg_temp.again('change', 'late', :late), 'same',
	'when the scope turns active, an ended run keeps the key that it was triggered with');
SELECT is(pgqrs_find_run('change', 'late'), :late::bigint,
	'when the scope turns active, an ended run is found by its key');

SELECT pg_temp.ended('change', 'dead', 'ERROR') AS dead \gset
SELECT pgqrs_alter_workflow('change', key_scope => 'retained');
SELECT isnt(pgqrs_trigger('change', idempotency_key => 'dead'), :dead::bigint,
	'when the scope turns retained, a run that ended in scope active has freed its key');
SELECT is(left(pg_temp.answer(format('SELECT pgqrs_replay_message(%s)', :dead)), 5), 'PQ016',
	'a replay does not take a key from the run that has it');

-- A rollback frees the key.
BEGIN;
SELECT pgqrs_trigger('kept', idempotency_key => 'rolled back'), pgqrs_trigger('live',
	idempotency_key => 'rolled back') \g /dev/null
ROLLBACK;
SELECT is(pgqrs_find_run(w, 'rolled back'), NULL, w || ': after a rollback no run has the key')
	FROM unnest('{kept,live}'::text[]) w;
SELECT is(pg_temp.again(w, 'rolled back', 0), 'new', w || ': after a rollback the key is free')
	FROM unnest('{kept,live}'::text[]) w;

-- At REPEATABLE READ, with an older snapshot than the key: the newest committed state counts.
CREATE EXTENSION dblink;
SELECT dblink_connect('second', format('host=%s port=%s dbname=%s', current_setting('unix_socket_directories'),
	current_setting('port'), current_database())) \g /dev/null
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) FROM pgqrs_workflow_runs \g /dev/null
SELECT * FROM dblink('second',
	'SELECT pgqrs_trigger(''kept'', idempotency_key => ''unseen''), pgqrs_trigger(''live'', idempotency_key => '
	'''unseen'')') r (kept bigint, live bigint) \gset unseen_
SELECT is(pgqrs_trigger('kept', idempotency_key => 'unseen'), :unseen_kept::bigint,
	'in scope retained a key is taken by a run that the snapshot does not see');
SELECT is(pgqrs_trigger('live', idempotency_key => 'unseen'), :unseen_live::bigint,
	'in scope active a key is taken by a run that the snapshot does not see');
COMMIT;
SELECT dblink_disconnect('second') \g /dev/null

SELECT * FROM finish();
