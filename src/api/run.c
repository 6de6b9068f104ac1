/*
 * run.c
 *	  SQL functions that start, read and end runs.
 */
#include "api/args.h"

#include "access/htup_details.h"
#include "base/errors.h"
#include "base/int64_list.h"
#include "base/json.h"
#include "delivery/client_wait.h"
#include "funcapi.h"
#include "monitor/run_list.h"
#include "nodes/execnodes.h"
#include "utils/builtins.h"
#include "workflow/advance.h"
#include "workflow/bulk_runs.h"
#include "workflow/cancel.h"
#include "workflow/rerun.h"
#include "workflow/run.h"
#include "workflow/run_trigger.h"

PG_FUNCTION_INFO_V1(sql_trigger);
Datum
sql_trigger(PG_FUNCTION_ARGS)
{
	char *workflow = pgqrs_arg_name(fcinfo, 0, "workflow");
	PgqrsNewRun r;
	int64 id;

	pgqrs_arg_new_run(fcinfo, 1, &r);
	id = pgqrs_run_trigger(workflow, &r);
	if (id == 0)
		PG_RETURN_NULL();
	PG_RETURN_INT64(id);
}

PG_FUNCTION_INFO_V1(sql_trigger_batch);
Datum
sql_trigger_batch(PG_FUNCTION_ARGS)
{
	char *workflow = pgqrs_arg_name(fcinfo, 0, "workflow");
	PgqrsNewRun r = PGQRS_NEW_RUN;
	int count;
	NullableDatum *inputs = pgqrs_arg_json_array(fcinfo, 1, "inputs", &count);
	char **keys = pgqrs_arg_idempotency_keys(fcinfo, 2, count, "inputs");
	int64 *ids = palloc(count * sizeof(int64));

	r.when = pgqrs_arg_when(fcinfo, 3, 4);
	r.priority = pgqrs_arg_priority_or(fcinfo, 5, 0);
	r.timeout = -1;
	r.tags = pgqrs_arg_json(fcinfo, 6, "tags");
	pgqrs_run_trigger_batch(workflow, &r, count, inputs, keys, ids);
	PG_RETURN_DATUM(pgqrs_int64_array(ids, count));
}

PG_FUNCTION_INFO_V1(sql_complete_run);
Datum
sql_complete_run(PG_FUNCTION_ARGS)
{
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");
	int64 lease = pgqrs_arg_int64(fcinfo, 1, "lease");

	PG_RETURN_BOOL(pgqrs_run_complete(run_id, lease, pgqrs_arg_output(fcinfo, 2)));
}

PG_FUNCTION_INFO_V1(sql_fail_run);
Datum
sql_fail_run(PG_FUNCTION_ARGS)
{
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");
	int64 lease = pgqrs_arg_int64(fcinfo, 1, "lease");
	bool retryable = pgqrs_arg_bool_or(fcinfo, 3, false);
	int64 retry_after = pgqrs_arg_duration_or(fcinfo, 4, "retry_after", -1);
	TimestampTz retry_at;

	if (!pgqrs_run_fail(run_id, lease, pgqrs_arg_error(fcinfo, 2), retryable,
						retry_after, &retry_at))
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(retry_at);
}

PG_FUNCTION_INFO_V1(sql_set_progress);
Datum
sql_set_progress(PG_FUNCTION_ARGS)
{
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");
	int64 lease = pgqrs_arg_int64(fcinfo, 1, "lease");

	pgqrs_run_set_progress(run_id, lease, pgqrs_arg_json(fcinfo, 2, "progress"));
	PG_RETURN_VOID();
}

/*
 * Cancelling and deleting
 */

PG_FUNCTION_INFO_V1(sql_cancel_run);
Datum
sql_cancel_run(PG_FUNCTION_ARGS)
{
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");
	char *reason = pgqrs_arg_text_or_null(fcinfo, 1, "reason");

	PG_RETURN_DATUM(CStringGetTextDatum(
		pgqrs_enum_label(ENUM_RUN_STATUS, pgqrs_cancel(run_id, reason))));
}

/*
 * The filter of a call that changes many runs: status and tags follow the workflow,
 * the others begin with the type of error.
 */
static PgqrsRunsFilter
get_filter(FunctionCallInfo fcinfo, int first)
{
	PgqrsRunsFilter filter = {
		.after_run_id = pgqrs_arg_int64_or(fcinfo, first + 3, 0),
	};

	filter.status = pgqrs_arg_run_status(fcinfo, 1);
	filter.tags = pgqrs_arg_json(fcinfo, 2, "tags");
	filter.error_type = pgqrs_arg_text_or_null(fcinfo, first, "error_type");
	filter.created_after = pgqrs_arg_instant_or(fcinfo, first + 1,
												"created_after", DT_NOBEGIN);
	filter.created_before = pgqrs_arg_instant_or(fcinfo, first + 2,
												 "created_before", DT_NOEND);
	return filter;
}

