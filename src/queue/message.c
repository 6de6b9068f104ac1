/*
 * message.c
 *	  Messages: sending, fencing, releasing and ending.
 *
 * Runs in any backend.  Locks pgqrs_messages first and then looks up the queue,
 * so that no transaction sends to a queue that is being deleted.  A row is
 * changed under LockTupleNoKeyExclusive, which does not conflict with an open
 * step's key-share lock, and ended under LockTupleExclusive, which does.  A
 * call that names a message by id waits for its lock; a claim never does.
 */
#include "queue/message.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/int64_list.h"
#include "base/json.h"
#include "base/name.h"
#include "base/status.h"
#include "miscadmin.h"
#include "queue/audit.h"
#include "queue/lease_limits.h"
#include "queue/message_writes.h"
#include "queue/worker_registry.h"
#include "shmem/claim_floor.h"
#include "shmem/counters.h"
#include "shmem/sessions.h"
#include "shmem/xact_hooks.h"
#include "shmem/xact_wakeups.h"
#include "store/scan.h"
#include "store/tuple.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

/* Delay of a failed message without a delay of the caller. */
static const PgqrsBackoff nack_backoff = {
	.initial_interval = USECS_PER_SEC,
	.max_interval = 60 * USECS_PER_SEC,
	.coefficient = 2,
	.jitter = 0.25,
};

/*
 * Rows
 */

TimestampTz
pgqrs_when_visible(const PgqrsWhen *when, TimestampTz now)
{
	return when->run_at != 0 ? Max(when->run_at, now) : now + when->delay;
}

TimestampTz
pgqrs_when_clock(int64 queue_id, const PgqrsWhen *when)
{
	return pgqrs_floor_writer_clock(queue_id, when->run_at != 0 ? 0 : when->delay,
									when->run_at != 0 ? when->run_at : DT_NOBEGIN);
}

/* Fills in the row of a new message; now: from pgqrs_when_clock(). */
void
pgqrs_message_init_row(PgqrsRow *row, PgqrsTable *messages, int64 queue_id,
					   int64 id, const PgqrsNewMessage *m, TimestampTz now)
{
	TimestampTz visible_after = pgqrs_when_visible(&m->when, now);

	pgqrs_row_init(row, messages);
	pgqrs_set(row, Messages_message_id, Int64GetDatum(id));
	pgqrs_set(row, Messages_queue_id, Int64GetDatum(queue_id));
	pgqrs_set(row, Messages_visible_after, TimestampTzGetDatum(visible_after));
	pgqrs_set(row, Messages_enqueued_at, TimestampTzGetDatum(now));
	pgqrs_set(row, Messages_attempt, Int32GetDatum(0));
	pgqrs_set(row, Messages_failures, Int32GetDatum(0));
	pgqrs_set(row, Messages_priority, Int16GetDatum(m->priority));
	if (m->is_run)
		pgqrs_set(row, Messages_run_id, Int64GetDatum(id));
	else
		pgqrs_set(row, Messages_payload, m->payload);
	if (m->timeout > 0 || m->latest_deadline != 0)
	{
		TimestampTz own = m->timeout > 0 ? visible_after + m->timeout : DT_NOEND;
		TimestampTz latest = m->latest_deadline != 0 ? m->latest_deadline : DT_NOEND;

		pgqrs_set(row, Messages_deadline_at, TimestampTzGetDatum(Min(own, latest)));
		pgqrs_xact_request_duty(DUTY_EXPIRY, Min(own, latest));
	}
	pgqrs_set_or_null(row, Messages_headers, m->headers);
	if (m->idempotency_key != NULL)
		pgqrs_set(row, Messages_idempotency_key,
				  CStringGetTextDatum(m->idempotency_key));
}

bool
pgqrs_message_is_cancelling(TupleTableSlot *slot)
{
	text *waiting_for;

	if (pgqrs_is_null(slot, Messages_waiting_for))
		return false;
	waiting_for = DatumGetTextPP(pgqrs_get(slot, Messages_waiting_for));
	return VARSIZE_ANY_EXHDR(waiting_for) == strlen(PGQRS_WAIT_CANCEL) &&
		memcmp(VARDATA_ANY(waiting_for), PGQRS_WAIT_CANCEL,
			   strlen(PGQRS_WAIT_CANCEL)) == 0;
}

bool
pgqrs_message_by_key(PgqrsTable *messages, int64 queue_id, const char *key,
					 TupleTableSlot *slot)
{
	Datum keys[2] = {Int64GetDatum(queue_id), CStringGetTextDatum(key)};

	return pgqrs_row_fetch(messages, INDEX_MESSAGES_KEY, 2, keys, slot);
}

/* Ends the lease; the message becomes claimable at the given time. */
void
pgqrs_message_clear_lease(PgqrsRow *row, TimestampTz visible_after)
{
	pgqrs_set_null(row, Messages_lease);
	pgqrs_set_null(row, Messages_worker_id);
	pgqrs_set_null(row, Messages_exhausted_at);
	pgqrs_set(row, Messages_visible_after, TimestampTzGetDatum(visible_after));
}

