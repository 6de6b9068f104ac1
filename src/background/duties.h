/*
 * duties.h
 *	  What has to happen though nobody calls for it.
 */
#ifndef PGQRS_DUTIES_H
#define PGQRS_DUTIES_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "shmem/database_registry.h"

/*
 * One bounded batch of a duty, which adds to done[] what it did.  Returns when
 * the duty is due again: 0 if at once, DT_NOEND if nothing is known to be.
 */
typedef TimestampTz (*PgqrsDutyFunction)(int64 *done);

/*
 * All duties, in the order of a pass.  They are independent of each other:
 * whatever the error, it ends the batch of the one that failed.
 */
typedef struct PgqrsDutyEntry
{
	PgqrsDutyId id;
	PgqrsDutyFunction duty;
	PgqrsDutyFunction gentle; /* for one that comes again soon and has other duties */
	const char *name;
	const char *activity; /* what a background worker says that it does */
} PgqrsDutyEntry;

extern const PgqrsDutyEntry pgqrs_duties[];
extern const int pgqrs_duty_count;

extern const PgqrsDutyEntry *pgqrs_duty_find(PgqrsDutyId id);

/* One batch of both duties that remove rows. */
extern TimestampTz pgqrs_duty_retention(int64 *done);

/* One batch, whatever single rows are in its way. */
extern TimestampTz pgqrs_duty_run_batch(PgqrsDutyFunction duty, int64 *done);

/*
 * One batch of each; calling again soon enough leaves nothing undone.  A duty
 * that fails is told as a WARNING.  Returns the errors by PgqrsDutyId, or NULL.
 */
extern ErrorData **pgqrs_duty_run_all(int64 *done);

/* What a count is called in the result of pgqrs_maintain(). */
extern const char *pgqrs_duty_done_label(PgqrsDone count);

#endif /* PGQRS_DUTIES_H */
