/*
 * message.h
 *	  Messages: sending, fencing, releasing and ending.
 */
#ifndef PGQRS_MESSAGE_H
#define PGQRS_MESSAGE_H

#include "postgres.h"

#include "base/catalog.h"
#include "datatype/timestamp.h"
#include "queue/queue.h"
#include "store/table.h"

/* When a message becomes claimable. */
typedef struct PgqrsWhen
{
	int64 delay;		/* microseconds after the write */
	TimestampTz run_at; /* or at this time, unless 0 */
} PgqrsWhen;

/* What a duplicate idempotency key leads to. */
typedef enum PgqrsOnDuplicate
{
	DUPLICATE_RETURN, /* return the id of the existing message */
	DUPLICATE_RAISE,  /* error 23505 */
	DUPLICATE_NULL	  /* return 0 */
} PgqrsOnDuplicate;

/* A message to be sent. */
typedef struct PgqrsNewMessage
{
	PgqrsWhen when;
	int priority;
	bool is_run; /* message of a run: run_id is the id, no payload */
	Datum payload;
	NullableDatum headers;
	const char *idempotency_key; /* or NULL */
	PgqrsOnDuplicate on_duplicate;
	int64 timeout;				 /* microseconds to the deadline; 0: none */
	TimestampTz latest_deadline; /* latest deadline; 0: none */
} PgqrsNewMessage;

/* waiting_for of the message of a run that was asked to stop while leased. */
#define PGQRS_WAIT_CANCEL "cancel"

extern bool pgqrs_message_is_cancelling(TupleTableSlot *slot);

/*
 * The process that holds a message under a lease, or 0: of the last call for its
 * worker, or of a claim without a worker.  0 too if the current role may not
 * monitor the queue.
 */
extern int pgqrs_message_holder(int64 message_id);

/* Whether the deadline of the message's run has passed. */
extern bool pgqrs_message_is_past_deadline(TupleTableSlot *slot, TimestampTz now);

/*
 * Whether the deadline has passed of a run that is to be delivered then, and no
 * transaction has written that yet.
 */
extern bool pgqrs_message_is_to_be_undone(TupleTableSlot *slot,
										  const PgqrsQueue *queue, TimestampTz now);

/* Whether the deadline ends the run, which is not to be undone first. */
extern bool pgqrs_message_is_past_its_end(TupleTableSlot *slot,
										  const PgqrsQueue *queue, TimestampTz now);

/* Whether the holder of the message is asked to stop: by a cancel, or as above. */
extern bool pgqrs_message_is_asked_to_stop(TupleTableSlot *slot,
										   const PgqrsQueue *queue,
										   TimestampTz now);

extern TimestampTz pgqrs_when_visible(const PgqrsWhen *when, TimestampTz now);

/*
 * The clock for writing a message that becomes visible then, see claim_floor.c.
 */
extern TimestampTz pgqrs_when_clock(int64 queue_id, const PgqrsWhen *when);

/*
 * Sends a message; returns its id, or for a duplicate key as on_duplicate says.
 */
extern int64 pgqrs_message_enqueue(const char *name, const PgqrsNewMessage *m);

/* Messages to be sent together. */
typedef struct PgqrsNewMessages
{
	PgqrsWhen when;
	int priority;
	int count;
	Datum *payloads;
	NullableDatum *headers; /* or NULL: no headers */
	char **keys;			/* idempotency keys, each may be NULL; or NULL */
} PgqrsNewMessages;

/* Sends many; ids: one each. */
extern void pgqrs_message_enqueue_batch(const char *name,
										const PgqrsNewMessages *batch, int64 *ids);

/*
 * Calls of a lease holder.  PQ006, PQ010 and PQ007 as pgqrs_run_fence(); PQ016
 * if the message of a run is not allowed.  Archiving returns false if the
 * message was archived before under this lease.
 */
extern bool pgqrs_message_archive(int64 id, int64 lease);
extern void pgqrs_message_archive_batch(int count, const int64 *ids,
										const int64 *leases, const int *order,
										bool *archived, bool *is_current);

/*
 * Archives plain messages under their current leases, in the order, until one
 * item is something else; raises no error for that one.  Returns their number.
 */
extern int pgqrs_message_archive_leading(int count, const int64 *ids,
										 const int64 *leases, const int *order);
extern void pgqrs_message_delete(int64 id, int64 lease);

/*
 * Releases a lease, or revokes it for an operator.  False: the run was asked to
 * stop; the message is unchanged and locked exclusively, and the caller must
 * end the run.
 */
extern bool pgqrs_message_release(int64 id, int64 lease, int64 delay);
extern bool pgqrs_message_set_visibility(int64 id, TimestampTz visible_after);

/* Arguments of a nack. */
typedef struct PgqrsNack
{
	NullableDatum error;
	bool retryable;
	int64 delay; /* microseconds; < 0: by number of failures */
} PgqrsNack;

/*
 * True and the time of the next delivery, or false: the message is a dead
 * letter now.
 */
extern bool pgqrs_message_nack(int64 id, int64 lease, const PgqrsNack *nack,
							   TimestampTz *retry_at);

/*
 * Extends a lease; timeout < 0: the queue's; false: the lease is not the
 * current one. slot: of messages, which are open for writing.
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
 * Building blocks. messages is open for writing; the row in a slot is locked as
 * the change needs.
 */
extern void pgqrs_message_init_row(PgqrsRow *row, PgqrsTable *messages,
								   int64 queue_id, int64 id,
								   const PgqrsNewMessage *m, TimestampTz now);
extern bool pgqrs_message_by_key(PgqrsTable *messages, int64 queue_id,
								 const char *key, TupleTableSlot *slot);
extern void pgqrs_message_clear_lease(PgqrsRow *row, TimestampTz visible_after);

/*
 * Sets the end of the lease. last: the message ends if the lease expires, which
 * maintenance sees to.
 */
extern void pgqrs_message_set_lease_end(PgqrsRow *row,
										TimestampTz visible_after, bool last);

/* The same for a lease whose end stays. */
extern void pgqrs_message_set_last_lease(PgqrsRow *row, TimestampTz visible_after);
extern void pgqrs_message_archive_deleted(PgqrsTable *messages, TupleTableSlot *slot,
										  const PgqrsQueue *queue,
										  PgqrsOutcome outcome, int failures,
										  NullableDatum error);

/* Deletes a message, locked exclusively, that is not archived. */
extern void pgqrs_message_drop(PgqrsTable *messages, TupleTableSlot *slot);

/* The worker that holds the message in the slot, if one does, is woken from its poll. */
extern void pgqrs_message_note_lease_change(TupleTableSlot *slot);

/*
 * The lease of the message in the slot, if any, has ended: publishes the room
 * under the limits.
 */
extern void pgqrs_message_publish_room(TupleTableSlot *slot,
									   const PgqrsQueue *queue);

/*
 * Discards a dead letter, locked exclusively.  That of a run stays in the
 * archive, no longer dead, so that retention removes both together.
 */
extern void pgqrs_message_dismiss(PgqrsTable *archive, TupleTableSlot *dead_letter);
extern void pgqrs_message_end(PgqrsTable *messages, TupleTableSlot *slot,
							  const PgqrsQueue *queue, PgqrsOutcome outcome,
							  int failures, NullableDatum error);

#endif /* PGQRS_MESSAGE_H */
