/*
 * tuple.c
 *	  Locking, inserting, updating and deleting the extension's rows, without a
 *	  plan.
 *
 * Runs in any backend inside a transaction.  Locks rows as asked, to the end of
 * the transaction.  Any row that is not locked may be changed at the same time:
 * a caller that locks a row checks the locked version again.
 *
 * Modelled on execReplication.c and logical replication's apply worker.
 */
#include "store/tuple.h"

#include "access/htup_details.h"
#include "access/multixact.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "base/compat.h"
#include "common/hashfn.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "storage/procarray.h"
#include "store/index_insert.h"
#include "store/scan.h"
#include "store/tid_cache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/*
 * Distinguishes locks on keys from users' advisory locks, which have classes 1
 * and 2.
 */
#define LOCK_CLASS 3

/* Tuples inserted into the table at a time. */
#define INSERT_CHUNK 50

/* The result of locking, updating or deleting a version. */
static PgqrsLockResult
result_of(PgqrsTable *table, TM_Result result)
{
	switch (result)
	{
		case TM_Ok:
			return ROW_LOCKED;
		case TM_Updated:
		case TM_Deleted:
		case TM_Invisible: /* by an earlier command of this transaction, since a
						    * scan began */
			return ROW_CHANGED;
		case TM_BeingModified:
		case TM_WouldBlock:
			return ROW_BUSY;
		default:
			elog(ERROR, "unexpected result %d of changing a row of %s",
				 (int) result, RelationGetRelationName(table->rel));
	}
}

/*
 * Whether this transaction wrote the version in the slot, and no transaction
 * has changed it since.
 */
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

static void
begin_lock(PgqrsTable *table, TupleTableSlot *slot)
{
	if (table->hooks != NULL)
		table->hooks->begin_lock(slot);
}

static void
end_lock(PgqrsTable *table)
{
	if (table->hooks != NULL)
		table->hooks->end_lock();
}

/*
 * Locks the version of a row in the slot.  ROW_CHANGED: the version is no
 * longer the current one; fetch and check the row again.
 *
 * A key-share lock does not wait for an update that leaves the key alone; then
 * it also locks the version being written, so that the lock holds whichever way
 * the update ends.  A version written by this transaction needs no such lock,
 * since other transactions wait for its end anyway: a step that begins in the
 * transaction of the claim costs no WAL for it.
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
	begin_lock(table, slot);
	/* heap tables ignore the snapshot here */
	result = table_tuple_lock(table->rel, &tid, InvalidSnapshot, slot,
							  GetCurrentCommandId(false), mode, wait, flags, &tmfd);
	end_lock(table);
	return result_of(table, result);
}

/*
 * Fetches and locks the current version of a row, waiting if needed; false: no
 * such row.
 */
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
 * Whether the transaction that has locked or changed the row is open.
 * blocks_update: only if an update of other columns than keys would wait for it.
 */
static bool
has_open_xmax(TupleTableSlot *slot, bool blocks_update)
{
	bool should_free;
	HeapTuple tuple = ExecFetchSlotHeapTuple(slot, false, &should_free);
	HeapTupleHeader header = tuple->t_data;
	uint16 infomask = header->t_infomask;
	TransactionId xmax = HeapTupleHeaderGetRawXmax(header);
	bool open;

	if ((infomask & HEAP_XMAX_INVALID) != 0 ||
		(blocks_update && HEAP_XMAX_IS_KEYSHR_LOCKED(infomask)))
		open = false;
	else if ((infomask & HEAP_XMAX_IS_MULTI) != 0)
		open = MultiXactIdIsRunning(xmax, HEAP_XMAX_IS_LOCKED_ONLY(infomask));
	else
		open = !(blocks_update && TransactionIdIsCurrentTransactionId(xmax)) &&
			TransactionIdIsInProgress(xmax);
	if (should_free)
		heap_freetuple(tuple);
	return open;
}

/*
 * Whether an open transaction has locked or is changing the row that was read:
 * the row could not be locked in the strongest mode now.
 */
bool
pgqrs_row_is_busy(TupleTableSlot *slot)
{
	return has_open_xmax(slot, false);
}

/*
 * Whether an update of the row that was read, without a change of its keys,
 * would wait for another transaction.
 */
