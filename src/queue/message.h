/*
 * message.h
 *	  Messages: storing, fencing, giving back, ending.
 */
#ifndef PGQRS_MESSAGE_H
#define PGQRS_MESSAGE_H

#include "postgres.h"

#include "base/catalog.h"
#include "datatype/timestamp.h"
#include "queue/queue.h"
#include "store/table.h"

/* When a message may first be claimed. */
typedef struct PgqrsWhen
{
	int64 delay;		/* microseconds, from the moment of writing */
	TimestampTz run_at; /* or at this instant, if it is not 0 */
} PgqrsWhen;

/* What to do when the idempotency key is taken. */
typedef enum PgqrsOnDuplicate
{
	DUPLICATE_RETURN, /* answer the id of the one that has it */
	DUPLICATE_RAISE,  /* 23505 */
	DUPLICATE_NULL	  /* answer 0 */
} PgqrsOnDuplicate;

/* A message to be stored. */
typedef struct PgqrsNewMessage
{
	PgqrsWhen when;
	int priority;
	bool is_run; /* id and run_id are the same, no payload */
	Datum payload;
	NullableDatum headers;
	const char *idempotency_key; /* or NULL */
	PgqrsOnDuplicate on_duplicate;
	int64 timeout;				 /* microseconds to the deadline, 0: none */
	TimestampTz latest_deadline; /* the deadline at the latest, 0: none */
} PgqrsNewMessage;

/* waiting_for of a message whose run was asked to stop while somebody held it. */
#define PGQRS_WAIT_CANCEL "cancel"

extern bool pgqrs_message_is_cancelling(TupleTableSlot *slot);

/* Past the deadline of the run that it belongs to. */
extern bool pgqrs_message_is_past_deadline(TupleTableSlot *slot, TimestampTz now);

extern TimestampTz pgqrs_when_visible(const PgqrsWhen *when, TimestampTz now);

/* The clock for a backend that writes a message that becomes visible then, see claim_floor.c. */
extern TimestampTz pgqrs_when_clock(int64 queue_id, const PgqrsWhen *when);

/* Sending: the id of the new message, or what on_duplicate says where the key is taken. */
extern int64 pgqrs_message_enqueue(const char *queue, const PgqrsNewMessage *m);

/* Plain messages to be stored together. */
typedef struct PgqrsNewMessages
{
	PgqrsWhen when;
	int priority;
	int count;
	Datum *payloads;
	NullableDatum *headers; /* or NULL: none has any */
	char **keys; /* idempotency keys, each of which may be NULL; or NULL */
} PgqrsNewMessages;

/* The same for many; ids: room for one each. */
extern void pgqrs_message_enqueue_batch(const char *queue,
										const PgqrsNewMessages *batch, int64 *ids);

/*
 * Under a lease.  PQ006, PQ010 and PQ007 as pgqrs_run_fence(), PQ016 where a
 * run's message is not allowed.  Archiving answers false where the message was
 * archived before under this lease.
 */
extern bool pgqrs_message_archive(int64 id, int64 lease);
extern void pgqrs_message_archive_batch(int count, const int64 *ids,
										const int64 *leases, const int *order,
										bool *archived, bool *is_current);
extern void pgqrs_message_delete(int64 id, int64 lease);

/*
 * Giving the lease up, or having it taken away by an operator.  False: the run
 * was asked to stop; nothing was changed, the message is locked exclusively,
 * and the caller has to end the run.
 */
extern bool pgqrs_message_release(int64 id, int64 lease, int64 delay);
extern bool pgqrs_message_set_visibility(int64 id, TimestampTz visible_after);

/* What a nack tells. */
typedef struct PgqrsNack
{
	NullableDatum error;
	bool retryable;
	int64 delay; /* microseconds, < 0: by the number of failures */
} PgqrsNack;

/* True and the time of the next try, or false: it is a dead letter now. */
extern bool pgqrs_message_nack(int64 id, int64 lease, const PgqrsNack *nack,
							   TimestampTz *retry_at);

/*
 * The same; timeout < 0: the queue's; false: the lease is not the current one.
 * slot: of messages, which are open for writing.
 */
extern void pgqrs_message_lock_limits(PgqrsTable *messages,
									  TupleTableSlot *slot, int count,
									  const int64 *ids, const int64 *leases);
extern bool pgqrs_message_extend(PgqrsTable *messages, TupleTableSlot *slot,
								 int64 id, int64 lease, int64 timeout,
								 bool *cancel_requested);
extern void pgqrs_message_extend_batch(int count, const int64 *ids,
									   const int64 *leases, const int *order,
									   int64 timeout, bool *extended,
									   bool *cancel_requested);

/*
 * The storage below.  messages is open for writing; a slot's row is locked as
 * the change needs.
 */
extern void pgqrs_message_init_row(PgqrsRow *row, PgqrsTable *messages,
								   int64 queue_id, int64 id,
								   const PgqrsNewMessage *m, TimestampTz now);
extern bool pgqrs_message_by_key(PgqrsTable *messages, int64 queue_id,
								 const char *key, TupleTableSlot *slot);
extern void pgqrs_message_clear_lease(PgqrsRow *row, TimestampTz visible_after);

/*
 * The message is held until visible_after; last: and if that passes, it ends.
 * Maintenance sees to it.
 */
extern void pgqrs_message_set_lease_end(PgqrsRow *row,
										TimestampTz visible_after, bool last);
extern void pgqrs_message_archive_deleted(PgqrsTable *messages, TupleTableSlot *slot,
										  const PgqrsQueue *queue,
										  PgqrsOutcome outcome, int failures,
										  NullableDatum error);

/* The lease of the message in the slot, if it had one, is no more: there is room. */
extern void pgqrs_message_publish_room(TupleTableSlot *slot,
									   const PgqrsQueue *queue);

/*
 * A dead letter, locked exclusively, is thrown away.  A run keeps it, as no dead
 * one any more, so that both are removed together when they were kept long enough.
 */
extern void pgqrs_message_dismiss(PgqrsTable *archive, TupleTableSlot *letter);
extern void pgqrs_message_end(PgqrsTable *messages, TupleTableSlot *slot,
							  const PgqrsQueue *queue, PgqrsOutcome outcome,
							  int failures, NullableDatum error);

#endif /* PGQRS_MESSAGE_H */
