/*
 * duties.c
 *	  What has to happen though nobody calls for it.
 *
 * Silent workers are stopped and what stopped ones hold is given back.  What
 * no claim may deliver any more is ended: messages that were held once too
 * often, runs past their deadline, runs that were asked to stop and whose lease
 * ran out.  An expired lease on anything else is left alone, since its holder
 * may still finish until somebody claims.  Children of runs that ended badly
 * are cancelled, and parked runs woken for which something has come.  Grants to
 * roles that were dropped are removed, so that no other role of that name comes
 * by them.  What ended long enough ago is removed.
 *
 * When deadlines pass and last leases end is in indexes.  A lease that became
 * the last one after it was given, because a limit was lowered since, is not;
 * those are looked for among what could be claimed, as are, by the sweep,
 * messages that claims would not find.
 *
 * Any number of batches may run in parallel and against everybody else.  Each
 * first collects a bounded number of ids, then takes them in ascending order:
 * locks the row, unless somebody else has it, and looks again at what it has
 * locked.  Nothing waits, and what was skipped is left to the next batch or to
 * the next claim.  A batch that fails at one row is done again without it.
 */
#include "background/duties.h"

#include "background/realign.h"
#include "background/retention.h"
#include "base/clock.h"
#include "base/guc.h"
#include "base/int64_list.h"
#include "base/json.h"
#include "base/subxact.h"
#include "delivery/claim.h"
#include "delivery/floor_sweep.h"
#include "delivery/queue_probe.h"
#include "delivery/worker.h"
#include "miscadmin.h"
#include "queue/lease_limits.h"
#include "queue/privileges.h"
#include "shmem/quarantine.h"
#include "shmem/wakeup_table.h"
#include "store/triggers.h"
#include "utils/timestamp.h"
#include "workflow/cancel.h"
#include "workflow/run.h"
#include "workflow/run_wakeup.h"
#include "workflow/schedule.h"

#define MAX_ROWS	1000  /* changed by one duty */
#define MAX_WORKERS 10000 /* looked at for what they hold */
#define MAX_FIRED	500	  /* runs that schedules trigger */
#define MAX_ENTRIES 20000 /* messages looked at for being used up */
#define MAX_SWEPT	20000 /* index entries looked at below floors */
#define MAX_PARKED	5000  /* parked runs looked at */
#define MAX_AHEAD	100	  /* index entries looked at for what is due next */

/* What somebody has locked is tried again after this. */
#define RETRY (1 * USECS_PER_SEC)

/* The oldest entries of what may be due to end are looked at this often. */
#define FULL_INTERVAL (60 * USECS_PER_SEC)

/* What stopped workers hold is looked for at least this often. */
#define REAP_INTERVAL (60 * USECS_PER_SEC)

/* So many batches of parked runs follow each other before other duties are done. */
#define PARKED_BATCHES 90

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
	TimestampTz next; /* when there is more */
	int budget;		  /* entries that may still be looked at */
	int count;
	int64 found[MAX_ROWS];
} Search;

/*
 * Running duties
 */

typedef struct Batch
{
	PgqrsDutyFunction duty;
	int64 *done;
	TimestampTz next;
} Batch;

static bool
run_batch(void *arg)
{
	Batch *batch = arg;

	pgqrs_faulty_begin();
	batch->next = batch->duty(batch->done);
	return true;
}

TimestampTz
pgqrs_duty_run_batch(PgqrsDutyFunction duty, int64 *done)
{
	Batch batch = {.duty = duty, .done = done};
	int64 before[DONE_COUNT];

	memcpy(before, done, sizeof(before));
	while (!pgqrs_faulty_try(run_batch, &batch))
	{
		CHECK_FOR_INTERRUPTS();
		memcpy(done, before, sizeof(before));
	}
	return batch.next;
}

static int
failures_of(PgqrsRunRows *rows)
{
	return DatumGetInt32(pgqrs_get(rows->message, Messages_failures));
}

/*
 * Workers
 */

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

