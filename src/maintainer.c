/*
 * maintainer.c
 *	  The background worker of a database: does what is due.
 *
 * Started by the launcher for one database.  It stays while there is something
 * to do and leaves after a while without; sooner if other databases wait for a
 * worker, and at once when the database is held, the worker dismissed, the
 * database not to be served any more, or all background work paused.
 *
 * Each batch of a duty is a transaction of its own, as batch.c makes them.  No
 * row is ever waited for, and one at which a duty fails is passed over.  Any
 * other error ends the process: the launcher starts another after a while, and
 * whatever was not committed is still due.
 */
#include "postgres.h"

#include "access/xact.h"
#include "batch.h"
#include "clock.h"
#include "commands/dbcommands.h"
#include "compat.h"
#include "databases.h"
#include "guc.h"
#include "maintain.h"
#include "miscadmin.h"
#include "notify.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/procsignal.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

/* How long a worker stays without anything to do. */
#define IDLE_TIME (10 * USECS_PER_SEC)

/* A turn, where other databases wait; and without anything to do. */
#define TURN	   (1 * USECS_PER_SEC)
#define SHORT_TURN (100 * 1000)

/* Maintenance is done this often at most, and ... */
#define PASS_INTERVAL (100 * 1000)

/* ... this many batches of a duty at a time. */
#define MAX_BATCHES 100

/* What should find nothing is done this often while there is anything to do. */
#define SEARCH_INTERVAL (60 * USECS_PER_SEC)

PGDLLEXPORT void pgqrs_maintainer_main(Datum arg);

static const struct
{
	PgqrsDuty duty;
	const char *activity;
} duties[DUE_COUNT] = {
	[DUE_WORKERS] = {pgqrs_maintain_workers, "stopping silent workers"},
	[DUE_ENDS] = {pgqrs_maintain_ends, "ending what is due to end"},
	[DUE_CHILDREN] = {pgqrs_maintain_children, "cancelling children"},
	[DUE_PARKED] = {pgqrs_maintain_parked, "looking at parked runs"},
	[DUE_GRANTS] = {pgqrs_maintain_grants, "removing grants to dropped roles"},
	[DUE_SCHEDULES] = {pgqrs_maintain_schedules, "firing schedules"},
	[DUE_RETENTION] = {pgqrs_maintain_retention_gently,
					   "removing what was kept long enough"},
	[DUE_SWEEP] = {pgqrs_maintain_floors, "sweeping below the floors"},
};

static MemoryContext pass_context;
static TimestampTz attached_at;
static TimestampTz active_at;
static TimestampTz pass_at = 0;

/*
 * Passes
 */

static void
heed_signals(void)
{
	/* quietly; what is due stays so */
	if (ProcDiePending)
		proc_exit(0);
	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
}

/* Batches until nothing is left, within reason; when there is more. */
static TimestampTz
run_duty(PgqrsDuty duty, const char *activity, int64 *done)
{
	TimestampTz next = 0;

	for (int i = 0; i < MAX_BATCHES && next == 0; i++)
	{
		heed_signals();
		if (pgqrs_database_must_leave())
			break;
		if (!pgqrs_batch_begin(activity))
			return DT_NOEND;
		next = pgqrs_maintain_run(duty, done);
		pgqrs_batch_end();
	}
	return next;
}

static void
search(int64 *done)
{
	if (!pgqrs_database_may_search(SEARCH_INTERVAL))
		return;
	run_duty(pgqrs_maintain_floors, "sweeping below the floors", done);
	run_duty(pgqrs_maintain_used_up, "looking for used up messages", done);
	run_duty(pgqrs_maintain_ready, "forgetting deleted queues", done);
}

/* The maintenance that is due. */
static void
run_pass(void)
{
	int64 done[DONE_COUNT] = {0};
	bool any = false;

	for (int kind = 0; kind < DUE_COUNT; kind++)
	{
		if (duties[kind].duty == NULL || !pgqrs_database_take(kind, pgqrs_clock()))
			continue;
		pgqrs_database_lower(kind,
							 run_duty(duties[kind].duty, duties[kind].activity,
									  done));
		any = true;
	}
	if (!any)
		return;
	search(done);
	pgqrs_database_note_pass(done);
	pass_at = pgqrs_clock();
	active_at = pass_at;
}

