/*
 * step.c
 *	  Steps of workflow runs: their rows; begin, complete, fail.
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
#include "store/scan.h"
#include "store/tuple.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "workflow/cancel.h"
#include "workflow/undo.h"

/*
 * Rows
 */

void
pgqrs_step_open(PgqrsStepRows *s, int64 run_id, int64 lease,
				const char *step_id, PgqrsStepKind kind)
{
	s->run_id = run_id;
	s->lease = lease;
	s->step_id = step_id;
	s->kind = kind;
	s->any_move = false;
	pgqrs_run_open_messages(&s->run);
	s->steps = pgqrs_table_open(TABLE_STEPS, true);
	s->step = pgqrs_table_slot(s->steps);
}

void
pgqrs_step_close(PgqrsStepRows *s)
{
	pgqrs_table_close(s->steps);
	pgqrs_run_close(&s->run);
}

static PgqrsStepStatus
stored_status(TupleTableSlot *step)
{
	return pgqrs_enum_value(ENUM_STEP_STATUS, pgqrs_get(step, Steps_status));
}

static PgqrsStepKind
stored_kind(TupleTableSlot *step)
{
	return pgqrs_enum_value(ENUM_STEP_KIND, pgqrs_get(step, Steps_kind));
}

static int
stored_attempt(TupleTableSlot *step)
{
	return DatumGetInt32(pgqrs_get(step, Steps_attempt));
}

PgqrsStepStatus
pgqrs_step_status(const PgqrsStepRows *s)
{
	return stored_status(s->step);
}

/* Only a resume before the pause writes a step without an attempt. */
bool
pgqrs_step_is_early_resume(TupleTableSlot *step)
{
	return stored_attempt(step) == 0 && stored_kind(step) == STEP_KIND_PAUSE;
}

/*
 * Whether the step holds an early resume, but the run calls it as another kind.
 */
static bool
is_misplaced_resume(const PgqrsStepRows *s)
{
	return s->found && s->kind != STEP_KIND_PAUSE &&
		pgqrs_step_is_early_resume(s->step);
}

static void
drop_resume(PgqrsStepRows *s)
{
	if (pgqrs_row_lock(s->steps, s->step, LockTupleExclusive, LockWaitBlock) !=
		ROW_LOCKED)
		return;
	pgqrs_row_delete(s->steps, s->step);
	pgqrs_event(EVENT_RESUME_DROPPED, s->run_id, .step_id = s->step_id);
}

bool
pgqrs_step_fetch_row(PgqrsTable *steps, int64 run_id, const char *step_id,
					 TupleTableSlot *slot)
{
	Datum keys[2] = {Int64GetDatum(run_id), CStringGetTextDatum(step_id)};

	return pgqrs_row_fetch(steps, INDEX_STEPS_PKEY, 2, keys, slot);
}

bool
pgqrs_step_find(PgqrsStepRows *s)
{
	s->found = pgqrs_step_fetch_row(s->steps, s->run_id, s->step_id, s->step);
	return s->found;
}

void
pgqrs_step_fetch(PgqrsStepRows *s)
{
	pgqrs_step_find(s);
	while (is_misplaced_resume(s))
	{
		drop_resume(s);
		pgqrs_step_find(s);
	}
	if (s->found && stored_kind(s->step) != s->kind)
		ereport(ERROR,
				(errcode(ERRCODE_PGQRS_INVALID_STATE),
				 errmsg("step \"%s\" of run " INT64_FORMAT " is of another kind",
						s->step_id, s->run_id),
				 errdetail("The kind of the step is %s.",
						   pgqrs_enum_label(ENUM_STEP_KIND, stored_kind(s->step))),
				 errhint("Use another step id.")));
}

bool
pgqrs_step_is_finished(const PgqrsStepRows *s)
{
	PgqrsStepStatus status;

	if (!s->found || is_misplaced_resume(s))
		return false;
	status = stored_status(s->step);
	return status == STEP_SUCCESS || status == STEP_ERROR;
}

NullableDatum
pgqrs_step_value(const PgqrsStepRows *s, AttrNumber column)
{
	return s->found ? pgqrs_get_copy(s->step, column) : PGQRS_NULL;
}

