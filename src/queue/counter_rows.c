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
 * negative epoch, which the next flush adds to the row of the queue.  So does the
 * deletion of a queue, and the next flush removes the rows of the queue.
 *
 * Runs in any backend.  Of the rows that exist, only a flush changes any.  One
 * flush runs at a time, under a table lock that a second one does not wait for.
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
#include "shmem/xact_hooks.h"
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

/* A flush that is under way. */
typedef struct CounterFlush
{
	PgqrsTable *table;
	TupleTableSlot *slot;	 /* the queue's own row */
	TupleTableSlot *spilled; /* and each other one */
	int max;
	int count;	  /* queues whose rows were written */
	bool skipped; /* a row was locked */
	bool more;	  /* max was reached */
} CounterFlush;

static const PgqrsCounts no_counts;

/*
 * Arrays
 */

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
	pgqrs_set(&row, Counters_earlier, pgqrs_int64_array(earlier->n, COUNTER_COUNT));
	pgqrs_set(&row, Counters_counts, pgqrs_int64_array(counts->n, COUNTER_COUNT));
	pgqrs_row_insert(table, &row);
}

static void
insert_spilled(int64 queue_id, const PgqrsCounts *counts)
{
	PgqrsTable *table = pgqrs_table_open(TABLE_COUNTERS, true);

	insert_row(table, queue_id,
			   -(int64) pg_prng_uint64_range(&pg_global_prng_state, 1, PG_INT64_MAX),
			   &no_counts, counts);
	pgqrs_table_close(table);
}

/*
 * Called at the end of a transaction.  The extension may have been dropped in it,
 * and it may have become read-only after it wrote.
 */
static void
spill_counts(Oid messages, int64 queue_id, const PgqrsCounts *counts)
{
	bool read_only = XactReadOnly;

	if (!OidIsValid(pgqrs_catalog_extension(NULL)) ||
		pgqrs_catalog_table(TABLE_MESSAGES) != messages)
		return;
	XactReadOnly = false;
	/* PREPARE TRANSACTION has none, and a row with its arrays may be toasted */
	PushActiveSnapshot(GetLatestSnapshot());
	insert_spilled(queue_id, counts);
	PopActiveSnapshot();
	XactReadOnly = read_only;
}

/*
 * A flush may be about to insert the queue's row, so the next one removes all rows
 * of the queue: it finds them by the row that is inserted here.
 */
void
pgqrs_counters_drop(int64 queue_id)
{
	insert_spilled(queue_id, &no_counts);
	pgqrs_xact_request_flush();
}

void
pgqrs_counter_rows_init(void)
{
	pgqrs_counters_set_spill(spill_counts);
}

/*
 * Reading
 */

/* Rows of other queues than the one asked for that are read with it. */
#define MAX_AHEAD 1000

/* What is known of a queue's counters. */
typedef struct Known
{
	bool has_slot;
	PgqrsCounterState state;
	Stored stored;
} Known;

static void
read_rows(PgqrsReadAhead *ahead, Known *known)
{
	PgqrsTable *table = pgqrs_table_open(TABLE_COUNTERS, false);
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	TupleTableSlot *slot = pgqrs_table_slot(table);
	PgqrsKey keys[] = {
		{1, BTGreaterEqualStrategyNumber, Int64GetDatum(ahead->first)},
		{1, BTLessEqualStrategyNumber, Int64GetDatum(pgqrs_read_ahead_last(ahead))},
	};
	int rows = 0;
	PgqrsScan scan;

	table->snapshot = snapshot;
	pgqrs_scan_begin(&scan, table, INDEX_COUNTERS_PKEY, lengthof(keys), keys);
	while (pgqrs_scan_next(&scan, slot))
	{
		int place = pgqrs_get_int64(slot, Counters_queue_id) - ahead->first;

		CHECK_FOR_INTERRUPTS();
		if (place > 0 && rows++ == MAX_AHEAD)
		{
			ahead->count = place;
			break;
		}
		add_row(&known[place].stored, slot);
	}
	pgqrs_scan_end(&scan);
	pgqrs_table_close(table);
	UnregisterSnapshot(snapshot);
}

