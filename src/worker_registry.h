/*
 * worker_registry.h
 *	  Workers: registration, signs of life, limits.
 */
#ifndef PGQRS_WORKER_REGISTRY_H
#define PGQRS_WORKER_REGISTRY_H

#include "postgres.h"

#include "catalog.h"
#include "nodes/pg_list.h"
#include "rows.h"

typedef struct PgqrsWorker
{
	int64		worker_id;
	PgqrsWorkerStatus status;
	int			max_concurrent; /* 0: no limit */
	List	   *queues;			/* of char *: patterns */
	char	   *name;
	char	   *version;		/* or NULL */
} PgqrsWorker;

/* A worker of the current role (or of any, for the owner): else PQ005. */
extern void pgqrs_worker_require(int64 worker_id, PgqrsWorker *worker);

/*
 * A sign of life.  Writes the worker's row if it was not written within
 * pgqrs.heartbeat_flush (at most a third of pgqrs.worker_timeout), never waits
 * for it; remembers in the backend when there is nothing to write, so that the
 * usual call costs nothing.  A stopped worker stays as it is.  worker_id 0 or
 * unknown: nothing happens.
 */
extern void pgqrs_worker_touch(int64 worker_id);

/* Whether a live worker of any role serves the queue. */
extern bool pgqrs_worker_serves(const char *queue);

#endif							/* PGQRS_WORKER_REGISTRY_H */
