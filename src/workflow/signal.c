/*
 * signal.c
 *	  Signals: sent to a run, taken by it in order, once each.
 *
 * Who sends needs no lock on the run's message: it locks the run's row in the
 * weakest mode, so that the run is not deleted meanwhile, stores the signal
 * and has the run looked at; see run_wakeup.c.  Who takes one has the message
 * locked exclusively, and so is alone.
 */
#include "workflow/signal.h"

#include "base/clock.h"
#include "base/errors.h"
#include "base/json.h"
#include "queue/audit.h"
#include "queue/privileges.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "workflow/run_wakeup.h"
#include "workflow/wait_step.h"

/*
 * Sending
 */

typedef struct Sending
{
	PgqrsTable *runs;
	PgqrsTable *signals;
	TupleTableSlot *run;
	TupleTableSlot *signal;
} Sending;

/* PQ003 or 42501 unless the role may trigger the run's workflow. */
static void
check_privilege(TupleTableSlot *run, int64 run_id)
{
	PgqrsQueue queue;
	bool visible = false;

	if (!pgqrs_queue_by_id(DatumGetInt64(pgqrs_get(run, Runs_workflow_id)), &queue))
		pgqrs_error_run_not_found(run_id);
	if (pgqrs_queue_allows(&queue, PRIVILEGE_TRIGGER, &visible))
		return;
	if (!visible)
		pgqrs_error_run_not_found(run_id);
	pgqrs_error_denied(pgqrs_enum_label(ENUM_PRIVILEGE, PRIVILEGE_TRIGGER),
					   queue.name);
}

static void
require_run(Sending *s, int64 run_id)
{
	do
	{
		if (!pgqrs_row_fetch_id(s->runs, run_id, s->run))
			pgqrs_error_run_not_found(run_id);
		check_privilege(s->run, run_id);
	} while (pgqrs_row_lock(s->runs, s->run, LockTupleKeyShare, LockWaitBlock) !=
			 ROW_LOCKED);
}

static void
refuse_ended(Sending *s, int64 run_id)
{
	PgqrsRunStatus status = pgqrs_run_status(s->run);

	if (pgqrs_run_is_terminal(status))
		ereport(ERROR,
				(errcode(ERRCODE_PGQRS_INVALID_STATE),
				 errmsg("run " INT64_FORMAT " has ended", run_id),
				 errdetail("It is %s.", pgqrs_enum_label(ENUM_RUN_STATUS, status)),
				 errhint("Only a run that goes on takes signals.")));
}

static bool
find_by_key(Sending *s, int64 run_id, const char *key, int64 *id)
{
	Datum keys[2] = {Int64GetDatum(run_id), CStringGetTextDatum(key)};

	if (!pgqrs_row_fetch(s->signals, INDEX_SIGNALS_KEY, 2, keys, s->signal))
		return false;
	*id = DatumGetInt64(pgqrs_get(s->signal, Signals_signal_id));
	return true;
}

static void
fill(PgqrsRow *row, Sending *s, int64 run_id, int64 id, const PgqrsNewSignal *signal)
{
	pgqrs_row_init(row, s->signals);
	pgqrs_set(row, Signals_signal_id, Int64GetDatum(id));
	pgqrs_set(row, Signals_run_id, Int64GetDatum(run_id));
	pgqrs_set(row, Signals_sent_at, TimestampTzGetDatum(pgqrs_clock()));
	pgqrs_set(row, Signals_name, CStringGetTextDatum(signal->name));
	if (signal->idempotency_key != NULL)
		pgqrs_set(row, Signals_idempotency_key,
				  CStringGetTextDatum(signal->idempotency_key));
	pgqrs_set_or_null(row, Signals_payload, signal->payload);
	pgqrs_set_or_null(row, Signals_headers, signal->headers);
}

/* Stores the signal; false: another one has its key, whose id is in *id. */
static bool
store(Sending *s, int64 run_id, const PgqrsNewSignal *signal, int64 *id)
{
	PgqrsRow row;

	do
	{
		if (signal->idempotency_key != NULL &&
			find_by_key(s, run_id, signal->idempotency_key, id))
			return false;
		refuse_ended(s, run_id);
		*id = pgqrs_next_id(SEQUENCE_SIGNAL_ID);
		fill(&row, s, run_id, *id, signal);
		if (signal->idempotency_key == NULL)
		{
			pgqrs_row_insert(s->signals, &row);
			return true;
		}
	} while (!pgqrs_row_insert_unique(s->signals, &row, INDEX_SIGNALS_KEY));
	return true;
}

