\echo Use "ALTER EXTENSION pgqrs UPDATE TO '0.1.1'" to load this file. \quit

ALTER FUNCTION @extschema@.pgqrs_extend_leases(bigint[], bigint[], interval) ROWS 10;
ALTER FUNCTION @extschema@.pgqrs_verify() ROWS 30;
ALTER FUNCTION @extschema@.pgqrs_install_cron() ROWS 5;
ALTER FUNCTION @extschema@.pgqrs_advance_sequences() ROWS 5;
COMMENT ON FUNCTION @extschema@.pgqrs_heartbeat(bigint) IS
'A heartbeat of the worker; returns READY or SUSPENDED. Every call that names a worker or is made under one of its leases counts as a heartbeat, except suspending and resuming it, which an operator does; with the library preloaded, also if its transaction rolls back. The worker''s row is written at most once per pgqrs.heartbeat_flush. Call it, or one of those, at least every third of pgqrs.worker_timeout. Errors: PQ005 for a worker that does not exist or belongs to another role (the extension''s owner and superusers reach all), PQ014 once it is STOPPED.';
