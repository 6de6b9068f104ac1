/*
 * retention.c
 *	  Retention: removes rows that ended long enough ago, and rows of
 *	  deleted queues.
 *
 * Time that this server has not seen pass does not count until it is confirmed
 * (clock.h): a clock that is set a year ahead by mistake removes no history.
 *
 * Retention removes archived messages, ended runs with their steps, signals and
 * events, the firings of schedules, and stopped workers that no run names.  A queue keeps its dead letters for its
 * dead_retention and all other rows for its retention, both counted from the
 * end.
 *
 * A run is found by its archived message, which exists as long as the run.  The
 * message is locked first, then the run, exclusively: a replay locks the
 * former, a signal or a rerun the latter, and no transaction adds a row to an
 * ended run.  So a run is removed as a whole or stays as a whole.  A live run
 * is never removed.  A run whose parent may still ask for its result stays, as
 * does a run whose children are still to be cancelled.
 *
 * For a deleted queue, a pass first ends the live messages: plain messages are
 * dropped; runs end as CANCELLED, which reaches parents, children and the
 * outbox. All ended rows are removed, regardless of their age, and the row of
 * the queue last. A transaction that was sending to the queue at its deletion
 * may commit after a pass found no more rows, so the row of the queue stays
 * until all such transactions have ended.
 *
 * Any number of passes may run at a time, beside all other work.  No pass
 * waits: rows that another transaction has locked are left to a later pass.  A
 * pass is bounded by the rows that it removes and by time.  It remembers its
 * position in this backend, so that the next pass does not scan the index
 * entries of removed rows, which an old snapshot keeps.  If a finished pass is
 * rolled back, its rows are found again after FULL_INTERVAL, or by another
 * backend.
 */
#include "background/retention.h"

#include "base/clock.h"
#include "base/compat.h"
#include "base/int64_list.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "queue/counter_rows.h"
#include "queue/queue.h"
#include "shmem/quarantine.h"
#include "shmem/writers.h"
#include "store/scan.h"
#include "store/tuple.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "workflow/drop.h"
#include "workflow/family.h"
#include "workflow/run.h"
#include "workflow/schedule.h"

/* A pass ends when it has removed so many rows, or after this time. */
#define MAX_ROWS 10000
#define MAX_TIME (200 * 1000)

/* Live messages of deleted queues that a pass ends. */
#define MAX_DROPPED 1000

/*
 * A gentle pass alternates between work and rest, since such passes may follow
 * each other for hours: a backend that is woken on the same processor would
 * otherwise wait for the scheduler's time slice.
 */
#define GENTLE_WORK 100
#define GENTLE_REST 900

/* The clock is read once in so many index entries. */
#define LOOK_EVERY 64

/* So many dead index entries are skipped to find when the next row is due. */
#define MAX_AHEAD 100

/* A caller that waits for a run can read its result for this time at least. */
#define MIN_RUN (60 * USECS_PER_SEC)

/* Due rows are removed together, at most this often. */
#define REMOVAL_INTERVAL (5 * USECS_PER_SEC)

/* Rows that could not be removed are retried after this time ... */
#define SKIPPED_RETRY (60 * USECS_PER_SEC)

/* ... rows of deleted queues after this time ... */
#define RETRY_DELETED (1 * USECS_PER_SEC)

/* ... and the scan begins with the oldest row again after this time. */
#define FULL_INTERVAL (600 * USECS_PER_SEC)

/* A stopped worker is kept so long, and longer while a run names it ... */
#define WORKER_KEPT (7 * USECS_PER_DAY)

/* ... of the oldest so many runs; workers are looked at once in this time. */
#define MAX_NAMING		10000
#define WORKER_INTERVAL (600 * USECS_PER_SEC)

/* How long a pass waits for the senders to deleted queues, in milliseconds. */
#define MAX_SENDER_WAIT_MS 20

/*
 * This backend's position in the dead letters, or the other ended rows, of a
 * queue.
 */
typedef struct RetentionPosition
{
	int64 key; /* the queue's id and which of the two */
	bool scanning;
	TimestampTz from;	 /* rows that ended before are done */
	TimestampTz skipped; /* the end of the first row that could not be removed */
	TimestampTz full_at; /* when a scan last began with the oldest row */
} RetentionPosition;

