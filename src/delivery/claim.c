/*
 * claim.c
 *	  Claims: leases on due messages, and messages whose lease was lost.
 *
 * Runs in any backend.  A claim scans the claim index itself: for each priority,
 * from high to low, the due messages in order of visible_after and id.  It never
 * waits: rows that another transaction has locked are skipped.  The row version
 * that the claim locks is the version that the scan found due, so no recheck is
 * necessary.
 *
 * A message with an expired lease is locked exclusively first, so that its
 * holder and the claim exclude each other.  An unleased message needs no prior
 * lock: the UPDATE's row lock is sufficient; see claim_hints.c.
 *
 * Messages that must not be delivered again are ended in a subtransaction, so
 * that an error at one of them does not block the others.
 */
#include "delivery/claim.h"

#include "base/clock.h"
#include "base/errors.h"
#include "base/json.h"
#include "base/name.h"
#include "common/pg_prng.h"
#include "delivery/queue_probe.h"
#include "miscadmin.h"
#include "queue/audit.h"
#include "queue/lease_limits.h"
#include "queue/priority_scan.h"
#include "queue/worker_registry.h"
#include "shmem/claim_floor.h"
#include "shmem/claim_hints.h"
#include "shmem/priority_hints.h"
#include "shmem/quarantine.h"
#include "shmem/sessions.h"
#include "shmem/wakeup_table.h"
#include "shmem/xact_hooks.h"
#include "shmem/xact_wakeups.h"
#include "store/scan.h"
#include "store/tuple.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
#include "workflow/undo.h"

/* Messages that one call may end. */
#define MAX_ENDED 1000

/*
 * Queues with max_in_flight that one call may claim from.  The call locks each
 * until the transaction ends, and the server's lock table is limited.
 */
#define MAX_LIMITED 100

typedef struct Claim
{
	PgqrsRunRows rows;
	int64 worker_id; /* 0: none */
	const char *worker_version;
	const PgqrsQueueIds *matching; /* NULL: one queue */
	int64 timeout;				   /* < 0: the queue's visibility_timeout */
	int wanted;
	bool is_full; /* the receiver takes no more */
	int may_end;
	int may_limit;
	const PgqrsClaimRequest *request;
} Claim;

/*
 * Ending messages that must not be delivered again
 */

static void
end_message(PgqrsRunRows *rows, int failures)
{
	NullableDatum error = PGQRS_NULL;

	/* an error that a worker reported says more than ours */
	if (pgqrs_is_null(rows->message, Messages_last_error))
		error = pgqrs_value(
			pgqrs_json_error("max_attempts",
							 psprintf("the lease expired; failures: %d", failures)));
	pgqrs_message_end(rows->messages, rows->message, &rows->queue, OUTCOME_DEAD,
					  failures, error);
}

bool
pgqrs_claim_is_cancelled(PgqrsRunRows *rows)
{
	return !pgqrs_is_null(rows->message, Messages_run_id) &&
		!pgqrs_is_null(rows->run, Runs_cancel_requested_at) &&
		!pgqrs_undo_is_requested(rows->message);
}

/* Whether the message must not be delivered again. */
static bool
is_due_to_end(PgqrsRunRows *rows, int failures, TimestampTz now)
{
	return failures >= rows->queue.max_attempts ||
		pgqrs_message_is_past_deadline(rows->message, now) ||
		pgqrs_claim_is_cancelled(rows);
}

static void
end_undeliverable_run(PgqrsRunRows *rows, int failures, TimestampTz now)
{
	Datum error;

	if (pgqrs_claim_is_cancelled(rows))
	{
		pgqrs_run_end(rows, RUN_CANCELLED, PGQRS_NULL, PGQRS_NULL);
		return;
	}
	if (pgqrs_message_is_past_deadline(rows->message, now))
		error = pgqrs_json_error("timeout",
								 "the run did not end before its deadline");
	else
		error = pgqrs_json_error("max_crashes",
								 psprintf("%d consecutive leases expired or were revoked",
										  failures));
	pgqrs_run_end(rows, RUN_ERROR, PGQRS_NULL, pgqrs_value(error));
}

