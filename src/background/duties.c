/*
 * duties.c
 *	  Background duties: expiry, deadlines, schedules, retention.
 *
 * Runs in a background worker and in pgqrs_maintain().  Silent workers are
 * stopped, and the messages of stopped workers are released.  Messages that no
 * claim may deliver again are ended: exhausted messages, runs past their
 * deadline, cancelled runs with an expired lease.  Any other expired lease is
 * left alone, since its holder may still finish until the next claim.  Children
 * of failed and cancelled runs are cancelled; runs whose wait is over are
 * woken.  Grants to dropped roles are removed before another role gets the same
 * name.
 *
 * Deadlines and the ends of last leases are indexed.  A lease that became the
 * last one later, because max_attempts was lowered, is not in the index: such
 * messages are searched for in the claim index.
 *
 * Any number of batches may run at the same time.  Each batch collects a
 * bounded number of ids, locks the rows in ascending order of id, skips rows
 * that another transaction has locked, and rechecks the locked row.  No batch
 * waits: skipped rows are left to the next batch or the next claim.  If a row
 * raises an error, the batch is repeated without it.
 */
#include "background/duties.h"

#include "background/realign.h"
#include "background/retention.h"
#include "base/clock.h"
#include "base/int64_list.h"
#include "base/json.h"
#include "base/subxact.h"
#include "delivery/claim.h"
#include "delivery/floor_sweep.h"
#include "delivery/queue_probe.h"
#include "delivery/worker.h"
#include "miscadmin.h"
#include "queue/counter_rows.h"
#include "queue/lease_limits.h"
#include "queue/priority_scan.h"
#include "queue/privileges.h"
#include "shmem/quarantine.h"
#include "shmem/wakeup_table.h"
#include "store/scan.h"
#include "store/triggers.h"
#include "store/tuple.h"
#include "utils/timestamp.h"
#include "workflow/cancel.h"
#include "workflow/run.h"
#include "workflow/run_wakeup.h"
#include "workflow/schedule.h"

/* Limits of one batch. */
#define MAX_ROWS	1000  /* changed rows */
#define MAX_WORKERS 10000 /* workers with messages */
#define MAX_FIRED	500	  /* runs that schedules trigger */
#define MAX_ENTRIES 20000 /* index entries of expired or exhausted messages */
#define MAX_SWEPT	20000 /* index entries below floors */
#define MAX_WAITING 5000  /* waiting runs */
#define MAX_AHEAD	100	  /* dead index entries before the next expiry */

/* The expiry indexes are scanned from their beginning this often. */
#define FULL_INTERVAL (60 * USECS_PER_SEC)

/* The messages of stopped workers are searched for at least this often. */
#define REAP_INTERVAL (60 * USECS_PER_SEC)

/* Consecutive batches of run wake-ups before other duties have their turn. */
#define WAITING_BATCHES 90

typedef struct MessageSearch
{
	PgqrsRunRows rows;
	TimestampTz now;
	TimestampTz next; /* when the duty is due again */
	int count;
	int64 found[MAX_ROWS];
} MessageSearch;

/*
 * Running duties
 */

typedef struct DutyBatch
{
	PgqrsDutyFunction duty;
	int64 *done;
	TimestampTz next;
} DutyBatch;

static bool
run_duty_batch(void *arg)
{
	DutyBatch *batch = arg;

	pgqrs_quarantine_begin();
	batch->next = batch->duty(batch->done);
	return true;
}

