/*
 * sessions.h
 *	  Sessions: which backend calls for a worker, or claims without one.
 */
#ifndef PGQRS_SESSIONS_H
#define PGQRS_SESSIONS_H

#include "postgres.h"

#include "base/shmem_module.h"
#include "datatype/timestamp.h"

extern const PgqrsShmemModule pgqrs_sessions_shmem;

/* The number of this session, greater than 0; 0: not preloaded. */
extern uint32 pgqrs_session_number(void);

/*
 * The process of the session of this database that had the number at that instant;
 * 0: it has ended.  Numbers are used again.
 */
extern int pgqrs_session_pid(uint32 number, TimestampTz at);

/*
 * The lease of a claim without a worker, made of a random one, which tells this
 * server the session.  Its hash hides the number and signs nothing.  pid: 0 if it
 * is not known, or has ended.
 */
extern int64 pgqrs_session_mark_lease(int64 lease, int64 message_id);
extern int pgqrs_session_pid_of_lease(int64 lease, int64 message_id,
									  TimestampTz claimed_at);

/*
 * This session claims without a worker from a queue or pattern, as the current
 * role: for so many milliseconds, and then for pgqrs.worker_timeout.
 */
extern void pgqrs_session_serves(const char *queue, int64 timeout);

/*
 * Visits what sessions of this database serve so, a session's queues one after
 * another.  The role may have lost its privilege.
 */
extern void pgqrs_sessions_visit_serving(void (*visit)(void *arg, uint32 number,
													   Oid role, const char *queue),
										 void *arg);

#endif /* PGQRS_SESSIONS_H */
