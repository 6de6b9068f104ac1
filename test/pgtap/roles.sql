-- Roles that were renamed, and others that got their names: what a role has in
-- the tables follows the role, not the name.
SELECT * FROM no_plan();
SET client_min_messages = warning;

SELECT format('old_%s', pg_backend_pid()) AS old, format('new_%s', pg_backend_pid()) AS new, format('swap_%s', pg_backend_pid()) AS swap \gset
CREATE FUNCTION pg_temp.as_role(role text, query text) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	result text;
BEGIN
	EXECUTE format('SET LOCAL ROLE %I', role);
	EXECUTE query INTO result;
	RESET ROLE;
	RETURN result;
EXCEPTION WHEN OTHERS THEN
	RESET ROLE;
	RETURN SQLSTATE;
END
$$;
-- What a role has: queues it sees, its worker, its schedule.
CREATE FUNCTION pg_temp.has(role text) RETURNS text LANGUAGE sql AS
$$
	SELECT concat_ws(' ',
		pg_temp.as_role(role, 'SELECT count(*) FROM pgqrs_queue_stats'),
		pg_temp.as_role(role, 'SELECT count(*) FROM pgqrs_worker_stats'),
		pg_temp.as_role(role, format('SELECT pgqrs_heartbeat(%s)', (SELECT worker_id FROM pgqrs_workers WHERE name = 'w'))),
		pg_temp.as_role(role, 'SELECT pgqrs_enable_schedule(''flow'', true) IS NOT NULL'))
$$;
CREATE FUNCTION pg_temp.rows() RETURNS text LANGUAGE sql AS
$$
	SELECT concat_ws(' ', (SELECT string_agg(DISTINCT grantee::text, ',') FROM pgqrs_grants),
		(SELECT string_agg(DISTINCT owner::text, ',') FROM pgqrs_workers),
		(SELECT string_agg(DISTINCT owner::text || CASE WHEN may_fire THEN '!' ELSE '' END, ',') FROM pgqrs_schedule_list))
$$;
CREATE FUNCTION pg_temp.furnish(role text) RETURNS void LANGUAGE plpgsql AS
$$
BEGIN
	EXECUTE format('CREATE ROLE %I', role);
	PERFORM pgqrs_create_workflow('flow');
	PERFORM pgqrs_grant('flow', role, 'trigger'), pgqrs_grant('flow', role, 'work');
	PERFORM pg_temp.as_role(role, 'SELECT pgqrs_register_worker(''w'', ''{flow}'')');
	PERFORM pg_temp.as_role(role, 'SELECT pgqrs_schedule(''flow'', ''0 0 1 1 *'', ''flow'')');
END
$$;
CREATE FUNCTION pg_temp.clear() RETURNS void LANGUAGE plpgsql AS
$$
DECLARE
	role name;
BEGIN
	DELETE FROM pgqrs_grants;
	DELETE FROM pgqrs_workers;
	DELETE FROM pgqrs_schedules;
	PERFORM pgqrs_delete_workflow('flow', true), pgqrs_delete_queue('other', true);
	FOR role IN SELECT rolname FROM pg_roles WHERE rolname = format('swap_%s', pg_backend_pid()) OR rolname ~ format('^(old|new)_%s$', pg_backend_pid()) LOOP
		EXECUTE format('DROP OWNED BY %I; DROP ROLE %1$I', role);
	END LOOP;
END
$$;

--
-- Renamed, and the name is another role's
--
BEGIN;
SELECT pg_temp.furnish(:'old');
SELECT is(pg_temp.has(:'old'), '1 1 READY true', 'a role has what it was given and made');
ALTER ROLE :old RENAME TO :new;
SELECT is(pg_temp.has(:'new'), '1 1 READY true', 'and keeps it under another name');
CREATE ROLE :old;
SELECT is(pg_temp.has(:'old'), '42501 42501 42501 42501', 'which leaves nothing to a role that is created with the old one');
SELECT pgqrs_create_queue('other'), pgqrs_grant('other', :'old', 'work'), pgqrs_grant('other', :'old', 'trigger');
SELECT is(pg_temp.has(:'old'), '1 0 PQ005 42704', 'nor to one that was granted something else');
SELECT is(pg_temp.has(:'new'), '1 1 READY true', 'the first one still has its own');
SELECT is((SELECT string_agg(pattern || ' ' || g.grantee, ', ' ORDER BY pattern, privilege) FROM pgqrs_grants g),
	format('flow %s, flow %1$s, other %s, other %2$s', :'new', :'old'), 'a grant writes the names anew');
SELECT pgqrs_grant('flow', :'old', 'work');
SELECT is(pg_temp.as_role(:'old', 'SELECT pgqrs_register_worker(''w'', ''{flow}'') IS NOT NULL'), 'true', 'both may have a worker of the same name');
SELECT is((SELECT string_agg(w.owner || ' ' || w.status, ', ' ORDER BY w.worker_id) FROM pgqrs_workers w), format('%s READY, %s READY', :'new', :'old'),
	'which stops no other role''s');
