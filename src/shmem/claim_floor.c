/*
 * claim_floor.c
 *	  Claim floors: the key from which the claims of a queue and priority
 *	  scan.
 *
 * Dead index entries pile up at the head of a queue, and vacuum may not remove
 * them while any old snapshot lives.  A floor is a key (visible_after,
 * message_id) from which claims scan.  Invariant: every message that is
 * claimable, or can become claimable by a commit or abort already under way,
 * has a key at or above its floor.
 *
 * Runs in every backend that writes or claims messages.  Uses shared memory
 * only: a spinlock guards each floor, shared->lock guards the list of floors.
 * published_keys.c keeps the keys that transactions publish, floor_gaps.c the
 * gaps of a floor, floor_counters.c the counts.
 *
 * A claim's scan (1) reads the clock, (2) reads the published keys that concern
 * its queue, (3) takes its snapshot, (4) scans from the floor to its reading,
 * and (5) raises the floor to the first row that it saw, but not past a
 * published key.  A writing backend first publishes that it is about to write a
 * key later than its last reading, then reads the clock for the key, then
 * publishes the key itself; it withdraws its keys at the end of the
 * transaction, when the end is visible to snapshots.  So a backend that
 * withdrew before (2) is in the scan's snapshot, keys published by then cap the
 * floor, and a key published later is later than the scan's reading.
 *
 * The keys of a transaction are published as a few ranges, so that a
 * transaction that stays open does not hold up messages later than its last
 * key: a floor has gaps.  Invariant: no message in a gap is claimable or can
 * become so by a commit or abort already under way.  Between two rows that a
 * scan saw one after the other, or after the last row and before its reading,
 * no message is in the scan's snapshot; messages not yet visible are in the
 * ranges that the scan read, or later than its reading.  So the span without
 * the ranges is a gap, and stays one, since later writes have later keys.  A
 * transaction may later extend one of its ranges over the gap, but writes no
 * key inside it.
 *
 * Rows written without the functions can have any key.  A trigger publishes the
 * key, then lowers the floor, removes the gap around the key, and advances the
 * generation; a scan raises nothing if the generation changed since before (1).
 *
 * A floor may be forgotten at any time; claims then scan from the lowest key.
 * The generation survives in its slot, so that a scan that began before raises
 * neither the next floor in that slot nor the queue's own next floor, which
 * would not know of direct writes in between.
 *
 * A transaction sees its own changes before other transactions do and may undo
 * them, so a scan raises a floor only if its transaction had changed no message
 * before, except by claims of the same call.  Those are harmless: a call scans
 * each queue and priority once to claim, and that scan saw the messages that it
 * claimed.  Any other change makes the call dirty, also the end of a message
 * that must not be delivered: a later scan of the call does not see it.
 *
 * A prepared transaction's keys are recorded until its xid is no longer in
 * progress.  After a start, floors are off until the transactions prepared
 * before it are known.
 */
#include "shmem/claim_floor.h"

#include "base/clock.h"
#include "base/compat.h"
#include "base/guc.h"
#include "base/inject.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "shmem/floor_counters.h"
#include "shmem/published_keys.h"
#include "shmem/slot_table.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "storage/spin.h"

/*
 * A claim leaves one dead index entry.  A floor is raised after scans have read
 * this many entries.  A new gap must be worth the extra index descent in each
 * scan, and cover a good part of the dead entries that caused it.
 */
#ifdef PGQRS_BREAK_FLOOR
#define RAISE_AFTER 1
#define GAP_AFTER	1
#else
#define RAISE_AFTER 8
#define GAP_AFTER	16
#endif
#define GAP_SHARE 16

/*
 * A btree scan reads all matching entries of a page at once, mostly in vain if
 * the caller wants one message.  So a scan is cut into parts: the first part
 * shrinks a little each time that it was enough, and each further part is
 * longer by this factor.
 */
