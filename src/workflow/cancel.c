/*
 * cancel.c
 *	  Cancellation of runs and of their children.
 *
 * Runs in any backend.  A run under a live lease is requested to stop: the
 * canceller locks its message in a mode that open steps let pass, since a step
 * may still store its result.  Any other run is ended under an exclusive lock,
 * which waits for the open transactions of the run's steps.
 *
 * An open step may also have reported progress in the run's row, where the
 * request has to be written, and its next call may need the message.  A
 * canceller that holds the message must therefore not wait for the run's row:
 * it takes both locks in a subtransaction, and releases them with it if the row
 * is locked.
 *
 * The end of a parent and the cancellation of its children are separate.  The
 * transaction that ends the parent notes in the archive that children are left
 * (run.c).  It and later transactions cancel the children in ascending order,
 * without waiting for any lock, and clear the note after the last one.  So no
 * backend waits for a child while it holds a parent, or the reverse, and a
 * family of any size costs the parent's end one row.
 */
#include "workflow/cancel.h"

#include "base/clock.h"
#include "base/errors.h"
#include "base/int64_list.h"
#include "base/json.h"
#include "base/subxact.h"
#include "miscadmin.h"
#include "queue/audit.h"
#include "queue/lease_limits.h"
#include "shmem/quarantine.h"
#include "shmem/xact_hooks.h"
#include "store/scan.h"
#include "store/tuple.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "workflow/family.h"
#include "workflow/run_wakeup.h"
#include "workflow/undo.h"

/* The limits of one call, over all families that it visits. */
#define MAX_CHILDREN_READ	   10000
#define MAX_CHILDREN_CANCELLED 1000

/* A locked family is visited again after this time. */
#define BUSY_RETRY (1 * USECS_PER_SEC)

/* So many runs are cancelled with the same open tables and memory context. */
#define RUNS_PER_CHUNK 500

typedef enum CancelResult
{
	CANCEL_ENDED,	  /* the run is CANCELLED now */
	CANCEL_REQUESTED, /* the run's worker is requested to stop */
	CANCEL_NOTHING,	  /* the run has ended, or had a request before */
	CANCEL_BUSY		  /* another transaction has the run locked */
} CancelResult;

/*
 * One run, with its rows read and its message locked
 */

/* The lock that cancelling needs, judged by the lease before it is locked. */
static LockTupleMode
lock_mode_for_message(TupleTableSlot *message)
{
	return pgqrs_lease_is_live(message, pgqrs_clock()) ? LockTupleNoKeyExclusive :
														 LockTupleExclusive;
}

/* Locks the run's row, in which an open step may report progress. */
static bool
lock_run(PgqrsRunRows *rows, LockWaitPolicy wait)
{
	int64 run_id = pgqrs_get_int64(rows->run, Runs_run_id);
	PgqrsLockResult result;

	while ((result = pgqrs_row_lock(rows->runs, rows->run,
									LockTupleNoKeyExclusive, wait)) == ROW_CHANGED)
		if (!pgqrs_row_fetch_id(rows->runs, run_id, rows->run))
			pgqrs_error_run_not_found(run_id);
	return result == ROW_LOCKED;
}

static void
set_cancel_reason(PgqrsRow *run, const char *reason)
{
	pgqrs_set(run, Runs_cancel_requested_at, TimestampTzGetDatum(pgqrs_clock()));
	if (reason != NULL)
		pgqrs_set(run, Runs_cancel_reason, CStringGetTextDatum(reason));
}

/*
 * Requests the worker to stop.  The lease is the run's last one.  waiting_for
 * marks the message, so that a transaction that ends the lease need not read
 * the run.
 */
