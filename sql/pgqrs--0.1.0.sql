\echo Use "CREATE EXTENSION pgqrs" to load this file. \quit

-- Types.  Every label exists from the first version on, because a label that
-- ALTER TYPE adds cannot be used in the transaction that adds it.

CREATE TYPE pgqrs_run_status AS ENUM
	('QUEUED', 'RUNNING', 'PAUSED', 'SUCCESS', 'ERROR', 'CANCELLED');
COMMENT ON TYPE pgqrs_run_status IS 'state of a workflow run; SUCCESS, ERROR and CANCELLED are terminal';

CREATE TYPE pgqrs_step_status AS ENUM
	('PENDING', 'RUNNING', 'PAUSED', 'SUCCESS', 'ERROR');
COMMENT ON TYPE pgqrs_step_status IS 'state of a workflow step; PENDING waits for a retry';

CREATE TYPE pgqrs_step_kind AS ENUM
	('FUNCTION', 'SLEEP', 'SIGNAL', 'CHILD', 'PAUSE', 'ANY');
COMMENT ON TYPE pgqrs_step_kind IS 'kind of a workflow step; a step id keeps its kind';

CREATE TYPE pgqrs_outcome AS ENUM
	('DONE', 'DEAD', 'DELETED', 'CANCELLED');
COMMENT ON TYPE pgqrs_outcome IS 'how an archived message ended';

CREATE TYPE pgqrs_worker_status AS ENUM
	('READY', 'SUSPENDED', 'STOPPED');
COMMENT ON TYPE pgqrs_worker_status IS 'state of a worker; STOPPED is final';

CREATE TYPE pgqrs_key_scope AS ENUM
	('retained', 'active');
COMMENT ON TYPE pgqrs_key_scope IS 'how long an idempotency key excludes later triggers: while its run is retained, or while the run is active';

CREATE TYPE pgqrs_parent_end AS ENUM
	('cancel', 'abandon');
COMMENT ON TYPE pgqrs_parent_end IS 'what happens to a live child when its parent ends in ERROR or CANCELLED';

CREATE TYPE pgqrs_on_cancel AS ENUM
	('end', 'deliver');
COMMENT ON TYPE pgqrs_on_cancel IS 'what a request to stop does with a run that was claimed before: ends it, or delivers it once more, so that its handler undoes what it did';

CREATE TYPE pgqrs_undo_cause AS ENUM
	('cancel', 'timeout');
COMMENT ON TYPE pgqrs_undo_cause IS 'why a run is undone: a cancel, or its deadline';

CREATE TYPE pgqrs_overlap AS ENUM
	('allow', 'skip', 'cancel');
COMMENT ON TYPE pgqrs_overlap IS 'what a schedule does while its previous run is live';

CREATE TYPE pgqrs_privilege AS ENUM
	('monitor', 'read', 'trigger', 'work', 'admin');
COMMENT ON TYPE pgqrs_privilege IS 'privilege that pgqrs_grant() gives on a pattern of names';

-- Tables.  They are internal: only the owner may touch them, only the C layer
-- writes them.  tools/generate_columns makes a C header of them; once a version is
-- released, a new column is appended, never inserted.
--
-- No foreign key is declared.  The functions keep rows together, in the order of
-- their locks, and pgqrs_verify() checks each.  pg_restore loads the data of an
-- extension's tables with its constraints in place, in any order and in parallel:
-- a foreign key would refuse the rows that come before those they point to.
--
-- Names and keys are COLLATE "C": they are compared for equality and prefix,
-- and an operating system's new collation must not be able to break an index.

CREATE TABLE pgqrs_queues (
	queue_id bigint NOT NULL,
	created_at timestamptz NOT NULL,
	paused_at timestamptz,
	visibility_timeout interval NOT NULL,
	retention interval NOT NULL,
	dead_retention interval NOT NULL,
	rate_period interval,
	max_attempts integer NOT NULL,
	max_in_flight integer,
	max_per_key integer,
	rate_limit integer,
	is_workflow boolean NOT NULL,
	name text COLLATE "C" NOT NULL,
	deleted_at timestamptz,
	on_cancel pgqrs_on_cancel,
	CONSTRAINT pgqrs_queues_pkey PRIMARY KEY (queue_id)
);
COMMENT ON TABLE pgqrs_queues IS 'queues; is_workflow marks the queue of the workflow of the same name';
COMMENT ON COLUMN pgqrs_queues.on_cancel IS 'of a workflow; NULL for other queues';
COMMENT ON COLUMN pgqrs_queues.deleted_at IS 'set: the queue was deleted; no function finds it, and retention removes its rows';
CREATE UNIQUE INDEX pgqrs_queues_name_idx ON pgqrs_queues (name) WHERE deleted_at IS NULL;
COMMENT ON INDEX pgqrs_queues_name_idx IS 'names of queues; the name of a deleted queue is free';

-- A claim moves visible_after, so it can never be a HOT update: every index
-- whose predicate the row meets costs one insertion per claim.  Hence partial
-- indexes for all but the key and the claim order.
CREATE TABLE pgqrs_messages (
	message_id bigint NOT NULL,
	queue_id bigint NOT NULL,
	visible_after timestamptz NOT NULL,
	enqueued_at timestamptz NOT NULL,
	dequeued_at timestamptz,
	lease bigint,
	worker_id bigint,
	run_id bigint,
	deadline_at timestamptz,
	attempt integer NOT NULL,
	failures integer NOT NULL,
	priority smallint NOT NULL,
	waiting_for text COLLATE "C",
	concurrency_key text COLLATE "C",
	idempotency_key text COLLATE "C",
	payload jsonb,
	headers jsonb,
	last_error jsonb,
	exhausted_at timestamptz,
	children_after bigint,
	undo boolean,
	-- each claim adds an entry beside the one that is there
	CONSTRAINT pgqrs_messages_pkey PRIMARY KEY (message_id) WITH (fillfactor = 50)
);
COMMENT ON TABLE pgqrs_messages IS 'messages that have not ended; a run''s message has the run''s id and no payload of its own';
COMMENT ON COLUMN pgqrs_messages.visible_after IS 'when work continues: the end of the lease while one is held';
CREATE INDEX pgqrs_messages_claim_idx ON pgqrs_messages (queue_id, priority DESC, visible_after, message_id)
	WITH (deduplicate_items = off);	-- no two entries are equal
