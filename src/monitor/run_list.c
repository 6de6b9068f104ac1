/*
 * run_list.c
 *	  Run lists: runs, steps and waiting messages, for roles with a privilege
 *	  on them.
 *
 * Runs in any backend, takes no row lock and changes no row.  A call reads all
 * of its rows under one snapshot, taken when it begins, so that a run matches
 * its message whatever other transactions change meanwhile.
 *
 * A role sees the rows of queues that it may read.  For rows of queues on which
 * it has no privilege it gets the same answer as for rows that do not exist.
 */
#include "monitor/run_list.h"

#include "access/htup_details.h"
#include "base/errors.h"
#include "base/int64_list.h"
#include "base/json.h"
#include "base/name.h"
#include "miscadmin.h"
#include "queue/privileges.h"
#include "queue/queue.h"
#include "store/scan.h"
#include "store/tid_set.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "workflow/run.h"
#include "workflow/run_trigger.h"
#include "workflow/step_list.h"
#include "workflow/workflow.h"

/* The stored column of each result column; 0: computed. */
static const AttrNumber run_columns[Run_natts] = PGQRS_RUN_STORED;
static const AttrNumber result_columns[Result_natts] = PGQRS_RESULT_STORED;
static const AttrNumber step_columns[ListSteps_natts] = PGQRS_LIST_STEPS_STORED;
static const AttrNumber peek_columns[Peek_natts] = PGQRS_PEEK_STORED;

/* The tables that make up runs, read under one snapshot. */
typedef struct Reader
{
	Snapshot snapshot;
	PgqrsTable *runs;
	PgqrsTable *messages;
	PgqrsTable *archive;
	PgqrsTable *workers;
	TupleTableSlot *run;
	TupleTableSlot *message;
	TupleTableSlot *ended;
	TupleTableSlot *worker;
} Reader;

static void
reader_open(Reader *r)
{
	r->runs = pgqrs_table_open(TABLE_RUNS, false);
	r->messages = pgqrs_table_open(TABLE_MESSAGES, false);
	r->archive = pgqrs_table_open(TABLE_ARCHIVE, false);
	r->workers = pgqrs_table_open(TABLE_WORKERS, false);
	r->run = pgqrs_table_slot(r->runs);
	r->message = pgqrs_table_slot(r->messages);
	r->ended = pgqrs_table_slot(r->archive);
	r->worker = pgqrs_table_slot(r->workers);
	r->snapshot = RegisterSnapshot(GetLatestSnapshot());
	r->runs->snapshot = r->snapshot;
	r->messages->snapshot = r->snapshot;
	r->archive->snapshot = r->snapshot;
	r->workers->snapshot = r->snapshot;
}

static void
reader_close(Reader *r)
{
	pgqrs_table_close(r->workers);
	pgqrs_table_close(r->archive);
	pgqrs_table_close(r->messages);
	pgqrs_table_close(r->runs);
	UnregisterSnapshot(r->snapshot);
}

static void
copy_columns(TupleTableSlot *slot, const AttrNumber *columns, int count,
			 Datum *values, bool *nulls)
{
	for (int i = 0; i < count; i++)
	{
		nulls[i] = true;
		if (columns[i] != 0)
			values[i] = slot_getattr(slot, columns[i], &nulls[i]);
	}
}

static void
set_value(Datum *values, bool *nulls, int column, Datum value)
{
	values[column] = value;
	nulls[column] = false;
}

/* The label of a stored enum value, also of an unknown one. */
static Datum
label_of(TupleTableSlot *slot, AttrNumber column)
{
	char *label = DatumGetCString(
		DirectFunctionCall1(enum_out, pgqrs_get(slot, column)));

	return CStringGetTextDatum(label);
}

/*
 * Fetches a run and its workflow's queue; PQ003 if the run does not exist for
 * the current role.
 */
