/*
 * retention.h
 *	  Retention: removes rows that ended long enough ago, and rows of
 *	  deleted queues.
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
 * Removes due rows, up to the limits of a pass; gently: with rests.  Returns
 * when the next pass is due: 0 if the limit was reached.
 */
extern TimestampTz pgqrs_retention_pass(bool gently, PgqrsRetained *removed);

/*
 * Like pgqrs_retention_pass(), for deleted queues: ends live messages, removes
 * all rows, and finally the queues.  DT_NOEND: no deleted queue is left.
 */
extern TimestampTz pgqrs_retention_pass_of_deleted(bool gently,
												   PgqrsRetained *removed);

#endif /* PGQRS_RETENTION_H */
