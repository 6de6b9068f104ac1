/*
 * cancel.h
 *	  Cancelling runs, and their children after them.
 */
#ifndef PGQRS_CANCEL_H
#define PGQRS_CANCEL_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "workflow/run.h"

/* Which of a workflow's live runs to cancel. */
typedef struct PgqrsCancelFilter
{
	int status;				/* a PgqrsRunStatus, or -1: any */
	NullableDatum tags;		/* that the run's must contain */
	const char *error_type; /* of its last error, or NULL */
	TimestampTz created_after;
	TimestampTz created_before;
	int64 after_run_id;
} PgqrsCancelFilter;

typedef struct PgqrsCancelled
{
	int64 changed; /* cancelled or asked to stop */
	int64 skipped; /* another transaction was faster */
	int64 last;	   /* the run to go on after, 0: no more match */
} PgqrsCancelled;

/*
 * Cancels a run at once, or asks the worker that holds it to stop; reason: or
 * NULL.  The status after it.
 */
extern PgqrsRunStatus pgqrs_cancel(int64 run_id, const char *reason);

/*
 * The same, whoever asks, without waiting; false: somebody has it locked.  One
 * that has ended stays as it is.
 */
extern bool pgqrs_cancel_try(int64 run_id, const char *reason);

/* Cancels up to max_rows runs that match, in ascending order. */
extern PgqrsCancelled pgqrs_cancel_many(const char *workflow,
										const PgqrsCancelFilter *filter,
										const char *reason, int max_rows);

/* The worker has stopped. */
extern void pgqrs_cancel_acknowledge(int64 run_id, int64 lease,
									 NullableDatum output);

/* Ends a run that was asked to stop, whose message we have locked exclusively. */
extern void pgqrs_cancel_finish(int64 run_id);

/* Deletes a run softly; one that is live is cancelled first. */
extern void pgqrs_cancel_delete(int64 run_id, const char *reason);

/*
 * After a run has ended in another way than SUCCESS: cancels its children, and
 * theirs, as far as nobody has them locked and they are not too many; the rest
 * is left to the passes.  Nothing to do for any other run.
 */
extern void pgqrs_cancel_children(int64 run_id);

/*
 * Cancels up to about that many children that were left; how many, and when to
 * come for the rest, if any: 0 if at once.
 */
extern int pgqrs_cancel_left(int max_rows, TimestampTz *next);

#endif /* PGQRS_CANCEL_H */
