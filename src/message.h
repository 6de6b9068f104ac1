/*
 * message.h
 *	  Messages: storing, fencing, giving back, ending.
 */
#ifndef PGQRS_MESSAGE_H
#define PGQRS_MESSAGE_H

#include "postgres.h"

#include "catalog.h"
#include "datatype/timestamp.h"
#include "queue.h"
#include "rows.h"

/* When a message may first be claimed. */
typedef struct PgqrsWhen
{
	int64		delay;			/* microseconds, from the moment of writing */
	TimestampTz run_at;			/* or at this instant, if it is not 0 */
} PgqrsWhen;

/* A message to be stored.  Datums may be NULL where has_… says so. */
typedef struct PgqrsNewMessage
{
	PgqrsWhen	when;
	int			priority;
	bool		is_run;			/* id and run_id are the same, no payload */
	Datum		payload;
	bool		has_headers;
	Datum		headers;
	const char *idempotency_key;	/* or NULL */
	TimestampTz deadline_at;	/* 0: none */
} PgqrsNewMessage;

extern TimestampTz pgqrs_when_visible(const PgqrsWhen *when, TimestampTz now);

/* enqueue: the id of the new message, or of the one that has the key */
extern int64 pgqrs_message_enqueue(const char *queue, const PgqrsNewMessage *m);
extern void pgqrs_message_enqueue_batch(const char *queue, PgqrsWhen when,
										int priority, int count,
										const Datum *payloads,
										const Datum *headers,
										const bool *no_headers, int64 *ids);

/*
 * The storage below, for runs: the table is open for writing, the slot's row
 * is locked.
 */
extern void pgqrs_message_fill(PgqrsRow *row, PgqrsTable *messages,
							   const PgqrsQueue *queue, int64 id,
							   const PgqrsNewMessage *m, TimestampTz now);
extern bool pgqrs_message_leased(TupleTableSlot *slot);	/* somebody holds it */
extern bool pgqrs_message_lease_live(TupleTableSlot *slot, TimestampTz now);
extern void pgqrs_message_give_up(PgqrsRow *row, TimestampTz visible_after);
extern void pgqrs_message_end(PgqrsTable *messages, TupleTableSlot *slot,
							  const PgqrsQueue *queue, PgqrsOutcome outcome,
							  bool has_error, Datum error);
extern void pgqrs_message_unarchive(PgqrsTable *messages, TupleTableSlot *slot);

/* Under a lease: PQ006, or PQ007 for a run's message where it is not allowed. */
extern void pgqrs_message_archive(int64 id, int64 lease);
extern bool pgqrs_message_try_archive(int64 id, int64 lease);
extern void pgqrs_message_discard(int64 id, int64 lease);
extern void pgqrs_message_release(int64 id, int64 lease, int64 delay);
extern bool pgqrs_message_extend(int64 id, int64 lease, int64 timeout,
								 bool *cancel_requested);

#endif							/* PGQRS_MESSAGE_H */
