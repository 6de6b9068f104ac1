/*
 * table.c
 *	  Rows of the extension's tables: find, scan, lock, insert, update, delete,
 *	  without a plan.
 *
 * Runs in any backend inside a transaction.  Locks: RowExclusiveLock on what
 * is written, AccessShareLock on what is read, both to the end of the
 * transaction; row locks as asked.  Anything may happen at the same time to
 * any row that is not locked: whoever locks a row looks at the locked version
 * again.
 *
 * Modelled on what logical replication's apply worker and
 * execReplication.c do.
 */
#include "store/table.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/multixact.h"
#include "access/nbtree.h"
#include "access/relscan.h"
#include "access/tableam.h"
#include "access/visibilitymap.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "base/clock.h"
#include "base/compat.h"
#include "base/errors.h"
#include "base/inject.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "commands/sequence.h"
#include "common/hashfn.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "shmem/claim_floor.h"
#include "shmem/claim_hints.h"
#include "shmem/priority_hints.h"
#include "shmem/xact_wakeups.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "storage/procarray.h"
#include "store/tid_cache.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* Tells our locks on keys from users' advisory locks, which are of class 1 and 2. */
#define LOCK_CLASS 3

/* How many tuples go to the table at once. */
#define INSERT_CHUNK 50

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
};

/*
 * Whether tables inherit from this one.  The flag says only that one may have:
 * it stays when the last one is dropped.
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

/* Reports what somebody added to a table. */
static void
refuse(Relation rel, const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("table \"%s\" %s", RelationGetRelationName(rel), what),
			 errdetail("The functions of pgqrs write its tables directly and would bypass them."),
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

/* The trigger of a table that reports what is written past this file. */
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

/* pg_repack keeps its trigger on a table while it copies it, and when it is killed. */
static void
refuse_trigger(Relation rel, const Trigger *trigger)
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
 * Refuses a table to which something was added that the direct path would bypass.
 * A table that was found plain is so until its relation changes.
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
		refuse(rel, "is not a heap table");
	if (has_children(rel) || rel->rd_rel->relispartition)
		refuse(rel, "takes part in inheritance");
	if (rel->rd_rel->relrowsecurity)
		refuse(rel, "has row-level security");
	if (rel->rd_rules != NULL)
		refuse(rel, "has rules");
	if (RelationGetNumberOfAttributes(rel) > PGQRS_MAX_COLUMNS)
		refuse(rel, "has too many columns");
	if (constraints != NULL && constraints->num_check > 0)
		refuse(rel, "has check constraints");
	if (constraints != NULL && constraints->has_generated_stored)
		refuse(rel, "has generated columns");
	if (constraints != NULL && constraints->num_defval > 0)
		refuse(rel, "has column defaults");
	if (has_identity_columns(rel))
		refuse(rel, "has identity columns");
	trigger = foreign_trigger(rel);
	if (trigger != NULL)
		refuse_trigger(rel, trigger);
	if (has_foreign_keys(rel))
		refuse(rel, "takes part in a foreign key");
	plain[id].known = true;
	plain[id].generation = generation;
}

/* Refuses what a function that is marked PARALLEL SAFE by mistake calls. */
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

/* The same, and a subscriber's database. */
void
pgqrs_require_writable(void)
{
	pgqrs_require_read_write();
	if (pgqrs_catalog_subscribed())
		pgqrs_error_subscribed();
	pgqrs_clock_record_serving();
}

/*
 * The extension may be dropped, or made anew, while we wait for the lock.  As
 * try_table_open() does it, but for the search of pg_class: whether the table
 * is there the relation cache knows, too.
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

/* A slot for rows of the table, good until the table is closed. */
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

/*
 * Scanning
 */

/* The comparison function of a btree strategy on a column type that we use. */
static RegProcedure
comparison(Oid type, StrategyNumber strategy)
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

static void
make_scan_key(ScanKey key, Relation index, const PgqrsKey *k)
{
	int i = k->column - 1;
	Oid type = index->rd_opcintype[i];

	ScanKeyEntryInitialize(key, 0, k->column, k->strategy, InvalidOid,
						   index->rd_indcollation[i],
						   comparison(type, k->strategy), k->value);
}

/* A row comparison, as the executor makes one of (a, b) >= (x, y). */
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

