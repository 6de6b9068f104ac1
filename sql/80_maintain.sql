-- Maintenance.

CREATE FUNCTION pgqrs_maintain() RETURNS jsonb
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'pgqrs_maintain';
COMMENT ON FUNCTION pgqrs_maintain() IS
'One bounded pass over what must happen though nobody calls for it; call it every few seconds. Returns what was done, as counts: workers_stopped (silent for pgqrs.worker_timeout), leases_reaped (of stopped workers; claimable again, with one failure), messages_dead (held once too often; runs included), runs_cancelled (on request, when the lease ran out, or with their parent), runs_timed_out (past their deadline), runs_woken (parked, and what they wait for has come), floors_lowered (messages were found that claims would not have looked at, having been written past the functions), grants_removed (to roles that are gone), schedules_fired (runs that schedules triggered), messages_removed, runs_removed and firings_removed (as by pgqrs_apply_retention()). Never waits for a lock: what somebody else has is left to the next pass. Errors: 42501 unless called by the extension''s owner or a superuser.';

CREATE FUNCTION pgqrs_apply_retention() RETURNS jsonb
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'pgqrs_apply_retention';
COMMENT ON FUNCTION pgqrs_apply_retention() IS
'One bounded batch, of a few tenths of a second, of what pgqrs_maintain() and the background worker do too: removes what ended longer ago than its queue''s retention, or dead_retention for dead letters and runs in ERROR. Returns what was removed, as counts: messages_removed (from the archive), runs_removed (with their messages, steps, signals and events), firings_removed (of schedules). Never waits for a lock: what somebody else has is left to a later call. Errors: 42501 unless called by the extension''s owner or a superuser.';