/* Whether the message has a lease from before its undo. */
static bool
has_lease_before_undo(TupleTableSlot *message)
{
	return pgqrs_undo_is_requested(message) && pgqrs_message_is_cancelling(message);
}

bool
pgqrs_claim_undo_if_due(PgqrsRunRows *rows, TimestampTz now)
{
	bool is_live = pgqrs_lease_is_live(rows->message, now);

	if (pgqrs_is_null(rows->message, Messages_run_id))
		return false;
	rows->has_message = true;
	if (pgqrs_undo_is_overdue(rows))
		pgqrs_undo_request(rows, UNDO_CAUSE_TIMEOUT, NULL, is_live, PGQRS_NULL);
	else if (has_lease_before_undo(rows->message) && !is_live &&
			 !pgqrs_message_is_past_deadline(rows->message, now))
		pgqrs_undo_give_up_lease(rows, PGQRS_NULL);
	else
		return false;
	return true;
}

bool
pgqrs_claim_end_if_due(PgqrsRunRows *rows, int failures, TimestampTz now)
{
	rows->failures = failures;
	if (!is_due_to_end(rows, failures, now))
		return false;
	pgqrs_xact_require_sync_commit();
	if (pgqrs_is_null(rows->message, Messages_run_id))
		end_message(rows, failures);
	else
		end_undeliverable_run(rows, failures, now);
	return true;
}

int
pgqrs_claim_failures_after_loss(TupleTableSlot *message)
{
	int failures = DatumGetInt32(pgqrs_get(message, Messages_failures));

	if (!pgqrs_is_null(message, Messages_worker_id) &&
		pgqrs_worker_stopped_itself(pgqrs_get_int64(message, Messages_worker_id)))
		return failures;
	return failures + 1;
}

bool
pgqrs_claim_revoke(PgqrsRunRows *rows)
{
	int failures = pgqrs_claim_failures_after_loss(rows->message);
	TimestampTz now = pgqrs_floor_writer_clock(rows->queue.queue_id, 0, DT_NOBEGIN);
	PgqrsRow row;

	if (!pgqrs_is_null(rows->message, Messages_run_id) &&
		pgqrs_run_deliver_to_undo(rows, false, PGQRS_NULL))
		return false;
	if (pgqrs_claim_end_if_due(rows, failures, now))
		return true;
	pgqrs_row_copy(&row, rows->messages, rows->message);
	pgqrs_message_clear_lease(&row, now);
	pgqrs_set(&row, Messages_failures, Int32GetDatum(failures));
	pgqrs_row_update(rows->messages, rows->message, &row);
	pgqrs_event_of_message(EVENT_RELEASED, rows->message, .failures = failures,
						   .reason = "the lease was revoked");
	return false;
}

/*
 * One message
 */

static bool
lock_claimed_message(PgqrsRunRows *rows)
{
	return pgqrs_row_lock(rows->messages, rows->message, LockTupleExclusive,
						  LockWaitSkip) == ROW_LOCKED;
}

/*
 * Reads the run of the message in the slot.  False if the run is missing or
 * damaged; the first time, the message is reported and put into quarantine,
 * unless another transaction has ended it together with the run since it was read.
 */
static bool
fetch_claimed_run(PgqrsRunRows *rows)
{
	int64 id = pgqrs_get_int64(rows->message, Messages_message_id);
	const char *problem;

	pgqrs_run_open_runs(rows);
	problem = pgqrs_run_damage(rows->runs,
							   pgqrs_get_int64(rows->message, Messages_run_id),
							   rows->run);
	if (problem == NULL)
		return true;
	if (!pgqrs_quarantine_contains(QUARANTINE_MESSAGE, id) &&
		lock_claimed_message(rows))
		pgqrs_quarantine_add(QUARANTINE_MESSAGE, id, problem);
	return false;
}

