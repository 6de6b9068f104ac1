/*
 * floor_sweep.h
 *	  Floor sweep: the search for messages below the floors of claims.
 */
#ifndef PGQRS_FLOOR_SWEEP_H
#define PGQRS_FLOOR_SWEEP_H

#include "postgres.h"

#include "access/tupdesc.h"
#include "utils/tuplestore.h"

/*
 * Scans up to that many index entries below the floors; returns the number of
 * floors that were lowered.
 */
extern int pgqrs_floor_sweep_run(int max_entries);

/* Lists the ids of all messages below the floors, without lowering a floor. */
extern void pgqrs_floor_sweep_list(Tuplestorestate *store, TupleDesc desc);

#endif /* PGQRS_FLOOR_SWEEP_H */
