/*
 * rerun.c
 *	  Reruns: new runs with the input, and on request the steps, of an ended run.
 *
 * Runs in any backend.  The ended run is locked in mode KEY SHARE, which keeps
 * retention from removing it, and is only read.  Only a replay can change an
 * ended run; a rerun sees the committed state.  The new run starts with copies of
 * the steps to keep, which its worker then finds finished.
 *
 * A rerun of many runs locks each in mode NO KEY UPDATE, so that of two such calls
 * the later one sees the rerun of the earlier one.
 */
#include "workflow/rerun.h"

#include "base/clock.h"
#include "base/errors.h"
#include "base/json.h"
#include "miscadmin.h"
#include "store/scan.h"
#include "store/tuple.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "workflow/child.h"
#include "workflow/run.h"
#include "workflow/run_trigger.h"
#include "workflow/step.h"

static void
check_ended(TupleTableSlot *run, int64 run_id)
{
	PgqrsRunStatus status = pgqrs_run_status(run);

	if (!pgqrs_run_is_terminal(status))
		ereport(ERROR,
				(errcode(ERRCODE_PGQRS_INVALID_STATE),
				 errmsg("run " INT64_FORMAT " has not ended", run_id),
				 errdetail("The status is %s.",
						   pgqrs_enum_label(ENUM_RUN_STATUS, status)),
				 errhint("Wait until the run has ended, or cancel it with pgqrs_cancel_run().")));
}

/* An undo that has failed may have undone some of the steps. */
static bool
can_keep_steps(TupleTableSlot *run)
{
	return pgqrs_is_null(run, Runs_undo_cause);
}

static void
require_kept_steps(TupleTableSlot *run, int64 run_id)
{
	if (!can_keep_steps(run))
		ereport(ERROR,
				(errcode(ERRCODE_PGQRS_INVALID_STATE),
				 errmsg("run " INT64_FORMAT " was asked to undo its steps", run_id),
				 pgqrs_is_null(run, Runs_undone) ?
					 errdetail("Some of its finished steps may be undone.") :
					 errdetail("Its finished steps are undone."),
				 errhint("Rerun it from the beginning.")));
}

/* Keeps retention from removing the run while its steps are copied. */
static void
lock_ended(PgqrsRunRows *rows, int64 run_id)
{
	if (!pgqrs_row_fetch_locked(rows->runs, run_id, LockTupleKeyShare, rows->run))
		pgqrs_error_run_not_found(run_id);
	check_ended(rows->run, run_id);
}

/* Copies the arguments of the ended run, except for key, delay and parent. */
static void
fill_rerun(PgqrsNewRun *r, TupleTableSlot *run, int64 run_id, const PgqrsRerun *rerun)
{
	*r = PGQRS_NEW_RUN;
	r->rerun_of = run_id;
	r->priority = DatumGetInt16(pgqrs_get(run, Runs_priority));
	if (!pgqrs_is_null(run, Runs_timeout))
		r->timeout = pgqrs_duration(DatumGetIntervalP(pgqrs_get(run, Runs_timeout)),
									"timeout");
	r->input = rerun->input.isnull ? pgqrs_get_or_null(run, Runs_input) :
									 rerun->input;
	r->tags = pgqrs_get_or_null(run, Runs_tags);
	r->headers = pgqrs_get_or_null(run, Runs_headers);
	r->retry_policy = pgqrs_get_or_null(run, Runs_retry_policy);
}

/*
 * Steps
 */

typedef struct StepCopy
{
	PgqrsTable *steps;
	PgqrsTable *runs;
	TupleTableSlot *run; /* of a child */
	int64 run_id;
	int64 new_run;
	const PgqrsRerun *rerun;
	TimestampTz from; /* the start of from_step */
	bool from_many;	  /* from_step started several children together */
} StepCopy;

/* The number of children that the step started together, or 0. */
static int
count_children(TupleTableSlot *step)
{
	if (pgqrs_enum_value(ENUM_STEP_KIND, pgqrs_get(step, Steps_kind)) !=
			STEP_KIND_CHILD ||
		pgqrs_is_null(step, Steps_input))
		return 0;
	return pgqrs_json_count(pgqrs_get(step, Steps_input), "run_ids");
}

