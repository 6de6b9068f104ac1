/*
 * wakeup_table.c
 *	  Wake-up table: queues and runs that the background worker must look at,
 *	  or notify of.
 *
 * Runs in any backend, at the end of transactions, too, and in the background
 * worker.  Uses shared memory only.
 *
 * Queues have slots.  A commit to a busy queue finds the mark set and an
 * earlier due time, and only reads.  A backend changes a slot under the shared
 * lock, after it has checked that the slot is still the queue's.  A process
 * first takes a mark or due time and then its snapshot; a transaction sets a
 * mark or due time after its commit.  So either the process sees the commit, or
 * the transaction finds the mark cleared and sets it again.
 *
 * A commit that makes a message of a queue claimable ends the queue's idle
 * state after the commit is visible.  A look first stores its own number there:
 * a transaction that commits later, invisibly to the look, finds the number and
 * overwrites it.
 *
 * Queues without a slot share the due time of DUTY_QUEUES, when the background
 * worker looks at all of them; backends that wait for such a queue look once in
 * a while.
 *
 * Runs of all databases are in a ring.  A run that is overwritten before its
 * database's background worker has come is recorded by block: 1024 ids, among
 * which the worker then searches for runs that ended.  So after a long absence
 * the worker reads rows of about that age, never the whole history.  If even
 * blocks are lost, only the database is recorded: its background worker logs
 * that and looks at all waiting runs.  A second lock guards the ring and the
 * blocks.
 */
#include "shmem/wakeup_table.h"

#include "base/clock.h"
#include "base/compat.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "shmem/database_registry.h"
#include "shmem/slot_table.h"
#include "shmem/wait_slots.h"

#define SLOTS	   PGQRS_QUEUE_SLOTS
#define WORDS	   (SLOTS / 64)
#define MAX_PROBES 64
#define RING	   8192
#define BLOCKS	   1024

typedef struct QueueSlot
{
	PgqrsSlotName name;
	pg_atomic_uint32 timekeeper;   /* number of a backend + 1; 0: none */
	pg_atomic_uint32 awaits_limit; /* a backend found the queue's limit locked */
	pg_atomic_uint64 due;		   /* TimestampTz */

	/* TimestampTz; 0: unknown; with LOOKING: number of a look */
	pg_atomic_uint64 idle_until;
} QueueSlot;

#define LOOKING (UINT64CONST(1) << 63)

typedef union PaddedSlot
{
	QueueSlot s;
	char pad[PG_CACHE_LINE_SIZE];
} PaddedSlot;

typedef struct RunSlot
{
	Oid db; /* invalid: taken */
	PgqrsFinishedRun run;
} RunSlot;

typedef struct WakeupTable
{
	LWLock *lock; /* exclusive: to make or free a slot */
	PgqrsSlotTable table;
	pg_atomic_uint64 used[WORDS];	/* slots, as bits */
	pg_atomic_uint64 marked[WORDS]; /* slots, as bits */
	PaddedSlot slots[SLOTS];

	LWLock *runs_lock; /* guards the fields below */
	uint64 head;	   /* runs added so far */
	int block_count;
	Oid lost; /* the last database that lost a block */
	RunSlot ring[RING];
	RunSlot blocks[BLOCKS];
} WakeupTable;

static WakeupTable *shared = NULL;

/* Runs of the ring that this background worker has read. */
static uint64 taken_head = 0;

static void
init_slot(QueueSlot *slot)
{
	pg_atomic_init_u32(&slot->timekeeper, 0);
	pg_atomic_init_u32(&slot->awaits_limit, 0);
	pg_atomic_init_u64(&slot->due, (uint64) DT_NOEND);
	pg_atomic_init_u64(&slot->idle_until, 0);
}

static void
init_wakeup_table(LWLockPadded *locks)
{
	shared->lock = &locks[0].lock;
	shared->runs_lock = &locks[1].lock;
	pgqrs_slots_init(&shared->table, shared->slots, sizeof(PaddedSlot), SLOTS,
					 MAX_PROBES);
	for (int i = 0; i < WORDS; i++)
	{
		pg_atomic_init_u64(&shared->used[i], 0);
		pg_atomic_init_u64(&shared->marked[i], 0);
	}
	for (int i = 0; i < SLOTS; i++)
		init_slot(&shared->slots[i].s);
}