static CancelResult
request_cancel(PgqrsRunRows *rows, const char *reason, LockWaitPolicy wait,
			   bool keep_lease)
{
	PgqrsRow row;

	if (!lock_run(rows, wait))
		return CANCEL_BUSY;
	if (!pgqrs_is_null(rows->run, Runs_cancel_requested_at))
		return CANCEL_NOTHING;
	if (pgqrs_undo_may_begin(rows))
	{
		pgqrs_undo_request(rows, UNDO_CAUSE_CANCEL, reason, keep_lease, PGQRS_NULL);
		return CANCEL_REQUESTED;
	}
	pgqrs_row_copy(&row, rows->runs, rows->run);
	set_cancel_reason(&row, reason);
	pgqrs_row_update(rows->runs, rows->run, &row);

	pgqrs_row_copy(&row, rows->messages, rows->message);
	pgqrs_message_set_last_lease(&row,
								 pgqrs_get_time(rows->message,
												Messages_visible_after));
	pgqrs_set(&row, Messages_waiting_for, CStringGetTextDatum(PGQRS_WAIT_CANCEL));
	pgqrs_row_update(rows->messages, rows->message, &row);
	pgqrs_event_of_message(EVENT_CANCEL_REQUESTED, rows->message, .reason = reason);
	pgqrs_message_note_lease_change(rows->message);
	return CANCEL_REQUESTED;
}

/* Ends the run; the message is locked exclusively. */
static void
end_cancelled(PgqrsRunRows *rows, const char *reason, NullableDatum output)
{
	pgqrs_xact_require_sync_commit();
	if (reason != NULL && pgqrs_is_null(rows->run, Runs_cancel_reason))
	{
		pgqrs_row_set(rows->runs, rows->run, Runs_cancel_reason,
					  pgqrs_value(CStringGetTextDatum(reason)));
		if (!pgqrs_row_fetch_id(rows->runs,
								pgqrs_get_int64(rows->message, Messages_message_id),
								rows->run))
			elog(ERROR, "a run is gone that was just written");
	}
	rows->failures = DatumGetInt32(pgqrs_get(rows->message, Messages_failures));
	pgqrs_run_end(rows, RUN_CANCELLED, output, PGQRS_NULL);
}

/*
 * A lease that expired after its message was locked in the weaker mode counts
 * as live: the run ends with the next pass or claim.
 */
static CancelResult
cancel_locked(PgqrsRunRows *rows, LockTupleMode mode, const char *reason,
			  LockWaitPolicy wait)
{
	bool keep_lease = mode != LockTupleExclusive ||
		pgqrs_lease_is_live(rows->message, pgqrs_clock());

	if (keep_lease || pgqrs_undo_may_begin(rows))
		return request_cancel(rows, reason, wait, keep_lease);
	if (pgqrs_undo_is_requested(rows->message))
		return CANCEL_NOTHING;
	end_cancelled(rows, reason, PGQRS_NULL);
	return CANCEL_ENDED;
}

/*
 * The holder gave the lease up, under an exclusive lock, before the message was
 * locked here.  So no step is open, and the stronger lock is free.
 */
static LockTupleMode
lock_released_message(PgqrsRunRows *rows)
{
	if (pgqrs_row_lock(rows->messages, rows->message, LockTupleExclusive,
					   LockWaitBlock) != ROW_LOCKED)
		elog(ERROR, "a message has changed under lock");
	return LockTupleExclusive;
}

/* The arguments and the result of one attempt of pgqrs_cancel(). */
typedef struct CancelAttempt
{
	int64 run_id;
	const char *reason;
	LockTupleMode mode;	 /* of the message's lock */
	CancelResult result; /* CANCEL_BUSY: the run's row is locked */
	PgqrsRunStatus status;
} CancelAttempt;

/*
 * Locks the run as cancelling needs, and cancels it: PQ003, 42501.  False if
 * the run's row is locked.
 */
static bool
cancel_run(void *arg)
{
	CancelAttempt *c = arg;
	LockTupleMode mode = c->mode;
	PgqrsRunRows rows;

	c->result = CANCEL_NOTHING;
	pgqrs_run_open(&rows);
	pgqrs_run_require(&rows, c->run_id, PRIVILEGE_TRIGGER, mode);
	if (rows.has_message)
	{
		if (mode != LockTupleExclusive && pgqrs_is_null(rows.message, Messages_lease))
			mode = lock_released_message(&rows);
		c->result = cancel_locked(&rows, mode, c->reason,
								  c->mode == LockTupleExclusive ? LockWaitBlock :
																  LockWaitSkip);
	}
	c->status = c->result == CANCEL_ENDED ? RUN_CANCELLED :
											pgqrs_run_status(rows.run);
	pgqrs_run_close(&rows);
	return c->result != CANCEL_BUSY;
}

/*
 * Waits until no transaction has the run's row locked, without keeping the
 * lock.
 */
