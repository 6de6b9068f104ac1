/*
 * stats.c
 *	  Statistics: the messages of a queue, and the results of a workflow's
 *	  runs.
 *
 * Runs in any backend, takes no row lock and changes no row.  Live messages are
 * counted, each once, by their index entries alone as far as possible.  Of
 * ended messages and runs only the newest are read, a fixed number at most, in
 * the order of an index: no statistic depends on the size of the history or on
 * the planner.
 *
 * A call reads all of its rows under one snapshot.  A statement that asks for one
 * queue after another gets queues with the next ids from the same call.
 */
#include "monitor/stats.h"

#include <math.h>

#include "base/clock.h"
#include "base/int64_list.h"
#include "miscadmin.h"
#include "store/scan.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "workflow/run.h"

/* A table read under the reader's snapshot, and a slot for its rows. */
typedef struct Source
{
	PgqrsTable *table;
	TupleTableSlot *slot;
} Source;

typedef struct Reader
{
	Snapshot snapshot;
	TimestampTz now;
	Source messages;
	Source archive;
	Source runs;
	Source steps;
	PgqrsScan by_id; /* one scan for all runs that are looked up */
} Reader;

static void
source_open(Source *source, PgqrsTableId id, Snapshot snapshot)
{
	source->table = pgqrs_table_open(id, false);
	source->table->snapshot = snapshot;
	source->slot = pgqrs_table_slot(source->table);
}

/* Scans the entries of a queue or run, whose id is the index's first column. */
static void
scan_begin(PgqrsScan *scan, Source *source, PgqrsIndexId index,
		   ScanDirection direction, int64 id)
{
	PgqrsKey key = {1, BTEqualStrategyNumber, Int64GetDatum(id)};

	pgqrs_scan_begin(scan, source->table, index, 1, &key);
	scan->direction = direction;
}

/* Opens the tables that statistics of a queue need. */
static void
reader_open(Reader *r)
{
	r->snapshot = RegisterSnapshot(GetLatestSnapshot());
	r->now = pgqrs_clock();
	source_open(&r->messages, TABLE_MESSAGES, r->snapshot);
	source_open(&r->archive, TABLE_ARCHIVE, r->snapshot);
}

static void
reader_open_runs(Reader *r)
{
	source_open(&r->runs, TABLE_RUNS, r->snapshot);
	source_open(&r->steps, TABLE_STEPS, r->snapshot);
	scan_begin(&r->by_id, &r->runs, INDEX_RUNS_PKEY, ForwardScanDirection, 0);
}

static void
reader_close_runs(Reader *r)
{
	pgqrs_scan_end(&r->by_id);
	pgqrs_table_close(r->steps.table);
	pgqrs_table_close(r->runs.table);
}

static void
reader_close(Reader *r)
{
	pgqrs_table_close(r->archive.table);
	pgqrs_table_close(r->messages.table);
	UnregisterSnapshot(r->snapshot);
}

/*
 * Scan of ended messages, the latest first.  Dead letters have an index of
 * their own.
 */

typedef struct EndedScan
{
	int count; /* number of scans; the second one reads dead letters */
	PgqrsScan scans[2];
	TupleTableSlot *slots[2];
	bool has[2];
	int current; /* the scan whose row was returned last; -1: none */
} EndedScan;

/* has_dead: false if the queue is known to have no dead letters. */
static void
ended_begin(EndedScan *ended, Reader *r, int64 queue_id, bool has_dead)
{
	static const PgqrsIndexId indexes[2] = {INDEX_ARCHIVE_ENDED, INDEX_ARCHIVE_DEAD};

	int count = has_dead ? 2 : 1;

	ended->count = count;
	ended->has[1] = false;
	for (int i = 0; i < count; i++)
	{
		scan_begin(&ended->scans[i], &r->archive, indexes[i],
				   BackwardScanDirection, queue_id);
		ended->slots[i] = pgqrs_table_slot(r->archive.table);
		ended->has[i] = pgqrs_scan_next(&ended->scans[i], ended->slots[i]);
	}
	ended->current = -1;
}

static TimestampTz
archived_at(TupleTableSlot *slot)
{
	return pgqrs_get_time(slot, Archive_archived_at);
}

/* The next ended message, or NULL. */
static TupleTableSlot *
ended_next(EndedScan *ended)
{
	int i = ended->current;

	if (i >= 0)
		ended->has[i] = pgqrs_scan_next(&ended->scans[i], ended->slots[i]);
	if (ended->has[0] && ended->has[1])
		i = archived_at(ended->slots[0]) < archived_at(ended->slots[1]);
	else if (ended->has[0] || ended->has[1])
		i = ended->has[1];
	else
		return NULL;
	ended->current = i;
	return ended->slots[i];
}

static void
ended_end(EndedScan *ended)
{
	while (ended->count > 0)
		pgqrs_scan_end(&ended->scans[--ended->count]);
}

