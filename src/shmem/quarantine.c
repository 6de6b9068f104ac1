/*
 * quarantine.c
 *	  Quarantine: rows on which background work raised an error.
 *
 * Runs in background workers, in pgqrs_maintain() and in claims, which end
 * messages that may not be delivered.  The rows are kept in shared memory, so
 * that each is logged once however often background workers restart; without
 * preloading, in the backend's memory.  There are few entries: if many rows
 * fail, the cause is not the rows.
 *
 * One spinlock guards all; count may be read without it, as a hint.
 */
#include "shmem/quarantine.h"

#include "base/clock.h"
#include "base/errors.h"
#include "base/subxact.h"
#include "miscadmin.h"
#include "storage/spin.h"
#include "utils/memutils.h"

#define MAX_ROWS	   64
#define DATABASE_SHARE 16 /* guaranteed to each database */

/* A row that did not fail again within this time is forgotten. */
#define FORGET_AFTER (3 * PGQRS_QUARANTINE_PAUSE)

typedef struct QuarantinedRow
{
	Oid db;
	PgqrsQuarantineKind kind;
	int64 id;
	TimestampTz at; /* last error */
} QuarantinedRow;

typedef struct Quarantine
{
	slock_t mutex;
	int count; /* entries ever used */
	QuarantinedRow rows[MAX_ROWS];
} Quarantine;

static Quarantine backend_quarantine;
static Quarantine *shared = NULL;

/* The current row. */
static bool has_current_row = false;
static PgqrsQuarantineKind current_kind;
static int64 current_id;

static void
init_rows(LWLockPadded *locks)
{
	SpinLockInit(&shared->mutex);
}

const PgqrsShmemModule pgqrs_quarantine_shmem = {
	.name = "pgqrs quarantine",
	.size = sizeof(Quarantine),
	.area = (void **) &shared,
	.init = init_rows,
};

static Quarantine *
lock_quarantine(void)
{
	Quarantine *rows = shared != NULL ? shared : &backend_quarantine;

	if (rows == shared)
		SpinLockAcquire(&rows->mutex);
	return rows;
}

static void
unlock_quarantine(Quarantine *rows)
{
	if (rows == shared)
		SpinLockRelease(&rows->mutex);
}

/*
 * Whether a row failed within a time before now; false if the clock was set
 * back since.
 */
static bool
failed_within(const QuarantinedRow *row, int64 time, TimestampTz now)
{
	return row->at <= now && row->at > now - time;
}

static QuarantinedRow *
find_quarantined(Quarantine *rows, PgqrsQuarantineKind kind, int64 id)
{
	for (int i = 0; i < rows->count; i++)
	{
		QuarantinedRow *row = &rows->rows[i];

		if (row->id == id && row->kind == kind && row->db == MyDatabaseId)
			return row;
	}
	return NULL;
}

/*
 * An entry for another row, or NULL.  A database with less than its share takes
 * the entry of another database's row that failed longest ago.
 */
static QuarantinedRow *
find_entry(Quarantine *rows, TimestampTz now)
{
	QuarantinedRow *oldest = NULL;
	int ours = 0;

	for (int i = 0; i < rows->count; i++)
	{
		QuarantinedRow *row = &rows->rows[i];

		if (!failed_within(row, FORGET_AFTER, now))
			return row;
		if (row->db == MyDatabaseId)
			ours++;
		else if (oldest == NULL || row->at < oldest->at)
			oldest = row;
	}
	if (rows->count < MAX_ROWS)
		return &rows->rows[rows->count++];
	return ours < DATABASE_SHARE ? oldest : NULL;
}

void
pgqrs_quarantine_begin(void)
{
	has_current_row = false;
}

static bool
is_quarantined(PgqrsQuarantineKind kind, int64 id)
{
	TimestampTz now = pgqrs_clock_peek();
	Quarantine *rows = lock_quarantine();
	QuarantinedRow *row = find_quarantined(rows, kind, id);
	bool quarantined = row != NULL &&
		failed_within(row, PGQRS_QUARANTINE_PAUSE, now);

	unlock_quarantine(rows);
	return quarantined;
}

bool
pgqrs_quarantine_begin_row(PgqrsQuarantineKind kind, int64 id)
{
	if (pgqrs_quarantine_contains(kind, id))
		return false;
	has_current_row = true;
	current_kind = kind;
	current_id = id;
	return true;
}

/*
 * False for conflicts with other sessions, timeouts, exhausted resources and
 * changed tables: those errors are not the row's.
 */
static bool
is_error_of_row(const ErrorData *error)
{
	int category = ERRCODE_TO_CATEGORY(error->sqlerrcode);

	return has_current_row &&
		category != ERRCODE_TO_CATEGORY(ERRCODE_T_R_SERIALIZATION_FAILURE) &&
		category != ERRCODE_TO_CATEGORY(ERRCODE_INSUFFICIENT_RESOURCES) &&
		category != ERRCODE_TO_CATEGORY(ERRCODE_LOCK_NOT_AVAILABLE) &&
		category != ERRCODE_TO_CATEGORY(ERRCODE_OPERATOR_INTERVENTION);
}

static void
report_row(PgqrsQuarantineKind kind, int64 id, int sqlerrcode, const char *message)
{
	static const char *const nouns[] = {
		[QUARANTINE_MESSAGE] = "message or run", [QUARANTINE_WORKER] = "worker",
		[QUARANTINE_SCHEDULE] = "schedule",		 [QUARANTINE_QUEUE] = "queue",
		[QUARANTINE_PURGE] = "message or run",
	};

	ereport(WARNING,
			(errcode(sqlerrcode),
			 errmsg("%s " INT64_FORMAT " was skipped: %s", nouns[kind], id, message),
			 errdetail("All other work continues. The row is retried once a minute, and not reported again."),
			 errhint(PGQRS_DAMAGED_HINT)));
}

/*
 * Records that a row failed; false: no entry is free.  *known: the row had
 * failed before.
 */
static bool
record_failure(PgqrsQuarantineKind kind, int64 id, bool *known)
{
	TimestampTz now = pgqrs_clock_peek();
	Quarantine *rows = lock_quarantine();
	QuarantinedRow *row = find_quarantined(rows, kind, id);

	*known = row != NULL && failed_within(row, FORGET_AFTER, now);
	if (row == NULL)
		row = find_entry(rows, now);
	if (row != NULL)
		*row = (QuarantinedRow){MyDatabaseId, kind, id, now};
	unlock_quarantine(rows);
	return row != NULL;
}

void
pgqrs_quarantine_add(PgqrsQuarantineKind kind, int64 id, const char *problem)
{
	bool known;

	if (record_failure(kind, id, &known) && !known)
		report_row(kind, id, ERRCODE_DATA_CORRUPTED, problem);
}

bool
pgqrs_quarantine_contains(PgqrsQuarantineKind kind, int64 id)
{
	Quarantine *rows = shared != NULL ? shared : &backend_quarantine;

	return rows->count > 0 && is_quarantined(kind, id);
}

bool
pgqrs_quarantine_caught(const ErrorData *error)
{
	bool known;

	if (!is_error_of_row(error))
		return false;
	has_current_row = false;
	if (!record_failure(current_kind, current_id, &known))
		return false;
	if (!known)
		report_row(current_kind, current_id, error->sqlerrcode, error->message);
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
