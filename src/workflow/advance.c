/*
 * advance.c
 *	  Advance: moves the instants that a waiting run waits for earlier.
 *
 * Runs in any backend: operators and tests let a run's time pass.  The run has no
 * lease, so no transaction writes its steps, and a lock on its message excludes
 * claims.  Claims and the background worker read the moved instants of the message,
 * the calls of the next delivery those of the steps.
 */
#include "workflow/advance.h"

#include "base/clock.h"
#include "base/errors.h"
#include "base/json.h"
#include "base/status.h"
#include "queue/audit.h"
#include "shmem/claim_floor.h"
#include "shmem/xact_hooks.h"
#include "store/scan.h"
#include "store/tuple.h"
#include "utils/timestamp.h"
#include "workflow/run.h"

/* Instants by which waits end, in the inputs of their steps. */
static const char *const wait_ends[] = {"until", "deadline"};

typedef struct Advance
{
	PgqrsRunRows rows;
	int64 run_id;
	int64 by;
	TimestampTz now;
} Advance;

static void
require_waiting(PgqrsRunRows *rows, int64 run_id)
{
	PgqrsRunStatus status = pgqrs_run_status(rows->run);
	bool is_held = rows->has_message &&
		!pgqrs_is_null(rows->message, Messages_lease);

	if (!is_held && !pgqrs_run_is_terminal(status))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_PGQRS_INVALID_STATE),
			 errmsg("run " INT64_FORMAT " does not wait", run_id),
			 errdetail("The status is %s%s.",
					   pgqrs_enum_label(ENUM_RUN_STATUS, status),
					   is_held ? ", under a lease" : ""),
			 errhint("Advance a run that waits for a claim, a retry, or the end of a step.")));
}

/* An instant that has passed, or never comes, stays. */
static TimestampTz
moved_earlier(const Advance *a, TimestampTz at)
{
	if (at <= a->now || TIMESTAMP_IS_NOEND(at))
		return at;
	return Max(at - a->by, a->now);
}

static void
advance_message(Advance *a, TimestampTz visible_after)
{
	TupleTableSlot *message = a->rows.message;
	PgqrsRow row;

	pgqrs_row_copy(&row, a->rows.messages, message);
	if (visible_after != pgqrs_get_time(message, Messages_visible_after))
		pgqrs_set(&row, Messages_visible_after, TimestampTzGetDatum(visible_after));
	if (!pgqrs_is_null(message, Messages_deadline_at))
	{
		TimestampTz deadline = moved_earlier(a,
											 pgqrs_get_time(message,
															Messages_deadline_at));

		pgqrs_set(&row, Messages_deadline_at, TimestampTzGetDatum(deadline));
		pgqrs_xact_request_duty(DUTY_EXPIRY, deadline);
	}
	pgqrs_row_update(a->rows.messages, message, &row);
	pgqrs_event_of_message(EVENT_RESCHEDULED, message, .until = visible_after);
}

static void
advance_run(Advance *a)
{
	PgqrsRunRows *rows = &a->rows;

	if (pgqrs_is_null(rows->run, Runs_deadline_at))
		return;
	if (!pgqrs_row_fetch_locked(rows->runs, a->run_id, LockTupleNoKeyExclusive,
								rows->run))
		pgqrs_error_run_not_found(a->run_id);
	pgqrs_row_set(rows->runs, rows->run, Runs_deadline_at,
				  pgqrs_value(TimestampTzGetDatum(
					  moved_earlier(a, pgqrs_get_time(rows->run, Runs_deadline_at)))));
}

/* Moves the instant of that key in a step's input; false: there is none. */
static bool
advance_input(const Advance *a, Datum *input, const char *key)
{
	PgqrsJson json;
	TimestampTz at;

	if (!pgqrs_json_instant(*input, key, &at) || moved_earlier(a, at) == at)
		return false;
	pgqrs_json_begin(&json);
	pgqrs_json_put_instant(&json, key, moved_earlier(a, at));
	*input = pgqrs_json_merge(*input, pgqrs_json_end(&json));
	return true;
}

static void
advance_step(const Advance *a, PgqrsTable *steps, TupleTableSlot *step)
{
	bool moved = false;
	Datum input;

	if (pgqrs_is_null(step, Steps_input) ||
		pgqrs_enum_value(ENUM_STEP_STATUS, pgqrs_get(step, Steps_status)) !=
			STEP_PAUSED)
		return;
	input = pgqrs_get(step, Steps_input);
	for (int i = 0; i < lengthof(wait_ends); i++)
		moved |= advance_input(a, &input, wait_ends[i]);
	if (moved)
		pgqrs_row_set(steps, step, Steps_input, pgqrs_value(input));
}

static void
advance_steps(const Advance *a)
{
	PgqrsTable *steps = pgqrs_table_open(TABLE_STEPS, true);
	TupleTableSlot *step = pgqrs_table_slot(steps);
	PgqrsKey key = {1, BTEqualStrategyNumber, Int64GetDatum(a->run_id)};
	PgqrsScan scan;

	pgqrs_scan_begin(&scan, steps, INDEX_STEPS_PKEY, 1, &key);
	while (pgqrs_scan_next(&scan, step))
		advance_step(a, steps, step);
	pgqrs_scan_end(&scan);
	pgqrs_table_close(steps);
}

TimestampTz
pgqrs_run_advance(int64 run_id, int64 by)
{
	Advance a = {.run_id = run_id, .by = by};
	TimestampTz visible_after;

	pgqrs_run_open(&a.rows);
	pgqrs_run_require(&a.rows, run_id, PRIVILEGE_ADMIN, LockTupleExclusive);
	require_waiting(&a.rows, run_id);
	visible_after = pgqrs_get_time(a.rows.message, Messages_visible_after);
	a.now = pgqrs_floor_writer_clock(a.rows.queue.queue_id, 0,
									 TIMESTAMP_IS_NOEND(visible_after) ?
										 DT_NOBEGIN :
										 visible_after - by);
	visible_after = moved_earlier(&a, visible_after);
	advance_message(&a, visible_after);
	advance_run(&a);
	advance_steps(&a);
	pgqrs_run_close(&a.rows);
	return visible_after;
}
