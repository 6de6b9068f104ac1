/*
 * wait_slots.c
 *	  Wait slots: backends that sleep until another backend wakes them.
 *
 * Runs in any backend; waking runs at the end of transactions, too, and raises
 * no error.  Uses shared memory only.  Each backend has a slot of its own,
 * guarded by a spinlock; the slot's state may be read without the lock, as a
 * hint.
 *
 * A waiter first registers its wake-ups and then checks whether their reasons
 * exist already; a committing backend first commits and then searches for
 * waiters.  So at least one of the two sees the other.
 *
 * A waiter that was woken for one reason is not woken for another while other
 * waiters are not woken yet: it will claim one message and leave the other.  If
 * no other waiter is left, its wake-up is widened to everything.  A new status
 * of its worker ends the wait, so all other wake-ups go to other waiters.
 *
 * Waiters are counted by the hash of their wake-ups, so a commit without
 * waiters searches nothing.
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
	PgqrsWakeup wakeups[PGQRS_MAX_WAKEUPS];
	PgqrsWakeup woken_by; /* WAKEUP_NONE: look at everything */
	PgqrsQueueSet set;
} Waiter;

typedef struct Waiters
{
	pg_atomic_uint32 used; /* slots ever used */
	pg_atomic_uint32 turn; /* start of the next search */
	pg_atomic_uint32 counts[COUNTS];
	Waiter waiters[FLEXIBLE_ARRAY_MEMBER]; /* by backend */
} Waiters;

static Waiters *shared = NULL;

/* Whether this backend is registered. */
static bool is_waiting = false;

/*
 * Shared memory
 */

static Size
waiters_size(void)
{
	return mul_size(MaxBackends + 1, sizeof(Waiter));
}

static void
init_waiters(LWLockPadded *locks)
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

const PgqrsShmemModule pgqrs_wait_shmem = {
	.name = "pgqrs waiters",
	.size = offsetof(Waiters, waiters),
	.more = waiters_size,
	.area = (void **) &shared,
	.init = init_waiters,
};

bool
pgqrs_wait_is_possible(void)
{
	return shared != NULL;
}

/*
 * Wake-ups and waiters
 */

static pg_atomic_uint32 *
waiters_of(PgqrsWakeup wakeup)
{
	uint32 hash = hash_combine(murmurhash32(MyDatabaseId ^
											((uint32) wakeup.kind << 24)),
							   hash_combine(murmurhash32((uint32) wakeup.id),
											murmurhash32((uint32) (wakeup.id >> 32))));

	return &shared->counts[hash & (COUNTS - 1)];
}

static int
member_of_slot(int slot)
{
	return slot < 0 ? PGQRS_QUEUE_SLOTS : slot;
}

void
pgqrs_queue_set_add(PgqrsQueueSet *set, int slot)
{
	int member = member_of_slot(slot);

	set->members[member / 64] |= UINT64CONST(1) << (member % 64);
}

static int
slot_of_run(int64 run_id)
{
	return hash_combine(murmurhash32((uint32) run_id),
						murmurhash32((uint32) (run_id >> 32))) %
		PGQRS_QUEUE_SLOTS;
}

void
pgqrs_queue_set_add_run(PgqrsQueueSet *set, int64 run_id)
{
	pgqrs_queue_set_add(set, slot_of_run(run_id));
}

static bool
is_in_set(const PgqrsQueueSet *set, int slot)
{
	int member = member_of_slot(slot);

	return (set->members[member / 64] & UINT64CONST(1) << (member % 64)) != 0;
}

int
pgqrs_wait_count(PgqrsWakeup wakeup)
{
	PgqrsWakeup queues = {WAKEUP_QUEUE_SET};
	PgqrsWakeup runs = {WAKEUP_RUN_SET};
	int count;

	if (shared == NULL)
		return 0;
	count = pg_atomic_read_u32(waiters_of(wakeup));
	if (wakeup.kind == WAKEUP_QUEUE)
		count += pg_atomic_read_u32(waiters_of(queues));
	else if (wakeup.kind == WAKEUP_RUN)
		count += pg_atomic_read_u32(waiters_of(runs));
	return count;
}

static bool
is_same(PgqrsWakeup a, PgqrsWakeup b)
{
	return a.kind == b.kind && a.id == b.id;
}

