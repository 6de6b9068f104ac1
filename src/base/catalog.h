/*
 * catalog.h
 *	  Where this database's pgqrs objects are, and the columns of its tables.
 */
#ifndef PGQRS_CATALOG_H
#define PGQRS_CATALOG_H

#include "postgres.h"

typedef enum PgqrsTableId
{
	TABLE_QUEUES,
	TABLE_MESSAGES,
	TABLE_ARCHIVE,
	TABLE_WORKERS,
	TABLE_WORKFLOWS,
	TABLE_RUNS,
	TABLE_STEPS,
	TABLE_SIGNALS,
	TABLE_SCHEDULES,
	TABLE_FIRINGS,
	TABLE_EVENTS,
	TABLE_GRANTS,
	TABLE_DELETED,
	TABLE_PARENTS,
	TABLE_COUNT
} PgqrsTableId;

typedef enum PgqrsIndexId
{
	INDEX_QUEUES_PKEY,
	INDEX_QUEUES_NAME,
	INDEX_MESSAGES_PKEY,
	INDEX_MESSAGES_CLAIM,
	INDEX_MESSAGES_KEY,
	INDEX_MESSAGES_WORKER,
	INDEX_MESSAGES_DEADLINE,
	INDEX_MESSAGES_EXHAUSTED,
	INDEX_MESSAGES_WAITING,
	INDEX_ARCHIVE_PKEY,
	INDEX_ARCHIVE_DEAD,
	INDEX_ARCHIVE_ENDED,
	INDEX_ARCHIVE_FAILED,
	INDEX_ARCHIVE_WAITING,
	INDEX_WORKERS_PKEY,
	INDEX_WORKERS_NAME,
	INDEX_WORKFLOWS_PKEY,
	INDEX_RUNS_PKEY,
	INDEX_RUNS_KEY,
	INDEX_RUNS_WORKFLOW,
	INDEX_RUNS_PARENT,
	INDEX_RUNS_TAGS,
	INDEX_STEPS_PKEY,
	INDEX_SIGNALS_PKEY,
	INDEX_SIGNALS_RUN,
	INDEX_SIGNALS_WAITING,
	INDEX_SIGNALS_KEY,
	INDEX_SCHEDULES_PKEY,
	INDEX_SCHEDULES_NAME,
	INDEX_SCHEDULES_NEXT,
	INDEX_FIRINGS_PKEY,
	INDEX_EVENTS_PKEY,
	INDEX_EVENTS_RUN,
	INDEX_GRANTS_PKEY,
	INDEX_DELETED_PKEY,
	INDEX_PARENTS_PKEY,
	INDEX_PARENTS_PARENT,
	INDEX_COUNT
} PgqrsIndexId;

typedef enum PgqrsSequenceId
{
	SEQUENCE_QUEUE_ID,
	SEQUENCE_MESSAGE_ID,
	SEQUENCE_WORKER_ID,
	SEQUENCE_SIGNAL_ID,
	SEQUENCE_SCHEDULE_ID,
	SEQUENCE_EVENT_ID,
	SEQUENCE_COUNT
} PgqrsSequenceId;

/* The enum types, their labels in the order of CREATE TYPE. */
typedef enum PgqrsRunStatus
{
	RUN_QUEUED,
	RUN_RUNNING,
	RUN_PAUSED,
	RUN_SUCCESS,
	RUN_ERROR,
	RUN_CANCELLED,
	RUN_STATUS_COUNT
} PgqrsRunStatus;

typedef enum PgqrsStepStatus
{
	STEP_PENDING,
	STEP_RUNNING,
	STEP_PAUSED,
	STEP_SUCCESS,
	STEP_ERROR,
	STEP_STATUS_COUNT
} PgqrsStepStatus;

typedef enum PgqrsStepKind
{
	STEP_KIND_FUNCTION,
	STEP_KIND_SLEEP,
	STEP_KIND_SIGNAL,
	STEP_KIND_CHILD,
	STEP_KIND_PAUSE,
	STEP_KIND_COUNT
} PgqrsStepKind;

typedef enum PgqrsOutcome
{
	OUTCOME_DONE,
	OUTCOME_DEAD,
	OUTCOME_DELETED,
	OUTCOME_CANCELLED,
	OUTCOME_COUNT
} PgqrsOutcome;

typedef enum PgqrsWorkerStatus
{
	WORKER_READY,
	WORKER_SUSPENDED,
	WORKER_STOPPED,
	WORKER_STATUS_COUNT
} PgqrsWorkerStatus;

typedef enum PgqrsKeyScope
{
	KEY_RETAINED,
	KEY_ACTIVE,
	KEY_SCOPE_COUNT
} PgqrsKeyScope;