/* Reads from_step. */
static void
read_from_step(StepCopy *c)
{
	TupleTableSlot *step = pgqrs_table_slot(c->steps);
	const char *step_id = c->rerun->from_step;

	if (!pgqrs_step_fetch_row(c->steps, c->run_id, step_id, step))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("run " INT64_FORMAT " has no step \"%s\"", c->run_id, step_id),
				 errhint("Use a step that pgqrs_list_steps() lists.")));
	c->from = pgqrs_get_time(step, Steps_started_at);
	c->from_many = count_children(step) > 0;
}

/* Whether the step is from_step, or belongs to one of the children of from_step. */
static bool
is_from_step(const StepCopy *c, TupleTableSlot *step)
{
	char *step_id = TextDatumGetCString(pgqrs_get(step, Steps_step_id));
	size_t len = strlen(c->rerun->from_step);

	if (strncmp(step_id, c->rerun->from_step, len) != 0)
		return false;
	step_id += len;
	return *step_id == '\0' ||
		(c->from_many && *step_id == '[' &&
		 strcmp(step_id + 1 + strspn(step_id + 1, "0123456789"), "]") == 0);
}

/* Whether the new run gets a copy of the step as it is. */
static bool
is_kept(const StepCopy *c, TupleTableSlot *step)
{
	if (pgqrs_enum_value(ENUM_STEP_STATUS, pgqrs_get(step, Steps_status)) !=
		STEP_SUCCESS)
		return false;
	if (!c->rerun->keep_finished)
		return pgqrs_get_time(step, Steps_started_at) < c->from;
	return c->rerun->from_step == NULL || !is_from_step(c, step);
}

static void
init_step_copy(const StepCopy *c, TupleTableSlot *step, PgqrsRow *row)
{
	pgqrs_row_copy(row, c->steps, step);
	pgqrs_set(row, Steps_run_id, Int64GetDatum(c->new_run));
	pgqrs_set_null(row, Steps_lease);
}

static void
copy_finished(const StepCopy *c, TupleTableSlot *step)
{
	PgqrsRow row;

	init_step_copy(c, step, &row);
	pgqrs_row_insert(c->steps, &row);
}

/* The copy is reset as a replay resets a failed step. */
static void
copy_unfinished(const StepCopy *c, TupleTableSlot *step)
{
	PgqrsRow row;

	init_step_copy(c, step, &row);
	pgqrs_set(&row, Steps_status, pgqrs_enum_datum(ENUM_STEP_STATUS, STEP_PENDING));
	pgqrs_set(&row, Steps_failures, Int32GetDatum(0));
	pgqrs_set_null(&row, Steps_output);
	pgqrs_set_null(&row, Steps_error);
	pgqrs_set_null(&row, Steps_completed_at);
	pgqrs_row_insert(c->steps, &row);
}

/*
 * Copies the step with the result of its child.  False if the child has not
 * ended: it would report its end to the ended run instead of the new one.
 */
static bool
copy_awaited(const StepCopy *c, TupleTableSlot *step)
{
	PgqrsRow row;
	int64 child;

	init_step_copy(c, step, &row);
	if (!pgqrs_json_int64(pgqrs_get(step, Steps_input), "run_id", &child) ||
		!pgqrs_child_fill_end(c->runs, c->run, child, &row))
		return false;
	pgqrs_row_insert(c->steps, &row);
	return true;
}

/*
 * Children that were started together have a step each, and a common step.  A
 * child's step needs the common step.  If the common step is to be kept, so are
 * the steps of all children that have ended.  If any child's step is missing, the
 * common step is copied unfinished with the ids of the children, so that the
 * worker finds the kept children and starts the others.
 */
static void
copy_children_step(const StepCopy *c, TupleTableSlot *all, int count)
{
	TupleTableSlot *one = pgqrs_table_slot(c->steps);
	char *step_id = TextDatumGetCString(pgqrs_get(all, Steps_step_id));
	bool all_kept = is_kept(c, all);
	bool any = false;
	bool whole = all_kept;

	for (int i = 1; i <= count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (!pgqrs_step_fetch_row(c->steps, c->run_id,
								  psprintf("%s[%d]", step_id, i), one))
			continue;
		if (is_kept(c, one) || (all_kept && copy_awaited(c, one)))
			any = true;
		else
			whole = false;
	}
	if (whole)
		copy_finished(c, all);
	else if (any)
		copy_unfinished(c, all);
}

