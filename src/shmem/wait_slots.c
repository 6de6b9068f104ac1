/*
 * wait_slots.c
 *	  Backends that sleep until something happens, and waking them.
 *
 * Runs in any backend; what wakes runs at the end of transactions, too, and
 * raises no error.  Shared memory only.  Each backend has a place of its own,
 * guarded by its spinlock; its state may be read without, as a hint.
 *
 * A waiter first names what it waits for, and looks whether that is there
 * already after that; who makes something happen commits first, and looks for
 * waiters after that.  So one of them sees the other.
 *
 * One that was woken is not woken for something else, as long as others wait
 * that were not: it will take the one and let the other lie.  If there are no
 * others, it is told to look at everything.  That its worker has another status
 * ends the wait, so whatever else there is to say is left to others.
 *
 * How many backends wait for an event is counted by its hash, so that nobody
 * is looked for when nobody waits.
 */
#include "shmem/wait_slots.h"

#include "base/compat.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "storage/spin.h"

#define COUNTS 4096 /* a power of two */

typedef enum WaiterState
{
	WAITER_NONE,
	WAITER_WAITING,
	WAITER_WOKEN
} WaiterState;

typedef struct Waiter
{
	pg_atomic_uint32 state; /* written under mutex */

	slock_t mutex; /* guards the rest */
	Oid db;
	Latch *latch;
	int count;
	PgqrsWaitEvent events[PGQRS_MAX_EVENTS];
	PgqrsWaitEvent woken_by; /* EVENT_NONE: look at everything */
	PgqrsQueueSet set;
} Waiter;

typedef struct Waiters
{
	pg_atomic_uint32 used; /* so many of the places are in use */
	pg_atomic_uint32 turn; /* where the next search begins */
	pg_atomic_uint32 counts[COUNTS];
	Waiter waiters[FLEXIBLE_ARRAY_MEMBER]; /* by backend */
} Waiters;

static Waiters *shared = NULL;

/* Whether this backend has its place. */
static bool waiting = false;

/*
 * Shared memory
 */

static Size
waiters_size(void)
{
	return mul_size(MaxBackends + 1, sizeof(Waiter));
}

static void
init_waiters(LWLock *lock)
{
	pg_atomic_init_u32(&shared->used, 0);
	pg_atomic_init_u32(&shared->turn, 0);
	for (int i = 0; i < COUNTS; i++)
		pg_atomic_init_u32(&shared->counts[i], 0);
	for (int i = 0; i <= MaxBackends; i++)
	{
		pg_atomic_init_u32(&shared->waiters[i].state, WAITER_NONE);
		SpinLockInit(&shared->waiters[i].mutex);
	}
}

const PgqrsShmemModule pgqrs_waiter_shmem = {
	.name = "pgqrs waiters",
	.size = offsetof(Waiters, waiters),
	.more = waiters_size,
	.area = (void **) &shared,
	.init = init_waiters,
};

bool
pgqrs_waiter_possible(void)
{
	return shared != NULL;
}

/*
 * Events
 */

static pg_atomic_uint32 *
count_of(PgqrsWaitEvent event)
{
	uint32 hash = hash_combine(murmurhash32(MyDatabaseId ^
											((uint32) event.kind << 24)),
							   hash_combine(murmurhash32((uint32) event.id),
											murmurhash32((uint32) (event.id >> 32))));

	return &shared->counts[hash & (COUNTS - 1)];
}

void
pgqrs_queue_set_add(PgqrsQueueSet *set, int slot)
{
	if (slot < 0)
		set->unplaced = true;
	else
		set->slots[slot / 64] |= UINT64CONST(1) << (slot % 64);
}

static bool
is_in_set(const PgqrsQueueSet *set, int slot)
{
	if (slot < 0)
		return set->unplaced;
	return (set->slots[slot / 64] & UINT64CONST(1) << (slot % 64)) != 0;
}

int
pgqrs_waiter_count(PgqrsWaitEvent event)
{
	PgqrsWaitEvent any = {EVENT_QUEUE_SET, 0};
	int count;

	if (shared == NULL)
		return 0;
	count = pg_atomic_read_u32(count_of(event));
	if (event.kind == EVENT_QUEUE)
		count += pg_atomic_read_u32(count_of(any));
	return count;
}

