/*
 * xact_hooks.h
 *	  What happens at the end of a transaction.
 */
#ifndef PGQRS_XACT_HOOKS_H
#define PGQRS_XACT_HOOKS_H

#include "postgres.h"

#include "base/shmem_module.h"
#include "datatype/timestamp.h"
#include "shmem/database_registry.h"

extern const PgqrsShmemModule pgqrs_xact_hooks_shmem;
extern void pgqrs_xact_hooks_init(void);

/*
 * A call that only claims, that is, whose loss in a crash would be no more
 * than a lease that ended early, stands between these two.
 */
extern void pgqrs_async_commit_begin(void);
extern void pgqrs_async_commit_end(void);

/* Such a call has done more than claim. */
extern void pgqrs_xact_require_sync_commit(void);

/* What this transaction writes needs the background worker at that instant. */
extern void pgqrs_xact_request_duty(PgqrsDutyId kind, TimestampTz due);

/* It may have added the extension or a subscription, or taken it away. */
extern void pgqrs_xact_request_probe(void);

/*
 * It may have written rows of the extension's tables that neither a function nor
 * a trigger has reported: once they are visible, claims look at everything, and
 * so do background duties and waiting backends.
 */
extern void pgqrs_xact_tables_written(void);

/* It may have changed pg_database. */
extern void pgqrs_xact_databases_changed(void);

/* The database is held until it ends, however that is.  False: no room. */
extern bool pgqrs_xact_hold_database(Oid db);

/*
 * How often this backend has rolled back a (sub)transaction, or prepared one: what
 * it remembers of its own writes counts only until then.
 */
extern uint32 pgqrs_xact_rollbacks(void);

/* It may have renamed or dropped roles. */
extern void pgqrs_xact_roles_changed(void);

#endif /* PGQRS_XACT_HOOKS_H */
