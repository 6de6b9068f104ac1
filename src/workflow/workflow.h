/*
 * workflow.h
 *	  Workflow definitions and retry policies.
 */
#ifndef PGQRS_WORKFLOW_H
#define PGQRS_WORKFLOW_H

#include "postgres.h"

#include "base/backoff.h"
#include "base/catalog.h"
#include "nodes/pg_list.h"
#include "queue/queue.h"
#include "store/table.h"

/* The retries of failed steps and runs. */
typedef struct PgqrsRetryPolicy
{
	PgqrsBackoff backoff;
	int max_attempts;	 /* -1: unlimited */
	List *non_retryable; /* of char *: prefixes of error types */
} PgqrsRetryPolicy;

typedef struct PgqrsWorkflow
{
	int64 workflow_id; /* also the id of its queue */
	int64 timeout;	   /* microseconds, 0: none */
	PgqrsKeyScope key_scope;
	PgqrsRetryPolicy retry;
	char name[PGQRS_NAME_SIZE];
	char outbox_queue[PGQRS_NAME_SIZE]; /* empty: none */
} PgqrsWorkflow;

/*
 * The workflow of that name, on which the current role must have the privilege:
 * PQ002 if the role has no privilege on it or it does not exist, 42501 if the
 * role has only other privileges.
 */
extern void pgqrs_workflow_require(const char *name, PgqrsPrivilege privilege,
								   PgqrsWorkflow *workflow);
extern bool pgqrs_workflow_by_id(int64 workflow_id, PgqrsWorkflow *workflow);

/* Deletes the workflow's row, after its runs were removed. */
extern void pgqrs_workflow_delete_row(int64 workflow_id);

/* The name of the workflow's outbox, copied into the current memory context, or NULL. */
extern const char *pgqrs_workflow_outbox(int64 workflow_id);

/*
 * Overrides the policy with the keys of a run's retry_policy: max_attempts,
 * initial_interval, backoff_coefficient, max_interval, jitter, non_retryable;
 * intervals as text.  22023 for other keys and invalid values.
 */
extern void pgqrs_retry_policy_merge(PgqrsRetryPolicy *policy, Datum overrides);

/* 22023 unless every number of the policy is within its bounds. */
extern void pgqrs_retry_policy_check(const PgqrsRetryPolicy *policy);

#endif /* PGQRS_WORKFLOW_H */
