/*
 * scan.c
 *	  Scans and fetches of the extension's rows, without a plan.
 *
 * Runs in any backend inside a transaction.  Takes no row lock: any row may be
 * changed at the same time, so a caller that locks a row checks the locked
 * version again.
 *
 * Modelled on execReplication.c and logical replication's apply worker.
 */
#include "store/scan.h"

#include "access/heapam.h"
#include "access/nbtree.h"
#include "access/relscan.h"
#include "access/tableam.h"
#include "access/visibilitymap.h"
#include "access/xact.h"
#include "base/compat.h"
#include "base/inject.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "store/index_insert.h"
#include "store/tid_cache.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

static const PgqrsIndexId primary_key[TABLE_COUNT] = {
	[TABLE_QUEUES] = INDEX_QUEUES_PKEY,
	[TABLE_MESSAGES] = INDEX_MESSAGES_PKEY,
	[TABLE_ARCHIVE] = INDEX_ARCHIVE_PKEY,
	[TABLE_WORKERS] = INDEX_WORKERS_PKEY,
	[TABLE_WORKFLOWS] = INDEX_WORKFLOWS_PKEY,
	[TABLE_RUNS] = INDEX_RUNS_PKEY,
	[TABLE_STEPS] = INDEX_STEPS_PKEY,
	[TABLE_SIGNALS] = INDEX_SIGNALS_PKEY,
	[TABLE_SCHEDULES] = INDEX_SCHEDULES_PKEY,
	[TABLE_FIRINGS] = INDEX_FIRINGS_PKEY,
	[TABLE_EVENTS] = INDEX_EVENTS_PKEY,
	[TABLE_GRANTS] = INDEX_GRANTS_PKEY,
	[TABLE_PARENTS] = INDEX_PARENTS_PKEY,
	[TABLE_COUNTERS] = INDEX_COUNTERS_PKEY,
};

/*
 * The comparison function of a btree strategy for a column type of the
 * extension.
 */
static RegProcedure
comparison_proc(Oid type, StrategyNumber strategy)
{
	static const struct
	{
		Oid type;
		RegProcedure procs[BTMaxStrategyNumber];
	} known[] = {
		{INT8OID, {F_INT8LT, F_INT8LE, F_INT8EQ, F_INT8GE, F_INT8GT}},
		{INT2OID, {F_INT2LT, F_INT2LE, F_INT2EQ, F_INT2GE, F_INT2GT}},
		{TIMESTAMPTZOID,
		 {F_TIMESTAMPTZ_LT, F_TIMESTAMPTZ_LE, F_TIMESTAMPTZ_EQ,
		  F_TIMESTAMPTZ_GE, F_TIMESTAMPTZ_GT}},
		{TEXTOID, {F_TEXT_LT, F_TEXT_LE, F_TEXTEQ, F_TEXT_GE, F_TEXT_GT}},
		{NAMEOID, {F_NAMELT, F_NAMELE, F_NAMEEQ, F_NAMEGE, F_NAMEGT}},
		{ANYENUMOID, {F_ENUM_LT, F_ENUM_LE, F_ENUM_EQ, F_ENUM_GE, F_ENUM_GT}},
	};

	for (int i = 0; i < lengthof(known); i++)
		if (known[i].type == type)
			return known[i].procs[strategy - 1];
	elog(ERROR, "no comparison for type %u", type);
}

void
pgqrs_scan_key_init(ScanKey key, Relation index, const PgqrsKey *k)
{
	int i = k->column - 1;
	Oid type = index->rd_opcintype[i];

	ScanKeyEntryInitialize(key, 0, k->column, k->strategy, InvalidOid,
						   index->rd_indcollation[i],
						   comparison_proc(type, k->strategy), k->value);
}

/* A row comparison as the executor makes it for (a, b) >= (x, y). */
static void
make_pair_key(ScanKey key, ScanKeyData *pair, Relation index, const PgqrsKey *k)
{
	for (int i = 0; i < 2; i++)
	{
		AttrNumber column = k->column + i;

		ScanKeyEntryInitializeWithInfo(&pair[i],
									   SK_ROW_MEMBER | (i == 1 ? SK_ROW_END : 0),
									   column, k->strategy, InvalidOid,
									   index->rd_indcollation[column - 1],
									   index_getprocinfo(index, column, BTORDER_PROC),
									   i == 0 ? k->value : k->next_value);
	}
	memset(key, 0, sizeof(*key));
	key->sk_flags = SK_ROW_HEADER;
	key->sk_attno = k->column;
	key->sk_strategy = k->strategy;
	key->sk_argument = PointerGetDatum(pair);
}

/* The latest snapshot, or the one that the caller set. */
static Snapshot
read_snapshot(PgqrsTable *table)
{
	return table->snapshot ? table->snapshot : GetLatestSnapshot();
}

