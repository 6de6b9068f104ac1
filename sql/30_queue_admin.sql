-- Administration of queues.

CREATE FUNCTION pgqrs_create_queue(
	queue text, visibility_timeout interval = '30 s', max_attempts integer = 5,
	max_in_flight integer = NULL, retention interval = '7 days',
	dead_retention interval = '30 days',
	max_per_key integer = NULL, ordered boolean = false, fair boolean = false,
	rate_limit integer = NULL, rate_period interval = '1 s', rate_per_key boolean = false,
	replace boolean = false
) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_create_queue';
COMMENT ON FUNCTION pgqrs_create_queue(text, interval, integer, integer, interval, interval, integer, boolean, boolean, integer, interval, boolean, boolean) IS
'Creates a queue and returns its id; for the owner, superusers, and roles with admin on a pattern that covers the name (else 42501). visibility_timeout: length of a lease, more than 0, at most 366 days; max_attempts: failures after which a message is exhausted and becomes a dead letter, at least 1; max_in_flight: live leases at a time, at least 1, NULL for no limit; retention, dead_retention: how long ended messages and dead letters are kept; with a retention of 0, done messages are not kept. An existing queue keeps its settings and its id is returned, with a NOTICE that names each setting that differs from the argument; an argument that equals its default counts as not given. replace: an existing queue gets these settings, and the defaults of those not passed, without a NOTICE; state that is no argument stays, a queue that has the settings is not written, and the last of several callers wins. max_per_key, ordered, fair, rate_limit, rate_period and rate_per_key are not supported yet: another value than the default is 0A000. A concurrent call waits for the first one''s transaction and returns the same id, at every isolation level. The name of a workflow: PQ016. Errors: 0A000, 22004, 22023, 42501, PQ016.';

CREATE FUNCTION pgqrs_alter_queue(
	queue text, visibility_timeout interval = NULL, max_attempts integer = NULL,
	max_in_flight integer = NULL, retention interval = NULL,
	dead_retention interval = NULL,
	max_per_key integer = NULL, ordered boolean = NULL, fair boolean = NULL,
	rate_limit integer = NULL, rate_period interval = NULL, rate_per_key boolean = NULL,
	reset text[] = '{}'
) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_alter_queue';
COMMENT ON FUNCTION pgqrs_alter_queue(text, interval, integer, integer, interval, interval, integer, boolean, boolean, integer, interval, boolean, text[]) IS
'Changes settings of a queue; NULL leaves a setting as it is, a name in reset sets it back to the default of pgqrs_create_queue(), which also tells the unsupported ones. Takes effect for later calls; leases keep their end. Needs admin on the queue. Of a workflow''s queue, visibility_timeout and max_attempts are the workflow''s visibility_timeout and max_crashes: PQ016, use pgqrs_alter_workflow(). Waits for another transaction that changes the same queue. Errors: 0A000, 22004, 22023 (out of bounds, unknown name in reset, set and reset at once), 42501, PQ001, PQ016.';

CREATE FUNCTION pgqrs_delete_queue(queue text, force boolean = false) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_delete_queue';
COMMENT ON FUNCTION pgqrs_delete_queue(text, boolean) IS
'Deletes a queue; true if it existed. Without force it must have no live or archived messages and be no workflow''s outbox (PQ009), nor a workflow''s queue (PQ016, use pgqrs_delete_workflow()). With force, its messages are deleted with it, also those sent before the commit. Its name is free at commit; its messages, runs and keys count as absent from then on. Background work ends live runs as CANCELLED, and retention removes the rows in batches; grants stay. Needs admin on the queue. Waits for a transaction that alters the queue, schedules it or makes it an outbox. Without force the call also waits up to 1 second for open transactions that wrote messages (then 55P03), and transactions that send to this queue wait for its commit. Errors: 22004, 22023, 42501, 55P03, PQ016, PQ009.';

CREATE FUNCTION pgqrs_purge_queue(queue text) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_purge_queue';
COMMENT ON FUNCTION pgqrs_purge_queue(text) IS
'Drops the messages of a queue that are not under a live lease, and returns their number. Plain messages are not archived; the runs of a workflow''s queue become CANCELLED, PAUSED ones included. Messages that another transaction has locked stay. Needs admin on the queue. Errors: 22004, 22023, 42501, PQ001.';

CREATE FUNCTION pgqrs_pause_queue(queue text) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_pause_queue';
COMMENT ON FUNCTION pgqrs_pause_queue(text) IS
'The queue accepts messages and delivers none until pgqrs_resume_queue(); leased messages may be finished. No effect on a paused queue. Needs admin on the queue. Errors: 22004, 22023, 42501, PQ001.';

CREATE FUNCTION pgqrs_resume_queue(queue text) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_resume_queue';
COMMENT ON FUNCTION pgqrs_resume_queue(text) IS
'Ends a pause of pgqrs_pause_queue(). No effect on a queue that is not paused. Needs admin on the queue. Errors: 22004, 22023, 42501, PQ001.';

