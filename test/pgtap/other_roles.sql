-- Two tenants, neither of which is told anything of the other: not in a view, nor
-- in a result or an error of a function.  All that one of them has contains its
-- word, so that it is found wherever it shows.
SELECT * FROM no_plan();
SET client_min_messages = warning;
CREATE EXTENSION dblink;

CREATE TABLE tenants (word text PRIMARY KEY, role name, other text, run bigint, message bigint, dead bigint,
	worker bigint, queue bigint, lease bigint, pid integer);
INSERT INTO tenants SELECT w, format('%s_%s', w, pg_backend_pid()), o FROM (VALUES ('kiwi', 'lemon'),
	('lemon', 'kiwi')) v (w, o);
CREATE FUNCTION as_role(role name, query text) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	answer text;
	part text;
BEGIN
	EXECUTE format('SET LOCAL ROLE %I', role);
	EXECUTE format('SELECT string_agg(r::text, E''\n'') FROM (%s) r', query) INTO answer;
	RESET ROLE;
	RETURN answer;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS answer = PG_EXCEPTION_DETAIL, part = PG_EXCEPTION_HINT;
	RESET ROLE;
	RETURN format('ERROR %s %s %s %s', SQLSTATE, SQLERRM, answer, part);
END
$$;

-- Everything that can have a name.
CREATE FUNCTION furnish(w text, r name) RETURNS void LANGUAGE plpgsql AS
$$
DECLARE
	t tenants;
	m record;
BEGIN
	EXECUTE format('CREATE ROLE %I LOGIN', r);
	PERFORM pgqrs_grant(w || '.*', r, 'admin');
	EXECUTE format('SET LOCAL ROLE %I', r);
	t.worker := pgqrs_register_worker(w || ' worker', ARRAY['*', w || '.*'], w || ' host', 17, w || ' version',
		labels => to_jsonb(w));
	t.queue := pgqrs_create_queue(w || '.q', max_attempts => 1);
	PERFORM pgqrs_create_workflow(w || '.w', outbox_queue => w || '.q');
	t.dead := pgqrs_enqueue(w || '.q', to_jsonb(w), headers => jsonb_build_object(w, w), idempotency_key => w);
	SELECT * INTO m FROM pgqrs_dequeue(w || '.q', t.worker);
	PERFORM pgqrs_nack_message(t.dead, m.lease, error => to_jsonb(w));
	t.message := pgqrs_enqueue(w || '.q', to_jsonb(w));
	PERFORM pgqrs_dequeue(w || '.q', t.worker);
	t.run := pgqrs_trigger(w || '.w', to_jsonb(w), idempotency_key => w, tags => to_jsonb(w));
	SELECT d.lease INTO t.lease FROM pgqrs_dequeue(w || '.w', t.worker) d;
	PERFORM pgqrs_step_begin(t.run, t.lease, w || ' step'), pgqrs_start_child(t.run, t.lease, w || ' child',
		w || '.w'),
		pgqrs_signal(t.run, w || ' signal', to_jsonb(w)), pgqrs_set_progress(t.run, t.lease, to_jsonb(w)),
		pgqrs_schedule(w || '.s', '* * * * *', w || '.w', input => to_jsonb(w));
	RESET ROLE;
	UPDATE tenants SET run = t.run, message = t.message, dead = t.dead, worker = t.worker, queue = t.queue,
		lease = t.lease WHERE word = w;
END
$$;
SELECT furnish(word, role) FROM tenants \g /dev/null

-- A session of each, whose transaction goes on.
SELECT dblink_connect(word, format('host=%s port=%s dbname=%s user=%s application_name=%s',
	current_setting('unix_socket_directories'), current_setting('port'),
		current_database(), role, word)), dblink_exec(word, 'BEGIN ISOLATION LEVEL REPEATABLE READ')
			FROM tenants \g /dev/null
UPDATE tenants t SET pid = s.pid FROM tenants u, LATERAL dblink(u.word,
	format('SELECT pg_backend_pid() + 0 * length(%L)', u.word)) AS s (pid integer) WHERE u.word = t.word;

CREATE TABLE answers (word text, query text, answer text);
INSERT INTO answers SELECT word, query, as_role(role, query)
	FROM tenants, (
		SELECT format('SELECT * FROM %I', relname) FROM pg_class WHERE relkind = 'v' AND relname LIKE 'pgqrs\_%'
			AND relnamespace = 'public'::regnamespace
		UNION VALUES ('SELECT * FROM pgqrs_list_runs()'), ('SELECT * FROM pgqrs_list_runs(''*'')'),
			('SELECT * FROM pgqrs_old_sessions()'), ('SELECT * FROM pgqrs_background_stats()'),
			('SELECT pgqrs_queue_name(id) FROM generate_series(1, 100) id'), ('SELECT pgqrs_cancel_runs(''*'')'),
				('SELECT * FROM pgqrs_dequeue(''*'', batch_size => 100)')
	) AS q (query);

