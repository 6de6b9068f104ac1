/*
 * tid_cache.c
 *	  Where this backend saw a row last.
 *
 * A worker's calls are about few runs, each again and again.  Going straight to
 * the version that the call before read or wrote costs a quarter of a descent
 * of the index.  The place is a hint: whatever is there counts only if it has
 * the key and the snapshot sees it, and then it is what the index would have
 * led to, since a key has at most one visible version.
 */
#include "store/tid_cache.h"

#include "access/heapam.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_collation.h"
#include "storage/bufmgr.h"
#include "storage/smgr.h"
#include "utils/builtins.h"
#include "utils/rel.h"

/* Places per table; the keys of rows in use at a time are near each other. */
#define PLACES 64

typedef struct Place
{
	int64 first_key;
	ItemPointerData tid;
} Place;

typedef struct Places
{
	uint32 fetches;
	Place at[PLACES];
} Places;

static Places places[TABLE_COUNT];

AttrNumber
pgqrs_tid_cache_key(PgqrsTableId id)
{
	switch (id)
	{
		case TABLE_MESSAGES:
			return Messages_message_id;
		case TABLE_RUNS:
			return Runs_run_id;
		case TABLE_STEPS:
			return Steps_run_id;
		default:
			return InvalidAttrNumber;
	}
}

static Place *
place_of(PgqrsTableId id, int64 first_key)
{
	return &places[id].at[(uint64) first_key % PLACES];
}

void
pgqrs_tid_cache_record(PgqrsTableId id, int64 first_key, ItemPointer tid)
{
	Place *place = place_of(id, first_key);

	place->first_key = first_key;
	place->tid = *tid;
}

static bool
has_key(PgqrsTableId id, TupleTableSlot *slot, const Datum *keys)
{
	bool isnull;
	Datum first = slot_getattr(slot, pgqrs_tid_cache_key(id), &isnull);

	if (DatumGetInt64(first) != DatumGetInt64(keys[0]))
		return false;
	return id != TABLE_STEPS ||
		DatumGetBool(DirectFunctionCall2Coll(texteq, C_COLLATION_OID, keys[1],
											 slot_getattr(slot, Steps_step_id,
														  &isnull)));
}

/*
 * What the last look at the size of the table found holds as long as the storage
 * manager keeps it: the end is cut off with an invalidation, which has arrived
 * with our lock on the table.
 */
static bool
has_block(Relation table, BlockNumber block)
{
	BlockNumber known = RelationGetSmgr(table)->smgr_cached_nblocks[MAIN_FORKNUM];

	return (known != InvalidBlockNumber && block < known) ||
		block < RelationGetNumberOfBlocks(table);
}

static void
prune(Relation table, BlockNumber block)
{
	Buffer buffer = ReadBuffer(table, block);

	heap_page_prune_opt(table, buffer);
	ReleaseBuffer(buffer);
}

bool
pgqrs_tid_cache_fetch(PgqrsTableId id, Relation table, Snapshot snapshot,
					  const Datum *keys, TupleTableSlot *slot)
{
	int64 first_key = DatumGetInt64(keys[0]);
	Place *place = place_of(id, first_key);
	BlockNumber block;

	if (place->first_key != first_key || !ItemPointerIsValid(&place->tid))
		return false;
	/* a fetch by place would leave a predicate lock */
	if (IsolationIsSerializable())
		return false;
	block = ItemPointerGetBlockNumber(&place->tid);
	if (!has_block(table, block))
		return false;
	if (places[id].fetches++ % PGQRS_PRUNE_EVERY == 0)
		prune(table, block);
	return table_tuple_fetch_row_version(table, &place->tid, snapshot, slot) &&
		has_key(id, slot, keys);
}