/* Updates the run; false if it has changed since it was read. */
static bool
update_run(Claim *claim, const PgqrsRow *message, TimestampTz now)
{
	PgqrsRunRows *rows = &claim->rows;
	PgqrsRow row;

	pgqrs_row_copy(&row, rows->runs, rows->run);
	pgqrs_run_move(&row, rows->run, RUN_RUNNING);
	pgqrs_set(&row, Runs_lease, message->values[Messages_lease - 1]);
	pgqrs_set(&row, Runs_attempt, message->values[Messages_attempt - 1]);
	if (pgqrs_is_null(rows->run, Runs_started_at))
		pgqrs_set(&row, Runs_started_at, TimestampTzGetDatum(now));
	pgqrs_set_null(&row, Runs_paused_at);
	pgqrs_set_null(&row, Runs_waiting_for);
	pgqrs_set_null(&row, Runs_worker_id);
	pgqrs_set_null(&row, Runs_worker_version);
	if (claim->worker_id != 0)
		pgqrs_set(&row, Runs_worker_id, Int64GetDatum(claim->worker_id));
	if (claim->worker_version != NULL)
		pgqrs_set(&row, Runs_worker_version,
				  CStringGetTextDatum(claim->worker_version));
	return pgqrs_row_try_update(rows->runs, rows->run, &row) == ROW_LOCKED;
}

static int64
lease_time(const Claim *claim)
{
	return claim->timeout >= 0 ? claim->timeout :
								 claim->rows.queue.visibility_timeout;
}

/* Updates a message that this transaction has locked. */
static void
update_locked_message(PgqrsRunRows *rows, const PgqrsRow *row,
					  PgqrsFloorKey key, TimestampTz now)
{
	pgqrs_row_update(rows->messages, rows->message, row);
	pgqrs_claim_hint_record(key, now);
}

/* Updates an unlocked message; false if another transaction has locked it. */
static bool
update_message(PgqrsRunRows *rows, const PgqrsRow *row, PgqrsFloorKey key,
			   TimestampTz now)
{
	PgqrsClaimAccess how = pgqrs_claim_hint_begin_update(key, now);

	if (how == CLAIM_SKIP)
		return false;
	if (how == CLAIM_BY_UPDATE && !pgqrs_row_is_busy(rows->message))
	{
		bool taken = pgqrs_row_try_update(rows->messages, rows->message, row) ==
			ROW_LOCKED;

		pgqrs_claim_hint_end_update(taken);
		return taken;
	}
	if (how == CLAIM_BY_UPDATE)
		pgqrs_claim_hint_end_update(false);
	if (!lock_claimed_message(rows)) /* the locker may be this transaction */
		return false;
	update_locked_message(rows, row, key, now);
	return true;
}

/* Fills the row version with the new lease. */
static void
fill_claimed_message(Claim *claim, PgqrsRow *row, int failures, TimestampTz now)
{
	PgqrsRunRows *rows = &claim->rows;
	int attempt = DatumGetInt32(pgqrs_get(rows->message, Messages_attempt)) + 1;
	int64 lease = pgqrs_random_lease(claim->request->by_poll);

	if (claim->worker_id == 0)
		lease = pgqrs_session_mark_lease(lease,
										 pgqrs_get_int64(rows->message,
														 Messages_message_id));
	pgqrs_row_copy(row, rows->messages, rows->message);
	pgqrs_set(row, Messages_lease, Int64GetDatum(lease));
	pgqrs_message_set_lease_end(row, now + lease_time(claim),
								failures + 1 >= rows->queue.max_attempts);
	pgqrs_set(row, Messages_dequeued_at, TimestampTzGetDatum(now));
	pgqrs_set(row, Messages_attempt, Int32GetDatum(attempt));
	pgqrs_set(row, Messages_failures, Int32GetDatum(failures));
	pgqrs_set_null(row, Messages_worker_id);
	pgqrs_set_null(row, Messages_waiting_for);
	if (claim->worker_id != 0)
		pgqrs_set(row, Messages_worker_id, Int64GetDatum(claim->worker_id));
	if (has_lease_before_undo(rows->message))
		pgqrs_undo_note_children(row, rows);
}

