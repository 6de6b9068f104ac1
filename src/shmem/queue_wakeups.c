/*
 * queue_wakeups.c
 *	  Which queues have something that can be claimed, or will have, and when.
 *
 * Runs in any backend, at the end of transactions, too, and then in the
 * background worker.  Shared memory only.  A commit of a busy queue finds its
 * mark set and its due instant earlier, and only reads.  Whoever changes
 * something of a place holds the lock shared, so that it is that queue's still.
 * So does who tells the worker of a database; what else is written to its entry
 * costs another one's worker a look at most.
 *
 * Who takes a mark or an instant takes his snapshot after that; who sets one
 * has committed before.  So what was committed is seen by the one, or the other
 * finds nothing set and sets it again.
 *
 * That a queue is idle is written over by who makes something of it claimable,
 * as soon as that can be seen.  A look first puts a number of its own there: who
 * commits after that, unseen by the look, finds it, and writes it over.
 *
 * Queues that find no place share one due instant, at which the worker looks at
 * all of them; who waits looks once in a while.
 */
#include "shmem/queue_wakeups.h"

#include "base/clock.h"
#include "base/compat.h"
#include "common/hashfn.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "shmem/database_registry.h"
#include "shmem/wait_slots.h"
#include "storage/lwlock.h"
#include "utils/timestamp.h"

#define SLOTS	   PGQRS_READY_MAX
#define WORDS	   (SLOTS / 64)
#define MAX_PROBES 64 /* how far a slot may stand from its place */

typedef enum SlotState
{
	SLOT_FREE,
	SLOT_USED,
	SLOT_DEAD /* its queue was deleted; searches pass over it */
} SlotState;

typedef struct Slot
{
	pg_atomic_uint32 state; /* changed under the lock */
	Oid db;					/* written under the lock, before state */
	int64 queue_id;
	pg_atomic_uint64 due;		   /* TimestampTz */
	pg_atomic_uint32 keeper;	   /* number of a backend + 1; 0: nobody */
	pg_atomic_uint32 awaits_limit; /* its limit was found locked */

	/* TimestampTz; 0: not known; with LOOKING: the number of a look */
	pg_atomic_uint64 idle_until;
} Slot;

#define LOOKING (UINT64CONST(1) << 63)

typedef union PaddedSlot
{
	Slot s;
	char pad[PG_CACHE_LINE_SIZE];
} PaddedSlot;

/* What the worker knows of a database. */
typedef enum Knowledge
{
	NOTHING_KNOWN, /* it has to look at every queue */
	PASS_UNDER_WAY,
	ALL_KNOWN
} Knowledge;

typedef struct Database
{
	pg_atomic_uint32 db;		   /* changed under the lock; invalid: unused */
	pg_atomic_uint32 poked;		   /* the worker is, and has not begun a pass */
	pg_atomic_uint32 known;		   /* a Knowledge */
	pg_atomic_uint64 unplaced_due; /* TimestampTz: of queues without a place */
} Database;

typedef struct Ready
{
	LWLock *lock; /* exclusive: to make or forget a slot or a database */
	pg_atomic_uint64 used[WORDS];			 /* slots, as bits */
	pg_atomic_uint64 marked[WORDS];			 /* slots, as bits */
	Database databases[PGQRS_MAX_DATABASES]; /* as database_registry.c numbers them */
	PaddedSlot slots[SLOTS];
} Ready;

static Ready *shared = NULL;

static void
init_ready(LWLock *lock)
{
	shared->lock = lock;
	for (int i = 0; i < WORDS; i++)
	{
		pg_atomic_init_u64(&shared->used[i], 0);
		pg_atomic_init_u64(&shared->marked[i], 0);
	}
	for (int i = 0; i < PGQRS_MAX_DATABASES; i++)
	{
		pg_atomic_init_u32(&shared->databases[i].db, InvalidOid);
		pg_atomic_init_u32(&shared->databases[i].poked, 0);
		pg_atomic_init_u32(&shared->databases[i].known, NOTHING_KNOWN);
		pg_atomic_init_u64(&shared->databases[i].unplaced_due, (uint64) DT_NOEND);
	}
	for (int i = 0; i < SLOTS; i++)
	{
		pg_atomic_init_u32(&shared->slots[i].s.state, SLOT_FREE);
		pg_atomic_init_u64(&shared->slots[i].s.due, (uint64) DT_NOEND);
		pg_atomic_init_u32(&shared->slots[i].s.keeper, 0);
		pg_atomic_init_u32(&shared->slots[i].s.awaits_limit, 0);
		pg_atomic_init_u64(&shared->slots[i].s.idle_until, 0);
	}
}

