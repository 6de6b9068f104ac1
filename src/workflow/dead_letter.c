/*
 * dead_letter.c
 *	  Dead letters: replay and dismissal.
 *
 * Runs in any backend.  The archived row takes the place of the message in the
 * lock order: it is locked first, exclusively, then the run and its steps.  A
 * replayed message keeps its id, and therefore its run.
 */
#include "workflow/dead_letter.h"

#include "base/clock.h"
#include "base/errors.h"
#include "base/json.h"
#include "miscadmin.h"
#include "queue/audit.h"
#include "shmem/claim_floor.h"
#include "shmem/quarantine.h"
#include "shmem/xact_hooks.h"
#include "store/scan.h"
#include "store/tuple.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "workflow/run.h"
#include "workflow/run_trigger.h"
#include "workflow/step.h"

typedef struct Replay
{
	PgqrsTable *archive;
	PgqrsTable *messages;
	PgqrsTable *runs;
	TupleTableSlot *archived;
	TupleTableSlot *live;
	TupleTableSlot *run;
	NullableDatum payload;	/* replaces the stored payload, or NULL */
	const char *error_type; /* only dead letters with that error, or NULL */
} Replay;

static void
open_replay_tables(Replay *r)
{
	r->messages = pgqrs_table_open(TABLE_MESSAGES, true);
	r->archive = pgqrs_table_open(TABLE_ARCHIVE, true);
	r->runs = pgqrs_table_open(TABLE_RUNS, true);
	r->archived = pgqrs_table_slot(r->archive);
	r->live = pgqrs_table_slot(r->messages);
	r->run = pgqrs_table_slot(r->runs);
	r->payload = PGQRS_NULL;
	r->error_type = NULL;
}

static void
close_replay_tables(Replay *r)
{
	pgqrs_table_close(r->runs);
	pgqrs_table_close(r->archive);
	pgqrs_table_close(r->messages);
}

static PgqrsOutcome
archived_outcome(TupleTableSlot *archived)
{
	return pgqrs_enum_value(ENUM_OUTCOME, pgqrs_get(archived, Archive_outcome));
}

/* Whether the message was dismissed, and its row is kept only for its run. */
static bool
was_dismissed(TupleTableSlot *archived)
{
	return !pgqrs_is_null(archived, Archive_run_id) &&
		archived_outcome(archived) == OUTCOME_DELETED;
}

/* Fills a row of pgqrs_messages with a new, unclaimed message. */
static void
fill_replayed_message(Replay *r, PgqrsRow *row, TimestampTz now)
{
	static const AttrNumber copied[][2] = {
		{Messages_message_id, Archive_message_id},
		{Messages_queue_id, Archive_queue_id},
		{Messages_enqueued_at, Archive_enqueued_at},
		{Messages_run_id, Archive_run_id},
		{Messages_priority, Archive_priority},
		{Messages_concurrency_key, Archive_concurrency_key},
		{Messages_idempotency_key, Archive_idempotency_key},
		{Messages_payload, Archive_payload},
		{Messages_headers, Archive_headers},
		{Messages_last_error, Archive_last_error},
	};

	pgqrs_row_init(row, r->messages);
	for (int i = 0; i < lengthof(copied); i++)
		if (!pgqrs_is_null(r->archived, copied[i][1]))
			pgqrs_set(row, copied[i][0], pgqrs_get(r->archived, copied[i][1]));
	if (!r->payload.isnull)
		pgqrs_set(row, Messages_payload, r->payload.value);
	pgqrs_set(row, Messages_visible_after, TimestampTzGetDatum(now));
	pgqrs_set(row, Messages_attempt, Int32GetDatum(0));
	pgqrs_set(row, Messages_failures, Int32GetDatum(0));
}

/*
 * The deadline of the run's parent, if the parent is live and the run ends with
 * its parent; else DT_NOEND.
 */