static bool
wait_for_run(void *arg)
{
	const CancelAttempt *c = arg;
	PgqrsTable *runs = pgqrs_table_open(TABLE_RUNS, true);

	(void) pgqrs_row_fetch_locked(runs, c->run_id, LockTupleNoKeyExclusive,
								  pgqrs_table_slot(runs));
	pgqrs_table_close(runs);
	return false;
}

static void
in_subtransaction(bool (*work)(void *), CancelAttempt *c)
{
	ErrorData *error = pgqrs_subtransaction(work, c);

	/* a caller expects the error, not the subtransaction */
	if (error != NULL)
		ReThrowError(error);
}

/* The lock that cancelling the run needs at this moment. */
static LockTupleMode
lock_mode_for_run(int64 run_id)
{
	PgqrsTable *messages = pgqrs_table_open(TABLE_MESSAGES, true);
	TupleTableSlot *message = pgqrs_table_slot(messages);
	LockTupleMode mode = LockTupleExclusive;

	if (pgqrs_row_fetch_id(messages, run_id, message))
		mode = lock_mode_for_message(message);
	pgqrs_table_close(messages);
	return mode;
}

/*
 * Cancels a run.  While its message is locked exclusively, no other transaction
 * writes the run's row, so that no lock has to be released and retaken.
 */
static void
cancel_and_wait(CancelAttempt *c)
{
	for (;;)
	{
		c->mode = lock_mode_for_run(c->run_id);
		if (c->mode == LockTupleExclusive)
			(void) cancel_run(c);
		else
			in_subtransaction(cancel_run, c);
		if (c->result != CANCEL_BUSY)
			return;
		in_subtransaction(wait_for_run, c);
	}
}

PgqrsRunStatus
pgqrs_cancel(int64 run_id, const char *reason)
{
	CancelAttempt c = {.run_id = run_id, .reason = reason};

	cancel_and_wait(&c);
	pgqrs_cancel_children(run_id);
	return c.status;
}

/*
 * Acknowledgement by the worker
 */

void
pgqrs_cancel_acknowledge(int64 run_id, int64 lease, NullableDatum output)
{
	PgqrsRunRows rows;

	pgqrs_run_open(&rows);
	pgqrs_run_lock_for_holder(&rows, run_id, lease, LockTupleExclusive);
	if (pgqrs_run_cancelled_under(&rows, lease))
	{
		/* a repeated call, or the run was cancelled before it */
		pgqrs_run_close(&rows);
		return;
	}
	pgqrs_run_fence(&rows, lease, false);
	if (pgqrs_run_deliver_to_undo(&rows, false, PGQRS_NULL))
	{
		pgqrs_run_close(&rows);
		pgqrs_cancel_children(run_id);
		return;
	}
	if (pgqrs_is_null(rows.run, Runs_cancel_requested_at))
		ereport(ERROR,
				(errcode(ERRCODE_PGQRS_INVALID_STATE),
				 errmsg("run " INT64_FORMAT " was not asked to stop", run_id),
				 errdetail("The status is %s.",
						   pgqrs_enum_label(ENUM_RUN_STATUS,
											pgqrs_run_status(rows.run))),
				 errhint("End the run with pgqrs_complete_run() or pgqrs_fail_run().")));
	if (pgqrs_undo_is_requested(rows.message))
		pgqrs_run_end_undone(&rows, output);
	else
		end_cancelled(&rows, NULL, output);
	pgqrs_run_close(&rows);
	pgqrs_cancel_children(run_id);
}

/* Reads the queue and the run of the locked message in the slot. */
static bool
fetch_run_of_message(PgqrsRunRows *rows)
{
	rows->has_message = true;
	return !pgqrs_is_null(rows->message, Messages_run_id) &&
		pgqrs_queue_by_id(pgqrs_get_int64(rows->message, Messages_queue_id),
						  &rows->queue) &&
		pgqrs_row_fetch_id(rows->runs,
						   pgqrs_get_int64(rows->message, Messages_run_id),
						   rows->run);
}

