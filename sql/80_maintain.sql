-- Maintenance.

CREATE FUNCTION @extschema@.pgqrs_maintain() RETURNS jsonb
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'sql_maintain';
COMMENT ON FUNCTION @extschema@.pgqrs_maintain() IS
'One bounded pass of all background duties; call it every few seconds. Returns counts: workers_stopped (silent for pgqrs.worker_timeout), leases_reaped (of stopped workers; claimable again, with one failure), messages_dead (exhausted; runs included), runs_cancelled (on request, when the lease expired, or with their parent), runs_timed_out (past their deadline), runs_woken (their wait was over), floors_lowered (for messages that claims did not find, written without the functions), grants_removed (to dropped roles), schedules_fired (runs that schedules triggered), messages_realigned (written while the clock was ahead, and now due earlier by its step back), messages_removed, runs_removed and firings_removed (a batch, as by pgqrs_apply_retention(), which also returns more). The duties are independent: one that fails is rolled back alone, raises a WARNING and is named in failed, an object with the sqlstate and message of each; the others continue. Never waits for a lock: rows that another transaction has locked are left to the next pass. Errors: 42501 unless called by the extension''s owner or a superuser.';

CREATE FUNCTION @extschema@.pgqrs_apply_retention() RETURNS jsonb
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'sql_apply_retention';
COMMENT ON FUNCTION @extschema@.pgqrs_apply_retention() IS
'One bounded batch of retention, of a few tenths of a second, as pgqrs_maintain() and the background worker run it: removes rows that ended longer ago than the queue''s retention, or dead_retention for dead letters and runs in ERROR, and all rows of deleted queues, whose live runs it ends. Returns counts: messages_removed (from the archive), runs_removed (with their messages, steps, signals and events), firings_removed (of schedules); and more: whether due rows may be left. A call with more may have removed nothing, if it only skipped index entries of removed rows. Never waits for a lock: rows that another transaction has locked are left to a later call. Errors: 42501 unless called by the extension''s owner or a superuser.';

-- A job first checks that the extension exists, and removes itself if it does not:
-- without the library preloaded no other process learns of DROP EXTENSION.  Before
-- that it leaves the owner's search_path, in which other roles may create objects.
CREATE FUNCTION @extschema@.pgqrs_install_cron() RETURNS SETOF text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 5 SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
	cron_version int[];
	home name;
	owner name;
	pass text := '1 second';
	job record;
BEGIN
	IF current_setting('transaction_read_only')::bool THEN
		RAISE EXCEPTION 'cannot execute pgqrs_install_cron() %', CASE WHEN pg_is_in_recovery() THEN 'during recovery' ELSE 'in a read-only transaction' END
			USING ERRCODE = 'read_only_sql_transaction', HINT = CASE WHEN pg_is_in_recovery() THEN 'Connect to the primary server.' ELSE 'Use a transaction that is READ WRITE.' END;
	END IF;
	SELECT n.nspname, pg_get_userbyid(e.extowner) INTO home, owner
	FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'pgqrs';
	IF NOT pg_has_role(owner, 'USAGE') THEN
		RAISE EXCEPTION 'permission denied for extension pgqrs' USING ERRCODE = 'insufficient_privilege',
			DETAIL = 'Only the extension''s owner and superusers may do this.', HINT = format('Ask "%s" to do it.', owner);
	END IF;
	SELECT string_to_array(substring(extversion FROM '^\d+\.\d+'), '.')::int[] INTO cron_version FROM pg_extension WHERE extname = 'pg_cron';
	IF NOT FOUND THEN
		RAISE EXCEPTION 'pg_cron is not in this database' USING ERRCODE = 'object_not_in_prerequisite_state',
			DETAIL = format('pg_cron can be in one database of a server, which is "%s".', current_setting('cron.database_name', true)),
			HINT = 'Create it here with CREATE EXTENSION pg_cron, or from the database that has it, schedule pgqrs_maintain() here with cron.schedule_in_database().';
	END IF;
	IF cron_version < '{1,4}' THEN
		RAISE EXCEPTION 'pg_cron is older than 1.4' USING ERRCODE = 'object_not_in_prerequisite_state',
			DETAIL = 'It cannot run a job as another role.', HINT = 'Update it, with ALTER EXTENSION pg_cron UPDATE in the end.';
	END IF;
	IF cron_version < '{1,5}' THEN
		pass := '* * * * *'; -- it knows no seconds
	END IF;

	FOR job IN
		SELECT * FROM (VALUES
			('pgqrs_maintain', pass, $$EXECUTE format('SELECT %I.pgqrs_maintain()', home)$$),
			('pgqrs_history', '13 * * * *', $$DELETE FROM cron.job_run_details d USING cron.job j WHERE d.jobid = j.jobid AND j.jobname IN ('pgqrs_maintain', 'pgqrs_history') AND d.end_time < now() - interval '1 day'$$))
			AS v (name, schedule, command)
	LOOP
		PERFORM cron.schedule_in_database(job.name, job.schedule, format(
			$job$DO $$ DECLARE home name; BEGIN PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true); SELECT n.nspname INTO home FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'pgqrs'; IF home IS NULL THEN PERFORM cron.unschedule('%s'); ELSE %s; END IF; END $$ $job$,
			job.name, job.command), current_database(), owner);
		RETURN NEXT job.name || ': ' || job.schedule;
	END LOOP;
END
$function$;
COMMENT ON FUNCTION @extschema@.pgqrs_install_cron() IS
'Installs jobs of pg_cron that call pgqrs_maintain() in this database, as the extension''s owner, every second (before pg_cron 1.5, every minute), and that remove records of their own executions older than a day, once an hour. Returns the jobs and their schedules. A repeated call updates the jobs. After DROP EXTENSION pgqrs the jobs remove themselves at their next execution. Errors: 42501 unless called by the extension''s owner or a superuser; 55000: pg_cron is not in this database, or older than 1.4.';