const PgqrsShmemModule pgqrs_ready_shmem = {
	.name = "pgqrs ready queues",
	.size = sizeof(Ready),
	.has_lock = true,
	.area = (void **) &shared,
	.init = init_ready,
};

/*
 * Finding
 */

/* Makes an entry that of a database of which nothing is known.  The lock is held. */
static void
reset(Database *d, Oid db)
{
	pg_atomic_write_u32(&d->poked, 0);
	pg_atomic_write_u32(&d->known, NOTHING_KNOWN);
	pg_atomic_write_u64(&d->unplaced_due, (uint64) DT_NOEND);
	pg_write_barrier();
	pg_atomic_write_u32(&d->db, db);
}

/* The current database's entry; NULL if it has none. */
static Database *
my_database(void)
{
	int number = pgqrs_database_number();
	Database *d;

	if (number < 0)
		return NULL;
	d = &shared->databases[number];
	if (pg_atomic_read_u32(&d->db) == MyDatabaseId)
		return d;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (pg_atomic_read_u32(&d->db) != MyDatabaseId)
		reset(d, MyDatabaseId);
	LWLockRelease(shared->lock);
	return d;
}

/*
 * Looks for a queue's slot.  -1: there is none; *place is then where it could
 * be, or -1.
 */
static int
find(int64 queue_id, int *place)
{
	uint32 hash = hash_combine(murmurhash32(MyDatabaseId),
							   hash_combine(murmurhash32((uint32) queue_id),
											murmurhash32((uint32) (queue_id >> 32))));

	*place = -1;
	for (int i = 0; i < MAX_PROBES; i++)
	{
		int at = (hash + i) % SLOTS;
		Slot *slot = &shared->slots[at].s;
		uint32 state = pg_atomic_read_u32(&slot->state);

		if (state != SLOT_USED && *place < 0)
			*place = at;
		if (state == SLOT_FREE)
			break;
		pg_read_barrier();
		if (state == SLOT_USED && slot->db == MyDatabaseId &&
			slot->queue_id == queue_id)
			return at;
	}
	return -1;
}

static uint64
bit_of(int slot)
{
	return UINT64CONST(1) << (slot % 64);
}

int
pgqrs_ready_slot(int64 queue_id)
{
	int place;
	int at;

	if (shared == NULL)
		return -1;
	at = find(queue_id, &place);
	if (at >= 0 || place < 0)
		return at;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	at = find(queue_id, &place);
	if (at < 0 && place >= 0)
	{
		Slot *slot = &shared->slots[place].s;

		at = place;
		slot->db = MyDatabaseId;
		slot->queue_id = queue_id;
		pg_atomic_write_u64(&slot->due, (uint64) DT_NOEND);
		pg_atomic_write_u32(&slot->keeper, 0);
		pg_atomic_write_u32(&slot->awaits_limit, 0);
		pg_atomic_write_u64(&slot->idle_until, 0);
		pg_write_barrier();
		pg_atomic_write_u32(&slot->state, SLOT_USED);
		pg_atomic_fetch_or_u64(&shared->used[at / 64], bit_of(at));
	}
	LWLockRelease(shared->lock);
	return at;
}

/* The lock is held. */
static void
free_slot(int slot)
{
	pg_atomic_write_u32(&shared->slots[slot].s.state, SLOT_DEAD);
	pg_atomic_write_u64(&shared->slots[slot].s.idle_until, 0);
	pg_atomic_fetch_and_u64(&shared->used[slot / 64], ~bit_of(slot));
	pg_atomic_fetch_and_u64(&shared->marked[slot / 64], ~bit_of(slot));
}

