/*
 * priority_scan.h
 *	  Priority scan: the priorities of a queue that have messages, from high to low.
 */
#ifndef PGQRS_PRIORITY_SCAN_H
#define PGQRS_PRIORITY_SCAN_H

#include "postgres.h"
#include "store/scan.h"


typedef struct PgqrsPriorityScan
{
	PgqrsScan scan; /* at the first entry of the priority, dead or not */
	int last;		/* the priority returned last */
	bool at_start;
} PgqrsPriorityScan;

/* Both bounds are included. */
extern void pgqrs_priority_scan_begin(PgqrsPriorityScan *priorities,
									  PgqrsTable *messages, int64 queue_id,
									  int high, int low);
extern bool pgqrs_priority_scan_next(PgqrsPriorityScan *priorities, int *priority);
extern void pgqrs_priority_scan_end(PgqrsPriorityScan *priorities);

#endif /* PGQRS_PRIORITY_SCAN_H */