bool
pgqrs_step_may_be_repeated(PgqrsStepRows *s)
{
	return pgqrs_run_completed_under(&s->run, s->lease) && pgqrs_step_find(s) &&
		stored_kind(s->step) == s->kind;
}

/*
 * Writing
 */

static bool
is_of_lease(const PgqrsStepRows *s)
{
	return !pgqrs_is_null(s->step, Steps_lease) &&
		pgqrs_get_int64(s->step, Steps_lease) == s->lease;
}

static void
set_step_status(PgqrsRow *row, PgqrsStepStatus status)
{
	pgqrs_set(row, Steps_status, pgqrs_enum_datum(ENUM_STEP_STATUS, status));
}

static void
require_step_move(TupleTableSlot *step, PgqrsStepStatus to)
{
	PgqrsStepStatus from = stored_status(step);

	if (!pgqrs_step_may_move(from, to))
		ereport(ERROR,
				(errcode(ERRCODE_PGQRS_INVALID_STATE),
				 errmsg("step \"%s\" of run " INT64_FORMAT " cannot become %s",
						TextDatumGetCString(pgqrs_get(step, Steps_step_id)),
						pgqrs_get_int64(step, Steps_run_id),
						pgqrs_enum_label(ENUM_STEP_STATUS, to)),
				 errdetail("The status is %s.",
						   pgqrs_enum_label(ENUM_STEP_STATUS, from)),
				 errhint("Call pgqrs_step_begin() and follow its result.")));
}

static void
fill_new_step(PgqrsRow *row, const PgqrsStepRows *s)
{
	pgqrs_row_init(row, s->steps);
	pgqrs_set(row, Steps_run_id, Int64GetDatum(s->run_id));
	pgqrs_set(row, Steps_step_id, CStringGetTextDatum(s->step_id));
	pgqrs_set(row, Steps_kind, pgqrs_enum_datum(ENUM_STEP_KIND, s->kind));
	pgqrs_set(row, Steps_started_at, TimestampTzGetDatum(pgqrs_clock()));
	pgqrs_set(row, Steps_attempt, Int32GetDatum(s->lease != 0 ? 1 : 0));
	pgqrs_set(row, Steps_failures, Int32GetDatum(0));
	if (s->lease != 0)
		pgqrs_set(row, Steps_lease, Int64GetDatum(s->lease));
}

/*
 * A row of another lease shows that the begin under this lease was lost, or is
 * this call: it counts as an attempt.
 */
static void
fill_next_version(PgqrsRow *row, const PgqrsStepRows *s)
{
	pgqrs_row_copy(row, s->steps, s->step);
	if (s->lease == 0 || is_of_lease(s))
		return;
	pgqrs_set(row, Steps_attempt, Int32GetDatum(stored_attempt(s->step) + 1));
	pgqrs_set(row, Steps_lease, Int64GetDatum(s->lease));
}

void
pgqrs_step_fill(PgqrsRow *row, const PgqrsStepRows *s, PgqrsStepStatus status)
{
	if (!s->found)
		fill_new_step(row, s);
	else
	{
		if (!s->any_move)
			require_step_move(s->step, status);
		fill_next_version(row, s);
	}
	set_step_status(row, status);
	if (s->run.has_message && pgqrs_undo_is_held(s->run.message))
		pgqrs_set(row, Steps_undo, BoolGetDatum(true));
}

void
pgqrs_step_fill_end(PgqrsRow *row, NullableDatum output, NullableDatum error)
{
	pgqrs_set(row, Steps_completed_at, TimestampTzGetDatum(pgqrs_clock()));
	pgqrs_set_or_null(row, Steps_output, output);
	pgqrs_set_or_null(row, Steps_error, error);
}

bool
pgqrs_step_write(PgqrsStepRows *s, const PgqrsRow *row)
{
	return s->found ? pgqrs_row_try_update(s->steps, s->step, row) == ROW_LOCKED :
					  pgqrs_row_insert_first(s->steps, row, INDEX_STEPS_PKEY, 2);
}

void
pgqrs_step_error_changed(const PgqrsStepRows *s)
{
	elog(ERROR, "step \"%s\" of run " INT64_FORMAT " changed under lock",
		 s->step_id, s->run_id);
}

/*
 * Opens and reads the run, and locks its message for the holder of the lease.
 */