const PgqrsShmemModule pgqrs_wakeup_shmem = {
	.name = "pgqrs wake-ups",
	.size = sizeof(WakeupTable),
	.locks = 2,
	.area = (void **) &shared,
	.init = init_wakeup_table,
};

/*
 * Slots of queues
 */

static uint64
bit_of(int slot)
{
	return UINT64CONST(1) << (slot % 64);
}

int
pgqrs_wakeup_slot(int64 queue_id)
{
	int at;

	if (shared == NULL)
		return -1;
	at = pgqrs_slot_find(&shared->table, WAKEUP_QUEUE, queue_id);
	if (at >= 0 ||
		pgqrs_slot_find_unused(&shared->table, WAKEUP_QUEUE, queue_id) < 0)
		return at;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	at = pgqrs_slot_find(&shared->table, WAKEUP_QUEUE, queue_id);
	if (at < 0)
	{
		at = pgqrs_slot_find_unused(&shared->table, WAKEUP_QUEUE, queue_id);
		if (at >= 0)
		{
			init_slot(&shared->slots[at].s);
			pgqrs_slot_use(&shared->table, at, WAKEUP_QUEUE, queue_id);
			pg_atomic_fetch_or_u64(&shared->used[at / 64], bit_of(at));
		}
	}
	LWLockRelease(shared->lock);
	return at;
}

/* The lock is held. */
static void
free_slot(int slot)
{
	pgqrs_slot_free(&shared->table, slot);
	pg_atomic_write_u64(&shared->slots[slot].s.idle_until, 0);
	pg_atomic_fetch_and_u64(&shared->used[slot / 64], ~bit_of(slot));
	pg_atomic_fetch_and_u64(&shared->marked[slot / 64], ~bit_of(slot));
}

void
pgqrs_wakeup_forget_queue(int64 queue_id)
{
	int at;

	if (shared == NULL)
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	at = pgqrs_slot_find(&shared->table, WAKEUP_QUEUE, queue_id);
	if (at >= 0)
		free_slot(at);
	LWLockRelease(shared->lock);
}

/* Called under the lock. */
static bool
is_ours(int slot)
{
	return pgqrs_slot_is_of(&shared->table, slot, MyDatabaseId);
}

/*
 * Whether a slot that was found without the lock is still the queue's; called
 * under the lock.
 */
static bool
is_slot_of(int slot, int64 queue_id)
{
	return is_ours(slot) && shared->slots[slot].s.name.id == queue_id;
}

/*
 * The first slot from one on that is this database's and has its bit set, or -1;
 * under the lock.
 */
static int
next_slot(pg_atomic_uint64 *bits, int from)
{
	for (int word = from / 64; word < WORDS; word++)
	{
		uint64 left = pg_atomic_read_u64(&bits[word]);

		if (word == from / 64)
			left &= ~UINT64CONST(0) << (from % 64);
		for (; left != 0; left &= left - 1)
		{
			int slot = word * 64 + pg_rightmost_one_pos64(left);

			if (is_ours(slot))
				return slot;
		}
	}
	return -1;
}

int
pgqrs_wakeup_list_queues(int64 *queue_ids)
{
	int count = 0;

	if (shared == NULL)
		return 0;
	LWLockAcquire(shared->lock, LW_SHARED);
	for (int slot = -1; (slot = next_slot(shared->used, slot + 1)) >= 0;)
		queue_ids[count++] = shared->slots[slot].s.name.id;
	LWLockRelease(shared->lock);
	return count;
}

static void
forget_queues(Oid db)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < SLOTS; i++)
		if (pgqrs_slot_is_of(&shared->table, i, db))
			free_slot(i);
	LWLockRelease(shared->lock);
}

/*
 * Publishing queues
 */

/* A message of the queue may become claimable at this time. */
static void
end_idle(int slot, TimestampTz at)
{
	pg_atomic_uint64 *idle_until = &shared->slots[slot].s.idle_until;

	pg_memory_barrier();
	if (pg_atomic_read_u64(idle_until) > (uint64) Max(at, 0))
		pg_atomic_write_u64(idle_until, 0);
}

