/*
 * quarantine.h
 *	  Quarantine: rows on which background work raised an error.
 *
 * Each is skipped for a minute, so that one bad row cannot block the rest.
 * Work that changes rows unasked announces each row before it begins with it.
 * An error raised in between is attributed to that row: the error is logged, the
 * work on the row is rolled back, and the row is quarantined.
 */
#ifndef PGQRS_QUARANTINE_H
#define PGQRS_QUARANTINE_H

#include "postgres.h"

#include "base/shmem_module.h"

typedef enum PgqrsQuarantineKind
{
	QUARANTINE_MESSAGE, /* a message and its run */
	QUARANTINE_WORKER,
	QUARANTINE_SCHEDULE,
	QUARANTINE_QUEUE,
	QUARANTINE_PURGE /* a message that a purge cannot delete */
} PgqrsQuarantineKind;

/* How long a row is skipped, in microseconds. */
#define PGQRS_QUARANTINE_PAUSE (60 * USECS_PER_SEC)

extern const PgqrsShmemModule pgqrs_quarantine_shmem;

/* Ends the work on a row. */
extern void pgqrs_quarantine_begin(void);

/* Begins the work on a row, until the next call; false: skip the row. */
extern bool pgqrs_quarantine_begin_row(PgqrsQuarantineKind kind, int64 id);

/*
 * Quarantines a row that is damaged, and reports it once. problem: such as "it
 * has no run".
 */
extern void pgqrs_quarantine_add(PgqrsQuarantineKind kind, int64 id,
								 const char *problem);

/* Whether the row is quarantined. */
extern bool pgqrs_quarantine_contains(PgqrsQuarantineKind kind, int64 id);

/*
 * Runs work in a subtransaction.  False: the current row raised an error, and
 * the work is rolled back.  Other errors are raised again.
 */
extern bool pgqrs_quarantine_try(bool (*work)(void *arg), void *arg);

/*
 * Called after an error was caught and its (sub)transaction rolled back.
 * False: the error is not the row's, or too many rows are quarantined; the
 * caller raises it again.
 */
extern bool pgqrs_quarantine_caught(const ErrorData *error);

#endif /* PGQRS_QUARANTINE_H */