void
pgqrs_ready_forget(int64 queue_id)
{
	int place;
	int at;

	if (shared == NULL)
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	at = find(queue_id, &place);
	if (at >= 0)
		free_slot(at);
	LWLockRelease(shared->lock);
}

/* Whether a slot is one of the current database; under the lock. */
static bool
is_ours(int slot)
{
	Slot *s = &shared->slots[slot].s;

	return pg_atomic_read_u32(&s->state) == SLOT_USED && s->db == MyDatabaseId;
}

int
pgqrs_ready_list(int64 *queue_ids)
{
	int count = 0;

	if (shared == NULL)
		return 0;
	LWLockAcquire(shared->lock, LW_SHARED);
	for (int i = 0; i < SLOTS; i++)
		if (is_ours(i))
			queue_ids[count++] = shared->slots[i].s.queue_id;
	LWLockRelease(shared->lock);
	return count;
}

void
pgqrs_ready_forget_database(Oid db)
{
	if (shared == NULL)
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < PGQRS_MAX_DATABASES; i++)
		if (pg_atomic_read_u32(&shared->databases[i].db) == db)
			reset(&shared->databases[i], InvalidOid);
	for (int i = 0; i < SLOTS; i++)
		if (pg_atomic_read_u32(&shared->slots[i].s.state) == SLOT_USED &&
			shared->slots[i].s.db == db)
			free_slot(i);
	LWLockRelease(shared->lock);
}

/*
 * Setting
 */

/* Whether the worker has yet to be told; it is taken to be from here on. */
static bool
begin_poke(Database *d)
{
	bool ours;

	if (pg_atomic_read_u32(&d->poked) != 0)
		return false;
	LWLockAcquire(shared->lock, LW_SHARED);
	ours = pg_atomic_read_u32(&d->db) == MyDatabaseId &&
		pg_atomic_exchange_u32(&d->poked, 1) == 0;
	LWLockRelease(shared->lock);
	return ours;
}

void
pgqrs_ready_poke(void)
{
	Database *d;

	if (shared == NULL)
		return;
	d = my_database();
	if (d != NULL && begin_poke(d))
		pgqrs_database_poke(DUE_NOTIFY, 0);
}

/* The queue may have something at that instant. */
static void
end_idle(int slot, TimestampTz at)
{
	pg_atomic_uint64 *idle_until = &shared->slots[slot].s.idle_until;

	pg_memory_barrier();
	if (pg_atomic_read_u64(idle_until) > (uint64) Max(at, 0))
		pg_atomic_write_u64(idle_until, 0);
}

void
pgqrs_ready_unknown(void)
{
	Database *d;

	if (shared == NULL)
		return;
	for (int i = 0; i < SLOTS; i++)
		end_idle(i, 0);
	d = my_database();
	if (d != NULL)
		pg_atomic_write_u32(&d->known, NOTHING_KNOWN);
	pg_memory_barrier();
	pgqrs_ready_poke();
}

/*
 * Whether the slot, whose number was found a while ago, is the queue's; under
 * the lock.
 */
static bool
is_slot_of(int slot, int64 queue_id)
{
	Slot *s = &shared->slots[slot].s;

	return pg_atomic_read_u32(&s->state) == SLOT_USED &&
		s->db == MyDatabaseId && s->queue_id == queue_id;
}

/* False: it was earlier already. */
static bool
lower(pg_atomic_uint64 *instant, TimestampTz due)
{
	uint64 old = pg_atomic_read_u64(instant);

	do
	{
		if ((TimestampTz) old <= due)
			return false;
	} while (!pg_atomic_compare_exchange_u64(instant, &old, (uint64) due));
	return true;
}

/* True if the instant had come: there is none then. */
static bool
take(pg_atomic_uint64 *instant, TimestampTz now)
{
	uint64 old = pg_atomic_read_u64(instant);

	while ((TimestampTz) old <= now)
		if (pg_atomic_compare_exchange_u64(instant, &old, (uint64) DT_NOEND))
			return true;
	return false;
}

static void
lower_unplaced(TimestampTz due)
{
	Database *d = my_database();

	pg_memory_barrier();
	if (d != NULL && lower(&d->unplaced_due, due))
		pgqrs_database_poke(DUE_NOTIFY, due);
}