static bool
is_same(PgqrsWaitEvent a, PgqrsWaitEvent b)
{
	return a.kind == b.kind && a.id == b.id;
}

static bool
are_same(const PgqrsWaitEvent *a, int a_count, const PgqrsWaitEvent *b, int b_count)
{
	for (int i = 0; i < a_count && i < b_count; i++)
		if (!is_same(a[i], b[i]))
			return false;
	return a_count == b_count;
}

/* Whether a waiter, which is locked, waits for the event. */
static bool
waits_for(const Waiter *waiter, PgqrsWaitEvent event)
{
	if (waiter->db != MyDatabaseId)
		return false;
	for (int i = 0; i < waiter->count; i++)
		if (is_same(waiter->events[i], event) ||
			(event.kind == EVENT_QUEUE && waiter->events[i].kind == EVENT_QUEUE_SET &&
			 is_in_set(&waiter->set, event.slot)))
			return true;
	return false;
}

/*
 * Waiting
 */

static Waiter *
my_waiter(void)
{
	return &shared->waiters[pgqrs_backend_number()];
}

static void
make_known(void)
{
	uint32 used = pg_atomic_read_u32(&shared->used);

	while (used <= pgqrs_backend_number() &&
		   !pg_atomic_compare_exchange_u32(&shared->used, &used,
										   pgqrs_backend_number() + 1))
		;
}

static void
count_all(const PgqrsWaitEvent *events, int count, int by)
{
	for (int i = 0; i < count; i++)
		pg_atomic_fetch_add_u32(count_of(events[i]), by);
}

void
pgqrs_waiter_watch(const PgqrsWaitEvent *events, int count, const PgqrsQueueSet *set)
{
	Waiter *me = my_waiter();
	PgqrsWaitEvent old[PGQRS_MAX_EVENTS];
	int old_count = 0;

	Assert(count <= PGQRS_MAX_EVENTS);
	if (waiting && are_same(me->events, me->count, events, count) &&
		(set == NULL || memcmp(&me->set, set, sizeof(*set)) == 0))
		return;
	if (!waiting)
		make_known();
	else
	{
		old_count = me->count;
		memcpy(old, me->events, old_count * sizeof(PgqrsWaitEvent));
	}
	count_all(events, count, 1);
	SpinLockAcquire(&me->mutex);
	me->db = MyDatabaseId;
	me->latch = &MyProc->procLatch;
	me->count = count;
	memcpy(me->events, events, count * sizeof(PgqrsWaitEvent));
	if (set != NULL)
		memcpy(&me->set, set, sizeof(*set));
	if (!waiting)
		pg_atomic_write_u32(&me->state, WAITER_WAITING);
	SpinLockRelease(&me->mutex);
	waiting = true;
	count_all(old, old_count, -1);
	pg_memory_barrier();
}

bool
pgqrs_waiter_woken(void)
{
	return waiting && pg_atomic_read_u32(&my_waiter()->state) == WAITER_WOKEN;
}

bool
pgqrs_waiter_take(PgqrsWaitEvent *event)
{
	Waiter *me = my_waiter();

	if (!pgqrs_waiter_woken())
		return false;
	SpinLockAcquire(&me->mutex);
	*event = me->woken_by;
	pg_atomic_write_u32(&me->state, WAITER_WAITING);
	SpinLockRelease(&me->mutex);
	pg_memory_barrier();
	return true;
}

bool
pgqrs_waiter_leave(PgqrsWaitEvent *event)
{
	Waiter *me;
	bool woken;

	if (!waiting)
		return false;
	me = my_waiter();
	SpinLockAcquire(&me->mutex);
	woken = pg_atomic_read_u32(&me->state) == WAITER_WOKEN;
	*event = me->woken_by;
	pg_atomic_write_u32(&me->state, WAITER_NONE);
	SpinLockRelease(&me->mutex);
	waiting = false;
	count_all(me->events, me->count, -1);
	return woken;
}

/*
 * Waking
 */