/* Cancels the run without waiting for any lock. */
static CancelResult
try_cancel(PgqrsRunRows *rows, int64 run_id, const char *reason)
{
	while (pgqrs_row_fetch_id(rows->messages, run_id, rows->message))
	{
		LockTupleMode mode = lock_mode_for_message(rows->message);

		switch (pgqrs_row_lock(rows->messages, rows->message, mode, LockWaitSkip))
		{
			case ROW_BUSY:
				return CANCEL_BUSY;
			case ROW_CHANGED:
				continue;
			case ROW_LOCKED:
				break;
		}
		if (!fetch_run_of_message(rows))
			return CANCEL_NOTHING;
		if (pgqrs_row_update_waits(rows->run))
			return CANCEL_BUSY;
		return cancel_locked(rows, mode, reason, LockWaitSkip);
	}
	return CANCEL_NOTHING;
}

bool
pgqrs_cancel_without_waiting(int64 run_id, const char *reason)
{
	PgqrsRunRows rows;
	CancelResult result;

	pgqrs_run_open(&rows);
	result = try_cancel(&rows, run_id, reason);
	pgqrs_run_close(&rows);
	if (result == CANCEL_ENDED || result == CANCEL_REQUESTED)
		pgqrs_cancel_children(run_id);
	return result != CANCEL_BUSY;
}

void
pgqrs_cancel_end_requested(int64 run_id)
{
	PgqrsRunRows rows;

	pgqrs_run_open(&rows);
	if (pgqrs_row_fetch_locked(rows.messages, run_id, LockTupleExclusive,
							   rows.message) &&
		fetch_run_of_message(&rows) &&
		!pgqrs_run_deliver_to_undo(&rows, false, PGQRS_NULL))
		end_cancelled(&rows, NULL, PGQRS_NULL);
	pgqrs_run_close(&rows);
	pgqrs_cancel_children(run_id);
}

void
pgqrs_cancel_or_release(int64 message_id, int64 lease, int64 delay)
{
	if (!pgqrs_message_release(message_id, lease, delay))
		pgqrs_cancel_end_requested(message_id);
}

void
pgqrs_cancel_or_set_visibility(int64 message_id, TimestampTz visible_after)
{
	if (!pgqrs_message_set_visibility(message_id, visible_after))
		pgqrs_cancel_end_requested(message_id);
}

/*
 * Deletion
 */

/* False: a replay moved the run before its row was locked. */
static bool
mark_deleted(PgqrsRunRows *rows, int64 run_id, const char *reason)
{
	PgqrsRow row;

	if (!pgqrs_row_fetch_locked(rows->runs, run_id, LockTupleNoKeyExclusive,
								rows->run))
		pgqrs_error_run_not_found(run_id);
	if (!pgqrs_run_is_terminal(pgqrs_run_status(rows->run)))
		return false;
	if (!pgqrs_is_null(rows->run, Runs_deleted_at))
		return true;
	pgqrs_row_copy(&row, rows->runs, rows->run);
	pgqrs_set(&row, Runs_deleted_at, TimestampTzGetDatum(pgqrs_clock()));
	if (reason != NULL)
		pgqrs_set(&row, Runs_delete_reason, CStringGetTextDatum(reason));
	pgqrs_row_update(rows->runs, rows->run, &row);
	pgqrs_event(EVENT_DELETED, run_id, .reason = reason);
	return true;
}

/*
 * Deletes the dead letter of a deleted run, which must not be replayed.  Like a
 * replay, it locks the dead letter before the run.
 */
static void
dismiss_dead_letter(int64 run_id)
{
	PgqrsTable *archive = pgqrs_table_open(TABLE_ARCHIVE, true);
	TupleTableSlot *archived = pgqrs_table_slot(archive);

	if (pgqrs_row_fetch_locked(archive, run_id, LockTupleExclusive, archived) &&
		pgqrs_enum_value(ENUM_OUTCOME, pgqrs_get(archived, Archive_outcome)) ==
			OUTCOME_DEAD)
		pgqrs_message_dismiss(archive, archived);
	pgqrs_table_close(archive);
}

/*
 * A deleted run does not continue, so it is cancelled under a live lease, too.
 */
void
pgqrs_cancel_delete(int64 run_id, const char *reason)
{
	PgqrsRunRows rows;

	pgqrs_run_open(&rows);
	do
	{
		pgqrs_run_require(&rows, run_id, PRIVILEGE_ADMIN, LockTupleExclusive);
		if (rows.has_message)
			end_cancelled(&rows, reason, PGQRS_NULL);
		else
			dismiss_dead_letter(run_id);
	} while (!mark_deleted(&rows, run_id, reason));
	pgqrs_run_close(&rows);
	pgqrs_cancel_children(run_id);
}

