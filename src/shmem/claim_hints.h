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

typedef enum PgqrsTaken
{
	TAKEN_UNKNOWN,	/* the row tells */
	TAKEN_OPEN,		/* by a transaction that was open a moment ago */
	TAKEN_COMMITTED /* the message has another key by now */
} PgqrsTaken;

/* How a claim may take a message that has no lease. */
typedef enum PgqrsTake
{
	TAKE_UPDATE, /* at once; pgqrs_taken_end() has to follow */
	TAKE_LOCK,	 /* after locking it */
	TAKE_NOTHING /* another claim has it */
} PgqrsTake;

extern const PgqrsShmemModule pgqrs_taken_shmem;

/* The transaction claims the message that was at the key; now: about when. */
extern void pgqrs_taken_note(PgqrsFloorKey key, TimestampTz now);

/*
 * The same before the update: until pgqrs_taken_end() no claim and no function
 * changes or locks the message, or has to wait for that.  taken: the row was
 * updated.
 */
extern PgqrsTake pgqrs_taken_begin(PgqrsFloorKey key, TimestampTz now);
extern void pgqrs_taken_end(bool taken);

/* Around the locking of a message that a claim may be about to update. */
extern void pgqrs_taken_lock_begin(int64 message_id);
extern void pgqrs_taken_lock_end(void);

/* What is known of the message at the key. */
extern PgqrsTaken pgqrs_taken_look(PgqrsFloorKey key, TimestampTz now);

/*
 * The claims of the transaction are committed, visibly to every snapshot from
 * here on; or some are undone, or it was prepared.
 */
extern void pgqrs_taken_committed(void);
extern void pgqrs_taken_forget(void);

/* Whatever any session of this database has noted counts no more. */
extern void pgqrs_taken_forget_all(void);

/* The message is written past our functions, perhaps with a key that it had. */
extern void pgqrs_taken_foreign_write(int64 message_id);

#endif /* PGQRS_CLAIM_HINTS_H */