static void
deliver_message(Claim *claim, const PgqrsRow *message, bool is_run)
{
	PgqrsRunRows *rows = &claim->rows;
	PgqrsDelivery d = {
		.message_id = DatumGetInt64(message->values[Messages_message_id - 1]),
		.lease = DatumGetInt64(message->values[Messages_lease - 1]),
		.enqueued_at = DatumGetTimestampTz(message->values[Messages_enqueued_at - 1]),
		.visible_after = DatumGetTimestampTz(
			message->values[Messages_visible_after - 1]),
		.attempt = DatumGetInt32(message->values[Messages_attempt - 1]),
		.failures = DatumGetInt32(message->values[Messages_failures - 1]),
		.priority = DatumGetInt16(message->values[Messages_priority - 1]),
		.is_run = is_run,
		.cancel_requested = is_run && pgqrs_undo_is_requested(rows->message),
		.headers = pgqrs_row_value(message, Messages_headers),
		.input = PGQRS_NULL,
		.queue = &rows->queue,
	};

	if (is_run)
	{
		d.payload = pgqrs_json_run(d.message_id, NULL);
		d.input = pgqrs_get_or_null(rows->run, Runs_input);
	}
	else
		d.payload = message->nulls[Messages_payload - 1] ?
			pgqrs_json_null() :
			message->values[Messages_payload - 1];
	claim->is_full = !claim->request->deliver(claim->request->arg, &d);
	claim->wanted--;
}

/* A message to end, in a subtransaction that opens the tables itself. */
typedef struct End
{
	const PgqrsRunRows *found;
	int failures;
	TimestampTz now;
} End;

/* Does nothing if the message has a newer version or another transaction has locked it. */
static bool
end_found_message(void *arg)
{
	const End *end = arg;
	TupleTableSlot *found = end->found->message;
	PgqrsRunRows rows;

	pgqrs_run_open(&rows);
	rows.queue = end->found->queue;
	if (pgqrs_row_fetch_id(rows.messages, pgqrs_get_int64(found, Messages_message_id),
						   rows.message) &&
		ItemPointerEquals(&rows.message->tts_tid, &found->tts_tid) &&
		lock_claimed_message(&rows))
	{
		if ((pgqrs_is_null(rows.message, Messages_run_id) ||
			 fetch_claimed_run(&rows)) &&
			!pgqrs_claim_undo_if_due(&rows, end->now))
			(void) pgqrs_claim_end_if_due(&rows, end->failures, end->now);
	}
	pgqrs_run_close(&rows);
	return true;
}

/*
 * Ends the message if it must not be delivered again; else returns false.  An
 * error puts the message into quarantine.
 */
static bool
end_if_due(Claim *claim, int failures, TimestampTz now)
{
	PgqrsRunRows *rows = &claim->rows;
	End end = {.found = rows, .failures = failures, .now = now};
	int64 id = pgqrs_get_int64(rows->message, Messages_message_id);

	if (!is_due_to_end(rows, failures, now))
		return false;
	if (pgqrs_quarantine_begin_row(QUARANTINE_MESSAGE, id))
	{
		(void) pgqrs_quarantine_try(end_found_message, &end);
		claim->may_end--;
	}
	return true;
}

/* Claims, ends or skips the message in the slot. */
static void
claim_message(Claim *claim, PgqrsFloorKey key)
{
	PgqrsRunRows *rows = &claim->rows;
	bool held = !pgqrs_is_null(rows->message, Messages_lease);
	bool is_run = !pgqrs_is_null(rows->message, Messages_run_id);
	int failures = DatumGetInt32(pgqrs_get(rows->message, Messages_failures));
	PgqrsRow row;
	TimestampTz now;

	if (held)
	{
		if (!lock_claimed_message(rows))
			return;
		failures = has_lease_before_undo(rows->message) ?
			0 :
			pgqrs_claim_failures_after_loss(rows->message);
		pgqrs_message_note_lease_change(rows->message);
	}
	/* no function of pgqrs locks the run's row without the message, but a user may */
	if (is_run && (!fetch_claimed_run(rows) || pgqrs_row_update_waits(rows->run)))
		return;
	now = pgqrs_floor_writer_clock(rows->queue.queue_id, lease_time(claim),
								   DT_NOBEGIN);
	if (end_if_due(claim, failures, now))
		return;
	fill_claimed_message(claim, &row, failures, now);
	if (held)
		update_locked_message(rows, &row, key, now);
	else if (!update_message(rows, &row, key, now))
		return;
	while (is_run && !update_run(claim, &row, now))
		if (!fetch_claimed_run(rows))
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("a run disappeared while it was claimed"),
					 errhint(PGQRS_DAMAGED_HINT)));
	pgqrs_event_of_message(EVENT_CLAIMED, rows->message,
						   .attempt = DatumGetInt32(row.values[Messages_attempt - 1]),
						   .failures = failures, .worker_id = claim->worker_id);
	deliver_message(claim, &row, is_run);
}

