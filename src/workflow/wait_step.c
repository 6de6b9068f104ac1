/*
 * wait_step.c
 *	  Steps that wait: the run is given back until something happens.
 *
 * Runs in a worker's backend, under the lease of the run, but for resuming,
 * which anybody may.  To park is to give the lease up, so these calls lock the
 * run's message exclusively and wait for the open transactions of the run's
 * other steps, which are fenced off from then on.  A step that has finished is
 * answered under a key-share lock, like any other; it stays finished, so that
 * a look before the lock tells which one is needed.
 *
 * When a parked run may be claimed again its message's visible_after says:
 * handlers call the same step again after each delivery and are told whether
 * the wait is over.
 */
#include "workflow/wait_step.h"

#include "base/clock.h"
#include "base/errors.h"
#include "base/json.h"
#include "base/status.h"
#include "queue/audit.h"
#include "shmem/claim_floor.h"
#include "shmem/xact_hooks.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/timestamp.h"
#include "workflow/run_wakeup.h"
#include "workflow/step.h"

PgqrsStepStatus
pgqrs_park_step_status(const PgqrsParkStep *w)
{
	return pgqrs_enum_value(ENUM_STEP_STATUS, pgqrs_get(w->step, Steps_status));
}

/* A resume was kept for a pause, and the step turns out to be none. */
static bool
is_misplaced_resume(const PgqrsParkStep *w)
{
	return w->found && w->kind != STEP_KIND_PAUSE &&
		pgqrs_step_is_early_resume(w->step);
}

bool
pgqrs_park_step_finished(const PgqrsParkStep *w)
{
	PgqrsStepStatus status;

	if (!w->found || is_misplaced_resume(w))
		return false;
	status = pgqrs_park_step_status(w);
	return status == STEP_SUCCESS || status == STEP_ERROR;
}

bool
pgqrs_park_step_value(const PgqrsParkStep *w, AttrNumber column, Datum *value)
{
	if (!w->found || pgqrs_is_null(w->step, column))
		return false;
	*value = PointerGetDatum(PG_DETOAST_DATUM_COPY(pgqrs_get(w->step, column)));
	return true;
}

static void
fetch_step(PgqrsParkStep *w)
{
	Datum keys[2] = {Int64GetDatum(w->run_id), CStringGetTextDatum(w->step_id)};

	w->found = pgqrs_row_fetch(w->steps, INDEX_STEPS_PKEY, 2, keys, w->step);
}

static void
require_kind(PgqrsParkStep *w)
{
	while (is_misplaced_resume(w))
	{
		pgqrs_step_drop_early_resume(w->steps, w->step);
		fetch_step(w);
	}
	if (w->found)
		pgqrs_step_require_kind(w->step, w->kind);
}

void
pgqrs_park_step_fetch(PgqrsParkStep *w)
{
	fetch_step(w);
	require_kind(w);
}

static void
open_tables(PgqrsParkStep *w, int64 run_id, int64 lease, const char *step_id,
			PgqrsStepKind kind)
{
	w->run_id = run_id;
	w->lease = lease;
	w->step_id = step_id;
	w->kind = kind;
	w->again = false;
	pgqrs_run_open(&w->run);
	w->steps = pgqrs_table_open(TABLE_STEPS, true);
	w->step = pgqrs_table_slot(w->steps);
}

void
pgqrs_park_step_open_if(PgqrsParkStep *w, int64 run_id, int64 lease,
						const char *step_id, PgqrsStepKind kind,
						bool (*is_answered)(const PgqrsParkStep *w))
{
	pgqrs_commit_claim_begin();
	open_tables(w, run_id, lease, step_id, kind);
	fetch_step(w);
	pgqrs_run_require_held(&w->run, run_id, lease,
						   is_answered(w) ? LockTupleKeyShare : LockTupleExclusive);
	pgqrs_run_fence(&w->run, lease, true);
	pgqrs_park_step_fetch(w);
}

void
pgqrs_park_step_open(PgqrsParkStep *w, int64 run_id, int64 lease,
					 const char *step_id, PgqrsStepKind kind)
{
	pgqrs_park_step_open_if(w, run_id, lease, step_id, kind,
							pgqrs_park_step_finished);
}

/* A call for a step that is there, after the run completed under this lease. */
static bool
is_repeated(PgqrsParkStep *w)
{
	return pgqrs_run_completed_under(&w->run, w->lease) && w->found &&
		pgqrs_park_step_status(w) != STEP_PENDING &&
		pgqrs_enum_value(ENUM_STEP_KIND, pgqrs_get(w->step, Steps_kind)) == w->kind;
}

