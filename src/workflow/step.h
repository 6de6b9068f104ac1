/*
 * step.h
 *	  Steps of workflow runs: their rows; begin, complete, fail.
 */
#ifndef PGQRS_STEP_H
#define PGQRS_STEP_H

#include "postgres.h"

#include "base/errors.h"
#include "workflow/run.h"

/* The result of pgqrs_step_begin(); output and error are copied. */
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

/* The arguments of pgqrs_step_fail(). */
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
 * False: the step had an output before, which stays.  started_at: when a step
 * without a begin was started, 0: now.
 */
extern bool pgqrs_step_complete(int64 run_id, int64 lease, const char *step_id,
								Datum output, TimestampTz started_at);

/*
 * Completes a step and begins another; returns as pgqrs_step_complete().
 * *cancel_requested: the run was asked to stop, and no step was begun.
 */
extern bool pgqrs_step_next(int64 run_id, int64 lease, const char *step_id,
							Datum output, TimestampTz started_at,
							const char *next_step, NullableDatum next_input,
							PgqrsStepState *state, bool *cancel_requested);

/* If the run ends by the failure, its children are cancelled. */
extern PgqrsStepOutcome pgqrs_step_fail(int64 run_id, int64 lease,
										const char *step_id,
										const PgqrsStepFailure *failure,
										TimestampTz *retry_at);

/*
 * For a replay: moves failed steps, and children that have not ended, to
 * PENDING.
 */
extern void pgqrs_step_reset_failed(int64 run_id);

/*
 * For all kinds of steps.
 */

/* One step of a run, whose message is locked as the call needs. */
typedef struct PgqrsStepRows
{
	PgqrsRunRows run;
	PgqrsTable *steps;
	TupleTableSlot *step;
	bool found; /* the step has a row */
	int64 run_id;
	int64 lease; /* 0: the call is not made under a lease */
	const char *step_id;
	PgqrsStepKind kind;
	bool any_move; /* allows moves that the step's states do not */
} PgqrsStepRows;

/* Opens messages and steps; pgqrs_run_open_runs() opens runs. */
extern void pgqrs_step_open(PgqrsStepRows *s, int64 run_id, int64 lease,
							const char *step_id, PgqrsStepKind kind);
extern void pgqrs_step_close(PgqrsStepRows *s);

extern bool pgqrs_step_fetch_row(PgqrsTable *steps, int64 run_id,
								 const char *step_id, TupleTableSlot *slot);

/* Reads the step, of any kind; sets and returns s->found. */
extern bool pgqrs_step_find(PgqrsStepRows *s);

/*
 * Reads the step: PQ016 unless it is of the call's kind.  Deletes an early
 * resume that was kept for a pause if the call is of another kind.
 */
extern void pgqrs_step_fetch(PgqrsStepRows *s);

/* Status of the step that was read */
extern PgqrsStepStatus pgqrs_step_status(const PgqrsStepRows *s);
extern bool pgqrs_step_is_finished(const PgqrsStepRows *s);
extern NullableDatum pgqrs_step_value(const PgqrsStepRows *s, AttrNumber column);

/*
 * Whether the run completed under this lease, and the step is of the call's
 * kind.
 */
extern bool pgqrs_step_may_be_repeated(PgqrsStepRows *s);

/* Whether the row only holds a resume that came before its pause began. */
extern bool pgqrs_step_is_early_resume(TupleTableSlot *step);

/* Fills the step's first or next version, for the caller to complete. */
extern void pgqrs_step_fill(PgqrsRow *row, const PgqrsStepRows *s,
							PgqrsStepStatus status);
extern void pgqrs_step_fill_end(PgqrsRow *row, NullableDatum output,
								NullableDatum error);

/* Stores it; false: a concurrent transaction has written the step. */
extern bool pgqrs_step_write(PgqrsStepRows *s, const PgqrsRow *row);
pg_noreturn extern void pgqrs_step_error_changed(const PgqrsStepRows *s);

#endif /* PGQRS_STEP_H */
