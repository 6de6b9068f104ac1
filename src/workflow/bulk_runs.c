/*
 * bulk_runs.c
 *	  Replays and reruns of many runs of a workflow.
 *
 * Runs in any backend, in one transaction: either all runs of a call are started
 * again or none is.  A call first finds the ended runs that match, without locks,
 * in ascending order of their ids, then changes one after the other.  Each is
 * locked and looked at again, so that of two calls at once one skips it.
 *
 * Runs in ERROR and CANCELLED are found by an index of the archive, since they
 * are rare, others by the runs of the workflow.
 *
 * The lock on the table of messages comes before the lookup of the workflow, so
 * that its deletion without force waits for the call; see docs/design/lock-order.md.
 */
#include "workflow/bulk_runs.h"

#include "base/int64_list.h"
#include "base/json.h"
#include "miscadmin.h"
#include "store/scan.h"
#include "store/table.h"
#include "utils/memutils.h"
#include "workflow/dead_letter.h"
#include "workflow/rerun.h"
#include "workflow/run.h"
#include "workflow/workflow.h"

/* Runs that are changed with the same open tables. */
#define RUNS_PER_CHUNK 100

/*
 * Finding
 */

typedef struct EndedSearch
{
	const PgqrsRunsFilter *filter;
	PgqrsRunStatus status;
	int64 workflow_id;
	int max; /* ids to find */
	PgqrsTable *archive;
	TupleTableSlot *archived;
	PgqrsTable *runs;
	TupleTableSlot *run;
	MemoryContext scratch;
	PgqrsInt64List found;
} EndedSearch;

static bool
matches_search(EndedSearch *s)
{
	MemoryContext caller = MemoryContextSwitchTo(s->scratch);
	bool matches = pgqrs_run_status(s->run) == s->status &&
		pgqrs_is_null(s->run, Runs_deleted_at) &&
		(s->filter->error_type == NULL ||
		 pgqrs_json_is_error(pgqrs_get_or_null(s->run, Runs_error),
							 s->filter->error_type)) &&
		pgqrs_runs_filter_matches(s->filter, s->run);

	MemoryContextSwitchTo(caller);
	MemoryContextReset(s->scratch);
	return matches;
}

/* Adds up to max matching runs whose messages have the outcome. */
static void
search_archive(EndedSearch *s, PgqrsOutcome outcome)
{
	PgqrsKey keys[] = {
		{1, BTEqualStrategyNumber, Int64GetDatum(s->workflow_id)},
		{2, BTEqualStrategyNumber, pgqrs_enum_datum(ENUM_OUTCOME, outcome)},
		{3, BTGreaterStrategyNumber, Int64GetDatum(s->filter->after_run_id)},
	};
	int end = s->found.count + s->max;
	PgqrsScan scan;

	pgqrs_scan_begin(&scan, s->archive, INDEX_ARCHIVE_FAILED, lengthof(keys), keys);
	while (s->found.count < end && pgqrs_scan_next(&scan, s->archived))
	{
		int64 run_id = pgqrs_get_int64(s->archived, Archive_message_id);

		CHECK_FOR_INTERRUPTS();
		if (pgqrs_row_fetch_id(s->runs, run_id, s->run) && matches_search(s))
			pgqrs_int64_list_add(&s->found, run_id);
	}
	pgqrs_scan_end(&scan);
}

static void
search_runs(EndedSearch *s)
{
	PgqrsKey keys[] = {
		{1, BTEqualStrategyNumber, Int64GetDatum(s->workflow_id)},
		{2, BTGreaterStrategyNumber, Int64GetDatum(s->filter->after_run_id)},
	};
	PgqrsScan scan;

	pgqrs_scan_begin(&scan, s->runs, INDEX_RUNS_WORKFLOW, lengthof(keys), keys);
	while (s->found.count < s->max && pgqrs_scan_next(&scan, s->run))
	{
		CHECK_FOR_INTERRUPTS();
		if (matches_search(s))
			pgqrs_int64_list_add(&s->found, pgqrs_get_int64(s->run, Runs_run_id));
	}
	pgqrs_scan_end(&scan);
}

