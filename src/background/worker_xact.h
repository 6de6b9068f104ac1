/*
 * worker_xact.h
 *	  Transactions of a background worker.
 */
#ifndef PGQRS_WORKER_XACT_H
#define PGQRS_WORKER_XACT_H

#include "postgres.h"

/*
 * Begins a transaction with a snapshot and the privileges of the extension's
 * owner.  activity: "query" in pg_stat_activity.  False, without a transaction, if
 * the database has no extension to serve.
 */
extern bool pgqrs_worker_xact_begin(const char *activity);
extern void pgqrs_worker_xact_end(void);

#endif /* PGQRS_WORKER_XACT_H */
