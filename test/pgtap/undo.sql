-- on_cancel => 'deliver': a run that was asked to stop is delivered once more,
-- so that its handler undoes what it has done.
\ir include/runs.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_workflow('job', on_cancel => 'deliver', timeout => '1 h', max_crashes => 2, max_attempts => 3),
	pgqrs_create_workflow('plain'), pgqrs_create_workflow('child') \g /dev/null

CREATE FUNCTION pg_temp.state(run bigint) RETURNS text LANGUAGE sql AS
$$
	SELECT concat_ws(', ', r.status, r.undo_cause, CASE WHEN r.undone THEN 'undone' END, CASE
		WHEN m.lease IS NOT NULL THEN 'held' END, CASE WHEN m.waiting_for = 'cancel' THEN 'asked' END, CASE
		WHEN m.lease IS NULL AND m.visible_after <= clock_timestamp() THEN 'due' END, r.error->>'type')
	FROM pgqrs_workflow_runs r LEFT JOIN pgqrs_messages m USING (run_id) WHERE r.run_id = run
$$;
-- Claims the run without changing what is due: its lease, NULL without cancel_requested.
CREATE FUNCTION pg_temp.undo(run bigint) RETURNS bigint LANGUAGE sql AS
$$ SELECT max(lease) FROM pgqrs_dequeue('job', batch_size => 100) WHERE run_id = run AND cancel_requested $$;
CREATE FUNCTION pg_temp.call(call text, run bigint, lease bigint) RETURNS text LANGUAGE sql AS
$$ SELECT pg_temp.answer('SELECT ' || replace(replace(call, 'RUN', run::text), 'LEASE', lease::text)) $$;

--
-- Requests
--

-- A run that was never claimed ends.
SELECT pgqrs_trigger('job') AS run \gset
SELECT is(pgqrs_cancel_run(:run), 'CANCELLED', 'a run that was never claimed ends by a cancel');

-- One that waits is delivered.
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_step_begin(:run, :lease, 'paid'), pgqrs_step_complete(:run, :lease, 'paid', '1') \g /dev/null
SELECT pgqrs_start_child(:run, :lease, 'c', 'child') AS child \gset
SELECT is(pgqrs_sleep(:run, :lease, 'rest', '1 h'), false, 'a run sleeps');
SELECT deadline_at AS before FROM pgqrs_workflow_runs WHERE run_id = :run \gset
SELECT is(pgqrs_cancel_run(:run, 'enough'), 'PAUSED', 'a cancel does not end a run that was claimed before');
SELECT is(pg_temp.state(:run), 'PAUSED, cancel, due', 'it is claimable at once, also from a wait');
SELECT is((cancel_requested_at IS NOT NULL, cancel_reason, deadline_at > :'before')::text, '(t,enough,t)',
	'the request is stored, and the time-out counts anew') FROM pgqrs_workflow_runs WHERE run_id = :run;
SELECT is(status, 'CANCELLED', 'children alive are cancelled at the request') FROM pgqrs_result(:child);
SELECT pgqrs_cancel_run(:run, 'once more') \g /dev/null
SELECT is(cancel_reason, 'enough', 'another cancel changes nothing') FROM pgqrs_workflow_runs WHERE run_id = :run;
SELECT pg_temp.undo(:run) AS lease \gset
SELECT isnt(:'lease'::text, '', 'the delivery has cancel_requested');
SELECT is((should_execute, output)::text, '(f,1)', 'finished steps answer as ever')
	FROM pgqrs_step_begin(:run, :lease, 'paid');
SELECT is(pg_temp.call('pgqrs_sleep(RUN, LEASE, ''rest'', ''1 h'')', :run, :lease), 'PQ010',
	'a wait from before the request raises PQ010 instead of parking');
SELECT is(pg_temp.call('pgqrs_sleep(RUN, LEASE, ''rest'', ''1 h'')', :run, :lease), 'PQ010', 'each time');
SELECT is((extended, cancel_requested)::text, '(t,f)', 'an extension under the lease of the undo asks for nothing')
	FROM pgqrs_extend_lease(:run, :lease);
