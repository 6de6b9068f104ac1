/*
 * wakeup_table.h
 *	  Wake-up table: queues and runs that the background worker must look at,
 *	  or notify of.
 *
 * Hints in shared memory, by database.  A queue has a slot with a mark, set
 * while the background worker has not sent notifications of messages that
 * became claimable, and a due time in readings of pgqrs_clock(), when a process
 * must look at the queue.  A list holds runs that ended, and waiting runs that
 * may have become ready.  Without preloading every call here does nothing.
 */
#ifndef PGQRS_WAKEUP_TABLE_H
#define PGQRS_WAKEUP_TABLE_H

#include "postgres.h"

#include "base/shmem_module.h"
#include "datatype/timestamp.h"
#include "shmem/wait_slots.h"

/* A run of which the background worker has not sent notifications. */
typedef struct PgqrsFinishedRun
{
	int64 run_id;
	TimestampTz at; /* not later than its end */
	int status;		/* PgqrsRunStatus, or one of those below */
} PgqrsFinishedRun;

/* A waiting run that may have become ready. */
#define RUN_WAITING (-1)

/*
 * A block of runs, recorded when there are too many runs: some runs with ids
 * from this one on, fewer than PGQRS_RUN_BLOCK, have ended or may have become
 * ready.
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
 * For any backend; no call raises an error
 */

/*
 * Publishes that count messages of a queue became claimable; wakes waiters,
 * too.
 */
extern void pgqrs_wakeup_publish_queue(int64 queue_id, int count);

/* A process must look at the queue at this time at the latest; 0: now. */
extern void pgqrs_wakeup_set_due(int64 queue_id, TimestampTz due);

/*
 * await: the caller found the queue's limit locked. free: the limit is
 * unlocked; schedules a look at the queue if a backend awaits that.
 */
extern void pgqrs_wakeup_await_limit(int64 queue_id);
extern void pgqrs_wakeup_limit_free(int64 queue_id);

/* Makes the background worker look at every queue. */
extern void pgqrs_wakeup_publish_all_queues(void);

/*
 * Publishes a run; the background worker handles it at this time at the latest;
 * 0: now.
 */
extern void pgqrs_wakeup_publish_run(PgqrsFinishedRun run, TimestampTz due);

/*
 * Publishes that runs ended, or may have become ready, without any record of
 * their ids.
 */
extern void pgqrs_wakeup_publish_lost(void);

/* The queue was deleted. */
extern void pgqrs_wakeup_forget_queue(int64 queue_id);

/* For the launcher: the database was dropped or lost its entry. */
extern void pgqrs_wakeup_forget_database(Oid db);

/* Lists the queues that have a slot, at most PGQRS_QUEUE_SLOTS. */
extern int pgqrs_wakeup_list_queues(int64 *queue_ids);

/*
 * The queue's slot; -1: none is free.  The slot may be renamed before its use.
 */
extern int pgqrs_wakeup_slot(int64 queue_id);

/*
 * Idle queues.  A scan of a queue calls begin_look before its snapshot is
 * taken.  If it found nothing to claim before idle_until, end_look records
 * that, unless a message became claimable in between. is_idle: nothing became
 * claimable since then; valid for PGQRS_IDLE_AGE.
 */
#define PGQRS_IDLE_AGE (10 * USECS_PER_SEC)
extern uint64 pgqrs_wakeup_begin_look(int slot);
extern void pgqrs_wakeup_end_look(int slot, uint64 look, TimestampTz idle_until);
extern bool pgqrs_wakeup_is_idle(int slot, int64 queue_id, TimestampTz now);

/*
 * For waiting backends
 */

/*
 * The due time of a queue. take_due: if it has come, clears it; the caller
 * looks at the queue and sets the next due time.
 */
extern TimestampTz pgqrs_wakeup_due(int slot);
extern bool pgqrs_wakeup_take_due(int slot, int64 queue_id, TimestampTz now);

/*
 * The timekeeper of a queue is the one waiter that is signalled when the due
 * time moves forward. acquire: whether this backend is the timekeeper now.
 * release: whether the queue has no timekeeper now.
 */
extern bool pgqrs_timekeeper_acquire(int slot, int64 queue_id);
extern bool pgqrs_timekeeper_release(int slot);

/*
 * For the background worker
 */

/* Takes up to max marked queues. */
extern int pgqrs_wakeup_take_queues(int64 *queue_ids, int max);

/* Takes up to max due times that have come; *next: the earliest other one. */
extern int pgqrs_wakeup_take_dues(TimestampTz now, int64 *queue_ids, int max,
								  TimestampTz *next);

/*
 * Takes up to max runs, oldest first, at most max_blocks of them blocks; *more:
 * more may be left.
 */
extern int pgqrs_wakeup_take_runs(PgqrsFinishedRun *runs, int max,
								  int max_blocks, bool *more);

/*
 * Whether runs were lost since the last call because even the blocks were full.
 */
extern bool pgqrs_wakeup_take_lost(void);

#endif /* PGQRS_WAKEUP_TABLE_H */