#define WINDOW_FACTOR	8
#define MAX_SCAN_WINDOW (INT64CONST(366) * USECS_PER_DAY)

/* Longest probe sequence in the table of floors. */
#define MAX_PROBES 64

/* A floor used within this time is missed if displaced. */
#define MISSED_WITHIN USECS_PER_MINUTE

/* Below the id of every message, also one inserted by direct DML. */
#define LOWEST_ID PG_INT64_MIN

typedef struct PgqrsFloor
{
	slock_t mutex;
	int16 priority; /* copy of the name */
	Oid db;			/* invalid: unused */
	int64 queue_id;
	PgqrsFloorKey key;
	uint32 epoch;		 /* clock epoch of key and gaps */
	uint32 generation;	 /* changes when a message may be below the key */
	int entries;		 /* index entries read since the floor was raised */
	PgqrsFloorGaps gaps; /* above the key */
	PgqrsFloorKey swept; /* next sweep starts here */
	int64 scan_window;	 /* microseconds that the next scan reads first */
	TimestampTz used_at; /* by a scan */
} PgqrsFloor;

typedef struct Floors
{
	LWLock *lock;
	pg_atomic_uint32 sweep_at;	   /* the next sweep starts at this floor */
	pg_atomic_uint64 displaced_at; /* last time that a missed floor was
									* displaced, or 0 */
	PgqrsSlotTable names;		   /* of the floors, by queue and priority */
	PgqrsFloor *floors;
} Floors;

static Floors *shared = NULL;

/* Below every key. */
static const PgqrsFloorKey lowest = {DT_NOBEGIN, LOWEST_ID};

/*
 * Whether the transaction has changed a message, and whether it has by anything
 * but claims of the current call.
 */
static bool modified = false;
static bool dirty = false;

/*
 * Shared memory
 */

static Size
names_size(void)
{
	return MAXALIGN(mul_size(pgqrs_max_floors, sizeof(PgqrsSlotName)));
}

/* Size of the arrays behind Floors. */
static Size
arrays_size(void)
{
	Size size = PG_CACHE_LINE_SIZE;

	size = add_size(size, names_size());
	return add_size(size, mul_size(pgqrs_max_floors, sizeof(PgqrsFloor)));
}

static void
init_floors(LWLockPadded *locks)
{
	char *p;

	shared->lock = &locks->lock;
	pg_atomic_init_u32(&shared->sweep_at, 0);
	pg_atomic_init_u64(&shared->displaced_at, 0);

	p = (char *) CACHELINEALIGN((char *) shared + MAXALIGN(sizeof(Floors)));
	pgqrs_slots_init(&shared->names, p, sizeof(PgqrsSlotName), pgqrs_max_floors,
					 MAX_PROBES);
	p += names_size();
	shared->floors = (PgqrsFloor *) p;

	for (int i = 0; i < pgqrs_max_floors; i++)
		SpinLockInit(&shared->floors[i].mutex);
}

const PgqrsShmemModule pgqrs_floor_shmem = {
	.name = "pgqrs floors",
	.size = MAXALIGN(sizeof(Floors)),
	.more = arrays_size,
	.locks = 1,
	.area = (void **) &shared,
	.init = init_floors,
};

/*
 * Floors
 */

int
pgqrs_floor_compare(PgqrsFloorKey a, PgqrsFloorKey b)
{
	if (a.visible_after != b.visible_after)
		return a.visible_after < b.visible_after ? -1 : 1;
	return (a.message_id > b.message_id) - (a.message_id < b.message_id);
}

/*
 * Whether the floor is that of the queue and priority.  The spinlock is held.
 */
static bool
floor_is(const PgqrsFloor *floor, int64 queue_id, int16 priority)
{
	return floor->db == MyDatabaseId && floor->queue_id == queue_id &&
		floor->priority == priority;
}

