/*
 * wait_step.c
 *	  Steps in which the run waits: its lease ends until the wait is over.
 *
 * Runs in a worker's backend, under the lease of the run; only a resume may
 * come from any backend.  A wait ends the lease, so these calls lock the run's
 * message exclusively.  That waits for the open transactions of the run's other
 * steps, whose later calls are refused.  A finished step is answered under a
 * key-share lock, like any other; it stays finished, so a read before the lock
 * tells which lock is needed.
 *
 * visible_after of the message tells when a waiting run may be claimed again.
 * Handlers call the same step again after each delivery and learn whether the
 * wait is over.
 */
#include "workflow/wait_step.h"

#include "base/clock.h"
#include "base/errors.h"
#include "base/json.h"
#include "queue/audit.h"
#include "shmem/claim_floor.h"
#include "shmem/xact_hooks.h"
#include "store/tuple.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "workflow/run_wakeup.h"
#include "workflow/undo.h"

void
pgqrs_wait_step_open_if(PgqrsStepRows *s, int64 run_id, int64 lease,
						const char *step_id, PgqrsStepKind kind,
						bool (*is_answered)(const PgqrsStepRows *s))
{
	pgqrs_async_commit_begin();
	pgqrs_step_open(s, run_id, lease, step_id, kind);
	pgqrs_run_open_runs(&s->run);
	pgqrs_step_find(s);
	pgqrs_run_lock_for_holder(&s->run, run_id, lease,
							  is_answered(s) ? LockTupleKeyShare :
											   LockTupleExclusive);
	pgqrs_run_fence(&s->run, lease, true);
	pgqrs_step_fetch(s);
}

void
pgqrs_wait_step_open(PgqrsStepRows *s, int64 run_id, int64 lease,
					 const char *step_id, PgqrsStepKind kind)
{
	pgqrs_wait_step_open_if(s, run_id, lease, step_id, kind, pgqrs_step_is_finished);
}

void
pgqrs_wait_step_open_shared(PgqrsStepRows *s, int64 run_id, int64 lease,
							const char *step_id, PgqrsStepKind kind)
{
	pgqrs_async_commit_begin();
	pgqrs_step_open(s, run_id, lease, step_id, kind);
	pgqrs_run_open_runs(&s->run);
	pgqrs_run_lock_for_holder(&s->run, run_id, lease, LockTupleKeyShare);
	if (!pgqrs_step_may_be_repeated(s) || pgqrs_step_status(s) == STEP_PENDING)
		pgqrs_run_fence(&s->run, lease, true);
	pgqrs_step_fetch(s);
}

void
pgqrs_wait_step_close(PgqrsStepRows *s)
{
	pgqrs_step_close(s);
	pgqrs_async_commit_end();
}

/*
 * Writing
 */

/* The step's new version; the caller may set further columns. */
static void
fill_wait_step(PgqrsRow *row, const PgqrsStepRows *s, PgqrsStepStatus status,
			   NullableDatum input)
{
	pgqrs_step_fill(row, s, status);
	if (!input.isnull)
		pgqrs_set(row, Steps_input, input.value);
}

static bool
write_wait_step(PgqrsStepRows *s, const PgqrsRow *row)
{
	pgqrs_xact_require_sync_commit();
	return pgqrs_step_write(s, row);
}

/*
 * For callers with the message locked exclusively: no other transaction writes
 * the run's steps.
 */
static void
write_step_exclusively(PgqrsStepRows *s, const PgqrsRow *row)
{
	if (!write_wait_step(s, row))
		pgqrs_step_error_changed(s);
}

bool
pgqrs_wait_step_start(PgqrsStepRows *s, NullableDatum input)
{
	PgqrsRow row;

	fill_wait_step(&row, s, STEP_RUNNING, input);
	pgqrs_set_null(&row, Steps_output);
	pgqrs_set_null(&row, Steps_error);
	return write_wait_step(s, &row);
}

