/*
 * child.c
 *	  Runs that a run starts, and waits for.
 *
 * Runs in a worker's backend, under the lease of the parent.  The step that
 * starts a child notes its id down, as its input; children that are started
 * together have a step each and one of their own, which notes all ids.  Starting
 * locks the parent's message like any step; the step's row is written before the
 * child, so that of two calls at once only one starts any.  Awaiting is a wait
 * like others (park.c).  No child's message is ever locked here: that a child
 * has ended is read from its run.
 *
 * A child that failed is a step that failed: a replay of the parent makes it
 * PENDING, and starting it again starts another one.
 */
#include "child.h"

#include "clock.h"
#include "errors.h"
#include "miscadmin.h"
#include "names.h"
#include "park.h"
#include "parked.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/timestamp.h"

/*
 * Starting
 */

static void
error_not_single(const PgqrsParkStep *w)
{
	ereport(ERROR,
			(errcode(ERRCODE_PGQRS_INVALID_STATE),
			 errmsg("step \"%s\" of run " INT64_FORMAT " stands for several children",
					w->step_id, w->run_id),
			 errdetail("They were started with pgqrs_start_children()."),
			 errhint("Use pgqrs_await_children(), or the step of one of them.")));
}

static void
error_not_many(const PgqrsParkStep *w)
{
	ereport(ERROR,
			(errcode(ERRCODE_PGQRS_INVALID_STATE),
			 errmsg("step \"%s\" of run " INT64_FORMAT " stands for one child",
					w->step_id, w->run_id),
			 errdetail("It was started with pgqrs_start_child()."),
			 errhint("Use pgqrs_await_child(), or another step id.")));
}

/* What the trigger of a child takes from its parent. */
static void
fill_parent(PgqrsParkStep *w, PgqrsNewRun *r)
{
	TupleTableSlot *message = w->run.message;

	r->parent_run_id = w->run_id;
	r->parent_step_id = w->step_id;
	if (!pgqrs_is_null(message, Messages_deadline_at))
		r->latest_deadline = DatumGetTimestampTz(
			pgqrs_get(message, Messages_deadline_at));
}

static int
parent_priority(PgqrsParkStep *w)
{
	return DatumGetInt16(pgqrs_get(w->run.run, Runs_priority));
}

/* The child that a step noted down; 0: none. */
static int64
noted_child(const PgqrsParkStep *w)
{
	Datum input;
	int64 child = 0;

	if (pgqrs_park_step_value(w, Steps_input, &input) &&
		!pgqrs_json_int64(input, "run_id", &child))
		error_not_single(w);
	return child;
}

/* How many children a step noted down, and which; -1: nothing. */
static int
noted_children(const PgqrsParkStep *w, int64 **ids)
{
	Datum input;
	int count;

	if (!pgqrs_park_step_value(w, Steps_input, &input))
		return -1;
	count = pgqrs_json_count(input, "run_ids");
	if (count < 0)
		error_not_many(w);
	*ids = palloc(count * sizeof(int64));
	for (int i = 0; i < count; i++)
		(*ids)[i] = pgqrs_json_element(input, "run_ids", i);
	return count;
}

/* Whether a child of a run that was replayed is still good for it. */
static bool
is_wanted(PgqrsParkStep *w, int64 child)
{
	TupleTableSlot *run = pgqrs_table_slot(w->run.runs);
	PgqrsRunStatus status;

	if (child == 0 || !pgqrs_row_fetch_id(w->run.runs, child, run))
		return false;
	status = pgqrs_run_status(run);
	return status != RUN_ERROR && status != RUN_CANCELLED &&
		(status == RUN_SUCCESS || pgqrs_is_null(run, Runs_cancel_requested_at));
}

/* The step of that run, which is there, moves on with the child that it has. */
static void
note_child(PgqrsParkStep *w, int64 child)
{
	Datum input = pgqrs_json_child(child, NULL);

	pgqrs_park_step_fetch(w);
	if (!w->found || !pgqrs_park_step_write(w, STEP_RUNNING, &input))
		elog(ERROR, "step \"%s\" of run " INT64_FORMAT " changed under lock",
			 w->step_id, w->run_id);
}

/* The step, which is RUNNING, has no child and has succeeded. */
static void
finish_without(PgqrsParkStep *w, Datum output)
{
	pgqrs_park_step_fetch(w);
	pgqrs_park_step_finish(w, STEP_SUCCESS, NULL, &output, NULL);
}

/*
 * Starts the child of a step that is not there, or PENDING again; *child is 0
 * where its key is taken and on_duplicate asks for that.  False: another call
 * was faster, look again.
 */
