/*
 * notify.c
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
 * wait for came, so that neither saw the other.  What cannot be sent is put
 * back, and sent when the queue of notifications has room again.
 *
 * Channels: pgqrs_queue_<queue_id>; workflow_run_<run_id>, with the status;
 * pgqrs_runs, with <run_id>:<status>.
 */
#include "notify.h"

#include "access/xact.h"
#include "catalog.h"
#include "clock.h"
#include "commands/async.h"
#include "databases.h"
#include "ended.h"
#include "miscadmin.h"
#include "parked.h"
#include "probe.h"
#include "queue.h"
#include "ready.h"
#include "rows.h"
#include "run.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

/* Microseconds */
#define FIRST_PAUSE	 (5 * INT64CONST(1000))
#define LAST_PAUSE	 (20 * INT64CONST(1000)) /* when there is always something */
#define FAILED_PAUSE (1 * USECS_PER_SEC)
#define BUSY_PAUSE	 (USECS_PER_SEC / 2)

/* At most so many in one pass. */
#define MAX_QUEUES 500
#define MAX_RUNS   2000
#define MAX_BLOCKS 4

/* A look finds so many messages for those that wait. */
#define MAX_FOUND 64

#define QUEUE_CHANNEL "pgqrs_queue_" INT64_FORMAT

typedef struct Pass
{
	int queues;
	int runs;
	int blocks;
	bool more;
	int64 queue_ids[MAX_QUEUES];
	PgqrsEnded ended[MAX_RUNS + MAX_BLOCKS * PGQRS_ENDED_BLOCK];
	PgqrsEndedBlock block[MAX_BLOCKS];
} Pass;

static TimestampTz not_before = DT_NOBEGIN;
static int64 pause_time = FIRST_PAUSE;
static bool failing = false;

/* When to look at every queue, because some have no place in shared memory. */
static TimestampTz look_again_at = DT_NOEND;

static Oid user_before;
static int security_before;

/*
 * As the extension's owner; false: it is gone, and there is nothing to be done.
 */
static bool
begin(void)
{
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	if (pgqrs_catalog_installed())
	{
		GetUserIdAndSecContext(&user_before, &security_before);
		SetUserIdAndSecContext(pgqrs_catalog_owner(),
							   security_before | SECURITY_RESTRICTED_OPERATION);
		return true;
	}
	PopActiveSnapshot();
	CommitTransactionCommand();
	return false;
}

static void
end(void)
{
	SetUserIdAndSecContext(user_before, security_before);
	PopActiveSnapshot();
	CommitTransactionCommand();
}

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

	if (count == 0 || !begin())
		return;
	messages = pgqrs_table_open(TABLE_MESSAGES, false);
	slot = pgqrs_table_slot(messages);
	for (int i = 0; i < count; i++)
		if (pgqrs_queue_by_id(queue_ids[i], &queue))
			pgqrs_probe_due(messages, slot, &queue, MAX_FOUND, 0);
	pgqrs_table_close(messages);
	end();
}

static void
look_at_due(Pass *pass, TimestampTz now)
{
	TimestampTz next;
	int count = pgqrs_ready_take_dues(now, pass->queue_ids, MAX_QUEUES, &next);

	PG_TRY();
	{
		probe(pass->queue_ids, count);
	}
	PG_CATCH();
	{
		for (int i = 0; i < count; i++)
			pgqrs_ready_lower(pass->queue_ids[i], 0);
		PG_RE_THROW();
	}
	PG_END_TRY();
	pass->more |= count == MAX_QUEUES;
}

/* A queue that has no place in shared memory: looked at, and told of, here. */
static void
look_without_slot(PgqrsTable *messages, TupleTableSlot *slot, const PgqrsQueue *queue)
{
	PgqrsProbe probe;
	char channel[NAMEDATALEN];

	pgqrs_probe_queue(messages, slot, queue, 1, &probe);
	look_again_at = Min(look_again_at, probe.next);
	if (probe.ready > 0)
	{
		snprintf(channel, sizeof(channel), QUEUE_CHANNEL, queue->queue_id);
		Async_Notify(channel, "");
	}
}

/* Every queue is as one whose instant has come. */
static void
look_at_all(void)
{
	PgqrsTable *messages;
	TupleTableSlot *slot;
	ListCell *lc;

	look_again_at = DT_NOEND;
	if (!begin())
		return;
	messages = pgqrs_table_open(TABLE_MESSAGES, false);
	slot = pgqrs_table_slot(messages);
	foreach(lc, pgqrs_queue_match(list_make1("*"), PRIVILEGE_ADMIN))
	{
		const PgqrsQueue *queue = lfirst(lc);

		if (pgqrs_ready_slot(queue->queue_id) >= 0)
			pgqrs_ready_lower(queue->queue_id, 0);
		else
			look_without_slot(messages, slot, queue);
	}
	pgqrs_table_close(messages);
	end();
}

/*
 * Runs
 */

