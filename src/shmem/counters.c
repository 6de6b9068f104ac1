/*
 * counters.c
 *	  Counters of queues that only grow, in shared memory.
 *
 * A transaction adds up what it does by queue and nesting level.  Before it
 * commits it pins the slots of its queues, or makes them; once it has
 * committed it adds its counts, which are atomic, and unpins the slots.  So
 * what is rolled back counts nothing, and a commit with free slots cannot fail
 * for its counters.  Where no slot is free, and before PREPARE TRANSACTION,
 * the counts become a row of the transaction itself (counter_rows.c).
 *
 * A slot counts from 0.  The row of its queue holds the counts as of the last
 * flush together with the slot's epoch, so that a reader never counts twice
 * what is in both.  A slot without changes since its last flush can be taken by
 * another queue; the queue's next slot has another epoch.
 *
 * A clean stop saves the slots with changes in a file, and the next start reads
 * and removes it: only a crash loses counts, those since the last flush.
 *
 * Runs in any backend.  The lock is held shared to find and pin a slot, and
 * exclusively to make or free one.
 */
#include "shmem/counters.h"

#include <unistd.h>

#include "access/xact.h"
#include "access/xlog.h"
#include "base/guc.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "port/pg_bitutils.h"
#include "shmem/slot_table.h"
#include "shmem/xact_hooks.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "utils/memutils.h"

/* Queues with counts; as many as pgqrs.max_floors, if that is more. */
#define MIN_SLOTS 64

/* Longest probe sequence. */
#define MAX_PROBES 64

/* Pending counts that are found by the id of their queue. */
#define RECENT 64

/* Pending counts kept for the next transaction. */
#define KEPT 16

#define COUNTERS_FILE PGSTAT_STAT_PERMANENT_DIRECTORY "/pgqrs.counters"
#define FILE_MAGIC	  UINT64CONST(0x7067717273630001)

typedef struct CounterSlot
{
	PgqrsSlotName name; /* by table and queue */
	int64 epoch;
	pg_atomic_uint32 pins;	  /* transactions that are about to add */
	pg_atomic_uint64 changes; /* grows after each addition */
	pg_atomic_uint64 flushed; /* changes that the last flush has stored */
	pg_atomic_uint64 counts[COUNTER_COUNT];
} CounterSlot;

typedef struct Counters
{
	LWLock *lock;
	PgqrsSlotTable table;
	CounterSlot slots[FLEXIBLE_ARRAY_MEMBER];
} Counters;

/* A slot in the file. */
typedef struct SavedSlot
{
	Oid db;
	Oid messages;
	PgqrsCounterState state;
} SavedSlot;

/* What the transaction has done in a queue, at a nesting level. */
typedef struct Pending
{
	Oid messages;
	int level;
	int slot;	 /* pinned; -1: none */
	uint32 used; /* bits of the counters that are not 0 */
	int64 queue_id;
	PgqrsCounts counts;
} Pending;

typedef struct Flush
{
	int slot;
	int64 epoch;
	uint64 changes;
} Flush;

static Counters *shared = NULL;
static PgqrsCounterSpill spill_counts = NULL;

static Pending *pending_counts = NULL;
static int pending_count = 0;
static int pending_size = 0;
static int recent[RECENT]; /* where those of a queue may be, by its id */

/* What the transaction has flushed. */
static Flush *pending_flushes = NULL;
static int flush_count = 0;
static int flush_size = 0;

StaticAssertDecl(COUNTER_COUNT <= 32, "the counters are bits of a uint32");

/*
 * Slots
 */

static int
slot_count(void)
{
	return Max(pgqrs_max_floors, MIN_SLOTS);
}

static Size
slots_size(void)
{
	return mul_size(slot_count(), sizeof(CounterSlot));
}

static void
init_slot(CounterSlot *slot, int64 epoch)
{
	slot->epoch = epoch;
	pg_atomic_write_u32(&slot->pins, 0);
	pg_atomic_write_u64(&slot->changes, 0);
	pg_atomic_write_u64(&slot->flushed, 0);
	for (int i = 0; i < COUNTER_COUNT; i++)
		pg_atomic_write_u64(&slot->counts[i], 0);
}

static bool
is_changed(CounterSlot *slot)
{
	return pg_atomic_read_u64(&slot->changes) != pg_atomic_read_u64(&slot->flushed);
}

