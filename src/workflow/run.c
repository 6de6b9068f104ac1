/*
 * run.c
 *	  Workflow runs: find, fence, complete, fail, end.
 *
 * Runs in any backend.  A run and its message have the same id.  A transaction
 * that changes a run locks its message first: exclusively to move the run to
 * another status, key-share to work on it under a lease.  A run without a
 * message has ended; only replay and deletion change it, under a lock on the
 * run's own row.
 */
#include "workflow/run.h"

#include "base/clock.h"
#include "base/errors.h"
#include "base/json.h"
#include "base/name.h"
#include "base/status.h"
#include "queue/audit.h"
#include "queue/lease_limits.h"
#include "queue/worker_registry.h"
#include "shmem/claim_floor.h"
#include "shmem/counters.h"
#include "shmem/xact_hooks.h"
#include "shmem/xact_wakeups.h"
#include "store/scan.h"
#include "store/tuple.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "workflow/cancel.h"
#include "workflow/family.h"
#include "workflow/outbox.h"
#include "workflow/run_wakeup.h"
#include "workflow/undo.h"

/*
 * Reads of a live run's message before it counts as missing: replays are rare.
 */
#define MAX_MISSES 100

PgqrsRunStatus
pgqrs_run_status(TupleTableSlot *run)
{
	return pgqrs_enum_value(ENUM_RUN_STATUS, pgqrs_get(run, Runs_status));
}

/*
 * The message tells the status of a run that was not claimed since its trigger
 * or replay, is leased, or waits for a signal or children.  A run that waits
 * for its next claim may be RUNNING or PAUSED.
 */
bool
pgqrs_run_status_of_message(TupleTableSlot *message, PgqrsRunStatus *status)
{
	if (DatumGetInt32(pgqrs_get(message, Messages_attempt)) == 0)
		*status = RUN_QUEUED;
	else if (!pgqrs_is_null(message, Messages_lease))
		*status = RUN_RUNNING;
	else if (!pgqrs_is_null(message, Messages_waiting_for))
		*status = RUN_PAUSED;
	else
		return false;
	return true;
}

bool
pgqrs_run_is_terminal(PgqrsRunStatus status)
{
	return status == RUN_SUCCESS || status == RUN_ERROR || status == RUN_CANCELLED;
}

void
pgqrs_run_refuse_ended(TupleTableSlot *run, int64 run_id)
{
	PgqrsRunStatus status = pgqrs_run_status(run);

	if (pgqrs_run_is_terminal(status))
		ereport(ERROR,
				(errcode(ERRCODE_PGQRS_INVALID_STATE),
				 errmsg("run " INT64_FORMAT " has ended", run_id),
				 errdetail("The status is %s.",
						   pgqrs_enum_label(ENUM_RUN_STATUS, status)),
				 errhint("Start a new run with pgqrs_rerun(), or replay a failed run with pgqrs_replay_message().")));
}

void
pgqrs_run_move(PgqrsRow *row, TupleTableSlot *run, PgqrsRunStatus to)
{
	PgqrsRunStatus from = pgqrs_run_status(run);

	if (!pgqrs_run_may_move(from, to))
		ereport(ERROR,
				(errcode(ERRCODE_PGQRS_INVALID_STATE),
				 errmsg("run " INT64_FORMAT " cannot become %s",
						pgqrs_get_int64(run, Runs_run_id),
						pgqrs_enum_label(ENUM_RUN_STATUS, to)),
				 errdetail("The status is %s.",
						   pgqrs_enum_label(ENUM_RUN_STATUS, from)),
				 errhint("Look at the run with pgqrs_get_run().")));
	pgqrs_set(row, Runs_status, pgqrs_enum_datum(ENUM_RUN_STATUS, to));
}

void
pgqrs_run_open_messages(PgqrsRunRows *rows)
{
	rows->messages = pgqrs_table_open(TABLE_MESSAGES, true);
	rows->message = pgqrs_table_slot(rows->messages);
	rows->has_message = rows->message_deleted = false;
	rows->runs = NULL;
	rows->run = NULL;
}

void
pgqrs_run_open_runs(PgqrsRunRows *rows)
{
	if (rows->runs != NULL)
		return;
	rows->runs = pgqrs_table_open(TABLE_RUNS, true);
	rows->run = pgqrs_table_slot(rows->runs);
}

void
pgqrs_run_open(PgqrsRunRows *rows)
{
	pgqrs_run_open_messages(rows);
	pgqrs_run_open_runs(rows);
}