/*
 * Gives back what workers hold that are stopped, or whose rows somebody
 * deleted.  When there may be more of it.
 */
static TimestampTz
reap(int64 *done)
{
	int64 *ids = palloc(MAX_WORKERS * sizeof(int64));
	int count = find_holders(ids, MAX_WORKERS);
	PgqrsReaped reaped = {0};
	TimestampTz next;

	for (int i = 0; i < count; i++)
	{
		int left = MAX_ROWS - reaped.given_back - reaped.ended;

		if (left > 0 && pgqrs_faulty_come_to(FAULTY_WORKER, ids[i]) &&
			pgqrs_worker_gone(ids[i]))
			pgqrs_worker_reap(ids[i], left, &reaped);
	}
	done[DONE_LEASES_REAPED] += reaped.given_back;
	done[DONE_MESSAGES_DEAD] += reaped.ended;
	pfree(ids);

	if (reaped.given_back + reaped.ended >= MAX_ROWS)
		next = 0;
	else if (reaped.skipped > 0)
		next = pgqrs_clock() + RETRY;
	else if (count > 0)
		next = pgqrs_clock() + REAP_INTERVAL;
	else
		next = DT_NOEND;
	return next;
}

static TimestampTz
maintain_workers(int64 *done)
{
	int64 ids[MAX_ROWS];
	TimestampTz next_silent;
	TimestampTz next;
	bool all;

	done[DONE_WORKERS_STOPPED] += pgqrs_worker_stop_silent(ids, MAX_ROWS, &all,
														   &next_silent);
	next = reap(done);
	if (!all)
		next = Min(next, pgqrs_clock() + RETRY);
	return Min(next, next_silent);
}

/*
 * Used up, past the deadline or cancelled
 */

/*
 * Whether the message that was read is held under a lease that has run out and
 * was the last one.
 */
static bool
is_used_up(PgqrsRunRows *rows, TimestampTz now)
{
	return !pgqrs_is_null(rows->message, Messages_lease) &&
		!pgqrs_lease_live(rows->message, now) &&
		((failures_of(rows) + 1 >= rows->queue.max_attempts &&
		  pgqrs_claim_failures_after_loss(rows->message) >= rows->queue.max_attempts) ||
		 pgqrs_message_is_cancelling(rows->message));
}

/* Ends the message that is locked, which is used up. */
static void
end_used_up(PgqrsRunRows *rows, int64 *done)
{
	bool cancelled = pgqrs_claim_is_cancelled(rows);

	if (pgqrs_claim_end_if_due(rows, pgqrs_claim_failures_after_loss(rows->message),
							   pgqrs_clock()))
		done[cancelled ? DONE_RUNS_CANCELLED : DONE_MESSAGES_DEAD]++;
}

/*
 * Ends by the indexes
 */

/* Where a search by one of the indexes goes on: a hint, of this backend. */
typedef struct EndsPlace
{
	TimestampTz from;	 /* of a search that had enough; else DT_NOBEGIN */
	TimestampTz reached; /* a search from the beginning on found all before it */
	int64 full_at;		 /* when that search began; 0: there was none */
	bool passed_locked;	 /* something before it that a transaction had locked */
} EndsPlace;

/*
 * Where the search begins.  While an old snapshot is there, so are the entries
 * of all that has ended: a search begins with what is due by the commits that
 * told of it, which name the earliest instant, and not with the oldest entry.
 * But once in a while it does, since what tells it is a hint.
 */
static TimestampTz
begin_ends(EndsPlace *place)
{
	int64 now = pgqrs_monotonic();

	if (place->from != DT_NOBEGIN)
		return place->from;
	if (place->full_at != 0 && now < place->full_at + FULL_INTERVAL)
		return Min(place->reached, pgqrs_database_taken(DUTY_EXPIRY));
	place->full_at = now;
	return DT_NOBEGIN;
}

/*
 * Collects and locks what is due by one of the indexes, after what was
 * collected before, and notes when more is.  Entries of what has ended long ago
 * may still be there, while an old snapshot is, and others are locked: some are
 * looked at, and the next batch of this backend goes on from there, unless this
 * one fails.
 */
