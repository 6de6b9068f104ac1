/*
 * launcher.c
 *	  The process that starts background workers where they are needed.
 *
 * One per server, while it is no standby.  It is connected to no database and
 * reads nothing but pg_database, once a minute and when somebody changed it.
 * What each database needs, and when, is in shared memory (database_registry.c); the
 * launcher sleeps until the earliest of it or until it is woken.
 *
 * There are at most pgqrs.max_workers workers.  Where more databases need one,
 * those that waited longest come first, and workers that see others wait leave
 * after a turn.  A database whose worker failed is left alone for a while,
 * longer each time; so is the server when it has no room for a worker.
 *
 * What happens when:
 *
 *	CREATE EXTENSION, committed		the database is probed: a worker looks
 *	... rolled back					nothing
 *	DROP EXTENSION, committed		the worker finds nothing and leaves
 *	CREATE DATABASE, ALTER DATABASE	pg_database is read
 *	DROP DATABASE					its entry is forgotten
 *	too many databases				some get no entry: what is not to be served
 *									makes room, and so does what is dropped
 *	DROP, RENAME, SET TABLESPACE,
 *	or use as a TEMPLATE			held by ddl_hooks.c: the worker leaves first
 *	a worker ends in an error		tried again after 1 s, 2 s ... 60 s
 *	the launcher ends				the postmaster starts another, which finds
 *									the workers in shared memory
 *	promotion						it starts, and probes every database
 *	pgqrs.paused					it starts nobody, and workers leave
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
#include "shmem/database_registry.h"
#include "shmem/wakeup_table.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/procsignal.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

/* pg_database is read at least this often. */
#define READ_INTERVAL (60 * USECS_PER_SEC)

/* At most so many databases that are not served are named in the log. */
#define MAX_NAMED 20

/* How long to wait when the server has no room for a worker. */
#define MIN_BACKOFF (1 * USECS_PER_SEC)
#define MAX_BACKOFF (10 * USECS_PER_SEC)

/* As pgqrs.max_workers may be; more may be leaving. */
#define MAX_HANDLES 128

PGDLLEXPORT void pgqrs_launcher_main(Datum arg);

/* A worker that was started by this process and has not ended. */
typedef struct Started
{
	BackgroundWorkerHandle *handle;
	Oid db;
} Started;

static Started started[MAX_HANDLES];
static int started_count = 0;

/* The databases that may be served, of the last look at pg_database. */
static Oid served[PGQRS_MAX_DATABASES];
static int served_count = 0;
static TimestampTz read_at = 0;

/* No room for a worker: how long to wait this time, and until when. */
static int64 backoff = 0;
static TimestampTz retry_at = 0;

/*
 * The list of databases
 */

/* A connection limit of -2 marks what a DROP DATABASE left half dropped. */
static bool
may_serve(Form_pg_database form)
{
	return form->datallowconn && !form->datistemplate &&
		form->datconnlimit >= -1 && pgqrs_guc_serves(NameStr(form->datname));
}

static void
forget_dropped(void)
{
	Oid *dropped = palloc(PGQRS_MAX_DATABASES * sizeof(Oid));
	int count = pgqrs_databases_sweep(dropped);

	for (int i = 0; i < count; i++)
		pgqrs_wakeup_forget_database(dropped[i]);
	pfree(dropped);
}

/* The databases that are to be served, and their names. */
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
		bool serve = may_serve(form);

		pgqrs_databases_see(form->oid, serve);
		if (!serve)
			continue;
		*ids = lappend_oid(*ids, form->oid);
		*names = lappend(*names, pstrdup(NameStr(form->datname)));
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
}

/* Those without a place; logged when there is one that was not among them last time. */
static void
note_left_out(List *ids, List *names)
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
				 errdetail("There is room for %d. Nothing is done in the background in %s.",
						   PGQRS_MAX_DATABASES, list.data),
				 errhint("Name those that have the extension in pgqrs.databases.")));
	}
	list_free(last);
	old = MemoryContextSwitchTo(TopMemoryContext);
	last = list_copy(ids);
	MemoryContextSwitchTo(old);
}

/* Those that have no place get one, as far as there is room. */
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

		if (pgqrs_databases_place(lfirst_oid(id), &displaced))
			served[served_count++] = lfirst_oid(id);
		else
		{
			left_out = lappend_oid(left_out, lfirst_oid(id));
			left_out_names = lappend(left_out_names, lfirst(name));
		}
		if (OidIsValid(displaced))
			pgqrs_wakeup_forget_database(displaced);
	}
	note_left_out(left_out, left_out_names);
}

/*
 * What backends add to the list meanwhile stays there; the snapshot may be too
 * old to know of it.
 */
static void
read_databases(void)
{
	List *ids = NIL;
	List *names = NIL;

	pgqrs_databases_mark();
	StartTransactionCommand();
	scan_databases(&ids, &names);
	forget_dropped();
	place_databases(ids, names);
	CommitTransactionCommand();
	read_at = pgqrs_clock();
}