SELECT is(should_execute, true, 'a new step begins in the undo') FROM pgqrs_step_begin(:run, :lease, 'refund');
SELECT is(pgqrs_step_complete(:run, :lease, 'refund', '2'), true, 'and ends');
SELECT is(pgqrs_await_signal(:run, :lease, 'confirmed', 'ok')::text, '(f,f,,)', 'a new wait parks in the undo');
SELECT is(pg_temp.state(:run), 'PAUSED, cancel', 'the undo waits');
SELECT pgqrs_signal(:run, 'ok') \g /dev/null
SELECT pg_temp.undo(:run) AS lease \gset
SELECT isnt(:'lease'::text, '', 'every delivery from then on has cancel_requested');
SELECT is((pgqrs_await_signal(:run, :lease, 'confirmed', 'ok')).received, true, 'the wait of the undo is over');
SELECT is(string_agg(step_id, ' ' ORDER BY step_id), 'confirmed refund',
	'pgqrs_list_steps() marks what the undo recorded') FROM pgqrs_list_steps(:run) WHERE undo;
SELECT pgqrs_start_child(:run, :lease, 'late', 'child') AS child \gset
SELECT pgqrs_acknowledge_cancel(:run, :lease, '"undone"') \g /dev/null
SELECT is(pg_temp.state(:run), 'CANCELLED, cancel, undone', 'the undo ends by an acknowledgement');
SELECT is(output, '"undone"', 'with its output') FROM pgqrs_result(:run);
SELECT pgqrs_maintain() \g /dev/null
SELECT is(status, 'QUEUED', 'a child that was started in the undo goes on') FROM pgqrs_result(:child);
SELECT is(pg_temp.call('pgqrs_acknowledge_cancel(RUN, LEASE)', :run, :lease) ~ 'PQ', false,
	'a repeated acknowledgement changes nothing');
SELECT is(pg_temp.call('pgqrs_rerun(RUN, keep_finished => true)', :run, 0),
	'PQ016 Its finished steps are undone.', 'a run that was undone is not rerun with its steps');
SELECT is(pg_temp.call('pgqrs_rerun(RUN, from_step => ''refund'')', :run, 0),
	'PQ016 Its finished steps are undone.', 'nor from a step');
SELECT is(pg_temp.call('pgqrs_rerun(RUN) > 0', :run, 0), 'true', 'but from its beginning');

-- One that is held is asked to stop first.
SELECT * FROM pg_temp.start('job') \gset
SELECT is(pgqrs_cancel_run(:run), 'RUNNING', 'a run that is held is asked to stop');
SELECT is(pg_temp.state(:run), 'RUNNING, cancel, held, asked', 'its lease stays');
SELECT is(pg_temp.call('pgqrs_step_begin(RUN, LEASE, ''s'')', :run, :lease), 'PQ010',
	'a lease from before the request gets PQ010');
SELECT is((extended, cancel_requested)::text, '(t,t)', 'its extension tells of the request')
	FROM pgqrs_extend_lease(:run, :lease);
SELECT is(pgqrs_step_complete(:run, :lease, 'done', '1'), true, 'it may store what it has done');
SELECT is(undo, false, 'which is no part of the undo') FROM pgqrs_list_steps(:run) WHERE step_id = 'done';
SELECT is(pg_temp.call(call, :run, :lease) || ' ' || pg_temp.state(:run), after, call) FROM (VALUES
	('pgqrs_complete_run(RUN, LEASE)', 'true RUNNING, cancel, held, asked')) v (call, after);
CREATE FUNCTION pg_temp.given_up(call text) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	r bigint;
	l bigint;
BEGIN
	SELECT run, lease INTO r, l FROM pg_temp.start('job');
	PERFORM pgqrs_step_begin(r, l, 's'), pgqrs_cancel_run(r);
	EXECUTE 'SELECT ' || replace(replace(call, 'RUN', r::text), 'LEASE', l::text);
	RETURN concat_ws(' | ', pg_temp.state(r), (SELECT failures FROM pgqrs_messages WHERE message_id = r),
		pg_temp.undo(r) IS NOT NULL, pg_temp.state(r));
END
$$;
SELECT is(pg_temp.given_up(call), 'RUNNING, cancel, due | 0 | t | RUNNING, cancel, held',
	'gives the lease up, and the undo is delivered: ' || call)
	FROM unnest(ARRAY['pgqrs_acknowledge_cancel(RUN, LEASE)', 'pgqrs_fail_run(RUN, LEASE, ''{}'')',
		'pgqrs_fail_run(RUN, LEASE, ''{}'', true)', 'pgqrs_step_fail(RUN, LEASE, ''s'', ''{}'')',
		'pgqrs_step_fail(RUN, LEASE, ''s'', ''{}'', false)', 'pgqrs_release_message(RUN, LEASE)',
		'pgqrs_set_visibility(RUN, ''2000-01-01'')']) call;
