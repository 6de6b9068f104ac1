/*
 * step.c
 *	  Steps of workflow runs: begin, complete, fail.
 *
 * Runs in a worker's backend, under the lease of the run.  Every call locks
 * the run's message first: key-share while the run goes on, so that several
 * steps may run in parallel transactions and a claim passes the run over;
 * exclusively when the call gives the lease up.  Then the step's own row.
 */
#include "workflow/step.h"

#include "base/clock.h"
#include "base/errors.h"
#include "base/json.h"
#include "base/status.h"
#include "queue/audit.h"
#include "shmem/xact_hooks.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/timestamp.h"
#include "workflow/run.h"

/* A run under its lease, and one step of it. */
typedef struct StepRows
{
	PgqrsRunRows run;
	PgqrsTable *steps;
	TupleTableSlot *step;
	bool found; /* the step has a row */
	int64 run_id;
	int64 lease;
	const char *step_id;
} StepRows;

static PgqrsStepStatus
step_status(TupleTableSlot *step)
{
	return pgqrs_enum_value(ENUM_STEP_STATUS, pgqrs_get(step, Steps_status));
}

static bool
step_lease_is(TupleTableSlot *step, int64 lease)
{
	return !pgqrs_is_null(step, Steps_lease) &&
		DatumGetInt64(pgqrs_get(step, Steps_lease)) == lease;
}

static int
step_attempt(TupleTableSlot *step)
{
	return DatumGetInt32(pgqrs_get(step, Steps_attempt));
}

static void
move(PgqrsRow *row, TupleTableSlot *step, PgqrsStepStatus to)
{
	PgqrsStepStatus from = step_status(step);

	if (!pgqrs_state_step_may(from, to))
		ereport(ERROR,
				(errcode(ERRCODE_PGQRS_INVALID_STATE),
				 errmsg("step \"%s\" of run " INT64_FORMAT " cannot become %s",
						TextDatumGetCString(pgqrs_get(step, Steps_step_id)),
						DatumGetInt64(pgqrs_get(step, Steps_run_id)),
						pgqrs_enum_label(ENUM_STEP_STATUS, to)),
				 errdetail("It is %s.", pgqrs_enum_label(ENUM_STEP_STATUS, from)),
				 errhint("Call pgqrs_step_begin() and do what it answers.")));
	pgqrs_set(row, Steps_status, pgqrs_enum_datum(ENUM_STEP_STATUS, to));
}

/*
 * Finding
 */

void
pgqrs_step_require_kind(TupleTableSlot *step, PgqrsStepKind kind)
{
	PgqrsStepKind found = pgqrs_enum_value(ENUM_STEP_KIND,
										   pgqrs_get(step, Steps_kind));

	if (found != kind)
		ereport(ERROR,
				(errcode(ERRCODE_PGQRS_INVALID_STATE),
				 errmsg("step \"%s\" of run " INT64_FORMAT " is of another kind",
						TextDatumGetCString(pgqrs_get(step, Steps_step_id)),
						DatumGetInt64(pgqrs_get(step, Steps_run_id))),
				 errdetail("It is a step of kind %s.",
						   pgqrs_enum_label(ENUM_STEP_KIND, found)),
				 errhint("Use another step id.")));
}

/*
 * Only a resume writes a step without an attempt: it is kept for a pause that
 * the handler may come to.
 */
bool
pgqrs_step_is_early_resume(TupleTableSlot *step)
{
	return DatumGetInt32(pgqrs_get(step, Steps_attempt)) == 0 &&
		pgqrs_enum_value(ENUM_STEP_KIND, pgqrs_get(step, Steps_kind)) ==
		STEP_KIND_PAUSE;
}

void
pgqrs_step_drop_early_resume(PgqrsTable *steps, TupleTableSlot *step)
{
	int64 run_id = DatumGetInt64(pgqrs_get(step, Steps_run_id));
	char *step_id = TextDatumGetCString(pgqrs_get(step, Steps_step_id));

	if (pgqrs_row_lock(steps, step, LockTupleExclusive, LockWaitBlock) != ROW_LOCKED)
		return;
	pgqrs_row_delete(steps, step);
	pgqrs_event(EVENT_RESUME_DROPPED, run_id, .step_id = step_id);
}

