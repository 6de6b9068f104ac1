/*
 * dead_letter.c
 *	  Dead letters: try again, or throw away.
 *
 * Runs in any backend.  The archive's row stands in for the message: it is
 * locked first, exclusively, then the run and its steps.  A replayed message
 * keeps its id, and so its run.
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
#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "workflow/run.h"
#include "workflow/step.h"

typedef struct Replay
{
	PgqrsTable *archive;
	PgqrsTable *messages;
	PgqrsTable *runs;
	TupleTableSlot *letter;
	TupleTableSlot *live;
	TupleTableSlot *run;
	NullableDatum payload;	/* in place of the stored one, or NULL */
	const char *error_type; /* of the letters to replay, or NULL: all */
} Replay;

static void
open_tables(Replay *r)
{
	r->messages = pgqrs_table_open(TABLE_MESSAGES, true);
	r->archive = pgqrs_table_open(TABLE_ARCHIVE, true);
	r->runs = pgqrs_table_open(TABLE_RUNS, true);
	r->letter = pgqrs_table_slot(r->archive);
	r->live = pgqrs_table_slot(r->messages);
	r->run = pgqrs_table_slot(r->runs);
	r->payload = PGQRS_NULL;
	r->error_type = NULL;
}

static void
close_tables(Replay *r)
{
	pgqrs_table_close(r->runs);
	pgqrs_table_close(r->archive);
	pgqrs_table_close(r->messages);
}

static PgqrsOutcome
outcome_of(TupleTableSlot *letter)
{
	return pgqrs_enum_value(ENUM_OUTCOME, pgqrs_get(letter, Archive_outcome));
}

/* Whether the letter was thrown away and is there only for its run. */
static bool
was_purged(TupleTableSlot *letter)
{
	return !pgqrs_is_null(letter, Archive_run_id) &&
		outcome_of(letter) == OUTCOME_DELETED;
}

/* The message again, as if it had just been sent. */
static void
fill_message(Replay *r, PgqrsRow *row, TimestampTz now)
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
		if (!pgqrs_is_null(r->letter, copied[i][1]))
			pgqrs_set(row, copied[i][0], pgqrs_get(r->letter, copied[i][1]));
	if (!r->payload.isnull)
		pgqrs_set(row, Messages_payload, r->payload.value);
	pgqrs_set(row, Messages_visible_after, TimestampTzGetDatum(now));
	pgqrs_set(row, Messages_attempt, Int32GetDatum(0));
	pgqrs_set(row, Messages_failures, Int32GetDatum(0));
}

/*
 * A child ends with its parent, if that goes on, at the latest; one that is
 * abandoned at the parent's end does not.
 */
static TimestampTz
latest_deadline(Replay *r)
{
	TupleTableSlot *parent;

	if (pgqrs_is_null(r->run, Runs_parent_run_id) ||
		pgqrs_enum_value(ENUM_PARENT_END, pgqrs_get(r->run, Runs_on_parent_end)) ==
			PARENT_END_ABANDON)
		return DT_NOEND;
	parent = pgqrs_table_slot(r->runs);
	if (!pgqrs_row_fetch_id(r->runs,
							DatumGetInt64(pgqrs_get(r->run, Runs_parent_run_id)),
							parent) ||
		pgqrs_run_is_terminal(pgqrs_run_status(parent)) ||
		pgqrs_is_null(parent, Runs_deadline_at))
		return DT_NOEND;
	return DatumGetTimestampTz(pgqrs_get(parent, Runs_deadline_at));
}

/*
 * Locks the run of the letter; false: it is not this letter's failed run any
 * more.  Its deadline is counted anew.
 */
static bool
lock_run(Replay *r, PgqrsRow *message, TimestampTz now)
{
	int64 run_id = DatumGetInt64(pgqrs_get(r->letter, Archive_run_id));
	TimestampTz deadline;

	if (!pgqrs_row_fetch_locked(r->runs, run_id, LockTupleNoKeyExclusive, r->run) ||
		pgqrs_run_status(r->run) != RUN_ERROR ||
		!pgqrs_is_null(r->run, Runs_deleted_at))
		return false;
	deadline = latest_deadline(r);
	if (!pgqrs_is_null(r->run, Runs_timeout))
	{
		Interval *timeout = DatumGetIntervalP(pgqrs_get(r->run, Runs_timeout));

		deadline = Min(deadline, now + pgqrs_duration(timeout, "timeout"));
	}
	if (!TIMESTAMP_IS_NOEND(deadline))
	{
		pgqrs_set(message, Messages_deadline_at, TimestampTzGetDatum(deadline));
		pgqrs_commit_due(DUTY_EXPIRY, deadline);
	}
	return true;
}

