/*
 * lease_limits.c
 *	  Leases: whether a lease is current or live, and limits on live leases.
 *
 * Runs in any backend.  Limits are checked by counting the live leases
 * themselves; a counter could drift, and would be a row that every claim
 * updates.
 */
#include "queue/lease_limits.h"

#include "base/clock.h"
#include "base/int64_list.h"
#include "miscadmin.h"
#include "queue/priority_scan.h"
#include "shmem/xact_wakeups.h"
#include "storage/lock.h"
#include "store/scan.h"
#include "utils/timestamp.h"

bool
pgqrs_lease_is_current(TupleTableSlot *message, int64 lease)
{
	return !pgqrs_is_null(message, Messages_lease) &&
		pgqrs_get_int64(message, Messages_lease) == lease;
}

bool
pgqrs_lease_is_live(TupleTableSlot *message, TimestampTz now)
{
	return !pgqrs_is_null(message, Messages_lease) &&
		pgqrs_get_time(message, Messages_visible_after) > now;
}

/*
 * Locks on a limited row of pgqrs_queues or pgqrs_workers.  A transaction that
 * counts against the limit holds LIMIT_COUNTED to its end; a call that extends
 * a lease shares LIMIT_EXTENDING until it has written the message.
 */
typedef enum LimitLock
{
	LIMIT_COUNTED,
	LIMIT_EXTENDING
} LimitLock;

static PgqrsWakeupKind
limit_wakeup(PgqrsTableId table)
{
	return table == TABLE_QUEUES ? WAKEUP_QUEUE_LIMIT : WAKEUP_WORKER_LIMIT;
}

static LOCKTAG
limit_tag(LimitLock which, PgqrsTableId table, int64 id)
{
	LOCKTAG tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, pgqrs_catalog_table(table),
					   (uint32) id, which);
	return tag;
}

static bool
lock_limit(LimitLock which, PgqrsTableId table, int64 id, LOCKMODE mode, bool wait)
{
	LOCKTAG tag = limit_tag(which, table, id);

	return LockAcquire(&tag, mode, false, !wait) != LOCKACQUIRE_NOT_AVAIL;
}

static void
unlock_limit(LimitLock which, PgqrsTableId table, int64 id, LOCKMODE mode)
{
	LOCKTAG tag = limit_tag(which, table, id);

	LockRelease(&tag, mode, false);
}

/*
 * Whether a transaction that has not ended holds the limit.
 */
static bool
is_counted_by_others(PgqrsTableId table, int64 id)
{
	LOCKTAG tag = limit_tag(LIMIT_COUNTED, table, id);
	int count;

	pfree(GetLockConflicts(&tag, ExclusiveLock, &count));
	return count > 0;
}

/*
 * Locks the limit unless another transaction holds it.  One that has ended
 * frees its locks a moment after what it wrote can be seen, and after waits for
 * it are over: its lock is waited for.
 */
static bool
lock_uncounted(PgqrsTableId table, int64 id)
{
	while (!lock_limit(LIMIT_COUNTED, table, id, ExclusiveLock, false))
	{
		if (is_counted_by_others(table, id))
			return false;
		CHECK_FOR_INTERRUPTS();
		pg_usleep(100);
	}
	return true;
}

/*
 * Whether another transaction holds the limit; its end then wakes the waiting
 * clients.
 */
static bool
must_await_limit(PgqrsTableId table, int64 id)
{
	if (!is_counted_by_others(table, id))
		return false;
	pgqrs_wakeup_await(limit_wakeup(table), id);
	return is_counted_by_others(table, id);
}

void
pgqrs_lease_limit_lock(PgqrsTableId table, int64 id)
{
	lock_limit(LIMIT_COUNTED, table, id, ExclusiveLock, true);
	pgqrs_xact_wakeup(limit_wakeup(table), id);
}

void
pgqrs_lease_extend_begin(PgqrsTableId table, int64 id)
{
	lock_limit(LIMIT_EXTENDING, table, id, ShareLock, true);
}

void
pgqrs_lease_extend_end(PgqrsTableId table, int64 id)
{
	unlock_limit(LIMIT_EXTENDING, table, id, ShareLock);
}

/*
 * Collects the messages that an index lists under the keys with a lease later
 * than now, also a lease extended by an open transaction.
 */