COMMENT ON INDEX pgqrs_messages_claim_idx IS 'the order of claims';
CREATE UNIQUE INDEX pgqrs_messages_key_idx ON pgqrs_messages (queue_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
COMMENT ON INDEX pgqrs_messages_key_idx IS 'idempotency keys of messages, and of runs whose key holds only while they have not ended';
CREATE INDEX pgqrs_messages_worker_idx ON pgqrs_messages (worker_id) WHERE worker_id IS NOT NULL;
COMMENT ON INDEX pgqrs_messages_worker_idx IS 'the messages that a worker holds';
COMMENT ON COLUMN pgqrs_messages.exhausted_at IS 'the end of the last lease of a message, whose expiry exhausts it';
CREATE INDEX pgqrs_messages_deadline_idx ON pgqrs_messages (deadline_at) WHERE deadline_at IS NOT NULL;
COMMENT ON INDEX pgqrs_messages_deadline_idx IS 'deadlines that have not passed';
CREATE INDEX pgqrs_messages_exhausted_idx ON pgqrs_messages (exhausted_at) WHERE exhausted_at IS NOT NULL;
COMMENT ON INDEX pgqrs_messages_exhausted_idx IS 'last leases, whose expiry exhausts the message';
CREATE INDEX pgqrs_messages_waiting_idx ON pgqrs_messages (waiting_for, message_id) WHERE waiting_for IS NOT NULL;
COMMENT ON INDEX pgqrs_messages_waiting_idx IS 'runs that wait for a signal or the end of a child, and runs whose worker was asked to stop';

COMMENT ON COLUMN pgqrs_messages.undo IS 'true: the run was asked to stop and is delivered to be undone; else NULL';
COMMENT ON COLUMN pgqrs_messages.children_after IS 'of an undo: the children with greater ids are still to be cancelled';
CREATE INDEX pgqrs_messages_children_idx ON pgqrs_messages (message_id) WHERE children_after IS NOT NULL;
COMMENT ON INDEX pgqrs_messages_children_idx IS 'undone runs whose children are still to be cancelled';

-- Each message leaves two dead rows.  A share of the table is the wrong measure
-- for a queue whose backlog may be large or empty: autovacuum starts by count,
-- without pauses, in which dead rows would accumulate.
ALTER TABLE pgqrs_messages SET (
	autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
	autovacuum_vacuum_cost_delay = 0,
	autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 10000
);

CREATE TABLE pgqrs_archive (
	message_id bigint NOT NULL,
	queue_id bigint NOT NULL,
	archived_at timestamptz NOT NULL,
	visible_after timestamptz NOT NULL,
	enqueued_at timestamptz NOT NULL,
	dequeued_at timestamptz,
	lease bigint,
	worker_id bigint,
	run_id bigint,
	deadline_at timestamptz,
	attempt integer NOT NULL,
	failures integer NOT NULL,
	outcome pgqrs_outcome NOT NULL,
	priority smallint NOT NULL,
	waiting_for text COLLATE "C",
	concurrency_key text COLLATE "C",
	idempotency_key text COLLATE "C",
	payload jsonb,
	headers jsonb,
	last_error jsonb,
	CONSTRAINT pgqrs_archive_pkey PRIMARY KEY (message_id)
);
COMMENT ON TABLE pgqrs_archive IS 'messages that have ended, kept for the queue''s retention';
CREATE INDEX pgqrs_archive_dead_idx ON pgqrs_archive (queue_id, archived_at) WHERE outcome OPERATOR(pg_catalog.=) 'DEAD';
COMMENT ON INDEX pgqrs_archive_dead_idx IS 'dead letters';
CREATE INDEX pgqrs_archive_ended_idx ON pgqrs_archive (queue_id, archived_at) WHERE outcome OPERATOR(pg_catalog.<>) 'DEAD';
COMMENT ON INDEX pgqrs_archive_ended_idx IS 'other ended messages, for retention and the size of a queue''s history';
CREATE INDEX pgqrs_archive_failed_idx ON pgqrs_archive (queue_id, outcome, message_id) WHERE outcome OPERATOR(pg_catalog.<>) 'DONE';
COMMENT ON INDEX pgqrs_archive_failed_idx IS 'runs that did not succeed, for lists by status';
CREATE INDEX pgqrs_archive_waiting_idx ON pgqrs_archive (message_id) WHERE waiting_for IS NOT NULL;
COMMENT ON INDEX pgqrs_archive_waiting_idx IS 'ended runs whose children are still to be cancelled';

CREATE TABLE pgqrs_workers (
	worker_id bigint NOT NULL,
	created_at timestamptz NOT NULL,
	heartbeat_at timestamptz NOT NULL,
	stopped_at timestamptz,
	owner_id bigint,
	port integer,
	max_concurrent integer,
	status pgqrs_worker_status NOT NULL,
	owner name NOT NULL,
	name text COLLATE "C" NOT NULL,
	queues text[] COLLATE "C" NOT NULL,
	hostname text,
	version text,
	labels jsonb,
	stopped_itself boolean,
	CONSTRAINT pgqrs_workers_pkey PRIMARY KEY (worker_id)
);
COMMENT ON TABLE pgqrs_workers IS 'workers, stopped ones included';
COMMENT ON COLUMN pgqrs_workers.owner_id IS 'OID of the role named by owner, and a mark of the database in which the OID is valid; in another database, as after a restore, the name counts until maintenance sets this';
CREATE UNIQUE INDEX pgqrs_workers_name_idx ON pgqrs_workers (owner, name) WHERE stopped_at IS NULL;
COMMENT ON INDEX pgqrs_workers_name_idx IS 'one live worker of a name per role';
-- A small table that heartbeats rewrite: room for HOT updates, and early vacuum.
ALTER TABLE pgqrs_workers SET (fillfactor = 50,
	autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

CREATE TABLE pgqrs_workflows (
	workflow_id bigint NOT NULL,
	created_at timestamptz NOT NULL,
	timeout interval,
	initial_interval interval NOT NULL,
	max_interval interval NOT NULL,
	backoff_coefficient double precision NOT NULL,
	jitter double precision NOT NULL,
	max_attempts integer NOT NULL,
	key_scope pgqrs_key_scope NOT NULL,
	owner name NOT NULL,
	name text COLLATE "C" NOT NULL,
	handler text,
	outbox_queue text COLLATE "C",
	non_retryable text[] NOT NULL,
	CONSTRAINT pgqrs_workflows_pkey PRIMARY KEY (workflow_id)
);
COMMENT ON TABLE pgqrs_workflows IS 'workflows; workflow_id is the id of its queue, which holds visibility_timeout and, as max_attempts, max_crashes; the row of a deleted workflow stays until its runs are removed';

-- No index and no predicate mentions a column that changes while a run lives,
-- so its updates stay HOT as long as the page has room.  A claim and an end
-- each write one new version, and the first reader prunes replaced versions;
-- half a page is needed when a backlog filled the pages before any of
-- its runs was claimed.
CREATE TABLE pgqrs_workflow_runs (
	run_id bigint NOT NULL,
	workflow_id bigint NOT NULL,
	created_at timestamptz NOT NULL,
	started_at timestamptz,
	paused_at timestamptz,
	completed_at timestamptz,
	deadline_at timestamptz,
	cancel_requested_at timestamptz,
	deleted_at timestamptz,
	schedule_slot timestamptz,
	timeout interval,
	lease bigint,
	worker_id bigint,
	parent_run_id bigint,
	rerun_of bigint,
	attempt integer NOT NULL,
	failures integer NOT NULL,
	status pgqrs_run_status NOT NULL,
	on_parent_end pgqrs_parent_end,
	key_scope pgqrs_key_scope,
	priority smallint NOT NULL,
	idempotency_key text COLLATE "C",
	parent_step_id text COLLATE "C",
	waiting_for text COLLATE "C",
	worker_version text,
	cancel_reason text,
	delete_reason text,
	retry_policy jsonb,
	tags jsonb,
	headers jsonb,
	progress jsonb,
	input jsonb,
	output jsonb,
	error jsonb,
	undo_cause pgqrs_undo_cause,
	undone boolean,
	CONSTRAINT pgqrs_workflow_runs_pkey PRIMARY KEY (run_id)
) WITH (fillfactor = 50);
COMMENT ON TABLE pgqrs_workflow_runs IS 'workflow runs, ended ones included';
COMMENT ON COLUMN pgqrs_workflow_runs.undo_cause IS 'set: a request to stop delivers the run to be undone';
COMMENT ON COLUMN pgqrs_workflow_runs.undone IS 'true: the undo has ended by pgqrs_acknowledge_cancel(); else NULL';
CREATE UNIQUE INDEX pgqrs_workflow_runs_key_idx ON pgqrs_workflow_runs (workflow_id, idempotency_key)
	WHERE idempotency_key IS NOT NULL AND key_scope OPERATOR(pg_catalog.=) 'retained' AND deleted_at IS NULL;
COMMENT ON INDEX pgqrs_workflow_runs_key_idx IS 'idempotency keys of runs that keep theirs after the end';
CREATE INDEX pgqrs_workflow_runs_workflow_idx ON pgqrs_workflow_runs (workflow_id, run_id)
	WITH (deduplicate_items = off);
COMMENT ON INDEX pgqrs_workflow_runs_workflow_idx IS 'the runs of a workflow, for lists and for deleting it';
CREATE INDEX pgqrs_workflow_runs_tags_idx ON pgqrs_workflow_runs USING gin (tags jsonb_path_ops) WITH (fastupdate = off) WHERE tags IS NOT NULL;
COMMENT ON INDEX pgqrs_workflow_runs_tags_idx IS 'tags, for lists of runs';
CREATE INDEX pgqrs_workflow_runs_rerun_idx ON pgqrs_workflow_runs (rerun_of) WHERE rerun_of IS NOT NULL;
COMMENT ON INDEX pgqrs_workflow_runs_rerun_idx IS 'the reruns of a run';
CREATE INDEX pgqrs_workflow_runs_parent_idx ON pgqrs_workflow_runs (parent_run_id, run_id) WHERE parent_run_id IS NOT NULL;
COMMENT ON INDEX pgqrs_workflow_runs_parent_idx IS 'the children of a run';

CREATE TABLE pgqrs_workflow_run_parents (
	run_id bigint NOT NULL,
	parent_run_id bigint NOT NULL,
	on_parent_end pgqrs_parent_end NOT NULL,
	parent_step_id text COLLATE "C" NOT NULL,
	CONSTRAINT pgqrs_workflow_run_parents_pkey PRIMARY KEY (run_id, parent_run_id, parent_step_id)
);
COMMENT ON TABLE pgqrs_workflow_run_parents IS 'additional parents of runs, beside the parent in pgqrs_workflow_runs that triggered the run: a child started by its key may be an existing run';
CREATE INDEX pgqrs_workflow_run_parents_parent_idx ON pgqrs_workflow_run_parents (parent_run_id, run_id);
COMMENT ON INDEX pgqrs_workflow_run_parents_parent_idx IS 'the additional children of a run';

CREATE TABLE pgqrs_workflow_steps (
	run_id bigint NOT NULL,
	started_at timestamptz NOT NULL,
	completed_at timestamptz,
	lease bigint,
	attempt integer NOT NULL,
	failures integer NOT NULL,
	kind pgqrs_step_kind NOT NULL,
	status pgqrs_step_status NOT NULL,
	step_id text COLLATE "C" NOT NULL,
	input jsonb,
	output jsonb,
	error jsonb,
	history jsonb,
	reason jsonb,
	undo boolean,
	CONSTRAINT pgqrs_workflow_steps_pkey PRIMARY KEY (run_id, step_id)
) WITH (fillfactor = 70);
COMMENT ON TABLE pgqrs_workflow_steps IS 'steps of workflow runs, one row each with its last ten failures';
COMMENT ON COLUMN pgqrs_workflow_steps.undo IS 'true: the undo of the run recorded the step; else NULL';

CREATE TABLE pgqrs_run_signals (
	signal_id bigint NOT NULL,
	run_id bigint NOT NULL,
	sent_at timestamptz NOT NULL,
	name text COLLATE "C" NOT NULL,
	consumed_by text COLLATE "C",
	idempotency_key text COLLATE "C",
	payload jsonb,
	headers jsonb,
	CONSTRAINT pgqrs_run_signals_pkey PRIMARY KEY (signal_id)
);
COMMENT ON TABLE pgqrs_run_signals IS 'signals sent to runs; consumed_by is the step that consumed the signal';
CREATE INDEX pgqrs_run_signals_run_idx ON pgqrs_run_signals (run_id, signal_id);
COMMENT ON INDEX pgqrs_run_signals_run_idx IS 'the signals of a run';
CREATE INDEX pgqrs_run_signals_waiting_idx ON pgqrs_run_signals (run_id, name, signal_id) WHERE consumed_by IS NULL;
COMMENT ON INDEX pgqrs_run_signals_waiting_idx IS 'signals that no step has consumed, in the order sent';
CREATE UNIQUE INDEX pgqrs_run_signals_key_idx ON pgqrs_run_signals (run_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
COMMENT ON INDEX pgqrs_run_signals_key_idx IS 'idempotency keys of signals';

CREATE TABLE pgqrs_schedules (
	schedule_id bigint NOT NULL,
	next_fire_at timestamptz,
	last_fired_at timestamptz,
	last_run_id bigint,
	owner_id bigint,
	timeout interval,
	max_catchup integer NOT NULL,
	overlap pgqrs_overlap NOT NULL,
	priority smallint NOT NULL,
	enabled boolean NOT NULL,
	owner name NOT NULL,
	name text COLLATE "C" NOT NULL,
	cron text NOT NULL,
	timezone text NOT NULL,
	workflow text COLLATE "C" NOT NULL,
	input jsonb,
	tags jsonb,
	CONSTRAINT pgqrs_schedules_pkey PRIMARY KEY (schedule_id),
	CONSTRAINT pgqrs_schedules_name_key UNIQUE (name)
);
COMMENT ON TABLE pgqrs_schedules IS 'schedules of workflows; next_fire_at is NULL if the schedule is disabled or its time zone is no longer known';
COMMENT ON COLUMN pgqrs_schedules.owner_id IS 'as that of pgqrs_workers';
CREATE INDEX pgqrs_schedules_next_idx ON pgqrs_schedules (next_fire_at) WHERE enabled;
COMMENT ON INDEX pgqrs_schedules_next_idx IS 'due schedules';

CREATE TABLE pgqrs_schedule_firings (
	schedule_id bigint NOT NULL,
	slot timestamptz NOT NULL,
	fired_at timestamptz NOT NULL,
	run_id bigint,
	CONSTRAINT pgqrs_schedule_firings_pkey PRIMARY KEY (schedule_id, slot)
);
COMMENT ON TABLE pgqrs_schedule_firings IS 'served slots of schedules, with the run of each; a skipped slot has none';

CREATE TABLE pgqrs_run_events (
	event_id bigint NOT NULL,
	run_id bigint NOT NULL,
	at timestamptz NOT NULL,
	event text NOT NULL,
	data jsonb,
	CONSTRAINT pgqrs_run_events_pkey PRIMARY KEY (event_id)
);
COMMENT ON TABLE pgqrs_run_events IS 'events of runs while pgqrs.audit was on';
CREATE INDEX pgqrs_run_events_run_idx ON pgqrs_run_events (run_id, event_id);
COMMENT ON INDEX pgqrs_run_events_run_idx IS 'the events of a run in order';

CREATE TABLE pgqrs_grants (
	granted_at timestamptz NOT NULL,
	grantee_id bigint,
	privilege pgqrs_privilege NOT NULL,
	grantee name NOT NULL,
	granted_by name NOT NULL,
	pattern text COLLATE "C" NOT NULL,
	CONSTRAINT pgqrs_grants_pkey PRIMARY KEY (pattern, grantee, privilege)
);
COMMENT ON COLUMN pgqrs_grants.grantee_id IS 'as owner_id of pgqrs_workers; NULL for public';
COMMENT ON TABLE pgqrs_grants IS 'privileges of roles on patterns of names; grantee public is every role';

CREATE TABLE pgqrs_counters (
	queue_id bigint NOT NULL,
	epoch bigint NOT NULL,
	earlier bigint[] NOT NULL,
	counts bigint[] NOT NULL,
	CONSTRAINT pgqrs_counters_pkey PRIMARY KEY (queue_id, epoch)
);
COMMENT ON TABLE pgqrs_counters IS 'counters of queues, as of their last flush; one row per queue, and rows with a negative epoch of transactions whose counts are still to be added to it';
COMMENT ON COLUMN pgqrs_counters.epoch IS 'the slot in shared memory that counts holds the state of; 0: none';
COMMENT ON COLUMN pgqrs_counters.earlier IS 'sums of earlier slots';
CREATE INDEX pgqrs_counters_spilled_idx ON pgqrs_counters (queue_id) WHERE epoch OPERATOR(pg_catalog.<) 0;
COMMENT ON INDEX pgqrs_counters_spilled_idx IS 'counts to be added to the row of their queue';
-- A small table that is rewritten, as above.
ALTER TABLE pgqrs_counters SET (fillfactor = 50,
	autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- Ids stay within what a JSON or JavaScript number holds exactly.
CREATE SEQUENCE pgqrs_queue_id_seq MAXVALUE 9007199254740991 OWNED BY pgqrs_queues.queue_id;
COMMENT ON SEQUENCE pgqrs_queue_id_seq IS 'ids of queues and workflows';
CREATE SEQUENCE pgqrs_message_id_seq MAXVALUE 9007199254740991 OWNED BY pgqrs_messages.message_id;
COMMENT ON SEQUENCE pgqrs_message_id_seq IS 'ids of messages and runs';
CREATE SEQUENCE pgqrs_worker_id_seq MAXVALUE 9007199254740991 OWNED BY pgqrs_workers.worker_id;
COMMENT ON SEQUENCE pgqrs_worker_id_seq IS 'ids of workers';
CREATE SEQUENCE pgqrs_signal_id_seq MAXVALUE 9007199254740991 OWNED BY pgqrs_run_signals.signal_id;
COMMENT ON SEQUENCE pgqrs_signal_id_seq IS 'ids of signals';
CREATE SEQUENCE pgqrs_schedule_id_seq MAXVALUE 9007199254740991 OWNED BY pgqrs_schedules.schedule_id;
COMMENT ON SEQUENCE pgqrs_schedule_id_seq IS 'ids of schedules';
CREATE SEQUENCE pgqrs_event_id_seq MAXVALUE 9007199254740991 OWNED BY pgqrs_run_events.event_id;
COMMENT ON SEQUENCE pgqrs_event_id_seq IS 'ids of run events';

-- All tables hold data: pg_dump must include them.
SELECT pg_catalog.pg_extension_config_dump('pgqrs_queues', '');
SELECT pg_catalog.pg_extension_config_dump('pgqrs_messages', '');
SELECT pg_catalog.pg_extension_config_dump('pgqrs_archive', '');
SELECT pg_catalog.pg_extension_config_dump('pgqrs_workers', '');
SELECT pg_catalog.pg_extension_config_dump('pgqrs_workflows', '');
SELECT pg_catalog.pg_extension_config_dump('pgqrs_workflow_runs', '');
SELECT pg_catalog.pg_extension_config_dump('pgqrs_workflow_run_parents', '');
SELECT pg_catalog.pg_extension_config_dump('pgqrs_workflow_steps', '');
SELECT pg_catalog.pg_extension_config_dump('pgqrs_run_signals', '');
SELECT pg_catalog.pg_extension_config_dump('pgqrs_schedules', '');
SELECT pg_catalog.pg_extension_config_dump('pgqrs_schedule_firings', '');
SELECT pg_catalog.pg_extension_config_dump('pgqrs_run_events', '');
SELECT pg_catalog.pg_extension_config_dump('pgqrs_grants', '');
SELECT pg_catalog.pg_extension_config_dump('pgqrs_counters', '');
SELECT pg_catalog.pg_extension_config_dump('pgqrs_queue_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('pgqrs_message_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('pgqrs_worker_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('pgqrs_signal_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('pgqrs_schedule_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('pgqrs_event_id_seq', '');
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

-- Messages.

-- Claims start at a floor in shared memory, above dead index entries.  Rows that
-- are written without the functions, by hand, COPY or logical replication, lower it.
CREATE FUNCTION pgqrs_messages_written()
RETURNS trigger LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_messages_written';
COMMENT ON FUNCTION pgqrs_messages_written() IS
'row trigger of pgqrs_messages: claims must find rows that are written without the functions of pgqrs';
CREATE TRIGGER pgqrs_messages_written BEFORE INSERT OR UPDATE OR DELETE ON pgqrs_messages
	FOR EACH ROW EXECUTE FUNCTION pgqrs_messages_written();
ALTER TABLE pgqrs_messages ENABLE ALWAYS TRIGGER pgqrs_messages_written;
COMMENT ON TRIGGER pgqrs_messages_written ON pgqrs_messages IS
'lets claims find rows that are written without the functions of pgqrs';

CREATE FUNCTION pgqrs_enqueue(queue text, payload jsonb, delay interval = '0', run_at timestamptz = NULL,
	priority int = 0, idempotency_key text = NULL, headers jsonb = NULL, concurrency_key text = NULL,
	on_duplicate text = 'return')
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_enqueue';
COMMENT ON FUNCTION pgqrs_enqueue(text, jsonb, interval, timestamptz, int, text, jsonb, text, text) IS
'stores a message, part of the caller''s transaction, and returns its id. Claimable after delay or at run_at (not both; past counts as now), higher priority (-100..100) first. With an idempotency_key that a live message of the queue has: its id, or with on_duplicate => ''raise'' 23505, with ''null'' NULL. Errors: PQ001 no such queue, PQ016 the queue of a workflow, PQ008 payload or headers too large, 0A000 concurrency_key and on_duplicate => ''replace'' or ''replace_input'', not supported yet, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_enqueue_batch(queue text, payloads jsonb[], delay interval = '0', run_at timestamptz = NULL,
	priority int = 0, headers jsonb[] = NULL, idempotency_keys text[] = NULL, concurrency_keys text[] = NULL)
RETURNS bigint[] LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_enqueue_batch';
COMMENT ON FUNCTION pgqrs_enqueue_batch(text, jsonb[], interval, timestamptz, int, jsonb[], text[], text[]) IS
'stores up to 10000 messages in order and returns their ids in order, an empty array for no payloads; headers and idempotency_keys, if given, one per payload, each of which may be NULL, no key twice; for a key that is taken, the id of the message that has it is returned. One bad item fails the batch, naming its 1-based index. Errors as pgqrs_enqueue().';

-- A named type, since the row type of OUT parameters is built again by every call.
CREATE TYPE pgqrs_delivery AS (
	message_id bigint, queue text, lease bigint, attempt int, failures int, priority int,
	enqueued_at timestamptz, visible_after timestamptz, payload jsonb, headers jsonb,
	run_id bigint, workflow text, input jsonb, cancel_requested boolean
);
COMMENT ON TYPE pgqrs_delivery IS 'a claimed message as pgqrs_dequeue() returns it; visible_after is the end of its lease, cancel_requested is true for a run of a workflow with on_cancel => ''deliver'' that has to be undone';

CREATE FUNCTION pgqrs_dequeue(queue text = NULL, worker_id bigint = NULL, batch_size int = 1, visibility_timeout interval = NULL)
RETURNS SETOF pgqrs_delivery LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'sql_dequeue';
COMMENT ON FUNCTION pgqrs_dequeue(text, bigint, int, interval) IS
'claims up to batch_size (0..10000) messages of a queue, of all that match a pattern, or with NULL of all to which the worker subscribes (of at most 100 queues with max_in_flight), each under a new lease that ends at visible_after (NULL timeout: the queue''s). Commit right after it: an uncommitted claim is no claim. No rows: nothing is due, the queue is paused or at max_in_flight, the worker is suspended or at max_concurrent, or the call ended 1000 exhausted messages and stopped there. Errors: PQ001 no such queue, PQ005 no such worker, PQ014 the worker is stopped, 22023 the worker does not subscribe to the queue, 22004 neither given, 42501.';

CREATE FUNCTION pgqrs_archive_message(message_id bigint, lease bigint)
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_archive_message';
COMMENT ON FUNCTION pgqrs_archive_message(bigint, bigint) IS
'the message is done. true: by this call; false: by an earlier call under this lease (roll back repeated writes), as long as the queue''s retention keeps the message. Errors: PQ006 stale lease, PQ010 a cancelled run, PQ007 ended under it, PQ016 a run''s message, 42501.';

CREATE FUNCTION pgqrs_archive_messages(message_ids bigint[], leases bigint[])
RETURNS boolean[] LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_archive_messages';
COMMENT ON FUNCTION pgqrs_archive_messages(bigint[], bigint[]) IS
'the same for up to 10000 different messages; returns for each, in order, true: done by this call, false: by an earlier call, NULL: the lease is not the current one. Errors: PQ016 a run''s message, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_delete_message(message_id bigint, lease bigint)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_delete_message';
COMMENT ON FUNCTION pgqrs_delete_message(bigint, bigint) IS
'drops the message, which is archived as DELETED unless the queue''s retention is 0. Errors: PQ006 stale lease, PQ010 a cancelled run, PQ007 ended under it, PQ016 a run''s message, 42501.';

CREATE FUNCTION pgqrs_release_message(message_id bigint, lease bigint, delay interval = '0')
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_release_message';
COMMENT ON FUNCTION pgqrs_release_message(bigint, bigint, interval) IS
'ends the lease of a message or run without a failure; it can be claimed again after delay. Errors: PQ006 stale lease, PQ010 cancelled, PQ007 ended under it or past the run''s deadline, 42501.';

CREATE FUNCTION pgqrs_nack_message(message_id bigint, lease bigint, error jsonb = NULL, delay interval = NULL,
	retryable boolean = true)
RETURNS timestamptz LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_nack_message';
COMMENT ON FUNCTION pgqrs_nack_message(bigint, bigint, jsonb, interval, boolean) IS
'the message failed: counts a failure and returns when it can be claimed again, by default after min(60 s, 1 s * 2^(failures-1)) +- 25 %; NULL: the message is exhausted (the queue''s max_attempts-th failure) or not retryable, and now a dead letter. Errors: PQ006 stale lease, PQ010 a cancelled run, PQ007 ended under it, PQ016 a run''s message, 42501.';

CREATE FUNCTION pgqrs_extend_lease(message_id bigint, lease bigint, visibility_timeout interval = NULL,
	OUT extended boolean, OUT cancel_requested boolean)
RETURNS record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_extend_lease';
COMMENT ON FUNCTION pgqrs_extend_lease(bigint, bigint, interval) IS
'moves the end of the lease to now + visibility_timeout, also if that is earlier; NULL: the queue''s, but never earlier than before. While another transaction is writing the message, extended is true and the end stays: extend again in time. extended is false for a stale lease, past the run''s deadline, and for an expired lease if max_in_flight or max_concurrent leave no room: stop the work. Errors: 22023, 42501.';

CREATE FUNCTION pgqrs_extend_leases(message_ids bigint[], leases bigint[], visibility_timeout interval = NULL)
RETURNS TABLE (message_id bigint, extended boolean, cancel_requested boolean)
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_extend_leases';
COMMENT ON FUNCTION pgqrs_extend_leases(bigint[], bigint[], interval) IS
'the same for up to 10000 different messages, one row each in order. Errors: 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_set_visibility(message_id bigint, visible_after timestamptz)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_set_visibility';
COMMENT ON FUNCTION pgqrs_set_visibility(bigint, timestamptz) IS
'for operators: the message can be claimed at visible_after (past counts as now); revokes a lease without a failure. Errors: PQ004 no such live message, 22023 infinity, 42501.';

CREATE FUNCTION pgqrs_replay_message(message_id bigint, payload jsonb = NULL)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_replay_message';
COMMENT ON FUNCTION pgqrs_replay_message(bigint, jsonb) IS
'a dead letter becomes claimable again under the same id, without attempts and failures; payload replaces its payload unless NULL (of a run: 22023, use pgqrs_rerun()). A run in ERROR goes back to QUEUED: finished steps stay, failed ones may run again, a new deadline is set. An undo that failed goes on. Errors: PQ004 no such message, PQ008 payload too large, PQ016 not a dead letter, its run was undone, or its idempotency key is taken, 42501.';

CREATE FUNCTION pgqrs_replay_queue(queue text, max_rows int = NULL, error_type text = NULL)
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_replay_queue';
COMMENT ON FUNCTION pgqrs_replay_queue(text, int, text) IS
'replays up to max_rows (NULL: all) dead letters of a queue, oldest first, with error_type only those whose last error has that type; skips those that cannot be replayed, and returns the number of replayed ones. Errors: PQ001 no such queue, 22023, 42501.';

CREATE FUNCTION pgqrs_dismiss_dead_letter(message_id bigint)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_dismiss_dead_letter';
COMMENT ON FUNCTION pgqrs_dismiss_dead_letter(bigint) IS
'drops a dead letter. Its run stays in ERROR and can no longer be replayed. Needs admin on its queue. Errors: PQ004 no such message, PQ016 not a dead letter, 22004, 42501.';

CREATE FUNCTION pgqrs_purge_dead_letters(queue text, older_than interval)
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_purge_dead_letters';
COMMENT ON FUNCTION pgqrs_purge_dead_letters(text, interval) IS
'drops the dead letters of a queue that ended longer than older_than ago, and returns their number. Runs stay and can no longer be replayed. Errors: PQ001 no such queue, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_consume(queue text, handler text, batch_size int = 1)
RETURNS int LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_consume';
COMMENT ON FUNCTION pgqrs_consume(text, text, int) IS
'claims up to batch_size (0..10000) messages of a queue, calls handler, a function that takes one jsonb, with the payload of each, and archives them, all in the caller''s transaction, so that what the handler writes happens exactly once; returns the number of messages that the handler processed. If it fails, its changes for that message are rolled back and the message is nacked with {"type": SQLSTATE, "message"}; serialization failures, deadlocks and cancelled queries are raised to the caller. Errors: PQ001 no such queue, PQ016 the queue of a workflow, 42602 no name of a function, 42883 no such function, 22004, 22023, 42501.';
-- Rows written without the functions: by hand, COPY or logical replication.

CREATE FUNCTION pgqrs_settings_written()
RETURNS trigger LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_settings_written';
COMMENT ON FUNCTION pgqrs_settings_written() IS
'row trigger of the tables that sessions cache: they read rows again that are written without the functions of pgqrs';

CREATE TRIGGER pgqrs_queues_written BEFORE INSERT OR UPDATE OR DELETE ON pgqrs_queues
	FOR EACH ROW EXECUTE FUNCTION pgqrs_settings_written();
CREATE TRIGGER pgqrs_workflows_written BEFORE INSERT OR UPDATE OR DELETE ON pgqrs_workflows
	FOR EACH ROW EXECUTE FUNCTION pgqrs_settings_written();
CREATE TRIGGER pgqrs_schedules_written BEFORE INSERT OR UPDATE OR DELETE ON pgqrs_schedules
	FOR EACH ROW EXECUTE FUNCTION pgqrs_settings_written();
CREATE TRIGGER pgqrs_grants_written BEFORE INSERT OR UPDATE OR DELETE ON pgqrs_grants
	FOR EACH ROW EXECUTE FUNCTION pgqrs_settings_written();
ALTER TABLE pgqrs_queues ENABLE ALWAYS TRIGGER pgqrs_queues_written;
ALTER TABLE pgqrs_workflows ENABLE ALWAYS TRIGGER pgqrs_workflows_written;
ALTER TABLE pgqrs_schedules ENABLE ALWAYS TRIGGER pgqrs_schedules_written;
ALTER TABLE pgqrs_grants ENABLE ALWAYS TRIGGER pgqrs_grants_written;
COMMENT ON TRIGGER pgqrs_queues_written ON pgqrs_queues IS
'lets sessions read rows again that are written without the functions of pgqrs';
COMMENT ON TRIGGER pgqrs_workflows_written ON pgqrs_workflows IS
'lets sessions read rows again that are written without the functions of pgqrs';
COMMENT ON TRIGGER pgqrs_schedules_written ON pgqrs_schedules IS
'wakes the background worker for rows that are written without the functions of pgqrs';
COMMENT ON TRIGGER pgqrs_grants_written ON pgqrs_grants IS
'lets sessions read rows again that are written without the functions of pgqrs';

-- Expressions: see 70_views.sql.
SET LOCAL search_path = '';

CREATE FUNCTION @extschema@.pgqrs_advance_sequence(sequence regclass, last_id bigint, largest_id bigint) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE STRICT
AS 'MODULE_PATHNAME', 'sql_advance_sequence';
COMMENT ON FUNCTION @extschema@.pgqrs_advance_sequence(regclass, bigint, bigint) IS
'Sets a sequence that was at last_id to largest_id, unless it is beyond it, and returns its new value. Waits for transactions that took an id and are open. Part of pgqrs_advance_sequences(). Errors: 42501 unless called by the extension''s owner or a superuser.';

-- The run of a step, signal or event, and the worker of a message, may be removed.
CREATE FUNCTION @extschema@.pgqrs_advance_sequences() RETURNS TABLE (sequence text, last_id bigint)
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT s.sequence::pg_catalog.text,
		@extschema@.pgqrs_advance_sequence(s.sequence, s.last, s.largest)
	FROM (VALUES
			('@extschema@.pgqrs_queue_id_seq'::pg_catalog.regclass,
				(SELECT CASE WHEN q.is_called THEN q.last_value ELSE 0 END FROM @extschema@.pgqrs_queue_id_seq AS q),
				GREATEST((SELECT pg_catalog.max(t.queue_id) FROM @extschema@.pgqrs_queues AS t),
					(SELECT pg_catalog.max(t.workflow_id) FROM @extschema@.pgqrs_workflows AS t), 0)),
			('@extschema@.pgqrs_message_id_seq',
				(SELECT CASE WHEN q.is_called THEN q.last_value ELSE 0 END FROM @extschema@.pgqrs_message_id_seq AS q),
				GREATEST((SELECT pg_catalog.max(t.message_id) FROM @extschema@.pgqrs_messages AS t),
					(SELECT pg_catalog.max(t.message_id) FROM @extschema@.pgqrs_archive AS t),
					(SELECT pg_catalog.max(t.run_id) FROM @extschema@.pgqrs_workflow_runs AS t),
					(SELECT pg_catalog.max(t.parent_run_id) FROM @extschema@.pgqrs_workflow_runs AS t),
					(SELECT pg_catalog.max(GREATEST(t.run_id, t.parent_run_id)) FROM @extschema@.pgqrs_workflow_run_parents AS t),
					(SELECT pg_catalog.max(t.run_id) FROM @extschema@.pgqrs_workflow_steps AS t),
					(SELECT pg_catalog.max(t.run_id) FROM @extschema@.pgqrs_run_signals AS t),
					(SELECT pg_catalog.max(t.run_id) FROM @extschema@.pgqrs_schedule_firings AS t),
					(SELECT pg_catalog.max(t.last_run_id) FROM @extschema@.pgqrs_schedules AS t),
					(SELECT pg_catalog.max(t.run_id) FROM @extschema@.pgqrs_run_events AS t), 0)),
			('@extschema@.pgqrs_worker_id_seq',
				(SELECT CASE WHEN q.is_called THEN q.last_value ELSE 0 END FROM @extschema@.pgqrs_worker_id_seq AS q),
				GREATEST((SELECT pg_catalog.max(t.worker_id) FROM @extschema@.pgqrs_workers AS t),
					(SELECT pg_catalog.max(t.worker_id) FROM @extschema@.pgqrs_messages AS t), 0)),
			('@extschema@.pgqrs_signal_id_seq',
				(SELECT CASE WHEN q.is_called THEN q.last_value ELSE 0 END FROM @extschema@.pgqrs_signal_id_seq AS q),
				GREATEST((SELECT pg_catalog.max(t.signal_id) FROM @extschema@.pgqrs_run_signals AS t), 0)),
			('@extschema@.pgqrs_schedule_id_seq',
				(SELECT CASE WHEN q.is_called THEN q.last_value ELSE 0 END FROM @extschema@.pgqrs_schedule_id_seq AS q),
				GREATEST((SELECT pg_catalog.max(t.schedule_id) FROM @extschema@.pgqrs_schedules AS t),
					(SELECT pg_catalog.max(t.schedule_id) FROM @extschema@.pgqrs_schedule_firings AS t), 0)),
			('@extschema@.pgqrs_event_id_seq',
				(SELECT CASE WHEN q.is_called THEN q.last_value ELSE 0 END FROM @extschema@.pgqrs_event_id_seq AS q),
				GREATEST((SELECT pg_catalog.max(t.event_id) FROM @extschema@.pgqrs_run_events AS t), 0))
		) AS s (sequence, last, largest);
END;
COMMENT ON FUNCTION @extschema@.pgqrs_advance_sequences() IS
'Sets each sequence of the extension to the largest id in its tables, unless it is beyond it: after rows arrived without the sequences, as by logical replication. Returns the new values. May be called repeatedly, and beside other work; if a sequence is behind, it waits for open transactions that took an id from it. Is not undone by a rollback. Errors: 42501 unless called by the extension''s owner or a superuser.';

SET LOCAL search_path = @extschema@, pg_temp;
-- Workers.

CREATE FUNCTION pgqrs_register_worker(
	name text, queues text[], hostname text = NULL, port integer = NULL,
	version text = NULL, max_concurrent integer = NULL, labels jsonb = NULL
) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_register_worker';
COMMENT ON FUNCTION pgqrs_register_worker(text, text[], text, integer, text, integer, jsonb) IS
'Registers a worker of the current role and returns its id. queues: 1 to 10000 different patterns (a name, "billing.*", "*") of the queues that it serves; each claim checks its privileges. max_concurrent: the messages that it may hold (NULL: no limit). port 1..65535; name, hostname and version up to 255 bytes. A live worker of the same role and name is superseded: it is STOPPED, and its leases end like expired ones, with one failure. Waits for a transaction that has written that worker''s row. Errors: 22004, 22023, PQ008.';

CREATE FUNCTION pgqrs_heartbeat(worker_id bigint) RETURNS text
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_heartbeat';
COMMENT ON FUNCTION pgqrs_heartbeat(bigint) IS
'A heartbeat of the worker; returns READY or SUSPENDED. Every call that names a worker or is made under one of its leases counts as a heartbeat; with the library preloaded, also if its transaction rolls back. The worker''s row is written at most once per pgqrs.heartbeat_flush. Call it, or one of those, at least every third of pgqrs.worker_timeout. Errors: PQ005 for a worker that does not exist or belongs to another role (the extension''s owner and superusers reach all), PQ014 once it is STOPPED.';

CREATE FUNCTION pgqrs_extend_worker(
	worker_id bigint, visibility_timeout interval = NULL
) RETURNS TABLE (message_id bigint, run_id bigint, extended boolean, cancel_requested boolean)
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT ROWS 10
AS 'MODULE_PATHNAME', 'sql_extend_worker';
COMMENT ON FUNCTION pgqrs_extend_worker(bigint, interval) IS
'Extends every lease that the worker holds, also an expired one whose message was not claimed again, to now + visibility_timeout (NULL: each queue''s, but never earlier than before). Returns a row for each in the order of the ids; run_id is NULL for plain messages. extended = false: the lease was lost during the call; leases lost earlier are not listed, so use pgqrs_extend_leases() with the leases in hand. While another transaction is writing a message, extended is true and the end stays. Do not call it in a loop: it also keeps claims whose result was lost. Errors: PQ005, PQ014, 22023.';

CREATE FUNCTION pgqrs_suspend_worker(worker_id bigint) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_suspend_worker';
COMMENT ON FUNCTION pgqrs_suspend_worker(bigint) IS
'The worker gets no new messages and finishes those that it holds. No effect on a SUSPENDED worker. Waits for a transaction that has written the worker''s row. For the worker''s own role, the extension''s owner and superusers. Errors: PQ005, PQ014 for a STOPPED worker.';

CREATE FUNCTION pgqrs_resume_worker(worker_id bigint) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_resume_worker';
COMMENT ON FUNCTION pgqrs_resume_worker(bigint) IS
'Ends a suspension. No effect on a READY worker. Waits for a transaction that has written the worker''s row. For the worker''s own role, the extension''s owner and superusers. Errors: PQ005, PQ014 for a STOPPED worker, which is final.';

CREATE FUNCTION pgqrs_stop_worker(worker_id bigint) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_stop_worker';
COMMENT ON FUNCTION pgqrs_stop_worker(bigint) IS
'Stops a worker: its messages are claimable at once without a failure. Returns their number; 0 for a STOPPED worker. Waits for a transaction that has written the worker''s row. Does not wait for messages that another transaction has locked, such as an open step: their leases end like expired ones, at the latest when they expire. For the worker''s own role, the extension''s owner and superusers. Errors: PQ005.';
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

-- Runs: starting and ending them.

CREATE FUNCTION pgqrs_trigger(workflow text, input jsonb = NULL, idempotency_key text = NULL, delay interval = '0',
	run_at timestamptz = NULL, priority int = 0, timeout interval = NULL, tags jsonb = NULL, headers jsonb = NULL,
	retry_policy jsonb = NULL, on_duplicate text = 'return', require_worker boolean = false, concurrency_key text = NULL)
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_trigger';
COMMENT ON FUNCTION pgqrs_trigger(text, jsonb, text, interval, timestamptz, int, interval, jsonb, jsonb, jsonb, text, boolean, text) IS
'starts a run, part of the caller''s transaction, and returns its id. Starts after delay or at run_at (not both), higher priority (-100..100) first; must end within timeout (NULL: the workflow''s) from then. retry_policy: an object with keys of pgqrs_create_workflow(). With an idempotency_key that a run of the workflow has: its id, or with on_duplicate => ''raise'' 23505, with ''null'' NULL. A WARNING, or with require_worker PQ013, if no live worker serves it. Errors: PQ002 no such workflow, PQ008 too large, 0A000 concurrency_key and on_duplicate => ''replace'' or ''replace_input'', not supported yet, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_trigger_batch(workflow text, inputs jsonb[], idempotency_keys text[] = NULL, delay interval = '0',
	run_at timestamptz = NULL, priority int = 0, tags jsonb = NULL)
RETURNS bigint[] LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_trigger_batch';
COMMENT ON FUNCTION pgqrs_trigger_batch(text, jsonb[], text[], interval, timestamptz, int, jsonb) IS
'starts up to 10000 runs in order and returns their ids in order, an empty array for no inputs; idempotency_keys, if given, one per input, each of which may be NULL. One bad item fails the batch, naming its 1-based index. Errors as pgqrs_trigger().';

CREATE FUNCTION pgqrs_complete_run(run_id bigint, lease bigint, output jsonb = NULL)
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_complete_run';
COMMENT ON FUNCTION pgqrs_complete_run(bigint, bigint, jsonb) IS
'the run ends in SUCCESS with this output (NULL is stored as JSON null). true: by this call; false: by an earlier call under this lease (roll back repeated writes). Errors: PQ003 no such run, PQ006 stale lease, PQ010 cancelled, PQ007 ended or past its deadline, PQ008 too large, 42501.';

CREATE FUNCTION pgqrs_fail_run(run_id bigint, lease bigint, error jsonb, retryable boolean = false, retry_after interval = NULL)
RETURNS timestamptz LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_fail_run';
COMMENT ON FUNCTION pgqrs_fail_run(bigint, bigint, jsonb, boolean, interval) IS
'the run failed. Exhausted or not retryable: it ends in ERROR and NULL is returned. A lease from before a request to undo the run ends, and the run is claimable at once. Otherwise the lease ends and the time of the retry is returned, after retry_after or the policy''s backoff. An oversized error is truncated. Errors: PQ003 no such run, PQ006 stale lease, PQ010 cancelled, PQ007 ended or past its deadline, 22004, 42501.';

CREATE FUNCTION pgqrs_set_progress(run_id bigint, lease bigint, progress jsonb)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_set_progress';
COMMENT ON FUNCTION pgqrs_set_progress(bigint, bigint, jsonb) IS
'sets the progress of the run that pgqrs_get_run() returns; NULL clears it. Errors: PQ003 no such run, PQ006 stale lease, PQ010 cancelled, PQ007 ended or past its deadline, PQ008 too large, 42501.';

-- Schedules.

CREATE FUNCTION pgqrs_next_firings(cron text, timezone text = 'UTC', n int = 5, after timestamptz = NULL)
RETURNS SETOF timestamptz LANGUAGE c VOLATILE PARALLEL SAFE CALLED ON NULL INPUT ROWS 5
AS 'MODULE_PATHNAME', 'sql_next_firings';
COMMENT ON FUNCTION pgqrs_next_firings(text, text, int, timestamptz) IS
'The next n (0 to 10000) instants after another (NULL: now) that a cron expression names in a time zone; fewer if the calendar ends. Five fields: minute (0-59), hour (0-23), day of month (1-31), month (1-12 or jan-dec), day of week (0-7 or sun-sat, 0 and 7 are Sunday), each a list (1,2) of *, values and ranges (1-5), these with steps (*/15, 8-18/2); or @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually. If neither day of month nor day of week begins with *, a day must match one of them, else both. A local time that the zone skips fires at the end of the gap, one that the zone repeats at its first occurrence; if the hour begins with *, every instant fires whose local time matches. Needs monitor. Errors: PQ015 no such expression or zone, or it can never fire; 22004, 22023.';

CREATE FUNCTION pgqrs_schedule(name text, cron text, workflow text, input jsonb = NULL, timezone text = 'UTC',
	max_catchup int = 100, overlap text = 'allow', priority int = 0, timeout interval = NULL, tags jsonb = NULL,
	enabled boolean = NULL)
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'sql_schedule';
COMMENT ON FUNCTION pgqrs_schedule(text, text, text, jsonb, text, int, text, int, interval, jsonb, boolean) IS
'Creates a schedule, or replaces all settings of the one of this name, and returns its id. From now on a run of the workflow is triggered, with input, priority, timeout and tags, at each instant (slot) that cron names in the time zone (see pgqrs_next_firings()). The background worker or pgqrs_maintain() triggers it, with the privileges that the role that calls this has at that moment. enabled NULL: a new schedule is enabled, an existing one stays as it is. Each slot has one run, which has it as schedule_slot. Of the slots missed by more than a minute, the newest max_catchup (0 to 10000) are served, oldest first; none of before a change of cron or timezone, or of a time when the schedule was disabled. overlap, if the previous run has not ended: ''allow'' starts another, ''skip'' skips the slot, ''cancel'' cancels the previous run as pgqrs_cancel_run() does, and starts another. Needs trigger on the workflow and on the schedule''s own name, and to change a schedule of another role, admin on its workflow. Errors: PQ002 no such workflow, PQ008, PQ015 no such expression or zone, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_unschedule(name text)
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'sql_unschedule';
COMMENT ON FUNCTION pgqrs_unschedule(text) IS
'Deletes a schedule and its firings; true if it existed. Its runs stay. Needs trigger on the workflow for a schedule of one''s own, else admin. Waits while the schedule fires. Errors: 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_enable_schedule(name text, enabled boolean)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'sql_enable_schedule';
COMMENT ON FUNCTION pgqrs_enable_schedule(text, boolean) IS
'Enables a schedule, from its next slot on, or disables it. No effect if it is so already. Needs trigger on the workflow for a schedule of one''s own, else admin. Errors: 42704 no such schedule, PQ015 its time zone is no longer known, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_trigger_schedule(name text)
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'sql_trigger_schedule';
COMMENT ON FUNCTION pgqrs_trigger_schedule(text) IS
'Triggers a run of the schedule now, regardless of enabled and overlap, and returns the run''s id; the slots are not affected. Needs trigger on the workflow for a schedule of one''s own, else admin. Errors: 42704 no such schedule, PQ002 no such workflow, 22004, 22023, 42501.';
-- Waiting in the server.

CREATE PROCEDURE pgqrs_wait(run_id bigint, timeout interval = '300 s', INOUT status text = NULL,
	INOUT output jsonb = NULL, INOUT error jsonb = NULL)
LANGUAGE c AS 'MODULE_PATHNAME', 'sql_wait';
COMMENT ON PROCEDURE pgqrs_wait(bigint, interval, text, jsonb, jsonb) IS
'waits until the run has ended and returns the result of pgqrs_result(). Only in autocommit mode: it commits before it sleeps, and holds no snapshot and no lock then. Needs read on the run''s workflow. Without the library preloaded, and on a standby, it polls at growing intervals of up to 1 s. Errors: PQ012 the run did not end within timeout, PQ003 no such run, 25001 in a transaction block or a function, 22004, 22023, 42501.';

CREATE PROCEDURE pgqrs_wait_any(run_ids bigint[], timeout interval = '300 s', INOUT run_id bigint = NULL,
	INOUT status text = NULL, INOUT output jsonb = NULL, INOUT error jsonb = NULL)
LANGUAGE c AS 'MODULE_PATHNAME', 'sql_wait_any';
COMMENT ON PROCEDURE pgqrs_wait_any(bigint[], interval, bigint, text, jsonb, jsonb) IS
'like pgqrs_wait() for up to 10000 runs: waits until one of them has ended, and returns its id and its result. Of several that have ended, the first by the time of its end, then by its place in run_ids. Without run_ids: NULLs at once. Errors: PQ012 none of the runs ended within timeout, PQ003 one of the runs does not exist, before it sleeps, 25001 in a transaction block or a function, 22004, 22023, 42501.';

CREATE PROCEDURE pgqrs_wait_for_work(queue text = NULL, worker_id bigint = NULL, timeout interval = '30 s',
	INOUT available boolean = NULL)
LANGUAGE c AS 'MODULE_PATHNAME', 'sql_wait_for_work';
COMMENT ON PROCEDURE pgqrs_wait_for_work(text, bigint, interval, boolean) IS
'waits until pgqrs_dequeue() with the same queue and worker_id has a message to claim, then returns true; false after timeout. Another worker may claim the message first. Only in autocommit mode: it commits before it sleeps, and holds no snapshot and no lock then. The wait counts as a heartbeat; a worker that is suspended or at max_concurrent is not woken for messages. Without the library preloaded it polls at growing intervals of up to 1 s. Errors: PQ001 no such queue, PQ005 no such worker, PQ014 the worker is stopped, 25001 in a transaction block or a function, 22004, 22023, 42501.';

CREATE PROCEDURE pgqrs_poll(worker_id bigint, timeout interval = '30 s', batch_size int = 1,
	held_ids bigint[] = '{}', held_leases bigint[] = '{}',
	INOUT work jsonb = NULL, INOUT held jsonb = NULL, INOUT worker_status text = NULL)
LANGUAGE c AS 'MODULE_PATHNAME', 'sql_poll';
COMMENT ON PROCEDURE pgqrs_poll(bigint, interval, int, bigint[], bigint[], jsonb, jsonb, text) IS
'one round trip of a worker''s loop: extends the leases in held_ids and held_leases, claims up to batch_size (0..10000; 0: none) messages, and if it has nothing to tell sleeps until it has, for timeout or a third of the shortest lease held at most (''0'': not at all). work: an array, in the order of claims, of objects with the columns of pgqrs_dequeue() and for a run steps, {step_id: {kind, status, output, error, undo}} of those that are SUCCESS or ERROR, oldest first; those over 4 MB are left out, and "steps_truncated" is true. held: an array in the order of held_ids of {message_id, state}; state is extended, cancel_requested (extended too) or gone. worker_status: READY or SUSPENDED. What an earlier poll of the worker claimed and this one does not name was not received: it is released without a failure. A newer poll of the worker ends this one. Only in autocommit mode: it commits before it sleeps. Errors: PQ005 no such worker, PQ014 the worker is stopped, 25001 in a transaction block or a function, 22004, 22023.';
-- Steps.

CREATE FUNCTION pgqrs_step_begin(run_id bigint, lease bigint, step_id text, input jsonb = NULL,
	OUT should_execute boolean, OUT status text, OUT output jsonb, OUT error jsonb, OUT attempt int)
RETURNS record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_step_begin';
COMMENT ON FUNCTION pgqrs_step_begin(bigint, bigint, text, jsonb) IS
'begins a step (id of 1 to 255 bytes). should_execute false: the step has finished; SUCCESS: use output, ERROR: raise error in the handler. true: execute the step, then call pgqrs_step_complete() or pgqrs_step_fail(). A repeated call under the same lease returns the same, and waits for a transaction that is completing the step. Errors: PQ003 no such run, PQ006 stale lease, PQ010 cancelled or cancellation requested, PQ007 ended or past its deadline, PQ016 a step of another kind, PQ008 too large, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_step_complete(run_id bigint, lease bigint, step_id text, output jsonb = NULL, started_at timestamptz = NULL)
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_step_complete';
COMMENT ON FUNCTION pgqrs_step_complete(bigint, bigint, text, jsonb, timestamptz) IS
'stores a step''s output (NULL as JSON null) in the caller''s transaction; the first stored output stays. started_at: when a step without pgqrs_step_begin() was started (NULL or in the future: now). true: stored by this call; false: by an earlier call, whose result may have been lost (roll back repeated writes). Errors: PQ003 no such run, PQ006 stale lease, PQ010 cancelled, PQ007 ended or past its deadline, PQ016 the step has failed or is of another kind, PQ008 too large, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_step_fail(run_id bigint, lease bigint, step_id text, error jsonb, retryable boolean = true,
	retry_after interval = NULL, max_attempts int = NULL, fail_run boolean = true, OUT outcome text, OUT retry_at timestamptz)
RETURNS record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_step_fail';
COMMENT ON FUNCTION pgqrs_step_fail(bigint, bigint, text, jsonb, boolean, interval, int, boolean) IS
'the step failed. RETRY: the lease has ended, the run can be claimed again at retry_at, after retry_after or the policy''s backoff; leave the handler. If the step is not retryable, exhausted (max_attempts of the call, run or workflow; -1: unlimited) or could only be retried after the deadline: RUN_FAILED, the run has ended in ERROR (where on_cancel => ''deliver'' has it undone first: RETRY), or with fail_run => false STEP_FAILED, the run continues. An oversized error is truncated. Errors: PQ003 no such run, PQ006 stale lease, PQ010 cancelled, PQ007 ended or past its deadline, PQ016 the step has finished or is of another kind, 22004, 22023, 42501.';

-- Runs that wait.  Each of these steps ends the lease until its wait is over; the
-- handler calls it again after each delivery.

CREATE FUNCTION pgqrs_pause_run(run_id bigint, lease bigint, step_id text, check_after interval = '1 hour', reason jsonb = NULL,
	OUT resumed boolean, OUT output jsonb)
RETURNS record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_pause_run';
COMMENT ON FUNCTION pgqrs_pause_run(bigint, bigint, text, interval, jsonb) IS
'a step that waits for pgqrs_resume_run(). false: the run is PAUSED and the lease has ended; leave the handler. The run is delivered when it is resumed, and after check_after, so that the handler can check by itself; then call this again. true: resumed; continue with output. Errors: PQ003 no such run, PQ006 stale lease, PQ010 cancelled or cancellation requested, PQ007 ended or past its deadline, PQ016 a step of another kind, PQ008 too large, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_resume_run(run_id bigint, step_id text = NULL, output jsonb = NULL)
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_resume_run';
COMMENT ON FUNCTION pgqrs_resume_run(bigint, text, jsonb) IS
'ends a pause: the step succeeds with output (NULL is stored as JSON null), and a run that waits in it can be claimed at once. A resume before the pause has begun is kept, and pgqrs_pause_run() does not wait; if the step begins as another kind, the resume is dropped. step_id NULL: the pause in which the run waits. false: no effect. Errors: PQ003 no such run, PQ016 the run has ended, or a step of another kind, PQ008 too large, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_sleep(run_id bigint, lease bigint, step_id text, duration interval = NULL, until timestamptz = NULL)
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_sleep';
COMMENT ON FUNCTION pgqrs_sleep(bigint, bigint, text, interval, timestamptz) IS
'a step that sleeps for a duration, or until an instant (one of them). The first call sets the end. false: the run is PAUSED until then and the lease has ended; leave the handler and call this again after the next delivery. true: the sleep has ended. Errors: PQ003 no such run, PQ006 stale lease, PQ010 cancelled or cancellation requested, PQ007 ended or past its deadline, PQ016 a step of another kind, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_await_signal(run_id bigint, lease bigint, step_id text, signal text, timeout interval = NULL,
	OUT received boolean, OUT timed_out boolean, OUT payload jsonb, OUT headers jsonb)
RETURNS record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_await_signal';
COMMENT ON FUNCTION pgqrs_await_signal(bigint, bigint, text, text, interval) IS
'a step that consumes the oldest signal of that name that no other step has consumed, sent before or after the call. received: continue with payload (JSON null if it has none) and headers (NULL if it has none). timed_out: no signal came within timeout (NULL: no limit) of the first call. Neither: the run is PAUSED and the lease has ended; leave the handler and call this again after the next delivery. Errors: PQ003 no such run, PQ006 stale lease, PQ010 cancelled or cancellation requested, PQ007 ended or past its deadline, PQ016 a step of another kind, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_signal(run_id bigint, signal text, payload jsonb = NULL, idempotency_key text = NULL, headers jsonb = NULL)
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_signal';
COMMENT ON FUNCTION pgqrs_signal(bigint, text, jsonb, text, jsonb) IS
'sends a signal to a live run, waiting or not, as part of the caller''s transaction, and returns its id. With an idempotency_key that a signal to that run has, consumed or not: the id of that signal. Errors: PQ003 no such run, PQ016 the run has ended, PQ008 too large, 22004, 22023, 42501.';

-- Children.

CREATE FUNCTION pgqrs_start_child(run_id bigint, lease bigint, step_id text, workflow text, input jsonb = NULL, idempotency_key text = NULL,
	delay interval = '0', run_at timestamptz = NULL, priority int = NULL, timeout interval = NULL, tags jsonb = NULL, headers jsonb = NULL,
	retry_policy jsonb = NULL, on_duplicate text = 'return', require_worker boolean = false, concurrency_key text = NULL,
	on_parent_end text = 'cancel')
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_start_child';
COMMENT ON FUNCTION pgqrs_start_child(bigint, bigint, text, text, jsonb, text, interval, timestamptz, int, interval, jsonb, jsonb, jsonb, text, boolean, text, text) IS
'a step that starts a run of a workflow as a child, once; each call returns the id of that child. With on_duplicate => ''null'' and a key that is taken no child is started: the step has succeeded, and NULL is returned. Like pgqrs_trigger(), but priority NULL is that of the parent, and the deadline is no later than the parent''s. When the parent ends in ERROR or CANCELLED, the child is cancelled; with on_parent_end => ''abandon'' it continues, and has only its own deadline. An existing run with the key becomes a child of this run, too: it is cancelled when its last parent that has not abandoned it ends so. Needs the privilege trigger on the child''s workflow. Errors: PQ003 no such run, PQ006 stale lease, PQ010 cancelled or cancellation requested, PQ007 ended or past its deadline, PQ016 a step of another kind, and those of pgqrs_trigger().';

CREATE FUNCTION pgqrs_start_children(run_id bigint, lease bigint, step_id text, workflow text, inputs jsonb[],
	idempotency_keys text[] = NULL, priority int = NULL, timeout interval = NULL, tags jsonb = NULL, on_parent_end text = 'cancel')
RETURNS bigint[] LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_start_children';
COMMENT ON FUNCTION pgqrs_start_children(bigint, bigint, text, text, jsonb[], text[], int, interval, jsonb, text) IS
'the same for up to 10000 children in order; returns their ids. idempotency_keys, if given, one per input, each of which may be NULL; all children share priority, timeout, tags and on_parent_end. Without inputs the step has succeeded with an empty list. A repeated call with another number of inputs: PQ016. The children are the steps step_id[1] to step_id[n], for pgqrs_await_child(), and step_id is the step of all of them, for pgqrs_await_children(). Errors as pgqrs_start_child().';

CREATE FUNCTION pgqrs_await_child(run_id bigint, lease bigint, step_id text,
	OUT done boolean, OUT status text, OUT output jsonb, OUT error jsonb)
RETURNS record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_await_child';
COMMENT ON FUNCTION pgqrs_await_child(bigint, bigint, text) IS
'waits for the child that was started as that step. done: the child has ended; status is SUCCESS, with output, or ERROR or CANCELLED, with error. Not done: the run is PAUSED and the lease has ended; leave the handler and call this again after the next delivery. Errors: PQ003 no such run, PQ006 stale lease, PQ010 cancelled or cancellation requested, PQ007 ended or past its deadline, PQ016 no child was started as that step, or a step of another kind, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_await_children(run_id bigint, lease bigint, step_id text, mode text = 'all',
	OUT done boolean, OUT results jsonb)
RETURNS record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_await_children';
COMMENT ON FUNCTION pgqrs_await_children(bigint, bigint, text, text) IS
'waits until all of the children that were started together have ended, or with mode => ''any'' until one has, in any status. results: [{"run_id", "status", "output", "error"}] of all children, in order; those that have not ended have their current status. Not done and errors: as pgqrs_await_child().';

CREATE FUNCTION pgqrs_await_any(run_id bigint, lease bigint, step_id text, signals text[] = '{}', children text[] = '{}', timeout interval = NULL,
	OUT ready boolean, OUT source text, OUT name text, OUT payload jsonb)
RETURNS record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_await_any';
COMMENT ON FUNCTION pgqrs_await_any(bigint, bigint, text, text[], text[], interval) IS
'a step that waits for the first of several: signals of these names, children that were started as these steps, timeout (NULL: no limit). ready: source is signal, child or timeout, name is that of the signal or the child''s step id, payload is that of the signal or {"status", "output", "error"} of the child. What is there when it is called wins over a timeout that has passed; of several the one that was sent or ended first. A signal is consumed as by pgqrs_await_signal(). A child is not: pgqrs_await_child() returns its end, too; later calls for other steps leave it out. Not ready: the run is PAUSED and the lease has ended; leave the handler and call this again after the next delivery. Each array has at most 10000 elements. Errors: PQ003 no such run, PQ006 stale lease, PQ010 cancelled or cancellation requested, PQ007 ended or past its deadline, PQ016 no child was started as one of the steps, or a step of another kind, 22004, 22023 also if there is nothing to wait for, 42501.';

-- Cancelling, deleting, running again.

CREATE FUNCTION pgqrs_cancel_run(run_id bigint, reason text = NULL)
RETURNS text LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_cancel_run';
COMMENT ON FUNCTION pgqrs_cancel_run(bigint, text) IS
'cancels a run and returns its new status. CANCELLED: the run was not under a live lease. RUNNING: the worker that holds the lease was asked to stop: its calls that begin a step or a wait get PQ010, extending reports it, and the run is CANCELLED when the worker acknowledges, fails, or loses its lease; if the worker completes the run, that counts. Of a workflow with on_cancel => ''deliver'' a run that was claimed before does not end: it becomes claimable once no lease is live, and is delivered with cancel_requested to be undone; its status is returned; another call changes nothing. An ended run stays as it is. Live children are cancelled, too, unless they were started with on_parent_end => ''abandon''. Errors: PQ003 no such run, 22004, 42501.';

CREATE FUNCTION pgqrs_cancel_runs(workflow text, status text = NULL, tags jsonb = NULL, max_rows int = 1000, reason text = NULL,
	error_type text = NULL, created_after timestamptz = NULL, created_before timestamptz = NULL, after_run_id bigint = NULL)
RETURNS TABLE (changed bigint, skipped bigint, last_run_id bigint) LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'sql_cancel_runs';
COMMENT ON FUNCTION pgqrs_cancel_runs(text, text, jsonb, int, text, text, timestamptz, timestamptz, bigint) IS
'the same for up to max_rows live runs of a workflow in one transaction, in ascending order of their ids: those after after_run_id, with that status, whose tags contain tags, whose last error has that type, created from created_after on and before created_before; NULL: any. Runs whose worker was asked before are skipped. changed: the number of runs that were cancelled or whose worker was asked to stop; skipped: of runs that another transaction ended or asked first; last_run_id: pass it as after_run_id to continue, until it is NULL. Reads all live runs of the workflow. Errors: PQ002 no such workflow, PQ008 tags too large, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_replay_runs(workflow text, status text = NULL, tags jsonb = NULL, error_type text = NULL,
	created_after timestamptz = NULL, created_before timestamptz = NULL, after_run_id bigint = NULL, max_rows int = 1000)
RETURNS TABLE (changed bigint, skipped bigint, last_run_id bigint) LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'sql_replay_runs';
COMMENT ON FUNCTION pgqrs_replay_runs(text, text, jsonb, text, timestamptz, timestamptz, bigint, int) IS
'replays as pgqrs_replay_message() up to max_rows runs in ERROR of a workflow in one transaction, in ascending order of their ids: those after after_run_id, whose tags contain tags, whose error has that type, created from created_after on and before created_before; NULL: any. status: NULL or ERROR, since runs of another status cannot be replayed. changed: the number of replayed runs; skipped: of runs that cannot be replayed or that another transaction changed; last_run_id: pass it as after_run_id to continue, until it is NULL. Needs admin on the workflow. Errors: PQ002 no such workflow, PQ008 tags too large, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_rerun_runs(workflow text, status text = NULL, tags jsonb = NULL, error_type text = NULL,
	created_after timestamptz = NULL, created_before timestamptz = NULL, after_run_id bigint = NULL, max_rows int = 1000, from_failed boolean = true)
RETURNS TABLE (changed bigint, skipped bigint, last_run_id bigint) LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'sql_rerun_runs';
COMMENT ON FUNCTION pgqrs_rerun_runs(text, text, jsonb, text, timestamptz, timestamptz, bigint, int, boolean) IS
'starts a new run as pgqrs_rerun() for each of up to max_rows ended runs of a workflow, with the filters and the result of pgqrs_replay_runs(). status: NULL means ERROR. from_failed: the new runs keep the finished steps and begin with the step that failed; false: they begin anew. A run that has a rerun is skipped. Needs trigger on the workflow. Errors: PQ002 no such workflow, PQ008 tags too large, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_acknowledge_cancel(run_id bigint, lease bigint, output jsonb = NULL)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_acknowledge_cancel';
COMMENT ON FUNCTION pgqrs_acknowledge_cancel(bigint, bigint, jsonb) IS
'the worker acknowledges a request to cancel, after its cleanup: the run is CANCELLED now, with that output unless NULL. Of a workflow with on_cancel => ''deliver'' a lease from before the request ends, and the run is delivered to be undone; under a lease of that delivery the run ends, CANCELLED, or for a deadline in ERROR with the type timeout. A repeated call under the same lease has no effect. Errors: PQ003 no such run, PQ006 stale lease, PQ007 ended otherwise or past its deadline, PQ016 not asked to stop, PQ008 too large, 22004, 42501.';

CREATE FUNCTION pgqrs_advance(run_id bigint, by interval)
RETURNS timestamptz LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_advance';
COMMENT ON FUNCTION pgqrs_advance(bigint, interval) IS
'lets the time of a waiting run pass, for tests and operators: moves the instant of its next claim (start, wake-up, retry), the time-outs of the steps in which it waits, and its own deadline earlier by so much, but not before now. Returns when it can be claimed then; infinity: when a signal comes or a child ends. Children keep their deadlines. Needs admin on the workflow. Waits for a transaction that changes the run. Errors: PQ003 no such run, PQ016 the run is under a lease or has ended, 22004, 22023 by is negative, 42501.';

CREATE FUNCTION pgqrs_delete_run(run_id bigint, reason text = NULL)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_delete_run';
COMMENT ON FUNCTION pgqrs_delete_run(bigint, text) IS
'marks a run as deleted: only its id finds it, its idempotency key is free, its dead letter is dropped. A live run is CANCELLED first, also under a live lease. A repeated call has no effect. Errors: PQ003 no such run, 22004, 42501.';

CREATE FUNCTION pgqrs_rerun(run_id bigint, input jsonb = NULL, from_step text = NULL, keep_finished boolean = false)
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_rerun';
COMMENT ON FUNCTION pgqrs_rerun(bigint, jsonb, text, boolean) IS
'starts a new run with the workflow, input (unless one is given), priority, tags, headers, retry policy and timeout of an ended run, without its idempotency key and parent, and returns the new run''s id. The new run executes all steps; with from_step it keeps the steps that succeeded and were started before that step, with their outputs; with keep_finished it keeps all steps that succeeded, except from_step; steps of an undo are not kept. Errors: PQ003 no such run, PQ016 the run has not ended, or is to keep steps that were undone, PQ008 too large, 22023 no such step, 22004, 42501.';
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
-- Calls that do what two others do, in one round trip and one commit.

CREATE FUNCTION pgqrs_next(worker_id bigint = NULL, queue text = NULL, batch_size int = 1, visibility_timeout interval = NULL,
	done_ids bigint[] = '{}', done_leases bigint[] = '{}', outputs jsonb[] = NULL)
RETURNS SETOF pgqrs_delivery LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'sql_next';
COMMENT ON FUNCTION pgqrs_next(bigint, text, int, interval, bigint[], bigint[], jsonb[]) IS
'ends the items of done_ids (archives messages, completes runs with outputs, one each, NULL as JSON null) and then claims as pgqrs_dequeue() does; what has ended holds no place of max_concurrent or max_in_flight any more. An item that ended before under the same lease is done. An item that is refused changes nothing and has a row before the claimed ones, in order of id: its message_id, payload {"sqlstate": "PQ006"} (or PQ007, PQ010, 42501, as pgqrs_archive_message() and pgqrs_complete_run()), all else NULL. A suspended worker ends and claims nothing. Commit right after it. Errors, after which nothing is done: PQ001 no such queue, PQ005 no such worker, PQ008 an output is too large, PQ014 the worker is stopped, 22023 the worker does not subscribe to the queue, 22004, 42501.';