static bool
start(PgqrsParkStep *w, const char *workflow, PgqrsNewRun *r, int64 *child)
{
	*child = noted_child(w);
	if (!pgqrs_park_step_write(w, STEP_RUNNING, NULL))
		return false;
	if (!is_wanted(w, *child))
	{
		fill_parent(w, r);
		*child = pgqrs_run_trigger(workflow, r);
	}
	if (*child != 0)
		note_child(w, *child);
	else
		finish_without(w, pgqrs_json_null());
	return true;
}

/* Whether the step has been written since the run was triggered, or replayed. */
static bool
is_started(const PgqrsParkStep *w)
{
	return w->found && pgqrs_park_step_status(w) != STEP_PENDING;
}

int64
pgqrs_child_start(int64 run_id, int64 lease, const char *step_id,
				  const char *workflow, PgqrsNewRun *r, bool own_priority)
{
	PgqrsWorkflow definition;
	PgqrsParkStep w;
	int64 child;

	pgqrs_require_writable();
	pgqrs_run_check(workflow, r, &definition);
	pgqrs_park_step_open_shared(&w, run_id, lease, step_id, STEP_KIND_CHILD);
	if (!own_priority)
		r->priority = parent_priority(&w);
	for (;;)
	{
		if (is_started(&w))
		{
			child = noted_child(&w);
			break;
		}
		if (start(&w, workflow, r, &child))
			break;
		pgqrs_park_step_fetch(&w);
	}
	pgqrs_park_step_close(&w);
	return child;
}

/*
 * Starting many
 */

static char **
step_ids(const char *step_id, int count)
{
	char **ids = palloc(count * sizeof(char *));

	for (int i = 0; i < count; i++)
		ids[i] = psprintf("%s[%d]", step_id, i + 1);
	pgqrs_check_key(ids[count - 1], "step_id");
	return ids;
}

/* The steps of children that were just started. */
static void
add_steps(PgqrsParkStep *w, char **steps, const int64 *ids, int count)
{
	PgqrsParkStep one = *w;

	one.found = false;
	for (int i = 0; i < count; i++)
	{
		Datum input = pgqrs_json_child(ids[i], NULL);

		CHECK_FOR_INTERRUPTS();
		one.step_id = steps[i];
		if (!pgqrs_park_step_write(&one, STEP_RUNNING, &input))
			ereport(ERROR,
					(errcode(ERRCODE_PGQRS_INVALID_STATE),
					 errmsg("run " INT64_FORMAT " has a step \"%s\" already",
							w->run_id, steps[i]),
					 errdetail("It is none of the children of step \"%s\".", w->step_id),
					 errhint("Use another step id for the children.")));
	}
}

/* The children of a run that was replayed: those that failed are started again. */
static void
restart(PgqrsParkStep *w, char **steps, const char *workflow, PgqrsNewRun *r,
		const PgqrsNewChildren *c, int64 *ids)
{
	PgqrsParkStep one = *w;

	one.step = pgqrs_table_slot(w->steps);
	for (int i = 0; i < c->count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		one.step_id = steps[i];
		r->has_input = !c->no_inputs[i];
		r->input = c->inputs[i];
		r->idempotency_key = c->keys != NULL ? c->keys[i] : NULL;
		pgqrs_park_step_fetch(&one);
		if (is_started(&one))
			continue;
		if (!start(&one, workflow, r, &ids[i]))
			elog(ERROR, "step \"%s\" of run " INT64_FORMAT " changed under lock",
				 steps[i], w->run_id);
	}
}

static void
refuse_count(const PgqrsParkStep *w, int started, int count)
{
	ereport(ERROR,
			(errcode(ERRCODE_PGQRS_INVALID_STATE),
			 errmsg("step \"%s\" of run " INT64_FORMAT " has %d children, not %d",
					w->step_id, w->run_id, started, count),
			 errdetail("They were started by an earlier call."),
			 errhint("Pass as many inputs as in that call, or use another step id.")));
}

static void
note_children(PgqrsParkStep *w, const int64 *ids, int count)
{
	Datum input = pgqrs_json_children(ids, count);

	pgqrs_park_step_fetch(w);
	if (!w->found || !pgqrs_park_step_write(w, STEP_RUNNING, &input))
		elog(ERROR, "step \"%s\" of run " INT64_FORMAT " changed under lock",
			 w->step_id, w->run_id);
}

/* A step without children has succeeded; false: look again. */
static bool
start_none(PgqrsParkStep *w)
{
	Datum input = pgqrs_json_children(NULL, 0);

	if (!pgqrs_park_step_write(w, STEP_RUNNING, &input))
		return false;
	finish_without(w, pgqrs_json_child_ends(NULL, 0));
	return true;
}

