/*
 * claim_hints.h
 *	  Which messages were claimed a moment ago.
 */
#ifndef PGQRS_CLAIM_HINTS_H
#define PGQRS_CLAIM_HINTS_H

#include "postgres.h"

#include "base/shmem_module.h"
#include "datatype/timestamp.h"
#include "shmem/claim_floor.h"

typedef enum PgqrsClaimHint
{
	CLAIM_HINT_NONE,	 /* the row tells */
	CLAIM_HINT_OPEN,	 /* by a transaction that was open a moment ago */
	CLAIM_HINT_COMMITTED /* the message has another key by now */
} PgqrsClaimHint;

/* How a claim may take a message that has no lease. */
typedef enum PgqrsClaimAccess
{
	CLAIM_BY_UPDATE, /* at once; pgqrs_claim_hint_end_update() has to follow */
	CLAIM_BY_LOCK,	 /* after locking it */
	CLAIM_SKIP		 /* another claim has it */
} PgqrsClaimAccess;

extern const PgqrsShmemModule pgqrs_claim_hints_shmem;

/* The transaction claims the message that was at the key; now: about when. */
extern void pgqrs_claim_hint_record(PgqrsFloorKey key, TimestampTz now);

/*
 * The same before the update: until pgqrs_claim_hint_end_update() no claim and no function
 * changes or locks the message, or has to wait for that.  taken: the row was
 * updated.
 */
extern PgqrsClaimAccess pgqrs_claim_hint_begin_update(PgqrsFloorKey key,
													  TimestampTz now);
extern void pgqrs_claim_hint_end_update(bool taken);

/* Around the locking of a message that a claim may be about to update. */
extern void pgqrs_claim_hint_begin_lock(int64 message_id);
extern void pgqrs_claim_hint_end_lock(void);

/* What is known of the message at the key. */
extern PgqrsClaimHint pgqrs_claim_hint_look_up(PgqrsFloorKey key, TimestampTz now);

/*
 * The claims of the transaction are committed, visibly to every snapshot from
 * here on; or some are undone, or it was prepared.
 */
extern void pgqrs_claim_hints_committed(void);
extern void pgqrs_claim_hints_forget(void);

/* Whatever any session of this database has noted counts no more. */
extern void pgqrs_claim_hints_forget_all(void);

/* The message is written past our functions, perhaps with a key that it had. */
extern void pgqrs_claim_hint_foreign_write(int64 message_id);

#endif /* PGQRS_CLAIM_HINTS_H */
