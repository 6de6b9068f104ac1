/*
 * run.h
 *	  Arguments of the functions that start runs.
 */
#ifndef PGQRS_API_RUN_H
#define PGQRS_API_RUN_H

#include "postgres.h"

#include "fmgr.h"
#include "workflow/run.h"

/* From "input" to "concurrency_key", in the order of pgqrs_trigger(). */
extern void pgqrs_arg_new_run(FunctionCallInfo fcinfo, int first, PgqrsNewRun *r);

#endif /* PGQRS_API_RUN_H */