/*
 * Makes the background worker look at the queues without a slot at a time, or
 * at all queues if due is 0, which a later time never replaces.
 */
static void
request_look(TimestampTz due)
{
	pgqrs_database_request_duty(DUTY_QUEUES, due);
	pgqrs_database_request_duty(DUTY_NOTIFY, due);
}

static void
request_look_at_unplaced(TimestampTz due)
{
	request_look(due > 0 ? due : pgqrs_clock_peek());
}

void
pgqrs_wakeup_publish_all_queues(void)
{
	for (int i = 0; i < SLOTS && shared != NULL; i++)
		end_idle(i, 0);
	request_look(0);
}

/* Moves a due time forward; false: it was earlier already. */
static bool
set_earlier(pg_atomic_uint64 *instant, TimestampTz due)
{
	uint64 old = pg_atomic_read_u64(instant);

	do
	{
		if ((TimestampTz) old <= due)
			return false;
	} while (!pg_atomic_compare_exchange_u64(instant, &old, (uint64) due));
	return true;
}

/* Clears a due time that has come; false: it has not. */
static bool
take_instant(pg_atomic_uint64 *instant, TimestampTz now)
{
	uint64 old = pg_atomic_read_u64(instant);

	while ((TimestampTz) old <= now)
		if (pg_atomic_compare_exchange_u64(instant, &old, (uint64) DT_NOEND))
			return true;
	return false;
}

static void
mark_slot(int slot, int64 queue_id)
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
		pgqrs_database_request_duty(DUTY_NOTIFY, 0);
}

void
pgqrs_wakeup_publish_queue(int64 queue_id, int count)
{
	int slot = pgqrs_wakeup_slot(queue_id);

	if (shared == NULL)
		return;
	if (slot >= 0)
	{
		end_idle(slot, 0);
		mark_slot(slot, queue_id);
	}
	else
		request_look_at_unplaced(0);
	pgqrs_wait_wake((PgqrsWakeup){WAKEUP_QUEUE, slot, queue_id}, count);
}

void
pgqrs_wakeup_set_due(int64 queue_id, TimestampTz due)
{
	int slot = pgqrs_wakeup_slot(queue_id);
	QueueSlot *s;
	uint32 timekeeper;
	bool earlier;

	if (shared == NULL || due == DT_NOEND)
		return;
	if (slot < 0)
	{
		request_look_at_unplaced(due);
		return;
	}
	s = &shared->slots[slot].s;
	end_idle(slot, due);
	if ((TimestampTz) pg_atomic_read_u64(&s->due) <= due)
		return;
	LWLockAcquire(shared->lock, LW_SHARED);
	earlier = is_slot_of(slot, queue_id) && set_earlier(&s->due, due);
	timekeeper = pg_atomic_read_u32(&s->timekeeper);
	LWLockRelease(shared->lock);
	if (!earlier)
		return;
	if (timekeeper != 0 && timekeeper != pgqrs_backend_number() + 1)
		pgqrs_wait_signal_number(timekeeper - 1);
	pgqrs_database_request_duty(DUTY_NOTIFY, due);
}

/*
 * A backend that still finds the limit locked after this is seen by the
 * transaction that frees it.  If the slot becomes another queue's, that queue
 * is looked at in vain.
 */
void
pgqrs_wakeup_await_limit(int64 queue_id)
{
	int slot = pgqrs_wakeup_slot(queue_id);

	if (slot >= 0)
		pg_atomic_exchange_u32(&shared->slots[slot].s.awaits_limit, 1);
}

void
pgqrs_wakeup_limit_free(int64 queue_id)
{
	int slot = pgqrs_wakeup_slot(queue_id);

	pg_memory_barrier();
	if (slot >= 0 && pg_atomic_read_u32(&shared->slots[slot].s.awaits_limit) != 0 &&
		pg_atomic_exchange_u32(&shared->slots[slot].s.awaits_limit, 0) != 0)
		pgqrs_wakeup_set_due(queue_id, 0);
}

/*
 * Looks
 */

uint64
pgqrs_wakeup_begin_look(int slot)
{
	static uint32 number = 0;
	uint64 look;

	if (slot < 0)
		return 0;
	look = LOOKING | (uint64) pgqrs_backend_number() << 32 | ++number;
	pg_atomic_exchange_u64(&shared->slots[slot].s.idle_until, look);
	return look;
}