/* Wakes one waiter if it waits for the event; *spare: one that was woken already. */
static bool
wake_one(Waiter *waiter, PgqrsWaitEvent event, Waiter **spare)
{
	Latch *latch = NULL;

	if (pg_atomic_read_u32(&waiter->state) == WAITER_NONE)
		return false;
	SpinLockAcquire(&waiter->mutex);
	switch (pg_atomic_read_u32(&waiter->state))
	{
		case WAITER_WAITING:
			if (waits_for(waiter, event))
			{
				waiter->woken_by = event;
				pg_atomic_write_u32(&waiter->state, WAITER_WOKEN);
				latch = waiter->latch;
			}
			break;
		case WAITER_WOKEN:
			if (!is_same(waiter->woken_by, event) && waits_for(waiter, event))
				*spare = waiter;
			break;
	}
	SpinLockRelease(&waiter->mutex);
	if (latch != NULL)
		SetLatch(latch);
	return latch != NULL;
}

/*
 * Has one that was woken look at everything, or end its wait.  If it has taken
 * its wake-up meanwhile it is woken anew.
 */
static void
widen(Waiter *waiter, PgqrsWaitEvent event)
{
	Latch *latch = NULL;

	SpinLockAcquire(&waiter->mutex);
	if (pg_atomic_read_u32(&waiter->state) != WAITER_NONE && waits_for(waiter, event))
	{
		if (event.kind == EVENT_WORKER_STATUS)
			waiter->woken_by = event;
		else if (pg_atomic_read_u32(&waiter->state) != WAITER_WOKEN ||
				 waiter->woken_by.kind != EVENT_WORKER_STATUS)
			waiter->woken_by = (PgqrsWaitEvent){EVENT_NONE, 0, -1};
		pg_atomic_write_u32(&waiter->state, WAITER_WOKEN);
		latch = waiter->latch;
	}
	SpinLockRelease(&waiter->mutex);
	if (latch != NULL)
		SetLatch(latch);
}

int
pgqrs_waiter_wake(PgqrsWaitEvent event, int max)
{
	bool all = max == PG_INT32_MAX;
	int woken = 0;
	Waiter *spare = NULL;
	uint32 used;
	uint32 start;

	pg_memory_barrier();
	if (max <= 0 || pgqrs_waiter_count(event) == 0)
		return 0;
	used = pg_atomic_read_u32(&shared->used);
	start = pg_atomic_fetch_add_u32(&shared->turn, 1);
	for (uint32 i = 0; i < used && woken < max; i++)
	{
		Waiter *waiter = &shared->waiters[(start + i) % used];

		if (waiter != my_waiter() && wake_one(waiter, event, &spare))
			woken++;
		if (all && spare != NULL)
		{
			widen(spare, event);
			spare = NULL;
		}
	}
	if (woken < max && spare != NULL)
		widen(spare, event);
	return woken;
}

void
pgqrs_waiter_nudge(PgqrsWaitEvent event)
{
	uint32 used;

	pg_memory_barrier();
	if (pgqrs_waiter_count(event) == 0)
		return;
	used = pg_atomic_read_u32(&shared->used);
	for (uint32 i = 0; i < used; i++)
	{
		Waiter *waiter = &shared->waiters[i];
		Latch *latch = NULL;

		if (waiter == my_waiter() || pg_atomic_read_u32(&waiter->state) == WAITER_NONE)
			continue;
		SpinLockAcquire(&waiter->mutex);
		if (pg_atomic_read_u32(&waiter->state) != WAITER_NONE &&
			waits_for(waiter, event))
			latch = waiter->latch;
		SpinLockRelease(&waiter->mutex);
		if (latch != NULL)
		{
			SetLatch(latch);
			return;
		}
	}
}

void
pgqrs_waiter_nudge_number(int number)
{
	Waiter *waiter = &shared->waiters[number];
	Latch *latch = NULL;

	SpinLockAcquire(&waiter->mutex);
	if (pg_atomic_read_u32(&waiter->state) != WAITER_NONE)
		latch = waiter->latch;
	SpinLockRelease(&waiter->mutex);
	if (latch != NULL)
		SetLatch(latch);
}