TimestampTz
pgqrs_duty_run_batch(PgqrsDutyFunction duty, int64 *done)
{
	DutyBatch batch = {.duty = duty, .done = done};
	int64 before[DONE_COUNT];

	memcpy(before, done, sizeof(before));
	while (!pgqrs_quarantine_try(run_duty_batch, &batch))
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

/* The ids of workers that hold messages, by one index descent per worker. */
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

/* Releases the messages of stopped and of deleted workers. */
static TimestampTz
reap_workers(int64 *done)
{
	int64 *ids = palloc(MAX_WORKERS * sizeof(int64));
	int count = find_holders(ids, MAX_WORKERS);
	PgqrsReaped reaped = {0};
	TimestampTz next;

	for (int i = 0; i < count; i++)
	{
		int left = MAX_ROWS - reaped.given_back - reaped.ended;

		if (left > 0 && pgqrs_quarantine_begin_row(QUARANTINE_WORKER, ids[i]) &&
			pgqrs_worker_is_gone(ids[i]))
			pgqrs_worker_reap(ids[i], left, &reaped);
	}
	done[DONE_LEASES_REAPED] += reaped.given_back;
	done[DONE_MESSAGES_DEAD] += reaped.ended;
	pfree(ids);

	if (reaped.given_back + reaped.ended >= MAX_ROWS)
		next = 0;
	else if (reaped.skipped > 0)
		next = pgqrs_clock() + PGQRS_LOCKED_ROW_RETRY;
	else if (count > 0)
		next = pgqrs_clock() + REAP_INTERVAL;
	else
		next = DT_NOEND;
	return next;
}

static TimestampTz
duty_workers(int64 *done)
{
	int64 ids[MAX_ROWS];
	TimestampTz next_silent;
	TimestampTz next;
	bool all;

	done[DONE_WORKERS_STOPPED] += pgqrs_worker_stop_silent(ids, MAX_ROWS, &all,
														   &next_silent);
	next = reap_workers(done);
	if (!all)
		next = Min(next, pgqrs_clock() + PGQRS_LOCKED_ROW_RETRY);
	return Min(next, next_silent);
}

/*
 * Messages that are exhausted, past their deadline or cancelled
 */

/* Whether the lease of the message in the slot was its last one, and has expired. */
static bool
is_exhausted(PgqrsRunRows *rows, TimestampTz now)
{
	return !pgqrs_is_null(rows->message, Messages_lease) &&
		!pgqrs_lease_is_live(rows->message, now) &&
		((failures_of(rows) + 1 >= rows->queue.max_attempts &&
		  pgqrs_claim_failures_after_loss(rows->message) >= rows->queue.max_attempts) ||
		 pgqrs_message_is_cancelling(rows->message));
}

/* Ends the locked message. */
static void
end_exhausted(PgqrsRunRows *rows, int64 *done)
{
	bool cancelled = pgqrs_claim_is_cancelled(rows);

	if (pgqrs_claim_undo_if_due(rows, pgqrs_clock()))
		return;
	if (pgqrs_claim_end_if_due(rows, pgqrs_claim_failures_after_loss(rows->message),
							   pgqrs_clock()))
		done[cancelled ? DONE_RUNS_CANCELLED : DONE_MESSAGES_DEAD]++;
}

/*
 * Expired messages by the indexes of deadlines and last leases
 */

/* The position where this backend continues the scan of an expiry index: a hint. */
typedef struct ExpiryScanPosition
{
	TimestampTz from;	 /* of a scan with a spent budget; else DT_NOBEGIN */
	TimestampTz reached; /* the last full scan handled everything before */
	int64 full_at;		 /* start of the last full scan; 0: none */
	bool passed_locked;	 /* that scan skipped a locked message */
} ExpiryScanPosition;

/*
 * The instant at which the scan begins.  An old snapshot keeps the index entries
 * of ended messages, so a scan does not begin with the oldest entry, but with
 * the earliest instant for which a commit has requested the duty.  Requests are
 * hints, therefore a full scan follows every FULL_INTERVAL.
 */
static TimestampTz
expiry_scan_start(ExpiryScanPosition *place)
{
	int64 now = pgqrs_monotonic();

	if (place->from != DT_NOBEGIN)
		return place->from;
	if (place->full_at != 0 && now < place->full_at + FULL_INTERVAL)
		return Min(place->reached, pgqrs_database_taken_due(DUTY_EXPIRY));
	place->full_at = now;
	return DT_NOBEGIN;
}

/*
 * Locks the messages that are due by one of the indexes, adds their ids to the
 * search and sets when the duty is due again.  The budget covers entries of ended
 * messages, which an old snapshot keeps, and of locked ones; the next batch of
 * this backend continues at the position, unless this batch fails.
 */
static void
lock_expired(MessageSearch *search, PgqrsIndexId index, ExpiryScanPosition *place)
{
	PgqrsRunRows *rows = &search->rows;
	PgqrsKey key = {1, BTGreaterEqualStrategyNumber,
					TimestampTzGetDatum(expiry_scan_start(place))};
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
			search->found[search->count++] = pgqrs_get_int64(rows->message,
															 Messages_message_id);
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
		next = Min(next, search->now + PGQRS_LOCKED_ROW_RETRY);
		place->passed_locked = false;
		place->full_at = 0;
	}
	search->next = Min(search->next, next);
}

