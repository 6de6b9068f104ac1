/*
 * triggers.c
 *	  The extension's own triggers, which report direct DML.
 *
 * pgqrs_messages and the tables that sessions cache have a row trigger each,
 * named TABLE_written, that fires ALWAYS, so in the apply worker of a
 * subscription, too.  A command that re-enables all triggers of a table demotes
 * it.  The DDL hooks restore the trigger after such a command; maintenance does
 * if the library was not loaded.
 *
 * Runs in any backend.  Locks: ShareRowExclusiveLock on a table that is
 * restored, to the end of the transaction; maintenance does not wait for it.
 */
#include "store/triggers.h"

#include "access/table.h"
#include "access/xact.h"
#include "base/catalog.h"
#include "base/compat.h"
#include "shmem/xact_hooks.h"
#include "storage/lmgr.h"
#include "store/table.h"

static const PgqrsTableId watched_tables[] = {
	TABLE_QUEUES,	 TABLE_MESSAGES, TABLE_WORKFLOWS,
	TABLE_SCHEDULES, TABLE_GRANTS,
};

/* The table's own trigger if it does not fire ALWAYS; else NULL. */
static const Trigger *
demoted_trigger(Relation rel, bool disabled)
{
	for (int i = 0; rel->trigdesc != NULL && i < rel->trigdesc->numtriggers; i++)
	{
		const Trigger *trigger = &rel->trigdesc->triggers[i];

		if (pgqrs_trigger_is_own(rel, trigger) &&
			trigger->tgenabled != TRIGGER_FIRES_ALWAYS &&
			(disabled || trigger->tgenabled != TRIGGER_DISABLED))
			return trigger;
	}
	return NULL;
}

bool
pgqrs_trigger_restore(Relation rel, bool disabled)
{
	const Trigger *trigger = demoted_trigger(rel, disabled);
	char *name;

	if (trigger == NULL)
		return false;
	/* an invalidation frees the name */
	name = pstrdup(trigger->tgname);
	CommandCounterIncrement();
	pgqrs_enable_trigger(rel, name, TRIGGER_FIRES_ALWAYS, ShareRowExclusiveLock);
	CommandCounterIncrement();
	pgqrs_xact_tables_written();
	return true;
}

/* False: the table is locked. */
static bool
restore_table_trigger(Oid table)
{
	Relation rel = table_open(table, AccessShareLock);
	bool restored = true;

	if (demoted_trigger(rel, true) != NULL)
	{
		restored = ConditionalLockRelationOid(table, ShareRowExclusiveLock);
		if (restored && pgqrs_trigger_restore(rel, true))
			ereport(LOG,
					(errmsg("the trigger of table \"%s\" fires ALWAYS again",
							RelationGetRelationName(rel)),
					 errdetail(
						 "The trigger had been disabled or enabled in another mode.")));
	}
	table_close(rel, NoLock);
	return restored;
}

bool
pgqrs_triggers_restore(void)
{
	bool all = true;

	for (int i = 0; i < lengthof(watched_tables); i++)
		all &= restore_table_trigger(pgqrs_catalog_table(watched_tables[i]));
	return all;
}
