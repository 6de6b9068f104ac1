/*
 * tid_cache.c
 *	  TID cache: where this backend saw a row last.
 *
 * A worker's calls concern few runs, each again and again.  Reading the version
 * that the previous call read or wrote costs a quarter of an index descent.
 * The TID is a hint: the version there counts only if it has the key and the
 * snapshot sees it, and then the index would have led to it, too, since a key
 * has at most one visible version.
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

/* Slots per table; the keys of rows in use at a time are close together. */
#define PLACES 64

typedef struct TidSlot
{
	int64 first_key;
	ItemPointerData tid;
} TidSlot;

typedef struct TidSlots
{
	uint32 fetches;
	TidSlot at[PLACES];
} TidSlots;

static TidSlots tid_slots[TABLE_COUNT];

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

static TidSlot *
slot_of(PgqrsTableId id, int64 first_key)
{
	return &tid_slots[id].at[(uint64) first_key % PLACES];
}

void
pgqrs_tid_cache_record(PgqrsTableId id, int64 first_key, ItemPointer tid)
{
	TidSlot *cached = slot_of(id, first_key);

	cached->first_key = first_key;
	cached->tid = *tid;
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
 * The cached size of the table holds as long as the storage manager keeps it:
 * truncation sends an invalidation, which has arrived with the lock on the
 * table.
 */
static bool
has_block(Relation table, BlockNumber block)
{
	BlockNumber known = RelationGetSmgr(table)->smgr_cached_nblocks[MAIN_FORKNUM];

	return (known != InvalidBlockNumber && block < known) ||
		block < RelationGetNumberOfBlocks(table);
}

static void
prune_block(Relation table, BlockNumber block)
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
	TidSlot *cached = slot_of(id, first_key);
	BlockNumber block;

	if (cached->first_key != first_key || !ItemPointerIsValid(&cached->tid))
		return false;
	/* a fetch by TID would leave a predicate lock */
	if (IsolationIsSerializable())
		return false;
	block = ItemPointerGetBlockNumber(&cached->tid);
	if (!has_block(table, block))
		return false;
	if (tid_slots[id].fetches++ % PGQRS_PRUNE_EVERY == 0)
		prune_block(table, block);
	return table_tuple_fetch_row_version(table, &cached->tid, snapshot, slot) &&
		has_key(id, slot, keys);
}
