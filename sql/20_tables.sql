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