/*
 * Finds a floor.  Without shared->lock the slot may belong to another queue by
 * the time its spinlock is held, see floor_is().
 */
static PgqrsFloor *
look_up_floor(int64 queue_id, int16 priority)
{
	int at = pgqrs_slot_find(&shared->names, priority, queue_id);

	return at < 0 ? NULL : &shared->floors[at];
}

/* Removes a floor; shared->lock is held exclusively. */
static void
forget_floor(PgqrsFloor *floor)
{
	SpinLockAcquire(&floor->mutex);
	floor->db = InvalidOid;
	floor->generation++;
	SpinLockRelease(&floor->mutex);
	pgqrs_slot_free(&shared->names, floor - shared->floors);
}

/* An unused slot for a new floor; NULL: none. */
static PgqrsFloor *
find_unused_floor(int64 queue_id, int16 priority)
{
	int at = pgqrs_slot_find_unused(&shared->names, priority, queue_id);

	return at < 0 ? NULL : &shared->floors[at];
}

/* Frees the least recently used slot of the probe sequence. */
static PgqrsFloor *
displace_floor(int64 queue_id, int16 priority, TimestampTz now)
{
	PgqrsFloor *oldest = NULL;
	TimestampTz oldest_at = DT_NOEND;

	for (int i = 0; i < shared->names.max_probes; i++)
	{
		int at = pgqrs_slot_candidate(&shared->names, priority, queue_id, i);
		PgqrsFloor *floor = &shared->floors[at];
		TimestampTz used_at;

		SpinLockAcquire(&floor->mutex);
		used_at = floor->used_at;
		SpinLockRelease(&floor->mutex);
		if (oldest != NULL && used_at >= oldest_at)
			continue;
		oldest = floor;
		oldest_at = used_at;
	}
	if (oldest == NULL)
		return NULL;
	if (oldest_at > now - MISSED_WITHIN)
		pg_atomic_write_u64(&shared->displaced_at, (uint64) now);
	forget_floor(oldest);
	return oldest;
}

static void
init_floor(PgqrsFloor *floor, int64 queue_id, int16 priority, TimestampTz now)
{
	SpinLockAcquire(&floor->mutex);
	floor->db = MyDatabaseId;
	floor->queue_id = queue_id;
	floor->priority = priority;
	floor->key = lowest;
	floor->swept = lowest;
	floor->gaps.count = 0;
	floor->scan_window = MAX_SCAN_WINDOW;
	floor->entries = RAISE_AFTER;
	floor->epoch = pgqrs_clock_epoch();
	floor->used_at = now;
	SpinLockRelease(&floor->mutex);
	pgqrs_slot_use(&shared->names, floor - shared->floors, priority, queue_id);
}

/*
 * Makes a floor for a queue and priority.  When all its slots are taken, only a
 * scan that read many dead entries displaces another floor.
 */
static void
make_floor(const PgqrsFloorScan *scan)
{
	PgqrsFloor *floor;

	if (scan->dead < RAISE_AFTER &&
		find_unused_floor(scan->queue_id, scan->priority) == NULL)
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (look_up_floor(scan->queue_id, scan->priority) == NULL)
	{
		floor = find_unused_floor(scan->queue_id, scan->priority);
		if (floor == NULL && scan->dead >= RAISE_AFTER)
			floor = displace_floor(scan->queue_id, scan->priority, scan->now);
		if (floor != NULL)
			init_floor(floor, scan->queue_id, scan->priority, scan->now);
	}
	LWLockRelease(shared->lock);
}

/* Removes the floors of one queue, or of all queues, of a database. */
static void
forget_floors(Oid db, int64 queue_id)
{
	if (shared == NULL)
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < shared->names.count; i++)
	{
		if (pgqrs_slot_is_of(&shared->names, i, db) &&
			(queue_id == PGQRS_ANY_QUEUE ||
			 pgqrs_slot_name(&shared->names, i)->id == queue_id))
			forget_floor(&shared->floors[i]);
	}
	LWLockRelease(shared->lock);
}

