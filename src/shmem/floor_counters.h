/*
 * floor_counters.h
 *	  Counts of the floors of each database since the start of the server.
 */
#ifndef PGQRS_FLOOR_COUNTERS_H
#define PGQRS_FLOOR_COUNTERS_H

#include "postgres.h"

#include "base/shmem_module.h"

typedef struct PgqrsFloorCounts
{
	int64 claimed; /* messages claimed */
	int64 looked;  /* index entries that these claims read */
	int64 raised;  /* floors raised by claims */
	int64 lowered; /* floors lowered by sweeps */
} PgqrsFloorCounts;

extern const PgqrsShmemModule pgqrs_floor_counters_shmem;

/* Called only where the library is preloaded. */
extern void pgqrs_floor_count_scan(int claimed, int looked);
extern void pgqrs_floor_count_raised(void);
extern void pgqrs_floor_count_lowered(void);

/* The counts of the current database. */
extern void pgqrs_floor_counters_sum(PgqrsFloorCounts *counts);

/* The database is gone, or its extension. */
extern void pgqrs_floor_counters_forget(Oid db);

#endif /* PGQRS_FLOOR_COUNTERS_H */
