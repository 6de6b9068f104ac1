/*
 * next.h
 *	  Calls that end, start and claim work in one: pgqrs_next, pgqrs_start.
 */
#ifndef PGQRS_NEXT_H
#define PGQRS_NEXT_H

#include "postgres.h"

#include "delivery/claim.h"
#include "workflow/run_trigger.h"

/* Work that was done: messages to archive, runs to complete. */
typedef struct PgqrsDone
{
	int count;
	const int64 *ids;
	const int64 *leases;
	const int *order;			  /* ascending by id */
	const NullableDatum *outputs; /* of runs; NULL: none */
} PgqrsDone;

/* Receives an item that was refused, and why. */
typedef void (*PgqrsRefuse)(void *arg, int64 message_id, int sqlstate);

/*
 * Ends the items, in order of id, and claims.  Items that are refused change
 * nothing and are reported first, in the order of ids.  Other errors end the call.
 */
extern void pgqrs_next(const PgqrsDone *done, PgqrsRefuse refuse,
					   const PgqrsClaimRequest *request);

/*
 * Triggers a run and claims it; false: it was not claimed.  *run_id 0: on_duplicate
 * asked for no run.
 */
extern bool pgqrs_start(const char *workflow, PgqrsNewRun *r,
						const PgqrsClaimRequest *request, int64 *run_id);

#endif /* PGQRS_NEXT_H */
