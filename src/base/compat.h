/*
 * compat.h
 *	  Differences between PostgreSQL versions, as inline functions with the
 *	  newest signature.  The only place where PG_VERSION_NUM is tested.
 */
#ifndef PGQRS_COMPAT_H
#define PGQRS_COMPAT_H

#include "postgres.h"

#if PG_VERSION_NUM < 150000
#error "pgqrs needs PostgreSQL 15 or later"
#endif

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/tableam.h"
#include "catalog/pg_database.h"
#include "commands/trigger.h"
#include "common/pg_prng.h"
#include "executor/executor.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/tidbitmap.h"
#include "storage/latch.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "utils/acl.h"
#include "utils/backend_status.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#if PG_VERSION_NUM >= 180000
#include "storage/waiteventset.h"
#endif

#if PG_VERSION_NUM >= 170000
#include "storage/procarray.h"
#include "storage/procnumber.h"
#include "utils/timeout.h"
#else
#include "storage/backendid.h"
#include "storage/sinvaladt.h"
#endif

#if PG_VERSION_NUM >= 160000
#include "parser/parse_relation.h"
#include "varatt.h"
#endif

/* 17: procNumber; prepared transactions have none */
static inline PGPROC *
pgqrs_proc_of(VirtualTransactionId id)
{
#if PG_VERSION_NUM >= 170000
	return id.procNumber == INVALID_PROC_NUMBER ?
		NULL :
		ProcNumberGetProc(id.procNumber);
#else
	return id.backendId == InvalidBackendId ? NULL : BackendIdGetProc(id.backendId);
#endif
}

/*
 * 16: a result of three values, since a HOT update may leave only BRIN indexes
 * to update
 */
static inline TM_Result
pgqrs_tuple_update(Relation rel, ItemPointer tid, TupleTableSlot *slot,
				   CommandId cid, TM_FailureData *tmfd, LockTupleMode *lockmode,
				   bool *all_indexes, bool *any_index)
{
	TM_Result result;

#if PG_VERSION_NUM >= 160000
	TU_UpdateIndexes update_indexes;

	result = table_tuple_update(rel, tid, slot, cid, InvalidSnapshot,
								InvalidSnapshot, true, tmfd, lockmode,
								&update_indexes);
	*any_index = update_indexes != TU_None;
	*all_indexes = update_indexes == TU_All;
#else
	bool update_indexes;

	result = table_tuple_update(rel, tid, slot, cid, InvalidSnapshot,
								InvalidSnapshot, true, tmfd, lockmode,
								&update_indexes);
	*any_index = *all_indexes = update_indexes;
#endif
	return result;
}

/* 16: onlySummarizing */
static inline List *
pgqrs_insert_index_tuples(ResultRelInfo *rri, TupleTableSlot *slot, EState *estate,
						  bool update, bool no_dup_err, bool *spec_conflict,
						  List *arbiters, bool only_summarizing)
{
#if PG_VERSION_NUM >= 160000
	return ExecInsertIndexTuples(rri, slot, estate, update, no_dup_err,
								 spec_conflict, arbiters, only_summarizing);
#else
	return ExecInsertIndexTuples(rri, slot, estate, update, no_dup_err,
								 spec_conflict, arbiters);
#endif
}

/* 18: tupleid */
static inline bool
pgqrs_check_index_constraints(ResultRelInfo *rri, TupleTableSlot *slot,
							  EState *estate, ItemPointer conflict, List *arbiters)
{
#if PG_VERSION_NUM >= 180000
	ItemPointerData invalid;

	ItemPointerSetInvalid(&invalid);
	return ExecCheckIndexConstraints(rri, slot, estate, conflict, &invalid,
									 arbiters);
#else
	return ExecCheckIndexConstraints(rri, slot, estate, conflict, arbiters);
#endif
}

/* 16: permissions moved out of the range table entry; 18: unpruned relids */
static inline void
pgqrs_init_range_table(EState *estate, Relation rel, Bitmapset *updated)
{
	RangeTblEntry *rte = makeNode(RangeTblEntry);
	List *perms = NIL;

	rte->rtekind = RTE_RELATION;
	rte->relid = RelationGetRelid(rel);
	rte->relkind = rel->rd_rel->relkind;
	rte->rellockmode = RowExclusiveLock;
#if PG_VERSION_NUM >= 160000
	addRTEPermissionInfo(&perms, rte)->updatedCols = updated;
#else
	rte->updatedCols = updated;
#endif
#if PG_VERSION_NUM >= 180000
	ExecInitRangeTable(estate, list_make1(rte), perms, bms_make_singleton(1));
#elif PG_VERSION_NUM >= 160000
	ExecInitRangeTable(estate, list_make1(rte), perms);
#else
	(void) perms;
	ExecInitRangeTable(estate, list_make1(rte));
#endif
}