static void
copy_state(int at, PgqrsCounterState *state)
{
	CounterSlot *slot = &shared->slots[at];

	state->queue_id = slot->name.id;
	state->epoch = slot->epoch;
	state->slot = at;
	state->changes = pg_atomic_read_u64(&slot->changes);
	pg_memory_barrier();
	for (int i = 0; i < COUNTER_COUNT; i++)
		state->counts.n[i] = pg_atomic_read_u64(&slot->counts[i]);
}

/*
 * A slot that another queue may take, of those where the queue's slot may be;
 * -1: none.  The lock is held exclusively.
 */
static int
find_flushed(Oid messages, int64 queue_id)
{
	for (int i = 0; i < shared->table.max_probes; i++)
	{
		int at = pgqrs_slot_candidate(&shared->table, messages, queue_id, i);
		CounterSlot *slot = &shared->slots[at];

		if (pg_atomic_read_u32(&slot->pins) == 0 && !is_changed(slot))
			return at;
	}
	return -1;
}

/* Makes a slot; -1: none is free.  The lock is held exclusively. */
static int
make_slot(Oid messages, int64 queue_id)
{
	int at = pgqrs_slot_find(&shared->table, messages, queue_id);

	if (at >= 0)
		return at;
	at = pgqrs_slot_find_unused(&shared->table, messages, queue_id);
	if (at < 0)
	{
		at = find_flushed(messages, queue_id);
		if (at < 0)
			return -1;
		pgqrs_slot_free(&shared->table, at);
	}
	init_slot(&shared->slots[at],
			  pg_prng_uint64_range(&pg_global_prng_state, 1, PG_INT64_MAX));
	pgqrs_slot_use(&shared->table, at, messages, queue_id);
	return at;
}

/* The queue's slot, pinned; -1: none is free. */
static int
pin_slot(Oid messages, int64 queue_id)
{
	int at;

	LWLockAcquire(shared->lock, LW_SHARED);
	at = pgqrs_slot_find(&shared->table, messages, queue_id);
	if (at < 0)
	{
		LWLockRelease(shared->lock);
		LWLockAcquire(shared->lock, LW_EXCLUSIVE);
		at = make_slot(messages, queue_id);
	}
	if (at >= 0)
		pg_atomic_fetch_add_u32(&shared->slots[at].pins, 1);
	LWLockRelease(shared->lock);
	return at;
}

/* True: the slot had no changes to be flushed before. */
static bool
add_to_slot(CounterSlot *slot, const Pending *p)
{
	uint64 changes;

	for (uint32 left = p->used; left != 0; left &= left - 1)
	{
		int i = pg_rightmost_one_pos32(left);

		pg_atomic_fetch_add_u64(&slot->counts[i], p->counts.n[i]);
	}
	changes = pg_atomic_fetch_add_u64(&slot->changes, 1);
	return changes == pg_atomic_read_u64(&slot->flushed);
}

/*
 * Counting
 */

static bool
is_pending_of(const Pending *p, Oid messages, int64 queue_id, int level)
{
	return p->queue_id == queue_id && p->level == level && p->messages == messages;
}

/* By level, as they are added; of the same queue, those with a slot first. */
static int
compare_pending(const void *a, const void *b)
{
	const Pending *x = a;
	const Pending *y = b;

	if (x->level != y->level)
		return x->level < y->level ? -1 : 1;
	if (x->messages != y->messages)
		return x->messages < y->messages ? -1 : 1;
	if (x->queue_id != y->queue_id)
		return x->queue_id < y->queue_id ? -1 : 1;
	return (x->slot < y->slot) - (x->slot > y->slot);
}

static void
add_count(Pending *p, PgqrsCounter counter, int64 n)
{
	p->counts.n[counter] += n;
	p->used |= (uint32) 1 << counter;
}

static void
add_counts_of(Pending *to, const Pending *from)
{
	for (uint32 left = from->used; left != 0; left &= left - 1)
	{
		int counter = pg_rightmost_one_pos32(left);

		add_count(to, counter, from->counts.n[counter]);
	}
}

/* Joins the counts of the same queue and level; each slot stays pinned once. */
static void
fold_pending(void)
{
	int count = 0;

	qsort(pending_counts, pending_count, sizeof(Pending), compare_pending);
	for (int i = 0; i < pending_count; i++)
	{
		Pending *p = &pending_counts[i];

		if (count > 0 && p->slot < 0 &&
			is_pending_of(&pending_counts[count - 1], p->messages, p->queue_id,
						  p->level))
			add_counts_of(&pending_counts[count - 1], p);
		else if (count++ < i)
			pending_counts[count - 1] = *p;
	}
	pending_count = count;
}