CREATE FUNCTION pgqrs_start(workflow text, input jsonb = NULL, worker_id bigint = NULL, idempotency_key text = NULL,
	delay interval = '0', run_at timestamptz = NULL, priority int = 0, timeout interval = NULL, tags jsonb = NULL,
	headers jsonb = NULL, retry_policy jsonb = NULL, on_duplicate text = 'return', require_worker boolean = false,
	concurrency_key text = NULL)
RETURNS SETOF pgqrs_delivery LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'sql_start';
COMMENT ON FUNCTION pgqrs_start(text, jsonb, bigint, text, interval, timestamptz, int, interval, jsonb, jsonb, jsonb, text, boolean, text) IS
'triggers a run as pgqrs_trigger() does and claims it for the caller, in one transaction. Returns one row, as pgqrs_dequeue(). If the run cannot be the caller''s it is triggered all the same, and the row has message_id, run_id, queue and workflow only, lease NULL: the idempotency_key has a run, the workflow is paused or at max_in_flight, the worker is suspended or at max_concurrent, or timeout has passed. No row: on_duplicate => ''null'' and the key has a run. Needs trigger and work on the workflow. Errors: PQ002 no such workflow, PQ005 no such worker, PQ008 too large, PQ013 with require_worker, PQ014 the worker is stopped, 0A000 concurrency_key and on_duplicate => ''replace'' or ''replace_input'', not supported yet, 22023 delay or run_at is given, or the worker does not subscribe to the workflow, 23505 with on_duplicate => ''raise'', 22004, 42501.';

CREATE FUNCTION pgqrs_step_next(run_id bigint, lease bigint, step_id text, output jsonb, next_step text,
	started_at timestamptz = NULL, next_input jsonb = NULL, OUT stored boolean, OUT should_execute boolean,
	OUT status text, OUT output jsonb, OUT error jsonb, OUT attempt int, OUT cancel_requested boolean)
RETURNS record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sql_step_next';
COMMENT ON FUNCTION pgqrs_step_next(bigint, bigint, text, jsonb, text, timestamptz, jsonb) IS
'completes a step with output as pgqrs_step_complete() does (stored: by this call) and begins next_step with next_input as pgqrs_step_begin() does (the other columns), in one transaction. If the cancellation of the run was requested, it stores, begins nothing and cancel_requested is true: call pgqrs_acknowledge_cancel(). A repeated call under the same lease returns the same, but stored. Errors, after which neither step is written: PQ003 no such run, PQ006 stale lease, PQ010 cancelled, PQ007 ended or past its deadline, PQ016 a step has failed or is of another kind, PQ008 too large, 22023 the two steps are the same, 22004, 42501.';
-- From here on the script has expressions.  Roles that may create in the target
-- schema must not be able to supply the operators or functions in them, so the
-- search path is empty: operators are pg_catalog's, and own objects are qualified.
-- Qualification alone does not help a call: arguments have exactly the declared
-- types, so that an overload in the same schema never matches better.
SET LOCAL search_path = '';

-- Views: the readable part of the tables.  Each shows a role the rows of the
-- queues and workflows that it may read, views of figures those that it may
-- monitor, by way of pgqrs_queues, whose rows are few: pgqrs_readable_queues() is
-- called once per query, and a condition on an id still uses the index.
-- security_barrier: no function in
-- a reader's condition gets to see other rows.  Leases are secrets between
-- pgqrs and their holders, so no view shows them.
--
-- Text has the database's collation, so that it compares with a user's text.
--
-- Like any query, a view shows the database as of the query's snapshot; the
-- functions show the newest committed state.

CREATE FUNCTION @extschema@.pgqrs_readable_queues() RETURNS bigint[]
LANGUAGE c STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_readable_queues';
COMMENT ON FUNCTION @extschema@.pgqrs_readable_queues() IS
'The ids of the queues and workflows that the current role may read. Needs read.';

CREATE FUNCTION @extschema@.pgqrs_may_monitor(queue_id bigint) RETURNS boolean
LANGUAGE c STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_may_monitor';
COMMENT ON FUNCTION @extschema@.pgqrs_may_monitor(bigint) IS
'Whether the current role sees the name and figures of a queue or workflow: has monitor or another privilege on it; false if it does not exist. Needs monitor. Errors: 22004.';

CREATE FUNCTION @extschema@.pgqrs_queue_name(queue_id bigint) RETURNS text
LANGUAGE c STABLE PARALLEL UNSAFE CALLED ON NULL INPUT COST 1000
AS 'MODULE_PATHNAME', 'sql_queue_name';
COMMENT ON FUNCTION @extschema@.pgqrs_queue_name(bigint) IS
'The name of a queue or workflow; NULL if it does not exist or the current role may not read it. Needs read. Errors: 22004.';

-- A row that was written by hand may have infinite instants; only this function
-- subtracts them.
CREATE FUNCTION @extschema@.pgqrs_elapsed(since timestamptz, until timestamptz) RETURNS interval
LANGUAGE c IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_elapsed';
COMMENT ON FUNCTION @extschema@.pgqrs_elapsed(timestamptz, timestamptz) IS
'until - since; NULL if one of them is NULL or infinity. Errors: none.';

-- A function, since a subquery on each table costs its estimated rows.
CREATE FUNCTION @extschema@.pgqrs_run_crashes(run_id bigint) RETURNS integer
LANGUAGE c STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_run_crashes';
COMMENT ON FUNCTION @extschema@.pgqrs_run_crashes(bigint) IS
'The crashes of a run; NULL if the run does not exist or the current role may not read its workflow. Needs read. Errors: 22004.';

-- ORDER BY, and the absence of joins, let an index find the newest runs, also
-- those of one workflow or status.  Inside of a security barrier the planner does
-- not know of a LIMIT outside, and would collect and sort all matching runs.  The
-- estimated cost of the name's function dominates, so that all paths through many
-- runs look alike and the ordered one wins.
CREATE VIEW @extschema@.pgqrs_runs WITH (security_barrier) AS
	SELECT r.run_id,
		@extschema@.pgqrs_queue_name(r.workflow_id) COLLATE pg_catalog."default" AS workflow,
		r.status::pg_catalog.text AS status,
		r.waiting_for COLLATE pg_catalog."default" AS waiting_for,
		(SELECT m.visible_after FROM @extschema@.pgqrs_messages AS m WHERE m.message_id = r.run_id) AS visible_after,
		r.attempt,
		r.failures,
		@extschema@.pgqrs_run_crashes(r.run_id) AS crashes,
		r.priority::pg_catalog.int4 AS priority,
		r.input,
		r.output,
		r.error,
		r.progress,
		r.tags,
		r.headers,
		r.idempotency_key COLLATE pg_catalog."default" AS idempotency_key,
		r.parent_run_id,
		r.parent_step_id COLLATE pg_catalog."default" AS parent_step_id,
		r.rerun_of,
		r.schedule_slot,
		(SELECT w.name FROM @extschema@.pgqrs_workers AS w WHERE w.worker_id = r.worker_id) COLLATE pg_catalog."default" AS worker,
		r.worker_version,
		r.created_at,
		r.started_at,
		r.paused_at,
		r.completed_at,
		r.deadline_at,
		r.cancel_requested_at,
		r.cancel_reason,
		r.deleted_at,
		r.delete_reason
	FROM @extschema@.pgqrs_workflow_runs AS r
	WHERE @extschema@.pgqrs_queue_name(r.workflow_id) IS NOT NULL
	ORDER BY r.run_id DESC;
COMMENT ON VIEW @extschema@.pgqrs_runs IS 'workflow runs, ended and deleted ones included; the columns of the type pgqrs_run';
COMMENT ON COLUMN @extschema@.pgqrs_runs.run_id IS 'also the id of the run''s message';
COMMENT ON COLUMN @extschema@.pgqrs_runs.workflow IS 'the workflow of the run';
COMMENT ON COLUMN @extschema@.pgqrs_runs.status IS 'QUEUED, RUNNING (also while it waits for a retry or for the next worker), PAUSED, SUCCESS, ERROR or CANCELLED';
COMMENT ON COLUMN @extschema@.pgqrs_runs.waiting_for IS 'what the run waits for while it is PAUSED';
COMMENT ON COLUMN @extschema@.pgqrs_runs.visible_after IS 'when work continues: the end of the lease while a worker holds it; NULL once the run has ended';
COMMENT ON COLUMN @extschema@.pgqrs_runs.attempt IS 'the number of claims';
COMMENT ON COLUMN @extschema@.pgqrs_runs.failures IS 'failures that pgqrs_fail_run() reported';
COMMENT ON COLUMN @extschema@.pgqrs_runs.crashes IS 'leases that expired since the last success of a step or the last wait; limited by max_crashes';
COMMENT ON COLUMN @extschema@.pgqrs_runs.priority IS '-100 to 100, high first';
COMMENT ON COLUMN @extschema@.pgqrs_runs.input IS 'the input of the trigger';
COMMENT ON COLUMN @extschema@.pgqrs_runs.output IS 'the output, JSON null if it has none; NULL unless status is SUCCESS';
COMMENT ON COLUMN @extschema@.pgqrs_runs.error IS 'the error of a run in ERROR';
COMMENT ON COLUMN @extschema@.pgqrs_runs.progress IS 'the last value of pgqrs_set_progress()';
COMMENT ON COLUMN @extschema@.pgqrs_runs.tags IS 'of the trigger';
COMMENT ON COLUMN @extschema@.pgqrs_runs.headers IS 'of the trigger; claims deliver them';
COMMENT ON COLUMN @extschema@.pgqrs_runs.idempotency_key IS 'of the trigger';
COMMENT ON COLUMN @extschema@.pgqrs_runs.parent_run_id IS 'the run that started this run as a child';
COMMENT ON COLUMN @extschema@.pgqrs_runs.parent_step_id IS 'the step of that run';
COMMENT ON COLUMN @extschema@.pgqrs_runs.rerun_of IS 'the run of which this run is a rerun';
COMMENT ON COLUMN @extschema@.pgqrs_runs.schedule_slot IS 'the slot of the schedule that triggered the run';
COMMENT ON COLUMN @extschema@.pgqrs_runs.worker IS 'the name of the worker that claimed the run last';
COMMENT ON COLUMN @extschema@.pgqrs_runs.worker_version IS 'the version with which that worker registered';
COMMENT ON COLUMN @extschema@.pgqrs_runs.created_at IS 'when the run was triggered';
COMMENT ON COLUMN @extschema@.pgqrs_runs.started_at IS 'when the run was claimed first';
COMMENT ON COLUMN @extschema@.pgqrs_runs.paused_at IS 'since when a PAUSED run waits';
COMMENT ON COLUMN @extschema@.pgqrs_runs.completed_at IS 'when the run ended; NULL before';
COMMENT ON COLUMN @extschema@.pgqrs_runs.deadline_at IS 'when the run ends in ERROR, unless it has ended before';
COMMENT ON COLUMN @extschema@.pgqrs_runs.cancel_requested_at IS 'when it was asked to stop: by a cancel, or by its deadline if it is undone then';
COMMENT ON COLUMN @extschema@.pgqrs_runs.cancel_reason IS 'the reason given with the cancel';
COMMENT ON COLUMN @extschema@.pgqrs_runs.deleted_at IS 'when the run was deleted; NULL unless it was';
COMMENT ON COLUMN @extschema@.pgqrs_runs.delete_reason IS 'the reason given with the deletion';

CREATE VIEW @extschema@.pgqrs_steps WITH (security_barrier) AS
	SELECT s.run_id,
		q.name COLLATE pg_catalog."default" AS workflow,
		s.step_id COLLATE pg_catalog."default" AS step_id,
		s.kind::pg_catalog.text AS kind,
		s.status::pg_catalog.text AS status,
		s.attempt,
		s.failures,
		s.input,
		s.output,
		s.error,
		s.history,
		s.reason,
		s.started_at,
		s.completed_at,
		s.undo IS NOT NULL AS undo
	FROM @extschema@.pgqrs_workflow_steps AS s
		JOIN @extschema@.pgqrs_workflow_runs AS r ON r.run_id = s.run_id
		JOIN @extschema@.pgqrs_queues AS q ON q.queue_id = r.workflow_id
	WHERE q.queue_id = ANY ((SELECT @extschema@.pgqrs_readable_queues())::pg_catalog.int8[]);
COMMENT ON VIEW @extschema@.pgqrs_steps IS 'steps of workflow runs';
COMMENT ON COLUMN @extschema@.pgqrs_steps.run_id IS 'the run of the step';
COMMENT ON COLUMN @extschema@.pgqrs_steps.workflow IS 'the workflow of that run';
COMMENT ON COLUMN @extschema@.pgqrs_steps.step_id IS 'given by the worker, unique within the run';
COMMENT ON COLUMN @extschema@.pgqrs_steps.kind IS 'FUNCTION, SLEEP, SIGNAL, CHILD or PAUSE';
COMMENT ON COLUMN @extschema@.pgqrs_steps.status IS 'PENDING (waits for a retry), RUNNING, PAUSED, SUCCESS or ERROR';
COMMENT ON COLUMN @extschema@.pgqrs_steps.attempt IS 'the number of begins';
COMMENT ON COLUMN @extschema@.pgqrs_steps.failures IS 'the number of failures';
COMMENT ON COLUMN @extschema@.pgqrs_steps.input IS 'the input of the last begin';
COMMENT ON COLUMN @extschema@.pgqrs_steps.output IS 'the output, JSON null if it has none; NULL unless status is SUCCESS';
COMMENT ON COLUMN @extschema@.pgqrs_steps.error IS 'the error of the last failure; NULL once the step was begun again or succeeded';
COMMENT ON COLUMN @extschema@.pgqrs_steps.history IS 'the last ten failures: [{"attempt", "at", "error"}]';
COMMENT ON COLUMN @extschema@.pgqrs_steps.reason IS 'why a PAUSE step waits';
COMMENT ON COLUMN @extschema@.pgqrs_steps.started_at IS 'when the step was begun first';
COMMENT ON COLUMN @extschema@.pgqrs_steps.completed_at IS 'when the step ended in SUCCESS or ERROR';
COMMENT ON COLUMN @extschema@.pgqrs_steps.undo IS 'whether the undo of the run recorded the step';

CREATE VIEW @extschema@.pgqrs_run_parents WITH (security_barrier) AS
	SELECT r.run_id,
		r.parent_run_id,
		r.parent_step_id COLLATE pg_catalog."default" AS parent_step_id,
		r.on_parent_end::pg_catalog.text AS on_parent_end
	FROM @extschema@.pgqrs_workflow_runs AS r
	WHERE r.parent_run_id IS NOT NULL AND @extschema@.pgqrs_queue_name(r.workflow_id) IS NOT NULL
	UNION ALL
	SELECT r.run_id,
		p.parent_run_id,
		p.parent_step_id COLLATE pg_catalog."default",
		p.on_parent_end::pg_catalog.text
	FROM @extschema@.pgqrs_workflow_run_parents AS p
		JOIN @extschema@.pgqrs_workflow_runs AS r ON r.run_id = p.run_id
	WHERE @extschema@.pgqrs_queue_name(r.workflow_id) IS NOT NULL;
COMMENT ON VIEW @extschema@.pgqrs_run_parents IS 'parents of workflow runs; a run that several parents started by its key has several';
COMMENT ON COLUMN @extschema@.pgqrs_run_parents.run_id IS 'the child';
COMMENT ON COLUMN @extschema@.pgqrs_run_parents.parent_run_id IS 'a run that started the child';
COMMENT ON COLUMN @extschema@.pgqrs_run_parents.parent_step_id IS 'the step of that run';
COMMENT ON COLUMN @extschema@.pgqrs_run_parents.on_parent_end IS 'cancel or abandon: what happens to the child when that run ends in ERROR or CANCELLED';

CREATE VIEW @extschema@.pgqrs_events WITH (security_barrier) AS
	SELECT e.event_id,
		e.run_id,
		q.name COLLATE pg_catalog."default" AS workflow,
		e.event,
		e.data,
		e.at
	FROM @extschema@.pgqrs_run_events AS e
		JOIN @extschema@.pgqrs_workflow_runs AS r ON r.run_id = e.run_id
		JOIN @extschema@.pgqrs_queues AS q ON q.queue_id = r.workflow_id
	WHERE q.queue_id = ANY ((SELECT @extschema@.pgqrs_readable_queues())::pg_catalog.int8[]);
COMMENT ON VIEW @extschema@.pgqrs_events IS 'events of workflow runs while pgqrs.audit was on; event_id orders the events of a run';
COMMENT ON COLUMN @extschema@.pgqrs_events.event_id IS 'ascending for the events of a run';
COMMENT ON COLUMN @extschema@.pgqrs_events.run_id IS 'the run of the event';
COMMENT ON COLUMN @extschema@.pgqrs_events.workflow IS 'the workflow of that run';
COMMENT ON COLUMN @extschema@.pgqrs_events.event IS 'created, claimed, released, rescheduled, step_begun, step_done, step_failed, child_started, paused, resumed, resume_dropped, signalled, retried, cancel_requested, cancelled, finished, dead, replayed, rerun or deleted';
COMMENT ON COLUMN @extschema@.pgqrs_events.data IS 'the role that caused the event, and its details: step_id, attempt, failures, worker_id, error, reason and so on';
COMMENT ON COLUMN @extschema@.pgqrs_events.at IS 'when the event happened, by the server''s clock';

-- A limit whose value the planner does not know makes it prefer the index's order
-- to sorting all rows of a queue.
CREATE VIEW @extschema@.pgqrs_dead_letters WITH (security_barrier) AS
	SELECT a.message_id,
		q.name COLLATE pg_catalog."default" AS queue,
		a.run_id,
		CASE WHEN a.run_id IS NOT NULL THEN q.name COLLATE pg_catalog."default" END AS workflow,
		a.enqueued_at,
		a.archived_at,
		a.priority::pg_catalog.int4 AS priority,
		a.attempt,
		a.failures,
		COALESCE((SELECT r.error FROM @extschema@.pgqrs_workflow_runs AS r WHERE r.run_id = a.run_id), a.last_error) AS last_error,
		CASE WHEN a.run_id IS NOT NULL THEN pg_catalog.jsonb_build_object('run_id', a.run_id)
			ELSE a.payload END AS payload,
		a.headers
	FROM @extschema@.pgqrs_queues AS q
		CROSS JOIN LATERAL (
			SELECT a.*
			FROM @extschema@.pgqrs_archive AS a
			WHERE a.queue_id = q.queue_id AND a.outcome = 'DEAD'
			ORDER BY a.archived_at DESC
			LIMIT (SELECT NULL::pg_catalog.int8)
		) AS a
	WHERE q.queue_id = ANY ((SELECT @extschema@.pgqrs_readable_queues())::pg_catalog.int8[]);
COMMENT ON VIEW @extschema@.pgqrs_dead_letters IS 'exhausted and permanently failed messages, and runs that ended in ERROR, in each queue the latest first; pgqrs_replay_message() makes them claimable again';
COMMENT ON COLUMN @extschema@.pgqrs_dead_letters.message_id IS 'of a run: the id of the run';
COMMENT ON COLUMN @extschema@.pgqrs_dead_letters.queue IS 'the queue of the message; of a run: the workflow''s';
COMMENT ON COLUMN @extschema@.pgqrs_dead_letters.run_id IS 'NULL for a plain message';
COMMENT ON COLUMN @extschema@.pgqrs_dead_letters.workflow IS 'NULL for a plain message';
COMMENT ON COLUMN @extschema@.pgqrs_dead_letters.enqueued_at IS 'when the message was sent, or the run triggered';
COMMENT ON COLUMN @extschema@.pgqrs_dead_letters.archived_at IS 'when the message became a dead letter';
COMMENT ON COLUMN @extschema@.pgqrs_dead_letters.priority IS '-100 to 100, high first';
COMMENT ON COLUMN @extschema@.pgqrs_dead_letters.attempt IS 'the number of claims';
COMMENT ON COLUMN @extschema@.pgqrs_dead_letters.failures IS 'of a message: nacks and leases lost; of a run: leases lost since a step last succeeded';
COMMENT ON COLUMN @extschema@.pgqrs_dead_letters.last_error IS 'of a run: the error of the run';
COMMENT ON COLUMN @extschema@.pgqrs_dead_letters.payload IS 'of a run: {"run_id": N}';
COMMENT ON COLUMN @extschema@.pgqrs_dead_letters.headers IS 'of the message or the trigger';

CREATE FUNCTION @extschema@.pgqrs_holder_of(
	message_id bigint, OUT pid integer, OUT role text, OUT application_name text
) RETURNS record
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_holder_of';
COMMENT ON FUNCTION @extschema@.pgqrs_holder_of(bigint) IS
'The session that holds a message under a lease: the last one that called for its worker, or the one that claimed without a worker. NULLs if the session has ended or is not known, if the library is not preloaded, except for members of its role and of pg_read_all_stats, and for a message of a queue on which the current role has no monitor. Errors: 22004.';

CREATE VIEW @extschema@.pgqrs_in_flight WITH (security_barrier) AS
	SELECT m.message_id,
		q.name COLLATE pg_catalog."default" AS queue,
		m.run_id,
		w.name COLLATE pg_catalog."default" AS worker,
		m.dequeued_at,
		m.visible_after,
		m.visible_after <= (SELECT @extschema@.pgqrs_now()) AS expired,
		m.attempt,
		m.failures,
		h.pid,
		h.role,
		h.application_name
	FROM @extschema@.pgqrs_messages AS m
		JOIN @extschema@.pgqrs_queues AS q ON q.queue_id = m.queue_id
		LEFT JOIN @extschema@.pgqrs_workers AS w ON w.worker_id = m.worker_id
		CROSS JOIN LATERAL @extschema@.pgqrs_holder_of(m.message_id) AS h
	WHERE m.lease IS NOT NULL
		AND @extschema@.pgqrs_may_monitor(q.queue_id);
COMMENT ON VIEW @extschema@.pgqrs_in_flight IS 'messages and runs under a lease';
COMMENT ON COLUMN @extschema@.pgqrs_in_flight.message_id IS 'of a run: the id of the run';
COMMENT ON COLUMN @extschema@.pgqrs_in_flight.queue IS 'the queue of the message; of a run: the workflow''s';
COMMENT ON COLUMN @extschema@.pgqrs_in_flight.run_id IS 'NULL for a plain message';
COMMENT ON COLUMN @extschema@.pgqrs_in_flight.worker IS 'the name of the worker that holds the lease; NULL for a claim without a worker';
COMMENT ON COLUMN @extschema@.pgqrs_in_flight.dequeued_at IS 'the time of the claim';
COMMENT ON COLUMN @extschema@.pgqrs_in_flight.visible_after IS 'the end of the lease';
COMMENT ON COLUMN @extschema@.pgqrs_in_flight.expired IS 'the lease has expired; its holder may still finish until the next claim';
COMMENT ON COLUMN @extschema@.pgqrs_in_flight.attempt IS 'the number of claims';
COMMENT ON COLUMN @extschema@.pgqrs_in_flight.failures IS 'of a message: nacks and leases lost; of a run: leases lost since a step last succeeded';
COMMENT ON COLUMN @extschema@.pgqrs_in_flight.pid IS 'the process of the session that called last for the worker, or that claimed without one; NULL if it has ended or is not known, and except for members of its role and of pg_read_all_stats';
COMMENT ON COLUMN @extschema@.pgqrs_in_flight.role IS 'the role of that session';
COMMENT ON COLUMN @extschema@.pgqrs_in_flight.application_name IS 'of that session';

-- Statistics.  Live rows are counted; of ended rows only the newest are read, so
-- that history costs nothing.  C code counts, since a plan would depend on the
-- planner's estimates of the moment.

CREATE FUNCTION @extschema@.pgqrs_count_messages(
	queue_id bigint, OUT ready bigint, OUT delayed bigint, OUT in_flight bigint,
	OUT dead bigint, OUT oldest_ready timestamptz
) RETURNS record
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_count_messages';
COMMENT ON FUNCTION @extschema@.pgqrs_count_messages(bigint) IS
'The columns of pgqrs_queue_stats for one queue; NULLs if it does not exist. Needs monitor on it. Errors: 22004.';

CREATE FUNCTION @extschema@.pgqrs_counters_of(queue_id bigint) RETURNS bigint[]
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_counters_of';
COMMENT ON FUNCTION @extschema@.pgqrs_counters_of(bigint) IS
'The counters of a queue for pgqrs_queue_stats and pgqrs_histograms; NULL if it does not exist, or if the library is not preloaded. Needs monitor on it. Errors: 22004.';

CREATE FUNCTION @extschema@.pgqrs_count_runs(
	workflow_id bigint, OUT queued bigint, OUT running bigint, OUT paused bigint,
	OUT success bigint, OUT error bigint, OUT cancelled bigint,
	OUT avg_duration interval, OUT p50_duration interval, OUT p95_duration interval,
	OUT retries bigint, OUT since timestamptz, OUT live_workers integer
) RETURNS record
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_count_runs';
COMMENT ON FUNCTION @extschema@.pgqrs_count_runs(bigint) IS
'The columns of pgqrs_workflow_stats for one workflow; NULLs if it does not exist. Needs monitor on it. Errors: 22004.';

CREATE FUNCTION @extschema@.pgqrs_live_workers(queue_id bigint) RETURNS integer
LANGUAGE c STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_live_workers';
COMMENT ON FUNCTION @extschema@.pgqrs_live_workers(bigint) IS
'live_workers of pgqrs_queue_stats for one queue; NULL if it does not exist. Needs monitor on it. Errors: 22004.';

CREATE VIEW @extschema@.pgqrs_queue_stats WITH (security_barrier) AS
	SELECT q.queue_id,
		q.name COLLATE pg_catalog."default" AS queue,
		q.is_workflow,
		q.paused_at IS NOT NULL AS paused,
		c.ready,
		c.delayed,
		c.in_flight,
		c.dead,
		@extschema@.pgqrs_elapsed(c.oldest_ready, (SELECT @extschema@.pgqrs_now())) AS oldest_ready_age,
		n.counters[1] AS sent,
		n.counters[2] AS claimed,
		n.counters[3] AS done,
		n.counters[4] AS failed,
		n.counters[5] AS died,
		n.counters[6] AS cancelled,
		n.counters[7] / 1e6::pg_catalog.float8 AS wait_seconds,
		n.counters[8] / 1e6::pg_catalog.float8 AS work_seconds,
		@extschema@.pgqrs_live_workers(q.queue_id) AS live_workers
	FROM @extschema@.pgqrs_queues AS q
		CROSS JOIN LATERAL @extschema@.pgqrs_count_messages(q.queue_id) AS c
		CROSS JOIN LATERAL @extschema@.pgqrs_counters_of(q.queue_id) AS n (counters)
	WHERE @extschema@.pgqrs_may_monitor(q.queue_id);
COMMENT ON VIEW @extschema@.pgqrs_queue_stats IS 'counts of queues and of the queues of workflows; the cost depends on live messages, not on ended ones';
COMMENT ON COLUMN @extschema@.pgqrs_queue_stats.queue_id IS 'of a workflow''s queue: the workflow''s id, too';
COMMENT ON COLUMN @extschema@.pgqrs_queue_stats.queue IS 'the name';
COMMENT ON COLUMN @extschema@.pgqrs_queue_stats.is_workflow IS 'whether this is the queue of the workflow of that name';
COMMENT ON COLUMN @extschema@.pgqrs_queue_stats.paused IS 'whether the queue accepts messages and delivers none';
COMMENT ON COLUMN @extschema@.pgqrs_queue_stats.ready IS 'due messages, and those with an expired lease; includes messages of uncommitted claims';
COMMENT ON COLUMN @extschema@.pgqrs_queue_stats.delayed IS 'messages that are not due: delayed, before a retry, and those of waiting runs';
COMMENT ON COLUMN @extschema@.pgqrs_queue_stats.in_flight IS 'messages under a live lease';
COMMENT ON COLUMN @extschema@.pgqrs_queue_stats.dead IS 'dead letters, counted up to 1000, which means 1000 or more';
COMMENT ON COLUMN @extschema@.pgqrs_queue_stats.oldest_ready_age IS 'how long the oldest ready message has been due; NULL without one';
COMMENT ON COLUMN @extschema@.pgqrs_queue_stats.sent IS 'messages sent, runs triggered, and dead letters replayed, since the queue was created; like the columns after it, this only grows, counts committed transactions, loses at most pgqrs.heartbeat_flush in a crash, and is NULL if the library is not preloaded';
COMMENT ON COLUMN @extschema@.pgqrs_queue_stats.claimed IS 'claims';
COMMENT ON COLUMN @extschema@.pgqrs_queue_stats.done IS 'messages archived and runs completed';
COMMENT ON COLUMN @extschema@.pgqrs_queue_stats.failed IS 'claims that ended by a failure: nacked, failed, or their lease ran out or was revoked from a silent worker';
COMMENT ON COLUMN @extschema@.pgqrs_queue_stats.died IS 'messages that became dead letters, and runs that ended in ERROR';
COMMENT ON COLUMN @extschema@.pgqrs_queue_stats.cancelled IS 'messages and runs that were cancelled, deleted or purged';
COMMENT ON COLUMN @extschema@.pgqrs_queue_stats.wait_seconds IS 'sum over all claims: the time from when the message was due until it was claimed';
COMMENT ON COLUMN @extschema@.pgqrs_queue_stats.work_seconds IS 'sum over all ended claims: the time from the claim until the lease ended, by a call or by running out';
COMMENT ON COLUMN @extschema@.pgqrs_queue_stats.live_workers IS 'live workers that may claim from the queue, and sessions that claimed from it, or waited for it, within pgqrs.worker_timeout without a worker; those sessions are not known if the library is not preloaded';

CREATE VIEW @extschema@.pgqrs_histograms WITH (security_barrier) AS
	SELECT q.name COLLATE pg_catalog."default" AS queue,
		m.measure,
		b.le,
		(pg_catalog.sum(n.counters[m.first + b.bucket]) OVER (PARTITION BY q.queue_id, m.measure ORDER BY b.bucket))::bigint AS count
	FROM @extschema@.pgqrs_queues AS q
		CROSS JOIN LATERAL @extschema@.pgqrs_counters_of(q.queue_id) AS n (counters)
		CROSS JOIN (VALUES ('wait', 8), ('work', 20)) AS m (measure, first)
		CROSS JOIN (VALUES (1, 0.001::pg_catalog.float8), (2, 0.005), (3, 0.01), (4, 0.05), (5, 0.1), (6, 0.5), (7, 1), (8, 5), (9, 30), (10, 300), (11, 3600), (12, 'Infinity')) AS b (bucket, le)
	WHERE @extschema@.pgqrs_may_monitor(q.queue_id);
COMMENT ON VIEW @extschema@.pgqrs_histograms IS 'how long messages and runs waited, and how long they were worked on: claims by duration, cumulative';
COMMENT ON COLUMN @extschema@.pgqrs_histograms.queue IS 'the name; of a workflow''s queue: the workflow';
COMMENT ON COLUMN @extschema@.pgqrs_histograms.measure IS 'wait: from due to claimed; work: from claimed to the end of the lease, so of ended claims';
COMMENT ON COLUMN @extschema@.pgqrs_histograms.le IS 'the upper bound in seconds; the last one is Infinity';
COMMENT ON COLUMN @extschema@.pgqrs_histograms.count IS 'claims that took at most so long; only grows, as the counters of pgqrs_queue_stats; NULL if the library is not preloaded';

CREATE VIEW @extschema@.pgqrs_workflow_stats WITH (security_barrier) AS
	SELECT q.queue_id AS workflow_id,
		q.name COLLATE pg_catalog."default" AS workflow,
		c.queued,
		c.running,
		c.paused,
		c.success,
		c.error,
		c.cancelled,
		pg_catalog.round(c.success::pg_catalog.numeric / NULLIF(c.success + c.error, 0), 4) AS success_rate,
		c.avg_duration,
		c.p50_duration,
		c.p95_duration,
		c.retries,
		c.since,
		c.live_workers,
		c.queued + c.running + c.paused = 0 AS drained
	FROM @extschema@.pgqrs_queues AS q
		CROSS JOIN LATERAL @extschema@.pgqrs_count_runs(q.queue_id) AS c
	WHERE q.is_workflow
		AND @extschema@.pgqrs_may_monitor(q.queue_id);
COMMENT ON VIEW @extschema@.pgqrs_workflow_stats IS 'live runs of workflows, and the results of the newest 100 ended runs; the cost depends on live runs, not on ended ones';
COMMENT ON COLUMN @extschema@.pgqrs_workflow_stats.workflow_id IS 'also the id of the workflow''s queue';
COMMENT ON COLUMN @extschema@.pgqrs_workflow_stats.workflow IS 'the name';
COMMENT ON COLUMN @extschema@.pgqrs_workflow_stats.queued IS 'runs that were not claimed yet';
COMMENT ON COLUMN @extschema@.pgqrs_workflow_stats.running IS 'runs in status RUNNING';
COMMENT ON COLUMN @extschema@.pgqrs_workflow_stats.paused IS 'runs in status PAUSED, which wait';
COMMENT ON COLUMN @extschema@.pgqrs_workflow_stats.success IS 'of the newest 100 ended runs: those in SUCCESS';
COMMENT ON COLUMN @extschema@.pgqrs_workflow_stats.error IS 'of the newest 100 ended runs: those in ERROR';
COMMENT ON COLUMN @extschema@.pgqrs_workflow_stats.cancelled IS 'of the newest 100 ended runs: those that are CANCELLED';
COMMENT ON COLUMN @extschema@.pgqrs_workflow_stats.success_rate IS 'success / (success + error); NULL without such runs';
COMMENT ON COLUMN @extschema@.pgqrs_workflow_stats.avg_duration IS 'of the newest 100 ended runs, from the first claim to the end; without runs that were never claimed';
COMMENT ON COLUMN @extschema@.pgqrs_workflow_stats.p50_duration IS 'the median of those durations';
COMMENT ON COLUMN @extschema@.pgqrs_workflow_stats.p95_duration IS 'the 95th percentile of those durations';
COMMENT ON COLUMN @extschema@.pgqrs_workflow_stats.retries IS 'of the newest 100 ended runs: failures of steps and runs that workers reported, without the last one of a run in ERROR';
COMMENT ON COLUMN @extschema@.pgqrs_workflow_stats.since IS 'when the oldest of the newest 100 ended runs ended; NULL without one';
COMMENT ON COLUMN @extschema@.pgqrs_workflow_stats.live_workers IS 'live workers that may claim runs of the workflow, and sessions that do so without a worker';
COMMENT ON COLUMN @extschema@.pgqrs_workflow_stats.drained IS 'no run is live: the workflow can be removed once no caller triggers it';

CREATE FUNCTION @extschema@.pgqrs_role_of(id bigint, name name) RETURNS oid
LANGUAGE c STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_role_of';
COMMENT ON FUNCTION @extschema@.pgqrs_role_of(bigint, name) IS
'OID of the role of a row of pgqrs_grants, pgqrs_workers or pgqrs_schedules, by the row''s role id and name, also after a renaming of the role; NULL if the role does not exist. Errors: none.';

CREATE FUNCTION @extschema@.pgqrs_readable_workers() RETURNS bigint[]
LANGUAGE c STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_readable_workers';
COMMENT ON FUNCTION @extschema@.pgqrs_readable_workers() IS
'The ids of the workers that serve a queue or workflow which the current role may read. Needs read.';

