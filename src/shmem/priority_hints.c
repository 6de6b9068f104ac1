/*
 * priority_hints.c
 *	  Priority hints: queues without messages above the usual priority.
 *
 * Most queues have none, and yet every claim would have to look there first.  A
 * backend remembers a scan that found no index entry above the usual priority,
 * dead or alive, together with a count of the transactions that have written
 * such messages to the queue.  While the count stays the same, the next scan
 * would find none either.
 *
 * The count is read before the scan begins.  A transaction is counted after its
 * last entry was written and before other transactions can see its rows, that
 * is before it commits or is prepared; entries that a callback of another
 * library writes even later are counted immediately afterwards.  So an entry
 * that the scan did not find was written after the count was read, and is
 * counted before its row can be claimed.  The transaction itself sees its rows
 * earlier, and scans until its end.
 *
 * A rollback can bring back entries that the transaction could not see, those
 * of a truncated table: rollback and PREPARE remove all hints of their session.
 * So does every change of the table's relation, such as a change of the trigger
 * that reports direct DML, and each floor sweep (floor_sweep.c).
 *
 * Runs in every backend that writes or claims messages.  Only the counters are
 * in shared memory.
 */
#include "shmem/priority_hints.h"

#include "base/catalog.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "port/atomics.h"

/*
 * Queues that share a counter cost each other extra scans, no more.  A
 * transaction keeps the counters to be incremented as the bits of an integer.
 */
#define COUNTERS 64

typedef union Counter
{
	pg_atomic_uint64 count;
	char pad[PG_CACHE_LINE_SIZE];
} Counter;

/* A queue of this database without entries above the usual priority. */
typedef struct EmptyLevels
{
	bool known;
	int64 queue_id;
	uint64 count;
	uint64 generation; /* relcache generation of the table */
} EmptyLevels;

static Counter *shared = NULL;
static EmptyLevels empty_levels[COUNTERS]; /* one per counter */
static uint64 written_counters = 0; /* counters to be incremented by the transaction */
static uint64 incremented_counters = 0; /* counters already incremented */

static void
init_counters(LWLockPadded *locks)
{
	for (int i = 0; i < COUNTERS; i++)
		pg_atomic_init_u64(&shared[i].count, 0);
}

const PgqrsShmemModule pgqrs_priority_hints_shmem = {
	.name = "pgqrs priority hints",
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
		written_counters |= UINT64CONST(1) << counter_of(queue_id);
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
	return empty_levels[at].known && empty_levels[at].queue_id == queue_id &&
		empty_levels[at].count == *count &&
		empty_levels[at].generation == pgqrs_catalog_generation(TABLE_MESSAGES) &&
		(written_counters & UINT64CONST(1) << at) == 0;
}

void
pgqrs_queue_record_no_urgent(int64 queue_id, uint64 count)
{
	if (shared != NULL)
		empty_levels[counter_of(queue_id)] = (EmptyLevels){true, queue_id, count,
														   pgqrs_catalog_generation(
															   TABLE_MESSAGES)};
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
	memset(empty_levels, 0, sizeof(empty_levels));
}

static void
increment_counters(uint64 counters)
{
	for (int i = 0; i < COUNTERS && shared != NULL && counters != 0; i++)
		if ((counters & UINT64CONST(1) << i) != 0)
			pg_atomic_fetch_add_u64(&shared[i].count, 1);
}

void
pgqrs_priority_hints_pre_end(void)
{
	increment_counters(written_counters);
	incremented_counters = written_counters;
}

void
pgqrs_priority_hints_end(void)
{
	increment_counters(written_counters & ~incremented_counters);
	written_counters = incremented_counters = 0;
}
