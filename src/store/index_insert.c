/*
 * index_insert.c
 *	  Index insertion: entries of a new row version.
 *
 * Runs in any backend that writes.  The executor would open every index of a
 * table and prepare every predicate for each statement.  Here each backend
 * looks that up once, and an index that does not include the written row is not
 * opened.  A change of a table's indexes arrives as an invalidation of the
 * relation, at the latest with the lock on the table.
 *
 * Locks an index as its table is locked, to the end of the transaction.
 */
#include "store/index_insert.h"

#include "access/genam.h"
#include "base/compat.h"
#include "catalog/index.h"
#include "catalog/pg_am.h"
#include "nodes/execnodes.h"
#include "nodes/primnodes.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"

Relation
pgqrs_index_open(PgqrsOpenIndexes *open, Oid index)
{
	Relation rel;

	for (int i = 0; i < open->count; i++)
		if (RelationGetRelid(open->rels[i]) == index)
			return open->rels[i];
	if (open->count == PGQRS_MAX_INDEXES)
		elog(ERROR, "too many indexes");
	rel = index_open(index, open->lock);
	open->infos[open->count] = NULL;
	open->rels[open->count++] = rel;
	return rel;
}

/*
 * The IndexInfo that an open index keeps from one insertion to the next: a
 * table has many insertions while it is open, and the memory of their callers
 * may be gone.
 */
static IndexInfo *
index_info(PgqrsOpenIndexes *open, Relation index)
{
	MemoryContext caller;
	int i = 0;

	while (open->rels[i] != index)
		i++;
	if (open->infos[i] == NULL)
	{
		if (open->info_context == NULL)
			open->info_context = AllocSetContextCreate(open->context,
													   "pgqrs indexes",
													   ALLOCSET_DEFAULT_SIZES);
		caller = MemoryContextSwitchTo(open->info_context);
		open->infos[i] = BuildIndexInfo(index);
		MemoryContextSwitchTo(caller);
	}
	return open->infos[i];
}

void
pgqrs_index_close_all(PgqrsOpenIndexes *open)
{
	for (int i = 0; i < open->count; i++)
		index_close(open->rels[i], NoLock);
	open->count = 0;
	if (open->info_context != NULL)
		MemoryContextDelete(open->info_context);
	open->info_context = NULL;
}

typedef struct TableIndexes
{
	Oid table;	/* or invalid: unknown */
	bool whole; /* complete: no error interrupted the look-up */
	bool plain;
	PgqrsIndexes indexes;
} TableIndexes;

static TableIndexes cached_indexes[TABLE_COUNT];

/*
 * Invalidation of any relation: the table, one of its indexes, or (invalid)
 * all.
 */
static void
relation_changed(Datum arg, Oid relation)
{
	for (int i = 0; i < TABLE_COUNT; i++)
	{
		bool concerned = !OidIsValid(relation) ||
			cached_indexes[i].table == relation;

		for (int j = 0; !concerned && j < cached_indexes[i].indexes.count; j++)
			concerned = cached_indexes[i].indexes.indexes[j].oid == relation;
		if (concerned)
			cached_indexes[i].table = InvalidOid;
	}
}

void
pgqrs_indexes_init(void)
{
	CacheRegisterRelcacheCallback(relation_changed, (Datum) 0);
}

/* A test whether an enum column is, or is not, equal to a value. */
static bool
is_enum_comparison(OpExpr *node)
{
	return (node->opfuncid == F_ENUM_EQ || node->opfuncid == F_ENUM_NE) &&
		IsA(lsecond(node->args), Const);
}

/* Reads a test of a predicate; false: only the executor can evaluate it. */
static bool
read_test(PgqrsIndexTest *test, Node *node)
{
	Node *column;

	if (IsA(node, NullTest))
	{
		column = (Node *) ((NullTest *) node)->arg;
		test->kind = ((NullTest *) node)->nulltesttype == IS_NULL ?
			INDEX_IF_NULL :
			INDEX_IF_NOT_NULL;
	}
	else if (IsA(node, OpExpr) && is_enum_comparison((OpExpr *) node))
	{
		column = linitial(((OpExpr *) node)->args);
		test->kind = ((OpExpr *) node)->opfuncid == F_ENUM_EQ ? INDEX_IF_EQUAL :
																INDEX_IF_DIFFERENT;
		test->value = ((Const *) lsecond(((OpExpr *) node)->args))->constvalue;
	}
	else
		return false;
	if (!IsA(column, Var) || ((Var *) column)->varattno <= 0)
		return false;
	test->column = ((Var *) column)->varattno;
	return true;
}

static bool
read_predicate(PgqrsIndex *index, List *predicate)
{
	ListCell *lc;

	index->ntests = 0;
	if (list_length(predicate) > PGQRS_MAX_TESTS)
		return false;
	foreach(lc, predicate)
		if (!read_test(&index->tests[index->ntests++], lfirst(lc)))
			return false;
	return true;
}

