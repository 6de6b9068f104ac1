/*
 * subxact.h
 *	  Doing something that can be undone by itself.
 */
#ifndef PGQRS_SUBXACT_H
#define PGQRS_SUBXACT_H

#include "postgres.h"

/*
 * Works in a subtransaction, which is undone if the work answers false or
 * fails.  Returns the error, in the current memory context, or NULL.
 */
extern ErrorData *pgqrs_subtransaction(bool (*work)(void *arg), void *arg);

#endif /* PGQRS_SUBXACT_H */
