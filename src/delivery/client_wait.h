/*
 * client_wait.h
 *	  Client waits: procedures sleep until a message is claimable or a run
 *	  has ended.
 *
 * For procedures that may commit: a commit precedes each sleep, so that it
 * holds no snapshot and no lock.
 */
#ifndef PGQRS_CLIENT_WAIT_H
#define PGQRS_CLIENT_WAIT_H

#include "postgres.h"

#include "access/htup.h"
#include "access/tupdesc.h"
#include "store/table.h"

/* Durations in milliseconds. */

/*
 * Waits until one of the runs has ended; returns the row of pgqrs_result() of
 * the first, described by desc, or NULL after the timeout.  *ended: its place in
 * run_ids.  PQ003.
 */
extern HeapTuple pgqrs_wait_for_runs(const int64 *run_ids, int count,
									 int64 timeout, TupleDesc desc, int *ended);

/*
 * Waits until a dequeue with the same arguments would return a message; false
 * after the timeout, or if the worker's status changed.  Errors as of
 * pgqrs_claim().
 */
extern bool pgqrs_wait_until_work(const char *queue, int64 worker_id, int64 timeout);

/* What a poll waits for besides work. */
typedef struct PgqrsPollWait
{
	int64 worker_id;
	PgqrsWorkerStatus status; /* as the poll has seen it */
	int64 timeout;
	bool takes_work;
	bool holds; /* leases, of whose changes the client is told */

	/*
	 * Asked at the first look, and when what the worker holds may have changed.
	 * True ends the wait.
	 */
	bool (*is_over)(PgqrsTable *messages, void *arg);
	void *arg;
} PgqrsPollWait;

typedef enum PgqrsPollWaitResult
{
	POLL_TIMED_OUT,
	POLL_FOUND_WORK,
	POLL_IS_OVER /* or the worker's status changed */
} PgqrsPollWaitResult;

extern PgqrsPollWaitResult pgqrs_wait_in_poll(const PgqrsPollWait *poll);

/* Commits, in a procedure that may. */
extern void pgqrs_wait_commit(void);

/* Ends the session, if the client has disconnected. */
extern void pgqrs_wait_check_client(void);

#endif /* PGQRS_CLIENT_WAIT_H */
