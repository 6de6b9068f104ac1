/*
 * worker.c
 *	  Workers and their leases: registration, heartbeat, extension, stop.
 *
 * Runs in any backend.  Locks the worker's row first, then its messages in
 * ascending order of id, and never waits for a message: a transaction that has
 * locked it ends, releases or extends it, or is an open step transaction.
 * Messages that a stopped worker still holds afterwards, because they were
 * skipped here or claimed at the same moment, are released by the duty
 * DUTY_WORKERS, or by the end of their lease.
 */
#include "delivery/worker.h"

#include "base/clock.h"
#include "base/int64_list.h"
#include "delivery/claim.h"
#include "queue/audit.h"
#include "queue/message.h"
#include "shmem/claim_floor.h"
#include "shmem/quarantine.h"
#include "shmem/xact_hooks.h"
#include "store/scan.h"
#include "store/tuple.h"
#include "utils/timestamp.h"
#include "workflow/cancel.h"

/* DUTY_WORKERS releases the skipped messages of a stopped worker after this time. */
#define REAP_DELAY (1 * USECS_PER_SEC)

/* Which messages are meant, of those that a worker holds. */
typedef struct HeldFilter
{
	PgqrsLeaseTest is_kept; /* NULL: all are meant */
	void *arg;
} HeldFilter;

static bool
is_meant(TupleTableSlot *message, const HeldFilter *filter)
{
	return filter->is_kept == NULL ||
		(!pgqrs_is_null(message, Messages_lease) &&
		 !filter->is_kept(pgqrs_get_int64(message, Messages_message_id),
						  pgqrs_get_int64(message, Messages_lease), filter->arg));
}

static const HeldFilter all_held = {NULL};

/* The ids of up to max messages that a worker holds, ascending. */
static PgqrsInt64List
messages_held_by(PgqrsTable *messages, TupleTableSlot *slot, int64 worker_id,
				 int max, const HeldFilter *filter)
{
	PgqrsKey key = {1, BTEqualStrategyNumber, Int64GetDatum(worker_id)};
	PgqrsInt64List held = {0};
	PgqrsScan scan;

	pgqrs_scan_begin(&scan, messages, INDEX_MESSAGES_WORKER, 1, &key);
	while (held.count < max && pgqrs_scan_next(&scan, slot))
		if (is_meant(slot, filter))
			pgqrs_int64_list_add(&held, pgqrs_get_int64(slot, Messages_message_id));
	pgqrs_scan_end(&scan);
	pgqrs_int64_sort(held.values, held.count);
	return held;
}

static bool
is_held_by(TupleTableSlot *slot, int64 worker_id)
{
	return !pgqrs_is_null(slot, Messages_lease) &&
		!pgqrs_is_null(slot, Messages_worker_id) &&
		pgqrs_get_int64(slot, Messages_worker_id) == worker_id;
}

/*
 * Locks a message that the worker holds.  ROW_CHANGED if the worker no longer
 * holds it, another result if another transaction has locked it.
 */
static PgqrsLockResult
lock_held_message(PgqrsTable *messages, TupleTableSlot *slot, int64 id,
				  int64 worker_id, LockTupleMode mode)
{
	while (pgqrs_row_fetch_id(messages, id, slot) && is_held_by(slot, worker_id))
	{
		PgqrsLockResult result = pgqrs_row_lock(messages, slot, mode, LockWaitSkip);

		/* after a concurrent extension the worker still holds the message */
		if (result != ROW_CHANGED)
			return result;
	}
	return ROW_CHANGED;
}

static bool
try_lock_with_run(PgqrsRunRows *rows, int64 message_id)
{
	if (!pgqrs_row_fetch_id(rows->messages, message_id, rows->message) ||
		pgqrs_row_lock(rows->messages, rows->message, LockTupleExclusive,
					   LockWaitSkip) != ROW_LOCKED)
		return false;
	rows->has_message = true;
	return pgqrs_queue_by_id(pgqrs_get_int64(rows->message, Messages_queue_id),
							 &rows->queue) &&
		(pgqrs_is_null(rows->message, Messages_run_id) ||
		 (pgqrs_row_fetch_id(rows->runs, message_id, rows->run) &&
		  !pgqrs_row_update_waits(rows->run)));
}

PgqrsMessageLock
pgqrs_worker_lock_message(PgqrsRunRows *rows, int64 message_id)
{
	if (!pgqrs_quarantine_begin_row(QUARANTINE_MESSAGE, message_id))
		return MESSAGE_QUARANTINED;
	return try_lock_with_run(rows, message_id) ? MESSAGE_LOCKED : MESSAGE_SKIPPED;
}

void
pgqrs_worker_reap(int64 worker_id, int max, PgqrsReaped *reaped)
{
	PgqrsRunRows rows;
	PgqrsInt64List held;

	pgqrs_run_open(&rows);
	held = messages_held_by(rows.messages, rows.message, worker_id, max, &all_held);
	for (int i = 0; i < held.count; i++)
	{
		PgqrsMessageLock lock = pgqrs_worker_lock_message(&rows, held.values[i]);

		if (lock == MESSAGE_SKIPPED)
			reaped->skipped++;
		if (lock != MESSAGE_LOCKED || !is_held_by(rows.message, worker_id))
			continue;
		if (pgqrs_claim_revoke(&rows))
			reaped->ended++;
		else
			reaped->given_back++;
	}
	pgqrs_run_close(&rows);
}

