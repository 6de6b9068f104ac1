/*
 * lease.c
 *	  Leases: whose is the current one, is it live, how many may there be.
 *
 * Runs in any backend.  Limits are derived from the live leases themselves; a
 * counter could leak, and would be a row that everybody updates.
 */
#include "lease.h"

#include "clock.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "utils/timestamp.h"

bool
pgqrs_lease_is(TupleTableSlot *message, int64 lease)
{
	return !pgqrs_is_null(message, Messages_lease) &&
		DatumGetInt64(pgqrs_get(message, Messages_lease)) == lease;
}

bool
pgqrs_lease_live(TupleTableSlot *message, TimestampTz now)
{
	return !pgqrs_is_null(message, Messages_lease) &&
		DatumGetTimestampTz(pgqrs_get(message, Messages_visible_after)) > now;
}

/*
 * The locks of a row of pgqrs_queues or pgqrs_workers that has a limit: who
 * counts against it has the one to the end of the transaction, who extends a
 * live lease shares the other.
 */
typedef enum LimitLock
{
	LIMIT_COUNTED,
	LIMIT_EXTENDING
} LimitLock;

static bool
lock_limit(LimitLock which, PgqrsTableId table, int64 id, LOCKMODE mode, bool wait)
{
	LOCKTAG tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, pgqrs_catalog_table(table),
					   (uint32) id, which);
	return LockAcquire(&tag, mode, false, !wait) != LOCKACQUIRE_NOT_AVAIL;
}

static void
unlock_limit(LimitLock which, PgqrsTableId table, int64 id, LOCKMODE mode)
{
	LOCKTAG tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, pgqrs_catalog_table(table),
					   (uint32) id, which);
	LockRelease(&tag, mode, false);
}

void
pgqrs_lease_lock_limit(PgqrsTableId table, int64 id)
{
	lock_limit(LIMIT_COUNTED, table, id, ExclusiveLock, true);
}

void
pgqrs_lease_extending(PgqrsTableId table, int64 id)
{
	lock_limit(LIMIT_EXTENDING, table, id, ShareLock, true);
}

/* Leases later than now among the messages that an index lists under the keys. */
static int
count_live(PgqrsTable *messages, TupleTableSlot *slot, PgqrsIndexId index,
		   int nkeys, const PgqrsKey *keys, TimestampTz now)
{
	PgqrsScan scan;
	int live = 0;

	pgqrs_scan_begin(&scan, messages, index, nkeys, keys);
	while (pgqrs_scan_next(&scan, slot))
		if (pgqrs_lease_live(slot, now))
			live++;
	pgqrs_scan_end(&scan);
	return live;
}

static int
count_in_worker(PgqrsTable *messages, int64 worker_id, TimestampTz now)
{
	PgqrsKey key = {1, BTEqualStrategyNumber, Int64GetDatum(worker_id)};

	return count_live(messages, pgqrs_table_slot(messages),
					  INDEX_MESSAGES_WORKER, 1, &key, now);
}

/*
 * A live lease ends later than now, so what waits to be claimed is not looked
 * at, however much it is; what is delayed is.
 */
static int
count_in_queue(PgqrsTable *messages, int64 queue_id, TimestampTz now)
{
	TupleTableSlot *slot = pgqrs_table_slot(messages);
	PgqrsKey keys[3] = {
		{CLAIM_QUEUE, BTEqualStrategyNumber, Int64GetDatum(queue_id)},
		{CLAIM_PRIORITY, BTLessEqualStrategyNumber, Int16GetDatum(PG_INT16_MAX)},
		{CLAIM_VISIBLE_AFTER, BTGreaterStrategyNumber, TimestampTzGetDatum(now)},
	};
	PgqrsScan levels;
	int live = 0;

	pgqrs_scan_begin(&levels, messages, INDEX_MESSAGES_CLAIM, 2, keys);
	keys[1].strategy = BTEqualStrategyNumber;
	while (pgqrs_scan_next_key(&levels))
	{
		int priority = DatumGetInt16(pgqrs_scan_key(&levels, CLAIM_PRIORITY));

		keys[1].value = Int16GetDatum(priority);
		live += count_live(messages, slot, INDEX_MESSAGES_CLAIM, 3, keys, now);
		if (!pgqrs_scan_restart_below(&levels, 1, priority))
			break;
	}
	pgqrs_scan_end(&levels);
	return live;
}

/*
 * Who extends a live lease, and has not committed, leaves it to others as it
 * was, even when that has run out.  So as long as somebody does, every lease
 * counts that is held.
 */
static int
room(PgqrsTable *messages, PgqrsTableId table, int64 id, int limit,
	 int (*count)(PgqrsTable *messages, int64 id, TimestampTz now))
{
	bool alone;
	int live;

	if (!lock_limit(LIMIT_COUNTED, table, id, ExclusiveLock, false))
		return 0;
	alone = lock_limit(LIMIT_EXTENDING, table, id, ExclusiveLock, false);
	live = count(messages, id, alone ? pgqrs_clock() : DT_NOBEGIN);
	if (alone)
		unlock_limit(LIMIT_EXTENDING, table, id, ExclusiveLock);
	return Max(0, limit - live);
}

int
pgqrs_lease_room_in_queue(PgqrsTable *messages, int64 queue_id, int limit)
{
	return room(messages, TABLE_QUEUES, queue_id, limit, count_in_queue);
}

int
pgqrs_lease_room_for_worker(PgqrsTable *messages, int64 worker_id, int limit)
{
	return room(messages, TABLE_WORKERS, worker_id, limit, count_in_worker);
}

int
pgqrs_lease_free_in_queue(PgqrsTable *messages, int64 queue_id, int limit)
{
	return Max(0, limit - count_in_queue(messages, queue_id, pgqrs_clock()));
}

int
pgqrs_lease_free_for_worker(PgqrsTable *messages, int64 worker_id, int limit)
{
	return Max(0, limit - count_in_worker(messages, worker_id, pgqrs_clock()));
}
