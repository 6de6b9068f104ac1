/*
 * floor.c
 *	  Where the claims of a queue and priority may start.
 *
 * Dead index entries pile up at the head of a queue, and vacuum may not remove
 * them while any old snapshot lives.  A floor is a key (visible_after,
 * message_id) from which claims scan.  Invariant: every message that is
 * claimable, or can become so by a commit or abort already under way, has a
 * key at or above its floor.
 *
 * Runs in every backend that writes or claims messages.  Shared memory only; a
 * floor is guarded by its spinlock, the list of floors and the parked entries
 * by floors_lock, a backend's published key is written by that backend alone.
 *
 * A scanner (1) reads the clock, (2) reads the published keys that concern its
 * queue, (3) takes its snapshot, (4) scans from the floor to its reading, and
 * (5) raises the floor to the first row that it saw, but not past what was
 * published.  A writer publishes a reading, and only then reads the clock for
 * the key that it writes; it withdraws at the end of its transaction, when the
 * end is visible to snapshots.  So a writer that withdrew before (2) is in the
 * scanner's snapshot, one that had published by then caps the floor, and one
 * that publishes later gets a key later than the scanner's reading.
 *
 * What a transaction itself has changed it does not see as others do, and may
 * undo: a call raises a floor only if its transaction had modified no message
 * before.
 *
 * A prepared transaction's key is parked until its xid is no longer in
 * progress.  After a start, floors are off until the transactions that were
 * prepared before it are known.
 */
#include "floor.h"

#include "access/transam.h"
#include "access/twophase.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "clock.h"
#include "compat.h"
#include "common/hashfn.h"
#include "common/pg_prng.h"
#include "errors.h"
#include "executor/spi.h"
#include "guc.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/lwlock.h"
#include "storage/procarray.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "wake.h"

/*
 * A floor is raised when scans have looked at this many index entries since it
 * was: each claim leaves one that is dead.
 */
#ifdef PGQRS_BREAK_FLOOR
#define RAISE_AFTER 1
#else
#define RAISE_AFTER 8
#endif

/*
 * A btree scan reads all that matches on a page at once, most of it in vain
 * when one message is wanted.  So a scan is cut into parts: the first is a
 * little shorter each time that it was enough, and each further one longer by
 * this factor.
 */
#define REACH_FACTOR 8
#define MAX_REACH	 (INT64CONST(366) * USECS_PER_DAY)

/* How far a floor may stand from its place in the table. */
#define MAX_PROBES 64

/* A published key that is below every other, and stands for whatever is. */
#define LOWEST_KEY 1

/* Below the id of every message, also of one that was written by hand. */
#define LOWEST_ID PG_INT64_MIN

typedef struct PgqrsFloor
{
	/* written once, under floors_lock, before used is set */
	pg_atomic_uint32 used;
	Oid db;
	int64 queue_id;
	int16 priority;

	slock_t mutex; /* guards the rest */
	PgqrsFloorKey key;
	uint32 epoch;		 /* of the clock that key was read from */
	uint32 generation;	 /* counts how often it was lowered */
	int entries;		 /* that were looked at since it was raised */
	PgqrsFloorKey swept; /* the sweep goes on here */
	int64 reach;		 /* how far the next scan reads at first */

	/* statistics, since the floor was made */
	int64 claimed; /* messages */
	int64 looked;  /* index entries looked at */
	int64 raised;
	int64 lowered; /* by the sweep */
} PgqrsFloor;

/* What a backend's transaction may write; written by that backend alone. */
typedef struct Published
{
	pg_atomic_uint64 key;	   /* a reading of the clock, or 0: nothing */
	pg_atomic_uint64 queue_id; /* or 0: many */
	Oid db;
	uint32 epoch;
} Published;

typedef union PaddedPublished
{
	Published p;
	char pad[PG_CACHE_LINE_SIZE];
} PaddedPublished;

/* The same of a prepared transaction; guarded by floors_lock. */
typedef struct Parked
{
	TransactionId xid; /* or invalid: free */
	Oid db;			   /* or invalid: any */
	int64 queue_id;	   /* or 0: many */
	uint64 key;
	uint32 epoch;
} Parked;

typedef struct Floors
{
	LWLock *lock;
	pg_atomic_uint32 backends; /* as many of the published keys are in use */
	pg_atomic_uint32 parked;   /* as many parked entries are taken */
	pg_atomic_uint32 sweep_at; /* the next sweep begins at this floor */
	bool prepared_known;	   /* guarded by lock; only ever set */
	int max_parked;
	int max_floors;
	PaddedPublished *published; /* by backend */
	Parked *parkings;
	PgqrsFloor *floors;
} Floors;