void
pgqrs_message_set_lease_end(PgqrsRow *row, TimestampTz visible_after, bool last)
{
	pgqrs_set(row, Messages_visible_after, TimestampTzGetDatum(visible_after));
	pgqrs_set_null(row, Messages_exhausted_at);
	if (last)
		pgqrs_message_set_last_lease(row, visible_after);
}

void
pgqrs_message_set_last_lease(PgqrsRow *row, TimestampTz visible_after)
{
	pgqrs_set(row, Messages_exhausted_at, TimestampTzGetDatum(visible_after));
	pgqrs_xact_request_duty(DUTY_EXPIRY, visible_after);
}

void
pgqrs_message_note_lease_change(TupleTableSlot *slot)
{
	if (!pgqrs_is_null(slot, Messages_worker_id))
		pgqrs_xact_wakeup(WAKEUP_WORKER, pgqrs_get_int64(slot, Messages_worker_id));
}

void
pgqrs_message_publish_room(TupleTableSlot *slot, const PgqrsQueue *queue)
{
	if (pgqrs_is_null(slot, Messages_lease))
		return;
	if (queue->max_in_flight > 0)
		pgqrs_xact_wakeup(WAKEUP_QUEUE, queue->queue_id);
	pgqrs_message_note_lease_change(slot);
}

/* A lease that was lost ended by itself, before now. */
static void
count_end(TupleTableSlot *slot, PgqrsOutcome outcome, int failures, TimestampTz now)
{
	static const PgqrsCounter counters[OUTCOME_COUNT] = {
		[OUTCOME_DONE] = COUNT_DONE,
		[OUTCOME_DEAD] = COUNT_DEAD,
		[OUTCOME_DELETED] = COUNT_CANCELLED,
		[OUTCOME_CANCELLED] = COUNT_CANCELLED,
	};
	int64 queue_id = pgqrs_get_int64(slot, Messages_queue_id);
	TimestampTz end = pgqrs_get_time(slot, Messages_visible_after);

	pgqrs_count(slot->tts_tableOid, queue_id, counters[outcome], 1);
	if (failures > DatumGetInt32(pgqrs_get(slot, Messages_failures)))
		pgqrs_count(slot->tts_tableOid, queue_id, COUNT_FAILED, 1);
	pgqrs_message_count_lease_end(slot,
								  outcome == OUTCOME_DONE ? now : Min(now, end));
}

void
pgqrs_message_drop(PgqrsTable *messages, TupleTableSlot *slot)
{
	pgqrs_row_delete(messages, slot);
	count_end(slot, OUTCOME_DELETED, 0, pgqrs_clock());
}

/*
 * Copies a message that has been deleted into the archive, with its final
 * number of failures. error: replaces last_error.  A message that is done is
 * not archived if the queue's retention is 0, except that of a run, which would
 * otherwise never be removed.
 */
void
pgqrs_message_archive_deleted(PgqrsTable *messages, TupleTableSlot *slot,
							  const PgqrsQueue *queue, PgqrsOutcome outcome,
							  int failures, NullableDatum error)
{
	static const AttrNumber copied[][2] = {
		{Archive_message_id, Messages_message_id},
		{Archive_queue_id, Messages_queue_id},
		{Archive_visible_after, Messages_visible_after},
		{Archive_enqueued_at, Messages_enqueued_at},
		{Archive_dequeued_at, Messages_dequeued_at},
		{Archive_lease, Messages_lease},
		{Archive_worker_id, Messages_worker_id},
		{Archive_run_id, Messages_run_id},
		{Archive_deadline_at, Messages_deadline_at},
		{Archive_attempt, Messages_attempt},
		{Archive_priority, Messages_priority},
		{Archive_concurrency_key, Messages_concurrency_key},
		{Archive_idempotency_key, Messages_idempotency_key},
		{Archive_payload, Messages_payload},
		{Archive_headers, Messages_headers},
		{Archive_last_error, Messages_last_error},
	};
	bool done = outcome == OUTCOME_DONE || outcome == OUTCOME_DELETED;
	TimestampTz now = pgqrs_clock();
	PgqrsMessageState from = pgqrs_is_null(slot, Messages_lease) ?
		MESSAGE_WAITING :
		MESSAGE_HELD;
	PgqrsRow row;

	if (!pgqrs_message_may_move(from, pgqrs_message_state_of_outcome(outcome)))
		elog(ERROR, "message " INT64_FORMAT " cannot end as %s",
			 pgqrs_get_int64(slot, Messages_message_id),
			 pgqrs_enum_label(ENUM_OUTCOME, outcome));
	pgqrs_message_publish_room(slot, queue);
	count_end(slot, outcome, failures, now);
	if (done && queue->retention == 0 && pgqrs_is_null(slot, Messages_run_id))
		return;
	if (messages->archive == NULL)
		messages->archive = pgqrs_table_open(TABLE_ARCHIVE, true);
	pgqrs_row_init(&row, messages->archive);
	for (int i = 0; i < lengthof(copied); i++)
		if (!pgqrs_is_null(slot, copied[i][1]))
			pgqrs_set(&row, copied[i][0], pgqrs_get(slot, copied[i][1]));
	pgqrs_xact_request_duty(DUTY_RETENTION,
							now +
								(outcome == OUTCOME_DEAD ? queue->dead_retention :
														   queue->retention));
	pgqrs_set(&row, Archive_archived_at, TimestampTzGetDatum(now));
	pgqrs_set(&row, Archive_outcome, pgqrs_enum_datum(ENUM_OUTCOME, outcome));
	pgqrs_set(&row, Archive_failures, Int32GetDatum(failures));
	if (!error.isnull)
		pgqrs_set(&row, Archive_last_error, error.value);
	pgqrs_row_insert(messages->archive, &row);
}

