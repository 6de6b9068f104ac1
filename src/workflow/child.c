/*
 * child.c
 *	  Child runs: starting and awaiting them.
 *
 * Runs in a worker's backend, under the lease of the parent.  The step that
 * starts a child stores the child's id as its input.  Children that are started
 * together have a step each and a common step, which stores all ids.  A start
 * locks the parent's message like any step.  It writes the step's row before it
 * creates the child, so that of two concurrent calls only one starts it.
 *
 * Awaiting is a wait like others (wait_step.c).  It never locks a child's
 * message: the child's run tells whether it has ended.
 *
 * A failed child is a failed step: a replay of the parent moves the step to
 * PENDING, and the next start creates another child, which takes the key of the
 * first.  A first child that was only requested to stop stays the child, with
 * STOPPING in the step; once it has stopped, an await gives the lease up, and
 * the next start creates another child.
 */
#include "workflow/child.h"

#include "access/detoast.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/guc.h"
#include "base/name.h"
#include "miscadmin.h"
#include "store/scan.h"
#include "store/tuple.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "workflow/family.h"
#include "workflow/run_wakeup.h"
#include "workflow/wait_step.h"

/*
 * Starting
 */

static void
error_not_single(const PgqrsStepRows *s)
{
	ereport(ERROR,
			(errcode(ERRCODE_PGQRS_INVALID_STATE),
			 errmsg("step \"%s\" of run " INT64_FORMAT " stands for several children",
					s->step_id, s->run_id),
			 errdetail("The children were started with pgqrs_start_children()."),
			 errhint("Use pgqrs_await_children(), or the step of a single child.")));
}

static void
error_not_many(const PgqrsStepRows *s)
{
	ereport(ERROR,
			(errcode(ERRCODE_PGQRS_INVALID_STATE),
			 errmsg("step \"%s\" of run " INT64_FORMAT " stands for one child",
					s->step_id, s->run_id),
			 errdetail("The child was started with pgqrs_start_child()."),
			 errhint("Use pgqrs_await_child(), or another step id.")));
}

/*
 * A run that failed by this instant loses the child's key to the child: any
 * failed run in a replay; in a rerun, a run that failed before it.  0: none.
 */
static TimestampTz
failed_by(const PgqrsStepRows *s)
{
	if (s->found && !pgqrs_is_null(s->step, Steps_input))
		return DT_NOEND;
	if (!pgqrs_is_null(s->run.run, Runs_rerun_of))
		return pgqrs_get_time(s->run.run, Runs_created_at);
	return 0;
}

/* Sets what the child's trigger inherits from the parent. */
static void
set_parent(PgqrsStepRows *s, PgqrsNewRun *r)
{
	TupleTableSlot *message = s->run.message;

	r->parent_run_id = s->run_id;
	r->parent_step_id = s->step_id;
	r->failed_by = failed_by(s);
	if (r->on_parent_end != PARENT_END_ABANDON &&
		!pgqrs_is_null(message, Messages_deadline_at))
		r->latest_deadline = pgqrs_get_time(message, Messages_deadline_at);
}

/* A run that is its own child would wait for its own end. */
static void
refuse_self(const PgqrsStepRows *s, int64 child)
{
	if (child == s->run_id)
		ereport(ERROR,
				(errcode(ERRCODE_PGQRS_INVALID_STATE),
				 errmsg("run " INT64_FORMAT " cannot be its own child", child),
				 errdetail("The run has the idempotency key of the new child."),
				 errhint("Use another workflow or another key for the child.")));
}

static int
parent_priority(PgqrsStepRows *s)
{
	return DatumGetInt16(pgqrs_get(s->run.run, Runs_priority));
}

/* The child whose id the step stores; 0: none. */
static int64
stored_child(const PgqrsStepRows *s)
{
	NullableDatum input = pgqrs_step_value(s, Steps_input);
	int64 child = 0;

	if (!input.isnull && !pgqrs_json_int64(input.value, "run_id", &child))
		error_not_single(s);
	return child;
}