/*
 * Corrects exhausted_at: max_attempts was raised after the claim, or a statement
 * wrote the row without the functions of pgqrs.
 */
static void
correct_exhausted_at(PgqrsRunRows *rows, TimestampTz now)
{
	PgqrsRow row;

	if (pgqrs_is_null(rows->message, Messages_exhausted_at) ||
		pgqrs_get_time(rows->message, Messages_exhausted_at) > now)
		return;
	pgqrs_row_copy(&row, rows->messages, rows->message);
	pgqrs_set_null(&row, Messages_exhausted_at);
	if (pgqrs_lease_is_live(rows->message, now))
		pgqrs_set(&row, Messages_exhausted_at,
				  pgqrs_get(rows->message, Messages_visible_after));
	pgqrs_row_update(rows->messages, rows->message, &row);
}

/* A deadline applies under a live lease, too, and while the run waits. */
static void
end_expired(MessageSearch *search, int64 *done)
{
	PgqrsRunRows *rows = &search->rows;
	TimestampTz now = pgqrs_clock();

	if (pgqrs_message_is_past_deadline(rows->message, now))
	{
		if (!pgqrs_claim_undo_if_due(rows, now) &&
			pgqrs_claim_end_if_due(rows, failures_of(rows), now))
			done[DONE_RUNS_TIMED_OUT]++;
	}
	else if (is_exhausted(rows, now))
		end_exhausted(rows, done);
	else
		correct_exhausted_at(rows, now);
}

static TimestampTz
duty_expiry(int64 *done)
{
	static ExpiryScanPosition deadlines_place = {.from = DT_NOBEGIN,
												 .reached = DT_NOBEGIN};
	static ExpiryScanPosition exhausted_place = {.from = DT_NOBEGIN,
												 .reached = DT_NOBEGIN};
	ExpiryScanPosition deadlines = deadlines_place;
	ExpiryScanPosition exhausted = exhausted_place;
	MessageSearch *search = palloc0(sizeof(MessageSearch));
	TimestampTz next;

	search->now = pgqrs_clock();
	pgqrs_run_open(&search->rows);
	search->next = DT_NOEND;
	lock_expired(search, INDEX_MESSAGES_DEADLINE, &deadlines);
	if (search->count < MAX_ROWS)
		lock_expired(search, INDEX_MESSAGES_EXHAUSTED, &exhausted);
	next = search->next;
	pgqrs_int64_sort(search->found, search->count);
	for (int i = 0; i < search->count; i++)
	{
		switch (pgqrs_worker_lock_message(&search->rows, search->found[i]))
		{
			case MESSAGE_LOCKED:
				end_expired(search, done);
				break;
			case MESSAGE_SKIPPED:
				next = Min(next, search->now + PGQRS_LOCKED_ROW_RETRY);
				deadlines.full_at = exhausted.full_at = 0;
				break;
			case MESSAGE_QUARANTINED:
				next = Min(next, search->now + PGQRS_QUARANTINE_PAUSE);
				break;
		}
	}
	pgqrs_run_close(&search->rows);
	pfree(search);
	deadlines_place = deadlines;
	exhausted_place = exhausted;
	return next;
}

/*
 * Exhausted messages by a search of the claim index
 */

static bool
is_exhausted_match(void *arg)
{
	MessageSearch *search = arg;

	return is_exhausted(&search->rows, search->now);
}

/*
 * Collects exhausted messages.  Only the row tells them from claimable messages,
 * so each batch scans a part of the claim index and the next batch of this
 * backend continues there.  The scan wraps around all queues, and ends with the
 * queue in which it began.
 */
