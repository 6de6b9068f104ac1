/*
 * read_ahead.h
 *	  Read ahead: a statement that asks for one id after another gets many at
 *	  once.
 */
#ifndef PGQRS_READ_AHEAD_H
#define PGQRS_READ_AHEAD_H

#include "postgres.h"

#include "datatype/timestamp.h"

#define READ_AHEAD_MAX 64

/* All zero: nothing was read. */
typedef struct PgqrsReadAhead
{
	int64 first; /* the ids from here on are read, ... */
	int count;	 /* ... so many */
	int asked;	 /* how often one of them was asked for */
	TimestampTz at;
} PgqrsReadAhead;

/*
 * The place of an id among those that are read, or -1: the caller reads as many
 * as count says from that id on, the first one at least, and corrects count.
 */
extern int pgqrs_read_ahead_find(PgqrsReadAhead *ahead, int64 id);

/* For the limits of an index scan. */
extern int64 pgqrs_read_ahead_last(const PgqrsReadAhead *ahead);

#endif /* PGQRS_READ_AHEAD_H */
