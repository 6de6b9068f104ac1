/*
 * duties.h
 *	  Background duties: expiry, deadlines, schedules, retention.
 */
#ifndef PGQRS_DUTIES_H
#define PGQRS_DUTIES_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "shmem/database_registry.h"

/*
 * One bounded batch of a duty, which adds its counts to done[].  Returns when the
 * duty is due again: 0 at once, DT_NOEND if no instant is known.
 */
typedef TimestampTz (*PgqrsDutyFunction)(int64 *done);

/*
 * All duties, in the order of pgqrs_maintain().  They are independent of each
 * other: an error ends only the batch of the duty that raised it.
 */
typedef struct PgqrsDutyEntry
{
	PgqrsDutyId id;
	PgqrsDutyFunction duty;
	PgqrsDutyFunction worker_duty; /* variant of the background worker, or NULL */
	const char *name;
	const char *activity; /* "query" of the background worker in pg_stat_activity */
} PgqrsDutyEntry;

extern const PgqrsDutyEntry pgqrs_duties[];
extern const int pgqrs_duty_count;

extern const PgqrsDutyEntry *pgqrs_duty_find(PgqrsDutyId id);

/* Runs one batch of each of the two duties that remove rows. */
extern TimestampTz pgqrs_duty_retention(int64 *done);

/* Runs one batch; rows that raise an error are put into quarantine. */
extern TimestampTz pgqrs_duty_run_batch(PgqrsDutyFunction duty, int64 *done);

/*
 * Runs one batch of each duty.  An error of a duty becomes a WARNING.  Returns the
 * errors by PgqrsDutyId, or NULL if there are none.
 */
extern ErrorData **pgqrs_duty_run_all(int64 *done);

/* The key of a count in the result of pgqrs_maintain(). */
extern const char *pgqrs_duty_done_label(PgqrsDone count);

#endif /* PGQRS_DUTIES_H */
