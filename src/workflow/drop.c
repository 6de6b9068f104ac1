/*
 * drop.c
 *	  Purging and deleting queues and workflows.
 *
 * Runs in any backend.  A purge locks the messages that it drops and skips
 * those that another transaction has locked; senders, claims and other purges
 * continue meanwhile.
 *
 * A forced deletion marks the queue's row as deleted.  From its commit on the
 * name is free, and lookups no longer find the queue, its messages, runs and
 * keys.  The deletion waits for no sender and no sender waits for it: messages
 * that are sent before its commit are deleted as well.  Background duties end
 * and remove the rows in batches, and finally the row of the queue
 * (retention.c).
 *
 * Without force the queue must be empty.  The deletion removes its row, for
 * which a sender waits (queue.c), and waits for open transactions that may have
 * sent a message.
 */
#include "workflow/drop.h"

#include "base/clock.h"
#include "base/errors.h"
#include "miscadmin.h"
#include "queue/counter_rows.h"
#include "queue/lease_limits.h"
#include "queue/message.h"
#include "shmem/claim_floor.h"
#include "shmem/quarantine.h"
#include "shmem/writers.h"
#include "shmem/xact_hooks.h"
#include "shmem/xact_wakeups.h"
#include "storage/proc.h"
#include "store/scan.h"
#include "store/tuple.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "workflow/run.h"
#include "workflow/schedule.h"
#include "workflow/workflow.h"

/* So many messages are dropped with the same open tables and memory context. */
#define DROP_CHUNK 1000

/*
 * Dropping messages
 */

/* Drops the messages of one queue one by one, in bounded memory. */
typedef struct Drop
{
	const PgqrsQueue *queue;
	bool leased;		   /* drops messages under a live lease, too */
	MemoryContext context; /* NULL: the tables are not open */
	PgqrsRunRows rows;
	int used; /* messages dropped with these tables */
	PgqrsDropped *dropped;
} Drop;

static void
close_drop(Drop *d)
{
	if (d->context == NULL)
		return;
	pgqrs_run_close(&d->rows);
	MemoryContextDelete(d->context);
	d->context = NULL;
}

static void
open_drop(Drop *d)
{
	MemoryContext caller;

	if (d->context != NULL && d->used++ < DROP_CHUNK)
		return;
	close_drop(d);
	d->context = AllocSetContextCreate(CurrentMemoryContext,
									   "pgqrs dropped messages",
									   ALLOCSET_DEFAULT_SIZES);
	d->used = 1;
	caller = MemoryContextSwitchTo(d->context);
	pgqrs_run_open(&d->rows);
	MemoryContextSwitchTo(caller);
}

/*
 * Locks a message that is to be dropped; false if another transaction has it
 * locked, or it is under a lease that protects it.
 */