/* Spreads the end of the idle state of queues that were found idle together. */
void
pgqrs_wakeup_end_look(int slot, uint64 look, TimestampTz idle_until)
{
	TimestampTz forget_at = pgqrs_clock_peek() + PGQRS_IDLE_AGE / 2 +
		pg_prng_uint32(&pg_global_prng_state) % (PGQRS_IDLE_AGE / 2);

	if (slot >= 0)
		pg_atomic_compare_exchange_u64(&shared->slots[slot].s.idle_until, &look,
									   (uint64) Min(idle_until, forget_at));
}

bool
pgqrs_wakeup_is_idle(int slot, int64 queue_id, TimestampTz now)
{
	QueueSlot *s;
	uint64 until;

	if (slot < 0)
		return false;
	s = &shared->slots[slot].s;
	until = pg_atomic_read_u64(&s->idle_until);
	return until > (uint64) now && until <= (uint64) (now + PGQRS_IDLE_AGE) &&
		s->name.id == queue_id && s->name.db == MyDatabaseId;
}

/*
 * Waiting
 */

TimestampTz
pgqrs_wakeup_due(int slot)
{
	return (TimestampTz) pg_atomic_read_u64(&shared->slots[slot].s.due);
}

bool
pgqrs_wakeup_take_due(int slot, int64 queue_id, TimestampTz now)
{
	pg_atomic_uint64 *due = &shared->slots[slot].s.due;
	bool taken;

	if ((TimestampTz) pg_atomic_read_u64(due) > now)
		return false;
	LWLockAcquire(shared->lock, LW_SHARED);
	taken = is_slot_of(slot, queue_id) && take_instant(due, now);
	LWLockRelease(shared->lock);
	return taken;
}

bool
pgqrs_timekeeper_acquire(int slot, int64 queue_id)
{
	pg_atomic_uint32 *timekeeper = &shared->slots[slot].s.timekeeper;
	uint32 me = pgqrs_backend_number() + 1;
	uint32 old = pg_atomic_read_u32(timekeeper);

	if (old != 0)
		return old == me;
	LWLockAcquire(shared->lock, LW_SHARED);
	if (is_slot_of(slot, queue_id) &&
		pg_atomic_compare_exchange_u32(timekeeper, &old, me))
		old = me;
	LWLockRelease(shared->lock);
	return old == me;
}

bool
pgqrs_timekeeper_release(int slot)
{
	uint32 me = pgqrs_backend_number() + 1;

	if (pg_atomic_compare_exchange_u32(&shared->slots[slot].s.timekeeper, &me, 0))
		return true;
	return me == 0; /* no timekeeper was there */
}

/*
 * Publishing runs
 */

/*
 * Records a database that lost runs.  Only one can be recorded: the previous
 * one's background worker looks at all of its waiting runs now.
 */
static void
lose_runs(Oid db)
{
	if (OidIsValid(shared->lost) && shared->lost != db)
		pgqrs_database_request_duty_of(shared->lost, DUTY_RUN_WAKEUPS);
	shared->lost = db;
}

/* The lock is held. */
static void
add_run_block(Oid db, PgqrsFinishedRun run)
{
	int64 first = pgqrs_run_block(run.run_id);
	int ours = 0;

	for (int i = shared->block_count - 1; i >= 0; i--)
	{
		RunSlot *block = &shared->blocks[i];

		if (block->db != db)
			continue;
		if (block->run.run_id == first)
		{
			block->run.at = Min(block->run.at, run.at);
			return;
		}
		ours++;
	}
	/*
	 * no background worker may come for them, so half is left to other
	 * databases
	 */
	if (shared->block_count == BLOCKS || ours == BLOCKS / 2)
		lose_runs(db);
	else
		shared->blocks[shared->block_count++] = (RunSlot){db,
														  {first, run.at, RUN_BLOCK}};
}

