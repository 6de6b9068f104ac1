/*
 * table.h
 *	  Tables of the extension: opening them, and the columns of their rows.
 *
 * Reading (scan.h) and writing (tuple.h) need no plan.  Every read sees the
 * latest state, at every isolation level: each fetch and each scan takes the
 * latest snapshot, and a lock that had to be waited for is followed by a new
 * fetch.  No call raises a serialization failure of its own.  To read several
 * rows under one snapshot, set table->snapshot first.
 */
#ifndef PGQRS_TABLE_H
#define PGQRS_TABLE_H

#include "postgres.h"

#include "base/catalog.h"
#include "base/nullable.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "nodes/execnodes.h"
#include "store/index_insert.h"
#include "utils/relcache.h"
#include "utils/snapshot.h"
#include "utils/timestamp.h"

/* A table that is open for the duration of a call. */
typedef struct PgqrsTable
{
	PgqrsTableId id;
	const struct PgqrsWriteHooks *hooks; /* or NULL */
	Relation rel;
	Snapshot snapshot;		/* set and registered by the caller: all reads see
							 * it */
	List *slots;			/* dropped with the table */
	TupleTableSlot *writer; /* the row being inserted or updated */
	struct PgqrsTable *archive; /* pgqrs_archive, opened when the first message
								 * ends */
	PgqrsOpenIndexes open;
	PgqrsIndexes *indexes; /* looked up by the first insert or update, */
	EState *estate;		   /* or, if that needs the executor, made ... */
	ResultRelInfo *rri;	   /* ... with this, whose indexes are open */
} PgqrsTable;

/* A row to be inserted, or a new version of a row. */
typedef struct PgqrsRow
{
	int natts;
	Datum values[PGQRS_MAX_COLUMNS];
	bool nulls[PGQRS_MAX_COLUMNS];
	bool changed[PGQRS_MAX_COLUMNS];
} PgqrsRow;

/*
 * What a module does around the writes of its table; set once, when the library
 * is loaded.
 */
typedef struct PgqrsWriteHooks
{
	bool prune_rarely; /* most rows are read only once after they are written */

	/* before a row is written; NULL: deleted.  old: the version it replaces, or NULL */
	void (*before_write)(const PgqrsRow *row);
	void (*after_write)(const PgqrsRow *row, TupleTableSlot *old);

	/* around the lock of a version, or its deletion; an error skips the end */
	void (*begin_lock)(TupleTableSlot *slot);
	void (*end_lock)(void);
} PgqrsWriteHooks;

extern void pgqrs_table_set_hooks(PgqrsTableId id, const PgqrsWriteHooks *hooks);
extern void pgqrs_require_read_write(void);
extern void pgqrs_require_writable(void);
extern PgqrsTable *pgqrs_table_open(PgqrsTableId id, bool write);
extern void pgqrs_table_close(PgqrsTable *table);
extern TupleTableSlot *pgqrs_table_slot(PgqrsTable *table);
extern int64 pgqrs_next_id(PgqrsSequenceId id);
extern void pgqrs_table_refuse(Relation rel, const char *message);
extern bool pgqrs_trigger_is_own(Relation rel, const Trigger *trigger);

/* A column of a fetched row; NULL reads as 0. */
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

/* A column of a type of varying length, copied: it outlives the slot. */
static inline NullableDatum
pgqrs_get_copy(TupleTableSlot *slot, AttrNumber column)
{
	NullableDatum value = pgqrs_get_or_null(slot, column);

	if (!value.isnull)
		value.value = PointerGetDatum(PG_DETOAST_DATUM_COPY(value.value));
	return value;
}

#endif /* PGQRS_TABLE_H */
