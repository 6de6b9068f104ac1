/*
 * priority_scan.c
 *	  Priority scan: the priorities of a queue that have messages, from high
 *	  to low.
 *
 * Runs in any backend and takes no lock.  One index descent finds the next
 * priority.  Dead index entries count, so that a priority with dead entries
 * only costs one entry here.
 */
#include "queue/priority_scan.h"
#include "store/scan.h"


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
