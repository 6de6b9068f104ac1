/*
 * heartbeats.h
 *	  When workers called last, in shared memory; for worker_registry.c alone.
 *
 * workers: the OID of this database's pgqrs_workers.
 */
#ifndef PGQRS_HEARTBEATS_H
#define PGQRS_HEARTBEATS_H

#include "postgres.h"

#include "base/shmem_module.h"
#include "datatype/timestamp.h"

typedef enum PgqrsHeartbeat
{
	HEARTBEAT_UNKNOWN, /* the worker has no place in shared memory */
	HEARTBEAT_RECORDED,
	HEARTBEAT_DUE /* noted, and it is the caller's turn to write the row */
} PgqrsHeartbeat;

extern const PgqrsShmemModule pgqrs_heartbeat_shmem;

/*
 * The worker has called.  Due at most once per interval (microseconds),
 * whoever calls.
 */
extern PgqrsHeartbeat pgqrs_heartbeat_record(Oid workers, int64 worker_id,
											 TimestampTz now, int64 interval);

/*
 * The same for a worker that is not known yet and whose row is, or is about to
 * be, as of written.  False if there is no place for it.
 */
extern bool pgqrs_heartbeat_add(Oid workers, int64 worker_id, TimestampTz now,
								TimestampTz written);

/* When the worker called last; DT_NOBEGIN if it is not known. */
extern TimestampTz pgqrs_heartbeat_last(Oid workers, int64 worker_id);

#endif /* PGQRS_HEARTBEATS_H */
