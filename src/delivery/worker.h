/*
 * worker.h
 *	  Workers and what they hold: registering, extending, stopping.
 */
#ifndef PGQRS_WORKER_H
#define PGQRS_WORKER_H

#include "postgres.h"

#include "base/catalog.h"
#include "queue/worker_registry.h"
#include "workflow/run.h"

/* What became of one lease when a worker extended all of its. */
typedef struct PgqrsExtended
{
	int64 message_id;
	bool is_run; /* its run has the same id */
	bool extended;
	bool cancel_requested;
} PgqrsExtended;

/* What became of the messages of a worker that is gone. */
typedef struct PgqrsReaped
{
	int given_back; /* claimable again */
	int ended;		/* that was one failure too many */
	int skipped;	/* somebody has it locked */
} PgqrsReaped;

/* Supersedes the current role's live worker of that name; the new one's id. */
extern int64 pgqrs_worker_register(const PgqrsNewWorker *w);

/* A sign of life; the status.  PQ005, PQ014. */
extern PgqrsWorkerStatus pgqrs_worker_heartbeat(int64 worker_id);

/*
 * Extends every lease the worker holds, expired ones that are still current
 * included, in ascending order of id; timeout < 0: each queue's.  Returns how
 * many, and one answer each.  PQ005, PQ014.
 */
extern int pgqrs_worker_extend(int64 worker_id, int64 timeout,
							   PgqrsExtended **answers);

extern void pgqrs_worker_suspend(int64 worker_id);
extern void pgqrs_worker_resume(int64 worker_id);

/* Stops the worker and gives back what it holds, without a failure; how many. */
extern int64 pgqrs_worker_stop(int64 worker_id);

/*
 * Reads and locks a message exclusively, with its queue and run; false if
 * somebody else has it or it is gone.
 */
extern bool pgqrs_worker_try_lock_message(PgqrsRunRows *rows, int64 message_id);

/* Ends up to max leases of a worker that is gone, as if they had expired. */
extern void pgqrs_worker_reap(int64 worker_id, int max, PgqrsReaped *reaped);

#endif /* PGQRS_WORKER_H */