static Floors *shared = NULL;

/* Below every message. */
static const PgqrsFloorKey lowest = {DT_NOBEGIN, LOWEST_ID};

/* Whether the transaction has changed a message, and had when the call began. */
static bool modified = false;
static bool modified_before = false;

/* Where a build for the stress test lets others come in between. */
static void
widen(void)
{
#ifdef PGQRS_BREAK_FLOOR
	if (pg_prng_uint64_range(&pg_global_prng_state, 0, 15) == 0)
		pg_usleep(pg_prng_uint64_range(&pg_global_prng_state, 0, 30000));
#endif
}

/*
 * Shared memory
 */

static int
max_parked(void)
{
	return max_prepared_xacts > 0 ? max_prepared_xacts + MaxBackends : 0;
}

static Size
published_size(void)
{
	return mul_size(MaxBackends + 1, sizeof(PaddedPublished));
}

static Size
parkings_size(void)
{
	return MAXALIGN(mul_size(max_parked(), sizeof(Parked)));
}

Size
pgqrs_floor_shmem_size(void)
{
	Size size = MAXALIGN(sizeof(Floors)) + PG_CACHE_LINE_SIZE;

	size = add_size(size, published_size());
	size = add_size(size, parkings_size());
	return add_size(size, mul_size(pgqrs_max_floors, sizeof(PgqrsFloor)));
}

/* Called by the postmaster, with AddinShmemInitLock held. */
void
pgqrs_floor_shmem_init(void)
{
	bool found;
	char *p;

	shared = ShmemInitStruct("pgqrs floors", pgqrs_floor_shmem_size(), &found);
	if (found)
		return;
	memset(shared, 0, pgqrs_floor_shmem_size());
	shared->lock = &GetNamedLWLockTranche("pgqrs floors")->lock;
	pg_atomic_init_u32(&shared->backends, 0);
	pg_atomic_init_u32(&shared->parked, 0);
	pg_atomic_init_u32(&shared->sweep_at, 0);
	shared->prepared_known = max_prepared_xacts == 0;
	shared->max_parked = max_parked();
	shared->max_floors = pgqrs_max_floors;

	p = (char *) CACHELINEALIGN((char *) shared + MAXALIGN(sizeof(Floors)));
	shared->published = (PaddedPublished *) p;
	p += published_size();
	shared->parkings = (Parked *) p;
	p += parkings_size();
	shared->floors = (PgqrsFloor *) p;

	for (int i = 0; i <= MaxBackends; i++)
	{
		pg_atomic_init_u64(&shared->published[i].p.key, 0);
		pg_atomic_init_u64(&shared->published[i].p.queue_id, 0);
	}
	for (int i = 0; i < pgqrs_max_floors; i++)
	{
		pg_atomic_init_u32(&shared->floors[i].used, 0);
		SpinLockInit(&shared->floors[i].mutex);
	}
}

/*
 * Floors
 */

/* Whether the floor stands for a queue, and which may be read. */
static bool
is_used(PgqrsFloor *floor)
{
	bool used = pg_atomic_read_u32(&floor->used) != 0;

	pg_read_barrier();
	return used;
}

static bool
floor_is(const PgqrsFloor *floor, int64 queue_id, int16 priority)
{
	return floor->db == MyDatabaseId && floor->queue_id == queue_id &&
		floor->priority == priority;
}

/*
 * Looks for a floor from its place on.  NULL: there is none; *place is then
 * where it could be, or -1 if the places are taken.
 */
static PgqrsFloor *
look_up(int64 queue_id, int16 priority, int *place)
{
	uint32 hash = hash_combine(murmurhash32(MyDatabaseId),
							   hash_combine(murmurhash32((uint32) queue_id),
											murmurhash32((uint32) priority)));

	*place = -1;
	for (int i = 0; i < Min(MAX_PROBES, shared->max_floors); i++)
	{
		int at = (hash + i) % shared->max_floors;
		PgqrsFloor *floor = &shared->floors[at];

		if (!is_used(floor))
		{
			*place = at;
			return NULL;
		}
		if (floor_is(floor, queue_id, priority))
			return floor;
	}
	return NULL;
}

