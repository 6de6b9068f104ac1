/*
 * run.h
 *	  Workflow runs: trigger, complete, fail, end.
 */
#ifndef PGQRS_RUN_H
#define PGQRS_RUN_H

#include "postgres.h"

#include "queue/message.h"
#include "store/table.h"
#include "workflow/workflow.h"

/*
 * A message and, if it is a run's, the run: the tables open for writing, the
 * message locked, the run read after that.  An ended run has no message.
 */
typedef struct PgqrsRunRows
{
	PgqrsTable *messages;
	PgqrsTable *runs;
	TupleTableSlot *message;
	TupleTableSlot *run;
	bool has_message;
	bool message_deleted; /* and is only to be archived */
	int failures;		  /* crashes, with which the message would end */
	PgqrsQueue queue;
} PgqrsRunRows;

/* What a trigger asks for; begins as PGQRS_NEW_RUN. */
typedef struct PgqrsNewRun
{
	PgqrsWhen when;
	int priority;
	int64 timeout; /* microseconds, < 0: the workflow's */
	NullableDatum input;
	NullableDatum tags;
	NullableDatum headers;
	NullableDatum retry_policy;
	const char *idempotency_key; /* or NULL */
	PgqrsOnDuplicate on_duplicate;
	bool require_worker;	   /* PQ013 instead of a warning */
	bool no_warning;		   /* no client would read it */
	TimestampTz schedule_slot; /* or 0 */
	int64 rerun_of;			   /* or 0 */

	/* of a child; 0: none */
	int64 parent_run_id;
	const char *parent_step_id;
	char **parent_step_ids; /* of a batch, one each; or NULL */
	PgqrsParentEnd on_parent_end;
	TimestampTz latest_deadline; /* 0: none */

	/*
	 * One that has the key and ended badly by then does not keep it; 0: it does.
	 */
	TimestampTz failed_by;
} PgqrsNewRun;

#define PGQRS_NEW_RUN               \
	((PgqrsNewRun){                 \
		.input = PGQRS_NULL,        \
		.tags = PGQRS_NULL,         \
		.headers = PGQRS_NULL,      \
		.retry_policy = PGQRS_NULL, \
	})

extern void pgqrs_run_open(PgqrsRunRows *rows);
extern void pgqrs_run_open_messages(PgqrsRunRows *rows);
extern void pgqrs_run_open_runs(PgqrsRunRows *rows); /* unless they are open */
extern void pgqrs_run_close(PgqrsRunRows *rows);

/* PQ002, 42501 or 22023 unless the role may start such a run. */
extern void pgqrs_run_check(const char *workflow, const PgqrsNewRun *r,
							PgqrsWorkflow *definition);

/*
 * Reads the run of a live message.  What is wrong with it, if it could not be
 * claimed, else NULL.
 */
extern const char *pgqrs_run_damage(PgqrsTable *runs, int64 run_id,
									TupleTableSlot *run);

/* Starting: the id of the new run, or what on_duplicate says where the key is taken. */
extern int64 pgqrs_run_trigger(const char *workflow, PgqrsNewRun *r);
extern void pgqrs_run_trigger_batch(const char *workflow, PgqrsNewRun *r,
									int count, const NullableDatum *inputs,
									char **keys, int64 *ids);

/* The id of the run that has an idempotency key; the slots are for reading. */
extern bool pgqrs_run_by_key(PgqrsTable *messages, TupleTableSlot *message,
							 PgqrsTable *runs, TupleTableSlot *run,
							 int64 workflow_id, const char *key, int64 *id);

/*
 * Finds a run and locks its message if it has one.  PQ003 if there is none or
 * the current role may not see it, 42501 if it may see but not do this.
 */
extern void pgqrs_run_require(PgqrsRunRows *rows, int64 run_id,
							  PgqrsPrivilege privilege, LockTupleMode mode);

/*
 * The same with the privilege to work; the message is locked only for the holder
 * of its current lease.  The caller calls pgqrs_run_fence() next, which refuses
 * all others.
 */
extern void pgqrs_run_lock_for_holder(PgqrsRunRows *rows, int64 run_id,
									  int64 lease, LockTupleMode mode);

/*
 * Whether the run goes on under this lease; its message is locked key-share
 * then, and its row not even read.  A request to cancel does not count.  False:
 * the two functions above know why.
 */
extern bool pgqrs_run_check_lease_fast(PgqrsRunRows *rows, int64 run_id,
									   int64 lease);

/*
 * PQ006, PQ010 or PQ007, in this order, unless the lease is the run's current
 * one.  check_cancel: a request to cancel stops the call too.
 */
extern void pgqrs_run_fence(PgqrsRunRows *rows, int64 lease, bool check_cancel);

/* The run completed under this lease: a repeated call gets the same answer. */
extern bool pgqrs_run_completed_under(PgqrsRunRows *rows, int64 lease);
extern bool pgqrs_run_cancelled_under(PgqrsRunRows *rows, int64 lease);

extern PgqrsRunStatus pgqrs_run_status(TupleTableSlot *run);
/* The status as far as the run's message tells it, which it mostly does. */
extern bool pgqrs_run_status_of_message(TupleTableSlot *message,
										PgqrsRunStatus *status);
extern bool pgqrs_run_is_terminal(PgqrsRunStatus status);

/* Sets the status in the new version of a run; refuses a move that is not allowed. */
extern void pgqrs_run_move(PgqrsRow *row, TupleTableSlot *run, PgqrsRunStatus to);

/*
 * The worker's calls.
 */

/* False: it was completed before, under this lease. */
extern bool pgqrs_run_complete(int64 run_id, int64 lease, Datum output);

/* retry_after < 0: backoff; true and the time of the retry, or false: it has ended */
extern bool pgqrs_run_fail(int64 run_id, int64 lease, Datum error, bool retryable,
						   int64 retry_after, TimestampTz *retry_at);
extern void pgqrs_run_set_progress(int64 run_id, int64 lease,
								   NullableDatum progress);

/*
 * Below: the message is locked exclusively.
 */

/* Ends the run, and its message with it. */
extern void pgqrs_run_end(PgqrsRunRows *rows, PgqrsRunStatus status,
						  NullableDatum output, NullableDatum error);

/*
 * Ends it for a failure: ERROR, or CANCELLED where that was requested.  The
 * caller calls pgqrs_cancel_children() once it waits for no more locks.
 */
extern void pgqrs_run_end_failed(PgqrsRunRows *rows, Datum error);

/*
 * Whether a failure may be retried, and when.  failures: including this one;
 * max_attempts 0: the run's or the workflow's; retry_after < 0: backoff.
 */
extern bool pgqrs_run_may_retry(PgqrsRunRows *rows, int failures,
								int max_attempts, Datum error,
								int64 retry_after, TimestampTz *retry_at);

/*
 * A step has succeeded: crashes before it no longer count.  The message is
 * locked at least key-share.
 */
extern void pgqrs_run_forget_crashes(PgqrsRunRows *rows);

/* Gives the lease up until the retry. */
extern void pgqrs_run_give_up(PgqrsRunRows *rows, TimestampTz visible_after,
							  Datum error);

#endif /* PGQRS_RUN_H */