/* Makes room for one more. */
static void
grow_pending(void)
{
	int size = Max(KEPT, 2 * pending_size);

	if (pending_size > RECENT)
	{
		fold_pending();
		if (pending_count <= pending_size / 2)
			return;
	}
	pending_counts = pending_size == 0 ?
		MemoryContextAlloc(TopMemoryContext, size * sizeof(Pending)) :
		repalloc_huge(pending_counts, size * sizeof(Pending));
	pending_size = size;
}

static Pending *
add_pending(Oid messages, int64 queue_id, int level)
{
	Pending *p;

	if (pending_count == pending_size)
		grow_pending();
	recent[(uint64) queue_id % RECENT] = pending_count;
	p = &pending_counts[pending_count++];
	memset(p, 0, sizeof(*p));
	p->messages = messages;
	p->queue_id = queue_id;
	p->level = level;
	p->slot = -1;
	return p;
}

static Pending *
get_pending(Oid messages, int64 queue_id, int level)
{
	int at = recent[(uint64) queue_id % RECENT];

	if (at < pending_count &&
		is_pending_of(&pending_counts[at], messages, queue_id, level))
		return &pending_counts[at];
	return add_pending(messages, queue_id, level);
}

void
pgqrs_count(Oid messages, int64 queue_id, PgqrsCounter counter, int64 n)
{
	if (shared != NULL)
		add_count(get_pending(messages, queue_id, GetCurrentTransactionNestLevel()),
				  counter, n);
}

/* The upper bounds are those of the view pgqrs_histograms. */
static int
bucket_of(int64 microseconds)
{
	static const int64 bounds[PGQRS_BUCKETS - 1] = {
		1000,
		5000,
		10000,
		50000,
		100000,
		500000,
		1000000,
		5000000,
		30000000,
		300000000,
		INT64CONST(3600000000),
	};
	int i = 0;

	while (i < lengthof(bounds) && microseconds > bounds[i])
		i++;
	return i;
}

static void
count_time(Oid messages, int64 queue_id, PgqrsCounter sum, PgqrsCounter buckets,
		   int64 microseconds)
{
	Pending *p;

	if (shared == NULL)
		return;
	p = get_pending(messages, queue_id, GetCurrentTransactionNestLevel());
	microseconds = Max(microseconds, 0);
	add_count(p, sum, microseconds);
	add_count(p, buckets + bucket_of(microseconds), 1);
}

void
pgqrs_count_wait(Oid messages, int64 queue_id, int64 microseconds)
{
	pgqrs_count(messages, queue_id, COUNT_CLAIMED, 1);
	count_time(messages, queue_id, COUNT_WAIT, COUNT_WAIT_BUCKET, microseconds);
}

void
pgqrs_count_work(Oid messages, int64 queue_id, int64 microseconds)
{
	count_time(messages, queue_id, COUNT_WORK, COUNT_WORK_BUCKET, microseconds);
}

bool
pgqrs_counters_exist(void)
{
	return shared != NULL;
}

/*
 * The end of a transaction
 */

void
pgqrs_counters_set_spill(PgqrsCounterSpill spill)
{
	spill_counts = spill;
}

static void
reset_pending(void)
{
	pending_count = flush_count = 0;
	if (pending_size > KEPT)
	{
		pfree(pending_counts);
		pending_counts = NULL;
		pending_size = 0;
	}
}

/* Without a slot the counts become a row now, while that is possible. */
void
pgqrs_counters_pre_end(bool is_prepare)
{
	if (is_prepare)
		flush_count = 0; /* it may be rolled back later */
	for (int i = 0; i < pending_count; i++)
	{
		Pending *p = &pending_counts[i];

		if (!is_prepare)
			p->slot = pin_slot(p->messages, p->queue_id);
		if (p->slot >= 0)
			continue;
		spill_counts(p->messages, p->queue_id, &p->counts);
		memset(&p->counts, 0, sizeof(p->counts));
		p->used = 0;
	}
}

/*
 * True: the slot has changed since the flush read it.  The commits that changed it
 * found changes that were not flushed, so none of them asked for the next flush.
 */
static bool
publish_flush(const Flush *flush)
{
	CounterSlot *slot = &shared->slots[flush->slot];

	if (pg_atomic_read_u32(&slot->name.state) != SLOT_USED ||
		slot->epoch != flush->epoch)
		return false;
	pg_atomic_write_u64(&slot->flushed, flush->changes);
	pg_memory_barrier(); /* before a commit that sees no flush: see its change */
	return is_changed(slot);
}

