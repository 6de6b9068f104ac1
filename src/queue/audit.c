/*
 * audit.c
 *	  What happens to runs, written down where pgqrs.audit is on.
 *
 * Runs in any backend, in the transaction of the change, by whoever has the
 * lock that the change needs: so an event is there if and only if what it
 * tells of is, also where an asynchronous claim was lost in a crash.  Locks
 * nothing.  Events of a run are in the order of their ids: who moves a run to
 * another status has its message locked exclusively.
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
put_text(PgqrsJson *json, const char *key, const char *value)
{
	if (value != NULL)
		pgqrs_json_put_text(json, key, value);
}

static void
put_number(PgqrsJson *json, const char *key, int64 value)
{
	if (value != 0)
		pgqrs_json_put_int64(json, key, value);
}

/* Who did it, and what is known besides. */
static Datum
event_data(const PgqrsEvent *e)
{
	PgqrsJson json;

	pgqrs_json_begin(&json);
	put_text(&json, "role", GetUserNameFromId(GetUserId(), true));
	put_text(&json, "step_id", e->step_id);
	put_text(&json, "signal", e->signal);
	put_text(&json, "waiting_for", e->waiting_for);
	put_text(&json, "reason", e->reason);
	put_number(&json, "attempt", e->attempt);
	put_number(&json, "failures", e->failures);
	put_number(&json, "worker_id", e->worker_id);
	put_number(&json, "signal_id", e->signal_id);
	put_number(&json, "parent_run_id", e->parent_run_id);
	put_number(&json, "child_run_id", e->child_run_id);
	put_number(&json, "rerun_of", e->rerun_of);
	put_number(&json, "new_run_id", e->new_run_id);
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
