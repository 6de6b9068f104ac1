/*
 * counter_rows.c
 *	  Rows of pgqrs_counters: the counters of queues on disk.
 *
 * The row of a queue has the counts of its slot in shared memory (counters.c)
 * as of the last flush, with the slot's epoch, and the sums of earlier slots.
 * So a crash between a flush and the next one loses what was counted in
 * between, and nothing is counted twice: a reader adds the counts of a slot
 * whose epoch is not in the row, and takes those of the row's own slot instead
 * of the row's.
 *
 * A transaction without a slot, and one that is prepared, adds a row with a
 * negative epoch, which the next flush adds to the row of the queue.
 *
 * Runs in any backend.  Of the rows that exist, only a flush changes any, and
 * retention deletes those of deleted queues.  One flush runs at a time, under a
 * table lock that a second one does not wait for.
 */
#include "queue/counter_rows.h"

#include "access/xact.h"
#include "base/catalog.h"
#include "base/clock.h"
#include "base/int64_list.h"
#include "catalog/pg_type.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "queue/queue.h"
#include "shmem/database_registry.h"
#include "storage/lmgr.h"
#include "store/scan.h"
#include "store/tuple.h"
#include "utils/array.h"
#include "utils/snapmgr.h"

/* What the rows of a queue hold. */
typedef struct Stored
{
	bool found;	  /* the queue has a row of its own */
	bool spilled; /* it has others */
	int64 epoch;  /* of that row */
	PgqrsCounts earlier;
	PgqrsCounts counts;
} Stored;

/*
 * Arrays
 */

static Datum
make_array(const PgqrsCounts *counts)
{
	Datum datums[COUNTER_COUNT];

	for (int i = 0; i < COUNTER_COUNT; i++)
		datums[i] = Int64GetDatum(counts->n[i]);
	return PointerGetDatum(construct_array(datums, COUNTER_COUNT, INT8OID,
										   sizeof(int64), FLOAT8PASSBYVAL,
										   TYPALIGN_DOUBLE));
}

static void
add_counts(PgqrsCounts *to, const PgqrsCounts *from)
{
	for (int i = 0; i < COUNTER_COUNT; i++)
		to->n[i] += from->n[i];
}

/* An array that pgqrs has not written counts nothing. */
static void
add_array(PgqrsCounts *to, TupleTableSlot *slot, AttrNumber column)
{
	ArrayType *array;
	const int64 *values;

	if (pgqrs_is_null(slot, column))
		return;
	array = DatumGetArrayTypeP(pgqrs_get(slot, column));
	if (ARR_NDIM(array) != 1 || ARR_HASNULL(array) || ARR_ELEMTYPE(array) != INT8OID)
		return;
	values = (const int64 *) ARR_DATA_PTR(array);
	for (int i = 0; i < COUNTER_COUNT && i < ARR_DIMS(array)[0]; i++)
		to->n[i] += values[i];
}

/*
 * Rows
 */

static int64
row_epoch(TupleTableSlot *slot)
{
	return pgqrs_get_int64(slot, Counters_epoch);
}

static void
begin_scan(PgqrsScan *scan, PgqrsTable *table, int64 queue_id)
{
	PgqrsKey key = {1, BTEqualStrategyNumber, Int64GetDatum(queue_id)};

	pgqrs_scan_begin(scan, table, INDEX_COUNTERS_PKEY, 1, &key);
}

static void
add_row(Stored *stored, TupleTableSlot *slot)
{
	if (row_epoch(slot) < 0)
	{
		stored->spilled = true;
		add_array(&stored->earlier, slot, Counters_counts);
		return;
	}
	stored->found = true;
	stored->epoch = row_epoch(slot);
	add_array(&stored->earlier, slot, Counters_earlier);
	add_array(&stored->counts, slot, Counters_counts);
}

/* Adds the slot's counts to what the rows hold. */
static void
add_state(Stored *stored, const PgqrsCounterState *state)
{
	if (stored->epoch != state->epoch)
	{
		add_counts(&stored->earlier, &stored->counts);
		stored->counts = state->counts;
		stored->epoch = state->epoch;
		return;
	}
	for (int i = 0; i < COUNTER_COUNT; i++)
		stored->counts.n[i] = Max(stored->counts.n[i], state->counts.n[i]);
}

