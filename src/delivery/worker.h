/*
 * worker.h
 *	  Workers and their leases: registration, heartbeat, extension, stop.
 */
#ifndef PGQRS_WORKER_H
#define PGQRS_WORKER_H

#include "postgres.h"

#include "base/catalog.h"
#include "queue/worker_registry.h"
#include "workflow/run.h"

/* The result of one lease, when a worker extended all its leases. */
typedef struct PgqrsExtended
{
	int64 message_id;
	bool is_run; /* message_id is also the id of the run */
	bool extended;
	bool cancel_requested;
} PgqrsExtended;

/* The numbers of messages of a stopped worker, by what happened to them. */
typedef struct PgqrsReaped
{
	int given_back; /* claimable again */
	int ended;		/* the failures reached the limit */
	int skipped;	/* locked by another transaction */
} PgqrsReaped;

/* Supersedes the current role's live worker of that name; returns the new id. */
extern int64 pgqrs_worker_register(const PgqrsNewWorker *w);

/* Records a heartbeat and returns the worker's status.  PQ005, PQ014. */
extern PgqrsWorkerStatus pgqrs_worker_heartbeat(int64 worker_id);

/*
 * Extends all leases of the worker, including expired ones that are still
 * current, in ascending order of id.  timeout < 0: the visibility_timeout of each
 * queue.  Returns the number of results.  PQ005, PQ014.
 */
extern int pgqrs_worker_extend(int64 worker_id, int64 timeout,
							   PgqrsExtended **results);

extern void pgqrs_worker_suspend(int64 worker_id);
extern void pgqrs_worker_resume(int64 worker_id);

/*
 * Stops the worker and releases its messages without counting a failure; returns
 * their number.
 */
extern int64 pgqrs_worker_stop(int64 worker_id);

/*
 * Releases, without counting a failure, the messages of the worker whose claims its
 * client has not received, except locked ones.
 */
typedef bool (*PgqrsLeaseTest)(int64 message_id, int64 lease, void *arg);
extern void pgqrs_worker_release_unreceived(int64 worker_id,
											PgqrsLeaseTest is_received, void *arg);

typedef enum PgqrsMessageLock
{
	MESSAGE_LOCKED,
	MESSAGE_SKIPPED, /* deleted, or locked by another transaction */
	MESSAGE_QUARANTINED
} PgqrsMessageLock;

/*
 * For background work: locks a message exclusively, without waiting, and reads its
 * queue and run.
 */
extern PgqrsMessageLock pgqrs_worker_lock_message(PgqrsRunRows *rows,
												  int64 message_id);

/* Revokes up to max leases of a worker that was stopped or deleted. */
extern void pgqrs_worker_reap(int64 worker_id, int max, PgqrsReaped *reaped);

#endif /* PGQRS_WORKER_H */