void
pgqrs_run_close(PgqrsRunRows *rows)
{
	if (rows->runs != NULL)
		pgqrs_table_close(rows->runs);
	pgqrs_table_close(rows->messages);
}

const char *
pgqrs_run_damage(PgqrsTable *runs, int64 run_id, TupleTableSlot *run)
{
	int status;

	if (!pgqrs_row_fetch_id(runs, run_id, run))
		return "the run of the message does not exist";
	status = pgqrs_enum_find(ENUM_RUN_STATUS, pgqrs_get(run, Runs_status));
	if (status < 0 || !pgqrs_run_may_move(status, RUN_RUNNING))
		return "its message is live, but the run is not";
	return NULL;
}

/*
 * Finding and fencing
 */

/* PQ003 or 42501 unless the role has the privilege on the run's workflow. */
static void
check_run_privilege(PgqrsRunRows *rows, int64 workflow_id, int64 run_id,
					PgqrsPrivilege privilege)
{
	if (!pgqrs_queue_admits(workflow_id, privilege, &rows->queue))
		pgqrs_error_run_not_found(run_id);
}

/*
 * Locks the fetched message, or deletes it (delete_message), which locks it, too;
 * false: it has changed.
 */
static bool
lock_or_delete_message(PgqrsRunRows *rows, LockTupleMode mode, bool delete_message)
{
	PgqrsLockResult result = delete_message ?
		pgqrs_row_try_delete(rows->messages, rows->message, LockWaitBlock) :
		pgqrs_row_lock(rows->messages, rows->message, mode, LockWaitBlock);

	rows->message_deleted = delete_message && result == ROW_LOCKED;
	rows->failures = DatumGetInt32(pgqrs_get(rows->message, Messages_failures));
	return result == ROW_LOCKED;
}

/*
 * Finds a run and locks its message, or deletes the message (delete_message) of a run
 * that is about to end.  With a lease, only the holder of that lease locks the
 * message: a caller that guesses must not delay the run.  For other callers,
 * pgqrs_run_fence() then raises the error.
 */
static void
find_and_lock_run(PgqrsRunRows *rows, int64 run_id, PgqrsPrivilege privilege,
				  LockTupleMode mode, bool delete_message, const int64 *lease)
{
	for (int misses = 0; misses < MAX_MISSES;)
	{
		rows->has_message = pgqrs_row_fetch_id(rows->messages, run_id,
											   rows->message);
		if (rows->has_message)
		{
			if (pgqrs_is_null(rows->message, Messages_run_id))
				pgqrs_error_run_not_found(run_id);
			check_run_privilege(rows,
								pgqrs_get_int64(rows->message, Messages_queue_id),
								run_id, privilege);
			if ((lease == NULL || pgqrs_lease_is_current(rows->message, *lease)) &&
				!lock_or_delete_message(rows, mode, delete_message))
				continue;
		}
		if (!pgqrs_row_fetch_id(rows->runs, run_id, rows->run))
			pgqrs_error_run_not_found(run_id);
		if (rows->has_message)
			return;
		check_run_privilege(rows, pgqrs_get_int64(rows->run, Runs_workflow_id),
							run_id, privilege);
		if (pgqrs_run_is_terminal(pgqrs_run_status(rows->run)))
			return;
		misses++; /* replayed between the two reads */
	}
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("run " INT64_FORMAT " has no message", run_id),
			 errhint("The message was deleted without the functions of pgqrs, or a restore has not loaded it yet.")));
}

void
pgqrs_run_require(PgqrsRunRows *rows, int64 run_id, PgqrsPrivilege privilege,
				  LockTupleMode mode)
{
	find_and_lock_run(rows, run_id, privilege, mode, false, NULL);
}

void
pgqrs_run_lock_for_holder(PgqrsRunRows *rows, int64 run_id, int64 lease,
						  LockTupleMode mode)
{
	find_and_lock_run(rows, run_id, PRIVILEGE_WORK, mode, false, &lease);
}

static void
touch_worker(TupleTableSlot *message)
{
	if (!pgqrs_is_null(message, Messages_worker_id))
		pgqrs_worker_record_call(pgqrs_get_int64(message, Messages_worker_id));
}

