/*
 * notifier.c
 *	  Notifier: sends notifications to sessions that LISTEN.
 *
 * Runs in the background worker of a database, in one process per database.
 * NOTIFY takes a lock that all databases of the cluster share, until the
 * commit, and fails when its queue is full.  Therefore no user's transaction
 * runs it; the notifier does, in a transaction that does nothing else.  Between
 * two passes is a pause, in which all changes of a queue become one
 * notification.
 *
 * A pass probes the queues whose due instant has come, which wakes waiting
 * backends. It rechecks runs that began to wait while the signal or end that
 * they wait for was being written, so that neither transaction saw the other.
 * Locked runs, and those at which the recheck failed, are kept for a later
 * pass.  Notifications that cannot be sent are published again, and sent when
 * their queue has room.
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
#include "shmem/quarantine.h"
#include "shmem/wakeup_table.h"
#include "storage/ipc.h"
#include "store/scan.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "workflow/run.h"
#include "workflow/run_wakeup.h"

/* Microseconds */
#define FIRST_PAUSE	 (5 * INT64CONST(1000))
#define LAST_PAUSE	 (20 * INT64CONST(1000)) /* while passes follow each other */
#define FAILED_PAUSE (1 * USECS_PER_SEC)
#define BUSY_PAUSE	 (USECS_PER_SEC / 2)

/*
 * Queues without a slot are probed at most this often, since there may be many.
 */
#define UNPLACED_PAUSE (1 * USECS_PER_SEC)

/* The limits of one pass. */
#define MAX_QUEUES 500
#define MAX_RUNS   2000
#define MAX_BLOCKS 4   /* of ended runs */
#define MAX_KEPT   500 /* kept runs to recheck */

/* Each kept run is rechecked at least this often. */
#define MAX_KEPT_PAUSE (30 * USECS_PER_SEC)

/* A probe counts at most so many messages for waiting backends. */
#define MAX_FOUND 64

typedef struct NotifierPass
{
	MemoryContext context;
	PgqrsInt64List unplaced; /* queues without a slot that have claimable messages */
	int queues;
	int run_count;
	bool more;
	int64 queue_ids[MAX_QUEUES];
	PgqrsFinishedRun runs[MAX_RUNS + MAX_BLOCKS * PGQRS_RUN_BLOCK + MAX_KEPT];
} NotifierPass;

/*
 * Work that the pass has taken and not done; published again when the process
 * exits.
 */
static NotifierPass *current_pass = NULL;

/*
 * A waiting run to recheck at an instant; published again when the process
 * exits.
 */
typedef struct KeptRun
{
	int64 run_id;
	TimestampTz at;
} KeptRun;

static HTAB *kept_runs = NULL;
static TimestampTz kept_at = DT_NOEND; /* not later than the earliest one */

static TimestampTz not_before = DT_NOBEGIN;
static int64 pause_time = FIRST_PAUSE;
static bool is_failing = false;
static TimestampTz unplaced_at = DT_NOBEGIN; /* the last probe of queues without a slot */

/*
 * Queues
 */

/* Probes the queues, which publishes those with claimable messages. */
static void
probe_queues(const int64 *queue_ids, int count)
{
	PgqrsTable *messages;
	TupleTableSlot *slot;
	PgqrsQueue queue;

	if (count == 0 || !pgqrs_worker_xact_begin("probing queues"))
		return;
	messages = pgqrs_table_open(TABLE_MESSAGES, false);
	slot = pgqrs_table_slot(messages);
	for (int i = 0; i < count; i++)
	{
		if (pgqrs_queue_by_id(queue_ids[i], &queue))
			pgqrs_queue_probe_due(messages, slot, &queue, MAX_FOUND, 0);
		else
			pgqrs_queue_probe_deleted(queue_ids[i]);
	}
	pgqrs_table_close(messages);
	pgqrs_worker_xact_end();
}

static void
probe_due_queues(TimestampTz now)
{
	TimestampTz next;
	int count = pgqrs_wakeup_take_dues(now, current_pass->queue_ids, MAX_QUEUES,
									   &next);

	probe_queues(current_pass->queue_ids, count);
	current_pass->more |= count == MAX_QUEUES;
}

/* Probes a queue without a slot. */
static void
probe_unplaced_queue(PgqrsTable *messages, TupleTableSlot *slot,
					 const PgqrsQueue *queue)
{
	PgqrsQueueProbe probe;
	MemoryContext old;

	pgqrs_queue_probe(messages, slot, queue, 1, &probe);
	pgqrs_wakeup_set_due(queue->queue_id, probe.next);
	if (probe.ready == 0)
		return;
	old = MemoryContextSwitchTo(current_pass->context);
	pgqrs_int64_list_add(&current_pass->unplaced, queue->queue_id);
	MemoryContextSwitchTo(old);
}