static bool
look_at_step(StepRows *s)
{
	Datum keys[2] = {Int64GetDatum(s->run_id), CStringGetTextDatum(s->step_id)};

	s->found = pgqrs_row_fetch(s->steps, INDEX_STEPS_PKEY, 2, keys, s->step);
	return s->found;
}

static void
fetch_step(StepRows *s, PgqrsStepKind kind)
{
	while (look_at_step(s) && kind != STEP_KIND_PAUSE &&
		   pgqrs_step_is_early_resume(s->step))
		pgqrs_step_drop_early_resume(s->steps, s->step);
	if (s->found)
		pgqrs_step_require_kind(s->step, kind);
}

/*
 * Whether the run completed under this lease, and the step is of our kind: the
 * call may be a repeated one.
 */
static bool
may_be_repeated(StepRows *s)
{
	return pgqrs_run_completed_under(&s->run, s->lease) && look_at_step(s) &&
		pgqrs_enum_value(ENUM_STEP_KIND, pgqrs_get(s->step, Steps_kind)) ==
		STEP_KIND_FUNCTION;
}

/* Opens what is needed while the run goes on. */
static void
open_step(StepRows *s, int64 run_id, int64 lease, const char *step_id)
{
	s->run_id = run_id;
	s->lease = lease;
	s->step_id = step_id;
	pgqrs_run_open_messages(&s->run);
	s->steps = pgqrs_table_open(TABLE_STEPS, true);
	s->step = pgqrs_table_slot(s->steps);
}

/* Reads the run, too, and locks its message for the holder of the lease. */
static void
require_run(StepRows *s, LockTupleMode mode)
{
	pgqrs_run_open_runs(&s->run);
	pgqrs_run_require_held(&s->run, s->run_id, s->lease, mode);
}

static void
close_step(StepRows *s)
{
	pgqrs_table_close(s->steps);
	pgqrs_run_close(&s->run);
}

/*
 * Writing
 */

static void
init_step(PgqrsRow *row, const StepRows *s, PgqrsStepKind kind, PgqrsStepStatus status)
{
	pgqrs_row_init(row, s->steps);
	pgqrs_set(row, Steps_run_id, Int64GetDatum(s->run_id));
	pgqrs_set(row, Steps_step_id, CStringGetTextDatum(s->step_id));
	pgqrs_set(row, Steps_kind, pgqrs_enum_datum(ENUM_STEP_KIND, kind));
	pgqrs_set(row, Steps_status, pgqrs_enum_datum(ENUM_STEP_STATUS, status));
	pgqrs_set(row, Steps_started_at, TimestampTzGetDatum(pgqrs_clock()));
	pgqrs_set(row, Steps_lease, Int64GetDatum(s->lease));
	pgqrs_set(row, Steps_attempt, Int32GetDatum(1));
	pgqrs_set(row, Steps_failures, Int32GetDatum(0));
}

/* Inserts the step; false: somebody has done so at the same time. */
static bool
insert_step(StepRows *s, const PgqrsRow *row)
{
	return pgqrs_row_insert_first(s->steps, row, INDEX_STEPS_PKEY, 2);
}

/* Replaces the step's version that was read; false: it has changed meanwhile. */
static bool
update_step(StepRows *s, const PgqrsRow *row)
{
	return pgqrs_row_try_update(s->steps, s->step, row) == ROW_LOCKED;
}

/*
 * The step's new version under this lease.  A row that another lease left says
 * that the begin of this attempt was lost, or is just happening: it counts.
 */
static void
copy_step(PgqrsRow *row, const StepRows *s, PgqrsStepStatus to)
{
	pgqrs_row_copy(row, s->steps, s->step);
	move(row, s->step, to);
	if (!step_lease_is(s->step, s->lease))
	{
		pgqrs_set(row, Steps_attempt, Int32GetDatum(step_attempt(s->step) + 1));
		pgqrs_set(row, Steps_lease, Int64GetDatum(s->lease));
	}
}

static void
finish(PgqrsRow *row, const Datum *output, const Datum *error)
{
	pgqrs_set(row, Steps_completed_at, TimestampTzGetDatum(pgqrs_clock()));
	if (output != NULL)
	{
		pgqrs_set(row, Steps_output, *output);
		pgqrs_set_null(row, Steps_error);
	}
	else
		pgqrs_set(row, Steps_error, *error);
}

