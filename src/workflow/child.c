/*
 * child.c
 *	  Runs that a run starts, and waits for.
 *
 * Runs in a worker's backend, under the lease of the parent.  The step that
 * starts a child notes its id down, as its input; children that are started
 * together have a step each and one of their own, which notes all ids.  Starting
 * locks the parent's message like any step; the step's row is written before the
 * child, so that of two calls at once only one starts any.  Awaiting is a wait
 * like others (wait_step.c).  No child's message is ever locked here: that a child
 * has ended is read from its run.
 *
 * A child that failed is a step that failed: a replay of the parent makes it
 * PENDING, and starting it again starts another one, which takes the key of the
 * first.  If that was only asked to stop, it is still the child, and the step
 * says STOPPING; if it does stop, awaiting it gives the run back, and starting
 * it once more starts another one.
 */
#include "workflow/child.h"

#include "access/detoast.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/guc.h"
#include "base/name.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/timestamp.h"
#include "workflow/family.h"
#include "workflow/run_wakeup.h"
#include "workflow/wait_step.h"

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

/*
 * A replay starts what failed anew, whoever else has the key; a rerun, what
 * failed before it.
 */
static TimestampTz
failed_by(const PgqrsParkStep *w)
{
	if (w->found && !pgqrs_is_null(w->step, Steps_input))
		return DT_NOEND;
	if (!pgqrs_is_null(w->run.run, Runs_rerun_of))
		return DatumGetTimestampTz(pgqrs_get(w->run.run, Runs_created_at));
	return 0;
}

/* What the trigger of a child takes from its parent. */
static void
fill_parent(PgqrsParkStep *w, PgqrsNewRun *r)
{
	TupleTableSlot *message = w->run.message;

	r->parent_run_id = w->run_id;
	r->parent_step_id = w->step_id;
	r->failed_by = failed_by(w);
	if (r->on_parent_end != PARENT_END_ABANDON &&
		!pgqrs_is_null(message, Messages_deadline_at))
		r->latest_deadline = DatumGetTimestampTz(
			pgqrs_get(message, Messages_deadline_at));
}