/*
 * Starts a scan in index order.  The snapshot stays active until the end of the
 * scan.  Only a scan with keep_entries, which takes two pages of memory, can
 * read the columns of its index entries.
 *
 * Under SERIALIZABLE an index scan with an MVCC snapshot would leave predicate
 * locks on pages that many transactions write, and make those fail.  A scan
 * with SnapshotAny leaves none, so there the scan checks visibility itself.
 */
static void
scan_begin(PgqrsScan *scan, PgqrsTable *table, PgqrsIndexId index, int nkeys,
		   const PgqrsKey *keys, bool keep_entries)
{
	Assert(nkeys <= PGQRS_MAX_KEYS);
	scan->table = table;
	scan->index = pgqrs_index_open(&table->open, pgqrs_catalog_index(index));
	scan->nkeys = nkeys;
	for (int i = 0; i < nkeys; i++)
	{
		if (keys[i].is_pair)
			make_pair_key(&scan->keys[i], scan->pair, scan->index, &keys[i]);
		else
			pgqrs_scan_key_init(&scan->keys[i], scan->index, &keys[i]);
	}

	if (INJECT(FLOOR_OLD_SNAPSHOT) && index == INDEX_MESSAGES_CLAIM)
		PushActiveSnapshot(GetTransactionSnapshot());
	else
		PushActiveSnapshot(read_snapshot(table));
	scan->snapshot = GetActiveSnapshot();
	scan->direction = ForwardScanDirection;
	scan->by_hand = IsolationIsSerializable();
	scan->uncommitted = false;
	scan->map = InvalidBuffer;
	scan->desc = pgqrs_index_beginscan(table->rel, scan->index,
									   scan->by_hand ? SnapshotAny : scan->snapshot,
									   nkeys);
	scan->desc->xs_want_itup = keep_entries;
	index_rescan(scan->desc, scan->keys, nkeys, NULL, 0);
}

void
pgqrs_scan_begin(PgqrsScan *scan, PgqrsTable *table, PgqrsIndexId index,
				 int nkeys, const PgqrsKey *keys)
{
	scan_begin(scan, table, index, nkeys, keys, true);
}

/* Scans all rows of a table in the order of its primary key. */
void
pgqrs_scan_begin_table(PgqrsScan *scan, PgqrsTable *table)
{
	pgqrs_scan_begin(scan, table, primary_key[table->id], 0, NULL);
}

/* From now on the scan also returns entries known to be dead. */
void
pgqrs_scan_raw(PgqrsScan *scan)
{
	scan->desc->ignore_killed_tuples = false;
}

/*
 * From now on the scan also returns rows written by open transactions.  A row
 * updated by one of them is returned once per version that matches.
 */
void
pgqrs_scan_uncommitted(PgqrsScan *scan)
{
	scan->by_hand = scan->uncommitted = true;
	scan->desc->xs_snapshot = SnapshotAny;
}

/* Replaces the values of the pair, from the next restart on. */
void
pgqrs_scan_set_pair(PgqrsScan *scan, Datum value, Datum next_value)
{
	scan->pair[0].sk_argument = value;
	scan->pair[1].sk_argument = next_value;
}

/* Restarts the scan under the same snapshot with another value for one key. */
void
pgqrs_scan_restart(PgqrsScan *scan, int key, Datum value)
{
	scan->keys[key].sk_argument = value;
	index_rescan(scan->desc, scan->keys, scan->nkeys, NULL, 0);
}

bool
pgqrs_scan_restart_below(PgqrsScan *scan, int key, int16 value)
{
	if (value == PG_INT16_MIN)
		return false;
	pgqrs_scan_restart(scan, key, Int16GetDatum(value - 1));
	return true;
}

/* Moves to the next index entry, whether or not its row is visible. */
bool
pgqrs_scan_next_key(PgqrsScan *scan)
{
	return index_getnext_tid(scan->desc, scan->direction) != NULL;
}

/* A column of the current index entry. */
Datum
pgqrs_scan_key(PgqrsScan *scan, AttrNumber column)
{
	bool isnull;

	return index_getattr(scan->desc->xs_itup, column, scan->desc->xs_itupdesc,
						 &isnull);
}

/*
 * A fetch prunes the page of its row if the page is full: all of it, for the
 * one version that the previous claim left there.  Pruning on every few fetches
 * frees as much.  A page that the scan has already pinned is not pruned.
 */
static void
spare_pruning(PgqrsScan *scan)
{
	IndexFetchHeapData *heap = (IndexFetchHeapData *) scan->desc->xs_heapfetch;
	static uint32 turn = 0;

	if (turn++ % PGQRS_PRUNE_EVERY != 0)
		heap->xs_cbuf = ReleaseAndReadBuffer(heap->xs_cbuf, scan->table->rel,
											 ItemPointerGetBlockNumber(
												 &scan->desc->xs_heaptid));
}

