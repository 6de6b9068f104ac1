/*
 * sweep.h
 *	  The search for messages that claims would not find.
 */
#ifndef PGQRS_SWEEP_H
#define PGQRS_SWEEP_H

#include "postgres.h"

/*
 * Looks at up to that many index entries below the floors; how many floors
 * were lowered.
 */
extern int pgqrs_sweep(int max_entries);

#endif /* PGQRS_SWEEP_H */