/* Its own key would have it wait for its own end. */
static void
refuse_self(const PgqrsParkStep *w, int64 child)
{
	if (child == w->run_id)
		ereport(ERROR,
				(errcode(ERRCODE_PGQRS_INVALID_STATE),
				 errmsg("run " INT64_FORMAT " cannot be its own child", child),
				 errdetail("It has the idempotency key that the child was to have."),
				 errhint("Use another workflow or another key for the child.")));
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

typedef enum ChildState
{
	CHILD_FAILED, /* or was deleted, or there is none */
	CHILD_STOPPING,
	CHILD_WANTED /* it goes on, or has succeeded */
} ChildState;

/* Whether a child of a run that was replayed is still good for it. */
static ChildState
child_state(PgqrsParkStep *w, int64 child)
{
	TupleTableSlot *run = pgqrs_table_slot(w->run.runs);
	PgqrsRunStatus status;

	if (child == 0 || !pgqrs_row_fetch_id(w->run.runs, child, run))
		return CHILD_FAILED;
	status = pgqrs_run_status(run);
	if (status == RUN_ERROR || status == RUN_CANCELLED)
		return CHILD_FAILED;
	return status == RUN_SUCCESS || pgqrs_is_null(run, Runs_cancel_requested_at) ?
		CHILD_WANTED :
		CHILD_STOPPING;
}

/* What a step, or that of many children, says where one of them is stopping. */
#define STOPPING "STOPPING"

static bool
says_stopping(const PgqrsParkStep *w)
{
	Datum input;
	char *status = NULL;

	if (pgqrs_park_step_value(w, Steps_input, &input))
		status = pgqrs_json_text(input, "status");
	return status != NULL && strcmp(status, STOPPING) == 0;
}

/* Whether the child of a step was stopping, and has done so. */
static bool
has_stopped(PgqrsParkStep *w)
{
	return says_stopping(w) && !pgqrs_park_step_finished(w) &&
		child_state(w, noted_child(w)) == CHILD_FAILED;
}

/* The step of that run, which is there, moves on with the child that it has. */
static void
note_child(PgqrsParkStep *w, int64 child, bool stopping)
{
	Datum input = pgqrs_json_child(child, stopping ? STOPPING : NULL);

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
	ChildState state;

	*child = noted_child(w);
	if (!pgqrs_park_step_write(w, STEP_RUNNING, NULL))
		return false;
	state = child_state(w, *child);
	if (state == CHILD_FAILED)
	{
		fill_parent(w, r);
		*child = pgqrs_run_trigger(workflow, r);
		refuse_self(w, *child);
		if (r->failed_by != 0)
			state = child_state(w, *child);
	}
	if (*child != 0)
	{
		if (state != CHILD_FAILED || r->idempotency_key != NULL)
			pgqrs_family_join(w->run.runs, w->run.messages, *child, w->run_id,
							  w->step_id, r->on_parent_end);
		note_child(w, *child, state == CHILD_STOPPING);
	}
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

/* Whether its child is to be started; the step may be parked at one that stopped. */
static bool
starts(PgqrsParkStep *w)
{
	w->again = w->run.has_message && has_stopped(w);
	return w->again || !is_started(w);
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
		if (!starts(&w))
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
		if (!starts(&one))
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
note_children(PgqrsParkStep *w, const int64 *ids, int count, bool stopping)
{
	Datum input = pgqrs_json_children(ids, count, stopping ? STOPPING : NULL);

	pgqrs_park_step_fetch(w);
	if (!w->found || !pgqrs_park_step_write(w, STEP_RUNNING, &input))
		elog(ERROR, "step \"%s\" of run " INT64_FORMAT " changed under lock",
			 w->step_id, w->run_id);
}

/* Whether one of the children was asked to stop before they were started anew. */
static bool
any_stopping(PgqrsParkStep *w, const int64 *ids, int count)
{
	PgqrsParkStep one = *w;

	one.step = pgqrs_table_slot(w->steps);
	for (int i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		one.step_id = psprintf("%s[%d]", w->step_id, i + 1);
		pgqrs_park_step_fetch(&one);
		if (says_stopping(&one) && !pgqrs_park_step_finished(&one))
			return true;
	}
	return false;
}

/* A step without children has succeeded; false: look again. */
static bool
start_none(PgqrsParkStep *w)
{
	Datum input = pgqrs_json_children(NULL, 0, NULL);

	if (!pgqrs_park_step_write(w, STEP_RUNNING, &input))
		return false;
	finish_without(w, pgqrs_json_child_ends(NULL, 0));
	return true;
}

/* What has a key may be a run that others have started. */
static void
join_all(PgqrsParkStep *w, char **steps, const int64 *ids, const PgqrsNewChildren *c)
{
	for (int i = 0; i < c->count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (c->keys[i] == NULL)
			continue;
		refuse_self(w, ids[i]);
		pgqrs_family_join(w->run.runs, w->run.messages, ids[i], w->run_id,
						  steps[i], c->run.on_parent_end);
	}
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
		if (c->keys != NULL)
			join_all(w, steps, *ids, c);
		add_steps(w, steps, *ids, count);
	}
	else
		restart(w, steps, workflow, &r, c, *ids);
	note_children(w, *ids, count, before >= 0 && any_stopping(w, *ids, count));
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
		w.again = w.run.has_message && says_stopping(&w) &&
			!pgqrs_park_step_finished(&w);
		if (is_started(&w) && !w.again)
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

static void
require_many(const PgqrsParkStep *w)
{
	int64 *ids;

	(void) noted_children(w, &ids);
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

static Size
size_of(TupleTableSlot *run, AttrNumber column)
{
	return pgqrs_is_null(run, column) ?
		0 :
		toast_raw_datum_size(pgqrs_get(run, column));
}

static void
copy_result(TupleTableSlot *run, PgqrsChildEnd *end)
{
	end->has_output = copy_value(run, Runs_output, &end->output);
	end->has_error = copy_value(run, Runs_error, &end->error);
}

/*
 * How a child is doing; whether it has ended.  One that is gone was deleted.
 * *size: that of results so far, to which this one is added; those over the
 * limit together are not copied.  NULL: it is alone.
 */
static bool
read_child(PgqrsTable *runs, TupleTableSlot *run, int64 child, Size *size,
		   PgqrsChildEnd *end)
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
	if (found && size != NULL)
		*size += size_of(run, Runs_output) + size_of(run, Runs_error);
	if (found && (size == NULL || *size <= (Size) pgqrs_payload_max))
		copy_result(run, end);
	else if (found)
	{
		end->has_output = !pgqrs_is_null(run, Runs_output);
		end->has_error = !pgqrs_is_null(run, Runs_error);
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

	if (!read_child(runs, run, child, NULL, &end))
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
	else if (!has_stopped(&w) &&
			 read_child(w.run.runs, pgqrs_table_slot(w.run.runs),
						noted_child(&w), NULL, end))
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

/* What has been read of children that were started together. */
typedef struct Ends
{
	PgqrsChildEnd *ends;
	int count;
	int ended;
	int succeeded;
	Size size; /* of their outputs and errors */
} Ends;

/*
 * Reads children, all of them if enough have ended.  From the last one on, since
 * one that has not ended is enough for all.  What is over the limit together is
 * not even copied.
 */
static void
read_children(PgqrsParkStep *w, const int64 *ids, bool all, Ends *e)
{
	TupleTableSlot *run = pgqrs_table_slot(w->run.runs);

	for (int i = e->count - 1; i >= 0; i--)
	{
		CHECK_FOR_INTERRUPTS();
		if (read_child(w->run.runs, run, ids[i], &e->size, &e->ends[i]))
		{
			e->ended++;
			if (has_succeeded(&e->ends[i]))
				e->succeeded++;
		}
		else if (all)
			return;
	}
}

static void
truncate_end(PgqrsChildEnd *end, Datum truncated)
{
	if (end->has_output)
		end->output = truncated;
	if (end->has_error)
		end->error = truncated;
}

/* All ends as one value, without outputs and errors that are too large together. */
static Datum
results_of(const Ends *e)
{
	Datum truncated = pgqrs_json_truncated();

	if (e->size > (Size) pgqrs_payload_max)
		for (int i = 0; i < e->count; i++)
			truncate_end(&e->ends[i], truncated);
	return pgqrs_json_child_ends(e->ends, e->count);
}

/*
 * A step of children that has finished has done so when all had ended, or when
 * any one had; then its input has the key "any".  Once all have ended too, what
 * was answered of any one is kept there.
 */
static bool
any_was_awaited(const PgqrsParkStep *w, Datum *results)
{
	Datum input;
	Datum any;

	if (!pgqrs_park_step_finished(w) ||
		!pgqrs_park_step_value(w, Steps_input, &input) ||
		!pgqrs_json_value(input, "any", &any))
		return false;
	*results = any;
	return true;
}

static bool
is_answered_for_all(const PgqrsParkStep *w)
{
	Datum any;

	return pgqrs_park_step_finished(w) &&
		(!any_was_awaited(w, &any) || !pgqrs_json_is_null(any));
}

static void
answer_many(const PgqrsParkStep *w, bool all, Datum *results)
{
	if (all || !any_was_awaited(w, results) || pgqrs_json_is_null(*results))
		pgqrs_park_step_value(w, Steps_output, results);
}

/* The step ends, or ends once more: it was answered for any one before. */
static void
finish_many(PgqrsParkStep *w, Datum results, bool all, bool well)
{
	Datum error = pgqrs_json_error("child_failed", "a child did not succeed");
	Datum input;
	Datum before;
	bool again = w->again = pgqrs_park_step_finished(w);

	pgqrs_park_step_value(w, Steps_input, &input);
	if (again)
		pgqrs_park_step_value(w, Steps_output, &before);
	if (again || !all)
		input = pgqrs_json_set_any(input, again ? &before : NULL);
	pgqrs_park_step_finish(w, well ? STEP_SUCCESS : STEP_ERROR, &input,
						   &results, well ? NULL : &error);
}

/* How many have stopped and are to be started anew before they count. */
static int
count_stopped(PgqrsParkStep *w, const Ends *e)
{
	PgqrsParkStep one = *w;
	int stopped = 0;

	if (!says_stopping(w))
		return 0;
	one.step = pgqrs_table_slot(w->steps);
	for (int i = 0; i < e->count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		one.step_id = psprintf("%s[%d]", w->step_id, i + 1);
		pgqrs_park_step_fetch(&one);
		if (has_stopped(&one))
			stopped++;
	}
	return stopped;
}

/* Whether enough have ended; if not, the run is parked. */
static bool
finish_or_park(PgqrsParkStep *w, bool all, Datum *results)
{
	int64 *ids;
	Ends e = {.count = noted_children(w, &ids)};
	int needed = all ? e.count : 1;

	e.ends = palloc0(e.count * sizeof(PgqrsChildEnd));
	read_children(w, ids, all, &e);
	e.ended -= count_stopped(w, &e);
	if (e.ended < needed)
	{
		pgqrs_park_step_park(w, all ? PGQRS_WAIT_ALL_CHILDREN : PGQRS_WAIT_ANY_CHILD,
							 w->step_id, DT_NOEND, NULL, NULL);
		return false;
	}
	*results = results_of(&e);
	finish_many(w, *results, all, e.succeeded >= needed);
	return true;
}

bool
pgqrs_child_await_many(int64 run_id, int64 lease, const char *step_id, bool all,
					   Datum *results)
{
	bool (*is_answered)(const PgqrsParkStep *) = all ? is_answered_for_all :
													   pgqrs_park_step_finished;
	PgqrsParkStep w;
	bool done = true;

	pgqrs_park_step_open_if(&w, run_id, lease, step_id, STEP_KIND_CHILD,
							is_answered);
	require_started(&w);
	require_many(&w);
	if (is_answered(&w))
		answer_many(&w, all, results);
	else
		done = finish_or_park(&w, all, results);
	pgqrs_park_step_close(&w);
	return done;
}