static TimestampTz
parent_deadline(Replay *r)
{
	TupleTableSlot *parent;

	if (pgqrs_is_null(r->run, Runs_parent_run_id) ||
		pgqrs_enum_value(ENUM_PARENT_END, pgqrs_get(r->run, Runs_on_parent_end)) ==
			PARENT_END_ABANDON)
		return DT_NOEND;
	parent = pgqrs_table_slot(r->runs);
	if (!pgqrs_row_fetch_id(r->runs, pgqrs_get_int64(r->run, Runs_parent_run_id),
							parent) ||
		pgqrs_run_is_terminal(pgqrs_run_status(parent)) ||
		pgqrs_is_null(parent, Runs_deadline_at))
		return DT_NOEND;
	return pgqrs_get_time(parent, Runs_deadline_at);
}

/*
 * Locks the run of the dead letter and sets a new deadline.  False if the run
 * was deleted or its status is no longer ERROR.
 */
static bool
lock_failed_run(Replay *r, PgqrsRow *message, TimestampTz now)
{
	int64 run_id = pgqrs_get_int64(r->archived, Archive_run_id);
	TimestampTz deadline;

	if (!pgqrs_row_fetch_locked(r->runs, run_id, LockTupleNoKeyExclusive, r->run) ||
		pgqrs_run_status(r->run) != RUN_ERROR ||
		!pgqrs_is_null(r->run, Runs_undone) ||
		!pgqrs_is_null(r->run, Runs_deleted_at))
		return false;
	deadline = parent_deadline(r);
	if (!pgqrs_is_null(r->run, Runs_timeout))
	{
		Interval *timeout = DatumGetIntervalP(pgqrs_get(r->run, Runs_timeout));

		deadline = Min(deadline, now + pgqrs_duration(timeout, "timeout"));
	}
	if (!pgqrs_is_null(r->run, Runs_undo_cause))
		pgqrs_set(message, Messages_undo, BoolGetDatum(true));
	if (!TIMESTAMP_IS_NOEND(deadline))
	{
		pgqrs_set(message, Messages_deadline_at, TimestampTzGetDatum(deadline));
		pgqrs_xact_request_duty(DUTY_EXPIRY, deadline);
	}
	return true;
}

/* Whether another run has the run's idempotency key. */
static bool
is_key_taken(Replay *r)
{
	char *key = TextDatumGetCString(pgqrs_get(r->archived, Archive_idempotency_key));
	int64 other;

	return pgqrs_run_by_key(r->messages, r->live, r->runs, r->run,
							pgqrs_get_int64(r->archived, Archive_queue_id), key,
							&other);
}

/* Moves the locked run to QUEUED and its failed steps to PENDING. */
static void
requeue_run(Replay *r, const PgqrsRow *message)
{
	PgqrsRow row;

	pgqrs_row_copy(&row, r->runs, r->run);
	pgqrs_run_move(&row, r->run, RUN_QUEUED);
	pgqrs_set(&row, Runs_attempt, Int32GetDatum(0));
	pgqrs_set(&row, Runs_failures, Int32GetDatum(0));
	pgqrs_set_null(&row, Runs_lease);
	pgqrs_set_null(&row, Runs_worker_id);
	pgqrs_set_null(&row, Runs_worker_version);
	pgqrs_set_null(&row, Runs_error);
	pgqrs_set_null(&row, Runs_completed_at);
	pgqrs_set_null(&row, Runs_deadline_at);
	if (!message->nulls[Messages_deadline_at - 1])
		pgqrs_set(&row, Runs_deadline_at, message->values[Messages_deadline_at - 1]);
	pgqrs_row_update(r->runs, r->run, &row);
	pgqrs_step_reset_failed(pgqrs_get_int64(r->run, Runs_run_id));
	pgqrs_event(EVENT_REPLAYED, pgqrs_get_int64(r->run, Runs_run_id));
}

typedef enum ReplayResult
{
	REPLAYED,
	REPLAY_KEY_TAKEN,
	REPLAY_RUN_GONE
} ReplayResult;

