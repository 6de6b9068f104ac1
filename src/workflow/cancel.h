/*
 * cancel.h
 *	  Cancellation of runs and of their children.
 */
#ifndef PGQRS_CANCEL_H
#define PGQRS_CANCEL_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "workflow/run.h"
#include "workflow/runs_filter.h"

/*
 * Cancels a run at once, or requests the worker that holds it to stop; reason:
 * or NULL.  Returns the run's status afterwards.
 */
extern PgqrsRunStatus pgqrs_cancel(int64 run_id, const char *reason);

/*
 * Like pgqrs_cancel(), without a check of privileges and without waiting;
 * false: another transaction has the run locked.  A run that has ended stays as
 * it is.
 */
extern bool pgqrs_cancel_without_waiting(int64 run_id, const char *reason);

/* Cancels up to max_rows runs that match, in ascending order. */
extern PgqrsRunsChanged pgqrs_cancel_many(const char *name,
										  const PgqrsRunsFilter *filter,
										  const char *reason, int max_rows);

/* The worker acknowledges a request to stop: the run ends. */
extern void pgqrs_cancel_acknowledge(int64 run_id, int64 lease,
									 NullableDatum output);

/*
 * Ends a run that was requested to stop; the caller has its message locked
 * exclusively.
 */
extern void pgqrs_cancel_end_requested(int64 run_id);

/*
 * pgqrs_message_release() and pgqrs_message_set_visibility(), which end a run
 * that was asked to stop.
 */
extern void pgqrs_cancel_or_release(int64 message_id, int64 lease, int64 delay);
extern void pgqrs_cancel_or_set_visibility(int64 message_id,
										   TimestampTz visible_after);

/* Deletes a run softly; a live run is cancelled first. */
extern void pgqrs_cancel_delete(int64 run_id, const char *reason);

/*
 * Cancels the children of a run that ended in another way than SUCCESS, or whose
 * undo was requested, and their children, without waiting for locks and within
 * limits; background passes cancel the rest.  Does nothing for any other run.
 */
extern void pgqrs_cancel_children(int64 run_id);

/*
 * Background pass: cancels up to about max_rows children that were left, and
 * returns their number.  *next: when the next pass is due, 0: at once,
 * DT_NOEND: never.
 */
extern int pgqrs_cancel_remaining_children(int max_rows, TimestampTz *next);

#endif /* PGQRS_CANCEL_H */
