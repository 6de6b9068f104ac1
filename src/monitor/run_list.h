/*
 * run_list.h
 *	  Run lists: runs, steps and waiting messages, for roles with a privilege
 *	  on them.
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
	const char *workflow; /* pattern; NULL: every workflow */
	int status;			  /* PgqrsRunStatus; -1: any */
	NullableDatum tags;	  /* tags that a run must contain */
	int64 before;		  /* only ids less than this */
	int page_size;
} PgqrsRunFilter;

/*
 * One row of the SQL function of that name, described by desc.  PQ003 if the
 * run is unknown to the current role.
 */
extern HeapTuple pgqrs_read_run(int64 run_id, TupleDesc desc);
extern HeapTuple pgqrs_read_result(int64 run_id, TupleDesc desc);

/*
 * The place of the run that has ended first, -1: none has.  PQ003 if one of the
 * runs is unknown to the current role.
 */
extern int pgqrs_read_first_ended(const int64 *run_ids, int count);

/*
 * The crashes of a run, as visible to the caller's query; false if the run is
 * unknown to the current role.
 */
extern bool pgqrs_read_crashes(int64 run_id, int *crashes);

/* The run with an idempotency key, or 0. */
extern int64 pgqrs_read_find_run(const char *name, const char *key);

/* The rows of a set-returning function, stored in store. */
extern void pgqrs_read_runs(const PgqrsRunFilter *filter,
							Tuplestorestate *store, TupleDesc desc);
extern void pgqrs_read_steps(int64 run_id, Tuplestorestate *store, TupleDesc desc);
extern void pgqrs_read_peek(const char *name, int n, Tuplestorestate *store,
							TupleDesc desc);

#endif /* PGQRS_RUN_LIST_H */