/* When the next pass is due. */
static TimestampTz
next_pass(void)
{
	TimestampTz due = DT_NOEND;

	for (int kind = 0; kind < DUE_COUNT; kind++)
		if (duties[kind].duty != NULL)
			due = Min(due, pgqrs_database_due(kind));
	return Max(due, pass_at + PASS_INTERVAL);
}

/* Tells who listens, in transactions of its own. */
static void
notify(void)
{
	if (!pgqrs_database_take(DUE_NOTIFY, pgqrs_clock()) ||
		!pgqrs_batch_begin("notifying"))
		return;
	pgqrs_batch_end();
	pgqrs_database_lower(DUE_NOTIFY, pgqrs_notify_pass());
	active_at = pgqrs_clock();
	MemoryContextSwitchTo(pass_context);
}

/* Does what is due; when there is more to do. */
static TimestampTz
work(void)
{
	notify();
	if (next_pass() <= pgqrs_clock())
		run_pass();
	return Min(next_pass(), pgqrs_database_due(DUE_NOTIFY));
}

/*
 * The process
 */

/* Nothing of what a database or a role is given by ALTER ... SET counts here. */
static void
settle(void)
{
	static const char *const settings[][2] = {
		{"search_path", "pg_catalog, pg_temp"},
		{"default_transaction_isolation", "read committed"},
		{"default_transaction_read_only", "off"},
		{"default_transaction_deferrable", "off"},
		{"lock_timeout", "0"},
		{"statement_timeout", "0"},
		{"idle_in_transaction_session_timeout", "0"},
		{"transaction_timeout", "0"}, /* 17 */
	};

	for (int i = 0; i < lengthof(settings); i++)
		if (GetConfigOption(settings[i][0], true, false) != NULL)
			SetConfigOption(settings[i][0], settings[i][1], PGC_SUSET,
							PGC_S_OVERRIDE);
}

/* By its name, which may have changed since the launcher looked. */
static bool
is_to_be_served(void)
{
	char *name;
	bool served;

	StartTransactionCommand();
	name = get_database_name(MyDatabaseId);
	served = name != NULL && pgqrs_guc_serves(name);
	CommitTransactionCommand();
	return served;
}

/* Whether to go; next: when there is something to do. */
static bool
is_time_to_leave(TimestampTz next)
{
	PgqrsDatabaseState state = pgqrs_database_state();
	TimestampTz now = pgqrs_clock();

	if (pgqrs_paused || pgqrs_database_must_leave() || state == DATABASE_ABSENT ||
		state == DATABASE_OUTDATED || state == DATABASE_SUBSCRIBED)
		return true;
	if (pgqrs_database_others_wait())
		return now < attached_at || now >= attached_at + TURN ||
			(next > now && now >= attached_at + SHORT_TURN);
	return next > now + IDLE_TIME &&
		(now >= active_at + IDLE_TIME || now < active_at);
}

/* Until there is something to do, or the time to leave has come. */
static void
rest(TimestampTz next)
{
	static uint32 wait_event = 0;
	TimestampTz now = pgqrs_clock();

	if (next > now + IDLE_TIME)
		next = active_at + IDLE_TIME;
	if (pgqrs_database_others_wait() && next > now)
		next = Min(next, attached_at + SHORT_TURN);
	pgstat_report_stat(true);
	pgstat_report_activity(STATE_IDLE, NULL);
	WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
			  next <= now ? 0 : (long) ((next - now) / 1000 + 1),
			  pgqrs_wait_event(&wait_event, "PgqrsWorkerMain"));
	ResetLatch(MyLatch);
}

void
pgqrs_maintainer_main(Datum arg)
{
	Oid db = DatumGetObjectId(arg);
	char *served_names = NULL;
	TimestampTz next;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	if (!pgqrs_database_attach(db))
		proc_exit(0);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(db, InvalidOid, 0);
	settle();
	pass_context = AllocSetContextCreate(TopMemoryContext, "pgqrs pass",
										 ALLOCSET_DEFAULT_SIZES);
	attached_at = active_at = pgqrs_clock();

	for (;;)
	{
		MemoryContextSwitchTo(pass_context);
		heed_signals();
		if (served_names == NULL || strcmp(served_names, pgqrs_databases) != 0)
		{
			served_names = MemoryContextStrdup(TopMemoryContext, pgqrs_databases);
			if (!is_to_be_served())
				break;
		}
		next = work();
		if (is_time_to_leave(next))
			break;
		MemoryContextReset(pass_context);
		rest(next);
	}
	pgqrs_database_leaving();
	proc_exit(0);
}
