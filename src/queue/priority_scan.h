/*
 * priority_scan.h
 *	  Priority scan: the priorities of a queue that have messages, from high to low;
 *	  and a search of all messages by them.
 */
#ifndef PGQRS_PRIORITY_SCAN_H
#define PGQRS_PRIORITY_SCAN_H

#include "postgres.h"
#include "store/scan.h"


typedef struct PgqrsPriorityScan
{
	PgqrsScan scan; /* at the first entry of the priority, dead or not */
	int last;		/* the priority returned last */
	bool at_start;
} PgqrsPriorityScan;

/* Both bounds are included. */
extern void pgqrs_priority_scan_begin(PgqrsPriorityScan *priorities,
									  PgqrsTable *messages, int64 queue_id,
									  int high, int low);
extern bool pgqrs_priority_scan_next(PgqrsPriorityScan *priorities, int *priority);
extern void pgqrs_priority_scan_end(PgqrsPriorityScan *priorities);

/*
 * A search of the claim index for messages that only their rows tell, queue by
 * queue, a part in each batch.  at: the entry looked at last, with which the next
 * batch begins; all zero: nothing.
 */
typedef struct PgqrsClaimPosition
{
	int64 queue_id;
	int priority;
	TimestampTz visible_after;
	int64 message_id;
} PgqrsClaimPosition;

typedef struct PgqrsClaimSearch
{
	PgqrsClaimPosition at;
	TimestampTz from; /* visible_after, both bounds included */
	TimestampTz to;
	int budget; /* index entries left to scan */
	int max;	/* room for ids in found */
	int count;
	int64 *found;
	bool (*matches)(void *arg); /* whether the message in the slot is one */
	void *arg;
} PgqrsClaimSearch;

/* Goes on in a queue, from its start unless it is the position's; false: enough for a batch. */
extern bool pgqrs_claim_search_queue(PgqrsClaimSearch *search, PgqrsTable *messages,
									 TupleTableSlot *slot, int64 queue_id);

#endif /* PGQRS_PRIORITY_SCAN_H */