void
pgqrs_floor_forget(int64 queue_id)
{
	forget_floors(MyDatabaseId, queue_id);
}

void
pgqrs_floor_forget_database(Oid db)
{
	forget_floors(db, PGQRS_ANY_QUEUE);
	pgqrs_floor_counters_forget(db);
}

/*
 * Transactions that write messages
 */

/* The transaction claims a message. */
void
pgqrs_floor_mark_claimed(void)
{
	modified = true;
}

/* The transaction changes a message otherwise. */
void
pgqrs_floor_mark_dirty(void)
{
	modified = true;
	if (INJECT(FLOOR_RAISE_WHEN_DIRTY))
		return;
	if (!INJECT(FLOOR_RAISE_AFTER_END))
		dirty = true;
}

/*
 * The clock for a call that writes a message's visible_after: the key is the
 * reading plus the delay, in microseconds, or not_before if that is later.
 * Called after all waiting is done.
 */
TimestampTz
pgqrs_floor_writer_clock(int64 queue_id, int64 delay, TimestampTz not_before)
{
	modified = true;
	if (shared == NULL || INJECT(FLOOR_PUBLISH_NOTHING))
		return pgqrs_clock();
	return pgqrs_publish_clock(queue_id, delay, not_before);
}

/*
 * A message is written without the functions, with any key.  The transaction
 * publishes the key for as long as it lives and lowers the floor at once: a
 * scan that began before sees the generation change, a later scan sees the
 * published key.
 */
void
pgqrs_floor_foreign_write(int64 queue_id, int16 priority, TimestampTz visible_after)
{
	PgqrsFloor *floor;

	pgqrs_floor_mark_dirty();
	if (shared == NULL)
		return;
	if (!INJECT(FLOOR_DML_UNPUBLISHED))
		pgqrs_publish_key(queue_id, visible_after);
	pg_memory_barrier();
	inject_delay();
	LWLockAcquire(shared->lock, LW_SHARED);
	floor = look_up_floor(queue_id, priority);
	if (floor != NULL)
	{
		SpinLockAcquire(&floor->mutex);
		if (visible_after <= floor->key.visible_after)
		{
			floor->key.visible_after = visible_after;
			floor->key.message_id = LOWEST_ID;
		}
		if (!INJECT(FLOOR_DML_KEEPS_GAP))
			pgqrs_gaps_remove_at(&floor->gaps, visible_after);
		floor->generation++;
		SpinLockRelease(&floor->mutex);
	}
	LWLockRelease(shared->lock);
}

/*
 * A function is about to write a message's key.  A key not read with
 * pgqrs_floor_writer_clock() would be a bug, but a harmless one.
 */
void
pgqrs_floor_check_key(int64 queue_id, int16 priority, TimestampTz visible_after)
{
	if (shared == NULL || INJECT(FLOOR_PUBLISH_NOTHING) ||
		pgqrs_key_is_published(queue_id, visible_after))
		return;
#ifdef PGQRS_BREAK_FLOOR
	elog(ERROR, "a key is written that was not published");
#endif
	Assert(false);
	pgqrs_floor_foreign_write(queue_id, priority, visible_after);
}

/*
 * Messages may have been written unreported, visible to snapshots taken from
 * now on: claims of this database start at the lowest key again.
 */
void
pgqrs_floor_lower_all(void)
{
	for (int i = 0; shared != NULL && i < shared->names.count; i++)
	{
		PgqrsFloor *floor = &shared->floors[i];

		SpinLockAcquire(&floor->mutex);
		if (floor->db == MyDatabaseId)
		{
			floor->key = lowest;
			floor->gaps.count = 0;
			floor->generation++;
		}
		SpinLockRelease(&floor->mutex);
	}
}

/*
 * Scans
 */

