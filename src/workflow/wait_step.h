/*
 * wait_step.h
 *	  Steps that wait: the run is given back until something happens.
 */
#ifndef PGQRS_WAIT_STEP_H
#define PGQRS_WAIT_STEP_H

#include "postgres.h"

#include "workflow/run.h"

/* A step that waits, of a run under its lease. */
typedef struct PgqrsParkStep
{
	PgqrsRunRows run;
	PgqrsTable *steps;
	TupleTableSlot *step;
	bool found; /* the step has a row */
	int64 run_id;
	int64 lease;
	const char *step_id;
	PgqrsStepKind kind;
	bool again; /* a step that has finished may finish once more */
} PgqrsParkStep;

/*
 * Opens everything, locks the run's message and checks the lease; the step, if
 * it has a row, is of that kind.  What has finished is only to be answered.
 */
extern void pgqrs_park_step_open(PgqrsParkStep *w, int64 run_id, int64 lease,
								 const char *step_id, PgqrsStepKind kind);

/* The same where more than its status tells whether a step is to be answered. */
extern void pgqrs_park_step_open_if(PgqrsParkStep *w, int64 run_id, int64 lease,
									const char *step_id, PgqrsStepKind kind,
									bool (*is_answered)(const PgqrsParkStep *w));

/*
 * The same for a call that only adds to the step: other steps may be open.
 * Repeated after the run completed under the same lease, it is to be answered.
 */
extern void pgqrs_park_step_open_shared(PgqrsParkStep *w, int64 run_id, int64 lease,
										const char *step_id, PgqrsStepKind kind);
extern void pgqrs_park_step_close(PgqrsParkStep *w);

extern bool pgqrs_park_step_finished(const PgqrsParkStep *w);
extern PgqrsStepStatus pgqrs_park_step_status(const PgqrsParkStep *w);

/* Copies a column of the step; false: it is NULL, or there is no step. */
extern bool pgqrs_park_step_value(const PgqrsParkStep *w, AttrNumber column,
								  Datum *value);

/* Reads the step again. */
extern void pgqrs_park_step_fetch(PgqrsParkStep *w);

/*
 * Adds the step, or moves it on; input: what it notes down.  False: somebody
 * else has written it at the same time.
 */
extern bool pgqrs_park_step_write(PgqrsParkStep *w, PgqrsStepStatus status,
								  const Datum *input);

/* The step ends; input: what it noted down, where it did not before, or NULL. */
extern void pgqrs_park_step_finish(PgqrsParkStep *w, PgqrsStepStatus status,
								   const Datum *input, const Datum *output,
								   const Datum *error);

/*
 * Parks the run until an instant; kind: one of PGQRS_WAIT_..., what: the name
 * or step id that goes with it.
 */
extern void pgqrs_park_step_park(PgqrsParkStep *w, const char *kind,
								 const char *what, TimestampTz until,
								 const Datum *input, const Datum *reason);

/*
 * The calls.
 */

/* True: it was resumed, with that output (copied); check_after: microseconds. */
extern bool pgqrs_park_pause(int64 run_id, int64 lease, const char *step_id,
							 int64 check_after, const Datum *reason, Datum *output);

/* True: it has slept.  duration < 0: until is given. */
extern bool pgqrs_park_sleep(int64 run_id, int64 lease, const char *step_id,
							 int64 duration, TimestampTz until);

/* Ends a pause, also before it has begun; step_id NULL: the one it is parked at. */
extern bool pgqrs_park_resume(int64 run_id, const char *step_id, Datum output);

#endif /* PGQRS_WAIT_STEP_H */
