/*
 * stats.h
 *	  Statistics: the messages of a queue, and the results of a workflow's
 *	  runs.
 */
#ifndef PGQRS_STATS_H
#define PGQRS_STATS_H

#include "postgres.h"

#include "base/read_ahead.h"
#include "datatype/timestamp.h"

/* Limits on the ended messages and runs that are read. */
#define STATS_MAX_DEAD	1000
#define STATS_MAX_ENDED 100

typedef struct PgqrsQueueStats
{
	int64 ready;
	int64 delayed;
	int64 in_flight;
	int64 dead;				  /* STATS_MAX_DEAD: that many or more */
	TimestampTz oldest_ready; /* DT_NOEND: none */
} PgqrsQueueStats;

/* The queues that a statement has read; all zero: none. */
typedef struct PgqrsQueueStatsAhead
{
	PgqrsReadAhead ahead;
	PgqrsQueueStats stats[READ_AHEAD_MAX];
} PgqrsQueueStatsAhead;

/*
 * The newest STATS_MAX_ENDED runs that ended, without those that are live
 * again.
 */
typedef struct PgqrsWorkflowStats
{
	int64 queued;
	int64 running;
	int64 paused;
	int64 success;
	int64 error;
	int64 cancelled;
	int64 retries;
	TimestampTz since;	/* when the oldest of them ended; DT_NOEND: none has */
	bool has_durations; /* some were claimed before they ended */
	int64 avg_duration;
	int64 p50_duration;
	int64 p95_duration;
} PgqrsWorkflowStats;

extern const PgqrsQueueStats *pgqrs_stats_queue(PgqrsQueueStatsAhead *read,
												int64 queue_id);
extern void pgqrs_stats_workflow(int64 workflow_id, PgqrsWorkflowStats *stats);

#endif /* PGQRS_STATS_H */
