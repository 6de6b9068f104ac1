/*
 * priority_hints.c
 *	  Which queues have nothing above the usual priority.
 *
 * Most have not, and yet every claim would have to look there first.  A search
 * that found not one index entry above, dead or alive, is remembered in its
 * session, together with a count of the transactions that had written such
 * messages to the queue.  While the count stays the same, the next search would
 * find none either.
 *
 * The count is read before the search begins.  A transaction is counted when its
 * last entry has been written and nobody else can see its rows yet, before it
 * commits or is prepared; what a callback of another library writes later than
 * that, at once after it.  So an entry that the search did not find was written
 * after the count was read, and is counted before its row can be claimed.  The
 * transaction itself sees its rows earlier, and searches until its end.
 *
 * A rollback may bring entries back that the transaction could not see, those
 * of a truncated table: rollback and PREPARE take all that their session
 * remembers.  So does whatever changes the table's relation, such as the trigger
 * that tells of rows that are written by hand, and each sweep (floor_sweep.c).
 *
 * Runs in every backend that writes or claims messages.  The counters alone are
 * in shared memory.
 */
#include "shmem/priority_hints.h"

#include "base/catalog.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "port/atomics.h"

/*
 * Queues that share a counter cost each other searches, no more.  The counters
 * that a transaction has to count in are the bits of an integer.
 */
#define COUNTERS 64

typedef union Counter
{
	pg_atomic_uint64 count;
	char pad[PG_CACHE_LINE_SIZE];
} Counter;

/* A queue of this database without entries above. */
typedef struct None
{
	bool known;
	int64 queue_id;
	uint64 count;
	uint64 generation; /* of the table */
} None;

static Counter *shared = NULL;
static None none[COUNTERS]; /* each by its counter */
static uint64 written = 0;	/* what the transaction has to count in, */
static uint64 counted = 0;	/* and has */

static void
init_counters(LWLockPadded *locks)
{
	for (int i = 0; i < COUNTERS; i++)
		pg_atomic_init_u64(&shared[i].count, 0);
}

const PgqrsShmemModule pgqrs_priority_hints_shmem = {
	.name = "pgqrs priority levels",
	.size = COUNTERS * sizeof(Counter),
	.area = (void **) &shared,
	.init = init_counters,
};

static int
counter_of(int64 queue_id)
{
	return hash_combine(murmurhash32(MyDatabaseId),
						murmurhash32((uint32) queue_id)) %
		COUNTERS;
}

void
pgqrs_priority_hints_written(int64 queue_id, int16 priority)
{
	if (priority > PGQRS_USUAL_PRIORITY)
		written |= UINT64CONST(1) << counter_of(queue_id);
}

bool
pgqrs_queue_has_no_urgent(int64 queue_id, uint64 *count)
{
	int at = counter_of(queue_id);

	*count = 0;
	if (shared == NULL)
		return false;
	*count = pg_atomic_read_u64(&shared[at].count);
	pg_memory_barrier();
	return none[at].known && none[at].queue_id == queue_id &&
		none[at].count == *count &&
		none[at].generation == pgqrs_catalog_generation(TABLE_MESSAGES) &&
		(written & UINT64CONST(1) << at) == 0;
}

void
pgqrs_queue_record_no_urgent(int64 queue_id, uint64 count)
{
	if (shared != NULL)
		none[counter_of(queue_id)] = (None){true, queue_id, count,
											pgqrs_catalog_generation(TABLE_MESSAGES)};
}

void
pgqrs_priority_hints_forget_all(void)
{
	for (int i = 0; i < COUNTERS && shared != NULL; i++)
		pg_atomic_fetch_add_u64(&shared[i].count, 1);
}

void
pgqrs_priority_hints_forget(void)
{
	memset(none, 0, sizeof(none));
}

static void
count_in(uint64 counters)
{
	for (int i = 0; i < COUNTERS && shared != NULL && counters != 0; i++)
		if ((counters & UINT64CONST(1) << i) != 0)
			pg_atomic_fetch_add_u64(&shared[i].count, 1);
}

void
pgqrs_priority_hints_pre_end(void)
{
	count_in(written);
	counted = written;
}

void
pgqrs_priority_hints_end(void)
{
	count_in(written & ~counted);
	written = counted = 0;
}
