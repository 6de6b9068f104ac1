/*
 * poll.h
 *	  A worker's poll: extends leases, claims work, and waits for either to change.
 */
#ifndef PGQRS_POLL_H
#define PGQRS_POLL_H

#include "postgres.h"

#include "base/status.h"

typedef struct PgqrsPollRequest
{
	int64 worker_id;
	int64 timeout; /* milliseconds */
	int batch_size;

	/* The leases that the client works under; order: ascending by id. */
	int held_count;
	const int64 *held_ids;
	const int64 *held_leases;
	const int *held_order;
} PgqrsPollRequest;

typedef struct PgqrsPollAnswer
{
	Datum work; /* jsonb arrays */
	Datum held;
	PgqrsWorkerStatus status;
} PgqrsPollAnswer;

/*
 * For a procedure that may commit.  Newer polls of the worker end older ones.  A
 * lease that an earlier poll made and this one does not name was never received:
 * it is released without a failure.  PQ005, PQ014.
 */
extern void pgqrs_poll(const PgqrsPollRequest *request, PgqrsPollAnswer *answer);

#endif /* PGQRS_POLL_H */