/* The matching runs in ascending order, one more than max_rows if there are more. */
static PgqrsInt64List
find_ended_runs(int64 workflow_id, const PgqrsRunsFilter *filter,
				PgqrsRunStatus status, int max_rows)
{
	EndedSearch s = {
		.filter = filter,
		.status = status,
		.workflow_id = workflow_id,
		.max = max_rows < PG_INT32_MAX / 4 ? max_rows + 1 : PG_INT32_MAX / 4,
		.archive = pgqrs_table_open(TABLE_ARCHIVE, false),
		.runs = pgqrs_table_open(TABLE_RUNS, false),
		.scratch = AllocSetContextCreate(CurrentMemoryContext, "pgqrs bulk search",
										 ALLOCSET_SMALL_SIZES),
	};

	s.archived = pgqrs_table_slot(s.archive);
	s.run = pgqrs_table_slot(s.runs);
	if (status == RUN_CANCELLED)
		search_archive(&s, OUTCOME_CANCELLED);
	else if (status == RUN_ERROR)
	{
		/* a dismissed dead letter leaves its run as it is */
		search_archive(&s, OUTCOME_DEAD);
		search_archive(&s, OUTCOME_DELETED);
	}
	else
		search_runs(&s);
	pgqrs_table_close(s.runs);
	pgqrs_table_close(s.archive);
	MemoryContextDelete(s.scratch);
	pgqrs_int64_sort(s.found.values, s.found.count);
	return s.found;
}

/*
 * Changing
 */

typedef struct BulkChange
{
	const char *workflow;
	PgqrsRerun rerun;
	PgqrsRunStatus status;
} BulkChange;

static int
replay_chunk(const BulkChange *change, const int64 *ids, int count)
{
	return pgqrs_dead_letter_replay_runs(ids, count);
}

static int
rerun_chunk(const BulkChange *change, const int64 *ids, int count)
{
	int started = 0;

	for (int i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (pgqrs_rerun_once(change->workflow, ids[i], change->status, &change->rerun))
			started++;
	}
	return started;
}

static PgqrsRunsChanged
change_runs(const BulkChange *change, PgqrsInt64List ids, int max_rows,
			int (*change_chunk)(const BulkChange *change, const int64 *ids, int count))
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "pgqrs bulk change",
												  ALLOCSET_DEFAULT_SIZES);
	int count = Min(ids.count, max_rows);
	PgqrsRunsChanged result = {0};

	for (int i = 0; i < count; i += RUNS_PER_CHUNK)
	{
		MemoryContext old = MemoryContextSwitchTo(context);

		result.changed += change_chunk(change, ids.values + i,
									   Min(RUNS_PER_CHUNK, count - i));
		MemoryContextSwitchTo(old);
		MemoryContextReset(context);
	}
	MemoryContextDelete(context);
	result.skipped = count - result.changed;
	if (ids.count > count && count > 0)
		result.last = ids.values[count - 1];
	return result;
}

PgqrsRunsChanged
pgqrs_bulk_replay(const char *name, const PgqrsRunsFilter *filter, int max_rows)
{
	BulkChange change = {.workflow = name, .status = RUN_ERROR};
	PgqrsTable *messages;
	PgqrsWorkflow workflow;
	PgqrsInt64List ids = {0};
	PgqrsRunsChanged result;

	pgqrs_require_writable();
	messages = pgqrs_table_open(TABLE_MESSAGES, true);
	pgqrs_workflow_require(name, PRIVILEGE_ADMIN, &workflow);
	if (filter->status < 0 || filter->status == RUN_ERROR)
		ids = find_ended_runs(workflow.workflow_id, filter, RUN_ERROR, max_rows);
	result = change_runs(&change, ids, max_rows, replay_chunk);
	pgqrs_table_close(messages);
	return result;
}

PgqrsRunsChanged
pgqrs_bulk_rerun(const char *name, const PgqrsRunsFilter *filter,
				 bool from_failed, int max_rows)
{
	BulkChange change = {
		.workflow = name,
		.rerun = {.input = PGQRS_NULL, .keep_finished = from_failed},
		.status = filter->status < 0 ? RUN_ERROR : filter->status,
	};
	PgqrsTable *messages;
	PgqrsWorkflow workflow;
	PgqrsInt64List ids = {0};
	PgqrsRunsChanged result;

	pgqrs_require_writable();
	messages = pgqrs_table_open(TABLE_MESSAGES, true);
	pgqrs_workflow_require(name, PRIVILEGE_TRIGGER, &workflow);
	if (pgqrs_run_is_terminal(change.status))
		ids = find_ended_runs(workflow.workflow_id, filter, change.status, max_rows);
	result = change_runs(&change, ids, max_rows, rerun_chunk);
	pgqrs_table_close(messages);
	return result;
}