static void
require_readable_run(PgqrsTable *runs, int64 run_id, TupleTableSlot *slot,
					 PgqrsQueue *queue)
{
	if (!pgqrs_row_fetch_id(runs, run_id, slot) ||
		!pgqrs_queue_admits(pgqrs_get_int64(slot, Runs_workflow_id),
							PRIVILEGE_READ, queue))
		pgqrs_error_run_not_found(run_id);
}

/* Forms a row of type pgqrs_run from the run in the reader's slot. */
static HeapTuple
form_run(Reader *r, const char *workflow, TupleDesc desc)
{
	Datum values[Run_natts];
	bool nulls[Run_natts];
	int64 run_id = pgqrs_get_int64(r->run, Runs_run_id);
	int status = pgqrs_enum_find(ENUM_RUN_STATUS, pgqrs_get(r->run, Runs_status));

	copy_columns(r->run, run_columns, Run_natts, values, nulls);
	set_value(values, nulls, Run_workflow, CStringGetTextDatum(workflow));
	set_value(values, nulls, Run_status, label_of(r->run, Runs_status));
	set_value(values, nulls, Run_priority,
			  Int32GetDatum(DatumGetInt16(pgqrs_get(r->run, Runs_priority))));
	if (status >= 0 && pgqrs_run_is_terminal(status))
	{
		if (pgqrs_row_fetch_id(r->archive, run_id, r->ended))
			set_value(values, nulls, Run_crashes,
					  pgqrs_get(r->ended, Archive_failures));
	}
	else if (pgqrs_row_fetch_id(r->messages, run_id, r->message))
	{
		set_value(values, nulls, Run_visible_after,
				  pgqrs_get(r->message, Messages_visible_after));
		set_value(values, nulls, Run_crashes,
				  pgqrs_get(r->message, Messages_failures));
	}
	if (!pgqrs_is_null(r->run, Runs_worker_id) &&
		pgqrs_row_fetch_id(r->workers, pgqrs_get_int64(r->run, Runs_worker_id),
						   r->worker))
		set_value(values, nulls, Run_worker, pgqrs_get(r->worker, Workers_name));
	return heap_form_tuple(desc, values, nulls);
}

/* Reads the crashes of a run from its message or its archived message. */
static bool
read_crashes(PgqrsTableId id, AttrNumber queue_id, AttrNumber column,
			 int64 run_id, int *crashes)
{
	PgqrsTable *table = pgqrs_table_open(id, false);
	TupleTableSlot *slot = pgqrs_table_slot(table);
	PgqrsQueue queue;
	bool found;

	table->snapshot = GetActiveSnapshot();
	found = pgqrs_row_fetch_id(table, run_id, slot) &&
		pgqrs_queue_allows(pgqrs_get_int64(slot, queue_id), PRIVILEGE_READ, &queue);
	if (found)
		*crashes = DatumGetInt32(pgqrs_get(slot, column));
	pgqrs_table_close(table);
	return found;
}

bool
pgqrs_read_crashes(int64 run_id, int *crashes)
{
	return read_crashes(TABLE_MESSAGES, Messages_queue_id, Messages_failures,
						run_id, crashes) ||
		read_crashes(TABLE_ARCHIVE, Archive_queue_id, Archive_failures, run_id,
					 crashes);
}

HeapTuple
pgqrs_read_run(int64 run_id, TupleDesc desc)
{
	Reader r;
	PgqrsQueue queue;
	HeapTuple row;

	reader_open(&r);
	require_readable_run(r.runs, run_id, r.run, &queue);
	row = form_run(&r, queue.name, desc);
	reader_close(&r);
	return row;
}