static void
find_exhausted(MessageSearch *search, PgqrsClaimSearch *claims)
{
	PgqrsRunRows *rows = &search->rows;
	List *queues = pgqrs_queue_match(list_make1("*"), PRIVILEGE_ADMIN);
	int count = list_length(queues);
	int visits = count;
	int first = 0;

	while (first < count &&
		   ((PgqrsQueue *) list_nth(queues, first))->queue_id < claims->at.queue_id)
		first++;
	if (count > 0 && claims->at.queue_id != 0)
		visits++;
	for (int i = 0; i < visits; i++)
	{
		rows->queue = *(PgqrsQueue *) list_nth(queues, (first + i) % count);
		if (!pgqrs_claim_search_queue(claims, rows->messages, rows->message,
									  rows->queue.queue_id))
			break;
		claims->at = (PgqrsClaimPosition){0};
	}
	list_free_deep(queues);
	pgqrs_int64_sort(claims->found, claims->count);
}

static TimestampTz
duty_exhausted(int64 *done)
{
	static PgqrsClaimPosition reached;
	MessageSearch *search = palloc0(sizeof(MessageSearch));
	PgqrsRunRows *rows = &search->rows;
	PgqrsClaimSearch claims = {
		.at = reached,
		.from = DT_NOBEGIN,
		.budget = MAX_ENTRIES,
		.max = MAX_ROWS,
		.found = search->found,
		.matches = is_exhausted_match,
		.arg = search,
	};

	claims.to = search->now = pgqrs_clock();
	pgqrs_run_open(rows);
	find_exhausted(search, &claims);
	for (int i = 0; i < claims.count; i++)
		if (pgqrs_worker_lock_message(rows, claims.found[i]) == MESSAGE_LOCKED &&
			is_exhausted(rows, pgqrs_clock()))
			end_exhausted(rows, done);
	pgqrs_run_close(rows);
	pfree(search);
	reached = claims.at;
	return claims.count < MAX_ROWS ? DT_NOEND : 0;
}

/*
 * Other duties
 */

static TimestampTz
duty_floor_sweep(int64 *done)
{
	bool mended = pgqrs_triggers_restore();

	done[DONE_FLOORS_LOWERED] += pgqrs_floor_sweep_run(MAX_SWEPT);
	return mended ? DT_NOEND : pgqrs_clock() + PGQRS_LOCKED_ROW_RETRY;
}

/*
 * Removes the shared memory slots of queues that do not exist.  A backend that
 * reports a change at the same time as the deletion, or whose transaction created
 * the queue and rolled back, leaves such a slot.
 */
static TimestampTz
duty_queue_wakeups(int64 *done)
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
duty_roles(int64 *done)
{
	int removed;
	bool all = pgqrs_grants_follow_roles(MAX_ROWS, &removed);

	all &= pgqrs_workers_follow_roles(MAX_ROWS);
	all &= pgqrs_schedule_follow_roles(MAX_ROWS);
	done[DONE_GRANTS_REMOVED] += removed;
	return all && removed < MAX_ROWS ? DT_NOEND :
									   pgqrs_clock() + PGQRS_LOCKED_ROW_RETRY;
}

static TimestampTz
duty_children(int64 *done)
{
	TimestampTz next;

	done[DONE_RUNS_CANCELLED] += pgqrs_cancel_remaining_children(MAX_ROWS, &next);
	return next;
}

static TimestampTz
duty_run_wakeups(int64 *done)
{
	bool more;

	done[DONE_RUNS_WOKEN] += pgqrs_run_wakeup_pass(MAX_WAITING, &more);
	return more ? 0 : DT_NOEND;
}

/*
 * The variant of the background worker, which rechecks single runs in the
 * notifier: rechecks all waiting runs, beginning with the first after each
 * request to recheck all.
 */
static TimestampTz
worker_duty_run_wakeups(int64 *done)
{
	static uint32 taken = 0;
	static int batches = 0;
	TimestampTz next;

	if (taken != pgqrs_database_take_count(DUTY_RUN_WAKEUPS))
	{
		taken = pgqrs_database_take_count(DUTY_RUN_WAKEUPS);
		batches = 0;
		if (pgqrs_database_taken_due(DUTY_RUN_WAKEUPS) == 0)
			pgqrs_run_wakeup_restart();
	}
	next = duty_run_wakeups(done);
	return next == 0 && ++batches == WAITING_BATCHES ? pgqrs_clock() : next;
}

