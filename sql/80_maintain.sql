-- Maintenance.

CREATE FUNCTION @extschema@.pgqrs_maintain() RETURNS jsonb
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'sql_maintain';
COMMENT ON FUNCTION @extschema@.pgqrs_maintain() IS
'One bounded pass over what must happen though nobody calls for it; call it every few seconds. Returns what was done, as counts: workers_stopped (silent for pgqrs.worker_timeout), leases_reaped (of stopped workers; claimable again, with one failure), messages_dead (held once too often; runs included), runs_cancelled (on request, when the lease ran out, or with their parent), runs_timed_out (past their deadline), runs_woken (parked, and what they wait for has come), floors_lowered (messages were found that claims would not have looked at, having been written past the functions), grants_removed (to roles that are gone), schedules_fired (runs that schedules triggered), messages_realigned (they were written while the clock was ahead, and are due earlier by its step back), messages_removed, runs_removed and firings_removed (a batch, as by pgqrs_apply_retention(), which also tells whether there is more). The duties are independent: one that fails is undone by itself, told as a WARNING and named in failed, an object with the sqlstate and message of each, and the others are done. Never waits for a lock: what another transaction has is left to the next pass. Errors: 42501 unless called by the extension''s owner or a superuser.';

CREATE FUNCTION @extschema@.pgqrs_apply_retention() RETURNS jsonb
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'sql_apply_retention';
COMMENT ON FUNCTION @extschema@.pgqrs_apply_retention() IS
'One bounded batch, of a few tenths of a second, of what pgqrs_maintain() and the background worker do too: removes what ended longer ago than its queue''s retention, or dead_retention for dead letters and runs in ERROR, and what deleted queues have left, whose live runs it ends. Returns what was removed, as counts: messages_removed (from the archive), runs_removed (with their messages, steps, signals and events), firings_removed (of schedules); and whether it ended before it had looked at all that is due: more. A call with more may have removed nothing, where it only stepped over what is gone. Never waits for a lock: what another transaction has locked is left to a later call. Errors: 42501 unless called by the extension''s owner or a superuser.';

-- A job looks first whether the extension is still there, and removes itself if
-- it is not: without the library preloaded nobody else hears of DROP EXTENSION.
-- Before that it leaves the owner's search_path, in which others may create.
CREATE FUNCTION @extschema@.pgqrs_install_cron() RETURNS SETOF text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
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
'Has pg_cron call pgqrs_maintain() in this database, as the extension''s owner, every second or, before pg_cron 1.5, every minute, and once an hour forget its own runs of more than a day ago. Returns the jobs and when they run. Calling it again changes nothing, or brings them up to date. After DROP EXTENSION pgqrs the jobs remove themselves when they run next. Errors: 42501 unless called by the extension''s owner or a superuser; 55000: pg_cron is not in this database, or older than 1.4.';