static void
find_ends(Search *search, PgqrsIndexId index, EndsPlace *place)
{
	PgqrsRunRows *rows = &search->rows;
	PgqrsKey key = {1, BTGreaterEqualStrategyNumber,
					TimestampTzGetDatum(begin_ends(place))};
	TimestampTz next = DT_NOEND;
	int budget = MAX_ENTRIES;
	int ahead = MAX_AHEAD;
	PgqrsScan scan;

	place->from = DT_NOBEGIN;
	pgqrs_scan_begin(&scan, rows->messages, index, 1, &key);
	while (next == DT_NOEND && pgqrs_scan_next_key(&scan))
	{
		TimestampTz at = DatumGetTimestampTz(pgqrs_scan_key(&scan, 1));
		bool there;

		CHECK_FOR_INTERRUPTS();
		there = pgqrs_scan_fetch(&scan, rows->message);
		if (at > search->now)
		{
			if (there || --ahead == 0)
				next = at;
			continue;
		}
		if (there &&
			pgqrs_row_lock(rows->messages, rows->message, LockTupleExclusive,
						   LockWaitSkip) == ROW_LOCKED)
			search->found[search->count++] = DatumGetInt64(
				pgqrs_get(rows->message, Messages_message_id));
		else if (there)
			place->passed_locked = true;
		if (search->count == MAX_ROWS || --budget == 0)
		{
			next = 0;
			place->from = at;
		}
	}
	pgqrs_scan_end(&scan);
	if (place->from == DT_NOBEGIN)
		place->reached = search->now;
	if (place->from == DT_NOBEGIN && place->passed_locked)
	{
		next = Min(next, search->now + RETRY);
		place->passed_locked = false;
		place->full_at = 0;
	}
	search->next = Min(search->next, next);
}

/*
 * The lease is not the last one any more, since the limit was raised, or it is
 * and somebody wrote the row past the functions.
 */
static void
correct_exhausted(PgqrsRunRows *rows, TimestampTz now)
{
	PgqrsRow row;

	if (pgqrs_is_null(rows->message, Messages_exhausted_at) ||
		DatumGetTimestampTz(pgqrs_get(rows->message, Messages_exhausted_at)) > now)
		return;
	pgqrs_row_copy(&row, rows->messages, rows->message);
	pgqrs_set_null(&row, Messages_exhausted_at);
	if (pgqrs_lease_live(rows->message, now))
		pgqrs_set(&row, Messages_exhausted_at,
				  pgqrs_get(rows->message, Messages_visible_after));
	pgqrs_row_update(rows->messages, rows->message, &row);
}

/* A deadline counts under a live lease too, and while the run is parked. */
static void
end_message(Search *search, int64 *done)
{
	PgqrsRunRows *rows = &search->rows;
	TimestampTz now = pgqrs_clock();

	if (pgqrs_message_is_past_deadline(rows->message, now))
	{
		if (pgqrs_claim_end_if_due(rows, failures_of(rows), now))
			done[DONE_RUNS_TIMED_OUT]++;
	}
	else if (is_used_up(rows, now))
		end_used_up(rows, done);
	else
		correct_exhausted(rows, now);
}

