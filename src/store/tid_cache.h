/*
 * tid_cache.h
 *	  Where this backend saw a row last; for table.c alone.
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

/* Of so many fetches from a table one prunes the page that it is on. */
#define PGQRS_PRUNE_EVERY 4

/* The first column of the primary key, if the table's places are remembered. */
extern AttrNumber pgqrs_tid_cache_key(PgqrsTableId id);

/* Remembers where a version of a row is; first_key: of its primary key. */
extern void pgqrs_tid_cache_record(PgqrsTableId id, int64 first_key,
								   ItemPointer tid);

/*
 * Fetches the row with this primary key if it is where this backend saw it last
 * and the snapshot sees that version.  False: look into the index.
 */
extern bool pgqrs_tid_cache_fetch(PgqrsTableId id, Relation table, Snapshot snapshot,
								  const Datum *keys, TupleTableSlot *slot);

#endif /* PGQRS_TID_CACHE_H */
