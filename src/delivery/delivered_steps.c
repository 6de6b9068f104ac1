/*
 * delivered_steps.c
 *	  The finished steps of a run, which are delivered with it.
 *
 * A worker that has them need not ask for them by pgqrs_step_begin().
 */
#include "delivery/delivered_steps.h"

#include "base/json.h"
#include "base/status.h"
#include "base/subxact.h"
#include "store/table.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "workflow/step_list.h"

/* Values of so many bytes are delivered. */
#define MAX_STEPS_SIZE (4 * 1024 * 1024)

static bool
is_finished_step(TupleTableSlot *step)
{
	PgqrsStepStatus status = pgqrs_enum_value(ENUM_STEP_STATUS,
											  pgqrs_get(step, Steps_status));

	return status == STEP_SUCCESS || status == STEP_ERROR;
}

static void
put_label(PgqrsJson *json, const char *key, PgqrsEnumId type, Datum value)
{
	pgqrs_json_put_text(json, key,
						pgqrs_enum_label(type, pgqrs_enum_value(type, value)));
}

/* Adds a step to the object; the size of its values. */
static Size
put_step(PgqrsJson *json, const char *step_id, TupleTableSlot *step)
{
	NullableDatum output = pgqrs_get_or_null(step, Steps_output);
	NullableDatum error = pgqrs_get_or_null(step, Steps_error);

	pgqrs_json_begin_inner(json, step_id);
	put_label(json, "kind", ENUM_STEP_KIND, pgqrs_get(step, Steps_kind));
	put_label(json, "status", ENUM_STEP_STATUS, pgqrs_get(step, Steps_status));
	pgqrs_json_put_json_or_null(json, "output", output);
	pgqrs_json_put_json_or_null(json, "error", error);
	pgqrs_json_put_bool(json, "undo", !pgqrs_is_null(step, Steps_undo));
	pgqrs_json_end_inner(json);
	return strlen(step_id) + (output.isnull ? 0 : pgqrs_json_size(output.value)) +
		(error.isnull ? 0 : pgqrs_json_size(error.value));
}

/* {"steps": {step id: …}}, and "steps_truncated" if these are not all. */
static Datum
steps_object(PgqrsTable *steps, int64 run_id, Size max_size)
{
	TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(steps->rel),
													&TTSOpsHeapTuple);
	int count;
	PgqrsListedStep *list = pgqrs_step_list(steps, run_id, is_finished_step, &count);
	PgqrsJson json;
	Size size = 0;
	int i;

	pgqrs_json_begin(&json);
	pgqrs_json_begin_inner(&json, "steps");
	for (i = 0; i < count && size < max_size; i++)
	{
		ExecStoreHeapTuple(list[i].row, slot, false);
		size += put_step(&json, list[i].step_id, slot);
	}
	ExecDropSingleTupleTableSlot(slot);
	pgqrs_json_end_inner(&json);
	if (i < count)
		pgqrs_json_put_bool(&json, "steps_truncated", true);
	return pgqrs_json_end(&json);
}

/* A subtransaction reads the steps of one run. */
typedef struct StepsOfRun
{
	MemoryContext context; /* of the result */
	int64 run_id;
	Size max_size;
	Datum steps;
} StepsOfRun;

static bool
read_steps(void *arg)
{
	StepsOfRun *s = arg;
	MemoryContext old = MemoryContextSwitchTo(s->context);
	PgqrsTable *steps = pgqrs_table_open(TABLE_STEPS, false);

	s->steps = steps_object(steps, s->run_id, s->max_size);
	pgqrs_table_close(steps);
	MemoryContextSwitchTo(old);
	return true;
}

static Datum
no_steps(void)
{
	PgqrsJson json;

	pgqrs_json_begin(&json);
	pgqrs_json_begin_inner(&json, "steps");
	pgqrs_json_end_inner(&json);
	pgqrs_json_put_bool(&json, "steps_truncated", true);
	return pgqrs_json_end(&json);
}

Datum
pgqrs_delivered_steps(int64 run_id, Size max_size)
{
	StepsOfRun s = {
		.context = CurrentMemoryContext,
		.run_id = run_id,
		.max_size = Min(max_size, MAX_STEPS_SIZE),
	};
	ErrorData *error = pgqrs_subtransaction(read_steps, &s);

	if (error == NULL)
		return s.steps;
	/* a cancel of the call, and a time-out, are not errors of the steps */
	if (ERRCODE_TO_CATEGORY(error->sqlerrcode) ==
		ERRCODE_TO_CATEGORY(ERRCODE_OPERATOR_INTERVENTION))
		ReThrowError(error);
	return no_steps();
}
