/*
 * xact_wakeups.h
 *	  Transaction wake-ups: recorded by a transaction, published at its end.
 *
 * Wake-ups are hints: superfluous ones do no harm.  They take effect when the
 * transaction has committed.  Without preloading every call here does nothing.
 */
#ifndef PGQRS_XACT_WAKEUPS_H
#define PGQRS_XACT_WAKEUPS_H

#include "postgres.h"

#include "access/xact.h"
#include "base/shmem_module.h"
#include "datatype/timestamp.h"
#include "shmem/wait_slots.h"

extern const PgqrsShmemModule pgqrs_xact_wakeup_shmem;

/*
 * Records a wake-up.  WAKEUP_QUEUE: one more message can be claimed under a
 * limit.  WAKEUP_QUEUE_LIMIT and WAKEUP_WORKER_LIMIT: this transaction locks
 * the limit to its end.
 */
extern void pgqrs_xact_wakeup(PgqrsWakeupKind kind, int64 id);

/*
 * Records a written message, claimable at visible_after. leased: visible_after
 * is the end of a lease.  Called for every write of pgqrs_messages.
 */
extern void pgqrs_xact_wakeup_message(int64 message_id, int64 queue_id,
									  TimestampTz visible_after, bool leased);

/* Records that a run ended, with its PgqrsRunStatus and time. */
extern void pgqrs_xact_wakeup_run(int64 run_id, int status, TimestampTz at);

/* Records that a run started to wait or may have become ready. */
extern void pgqrs_xact_wakeup_waiting_run(int64 run_id);

/*
 * Everything may have changed: the extension was dropped, or rows were written
 * without its functions.
 */
extern void pgqrs_xact_wakeup_everything(void);

/*
 * Whether the transaction itself may have made a message of the queue
 * claimable.
 */
extern bool pgqrs_xact_has_woken(int64 queue_id);

/*
 * publish_limit: this backend unlocked a limit before the end of its
 * transaction. await: this backend found the limit locked; the transaction that
 * has locked it publishes its end.
 */
extern void pgqrs_wakeup_publish_limit(PgqrsWakeupKind kind, int64 id);
extern void pgqrs_wakeup_await(PgqrsWakeupKind kind, int64 id);

/* Transaction end, called by xact_hooks.c */
extern void pgqrs_xact_wakeups_pre_prepare(void);
extern void pgqrs_xact_wakeups_end(XactEvent event);
extern void pgqrs_xact_wakeups_subcommit(int level);
extern void pgqrs_xact_wakeups_subabort(int level);

/*
 * For published_keys.c: records a transaction that was prepared before the server
 * started.
 */
extern void pgqrs_xact_wakeups_prepared_before(TransactionId xid, Oid db);

#endif /* PGQRS_XACT_WAKEUPS_H */
