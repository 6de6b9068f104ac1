/*
 * workflow_ddl.h
 *	  Workflow DDL: creation and alteration of workflows.
 */
#ifndef PGQRS_WORKFLOW_DDL_H
#define PGQRS_WORKFLOW_DDL_H

#include "postgres.h"

#include "queue/options.h"

/* No option is given. */
extern void pgqrs_workflow_defaults(PgqrsOptions *s);

extern int64 pgqrs_workflow_create(const char *name, const PgqrsOptions *s);
extern void pgqrs_workflow_alter(const char *name, const PgqrsOptions *s);

#endif /* PGQRS_WORKFLOW_DDL_H */
