/*
 * step.h
 *	  Steps of workflow runs: their rows; begin, complete, fail.
 */
#ifndef PGQRS_STEP_H
#define PGQRS_STEP_H

#include "postgres.h"

#include "base/errors.h"
#include "workflow/run.h"

/* The answer to step_begin; output and error are copied. */
typedef struct PgqrsStepState
{
	bool should_execute;
	PgqrsStepStatus status;
	int attempt;
	NullableDatum output;
	NullableDatum error;
} PgqrsStepState;

typedef enum PgqrsStepOutcome
{
	STEP_OUTCOME_RETRY,
	STEP_OUTCOME_STEP_FAILED,
	STEP_OUTCOME_RUN_FAILED
} PgqrsStepOutcome;

/* What step_fail asks for. */
typedef struct PgqrsStepFailure
{
	Datum error;
	bool retryable;
	int64 retry_after; /* microseconds, < 0: backoff */
	int max_attempts;  /* -1: unlimited, 0: the run's or the workflow's */
	bool fail_run;
} PgqrsStepFailure;

extern void pgqrs_step_begin(int64 run_id, int64 lease, const char *step_id,
							 NullableDatum input, PgqrsStepState *state);

/*
 * False: the step had an output before, which stays.  started_at: of a step
 * whose begin was lost, 0: now.
 */
extern bool pgqrs_step_complete(int64 run_id, int64 lease, const char *step_id,
								Datum output, TimestampTz started_at);

/* A run that ends by it is told to its children too. */
extern PgqrsStepOutcome pgqrs_step_fail(int64 run_id, int64 lease,
										const char *step_id,
										const PgqrsStepFailure *failure,
										TimestampTz *retry_at);

/* For a replay: steps that failed, and children that did not end, are PENDING. */
extern void pgqrs_step_reset_failed(int64 run_id);

/*
 * Below: for all kinds of steps.
 */

/* One step of a run, which is locked as the call needs. */
typedef struct PgqrsStepRows
{
	PgqrsRunRows run;
	PgqrsTable *steps;
	TupleTableSlot *step;
	bool found; /* the step has a row */
	int64 run_id;
	int64 lease; /* 0: not under a lease */
	const char *step_id;
	PgqrsStepKind kind;
	bool any_move; /* the caller allows moves that the states do not */
} PgqrsStepRows;

/* Opens messages and steps; pgqrs_run_open_runs() opens runs. */
extern void pgqrs_step_open(PgqrsStepRows *s, int64 run_id, int64 lease,
							const char *step_id, PgqrsStepKind kind);
extern void pgqrs_step_close(PgqrsStepRows *s);

/* Reads the step, of whatever kind it is; s->found. */
extern bool pgqrs_step_find(PgqrsStepRows *s);

/*
 * Reads the step, which has to be of the call's kind: else PQ016, or, of a resume
 * kept for a pause, that resume is dropped.
 */
extern void pgqrs_step_fetch(PgqrsStepRows *s);

/* Of the step that was read */
extern PgqrsStepStatus pgqrs_step_status(const PgqrsStepRows *s);
extern bool pgqrs_step_is_finished(const PgqrsStepRows *s);
extern NullableDatum pgqrs_step_value(const PgqrsStepRows *s, AttrNumber column);

/* The run completed under this lease, and the step is of the call's kind. */
extern bool pgqrs_step_may_be_repeated(PgqrsStepRows *s);

/* Only what pgqrs_resume_run() has kept for a pause that has not begun. */
extern bool pgqrs_step_is_early_resume(TupleTableSlot *step);

/* The step's first or next version, to be completed by the caller. */
extern void pgqrs_step_fill(PgqrsRow *row, const PgqrsStepRows *s,
							PgqrsStepStatus status);
extern void pgqrs_step_fill_end(PgqrsRow *row, NullableDatum output,
								NullableDatum error);

/* Stores it; false: another transaction has written the step at the same time. */
extern bool pgqrs_step_write(PgqrsStepRows *s, const PgqrsRow *row);
pg_noreturn extern void pgqrs_step_error_changed(const PgqrsStepRows *s);

#endif /* PGQRS_STEP_H */
