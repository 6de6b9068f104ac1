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
 * only: a spinlock guards each floor, floors_lock guards the list of floors and
 * the prepared transactions, and each backend alone writes the keys that it
 * publishes.
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

#include "access/transam.h"
#include "access/twophase.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "base/clock.h"
#include "base/compat.h"
#include "base/errors.h"
#include "base/guc.h"
#include "base/inject.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "shmem/database_registry.h"
#include "shmem/slot_table.h"
#include "shmem/xact_wakeups.h"
#include "storage/lwlock.h"
#include "storage/procarray.h"
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

/*
 * Ranges of keys that a transaction publishes, and how many of them belong to
 * one queue each; further keys are published for any queue.  Each queue has two
 * ranges: its keys are near the present or, for leases and delays, far from it.
 */
#define RANGES		 16
#define QUEUE_RANGES 14
#define PER_QUEUE	 2

/* Keys closer than this, in microseconds, share a range. */
#define NEAR 10000

#define ANY_QUEUE 0

typedef struct PgqrsFloor
{
	slock_t mutex;
	int16 priority; /* copy of the name */
	Oid db;			/* invalid: unused */
	int64 queue_id;
	PgqrsFloorKey key;
	uint32 epoch;	   /* clock epoch of key and gaps */
	uint32 generation; /* changes when a message may be below the key */
	int entries;	   /* index entries read since the floor was raised */
	int gap_count;
	PgqrsFloorGap gaps[PGQRS_FLOOR_GAPS]; /* above the key, ordered, disjoint */
	PgqrsFloorKey swept;				  /* next sweep starts here */
	int64 scan_window;	 /* microseconds that the next scan reads first */
	TimestampTz used_at; /* by a scan */
} PgqrsFloor;

/* Statistics of a database since the start of the server. */
typedef struct Counters
{
	Oid db;
	pg_atomic_uint64 claimed; /* messages */
	pg_atomic_uint64 looked;  /* index entries read */
	pg_atomic_uint64 raised;
	pg_atomic_uint64 lowered; /* by sweeps */
} Counters;

/* Keys of one queue, or of any queue, that a transaction may have written. */
typedef struct Range
{
	pg_atomic_uint64 queue_id;
	pg_atomic_uint64 from;
	pg_atomic_uint64 to;
} Range;

/*
 * Keys that the transaction of a backend has written or is about to write;
 * changed by that backend alone.  Ranges are added and grow until the
 * transaction ends.
 */
typedef struct Published
{
	pg_atomic_uint64 opening; /* the backend is about to publish a key later
							   * than this; 0: no */
	pg_atomic_uint64 opening_queue;
	pg_atomic_uint32 count; /* of ranges */
	Oid db;
	uint32 epoch;
	Range ranges[RANGES];

	Counters counters; /* counts of this backend for its database */
} Published;

typedef union PaddedPublished
{
	Published p;
	char pad[TYPEALIGN(PG_CACHE_LINE_SIZE, sizeof(Published))];
} PaddedPublished;

/* Keys of a prepared transaction; guarded by floors_lock. */
typedef struct PreparedRange
{
	int64 queue_id;
	TimestampTz from;
	TimestampTz to;
} PreparedRange;

typedef struct PreparedXact
{
	TransactionId xid; /* invalid: free */
	Oid db;
	uint32 epoch;
	int count;
	PreparedRange ranges[RANGES];
} PreparedXact;

