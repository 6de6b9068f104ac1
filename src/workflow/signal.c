/*
 * signal.c
 *	  Signals: sent to a run, consumed by the run in order, once each.
 *
 * Runs in any backend.  A sender does not lock the run's message.  It locks the
 * run's row in mode KEY SHARE, which keeps the run from being deleted, stores the
 * signal and requests a recheck of the run; see run_wakeup.c.  A consumer holds
 * an exclusive lock on the run's message, so it is the only one.
 */
#include "workflow/signal.h"

#include "base/clock.h"
#include "base/errors.h"
#include "base/json.h"
#include "queue/audit.h"
#include "store/scan.h"
#include "store/tuple.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "workflow/run_wakeup.h"
#include "workflow/wait_step.h"

/*
 * Sending
 */

typedef struct SignalSender
{
	PgqrsTable *runs;
	PgqrsTable *signals;
	TupleTableSlot *run;
	TupleTableSlot *signal;
} SignalSender;

static void
lock_signalled_run(SignalSender *s, int64 run_id)
{
	PgqrsQueue queue;

	do
	{
		if (!pgqrs_row_fetch_id(s->runs, run_id, s->run) ||
			!pgqrs_queue_admits(pgqrs_get_int64(s->run, Runs_workflow_id),
								PRIVILEGE_TRIGGER, &queue))
			pgqrs_error_run_not_found(run_id);
	} while (pgqrs_row_lock(s->runs, s->run, LockTupleKeyShare, LockWaitBlock) !=
			 ROW_LOCKED);
}

static bool
find_signal_by_key(SignalSender *s, int64 run_id, const char *key, int64 *id)
{
	Datum keys[2] = {Int64GetDatum(run_id), CStringGetTextDatum(key)};

	if (!pgqrs_row_fetch(s->signals, INDEX_SIGNALS_KEY, 2, keys, s->signal))
		return false;
	*id = pgqrs_get_int64(s->signal, Signals_signal_id);
	return true;
}

static void
fill_signal(PgqrsRow *row, SignalSender *s, int64 run_id, int64 id,
			const PgqrsNewSignal *signal)
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

/* Stores the signal.  False if a signal with its key exists; *id: of either. */
static bool
store_signal(SignalSender *s, int64 run_id, const PgqrsNewSignal *signal, int64 *id)
{
	PgqrsRow row;

	do
	{
		if (signal->idempotency_key != NULL &&
			find_signal_by_key(s, run_id, signal->idempotency_key, id))
			return false;
		pgqrs_run_refuse_ended(s->run, run_id);
		*id = pgqrs_next_id(SEQUENCE_SIGNAL_ID);
		fill_signal(&row, s, run_id, *id, signal);
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
	SignalSender s;
	int64 id;
	bool stored;

	s.runs = pgqrs_table_open(TABLE_RUNS, true);
	s.signals = pgqrs_table_open(TABLE_SIGNALS, true);
	s.run = pgqrs_table_slot(s.runs);
	s.signal = pgqrs_table_slot(s.signals);
	lock_signalled_run(&s, run_id);
	stored = store_signal(&s, run_id, signal, &id);
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
 * Consuming
 */

bool
pgqrs_signal_consume(PgqrsStepRows *s, const char *name, PgqrsSignalContent *content)
{
	PgqrsTable *signals = pgqrs_table_open(TABLE_SIGNALS, true);
	TupleTableSlot *slot = pgqrs_table_slot(signals);
	bool found;

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
		pgqrs_row_set(signals, slot, Signals_consumed_by,
					  pgqrs_value(CStringGetTextDatum(s->step_id)));
	}
	pgqrs_table_close(signals);
	return found;
}

static PgqrsSignalResult
finished_result(const PgqrsStepRows *s, PgqrsSignalContent *content)
{
	NullableDatum input = pgqrs_step_value(s, Steps_input);

	if (!pgqrs_step_value(s, Steps_error).isnull)
		return SIGNAL_TIMED_OUT;
	content->payload = pgqrs_step_value(s, Steps_output);
	if (!input.isnull)
		content->headers = pgqrs_json_value(input.value, "headers");
	return SIGNAL_RECEIVED;
}

/* A stored signal is consumed even after the deadline of the wait. */
static PgqrsSignalResult
consume_or_wait(PgqrsStepRows *s, const char *name, int64 timeout,
				PgqrsSignalContent *content)
{
	TimestampTz now = pgqrs_clock();
	TimestampTz deadline = DT_NOEND;
	NullableDatum input = pgqrs_step_value(s, Steps_input);

	/* the first call of the step sets the deadline */
	if (!input.isnull)
		pgqrs_json_instant(input.value, "deadline", &deadline);
	else if (timeout >= 0)
		deadline = now + timeout;

	/* the step keeps the headers, since a rerun copies the step without the signal */
	if (pgqrs_signal_consume(s, name, content))
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
	pgqrs_wait_step_suspend(s, PGQRS_WAIT_SIGNAL, name, deadline, input, PGQRS_NULL);
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
		result = finished_result(&s, content);
	else
		result = consume_or_wait(&s, name, timeout, content);
	pgqrs_wait_step_close(&s);
	return result;
}