/* row: the step's new version, which is stored */
static void
note(PgqrsEventKind kind, const StepRows *s, const PgqrsRow *row, const Datum *error)
{
	pgqrs_event(kind, s->run_id, .step_id = s->step_id,
				.attempt = DatumGetInt32(row->values[Steps_attempt - 1]),
				.error = error);
}

/*
 * Begin
 */

static bool
copy_value(TupleTableSlot *slot, AttrNumber column, Datum *value)
{
	if (pgqrs_is_null(slot, column))
		return false;
	*value = PointerGetDatum(PG_DETOAST_DATUM_COPY(pgqrs_get(slot, column)));
	return true;
}

static void
answer(const StepRows *s, PgqrsStepState *state, bool should_execute)
{
	state->should_execute = should_execute;
	state->status = step_status(s->step);
	state->attempt = step_attempt(s->step);
	state->has_output = copy_value(s->step, Steps_output, &state->output);
	state->has_error = copy_value(s->step, Steps_error, &state->error);
}

static void
answer_running(PgqrsStepState *state, int attempt)
{
	memset(state, 0, sizeof(*state));
	state->should_execute = true;
	state->status = STEP_RUNNING;
	state->attempt = attempt;
}

/* Starts the first attempt; false: somebody did so at the same time. */
static bool
begin_first(StepRows *s, bool has_input, Datum input, PgqrsStepState *state)
{
	PgqrsRow row;

	init_step(&row, s, STEP_KIND_FUNCTION, STEP_RUNNING);
	if (has_input)
		pgqrs_set(&row, Steps_input, input);
	answer_running(state, 1);
	if (!insert_step(s, &row))
		return false;
	note(EVENT_STEP_BEGUN, s, &row, NULL);
	return true;
}

/* Starts another attempt; false: the step has changed meanwhile. */
static bool
begin_again(StepRows *s, bool has_input, Datum input, PgqrsStepState *state)
{
	PgqrsRow row;

	pgqrs_row_copy(&row, s->steps, s->step);
	move(&row, s->step, STEP_RUNNING);
	pgqrs_set(&row, Steps_attempt, Int32GetDatum(step_attempt(s->step) + 1));
	pgqrs_set(&row, Steps_lease, Int64GetDatum(s->lease));
	pgqrs_set_null(&row, Steps_error);
	if (has_input)
		pgqrs_set(&row, Steps_input, input);
	answer_running(state, step_attempt(s->step) + 1);
	if (!update_step(s, &row))
		return false;
	note(EVENT_STEP_BEGUN, s, &row, NULL);
	return true;
}

/* Until no transaction is changing the step. */
static void
await_writer(StepRows *s)
{
	Datum keys[2] = {Int64GetDatum(s->run_id), CStringGetTextDatum(s->step_id)};

	(void) pgqrs_row_await_writer(s->steps, INDEX_STEPS_PKEY, 2, keys);
}

/*
 * One look at the step and what follows from it; false: look again.  What is
 * stored stays; what runs under this lease already gets the same answer, unless
 * a transaction that completes it is still open: its answer may be what was
 * lost, and if it commits, the step must not be executed again.
 */
static bool
try_begin(StepRows *s, bool has_input, Datum input, PgqrsStepState *state)
{
	PgqrsStepStatus status;

	fetch_step(s, STEP_KIND_FUNCTION);
	if (!s->found)
		return begin_first(s, has_input, input, state);
	status = step_status(s->step);
	if (status == STEP_SUCCESS || status == STEP_ERROR)
	{
		answer(s, state, false);
		return true;
	}
	if (status == STEP_RUNNING && step_lease_is(s->step, s->lease))
	{
		await_writer(s);
		fetch_step(s, STEP_KIND_FUNCTION);
		answer(s, state, step_status(s->step) == STEP_RUNNING);
		return true;
	}
	return begin_again(s, has_input, input, state);
}

/*
 * Begins the step, or answers what is known of it.  A run that was claimed only
 * once has hardly any step twice, so there the insertion comes before the look.
 */
