/*
 * published_keys.c
 *	  Published keys: ranges of the keys that open and prepared transactions may
 *	  have written, which cap the floors of claims.
 *
 * Runs in every backend that writes messages.  Each backend alone writes the
 * keys that it publishes, and scans read them without a lock, in the order that
 * claim_floor.c explains.  The lock guards the prepared transactions.
 */
#include "shmem/published_keys.h"

#include "access/transam.h"
#include "access/twophase.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "base/clock.h"
#include "base/compat.h"
#include "base/errors.h"
#include "base/inject.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "shmem/xact_wakeups.h"
#include "storage/lwlock.h"
#include "storage/procarray.h"
#include "storage/shmem.h"

/*
 * Ranges of keys that a transaction publishes, and how many of them belong to
 * one queue each; further keys are published for any queue.  Each queue has two
 * ranges: its keys are near the present or, for leases and delays, far from it.
 */
#define RANGES		 16
#define QUEUE_RANGES 14
#define PER_QUEUE	 2

/* Keys closer than this share a range. */
#define NEAR PGQRS_KEYS_NEAR

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
} Published;

typedef union PaddedPublished
{
	Published p;
	char pad[TYPEALIGN(PG_CACHE_LINE_SIZE, sizeof(Published))];
} PaddedPublished;

/* Keys of a prepared transaction; guarded by the lock. */
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

typedef struct PublishedKeys
{
	LWLock *lock;
	pg_atomic_uint32 backends;		 /* backends that may have published keys */
	pg_atomic_uint32 prepared_count; /* entries of prepared in use */
	bool prepared_known;			 /* guarded by lock; only ever set */
	int max_prepared;
	PaddedPublished *published; /* by backend number */
	PreparedXact *prepared;
} PublishedKeys;

/* A search for the keys that may be pending in a queue. */
typedef struct PendingRead
{
	int64 queue_id;
	uint32 epoch;
	PgqrsPendingCallback add;
	void *arg;
} PendingRead;

static PublishedKeys *shared = NULL;

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

/* Size of the arrays behind PublishedKeys. */
static Size
arrays_size(void)
{
	return add_size(add_size(PG_CACHE_LINE_SIZE, published_size()),
					prepared_size());
}

static void
init_published_keys(Published *published)
{
	pg_atomic_init_u64(&published->opening, 0);
	pg_atomic_init_u64(&published->opening_queue, PGQRS_ANY_QUEUE);
	pg_atomic_init_u32(&published->count, 0);
	for (int i = 0; i < RANGES; i++)
	{
		pg_atomic_init_u64(&published->ranges[i].queue_id, PGQRS_ANY_QUEUE);
		pg_atomic_init_u64(&published->ranges[i].from, 0);
		pg_atomic_init_u64(&published->ranges[i].to, 0);
	}
}

static void
init_module(LWLockPadded *locks)
{
	char *p;

	shared->lock = &locks->lock;
	pg_atomic_init_u32(&shared->backends, 0);
	pg_atomic_init_u32(&shared->prepared_count, 0);
	shared->prepared_known = max_prepared_xacts == 0;
	shared->max_prepared = max_prepared();

	p = (char *) CACHELINEALIGN((char *) shared + MAXALIGN(sizeof(PublishedKeys)));
	shared->published = (PaddedPublished *) p;
	p += published_size();
	shared->prepared = (PreparedXact *) p;
	for (int i = 0; i <= MaxBackends; i++)
		init_published_keys(&shared->published[i].p);
}

const PgqrsShmemModule pgqrs_published_keys_shmem = {
	.name = "pgqrs published keys",
	.size = MAXALIGN(sizeof(PublishedKeys)),
	.more = arrays_size,
	.locks = 1,
	.area = (void **) &shared,
	.init = init_module,
};

/*
 * Publishing
 */

static Published *
my_published(void)
{
	return &shared->published[pgqrs_backend_number()].p;
}

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
	int max = queue_id == PGQRS_ANY_QUEUE ? RANGES : QUEUE_RANGES;
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
		(void) publish_key_for(mine, PGQRS_ANY_QUEUE, key);
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

/*
 * Reads the clock for a key of the queue and publishes the key: the reading plus
 * the delay, in microseconds, or not_before if that is later.
 */