/* The number of children whose ids the step stores, and the ids; -1: no ids. */
static int
stored_children(const PgqrsStepRows *s, int64 **ids)
{
	NullableDatum input = pgqrs_step_value(s, Steps_input);
	int count;

	*ids = NULL;
	if (input.isnull)
		return -1;
	count = pgqrs_json_count(input.value, "run_ids");
	if (count < 0)
		error_not_many(s);
	*ids = palloc(count * sizeof(int64));
	for (int i = 0; i < count; i++)
		(*ids)[i] = pgqrs_json_element(input.value, "run_ids", i);
	return count;
}

typedef enum ChildState
{
	CHILD_FAILED, /* or was deleted, or never started */
	CHILD_STOPPING,
	CHILD_WANTED /* not ended, or succeeded */
} ChildState;

/* Whether a replayed run can keep the child. */
static ChildState
child_state(PgqrsStepRows *s, int64 child)
{
	TupleTableSlot *run = pgqrs_table_slot(s->run.runs);
	PgqrsRunStatus status;

	if (child == 0 || !pgqrs_row_fetch_id(s->run.runs, child, run))
		return CHILD_FAILED;
	status = pgqrs_run_status(run);
	if (status == RUN_ERROR || status == RUN_CANCELLED)
		return CHILD_FAILED;
	return status == RUN_SUCCESS || pgqrs_is_null(run, Runs_cancel_requested_at) ?
		CHILD_WANTED :
		CHILD_STOPPING;
}

/*
 * The status in the input of a step, or of a common step, with a stopping
 * child.
 */
#define STOPPING "STOPPING"

static bool
says_stopping(const PgqrsStepRows *s)
{
	NullableDatum input = pgqrs_step_value(s, Steps_input);
	char *status = input.isnull ? NULL : pgqrs_json_text(input.value, "status");

	return status != NULL && strcmp(status, STOPPING) == 0;
}

static bool
is_stopping(PgqrsStepRows *s)
{
	return says_stopping(s) && !pgqrs_step_is_finished(s);
}

/* Whether the child of the step was stopping and has ended since. */
static bool
has_stopped(PgqrsStepRows *s)
{
	return is_stopping(s) && child_state(s, stored_child(s)) == CHILD_FAILED;
}

/* The number of children's steps for which the condition holds. */
static int
count_child_steps(PgqrsStepRows *s, int count, bool (*condition)(PgqrsStepRows *))
{
	PgqrsStepRows one = *s;
	int found = 0;

	one.step = pgqrs_table_slot(s->steps);
	for (int i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		one.step_id = psprintf("%s[%d]", s->step_id, i + 1);
		pgqrs_step_fetch(&one);
		if (condition(&one))
			found++;
	}
	return found;
}

/* Stores the child in the existing step, which stays RUNNING. */
static void
store_child(PgqrsStepRows *s, int64 child, bool stopping)
{
	Datum input = pgqrs_json_run(child, stopping ? STOPPING : NULL);

	pgqrs_step_fetch(s);
	if (!s->found || !pgqrs_wait_step_start(s, pgqrs_value(input)))
		elog(ERROR, "step \"%s\" of run " INT64_FORMAT " changed under lock",
			 s->step_id, s->run_id);
}

/* Ends the RUNNING step with SUCCESS, without a child. */
static void
finish_without_child(PgqrsStepRows *s, Datum output)
{
	pgqrs_step_fetch(s);
	pgqrs_wait_step_finish(s, STEP_SUCCESS, PGQRS_NULL, pgqrs_value(output),
						   PGQRS_NULL);
}

/*
 * Starts the child of a step that is new or PENDING; *child is 0 if its key is
 * taken and on_duplicate asks for NULL.  False: a concurrent call has written
 * the step, read it again.
 */