typedef struct RetentionPass
{
	PgqrsTable *archive;
	PgqrsTable *runs;
	PgqrsTable *steps;
	PgqrsTable *signals;
	PgqrsTable *events;
	TupleTableSlot *archived;
	TupleTableSlot *run;
	TupleTableSlot *step;
	TupleTableSlot *signal;
	TupleTableSlot *event;
	PgqrsQueue queue;	 /* the queue that the pass works on */
	TimestampTz now;	 /* the clock without unconfirmed time, ... */
	int64 unconfirmed;	 /* ... the length of that time, ... */
	TimestampTz until;	 /* ... and the instant from which it counts */
	TimestampTz stop_at; /* by the wall clock */
	bool deleted;		 /* the queue is deleted, so that all rows are due */
	bool gently;
	TimestampTz rest_at;
	TimestampTz next;
	int looked;
	int rows;
	bool limit_reached;
	PgqrsRetained *removed;
} RetentionPass;

static void
open_retention_tables(RetentionPass *p)
{
	p->archive = pgqrs_table_open(TABLE_ARCHIVE, true);
	p->runs = pgqrs_table_open(TABLE_RUNS, true);
	p->steps = pgqrs_table_open(TABLE_STEPS, true);
	p->signals = pgqrs_table_open(TABLE_SIGNALS, true);
	p->events = pgqrs_table_open(TABLE_EVENTS, true);
	p->archived = pgqrs_table_slot(p->archive);
	p->run = pgqrs_table_slot(p->runs);
	p->step = pgqrs_table_slot(p->steps);
	p->signal = pgqrs_table_slot(p->signals);
	p->event = pgqrs_table_slot(p->events);
}

static void
close_retention_tables(RetentionPass *p)
{
	pgqrs_table_close(p->events);
	pgqrs_table_close(p->signals);
	pgqrs_table_close(p->steps);
	pgqrs_table_close(p->runs);
	pgqrs_table_close(p->archive);
}

/* Called between two rows. */
static void
rest_if_gentle(RetentionPass *p)
{
	static uint32 wait_event = 0;

	CHECK_FOR_INTERRUPTS();
	if (!p->gently || GetCurrentTimestamp() < p->rest_at)
		return;
	pgstat_report_wait_start(pgqrs_wait_event(&wait_event, "PgqrsRetentionDelay"));
	pg_usleep(GENTLE_REST);
	pgstat_report_wait_end();
	p->rest_at = GetCurrentTimestamp() + GENTLE_WORK;
}

/* Counts an index entry; true if the pass has reached its limits. */
static bool
is_limit_reached(RetentionPass *p)
{
	rest_if_gentle(p);
	if (p->rows >= MAX_ROWS ||
		(++p->looked % LOOK_EVERY == 0 && GetCurrentTimestamp() >= p->stop_at))
		p->limit_reached = true;
	return p->limit_reached;
}

/*
 * Removing
 */

static bool
lock_exclusively(PgqrsTable *table, TupleTableSlot *slot)
{
	return pgqrs_row_lock(table, slot, LockTupleExclusive, LockWaitSkip) ==
		ROW_LOCKED;
}

/*
 * Removes rows of a locked run; the lock keeps other transactions from changing
 * them.
 */
static void
remove_rows_by_index(RetentionPass *p, PgqrsTable *table, TupleTableSlot *slot,
					 PgqrsIndexId index, int64 run_id)
{
	PgqrsKey key = {1, BTEqualStrategyNumber, Int64GetDatum(run_id)};
	PgqrsScan scan;

	pgqrs_scan_begin(&scan, table, index, 1, &key);
	while (pgqrs_scan_next(&scan, slot))
	{
		rest_if_gentle(p);
		pgqrs_row_delete(table, slot);
		p->rows++;
	}
	pgqrs_scan_end(&scan);
}

static void
remove_rows_of_run(RetentionPass *p, int64 run_id)
{
	remove_rows_by_index(p, p->steps, p->step, INDEX_STEPS_PKEY, run_id);
	remove_rows_by_index(p, p->signals, p->signal, INDEX_SIGNALS_RUN, run_id);
	p->rows += pgqrs_family_remove(run_id);
	remove_rows_by_index(p, p->events, p->event, INDEX_EVENTS_RUN, run_id);
}

