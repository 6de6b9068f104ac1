/*
 * deleted_queue.c
 *	  What deleted queues have left: their messages, runs and history.
 *
 * Background work.  First the live messages go and the live runs end as
 * CANCELLED, which tells parents, children and the outbox.  When their children
 * have been cancelled, all that has ended is removed, as retention removes it.
 * Last goes the row that says that there is something to remove.
 *
 * A pass is bounded and waits for no lock: what another transaction has locked
 * is left to a later pass.  Any number of passes may run at the same time.  A
 * transaction that was sending to the queue when it was deleted may commit
 * after a pass found nothing more, so the last row stays until all of those
 * have ended.
 */
#include "background/deleted_queue.h"

#include "base/clock.h"
#include "miscadmin.h"
#include "queue/queue.h"
#include "shmem/quarantine.h"
#include "shmem/writers.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "workflow/run.h"
#include "workflow/workflow.h"

/* Messages that a pass ends. */
#define MAX_ENDED 1000

/* What is locked, or whose children are still to be cancelled, is tried again. */
#define RETRY (1 * USECS_PER_SEC)

/* How long the last row waits for senders within a pass, in milliseconds. */
#define SENDERS_PATIENCE 20

typedef struct Deletion
{
	PgqrsQueue queue;
	PgqrsRunRows rows;
	int may_end;
	bool gently;
	TimestampTz next;
	int64 *cancelled;
	PgqrsRetained *removed;
} Deletion;

/* The queue as it was, as far as ending its messages needs it. */
static void
read_deleted(TupleTableSlot *slot, PgqrsQueue *queue)
{
	memset(queue, 0, sizeof(*queue));
	queue->queue_id = DatumGetInt64(pgqrs_get(slot, Deleted_queue_id));
	queue->is_workflow = DatumGetBool(pgqrs_get(slot, Deleted_is_workflow));
	text_to_cstring_buffer(DatumGetTextPP(pgqrs_get(slot, Deleted_name)),
						   queue->name, PGQRS_NAME_SIZE);
}

/*
 * Live messages and runs
 */

/* The message in the slot is locked, so that no other transaction ends its run. */
static void
end_message(Deletion *d)
{
	PgqrsRunRows *rows = &d->rows;
	int64 id = DatumGetInt64(pgqrs_get(rows->message, Messages_message_id));

	if (pgqrs_is_null(rows->message, Messages_run_id) ||
		!pgqrs_row_fetch_id(rows->runs, id, rows->run) ||
		pgqrs_run_is_terminal(pgqrs_run_status(rows->run)))
	{
		pgqrs_row_delete(rows->messages, rows->message);
		d->removed->messages++;
		return;
	}
	rows->queue = d->queue;
	rows->has_message = true;
	rows->failures = DatumGetInt32(pgqrs_get(rows->message, Messages_failures));
	pgqrs_run_end(rows, RUN_CANCELLED, PGQRS_NULL, PGQRS_NULL);
	(*d->cancelled)++;
}

/* False: there are more. */
static bool
end_messages(Deletion *d)
{
	PgqrsKey key = {1, BTEqualStrategyNumber, Int64GetDatum(d->queue.queue_id)};
	bool all = true;
	PgqrsScan scan;

	pgqrs_scan_begin(&scan, d->rows.messages, INDEX_MESSAGES_CLAIM, 1, &key);
	while (d->may_end > 0 && pgqrs_scan_next(&scan, d->rows.message))
	{
		int64 id = DatumGetInt64(pgqrs_get(d->rows.message, Messages_message_id));

		CHECK_FOR_INTERRUPTS();
		if (!pgqrs_faulty_come_to(FAULTY_MESSAGE, id) ||
			pgqrs_row_lock(d->rows.messages, d->rows.message,
						   LockTupleExclusive, LockWaitSkip) != ROW_LOCKED)
		{
			all = false;
			continue;
		}
		end_message(d);
		d->may_end--;
	}
	pgqrs_scan_end(&scan);
	return all && d->may_end > 0;
}

/*
 * The last row
 */

/*
 * Whether the transactions have ended that may have sent to a queue before
 * they could see that it is deleted.  They are remembered by this backend from
 * one pass to the next.
 */
static bool
have_senders_ended(int64 queue_id)
{
	static int64 looked_at = 0;
	static PgqrsWriters writers = {0};

	if (looked_at != queue_id)
	{
		MemoryContext caller = MemoryContextSwitchTo(TopMemoryContext);

		if (writers.ids != NULL)
			pfree(writers.ids);
		writers.ids = NULL;
		pgqrs_writers_list(&writers);
		MemoryContextSwitchTo(caller);
		looked_at = queue_id;
	}
	if (!pgqrs_writers_ended(&writers, SENDERS_PATIENCE))
		return false;
	looked_at = 0;
	return true;
}

/* Removes the row of a queue that has nothing left; false: not yet. */
static bool
finish(Deletion *d, PgqrsTable *deleted, TupleTableSlot *slot)
{
	if (!have_senders_ended(d->queue.queue_id) ||
		pgqrs_queue_has(TABLE_MESSAGES, INDEX_MESSAGES_CLAIM, d->queue.queue_id) ||
		pgqrs_queue_has(TABLE_RUNS, INDEX_RUNS_WORKFLOW, d->queue.queue_id) ||
		pgqrs_queue_has_archived(d->queue.queue_id))
		return false;
	if (pgqrs_row_try_delete(deleted, slot, LockWaitSkip) != ROW_LOCKED)
		return false;
	/* which stays as long as a run of it may end */
	if (d->queue.is_workflow)
		pgqrs_workflow_delete_row(d->queue.queue_id);
	return true;
}

/* One queue; whether something is left. */
static void
remove_some(Deletion *d, PgqrsTable *deleted, TupleTableSlot *slot)
{
	TimestampTz next = 0;

	read_deleted(slot, &d->queue);
	if (!end_messages(d))
		next = d->may_end > 0 ? pgqrs_clock() + RETRY : 0;
	else
	{
		next = pgqrs_retention_empty(&d->queue, d->gently, d->removed);
		if (next == DT_NOEND && !finish(d, deleted, slot))
			next = pgqrs_clock() + RETRY;
	}
	d->next = Min(d->next, next);
}

TimestampTz
pgqrs_deleted_pass(bool gently, int64 *cancelled, PgqrsRetained *removed)
{
	PgqrsTable *deleted = pgqrs_table_open(TABLE_DELETED, true);
	TupleTableSlot *slot = pgqrs_table_slot(deleted);
	Deletion d = {
		.may_end = MAX_ENDED,
		.gently = gently,
		.next = DT_NOEND,
		.cancelled = cancelled,
		.removed = removed,
	};
	PgqrsScan scan;

	memset(removed, 0, sizeof(*removed));
	*cancelled = 0;
	pgqrs_run_open(&d.rows);
	pgqrs_scan_begin_table(&scan, deleted);
	while (d.may_end > 0 && pgqrs_scan_next(&scan, slot))
		remove_some(&d, deleted, slot);
	pgqrs_scan_end(&scan);
	pgqrs_run_close(&d.rows);
	pgqrs_table_close(deleted);
	return d.may_end > 0 ? d.next : 0;
}
