/*
 * subxact.h
 *	  Subtransactions: work that can be undone by itself.
 */
#ifndef PGQRS_SUBXACT_H
#define PGQRS_SUBXACT_H

#include "postgres.h"

/*
 * Runs work in a subtransaction, which is rolled back if work returns false or
 * raises an error.  Returns the error, in the current memory context, or NULL.
 */
extern ErrorData *pgqrs_subtransaction(bool (*work)(void *arg), void *arg);

#endif /* PGQRS_SUBXACT_H */