/*
 * Removes the run of the archived message in the slot; false: not removable
 * now.
 */
static bool
remove_run(RetentionPass *p)
{
	int64 run_id = pgqrs_get_int64(p->archived, Archive_run_id);
	bool found = pgqrs_row_fetch_id(p->runs, run_id, p->run);

	if (!pgqrs_is_null(p->archived, Archive_waiting_for))
		return false;
	if (found &&
		(!pgqrs_run_is_terminal(pgqrs_run_status(p->run)) ||
		 (!p->deleted && pgqrs_family_may_be_asked_for(p->runs, p->run))))
		return false;
	if (!lock_exclusively(p->archive, p->archived) ||
		(found && !lock_exclusively(p->runs, p->run)))
		return false;
	remove_rows_of_run(p, run_id);
	if (found)
		pgqrs_row_delete(p->runs, p->run);
	pgqrs_row_delete(p->archive, p->archived);
	p->removed->runs++;
	p->rows += 2;
	return true;
}

/*
 * Removes the archived message in the slot and its run; false: not removable
 * now.
 */
static bool
remove_archived(RetentionPass *p)
{
	if (!pgqrs_quarantine_begin_row(QUARANTINE_MESSAGE,
									pgqrs_get_int64(p->archived, Archive_message_id)))
		return false;
	if (!pgqrs_is_null(p->archived, Archive_run_id))
		return remove_run(p);
	if (pgqrs_row_try_delete(p->archive, p->archived, LockWaitSkip) != ROW_LOCKED)
		return false;
	p->removed->messages++;
	p->rows++;
	return true;
}

/*
 * Finding
 */

/* The positions of this backend, and whether a pass is under way. */
static HTAB *scan_positions = NULL;
static int64 next_queue_id = 0; /* the queue where the last pass reached its limits */
static bool under_way = false;

/* After an error, which undid the last pass: discards the positions. */
static void
begin_pass(void)
{
	if (under_way && scan_positions != NULL)
	{
		hash_destroy(scan_positions);
		scan_positions = NULL;
		next_queue_id = 0;
	}
	under_way = true;
}

static RetentionPosition *
find_position(int64 queue_id, bool dead)
{
	int64 key = queue_id * 2 + dead;
	RetentionPosition *place;
	bool found;

	if (scan_positions == NULL)
	{
		HASHCTL ctl = {.keysize = sizeof(int64),
					   .entrysize = sizeof(RetentionPosition)};

		scan_positions = hash_create("pgqrs retention", 16, &ctl,
									 HASH_ELEM | HASH_BLOBS);
	}
	place = hash_search(scan_positions, &key, HASH_ENTER, &found);
	if (!found)
	{
		place->scanning = false;
		place->full_at = DT_NOBEGIN;
	}
	return place;
}

/* Continues where the last scan ended, or begins with the oldest row. */
static void
begin_position(RetentionPosition *place, TimestampTz now)
{
	if (place->scanning)
		return;
	if (place->full_at == DT_NOBEGIN || place->full_at > now ||
		place->full_at + FULL_INTERVAL <= now)
	{
		place->from = DT_NOBEGIN;
		place->full_at = now;
	}
	place->skipped = DT_NOEND;
	place->scanning = true;
}

static void
end_position(RetentionPass *p, RetentionPosition *place)
{
	place->scanning = false;
	place->from = Min(place->skipped, place->from);
	if (place->skipped != DT_NOEND)
		p->next = Min(p->next,
					  p->deleted ? pgqrs_clock() + RETRY_DELETED :
								   p->now + SKIPPED_RETRY);
}

