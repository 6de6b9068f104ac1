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

/* Drops the messages that are not leased; returns their number. */
extern int64 pgqrs_queue_purge(const char *name);

/*
 * Drops up to max messages, leased ones included, and adds their number.  Skips
 * messages that another transaction has locked.
 */
extern void pgqrs_queue_drop_messages(const PgqrsQueue *queue, int64 max,
									  PgqrsDropped *dropped);

/*
 * False if the queue does not exist.  force: deletes it with all that refers to
 * it; otherwise PQ009 if anything refers to it.
 */
extern bool pgqrs_queue_delete(const char *name, bool force);
extern bool pgqrs_workflow_delete(const char *name, bool force);

#endif /* PGQRS_DROP_H */
