/*
 * bulk_runs.h
 *	  Replays and reruns of many runs of a workflow.
 */
#ifndef PGQRS_BULK_RUNS_H
#define PGQRS_BULK_RUNS_H

#include "postgres.h"

#include "workflow/runs_filter.h"

/* Replays up to max_rows matching runs in ERROR, in ascending order. */
extern PgqrsRunsChanged pgqrs_bulk_replay(const char *workflow,
										  const PgqrsRunsFilter *filter,
										  int max_rows);

/*
 * Starts reruns of up to max_rows matching runs that have ended, in ERROR unless
 * the filter has another status, in ascending order.  from_failed: the new runs
 * keep the finished steps.  A run that has a rerun is skipped.
 */
extern PgqrsRunsChanged pgqrs_bulk_rerun(const char *workflow,
										 const PgqrsRunsFilter *filter,
										 bool from_failed, int max_rows);

#endif /* PGQRS_BULK_RUNS_H */