static bool
start_child(PgqrsStepRows *s, const char *workflow, PgqrsNewRun *r, int64 *child)
{
	ChildState state;

	*child = stored_child(s);
	if (!pgqrs_wait_step_start(s, PGQRS_NULL))
		return false;
	state = child_state(s, *child);
	if (state == CHILD_FAILED)
	{
		set_parent(s, r);
		*child = pgqrs_run_trigger(workflow, r);
		refuse_self(s, *child);
		if (r->failed_by != 0)
			state = child_state(s, *child);
	}
	if (*child != 0)
	{
		if (state != CHILD_FAILED || r->idempotency_key != NULL)
			pgqrs_family_join(s->run.runs, s->run.messages, *child, s->run_id,
							  s->step_id, r->on_parent_end);
		store_child(s, *child, state == CHILD_STOPPING);
	}
	else
		finish_without_child(s, pgqrs_json_null());
	return true;
}

/* Whether the step was written since the run was triggered or replayed. */
static bool
is_started(const PgqrsStepRows *s)
{
	return s->found && pgqrs_step_status(s) != STEP_PENDING;
}

/*
 * Whether the call has to start the step's child; a waiting step starts another
 * child if its first one has stopped.
 */
static bool
has_to_start(PgqrsStepRows *s)
{
	s->any_move = s->run.has_message && has_stopped(s);
	return s->any_move || !is_started(s);
}

int64
pgqrs_child_start(int64 run_id, int64 lease, const char *step_id,
				  const char *workflow, PgqrsNewRun *r, bool own_priority)
{
	PgqrsWorkflow definition;
	PgqrsStepRows s;
	int64 child;

	pgqrs_require_writable();
	pgqrs_run_check(workflow, r, &definition);
	pgqrs_wait_step_open_shared(&s, run_id, lease, step_id, STEP_KIND_CHILD);
	if (!own_priority)
		r->priority = parent_priority(&s);
	for (;;)
	{
		if (!has_to_start(&s))
		{
			child = stored_child(&s);
			break;
		}
		if (start_child(&s, workflow, r, &child))
			break;
		pgqrs_step_fetch(&s);
	}
	pgqrs_wait_step_close(&s);
	return child;
}

/*
 * Starting many
 */

static char **
child_step_ids(const char *step_id, int count)
{
	char **ids = palloc(count * sizeof(char *));

	for (int i = 0; i < count; i++)
		ids[i] = psprintf("%s[%d]", step_id, i + 1);
	pgqrs_check_key(ids[count - 1], "step_id");
	return ids;
}

/* Stores the steps of children that were just started. */
static void
insert_child_steps(PgqrsStepRows *s, char **steps, const int64 *ids, int count)
{
	PgqrsStepRows one = *s;

	one.found = false;
	for (int i = 0; i < count; i++)
	{
		Datum input = pgqrs_json_run(ids[i], NULL);

		CHECK_FOR_INTERRUPTS();
		one.step_id = steps[i];
		if (!pgqrs_wait_step_start(&one, pgqrs_value(input)))
			ereport(ERROR,
					(errcode(ERRCODE_PGQRS_INVALID_STATE),
					 errmsg("run " INT64_FORMAT " has a step \"%s\" already",
							s->run_id, steps[i]),
					 errdetail("The existing step is not a child of step \"%s\".",
							   s->step_id),
					 errhint("Use another step id for the children.")));
	}
}

/* Starts the failed children of a replayed run again. */
static void
restart_children(PgqrsStepRows *s, char **steps, const char *workflow,
				 PgqrsNewRun *r, const PgqrsNewChildren *c, int64 *ids)
{
	PgqrsStepRows one = *s;

	one.step = pgqrs_table_slot(s->steps);
	for (int i = 0; i < c->count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		one.step_id = steps[i];
		r->input = c->inputs[i];
		r->idempotency_key = c->keys != NULL ? c->keys[i] : NULL;
		pgqrs_step_fetch(&one);
		if (!has_to_start(&one))
			continue;
		if (!start_child(&one, workflow, r, &ids[i]))
			elog(ERROR, "step \"%s\" of run " INT64_FORMAT " changed under lock",
				 steps[i], s->run_id);
	}
}