static void
lock_run_for_holder(PgqrsStepRows *s, LockTupleMode mode)
{
	pgqrs_run_open_runs(&s->run);
	pgqrs_run_lock_for_holder(&s->run, s->run_id, s->lease, mode);
}

/* row: the step's new version */
static void
audit_step(PgqrsEventKind kind, const PgqrsStepRows *s, const PgqrsRow *row,
		   Datum error)
{
	pgqrs_event(kind, s->run_id, .step_id = s->step_id,
				.attempt = DatumGetInt32(row->values[Steps_attempt - 1]),
				.error = error);
}

/*
 * Begin
 */

static void
read_stored_state(const PgqrsStepRows *s, PgqrsStepState *state)
{
	state->status = stored_status(s->step);
	state->should_execute = state->status == STEP_RUNNING;
	state->attempt = stored_attempt(s->step);
	state->output = pgqrs_step_value(s, Steps_output);
	state->error = pgqrs_step_value(s, Steps_error);
}

/* Starts an attempt; false: a concurrent transaction has written the step. */
static bool
start_attempt(PgqrsStepRows *s, NullableDatum input, PgqrsStepState *state)
{
	PgqrsRow row;

	pgqrs_step_fill(&row, s, STEP_RUNNING);
	pgqrs_set_null(&row, Steps_error);
	if (!input.isnull)
		pgqrs_set(&row, Steps_input, input.value);
	if (!pgqrs_step_write(s, &row))
		return false;
	*state = (PgqrsStepState){
		.should_execute = true,
		.status = STEP_RUNNING,
		.attempt = DatumGetInt32(row.values[Steps_attempt - 1]),
		.output = PGQRS_NULL,
		.error = PGQRS_NULL,
	};
	audit_step(EVENT_STEP_BEGUN, s, &row, 0);
	return true;
}

/* Waits until no transaction is changing the step. */
static void
await_step_writer(PgqrsStepRows *s)
{
	Datum keys[2] = {Int64GetDatum(s->run_id), CStringGetTextDatum(s->step_id)};

	(void) pgqrs_row_await_writer(s->steps, INDEX_STEPS_PKEY, 2, keys);
}

/*
 * Reads the step and begins it if necessary; false: read it again.  A finished
 * step returns its stored result.  A step that runs under this lease returns
 * the same answer, unless an open transaction is completing it: that may be a
 * call whose answer was lost, and if it commits, the step must not be executed
 * again.
 */
static bool
try_begin(PgqrsStepRows *s, NullableDatum input, PgqrsStepState *state)
{
	bool running;

	pgqrs_step_fetch(s);
	running = s->found && stored_status(s->step) == STEP_RUNNING && is_of_lease(s);
	if (!running && !pgqrs_step_is_finished(s))
		return start_attempt(s, input, state);
	if (running)
	{
		await_step_writer(s);
		pgqrs_step_fetch(s);
	}
	read_stored_state(s, state);
	return true;
}

/*
 * Begins the step, or returns its stored state.  A run that was claimed only
 * once rarely has the step already, so there the insertion comes before the
 * read.
 */
static void
begin_step(PgqrsStepRows *s, NullableDatum input, PgqrsStepState *state)
{
	int claims = DatumGetInt32(pgqrs_get(s->run.message, Messages_attempt));

	s->found = false;
	if (claims == 1 && start_attempt(s, input, state))
		return;
	while (!try_begin(s, input, state))
		;
}

/* A call after the run's end may repeat one whose answer was lost. */
static bool
read_repeated_state(PgqrsStepRows *s, PgqrsStepState *state)
{
	if (!pgqrs_step_may_be_repeated(s) || stored_status(s->step) == STEP_RUNNING)
		return false;
	read_stored_state(s, state);
	return true;
}

/*
 * Begins the step, or repeats the answer of an earlier call.  If the run was asked
 * to stop: *cancel_requested, or PQ010 where that is NULL.
 */
static void
begin_or_repeat(PgqrsStepRows *s, NullableDatum input, PgqrsStepState *state,
				bool *cancel_requested)
{
	if (pgqrs_run_check_lease_fast(&s->run, s->run_id, s->lease) &&
		!pgqrs_message_is_cancelling(s->run.message))
	{
		begin_step(s, input, state);
		return;
	}
	lock_run_for_holder(s, LockTupleKeyShare);
	if (read_repeated_state(s, state))
		return;
	pgqrs_run_fence(&s->run, s->lease, cancel_requested == NULL);
	if (cancel_requested != NULL && pgqrs_run_is_asked_to_stop(&s->run))
		*cancel_requested = true;
	else
		begin_step(s, input, state);
}