/* Starts them, or again those that failed; false: look again. */
static bool
start_many(PgqrsParkStep *w, const char *workflow, const PgqrsNewChildren *c,
		   int64 **ids)
{
	PgqrsNewRun r = c->run;
	int count = c->count;
	int before = noted_children(w, ids);
	char **steps;

	if (before >= 0 && before != count)
		refuse_count(w, before, count);
	if (count == 0)
		return start_none(w);
	steps = step_ids(w->step_id, count);
	if (!pgqrs_park_step_write(w, STEP_RUNNING, NULL))
		return false;
	if (!c->own_priority)
		r.priority = parent_priority(w);
	fill_parent(w, &r);
	if (before < 0)
	{
		*ids = palloc(count * sizeof(int64));
		r.parent_step_ids = steps;
		pgqrs_run_trigger_batch(workflow, &r, count, c->inputs, c->no_inputs,
								c->keys, *ids);
		add_steps(w, steps, *ids, count);
	}
	else
		restart(w, steps, workflow, &r, c, *ids);
	note_children(w, *ids, count);
	return true;
}

void
pgqrs_child_start_many(int64 run_id, int64 lease, const char *step_id,
					   const char *workflow, const PgqrsNewChildren *c, int64 **ids)
{
	PgqrsWorkflow definition;
	PgqrsParkStep w;

	pgqrs_require_writable();
	pgqrs_run_check(workflow, &c->run, &definition);
	pgqrs_park_step_open_shared(&w, run_id, lease, step_id, STEP_KIND_CHILD);
	for (;;)
	{
		if (is_started(&w))
		{
			int before = noted_children(&w, ids);

			if (before != c->count)
				refuse_count(&w, before, c->count);
			break;
		}
		if (start_many(&w, workflow, c, ids))
			break;
		pgqrs_park_step_fetch(&w);
	}
	pgqrs_park_step_close(&w);
}

/*
 * Awaiting
 */

static void
require_started(const PgqrsParkStep *w)
{
	if (!w->found || pgqrs_is_null(w->step, Steps_input))
		ereport(ERROR,
				(errcode(ERRCODE_PGQRS_INVALID_STATE),
				 errmsg("run " INT64_FORMAT " has started no child as step \"%s\"",
						w->run_id, w->step_id),
				 errdetail("There is no such step."),
				 errhint("Start it with pgqrs_start_child() or pgqrs_start_children().")));
}

static bool
copy_value(TupleTableSlot *slot, AttrNumber column, Datum *value)
{
	if (pgqrs_is_null(slot, column))
		return false;
	*value = PointerGetDatum(PG_DETOAST_DATUM_COPY(pgqrs_get(slot, column)));
	return true;
}

/* What a run that did not succeed and has no error of its own tells its parent. */
static Datum
explain(PgqrsRunStatus status, TupleTableSlot *run)
{
	if (status == RUN_CANCELLED && run != NULL &&
		!pgqrs_is_null(run, Runs_cancel_reason))
		return pgqrs_json_error("cancelled",
								TextDatumGetCString(
									pgqrs_get(run, Runs_cancel_reason)));
	return pgqrs_json_error("cancelled",
							run != NULL ? "the run was cancelled" :
										  "the run was deleted");
}

/* How a child is doing; whether it has ended.  One that is gone was deleted. */
static bool
read_child(PgqrsTable *runs, TupleTableSlot *run, int64 child, PgqrsChildEnd *end)
{
	PgqrsRunStatus status = RUN_CANCELLED;
	bool found = pgqrs_row_fetch_id(runs, child, run);

	memset(end, 0, sizeof(*end));
	end->run_id = child;
	if (found)
		status = pgqrs_run_status(run);
	end->status = pgqrs_enum_label(ENUM_RUN_STATUS, status);
	if (!pgqrs_run_is_terminal(status))
		return false;
	if (found)
	{
		end->has_output = copy_value(run, Runs_output, &end->output);
		end->has_error = copy_value(run, Runs_error, &end->error);
	}
	if (status != RUN_SUCCESS && !end->has_error)
	{
		end->error = explain(status, found ? run : NULL);
		end->has_error = true;
	}
	return true;
}

static bool
has_succeeded(const PgqrsChildEnd *end)
{
	return strcmp(end->status, "SUCCESS") == 0;
}

