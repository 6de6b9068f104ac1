/*
 * guc.c
 *	  Settings.  Only the administrator can change them, never a session.
 */
#include "base/guc.h"

#include <limits.h>

#include "miscadmin.h"
#include "utils/guc.h"
#include "utils/varlena.h"

#define PREFIX "pgqrs."

bool pgqrs_async_claims = true;
bool pgqrs_audit = false;
int pgqrs_clock_offset = 0;
char *pgqrs_databases = NULL;
int pgqrs_heartbeat_flush = 10000;
int pgqrs_max_floors = 4096;
int pgqrs_max_workers = 2;
bool pgqrs_paused = false;
int pgqrs_payload_max = 2 * 1024 * 1024;
int pgqrs_payload_warn = 1024 * 1024;
int pgqrs_time_passed = 0;
int pgqrs_worker_timeout = 60000;

/* Checks a list of names in the syntax of identifiers. */
static bool
check_databases(char **newval, void **extra, GucSource source)
{
	char *copy = pstrdup(*newval);
	List *names;
	bool ok = SplitIdentifierString(copy, ',', &names);

	if (!ok)
		GUC_check_errdetail("List syntax is invalid.");
	list_free(names);
	pfree(copy);
	return ok;
}

bool
pgqrs_guc_serves(const char *database)
{
	char *copy = pstrdup(pgqrs_databases);
	bool found = false;
	List *names;
	ListCell *lc;

	if (SplitIdentifierString(copy, ',', &names))
		foreach(lc, names)
			found = found || strcmp(lfirst(lc), "*") == 0 ||
				strcmp(lfirst(lc), database) == 0;
	list_free(names);
	pfree(copy);
	return found;
}

/*
 * A value that a client or a role set before the library was loaded replaces
 * the value of the configuration files, and is refused when the setting is
 * defined.  So the files are read again; of this session's settings, only those
 * of pgqrs are set.
 */
static void
apply_files(void)
{
	ConfigVariable *head = NULL;
	ConfigVariable *tail = NULL;
	char *automatic = psprintf("%s/%s", DataDir, PG_AUTOCONF_FILENAME);

	if (!ParseConfigFile(ConfigFileName, true, NULL, 0, 0, LOG, &head, &tail) ||
		!ParseConfigFile(automatic, false, NULL, 0, 0, LOG, &head, &tail))
		return;
	for (ConfigVariable *item = head; item != NULL; item = item->next)
		if (!item->ignore && pg_strncasecmp(item->name, PREFIX, strlen(PREFIX)) == 0)
			(void) set_config_option(item->name, item->value, PGC_SIGHUP,
									 PGC_S_FILE, GUC_ACTION_SET, true, LOG, false);
	FreeConfigVariables(head);
}

void
pgqrs_guc_init(void)
{
	DefineCustomBoolVariable("pgqrs.async_claims",
							 "Commits transactions that only claim without waiting for the WAL to be flushed.",
							 "A crash may then lose such a claim, which equals a lease that ended early. Where the library is not preloaded, claims are always flushed.",
							 &pgqrs_async_claims, true, PGC_SIGHUP, 0, NULL,
							 NULL, NULL);

	DefineCustomBoolVariable("pgqrs.audit",
							 "Stores an event for each change of a message or run.",
							 "Each event is stored by the transaction that makes the change; see the view pgqrs_events.",
							 &pgqrs_audit, false, PGC_SIGHUP, 0, NULL, NULL, NULL);

	DefineCustomIntVariable("pgqrs.clock_offset",
							"Moves the clock of all functions, for tests.",
							"A change is a step of the clock, except for the part in pgqrs.time_passed.",
							&pgqrs_clock_offset, 0, INT_MIN, INT_MAX, PGC_SIGHUP,
							GUC_UNIT_MS | GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);

	DefineCustomStringVariable("pgqrs.databases",
							   "Databases that background workers serve.",
							   "A list of names; * stands for every database that has the extension.",
							   &pgqrs_databases, "*", PGC_SIGHUP,
							   GUC_LIST_INPUT, check_databases, NULL, NULL);

	DefineCustomIntVariable("pgqrs.heartbeat_flush",
							"Longest time for which a worker's sign of life and the counters of queues may go unwritten.",
							"At most one row is written per worker and queue in this time. A third of pgqrs.worker_timeout is used where that is less.",
							&pgqrs_heartbeat_flush, 10000, 100, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);

	/* sizes shared memory, which exists only where the library is preloaded */
	if (process_shared_preload_libraries_in_progress)
		DefineCustomIntVariable("pgqrs.max_floors",
								"Maximum number of claim floors, one for each queue and priority.",
								"Claims without a floor read every dead index entry of the queue.",
								&pgqrs_max_floors, 4096, 0, 1024 * 1024,
								PGC_POSTMASTER, 0, NULL, NULL, NULL);

	DefineCustomIntVariable("pgqrs.max_workers",
							"Maximum number of databases that have a background worker at the same time.",
							"Background workers count toward max_worker_processes. If more databases are active, the workers take turns.",
							&pgqrs_max_workers, 2, 1, 64, PGC_SIGHUP, 0, NULL,
							NULL, NULL);

	DefineCustomBoolVariable("pgqrs.paused", "Stops all background work.",
							 "For restores and for inspecting data at rest. pgqrs_maintain() still works.",
							 &pgqrs_paused, false, PGC_SIGHUP, 0, NULL, NULL, NULL);

	DefineCustomIntVariable("pgqrs.payload_max", "Largest JSON value accepted.",
							NULL, &pgqrs_payload_max, 2 * 1024 * 1024, 1024,
							256 * 1024 * 1024, PGC_SIGHUP, GUC_UNIT_BYTE, NULL,
							NULL, NULL);

	DefineCustomIntVariable("pgqrs.payload_warn",
							"JSON values larger than this raise a warning.",
							NULL, &pgqrs_payload_warn, 1024 * 1024, 1024,
							256 * 1024 * 1024, PGC_SIGHUP, GUC_UNIT_BYTE, NULL,
							NULL, NULL);

	DefineCustomIntVariable("pgqrs.time_passed",
							"The part of pgqrs.clock_offset that is time that has passed, for tests.",
							"The rest is a step of the clock, during which no worker counts as silent.",
							&pgqrs_time_passed, 0, INT_MIN, INT_MAX, PGC_SIGHUP,
							GUC_UNIT_MS | GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);

	DefineCustomIntVariable("pgqrs.worker_timeout",
							"Time without a call after which a worker counts as dead.",
							NULL, &pgqrs_worker_timeout, 60000, 1000, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);

	MarkGUCPrefixReserved("pgqrs");
	if (!process_shared_preload_libraries_in_progress && IsUnderPostmaster)
		apply_files();
}