/* Runs of which there were too many to be remembered: those that ended since. */
static void
look_at_block(Pass *pass, PgqrsEndedBlock block)
{
	PgqrsTable *runs;
	TupleTableSlot *slot;
	PgqrsScan scan;
	PgqrsKey keys[] = {
		{1, BTGreaterEqualStrategyNumber, Int64GetDatum(block.first)},
		{1, BTLessStrategyNumber, Int64GetDatum(block.first + PGQRS_ENDED_BLOCK)},
	};

	if (!begin())
		return;
	runs = pgqrs_table_open(TABLE_RUNS, false);
	slot = pgqrs_table_slot(runs);
	pgqrs_scan_begin(&scan, runs, INDEX_RUNS_PKEY, lengthof(keys), keys);
	while (pgqrs_scan_next(&scan, slot))
	{
		PgqrsEnded *run = &pass->ended[pass->runs];
		PgqrsRunStatus status = pgqrs_run_status(slot);

		run->run_id = DatumGetInt64(pgqrs_get(slot, Runs_run_id));
		run->at = DatumGetTimestampTz(pgqrs_get(slot, Runs_completed_at));
		run->status = status == RUN_PAUSED ? ENDED_PARKED : status;
		if (status == RUN_PAUSED ||
			(pgqrs_run_is_terminal(status) && run->at >= block.since))
			pass->runs++;
	}
	pgqrs_scan_end(&scan);
	pgqrs_table_close(runs);
	end();
}

static void
take_runs(Pass *pass)
{
	pass->runs = pgqrs_ended_take(pass->ended, MAX_RUNS);
	pass->more |= pass->runs == MAX_RUNS;
	pass->blocks = pgqrs_ended_take_blocks(pass->block, MAX_BLOCKS);
	pass->more |= pass->blocks == MAX_BLOCKS;
	if (pgqrs_ended_take_lost())
		ereport(LOG,
				(errmsg("pgqrs could not tell of all runs that ended"),
				 errdetail("There were more than it could remember while its background worker was away or could not send."),
				 errhint("Callers that LISTEN for the end of a run have to ask pgqrs_result() once in a while.")));
	for (int i = 0; i < pass->blocks; i++)
		look_at_block(pass, pass->block[i]);
}

/*
 * Each in a transaction of its own.  One that somebody has locked is left to the
 * next look at all of them, which comes soon then.
 */
static void
recheck_parked(Pass *pass)
{
	int kept = 0;

	for (int i = 0; i < pass->runs; i++)
	{
		if (pass->ended[i].status != ENDED_PARKED)
		{
			pass->ended[kept++] = pass->ended[i];
			continue;
		}
		if (!begin())
			continue;
		if (!pgqrs_parked_recheck(pass->ended[i].run_id))
			pgqrs_database_lower(DUE_PARKED, pgqrs_clock() + BUSY_PAUSE);
		end();
	}
	pass->runs = kept;
}

/*
 * Sending
 */

/* Whatever this pass has taken and not done is there again. */
static void
put_back(Pass *pass)
{
	for (int i = 0; i < pass->queues; i++)
		pgqrs_ready_mark(pass->queue_ids[i], 0);
	pgqrs_ended_add(pass->ended, pass->runs);
}

static void
notify_all(Pass *pass)
{
	char channel[NAMEDATALEN];
	char payload[64];

	for (int i = 0; i < pass->queues; i++)
	{
		snprintf(channel, sizeof(channel), QUEUE_CHANNEL, pass->queue_ids[i]);
		Async_Notify(channel, "");
	}
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
send(Pass *pass)
{
	MemoryContext context = CurrentMemoryContext;
	volatile bool sent = true;

	PG_TRY();
	{
		StartTransactionCommand();
		notify_all(pass);
		CommitTransactionCommand();
		MemoryContextSwitchTo(context);
	}
	PG_CATCH();
	{
		ErrorData *error;

		MemoryContextSwitchTo(context);
		put_back(pass);
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

/* What a pass takes it does, or puts back. */
static void
run_pass(Pass *pass, TimestampTz now)
{
	look_at_due(pass, now);
	pass->queues = pgqrs_ready_take(pass->queue_ids, MAX_QUEUES);
	pass->more |= pass->queues == MAX_QUEUES;
	PG_TRY();
	{
		take_runs(pass);
		recheck_parked(pass);
	}
	PG_CATCH();
	{
		put_back(pass);
		for (int i = 0; i < pass->blocks; i++)
			pgqrs_ended_add_block(pass->block[i]);
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (pass->queues > 0 || pass->runs > 0)
		set_pause(now, send(pass));
}

TimestampTz
pgqrs_notify_pass(void)
{
	static Pass *pass = NULL;
	static MemoryContext context = NULL;
	TimestampTz now = pgqrs_clock_peek();
	TimestampTz next;
	MemoryContext old;

	/* unless the clock was set back */
	if (now < not_before && now > not_before - 2 * FAILED_PAUSE)
		return not_before;
	if (context == NULL)
	{
		context = AllocSetContextCreate(TopMemoryContext, "pgqrs notify",
										ALLOCSET_DEFAULT_SIZES);
		pass = MemoryContextAlloc(TopMemoryContext, sizeof(Pass));
	}
	pass->queues = pass->runs = pass->blocks = 0;
	pass->more = false;
	old = MemoryContextSwitchTo(context);
	if (pgqrs_ready_begin_pass() || look_again_at <= now)
		look_at_all();
	MemoryContextSwitchTo(context);
	run_pass(pass, now);
	pgqrs_ready_end_pass();
	MemoryContextSwitchTo(old);
	MemoryContextReset(context);

	pgqrs_ready_take_dues(now, NULL, 0, &next);
	next = pass->more ? now : Min(next, look_again_at);
	return Max(next, Max(not_before, now));
}
