/*
 * writers.h
 *	  The transactions that may be writing messages, and whether they have ended.
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
 * The other transactions that hold a lock for writing pgqrs_messages at this
 * moment, prepared ones included; in the current memory context.
 */
extern void pgqrs_writers_list(PgqrsWriters *writers);

/* Waits up to so many milliseconds for their ends; keeps those that go on. */
extern bool pgqrs_writers_ended(PgqrsWriters *writers, int patience);

/*
 * Waits for the ends of all such transactions up to lock_timeout, at most for a
 * second; else 55P03 with this detail and hint.
 */
extern void pgqrs_writers_await(const char *detail, const char *hint);

#endif /* PGQRS_WRITERS_H */
