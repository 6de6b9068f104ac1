/*
 * errors.h
 *	  Errors: the SQLSTATEs of class PQ and the functions that raise them,
 *	  each with the same wording and HINT everywhere.
 */
#ifndef PGQRS_ERRORS_H
#define PGQRS_ERRORS_H

#include "postgres.h"

#define ERRCODE_PGQRS_QUEUE_NOT_FOUND	 MAKE_SQLSTATE('P', 'Q', '0', '0', '1')
#define ERRCODE_PGQRS_WORKFLOW_NOT_FOUND MAKE_SQLSTATE('P', 'Q', '0', '0', '2')
#define ERRCODE_PGQRS_RUN_NOT_FOUND		 MAKE_SQLSTATE('P', 'Q', '0', '0', '3')
#define ERRCODE_PGQRS_MESSAGE_NOT_FOUND	 MAKE_SQLSTATE('P', 'Q', '0', '0', '4')
#define ERRCODE_PGQRS_WORKER_NOT_FOUND	 MAKE_SQLSTATE('P', 'Q', '0', '0', '5')
#define ERRCODE_PGQRS_LEASE_LOST		 MAKE_SQLSTATE('P', 'Q', '0', '0', '6')
#define ERRCODE_PGQRS_ENDED				 MAKE_SQLSTATE('P', 'Q', '0', '0', '7')
#define ERRCODE_PGQRS_PAYLOAD_TOO_LARGE	 MAKE_SQLSTATE('P', 'Q', '0', '0', '8')
#define ERRCODE_PGQRS_IN_USE			 MAKE_SQLSTATE('P', 'Q', '0', '0', '9')
#define ERRCODE_PGQRS_RUN_CANCELLED		 MAKE_SQLSTATE('P', 'Q', '0', '1', '0')
#define ERRCODE_PGQRS_WAIT_TIMEOUT		 MAKE_SQLSTATE('P', 'Q', '0', '1', '2')
#define ERRCODE_PGQRS_NO_WORKER			 MAKE_SQLSTATE('P', 'Q', '0', '1', '3')
#define ERRCODE_PGQRS_WORKER_STOPPED	 MAKE_SQLSTATE('P', 'Q', '0', '1', '4')
#define ERRCODE_PGQRS_SCHEDULE_INVALID	 MAKE_SQLSTATE('P', 'Q', '0', '1', '5')
#define ERRCODE_PGQRS_INVALID_STATE		 MAKE_SQLSTATE('P', 'Q', '0', '1', '6')

/* PostgreSQL 18 defines pg_noreturn and drops pg_attribute_noreturn(). */
#ifndef pg_noreturn
#define pg_noreturn pg_attribute_noreturn()
#endif

/* The SQL function called last; error messages name it. */
extern Oid pgqrs_current_sql_function;

pg_noreturn extern void pgqrs_error_queue_not_found(const char *name);
pg_noreturn extern void pgqrs_error_workflow_not_found(const char *name);
pg_noreturn extern void pgqrs_error_run_not_found(int64 run_id);
pg_noreturn extern void pgqrs_error_message_not_found(int64 message_id);
pg_noreturn extern void pgqrs_error_worker_not_found(int64 worker_id);
pg_noreturn extern void pgqrs_error_lease_lost(const char *kind, int64 id);
pg_noreturn extern void pgqrs_error_run_cancelled(int64 run_id);
pg_noreturn extern void pgqrs_error_ended(const char *kind, int64 id,
										  const char *state);
pg_noreturn extern void pgqrs_error_run_past_deadline(int64 run_id);
pg_noreturn extern void pgqrs_error_worker_stopped(int64 worker_id);
pg_noreturn extern void pgqrs_error_permission_denied(const char *privilege,
													  const char *name);
pg_noreturn extern void pgqrs_error_read_only(bool in_recovery);
pg_noreturn extern void pgqrs_error_subscribed(void);
pg_noreturn extern void pgqrs_error_too_many_prepared(void);
pg_noreturn extern void pgqrs_error_null(const char *argument);
pg_noreturn extern void pgqrs_error_not_supported(const char *what);

/* HINT of errors caused by a row that the functions of pgqrs did not write. */
#define PGQRS_DAMAGED_HINT \
	"The row was written or deleted without the functions of pgqrs, or a restore has not reached it yet. pgqrs_verify() lists such rows."

#endif /* PGQRS_ERRORS_H */
