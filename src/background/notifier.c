/*
 * notifier.c
 *	  What the background worker sends to those that LISTEN.
 *
 * Runs in the background worker of a database, alone there.  NOTIFY takes a
 * lock that all of the cluster share until its commit, and fails when its
 * queue is full: so it is done here and in nobody's transaction, in one of its
 * own that does nothing else.  Passes have a pause between them, in which
 * whatever happens to a queue becomes one notification.
 *
 * A pass looks at the queues whose due instant has come, and leaves to who
 * waits in the server what is his; and at runs that parked just when what they
 * wait for came, so that neither saw the other.  Those that are locked, or that
 * it failed at, are kept and looked at again after a while.  What cannot be sent
 * is put back, and sent when the queue of notifications has room again.
 *
 * Channels: pgqrs_queue_<queue_id>; workflow_run_<run_id>, with the status;
 * pgqrs_runs, with <run_id>:<status>.
 */
#include "background/notifier.h"

#include "access/xact.h"
#include "background/worker_xact.h"
#include "base/catalog.h"
#include "base/clock.h"
#include "base/int64_list.h"
#include "commands/async.h"
#include "delivery/queue_probe.h"
#include "miscadmin.h"
#include "queue/queue.h"
#include "shmem/database_registry.h"
#include "shmem/finished_runs.h"
#include "shmem/quarantine.h"
#include "shmem/queue_wakeups.h"
#include "storage/ipc.h"
#include "store/table.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "workflow/run.h"
#include "workflow/run_wakeup.h"

/* Microseconds */
#define FIRST_PAUSE	 (5 * INT64CONST(1000))
#define LAST_PAUSE	 (20 * INT64CONST(1000)) /* when there is always something */
#define FAILED_PAUSE (1 * USECS_PER_SEC)
#define BUSY_PAUSE	 (USECS_PER_SEC / 2)

/* Queues that have no place are looked at this often at most, for there may be many. */
#define UNPLACED_PAUSE (1 * USECS_PER_SEC)

/* At most so many in one pass. */
#define MAX_QUEUES 500
#define MAX_RUNS   2000
#define MAX_BLOCKS 4
#define MAX_AGAIN  500 /* parked runs that are looked at again */

/* However many those are, each is looked at this often. */
#define MAX_BUSY_PAUSE (30 * USECS_PER_SEC)

/* A look finds so many messages for those that wait. */
#define MAX_FOUND 64

typedef struct Pass
{
	MemoryContext context;
	PgqrsNumbers unplaced; /* queues without a place that have something */
	int queues;
	int runs;
	int blocks;
	bool more;
	int64 queue_ids[MAX_QUEUES];
	PgqrsEnded ended[MAX_RUNS + MAX_BLOCKS * PGQRS_ENDED_BLOCK + MAX_AGAIN];
	PgqrsEndedBlock block[MAX_BLOCKS];
} Pass;

/* What a pass has taken and not done; put back when the process ends. */
static Pass *pass = NULL;

/* A parked run to look at again, and when; put back when the process ends. */
typedef struct Again
{
	int64 run_id;
	TimestampTz at;
} Again;

static HTAB *again = NULL;
static TimestampTz again_at = DT_NOEND; /* the earliest, or before that */

static TimestampTz not_before = DT_NOBEGIN;
static int64 pause_time = FIRST_PAUSE;
static bool failing = false;
static TimestampTz unplaced_at = DT_NOBEGIN; /* the last look at queues without a place */

/*
 * Queues
 */

/* Looks at queues; what is ready is marked by that. */
static void
probe(const int64 *queue_ids, int count)
{
	PgqrsTable *messages;
	TupleTableSlot *slot;
	PgqrsQueue queue;

	if (count == 0 || !pgqrs_batch_begin("looking at queues"))
		return;
	messages = pgqrs_table_open(TABLE_MESSAGES, false);
	slot = pgqrs_table_slot(messages);
	for (int i = 0; i < count; i++)
	{
		if (pgqrs_queue_by_id(queue_ids[i], &queue))
			pgqrs_probe_due(messages, slot, &queue, MAX_FOUND, 0);
		else
			pgqrs_probe_gone(queue_ids[i]);
	}
	pgqrs_table_close(messages);
	pgqrs_batch_end();
}

/* A pass that does not come to its end leaves what it took to a look at all. */
static void
look_at_due(TimestampTz now)
{
	TimestampTz next;
	int count = pgqrs_ready_take_dues(now, pass->queue_ids, MAX_QUEUES, &next);

	probe(pass->queue_ids, count);
	pass->more |= count == MAX_QUEUES;
}