-- Its expiry, found by a claim, and by maintenance.
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_cancel_run(:run), pg_temp.due(:run) \g /dev/null
SELECT isnt(pg_temp.undo(:run), NULL, 'a claim after the lease has expired delivers the undo');
SELECT is(failures, 0, 'the lease from before counts no crash') FROM pgqrs_messages WHERE message_id = :run;
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_cancel_run(:run) \g /dev/null
UPDATE pgqrs_messages SET visible_after = visible_after - interval '1 day', exhausted_at = exhausted_at
	- interval '1 day' WHERE message_id = :run;
SELECT pgqrs_maintain() \g /dev/null
SELECT is(pg_temp.state(:run), 'RUNNING, cancel, due', 'maintenance gives up a lease that has expired');

--
-- The deadline
--

SELECT * FROM pg_temp.start('job') \gset
SELECT pg_temp.late(:run) \g /dev/null
SELECT is(pg_temp.call('pgqrs_step_begin(RUN, LEASE, ''s'')', :run, :lease), 'PQ010',
	'after the deadline a lease gets PQ010, not PQ007');
SELECT is((extended, cancel_requested)::text, '(t,t)', 'and its extension tells of the request')
	FROM pgqrs_extend_lease(:run, :lease);
SELECT is(pgqrs_step_complete(:run, :lease, 's', '1'), true, 'it may store what it has done');
SELECT pgqrs_maintain() \g /dev/null
SELECT is(pg_temp.state(:run), 'RUNNING, timeout, held, asked', 'maintenance asks the worker to stop');
SELECT is(deadline_at > clock_timestamp() + interval '50 min', true, 'the time-out counts anew')
	FROM pgqrs_workflow_runs WHERE run_id = :run;
SELECT pgqrs_release_message(:run, :lease) \g /dev/null
SELECT pg_temp.undo(:run) AS lease \gset
SELECT pgqrs_acknowledge_cancel(:run, :lease) \g /dev/null
SELECT is(pg_temp.state(:run), 'ERROR, timeout, undone, timeout', 'an undo for the deadline ends in ERROR timeout');
SELECT is(pg_temp.call('pgqrs_acknowledge_cancel(RUN, LEASE)', :run, :lease) ~ 'PQ', false,
	'a repeated acknowledgement of it changes nothing');
SELECT is(pg_temp.call('pgqrs_replay_message(RUN)', :run, 0) ~ '^PQ016', true, 'a run that was undone is not replayed');
SELECT is(pgqrs_replay_queue('job'), 0::bigint, 'pgqrs_replay_queue() passes over it');
-- Without a live lease.
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_sleep(:run, :lease, 'z', '2 h'), pg_temp.late(:run), pgqrs_maintain() \g /dev/null
SELECT is(pg_temp.state(:run), 'PAUSED, timeout, due', 'at its deadline a run that waits is claimable');
SELECT * FROM pg_temp.start('job') \gset
SELECT pg_temp.late(:run), pg_temp.due(:run) \g /dev/null
SELECT count(*) FROM pgqrs_dequeue('job', batch_size => 100) \g /dev/null
SELECT is(pg_temp.state(:run) ~ '^RUNNING, timeout', true, 'a claim past the deadline requests the undo');
SELECT * FROM pg_temp.start('job') \gset
SELECT pg_temp.late(:run), pgqrs_fail_run(:run, :lease, '{}') \g /dev/null
SELECT is(pg_temp.state(:run), 'RUNNING, timeout, due', 'a failure past the deadline gives the lease up');
SELECT * FROM pg_temp.start('job') \gset
SELECT pg_temp.late(:run), pgqrs_release_message(:run, :lease) \g /dev/null
SELECT is(pg_temp.state(:run), 'RUNNING, timeout, due', 'a release past the deadline gives the lease up');
SELECT * FROM pg_temp.start('job') \gset
SELECT pg_temp.late(:run) \g /dev/null
SELECT is(pgqrs_complete_run(:run, :lease, '1'), true, 'complete_run wins over the deadline');
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_fail_run(:run, :lease, '{}', true, '2 h') \g /dev/null
SELECT is(pg_temp.state(:run), 'RUNNING, timeout, due', 'a retry that would come after the deadline is an undo');
SELECT * FROM pg_temp.start('plain') \gset
SELECT pg_temp.late(:run) \g /dev/null
SELECT is(pg_temp.call('pgqrs_step_begin(RUN, LEASE, ''s'')', :run, :lease) ~ '^PQ007', true,
	'the deadline of any other workflow answers PQ007');

