/*
 * claim.h
 *	  Claims: leases on due messages, and messages whose lease was lost.
 */
#ifndef PGQRS_CLAIM_H
#define PGQRS_CLAIM_H

#include "postgres.h"

#include "queue/worker_registry.h"
#include "workflow/run.h"

/* A claimed message.  Its pointers are valid only during the call. */
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
	bool cancel_requested; /* the run is delivered to be undone */
	const PgqrsQueue *queue;
	Datum payload;
	NullableDatum headers;
	NullableDatum input;
} PgqrsDelivery;

/* Receives a claimed message; false: the call claims no more. */
typedef bool (*PgqrsDeliver)(void *arg, const PgqrsDelivery *delivery);

typedef struct PgqrsClaimRequest
{
	const char *queue; /* a name, a pattern, or NULL: the subscriptions of the worker */
	int64 worker_id; /* 0: no worker */
	int64 message_id; /* 0: any; else only this one, of the queue that is named */
	int batch_size;
	int64 timeout; /* microseconds, < 0: the queue's visibility_timeout */
	bool by_poll;  /* the leases are marked so, see pgqrs_claim_was_by_poll() */
	PgqrsWorkerStatus *status; /* gets the status of the worker; or NULL */
	PgqrsDeliver deliver;
	void *arg;
} PgqrsClaimRequest;

/* Claims up to batch_size messages. */
extern void pgqrs_claim(const PgqrsClaimRequest *request);

/*
 * Whether pgqrs_poll() made the lease.  Its lowest bit says so: the mark commits,
 * and ends, with the lease.
 */
static inline bool
pgqrs_claim_was_by_poll(int64 lease)
{
	return (lease & 1) != 0;
}

/*
 * The queues that pgqrs_claim() would claim from; worker: or NULL.  Valid until
 * the next call.
 */
extern const PgqrsQueueIds *pgqrs_claim_queues(const char *queue,
											   const PgqrsWorker *worker);

/* Whether a cancellation of the run in rows->run was requested; false without a run. */
extern bool pgqrs_claim_is_cancelled(PgqrsRunRows *rows);

/*
 * Delivers the run of the message to be undone, if its deadline has passed or the
 * last lease before a request to stop has expired; else returns false.  The
 * caller holds an exclusive lock on the message.
 */
extern bool pgqrs_claim_undo_if_due(PgqrsRunRows *rows, TimestampTz now);

/*
 * Ends the message if its run was cancelled, its deadline has passed or its
 * failures reach the limit; else returns false.  The caller has called
 * pgqrs_claim_undo_if_due(), and holds an exclusive
 * lock on the message, which must not have a live lease unless its deadline has
 * passed.
 */
extern bool pgqrs_claim_end_if_due(PgqrsRunRows *rows, int failures,
								   TimestampTz now);

/*
 * The failures of a message whose lease expired or is revoked: one more than
 * before, unless its worker had called pgqrs_stop_worker().
 */
extern int pgqrs_claim_failures_after_loss(TupleTableSlot *message);

/*
 * Revokes the lease of a message that the caller has locked exclusively: counts a
 * failure and makes the message claimable at once, or ends it and returns true.
 */
extern bool pgqrs_claim_revoke(PgqrsRunRows *rows);

#endif /* PGQRS_CLAIM_H */
