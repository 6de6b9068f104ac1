/*
 * counter_rows.h
 *	  Rows of pgqrs_counters: the counters of queues on disk.
 */
#ifndef PGQRS_COUNTER_ROWS_H
#define PGQRS_COUNTER_ROWS_H

#include "postgres.h"

#include "base/read_ahead.h"
#include "datatype/timestamp.h"
#include "shmem/counters.h"

extern void pgqrs_counter_rows_init(void);

/* The queues whose counters a statement has read; all zero: none. */
typedef struct PgqrsCountersAhead
{
	PgqrsReadAhead ahead;
	PgqrsCounts counts[READ_AHEAD_MAX];
} PgqrsCountersAhead;

/* The counters of a queue; NULL: nothing is counted without shared memory. */
extern const PgqrsCounts *pgqrs_counters_of(PgqrsCountersAhead *read,
											int64 queue_id);

/*
 * Stores the counters of up to max queues that have changed; returns when this is
 * due again: 0 at once, DT_NOEND after the next change.
 */
extern TimestampTz pgqrs_counters_flush(int max);

/* The transaction deletes the queue: the next flush removes its rows. */
extern void pgqrs_counters_drop(int64 queue_id);

#endif /* PGQRS_COUNTER_ROWS_H */