/* Whether this backend is registered for exactly these wake-ups. */
static bool
is_watching(const Waiter *me, const PgqrsWakeup *wakeups, int count,
			const PgqrsQueueSet *set)
{
	if (!is_waiting || count != me->count)
		return false;
	for (int i = 0; i < count; i++)
		if (!is_same(me->wakeups[i], wakeups[i]))
			return false;
	return set == NULL || memcmp(&me->set, set, sizeof(*set)) == 0;
}

/* Whether the wake-up is of the waiter's set of that kind. */
static bool
is_member(const Waiter *waiter, PgqrsWakeupKind set, PgqrsWakeup wakeup)
{
	if (set == WAKEUP_QUEUE_SET)
		return wakeup.kind == WAKEUP_QUEUE && is_in_set(&waiter->set, wakeup.slot);
	return set == WAKEUP_RUN_SET && wakeup.kind == WAKEUP_RUN &&
		is_in_set(&waiter->set, slot_of_run(wakeup.id));
}

/* The waiter is locked. */
static bool
waits_for(const Waiter *waiter, PgqrsWakeup wakeup)
{
	if (waiter->db != MyDatabaseId)
		return false;
	for (int i = 0; i < waiter->count; i++)
		if (is_same(waiter->wakeups[i], wakeup) ||
			is_member(waiter, waiter->wakeups[i].kind, wakeup))
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

/* Searches include the slot of this backend from here on. */
static void
cover_my_waiter(void)
{
	uint32 used = pg_atomic_read_u32(&shared->used);

	while (used <= pgqrs_backend_number() &&
		   !pg_atomic_compare_exchange_u32(&shared->used, &used,
										   pgqrs_backend_number() + 1))
		;
}

static void
add_to_counts(const PgqrsWakeup *wakeups, int count, int by)
{
	for (int i = 0; i < count; i++)
		pg_atomic_fetch_add_u32(waiters_of(wakeups[i]), by);
}

void
pgqrs_wait_watch(const PgqrsWakeup *wakeups, int count, const PgqrsQueueSet *set)
{
	Waiter *me = my_waiter();
	PgqrsWakeup old[PGQRS_MAX_WAKEUPS];
	int old_count = is_waiting ? me->count : 0;

	Assert(count <= PGQRS_MAX_WAKEUPS);
	if (is_watching(me, wakeups, count, set))
		return;
	if (!is_waiting)
		cover_my_waiter();
	memcpy(old, me->wakeups, old_count * sizeof(PgqrsWakeup));
	add_to_counts(wakeups, count, 1);
	SpinLockAcquire(&me->mutex);
	me->db = MyDatabaseId;
	me->latch = &MyProc->procLatch;
	me->count = count;
	memcpy(me->wakeups, wakeups, count * sizeof(PgqrsWakeup));
	if (set != NULL)
		memcpy(&me->set, set, sizeof(*set));
	if (!is_waiting)
		pg_atomic_write_u32(&me->state, WAITER_WAITING);
	SpinLockRelease(&me->mutex);
	is_waiting = true;
	add_to_counts(old, old_count, -1);
	pg_memory_barrier();
}

bool
pgqrs_wait_is_woken(void)
{
	return is_waiting && pg_atomic_read_u32(&my_waiter()->state) == WAITER_WOKEN;
}

/*
 * Reads the wake-up and sets the waiter's state; false if the waiter was not
 * woken.
 */
static bool
take_wakeup(WaiterState state, PgqrsWakeup *wakeup)
{
	Waiter *me = my_waiter();
	bool woken;

	SpinLockAcquire(&me->mutex);
	woken = pg_atomic_read_u32(&me->state) == WAITER_WOKEN;
	*wakeup = me->woken_by;
	pg_atomic_write_u32(&me->state, state);
	SpinLockRelease(&me->mutex);
	pg_memory_barrier();
	return woken;
}

bool
pgqrs_wait_take(PgqrsWakeup *wakeup)
{
	return pgqrs_wait_is_woken() && take_wakeup(WAITER_WAITING, wakeup);
}

bool
pgqrs_wait_leave(PgqrsWakeup *wakeup)
{
	bool woken;

	if (!is_waiting)
		return false;
	woken = take_wakeup(WAITER_NONE, wakeup);
	is_waiting = false;
	add_to_counts(my_waiter()->wakeups, my_waiter()->count, -1);
	return woken;
}

/*
 * Waking
 */

typedef enum Signal
{
	SIGNAL_WAKE,  /* wakes a waiter */
	SIGNAL_WIDEN, /* widens the wake-up of a woken waiter, or ends its wait */
	SIGNAL_LOOK_AT_CLOCK
} Signal;

typedef enum Signalled
{
	SIGNALLED_NOT,	/* the backend does not wait for this */
	SIGNALLED_BUSY, /* the waiter was woken for another reason */
	SIGNALLED
} Signalled;

/* Sets the wake-up of a waiter of this kind; its spinlock is held. */
static void
set_woken(Waiter *waiter, PgqrsWakeup wakeup, Signal signal)
{
	bool was_woken = pg_atomic_read_u32(&waiter->state) == WAITER_WOKEN;

	if (signal == SIGNAL_WAKE || wakeup.kind == WAKEUP_WORKER_STATUS)
		waiter->woken_by = wakeup;
	else if (!was_woken || waiter->woken_by.kind != WAKEUP_WORKER_STATUS)
		waiter->woken_by = (PgqrsWakeup){WAKEUP_NONE, -1};
	pg_atomic_write_u32(&waiter->state, WAITER_WOKEN);
}

/*
 * Signals a waiter of this wake-up, or with WAKEUP_NONE any waiter.  A waiter
 * that has taken its wake-up since the caller's look is woken anew.
 */
static Signalled
signal_waiter(Waiter *waiter, PgqrsWakeup wakeup, Signal signal)
{
	Signalled result = SIGNALLED_NOT;
	Latch *latch = NULL;
	WaiterState state;

	if (pg_atomic_read_u32(&waiter->state) == WAITER_NONE)
		return SIGNALLED_NOT;
	SpinLockAcquire(&waiter->mutex);
	state = pg_atomic_read_u32(&waiter->state);
	if (state != WAITER_NONE &&
		(wakeup.kind == WAKEUP_NONE || waits_for(waiter, wakeup)))
	{
		if (signal != SIGNAL_WAKE || state == WAITER_WAITING)
			result = SIGNALLED;
		else if (!is_same(waiter->woken_by, wakeup))
			result = SIGNALLED_BUSY;
	}
	if (result == SIGNALLED)
	{
		latch = waiter->latch;
		if (signal != SIGNAL_LOOK_AT_CLOCK)
			set_woken(waiter, wakeup, signal);
	}
	SpinLockRelease(&waiter->mutex);
	if (latch != NULL)
		SetLatch(latch);
	return result;
}

int
pgqrs_wait_wake(PgqrsWakeup wakeup, int max)
{
	int woken = 0;
	Waiter *spare = NULL;
	uint32 used;
	uint32 start;

	pg_memory_barrier();
	if (max <= 0 || pgqrs_wait_count(wakeup) == 0)
		return 0;
	used = pg_atomic_read_u32(&shared->used);
	start = pg_atomic_fetch_add_u32(&shared->turn, 1);
	for (uint32 i = 0; i < used && woken < max; i++)
	{
		Waiter *waiter = &shared->waiters[(start + i) % used];
		Signalled result = waiter == my_waiter() ?
			SIGNALLED_NOT :
			signal_waiter(waiter, wakeup, SIGNAL_WAKE);

		if (result == SIGNALLED)
			woken++;
		else if (result == SIGNALLED_BUSY && max == PG_INT32_MAX)
			signal_waiter(waiter, wakeup, SIGNAL_WIDEN);
		else if (result == SIGNALLED_BUSY)
			spare = waiter;
	}
	if (woken < max && spare != NULL)
		signal_waiter(spare, wakeup, SIGNAL_WIDEN);
	return woken;
}

void
pgqrs_wait_wake_all(PgqrsWakeupKind kind, int64 id)
{
	pgqrs_wait_wake((PgqrsWakeup){kind, -1, id}, PG_INT32_MAX);
}

void
pgqrs_wait_signal_timekeeper(PgqrsWakeup wakeup)
{
	uint32 used;

	pg_memory_barrier();
	if (pgqrs_wait_count(wakeup) == 0)
		return;
	used = pg_atomic_read_u32(&shared->used);
	for (uint32 i = 0; i < used; i++)
		if (&shared->waiters[i] != my_waiter() &&
			signal_waiter(&shared->waiters[i], wakeup, SIGNAL_LOOK_AT_CLOCK) ==
				SIGNALLED)
			return;
}

void
pgqrs_wait_signal_number(int number)
{
	signal_waiter(&shared->waiters[number], (PgqrsWakeup){WAKEUP_NONE},
				  SIGNAL_LOOK_AT_CLOCK);
}