--
-- Ends of the undo
--

CREATE FUNCTION pg_temp.undoing(OUT run bigint, OUT lease bigint) LANGUAGE plpgsql AS
$$
BEGIN
	SELECT * INTO run, lease FROM pg_temp.start('job');
	PERFORM pgqrs_cancel_run(run), pgqrs_acknowledge_cancel(run, lease);
	lease := pg_temp.undo(run);
END
$$;
SELECT * FROM pg_temp.undoing() \gset
SELECT is(pgqrs_complete_run(:run, :lease, '1'), true, 'complete_run ends the undo');
SELECT is(pg_temp.state(:run), 'SUCCESS, cancel', 'with SUCCESS');
SELECT * FROM pg_temp.undoing() \gset
SELECT is(outcome, 'RETRY', 'retries work in the undo')
	FROM pgqrs_step_fail(:run, :lease, 's', '{}', retry_after => '0');
SELECT pg_temp.undo(:run) AS lease \gset
SELECT pgqrs_fail_run(:run, :lease, '{"type": "x"}') \g /dev/null
SELECT is(pg_temp.state(:run), 'ERROR, cancel, x', 'fail_run ends the undo in ERROR');
SELECT pgqrs_replay_message(:run) \g /dev/null
SELECT isnt(pg_temp.undo(:run), NULL, 'the replay of an undo that failed goes on with the undo');
SELECT * FROM pg_temp.undoing() \gset
SELECT pg_temp.late(:run), pgqrs_maintain() \g /dev/null
SELECT is(pg_temp.state(:run), 'ERROR, cancel, timeout', 'an undo that is past its time-out ends in ERROR');
SELECT * FROM pg_temp.undoing() \gset
SELECT pg_temp.due(:run) \g /dev/null
SELECT isnt(pg_temp.undo(:run), NULL, 'an undo whose lease has expired is delivered again');
SELECT pg_temp.due(:run) \g /dev/null
SELECT pg_temp.undo(:run) \g /dev/null
SELECT is(pg_temp.state(:run), 'ERROR, cancel, max_crashes', 'max_crashes counts anew, and ends the undo');
SELECT * FROM pg_temp.undoing() \gset
SELECT pgqrs_delete_run(:run) \g /dev/null
SELECT is(pg_temp.state(:run), 'CANCELLED, cancel', 'a deletion ends the undo without a word');
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_sleep(:run, :lease, 'z', '1 h'), pgqrs_cancel_run(:run), pgqrs_purge_queue('job') \g /dev/null
SELECT is(pg_temp.state(:run), 'CANCELLED, cancel', 'a purge ends it, too');

--
-- Workers
--

-- Polls tell of the request, and deliver the undo with its steps.
SELECT pgqrs_register_worker('w', '{job}') AS w \gset
SELECT pgqrs_trigger('job') AS run \gset
CALL pgqrs_poll(:w, '0') \gset
SELECT :'work'::jsonb->0->>'lease' AS lease \gset
SELECT is(:'work'::jsonb->0->>'cancel_requested', 'false', 'the delivery of a new run asks for nothing');
SELECT pgqrs_step_complete(:run, :lease, 'paid', '1'), pgqrs_cancel_run(:run) \g /dev/null
CALL pgqrs_poll(:w, '0', held_ids => ARRAY[:run], held_leases => ARRAY[:lease]) \gset
SELECT is(:'held'::jsonb->0->>'state', 'cancel_requested', 'a poll tells the holder of the request');
SELECT pgqrs_acknowledge_cancel(:run, :lease) \g /dev/null
CALL pgqrs_poll(:w, '0', held_ids => ARRAY[:run], held_leases => ARRAY[:lease]) \gset
SELECT is(:'held'::jsonb->0->>'state', 'gone', 'a poll tells the former holder that its lease is gone');
SELECT is(:'work'::jsonb->0->>'cancel_requested', 'true', 'and delivers the undo to it');
SELECT is(:'work'::jsonb->0->'steps'->'paid'->>'undo', 'false', 'a step from before is no part of the undo');
SELECT :'work'::jsonb->0->>'lease' AS lease \gset
CALL pgqrs_poll(:w, '0', held_ids => ARRAY[:run], held_leases => ARRAY[:lease]) \gset
SELECT is(:'held'::jsonb->0->>'state', 'extended', 'a poll does not ask the holder of the undo to stop');
SELECT is((stored, should_execute, cancel_requested)::text, '(t,t,f)', 'pgqrs_step_next() goes on in the undo')
	FROM pgqrs_step_next(:run, :lease, 'refund', '2', 'mail');