/* Whether another run has the letter's idempotency key. */
static bool
key_taken(Replay *r)
{
	char *key = TextDatumGetCString(pgqrs_get(r->letter, Archive_idempotency_key));
	int64 other;

	return pgqrs_run_by_key(r->messages, r->live, r->runs, r->run,
							DatumGetInt64(pgqrs_get(r->letter, Archive_queue_id)),
							key, &other);
}

/* The locked run goes back to QUEUED, its failed steps to PENDING. */
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
	pgqrs_step_reset_failed(DatumGetInt64(pgqrs_get(r->run, Runs_run_id)));
	pgqrs_event(EVENT_REPLAYED, DatumGetInt64(pgqrs_get(r->run, Runs_run_id)));
}

typedef enum ReplayResult
{
	REPLAYED,
	REPLAY_KEY_TAKEN,
	REPLAY_RUN_GONE
} ReplayResult;

/* Replays the letter in the slot, which is locked, or changes nothing. */
static ReplayResult
replay(Replay *r)
{
	TimestampTz now = pgqrs_floor_writer_clock(DatumGetInt64(
												   pgqrs_get(r->letter,
															 Archive_queue_id)),
											   0, DT_NOBEGIN);
	bool is_run = !pgqrs_is_null(r->letter, Archive_run_id);
	bool has_key = !pgqrs_is_null(r->letter, Archive_idempotency_key);
	PgqrsRow message;

	fill_message(r, &message, now);
	if (is_run && has_key && key_taken(r))
		return REPLAY_KEY_TAKEN;
	if (is_run && !lock_run(r, &message, now))
		return REPLAY_RUN_GONE;
	if (!has_key)
		pgqrs_row_insert(r->messages, &message);
	else if (!pgqrs_row_insert_unique(r->messages, &message, INDEX_MESSAGES_KEY))
		return REPLAY_KEY_TAKEN;
	if (is_run)
		requeue_run(r, &message);
	pgqrs_row_delete(r->archive, r->letter);
	return REPLAYED;
}

/*
 * Looks in the archive and, if it is not there, among the live messages: as of
 * one moment, between which and the next it may move from one to the other.
 * NULL: in neither.
 */
static TupleTableSlot *
look(Replay *r, int64 message_id)
{
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	TupleTableSlot *found = NULL;

	r->archive->snapshot = r->messages->snapshot = snapshot;
	if (pgqrs_row_fetch_id(r->archive, message_id, r->letter))
		found = r->letter;
	else if (pgqrs_row_fetch_id(r->messages, message_id, r->live))
		found = r->live;
	r->archive->snapshot = r->messages->snapshot = NULL;
	UnregisterSnapshot(snapshot);
	return found;
}

/* Fetches and locks the letter: PQ004 if there is none, PQ016 if it is not dead. */
static void
require_letter(Replay *r, int64 message_id)
{
	PgqrsQueue queue;
	const char *state;
	bool in_archive;

	do
	{
		TupleTableSlot *found = look(r, message_id);
		bool visible = false;

		in_archive = found == r->letter;
		if (found == NULL || (in_archive && was_purged(r->letter)))
			pgqrs_error_message_not_found(message_id);
		/* queue_id is the same column in both */
		if (!pgqrs_queue_by_id(DatumGetInt64(pgqrs_get(found, Archive_queue_id)),
							   &queue))
			pgqrs_error_message_not_found(message_id);
		if (!pgqrs_queue_allows(&queue, PRIVILEGE_ADMIN, &visible))
		{
			if (!visible)
				pgqrs_error_message_not_found(message_id);
			pgqrs_error_denied("admin", queue.name);
		}
		if (!in_archive)
			break;
	} while (pgqrs_row_lock(r->archive, r->letter, LockTupleExclusive,
							LockWaitBlock) != ROW_LOCKED);

	if (in_archive && outcome_of(r->letter) == OUTCOME_DEAD)
		return;
	state = in_archive ? pgqrs_enum_label(ENUM_OUTCOME, outcome_of(r->letter)) :
						 "still live";
	ereport(ERROR,
			(errcode(ERRCODE_PGQRS_INVALID_STATE),
			 errmsg("message " INT64_FORMAT " is not a dead letter", message_id),
			 errdetail("It is %s.", state),
			 errhint("Only what is listed in pgqrs_dead_letters can be replayed.")));
}

