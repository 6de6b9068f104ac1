-- Which session holds a message, and which sessions serve a queue without a
-- worker: two tenants, each with a session of its own.
SELECT * FROM no_plan();
SET client_min_messages = warning;
CREATE EXTENSION dblink;

SELECT format('hold_kiwi_%s', pg_backend_pid()) AS kiwi, format('hold_lemon_%s', pg_backend_pid()) AS lemon \gset
CREATE FUNCTION pg_temp.session(name text, role text) RETURNS integer LANGUAGE sql AS
$$
	SELECT dblink_connect(name, format('host=%s port=%s dbname=%s user=%s application_name=%s',
		current_setting('unix_socket_directories'), current_setting('port'), current_database(), role, name));
	SELECT pid FROM dblink(name, 'SELECT pg_backend_pid()') AS s (pid integer)
$$;
CREATE FUNCTION pg_temp.ask(name text, query text) RETURNS TABLE (answer text) LANGUAGE sql AS
$$ SELECT * FROM dblink(name, format('SELECT v::text FROM (%s) AS v', query)) AS s (answer text) $$;

CREATE ROLE :kiwi LOGIN;
CREATE ROLE :lemon LOGIN;
SELECT pgqrs_create_queue('kiwi.q') AS kiwi_q, pgqrs_create_queue('kiwi.other') AS other,
	pgqrs_create_queue('lemon.q') AS lemon_q \gset
SELECT pgqrs_grant('kiwi.*', :'kiwi', 'admin'), pgqrs_grant('lemon.*', :'lemon', 'admin'),
	pgqrs_grant('lemon.q', :'kiwi', 'monitor') \g /dev/null
SELECT pg_temp.session('kiwi_session', :'kiwi') AS kiwi_pid, pg_temp.session('lemon_session', :'lemon') AS lemon_pid,
	pg_temp.session('kiwi_worker', :'kiwi') AS worker_pid \gset
SELECT cardinality(pgqrs_enqueue_batch('kiwi.q', array_fill('1'::jsonb, '{200}'))), pgqrs_enqueue('lemon.q', '1'),
	pgqrs_enqueue('kiwi.other', '1') \g /dev/null

SELECT is(live_workers, 0, 'nothing serves a queue from which no session has claimed') FROM pgqrs_queue_stats
	WHERE queue = 'kiwi.q';
SELECT matches(reason, '^no worker$', 'pgqrs_why tells that nothing serves the queue')
	FROM pgqrs_why('kiwi.q') LIMIT 1;
SELECT is(count(*), 150::bigint, 'a session claims without a worker')
	FROM pg_temp.ask('kiwi_session', $$SELECT message_id FROM pgqrs_dequeue('kiwi.q', batch_size => 150)$$);
SELECT is(count(*), 1::bigint, 'the other tenant''s session claims by a pattern')
	FROM pg_temp.ask('lemon_session', $$SELECT message_id FROM pgqrs_dequeue('*', batch_size => 9)$$);
SELECT is(string_agg(DISTINCT concat_ws(' ', pid = :kiwi_pid, role = :'kiwi', application_name), ', '),
	't t kiwi_session', 'each message of a batch names the session that claimed it without a worker')
	FROM pgqrs_in_flight WHERE queue = 'kiwi.q';
SELECT is(concat_ws(' ', pid = :lemon_pid, role = :'lemon', application_name), 't t lemon_session',
	'a claim by a pattern names its session') FROM pgqrs_in_flight WHERE queue = 'lemon.q';
SELECT is(string_agg(concat_ws(' ', queue, live_workers), ', ' ORDER BY queue), 'kiwi.other 0, kiwi.q 1, lemon.q 1',
	'a session serves the queues that it claims from, a pattern those on which its role has work')
	FROM pgqrs_queue_stats;
SELECT isnt(reason, 'no worker', 'pgqrs_why counts a session that claims without a worker')
	FROM pgqrs_why('kiwi.q');

-- registered workers: the session that called last
SELECT answer AS worker FROM pg_temp.ask('kiwi_worker', $$SELECT pgqrs_register_worker('w', '{kiwi.*}')$$) \gset
SELECT is(count(*), 1::bigint, 'a worker claims')
	FROM pg_temp.ask('kiwi_worker', format($$SELECT message_id FROM pgqrs_dequeue('kiwi.other', %s)$$,
		btrim(:'worker', '()')));
SELECT is(concat_ws(' ', worker, pid = :worker_pid, application_name), 'w t kiwi_worker',
	'a worker''s message names the session that called last for it') FROM pgqrs_in_flight WHERE queue = 'kiwi.other';
SELECT is(answer, '(READY)', 'another session calls for the worker')
	FROM pg_temp.ask('kiwi_session', format('SELECT pgqrs_heartbeat(%s)', btrim(:'worker', '()')));
SELECT is(concat_ws(' ', worker, pid = :kiwi_pid, application_name), 'w t kiwi_session',
	'the session that called last is named') FROM pgqrs_in_flight WHERE queue = 'kiwi.other';

-- what other roles are told
SELECT is(answer, format('(lemon.q,"","","")'), 'a role with monitor is not told the session of another role')
	FROM pg_temp.ask('kiwi_session', $$SELECT queue, coalesce(pid::text, ''), coalesce(role, ''),
		coalesce(application_name, '') FROM pgqrs_in_flight WHERE queue = 'lemon.q'$$);