SELECT is(state, 'held', 'pgqrs_live_runs says of a run whose undo is held that it is held') FROM pgqrs_live_runs
	WHERE run_id = :run;
SELECT pgqrs_release_message(:run, :lease) \g /dev/null
SELECT is(state || ' ' || undo_cause, 'ready cancel', 'and of one that waits for its undo, that it is ready')
	FROM pgqrs_live_runs WHERE run_id = :run;
CALL pgqrs_poll(:w, '0') \gset
SELECT :'work'::jsonb->0->>'lease' AS lease \gset
SELECT is(:'work'::jsonb->0->'steps'->'refund'->>'undo', 'true', 'a poll marks what the undo recorded');
SELECT pgqrs_acknowledge_cancel(:run, :lease) \g /dev/null

-- At a deadline that no transaction has written yet.
SELECT pgqrs_trigger('job') AS run \gset
CALL pgqrs_poll(:w, '0') \gset
SELECT :'work'::jsonb->0->>'lease' AS lease \gset
SELECT pg_temp.late(:run) \g /dev/null
CALL pgqrs_poll(:w, '0', held_ids => ARRAY[:run], held_leases => ARRAY[:lease]) \gset
SELECT is(:'held'::jsonb->0->>'state', 'cancel_requested', 'a poll after the deadline asks the holder to stop');
SELECT is((extended, cancel_requested)::text, '(t,t)', 'pgqrs_extend_worker() does, too')
	FROM pgqrs_extend_worker(:w) WHERE run_id = :run;
SELECT is((stored, should_execute, cancel_requested)::text, '(t,f,t)', 'and pgqrs_step_next() stores and asks')
	FROM pgqrs_step_next(:run, :lease, 'a', '2', 'b');
SELECT pgqrs_acknowledge_cancel(:run, :lease) \g /dev/null
CALL pgqrs_poll(:w, '0') \gset
SELECT is(:'work'::jsonb->0->>'cancel_requested', 'true', 'what gave the lease up after the deadline is undone');
SELECT :'work'::jsonb->0->>'lease' AS lease \gset

-- pgqrs_next() and pgqrs_start().
SELECT is(payload, NULL, 'pgqrs_next() ends an undo') FROM pgqrs_next(:w, done_ids => ARRAY[:run],
	done_leases => ARRAY[:lease]) WHERE queue IS NULL
	UNION ALL SELECT NULL LIMIT 1;
SELECT is(pg_temp.state(:run), 'SUCCESS, timeout', 'as complete_run does');
SELECT run_id AS run, lease FROM pgqrs_start('job', worker_id => :w) \gset
SELECT pgqrs_cancel_run(:run), pgqrs_release_message(:run, :lease) \g /dev/null
SELECT is(cancel_requested, true, 'pgqrs_next() delivers an undo, also of a run from pgqrs_start()')
	FROM pgqrs_next(:w) WHERE run_id = :run;

-- A worker that stops, is superseded, or is reaped.
SELECT pgqrs_stop_worker(:w) \g /dev/null
SELECT is(pg_temp.state(:run), 'RUNNING, cancel, due', 'a worker that stops gives the undo back');
SELECT isnt(pg_temp.undo(:run), NULL, 'which is delivered again');
CREATE FUNCTION pg_temp.loses(undoing boolean) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	w bigint := pgqrs_register_worker('v', '{job}');
	r bigint;
	l bigint;
BEGIN
	SELECT run_id, lease INTO r, l FROM pgqrs_start('job', worker_id => w);
	PERFORM pgqrs_cancel_run(r);
	IF undoing THEN
		PERFORM pgqrs_acknowledge_cancel(r, l);
		PERFORM FROM pgqrs_dequeue('job', worker_id => w, batch_size => 100);
	END IF;
	PERFORM pgqrs_register_worker('v', '{job}');
	RETURN concat_ws(' | ', pg_temp.state(r), (SELECT failures FROM pgqrs_messages WHERE message_id = r),
		pg_temp.undo(r) IS NOT NULL);
END
$$;
SELECT is(pg_temp.loses(false), 'RUNNING, cancel, due | 0 | t',
	'a superseded worker gives up a lease from before the request, which counts no crash');
SELECT is(pg_temp.loses(true), 'RUNNING, cancel, due | 1 | t', 'and a lease of the undo, which counts one');

