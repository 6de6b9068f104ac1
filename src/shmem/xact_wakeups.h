/*
 * xact_wakeups.h
 *	  The wake-ups that a transaction records, and publishes at its end.
 *
 * Wake-ups are hints: too many of them do no harm.  They count when the
 * transaction has committed.  Does nothing where the library is not preloaded.
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
 * What the kind says.  WAKEUP_QUEUE: there is room for one more under a limit.
 * A limit is locked by this transaction to its end, and free then.
 */
extern void pgqrs_xact_wakeup(PgqrsWakeupKind kind, int64 id);

/*
 * A message is written: it can be claimed at that instant.  leased: it is the
 * end of a lease.  For table.c, which sees every one.
 */
extern void pgqrs_xact_wakeup_message(int64 queue_id, TimestampTz visible_after,
									  bool leased);

/* A run ended: its PgqrsRunStatus, and when. */
extern void pgqrs_xact_wakeup_run(int64 run_id, int status, TimestampTz at);

/* A run parked, or what it may be parked for is there. */
extern void pgqrs_xact_wakeup_waiting_run(int64 run_id);

/* Nothing is as it was: the extension is gone, or rows were written past it. */
extern void pgqrs_xact_wakeup_everything(void);

/*
 * Whether the transaction may have made something of the queue claimable for
 * itself.
 */
extern bool pgqrs_xact_has_woken(int64 queue_id);

/*
 * A limit that was locked for a moment is free again.  await: it was found locked,
 * so that the transaction that has it locked publishes its end.
 */
extern void pgqrs_wakeup_publish_limit(PgqrsWakeupKind kind, int64 id);
extern void pgqrs_wakeup_await(PgqrsWakeupKind kind, int64 id);

/* The end of a transaction, called by xact_hooks.c */
extern void pgqrs_xact_wakeups_pre_prepare(void);
extern void pgqrs_xact_wakeups_end(XactEvent event);
extern void pgqrs_xact_wakeups_subcommit(int level);
extern void pgqrs_xact_wakeups_subabort(int level);

/* For claim_floor.c: a transaction that was prepared before the server started. */
extern void pgqrs_xact_wakeups_prepared_before(TransactionId xid, Oid db);

#endif /* PGQRS_XACT_WAKEUPS_H */