static void
refuse_count(const PgqrsStepRows *s, int started, int count)
{
	ereport(ERROR,
			(errcode(ERRCODE_PGQRS_INVALID_STATE),
			 errmsg("step \"%s\" of run " INT64_FORMAT " has %d children, not %d",
					s->step_id, s->run_id, started, count),
			 errdetail("An earlier call has started the children."),
			 errhint("Pass as many inputs as in that call, or use another step id.")));
}

static void
store_children(PgqrsStepRows *s, const int64 *ids, int count, bool stopping)
{
	Datum input = pgqrs_json_children(ids, count, stopping ? STOPPING : NULL);

	pgqrs_step_fetch(s);
	if (!s->found || !pgqrs_wait_step_start(s, pgqrs_value(input)))
		elog(ERROR, "step \"%s\" of run " INT64_FORMAT " changed under lock",
			 s->step_id, s->run_id);
}

/* Ends a step without children with SUCCESS; false: read the step again. */
static bool
start_no_children(PgqrsStepRows *s)
{
	Datum input = pgqrs_json_children(NULL, 0, NULL);

	if (!pgqrs_wait_step_start(s, pgqrs_value(input)))
		return false;
	finish_without_child(s, pgqrs_json_child_ends(NULL, 0));
	return true;
}

/* A child with a key may be an existing run of another parent. */
static void
join_keyed_children(PgqrsStepRows *s, char **steps, const int64 *ids,
					const PgqrsNewChildren *c)
{
	for (int i = 0; i < c->count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (c->keys[i] == NULL)
			continue;
		refuse_self(s, ids[i]);
		pgqrs_family_join(s->run.runs, s->run.messages, ids[i], s->run_id,
						  steps[i], c->run.on_parent_end);
	}
}

/*
 * Starts all children, or again those that failed; false: read the step again.
 */
static bool
start_children(PgqrsStepRows *s, const char *workflow,
			   const PgqrsNewChildren *c, int64 **ids)
{
	PgqrsNewRun r = c->run;
	int count = c->count;
	int before = stored_children(s, ids);
	char **steps;

	if (before >= 0 && before != count)
		refuse_count(s, before, count);
	if (count == 0)
		return start_no_children(s);
	steps = child_step_ids(s->step_id, count);
	if (!pgqrs_wait_step_start(s, PGQRS_NULL))
		return false;
	if (!c->own_priority)
		r.priority = parent_priority(s);
	set_parent(s, &r);
	if (before < 0)
	{
		*ids = palloc(count * sizeof(int64));
		r.parent_step_ids = steps;
		pgqrs_run_trigger_batch(workflow, &r, count, c->inputs, c->keys, *ids);
		if (c->keys != NULL)
			join_keyed_children(s, steps, *ids, c);
		insert_child_steps(s, steps, *ids, count);
	}
	else
		restart_children(s, steps, workflow, &r, c, *ids);
	store_children(s, *ids, count,
				   before >= 0 && count_child_steps(s, count, is_stopping) > 0);
	return true;
}

void
pgqrs_child_start_many(int64 run_id, int64 lease, const char *step_id,
					   const char *workflow, const PgqrsNewChildren *c, int64 **ids)
{
	PgqrsWorkflow definition;
	PgqrsStepRows s;

	pgqrs_require_writable();
	pgqrs_run_check(workflow, &c->run, &definition);
	pgqrs_wait_step_open_shared(&s, run_id, lease, step_id, STEP_KIND_CHILD);
	for (;;)
	{
		s.any_move = s.run.has_message && is_stopping(&s);
		if (is_started(&s) && !s.any_move)
		{
			int before = stored_children(&s, ids);

			if (before != c->count)
				refuse_count(&s, before, c->count);
			break;
		}
		if (start_children(&s, workflow, c, ids))
			break;
		pgqrs_step_fetch(&s);
	}
	pgqrs_wait_step_close(&s);
}

