/*
 * heartbeats.c
 *	  When workers called last, in shared memory.
 *
 * A call costs no row: it is noted here, and the worker's row is written once
 * in a while.  Nothing is undone by a rollback, for a call is a call.  Where
 * the library is not preloaded, and for workers that find no place, there is
 * nothing here and the rows have to do.
 *
 * Runs in any backend.  Each entry is guarded by its spinlock; entries are made
 * under the lock of all, so that a worker has one.  A worker is told from
 * others by its table, too: an extension that was dropped and created again
 * counts its workers from 1 again.
 *
 * An entry whose last call is longer ago than pgqrs.worker_timeout says no
 * more than the worker's row does, so whoever needs a place takes it over.
 */
#include "shmem/heartbeats.h"

#include "base/guc.h"
#include "miscadmin.h"
#include "shmem/slot_table.h"
#include "storage/lwlock.h"
#include "storage/spin.h"
#include "utils/timestamp.h"

/* Workers of all databases that call within pgqrs.worker_timeout. */
#define MAX_ENTRIES 4096

/* How far an entry may stand from its place in the table. */
#define MAX_PROBES 32

typedef struct Entry
{
	PgqrsSlotName name; /* by table and worker; a hint unless locked */
	slock_t mutex;		/* guards all */
	TimestampTz called;
	TimestampTz written; /* the row; or when somebody set out to */
} Entry;

typedef struct Heartbeats
{
	LWLock *lock; /* held to make an entry */
	PgqrsSlotTable table;
	Entry entries[MAX_ENTRIES];
} Heartbeats;

static Heartbeats *shared = NULL;

static void
init_heartbeats(LWLockPadded *locks)
{
	shared->lock = &locks->lock;
	pgqrs_slots_init(&shared->table, shared->entries, sizeof(Entry),
					 MAX_ENTRIES, MAX_PROBES);
	for (int i = 0; i < MAX_ENTRIES; i++)
		SpinLockInit(&shared->entries[i].mutex);
}

const PgqrsShmemModule pgqrs_heartbeat_shmem = {
	.name = "pgqrs heartbeats",
	.size = sizeof(Heartbeats),
	.locks = 1,
	.area = (void **) &shared,
	.init = init_heartbeats,
};

/* Within the interval, on either side: a clock may have been set back. */
static bool
is_within(TimestampTz at, TimestampTz now, int64 interval)
{
	return at > now - interval && at < now + interval;
}

/*
 * Finds a worker's entry and locks it.  No entry becomes unused again; the search
 * may have found one that another worker has taken over.
 */
static Entry *
find_locked(Oid workers, int64 worker_id)
{
	int at = shared == NULL ? -1 :
							  pgqrs_slot_find(&shared->table, workers, worker_id);
	Entry *entry;

	if (at < 0)
		return NULL;
	entry = &shared->entries[at];
	SpinLockAcquire(&entry->mutex);
	if (entry->name.db == MyDatabaseId && entry->name.kind == workers &&
		entry->name.id == worker_id)
		return entry;
	SpinLockRelease(&entry->mutex);
	return NULL;
}

/* Finds a place for a worker and locks it. */
static Entry *
take_locked(Oid workers, int64 worker_id, TimestampTz now)
{
	int64 timeout = pgqrs_worker_timeout * INT64CONST(1000);

	for (int i = 0; i < MAX_PROBES; i++)
	{
		int at = pgqrs_slot_candidate(&shared->table, workers, worker_id, i);
		Entry *entry = &shared->entries[at];

		SpinLockAcquire(&entry->mutex);
		if (pg_atomic_read_u32(&entry->name.state) == SLOT_FREE ||
			!is_within(entry->called, now, timeout))
		{
			pgqrs_slot_use(&shared->table, at, workers, worker_id);
			return entry;
		}
		SpinLockRelease(&entry->mutex);
	}
	return NULL;
}

PgqrsHeartbeat
pgqrs_heartbeat_record(Oid workers, int64 worker_id, TimestampTz now, int64 interval)
{
	Entry *entry = find_locked(workers, worker_id);
	bool due;

	if (entry == NULL)
		return HEARTBEAT_UNKNOWN;
	entry->called = now;
	due = !is_within(entry->written, now, interval);
	if (due)
		entry->written = now;
	SpinLockRelease(&entry->mutex);
	return due ? HEARTBEAT_DUE : HEARTBEAT_RECORDED;
}

bool
pgqrs_heartbeat_add(Oid workers, int64 worker_id, TimestampTz now, TimestampTz written)
{
	Entry *entry;

	if (shared == NULL)
		return false;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	entry = find_locked(workers, worker_id);
	if (entry == NULL)
		entry = take_locked(workers, worker_id, now);
	if (entry != NULL)
	{
		entry->called = now;
		entry->written = written;
		SpinLockRelease(&entry->mutex);
	}
	LWLockRelease(shared->lock);
	return entry != NULL;
}

TimestampTz
pgqrs_heartbeat_last(Oid workers, int64 worker_id)
{
	Entry *entry = find_locked(workers, worker_id);
	TimestampTz called;

	if (entry == NULL)
		return DT_NOBEGIN;
	called = entry->called;
	SpinLockRelease(&entry->mutex);
	return called;
}
