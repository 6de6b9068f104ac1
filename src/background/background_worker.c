/*
 * background_worker.c
 *	  The background worker of a database: does what is due.
 *
 * Started by the launcher for one database.  It stays while there is something
 * to do and leaves after a while without; sooner if other databases wait for a
 * worker, and at once when the database is held, the worker dismissed, the
 * database not to be served any more, or all background work paused.
 *
 * Each batch of a duty is a transaction of its own, as worker_xact.c makes them.  No
 * row is ever waited for, and one at which a duty fails is passed over.  Any
 * other error ends the batch of that duty, which is tried again after a while;
 * the other duties are done all the same.
 *
 * Spans of time are measured by a clock that is never set.
 */
#include "postgres.h"

#include "access/xact.h"
#include "background/duties.h"
#include "background/notifier.h"
#include "background/worker_xact.h"
#include "base/clock.h"
#include "base/compat.h"
#include "base/guc.h"
#include "commands/dbcommands.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "shmem/database_registry.h"
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

PGDLLEXPORT void pgqrs_background_worker_main(Datum arg);

static MemoryContext pass_context;
static int64 attached_at;
static int64 active_at;
static int64 pass_at = 0;

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

/* A step of a duty, which ends its transactions itself. */
typedef TimestampTz (*Step)(const PgqrsDutyEntry *entry, int64 *done);

/* One batch in its transaction; when there is more. */
static TimestampTz
run_batch(const PgqrsDutyEntry *entry, int64 *done)
{
	TimestampTz next;

	if (!pgqrs_worker_xact_begin(entry->activity))
		return DT_NOEND;
	next = pgqrs_duty_run_batch(entry->gentle != NULL ? entry->gentle : entry->duty,
								done);
	pgqrs_worker_xact_end();
	return next;
}

/* The error is logged, the transaction rolled back, and the duty tried later. */
static void
note_failure(const PgqrsDutyEntry *entry)
{
	ErrorData *error;

	MemoryContextSwitchTo(pass_context);
	error = CopyErrorData();
	HOLD_INTERRUPTS();
	FlushErrorState();
	AbortCurrentTransaction();
	RESUME_INTERRUPTS();
	MemoryContextSwitchTo(pass_context);
	pgqrs_database_duty_failed(entry->id, error->sqlerrcode, error->message);
	ereport(WARNING,
			(errcode(error->sqlerrcode),
			 errmsg("duty \"%s\" of the background worker failed: %s",
					entry->name, error->message),
			 error->detail != NULL ? errdetail("%s", error->detail) : 0,
			 error->hint != NULL ? errhint("%s", error->hint) : 0,
			 error->context != NULL ? errcontext("%s", error->context) : 0));
}

/* Runs a step, whatever goes wrong; false: it failed. */
static bool
try_step(Step step, const PgqrsDutyEntry *entry, int64 *done, TimestampTz *next)
{
	int64 before[DONE_COUNT];
	volatile bool succeeded = true;

	memcpy(before, done, sizeof(before));
	PG_TRY();
	{
		*next = step(entry, done);
	}
	PG_CATCH();
	{
		note_failure(entry);
		succeeded = false;
	}
	PG_END_TRY();
	if (succeeded)
		pgqrs_database_duty_done(entry->id);
	else
		memcpy(done, before, sizeof(before));
	return succeeded;
}

/* Batches until nothing is left, within reason; when there is more. */
static TimestampTz
run_duty(const PgqrsDutyEntry *entry, int64 *done)
{
	TimestampTz next = 0;

	for (int i = 0; i < MAX_BATCHES && next == 0; i++)
	{
		heed_signals();
		if (pgqrs_database_must_leave() || !try_step(run_batch, entry, done, &next))
			break;
	}
	return next;
}

/* Whether it may be tried again, if it failed. */
static bool
may_try(PgqrsDutyId id)
{
	PgqrsDutyFailure failure;

	pgqrs_database_duty_failure(id, &failure);
	return failure.failures == 0 || failure.retry_at <= pgqrs_monotonic();
}

static bool
run_if_due(PgqrsDutyId id, int64 *done)
{
	const PgqrsDutyEntry *entry = pgqrs_duty_find(id);

	if (entry == NULL || !pgqrs_database_take(id, pgqrs_clock()))
		return false;
	pgqrs_database_lower(id, run_duty(entry, done));
	return true;
}