/* Probes the queues without a slot.  placed: makes the others due at once. */
static void
probe_all_queues(TimestampTz now, bool placed)
{
	PgqrsTable *messages;
	TupleTableSlot *slot;
	ListCell *lc;

	unplaced_at = now;
	if (!pgqrs_worker_xact_begin("probing all queues"))
		return;
	messages = pgqrs_table_open(TABLE_MESSAGES, false);
	slot = pgqrs_table_slot(messages);
	foreach(lc, pgqrs_queue_match(list_make1("*"), PRIVILEGE_ADMIN))
	{
		const PgqrsQueue *queue = lfirst(lc);

		CHECK_FOR_INTERRUPTS();
		if (pgqrs_wakeup_slot(queue->queue_id) < 0)
			probe_unplaced_queue(messages, slot, queue);
		else if (placed)
			pgqrs_wakeup_set_due(queue->queue_id, 0);
	}
	pgqrs_table_close(messages);
	pgqrs_worker_xact_end();
}

/*
 * When all queues are to be probed.  A clock that was set back makes that due
 * at once.
 */
static TimestampTz
all_queues_due(TimestampTz now)
{
	TimestampTz due = pgqrs_database_due(DUTY_QUEUES);

	return due == 0 || unplaced_at > now ? due :
										   Max(due, unplaced_at + UNPLACED_PAUSE);
}

/*
 * Runs
 */

/* Adds the runs of a block that have ended since, or may be waiting. */
static void
add_runs_of_block(PgqrsFinishedRun block)
{
	PgqrsTable *runs;
	TupleTableSlot *slot;
	PgqrsScan scan;
	PgqrsKey keys[] = {
		{1, BTGreaterEqualStrategyNumber, Int64GetDatum(block.run_id)},
		{1, BTLessStrategyNumber, Int64GetDatum(block.run_id + PGQRS_RUN_BLOCK)},
	};

	if (!pgqrs_worker_xact_begin("reading ended runs"))
		return;
	runs = pgqrs_table_open(TABLE_RUNS, false);
	slot = pgqrs_table_slot(runs);
	pgqrs_scan_begin(&scan, runs, INDEX_RUNS_PKEY, lengthof(keys), keys);
	while (pgqrs_scan_next(&scan, slot))
	{
		PgqrsFinishedRun *run = &current_pass->runs[current_pass->run_count];
		int status = pgqrs_enum_find(ENUM_RUN_STATUS, pgqrs_get(slot, Runs_status));

		if (status < 0)
			continue;
		run->run_id = pgqrs_get_int64(slot, Runs_run_id);
		run->at = pgqrs_get_time(slot, Runs_completed_at);
		run->status = status == RUN_PAUSED ? RUN_WAITING : status;
		if (status == RUN_PAUSED ||
			(pgqrs_run_is_terminal(status) && run->at >= block.at))
			current_pass->run_count++;
	}
	pgqrs_scan_end(&scan);
	pgqrs_table_close(runs);
	pgqrs_worker_xact_end();
}

static void
take_finished_runs(void)
{
	current_pass->run_count = pgqrs_wakeup_take_runs(current_pass->runs,
													 MAX_RUNS, MAX_BLOCKS,
													 &current_pass->more);
	if (pgqrs_wakeup_take_lost())
	{
		ereport(LOG,
				(errmsg("pgqrs lost notifications of ended runs"),
				 errdetail("More runs ended than shared memory can record while the background worker was away or could not send."),
				 errhint("Clients that LISTEN for the end of a run must also call pgqrs_result() at intervals.")));
		pgqrs_database_set_earlier(DUTY_RUN_WAKEUPS, 0);
	}
	/* a block keeps its place until its runs are added */
	for (int i = 0; i < MAX_BLOCKS && i < current_pass->run_count; i++)
		if (current_pass->runs[i].status == RUN_BLOCK)
			add_runs_of_block(current_pass->runs[i]);
}

static void
keep_run_for_recheck(int64 run_id, int64 pause)
{
	KeptRun *kept = hash_search(kept_runs, &run_id, HASH_ENTER, NULL);

	kept->at = pgqrs_clock_peek() + pause;
	kept_at = Min(kept_at, kept->at);
}

/*
 * Takes kept runs whose instant has come, or all after the clock was set back.
 */