bool
pgqrs_row_update_waits(TupleTableSlot *slot)
{
	return has_open_xmax(slot, true);
}

/*
 * Another transaction that has deleted the row in the slot, which was visible
 * when read, and was not rolled back; or an invalid id.  An updated version
 * points to its successor, a deleted version to itself.
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
 * Whether the transaction that wrote the version in the slot has ended and sent
 * its invalidations: it does so after the version became visible, and before
 * its lock is released.
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
 * The transaction that has locked or changed the row in the slot; an invalid id if
 * there are several.
 */
TransactionId
pgqrs_row_locker(TupleTableSlot *slot)
{
	BufferHeapTupleTableSlot *stored = (BufferHeapTupleTableSlot *) slot;
	HeapTupleHeader header = stored->base.tuple->t_data;

	return (header->t_infomask & HEAP_XMAX_IS_MULTI) != 0 ?
		InvalidTransactionId :
		HeapTupleHeaderGetRawXmax(header);
}

/*
 * The other transaction that has written the version in the slot, if it is open;
 * or an invalid id. *is_update: the version replaces another one.
 */
TransactionId
pgqrs_row_open_writer(TupleTableSlot *slot, bool *is_update)
{
	BufferHeapTupleTableSlot *stored = (BufferHeapTupleTableSlot *) slot;
	HeapTupleHeader header = stored->base.tuple->t_data;
	TransactionId xid = HeapTupleHeaderGetXmin(header);

	*is_update = (header->t_infomask & HEAP_UPDATED) != 0;
	if (!TransactionIdIsNormal(xid) || TransactionIdIsCurrentTransactionId(xid) ||
		HeapTupleHeaderXminCommitted(header) || !TransactionIdIsInProgress(xid))
		return InvalidTransactionId;
	return xid;
}

/*
 * Writing
 */

/* Initializes a row of NULLs. */
void
pgqrs_row_init(PgqrsRow *row, PgqrsTable *table)
{
	row->natts = RelationGetNumberOfAttributes(table->rel);
	Assert(row->natts <= PGQRS_MAX_COLUMNS);
	memset(row->nulls, true, row->natts);
	memset(row->changed, false, row->natts);
}

/* Copies the row in the slot, to be changed.  The slot must stay as it is. */
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
 * Prepares the executor for writing index entries. changed: columns whose
 * values may differ from the old version; without them every index of an
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
			pgqrs_table_refuse(table->rel,
							   "table \"%s\" has deferrable constraints");
}

/* Refuses a NULL in a NOT NULL column, with the executor's message. */
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
fill_tuple_slot(PgqrsTable *table, TupleTableSlot *slot, const PgqrsRow *row)
{
	check_not_null(table, row);
	ExecClearTuple(slot);
	memcpy(slot->tts_values, row->values, row->natts * sizeof(Datum));
	memcpy(slot->tts_isnull, row->nulls, row->natts * sizeof(bool));
	ExecStoreVirtualTuple(slot);
	slot->tts_tableOid = RelationGetRelid(table->rel);
	return slot;
}

/* The table's slot for writing. */
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
	return fill_tuple_slot(table, writer_slot(table), row);
}

static void
before_write(PgqrsTable *table, const PgqrsRow *row)
{
	if (table->hooks != NULL)
		table->hooks->before_write(row);
}

static void
after_write(PgqrsTable *table, const PgqrsRow *row, TupleTableSlot *slot,
			TupleTableSlot *old)
{
	AttrNumber key = pgqrs_tid_cache_key(table->id);

	if (key != InvalidAttrNumber)
		pgqrs_tid_cache_record(table->id, DatumGetInt64(row->values[key - 1]),
							   &slot->tts_tid);
	if (table->hooks != NULL)
		table->hooks->after_write(row, old);
}

/* Whether index entries can be written without the executor. */
static bool
has_known_indexes(PgqrsTable *table)
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

	if (has_known_indexes(table))
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

	before_write(table, row);
	table_tuple_insert(table->rel, slot, GetCurrentCommandId(true), 0, NULL);
	insert_index_entries(table, row, slot, false, false);
	after_write(table, row, slot, NULL);
	CommandCounterIncrement();
}

/*
 * Writes entries index by index, so that the page being written stays cached.
 */