/* Replays the locked dead letter.  A result other than REPLAYED changes nothing. */
static ReplayResult
replay_locked(Replay *r)
{
	TimestampTz now = pgqrs_floor_writer_clock(pgqrs_get_int64(r->archived,
															   Archive_queue_id),
											   0, DT_NOBEGIN);
	bool is_run = !pgqrs_is_null(r->archived, Archive_run_id);
	bool has_key = !pgqrs_is_null(r->archived, Archive_idempotency_key);
	PgqrsRow message;

	fill_replayed_message(r, &message, now);
	if (is_run && has_key && is_key_taken(r))
		return REPLAY_KEY_TAKEN;
	if (is_run && !lock_failed_run(r, &message, now))
		return REPLAY_RUN_GONE;
	if (!has_key)
		pgqrs_row_insert(r->messages, &message);
	else if (!pgqrs_row_insert_unique(r->messages, &message, INDEX_MESSAGES_KEY))
		return REPLAY_KEY_TAKEN;
	if (is_run)
		requeue_run(r, &message);
	pgqrs_row_delete(r->archive, r->archived);
	return REPLAYED;
}

/*
 * Fetches the message from the archive or else from the live messages; NULL if
 * it is in neither.  One snapshot for both tables, since the message may move
 * between them.
 */
static TupleTableSlot *
fetch_message(Replay *r, int64 message_id)
{
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	TupleTableSlot *found = NULL;

	r->archive->snapshot = r->messages->snapshot = snapshot;
	if (pgqrs_row_fetch_id(r->archive, message_id, r->archived))
		found = r->archived;
	else if (pgqrs_row_fetch_id(r->messages, message_id, r->live))
		found = r->live;
	r->archive->snapshot = r->messages->snapshot = NULL;
	UnregisterSnapshot(snapshot);
	return found;
}

/* Fetches and locks a dead letter: PQ004 without the message, PQ016 if it is not dead. */
static void
lock_dead_letter(Replay *r, int64 message_id)
{
	PgqrsQueue queue;
	bool in_archive;

	do
	{
		TupleTableSlot *found = fetch_message(r, message_id);

		in_archive = found == r->archived;
		if (found == NULL || (in_archive && was_dismissed(r->archived)))
			pgqrs_error_message_not_found(message_id);
		/* queue_id is the same column in both */
		if (!pgqrs_queue_admits(pgqrs_get_int64(found, Archive_queue_id),
								PRIVILEGE_ADMIN, &queue))
			pgqrs_error_message_not_found(message_id);
		if (!in_archive)
			break;
	} while (pgqrs_row_lock(r->archive, r->archived, LockTupleExclusive,
							LockWaitBlock) != ROW_LOCKED);

	if (in_archive && archived_outcome(r->archived) == OUTCOME_DEAD)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_PGQRS_INVALID_STATE),
			 errmsg("message " INT64_FORMAT " is not a dead letter", message_id),
			 in_archive ?
				 errdetail("The status is %s.",
						   pgqrs_enum_label(ENUM_OUTCOME,
											archived_outcome(r->archived))) :
				 errdetail("The message is live."),
			 errhint("Replay a message that pgqrs_dead_letters lists.")));
}

void
pgqrs_dead_letter_replay(int64 message_id, NullableDatum payload)
{
	Replay r;

	open_replay_tables(&r);
	r.payload = payload;
	lock_dead_letter(&r, message_id);
	if (!payload.isnull && !pgqrs_is_null(r.archived, Archive_run_id))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("message " INT64_FORMAT " belongs to a run", message_id),
				 errdetail("The input of a run cannot be replaced."),
				 errhint("Start a new run with pgqrs_rerun(" INT64_FORMAT
						 ", input => ...).",
						 message_id)));
	switch (replay_locked(&r))
	{
		case REPLAYED:
			break;
		case REPLAY_KEY_TAKEN:
			ereport(ERROR,
					(errcode(ERRCODE_PGQRS_INVALID_STATE),
					 errmsg("message " INT64_FORMAT " cannot be replayed", message_id),
					 errdetail("Another message has the same idempotency key."),
					 errhint("Wait until the other message has ended, then replay again.")));
			break;
		case REPLAY_RUN_GONE:
			ereport(ERROR,
					(errcode(ERRCODE_PGQRS_INVALID_STATE),
					 errmsg("message " INT64_FORMAT " cannot be replayed", message_id),
					 errdetail("The message's run was deleted or undone, or its status is not ERROR."),
					 errhint("Look at the run with pgqrs_get_run().")));
	}
	close_replay_tables(&r);
}

