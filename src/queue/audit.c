/*
 * audit.c
 *	  Audit: events of runs, recorded if pgqrs.audit is on.
 *
 * Runs in any backend, in the transaction of the change and under the lock that
 * the change needs: so an event exists if and only if its change does, also
 * after an asynchronous claim was lost in a crash.  Takes no lock.  The ids of
 * a run's events are in the order of the events, since a transaction that
 * changes the status of a run has locked its message exclusively.
 */
#include "queue/audit.h"

#include "base/clock.h"
#include "base/json.h"
#include "miscadmin.h"
#include "store/tuple.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

static const char *const event_names[EVENT_COUNT] = {
	[EVENT_CREATED] = "created",
	[EVENT_CLAIMED] = "claimed",
	[EVENT_RELEASED] = "released",
	[EVENT_RESCHEDULED] = "rescheduled",
	[EVENT_STEP_BEGUN] = "step_begun",
	[EVENT_STEP_DONE] = "step_done",
	[EVENT_STEP_FAILED] = "step_failed",
	[EVENT_CHILD_STARTED] = "child_started",
	[EVENT_PAUSED] = "paused",
	[EVENT_RESUMED] = "resumed",
	[EVENT_RESUME_DROPPED] = "resume_dropped",
	[EVENT_SIGNALLED] = "signalled",
	[EVENT_RETRIED] = "retried",
	[EVENT_CANCEL_REQUESTED] = "cancel_requested",
	[EVENT_CANCELLED] = "cancelled",
	[EVENT_FINISHED] = "finished",
	[EVENT_DEAD] = "dead",
	[EVENT_REPLAYED] = "replayed",
	[EVENT_RERUN] = "rerun",
	[EVENT_DELETED] = "deleted",
};

static void
put_text_if_set(PgqrsJson *json, const char *key, const char *value)
{
	if (value != NULL)
		pgqrs_json_put_text(json, key, value);
}

static void
put_number_if_set(PgqrsJson *json, const char *key, int64 value)
{
	if (value != 0)
		pgqrs_json_put_int64(json, key, value);
}

/* The role, and the known details. */
static Datum
event_data(const PgqrsEvent *e)
{
	PgqrsJson json;

	pgqrs_json_begin(&json);
	put_text_if_set(&json, "role", GetUserNameFromId(GetUserId(), true));
	put_text_if_set(&json, "step_id", e->step_id);
	put_text_if_set(&json, "signal", e->signal);
	put_text_if_set(&json, "waiting_for", e->waiting_for);
	put_text_if_set(&json, "reason", e->reason);
	put_number_if_set(&json, "attempt", e->attempt);
	put_number_if_set(&json, "failures", e->failures);
	put_number_if_set(&json, "worker_id", e->worker_id);
	put_number_if_set(&json, "signal_id", e->signal_id);
	put_number_if_set(&json, "parent_run_id", e->parent_run_id);
	put_number_if_set(&json, "child_run_id", e->child_run_id);
	put_number_if_set(&json, "rerun_of", e->rerun_of);
	put_number_if_set(&json, "new_run_id", e->new_run_id);
	if (e->until != 0 && !TIMESTAMP_NOT_FINITE(e->until))
		pgqrs_json_put_instant(&json, "until", e->until);
	if (e->error != 0)
		pgqrs_json_put_json(&json, "error", e->error);
	return pgqrs_json_end(&json);
}

void
pgqrs_event_write(PgqrsEventKind kind, int64 run_id, const PgqrsEvent *event)
{
	PgqrsTable *events = pgqrs_table_open(TABLE_EVENTS, true);
	PgqrsRow row;

	pgqrs_row_init(&row, events);
	pgqrs_set(&row, Events_event_id,
			  Int64GetDatum(pgqrs_next_id(SEQUENCE_EVENT_ID)));
	pgqrs_set(&row, Events_run_id, Int64GetDatum(run_id));
	pgqrs_set(&row, Events_at, TimestampTzGetDatum(pgqrs_clock()));
	pgqrs_set(&row, Events_event, CStringGetTextDatum(event_names[kind]));
	pgqrs_set(&row, Events_data, event_data(event));
	pgqrs_row_insert(events, &row);
	pgqrs_table_close(events);
}
