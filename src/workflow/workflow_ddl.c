/*
 * workflow_ddl.c
 *	  Workflow DDL: creation and alteration of workflows.
 *
 * Runs in any backend.  Locks the row of the workflow's queue, then the row of
 * the workflow, until the end of the transaction.  Concurrent creations conflict
 * on the unique name of the queue, so every workflow has a queue, and every
 * queue with is_workflow has a workflow.  Existing runs keep the timeout and the
 * key scope that they were triggered with; retries follow the newest policy.
 */
#include "workflow/workflow_ddl.h"

#include "base/clock.h"
#include "base/errors.h"
#include "base/name.h"
#include "miscadmin.h"
#include "queue/privileges.h"
#include "queue/queue.h"
#include "shmem/writers.h"
#include "store/scan.h"
#include "store/tuple.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "workflow/outbox.h"
#include "workflow/workflow.h"

/* In the order of the arguments. */
enum
{
	WORKFLOW_HANDLER,
	WORKFLOW_MAX_ATTEMPTS,
	WORKFLOW_INITIAL_INTERVAL,
	WORKFLOW_BACKOFF_COEFFICIENT,
	WORKFLOW_MAX_INTERVAL,
	WORKFLOW_JITTER,
	WORKFLOW_NON_RETRYABLE,
	WORKFLOW_TIMEOUT,
	WORKFLOW_VISIBILITY_TIMEOUT,
	WORKFLOW_MAX_CRASHES,
	WORKFLOW_KEY_SCOPE,
	WORKFLOW_OUTBOX_QUEUE,
	WORKFLOW_ON_CANCEL,
	WORKFLOW_FLOW
};

static const PgqrsOption workflow_options[WORKFLOW_FLOW + PGQRS_FLOW_OPTION_COUNT] = {
	[WORKFLOW_HANDLER] = {"handler", OPTION_TEXT},
	[WORKFLOW_MAX_ATTEMPTS] = {"max_attempts", OPTION_INTEGER, "3", -1, 0,
							   TABLE_WORKFLOWS, Workflows_max_attempts},
	[WORKFLOW_INITIAL_INTERVAL] = {"initial_interval", OPTION_DURATION, "1 s",
								   0, PGQRS_MAX_DURATION, TABLE_WORKFLOWS,
								   Workflows_initial_interval},
	[WORKFLOW_BACKOFF_COEFFICIENT] = {"backoff_coefficient", OPTION_NUMBER, "2",
									  0, 0, TABLE_WORKFLOWS,
									  Workflows_backoff_coefficient},
	[WORKFLOW_MAX_INTERVAL] = {"max_interval", OPTION_DURATION, "60 s", 0,
							   PGQRS_MAX_DURATION, TABLE_WORKFLOWS,
							   Workflows_max_interval},
	[WORKFLOW_JITTER] = {"jitter", OPTION_NUMBER, "0.25", 0, 0, TABLE_WORKFLOWS,
						 Workflows_jitter},
	[WORKFLOW_NON_RETRYABLE] = {"non_retryable", OPTION_TEXTS, "{}", 0, 0,
								TABLE_WORKFLOWS, Workflows_non_retryable},
	[WORKFLOW_TIMEOUT] = {"timeout", OPTION_DURATION, NULL, 1,
						  PGQRS_MAX_DURATION, TABLE_WORKFLOWS, Workflows_timeout},
	[WORKFLOW_VISIBILITY_TIMEOUT] = {"visibility_timeout", OPTION_DURATION,
									 "5 min", 1, PGQRS_MAX_VISIBILITY_TIMEOUT,
									 TABLE_QUEUES, Queues_visibility_timeout},
	[WORKFLOW_MAX_CRASHES] = {"max_crashes", OPTION_INTEGER, "5", 1, 0,
							  TABLE_QUEUES, Queues_max_attempts},
	[WORKFLOW_KEY_SCOPE] = {"key_scope", OPTION_KEY_SCOPE, "retained", 0, 0,
							TABLE_WORKFLOWS, Workflows_key_scope},
	[WORKFLOW_OUTBOX_QUEUE] = {"outbox_queue", OPTION_QUEUE, NULL, 0, 0,
							   TABLE_WORKFLOWS, Workflows_outbox_queue},
	[WORKFLOW_ON_CANCEL] = {"on_cancel", OPTION_ON_CANCEL, "end", 0, 0,
							TABLE_QUEUES, Queues_on_cancel},
	[WORKFLOW_FLOW] = PGQRS_FLOW_OPTIONS,
};

void
pgqrs_workflow_defaults(PgqrsOptions *s)
{
	pgqrs_options_init(s, workflow_options, lengthof(workflow_options));
}

static int64
duration_of(const PgqrsOptions *s, int i)
{
	return pgqrs_duration(DatumGetIntervalP(s->values[i].value), s->known[i].name);
}

