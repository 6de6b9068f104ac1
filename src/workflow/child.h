/*
 * child.h
 *	  Runs that a run starts, and waits for.
 */
#ifndef PGQRS_CHILD_H
#define PGQRS_CHILD_H

#include "postgres.h"

#include "base/json.h"
#include "workflow/run.h"

/*
 * Starts a child as a step; r: what a trigger asks for, all but the parent.
 * The id of the child, of the one of an earlier call if there was one, or 0 where
 * its key was taken and on_duplicate says so.
 */
extern int64 pgqrs_child_start(int64 run_id, int64 lease, const char *step_id,
							   const char *workflow, PgqrsNewRun *r,
							   bool own_priority);

/* Children to be started together. */
typedef struct PgqrsNewChildren
{
	int count;
	NullableDatum *inputs;
	char **keys;	 /* idempotency keys, each of which may be NULL; or NULL */
	PgqrsNewRun run; /* what they have in common */
	bool own_priority;
} PgqrsNewChildren;

/* The same for many, as steps step_id[1..n]; their ids. */
extern void pgqrs_child_start_many(int64 run_id, int64 lease,
								   const char *step_id, const char *workflow,
								   const PgqrsNewChildren *c, int64 **ids);

/* False: it has not ended, and the run is parked. */
extern bool pgqrs_child_await(int64 run_id, int64 lease, const char *step_id,
							  PgqrsChildEnd *end);

/* The same for all, or any one, of those that were started together. */
extern bool pgqrs_child_await_many(int64 run_id, int64 lease, const char *step_id,
								   bool all, NullableDatum *results);

/*
 * Fills the step of a child with its end, as awaiting it would; slot: one of
 * runs.  False: it has not ended.
 */
extern bool pgqrs_child_fill_end(PgqrsTable *runs, TupleTableSlot *slot,
								 int64 child, PgqrsRow *step);

#endif /* PGQRS_CHILD_H */
