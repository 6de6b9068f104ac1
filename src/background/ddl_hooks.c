/*
 * ddl_hooks.c
 *	  DDL hooks: utility commands that concern the background processes.
 *
 * Runs in any backend, as hooks around utility commands and around the removal of
 * objects, since the extension may be dropped with its schema or its owner.  The
 * removal of the extension also wakes waiting workers.
 *
 * DROP DATABASE, its renaming, its move to another tablespace and its use as a
 * template require that no process is connected to it.  Therefore such a command
 * holds the database first: its background worker exits, and none is started
 * until the end of the transaction.  Afterwards the server itself waits up to 5 s
 * for other connections.
 *
 * The effects of a command are published at commit; COMMIT PREPARED, which has
 * committed when it returns, publishes at once.
 *
 * COPY, TRUNCATE and pg_restore --disable-triggers write the extension's tables,
 * in part without its triggers.  After the commit of such a command all floors and
 * hints are discarded, all duties are due and all waiting workers are woken.
 */
#include "background/ddl_hooks.h"

#include "access/table.h"
#include "base/compat.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_extension.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "shmem/claim_floor.h"
#include "shmem/published_keys.h"
#include "shmem/database_registry.h"
#include "shmem/xact_hooks.h"
#include "shmem/xact_wakeups.h"
#include "store/triggers.h"
#include "tcop/utility.h"
#include "utils/inval.h"

/* How long a command waits for the exit of the background worker. */
#define HOLD_TIMEOUT 4000 /* milliseconds */

static ProcessUtility_hook_type previous_hook = NULL;
static object_access_hook_type previous_access_hook = NULL;

static DefElem *
find_option(List *options, const char *name)
{
	ListCell *lc;

	foreach(lc, options)
		if (strcmp(((DefElem *) lfirst(lc))->defname, name) == 0)
			return lfirst(lc);
	return NULL;
}

/* The database to which no process may be connected, or NULL. */
static const char *
database_to_hold(Node *statement)
{
	DefElem *option;

	switch (nodeTag(statement))
	{
		case T_DropdbStmt:
			return ((DropdbStmt *) statement)->dbname;
		case T_RenameStmt:
			return ((RenameStmt *) statement)->renameType == OBJECT_DATABASE ?
				((RenameStmt *) statement)->subname :
				NULL;
		case T_AlterDatabaseStmt:
			return find_option(((AlterDatabaseStmt *) statement)->options,
							   "tablespace") != NULL ?
				((AlterDatabaseStmt *) statement)->dbname :
				NULL;
		case T_CreatedbStmt:
			option = find_option(((CreatedbStmt *) statement)->options, "template");
			return option != NULL && option->arg != NULL ? defGetString(option) :
														   NULL;
		default:
			return NULL;
	}
}

/* A role without the right to run the command must not stop the background worker. */
static void
hold_database(Node *statement)
{
	const char *name = database_to_hold(statement);
	Oid db = name != NULL ? get_database_oid(name, true) : InvalidOid;

	if (OidIsValid(db) && db != MyDatabaseId &&
		pgqrs_owns_database(db, GetUserId()) && pgqrs_xact_hold_database(db))
		pgqrs_database_await_exit(db, HOLD_TIMEOUT);
}

static void
publish_changes(Node *statement)
{
	switch (nodeTag(statement))
	{
		case T_CreatedbStmt:
		case T_DropdbStmt:
		case T_AlterDatabaseStmt:
			pgqrs_xact_databases_changed();
			break;
		case T_RenameStmt:
			if (((RenameStmt *) statement)->renameType == OBJECT_DATABASE)
				pgqrs_xact_databases_changed();
			if (((RenameStmt *) statement)->renameType == OBJECT_ROLE)
				pgqrs_xact_roles_changed();
			break;
		case T_CreateExtensionStmt:
		case T_AlterExtensionStmt:
		case T_CreateSubscriptionStmt:
		case T_AlterSubscriptionStmt:
		case T_DropSubscriptionStmt:
			pgqrs_xact_request_probe();
			break;
		case T_DropRoleStmt:
			pgqrs_xact_roles_changed();
			break;
		default:
			break;
	}
}

/*
 * Rows written without the functions of pgqrs
 */

/* Opens the table, which the command has locked, if it is one of the extension; or NULL. */
static Relation
open_own_table(RangeVar *name)
{
	Oid extension;
	Oid oid;

	/* compare the name first, since every COPY comes here */
	if (name == NULL || creating_extension ||
		strncmp(name->relname, "pgqrs_", strlen("pgqrs_")) != 0)
		return NULL;
	extension = get_extension_oid("pgqrs", true);
	oid = RangeVarGetRelid(name, NoLock, true);
	if (!OidIsValid(extension) || !OidIsValid(oid) ||
		getExtensionOfObject(RelationRelationId, oid) != extension)
		return NULL;
	return table_open(oid, NoLock);
}