static bool
publish_flushes(void)
{
	bool changed = false;

	if (flush_count == 0)
		return false;
	LWLockAcquire(shared->lock, LW_SHARED);
	for (int i = 0; i < flush_count; i++)
		changed |= publish_flush(&pending_flushes[i]);
	LWLockRelease(shared->lock);
	return changed;
}

/* Counts of callbacks of other libraries, called after ours, have no pin yet. */
bool
pgqrs_counters_commit(void)
{
	bool first = publish_flushes();

	for (int i = 0; i < pending_count; i++)
	{
		Pending *p = &pending_counts[i];

		if (p->slot < 0 && p->used != 0)
			p->slot = pin_slot(p->messages, p->queue_id);
		if (p->slot < 0)
		{
			first = true; /* to merge the row, or to make slots free */
			continue;
		}
		first |= add_to_slot(&shared->slots[p->slot], p);
		pg_atomic_fetch_sub_u32(&shared->slots[p->slot].pins, 1);
	}
	reset_pending();
	return first;
}

void
pgqrs_counters_abort(void)
{
	for (int i = 0; i < pending_count; i++)
		if (pending_counts[i].slot >= 0)
			pg_atomic_fetch_sub_u32(&shared->slots[pending_counts[i].slot].pins, 1);
	reset_pending();
}

/* The first count of the subtransaction that ends. */
static int
first_pending(int level)
{
	int first = pending_count;

	while (first > 0 && pending_counts[first - 1].level >= level)
		first--;
	return first;
}

void
pgqrs_counters_subcommit(int level)
{
	int count = pending_count;

	if (count == 0)
		return;
	pending_count = first_pending(level);
	for (int i = pending_count; i < count; i++)
	{
		Pending from = pending_counts[i];

		add_counts_of(get_pending(from.messages, from.queue_id, level - 1), &from);
	}
}

/* What a subtransaction has flushed is flushed again. */
void
pgqrs_counters_subabort(int level)
{
	pending_count = first_pending(level);
	flush_count = 0;
}

/*
 * Flushing
 */

bool
pgqrs_counters_read(Oid messages, int64 queue_id, PgqrsCounterState *state)
{
	int at;

	LWLockAcquire(shared->lock, LW_SHARED);
	at = pgqrs_slot_find(&shared->table, messages, queue_id);
	if (at >= 0)
		copy_state(at, state);
	LWLockRelease(shared->lock);
	return at >= 0;
}

/* Slots of an extension that was dropped become free. */
static void
free_slots(Oid db, Oid except)
{
	for (int i = 0; i < shared->table.count; i++)
		if (pgqrs_slot_is_of(&shared->table, i, db) &&
			shared->slots[i].name.kind != except &&
			pg_atomic_read_u32(&shared->slots[i].pins) == 0)
			pgqrs_slot_free(&shared->table, i);
}

int
pgqrs_counters_list_changed(Oid messages, PgqrsCounterState *states, int max)
{
	int count = 0;
	bool others = false;

	LWLockAcquire(shared->lock, LW_SHARED);
	for (int i = 0; i < shared->table.count; i++)
	{
		if (!pgqrs_slot_is_of(&shared->table, i, MyDatabaseId))
			continue;
		if (shared->slots[i].name.kind != messages)
			others = true;
		else if (count < max && is_changed(&shared->slots[i]))
			copy_state(i, &states[count++]);
	}
	LWLockRelease(shared->lock);
	if (others)
	{
		LWLockAcquire(shared->lock, LW_EXCLUSIVE);
		free_slots(MyDatabaseId, messages);
		LWLockRelease(shared->lock);
	}
	return count;
}

void
pgqrs_counters_flushed(const PgqrsCounterState *state)
{
	if (flush_count == flush_size)
	{
		int size = Max(64, 2 * flush_size);

		pending_flushes = flush_size == 0 ?
			MemoryContextAlloc(TopMemoryContext, size * sizeof(Flush)) :
			repalloc(pending_flushes, size * sizeof(Flush));
		flush_size = size;
	}
	pending_flushes[flush_count++] = (Flush){state->slot, state->epoch,
											 state->changes};
}

