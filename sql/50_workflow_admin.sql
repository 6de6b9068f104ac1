-- Administration of workflows.

CREATE FUNCTION pgqrs_create_workflow(
	workflow text, handler text = NULL, max_attempts integer = 3,
	initial_interval interval = '1 s', backoff_coefficient double precision = 2.0,
	max_interval interval = '60 s', jitter double precision = 0.25,
	non_retryable text[] = '{}', timeout interval = NULL,
	visibility_timeout interval = '5 min', max_crashes integer = 5,
	key_scope text = 'retained', outbox_queue text = NULL, on_cancel text = 'end',
	max_per_key integer = NULL, ordered boolean = false, fair boolean = false,
	rate_limit integer = NULL, rate_period interval = '1 s', rate_per_key boolean = false,
	replace boolean = false
) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_create_workflow';
COMMENT ON FUNCTION pgqrs_create_workflow(text, text, integer, interval, double precision, interval, double precision, text[], interval, interval, integer, text, text, text, integer, boolean, boolean, integer, interval, boolean, boolean) IS
'Creates a workflow, owned by the current role, with the queue of the same name, and returns its id, which is the queue''s too; for the extension''s owner, superusers, and roles with admin on a pattern that covers the name (else 42501). A failed step or run is retried until it failed max_attempts times (-1: without limit), after min(max_interval, initial_interval * backoff_coefficient ^ (failures - 1)) times a random factor of 1 - jitter to 1 + jitter (jitter 0..1), unless the error''s type begins with an element of non_retryable. timeout: from the earliest start of a run to its deadline, NULL for none; visibility_timeout: length of a lease, more than 0, at most 366 days; max_crashes: leases that expire without progress after which a run ends; key_scope: an idempotency key holds while its run is kept (retained) or while it has not ended (active). outbox_queue: a plain queue on which the caller has trigger, to which each run that ends sends a CloudEvent (else PQ001, 42501, PQ016); on_cancel: what a request to stop (a cancel, the deadline) does with a run that was claimed before: end ends it, deliver delivers it once more with cancel_requested, so that its handler undoes what it did; handler, and max_per_key, ordered, fair, rate_limit, rate_period and rate_per_key other than their defaults are not supported yet: 0A000. An existing workflow keeps its settings and its id is returned, with a NOTICE that names each setting that differs from the argument; an argument that equals its default counts as not given. replace: an existing workflow gets these settings, and the defaults of those not passed, without a NOTICE; state that is no argument stays, a workflow that has the settings is not written, and the last of several callers wins. A concurrent call waits for the first one''s transaction and returns the same id, at every isolation level. The name of a plain queue: PQ016. Errors: 0A000, 22004, 22023, 42501, PQ001, PQ016.';

CREATE FUNCTION pgqrs_alter_workflow(
	workflow text, handler text = NULL, max_attempts integer = NULL,
	initial_interval interval = NULL, backoff_coefficient double precision = NULL,
	max_interval interval = NULL, jitter double precision = NULL,
	non_retryable text[] = NULL, timeout interval = NULL,
	visibility_timeout interval = NULL, max_crashes integer = NULL,
	key_scope text = NULL, outbox_queue text = NULL, on_cancel text = NULL,
	max_per_key integer = NULL, ordered boolean = NULL, fair boolean = NULL,
	rate_limit integer = NULL, rate_period interval = NULL, rate_per_key boolean = NULL,
	reset text[] = '{}'
) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_alter_workflow';
COMMENT ON FUNCTION pgqrs_alter_workflow(text, text, integer, interval, double precision, interval, double precision, text[], interval, interval, integer, text, text, text, integer, boolean, boolean, integer, interval, boolean, text[]) IS
'Changes settings of a workflow; NULL leaves a setting as it is, a name in reset sets it back to the default of pgqrs_create_workflow(). Live runs follow the new retry policy, visibility_timeout, max_crashes and on_cancel, a run that was asked to stop before follows the old one; they keep their deadline, and their idempotency keys the key_scope of their trigger. Needs admin on the workflow. Waits for another transaction that changes the same workflow; a new key_scope also waits up to a second for open transactions that wrote messages, and triggers wait for its commit. Errors: 0A000, 22004, 22023 (out of bounds, unknown name in reset, set and reset at once), 42501, 55P03 (such a transaction is still open), PQ001 (no such outbox_queue), PQ002, PQ016 (outbox_queue is a workflow''s).';

CREATE FUNCTION pgqrs_delete_workflow(workflow text, force boolean = false) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_delete_workflow';
COMMENT ON FUNCTION pgqrs_delete_workflow(text, boolean) IS
'Deletes a workflow and its queue; true if it existed. Without force it must have no live or ended runs and no schedules (PQ009). With force, its runs and schedules are deleted with it, also runs triggered before the commit. Its name is free at commit; its runs and keys count as absent from then on (PQ003). Background work ends live runs as CANCELLED, and retention removes the rows in batches; grants stay. Needs admin on the workflow. Waits for a transaction that alters the workflow or schedules it. Without force the call also waits up to 1 second for open transactions that wrote messages (then 55P03), and transactions that trigger this workflow wait for its commit. Errors: 22004, 22023, 42501, 55P03, PQ009.';

