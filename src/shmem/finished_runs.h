/*
 * finished_runs.h
 *	  Runs of which the background worker has to tell, in shared memory.
 *
 * Does nothing where the library is not preloaded.
 */
#ifndef PGQRS_FINISHED_RUNS_H
#define PGQRS_FINISHED_RUNS_H

#include "postgres.h"

#include "base/shmem_module.h"
#include "datatype/timestamp.h"

/* In place of a status: the run may be parked and has to be looked at. */
#define ENDED_PARKED (-1)

/* What became of a run. */
typedef struct PgqrsEnded
{
	int64 run_id;
	TimestampTz at; /* about when, or earlier */
	int status;		/* PgqrsRunStatus, or ENDED_PARKED */
} PgqrsEnded;

/*
 * Runs of which there were too many to remember each: those with an id from
 * first on, fewer than PGQRS_ENDED_BLOCK, of which some changed after since.
 */
typedef struct PgqrsEndedBlock
{
	int64 first;
	TimestampTz since;
} PgqrsEndedBlock;

#define PGQRS_ENDED_BLOCK 1024

extern const PgqrsShmemModule pgqrs_ended_shmem;

/* Of the current database; raises no error. */
extern void pgqrs_ended_add(const PgqrsEnded *runs, int count);
extern void pgqrs_ended_add_block(PgqrsEndedBlock block);

/* Runs ended of which nothing is known. */
extern void pgqrs_ended_lose(void);

/* For the launcher: the database was dropped, or has to do without an entry. */
extern void pgqrs_ended_forget_database(Oid db);

/* Up to max of the current database, oldest first, which are forgotten here. */
extern int pgqrs_ended_take(PgqrsEnded *runs, int max);
extern int pgqrs_ended_take_blocks(PgqrsEndedBlock *blocks, int max);

/* Whether even blocks were too many since the last call. */
extern bool pgqrs_ended_take_lost(void);

#endif /* PGQRS_FINISHED_RUNS_H */
