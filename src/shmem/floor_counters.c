/*
 * floor_counters.c
 *	  Counts of the floors of each database since the start of the server:
 *	  messages claimed, index entries read, floors raised and lowered.
 *
 * Each backend alone writes its counts; the lock guards the counts of backends
 * that have ended, by database.
 */
#include "shmem/floor_counters.h"

#include "base/compat.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "shmem/database_registry.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

typedef struct Counters
{
	Oid db;
	pg_atomic_uint64 claimed;
	pg_atomic_uint64 looked;
	pg_atomic_uint64 raised;
	pg_atomic_uint64 lowered;
} Counters;

typedef union PaddedCounters
{
	Counters c;
	char pad[TYPEALIGN(PG_CACHE_LINE_SIZE, sizeof(Counters))];
} PaddedCounters;

typedef struct FloorCounters
{
	LWLock *lock;
	Counters ended[PGQRS_MAX_DATABASES]; /* of backends; guarded by lock */
	PaddedCounters *backends;			 /* by backend number */
} FloorCounters;

static FloorCounters *shared = NULL;

/* Size of the arrays behind FloorCounters. */
static Size
backends_size(void)
{
	return add_size(PG_CACHE_LINE_SIZE,
					mul_size(MaxBackends + 1, sizeof(PaddedCounters)));
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
init_floor_counters(LWLockPadded *locks)
{
	shared->lock = &locks->lock;
	shared->backends = (PaddedCounters *) CACHELINEALIGN(
		(char *) shared + MAXALIGN(sizeof(FloorCounters)));
	for (int i = 0; i < PGQRS_MAX_DATABASES; i++)
		init_counters(&shared->ended[i]);
	for (int i = 0; i <= MaxBackends; i++)
		init_counters(&shared->backends[i].c);
}

const PgqrsShmemModule pgqrs_floor_counters_shmem = {
	.name = "pgqrs floor counters",
	.size = MAXALIGN(sizeof(FloorCounters)),
	.more = backends_size,
	.locks = 1,
	.area = (void **) &shared,
	.init = init_floor_counters,
};

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
		Counters *other = &shared->ended[i];

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

static Counters *
my_counters(void)
{
	Counters *mine = &shared->backends[pgqrs_backend_number()].c;

	if (mine->db != MyDatabaseId)
		take_over_counters(mine);
	return mine;
}

void
pgqrs_floor_count_scan(int claimed, int looked)
{
	Counters *counters = my_counters();

	add_count(&counters->claimed, claimed);
	add_count(&counters->looked, looked);
}

void
pgqrs_floor_count_raised(void)
{
	add_count(&my_counters()->raised, 1);
}

void
pgqrs_floor_count_lowered(void)
{
	add_count(&my_counters()->lowered, 1);
}

void
pgqrs_floor_counters_forget(Oid db)
{
	if (shared == NULL)
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < PGQRS_MAX_DATABASES; i++)
		if (shared->ended[i].db == db)
		{
			shared->ended[i].db = InvalidOid;
			init_counters(&shared->ended[i]);
		}
	LWLockRelease(shared->lock);
}

void
pgqrs_floor_counters_sum(PgqrsFloorCounts *counts)
{
	Counters sum;

	init_counters(&sum);
	LWLockAcquire(shared->lock, LW_SHARED);
	for (int i = 0; i < PGQRS_MAX_DATABASES; i++)
		if (shared->ended[i].db == MyDatabaseId)
			add_counters(&sum, &shared->ended[i]);
	for (int i = 0; i <= MaxBackends; i++)
		if (shared->backends[i].c.db == MyDatabaseId)
			add_counters(&sum, &shared->backends[i].c);
	LWLockRelease(shared->lock);
	counts->claimed = pg_atomic_read_u64(&sum.claimed);
	counts->looked = pg_atomic_read_u64(&sum.looked);
	counts->raised = pg_atomic_read_u64(&sum.raised);
	counts->lowered = pg_atomic_read_u64(&sum.lowered);
}