static void
search(int64 *done)
{
	static const PgqrsDutyId searches[] = {DUTY_FLOOR_SWEEP, DUTY_EXHAUSTED,
										   DUTY_QUEUE_WAKEUPS};

	if (!pgqrs_database_may_search(SEARCH_INTERVAL))
		return;
	for (int i = 0; i < lengthof(searches); i++)
		if (may_try(searches[i]))
			(void) run_duty(pgqrs_duty_find(searches[i]), done);
}

static bool
disk_is_full(void)
{
	for (int id = 0; id < DUTY_COUNT; id++)
	{
		PgqrsDutyFailure failure;

		pgqrs_database_duty_failure(id, &failure);
		if (failure.failures > 0 && failure.sqlerrcode == ERRCODE_DISK_FULL)
			return true;
	}
	return false;
}

/*
 * The maintenance that is due.  What makes room does not wait for what needs
 * some.
 */
static void
run_pass(void)
{
	int64 done[DONE_COUNT] = {0};
	bool any = disk_is_full() && run_if_due(DUTY_RETENTION, done);

	for (int id = 0; id < TIMED_DUTY_COUNT; id++)
		any |= run_if_due(id, done);
	if (!any)
		return;
	search(done);
	pgqrs_database_note_pass(done);
	active_at = pass_at = pgqrs_monotonic();
}

/* When the next pass is due. */
static TimestampTz
next_pass(void)
{
	TimestampTz due = DT_NOEND;
	int64 passed = pgqrs_monotonic() - pass_at;

	for (int id = 0; id < TIMED_DUTY_COUNT; id++)
		if (pgqrs_duty_find(id) != NULL)
			due = Min(due, pgqrs_database_due(id));
	return passed < PASS_INTERVAL ?
		Max(due, pgqrs_clock_peek() + PASS_INTERVAL - passed) :
		due;
}

/* In transactions of its own. */
static TimestampTz
run_notify(const PgqrsDutyEntry *entry, int64 *done)
{
	if (!pgqrs_worker_xact_begin(entry->activity))
		return DT_NOEND;
	pgqrs_worker_xact_end();
	return pgqrs_notify_pass();
}

/* Tells sessions that listen. */
static void
notify(void)
{
	static const PgqrsDutyEntry entry = {.id = DUTY_NOTIFY,
										 .name = "notifications",
										 .activity = "notifying"};
	int64 done[DONE_COUNT] = {0};
	TimestampTz next = 0;

	if (pgqrs_notify_not_before() > pgqrs_clock_peek() ||
		!pgqrs_database_take(DUTY_NOTIFY, pgqrs_clock()))
		return;
	if (!try_step(run_notify, &entry, done, &next))
		pgqrs_notify_put_back();
	pgqrs_database_lower(DUTY_NOTIFY, next);
	active_at = pgqrs_monotonic();
	MemoryContextSwitchTo(pass_context);
}

/* Does what is due; when there is more to do. */
static TimestampTz
work(void)
{
	notify();
	if (next_pass() <= pgqrs_clock())
		run_pass();
	return Min(next_pass(),
			   Max(pgqrs_database_due(DUTY_NOTIFY), pgqrs_notify_not_before()));
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
	int64 monotonic = pgqrs_monotonic();

	if (pgqrs_paused || pgqrs_database_must_leave() || state == DATABASE_ABSENT ||
		state == DATABASE_OUTDATED || state == DATABASE_SUBSCRIBED)
		return true;
	if (pgqrs_database_others_wait())
		return monotonic >= attached_at + TURN ||
			(next > now && monotonic >= attached_at + SHORT_TURN);
	return next > now + IDLE_TIME && monotonic >= active_at + IDLE_TIME;
}

/* Until there is something to do, or the time to leave has come. */
static void
rest(TimestampTz next)
{
	static uint32 wait_event = 0;
	TimestampTz now = pgqrs_clock();
	int64 monotonic = pgqrs_monotonic();

	if (next > now + IDLE_TIME)
		next = now + active_at + IDLE_TIME - monotonic;
	if (pgqrs_database_others_wait() && next > now)
		next = Min(next, now + attached_at + SHORT_TURN - monotonic);
	pgstat_report_stat(true);
	pgstat_report_activity(STATE_IDLE, NULL);
	WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
			  next <= now ? 0 : (long) ((next - now) / 1000 + 1),
			  pgqrs_wait_event(&wait_event, "PgqrsWorkerMain"));
	ResetLatch(MyLatch);
}

void
pgqrs_background_worker_main(Datum arg)
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
	attached_at = active_at = pgqrs_monotonic();

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