-- Of a worker of another role only what tells whether its queues are served.
CREATE VIEW @extschema@.pgqrs_worker_stats WITH (security_barrier) AS
	SELECT w.worker_id,
		w.name COLLATE pg_catalog."default" AS worker,
		CASE WHEN v.is_own THEN w.owner::pg_catalog.text END AS owner,
		w.status::pg_catalog.text AS status,
		CASE WHEN v.is_own THEN w.queues COLLATE pg_catalog."default" END AS queues,
		(SELECT pg_catalog.count(*) FROM @extschema@.pgqrs_messages AS m
			WHERE m.worker_id = w.worker_id AND m.visible_after > (SELECT @extschema@.pgqrs_now())
				AND (v.is_own OR @extschema@.pgqrs_queue_name(m.queue_id) IS NOT NULL)) AS in_flight,
		CASE WHEN v.is_own THEN (SELECT pg_catalog.count(*) FROM @extschema@.pgqrs_messages AS m
			WHERE m.worker_id = w.worker_id AND m.visible_after <= (SELECT @extschema@.pgqrs_now())) END AS expired,
		CASE WHEN v.is_own THEN w.max_concurrent END AS max_concurrent,
		CASE WHEN v.is_own THEN w.hostname END AS hostname,
		CASE WHEN v.is_own THEN w.port END AS port,
		w.version,
		CASE WHEN v.is_own THEN w.labels END AS labels,
		CASE WHEN v.is_own THEN w.created_at END AS created_at,
		w.heartbeat_at,
		CASE WHEN v.is_own THEN w.stopped_at END AS stopped_at
	FROM @extschema@.pgqrs_workers AS w
		CROSS JOIN LATERAL (
			SELECT (SELECT pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE'))
				OR (SELECT pg_catalog.pg_has_role(e.extowner, 'USAGE') FROM pg_catalog.pg_extension AS e WHERE e.extname = 'pgqrs')
				OR COALESCE(pg_catalog.pg_has_role(@extschema@.pgqrs_role_of(w.owner_id, w.owner), 'USAGE'), false) AS is_own
			OFFSET 0
		) AS v
	WHERE (w.stopped_at IS NULL OR w.stopped_at > (SELECT @extschema@.pgqrs_now()) - interval '1 hour')
		AND (v.is_own OR w.worker_id = ANY ((SELECT @extschema@.pgqrs_readable_workers())::pg_catalog.int8[]));
COMMENT ON VIEW @extschema@.pgqrs_worker_stats IS 'workers of the roles that the current role is a member of, and of those that serve a queue which it may read the name, version, status, leases and heartbeat; all of all workers for the extension''s owner and members of pg_read_all_stats; without workers that stopped more than an hour ago';
COMMENT ON COLUMN @extschema@.pgqrs_worker_stats.worker_id IS 'as pgqrs_register_worker() returned it';
COMMENT ON COLUMN @extschema@.pgqrs_worker_stats.worker IS 'the name';
COMMENT ON COLUMN @extschema@.pgqrs_worker_stats.owner IS 'the role that registered the worker; none if it was dropped';
COMMENT ON COLUMN @extschema@.pgqrs_worker_stats.status IS 'READY, SUSPENDED or STOPPED';
COMMENT ON COLUMN @extschema@.pgqrs_worker_stats.queues IS 'the patterns to which the worker subscribes';
COMMENT ON COLUMN @extschema@.pgqrs_worker_stats.in_flight IS 'messages that the worker holds under live leases';
COMMENT ON COLUMN @extschema@.pgqrs_worker_stats.expired IS 'messages that the worker holds under expired leases';
COMMENT ON COLUMN @extschema@.pgqrs_worker_stats.max_concurrent IS 'the limit of messages that the worker may hold; NULL: no limit';
COMMENT ON COLUMN @extschema@.pgqrs_worker_stats.hostname IS 'given at the registration';
COMMENT ON COLUMN @extschema@.pgqrs_worker_stats.port IS 'given at the registration';
COMMENT ON COLUMN @extschema@.pgqrs_worker_stats.version IS 'given at the registration';
COMMENT ON COLUMN @extschema@.pgqrs_worker_stats.labels IS 'given at the registration';
COMMENT ON COLUMN @extschema@.pgqrs_worker_stats.created_at IS 'when the worker registered';
COMMENT ON COLUMN @extschema@.pgqrs_worker_stats.heartbeat_at IS 'the last call of the worker, written at most once per pgqrs.heartbeat_flush';
COMMENT ON COLUMN @extschema@.pgqrs_worker_stats.stopped_at IS 'when the worker was stopped';

CREATE FUNCTION @extschema@.pgqrs_schedule_may_fire(schedule_id bigint) RETURNS boolean
LANGUAGE c STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_schedule_may_fire';
COMMENT ON FUNCTION @extschema@.pgqrs_schedule_may_fire(bigint) IS
'Whether the owner of a schedule exists and has trigger on its workflow; NULL if the schedule does not exist or the current role has no privilege on its workflow. Needs monitor. Errors: 22004.';

CREATE VIEW @extschema@.pgqrs_schedule_list WITH (security_barrier) AS
	SELECT s.schedule_id,
		s.name COLLATE pg_catalog."default" AS name,
		s.cron,
		s.timezone,
		s.workflow COLLATE pg_catalog."default" AS workflow,
		s.enabled,
		s.next_fire_at,
		s.last_fired_at,
		s.last_run_id,
		r.status::pg_catalog.text AS last_status,
		s.overlap::pg_catalog.text AS overlap,
		s.max_catchup,
		s.priority::pg_catalog.int4 AS priority,
		s.timeout,
		s.input,
		s.tags,
		s.owner::pg_catalog.text AS owner,
		@extschema@.pgqrs_schedule_may_fire(s.schedule_id) AS may_fire
	FROM @extschema@.pgqrs_schedules AS s
		LEFT JOIN @extschema@.pgqrs_queues AS q ON q.name = s.workflow
		LEFT JOIN @extschema@.pgqrs_workflow_runs AS r ON r.run_id = s.last_run_id AND r.workflow_id = q.queue_id
	WHERE q.queue_id = ANY ((SELECT @extschema@.pgqrs_readable_queues())::pg_catalog.int8[]);
COMMENT ON VIEW @extschema@.pgqrs_schedule_list IS 'schedules of existing workflows';
COMMENT ON COLUMN @extschema@.pgqrs_schedule_list.schedule_id IS 'as pgqrs_schedule() returned it';
COMMENT ON COLUMN @extschema@.pgqrs_schedule_list.name IS 'unique in the database';
COMMENT ON COLUMN @extschema@.pgqrs_schedule_list.cron IS 'the cron expression; see pgqrs_next_firings()';
COMMENT ON COLUMN @extschema@.pgqrs_schedule_list.timezone IS 'the time zone of cron';
COMMENT ON COLUMN @extschema@.pgqrs_schedule_list.workflow IS 'the workflow of the triggered runs';
COMMENT ON COLUMN @extschema@.pgqrs_schedule_list.enabled IS 'whether the schedule fires';
COMMENT ON COLUMN @extschema@.pgqrs_schedule_list.next_fire_at IS 'the next slot, or the first missed one that will be served; NULL if the schedule is disabled or its time zone is no longer known';
COMMENT ON COLUMN @extschema@.pgqrs_schedule_list.last_fired_at IS 'when the schedule last triggered a run';
COMMENT ON COLUMN @extschema@.pgqrs_schedule_list.last_run_id IS 'the run that the schedule triggered last';
COMMENT ON COLUMN @extschema@.pgqrs_schedule_list.last_status IS 'the status of that run; NULL if the run was removed';
COMMENT ON COLUMN @extschema@.pgqrs_schedule_list.overlap IS 'what happens at a slot while the previous run has not ended: allow, skip or cancel';
COMMENT ON COLUMN @extschema@.pgqrs_schedule_list.max_catchup IS 'how many missed slots are served at most';
COMMENT ON COLUMN @extschema@.pgqrs_schedule_list.priority IS 'of its runs, -100 to 100, high first';
COMMENT ON COLUMN @extschema@.pgqrs_schedule_list.timeout IS 'of its runs; NULL: the workflow''s';
COMMENT ON COLUMN @extschema@.pgqrs_schedule_list.input IS 'of its runs';
COMMENT ON COLUMN @extschema@.pgqrs_schedule_list.tags IS 'of its runs';
COMMENT ON COLUMN @extschema@.pgqrs_schedule_list.may_fire IS 'false: the owner was dropped or no longer has trigger on the workflow, so that slots pass without a run; a role with the privilege has to call pgqrs_schedule() again';
COMMENT ON COLUMN @extschema@.pgqrs_schedule_list.owner IS 'the role that wrote the schedule last, with whose privileges it fires; none if the role was dropped';
-- Views of what is not done: live runs, signals that no step has consumed, all signals, and the
-- settings of queues and workflows.

-- The oldest live runs come first, found by the primary key of messages.  As in
-- pgqrs_runs, nothing is joined, and the id is that of the message, so that a
-- condition on it uses the key, too: the planner does not know of a LIMIT outside of the
-- security barrier, and a join would read all live runs first.  A subquery with a
-- limit is not pulled up into a join.
CREATE VIEW @extschema@.pgqrs_live_runs WITH (security_barrier) AS
	SELECT m.message_id AS run_id,
		@extschema@.pgqrs_queue_name(m.queue_id) COLLATE pg_catalog."default" AS workflow,
		r.status::pg_catalog.text AS status,
		CASE
			WHEN m.lease IS NOT NULL AND m.visible_after <= (SELECT @extschema@.pgqrs_now()) THEN 'expired'
			WHEN m.waiting_for = 'cancel' THEN 'cancel requested'
			WHEN m.lease IS NOT NULL THEN 'held'
			WHEN m.visible_after <= (SELECT @extschema@.pgqrs_now()) THEN 'ready'
			WHEN r.status = 'PAUSED' THEN 'parked'
			WHEN r.status = 'QUEUED' THEN 'delayed'
			ELSE 'retry'
		END AS state,
		r.waiting_for COLLATE pg_catalog."default" AS waiting_for,
		s.step_id COLLATE pg_catalog."default" AS step_id,
		s.kind::pg_catalog.text AS step_kind,
		CASE
			WHEN m.lease IS NOT NULL AND m.visible_after <= (SELECT @extschema@.pgqrs_now()) THEN m.visible_after
			WHEN m.waiting_for = 'cancel' THEN r.cancel_requested_at
			WHEN m.lease IS NOT NULL THEN m.dequeued_at
			WHEN m.visible_after <= (SELECT @extschema@.pgqrs_now()) THEN m.visible_after
			WHEN r.status = 'PAUSED' THEN r.paused_at
			WHEN r.status = 'QUEUED' THEN r.created_at
			ELSE m.dequeued_at
		END AS since,
		m.visible_after,
		(SELECT w.name FROM @extschema@.pgqrs_workers AS w WHERE w.worker_id = m.worker_id) COLLATE pg_catalog."default" AS worker,
		CASE WHEN m.lease IS NOT NULL THEN m.visible_after END AS lease_end,
		m.failures AS crashes,
		r.failures,
		r.attempt,
		r.created_at,
		r.deadline_at,
		r.parent_run_id,
		r.tags,
		r.undo_cause::pg_catalog.text AS undo_cause
	FROM @extschema@.pgqrs_messages AS m
		CROSS JOIN LATERAL (
			SELECT r.* FROM @extschema@.pgqrs_workflow_runs AS r WHERE r.run_id = m.run_id LIMIT 1
		) AS r
		LEFT JOIN LATERAL (
			SELECT s.step_id, s.kind FROM @extschema@.pgqrs_workflow_steps AS s
			WHERE s.run_id = m.run_id AND s.status IN ('PENDING', 'RUNNING', 'PAUSED')
			ORDER BY s.started_at DESC, s.step_id DESC LIMIT 1
		) AS s ON true
	WHERE m.run_id IS NOT NULL AND @extschema@.pgqrs_queue_name(m.queue_id) IS NOT NULL
	ORDER BY m.message_id;
COMMENT ON VIEW @extschema@.pgqrs_live_runs IS 'runs that have not ended, the oldest first, and what each is doing; the cost depends on live messages, not on ended ones';
COMMENT ON COLUMN @extschema@.pgqrs_live_runs.run_id IS 'also the id of the run''s message';
COMMENT ON COLUMN @extschema@.pgqrs_live_runs.workflow IS 'the workflow of the run';
COMMENT ON COLUMN @extschema@.pgqrs_live_runs.status IS 'QUEUED, RUNNING or PAUSED';
COMMENT ON COLUMN @extschema@.pgqrs_live_runs.state IS 'ready: claimable; delayed: its first claim is not due; held: under a lease; cancel requested: held, and its worker is asked to stop; expired: its lease ran out, and it is claimable; retry: its next try is not due; parked: it waits, see waiting_for';
COMMENT ON COLUMN @extschema@.pgqrs_live_runs.waiting_for IS 'what the run waits for while it is PAUSED';
COMMENT ON COLUMN @extschema@.pgqrs_live_runs.step_id IS 'the step that was begun last and has not ended; NULL without one';
COMMENT ON COLUMN @extschema@.pgqrs_live_runs.step_kind IS 'the kind of that step';
COMMENT ON COLUMN @extschema@.pgqrs_live_runs.since IS 'ready, expired: when the run became claimable; delayed: the trigger; held, retry: the last claim; cancel requested: the request; parked: the begin of the wait';
COMMENT ON COLUMN @extschema@.pgqrs_live_runs.visible_after IS 'when work continues: the end of the lease while a worker holds it';
COMMENT ON COLUMN @extschema@.pgqrs_live_runs.worker IS 'the name of the worker that holds the run; NULL for a claim without a worker';
COMMENT ON COLUMN @extschema@.pgqrs_live_runs.lease_end IS 'the end of the lease; NULL if the run is not held';
COMMENT ON COLUMN @extschema@.pgqrs_live_runs.crashes IS 'leases that expired since the last success of a step or the last wait; limited by max_crashes';
COMMENT ON COLUMN @extschema@.pgqrs_live_runs.failures IS 'failures that pgqrs_fail_run() reported';
COMMENT ON COLUMN @extschema@.pgqrs_live_runs.attempt IS 'the number of claims';
COMMENT ON COLUMN @extschema@.pgqrs_live_runs.created_at IS 'when the run was triggered';
COMMENT ON COLUMN @extschema@.pgqrs_live_runs.deadline_at IS 'when the run ends in ERROR, unless it has ended before';
COMMENT ON COLUMN @extschema@.pgqrs_live_runs.parent_run_id IS 'the run that started this run as a child';
COMMENT ON COLUMN @extschema@.pgqrs_live_runs.tags IS 'of the trigger';
COMMENT ON COLUMN @extschema@.pgqrs_live_runs.undo_cause IS 'cancel or timeout: the run is delivered to be undone, or will be once its lease has ended; NULL: it was not asked to stop, or ends without an undo';

-- A resume that came before its pause is a step of kind PAUSE that was never begun.
CREATE VIEW @extschema@.pgqrs_signals WITH (security_barrier) AS
	SELECT g.signal_id,
		m.message_id AS run_id,
		@extschema@.pgqrs_queue_name(m.queue_id) COLLATE pg_catalog."default" AS workflow,
		g.name COLLATE pg_catalog."default" AS name,
		g.payload,
		g.headers,
		g.sent_at,
		(SELECT r.waiting_for FROM @extschema@.pgqrs_workflow_runs AS r WHERE r.run_id = m.run_id) COLLATE pg_catalog."default" AS waiting_for
	FROM @extschema@.pgqrs_messages AS m
		CROSS JOIN LATERAL (
			SELECT g.signal_id, g.name, g.payload, g.headers, g.sent_at
			FROM @extschema@.pgqrs_run_signals AS g
			WHERE g.run_id = m.run_id AND g.consumed_by IS NULL
			UNION ALL
			SELECT NULL, s.step_id, s.output, NULL, s.started_at
			FROM @extschema@.pgqrs_workflow_steps AS s
			WHERE s.run_id = m.run_id AND s.kind = 'PAUSE' AND s.attempt = 0
		) AS g
	WHERE m.run_id IS NOT NULL AND @extschema@.pgqrs_queue_name(m.queue_id) IS NOT NULL;
COMMENT ON VIEW @extschema@.pgqrs_signals IS 'signals of live runs that no step has consumed, and what pgqrs_resume_run() keeps for a pause that has not come';
COMMENT ON COLUMN @extschema@.pgqrs_signals.signal_id IS 'as pgqrs_signal() returned it; NULL: kept by pgqrs_resume_run()';
COMMENT ON COLUMN @extschema@.pgqrs_signals.run_id IS 'the run to which the signal was sent';
COMMENT ON COLUMN @extschema@.pgqrs_signals.workflow IS 'the workflow of that run';
COMMENT ON COLUMN @extschema@.pgqrs_signals.name IS 'the name of the signal; of a resume: the step id';
COMMENT ON COLUMN @extschema@.pgqrs_signals.payload IS 'of the signal; of a resume: the output of the pause';
COMMENT ON COLUMN @extschema@.pgqrs_signals.headers IS 'of the signal';
COMMENT ON COLUMN @extschema@.pgqrs_signals.sent_at IS 'the time of the call';
COMMENT ON COLUMN @extschema@.pgqrs_signals.waiting_for IS 'what the run waits for while it is PAUSED';

CREATE VIEW @extschema@.pgqrs_sent_signals WITH (security_barrier) AS
	SELECT g.signal_id,
		g.run_id,
		q.name COLLATE pg_catalog."default" AS workflow,
		g.name COLLATE pg_catalog."default" AS name,
		g.payload,
		g.headers,
		g.sent_at,
		g.consumed_by COLLATE pg_catalog."default" AS consumed_by
	FROM @extschema@.pgqrs_run_signals AS g
		JOIN @extschema@.pgqrs_workflow_runs AS r ON r.run_id = g.run_id
		JOIN @extschema@.pgqrs_queues AS q ON q.queue_id = r.workflow_id
	WHERE q.queue_id = ANY ((SELECT @extschema@.pgqrs_readable_queues())::pg_catalog.int8[]);
COMMENT ON VIEW @extschema@.pgqrs_sent_signals IS 'signals of runs, consumed ones and those of ended runs included';
COMMENT ON COLUMN @extschema@.pgqrs_sent_signals.signal_id IS 'as pgqrs_signal() returned it';
COMMENT ON COLUMN @extschema@.pgqrs_sent_signals.run_id IS 'the run to which the signal was sent';
COMMENT ON COLUMN @extschema@.pgqrs_sent_signals.workflow IS 'the workflow of that run';
COMMENT ON COLUMN @extschema@.pgqrs_sent_signals.name IS 'the name of the signal';
COMMENT ON COLUMN @extschema@.pgqrs_sent_signals.payload IS 'of the signal';
COMMENT ON COLUMN @extschema@.pgqrs_sent_signals.headers IS 'of the signal';
COMMENT ON COLUMN @extschema@.pgqrs_sent_signals.sent_at IS 'the time of the call';
COMMENT ON COLUMN @extschema@.pgqrs_sent_signals.consumed_by IS 'the step that consumed the signal; NULL: none has';

CREATE VIEW @extschema@.pgqrs_queues_list WITH (security_barrier) AS
	SELECT q.queue_id,
		q.name COLLATE pg_catalog."default" AS queue,
		q.is_workflow,
		q.visibility_timeout,
		q.max_attempts,
		q.max_in_flight,
		q.retention,
		q.dead_retention,
		q.paused_at,
		q.created_at
	FROM @extschema@.pgqrs_queues AS q
	WHERE q.deleted_at IS NULL AND q.queue_id = ANY ((SELECT @extschema@.pgqrs_readable_queues())::pg_catalog.int8[]);
COMMENT ON VIEW @extschema@.pgqrs_queues_list IS 'queues, those of workflows included, and their settings; pgqrs_alter_queue() changes them';
COMMENT ON COLUMN @extschema@.pgqrs_queues_list.queue_id IS 'of a workflow''s queue: the workflow''s id, too';
COMMENT ON COLUMN @extschema@.pgqrs_queues_list.queue IS 'the name';
COMMENT ON COLUMN @extschema@.pgqrs_queues_list.is_workflow IS 'whether this is the queue of the workflow of that name';
COMMENT ON COLUMN @extschema@.pgqrs_queues_list.visibility_timeout IS 'the length of a lease';
COMMENT ON COLUMN @extschema@.pgqrs_queues_list.max_attempts IS 'failures after which a message becomes a dead letter; of a workflow''s queue: the workflow''s max_crashes';
COMMENT ON COLUMN @extschema@.pgqrs_queues_list.max_in_flight IS 'the limit of live leases; NULL: no limit';
COMMENT ON COLUMN @extschema@.pgqrs_queues_list.retention IS 'how long ended messages are kept';
COMMENT ON COLUMN @extschema@.pgqrs_queues_list.dead_retention IS 'how long dead letters are kept';
COMMENT ON COLUMN @extschema@.pgqrs_queues_list.paused_at IS 'since when the queue delivers nothing; NULL unless it is paused';
COMMENT ON COLUMN @extschema@.pgqrs_queues_list.created_at IS 'when the queue was created';

CREATE VIEW @extschema@.pgqrs_workflows_list WITH (security_barrier) AS
	SELECT w.workflow_id,
		w.name COLLATE pg_catalog."default" AS workflow,
		w.owner::pg_catalog.text AS owner,
		w.max_attempts,
		w.initial_interval,
		w.backoff_coefficient,
		w.max_interval,
		w.jitter,
		w.non_retryable,
		w.timeout,
		q.visibility_timeout,
		q.max_attempts AS max_crashes,
		w.key_scope::pg_catalog.text AS key_scope,
		w.outbox_queue COLLATE pg_catalog."default" AS outbox_queue,
		q.on_cancel::pg_catalog.text AS on_cancel,
		q.max_in_flight,
		q.retention,
		q.dead_retention,
		q.paused_at,
		w.created_at
	FROM @extschema@.pgqrs_workflows AS w
		JOIN @extschema@.pgqrs_queues AS q ON q.queue_id = w.workflow_id
	WHERE q.deleted_at IS NULL AND q.queue_id = ANY ((SELECT @extschema@.pgqrs_readable_queues())::pg_catalog.int8[]);
COMMENT ON VIEW @extschema@.pgqrs_workflows_list IS 'workflows and their settings; pgqrs_alter_workflow() and, for those of the queue, pgqrs_alter_queue() change them';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.workflow_id IS 'also the id of the workflow''s queue';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.workflow IS 'the name';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.owner IS 'the role that created the workflow';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.max_attempts IS 'failures after which a step or run fails for good; -1: no limit';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.initial_interval IS 'the delay of the first retry';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.backoff_coefficient IS 'the factor from each delay to the next';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.max_interval IS 'the limit of delays';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.jitter IS 'a delay is multiplied by a random factor of 1 - jitter to 1 + jitter';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.non_retryable IS 'errors whose type begins so are not retried';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.timeout IS 'from the earliest start of a run to its deadline; NULL: none';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.visibility_timeout IS 'the length of a lease';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.max_crashes IS 'leases that expire without progress after which a run ends';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.key_scope IS 'an idempotency key holds while its run is kept (retained) or while it has not ended (active)';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.outbox_queue IS 'the queue to which each run that ends sends a CloudEvent; NULL: none';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.on_cancel IS 'end: a request to stop ends a run; deliver: it delivers a run that was claimed before once more, to be undone';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.max_in_flight IS 'the limit of live leases; NULL: no limit';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.retention IS 'how long runs that succeeded or were cancelled are kept';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.dead_retention IS 'how long runs in ERROR are kept';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.paused_at IS 'since when the workflow''s queue delivers nothing; NULL unless it is paused';
COMMENT ON COLUMN @extschema@.pgqrs_workflows_list.created_at IS 'when the workflow was created';
-- The health of pgqrs, for roles with any privilege; what concerns queues, of
-- those that the role may monitor.  ok is
-- NULL if it is not known; if it is false, the hint says what to do.

CREATE FUNCTION @extschema@.pgqrs_floor_stats(
	OUT preloaded boolean, OUT floors integer, OUT max_floors integer,
	OUT raised bigint, OUT lowered bigint, OUT looked bigint, OUT claimed bigint,
	OUT displaced_at timestamptz
) RETURNS record
LANGUAGE c VOLATILE PARALLEL SAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_floor_stats';
COMMENT ON FUNCTION @extschema@.pgqrs_floor_stats() IS
'Statistics of the floors at which claims start. preloaded: whether the library is; if not, all else is NULL. floors of max_floors are in use, by all databases. displaced_at: the last time that a floor which was used within a minute made room for the floor of another queue, NULL if never. Of this database, since the server started: raised and lowered, how often claims raised a floor and pgqrs_maintain() lowered one; looked and claimed, how many index entries claims read for how many messages. Needs monitor.';

CREATE FUNCTION @extschema@.pgqrs_background_stats(
	OUT idle_reason text, OUT pid integer, OUT failures integer, OUT retry_at timestamptz,
	OUT due timestamptz, OUT last_pass timestamptz, OUT passes bigint, OUT done text,
	OUT failing text, OUT went_back_by interval, OUT went_back_at timestamptz, OUT realigning boolean,
	OUT unconfirmed interval, OUT confirmed_at timestamptz
) RETURNS record
LANGUAGE c VOLATILE PARALLEL SAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_background_stats';
COMMENT ON FUNCTION @extschema@.pgqrs_background_stats() IS
'The state of background work in this database. idle_reason: why no background work runs, or NULL (not preloaded, standby, subscriber, not in pgqrs.databases, too many databases, paused, version, no launcher). pid: that of the background worker, which runs only while a duty is due; 0 for a role that is not a member of pg_read_all_stats. failures: consecutive ones of background workers, and when the next one is started. due: when a background worker is needed next, NULL if no duty is known to be due. Since the server started: last_pass, passes and their counts. failing: the duties whose last batch failed, each with its error and its retry, the error''s message only for the extension''s owner and members of pg_read_all_stats; NULL if none failed. went_back_by, went_back_at: the last step back of the clock that this server has seen, and the clock after it. realigning: whether the background worker still has to search for rows that were written while the clock was ahead. unconfirmed: time that this server has not seen pass, because it was down or the clock was set forward; retention does not count it before confirmed_at, NULL without such time. Needs monitor.';

CREATE FUNCTION @extschema@.pgqrs_old_sessions() RETURNS TABLE (
	pid integer, kind text, role text, application_name text, state text, query text,
	transactions integer, began timestamptz
)
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT ROWS 10
AS 'MODULE_PATHNAME', 'sql_old_sessions';
COMMENT ON FUNCTION @extschema@.pgqrs_old_sessions() IS
'Sessions that keep vacuum of this database from removing rows that were deleted since they began: how many transactions ago that was, and when. The columns that identify a session are NULL except for members of its role and of pg_read_all_stats. Without this session and autovacuum workers. Needs monitor.';

CREATE VIEW @extschema@.pgqrs_health WITH (security_barrier) AS
	SELECT h.item, h.value, h.ok, CASE WHEN NOT h.ok THEN h.hint END AS hint
	FROM @extschema@.pgqrs_floor_stats() AS f
		CROSS JOIN @extschema@.pgqrs_background_stats() AS b
		CROSS JOIN (
			SELECT @extschema@.pgqrs_version() AS library, e.extversion COLLATE pg_catalog."default" AS installed
			FROM pg_catalog.pg_extension AS e
			WHERE e.extname = 'pgqrs'
		) AS v
		CROSS JOIN (
			SELECT pg_catalog.pg_stat_get_dead_tuples('@extschema@.pgqrs_messages'::pg_catalog.regclass) AS dead,
				pg_catalog.pg_stat_get_live_tuples('@extschema@.pgqrs_messages'::pg_catalog.regclass) AS live
		) AS m
		CROSS JOIN pg_catalog.pg_notification_queue_usage() AS n (usage)
		CROSS JOIN (
			SELECT pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE') AS visible
		) AS s
		CROSS JOIN (
			SELECT pg_catalog.string_agg(pg_catalog.format('%s_written', c.relname), ', ' ORDER BY c.relname) AS demoted
			FROM pg_catalog.pg_class AS c
			WHERE c.oid = ANY (ARRAY['@extschema@.pgqrs_queues', '@extschema@.pgqrs_messages', '@extschema@.pgqrs_workflows', '@extschema@.pgqrs_schedules', '@extschema@.pgqrs_grants']::pg_catalog.regclass[]::pg_catalog.oid[])
				AND NOT EXISTS (SELECT FROM pg_catalog.pg_trigger AS t
					WHERE t.tgrelid = c.oid AND t.tgname = pg_catalog.format('%s_written', c.relname) AND t.tgenabled = 'A')
		) AS g
		CROSS JOIN (
			-- also for a view: a role that may write the view could write the table;
			-- the check "open tables" of pgqrs_verify() lists the same rights
			SELECT pg_catalog.count(DISTINCT c.oid) AS count
			FROM pg_catalog.pg_depend AS d
				JOIN pg_catalog.pg_class AS c ON c.oid = d.objid AND c.relkind IN ('r', 'v', 'S')
				CROSS JOIN LATERAL (
					SELECT a.grantee, a.privilege_type FROM pg_catalog.aclexplode(c.relacl) AS a
					UNION ALL
					SELECT a.grantee, a.privilege_type FROM pg_catalog.pg_attribute AS t CROSS JOIN LATERAL pg_catalog.aclexplode(t.attacl) AS a WHERE t.attrelid = c.oid
				) AS a
			WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid AND d.deptype = 'e'
				AND d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass::pg_catalog.oid
				AND d.refobjid = (SELECT e.oid FROM pg_catalog.pg_extension AS e WHERE e.extname = 'pgqrs')
				AND a.grantee <> c.relowner AND NOT (c.relkind = 'v' AND a.privilege_type = 'SELECT')
		) AS r
		CROSS JOIN (
			SELECT pg_catalog.count(*) AS count, pg_catalog.min(l.name) AS name
			FROM @extschema@.pgqrs_schedules AS l
				JOIN @extschema@.pgqrs_queues AS q ON q.name = l.workflow
			WHERE l.enabled AND @extschema@.pgqrs_may_monitor(q.queue_id) AND NOT @extschema@.pgqrs_schedule_may_fire(l.schedule_id)
		) AS l
		LEFT JOIN LATERAL (
			-- rows that were deleted since then are not removed
			SELECT x.holder, x.transactions, x.open_for
			FROM (
				SELECT CASE WHEN a.pid IS NULL THEN 'another session' ELSE pg_catalog.concat_ws(', ',
						pg_catalog.format('pid %s (%s)', a.pid, a.kind), 'role ' || a.role, a.application_name, a.state,
						pg_catalog.left(pg_catalog.regexp_replace(a.query, '\s+', ' ', 'g'), 60)) END AS holder,
					a.transactions, @extschema@.pgqrs_elapsed(a.began, pg_catalog.clock_timestamp()) AS open_for
				FROM @extschema@.pgqrs_old_sessions() AS a
				UNION ALL
				SELECT CASE WHEN s.visible OR pg_catalog.pg_has_role(p.owner, 'USAGE') THEN pg_catalog.format('prepared transaction %L', p.gid)
						ELSE 'a prepared transaction' END,
					pg_catalog.age(p.transaction), @extschema@.pgqrs_elapsed(p.prepared, pg_catalog.clock_timestamp())
				FROM pg_catalog.pg_prepared_xacts AS p
				WHERE p.database = pg_catalog.current_database()
				UNION ALL
				SELECT CASE WHEN s.visible THEN pg_catalog.format('replication slot %L', r.slot_name) ELSE 'a replication slot' END,
					pg_catalog.age(r.xmin), NULL
				FROM pg_catalog.pg_replication_slots AS r
			) AS x
			WHERE x.transactions IS NOT NULL
			ORDER BY x.transactions DESC, x.open_for DESC NULLS LAST
			LIMIT 1
		) AS o ON true
		CROSS JOIN (
			SELECT pg_catalog.count(*) AS ahead
			FROM (
				SELECT n.queue_id, n.enqueued_at, n.dequeued_at
				FROM @extschema@.pgqrs_messages AS n
				ORDER BY n.message_id DESC
				LIMIT 1000
			) AS n
			WHERE GREATEST(n.enqueued_at, n.dequeued_at) > @extschema@.pgqrs_now() + interval '5 s'
				AND @extschema@.pgqrs_may_monitor(n.queue_id)
		) AS w
		CROSS JOIN (
			-- something is due for five minutes, and nothing was claimed or ended since
			SELECT pg_catalog.count(*) AS count, pg_catalog.array_to_string((pg_catalog.array_agg(q.name ORDER BY q.name))[1:5], ', ') AS names
			FROM @extschema@.pgqrs_queues AS q
				CROSS JOIN (SELECT @extschema@.pgqrs_now() - interval '5 min' AS since) AS c
			WHERE @extschema@.pgqrs_may_monitor(q.queue_id)
				AND EXISTS (SELECT FROM @extschema@.pgqrs_messages AS d WHERE d.queue_id = q.queue_id AND d.visible_after < c.since)
				AND NOT EXISTS (SELECT FROM @extschema@.pgqrs_messages AS d WHERE d.queue_id = q.queue_id AND d.visible_after > c.since AND d.dequeued_at > c.since)
				AND NOT EXISTS (SELECT FROM @extschema@.pgqrs_archive AS d WHERE d.queue_id = q.queue_id AND d.outcome <> 'DEAD' AND d.archived_at > c.since)
				AND NOT EXISTS (SELECT FROM @extschema@.pgqrs_archive AS d WHERE d.queue_id = q.queue_id AND d.outcome = 'DEAD' AND d.archived_at > c.since)
		) AS still
		LEFT JOIN LATERAL (
			-- of the oldest live messages; a sleep ends by itself
			SELECT r.run_id, r.waiting_for, r.paused_at
			FROM (
				SELECT d.run_id, d.queue_id FROM @extschema@.pgqrs_messages AS d WHERE d.run_id IS NOT NULL ORDER BY d.message_id LIMIT 1000
			) AS d
				JOIN @extschema@.pgqrs_workflow_runs AS r ON r.run_id = d.run_id
			WHERE r.status = 'PAUSED' AND r.waiting_for NOT LIKE 'sleep%' AND @extschema@.pgqrs_may_monitor(d.queue_id)
			ORDER BY r.paused_at
			LIMIT 1
		) AS parked ON true
		CROSS JOIN LATERAL (
			VALUES
				('version',
					CASE WHEN v.library = v.installed THEN v.library
						ELSE pg_catalog.format('library %s, installed objects %s', v.library, v.installed) END,
					v.library = v.installed,
					'ALTER EXTENSION pgqrs UPDATE, or if the library is the older one, restart the server.'),
				('preloaded',
					CASE WHEN f.preloaded THEN 'yes' ELSE 'no' END,
					f.preloaded,
					'Add pgqrs to shared_preload_libraries and restart the server: without it claims slow down with dead index entries, and each waits for the WAL.'),
				('background worker',
					CASE WHEN b.idle_reason = 'version' THEN 'none, as the versions differ'
						WHEN b.idle_reason = 'standby' THEN 'none, on a standby'
						WHEN b.idle_reason = 'subscriber' THEN 'none, as a subscription writes the tables'
						WHEN b.idle_reason IS NOT NULL THEN 'none: ' || b.idle_reason
						WHEN b.pid > 0 THEN 'running, pid ' || b.pid
						WHEN b.pid = 0 THEN 'running'
						WHEN b.failures > 0 THEN pg_catalog.format('failed %s times, next try at %s', b.failures, pg_catalog.date_trunc('second', b.retry_at))
						WHEN b.due < @extschema@.pgqrs_now() - interval '1 min' THEN 'needed since ' || pg_catalog.date_trunc('second', b.due)
						WHEN b.due IS NOT NULL THEN 'needed next at ' || pg_catalog.date_trunc('second', b.due)
						ELSE 'not needed' END,
					COALESCE(b.idle_reason IN ('standby', 'subscriber'),
						b.pid IS NOT NULL OR b.failures = 0 AND COALESCE(b.due >= @extschema@.pgqrs_now() - interval '1 min', true)),
					CASE b.idle_reason
						WHEN 'not preloaded' THEN 'Add pgqrs to shared_preload_libraries and restart the server, or call pgqrs_maintain() every few seconds.'
						WHEN 'paused' THEN 'Set pgqrs.paused to off and reload the configuration.'
						WHEN 'not in pgqrs.databases' THEN 'Add the database to pgqrs.databases and reload the configuration.'
						WHEN 'too many databases' THEN 'List the databases that have the extension in pgqrs.databases and reload the configuration.'
						WHEN 'version' THEN 'ALTER EXTENSION pgqrs UPDATE, or if the library is the older one, restart the server.'
						ELSE 'See the server''s log. If it has no message, raise max_worker_processes, which all background workers of the server share, or pgqrs.max_workers.' END),
				('last pass',
					CASE WHEN b.passes IS NULL THEN NULL
						WHEN b.last_pass IS NULL THEN 'none since the server started'
						ELSE pg_catalog.format('at %s, the %s. since the server started', pg_catalog.date_trunc('second', b.last_pass), b.passes) END,
					b.last_pass <= @extschema@.pgqrs_now() OR b.last_pass IS NULL AND b.passes >= 0,
					'The clock was set back. The check passes once the background worker has realigned the messages.'),
				('duties',
					CASE WHEN b.passes >= 0 THEN COALESCE(b.failing, 'none fails') END,
					CASE WHEN b.passes >= 0 THEN b.failing IS NULL END,
					'A failing duty does not delay the others. The server''s log has the whole error; remove its cause.'),
				('clock',
					CASE WHEN b.passes IS NULL THEN NULL
						WHEN b.unconfirmed > interval '1 day' THEN pg_catalog.format('%s that this server has not seen pass; retention counts them from %s on', pg_catalog.justify_hours(pg_catalog.date_trunc('second', b.unconfirmed + interval '0.5 s')), pg_catalog.date_trunc('second', b.confirmed_at))
						WHEN b.went_back_at IS NULL THEN 'no step back since the server started'
						ELSE pg_catalog.format('went back by %s at %s', pg_catalog.date_trunc('second', b.went_back_by + interval '0.5 s'), pg_catalog.date_trunc('second', b.went_back_at)) END,
					CASE WHEN b.passes >= 0 THEN b.unconfirmed <= interval '1 day' AND (b.went_back_at IS NULL OR NOT b.realigning OR b.idle_reason = 'standby') END,
					CASE WHEN b.unconfirmed > interval '1 day' THEN 'The server was down, or its clock was set forward. If the clock is wrong, correct it before that time; if it is right, wait, or restart the server to count the time at once.' ELSE
					'The background worker still has to search for rows that were written while the clock was ahead. Let it run, or call pgqrs_maintain().' END),
				('work sent from the future',
					CASE WHEN w.ahead = 0 THEN 'none' ELSE w.ahead || ' of the newest 1000 messages' END,
					w.ahead = 0,
					'The clock was ahead when the messages were sent or claimed. The background worker or pgqrs_maintain() makes them due earlier; pgqrs_set_visibility() does so for one message.'),
				('done in the background', b.done, b.passes >= 0, NULL),
				('floors',
					f.floors || ' of ' || f.max_floors,
					f.floors >= 0 AND (f.displaced_at IS NULL OR f.displaced_at < @extschema@.pgqrs_now() - INTERVAL '10 minutes'),
					'Raise pgqrs.max_floors and restart the server: more queues, times priorities, are busy than there are floors, so that claims slow down with dead index entries.'),
				('floors raised', f.raised::pg_catalog.text, f.raised >= 0, NULL),
				('floors lowered', f.lowered::pg_catalog.text, f.lowered = 0,
					'Claims did not find some messages: was pgqrs_messages written with its trigger disabled? If not, report a bug.'),
				('index entries per claim',
					CASE WHEN f.claimed = 0 THEN 'nothing was claimed yet'
						ELSE pg_catalog.round(f.looked::pg_catalog.numeric / f.claimed, 1)::pg_catalog.text END,
					f.looked <= 100 * GREATEST(f.claimed, 1000),
					'Claims skip many dead or locked entries. Look for transactions that wrote messages and stay open.'),
				('oldest xmin',
					CASE WHEN o.holder IS NULL THEN 'none'
						ELSE pg_catalog.concat_ws(', ', o.holder, 'open for ' || pg_catalog.date_trunc('second', o.open_for),
							o.transactions || ' transactions ago') END,
					COALESCE(o.transactions < 1000000, true) AND COALESCE(o.open_for < '10 min', true),
					'Vacuum removes no rows that were deleted since then. End the session, finish the prepared transaction or drop the slot, unless it is needed.'),
				('notification queue',
					pg_catalog.round(n.usage::pg_catalog.numeric * 100, 1) || ' % full',
					n.usage < 0.5,
					'Commits that notify fail when the queue is full. A listening session has a transaction open: the server''s log names its pid. End that session.'),
				('dead messages', m.dead::pg_catalog.text, m.dead <= GREATEST(1000000, m.live),
					'Vacuum of pgqrs_messages does not keep up. Is autovacuum on, and how old is the oldest xmin?'),
				('triggers', COALESCE(g.demoted, 'as they should be'), g.demoted IS NULL,
					'Triggers are disabled or do not fire always, so that rows written without the functions are not reported. Call pgqrs_maintain().'),
				('tables readable by others', r.count::pg_catalog.text, r.count = 0,
					'Other roles have privileges on tables, views or sequences of pgqrs by GRANT, which bypass the checks of the functions. Call pgqrs_sync_grants(), and look at ALTER DEFAULT PRIVILEGES.'),
				('schedules that cannot fire',
					CASE WHEN l.count < 2 THEN COALESCE(l.name, '0') ELSE pg_catalog.format('%s, such as %s', l.count, l.name) END, l.count = 0,
					'The owners were dropped, or no longer have trigger on the workflow: see may_fire of pgqrs_schedule_list. Call pgqrs_schedule() again as a role with the privilege.'),
				('queues that stand still',
					CASE WHEN still.count <= 5 THEN COALESCE(still.names, '0') ELSE pg_catalog.format('%s, such as %s', still.count, still.names) END, still.count = 0,
					'Messages are due for more than 5 minutes, and none was claimed or has ended since. pgqrs_why() of the queue tells the reason.'),
				('oldest parked run',
					CASE WHEN parked.run_id IS NULL THEN 'none' ELSE pg_catalog.format('%s, since %s', parked.run_id, pg_catalog.date_trunc('second', parked.paused_at)) END,
					COALESCE(parked.paused_at > @extschema@.pgqrs_now() - interval '7 days', true),
					'The run waits for a signal, a child or a resume for more than 7 days. pgqrs_live_runs tells for which. Send it, or cancel the run.')
		) AS h (item, value, ok, hint);
COMMENT ON VIEW @extschema@.pgqrs_health IS 'the health of pgqrs in this database; WHERE NOT ok lists the problems';
COMMENT ON COLUMN @extschema@.pgqrs_health.item IS 'version, preloaded, background worker, last pass, duties, clock, work sent from the future, done in the background, floors, floors raised, floors lowered, index entries per claim, oldest xmin, notification queue, dead messages, triggers, tables readable by others, schedules that cannot fire, queues that stand still, oldest parked run';
COMMENT ON COLUMN @extschema@.pgqrs_health.value IS 'NULL if it is not known: figures of shared memory where the library is not preloaded';
COMMENT ON COLUMN @extschema@.pgqrs_health.ok IS 'false: see the hint; NULL if it is not known';
COMMENT ON COLUMN @extschema@.pgqrs_health.hint IS 'what to do; NULL if it is ok';
-- Verification: whether the tables are consistent, as they are unless pgqrs has a
-- bug or a statement wrote them without its functions.  Each check is a SELECT of
-- the wrong rows; all checks are one statement, and so have one snapshot.

CREATE FUNCTION @extschema@.pgqrs_below_floors() RETURNS SETOF bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'sql_below_floors';
COMMENT ON FUNCTION @extschema@.pgqrs_below_floors() IS
'Ids of messages that no claim finds: none, unless pgqrs_messages was written with its trigger disabled. Changes nothing; after pgqrs_maintain() claims find them. Errors: 42501 unless called by the extension''s owner or a superuser.';

CREATE FUNCTION @extschema@.pgqrs_verify() RETURNS TABLE (check_name text, ok boolean, detail text)
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	WITH faults (check_name, what) AS (
		SELECT 'messages without queue', pg_catalog.format('message %s', c.message_id)
		FROM @extschema@.pgqrs_messages AS c
		WHERE NOT EXISTS (SELECT FROM @extschema@.pgqrs_queues AS p WHERE p.queue_id = c.queue_id)
		UNION ALL
		SELECT 'archived messages without queue', pg_catalog.format('message %s', c.message_id)
		FROM @extschema@.pgqrs_archive AS c
		WHERE NOT EXISTS (SELECT FROM @extschema@.pgqrs_queues AS p WHERE p.queue_id = c.queue_id)
		UNION ALL
		SELECT 'workflows without queue', pg_catalog.format('workflow %s', c.name)
		FROM @extschema@.pgqrs_workflows AS c
		WHERE NOT EXISTS (SELECT FROM @extschema@.pgqrs_queues AS p WHERE p.queue_id = c.workflow_id)
		UNION ALL
		SELECT 'queues without workflow', pg_catalog.format('queue %s', c.name)
		FROM @extschema@.pgqrs_queues AS c
		WHERE c.is_workflow AND c.deleted_at IS NULL AND NOT EXISTS (SELECT FROM @extschema@.pgqrs_workflows AS p WHERE p.workflow_id = c.queue_id)
		UNION ALL
		SELECT 'runs without workflow', pg_catalog.format('run %s', c.run_id)
		FROM @extschema@.pgqrs_workflow_runs AS c
		WHERE NOT EXISTS (SELECT FROM @extschema@.pgqrs_workflows AS p WHERE p.workflow_id = c.workflow_id)
		UNION ALL
		SELECT 'parents without run', pg_catalog.format('run %s', c.run_id)
		FROM @extschema@.pgqrs_workflow_run_parents AS c
		WHERE NOT EXISTS (SELECT FROM @extschema@.pgqrs_workflow_runs AS p WHERE p.run_id = c.run_id)
		UNION ALL
		SELECT 'steps without run', pg_catalog.format('step %s of run %s', c.step_id, c.run_id)
		FROM @extschema@.pgqrs_workflow_steps AS c
		WHERE NOT EXISTS (SELECT FROM @extschema@.pgqrs_workflow_runs AS p WHERE p.run_id = c.run_id)
		UNION ALL
		SELECT 'signals without run', pg_catalog.format('signal %s', c.signal_id)
		FROM @extschema@.pgqrs_run_signals AS c
		WHERE NOT EXISTS (SELECT FROM @extschema@.pgqrs_workflow_runs AS p WHERE p.run_id = c.run_id)
		UNION ALL
		SELECT 'events without run', pg_catalog.format('event %s', c.event_id)
		FROM @extschema@.pgqrs_run_events AS c
		WHERE NOT EXISTS (SELECT FROM @extschema@.pgqrs_workflow_runs AS p WHERE p.run_id = c.run_id)
		UNION ALL
		SELECT 'schedules without workflow', pg_catalog.format('schedule %s', c.name)
		FROM @extschema@.pgqrs_schedules AS c
		WHERE NOT EXISTS (SELECT FROM @extschema@.pgqrs_queues AS p WHERE p.name = c.workflow AND p.is_workflow AND p.deleted_at IS NULL)
		UNION ALL
		SELECT 'firings without schedule', pg_catalog.format('schedule %s', c.schedule_id)
		FROM @extschema@.pgqrs_schedule_firings AS c
		WHERE NOT EXISTS (SELECT FROM @extschema@.pgqrs_schedules AS p WHERE p.schedule_id = c.schedule_id)
		UNION ALL
		-- the next flush removes those of a queue that has a row with a negative epoch
		SELECT 'counters without queue', pg_catalog.format('queue %s', c.queue_id)
		FROM @extschema@.pgqrs_counters AS c
		WHERE NOT EXISTS (SELECT FROM @extschema@.pgqrs_queues AS p WHERE p.queue_id = c.queue_id)
			AND NOT EXISTS (SELECT FROM @extschema@.pgqrs_counters AS p WHERE p.queue_id = c.queue_id AND p.epoch < 0)
		UNION ALL
		SELECT 'runs without message', pg_catalog.format('run %s', r.run_id)
		FROM @extschema@.pgqrs_workflow_runs AS r
		WHERE r.completed_at IS NULL AND NOT EXISTS (SELECT FROM @extschema@.pgqrs_messages AS m WHERE m.message_id = r.run_id)
		UNION ALL
		SELECT 'messages without run', pg_catalog.format('message %s', m.message_id)
		FROM @extschema@.pgqrs_messages AS m
		WHERE m.run_id IS NOT NULL AND NOT EXISTS (SELECT FROM @extschema@.pgqrs_workflow_runs AS r WHERE r.run_id = m.run_id)
		UNION ALL
		SELECT 'ended runs without message', pg_catalog.format('run %s', r.run_id)
		FROM @extschema@.pgqrs_workflow_runs AS r
		WHERE r.completed_at IS NOT NULL AND NOT EXISTS (SELECT FROM @extschema@.pgqrs_archive AS a WHERE a.message_id = r.run_id)
		UNION ALL
		SELECT 'archived messages without run', pg_catalog.format('message %s', a.message_id)
		FROM @extschema@.pgqrs_archive AS a
		WHERE a.run_id IS NOT NULL AND NOT EXISTS (SELECT FROM @extschema@.pgqrs_workflow_runs AS r WHERE r.run_id = a.run_id)
		UNION ALL
		SELECT 'messages both live and archived', pg_catalog.format('message %s', m.message_id)
		FROM @extschema@.pgqrs_messages AS m
			JOIN @extschema@.pgqrs_archive AS a ON a.message_id = m.message_id
		UNION ALL
		SELECT 'outcomes of runs', pg_catalog.format('run %s is %s, its message %s', r.run_id, r.status, a.outcome)
		FROM @extschema@.pgqrs_workflow_runs AS r
			JOIN @extschema@.pgqrs_archive AS a ON a.message_id = r.run_id
		WHERE r.completed_at IS NOT NULL AND CASE r.status
			WHEN 'SUCCESS' THEN a.outcome <> 'DONE'
			WHEN 'ERROR' THEN a.outcome NOT IN ('DEAD', 'DELETED')
			ELSE a.outcome <> 'CANCELLED' END
		UNION ALL
		SELECT 'states of messages', pg_catalog.format('message %s: %s', m.message_id, s.wrong)
		FROM @extschema@.pgqrs_messages AS m
			LEFT JOIN @extschema@.pgqrs_queues AS q ON q.queue_id = m.queue_id
			CROSS JOIN LATERAL (SELECT CASE
				WHEN m.run_id <> m.message_id THEN 'it has the id of another run'
				WHEN (m.run_id IS NOT NULL) <> q.is_workflow THEN 'it is in a queue of the other kind'
				WHEN (m.run_id IS NOT NULL) <> (m.payload IS NULL) THEN 'it has a run and a payload, or neither'
				WHEN m.run_id IS NULL AND (m.deadline_at IS NOT NULL OR m.waiting_for IS NOT NULL) THEN 'only a run has a deadline and waits'
				WHEN m.lease NOT BETWEEN 1 AND 9007199254740991 THEN 'its lease is out of range'
				WHEN m.lease IS NOT NULL AND (m.attempt = 0 OR m.dequeued_at IS NULL) THEN 'it is leased, but was not claimed'
				WHEN m.lease IS NULL AND (m.worker_id IS NOT NULL OR m.exhausted_at IS NOT NULL) THEN 'it has a worker or a last lease, but no lease'
				WHEN m.undo AND m.run_id IS NULL OR m.children_after IS NOT NULL AND m.undo IS NULL THEN 'it is undone without a run, or has children to cancel without an undo'
				WHEN m.exhausted_at <> m.visible_after THEN 'its last lease ends at another time than its lease'
				WHEN (m.waiting_for = 'cancel') <> (m.lease IS NOT NULL) THEN 'it waits while leased, or for a worker without a lease'
				WHEN m.attempt < 0 OR m.failures < 0 OR m.priority NOT BETWEEN -100 AND 100 THEN 'a number is out of range'
			END) AS s (wrong)
		WHERE s.wrong IS NOT NULL
		UNION ALL
		SELECT 'states of runs', pg_catalog.format('run %s: %s', r.run_id, s.wrong)
		FROM @extschema@.pgqrs_workflow_runs AS r
			CROSS JOIN LATERAL (SELECT CASE
				WHEN (r.status IN ('SUCCESS', 'ERROR', 'CANCELLED')) <> (r.completed_at IS NOT NULL) THEN 'it has ended without a time, or the reverse'
				WHEN (r.status = 'PAUSED') <> (r.paused_at IS NOT NULL) OR (r.status = 'PAUSED') <> (r.waiting_for IS NOT NULL) THEN 'it waits without a time or a reason, or the reverse'
				WHEN r.status = 'QUEUED' AND (r.lease IS NOT NULL OR r.worker_id IS NOT NULL OR r.attempt <> 0) THEN 'it is queued, but was claimed'
				WHEN r.status IN ('RUNNING', 'PAUSED', 'SUCCESS') AND (r.lease IS NULL OR r.started_at IS NULL OR r.attempt < 1) THEN 'it has run, but was not claimed'
				WHEN r.status = 'SUCCESS' AND (r.output IS NULL OR r.error IS NOT NULL) THEN 'it succeeded without an output or with an error'
				WHEN r.status = 'ERROR' AND (r.error IS NULL OR r.output IS NOT NULL) THEN 'it failed without an error or with an output'
				WHEN r.status IN ('QUEUED', 'RUNNING', 'PAUSED') AND (r.output IS NOT NULL OR r.error IS NOT NULL OR r.deleted_at IS NOT NULL) THEN 'it is live, but has a result or was deleted'
				WHEN (r.parent_run_id IS NULL) <> (r.parent_step_id IS NULL) OR (r.parent_run_id IS NULL) <> (r.on_parent_end IS NULL) THEN 'it has an incomplete parent'
				WHEN (r.idempotency_key IS NULL) <> (r.key_scope IS NULL) THEN 'it has an incomplete key'
				WHEN r.undo_cause IS NOT NULL AND r.cancel_requested_at IS NULL OR r.undone AND (r.undo_cause IS NULL OR r.status NOT IN ('CANCELLED', 'ERROR')) THEN 'it is undone without a request, or without an end'
				WHEN r.attempt < 0 OR r.failures < 0 OR r.priority NOT BETWEEN -100 AND 100 THEN 'a number is out of range'
			END) AS s (wrong)
		WHERE s.wrong IS NOT NULL
		UNION ALL
		SELECT 'runs and their messages', pg_catalog.format('run %s: %s', r.run_id, s.wrong)
		FROM @extschema@.pgqrs_workflow_runs AS r
			JOIN @extschema@.pgqrs_messages AS m ON m.message_id = r.run_id AND m.run_id = r.run_id
			CROSS JOIN LATERAL (SELECT CASE
				WHEN r.completed_at IS NOT NULL THEN 'it has ended, but its message has not'
				WHEN m.queue_id <> r.workflow_id THEN 'its message is in another queue'
				WHEN m.attempt <> r.attempt OR m.priority <> r.priority THEN 'its message has another attempt or priority'
				WHEN m.deadline_at IS DISTINCT FROM r.deadline_at THEN 'its message has another deadline'
				WHEN m.idempotency_key IS DISTINCT FROM CASE r.key_scope WHEN 'active' THEN r.idempotency_key END THEN 'its message has another key'
				WHEN m.lease IS NOT NULL AND r.status <> 'RUNNING' THEN 'it is leased, but not RUNNING'
				WHEN m.lease <> r.lease OR m.lease IS NOT NULL AND m.worker_id IS DISTINCT FROM r.worker_id THEN 'another worker or lease holds its message'
				WHEN (r.cancel_requested_at IS NOT NULL AND r.undo_cause IS NULL) <> (m.waiting_for IS NOT DISTINCT FROM 'cancel') AND (r.undo_cause IS NULL OR m.waiting_for IS DISTINCT FROM 'cancel') THEN 'only one of both has the request to cancel'
				WHEN (r.undo_cause IS NOT NULL) <> (m.undo IS NOT NULL) THEN 'only one of both is to be undone'
				WHEN m.waiting_for <> 'cancel' AND m.waiting_for IS DISTINCT FROM r.waiting_for THEN 'its message waits for another event'
				WHEN m.waiting_for IS NULL AND m.visible_after = 'infinity' THEN 'it waits without end, and no event will wake it'
			END) AS s (wrong)
		WHERE s.wrong IS NOT NULL
		UNION ALL
		SELECT 'states of steps', pg_catalog.format('step %s of run %s: %s', t.step_id, t.run_id, s.wrong)
		FROM @extschema@.pgqrs_workflow_steps AS t
			CROSS JOIN LATERAL (SELECT CASE
				WHEN (t.status IN ('SUCCESS', 'ERROR')) <> (t.completed_at IS NOT NULL) THEN 'it has ended without a time, or the reverse'
				WHEN t.status = 'ERROR' AND t.error IS NULL OR t.status = 'SUCCESS' AND t.error IS NOT NULL AND t.kind <> 'SIGNAL' THEN 'it failed without an error, or succeeded with one'
				WHEN t.status = 'PAUSED' AND t.kind = 'FUNCTION' OR t.status IN ('PENDING', 'RUNNING') AND t.kind NOT IN ('FUNCTION', 'CHILD') THEN 'it is of a kind that has no such status'
				WHEN t.status IN ('RUNNING', 'PAUSED') AND (t.lease IS NULL OR t.attempt < 1) THEN 'it is RUNNING or PAUSED, but without a lease'
				WHEN t.attempt < 0 OR t.failures < 0 THEN 'a number is out of range'
			END) AS s (wrong)
		WHERE s.wrong IS NOT NULL
		UNION ALL
		SELECT 'states of workers', pg_catalog.format('worker %s: %s', w.worker_id, s.wrong)
		FROM @extschema@.pgqrs_workers AS w
			CROSS JOIN LATERAL (SELECT CASE
				WHEN (w.status = 'STOPPED') <> (w.stopped_at IS NOT NULL) THEN 'it was stopped without a time, or the reverse'
				WHEN w.max_concurrent < 1 THEN 'its max_concurrent is out of range'
			END) AS s (wrong)
		WHERE s.wrong IS NOT NULL
		UNION ALL
		SELECT 'duplicate keys of messages', pg_catalog.format('queue %s, key %s', k.queue_id, k.idempotency_key)
		FROM @extschema@.pgqrs_messages AS k
		WHERE k.idempotency_key IS NOT NULL
		GROUP BY k.queue_id, k.idempotency_key
		HAVING pg_catalog.count(*) > 1
		UNION ALL
		SELECT 'duplicate keys of runs', pg_catalog.format('workflow %s, key %s', k.workflow_id, k.idempotency_key)
		FROM @extschema@.pgqrs_workflow_runs AS k
		WHERE k.idempotency_key IS NOT NULL AND k.key_scope = 'retained' AND k.deleted_at IS NULL
		GROUP BY k.workflow_id, k.idempotency_key
		HAVING pg_catalog.count(*) > 1
		UNION ALL
		SELECT 'duplicate keys of signals', pg_catalog.format('run %s, key %s', k.run_id, k.idempotency_key)
		FROM @extschema@.pgqrs_run_signals AS k
		WHERE k.idempotency_key IS NOT NULL
		GROUP BY k.run_id, k.idempotency_key
		HAVING pg_catalog.count(*) > 1
		UNION ALL
		SELECT 'messages below floors', pg_catalog.format('message %s', b.b)
		FROM @extschema@.pgqrs_below_floors() AS b (b)
		UNION ALL
		SELECT 'triggers', pg_catalog.format('trigger %s_written', c.relname)
		FROM pg_catalog.pg_class AS c
		WHERE c.oid = ANY (ARRAY['@extschema@.pgqrs_queues', '@extschema@.pgqrs_messages', '@extschema@.pgqrs_workflows', '@extschema@.pgqrs_schedules', '@extschema@.pgqrs_grants']::pg_catalog.regclass[]::pg_catalog.oid[])
			AND NOT EXISTS (SELECT FROM pg_catalog.pg_trigger AS t
				WHERE t.tgrelid = c.oid AND t.tgname = pg_catalog.format('%s_written', c.relname) AND t.tgenabled = 'A')
		UNION ALL
		SELECT 'open tables', pg_catalog.format('%s of %s to %s', a.privilege_type, c.relname, CASE WHEN a.grantee = 0 THEN 'public' ELSE pg_catalog.pg_get_userbyid(a.grantee) END)
		FROM pg_catalog.pg_depend AS d
			JOIN pg_catalog.pg_class AS c ON c.oid = d.objid AND c.relkind IN ('r', 'v', 'S')
			CROSS JOIN LATERAL (
				SELECT a.grantee, a.privilege_type FROM pg_catalog.aclexplode(c.relacl) AS a
				UNION ALL
				SELECT a.grantee, a.privilege_type FROM pg_catalog.pg_attribute AS t CROSS JOIN LATERAL pg_catalog.aclexplode(t.attacl) AS a WHERE t.attrelid = c.oid
			) AS a
		WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid AND d.deptype = 'e'
			AND d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass::pg_catalog.oid
			AND d.refobjid = (SELECT e.oid FROM pg_catalog.pg_extension AS e WHERE e.extname = 'pgqrs')
			AND a.grantee <> c.relowner AND NOT (c.relkind = 'v' AND a.privilege_type = 'SELECT')
	), counted AS (
		SELECT n.check_name, pg_catalog.count(*) AS count,
			pg_catalog.string_agg(n.what, '; ' ORDER BY n.what) FILTER (WHERE n.place <= 3) AS first
		FROM (SELECT f.*, pg_catalog.row_number() OVER (PARTITION BY f.check_name) AS place FROM faults AS f) AS n
		GROUP BY n.check_name
	)
	SELECT k.name, c.count IS NULL, c.count || CASE WHEN c.count > 3 THEN ', such as ' ELSE ': ' END || c.first
	FROM (VALUES
			(1, 'messages without queue'),
			(2, 'archived messages without queue'),
			(3, 'workflows without queue'),
			(4, 'queues without workflow'),
			(5, 'runs without workflow'),
			(6, 'steps without run'),
			(7, 'signals without run'),
			(8, 'events without run'),
			(9, 'schedules without workflow'),
			(10, 'firings without schedule'),
			(11, 'runs without message'),
			(12, 'messages without run'),
			(13, 'ended runs without message'),
			(14, 'archived messages without run'),
			(15, 'messages both live and archived'),
			(16, 'outcomes of runs'),
			(17, 'states of messages'),
			(18, 'states of runs'),
			(19, 'runs and their messages'),
			(20, 'states of steps'),
			(21, 'states of workers'),
			(22, 'duplicate keys of messages'),
			(23, 'duplicate keys of runs'),
			(24, 'duplicate keys of signals'),
			(25, 'messages below floors'),
			(26, 'triggers'),
			(27, 'open tables'),
			(28, 'parents without run'),
			(29, 'counters without queue')
		) AS k (place, name)
		LEFT JOIN counted AS c ON c.check_name = k.name
	ORDER BY k.place;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_verify() IS
'Searches the tables for inconsistencies: references to missing rows, live runs without a message and messages without a run, ends that do not match, states that no operation leads to, duplicate keys, messages that no claim finds, triggers of the extension that are disabled or do not fire always, privileges of other roles on its tables. One row for each check; if it is not ok, detail has the number of wrong rows and three of them. Changes and locks nothing, and reads all rows: minutes for tens of millions. pgqrs_maintain() repairs the floors and the triggers, pgqrs_sync_grants() the privileges. No function repairs other findings: a statement wrote to the tables without the functions, a restore was incomplete, an index is corrupt, or pgqrs has a bug. Errors: 42501 unless called by the extension''s owner or a superuser.';
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
'Installs jobs of pg_cron that call pgqrs_maintain() in this database, as the extension''s owner, every second (before pg_cron 1.5, every minute), and that remove records of their own executions older than a day, once an hour. Returns the jobs and their schedules. A repeated call updates the jobs. After DROP EXTENSION pgqrs the jobs remove themselves at their next execution. Errors: 42501 unless called by the extension''s owner or a superuser; 55000: pg_cron is not in this database, or older than 1.4.';
-- Reports: self-contained pages of HTML.
--
-- All values of the database on a page pass pgqrs_html(), which escapes them; all
-- other text is ASCII, so that this file and the pages do not depend on the
-- encoding of the database.  Every query is bounded by an index and a LIMIT,
-- and a page states its limits.  Pages read views, which show the current role what it
-- has a privilege on; only the plots of the last hour read a table.

CREATE FUNCTION @extschema@.pgqrs_html(template text, "values" text[]) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT pg_catalog.format(template, VARIADIC ARRAY(
		SELECT pg_catalog.replace(pg_catalog.replace(pg_catalog.replace(pg_catalog.replace(pg_catalog.replace(pg_catalog.regexp_replace(
				CASE WHEN pg_catalog.length(v.value) > 4000 THEN pg_catalog.left(v.value, 3999) || '...' ELSE v.value END,
				'[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]', '?', 'g'),
				'&', '&amp;'), '<', '&lt;'), '>', '&gt;'), '"', '&quot;'), '''', '&#39;')
		FROM pg_catalog.unnest("values") WITH ORDINALITY AS v (value, n)
		ORDER BY v.n))
	WHERE pg_catalog.num_nonnulls(VARIADIC "values") > 0;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html(text, text[]) IS
'An HTML template, like format(), with an escaped value for each %s or %1$s; NULL if all values are NULL, otherwise a NULL is empty. Shows the first 4000 characters of a value, with a question mark for each control character.';

CREATE FUNCTION @extschema@.pgqrs_html_duration(duration interval) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT CASE
			WHEN s.s = 'Infinity' THEN 'forever'
			WHEN s.s < 0.00005 THEN '0 ms'
			WHEN s.s < 0.00995 THEN pg_catalog.to_char(s.s * 1000, 'FM990.0') || ' ms'
			WHEN s.s < 0.9995 THEN pg_catalog.round(s.s * 1000) || ' ms'
			WHEN s.s < 9.95 THEN pg_catalog.to_char(s.s, 'FM990.0') || ' s'
			WHEN s.s < 59.5 THEN pg_catalog.round(s.s) || ' s'
			WHEN s.s < 3600 THEN pg_catalog.concat_ws(' ', pg_catalog.floor(s.s / 60) || ' min', NULLIF(pg_catalog.floor(pg_catalog.mod(s.s, 60)), 0) || ' s')
			WHEN s.s < 86400 THEN pg_catalog.concat_ws(' ', pg_catalog.floor(s.s / 3600) || ' h', NULLIF(pg_catalog.floor(pg_catalog.mod(s.s, 3600) / 60), 0) || ' min')
			ELSE pg_catalog.concat_ws(' ', pg_catalog.floor(s.s / 86400) || ' d', NULLIF(pg_catalog.floor(pg_catalog.mod(s.s, 86400) / 3600), 0) || ' h')
		END
	FROM (SELECT CASE WHEN d.d < 0 THEN 0 WHEN d.d > 59.5 THEN pg_catalog.round(d.d) ELSE d.d END FROM (SELECT extract(epoch FROM duration)) AS d (d)) AS s (s)
	WHERE duration IS NOT NULL;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_duration(interval) IS
'A duration in readable form, such as 4 ms or 2 h 5 min; 0 ms for a negative one, forever for an infinite one.';

CREATE FUNCTION @extschema@.pgqrs_html_error(error jsonb) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT pg_catalog.left(COALESCE(
		CASE WHEN pg_catalog.jsonb_typeof(error) = 'object'
			THEN NULLIF(pg_catalog.concat_ws(': ', error ->> 'type', error ->> 'message'), '') END,
		error #>> '{}'), 300);
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_error(jsonb) IS
'An error in one line: its type and message, otherwise the whole value; at most 300 characters, not escaped.';

CREATE FUNCTION @extschema@.pgqrs_html_json(value jsonb) RETURNS text
LANGUAGE c IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'sql_html_json';
COMMENT ON FUNCTION @extschema@.pgqrs_html_json(jsonb) IS
'A value like jsonb_pretty(), cut to what pgqrs_html() shows, and indented by at most 20 levels; NULL for NULL. Errors: none.';

CREATE FUNCTION @extschema@.pgqrs_html_table(columns text[], cells text[], empty text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT CASE WHEN cells IS NULL THEN @extschema@.pgqrs_html(text '<p class="empty">%s</p>', ARRAY[empty]::text[])
		ELSE pg_catalog.format('<table><thead><tr>%s</tr></thead><tbody>%s</tbody></table>',
			(SELECT pg_catalog.string_agg(pg_catalog.format('<th scope="col"%s>%s</th>',
					CASE WHEN c.name LIKE '#%' THEN ' class="n"' END, pg_catalog.ltrim(c.name, '#')), '' ORDER BY c.n)
				FROM pg_catalog.unnest(columns) WITH ORDINALITY AS c (name, n)),
			(SELECT pg_catalog.string_agg('<tr>' || r.row || '</tr>', '' ORDER BY r.n)
				FROM (
					SELECT r.n, pg_catalog.string_agg(CASE c.n
							WHEN 1 THEN pg_catalog.format('<th scope="row">%s</th>', cells[r.n][c.n])
							ELSE pg_catalog.format('<td data-l="%s"%s>%s</td>', pg_catalog.ltrim(c.name, '#'),
								CASE WHEN COALESCE(cells[r.n][c.n], '') = '' THEN pg_catalog.format(' class="none%s"', CASE WHEN c.name LIKE '#%' THEN ' n' END)
									WHEN c.name LIKE '#%' THEN ' class="n"' END,
								COALESCE(NULLIF(cells[r.n][c.n], ''), '&#8211;')) END, '' ORDER BY c.n) AS row
					FROM pg_catalog.generate_subscripts(cells, 1) AS r (n)
						CROSS JOIN pg_catalog.unnest(columns) WITH ORDINALITY AS c (name, n)
					GROUP BY r.n
				) AS r)) END;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_table(text[], text[], text) IS
'An HTML table. columns: their names, with a leading # if they hold numbers; cells: rows of cells, as HTML; empty: the text without rows.';

CREATE FUNCTION @extschema@.pgqrs_html_style() RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT text ':root { --bg: #fcfcfa; --fg: #1c1c1a; --soft: #5c5c57; --line: #e2e1dc; --fill: #f2f1ec;
	--blue: #2a5d8f; --pale: #a9c4dd; --green: #22703f; --amber: #855300; --red: #b0281c; --grey: #8b8a84 }
@media (prefers-color-scheme: dark) { :root { --bg: #151618; --fg: #e9e7e2; --soft: #a5a39c; --line: #303236; --fill: #1f2124;
	--blue: #85b3e2; --pale: #37536f; --green: #79c898; --amber: #e3b25b; --red: #f28b80; --grey: #7f7e79 } }
* { box-sizing: border-box }
body { margin: 0; background: var(--bg); color: var(--fg); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
	font-variant-numeric: tabular-nums; -webkit-text-size-adjust: 100%; overflow-wrap: anywhere }
body > * { max-width: 1160px; margin: 0 auto; padding: 0 clamp(16px, 3vw, 40px) }
header { padding-top: clamp(20px, 4vw, 44px) }
h1 { margin: 0; font-size: clamp(22px, 3vw, 30px); line-height: 1.2; font-weight: 650; letter-spacing: -.01em }
h2 { margin: 44px 0 10px; font-size: 18px; line-height: 1.3; font-weight: 650 }
h2 small, figcaption small { font-size: 13px; font-weight: 400; color: var(--soft); margin-left: 6px }
h3 { margin: 24px 0 6px; font-size: 15px; font-weight: 650 }
p { margin: 6px 0 } a { color: var(--blue) }
.soft, .empty, footer, dt, .sub { color: var(--soft) }
.empty { padding: 14px 0; border-top: 1px solid var(--line); border-bottom: 1px solid var(--line) }
.sub { display: block; font-size: 13px; font-weight: 400 }
code, pre { font: 13px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; unicode-bidi: isolate }
pre { margin: 6px 0; padding: 10px 12px; background: var(--fill); border-radius: 4px; white-space: pre-wrap; max-height: 30em; overflow: auto }
nav { margin: 14px 0 0; font-size: 14px; display: flex; flex-wrap: wrap; gap: 4px 18px }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(130px, 1fr)); gap: 1px; margin: 26px 0 0; padding: 0; background: var(--line);
	border-top: 1px solid var(--line); border-bottom: 1px solid var(--line) }
.figures div { background: var(--bg); padding: 12px 12px 12px 0 }
.figures dt { font-size: 13px } .figures dd { margin: 0; font-size: 24px; line-height: 1.25; font-weight: 600; letter-spacing: -.01em }
table { width: 100%; border-collapse: collapse; font-size: 14px }
th, td { padding: 7px 14px 7px 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); unicode-bidi: isolate }
th:last-child, td:last-child { padding-right: 0 }
thead th { font-size: 13px; font-weight: 400; color: var(--soft); vertical-align: bottom; white-space: nowrap }
tbody th { font-weight: 600; min-width: 9em; max-width: 30em } th.n, td.n { text-align: right; white-space: nowrap } td.none { color: var(--grey) } thead th.n ~ th { white-space: nowrap }
.b { display: inline-block; padding: 0 6px; border: 1px solid currentColor; border-radius: 3px; font-size: 12px; line-height: 18px; font-weight: 600; white-space: nowrap; color: var(--soft); vertical-align: 1px }
.ok { color: var(--green) } .bad { color: var(--red) } .warn { color: var(--amber) } .busy { color: var(--blue) }
ul.health { list-style: none; margin: 12px 0; padding: 0 } ul.health li { padding: 10px 14px; margin: 8px 0; background: var(--fill); border-left: 4px solid var(--red); border-radius: 2px }
ul.health p { margin: 2px 0 0 } summary { cursor: pointer; color: var(--soft); padding: 4px 0; font-size: 14px }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); gap: 26px 44px }
figure { margin: 0 } figcaption { font-weight: 600; font-size: 14px }
.key { font-size: 13px; color: var(--soft); margin: 0 0 8px } .key i { display: inline-block; width: 10px; height: 10px; margin: 0 5px 0 12px; border-radius: 2px } .key i:first-child { margin-left: 0 }
.plot { position: relative; height: 150px; margin: 0 0 0 58px; border-bottom: 1px solid var(--grey) }
.plot svg { position: absolute; inset: 0; width: 100%; height: 100%; overflow: visible }
.plot span { position: absolute; left: 0; right: 0; border-top: 1px solid var(--line) } .plot b { position: absolute; right: 100%; top: -.75em; margin-right: 8px; font-size: 12px; line-height: 1.5em; font-weight: 400; color: var(--soft); white-space: nowrap }
.axis { display: flex; justify-content: space-between; margin: 4px 0 0 58px; font-size: 12px; color: var(--soft) }
.f1 { fill: var(--blue); background: var(--blue) } .f2 { fill: var(--red); background: var(--red) } .f3 { fill: var(--grey); background: var(--grey) } .f4 { fill: var(--pale); background: var(--pale) } .f5 { fill: var(--amber); background: var(--amber) } .f6 { fill: var(--green); background: var(--green) }
.rate { display: inline-block; vertical-align: middle; width: 64px; height: 6px; margin-right: 8px; border-radius: 3px; overflow: hidden }
dl.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 150px), 1fr)); gap: 12px 28px; margin: 22px 0 0 } dl.facts dt { font-size: 13px } dl.facts dd { margin: 0 }
ol.line { list-style: none; margin: 0; padding: 0; border-top: 1px solid var(--line) }
ol.line > li { display: grid; grid-template-columns: minmax(0, 300px) minmax(0, 1fr) 92px; gap: 2px 20px; padding: 9px 0; border-bottom: 1px solid var(--line) }
ol.line strong { font-weight: 600 } ol.line svg { width: 100%; height: 14px; margin-top: 4px; display: block; background: var(--fill); border-radius: 2px } ol.line .t { text-align: right; white-space: nowrap } ol.line .e { grid-column: 2 / -1; font-size: 13px } ol.line rect + rect { stroke: var(--red); stroke-width: 2px; vector-effect: non-scaling-stroke }
ol.line .e p { margin: 2px 0 } footer { margin-top: 56px; padding-bottom: 40px; font-size: 13px }
@media (max-width: 700px) {
	thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%) }
	table, tbody { display: block } tbody { border-top: 1px solid var(--line) }
	tbody tr { display: grid; grid-template-columns: repeat(3, minmax(0, 1fr)); gap: 4px 14px; padding: 12px 0; border-bottom: 1px solid var(--line) }
	tbody th, tbody td { display: block; padding: 0; border: 0; min-width: 0 } tbody th { grid-column: 1 / -1 } tbody th { max-width: none } tbody td.n { text-align: left } tbody td.none { display: none }
	tbody td.n { white-space: normal } tbody td:not(.n):not(.none) { grid-column: span 3 } tbody td:has(> .b) { grid-column: auto !important }
	td::before { content: attr(data-l); display: block; font-size: 12px; color: var(--soft); font-weight: 400 }
	ol.line > li { grid-template-columns: minmax(0, 1fr) auto } ol.line .g { grid-column: 1 / -1; grid-row: 2 } ol.line .e { grid-column: 1 / -1 }
	.figures { grid-template-columns: repeat(3, 1fr) } .figures dd { font-size: 20px }
}
@media print { body { background: none } nav { display: none } h2, tr, figure { break-inside: avoid } }
';
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_style() IS
'The style sheet of the reports.';

CREATE FUNCTION @extschema@.pgqrs_html_document(title text, head text, body text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT @extschema@.pgqrs_html(text $html$<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="%s"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta name="color-scheme" content="light dark"/>
<title>%s</title>
$html$, ARRAY[pg_catalog.replace(pg_catalog.replace(pg_catalog.lower(pg_catalog.pg_client_encoding()), 'win', 'windows-'), '_', '-'), title]::text[])
		|| head || text '</head>
<body>
' || body || text '
</body>
</html>';
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_document(text, text, text) IS
'An HTML document in the encoding of the client. title: not escaped; head, body: HTML.';

CREATE FUNCTION @extschema@.pgqrs_html_page(title text, at timestamptz, body text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT @extschema@.pgqrs_html_document(title, '<style>' || @extschema@.pgqrs_html_style() || '</style>',
		body || @extschema@.pgqrs_html(text '
<footer>Made by pgqrs %s in the database %s at %s. A page does not change: make another one to see changes.</footer>',
			ARRAY[@extschema@.pgqrs_version(), pg_catalog.current_database(), pg_catalog.to_char(at, 'YYYY-MM-DD HH24:MI:SS TZ')]::text[]));
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_page(text, timestamptz, text) IS
'An HTML page in the style of the reports. title: not escaped; body: HTML; at: the time of its creation.';

CREATE FUNCTION @extschema@.pgqrs_html_status(status text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT @extschema@.pgqrs_html(text '<span class="b %s">%s</span>', ARRAY[CASE
			WHEN status IN ('SUCCESS', 'DONE', 'READY', 'on') THEN 'ok'
			WHEN status IN ('ERROR', 'DEAD', 'silent', 'unserved', 'expired') THEN 'bad'
			WHEN status IN ('PAUSED', 'PENDING', 'SUSPENDED', 'paused', 'waiting', 'retry', 'delayed', 'cancel requested') THEN 'warn'
			WHEN status IN ('RUNNING', 'held') THEN 'busy' END, status]::text[])
	WHERE status IS NOT NULL;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_status(text) IS
'A status as a coloured HTML label.';

CREATE FUNCTION @extschema@.pgqrs_html_plot(
	title text, note text, key text, ticks double precision[], names text[],
	bars text, "from" text, "to" text
) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT pg_catalog.format('<figure><figcaption>%s<small>%s</small></figcaption><p class="key">%s</p><div class="plot">%s'
			'<svg role="img" viewBox="0 0 600 100" preserveAspectRatio="none"><title>%1$s, %2$s</title>%5$s</svg></div>'
			'<div class="axis"><span>%6$s</span><span>%7$s</span></div></figure>',
		title, note, key,
		(SELECT pg_catalog.string_agg(pg_catalog.format('<span style="bottom:%s%%"><b>%s</b></span>', pg_catalog.round((100 * LEAST(GREATEST(t.tick, 0), 1))::numeric, 2), t.name), '')
			FROM ROWS FROM (pg_catalog.unnest(ticks), pg_catalog.unnest(names)) AS t (tick, name)),
		bars, "from", "to");
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_plot(text, text, text, double precision[], text[], text, text, text) IS
'An HTML figure around an SVG drawing of 600 by 100, which is stretched: title, note, legend, labelled ticks from 0 to 1 on the vertical axis, the drawing, and the begin and end of the time axis. All texts are HTML.';

CREATE FUNCTION @extschema@.pgqrs_report_hour(at timestamptz) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	WITH ended AS MATERIALIZED (
		SELECT a.outcome, a.archived_at, a.enqueued_at, extract(epoch FROM @extschema@.pgqrs_elapsed(a.enqueued_at, a.archived_at))::float8 AS took
		FROM @extschema@.pgqrs_archive AS a
		ORDER BY a.message_id DESC
		LIMIT 20000
	), span AS (
		SELECT s.span, extract(epoch FROM s.span)::float8 AS seconds, s.cut
		FROM (
			SELECT CASE WHEN e.cut THEN LEAST(GREATEST(@extschema@.pgqrs_elapsed(e.first, at), '1 min'), '1 hour') ELSE '1 hour' END AS span, e.cut
			FROM (SELECT pg_catalog.count(*) = 20000 AS cut, pg_catalog.min(e.enqueued_at) AS first FROM ended AS e) AS e
		) AS s
	), minutes AS (
		SELECT b.n, at - s.span * (60 - b.n) / 60 AS since,
			COALESCE(e.done, 0) AS done, COALESCE(e.dead, 0) AS dead, COALESCE(e.cancelled, 0) AS cancelled,
			COALESCE(e.done + e.dead + e.cancelled, 0) AS total, e.took[1] AS p50, e.took[2] AS p95
		FROM span AS s
			CROSS JOIN pg_catalog.generate_series(0, 59) AS b (n)
			LEFT JOIN (
				SELECT pg_catalog.floor(60 - 60 * extract(epoch FROM @extschema@.pgqrs_elapsed(e.archived_at, at))::float8 / s.seconds)::integer AS n,
					pg_catalog.count(*) FILTER (WHERE e.outcome IN ('DONE', 'DELETED')) AS done,
					pg_catalog.count(*) FILTER (WHERE e.outcome = 'DEAD') AS dead,
					pg_catalog.count(*) FILTER (WHERE e.outcome = 'CANCELLED') AS cancelled,
					pg_catalog.percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY GREATEST(e.took, 0.0001)) AS took
				FROM ended AS e CROSS JOIN span AS s
				WHERE e.archived_at > at - s.span AND e.archived_at < at
				GROUP BY 1
			) AS e ON e.n = b.n
	), scale AS (
		SELECT t.total, t.dead, t.low, GREATEST(t.high, t.low + 1) AS high, f.unit, f.factor,
			(SELECT pg_catalog.min(n.n * f.power) FROM pg_catalog.unnest('{1,2,4,6,8,10}'::integer[]) AS n (n) WHERE n.n * f.power >= t.most * f.factor) AS top
		FROM (
			SELECT pg_catalog.sum(m.total) AS total, pg_catalog.sum(m.dead) AS dead, GREATEST(pg_catalog.max(m.total), 2)::float8 AS most,
				pg_catalog.floor(pg_catalog.log(pg_catalog.min(m.p50)))::integer AS low, pg_catalog.ceil(pg_catalog.log(pg_catalog.max(m.p95)))::integer AS high
			FROM minutes AS m
		) AS t
			CROSS JOIN span AS s
			CROSS JOIN LATERAL (
				SELECT u.unit, u.factor, 10 ^ pg_catalog.floor(pg_catalog.log(t.most * u.factor)) AS power
				FROM (VALUES ('minute', 3600 / s.seconds), ('second', 60 / s.seconds)) AS u (unit, factor)
				WHERE (u.unit = 'second') = (t.most * 3600 / s.seconds > 3000)
			) AS f
	)
	SELECT pg_catalog.format('<h2 id="hour">%s<small>%s</small></h2>', CASE WHEN p.cut AND p.span < '1 hour'
				THEN 'The last ' || @extschema@.pgqrs_html_duration(p.span) ELSE 'The last hour' END,
			CASE WHEN p.cut THEN 'the 20000 messages and runs sent last, of those that have ended' ELSE 'messages and runs that ended' END)
		|| CASE WHEN c.total = 0 THEN '<p class="empty">Nothing ended.</p>'
			ELSE '<div class="plots">'
				|| @extschema@.pgqrs_html_plot(text 'Throughput', pg_catalog.format('ended per %s; %s in all, %s dead', c.unit, c.total, c.dead),
					text '<i class="f1"></i>done<i class="f2"></i>dead<i class="f3"></i>cancelled',
					ARRAY[0.5, 1]::double precision[], ARRAY[(c.top / 2)::text, c.top::text],
					(SELECT pg_catalog.string_agg(pg_catalog.format('<g><title>%s: %s done, %s dead, %s cancelled</title>', pg_catalog.to_char(m.since, 'HH24:MI:SS'), m.done, m.dead, m.cancelled)
							|| (SELECT pg_catalog.string_agg(pg_catalog.format('<rect class="%s" x="%s" width="8.6" y="%s" height="%s"/>', r.class, 10 * m.n,
									pg_catalog.round((100 - 100 * (r.below + r.count) * c.factor / c.top)::numeric, 2), pg_catalog.round((100 * r.count * c.factor / c.top)::numeric, 2)), '')
								FROM (VALUES ('f1', m.done, 0), ('f2', m.dead, m.done), ('f3', m.cancelled, m.done + m.dead)) AS r (class, count, below)
								WHERE r.count > 0)
							|| '</g>', '' ORDER BY m.n)
						FROM minutes AS m WHERE m.total > 0),
					CASE WHEN p.span = '1 hour' THEN '60 min' ELSE @extschema@.pgqrs_html_duration(p.span) END || ' ago', text 'now')
				|| @extschema@.pgqrs_html_plot(text 'Latency', text 'from sending to the end; a logarithmic scale',
					text '<i class="f1"></i>half took less<i class="f4"></i>95 of 100 took less',
					(SELECT pg_catalog.array_agg((d.d - c.low)::float8 / (c.high - c.low) ORDER BY d.d) FROM pg_catalog.generate_series(c.low, c.high) AS d (d)),
					(SELECT pg_catalog.array_agg(CASE WHEN d.d < 0 THEN 10 ^ (d.d + 3) || ' ms' ELSE 10 ^ d.d || ' s' END ORDER BY d.d) FROM pg_catalog.generate_series(c.low, c.high) AS d (d)),
					(SELECT pg_catalog.string_agg(pg_catalog.format('<g><title>%s: half took less than %s, 95 of 100 less than %s</title>'
								'<rect class="f4" x="%s" width="8.6" y="%s" height="%s"/><rect class="f1" x="%4$s" width="8.6" y="%7$s" height="2.2"/></g>',
							pg_catalog.to_char(m.since, 'HH24:MI:SS'), @extschema@.pgqrs_html_duration(pg_catalog.make_interval(secs => m.p50)), @extschema@.pgqrs_html_duration(pg_catalog.make_interval(secs => m.p95)),
							10 * m.n, pg_catalog.round((100 - y.p95)::numeric, 2), pg_catalog.round((y.p95 - y.p50)::numeric, 2), pg_catalog.round((98.9 - y.p50)::numeric, 2)), '' ORDER BY m.n)
						FROM minutes AS m
							CROSS JOIN LATERAL (
								SELECT 100 * (pg_catalog.log(m.p50) - c.low) / (c.high - c.low) AS p50, 100 * (pg_catalog.log(m.p95) - c.low) / (c.high - c.low) AS p95
							) AS y
						WHERE m.total > 0),
					CASE WHEN p.span = '1 hour' THEN '60 min' ELSE @extschema@.pgqrs_html_duration(p.span) END || ' ago', text 'now')
				|| '</div>' END
	FROM scale AS c CROSS JOIN span AS p
	WHERE pg_catalog.isfinite(at);
END;
COMMENT ON FUNCTION @extschema@.pgqrs_report_hour(timestamptz) IS
'Plots of throughput and latency for pgqrs_report(), of the hour before an instant; from the 20000 ended messages with the highest ids; NULL for infinity.';

CREATE FUNCTION @extschema@.pgqrs_html_url(page text, parameters jsonb) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT page || COALESCE((
		SELECT '?' || pg_catalog.string_agg(p.key || '=' || (
				SELECT pg_catalog.string_agg(CASE WHEN c.c ~ '^[A-Za-z0-9_.~-]$' THEN c.c
						ELSE pg_catalog.regexp_replace(pg_catalog.upper(pg_catalog.encode(pg_catalog.convert_to(c.c, 'UTF8'), 'hex')), '(..)', '%\1', 'g') END, '' ORDER BY c.n)
				FROM pg_catalog.regexp_split_to_table(p.value, '') WITH ORDINALITY AS c (c, n)), '&amp;' ORDER BY p.key COLLATE "C")
		FROM pg_catalog.jsonb_each_text(parameters) AS p
		WHERE p.value <> ''), '');
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_url(text, jsonb) IS
'An address within the pages, as HTML: that of a page with those parameters that are not empty.';

CREATE FUNCTION @extschema@.pgqrs_html_link(page text, parameters jsonb, label text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT pg_catalog.format('<a href="%s">%s</a>', @extschema@.pgqrs_html_url(page, parameters), @extschema@.pgqrs_html(text '%s', ARRAY[label]::text[]))
	WHERE label IS NOT NULL;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_link(text, jsonb, text) IS
'A link to a page with parameters; NULL without a label.';

CREATE FUNCTION @extschema@.pgqrs_html_health() RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT CASE WHEN pg_catalog.bool_and(h.ok IS DISTINCT FROM false) THEN '<p class="ok">Nothing needs attention.</p>'
			ELSE '<ul class="health">' || pg_catalog.string_agg(@extschema@.pgqrs_html(text '<li><strong>%s: %s</strong><p>%s</p></li>', ARRAY[h.item, h.value, h.hint]::text[]), '') FILTER (WHERE NOT h.ok) || '</ul>' END
		|| '<details><summary>All checks</summary>'
		|| @extschema@.pgqrs_html_table('{item,is,value}'::text[], pg_catalog.array_agg(ARRAY[@extschema@.pgqrs_html(text '%s', ARRAY[h.item]::text[]),
				CASE h.ok WHEN true THEN '<span class="b ok">ok</span>' WHEN false THEN '<span class="b bad">not ok</span>' ELSE '<span class="b">not known</span>' END,
				@extschema@.pgqrs_html(text '%s', ARRAY[h.value]::text[])]), text '') || '</details>'
	FROM @extschema@.pgqrs_health AS h;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_health() IS
'The items of pgqrs_health that need attention as a list, and all items as a table.';

CREATE FUNCTION @extschema@.pgqrs_html_figures(ready numeric, oldest_ready interval, in_flight numeric, delayed numeric, dead numeric, live_workers bigint) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT pg_catalog.format('<dl class="figures">%s</dl>', pg_catalog.string_agg(pg_catalog.format('<div><dt>%s</dt><dd%s>%s</dd></div>', f.name, f.class, f.value), ''))
	FROM (
		VALUES ('ready', '', COALESCE(ready, 0)::text), ('oldest ready', '', COALESCE(@extschema@.pgqrs_html_duration(oldest_ready), '&#8211;')),
			('in flight', '', COALESCE(in_flight, 0)::text), ('delayed or waiting', '', COALESCE(delayed, 0)::text),
			('dead', CASE WHEN dead > 0 THEN ' class="bad"' END, COALESCE(dead, 0)::text),
			('live workers', '', live_workers::text)
	) AS f (name, class, value)
	WHERE f.value IS NOT NULL;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_figures(numeric, interval, numeric, numeric, numeric, bigint) IS
'Sums over queues as a row of figures; NULL is 0 for messages, and leaves out the live workers.';

CREATE FUNCTION @extschema@.pgqrs_html_workflows(is_linked boolean) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT @extschema@.pgqrs_html_table('{workflow,success,#median,#95 %,#queued,#running,#paused,#failed,#retries}'::text[], pg_catalog.array_agg(ARRAY[
			CASE WHEN is_linked THEN @extschema@.pgqrs_html_link(text 'runs', pg_catalog.jsonb_build_object('workflow', w.workflow), w.workflow) ELSE @extschema@.pgqrs_html(text '%s', ARRAY[w.workflow]::text[]) END
				|| CASE WHEN w.live_workers = 0 AND w.queued + w.running + w.paused > 0 THEN ' ' || @extschema@.pgqrs_html_status(text 'unserved') ELSE '' END,
			CASE WHEN w.success + w.error > 0 THEN pg_catalog.format('<svg class="rate" role="img" viewBox="0 0 100 10" preserveAspectRatio="none"><title>%s %% succeeded</title><rect class="f2" width="100" height="10"/><rect class="f6" width="%1$s" height="10"/></svg>%1$s %%',
				pg_catalog.floor(100.0 * w.success / (w.success + w.error))) END,
			@extschema@.pgqrs_html_duration(w.p50_duration), @extschema@.pgqrs_html_duration(w.p95_duration),
			w.queued::text, w.running::text, w.paused::text,
			CASE WHEN w.error > 0 THEN pg_catalog.format('<span class="bad">%s</span>', w.error) ELSE '0' END, w.retries::text]
				ORDER BY w.workflow), text 'There is no workflow.')
	FROM (
		SELECT w.workflow, s.*
		FROM @extschema@.pgqrs_workflows_list AS w
			CROSS JOIN LATERAL @extschema@.pgqrs_count_runs(w.workflow_id) AS s
		ORDER BY s.queued + s.running + s.paused DESC, s.error DESC, w.workflow
		LIMIT 50
	) AS w;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_workflows(boolean) IS
'A table of 50 workflows, those with most live runs first. unserved: it has live runs and no live worker may claim them. is_linked: they are links.';

CREATE FUNCTION @extschema@.pgqrs_html_live_runs(is_linked boolean) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT @extschema@.pgqrs_html_table('{run,workflow,state,step,#for,continues}'::text[], pg_catalog.array_agg(ARRAY[
			CASE WHEN is_linked THEN @extschema@.pgqrs_html_link(text 'run', pg_catalog.jsonb_build_object('run', r.run_id), r.run_id::text) ELSE r.run_id::text END,
			@extschema@.pgqrs_html(text '%s', ARRAY[r.workflow]::text[]),
			pg_catalog.concat(@extschema@.pgqrs_html_status(CASE r.state WHEN 'parked' THEN 'waiting' ELSE r.state END),
				@extschema@.pgqrs_html(text '<span class="sub">%s</span>', ARRAY[COALESCE('for ' || r.waiting_for, 'by ' || r.worker)]::text[])),
			@extschema@.pgqrs_html(text '%s', ARRAY[r.step_id]::text[]),
			@extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(r.since, c.now)),
			CASE WHEN r.visible_after > c.now THEN 'in ' || @extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(c.now, r.visible_after)) END]
				ORDER BY r.run_id), text 'No run is live.')
	FROM (SELECT @extschema@.pgqrs_now() AS now OFFSET 0) AS c
		CROSS JOIN (SELECT r.* FROM @extschema@.pgqrs_live_runs AS r ORDER BY r.run_id LIMIT 20) AS r;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_live_runs(boolean) IS
'A table of the oldest 20 live runs, those that wait included. is_linked: they are links.';

-- In each queue the view has the latest first, and the lateral subquery ends there.
CREATE FUNCTION @extschema@.pgqrs_html_letters(
	queue text, page_size integer, OUT message_id bigint, OUT queue_name text, OUT run_id bigint,
	OUT attempt integer, OUT archived_at timestamptz, OUT cause text, OUT error text
) RETURNS SETOF record
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT l.message_id, l.queue, l.run_id, l.attempt, l.archived_at,
		COALESCE(l.last_error ->> 'type', @extschema@.pgqrs_html_error(l.last_error)), @extschema@.pgqrs_html_error(l.last_error)
	FROM (
		SELECT s.queue FROM @extschema@.pgqrs_queue_stats AS s WHERE s.dead > 0 AND (s.queue = pgqrs_html_letters.queue OR pgqrs_html_letters.queue IS NULL)
		ORDER BY s.queue LIMIT 500
	) AS q
		CROSS JOIN LATERAL (SELECT l.* FROM @extschema@.pgqrs_dead_letters AS l WHERE l.queue = q.queue LIMIT GREATEST(page_size, 0)) AS l;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_letters(text, integer) IS
'The newest dead letters of a queue, or of each queue, so many at most, with their cause and error in one line.';

CREATE FUNCTION @extschema@.pgqrs_report() RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	WITH clock AS MATERIALIZED (
		SELECT @extschema@.pgqrs_now() AS now
	), queues AS MATERIALIZED (
		SELECT s.* FROM @extschema@.pgqrs_queue_stats AS s
	), workers AS MATERIALIZED (
		SELECT w.worker AS name, w.owner, w.hostname, w.version, w.queues, w.max_concurrent, w.stopped_at, w.status, w.in_flight + w.expired AS holds,
			w.stopped_at IS NULL AND @extschema@.pgqrs_elapsed(w.heartbeat_at, c.now) > pg_catalog.current_setting('pgqrs.worker_timeout')::interval AS silent,
			@extschema@.pgqrs_elapsed(w.heartbeat_at, c.now) AS heard
		FROM clock AS c CROSS JOIN @extschema@.pgqrs_worker_stats AS w
		WHERE w.stopped_at IS NULL OR w.stopped_at > c.now - interval '1 hour'
		ORDER BY w.stopped_at DESC NULLS FIRST, w.worker
		LIMIT 50
	), letters AS MATERIALIZED (
		SELECT l.* FROM @extschema@.pgqrs_html_letters(NULL::text, 100) AS l ORDER BY l.archived_at DESC LIMIT 1000
	), newest AS (
		-- a window of ids bounds the search of a role that may read few of the runs
		SELECT r.run_id, r.workflow, r.status, r.waiting_for, r.attempt, r.started_at, r.completed_at
		FROM @extschema@.pgqrs_list_runs(NULL::text, NULL::text, NULL::jsonb, NULL::bigint, 1) AS l
			CROSS JOIN LATERAL (
				SELECT r.run_id, r.workflow, r.status, r.waiting_for, r.attempt, r.started_at, r.completed_at
				FROM @extschema@.pgqrs_runs AS r
				WHERE r.run_id > l.run_id - 50000 AND r.deleted_at IS NULL
				ORDER BY r.run_id DESC
				LIMIT 5000
			) AS r
	)
	SELECT @extschema@.pgqrs_html_page('pgqrs: ' || pg_catalog.current_database(), c.now,
		@extschema@.pgqrs_html(text '<header><h1>%s</h1><p class="soft">Queues and workflows at %s</p>'
			'<nav aria-label="Sections"><a href="#health">Health</a><a href="#hour">Last hour</a><a href="#queues">Queues</a><a href="#workflows">Workflows</a>'
			'<a href="#live">Live runs</a><a href="#slow">Slowest runs</a><a href="#failing">Failures</a><a href="#letters">Dead letters</a><a href="#workers">Workers</a><a href="#schedules">Schedules</a></nav></header><main>', ARRAY[
			pg_catalog.current_database(), pg_catalog.to_char(c.now, 'YYYY-MM-DD HH24:MI:SS TZ')]::text[])

		|| '<h2 id="health">Health</h2>' || @extschema@.pgqrs_html_health()
		|| (SELECT @extschema@.pgqrs_html_figures(pg_catalog.sum(q.ready), pg_catalog.max(q.oldest_ready_age), pg_catalog.sum(q.in_flight), pg_catalog.sum(q.delayed), pg_catalog.sum(q.dead),
				(SELECT pg_catalog.count(*) FROM workers AS w WHERE w.stopped_at IS NULL AND NOT w.silent))
			FROM queues AS q)

		|| CASE WHEN pg_catalog.has_table_privilege('@extschema@.pgqrs_archive'::pg_catalog.regclass, 'SELECT') THEN @extschema@.pgqrs_report_hour(c.now) ELSE '' END

		|| '<h2 id="queues">Queues<small>those with most to do first, 100 at most</small></h2>'
		|| (SELECT @extschema@.pgqrs_html_table('{queue,#ready,#oldest ready,#in flight,#delayed,#dead}'::text[], pg_catalog.array_agg(ARRAY[
					@extschema@.pgqrs_html(text '%s ', ARRAY[q.queue]::text[]) || CASE WHEN q.paused THEN @extschema@.pgqrs_html_status(text 'paused') ELSE '' END
						|| CASE WHEN q.is_workflow THEN '<span class="sub">workflow</span>' ELSE '' END,
					q.ready::text, @extschema@.pgqrs_html_duration(q.oldest_ready_age), q.in_flight::text, q.delayed::text,
					CASE WHEN q.dead > 0 THEN pg_catalog.format('<span class="bad">%s</span>', q.dead) ELSE '0' END]), text 'There is no queue.')
			FROM (SELECT * FROM queues AS q ORDER BY q.ready + q.in_flight + q.dead DESC, q.queue LIMIT 100) AS q)

		|| '<h2 id="workflows">Workflows<small>by their 100 newest runs each that ended, 50 at most</small></h2>'
		|| @extschema@.pgqrs_html_workflows(false)

		|| '<h2 id="live">Live runs<small>the oldest 20</small></h2>'
		|| @extschema@.pgqrs_html_live_runs(false)

		|| '<h2 id="slow">Slowest runs<small>of the 5000 newest, from their first claim on</small></h2>'
		|| (SELECT @extschema@.pgqrs_html_table('{run,workflow,status,#time,#claims,started}'::text[], pg_catalog.array_agg(ARRAY[
					r.run_id::text, @extschema@.pgqrs_html(text '%s', ARRAY[r.workflow]::text[]), pg_catalog.concat(@extschema@.pgqrs_html_status(r.status), @extschema@.pgqrs_html(text '<span class="sub">%s</span>', ARRAY[r.waiting_for]::text[])),
					@extschema@.pgqrs_html_duration(r.took), r.attempt::text, pg_catalog.to_char(r.started_at, 'MM-DD HH24:MI:SS')] ORDER BY r.took DESC), text 'No run has started.')
			FROM (
				SELECT r.run_id, r.workflow, r.status, r.waiting_for, r.attempt, r.started_at, @extschema@.pgqrs_elapsed(r.started_at, COALESCE(r.completed_at, c.now)) AS took
				FROM newest AS r
				WHERE r.started_at IS NOT NULL
				ORDER BY took DESC
				LIMIT 10
			) AS r)

		|| '<h2 id="failing">Failures<small>by cause, of the newest 100 dead letters of each queue, 1000 in all</small></h2>'
		|| (SELECT @extschema@.pgqrs_html_table('{cause,queue,#dead,#newest,latest error}'::text[], pg_catalog.array_agg(ARRAY[
					@extschema@.pgqrs_html(text '%s', ARRAY[COALESCE(pg_catalog.left(l.cause, 100), 'unknown')]::text[]), @extschema@.pgqrs_html(text '%s', ARRAY[l.queue]::text[]), l.count::text, @extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(l.newest, c.now)) || ' ago',
					@extschema@.pgqrs_html(text '%s', ARRAY[l.error]::text[])] ORDER BY l.count DESC, l.newest DESC), text 'Nothing failed for good.')
			FROM (
				SELECT l.queue_name AS queue, l.cause, pg_catalog.count(*) AS count, pg_catalog.max(l.archived_at) AS newest, (pg_catalog.array_agg(l.error ORDER BY l.archived_at DESC))[1] AS error
				FROM letters AS l
				GROUP BY l.queue_name, l.cause
				ORDER BY pg_catalog.count(*) DESC, pg_catalog.max(l.archived_at) DESC
				LIMIT 15
			) AS l)

		|| '<h2 id="letters">Dead letters<small>the newest 15; pgqrs_replay_message() gives one another chance</small></h2>'
		|| (SELECT @extschema@.pgqrs_html_table('{message,queue,#died,#claims,error}'::text[], pg_catalog.array_agg(ARRAY[
					CASE WHEN l.run_id IS NULL THEN '' ELSE 'run ' END || l.message_id,
					@extschema@.pgqrs_html(text '%s', ARRAY[l.queue]::text[]), @extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(l.archived_at, c.now)) || ' ago', l.attempt::text,
					@extschema@.pgqrs_html(text '%s', ARRAY[l.error]::text[])] ORDER BY l.archived_at DESC), text 'There are no dead letters.')
			FROM (SELECT l.*, l.queue_name AS queue FROM letters AS l ORDER BY l.archived_at DESC LIMIT 15) AS l)

		|| '<h2 id="workers">Workers<small>live, or stopped within the hour; 50 at most</small></h2>'
		|| (SELECT @extschema@.pgqrs_html_table('{worker,status,#holds,#heard of,version,queues}'::text[], pg_catalog.array_agg(ARRAY[
					@extschema@.pgqrs_html(text '%s<span class="sub">%s</span>', ARRAY[w.name, pg_catalog.concat_ws(' on ', w.owner, w.hostname)]::text[]),
					@extschema@.pgqrs_html_status(CASE WHEN w.silent THEN 'silent' ELSE w.status END),
					pg_catalog.concat_ws(' of ', w.holds, w.max_concurrent), @extschema@.pgqrs_html_duration(w.heard) || ' ago', @extschema@.pgqrs_html(text '%s', ARRAY[w.version]::text[]),
					@extschema@.pgqrs_html(text '%s', ARRAY[pg_catalog.array_to_string(w.queues[1:20], ', ')]::text[])] ORDER BY w.stopped_at DESC NULLS FIRST, w.name), text 'There is no worker.')
			FROM workers AS w)

		|| '<h2 id="schedules">Schedules<small>the next first, 50 at most</small></h2>'
		|| (SELECT @extschema@.pgqrs_html_table('{schedule,workflow,when,last run,next}'::text[], pg_catalog.array_agg(ARRAY[
					@extschema@.pgqrs_html(text '%s ', ARRAY[s.name]::text[]) || CASE WHEN s.enabled THEN '' ELSE @extschema@.pgqrs_html_status(text 'paused') END, @extschema@.pgqrs_html(text '%s', ARRAY[s.workflow]::text[]),
					@extschema@.pgqrs_html(text '<code>%s</code> <span class="sub">%s</span>', ARRAY[s.cron, s.timezone]::text[]),
					pg_catalog.concat(s.last_run_id || ' ', @extschema@.pgqrs_html_status(s.last_status), @extschema@.pgqrs_html(text '<span class="sub">%s ago</span>', ARRAY[@extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(s.last_fired_at, c.now))]::text[])),
					@extschema@.pgqrs_html(text 'in %s<span class="sub">%s</span>', ARRAY[@extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(c.now, s.next_fire_at)), pg_catalog.to_char(s.next_fire_at, 'MM-DD HH24:MI')]::text[])]
						ORDER BY s.next_fire_at, s.name), text 'There is no schedule.')
			FROM (SELECT * FROM @extschema@.pgqrs_schedule_list AS s ORDER BY s.next_fire_at, s.name LIMIT 50) AS s)
		|| '</main>')
	FROM clock AS c;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_report() IS
'The state of the queues and workflows of this database as one self-contained HTML page: psql -XAtqc ''SELECT pgqrs_report()'' > report.html. Shows what the current role may read; the plots of the last hour only to the extension''s owner and superusers. Needs read, trigger, work or admin on any name.';

-- Additional parents are found by their own index; LIMIT keeps the views out of joins.
-- Children are counted only where some are left out.
CREATE FUNCTION @extschema@.pgqrs_html_family(run_id bigint, is_linked boolean, from_child bigint) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	WITH RECURSIVE tree (run_id, parent_step_id, depth, path) AS (
		SELECT r.run_id, NULL::text, 0, ARRAY[r.run_id] FROM @extschema@.pgqrs_get_run(run_id) AS r
		UNION ALL
		SELECT p.run_id, p.parent_step_id, t.depth + 1, t.path || p.run_id
		FROM tree AS t
			CROSS JOIN LATERAL (
				SELECT p.run_id, p.parent_step_id FROM @extschema@.pgqrs_run_parents AS p
				WHERE p.parent_run_id = t.run_id AND p.run_id >= CASE t.depth WHEN 0 THEN COALESCE(from_child, 0) ELSE 0 END
				ORDER BY p.run_id LIMIT 50
			) AS p
		WHERE t.depth < 5 AND NOT p.run_id = ANY (t.path)
	), shown AS MATERIALIZED (
		SELECT t.* FROM tree AS t LIMIT 201
	), rows (depth, path, cells) AS (
		SELECT t.depth, t.path, ARRAY[
			CASE WHEN is_linked THEN @extschema@.pgqrs_html_link(text 'run', pg_catalog.jsonb_build_object('run', k.run_id), k.run_id::text) ELSE k.run_id::text END,
			@extschema@.pgqrs_html(text '%s', ARRAY[k.workflow]::text[]), pg_catalog.concat(@extschema@.pgqrs_html_status(k.status), @extschema@.pgqrs_html(text '<span class="sub">%s</span>', ARRAY['for ' || k.waiting_for]::text[])),
			@extschema@.pgqrs_html(text '%s', ARRAY[t.parent_step_id]::text[]),
			@extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(k.created_at, COALESCE(k.completed_at, @extschema@.pgqrs_now())))]
		FROM shown AS t
			CROSS JOIN LATERAL (
				SELECT k.run_id, k.workflow, k.status, k.waiting_for, k.created_at, k.completed_at FROM @extschema@.pgqrs_runs AS k WHERE k.run_id = t.run_id LIMIT 1
			) AS k
		WHERE t.depth > 0
		UNION ALL
		SELECT t.depth + 1, t.path || 9223372036854775807, ARRAY[(
			SELECT CASE WHEN is_linked THEN @extschema@.pgqrs_html_link(text 'run', pg_catalog.jsonb_build_object('run', t.run_id, 'child', l.first), l.label) ELSE l.label END
			FROM (SELECT l.first, pg_catalog.format('%s more', CASE WHEN l.n < l.most THEN l.n::text ELSE 'over ' || (l.most - 1) END) AS label) AS l), NULL, NULL, NULL, NULL]
		FROM (
			SELECT t.*, (SELECT pg_catalog.count(*) FROM shown AS s WHERE s.depth = t.depth + 1 AND s.path[t.depth + 1] = t.run_id AND s.path[:t.depth + 1] = t.path) AS children,
				(SELECT pg_catalog.max(s.run_id) FROM shown AS s WHERE s.depth = t.depth + 1 AND s.path[:t.depth + 1] = t.path) AS last_child,
				(SELECT pg_catalog.count(*) FROM shown) > 200 AS is_full
			FROM shown AS t
		) AS t
			CROSS JOIN LATERAL (
				SELECT pg_catalog.count(*) AS n, pg_catalog.min(p.run_id) AS first, m.most
				FROM (SELECT CASE t.depth WHEN 0 THEN 10001 ELSE 51 END AS most) AS m
					LEFT JOIN LATERAL (
						SELECT p.run_id FROM @extschema@.pgqrs_run_parents AS p WHERE p.parent_run_id = t.run_id AND p.run_id > COALESCE(t.last_child, 0) AND NOT p.run_id = ANY (t.path)
						ORDER BY p.run_id LIMIT m.most
					) AS p ON true
				WHERE p.run_id IS NOT NULL
				GROUP BY m.most
			) AS l
		WHERE t.children = 50 OR t.depth = 5 OR t.is_full
	)
	SELECT COALESCE((SELECT '<h2>Children<small>to the fifth generation, 50 of each run, 200 in all</small></h2>'
			|| CASE WHEN from_child > 0 AND is_linked THEN @extschema@.pgqrs_html(text '<p class="pages"><a href="run?run=%s">First children</a></p>', ARRAY[run_id::text]::text[]) ELSE '' END
			|| @extschema@.pgqrs_html_table('{run,workflow,status,step,#time}'::text[],
				pg_catalog.array_agg(ARRAY[pg_catalog.format('<span class="d%s">%s</span>', r.depth, r.cells[1])] || r.cells[2:] ORDER BY r.path), text '')
		FROM rows AS r
		HAVING pg_catalog.count(*) > 0), '');
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_family(bigint, boolean, bigint) IS
'The children of a run and theirs, as a table that shows the tree and how many are left out; empty without children. is_linked: they are links; from_child: without the children that have a lesser id. Errors: PQ003 no such run.';

CREATE FUNCTION @extschema@.pgqrs_html_run(run_id bigint, is_linked boolean, from_child bigint) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	WITH run AS MATERIALIZED (
		SELECT r.*, c.now, COALESCE(r.completed_at, c.now) AS until,
			GREATEST(extract(epoch FROM @extschema@.pgqrs_elapsed(r.created_at, COALESCE(r.completed_at, c.now)))::float8, 0.000001) AS seconds
		FROM @extschema@.pgqrs_get_run(run_id) AS r CROSS JOIN (SELECT @extschema@.pgqrs_now() AS now) AS c
	), lines AS MATERIALIZED (
		SELECT 0 AS place, 'until its first claim' AS name, NULL AS kind, NULL AS status, NULL AS what, r.created_at AS since, COALESCE(r.started_at, r.until) AS until,
			'f3' AS class, NULL::jsonb AS error, NULL::jsonb AS history, false AS undo
		FROM run AS r
		UNION ALL
		SELECT pg_catalog.row_number() OVER (ORDER BY s.started_at, s.step_id), s.step_id, s.kind, s.status,
			CASE WHEN s.kind = 'FUNCTION' THEN pg_catalog.concat_ws(', ',
					CASE WHEN s.attempt > 1 THEN s.attempt || ' attempts' END, CASE WHEN s.failures > 0 THEN s.failures || ' failed' END)
				ELSE s.reason #>> '{}' END,
			s.started_at, COALESCE(s.completed_at, r.until),
			CASE WHEN s.status = 'ERROR' THEN 'f2' WHEN s.kind = 'FUNCTION' THEN 'f1' WHEN s.kind = 'CHILD' THEN 'f6' ELSE 'f5' END,
			s.error, s.history, s.undo
		FROM run AS r
			CROSS JOIN LATERAL (
				SELECT s.* FROM @extschema@.pgqrs_steps AS s WHERE s.run_id = r.run_id ORDER BY s.started_at, s.step_id LIMIT 500
			) AS s
	)
	SELECT (SELECT '<dl class="facts">' || pg_catalog.string_agg(@extschema@.pgqrs_html(text '<div><dt>%s</dt><dd>%s</dd></div>', ARRAY[f.name, pg_catalog.left(f.value, 300)]::text[]), '') || '</dl>'
			FROM (
				VALUES ('triggered', pg_catalog.to_char(r.created_at, 'YYYY-MM-DD HH24:MI:SS TZ')),
					('took', CASE WHEN r.completed_at IS NOT NULL THEN @extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(r.created_at, r.until)) END),
					('goes on for', CASE WHEN r.completed_at IS NULL THEN @extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(r.created_at, r.until)) END),
					('ended', pg_catalog.to_char(r.completed_at, 'YYYY-MM-DD HH24:MI:SS TZ')),
					('waits for', r.waiting_for),
					('work continues, or the lease ends', pg_catalog.to_char(r.visible_after, 'YYYY-MM-DD HH24:MI:SS TZ')),
					('deadline', pg_catalog.to_char(r.deadline_at, 'YYYY-MM-DD HH24:MI:SS TZ')),
					('claims', r.attempt::text), ('failures', NULLIF(r.failures, 0)::text), ('crashes', NULLIF(r.crashes, 0)::text),
					('worker', r.worker || COALESCE(', version ' || r.worker_version, '')),
					('priority', NULLIF(r.priority, 0)::text), ('idempotency key', r.idempotency_key), ('tags', r.tags::text),
					('child of run', (SELECT p.run_id || ', step ' || r.parent_step_id FROM @extschema@.pgqrs_runs AS p WHERE p.run_id = r.parent_run_id)),
					('rerun of run', (SELECT p.run_id::text FROM @extschema@.pgqrs_runs AS p WHERE p.run_id = r.rerun_of)),
					('slot of its schedule', pg_catalog.to_char(r.schedule_slot, 'YYYY-MM-DD HH24:MI TZ')),
					('cancellation', pg_catalog.to_char(r.cancel_requested_at, 'YYYY-MM-DD HH24:MI:SS TZ') || COALESCE(': ' || r.cancel_reason, '')),
					('undo', CASE WHEN r.completed_at IS NULL THEN (
							SELECT 'its steps are to be undone, for a ' || l.undo_cause FROM @extschema@.pgqrs_live_runs AS l WHERE l.run_id = r.run_id
						) WHEN EXISTS (SELECT FROM lines AS l WHERE l.undo) THEN 'its steps were undone, for a ' || CASE r.status WHEN 'ERROR' THEN 'timeout' ELSE 'cancel' END END),
					('deleted', pg_catalog.to_char(r.deleted_at, 'YYYY-MM-DD HH24:MI:SS TZ') || COALESCE(': ' || r.delete_reason, ''))
			) AS f (name, value)
			WHERE f.value IS NOT NULL)
		|| COALESCE(@extschema@.pgqrs_html(text '<h2 class="bad">Error</h2><pre>%s</pre>', ARRAY[@extschema@.pgqrs_html_json(r.error)]::text[]), '')

		|| '<h2>Steps<small>the first 500, in the order of their start; red marks are failures, the last ten of each</small></h2><ol class="line">'
		|| (SELECT pg_catalog.string_agg(@extschema@.pgqrs_html(text '<li><div><strong>%s</strong> ', ARRAY[l.name]::text[])
					|| pg_catalog.concat(@extschema@.pgqrs_html_status(l.status), CASE WHEN l.undo THEN ' <span class="b warn">undo</span>' END, @extschema@.pgqrs_html(text '<span class="sub">%s</span>', ARRAY[pg_catalog.concat_ws(', ', pg_catalog.lower(l.kind), NULLIF(pg_catalog.left(l.what, 300), ''))]::text[]), '</div>')
					|| pg_catalog.format('<svg class="g" role="img" viewBox="0 0 1000 10" preserveAspectRatio="none"><title>after %s, for %s</title><rect class="%s" x="%s" width="%s" height="10"/>%s</svg>',
						@extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(r.created_at, l.since)), @extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(l.since, l.until)), l.class,
						pg_catalog.round(LEAST(b.x, 996)::numeric, 1), pg_catalog.round(GREATEST(LEAST(b.w, 1000 - b.x), 4)::numeric, 1),
						(SELECT pg_catalog.string_agg(pg_catalog.format('<rect class="f2" x="%s" width="4" height="10"/>',
								pg_catalog.round(LEAST(GREATEST(1000 * extract(epoch FROM @extschema@.pgqrs_elapsed(r.created_at, (h.value ->> 'at')::timestamptz))::float8 / r.seconds, 0), 996)::numeric, 1)), '')
							FROM pg_catalog.jsonb_array_elements(l.history) AS h (value)))
					|| pg_catalog.format('<div class="t">%s</div>', @extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(l.since, l.until)))
					|| COALESCE('<div class="e">' || (
							SELECT pg_catalog.string_agg(@extschema@.pgqrs_html(text '<p><span class="bad">attempt %s, after %s</span> %s</p>', ARRAY[h.value ->> 'attempt',
								@extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(r.created_at, (h.value ->> 'at')::timestamptz)), @extschema@.pgqrs_html_error(h.value -> 'error')]::text[]), '' ORDER BY h.n)
							FROM pg_catalog.jsonb_array_elements(l.history) WITH ORDINALITY AS h (value, n)) || '</div>',
						@extschema@.pgqrs_html(text '<div class="e"><p class="bad">%s</p></div>', ARRAY[@extschema@.pgqrs_html_error(l.error)]::text[]), '')
					|| '</li>', '' ORDER BY l.place)
			FROM lines AS l
				CROSS JOIN LATERAL (
					SELECT 1000 * extract(epoch FROM @extschema@.pgqrs_elapsed(r.created_at, l.since))::float8 / r.seconds AS x,
						1000 * extract(epoch FROM @extschema@.pgqrs_elapsed(l.since, l.until))::float8 / r.seconds AS w
				) AS b)
		|| '</ol>' || CASE WHEN (SELECT pg_catalog.count(*) FROM lines) > 1 THEN '' ELSE '<p class="soft">No step has begun.</p>' END

		|| @extschema@.pgqrs_html_family(r.run_id, is_linked, from_child)

		|| COALESCE((SELECT '<h2>Reruns<small>the first 50</small></h2>' || @extschema@.pgqrs_html_table('{run,status,triggered,#time}'::text[], pg_catalog.array_agg(ARRAY[
					CASE WHEN is_linked THEN @extschema@.pgqrs_html_link(text 'run', pg_catalog.jsonb_build_object('run', n.run_id), n.run_id::text) ELSE n.run_id::text END,
					pg_catalog.concat(@extschema@.pgqrs_html_status(n.status), @extschema@.pgqrs_html(text '<span class="sub">%s</span>', ARRAY[@extschema@.pgqrs_html_error(n.error)]::text[])),
					pg_catalog.to_char(n.created_at, 'YYYY-MM-DD HH24:MI:SS'),
					@extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(n.created_at, COALESCE(n.completed_at, r.now)))] ORDER BY n.run_id), text '')
			FROM (
				SELECT n.run_id, n.status, n.error, n.created_at, n.completed_at FROM @extschema@.pgqrs_runs AS n WHERE n.rerun_of = r.run_id ORDER BY n.run_id LIMIT 50
			) AS n
			HAVING pg_catalog.count(*) > 0), '')

		|| COALESCE((SELECT '<h2>Signals<small>the first 100</small></h2>' || @extschema@.pgqrs_html_table('{signal,sent,consumed by,payload}'::text[], pg_catalog.array_agg(ARRAY[
					@extschema@.pgqrs_html(text '%s', ARRAY[s.name]::text[]), pg_catalog.to_char(s.sent_at, 'YYYY-MM-DD HH24:MI:SS'),
					COALESCE(@extschema@.pgqrs_html(text 'step %s', ARRAY[s.consumed_by]::text[]), '<span class="b warn">no step</span>'),
					@extschema@.pgqrs_html(text '<code>%s</code>', ARRAY[pg_catalog.left(s.payload::text, 300)]::text[])] ORDER BY s.signal_id), text '')
			FROM (
				SELECT s.signal_id, s.name, s.sent_at, s.consumed_by, s.payload FROM @extschema@.pgqrs_sent_signals AS s WHERE s.run_id = r.run_id
				UNION ALL
				SELECT NULL, s.name, s.sent_at, NULL, s.payload FROM @extschema@.pgqrs_signals AS s WHERE s.run_id = r.run_id AND s.signal_id IS NULL
				ORDER BY signal_id LIMIT 100
			) AS s
			HAVING pg_catalog.count(*) > 0), '')

		|| COALESCE((SELECT '<h2>Events<small>while pgqrs.audit was on, the first 200</small></h2>' || @extschema@.pgqrs_html_table('{event,at,#after,data}'::text[], pg_catalog.array_agg(ARRAY[
					@extschema@.pgqrs_html(text '%s', ARRAY[e.event]::text[]), pg_catalog.to_char(e.at, 'YYYY-MM-DD HH24:MI:SS.MS'), @extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(r.created_at, e.at)),
					@extschema@.pgqrs_html(text '<code>%s</code>', ARRAY[pg_catalog.left(e.data::text, 300)]::text[])] ORDER BY e.event_id), text '')
			FROM (
				SELECT e.* FROM @extschema@.pgqrs_events AS e WHERE e.run_id = r.run_id ORDER BY e.event_id LIMIT 200
			) AS e
			HAVING pg_catalog.count(*) > 0), '')

		|| COALESCE((SELECT pg_catalog.string_agg(@extschema@.pgqrs_html(text '<h2>%s</h2><pre tabindex="0">%s</pre>', ARRAY[d.name, @extschema@.pgqrs_html_json(d.value)]::text[]), '' ORDER BY d.n)
			FROM (VALUES (1, 'Input', r.input), (2, 'Progress', r.progress), (3, 'Output', r.output)) AS d (n, name, value)
			WHERE d.value IS NOT NULL), '')
	FROM run AS r;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_run(bigint, boolean, bigint) IS
'The sections of the page of a run. is_linked: other runs are links; from_child: as of pgqrs_html_family(). Errors: PQ003 no such run.';

CREATE FUNCTION @extschema@.pgqrs_report_run(run_id bigint) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT @extschema@.pgqrs_html_page(pg_catalog.format('Run %s of %s', r.run_id, r.workflow), @extschema@.pgqrs_now(),
		@extschema@.pgqrs_html(text '<header><h1>Run %s </h1><p class="soft">%s ', ARRAY[r.run_id::text, r.workflow]::text[]) || @extschema@.pgqrs_html_status(r.status)
			|| '</p></header><main>' || @extschema@.pgqrs_html_run(r.run_id, false, NULL::bigint) || '</main>')
	FROM @extschema@.pgqrs_get_run(run_id) AS r;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_report_run(bigint) IS
'One run as an HTML page: its steps, attempts, waits and errors on a time line, undo, signals, children, reruns, and its events while pgqrs.audit was on: psql -XAtqc ''SELECT pgqrs_report_run(1)'' > run.html. Needs read, trigger, work or admin on its workflow. Errors: 22004, PQ003.';
-- Pages for a web server: it calls pgqrs_report_page() for what a browser asks for,
-- and executes what pgqrs_report_action() makes of a form.  pgqrs web is such a
-- server.  Addresses are relative, pages need no script, and none has a style of
-- its own, so that a strict Content-Security-Policy holds.
--
-- As for the reports: all values pass pgqrs_html() or pgqrs_html_url(), and every
-- query is bounded.

CREATE FUNCTION @extschema@.pgqrs_report_style() RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT @extschema@.pgqrs_html_style() || text '
.skip { position: absolute; left: -99em } .skip:focus { left: 12px; top: 8px; z-index: 2; padding: 6px 12px; background: var(--bg) }
a, button, summary { text-underline-offset: 3px } :focus-visible { outline: 2px solid var(--blue); outline-offset: 2px; border-radius: 2px }
body > header.site { max-width: none; margin: 0; padding: 0; border-bottom: 1px solid var(--line); background: var(--fill) }
header.site > div { max-width: 1160px; margin: 0 auto; padding: 10px clamp(16px, 3vw, 40px); display: flex; flex-wrap: wrap; gap: 4px 22px; align-items: baseline }
header.site strong { font-weight: 650; letter-spacing: -.01em } header.site nav { margin: 0; flex: 1 1 auto; gap: 4px 18px }
header.site > div > a { font-size: 14px } header.site a { text-decoration: none } header.site a:hover { text-decoration: underline } header.site a[aria-current] { color: var(--fg); font-weight: 600; border-bottom: 2px solid var(--blue) }
main { padding-top: clamp(18px, 2.5vw, 32px) !important } main h1 + p { margin-top: 2px } h1 .b { vertical-align: 6px } h1 code { font-size: inherit }
main > h2:first-child { margin-top: 0 } table + p, .pages { margin: 14px 0; display: flex; gap: 18px; flex-wrap: wrap }
@media (min-width: 1000px) { td:not(.n):not(.none) { min-width: 9em } } @media (min-width: 701px) { tbody tr:hover { background: var(--fill) } } .figures div:not(:first-child) { padding-left: 12px }
@media (max-width: 700px) { .figures div:nth-child(3n+1) { padding-left: 0 } .figures div:nth-child(5):last-child { grid-column: span 2 } }
.d2 { padding-left: 1.2em } .d3 { padding-left: 2.4em } .d4 { padding-left: 3.6em } .d5 { padding-left: 4.8em } .d6 { padding-left: 6em }
.d2::before, .d3::before, .d4::before, .d5::before, .d6::before { content: "- "; color: var(--grey) }
input, select, textarea, button { font: inherit; color: inherit; background: var(--bg); border: 1px solid var(--grey); border-radius: 4px; padding: 5px 9px; max-width: 100%; min-width: 0 } input, select { height: 36px } .filter input, .filter select { font-size: 14px } input[type="datetime-local"] { font-size: 13px; padding: 5px 6px }
textarea { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: 13px; min-height: 6em; resize: vertical } label { font-size: 13px; color: var(--soft); display: grid; gap: 3px; min-width: 0 } label > * { color: var(--fg) }
form.filter { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 150px), 1fr)); gap: 10px 14px; align-items: end; margin: 18px 0; padding: 14px; background: var(--fill); border-radius: 6px }
form.act { display: grid; gap: 14px; max-width: 680px; margin: 18px 0 } .buttons { display: flex; flex-wrap: wrap; gap: 10px; align-items: center } .filter .buttons { grid-column: 1 / -1 }
button { cursor: pointer; padding: 5px 16px } button.go { background: var(--blue); border-color: var(--blue); color: var(--bg); font-weight: 600 }
a.act { display: inline-block; padding: 2px 10px; border: 1px solid var(--grey); border-radius: 4px; font-size: 14px; text-decoration: none; white-space: nowrap } a.act:hover { border-color: var(--blue) }
.note { padding: 10px 14px; margin: 14px 0; background: var(--fill); border-left: 4px solid var(--amber); border-radius: 2px } .note.bad { border-left-color: var(--red); color: inherit } .note.ok { border-left-color: var(--green); color: inherit }
@media (max-width: 700px) { h1 .b { vertical-align: 3px } td .act { margin: 2px 0 } input, select, textarea { width: 100% } button { min-height: 40px } }
';
END;
COMMENT ON FUNCTION @extschema@.pgqrs_report_style() IS
'The style sheet of the pages of pgqrs_report_page(). Needs read, trigger, work or admin on any name. Errors: none.';

CREATE FUNCTION @extschema@.pgqrs_html_view(title text, page text, parameters jsonb, body text) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT @extschema@.pgqrs_html_document(title || ' - pgqrs',
		'<link rel="stylesheet" href="style.css"/>
' || CASE WHEN page IS NOT NULL AND parameters ->> 'refresh' = '5' THEN '<meta http-equiv="refresh" content="5"/>' ELSE '' END,
		'<header class="site"><div><a class="skip" href="#main">Skip to the page</a><strong>pgqrs</strong><nav aria-label="Pages">'
		|| (SELECT pg_catalog.string_agg(pg_catalog.format('<a href="%s"%s>%s</a>',
					@extschema@.pgqrs_html_url(n.page, pg_catalog.jsonb_build_object('refresh', parameters ->> 'refresh')),
					CASE WHEN n.page = pgqrs_html_view.page THEN ' aria-current="page"' END, n.title), '' ORDER BY n.n)
			FROM (VALUES (1, '.', 'Overview'), (2, 'queues', 'Queues'), (3, 'runs', 'Runs'), (4, 'workers', 'Workers'), (5, 'schedules', 'Schedules'), (6, 'dead', 'Dead letters')) AS n (n, page, title))
		|| '</nav>'
		|| CASE WHEN page IS NULL THEN ''
			WHEN parameters ->> 'refresh' = '5' THEN pg_catalog.format('<a href="%s">Refreshes every 5 s: stop</a>', @extschema@.pgqrs_html_url(page, parameters - 'refresh'))
			ELSE pg_catalog.format('<a href="%s">Refresh every 5 s</a>', @extschema@.pgqrs_html_url(page, COALESCE(parameters, '{}') || '{"refresh": "5"}')) END
		|| '</div></header>
<main id="main">' || body || '</main>'
		|| @extschema@.pgqrs_html(text '
<footer>pgqrs %s, database %s as role %s, at %s</footer>',
			ARRAY[@extschema@.pgqrs_version(), pg_catalog.current_database(), current_user, pg_catalog.to_char(@extschema@.pgqrs_now(), 'YYYY-MM-DD HH24:MI:SS TZ')]::text[]));
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_view(text, text, jsonb, text) IS
'The frame of a page of pgqrs_report_page(). page: its address, NULL if it must not be asked for again; body: HTML.';

-- What actions there are: the function that each calls, and the fields of its form with
-- the arguments that they become.  Functions and arguments that the installed version
-- does not have, and functions that the role may not call, are left out.
CREATE FUNCTION @extschema@.pgqrs_html_fields(
	action text, OUT function text, OUT place integer, OUT field text, OUT argument text, OUT kind text, OUT is_required boolean
) RETURNS SETOF record
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT ROWS 5
BEGIN ATOMIC
	SELECT a.function, f.place, f.field, f.argument, f.kind, f.is_required
	FROM (
		VALUES ('cancel', 'pgqrs_cancel_run'), ('replay', 'pgqrs_replay_message'), ('dismiss', 'pgqrs_dismiss_dead_letter'),
			('resume', 'pgqrs_resume_run'), ('signal', 'pgqrs_signal'), ('rerun', 'pgqrs_rerun'),
			('pause_queue', 'pgqrs_pause_queue'), ('resume_queue', 'pgqrs_resume_queue'), ('replay_queue', 'pgqrs_replay_queue'),
			('trigger_schedule', 'pgqrs_trigger_schedule'), ('enable_schedule', 'pgqrs_enable_schedule'),
			('cancel_runs', 'pgqrs_cancel_runs'), ('replay_runs', 'pgqrs_replay_runs'), ('rerun_runs', 'pgqrs_rerun_runs')
	) AS a (action, function)
		JOIN (
			VALUES ('{cancel,resume,signal,rerun}'::text[], 1, 'run', 'run_id', 'number', true),
				('{replay,dismiss}', 1, 'message', 'message_id', 'number', true),
				('{replay}', 2, 'payload', 'payload', 'json', false),
				('{resume}', 2, 'step', 'step_id', 'text', false),
				('{resume}', 3, 'output', 'output', 'json', false),
				('{signal}', 2, 'signal', 'signal', 'text', true),
				('{signal}', 3, 'payload', 'payload', 'json', false),
				('{rerun}', 2, 'from_step', 'from_step', 'text', false),
				('{rerun}', 3, 'input', 'input', 'json', false),
				('{pause_queue,resume_queue,replay_queue}', 1, 'queue', 'queue', 'text', true),
				('{trigger_schedule,enable_schedule}', 1, 'name', 'name', 'text', true),
				('{enable_schedule}', 2, 'enabled', 'enabled', 'boolean', true),
				('{cancel_runs,replay_runs,rerun_runs}', 1, 'workflow', 'workflow', 'text', true),
				('{cancel_runs,replay_runs,rerun_runs}', 2, 'status', 'status', 'text', false),
				('{cancel_runs,replay_runs,rerun_runs}', 3, 'tags', 'tags', 'tags', false),
				('{replay_runs,rerun_runs,replay_queue}', 4, 'error', 'error_type', 'text', false),
				('{cancel_runs,replay_runs,rerun_runs}', 5, 'after', 'created_after', 'time', false),
				('{cancel_runs,replay_runs,rerun_runs}', 6, 'before', 'created_before', 'time', false),
				('{cancel_runs,replay_runs,rerun_runs,replay_queue}', 7, 'number', 'max_rows', 'number', true),
				('{cancel,cancel_runs}', 8, 'reason', 'reason', 'text', false)
		) AS f (actions, place, field, argument, kind, is_required) ON a.action = ANY (f.actions)
		JOIN pg_catalog.pg_proc AS p ON p.proname = a.function AND p.pronamespace = '@extschema@'::pg_catalog.regnamespace
			AND f.argument = ANY (p.proargnames) AND pg_catalog.has_function_privilege(p.oid, 'EXECUTE')
	WHERE a.action = pgqrs_html_fields.action;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_fields(text) IS
'The fields of an action''s form; none if there is no such action or the current role may not call its function.';

CREATE FUNCTION @extschema@.pgqrs_html_act(action text, parameters jsonb, label text, csrf text) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT pg_catalog.format('<a class="act" href="%s">%s</a> ', @extschema@.pgqrs_html_url(text 'do', parameters || pg_catalog.jsonb_build_object('action', action)), label)
	WHERE csrf IS NOT NULL AND EXISTS (SELECT FROM @extschema@.pgqrs_html_fields(action));
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_act(text, jsonb, text, text) IS
'A link to the form of an action; NULL if the current role may not call its function, or there are no actions.';

CREATE FUNCTION @extschema@.pgqrs_html_tags(tags text) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT CASE WHEN tags LIKE '{%' THEN tags::jsonb
		WHEN tags LIKE '%=%' THEN pg_catalog.jsonb_build_object(pg_catalog.split_part(tags, '=', 1), pg_catalog.substr(tags, pg_catalog.strpos(tags, '=') + 1))
		WHEN tags <> '' THEN pg_catalog.to_jsonb(tags)
	END;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_tags(text) IS
'The tags that a field asks for: an object in JSON, or key=value. Errors: as of pgqrs_report_page().';

-- Ids follow the time of creation, so that a search by halves finds where an instant is.
CREATE FUNCTION @extschema@.pgqrs_html_runs_before(workflow text, instant timestamptz) RETURNS bigint
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	WITH RECURSIVE search (low, high) AS (
		SELECT bigint '0', COALESCE((SELECT r.run_id + 1 FROM @extschema@.pgqrs_list_runs(workflow, NULL::text, NULL::jsonb, NULL::bigint, 1) AS r), 0)
		UNION ALL
		SELECT CASE WHEN r.created_at >= instant THEN s.low ELSE s.middle + 1 END,
			CASE WHEN r.created_at >= instant THEN r.run_id ELSE s.high END
		FROM (SELECT s.low, s.high, s.low + (s.high - s.low) / 2 AS middle FROM search AS s WHERE s.low < s.high) AS s
			LEFT JOIN LATERAL @extschema@.pgqrs_list_runs(workflow, NULL::text, NULL::jsonb, s.middle + 1, 1) AS r ON true
	)
	SELECT pg_catalog.min(s.high) FROM search AS s WHERE instant IS NOT NULL;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_runs_before(text, timestamptz) IS
'The id that runs which were created before an instant are less than; NULL for NULL.';

CREATE FUNCTION @extschema@.pgqrs_html_matches(parameters jsonb, before_run_id bigint, page_size integer) RETURNS SETOF @extschema@.pgqrs_run
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT ROWS 50
BEGIN ATOMIC
	SELECT r.*
	FROM @extschema@.pgqrs_list_runs(NULLIF(parameters ->> 'workflow', ''), NULLIF(parameters ->> 'status', ''), @extschema@.pgqrs_html_tags(parameters ->> 'tags'),
			LEAST(before_run_id, @extschema@.pgqrs_html_runs_before(NULLIF(parameters ->> 'workflow', ''), NULLIF(parameters ->> 'before', '')::timestamptz)), page_size) AS r;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_matches(jsonb, bigint, integer) IS
'The newest runs that match the parameters workflow, status, tags and before of a page; the others are not looked at. Errors: as of pgqrs_report_page().';

-- Lists of runs have the newest 10000; an action changes the oldest that match.
CREATE FUNCTION @extschema@.pgqrs_html_count(parameters jsonb, OUT count bigint, OUT is_cut boolean) RETURNS record
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT LEAST(pg_catalog.count(*) FILTER (WHERE l.matches), 10000), COALESCE(pg_catalog.bool_or(l.n >= 10000), false)
	FROM (
		SELECT pg_catalog.count(*) OVER () AS n, COALESCE(parameters ->> 'error', '') = '' OR l.last_error ->> 'type' = parameters ->> 'error' AS matches
		FROM (
			SELECT l.last_error FROM @extschema@.pgqrs_dead_letters AS l WHERE l.queue = parameters ->> 'queue' AND parameters ->> 'action' = 'replay_queue' LIMIT 10000
		) AS l
		UNION ALL
		SELECT pg_catalog.count(*) OVER (PARTITION BY s.status),
			r.deleted_at IS NULL AND (COALESCE(parameters ->> 'error', '') = '' OR r.error ->> 'type' = parameters ->> 'error')
				AND (COALESCE(parameters ->> 'after', '') = '' OR r.created_at >= (parameters ->> 'after')::timestamptz)
		FROM (
			VALUES ('cancel_runs', '{"", QUEUED}'::text[], 'QUEUED'), ('cancel_runs', '{"", RUNNING}', 'RUNNING'), ('cancel_runs', '{"", PAUSED}', 'PAUSED'),
				('replay_runs', '{"", ERROR}', 'ERROR'),
				('rerun_runs', '{"", ERROR}', 'ERROR'), ('rerun_runs', '{SUCCESS}', 'SUCCESS'), ('rerun_runs', '{CANCELLED}', 'CANCELLED')
		) AS s (action, asked, status)
			CROSS JOIN LATERAL @extschema@.pgqrs_html_matches(parameters || pg_catalog.jsonb_build_object('status', s.status), NULL::bigint, 10000) AS r
		WHERE s.action = parameters ->> 'action' AND COALESCE(parameters ->> 'status', '') = ANY (s.asked)
	) AS l;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_count(jsonb) IS
'How many runs, or dead letters, that match the parameters an action would change; is_cut: there may be more than the 10000 that were looked at. Errors: as of pgqrs_report_page().';

--
-- Pages
--

CREATE FUNCTION @extschema@.pgqrs_html_overview(parameters jsonb, csrf text) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	WITH queues AS MATERIALIZED (
		SELECT s.queue, s.is_workflow, s.paused, s.ready, s.delayed, s.in_flight, s.dead, s.oldest_ready_age FROM @extschema@.pgqrs_queue_stats AS s
	)
	SELECT @extschema@.pgqrs_html_view(text 'Overview', text '.', parameters,
		@extschema@.pgqrs_html(text '<h1>%s</h1>', ARRAY[pg_catalog.current_database()]::text[])
		|| @extschema@.pgqrs_html_health()
		|| (SELECT @extschema@.pgqrs_html_figures(pg_catalog.sum(q.ready), pg_catalog.max(q.oldest_ready_age), pg_catalog.sum(q.in_flight), pg_catalog.sum(q.delayed), pg_catalog.sum(q.dead), NULL::bigint)
			FROM queues AS q)
		|| '<h2>Longest waits<small>queues whose oldest ready message is due for over a second, and why; 10 at most</small></h2>'
		|| (SELECT @extschema@.pgqrs_html_table('{queue,#ready,#oldest,why}'::text[], pg_catalog.array_agg(ARRAY[
					@extschema@.pgqrs_html_link(text 'queue', pg_catalog.jsonb_build_object('queue', q.queue), q.queue), q.ready::text, @extschema@.pgqrs_html_duration(q.oldest_ready_age),
					@extschema@.pgqrs_html(text '<strong>%s</strong> %s', ARRAY[w.reason, w.detail]::text[])] ORDER BY q.oldest_ready_age DESC), text 'Nothing waits.')
			FROM (SELECT q.* FROM queues AS q WHERE q.oldest_ready_age > '1 s' ORDER BY q.oldest_ready_age DESC LIMIT 10) AS q
				LEFT JOIN LATERAL (SELECT w.reason, w.detail FROM @extschema@.pgqrs_why(q.queue) AS w LIMIT 1) AS w ON true)
		|| '<h2>Newest failures<small>runs in ERROR, 10 at most</small></h2>'
		|| (SELECT @extschema@.pgqrs_html_table('{run,workflow,error,#ended}'::text[], pg_catalog.array_agg(ARRAY[
					@extschema@.pgqrs_html_link(text 'run', pg_catalog.jsonb_build_object('run', r.run_id), r.run_id::text), @extschema@.pgqrs_html(text '%s', ARRAY[r.workflow]::text[]),
					@extschema@.pgqrs_html(text '%s', ARRAY[@extschema@.pgqrs_html_error(r.error)]::text[]),
					@extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(r.completed_at, @extschema@.pgqrs_now())) || ' ago'] ORDER BY r.run_id DESC), text 'No run failed.')
			FROM @extschema@.pgqrs_list_runs(NULL::text, text 'ERROR', NULL::jsonb, NULL::bigint, 10) AS r)
		|| '<h2>Workflows<small>50 at most, by their 100 newest runs that ended</small></h2>' || @extschema@.pgqrs_html_workflows(true)
		|| '<h2>Oldest live runs<small>20 at most</small></h2>' || @extschema@.pgqrs_html_live_runs(true));
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_overview(jsonb, text) IS 'The first page: health, figures, what waits and why, failures, workflows.';

CREATE FUNCTION @extschema@.pgqrs_html_queues(parameters jsonb, csrf text) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT @extschema@.pgqrs_html_view(text 'Queues', text 'queues', parameters, '<h1>Queues</h1><p class="soft">Those of workflows included; those with most to do first, 200 at most.</p>'
		|| @extschema@.pgqrs_html(text '<form class="filter" action="queues"><label>name contains <input name="contains" value="%s"/></label><div class="buttons"><button>Filter</button></div></form>', ARRAY[COALESCE(parameters ->> 'contains', '')]::text[])
		|| (SELECT @extschema@.pgqrs_html_table('{queue,#ready,#oldest ready,#in flight,#delayed,#dead,#workers}'::text[], pg_catalog.array_agg(ARRAY[
				@extschema@.pgqrs_html_link(text 'queue', pg_catalog.jsonb_build_object('queue', q.queue), q.queue) || CASE WHEN q.paused THEN ' ' || @extschema@.pgqrs_html_status(text 'paused') ELSE '' END
					|| CASE WHEN q.is_workflow THEN '<span class="sub">workflow</span>' ELSE '' END,
				q.ready::text, @extschema@.pgqrs_html_duration(q.oldest_ready_age), q.in_flight::text, q.delayed::text,
				CASE WHEN q.dead > 0 THEN pg_catalog.format('<a class="bad" href="%s">%s</a>', @extschema@.pgqrs_html_url(text 'dead', pg_catalog.jsonb_build_object('queue', q.queue)), CASE WHEN q.dead >= 1000 THEN '1000 or more' ELSE q.dead::text END) ELSE '0' END,
				pg_catalog.format(CASE WHEN q.live_workers = 0 AND q.ready > 0 THEN '<span class="bad">%s</span>' ELSE '%s' END, q.live_workers)]
					ORDER BY q.ready + q.in_flight + q.dead DESC, q.queue), text 'There is no such queue.')
			FROM (
				SELECT s.*, @extschema@.pgqrs_live_workers(s.queue_id) AS live_workers
				FROM (
					SELECT s.queue_id, s.queue, s.is_workflow, s.paused, s.ready, s.delayed, s.in_flight, s.dead, s.oldest_ready_age
					FROM @extschema@.pgqrs_queue_stats AS s
					WHERE pg_catalog.strpos(s.queue, COALESCE(parameters ->> 'contains', '')) > 0
					ORDER BY s.ready + s.in_flight + s.dead DESC, s.queue
					LIMIT 200
				) AS s
			) AS q));
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_queues(jsonb, text) IS 'The page of queues.';

CREATE FUNCTION @extschema@.pgqrs_html_messages(queue text) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT @extschema@.pgqrs_html_table('{message,#priority,state,#age,#claims,#failures,payload}'::text[], pg_catalog.array_agg(ARRAY[
			CASE WHEN m.run_id IS NULL THEN m.message_id::text ELSE 'run ' || @extschema@.pgqrs_html_link(text 'run', pg_catalog.jsonb_build_object('run', m.run_id), m.run_id::text) END,
			m.priority::text,
			@extschema@.pgqrs_html_status(CASE WHEN m.leased AND m.visible_after > c.now THEN 'held' WHEN m.leased THEN 'expired' WHEN m.visible_after > c.now THEN 'delayed' ELSE 'ready' END)
				|| CASE WHEN m.visible_after > c.now THEN '<span class="sub">for ' || @extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(c.now, m.visible_after)) || '</span>' ELSE '' END,
			@extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(m.enqueued_at, c.now)), m.attempt::text, m.failures::text,
			CASE WHEN m.run_id IS NULL THEN @extschema@.pgqrs_html(text '<code>%s</code>', ARRAY[pg_catalog.left(@extschema@.pgqrs_html_json(m.payload), 300)]::text[]) END] ORDER BY m.n), text 'There is no message.')
	FROM (SELECT @extschema@.pgqrs_now() AS now OFFSET 0) AS c
		CROSS JOIN @extschema@.pgqrs_peek(queue, 20) WITH ORDINALITY AS m (message_id, priority, visible_after, enqueued_at, attempt, failures, leased, run_id, payload, headers, n);
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_messages(text) IS 'A table of the first messages of a queue. Errors: PQ001 no such queue.';

CREATE FUNCTION @extschema@.pgqrs_html_queue(parameters jsonb, csrf text) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT @extschema@.pgqrs_html_view(parameters ->> 'queue', text 'queue', parameters,
		(SELECT @extschema@.pgqrs_html(text '<h1>%s </h1>', ARRAY[q.queue]::text[])
				|| pg_catalog.format('<p class="soft">%s%s</p><p class="buttons">', CASE WHEN q.is_workflow THEN 'The queue of a workflow' ELSE 'A queue of messages' END,
					CASE WHEN q.paused_at IS NOT NULL THEN ' ' || @extschema@.pgqrs_html_status(text 'paused') ELSE '' END)
				|| pg_catalog.concat(CASE WHEN q.paused_at IS NULL THEN @extschema@.pgqrs_html_act(text 'pause_queue', o.o, text 'Pause', csrf)
						ELSE @extschema@.pgqrs_html_act(text 'resume_queue', o.o, text 'Resume', csrf) END,
					CASE WHEN q.is_workflow THEN @extschema@.pgqrs_html_link(text 'runs', pg_catalog.jsonb_build_object('workflow', q.queue), text 'Runs') || ' ' END,
					@extschema@.pgqrs_html_link(text 'dead', o.o, text 'Dead letters'))
				|| '</p>'
				|| '<h2>Why nothing is delivered<small>the most decisive reasons first</small></h2>'
				|| (SELECT @extschema@.pgqrs_html_table('{reason,detail,what to do}'::text[], pg_catalog.array_agg(ARRAY[@extschema@.pgqrs_html(text '%s', ARRAY[w.reason]::text[]),
							@extschema@.pgqrs_html(text '%s', ARRAY[w.detail]::text[]), @extschema@.pgqrs_html(text '%s', ARRAY[w.hint]::text[])] ORDER BY w.n), text 'No reason is known.')
					FROM @extschema@.pgqrs_why(q.queue) WITH ORDINALITY AS w (reason, detail, hint, n))
				|| '<h2>Settings</h2><dl class="facts">'
				|| (SELECT pg_catalog.string_agg(@extschema@.pgqrs_html(text '<div><dt>%s</dt><dd>%s</dd></div>', ARRAY[f.name, f.value]::text[]), '' ORDER BY f.n)
					FROM (
						VALUES (1, 'visibility timeout', @extschema@.pgqrs_html_duration(q.visibility_timeout)), (2, CASE WHEN q.is_workflow THEN 'max crashes' ELSE 'max attempts' END, q.max_attempts::text),
							(3, 'max in flight', COALESCE(q.max_in_flight::text, 'no limit')), (4, 'retention', @extschema@.pgqrs_html_duration(q.retention)),
							(5, 'retention of dead letters', @extschema@.pgqrs_html_duration(q.dead_retention)), (6, 'paused since', pg_catalog.to_char(q.paused_at, 'YYYY-MM-DD HH24:MI:SS TZ')),
							(7, 'created', pg_catalog.to_char(q.created_at, 'YYYY-MM-DD HH24:MI:SS TZ'))
					) AS f (n, name, value)
					WHERE f.value IS NOT NULL)
				|| '</dl>'
			FROM @extschema@.pgqrs_queues_list AS q
				CROSS JOIN LATERAL (SELECT pg_catalog.jsonb_build_object('queue', q.queue)) AS o (o)
			WHERE q.queue = parameters ->> 'queue')
		|| '<h2>Messages<small>the first 20 in the order of claims</small></h2>' || @extschema@.pgqrs_html_messages(parameters ->> 'queue'));
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_queue(jsonb, text) IS 'The page of a queue: why nothing is delivered, settings, the first messages; NULL if there is none. Errors: as of pgqrs_report_page().';

CREATE FUNCTION @extschema@.pgqrs_html_run_list(parameters jsonb) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	WITH looked AS MATERIALIZED (
		SELECT r.run_id, r.workflow, r.status, r.waiting_for, @extschema@.pgqrs_html_error(r.error) AS error, r.tags, r.attempt, r.created_at, r.started_at, r.completed_at,
			(COALESCE(parameters ->> 'error', '') = '' OR r.error ->> 'type' = parameters ->> 'error')
				AND (COALESCE(parameters ->> 'after', '') = '' OR r.created_at >= (parameters ->> 'after')::timestamptz) AS matches
		FROM @extschema@.pgqrs_html_matches(
				CASE WHEN COALESCE(parameters ->> 'error', '') <> '' AND COALESCE(parameters ->> 'status', '') = '' THEN parameters || '{"status": "ERROR"}' ELSE parameters END,
				(parameters ->> 'from')::bigint, CASE WHEN COALESCE(parameters ->> 'error', '') <> '' THEN 2000 ELSE 51 END) AS r
	), rows AS (
		SELECT l.* FROM looked AS l WHERE l.matches ORDER BY l.run_id DESC LIMIT 50
	)
	SELECT @extschema@.pgqrs_html_table('{run,workflow,status,tags,#claims,#triggered,#time}'::text[], pg_catalog.array_agg(ARRAY[
				@extschema@.pgqrs_html_link(text 'run', pg_catalog.jsonb_build_object('run', r.run_id), r.run_id::text), @extschema@.pgqrs_html(text '%s', ARRAY[r.workflow]::text[]),
				pg_catalog.concat(@extschema@.pgqrs_html_status(r.status), @extschema@.pgqrs_html(text '<span class="sub">%s</span>', ARRAY[COALESCE(r.error, 'for ' || r.waiting_for)]::text[])),
				@extschema@.pgqrs_html(text '<code>%s</code>', ARRAY[pg_catalog.left(r.tags::text, 100)]::text[]), r.attempt::text, pg_catalog.to_char(r.created_at, 'MM-DD HH24:MI:SS'),
				@extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(r.created_at, COALESCE(r.completed_at, @extschema@.pgqrs_now())))] ORDER BY r.run_id DESC), text 'No run matches.')
		|| '<p class="pages">'
		|| CASE WHEN parameters ->> 'from' <> '' THEN @extschema@.pgqrs_html_link(text 'runs', parameters - 'from', text 'Newest') ELSE '' END
		|| CASE WHEN (SELECT pg_catalog.count(*) FROM looked AS l WHERE l.matches) > 50 THEN @extschema@.pgqrs_html_link(text 'runs', parameters || pg_catalog.jsonb_build_object('from', pg_catalog.min(r.run_id)), text 'Older')
			WHEN (SELECT pg_catalog.count(*) FROM looked AS l) = 2000 THEN @extschema@.pgqrs_html_link(text 'runs', parameters || pg_catalog.jsonb_build_object('from', (SELECT pg_catalog.min(l.run_id) FROM looked AS l)), text 'Search older ones')
			ELSE '' END
		|| '</p>'
	FROM rows AS r;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_run_list(jsonb) IS 'A table of 50 runs, newest first, and links to other parts of the list. Errors: as of pgqrs_report_page().';

CREATE FUNCTION @extschema@.pgqrs_html_live_list(parameters jsonb) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	WITH asked AS (
		SELECT COALESCE(NULLIF(parameters ->> 'workflow', ''), '*') AS pattern, @extschema@.pgqrs_html_tags(parameters ->> 'tags') AS tags,
			NULLIF(parameters ->> 'after', '')::timestamptz AS after, NULLIF(parameters ->> 'before', '')::timestamptz AS before
	), looked AS MATERIALIZED (
		SELECT r.*, (a.pattern IN ('*', r.workflow) OR a.pattern LIKE '%.*' AND pg_catalog.starts_with(r.workflow, pg_catalog.left(a.pattern, -1)))
				AND (a.tags IS NULL OR r.tags @> a.tags) AND (a.after IS NULL OR r.created_at >= a.after) AND (a.before IS NULL OR r.created_at < a.before) AS matches
		FROM asked AS a
			CROSS JOIN (
				SELECT r.* FROM @extschema@.pgqrs_live_runs AS r WHERE r.run_id > COALESCE(NULLIF(parameters ->> 'from', '')::bigint, 0) ORDER BY r.run_id
				LIMIT CASE WHEN COALESCE(parameters ->> 'workflow', '') || COALESCE(parameters ->> 'tags', '') || COALESCE(parameters ->> 'after', '') || COALESCE(parameters ->> 'before', '') = '' THEN 51 ELSE 2000 END
			) AS r
	), rows AS (
		SELECT l.* FROM looked AS l WHERE l.matches ORDER BY l.run_id LIMIT 50
	)
	SELECT @extschema@.pgqrs_html_table('{run,workflow,state,step,#for,#crashes,tags,#triggered}'::text[], pg_catalog.array_agg(ARRAY[
				@extschema@.pgqrs_html_link(text 'run', pg_catalog.jsonb_build_object('run', r.run_id), r.run_id::text), @extschema@.pgqrs_html(text '%s', ARRAY[r.workflow]::text[]),
				pg_catalog.concat(@extschema@.pgqrs_html_status(CASE r.state WHEN 'parked' THEN 'waiting' ELSE r.state END),
					@extschema@.pgqrs_html(text '<span class="sub">%s</span>', ARRAY[COALESCE('for ' || r.waiting_for, 'by ' || r.worker)]::text[])),
				@extschema@.pgqrs_html(text '%s', ARRAY[r.step_id]::text[]), @extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(r.since, @extschema@.pgqrs_now())), r.crashes::text,
				@extschema@.pgqrs_html(text '<code>%s</code>', ARRAY[pg_catalog.left(r.tags::text, 100)]::text[]), pg_catalog.to_char(r.created_at, 'MM-DD HH24:MI:SS')] ORDER BY r.run_id), text 'No live run matches.')
		|| '<p class="pages">'
		|| CASE WHEN parameters ->> 'from' <> '' THEN @extschema@.pgqrs_html_link(text 'runs', parameters - 'from', text 'Oldest') ELSE '' END
		|| CASE WHEN (SELECT pg_catalog.count(*) FROM looked AS l WHERE l.matches) > 50 THEN @extschema@.pgqrs_html_link(text 'runs', parameters || pg_catalog.jsonb_build_object('from', pg_catalog.max(r.run_id)), text 'Newer')
			WHEN (SELECT pg_catalog.count(*) FROM looked AS l) = 2000 THEN @extschema@.pgqrs_html_link(text 'runs', parameters || pg_catalog.jsonb_build_object('from', (SELECT pg_catalog.max(l.run_id) FROM looked AS l)), text 'Search newer ones')
			ELSE '' END
		|| '</p>'
	FROM rows AS r;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_live_list(jsonb) IS 'A table of 50 live runs, oldest first, and links to other parts of the list. Errors: as of pgqrs_report_page().';

CREATE FUNCTION @extschema@.pgqrs_html_runs(parameters jsonb, csrf text) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT @extschema@.pgqrs_html_view(text 'Runs', text 'runs', parameters, '<h1>Runs</h1>'
		|| @extschema@.pgqrs_html(text '<form class="filter" action="runs"><label>workflow, or a pattern <input name="workflow" value="%s" placeholder="billing.*"/></label><label>status <select name="status">', ARRAY[COALESCE(parameters ->> 'workflow', '')]::text[])
		|| (SELECT pg_catalog.string_agg(pg_catalog.format('<option value="%s"%s>%s</option>', s.status, CASE WHEN s.status = COALESCE(parameters ->> 'status', '') THEN ' selected="selected"' END, s.label), '' ORDER BY s.n)
			FROM (VALUES (1, '', 'any'), (2, 'live', 'live, oldest first'), (3, 'QUEUED', 'QUEUED'), (4, 'RUNNING', 'RUNNING'), (5, 'PAUSED', 'PAUSED'), (6, 'SUCCESS', 'SUCCESS'), (7, 'ERROR', 'ERROR'), (8, 'CANCELLED', 'CANCELLED')) AS s (n, status, label))
		|| @extschema@.pgqrs_html(text '</select></label><label>tag <input name="tags" value="%s" placeholder="key=value"/></label><label>error type <input name="error" value="%s"/></label>'
				'<label>triggered from <input type="datetime-local" name="after" value="%s"/></label><label>and before, in %s <input type="datetime-local" name="before" value="%s"/></label>'
				'<div class="buttons"><button>Filter</button><a href="runs">All runs</a><a href="runs?status=live">Live runs</a><a href="runs?status=ERROR">Failed runs</a></div></form>', ARRAY[
			COALESCE(parameters ->> 'tags', ''), parameters ->> 'error', pg_catalog.to_char(NULLIF(parameters ->> 'after', '')::timestamptz, 'YYYY-MM-DD"T"HH24:MI'),
			pg_catalog.current_setting('TimeZone'), pg_catalog.to_char(NULLIF(parameters ->> 'before', '')::timestamptz, 'YYYY-MM-DD"T"HH24:MI')]::text[])
		|| CASE WHEN csrf IS NULL THEN ''
			WHEN COALESCE(parameters ->> 'workflow', '') = '' OR parameters ->> 'workflow' LIKE '%*' THEN '<p class="soft">All runs that match can be cancelled or run again if one workflow is named.</p>'
			ELSE (SELECT COALESCE('<p class="buttons">All that match: ' || NULLIF(pg_catalog.concat(CASE WHEN COALESCE(parameters ->> 'error', '') = '' THEN @extschema@.pgqrs_html_act(text 'cancel_runs', p.p, text 'Cancel', csrf) END,
					@extschema@.pgqrs_html_act(text 'replay_runs', p.p, text 'Replay', csrf), @extschema@.pgqrs_html_act(text 'rerun_runs', p.p, text 'Rerun', csrf)), '') || '</p>', '')
				FROM (SELECT CASE WHEN parameters ->> 'status' = 'live' THEN parameters - 'status' ELSE parameters END - '{from,refresh}'::text[]) AS p (p)) END
		|| CASE WHEN parameters ->> 'status' = 'live' THEN @extschema@.pgqrs_html_live_list(parameters) ELSE @extschema@.pgqrs_html_run_list(parameters) END);
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_runs(jsonb, text) IS 'The page of runs, with filters. Errors: as of pgqrs_report_page().';

CREATE FUNCTION @extschema@.pgqrs_html_run_page(parameters jsonb, csrf text) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT @extschema@.pgqrs_html_view(pg_catalog.format('Run %s of %s', r.run_id, r.workflow), text 'run', parameters,
		@extschema@.pgqrs_html(text '<h1>Run %s ', ARRAY[r.run_id::text]::text[]) || @extschema@.pgqrs_html_status(r.status) || '</h1><p class="soft">'
		|| @extschema@.pgqrs_html_link(text 'runs', pg_catalog.jsonb_build_object('workflow', r.workflow), r.workflow)
		|| COALESCE((SELECT ', child of ' || @extschema@.pgqrs_html_link(text 'run', pg_catalog.jsonb_build_object('run', p.run_id), 'run ' || p.run_id) FROM @extschema@.pgqrs_runs AS p WHERE p.run_id = r.parent_run_id), '')
		|| COALESCE((SELECT ', rerun of ' || @extschema@.pgqrs_html_link(text 'run', pg_catalog.jsonb_build_object('run', p.run_id), 'run ' || p.run_id) FROM @extschema@.pgqrs_runs AS p WHERE p.run_id = r.rerun_of), '')
		|| '</p>'
		|| COALESCE('<p class="buttons">' || NULLIF(pg_catalog.concat(
				CASE WHEN r.completed_at IS NULL THEN @extschema@.pgqrs_html_act(text 'cancel', o.o, text 'Cancel', csrf) END,
				CASE WHEN r.status = 'ERROR' THEN @extschema@.pgqrs_html_act(text 'replay', pg_catalog.jsonb_build_object('message', r.run_id), text 'Replay', csrf) END,
				CASE WHEN r.completed_at IS NULL THEN @extschema@.pgqrs_html_act(text 'resume', o.o, text 'Resume a pause', csrf) END,
				CASE WHEN r.completed_at IS NULL THEN @extschema@.pgqrs_html_act(text 'signal', o.o, text 'Send a signal', csrf) END,
				@extschema@.pgqrs_html_act(text 'rerun', o.o, text 'Rerun', csrf)), '') || '</p>', '')
		|| @extschema@.pgqrs_html_run(r.run_id, true, NULLIF(parameters ->> 'child', '')::bigint))
	FROM @extschema@.pgqrs_get_run((parameters ->> 'run')::bigint) AS r
		CROSS JOIN LATERAL (SELECT pg_catalog.jsonb_build_object('run', r.run_id)) AS o (o);
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_run_page(jsonb, text) IS 'The page of a run. Errors: as of pgqrs_report_page().';

CREATE FUNCTION @extschema@.pgqrs_html_workers(parameters jsonb, csrf text) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT @extschema@.pgqrs_html_view(text 'Workers', text 'workers', parameters, '<h1>Workers</h1><p class="soft">Live, or stopped within the hour; 200 at most.</p>'
		|| (SELECT @extschema@.pgqrs_html_table('{worker,status,#holds,#heard of,version,queues}'::text[], pg_catalog.array_agg(ARRAY[
					@extschema@.pgqrs_html(text '%s<span class="sub">%s</span>', ARRAY[w.worker, pg_catalog.concat_ws(' on ', w.owner, w.hostname)]::text[]),
					@extschema@.pgqrs_html_status(CASE WHEN w.stopped_at IS NULL AND w.heard > pg_catalog.current_setting('pgqrs.worker_timeout')::interval THEN 'silent' ELSE w.status END),
					pg_catalog.concat_ws(' of ', w.in_flight + w.expired, w.max_concurrent), @extschema@.pgqrs_html_duration(w.heard) || ' ago', @extschema@.pgqrs_html(text '%s', ARRAY[w.version]::text[]),
					@extschema@.pgqrs_html(text '%s', ARRAY[pg_catalog.array_to_string(w.queues[1:20], ', ')]::text[])] ORDER BY w.stopped_at DESC NULLS FIRST, w.worker), text 'There is no worker.')
			FROM (
				SELECT w.worker, w.owner, w.hostname, w.version, w.queues, w.status, w.in_flight, w.expired, w.max_concurrent, w.stopped_at, @extschema@.pgqrs_elapsed(w.heartbeat_at, @extschema@.pgqrs_now()) AS heard
				FROM @extschema@.pgqrs_worker_stats AS w
				WHERE w.stopped_at IS NULL OR w.stopped_at > @extschema@.pgqrs_now() - interval '1 hour'
				ORDER BY w.stopped_at DESC NULLS FIRST, w.worker
				LIMIT 200
			) AS w));
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_workers(jsonb, text) IS 'The page of workers.';

CREATE FUNCTION @extschema@.pgqrs_html_schedules(parameters jsonb, csrf text) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT @extschema@.pgqrs_html_view(text 'Schedules', text 'schedules', parameters, '<h1>Schedules</h1><p class="soft">The next first, 200 at most.</p>'
		|| (SELECT @extschema@.pgqrs_html_table('{schedule,workflow,when,last run,next firings,actions}'::text[], pg_catalog.array_agg(ARRAY[
					@extschema@.pgqrs_html(text '%s ', ARRAY[s.name]::text[]) || CASE WHEN NOT s.enabled THEN @extschema@.pgqrs_html_status(text 'paused') WHEN NOT s.may_fire THEN '<span class="b bad">cannot fire</span>' ELSE '' END,
					@extschema@.pgqrs_html_link(text 'runs', pg_catalog.jsonb_build_object('workflow', s.workflow), s.workflow),
					@extschema@.pgqrs_html(text '<code>%s</code> <span class="sub">%s</span>', ARRAY[s.cron, s.timezone]::text[]),
					pg_catalog.concat(@extschema@.pgqrs_html_link(text 'run', pg_catalog.jsonb_build_object('run', s.last_run_id), s.last_run_id::text), ' ', @extschema@.pgqrs_html_status(s.last_status),
						@extschema@.pgqrs_html(text '<span class="sub">%s ago</span>', ARRAY[@extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(s.last_fired_at, @extschema@.pgqrs_now()))]::text[])),
					CASE WHEN s.next_fire_at IS NOT NULL THEN (SELECT pg_catalog.string_agg(pg_catalog.format('<span class="sub">%s</span>', pg_catalog.to_char(n.at, 'YYYY-MM-DD HH24:MI TZ')), '' ORDER BY n.at)
						FROM @extschema@.pgqrs_next_firings(s.cron, s.timezone, 3, NULL::timestamptz) AS n (at)) END,
					pg_catalog.concat(@extschema@.pgqrs_html_act(text 'trigger_schedule', pg_catalog.jsonb_build_object('name', s.name), text 'Run now', csrf),
						@extschema@.pgqrs_html_act(text 'enable_schedule', pg_catalog.jsonb_build_object('name', s.name, 'enabled', NOT s.enabled), CASE WHEN s.enabled THEN 'Disable' ELSE 'Enable' END, csrf))]
						ORDER BY s.next_fire_at, s.name), text 'There is no schedule.')
			FROM (SELECT s.* FROM @extschema@.pgqrs_schedule_list AS s ORDER BY s.next_fire_at, s.name LIMIT 200) AS s));
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_schedules(jsonb, text) IS 'The page of schedules, with their next firings.';

CREATE FUNCTION @extschema@.pgqrs_html_dead(parameters jsonb, csrf text) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	WITH letters AS MATERIALIZED (
		SELECT l.*, COALESCE(parameters ->> 'error', '') = '' OR l.cause = parameters ->> 'error' AS matches
		FROM @extschema@.pgqrs_html_letters(NULLIF(parameters ->> 'queue', ''), CASE WHEN COALESCE(parameters ->> 'queue', '') <> '' THEN 1000 ELSE 100 END) AS l
		ORDER BY l.archived_at DESC
		LIMIT 1000
	)
	SELECT @extschema@.pgqrs_html_view(text 'Dead letters', text 'dead', parameters, '<h1>Dead letters</h1><p class="soft">The newest 1000 of a queue, or 100 of each queue and 1000 in all.</p>'
		|| @extschema@.pgqrs_html(text '<form class="filter" action="dead"><label>queue <input name="queue" value="%s"/></label><label>error type <input name="error" value="%s"/></label><div class="buttons"><button>Filter</button><a href="dead">All</a></div></form>',
			ARRAY[COALESCE(parameters ->> 'queue', ''), parameters ->> 'error']::text[])
		|| CASE WHEN COALESCE(parameters ->> 'queue', '') <> '' THEN COALESCE('<p class="buttons">All that match: ' || @extschema@.pgqrs_html_act(text 'replay_queue', parameters - 'refresh', text 'Replay', csrf) || '</p>', '') ELSE '' END
		|| '<h2>Causes</h2>'
		|| (SELECT @extschema@.pgqrs_html_table('{cause,queue,#dead,#newest,latest error}'::text[], pg_catalog.array_agg(ARRAY[
					@extschema@.pgqrs_html_link(text 'dead', pg_catalog.jsonb_build_object('queue', l.queue_name, 'error', l.cause), COALESCE(pg_catalog.left(l.cause, 100), 'unknown')), @extschema@.pgqrs_html(text '%s', ARRAY[l.queue_name]::text[]), l.count::text,
					@extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(l.newest, @extschema@.pgqrs_now())) || ' ago', @extschema@.pgqrs_html(text '%s', ARRAY[l.error]::text[])] ORDER BY l.count DESC, l.newest DESC), text 'Nothing failed for good.')
			FROM (
				SELECT l.queue_name, l.cause, pg_catalog.count(*) AS count, pg_catalog.max(l.archived_at) AS newest, (pg_catalog.array_agg(l.error ORDER BY l.archived_at DESC))[1] AS error
				FROM letters AS l WHERE l.matches
				GROUP BY l.queue_name, l.cause
				ORDER BY pg_catalog.count(*) DESC, pg_catalog.max(l.archived_at) DESC
				LIMIT 30
			) AS l)
		|| '<h2>Dead letters<small>the newest 50</small></h2>'
		|| (SELECT @extschema@.pgqrs_html_table('{message,queue,#died,#claims,error,actions}'::text[], pg_catalog.array_agg(ARRAY[
					CASE WHEN l.run_id IS NULL THEN l.message_id::text ELSE 'run ' || @extschema@.pgqrs_html_link(text 'run', pg_catalog.jsonb_build_object('run', l.run_id), l.run_id::text) END,
					@extschema@.pgqrs_html_link(text 'queue', pg_catalog.jsonb_build_object('queue', l.queue_name), l.queue_name),
					@extschema@.pgqrs_html_duration(@extschema@.pgqrs_elapsed(l.archived_at, @extschema@.pgqrs_now())) || ' ago', l.attempt::text, @extschema@.pgqrs_html(text '%s', ARRAY[l.error]::text[]),
					pg_catalog.concat(@extschema@.pgqrs_html_act(text 'replay', pg_catalog.jsonb_build_object('message', l.message_id), text 'Replay', csrf), @extschema@.pgqrs_html_act(text 'dismiss', pg_catalog.jsonb_build_object('message', l.message_id), text 'Dismiss', csrf))]
						ORDER BY l.archived_at DESC), text 'There are no dead letters.')
			FROM (SELECT l.* FROM letters AS l WHERE l.matches ORDER BY l.archived_at DESC LIMIT 50) AS l));
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_dead(jsonb, text) IS 'The page of dead letters.';

--
-- Actions
--

CREATE FUNCTION @extschema@.pgqrs_html_statement(parameters jsonb) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT pg_catalog.format('SELECT * FROM %s.%s(%s)', '@extschema@', f.function,
		pg_catalog.string_agg(pg_catalog.format('%s => %s', f.argument, CASE f.kind
			WHEN 'number' THEN f.value::bigint::text
			WHEN 'boolean' THEN f.value::boolean::text
			WHEN 'json' THEN pg_catalog.quote_literal(f.value::jsonb::text) || '::jsonb'
			WHEN 'tags' THEN pg_catalog.quote_literal(@extschema@.pgqrs_html_tags(f.value)::text) || '::jsonb'
			WHEN 'time' THEN pg_catalog.quote_literal(pg_catalog.to_jsonb(f.value::timestamptz) #>> '{}') || '::timestamptz'
			ELSE pg_catalog.quote_literal(f.value) END), ', ' ORDER BY f.place) FILTER (WHERE f.value <> ''))
	FROM (
		SELECT f.*, parameters ->> f.field AS value FROM @extschema@.pgqrs_html_fields(parameters ->> 'action') AS f
	) AS f
	GROUP BY f.function
	HAVING pg_catalog.bool_and(NOT f.is_required OR COALESCE(f.value, '') <> '');
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_statement(jsonb) IS
'The statement of SQL of an action, which means the same in any session: names with their schema, instants with their offset; NULL if a field is missing or the current role may not call its function. Errors: as of pgqrs_report_page().';

CREATE FUNCTION @extschema@.pgqrs_report_action(parameters jsonb) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT CASE WHEN NOT EXISTS (SELECT FROM @extschema@.pgqrs_html_fields(parameters ->> 'action') AS f WHERE f.field = 'number')
			OR parameters ->> 'number' = parameters ->> 'matching' AND parameters ->> 'number' = (SELECT c.count::text FROM @extschema@.pgqrs_html_count(parameters) AS c)
		THEN @extschema@.pgqrs_html_statement(parameters) END;
END;
COMMENT ON FUNCTION @extschema@.pgqrs_report_action(jsonb) IS
'The statement of SQL, one call, that the form of a page asks for; parameters: the fields of the form. NULL if a field is missing, if the number that was typed to confirm an action is not the one that was asked for, or not the one of those that match by now, if there is no such action, or if the current role may not call its function. Needs read, trigger, work or admin on any name. Errors: 22003, 22007, 22008, 22009, 22023, 22P02, 22P05 of a field that is no number, time or JSON.';

CREATE FUNCTION @extschema@.pgqrs_html_form(parameters jsonb, csrf text, is_again boolean, OUT title text, OUT form text) RETURNS record
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	WITH fields AS MATERIALIZED (
		SELECT f.*, COALESCE(parameters ->> f.field, '') AS value FROM @extschema@.pgqrs_html_fields(parameters ->> 'action') AS f
	), matching AS MATERIALIZED (
		SELECT c.count, c.is_cut FROM @extschema@.pgqrs_html_count(parameters) AS c WHERE EXISTS (SELECT FROM fields AS f WHERE f.field = 'number')
	)
	SELECT t.title,
		@extschema@.pgqrs_html(CASE WHEN is_again THEN text '<h2>%s</h2><p>%s</p>' ELSE text '<h1>%s</h1><p>%s</p>' END, ARRAY[t.title, t.note]::text[])
		|| COALESCE((SELECT pg_catalog.format('<p class="note"><strong>%s</strong> %s now%s.%s</p>', m.count,
				CASE WHEN parameters ->> 'action' = 'replay_queue' THEN 'dead letters match' ELSE 'runs match' END,
				CASE WHEN m.is_cut THEN ' at least; of all that match the oldest so many are changed' END,
				CASE WHEN m.count = 0 THEN ' There is nothing to do.' ELSE ' Type the number to confirm.' END) FROM matching AS m), '')
		|| CASE WHEN (SELECT m.count = 0 FROM matching AS m) THEN '' ELSE '<form class="act" method="post" action="do">'
			|| @extschema@.pgqrs_html(text '<input type="hidden" name="action" value="%s"/>', ARRAY[parameters ->> 'action']::text[])
			|| COALESCE((SELECT pg_catalog.format('<input type="hidden" name="matching" value="%s"/>', m.count) FROM matching AS m), '')
			|| (SELECT pg_catalog.string_agg(CASE
						WHEN f.field = 'number' THEN '<label>number <input name="number" inputmode="numeric" autocomplete="off" required="required"/></label>'
						WHEN f.field IN ('run', 'message', 'queue', 'name', 'enabled') OR f.field IN ('workflow', 'status', 'tags', 'error', 'after', 'before') THEN
							CASE WHEN f.value = '' THEN '' ELSE @extschema@.pgqrs_html(text '<p><span class="soft">%s</span> <strong>%s</strong><input type="hidden" name="%1$s" value="%2$s"/></p>', ARRAY[f.field, f.value]::text[]) END
						WHEN f.kind = 'json' THEN @extschema@.pgqrs_html(text '<label>%s, as JSON<textarea name="%s" spellcheck="false">%s</textarea></label>', ARRAY[f.field, f.field, f.value]::text[])
						ELSE @extschema@.pgqrs_html(text '<label>%s <input name="%s" value="%s"', ARRAY[pg_catalog.replace(f.field, '_', ' '), f.field, f.value]::text[])
							|| CASE WHEN f.is_required THEN ' required="required"/></label>' ELSE '/></label>' END END, '' ORDER BY f.place)
				FROM fields AS f)
			|| CASE WHEN is_again THEN '' ELSE COALESCE(@extschema@.pgqrs_html(text '<div><span class="soft">The SQL that it runs, with what the fields had when the page was made</span><pre>%s</pre></div>',
				ARRAY[@extschema@.pgqrs_html_statement(parameters || COALESCE((SELECT pg_catalog.jsonb_build_object('number', m.count) FROM matching AS m), '{}'))]::text[]), '') END
			|| @extschema@.pgqrs_html(text '<div class="buttons"><button class="go" name="csrf" value="%s">%s</button> <button formmethod="get" formaction="do" formnovalidate="formnovalidate">Show the SQL</button></div></form>', ARRAY[csrf, t.title]::text[]) END
	FROM (
		VALUES ('cancel', 'Cancel the run', 'It ends now. If a worker holds it, that worker is asked to stop. Live children are cancelled, too.'),
			('replay', 'Replay', 'It is claimable again. Steps of a run that have finished stay so.'),
			('dismiss', 'Dismiss', 'The dead letter is removed.'),
			('resume', 'Resume a pause', 'The pause is over, and the run claimable. Without a step it is the one at which the run waits.'),
			('signal', 'Send a signal', 'It wakes the run if it waits for a signal of that name; else it is kept.'),
			('rerun', 'Rerun', 'A new run with the same input; from a step on, with the outputs of the steps before it.'),
			('pause_queue', 'Pause the queue', 'It accepts messages, and delivers none.'),
			('resume_queue', 'Resume the queue', 'It delivers messages again.'),
			('replay_queue', 'Replay dead letters', 'They are claimable again.'),
			('trigger_schedule', 'Run the schedule now', 'A run is triggered. Its slots are not affected.'),
			('enable_schedule', 'Enable or disable the schedule', 'While it is disabled, slots pass without a run.'),
			('cancel_runs', 'Cancel runs', 'All live runs that match, the oldest first.'),
			('replay_runs', 'Replay runs', 'All failed runs that match are claimable again, the oldest first.'),
			('rerun_runs', 'Rerun runs', 'A new run for each that matches and was not rerun before, the oldest first.')
	) AS t (action, title, note)
	WHERE t.action = parameters ->> 'action' AND csrf IS NOT NULL AND EXISTS (SELECT FROM fields);
END;
COMMENT ON FUNCTION @extschema@.pgqrs_html_form(jsonb, text, boolean) IS
'The form of an action, with the SQL that it runs; NULL if there is no such action, or none is allowed. is_again: below an answer, and without the SQL, so that the fields may have any values. Errors: as of pgqrs_report_page().';

CREATE FUNCTION @extschema@.pgqrs_report_answer(parameters jsonb, statement text, is_done boolean, answer text, csrf text) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT @extschema@.pgqrs_html_view(CASE WHEN is_done THEN 'Done' ELSE 'Not done' END, NULL::text, NULL::jsonb,
		CASE WHEN is_done THEN '<h1>Done</h1><div class="note ok">' ELSE '<h1>Not done</h1><div class="note bad">' END
		|| @extschema@.pgqrs_html(text '<pre>%s</pre></div>', ARRAY[COALESCE(answer, CASE WHEN is_done THEN '' ELSE (
				SELECT CASE WHEN pg_catalog.count(*) = 0 THEN 'Nothing was done: there is no such action, or the role may not do it.'
					WHEN pg_catalog.bool_or(f.is_required AND COALESCE(parameters ->> f.field, '') = '') THEN 'Nothing was done: a field is empty.'
					ELSE 'Nothing was done: the number that was typed is not the number of those that match now.' END
				FROM @extschema@.pgqrs_html_fields(parameters ->> 'action') AS f) END)]::text[])
		|| COALESCE(@extschema@.pgqrs_html(text '<p class="soft">The SQL</p><pre>%s</pre>', ARRAY[statement]::text[]), '')
		|| CASE WHEN is_done THEN '' ELSE COALESCE((SELECT f.form FROM @extschema@.pgqrs_html_form(parameters, csrf, true) AS f), '') END
		|| '<p class="buttons">'
		|| pg_catalog.concat_ws(' ',
			@extschema@.pgqrs_html_link(text 'run', pg_catalog.jsonb_build_object('run', parameters ->> 'run'), 'Run ' || (parameters ->> 'run')),
			@extschema@.pgqrs_html_link(text 'queue', pg_catalog.jsonb_build_object('queue', parameters ->> 'queue'), 'Queue ' || (parameters ->> 'queue')),
			CASE WHEN parameters ->> 'message' <> '' THEN '<a href="dead">Dead letters</a>' END,
			CASE WHEN parameters ->> 'name' <> '' THEN '<a href="schedules">Schedules</a>' END,
			@extschema@.pgqrs_html_link(text 'runs', pg_catalog.jsonb_build_object('workflow', parameters ->> 'workflow'), 'Runs of ' || (parameters ->> 'workflow')))
		|| '</p>');
END;
COMMENT ON FUNCTION @extschema@.pgqrs_report_answer(jsonb, text, boolean, text, text) IS
'A page that says what came of a statement of pgqrs_report_action(), or of a page that could not be made. parameters: those of the request; answer: the result or the error, as text, NULL: pgqrs_report_action() returned NULL; csrf: as of pgqrs_report_page(), for the form again if it was not done. Needs read, trigger, work or admin on any name. Errors: 22003, 22007, 22008, 22009, 22023, 22P02, 22P05 of a filter that is no time or JSON.';

CREATE FUNCTION @extschema@.pgqrs_report_page(page text, parameters jsonb = NULL, csrf text = NULL) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
	SELECT CASE page
		WHEN '' THEN @extschema@.pgqrs_html_overview(p.p, csrf)
		WHEN 'queues' THEN @extschema@.pgqrs_html_queues(p.p, csrf)
		WHEN 'queue' THEN @extschema@.pgqrs_html_queue(p.p, csrf)
		WHEN 'runs' THEN @extschema@.pgqrs_html_runs(p.p, csrf)
		WHEN 'run' THEN @extschema@.pgqrs_html_run_page(p.p, csrf)
		WHEN 'workers' THEN @extschema@.pgqrs_html_workers(p.p, csrf)
		WHEN 'schedules' THEN @extschema@.pgqrs_html_schedules(p.p, csrf)
		WHEN 'dead' THEN @extschema@.pgqrs_html_dead(p.p, csrf)
		WHEN 'do' THEN (SELECT @extschema@.pgqrs_html_view(f.title, NULL::text, p.p, f.form) FROM @extschema@.pgqrs_html_form(p.p, csrf, false) AS f)
		END
	FROM (SELECT COALESCE(parameters, '{}') OFFSET 0) AS p (p);
END;
COMMENT ON FUNCTION @extschema@.pgqrs_report_page(text, jsonb, text) IS
'A page for a web server, as HTML that refers to style.css (pgqrs_report_style()) and to other pages by relative addresses. page: empty, queues, queue, runs, run, workers, schedules, dead, do; parameters: those of the request, as an object of texts; csrf: a secret that the forms of actions send back, NULL: there are no actions. NULL if there is no such page. Shows what the current role may read. Needs read, trigger, work or admin on any name. Errors: PQ001, PQ003 not there or not readable, 22004, 22003, 22007, 22008, 22009, 22023, 22P02, 22P05 of a parameter that is missing or no number, time or JSON.';
-- Privileges.

CREATE FUNCTION @extschema@.pgqrs_grant(pattern text, role text, privilege text) RETURNS void
	LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
	AS 'MODULE_PATHNAME', 'sql_grant';
COMMENT ON FUNCTION @extschema@.pgqrs_grant(text, text, text) IS
'allows a role (or public) to monitor, read, trigger, work or admin on the queues and workflows that a pattern matches, also later ones; grants the role EXECUTE on the needed functions, SELECT on the views and USAGE on the schema; only the extension''s owner and superusers; 42704: no such role, 22023: no such privilege';

CREATE FUNCTION @extschema@.pgqrs_revoke(pattern text, role text, privilege text) RETURNS void
	LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
	AS 'MODULE_PATHNAME', 'sql_revoke';
COMMENT ON FUNCTION @extschema@.pgqrs_revoke(text, text, text) IS
'revokes the privilege that pgqrs_grant() gave with the same arguments, and EXECUTE and SELECT that no other grant to the role needs, but not USAGE on the schema; also for a dropped role; a NOTICE if it was not granted; only the extension''s owner and superusers. Errors: 22023, 42704 no such role.';

CREATE FUNCTION @extschema@.pgqrs_sync_grants() RETURNS void
	LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
	AS 'MODULE_PATHNAME', 'sql_sync_grants';
COMMENT ON FUNCTION @extschema@.pgqrs_sync_grants() IS
'grants each role of pgqrs_grant() the rights on functions and views that it needs, and revokes all other rights on the tables, views, sequences, functions and types from all roles but the owner, such as those of ALTER DEFAULT PRIVILEGES: after a restore without privileges, or an upgrade; only the extension''s owner and superusers';

CREATE FUNCTION @extschema@.pgqrs_function_privileges(function text) RETURNS text[]
	LANGUAGE c STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
	AS 'MODULE_PATHNAME', 'sql_function_privileges';
COMMENT ON FUNCTION @extschema@.pgqrs_function_privileges(text) IS
'the privileges any of which permits calling a function of the extension; empty: only the owner may; NULL: not a function of the extension';

-- Only the owner may use the objects of the extension, until pgqrs_grant(): other
-- roles may not, not even those that ALTER DEFAULT PRIVILEGES names.  PUBLIC keeps
-- USAGE on types, which gives access to no row.
DO $$
DECLARE
	entry record;
BEGIN
	FOR entry IN
		SELECT DISTINCT o.kind, o.name, a.grantee, r.rolname
		FROM pg_catalog.pg_depend AS d
			CROSS JOIN LATERAL (
				SELECT CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind, c.oid::pg_catalog.regclass::pg_catalog.text AS name,
					c.relowner AS owner, c.relacl AS acl
				FROM pg_catalog.pg_class AS c
				WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND c.oid = d.objid AND c.relkind IN ('r', 'v', 'S')
				UNION ALL
				SELECT 'ROUTINE', p.oid::pg_catalog.regprocedure::pg_catalog.text,
					p.proowner, COALESCE(p.proacl, pg_catalog.acldefault('f', p.proowner))
				FROM pg_catalog.pg_proc AS p
				WHERE d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND p.oid = d.objid
				UNION ALL
				SELECT 'TYPE', t.oid::pg_catalog.regtype::pg_catalog.text, t.typowner, t.typacl
				FROM pg_catalog.pg_type AS t
				WHERE d.classid = 'pg_catalog.pg_type'::pg_catalog.regclass AND t.oid = d.objid AND t.typtype IN ('c', 'e')
			) AS o
			CROSS JOIN LATERAL pg_catalog.aclexplode(o.acl) AS a
			LEFT JOIN pg_catalog.pg_roles AS r ON r.oid = a.grantee
		WHERE d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass
			AND d.refobjid = (SELECT e.oid FROM pg_catalog.pg_extension AS e WHERE e.extname = 'pgqrs')
			AND d.deptype = 'e'
			AND a.grantee <> o.owner
			AND NOT (o.kind = 'TYPE' AND a.grantee = 0)
	LOOP
		EXECUTE pg_catalog.format('REVOKE ALL ON %s %s FROM %s CASCADE', entry.kind, entry.name,
			CASE WHEN entry.grantee = 0 THEN 'PUBLIC' ELSE pg_catalog.quote_ident(entry.rolname) END);
	END LOOP;
END
$$;