/* Finds or makes the floor of a queue and priority; NULL: no place for it. */
static PgqrsFloor *
get_floor(int64 queue_id, int16 priority)
{
	int place;
	PgqrsFloor *floor = look_up(queue_id, priority, &place);

	if (floor != NULL || place < 0)
		return floor;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	floor = look_up(queue_id, priority, &place);
	if (floor == NULL && place >= 0)
	{
		floor = &shared->floors[place];
		floor->db = MyDatabaseId;
		floor->queue_id = queue_id;
		floor->priority = priority;
		floor->key = lowest;
		floor->swept = lowest;
		floor->reach = MAX_REACH;
		floor->epoch = pgqrs_clock_epoch();
		pg_write_barrier();
		pg_atomic_write_u32(&floor->used, 1);
	}
	LWLockRelease(shared->lock);
	return floor;
}

int
pgqrs_floor_compare(PgqrsFloorKey a, PgqrsFloorKey b)
{
	if (a.visible_after != b.visible_after)
		return a.visible_after < b.visible_after ? -1 : 1;
	return (a.message_id > b.message_id) - (a.message_id < b.message_id);
}

/*
 * Writing
 */

static Published *
my_published(void)
{
	return &shared->published[pgqrs_backend_number()].p;
}

/*
 * Makes known that from now on a key of this queue may be written that is at
 * least the given one or a reading of the clock.  What is published is never
 * later than the reading, so that later writes of the transaction need not
 * publish again.  The epoch is read before the clock: a key must not bear the
 * number of an epoch that began after it was read.
 */
static void
publish(int64 queue_id, TimestampTz key)
{
	Published *mine = my_published();
	uint64 before = pg_atomic_read_u64(&mine->key);

	if (PGQRS_FLOOR_BROKEN('a'))
		return;
	if (before == 0)
	{
		uint32 backends = pg_atomic_read_u32(&shared->backends);
		TimestampTz reading;

		while (backends <= pgqrs_backend_number() &&
			   !pg_atomic_compare_exchange_u32(&shared->backends, &backends,
											   pgqrs_backend_number() + 1))
			;
		mine->db = MyDatabaseId;
		mine->epoch = pgqrs_clock_epoch();
		reading = pgqrs_clock();
		key = Min(key, reading);
		pg_atomic_write_u64(&mine->queue_id, queue_id);
		pg_write_barrier();
		pg_atomic_write_u64(&mine->key, (uint64) Max(key, LOWEST_KEY));
	}
	else
	{
		if (pg_atomic_read_u64(&mine->queue_id) != queue_id)
			pg_atomic_write_u64(&mine->queue_id, 0);
		key = Max(key, LOWEST_KEY);
		if (key < (TimestampTz) before)
			pg_atomic_write_u64(&mine->key, (uint64) key);
	}
	pg_memory_barrier();
}

/* The transaction changes a message. */
void
pgqrs_floor_modified(void)
{
	modified = true;
}

/*
 * The clock for whoever writes a message's visible_after: the reading, or
 * something later, is the key.  Called after all waiting is done.
 */
TimestampTz
pgqrs_floor_writer_clock(int64 queue_id)
{
	TimestampTz reading = 0;

	modified = true;
	if (PGQRS_FLOOR_BROKEN('b'))
		reading = pgqrs_clock();
	widen();
	if (shared != NULL)
	{
		Published *mine = my_published();

		/* a reading taken before the first one is below it all the same */
		if (pg_atomic_read_u64(&mine->key) == 0 ||
			(pg_atomic_read_u64(&mine->queue_id) != 0 &&
			 pg_atomic_read_u64(&mine->queue_id) != queue_id))
			publish(queue_id, DT_NOEND);
	}
	if (!PGQRS_FLOOR_BROKEN('b'))
		reading = pgqrs_clock();
	widen();
	return reading;
}

/*
 * A message is written past our functions, with any key.  The key is published
 * for as long as the transaction lives, and the floor lowered at once: a scan
 * that began before sees the generation change, a later one sees what is
 * published.
 */
void
pgqrs_floor_foreign_write(int64 queue_id, int16 priority, TimestampTz visible_after)
{
	PgqrsFloor *floor;

	modified = true;
	if (shared == NULL)
		return;
	if (!PGQRS_FLOOR_BROKEN('l'))
		publish(queue_id, visible_after);
	widen();
	floor = get_floor(queue_id, priority);
	if (floor == NULL)
		return;
	SpinLockAcquire(&floor->mutex);
	if (visible_after <= floor->key.visible_after)
	{
		floor->key.visible_after = visible_after;
		floor->key.message_id = LOWEST_ID;
	}
	floor->generation++;
	SpinLockRelease(&floor->mutex);
}

