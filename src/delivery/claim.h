/*
 * claim.h
 *	  Claiming messages, and what becomes of a claim that was lost.
 */
#ifndef PGQRS_CLAIM_H
#define PGQRS_CLAIM_H

#include "postgres.h"

#include "queue/worker_registry.h"
#include "workflow/run.h"

/* A message handed out.  What it points to is good during the call only. */
typedef struct PgqrsDelivery
{
	int64 message_id;
	int64 lease;
	TimestampTz enqueued_at;
	TimestampTz visible_after; /* the end of the lease */
	int attempt;
	int failures;
	int priority;
	bool is_run;
	const PgqrsQueue *queue;
	Datum payload;
	NullableDatum headers;
	NullableDatum input;
} PgqrsDelivery;

typedef void (*PgqrsDeliver)(void *arg, const PgqrsDelivery *delivery);

/*
 * Claims up to batch_size messages.  queue: a name, a pattern, or NULL for
 * what the worker subscribes to; worker_id 0: none; timeout < 0: the queue's.
 */
extern void pgqrs_claim(const char *queue, int64 worker_id, int batch_size,
						int64 timeout, PgqrsDeliver deliver, void *arg);

/*
 * The queues that it would claim from; worker: NULL for none.  Good until the
 * next call.
 */
extern const PgqrsQueueIds *pgqrs_claim_queues(const char *queue,
											   const PgqrsWorker *worker);

/* The run, which is read, was asked to stop; false for a message. */
extern bool pgqrs_claim_is_cancelled(PgqrsRunRows *rows);

/*
 * For a message that is locked exclusively and not under a live lease, with
 * the failures it has by now: ends it if it was cancelled, is past its
 * deadline or has failed too often, and says so.
 */
extern bool pgqrs_claim_end_if_due(PgqrsRunRows *rows, int failures,
								   TimestampTz now);

/*
 * The failures of a message whose lease ran out or is taken away: one more than
 * before, unless its worker was stopped by its own pgqrs_stop_worker().
 */
extern int pgqrs_claim_failures_after_loss(TupleTableSlot *message);

/*
 * A lease was taken away, from a message that is locked exclusively: counts a
 * failure and makes the message claimable at once, or ends it and returns true.
 */
extern bool pgqrs_claim_revoke(PgqrsRunRows *rows);

#endif /* PGQRS_CLAIM_H */