static void
insert_many_entries(PgqrsTable *table, const PgqrsRow *rows,
					TupleTableSlot **slots, int count)
{
	if (!has_known_indexes(table))
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
		before_write(table, &rows[i]);
	for (int start = 0; start < count; start += nslots)
	{
		int n = Min(nslots, count - start);

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < n; i++)
			fill_tuple_slot(table, slots[i], &rows[start + i]);
		table_multi_insert(table->rel, slots, n, GetCurrentCommandId(true), 0, NULL);
		insert_many_entries(table, &rows[start], slots, n);
		for (int i = 0; i < n; i++)
			after_write(table, &rows[start + i], slots[i], NULL);
	}
	CommandCounterIncrement();
}

/* Whether two unique indexes of a table enforce the same constraint. */
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
 * The index and its twins; all are open.  REINDEX CONCURRENTLY fills the new
 * index while the old one is in use, and a conflict may show in either.
 */
static List *
find_twin_indexes(PgqrsTable *table, Oid index)
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
 * Inserts a row unless a row with the same key of a unique index exists; waits
 * for a concurrent insertion to end.  False: such a row is committed, or this
 * transaction's own; it may be gone again by the time the caller looks.
 *
 * Speculative insertion, as for INSERT ...  ON CONFLICT.
 */
bool
pgqrs_row_insert_unique(PgqrsTable *table, const PgqrsRow *row, PgqrsIndexId arbiter)
{
	TupleTableSlot *slot;
	List *arbiters;
	bool conflict;

	open_executor(table, row->changed);
	arbiters = find_twin_indexes(table, pgqrs_catalog_index(arbiter));
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
		before_write(table, row);
		token = SpeculativeInsertionLockAcquire(GetCurrentTransactionId());
		table_tuple_insert_speculative(table->rel, slot,
									   GetCurrentCommandId(true), 0, NULL, token);
		pgqrs_insert_index_tuples(table->rri, slot, table->estate, false, true,
								  &conflict, arbiters, false);
		table_tuple_complete_speculative(table->rel, slot, token, !conflict);
		SpeculativeInsertionLockRelease(GetCurrentTransactionId());
		ResetPerTupleExprContext(table->estate);
	} while (conflict);
	after_write(table, row, slot, NULL);
	CommandCounterIncrement();
	return true;
}

/*
 * Whether a row with the keys exists, committed or this transaction's own;
 * waits for transactions that are inserting, changing or deleting such a row.
 */