/* Removes the due dead letters of a queue, or its other due rows. */
static void
remove_ended_of_queue(RetentionPass *p, bool dead)
{
	int64 kept = dead ? p->queue.dead_retention : p->queue.retention;
	int64 keep = p->queue.is_workflow && !p->deleted ? Max(kept, MIN_RUN) : kept;
	TimestampTz cutoff = p->deleted ? DT_NOEND : p->now - keep;
	RetentionPosition *place = find_position(p->queue.queue_id, dead);
	int ahead = MAX_AHEAD;
	bool more = true;
	PgqrsScan scan;

	begin_position(place, p->now);
	{
		PgqrsKey keys[] = {
			{1, BTEqualStrategyNumber, Int64GetDatum(p->queue.queue_id)},
			{2, BTGreaterEqualStrategyNumber, TimestampTzGetDatum(place->from)},
		};

		pgqrs_scan_begin(&scan, p->archive,
						 dead ? INDEX_ARCHIVE_DEAD : INDEX_ARCHIVE_ENDED,
						 lengthof(keys), keys);
	}
	while (more && pgqrs_scan_next_key(&scan))
	{
		TimestampTz at = DatumGetTimestampTz(pgqrs_scan_key(&scan, 2));
		bool there = pgqrs_scan_fetch(&scan, p->archived);

		if (at > cutoff)
		{
			more = !there && --ahead > 0;
			if (!more)
				p->next = Min(p->next, at + keep);
			continue;
		}
		place->from = at;
		if (there && !remove_archived(p))
			place->skipped = Min(place->skipped, at);
		more = !is_limit_reached(p);
	}
	pgqrs_scan_end(&scan);
	if (!p->limit_reached)
		end_position(p, place);
}

/*
 * Visits the queues in turn, beginning with the one where the last pass
 * stopped.
 */
static void
remove_ended(RetentionPass *p)
{
	List *queues = pgqrs_queue_match(list_make1("*"), PRIVILEGE_ADMIN);
	int count = list_length(queues);
	int first = 0;

	while (first < count &&
		   ((PgqrsQueue *) list_nth(queues, first))->queue_id < next_queue_id)
		first++;
	for (int i = 0; i < count && !p->limit_reached; i++)
	{
		p->queue = *(PgqrsQueue *) list_nth(queues, (first + i) % count);
		remove_ended_of_queue(p, true);
		if (!p->limit_reached)
			remove_ended_of_queue(p, false);
	}
	if (p->limit_reached)
		next_queue_id = p->queue.queue_id;
	list_free_deep(queues);
}

/*
 * Firings of schedules
 */

/* Removes the due firings of one schedule, in the order of their slots. */
static void
remove_firings_of(RetentionPass *p, PgqrsTable *firings, TupleTableSlot *firing,
				  int64 schedule_id, int64 keep)
{
	PgqrsKey key = {1, BTEqualStrategyNumber, Int64GetDatum(schedule_id)};
	bool more = true;
	PgqrsScan scan;

	pgqrs_scan_begin(&scan, firings, INDEX_FIRINGS_PKEY, 1, &key);
	while (more && pgqrs_scan_next(&scan, firing))
	{
		TimestampTz due = pgqrs_get_time(firing, Firings_fired_at) + keep;

		if (due > p->now)
		{
			p->next = Min(p->next, due);
			break;
		}
		if (pgqrs_row_try_delete(firings, firing, LockWaitSkip) == ROW_LOCKED)
		{
			p->removed->firings++;
			p->rows++;
		}
		more = !is_limit_reached(p);
	}
	pgqrs_scan_end(&scan);
}

static void
remove_firings(RetentionPass *p)
{
	PgqrsTable *schedules = pgqrs_table_open(TABLE_SCHEDULES, false);
	PgqrsTable *firings = pgqrs_table_open(TABLE_FIRINGS, true);
	TupleTableSlot *schedule = pgqrs_table_slot(schedules);
	TupleTableSlot *firing = pgqrs_table_slot(firings);
	PgqrsScan scan;

	pgqrs_scan_begin_table(&scan, schedules);
	while (!p->limit_reached && pgqrs_scan_next(&scan, schedule))
	{
		char *workflow = TextDatumGetCString(pgqrs_get(schedule, Schedules_workflow));
		PgqrsQueue queue;

		if (pgqrs_queue_by_name(workflow, &queue))
			remove_firings_of(p, firings, firing,
							  pgqrs_get_int64(schedule, Schedules_schedule_id),
							  Max(queue.retention, PGQRS_FIRING_MIN_AGE));
		pfree(workflow);
	}
	pgqrs_scan_end(&scan);
	pgqrs_table_close(firings);
	pgqrs_table_close(schedules);
}

/*
 * Workers
 */

