/*
 * run_list.h
 *	  Runs, steps and waiting messages, for whoever has a privilege on them.
 */
#ifndef PGQRS_RUN_LIST_H
#define PGQRS_RUN_LIST_H

#include "postgres.h"

#include "access/htup.h"
#include "access/tupdesc.h"
#include "utils/tuplestore.h"

/* Which runs to list. */
typedef struct PgqrsRunFilter
{
	const char *workflow; /* a pattern, or NULL for every workflow */
	int status;			  /* a PgqrsRunStatus, or -1 for any */
	NullableDatum tags;	  /* what a run's tags must contain */
	int64 before;		  /* ids less than this */
	int page_size;
} PgqrsRunFilter;

/*
 * One row of the SQL function of that name, described by desc.  PQ003 if the
 * run is unknown to the current role.
 */
extern HeapTuple pgqrs_read_run(int64 run_id, TupleDesc desc);
extern HeapTuple pgqrs_read_result(int64 run_id, TupleDesc desc);

/*
 * The crashes of a run, as the caller's query sees them; false if the run is
 * unknown to the current role.
 */
extern bool pgqrs_read_crashes(int64 run_id, int *crashes);

/* The run that holds an idempotency key, or 0. */
extern int64 pgqrs_read_find_run(const char *workflow, const char *key);

/* The rows of a set-returning function, put into store. */
extern void pgqrs_read_runs(const PgqrsRunFilter *filter,
							Tuplestorestate *store, TupleDesc desc);
extern void pgqrs_read_steps(int64 run_id, Tuplestorestate *store, TupleDesc desc);
extern void pgqrs_read_peek(const char *queue, int n, Tuplestorestate *store,
							TupleDesc desc);

#endif /* PGQRS_RUN_LIST_H */