void
pgqrs_step_begin(int64 run_id, int64 lease, const char *step_id,
				 NullableDatum input, PgqrsStepState *state)
{
	PgqrsStepRows s;

	pgqrs_async_commit_begin();
	pgqrs_step_open(&s, run_id, lease, step_id, STEP_KIND_FUNCTION);
	begin_or_repeat(&s, input, state, NULL);
	pgqrs_step_close(&s);
	pgqrs_async_commit_end();
}

/*
 * Complete
 */

/*
 * Reads the step and completes it if necessary; false: read it again. *stored:
 * this call completed the step.
 */
static bool
try_complete(PgqrsStepRows *s, Datum output, TimestampTz started_at, bool *stored)
{
	PgqrsRow row;

	pgqrs_step_fetch(s);
	*stored = !s->found || stored_status(s->step) != STEP_SUCCESS;
	if (!*stored)
		return true; /* the first stored output stays */
	pgqrs_step_fill(&row, s, STEP_SUCCESS);
	if (!s->found && started_at != 0)
		pgqrs_set(&row, Steps_started_at,
				  TimestampTzGetDatum(Min(started_at, pgqrs_clock())));
	pgqrs_step_fill_end(&row, pgqrs_value(output), PGQRS_NULL);
	if (!pgqrs_step_write(s, &row))
		return false;
	audit_step(EVENT_STEP_DONE, s, &row, 0);
	return true;
}

/*
 * The run does not continue under the lease: true for a repeated call after its
 * end; other calls are refused.
 */
static bool
is_repeated_complete(PgqrsStepRows *s)
{
	lock_run_for_holder(s, LockTupleKeyShare);
	if (pgqrs_step_may_be_repeated(s) && stored_status(s->step) == STEP_SUCCESS)
		return true;
	pgqrs_run_fence(&s->run, s->lease, false);
	return false;
}

bool
pgqrs_step_complete(int64 run_id, int64 lease, const char *step_id,
					Datum output, TimestampTz started_at)
{
	PgqrsStepRows s;
	bool stored = false;

	pgqrs_step_open(&s, run_id, lease, step_id, STEP_KIND_FUNCTION);
	if (pgqrs_run_check_lease_fast(&s.run, run_id, lease) ||
		!is_repeated_complete(&s))
	{
		while (!try_complete(&s, output, started_at, &stored))
			;
		if (stored)
			pgqrs_run_forget_crashes(&s.run);
	}
	pgqrs_step_close(&s);
	return stored;
}

bool
pgqrs_step_next(int64 run_id, int64 lease, const char *step_id, Datum output,
				TimestampTz started_at, const char *next_step,
				NullableDatum next_input, PgqrsStepState *state,
				bool *cancel_requested)
{
	bool stored = pgqrs_step_complete(run_id, lease, step_id, output, started_at);
	PgqrsStepRows s;

	*cancel_requested = false;
	pgqrs_step_open(&s, run_id, lease, next_step, STEP_KIND_FUNCTION);
	begin_or_repeat(&s, next_input, state, cancel_requested);
	pgqrs_step_close(&s);
	return stored;
}

/*
 * Fail
 */

static void
store_failure(PgqrsStepRows *s, PgqrsStepStatus status, int failures, Datum error)
{
	PgqrsRow row;
	TimestampTz now = pgqrs_clock();

	pgqrs_step_fill(&row, s, status);
	pgqrs_set(&row, Steps_failures, Int32GetDatum(failures));
	pgqrs_set(&row, Steps_history,
			  pgqrs_json_append_failure(pgqrs_row_value(&row, Steps_history),
										DatumGetInt32(row.values[Steps_attempt - 1]),
										now, error));
	pgqrs_set(&row, Steps_error, error);
	if (status == STEP_ERROR)
		pgqrs_set(&row, Steps_completed_at, TimestampTzGetDatum(now));
	if (!pgqrs_step_write(s, &row))
		pgqrs_step_error_changed(s);
	audit_step(EVENT_STEP_FAILED, s, &row, error);
}