/*
 * Requests that the background worker releases skipped messages of a stopped
 * worker.
 */
static void
request_reap(void)
{
	pgqrs_xact_request_duty(DUTY_WORKERS, pgqrs_clock() + REAP_DELAY);
}

int64
pgqrs_worker_register(const PgqrsNewWorker *w)
{
	int64 worker_id;
	int64 old;

	/* until the name is free of live workers, committed or of this transaction */
	do
	{
		PgqrsReaped reaped = {0};

		while (pgqrs_worker_stop_named(w->name, &old))
		{
			pgqrs_worker_reap(old, PG_INT32_MAX, &reaped);
			request_reap();
		}
	} while (!pgqrs_worker_add(w, &worker_id));
	return worker_id;
}

PgqrsWorkerStatus
pgqrs_worker_heartbeat(int64 worker_id)
{
	PgqrsWorker worker;

	/* an error on a standby even if this call would not write */
	pgqrs_require_writable();
	pgqrs_async_commit_begin();
	pgqrs_worker_require_live(worker_id, &worker);
	pgqrs_worker_record_call(worker_id);
	pgqrs_async_commit_end();
	return worker.status;
}

int
pgqrs_worker_extend(int64 worker_id, int64 timeout, PgqrsExtended **results)
{
	PgqrsTable *messages = pgqrs_table_open(TABLE_MESSAGES, true);
	TupleTableSlot *slot = pgqrs_table_slot(messages);
	PgqrsWorker worker;
	PgqrsInt64List held;
	PgqrsQueue queue;
	int count = 0;

	pgqrs_async_commit_begin();
	pgqrs_worker_require_live(worker_id, &worker);
	pgqrs_worker_record_call(worker_id);
	held = messages_held_by(messages, slot, worker_id, PG_INT32_MAX, &all_held);
	pgqrs_message_lock_limits(messages, slot, held.count, held.values, NULL);
	*results = palloc_extended(Max(held.count, 1) * sizeof(PgqrsExtended),
							   MCXT_ALLOC_HUGE);
	for (int i = 0; i < held.count; i++)
	{
		int64 id = held.values[i];
		PgqrsExtended *result = &(*results)[count++];

		*result = (PgqrsExtended){.message_id = id};
		if (!pgqrs_row_fetch_id(messages, id, slot) || !is_held_by(slot, worker_id))
			continue;
		result->is_run = !pgqrs_is_null(slot, Messages_run_id);
		result->extended = pgqrs_queue_allows(pgqrs_get_int64(slot, Messages_queue_id),
											  PRIVILEGE_WORK, &queue) &&
			pgqrs_message_extend(messages, slot, id,
								 pgqrs_get_int64(slot, Messages_lease), timeout,
								 &result->cancel_requested);
	}
	pgqrs_table_close(messages);
	pgqrs_async_commit_end();
	return count;
}

/* No heartbeat: an operator may call, of a worker that is long dead. */
void
pgqrs_worker_suspend(int64 worker_id)
{
	pgqrs_worker_set_status(worker_id, WORKER_SUSPENDED);
}

void
pgqrs_worker_resume(int64 worker_id)
{
	pgqrs_worker_set_status(worker_id, WORKER_READY);
}

/* Releases messages that a worker holds, except locked ones; returns their number. */
static int64
release_held_messages(int64 worker_id, const HeldFilter *filter, const char *reason)
{
	PgqrsTable *messages = pgqrs_table_open(TABLE_MESSAGES, true);
	TupleTableSlot *slot = pgqrs_table_slot(messages);
	PgqrsInt64List held = messages_held_by(messages, slot, worker_id,
										   PG_INT32_MAX, filter);
	int64 released = 0;

	for (int i = 0; i < held.count; i++)
	{
		PgqrsRow row;

		if (lock_held_message(messages, slot, held.values[i], worker_id,
							  LockTupleExclusive) != ROW_LOCKED ||
			!is_meant(slot, filter))
			continue;
		released++;
		if (pgqrs_message_is_cancelling(slot))
		{
			pgqrs_cancel_end_requested(held.values[i]);
			continue;
		}
		pgqrs_row_copy(&row, messages, slot);
		pgqrs_message_clear_lease(&row,
								  pgqrs_floor_writer_clock(pgqrs_get_int64(slot, Messages_queue_id),
														   0, DT_NOBEGIN));
		pgqrs_row_update(messages, slot, &row);
		pgqrs_event_of_message(EVENT_RELEASED, slot, .reason = reason);
	}
	pgqrs_table_close(messages);
	return released;
}

int64
pgqrs_worker_stop(int64 worker_id)
{
	int64 released = 0;

	if (pgqrs_worker_set_status(worker_id, WORKER_STOPPED))
	{
		released = release_held_messages(worker_id, &all_held,
										 "the worker was stopped");
		request_reap();
	}
	return released;
}

void
pgqrs_worker_release_unreceived(int64 worker_id, PgqrsLeaseTest is_received,
								void *arg)
{
	HeldFilter filter = {.is_kept = is_received, .arg = arg};

	pgqrs_async_commit_begin();
	(void) release_held_messages(worker_id, &filter,
								 "the answer of a poll was lost");
	pgqrs_async_commit_end();
}
