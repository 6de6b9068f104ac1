/*
 * retention.h
 *	  Retention: removes rows that ended long enough ago, and those of deleted
 *	  queues.
 */
#ifndef PGQRS_RETENTION_H
#define PGQRS_RETENTION_H

#include "postgres.h"

#include "datatype/timestamp.h"

typedef struct PgqrsRetained
{
	int64 messages;	 /* removed; those of runs not counted */
	int64 runs;		 /* with their messages, steps, signals and events */
	int64 cancelled; /* live runs of deleted workflows */
	int64 firings;
} PgqrsRetained;

/*
 * Removes what is due, up to a limit, and with rests if gently; when there may
 * be more to remove: 0 if the limit was reached.
 */
extern TimestampTz pgqrs_retention_pass(bool gently, PgqrsRetained *removed);

/*
 * The same for deleted queues: ends what is live, removes all that has ended
 * and at last the queues.  DT_NOEND: there is none left.
 */
extern TimestampTz pgqrs_retention_of_deleted(bool gently, PgqrsRetained *removed);

#endif /* PGQRS_RETENTION_H */