/*
 * Called at the beginning of a call that scans, before it takes a snapshot or
 * changes a row.
 */
void
pgqrs_floor_call_begin(void)
{
	dirty = modified && !INJECT(FLOOR_RAISE_WHEN_DIRTY);
	pgqrs_published_learn_prepared();
}

bool
pgqrs_floor_call_is_clean(void)
{
	return !dirty;
}

/*
 * Adds a range of keys, bounds included, that another transaction may be
 * writing to the queue.  Keys outside the scan's bounds are ignored.  The
 * ranges nearest to the scan's start are kept, in order.
 */
static void
add_pending(void *arg, TimestampTz from, TimestampTz to)
{
	PgqrsFloorScan *scan = arg;
	int at = scan->pending_count;

	if (to < scan->start.visible_after || from > scan->now)
		return;
	scan->limit.visible_after = Min(scan->limit.visible_after, from);
	while (at > 0 && scan->pending[at - 1].from > from)
		at--;
	if (at == PGQRS_FLOOR_PENDING)
	{
		scan->cap = Min(scan->cap, from);
		return;
	}
	if (scan->pending_count == PGQRS_FLOOR_PENDING)
	{
		scan->pending_count--;
		scan->cap = Min(scan->cap, scan->pending[scan->pending_count].from);
	}
	memmove(&scan->pending[at + 1], &scan->pending[at],
			(scan->pending_count - at) * sizeof(PgqrsFloorGap));
	scan->pending[at] = (PgqrsFloorGap){from, to};
	scan->pending_count++;
}

/*
 * Step (2): reads the keys that other transactions may be writing to the queue.
 */
static void
read_pending(PgqrsFloorScan *scan)
{
	scan->limit = (PgqrsFloorKey){DT_NOEND, LOWEST_ID};
	scan->cap = DT_NOEND;
	scan->pending_count = 0;
	if (!INJECT(FLOOR_IGNORE_PENDING))
		pgqrs_published_read(scan->queue_id, scan->epoch, add_pending, scan);
}

/* Sets the end of the part that begins at scan->from. */
static void
set_part_end(PgqrsFloorScan *scan)
{
	TimestampTz from = scan->from.visible_after;

	if (scan->next_gap < scan->gaps.count)
		scan->until = scan->gaps.gap[scan->next_gap].from;
	else if (scan->floor == NULL || scan->is_probe ||
			 from < scan->now - MAX_SCAN_WINDOW)
		scan->until = scan->now;
	else
		scan->until = Min(from + scan->scan_window, scan->now);
}

/*
 * Copies the state of the floor for the scan; false: the slot belongs to
 * another floor by now.
 */
static bool
read_floor(PgqrsFloorScan *scan, PgqrsFloor *floor, int *entries)
{
	bool is_ours;

	SpinLockAcquire(&floor->mutex);
	is_ours = floor_is(floor, scan->queue_id, scan->priority);
	if (is_ours && floor->epoch == scan->epoch)
	{
		scan->start = floor->key;
		pgqrs_gaps_copy(&scan->gaps, &floor->gaps);
	}
	scan->generation = floor->generation;
	scan->scan_window = floor->scan_window;
	*entries = floor->entries;
	SpinLockRelease(&floor->mutex);
	return is_ours;
}

static void
init_scan(PgqrsFloorScan *scan, int64 queue_id, int16 priority, bool is_probe)
{
	PgqrsFloor *floor;
	int entries = 0;

	memset(scan, 0, offsetof(PgqrsFloorScan, pending));
	scan->gaps.count = 0;
	scan->is_probe = is_probe;
	scan->queue_id = queue_id;
	scan->priority = priority;
	scan->start = lowest;
	floor = pgqrs_published_knows_prepared() ? look_up_floor(queue_id, priority) :
											   NULL;
	scan->epoch = pgqrs_clock_epoch();
	if (floor != NULL && read_floor(scan, floor, &entries))
		scan->floor = floor;

	scan->now = pgqrs_clock();
	scan->from = scan->start;
	scan->main = scan->run_from = scan->start.visible_after;
	set_part_end(scan);
	if (scan->floor == NULL)
		return;
	pg_memory_barrier();
	inject_delay();
	scan->may_raise = !dirty && entries >= RAISE_AFTER;
	if (scan->may_raise)
		read_pending(scan);
	pg_memory_barrier();
	inject_delay();
}

