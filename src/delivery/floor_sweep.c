/*
 * floor_sweep.c
 *	  Floor sweep: the search for messages below the floors of claims.
 *
 * Claims do not scan below a floor.  A message can be there only after an error
 * in claim_floor.c, or if a transaction wrote pgqrs_messages with its trigger
 * disabled.  The sweep scans below the floors and lowers each floor to the first
 * message that it finds, or only lists the messages.  For the same reasons it
 * clears the cached absence of priorities above the usual one.
 *
 * Runs in any backend, any number at a time, and locks nothing.  A sweep with a
 * spent budget is continued by the next sweep, in any backend.
 */
#include "delivery/floor_sweep.h"

#include "miscadmin.h"
#include "queue/queue.h"
#include "shmem/claim_floor.h"
#include "shmem/priority_hints.h"
#include "store/scan.h"
#include "utils/timestamp.h"

/* The cost of one floor in units of index entries. */
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

/* The next entry of the scan; false beyond the floor and its gaps. */
static bool
next_entry_below(PgqrsScan *scan, Sweep *sweep, PgqrsFloorKey *key)
{
	CHECK_FOR_INTERRUPTS();
	if (!pgqrs_scan_next_key(scan))
		return false;
	key->visible_after = DatumGetTimestampTz(pgqrs_scan_key(scan, 3));
	key->message_id = DatumGetInt64(pgqrs_scan_key(scan, 4));
	return pgqrs_floor_compare(*key, sweep->at.to) < 0;
}

/* Scans below one floor until the first message or the end of the budget. */
static void
sweep_floor(Sweep *sweep)
{
	PgqrsFloorSweep *at = &sweep->at;
	PgqrsFloorKey key;
	PgqrsScan scan;

	sweep->budget -= FLOOR_COST;
	begin_scan(&scan, sweep);
	while (next_entry_below(&scan, sweep, &key))
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
	pgqrs_priority_hints_forget_all();
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
		while (next_entry_below(&scan, &sweep, &key))
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