TimestampTz
pgqrs_publish_clock(int64 queue_id, int64 delay, TimestampTz not_before)
{
	Published *mine = my_published();
	TimestampTz reading;

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

void
pgqrs_publish_key(int64 queue_id, TimestampTz key)
{
	begin_publishing(my_published());
	publish_key(my_published(), queue_id, key);
}

/* Whether the transaction has published the key. */
bool
pgqrs_key_is_published(int64 queue_id, TimestampTz key)
{
	Published *mine = my_published();
	int count = publishing ? pg_atomic_read_u32(&mine->count) : 0;

	for (int i = 0; i < count; i++)
	{
		Range *range = &mine->ranges[i];
		int64 queue = pg_atomic_read_u64(&range->queue_id);

		if ((queue == queue_id || queue == PGQRS_ANY_QUEUE) &&
			range_distance(range, key) == 0)
			return true;
	}
	return false;
}

/*
 * The transaction has ended, visibly to every snapshot from here on, or its
 * keys are recorded as prepared.
 */
void
pgqrs_published_end(void)
{
	if (!publishing)
		return;
	publishing = false;
	pg_atomic_write_u32(&my_published()->count, 0);
	pg_atomic_write_u64(&my_published()->opening, 0);
	inject_delay();
}

/*
 * Prepared transactions
 */

/* A free entry for a prepared transaction; the lock is held. */
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
	add_prepared_range(prepared, PGQRS_ANY_QUEUE, DT_NOBEGIN, DT_NOEND);
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
pgqrs_published_pre_prepare(void)
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
								   PGQRS_ANY_QUEUE, DT_NOBEGIN, DT_NOEND);
		shared->prepared_known = true;
	}
	LWLockRelease(shared->lock);
	for (int i = 0; i < count && !known; i++)
		pgqrs_xact_wakeups_prepared_before(xids[i], dbs[i]);
	pfree(dbs);
	pfree(xids);
}

bool
pgqrs_published_knows_prepared(void)
{
	return shared != NULL && shared->prepared_known;
}

void
pgqrs_published_learn_prepared(void)
{
	if (shared != NULL && !shared->prepared_known && !RecoveryInProgress())
		read_prepared();
}

/*
 * Pending keys
 */

/*
 * Reads the keys that another backend has published.  Its ranges are read after
 * its opening key, which becomes part of a range.
 */
static void
read_published(const PendingRead *read, Published *other)
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
	same_epoch = other->epoch == read->epoch;
	if (opening != 0 && queue == read->queue_id)
		read->add(read->arg, same_epoch ? opening : DT_NOBEGIN, DT_NOEND);
	for (int i = 0; i < count; i++)
	{
		Range *range = &other->ranges[i];

		queue = pg_atomic_read_u64(&range->queue_id);
		if (queue == read->queue_id || queue == PGQRS_ANY_QUEUE)
			read->add(read->arg, same_epoch ? range_from(range) : DT_NOBEGIN,
					  same_epoch ? range_to(range) : DT_NOEND);
	}
}

static void
read_prepared_keys(const PendingRead *read, const PreparedXact *prepared)
{
	bool same_epoch = prepared->epoch == read->epoch;

	if (!TransactionIdIsValid(prepared->xid) || prepared->db != MyDatabaseId)
		return;
	for (int i = 0; i < prepared->count; i++)
	{
		const PreparedRange *range = &prepared->ranges[i];

		if (range->queue_id == read->queue_id || range->queue_id == PGQRS_ANY_QUEUE)
			read->add(read->arg, same_epoch ? range->from : DT_NOBEGIN,
					  same_epoch ? range->to : DT_NOEND);
	}
}

void
pgqrs_published_read(int64 queue_id, uint32 epoch, PgqrsPendingCallback add,
					 void *arg)
{
	PendingRead read = {queue_id, epoch, add, arg};
	uint32 backends = pg_atomic_read_u32(&shared->backends);

	for (uint32 i = 0; i < backends; i++)
		read_published(&read, &shared->published[i].p);

	/*
	 * keys are recorded before they are withdrawn, so they are read here last
	 */
	pg_read_barrier();
	if (pg_atomic_read_u32(&shared->prepared_count) > 0)
	{
		LWLockAcquire(shared->lock, LW_EXCLUSIVE);
		forget_ended_prepared();
		for (int i = 0; i < shared->max_prepared; i++)
			read_prepared_keys(&read, &shared->prepared[i]);
		LWLockRelease(shared->lock);
	}
}