/* One row; last_run_id NULL: no further runs match. */
static void
put_changed(FunctionCallInfo fcinfo, PgqrsRunsChanged changed)
{
	NullableDatum row[CancelRuns_natts] = {
		[CancelRuns_changed] = pgqrs_value(Int64GetDatum(changed.changed)),
		[CancelRuns_skipped] = pgqrs_value(Int64GetDatum(changed.skipped)),
		[CancelRuns_last_run_id] = pgqrs_value_if(changed.last != 0,
												  Int64GetDatum(changed.last)),
	};

	pgqrs_result_put(fcinfo, row);
}

PG_FUNCTION_INFO_V1(sql_cancel_runs);
Datum
sql_cancel_runs(PG_FUNCTION_ARGS)
{
	char *workflow = pgqrs_arg_name(fcinfo, 0, "workflow");
	int max_rows = pgqrs_arg_int_or(fcinfo, 3, "max_rows", 0, PG_INT32_MAX, 1000);
	char *reason = pgqrs_arg_text_or_null(fcinfo, 4, "reason");
	PgqrsRunsFilter filter = get_filter(fcinfo, 5);

	pgqrs_result_begin(fcinfo);
	put_changed(fcinfo, pgqrs_cancel_many(workflow, &filter, reason, max_rows));
	return (Datum) 0;
}

PG_FUNCTION_INFO_V1(sql_replay_runs);
Datum
sql_replay_runs(PG_FUNCTION_ARGS)
{
	char *workflow = pgqrs_arg_name(fcinfo, 0, "workflow");
	PgqrsRunsFilter filter = get_filter(fcinfo, 3);
	int max_rows = pgqrs_arg_int_or(fcinfo, 7, "max_rows", 0, PG_INT32_MAX, 1000);

	pgqrs_result_begin(fcinfo);
	put_changed(fcinfo, pgqrs_bulk_replay(workflow, &filter, max_rows));
	return (Datum) 0;
}

PG_FUNCTION_INFO_V1(sql_rerun_runs);
Datum
sql_rerun_runs(PG_FUNCTION_ARGS)
{
	char *workflow = pgqrs_arg_name(fcinfo, 0, "workflow");
	PgqrsRunsFilter filter = get_filter(fcinfo, 3);
	int max_rows = pgqrs_arg_int_or(fcinfo, 7, "max_rows", 0, PG_INT32_MAX, 1000);
	bool from_failed = pgqrs_arg_bool_or(fcinfo, 8, true);

	pgqrs_result_begin(fcinfo);
	put_changed(fcinfo, pgqrs_bulk_rerun(workflow, &filter, from_failed, max_rows));
	return (Datum) 0;
}

