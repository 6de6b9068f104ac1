/*
 * client_wait.h
 *	  Sleeping in the server until there is something to do, or a result.
 *
 * For procedures that may commit: each sleep is preceded by a commit, so that
 * it holds no snapshot and no lock.
 */
#ifndef PGQRS_CLIENT_WAIT_H
#define PGQRS_CLIENT_WAIT_H

#include "postgres.h"

#include "access/htup.h"
#include "access/tupdesc.h"

/* Durations in milliseconds. */

/*
 * Until the run has ended: what pgqrs_result() says, described by desc; NULL
 * if it did not in time.  PQ003.
 */
extern HeapTuple pgqrs_wait_for_run(int64 run_id, int64 timeout, TupleDesc desc);

/*
 * Until a dequeue with the same arguments would find something; false if that
 * did not come in time.  Errors as of pgqrs_claim().
 */
extern bool pgqrs_wait_until_work(const char *queue, int64 worker_id, int64 timeout);

#endif /* PGQRS_CLIENT_WAIT_H */