--
-- Children
--

SELECT pgqrs_create_workflow('own', on_cancel => 'deliver') \g /dev/null
CREATE FUNCTION pg_temp.status(run bigint) RETURNS text LANGUAGE sql AS $$ SELECT status FROM pgqrs_result(run) $$;

-- Of a child's own on_cancel.
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_start_child(:run, :lease, 'own', 'own') AS child,
	pgqrs_start_child(:run, :lease, 'kept', 'child', on_parent_end => 'abandon') AS kept \gset
SELECT pgqrs_start_child(:run, :lease, 'm', 'child') AS held \gset
SELECT lease AS child_lease FROM pgqrs_dequeue('own') \gset
SELECT pgqrs_cancel_run(:run) \g /dev/null
SELECT is((extended, cancel_requested)::text, '(t,t)', 'a child that is to be undone is asked to stop')
	FROM pgqrs_extend_lease(:child, :child_lease);
SELECT is(pg_temp.status(:held) || ' ' || pg_temp.status(:kept), 'CANCELLED QUEUED',
	'an abandoned child goes on, any other is cancelled');
SELECT pgqrs_release_message(:run, :lease) \g /dev/null
SELECT pg_temp.undo(:run) AS lease \gset
SELECT is(pg_temp.call('pgqrs_await_child(RUN, LEASE, ''own'')', :run, :lease), 'PQ010',
	'a child from before the request is not awaited in the undo while it lives');
SELECT is((done, status)::text, '(t,CANCELLED)', 'once it has ended its result is there')
	FROM pgqrs_await_child(:run, :lease, 'm');

-- What fails with a failed undo.
SELECT pgqrs_start_child(:run, :lease, 'late', 'child') AS late \gset
SELECT pgqrs_fail_run(:run, :lease, '{}') \g /dev/null
SELECT is(pg_temp.status(:late), 'CANCELLED', 'the children of an undo end with it if it fails');

-- Joined children: what the undo itself has started goes on.
CREATE FUNCTION pg_temp.joined(in_undo boolean, OUT a bigint, OUT la bigint, OUT b bigint, OUT lb bigint,
	OUT child bigint) LANGUAGE plpgsql AS
$$
DECLARE
	key text := gen_random_uuid();
BEGIN
	SELECT run, lease INTO b, lb FROM pg_temp.start('job');
	SELECT run, lease INTO a, la FROM pg_temp.start('job');
	child := pgqrs_start_child(a, la, 'c', 'child', idempotency_key => key);
	IF in_undo THEN
		PERFORM pgqrs_cancel_run(b), pgqrs_release_message(b, lb);
		lb := pg_temp.undo(b);
	END IF;
	PERFORM pgqrs_start_child(b, lb, 'c', 'child', idempotency_key => key);
END
$$;
SELECT * FROM pg_temp.joined(false) \gset
SELECT pgqrs_cancel_run(:a) \g /dev/null
SELECT is(pg_temp.status(:child), 'QUEUED', 'a child of two runs goes on while one of them is not asked to stop');
SELECT pgqrs_cancel_run(:b) \g /dev/null
SELECT is(pg_temp.status(:child), 'CANCELLED', 'a child of two runs is cancelled when both are to be undone');
SELECT * FROM pg_temp.joined(true) \gset
SELECT pgqrs_cancel_run(:a) \g /dev/null
SELECT is(pg_temp.status(:child), 'QUEUED',
	'a child that an undo has joined goes on when its other parent is to be undone');
SELECT pgqrs_acknowledge_cancel(:b, :lb) \g /dev/null
SELECT pgqrs_release_message(:a, :la), pg_temp.undo(:a) AS la \gset
SELECT pgqrs_fail_run(:a, :la, '{}'), pgqrs_maintain() \g /dev/null
SELECT is(pg_temp.status(:child), 'QUEUED', 'also when that undo has ended, and the other parent has failed');
SELECT * FROM pg_temp.joined(true) \gset
SELECT pgqrs_fail_run(:b, :lb, '{}'), pgqrs_cancel_run(:a), pgqrs_maintain() \g /dev/null
SELECT is(pg_temp.status(:child), 'CANCELLED', 'but not when that undo has failed');

--
-- Waits from before the request
--

CREATE FUNCTION pg_temp.waits(call text) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	r bigint;
	l bigint;
	answers text[];
