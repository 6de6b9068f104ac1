/*
 * heartbeats.h
 *	  Heartbeats: when workers called last, in shared memory.  For
 *	  worker_registry.c only.
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
	HEARTBEAT_UNKNOWN, /* the worker has no slot in shared memory */
	HEARTBEAT_RECORDED,
	HEARTBEAT_DUE /* recorded, and this caller writes the worker's row */
} PgqrsHeartbeat;

extern const PgqrsShmemModule pgqrs_heartbeat_shmem;

/*
 * Records a call of a worker.  HEARTBEAT_DUE is returned at most once per
 * interval (microseconds), across all sessions.
 */
extern PgqrsHeartbeat pgqrs_heartbeat_record(Oid workers, int64 worker_id,
											 TimestampTz now, int64 interval);

/*
 * The same for a worker without a slot, whose row holds the time of written, or
 * is about to.  False if no slot is free.
 */
extern bool pgqrs_heartbeat_add(Oid workers, int64 worker_id, TimestampTz now,
								TimestampTz written);

/*
 * Each poll of a worker takes the next number, so that an older poll finds that
 * there is a newer one.  0: the worker has no place in shared memory.
 */
extern uint32 pgqrs_heartbeat_next_poll(Oid workers, int64 worker_id);
extern uint32 pgqrs_heartbeat_newest_poll(Oid workers, int64 worker_id);

/* When the worker called last; DT_NOBEGIN if it is not known. */
extern TimestampTz pgqrs_heartbeat_last(Oid workers, int64 worker_id);

/* The process of the session that called last; 0: it is not known, or has ended. */
extern int pgqrs_heartbeat_pid(Oid workers, int64 worker_id);

#endif /* PGQRS_HEARTBEATS_H */
