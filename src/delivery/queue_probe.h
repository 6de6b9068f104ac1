/*
 * queue_probe.h
 *	  Queue probe: counts claimable messages of a queue without claiming them.
 */
#ifndef PGQRS_QUEUE_PROBE_H
#define PGQRS_QUEUE_PROBE_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "queue/queue.h"
#include "store/table.h"

typedef struct PgqrsQueueProbe
{
	int ready;		  /* claimable messages, at most max */
	TimestampTz next; /* the next probe, unless a wake-up comes before */
} PgqrsQueueProbe;

/*
 * Counts up to max claimable messages, without a check of privileges.  Messages
 * that another transaction has locked are not counted, and make "next" soon.
 */
extern void pgqrs_queue_probe(PgqrsTable *messages, TupleTableSlot *slot,
							  const PgqrsQueue *queue, int max,
							  PgqrsQueueProbe *probe);

/*
 * After a claim that found nothing: publishes to other claims that the queue is
 * empty.  wakeup_slot: the queue's slot in wakeup_table.c, or -1.
 */
extern void pgqrs_queue_probe_idle(PgqrsTable *messages, TupleTableSlot *slot,
								   const PgqrsQueue *queue, int wakeup_slot);

/*
 * Probes a queue whose due instant the caller has taken, and sets the next one.
 * Wakes the background worker and waiting workers for the ready messages,
 * except for "own" that the caller claims.  Returns the number of ready
 * messages, at most max.
 */
extern int pgqrs_queue_probe_due(PgqrsTable *messages, TupleTableSlot *slot,
								 const PgqrsQueue *queue, int max, int own);

/*
 * Removes the due instant of a deleted queue.  If the queue exists by now, all
 * queues are probed, since a sender may have set the instant in between.
 */
extern void pgqrs_queue_probe_deleted(int64 queue_id);

#endif /* PGQRS_QUEUE_PROBE_H */