BEGIN
	SELECT run, lease INTO r, l FROM pg_temp.start('job');
	PERFORM pgqrs_start_child(r, l, 'c', 'child');
	EXECUTE 'SELECT ' || replace(replace(call, 'RUN', r::text), 'LEASE', l::text);
	PERFORM pgqrs_cancel_run(r);
	l := pg_temp.undo(r);
	answers := ARRAY[pg_temp.call(call, r, l), pg_temp.call(replace(call, '''x''', '''y'''), r, l)];
	RETURN array_to_string(answers, ' | ');
END
$$;
SELECT is(pg_temp.waits(call), 'PQ010 | ' || answer, 'an old wait raises PQ010, a new one waits: ' || call) FROM (VALUES
	('pgqrs_sleep(RUN, LEASE, ''x'', ''1 h'')', 'false'), ('pgqrs_pause_run(RUN, LEASE, ''x'')', '(f,)'),
	('pgqrs_await_signal(RUN, LEASE, ''x'', ''go'')', '(f,f,,)'),
	('pgqrs_await_any(RUN, LEASE, ''x'', ARRAY[''go''])', '(f,,,)')) v (call, answer);
-- Events end such a wait as ever.
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_await_signal(:run, :lease, 'x', 'go'), pgqrs_cancel_run(:run), pgqrs_signal(:run, 'go', '7') \g /dev/null
SELECT pg_temp.undo(:run) AS lease \gset
SELECT is(pgqrs_await_signal(:run, :lease, 'x', 'go')::text, '(t,f,7,)',
	'a signal ends a wait from before the request');
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_pause_run(:run, :lease, 'x'), pgqrs_cancel_run(:run), pgqrs_resume_run(:run, 'x', '7') \g /dev/null
SELECT pg_temp.undo(:run) AS lease \gset
SELECT is(pgqrs_pause_run(:run, :lease, 'x')::text, '(t,7)', 'a resume ends a pause from before the request');
-- An advance lets the undo's own sleep pass.
SELECT pgqrs_sleep(:run, :lease, 'y', '30 min') \g /dev/null
SELECT is(pgqrs_advance(:run, '31 min') <= clock_timestamp(), true, 'pgqrs_advance() moves a sleep of the undo');
SELECT pg_temp.undo(:run) AS lease \gset
SELECT is(pgqrs_sleep(:run, :lease, 'y', '30 min'), true, 'which is over then');

--
-- Failures
--

SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_step_begin(:run, :lease, 's') \g /dev/null
SELECT is(outcome, 'RETRY', 'a step whose retry would come after the deadline gives the lease up')
	FROM pgqrs_step_fail(:run, :lease, 's', '{"type": "first"}', retry_after => '2 h');
SELECT is(pg_temp.state(:run), 'RUNNING, timeout, due', 'and its run is to be undone');
SELECT pg_temp.undo(:run) AS lease \gset
SELECT pgqrs_acknowledge_cancel(:run, :lease) \g /dev/null
SELECT is(error->>'type' || ' ' || (error->'last_error'->>'type'), 'timeout first',
	'the error of the run names the failure, too') FROM pgqrs_result(:run);
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_fail_run(:run, :lease, '{}', true, '0'), pg_temp.claim(:run) AS lease \gset
SELECT pgqrs_fail_run(:run, :lease, '{}', true, '0'), pg_temp.claim(:run) AS lease \gset
SELECT pgqrs_cancel_run(:run), pgqrs_release_message(:run, :lease), pg_temp.undo(:run) AS lease \gset
SELECT isnt(pgqrs_fail_run(:run, :lease, '{}', true, '0'), NULL,
	'failures from before the request do not count in the undo');
SELECT pg_temp.undo(:run) AS lease \gset
SELECT pgqrs_step_complete(:run, :lease, 'refund', '1'), pgqrs_step_complete(:run, :lease, 'mail', '1'),
	pgqrs_fail_run(:run, :lease, '{}') \g /dev/null
SELECT is(pg_temp.call('pgqrs_rerun(RUN, keep_finished => true)', :run, 0),
	'PQ016 Some of its finished steps may be undone.', 'a run whose undo failed is not rerun with its steps');
SELECT is(pg_temp.call('pgqrs_rerun(RUN, from_step => ''mail'')', :run, 0),
	'PQ016 Some of its finished steps may be undone.', 'nor from a step');
SELECT created_at AS since FROM pgqrs_workflow_runs WHERE run_id = :run \gset
SELECT results_eq(format('SELECT changed, skipped FROM pgqrs_rerun_runs(''job'', created_after => %L)', :'since'),
	'VALUES (0::bigint, 1::bigint)', 'a call for many passes over it');
