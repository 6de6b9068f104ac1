/*
 * worker_xact.h
 *	  The transaction in which a background worker does something.
 */
#ifndef PGQRS_WORKER_XACT_H
#define PGQRS_WORKER_XACT_H

#include "postgres.h"

/*
 * Begins one, with a snapshot and the rights of the extension's owner; activity:
 * what is shown of it.  False: there is nothing to work on, and no transaction.
 */
extern bool pgqrs_worker_xact_begin(const char *activity);
extern void pgqrs_worker_xact_end(void);

#endif /* PGQRS_WORKER_XACT_H */
