/*
 * stats.c
 *	  What the views of statistics show.
 *
 * Each function answers with NULLs for a queue that the role cannot read.
 */
#include "api/args.h"

#include "base/clock.h"
#include "monitor/stats.h"
#include "queue/privileges.h"
#include "queue/queue.h"
#include "queue/worker_registry.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

#define MAX_COLUMNS 12

/* A row of the function's result, filled column by column. */
typedef struct StatsRow
{
	int count;
	Datum values[MAX_COLUMNS];
	bool nulls[MAX_COLUMNS];
} StatsRow;

static void
put(StatsRow *r, Datum value, bool known)
{
	Assert(r->count < MAX_COLUMNS);
	r->values[r->count] = value;
	r->nulls[r->count++] = !known;
}

static void
put_duration(StatsRow *r, int64 duration, bool known)
{
	put(r, IntervalPGetDatum(pgqrs_interval(duration)), known);
}

/* The queue of the first argument, if the role has any privilege on it. */
static bool
arg_queue(FunctionCallInfo fcinfo, PgqrsQueue *queue)
{
	int64 queue_id = pgqrs_arg_int64(fcinfo, 0, "queue_id");

	return pgqrs_queue_by_id(queue_id, queue) && pgqrs_grants_on(queue->name) != 0;
}

PG_FUNCTION_INFO_V1(sql_count_messages);
Datum
sql_count_messages(PG_FUNCTION_ARGS)
{
	PgqrsQueue queue;
	PgqrsQueueStats stats;
	StatsRow r = {0};

	if (!arg_queue(fcinfo, &queue))
		PG_RETURN_NULL();
	pgqrs_stats_queue(queue.queue_id, &stats);
	put(&r, Int64GetDatum(stats.ready), true);
	put(&r, Int64GetDatum(stats.delayed), true);
	put(&r, Int64GetDatum(stats.in_flight), true);
	put(&r, Int64GetDatum(stats.dead), true);
	put(&r, TimestampTzGetDatum(stats.oldest_ready),
		!TIMESTAMP_IS_NOEND(stats.oldest_ready));
	put(&r, Float8GetDatum(stats.out_per_minute), true);
	return pgqrs_result_row(fcinfo, r.values, r.nulls);
}

PG_FUNCTION_INFO_V1(sql_count_runs);
Datum
sql_count_runs(PG_FUNCTION_ARGS)
{
	PgqrsQueue queue;
	PgqrsWorkflowStats stats;
	StatsRow r = {0};

	if (!arg_queue(fcinfo, &queue) || !queue.is_workflow)
		PG_RETURN_NULL();
	pgqrs_stats_workflow(queue.queue_id, &stats);
	put(&r, Int64GetDatum(stats.queued), true);
	put(&r, Int64GetDatum(stats.running), true);
	put(&r, Int64GetDatum(stats.paused), true);
	put(&r, Int64GetDatum(stats.success), true);
	put(&r, Int64GetDatum(stats.error), true);
	put(&r, Int64GetDatum(stats.cancelled), true);
	put_duration(&r, stats.avg_duration, stats.has_durations);
	put_duration(&r, stats.p50_duration, stats.has_durations);
	put_duration(&r, stats.p95_duration, stats.has_durations);
	put(&r, Int64GetDatum(stats.retries), true);
	put(&r, TimestampTzGetDatum(stats.since), !TIMESTAMP_IS_NOEND(stats.since));
	put(&r, Int32GetDatum(pgqrs_worker_count_serving(queue.name, PG_INT32_MAX)),
		true);
	return pgqrs_result_row(fcinfo, r.values, r.nulls);
}

PG_FUNCTION_INFO_V1(sql_elapsed);
Datum
sql_elapsed(PG_FUNCTION_ARGS)
{
	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) ||
		TIMESTAMP_NOT_FINITE(PG_GETARG_TIMESTAMPTZ(0)) ||
		TIMESTAMP_NOT_FINITE(PG_GETARG_TIMESTAMPTZ(1)))
		PG_RETURN_NULL();
	PG_RETURN_DATUM(DirectFunctionCall2(timestamp_mi, PG_GETARG_DATUM(1),
										PG_GETARG_DATUM(0)));
}
