/*
 * launcher.c
 *	  Launcher: starts a background worker for each database with due duties.
 *
 * One process per server, except on a standby.  The launcher is connected to no
 * database and reads only pg_database, once a minute and after a change.  The due
 * instants of each database are in shared memory (database_registry.c); the
 * launcher sleeps until the earliest of them or until its latch is set.
 *
 * At most pgqrs.max_workers background workers run.  If more databases have due
 * duties, the database that was served the longest ago comes first, and background
 * workers exit after a turn.  After the failure of a background worker its
 * database is retried with a growing backoff; so is the server while it has no
 * free background worker slot.
 *
 *	Event							Effect
 *
 *	CREATE EXTENSION, committed		the database is probed by a background worker
 *	... rolled back					none
 *	DROP EXTENSION, committed		the background worker exits
 *	CREATE DATABASE, ALTER DATABASE	pg_database is read
 *	DROP DATABASE					the database's entry is removed
 *	too many databases				some get no entry; entries of dropped
 *									databases, and of those that are not to be
 *									served, are replaced
 *	DROP, RENAME, SET TABLESPACE,
 *	or use as a TEMPLATE			held by ddl_hooks.c: the background worker
 *									exits first
 *	error of a background worker	retry after 1 s, 2 s ... 60 s
 *	exit of the launcher			the postmaster starts another one, which
 *									finds the background workers in shared memory
 *	promotion						the launcher starts and probes every database
 *	pgqrs.paused					no background worker starts, all exit
 */
#include "background/launcher.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "base/clock.h"
#include "base/compat.h"
#include "base/guc.h"
#include "catalog/pg_database.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "shmem/counters.h"
#include "shmem/database_registry.h"
#include "shmem/wakeup_table.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* pg_database is read at least this often. */
#define READ_INTERVAL (60 * USECS_PER_SEC)

/* Databases without an entry that one log message names. */
#define MAX_NAMED 20

/* The backoff while the server has no free background worker slot. */
#define MIN_BACKOFF (1 * USECS_PER_SEC)
#define MAX_BACKOFF (10 * USECS_PER_SEC)

/* The maximum of pgqrs.max_workers, and as many that are about to exit. */
#define MAX_HANDLES 128

PGDLLEXPORT void pgqrs_launcher_main(Datum arg);

/* A background worker that this process started and that has not exited. */
typedef struct StartedWorker
{
	BackgroundWorkerHandle *handle;
	Oid db;
} StartedWorker;

static StartedWorker started_workers[MAX_HANDLES];
static int started_count = 0;

/* The databases to serve, as of the last read of pg_database. */
static Oid served_databases[PGQRS_MAX_DATABASES];
static int served_count = 0;
static TimestampTz read_at = 0;

/* Without a free background worker slot: the current backoff and its end. */
static int64 slot_backoff = 0;
static TimestampTz retry_at = 0;

/*
 * The list of databases
 */

/* A connection limit of -2 marks a database whose DROP DATABASE was interrupted. */
static bool
is_to_be_served(Form_pg_database form)
{
	return form->datallowconn && !form->datistemplate &&
		form->datconnlimit >= -1 && pgqrs_guc_serves(NameStr(form->datname));
}

static void
forget_dropped_databases(void)
{
	Oid *dropped = palloc(PGQRS_MAX_DATABASES * sizeof(Oid));
	int count = pgqrs_databases_sweep(dropped);

	for (int i = 0; i < count; i++)
	{
		pgqrs_wakeup_forget_database(dropped[i]);
		pgqrs_counters_forget_database(dropped[i]);
	}
	pfree(dropped);
}

/* Lists the databases to serve, and their names. */
static void
scan_databases(List **ids, List **names)
{
	Relation rel;
	SysScanDesc scan;
	HeapTuple tuple;

	(void) GetTransactionSnapshot();
	rel = table_open(DatabaseRelationId, AccessShareLock);
	scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);
		bool serve = is_to_be_served(form);

		pgqrs_databases_record(form->oid, serve);
		if (!serve)
			continue;
		*ids = lappend_oid(*ids, form->oid);
		*names = lappend(*names, pstrdup(NameStr(form->datname)));
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
}

