/*
 * table.c
 *	  Tables of the extension: opening them, and what makes a table unfit.
 *
 * Runs in any backend inside a transaction.  Locks, to the end of the
 * transaction: RowExclusiveLock on tables that are written, AccessShareLock on
 * tables that are read.
 */
#include "store/table.h"

#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "base/clock.h"
#include "base/compat.h"
#include "base/errors.h"
#include "catalog/pg_inherits.h"
#include "commands/sequence.h"
#include "executor/executor.h"
#include "pgstat.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

static const PgqrsWriteHooks *write_hooks[TABLE_COUNT];

void
pgqrs_table_set_hooks(PgqrsTableId id, const PgqrsWriteHooks *hooks)
{
	write_hooks[id] = hooks;
}

/*
 * Whether tables inherit from this table. relhassubclass alone may be stale: it
 * stays set when the last child is dropped.
 */
static bool
has_children(Relation rel)
{
	List *children;
	bool result;

	if (!rel->rd_rel->relhassubclass)
		return false;
	children = find_inheritance_children(RelationGetRelid(rel), NoLock);
	result = children != NIL;
	list_free(children);
	return result;
}

/* Refuses a table; message: with "%s" for the name of the table. */
void
pgqrs_table_refuse(Relation rel, const char *message)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg(message, RelationGetRelationName(rel)),
			 errdetail("The functions of pgqrs write its tables directly and would bypass this."),
			 errhint("Leave the tables of the extension as CREATE EXTENSION made them.")));
}

static bool
is_own_function(Oid function)
{
	char *name = get_func_name(function);

	return name != NULL && get_func_namespace(function) == pgqrs_catalog_schema() &&
		(strcmp(name, "pgqrs_messages_written") == 0 ||
		 strcmp(name, "pgqrs_settings_written") == 0);
}

/* The extension's trigger on a table, which reports direct DML. */
bool
pgqrs_trigger_is_own(Relation rel, const Trigger *trigger)
{
	const char *table = RelationGetRelationName(rel);
	size_t length = strlen(table);

	return strncmp(trigger->tgname, table, length) == 0 &&
		strcmp(trigger->tgname + length, "_written") == 0 &&
		is_own_function(trigger->tgfoid);
}

/* A trigger that is neither the extension's nor a constraint's, or NULL. */
static const Trigger *
foreign_trigger(Relation rel)
{
	if (rel->trigdesc == NULL)
		return NULL;
	for (int i = 0; i < rel->trigdesc->numtriggers; i++)
	{
		const Trigger *trigger = &rel->trigdesc->triggers[i];

		if (!trigger->tgisinternal && !pgqrs_trigger_is_own(rel, trigger))
			return trigger;
	}
	return NULL;
}

/*
 * pg_repack's trigger stays on a table while the table is copied, and after
 * pg_repack was killed.
 */
static void
refuse_foreign_trigger(Relation rel, const Trigger *trigger)
{
	bool repack = strstr(trigger->tgname, "repack_trigger") != NULL;

	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("table \"%s\" has triggers", RelationGetRelationName(rel)),
			 errdetail("The functions of pgqrs write its tables directly and would bypass trigger \"%s\".",
					   trigger->tgname),
			 repack ?
				 errhint("Stop pg_repack, drop its trigger, and use VACUUM FULL, CLUSTER or REINDEX CONCURRENTLY instead.") :
				 errhint("Leave the tables of the extension as CREATE EXTENSION made them.")));
}

/* A foreign key from the table or to it is a set of triggers on it. */
static bool
has_foreign_keys(Relation rel)
{
	if (rel->trigdesc == NULL)
		return false;
	for (int i = 0; i < rel->trigdesc->numtriggers; i++)
		if (rel->trigdesc->triggers[i].tgisinternal &&
			OidIsValid(rel->trigdesc->triggers[i].tgconstrrelid))
			return true;
	return false;
}

static bool
has_identity_columns(Relation rel)
{
	for (int i = 0; i < RelationGetNumberOfAttributes(rel); i++)
		if (TupleDescAttr(RelationGetDescr(rel), i)->attidentity != '\0')
			return true;
	return false;
}

/*
 * Refuses a table with an addition that direct writes would bypass.  The result
 * holds until the table's relcache entry changes.
 */
