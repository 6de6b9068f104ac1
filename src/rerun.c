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
#include "rerun.h"

#include "clock.h"
#include "errors.h"
#include "miscadmin.h"
#include "run.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

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

static bool
take(TupleTableSlot *run, RunsColumn column, Datum *value)
{
	if (pgqrs_is_null(run, column))
		return false;
	*value = pgqrs_get(run, column);
	return true;
}

/* As the run was triggered, but for its key, its delay and its parent. */
static void
fill(PgqrsNewRun *r, TupleTableSlot *run, int64 run_id, const PgqrsRerun *rerun)
{
	Datum timeout;

	memset(r, 0, sizeof(*r));
	r->rerun_of = run_id;
	r->priority = DatumGetInt16(pgqrs_get(run, Runs_priority));
	if (take(run, Runs_timeout, &timeout))
		r->timeout = pgqrs_duration(DatumGetIntervalP(timeout), "timeout");
	r->has_input = take(run, Runs_input, &r->input);
	r->has_tags = take(run, Runs_tags, &r->tags);
	r->has_headers = take(run, Runs_headers, &r->headers);
	r->has_retry_policy = take(run, Runs_retry_policy, &r->retry_policy);
	if (rerun->input != NULL)
	{
		r->has_input = true;
		r->input = *rerun->input;
	}
}

/*
 * Steps
 */

/* When the step to begin with was started. */
static TimestampTz
start_of(PgqrsTable *steps, int64 run_id, const char *step_id)
{
	TupleTableSlot *slot = pgqrs_table_slot(steps);
	Datum keys[2] = {Int64GetDatum(run_id), CStringGetTextDatum(step_id)};

	if (!pgqrs_row_fetch(steps, INDEX_STEPS_PKEY, 2, keys, slot))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("run " INT64_FORMAT " has no step \"%s\"", run_id, step_id),
				 errhint("Use one of those that pgqrs_list_steps() lists.")));
	return DatumGetTimestampTz(pgqrs_get(slot, Steps_started_at));
}

/* Whether a step of the ended run is kept; from: the start of from_step. */
static bool
is_kept(TupleTableSlot *step, const PgqrsRerun *rerun, TimestampTz from)
{
	char *step_id;

	if (pgqrs_enum_value(ENUM_STEP_STATUS, pgqrs_get(step, Steps_status)) !=
		STEP_SUCCESS)
		return false;
	if (!rerun->keep_finished)
		return DatumGetTimestampTz(pgqrs_get(step, Steps_started_at)) < from;
	if (rerun->from_step == NULL)
		return true;
	step_id = TextDatumGetCString(pgqrs_get(step, Steps_step_id));
	return strcmp(step_id, rerun->from_step) != 0;
}

static void
copy_steps(PgqrsTable *steps, int64 run_id, int64 new_run,
		   const PgqrsRerun *rerun, TimestampTz from)
{
	TupleTableSlot *slot = pgqrs_table_slot(steps);
	PgqrsKey key = {1, BTEqualStrategyNumber, Int64GetDatum(run_id)};
	PgqrsScan scan;
	PgqrsRow row;

	pgqrs_scan_begin(&scan, steps, INDEX_STEPS_PKEY, 1, &key);
	while (pgqrs_scan_next(&scan, slot))
	{
		CHECK_FOR_INTERRUPTS();
		if (!is_kept(slot, rerun, from))
			continue;
		pgqrs_row_copy(&row, steps, slot);
		pgqrs_set(&row, Steps_run_id, Int64GetDatum(new_run));
		pgqrs_set_null(&row, Steps_lease);
		pgqrs_row_insert(steps, &row);
	}
	pgqrs_scan_end(&scan);
}

int64
pgqrs_rerun_start(int64 run_id, const PgqrsRerun *rerun)
{
	PgqrsRunRows rows;
	PgqrsTable *steps;
	PgqrsNewRun r;
	TimestampTz from = DT_NOBEGIN;
	int64 new_run;

	pgqrs_run_open(&rows);
	steps = pgqrs_table_open(TABLE_STEPS, true);
	pgqrs_run_require(&rows, run_id, PRIVILEGE_TRIGGER, LockTupleKeyShare);
	check_ended(rows.run, run_id);
	if (rerun->from_step != NULL) /* refused before anything is locked */
		(void) start_of(steps, run_id, rerun->from_step);
	lock_ended(&rows, run_id);
	if (rerun->from_step != NULL)
		from = start_of(steps, run_id, rerun->from_step);
	fill(&r, rows.run, run_id, rerun);
	new_run = pgqrs_run_trigger(rows.queue.name, &r);
	if (rerun->keep_finished || rerun->from_step != NULL)
		copy_steps(steps, run_id, new_run, rerun, from);
	pgqrs_table_close(steps);
	pgqrs_run_close(&rows);
	return new_run;
}