void
pgqrs_wakeup_publish_run(PgqrsFinishedRun run, TimestampTz due)
{
	if (shared == NULL)
		return;
	LWLockAcquire(shared->runs_lock, LW_EXCLUSIVE);
	if (run.status == RUN_BLOCK)
		add_run_block(MyDatabaseId, run);
	else
	{
		RunSlot *slot = &shared->ring[shared->head++ % RING];

		if (OidIsValid(slot->db))
			add_run_block(slot->db, slot->run);
		*slot = (RunSlot){MyDatabaseId, run};
	}
	LWLockRelease(shared->runs_lock);
	pgqrs_database_request_duty(DUTY_NOTIFY, due);
}

void
pgqrs_wakeup_publish_lost(void)
{
	if (shared == NULL)
		return;
	LWLockAcquire(shared->runs_lock, LW_EXCLUSIVE);
	lose_runs(MyDatabaseId);
	LWLockRelease(shared->runs_lock);
	pgqrs_database_request_duty(DUTY_NOTIFY, 0);
}

static void
forget_runs(Oid db)
{
	LWLockAcquire(shared->runs_lock, LW_EXCLUSIVE);
	for (int i = shared->block_count - 1; i >= 0; i--)
		if (shared->blocks[i].db == db)
			shared->blocks[i] = shared->blocks[--shared->block_count];
	for (int i = 0; i < RING; i++)
		if (shared->ring[i].db == db)
			shared->ring[i].db = InvalidOid;
	LWLockRelease(shared->runs_lock);
}

void
pgqrs_wakeup_forget_database(Oid db)
{
	if (shared == NULL)
		return;
	forget_queues(db);
	forget_runs(db);
}

/*
 * The background worker
 */

int
pgqrs_wakeup_take_queues(int64 *queue_ids, int max)
{
	int count = 0;

	LWLockAcquire(shared->lock, LW_SHARED);
	for (int slot = -1;
		 count < max && (slot = next_slot(shared->marked, slot + 1)) >= 0;)
	{
		pg_atomic_fetch_and_u64(&shared->marked[slot / 64], ~bit_of(slot));
		queue_ids[count++] = shared->slots[slot].s.name.id;
	}
	LWLockRelease(shared->lock);
	return count;
}

int
pgqrs_wakeup_take_dues(TimestampTz now, int64 *queue_ids, int max, TimestampTz *next)
{
	int count = 0;

	*next = DT_NOEND;
	LWLockAcquire(shared->lock, LW_SHARED);
	for (int slot = -1; (slot = next_slot(shared->used, slot + 1)) >= 0;)
	{
		if (count < max && take_instant(&shared->slots[slot].s.due, now))
			queue_ids[count++] = shared->slots[slot].s.name.id;
		else
			*next = Min(*next, pgqrs_wakeup_due(slot));
	}
	LWLockRelease(shared->lock);
	return count;
}

/* The lock is held. */
static int
take_blocks(PgqrsFinishedRun *blocks, int max)
{
	int count = 0;

	for (int i = shared->block_count - 1; i >= 0 && count < max; i--)
	{
		if (shared->blocks[i].db != MyDatabaseId)
			continue;
		blocks[count++] = shared->blocks[i].run;
		shared->blocks[i] = shared->blocks[--shared->block_count];
	}
	return count;
}

int
pgqrs_wakeup_take_runs(PgqrsFinishedRun *runs, int max, int max_blocks, bool *more)
{
	int count;

	LWLockAcquire(shared->runs_lock, LW_EXCLUSIVE);
	count = take_blocks(runs, max_blocks);
	*more |= count == max_blocks;
	if (shared->head > RING)
		taken_head = Max(taken_head, shared->head - RING);
	for (; taken_head < shared->head && count < max; taken_head++)
	{
		RunSlot *slot = &shared->ring[taken_head % RING];

		if (slot->db != MyDatabaseId)
			continue;
		runs[count++] = slot->run;
		slot->db = InvalidOid;
	}
	*more |= count == max;
	LWLockRelease(shared->runs_lock);
	return count;
}

bool
pgqrs_wakeup_take_lost(void)
{
	bool lost;

	LWLockAcquire(shared->runs_lock, LW_EXCLUSIVE);
	lost = shared->lost == MyDatabaseId;
	if (lost)
		shared->lost = InvalidOid;
	LWLockRelease(shared->runs_lock);
	return lost;
}
