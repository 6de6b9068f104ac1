/*
 * child.h
 *	  Child runs: starting and awaiting them.
 */
#ifndef PGQRS_CHILD_H
#define PGQRS_CHILD_H

#include "postgres.h"

#include "base/json.h"
#include "workflow/run_trigger.h"
#include "workflow/step.h"

/*
 * Starts a child as a step; r: the trigger's arguments without the parent.
 * Returns the child's id, also that of an earlier call, or 0 if its key is
 * taken and on_duplicate asks for NULL.
 */
extern int64 pgqrs_child_start(int64 run_id, int64 lease, const char *step_id,
							   const char *workflow, PgqrsNewRun *r,
							   bool own_priority);

/* Children that are started together. */
typedef struct PgqrsNewChildren
{
	int count;
	NullableDatum *inputs;
	char **keys;	 /* idempotency keys, NULL where there is none; or NULL */
	PgqrsNewRun run; /* the arguments that all children share */
	bool own_priority;
} PgqrsNewChildren;

/* Starts many children, as steps step_id[1..n]; returns their ids. */
extern void pgqrs_child_start_many(int64 run_id, int64 lease,
								   const char *step_id, const char *workflow,
								   const PgqrsNewChildren *c, int64 **ids);

/* False: the child has not ended, and the run waits. */
extern bool pgqrs_child_await(int64 run_id, int64 lease, const char *step_id,
							  PgqrsChildEnd *end);

/* Awaits all, or any one, of the children that were started together. */
extern bool pgqrs_child_await_many(int64 run_id, int64 lease, const char *step_id,
								   bool all, NullableDatum *results);

/* The steps of single children, beside another step of the same run. */
typedef struct PgqrsChildSteps
{
	PgqrsStepRows step;
	TupleTableSlot *run;
	int64 run_id;		  /* of the child */
	TimestampTz ended_at; /* DT_NOBEGIN: the child was deleted */
} PgqrsChildSteps;

extern void pgqrs_child_steps_begin(PgqrsChildSteps *c, const PgqrsStepRows *s);

/*
 * Whether the child that was started as that step has ended; sets run_id and
 * ended_at.  PQ016.
 */
extern bool pgqrs_child_has_ended(PgqrsChildSteps *c, const char *step_id);

/*
 * Ends the step with the end of its child, as awaiting it does; false: the
 * child has not ended.
 */
extern bool pgqrs_child_take_end(PgqrsChildSteps *c, const char *step_id,
								 PgqrsChildEnd *end);

/*
 * Fills the step of a child with its end, as awaiting it would; run: a slot
 * of runs. False: the child has not ended.
 */
extern bool pgqrs_child_fill_end(PgqrsTable *runs, TupleTableSlot *run,
								 int64 child, PgqrsRow *step);

#endif /* PGQRS_CHILD_H */