static void
mark(int slot, int64 queue_id)
{
	pg_atomic_uint64 *marked = &shared->marked[slot / 64];
	bool ours;

	pg_memory_barrier();
	if ((pg_atomic_read_u64(marked) & bit_of(slot)) != 0)
		return;
	LWLockAcquire(shared->lock, LW_SHARED);
	ours = is_slot_of(slot, queue_id);
	if (ours)
		pg_atomic_fetch_or_u64(marked, bit_of(slot));
	LWLockRelease(shared->lock);
	if (ours)
		pgqrs_ready_poke();
}

void
pgqrs_ready_mark(int64 queue_id, int count)
{
	int slot = pgqrs_ready_slot(queue_id);
	PgqrsWaitEvent event = {EVENT_QUEUE, queue_id, slot};

	if (shared == NULL)
		return;
	if (slot >= 0)
	{
		end_idle(slot, 0);
		mark(slot, queue_id);
	}
	else
		lower_unplaced(0);
	pgqrs_waiter_wake(event, count);
}

void
pgqrs_ready_lower(int64 queue_id, TimestampTz due)
{
	int slot = pgqrs_ready_slot(queue_id);
	Slot *s;
	uint32 keeper;
	bool lowered;

	if (shared == NULL || due == DT_NOEND)
		return;
	if (slot < 0)
	{
		lower_unplaced(due);
		return;
	}
	s = &shared->slots[slot].s;
	end_idle(slot, due);
	if ((TimestampTz) pg_atomic_read_u64(&s->due) <= due)
		return;
	LWLockAcquire(shared->lock, LW_SHARED);
	lowered = is_slot_of(slot, queue_id) && lower(&s->due, due);
	keeper = pg_atomic_read_u32(&s->keeper);
	LWLockRelease(shared->lock);
	if (!lowered)
		return;
	if (keeper != 0 && keeper != pgqrs_backend_number() + 1)
		pgqrs_waiter_nudge_number(keeper - 1);
	pgqrs_database_poke(DUE_NOTIFY, due);
}

/*
 * The one finds the limit locked still after this, or the other, which has
 * freed it before, finds this set.  Should the slot become another queue's, that
 * is looked at in vain.
 */
void
pgqrs_ready_await_limit(int64 queue_id)
{
	int slot = pgqrs_ready_slot(queue_id);

	if (slot >= 0)
		pg_atomic_exchange_u32(&shared->slots[slot].s.awaits_limit, 1);
}

void
pgqrs_ready_limit_free(int64 queue_id)
{
	int slot = pgqrs_ready_slot(queue_id);

	pg_memory_barrier();
	if (slot >= 0 && pg_atomic_read_u32(&shared->slots[slot].s.awaits_limit) != 0 &&
		pg_atomic_exchange_u32(&shared->slots[slot].s.awaits_limit, 0) != 0)
		pgqrs_ready_lower(queue_id, 0);
}

uint64
pgqrs_ready_begin_look(int slot)
{
	static uint32 number = 0;
	uint64 look;

	if (slot < 0)
		return 0;
	look = LOOKING | (uint64) pgqrs_backend_number() << 32 | ++number;
	pg_atomic_exchange_u64(&shared->slots[slot].s.idle_until, look);
	return look;
}

/* Not all of the queues that were found idle at a time are forgotten at one. */
void
pgqrs_ready_end_look(int slot, uint64 look, TimestampTz idle_until)
{
	TimestampTz forget_at = pgqrs_clock_peek() + PGQRS_IDLE_AGE / 2 +
		pg_prng_uint32(&pg_global_prng_state) % (PGQRS_IDLE_AGE / 2);

	if (slot >= 0)
		pg_atomic_compare_exchange_u64(&shared->slots[slot].s.idle_until, &look,
									   (uint64) Min(idle_until, forget_at));
}

bool
pgqrs_ready_is_idle(int slot, int64 queue_id, TimestampTz now)
{
	Slot *s;
	uint64 until;

	if (slot < 0)
		return false;
	s = &shared->slots[slot].s;
	until = pg_atomic_read_u64(&s->idle_until);
	return until > (uint64) now && until <= (uint64) (now + PGQRS_IDLE_AGE) &&
		s->queue_id == queue_id && s->db == MyDatabaseId;
}

