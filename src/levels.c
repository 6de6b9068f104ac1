/*
 * levels.c
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
 * commits or is prepared.  So an entry that the search did not find was written
 * after the count was read, and is counted before its row can be claimed.  The
 * transaction itself sees its rows earlier, and searches until its end.
 *
 * A rollback may bring entries back that the transaction could not see, those
 * of a truncated table: it takes all that its session remembers.
 *
 * Runs in every backend that writes or claims messages.  The counters alone are
 * in shared memory.
 */
#include "levels.h"

#include "common/hashfn.h"
#include "compat.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/shmem.h"

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

/* A queue of this database without entries above, by counter. */
typedef struct None
{
	int64 queue_id; /* or 0: nothing is known */
	uint64 count;
} None;

static Counter *shared = NULL;
static None none[COUNTERS];
static uint64 written = 0;

Size
pgqrs_levels_shmem_size(void)
{
	return COUNTERS * sizeof(Counter) + PG_CACHE_LINE_SIZE;
}

/* Called by the postmaster, with AddinShmemInitLock held. */
void
pgqrs_levels_shmem_init(void)
{
	bool found;
	void *p = ShmemInitStruct("pgqrs priority levels",
							  pgqrs_levels_shmem_size(), &found);

	shared = (Counter *) CACHELINEALIGN(p);
	for (int i = 0; i < COUNTERS && !found; i++)
		pg_atomic_init_u64(&shared[i].count, 0);
}

static int
counter_of(int64 queue_id)
{
	return hash_combine(murmurhash32(MyDatabaseId),
						murmurhash32((uint32) queue_id)) %
		COUNTERS;
}

void
pgqrs_levels_written(int64 queue_id, int16 priority)
{
	if (priority > PGQRS_USUAL_PRIORITY)
		written |= UINT64CONST(1) << counter_of(queue_id);
}

bool
pgqrs_levels_none_above(int64 queue_id, uint64 *count)
{
	int at = counter_of(queue_id);

	*count = 0;
	if (shared == NULL)
		return false;
	*count = pg_atomic_read_u64(&shared[at].count);
	pg_memory_barrier();
	return none[at].queue_id == queue_id && none[at].count == *count &&
		(written & UINT64CONST(1) << at) == 0;
}

void
pgqrs_levels_note_none(int64 queue_id, uint64 count)
{
	if (shared != NULL)
		none[counter_of(queue_id)] = (None){queue_id, count};
}

void
pgqrs_levels_forget_all(void)
{
	for (int i = 0; i < COUNTERS && shared != NULL; i++)
		pg_atomic_fetch_add_u64(&shared[i].count, 1);
}

void
pgqrs_levels_forget(void)
{
	memset(none, 0, sizeof(none));
}

void
pgqrs_levels_pre_end(void)
{
	if (written == 0 || shared == NULL)
		return;
	for (int i = 0; i < COUNTERS; i++)
		if ((written & UINT64CONST(1) << i) != 0)
			pg_atomic_fetch_add_u64(&shared[i].count, 1);
}

void
pgqrs_levels_end(void)
{
	written = 0;
}