/* The latest state, or what the caller wants to see. */
static Snapshot
read_snapshot(PgqrsTable *table)
{
	return table->snapshot ? table->snapshot : GetLatestSnapshot();
}

/*
 * Starts a scan in index order.  The snapshot stays active until the end of
 * the scan.  Only a scan that keeps the entries, which takes two pages of
 * memory, knows their columns.
 *
 * Under SERIALIZABLE an index scan with an MVCC snapshot would leave predicate
 * locks on the pages where everybody writes, and make strangers fail.  A scan
 * that sees everything leaves none, so there we check visibility ourselves.
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
			make_scan_key(&scan->keys[i], scan->index, &keys[i]);
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

/* All rows of a table in the order of its primary key. */
void
pgqrs_scan_begin_table(PgqrsScan *scan, PgqrsTable *table)
{
	pgqrs_scan_begin(scan, table, primary_key[table->id], 0, NULL);
}

/* From now on entries count that are known to be dead, too. */
void
pgqrs_scan_raw(PgqrsScan *scan)
{
	scan->desc->ignore_killed_tuples = false;
}

/*
 * From now on the scan returns also what transactions have written that are
 * open: a row that one of them has updated comes once in each of its versions,
 * if both match.
 */
void
pgqrs_scan_uncommitted(PgqrsScan *scan)
{
	scan->by_hand = scan->uncommitted = true;
	scan->desc->xs_snapshot = SnapshotAny;
}

/* Another value for the key that is a pair, from the next restart on. */
void
pgqrs_scan_set_pair(PgqrsScan *scan, Datum value, Datum next_value)
{
	scan->pair[0].sk_argument = value;
	scan->pair[1].sk_argument = next_value;
}

/* Starts over under the same snapshot with another value for one key. */
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

/* A column of the index entry that the scan is at. */
Datum
pgqrs_scan_key(PgqrsScan *scan, AttrNumber column)
{
	bool isnull;

	return index_getattr(scan->desc->xs_itup, column, scan->desc->xs_itupdesc,
						 &isnull);
}

/*
 * Whoever fetches a row prunes its page if that is full: all of it, for the one
 * version that the claim before has left there.  Done every few times it frees
 * as much.  A page that the scan has pinned already is not pruned.
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
satisfies(PgqrsScan *scan, TupleTableSlot *slot)
{
	SnapshotData dirty;

	if (table_tuple_satisfies_snapshot(scan->table->rel, slot, scan->snapshot))
		return true;
	if (!scan->uncommitted)
		return false;
	InitDirtySnapshot(dirty);
	return table_tuple_satisfies_snapshot(scan->table->rel, slot, &dirty);
}

/* Fetches the row of the index entry that the scan is at, if it is visible. */
bool
pgqrs_scan_fetch(PgqrsScan *scan, TupleTableSlot *slot)
{
	if (scan->table->id == TABLE_MESSAGES)
		spare_pruning(scan);
	do
	{
		if (!index_fetch_heap(scan->desc, slot))
			return false;
		if (!scan->by_hand || satisfies(scan, slot))
			return true;
	} while (scan->desc->xs_heap_continue);
	return false;
}

/* Where the index entry says that its row is. */
ItemPointer
pgqrs_scan_tid(PgqrsScan *scan)
{
	return &scan->desc->xs_heaptid;
}

/* Fetches the row that has its index entries for this TID, if it is visible. */
bool
pgqrs_scan_fetch_at(PgqrsScan *scan, ItemPointer tid, TupleTableSlot *slot)
{
	scan->desc->xs_heaptid = *tid;
	scan->desc->xs_heap_continue = false;
	return pgqrs_scan_fetch(scan, slot);
}

/*
 * Whether the row of the index entry that the scan is at is visible, for who
 * needs only the entry: on a page of which all is visible to everybody the row
 * is not looked at, and the slot not filled.
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
 * Reading
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

/* What became of a version that was to be locked, updated or deleted. */
static PgqrsLockResult
lock_result(PgqrsTable *table, TM_Result result)
{
	switch (result)
	{
		case TM_Ok:
			return ROW_LOCKED;
		case TM_Updated:
		case TM_Deleted:
		case TM_Invisible: /* by an earlier command of ours, since a scan began */
			return ROW_CHANGED;
		case TM_BeingModified:
		case TM_WouldBlock:
			return ROW_BUSY;
		default:
			elog(ERROR, "unexpected result %d of changing a row of %s",
				 (int) result, RelationGetRelationName(table->rel));
	}
}