/* Logs the databases without an entry, if the last list lacks one of them. */
static void
log_left_out(List *ids, List *names)
{
	static List *last = NIL;
	int count = list_length(names);
	int named = Min(count, MAX_NAMED);
	MemoryContext old;
	StringInfoData list;

	if (list_difference_oid(ids, last) != NIL)
	{
		initStringInfo(&list);
		for (int i = 0; i < named; i++)
			appendStringInfo(&list, "%s\"%s\"", i == 0 ? "" : ", ",
							 (char *) list_nth(names, i));
		if (count > named)
			appendStringInfo(&list, " and %d more", count - named);
		ereport(LOG,
				(errmsg("there are more databases than pgqrs can serve"),
				 errdetail("At most %d databases are served. No background work is done in %s.",
						   PGQRS_MAX_DATABASES, list.data),
				 errhint("List the databases that have the extension in pgqrs.databases.")));
	}
	list_free(last);
	old = MemoryContextSwitchTo(TopMemoryContext);
	last = list_copy(ids);
	MemoryContextSwitchTo(old);
}

/* Gives each database an entry, while there are free ones. */
static void
place_databases(List *ids, List *names)
{
	List *left_out = NIL;
	List *left_out_names = NIL;
	ListCell *id;
	ListCell *name;

	served_count = 0;
	forboth(id, ids, name, names)
	{
		Oid displaced;

		if (pgqrs_databases_assign_entry(lfirst_oid(id), &displaced))
			served_databases[served_count++] = lfirst_oid(id);
		else
		{
			left_out = lappend_oid(left_out, lfirst_oid(id));
			left_out_names = lappend(left_out_names, lfirst(name));
		}
		if (OidIsValid(displaced))
			pgqrs_wakeup_forget_database(displaced);
	}
	log_left_out(left_out, left_out_names);
}

/*
 * Entries that backends add meanwhile are kept, since the snapshot may be older
 * than their databases.
 */
static void
read_databases(void)
{
	List *ids = NIL;
	List *names = NIL;

	pgqrs_databases_mark();
	StartTransactionCommand();
	scan_databases(&ids, &names);
	forget_dropped_databases();
	place_databases(ids, names);
	CommitTransactionCommand();
	read_at = pgqrs_clock();
}

static bool
is_served(Oid db)
{
	for (int i = 0; i < served_count; i++)
		if (served_databases[i] == db)
			return true;
	return false;
}

/*
 * Background workers
 */

/*
 * Removes the handles of background workers that have exited, and records those
 * that exited before they attached to their database.
 */
static void
forget_exited_workers(void)
{
	int count = 0;

	for (int i = 0; i < started_count; i++)
	{
		pid_t pid;

		switch (GetBackgroundWorkerPid(started_workers[i].handle, &pid))
		{
			case BGWH_STOPPED:
				pgqrs_databases_not_started(started_workers[i].db, true);
				pfree(started_workers[i].handle);
				retry_at = 0;
				break;
			case BGWH_POSTMASTER_DIED:
				proc_exit(1);
				break;
			default:
				started_workers[count++] = started_workers[i];
		}
	}
	started_count = count;
}

static bool
has_started_worker(Oid db)
{
	for (int i = 0; i < started_count; i++)
		if (started_workers[i].db == db)
			return true;
	return false;
}

/* The number of background workers, including those of an earlier launcher. */
static int
count_workers(const PgqrsDatabase *list, int count)
{
	int workers = started_count;

	for (int i = 0; i < count; i++)
		if ((list[i].attached || list[i].starting) &&
			!has_started_worker(list[i].db))
			workers++;
	return workers;
}

/* Begins or doubles the backoff; logs the first one. */
static void
begin_backoff(TimestampTz now)
{
	if (slot_backoff == 0)
		ereport(LOG,
				(errmsg("no free slot for a background worker of pgqrs"),
				 errhint("Raise max_worker_processes and restart the server.")));
	slot_backoff = slot_backoff == 0 ? MIN_BACKOFF :
									   Min(2 * slot_backoff, MAX_BACKOFF);
	retry_at = now + slot_backoff;
}

/* False if the server has no free background worker slot. */
static bool
start_worker(Oid db, TimestampTz now)
{
	BackgroundWorkerHandle *handle;
	BackgroundWorker worker = {
		.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION,
		.bgw_start_time = BgWorkerStart_RecoveryFinished,
		.bgw_restart_time = BGW_NEVER_RESTART,
		.bgw_main_arg = ObjectIdGetDatum(db),
		.bgw_notify_pid = MyProcPid,
		.bgw_type = "pgqrs worker",
		.bgw_library_name = "pgqrs",
		.bgw_function_name = "pgqrs_background_worker_main",
	};

	if (!pgqrs_databases_starting(db))
		return true;
	snprintf(worker.bgw_name, BGW_MAXLEN, "pgqrs worker for database %u", db);
	if (started_count == MAX_HANDLES ||
		!RegisterDynamicBackgroundWorker(&worker, &handle))
	{
		pgqrs_databases_not_started(db, false);
		begin_backoff(now);
		return false;
	}
	slot_backoff = 0;
	started_workers[started_count].handle = handle;
	started_workers[started_count++].db = db;
	return true;
}

