/*
 * realign.c
 *	  Realignment: moves rows that were written while the clock was ahead.
 *
 * After the clock was set back, such rows would become due only when the clock
 * reaches their instants again.  A message with enqueued_at or dequeued_at in the
 * future was written while the clock was ahead.  It is moved back by the clock
 * step, with its deadline and the end of its sleep: delays and leases keep their
 * length, and ready messages keep their order.  If no server observed the step,
 * each message is moved by the distance of its own instant from now.
 *
 * A message that was only released or extended while the clock was ahead has no
 * such instant.  If the server knows when the clock got ahead, a message that had
 * been delivered before and became due in that time is moved as well, and a lease
 * that may have been extended in that time ends no later than a new lease.
 *
 * Runs in a background worker and in pgqrs_maintain().  Never waits for a lock:
 * rows that another transaction has locked are left to another batch.  A new key
 * of the claim index is never earlier than the clock reading for it, as the
 * protocol in claim_floor.c requires.
 */
#include "background/realign.h"

#include "base/clock.h"
#include "base/json.h"
#include "delivery/worker.h"
#include "miscadmin.h"
#include "queue/message.h"
#include "queue/priority_scan.h"
#include "shmem/claim_floor.h"
#include "shmem/database_registry.h"
#include "shmem/quarantine.h"
#include "shmem/xact_hooks.h"
#include "store/scan.h"
#include "store/tuple.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "workflow/run.h"
#include "workflow/wait_step.h"

/* Limits of one batch. */
#define MAX_MOVED	1000  /* messages to move */
#define MAX_ENTRIES 20000 /* index entries to scan */
#define MAX_LATEST	1000  /* newest messages to check for a clock step */

/* The longest retry delay: max_interval of the default policy, with jitter. */
#define MAX_BACKOFF (75 * USECS_PER_SEC)

/* The position where this backend continues its scan of all messages. */
typedef struct Position
{
	bool under_way;
	bool passed_over; /* skipped a locked message */
	uint32 epoch;	  /* the clock's epoch at the start of the scan */
	PgqrsClaimPosition in_index;
} Position;

typedef struct Realign
{
	PgqrsRunRows rows;
	PgqrsTable *steps;
	TupleTableSlot *step_slot;
	PgqrsClockStep step;
	int64 step_size; /* 0: unknown */
	TimestampTz now;
	Position at;
	PgqrsClaimSearch search;
	int64 found[MAX_MOVED];
	int64 moved;
} Realign;

static bool
is_ahead(TupleTableSlot *slot, AttrNumber column, TimestampTz now)
{
	return !pgqrs_is_null(slot, column) &&
		pgqrs_get_time(slot, column) > now + PGQRS_CLOCK_TOLERANCE;
}

/*
 * Detection of a clock step
 */

/* Whether one of the newest messages was sent or claimed in the future. */
static bool
has_future_messages(TimestampTz now)
{
	PgqrsTable *messages = pgqrs_table_open(TABLE_MESSAGES, false);
	TupleTableSlot *slot = pgqrs_table_slot(messages);
	int left = MAX_LATEST;
	bool any = false;
	PgqrsScan scan;

	pgqrs_scan_begin(&scan, messages, INDEX_MESSAGES_PKEY, 0, NULL);
	scan.direction = BackwardScanDirection;
	while (!any && left-- > 0 && pgqrs_scan_next(&scan, slot))
		any = is_ahead(slot, Messages_enqueued_at, now) ||
			is_ahead(slot, Messages_dequeued_at, now);
	pgqrs_scan_end(&scan);
	pgqrs_table_close(messages);
	return any;
}

/*
 * Whether a scan of all messages is necessary.  After the start of the server it
 * is; without shared memory the newest messages show whether the clock was ahead.
 */
static bool
is_scan_needed(uint32 epoch, TimestampTz now)
{
	static uint32 handled = 0;
	bool known;

	if (pgqrs_database_number() >= 0)
		return !pgqrs_database_is_realigned(epoch);
	known = handled == epoch;
	handled = epoch;
	return !known || has_future_messages(now);
}

/*
 * Searching
 */