/*
 * Queues
 */

/*
 * Index entries of other queues than the one asked for that are read with it.  At
 * most STATS_MAX_DEAD, so that no queue has more of them.
 */
#define MAX_AHEAD STATS_MAX_DEAD

/* Scans the entries of the queues that are read ahead, from a queue on. */
static void
scan_ahead(PgqrsScan *scan, Source *source, PgqrsIndexId index, int64 first,
		   const PgqrsReadAhead *ahead)
{
	PgqrsKey keys[] = {
		{1, BTGreaterEqualStrategyNumber, Int64GetDatum(first)},
		{1, BTLessEqualStrategyNumber, Int64GetDatum(pgqrs_read_ahead_last(ahead))},
	};

	pgqrs_scan_begin(scan, source->table, index, lengthof(keys), keys);
}

/*
 * The figures of the queue of an entry, or NULL: those of this queue and of later
 * ones are left to another call.
 */
static PgqrsQueueStats *
stats_of_entry(PgqrsScan *scan, PgqrsQueueStatsAhead *read, int *entries)
{
	int place = DatumGetInt64(pgqrs_scan_key(scan, 1)) - read->ahead.first;

	CHECK_FOR_INTERRUPTS();
	if (place == 0 || (*entries)++ < MAX_AHEAD)
		return &read->stats[place];
	read->ahead.count = place;
	return NULL;
}

static void
count_message(Reader *r, PgqrsScan *scan, PgqrsQueueStats *stats)
{
	TupleTableSlot *slot = r->messages.slot;
	TimestampTz visible_after = DatumGetTimestampTz(
		pgqrs_scan_key(scan, CLAIM_VISIBLE_AFTER));
	bool is_due = visible_after <= r->now;

	if (!(is_due ? pgqrs_scan_visible(scan, slot) : pgqrs_scan_fetch(scan, slot)))
		return;
	if (is_due)
	{
		stats->ready++;
		stats->oldest_ready = Min(stats->oldest_ready, visible_after);
	}
	else if (pgqrs_is_null(slot, Messages_lease))
		stats->delayed++;
	else
		stats->in_flight++;
}

static void
count_messages(Reader *r, PgqrsQueueStatsAhead *read)
{
	int entries = 0;
	PgqrsQueueStats *stats;
	PgqrsScan scan;

	scan_ahead(&scan, &r->messages, INDEX_MESSAGES_CLAIM, read->ahead.first,
			   &read->ahead);
	while (pgqrs_scan_next_key(&scan) &&
		   (stats = stats_of_entry(&scan, read, &entries)) != NULL)
		count_message(r, &scan, stats);
	pgqrs_scan_end(&scan);
}

static void
count_dead(Reader *r, int64 queue_id, PgqrsQueueStats *stats)
{
	PgqrsScan scan;

	scan_begin(&scan, &r->archive, INDEX_ARCHIVE_DEAD, BackwardScanDirection,
			   queue_id);
	while (stats->dead < STATS_MAX_DEAD && pgqrs_scan_next_key(&scan))
		if (pgqrs_scan_visible(&scan, r->archive.slot))
			stats->dead++;
	pgqrs_scan_end(&scan);
}

static void
count_dead_ahead(Reader *r, PgqrsQueueStatsAhead *read)
{
	int entries = 0;
	PgqrsQueueStats *stats;
	PgqrsScan scan;

	scan_ahead(&scan, &r->archive, INDEX_ARCHIVE_DEAD, read->ahead.first + 1,
			   &read->ahead);
	while (pgqrs_scan_next_key(&scan) &&
		   (stats = stats_of_entry(&scan, read, &entries)) != NULL)
		if (pgqrs_scan_visible(&scan, r->archive.slot))
			stats->dead++;
	pgqrs_scan_end(&scan);
}

const PgqrsQueueStats *
pgqrs_stats_queue(PgqrsQueueStatsAhead *read, int64 queue_id)
{
	int place = pgqrs_read_ahead_find(&read->ahead, queue_id);
	Reader r;

	if (place >= 0)
		return &read->stats[place];
	memset(read->stats, 0, sizeof(read->stats));
	for (int i = 0; i < read->ahead.count; i++)
		read->stats[i].oldest_ready = DT_NOEND;
	reader_open(&r);
	count_messages(&r, read);
	count_dead(&r, queue_id, &read->stats[0]);
	if (read->ahead.count > 1)
		count_dead_ahead(&r, read);
	reader_close(&r);
	return &read->stats[0];
}

/*
 * Workflows
 */

static bool
fetch_run(Reader *r, int64 run_id)
{
	pgqrs_scan_restart(&r->by_id, 0, Int64GetDatum(run_id));
	return pgqrs_scan_next(&r->by_id, r->runs.slot);
}

