/*
 * retention.h
 *	  What has ended long enough ago goes.
 */
#ifndef PGQRS_RETENTION_H
#define PGQRS_RETENTION_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "queue/queue.h"

typedef struct PgqrsRetained
{
	int64 messages; /* removed; those of runs not counted */
	int64 runs;		/* with their messages, steps, signals and events */
	int64 firings;
} PgqrsRetained;

/*
 * Removes what is due, up to a limit, and with rests if gently; when there may
 * be more to remove: 0 if the limit was reached.
 */
extern TimestampTz pgqrs_retention_pass(bool gently, PgqrsRetained *removed);

/*
 * The same of all that a deleted queue has left, whenever it ended.  DT_NOEND:
 * no history is left; children that are still to be cancelled keep their runs.
 */
extern TimestampTz pgqrs_retention_empty(const PgqrsQueue *queue, bool gently,
										 PgqrsRetained *removed);

#endif /* PGQRS_RETENTION_H */