/* Deletes and archives a message that is locked exclusively. */
void
pgqrs_message_end(PgqrsTable *messages, TupleTableSlot *slot,
				  const PgqrsQueue *queue, PgqrsOutcome outcome, int failures,
				  NullableDatum error)
{
	pgqrs_row_delete(messages, slot);
	pgqrs_message_archive_deleted(messages, slot, queue, outcome, failures, error);
}

void
pgqrs_message_dismiss(PgqrsTable *archive, TupleTableSlot *dead_letter)
{
	if (pgqrs_is_null(dead_letter, Archive_run_id))
	{
		pgqrs_row_delete(archive, dead_letter);
		return;
	}
	pgqrs_row_set(archive, dead_letter, Archive_outcome,
				  pgqrs_value(pgqrs_enum_datum(ENUM_OUTCOME, OUTCOME_DELETED)));
}

/*
 * Sending
 */

/* Reads the queue to send a message to. */
static void
require_plain_queue(const char *name, PgqrsQueue *queue)
{
	pgqrs_queue_require(name, PRIVILEGE_TRIGGER, queue);
	if (queue->is_workflow)
		ereport(ERROR,
				(errcode(ERRCODE_PGQRS_INVALID_STATE),
				 errmsg("\"%s\" is the queue of a workflow", name),
				 errdetail("The messages of a workflow's queue belong to runs."),
				 errhint("Start a run with pgqrs_trigger().")));
}

static void
refuse_duplicate(const PgqrsQueue *queue, const char *key, int64 id)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNIQUE_VIOLATION),
			 errmsg("queue \"%s\" has a message with idempotency key \"%s\"",
					queue->name, key),
			 errdetail("It is message " INT64_FORMAT ".", id),
			 errhint("Use that message, or another key.")));
}

/*
 * Sends a message, under the given id unless that is 0, unless its key is
 * taken.  Retries until a message with the key exists, this one or another;
 * slot: for reading.
 */
static int64
enqueue_keyed(PgqrsTable *messages, const PgqrsQueue *queue,
			  const PgqrsNewMessage *m, int64 id, TupleTableSlot *slot)
{
	PgqrsRow row;

	for (;;)
	{
		if (pgqrs_message_by_key(messages, queue->queue_id, m->idempotency_key, slot))
		{
			id = pgqrs_get_int64(slot, Messages_message_id);
			if (m->on_duplicate == DUPLICATE_RAISE)
				refuse_duplicate(queue, m->idempotency_key, id);
			return m->on_duplicate == DUPLICATE_NULL ? 0 : id;
		}
		if (id == 0)
			id = pgqrs_next_id(SEQUENCE_MESSAGE_ID);
		pgqrs_message_init_row(&row, messages, queue->queue_id, id, m,
							   pgqrs_when_clock(queue->queue_id, &m->when));
		if (pgqrs_row_insert_unique(messages, &row, INDEX_MESSAGES_KEY))
			return id;
	}
}

int64
pgqrs_message_enqueue(const char *name, const PgqrsNewMessage *m)
{
	PgqrsTable *messages = pgqrs_table_open(TABLE_MESSAGES, true);
	PgqrsQueue queue;
	PgqrsRow row;
	int64 id;

	require_plain_queue(name, &queue);
	if (m->idempotency_key != NULL)
		id = enqueue_keyed(messages, &queue, m, 0, pgqrs_table_slot(messages));
	else
	{
		id = pgqrs_next_id(SEQUENCE_MESSAGE_ID);
		pgqrs_message_init_row(&row, messages, queue.queue_id, id, m,
							   pgqrs_when_clock(queue.queue_id, &m->when));
		pgqrs_row_insert(messages, &row);
	}
	pgqrs_table_close(messages);
	return id;
}

static void
init_item(PgqrsNewMessage *m, const PgqrsNewMessages *batch, int item)
{
	*m = (PgqrsNewMessage){
		.when = batch->when,
		.priority = batch->priority,
		.payload = batch->payloads[item],
		.headers = batch->headers != NULL ? batch->headers[item] : PGQRS_NULL,
		.idempotency_key = batch->keys != NULL ? batch->keys[item] : NULL,
	};
}

