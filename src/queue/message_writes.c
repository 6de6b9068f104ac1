/*
 * message_writes.c
 *	  Message writes: what each write of pgqrs_messages reports to shared memory.
 *
 * The counters of what happens to messages while they live are counted here,
 * whichever function writes: sent, claimed, failed, and the time of a lease
 * that was given up or lost.  How a message ends is counted by message.c.
 *
 * Runs in any backend that writes or locks a message through the store, whose
 * hooks these are.  Takes spinlocks only.
 */
#include "postgres.h"

#include "queue/message_writes.h"

#include "base/catalog.h"
#include "base/clock.h"
#include "shmem/claim_floor.h"
#include "shmem/claim_hints.h"
#include "shmem/counters.h"
#include "shmem/priority_hints.h"
#include "shmem/xact_wakeups.h"
#include "store/table.h"
#include "utils/timestamp.h"

static int64
row_message_id(const PgqrsRow *row)
{
	return DatumGetInt64(row->values[Messages_message_id - 1]);
}

static int64
row_queue_id(const PgqrsRow *row)
{
	return DatumGetInt64(row->values[Messages_queue_id - 1]);
}

static int16
row_priority(const PgqrsRow *row)
{
	return DatumGetInt16(row->values[Messages_priority - 1]);
}

static TimestampTz
row_visible_after(const PgqrsRow *row)
{
	return DatumGetTimestampTz(row->values[Messages_visible_after - 1]);
}

/* Only a claim writes a lease. */
static bool
is_claim(const PgqrsRow *row)
{
	return row != NULL && row->changed[Messages_lease - 1] &&
		!row->nulls[Messages_lease - 1];
}

/* A transaction that changes messages sees them differently from then on. */
static void
before_message_write(const PgqrsRow *row)
{
	if (is_claim(row))
		pgqrs_floor_mark_claimed();
	else
		pgqrs_floor_mark_dirty();
	if (row != NULL &&
		(row->changed[Messages_visible_after - 1] ||
		 row->changed[Messages_queue_id - 1] || row->changed[Messages_priority - 1]))
		pgqrs_floor_check_key(row_queue_id(row), row_priority(row),
							  row_visible_after(row));
}

/* What the version in the slot has held until it was replaced or deleted. */
void
pgqrs_message_count_lease_end(TupleTableSlot *old, TimestampTz now)
{
	if (!pgqrs_is_null(old, Messages_lease) &&
		!pgqrs_is_null(old, Messages_dequeued_at))
		pgqrs_count_work(old->tts_tableOid, pgqrs_get_int64(old, Messages_queue_id),
						 now - pgqrs_get_time(old, Messages_dequeued_at));
}

static void
count_update(const PgqrsRow *row, TupleTableSlot *old)
{
	int64 queue_id = row_queue_id(row);

	if (row->changed[Messages_failures - 1] &&
		DatumGetInt32(row->values[Messages_failures - 1]) >
			DatumGetInt32(pgqrs_get(old, Messages_failures)))
		pgqrs_count(old->tts_tableOid, queue_id, COUNT_FAILED, 1);
	if (!row->changed[Messages_lease - 1])
		return;
	if (!pgqrs_is_null(old, Messages_lease))
		pgqrs_message_count_lease_end(old,
									  Min(pgqrs_clock(),
										  pgqrs_get_time(old, Messages_visible_after)));
	if (is_claim(row))
		pgqrs_count_wait(old->tts_tableOid, queue_id,
						 DatumGetTimestampTz(row->values[Messages_dequeued_at - 1]) -
							 pgqrs_get_time(old, Messages_visible_after));
}

/* Other transactions can claim the message once this one has committed. */
static void
after_message_write(const PgqrsRow *row, TupleTableSlot *old)
{
	if (old == NULL)
		pgqrs_count(pgqrs_catalog_table(TABLE_MESSAGES), row_queue_id(row),
					COUNT_SENT, 1);
	else
		count_update(row, old);
	pgqrs_priority_hints_written(row_queue_id(row), row_priority(row));
	if (row->changed[Messages_visible_after - 1])
		pgqrs_xact_wakeup_message(row_message_id(row), row_queue_id(row),
								  row_visible_after(row),
								  !row->nulls[Messages_lease - 1]);
}

/*
 * Another transaction may be claiming a message without a lease: its claim has
 * seen the row unlocked and has not updated it yet.
 */
static void
begin_message_lock(TupleTableSlot *slot)
{
	if (pgqrs_is_null(slot, Messages_lease))
		pgqrs_claim_hint_begin_lock(pgqrs_get_int64(slot, Messages_message_id));
}

void
pgqrs_message_writes_init(void)
{
	static const PgqrsWriteHooks hooks = {
		.prune_rarely = true,
		.before_write = before_message_write,
		.after_write = after_message_write,
		.begin_lock = begin_message_lock,
		.end_lock = pgqrs_claim_hint_end_lock,
	};

	pgqrs_table_set_hooks(TABLE_MESSAGES, &hooks);
}