/* Collects workers that stopped long enough ago. */
static PgqrsInt64List
find_old_workers(RetentionPass *p, PgqrsTable *workers, TupleTableSlot *worker)
{
	PgqrsInt64List ids = {0};
	PgqrsScan scan;

	pgqrs_scan_begin_table(&scan, workers);
	while (pgqrs_scan_next(&scan, worker))
	{
		TimestampTz due;

		rest_if_gentle(p);
		if (pgqrs_is_null(worker, Workers_stopped_at))
			continue;
		due = pgqrs_get_time(worker, Workers_stopped_at) + WORKER_KEPT;
		if (due <= p->now)
			pgqrs_int64_list_add(&ids, pgqrs_get_int64(worker, Workers_worker_id));
		else
			p->next = Min(p->next, due);
	}
	pgqrs_scan_end(&scan);
	return ids;
}

/*
 * Collects the workers that the oldest runs name.  Returns the instant before which
 * a worker has to have stopped that no other run names: the last of them was
 * created then.
 */
static TimestampTz
find_named_workers(RetentionPass *p, PgqrsInt64List *named)
{
	TimestampTz created = DT_NOBEGIN;
	bool more = true;
	PgqrsScan scan;

	pgqrs_scan_begin(&scan, p->runs, INDEX_RUNS_PKEY, 0, NULL);
	for (int i = 0; i < MAX_NAMING && !is_limit_reached(p); i++)
	{
		more = pgqrs_scan_next(&scan, p->run);
		if (!more)
			break;
		created = pgqrs_get_time(p->run, Runs_created_at);
		if (!pgqrs_is_null(p->run, Runs_worker_id))
			pgqrs_int64_list_add(named, pgqrs_get_int64(p->run, Runs_worker_id));
	}
	pgqrs_scan_end(&scan);
	pgqrs_int64_sort(named->values, named->count);
	return more ? created : DT_NOEND;
}

static void
remove_workers(RetentionPass *p)
{
	static TimestampTz looked_at = DT_NOBEGIN;
	PgqrsTable *workers;
	PgqrsTable *messages;
	TupleTableSlot *worker;
	TupleTableSlot *message;
	PgqrsInt64List named = {0};
	PgqrsInt64List ids;
	TimestampTz until;

	if (looked_at <= p->now && p->now - WORKER_INTERVAL < looked_at)
		return;
	looked_at = p->now;
	messages = pgqrs_table_open(TABLE_MESSAGES, false);
	workers = pgqrs_table_open(TABLE_WORKERS, true);
	worker = pgqrs_table_slot(workers);
	message = pgqrs_table_slot(messages);
	ids = find_old_workers(p, workers, worker);
	until = ids.count > 0 ? find_named_workers(p, &named) : DT_NOBEGIN;
	for (int i = 0; i < ids.count; i++)
	{
		Datum key = Int64GetDatum(ids.values[i]);

		rest_if_gentle(p);
		if (!pgqrs_int64_list_contains(&named, ids.values[i]) &&
			pgqrs_row_fetch_id(workers, ids.values[i], worker) &&
			pgqrs_get_time(worker, Workers_stopped_at) < until &&
			!pgqrs_row_fetch(messages, INDEX_MESSAGES_WORKER, 1, &key, message) &&
			pgqrs_row_try_delete(workers, worker, LockWaitSkip) == ROW_LOCKED)
			p->rows++;
	}
	pgqrs_table_close(workers);
	pgqrs_table_close(messages);
}

static void
begin_retention(RetentionPass *p, bool gently, PgqrsRetained *removed)
{
	memset(p, 0, sizeof(*p));
	p->now = pgqrs_clock();
	p->unconfirmed = pgqrs_clock_unconfirmed(p->now, &p->until);
	p->now -= p->unconfirmed;
	p->stop_at = GetCurrentTimestamp() + MAX_TIME;
	p->gently = gently;
	p->rest_at = GetCurrentTimestamp() + GENTLE_WORK;
	p->next = DT_NOEND;
	p->removed = removed;
	begin_pass();
	open_retention_tables(p);
}