/*
 * Steps (1) and (2).  The caller takes its snapshot afterwards and reads all
 * parts under it, so that together they are one scan.
 */
void
pgqrs_floor_scan_begin(PgqrsFloorScan *scan, int64 queue_id, int16 priority)
{
	init_scan(scan, queue_id, priority, false);
}

/* The same for a scan that claims nothing. */
void
pgqrs_floor_probe_begin(PgqrsFloorScan *scan, int64 queue_id, int16 priority)
{
	init_scan(scan, queue_id, priority, true);
}

/* Moves to the next part; false: no more. */
bool
pgqrs_floor_scan_next_part(PgqrsFloorScan *scan)
{
	scan->from.message_id = LOWEST_ID;
	if (scan->next_gap < scan->gaps.count)
	{
		scan->from.visible_after = scan->gaps.gap[scan->next_gap++].to;
		scan->main = scan->from.visible_after;
	}
	else if (scan->until < scan->now)
	{
		scan->from.visible_after = scan->until + 1;
		scan->window_exceeded = true;
		scan->scan_window = Min(scan->scan_window * WINDOW_FACTOR, MAX_SCAN_WINDOW);
	}
	else
	{
		scan->exhausted = true;
		return false;
	}
	set_part_end(scan);
	return true;
}

/* Microseconds that the next scan reads first. */
static int64
next_scan_window(const PgqrsFloorScan *scan)
{
	if (scan->window_exceeded)
		return scan->scan_window;
	return Max(1, Min(scan->scan_window, scan->now - scan->main) * 7 / 8);
}

/* A scan that was read to its end ends with a run of dead entries. */
static void
end_run(PgqrsFloorScan *scan)
{
	if (!scan->exhausted || scan->run <= scan->longest_run)
		return;
	scan->longest = (PgqrsFloorGap){scan->run_from, scan->now};
	scan->longest_run = scan->run;
}

/*
 * Makes gaps of the longest run of dead entries, apart from pending keys.  No
 * direct write has removed a gap since the scan began.
 */
static void
add_gaps(PgqrsFloor *floor, const PgqrsFloorScan *scan)
{
	PgqrsFloorGap rest = scan->longest;
	uint64 least;

	rest.from = Max(rest.from, floor->key.visible_after);
	rest.to = Min(rest.to, scan->cap);
	if (scan->longest_run == 0 || rest.from >= rest.to)
		return;
	least = Min(pgqrs_gap_width(rest) / GAP_SHARE, PGQRS_KEYS_NEAR);
	for (int i = 0; i <= scan->pending_count && rest.from < rest.to; i++)
	{
		bool is_last = i == scan->pending_count || INJECT(FLOOR_GAP_OVER_PENDING);
		PgqrsFloorGap gap = rest;

		if (!is_last)
			gap.to = Min(scan->pending[i].from, rest.to);
		if (gap.from < gap.to)
			pgqrs_gaps_add(&floor->gaps, gap,
						   scan->longest_run >= GAP_AFTER &&
							   pgqrs_gap_width(gap) >= least);
		if (is_last)
			break;
		rest.from = Max(rest.from, scan->pending[i].to);
	}
}

/*
 * Step (5), under the spinlock.  Returns whether the floor itself was raised.
 */
