/*
 * tid_set.c
 *	  TID set: the rows that an index without an order finds.
 *
 * Runs in any backend.  Such an index can only return all TIDs at once, and
 * does so without a snapshot: a scan that fetches the rows finds all rows
 * visible to a snapshot taken before, and no row that was stored there since.
 *
 * Memory: work_mem during the index scan; if that is too little, the index
 * returns whole pages instead.  Then 8 bytes for each TID or whole page.
 */
#include "store/tid_set.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "base/compat.h"
#include "catalog/index.h"
#include "catalog/pg_statistic.h"
#include "miscadmin.h"
#include "nodes/tidbitmap.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/jsonb.h"
#include "utils/rel.h"
#include "utils/selfuncs.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

/* Item number of an entry that stands for a whole page. */
#define WHOLE_PAGE PG_UINT16_MAX

/* Smaller histograms say little. */
#define MIN_HISTOGRAM 10

double
pgqrs_tid_set_estimate(PgqrsTable *table, AttrNumber column, Datum contained)
{
	VariableStatData stats = {.acl_ok = true};
	FmgrInfo contains;
	double common;
	double sum_common;
	double others;
	int size;

	stats.statsTuple = SearchSysCache3(STATRELATTINH,
									   ObjectIdGetDatum(RelationGetRelid(table->rel)),
									   Int16GetDatum(column), BoolGetDatum(false));
	if (!HeapTupleIsValid(stats.statsTuple))
		return 0;
	fmgr_info(F_JSONB_CONTAINS, &contains);
	common = mcv_selectivity(&stats, &contains, InvalidOid, contained, true,
							 &sum_common);
	others = histogram_selectivity(&stats, &contains, InvalidOid, contained,
								   true, MIN_HISTOGRAM, 0, &size);
	others = Max(others, 0) *
		(1 - sum_common -
		 ((Form_pg_statistic) GETSTRUCT(stats.statsTuple))->stanullfrac);
	ReleaseSysCache(stats.statsTuple);
	return (common + others) * Max(table->rel->rd_rel->reltuples, 0);
}

/* All TIDs, whatever the user's gin_fuzzy_search_limit. */
static int64
load_bitmap(IndexScanDesc scan, TIDBitmap *bitmap)
{
	int level = NewGUCNestLevel();
	int64 count;

	(void) set_config_option("gin_fuzzy_search_limit", "0", PGC_USERSET,
							 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	count = index_getbitmap(scan, bitmap);
	AtEOXact_GUC(true, level);
	return count;
}

/* The iterator returns pages, and the items of each, ascending. */
static void
add_bitmap(PgqrsInt64List *entries, TIDBitmap *bitmap)
{
	PgqrsBitmapIterator *iterator = pgqrs_bitmap_begin(bitmap);
	OffsetNumber items[MaxHeapTuplesPerPage];
	ItemPointerData tid;
	BlockNumber page;
	int count;

	while (pgqrs_bitmap_next(iterator, &page, items, &count))
	{
		CHECK_FOR_INTERRUPTS();
		if (count < 0)
		{
			items[0] = WHOLE_PAGE;
			count = 1;
		}
		for (int i = 0; i < count; i++)
		{
			ItemPointerSet(&tid, page, items[i]);
			pgqrs_int64_list_add(entries, itemptr_encode(&tid));
		}
	}
	pgqrs_bitmap_end(iterator);
}

bool
pgqrs_tid_set_load(PgqrsTidSet *tids, PgqrsTable *table, PgqrsIndexId index,
				   Datum contained)
{
	Relation rel = pgqrs_index_open(&table->open, pgqrs_catalog_index(index));
	IndexScanDesc scan;
	TIDBitmap *bitmap;
	ScanKeyData key;

	/* being created or dropped concurrently, or left invalid */
	if (!rel->rd_index->indisvalid)
		return false;

	bitmap = tbm_create(work_mem * 1024L, NULL);
	scan = pgqrs_index_beginscan(table->rel, rel, SnapshotAny, 1);
	ScanKeyInit(&key, 1, JsonbContainsStrategyNumber, F_JSONB_CONTAINS, contained);
	index_rescan(scan, &key, 1, NULL, 0);
	*tids = (PgqrsTidSet){.count = load_bitmap(scan, bitmap)};
	index_endscan(scan);
	add_bitmap(&tids->entries, bitmap);
	tbm_free(bitmap);
	return true;
}

/* Index of the first entry not below another one, or the number of entries. */
static int
lower_bound(const PgqrsInt64List *entries, int64 entry)
{
	int low = 0;
	int high = entries->count;

	while (low < high)
	{
		int middle = low + (high - low) / 2;

		if (entries->values[middle] < entry)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool
is_lower_bound(const PgqrsInt64List *entries, int64 entry, int at)
{
	return (at == entries->count || entries->values[at] >= entry) &&
		(at == 0 || entries->values[at - 1] < entry);
}

bool
pgqrs_tid_set_contains(PgqrsTidSet *tids, ItemPointer tid)
{
	const PgqrsInt64List *entries = &tids->entries;
	int64 entry = itemptr_encode(tid);
	int64 found;

	if (!is_lower_bound(entries, entry, tids->sought))
		tids->sought = lower_bound(entries, entry);
	if (tids->sought == entries->count)
		return false;
	found = entries->values[tids->sought];
	return found == entry || found == (entry | WHOLE_PAGE);
}

bool
pgqrs_tid_set_next(PgqrsTidSet *tids, ItemPointer tid)
{
	if (tids->next == tids->entries.count)
		return false;
	itemptr_decode(tid, tids->entries.values[tids->next]);
	if (ItemPointerGetOffsetNumber(tid) == WHOLE_PAGE)
		ItemPointerSetOffsetNumber(tid, ++tids->last_item);
	if (tids->last_item == 0 || tids->last_item == MaxHeapTuplesPerPage)
	{
		tids->next++;
		tids->last_item = 0;
	}
	return true;
}