/*
 * One queue
 */

/* Whether the call may claim or end more messages. */
static bool
wants_more(const Claim *claim)
{
	return claim->wanted > 0 && claim->may_end > 0 && !claim->is_full;
}

/* Claims the messages of one part of the scan. */
static void
claim_part(Claim *claim, PgqrsFloorScan *floor, PgqrsScan *scan)
{
	PgqrsRunRows *rows = &claim->rows;

	while (wants_more(claim) && pgqrs_scan_next_key(scan))
	{
		PgqrsFloorKey key = {
			.visible_after = DatumGetTimestampTz(
				pgqrs_scan_key(scan, CLAIM_VISIBLE_AFTER)),
			.message_id = DatumGetInt64(pgqrs_scan_key(scan, CLAIM_MESSAGE_ID)),
		};
		PgqrsClaimHint taken = pgqrs_claim_hint_look_up(key, floor->now);

		CHECK_FOR_INTERRUPTS();
		if (taken == CLAIM_HINT_COMMITTED ||
			(taken == CLAIM_HINT_NONE && !pgqrs_scan_fetch(scan, rows->message)))
		{
			pgqrs_floor_scan_saw_dead(floor);
			continue;
		}
		pgqrs_floor_scan_saw(floor, key);
		if (taken == CLAIM_HINT_NONE)
			claim_message(claim, key);
	}
}

/*
 * Claims the due messages of one priority, beginning at its floor.  The floor's
 * protocol is in claim_floor.c: the scan reads the clock and the pending writers
 * before it takes its snapshot.
 */
static void
scan_priority(Claim *claim, int priority)
{
	PgqrsRunRows *rows = &claim->rows;
	PgqrsFloorScan floor;
	PgqrsScan scan;
	PgqrsKey keys[] = {
		{CLAIM_QUEUE_ID, BTEqualStrategyNumber, Int64GetDatum(rows->queue.queue_id)},
		{CLAIM_PRIORITY, BTEqualStrategyNumber, Int16GetDatum(priority)},
		{CLAIM_VISIBLE_AFTER, BTLessEqualStrategyNumber},
		{CLAIM_VISIBLE_AFTER, BTGreaterEqualStrategyNumber, .is_pair = true},
	};

	pgqrs_floor_scan_begin(&floor, rows->queue.queue_id, priority);
	floor.claimed = claim->wanted;
	keys[2].value = TimestampTzGetDatum(floor.until);
	keys[3].value = TimestampTzGetDatum(floor.from.visible_after);
	keys[3].next_value = Int64GetDatum(floor.from.message_id);
	pgqrs_scan_begin(&scan, rows->messages, INDEX_MESSAGES_CLAIM,
					 lengthof(keys), keys);
	for (;;)
	{
		claim_part(claim, &floor, &scan);
		if (!wants_more(claim) || !pgqrs_floor_scan_next_part(&floor))
			break;
		pgqrs_scan_set_pair(&scan, TimestampTzGetDatum(floor.from.visible_after),
							Int64GetDatum(floor.from.message_id));
		pgqrs_scan_restart(&scan, 2, TimestampTzGetDatum(floor.until));
	}
	pgqrs_scan_end(&scan);
	floor.claimed -= claim->wanted;
	pgqrs_floor_scan_end(&floor);
}

