/*
 * worker_registry.h
 *	  Workers: registration, signs of life, limits.
 *
 * The rows of pgqrs_workers and nothing else; what a worker holds is worker.h's.
 */
#ifndef PGQRS_WORKER_REGISTRY_H
#define PGQRS_WORKER_REGISTRY_H

#include "postgres.h"

#include "base/catalog.h"
#include "datatype/timestamp.h"
#include "nodes/pg_list.h"
#include "store/table.h"

typedef struct PgqrsWorker
{
	int64 worker_id;
	PgqrsWorkerStatus status;
	int max_concurrent; /* 0: no limit */
	List *queues;		/* of char *: patterns */
	char *name;
	char *version; /* or NULL */
} PgqrsWorker;

/* What registers; checked already.  NULL pointers, 0 and has_… : not given. */
typedef struct PgqrsNewWorker
{
	const char *name;
	Datum queues; /* text[] of patterns */
	const char *hostname;
	const char *version;
	int port;
	int max_concurrent;
	NullableDatum labels;
} PgqrsNewWorker;

/* A worker of the current role (or of any, for the owner): else PQ005. */
extern void pgqrs_worker_require(int64 worker_id, PgqrsWorker *worker);

/* The same, and PQ014 if it is stopped. */
extern void pgqrs_worker_require_live(int64 worker_id, PgqrsWorker *worker);

/*
 * A sign of life.  It is noted in shared memory, whatever becomes of the
 * transaction.  The worker's row is written if that was not done within
 * pgqrs.heartbeat_flush (at most a third of pgqrs.worker_timeout), without
 * waiting for it.  A stopped worker stays as it is.  worker_id 0 or unknown:
 * nothing happens.
 */
extern void pgqrs_worker_record_call(int64 worker_id);

/* Up to max rows get the names that their roles have now; false: more is to be done. */
extern bool pgqrs_workers_follow_roles(int max);

/* How many live workers of any role serve the queue; counted up to max. */
extern int pgqrs_worker_count_serving(const char *queue, int max);

/*
 * Moves a worker of the current role (PQ005) to another status; false if it
 * has it already.  Out of STOPPED: PQ014.
 */
extern bool pgqrs_worker_set_status(int64 worker_id, PgqrsWorkerStatus to);

/* Adds a worker of the current role; false if a live one has the name. */
extern bool pgqrs_worker_add(const PgqrsNewWorker *w, int64 *worker_id);

/* Stops the live worker of the current role that has the name, if there is one. */
extern bool pgqrs_worker_stop_named(const char *name, int64 *worker_id);

/*
 * Stops up to max silent workers whose rows nobody holds; how many, and which.
 * all: these were all; next: when others will be silent if they do not call.
 */
extern int pgqrs_worker_stop_silent(int64 *worker_ids, int max, bool *all,
									TimestampTz *next);

/* Whether a worker is stopped, or not there at all. */
extern bool pgqrs_worker_is_gone(int64 worker_id);

/* Whether it was stopped by pgqrs_stop_worker(): what it held is no failure. */
extern bool pgqrs_worker_stopped_itself(int64 worker_id);

/* What it may hold at once; 0: no limit. */
extern int pgqrs_worker_max_concurrent(int64 worker_id);

#endif /* PGQRS_WORKER_REGISTRY_H */
