/*
 * priority_scan.c
 *	  Priority scan: the priorities of a queue that have messages, from high
 *	  to low; and a search of all messages by them.
 *
 * Runs in any backend and takes no lock.  One index descent finds the next
 * priority.  Dead index entries count, so that a priority with dead entries
 * only costs one entry here.
 */
#include "queue/priority_scan.h"
#include "store/scan.h"

#include "miscadmin.h"


void
pgqrs_priority_scan_begin(PgqrsPriorityScan *priorities, PgqrsTable *messages,
						  int64 queue_id, int high, int low)
{
	PgqrsKey keys[] = {
		{CLAIM_QUEUE_ID, BTEqualStrategyNumber, Int64GetDatum(queue_id)},
		{CLAIM_PRIORITY, BTLessEqualStrategyNumber, Int16GetDatum(high)},
		{CLAIM_PRIORITY, BTGreaterEqualStrategyNumber, Int16GetDatum(low)},
	};

	pgqrs_scan_begin(&priorities->scan, messages, INDEX_MESSAGES_CLAIM,
					 lengthof(keys), keys);
	pgqrs_scan_raw(&priorities->scan);
	priorities->at_start = true;
}

bool
pgqrs_priority_scan_next(PgqrsPriorityScan *priorities, int *priority)
{
	PgqrsScan *scan = &priorities->scan;

	if (!priorities->at_start && !pgqrs_scan_restart_below(scan, 1, priorities->last))
		return false;
	priorities->at_start = false;
	if (!pgqrs_scan_next_key(scan))
		return false;
	*priority = priorities->last = DatumGetInt16(
		pgqrs_scan_key(scan, CLAIM_PRIORITY));
	return true;
}

void
pgqrs_priority_scan_end(PgqrsPriorityScan *priorities)
{
	pgqrs_scan_end(&priorities->scan);
}

/* Scans one priority from the position on. */
static bool
search_priority(PgqrsClaimSearch *search, PgqrsTable *messages, TupleTableSlot *slot)
{
	PgqrsClaimPosition *at = &search->at;
	PgqrsClaimPosition start = *at;
	PgqrsKey keys[] = {
		{CLAIM_QUEUE_ID, BTEqualStrategyNumber, Int64GetDatum(at->queue_id)},
		{CLAIM_PRIORITY, BTEqualStrategyNumber, Int16GetDatum(at->priority)},
		{CLAIM_VISIBLE_AFTER, BTGreaterEqualStrategyNumber,
		 TimestampTzGetDatum(Max(at->visible_after, search->from))},
		{CLAIM_VISIBLE_AFTER, BTLessEqualStrategyNumber,
		 TimestampTzGetDatum(search->to)},
	};
	bool more = true;
	PgqrsScan scan;

	pgqrs_scan_begin(&scan, messages, INDEX_MESSAGES_CLAIM, lengthof(keys), keys);
	while (more && pgqrs_scan_next_key(&scan))
	{
		TimestampTz visible_after = DatumGetTimestampTz(
			pgqrs_scan_key(&scan, CLAIM_VISIBLE_AFTER));
		int64 id = DatumGetInt64(pgqrs_scan_key(&scan, CLAIM_MESSAGE_ID));

		CHECK_FOR_INTERRUPTS();
		if (visible_after == start.visible_after && id < start.message_id)
			continue;
		at->visible_after = visible_after;
		at->message_id = id;
		if (pgqrs_scan_fetch(&scan, slot) && search->matches(search->arg))
			search->found[search->count++] = id;
		more = --search->budget > 0 && search->count < search->max;
	}
	pgqrs_scan_end(&scan);
	return more;
}

bool
pgqrs_claim_search_queue(PgqrsClaimSearch *search, PgqrsTable *messages,
						 TupleTableSlot *slot, int64 queue_id)
{
	PgqrsClaimPosition *at = &search->at;
	PgqrsPriorityScan priorities;
	int priority;
	bool all = true;

	if (at->queue_id != queue_id)
		*at = (PgqrsClaimPosition){queue_id, PG_INT16_MAX, DT_NOBEGIN, PG_INT64_MIN};
	pgqrs_priority_scan_begin(&priorities, messages, queue_id, at->priority,
							  PG_INT16_MIN);
	while (all && pgqrs_priority_scan_next(&priorities, &priority))
	{
		if (priority != at->priority)
			*at = (PgqrsClaimPosition){queue_id, priority, DT_NOBEGIN, PG_INT64_MIN};
		all = search_priority(search, messages, slot);
	}
	pgqrs_priority_scan_end(&priorities);
	return all;
}