typedef struct Floors
{
	LWLock *lock;
	pg_atomic_uint32 backends;		 /* backends that may have published keys */
	pg_atomic_uint32 prepared_count; /* entries of prepared in use */
	pg_atomic_uint32 sweep_at;		 /* the next sweep starts at this floor */
	pg_atomic_uint64 displaced_at;	 /* last time that a missed floor was
									  * displaced, or 0 */
	bool prepared_known;			 /* guarded by lock; only ever set */
	int max_prepared;
	PgqrsSlotTable names; /* of the floors, by queue and priority */
	Counters counters[PGQRS_MAX_DATABASES]; /* of backends that have ended;
											 * guarded by lock */
	PaddedPublished *published;				/* by backend number */
	PreparedXact *prepared;
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
 * Whether the transaction has published a key, and its last reading of the
 * clock.
 */
static bool publishing = false;
static TimestampTz last_reading;

/*
 * Shared memory
 */

static int
max_prepared(void)
{
	return max_prepared_xacts > 0 ? max_prepared_xacts + MaxBackends : 0;
}

static Size
published_size(void)
{
	return mul_size(MaxBackends + 1, sizeof(PaddedPublished));
}

static Size
prepared_size(void)
{
	return MAXALIGN(mul_size(max_prepared(), sizeof(PreparedXact)));
}

static Size
names_size(void)
{
	return MAXALIGN(mul_size(pgqrs_max_floors, sizeof(PgqrsSlotName)));
}

/* What follows Floors. */
static Size
arrays_size(void)
{
	Size size = PG_CACHE_LINE_SIZE;

	size = add_size(size, published_size());
	size = add_size(size, prepared_size());
	size = add_size(size, names_size());
	return add_size(size, mul_size(pgqrs_max_floors, sizeof(PgqrsFloor)));
}

static void
init_counters(Counters *counters)
{
	pg_atomic_init_u64(&counters->claimed, 0);
	pg_atomic_init_u64(&counters->looked, 0);
	pg_atomic_init_u64(&counters->raised, 0);
	pg_atomic_init_u64(&counters->lowered, 0);
}

static void
init_published_keys(Published *published)
{
	pg_atomic_init_u64(&published->opening, 0);
	pg_atomic_init_u64(&published->opening_queue, ANY_QUEUE);
	pg_atomic_init_u32(&published->count, 0);
	for (int i = 0; i < RANGES; i++)
	{
		pg_atomic_init_u64(&published->ranges[i].queue_id, ANY_QUEUE);
		pg_atomic_init_u64(&published->ranges[i].from, 0);
		pg_atomic_init_u64(&published->ranges[i].to, 0);
	}
	init_counters(&published->counters);
}

static void
init_floors(LWLockPadded *locks)
{
	char *p;

	shared->lock = &locks->lock;
	pg_atomic_init_u32(&shared->backends, 0);
	pg_atomic_init_u32(&shared->prepared_count, 0);
	pg_atomic_init_u32(&shared->sweep_at, 0);
	pg_atomic_init_u64(&shared->displaced_at, 0);
	for (int i = 0; i < PGQRS_MAX_DATABASES; i++)
		init_counters(&shared->counters[i]);
	shared->prepared_known = max_prepared_xacts == 0;
	shared->max_prepared = max_prepared();

	p = (char *) CACHELINEALIGN((char *) shared + MAXALIGN(sizeof(Floors)));
	shared->published = (PaddedPublished *) p;
	p += published_size();
	shared->prepared = (PreparedXact *) p;
	p += prepared_size();
	pgqrs_slots_init(&shared->names, p, sizeof(PgqrsSlotName), pgqrs_max_floors,
					 MAX_PROBES);
	p += names_size();
	shared->floors = (PgqrsFloor *) p;

	for (int i = 0; i <= MaxBackends; i++)
		init_published_keys(&shared->published[i].p);
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
 * Finds a floor.  Without floors_lock the slot may belong to another queue by
 * the time its spinlock is held, see floor_is().
 */
static PgqrsFloor *
look_up_floor(int64 queue_id, int16 priority)
{
	int at = pgqrs_slot_find(&shared->names, priority, queue_id);

	return at < 0 ? NULL : &shared->floors[at];
}

/* Removes a floor; floors_lock is held exclusively. */
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
	floor->gap_count = 0;
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
			(queue_id == ANY_QUEUE ||
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

/*
 * Gaps.  The caller holds the floor's spinlock.
 */

static bool
is_in_gap(const PgqrsFloorGap *gap, TimestampTz at)
{
	return gap->from < at && at < gap->to;
}

static void
remove_gap_number(PgqrsFloor *floor, int at)
{
	floor->gap_count--;
	memmove(&floor->gaps[at], &floor->gaps[at + 1],
			(floor->gap_count - at) * sizeof(PgqrsFloorGap));
}

/* A message may have this key: removes the gap around it. */
static void
remove_gap_at(PgqrsFloor *floor, TimestampTz at)
{
	for (int i = floor->gap_count - 1; i >= 0; i--)
		if (is_in_gap(&floor->gaps[i], at))
			remove_gap_number(floor, i);
}

/* Removes the parts of gaps below the key. */
static void
trim_gaps(PgqrsFloor *floor)
{
	while (floor->gap_count > 0 && floor->gaps[0].to <= floor->key.visible_after)
		remove_gap_number(floor, 0);
	if (floor->gap_count > 0)
		floor->gaps[0].from = Max(floor->gaps[0].from, floor->key.visible_after);
}

/* Unsigned, so that it cannot overflow. */
static uint64
gap_width(PgqrsFloorGap gap)
{
	return (uint64) gap.to - (uint64) gap.from;
}

static int
narrowest_gap(const PgqrsFloor *floor)
{
	int best = 0;

	for (int i = 1; i < floor->gap_count; i++)
		if (gap_width(floor->gaps[i]) < gap_width(floor->gaps[best]))
			best = i;
	return best;
}

/*
 * Joins a gap with the gaps that it overlaps.  A gap that overlaps none is
 * added if allowed, in place of the narrowest gap if there are too many.
 */
static void
add_gap(PgqrsFloor *floor, PgqrsFloorGap gap, bool may_be_new)
{
	int at = 0;
	bool joined = false;

	while (at < floor->gap_count && floor->gaps[at].to <= gap.from)
		at++;
	while (at < floor->gap_count && floor->gaps[at].from < gap.to)
	{
		gap.from = Min(gap.from, floor->gaps[at].from);
		gap.to = Max(gap.to, floor->gaps[at].to);
		remove_gap_number(floor, at);
		joined = true;
	}
	if (!joined && !may_be_new)
		return;
	if (floor->gap_count == PGQRS_FLOOR_GAPS)
	{
		int narrowest = narrowest_gap(floor);

		if (gap_width(floor->gaps[narrowest]) >= gap_width(gap))
			return;
		remove_gap_number(floor, narrowest);
		if (narrowest < at)
			at--;
	}
	memmove(&floor->gaps[at + 1], &floor->gaps[at],
			(floor->gap_count - at) * sizeof(PgqrsFloorGap));
	floor->gaps[at] = gap;
	floor->gap_count++;
}

static Published *
my_published(void)
{
	return &shared->published[pgqrs_backend_number()].p;
}

/*
 * Statistics
 */

static void
add_count(pg_atomic_uint64 *counter, uint64 count)
{
	pg_atomic_write_u64(counter, pg_atomic_read_u64(counter) + count);
}

static void
add_counters(Counters *sum, const Counters *counters)
{
	add_count(&sum->claimed,
			  pg_atomic_read_u64(unconstify(pg_atomic_uint64 *, &counters->claimed)));
	add_count(&sum->looked,
			  pg_atomic_read_u64(unconstify(pg_atomic_uint64 *, &counters->looked)));
	add_count(&sum->raised,
			  pg_atomic_read_u64(unconstify(pg_atomic_uint64 *, &counters->raised)));
	add_count(&sum->lowered,
			  pg_atomic_read_u64(unconstify(pg_atomic_uint64 *, &counters->lowered)));
}

/*
 * Saves the counts of a backend that had this number and served another
 * database.
 */
static void
take_over_counters(Counters *mine)
{
	Counters *kept = NULL;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < PGQRS_MAX_DATABASES; i++)
	{
		Counters *other = &shared->counters[i];

		if (other->db == mine->db || (kept == NULL && !OidIsValid(other->db)))
			kept = other;
	}
	if (OidIsValid(mine->db) && kept != NULL)
	{
		kept->db = mine->db;
		add_counters(kept, mine);
	}
	init_counters(mine);
	mine->db = MyDatabaseId;
	LWLockRelease(shared->lock);
}

static void
forget_counters(Oid db)
{
	if (shared == NULL)
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < PGQRS_MAX_DATABASES; i++)
		if (shared->counters[i].db == db)
		{
			shared->counters[i].db = InvalidOid;
			init_counters(&shared->counters[i]);
		}
	LWLockRelease(shared->lock);
}

void
pgqrs_floor_forget_database(Oid db)
{
	forget_floors(db, ANY_QUEUE);
	forget_counters(db);
}

static Counters *
my_counters(void)
{
	Counters *mine = &my_published()->counters;

	if (mine->db != MyDatabaseId)
		take_over_counters(mine);
	return mine;
}

static void
count_scan(const PgqrsFloorScan *scan)
{
	Counters *counters = my_counters();

	if (scan->is_probe)
		return;
	add_count(&counters->claimed, scan->claimed);
	add_count(&counters->looked, scan->entries);
}

/*
 * Transactions that write messages
 */

/*
 * Prepares the first publication of a transaction.  The epoch is read before
 * the clock: a key must not carry the number of an epoch that began after its
 * reading.
 */
static void
begin_publishing(Published *mine)
{
	uint32 backends = pg_atomic_read_u32(&shared->backends);

	if (publishing)
		return;
	while (backends <= pgqrs_backend_number() &&
		   !pg_atomic_compare_exchange_u32(&shared->backends, &backends,
										   pgqrs_backend_number() + 1))
		;
	mine->db = MyDatabaseId;
	mine->epoch = pgqrs_clock_epoch();
	last_reading = pgqrs_clock();
	publishing = true;
	pg_write_barrier();
}

static TimestampTz
range_from(Range *range)
{
	return (TimestampTz) pg_atomic_read_u64(&range->from);
}

static TimestampTz
range_to(Range *range)
{
	return (TimestampTz) pg_atomic_read_u64(&range->to);
}

/* Distance of a key from a range, without overflow. */
static uint64
range_distance(Range *range, TimestampTz key)
{
	if (key < range_from(range))
		return (uint64) range_from(range) - (uint64) key;
	if (key > range_to(range))
		return (uint64) key - (uint64) range_to(range);
	return 0;
}

/* The range of a queue nearest to a key, and the number of its ranges. */
static Range *
nearest_range(Published *mine, int64 queue_id, TimestampTz key, int *ranges)
{
	int count = pg_atomic_read_u32(&mine->count);
	Range *best = NULL;

	*ranges = 0;
	for (int i = 0; i < count; i++)
	{
		Range *range = &mine->ranges[i];

		if ((int64) pg_atomic_read_u64(&range->queue_id) != queue_id)
			continue;
		++*ranges;
		if (best == NULL || range_distance(range, key) < range_distance(best, key))
			best = range;
	}
	return best;
}

/* False: no room for a queue without ranges. */
static bool
publish_key_for(Published *mine, int64 queue_id, TimestampTz key)
{
	int count = pg_atomic_read_u32(&mine->count);
	int max = queue_id == ANY_QUEUE ? RANGES : QUEUE_RANGES;
	int ranges;
	Range *range = nearest_range(mine, queue_id, key, &ranges);

	if (range != NULL &&
		(range_distance(range, key) <= NEAR || ranges == PER_QUEUE || count >= max))
	{
		if (key < range_from(range))
			pg_atomic_write_u64(&range->from, (uint64) key);
		if (key > range_to(range))
			pg_atomic_write_u64(&range->to, (uint64) key);
		return true;
	}
	if (count >= max)
		return false;
	range = &mine->ranges[count];
	pg_atomic_write_u64(&range->queue_id, (uint64) queue_id);
	pg_atomic_write_u64(&range->from, (uint64) key);
	pg_atomic_write_u64(&range->to, (uint64) key);
	pg_write_barrier();
	pg_atomic_write_u32(&mine->count, count + 1);
	return true;
}

/* The transaction writes a key of the queue. */
static void
publish_key(Published *mine, int64 queue_id, TimestampTz key)
{
	if (!publish_key_for(mine, queue_id, key))
		(void) publish_key_for(mine, ANY_QUEUE, key);
}

/* Whether the transaction has published the key. */
static bool
is_published(Published *mine, int64 queue_id, TimestampTz key)
{
	int count = publishing ? pg_atomic_read_u32(&mine->count) : 0;

	for (int i = 0; i < count; i++)
	{
		Range *range = &mine->ranges[i];
		int64 queue = pg_atomic_read_u64(&range->queue_id);

		if ((queue == queue_id || queue == ANY_QUEUE) &&
			range_distance(range, key) == 0)
			return true;
	}
	return false;
}

/*
 * From here on the transaction may read a key from the clock that is not
 * published yet.
 */
static void
open_key(Published *mine, int64 queue_id)
{
	if (INJECT(FLOOR_PUBLISH_ONCE) && publishing)
		return;
	begin_publishing(mine);
	pg_atomic_write_u64(&mine->opening_queue, (uint64) queue_id);
	pg_write_barrier();
	pg_atomic_write_u64(&mine->opening, (uint64) last_reading);
	pg_memory_barrier();
}

/* The transaction publishes the key that it has read. */
static void
close_key(Published *mine, int64 queue_id, TimestampTz key)
{
	publish_key(mine, queue_id, key);
	pg_write_barrier();
	pg_atomic_write_u64(&mine->opening, 0);
}

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
	Published *mine;
	TimestampTz reading;

	modified = true;
	if (shared == NULL || INJECT(FLOOR_PUBLISH_NOTHING))
		return pgqrs_clock();
	mine = my_published();
	if (!INJECT(FLOOR_KEY_BEFORE_PUBLISH))
		open_key(mine, queue_id);
	inject_delay();
	reading = pgqrs_clock();
	inject_delay();
	if (INJECT(FLOOR_KEY_BEFORE_PUBLISH))
		begin_publishing(mine);
	close_key(mine, queue_id, Max(reading + delay, not_before));
	last_reading = reading;
	return reading;
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
	{
		begin_publishing(my_published());
		publish_key(my_published(), queue_id, visible_after);
	}
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
			remove_gap_at(floor, visible_after);
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
		is_published(my_published(), queue_id, visible_after))
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
			floor->gap_count = 0;
			floor->generation++;
		}
		SpinLockRelease(&floor->mutex);
	}
}