/* Whether this transaction has written the version that the slot holds, last. */
static bool
is_own(TupleTableSlot *slot)
{
	BufferHeapTupleTableSlot *held = (BufferHeapTupleTableSlot *) slot;
	HeapTupleHeader header;

	if (!TTS_IS_BUFFERTUPLE(slot) || !BufferIsValid(held->buffer))
		return false;
	header = held->base.tuple->t_data;
	return (header->t_infomask & HEAP_XMAX_INVALID) != 0 &&
		TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(header));
}

/*
 * A message without a lease may be in the hands of a claim that has seen that
 * it is free and has not yet updated it.
 */
static void
keep_claims_out(PgqrsTable *table, TupleTableSlot *slot)
{
	if (table->id == TABLE_MESSAGES && pgqrs_is_null(slot, Messages_lease))
		pgqrs_claim_hint_begin_lock(pgqrs_get_int64(slot, Messages_message_id));
}

/*
 * Locks the version of a row that the slot holds.  ROW_CHANGED: it is no
 * longer the current one; fetch again and look again.
 *
 * A key-share lock does not wait for an update that leaves the key alone; then
 * the version that is being made is locked with it, so that the lock holds
 * whichever way the update ends.  What this transaction has written is locked
 * that far without a lock: others wait for its end, and so a step that begins
 * in the transaction of the claim costs no WAL for it.
 */
PgqrsLockResult
pgqrs_row_lock(PgqrsTable *table, TupleTableSlot *slot, LockTupleMode mode,
			   LockWaitPolicy wait)
{
	TM_FailureData tmfd;
	ItemPointerData tid = slot->tts_tid;
	uint8 flags = mode == LockTupleKeyShare ?
		TUPLE_LOCK_FLAG_LOCK_UPDATE_IN_PROGRESS :
		0;
	TM_Result result;

	if (mode == LockTupleKeyShare && is_own(slot))
		return ROW_LOCKED;
	keep_claims_out(table, slot);
	/* heap tables look at no snapshot here */
	result = table_tuple_lock(table->rel, &tid, InvalidSnapshot, slot,
							  GetCurrentCommandId(false), mode, wait, flags, &tmfd);
	pgqrs_claim_hint_end_lock();
	return lock_result(table, result);
}

/* Fetches and locks the current version of a row, waiting; false if none. */
bool
pgqrs_row_fetch_locked(PgqrsTable *table, int64 id, LockTupleMode mode,
					   TupleTableSlot *slot)
{
	while (pgqrs_row_fetch_id(table, id, slot))
	{
		if (pgqrs_row_lock(table, slot, mode, LockWaitBlock) == ROW_LOCKED)
			return true;
	}
	return false;
}

/*
 * Whether some transaction that is under way has the row that was read locked,
 * or is changing it: in the strongest mode it could not be locked just now.
 */
bool
pgqrs_row_is_busy(TupleTableSlot *slot)
{
	bool should_free;
	HeapTuple tuple = ExecFetchSlotHeapTuple(slot, false, &should_free);
	HeapTupleHeader header = tuple->t_data;
	TransactionId xmax = HeapTupleHeaderGetRawXmax(header);
	bool busy = false;

	if ((header->t_infomask & HEAP_XMAX_INVALID) == 0)
		busy = (header->t_infomask & HEAP_XMAX_IS_MULTI) != 0 ?
			MultiXactIdIsRunning(xmax,
								 HEAP_XMAX_IS_LOCKED_ONLY(header->t_infomask)) :
			TransactionIdIsInProgress(xmax);
	if (should_free)
		heap_freetuple(tuple);
	return busy;
}

/*
 * Whether an update of the row that was read, which leaves its keys as they are,
 * would wait for another transaction.
 */
bool
pgqrs_row_update_waits(TupleTableSlot *slot)
{
	bool should_free;
	HeapTuple tuple = ExecFetchSlotHeapTuple(slot, false, &should_free);
	HeapTupleHeader header = tuple->t_data;
	uint16 infomask = header->t_infomask;
	TransactionId xmax = HeapTupleHeaderGetRawXmax(header);
	bool waits = false;

	if ((infomask & HEAP_XMAX_INVALID) == 0 && !HEAP_XMAX_IS_KEYSHR_LOCKED(infomask))
		waits = (infomask & HEAP_XMAX_IS_MULTI) != 0 ?
			MultiXactIdIsRunning(xmax, HEAP_XMAX_IS_LOCKED_ONLY(infomask)) :
			!TransactionIdIsCurrentTransactionId(xmax) &&
				TransactionIdIsInProgress(xmax);
	if (should_free)
		heap_freetuple(tuple);
	return waits;
}