static TimestampTz
maintain_ends(int64 *done)
{
	static EndsPlace deadlines_place = {.from = DT_NOBEGIN, .reached = DT_NOBEGIN};
	static EndsPlace exhausted_place = {.from = DT_NOBEGIN, .reached = DT_NOBEGIN};
	EndsPlace deadlines = deadlines_place;
	EndsPlace exhausted = exhausted_place;
	Search *search = palloc0(sizeof(Search));
	TimestampTz next;

	search->now = pgqrs_clock();
	pgqrs_run_open(&search->rows);
	search->next = DT_NOEND;
	find_ends(search, INDEX_MESSAGES_DEADLINE, &deadlines);
	if (search->count < MAX_ROWS)
		find_ends(search, INDEX_MESSAGES_EXHAUSTED, &exhausted);
	next = search->next;
	pgqrs_numbers_sort(search->found, search->count);
	for (int i = 0; i < search->count; i++)
	{
		if (!pgqrs_faulty_come_to(FAULTY_MESSAGE, search->found[i]))
			next = Min(next, search->now + PGQRS_FAULTY_PAUSE);
		else if (pgqrs_worker_try_lock_message(&search->rows, search->found[i]))
			end_message(search, done);
		else
		{
			next = Min(next, search->now + RETRY);
			deadlines.full_at = exhausted.full_at = 0;
		}
	}
	pgqrs_run_close(&search->rows);
	pfree(search);
	deadlines_place = deadlines;
	exhausted_place = exhausted;
	return next;
}

/*
 * Used up by a search
 */

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

	while (priority >= PG_INT16_MIN &&
		   pgqrs_message_next_priority(search->rows.messages,
									   search->rows.queue.queue_id, &priority))
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
 * of this backend goes on from there if this one does not fail, around all
 * queues and, if it began in the middle of one, once more at that.
 */
static void
find_used_up(Search *search, Position *at)
{
	List *queues = pgqrs_queue_match(list_make1("*"), PRIVILEGE_ADMIN);
	int count = list_length(queues);
	int visits = count;
	int first = 0;

	while (first < count &&
		   ((PgqrsQueue *) list_nth(queues, first))->queue_id < at->queue_id)
		first++;
	if (count > 0 && at->queue_id != 0)
		visits++;
	search->count = 0;
	search->budget = MAX_ENTRIES;
	for (int i = 0; i < visits; i++)
	{
		search->rows.queue = *(PgqrsQueue *) list_nth(queues, (first + i) % count);
		if (search->rows.queue.queue_id != at->queue_id)
			*at = (Position){search->rows.queue.queue_id, PG_INT16_MAX,
							 DT_NOBEGIN, 0};
		if (!search_queue(search, at))
			break;
		*at = (Position){0};
	}
	list_free_deep(queues);
	pgqrs_numbers_sort(search->found, search->count);
}

static TimestampTz
maintain_used_up(int64 *done)
{
	static Position reached;
	Position at = reached;
	Search *search = palloc0(sizeof(Search));
	PgqrsRunRows *rows = &search->rows;
	bool all;

	search->now = pgqrs_clock();
	pgqrs_run_open(rows);
	find_used_up(search, &at);
	for (int i = 0; i < search->count; i++)
		if (pgqrs_faulty_come_to(FAULTY_MESSAGE, search->found[i]) &&
			pgqrs_worker_try_lock_message(rows, search->found[i]) &&
			is_used_up(rows, pgqrs_clock()))
			end_used_up(rows, done);
	all = search->count < MAX_ROWS;
	pgqrs_run_close(rows);
	pfree(search);
	reached = at;
	return all ? DT_NOEND : 0;
}

/*
 * The rest
 */

static TimestampTz
maintain_floors(int64 *done)
{
	bool mended = pgqrs_triggers_mend();

	done[DONE_FLOORS_LOWERED] += pgqrs_floor_sweep_run(MAX_SWEPT);
	return mended ? DT_NOEND : pgqrs_clock() + RETRY;
}

/*
 * A queue that is deleted has no place in shared memory any more; but one is
 * made again when somebody tells just then of what he did to it, and when the
 * transaction that created it and claimed from it is rolled back.
 */
static TimestampTz
maintain_ready(int64 *done)
{
	int64 *ids = palloc(PGQRS_QUEUE_SLOTS * sizeof(int64));
	int count = pgqrs_wakeup_list_queues(ids);
	PgqrsQueue queue;

	for (int i = 0; i < count; i++)
		if (!pgqrs_queue_by_id(ids[i], &queue))
			pgqrs_queue_probe_deleted(ids[i]);
	pfree(ids);
	return DT_NOEND;
}