/*
 * Prepared transactions
 */

/* A free entry for a prepared transaction; floors_lock is held. */
static PreparedXact *
add_prepared(TransactionId xid, Oid db, uint32 epoch)
{
	for (int i = 0; i < shared->max_prepared; i++)
	{
		PreparedXact *prepared = &shared->prepared[i];

		if (TransactionIdIsValid(prepared->xid))
			continue;
		prepared->xid = xid;
		prepared->db = db;
		prepared->epoch = epoch;
		prepared->count = 0;
		pg_atomic_fetch_add_u32(&shared->prepared_count, 1);
		return prepared;
	}
	pgqrs_error_too_many_prepared();
}

static void
add_prepared_range(PreparedXact *prepared, int64 queue_id, TimestampTz from,
				   TimestampTz to)
{
	prepared->ranges[prepared->count++] = (PreparedRange){queue_id, from, to};
}

static void
record_prepared(TransactionId xid, Published *mine)
{
	PreparedXact *prepared = add_prepared(xid, mine->db, mine->epoch);
	int count = pg_atomic_read_u32(&mine->count);

	for (int i = 0; i < count; i++)
		add_prepared_range(prepared, pg_atomic_read_u64(&mine->ranges[i].queue_id),
						   range_from(&mine->ranges[i]),
						   range_to(&mine->ranges[i]));
	if (pg_atomic_read_u64(&mine->opening) == 0)
		return;
	/* an error between open_key() and close_key() left the key unknown */
	prepared->count = 0;
	add_prepared_range(prepared, ANY_QUEUE, DT_NOBEGIN, DT_NOEND);
}