static void
check_plain(PgqrsTableId id, Relation rel)
{
	static struct
	{
		bool known;
		uint64 generation;
	} plain[TABLE_COUNT];
	uint64 generation = pgqrs_catalog_generation(id);
	TupleConstr *constraints = RelationGetDescr(rel)->constr;
	const Trigger *trigger;

	if (plain[id].known && plain[id].generation == generation)
		return;
	if (rel->rd_rel->relkind != RELKIND_RELATION ||
		rel->rd_tableam != GetHeapamTableAmRoutine())
		pgqrs_table_refuse(rel, "table \"%s\" is not a heap table");
	if (has_children(rel) || rel->rd_rel->relispartition)
		pgqrs_table_refuse(rel, "table \"%s\" takes part in inheritance");
	if (rel->rd_rel->relrowsecurity)
		pgqrs_table_refuse(rel, "table \"%s\" has row-level security");
	if (rel->rd_rules != NULL)
		pgqrs_table_refuse(rel, "table \"%s\" has rules");
	if (RelationGetNumberOfAttributes(rel) > PGQRS_MAX_COLUMNS)
		pgqrs_table_refuse(rel, "table \"%s\" has too many columns");
	if (constraints != NULL && constraints->num_check > 0)
		pgqrs_table_refuse(rel, "table \"%s\" has check constraints");
	if (constraints != NULL && constraints->has_generated_stored)
		pgqrs_table_refuse(rel, "table \"%s\" has generated columns");
	if (constraints != NULL && constraints->num_defval > 0)
		pgqrs_table_refuse(rel, "table \"%s\" has column defaults");
	if (has_identity_columns(rel))
		pgqrs_table_refuse(rel, "table \"%s\" has identity columns");
	trigger = foreign_trigger(rel);
	if (trigger != NULL)
		refuse_foreign_trigger(rel, trigger);
	if (has_foreign_keys(rel))
		pgqrs_table_refuse(rel, "table \"%s\" takes part in a foreign key");
	plain[id].known = true;
	plain[id].generation = generation;
}

/*
 * Refuses a call from a parallel query: a calling function is marked PARALLEL
 * SAFE by mistake.
 */
static void
refuse_parallel(void)
{
	char *name;

	if (!IsInParallelMode())
		return;
	name = OidIsValid(pgqrs_current_sql_function) ?
		get_func_name(pgqrs_current_sql_function) :
		NULL;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
			 errmsg("cannot execute %s during a parallel operation",
					name ? psprintf("%s()", name) : "pgqrs"),
			 errhint("Mark the function that calls it PARALLEL UNSAFE, as is the default.")));
}

/* Refuses a transaction that may not write. */
void
pgqrs_require_read_write(void)
{
	/* during recovery every transaction is read-only */
	if (XactReadOnly && RecoveryInProgress())
		pgqrs_error_read_only(true);
	if (XactReadOnly)
		pgqrs_error_read_only(false);
	refuse_parallel();
}

/* Refuses a transaction that may not write, and a subscriber's database. */
void
pgqrs_require_writable(void)
{
	pgqrs_require_read_write();
	if (pgqrs_catalog_subscribed())
		pgqrs_error_subscribed();
	pgqrs_clock_record_serving();
}

/*
 * Opens and locks a table like try_table_open(), but looks for the table in the
 * relcache instead of pg_class.  The extension may be dropped, or created
 * again, while the lock is waited for.
 */
static Relation
open_relation(PgqrsTableId id, LOCKMODE lock)
{
	Oid oid = pgqrs_catalog_table(id);
	Relation rel;

	LockRelationOid(oid, lock);
	rel = RelationIdGetRelation(oid);
	if (!RelationIsValid(rel))
	{
		UnlockRelationOid(oid, lock);
		return table_open(pgqrs_catalog_table(id), lock);
	}
	if (RelationUsesLocalBuffers(rel))
		MyXactFlags |= XACT_FLAGS_ACCESSEDTEMPNAMESPACE;
	pgstat_init_relation(rel);
	return rel;
}

PgqrsTable *
pgqrs_table_open(PgqrsTableId id, bool write)
{
	PgqrsTable *table = palloc0(sizeof(PgqrsTable));

	refuse_parallel();
	if (write)
		pgqrs_require_writable();
	table->id = id;
	table->hooks = write_hooks[id];
	table->open.lock = write ? RowExclusiveLock : AccessShareLock;
	table->open.context = CurrentMemoryContext;
	table->rel = open_relation(id, table->open.lock);
	check_plain(id, table->rel);
	return table;
}

void
pgqrs_table_close(PgqrsTable *table)
{
	ListCell *lc;

	if (table->archive != NULL)
		pgqrs_table_close(table->archive);
	foreach(lc, table->slots)
		ExecDropSingleTupleTableSlot(lfirst(lc));
	pgqrs_index_close_all(&table->open);
	if (table->estate != NULL)
	{
		ExecCloseIndices(table->rri);
		FreeExecutorState(table->estate);
	}
	table_close(table->rel, NoLock);
	pfree(table);
}

/* A slot for rows of the table, valid until the table is closed. */
TupleTableSlot *
pgqrs_table_slot(PgqrsTable *table)
{
	TupleTableSlot *slot = table_slot_create(table->rel, NULL);

	table->slots = lappend(table->slots, slot);
	return slot;
}

int64
pgqrs_next_id(PgqrsSequenceId id)
{
	return nextval_internal(pgqrs_catalog_sequence(id), false);
}
