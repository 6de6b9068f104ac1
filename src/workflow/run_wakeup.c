/*
 * run_wakeup.c
 *	  Wake-ups of runs that wait for a signal or for the end of a child.
 *
 * Runs in any backend.  A signal and the end of a child are rows.  The
 * transaction that writes one does not wait for the lock of the waiting run's
 * message, and the transaction in which the run begins to wait does not see
 * uncommitted rows.  So neither alone is enough: each requests a recheck of the
 * run after its commit, and the recheck after the later commit sees both sides.
 *
 * The runs to recheck are kept in shared memory.  All waiting runs are
 * rechecked after a start of the server, when that memory was full, and when
 * rows were written past the functions of pgqrs.  pgqrs_maintain() rechecks all
 * of them, a number in each call, since it may run without shared memory.
 *
 * A sender wakes the run itself if it finds it waiting and its message not
 * locked. It takes that lock only without waiting, so the lock order does not
 * matter; a rollback of the sender leaves the run waiting.
 */
#include "workflow/run_wakeup.h"

#include "base/int64_list.h"
#include "base/json.h"
#include "base/status.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "shmem/claim_floor.h"
#include "shmem/quarantine.h"
#include "shmem/xact_wakeups.h"
#include "store/scan.h"
#include "store/tuple.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "workflow/step.h"

/* The tables that tell whether a run's wait is over. */
typedef struct WaitTables
{
	PgqrsTable *messages;
	PgqrsTable *runs;
	PgqrsTable *steps;
	PgqrsTable *signals;
	TupleTableSlot *message;
	TupleTableSlot *run;
	TupleTableSlot *step;
	TupleTableSlot *signal;
} WaitTables;

const char *
pgqrs_run_wakeup_waits_for(const char *waiting_for, const char *kind)
{
	size_t len = strlen(kind);

	return strncmp(waiting_for, kind, len) == 0 ? waiting_for + len : NULL;
}

static void
open_wait_tables(WaitTables *p)
{
	p->messages = pgqrs_table_open(TABLE_MESSAGES, true);
	p->runs = pgqrs_table_open(TABLE_RUNS, false);
	p->steps = pgqrs_table_open(TABLE_STEPS, false);
	p->signals = pgqrs_table_open(TABLE_SIGNALS, false);
	p->message = pgqrs_table_slot(p->messages);
	p->run = pgqrs_table_slot(p->runs);
	p->step = pgqrs_table_slot(p->steps);
	p->signal = pgqrs_table_slot(p->signals);
}

static void
close_wait_tables(WaitTables *p)
{
	pgqrs_table_close(p->signals);
	pgqrs_table_close(p->steps);
	pgqrs_table_close(p->runs);
	pgqrs_table_close(p->messages);
}

/*
 * Conditions
 */

bool
pgqrs_run_wakeup_find_signal(PgqrsTable *signals, TupleTableSlot *slot,
							 int64 run_id, const char *name)
{
	Datum keys[2] = {Int64GetDatum(run_id), CStringGetTextDatum(name)};

	return pgqrs_row_fetch(signals, INDEX_SIGNALS_WAITING, 2, keys, slot);
}

/* A run without a row has ended. */
static bool
run_has_ended(WaitTables *p, int64 run_id)
{
	return !pgqrs_row_fetch_id(p->runs, run_id, p->run) ||
		pgqrs_run_is_terminal(pgqrs_run_status(p->run));
}

static bool
fetch_wait_step(WaitTables *p, int64 run_id, const char *step_id)
{
	return pgqrs_step_fetch_row(p->steps, run_id, step_id, p->step) &&
		!pgqrs_is_null(p->step, Steps_input);
}

static bool
child_has_ended(WaitTables *p, int64 run_id, const char *step_id)
{
	int64 child;

	return fetch_wait_step(p, run_id, step_id) &&
		pgqrs_json_int64(pgqrs_get(p->step, Steps_input), "run_id", &child) &&
		run_has_ended(p, child);
}

/*
 * A child that had not ended at this backend's last recheck.  While it has not,
 * no other child has to be read.  It is one of the awaited children as long as
 * the step belongs to the same delivery.
 */
typedef struct LiveChild
{
	int64 run_id; /* of the parent */
	int64 lease;  /* of the step */
	int64 child;
} LiveChild;

static LiveChild live_child;

/* A stride that visits all of count places, spread evenly over them. */
static int
stride_over(int count)
{
	int stride = Max(1, (int) (count * 0.618));
	int a = stride;
	int b = count;

	while (b != 0)
	{
		int rest = a % b;

		a = b;
		b = rest;
	}
	return a == 1 ? stride : 1;
}