void
pgqrs_counters_forget(const PgqrsCounterState *state)
{
	CounterSlot *slot = &shared->slots[state->slot];

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (pg_atomic_read_u32(&slot->name.state) == SLOT_USED &&
		slot->epoch == state->epoch && pg_atomic_read_u32(&slot->pins) == 0)
		pgqrs_slot_free(&shared->table, state->slot);
	LWLockRelease(shared->lock);
}

void
pgqrs_counters_forget_database(Oid db)
{
	if (shared == NULL)
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	free_slots(db, InvalidOid);
	LWLockRelease(shared->lock);
}

/*
 * The file between a stop and the next start; in the postmaster
 */

static void
write_slots(FILE *file)
{
	uint64 magic = FILE_MAGIC;

	(void) fwrite(&magic, sizeof(magic), 1, file);
	for (int i = 0; i < shared->table.count; i++)
	{
		CounterSlot *slot = &shared->slots[i];
		SavedSlot saved = {.db = slot->name.db, .messages = slot->name.kind};

		if (pg_atomic_read_u32(&slot->name.state) != SLOT_USED || !is_changed(slot))
			continue;
		copy_state(i, &saved.state);
		(void) fwrite(&saved, sizeof(saved), 1, file);
	}
}

/*
 * After a crash of a backend the counts cannot be trusted, nor after an immediate
 * stop, which this process ends like a clean one: load_counters() ignores the file.
 */
static void
save_counters(int code, Datum arg)
{
	FILE *file;
	bool failed;

	if (code != 0)
		return;
	file = AllocateFile(COUNTERS_FILE ".tmp", PG_BINARY_W);
	if (file == NULL)
	{
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not open file \"%s\": %m", COUNTERS_FILE ".tmp")));
		return;
	}
	write_slots(file);
	failed = ferror(file) != 0;
	if (FreeFile(file) != 0 || failed)
	{
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not write file \"%s\": %m", COUNTERS_FILE ".tmp")));
		(void) unlink(COUNTERS_FILE ".tmp");
		return;
	}
	(void) durable_rename(COUNTERS_FILE ".tmp", COUNTERS_FILE, LOG);
}

static void
restore_slot(const SavedSlot *saved)
{
	int at = pgqrs_slot_restore(&shared->table, saved->db, saved->messages,
								saved->state.queue_id);
	CounterSlot *slot;

	if (at < 0)
		return;
	slot = &shared->slots[at];
	slot->epoch = saved->state.epoch;
	pg_atomic_write_u64(&slot->changes, 1);
	for (int i = 0; i < COUNTER_COUNT; i++)
		pg_atomic_write_u64(&slot->counts[i], saved->state.counts.n[i]);
}

/*
 * A copy of a stopped server that becomes a standby must not count on from the
 * slots: the counts of the other server continue in the same rows.
 */
static bool
is_copy(void)
{
	return access(STANDBY_SIGNAL_FILE, F_OK) == 0 ||
		access(RECOVERY_SIGNAL_FILE, F_OK) == 0;
}

static void
load_counters(void)
{
	FILE *file = AllocateFile(COUNTERS_FILE, PG_BINARY_R);
	uint64 magic;
	SavedSlot saved;

	if (file == NULL)
		return;
	if (pgqrs_start_is_clean() && !is_copy() &&
		fread(&magic, sizeof(magic), 1, file) == 1 && magic == FILE_MAGIC)
		while (fread(&saved, sizeof(saved), 1, file) == 1)
			restore_slot(&saved);
	FreeFile(file);
	(void) durable_unlink(COUNTERS_FILE, LOG);
}

static void
init_counters(LWLockPadded *locks)
{
	shared->lock = &locks->lock;
	pgqrs_slots_init(&shared->table, shared->slots, sizeof(CounterSlot),
					 slot_count(), MAX_PROBES);
	for (int i = 0; i < shared->table.count; i++)
	{
		pg_atomic_init_u32(&shared->slots[i].pins, 0);
		pg_atomic_init_u64(&shared->slots[i].changes, 0);
		pg_atomic_init_u64(&shared->slots[i].flushed, 0);
		for (int k = 0; k < COUNTER_COUNT; k++)
			pg_atomic_init_u64(&shared->slots[i].counts[k], 0);
	}
	load_counters();
	on_shmem_exit(save_counters, (Datum) 0);
}

const PgqrsShmemModule pgqrs_counters_shmem = {
	.name = "pgqrs counters",
	.size = offsetof(Counters, slots),
	.more = slots_size,
	.locks = 1,
	.area = (void **) &shared,
	.init = init_counters,
};
