/*
 * drop.c
 *	  Purging and deleting queues and workflows.
 *
 * Runs in any backend.
 *
 * Purging locks the messages that it drops and steps over those that somebody
 * else has locked; sending to the queue, claims and purges may go on at the
 * same time.
 *
 * Deleting takes the queue's row away: its name is free at the commit, and
 * from then on its messages and runs are found by no call.  With force the
 * background work removes them, in batches; without there are none.  No other
 * transaction waits for a deletion but one that sends to that very queue.
 */
#include "workflow/drop.h"

#include "base/clock.h"
#include "base/errors.h"
#include "miscadmin.h"
#include "queue/lease_limits.h"
#include "queue/message.h"
#include "queue/privileges.h"
#include "queue/queue.h"
#include "queue/queue_admin.h"
#include "shmem/claim_floor.h"
#include "shmem/quarantine.h"
#include "shmem/writers.h"
#include "shmem/xact_hooks.h"
#include "shmem/xact_wakeups.h"
#include "storage/proc.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "workflow/run.h"
#include "workflow/schedule.h"
#include "workflow/workflow.h"

/* How long senders are waited for, in milliseconds. */
#define SENDERS_PATIENCE 900

/* How many runs are cancelled with the same open tables and memory. */
#define CANCEL_CHUNK 1000

/*
 * Purging
 */

/* What cancels many runs without using more and more memory. */
typedef struct Canceller
{
	MemoryContext context; /* NULL: the tables are not open */
	PgqrsRunRows rows;
	int used;
} Canceller;

static void
close_canceller(Canceller *c)
{
	if (c->context == NULL)
		return;
	pgqrs_run_close(&c->rows);
	MemoryContextDelete(c->context);
	c->context = NULL;
}

/* Cancels a run whose message we have locked exclusively. */
static void
cancel_run(Canceller *c, int64 run_id)
{
	MemoryContext old;

	if (c->context != NULL && ++c->used == CANCEL_CHUNK)
		close_canceller(c);
	if (c->context == NULL)
	{
		c->context = AllocSetContextCreate(CurrentMemoryContext,
										   "pgqrs cancelled runs",
										   ALLOCSET_DEFAULT_SIZES);
		c->used = 0;
		old = MemoryContextSwitchTo(c->context);
		pgqrs_run_open(&c->rows);
	}
	else
		old = MemoryContextSwitchTo(c->context);
	pgqrs_run_require(&c->rows, run_id, PRIVILEGE_ADMIN, LockTupleExclusive);
	pgqrs_run_end(&c->rows, RUN_CANCELLED, PGQRS_NULL, PGQRS_NULL);
	MemoryContextSwitchTo(old);
}

/* Locks a message that waits; false if it does not, or somebody has it locked. */
static bool
lock_waiting(PgqrsTable *messages, TupleTableSlot *slot)
{
	int64 id = DatumGetInt64(pgqrs_get(slot, Messages_message_id));

	while (!pgqrs_lease_live(slot, pgqrs_clock()))
	{
		switch (pgqrs_row_lock(messages, slot, LockTupleExclusive, LockWaitSkip))
		{
			case ROW_LOCKED:
				return true;
			case ROW_BUSY:
				return false;
			case ROW_CHANGED:
				if (!pgqrs_row_fetch_id(messages, id, slot))
					return false;
		}
	}
	return false;
}

/* A message without its run, or of one that has ended, is no run's any more. */
static bool
has_live_run(TupleTableSlot *message)
{
	PgqrsTable *runs;
	TupleTableSlot *run;
	int status;
	bool live;

	if (pgqrs_is_null(message, Messages_run_id))
		return false;
	runs = pgqrs_table_open(TABLE_RUNS, false);
	run = pgqrs_table_slot(runs);
	live = pgqrs_row_fetch_id(runs,
							  DatumGetInt64(pgqrs_get(message, Messages_run_id)),
							  run);
	if (live)
	{
		status = pgqrs_enum_find(ENUM_RUN_STATUS, pgqrs_get(run, Runs_status));
		live = status >= 0 && !pgqrs_run_is_terminal(status);
	}
	pgqrs_table_close(runs);
	return live;
}

typedef struct Purge
{
	const char *queue;
	int64 count;
} Purge;

