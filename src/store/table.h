/*
 * table.h
 *	  Rows of the extension's tables: find, scan, lock, insert, update, delete.
 *
 * Everything is read as of the moment of the call, at every isolation level:
 * each fetch and each scan takes the latest snapshot, and a lock that had to
 * be waited for is followed by a new fetch.  No call raises a serialization
 * failure of its own.  Who wants to read several rows as of one moment sets
 * the snapshot of the tables.
 */
#ifndef PGQRS_TABLE_H
#define PGQRS_TABLE_H

#include "postgres.h"

#include "access/genam.h"
#include "access/sdir.h"
#include "access/skey.h"
#include "base/catalog.h"
#include "base/nullable.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "nodes/execnodes.h"
#include "nodes/lockoptions.h"
#include "storage/buf.h"
#include "store/index_insert.h"
#include "utils/relcache.h"
#include "utils/snapshot.h"
#include "utils/timestamp.h"

/* A table that is open for the duration of a call. */
typedef struct PgqrsTable
{
	PgqrsTableId id;
	Relation rel;
	Snapshot snapshot;		/* registered by the caller: what all reads see */
	List *slots;			/* dropped with the table */
	TupleTableSlot *writer; /* what is being inserted or updated */
	struct PgqrsTable *archive; /* of messages, opened by the first end */
	PgqrsOpenIndexes open;
	PgqrsIndexes *indexes; /* looked up by the first insert or update, */
	EState *estate;		   /* or where the executor is needed, made ... */
	ResultRelInfo *rri;	   /* ... with this, whose indexes are open */
} PgqrsTable;

/* A row to be inserted, or the new version of one. */
typedef struct PgqrsRow
{
	int natts;
	Datum values[PGQRS_MAX_COLUMNS];
	bool nulls[PGQRS_MAX_COLUMNS];
	bool changed[PGQRS_MAX_COLUMNS];
} PgqrsRow;

typedef enum PgqrsLockResult
{
	ROW_LOCKED,
	ROW_CHANGED, /* updated or deleted since it was read */
	ROW_BUSY	 /* somebody else has it, and we do not wait */
} PgqrsLockResult;

/*
 * A condition on an index column: a btree strategy, 1-based column; or on a
 * pair of columns, which is compared as a row.
 */
typedef struct PgqrsKey
{
	AttrNumber column;
	StrategyNumber strategy;
	Datum value;
	bool is_pair;
	Datum next_value; /* of the next column */
} PgqrsKey;

#define PGQRS_MAX_KEYS 4

typedef struct PgqrsScan
{
	PgqrsTable *table;
	Relation index;
	Snapshot snapshot;		 /* what a row must be visible to */
	ScanDirection direction; /* forward, unless the caller changes it */
	IndexScanDesc desc;
	ScanKeyData keys[PGQRS_MAX_KEYS];
	ScanKeyData pair[2]; /* what a row comparison consists of */
	int nkeys;
	bool by_hand;	  /* visibility is checked here, as under SERIALIZABLE */
	bool uncommitted; /* rows that open transactions have written count, too */
	Buffer map;		  /* of visibility, the page looked at last */
} PgqrsScan;

/* tables */
extern void pgqrs_require_read_write(void);
extern void pgqrs_require_writable(void);
extern PgqrsTable *pgqrs_table_open(PgqrsTableId id, bool write);
extern void pgqrs_table_close(PgqrsTable *table);
extern TupleTableSlot *pgqrs_table_slot(PgqrsTable *table);
extern int64 pgqrs_next_id(PgqrsSequenceId id);
extern bool pgqrs_trigger_is_own(Relation rel, const Trigger *trigger);

/* reading */
extern bool pgqrs_row_fetch(PgqrsTable *table, PgqrsIndexId index, int nkeys,
							const Datum *keys, TupleTableSlot *slot);
/* Whether a table has a row of an id; the index begins with that id. */
extern bool pgqrs_table_has_row(PgqrsTableId table, PgqrsIndexId index, int64 id);
extern bool pgqrs_row_fetch_id(PgqrsTable *table, int64 id, TupleTableSlot *slot);
extern bool pgqrs_row_fetch_locked(PgqrsTable *table, int64 id,
								   LockTupleMode mode, TupleTableSlot *slot);
extern bool pgqrs_row_is_busy(TupleTableSlot *slot);
extern bool pgqrs_row_update_waits(TupleTableSlot *slot);
extern TransactionId pgqrs_row_deleter(TupleTableSlot *slot);
extern bool pgqrs_row_is_settled(TupleTableSlot *slot);
extern PgqrsLockResult pgqrs_row_lock(PgqrsTable *table, TupleTableSlot *slot,
									  LockTupleMode mode, LockWaitPolicy wait);

/* scanning: slot and keys stay valid until the next call on the same scan */
extern void pgqrs_scan_begin(PgqrsScan *scan, PgqrsTable *table,
							 PgqrsIndexId index, int nkeys, const PgqrsKey *keys);
