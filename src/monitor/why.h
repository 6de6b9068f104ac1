/*
 * why.h
 *	  Why a queue delivers nothing: what keeps its messages from being claimed.
 */
#ifndef PGQRS_WHY_H
#define PGQRS_WHY_H

#include "postgres.h"

/* Called for each reason that is found, the most decisive ones first. */
typedef void (*PgqrsTellReason)(const char *reason, const char *detail,
								const char *hint, void *arg);

/*
 * Tells why no message of a queue is claimed, or that some are claimable.  PQ001
 * if the current role has no privilege on the queue.
 */
extern void pgqrs_why(const char *queue, PgqrsTellReason tell_reason, void *arg);

#endif /* PGQRS_WHY_H */