PG_FUNCTION_INFO_V1(sql_acknowledge_cancel);
Datum
sql_acknowledge_cancel(PG_FUNCTION_ARGS)
{
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");
	int64 lease = pgqrs_arg_int64(fcinfo, 1, "lease");

	pgqrs_cancel_acknowledge(run_id, lease, pgqrs_arg_json(fcinfo, 2, "output"));
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(sql_delete_run);
Datum
sql_delete_run(PG_FUNCTION_ARGS)
{
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");

	pgqrs_cancel_delete(run_id, pgqrs_arg_text_or_null(fcinfo, 1, "reason"));
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(sql_advance);
Datum
sql_advance(PG_FUNCTION_ARGS)
{
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");

	PG_RETURN_TIMESTAMPTZ(
		pgqrs_run_advance(run_id, pgqrs_arg_duration(fcinfo, 1, "by")));
}

/*
 * Starting again
 */

PG_FUNCTION_INFO_V1(sql_rerun);
Datum
sql_rerun(PG_FUNCTION_ARGS)
{
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");
	PgqrsRerun rerun;

	rerun.input = pgqrs_arg_json(fcinfo, 1, "input");
	rerun.from_step = pgqrs_arg_key_or_null(fcinfo, 2, "from_step");
	rerun.keep_finished = pgqrs_arg_bool_or(fcinfo, 3, false);
	PG_RETURN_INT64(pgqrs_rerun_start(run_id, &rerun));
}

/*
 * Reading
 */

PG_FUNCTION_INFO_V1(sql_get_run);
Datum
sql_get_run(PG_FUNCTION_ARGS)
{
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");

	PG_RETURN_DATUM(
		HeapTupleGetDatum(pgqrs_read_run(run_id, pgqrs_result_desc(fcinfo))));
}

PG_FUNCTION_INFO_V1(sql_find_run);
Datum
sql_find_run(PG_FUNCTION_ARGS)
{
	char *workflow = pgqrs_arg_name(fcinfo, 0, "workflow");
	char *key = pgqrs_arg_key(fcinfo, 1, "idempotency_key");
	int64 run_id = pgqrs_read_find_run(workflow, key);

	if (run_id == 0)
		PG_RETURN_NULL();
	PG_RETURN_INT64(run_id);
}

PG_FUNCTION_INFO_V1(sql_result);
Datum
sql_result(PG_FUNCTION_ARGS)
{
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");

	PG_RETURN_DATUM(
		HeapTupleGetDatum(pgqrs_read_result(run_id, pgqrs_result_desc(fcinfo))));
}

PG_FUNCTION_INFO_V1(sql_wait);
Datum
sql_wait(PG_FUNCTION_ARGS)
{
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");
	int64 timeout = pgqrs_arg_wait_timeout(fcinfo, 1, 300 * USECS_PER_SEC);
	HeapTuple result;
	int ended;

	pgqrs_require_nonatomic(fcinfo, "pgqrs_wait");
	result = pgqrs_wait_for_runs(&run_id, 1, timeout, pgqrs_result_desc(fcinfo),
								 &ended);
	if (result == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_PGQRS_WAIT_TIMEOUT),
				 errmsg("run " INT64_FORMAT " did not end in time", run_id),
				 errhint("The run continues. Wait again, or look at the run with pgqrs_get_run().")));
	PG_RETURN_DATUM(HeapTupleGetDatum(result));
}

/* The columns of pgqrs_result(), which are the others of pgqrs_wait_any(). */
static TupleDesc
result_of_one(TupleDesc desc)
{
	TupleDesc one = CreateTemplateTupleDesc(desc->natts - 1);

	for (int i = 1; i <= one->natts; i++)
		TupleDescCopyEntry(one, i, desc, i + 1);
	return one;
}

PG_FUNCTION_INFO_V1(sql_wait_any);
Datum
sql_wait_any(PG_FUNCTION_ARGS)
{
	int count;
	int64 *run_ids = pgqrs_arg_ids(fcinfo, 0, "run_ids", &count);
	int64 timeout = pgqrs_arg_wait_timeout(fcinfo, 1, 300 * USECS_PER_SEC);
	TupleDesc desc = pgqrs_result_desc(fcinfo);
	TupleDesc one = result_of_one(desc);
	Datum values[WaitAny_natts];
	bool nulls[WaitAny_natts];
	HeapTuple result;
	int ended;

	pgqrs_require_nonatomic(fcinfo, "pgqrs_wait_any");
	memset(nulls, true, sizeof(nulls));
	if (count > 0)
	{
		result = pgqrs_wait_for_runs(run_ids, count, timeout, one, &ended);
		if (result == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_PGQRS_WAIT_TIMEOUT),
					 errmsg("none of %d runs ended in time", count),
					 errhint("The runs continue. Wait again, or look at them with pgqrs_get_run().")));
		values[WaitAny_run_id] = Int64GetDatum(run_ids[ended]);
		nulls[WaitAny_run_id] = false;
		heap_deform_tuple(result, one, values + 1, nulls + 1);
	}
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(desc, values, nulls)));
}

PG_FUNCTION_INFO_V1(sql_list_runs);
Datum
sql_list_runs(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	PgqrsRunFilter filter;

	filter.workflow = pgqrs_arg_pattern_or_null(fcinfo, 0, "workflow");
	filter.status = pgqrs_arg_run_status(fcinfo, 1);
	filter.tags = pgqrs_arg_json(fcinfo, 2, "tags");
	filter.before = pgqrs_arg_int64_or(fcinfo, 3, PG_INT64_MAX);
	filter.page_size = pgqrs_arg_int_or(fcinfo, 4, "page_size", 0,
										PGQRS_MAX_BATCH, 50);
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	if (filter.page_size > 0)
		pgqrs_read_runs(&filter, result->setResult, result->setDesc);
	return (Datum) 0;
}

PG_FUNCTION_INFO_V1(sql_run_crashes);
Datum
sql_run_crashes(PG_FUNCTION_ARGS)
{
	int crashes;

	if (!pgqrs_read_crashes(pgqrs_arg_int64(fcinfo, 0, "run_id"), &crashes))
		PG_RETURN_NULL();
	PG_RETURN_INT32(crashes);
}