/*
 * Messages may have been written that no backend reported; a snapshot taken from
 * now on shows them.  Claims of this database start at the lowest key again.
 */
void
pgqrs_floor_lower_all(void)
{
	for (int i = 0; shared != NULL && i < shared->max_floors; i++)
	{
		PgqrsFloor *floor = &shared->floors[i];

		if (!is_used(floor) || floor->db != MyDatabaseId)
			continue;
		SpinLockAcquire(&floor->mutex);
		floor->key = lowest;
		floor->generation++;
		SpinLockRelease(&floor->mutex);
	}
}

/*
 * Prepared transactions
 */

static void
park(TransactionId xid, Oid db, int64 queue_id, uint64 key, uint32 epoch)
{
	for (int i = 0; i < shared->max_parked; i++)
	{
		Parked *parked = &shared->parkings[i];

		if (TransactionIdIsValid(parked->xid))
			continue;
		parked->xid = xid;
		parked->db = db;
		parked->queue_id = queue_id;
		parked->key = key;
		parked->epoch = epoch;
		pg_atomic_fetch_add_u32(&shared->parked, 1);
		return;
	}
	pgqrs_error_too_many_prepared();
}

static bool
is_parked(TransactionId xid)
{
	for (int i = 0; i < shared->max_parked; i++)
		if (shared->parkings[i].xid == xid)
			return true;
	return false;
}

/* Forgets what has ended; the caller holds the lock and takes its snapshot later. */
static void
unpark(void)
{
	for (int i = 0; i < shared->max_parked; i++)
	{
		Parked *parked = &shared->parkings[i];

		if (!TransactionIdIsValid(parked->xid) ||
			TransactionIdIsInProgress(parked->xid))
			continue;
		parked->xid = InvalidTransactionId;
		pg_atomic_fetch_sub_u32(&shared->parked, 1);
	}
}

/*
 * Before the transaction is prepared: whether it will be committed no callback
 * tells, so its key is left where scanners look after its xid.
 */
void
pgqrs_floor_pre_prepare(void)
{
	Published *mine;
	TransactionId xid;

	if (shared == NULL || max_prepared_xacts == 0)
		return;
	mine = my_published();
	if (pg_atomic_read_u64(&mine->key) == 0 || PGQRS_FLOOR_BROKEN('p'))
		return;
	xid = GetTopTransactionId();
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	unpark();
	park(xid, mine->db, pg_atomic_read_u64(&mine->queue_id),
		 pg_atomic_read_u64(&mine->key), mine->epoch);
	LWLockRelease(shared->lock);
}

/*
 * What was prepared before the server started could have written anything.
 * A standby does not list what is prepared until it has been promoted.
 */
static void
learn_prepared(void)
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
		unpark();
		for (int i = 0; i < count; i++)
			if (!is_parked(xids[i]) && !PGQRS_FLOOR_BROKEN('k'))
				park(xids[i], InvalidOid, 0, LOWEST_KEY, pgqrs_clock_epoch());
		shared->prepared_known = true;
	}
	LWLockRelease(shared->lock);
	for (int i = 0; i < count && !known; i++)
		pgqrs_wake_prepared_before(xids[i], dbs[i]);
	pfree(dbs);
	pfree(xids);
}

/*
 * Scanning
 */

/*
 * At the beginning of a call that scans, before it takes a snapshot or changes
 * anything.
 */
void
pgqrs_floor_call_begin(void)
{
	modified_before = modified && !PGQRS_FLOOR_BROKEN('h');
	if (shared != NULL && !shared->prepared_known && !RecoveryInProgress())
		learn_prepared();
}

bool
pgqrs_floor_call_is_clean(void)
{
	return !modified_before;
}

/*
 * The least key that somebody may be writing to the queue; the lowest of all
 * if it was published under another epoch of the clock.
 */
