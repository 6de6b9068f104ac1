/*
 * runs_filter.h
 *	  Filters of calls that change many runs of a workflow, and their results.
 */
#ifndef PGQRS_RUNS_FILTER_H
#define PGQRS_RUNS_FILTER_H

#include "postgres.h"

#include "base/nullable.h"
#include "datatype/timestamp.h"
#include "store/table.h"

typedef struct PgqrsRunsFilter
{
	int status;				/* a PgqrsRunStatus, or -1: any */
	NullableDatum tags;		/* the run's tags contain these */
	const char *error_type; /* of its last error, or NULL */
	TimestampTz created_after;
	TimestampTz created_before;
	int64 after_run_id;
} PgqrsRunsFilter;

typedef struct PgqrsRunsChanged
{
	int64 changed;
	int64 skipped; /* changed by another transaction first, or cannot be changed so */
	int64 last; /* pass it as after_run_id to continue; 0: no more runs match */
} PgqrsRunsChanged;

/* Whether the run in the slot has the filter's tags and was created in its time. */
extern bool pgqrs_runs_filter_matches(const PgqrsRunsFilter *filter,
									  TupleTableSlot *run);

#endif /* PGQRS_RUNS_FILTER_H */
