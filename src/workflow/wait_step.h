/*
 * wait_step.h
 *	  Steps that wait: the run is given back until something happens.
 */
#ifndef PGQRS_WAIT_STEP_H
#define PGQRS_WAIT_STEP_H

#include "postgres.h"

#include "workflow/step.h"

/*
 * Opens everything, locks the run's message and checks the lease; the step, if
 * it has a row, is of that kind.  What has finished is only to be answered.
 */
extern void pgqrs_wait_step_open(PgqrsStepRows *s, int64 run_id, int64 lease,
								 const char *step_id, PgqrsStepKind kind);

/* The same where more than its status tells whether a step is to be answered. */
extern void pgqrs_wait_step_open_if(PgqrsStepRows *s, int64 run_id, int64 lease,
									const char *step_id, PgqrsStepKind kind,
									bool (*is_answered)(const PgqrsStepRows *s));

/*
 * The same for a call that only adds to the step: other steps may be open.
 * Repeated after the run completed under the same lease, it is to be answered.
 */
extern void pgqrs_wait_step_open_shared(PgqrsStepRows *s, int64 run_id, int64 lease,
										const char *step_id, PgqrsStepKind kind);
extern void pgqrs_wait_step_close(PgqrsStepRows *s);

/*
 * Adds the step, RUNNING, or moves it on; input: what it records.  False:
 * another transaction has written it at the same time.
 */
extern bool pgqrs_wait_step_start(PgqrsStepRows *s, NullableDatum input);

/* The step ends; input: what it records where it did not before. */
extern void pgqrs_wait_step_finish(PgqrsStepRows *s, PgqrsStepStatus status,
								   NullableDatum input, NullableDatum output,
								   NullableDatum error);

/*
 * Parks the run until an instant; kind: one of PGQRS_WAIT_..., what: the name
 * or step id that goes with it.
 */
extern void pgqrs_wait_step_park(PgqrsStepRows *s, const char *kind,
								 const char *what, TimestampTz until,
								 NullableDatum input, NullableDatum reason);

/*
 * The calls.
 */

/* True: it was resumed, with that output (copied); check_after: microseconds. */
extern bool pgqrs_wait_step_pause(int64 run_id, int64 lease,
								  const char *step_id, int64 check_after,
								  NullableDatum reason, NullableDatum *output);

/* True: it has slept.  duration < 0: until is given. */
extern bool pgqrs_wait_step_sleep(int64 run_id, int64 lease, const char *step_id,
								  int64 duration, TimestampTz until);

/* Ends a pause, also before it has begun; step_id NULL: the one it is parked at. */
extern bool pgqrs_wait_step_resume(int64 run_id, const char *step_id, Datum output);

#endif /* PGQRS_WAIT_STEP_H */