void
pgqrs_dead_letter_replay(int64 message_id, NullableDatum payload)
{
	Replay r;

	open_tables(&r);
	r.payload = payload;
	require_letter(&r, message_id);
	if (!payload.isnull && !pgqrs_is_null(r.letter, Archive_run_id))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("message " INT64_FORMAT " belongs to a run", message_id),
				 errdetail("A run keeps its input."),
				 errhint("Start a new run with pgqrs_rerun(" INT64_FORMAT
						 ", input => ...).",
						 message_id)));
	switch (replay(&r))
	{
		case REPLAYED:
			break;
		case REPLAY_KEY_TAKEN:
			ereport(ERROR,
					(errcode(ERRCODE_PGQRS_INVALID_STATE),
					 errmsg("message " INT64_FORMAT " cannot be replayed", message_id),
					 errdetail("Another message has taken its idempotency key."),
					 errhint("Wait until that one has ended, then replay again.")));
			break;
		case REPLAY_RUN_GONE:
			ereport(ERROR,
					(errcode(ERRCODE_PGQRS_INVALID_STATE),
					 errmsg("message " INT64_FORMAT " cannot be replayed", message_id),
					 errdetail("Its run was deleted or is not in status ERROR."),
					 errhint("Look at the run with pgqrs_get_run().")));
	}
	close_tables(&r);
}

/* Whether the letter in the slot is one of those asked for. */
static bool
is_wanted(Replay *r)
{
	char *type;

	if (r->error_type == NULL)
		return true;
	if (pgqrs_is_null(r->letter, Archive_last_error))
		return false;
	type = pgqrs_json_text(pgqrs_get(r->letter, Archive_last_error), "type");
	return type != NULL && strcmp(type, r->error_type) == 0;
}

/*
 * Visits the dead letters of a queue, oldest first, that no other transaction
 * has locked.  One at which that fails is passed over.
 */
static int64
each_letter(Replay *r, const PgqrsQueue *queue, int64 max_rows,
			TimestampTz before, bool (*visit)(Replay *r))
{
	PgqrsScan scan;
	PgqrsKey keys[2] = {
		{1, BTEqualStrategyNumber, Int64GetDatum(queue->queue_id)},
		{2, BTLessStrategyNumber, TimestampTzGetDatum(before)},
	};
	int64 count = 0;

	pgqrs_scan_begin(&scan, r->archive, INDEX_ARCHIVE_DEAD, 2, keys);
	while (count < max_rows && pgqrs_scan_next(&scan, r->letter))
	{
		CHECK_FOR_INTERRUPTS();
		if (is_wanted(r) &&
			pgqrs_faulty_come_to(FAULTY_MESSAGE,
								 DatumGetInt64(pgqrs_get(r->letter,
														 Archive_message_id))) &&
			pgqrs_row_lock(r->archive, r->letter, LockTupleExclusive,
						   LockWaitSkip) == ROW_LOCKED &&
			visit(r))
			count++;
	}
	pgqrs_scan_end(&scan);
	return count;
}

/* A letter that cannot be replayed is left as it is. */
static bool
visit_replay(Replay *r)
{
	return replay(r) == REPLAYED;
}

static bool
visit_purge(Replay *r)
{
	pgqrs_message_dismiss(r->archive, r->letter);
	return true;
}

void
pgqrs_dead_letter_dismiss(int64 message_id)
{
	Replay r;

	open_tables(&r);
	require_letter(&r, message_id);
	pgqrs_message_dismiss(r.archive, r.letter);
	close_tables(&r);
}

/* What is done with many letters at a time. */
typedef struct Many
{
	const char *queue;
	int64 max_rows;
	int64 older_than;		/* < 0: however old */
	const char *error_type; /* or NULL */
	bool (*visit)(Replay *r);
	int64 count;
} Many;

static bool
visit_many(void *arg)
{
	Many *many = arg;
	TimestampTz before = many->older_than < 0 ? DT_NOEND :
												pgqrs_clock() - many->older_than;
	Replay r;
	PgqrsQueue queue;

	pgqrs_faulty_begin();
	open_tables(&r);
	r.error_type = many->error_type;
	pgqrs_queue_require(many->queue, PRIVILEGE_ADMIN, &queue);
	many->count = each_letter(&r, &queue, many->max_rows, before, many->visit);
	close_tables(&r);
	return true;
}

int64
pgqrs_dead_letter_replay_many(const char *name, int64 max_rows, const char *error_type)
{
	Many many = {name, max_rows, -1, error_type, visit_replay};

	while (!pgqrs_faulty_try(visit_many, &many))
		CHECK_FOR_INTERRUPTS();
	return many.count;
}

int64
pgqrs_dead_letter_purge(const char *name, int64 older_than)
{
	Many many = {name, PG_INT64_MAX, older_than, NULL, visit_purge};

	while (!pgqrs_faulty_try(visit_many, &many))
		CHECK_FOR_INTERRUPTS();
	return many.count;
}