static uint64
read_pending(int64 queue_id, uint32 epoch)
{
	uint64 pending = PG_INT64_MAX;
	uint32 backends = pg_atomic_read_u32(&shared->backends);

	if (PGQRS_FLOOR_BROKEN('e'))
		return pending;
	for (uint32 i = 0; i < backends; i++)
	{
		Published *other = &shared->published[i].p;
		uint64 key = pg_atomic_read_u64(&other->key);
		int64 queue;

		if (key == 0)
			continue;
		pg_read_barrier();
		queue = pg_atomic_read_u64(&other->queue_id);
		if (other->db != MyDatabaseId || (queue != 0 && queue != queue_id))
			continue;
		pending = Min(pending, other->epoch == epoch ? key : LOWEST_KEY);
	}

	/* a key is parked before it is withdrawn, so look there last */
	pg_read_barrier();
	if (pg_atomic_read_u32(&shared->parked) > 0)
	{
		LWLockAcquire(shared->lock, LW_EXCLUSIVE);
		unpark();
		for (int i = 0; i < shared->max_parked; i++)
		{
			Parked *parked = &shared->parkings[i];

			if (!TransactionIdIsValid(parked->xid) ||
				(OidIsValid(parked->db) && parked->db != MyDatabaseId) ||
				(parked->queue_id != 0 && parked->queue_id != queue_id))
				continue;
			pending = Min(pending,
						  parked->epoch == epoch ? parked->key : LOWEST_KEY);
		}
		LWLockRelease(shared->lock);
	}
	return pending;
}

/* Steps (1) and (2); the caller takes its snapshot after this. */
void
pgqrs_floor_scan_begin(PgqrsFloorScan *scan, int64 queue_id, int16 priority)
{
	PgqrsFloor *floor;
	int entries;

	memset(scan, 0, sizeof(*scan));
	scan->start = lowest;
	floor = shared == NULL || !shared->prepared_known ?
		NULL :
		get_floor(queue_id, priority);
	if (floor == NULL)
	{
		scan->now = pgqrs_clock();
		return;
	}

	scan->floor = floor;
	scan->epoch = pgqrs_clock_epoch();
	SpinLockAcquire(&floor->mutex);
	if (floor->epoch == scan->epoch)
		scan->start = floor->key;
	scan->generation = floor->generation;
	scan->reach = floor->reach;
	entries = floor->entries;
	SpinLockRelease(&floor->mutex);

	scan->now = pgqrs_clock();
	pg_memory_barrier();
	widen();
	scan->may_raise = !modified_before && entries >= RAISE_AFTER;
	if (scan->may_raise)
	{
		uint64 pending = read_pending(queue_id, scan->epoch);

		scan->limit.visible_after = pending == LOWEST_KEY ? DT_NOBEGIN :
															(TimestampTz) pending;
		scan->limit.message_id = LOWEST_ID;
	}
	pg_memory_barrier();
	widen();
}

/*
 * Where the part of the scan ends that begins at from.  All parts are read
 * under one snapshot, so that together they are one scan.
 */
TimestampTz
pgqrs_floor_scan_part(PgqrsFloorScan *scan, TimestampTz from)
{
	if (scan->floor == NULL || from < scan->now - MAX_REACH)
		return scan->now;
	if (from > scan->start.visible_after)
	{
		scan->beyond = true;
		scan->reach = Min(scan->reach * REACH_FACTOR, MAX_REACH);
	}
	return Min(from + scan->reach, scan->now);
}

/* How far the next scan is to read at first. */
static int64
next_reach(const PgqrsFloorScan *scan)
{
	if (scan->beyond)
		return scan->reach;
	return Max(1, Min(scan->reach, scan->now - scan->start.visible_after) * 7 / 8);
}

/* Step (5) */
void
pgqrs_floor_scan_end(PgqrsFloorScan *scan)
{
	PgqrsFloor *floor = scan->floor;
	PgqrsFloorKey to = scan->first;

	if (floor == NULL)
		return;
	widen();
	if (!scan->has_first)
		to = (PgqrsFloorKey){scan->now, LOWEST_ID};
	else if (PGQRS_FLOOR_BROKEN('g'))
		to.message_id++;
	if (PGQRS_FLOOR_BROKEN('d') && scan->may_raise)
		scan->limit.visible_after = read_pending(floor->queue_id, scan->epoch);
	if (scan->may_raise && pgqrs_floor_compare(scan->limit, to) < 0)
		to = scan->limit;

	SpinLockAcquire(&floor->mutex);
	if (scan->may_raise)
		floor->entries = 0;
	else if (floor->entries < RAISE_AFTER)
		floor->entries += scan->entries;
	if (scan->may_raise &&
		(floor->generation == scan->generation || PGQRS_FLOOR_BROKEN('m')) &&
		scan->epoch == pgqrs_clock_epoch() &&
		(floor->epoch != scan->epoch || pgqrs_floor_compare(to, floor->key) > 0))
	{
		floor->key = to;
		floor->epoch = scan->epoch;
		floor->raised++;
	}
	if (scan->start.visible_after >= scan->now - MAX_REACH)
		floor->reach = next_reach(scan);
	floor->claimed += scan->claimed;
	if (!scan->is_probe)
		floor->looked += scan->entries;
	SpinLockRelease(&floor->mutex);
}