static bool
is_served(Oid db)
{
	for (int i = 0; i < served_count; i++)
		if (served[i] == db)
			return true;
	return false;
}

/*
 * Workers
 */

/*
 * Forgets workers that have ended, each of which leaves room for another; of
 * those that never attached, takes note.
 */
static void
forget_ended(void)
{
	int count = 0;

	for (int i = 0; i < started_count; i++)
	{
		pid_t pid;

		switch (GetBackgroundWorkerPid(started[i].handle, &pid))
		{
			case BGWH_STOPPED:
				pgqrs_databases_not_started(started[i].db, true);
				pfree(started[i].handle);
				retry_at = 0;
				break;
			case BGWH_POSTMASTER_DIED:
				proc_exit(1);
				break;
			default:
				started[count++] = started[i];
		}
	}
	started_count = count;
}

static bool
is_started(Oid db)
{
	for (int i = 0; i < started_count; i++)
		if (started[i].db == db)
			return true;
	return false;
}

/* Workers that there are, those of an earlier launcher included. */
static int
count_workers(const PgqrsDatabase *list, int count)
{
	int workers = started_count;

	for (int i = 0; i < count; i++)
		if ((list[i].attached || list[i].starting) && !is_started(list[i].db))
			workers++;
	return workers;
}

/* Logs the first time only. */
static void
no_room(TimestampTz now)
{
	if (backoff == 0)
		ereport(LOG,
				(errmsg("no room for a background worker of pgqrs"),
				 errhint("Raise max_worker_processes and restart the server.")));
	backoff = backoff == 0 ? MIN_BACKOFF : Min(2 * backoff, MAX_BACKOFF);
	retry_at = now + backoff;
}

/* False: there is no room for it. */
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
		no_room(now);
		return false;
	}
	backoff = 0;
	started[started_count].handle = handle;
	started[started_count++].db = db;
	return true;
}

static bool
needs_worker(const PgqrsDatabase *database)
{
	return (database->state == DATABASE_UNKNOWN ||
			database->state == DATABASE_SERVED) &&
		!database->held && !database->starting && !database->attached &&
		!is_started(database->db) && is_served(database->db);
}

/* Who was served the longest ago comes first. */
static int
compare_served(const void *a, const void *b)
{
	TimestampTz x = ((const PgqrsDatabase *) a)->served;
	TimestampTz y = ((const PgqrsDatabase *) b)->served;

	return (x > y) - (x < y);
}

/*
 * Workers leave whose database is not to be served any more, or that are too
 * many; which ones does not matter.
 */
static void
dismiss(const PgqrsDatabase *list, int count, int surplus)
{
	for (int i = 0; i < count; i++)
	{
		if (!list[i].attached || (surplus <= 0 && is_served(list[i].db)))
			continue;
		pgqrs_databases_dismiss(list[i].db);
		surplus--;
	}
}

/* Starts what is due; when to look again, if nobody wakes us before. */
static TimestampTz
start_workers(void)
{
	PgqrsDatabase *list = palloc(PGQRS_MAX_DATABASES * sizeof(PgqrsDatabase));
	int count = pgqrs_databases_list(list);
	int room = pgqrs_max_workers - count_workers(list, count);
	TimestampTz now = pgqrs_clock();
	TimestampTz next = DT_NOEND;
	int waiting = 0;

	dismiss(list, count, -room);
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

/* When duties are due may have changed; queues and parked runs have no such time. */
static void
look_at_everything(void)
{
	for (int kind = 0; kind < TIMED_DUTY_COUNT; kind++)
		if (kind != DUTY_RUN_WAKEUPS && kind != DUE_QUEUES)
			pgqrs_databases_poke_all(kind);
	read_at = 0;
}

static void
heed_signals(void)
{
	/* quietly, with a status that has the postmaster start another */
	if (ProcDiePending)
		proc_exit(1);
	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
		look_at_everything();
	}
}

static long
milliseconds_until(TimestampTz at)
{
	TimestampTz now = pgqrs_clock();

	at = Min(at, now + READ_INTERVAL);
	return at <= now ? 0 : (long) ((at - now) / 1000 + 1);
}

static bool
is_read(void)
{
	return read_at > pgqrs_clock() - READ_INTERVAL;
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

		heed_signals();
		(void) pgqrs_clock();
		if (stepped_at != pgqrs_clock_stepped_at())
		{
			stepped_at = pgqrs_clock_stepped_at();
			retry_at = 0;
			look_at_everything();
		}
		forget_ended();
		if (pgqrs_databases_take_changed() || !is_read())
			read_databases();
		if (!pgqrs_paused)
			next = start_workers();
		pgstat_report_activity(STATE_IDLE, NULL);
		WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
				  milliseconds_until(next),
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
