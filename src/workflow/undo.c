/*
 * undo.c
 *	  The undo: a run that was asked to stop is delivered, so that its handler
 *	  undoes what it has done.
 *
 * Of a workflow with on_cancel => 'deliver'.  A request (a cancel, the deadline,
 * or a retry that would come after it) does not end a run that was claimed
 * before.  It writes cancel_requested_at and undo_cause in the run, and undo in
 * the message, so that no call under a lease has to read the run.
 *
 * A lease from before the request is asked to stop: waiting_for of the message is
 * "cancel", as that of any run that is asked to stop.  When that lease is given
 * up or has expired, the run is claimable, and every lease from then on is one of
 * the undo, under which nothing asks it to stop.
 *
 * Until a transaction writes the request of a passed deadline, calls under the
 * lease answer as if it had been written.
 *
 * Children that live at the request are cancelled; the undo's own are not.  The
 * step that started a child tells them apart: undo of the step.  A call under the
 * lease from before may be starting a child while the request commits, so the
 * children are visited again when that lease ends, which waits for such calls.
 */
#include "workflow/undo.h"

#include "base/clock.h"
#include "queue/audit.h"
#include "queue/lease_limits.h"
#include "shmem/claim_floor.h"
#include "shmem/xact_hooks.h"
#include "store/scan.h"
#include "store/tuple.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "workflow/family.h"

bool
pgqrs_undo_is_requested(TupleTableSlot *message)
{
	return !pgqrs_is_null(message, Messages_undo);
}

bool
pgqrs_undo_is_held(TupleTableSlot *message)
{
	return pgqrs_undo_is_requested(message) &&
		!pgqrs_message_is_cancelling(message);
}

bool
pgqrs_undo_may_begin(PgqrsRunRows *rows)
{
	return rows->has_message && rows->queue.delivers_cancel &&
		!pgqrs_is_null(rows->message, Messages_run_id) &&
		!pgqrs_undo_is_requested(rows->message) &&
		!pgqrs_message_is_cancelling(rows->message) &&
		!pgqrs_is_null(rows->run, Runs_started_at);
}

bool
pgqrs_undo_is_overdue(PgqrsRunRows *rows)
{
	return pgqrs_undo_may_begin(rows) &&
		pgqrs_message_is_past_deadline(rows->message, pgqrs_clock());
}

/* The deadline counts anew; DT_NOEND: none. */
static TimestampTz
new_deadline(PgqrsRunRows *rows, TimestampTz now)
{
	Interval *timeout;

	if (pgqrs_is_null(rows->run, Runs_timeout))
		return DT_NOEND;
	timeout = DatumGetIntervalP(pgqrs_get(rows->run, Runs_timeout));
	return now + pgqrs_duration(timeout, "timeout");
}

static void
set_deadline(PgqrsRow *row, AttrNumber column, TimestampTz deadline)
{
	if (TIMESTAMP_IS_NOEND(deadline))
		pgqrs_set_null(row, column);
	else
		pgqrs_set(row, column, TimestampTzGetDatum(deadline));
}

static void
request_in_run(PgqrsRunRows *rows, PgqrsUndoCause cause, const char *reason,
			   TimestampTz now, TimestampTz deadline)
{
	PgqrsRow row;

	pgqrs_row_copy(&row, rows->runs, rows->run);
	pgqrs_set(&row, Runs_cancel_requested_at, TimestampTzGetDatum(now));
	pgqrs_set(&row, Runs_undo_cause, pgqrs_enum_datum(ENUM_UNDO_CAUSE, cause));
	pgqrs_set(&row, Runs_failures, Int32GetDatum(0));
	if (reason != NULL)
		pgqrs_set(&row, Runs_cancel_reason, CStringGetTextDatum(reason));
	set_deadline(&row, Runs_deadline_at, deadline);
	pgqrs_row_update(rows->runs, rows->run, &row);
}

void
pgqrs_undo_note_children(PgqrsRow *message, PgqrsRunRows *rows)
{
	Datum id = pgqrs_get(rows->message, Messages_message_id);

	if (!pgqrs_row_fetch(rows->runs, INDEX_RUNS_PARENT, 1, &id,
						 pgqrs_table_slot(rows->runs)) &&
		!pgqrs_family_has_joined(DatumGetInt64(id)))
		return;
	pgqrs_set(message, Messages_children_after, Int64GetDatum(0));
	pgqrs_xact_request_duty(DUTY_CHILDREN, 0);
}

/* Ends the lease in the message's new version: the run is claimable at once. */
static void
clear_lease(PgqrsRow *row, const PgqrsRunRows *rows, NullableDatum error)
{
	pgqrs_message_clear_lease(row,
							  pgqrs_floor_writer_clock(rows->queue.queue_id, 0,
													   DT_NOBEGIN));
	pgqrs_set_null(row, Messages_waiting_for);
	pgqrs_set(row, Messages_failures, Int32GetDatum(0));
	if (!error.isnull)
		pgqrs_set(row, Messages_last_error, error.value);
}

void
pgqrs_undo_request(PgqrsRunRows *rows, PgqrsUndoCause cause, const char *reason,
				   bool keep_lease, NullableDatum error)
{
	TimestampTz now = pgqrs_clock();
	TimestampTz deadline = new_deadline(rows, now);
	PgqrsRow row;

	pgqrs_xact_require_sync_commit();
	request_in_run(rows, cause, reason, now, deadline);
	pgqrs_row_copy(&row, rows->messages, rows->message);
	pgqrs_set(&row, Messages_undo, BoolGetDatum(true));
	pgqrs_undo_note_children(&row, rows);
	set_deadline(&row, Messages_deadline_at, deadline);
	if (!TIMESTAMP_IS_NOEND(deadline))
		pgqrs_xact_request_duty(DUTY_EXPIRY, deadline);
	if (keep_lease)
	{
		pgqrs_message_set_last_lease(&row,
									 pgqrs_get_time(rows->message,
													Messages_visible_after));
		pgqrs_set(&row, Messages_waiting_for,
				  CStringGetTextDatum(PGQRS_WAIT_CANCEL));
	}
	else
		clear_lease(&row, rows, error);
	pgqrs_row_update(rows->messages, rows->message, &row);
	pgqrs_event_of_message(EVENT_CANCEL_REQUESTED, rows->message, .reason = reason);
	if (keep_lease)
		pgqrs_message_note_lease_change(rows->message);
	else
		pgqrs_message_publish_room(rows->message, &rows->queue);
}

void
pgqrs_undo_give_up_lease(PgqrsRunRows *rows, NullableDatum error)
{
	PgqrsRow row;

	pgqrs_xact_require_sync_commit();
	pgqrs_row_copy(&row, rows->messages, rows->message);
	clear_lease(&row, rows, error);
	pgqrs_undo_note_children(&row, rows);
	pgqrs_row_update(rows->messages, rows->message, &row);
	pgqrs_event_of_message(EVENT_RELEASED, rows->message,
						   .reason = "the run is delivered to be undone");
	pgqrs_message_publish_room(rows->message, &rows->queue);
}