void
pgqrs_park_step_open_shared(PgqrsParkStep *w, int64 run_id, int64 lease,
							const char *step_id, PgqrsStepKind kind)
{
	pgqrs_commit_claim_begin();
	open_tables(w, run_id, lease, step_id, kind);
	pgqrs_run_require_held(&w->run, run_id, lease, LockTupleKeyShare);
	fetch_step(w);
	if (!is_repeated(w))
		pgqrs_run_fence(&w->run, lease, true);
	require_kind(w);
}


void
pgqrs_park_step_close(PgqrsParkStep *w)
{
	pgqrs_table_close(w->steps);
	pgqrs_run_close(&w->run);
	pgqrs_commit_claim_end();
}

/*
 * Writing
 */

/* The step's new version, in that status; row: what the caller may add to. */
static void
fill_step(PgqrsRow *row, PgqrsParkStep *w, PgqrsStepStatus to, const Datum *input)
{
	if (w->found)
	{
		PgqrsStepStatus from = pgqrs_park_step_status(w);

		if (!w->again && !pgqrs_state_step_may(from, to))
			elog(ERROR, "step \"%s\" of run " INT64_FORMAT " moves from %s to %s",
				 w->step_id, w->run_id, pgqrs_enum_label(ENUM_STEP_STATUS, from),
				 pgqrs_enum_label(ENUM_STEP_STATUS, to));
		pgqrs_row_copy(row, w->steps, w->step);
		if (w->lease != 0 &&
			DatumGetInt64(pgqrs_get(w->step, Steps_lease)) != w->lease)
			pgqrs_set(row, Steps_attempt,
					  Int32GetDatum(
						  DatumGetInt32(pgqrs_get(w->step, Steps_attempt)) + 1));
	}
	else
	{
		pgqrs_row_init(row, w->steps);
		pgqrs_set(row, Steps_run_id, Int64GetDatum(w->run_id));
		pgqrs_set(row, Steps_step_id, CStringGetTextDatum(w->step_id));
		pgqrs_set(row, Steps_kind, pgqrs_enum_datum(ENUM_STEP_KIND, w->kind));
		pgqrs_set(row, Steps_started_at, TimestampTzGetDatum(pgqrs_clock()));
		pgqrs_set(row, Steps_attempt, Int32GetDatum(w->lease != 0 ? 1 : 0));
		pgqrs_set(row, Steps_failures, Int32GetDatum(0));
	}
	if (w->lease != 0)
		pgqrs_set(row, Steps_lease, Int64GetDatum(w->lease));
	pgqrs_set(row, Steps_status, pgqrs_enum_datum(ENUM_STEP_STATUS, to));
	if (input != NULL)
		pgqrs_set(row, Steps_input, *input);
}

/* False: somebody has written one at the same time. */
static bool
store_step(PgqrsParkStep *w, const PgqrsRow *row)
{
	pgqrs_commit_must_last();
	if (!w->found)
		return pgqrs_row_insert_unique(w->steps, row, INDEX_STEPS_PKEY);
	pgqrs_row_update(w->steps, w->step, row);
	return true;
}

bool
pgqrs_park_step_write(PgqrsParkStep *w, PgqrsStepStatus status, const Datum *input)
{
	PgqrsRow row;

	if (w->found &&
		pgqrs_row_lock(w->steps, w->step, LockTupleNoKeyExclusive,
					   LockWaitBlock) != ROW_LOCKED)
		return false;
	fill_step(&row, w, status, input);
	if (status == STEP_RUNNING)
	{
		pgqrs_set_null(&row, Steps_output);
		pgqrs_set_null(&row, Steps_error);
	}
	return store_step(w, &row);
}

/* The message is locked exclusively, so nobody else writes steps of the run. */
static void
store_step_alone(PgqrsParkStep *w, const PgqrsRow *row)
{
	if (!store_step(w, row))
		elog(ERROR, "step \"%s\" of run " INT64_FORMAT " changed under lock",
			 w->step_id, w->run_id);
}

static void
fill_end(PgqrsRow *row, const Datum *output, const Datum *error)
{
	pgqrs_set(row, Steps_completed_at, TimestampTzGetDatum(pgqrs_clock()));
	if (output != NULL)
		pgqrs_set(row, Steps_output, *output);
	if (error != NULL)
		pgqrs_set(row, Steps_error, *error);
}