SELECT pgqrs_revoke('flow', :'old', 'work');
SELECT is(pg_temp.as_role(:'new', 'SELECT count(*) FROM pgqrs_queue_stats'), '1', 'a revoke of the old name takes nothing from the other');
SELECT pg_temp.clear();
COMMIT;

BEGIN;
SELECT pg_temp.furnish(:'old');
ALTER ROLE :old RENAME TO :new;
SELECT pgqrs_maintain() -> 'grants_removed' AS removed \gset
SELECT is(:removed, 0, 'maintenance removes nothing of a renamed role');
SELECT is(pg_temp.rows(), format('%s %1$s %1$s!', :'new'), 'and writes the new name, for a dump keeps names');
SELECT pg_temp.clear();
COMMIT;

-- Names that are swapped.
BEGIN;
SELECT pg_temp.furnish(:'old');
CREATE ROLE :new;
SELECT pgqrs_create_queue('other'), pgqrs_grant('flow', :'new', 'work'), pgqrs_grant('other', :'new', 'work');
ALTER ROLE :old RENAME TO :swap;
ALTER ROLE :new RENAME TO :old;
ALTER ROLE :swap RENAME TO :new;
SELECT pgqrs_maintain();
SELECT is((SELECT string_agg(g.pattern || ' ' || g.grantee || ' ' || g.privilege, ', ' ORDER BY g.grantee = :'new', g.pattern, g.privilege) FROM pgqrs_grants g),
	format('flow %1$s work, other %1$s work, flow %2$s trigger, flow %2$s work', :'old', :'new'), 'two names that were swapped are swapped in the rows');
SELECT is(pg_temp.has(:'new'), '1 1 READY true', 'each has its own');
SELECT is(pg_temp.has(:'old'), '2 0 PQ005 42501', 'and no more');
SELECT pg_temp.clear();
COMMIT;

--
-- Dropped, and made again, in one transaction
--
BEGIN;
SELECT pg_temp.furnish(:'old');
DROP OWNED BY :old;
DROP ROLE :old;
CREATE ROLE :old;
SELECT is(pg_temp.has(:'old'), '42501 42501 42501 42501', 'a role of the same name has nothing');
SELECT ok(NOT may_fire, 'a schedule of the first does not fire for it') FROM pgqrs_schedule_list;
SELECT pgqrs_grant('flow', :'old', 'work');
SELECT is((SELECT string_agg(g.privilege::text, ' ') FROM pgqrs_grants g), 'work', 'a grant brings back no other');
SELECT is(pg_temp.as_role(:'old', 'SELECT pgqrs_register_worker(''w'', ''{flow}'') IS NOT NULL'), 'true', 'it may take the name of a worker that is nobody''s');
SELECT pgqrs_maintain();
SELECT is((SELECT string_agg(w.owner || ' ' || w.status, ', ' ORDER BY w.worker_id) FROM pgqrs_workers w), format('none STOPPED, %s READY', :'old'),
	'which is stopped, and belongs to none');
SELECT is((SELECT s.owner::text FROM pgqrs_schedules s), 'none', 'as the schedule does, so that a dump hands it to no role of that name');
SELECT pg_temp.clear();
COMMIT;

BEGIN;
SELECT pg_temp.furnish(:'old');
DROP OWNED BY :old;
DROP ROLE :old;
SELECT lives_ok(format('SELECT pgqrs_revoke(''flow'', %L, ''work'')', :'old'), 'what a dropped role had may be revoked by its name');
SELECT is((SELECT string_agg(privilege::text, ' ') FROM pgqrs_grants), 'trigger', 'and only that is gone');
SELECT pg_temp.clear();
COMMIT;

--
-- Rows that come from another database: ids of there mean nothing here.
--
BEGIN;
SELECT pg_temp.furnish(:'old');
CREATE ROLE :new;
-- as a restore would leave them, with the OID of another role beside a mark of another database
UPDATE pgqrs_grants SET grantee_id = (1::bigint << 40) + (SELECT oid::bigint FROM pg_roles WHERE rolname = :'new');
UPDATE pgqrs_workers SET owner_id = (1::bigint << 40) + (SELECT oid::bigint FROM pg_roles WHERE rolname = :'new');
UPDATE pgqrs_schedules SET owner_id = NULL;
SELECT is(pg_temp.has(:'new'), '42501 42501 42501 42501', 'the role that has the number here has nothing');
SELECT is(pg_temp.has(:'old'), '1 1 READY true', 'the name counts');
SELECT pgqrs_maintain();
ALTER ROLE :old RENAME TO :swap;
ALTER ROLE :new RENAME TO :old;
SELECT is(pg_temp.has(:'swap'), '1 1 READY true', 'until maintenance has taken the number of here, which holds from then on');
SELECT is(pg_temp.has(:'old'), '42501 42501 42501 42501', 'and the name counts no more');
SELECT pg_temp.clear();
COMMIT;

SELECT * FROM finish();