static bool
raise_floor(PgqrsFloor *floor, const PgqrsFloorScan *scan, PgqrsFloorKey to)
{
	bool raised;

	if (floor->epoch != scan->epoch)
	{
		floor->epoch = scan->epoch;
		floor->key = lowest;
		floor->gaps.count = 0;
	}
	raised = pgqrs_floor_compare(to, floor->key) > 0;
	if (raised)
	{
		floor->key = to;
		pgqrs_gaps_trim(&floor->gaps, to.visible_after);
	}
	add_gaps(floor, scan);
	return raised;
}

void
pgqrs_floor_scan_end(PgqrsFloorScan *scan)
{
	PgqrsFloor *floor = scan->floor;
	PgqrsFloorKey to = scan->first;
	bool raised = false;

	if (shared == NULL)
		return;
	inject_delay();
	if (scan->entries > 0 && !scan->is_probe)
		pgqrs_floor_count_scan(scan->claimed, scan->entries);
	if (floor == NULL)
	{
		if (pgqrs_published_knows_prepared() &&
			(scan->dead >= RAISE_AFTER || scan->claimed > 0))
			make_floor(scan);
		return;
	}

	end_run(scan);
	if (!scan->has_first)
		to = scan->exhausted ? (PgqrsFloorKey){scan->now, LOWEST_ID} : scan->start;
	else if (INJECT(FLOOR_PASS_FIRST_ROW))
		to.message_id++;
	if (INJECT(FLOOR_READ_PENDING_LATE) && scan->may_raise)
		read_pending(scan);
	if (scan->may_raise && pgqrs_floor_compare(scan->limit, to) < 0)
		to = scan->limit;

	SpinLockAcquire(&floor->mutex);
	if (floor_is(floor, scan->queue_id, scan->priority))
	{
		if (scan->may_raise)
			floor->entries = 0;
		else if (floor->entries < RAISE_AFTER)
			floor->entries += scan->entries;
		if (scan->may_raise && scan->epoch == pgqrs_clock_epoch() &&
			(floor->generation == scan->generation ||
			 INJECT(FLOOR_IGNORE_GENERATION)))
			raised = raise_floor(floor, scan, to);
		if (!scan->is_probe && scan->next_gap == scan->gaps.count &&
			scan->main >= scan->now - MAX_SCAN_WINDOW)
			floor->scan_window = next_scan_window(scan);
		floor->used_at = scan->now;
	}
	SpinLockRelease(&floor->mutex);
	if (raised)
		pgqrs_floor_count_raised();
	if (inject_at_random(64))
		pgqrs_floor_forget(scan->queue_id);
}

/*
 * Sweeps
 */

/* Copies the part of a floor to be swept; false: none. */
static bool
begin_sweep(PgqrsFloorSweep *sweep, PgqrsFloor *floor)
{
	bool is_ours;

	sweep->floor = floor;
	sweep->epoch = pgqrs_clock_epoch();
	sweep->gaps.count = 0;
	SpinLockAcquire(&floor->mutex);
	is_ours = floor->db == MyDatabaseId;
	sweep->queue_id = floor->queue_id;
	sweep->priority = floor->priority;
	sweep->from = sweep->looks_only ? lowest : floor->swept;
	sweep->floor_key = floor->epoch == sweep->epoch ? floor->key : lowest;
	if (floor->epoch == sweep->epoch)
		pgqrs_gaps_copy(&sweep->gaps, &floor->gaps);
	if (!sweep->looks_only)
		floor->swept = lowest;
	SpinLockRelease(&floor->mutex);
	sweep->to = sweep->floor_key;
	if (sweep->gaps.count > 0)
		sweep->to = (PgqrsFloorKey){sweep->gaps.gap[sweep->gaps.count - 1].to,
									LOWEST_ID};
	if (pgqrs_floor_compare(sweep->from, sweep->to) >= 0)
		sweep->from = lowest;
	return is_ours && pgqrs_floor_compare(sweep->from, sweep->to) < 0;
}