/* The status of the run of the message in the slot. */
static PgqrsRunStatus
live_status(Reader *r)
{
	TupleTableSlot *message = r->messages.slot;
	PgqrsRunStatus status;

	if (pgqrs_run_status_of_message(message, &status))
		return status;
	return fetch_run(r, pgqrs_get_int64(message, Messages_message_id)) ?
		pgqrs_run_status(r->runs.slot) :
		RUN_RUNNING;
}

static void
count_live(Reader *r, int64 workflow_id, PgqrsWorkflowStats *stats)
{
	PgqrsScan scan;

	scan_begin(&scan, &r->messages, INDEX_MESSAGES_CLAIM, ForwardScanDirection,
			   workflow_id);
	while (pgqrs_scan_next(&scan, r->messages.slot))
	{
		PgqrsRunStatus status = live_status(r);

		if (status == RUN_QUEUED)
			stats->queued++;
		else if (status == RUN_PAUSED)
			stats->paused++;
		else
			stats->running++;
	}
	pgqrs_scan_end(&scan);
}

/* The number of failures of a run's steps. */
static int64
count_step_failures(Reader *r, int64 run_id)
{
	int64 failures = 0;
	PgqrsScan scan;

	scan_begin(&scan, &r->steps, INDEX_STEPS_PKEY, ForwardScanDirection, run_id);
	while (pgqrs_scan_next(&scan, r->steps.slot))
		failures += DatumGetInt32(pgqrs_get(r->steps.slot, Steps_failures));
	pgqrs_scan_end(&scan);
	return failures;
}

/* The number of failures after which the run in the slot continued. */
static int64
count_retries(Reader *r, int64 run_id, PgqrsRunStatus status)
{
	int64 failures;

	/* each retry takes another claim */
	if (DatumGetInt32(pgqrs_get(r->runs.slot, Runs_attempt)) < 2)
		return 0;
	failures = DatumGetInt32(pgqrs_get(r->runs.slot, Runs_failures)) +
		count_step_failures(r, run_id);
	if (status == RUN_ERROR)
		failures--;
	return Max(failures, 0);
}

/*
 * Adds the run in the slot; returns its duration, or -1 if it was never
 * claimed.
 */
static int64
add_ended(Reader *r, int64 run_id, PgqrsWorkflowStats *stats)
{
	PgqrsRunStatus status = pgqrs_run_status(r->runs.slot);

	if (status == RUN_SUCCESS)
		stats->success++;
	else if (status == RUN_ERROR)
		stats->error++;
	else
		stats->cancelled++;
	stats->retries += count_retries(r, run_id, status);
	if (pgqrs_is_null(r->runs.slot, Runs_started_at))
		return -1;
	return Max(pgqrs_get_time(r->runs.slot, Runs_completed_at) -
				   pgqrs_get_time(r->runs.slot, Runs_started_at),
			   0);
}

/* Like percentile_cont(): interpolates between two values. */
static int64
duration_percentile(const int64 *sorted, int count, double fraction)
{
	double place = fraction * (count - 1);
	int below = (int) place;
	int above = Min(below + 1, count - 1);

	return sorted[below] +
		(int64) rint((place - below) * (sorted[above] - sorted[below]));
}

static void
summarize_durations(int64 *durations, int count, PgqrsWorkflowStats *stats)
{
	int64 sum = 0;

	stats->has_durations = count > 0;
	if (count == 0)
		return;
	pgqrs_int64_sort(durations, count);
	for (int i = 0; i < count; i++)
		sum += durations[i];
	stats->avg_duration = sum / count;
	stats->p50_duration = duration_percentile(durations, count, 0.5);
	stats->p95_duration = duration_percentile(durations, count, 0.95);
}

static void
look_at_ended(Reader *r, int64 workflow_id, PgqrsWorkflowStats *stats)
{
	int64 durations[STATS_MAX_ENDED];
	int claimed = 0;
	int count = 0;
	TupleTableSlot *slot;
	EndedScan ended;

	ended_begin(&ended, r, workflow_id, true);
	while (count < STATS_MAX_ENDED && (slot = ended_next(&ended)) != NULL)
	{
		int64 id = pgqrs_get_int64(slot, Archive_message_id);
		int64 duration;

		if (!fetch_run(r, id))
			continue;
		count++;
		stats->since = archived_at(slot);
		duration = add_ended(r, id, stats);
		if (duration >= 0)
			durations[claimed++] = duration;
	}
	ended_end(&ended);
	summarize_durations(durations, claimed, stats);
}

void
pgqrs_stats_workflow(int64 workflow_id, PgqrsWorkflowStats *stats)
{
	Reader r;

	memset(stats, 0, sizeof(PgqrsWorkflowStats));
	stats->since = DT_NOEND;
	reader_open(&r);
	reader_open_runs(&r);
	count_live(&r, workflow_id, stats);
	look_at_ended(&r, workflow_id, stats);
	reader_close_runs(&r);
	reader_close(&r);
}