/* A queue that has no place in shared memory. */
static void
look_at_unplaced(PgqrsTable *messages, TupleTableSlot *slot, const PgqrsQueue *queue)
{
	PgqrsProbe probe;
	MemoryContext old;

	pgqrs_probe_queue(messages, slot, queue, 1, &probe);
	pgqrs_ready_lower(queue->queue_id, probe.next);
	if (probe.ready == 0)
		return;
	old = MemoryContextSwitchTo(pass->context);
	pgqrs_numbers_add(&pass->unplaced, queue->queue_id);
	MemoryContextSwitchTo(old);
}

/*
 * Looks at the queues that have no place.  placed: to the others it is as if
 * their instant had come.
 */
static void
look_at_all(TimestampTz now, bool placed)
{
	PgqrsTable *messages;
	TupleTableSlot *slot;
	ListCell *lc;

	unplaced_at = now;
	(void) pgqrs_ready_take_unplaced(now);
	if (!pgqrs_batch_begin("looking at all queues"))
		return;
	messages = pgqrs_table_open(TABLE_MESSAGES, false);
	slot = pgqrs_table_slot(messages);
	foreach(lc, pgqrs_queue_match(list_make1("*"), PRIVILEGE_ADMIN))
	{
		const PgqrsQueue *queue = lfirst(lc);

		CHECK_FOR_INTERRUPTS();
		if (pgqrs_ready_slot(queue->queue_id) < 0)
			look_at_unplaced(messages, slot, queue);
		else if (placed)
			pgqrs_ready_lower(queue->queue_id, 0);
	}
	pgqrs_table_close(messages);
	pgqrs_batch_end();
}

/* When to look at queues without a place; a clock that was set back counts as never. */
static TimestampTz
unplaced_due(TimestampTz now)
{
	TimestampTz due = pgqrs_ready_unplaced_due();

	return unplaced_at > now ? due : Max(due, unplaced_at + UNPLACED_PAUSE);
}

/*
 * Runs
 */

/* Runs of which there were too many to be remembered: those that ended since. */
static void
look_at_block(PgqrsEndedBlock block)
{
	PgqrsTable *runs;
	TupleTableSlot *slot;
	PgqrsScan scan;
	PgqrsKey keys[] = {
		{1, BTGreaterEqualStrategyNumber, Int64GetDatum(block.first)},
		{1, BTLessStrategyNumber, Int64GetDatum(block.first + PGQRS_ENDED_BLOCK)},
	};

	if (!pgqrs_batch_begin("looking at runs that ended"))
		return;
	runs = pgqrs_table_open(TABLE_RUNS, false);
	slot = pgqrs_table_slot(runs);
	pgqrs_scan_begin(&scan, runs, INDEX_RUNS_PKEY, lengthof(keys), keys);
	while (pgqrs_scan_next(&scan, slot))
	{
		PgqrsEnded *run = &pass->ended[pass->runs];
		int status = pgqrs_enum_find(ENUM_RUN_STATUS, pgqrs_get(slot, Runs_status));

		if (status < 0)
			continue;
		run->run_id = DatumGetInt64(pgqrs_get(slot, Runs_run_id));
		run->at = DatumGetTimestampTz(pgqrs_get(slot, Runs_completed_at));
		run->status = status == RUN_PAUSED ? ENDED_PARKED : status;
		if (status == RUN_PAUSED ||
			(pgqrs_run_is_terminal(status) && run->at >= block.since))
			pass->runs++;
	}
	pgqrs_scan_end(&scan);
	pgqrs_table_close(runs);
	pgqrs_batch_end();
}

static void
take_runs(void)
{
	pass->runs = pgqrs_ended_take(pass->ended, MAX_RUNS);
	pass->more |= pass->runs == MAX_RUNS;
	pass->blocks = pgqrs_ended_take_blocks(pass->block, MAX_BLOCKS);
	pass->more |= pass->blocks == MAX_BLOCKS;
	if (pgqrs_ended_take_lost())
	{
		ereport(LOG,
				(errmsg("pgqrs could not tell of all runs that ended"),
				 errdetail("There were more than it could remember while its background worker was away or could not send."),
				 errhint("Callers that LISTEN for the end of a run have to ask pgqrs_result() once in a while.")));
		pgqrs_database_lower(DUE_PARKED, 0);
	}
	for (int i = 0; i < pass->blocks; i++)
		look_at_block(pass->block[i]);
	pass->blocks = 0;
}