static TimestampTz
maintain_grants(int64 *done)
{
	int removed;
	bool all = pgqrs_grants_follow_roles(MAX_ROWS, &removed);

	all &= pgqrs_workers_follow_roles(MAX_ROWS);
	all &= pgqrs_schedule_follow_roles(MAX_ROWS);
	done[DONE_GRANTS_REMOVED] += removed;
	return all && removed < MAX_ROWS ? DT_NOEND : pgqrs_clock() + RETRY;
}

static TimestampTz
maintain_children(int64 *done)
{
	TimestampTz next;

	done[DONE_RUNS_CANCELLED] += pgqrs_cancel_left(MAX_ROWS, &next);
	return next;
}

static TimestampTz
maintain_parked(int64 *done)
{
	bool more;

	done[DONE_RUNS_WOKEN] += pgqrs_run_wakeup_pass(MAX_PARKED, &more);
	return more ? 0 : DT_NOEND;
}

/*
 * For the background worker, which else is told of each run that is to be looked
 * at: all of them, from the first one on if it was told so since.
 */
static TimestampTz
all_parked(int64 *done)
{
	static uint32 taken = 0;
	static int batches = 0;
	TimestampTz next;

	if (taken != pgqrs_database_takes(DUTY_RUN_WAKEUPS))
	{
		taken = pgqrs_database_takes(DUTY_RUN_WAKEUPS);
		batches = 0;
		if (pgqrs_database_taken(DUTY_RUN_WAKEUPS) == 0)
			pgqrs_run_wakeup_restart();
	}
	next = maintain_parked(done);
	return next == 0 && ++batches == PARKED_BATCHES ? pgqrs_clock() : next;
}

static TimestampTz
maintain_clock(int64 *done)
{
	return pgqrs_realign_pass(&done[DONE_MESSAGES_REALIGNED]);
}

static TimestampTz
maintain_schedules(int64 *done)
{
	return pgqrs_schedule_tick(MAX_FIRED, &done[DONE_SCHEDULES_FIRED]);
}

/* A pass of retention, whose counts are added; when it is due again. */
static TimestampTz
remove_rows(TimestampTz (*pass)(bool, PgqrsRetained *), bool gently, int64 *done)
{
	PgqrsRetained removed;
	TimestampTz next = pass(gently, &removed);

	done[DONE_RUNS_CANCELLED] += removed.cancelled;
	done[DONE_MESSAGES_REMOVED] += removed.messages;
	done[DONE_RUNS_REMOVED] += removed.runs;
	done[DONE_FIRINGS_REMOVED] += removed.firings;
	return next;
}

static TimestampTz
maintain_deleted(int64 *done)
{
	return remove_rows(pgqrs_retention_of_deleted, false, done);
}

static TimestampTz
deleted_gently(int64 *done)
{
	return remove_rows(pgqrs_retention_of_deleted, true, done);
}

static TimestampTz
maintain_retention(int64 *done)
{
	return remove_rows(pgqrs_retention_pass, false, done);
}

/* For a caller that comes again soon, and has other duties between two batches. */
static TimestampTz
retention_gently(int64 *done)
{
	TimestampTz next = remove_rows(pgqrs_retention_pass, true, done);

	return next == 0 ? pgqrs_clock() : next;
}

TimestampTz
pgqrs_duty_retention(int64 *done)
{
	TimestampTz deleted = pgqrs_duty_run_batch(maintain_deleted, done);
	TimestampTz retained = pgqrs_duty_run_batch(maintain_retention, done);

	return Min(deleted, retained);
}

/*
 * All duties
 */

