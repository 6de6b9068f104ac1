/*
 * step_list.h
 *	  Step lists: the steps of a run in the order of their first starts.
 */
#ifndef PGQRS_STEP_LIST_H
#define PGQRS_STEP_LIST_H

#include "postgres.h"

#include "store/table.h"

/* Values of the row are not fetched yet. */
typedef struct PgqrsListedStep
{
	TimestampTz started_at;
	char *step_id;
	HeapTuple row;
} PgqrsListedStep;

/* The steps of a run that are wanted, under the table's snapshot. */
extern PgqrsListedStep *pgqrs_step_list(PgqrsTable *steps, int64 run_id,
										bool (*is_wanted)(TupleTableSlot *step),
										int *count);

#endif /* PGQRS_STEP_LIST_H */