static bool
purge(void *arg)
{
	Purge *purge = arg;
	PgqrsTable *messages = pgqrs_table_open(TABLE_MESSAGES, true);
	TupleTableSlot *slot = pgqrs_table_slot(messages);
	Canceller canceller = {NULL};
	PgqrsQueue queue;
	PgqrsScan scan;
	PgqrsKey key = {1, BTEqualStrategyNumber};

	pgqrs_faulty_begin();
	purge->count = 0;
	pgqrs_queue_require(purge->queue, PRIVILEGE_ADMIN, &queue);
	key.value = Int64GetDatum(queue.queue_id);
	pgqrs_scan_begin(&scan, messages, INDEX_MESSAGES_CLAIM, 1, &key);
	while (pgqrs_scan_next(&scan, slot))
	{
		int64 id = DatumGetInt64(pgqrs_get(slot, Messages_message_id));

		if (!pgqrs_faulty_come_to(FAULTY_PURGE, id) || !lock_waiting(messages, slot))
			continue;
		if (has_live_run(slot))
			cancel_run(&canceller, DatumGetInt64(pgqrs_get(slot, Messages_run_id)));
		else
			pgqrs_row_delete(messages, slot);
		purge->count++;
	}
	pgqrs_scan_end(&scan);
	close_canceller(&canceller);
	pgqrs_table_close(messages);
	return true;
}

/* A message at which that fails is passed over. */
int64
pgqrs_queue_purge(const char *name)
{
	Purge p = {.queue = name};

	while (!pgqrs_faulty_try(purge, &p))
		CHECK_FOR_INTERRUPTS();
	return p.count;
}

/*
 * Deleting
 */

/*
 * Nothing may come to a queue between the look at what it has and the commit of
 * its deletion.  Transactions that look the queue up from now on wait for ours;
 * those that may have done so before are waited for.
 */
static void
await_senders(void)
{
	int patience = LockTimeout > 0 ? Min(LockTimeout, SENDERS_PATIENCE) :
									 SENDERS_PATIENCE;
	PgqrsWriters writers;

	pgqrs_catalog_changing(TABLE_QUEUES);
	pgqrs_writers_list(&writers);
	if (!pgqrs_writers_ended(&writers, patience))
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("transactions that wrote messages did not end within a second"),
				 errdetail("Each of them may have sent something to what is to be deleted."),
				 errhint("Repeat the call when long transactions and prepared ones have ended, or pass force => true.")));
}

static bool
has_outbox(TupleTableSlot *workflow, const char *name)
{
	return !pgqrs_is_null(workflow, Workflows_outbox_queue) &&
		strcmp(TextDatumGetCString(pgqrs_get(workflow, Workflows_outbox_queue)),
			   name) == 0;
}

static bool
is_outbox(const char *name)
{
	PgqrsTable *workflows = pgqrs_table_open(TABLE_WORKFLOWS, false);
	TupleTableSlot *slot = pgqrs_table_slot(workflows);
	PgqrsScan scan;
	bool found = false;

	pgqrs_scan_begin_table(&scan, workflows);
	while (!found && pgqrs_scan_next(&scan, slot))
		found = has_outbox(slot, name);
	pgqrs_scan_end(&scan);
	pgqrs_table_close(workflows);
	return found;
}

/*
 * Workflows whose outbox is deleted have none: whoever makes a queue of that
 * name later was not chosen to learn of their runs.
 */
static void
clear_outboxes(const char *name)
{
	PgqrsTable *workflows = pgqrs_table_open(TABLE_WORKFLOWS, true);
	TupleTableSlot *slot = pgqrs_table_slot(workflows);
	TupleTableSlot *locked = pgqrs_table_slot(workflows);
	PgqrsScan scan;
	PgqrsRow row;

	pgqrs_scan_begin_table(&scan, workflows);
	while (pgqrs_scan_next(&scan, slot))
	{
		int64 id = DatumGetInt64(pgqrs_get(slot, Workflows_workflow_id));

		if (!has_outbox(slot, name) ||
			!pgqrs_row_fetch_locked(workflows, id, LockTupleNoKeyExclusive, locked) ||
			!has_outbox(locked, name))
			continue;
		pgqrs_row_copy(&row, workflows, locked);
		pgqrs_set_null(&row, Workflows_outbox_queue);
		pgqrs_row_update(workflows, locked, &row);
		ereport(NOTICE,
				(errmsg("workflow \"%s\" has no outbox any more",
						TextDatumGetCString(pgqrs_get(locked, Workflows_name)))));
		pgqrs_catalog_changed(TABLE_WORKFLOWS);
	}
	pgqrs_scan_end(&scan);
	pgqrs_table_close(workflows);
}

