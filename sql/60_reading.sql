-- Reading needs read, which trigger, work and admin include; queues and workflows on
-- which a role has no privilege do not exist for these functions.
-- They read the newest committed state, at every isolation level.

CREATE TYPE pgqrs_run AS (
	run_id bigint,
	workflow text,
	status text,
	waiting_for text,
	visible_after timestamptz,
	attempt integer,
	failures integer,
	crashes integer,
	priority integer,
	input jsonb,
	output jsonb,
	error jsonb,
	progress jsonb,
	tags jsonb,
	headers jsonb,
	idempotency_key text,
	parent_run_id bigint,
	parent_step_id text,
	rerun_of bigint,
	schedule_slot timestamptz,
	worker text,
	worker_version text,
	created_at timestamptz,
	started_at timestamptz,
	paused_at timestamptz,
	completed_at timestamptz,
	deadline_at timestamptz,
	cancel_requested_at timestamptz,
	cancel_reason text,
	deleted_at timestamptz,
	delete_reason text
);
COMMENT ON TYPE pgqrs_run IS 'a workflow run as pgqrs_get_run() and pgqrs_list_runs() return it; the columns of the view pgqrs_runs';
COMMENT ON COLUMN pgqrs_run.run_id IS 'also the id of the run''s message';
COMMENT ON COLUMN pgqrs_run.workflow IS 'the workflow of the run';
COMMENT ON COLUMN pgqrs_run.status IS 'QUEUED, RUNNING (also while it waits for a retry or for the next worker), PAUSED, SUCCESS, ERROR or CANCELLED';
COMMENT ON COLUMN pgqrs_run.waiting_for IS 'what the run waits for while it is PAUSED: pause, sleep, child, all children, any child or any of and the step, or signal and its name';
COMMENT ON COLUMN pgqrs_run.visible_after IS 'when work continues: the end of the lease while a worker holds it; NULL once the run has ended';
COMMENT ON COLUMN pgqrs_run.attempt IS 'the number of claims';
COMMENT ON COLUMN pgqrs_run.failures IS 'failures that pgqrs_fail_run() reported';
COMMENT ON COLUMN pgqrs_run.crashes IS 'leases that expired since the last success of a step or the last wait; limited by max_crashes';
COMMENT ON COLUMN pgqrs_run.priority IS '-100 to 100, high first';
COMMENT ON COLUMN pgqrs_run.input IS 'the input of the trigger';
COMMENT ON COLUMN pgqrs_run.output IS 'the output of a run in SUCCESS (JSON null if it has none), or what the worker of a CANCELLED run passed to pgqrs_acknowledge_cancel(); else NULL';
COMMENT ON COLUMN pgqrs_run.error IS 'the error of a run in ERROR';
COMMENT ON COLUMN pgqrs_run.progress IS 'the last value of pgqrs_set_progress()';
COMMENT ON COLUMN pgqrs_run.tags IS 'of the trigger';
COMMENT ON COLUMN pgqrs_run.headers IS 'of the trigger; claims deliver them';
COMMENT ON COLUMN pgqrs_run.idempotency_key IS 'of the trigger';
COMMENT ON COLUMN pgqrs_run.parent_run_id IS 'the run that started this run as a child';
COMMENT ON COLUMN pgqrs_run.parent_step_id IS 'the step of that run';
COMMENT ON COLUMN pgqrs_run.rerun_of IS 'the run of which this run is a rerun';
COMMENT ON COLUMN pgqrs_run.schedule_slot IS 'the slot of the schedule that triggered the run';
COMMENT ON COLUMN pgqrs_run.worker IS 'the name of the worker that claimed the run last';
COMMENT ON COLUMN pgqrs_run.worker_version IS 'the version with which that worker registered';
COMMENT ON COLUMN pgqrs_run.created_at IS 'when the run was triggered';
COMMENT ON COLUMN pgqrs_run.started_at IS 'when the run was claimed first';
COMMENT ON COLUMN pgqrs_run.paused_at IS 'since when a PAUSED run waits';
COMMENT ON COLUMN pgqrs_run.completed_at IS 'when the run ended; NULL before';
COMMENT ON COLUMN pgqrs_run.deadline_at IS 'when the run ends in ERROR, unless it has ended before';
COMMENT ON COLUMN pgqrs_run.cancel_requested_at IS 'when it was asked to stop: by a cancel, or by its deadline if it is undone then';
COMMENT ON COLUMN pgqrs_run.cancel_reason IS 'the reason given with the cancel';
COMMENT ON COLUMN pgqrs_run.deleted_at IS 'a deleted run is not listed, but still found by its id';
COMMENT ON COLUMN pgqrs_run.delete_reason IS 'the reason given with the deletion';

