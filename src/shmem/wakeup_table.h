/*
 * wakeup_table.h
 *	  What the background worker is to look at, and whom to notify of what.
 *
 * A hint in shared memory, by database, of two kinds.  A queue has a slot: a mark
 * says that messages became claimable of which the background worker has not
 * notified yet; the due instant, by pgqrs_clock(), when a process has to look
 * whether the queue has some.  A run that ended, or may have what it is parked
 * for, is in a list.  Does nothing where the library is not preloaded.
 */
#ifndef PGQRS_WAKEUP_TABLE_H
#define PGQRS_WAKEUP_TABLE_H

#include "postgres.h"

#include "base/shmem_module.h"
#include "datatype/timestamp.h"
#include "shmem/wait_slots.h"

/* A run of which the background worker has not notified yet. */
typedef struct PgqrsFinishedRun
{
	int64 run_id;
	TimestampTz at; /* about when, or earlier */
	int status;		/* PgqrsRunStatus, or one of those below */
} PgqrsFinishedRun;

/* The run may be parked and have what it waits for. */
#define RUN_PARKED (-1)

/*
 * Instead of runs of which there were too many: those with an id from this one on,
 * fewer than PGQRS_RUN_BLOCK, some of which ended, or may be parked, since.
 */
#define RUN_BLOCK		(-2)
#define PGQRS_RUN_BLOCK 1024

static inline int64
pgqrs_run_block(int64 run_id)
{
	return run_id - run_id % PGQRS_RUN_BLOCK;
}

extern const PgqrsShmemModule pgqrs_wakeup_shmem;

/*
 * For any backend; none of these raises an error.
 */

/* So many messages of a queue became claimable: wakes waiters, too. */
extern void pgqrs_wakeup_publish_queue(int64 queue_id, int count);

/* Some process has to look at the queue at that instant at the latest; 0: now. */
extern void pgqrs_wakeup_set_due(int64 queue_id, TimestampTz due);

/*
 * The queue's limit was found locked; and it is free again, so that the queue is
 * looked at if its limit was found locked before.
 */
extern void pgqrs_wakeup_await_limit(int64 queue_id);
extern void pgqrs_wakeup_limit_free(int64 queue_id);

/* The background worker looks at every queue. */
extern void pgqrs_wakeup_publish_all_queues(void);

/* The background worker comes for it at that instant at the latest; 0: now. */
extern void pgqrs_wakeup_publish_run(PgqrsFinishedRun run, TimestampTz due);

/* Runs ended, or may have what they are parked for, of which nothing is known. */
extern void pgqrs_wakeup_publish_lost(void);

/* The queue was deleted. */
extern void pgqrs_wakeup_forget_queue(int64 queue_id);

/* For the launcher: the database was dropped, or has to do without an entry. */
extern void pgqrs_wakeup_forget_database(Oid db);

/* Up to PGQRS_QUEUE_SLOTS queues that have a slot. */
extern int pgqrs_wakeup_list_queues(int64 *queue_ids);

/* The queue's slot, which may be another one's when it is used; -1: there is none. */
extern int pgqrs_wakeup_slot(int64 queue_id);

/*
 * That a queue has nothing to claim.  A look at it begins before its snapshot is
 * taken; one that found nothing until an instant says so at its end, which
 * counts unless something has become claimable in between.  is_idle: nothing
 * has since; that is forgotten after PGQRS_IDLE_AGE.
 */
#define PGQRS_IDLE_AGE (10 * USECS_PER_SEC)
extern uint64 pgqrs_wakeup_begin_look(int slot);
extern void pgqrs_wakeup_end_look(int slot, uint64 look, TimestampTz idle_until);
extern bool pgqrs_wakeup_is_idle(int slot, int64 queue_id, TimestampTz now);

/*
 * For waiting backends
 */

/*
 * The due instant of a queue.  take: if it has come, it is the caller's to look
 * at the queue, and to set the instant again to what it found.
 */
extern TimestampTz pgqrs_wakeup_due(int slot);
extern bool pgqrs_wakeup_take_due(int slot, int64 queue_id, TimestampTz now);

/*
 * One waiter of each queue keeps its time: it is signalled when the due instant
 * becomes earlier.  acquire: whether it is this backend.  release: this backend
 * is not any more; whether there is none now.
 */
extern bool pgqrs_timekeeper_acquire(int slot, int64 queue_id);
extern bool pgqrs_timekeeper_release(int slot);

/*
 * For the background worker
 */

/* Takes up to max marked queues. */
extern int pgqrs_wakeup_take_queues(int64 *queue_ids, int max);

/* Takes up to max instants that have come; *next: the earliest that has not. */
extern int pgqrs_wakeup_take_dues(TimestampTz now, int64 *queue_ids, int max,
								  TimestampTz *next);

/* Takes up to max runs, oldest first, max_blocks blocks among them; *more: there may be more. */
extern int pgqrs_wakeup_take_runs(PgqrsFinishedRun *runs, int max,
								  int max_blocks, bool *more);

/* Whether even blocks were too many since the last call. */
extern bool pgqrs_wakeup_take_lost(void);

#endif /* PGQRS_WAKEUP_TABLE_H */