static bool
lock_droppable(Drop *d, PgqrsTable *messages, TupleTableSlot *slot)
{
	int64 id = pgqrs_get_int64(slot, Messages_message_id);

	while (d->leased || !pgqrs_lease_is_live(slot, pgqrs_clock()))
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

/*
 * A message whose run is missing or has ended is dropped like one without a
 * run.
 */
static bool
has_live_run(PgqrsRunRows *rows)
{
	int status;

	if (pgqrs_is_null(rows->message, Messages_run_id) ||
		!pgqrs_row_fetch_id(rows->runs,
							pgqrs_get_int64(rows->message, Messages_run_id),
							rows->run))
		return false;
	status = pgqrs_enum_find(ENUM_RUN_STATUS, pgqrs_get(rows->run, Runs_status));
	return status >= 0 && !pgqrs_run_is_terminal(status);
}

/*
 * Drops a locked message; the lock keeps other transactions from ending its
 * run.
 */
static void
drop_message(Drop *d, int64 id)
{
	PgqrsRunRows *rows = &d->rows;
	MemoryContext caller;

	open_drop(d);
	caller = MemoryContextSwitchTo(d->context);
	rows->has_message = pgqrs_row_fetch_id(rows->messages, id, rows->message);
	if (!rows->has_message)
		elog(ERROR, "message " INT64_FORMAT " is gone although it is locked", id);
	if (has_live_run(rows))
	{
		rows->queue = *d->queue;
		rows->failures = DatumGetInt32(pgqrs_get(rows->message, Messages_failures));
		pgqrs_run_end(rows, RUN_CANCELLED, PGQRS_NULL, PGQRS_NULL);
		d->dropped->runs++;
	}
	else
	{
		pgqrs_message_drop(rows->messages, rows->message);
		d->dropped->messages++;
	}
	MemoryContextSwitchTo(caller);
}

/* Drops up to max messages. */
static void
drop_messages(Drop *d, int64 max)
{
	PgqrsQuarantineKind kind = d->leased ? QUARANTINE_MESSAGE : QUARANTINE_PURGE;
	PgqrsTable *messages = pgqrs_table_open(TABLE_MESSAGES, true);
	TupleTableSlot *slot = pgqrs_table_slot(messages);
	PgqrsKey key = {1, BTEqualStrategyNumber, Int64GetDatum(d->queue->queue_id)};
	int64 count = 0;
	PgqrsScan scan;

	pgqrs_scan_begin(&scan, messages, INDEX_MESSAGES_CLAIM, 1, &key);
	while (count < max && pgqrs_scan_next(&scan, slot))
	{
		int64 id = pgqrs_get_int64(slot, Messages_message_id);

		if (pgqrs_quarantine_begin_row(kind, id) && lock_droppable(d, messages, slot))
		{
			drop_message(d, id);
			count++;
		}
	}
	pgqrs_scan_end(&scan);
	close_drop(d);
	pgqrs_table_close(messages);
}

void
pgqrs_queue_drop_messages(const PgqrsQueue *queue, int64 max, PgqrsDropped *dropped)
{
	Drop d = {.queue = queue, .leased = true, .dropped = dropped};

	drop_messages(&d, max);
}

/*
 * Purging
 */

typedef struct Purge
{
	const char *name;
	PgqrsDropped dropped;
} Purge;

static bool
purge_queue(void *arg)
{
	Purge *purge = arg;
	PgqrsQueue queue;
	Drop d = {.queue = &queue, .dropped = &purge->dropped};

	pgqrs_quarantine_begin();
	memset(&purge->dropped, 0, sizeof(purge->dropped));
	pgqrs_queue_require(purge->name, PRIVILEGE_ADMIN, &queue);
	drop_messages(&d, PG_INT64_MAX);
	return true;
}

/* Messages at which the purge fails are skipped. */
int64
pgqrs_queue_purge(const char *name)
{
	Purge purge = {.name = name};

	while (!pgqrs_quarantine_try(purge_queue, &purge))
		CHECK_FOR_INTERRUPTS();
	return purge.dropped.messages + purge.dropped.runs;
}

/*
 * Deleting
 */

/*
 * No message may arrive between the check for messages and the commit of the
 * deletion. Transactions that look the queue up from now on wait for this
 * transaction; it waits here for those that may have looked it up before.
 */
static void
await_senders(void)
{
	pgqrs_catalog_changing(TABLE_QUEUES);
	pgqrs_writers_await("Each of them may have sent a message to the queue.",
						"Repeat the call when long transactions and prepared ones have ended, or pass force => true.");
}

static bool
workflow_has_outbox(TupleTableSlot *workflow, const char *name)
{
	return !pgqrs_is_null(workflow, Workflows_outbox_queue) &&
		strcmp(TextDatumGetCString(pgqrs_get(workflow, Workflows_outbox_queue)),
			   name) == 0;
}

static bool
is_outbox_of_any(const char *name)
{
	PgqrsTable *workflows = pgqrs_table_open(TABLE_WORKFLOWS, false);
	TupleTableSlot *slot = pgqrs_table_slot(workflows);
	PgqrsScan scan;
	bool found = false;

	pgqrs_scan_begin_table(&scan, workflows);
	while (!found && pgqrs_scan_next(&scan, slot))
		found = workflow_has_outbox(slot, name);
	pgqrs_scan_end(&scan);
	pgqrs_table_close(workflows);
	return found;
}

/*
 * Clears the outbox of workflows whose outbox is deleted: the owner of a later
 * queue of that name must not receive their events.
 */
static void
clear_outboxes(const char *name)
{
	PgqrsTable *workflows = pgqrs_table_open(TABLE_WORKFLOWS, true);
	TupleTableSlot *slot = pgqrs_table_slot(workflows);
	TupleTableSlot *locked = pgqrs_table_slot(workflows);
	PgqrsScan scan;

	pgqrs_scan_begin_table(&scan, workflows);
	while (pgqrs_scan_next(&scan, slot))
	{
		int64 id = pgqrs_get_int64(slot, Workflows_workflow_id);

		if (!workflow_has_outbox(slot, name) ||
			!pgqrs_row_fetch_locked(workflows, id, LockTupleNoKeyExclusive, locked) ||
			!workflow_has_outbox(locked, name))
			continue;
		pgqrs_row_set(workflows, locked, Workflows_outbox_queue, PGQRS_NULL);
		ereport(NOTICE,
				(errmsg("workflow \"%s\" has no outbox any more",
						TextDatumGetCString(pgqrs_get(locked, Workflows_name)))));
		pgqrs_catalog_changed(TABLE_WORKFLOWS);
	}
	pgqrs_scan_end(&scan);
	pgqrs_table_close(workflows);
}

/* Each run brings its live or archived message. */
static void
refuse_in_use(int64 id, bool is_workflow, const char *name)
{
	const char *reason = NULL;

	if (is_workflow)
	{
		if (pgqrs_table_has_row(TABLE_RUNS, INDEX_RUNS_WORKFLOW, id))
			reason = "The workflow has runs.";
		else if (pgqrs_schedule_exists_for(name))
			reason = "The workflow has schedules.";
	}
	else if (pgqrs_table_has_row(TABLE_MESSAGES, INDEX_MESSAGES_CLAIM, id))
		reason = "The queue has messages.";
	else if (pgqrs_queue_has_archived(id))
		reason = "The queue has archived messages.";
	else if (is_outbox_of_any(name))
		reason = "The queue is the outbox of a workflow.";

	if (reason != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_PGQRS_IN_USE),
				 is_workflow ? errmsg("workflow \"%s\" is in use", name) :
							   errmsg("queue \"%s\" is in use", name),
				 errdetail_internal("%s", reason),
				 errhint("Pass force => true to delete everything that belongs to it.")));
}

