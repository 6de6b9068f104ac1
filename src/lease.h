/*
 * lease.h
 *	  Leases: whose is the current one, is it live, how many may there be.
 */
#ifndef PGQRS_LEASE_H
#define PGQRS_LEASE_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "rows.h"

/* An expired lease that nobody has claimed or reaped is still current. */
extern bool pgqrs_lease_is(TupleTableSlot *message, int64 lease);

/* Somebody holds the message, and the lease has not run out. */
extern bool pgqrs_lease_live(TupleTableSlot *message, TimestampTz now);

/*
 * How many more live leases a queue or a worker may have under its limit.
 * Locks the limit to the end of the transaction, so that one claim at a time
 * counts; while somebody else has that lock there is no room.
 */
extern int pgqrs_lease_room_in_queue(PgqrsTable *messages, int64 queue_id,
									 int limit);
extern int pgqrs_lease_room_for_worker(PgqrsTable *messages, int64 worker_id,
									   int limit);

/*
 * Waits for that lock.  Only before any message is locked: who has it may be
 * waiting for one.
 */
extern void pgqrs_lease_lock_limit(PgqrsTableId table, int64 id);

/* The same as it looks just now, without a lock. */
extern int pgqrs_lease_free_in_queue(PgqrsTable *messages, int64 queue_id,
									 int limit);
extern int pgqrs_lease_free_for_worker(PgqrsTable *messages, int64 worker_id,
									   int limit);

/*
 * Before the clock is read by which a lease is found live that is to be
 * extended: the queue or worker counts it from here on to the end of the
 * transaction.  Waits for a count at most.
 */
extern void pgqrs_lease_extending(PgqrsTableId table, int64 id);

#endif /* PGQRS_LEASE_H */
