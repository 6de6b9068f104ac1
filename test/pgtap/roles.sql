-- Roles that were renamed, and others that got their names: what a role has in
-- the tables follows the role, not the name.
SELECT * FROM no_plan();
SET client_min_messages = warning;

SELECT format('old_%s', pg_backend_pid()) AS old, format('new_%s', pg_backend_pid()) AS new,
	format('swap_%s', pg_backend_pid()) AS swap \gset
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
		pg_temp.as_role(role, 'SELECT count(owner) FROM pgqrs_worker_stats'),
		pg_temp.as_role(role, format('SELECT pgqrs_heartbeat(%s)', (SELECT worker_id FROM pgqrs_workers
			WHERE name = 'w'))),
		pg_temp.as_role(role, 'SELECT pgqrs_enable_schedule(''flow'', true) IS NOT NULL'))
$$;
CREATE FUNCTION pg_temp.rows() RETURNS text LANGUAGE sql AS
$$
	SELECT concat_ws(' ', (SELECT string_agg(DISTINCT grantee::text, ',') FROM pgqrs_grants),
		(SELECT string_agg(DISTINCT owner::text, ',') FROM pgqrs_workers),
		(SELECT string_agg(DISTINCT owner::text || CASE WHEN may_fire THEN '!' ELSE '' END, ',')
			FROM pgqrs_schedule_list))
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
	FOR role IN SELECT rolname FROM pg_roles WHERE rolname = format('swap_%s', pg_backend_pid())
		OR rolname ~ format('^(old|new)_%s$', pg_backend_pid()) LOOP
		EXECUTE format('DROP OWNED BY %I; DROP ROLE %1$I', role);
	END LOOP;
END
$$;

--
-- Renamed, and the name is another role's
--
BEGIN;
SELECT pg_temp.furnish(:'old');
SELECT is(pg_temp.has(:'old'), '1 1 READY true',
	'a role has the privileges, worker and schedule that it was given and made');
ALTER ROLE :old RENAME TO :new;
SELECT is(pg_temp.has(:'new'), '1 1 READY true', 'a renamed role keeps its privileges, worker and schedule');
CREATE ROLE :old;
SELECT is(pg_temp.has(:'old'), '42501 42501 42501 42501',
	'a role created under the old name of another one has nothing of it');
SELECT pgqrs_create_queue('other'), pgqrs_grant('other', :'old', 'work'), pgqrs_grant('other', :'old', 'trigger');
SELECT is(pg_temp.has(:'old'), '1 0 PQ005 42704', 'a role under the old name has only what was granted to itself');
SELECT is(pg_temp.has(:'new'), '1 1 READY true', 'the renamed role keeps its own when the other one gets a grant');
SELECT is((SELECT string_agg(pattern || ' ' || g.grantee, ', ' ORDER BY pattern, privilege) FROM pgqrs_grants g),
	format('flow %s, flow %1$s, other %s, other %2$s', :'new', :'old'),
		'a grant writes the new name of every role into the table');
SELECT pgqrs_grant('flow', :'old', 'work');
SELECT is(pg_temp.as_role(:'old', 'SELECT pgqrs_register_worker(''w'', ''{flow}'') IS NOT NULL'), 'true',
	'two roles may each have a worker of the same name');
SELECT is((SELECT string_agg(w.owner || ' ' || w.status, ', ' ORDER BY w.worker_id) FROM pgqrs_workers w),
	format('%s READY, %s READY', :'new', :'old'),
	'registering a worker does not stop another role''s worker of that name');
SELECT pgqrs_revoke('flow', :'old', 'work');
SELECT is(pg_temp.as_role(:'new', 'SELECT count(*) FROM pgqrs_queue_stats'), '1',
	'a revoke from the role that has the old name takes nothing from the renamed one');
SELECT pg_temp.clear();
COMMIT;

BEGIN;
SELECT pg_temp.furnish(:'old');
ALTER ROLE :old RENAME TO :new;
SELECT pgqrs_maintain() -> 'grants_removed' AS removed \gset
SELECT is(:removed, 0, 'maintenance removes no grant of a renamed role');
SELECT is(pg_temp.rows(), format('%s %1$s %1$s!', :'new'),
	'maintenance writes the new name of a role, for a dump keeps names');
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
SELECT is((SELECT string_agg(g.pattern || ' ' || g.grantee || ' ' || g.privilege, ', ' ORDER BY g.grantee = :'new',
	g.pattern, g.privilege) FROM pgqrs_grants g),
	format('flow %1$s work, other %1$s work, flow %2$s trigger, flow %2$s work', :'old', :'new'),
		'maintenance follows two roles that have swapped their names');
SELECT is(pg_temp.has(:'new'), '1 1 READY true', 'a role that has swapped its name keeps what it had');
SELECT is(pg_temp.has(:'old'), '2 0 PQ005 42501', 'a role that has swapped its name gets nothing of the other');
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
SELECT is(pg_temp.has(:'old'), '42501 42501 42501 42501',
	'a role created again under a dropped role''s name has nothing');
SELECT ok(NOT may_fire, 'a schedule of a dropped role does not fire for a role of its name') FROM pgqrs_schedule_list;
SELECT pgqrs_grant('flow', :'old', 'work');
SELECT is((SELECT string_agg(g.privilege::text, ' ') FROM pgqrs_grants g), 'work',
	'a grant to a role does not bring back what a dropped role of its name had');
SELECT is(pg_temp.as_role(:'old', 'SELECT pgqrs_register_worker(''w'', ''{flow}'') IS NOT NULL'), 'true',
	'a role may take the name of a worker whose owner was dropped');
SELECT pgqrs_maintain();
SELECT is((SELECT string_agg(w.owner || ' ' || w.status, ', ' ORDER BY w.worker_id) FROM pgqrs_workers w),
	format('none STOPPED, %s READY', :'old'),
	'maintenance stops the worker of a dropped role and gives it no owner');
SELECT is((SELECT s.owner::text FROM pgqrs_schedules s), 'none',
	'the schedule of a dropped role has no owner, so that a dump hands it to no role');
SELECT pg_temp.clear();
COMMIT;

BEGIN;
SELECT pg_temp.furnish(:'old');
DROP OWNED BY :old;
DROP ROLE :old;
SELECT lives_ok(format('SELECT pgqrs_revoke(''flow'', %L, ''work'')', :'old'),
	'a grant to a dropped role can be revoked by the role''s name');
SELECT is((SELECT string_agg(privilege::text, ' ') FROM pgqrs_grants), 'trigger',
	'revoking one privilege of a dropped role keeps its other one');
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
SELECT is(pg_temp.has(:'new'), '42501 42501 42501 42501',
	'an id from another database does not give a role of this one anything');
SELECT is(pg_temp.has(:'old'), '1 1 READY true', 'a row from another database belongs to the role of its name');
SELECT pgqrs_maintain();
ALTER ROLE :old RENAME TO :swap;
ALTER ROLE :new RENAME TO :old;
SELECT is(pg_temp.has(:'swap'), '1 1 READY true',
	'after maintenance a row from another database follows its role to a new name');
SELECT is(pg_temp.has(:'old'), '42501 42501 42501 42501',
	'after maintenance the name in a row from another database counts no longer');
SELECT pg_temp.clear();
COMMIT;

SELECT * FROM finish();
