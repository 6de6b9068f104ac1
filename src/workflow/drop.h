/*
 * drop.h
 *	  Purging and deleting queues and workflows.
 */
#ifndef PGQRS_DROP_H
#define PGQRS_DROP_H

#include "postgres.h"

/* Drops what waits; the number of messages. */
extern int64 pgqrs_queue_purge(const char *name);

/*
 * False: there is none.  force: with all that refers to it, else PQ009 when
 * anything does.
 */
extern bool pgqrs_queue_delete(const char *name, bool force);
extern bool pgqrs_workflow_delete(const char *name, bool force);

#endif /* PGQRS_DROP_H */