static bool
needs_worker(const PgqrsDatabase *database)
{
	return (database->state == DATABASE_UNKNOWN ||
			database->state == DATABASE_SERVED) &&
		!database->held && !database->starting && !database->attached &&
		!has_started_worker(database->db) && is_served(database->db);
}

/* The database that was served the longest ago comes first. */
static int
compare_served(const void *a, const void *b)
{
	TimestampTz x = ((const PgqrsDatabase *) a)->served;
	TimestampTz y = ((const PgqrsDatabase *) b)->served;

	return (x > y) - (x < y);
}

/*
 * Dismisses the background workers of databases that are no longer to be served,
 * and any others up to the surplus.
 */
static void
dismiss_workers(const PgqrsDatabase *list, int count, int surplus)
{
	for (int i = 0; i < count; i++)
	{
		if (!list[i].attached || (surplus <= 0 && is_served(list[i].db)))
			continue;
		pgqrs_databases_dismiss(list[i].db);
		surplus--;
	}
}

/* Starts the due background workers; returns when the next one is due. */
static TimestampTz
start_workers(void)
{
	PgqrsDatabase *list = palloc(PGQRS_MAX_DATABASES * sizeof(PgqrsDatabase));
	int count = pgqrs_databases_list(list);
	int room = pgqrs_max_workers - count_workers(list, count);
	TimestampTz now = pgqrs_clock();
	TimestampTz next = DT_NOEND;
	int waiting = 0;

	dismiss_workers(list, count, -room);
	qsort(list, count, sizeof(PgqrsDatabase), compare_served);
	for (int i = 0; i < count; i++)
	{
		if (!needs_worker(&list[i]))
			continue;
		if (list[i].due > now)
			next = Min(next, list[i].due);
		else if (room > 0 && retry_at <= now && start_worker(list[i].db, now))
			room--;
		else
			waiting++;
	}
	if (waiting > 0 && retry_at > now)
		next = Min(next, retry_at);
	pgqrs_databases_set_waiting(waiting);
	pfree(list);
	return next;
}

/*
 * The process
 */

/*
 * After a change of the configuration or of the clock: makes all duties due whose
 * instants may have changed.  Queues and run wake-ups have no such instant.
 */
static void
make_everything_due(void)
{
	for (int kind = 0; kind < TIMED_DUTY_COUNT; kind++)
		if (kind != DUTY_RUN_WAKEUPS && kind != DUTY_QUEUES)
			pgqrs_databases_request_duty(kind);
	read_at = 0;
}

static void
apply_launcher_signals(void)
{
	/* without a message; the exit status makes the postmaster restart the launcher */
	if (ProcDiePending)
		proc_exit(1);
	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
		make_everything_due();
	}
}

static long
launcher_sleep_time(TimestampTz at)
{
	TimestampTz now = pgqrs_clock();

	at = Min(at, now + READ_INTERVAL);
	return at <= now ? 0 : (long) ((at - now) / 1000 + 1);
}

void
pgqrs_launcher_main(Datum arg)
{
	static uint32 wait_event = 0;
	TimestampTz stepped_at = 0;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	pgqrs_databases_launcher_begin();
	pgqrs_clock_watch(MyLatch);

	for (;;)
	{
		TimestampTz next = DT_NOEND;

		apply_launcher_signals();
		(void) pgqrs_clock();
		if (stepped_at != pgqrs_clock_stepped_at())
		{
			stepped_at = pgqrs_clock_stepped_at();
			retry_at = 0;
			make_everything_due();
		}
		forget_exited_workers();
		if (pgqrs_databases_reset_changed() ||
			read_at <= pgqrs_clock() - READ_INTERVAL)
			read_databases();
		if (!pgqrs_paused)
			next = start_workers();
		pgstat_report_activity(STATE_IDLE, NULL);
		WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
				  launcher_sleep_time(next),
				  pgqrs_wait_event(&wait_event, "PgqrsLauncherMain"));
		ResetLatch(MyLatch);
	}
}

void
pgqrs_launcher_init(void)
{
	BackgroundWorker launcher = {
		.bgw_name = "pgqrs launcher",
		.bgw_type = "pgqrs launcher",
		.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION,
		.bgw_start_time = BgWorkerStart_RecoveryFinished,
		.bgw_restart_time = 1,
		.bgw_library_name = "pgqrs",
		.bgw_function_name = "pgqrs_launcher_main",
	};

	if (!IsBinaryUpgrade)
		RegisterBackgroundWorker(&launcher);
}