/*
 * Awaiting
 */

static void
require_started(const PgqrsStepRows *s)
{
	if (!s->found || pgqrs_is_null(s->step, Steps_input))
		ereport(ERROR,
				(errcode(ERRCODE_PGQRS_INVALID_STATE),
				 errmsg("run " INT64_FORMAT " has started no child as step \"%s\"",
						s->run_id, s->step_id),
				 errdetail("No call has started a child under this step id."),
				 errhint("Start children with pgqrs_start_child() or pgqrs_start_children().")));
}

static void
require_many(const PgqrsStepRows *s)
{
	int64 *ids;

	(void) stored_children(s, &ids);
}

/*
 * The error that the parent receives of a child that neither succeeded nor
 * stored one.
 */
static Datum
default_error(PgqrsRunStatus status, TupleTableSlot *run)
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
raw_size(TupleTableSlot *run, AttrNumber column)
{
	return pgqrs_is_null(run, column) ?
		0 :
		toast_raw_datum_size(pgqrs_get(run, column));
}

/* Without copy only isnull of the result is valid. */
static NullableDatum
child_result(TupleTableSlot *run, AttrNumber column, bool copy)
{
	return copy ? pgqrs_get_copy(run, column) : pgqrs_get_or_null(run, column);
}

/*
 * Reads the child's end; false if it has not ended.  A child without a row was
 * deleted.  *size grows by the size of its results; beyond the limit of
 * payloads they are not copied.  size NULL: a single child, without that limit.
 */
static bool
read_child_end(PgqrsTable *runs, TupleTableSlot *run, int64 child, Size *size,
			   PgqrsChildEnd *end)
{
	PgqrsRunStatus status = RUN_CANCELLED;
	bool found = pgqrs_row_fetch_id(runs, child, run);

	*end = (PgqrsChildEnd){child, .output = PGQRS_NULL, .error = PGQRS_NULL};
	if (found)
		status = pgqrs_run_status(run);
	end->status = pgqrs_enum_label(ENUM_RUN_STATUS, status);
	if (!pgqrs_run_is_terminal(status))
		return false;
	if (found && size != NULL)
		*size += raw_size(run, Runs_output) + raw_size(run, Runs_error);
	if (found)
	{
		bool copy = size == NULL || *size <= (Size) pgqrs_payload_max;

		end->output = child_result(run, Runs_output, copy);
		end->error = child_result(run, Runs_error, copy);
	}
	if (status != RUN_SUCCESS && end->error.isnull)
		end->error = pgqrs_value(default_error(status, found ? run : NULL));
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

	if (!read_child_end(runs, run, child, NULL, &end))
		return false;
	pgqrs_set(step, Steps_status,
			  pgqrs_enum_datum(ENUM_STEP_STATUS,
							   has_succeeded(&end) ? STEP_SUCCESS : STEP_ERROR));
	pgqrs_set(step, Steps_input, pgqrs_json_run(child, end.status));
	pgqrs_set(step, Steps_completed_at, TimestampTzGetDatum(pgqrs_clock()));
	/* set NULL values, too: a replay of the child may have changed them */
	pgqrs_set_or_null(step, Steps_output, end.output);
	pgqrs_set_or_null(step, Steps_error, end.error);
	return true;
}

/* Reads the child's end from the finished step. */
static void
read_stored_end(const PgqrsStepRows *s, PgqrsChildEnd *end)
{
	NullableDatum input = pgqrs_step_value(s, Steps_input);

	end->run_id = stored_child(s);
	end->status = input.isnull ? NULL : pgqrs_json_text(input.value, "status");
	end->output = pgqrs_step_value(s, Steps_output);
	end->error = pgqrs_step_value(s, Steps_error);
}