/* Retention removes the queue's rows in the background. */
static void
mark_queue_deleted(PgqrsTable *queues, TupleTableSlot *queue)
{
	pgqrs_row_set(queues, queue, Queues_deleted_at,
				  pgqrs_value(TimestampTzGetDatum(pgqrs_clock())));
	pgqrs_xact_request_duty(DUTY_DELETED_QUEUES, 0);
}

/*
 * Deletes a queue whose row is locked exclusively, so that no transaction adds
 * a schedule to it or makes it an outbox.  Without force, the queue is checked
 * before any wait, so that a queue in use is refused at once, and again when no
 * message can arrive.
 */
static void
delete_locked_queue(PgqrsTable *queues, TupleTableSlot *queue, const char *name,
					bool force)
{
	int64 id = pgqrs_get_int64(queue, Queues_queue_id);
	bool is_workflow = DatumGetBool(pgqrs_get(queue, Queues_is_workflow));

	if (force)
	{
		mark_queue_deleted(queues, queue);
		if (is_workflow)
			pgqrs_schedule_drop_for(name);
		else
			clear_outboxes(name);
	}
	else
	{
		refuse_in_use(id, is_workflow, name);
		pgqrs_row_delete(queues, queue);
		await_senders();
		refuse_in_use(id, is_workflow, name);
		if (is_workflow)
			pgqrs_workflow_delete_row(id);
		pgqrs_counters_drop(id);
	}
	pgqrs_floor_forget(id);
	pgqrs_catalog_changed(TABLE_QUEUES);
	pgqrs_xact_wakeup(WAKEUP_QUEUE_DELETED, id);
}

bool
pgqrs_queue_delete(const char *name, bool force)
{
	PgqrsTable *queues = pgqrs_table_open(TABLE_QUEUES, true);
	TupleTableSlot *queue = pgqrs_table_slot(queues);
	bool found;

	found = pgqrs_queue_lock(queues, name, LockTupleExclusive, queue);
	if (found)
	{
		if (!force && DatumGetBool(pgqrs_get(queue, Queues_is_workflow)))
			ereport(ERROR,
					(errcode(ERRCODE_PGQRS_INVALID_STATE),
					 errmsg("queue \"%s\" cannot be deleted", name),
					 errdetail("The queue belongs to the workflow of this name."),
					 errhint("Delete the workflow with pgqrs_delete_workflow(), or pass force => true to delete it with its runs.")));
		delete_locked_queue(queues, queue, name, force);
	}
	pgqrs_table_close(queues);
	return found;
}

/* Ignores a queue that belongs to no workflow. */
bool
pgqrs_workflow_delete(const char *name, bool force)
{
	PgqrsTable *queues = pgqrs_table_open(TABLE_QUEUES, true);
	TupleTableSlot *queue = pgqrs_table_slot(queues);
	bool found;

	found = pgqrs_queue_lock(queues, name, LockTupleExclusive, queue) &&
		DatumGetBool(pgqrs_get(queue, Queues_is_workflow));
	if (found)
		delete_locked_queue(queues, queue, name, force);
	pgqrs_table_close(queues);
	return found;
}