SELECT message_id AS theirs FROM pgqrs_in_flight WHERE queue = 'kiwi.other' \gset
SELECT is(answer, '()', 'nor by the function, of a queue that is not its own')
	FROM pg_temp.ask('lemon_session', format('SELECT pgqrs_holder_of(%s)', :theirs));
SELECT is(answer, '()', 'nor how many serve it')
	FROM pg_temp.ask('lemon_session', format('SELECT pgqrs_live_workers(%s)', :kiwi_q));
SELECT is(count(DISTINCT answer), 1::bigint, 'a role is told its own sessions')
	FROM pg_temp.ask('kiwi_session', $$SELECT pid, role FROM pgqrs_in_flight WHERE queue = 'kiwi.q'$$)
	WHERE answer = format('(%s,%s)', :kiwi_pid, :'kiwi');
SELECT pgqrs_revoke('lemon.*', :'lemon', 'admin') \g /dev/null
SELECT is(live_workers, 0, 'a session whose role has lost its privilege does not serve the queue')
	FROM pgqrs_queue_stats WHERE queue = 'lemon.q';

-- the first call of a session
SELECT pgqrs_create_workflow('kiwi.flow') AS flow, pg_temp.session('kiwi_start', :'kiwi') AS start_pid,
	pg_temp.session('kiwi_beat', :'kiwi') AS beat_pid \gset
SELECT is(count(*), 1::bigint, 'a session''s first call starts a run')
	FROM pg_temp.ask('kiwi_start', $$SELECT lease FROM pgqrs_start('kiwi.flow')$$);
SELECT is(pid, :start_pid, 'a session whose first call starts a run without a worker is named')
	FROM pgqrs_in_flight WHERE queue = 'kiwi.flow';
SELECT is(count(*), 1::bigint, 'a session''s first call is a heartbeat')
	FROM pg_temp.ask('kiwi_beat', format('SELECT pgqrs_heartbeat(%s)', btrim(:'worker', '()')));
SELECT is(pid, :beat_pid, 'a session whose first call is a worker''s heartbeat is named')
	FROM pgqrs_in_flight WHERE queue = 'kiwi.other';

-- what other roles are told of open transactions
SELECT dblink_exec('kiwi_start', 'BEGIN') \g /dev/null
SELECT pg_temp.ask('kiwi_start', $$SELECT pgqrs_enqueue('kiwi.other', '1')$$) \g /dev/null
SELECT pgqrs_grant('kiwi.other', :'lemon', 'monitor') \g /dev/null
SELECT matches(detail, format('^1 message \(\d+\) sent by a transaction that is open: '
		'pid %s, role %s, kiwi_start, open since \d{4}-', :start_pid, :'kiwi'),
	'a member of its role is told which transaction is open, and since when')
	FROM pgqrs_why('kiwi.other') WHERE reason = 'open transaction';
SELECT matches(answer, 'sent by a transaction that is open: another session"\)$',
	'another role is told neither its session nor since when it is open')
	FROM pg_temp.ask('lemon_session', $$SELECT detail FROM pgqrs_why('kiwi.other')
		WHERE reason = 'open transaction'$$);
SELECT dblink_exec('kiwi_start', 'COMMIT') \g /dev/null
SELECT pg_temp.session('unseen', current_user) AS unseen_pid, dblink_exec('unseen', 'SET track_activities = off'),
	dblink_exec('unseen', 'BEGIN') \gset
SELECT pg_temp.ask('unseen', $$SELECT pgqrs_enqueue('kiwi.other', '1')$$) \g /dev/null
SELECT is(detail ~ 'open: pid \d+' AND detail !~ 'since', true,
	'of a session that does not report when its transaction began no time is told: ' || detail)
	FROM pgqrs_why('kiwi.other') WHERE reason = 'open transaction';
SELECT dblink_exec('unseen', 'COMMIT') \g /dev/null
SELECT pgqrs_revoke('kiwi.other', :'lemon', 'monitor'), dblink_disconnect('kiwi_start') \g /dev/null
SELECT dblink_disconnect('kiwi_beat') \g /dev/null

-- the end of a session
SELECT dblink_disconnect('kiwi_session') \g /dev/null
DO $$ BEGIN
	WHILE EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'kiwi_session') LOOP
		PERFORM pg_stat_clear_snapshot();
	END LOOP;
END $$;
SELECT is(count(pid), 0::bigint, 'a session that has ended is not named') FROM pgqrs_in_flight
	WHERE queue LIKE 'kiwi.%';
SELECT is(live_workers, 1, 'nor does it serve a queue; the worker does')
	FROM pgqrs_queue_stats WHERE queue = 'kiwi.q';
SELECT pg_temp.session('kiwi_again', :'kiwi') \g /dev/null
SELECT is(answer, '(0)', 'a session that takes its place is not taken for it') FROM pg_temp.ask('kiwi_again',
	$$SELECT count(pid) FROM pgqrs_in_flight WHERE queue = 'kiwi.q'$$);

SELECT dblink_disconnect(name) FROM unnest(dblink_get_connections()) AS name \g /dev/null
SELECT pgqrs_revoke('kiwi.*', :'kiwi', 'admin'), pgqrs_revoke('lemon.q', :'kiwi', 'monitor') \g /dev/null
DROP ROLE :kiwi, :lemon;
SELECT * FROM finish();
