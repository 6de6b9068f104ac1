/*
 * queue_wakeups.h
 *	  Which queues have something that can be claimed, or will have, and when.
 *
 * A hint in shared memory, of the current database: a mark on a queue says
 * that something became claimable of which the background worker has not told
 * yet; its due instant, by pgqrs_clock(), when somebody has to look whether
 * something is.  Does nothing where the library is not preloaded.
 */
#ifndef PGQRS_QUEUE_WAKEUPS_H
#define PGQRS_QUEUE_WAKEUPS_H

#include "postgres.h"

#include "base/shmem_module.h"
#include "datatype/timestamp.h"
#include "shmem/wait_slots.h"

extern const PgqrsShmemModule pgqrs_ready_shmem;

/* How many queues of all databases can have a place. */
#define PGQRS_READY_MAX PGQRS_QUEUE_SLOTS

/*
 * For any backend; none of these raises an error.
 */

/* So many messages of a queue became claimable: tells the worker and who waits. */
extern void pgqrs_ready_mark(int64 queue_id, int count);

/* The worker is told as soon as it has time. */
extern void pgqrs_ready_poke(void);

/* Somebody has to look at the queue at that instant at the latest; 0: now. */
extern void pgqrs_ready_lower(int64 queue_id, TimestampTz due);

/*
 * The queue's limit was found locked; and it is free again, which has the queue
 * looked at if it was found so before.
 */
extern void pgqrs_ready_await_limit(int64 queue_id);
extern void pgqrs_ready_limit_free(int64 queue_id);

/*
 * That a queue has nothing to claim.  A look at it begins before its snapshot is
 * taken; one that found nothing until an instant says so at its end, which
 * counts unless something has become claimable in between.  is_idle: nothing
 * has since; that is forgotten after PGQRS_IDLE_AGE.
 */
#define PGQRS_IDLE_AGE (10 * USECS_PER_SEC)
extern uint64 pgqrs_ready_begin_look(int slot);
extern void pgqrs_ready_end_look(int slot, uint64 look, TimestampTz idle_until);
extern bool pgqrs_ready_is_idle(int slot, int64 queue_id, TimestampTz now);

/* Nothing is known any more: the worker looks at every queue. */
extern void pgqrs_ready_unknown(void);

/* The queue was deleted. */
extern void pgqrs_ready_forget(int64 queue_id);

/* Up to PGQRS_READY_MAX queues that have a place. */
extern int pgqrs_ready_list(int64 *queue_ids);

/* For the launcher: the database was dropped, or has to do without an entry. */
extern void pgqrs_ready_forget_database(Oid db);

/*
 * For those that wait.  slot: where a queue is; -1: there is no place for it.
 * It may be another one's by the time that it is used, then nothing is done.
 */
extern int pgqrs_ready_slot(int64 queue_id);
extern TimestampTz pgqrs_ready_due(int slot);

/*
 * If the instant has come, it is the caller's to look at the queue, and to
 * lower the instant again to what it found.
 */
extern bool pgqrs_ready_take_due(int slot, int64 queue_id, TimestampTz now);

/*
 * One waiter of each queue keeps its time: when the due instant is lowered it
 * is nudged.  keep: whether it is this backend.  release: this backend does not
 * any more; whether nobody does now.
 */
extern bool pgqrs_ready_keep(int slot, int64 queue_id);
extern bool pgqrs_ready_release(int slot);

/*
 * For the background worker
 */

/*
 * Whoever marks from here on pokes again; true: look at every queue.  A pass
 * that does not come to its end leaves that to the next.
 */
extern bool pgqrs_ready_begin_pass(void);
extern void pgqrs_ready_end_pass(void);

/*
 * Queues that have no place: when to look at all of them.  take: the instant
 * has come, and the caller does.
 */
extern TimestampTz pgqrs_ready_unplaced_due(void);
extern bool pgqrs_ready_take_unplaced(TimestampTz now);

/* Takes up to max marks. */
extern int pgqrs_ready_take(int64 *queue_ids, int max);

/* Takes up to max instants that have come; *next: the earliest that has not. */
extern int pgqrs_ready_take_dues(TimestampTz now, int64 *queue_ids, int max,
								 TimestampTz *next);

#endif /* PGQRS_QUEUE_WAKEUPS_H */
