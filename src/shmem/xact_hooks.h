/*
 * xact_hooks.h
 *	  Transaction hooks: requests and notes of a transaction, applied at its
 *	  end.
 */
#ifndef PGQRS_XACT_HOOKS_H
#define PGQRS_XACT_HOOKS_H

#include "postgres.h"

#include "base/shmem_module.h"
#include "datatype/timestamp.h"
#include "shmem/database_registry.h"

extern const PgqrsShmemModule pgqrs_xact_hooks_shmem;
extern void pgqrs_xact_hooks_init(void);

/* At the start of the server: whether it was shut down cleanly before. */
extern bool pgqrs_start_is_clean(void);

/*
 * Around a call that only claims: its loss in a crash equals a lease that ended
 * early, so the commit need not be flushed.
 */
extern void pgqrs_async_commit_begin(void);
extern void pgqrs_async_commit_end(void);

/* The call has changed more than leases: the commit is flushed as usual. */
extern void pgqrs_xact_require_sync_commit(void);

/*
 * Requests a duty of the background worker at this time, published when the
 * transaction has committed.
 */
extern void pgqrs_xact_request_duty(PgqrsDutyId kind, TimestampTz due);

/* Requests a flush of the counters, as any commit that counts does. */
extern void pgqrs_xact_request_flush(void);

/*
 * The transaction may have created or dropped the extension or a subscription.
 */
extern void pgqrs_xact_request_probe(void);

/*
 * The transaction may have written rows of the extension's tables that neither
 * a function nor a trigger has reported.  After its commit all hints of claims
 * are removed, and background duties and waiting backends look at everything.
 */
extern void pgqrs_xact_tables_written(void);

/* The transaction may have changed pg_database. */
extern void pgqrs_xact_databases_changed(void);

/*
 * Holds a database until the end of the transaction; false: too many are held.
 */
extern bool pgqrs_xact_hold_database(Oid db);

/*
 * How often this backend has rolled back or prepared a (sub)transaction: what
 * it caches of its own writes is valid until the next time.
 */
extern uint32 pgqrs_xact_rollbacks(void);

/* The transaction may have renamed or dropped roles. */
extern void pgqrs_xact_roles_changed(void);

#endif /* PGQRS_XACT_HOOKS_H */