/*
 * Sweeping
 */

/* Takes down how far a floor is to be swept; false: there is nothing below it. */
static bool
begin_sweep(PgqrsFloorSweep *sweep, PgqrsFloor *floor)
{
	sweep->floor = floor;
	sweep->queue_id = floor->queue_id;
	sweep->priority = floor->priority;
	sweep->epoch = pgqrs_clock_epoch();
	SpinLockAcquire(&floor->mutex);
	sweep->from = sweep->looks_only ? lowest : floor->swept;
	sweep->to = floor->epoch == sweep->epoch ? floor->key : lowest;
	if (!sweep->looks_only)
		floor->swept = lowest;
	SpinLockRelease(&floor->mutex);
	if (pgqrs_floor_compare(sweep->from, sweep->to) >= 0)
		sweep->from = lowest;
	return pgqrs_floor_compare(sweep->from, sweep->to) < 0;
}

/*
 * Moves on to the next floor of this database, each one once.  The caller
 * takes its snapshot after this: by the invariant it shows nothing below what
 * was taken down here.
 */
bool
pgqrs_floor_sweep_next(PgqrsFloorSweep *sweep)
{
	int count = shared == NULL ? 0 : shared->max_floors;

	if (sweep->visited == 0 && count > 0)
		sweep->next = pg_atomic_read_u32(&shared->sweep_at);
	while (sweep->visited < count)
	{
		PgqrsFloor *floor = &shared->floors[sweep->next];

		sweep->visited++;
		sweep->next = (sweep->next + 1) % count;
		if (is_used(floor) && floor->db == MyDatabaseId && begin_sweep(sweep, floor))
			return true;
	}
	return false;
}

/*
 * A message is below the floor: claims begin there from now on.  False if
 * somebody else has seen to that.
 */
bool
pgqrs_floor_sweep_found(PgqrsFloorSweep *sweep, PgqrsFloorKey key)
{
	PgqrsFloor *floor = sweep->floor;
	bool lower;

	SpinLockAcquire(&floor->mutex);
	lower = floor->epoch == sweep->epoch &&
		pgqrs_floor_compare(key, floor->key) < 0;
	if (lower)
	{
		floor->key = key;
		floor->generation++;
		floor->lowered++;
	}
	SpinLockRelease(&floor->mutex);
	return lower;
}

/* Enough was looked at: another sweep goes on at the key. */
void
pgqrs_floor_sweep_pause(PgqrsFloorSweep *sweep, PgqrsFloorKey key)
{
	PgqrsFloor *floor = sweep->floor;

	SpinLockAcquire(&floor->mutex);
	floor->swept = key;
	SpinLockRelease(&floor->mutex);
}

/* Another sweep begins where this one got to. */
void
pgqrs_floor_sweep_end(PgqrsFloorSweep *sweep)
{
	if (sweep->visited > 0 && !sweep->looks_only)
		pg_atomic_write_u32(&shared->sweep_at, sweep->next);
}

/* False where the library is not preloaded: nothing is shared then. */
bool
pgqrs_floor_get_stats(PgqrsFloorStats *stats)
{
	memset(stats, 0, sizeof(*stats));
	if (shared == NULL)
		return false;
	stats->max_floors = shared->max_floors;
	for (int i = 0; i < shared->max_floors; i++)
	{
		PgqrsFloor *floor = &shared->floors[i];

		if (!is_used(floor))
			continue;
		stats->floors++;
		if (floor->db != MyDatabaseId)
			continue;
		SpinLockAcquire(&floor->mutex);
		stats->raised += floor->raised;
		stats->lowered += floor->lowered;
		stats->looked += floor->looked;
		stats->claimed += floor->claimed;
		SpinLockRelease(&floor->mutex);
	}
	return true;
}

/*
 * The transaction has ended, visibly to every snapshot from here on, or is
 * prepared and its key parked.
 */
void
pgqrs_floor_end(void)
{
	bool written = modified;

	modified = modified_before = false;
	if (!written || shared == NULL)
		return;
	pg_atomic_write_u64(&my_published()->key, 0);
	widen();
}