static void
insert_row(PgqrsTable *table, int64 queue_id, int64 epoch,
		   const PgqrsCounts *earlier, const PgqrsCounts *counts)
{
	PgqrsRow row;

	pgqrs_row_init(&row, table);
	pgqrs_set(&row, Counters_queue_id, Int64GetDatum(queue_id));
	pgqrs_set(&row, Counters_epoch, Int64GetDatum(epoch));
	pgqrs_set(&row, Counters_earlier, make_array(earlier));
	pgqrs_set(&row, Counters_counts, make_array(counts));
	pgqrs_row_insert(table, &row);
}

/*
 * Called at the end of a transaction.  The extension may have been dropped in it,
 * and it may have become read-only after it wrote.
 */
static void
spill_counts(Oid messages, int64 queue_id, const PgqrsCounts *counts)
{
	static const PgqrsCounts none;
	bool read_only = XactReadOnly;
	PgqrsTable *table;

	if (!OidIsValid(pgqrs_catalog_extension(NULL)) ||
		pgqrs_catalog_table(TABLE_MESSAGES) != messages)
		return;
	XactReadOnly = false;
	/* PREPARE TRANSACTION has none, and a row with its arrays may be toasted */
	PushActiveSnapshot(GetLatestSnapshot());
	table = pgqrs_table_open(TABLE_COUNTERS, true);
	insert_row(table, queue_id,
			   -(int64) pg_prng_uint64_range(&pg_global_prng_state, 1, PG_INT64_MAX),
			   &none, counts);
	pgqrs_table_close(table);
	PopActiveSnapshot();
	XactReadOnly = read_only;
}

void
pgqrs_counter_rows_init(void)
{
	pgqrs_counters_set_spill(spill_counts);
}

/*
 * Reading
 */

static void
read_rows(int64 queue_id, Stored *stored)
{
	PgqrsTable *table = pgqrs_table_open(TABLE_COUNTERS, false);
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	TupleTableSlot *slot = pgqrs_table_slot(table);
	PgqrsScan scan;

	memset(stored, 0, sizeof(*stored));
	table->snapshot = snapshot;
	begin_scan(&scan, table, queue_id);
	while (pgqrs_scan_next(&scan, slot))
		add_row(stored, slot);
	pgqrs_scan_end(&scan);
	pgqrs_table_close(table);
	UnregisterSnapshot(snapshot);
}

/*
 * The rows are read after the slot, so that they have all that was counted before
 * the slot was made.  They have too much if the slot was taken by another queue
 * and the queue has a new one.
 */
bool
pgqrs_counters_of(int64 queue_id, PgqrsCounts *counts)
{
	Oid messages = pgqrs_catalog_table(TABLE_MESSAGES);
	PgqrsCounterState state;
	PgqrsCounterState now;
	Stored stored;
	bool has_slot;

	if (!pgqrs_counters_exist())
		return false;
	do
	{
		CHECK_FOR_INTERRUPTS();
		has_slot = pgqrs_counters_read(messages, queue_id, &state);
		read_rows(queue_id, &stored);
	} while (has_slot && pgqrs_counters_read(messages, queue_id, &now) &&
			 now.epoch != state.epoch);
	if (has_slot)
		add_state(&stored, &state);
	*counts = stored.earlier;
	add_counts(counts, &stored.counts);
	return true;
}

/*
 * Flushing
 */

/* Reads the rows and deletes the spilled ones; false: a row is locked. */
static bool
take_rows(PgqrsTable *table, TupleTableSlot *slot, int64 queue_id, Stored *stored)
{
	PgqrsScan scan;
	bool taken = true;

	memset(stored, 0, sizeof(*stored));
	begin_scan(&scan, table, queue_id);
	while (taken && pgqrs_scan_next(&scan, slot))
	{
		add_row(stored, slot);
		if (row_epoch(slot) < 0)
			taken = pgqrs_row_try_delete(table, slot, LockWaitSkip) == ROW_LOCKED;
	}
	pgqrs_scan_end(&scan);
	return taken;
}

