/*
 * maintain.c
 *	  What has to happen though nobody calls for it.
 *
 * One pass stops silent workers, gives back what stopped ones hold, and ends
 * what no claim may deliver any more: messages that were held once too often,
 * runs past their deadline, cancelled runs whose lease ran out.  An expired
 * lease on anything else is left alone, since its holder may still finish
 * until somebody claims.  And it looks for what claims would not find.
 *
 * Any number of passes may run in parallel and against everybody else.  Each
 * duty first collects a bounded number of ids, then takes them in ascending
 * order: locks the row, unless somebody else has it, and looks again at what
 * it has locked.  Nothing waits, and what was skipped is left to the next
 * pass or to the next claim.
 */
#include "maintain.h"

#include "claim.h"
#include "clock.h"
#include "json.h"
#include "lease.h"
#include "miscadmin.h"
#include "run.h"
#include "sweep.h"
#include "utils/timestamp.h"
#include "worker.h"

#define MAX_ROWS	1000  /* changed by one duty */
#define MAX_WORKERS 10000 /* looked at for what they hold */
#define MAX_ENTRIES 20000 /* messages looked at for being used up */
#define MAX_SWEPT	20000 /* index entries looked at below floors */

/* Where the search for used-up messages goes on: a hint, of this backend. */
typedef struct Position
{
	int64 queue_id;
	int priority;
	TimestampTz visible_after;
	int64 message_id;
} Position;

typedef struct Search
{
	PgqrsRunRows rows;
	TimestampTz now;
	int budget; /* entries that may still be looked at */
	int count;
	int64 found[MAX_ROWS];
} Search;

static int
compare_ids(const void *a, const void *b)
{
	int64 x = *(const int64 *) a;
	int64 y = *(const int64 *) b;

	return (x > y) - (x < y);
}

static int
failures_of(PgqrsRunRows *rows)
{
	return DatumGetInt32(pgqrs_get(rows->message, Messages_failures));
}

/*
 * Workers
 */

static void
stop_silent_workers(PgqrsMaintained *done)
{
	int64 ids[MAX_ROWS];

	done->workers_stopped = pgqrs_worker_stop_silent(ids, MAX_ROWS);
}

/* The workers that hold messages: one descent of the index for each. */
static int
find_holders(int64 *ids, int max)
{
	PgqrsTable *messages = pgqrs_table_open(TABLE_MESSAGES, false);
	PgqrsKey key = {1, BTGreaterStrategyNumber, Int64GetDatum(0)};
	int count = 0;
	PgqrsScan scan;

	pgqrs_scan_begin(&scan, messages, INDEX_MESSAGES_WORKER, 1, &key);
	while (count < max && pgqrs_scan_next_key(&scan))
	{
		CHECK_FOR_INTERRUPTS();
		ids[count] = DatumGetInt64(pgqrs_scan_key(&scan, 1));
		pgqrs_scan_restart(&scan, 0, Int64GetDatum(ids[count]));
		count++;
	}
	pgqrs_scan_end(&scan);
	pgqrs_table_close(messages);
	return count;
}

/* What workers hold that are stopped, or whose rows somebody deleted. */
static void
reap(PgqrsMaintained *done)
{
	int64 *ids = palloc(MAX_WORKERS * sizeof(int64));
	int count = find_holders(ids, MAX_WORKERS);
	PgqrsReaped reaped = {0};

	for (int i = 0; i < count; i++)
	{
		int left = MAX_ROWS - reaped.given_back - reaped.ended;

		if (left > 0 && pgqrs_worker_gone(ids[i]))
			pgqrs_worker_reap(ids[i], left, &reaped);
	}
	done->leases_reaped += reaped.given_back;
	done->messages_dead += reaped.ended;
	pfree(ids);
}

/*
 * Deadlines
 */

static bool
is_past_deadline(TupleTableSlot *message, TimestampTz now)
{
	return !pgqrs_is_null(message, Messages_deadline_at) &&
		DatumGetTimestampTz(pgqrs_get(message, Messages_deadline_at)) <= now;
}

static void
find_past_deadline(Search *search)
{
	PgqrsKey key = {1, BTLessEqualStrategyNumber, TimestampTzGetDatum(search->now)};
	PgqrsRunRows *rows = &search->rows;
	PgqrsScan scan;

	search->count = 0;
	pgqrs_scan_begin(&scan, rows->messages, INDEX_MESSAGES_DEADLINE, 1, &key);
	while (search->count < MAX_ROWS && pgqrs_scan_next(&scan, rows->message))
		search->found[search->count++] = DatumGetInt64(
			pgqrs_get(rows->message, Messages_message_id));
	pgqrs_scan_end(&scan);
	qsort(search->found, search->count, sizeof(int64), compare_ids);
}

/* A deadline counts under a live lease too, and while the run is parked. */
static void
end_past_deadline(Search *search, PgqrsMaintained *done)
{
	PgqrsRunRows *rows = &search->rows;

	find_past_deadline(search);
	for (int i = 0; i < search->count; i++)
	{
		if (!pgqrs_worker_try_lock(rows, search->found[i]) ||
			!is_past_deadline(rows->message, pgqrs_clock()))
			continue;
		if (pgqrs_claim_end_if_due(rows, failures_of(rows), pgqrs_clock()))
			done->runs_timed_out++;
	}
}

/*
 * Used up and cancelled
 */

static bool
is_cancelled(PgqrsRunRows *rows)
{
	return !pgqrs_is_null(rows->message, Messages_run_id) &&
		!pgqrs_is_null(rows->run, Runs_cancel_requested_at);
}

/*
 * Whether the message that was read is held under a lease that has run out and
 * may not be delivered again.  Reads the run if there is one to look at.
 */