/*
 * Moves to the next floor of this database, each floor once.  The caller takes
 * its snapshot afterwards: by the invariant the snapshot shows no message where
 * pgqrs_floor_sweep_covers().
 */
bool
pgqrs_floor_sweep_next(PgqrsFloorSweep *sweep)
{
	int count;

	if (shared == NULL)
		return false;
	count = shared->names.count;
	if (sweep->visited == 0)
		sweep->next = pg_atomic_read_u32(&shared->sweep_at);
	while (sweep->visited < count)
	{
		int at = sweep->next;
		PgqrsFloor *floor = &shared->floors[sweep->next];

		sweep->visited++;
		sweep->next = (sweep->next + 1) % count;
		if (pgqrs_slot_is_of(&shared->names, at, MyDatabaseId) &&
			begin_sweep(sweep, floor))
			return true;
	}
	return false;
}

/* Whether claims skip the key. */
bool
pgqrs_floor_sweep_covers(const PgqrsFloorSweep *sweep, PgqrsFloorKey key)
{
	return pgqrs_floor_compare(key, sweep->floor_key) < 0 ||
		pgqrs_gaps_cover(&sweep->gaps, key.visible_after);
}

/* Makes claims scan the key; false: they did already.  The spinlock is held. */
static bool
uncover_key(PgqrsFloor *floor, PgqrsFloorKey key)
{
	int gaps = floor->gaps.count;

	pgqrs_gaps_remove_at(&floor->gaps, key.visible_after);
	if (pgqrs_floor_compare(key, floor->key) >= 0)
		return floor->gaps.count < gaps;
	floor->key = key;
	return true;
}

/*
 * A message was found at a key that claims skip: makes claims scan it.  False
 * if another backend has done so.
 */
bool
pgqrs_floor_sweep_found(PgqrsFloorSweep *sweep, PgqrsFloorKey key)
{
	PgqrsFloor *floor = sweep->floor;
	bool lowered;

	SpinLockAcquire(&floor->mutex);
	lowered = floor->epoch == sweep->epoch &&
		floor_is(floor, sweep->queue_id, sweep->priority) &&
		uncover_key(floor, key);
	if (lowered)
		floor->generation++;
	SpinLockRelease(&floor->mutex);
	if (lowered)
		pgqrs_floor_count_lowered();
	return lowered;
}

/*
 * The sweep stops after its share of rows: the next sweep continues at the key.
 */
void
pgqrs_floor_sweep_pause(PgqrsFloorSweep *sweep, PgqrsFloorKey key)
{
	PgqrsFloor *floor = sweep->floor;

	SpinLockAcquire(&floor->mutex);
	if (floor_is(floor, sweep->queue_id, sweep->priority))
		floor->swept = key;
	SpinLockRelease(&floor->mutex);
}

/* The next sweep begins at the floor where this one stopped. */
void
pgqrs_floor_sweep_end(PgqrsFloorSweep *sweep)
{
	if (sweep->visited > 0 && !sweep->looks_only)
		pg_atomic_write_u32(&shared->sweep_at, sweep->next);
}

/* False if the library is not preloaded: no shared memory. */
bool
pgqrs_floor_get_stats(PgqrsFloorStats *stats)
{
	memset(stats, 0, sizeof(*stats));
	if (shared == NULL)
		return false;
	stats->max_floors = shared->names.count;
	stats->displaced_at = (TimestampTz) pg_atomic_read_u64(&shared->displaced_at);
	for (int i = 0; i < shared->names.count; i++)
		if (pg_atomic_read_u32(&pgqrs_slot_name(&shared->names, i)->state) == SLOT_USED)
			stats->floors++;
	pgqrs_floor_counters_sum(&stats->counts);
	return true;
}

/*
 * The transaction has ended, visibly to every snapshot from here on, or its
 * keys are recorded as prepared.
 */
void
pgqrs_floor_end(void)
{
	modified = dirty = false;
	pgqrs_published_end();
}