static void
read_slots(const PgqrsReadAhead *ahead, Known *known, Oid messages)
{
	for (int i = 0; i < ahead->count; i++)
		known[i].has_slot = pgqrs_counters_read(messages, ahead->first + i,
												&known[i].state);
}

static bool
has_same_slot(const Known *known, Oid messages)
{
	PgqrsCounterState now;

	return !known->has_slot ||
		(pgqrs_counters_read(messages, known->state.queue_id, &now) &&
		 now.epoch == known->state.epoch);
}

/*
 * The rows are read after the slots, so that they have all that was counted before
 * a slot was made.  They have too much if the slot was taken by another queue and
 * the queue has, or had, a new one.  False: this happened to the queue asked for.
 */
static bool
read_counters(PgqrsCountersAhead *read)
{
	Oid messages = pgqrs_catalog_table(TABLE_MESSAGES);
	Known *known = palloc0(read->ahead.count * sizeof(Known));
	int count;

	read_slots(&read->ahead, known, messages);
	read_rows(&read->ahead, known);
	for (count = 0; count < read->ahead.count; count++)
	{
		Stored *stored = &known[count].stored;

		if (!has_same_slot(&known[count], messages))
			break;
		if (known[count].has_slot)
			add_state(stored, &known[count].state);
		read->counts[count] = stored->earlier;
		add_counts(&read->counts[count], &stored->counts);
	}
	read->ahead.count = Max(count, 1);
	pfree(known);
	return count > 0;
}

const PgqrsCounts *
pgqrs_counters_of(PgqrsCountersAhead *read, int64 queue_id)
{
	int place;

	if (!pgqrs_counters_exist())
		return NULL;
	place = pgqrs_read_ahead_find(&read->ahead, queue_id);
	if (place >= 0)
		return &read->counts[place];
	while (!read_counters(read))
		CHECK_FOR_INTERRUPTS();
	return &read->counts[0];
}

/*
 * Flushing
 */

/* Locks the queue's own row, if it has one; false: it is locked already. */
static bool
lock_own_row(PgqrsTable *table, TupleTableSlot *slot, int64 queue_id, Stored *stored)
{
	PgqrsKey keys[2] = {{1, BTEqualStrategyNumber, Int64GetDatum(queue_id)},
						{2, BTGreaterEqualStrategyNumber, Int64GetDatum(0)}};
	bool locked = true;
	PgqrsScan scan;

	pgqrs_scan_begin(&scan, table, INDEX_COUNTERS_PKEY, 2, keys);
	if (pgqrs_scan_next(&scan, slot))
	{
		locked = pgqrs_row_lock(table, slot, LockTupleExclusive, LockWaitSkip) ==
			ROW_LOCKED;
		if (locked)
			add_row(stored, slot);
	}
	pgqrs_scan_end(&scan);
	return locked;
}

/* Adds up and deletes the spilled rows; false: some are locked, and left. */
static bool
take_spilled(PgqrsTable *table, TupleTableSlot *slot, int64 queue_id, Stored *stored)
{
	PgqrsKey key = {1, BTEqualStrategyNumber, Int64GetDatum(queue_id)};
	bool all = true;
	PgqrsScan scan;

	pgqrs_scan_begin(&scan, table, INDEX_COUNTERS_SPILLED, 1, &key);
	while (pgqrs_scan_next(&scan, slot))
	{
		if (pgqrs_row_try_delete(table, slot, LockWaitSkip) == ROW_LOCKED)
			add_row(stored, slot);
		else
			all = false;
	}
	pgqrs_scan_end(&scan);
	return all;
}

static void
update_row(PgqrsTable *table, TupleTableSlot *old, const Stored *stored)
{
	PgqrsRow row;

	pgqrs_row_copy(&row, table, old);
	if (row_epoch(old) != stored->epoch)
		pgqrs_set(&row, Counters_epoch, Int64GetDatum(stored->epoch));
	pgqrs_set(&row, Counters_earlier,
			  pgqrs_int64_array(stored->earlier.n, COUNTER_COUNT));
	pgqrs_set(&row, Counters_counts,
			  pgqrs_int64_array(stored->counts.n, COUNTER_COUNT));
	pgqrs_row_update(table, old, &row);
}

/*
 * state: NULL without a slot.  A row of the queue that is locked is left to the
 * next flush.
 */