static bool
is_used_up(PgqrsRunRows *rows, TimestampTz now)
{
	int64 id = DatumGetInt64(pgqrs_get(rows->message, Messages_message_id));

	if (pgqrs_is_null(rows->message, Messages_lease) ||
		pgqrs_lease_live(rows->message, now))
		return false;
	if (failures_of(rows) + 1 >= rows->queue.max_attempts)
		return true;
	return !pgqrs_is_null(rows->message, Messages_run_id) &&
		pgqrs_row_fetch_id(rows->runs, id, rows->run) && is_cancelled(rows);
}

/* The highest priority of a queue's messages that is at most *priority. */
static bool
next_priority(Search *search, int *priority)
{
	PgqrsKey keys[] = {
		{1, BTEqualStrategyNumber, Int64GetDatum(search->rows.queue.queue_id)},
		{2, BTLessEqualStrategyNumber, Int16GetDatum(*priority)},
	};
	PgqrsScan scan;
	bool found;

	pgqrs_scan_begin(&scan, search->rows.messages, INDEX_MESSAGES_CLAIM,
					 lengthof(keys), keys);
	found = pgqrs_scan_next_key(&scan);
	if (found)
		*priority = DatumGetInt16(pgqrs_scan_key(&scan, 2));
	pgqrs_scan_end(&scan);
	return found;
}

/*
 * Looks at the claimable messages of one priority from a position on; false,
 * and the position to go on from, when enough was looked at.
 */
static bool
search_priority(Search *search, Position *at)
{
	PgqrsRunRows *rows = &search->rows;
	Position start = *at;
	PgqrsKey keys[] = {
		{1, BTEqualStrategyNumber, Int64GetDatum(at->queue_id)},
		{2, BTEqualStrategyNumber, Int16GetDatum(at->priority)},
		{3, BTGreaterEqualStrategyNumber, TimestampTzGetDatum(at->visible_after)},
		{3, BTLessEqualStrategyNumber, TimestampTzGetDatum(search->now)},
	};
	bool more = true;
	PgqrsScan scan;

	pgqrs_scan_begin(&scan, rows->messages, INDEX_MESSAGES_CLAIM,
					 lengthof(keys), keys);
	while (more && pgqrs_scan_next_key(&scan))
	{
		TimestampTz visible_after = DatumGetTimestampTz(pgqrs_scan_key(&scan, 3));
		int64 id = DatumGetInt64(pgqrs_scan_key(&scan, 4));

		CHECK_FOR_INTERRUPTS();
		if (visible_after == start.visible_after && id < start.message_id)
			continue;
		at->visible_after = visible_after;
		at->message_id = id;
		if (pgqrs_scan_fetch(&scan, rows->message) && is_used_up(rows, search->now))
			search->found[search->count++] = id;
		more = --search->budget > 0 && search->count < MAX_ROWS;
	}
	pgqrs_scan_end(&scan);
	return more;
}

/* The same for all priorities of the queue that the position is in. */
static bool
search_queue(Search *search, Position *at)
{
	int priority = at->priority;

	while (next_priority(search, &priority))
	{
		if (priority != at->priority)
			*at = (Position){at->queue_id, priority, DT_NOBEGIN, 0};
		if (!search_priority(search, at))
			return false;
		priority--;
	}
	return true;
}

/*
 * Collects messages that are used up.  Only a look at the row tells them from
 * those that wait to be claimed, so each pass looks at some and the next one
 * of this backend goes on from there, around all queues and, if it began in
 * the middle of one, once more at that.
 */
static void
find_used_up(Search *search)
{
	static Position at;
	List *queues = pgqrs_queue_match(list_make1("*"), PRIVILEGE_ADMIN);
	int count = list_length(queues);
	int visits = count;
	int first = 0;

	while (first < count &&
		   ((PgqrsQueue *) list_nth(queues, first))->queue_id < at.queue_id)
		first++;
	if (count > 0 && at.queue_id != 0)
		visits++;
	search->count = 0;
	search->budget = MAX_ENTRIES;
	for (int i = 0; i < visits; i++)
	{
		search->rows.queue = *(PgqrsQueue *) list_nth(queues, (first + i) % count);
		if (search->rows.queue.queue_id != at.queue_id)
			at = (Position){search->rows.queue.queue_id, PG_INT16_MAX,
							DT_NOBEGIN, 0};
		if (!search_queue(search, &at))
			break;
		at = (Position){0};
	}
	list_free_deep(queues);
	qsort(search->found, search->count, sizeof(int64), compare_ids);
}

static void
end_used_up(Search *search, PgqrsMaintained *done)
{
	PgqrsRunRows *rows = &search->rows;

	find_used_up(search);
	for (int i = 0; i < search->count; i++)
	{
		bool cancelled;

		if (!pgqrs_worker_try_lock(rows, search->found[i]) ||
			!is_used_up(rows, pgqrs_clock()))
			continue;
		cancelled = is_cancelled(rows);
		if (!pgqrs_claim_end_if_due(rows, failures_of(rows) + 1, pgqrs_clock()))
			continue;
		if (cancelled)
			done->runs_cancelled++;
		else
			done->messages_dead++;
	}
}

void
pgqrs_maintain_pass(PgqrsMaintained *done)
{
	Search *search = palloc0(sizeof(Search));

	memset(done, 0, sizeof(*done));
	done->floors_lowered = pgqrs_sweep(MAX_SWEPT);
	stop_silent_workers(done);
	reap(done);

	pgqrs_run_open(&search->rows);
	search->now = pgqrs_clock();
	end_past_deadline(search, done);
	end_used_up(search, done);
	pgqrs_run_close(&search->rows);
	pfree(search);
}
