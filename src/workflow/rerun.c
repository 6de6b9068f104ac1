/*
 * rerun.c
 *	  Running an ended run again, as a new one.
 *
 * Runs in any backend.  The ended run is only read, under a key-share lock that
 * keeps it from being removed: it does not change any more but by a replay, of
 * which this sees what is committed.  The new run begins with copies of those of
 * its steps that succeeded and are to be kept, which the handler then finds
 * finished.
 */
#include "workflow/rerun.h"

#include "base/clock.h"
#include "base/errors.h"
#include "base/json.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "workflow/child.h"
#include "workflow/run.h"

static void
check_ended(TupleTableSlot *run, int64 run_id)
{
	PgqrsRunStatus status = pgqrs_run_status(run);

	if (!pgqrs_run_is_terminal(status))
		ereport(ERROR,
				(errcode(ERRCODE_PGQRS_INVALID_STATE),
				 errmsg("run " INT64_FORMAT " has not ended", run_id),
				 errdetail("It is %s.", pgqrs_enum_label(ENUM_RUN_STATUS, status)),
				 errhint("Wait for its end, or cancel it with pgqrs_cancel_run().")));
}

/* Keeps the run from being removed before its steps were copied. */
static void
lock_ended(PgqrsRunRows *rows, int64 run_id)
{
	if (!pgqrs_row_fetch_locked(rows->runs, run_id, LockTupleKeyShare, rows->run))
		pgqrs_error_run_not_found(run_id);
	check_ended(rows->run, run_id);
}

/* As the run was triggered, but for its key, its delay and its parent. */
static void
fill(PgqrsNewRun *r, TupleTableSlot *run, int64 run_id, const PgqrsRerun *rerun)
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

typedef struct Copying
{
	PgqrsTable *steps;
	PgqrsTable *runs;
	TupleTableSlot *run; /* of a child */
	int64 run_id;
	int64 new_run;
	const PgqrsRerun *rerun;
	TimestampTz from; /* the start of from_step */
	bool from_many;	  /* it stands for children that were started together */
} Copying;

static bool
fetch_step(PgqrsTable *steps, int64 run_id, const char *step_id, TupleTableSlot *step)
{
	Datum keys[2] = {Int64GetDatum(run_id), CStringGetTextDatum(step_id)};

	return pgqrs_row_fetch(steps, INDEX_STEPS_PKEY, 2, keys, step);
}

/* The children that a step stands for which started them together, or 0. */
static int
count_children(TupleTableSlot *step)
{
	if (pgqrs_enum_value(ENUM_STEP_KIND, pgqrs_get(step, Steps_kind)) !=
			STEP_KIND_CHILD ||
		pgqrs_is_null(step, Steps_input))
		return 0;
	return pgqrs_json_count(pgqrs_get(step, Steps_input), "run_ids");
}

/* Finds the step to begin with. */
static void
find_from(Copying *c)
{
	TupleTableSlot *step = pgqrs_table_slot(c->steps);
	const char *step_id = c->rerun->from_step;

	if (!fetch_step(c->steps, c->run_id, step_id, step))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("run " INT64_FORMAT " has no step \"%s\"", c->run_id, step_id),
				 errhint("Use one of those that pgqrs_list_steps() lists.")));
	c->from = DatumGetTimestampTz(pgqrs_get(step, Steps_started_at));
	c->from_many = count_children(step) > 0;
}

/* Whether it is the step to begin with, or of one of the children of that. */
static bool
is_from(const Copying *c, TupleTableSlot *step)
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

/* Whether a step of the ended run is kept as it is. */
static bool
is_kept(const Copying *c, TupleTableSlot *step)
{
	if (pgqrs_enum_value(ENUM_STEP_STATUS, pgqrs_get(step, Steps_status)) !=
		STEP_SUCCESS)
		return false;
	if (!c->rerun->keep_finished)
		return DatumGetTimestampTz(pgqrs_get(step, Steps_started_at)) < c->from;
	return c->rerun->from_step == NULL || !is_from(c, step);
}

static void
begin_copy(const Copying *c, TupleTableSlot *step, PgqrsRow *row)
{
	pgqrs_row_copy(row, c->steps, step);
	pgqrs_set(row, Steps_run_id, Int64GetDatum(c->new_run));
	pgqrs_set_null(row, Steps_lease);
}

static void
copy_finished(const Copying *c, TupleTableSlot *step)
{
	PgqrsRow row;

	begin_copy(c, step, &row);
	pgqrs_row_insert(c->steps, &row);
}

/* As after a replay. */
static void
copy_unfinished(const Copying *c, TupleTableSlot *step)
{
	PgqrsRow row;

	begin_copy(c, step, &row);
	pgqrs_set(&row, Steps_status, pgqrs_enum_datum(ENUM_STEP_STATUS, STEP_PENDING));
	pgqrs_set(&row, Steps_failures, Int32GetDatum(0));
	pgqrs_set_null(&row, Steps_output);
	pgqrs_set_null(&row, Steps_error);
	pgqrs_set_null(&row, Steps_completed_at);
	pgqrs_row_insert(c->steps, &row);
}

/*
 * With the end of its child; false: that has not ended.  It would tell its own
 * parent, the run that has ended, and not the new one.
 */
static bool
copy_awaited(const Copying *c, TupleTableSlot *step)
{
	PgqrsRow row;
	int64 child;

	begin_copy(c, step, &row);
	if (!pgqrs_json_int64(pgqrs_get(step, Steps_input), "run_id", &child) ||
		!pgqrs_child_fill_end(c->runs, c->run, child, &row))
		return false;
	pgqrs_row_insert(c->steps, &row);
	return true;
}

/*
 * Children that were started together have a step each, and one for all.  Of
 * these either is of use only with the other.  If that for all is kept, so are
 * those of children that have ended; if it is not, or others are not, it goes
 * along unfinished, with the ids of the children, so that the handler comes by
 * those and starts the others.
 */
static void
copy_together(const Copying *c, TupleTableSlot *all, int count)
{
	TupleTableSlot *one = pgqrs_table_slot(c->steps);
	char *step_id = TextDatumGetCString(pgqrs_get(all, Steps_step_id));
	bool all_kept = is_kept(c, all);
	bool any = false;
	bool whole = all_kept;

	for (int i = 1; i <= count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (!fetch_step(c->steps, c->run_id, psprintf("%s[%d]", step_id, i), one))
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

/* All as of one moment: a replay may have the ended run go on meanwhile. */
static void
copy_steps(const Copying *c)
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
			copy_together(c, step, count);
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
	Copying c = {.run_id = run_id, .rerun = rerun, .from = DT_NOBEGIN};
	PgqrsRunRows rows;
	PgqrsNewRun r;

	pgqrs_run_open(&rows);
	c.steps = pgqrs_table_open(TABLE_STEPS, true);
	c.runs = rows.runs;
	c.run = pgqrs_table_slot(rows.runs);
	pgqrs_run_require(&rows, run_id, PRIVILEGE_TRIGGER, LockTupleKeyShare);
	check_ended(rows.run, run_id);
	if (rerun->from_step != NULL) /* refused before anything is locked */
		find_from(&c);
	lock_ended(&rows, run_id);
	if (rerun->from_step != NULL)
		find_from(&c);
	fill(&r, rows.run, run_id, rerun);
	c.new_run = pgqrs_run_trigger(rows.queue.name, &r);
	if (rerun->keep_finished || rerun->from_step != NULL)
		copy_steps(&c);
	pgqrs_table_close(c.steps);
	pgqrs_run_close(&rows);
	return c.new_run;
}