static void
begin(StepRows *s, bool has_input, Datum input, PgqrsStepState *state)
{
	int claims = DatumGetInt32(pgqrs_get(s->run.message, Messages_attempt));

	if (claims == 1 && begin_first(s, has_input, input, state))
		return;
	while (!try_begin(s, has_input, input, state))
		;
}

/* A repeated call after the run's end: the answer may have been lost. */
static bool
answer_again(StepRows *s, PgqrsStepState *state)
{
	if (!may_be_repeated(s) || step_status(s->step) == STEP_RUNNING)
		return false;
	answer(s, state, false);
	return true;
}

void
pgqrs_step_start(int64 run_id, int64 lease, const char *step_id, bool has_input,
				 Datum input, PgqrsStepState *state)
{
	StepRows s;

	pgqrs_commit_claim_begin();
	open_step(&s, run_id, lease, step_id);
	if (pgqrs_run_hold(&s.run, run_id, lease) &&
		!pgqrs_message_is_cancelling(s.run.message))
		begin(&s, has_input, input, state);
	else
	{
		require_run(&s, LockTupleKeyShare);
		if (!answer_again(&s, state))
		{
			pgqrs_run_fence(&s.run, lease, true);
			begin(&s, has_input, input, state);
		}
	}
	close_step(&s);
	pgqrs_commit_claim_end();
}

/*
 * Complete
 */

/*
 * One look at the step and what follows from it; false: look again.
 * *stored: the step succeeded just now.
 */
static bool
try_complete(StepRows *s, Datum output, TimestampTz started_at, bool *stored)
{
	PgqrsRow row;

	*stored = true;
	fetch_step(s, STEP_KIND_FUNCTION);
	if (s->found && step_status(s->step) == STEP_SUCCESS)
	{
		*stored = false; /* the first stored output stays */
		return true;
	}
	if (s->found)
		copy_step(&row, s, STEP_SUCCESS);
	else
	{
		init_step(&row, s, STEP_KIND_FUNCTION, STEP_SUCCESS);
		if (started_at != 0)
			pgqrs_set(&row, Steps_started_at,
					  TimestampTzGetDatum(Min(started_at, pgqrs_clock())));
	}
	finish(&row, &output, NULL);
	if (!(s->found ? update_step(s, &row) : insert_step(s, &row)))
		return false;
	note(EVENT_STEP_DONE, s, &row, NULL);
	return true;
}

/*
 * A run that does not go on under the lease: a repeated call after its end, or
 * refused.
 */
static bool
was_stored(StepRows *s)
{
	require_run(s, LockTupleKeyShare);
	if (may_be_repeated(s) && step_status(s->step) == STEP_SUCCESS)
		return true;
	pgqrs_run_fence(&s->run, s->lease, false);
	return false;
}

bool
pgqrs_step_store(int64 run_id, int64 lease, const char *step_id, Datum output,
				 TimestampTz started_at)
{
	StepRows s;
	bool stored = false;

	open_step(&s, run_id, lease, step_id);
	if (pgqrs_run_hold(&s.run, run_id, lease) || !was_stored(&s))
	{
		while (!try_complete(&s, output, started_at, &stored))
			;
		if (stored)
			pgqrs_run_forget_crashes(&s.run);
	}
	close_step(&s);
	return stored;
}

/*
 * Fail
 */

static int
step_failures(const StepRows *s)
{
	return s->found ? DatumGetInt32(pgqrs_get(s->step, Steps_failures)) : 0;
}

/* Stores the failure; false: the step has changed meanwhile. */
static bool
store_failure(StepRows *s, PgqrsStepStatus status, Datum error)
{
	PgqrsRow row;
	Datum history;
	TimestampTz now = pgqrs_clock();

	if (s->found)
		copy_step(&row, s, status);
	else
		init_step(&row, s, STEP_KIND_FUNCTION, status);
	history = pgqrs_json_append_failure(row.values[Steps_history - 1],
										row.nulls[Steps_history - 1],
										DatumGetInt32(row.values[Steps_attempt - 1]),
										now, error);
	pgqrs_set(&row, Steps_failures, Int32GetDatum(step_failures(s) + 1));
	pgqrs_set(&row, Steps_history, history);
	pgqrs_set(&row, Steps_error, error);
	if (status == STEP_ERROR)
		pgqrs_set(&row, Steps_completed_at, TimestampTzGetDatum(now));
	if (s->found)
		pgqrs_row_update(s->steps, s->step, &row);
	else if (!insert_step(s, &row))
		return false;
	note(EVENT_STEP_FAILED, s, &row, &error);
	return true;
}

