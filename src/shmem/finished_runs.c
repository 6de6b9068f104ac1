/*
 * finished_runs.c
 *	  Runs of which the background worker has to tell, in shared memory.
 *
 * A ring of the last runs that ended, of all databases.  Backends add to it at
 * the end of their transactions, the worker of each database takes what is its
 * own.  What is overwritten before that is remembered by block: 1024 ids, in
 * which the worker then looks for runs that ended.  So however long it was
 * away, it reads what is about as new as that, and never the whole history.
 *
 * Of what is lost even so, only the database is known: its worker says so, and
 * looks at all parked runs.
 *
 * All is guarded by one lock, held for a short walk over the ring at most.
 */
#include "shmem/finished_runs.h"

#include "miscadmin.h"
#include "port/atomics.h"
#include "shmem/database_registry.h"
#include "storage/lwlock.h"

#define RING   8192
#define BLOCKS 1024

typedef struct Place
{
	Oid db; /* or invalid: taken */
	PgqrsEnded run;
} Place;

typedef struct Block
{
	Oid db;
	PgqrsEndedBlock block;
} Block;

typedef struct Ended
{
	LWLock *lock;
	uint64 head; /* so many were added so far */
	int blocks;
	Oid lost; /* a database of which a block was lost; the last one */
	Place ring[RING];
	Block block[BLOCKS];
} Ended;

static Ended *shared = NULL;

/* How far this worker has come. */
static uint64 taken = 0;

static void
init_ended(LWLock *lock)
{
	shared->lock = lock;
}

const PgqrsShmemModule pgqrs_ended_shmem = {
	.name = "pgqrs ended runs",
	.size = sizeof(Ended),
	.has_lock = true,
	.area = (void **) &shared,
	.init = init_ended,
};

/*
 * One database can be noted.  The worker of the one that was noted before is
 * told at once to look at all of its parked runs.
 */
static void
lose(Oid db)
{
	if (OidIsValid(shared->lost) && shared->lost != db)
		pgqrs_database_poke_other(shared->lost, DUE_PARKED);
	shared->lost = db;
}

/* The lock is held. */
static void
add_block(Oid db, PgqrsEndedBlock block)
{
	int ours = 0;

	for (int i = shared->blocks - 1; i >= 0; i--)
	{
		Block *b = &shared->block[i];

		if (b->db != db)
			continue;
		if (b->block.first == block.first)
		{
			b->block.since = Min(b->block.since, block.since);
			return;
		}
		ours++;
	}
	/* nobody may come for them, so others keep some room */
	if (shared->blocks == BLOCKS || ours == BLOCKS / 2)
	{
		lose(db);
		return;
	}
	shared->block[shared->blocks].db = db;
	shared->block[shared->blocks++].block = block;
}

static PgqrsEndedBlock
block_of(const PgqrsEnded *run)
{
	PgqrsEndedBlock block = {
		.first = run->run_id - run->run_id % PGQRS_ENDED_BLOCK,
		.since = run->at,
	};

	return block;
}

void
pgqrs_ended_add(const PgqrsEnded *runs, int count)
{
	if (shared == NULL)
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < count; i++)
	{
		Place *place = &shared->ring[shared->head++ % RING];

		if (OidIsValid(place->db))
			add_block(place->db, block_of(&place->run));
		place->db = MyDatabaseId;
		place->run = runs[i];
	}
	LWLockRelease(shared->lock);
}

void
pgqrs_ended_add_block(PgqrsEndedBlock block)
{
	if (shared == NULL)
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	add_block(MyDatabaseId, block);
	LWLockRelease(shared->lock);
}

void
pgqrs_ended_lose(void)
{
	if (shared == NULL)
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	lose(MyDatabaseId);
	LWLockRelease(shared->lock);
}

void
pgqrs_ended_forget_database(Oid db)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	for (int i = shared->blocks - 1; i >= 0; i--)
		if (shared->block[i].db == db)
			shared->block[i] = shared->block[--shared->blocks];
	for (int i = 0; i < RING; i++)
		if (shared->ring[i].db == db)
			shared->ring[i].db = InvalidOid;
	LWLockRelease(shared->lock);
}

int
pgqrs_ended_take(PgqrsEnded *runs, int max)
{
	int count = 0;

	if (shared == NULL)
		return 0;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (shared->head > RING)
		taken = Max(taken, shared->head - RING);
	for (; taken < shared->head && count < max; taken++)
	{
		Place *place = &shared->ring[taken % RING];

		if (place->db != MyDatabaseId)
			continue;
		runs[count++] = place->run;
		place->db = InvalidOid;
	}
	LWLockRelease(shared->lock);
	return count;
}

int
pgqrs_ended_take_blocks(PgqrsEndedBlock *blocks, int max)
{
	int count = 0;

	if (shared == NULL)
		return 0;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < shared->blocks && count < max;)
	{
		if (shared->block[i].db != MyDatabaseId)
		{
			i++;
			continue;
		}
		blocks[count++] = shared->block[i].block;
		shared->block[i] = shared->block[--shared->blocks];
	}
	LWLockRelease(shared->lock);
	return count;
}

bool
pgqrs_ended_take_lost(void)
{
	bool lost;

	if (shared == NULL)
		return false;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	lost = shared->lost == MyDatabaseId;
	if (lost)
		shared->lost = InvalidOid;
	LWLockRelease(shared->lock);
	return lost;
}
