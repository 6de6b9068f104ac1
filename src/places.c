/*
 * places.c
 *	  The places of rows that an index without an order finds.
 *
 * Runs in any backend.  Such an index can only tell all places at once.  It
 * does so without a snapshot: whoever fetches the rows finds all that are
 * visible to a snapshot taken before, and sees none of another row that was put
 * there since.
 *
 * Where work_mem does not suffice for the places, whole pages take part.
 */
#include "places.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "catalog/pg_statistic.h"
#include "compat.h"
#include "miscadmin.h"
#include "nodes/tidbitmap.h"
#include "port/pg_bitutils.h"
#include "storage/bufmgr.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/selfuncs.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#define WORD_BITS 64

/* A histogram of fewer values tells little. */
#define MIN_HISTOGRAM 10

static size_t
bit_of(BlockNumber page, OffsetNumber offset)
{
	return (size_t) page * MaxHeapTuplesPerPage + offset - FirstOffsetNumber;
}

static void
add(PgqrsPlaces *places, BlockNumber page, OffsetNumber offset)
{
	size_t bit = bit_of(page, offset);

	places->words[bit / WORD_BITS] |= UINT64CONST(1) << bit % WORD_BITS;
}

/* Turns what an index found into a set. */
static void
add_all(PgqrsPlaces *places, TIDBitmap *bitmap)
{
	PgqrsBitmapIterator *iterator = pgqrs_bitmap_begin(bitmap);
	OffsetNumber offsets[MaxHeapTuplesPerPage];
	BlockNumber page;
	int count;

	while (pgqrs_bitmap_next(iterator, &page, offsets, &count))
	{
		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < count; i++)
			add(places, page, offsets[i]);
		for (int i = 0; count < 0 && i < MaxHeapTuplesPerPage; i++)
			add(places, page, FirstOffsetNumber + i);
	}
	pgqrs_bitmap_end(iterator);
}

double
pgqrs_places_expected(PgqrsTable *table, AttrNumber column, Datum contained)
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

/* All of them, whatever the user's setting of gin_fuzzy_search_limit. */
static int64
find_all(IndexScanDesc scan, TIDBitmap *bitmap)
{
	int level = NewGUCNestLevel();
	int64 count;

	(void) set_config_option("gin_fuzzy_search_limit", "0", PGC_USERSET,
							 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	count = index_getbitmap(scan, bitmap);
	AtEOXact_GUC(true, level);
	return count;
}

void
pgqrs_places_find(PgqrsPlaces *places, PgqrsTable *table, PgqrsIndexId index,
				  Datum contained)
{
	Relation rel = pgqrs_index_open(&table->open, pgqrs_catalog_index(index));
	IndexScanDesc scan = pgqrs_index_beginscan(table->rel, rel, SnapshotAny, 1);
	TIDBitmap *bitmap = tbm_create(work_mem * 1024L, NULL);
	ScanKeyData key;

	ScanKeyInit(&key, 1, JsonbContainsStrategyNumber, F_JSONB_CONTAINS, contained);
	index_rescan(scan, &key, 1, NULL, 0);
	places->count = find_all(scan, bitmap);
	index_endscan(scan);

	/* not before: what was found is in the table by now */
	places->nwords = bit_of(RelationGetNumberOfBlocks(table->rel),
							FirstOffsetNumber) /
			WORD_BITS +
		1;
	places->words = MemoryContextAllocExtended(CurrentMemoryContext,
											   places->nwords * sizeof(uint64),
											   MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	places->first = 0;
	add_all(places, bitmap);
	tbm_free(bitmap);
}

bool
pgqrs_places_have(const PgqrsPlaces *places, ItemPointer place)
{
	size_t bit = bit_of(ItemPointerGetBlockNumber(place),
						ItemPointerGetOffsetNumber(place));

	return bit / WORD_BITS < places->nwords &&
		(places->words[bit / WORD_BITS] >> bit % WORD_BITS & 1) != 0;
}

bool
pgqrs_places_take(PgqrsPlaces *places, ItemPointer place)
{
	uint64 *word;
	size_t bit;

	while (places->first < places->nwords && places->words[places->first] == 0)
		places->first++;
	if (places->first == places->nwords)
		return false;
	word = &places->words[places->first];
	bit = places->first * WORD_BITS + pg_rightmost_one_pos64(*word);
	*word &= *word - 1;
	ItemPointerSet(place, bit / MaxHeapTuplesPerPage,
				   bit % MaxHeapTuplesPerPage + FirstOffsetNumber);
	return true;
}