int64
pgqrs_signal_send(int64 run_id, const PgqrsNewSignal *signal)
{
	Sending s;
	int64 id;
	bool stored;

	s.runs = pgqrs_table_open(TABLE_RUNS, true);
	s.signals = pgqrs_table_open(TABLE_SIGNALS, true);
	s.run = pgqrs_table_slot(s.runs);
	s.signal = pgqrs_table_slot(s.signals);
	require_run(&s, run_id);
	stored = store(&s, run_id, signal, &id);
	pgqrs_table_close(s.signals);
	pgqrs_table_close(s.runs);
	if (stored)
	{
		pgqrs_event(EVENT_SIGNALLED, run_id, .signal = signal->name,
					.signal_id = id);
		pgqrs_run_wakeup_sent(run_id);
	}
	return id;
}

/*
 * Taking
 */

/* Takes the oldest signal there is. */
static bool
take(PgqrsStepRows *s, const char *name, PgqrsSignalContent *content)
{
	PgqrsTable *signals = pgqrs_table_open(TABLE_SIGNALS, true);
	TupleTableSlot *slot = pgqrs_table_slot(signals);
	bool found;
	PgqrsRow row;

	while ((found = pgqrs_run_wakeup_find_signal(signals, slot, s->run_id, name)) &&
		   pgqrs_row_lock(signals, slot, LockTupleNoKeyExclusive, LockWaitBlock) !=
			   ROW_LOCKED)
		continue;
	if (found)
	{
		content->payload = pgqrs_get_copy(slot, Signals_payload);
		if (content->payload.isnull)
			content->payload = pgqrs_value(pgqrs_json_null());
		content->headers = pgqrs_get_copy(slot, Signals_headers);
		pgqrs_row_copy(&row, signals, slot);
		pgqrs_set(&row, Signals_consumed_by, CStringGetTextDatum(s->step_id));
		pgqrs_row_update(signals, slot, &row);
	}
	pgqrs_table_close(signals);
	return found;
}

static PgqrsSignalResult
answer(const PgqrsStepRows *s, PgqrsSignalContent *content)
{
	NullableDatum input = pgqrs_step_value(s, Steps_input);

	if (!pgqrs_step_value(s, Steps_error).isnull)
		return SIGNAL_TIMED_OUT;
	content->payload = pgqrs_step_value(s, Steps_output);
	if (!input.isnull)
		content->headers = pgqrs_json_value(input.value, "headers");
	return SIGNAL_RECEIVED;
}

/* A signal that is there is taken even if the wait's deadline has passed. */
static PgqrsSignalResult
take_or_park(PgqrsStepRows *s, const char *name, int64 timeout,
			 PgqrsSignalContent *content)
{
	TimestampTz now = pgqrs_clock();
	TimestampTz deadline = DT_NOEND;
	NullableDatum input = pgqrs_step_value(s, Steps_input);

	/* the first call has fixed the deadline */
	if (!input.isnull)
		pgqrs_json_instant(input.value, "deadline", &deadline);
	else if (timeout >= 0)
		deadline = now + timeout;

	/* headers are kept with the step, since a rerun copies it without the signal */
	if (take(s, name, content))
	{
		input = pgqrs_value(pgqrs_json_signal_wait(name, deadline, content->headers));
		pgqrs_wait_step_finish(s, STEP_SUCCESS, input, content->payload, PGQRS_NULL);
		return SIGNAL_RECEIVED;
	}
	input = pgqrs_value(pgqrs_json_signal_wait(name, deadline, PGQRS_NULL));
	if (deadline <= now)
	{
		Datum error = pgqrs_json_error("wait_timeout",
									   "no signal came before the deadline");

		pgqrs_wait_step_finish(s, STEP_SUCCESS, input,
							   pgqrs_value(pgqrs_json_null()), pgqrs_value(error));
		return SIGNAL_TIMED_OUT;
	}
	pgqrs_wait_step_park(s, PGQRS_WAIT_SIGNAL, name, deadline, input, PGQRS_NULL);
	return SIGNAL_PARKED;
}

PgqrsSignalResult
pgqrs_signal_await(int64 run_id, int64 lease, const char *step_id,
				   const char *name, int64 timeout, PgqrsSignalContent *content)
{
	PgqrsStepRows s;
	PgqrsSignalResult result;

	*content = (PgqrsSignalContent){PGQRS_NULL, PGQRS_NULL};
	pgqrs_wait_step_open(&s, run_id, lease, step_id, STEP_KIND_SIGNAL);
	if (pgqrs_step_is_finished(&s))
		result = answer(&s, content);
	else
		result = take_or_park(&s, name, timeout, content);
	pgqrs_wait_step_close(&s);
	return result;
}