HeapTuple
pgqrs_read_result(int64 run_id, TupleDesc desc)
{
	PgqrsTable *runs = pgqrs_table_open(TABLE_RUNS, false);
	TupleTableSlot *run = pgqrs_table_slot(runs);
	PgqrsQueue queue;
	Datum values[Result_natts];
	bool nulls[Result_natts];
	HeapTuple row;

	require_readable_run(runs, run_id, run, &queue);
	copy_columns(run, result_columns, Result_natts, values, nulls);
	set_value(values, nulls, Result_status,
			  CStringGetTextDatum(
				  pgqrs_enum_label(ENUM_RUN_STATUS, pgqrs_run_status(run))));
	row = heap_form_tuple(desc, values, nulls);
	pgqrs_table_close(runs);
	return row;
}

int
pgqrs_read_first_ended(const int64 *run_ids, int count)
{
	PgqrsTable *runs = pgqrs_table_open(TABLE_RUNS, false);
	TupleTableSlot *run = pgqrs_table_slot(runs);
	TimestampTz first_at = DT_NOEND;
	int first = -1;
	PgqrsQueue queue;

	runs->snapshot = RegisterSnapshot(GetLatestSnapshot());
	for (int i = 0; i < count; i++)
	{
		TimestampTz at;

		CHECK_FOR_INTERRUPTS();
		require_readable_run(runs, run_ids[i], run, &queue);
		if (!pgqrs_run_is_terminal(pgqrs_run_status(run)))
			continue;
		at = pgqrs_get_time(run, Runs_completed_at);
		if (first < 0 || at < first_at)
		{
			first = i;
			first_at = at;
		}
	}
	UnregisterSnapshot(runs->snapshot);
	pgqrs_table_close(runs);
	return first;
}

int64
pgqrs_read_find_run(const char *name, const char *key)
{
	Reader r;
	PgqrsQueue queue;
	PgqrsWorkflow workflow;
	int64 run_id = 0;

	if (!pgqrs_queue_by_name(name, &queue) ||
		!pgqrs_queue_admits(queue.queue_id, PRIVILEGE_READ, &queue) ||
		!pgqrs_workflow_by_id(queue.queue_id, &workflow))
		pgqrs_error_workflow_not_found(name);

	reader_open(&r);
	pgqrs_run_by_key(r.messages, r.message, r.runs, r.run, queue.queue_id, key,
					 &run_id);
	reader_close(&r);
	return run_id;
}

/*
 * Lists
 */

/*
 * Mismatching runs read before a scan for a rare status or rare tags gives up.
 */
#define MAX_MISSES 1000

/* The tag index is used for up to so many expected runs; each takes 0.1 us. */
#define MAX_EXPECTED 100000

/* Up to so many runs with matching index entries are fetched, in 2 us each. */
#define MAX_TAGGED 20000

typedef struct ListedRun
{
	int64 run_id;
	HeapTuple row;
} ListedRun;

/* The newest runs found so far, and the runs found since the last sort. */
typedef struct RunPage
{
	ListedRun *rows; /* allocated for twice the size */
	int count;		 /* sorted */
	int end;
	int size;
	int64 oldest; /* lowest id of a full page; no older run can enter */
} RunPage;

/* A call's arguments and progress. */
typedef struct Listing
{
	Reader r;
	const PgqrsRunFilter *filter;
	List *workflows; /* of PgqrsQueue *, by id */
	TupleDesc desc;
	MemoryContext scratch;
	RunPage page;
	TupleTableSlot *failed; /* the archived message of a run that may be listed */
	int misses_left;		/* mismatching runs that may still be read */
	bool asked_index;		/* the tag index was read; only these may match */
	PgqrsTidSet tagged;
} Listing;

static int
compare_newest_first(const void *a, const void *b)
{
	int64 x = ((const ListedRun *) a)->run_id;
	int64 y = ((const ListedRun *) b)->run_id;

	return (x < y) - (x > y);
}