/*
 * Sends the items with keys one by one, in the order of their keys, so that two
 * batches never wait for each other.
 */
static void
enqueue_keyed_items(PgqrsTable *messages, const PgqrsQueue *queue,
					const PgqrsNewMessages *batch, int64 *ids)
{
	TupleTableSlot *slot = pgqrs_table_slot(messages);
	int *order = pgqrs_key_order(batch->keys, batch->count);

	for (int i = 0; i < batch->count && batch->keys[order[i]] != NULL; i++)
	{
		PgqrsNewMessage m;

		CHECK_FOR_INTERRUPTS();
		init_item(&m, batch, order[i]);
		ids[order[i]] = enqueue_keyed(messages, queue, &m, ids[order[i]], slot);
	}
	pfree(order);
}

void
pgqrs_message_enqueue_batch(const char *name, const PgqrsNewMessages *batch,
							int64 *ids)
{
	PgqrsTable *messages = pgqrs_table_open(TABLE_MESSAGES, true);
	PgqrsRow *rows = palloc(batch->count * sizeof(PgqrsRow));
	PgqrsQueue queue;
	int count = 0;

	require_plain_queue(name, &queue);
	for (int i = 0; i < batch->count; i++)
		ids[i] = pgqrs_next_id(SEQUENCE_MESSAGE_ID);
	if (batch->keys != NULL)
		enqueue_keyed_items(messages, &queue, batch, ids);
	for (int i = 0; i < batch->count; i++)
	{
		PgqrsNewMessage m;

		init_item(&m, batch, i);
		if (m.idempotency_key == NULL)
			pgqrs_message_init_row(&rows[count++], messages, queue.queue_id,
								   ids[i], &m,
								   pgqrs_when_clock(queue.queue_id, &m.when));
	}
	pgqrs_row_insert_many(messages, rows, count);
	pfree(rows);
	pgqrs_table_close(messages);
}

/*
 * Calls of a lease holder
 */

typedef enum FenceResult
{
	FENCE_PASSED,
	FENCE_STALE,	/* or unknown message, or no privilege */
	FENCE_REPEATED, /* archived before, under this lease */
	FENCE_BUSY,		/* another transaction is writing the message */
	FENCE_RUN		/* the message of a run, not allowed here */
} FenceResult;

/* How the call takes the message. */
typedef enum FenceAction
{
	FENCE_TRY_LOCK,		/* without waiting */
	FENCE_LOCK_AND_END, /* conflicts with open steps */
	FENCE_DELETE,
	FENCE_DELETE_IF_ALLOWED /* without the privilege: stale instead of 42501 */
} FenceAction;

static PgqrsLockResult
lock_or_delete(PgqrsTable *messages, TupleTableSlot *slot, FenceAction action)
{
	if (action == FENCE_DELETE || action == FENCE_DELETE_IF_ALLOWED)
		return pgqrs_row_try_delete(messages, slot, LockWaitBlock);
	if (action == FENCE_TRY_LOCK)
		return pgqrs_row_lock(messages, slot, LockTupleNoKeyExclusive, LockWaitSkip);
	return pgqrs_row_lock(messages, slot, LockTupleExclusive, LockWaitBlock);
}

static bool
may_work_on(TupleTableSlot *slot, FenceAction action, PgqrsQueue *queue)
{
	int64 queue_id = pgqrs_get_int64(slot, Messages_queue_id);

	return action == FENCE_DELETE_IF_ALLOWED ?
		pgqrs_queue_allows(queue_id, PRIVILEGE_WORK, queue) :
		pgqrs_queue_admits(queue_id, PRIVILEGE_WORK, queue);
}

/*
 * Locks or deletes a message for the holder of its current lease, and records a
 * heartbeat of its worker.  The lease is checked before locking, so that no
 * caller can block messages by guessing leases, and again in the locked
 * version.
 */
static FenceResult
fence_message(PgqrsTable *messages, int64 id, int64 lease, FenceAction action,
			  bool allow_run, TupleTableSlot *slot, PgqrsQueue *queue)
{
	PgqrsLockResult locked;

	do
	{
		if (!pgqrs_row_fetch_id(messages, id, slot) ||
			!may_work_on(slot, action, queue) ||
			!pgqrs_lease_is_current(slot, lease))
			return FENCE_STALE;
		if (!allow_run && queue->is_workflow)
			return FENCE_RUN;
		locked = lock_or_delete(messages, slot, action);
	} while (locked == ROW_CHANGED);
	if (!pgqrs_is_null(slot, Messages_worker_id))
		pgqrs_worker_record_call(pgqrs_get_int64(slot, Messages_worker_id));
	return locked == ROW_LOCKED ? FENCE_PASSED : FENCE_BUSY;
}