/* Reads an index; false: only the executor can write it. */
static bool
read_index(PgqrsIndex *index, Relation rel)
{
	Form_pg_index form = rel->rd_index;

	index->is_gin = rel->rd_rel->relam == GIN_AM_OID;
	if ((!index->is_gin && rel->rd_rel->relam != BTREE_AM_OID) ||
		!form->indimmediate || form->indisexclusion || !form->indisready)
		return false;
	index->oid = RelationGetRelid(rel);
	index->unique = form->indisunique;
	index->is_id = form->indisprimary && form->indnatts == 1;
	index->natts = form->indnatts;
	for (int i = 0; i < form->indnatts; i++)
	{
		index->columns[i] = form->indkey.values[i];
		if (index->columns[i] <= 0)
			return false;
	}
	return read_predicate(index, RelationGetIndexPredicate(rel));
}

/*
 * An invalidation that arrives while indexes are being locked makes the next
 * call look again.  This call may use what it found: it holds the lock on the
 * table, so a transaction that adds an index waits for the end of this one
 * before it relies on its entries.
 */
static void
read_indexes(TableIndexes *k, Relation table)
{
	List *oids = RelationGetIndexList(table);
	ListCell *lc;

	k->table = RelationGetRelid(table);
	k->whole = false;
	k->plain = list_length(oids) <= PGQRS_MAX_INDEXES;
	k->indexes.count = 0;
	foreach(lc, oids)
	{
		Relation rel;

		if (!k->plain)
			break;
		rel = index_open(lfirst_oid(lc), RowExclusiveLock);
		k->plain = read_index(&k->indexes.indexes[k->indexes.count++], rel);
		index_close(rel, NoLock);
	}
	list_free(oids);
	k->whole = true;
}

PgqrsIndexes *
pgqrs_indexes_of(PgqrsTableId id, Relation table)
{
	TableIndexes *k = &cached_indexes[id];
	PgqrsIndexes *indexes;
	Size size;

	if (k->table != RelationGetRelid(table) || !k->whole)
		read_indexes(k, table);
	if (!k->plain)
		return NULL;
	size = offsetof(PgqrsIndexes, indexes) + k->indexes.count * sizeof(PgqrsIndex);
	indexes = palloc(size);
	memcpy(indexes, &k->indexes, size);
	return indexes;
}

static bool
test_holds(const PgqrsIndexTest *test, const Datum *values, const bool *nulls)
{
	bool null = nulls[test->column - 1];

	switch (test->kind)
	{
		case INDEX_IF_NULL:
			return null;
		case INDEX_IF_NOT_NULL:
			return !null;
		case INDEX_IF_EQUAL:
			return !null && values[test->column - 1] == test->value;
		case INDEX_IF_DIFFERENT:
			return !null && values[test->column - 1] != test->value;
	}
	return true;
}

static bool
includes_row(const PgqrsIndex *index, const Datum *values, const bool *nulls)
{
	for (int i = 0; i < index->ntests; i++)
		if (!test_holds(&index->tests[i], values, nulls))
			return false;
	return true;
}

/* Whether no column of the index differs from the old version. */
static bool
is_unchanged(const PgqrsIndex *index, const bool *changed)
{
	for (int i = 0; i < index->natts; i++)
		if (changed[index->columns[i] - 1])
			return false;
	return true;
}

void
pgqrs_index_insert(const PgqrsIndex *index, PgqrsOpenIndexes *open,
				   Relation table, ItemPointer tid, const Datum *values,
				   const bool *nulls, const bool *changed)
{
	Datum keys[INDEX_MAX_KEYS];
	bool no_keys[INDEX_MAX_KEYS];
	bool unchanged;
	IndexUniqueCheck check = UNIQUE_CHECK_NO;
	Relation rel;

	if (!includes_row(index, values, nulls))
		return;
	rel = pgqrs_index_open(open, index->oid);
	for (int i = 0; i < index->natts; i++)
	{
		keys[i] = values[index->columns[i] - 1];
		no_keys[i] = nulls[index->columns[i] - 1];
	}
	unchanged = changed != NULL && is_unchanged(index, changed);
	/*
	 * Ids come from sequences, so no transaction inserts an existing id: a new
	 * version of its row need not be checked against all versions that an old
	 * snapshot keeps.  Other keys are checked with each version: the check
	 * begins by locking the page on which their entries begin, so that
	 * transactions that insert a key and transactions that update its row take
	 * turns.
	 */
	if (index->unique && !(index->is_id && unchanged))
		check = UNIQUE_CHECK_YES;
	/* btree ignores the IndexInfo */
	index_insert(rel, keys, no_keys, tid, table, check, unchanged,
				 index->is_gin ? index_info(open, rel) : NULL);
}