/* The workflows that match and that the current role may read, by id. */
static List *
readable_workflows(const char *pattern)
{
	List *result = NIL;
	PgqrsQueue *queue = palloc(sizeof(PgqrsQueue));
	PgqrsInt64List ids = pgqrs_readable_queue_ids();

	for (int i = 0; i < ids.count; i++)
	{
		if (pgqrs_queue_by_id(ids.values[i], queue) && queue->is_workflow &&
			(pattern == NULL || pgqrs_pattern_matches(pattern, queue->name)))
		{
			result = lappend(result, queue);
			queue = palloc(sizeof(PgqrsQueue));
		}
	}
	return result;
}

static bool
status_matches(TupleTableSlot *run, const PgqrsRunFilter *filter)
{
	return pgqrs_is_null(run, Runs_deleted_at) &&
		(filter->status < 0 ||
		 filter->status ==
			 pgqrs_enum_find(ENUM_RUN_STATUS, pgqrs_get(run, Runs_status)));
}

static bool
run_matches(TupleTableSlot *run, const PgqrsRunFilter *filter)
{
	if (!status_matches(run, filter))
		return false;
	if (!filter->tags.isnull)
		return !pgqrs_is_null(run, Runs_tags) &&
			DatumGetBool(DirectFunctionCall2(jsonb_contains,
											 pgqrs_get(run, Runs_tags),
											 filter->tags.value));
	return true;
}

/* Adds the run in the reader's slot if it matches; returns whether it does. */
static bool
add_run(Listing *l, const char *workflow)
{
	RunPage *page = &l->page;
	MemoryContext caller = MemoryContextSwitchTo(l->scratch);
	bool matches = run_matches(l->r.run, l->filter);

	MemoryContextSwitchTo(caller);
	MemoryContextReset(l->scratch);
	if (!matches)
		return false;
	page->rows[page->end].run_id = pgqrs_get_int64(l->r.run, Runs_run_id);
	page->rows[page->end++].row = form_run(&l->r, workflow, l->desc);
	return true;
}

/*
 * Whether a full page was found since the last sort, so that older runs are not
 * needed.
 */
static bool
is_full(const RunPage *page)
{
	return page->end == page->count + page->size;
}

/* Sorts the page and keeps the newest runs. */
static void
sort_page(RunPage *page)
{
	if (page->end == page->count)
		return;
	qsort(page->rows, page->end, sizeof(ListedRun), compare_newest_first);
	page->count = Min(page->end, page->size);
	for (int i = page->count; i < page->end; i++)
		heap_freetuple(page->rows[i].row);
	page->end = page->count;
	if (page->count == page->size)
		page->oldest = page->rows[page->count - 1].run_id;
}

static void
empty_page(RunPage *page)
{
	for (int i = 0; i < page->end; i++)
		heap_freetuple(page->rows[i].row);
	page->count = page->end = 0;
	page->oldest = PG_INT64_MIN;
}

static bool
is_live(int status)
{
	return status >= 0 && !pgqrs_run_is_terminal(status);
}

/* Fetches the next run that may have the tags. */
static bool
next_run(Listing *l, PgqrsScan *scan)
{
	while (pgqrs_scan_next_key(scan))
	{
		CHECK_FOR_INTERRUPTS();
		if ((!l->asked_index ||
			 pgqrs_tid_set_contains(&l->tagged, pgqrs_scan_tid(scan))) &&
			pgqrs_scan_fetch(scan, l->r.run))
			return true;
	}
	return false;
}

/*
 * Adds the runs of a workflow that can enter the page, newest first, until too
 * many mismatch.
 */
static void
walk_runs(Listing *l, const PgqrsQueue *workflow)
{
	PgqrsKey keys[] = {
		{1, BTEqualStrategyNumber, Int64GetDatum(workflow->queue_id)},
		{2, BTLessStrategyNumber, Int64GetDatum(l->filter->before)},
		{2, BTGreaterEqualStrategyNumber, Int64GetDatum(l->page.oldest)},
	};
	PgqrsScan scan;

	pgqrs_scan_begin(&scan, l->r.runs, INDEX_RUNS_WORKFLOW, lengthof(keys), keys);
	scan.direction = BackwardScanDirection;
	while (l->misses_left > 0 && !is_full(&l->page) && next_run(l, &scan))
		if (!add_run(l, workflow->name))
			l->misses_left--;
	pgqrs_scan_end(&scan);
	sort_page(&l->page);
}