/* Whether the scan returns the version in the slot. */
static bool
is_visible_version(PgqrsScan *scan, TupleTableSlot *slot)
{
	SnapshotData dirty;

	if (table_tuple_satisfies_snapshot(scan->table->rel, slot, scan->snapshot))
		return true;
	if (!scan->uncommitted)
		return false;
	InitDirtySnapshot(dirty);
	return table_tuple_satisfies_snapshot(scan->table->rel, slot, &dirty);
}

/* Fetches the row of the current index entry, if it is visible. */
bool
pgqrs_scan_fetch(PgqrsScan *scan, TupleTableSlot *slot)
{
	if (scan->table->hooks != NULL && scan->table->hooks->prune_rarely)
		spare_pruning(scan);
	do
	{
		if (!index_fetch_heap(scan->desc, slot))
			return false;
		if (!scan->by_hand || is_visible_version(scan, slot))
			return true;
	} while (scan->desc->xs_heap_continue);
	return false;
}

/* The TID of the current index entry. */
ItemPointer
pgqrs_scan_tid(PgqrsScan *scan)
{
	return &scan->desc->xs_heaptid;
}

/* Fetches the row whose index entries have this TID, if it is visible. */
bool
pgqrs_scan_fetch_at(PgqrsScan *scan, ItemPointer tid, TupleTableSlot *slot)
{
	scan->desc->xs_heaptid = *tid;
	scan->desc->xs_heap_continue = false;
	return pgqrs_scan_fetch(scan, slot);
}

/*
 * Whether the row of the current index entry is visible, for scans that need
 * only the entry: on an all-visible page the row is not read, and the slot is
 * not filled.
 */
bool
pgqrs_scan_visible(PgqrsScan *scan, TupleTableSlot *slot)
{
	return VM_ALL_VISIBLE(scan->table->rel,
						  ItemPointerGetBlockNumber(&scan->desc->xs_heaptid),
						  &scan->map) ||
		pgqrs_scan_fetch(scan, slot);
}

bool
pgqrs_scan_next(PgqrsScan *scan, TupleTableSlot *slot)
{
	while (pgqrs_scan_next_key(scan))
	{
		CHECK_FOR_INTERRUPTS();
		if (pgqrs_scan_fetch(scan, slot))
			return true;
	}
	return false;
}

void
pgqrs_scan_end(PgqrsScan *scan)
{
	if (BufferIsValid(scan->map))
		ReleaseBuffer(scan->map);
	index_endscan(scan->desc);
	PopActiveSnapshot();
}

/*
 * Fetching
 */

static bool
fetch_recent(PgqrsTable *table, const Datum *keys, TupleTableSlot *slot)
{
	bool found;

	PushActiveSnapshot(read_snapshot(table));
	found = pgqrs_tid_cache_fetch(table->id, table->rel, GetActiveSnapshot(),
								  keys, slot);
	PopActiveSnapshot();
	return found;
}

/* Fetches the row whose first index columns equal the keys. */
bool
pgqrs_row_fetch(PgqrsTable *table, PgqrsIndexId index, int nkeys,
				const Datum *keys, TupleTableSlot *slot)
{
	PgqrsScan scan;
	PgqrsKey k[PGQRS_MAX_KEYS] = {{0}};
	bool by_key = index == primary_key[table->id] &&
		pgqrs_tid_cache_key(table->id) != InvalidAttrNumber;
	bool found;

	if (by_key && fetch_recent(table, keys, slot))
		return true;
	for (int i = 0; i < nkeys; i++)
		k[i] = (PgqrsKey){i + 1, BTEqualStrategyNumber, keys[i], false, (Datum) 0};
	scan_begin(&scan, table, index, nkeys, k, false);
	found = pgqrs_scan_next(&scan, slot);
	pgqrs_scan_end(&scan);
	if (found && by_key)
		pgqrs_tid_cache_record(table->id, DatumGetInt64(keys[0]), &slot->tts_tid);
	return found;
}

bool
pgqrs_table_has_row(PgqrsTableId table_id, PgqrsIndexId index, int64 id)
{
	PgqrsTable *table = pgqrs_table_open(table_id, false);
	Datum key = Int64GetDatum(id);
	bool found = pgqrs_row_fetch(table, index, 1, &key, pgqrs_table_slot(table));

	pgqrs_table_close(table);
	return found;
}

/* Fetches a row of a table with a single-column bigint key. */
bool
pgqrs_row_fetch_id(PgqrsTable *table, int64 id, TupleTableSlot *slot)
{
	Datum key = Int64GetDatum(id);

	return pgqrs_row_fetch(table, primary_key[table->id], 1, &key, slot);
}