/*
 * Locks and visits up to max_rows dead letters of a queue, oldest first; returns
 * the number of successful visits.  Skips rows that another transaction has
 * locked, and rows in quarantine.
 */
static int64
visit_dead_letters(Replay *r, const PgqrsQueue *queue, int64 max_rows,
				   TimestampTz before, bool (*visit)(Replay *r))
{
	PgqrsScan scan;
	PgqrsKey keys[2] = {
		{1, BTEqualStrategyNumber, Int64GetDatum(queue->queue_id)},
		{2, BTLessStrategyNumber, TimestampTzGetDatum(before)},
	};
	int64 count = 0;

	pgqrs_scan_begin(&scan, r->archive, INDEX_ARCHIVE_DEAD, 2, keys);
	while (count < max_rows && pgqrs_scan_next(&scan, r->archived))
	{
		CHECK_FOR_INTERRUPTS();
		if ((r->error_type == NULL ||
			 pgqrs_json_is_error(pgqrs_get_or_null(r->archived, Archive_last_error),
								 r->error_type)) &&
			pgqrs_quarantine_begin_row(QUARANTINE_MESSAGE,
									   pgqrs_get_int64(r->archived,
													   Archive_message_id)) &&
			pgqrs_row_lock(r->archive, r->archived, LockTupleExclusive,
						   LockWaitSkip) == ROW_LOCKED &&
			visit(r))
			count++;
	}
	pgqrs_scan_end(&scan);
	return count;
}

/* A dead letter that cannot be replayed is skipped. */
static bool
visit_replay(Replay *r)
{
	return replay_locked(r) == REPLAYED;
}

static bool
visit_purge(Replay *r)
{
	pgqrs_message_dismiss(r->archive, r->archived);
	return true;
}

void
pgqrs_dead_letter_dismiss(int64 message_id)
{
	Replay r;

	open_replay_tables(&r);
	lock_dead_letter(&r, message_id);
	pgqrs_message_dismiss(r.archive, r.archived);
	close_replay_tables(&r);
}

/* A replay or purge of many dead letters. */
typedef struct BulkVisit
{
	const char *queue;
	int64 max_rows;
	int64 older_than;		/* < 0: any age */
	const char *error_type; /* or NULL */
	bool (*visit)(Replay *r);
	int64 count;
} BulkVisit;

static bool
run_bulk_visit(void *arg)
{
	BulkVisit *bulk = arg;
	TimestampTz before = bulk->older_than < 0 ? DT_NOEND :
												pgqrs_clock() - bulk->older_than;
	Replay r;
	PgqrsQueue queue;

	pgqrs_quarantine_begin();
	open_replay_tables(&r);
	r.error_type = bulk->error_type;
	pgqrs_queue_require(bulk->queue, PRIVILEGE_ADMIN, &queue);
	bulk->count = visit_dead_letters(&r, &queue, bulk->max_rows, before,
									 bulk->visit);
	close_replay_tables(&r);
	return true;
}

int64
pgqrs_dead_letter_replay_many(const char *queue, int64 max_rows,
							  const char *error_type)
{
	BulkVisit bulk = {queue, max_rows, -1, error_type, visit_replay};

	while (!pgqrs_quarantine_try(run_bulk_visit, &bulk))
		CHECK_FOR_INTERRUPTS();
	return bulk.count;
}

int
pgqrs_dead_letter_replay_runs(const int64 *run_ids, int count)
{
	int replayed = 0;
	Replay r;

	open_replay_tables(&r);
	for (int i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (pgqrs_row_fetch_locked(r.archive, run_ids[i], LockTupleExclusive,
								   r.archived) &&
			archived_outcome(r.archived) == OUTCOME_DEAD &&
			replay_locked(&r) == REPLAYED)
			replayed++;
	}
	close_replay_tables(&r);
	return replayed;
}

int64
pgqrs_dead_letter_purge(const char *queue, int64 older_than)
{
	BulkVisit bulk = {queue, PG_INT64_MAX, older_than, NULL, visit_purge};

	while (!pgqrs_quarantine_try(run_bulk_visit, &bulk))
		CHECK_FOR_INTERRUPTS();
	return bulk.count;
}