bool
pgqrs_run_check_lease_fast(PgqrsRunRows *rows, int64 run_id, int64 lease)
{
	do
	{
		rows->has_message = pgqrs_row_fetch_id(rows->messages, run_id,
											   rows->message);
		if (!rows->has_message || !pgqrs_lease_is_current(rows->message, lease) ||
			pgqrs_is_null(rows->message, Messages_run_id) ||
			!pgqrs_queue_allows(pgqrs_get_int64(rows->message, Messages_queue_id),
								PRIVILEGE_WORK, &rows->queue))
			return false;
	} while (!lock_or_delete_message(rows, LockTupleKeyShare, false));
	if (pgqrs_message_is_past_deadline(rows->message, pgqrs_clock()))
		return false;
	touch_worker(rows->message);
	return true;
}

/*
 * Whether the lease is the current one, or the one under which the run ended.
 */
static bool
lease_is_of_run(PgqrsRunRows *rows, int64 lease)
{
	if (rows->has_message)
		return pgqrs_lease_is_current(rows->message, lease);
	return !pgqrs_is_null(rows->run, Runs_lease) &&
		pgqrs_get_int64(rows->run, Runs_lease) == lease;
}

bool
pgqrs_run_is_asked_to_stop(PgqrsRunRows *rows)
{
	return rows->has_message &&
		(pgqrs_message_is_cancelling(rows->message) || pgqrs_undo_is_overdue(rows));
}

void
pgqrs_run_fence(PgqrsRunRows *rows, int64 lease, bool check_cancel)
{
	PgqrsRunStatus status = pgqrs_run_status(rows->run);
	int64 run_id = pgqrs_get_int64(rows->run, Runs_run_id);

	if (!lease_is_of_run(rows, lease))
		pgqrs_error_lease_lost("run", run_id);
	if (status == RUN_CANCELLED ||
		(check_cancel && pgqrs_run_is_asked_to_stop(rows)))
		pgqrs_error_run_cancelled(run_id);
	if (pgqrs_run_is_terminal(status))
		pgqrs_error_ended("run", run_id, pgqrs_enum_label(ENUM_RUN_STATUS, status));
	if (pgqrs_message_is_past_deadline(rows->message, pgqrs_clock()) &&
		!pgqrs_undo_is_overdue(rows))
		pgqrs_error_run_past_deadline(run_id);
	touch_worker(rows->message);
}

static bool
run_ended_under(PgqrsRunRows *rows, int64 lease, PgqrsRunStatus status)
{
	return pgqrs_run_status(rows->run) == status && lease_is_of_run(rows, lease);
}

bool
pgqrs_run_completed_under(PgqrsRunRows *rows, int64 lease)
{
	return run_ended_under(rows, lease, RUN_SUCCESS);
}

bool
pgqrs_run_cancelled_under(PgqrsRunRows *rows, int64 lease)
{
	return run_ended_under(rows, lease, RUN_CANCELLED) ||
		(run_ended_under(rows, lease, RUN_ERROR) &&
		 !pgqrs_is_null(rows->run, Runs_undone));
}

/*
 * Ending
 */

/* The outcome of the run's message. */
static PgqrsOutcome
outcome_of_status(PgqrsRunStatus status)
{
	switch (status)
	{
		case RUN_SUCCESS:
			return OUTCOME_DONE;
		case RUN_ERROR:
			return OUTCOME_DEAD;
		default:
			return OUTCOME_CANCELLED;
	}
}

/*
 * Notes in the archive, durably, that the children of a run that failed or was
 * cancelled are left; cancel.c cancels them.
 */
static void
note_children_left(PgqrsRunRows *rows)
{
	Datum id = pgqrs_get(rows->run, Runs_run_id);
	PgqrsTable *archive = rows->messages->archive;
	TupleTableSlot *slot;

	if (!pgqrs_row_fetch(rows->runs, INDEX_RUNS_PARENT, 1, &id,
						 pgqrs_table_slot(rows->runs)) &&
		!pgqrs_family_has_joined(DatumGetInt64(id)))
		return;
	slot = pgqrs_table_slot(archive);
	if (!pgqrs_row_fetch_id(archive, DatumGetInt64(id), slot))
		elog(ERROR, "message " INT64_FORMAT " is not in the archive",
			 DatumGetInt64(id));
	pgqrs_row_set(archive, slot, Archive_waiting_for,
				  pgqrs_value(CStringGetTextDatum(PGQRS_CHILDREN_LEFT "0")));
	pgqrs_xact_request_duty(DUTY_CHILDREN, 0);
}

