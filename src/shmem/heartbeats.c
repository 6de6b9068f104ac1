/*
 * heartbeats.c
 *	  Heartbeats: when workers called last, in shared memory.
 *
 * A call of a worker is recorded here and writes no row; the worker's row is
 * updated once in a while.  A rollback does not undo it: the call itself proves
 * that the worker is alive.  Without preloading, and for workers without a
 * slot, only the rows count.
 *
 * Runs in any backend.  A spinlock guards each slot; slots are assigned under
 * the lock of all, so that a worker has one.  A slot also names the table of
 * its worker, since an extension that was dropped and created again numbers its
 * workers from 1 again.
 *
 * A slot whose last call is longer ago than pgqrs.worker_timeout says no more
 * than the worker's row does, so another worker may take it.
 */
#include "shmem/heartbeats.h"

#include "base/guc.h"
#include "miscadmin.h"
#include "shmem/sessions.h"
#include "shmem/slot_table.h"
#include "storage/lwlock.h"
#include "storage/spin.h"

/* Workers of all databases that call within pgqrs.worker_timeout. */
#define MAX_SLOTS 4096

/* Longest probe sequence. */
#define MAX_PROBES 32

typedef struct HeartbeatSlot
{
	PgqrsSlotName name; /* by table and worker; a hint without the lock */
	slock_t mutex;		/* guards the other fields */
	TimestampTz called;
	TimestampTz written; /* when the row was written, or a backend set out to
						  * write it */
	uint32 polls;		 /* the number of the newest poll */
	uint32 session;		 /* the number of the session that called last */
} HeartbeatSlot;

typedef struct Heartbeats
{
	LWLock *lock; /* held to assign a slot */
	PgqrsSlotTable table;
	HeartbeatSlot slots[MAX_SLOTS];
} Heartbeats;

static Heartbeats *shared = NULL;

static void
init_heartbeats(LWLockPadded *locks)
{
	shared->lock = &locks->lock;
	pgqrs_slots_init(&shared->table, shared->slots, sizeof(HeartbeatSlot),
					 MAX_SLOTS, MAX_PROBES);
	for (int i = 0; i < MAX_SLOTS; i++)
		SpinLockInit(&shared->slots[i].mutex);
}

const PgqrsShmemModule pgqrs_heartbeat_shmem = {
	.name = "pgqrs heartbeats",
	.size = sizeof(Heartbeats),
	.locks = 1,
	.area = (void **) &shared,
	.init = init_heartbeats,
};

/* Within the interval, on either side: the clock may have been set back. */
static bool
is_within(TimestampTz at, TimestampTz now, int64 interval)
{
	return at > now - interval && at < now + interval;
}

/*
 * Finds a worker's slot and locks it.  Another worker may have taken the slot
 * before the lock, hence the second look at its name.
 */
static HeartbeatSlot *
find_slot_locked(Oid workers, int64 worker_id)
{
	int at = shared == NULL ? -1 :
							  pgqrs_slot_find(&shared->table, workers, worker_id);
	HeartbeatSlot *slot;

	if (at < 0)
		return NULL;
	slot = &shared->slots[at];
	SpinLockAcquire(&slot->mutex);
	if (slot->name.db == MyDatabaseId && slot->name.kind == workers &&
		slot->name.id == worker_id)
		return slot;
	SpinLockRelease(&slot->mutex);
	return NULL;
}

/* Assigns a slot to a worker and locks it. */
static HeartbeatSlot *
assign_slot_locked(Oid workers, int64 worker_id, TimestampTz now)
{
	int64 timeout = pgqrs_worker_timeout * INT64CONST(1000);

	for (int i = 0; i < MAX_PROBES; i++)
	{
		int at = pgqrs_slot_candidate(&shared->table, workers, worker_id, i);
		HeartbeatSlot *slot = &shared->slots[at];

		SpinLockAcquire(&slot->mutex);
		if (pg_atomic_read_u32(&slot->name.state) == SLOT_FREE ||
			!is_within(slot->called, now, timeout))
		{
			slot->polls = 0; /* those of the slot's last worker */
			pgqrs_slot_use(&shared->table, at, workers, worker_id);
			return slot;
		}
		SpinLockRelease(&slot->mutex);
	}
	return NULL;
}

PgqrsHeartbeat
pgqrs_heartbeat_record(Oid workers, int64 worker_id, TimestampTz now, int64 interval)
{
	uint32 session = pgqrs_session_number();
	HeartbeatSlot *slot = find_slot_locked(workers, worker_id);
	bool due;

	if (slot == NULL)
		return HEARTBEAT_UNKNOWN;
	slot->called = now;
	slot->session = session;
	due = !is_within(slot->written, now, interval);
	if (due)
		slot->written = now;
	SpinLockRelease(&slot->mutex);
	return due ? HEARTBEAT_DUE : HEARTBEAT_RECORDED;
}

bool
pgqrs_heartbeat_add(Oid workers, int64 worker_id, TimestampTz now, TimestampTz written)
{
	uint32 session = pgqrs_session_number();
	HeartbeatSlot *slot;

	if (shared == NULL)
		return false;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	slot = find_slot_locked(workers, worker_id);
	if (slot == NULL)
		slot = assign_slot_locked(workers, worker_id, now);
	if (slot != NULL)
	{
		slot->called = now;
		slot->written = written;
		slot->session = session;
		SpinLockRelease(&slot->mutex);
	}
	LWLockRelease(shared->lock);
	return slot != NULL;
}

TimestampTz
pgqrs_heartbeat_last(Oid workers, int64 worker_id)
{
	HeartbeatSlot *slot = find_slot_locked(workers, worker_id);
	TimestampTz called;

	if (slot == NULL)
		return DT_NOBEGIN;
	called = slot->called;
	SpinLockRelease(&slot->mutex);
	return called;
}

int
pgqrs_heartbeat_pid(Oid workers, int64 worker_id)
{
	HeartbeatSlot *slot = find_slot_locked(workers, worker_id);
	TimestampTz called;
	uint32 session;

	if (slot == NULL)
		return 0;
	called = slot->called;
	session = slot->session;
	SpinLockRelease(&slot->mutex);
	return pgqrs_session_pid(session, called);
}

static uint32
add_polls(Oid workers, int64 worker_id, uint32 more)
{
	HeartbeatSlot *slot = find_slot_locked(workers, worker_id);
	uint32 polls;

	if (slot == NULL)
		return 0;
	slot->polls += more;
	polls = slot->polls;
	SpinLockRelease(&slot->mutex);
	return polls;
}

uint32
pgqrs_heartbeat_next_poll(Oid workers, int64 worker_id)
{
	return add_polls(workers, worker_id, 1);
}

uint32
pgqrs_heartbeat_newest_poll(Oid workers, int64 worker_id)
{
	return add_polls(workers, worker_id, 0);
}