/*
 * Many runs
 */

/* Whether the run in the slot matches the filter in all but its error. */
static bool
matches_filter(PgqrsRunRows *rows, const PgqrsRunsFilter *filter)
{
	if (pgqrs_run_is_terminal(pgqrs_run_status(rows->run)) ||
		!pgqrs_is_null(rows->run, Runs_cancel_requested_at))
		return false;
	if (filter->status >= 0 && pgqrs_run_status(rows->run) != filter->status)
		return false;
	return pgqrs_runs_filter_matches(filter, rows->run);
}

/* The ids of a workflow's live runs after filter->after_run_id, ascending. */
static PgqrsInt64List
find_live_runs(PgqrsRunRows *rows, int64 queue_id, const PgqrsRunsFilter *filter)
{
	PgqrsKey key = {CLAIM_QUEUE_ID, BTEqualStrategyNumber, Int64GetDatum(queue_id)};
	PgqrsInt64List ids = {0};
	PgqrsScan scan;

	pgqrs_scan_begin(&scan, rows->messages, INDEX_MESSAGES_CLAIM, 1, &key);
	while (pgqrs_scan_next(&scan, rows->message))
	{
		int64 id = pgqrs_get_int64(rows->message, Messages_message_id);

		CHECK_FOR_INTERRUPTS();
		if (id > filter->after_run_id &&
			(filter->error_type == NULL ||
			 pgqrs_json_is_error(pgqrs_get_or_null(rows->message, Messages_last_error),
								 filter->error_type)))
			pgqrs_int64_list_add(&ids, id);
	}
	pgqrs_scan_end(&scan);
	pgqrs_int64_sort(ids.values, ids.count);
	return ids;
}

/* Up to max matching runs; *more: further runs match. */
static PgqrsInt64List
find_matching_runs(int64 queue_id, const PgqrsRunsFilter *filter, int max, bool *more)
{
	PgqrsRunRows rows;
	PgqrsInt64List live;
	int found = 0;

	*more = false;
	pgqrs_run_open(&rows);
	live = find_live_runs(&rows, queue_id, filter);
	for (int i = 0; i < live.count && !*more; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (!pgqrs_row_fetch_id(rows.runs, live.values[i], rows.run) ||
			!matches_filter(&rows, filter))
			continue;
		if (found < max)
			live.values[found++] = live.values[i];
		else
			*more = true;
	}
	pgqrs_run_close(&rows);
	live.count = found;
	return live;
}

/* Cancels runs with the same open tables; ids keeps those that were cancelled. */
static int
cancel_chunk(int64 *ids, int count, const PgqrsRunsFilter *filter, const char *reason)
{
	PgqrsRunRows rows;
	int cancelled = 0;

	pgqrs_run_open(&rows);
	for (int i = 0; i < count; i++)
	{
		CancelResult result = CANCEL_NOTHING;

		CHECK_FOR_INTERRUPTS();
		if (pgqrs_row_fetch_id(rows.runs, ids[i], rows.run) &&
			matches_filter(&rows, filter))
		{
			CancelAttempt c = {.run_id = ids[i], .reason = reason};

			cancel_and_wait(&c);
			result = c.result;
		}
		if (result == CANCEL_ENDED || result == CANCEL_REQUESTED)
			cancelled++;
		else
			ids[i] = 0;
	}
	pgqrs_run_close(&rows);
	return cancelled;
}