/*
 * Children end in any order, and each end rechecks the parent until one child
 * decides the answer.  The recheck visits them in strides from a random place,
 * so that it finds a deciding child early even where there are few.
 */
static bool
children_have_ended(WaitTables *p, int64 run_id, const char *step_id, bool all)
{
	Datum input;
	int64 lease;
	int count;
	int stride;
	int at;

	if (!fetch_wait_step(p, run_id, step_id))
		return false;
	lease = pgqrs_get_int64(p->step, Steps_lease);
	if (all && live_child.run_id == run_id && live_child.lease == lease &&
		!run_has_ended(p, live_child.child))
		return false;
	input = PointerGetDatum(PG_DETOAST_DATUM(pgqrs_get(p->step, Steps_input)));
	count = pgqrs_json_count(input, "run_ids");
	if (count <= 0)
		return all;
	stride = stride_over(count);
	at = pg_prng_uint64_range(&pg_global_prng_state, 0, count - 1);
	for (int i = 0; i < count; i++)
	{
		int64 child = pgqrs_json_element(input, "run_ids", at);
		bool ended = run_has_ended(p, child);

		CHECK_FOR_INTERRUPTS();
		if (ended != all)
		{
			if (all)
				live_child = (LiveChild){run_id, lease, child};
			return ended;
		}
		at = (at + stride) % count;
	}
	return all;
}

/* Whether one of the signals that the step names is there. */
static bool
any_signal_is_there(WaitTables *p, int64 run_id, const char *step_id)
{
	Datum input;
	int count;

	if (!fetch_wait_step(p, run_id, step_id))
		return false;
	input = PointerGetDatum(PG_DETOAST_DATUM_COPY(pgqrs_get(p->step, Steps_input)));
	count = pgqrs_json_count(input, "signals");
	for (int i = 0; i < count; i++)
	{
		char *name = pgqrs_json_element_text(input, "signals", i);

		CHECK_FOR_INTERRUPTS();
		if (name != NULL &&
			pgqrs_run_wakeup_find_signal(p->signals, p->signal, run_id, name))
			return true;
	}
	return false;
}

/* Whether the condition that the message's run waits for holds. */
static bool
is_wait_over(WaitTables *p)
{
	int64 run_id = pgqrs_get_int64(p->message, Messages_message_id);
	char *waiting_for = TextDatumGetCString(
		pgqrs_get(p->message, Messages_waiting_for));
	const char *what;

	what = pgqrs_run_wakeup_waits_for(waiting_for, PGQRS_WAIT_SIGNAL);
	if (what != NULL)
		return pgqrs_run_wakeup_find_signal(p->signals, p->signal, run_id, what);
	what = pgqrs_run_wakeup_waits_for(waiting_for, PGQRS_WAIT_CHILD);
	if (what != NULL)
		return child_has_ended(p, run_id, what);
	what = pgqrs_run_wakeup_waits_for(waiting_for, PGQRS_WAIT_ALL_CHILDREN);
	if (what != NULL)
		return children_have_ended(p, run_id, what, true);
	what = pgqrs_run_wakeup_waits_for(waiting_for, PGQRS_WAIT_ANY_CHILD);
	if (what != NULL)
		return children_have_ended(p, run_id, what, false);
	what = pgqrs_run_wakeup_waits_for(waiting_for, PGQRS_WAIT_ANY);
	if (what != NULL)
		return any_signal_is_there(p, run_id, what) ||
			children_have_ended(p, run_id, what, false);
	return false;
}

/*
 * Waking
 */

/* Makes the locked message claimable and clears waiting_for. */
static void
wake_run(WaitTables *p)
{
	int64 queue_id = pgqrs_get_int64(p->message, Messages_queue_id);
	TimestampTz now = pgqrs_floor_writer_clock(queue_id, 0, DT_NOBEGIN);
	PgqrsRow row;

	Assert(pgqrs_message_may_move(MESSAGE_WAITING, MESSAGE_WAITING));
	pgqrs_row_copy(&row, p->messages, p->message);
	if (pgqrs_get_time(p->message, Messages_visible_after) > now)
		pgqrs_set(&row, Messages_visible_after, TimestampTzGetDatum(now));
	pgqrs_set_null(&row, Messages_waiting_for);
	pgqrs_row_update(p->messages, p->message, &row);
}

static bool
is_waiting(WaitTables *p)
{
	return !pgqrs_is_null(p->message, Messages_waiting_for) &&
		pgqrs_is_null(p->message, Messages_lease);
}