/* The values given and the defaults must go together. */
static void
check_retry_policy(const PgqrsOptions *s)
{
	const NullableDatum *values = s->values;
	PgqrsRetryPolicy policy;

	policy.max_attempts = DatumGetInt32(values[WORKFLOW_MAX_ATTEMPTS].value);
	policy.backoff.initial_interval = duration_of(s, WORKFLOW_INITIAL_INTERVAL);
	policy.backoff.max_interval = duration_of(s, WORKFLOW_MAX_INTERVAL);
	policy.backoff.coefficient = DatumGetFloat8(
		values[WORKFLOW_BACKOFF_COEFFICIENT].value);
	policy.backoff.jitter = DatumGetFloat8(values[WORKFLOW_JITTER].value);
	policy.non_retryable = pgqrs_text_list(values[WORKFLOW_NON_RETRYABLE].value);
	pgqrs_retry_policy_check(&policy);
}

static void
check_outbox(const PgqrsOptions *s)
{
	NullableDatum outbox = s->values[WORKFLOW_OUTBOX_QUEUE];

	if (s->given[WORKFLOW_OUTBOX_QUEUE] && !outbox.isnull)
		pgqrs_outbox_check(TextDatumGetCString(outbox.value));
}

static void
insert_workflow(PgqrsTable *workflows, int64 workflow_id, const char *name,
				const PgqrsOptions *s)
{
	PgqrsRow row;
	Name owner = palloc0(sizeof(NameData));

	namestrcpy(owner, GetUserNameFromId(GetUserId(), false));
	pgqrs_row_init(&row, workflows);
	pgqrs_options_store(s, TABLE_WORKFLOWS, false, &row);
	pgqrs_set(&row, Workflows_workflow_id, Int64GetDatum(workflow_id));
	pgqrs_set(&row, Workflows_name, CStringGetTextDatum(name));
	pgqrs_set(&row, Workflows_owner, NameGetDatum(owner));
	pgqrs_set(&row, Workflows_created_at, TimestampTzGetDatum(pgqrs_clock()));
	pgqrs_row_insert(workflows, &row);
}

/* NOTICE if the settings of an existing workflow differ from the given ones. */
static void
report_differences(const char *name, const PgqrsOptions *s, PgqrsTable *queues,
				   TupleTableSlot *queue, PgqrsTable *workflows,
				   TupleTableSlot *workflow)
{
	StringInfoData differences;

	initStringInfo(&differences);
	pgqrs_options_compare(s, workflows, workflow, &differences);
	pgqrs_options_compare(s, queues, queue, &differences);
	if (differences.len > 0)
		ereport(NOTICE,
				(errmsg("workflow \"%s\" exists and keeps its settings", name),
				 errdetail("%s.", differences.data),
				 errhint("Change them with pgqrs_alter_workflow().")));
}

static void
refuse_plain_queue(const char *name, TupleTableSlot *queue)
{
	if (!DatumGetBool(pgqrs_get(queue, Queues_is_workflow)))
		ereport(ERROR,
				(errcode(ERRCODE_PGQRS_INVALID_STATE),
				 errmsg("workflow \"%s\" cannot be created", name),
				 errdetail("A queue without a workflow has this name."),
				 errhint("Choose another name, or delete the queue with pgqrs_delete_queue().")));
}

/* Locks both rows; false if the workflow does not exist. */
static bool
lock_workflow(const char *name, PgqrsTable *queues, TupleTableSlot *queue,
			  PgqrsTable *workflows, TupleTableSlot *workflow)
{
	return pgqrs_queue_lock(queues, name, LockTupleNoKeyExclusive, queue) &&
		pgqrs_row_fetch_locked(workflows, pgqrs_get_int64(queue, Queues_queue_id),
							   LockTupleNoKeyExclusive, workflow);
}

/* Returns whether key_scope has changed. */
static bool
store_workflow(PgqrsTable *workflows, TupleTableSlot *slot, const PgqrsOptions *s)
{
	PgqrsRow row;
	Oid key_scope;

	if (!pgqrs_options_given(s, TABLE_WORKFLOWS))
		return false;
	key_scope = DatumGetObjectId(pgqrs_get(slot, Workflows_key_scope));
	pgqrs_row_copy(&row, workflows, slot);
	pgqrs_options_store(s, TABLE_WORKFLOWS, true, &row);
	pgqrs_row_update(workflows, slot, &row);
	pgqrs_catalog_changed(TABLE_WORKFLOWS);
	return DatumGetObjectId(row.values[Workflows_key_scope - 1]) != key_scope;
}

/*
 * Keys of the two scopes are unique in different indexes, so triggers under the
 * old and the new key_scope must not overlap.  Replacing the queue's row makes
 * triggers that begin from now on wait for this transaction, as they wait for a
 * deletion of the queue.  This transaction waits for the earlier ones.
 */