static int
holder_of(TupleTableSlot *slot)
{
	PgqrsQueue queue;

	if (pgqrs_is_null(slot, Messages_lease) ||
		!pgqrs_queue_allows(pgqrs_get_int64(slot, Messages_queue_id),
							PRIVILEGE_MONITOR, &queue))
		return 0;
	if (!pgqrs_is_null(slot, Messages_worker_id))
		return pgqrs_worker_pid(pgqrs_get_int64(slot, Messages_worker_id));
	return pgqrs_session_pid_of_lease(pgqrs_get_int64(slot, Messages_lease),
									  pgqrs_get_int64(slot, Messages_message_id),
									  pgqrs_get_time(slot, Messages_dequeued_at));
}

int
pgqrs_message_holder(int64 message_id)
{
	PgqrsTable *messages = pgqrs_table_open(TABLE_MESSAGES, false);
	TupleTableSlot *slot = pgqrs_table_slot(messages);
	int pid = pgqrs_row_fetch_id(messages, message_id, slot) ? holder_of(slot) : 0;

	pgqrs_table_close(messages);
	return pid;
}

bool
pgqrs_message_is_past_deadline(TupleTableSlot *slot, TimestampTz now)
{
	return !pgqrs_is_null(slot, Messages_deadline_at) &&
		pgqrs_get_time(slot, Messages_deadline_at) <= now;
}

bool
pgqrs_message_is_to_be_undone(TupleTableSlot *slot, const PgqrsQueue *queue,
							  TimestampTz now)
{
	return queue->delivers_cancel && pgqrs_is_null(slot, Messages_undo) &&
		!pgqrs_message_is_cancelling(slot) &&
		DatumGetInt32(pgqrs_get(slot, Messages_attempt)) > 0 &&
		pgqrs_message_is_past_deadline(slot, now);
}

bool
pgqrs_message_is_past_its_end(TupleTableSlot *slot, const PgqrsQueue *queue,
							  TimestampTz now)
{
	return pgqrs_message_is_past_deadline(slot, now) &&
		!pgqrs_message_is_to_be_undone(slot, queue, now);
}

bool
pgqrs_message_is_asked_to_stop(TupleTableSlot *slot, const PgqrsQueue *queue,
							   TimestampTz now)
{
	return pgqrs_message_is_cancelling(slot) ||
		pgqrs_message_is_to_be_undone(slot, queue, now);
}

/* Refuses a call on the message of a run. */
static void
refuse_run_message(TupleTableSlot *slot, int64 id)
{
	if (pgqrs_message_is_past_deadline(slot, pgqrs_clock()))
		pgqrs_error_run_past_deadline(id);
	ereport(ERROR,
			(errcode(ERRCODE_PGQRS_INVALID_STATE),
			 errmsg("message " INT64_FORMAT " belongs to a run", id),
			 errdetail("The message of a run ends with its run."),
			 errhint("Use pgqrs_complete_run() or pgqrs_fail_run().")));
}

/* How the message ended under this lease; false: it did not. */
static bool
outcome_under_lease(int64 id, int64 lease, PgqrsOutcome *outcome, bool *is_run)
{
	PgqrsTable *archive = pgqrs_table_open(TABLE_ARCHIVE, false);
	TupleTableSlot *slot = pgqrs_table_slot(archive);
	bool found;
	PgqrsQueue queue;

	found = pgqrs_row_fetch_id(archive, id, slot) &&
		!pgqrs_is_null(slot, Archive_lease) &&
		pgqrs_get_int64(slot, Archive_lease) == lease &&
		pgqrs_queue_allows(pgqrs_get_int64(slot, Archive_queue_id),
						   PRIVILEGE_WORK, &queue);
	if (found)
	{
		*outcome = pgqrs_enum_value(ENUM_OUTCOME, pgqrs_get(slot, Archive_outcome));
		*is_run = !pgqrs_is_null(slot, Archive_run_id);
	}
	pgqrs_table_close(archive);
	return found;
}

/* Whether the message was archived as done under this lease. */
static bool
was_archived(int64 id, int64 lease)
{
	PgqrsOutcome outcome;
	bool is_run;

	return outcome_under_lease(id, lease, &outcome, &is_run) &&
		outcome == OUTCOME_DONE && !is_run;
}

/* Raises the error for a lease that is not the current one. */
static void
refuse_lease(int64 id, int64 lease)
{
	PgqrsOutcome outcome;
	bool is_run;

	if (!outcome_under_lease(id, lease, &outcome, &is_run))
		pgqrs_error_lease_lost("message", id);
	if (outcome == OUTCOME_CANCELLED)
		pgqrs_error_run_cancelled(id);
	if (!is_run)
		pgqrs_error_ended("message", id, pgqrs_enum_label(ENUM_OUTCOME, outcome));
	pgqrs_error_ended("run", id,
					  pgqrs_enum_label(ENUM_RUN_STATUS,
									   outcome == OUTCOME_DONE ? RUN_SUCCESS :
																 RUN_ERROR));
}