static const char *
cancel_reason(const PgqrsRow *row)
{
	return row->nulls[Runs_cancel_reason - 1] ?
		NULL :
		TextDatumGetCString(row->values[Runs_cancel_reason - 1]);
}

/* row: the row version that ends the run */
static void
audit_end(const PgqrsRow *row, PgqrsRunStatus status, NullableDatum error)
{
	static const PgqrsEventKind kinds[RUN_STATUS_COUNT] = {
		[RUN_SUCCESS] = EVENT_FINISHED,
		[RUN_ERROR] = EVENT_DEAD,
		[RUN_CANCELLED] = EVENT_CANCELLED,
	};

	pgqrs_event(kinds[status], DatumGetInt64(row->values[Runs_run_id - 1]),
				.attempt = DatumGetInt32(row->values[Runs_attempt - 1]),
				.worker_id = DatumGetInt64(row->values[Runs_worker_id - 1]),
				.reason = status == RUN_CANCELLED ? cancel_reason(row) : NULL,
				.error = error.value);
}

/*
 * Stores the end of a run, with the lease under which it ended, if any: calls
 * under that lease receive the outcome.  row: the run's new version, in which
 * the caller may have changed further columns.
 */
static void
store_end(PgqrsRunRows *rows, PgqrsRow *row, PgqrsRunStatus status,
		  NullableDatum output, NullableDatum error)
{
	TimestampTz now = pgqrs_clock();

	pgqrs_run_move(row, rows->run, status);
	pgqrs_set(row, Runs_completed_at, TimestampTzGetDatum(now));
	pgqrs_set_null(row, Runs_paused_at);
	pgqrs_set_null(row, Runs_waiting_for);
	if (pgqrs_is_null(rows->message, Messages_lease))
		pgqrs_set_null(row, Runs_lease);
	if (!output.isnull)
		pgqrs_set(row, Runs_output, output.value);
	if (!error.isnull)
		pgqrs_set(row, Runs_error, error.value);
	pgqrs_row_update(rows->runs, rows->run, row);
	if (!rows->message_deleted)
		pgqrs_row_delete(rows->messages, rows->message);
	pgqrs_message_archive_deleted(rows->messages, rows->message, &rows->queue,
								  outcome_of_status(status), rows->failures, error);
	audit_end(row, status, error);
	pgqrs_outbox_send(rows->messages, &rows->queue, row);
	if (!pgqrs_is_null(rows->message, Messages_children_after) ||
		(status != RUN_SUCCESS && row->nulls[Runs_undone - 1]))
		note_children_left(rows);
	if (!pgqrs_is_null(rows->run, Runs_parent_run_id))
		pgqrs_run_wakeup_sent(pgqrs_get_int64(rows->run, Runs_parent_run_id));
	if (!pgqrs_is_null(rows->run, Runs_parent_run_id) ||
		!pgqrs_is_null(rows->run, Runs_idempotency_key))
		pgqrs_family_wake_parents(pgqrs_get_int64(rows->run, Runs_run_id));
	pgqrs_xact_wakeup_run(pgqrs_get_int64(rows->run, Runs_run_id), status, now);
}

/* A failure may have come before the deadline, and be its cause. */
static Datum
with_last_error(Datum error, Datum failure)
{
	PgqrsJson json;

	pgqrs_json_begin(&json);
	pgqrs_json_put_json(&json, "last_error", failure);
	return pgqrs_json_merge(error, pgqrs_json_end(&json));
}

void
pgqrs_run_end_undone(PgqrsRunRows *rows, NullableDatum output)
{
	bool timed_out = pgqrs_enum_value(ENUM_UNDO_CAUSE,
									  pgqrs_get(rows->run, Runs_undo_cause)) ==
		UNDO_CAUSE_TIMEOUT;
	NullableDatum failure = pgqrs_get_or_null(rows->message, Messages_last_error);
	NullableDatum error = PGQRS_NULL;
	PgqrsRow row;

	pgqrs_row_copy(&row, rows->runs, rows->run);
	pgqrs_set(&row, Runs_undone, BoolGetDatum(true));
	if (timed_out)
		error = pgqrs_value(
			pgqrs_json_error("timeout", "the run did not end before its deadline"));
	if (timed_out && !failure.isnull)
		error = pgqrs_value(with_last_error(error.value, failure.value));
	store_end(rows, &row, timed_out ? RUN_ERROR : RUN_CANCELLED,
			  timed_out ? PGQRS_NULL : output, error);
}