/* Copies under one snapshot, since a replay may continue the ended run meanwhile. */
static void
copy_steps(const StepCopy *c)
{
	TupleTableSlot *step = pgqrs_table_slot(c->steps);
	PgqrsKey key = {1, BTEqualStrategyNumber, Int64GetDatum(c->run_id)};
	PgqrsScan scan;

	c->steps->snapshot = RegisterSnapshot(GetLatestSnapshot());
	pgqrs_scan_begin(&scan, c->steps, INDEX_STEPS_PKEY, 1, &key);
	while (pgqrs_scan_next(&scan, step))
	{
		int count = count_children(step);

		CHECK_FOR_INTERRUPTS();
		if (count > 0)
			copy_children_step(c, step, count);
		else if (is_kept(c, step))
			copy_finished(c, step);
	}
	pgqrs_scan_end(&scan);
	UnregisterSnapshot(c->steps->snapshot);
	c->steps->snapshot = NULL;
}

int64
pgqrs_rerun_start(int64 run_id, const PgqrsRerun *rerun)
{
	StepCopy c = {.run_id = run_id, .rerun = rerun, .from = DT_NOBEGIN};
	PgqrsRunRows rows;
	PgqrsNewRun r;

	pgqrs_run_open(&rows);
	c.steps = pgqrs_table_open(TABLE_STEPS, true);
	c.runs = rows.runs;
	c.run = pgqrs_table_slot(rows.runs);
	pgqrs_run_require(&rows, run_id, PRIVILEGE_TRIGGER, LockTupleKeyShare);
	check_ended(rows.run, run_id);
	if (rerun->from_step != NULL) /* an unknown step is an error before the lock */
		read_from_step(&c);
	lock_ended(&rows, run_id);
	if (rerun->keep_finished || rerun->from_step != NULL)
		require_kept_steps(rows.run, run_id);
	if (rerun->from_step != NULL)
		read_from_step(&c);
	fill_rerun(&r, rows.run, run_id, rerun);
	c.new_run = pgqrs_run_trigger(rows.queue.name, &r);
	if (rerun->keep_finished || rerun->from_step != NULL)
		copy_steps(&c);
	pgqrs_table_close(c.steps);
	pgqrs_run_close(&rows);
	return c.new_run;
}

/*
 * The lock on the run keeps two calls from starting a rerun of it each.  The steps
 * of a run that was asked to undo them cannot be kept.
 */
bool
pgqrs_rerun_once(const char *workflow, int64 run_id, PgqrsRunStatus status,
				 const PgqrsRerun *rerun)
{
	StepCopy c = {.run_id = run_id, .rerun = rerun, .from = DT_NOBEGIN};
	Datum key = Int64GetDatum(run_id);
	TupleTableSlot *run;
	PgqrsNewRun r;
	bool started;

	c.steps = pgqrs_table_open(TABLE_STEPS, true);
	c.runs = pgqrs_table_open(TABLE_RUNS, true);
	c.run = pgqrs_table_slot(c.runs);
	run = pgqrs_table_slot(c.runs);
	started = pgqrs_row_fetch_locked(c.runs, run_id, LockTupleNoKeyExclusive, run) &&
		pgqrs_run_status(run) == status && pgqrs_is_null(run, Runs_deleted_at) &&
		(!rerun->keep_finished || can_keep_steps(run)) &&
		!pgqrs_row_fetch(c.runs, INDEX_RUNS_RERUN, 1, &key, c.run);
	if (started)
	{
		fill_rerun(&r, run, run_id, rerun);
		c.new_run = pgqrs_run_trigger(workflow, &r);
		if (rerun->keep_finished)
			copy_steps(&c);
	}
	pgqrs_table_close(c.runs);
	pgqrs_table_close(c.steps);
	return started;
}
