/*
 * floor_sweep.h
 *	  The search for messages that claims would not find.
 */
#ifndef PGQRS_FLOOR_SWEEP_H
#define PGQRS_FLOOR_SWEEP_H

#include "postgres.h"

#include "access/tupdesc.h"
#include "utils/tuplestore.h"

/*
 * Looks at up to that many index entries below the floors; how many floors
 * were lowered.
 */
extern int pgqrs_floor_sweep_run(int max_entries);

/* The ids of all messages below the floors, which stay where they are. */
extern void pgqrs_floor_sweep_list(Tuplestorestate *store, TupleDesc desc);

#endif /* PGQRS_FLOOR_SWEEP_H */