void
pgqrs_run_end(PgqrsRunRows *rows, PgqrsRunStatus status, NullableDatum output,
			  NullableDatum error)
{
	PgqrsRow row;

	pgqrs_row_copy(&row, rows->runs, rows->run);
	store_end(rows, &row, status, output, error);
}

/* The status of a run that ends by a failure. */
static PgqrsRunStatus
failed_status(PgqrsRunRows *rows)
{
	return pgqrs_is_null(rows->run, Runs_cancel_requested_at) ||
			!pgqrs_is_null(rows->run, Runs_undo_cause) ?
		RUN_ERROR :
		RUN_CANCELLED;
}

/* A worker reported a failure of the run or of a step that ends the delivery. */
static void
count_failure(PgqrsRunRows *rows)
{
	pgqrs_count(rows->message->tts_tableOid, rows->queue.queue_id, COUNT_FAILED, 1);
}

bool
pgqrs_run_deliver_to_undo(PgqrsRunRows *rows, bool retry_is_too_late,
						  NullableDatum error)
{
	if (pgqrs_undo_is_requested(rows->message))
	{
		if (!pgqrs_message_is_cancelling(rows->message))
			return false;
		if (!error.isnull)
			count_failure(rows);
		pgqrs_undo_give_up_lease(rows, error);
		return true;
	}
	if (!pgqrs_undo_is_overdue(rows) &&
		!(retry_is_too_late && pgqrs_undo_may_begin(rows)))
		return false;
	if (!error.isnull)
		count_failure(rows);
	pgqrs_undo_request(rows, UNDO_CAUSE_TIMEOUT, NULL, false, error);
	return true;
}

/* row: as for store_end(). */
static void
store_failed_end(PgqrsRunRows *rows, PgqrsRow *row, Datum error)
{
	count_failure(rows);
	store_end(rows, row, failed_status(rows), PGQRS_NULL, pgqrs_value(error));
}

void
pgqrs_run_end_failed(PgqrsRunRows *rows, Datum error)
{
	PgqrsRow row;

	pgqrs_row_copy(&row, rows->runs, rows->run);
	store_failed_end(rows, &row, error);
}

/* Whether the error's type begins with one of the prefixes. */
static bool
is_permanent(const PgqrsRetryPolicy *policy, Datum error)
{
	char *type = pgqrs_json_text(error, "type");
	ListCell *lc;

	if (type == NULL)
		return false;
	foreach(lc, policy->non_retryable)
		if (strncmp(type, lfirst(lc), strlen(lfirst(lc))) == 0)
			return true;
	return false;
}

bool
pgqrs_run_may_retry(PgqrsRunRows *rows, int failures, int max_attempts, Datum error,
					int64 retry_after, TimestampTz *retry_at, bool *too_late)
{
	PgqrsWorkflow workflow;

	*too_late = false;
	if (pgqrs_message_is_cancelling(rows->message))
		return false;
	if (!pgqrs_workflow_by_id(rows->queue.queue_id, &workflow))
		pgqrs_error_workflow_not_found(rows->queue.name);
	if (!pgqrs_is_null(rows->run, Runs_retry_policy))
		pgqrs_retry_policy_merge(&workflow.retry,
								 pgqrs_get(rows->run, Runs_retry_policy));
	if (max_attempts == 0)
		max_attempts = workflow.retry.max_attempts;
	if ((max_attempts != -1 && failures >= max_attempts) ||
		is_permanent(&workflow.retry, error))
		return false;
	if (retry_after < 0)
		retry_after = pgqrs_backoff_delay(&workflow.retry.backoff, failures);
	*retry_at = pgqrs_floor_writer_clock(rows->queue.queue_id, retry_after,
										 DT_NOBEGIN) +
		retry_after;

	/* a retry after the deadline is none */
	*too_late = !pgqrs_is_null(rows->message, Messages_deadline_at) &&
		*retry_at >= pgqrs_get_time(rows->message, Messages_deadline_at);
	return !*too_late;
}

/*
 * Clears the failures that pgqrs_fail_run() counted.  A message without a last
 * error shows that there are none, without a read of the run.
 */
static void
forget_failures(PgqrsRunRows *rows, int64 run_id)
{
	if (pgqrs_is_null(rows->message, Messages_last_error))
		return;
	pgqrs_run_open_runs(rows);
	if (!pgqrs_row_fetch_id(rows->runs, run_id, rows->run) ||
		DatumGetInt32(pgqrs_get(rows->run, Runs_failures)) == 0)
		return;
	if (!pgqrs_row_fetch_locked(rows->runs, run_id, LockTupleNoKeyExclusive,
								rows->run))
		pgqrs_error_run_not_found(run_id);
	pgqrs_row_set(rows->runs, rows->run, Runs_failures,
				  pgqrs_value(Int32GetDatum(0)));
}

