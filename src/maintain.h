/*
 * maintain.h
 *	  What has to happen though nobody calls for it.
 */
#ifndef PGQRS_MAINTAIN_H
#define PGQRS_MAINTAIN_H

#include "postgres.h"

#include "databases.h"
#include "datatype/timestamp.h"

/*
 * One bounded batch of a duty, which adds to done[] what it did.  Returns when
 * the duty is due again: 0 if at once, DT_NOEND if nothing is known to be.
 */
typedef TimestampTz (*PgqrsDuty)(int64 *done);

extern TimestampTz pgqrs_maintain_workers(int64 *done);
extern TimestampTz pgqrs_maintain_ends(int64 *done);
extern TimestampTz pgqrs_maintain_children(int64 *done);
extern TimestampTz pgqrs_maintain_parked(int64 *done);
extern TimestampTz pgqrs_maintain_grants(int64 *done);
extern TimestampTz pgqrs_maintain_schedules(int64 *done);
extern TimestampTz pgqrs_maintain_retention(int64 *done);
extern TimestampTz pgqrs_maintain_retention_gently(int64 *done);

/* What should find nothing: once in a while, where anything goes on at all. */
extern TimestampTz pgqrs_maintain_floors(int64 *done);
extern TimestampTz pgqrs_maintain_used_up(int64 *done);
extern TimestampTz pgqrs_maintain_ready(int64 *done);

/* One batch, whatever single rows are in its way. */
extern TimestampTz pgqrs_maintain_run(PgqrsDuty duty, int64 *done);

/* One batch of each, who calls again soon enough leaves nothing undone. */
extern void pgqrs_maintain_pass(int64 *done);

/* What a count is called in the result of pgqrs_maintain(). */
extern const char *pgqrs_maintain_label(PgqrsDone count);

#endif /* PGQRS_MAINTAIN_H */
