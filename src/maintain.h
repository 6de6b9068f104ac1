/*
 * maintain.h
 *	  What has to happen though nobody calls for it.
 */
#ifndef PGQRS_MAINTAIN_H
#define PGQRS_MAINTAIN_H

#include "postgres.h"

/* What one pass did. */
typedef struct PgqrsMaintained
{
	int workers_stopped; /* silent ones */
	int leases_reaped;	 /* of stopped workers, claimable again */
	int messages_dead;	 /* used up, runs included */
	int runs_cancelled;	 /* on request, when the lease ran out */
	int runs_timed_out;
	int floors_lowered; /* below which messages were found */
} PgqrsMaintained;

/* One bounded pass; who calls again soon enough leaves nothing undone. */
extern void pgqrs_maintain_pass(PgqrsMaintained *done);

#endif /* PGQRS_MAINTAIN_H */
