/*
 * rerun.h
 *	  Reruns: new runs with the input, and on request the steps, of an ended run.
 */
#ifndef PGQRS_RERUN_H
#define PGQRS_RERUN_H

#include "postgres.h"

#include "workflow/run.h"

typedef struct PgqrsRerun
{
	NullableDatum input;   /* NULL: that of the ended run */
	const char *from_step; /* NULL: from the beginning */
	bool keep_finished;
} PgqrsRerun;

/*
 * Starts a rerun in a workflow that the caller may trigger, unless the run's status
 * is no longer the given one or the run has a rerun already: then false.
 */
extern bool pgqrs_rerun_once(const char *workflow, int64 run_id,
							 PgqrsRunStatus status, const PgqrsRerun *rerun);

/* Returns the id of the new run. */
extern int64 pgqrs_rerun_start(int64 run_id, const PgqrsRerun *rerun);

#endif /* PGQRS_RERUN_H */
