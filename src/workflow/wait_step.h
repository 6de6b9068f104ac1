/*
 * wait_step.h
 *	  Steps in which the run waits: its lease ends until the wait is over.
 */
#ifndef PGQRS_WAIT_STEP_H
#define PGQRS_WAIT_STEP_H

#include "postgres.h"

#include "workflow/step.h"

/*
 * Opens the tables, locks the run's message and checks the lease and the step's
 * kind. A finished step has only to be answered.
 */
extern void pgqrs_wait_step_open(PgqrsStepRows *s, int64 run_id, int64 lease,
								 const char *step_id, PgqrsStepKind kind);

/*
 * Like pgqrs_wait_step_open(), for steps whose status alone does not tell
 * whether they have to be answered.
 */
extern void pgqrs_wait_step_open_if(PgqrsStepRows *s, int64 run_id, int64 lease,
									const char *step_id, PgqrsStepKind kind,
									bool (*is_answered)(const PgqrsStepRows *s));

/*
 * Like pgqrs_wait_step_open(), for a call that only adds to the step, so that
 * other steps may be open.  A repeated call after the run completed under the
 * lease is answered.
 */
extern void pgqrs_wait_step_open_shared(PgqrsStepRows *s, int64 run_id, int64 lease,
										const char *step_id, PgqrsStepKind kind);
extern void pgqrs_wait_step_close(PgqrsStepRows *s);

/*
 * Inserts the step as RUNNING, or moves it there; input: stored with it.
 * False: a concurrent transaction has written the step.
 */
extern bool pgqrs_wait_step_start(PgqrsStepRows *s, NullableDatum input);

/* Ends the step; input: stored with it, unless NULL. */
extern void pgqrs_wait_step_finish(PgqrsStepRows *s, PgqrsStepStatus status,
								   NullableDatum input, NullableDatum output,
								   NullableDatum error);

/*
 * Ends the lease and makes the run wait until an instant; kind: one of
 * PGQRS_WAIT_..., what: its name or step id.
 */
extern void pgqrs_wait_step_suspend(PgqrsStepRows *s, const char *kind,
									const char *what, TimestampTz until,
									NullableDatum input, NullableDatum reason);

/*
 * Calls of workers.
 */

/* True: resumed, with that output (copied); check_after: microseconds. */
extern bool pgqrs_wait_step_pause(int64 run_id, int64 lease,
								  const char *step_id, int64 check_after,
								  NullableDatum reason, NullableDatum *output);

/* True: the sleep has ended.  duration < 0: until is given. */
extern bool pgqrs_wait_step_sleep(int64 run_id, int64 lease, const char *step_id,
								  int64 duration, TimestampTz until);

/*
 * Ends a pause, also before it begins; step_id NULL: the pause in which the run
 * waits.
 */
extern bool pgqrs_wait_step_resume(int64 run_id, const char *step_id, Datum output);

#endif /* PGQRS_WAIT_STEP_H */
