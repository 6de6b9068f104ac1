/*
 * run.h
 *	  Workflow runs: find, fence, complete, fail, end.
 */
#ifndef PGQRS_RUN_H
#define PGQRS_RUN_H

#include "postgres.h"

#include "queue/message.h"
#include "store/table.h"
#include "workflow/workflow.h"

/*
 * A message and, if it belongs to a run, the run.  The tables are open for
 * writing, the message is locked, and the run was read after that.  An ended
 * run has no message.
 */
typedef struct PgqrsRunRows
{
	PgqrsTable *messages;
	PgqrsTable *runs;
	TupleTableSlot *message;
	TupleTableSlot *run;
	bool has_message;
	bool message_deleted; /* the message is deleted, and only has to be archived */
	int failures;		  /* crashes, to be stored with the message's end */
	PgqrsQueue queue;
} PgqrsRunRows;

extern void pgqrs_run_open(PgqrsRunRows *rows);
extern void pgqrs_run_open_messages(PgqrsRunRows *rows);
extern void pgqrs_run_open_runs(PgqrsRunRows *rows); /* unless they are open */
extern void pgqrs_run_close(PgqrsRunRows *rows);

/*
 * Reads the run of a live message.  Returns the reason why a claim must not
 * deliver it, else NULL.
 */
extern const char *pgqrs_run_damage(PgqrsTable *runs, int64 run_id,
									TupleTableSlot *run);

/*
 * Finds a run and locks its message, if it has one.  PQ003 if the run does not
 * exist or the current role may not see it, 42501 if the role lacks the
 * privilege.
 */
extern void pgqrs_run_require(PgqrsRunRows *rows, int64 run_id,
							  PgqrsPrivilege privilege, LockTupleMode mode);

/*
 * Like pgqrs_run_require() with the privilege to work, but locks the message
 * only for the holder of its current lease.  The caller calls pgqrs_run_fence()
 * next, which refuses all others.
 */
extern void pgqrs_run_lock_for_holder(PgqrsRunRows *rows, int64 run_id,
									  int64 lease, LockTupleMode mode);

/*
 * Whether the run continues under this lease; locks the message key-share, and
 * reads no row of runs.  Ignores a request to cancel.  After false, the two
 * functions above and below raise the error.
 */
extern bool pgqrs_run_check_lease_fast(PgqrsRunRows *rows, int64 run_id,
									   int64 lease);

/*
 * PQ006, PQ010 or PQ007, in this order, unless the lease is the run's current
 * one.  check_cancel: a request to cancel stops the call too.
 */
extern void pgqrs_run_fence(PgqrsRunRows *rows, int64 lease, bool check_cancel);

/* The run completed under this lease: a repeated call gets the same result. */
extern bool pgqrs_run_completed_under(PgqrsRunRows *rows, int64 lease);
extern bool pgqrs_run_cancelled_under(PgqrsRunRows *rows, int64 lease);

extern PgqrsRunStatus pgqrs_run_status(TupleTableSlot *run);
/* The status, if the run's message tells it, as it mostly does; else false. */
extern bool pgqrs_run_status_of_message(TupleTableSlot *message,
										PgqrsRunStatus *status);
extern bool pgqrs_run_is_terminal(PgqrsRunStatus status);

/* PQ016 if the run, which a call without its lease acts on, has ended. */
extern void pgqrs_run_refuse_ended(TupleTableSlot *run, int64 run_id);

/*
 * Sets the status in the new version of a run; PQ016 for a move that is not
 * allowed.
 */
extern void pgqrs_run_move(PgqrsRow *row, TupleTableSlot *run, PgqrsRunStatus to);

/*
 * Calls of workers.
 */

/* False: completed by an earlier call under this lease. */
extern bool pgqrs_run_complete(int64 run_id, int64 lease, Datum output);

/*
 * retry_after < 0: backoff; true, and the time of the retry; false: the run has
 * ended
 */
extern bool pgqrs_run_fail(int64 run_id, int64 lease, Datum error, bool retryable,
						   int64 retry_after, TimestampTz *retry_at);
extern void pgqrs_run_set_progress(int64 run_id, int64 lease,
								   NullableDatum progress);

/*
 * The caller of these has the message locked exclusively.
 */

/* Ends the run and its message. */
extern void pgqrs_run_end(PgqrsRunRows *rows, PgqrsRunStatus status,
						  NullableDatum output, NullableDatum error);

/* Ends a run whose undo the worker acknowledges. */
extern void pgqrs_run_end_undone(PgqrsRunRows *rows, NullableDatum output);

/*
 * Ends a failed run: ERROR, or CANCELLED after a request to cancel.  The caller
 * calls pgqrs_cancel_children() once it waits for no more locks.
 */
extern void pgqrs_run_end_failed(PgqrsRunRows *rows, Datum error);

/*
 * Whether, and when, a failure may be retried.  failures: including this one;
 * max_attempts 0: the run's or the workflow's; retry_after < 0: backoff.
 * *too_late: only the deadline forbids it.
 */
extern bool pgqrs_run_may_retry(PgqrsRunRows *rows, int failures,
								int max_attempts, Datum error, int64 retry_after,
								TimestampTz *retry_at, bool *too_late);

/*
 * Ends a lease from before a request to stop, or from before a deadline that has
 * passed or that a retry would miss; true: the run is delivered to be undone.
 * error: of the failure that ends the lease.
 */
extern bool pgqrs_run_deliver_to_undo(PgqrsRunRows *rows, bool retry_is_too_late,
									  NullableDatum error);

/* Whether the holder of the lease is asked to stop. */
extern bool pgqrs_run_is_asked_to_stop(PgqrsRunRows *rows);

/*
 * A step has succeeded: earlier crashes no longer count.  The caller has the
 * message locked at least key-share.
 */
extern void pgqrs_run_forget_crashes(PgqrsRunRows *rows);

/* Ends the lease; the run may be claimed again at the retry. */
extern void pgqrs_run_schedule_retry(PgqrsRunRows *rows,
									 TimestampTz visible_after, Datum error);

#endif /* PGQRS_RUN_H */