/* Runs bring their messages, live and archived. */
static void
refuse_in_use(int64 id, bool is_workflow, const char *name)
{
	const char *what = NULL;

	if (is_workflow)
	{
		if (pgqrs_queue_has(TABLE_RUNS, INDEX_RUNS_WORKFLOW, id))
			what = "It has runs.";
		else if (pgqrs_schedule_any_of(name))
			what = "It has schedules.";
	}
	else if (pgqrs_queue_has(TABLE_MESSAGES, INDEX_MESSAGES_CLAIM, id))
		what = "It has messages.";
	else if (pgqrs_queue_has_archived(id))
		what = "It has archived messages.";
	else if (is_outbox(name))
		what = "It is the outbox of a workflow.";

	if (what != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_PGQRS_IN_USE),
				 errmsg("%s \"%s\" is in use",
						is_workflow ? "workflow" : "queue", name),
				 errdetail_internal("%s", what),
				 errhint("Pass force => true to delete them with it.")));
}

/* What the queue has stays to be removed by deleted_queue.c. */
static void
leave_contents(int64 id, bool is_workflow, const char *name)
{
	PgqrsTable *deleted = pgqrs_table_open(TABLE_DELETED, true);
	PgqrsRow row;

	pgqrs_row_init(&row, deleted);
	pgqrs_set(&row, Deleted_queue_id, Int64GetDatum(id));
	pgqrs_set(&row, Deleted_deleted_at, TimestampTzGetDatum(pgqrs_clock()));
	pgqrs_set(&row, Deleted_is_workflow, BoolGetDatum(is_workflow));
	pgqrs_set(&row, Deleted_name, CStringGetTextDatum(name));
	pgqrs_row_insert(deleted, &row);
	pgqrs_table_close(deleted);
	pgqrs_commit_due(DUE_DELETED, 0);
}

/*
 * Deletes a queue whose row is locked.  With force nothing is waited for: what
 * is sent to it before the commit is deleted with it.  Without, what keeps the
 * queue in use is looked for before any wait, and again when nothing can come.
 */
static void
delete_locked(PgqrsTable *queues, TupleTableSlot *queue, const char *name, bool force)
{
	int64 id = DatumGetInt64(pgqrs_get(queue, Queues_queue_id));
	bool is_workflow = DatumGetBool(pgqrs_get(queue, Queues_is_workflow));

	if (!force)
		refuse_in_use(id, is_workflow, name);
	pgqrs_row_delete(queues, queue);
	if (force)
	{
		/* what was made before lock_queue() had the queue's row */
		if (is_workflow)
			pgqrs_schedule_drop_all_of(name);
		else
			clear_outboxes(name);
		leave_contents(id, is_workflow, name);
	}
	else
	{
		await_senders();
		refuse_in_use(id, is_workflow, name);
		if (is_workflow)
			pgqrs_workflow_delete_row(id);
	}
	pgqrs_floor_forget(id);
	pgqrs_catalog_changed(TABLE_QUEUES);
	pgqrs_wake_mark_queue_deleted(id);
}

/*
 * Locks the queue's row.  Rows of others that go or change with it come first:
 * a transaction that has one of them may go on and send to the queue, where it
 * would wait for ours.
 */
static bool
lock_queue(PgqrsTable *queues, const char *name, bool force, TupleTableSlot *queue)
{
	if (force && (pgqrs_grants_on(name) & CAN_ADMIN) != 0)
	{
		pgqrs_schedule_drop_all_of(name);
		clear_outboxes(name);
	}
	return pgqrs_queue_lock(queues, name, LockTupleExclusive, queue);
}

bool
pgqrs_queue_delete(const char *name, bool force)
{
	PgqrsTable *queues = pgqrs_table_open(TABLE_QUEUES, true);
	TupleTableSlot *queue = pgqrs_table_slot(queues);
	bool found;

	found = lock_queue(queues, name, force, queue);
	if (found)
	{
		if (!force && DatumGetBool(pgqrs_get(queue, Queues_is_workflow)))
			ereport(ERROR,
					(errcode(ERRCODE_PGQRS_INVALID_STATE),
					 errmsg("queue \"%s\" cannot be deleted", name),
					 errdetail("It is the queue of the workflow of this name."),
					 errhint("Delete the workflow with pgqrs_delete_workflow(), or pass force => true to delete it with its runs.")));
		delete_locked(queues, queue, name, force);
	}
	pgqrs_table_close(queues);
	return found;
}

/* A queue without a workflow is left alone. */
bool
pgqrs_workflow_delete(const char *name, bool force)
{
	PgqrsTable *queues = pgqrs_table_open(TABLE_QUEUES, true);
	TupleTableSlot *queue = pgqrs_table_slot(queues);
	bool found;

	found = lock_queue(queues, name, force, queue) &&
		DatumGetBool(pgqrs_get(queue, Queues_is_workflow));
	if (found)
		delete_locked(queues, queue, name, force);
	pgqrs_table_close(queues);
	return found;
}
