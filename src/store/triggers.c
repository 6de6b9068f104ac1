/*
 * triggers.c
 *	  The extension's own triggers, which report rows written past the functions.
 *
 * pgqrs_messages and the tables that sessions cache have a row trigger each,
 * named TABLE_written, that fires ALWAYS: in the apply worker of a subscription
 * too.  Whatever re-enables triggers wholesale demotes it.  ddl hooks mend that
 * where it is done, maintenance where the library was not loaded.
 *
 * Runs in any backend.  Locks: ShareRowExclusiveLock on a table that is mended,
 * to the end of the transaction; maintenance does not wait for it.
 */
#include "store/triggers.h"

#include "access/table.h"
#include "access/xact.h"
#include "base/catalog.h"
#include "base/compat.h"
#include "shmem/xact_hooks.h"
#include "storage/lmgr.h"
#include "store/table.h"

static const PgqrsTableId watched[] = {
	TABLE_QUEUES,	 TABLE_MESSAGES, TABLE_WORKFLOWS,
	TABLE_SCHEDULES, TABLE_GRANTS,
};

/* The table's own trigger where it does not fire ALWAYS; else NULL. */
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
	/* an invalidation frees it */
	name = pstrdup(trigger->tgname);
	CommandCounterIncrement();
	pgqrs_enable_trigger(rel, name, TRIGGER_FIRES_ALWAYS, ShareRowExclusiveLock);
	CommandCounterIncrement();
	pgqrs_xact_tables_written();
	return true;
}

/* False: the table is locked. */
static bool
mend_table(Oid table)
{
	Relation rel = table_open(table, AccessShareLock);
	bool mended = true;

	if (demoted_trigger(rel, true) != NULL)
	{
		mended = ConditionalLockRelationOid(table, ShareRowExclusiveLock);
		if (mended && pgqrs_trigger_restore(rel, true))
			ereport(LOG,
					(errmsg("the trigger of table \"%s\" fires ALWAYS again",
							RelationGetRelationName(rel)),
					 errdetail("It had been disabled or enabled otherwise.")));
	}
	table_close(rel, NoLock);
	return mended;
}

bool
pgqrs_triggers_restore(void)
{
	bool all = true;

	for (int i = 0; i < lengthof(watched); i++)
		all &= mend_table(pgqrs_catalog_table(watched[i]));
	return all;
}
