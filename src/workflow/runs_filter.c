/*
 * runs_filter.c
 *	  Filters of calls that change many runs of a workflow.
 */
#include "workflow/runs_filter.h"

#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"

bool
pgqrs_runs_filter_matches(const PgqrsRunsFilter *filter, TupleTableSlot *run)
{
	TimestampTz created = pgqrs_get_time(run, Runs_created_at);

	if (created < filter->created_after || created >= filter->created_before)
		return false;
	return filter->tags.isnull ||
		(!pgqrs_is_null(run, Runs_tags) &&
		 DatumGetBool(DirectFunctionCall2(jsonb_contains, pgqrs_get(run, Runs_tags),
										  filter->tags.value)));
}
