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

/* The limit of a row of pgqrs_queues or pgqrs_workers. */
static bool
lock_limit(PgqrsTableId table, int64 id, bool wait)
{
	LOCKTAG tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, pgqrs_catalog_table(table),
					   (uint32) id, 0);
	return LockAcquire(&tag, ExclusiveLock, false, !wait) != LOCKACQUIRE_NOT_AVAIL;
}

/* Live leases among the messages that an index lists under an id. */
static int
count_live(PgqrsTable *messages, PgqrsIndexId index, int64 id)
{
	PgqrsScan scan;
	PgqrsKey key = {1, BTEqualStrategyNumber, Int64GetDatum(id)};
	TupleTableSlot *slot = pgqrs_table_slot(messages);
	TimestampTz now = pgqrs_clock();
	int live = 0;

	pgqrs_scan_begin(&scan, messages, index, 1, &key);
	while (pgqrs_scan_next(&scan, slot))
		if (pgqrs_lease_live(slot, now))
			live++;
	pgqrs_scan_end(&scan);
	return live;
}

int
pgqrs_lease_room_in_queue(PgqrsTable *messages, int64 queue_id, int limit, bool wait)
{
	if (!lock_limit(TABLE_QUEUES, queue_id, wait))
		return 0;
	return Max(0, limit - count_live(messages, INDEX_MESSAGES_CLAIM, queue_id));
}

int
pgqrs_lease_room_for_worker(PgqrsTable *messages, int64 worker_id, int limit,
							bool wait)
{
	if (!lock_limit(TABLE_WORKERS, worker_id, wait))
		return 0;
	return Max(0, limit - count_live(messages, INDEX_MESSAGES_WORKER, worker_id));
}