const PgqrsDutyEntry pgqrs_duties[] = {
	{DUTY_FLOOR_SWEEP, maintain_floors, NULL, "floors", "sweeping below the floors"},
	{DUTY_REALIGN, maintain_clock, NULL, "clock", "looking for work of a wrong time"},
	{DUTY_WORKERS, maintain_workers, NULL, "workers", "stopping silent workers"},
	{DUTY_EXPIRY, maintain_ends, NULL, "ends", "ending what is due to end"},
	{DUTY_DELETED_QUEUES, maintain_deleted, deleted_gently, "deletions",
	 "removing what deleted queues have left"},
	{DUTY_CHILDREN, maintain_children, NULL, "children", "cancelling children"},
	{DUTY_RUN_WAKEUPS, maintain_parked, all_parked, "parked runs",
	 "looking at parked runs"},
	{DUTY_ROLES, maintain_grants, NULL, "grants",
	 "following roles that were renamed or dropped"},
	{DUTY_SCHEDULES, maintain_schedules, NULL, "schedules", "firing schedules"},
	{DUTY_RETENTION, maintain_retention, retention_gently, "retention",
	 "removing what was kept long enough"},
	{DUTY_EXHAUSTED, maintain_used_up, NULL, "exhausted messages",
	 "looking for used up messages"},
	{DUTY_QUEUE_WAKEUPS, maintain_ready, NULL, "deleted queues",
	 "forgetting deleted queues"},
};

const int pgqrs_duty_count = lengthof(pgqrs_duties);

const PgqrsDutyEntry *
pgqrs_duty_find(PgqrsDutyId id)
{
	for (int i = 0; i < pgqrs_duty_count; i++)
		if (pgqrs_duties[i].id == id)
			return &pgqrs_duties[i];
	return NULL;
}

typedef struct Attempt
{
	PgqrsDutyFunction duty;
	int64 *done;
} Attempt;

static bool
attempt_duty(void *arg)
{
	Attempt *attempt = arg;

	(void) pgqrs_duty_run_batch(attempt->duty, attempt->done);
	return true;
}

/* A duty, in a subtransaction; its error, or NULL. */
static ErrorData *
try_duty(const PgqrsDutyEntry *entry, int64 *done)
{
	int64 before[DONE_COUNT];
	Attempt attempt = {.duty = entry->duty, .done = done};
	ErrorData *error;

	memcpy(before, done, sizeof(before));
	error = pgqrs_subtransaction(attempt_duty, &attempt);
	if (error == NULL)
		return NULL;
	memcpy(done, before, sizeof(before));
	ereport(WARNING,
			(errcode(error->sqlerrcode),
			 errmsg("duty \"%s\" of pgqrs_maintain() failed: %s", entry->name,
					error->message),
			 errdetail("What it had done in this call is undone. The other duties are done."),
			 error->hint != NULL ? errhint("%s", error->hint) : 0));
	return error;
}

ErrorData **
pgqrs_duty_run_all(int64 *done)
{
	ErrorData **errors = palloc0(DUTY_COUNT * sizeof(ErrorData *));
	bool any = false;

	for (int i = 0; i < pgqrs_duty_count; i++)
	{
		const PgqrsDutyEntry *entry = &pgqrs_duties[i];

		errors[entry->id] = try_duty(entry, done);
		any |= errors[entry->id] != NULL;
	}
	return any ? errors : NULL;
}

const char *
pgqrs_duty_done_label(PgqrsDone count)
{
	static const char *const labels[DONE_COUNT] = {
		[DONE_WORKERS_STOPPED] = "workers_stopped",
		[DONE_LEASES_REAPED] = "leases_reaped",
		[DONE_MESSAGES_DEAD] = "messages_dead",
		[DONE_RUNS_CANCELLED] = "runs_cancelled",
		[DONE_RUNS_TIMED_OUT] = "runs_timed_out",
		[DONE_RUNS_WOKEN] = "runs_woken",
		[DONE_FLOORS_LOWERED] = "floors_lowered",
		[DONE_GRANTS_REMOVED] = "grants_removed",
		[DONE_SCHEDULES_FIRED] = "schedules_fired",
		[DONE_MESSAGES_REMOVED] = "messages_removed",
		[DONE_RUNS_REMOVED] = "runs_removed",
		[DONE_FIRINGS_REMOVED] = "firings_removed",
		[DONE_MESSAGES_REALIGNED] = "messages_realigned",
	};

	return labels[count];
}
