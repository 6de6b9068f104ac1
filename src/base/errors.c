/*
 * errors.c
 *	  Errors that more than one function can raise.
 */
#include "base/errors.h"

#include "access/twophase.h"
#include "utils/lsyscache.h"

Oid pgqrs_current_sql_function = InvalidOid;

void
pgqrs_error_queue_not_found(const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_PGQRS_QUEUE_NOT_FOUND),
			 errmsg("queue \"%s\" does not exist", name),
			 errhint("Create the queue with pgqrs_create_queue(), or ask the extension's owner for a privilege on it with pgqrs_grant().")));
}

void
pgqrs_error_workflow_not_found(const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_PGQRS_WORKFLOW_NOT_FOUND),
			 errmsg("workflow \"%s\" does not exist", name),
			 errhint("Create the workflow with pgqrs_create_workflow(), or ask the extension's owner for a privilege on it with pgqrs_grant().")));
}

void
pgqrs_error_run_not_found(int64 run_id)
{
	ereport(ERROR,
			(errcode(ERRCODE_PGQRS_RUN_NOT_FOUND),
			 errmsg("run " INT64_FORMAT " does not exist", run_id),
			 errhint("Look for the run with pgqrs_list_runs(). Deleting a workflow deletes its runs.")));
}

void
pgqrs_error_message_not_found(int64 message_id)
{
	ereport(ERROR,
			(errcode(ERRCODE_PGQRS_MESSAGE_NOT_FOUND),
			 errmsg("message " INT64_FORMAT " does not exist", message_id),
			 errhint("Look for the message with pgqrs_peek() or in pgqrs_dead_letters.")));
}

void
pgqrs_error_worker_not_found(int64 worker_id)
{
	ereport(ERROR,
			(errcode(ERRCODE_PGQRS_WORKER_NOT_FOUND),
			 errmsg("worker " INT64_FORMAT " does not exist", worker_id),
			 errhint("Register with pgqrs_register_worker() and use the id that it returns.")));
}

/* kind: "message" or "run" */
void
pgqrs_error_lease_lost(const char *kind, int64 id)
{
	ereport(ERROR,
			(errcode(ERRCODE_PGQRS_LEASE_LOST),
			 errmsg("the lease on %s " INT64_FORMAT " is not the current one",
					kind, id),
			 errhint("Stop processing it. Another worker may hold the current lease.")));
}

void
pgqrs_error_run_cancelled(int64 run_id)
{
	ereport(ERROR,
			(errcode(ERRCODE_PGQRS_RUN_CANCELLED),
			 errmsg("run " INT64_FORMAT " was cancelled", run_id),
			 errhint("Stop processing it.")));
}

/* kind: "message" or "run"; state: its final state */
void
pgqrs_error_ended(const char *kind, int64 id, const char *state)
{
	ereport(ERROR,
			(errcode(ERRCODE_PGQRS_ENDED),
			 errmsg("%s " INT64_FORMAT " has ended", kind, id),
			 errdetail("The status is %s.", state),
			 errhint("Stop processing it; nothing more can be stored for it.")));
}

/*
 * Past its deadline a run counts as ended, although its row still says
 * otherwise.
 */
void
pgqrs_error_run_past_deadline(int64 run_id)
{
	ereport(ERROR,
			(errcode(ERRCODE_PGQRS_ENDED),
			 errmsg("run " INT64_FORMAT " has run out of time", run_id),
			 errdetail("The deadline of the run has passed."),
			 errhint("Stop processing it; nothing more can be stored for it.")));
}

void
pgqrs_error_worker_stopped(int64 worker_id)
{
	ereport(ERROR,
			(errcode(ERRCODE_PGQRS_WORKER_STOPPED),
			 errmsg("worker " INT64_FORMAT " is stopped", worker_id),
			 errdetail("The worker stopped itself, was silent for too long, or another registration took its name."),
			 errhint("Exit; do not register again in a loop.")));
}

void
pgqrs_error_permission_denied(const char *privilege, const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied for \"%s\"", name),
			 errdetail("The call needs the privilege \"%s\" on this name.", privilege),
			 errhint("The extension's owner can grant the privilege with pgqrs_grant().")));
}

void
pgqrs_error_read_only(bool in_recovery)
{
	char *function = get_func_name(pgqrs_current_sql_function);
	char *name = function ? psprintf("%s()", function) : "pgqrs";

	if (in_recovery)
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("cannot execute %s during recovery", name),
				 errhint("Connect to the primary server.")));
	ereport(ERROR,
			(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
			 errmsg("cannot execute %s in a read-only transaction", name),
			 errhint("Use a transaction that is READ WRITE.")));
}

/* Checked here because PostgreSQL's own check comes later. */
void
pgqrs_error_subscribed(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("a subscription writes the tables of pgqrs in this database"),
			 errhint("Call the functions on the publisher. To use this database instead, drop the subscription and call pgqrs_advance_sequences().")));
}

void
pgqrs_error_too_many_prepared(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("there are too many prepared transactions"),
			 errhint("Commit or roll back some of them, or increase max_prepared_transactions, which is %d.",
					 max_prepared_xacts)));
}

void
pgqrs_error_null(const char *argument)
{
	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("argument \"%s\" must not be null", argument),
			 errhint("Pass a value for \"%s\".", argument)));
}

void
pgqrs_error_not_supported(const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("%s is not supported yet", what),
			 errhint("Omit the argument.")));
}
