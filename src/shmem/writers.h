/*
 * writers.h
 *	  Writers: transactions that may be writing messages, and whether they
 *	  have ended.
 */
#ifndef PGQRS_WRITERS_H
#define PGQRS_WRITERS_H

#include "postgres.h"

#include "storage/lock.h"

typedef struct PgqrsWriters
{
	int count;
	VirtualTransactionId *ids;
} PgqrsWriters;

/*
 * Lists the other transactions that hold a lock for writing pgqrs_messages at
 * this moment, prepared transactions included, in the current memory context.
 */
extern void pgqrs_writers_list(PgqrsWriters *writers);

/*
 * Waits up to timeout milliseconds for their ends, and keeps those still open
 * in the list.
 */
extern bool pgqrs_writers_ended(PgqrsWriters *writers, int timeout);

/*
 * Lists those transactions and waits for their ends, up to lock_timeout and at
 * most for a second; else raises 55P03 with this detail and hint.
 */
extern void pgqrs_writers_await(const char *detail, const char *hint);

#endif /* PGQRS_WRITERS_H */
