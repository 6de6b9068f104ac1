/*
 * step_list.c
 *	  Step lists: the steps of a run in the order of their first starts.
 *
 * Runs in any backend and takes no row lock.
 */
#include "workflow/step_list.h"

#include "base/catalog.h"
#include "store/scan.h"
#include "utils/builtins.h"

static int
compare_by_start(const void *a, const void *b)
{
	const PgqrsListedStep *x = a;
	const PgqrsListedStep *y = b;

	if (x->started_at != y->started_at)
		return x->started_at < y->started_at ? -1 : 1;
	return strcmp(x->step_id, y->step_id);
}

PgqrsListedStep *
pgqrs_step_list(PgqrsTable *steps, int64 run_id,
				bool (*is_wanted)(TupleTableSlot *step), int *count)
{
	PgqrsKey key = {1, BTEqualStrategyNumber, Int64GetDatum(run_id)};
	TupleTableSlot *slot = pgqrs_table_slot(steps);
	int room = 16;
	PgqrsListedStep *list = palloc(room * sizeof(PgqrsListedStep));
	PgqrsScan scan;

	*count = 0;
	pgqrs_scan_begin(&scan, steps, INDEX_STEPS_PKEY, 1, &key);
	while (pgqrs_scan_next(&scan, slot))
	{
		if (!is_wanted(slot))
			continue;
		if (*count == room)
		{
			room *= 2;
			list = repalloc_huge(list, room * sizeof(PgqrsListedStep));
		}
		list[(*count)++] = (PgqrsListedStep){
			.started_at = pgqrs_get_time(slot, Steps_started_at),
			.step_id = TextDatumGetCString(pgqrs_get(slot, Steps_step_id)),
			.row = ExecCopySlotHeapTuple(slot),
		};
	}
	pgqrs_scan_end(&scan);
	qsort(list, *count, sizeof(PgqrsListedStep), compare_by_start);
	return list;
}