static bool
is_recorded(TransactionId xid)
{
	for (int i = 0; i < shared->max_prepared; i++)
		if (shared->prepared[i].xid == xid)
			return true;
	return false;
}

/*
 * Forgets prepared transactions that have ended.  The caller holds the lock and
 * takes its snapshot later.
 */
static void
forget_ended_prepared(void)
{
	for (int i = 0; i < shared->max_prepared; i++)
	{
		PreparedXact *prepared = &shared->prepared[i];

		if (!TransactionIdIsValid(prepared->xid) ||
			TransactionIdIsInProgress(prepared->xid))
			continue;
		prepared->xid = InvalidTransactionId;
		pg_atomic_fetch_sub_u32(&shared->prepared_count, 1);
	}
}

/*
 * Called before the transaction is prepared.  No callback reports COMMIT
 * PREPARED or ROLLBACK PREPARED, so the keys are recorded with the xid, whose
 * state scans look up.
 */
void
pgqrs_floor_pre_prepare(void)
{
	Published *mine;
	TransactionId xid;

	if (shared == NULL || max_prepared_xacts == 0)
		return;
	mine = my_published();
	if (!publishing || INJECT(FLOOR_PREPARE_UNRECORDED))
		return;
	xid = GetTopTransactionId();
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	forget_ended_prepared();
	record_prepared(xid, mine);
	LWLockRelease(shared->lock);
}