/*
 * Adds the runs of all workflows; false: too many mismatch, and the page is
 * left empty.
 */
static bool
walk_all(Listing *l, int max_misses)
{
	ListCell *lc;

	l->misses_left = max_misses;
	foreach(lc, l->workflows)
		walk_runs(l, lfirst(lc));
	if (l->misses_left > 0)
		return true;
	empty_page(&l->page);
	return false;
}

/*
 * Adds the runs of a workflow whose messages have the outcome; replayed runs
 * mismatch.
 */
static void
walk_archive(Listing *l, const PgqrsQueue *workflow, PgqrsOutcome outcome)
{
	TupleTableSlot *slot = l->failed;
	PgqrsKey keys[] = {
		{1, BTEqualStrategyNumber, Int64GetDatum(workflow->queue_id)},
		{2, BTEqualStrategyNumber, pgqrs_enum_datum(ENUM_OUTCOME, outcome)},
		{3, BTLessStrategyNumber, Int64GetDatum(l->filter->before)},
	};
	PgqrsScan scan;

	pgqrs_scan_begin(&scan, l->r.archive, INDEX_ARCHIVE_FAILED, lengthof(keys),
					 keys);
	scan.direction = BackwardScanDirection;
	while (!is_full(&l->page) && pgqrs_scan_next(&scan, slot))
	{
		int64 run_id = pgqrs_get_int64(slot, Archive_message_id);

		if (run_id < l->page.oldest)
			break;
		if (pgqrs_row_fetch_id(l->r.runs, run_id, l->r.run))
			add_run(l, workflow->name);
	}
	pgqrs_scan_end(&scan);
	sort_page(&l->page);
}

/* Lists runs in ERROR or CANCELLED, which are rare. */
static void
list_failed(Listing *l)
{
	ListCell *lc;

	l->failed = pgqrs_table_slot(l->r.archive);
	foreach(lc, l->workflows)
	{
		if (l->filter->status == RUN_CANCELLED)
			walk_archive(l, lfirst(lc), OUTCOME_CANCELLED);
		else
		{
			/* a purged dead letter leaves its run as it is */
			walk_archive(l, lfirst(lc), OUTCOME_DEAD);
			walk_archive(l, lfirst(lc), OUTCOME_DELETED);
		}
	}
}

/*
 * Collects the runs of a workflow that have not ended and may have the status.
 */
static void
collect_live(Listing *l, const PgqrsQueue *workflow, PgqrsInt64List *ids)
{
	PgqrsKey key = {1, BTEqualStrategyNumber, Int64GetDatum(workflow->queue_id)};
	PgqrsScan scan;

	pgqrs_scan_begin(&scan, l->r.messages, INDEX_MESSAGES_CLAIM, 1, &key);
	while (pgqrs_scan_next(&scan, l->r.message))
	{
		int64 id = pgqrs_get_int64(l->r.message, Messages_message_id);
		PgqrsRunStatus status;

		if (id < l->filter->before &&
			(!pgqrs_run_status_of_message(l->r.message, &status) ||
			 (int) status == l->filter->status))
			pgqrs_int64_list_add(ids, id);
	}
	pgqrs_scan_end(&scan);
}