typedef enum RecheckResult
{
	RECHECK_GONE,	 /* the run has ended */
	RECHECK_NOTHING, /* not waiting, or its condition does not hold */
	RECHECK_WOKEN,
	RECHECK_BUSY
} RecheckResult;

/*
 * Checks before it locks, so that a run whose wait is not over is never locked,
 * and again under the lock.
 */
static RecheckResult
recheck_run(WaitTables *p, int64 run_id)
{
	while (pgqrs_row_fetch_id(p->messages, run_id, p->message))
	{
		if (!is_waiting(p) || !is_wait_over(p))
			return RECHECK_NOTHING;
		switch (pgqrs_row_lock(p->messages, p->message, LockTupleNoKeyExclusive,
							   LockWaitSkip))
		{
			case ROW_LOCKED:
				if (!is_waiting(p) || !is_wait_over(p))
					return RECHECK_NOTHING;
				wake_run(p);
				return RECHECK_WOKEN;
			case ROW_BUSY:
				return RECHECK_BUSY;
			case ROW_CHANGED:
				break;
		}
	}
	return RECHECK_GONE;
}

bool
pgqrs_run_wakeup_recheck(int64 run_id)
{
	WaitTables p;
	RecheckResult result;

	open_wait_tables(&p);
	result = recheck_run(&p, run_id);
	close_wait_tables(&p);
	return result != RECHECK_BUSY;
}

/*
 * A run that this transaction wakes needs no recheck: if the transaction rolls
 * back, so does the signal or end.  For any other run the background worker
 * rechecks after the commit.
 */
void
pgqrs_run_wakeup_sent(int64 run_id)
{
	WaitTables p;
	RecheckResult result;

	open_wait_tables(&p);
	result = recheck_run(&p, run_id);
	close_wait_tables(&p);
	if (result == RECHECK_NOTHING || result == RECHECK_BUSY)
		pgqrs_xact_wakeup_waiting_run(run_id);
}

void
pgqrs_run_wakeup_suspended(int64 run_id)
{
	pgqrs_xact_wakeup_waiting_run(run_id);
}

/*
 * Passes over all waiting runs
 */

typedef struct WaitPosition
{
	char waiting_for[PGQRS_WAIT_SIZE];
	int64 run_id;
} WaitPosition;

/*
 * The next waiting runs after the position, which advances, or returns to the
 * start.
 */
static int
next_waiting_runs(WaitTables *p, WaitPosition *at, int max, int64 *ids)
{
	PgqrsKey key = {1, BTGreaterStrategyNumber,
					CStringGetTextDatum(at->waiting_for), true,
					Int64GetDatum(at->run_id)};
	PgqrsScan scan;
	int count = 0;

	pgqrs_scan_begin(&scan, p->messages, INDEX_MESSAGES_WAITING, 1, &key);
	while (count < max && pgqrs_scan_next(&scan, p->message))
	{
		ids[count] = pgqrs_get_int64(p->message, Messages_message_id);
		text_to_cstring_buffer(DatumGetTextPP(
								   pgqrs_get(p->message, Messages_waiting_for)),
							   at->waiting_for, sizeof(at->waiting_for));
		at->run_id = ids[count++];
	}
	pgqrs_scan_end(&scan);
	if (count < max)
		memset(at, 0, sizeof(*at));
	return count;
}

static WaitPosition pass_position;

void
pgqrs_run_wakeup_restart(void)
{
	memset(&pass_position, 0, sizeof(pass_position));
}

/*
 * Rechecks a run; leaves one that is locked or in quarantine to the background
 * worker.
 */
static bool
recheck_or_defer(WaitTables *p, int64 run_id)
{
	RecheckResult result = pgqrs_quarantine_begin_row(QUARANTINE_MESSAGE, run_id) ?
		recheck_run(p, run_id) :
		RECHECK_BUSY;

	if (result == RECHECK_BUSY)
		pgqrs_xact_wakeup_waiting_run(run_id);
	return result == RECHECK_WOKEN;
}

int
pgqrs_run_wakeup_pass(int max, bool *more)
{
	WaitPosition at = pass_position;
	int64 *ids = palloc(max * sizeof(int64));
	WaitTables p;
	int count;
	int woken = 0;

	open_wait_tables(&p);
	count = next_waiting_runs(&p, &at, max, ids);
	pgqrs_int64_sort(ids, count);
	for (int i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (recheck_or_defer(&p, ids[i]))
			woken++;
	}
	close_wait_tables(&p);
	pfree(ids);
	*more = count == max;
	pass_position = at; /* not earlier: a pass that fails is repeated from its beginning */
	return woken;
}