static void
flush_queue(CounterFlush *flush, int64 queue_id, const PgqrsCounterState *state)
{
	Stored stored = {0};

	if (!lock_own_row(flush->table, flush->slot, queue_id, &stored))
	{
		flush->skipped = true;
		return;
	}
	if (!take_spilled(flush->table, flush->spilled, queue_id, &stored))
		flush->skipped = true;
	if (state == NULL && !stored.spilled)
		return;
	flush->count++;
	if (state != NULL)
		add_state(&stored, state);
	if (stored.found)
		update_row(flush->table, flush->slot, &stored);
	else
		insert_row(flush->table, queue_id, stored.epoch, &stored.earlier,
				   &stored.counts);
	if (state != NULL)
		pgqrs_counters_flushed(state);
}

/*
 * The queues with spilled rows, by one index descent per queue.  An old snapshot
 * keeps index entries of rows that are merged, so some have none.
 */
static PgqrsInt64List
list_spilled(PgqrsTable *table)
{
	PgqrsKey key = {1, BTGreaterStrategyNumber, Int64GetDatum(0)};
	PgqrsInt64List ids = {0};
	PgqrsScan scan;

	pgqrs_scan_begin(&scan, table, INDEX_COUNTERS_SPILLED, 1, &key);
	while (pgqrs_scan_next_key(&scan))
	{
		int64 id = DatumGetInt64(pgqrs_scan_key(&scan, 1));

		CHECK_FOR_INTERRUPTS();
		pgqrs_int64_list_add(&ids, id);
		pgqrs_scan_restart(&scan, 0, Int64GetDatum(id));
	}
	pgqrs_scan_end(&scan);
	return ids;
}

static void
flush_slots(CounterFlush *flush)
{
	PgqrsCounterState *states = palloc(flush->max * sizeof(PgqrsCounterState));
	int count = pgqrs_counters_list_changed(pgqrs_catalog_table(TABLE_MESSAGES),
											states, flush->max);

	for (int i = 0; i < count; i++)
	{
		PgqrsQueue queue;

		CHECK_FOR_INTERRUPTS();
		if (pgqrs_queue_by_id(states[i].queue_id, &queue))
			flush_queue(flush, states[i].queue_id, &states[i]);
		else
			pgqrs_counters_forget(&states[i]);
	}
	flush->more = count == flush->max;
	flush->count = 0;
	pfree(states);
}

/* Removes the rows of a deleted queue; last those by which a flush finds it. */
static void
remove_rows(CounterFlush *flush, int64 queue_id)
{
	Stored stored = {0};

	if (!lock_own_row(flush->table, flush->slot, queue_id, &stored))
	{
		flush->skipped = true;
		return;
	}
	if (stored.found)
		pgqrs_row_delete(flush->table, flush->slot);
	if (!take_spilled(flush->table, flush->spilled, queue_id, &stored))
		flush->skipped = true;
	flush->count++;
}

static void
flush_spilled(CounterFlush *flush)
{
	PgqrsInt64List ids = list_spilled(flush->table);

	for (int i = 0; i < ids.count && flush->count < flush->max; i++)
	{
		PgqrsQueue queue;

		CHECK_FOR_INTERRUPTS();
		if (pgqrs_queue_by_id(ids.values[i], &queue))
			flush_queue(flush, ids.values[i], NULL);
		else
			remove_rows(flush, ids.values[i]);
	}
	flush->more |= flush->count >= flush->max;
}

TimestampTz
pgqrs_counters_flush(int max)
{
	CounterFlush flush = {.max = max};

	if (!ConditionalLockRelationOid(pgqrs_catalog_table(TABLE_COUNTERS),
									ShareUpdateExclusiveLock))
		return pgqrs_clock() + PGQRS_LOCKED_ROW_RETRY;
	flush.table = pgqrs_table_open(TABLE_COUNTERS, true);
	flush.slot = pgqrs_table_slot(flush.table);
	flush.spilled = pgqrs_table_slot(flush.table);
	if (pgqrs_counters_exist())
		flush_slots(&flush);
	flush_spilled(&flush);
	pgqrs_table_close(flush.table);
	if (flush.skipped)
		return pgqrs_clock() + PGQRS_LOCKED_ROW_RETRY;
	return flush.more ? 0 : DT_NOEND;
}