typedef enum PgqrsParentEnd
{
	PARENT_END_CANCEL,
	PARENT_END_ABANDON,
	PARENT_END_COUNT
} PgqrsParentEnd;

typedef enum PgqrsOverlap
{
	OVERLAP_ALLOW,
	OVERLAP_SKIP,
	OVERLAP_CANCEL,
	OVERLAP_COUNT
} PgqrsOverlap;

typedef enum PgqrsPrivilege
{
	PRIVILEGE_TRIGGER,
	PRIVILEGE_WORK,
	PRIVILEGE_ADMIN,
	PRIVILEGE_COUNT
} PgqrsPrivilege;

typedef enum PgqrsEnumId
{
	ENUM_RUN_STATUS,
	ENUM_STEP_STATUS,
	ENUM_STEP_KIND,
	ENUM_OUTCOME,
	ENUM_WORKER_STATUS,
	ENUM_KEY_SCOPE,
	ENUM_PARENT_END,
	ENUM_OVERLAP,
	ENUM_PRIVILEGE,
	ENUM_COUNT
} PgqrsEnumId;

/* The columns, in the order of sql/20_tables.sql. */
typedef enum QueuesColumn
{
	Queues_queue_id = 1,
	Queues_created_at,
	Queues_paused_at,
	Queues_visibility_timeout,
	Queues_retention,
	Queues_dead_retention,
	Queues_rate_period,
	Queues_max_attempts,
	Queues_max_in_flight,
	Queues_max_per_key,
	Queues_rate_limit,
	Queues_is_workflow,
	Queues_name,
	Queues_natts = Queues_name
} QueuesColumn;

typedef enum MessagesColumn
{
	Messages_message_id = 1,
	Messages_queue_id,
	Messages_visible_after,
	Messages_enqueued_at,
	Messages_dequeued_at,
	Messages_lease,
	Messages_worker_id,
	Messages_run_id,
	Messages_deadline_at,
	Messages_attempt,
	Messages_failures,
	Messages_priority,
	Messages_waiting_for,
	Messages_concurrency_key,
	Messages_idempotency_key,
	Messages_payload,
	Messages_headers,
	Messages_last_error,
	Messages_exhausted_at,
	Messages_natts = Messages_exhausted_at
} MessagesColumn;

/* The columns of pgqrs_messages_claim_idx. */
typedef enum ClaimColumn
{
	CLAIM_QUEUE = 1,
	CLAIM_PRIORITY,
	CLAIM_VISIBLE_AFTER,
	CLAIM_MESSAGE
} ClaimColumn;

typedef enum ArchiveColumn
{
	Archive_message_id = 1,
	Archive_queue_id,
	Archive_archived_at,
	Archive_visible_after,
	Archive_enqueued_at,
	Archive_dequeued_at,
	Archive_lease,
	Archive_worker_id,
	Archive_run_id,
	Archive_deadline_at,
	Archive_attempt,
	Archive_failures,
	Archive_outcome,
	Archive_priority,
	Archive_waiting_for,
	Archive_concurrency_key,
	Archive_idempotency_key,
	Archive_payload,
	Archive_headers,
	Archive_last_error,
	Archive_natts = Archive_last_error
} ArchiveColumn;

typedef enum WorkersColumn
{
	Workers_worker_id = 1,
	Workers_created_at,
	Workers_heartbeat_at,
	Workers_stopped_at,
	Workers_owner_id,
	Workers_port,
	Workers_max_concurrent,
	Workers_status,
	Workers_owner,
	Workers_name,
	Workers_queues,
	Workers_hostname,
	Workers_version,
	Workers_labels,
	Workers_stopped_itself,
	Workers_natts = Workers_stopped_itself
} WorkersColumn;

typedef enum WorkflowsColumn
{
	Workflows_workflow_id = 1,
	Workflows_created_at,
	Workflows_timeout,
	Workflows_initial_interval,
	Workflows_max_interval,
	Workflows_backoff_coefficient,
	Workflows_jitter,
	Workflows_max_attempts,
	Workflows_key_scope,
	Workflows_owner,
	Workflows_name,
	Workflows_handler,
	Workflows_outbox_queue,
	Workflows_non_retryable,
	Workflows_natts = Workflows_non_retryable
} WorkflowsColumn;