/*
 * Waiting
 */

TimestampTz
pgqrs_ready_due(int slot)
{
	return (TimestampTz) pg_atomic_read_u64(&shared->slots[slot].s.due);
}

bool
pgqrs_ready_take_due(int slot, int64 queue_id, TimestampTz now)
{
	pg_atomic_uint64 *due = &shared->slots[slot].s.due;
	bool taken;

	if ((TimestampTz) pg_atomic_read_u64(due) > now)
		return false;
	LWLockAcquire(shared->lock, LW_SHARED);
	taken = is_slot_of(slot, queue_id) && take(due, now);
	LWLockRelease(shared->lock);
	return taken;
}

bool
pgqrs_ready_keep(int slot, int64 queue_id)
{
	pg_atomic_uint32 *keeper = &shared->slots[slot].s.keeper;
	uint32 me = pgqrs_backend_number() + 1;
	uint32 old = pg_atomic_read_u32(keeper);

	if (old != 0)
		return old == me;
	LWLockAcquire(shared->lock, LW_SHARED);
	if (is_slot_of(slot, queue_id) &&
		pg_atomic_compare_exchange_u32(keeper, &old, me))
		old = me;
	LWLockRelease(shared->lock);
	return old == me;
}

bool
pgqrs_ready_release(int slot)
{
	pg_atomic_uint32 *keeper = &shared->slots[slot].s.keeper;
	uint32 me = pgqrs_backend_number() + 1;

	if (pg_atomic_compare_exchange_u32(keeper, &me, 0))
		return true;
	return me == 0; /* what was there instead */
}

/*
 * The background worker
 */

bool
pgqrs_ready_begin_pass(void)
{
	Database *d = my_database();

	if (d == NULL)
		return true;
	pg_atomic_exchange_u32(&d->poked, 0);
	return pg_atomic_exchange_u32(&d->known, PASS_UNDER_WAY) != ALL_KNOWN;
}

void
pgqrs_ready_end_pass(void)
{
	Database *d = my_database();
	uint32 under_way = PASS_UNDER_WAY;

	if (d != NULL)
		pg_atomic_compare_exchange_u32(&d->known, &under_way, ALL_KNOWN);
}

TimestampTz
pgqrs_ready_unplaced_due(void)
{
	Database *d = my_database();

	return d != NULL ? (TimestampTz) pg_atomic_read_u64(&d->unplaced_due) : DT_NOEND;
}

bool
pgqrs_ready_take_unplaced(TimestampTz now)
{
	Database *d = my_database();

	return d != NULL && take(&d->unplaced_due, now);
}

int
pgqrs_ready_take(int64 *queue_ids, int max)
{
	int count = 0;

	LWLockAcquire(shared->lock, LW_SHARED);
	for (int word = 0; word < WORDS; word++)
	{
		uint64 bits = pg_atomic_read_u64(&shared->marked[word]);

		while (bits != 0 && count < max)
		{
			int slot = word * 64 + pg_rightmost_one_pos64(bits);

			bits &= bits - 1;
			if (!is_ours(slot))
				continue;
			pg_atomic_fetch_and_u64(&shared->marked[word], ~bit_of(slot));
			queue_ids[count++] = shared->slots[slot].s.queue_id;
		}
	}
	LWLockRelease(shared->lock);
	return count;
}

int
pgqrs_ready_take_dues(TimestampTz now, int64 *queue_ids, int max, TimestampTz *next)
{
	int count = 0;

	*next = DT_NOEND;
	LWLockAcquire(shared->lock, LW_SHARED);
	for (int word = 0; word < WORDS; word++)
	{
		uint64 bits = pg_atomic_read_u64(&shared->used[word]);

		for (; bits != 0; bits &= bits - 1)
		{
			int slot = word * 64 + pg_rightmost_one_pos64(bits);

			if (!is_ours(slot))
				continue;
			if (count < max && take(&shared->slots[slot].s.due, now))
				queue_ids[count++] = shared->slots[slot].s.queue_id;
			else
				*next = Min(*next, pgqrs_ready_due(slot));
		}
	}
	LWLockRelease(shared->lock);
	return count;
}