void
pgqrs_wait_step_finish(PgqrsStepRows *s, PgqrsStepStatus status, NullableDatum input,
					   NullableDatum output, NullableDatum error)
{
	PgqrsRow row;

	fill_wait_step(&row, s, status, input);
	pgqrs_step_fill_end(&row, output, error);
	write_step_exclusively(s, &row);
	pgqrs_event(status == STEP_SUCCESS ? EVENT_STEP_DONE : EVENT_STEP_FAILED,
				s->run_id, .step_id = s->step_id,
				.attempt = DatumGetInt32(row.values[Steps_attempt - 1]),
				.error = error.value);
	pgqrs_run_forget_crashes(&s->run);
}

static void
suspend_run(PgqrsStepRows *s, Datum waiting_for)
{
	PgqrsRow row;

	pgqrs_row_copy(&row, s->run.runs, s->run.run);
	pgqrs_run_move(&row, s->run.run, RUN_PAUSED);
	pgqrs_set(&row, Runs_paused_at, TimestampTzGetDatum(pgqrs_clock()));
	pgqrs_set(&row, Runs_waiting_for, waiting_for);
	pgqrs_row_update(s->run.runs, s->run.run, &row);
}

/* waiting_for: NULL unless another transaction ends the wait */
static void
suspend_message(PgqrsStepRows *s, TimestampTz until, NullableDatum waiting_for)
{
	TimestampTz now = pgqrs_floor_writer_clock(s->run.queue.queue_id, 0, until);
	PgqrsRow row;

	pgqrs_row_copy(&row, s->run.messages, s->run.message);
	pgqrs_message_clear_lease(&row, Max(until, now));
	pgqrs_set(&row, Messages_failures, Int32GetDatum(0));
	pgqrs_set_or_null(&row, Messages_waiting_for, waiting_for);
	pgqrs_row_update(s->run.messages, s->run.message, &row);
	pgqrs_message_publish_room(s->run.message, &s->run.queue);
}

void
pgqrs_wait_step_suspend(PgqrsStepRows *s, const char *kind, const char *what,
						TimestampTz until, NullableDatum input, NullableDatum reason)
{
	Datum waiting_for = CStringGetTextDatum(psprintf("%s%s", kind, what));
	bool by_others = s->kind == STEP_KIND_SIGNAL ||
		s->kind == STEP_KIND_CHILD || s->kind == STEP_KIND_ANY;
	PgqrsRow row;

	/* in an undo, a wait from before the request is not waited for again */
	if (s->found && pgqrs_undo_is_held(s->run.message) &&
		pgqrs_is_null(s->step, Steps_undo))
		pgqrs_error_run_cancelled(s->run_id);
	/* a common step that ended for "any" keeps that result */
	if (!pgqrs_step_is_finished(s))
	{
		fill_wait_step(&row, s, STEP_PAUSED, input);
		if (!reason.isnull)
			pgqrs_set(&row, Steps_reason, reason.value);
		write_step_exclusively(s, &row);
	}
	suspend_run(s, waiting_for);
	suspend_message(s, until, by_others ? pgqrs_value(waiting_for) : PGQRS_NULL);
	pgqrs_event(EVENT_PAUSED, s->run_id, .step_id = s->step_id,
				.waiting_for = TextDatumGetCString(waiting_for), .until = until);
	if (by_others)
		pgqrs_run_wakeup_suspended(s->run_id);
}

/*
 * Pause and sleep
 */

/*
 * The pause was resumed before it began: its row becomes an ordinary finished
 * step.
 */
static void
adopt_early_resume(PgqrsStepRows *s)
{
	PgqrsRow row;

	s->any_move = true;
	while (pgqrs_step_is_early_resume(s->step))
	{
		pgqrs_step_fill(&row, s, STEP_SUCCESS);
		if (write_wait_step(s, &row))
			return;
		pgqrs_step_fetch(s);
	}
}

bool
pgqrs_wait_step_pause(int64 run_id, int64 lease, const char *step_id,
					  int64 check_after, NullableDatum reason, NullableDatum *output)
{
	PgqrsStepRows s;
	bool resumed;

	pgqrs_wait_step_open(&s, run_id, lease, step_id, STEP_KIND_PAUSE);
	resumed = pgqrs_step_is_finished(&s);
	*output = pgqrs_step_value(&s, Steps_output);
	if (resumed)
		adopt_early_resume(&s);
	else
		pgqrs_wait_step_suspend(&s, PGQRS_WAIT_PAUSE, step_id,
								pgqrs_clock() + check_after, PGQRS_NULL, reason);
	pgqrs_wait_step_close(&s);
	return resumed;
}