static void
refuse_finished(const PgqrsStepRows *s)
{
	ereport(ERROR,
			(errcode(ERRCODE_PGQRS_INVALID_STATE),
			 errmsg("step \"%s\" of run " INT64_FORMAT " has failed already",
					s->step_id, s->run_id),
			 errdetail("The status is ERROR."),
			 errhint("Call pgqrs_fail_run() to end the run.")));
}

/* Whether the failure ends a lease from before a request to stop. */
static bool
gives_up_to_undo(PgqrsStepRows *s, bool retry_is_too_late)
{
	if (pgqrs_undo_is_requested(s->run.message))
		return !pgqrs_undo_is_held(s->run.message);
	return pgqrs_undo_is_overdue(&s->run) ||
		(retry_is_too_late && pgqrs_undo_may_begin(&s->run));
}

/*
 * The message is locked exclusively, so no other transaction writes the run's
 * steps.
 */
static PgqrsStepOutcome
fail_step(PgqrsStepRows *s, const PgqrsStepFailure *f, TimestampTz *retry_at)
{
	int failures = 1;
	bool too_late = false;
	bool retry;

	pgqrs_step_fetch(s);
	if (s->found && stored_status(s->step) == STEP_ERROR)
	{
		if (is_of_lease(s) && !f->fail_run)
			return STEP_OUTCOME_STEP_FAILED; /* a repeated call */
		refuse_finished(s);
	}
	if (s->found)
		failures += DatumGetInt32(pgqrs_get(s->step, Steps_failures));

	retry = f->retryable &&
		pgqrs_run_may_retry(&s->run, failures, f->max_attempts, f->error,
							f->retry_after, retry_at, &too_late) &&
		!pgqrs_undo_is_overdue(&s->run);
	if (retry)
	{
		store_failure(s, STEP_PENDING, failures, f->error);
		pgqrs_run_schedule_retry(&s->run, *retry_at, f->error);
		return STEP_OUTCOME_RETRY;
	}
	if (f->fail_run && gives_up_to_undo(s, too_late))
	{
		store_failure(s, STEP_PENDING, failures, f->error);
		(void) pgqrs_run_deliver_to_undo(&s->run, too_late, pgqrs_value(f->error));
		*retry_at = pgqrs_clock();
		return STEP_OUTCOME_RETRY;
	}
	store_failure(s, STEP_ERROR, failures, f->error);
	if (!f->fail_run)
		return STEP_OUTCOME_STEP_FAILED;
	pgqrs_run_end_failed(&s->run, f->error);
	return STEP_OUTCOME_RUN_FAILED;
}

PgqrsStepOutcome
pgqrs_step_fail(int64 run_id, int64 lease, const char *step_id,
				const PgqrsStepFailure *failure, TimestampTz *retry_at)
{
	PgqrsStepRows s;
	PgqrsStepOutcome outcome;

	pgqrs_step_open(&s, run_id, lease, step_id, STEP_KIND_FUNCTION);
	lock_run_for_holder(&s, LockTupleExclusive);
	pgqrs_run_fence(&s.run, lease, false);
	outcome = fail_step(&s, failure, retry_at);
	pgqrs_step_close(&s);
	if (outcome != STEP_OUTCOME_STEP_FAILED)
		pgqrs_cancel_children(run_id);
	return outcome;
}

/*
 * Replay
 */

/*
 * Whether a replay executes the step again.  A child that had not ended may
 * have been cancelled with the run; starting it again checks that.
 */
static bool
is_reset_by_replay(TupleTableSlot *step)
{
	PgqrsStepStatus status = stored_status(step);

	return status == STEP_ERROR ||
		(stored_kind(step) == STEP_KIND_CHILD &&
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
		if (!is_reset_by_replay(slot))
			continue;
		require_step_move(slot, STEP_PENDING);
		pgqrs_row_copy(&row, steps, slot);
		set_step_status(&row, STEP_PENDING);
		pgqrs_set(&row, Steps_failures, Int32GetDatum(0));
		pgqrs_set_null(&row, Steps_error);
		pgqrs_set_null(&row, Steps_completed_at);
		pgqrs_set_null(&row, Steps_lease);
		pgqrs_row_update(steps, slot, &row);
	}
	pgqrs_scan_end(&scan);
	pgqrs_table_close(steps);
}
