/*
 * background_worker.c
 *	  Background worker: runs the due duties of one database.
 *
 * The launcher starts it for one database.  It exits after IDLE_TIME without a
 * duty; sooner if other databases wait for a background worker; and at once if
 * the database is held by a DDL command, is no longer to be served, the
 * background worker is dismissed, or pgqrs.paused is set.
 *
 * Each batch of a duty is a transaction of its own; see worker_xact.c.  No batch
 * waits for a row.  A row that raises an error is put into quarantine.  Any other
 * error ends the batch, and the duty is retried after a backoff; the other duties
 * continue.
 *
 * Durations are measured by the monotonic clock.
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
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"

/* An idle background worker exits after this time. */
#define IDLE_TIME (10 * USECS_PER_SEC)

/* The same if other databases wait: with due duties, and without. */
#define TURN	   (1 * USECS_PER_SEC)
#define SHORT_TURN (100 * 1000)

/* The shortest time between two passes. */
#define PASS_INTERVAL (100 * 1000)

/* Consecutive batches of one duty. */
#define MAX_BATCHES 100

/* Passes include the searches, which are never due by themselves, this often. */
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
apply_worker_signals(void)
{
	/* without a message; the due instants stay in shared memory */
	if (ProcDiePending)
		proc_exit(0);
	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
}

/* Work of a duty that begins and ends its own transactions. */
typedef TimestampTz (*DutyStep)(const PgqrsDutyEntry *entry, int64 *done);

/* Runs one batch in a transaction; returns when the duty is due again. */
static TimestampTz
run_batch_in_transaction(const PgqrsDutyEntry *entry, int64 *done)
{
	TimestampTz next;

	if (!pgqrs_worker_xact_begin(entry->activity))
		return DT_NOEND;
	next = pgqrs_duty_run_batch(entry->worker_duty != NULL ? entry->worker_duty :
															 entry->duty,
								done);
	pgqrs_worker_xact_end();
	return next;
}

/* Rolls the transaction back, records the failure of the duty and logs the error. */
static void
record_duty_failure(const PgqrsDutyEntry *entry)
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

/* Runs a step and catches its error; false if it failed. */
static bool
try_step(DutyStep step, const PgqrsDutyEntry *entry, int64 *done, TimestampTz *next)
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
		record_duty_failure(entry);
		succeeded = false;
	}
	PG_END_TRY();
	if (succeeded)
		pgqrs_database_duty_done(entry->id);
	else
		memcpy(done, before, sizeof(before));
	return succeeded;
}

/* Runs batches until none is due, up to MAX_BATCHES; returns when the duty is due again. */
static TimestampTz
run_duty(const PgqrsDutyEntry *entry, int64 *done)
{
	TimestampTz next = 0;

	for (int i = 0; i < MAX_BATCHES && next == 0; i++)
	{
		apply_worker_signals();
		if (pgqrs_database_must_leave() ||
			!try_step(run_batch_in_transaction, entry, done, &next))
			break;
	}
	return next;
}

/* Whether the duty did not fail, or its backoff is over. */
static bool
may_retry(PgqrsDutyId id)
{
	PgqrsDutyFailure failure;

	pgqrs_database_duty_failure(id, &failure);
	return failure.failures == 0 || failure.retry_at <= pgqrs_monotonic();
}

static bool
run_if_due(PgqrsDutyId id, int64 *done)
{
	const PgqrsDutyEntry *entry = pgqrs_duty_find(id);

	if (entry == NULL || !pgqrs_database_take_duty(id, pgqrs_clock()))
		return false;
	pgqrs_database_set_earlier(id, run_duty(entry, done));
	return true;
}

static void
run_searches(int64 *done)
{
	static const PgqrsDutyId searches[] = {DUTY_FLOOR_SWEEP, DUTY_EXHAUSTED,
										   DUTY_QUEUE_WAKEUPS};

	if (!pgqrs_database_may_search(SEARCH_INTERVAL))
		return;
	for (int i = 0; i < lengthof(searches); i++)
		if (may_retry(searches[i]))
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
 * Runs the due duties.  On a full disk the duty that frees space comes first.
 * Counters are flushed after any call of a client, which says nothing of other
 * work.
 */
static void
run_pass(void)
{
	int64 done[DONE_COUNT] = {0};
	bool any = disk_is_full() && run_if_due(DUTY_RETENTION, done);

	for (int id = 0; id < TIMED_DUTY_COUNT; id++)
		any |= run_if_due(id, done) && id != DUTY_COUNTERS;
	if (!any)
		return;
	run_searches(done);
	pgqrs_database_record_pass(done);
	active_at = pass_at = pgqrs_monotonic();
}

/* When the next pass is due. */
static TimestampTz
next_pass_at(void)
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

static TimestampTz
run_notify(const PgqrsDutyEntry *entry, int64 *done)
{
	if (!pgqrs_worker_xact_begin(entry->activity))
		return DT_NOEND;
	pgqrs_worker_xact_end();
	return pgqrs_notify_pass();
}

/* Sends the due notifications to listening sessions. */
static void
send_due_notifications(void)
{
	static const PgqrsDutyEntry entry = {.id = DUTY_NOTIFY,
										 .name = "notifications",
										 .activity = "notifying"};
	int64 done[DONE_COUNT] = {0};
	TimestampTz next = 0;

	if (pgqrs_notify_not_before() > pgqrs_clock_peek() ||
		!pgqrs_database_take_duty(DUTY_NOTIFY, pgqrs_clock()))
		return;
	if (!try_step(run_notify, &entry, done, &next))
		pgqrs_notify_republish();
	pgqrs_database_set_earlier(DUTY_NOTIFY, next);
	active_at = pgqrs_monotonic();
	MemoryContextSwitchTo(pass_context);
}

/* Runs a pass, if one is due; returns when the next one is. */
static TimestampTz
run_due_work(void)
{
	send_due_notifications();
	if (next_pass_at() <= pgqrs_clock())
		run_pass();
	return Min(next_pass_at(),
			   Max(pgqrs_database_due(DUTY_NOTIFY), pgqrs_notify_not_before()));
}

/*
 * The process
 */

/* Overrides settings of ALTER DATABASE ... SET and ALTER ROLE ... SET. */
static void
pin_settings(void)
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

/* Checks the database's name again, since it may have changed after the start. */
static bool
is_database_served(void)
{
	char *name;
	bool served;

	StartTransactionCommand();
	name = get_database_name(MyDatabaseId);
	served = name != NULL && pgqrs_guc_serves(name);
	CommitTransactionCommand();
	return served;
}

/* Whether the background worker should exit; next: when the next pass is due. */
static bool
is_time_to_exit(TimestampTz next)
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

/* Waits until a pass or the exit is due, or a signal. */
static void
wait_for_work(TimestampTz next)
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
	pin_settings();
	pass_context = AllocSetContextCreate(TopMemoryContext, "pgqrs pass",
										 ALLOCSET_DEFAULT_SIZES);
	attached_at = active_at = pgqrs_monotonic();

	for (;;)
	{
		MemoryContextSwitchTo(pass_context);
		apply_worker_signals();
		if (served_names == NULL || strcmp(served_names, pgqrs_databases) != 0)
		{
			served_names = MemoryContextStrdup(TopMemoryContext, pgqrs_databases);
			if (!is_database_served())
				break;
		}
		next = run_due_work();
		if (is_time_to_exit(next))
			break;
		MemoryContextReset(pass_context);
		wait_for_work(next);
	}
	pgqrs_database_leaving();
	proc_exit(0);
}