static TimestampTz
duty_realign(int64 *done)
{
	return pgqrs_realign_pass(&done[DONE_MESSAGES_REALIGNED]);
}

static TimestampTz
duty_counters(int64 *done)
{
	return pgqrs_counters_flush(MAX_ROWS);
}

static TimestampTz
duty_schedules(int64 *done)
{
	return pgqrs_schedule_tick(MAX_FIRED, &done[DONE_SCHEDULES_FIRED]);
}

/* Runs a pass of retention and adds its counts; returns when the next one is due. */
static TimestampTz
run_retention_pass(TimestampTz (*pass)(bool, PgqrsRetained *), bool gently,
				   int64 *done)
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
duty_deleted_queues(int64 *done)
{
	return run_retention_pass(pgqrs_retention_pass_of_deleted, false, done);
}

static TimestampTz
worker_duty_deleted_queues(int64 *done)
{
	return run_retention_pass(pgqrs_retention_pass_of_deleted, true, done);
}

static TimestampTz
duty_retention(int64 *done)
{
	return run_retention_pass(pgqrs_retention_pass, false, done);
}

/* The variant of the background worker, which has other duties between two batches. */
static TimestampTz
worker_duty_retention(int64 *done)
{
	TimestampTz next = run_retention_pass(pgqrs_retention_pass, true, done);

	return next == 0 ? pgqrs_clock() : next;
}

TimestampTz
pgqrs_duty_retention(int64 *done)
{
	TimestampTz deleted = pgqrs_duty_run_batch(duty_deleted_queues, done);
	TimestampTz retained = pgqrs_duty_run_batch(duty_retention, done);

	return Min(deleted, retained);
}

/*
 * All duties
 */

const PgqrsDutyEntry pgqrs_duties[] = {
	{DUTY_FLOOR_SWEEP, duty_floor_sweep, NULL, "floors", "sweeping below the floors"},
	{DUTY_REALIGN, duty_realign, NULL, "clock", "realigning rows after a clock step"},
	{DUTY_WORKERS, duty_workers, NULL, "workers", "stopping silent workers"},
	{DUTY_EXPIRY, duty_expiry, NULL, "ends", "ending expired messages"},
	{DUTY_DELETED_QUEUES, duty_deleted_queues, worker_duty_deleted_queues,
	 "deletions", "removing rows of deleted queues"},
	{DUTY_CHILDREN, duty_children, NULL, "children", "cancelling children"},
	{DUTY_RUN_WAKEUPS, duty_run_wakeups, worker_duty_run_wakeups,
	 "waiting runs", "rechecking waiting runs"},
	{DUTY_ROLES, duty_roles, NULL, "grants",
	 "following roles that were renamed or dropped"},
	{DUTY_SCHEDULES, duty_schedules, NULL, "schedules", "firing schedules"},
	{DUTY_COUNTERS, duty_counters, NULL, "counters", "storing counters"},
	{DUTY_RETENTION, duty_retention, worker_duty_retention, "retention",
	 "removing rows after their retention"},
	{DUTY_EXHAUSTED, duty_exhausted, NULL, "exhausted messages",
	 "searching for exhausted messages"},
	{DUTY_QUEUE_WAKEUPS, duty_queue_wakeups, NULL, "deleted queues",
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

typedef struct DutyAttempt
{
	PgqrsDutyFunction duty;
	int64 *done;
} DutyAttempt;

static bool
attempt_duty(void *arg)
{
	DutyAttempt *attempt = arg;

	(void) pgqrs_duty_run_batch(attempt->duty, attempt->done);
	return true;
}

/* Runs a duty in a subtransaction; returns its error, or NULL. */
static ErrorData *
try_duty(const PgqrsDutyEntry *entry, int64 *done)
{
	int64 before[DONE_COUNT];
	DutyAttempt attempt = {.duty = entry->duty, .done = done};
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
			 errdetail("The changes of this duty were rolled back. The other duties continue."),
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