/* Claims from the priorities high to low; false if none of them has an entry. */
static bool
scan_priorities(Claim *claim, int high, int low)
{
	PgqrsPriorityScan priorities;
	int priority;
	bool found = false;

	pgqrs_priority_scan_begin(&priorities, claim->rows.messages,
							  claim->rows.queue.queue_id, high, low);
	while (wants_more(claim) && pgqrs_priority_scan_next(&priorities, &priority))
	{
		found = true;
		scan_priority(claim, priority);
	}
	pgqrs_priority_scan_end(&priorities);
	return found;
}

/* Claims the message that the request names, if it is due and not held. */
static void
claim_by_id(Claim *claim)
{
	PgqrsRunRows *rows = &claim->rows;
	PgqrsFloorKey key = {.message_id = claim->request->message_id};

	if (!pgqrs_row_fetch_id(rows->messages, key.message_id, rows->message) ||
		!pgqrs_is_null(rows->message, Messages_lease))
		return;
	key.visible_after = pgqrs_get_time(rows->message, Messages_visible_after);
	if (key.visible_after <= pgqrs_clock())
		claim_message(claim, key);
}

/*
 * Most messages have the usual priority: it is scanned without a search for its
 * entries, and the absence of higher priorities is cached.
 */
static void
scan_queue(Claim *claim)
{
	int64 queue_id = claim->rows.queue.queue_id;
	uint64 count;

	Assert(wants_more(claim));
	if (claim->request->message_id != 0)
	{
		claim_by_id(claim);
		return;
	}
	if (!pgqrs_queue_has_no_urgent(queue_id, &count) &&
		!scan_priorities(claim, PG_INT16_MAX, PGQRS_USUAL_PRIORITY + 1))
		pgqrs_queue_record_no_urgent(queue_id, count);
	if (wants_more(claim))
		scan_priority(claim, PGQRS_USUAL_PRIORITY);
	if (wants_more(claim))
		(void) scan_priorities(claim, PGQRS_USUAL_PRIORITY - 1, PG_INT16_MIN);
}

/* Claims no more messages than max_in_flight of the queue allows. */
static void
claim_limited(Claim *claim)
{
	const PgqrsQueue *queue = &claim->rows.queue;
	int wanted = claim->wanted;
	int room = pgqrs_lease_limit_reserve(claim->rows.messages, TABLE_QUEUES,
										 queue->queue_id, queue->max_in_flight);
	int claimed;

	if (room == 0)
		return;
	claim->wanted = Min(wanted, room);
	claimed = claim->wanted;
	scan_queue(claim);
	claimed -= claim->wanted;
	claim->wanted = wanted - claimed;
	pgqrs_lease_limit_settle(TABLE_QUEUES, queue->queue_id, claimed > 0);
	if (claimed > 0)
		claim->may_limit--;
}

/* Claims from the queue in claim->rows. */
static void
claim_queue(Claim *claim)
{
	if (claim->rows.queue.paused || !wants_more(claim))
		return;
	if (claim->rows.queue.max_in_flight > 0)
		claim_limited(claim);
	else
		scan_queue(claim);
}

/*
 * Many queues
 */

/* The queue of that name, to which the worker must subscribe. */
static void
find_named_queue(const char *name, const PgqrsWorker *worker, PgqrsQueue *queue)
{
	pgqrs_queue_require(name, PRIVILEGE_WORK, queue);
	if (worker != NULL && !pgqrs_any_pattern_matches(worker->queues, name))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("worker " INT64_FORMAT " does not subscribe to queue \"%s\"",
						worker->worker_id, name),
				 errhint("Register the worker with a pattern that covers the queue.")));
}

static const PgqrsQueueIds *
find_matching_queues(const char *pattern, const PgqrsWorker *worker)
{
	List *subscribed = worker != NULL ? worker->queues : NIL;

	if (pattern == NULL)
		return pgqrs_queue_match_ids(subscribed, NIL, PRIVILEGE_WORK);
	return pgqrs_queue_match_ids(list_make1(unconstify(char *, pattern)),
								 subscribed, PRIVILEGE_WORK);
}