static void
take_kept_runs(TimestampTz now)
{
	TimestampTz next = DT_NOEND;
	int count = 0;
	HASH_SEQ_STATUS status;
	KeptRun *kept;

	if (kept_at > now && kept_at <= now + MAX_KEPT_PAUSE)
		return;
	hash_seq_init(&status, kept_runs);
	while ((kept = hash_seq_search(&status)) != NULL)
	{
		if (count == MAX_KEPT ||
			(kept->at > now && kept->at <= now + MAX_KEPT_PAUSE))
		{
			next = Min(next, kept->at);
			continue;
		}
		count++;
		current_pass->runs[current_pass->run_count++] = (PgqrsFinishedRun){kept->run_id,
																		   now,
																		   RUN_WAITING};
		(void) hash_search(kept_runs, &kept->run_id, HASH_REMOVE, NULL);
	}
	kept_at = next;
}

/* Grows with the number of locked runs. */
static int64
locked_pause(void)
{
	long count = hash_get_num_entries(kept_runs);

	return Min(MAX_KEPT_PAUSE, BUSY_PAUSE * (1 + count / MAX_KEPT));
}

static void
recheck_in_transaction(int64 run_id)
{
	if (!pgqrs_quarantine_begin_row(QUARANTINE_MESSAGE, run_id))
		keep_run_for_recheck(run_id, MAX_KEPT_PAUSE);
	else if (pgqrs_worker_xact_begin("rechecking waiting runs"))
	{
		if (!pgqrs_run_wakeup_recheck(run_id))
			keep_run_for_recheck(run_id, locked_pause());
		pgqrs_worker_xact_end();
	}
}

/*
 * Rechecks in a separate transaction, whose error ends neither the pass nor the
 * rechecks of other runs.
 */
