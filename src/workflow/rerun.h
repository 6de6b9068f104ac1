/*
 * rerun.h
 *	  Running an ended run again, as a new one.
 */
#ifndef PGQRS_RERUN_H
#define PGQRS_RERUN_H

#include "postgres.h"

typedef struct PgqrsRerun
{
	NullableDatum input;   /* NULL: the run's */
	const char *from_step; /* NULL: from the start */
	bool keep_finished;
} PgqrsRerun;

/* The id of the new run. */
extern int64 pgqrs_rerun_start(int64 run_id, const PgqrsRerun *rerun);

#endif /* PGQRS_RERUN_H */