/*
 * The other transaction that has deleted the row in the slot, which was visible
 * when it was read, and has not been rolled back; or an invalid id.  A version
 * that was updated points to the next one, one that was deleted to itself.
 */
TransactionId
pgqrs_row_deleter(TupleTableSlot *slot)
{
	BufferHeapTupleTableSlot *stored = (BufferHeapTupleTableSlot *) slot;
	HeapTupleHeader header = stored->base.tuple->t_data;
	TransactionId xid = InvalidTransactionId;

	LockBuffer(stored->buffer, BUFFER_LOCK_SHARE);
	if ((header->t_infomask & HEAP_XMAX_INVALID) == 0 &&
		!HEAP_XMAX_IS_LOCKED_ONLY(header->t_infomask) &&
		ItemPointerEquals(&header->t_ctid, &stored->base.tuple->t_self))
		xid = HeapTupleHeaderGetUpdateXid(header);
	LockBuffer(stored->buffer, BUFFER_LOCK_UNLOCK);
	if (!TransactionIdIsValid(xid) || TransactionIdIsCurrentTransactionId(xid) ||
		(!TransactionIdIsInProgress(xid) && TransactionIdDidAbort(xid)))
		return InvalidTransactionId;
	return xid;
}

/*
 * Whether the transaction that wrote the version in the slot has ended, and told
 * all others to forget what they had cached of it: that comes after they see the
 * version, and before the transaction's lock is released.
 */
