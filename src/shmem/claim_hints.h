/*
 * claim_hints.h
 *	  Claim hints: messages that transactions claimed a moment ago.
 */
#ifndef PGQRS_CLAIM_HINTS_H
#define PGQRS_CLAIM_HINTS_H

#include "postgres.h"

#include "base/shmem_module.h"
#include "datatype/timestamp.h"
#include "shmem/claim_floor.h"

typedef enum PgqrsClaimHint
{
	CLAIM_HINT_NONE, /* read the row */
	CLAIM_HINT_OPEN, /* claimed by a transaction that was open a moment ago */
	CLAIM_HINT_COMMITTED /* claimed; the message has another key by now */
} PgqrsClaimHint;

/* How a claim may take a message without a lease. */
typedef enum PgqrsClaimAccess
{
	CLAIM_BY_UPDATE, /* update at once, then call pgqrs_claim_hint_end_update() */
	CLAIM_BY_LOCK,	 /* lock the row first */
	CLAIM_SKIP		 /* another transaction is claiming the message */
} PgqrsClaimAccess;

extern const PgqrsShmemModule pgqrs_claim_hints_shmem;

/*
 * Records that the transaction claims the message with the key; now:
 * approximately.
 */
extern void pgqrs_claim_hint_record(PgqrsFloorKey key, TimestampTz now);

/*
 * The same before the update: until pgqrs_claim_hint_end_update() no other
 * claim and no function changes or locks the message, so the update need not
 * wait. claimed: the row was updated.
 */
extern PgqrsClaimAccess pgqrs_claim_hint_begin_update(PgqrsFloorKey key,
													  TimestampTz now);
extern void pgqrs_claim_hint_end_update(bool claimed);

/* Around the locking of a message that a claim may be about to update. */
extern void pgqrs_claim_hint_begin_lock(int64 message_id);
extern void pgqrs_claim_hint_end_lock(void);

/* The hint for the key. */
extern PgqrsClaimHint pgqrs_claim_hint_look_up(PgqrsFloorKey key, TimestampTz now);

/*
 * The claims of the transaction are committed, visibly to every snapshot from
 * here on; or some are rolled back, or the transaction is prepared.
 */
extern void pgqrs_claim_hints_committed(void);
extern void pgqrs_claim_hints_forget(void);

/* Removes the hints of all sessions of this database. */
extern void pgqrs_claim_hints_forget_all(void);

/*
 * A message is written without the functions, perhaps with a key that it had
 * before: removes its hint.
 */
extern void pgqrs_claim_hint_foreign_write(int64 message_id);

#endif /* PGQRS_CLAIM_HINTS_H */