CREATE FUNCTION pgqrs_get_run(run_id bigint) RETURNS pgqrs_run
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_get_run';
COMMENT ON FUNCTION pgqrs_get_run(bigint) IS
'A workflow run, also a deleted one. Needs read on its workflow. Errors: 22004, 42501, PQ003.';

CREATE FUNCTION pgqrs_find_run(workflow text, idempotency_key text) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_find_run';
COMMENT ON FUNCTION pgqrs_find_run(text, text) IS
'The id of the run that has an idempotency key, so that a trigger with this key would start no other run; NULL if no run has it. Needs read on the workflow. Errors: 22004, 22023, 42501, PQ002.';

CREATE FUNCTION pgqrs_result(run_id bigint, OUT status text, OUT output jsonb, OUT error jsonb)
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_result';
COMMENT ON FUNCTION pgqrs_result(bigint) IS
'The status of a run, its output in SUCCESS (in CANCELLED, that of the worker''s acknowledgement), its error in ERROR. Raises no error for a failed run. Needs read on its workflow. Errors: 22004, 42501, PQ003.';

CREATE FUNCTION pgqrs_list_runs(
	workflow text = NULL, status text = NULL, tags jsonb = NULL,
	before_run_id bigint = NULL, page_size integer = 50
) RETURNS SETOF pgqrs_run
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT ROWS 50
AS 'MODULE_PATHNAME', 'sql_list_runs';
COMMENT ON FUNCTION pgqrs_list_runs(text, text, jsonb, bigint, integer) IS
'A page of runs, newest first, without deleted ones. workflow: a pattern; status: of the runs; tags: contained in the runs'' tags; before_run_id: the last id of the previous page; NULL does not restrict. page_size: 0 to 10000. Lists the runs of workflows that the role may read. An index finds the page, also if few of many runs have the status or the tags. Errors: 22004, 22023, PQ008 (tags too large).';

CREATE FUNCTION pgqrs_list_steps(
	run_id bigint, OUT step_id text, OUT kind text, OUT status text,
	OUT attempt integer, OUT failures integer, OUT input jsonb,
	OUT output jsonb, OUT error jsonb, OUT history jsonb,
	OUT started_at timestamptz, OUT completed_at timestamptz,
	OUT undo boolean
) RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT ROWS 10
AS 'MODULE_PATHNAME', 'sql_list_steps';
COMMENT ON FUNCTION pgqrs_list_steps(bigint) IS
'The steps of a run in the order of started_at. history: the last ten failures as [{"attempt", "at", "error"}]. undo: the undo of the run recorded it. Needs read on its workflow. Errors: 22004, 42501, PQ003.';

CREATE FUNCTION pgqrs_peek(
	queue text, n integer = 10, OUT message_id bigint, OUT priority integer,
	OUT visible_after timestamptz, OUT enqueued_at timestamptz,
	OUT attempt integer, OUT failures integer, OUT leased boolean,
	OUT run_id bigint, OUT payload jsonb, OUT headers jsonb
) RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT ROWS 10
AS 'MODULE_PATHNAME', 'sql_peek';
COMMENT ON FUNCTION pgqrs_peek(text, integer) IS
'The first n messages of a queue in the order of claims, those that are delayed or leased included; n: 0 to 10000. visible_after of a leased message is the end of its lease, which may have passed. Needs read on the queue. Errors: 22004, 22023, 42501, PQ001.';

CREATE FUNCTION pgqrs_why(
	queue text, OUT reason text, OUT detail text, OUT hint text
) RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT ROWS 5
AS 'MODULE_PATHNAME', 'sql_why';
COMMENT ON FUNCTION pgqrs_why(text) IS
'Why nothing of a queue or workflow is delivered, the most decisive reasons first, each with what to do. reason: paused, max_in_flight, no worker, suspended, max_concurrent, no handler (a worker failed what it has no handler for), open transaction, damaged, ready (claimable: nothing stands in the way), many messages (more than were looked at), empty, in flight, backing off, delayed, waiting, old snapshot (an old transaction makes claims slow), background work. Looks at the first 10000 messages in the order of claims, the newest 100 dead letters and all workers. Another role''s session is named only to its members and those of pg_read_all_stats. Needs monitor on the queue. Errors: 22004, 42501, PQ001.';

CREATE FUNCTION pgqrs_now() RETURNS timestamptz
LANGUAGE c VOLATILE PARALLEL SAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_now';
COMMENT ON FUNCTION pgqrs_now() IS
'The clock of pgqrs: the server''s time at this moment, not at the start of the transaction.';

CREATE FUNCTION pgqrs_version() RETURNS text
LANGUAGE c STABLE PARALLEL SAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_version';
COMMENT ON FUNCTION pgqrs_version() IS
'The version of the library, which may be newer than the installed objects.';