-- All functions that take an id, with what the other one has.
INSERT INTO answers SELECT t.word, c.call, as_role(t.role, c.call)
	FROM tenants t JOIN tenants o ON o.word = t.other CROSS JOIN LATERAL (
		SELECT format('SELECT %s(%s)', p.proname, (SELECT string_agg(CASE
				WHEN name = 'run_id' THEN o.run::text WHEN name = 'message_id' THEN i.id::text
					WHEN name = 'worker_id' THEN o.worker::text
				WHEN name IN ('queue_id', 'workflow_id') THEN o.queue::text WHEN name = 'lease' THEN l.lease::text
				WHEN name IN ('step_id', 'signal', 'reason', 'error_type') THEN '''x'''
					WHEN type = 'jsonb'::regtype THEN '''1'''
				WHEN type = 'interval'::regtype THEN '''1 s''' WHEN type = 'boolean'::regtype THEN 'true'
					WHEN type = 'timestamptz'::regtype THEN '''2040-01-01'''
				WHEN type = 'bigint[]'::regtype THEN format('''{%s}''', CASE name WHEN 'leases' THEN l.lease ELSE i.id
					END)
				ELSE 'NULL' END || '::' || format_type(type, NULL), ', ' ORDER BY n)
			FROM unnest(p.proargtypes, p.proargnames[:p.pronargs]) WITH ORDINALITY AS a (type, name, n))) AS call
		FROM pg_proc p, unnest(ARRAY[o.run, o.message, o.dead]) AS i (id), unnest(ARRAY[1, o.lease]) AS l (lease)
		WHERE p.proname LIKE 'pgqrs\_%' AND p.pronamespace = 'public'::regnamespace AND p.prokind = 'f'
			AND p.prorettype <> 'trigger'::regtype
			AND p.proargnames && '{run_id,message_id,worker_id,queue_id,workflow_id,message_ids}'
				AND has_function_privilege(t.role, p.oid, 'EXECUTE')
	) AS c;

SELECT cmp_ok(count(DISTINCT left(query, 30)), '>=', 50::bigint,
	'the tenants have called at least 50 different functions and views') FROM answers;
SELECT is(ARRAY(SELECT query || ': ' || answer FROM answers a JOIN tenants t USING (word)
	WHERE answer ILIKE '%' || t.other || '%'), '{}', 'no answer to one tenant contains a word of the other');
SELECT is(ARRAY(SELECT query || ': ' || answer FROM answers a JOIN tenants t USING (word)
	JOIN tenants o ON o.word = t.other WHERE answer ~ format('\m%s\M', o.pid)), '{}',
	'no answer to one tenant contains the process id of the other''s session');
SELECT cmp_ok(count(*), '>=', 7::bigint, format('%s sees its own objects in at least seven views', word))
	FROM answers a WHERE answer ILIKE '%' || word || '%' AND query LIKE 'SELECT * FROM pgqrs%' GROUP BY word;
SELECT is(count(*), 2::bigint, 'each tenant sees its own old session') FROM answers a JOIN tenants t USING (word)
	WHERE query = 'SELECT * FROM pgqrs_old_sessions()' AND answer ~ format('\m%s\M.*%s', t.pid, word);
SELECT alike(string_agg(answer, ' '), '%another session%',
	'pgqrs_health tells a tenant that another session holds an old snapshot') FROM answers
	WHERE query = 'SELECT * FROM pgqrs_health';

-- A member of the other role, and of pg_read_all_stats, is told.
SELECT format('GRANT %I TO %I', o.role, t.role) FROM tenants t JOIN tenants o ON o.word = t.other
	WHERE t.word = 'kiwi' \gexec
SELECT alike(as_role(role, 'SELECT * FROM pgqrs_old_sessions()'), '%lemon%',
	'a member of a role sees the sessions of that role') FROM tenants WHERE word = 'kiwi';
SELECT alike(as_role(role, 'SELECT * FROM pgqrs_worker_stats'), '%lemon host%',
	'a member of a role sees the workers of that role') FROM tenants WHERE word = 'kiwi';
SELECT format('REVOKE %I FROM %I', o.role, t.role), format('GRANT pg_read_all_stats TO %I', t.role) FROM tenants t
	JOIN tenants o ON o.word = t.other WHERE t.word = 'kiwi' \gexec
SELECT alike(as_role(role, 'SELECT * FROM pgqrs_old_sessions()'), '%lemon%',
	'a member of pg_read_all_stats sees every session') FROM tenants WHERE word = 'kiwi';
SELECT alike(as_role(role, 'SELECT * FROM pgqrs_worker_stats'), '%lemon host%',
	'a member of pg_read_all_stats sees every worker') FROM tenants WHERE word = 'kiwi';

SELECT dblink_disconnect(word) FROM tenants \g /dev/null
SELECT pgqrs_revoke(word || '.*', role, 'admin') FROM tenants \g /dev/null
SELECT format('DROP OWNED BY %I', role), format('DROP ROLE %I', role) FROM tenants \gexec
SELECT * FROM finish();