bool
pgqrs_row_is_settled(TupleTableSlot *slot)
{
	BufferHeapTupleTableSlot *stored = (BufferHeapTupleTableSlot *) slot;
	TransactionId xid = HeapTupleHeaderGetXmin(stored->base.tuple->t_data);
	LOCKTAG tag;

	if (!TransactionIdIsNormal(xid))
		return true;
	if (TransactionIdIsCurrentTransactionId(xid))
		return false;
	SET_LOCKTAG_TRANSACTION(tag, xid);
	if (LockAcquire(&tag, ShareLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
		return false;
	LockRelease(&tag, ShareLock, false);
	return true;
}

/*
 * Writing
 */

/* A row of NULLs. */
void
pgqrs_row_init(PgqrsRow *row, PgqrsTable *table)
{
	row->natts = RelationGetNumberOfAttributes(table->rel);
	Assert(row->natts <= PGQRS_MAX_COLUMNS);
	memset(row->nulls, true, row->natts);
	memset(row->changed, false, row->natts);
}

/* The row that the slot holds, to be changed; slot must stay as it is. */
void
pgqrs_row_copy(PgqrsRow *row, PgqrsTable *table, TupleTableSlot *slot)
{
	row->natts = RelationGetNumberOfAttributes(table->rel);
	Assert(row->natts <= PGQRS_MAX_COLUMNS);
	slot_getallattrs(slot);
	memcpy(row->values, slot->tts_values, row->natts * sizeof(Datum));
	memcpy(row->nulls, slot->tts_isnull, row->natts * sizeof(bool));
	memset(row->changed, false, row->natts);
}

/*
 * Prepares for the executor to write index entries.  changed: columns whose
 * values may differ from the old version's; without them every index of an
 * updated row would look unchanged and invite useless bottom-up deletion.
 */
static void
open_executor(PgqrsTable *table, const bool *changed)
{
	Bitmapset *columns = NULL;
	MemoryContext caller;

	if (table->estate != NULL)
		return;
	table->estate = CreateExecutorState();
	caller = MemoryContextSwitchTo(table->estate->es_query_cxt);
	for (int i = 0; i < RelationGetNumberOfAttributes(table->rel); i++)
		if (changed[i])
			columns = bms_add_member(columns,
									 i + 1 - FirstLowInvalidHeapAttributeNumber);
	pgqrs_init_range_table(table->estate, table->rel, columns);
	table->rri = makeNode(ResultRelInfo);
	InitResultRelInfo(table->rri, table->rel, 1, NULL, 0);
	ExecOpenIndices(table->rri, true);
	MemoryContextSwitchTo(caller);
	for (int i = 0; i < table->rri->ri_NumIndices; i++)
		if (!table->rri->ri_IndexRelationDescs[i]->rd_index->indimmediate)
			refuse(table->rel, "has deferrable constraints");
}

/* Reports a column that must not be null, as the executor would. */
static void
check_not_null(PgqrsTable *table, const PgqrsRow *row)
{
	TupleDesc desc = RelationGetDescr(table->rel);

	for (int i = 0; i < row->natts; i++)
		if (row->nulls[i] && TupleDescAttr(desc, i)->attnotnull)
			ereport(ERROR,
					(errcode(ERRCODE_NOT_NULL_VIOLATION),
					 errmsg("null value in column \"%s\" of relation \"%s\" violates not-null constraint",
							NameStr(TupleDescAttr(desc, i)->attname),
							RelationGetRelationName(table->rel)),
					 errtablecol(table->rel, i + 1)));
}

static TupleTableSlot *
fill_slot(PgqrsTable *table, TupleTableSlot *slot, const PgqrsRow *row)
{
	check_not_null(table, row);
	ExecClearTuple(slot);
	memcpy(slot->tts_values, row->values, row->natts * sizeof(Datum));
	memcpy(slot->tts_isnull, row->nulls, row->natts * sizeof(bool));
	ExecStoreVirtualTuple(slot);
	slot->tts_tableOid = RelationGetRelid(table->rel);
	return slot;
}

/* The table's one slot for writing. */
static TupleTableSlot *
writer_slot(PgqrsTable *table)
{
	if (table->writer == NULL)
		table->writer = pgqrs_table_slot(table);
	return table->writer;
}

static TupleTableSlot *
store_row(PgqrsTable *table, const PgqrsRow *row)
{
	return fill_slot(table, writer_slot(table), row);
}

/*
 * A transaction that changes messages sees them differently from then on.  row:
 * what is about to be written, or NULL.
 */
static void
note_write(PgqrsTable *table, const PgqrsRow *row)
{
	if (table->id != TABLE_MESSAGES)
		return;
	pgqrs_floor_mark_dirty();
	if (row != NULL &&
		(row->changed[Messages_visible_after - 1] ||
		 row->changed[Messages_queue_id - 1] || row->changed[Messages_priority - 1]))
		pgqrs_floor_check_key(DatumGetInt64(row->values[Messages_queue_id - 1]),
							  DatumGetInt16(row->values[Messages_priority - 1]),
							  DatumGetTimestampTz(
								  row->values[Messages_visible_after - 1]));
}

/*
 * A row was written: this backend finds it again there, and others can claim a
 * message, once we have committed.
 */
static void
note_written(PgqrsTable *table, const PgqrsRow *row, TupleTableSlot *slot)
{
	AttrNumber key = pgqrs_tid_cache_key(table->id);

	if (key != InvalidAttrNumber)
		pgqrs_tid_cache_record(table->id, DatumGetInt64(row->values[key - 1]),
							   &slot->tts_tid);
	if (table->id != TABLE_MESSAGES)
		return;
	pgqrs_priority_hints_written(DatumGetInt64(row->values[Messages_queue_id - 1]),
								 DatumGetInt16(row->values[Messages_priority - 1]));
	if (row->changed[Messages_visible_after - 1])
		pgqrs_xact_wakeup_message(DatumGetInt64(row->values[Messages_queue_id - 1]),
								  DatumGetTimestampTz(
									  row->values[Messages_visible_after - 1]),
								  !row->nulls[Messages_lease - 1]);
}

/* Whether we write index entries by ourselves. */
static bool
know_indexes(PgqrsTable *table)
{
	if (table->indexes == NULL && table->estate == NULL)
		table->indexes = pgqrs_indexes_of(table->id, table->rel);
	return table->indexes != NULL;
}

static void
insert_index_entries(PgqrsTable *table, const PgqrsRow *row,
					 TupleTableSlot *slot, bool update, bool only_summarizing)
{
	List *recheck;

	if (know_indexes(table))
	{
		for (int i = 0; i < table->indexes->count; i++)
			pgqrs_index_insert(&table->indexes->indexes[i], &table->open,
							   table->rel, &slot->tts_tid, row->values,
							   row->nulls, update ? row->changed : NULL);
		return;
	}
	open_executor(table, row->changed);
	recheck = pgqrs_insert_index_tuples(table->rri, slot, table->estate, update,
										false, NULL, NIL, only_summarizing);
	Assert(recheck == NIL);
	list_free(recheck);
	ResetPerTupleExprContext(table->estate);
}

void
pgqrs_row_insert(PgqrsTable *table, const PgqrsRow *row)
{
	TupleTableSlot *slot = store_row(table, row);

	note_write(table, row);
	table_tuple_insert(table->rel, slot, GetCurrentCommandId(true), 0, NULL);
	insert_index_entries(table, row, slot, false, false);
	note_written(table, row, slot);
	CommandCounterIncrement();
}

/* Index by index, so that the page that is written to stays at hand. */
static void
insert_many_entries(PgqrsTable *table, const PgqrsRow *rows,
					TupleTableSlot **slots, int count)
{
	if (!know_indexes(table))
	{
		for (int i = 0; i < count; i++)
			insert_index_entries(table, &rows[i], slots[i], false, false);
		return;
	}
	for (int k = 0; k < table->indexes->count; k++)
		for (int i = 0; i < count; i++)
			pgqrs_index_insert(&table->indexes->indexes[k], &table->open,
							   table->rel, &slots[i]->tts_tid, rows[i].values,
							   rows[i].nulls, NULL);
}

/* Inserts rows in order, a page at a time. */
void
pgqrs_row_insert_many(PgqrsTable *table, PgqrsRow *rows, int count)
{
	TupleTableSlot *slots[INSERT_CHUNK];
	int nslots = Min(count, INSERT_CHUNK);

	for (int i = 0; i < nslots; i++)
		slots[i] = pgqrs_table_slot(table);
	for (int i = 0; i < count; i++)
		note_write(table, &rows[i]);
	for (int start = 0; start < count; start += nslots)
	{
		int n = Min(nslots, count - start);

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < n; i++)
			fill_slot(table, slots[i], &rows[start + i]);
		table_multi_insert(table->rel, slots, n, GetCurrentCommandId(true), 0, NULL);
		insert_many_entries(table, &rows[start], slots, n);
		for (int i = 0; i < n; i++)
			note_written(table, &rows[start + i], slots[i]);
	}
	CommandCounterIncrement();
}

/* Whether two unique indexes of a table enforce the same. */
static bool
are_twins(Relation a, IndexInfo *ainfo, Relation b, IndexInfo *binfo)
{
	int n = ainfo->ii_NumIndexKeyAttrs;

	return ainfo->ii_Unique && binfo->ii_Unique &&
		n == binfo->ii_NumIndexKeyAttrs &&
		memcmp(ainfo->ii_IndexAttrNumbers, binfo->ii_IndexAttrNumbers,
			   n * sizeof(AttrNumber)) == 0 &&
		memcmp(a->rd_opfamily, b->rd_opfamily, n * sizeof(Oid)) == 0 &&
		memcmp(a->rd_indcollation, b->rd_indcollation, n * sizeof(Oid)) == 0 &&
		equal(ainfo->ii_Expressions, binfo->ii_Expressions) &&
		equal(ainfo->ii_Predicate, binfo->ii_Predicate);
}

/*
 * The index and its twins; all are open.  REINDEX CONCURRENTLY has the new one
 * filled while the old one is in use, and a conflict may show in either.
 */
static List *
find_twins(PgqrsTable *table, Oid index)
{
	RelationPtr rels = table->rri->ri_IndexRelationDescs;
	IndexInfo **infos = table->rri->ri_IndexRelationInfo;
	int count = table->rri->ri_NumIndices;
	List *twins = list_make1_oid(index);
	int at = 0;

	while (at < count && RelationGetRelid(rels[at]) != index)
		at++;
	for (int i = 0; at < count && i < count; i++)
		if (i != at && are_twins(rels[at], infos[at], rels[i], infos[i]))
			twins = lappend_oid(twins, RelationGetRelid(rels[i]));
	return twins;
}

/*
 * Inserts a row unless one with the same key of a unique index exists; waits
 * for a concurrent insertion to end.  False: one exists that is committed, or
 * our own; it may be gone again by the time the caller looks.
 *
 * Speculative insertion, as for INSERT … ON CONFLICT.
 */
bool
pgqrs_row_insert_unique(PgqrsTable *table, const PgqrsRow *row, PgqrsIndexId arbiter)
{
	TupleTableSlot *slot;
	List *arbiters;
	bool conflict;

	open_executor(table, row->changed);
	arbiters = find_twins(table, pgqrs_catalog_index(arbiter));
	do
	{
		ItemPointerData tid;
		uint32 token;

		CHECK_FOR_INTERRUPTS();
		slot = store_row(table, row);
		if (!pgqrs_check_index_constraints(table->rri, slot, table->estate,
										   &tid, arbiters))
			return false;

		conflict = false;
		note_write(table, row);
		token = SpeculativeInsertionLockAcquire(GetCurrentTransactionId());
		table_tuple_insert_speculative(table->rel, slot,
									   GetCurrentCommandId(true), 0, NULL, token);
		pgqrs_insert_index_tuples(table->rri, slot, table->estate, false, true,
								  &conflict, arbiters, false);
		table_tuple_complete_speculative(table->rel, slot, token, !conflict);
		SpeculativeInsertionLockRelease(GetCurrentTransactionId());
		ResetPerTupleExprContext(table->estate);
	} while (conflict);
	note_written(table, row, slot);
	CommandCounterIncrement();
	return true;
}

/*
 * Whether a row with the keys exists, committed or our own; waits for whoever
 * is inserting, changing or deleting one.
 */
static bool
exists_or_wait(PgqrsTable *table, Relation index, int nkeys, const PgqrsKey *keys)
{
	TupleTableSlot *slot = writer_slot(table);
	ScanKeyData scankeys[PGQRS_MAX_KEYS];
	TransactionId busy = InvalidTransactionId;
	ItemPointerData tid;
	SnapshotData dirty;
	IndexScanDesc scan;
	bool found;

	for (int i = 0; i < nkeys; i++)
		make_scan_key(&scankeys[i], index, &keys[i]);
	InitDirtySnapshot(dirty);
	scan = pgqrs_index_beginscan(table->rel, index, &dirty, nkeys);
	do
	{
		if (TransactionIdIsValid(busy))
			XactLockTableWait(busy, table->rel, &tid, XLTW_InsertIndexUnique);
		index_rescan(scan, scankeys, nkeys, NULL, 0);
		found = index_getnext_slot(scan, ForwardScanDirection, slot);
		if (!found)
			break;
		tid = slot->tts_tid;
		busy = TransactionIdIsValid(dirty.xmin) ? dirty.xmin : dirty.xmax;
		ExecClearTuple(slot);
	} while (TransactionIdIsValid(busy));
	index_endscan(scan);
	return found;
}

/*
 * Waits for the end of whoever is inserting, changing or deleting the row with
 * the values of an index' first columns, without locking it;
 * whether there is one then.
 */
bool
pgqrs_row_await_writer(PgqrsTable *table, PgqrsIndexId id, int nkeys,
					   const Datum *values)
{
	PgqrsKey keys[PGQRS_MAX_KEYS];

	for (int i = 0; i < nkeys; i++)
		keys[i] = (PgqrsKey){i + 1, BTEqualStrategyNumber, values[i]};
	return exists_or_wait(table,
						  pgqrs_index_open(&table->open, pgqrs_catalog_index(id)),
						  nkeys, keys);
}

static uint64
hash_key(Relation index, const PgqrsKey *key, uint64 seed)
{
	Form_pg_attribute column = TupleDescAttr(RelationGetDescr(index),
											 key->column - 1);
	struct varlena *text;

	if (column->attbyval)
		return hash_bytes_extended((const unsigned char *) &key->value,
								   sizeof(Datum), seed);
	text = PG_DETOAST_DATUM_PACKED(key->value);
	return hash_bytes_extended((const unsigned char *) VARDATA_ANY(text),
							   VARSIZE_ANY_EXHDR(text), seed);
}

/*
 * Inserts a row unless one with the same first columns of a unique index
 * exists; waits for a concurrent insertion to end.  For rows that nothing else
 * inserts: each caller holds a lock on the key from looking to inserting, which
 * spares the WAL of a speculative insertion.  The holder of that lock may be
 * waiting for the end of this transaction, which has inserted the row before, so
 * whether there is one is looked up before the lock is waited for.
 */
bool
pgqrs_row_insert_first(PgqrsTable *table, const PgqrsRow *row, PgqrsIndexId id,
					   int nkeys)
{
	Relation index = pgqrs_index_open(&table->open, pgqrs_catalog_index(id));
	PgqrsKey keys[PGQRS_MAX_KEYS];
	Datum values[PGQRS_MAX_KEYS];
	/* of the table and not the index, which REINDEX CONCURRENTLY makes anew */
	uint64 hash = ((uint64) id << 32) | RelationGetRelid(table->rel);
	LOCKTAG tag;
	bool exists;

	for (int i = 0; i < nkeys; i++)
	{
		AttrNumber column = index->rd_index->indkey.values[i];

		values[i] = row->values[column - 1];
		keys[i] = (PgqrsKey){i + 1, BTEqualStrategyNumber, values[i]};
		hash = hash_key(index, &keys[i], hash);
	}
	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, (uint32) (hash >> 32),
						 (uint32) hash, LOCK_CLASS);
	if (LockAcquire(&tag, ExclusiveLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
	{
		if (pgqrs_row_fetch(table, id, nkeys, values, writer_slot(table)))
			return false;
		(void) LockAcquire(&tag, ExclusiveLock, false, false);
	}
	exists = exists_or_wait(table, index, nkeys, keys);
	if (!exists)
		pgqrs_row_insert(table, row);
	LockRelease(&tag, ExclusiveLock, false);
	return !exists;
}

/* A version that the caller has locked is the current one. */
static void
require_locked(PgqrsTable *table, PgqrsLockResult result)
{
	if (result != ROW_LOCKED)
		elog(ERROR, "a locked row of %s has changed",
			 RelationGetRelationName(table->rel));
}

/*
 * Refuses what UPDATE and DELETE refuse: a published table of which a subscriber
 * could not tell the row, or the row filter not decide.  The relation cache
 * holds the answer.
 */
static void
require_identity(PgqrsTable *table, CmdType command)
{
	CheckCmdReplicaIdentity(table->rel, command);
}

/*
 * Replaces the version of a row that the slot holds; waits for the transaction
 * that has locked the row against that.  heap_update() has no other way: its
 * wait = false is not for rows that are locked.  ROW_CHANGED: the version is not
 * the current one; fetch and look again.
 */
PgqrsLockResult
pgqrs_row_try_update(PgqrsTable *table, TupleTableSlot *old, const PgqrsRow *row)
{
	TupleTableSlot *slot = store_row(table, row);
	TM_FailureData tmfd;
	LockTupleMode mode;
	TM_Result result;
	bool all_indexes;
	bool any_index;

	require_identity(table, CMD_UPDATE);
	note_write(table, row);
	result = pgqrs_tuple_update(table->rel, &old->tts_tid, slot,
								GetCurrentCommandId(true), &tmfd, &mode,
								&all_indexes, &any_index);
	if (result != TM_Ok)
		return lock_result(table, result);
	if (any_index)
		insert_index_entries(table, row, slot, true, !all_indexes);
	note_written(table, row, slot);
	CommandCounterIncrement();
	return ROW_LOCKED;
}

/*
 * Deletes the version of a row that the slot holds.  With LockWaitBlock it waits
 * as pgqrs_row_try_update() does; with LockWaitSkip any lock is ROW_BUSY, our own
 * included.
 */
PgqrsLockResult
pgqrs_row_try_delete(PgqrsTable *table, TupleTableSlot *old, LockWaitPolicy wait)
{
	TM_FailureData tmfd;
	TM_Result result;

	require_identity(table, CMD_DELETE);
	note_write(table, NULL);
	keep_claims_out(table, old);
	result = table_tuple_delete(table->rel, &old->tts_tid,
								GetCurrentCommandId(true), InvalidSnapshot,
								InvalidSnapshot, wait == LockWaitBlock, &tmfd,
								false);
	pgqrs_claim_hint_end_lock();
	if (result == TM_Ok)
		CommandCounterIncrement();
	return lock_result(table, result);
}

/* Locked by the caller at least in LockTupleNoKeyExclusive mode. */
void
pgqrs_row_update(PgqrsTable *table, TupleTableSlot *old, const PgqrsRow *row)
{
	require_locked(table, pgqrs_row_try_update(table, old, row));
}

/* Locked by the caller in LockTupleExclusive mode. */
void
pgqrs_row_delete(PgqrsTable *table, TupleTableSlot *old)
{
	require_locked(table, pgqrs_row_try_delete(table, old, LockWaitBlock));
}