/*
 * Records the transactions prepared before the start of the server, which may
 * have written any key.  A standby does not list them until it has been
 * promoted.
 */
static void
read_prepared(void)
{
	TransactionId *xids;
	Oid *dbs;
	bool known;
	int count;

	if (SPI_connect() != SPI_OK_CONNECT ||
		SPI_execute("SELECT transaction, dbid FROM pg_catalog.pg_prepared_xact()",
					true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read pg_prepared_xact()");
	count = (int) SPI_processed;
	xids = SPI_palloc((count + 1) * sizeof(TransactionId));
	dbs = SPI_palloc((count + 1) * sizeof(Oid));
	for (int i = 0; i < count; i++)
	{
		HeapTuple row = SPI_tuptable->vals[i];
		bool isnull;

		xids[i] = DatumGetTransactionId(
			SPI_getbinval(row, SPI_tuptable->tupdesc, 1, &isnull));
		dbs[i] = DatumGetObjectId(
			SPI_getbinval(row, SPI_tuptable->tupdesc, 2, &isnull));
	}
	SPI_finish();

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	known = shared->prepared_known;
	if (!known)
	{
		forget_ended_prepared();
		for (int i = 0; i < count; i++)
			if (!is_recorded(xids[i]) && !INJECT(FLOOR_FORGET_PREPARED))
				add_prepared_range(add_prepared(xids[i], dbs[i],
												pgqrs_clock_epoch()),
								   ANY_QUEUE, DT_NOBEGIN, DT_NOEND);
		shared->prepared_known = true;
	}
	LWLockRelease(shared->lock);
	for (int i = 0; i < count && !known; i++)
		pgqrs_xact_wakeups_prepared_before(xids[i], dbs[i]);
	pfree(dbs);
	pfree(xids);
}

bool
pgqrs_floor_knows_prepared(void)
{
	return shared != NULL && shared->prepared_known;
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
	if (shared != NULL && !shared->prepared_known && !RecoveryInProgress())
		read_prepared();
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
add_pending(PgqrsFloorScan *scan, TimestampTz from, TimestampTz to)
{
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
 * Adds the keys that another backend has published.  Its ranges are read after
 * its opening key, which becomes part of a range.
 */
static void
read_published(PgqrsFloorScan *scan, Published *other)
{
	TimestampTz opening = (TimestampTz) pg_atomic_read_u64(&other->opening);
	int64 queue;
	int count;
	bool same_epoch;

	pg_read_barrier();
	queue = pg_atomic_read_u64(&other->opening_queue);
	pg_read_barrier();
	count = pg_atomic_read_u32(&other->count);
	pg_read_barrier();
	if ((opening == 0 && count == 0) || other->db != MyDatabaseId)
		return;

	/* readings of another epoch are not comparable with the scan's */
	same_epoch = other->epoch == scan->epoch;
	if (opening != 0 && queue == scan->queue_id)
		add_pending(scan, same_epoch ? opening : DT_NOBEGIN, DT_NOEND);
	for (int i = 0; i < count; i++)
	{
		Range *range = &other->ranges[i];

		queue = pg_atomic_read_u64(&range->queue_id);
		if (queue == scan->queue_id || queue == ANY_QUEUE)
			add_pending(scan, same_epoch ? range_from(range) : DT_NOBEGIN,
						same_epoch ? range_to(range) : DT_NOEND);
	}
}

static void
read_prepared_keys(PgqrsFloorScan *scan, const PreparedXact *prepared)
{
	bool same_epoch = prepared->epoch == scan->epoch;

	if (!TransactionIdIsValid(prepared->xid) || prepared->db != MyDatabaseId)
		return;
	for (int i = 0; i < prepared->count; i++)
	{
		const PreparedRange *range = &prepared->ranges[i];

		if (range->queue_id == scan->queue_id || range->queue_id == ANY_QUEUE)
			add_pending(scan, same_epoch ? range->from : DT_NOBEGIN,
						same_epoch ? range->to : DT_NOEND);
	}
}

/*
 * Step (2): reads the keys that other transactions may be writing to the queue.
 */
static void
read_pending(PgqrsFloorScan *scan)
{
	uint32 backends = pg_atomic_read_u32(&shared->backends);

	scan->limit = (PgqrsFloorKey){DT_NOEND, LOWEST_ID};
	scan->cap = DT_NOEND;
	scan->pending_count = 0;
	if (INJECT(FLOOR_IGNORE_PENDING))
		return;
	for (uint32 i = 0; i < backends; i++)
		read_published(scan, &shared->published[i].p);

	/*
	 * keys are recorded before they are withdrawn, so they are read here last
	 */
	pg_read_barrier();
	if (pg_atomic_read_u32(&shared->prepared_count) > 0)
	{
		LWLockAcquire(shared->lock, LW_EXCLUSIVE);
		forget_ended_prepared();
		for (int i = 0; i < shared->max_prepared; i++)
			read_prepared_keys(scan, &shared->prepared[i]);
		LWLockRelease(shared->lock);
	}
}

/* Sets the end of the part that begins at scan->from. */
static void
set_part_end(PgqrsFloorScan *scan)
{
	TimestampTz from = scan->from.visible_after;

	if (scan->next_gap < scan->gap_count)
		scan->until = scan->gaps[scan->next_gap].from;
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
		scan->gap_count = floor->gap_count;
		memcpy(scan->gaps, floor->gaps, floor->gap_count * sizeof(PgqrsFloorGap));
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
	scan->is_probe = is_probe;
	scan->queue_id = queue_id;
	scan->priority = priority;
	scan->start = lowest;
	floor = shared == NULL || !shared->prepared_known ?
		NULL :
		look_up_floor(queue_id, priority);
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
	if (scan->next_gap < scan->gap_count)
	{
		scan->from.visible_after = scan->gaps[scan->next_gap++].to;
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
	least = Min(gap_width(rest) / GAP_SHARE, NEAR);
	for (int i = 0; i <= scan->pending_count && rest.from < rest.to; i++)
	{
		bool is_last = i == scan->pending_count || INJECT(FLOOR_GAP_OVER_PENDING);
		PgqrsFloorGap gap = rest;

		if (!is_last)
			gap.to = Min(scan->pending[i].from, rest.to);
		if (gap.from < gap.to)
			add_gap(floor, gap,
					scan->longest_run >= GAP_AFTER && gap_width(gap) >= least);
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
		floor->gap_count = 0;
	}
	raised = pgqrs_floor_compare(to, floor->key) > 0;
	if (raised)
	{
		floor->key = to;
		trim_gaps(floor);
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
	if (scan->entries > 0)
		count_scan(scan);
	if (floor == NULL)
	{
		if (shared->prepared_known &&
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
		if (!scan->is_probe && scan->next_gap == scan->gap_count &&
			scan->main >= scan->now - MAX_SCAN_WINDOW)
			floor->scan_window = next_scan_window(scan);
		floor->used_at = scan->now;
	}
	SpinLockRelease(&floor->mutex);
	if (raised)
		add_count(&my_counters()->raised, 1);
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
	sweep->gap_count = 0;
	SpinLockAcquire(&floor->mutex);
	is_ours = floor->db == MyDatabaseId;
	sweep->queue_id = floor->queue_id;
	sweep->priority = floor->priority;
	sweep->from = sweep->looks_only ? lowest : floor->swept;
	sweep->floor_key = floor->epoch == sweep->epoch ? floor->key : lowest;
	if (floor->epoch == sweep->epoch)
	{
		sweep->gap_count = floor->gap_count;
		memcpy(sweep->gaps, floor->gaps, floor->gap_count * sizeof(PgqrsFloorGap));
	}
	if (!sweep->looks_only)
		floor->swept = lowest;
	SpinLockRelease(&floor->mutex);
	sweep->to = sweep->floor_key;
	if (sweep->gap_count > 0)
		sweep->to = (PgqrsFloorKey){sweep->gaps[sweep->gap_count - 1].to, LOWEST_ID};
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
	if (pgqrs_floor_compare(key, sweep->floor_key) < 0)
		return true;
	for (int i = 0; i < sweep->gap_count; i++)
		if (is_in_gap(&sweep->gaps[i], key.visible_after))
			return true;
	return false;
}

/* Makes claims scan the key; false: they did already.  The spinlock is held. */
static bool
uncover_key(PgqrsFloor *floor, PgqrsFloorKey key)
{
	int gaps = floor->gap_count;

	remove_gap_at(floor, key.visible_after);
	if (pgqrs_floor_compare(key, floor->key) >= 0)
		return floor->gap_count < gaps;
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
		add_count(&my_counters()->lowered, 1);
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

static void
sum_counters(Counters *sum)
{
	LWLockAcquire(shared->lock, LW_SHARED);
	for (int i = 0; i < PGQRS_MAX_DATABASES; i++)
		if (shared->counters[i].db == MyDatabaseId)
			add_counters(sum, &shared->counters[i]);
	for (int i = 0; i <= MaxBackends; i++)
		if (shared->published[i].p.counters.db == MyDatabaseId)
			add_counters(sum, &shared->published[i].p.counters);
	LWLockRelease(shared->lock);
}

/* False if the library is not preloaded: no shared memory. */
bool
pgqrs_floor_get_stats(PgqrsFloorStats *stats)
{
	Counters sum;

	memset(stats, 0, sizeof(*stats));
	if (shared == NULL)
		return false;
	stats->max_floors = shared->names.count;
	stats->displaced_at = (TimestampTz) pg_atomic_read_u64(&shared->displaced_at);
	for (int i = 0; i < shared->names.count; i++)
		if (pg_atomic_read_u32(&pgqrs_slot_name(&shared->names, i)->state) == SLOT_USED)
			stats->floors++;
	init_counters(&sum);
	sum_counters(&sum);
	stats->raised = pg_atomic_read_u64(&sum.raised);
	stats->lowered = pg_atomic_read_u64(&sum.lowered);
	stats->looked = pg_atomic_read_u64(&sum.looked);
	stats->claimed = pg_atomic_read_u64(&sum.claimed);
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
	if (!publishing)
		return;
	publishing = false;
	pg_atomic_write_u32(&my_published()->count, 0);
	pg_atomic_write_u64(&my_published()->opening, 0);
	inject_delay();
}