/* Begins or ends the sleep; true if it has ended. */
static bool
begin_or_end_sleep(PgqrsStepRows *s, int64 duration, TimestampTz until)
{
	TimestampTz now = pgqrs_clock();
	NullableDatum input = pgqrs_step_value(s, Steps_input);

	/* the first call sets the end of the sleep */
	if (input.isnull || !pgqrs_json_instant(input.value, "until", &until))
	{
		if (duration >= 0)
			until = now + duration;
		input = pgqrs_value(pgqrs_json_until(until));
	}
	if (until <= now)
	{
		pgqrs_wait_step_finish(s, STEP_SUCCESS, input,
							   pgqrs_value(pgqrs_json_null()), PGQRS_NULL);
		return true;
	}
	pgqrs_wait_step_suspend(s, PGQRS_WAIT_SLEEP, s->step_id, until, input,
							PGQRS_NULL);
	return false;
}

bool
pgqrs_wait_step_sleep(int64 run_id, int64 lease, const char *step_id,
					  int64 duration, TimestampTz until)
{
	PgqrsStepRows s;
	bool slept;

	pgqrs_wait_step_open(&s, run_id, lease, step_id, STEP_KIND_SLEEP);
	slept = pgqrs_step_is_finished(&s) || begin_or_end_sleep(&s, duration, until);
	pgqrs_wait_step_close(&s);
	return slept;
}

/*
 * Resume
 */

/* The step in whose pause the run waits, or NULL. */
static const char *
current_pause(PgqrsStepRows *s)
{
	TupleTableSlot *run = s->run.run;

	if (pgqrs_is_null(run, Runs_waiting_for))
		return NULL;
	return pgqrs_run_wakeup_waits_for(TextDatumGetCString(
										  pgqrs_get(run, Runs_waiting_for)),
									  PGQRS_WAIT_PAUSE);
}

/* Makes the run claimable at once, unless it is already. */
static void
make_claimable(PgqrsStepRows *s)
{
	TimestampTz now = pgqrs_floor_writer_clock(s->run.queue.queue_id, 0, DT_NOBEGIN);

	if (pgqrs_get_time(s->run.message, Messages_visible_after) <= now)
		return;
	pgqrs_row_set(s->run.messages, s->run.message, Messages_visible_after,
				  pgqrs_value(TimestampTzGetDatum(now)));
}

/* Whether this call has finished the step. */
static bool
finish_pause(PgqrsStepRows *s, Datum output)
{
	PgqrsRow row;

	do
	{
		pgqrs_step_fetch(s);
		if (pgqrs_step_is_finished(s))
			return false;
		pgqrs_step_fill(&row, s, STEP_SUCCESS);
		pgqrs_step_fill_end(&row, pgqrs_value(output), PGQRS_NULL);
	} while (!write_wait_step(s, &row));
	pgqrs_event(EVENT_RESUMED, s->run_id, .step_id = s->step_id);
	return true;
}

/*
 * Only a transaction that has the message locked exclusively writes a pause, so
 * the weaker lock, which lets open steps pass, suffices to exclude one.
 */
bool
pgqrs_wait_step_resume(int64 run_id, const char *step_id, Datum output)
{
	PgqrsStepRows s;
	const char *at;
	bool resumed = false;

	pgqrs_step_open(&s, run_id, 0, step_id, STEP_KIND_PAUSE);
	pgqrs_run_open_runs(&s.run);
	pgqrs_run_require(&s.run, run_id, PRIVILEGE_TRIGGER, LockTupleNoKeyExclusive);
	pgqrs_run_refuse_ended(s.run.run, s.run_id);
	at = current_pause(&s);
	if (step_id == NULL)
		s.step_id = at;
	if (s.step_id != NULL)
		resumed = finish_pause(&s, output);
	if (resumed && at != NULL && strcmp(s.step_id, at) == 0)
		make_claimable(&s);
	pgqrs_step_close(&s);
	return resumed;
}