static void
collect_live_leases(PgqrsTable *messages, TupleTableSlot *slot,
					PgqrsIndexId index, int nkeys, const PgqrsKey *keys,
					TimestampTz now, PgqrsInt64List *live)
{
	PgqrsScan scan;

	pgqrs_scan_begin(&scan, messages, index, nkeys, keys);
	pgqrs_scan_uncommitted(&scan);
	while (pgqrs_scan_next(&scan, slot))
		if (pgqrs_lease_is_live(slot, now))
			pgqrs_int64_list_add(live, pgqrs_get_int64(slot, Messages_message_id));
	pgqrs_scan_end(&scan);
}

/*
 * Number of distinct messages; a lease that is being extended was found twice.
 */
static int
count_distinct(PgqrsInt64List *live)
{
	int count = 0;

	pgqrs_int64_sort(live->values, live->count);
	for (int i = 0; i < live->count; i++)
		if (i == 0 || live->values[i] != live->values[i - 1])
			count++;
	if (live->values != NULL)
		pfree(live->values);
	return count;
}

static int
count_in_worker(PgqrsTable *messages, int64 worker_id, TimestampTz now)
{
	PgqrsKey key = {1, BTEqualStrategyNumber, Int64GetDatum(worker_id)};
	PgqrsInt64List live = {0};

	collect_live_leases(messages, pgqrs_table_slot(messages),
						INDEX_MESSAGES_WORKER, 1, &key, now, &live);
	return count_distinct(&live);
}

/*
 * A live lease ends later than now, so claimable messages are not read, however
 * many; delayed messages are.
 */
static int
count_in_queue(PgqrsTable *messages, int64 queue_id, TimestampTz now)
{
	TupleTableSlot *slot = pgqrs_table_slot(messages);
	PgqrsKey keys[3] = {
		{CLAIM_QUEUE_ID, BTEqualStrategyNumber, Int64GetDatum(queue_id)},
		{CLAIM_PRIORITY, BTEqualStrategyNumber},
		{CLAIM_VISIBLE_AFTER, BTGreaterStrategyNumber, TimestampTzGetDatum(now)},
	};
	PgqrsInt64List live = {0};
	PgqrsPriorityScan priorities;
	int priority;

	pgqrs_priority_scan_begin(&priorities, messages, queue_id, PG_INT16_MAX,
							  PG_INT16_MIN);
	while (pgqrs_priority_scan_next(&priorities, &priority))
	{
		keys[1].value = Int16GetDatum(priority);
		collect_live_leases(messages, slot, INDEX_MESSAGES_CLAIM, 3, keys, now,
							&live);
	}
	pgqrs_priority_scan_end(&priorities);
	return count_distinct(&live);
}

static int
count_leases(PgqrsTable *messages, PgqrsTableId table, int64 id)
{
	TimestampTz now = pgqrs_clock();

	return table == TABLE_QUEUES ? count_in_queue(messages, id, now) :
								   count_in_worker(messages, id, now);
}

/*
 * A call that extends a lease holds its lock from checking the lease to writing
 * the message, which keeps this count out.  Afterwards the new version counts,
 * also while its transaction is open and the old lease has expired.
 */
int
pgqrs_lease_limit_reserve(PgqrsTable *messages, PgqrsTableId table, int64 id,
						  int limit)
{
	int live;

	if (!lock_uncounted(table, id))
	{
		pgqrs_wakeup_await(limit_wakeup(table), id);
		if (!lock_uncounted(table, id))
			return 0;
	}
	lock_limit(LIMIT_EXTENDING, table, id, ExclusiveLock, true);
	live = count_leases(messages, table, id);
	unlock_limit(LIMIT_EXTENDING, table, id, ExclusiveLock);
	if (live >= limit)
	{
		pgqrs_lease_limit_settle(table, id, false);
		return 0;
	}
	return limit - live;
}

void
pgqrs_lease_limit_settle(PgqrsTableId table, int64 id, bool used)
{
	if (used)
	{
		pgqrs_xact_wakeup(limit_wakeup(table), id);
		return;
	}
	unlock_limit(LIMIT_COUNTED, table, id, ExclusiveLock);
	pgqrs_wakeup_publish_limit(limit_wakeup(table), id);
}

int
pgqrs_lease_limit_peek(PgqrsTable *messages, PgqrsTableId table, int64 id, int limit)
{
	if (must_await_limit(table, id))
		return PGQRS_LIMIT_LOCKED;
	return Max(0, limit - count_leases(messages, table, id));
}