/* Fences, or raises the error. */
static void
require_lease(PgqrsTable *messages, int64 id, int64 lease, FenceAction action,
			  bool allow_run, TupleTableSlot *slot, PgqrsQueue *queue)
{
	FenceResult result = fence_message(messages, id, lease, action, allow_run,
									   slot, queue);

	if (result == FENCE_RUN)
		refuse_run_message(slot, id);
	if (result != FENCE_PASSED)
		refuse_lease(id, lease);
}

static int
stored_failures(TupleTableSlot *slot)
{
	return DatumGetInt32(pgqrs_get(slot, Messages_failures));
}

static FenceResult
archive_message(PgqrsTable *messages, int64 id, int64 lease, TupleTableSlot *slot)
{
	PgqrsQueue queue;
	FenceResult result;

	result = fence_message(messages, id, lease, FENCE_DELETE, false, slot, &queue);
	if (result == FENCE_PASSED)
		pgqrs_message_archive_deleted(messages, slot, &queue, OUTCOME_DONE,
									  stored_failures(slot), PGQRS_NULL);
	else if (result == FENCE_STALE && was_archived(id, lease))
		result = FENCE_REPEATED;
	else if (result == FENCE_RUN)
		refuse_run_message(slot, id);
	return result;
}

bool
pgqrs_message_archive(int64 id, int64 lease)
{
	PgqrsTable *messages = pgqrs_table_open(TABLE_MESSAGES, true);
	FenceResult result = archive_message(messages, id, lease,
										 pgqrs_table_slot(messages));

	if (result == FENCE_STALE)
		refuse_lease(id, lease);
	pgqrs_table_close(messages);
	return result == FENCE_PASSED;
}

/* Results per item; order: indexes of the ids in ascending order of the ids. */
void
pgqrs_message_archive_batch(int count, const int64 *ids, const int64 *leases,
							const int *order, bool *archived, bool *is_current)
{
	PgqrsTable *messages = pgqrs_table_open(TABLE_MESSAGES, true);
	TupleTableSlot *slot = pgqrs_table_slot(messages);

	for (int i = 0; i < count; i++)
	{
		int item = order[i];
		FenceResult result = archive_message(messages, ids[item], leases[item],
											 slot);

		archived[item] = result == FENCE_PASSED;
		is_current[item] = result != FENCE_STALE;
	}
	pgqrs_table_close(messages);
}

int
pgqrs_message_archive_leading(int count, const int64 *ids, const int64 *leases,
							  const int *order)
{
	PgqrsTable *messages = pgqrs_table_open(TABLE_MESSAGES, true);
	TupleTableSlot *slot = pgqrs_table_slot(messages);
	int archived = 0;

	for (; archived < count; archived++)
	{
		int item = order[archived];
		PgqrsQueue queue;

		CHECK_FOR_INTERRUPTS();
		if (fence_message(messages, ids[item], leases[item], FENCE_DELETE_IF_ALLOWED,
						  false, slot, &queue) != FENCE_PASSED)
			break;
		pgqrs_message_archive_deleted(messages, slot, &queue, OUTCOME_DONE,
									  stored_failures(slot), PGQRS_NULL);
	}
	pgqrs_table_close(messages);
	return archived;
}

void
pgqrs_message_delete(int64 id, int64 lease)
{
	PgqrsTable *messages = pgqrs_table_open(TABLE_MESSAGES, true);
	TupleTableSlot *slot = pgqrs_table_slot(messages);
	PgqrsQueue queue;

	require_lease(messages, id, lease, FENCE_DELETE, false, slot, &queue);
	pgqrs_message_archive_deleted(messages, slot, &queue, OUTCOME_DELETED,
								  stored_failures(slot), PGQRS_NULL);
	pgqrs_table_close(messages);
}

/*
 * Releases the lease, if any, of the locked message, which becomes claimable at
 * that time; false: its run was asked to stop.
 */
static bool
release_lease(PgqrsTable *messages, TupleTableSlot *slot, const PgqrsQueue *queue,
			  int64 delay, TimestampTz not_before, PgqrsEventKind event)
{
	TimestampTz at;
	PgqrsRow row;

	if (pgqrs_message_is_asked_to_stop(slot, queue, pgqrs_clock()))
		return false;
	at = pgqrs_floor_writer_clock(queue->queue_id, delay, not_before) + delay;
	at = Max(at, not_before);
	pgqrs_row_copy(&row, messages, slot);
	pgqrs_message_clear_lease(&row, at);
	pgqrs_row_update(messages, slot, &row);
	pgqrs_event_of_message(event, slot, .until = at);
	pgqrs_message_publish_room(slot, queue);
	return true;
}