/* The time by which the message in the slot is to be moved back, or 0. */
static int64
message_shift(Realign *r, TupleTableSlot *message, TimestampTz now)
{
	TimestampTz due = pgqrs_get_time(message, Messages_visible_after);
	TimestampTz written = pgqrs_get_time(message, Messages_enqueued_at);

	if (!pgqrs_is_null(message, Messages_dequeued_at))
		written = Max(written, pgqrs_get_time(message, Messages_dequeued_at));
	if (due <= now + PGQRS_CLOCK_TOLERANCE)
		return 0;
	if (written > now + PGQRS_CLOCK_TOLERANCE)
		return r->step_size > 0 && written - r->step_size <= now ? r->step_size :
																   written - now;
	if (r->step_size == 0 || r->step.ahead_since == DT_NOBEGIN ||
		DatumGetInt32(pgqrs_get(message, Messages_attempt)) == 0 ||
		due < r->step.ahead_since)
		return 0;
	if (pgqrs_is_null(message, Messages_lease))
		return due <= r->step.from + MAX_BACKOFF ? r->step_size : 0;
	if (due <= r->step.from || due > r->step.from + r->rows.queue.visibility_timeout)
		return 0;
	return Max(0, Min(r->step_size, due - (now + r->rows.queue.visibility_timeout)));
}

static bool
has_message_shift(void *arg)
{
	Realign *r = arg;

	return message_shift(r, r->rows.message, r->now) > 0;
}

/* Collects the messages to move, in order of the claim index; false on a full batch. */
static bool
collect_messages(Realign *r)
{
	List *queues = pgqrs_queue_match(list_make1("*"), PRIVILEGE_ADMIN);
	bool all = true;
	ListCell *lc;

	foreach(lc, queues)
	{
		r->rows.queue = *(PgqrsQueue *) lfirst(lc);
		if (all && r->rows.queue.queue_id >= r->search.at.queue_id)
			all = pgqrs_claim_search_queue(&r->search, r->rows.messages,
										   r->rows.message, r->rows.queue.queue_id);
	}
	list_free_deep(queues);
	return all;
}

/*
 * Moving
 */

static void
move_column(PgqrsRow *row, AttrNumber column, int64 shift)
{
	if (!row->nulls[column - 1])
		pgqrs_set(row, column,
				  TimestampTzGetDatum(
					  DatumGetTimestampTz(row->values[column - 1]) - shift));
}

/* Moves the deadline of a run that was triggered while the clock was ahead. */
static void
move_run_deadline(Realign *r, int64 shift)
{
	PgqrsRunRows *rows = &r->rows;
	PgqrsRow row;

	do
	{
		if (!pgqrs_row_fetch_id(rows->runs,
								pgqrs_get_int64(rows->message, Messages_message_id),
								rows->run) ||
			pgqrs_is_null(rows->run, Runs_deadline_at))
			return;
		pgqrs_row_copy(&row, rows->runs, rows->run);
		move_column(&row, Runs_deadline_at, shift);
	} while (pgqrs_row_try_update(rows->runs, rows->run, &row) != ROW_LOCKED);
}

/* Moves the instant in the input of a step that sleeps or waits for a signal. */
static bool
move_wait_input(TupleTableSlot *step, int64 shift, Datum *input)
{
	TimestampTz at;

	if (pgqrs_is_null(step, Steps_input))
		return false;
	*input = PointerGetDatum(PG_DETOAST_DATUM(pgqrs_get(step, Steps_input)));
	if (pgqrs_json_instant(*input, "until", &at))
		*input = pgqrs_json_set_instant(*input, "until", at - shift);
	else if (pgqrs_json_instant(*input, "deadline", &at))
		*input = pgqrs_json_set_instant(*input, "deadline", at - shift);
	else
		return false;
	return true;
}

/* Moves the wait steps of the run that began while the clock was ahead. */
static void
move_wait_steps(Realign *r, int64 shift)
{
	PgqrsKey key = {1, BTEqualStrategyNumber,
					pgqrs_get(r->rows.message, Messages_message_id)};
	PgqrsScan scan;

	pgqrs_scan_begin(&scan, r->steps, INDEX_STEPS_PKEY, 1, &key);
	while (pgqrs_scan_next(&scan, r->step_slot))
	{
		PgqrsRow row;
		Datum input;

		if (!is_ahead(r->step_slot, Steps_started_at, r->now) ||
			!move_wait_input(r->step_slot, shift, &input) ||
			pgqrs_row_lock(r->steps, r->step_slot, LockTupleNoKeyExclusive,
						   LockWaitSkip) != ROW_LOCKED)
			continue;
		pgqrs_row_copy(&row, r->steps, r->step_slot);
		move_column(&row, Steps_started_at, shift);
		pgqrs_set(&row, Steps_input, input);
		pgqrs_row_update(r->steps, r->step_slot, &row);
	}
	pgqrs_scan_end(&scan);
}