void
pgqrs_park_step_finish(PgqrsParkStep *w, PgqrsStepStatus status,
					   const Datum *input, const Datum *output, const Datum *error)
{
	PgqrsRow row;

	fill_step(&row, w, status, input);
	fill_end(&row, output, error);
	store_step_alone(w, &row);
	pgqrs_event(status == STEP_SUCCESS ? EVENT_STEP_DONE : EVENT_STEP_FAILED,
				w->run_id, .step_id = w->step_id,
				.attempt = DatumGetInt32(row.values[Steps_attempt - 1]),
				.error = error);
	pgqrs_run_forget_crashes(&w->run);
}

static void
park_run(PgqrsParkStep *w, Datum waiting_for)
{
	PgqrsRow row;

	pgqrs_row_copy(&row, w->run.runs, w->run.run);
	pgqrs_run_move(&row, w->run.run, RUN_PAUSED);
	pgqrs_set(&row, Runs_paused_at, TimestampTzGetDatum(pgqrs_clock()));
	pgqrs_set(&row, Runs_waiting_for, waiting_for);
	pgqrs_row_update(w->run.runs, w->run.run, &row);
}

/* waiting_for: what somebody else ends, or NULL */
static void
park_message(PgqrsParkStep *w, TimestampTz until, const Datum *waiting_for)
{
	TimestampTz now = pgqrs_floor_writer_clock(w->run.queue.queue_id, 0, until);
	PgqrsRow row;

	pgqrs_row_copy(&row, w->run.messages, w->run.message);
	pgqrs_message_give_up(&row, Max(until, now));
	pgqrs_set(&row, Messages_failures, Int32GetDatum(0));
	if (waiting_for != NULL)
		pgqrs_set(&row, Messages_waiting_for, *waiting_for);
	pgqrs_row_update(w->run.messages, w->run.message, &row);
	pgqrs_message_note_room(w->run.message, &w->run.queue);
}

void
pgqrs_park_step_park(PgqrsParkStep *w, const char *kind, const char *what,
					 TimestampTz until, const Datum *input, const Datum *reason)
{
	Datum waiting_for = CStringGetTextDatum(psprintf("%s%s", kind, what));
	bool by_others = w->kind == STEP_KIND_SIGNAL || w->kind == STEP_KIND_CHILD;
	PgqrsRow row;

	/* what any one of its children has ended keeps its answer */
	if (!pgqrs_park_step_finished(w))
	{
		fill_step(&row, w, STEP_PAUSED, input);
		if (reason != NULL)
			pgqrs_set(&row, Steps_reason, *reason);
		store_step_alone(w, &row);
	}
	park_run(w, waiting_for);
	park_message(w, until, by_others ? &waiting_for : NULL);
	pgqrs_event(EVENT_PAUSED, w->run_id, .step_id = w->step_id,
				.waiting_for = TextDatumGetCString(waiting_for), .until = until);
	if (by_others)
		pgqrs_parked_parked(w->run_id);
}

/*
 * Pause and sleep
 */

/* The pause was resumed before it began: from now on the step is one. */
static void
adopt_early_resume(PgqrsParkStep *w)
{
	PgqrsRow row;

	while (pgqrs_step_is_early_resume(w->step))
	{
		if (pgqrs_row_lock(w->steps, w->step, LockTupleNoKeyExclusive,
						   LockWaitBlock) == ROW_LOCKED)
		{
			pgqrs_commit_must_last();
			pgqrs_row_copy(&row, w->steps, w->step);
			pgqrs_set(&row, Steps_attempt, Int32GetDatum(1));
			pgqrs_set(&row, Steps_lease, Int64GetDatum(w->lease));
			pgqrs_row_update(w->steps, w->step, &row);
			return;
		}
		pgqrs_park_step_fetch(w);
	}
}

bool
pgqrs_park_pause(int64 run_id, int64 lease, const char *step_id,
				 int64 check_after, const Datum *reason, Datum *output)
{
	PgqrsParkStep w;
	bool resumed;

	pgqrs_park_step_open(&w, run_id, lease, step_id, STEP_KIND_PAUSE);
	resumed = pgqrs_park_step_finished(&w);
	if (resumed)
	{
		pgqrs_park_step_value(&w, Steps_output, output);
		adopt_early_resume(&w);
	}
	else
		pgqrs_park_step_park(&w, PGQRS_WAIT_PAUSE, step_id,
							 pgqrs_clock() + check_after, NULL, reason);
	pgqrs_park_step_close(&w);
	return resumed;
}

