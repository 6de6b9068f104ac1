/*
 * run_trigger.h
 *	  Triggers: store new runs with their messages, and find runs by their keys.
 */
#ifndef PGQRS_RUN_TRIGGER_H
#define PGQRS_RUN_TRIGGER_H

#include "postgres.h"

#include "queue/message.h"
#include "store/table.h"
#include "workflow/workflow.h"

/* The arguments of a trigger; initialize with PGQRS_NEW_RUN. */
typedef struct PgqrsNewRun
{
	PgqrsWhen when;
	int priority;
	int64 timeout; /* microseconds, < 0: the workflow's */
	NullableDatum input;
	NullableDatum tags;
	NullableDatum headers;
	NullableDatum retry_policy;
	const char *idempotency_key; /* or NULL */
	PgqrsOnDuplicate on_duplicate;
	bool require_worker;	   /* PQ013 instead of a warning */
	bool no_warning;		   /* no client would read the warning */
	TimestampTz schedule_slot; /* or 0 */
	int64 rerun_of;			   /* or 0 */

	/* the parent of a child; 0: none */
	int64 parent_run_id;
	const char *parent_step_id;
	char **parent_step_ids; /* of a batch, one for each item; or NULL */
	PgqrsParentEnd on_parent_end;
	TimestampTz latest_deadline; /* 0: none */

	/*
	 * A run that has the key and failed by then loses it; 0: it keeps the key.
	 */
	TimestampTz failed_by;

	bool is_inserted; /* result: a run was stored */
} PgqrsNewRun;

#define PGQRS_NEW_RUN               \
	((PgqrsNewRun){                 \
		.input = PGQRS_NULL,        \
		.tags = PGQRS_NULL,         \
		.headers = PGQRS_NULL,      \
		.retry_policy = PGQRS_NULL, \
	})

/* PQ002, 42501 or 22023 unless the role may trigger such a run. */
extern void pgqrs_run_check(const char *name, const PgqrsNewRun *r,
							PgqrsWorkflow *workflow);

/*
 * Triggers a run: returns the id of the new run, or the result of on_duplicate
 * if the key is taken.
 */
extern int64 pgqrs_run_trigger(const char *name, PgqrsNewRun *r);
extern void pgqrs_run_trigger_batch(const char *name, PgqrsNewRun *r, int count,
									const NullableDatum *inputs, char **keys,
									int64 *ids);

/* The id of the run that has an idempotency key; the slots are for reading. */
extern bool pgqrs_run_by_key(PgqrsTable *messages, TupleTableSlot *message,
							 PgqrsTable *runs, TupleTableSlot *run,
							 int64 workflow_id, const char *key, int64 *id);

#endif /* PGQRS_RUN_TRIGGER_H */