void
pgqrs_run_forget_crashes(PgqrsRunRows *rows)
{
	int64 run_id = pgqrs_get_int64(rows->message, Messages_message_id);

	forget_failures(rows, run_id);
	if (rows->failures == 0)
		return;
	if (!pgqrs_row_fetch_locked(rows->messages, run_id, LockTupleNoKeyExclusive,
								rows->message))
		pgqrs_error_lease_lost("run", run_id);
	pgqrs_row_set(rows->messages, rows->message, Messages_failures,
				  pgqrs_value(Int32GetDatum(0)));
	rows->failures = 0;
}

void
pgqrs_run_schedule_retry(PgqrsRunRows *rows, TimestampTz visible_after, Datum error)
{
	PgqrsRow row;

	pgqrs_row_copy(&row, rows->messages, rows->message);
	pgqrs_message_clear_lease(&row, visible_after);
	pgqrs_set(&row, Messages_last_error, error);
	pgqrs_row_update(rows->messages, rows->message, &row);
	count_failure(rows);
	pgqrs_message_publish_room(rows->message, &rows->queue);
	pgqrs_event_of_message(EVENT_RETRIED, rows->message, .until = visible_after,
						   .error = error);
}

/*
 * Calls of workers
 */

bool
pgqrs_run_complete(int64 run_id, int64 lease, Datum output)
{
	PgqrsRunRows rows;
	bool repeated;

	pgqrs_run_open(&rows);
	find_and_lock_run(&rows, run_id, PRIVILEGE_WORK, LockTupleExclusive, true,
					  &lease);
	repeated = pgqrs_run_completed_under(&rows, lease);
	if (!repeated)
	{
		pgqrs_run_fence(&rows, lease, false);
		pgqrs_run_end(&rows, RUN_SUCCESS, pgqrs_value(output), PGQRS_NULL);
	}
	pgqrs_run_close(&rows);
	return !repeated;
}

/* True, and the time of the retry; false: the run has ended. */
bool
pgqrs_run_fail(int64 run_id, int64 lease, Datum error, bool retryable,
			   int64 retry_after, TimestampTz *retry_at)
{
	PgqrsRunRows rows;
	PgqrsRow row;
	int failures;
	bool retry;
	bool too_late = false;

	pgqrs_run_open(&rows);
	pgqrs_run_lock_for_holder(&rows, run_id, lease, LockTupleExclusive);
	pgqrs_run_fence(&rows, lease, false);
	failures = DatumGetInt32(pgqrs_get(rows.run, Runs_failures)) + 1;
	retry = retryable &&
		pgqrs_run_may_retry(&rows, failures, 0, error, retry_after, retry_at,
							&too_late);
	pgqrs_row_copy(&row, rows.runs, rows.run);
	pgqrs_set(&row, Runs_failures, Int32GetDatum(failures));
	if (retry && !pgqrs_undo_is_overdue(&rows))
	{
		pgqrs_run_schedule_retry(&rows, *retry_at, error);
		pgqrs_row_update(rows.runs, rows.run, &row);
	}
	else if (pgqrs_run_deliver_to_undo(&rows, too_late, pgqrs_value(error)))
	{
		*retry_at = pgqrs_clock();
		retry = true;
	}
	else
	{
		retry = false;
		store_failed_end(&rows, &row, error);
	}
	pgqrs_run_close(&rows);
	pgqrs_cancel_children(run_id);
	return retry;
}

/*
 * Parallel steps may report progress at the same time, so this locks the run's
 * row.
 */
void
pgqrs_run_set_progress(int64 run_id, int64 lease, NullableDatum progress)
{
	PgqrsRunRows rows;

	pgqrs_run_open(&rows);
	pgqrs_run_lock_for_holder(&rows, run_id, lease, LockTupleKeyShare);
	pgqrs_run_fence(&rows, lease, false);
	if (!pgqrs_row_fetch_locked(rows.runs, run_id, LockTupleNoKeyExclusive, rows.run))
		pgqrs_error_run_not_found(run_id);
	pgqrs_row_set(rows.runs, rows.run, Runs_progress, progress);
	pgqrs_run_close(&rows);
}