/* 16: the parent of the trigger, and whether to recurse */
static inline void
pgqrs_enable_trigger(Relation rel, const char *name, char fires_when, LOCKMODE lock)
{
#if PG_VERSION_NUM >= 160000
	EnableDisableTrigger(rel, name, InvalidOid, fires_when, false, false, lock);
#else
	EnableDisableTrigger(rel, name, fires_when, false, lock);
#endif
}

/* One row of pg_stat_activity, counted from 1; 16: under another name */
static inline LocalPgBackendStatus *
pgqrs_backend_status(int i)
{
#if PG_VERSION_NUM >= 160000
	return pgstat_get_local_beentry_by_index(i);
#else
	return pgstat_fetch_stat_local_beentry(i);
#endif
}

/* 17: MyProcNumber, counted from 0, took the place of MyBackendId */
static inline int
pgqrs_backend_number(void)
{
#if PG_VERSION_NUM >= 170000
	return MyProcNumber;
#else
	return MyBackendId;
#endif
}

/*
 * Declared here because its header needs those of GSSAPI, which may be missing.
 */
extern bool pq_check_connection(void);

/* False if the client is known to have closed the connection. */
static inline bool
pgqrs_client_is_there(void)
{
	return MyProcPort == NULL || !WaitEventSetCanReportClosed() ||
		pq_check_connection();
}

/* 18: instrumentation of index scans */
static inline IndexScanDesc
pgqrs_index_beginscan(Relation heap, Relation index, Snapshot snapshot, int nkeys)
{
#if PG_VERSION_NUM >= 180000
	return index_beginscan(heap, index, snapshot, NULL, nkeys, 0);
#else
	return index_beginscan(heap, index, snapshot, nkeys, 0);
#endif
}

/* 18: another form of pages */
#if PG_VERSION_NUM >= 180000
typedef TBMPrivateIterator PgqrsBitmapIterator;
#define pgqrs_bitmap_begin(bitmap) tbm_begin_private_iterate(bitmap)
#define pgqrs_bitmap_end(iterator) tbm_end_private_iterate(iterator)
#else
typedef TBMIterator PgqrsBitmapIterator;
#define pgqrs_bitmap_begin(bitmap) tbm_begin_iterate(bitmap)
#define pgqrs_bitmap_end(iterator) tbm_end_iterate(iterator)
#endif

/*
 * The next page and its number of items; -1: all items of the page may match.
 */
static inline bool
pgqrs_bitmap_next(PgqrsBitmapIterator *iterator, BlockNumber *page,
				  OffsetNumber *items, int *count)
{
#if PG_VERSION_NUM >= 180000
	TBMIterateResult result;

	if (!tbm_private_iterate(iterator, &result))
		return false;
	*page = result.blockno;
	*count = result.lossy ?
		-1 :
		tbm_extract_page_tuple(&result, items, MaxHeapTuplesPerPage);
#else
	TBMIterateResult *result = tbm_iterate(iterator);

	if (result == NULL)
		return false;
	*page = result->blockno;
	*count = result->ntuples;
	if (*count > 0)
		memcpy(items, result->offsets, *count * sizeof(OffsetNumber));
#endif
	return true;
}

/* 16: one function for all kinds of objects */
static inline bool
pgqrs_owns_database(Oid db, Oid role)
{
#if PG_VERSION_NUM >= 160000
	return object_ownercheck(DatabaseRelationId, db, role);
#else
	return pg_database_ownercheck(db, role);
#endif
}

/* 17: named wait events of extensions */
static inline uint32
pgqrs_wait_event(uint32 *event, const char *name)
{
#if PG_VERSION_NUM >= 170000
	if (*event == 0)
		*event = WaitEventExtensionNew(name);
#else
	*event = PG_WAIT_EXTENSION;
#endif
	return *event;
}

/* 18: pg_get_loaded_modules() tells which build a server has loaded */
#if PG_VERSION_NUM >= 180000
#define PGQRS_MODULE_MAGIC \
	PG_MODULE_MAGIC_EXT(.name = "pgqrs", .version = PGQRS_VERSION)
#else
#define PGQRS_MODULE_MAGIC PG_MODULE_MAGIC
#endif

/* 17: infinite intervals, which have the most or least months */
#ifndef INTERVAL_NOT_FINITE
#define INTERVAL_NOT_FINITE(interval) false
#endif

/*
 * 17: transaction_timeout, which ends the session.  A client that waits between
 * transactions is already in the next one, whose timer must not run.
 */
static inline void
pgqrs_transaction_timeout(bool runs)
{
#if PG_VERSION_NUM >= 170000
	if (TransactionTimeout <= 0)
		return;
	if (runs)
		enable_timeout_after(TRANSACTION_TIMEOUT, TransactionTimeout);
	else
		disable_timeout(TRANSACTION_TIMEOUT, false);
#endif
}

#endif /* PGQRS_COMPAT_H */