const PgqrsQueueIds *
pgqrs_claim_queues(const char *queue, const PgqrsWorker *worker)
{
	static int64 id;
	static int slot;
	static const PgqrsQueueIds one = {1, &id, &slot};
	PgqrsQueue q;

	if (queue == NULL || pgqrs_is_pattern(queue))
		return find_matching_queues(queue, worker);
	find_named_queue(queue, worker, &q);
	id = q.queue_id;
	slot = pgqrs_wakeup_slot(id);
	return &one;
}

/* Each call of a session starts at the next queue, so that no queue starves. */
static int
next_start_queue(int count)
{
	static uint32 turn = 0;

	if (turn == 0)
		turn = pg_prng_uint32(&pg_global_prng_state);
	return turn++ % count;
}

/* Whether the queue is known to be empty, including this transaction's messages. */
static bool
is_known_idle(int64 queue_id, int slot, TimestampTz now)
{
	return pgqrs_wakeup_is_idle(slot, queue_id, now) &&
		(pgqrs_floor_call_is_clean() || !pgqrs_xact_has_woken(queue_id));
}

static void
claim_matching(Claim *claim, const PgqrsQueueIds *queues)
{
	int at = queues->count > 1 ? next_start_queue(queues->count) : 0;
	TimestampTz now = pgqrs_clock_peek();
	PgqrsRunRows *rows = &claim->rows;

	for (int i = 0; i < queues->count && wants_more(claim); i++, at++)
	{
		int wanted = claim->wanted;

		if (at == queues->count)
			at = 0;
		if (is_known_idle(queues->ids[at], queues->slots[at], now) ||
			!pgqrs_queue_by_id(queues->ids[at], &rows->queue) ||
			(rows->queue.max_in_flight > 0 && claim->may_limit == 0))
			continue;
		CHECK_FOR_INTERRUPTS();
		claim_queue(claim);
		if (claim->wanted == wanted)
			pgqrs_queue_probe_idle(rows->messages, rows->message, &rows->queue,
								   queues->slots[at]);
	}
}

static void
claim_all(Claim *claim)
{
	if (claim->matching != NULL)
		claim_matching(claim, claim->matching);
	else
		claim_queue(claim);
}

/* Claims no more messages than max_concurrent of the worker allows. */
static void
claim_for_worker(Claim *claim, const PgqrsWorker *worker)
{
	int room;
	int claimed;

	if (worker->status != WORKER_READY)
		return;
	if (worker->max_concurrent == 0)
	{
		claim_all(claim);
		return;
	}
	room = pgqrs_lease_limit_reserve(claim->rows.messages, TABLE_WORKERS,
									 worker->worker_id, worker->max_concurrent);
	if (room == 0)
		return;
	claimed = claim->wanted = Min(claim->wanted, room);
	claim_all(claim);
	claimed -= claim->wanted;
	pgqrs_lease_limit_settle(TABLE_WORKERS, worker->worker_id, claimed > 0);
}

void
pgqrs_claim(const PgqrsClaimRequest *request)
{
	Claim claim = {
		.worker_id = request->worker_id,
		.timeout = request->timeout,
		.wanted = request->batch_size,
		.may_end = MAX_ENDED,
		.may_limit = MAX_LIMITED,
		.request = request,
	};
	PgqrsWorker worker;
	PgqrsWorker *w = request->worker_id != 0 ? &worker : NULL;

	if (w == NULL)
		(void) pgqrs_session_number(); /* a session begins before its claims */
	pgqrs_floor_call_begin();
	pgqrs_async_commit_begin();
	pgqrs_run_open_messages(&claim.rows);
	if (w != NULL)
	{
		pgqrs_worker_require_live(request->worker_id, w);
		pgqrs_worker_record_call(request->worker_id);
		claim.worker_version = w->version;
		if (request->status != NULL)
			*request->status = w->status;
	}
	if (request->queue == NULL || pgqrs_is_pattern(request->queue))
		claim.matching = find_matching_queues(request->queue, w);
	else
		find_named_queue(request->queue, w, &claim.rows.queue);
	if (w == NULL && request->message_id == 0)
		pgqrs_session_serves(request->queue, 0);
	if (w != NULL)
		claim_for_worker(&claim, w);
	else
		claim_all(&claim);
	pgqrs_run_close(&claim.rows);
	pgqrs_async_commit_end();
}