PgqrsRunsChanged
pgqrs_cancel_many(const char *name, const PgqrsRunsFilter *filter,
				  const char *reason, int max_rows)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "pgqrs cancelled runs",
												  ALLOCSET_DEFAULT_SIZES);
	PgqrsWorkflow workflow;
	PgqrsRunsChanged result = {0};
	PgqrsInt64List ids;
	bool more;

	pgqrs_require_writable();
	pgqrs_workflow_require(name, PRIVILEGE_TRIGGER, &workflow);
	ids = find_matching_runs(workflow.workflow_id, filter, max_rows, &more);
	if (more && ids.count > 0)
		result.last = ids.values[ids.count - 1];
	for (int i = 0; i < ids.count; i += RUNS_PER_CHUNK)
	{
		MemoryContext old = MemoryContextSwitchTo(context);

		result.changed += cancel_chunk(ids.values + i,
									   Min(RUNS_PER_CHUNK, ids.count - i),
									   filter, reason);
		MemoryContextSwitchTo(old);
		MemoryContextReset(context);
	}
	result.skipped = ids.count - result.changed;
	/* after all runs: from here on this backend waits for no lock */
	for (int i = 0; i < ids.count; i++)
		if (ids.values[i] != 0)
			pgqrs_cancel_children(ids.values[i]);
	MemoryContextDelete(context);
	return result;
}

/*
 * Families
 */

typedef struct FamilyVisit
{
	PgqrsRunRows rows;
	PgqrsTable *archive;
	TupleTableSlot *archived;
	TupleTableSlot *undo; /* the message of a live run with such a note */
	bool of_undo;
	bool spares_undo;		/* the children of the undo are left alone */
	PgqrsInt64List parents; /* runs that may have left children */
	int read_budget;
	int cancel_budget;
	int cancelled;
	bool quarantined; /* a row in quarantine */
	bool busy;		  /* a row that another transaction has locked */
} FamilyVisit;

static void
open_family_tables(FamilyVisit *f)
{
	pgqrs_run_open(&f->rows);
	f->archive = pgqrs_table_open(TABLE_ARCHIVE, true);
	f->archived = pgqrs_table_slot(f->archive);
	f->undo = pgqrs_table_slot(f->rows.messages);
}

static void
close_family_tables(FamilyVisit *f)
{
	pgqrs_table_close(f->archive);
	pgqrs_run_close(&f->rows);
}

/* The same as below of a run that is to be undone. */
static bool
lock_undo_note(FamilyVisit *f, int64 parent, int64 *after)
{
	if (!pgqrs_row_fetch_id(f->rows.messages, parent, f->undo) ||
		pgqrs_is_null(f->undo, Messages_children_after))
		return false;
	if (!pgqrs_quarantine_begin_row(QUARANTINE_MESSAGE, parent))
	{
		f->quarantined = true;
		return false;
	}
	if (pgqrs_row_lock(f->rows.messages, f->undo, LockTupleNoKeyExclusive,
					   LockWaitSkip) != ROW_LOCKED)
	{
		f->busy = true;
		return false;
	}
	*after = pgqrs_get_int64(f->undo, Messages_children_after);
	return true;
}

/*
 * Reads and locks the note that a run has left children; false without one, or if
 * the row is locked or in quarantine.  *after: the note covers the children with
 * greater ids.
 */
static bool
lock_children_note(FamilyVisit *f, int64 parent, int64 *after)
{
	char *note;
	const char *position;

	f->of_undo = f->spares_undo = lock_undo_note(f, parent, after);
	if (f->of_undo)
		return true;
	if (!pgqrs_row_fetch_id(f->archive, parent, f->archived) ||
		pgqrs_is_null(f->archived, Archive_waiting_for))
		return false;
	if (!pgqrs_quarantine_begin_row(QUARANTINE_MESSAGE, parent))
	{
		f->quarantined = true;
		return false;
	}
	if (pgqrs_row_lock(f->archive, f->archived, LockTupleNoKeyExclusive,
					   LockWaitSkip) != ROW_LOCKED)
	{
		f->busy = true;
		return false;
	}
	note = TextDatumGetCString(pgqrs_get(f->archived, Archive_waiting_for));
	f->spares_undo = pgqrs_row_fetch_id(f->rows.runs, parent, f->rows.run) &&
		pgqrs_family_keeps_children_of_undo(f->rows.run);
	position = pgqrs_run_wakeup_waits_for(note, PGQRS_CHILDREN_LEFT);
	if (position == NULL)
		elog(ERROR, "archived message " INT64_FORMAT " has the note \"%s\"",
			 parent, note);
	*after = *position == '\0' ? 0 : strtoll(position, NULL, 10);
	return true;
}

/*
 * Notes the children with ids greater than after, or clears the note if after <
 * 0.
 */
