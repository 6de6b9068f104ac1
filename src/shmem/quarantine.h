/*
 * quarantine.h
 *	  Rows at which work fails that nobody asked for, so that it goes on with
 *	  the others.
 *
 * Whoever is to change rows on his own account says which one he comes to.  An
 * error is that row's then: it is logged, what was done with it undone, and the
 * row passed over for a while.
 */
#ifndef PGQRS_QUARANTINE_H
#define PGQRS_QUARANTINE_H

#include "postgres.h"

#include "base/shmem_module.h"

typedef enum PgqrsQuarantineKind
{
	QUARANTINE_MESSAGE, /* and its run */
	QUARANTINE_WORKER,
	QUARANTINE_SCHEDULE,
	QUARANTINE_QUEUE,
	QUARANTINE_PURGE /* a message that a purge cannot drop */
} PgqrsQuarantineKind;

/* For how long a row is passed over. */
#define PGQRS_QUARANTINE_PAUSE (60 * USECS_PER_SEC)

extern const PgqrsShmemModule pgqrs_quarantine_shmem;

/* No row is at hand. */
extern void pgqrs_quarantine_begin(void);

/* This one is, until the next; false: pass over it. */
extern bool pgqrs_quarantine_begin_row(PgqrsQuarantineKind kind, int64 id);

/*
 * The row was looked at and is not what it should be: it is passed over, and
 * that is told once.  problem: such as "it has no run".
 */
extern void pgqrs_quarantine_add(PgqrsQuarantineKind kind, int64 id,
								 const char *problem);

/* Whether a row is being passed over. */
extern bool pgqrs_quarantine_contains(PgqrsQuarantineKind kind, int64 id);

/*
 * Works in a subtransaction.  False, and what was done is undone: it failed at
 * the row at hand.  Any other error is raised again.
 */
extern bool pgqrs_quarantine_try(bool (*work)(void *arg), void *arg);

/*
 * An error was caught, and the (sub)transaction rolled back.  False: it is not
 * the row's, or there are too many such rows, and should be raised again.
 */
extern bool pgqrs_quarantine_caught(const ErrorData *error);

#endif /* PGQRS_QUARANTINE_H */