/* Sleeps, or ends the sleep if its time has come; whether it has. */
static bool
sleep_or_wake(PgqrsParkStep *w, int64 duration, TimestampTz until)
{
	TimestampTz now = pgqrs_clock();
	Datum input;

	/* the first call has fixed it */
	if (!pgqrs_park_step_value(w, Steps_input, &input) ||
		!pgqrs_json_instant(input, "until", &until))
	{
		if (duration >= 0)
			until = now + duration;
		input = pgqrs_json_until(until);
	}
	if (until <= now)
	{
		Datum output = pgqrs_json_null();

		pgqrs_park_step_finish(w, STEP_SUCCESS, &input, &output, NULL);
		return true;
	}
	pgqrs_park_step_park(w, PGQRS_WAIT_SLEEP, w->step_id, until, &input, NULL);
	return false;
}

bool
pgqrs_park_sleep(int64 run_id, int64 lease, const char *step_id, int64 duration,
				 TimestampTz until)
{
	PgqrsParkStep w;
	bool slept;

	pgqrs_park_step_open(&w, run_id, lease, step_id, STEP_KIND_SLEEP);
	slept = pgqrs_park_step_finished(&w) || sleep_or_wake(&w, duration, until);
	pgqrs_park_step_close(&w);
	return slept;
}

/*
 * Resume
 */

static void
refuse_ended(PgqrsParkStep *w)
{
	PgqrsRunStatus status = pgqrs_run_status(w->run.run);

	if (pgqrs_run_is_terminal(status))
		ereport(ERROR,
				(errcode(ERRCODE_PGQRS_INVALID_STATE),
				 errmsg("run " INT64_FORMAT " has ended", w->run_id),
				 errdetail("It is %s.", pgqrs_enum_label(ENUM_RUN_STATUS, status)),
				 errhint("Only a run that goes on can be resumed.")));
}

/* The step at whose pause the run is parked, or NULL. */
static const char *
parked_at(PgqrsParkStep *w)
{
	TupleTableSlot *run = w->run.run;

	if (pgqrs_is_null(run, Runs_waiting_for))
		return NULL;
	return pgqrs_parked_for(TextDatumGetCString(pgqrs_get(run, Runs_waiting_for)),
							PGQRS_WAIT_PAUSE);
}

/* The run may be claimed at once, unless it may be already. */
static void
deliver(PgqrsParkStep *w)
{
	TimestampTz now = pgqrs_floor_writer_clock(w->run.queue.queue_id, 0, DT_NOBEGIN);
	PgqrsRow row;

	if (DatumGetTimestampTz(pgqrs_get(w->run.message, Messages_visible_after)) <= now)
		return;
	pgqrs_row_copy(&row, w->run.messages, w->run.message);
	pgqrs_set(&row, Messages_visible_after, TimestampTzGetDatum(now));
	pgqrs_row_update(w->run.messages, w->run.message, &row);
}

/* Whether the step has finished just now. */
static bool
finish_pause(PgqrsParkStep *w, Datum output)
{
	PgqrsRow row;

	do
	{
		pgqrs_park_step_fetch(w);
		if (pgqrs_park_step_finished(w))
			return false;
		fill_step(&row, w, STEP_SUCCESS, NULL);
		fill_end(&row, &output, NULL);
	} while (!store_step(w, &row));
	pgqrs_event(EVENT_RESUMED, w->run_id, .step_id = w->step_id);
	return true;
}

/*
 * A pause is written only by who has the message locked exclusively, so the
 * lock that lets open steps pass keeps it away.
 */
bool
pgqrs_park_resume(int64 run_id, const char *step_id, Datum output)
{
	PgqrsParkStep w;
	const char *at;
	bool resumed = false;

	open_tables(&w, run_id, 0, step_id, STEP_KIND_PAUSE);
	pgqrs_run_require(&w.run, run_id, PRIVILEGE_TRIGGER, LockTupleNoKeyExclusive);
	refuse_ended(&w);
	at = parked_at(&w);
	if (step_id == NULL)
		w.step_id = at;
	if (w.step_id != NULL)
		resumed = finish_pause(&w, output);
	if (resumed && at != NULL && strcmp(w.step_id, at) == 0)
		deliver(&w);
	pgqrs_table_close(w.steps);
	pgqrs_run_close(&w.run);
	return resumed;
}