/* When the next pass is due, by pgqrs_clock(). */
static TimestampTz
next_retention_at(RetentionPass *p)
{
	TimestampTz now = p->now + p->unconfirmed;
	TimestampTz next = p->next == DT_NOEND ? DT_NOEND : p->next + p->unconfirmed;

	if (p->limit_reached)
		return 0;
	if (p->unconfirmed > 0)
		next = Min(next, p->until);
	return Max(next, now + REMOVAL_INTERVAL);
}

TimestampTz
pgqrs_retention_pass(bool gently, PgqrsRetained *removed)
{
	RetentionPass p;

	memset(removed, 0, sizeof(*removed));
	begin_retention(&p, gently, removed);
	remove_ended(&p);
	if (!p.limit_reached)
		remove_firings(&p);
	if (!p.limit_reached)
		remove_workers(&p);
	close_retention_tables(&p);
	under_way = false;
	return next_retention_at(&p);
}

/*
 * Deleted queues
 */

typedef struct DeletedQueue
{
	PgqrsQueue queue; /* filled as far as dropping its messages requires */
	bool is_settled;  /* the deletion has committed, and all backends see it */
} DeletedQueue;

/* In the order of their ids. */
static List *
list_deleted_queues(void)
{
	PgqrsTable *queues = pgqrs_table_open(TABLE_QUEUES, false);
	TupleTableSlot *slot = pgqrs_table_slot(queues);
	List *deleted = NIL;
	PgqrsScan scan;

	pgqrs_scan_begin_table(&scan, queues);
	while (pgqrs_scan_next(&scan, slot))
	{
		DeletedQueue *d;

		if (pgqrs_is_null(slot, Queues_deleted_at))
			continue;
		d = palloc0(sizeof(DeletedQueue));
		d->queue.queue_id = pgqrs_get_int64(slot, Queues_queue_id);
		d->queue.is_workflow = DatumGetBool(pgqrs_get(slot, Queues_is_workflow));
		text_to_cstring_buffer(DatumGetTextPP(pgqrs_get(slot, Queues_name)),
							   d->queue.name, PGQRS_NAME_SIZE);
		d->is_settled = pgqrs_row_is_settled(slot);
		deleted = lappend(deleted, d);
	}
	pgqrs_scan_end(&scan);
	pgqrs_table_close(queues);
	return deleted;
}

/*
 * Ends the live messages of the queues; false: the pass has reached its limit.
 */
static bool
drop_live_messages(List *queues, PgqrsRetained *removed)
{
	PgqrsDropped dropped = {0};
	int64 left = MAX_DROPPED;
	ListCell *lc;

	foreach(lc, queues)
	{
		pgqrs_queue_drop_messages(&((DeletedQueue *) lfirst(lc))->queue, left,
								  &dropped);
		left = MAX_DROPPED - dropped.messages - dropped.runs;
		if (left <= 0)
			break;
	}
	removed->messages += dropped.messages;
	removed->cancelled += dropped.runs;
	return left > 0;
}

/*
 * Removes runs of a deleted workflow without a message, which only damage
 * leaves.
 */
static void
remove_stray_runs(RetentionPass *p)
{
	PgqrsKey key = {1, BTEqualStrategyNumber, Int64GetDatum(p->queue.queue_id)};
	PgqrsScan scan;

	pgqrs_scan_begin(&scan, p->runs, INDEX_RUNS_WORKFLOW, 1, &key);
	while (!p->limit_reached && pgqrs_scan_next(&scan, p->run))
	{
		int64 run_id = pgqrs_get_int64(p->run, Runs_run_id);

		if (pgqrs_quarantine_begin_row(QUARANTINE_MESSAGE, run_id) &&
			!pgqrs_row_fetch_id(p->archive, run_id, p->archived) &&
			!pgqrs_table_has_row(TABLE_MESSAGES, INDEX_MESSAGES_PKEY, run_id) &&
			lock_exclusively(p->runs, p->run))
		{
			remove_rows_of_run(p, run_id);
			pgqrs_row_delete(p->runs, p->run);
			p->removed->runs++;
			p->rows++;
		}
		(void) is_limit_reached(p);
	}
	pgqrs_scan_end(&scan);
}