static void
write_children_note(FamilyVisit *f, int64 after)
{
	PgqrsRow row;

	if (f->of_undo)
	{
		pgqrs_row_set(f->rows.messages, f->undo, Messages_children_after,
					  pgqrs_value_if(after >= 0, Int64GetDatum(after)));
		return;
	}
	pgqrs_row_copy(&row, f->archive, f->archived);
	if (after < 0)
		pgqrs_set_null(&row, Archive_waiting_for);
	else
		pgqrs_set(&row, Archive_waiting_for,
				  CStringGetTextDatum(
					  psprintf(PGQRS_CHILDREN_LEFT INT64_FORMAT, after)));
	pgqrs_row_update(f->archive, f->archived, &row);
}

static bool
run_continues(TupleTableSlot *run)
{
	return !pgqrs_run_is_terminal(pgqrs_run_status(run)) &&
		pgqrs_is_null(run, Runs_cancel_requested_at);
}

/* Whether the run in the slot has to end with its parent. */
static bool
follows_parent(TupleTableSlot *run)
{
	return run_continues(run) && !pgqrs_is_null(run, Runs_on_parent_end) &&
		pgqrs_enum_value(ENUM_PARENT_END, pgqrs_get(run, Runs_on_parent_end)) ==
		PARENT_END_CANCEL;
}

/*
 * Adds the joined children with ids from "from", excluded, to "to"; to < 0: all
 * after.
 */
static void
add_joined(FamilyVisit *f, int64 parent, int64 from, int64 to,
		   PgqrsInt64List *children)
{
	PgqrsInt64List ids = {0};

	pgqrs_family_add_children(parent, from, f->spares_undo, &ids);
	for (int i = 0; i < ids.count; i++)
		if ((to < 0 || ids.values[i] <= to) &&
			pgqrs_row_fetch_id(f->rows.runs, ids.values[i], f->rows.run) &&
			run_continues(f->rows.run))
			pgqrs_int64_list_add(children, ids.values[i]);
}

/*
 * Adds the children of a run that have to end with it, with ids after *after,
 * within the limits of the call.  Sets *after to the last child read, or -1
 * after all of them.
 */
static void
add_children(FamilyVisit *f, int64 parent, int64 *after, PgqrsInt64List *children)
{
	PgqrsKey keys[] = {
		{1, BTEqualStrategyNumber, Int64GetDatum(parent)},
		{2, BTGreaterStrategyNumber, Int64GetDatum(*after)},
	};
	int64 from = *after;
	PgqrsScan scan;
	bool more = true;

	pgqrs_scan_begin(&scan, f->rows.runs, INDEX_RUNS_PARENT, lengthof(keys), keys);
	while (f->read_budget > 0 && children->count < f->cancel_budget &&
		   (more = pgqrs_scan_next(&scan, f->rows.run)))
	{
		f->read_budget--;
		*after = pgqrs_get_int64(f->rows.run, Runs_run_id);
		if (follows_parent(f->rows.run) &&
			!(f->spares_undo &&
			  pgqrs_family_is_of_undo(parent,
									  pgqrs_get(f->rows.run, Runs_parent_step_id))))
			pgqrs_int64_list_add(children, *after);
	}
	pgqrs_scan_end(&scan);
	if (!more)
		*after = -1;
	add_joined(f, parent, from, *after, children);
}

/*
 * CANCEL_REQUESTED if the child is to be cancelled although it may have several
 * parents.  The lock on its message orders two parents that end at the same
 * time, so that the second one sees the first.
 */
static CancelResult
check_other_parents(PgqrsRunRows *rows, int64 child)
{
	if (!pgqrs_family_is_shared(child))
		return CANCEL_REQUESTED;
	if (!pgqrs_row_fetch_id(rows->messages, child, rows->message))
		return CANCEL_NOTHING;
	if (pgqrs_row_lock(rows->messages, rows->message, LockTupleNoKeyExclusive,
					   LockWaitSkip) != ROW_LOCKED)
		return CANCEL_BUSY;
	if (!pgqrs_row_fetch_id(rows->runs, child, rows->run) ||
		pgqrs_family_is_needed(rows->runs, rows->run))
		return CANCEL_NOTHING;
	return CANCEL_REQUESTED;
}