static void
look_again(int64 run_id, int64 pause)
{
	TimestampTz at = pgqrs_clock_peek() + pause;
	Again *entry = hash_search(again, &run_id, HASH_ENTER, NULL);

	entry->at = at;
	again_at = Min(again_at, at);
}

/* Whether to look; a clock that was set back counts as yes. */
static bool
is_to_be_looked_at(const Again *entry, TimestampTz now)
{
	return entry->at <= now || entry->at > now + PGQRS_FAULTY_PAUSE;
}

/* Some of those whose time has come are looked at in this pass. */
static void
take_again(TimestampTz now)
{
	TimestampTz next = DT_NOEND;
	int count = 0;
	HASH_SEQ_STATUS status;
	Again *entry;

	if (again_at > now && again_at <= now + PGQRS_FAULTY_PAUSE)
		return;
	hash_seq_init(&status, again);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		if (count == MAX_AGAIN || !is_to_be_looked_at(entry, now))
		{
			next = Min(next, entry->at);
			continue;
		}
		count++;
		pass->ended[pass->runs++] = (PgqrsEnded){entry->run_id, now, ENDED_PARKED};
		(void) hash_search(again, &entry->run_id, HASH_REMOVE, NULL);
	}
	again_at = next;
}

/* The more are locked the less often each is looked at. */
static int64
busy_pause(void)
{
	long count = hash_get_num_entries(again);

	return Min(MAX_BUSY_PAUSE, BUSY_PAUSE * (1 + count / MAX_AGAIN));
}

static void
recheck(int64 run_id)
{
	if (!pgqrs_batch_begin("looking at runs that parked"))
		return;
	if (!pgqrs_faulty_come_to(FAULTY_MESSAGE, run_id))
		look_again(run_id, PGQRS_FAULTY_PAUSE);
	else if (!pgqrs_run_wakeup_recheck(run_id))
		look_again(run_id, busy_pause());
	pgqrs_batch_end();
}

/* In a transaction of its own, and if that fails it is nobody else's affair. */
static void
try_recheck(int64 run_id)
{
	MemoryContext context = CurrentMemoryContext;
	volatile bool failed = false;

	pgqrs_faulty_begin();
	PG_TRY();
	{
		recheck(run_id);
	}
	PG_CATCH();
	{
		ErrorData *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		AbortCurrentTransaction();
		if (!pgqrs_faulty_caught(error))
			ReThrowError(error);
		failed = true;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	if (failed)
		look_again(run_id, PGQRS_FAULTY_PAUSE);
}

static void
recheck_parked(void)
{
	int kept = 0;

	for (int i = 0; i < pass->runs; i++)
	{
		if (pass->ended[i].status != ENDED_PARKED)
			pass->ended[kept++] = pass->ended[i];
		else
			try_recheck(pass->ended[i].run_id);
	}
	pass->runs = kept;
}

/*
 * Sending
 */

/*
 * Whatever this pass has taken and not done is there again; queues without a
 * place are looked at again anyway.
 */
static void
put_back(void)
{
	for (int i = 0; i < pass->queues; i++)
		pgqrs_ready_mark(pass->queue_ids[i], 0);
	pgqrs_ended_add(pass->ended, pass->runs);
	for (int i = 0; i < pass->blocks; i++)
		pgqrs_ended_add_block(pass->block[i]);
	pass->queues = pass->runs = pass->blocks = pass->unplaced.count = 0;
}

static void
notify_queue(int64 queue_id)
{
	char channel[NAMEDATALEN];

	snprintf(channel, sizeof(channel), "pgqrs_queue_" INT64_FORMAT, queue_id);
	Async_Notify(channel, "");
}

static void
notify_all(void)
{
	char channel[NAMEDATALEN];
	char payload[64];

	for (int i = 0; i < pass->queues; i++)
		notify_queue(pass->queue_ids[i]);
	for (int i = 0; i < pass->unplaced.count; i++)
		notify_queue(pass->unplaced.values[i]);
	for (int i = 0; i < pass->runs; i++)
	{
		const PgqrsEnded *run = &pass->ended[i];
		const char *status = pgqrs_enum_label(ENUM_RUN_STATUS, run->status);

		snprintf(channel, sizeof(channel), "workflow_run_" INT64_FORMAT,
				 run->run_id);
		Async_Notify(channel, status);
		snprintf(payload, sizeof(payload), INT64_FORMAT ":%s", run->run_id, status);
		Async_Notify("pgqrs_runs", payload);
	}
}

/* Says it once, and once when it is over. */
static void
note_failure(const ErrorData *error)
{
	if (!failing)
		ereport(LOG,
				(errmsg("pgqrs cannot notify: %s", error->message),
				 errdetail("Nobody's transaction fails for that; it goes on trying."),
				 errhint("Look for a session that listens and has a transaction open: pg_notification_queue_usage().")));
	failing = true;
}

static void
note_success(void)
{
	if (failing)
		ereport(LOG, (errmsg("pgqrs can notify again")));
	failing = false;
}

/* False: the queue of notifications is full, or its files cannot be written. */
static bool
send(void)
{
	MemoryContext context = CurrentMemoryContext;
	volatile bool sent = true;

	PG_TRY();
	{
		StartTransactionCommand();
		notify_all();
		CommitTransactionCommand();
		pass->queues = pass->runs = pass->unplaced.count = 0;
		MemoryContextSwitchTo(context);
	}
	PG_CATCH();
	{
		ErrorData *error;

		MemoryContextSwitchTo(context);
		put_back();
		error = CopyErrorData();
		if (error->sqlerrcode == ERRCODE_QUERY_CANCELED)
			PG_RE_THROW();
		FlushErrorState();
		AbortCurrentTransaction();
		MemoryContextSwitchTo(context);
		note_failure(error);
		sent = false;
	}
	PG_END_TRY();
	if (sent)
		note_success();
	return sent;
}

/* The next pass begins after a pause, which is longer while passes follow each other. */
static void
set_pause(TimestampTz began, bool sent)
{
	TimestampTz now = pgqrs_clock_peek();

	if (began < not_before + pause_time)
		pause_time = Min(2 * pause_time, LAST_PAUSE);
	else
		pause_time = FIRST_PAUSE;
	not_before = now + (sent ? pause_time : FAILED_PAUSE);
}

void
pgqrs_notify_put_back(void)
{
	if (pass == NULL)
		return;
	put_back();
	pass->unplaced = (PgqrsNumbers){0};
	MemoryContextReset(pass->context);
}

/* The process ends, perhaps in the middle of a pass. */
static void
put_back_at_exit(int code, Datum arg)
{
	HASH_SEQ_STATUS status;
	Again *entry;

	put_back();
	hash_seq_init(&status, again);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		PgqrsEnded run = {entry->run_id, entry->at, ENDED_PARKED};

		pgqrs_ended_add(&run, 1);
	}
	pgqrs_database_lower(DUE_NOTIFY, again_at);
}