static void
try_recheck(int64 run_id)
{
	MemoryContext context = CurrentMemoryContext;

	pgqrs_quarantine_begin();
	PG_TRY();
	{
		recheck_in_transaction(run_id);
	}
	PG_CATCH();
	{
		ErrorData *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		AbortCurrentTransaction();
		if (!pgqrs_quarantine_caught(error))
			ReThrowError(error);
		keep_run_for_recheck(run_id, MAX_KEPT_PAUSE);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
}

/*
 * Rechecks the waiting runs and removes them from the pass, which keeps the
 * ended runs.
 */
static void
recheck_waiting_runs(void)
{
	int left = 0;

	for (int i = 0; i < current_pass->run_count; i++)
	{
		if (current_pass->runs[i].status == RUN_WAITING)
			try_recheck(current_pass->runs[i].run_id);
		else if (current_pass->runs[i].status != RUN_BLOCK)
			current_pass->runs[left++] = current_pass->runs[i];
	}
	current_pass->run_count = left;
}

/*
 * Sending
 */

/*
 * Publishes again all that this pass has taken and not done.  Queues without a
 * slot are probed again anyway.
 */
static void
republish_pass(void)
{
	for (int i = 0; i < current_pass->queues; i++)
		pgqrs_wakeup_publish_queue(current_pass->queue_ids[i], 0);
	for (int i = 0; i < current_pass->run_count; i++)
		pgqrs_wakeup_publish_run(current_pass->runs[i], 0);
	current_pass->queues = current_pass->run_count = current_pass->unplaced.count = 0;
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

	for (int i = 0; i < current_pass->queues; i++)
		notify_queue(current_pass->queue_ids[i]);
	for (int i = 0; i < current_pass->unplaced.count; i++)
		notify_queue(current_pass->unplaced.values[i]);
	for (int i = 0; i < current_pass->run_count; i++)
	{
		const PgqrsFinishedRun *run = &current_pass->runs[i];
		const char *status = pgqrs_enum_label(ENUM_RUN_STATUS, run->status);

		snprintf(channel, sizeof(channel), "workflow_run_" INT64_FORMAT,
				 run->run_id);
		Async_Notify(channel, status);
		snprintf(payload, sizeof(payload), INT64_FORMAT ":%s", run->run_id, status);
		Async_Notify("pgqrs_runs", payload);
	}
}

/* Logs the first failure; note_success() logs the end of failures. */
static void
log_failure(const ErrorData *error)
{
	if (!is_failing)
		ereport(LOG,
				(errmsg("pgqrs cannot send notifications: %s", error->message),
				 errdetail("No transaction fails because of this; the background worker retries."),
				 errhint("Find a session that listens and has a transaction open: pg_notification_queue_usage().")));
	is_failing = true;
}

static void
log_success(void)
{
	if (is_failing)
		ereport(LOG, (errmsg("pgqrs can send notifications again")));
	is_failing = false;
}

/* False: the queue of notifications is full, or its files cannot be written. */
static bool
send_notifications(void)
{
	MemoryContext context = CurrentMemoryContext;
	volatile bool sent = true;

	PG_TRY();
	{
		StartTransactionCommand();
		notify_all();
		CommitTransactionCommand();
		current_pass->queues = current_pass->run_count = current_pass->unplaced.count = 0;
		MemoryContextSwitchTo(context);
	}
	PG_CATCH();
	{
		ErrorData *error;

		MemoryContextSwitchTo(context);
		republish_pass();
		error = CopyErrorData();
		if (error->sqlerrcode == ERRCODE_QUERY_CANCELED)
			PG_RE_THROW();
		FlushErrorState();
		AbortCurrentTransaction();
		MemoryContextSwitchTo(context);
		log_failure(error);
		sent = false;
	}
	PG_END_TRY();
	if (sent)
		log_success();
	return sent;
}

/*
 * Sets the pause before the next pass; it grows while passes follow each other.
 */
static void
set_next_pass(TimestampTz began, bool sent)
{
	TimestampTz now = pgqrs_clock_peek();

	if (began < not_before + pause_time)
		pause_time = Min(2 * pause_time, LAST_PAUSE);
	else
		pause_time = FIRST_PAUSE;
	not_before = now + (sent ? pause_time : FAILED_PAUSE);
}

/* The queues whose due instants were taken are not known, so all are probed. */
void
pgqrs_notify_republish(void)
{
	if (current_pass == NULL)
		return;
	republish_pass();
	pgqrs_database_set_earlier(DUTY_QUEUES, 0);
	current_pass->unplaced = (PgqrsInt64List){0};
	MemoryContextReset(current_pass->context);
}

/* The process may exit in the middle of a pass. */
static void
publish_at_exit(int code, Datum arg)
{
	HASH_SEQ_STATUS status;
	KeptRun *kept;

	republish_pass();
	hash_seq_init(&status, kept_runs);
	while ((kept = hash_seq_search(&status)) != NULL)
		pgqrs_wakeup_publish_run((PgqrsFinishedRun){kept->run_id, kept->at,
													RUN_WAITING},
								 kept->at);
}

/* Called once in a process. */
static void
init_notifier(void)
{
	HASHCTL ctl = {.keysize = sizeof(int64), .entrysize = sizeof(KeptRun)};

	kept_runs = hash_create("pgqrs kept runs", 64, &ctl, HASH_ELEM | HASH_BLOBS);
	current_pass = MemoryContextAllocZero(TopMemoryContext, sizeof(NotifierPass));
	current_pass->context = AllocSetContextCreate(TopMemoryContext, "pgqrs notify",
												  ALLOCSET_DEFAULT_SIZES);
	before_shmem_exit(publish_at_exit, (Datum) 0);
}

TimestampTz
pgqrs_notify_not_before(void)
{
	/* a later instant is from before the clock was set back */
	return not_before <= pgqrs_clock_peek() + 2 * FAILED_PAUSE ? not_before :
																 DT_NOBEGIN;
}

TimestampTz
pgqrs_notify_pass(void)
{
	TimestampTz now = pgqrs_clock_peek();
	TimestampTz next;
	MemoryContext old;

	if (current_pass == NULL)
		init_notifier();
	current_pass->more = false;
	old = MemoryContextSwitchTo(current_pass->context);
	if (all_queues_due(now) <= now && pgqrs_database_take_duty(DUTY_QUEUES, now))
		probe_all_queues(now, pgqrs_database_taken_due(DUTY_QUEUES) == 0);
	MemoryContextSwitchTo(current_pass->context);
	probe_due_queues(now);
	current_pass->queues = pgqrs_wakeup_take_queues(current_pass->queue_ids,
													MAX_QUEUES);
	current_pass->more |= current_pass->queues == MAX_QUEUES;
	take_finished_runs();
	take_kept_runs(now);
	recheck_waiting_runs();
	if (current_pass->queues > 0 || current_pass->run_count > 0 ||
		current_pass->unplaced.count > 0)
		set_next_pass(now, send_notifications());
	MemoryContextSwitchTo(old);
	current_pass->unplaced = (PgqrsInt64List){0};
	MemoryContextReset(current_pass->context);

	pgqrs_wakeup_take_dues(now, NULL, 0, &next);
	next = current_pass->more ? now : Min(Min(next, kept_at), all_queues_due(now));
	return Max(next, now);
}