static CancelResult
cancel_child(FamilyVisit *f, int64 child, int64 parent)
{
	CancelResult result;

	if (!pgqrs_quarantine_begin_row(QUARANTINE_MESSAGE, child))
	{
		f->quarantined = true;
		return CANCEL_BUSY;
	}
	result = check_other_parents(&f->rows, child);
	if (result == CANCEL_REQUESTED)
		result = try_cancel(&f->rows, child,
							psprintf("run " INT64_FORMAT ", its parent, %s", parent,
									 f->of_undo ? "was asked to stop" : "has ended"));
	if (result == CANCEL_BUSY)
		f->busy = true;
	return result;
}

/* Cancels children of one run; the children of those are next. */
static void
cancel_family(FamilyVisit *f, int64 parent)
{
	PgqrsInt64List children = {0};
	int64 after;
	int64 first_busy = 0;

	if (!lock_children_note(f, parent, &after))
		return;
	add_children(f, parent, &after, &children);
	for (int i = 0; i < children.count; i++)
	{
		int64 child = children.values[i];
		CancelResult result = cancel_child(f, child, parent);

		CHECK_FOR_INTERRUPTS();
		if (result == CANCEL_BUSY && (first_busy == 0 || child < first_busy))
			first_busy = child;
		if (result == CANCEL_ENDED || result == CANCEL_REQUESTED)
		{
			f->cancel_budget--;
			f->cancelled++;
			pgqrs_int64_list_add(&f->parents, child);
		}
	}
	write_children_note(f, first_busy != 0 ? first_busy - 1 : after);
}

/* Visits the families of the parents, of their children, and so on. */
static void
cancel_families(FamilyVisit *f)
{
	for (int i = 0;
		 i < f->parents.count && f->read_budget > 0 && f->cancel_budget > 0; i++)
		cancel_family(f, f->parents.values[i]);
}

void
pgqrs_cancel_children(int64 run_id)
{
	FamilyVisit f = {
		.read_budget = MAX_CHILDREN_READ,
		.cancel_budget = MAX_CHILDREN_CANCELLED,
	};

	open_family_tables(&f);
	pgqrs_int64_list_add(&f.parents, run_id);
	cancel_families(&f);
	close_family_tables(&f);
}

/* Up to max runs that have left children. */
static PgqrsInt64List
find_parents_with_children(FamilyVisit *f, int max)
{
	PgqrsInt64List parents = {0};
	PgqrsScan scan;

	pgqrs_scan_begin(&scan, f->archive, INDEX_ARCHIVE_WAITING, 0, NULL);
	while (parents.count < max && pgqrs_scan_next(&scan, f->archived))
		pgqrs_int64_list_add(&parents,
							 pgqrs_get_int64(f->archived, Archive_message_id));
	pgqrs_scan_end(&scan);
	pgqrs_scan_begin(&scan, f->rows.messages, INDEX_MESSAGES_CHILDREN, 0, NULL);
	while (parents.count < max && pgqrs_scan_next(&scan, f->undo))
		pgqrs_int64_list_add(&parents,
							 pgqrs_get_int64(f->undo, Messages_message_id));
	pgqrs_scan_end(&scan);
	return parents;
}

/* When the next batch is due; full: this batch reached its limits. */
static TimestampTz
next_visit_at(FamilyVisit *f, bool full)
{
	TimestampTz now = pgqrs_clock();

	if (find_parents_with_children(f, 1).count == 0)
		return DT_NOEND;
	/* row locks are short */
	if (f->busy)
		return now + BUSY_RETRY;
	/* rows in quarantine may have filled the batch, or be all that is left */
	if (f->quarantined)
		return now + (full ? BUSY_RETRY : PGQRS_QUARANTINE_PAUSE);
	/* more families, or those that were added during the batch */
	return full ? 0 : now + BUSY_RETRY;
}

int
pgqrs_cancel_remaining_children(int max_rows, TimestampTz *next)
{
	FamilyVisit f = {.read_budget = MAX_CHILDREN_READ, .cancel_budget = max_rows};
	bool full;

	open_family_tables(&f);
	f.parents = find_parents_with_children(&f, max_rows);
	full = f.parents.count == max_rows;
	cancel_families(&f);
	full |= f.read_budget <= 0 || f.cancel_budget <= 0;
	*next = next_visit_at(&f, full);
	close_family_tables(&f);
	return f.cancelled;
}