static void
publish_rows_written(RangeVar *name)
{
	Relation rel = open_own_table(name);

	if (rel == NULL)
		return;
	CacheInvalidateRelcache(rel);
	pgqrs_xact_tables_written();
	table_close(rel, NoLock);
}

/* 1 if the statement enables triggers, -1 if it only disables some, else 0. */
static int
trigger_change(AlterTableStmt *statement)
{
	int change = 0;
	ListCell *lc;

	foreach(lc, statement->cmds)
		switch (((AlterTableCmd *) lfirst(lc))->subtype)
		{
			case AT_EnableTrig:
			case AT_EnableAlwaysTrig:
			case AT_EnableReplicaTrig:
			case AT_EnableTrigAll:
			case AT_EnableTrigUser:
				return 1;
			case AT_DisableTrig:
			case AT_DisableTrigAll:
			case AT_DisableTrigUser:
				change = -1;
				break;
			default:
				break;
		}
	return change;
}

/* DUTY_FLOOR_SWEEP enables the triggers that a statement leaves disabled. */
static void
publish_trigger_change(AlterTableStmt *statement)
{
	int change = trigger_change(statement);
	Relation rel = change != 0 ? open_own_table(statement->relation) : NULL;

	if (rel == NULL)
		return;
	if (change > 0)
	{
		pgqrs_trigger_restore(rel, false);
		pgqrs_xact_tables_written();
	}
	else
		pgqrs_xact_request_duty(DUTY_FLOOR_SWEEP, 0);
	table_close(rel, NoLock);
}

/* Runs after the command. */
static void
publish_writes(Node *statement)
{
	ListCell *lc;

	switch (nodeTag(statement))
	{
		case T_CopyStmt:
			if (((CopyStmt *) statement)->is_from)
				publish_rows_written(((CopyStmt *) statement)->relation);
			break;
		case T_TruncateStmt:
			foreach(lc, ((TruncateStmt *) statement)->relations)
				publish_rows_written(lfirst(lc));
			break;
		case T_AlterTableStmt:
			publish_trigger_change((AlterTableStmt *) statement);
			break;
		default:
			break;
	}
}

static bool
is_commit_prepared(Node *statement)
{
	return IsA(statement, TransactionStmt) &&
		((TransactionStmt *) statement)->kind == TRANS_STMT_COMMIT_PREPARED;
}

/*
 * Makes the duties due that a prepared transaction may have requested.  Its queues
 * and its run wake-ups are in xact_wakeups.c, unless it was prepared before the
 * server started and has not been read yet.
 */
static void
publish_prepared_xact(bool is_known)
{
	for (int kind = 0; kind < TIMED_DUTY_COUNT; kind++)
		if (!is_known || (kind != DUTY_RUN_WAKEUPS && kind != DUTY_QUEUES))
			pgqrs_database_request_duty(kind, 0);
}

static void
process_utility(PlannedStmt *planned, const char *query, bool read_only_tree,
				ProcessUtilityContext context, ParamListInfo params,
				QueryEnvironment *environment, DestReceiver *receiver,
				QueryCompletion *completion)
{
	Node *statement = planned->utilityStmt;
	bool was_prepared = is_commit_prepared(statement);
	bool is_known = was_prepared && pgqrs_published_knows_prepared();
	Oid dropped = InvalidOid;

	if (IsA(statement, DropdbStmt))
		dropped = get_database_oid(((DropdbStmt *) statement)->dbname, true);
	hold_database(statement);
	publish_changes(statement);
	if (previous_hook != NULL)
		previous_hook(planned, query, read_only_tree, context, params,
					  environment, receiver, completion);
	else
		standard_ProcessUtility(planned, query, read_only_tree, context, params,
								environment, receiver, completion);
	publish_writes(statement);
	if (OidIsValid(dropped))
		pgqrs_floor_forget_database(dropped);
	if (was_prepared && OidIsValid(get_extension_oid("pgqrs", true)))
		publish_prepared_xact(is_known);
}

static bool
is_own_extension(Oid extension)
{
	char *name = get_extension_name(extension);

	return name != NULL && strcmp(name, "pgqrs") == 0;
}

static void
object_access(ObjectAccessType access, Oid class, Oid object, int sub_object,
			  void *arg)
{
	if (previous_access_hook != NULL)
		previous_access_hook(access, class, object, sub_object, arg);
	if (access == OAT_DROP && class == ExtensionRelationId &&
		is_own_extension(object))
	{
		pgqrs_xact_request_probe();
		pgqrs_floor_forget_database(MyDatabaseId);
		pgqrs_xact_wakeup_everything();
	}
}

void
pgqrs_ddl_hooks_init(void)
{
	previous_access_hook = object_access_hook;
	object_access_hook = object_access;
	previous_hook = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
}
