/*
 * floor_sweep.c
 *	  The search for messages that claims would not find.
 *
 * Below a floor there is nothing to claim, or claim_floor.c is wrong, or somebody
 * wrote to pgqrs_messages with its trigger disabled.  The sweep looks for it
 * where claims no longer do, and lowers the floor to the first message that it
 * finds.  Or it only lists what it finds.  For the same reason it has every session
 * look above the usual priority again.
 *
 * Runs in any backend, any number at a time, and locks nothing.  It goes on
 * where the last one, of whatever backend, had looked at enough.
 */
#include "delivery/floor_sweep.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "queue/queue.h"
#include "shmem/claim_floor.h"
#include "shmem/levels.h"
#include "store/table.h"
#include "utils/timestamp.h"

/* A floor with nothing below it costs as much as this many entries. */
#define FLOOR_COST 10

typedef struct Sweep
{
	PgqrsFloorSweep at;
	PgqrsTable *messages;
	TupleTableSlot *slot;
	int budget;
	int lowered;
} Sweep;

static void
open_messages(Sweep *sweep)
{
	sweep->messages = pgqrs_table_open(TABLE_MESSAGES, false);
	sweep->slot = pgqrs_table_slot(sweep->messages);
}

static void
begin_scan(PgqrsScan *scan, Sweep *sweep)
{
	PgqrsFloorSweep *at = &sweep->at;
	PgqrsKey keys[] = {
		{1, BTEqualStrategyNumber, Int64GetDatum(at->queue_id)},
		{2, BTEqualStrategyNumber, Int16GetDatum(at->priority)},
		{3, BTGreaterEqualStrategyNumber, TimestampTzGetDatum(at->from.visible_after),
		 true, Int64GetDatum(at->from.message_id)},
	};

	pgqrs_scan_begin(scan, sweep->messages, INDEX_MESSAGES_CLAIM,
					 lengthof(keys), keys);
}

/* The next entry of the scan; false: it is above the floor and its gaps. */
static bool
next_below(PgqrsScan *scan, Sweep *sweep, PgqrsFloorKey *key)
{
	CHECK_FOR_INTERRUPTS();
	if (!pgqrs_scan_next_key(scan))
		return false;
	key->visible_after = DatumGetTimestampTz(pgqrs_scan_key(scan, 3));
	key->message_id = DatumGetInt64(pgqrs_scan_key(scan, 4));
	return pgqrs_floor_compare(*key, sweep->at.to) < 0;
}

/* Looks for a message below a floor. */
static void
sweep_floor(Sweep *sweep)
{
	PgqrsFloorSweep *at = &sweep->at;
	PgqrsFloorKey key;
	PgqrsScan scan;

	sweep->budget -= FLOOR_COST;
	begin_scan(&scan, sweep);
	while (next_below(&scan, sweep, &key))
	{
		if (pgqrs_floor_sweep_covers(at, key) && pgqrs_scan_fetch(&scan, sweep->slot))
		{
			if (pgqrs_floor_sweep_found(at, key))
				sweep->lowered++;
			break;
		}
		if (--sweep->budget <= 0)
		{
			pgqrs_floor_sweep_pause(at, key);
			break;
		}
	}
	pgqrs_scan_end(&scan);
}

int
pgqrs_floor_sweep_run(int max_entries)
{
	Sweep sweep = {.budget = max_entries};
	PgqrsQueue queue;

	open_messages(&sweep);
	pgqrs_levels_forget_all();
	while (sweep.budget > 0 && pgqrs_floor_sweep_next(&sweep.at))
		if (pgqrs_queue_by_id(sweep.at.queue_id, &queue))
			sweep_floor(&sweep);
		else
			pgqrs_floor_forget(sweep.at.queue_id);
	pgqrs_floor_sweep_end(&sweep.at);
	pgqrs_table_close(sweep.messages);
	return sweep.lowered;
}

void
pgqrs_floor_sweep_list(Tuplestorestate *store, TupleDesc desc)
{
	Sweep sweep = {.at.looks_only = true};

	open_messages(&sweep);
	while (pgqrs_floor_sweep_next(&sweep.at))
	{
		PgqrsFloorKey key;
		PgqrsScan scan;

		begin_scan(&scan, &sweep);
		while (next_below(&scan, &sweep, &key))
		{
			Datum id = Int64GetDatum(key.message_id);
			bool is_null = false;

			if (pgqrs_floor_sweep_covers(&sweep.at, key) &&
				pgqrs_scan_fetch(&scan, sweep.slot))
				tuplestore_putvalues(store, desc, &id, &is_null);
		}
		pgqrs_scan_end(&scan);
	}
	pgqrs_table_close(sweep.messages);
}
