/*
 * workflow_ddl.h
 *	  Workflow DDL: creation and alteration of workflows.
 */
#ifndef PGQRS_WORKFLOW_DDL_H
#define PGQRS_WORKFLOW_DDL_H

#include "postgres.h"

#include "queue/options.h"

/* The settings of a workflow, in the order of the arguments. */
typedef enum PgqrsWorkflowSetting
{
	WORKFLOW_HANDLER,
	WORKFLOW_MAX_ATTEMPTS,
	WORKFLOW_INITIAL_INTERVAL,
	WORKFLOW_BACKOFF_COEFFICIENT,
	WORKFLOW_MAX_INTERVAL,
	WORKFLOW_JITTER,
	WORKFLOW_NON_RETRYABLE,
	WORKFLOW_TIMEOUT,
	WORKFLOW_VISIBILITY_TIMEOUT,
	WORKFLOW_MAX_CRASHES,
	WORKFLOW_KEY_SCOPE,
	WORKFLOW_OUTBOX_QUEUE,
	WORKFLOW_ON_CANCEL,
	WORKFLOW_FLOW,
	WORKFLOW_SETTING_COUNT = WORKFLOW_FLOW + FLOW_SETTING_COUNT
} PgqrsWorkflowSetting;

extern void pgqrs_workflow_defaults(PgqrsSettings *s);

extern int64 pgqrs_workflow_create(const char *name, const PgqrsSettings *s);
extern void pgqrs_workflow_alter(const char *name, const PgqrsSettings *s);

#endif /* PGQRS_WORKFLOW_DDL_H */
