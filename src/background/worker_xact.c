/*
 * worker_xact.c
 *	  The transaction in which a background worker does something.
 *
 * Runs in the worker of a database.  The extension is locked against being
 * dropped, looked up anew, and worked on as its owner under
 * SECURITY_RESTRICTED_OPERATION; all of that to the end of the transaction,
 * however it ends.
 */
#include "background/worker_xact.h"

#include "access/xact.h"
#include "base/catalog.h"
#include "catalog/pg_extension.h"
#include "commands/dbcommands.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "shmem/database_registry.h"
#include "storage/lmgr.h"
#include "utils/snapmgr.h"

static Oid owner_before;
static int security_before;

/* What is here, locked for the rest of the transaction. */
static PgqrsDatabaseState
lock_extension(char **version)
{
	Oid extension = pgqrs_catalog_extension(version);

	if (!OidIsValid(extension))
		return DATABASE_ABSENT;
	LockDatabaseObject(ExtensionRelationId, extension, 0, AccessShareLock);
	if (pgqrs_catalog_extension(version) != extension)
		return DATABASE_ABSENT;
	if (strcmp(*version, PGQRS_VERSION) != 0)
		return DATABASE_OUTDATED;
	return pgqrs_catalog_subscribed() ? DATABASE_SUBSCRIBED : DATABASE_SERVED;
}

static void
note_state(PgqrsDatabaseState state, const char *version, uint32 probes)
{
	if (state == DATABASE_OUTDATED && pgqrs_database_state() != DATABASE_OUTDATED)
		ereport(LOG,
				(errmsg("nothing is done in the background in database \"%s\"",
						get_database_name(MyDatabaseId)),
				 errdetail("Version %s of extension pgqrs is installed there, the library's is %s.",
						   version, PGQRS_VERSION),
				 errhint("Run ALTER EXTENSION pgqrs UPDATE there, or if the library is the older one, restart the server.")));
	if (state == DATABASE_SUBSCRIBED && pgqrs_database_state() != DATABASE_SUBSCRIBED)
		ereport(LOG,
				(errmsg("nothing is done in the background in database \"%s\"",
						get_database_name(MyDatabaseId)),
				 errdetail("A subscription writes the tables of extension pgqrs there."),
				 errhint("When the publisher is not to do the work any more, drop the subscription.")));
	pgqrs_database_set_state(state, probes);
}

bool
pgqrs_worker_xact_begin(const char *activity)
{
	PgqrsDatabaseState state;
	char *version = NULL;
	uint32 probes = pgqrs_database_probes();

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	pgstat_report_activity(STATE_RUNNING, activity);
	state = lock_extension(&version);
	note_state(state, version, probes);
	if (state == DATABASE_SERVED)
	{
		GetUserIdAndSecContext(&owner_before, &security_before);
		SetUserIdAndSecContext(pgqrs_catalog_owner(),
							   security_before | SECURITY_RESTRICTED_OPERATION);
		return true;
	}
	PopActiveSnapshot();
	CommitTransactionCommand();
	return false;
}

void
pgqrs_worker_xact_end(void)
{
	SetUserIdAndSecContext(owner_before, security_before);
	PopActiveSnapshot();
	CommitTransactionCommand();
	pgstat_report_stat(false);
}
