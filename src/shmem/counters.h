/*
 * counters.h
 *	  Counters of queues that only grow, in shared memory.
 */
#ifndef PGQRS_COUNTERS_H
#define PGQRS_COUNTERS_H

#include "postgres.h"

#include "base/shmem_module.h"

/* Buckets of a histogram; the last one has no upper bound. */
#define PGQRS_BUCKETS 12

/* The order is that of the arrays in pgqrs_counters. */
typedef enum PgqrsCounter
{
	COUNT_SENT,
	COUNT_CLAIMED,
	COUNT_DONE,
	COUNT_FAILED,
	COUNT_DEAD,
	COUNT_CANCELLED, /* or deleted */
	COUNT_WAIT,		 /* microseconds from due to claimed */
	COUNT_WORK,		 /* microseconds from claimed to the end of the lease */
	COUNT_WAIT_BUCKET,
	COUNT_WORK_BUCKET = COUNT_WAIT_BUCKET + PGQRS_BUCKETS,
	COUNTER_COUNT = COUNT_WORK_BUCKET + PGQRS_BUCKETS
} PgqrsCounter;

typedef struct PgqrsCounts
{
	int64 n[COUNTER_COUNT];
} PgqrsCounts;

/*
 * The counts of a queue since its slot was made.  epoch, greater than 0, tells
 * the slots of a queue from each other.
 */
typedef struct PgqrsCounterState
{
	int64 queue_id;
	int64 epoch;
	int slot;
	uint64 changes;
	PgqrsCounts counts;
} PgqrsCounterState;

extern const PgqrsShmemModule pgqrs_counters_shmem;

extern bool pgqrs_counters_exist(void);

/*
 * Counts when the transaction commits. messages: the OID of this database's
 * pgqrs_messages.
 */
extern void pgqrs_count(Oid messages, int64 queue_id, PgqrsCounter counter, int64 n);
extern void pgqrs_count_wait(Oid messages, int64 queue_id, int64 microseconds);
extern void pgqrs_count_work(Oid messages, int64 queue_id, int64 microseconds);

/* Stores the counts of the transaction in a row of it. */
typedef void (*PgqrsCounterSpill)(Oid messages, int64 queue_id,
								  const PgqrsCounts *counts);
extern void pgqrs_counters_set_spill(PgqrsCounterSpill spill);

/*
 * For xact_hooks.c; pre_end: is_prepare: before PREPARE. commit: true if a
 * queue has counts to be flushed for the first time since its last flush.
 */
extern void pgqrs_counters_pre_end(bool is_prepare);
extern bool pgqrs_counters_commit(void);
extern void pgqrs_counters_abort(void);
extern void pgqrs_counters_subcommit(int level);
extern void pgqrs_counters_subabort(int level);

/*
 * For counter_rows.c.  read: false without a slot.  list_changed: at most max
 * queues that have changed since their last flush; returns their number.
 * flushed: the transaction stores this state; known to all when it commits.
 */
extern bool pgqrs_counters_read(Oid messages, int64 queue_id,
								PgqrsCounterState *state);
extern int pgqrs_counters_list_changed(Oid messages, PgqrsCounterState *states,
									   int max);
extern void pgqrs_counters_flushed(const PgqrsCounterState *state);

/* The queue does not exist, or the database: its slots become free. */
extern void pgqrs_counters_forget(const PgqrsCounterState *state);
extern void pgqrs_counters_forget_database(Oid db);

#endif /* PGQRS_COUNTERS_H */
