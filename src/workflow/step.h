/*
 * step.h
 *	  Steps of workflow runs: begin, complete, fail.
 */
#ifndef PGQRS_STEP_H
#define PGQRS_STEP_H

#include "postgres.h"

#include "base/catalog.h"
#include "datatype/timestamp.h"
#include "store/table.h"

/* The answer to step_begin. */
typedef struct PgqrsStepState
{
	bool should_execute;
	PgqrsStepStatus status;
	int attempt;
	bool has_output;
	bool has_error;
	Datum output; /* copied */
	Datum error;  /* copied */
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

extern void pgqrs_step_start(int64 run_id, int64 lease, const char *step_id,
							 bool has_input, Datum input, PgqrsStepState *state);
/* False: the step had an output before, which stays. */
/* started_at: of a step whose begin was lost, 0: now. */
extern bool pgqrs_step_store(int64 run_id, int64 lease, const char *step_id,
							 Datum output, TimestampTz started_at);
extern PgqrsStepOutcome pgqrs_step_failed(int64 run_id, int64 lease,
										  const char *step_id,
										  const PgqrsStepFailure *failure,
										  TimestampTz *retry_at);

/*
 * Whether a step is only what pgqrs_resume_run() has kept for a pause that has
 * not begun; taking that away, unless another backend has written the step.
 */
extern bool pgqrs_step_is_early_resume(TupleTableSlot *step);
extern void pgqrs_step_drop_early_resume(PgqrsTable *steps, TupleTableSlot *step);

/* PQ016: a step id keeps its kind. */
extern void pgqrs_step_require_kind(TupleTableSlot *step, PgqrsStepKind kind);

/* For a replay: steps that failed, and children that did not end, are PENDING. */
extern void pgqrs_step_reset_failed(int64 run_id);

#endif /* PGQRS_STEP_H */
