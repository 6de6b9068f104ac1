/*
 * worker_xact.c
 *	  Transactions of a background worker.
 *
 * Each transaction locks the extension against DROP EXTENSION, looks it up again,
 * and runs with the privileges of the extension's owner under
 * SECURITY_RESTRICTED_OPERATION.  An error ends all of that with the transaction.
 */
#include "background/worker_xact.h"

#include "access/xact.h"
#include "base/catalog.h"
#include "catalog/pg_extension.h"
#include "commands/dbcommands.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "shmem/counters.h"
#include "shmem/database_registry.h"
#include "storage/lmgr.h"
#include "utils/snapmgr.h"

static Oid saved_user;
static int saved_security_context;

/* Locks the extension until the end of the transaction; the database's state. */
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
set_database_state(PgqrsDatabaseState state, const char *version, uint32 probes)
{
	if (state == DATABASE_OUTDATED && pgqrs_database_state() != DATABASE_OUTDATED)
		ereport(LOG,
				(errmsg("pgqrs does no background work in database \"%s\"",
						get_database_name(MyDatabaseId)),
				 errdetail("The installed version of extension pgqrs is %s, the version of the library is %s.",
						   version, PGQRS_VERSION),
				 errhint("Run ALTER EXTENSION pgqrs UPDATE in the database, or restart the server if the library is older.")));
	if (state == DATABASE_SUBSCRIBED && pgqrs_database_state() != DATABASE_SUBSCRIBED)
		ereport(LOG,
				(errmsg("pgqrs does no background work in database \"%s\"",
						get_database_name(MyDatabaseId)),
				 errdetail("A subscription writes the tables of extension pgqrs in the database."),
				 errhint("To move the work from the publisher to this database, drop the subscription.")));
	if (state == DATABASE_ABSENT)
		pgqrs_counters_forget_database(MyDatabaseId);
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
	set_database_state(state, version, probes);
	if (state == DATABASE_SERVED)
	{
		GetUserIdAndSecContext(&saved_user, &saved_security_context);
		SetUserIdAndSecContext(pgqrs_catalog_owner(),
							   saved_security_context |
								   SECURITY_RESTRICTED_OPERATION);
		return true;
	}
	PopActiveSnapshot();
	CommitTransactionCommand();
	return false;
}

void
pgqrs_worker_xact_end(void)
{
	SetUserIdAndSecContext(saved_user, saved_security_context);
	PopActiveSnapshot();
	CommitTransactionCommand();
	pgstat_report_stat(false);
}