/* Removes the ended rows of the queues, within the limits of the pass. */
static void
remove_history(RetentionPass *p, List *queues)
{
	ListCell *lc;

	foreach(lc, queues)
	{
		p->queue = ((DeletedQueue *) lfirst(lc))->queue;
		p->next = DT_NOEND;
		remove_ended_of_queue(p, true);
		if (!p->limit_reached)
			remove_ended_of_queue(p, false);
		if (!p->limit_reached && p->next == DT_NOEND && p->queue.is_workflow)
			remove_stray_runs(p);
		if (p->limit_reached)
			break;
	}
}

/*
 * Transactions that may have sent to a queue before they could see its
 * deletion: those that were writing messages when this backend first saw the
 * deletion settled.  They are kept from pass to pass, together for all queues.
 */
static struct
{
	MemoryContext context; /* NULL: not listed */
	PgqrsInt64List queues; /* ascending */
	PgqrsWriters writers;
} senders;

static void
list_senders(List *queues)
{
	MemoryContext caller;
	ListCell *lc;

	senders.context = AllocSetContextCreate(TopMemoryContext, "pgqrs senders",
											ALLOCSET_SMALL_SIZES);
	caller = MemoryContextSwitchTo(senders.context);
	memset(&senders.queues, 0, sizeof(senders.queues));
	memset(&senders.writers, 0, sizeof(senders.writers));
	pgqrs_writers_list(&senders.writers);
	foreach(lc, queues)
	{
		const DeletedQueue *d = lfirst(lc);

		if (d->is_settled)
			pgqrs_int64_list_add(&senders.queues, d->queue.queue_id);
	}
	MemoryContextSwitchTo(caller);
}

static bool
queue_has_rows(int64 queue_id)
{
	return pgqrs_table_has_row(TABLE_MESSAGES, INDEX_MESSAGES_CLAIM, queue_id) ||
		pgqrs_table_has_row(TABLE_RUNS, INDEX_RUNS_WORKFLOW, queue_id) ||
		pgqrs_queue_has_archived(queue_id);
}

/* False: another transaction has the row locked. */
static bool
remove_definition(PgqrsTableId id, int64 key)
{
	PgqrsTable *table = pgqrs_table_open(id, true);
	TupleTableSlot *slot = pgqrs_table_slot(table);
	bool removed = !pgqrs_row_fetch_id(table, key, slot) ||
		pgqrs_row_try_delete(table, slot, LockWaitSkip) == ROW_LOCKED;

	pgqrs_table_close(table);
	return removed;
}

/*
 * Removes the rows of queues that are empty and that no transaction can send
 * to.  A workflow's row stays as long as one of its runs may end.  False: some
 * queues stay.
 */
static bool
remove_queues(List *queues)
{
	bool all = true;
	ListCell *lc;

	if (senders.context == NULL)
		list_senders(queues);
	if (!pgqrs_writers_ended(&senders.writers, MAX_SENDER_WAIT_MS))
		return false;
	foreach(lc, queues)
	{
		const PgqrsQueue *queue = &((DeletedQueue *) lfirst(lc))->queue;

		if (!pgqrs_int64_list_contains(&senders.queues, queue->queue_id) ||
			!pgqrs_quarantine_begin_row(QUARANTINE_QUEUE, queue->queue_id) ||
			queue_has_rows(queue->queue_id) ||
			(queue->is_workflow &&
			 !remove_definition(TABLE_WORKFLOWS, queue->queue_id)) ||
			!remove_definition(TABLE_QUEUES, queue->queue_id))
			all = false;
		else
			pgqrs_counters_drop(queue->queue_id);
	}
	MemoryContextDelete(senders.context);
	senders.context = NULL;
	return all;
}

TimestampTz
pgqrs_retention_pass_of_deleted(bool gently, PgqrsRetained *removed)
{
	List *queues = list_deleted_queues();
	TimestampTz next = DT_NOEND;
	bool all;
	RetentionPass p;

	memset(removed, 0, sizeof(*removed));
	if (queues == NIL)
		return DT_NOEND;
	all = drop_live_messages(queues, removed);
	begin_retention(&p, gently, removed);
	p.deleted = true;
	remove_history(&p, queues);
	close_retention_tables(&p);
	under_way = false;
	if (!all || p.limit_reached)
		next = 0;
	else if (!remove_queues(queues))
		next = pgqrs_clock() + RETRY_DELETED;
	list_free_deep(queues);
	return next;
}
