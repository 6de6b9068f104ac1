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
#include "common/hashfn.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/lwlock.h"
#include "storage/spin.h"
#include "utils/timestamp.h"

/* Workers of all databases that call within pgqrs.worker_timeout. */
#define MAX_ENTRIES 4096

/* How far an entry may stand from its place in the table. */
#define MAX_PROBES 32

typedef struct Entry
{
	pg_atomic_uint64 worker_id; /* 0: never used; a hint unless locked */
	slock_t mutex;				/* guards all */
	Oid db;
	Oid workers;
	TimestampTz called;
	TimestampTz written; /* the row; or when somebody set out to */
} Entry;

typedef struct Heartbeats
{
	LWLock *lock; /* held by whoever makes an entry */
	Entry entries[MAX_ENTRIES];
} Heartbeats;

static Heartbeats *shared = NULL;

static void
init_heartbeats(LWLock *lock)
{
	shared->lock = lock;
	for (int i = 0; i < MAX_ENTRIES; i++)
	{
		pg_atomic_init_u64(&shared->entries[i].worker_id, 0);
		SpinLockInit(&shared->entries[i].mutex);
	}
}

const PgqrsShmemModule pgqrs_heartbeat_shmem = {
	.name = "pgqrs heartbeats",
	.size = sizeof(Heartbeats),
	.has_lock = true,
	.area = (void **) &shared,
	.init = init_heartbeats,
};

/* Within the interval, on either side: a clock may have been set back. */
static bool
is_within(TimestampTz at, TimestampTz now, int64 interval)
{
	return at > now - interval && at < now + interval;
}

/* The i-th place at which a worker may be. */
static Entry *
place(Oid workers, int64 worker_id, int i)
{
	uint32 hash = hash_combine(hash_combine(murmurhash32(MyDatabaseId),
											murmurhash32(workers)),
							   hash_combine(murmurhash32((uint32) (worker_id >> 32)),
											murmurhash32((uint32) worker_id)));

	return &shared->entries[(hash + i) % MAX_ENTRIES];
}

/*
 * Finds a worker's entry and locks it.  No entry becomes unused again, so the
 * search ends at the first that never was used.
 */
static Entry *
find_locked(Oid workers, int64 worker_id)
{
	for (int i = 0; shared != NULL && i < MAX_PROBES; i++)
	{
		Entry *entry = place(workers, worker_id, i);
		int64 id = (int64) pg_atomic_read_u64(&entry->worker_id);

		if (id == 0)
			break;
		if (id != worker_id)
			continue;
		SpinLockAcquire(&entry->mutex);
		if (entry->db == MyDatabaseId && entry->workers == workers &&
			(int64) pg_atomic_read_u64(&entry->worker_id) == worker_id)
			return entry;
		SpinLockRelease(&entry->mutex);
	}
	return NULL;
}

/* Finds a place for a worker and locks it. */
static Entry *
take_locked(Oid workers, int64 worker_id, TimestampTz now)
{
	int64 timeout = pgqrs_worker_timeout * INT64CONST(1000);

	for (int i = 0; i < MAX_PROBES; i++)
	{
		Entry *entry = place(workers, worker_id, i);

		SpinLockAcquire(&entry->mutex);
		if (pg_atomic_read_u64(&entry->worker_id) == 0 ||
			!is_within(entry->called, now, timeout))
		{
			entry->db = MyDatabaseId;
			entry->workers = workers;
			pg_atomic_write_u64(&entry->worker_id, (uint64) worker_id);
			return entry;
		}
		SpinLockRelease(&entry->mutex);
	}
	return NULL;
}

PgqrsHeartbeat
pgqrs_heartbeat_note(Oid workers, int64 worker_id, TimestampTz now, int64 interval)
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
	return due ? HEARTBEAT_DUE : HEARTBEAT_NOTED;
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