bool
pgqrs_child_fill_end(PgqrsTable *runs, TupleTableSlot *run, int64 child,
					 PgqrsRow *step)
{
	PgqrsChildEnd end;

	if (!read_child(runs, run, child, &end))
		return false;
	pgqrs_set(step, Steps_status,
			  pgqrs_enum_datum(ENUM_STEP_STATUS,
							   has_succeeded(&end) ? STEP_SUCCESS : STEP_ERROR));
	pgqrs_set(step, Steps_input, pgqrs_json_child(child, end.status));
	pgqrs_set(step, Steps_completed_at, TimestampTzGetDatum(pgqrs_clock()));
	/* what it says of an end before a replay of the child is no longer so */
	pgqrs_set_null(step, Steps_output);
	pgqrs_set_null(step, Steps_error);
	if (end.has_output)
		pgqrs_set(step, Steps_output, end.output);
	if (end.has_error)
		pgqrs_set(step, Steps_error, end.error);
	return true;
}

/* What the step that has finished says of the child. */
static void
answer(const PgqrsParkStep *w, PgqrsChildEnd *end)
{
	Datum input;

	memset(end, 0, sizeof(*end));
	end->run_id = noted_child(w);
	if (pgqrs_park_step_value(w, Steps_input, &input))
		end->status = pgqrs_json_text(input, "status");
	end->has_output = pgqrs_park_step_value(w, Steps_output, &end->output);
	end->has_error = pgqrs_park_step_value(w, Steps_error, &end->error);
}

bool
pgqrs_child_await(int64 run_id, int64 lease, const char *step_id, PgqrsChildEnd *end)
{
	PgqrsParkStep w;
	bool done = true;

	pgqrs_park_step_open(&w, run_id, lease, step_id, STEP_KIND_CHILD);
	require_started(&w);
	if (pgqrs_park_step_finished(&w))
		answer(&w, end);
	else if (read_child(w.run.runs, pgqrs_table_slot(w.run.runs),
						noted_child(&w), end))
	{
		Datum input = pgqrs_json_child(end->run_id, end->status);

		pgqrs_park_step_finish(&w, has_succeeded(end) ? STEP_SUCCESS : STEP_ERROR,
							   &input, end->has_output ? &end->output : NULL,
							   end->has_error ? &end->error : NULL);
	}
	else
	{
		pgqrs_park_step_park(&w, PGQRS_WAIT_CHILD, step_id, DT_NOEND, NULL, NULL);
		done = false;
	}
	pgqrs_park_step_close(&w);
	return done;
}

/*
 * Reads all children; how many have ended, and how many of those well.  From
 * the last one on, since one that has not ended is enough for all.
 */
static int
read_children(PgqrsParkStep *w, const int64 *ids, int count, bool all,
			  PgqrsChildEnd *ends, int *succeeded)
{
	TupleTableSlot *run = pgqrs_table_slot(w->run.runs);
	int ended = 0;

	*succeeded = 0;
	for (int i = count - 1; i >= 0; i--)
	{
		CHECK_FOR_INTERRUPTS();
		if (read_child(w->run.runs, run, ids[i], &ends[i]))
		{
			ended++;
			if (has_succeeded(&ends[i]))
				(*succeeded)++;
		}
		else if (all)
			return ended;
	}
	return ended;
}

static void
finish_many(PgqrsParkStep *w, Datum results, bool well)
{
	Datum error = pgqrs_json_error("child_failed", "a child did not succeed");

	pgqrs_park_step_finish(w, well ? STEP_SUCCESS : STEP_ERROR, NULL, &results,
						   well ? NULL : &error);
}

bool
pgqrs_child_await_many(int64 run_id, int64 lease, const char *step_id, bool all,
					   Datum *results)
{
	PgqrsParkStep w;
	PgqrsChildEnd *ends;
	int64 *ids;
	int count;
	int ended;
	int succeeded;
	bool done = true;

	pgqrs_park_step_open(&w, run_id, lease, step_id, STEP_KIND_CHILD);
	require_started(&w);
	count = noted_children(&w, &ids);
	if (pgqrs_park_step_finished(&w))
		pgqrs_park_step_value(&w, Steps_output, results);
	else
	{
		ends = palloc(count * sizeof(PgqrsChildEnd));
		ended = read_children(&w, ids, count, all, ends, &succeeded);
		done = ended >= (all ? count : 1);
		if (done)
		{
			*results = pgqrs_json_child_ends(ends, count);
			finish_many(&w, *results, succeeded >= (all ? count : 1));
		}
		else
			pgqrs_park_step_park(&w, all ? PGQRS_WAIT_ALL_CHILDREN : PGQRS_WAIT_ANY_CHILD,
								 step_id, DT_NOEND, NULL, NULL);
	}
	pgqrs_park_step_close(&w);
	return done;
}
