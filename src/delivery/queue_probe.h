/*
 * queue_probe.h
 *	  Looking whether a queue has something to claim, without claiming it.
 */
#ifndef PGQRS_QUEUE_PROBE_H
#define PGQRS_QUEUE_PROBE_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "queue/queue.h"
#include "store/table.h"

typedef struct PgqrsQueueProbe
{
	int ready; /* messages that can be claimed; at most as many as asked for */
	TimestampTz next; /* when to look again, if nothing is marked until then */
} PgqrsQueueProbe;

/*
 * Looks at a queue, whoever asks.  Messages that somebody has locked count as
 * none, but next is soon then.  max: more ready ones need not be counted.
 */
extern void pgqrs_queue_probe(PgqrsTable *messages, TupleTableSlot *slot,
							  const PgqrsQueue *queue, int max,
							  PgqrsQueueProbe *probe);

/*
 * After a claim of a call that found nothing: tells the claims of others that
 * there is nothing.  slot: the queue's slot in wakeup_table.c, or -1.
 */
extern void pgqrs_queue_probe_idle(PgqrsTable *messages, TupleTableSlot *slot,
								   const PgqrsQueue *queue, int place);

/*
 * The same when the queue's due instant was taken: lowers it again, and tells
 * the background worker and those that wait what is ready; the caller takes
 * own of it for himself.  How many are ready, at most max.
 */
extern int pgqrs_queue_probe_due(PgqrsTable *messages, TupleTableSlot *slot,
								 const PgqrsQueue *queue, int max, int own);

/*
 * Forgets the due instant of a queue that is not there.  Should it be by now,
 * all queues are looked at: somebody may have told of it in between.
 */
extern void pgqrs_queue_probe_deleted(int64 queue_id);

#endif /* PGQRS_QUEUE_PROBE_H */
