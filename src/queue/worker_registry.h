/*
 * worker_registry.h
 *	  Worker registry: registration, heartbeats and limits of workers.
 *
 * Concerns the rows of pgqrs_workers only; delivery/worker.h deals with a
 * worker's leases.
 */
#ifndef PGQRS_WORKER_REGISTRY_H
#define PGQRS_WORKER_REGISTRY_H

#include "postgres.h"

#include "base/catalog.h"
#include "base/int64_list.h"
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

/* A registration, checked already.  NULL, 0 and has_... false: not given. */
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

/*
 * Reads a worker of the current role (or of any role, for the extension's
 * owner); otherwise PQ005.
 */
extern void pgqrs_worker_require(int64 worker_id, PgqrsWorker *worker);

/* The same; PQ014 if the worker is stopped. */
extern void pgqrs_worker_require_live(int64 worker_id, PgqrsWorker *worker);

/*
 * Records a call of a worker as its heartbeat, in shared memory, whatever
 * becomes of the transaction.  The worker's row is written, without waiting for
 * it, if the last write is longer ago than pgqrs.heartbeat_flush (at most a
 * third of pgqrs.worker_timeout).  A stopped worker is not changed. worker_id 0
 * or unknown: no effect.
 */
extern void pgqrs_worker_record_call(int64 worker_id);

/*
 * Updates up to max rows to the present names of their roles; false: more rows
 * remain.
 */
extern bool pgqrs_workers_follow_roles(int max);

/*
 * Number of live workers, of any role, that serve the queue; counted up to max.
 */
extern int pgqrs_worker_count_serving(const char *queue, int max);

/* Gets a worker's id, its role, and its patterns as text[]. */
typedef void (*PgqrsWorkerVisit)(void *arg, int64 worker_id, Oid role, Datum queues);

/* Visits all workers; ready: the live ones that are ready. */
extern void pgqrs_workers_visit(bool ready, PgqrsWorkerVisit visit, void *arg);

/* The process of the session that called last for a worker; 0: it has ended. */
extern int pgqrs_worker_pid(int64 worker_id);

/* Live workers that serve the queue, and suspended ones, as PgqrsWorker *. */
extern List *pgqrs_workers_serving(const char *queue);

/*
 * Changes the status of a worker of the current role (PQ005); false if it has
 * that status already.  Out of STOPPED: PQ014.
 */
extern bool pgqrs_worker_set_status(int64 worker_id, PgqrsWorkerStatus to);

/* Adds a worker of the current role; false if a live worker has the name. */
extern bool pgqrs_worker_add(const PgqrsNewWorker *w, int64 *worker_id);

/* Stops the live worker of the current role with the name; false: none. */
extern bool pgqrs_worker_stop_named(const char *name, int64 *worker_id);

/*
 * Stops up to max silent workers whose rows are not locked; returns their
 * number and ids. all: no silent worker remains; next: when further workers
 * become silent without a call.
 */
extern int pgqrs_worker_stop_silent(int64 *worker_ids, int max, bool *all,
									TimestampTz *next);

/* Whether a worker is stopped or unknown. */
extern bool pgqrs_worker_is_gone(int64 worker_id);

/*
 * Whether the worker was stopped by pgqrs_stop_worker(): its leases end without
 * a failure.
 */
extern bool pgqrs_worker_stopped_itself(int64 worker_id);

/* Messages that the worker may hold at once; 0: no limit, or unknown. */
extern int pgqrs_worker_max_concurrent(int64 worker_id);

/* The same; 0 also for a worker for which the current role may not claim now. */
extern int pgqrs_worker_usable_limit(int64 worker_id);

#endif /* PGQRS_WORKER_REGISTRY_H */