bool
pgqrs_message_release(int64 id, int64 lease, int64 delay)
{
	PgqrsTable *messages = pgqrs_table_open(TABLE_MESSAGES, true);
	TupleTableSlot *slot = pgqrs_table_slot(messages);
	PgqrsQueue queue;
	bool released;

	require_lease(messages, id, lease, FENCE_LOCK_AND_END, true, slot, &queue);
	if (pgqrs_message_is_past_its_end(slot, &queue, pgqrs_clock()))
		pgqrs_error_run_past_deadline(id);
	released = release_lease(messages, slot, &queue, delay, DT_NOBEGIN,
							 EVENT_RELEASED);
	pgqrs_table_close(messages);
	return released;
}

bool
pgqrs_message_nack(int64 id, int64 lease, const PgqrsNack *nack, TimestampTz *retry_at)
{
	PgqrsTable *messages = pgqrs_table_open(TABLE_MESSAGES, true);
	TupleTableSlot *slot = pgqrs_table_slot(messages);
	PgqrsQueue queue;
	PgqrsRow row;
	int failures;
	bool dead;

	require_lease(messages, id, lease, FENCE_LOCK_AND_END, false, slot, &queue);
	failures = stored_failures(slot) + 1;
	dead = !nack->retryable || failures >= queue.max_attempts;
	if (dead)
		pgqrs_message_end(messages, slot, &queue, OUTCOME_DEAD, failures,
						  nack->error);
	else
	{
		int64 delay = nack->delay >= 0 ?
			nack->delay :
			pgqrs_backoff_delay(&nack_backoff, failures);

		*retry_at = pgqrs_floor_writer_clock(queue.queue_id, delay, DT_NOBEGIN) +
			delay;
		pgqrs_row_copy(&row, messages, slot);
		pgqrs_message_clear_lease(&row, *retry_at);
		pgqrs_set(&row, Messages_failures, Int32GetDatum(failures));
		if (!nack->error.isnull)
			pgqrs_set(&row, Messages_last_error, nack->error.value);
		pgqrs_row_update(messages, slot, &row);
		pgqrs_message_publish_room(slot, &queue);
	}
	pgqrs_table_close(messages);
	return !dead;
}

static bool
reserve_one(PgqrsTable *messages, PgqrsTableId table, int64 id, int limit)
{
	if (limit == 0)
		return true;
	if (pgqrs_lease_limit_reserve(messages, table, id, limit) == 0)
		return false;
	pgqrs_lease_limit_settle(table, id, true);
	return true;
}

/*
 * An expired lease no longer counts against the limits of its queue and worker,
 * so extending it takes room like a claim.
 */
static bool
may_revive(PgqrsTable *messages, TupleTableSlot *slot, const PgqrsQueue *queue)
{
	int64 worker_id = pgqrs_get_int64(slot, Messages_worker_id);
	int max_concurrent = worker_id != 0 ? pgqrs_worker_max_concurrent(worker_id) : 0;

	return reserve_one(messages, TABLE_QUEUES, queue->queue_id,
					   queue->max_in_flight) &&
		reserve_one(messages, TABLE_WORKERS, worker_id, max_concurrent);
}

/* Sorts ids and removes duplicates; returns the number left. */
static int
sort_distinct(int64 *ids, int count)
{
	int n = 0;

	pgqrs_int64_sort(ids, count);
	for (int i = 0; i < count; i++)
		if (n == 0 || ids[n - 1] != ids[i])
			ids[n++] = ids[i];
	return n;
}

/*
 * Whether the lease is limited and has expired.  The result may be outdated at
 * once: the message is not locked.
 */
static bool
needs_limit_lock(TupleTableSlot *slot, PgqrsQueue *queue)
{
	return pgqrs_queue_allows(pgqrs_get_int64(slot, Messages_queue_id),
							  PRIVILEGE_WORK, queue) &&
		(queue->max_in_flight > 0 || !pgqrs_is_null(slot, Messages_worker_id)) &&
		!pgqrs_lease_is_live(slot, pgqrs_clock());
}

/*
 * Extending expired leases takes room.  Here the call waits for the locks of
 * the limits, before locking any message and in one order: queues, then
 * workers, by id.  A lease that expires later gets its lock at once or not at
 * all. leases: NULL for any lease.
 */
void
pgqrs_message_lock_limits(PgqrsTable *messages, TupleTableSlot *slot, int count,
						  const int64 *ids, const int64 *leases)
{
	int64 *queues = palloc(count * sizeof(int64));
	int64 *workers = palloc(count * sizeof(int64));
	int nqueues = 0;
	int nworkers = 0;

	for (int i = 0; i < count; i++)
	{
		PgqrsQueue queue;

		if (!pgqrs_row_fetch_id(messages, ids[i], slot) ||
			(leases != NULL && !pgqrs_lease_is_current(slot, leases[i])) ||
			!needs_limit_lock(slot, &queue))
			continue;
		if (queue.max_in_flight > 0)
			queues[nqueues++] = queue.queue_id;
		if (!pgqrs_is_null(slot, Messages_worker_id))
			workers[nworkers++] = pgqrs_get_int64(slot, Messages_worker_id);
	}
	nqueues = sort_distinct(queues, nqueues);
	for (int i = 0; i < nqueues; i++)
		pgqrs_lease_limit_lock(TABLE_QUEUES, queues[i]);
	nworkers = sort_distinct(workers, nworkers);
	for (int i = 0; i < nworkers; i++)
		if (pgqrs_worker_max_concurrent(workers[i]) > 0)
			pgqrs_lease_limit_lock(TABLE_WORKERS, workers[i]);
	pfree(workers);
	pfree(queues);
}