/* Once in a process. */
static void
begin(void)
{
	HASHCTL ctl = {.keysize = sizeof(int64), .entrysize = sizeof(Again)};

	again = hash_create("pgqrs parked runs", 64, &ctl, HASH_ELEM | HASH_BLOBS);
	pass = MemoryContextAllocZero(TopMemoryContext, sizeof(Pass));
	pass->context = AllocSetContextCreate(TopMemoryContext, "pgqrs notify",
										  ALLOCSET_DEFAULT_SIZES);
	before_shmem_exit(put_back_at_exit, (Datum) 0);
}

static void
run_pass(TimestampTz now)
{
	look_at_due(now);
	pass->queues = pgqrs_ready_take(pass->queue_ids, MAX_QUEUES);
	pass->more |= pass->queues == MAX_QUEUES;
	take_runs();
	take_again(now);
	recheck_parked();
	if (pass->queues > 0 || pass->runs > 0 || pass->unplaced.count > 0)
		set_pause(now, send());
}

TimestampTz
pgqrs_notify_pass(void)
{
	TimestampTz now = pgqrs_clock_peek();
	TimestampTz next;
	MemoryContext old;

	/* unless the clock was set back */
	if (now < not_before && now > not_before - 2 * FAILED_PAUSE)
		return not_before;
	if (pass == NULL)
		begin();
	pass->more = false;
	old = MemoryContextSwitchTo(pass->context);
	if (pgqrs_ready_begin_pass())
		look_at_all(now, true);
	else if (unplaced_due(now) <= now)
		look_at_all(now, false);
	MemoryContextSwitchTo(pass->context);
	run_pass(now);
	pgqrs_ready_end_pass();
	MemoryContextSwitchTo(old);
	pass->unplaced = (PgqrsNumbers){0};
	MemoryContextReset(pass->context);

	pgqrs_ready_take_dues(now, NULL, 0, &next);
	next = pass->more ? now : Min(Min(next, again_at), unplaced_due(now));
	return Max(next, Max(not_before, now));
}