/* The workflow of the run in the reader's slot, if listed. */
static const PgqrsQueue *
find_workflow(const Listing *l)
{
	int64 id = pgqrs_get_int64(l->r.run, Runs_workflow_id);
	int low = 0;
	int high = list_length(l->workflows);

	while (low < high)
	{
		int middle = (low + high) / 2;
		const PgqrsQueue *workflow = list_nth(l->workflows, middle);

		if (workflow->queue_id == id)
			return workflow;
		if (workflow->queue_id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

/* Adds the matching runs among the ids. */
static void
add_by_id(Listing *l, PgqrsInt64List *ids)
{
	pgqrs_int64_sort(ids->values, ids->count);
	for (int i = ids->count - 1; i >= 0 && !is_full(&l->page); i--)
	{
		const PgqrsQueue *workflow;

		if (!pgqrs_row_fetch_id(l->r.runs, ids->values[i], l->r.run))
			continue;
		workflow = find_workflow(l);
		if (workflow != NULL)
			add_run(l, workflow->name);
	}
	sort_page(&l->page);
}

/* Lists runs that have not ended: each has a message. */
static void
list_live(Listing *l)
{
	PgqrsInt64List ids = {0};
	ListCell *lc;

	foreach(lc, l->workflows)
		collect_live(l, lfirst(lc), &ids);
	add_by_id(l, &ids);
}

/* Lists the runs that may have the tags; the index returns them in no order. */
static void
list_tagged(Listing *l)
{
	PgqrsInt64List ids = {0};
	ItemPointerData tid;
	PgqrsScan scan;

	pgqrs_scan_begin_table(&scan, l->r.runs);
	while (pgqrs_tid_set_next(&l->tagged, &tid))
	{
		CHECK_FOR_INTERRUPTS();
		if (pgqrs_scan_fetch_at(&scan, &tid, l->r.run) &&
			pgqrs_get_int64(l->r.run, Runs_run_id) < l->filter->before &&
			status_matches(l->r.run, l->filter) && find_workflow(l) != NULL)
			pgqrs_int64_list_add(&ids, pgqrs_get_int64(l->r.run, Runs_run_id));
	}
	pgqrs_scan_end(&scan);
	add_by_id(l, &ids);
}

/* Whether few runs have the tags, by the statistics. */
static bool
has_rare_tags(const Listing *l)
{
	return !l->filter->tags.isnull &&
		pgqrs_tid_set_estimate(l->r.runs, Runs_tags, l->filter->tags.value) <=
		MAX_EXPECTED;
}

static void
list_runs(Listing *l)
{
	int status = l->filter->status;
	bool rare_tags = has_rare_tags(l);

	if ((rare_tags || is_live(status)) && walk_all(l, MAX_MISSES))
		return;
	l->asked_index = rare_tags &&
		pgqrs_tid_set_load(&l->tagged, l->r.runs, INDEX_RUNS_TAGS,
						   l->filter->tags.value);
	if (l->asked_index && l->tagged.count <= MAX_TAGGED)
		list_tagged(l);
	else if (status == RUN_ERROR || status == RUN_CANCELLED)
		list_failed(l);
	else if (is_live(status))
		list_live(l);
	else
		walk_all(l, INT_MAX);
}

/*
 * Returns one page of runs, newest first.  Each workflow's runs are read
 * backwards in the order of their ids, and no further than the page needs, so
 * the cost depends on the number of matching workflows and on the size of the
 * page, not on the number of runs.  A rare status has another way: an index
 * lists failed runs, and each run that has not ended has a message.  The tag
 * index lists the runs with rare tags: a few runs are all fetched; of more
 * runs, the entries are read in the order of ids and only those runs fetched.
 * Only two searches read all runs: SUCCESS where hardly any run succeeds, and
 * tags that many runs have but the newest do not.
 */
void
pgqrs_read_runs(const PgqrsRunFilter *filter, Tuplestorestate *store, TupleDesc desc)
{
	Listing l = {
		.filter = filter,
		.workflows = readable_workflows(filter->workflow),
		.desc = desc,
		.scratch = AllocSetContextCreate(CurrentMemoryContext, "pgqrs list",
										 ALLOCSET_SMALL_SIZES),
		.page = {.size = filter->page_size, .oldest = PG_INT64_MIN},
	};

	l.page.rows = palloc0(2 * l.page.size * sizeof(ListedRun));
	reader_open(&l.r);
	list_runs(&l);
	reader_close(&l.r);
	for (int i = 0; i < l.page.count; i++)
		tuplestore_puttuple(store, l.page.rows[i].row);
}

/* Adds a row of pgqrs_list_steps(). */
static void
put_step(TupleTableSlot *step, Tuplestorestate *store, TupleDesc desc)
{
	Datum values[ListSteps_natts];
	bool nulls[ListSteps_natts];

	copy_columns(step, step_columns, ListSteps_natts, values, nulls);
	set_value(values, nulls, ListSteps_kind, label_of(step, Steps_kind));
	set_value(values, nulls, ListSteps_undo,
			  BoolGetDatum(!pgqrs_is_null(step, Steps_undo)));
	set_value(values, nulls, ListSteps_status, label_of(step, Steps_status));
	tuplestore_putvalues(store, desc, values, nulls);
}

static bool
is_any_step(TupleTableSlot *step)
{
	return true;
}

/* Returns the steps of a run in the order of their first starts. */
void
pgqrs_read_steps(int64 run_id, Tuplestorestate *store, TupleDesc desc)
{
	PgqrsTable *runs = pgqrs_table_open(TABLE_RUNS, false);
	PgqrsTable *steps = pgqrs_table_open(TABLE_STEPS, false);
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(steps->rel),
													&TTSOpsHeapTuple);
	PgqrsListedStep *list;
	PgqrsQueue queue;
	int count;

	/* the run may be removed meanwhile */
	runs->snapshot = steps->snapshot = snapshot;
	require_readable_run(runs, run_id, pgqrs_table_slot(runs), &queue);
	list = pgqrs_step_list(steps, run_id, is_any_step, &count);
	for (int i = 0; i < count; i++)
	{
		ExecStoreHeapTuple(list[i].row, slot, false);
		put_step(slot, store, desc);
	}
	ExecDropSingleTupleTableSlot(slot);
	pgqrs_table_close(steps);
	pgqrs_table_close(runs);
	UnregisterSnapshot(snapshot);
}

/*
 * Returns the first n messages of a queue in the order of claims: due, delayed
 * or leased.
 */
void
pgqrs_read_peek(const char *name, int n, Tuplestorestate *store, TupleDesc desc)
{
	PgqrsTable *messages;
	TupleTableSlot *slot;
	PgqrsScan scan;
	PgqrsQueue queue;
	PgqrsKey key;

	pgqrs_queue_require(name, PRIVILEGE_READ, &queue);
	messages = pgqrs_table_open(TABLE_MESSAGES, false);
	slot = pgqrs_table_slot(messages);
	key = (PgqrsKey){1, BTEqualStrategyNumber, Int64GetDatum(queue.queue_id)};
	pgqrs_scan_begin(&scan, messages, INDEX_MESSAGES_CLAIM, 1, &key);
	for (int i = 0; i < n && pgqrs_scan_next(&scan, slot); i++)
	{
		Datum values[Peek_natts];
		bool nulls[Peek_natts];

		copy_columns(slot, peek_columns, Peek_natts, values, nulls);
		set_value(values, nulls, Peek_priority,
				  Int32GetDatum(DatumGetInt16(pgqrs_get(slot, Messages_priority))));
		set_value(values, nulls, Peek_leased,
				  BoolGetDatum(!pgqrs_is_null(slot, Messages_lease)));
		if (!pgqrs_is_null(slot, Messages_run_id))
			set_value(values, nulls, Peek_payload,
					  pgqrs_json_run(pgqrs_get_int64(slot, Messages_run_id), NULL));
		tuplestore_putvalues(store, desc, values, nulls);
	}
	pgqrs_scan_end(&scan);
	pgqrs_table_close(messages);
}
