/*
 * xact_wakeups.h
 *	  What a transaction makes claimable, or ends, and who is told of it.
 *
 * Marks are hints: too many of them do no harm.  They count when the transaction
 * has committed.  Does nothing where the library is not preloaded.
 */
#ifndef PGQRS_XACT_WAKEUPS_H
#define PGQRS_XACT_WAKEUPS_H

#include "postgres.h"

#include "base/shmem_module.h"
#include "datatype/timestamp.h"

extern const PgqrsShmemModule pgqrs_wake_shmem;

/*
 * A message is written: it can be claimed at that instant.  leased: it is the
 * end of a lease.  For table.c, which sees every one.
 */
extern void pgqrs_wake_mark_message(int64 queue_id, TimestampTz visible_after,
									bool leased);

/* A queue under a limit has room for one more. */
extern void pgqrs_wake_mark_room(int64 queue_id);

/*
 * The limit of a queue, or else of a worker, is locked by this transaction to
 * its end; or it was, and is free again.  await: whoever has it locked then
 * tells those that wait for the queue or the worker.
 */
extern void pgqrs_wake_mark_limit(bool is_queue, int64 id);
extern void pgqrs_wake_limit_free(bool is_queue, int64 id);
extern void pgqrs_wake_await_limit(bool is_queue, int64 id);

/* A queue has other settings, so that more may be claimable. */
extern void pgqrs_wake_mark_queue(int64 queue_id);

/* There are other queues than before, or they mean something else. */
extern void pgqrs_wake_mark_queues(void);
extern void pgqrs_wake_mark_queue_deleted(int64 queue_id);

/* Nothing is as it was: the extension is gone. */
extern void pgqrs_wake_mark_everything(void);

/* A worker holds less; or it has another status. */
extern void pgqrs_wake_mark_worker(int64 worker_id);
extern void pgqrs_wake_mark_worker_status(int64 worker_id);

/*
 * Whether the transaction may have made something of the queue claimable for
 * itself.
 */
extern bool pgqrs_wake_has_marked(int64 queue_id);

/* A run ended: its PgqrsRunStatus, and when. */
extern void pgqrs_wake_mark_run(int64 run_id, int status, TimestampTz at);

/* A run parked, or what it may be parked for is there. */
extern void pgqrs_wake_mark_parked(int64 run_id);

/* The end of a transaction, called by xact_hooks.c */
extern void pgqrs_wake_pre_prepare(void);
extern void pgqrs_wake_commit(void);
extern void pgqrs_wake_abort(void);
extern void pgqrs_wake_subcommit(int level);
extern void pgqrs_wake_subabort(int level);
extern void pgqrs_wake_prepare(void);

/* For claim_floor.c: a transaction that was prepared before the server started. */
extern void pgqrs_wake_prepared_before(TransactionId xid, Oid db);

#endif /* PGQRS_XACT_WAKEUPS_H */