static void
exclude_triggers(const char *name, PgqrsTable *queues, TupleTableSlot *queue)
{
	PgqrsRow row;

	if (!pgqrs_queue_find(queues, name, queue))
		elog(ERROR, "queue \"%s\" does not exist", name);
	pgqrs_row_copy(&row, queues, queue);
	pgqrs_row_delete(queues, queue);
	pgqrs_row_insert(queues, &row);
	pgqrs_catalog_changed(TABLE_QUEUES);
	pgqrs_catalog_changing(TABLE_WORKFLOWS);
	pgqrs_catalog_changing(TABLE_QUEUES);
	pgqrs_writers_await("Each of them may have triggered the workflow under its old \"key_scope\".",
						"Repeat the call when long transactions and prepared ones have ended.");
}

static bool
settings_differ(const PgqrsOptions *s, PgqrsTable *queues, TupleTableSlot *queue,
				PgqrsTable *workflows, TupleTableSlot *workflow)
{
	return pgqrs_options_differ(s, workflows, workflow) ||
		pgqrs_options_differ(s, queues, queue);
}

/*
 * Changes an existing workflow to the given settings; a workflow that has them
 * is neither locked nor written.  False if it was deleted meanwhile.
 */
static bool
replace_workflow(const char *name, const PgqrsOptions *s, PgqrsTable *queues,
				 TupleTableSlot *queue, PgqrsTable *workflows,
				 TupleTableSlot *workflow)
{
	bool new_key_scope;

	if (!settings_differ(s, queues, queue, workflows, workflow))
		return true;
	if (!lock_workflow(name, queues, queue, workflows, workflow))
		return false;
	new_key_scope = pgqrs_options_differ(s, workflows, workflow) &&
		store_workflow(workflows, workflow, s);
	if (pgqrs_options_differ(s, queues, queue))
		pgqrs_queue_store(queues, queue, s);
	if (new_key_scope)
		exclude_triggers(name, queues, queue);
	return true;
}

/*
 * Applies a creation to an existing workflow.  False if it was deleted
 * meanwhile.
 */
static bool
reconcile_workflow(const char *name, const PgqrsOptions *s, PgqrsTable *queues,
				   TupleTableSlot *queue, PgqrsTable *workflows,
				   TupleTableSlot *workflow)
{
	refuse_plain_queue(name, queue);
	if (!pgqrs_row_fetch_id(workflows, pgqrs_get_int64(queue, Queues_queue_id),
							workflow))
		return false;
	if (s->replace)
		return replace_workflow(name, s, queues, queue, workflows, workflow);
	report_differences(name, s, queues, queue, workflows, workflow);
	return true;
}

int64
pgqrs_workflow_create(const char *name, const PgqrsOptions *s)
{
	PgqrsTable *queues;
	PgqrsTable *workflows;
	TupleTableSlot *queue;
	TupleTableSlot *workflow;
	int64 id;

	check_retry_policy(s);
	pgqrs_require_privilege(name, PRIVILEGE_ADMIN);
	check_outbox(s);
	queues = pgqrs_table_open(TABLE_QUEUES, true);
	workflows = pgqrs_table_open(TABLE_WORKFLOWS, true);
	queue = pgqrs_table_slot(queues);
	workflow = pgqrs_table_slot(workflows);
	for (;;)
	{
		if (pgqrs_queue_insert(queues, name, true, s, &id))
		{
			insert_workflow(workflows, id, name, s);
			break;
		}
		if (pgqrs_queue_find(queues, name, queue) &&
			reconcile_workflow(name, s, queues, queue, workflows, workflow))
		{
			id = pgqrs_get_int64(queue, Queues_queue_id);
			break;
		}
	}
	pgqrs_table_close(workflows);
	pgqrs_table_close(queues);
	return id;
}

void
pgqrs_workflow_alter(const char *name, const PgqrsOptions *s)
{
	PgqrsTable *queues = pgqrs_table_open(TABLE_QUEUES, true);
	PgqrsTable *workflows = pgqrs_table_open(TABLE_WORKFLOWS, true);
	TupleTableSlot *queue = pgqrs_table_slot(queues);
	TupleTableSlot *workflow = pgqrs_table_slot(workflows);
	bool new_key_scope;

	check_retry_policy(s);
	check_outbox(s);
	if (!lock_workflow(name, queues, queue, workflows, workflow))
		pgqrs_error_workflow_not_found(name);
	new_key_scope = store_workflow(workflows, workflow, s);
	pgqrs_queue_store(queues, queue, s);
	if (new_key_scope)
		exclude_triggers(name, queues, queue);
	pgqrs_table_close(workflows);
	pgqrs_table_close(queues);
}