SELECT is(changed, 1::bigint, 'unless it reruns from the beginning')
	FROM pgqrs_rerun_runs('job', created_after => :'since', from_failed => false);

--
-- Settings
--

SELECT is(on_cancel, v, 'pgqrs_workflows_list shows on_cancel') FROM pgqrs_workflows_list
	JOIN (VALUES ('job', 'deliver'), ('plain', 'end')) w (workflow, v) USING (workflow) ORDER BY workflow;
SELECT * FROM pg_temp.start('own') \gset
SELECT pgqrs_cancel_run(:run), pgqrs_alter_workflow('own', on_cancel => 'end'),
	pgqrs_acknowledge_cancel(:run, :lease) \g /dev/null
SELECT is(pg_temp.state(:run), 'RUNNING, cancel, due',
	'what was requested under "deliver" is delivered after a change');
SELECT * FROM pg_temp.start('own') \gset
SELECT pgqrs_cancel_run(:run), pgqrs_alter_workflow('own', on_cancel => 'deliver'), pg_temp.late(:run) \g /dev/null
SELECT is(extended, false, 'what was requested under "end" ends as ever') FROM pgqrs_extend_lease(:run, :lease);
SELECT pgqrs_maintain() \g /dev/null
SELECT is(pg_temp.state(:run), 'CANCELLED', 'at its deadline, too');
SELECT * FROM pg_temp.start('own') \gset
SELECT pgqrs_cancel_run(:run), pgqrs_release_message(:run, :lease) \g /dev/null
SELECT is(pgqrs_delete_workflow('own', force => true), true, 'a workflow with an undo is deleted by force');
SELECT is_empty(format('SELECT FROM pgqrs_live_runs WHERE run_id = %s', :'run'), 'which ends the undo');

-- The counts of maintenance.
SELECT * FROM pg_temp.start('job') \gset
SELECT pg_temp.late(:run) \g /dev/null
SELECT is(pgqrs_maintain()->>'runs_timed_out', '0', 'a run whose undo is requested has not timed out');
UPDATE pgqrs_messages SET visible_after = visible_after - interval '1 day', exhausted_at = exhausted_at
	- interval '1 day' WHERE message_id = :run;
SELECT is((j->>'messages_dead') || (j->>'runs_cancelled'), '00', 'nor has it ended when its lease expires')
	FROM pgqrs_maintain() j;
SELECT is(pg_temp.state(:run), 'RUNNING, timeout, due', 'it is to be undone');
SELECT * FROM pgqrs_cancel_runs('job') \g /dev/null
SELECT is_empty('SELECT FROM pgqrs_live_runs WHERE workflow = ''job'' AND undo_cause IS NULL AND attempt > 0',
	'pgqrs_cancel_runs() requests the undo of each run that was claimed');

-- Children that are too many are cancelled by a later pass while the undo goes on, or by its end.
SELECT * FROM pg_temp.start('job') \gset
SELECT count(pgqrs_start_children(:run, :lease, 'm' || g, 'child', array_fill('1'::jsonb, '{550}')))
	FROM generate_series(1, 4) g \g /dev/null
SELECT pgqrs_sleep(:run, :lease, 'rest', '30 min'), pgqrs_cancel_run(:run) \g /dev/null
SELECT is(count(*), 1000::bigint, 'a request cancels a thousand of 2,200 children at once')
	FROM pgqrs_runs WHERE parent_run_id = :run AND status = 'CANCELLED';
SELECT pg_temp.undo(:run) AS lease \gset
SELECT pgqrs_start_child(:run, :lease, 'refund', 'child') AS child \gset
SELECT is((pgqrs_maintain()->'runs_cancelled')::text, '1000', 'a pass cancels a thousand more while the undo is held');
SELECT pgqrs_acknowledge_cancel(:run, :lease) \g /dev/null
SELECT is(pg_temp.state(:run), 'CANCELLED, cancel, undone', 'the undo ends before all of them are cancelled');
SELECT is(array_agg(run_id), ARRAY[:child]::bigint[], 'all but the child that was started in the undo are CANCELLED')
	FROM pgqrs_runs WHERE parent_run_id = :run AND status <> 'CANCELLED';

SELECT is_empty('SELECT * FROM pgqrs_verify() WHERE NOT ok AND check_name <> ''messages below floors''',
	'every row of this test is consistent');
SELECT * FROM finish();