typedef enum RunsColumn
{
	Runs_run_id = 1,
	Runs_workflow_id,
	Runs_created_at,
	Runs_started_at,
	Runs_paused_at,
	Runs_completed_at,
	Runs_deadline_at,
	Runs_cancel_requested_at,
	Runs_deleted_at,
	Runs_schedule_slot,
	Runs_timeout,
	Runs_lease,
	Runs_worker_id,
	Runs_parent_run_id,
	Runs_rerun_of,
	Runs_attempt,
	Runs_failures,
	Runs_status,
	Runs_on_parent_end,
	Runs_key_scope,
	Runs_priority,
	Runs_idempotency_key,
	Runs_parent_step_id,
	Runs_waiting_for,
	Runs_worker_version,
	Runs_cancel_reason,
	Runs_delete_reason,
	Runs_retry_policy,
	Runs_tags,
	Runs_headers,
	Runs_progress,
	Runs_input,
	Runs_output,
	Runs_error,
	Runs_natts = Runs_error
} RunsColumn;

typedef enum StepsColumn
{
	Steps_run_id = 1,
	Steps_started_at,
	Steps_completed_at,
	Steps_lease,
	Steps_attempt,
	Steps_failures,
	Steps_kind,
	Steps_status,
	Steps_step_id,
	Steps_input,
	Steps_output,
	Steps_error,
	Steps_history,
	Steps_reason,
	Steps_natts = Steps_reason
} StepsColumn;

typedef enum SignalsColumn
{
	Signals_signal_id = 1,
	Signals_run_id,
	Signals_sent_at,
	Signals_name,
	Signals_consumed_by,
	Signals_idempotency_key,
	Signals_payload,
	Signals_headers,
	Signals_natts = Signals_headers
} SignalsColumn;

typedef enum SchedulesColumn
{
	Schedules_schedule_id = 1,
	Schedules_next_fire_at,
	Schedules_last_fired_at,
	Schedules_last_run_id,
	Schedules_owner_id,
	Schedules_timeout,
	Schedules_max_catchup,
	Schedules_overlap,
	Schedules_priority,
	Schedules_enabled,
	Schedules_owner,
	Schedules_name,
	Schedules_cron,
	Schedules_timezone,
	Schedules_workflow,
	Schedules_input,
	Schedules_tags,
	Schedules_natts = Schedules_tags
} SchedulesColumn;

typedef enum FiringsColumn
{
	Firings_schedule_id = 1,
	Firings_slot,
	Firings_fired_at,
	Firings_run_id,
	Firings_natts = Firings_run_id
} FiringsColumn;

typedef enum EventsColumn
{
	Events_event_id = 1,
	Events_run_id,
	Events_at,
	Events_event,
	Events_data,
	Events_natts = Events_data
} EventsColumn;

typedef enum GrantsColumn
{
	Grants_granted_at = 1,
	Grants_grantee_id,
	Grants_privilege,
	Grants_grantee,
	Grants_granted_by,
	Grants_pattern,
	Grants_natts = Grants_pattern
} GrantsColumn;

typedef enum DeletedColumn
{
	Deleted_queue_id = 1,
	Deleted_deleted_at,
	Deleted_is_workflow,
	Deleted_name,
	Deleted_natts = Deleted_name
} DeletedColumn;

typedef enum ParentsColumn
{
	Parents_run_id = 1,
	Parents_parent_run_id,
	Parents_on_parent_end,
	Parents_parent_step_id,
	Parents_natts = Parents_parent_step_id
} ParentsColumn;

/* The most columns that any of the tables has. */
#define PGQRS_MAX_COLUMNS 40

extern void pgqrs_catalog_init(void);
extern Oid pgqrs_catalog_extension(char **version);
extern Oid pgqrs_catalog_owner(void);

/* Whether a subscription writes tables of the extension here. */
extern bool pgqrs_catalog_subscribed(void);
extern Oid pgqrs_catalog_schema(void);
extern Oid pgqrs_catalog_table(PgqrsTableId id);
extern Oid pgqrs_catalog_index(PgqrsIndexId id);
extern Oid pgqrs_catalog_sequence(PgqrsSequenceId id);
extern uint64 pgqrs_catalog_generation(PgqrsTableId id);
extern void pgqrs_catalog_changed(PgqrsTableId id);

/* The same before the commit: other backends read the table again from now on. */
extern void pgqrs_catalog_changing(PgqrsTableId id);

/* Enum values: the stored Datum of a label, and back. */
extern Datum pgqrs_enum_datum(PgqrsEnumId type, int label);
extern int pgqrs_enum_value(PgqrsEnumId type, Datum datum);
extern int pgqrs_enum_find(PgqrsEnumId type, Datum datum); /* -1: no such label */
extern const char *pgqrs_enum_label(PgqrsEnumId type, int label);
extern int pgqrs_enum_parse(PgqrsEnumId type, const char *label);

#endif /* PGQRS_CATALOG_H */
