/*
 * quarantine.c
 *	  Rows at which work fails that nobody asked for, so that it goes on with
 *	  the others.
 *
 * Runs in the background workers, in pgqrs_maintain() and in claims, which end
 * what may not be delivered.  The rows are in shared memory, so that each is
 * logged once however often workers come and go; without it, in the backend's
 * own.  There are few places: where many rows fail it is not the rows' fault.
 *
 * All is guarded by one spinlock; count may be read without, as a hint.
 */
#include "shmem/quarantine.h"

#include "base/clock.h"
#include "base/errors.h"
#include "base/subxact.h"
#include "miscadmin.h"
#include "storage/spin.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#define MAX_FAULTY 64
#define SHARE	   16 /* of a database that comes late */

/* A row that did not fail again for so long is as good as any other. */
#define FORGET_AFTER (3 * PGQRS_QUARANTINE_PAUSE)

typedef struct FaultyRow
{
	Oid db;
	PgqrsQuarantineKind kind;
	int64 id;
	TimestampTz at; /* when it failed last */
} FaultyRow;

typedef struct FaultyRows
{
	slock_t mutex;
	int count; /* places that were ever used */
	FaultyRow rows[MAX_FAULTY];
} FaultyRows;

static FaultyRows of_backend;
static FaultyRows *shared = NULL;

/* What is at hand. */
static bool at_hand = false;
static PgqrsQuarantineKind kind_at_hand;
static int64 id_at_hand;

static void
init_rows(LWLockPadded *locks)
{
	SpinLockInit(&shared->mutex);
}

const PgqrsShmemModule pgqrs_quarantine_shmem = {
	.name = "pgqrs faulty rows",
	.size = sizeof(FaultyRows),
	.area = (void **) &shared,
	.init = init_rows,
};

static FaultyRows *
lock_rows(void)
{
	FaultyRows *rows = shared != NULL ? shared : &of_backend;

	if (rows == shared)
		SpinLockAcquire(&rows->mutex);
	return rows;
}

static void
unlock_rows(FaultyRows *rows)
{
	if (rows == shared)
		SpinLockRelease(&rows->mutex);
}

/* Whether a row failed within a time before now; a clock that was set back counts as no. */
static bool
failed_within(const FaultyRow *row, int64 time, TimestampTz now)
{
	return row->at <= now && row->at > now - time;
}

static FaultyRow *
find(FaultyRows *rows, PgqrsQuarantineKind kind, int64 id)
{
	for (int i = 0; i < rows->count; i++)
	{
		FaultyRow *row = &rows->rows[i];

		if (row->id == id && row->kind == kind && row->db == MyDatabaseId)
			return row;
	}
	return NULL;
}

/*
 * A place for another row, or NULL.  A database that has less than its share
 * gets the place of the row of the others that failed longest ago.
 */
static FaultyRow *
find_place(FaultyRows *rows, TimestampTz now)
{
	FaultyRow *oldest = NULL;
	int ours = 0;

	for (int i = 0; i < rows->count; i++)
	{
		FaultyRow *row = &rows->rows[i];

		if (!failed_within(row, FORGET_AFTER, now))
			return row;
		if (row->db == MyDatabaseId)
			ours++;
		else if (oldest == NULL || row->at < oldest->at)
			oldest = row;
	}
	if (rows->count < MAX_FAULTY)
		return &rows->rows[rows->count++];
	return ours < SHARE ? oldest : NULL;
}

void
pgqrs_quarantine_begin(void)
{
	at_hand = false;
}

static bool
is_passed_over(PgqrsQuarantineKind kind, int64 id)
{
	TimestampTz now = pgqrs_clock_peek();
	FaultyRows *rows = lock_rows();
	FaultyRow *row = find(rows, kind, id);
	bool passed_over = row != NULL &&
		failed_within(row, PGQRS_QUARANTINE_PAUSE, now);

	unlock_rows(rows);
	return passed_over;
}

bool
pgqrs_quarantine_begin_row(PgqrsQuarantineKind kind, int64 id)
{
	if (pgqrs_quarantine_contains(kind, id))
		return false;
	at_hand = true;
	kind_at_hand = kind;
	id_at_hand = id;
	return true;
}

/*
 * Another session interfered, the caller has no more time, the server has run
 * out of something, or a table is not as it was: no row is to blame.
 */
static bool
is_of_row(const ErrorData *error)
{
	int category = ERRCODE_TO_CATEGORY(error->sqlerrcode);

	return at_hand &&
		category != ERRCODE_TO_CATEGORY(ERRCODE_T_R_SERIALIZATION_FAILURE) &&
		category != ERRCODE_TO_CATEGORY(ERRCODE_INSUFFICIENT_RESOURCES) &&
		category != ERRCODE_TO_CATEGORY(ERRCODE_LOCK_NOT_AVAILABLE) &&
		category != ERRCODE_TO_CATEGORY(ERRCODE_OPERATOR_INTERVENTION);
}

static void
report(PgqrsQuarantineKind kind, int64 id, int sqlerrcode, const char *message)
{
	static const char *const nouns[] = {
		[QUARANTINE_MESSAGE] = "message or run", [QUARANTINE_WORKER] = "worker",
		[QUARANTINE_SCHEDULE] = "schedule",		 [QUARANTINE_QUEUE] = "queue",
		[QUARANTINE_PURGE] = "message or run",
	};

	ereport(WARNING,
			(errcode(sqlerrcode),
			 errmsg("%s " INT64_FORMAT " was passed over: %s", nouns[kind], id, message),
			 errdetail("All else goes on. This is tried again once in a minute, and not reported again."),
			 errhint(PGQRS_DAMAGED_HINT)));
}

/* Notes that a row failed; false: there is no place.  *known: it had before. */
static bool
note(PgqrsQuarantineKind kind, int64 id, bool *known)
{
	TimestampTz now = pgqrs_clock_peek();
	FaultyRows *rows = lock_rows();
	FaultyRow *row = find(rows, kind, id);

	*known = row != NULL && failed_within(row, FORGET_AFTER, now);
	if (row == NULL)
		row = find_place(rows, now);
	if (row != NULL)
		*row = (FaultyRow){MyDatabaseId, kind, id, now};
	unlock_rows(rows);
	return row != NULL;
}

void
pgqrs_quarantine_add(PgqrsQuarantineKind kind, int64 id, const char *problem)
{
	bool known;

	if (note(kind, id, &known) && !known)
		report(kind, id, ERRCODE_DATA_CORRUPTED, problem);
}

bool
pgqrs_quarantine_contains(PgqrsQuarantineKind kind, int64 id)
{
	FaultyRows *rows = shared != NULL ? shared : &of_backend;

	return rows->count > 0 && is_passed_over(kind, id);
}

bool
pgqrs_quarantine_caught(const ErrorData *error)
{
	bool known;

	if (!is_of_row(error))
		return false;
	at_hand = false;
	if (!note(kind_at_hand, id_at_hand, &known))
		return false;
	if (!known)
		report(kind_at_hand, id_at_hand, error->sqlerrcode, error->message);
	return true;
}

bool
pgqrs_quarantine_try(bool (*work)(void *arg), void *arg)
{
	ErrorData *error = pgqrs_subtransaction(work, arg);

	if (error != NULL && !pgqrs_quarantine_caught(error))
		ReThrowError(error);
	return error == NULL;
}
