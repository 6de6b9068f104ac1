/*
 * lease_limits.h
 *	  Leases: whose is the current one, is it live, how many may there be.
 */
#ifndef PGQRS_LEASE_LIMITS_H
#define PGQRS_LEASE_LIMITS_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "store/table.h"

/* An expired lease that nobody has claimed or reaped is still current. */
extern bool pgqrs_lease_is_current(TupleTableSlot *message, int64 lease);

/* Somebody holds the message, and the lease has not run out. */
extern bool pgqrs_lease_is_live(TupleTableSlot *message, TimestampTz now);

/*
 * Limits of queues and workers: table is TABLE_QUEUES or TABLE_WORKERS.
 *
 * take_room: how many more live leases there may be.  Unless that is 0, the
 * limit is locked, so that one claim at a time counts, and the caller settles:
 * used, it stays locked to the end of the transaction; else it is free again.
 * While another transaction has the lock there is no room.
 */
extern int pgqrs_lease_limit_reserve(PgqrsTable *messages, PgqrsTableId table,
									 int64 id, int limit);
extern void pgqrs_lease_limit_settle(PgqrsTableId table, int64 id, bool used);

/*
 * Waits for that lock.  Only before any message is locked: who has it may be
 * waiting for one.
 */
extern void pgqrs_lease_limit_lock(PgqrsTableId table, int64 id);

/*
 * What take_room would find, without a lock.  Where another transaction has the
 * lock, its end tells those that wait for the queue or worker.
 */
#define PGQRS_LIMIT_LOCKED (-1)
extern int pgqrs_lease_limit_peek(PgqrsTable *messages, PgqrsTableId table,
								  int64 id, int limit);

/*
 * Before the clock is read by which a lease is found live that is to be
 * extended, and after the message was written: in between nobody counts.  The
 * first waits for a count at most.
 */
extern void pgqrs_lease_extend_begin(PgqrsTableId table, int64 id);
extern void pgqrs_lease_extend_end(PgqrsTableId table, int64 id);

#endif /* PGQRS_LEASE_LIMITS_H */