extern void pgqrs_scan_begin_table(PgqrsScan *scan, PgqrsTable *table);
extern void pgqrs_scan_raw(PgqrsScan *scan);
extern void pgqrs_scan_uncommitted(PgqrsScan *scan);
extern void pgqrs_scan_set_pair(PgqrsScan *scan, Datum value, Datum next_value);
extern void pgqrs_scan_restart(PgqrsScan *scan, int key, Datum value);

/* The same below a smallint value; false: nothing is. */
extern bool pgqrs_scan_restart_below(PgqrsScan *scan, int key, int16 value);
extern bool pgqrs_scan_next_key(PgqrsScan *scan);
extern Datum pgqrs_scan_key(PgqrsScan *scan, AttrNumber column);
extern bool pgqrs_scan_fetch(PgqrsScan *scan, TupleTableSlot *slot);
extern ItemPointer pgqrs_scan_tid(PgqrsScan *scan);
extern bool pgqrs_scan_fetch_at(PgqrsScan *scan, ItemPointer tid,
								TupleTableSlot *slot);
extern bool pgqrs_scan_visible(PgqrsScan *scan, TupleTableSlot *slot);
extern bool pgqrs_scan_next(PgqrsScan *scan, TupleTableSlot *slot);
extern void pgqrs_scan_end(PgqrsScan *scan);

/* writing */
extern void pgqrs_row_init(PgqrsRow *row, PgqrsTable *table);
extern void pgqrs_row_copy(PgqrsRow *row, PgqrsTable *table, TupleTableSlot *slot);
extern void pgqrs_row_insert(PgqrsTable *table, const PgqrsRow *row);
extern void pgqrs_row_insert_many(PgqrsTable *table, PgqrsRow *rows, int count);
extern bool pgqrs_row_insert_unique(PgqrsTable *table, const PgqrsRow *row,
									PgqrsIndexId arbiter);
extern bool pgqrs_row_insert_first(PgqrsTable *table, const PgqrsRow *row,
								   PgqrsIndexId index, int nkeys);
extern bool pgqrs_row_await_writer(PgqrsTable *table, PgqrsIndexId index,
								   int nkeys, const Datum *values);
extern void pgqrs_row_update(PgqrsTable *table, TupleTableSlot *old,
							 const PgqrsRow *row);
extern void pgqrs_row_delete(PgqrsTable *table, TupleTableSlot *old);

/* The same for a version that is not locked, if it is the current one. */
extern PgqrsLockResult pgqrs_row_try_update(PgqrsTable *table, TupleTableSlot *old,
											const PgqrsRow *row);
extern PgqrsLockResult pgqrs_row_try_delete(PgqrsTable *table, TupleTableSlot *old,
											LockWaitPolicy wait);

static inline void
pgqrs_set(PgqrsRow *row, AttrNumber column, Datum value)
{
	row->values[column - 1] = value;
	row->nulls[column - 1] = false;
	row->changed[column - 1] = true;
}

static inline void
pgqrs_set_null(PgqrsRow *row, AttrNumber column)
{
	row->values[column - 1] = (Datum) 0;
	row->nulls[column - 1] = true;
	row->changed[column - 1] = true;
}

static inline void
pgqrs_set_or_null(PgqrsRow *row, AttrNumber column, NullableDatum value)
{
	row->values[column - 1] = value.value;
	row->nulls[column - 1] = value.isnull;
	row->changed[column - 1] = true;
}

/* A column of a row to be stored. */
static inline NullableDatum
pgqrs_row_value(const PgqrsRow *row, AttrNumber column)
{
	return (NullableDatum){row->values[column - 1], row->nulls[column - 1]};
}

/* A column of a fetched row; a NULL reads as 0. */
static inline Datum
pgqrs_get(TupleTableSlot *slot, AttrNumber column)
{
	bool isnull;

	return slot_getattr(slot, column, &isnull);
}

static inline int64
pgqrs_get_int64(TupleTableSlot *slot, AttrNumber column)
{
	return DatumGetInt64(pgqrs_get(slot, column));
}

static inline TimestampTz
pgqrs_get_time(TupleTableSlot *slot, AttrNumber column)
{
	return DatumGetTimestampTz(pgqrs_get(slot, column));
}

static inline bool
pgqrs_is_null(TupleTableSlot *slot, AttrNumber column)
{
	return slot_attisnull(slot, column);
}

static inline NullableDatum
pgqrs_get_or_null(TupleTableSlot *slot, AttrNumber column)
{
	NullableDatum value;

	value.value = slot_getattr(slot, column, &value.isnull);
	return value;
}

/* The same of a type of varying length, copied: it outlives the slot. */
static inline NullableDatum
pgqrs_get_copy(TupleTableSlot *slot, AttrNumber column)
{
	NullableDatum value = pgqrs_get_or_null(slot, column);

	if (!value.isnull)
		value.value = PointerGetDatum(PG_DETOAST_DATUM_COPY(value.value));
	return value;
}

#endif /* PGQRS_TABLE_H */