/*
 * Between these two calls no other transaction counts leases under these
 * limits.
 */
static void
mark_extending(int64 worker_id, const PgqrsQueue *queue,
			   void (*mark)(PgqrsTableId table, int64 id))
{
	if (queue->max_in_flight > 0)
		mark(TABLE_QUEUES, queue->queue_id);
	if (worker_id != 0)
		mark(TABLE_WORKERS, worker_id);
}

/* The end of an extended lease; timeout < 0: never earlier than before. */
static TimestampTz
extended_end(TupleTableSlot *slot, const PgqrsQueue *queue, int64 timeout)
{
	TimestampTz not_before = timeout >= 0 ?
		DT_NOBEGIN :
		pgqrs_get_time(slot, Messages_visible_after);
	int64 delay = timeout >= 0 ? timeout : queue->visibility_timeout;
	TimestampTz now = pgqrs_floor_writer_clock(queue->queue_id, delay, not_before);

	return Max(now + delay, not_before);
}

/*
 * While another transaction is writing the message, the lease stays as it is,
 * which is no reason for the worker to stop.
 */
bool
pgqrs_message_extend(PgqrsTable *messages, TupleTableSlot *slot, int64 id,
					 int64 lease, int64 timeout, bool *cancel_requested)
{
	PgqrsQueue queue;
	PgqrsRow row;
	TimestampTz now;
	int64 worker_id;
	bool current;
	FenceResult result;

	*cancel_requested = false;
	result = fence_message(messages, id, lease, FENCE_TRY_LOCK, true, slot, &queue);
	if (result == FENCE_BUSY &&
		!pgqrs_message_is_past_its_end(slot, &queue, pgqrs_clock()))
	{
		*cancel_requested = pgqrs_message_is_asked_to_stop(slot, &queue,
														   pgqrs_clock());
		return true;
	}
	if (result != FENCE_PASSED)
		return false;
	worker_id = pgqrs_get_int64(slot, Messages_worker_id);
	mark_extending(worker_id, &queue, pgqrs_lease_extend_begin);
	now = pgqrs_clock();
	current = !pgqrs_message_is_past_its_end(slot, &queue, now) &&
		(pgqrs_lease_is_live(slot, now) || may_revive(messages, slot, &queue));
	*cancel_requested = current &&
		pgqrs_message_is_asked_to_stop(slot, &queue, now);
	if (current)
	{
		pgqrs_row_copy(&row, messages, slot);
		pgqrs_message_set_lease_end(&row, extended_end(slot, &queue, timeout),
									*cancel_requested ||
										stored_failures(slot) + 1 >=
											queue.max_attempts);
		pgqrs_row_update(messages, slot, &row);
	}
	mark_extending(worker_id, &queue, pgqrs_lease_extend_end);
	return current;
}

/* Results per item; order: as for pgqrs_message_archive_batch(). */
void
pgqrs_message_extend_batch(int count, const int64 *ids, const int64 *leases,
						   const int *order, int64 timeout, bool *extended,
						   bool *cancel_requested)
{
	PgqrsTable *messages = pgqrs_table_open(TABLE_MESSAGES, true);
	TupleTableSlot *slot = pgqrs_table_slot(messages);

	pgqrs_async_commit_begin();
	pgqrs_message_lock_limits(messages, slot, count, ids, leases);
	for (int i = 0; i < count; i++)
	{
		int item = order[i];

		extended[item] = pgqrs_message_extend(messages, slot, ids[item],
											  leases[item], timeout,
											  &cancel_requested[item]);
	}
	pgqrs_table_close(messages);
	pgqrs_async_commit_end();
}

/* For operators: moves a message and revokes its lease without a failure. */
bool
pgqrs_message_set_visibility(int64 id, TimestampTz visible_after)
{
	PgqrsTable *messages = pgqrs_table_open(TABLE_MESSAGES, true);
	TupleTableSlot *slot = pgqrs_table_slot(messages);
	PgqrsQueue queue;
	bool moved;

	do
	{
		if (!pgqrs_row_fetch_id(messages, id, slot) ||
			!pgqrs_queue_admits(pgqrs_get_int64(slot, Messages_queue_id),
								PRIVILEGE_ADMIN, &queue))
			pgqrs_error_message_not_found(id);
	} while (pgqrs_row_lock(messages, slot, LockTupleExclusive, LockWaitBlock) !=
			 ROW_LOCKED);
	moved = release_lease(messages, slot, &queue, 0, visible_after,
						  EVENT_RESCHEDULED);
	pgqrs_table_close(messages);
	return moved;
}
