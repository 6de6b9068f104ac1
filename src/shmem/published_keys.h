/*
 * published_keys.h
 *	  Published keys: ranges of the keys that open and prepared transactions may
 *	  have written, which cap the floors of claims.
 *
 * Kept in shared memory.  Functions without a comment on that are called only
 * where the library is preloaded.
 */
#ifndef PGQRS_PUBLISHED_KEYS_H
#define PGQRS_PUBLISHED_KEYS_H

#include "postgres.h"

#include "base/shmem_module.h"
#include "datatype/timestamp.h"

/* In place of the id of a queue. */
#define PGQRS_ANY_QUEUE 0

/* Keys closer than this, in microseconds, share a range. */
#define PGQRS_KEYS_NEAR 10000

extern const PgqrsShmemModule pgqrs_published_keys_shmem;

/* The transaction writes keys. */
extern TimestampTz pgqrs_publish_clock(int64 queue_id, int64 delay,
									   TimestampTz not_before);
extern void pgqrs_publish_key(int64 queue_id, TimestampTz key);
extern bool pgqrs_key_is_published(int64 queue_id, TimestampTz key);

/*
 * Whether the transactions prepared before the start of the server are known;
 * false without preloading.
 */
extern bool pgqrs_published_knows_prepared(void);

/* Reads them if need be; does nothing without preloading. */
extern void pgqrs_published_learn_prepared(void);

/*
 * Calls back for each range of keys, bounds included, that other transactions
 * may be writing to the queue.  Keys of another epoch are any.
 */
typedef void (*PgqrsPendingCallback)(void *arg, TimestampTz from, TimestampTz to);

extern void pgqrs_published_read(int64 queue_id, uint32 epoch,
								 PgqrsPendingCallback add, void *arg);

/* Transaction end; both do nothing without preloading. */
extern void pgqrs_published_pre_prepare(void); /* called by xact_hooks.c */
extern void pgqrs_published_end(void);

#endif /* PGQRS_PUBLISHED_KEYS_H */
