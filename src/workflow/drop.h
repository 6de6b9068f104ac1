/*
 * drop.h
 *	  Purging and deleting queues and workflows.
 */
#ifndef PGQRS_DROP_H
#define PGQRS_DROP_H

#include "postgres.h"

#include "queue/queue.h"

typedef struct PgqrsDropped
{
	int64 messages;
	int64 runs; /* cancelled, with their messages */
} PgqrsDropped;

/* Drops what waits; the number of messages. */
extern int64 pgqrs_queue_purge(const char *name);

/*
 * Drops up to max messages, leased ones included, and adds their number.  Those
 * that another transaction has locked stay.
 */
extern void pgqrs_queue_drop_messages(const PgqrsQueue *queue, int64 max,
									  PgqrsDropped *dropped);

/*
 * False: there is none.  force: with all that refers to it, else PQ009 when
 * anything does.
 */
extern bool pgqrs_queue_delete(const char *name, bool force);
extern bool pgqrs_workflow_delete(const char *name, bool force);

#endif /* PGQRS_DROP_H */