static void
error_finished(const StepRows *s)
{
	ereport(ERROR,
			(errcode(ERRCODE_PGQRS_INVALID_STATE),
			 errmsg("step \"%s\" of run " INT64_FORMAT " has failed already",
					s->step_id, s->run_id),
			 errdetail("It is ERROR."),
			 errhint("Call pgqrs_fail_run() to end the run.")));
}

/* The message is locked exclusively, so nobody else works on the run's steps. */
static PgqrsStepOutcome
fail_step(StepRows *s, const PgqrsStepFailure *f, Datum error, TimestampTz *retry_at)
{
	PgqrsStepOutcome outcome;

	fetch_step(s, STEP_KIND_FUNCTION);
	if (s->found && step_status(s->step) == STEP_ERROR)
	{
		if (step_lease_is(s->step, s->lease) && !f->fail_run)
			return STEP_OUTCOME_STEP_FAILED; /* a repeated call */
		error_finished(s);
	}

	if (f->retryable &&
		pgqrs_run_may_retry(&s->run, step_failures(s) + 1, f->max_attempts,
							error, f->retry_after, retry_at))
		outcome = STEP_OUTCOME_RETRY;
	else
		outcome = f->fail_run ? STEP_OUTCOME_RUN_FAILED : STEP_OUTCOME_STEP_FAILED;

	if (!store_failure(s, outcome == STEP_OUTCOME_RETRY ? STEP_PENDING : STEP_ERROR,
					   error))
		elog(ERROR, "step \"%s\" of run " INT64_FORMAT " changed under lock",
			 s->step_id, s->run_id);
	if (outcome == STEP_OUTCOME_RETRY)
		pgqrs_run_give_up(&s->run, *retry_at, error);
	else if (outcome == STEP_OUTCOME_RUN_FAILED)
		pgqrs_run_end_failed(&s->run, error);
	return outcome;
}

PgqrsStepOutcome
pgqrs_step_failed(int64 run_id, int64 lease, const char *step_id,
				  const PgqrsStepFailure *failure, TimestampTz *retry_at)
{
	StepRows s;
	PgqrsStepOutcome outcome;

	open_step(&s, run_id, lease, step_id);
	require_run(&s, LockTupleExclusive);
	pgqrs_run_fence(&s.run, lease, false);
	outcome = fail_step(&s, failure, pgqrs_json_cap_error(failure->error), retry_at);
	close_step(&s);
	return outcome;
}

/*
 * Replay
 */

/*
 * What has failed, and a child that had not ended: it may have been cancelled
 * with the run, and starting it again finds out.
 */
static bool
runs_again(TupleTableSlot *step)
{
	PgqrsStepStatus status = step_status(step);

	return status == STEP_ERROR ||
		(pgqrs_enum_value(ENUM_STEP_KIND, pgqrs_get(step, Steps_kind)) ==
			 STEP_KIND_CHILD &&
		 (status == STEP_RUNNING || status == STEP_PAUSED));
}

void
pgqrs_step_reset_failed(int64 run_id)
{
	PgqrsTable *steps = pgqrs_table_open(TABLE_STEPS, true);
	TupleTableSlot *slot = pgqrs_table_slot(steps);
	PgqrsKey key = {1, BTEqualStrategyNumber, Int64GetDatum(run_id)};
	PgqrsScan scan;
	PgqrsRow row;

	pgqrs_scan_begin(&scan, steps, INDEX_STEPS_PKEY, 1, &key);
	while (pgqrs_scan_next(&scan, slot))
	{
		if (!runs_again(slot))
			continue;
		pgqrs_row_copy(&row, steps, slot);
		move(&row, slot, STEP_PENDING);
		pgqrs_set(&row, Steps_failures, Int32GetDatum(0));
		pgqrs_set_null(&row, Steps_error);
		pgqrs_set_null(&row, Steps_completed_at);
		pgqrs_set_null(&row, Steps_lease);
		pgqrs_row_update(steps, slot, &row);
	}
	pgqrs_scan_end(&scan);
	pgqrs_table_close(steps);
}
