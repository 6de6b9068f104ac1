/*
 * queue_drop.c
 *	  Purging and deleting queues and workflows.
 *
 * Runs in any backend.
 *
 * Purging locks the messages that it drops and steps over those that somebody
 * else has locked; sending to the queue, claims and purges may go on at the
 * same time.
 *
 * Deleting locks the queue's row and then, to the end of the transaction, the
 * table of messages in a mode that keeps all writers of messages out.  Whoever
 * sends locks that table before it looks the queue up, so nothing can be added
 * to a queue that is being deleted, and nobody holds the lock of a message or
 * moves one to the archive meanwhile.  We wait for that table lock in short
 * tries, because all other writers queue up behind us while we wait; without
 * waiting at all we would never find the table free under load.
 */
#include "queue_drop.h"

#include "clock.h"
#include "errors.h"
#include "faulty.h"
#include "floor.h"
#include "grants.h"
#include "lease.h"
#include "message.h"
#include "miscadmin.h"
#include "outbox.h"
#include "queue.h"
#include "queue_admin.h"
#include "run.h"
#include "schedule.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "subtransaction.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"
#include "wake.h"

/* Milliseconds: how long a try for the table lock lasts, the pause, and all. */
#define LOCK_TRY	  50
#define LOCK_PAUSE	  50
#define LOCK_PATIENCE 900

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
	pgqrs_run_end(&c->rows, RUN_CANCELLED, NULL, NULL);
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

