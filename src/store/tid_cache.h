/*
 * tid_cache.h
 *	  TID cache: where this backend saw a row last.  For the store only.
 */
#ifndef PGQRS_TID_CACHE_H
#define PGQRS_TID_CACHE_H

#include "postgres.h"

#include "access/attnum.h"
#include "base/catalog.h"
#include "executor/tuptable.h"
#include "storage/itemptr.h"
#include "utils/relcache.h"
#include "utils/snapshot.h"

/* One of so many fetches from a table prunes the page of the row. */
#define PGQRS_PRUNE_EVERY 4

/* The first column of the primary key, if the table's TIDs are cached. */
extern AttrNumber pgqrs_tid_cache_key(PgqrsTableId id);

/* Records the TID of a row version; first_key: of its primary key. */
extern void pgqrs_tid_cache_record(PgqrsTableId id, int64 first_key,
								   ItemPointer tid);

/*
 * Fetches the row with this primary key from its cached TID, if the snapshot
 * sees the version there.  False: look into the index.
 */
extern bool pgqrs_tid_cache_fetch(PgqrsTableId id, Relation table, Snapshot snapshot,
								  const Datum *keys, TupleTableSlot *slot);

#endif /* PGQRS_TID_CACHE_H */
