/*
 * tuple.h
 *	  Locking, inserting, updating and deleting the extension's rows, without a
 *	  plan.
 */
#ifndef PGQRS_TUPLE_H
#define PGQRS_TUPLE_H

#include "postgres.h"

#include "executor/tuptable.h"
#include "nodes/lockoptions.h"
#include "store/table.h"

typedef enum PgqrsLockResult
{
	ROW_LOCKED,
	ROW_CHANGED, /* updated or deleted since it was read */
	ROW_BUSY	 /* locked by another transaction, and the call does not wait */
} PgqrsLockResult;

/* locking */
extern bool pgqrs_row_fetch_locked(PgqrsTable *table, int64 id,
								   LockTupleMode mode, TupleTableSlot *slot);
extern bool pgqrs_row_is_busy(TupleTableSlot *slot);
extern bool pgqrs_row_update_waits(TupleTableSlot *slot);
extern TransactionId pgqrs_row_deleter(TupleTableSlot *slot);
extern bool pgqrs_row_is_settled(TupleTableSlot *slot);
extern TransactionId pgqrs_row_locker(TupleTableSlot *slot);
extern TransactionId pgqrs_row_open_writer(TupleTableSlot *slot, bool *is_update);
extern PgqrsLockResult pgqrs_row_lock(PgqrsTable *table, TupleTableSlot *slot,
									  LockTupleMode mode, LockWaitPolicy wait);

/* writing */
extern void pgqrs_row_init(PgqrsRow *row, PgqrsTable *table);
extern void pgqrs_row_copy(PgqrsRow *row, PgqrsTable *table, TupleTableSlot *slot);
extern void pgqrs_row_insert(PgqrsTable *table, const PgqrsRow *row);
extern void pgqrs_row_insert_many(PgqrsTable *table, PgqrsRow *rows, int count);
extern bool pgqrs_row_insert_unique(PgqrsTable *table, const PgqrsRow *row,
									PgqrsIndexId arbiter);
extern bool pgqrs_row_insert_first(PgqrsTable *table, const PgqrsRow *row,
								   PgqrsIndexId id, int nkeys);
extern bool pgqrs_row_await_writer(PgqrsTable *table, PgqrsIndexId index,
								   int nkeys, const Datum *values);
extern void pgqrs_row_update(PgqrsTable *table, TupleTableSlot *old,
							 const PgqrsRow *row);
extern void pgqrs_row_set(PgqrsTable *table, TupleTableSlot *old,
						  AttrNumber column, NullableDatum value);
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

/* A column of a row to be written. */
static inline NullableDatum
pgqrs_row_value(const PgqrsRow *row, AttrNumber column)
{
	return (NullableDatum){row->values[column - 1], row->nulls[column - 1]};
}

#endif /* PGQRS_TUPLE_H */