/* Moves the locked message back. */
static void
move_message(Realign *r, int64 shift)
{
	PgqrsRunRows *rows = &r->rows;
	TupleTableSlot *message = rows->message;
	TimestampTz due = pgqrs_get_time(message, Messages_visible_after) - shift;
	TimestampTz now = pgqrs_floor_writer_clock(rows->queue.queue_id, 0, due);
	bool was_sent_ahead = is_ahead(message, Messages_enqueued_at, now);
	PgqrsRow row;

	if (!pgqrs_is_null(message, Messages_run_id))
	{
		if (was_sent_ahead)
			move_run_deadline(r, shift);
		move_wait_steps(r, shift);
	}
	pgqrs_row_copy(&row, rows->messages, message);
	pgqrs_set(&row, Messages_visible_after, TimestampTzGetDatum(Max(due, now)));
	if (!row.nulls[Messages_exhausted_at - 1])
		pgqrs_message_set_lease_end(&row, Max(due, now), true);
	if (was_sent_ahead)
	{
		move_column(&row, Messages_enqueued_at, shift);
		move_column(&row, Messages_deadline_at, shift);
		if (!row.nulls[Messages_deadline_at - 1])
			pgqrs_xact_request_duty(DUTY_EXPIRY,
									DatumGetTimestampTz(
										row.values[Messages_deadline_at - 1]));
	}
	if (is_ahead(message, Messages_dequeued_at, now))
		move_column(&row, Messages_dequeued_at, shift);
	pgqrs_row_update(rows->messages, message, &row);
	r->moved++;
}

static void
move_collected(Realign *r)
{
	for (int i = 0; i < r->search.count; i++)
	{
		PgqrsMessageLock lock = pgqrs_worker_lock_message(&r->rows, r->found[i]);
		int64 shift;

		if (lock == MESSAGE_SKIPPED)
			r->at.passed_over |= pgqrs_row_fetch_id(r->rows.messages,
													r->found[i], r->rows.message);
		if (lock != MESSAGE_LOCKED)
			continue;
		shift = message_shift(r, r->rows.message, pgqrs_clock());
		if (shift > 0)
			move_message(r, shift);
	}
}

/*
 * Workers with a heartbeat in the future
 */

static void
move_heartbeats(TimestampTz now)
{
	PgqrsTable *workers = pgqrs_table_open(TABLE_WORKERS, true);
	TupleTableSlot *slot = pgqrs_table_slot(workers);
	PgqrsScan scan;

	pgqrs_scan_begin(&scan, workers, INDEX_WORKERS_NAME, 0, NULL);
	while (pgqrs_scan_next(&scan, slot))
	{
		if (!is_ahead(slot, Workers_heartbeat_at, now) ||
			pgqrs_row_lock(workers, slot, LockTupleNoKeyExclusive, LockWaitSkip) !=
				ROW_LOCKED)
			continue;
		pgqrs_row_set(workers, slot, Workers_heartbeat_at,
					  pgqrs_value(TimestampTzGetDatum(now)));
	}
	pgqrs_scan_end(&scan);
	pgqrs_table_close(workers);
}

/*
 * A pass
 */

static void
begin_batch(Realign *r, Position *reached, uint32 epoch)
{
	if (!reached->under_way || reached->epoch != epoch)
	{
		*reached = (Position){.under_way = true, .epoch = epoch};
		move_heartbeats(r->now);
	}
	r->at = *reached;
	r->search = (PgqrsClaimSearch){
		.at = reached->in_index,
		.from = r->now + PGQRS_CLOCK_TOLERANCE,
		.to = DT_NOEND,
		.budget = MAX_ENTRIES,
		.max = MAX_MOVED,
		.found = r->found,
		.matches = has_message_shift,
		.arg = r,
	};
	if (pgqrs_clock_last_step_back(&r->step))
		r->step_size = r->step.from - r->step.to;
	pgqrs_run_open(&r->rows);
	r->steps = pgqrs_table_open(TABLE_STEPS, true);
	r->step_slot = pgqrs_table_slot(r->steps);
}

TimestampTz
pgqrs_realign_pass(int64 *moved)
{
	static Position reached;
	TimestampTz now = pgqrs_clock();
	uint32 epoch = pgqrs_clock_epoch();
	Realign *r;
	TimestampTz next;

	if (!(reached.under_way && reached.epoch == epoch) && !is_scan_needed(epoch, now))
		return DT_NOEND;
	r = palloc0(sizeof(Realign));
	r->now = now;
	begin_batch(r, &reached, epoch);
	if (!collect_messages(r))
		next = 0;
	else if (r->at.passed_over)
		next = now + PGQRS_LOCKED_ROW_RETRY;
	else
		next = DT_NOEND;
	move_collected(r);
	if (next == DT_NOEND && r->at.passed_over)
		next = now + PGQRS_LOCKED_ROW_RETRY;
	*moved += r->moved;
	if (next == DT_NOEND)
		pgqrs_database_set_realigned(epoch);
	reached = r->at;
	reached.in_index = r->search.at;
	reached.under_way = next == 0;
	pgqrs_table_close(r->steps);
	pgqrs_run_close(&r->rows);
	pfree(r);
	return next;
}