/* state: NULL without a slot. */
static void
flush_queue(PgqrsTable *table, TupleTableSlot *slot, int64 queue_id,
			const PgqrsCounterState *state)
{
	Stored stored;
	Datum key[2] = {Int64GetDatum(queue_id)};
	PgqrsRow row;

	if (!take_rows(table, slot, queue_id, &stored) ||
		(state == NULL && !stored.spilled))
		return;
	key[1] = Int64GetDatum(stored.epoch);
	if (state != NULL)
		add_state(&stored, state);
	if (!stored.found)
		insert_row(table, queue_id, stored.epoch, &stored.earlier, &stored.counts);
	else if (pgqrs_row_fetch(table, INDEX_COUNTERS_PKEY, 2, key, slot) &&
			 pgqrs_row_lock(table, slot, LockTupleExclusive, LockWaitSkip) ==
				 ROW_LOCKED)
	{
		pgqrs_row_copy(&row, table, slot);
		if (row_epoch(slot) != stored.epoch)
			pgqrs_set(&row, Counters_epoch, Int64GetDatum(stored.epoch));
		pgqrs_set(&row, Counters_earlier, make_array(&stored.earlier));
		pgqrs_set(&row, Counters_counts, make_array(&stored.counts));
		pgqrs_row_update(table, slot, &row);
	}
	else
		return; /* the queue is being removed */
	if (state != NULL)
		pgqrs_counters_flushed(state);
}

static PgqrsInt64List
list_spilled(PgqrsTable *table, int max)
{
	PgqrsKey key = {1, BTGreaterStrategyNumber, Int64GetDatum(0)};
	PgqrsInt64List ids = {0};
	int left = max;
	PgqrsScan scan;

	pgqrs_scan_begin(&scan, table, INDEX_COUNTERS_SPILLED, 1, &key);
	while (left-- > 0 && pgqrs_scan_next_key(&scan))
	{
		int64 id = DatumGetInt64(pgqrs_scan_key(&scan, 1));

		if (ids.count == 0 || ids.values[ids.count - 1] != id)
			pgqrs_int64_list_add(&ids, id);
	}
	pgqrs_scan_end(&scan);
	return ids;
}

static void
flush_slots(PgqrsTable *table, TupleTableSlot *slot, PgqrsCounterState *states,
			int count)
{
	for (int i = 0; i < count; i++)
	{
		PgqrsQueue queue;

		CHECK_FOR_INTERRUPTS();
		if (pgqrs_queue_by_id(states[i].queue_id, &queue))
			flush_queue(table, slot, states[i].queue_id, &states[i]);
		else
			pgqrs_counters_forget(&states[i]);
	}
}

static void
flush_spilled(PgqrsTable *table, TupleTableSlot *slot, int max)
{
	PgqrsInt64List ids = list_spilled(table, max);

	for (int i = 0; i < ids.count; i++)
	{
		PgqrsQueue queue;

		CHECK_FOR_INTERRUPTS();
		if (pgqrs_queue_by_id(ids.values[i], &queue))
			flush_queue(table, slot, ids.values[i], NULL);
		else
			(void) pgqrs_counters_remove(ids.values[i]);
	}
}

TimestampTz
pgqrs_counters_flush(int max)
{
	PgqrsCounterState *states;
	PgqrsTable *table;
	TupleTableSlot *slot;
	int count;

	if (!pgqrs_counters_exist())
		return DT_NOEND;
	if (!ConditionalLockRelationOid(pgqrs_catalog_table(TABLE_COUNTERS),
									ShareUpdateExclusiveLock))
		return pgqrs_clock() + PGQRS_LOCKED_ROW_RETRY;
	states = palloc(max * sizeof(PgqrsCounterState));
	table = pgqrs_table_open(TABLE_COUNTERS, true);
	slot = pgqrs_table_slot(table);
	count = pgqrs_counters_list_changed(pgqrs_catalog_table(TABLE_MESSAGES),
										states, max);
	flush_slots(table, slot, states, count);
	flush_spilled(table, slot, max);
	pgqrs_table_close(table);
	pfree(states);
	return count == max ? 0 : DT_NOEND;
}

bool
pgqrs_counters_remove(int64 queue_id)
{
	PgqrsTable *table = pgqrs_table_open(TABLE_COUNTERS, true);
	TupleTableSlot *slot = pgqrs_table_slot(table);
	bool all = true;
	PgqrsScan scan;

	begin_scan(&scan, table, queue_id);
	while (pgqrs_scan_next(&scan, slot))
		if (pgqrs_row_try_delete(table, slot, LockWaitSkip) != ROW_LOCKED)
			all = false;
	pgqrs_scan_end(&scan);
	pgqrs_table_close(table);
	return all;
}