/* The setting is back when the subtransaction ends, whichever way. */
static bool
lock_relation(void *arg)
{
	int nest = NewGUCNestLevel();
	int timeout = LockTimeout > 0 ? Min(LockTimeout, LOCK_TRY) : LOCK_TRY;

	(void) set_config_option("lock_timeout", psprintf("%d", timeout), PGC_USERSET,
							 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	LockRelationOid(*(Oid *) arg, ShareRowExclusiveLock);
	AtEOXact_GUC(true, nest);
	return true;
}

/*
 * Waits for the table lock for LOCK_TRY.  A subtransaction, because the end of
 * a lock time-out is an error.
 */
static bool
try_lock(Oid relid)
{
	ErrorData *error = pgqrs_subtransaction(lock_relation, &relid);

	if (error == NULL)
		return true;
	if (error->sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE)
		ReThrowError(error);
	FreeErrorData(error);
	return false;
}

/* Keeps all who write messages out, until the end of the transaction. */
static void
lock_messages(void)
{
	Oid relid = pgqrs_catalog_table(TABLE_MESSAGES);
	TimestampTz start = GetCurrentTimestamp();

	while (!try_lock(relid))
	{
		if (TimestampDifferenceExceeds(start, GetCurrentTimestamp(), LOCK_PATIENCE))
			ereport(ERROR,
					(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
					 errmsg("could not keep others from writing messages"),
					 errdetail("Transactions that wrote messages did not end within a second."),
					 errhint("Repeat the call when long transactions and prepared ones have ended.")));
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 LOCK_PAUSE, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * Deletes the rows whose first column of an index has a value.  A row that
 * somebody else changed meanwhile is looked at again.
 */
static void
delete_rows(PgqrsTable *table, TupleTableSlot *slot, PgqrsIndexId index, int64 value)
{
	PgqrsKey key = {1, BTEqualStrategyNumber, Int64GetDatum(value)};
	PgqrsScan scan;
	bool again;

	do
	{
		again = false;
		pgqrs_scan_begin(&scan, table, index, 1, &key);
		while (pgqrs_scan_next(&scan, slot))
		{
			if (pgqrs_row_lock(table, slot, LockTupleExclusive, LockWaitBlock) ==
				ROW_LOCKED)
				pgqrs_row_delete(table, slot);
			else
				again = true;
		}
		pgqrs_scan_end(&scan);
	} while (again);
}

/* A live run ends with its workflow, of which the outbox is told. */
static void
tell_outbox(PgqrsTable *messages, int64 workflow_id, PgqrsTable *runs,
			TupleTableSlot *run)
{
	PgqrsQueue workflow;
	PgqrsRow row;

	if (pgqrs_run_is_terminal(pgqrs_run_status(run)) ||
		!pgqrs_queue_by_id(workflow_id, &workflow))
		return;
	pgqrs_row_copy(&row, runs, run);
	pgqrs_run_move(&row, run, RUN_CANCELLED);
	pgqrs_set(&row, Runs_completed_at, TimestampTzGetDatum(pgqrs_clock()));
	pgqrs_outbox_send(messages, &workflow, &row);
}

/* The runs of a workflow, with their steps, signals, events and archived messages. */
static void
delete_runs(PgqrsTable *messages, int64 workflow_id)
{
	PgqrsTable *runs = pgqrs_table_open(TABLE_RUNS, true);
	PgqrsTable *steps = pgqrs_table_open(TABLE_STEPS, true);
	PgqrsTable *signals = pgqrs_table_open(TABLE_SIGNALS, true);
	PgqrsTable *events = pgqrs_table_open(TABLE_EVENTS, true);
	PgqrsTable *archive = pgqrs_table_open(TABLE_ARCHIVE, true);
	TupleTableSlot *run = pgqrs_table_slot(runs);
	TupleTableSlot *locked = pgqrs_table_slot(runs);
	TupleTableSlot *step = pgqrs_table_slot(steps);
	TupleTableSlot *signal = pgqrs_table_slot(signals);
	TupleTableSlot *event = pgqrs_table_slot(events);
	TupleTableSlot *archived = pgqrs_table_slot(archive);
	PgqrsKey key = {1, BTEqualStrategyNumber, Int64GetDatum(workflow_id)};
	PgqrsScan scan;

	pgqrs_scan_begin(&scan, runs, INDEX_RUNS_WORKFLOW, 1, &key);
	while (pgqrs_scan_next(&scan, run))
	{
		int64 run_id = DatumGetInt64(pgqrs_get(run, Runs_run_id));

		/* nobody sends it a signal from here on */
		if (!pgqrs_row_fetch_locked(runs, run_id, LockTupleExclusive, locked))
			continue;
		tell_outbox(messages, workflow_id, runs, locked);
		delete_rows(steps, step, INDEX_STEPS_PKEY, run_id);
		delete_rows(signals, signal, INDEX_SIGNALS_RUN, run_id);
		delete_rows(events, event, INDEX_EVENTS_RUN, run_id);
		delete_rows(archive, archived, INDEX_ARCHIVE_PKEY, run_id);
	}
	pgqrs_scan_end(&scan);
	delete_rows(runs, run, INDEX_RUNS_WORKFLOW, workflow_id);
	pgqrs_table_close(archive);
	pgqrs_table_close(events);
	pgqrs_table_close(signals);
	pgqrs_table_close(steps);
	pgqrs_table_close(runs);
}

static void
delete_archived(int64 queue_id)
{
	PgqrsTable *archive = pgqrs_table_open(TABLE_ARCHIVE, true);
	TupleTableSlot *slot = pgqrs_table_slot(archive);

	delete_rows(archive, slot, INDEX_ARCHIVE_DEAD, queue_id);
	delete_rows(archive, slot, INDEX_ARCHIVE_ENDED, queue_id);
	pgqrs_table_close(archive);
}

/* Whether a row has a value in the first column of an index. */
static bool
has_rows(PgqrsTableId id, PgqrsIndexId index, int64 value)
{
	PgqrsTable *table = pgqrs_table_open(id, false);
	Datum key = Int64GetDatum(value);
	bool found = pgqrs_row_fetch(table, index, 1, &key, pgqrs_table_slot(table));

	pgqrs_table_close(table);
	return found;
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
		if (has_rows(TABLE_RUNS, INDEX_RUNS_WORKFLOW, id))
			what = "It has runs.";
		else if (pgqrs_schedule_any_of(name))
			what = "It has schedules.";
	}
	else if (has_rows(TABLE_MESSAGES, INDEX_MESSAGES_CLAIM, id))
		what = "It has messages.";
	else if (has_rows(TABLE_ARCHIVE, INDEX_ARCHIVE_DEAD, id) ||
			 has_rows(TABLE_ARCHIVE, INDEX_ARCHIVE_ENDED, id))
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

/* Everything that belongs to a queue but its own row. */
static void
delete_contents(int64 id, bool is_workflow)
{
	PgqrsTable *messages = pgqrs_table_open(TABLE_MESSAGES, true);

	delete_rows(messages, pgqrs_table_slot(messages), INDEX_MESSAGES_CLAIM, id);
	if (is_workflow)
		delete_runs(messages, id);
	else
		delete_archived(id);
	pgqrs_table_close(messages);
}

static void
delete_workflow_row(int64 id)
{
	PgqrsTable *workflows = pgqrs_table_open(TABLE_WORKFLOWS, true);

	delete_rows(workflows, pgqrs_table_slot(workflows), INDEX_WORKFLOWS_PKEY, id);
	pgqrs_table_close(workflows);
	pgqrs_catalog_changed(TABLE_WORKFLOWS);
}

/*
 * Deletes a queue whose row is locked.  What keeps it in use is looked for
 * before others are kept out, so that the usual refusal disturbs nobody, and
 * again when nothing can be added any more.
 */
static void
delete_locked(PgqrsTable *queues, TupleTableSlot *queue, const char *name, bool force)
{
	int64 id = DatumGetInt64(pgqrs_get(queue, Queues_queue_id));
	bool is_workflow = DatumGetBool(pgqrs_get(queue, Queues_is_workflow));

	if (!force)
		refuse_in_use(id, is_workflow, name);
	lock_messages();
	if (force)
	{
		if (is_workflow)
			pgqrs_schedule_drop_all_of(name);
		else
			clear_outboxes(name);
		delete_contents(id, is_workflow);
	}
	else
		refuse_in_use(id, is_workflow, name);
	if (is_workflow)
		delete_workflow_row(id);
	pgqrs_row_delete(queues, queue);
	pgqrs_floor_forget(id);
	pgqrs_catalog_changed(TABLE_QUEUES);
	pgqrs_wake_mark_queue_deleted(id);
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

	found = pgqrs_queue_lock(queues, name, LockTupleExclusive, queue) &&
		DatumGetBool(pgqrs_get(queue, Queues_is_workflow));
	if (found)
		delete_locked(queues, queue, name, force);
	pgqrs_table_close(queues);
	return found;
}