/*
 * Reads the end of the step's child, and ends the step with it; false: the
 * child has not ended.
 */
static bool
take_end(PgqrsStepRows *s, PgqrsChildEnd *end)
{
	if (pgqrs_step_is_finished(s))
	{
		read_stored_end(s, end);
		return true;
	}
	if (has_stopped(s) ||
		!read_child_end(s->run.runs, pgqrs_table_slot(s->run.runs),
						stored_child(s), NULL, end))
		return false;
	pgqrs_wait_step_finish(s, has_succeeded(end) ? STEP_SUCCESS : STEP_ERROR,
						   pgqrs_value(pgqrs_json_run(end->run_id, end->status)),
						   end->output, end->error);
	return true;
}

bool
pgqrs_child_await(int64 run_id, int64 lease, const char *step_id, PgqrsChildEnd *end)
{
	PgqrsStepRows s;
	bool done;

	pgqrs_wait_step_open(&s, run_id, lease, step_id, STEP_KIND_CHILD);
	require_started(&s);
	done = take_end(&s, end);
	if (!done)
		pgqrs_wait_step_suspend(&s, PGQRS_WAIT_CHILD, step_id, DT_NOEND,
								PGQRS_NULL, PGQRS_NULL);
	pgqrs_wait_step_close(&s);
	return done;
}

/*
 * Children beside another step
 */

void
pgqrs_child_steps_begin(PgqrsChildSteps *c, const PgqrsStepRows *s)
{
	c->step = *s;
	c->step.kind = STEP_KIND_CHILD;
	c->step.step = pgqrs_table_slot(s->steps);
	c->run = pgqrs_table_slot(s->run.runs);
}

static void
fetch_child_step(PgqrsChildSteps *c, const char *step_id)
{
	c->step.step_id = step_id;
	pgqrs_step_fetch(&c->step);
	require_started(&c->step);
	c->run_id = stored_child(&c->step);
}

bool
pgqrs_child_has_ended(PgqrsChildSteps *c, const char *step_id)
{
	bool stored;

	fetch_child_step(c, step_id);
	stored = pgqrs_step_is_finished(&c->step);
	if (!stored && has_stopped(&c->step))
		return false;
	c->ended_at = stored ? pgqrs_get_time(c->step.step, Steps_completed_at) :
						   DT_NOBEGIN;
	if (!pgqrs_row_fetch_id(c->step.run.runs, c->run_id, c->run))
		return true;
	if (!pgqrs_run_is_terminal(pgqrs_run_status(c->run)))
		return stored;
	c->ended_at = pgqrs_get_time(c->run, Runs_completed_at);
	return true;
}

bool
pgqrs_child_take_end(PgqrsChildSteps *c, const char *step_id, PgqrsChildEnd *end)
{
	fetch_child_step(c, step_id);
	return take_end(&c->step, end);
}

/* The ends of children that were started together. */
typedef struct ChildEnds
{
	PgqrsChildEnd *ends;
	int count;
	int ended;
	int succeeded;
	Size size; /* of all outputs and errors */
} ChildEnds;

/*
 * Reads the ends of the children; needs all: stops at the first that has not
 * ended, beginning with the last child.  Results beyond the common limit are
 * not copied.
 */
