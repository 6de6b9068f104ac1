/*
 * lease_limits.h
 *	  Leases: whether a lease is current or live, and limits on live leases.
 */
#ifndef PGQRS_LEASE_LIMITS_H
#define PGQRS_LEASE_LIMITS_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "store/table.h"

/*
 * Whether the lease is the current one.  An expired lease stays current until
 * another claim or maintenance takes the message.
 */
extern bool pgqrs_lease_is_current(TupleTableSlot *message, int64 lease);

/* Whether the message is leased and the lease has not expired. */
extern bool pgqrs_lease_is_live(TupleTableSlot *message, TimestampTz now);

/*
 * Limits of queues and workers: table is TABLE_QUEUES or TABLE_WORKERS.
 *
 * reserve: how many more live leases are allowed.  Unless that is 0, the limit
 * is locked, so that one claim at a time counts, and the caller settles: a used
 * limit stays locked to the end of the transaction, an unused one is unlocked.
 * 0 while another transaction holds the lock.
 */
extern int pgqrs_lease_limit_reserve(PgqrsTable *messages, PgqrsTableId table,
									 int64 id, int limit);
extern void pgqrs_lease_limit_settle(PgqrsTableId table, int64 id, bool used);

/*
 * Waits for that lock.  Only before any message is locked: the holder may be
 * waiting for a message.
 */
extern void pgqrs_lease_limit_lock(PgqrsTableId table, int64 id);

/*
 * What reserve would return, without locking.  If another transaction holds the
 * lock, its end wakes the clients that wait for the queue or worker.
 */
#define PGQRS_LIMIT_LOCKED (-1)
extern int pgqrs_lease_limit_peek(PgqrsTable *messages, PgqrsTableId table,
								  int64 id, int limit);

/*
 * Around the extension of a lease: begin before the clock is read that shows
 * the lease live, end after the message is written.  No transaction counts
 * leases in between. begin waits for a count at most.
 */
extern void pgqrs_lease_extend_begin(PgqrsTableId table, int64 id);
extern void pgqrs_lease_extend_end(PgqrsTableId table, int64 id);

#endif /* PGQRS_LEASE_LIMITS_H */