static bool
row_exists_or_wait(PgqrsTable *table, Relation index, int nkeys, const PgqrsKey *keys)
{
	TupleTableSlot *slot = writer_slot(table);
	ScanKeyData scankeys[PGQRS_MAX_KEYS];
	TransactionId busy = InvalidTransactionId;
	ItemPointerData tid;
	SnapshotData dirty;
	IndexScanDesc scan;
	bool found;

	for (int i = 0; i < nkeys; i++)
		pgqrs_scan_key_init(&scankeys[i], index, &keys[i]);
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
 * Waits, without locking, for the end of transactions that are inserting,
 * changing or deleting the row with the values of an index' first columns;
 * whether the row exists then.
 */
bool
pgqrs_row_await_writer(PgqrsTable *table, PgqrsIndexId index, int nkeys,
					   const Datum *values)
{
	PgqrsKey keys[PGQRS_MAX_KEYS];

	for (int i = 0; i < nkeys; i++)
		keys[i] = (PgqrsKey){i + 1, BTEqualStrategyNumber, values[i]};
	return row_exists_or_wait(table,
							  pgqrs_index_open(&table->open,
											   pgqrs_catalog_index(index)),
							  nkeys, keys);
}

static uint64
hash_key_value(Relation index, const PgqrsKey *key, uint64 seed)
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
 * Inserts a row unless a row with the same first columns of a unique index
 * exists; waits for a concurrent insertion to end.  Only for rows that are
 * inserted by this function alone: each call locks the key from looking to
 * inserting, which spares the WAL of a speculative insertion.  A transaction
 * that holds the lock may be waiting for the end of this one, which inserted
 * the row before, so the row is looked up before the lock is waited for.
 */
bool
pgqrs_row_insert_first(PgqrsTable *table, const PgqrsRow *row, PgqrsIndexId id,
					   int nkeys)
{
	Relation index = pgqrs_index_open(&table->open, pgqrs_catalog_index(id));
	PgqrsKey keys[PGQRS_MAX_KEYS];
	Datum values[PGQRS_MAX_KEYS];
	/* of the table, not of the index, which REINDEX CONCURRENTLY replaces */
	uint64 hash = ((uint64) id << 32) | RelationGetRelid(table->rel);
	LOCKTAG tag;
	bool exists;

	for (int i = 0; i < nkeys; i++)
	{
		AttrNumber column = index->rd_index->indkey.values[i];

		values[i] = row->values[column - 1];
		keys[i] = (PgqrsKey){i + 1, BTEqualStrategyNumber, values[i]};
		hash = hash_key_value(index, &keys[i], hash);
	}
	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, (uint32) (hash >> 32),
						 (uint32) hash, LOCK_CLASS);
	if (LockAcquire(&tag, ExclusiveLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
	{
		if (pgqrs_row_fetch(table, id, nkeys, values, writer_slot(table)))
			return false;
		(void) LockAcquire(&tag, ExclusiveLock, false, false);
	}
	exists = row_exists_or_wait(table, index, nkeys, keys);
	if (!exists)
		pgqrs_row_insert(table, row);
	LockRelease(&tag, ExclusiveLock, false);
	return !exists;
}

/* A version locked by the caller must be the current one. */
static void
require_locked(PgqrsTable *table, PgqrsLockResult result)
{
	if (result != ROW_LOCKED)
		elog(ERROR, "a locked row of %s has changed",
			 RelationGetRelationName(table->rel));
}

/*
 * Refuses the write of a published table of which a subscriber could not
 * identify the row or evaluate the row filter, as UPDATE and DELETE do.  The
 * relcache holds the answer.
 */
static void
require_identity(PgqrsTable *table, CmdType command)
{
	CheckCmdReplicaIdentity(table->rel, command);
}

/*
 * Replaces the version of a row in the slot; waits for a transaction that has
 * locked the row against that, since heap_update() has no mode for locked rows
 * that does not wait.  ROW_CHANGED: the version is not the current one; fetch
 * and check the row again.
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
	before_write(table, row);
	result = pgqrs_tuple_update(table->rel, &old->tts_tid, slot,
								GetCurrentCommandId(true), &tmfd, &mode,
								&all_indexes, &any_index);
	if (result != TM_Ok)
		return result_of(table, result);
	if (any_index)
		insert_index_entries(table, row, slot, true, !all_indexes);
	after_write(table, row, slot, old);
	CommandCounterIncrement();
	return ROW_LOCKED;
}

/*
 * Deletes the version of a row in the slot.  With LockWaitBlock the call waits
 * as pgqrs_row_try_update() does; with LockWaitSkip any lock is ROW_BUSY, this
 * transaction's own included.
 */
PgqrsLockResult
pgqrs_row_try_delete(PgqrsTable *table, TupleTableSlot *old, LockWaitPolicy wait)
{
	TM_FailureData tmfd;
	TM_Result result;

	require_identity(table, CMD_DELETE);
	before_write(table, NULL);
	begin_lock(table, old);
	result = table_tuple_delete(table->rel, &old->tts_tid,
								GetCurrentCommandId(true), InvalidSnapshot,
								InvalidSnapshot, wait == LockWaitBlock, &tmfd,
								false);
	end_lock(table);
	if (result == TM_Ok)
		CommandCounterIncrement();
	return result_of(table, result);
}

/* The caller has locked the row at least in LockTupleNoKeyExclusive mode. */
void
pgqrs_row_update(PgqrsTable *table, TupleTableSlot *old, const PgqrsRow *row)
{
	require_locked(table, pgqrs_row_try_update(table, old, row));
}

/* Updates one column. */
void
pgqrs_row_set(PgqrsTable *table, TupleTableSlot *old, AttrNumber column,
			  NullableDatum value)
{
	PgqrsRow row;

	pgqrs_row_copy(&row, table, old);
	pgqrs_set_or_null(&row, column, value);
	pgqrs_row_update(table, old, &row);
}

/* The caller has locked the row in LockTupleExclusive mode. */
void
pgqrs_row_delete(PgqrsTable *table, TupleTableSlot *old)
{
	require_locked(table, pgqrs_row_try_delete(table, old, LockWaitBlock));
}