static void
read_child_ends(PgqrsStepRows *s, const int64 *ids, bool all, ChildEnds *e)
{
	TupleTableSlot *run = pgqrs_table_slot(s->run.runs);

	for (int i = e->count - 1; i >= 0; i--)
	{
		CHECK_FOR_INTERRUPTS();
		if (read_child_end(s->run.runs, run, ids[i], &e->size, &e->ends[i]))
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
truncate_value(NullableDatum *value)
{
	if (!value->isnull)
		value->value = pgqrs_json_truncated();
}

/*
 * All ends as one JSON value; results that exceed the common limit are
 * truncated.
 */
static Datum
child_ends_json(const ChildEnds *e)
{
	for (int i = 0; e->size > (Size) pgqrs_payload_max && i < e->count; i++)
	{
		truncate_value(&e->ends[i].output);
		truncate_value(&e->ends[i].error);
	}
	return pgqrs_json_child_ends(e->ends, e->count);
}

/*
 * The result returned for "any", NULL if no call awaited any.  A common step
 * finishes when all children have ended, or when the first has and a call
 * awaits any.  In the second case its input gets the key "any": JSON null until
 * all children have ended, then the result that was returned for "any", which
 * later calls return again.
 */
static NullableDatum
result_for_any(const PgqrsStepRows *s)
{
	NullableDatum input = PGQRS_NULL;

	if (pgqrs_step_is_finished(s))
		input = pgqrs_step_value(s, Steps_input);
	return input.isnull ? input : pgqrs_json_value(input.value, "any");
}

static bool
is_finished_for_all(const PgqrsStepRows *s)
{
	NullableDatum any = result_for_any(s);

	return pgqrs_step_is_finished(s) &&
		(any.isnull || !pgqrs_json_is_null(any.value));
}

static NullableDatum
stored_results(const PgqrsStepRows *s, bool all)
{
	NullableDatum any = all ? PGQRS_NULL : result_for_any(s);

	return any.isnull || pgqrs_json_is_null(any.value) ?
		pgqrs_step_value(s, Steps_output) :
		any;
}

/* Ends the common step, or ends it again for "all" after it ended for "any". */
static void
finish_many(PgqrsStepRows *s, Datum results, bool all, bool succeeded)
{
	Datum error = pgqrs_json_error("child_failed", "a child did not succeed");
	NullableDatum input = pgqrs_step_value(s, Steps_input);
	bool again = pgqrs_step_is_finished(s);

	if (again || !all)
		input.value = pgqrs_json_set_any(input.value,
										 again ? pgqrs_step_value(s, Steps_output) :
												 PGQRS_NULL);
	s->any_move = again;
	pgqrs_wait_step_finish(s, succeeded ? STEP_SUCCESS : STEP_ERROR, input,
						   pgqrs_value(results),
						   succeeded ? PGQRS_NULL : pgqrs_value(error));
}

/* True if enough children have ended; otherwise suspends the run. */
static bool
finish_or_suspend(PgqrsStepRows *s, bool all, NullableDatum *results)
{
	int64 *ids;
	ChildEnds e = {.count = stored_children(s, &ids)};
	int needed = all ? e.count : 1;

	e.ends = palloc0(e.count * sizeof(PgqrsChildEnd));
	read_child_ends(s, ids, all, &e);
	/* a child that has stopped is started again before its end counts */
	if (says_stopping(s))
		e.ended -= count_child_steps(s, e.count, has_stopped);
	if (e.ended < needed)
	{
		pgqrs_wait_step_suspend(s, all ? PGQRS_WAIT_ALL_CHILDREN : PGQRS_WAIT_ANY_CHILD,
								s->step_id, DT_NOEND, PGQRS_NULL, PGQRS_NULL);
		return false;
	}
	*results = pgqrs_value(child_ends_json(&e));
	finish_many(s, results->value, all, e.succeeded >= needed);
	return true;
}

bool
pgqrs_child_await_many(int64 run_id, int64 lease, const char *step_id, bool all,
					   NullableDatum *results)
{
	bool (*is_answered)(const PgqrsStepRows *) = all ? is_finished_for_all :
													   pgqrs_step_is_finished;
	PgqrsStepRows s;
	bool done = true;

	pgqrs_wait_step_open_if(&s, run_id, lease, step_id, STEP_KIND_CHILD,
							is_answered);
	require_started(&s);
	require_many(&s);
	if (is_answered(&s))
		*results = stored_results(&s, all);
	else
		done = finish_or_suspend(&s, all, results);
	pgqrs_wait_step_close(&s);
	return done;
}
