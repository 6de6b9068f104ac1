/*
 * cancel.c
 *	  SQL functions that cancel and delete runs.
 */
#include "api/args.h"

#include "base/errors.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "workflow/cancel.h"

PG_FUNCTION_INFO_V1(sql_cancel_run);
Datum
sql_cancel_run(PG_FUNCTION_ARGS)
{
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");
	char *reason = pgqrs_arg_text_or_null(fcinfo, 1, "reason");

	PG_RETURN_DATUM(CStringGetTextDatum(
		pgqrs_enum_label(ENUM_RUN_STATUS, pgqrs_cancel(run_id, reason))));
}

/* Which runs: the arguments of pgqrs_cancel_runs() but for the first. */
static PgqrsCancelFilter
get_filter(FunctionCallInfo fcinfo)
{
	PgqrsCancelFilter filter = {
		.created_after = DT_NOBEGIN,
		.created_before = DT_NOEND,
		.after_run_id = pgqrs_arg_int64_or(fcinfo, 8, 0),
	};

	filter.status = pgqrs_arg_run_status(fcinfo, 1);
	filter.has_tags = pgqrs_arg_json(fcinfo, 2, "tags", &filter.tags);
	filter.error_type = pgqrs_arg_text_or_null(fcinfo, 5, "error_type");
	if (!PG_ARGISNULL(6))
		filter.created_after = pgqrs_arg_instant(fcinfo, 6, "created_after");
	if (!PG_ARGISNULL(7))
		filter.created_before = pgqrs_arg_instant(fcinfo, 7, "created_before");
	return filter;
}

/* One row; last_run_id NULL: no other runs match. */
PG_FUNCTION_INFO_V1(sql_cancel_runs);
Datum
sql_cancel_runs(PG_FUNCTION_ARGS)
{
	char *workflow = pgqrs_arg_name(fcinfo, 0, "workflow");
	int max_rows = pgqrs_arg_int_or(fcinfo, 3, "max_rows", 0, PG_INT32_MAX, 1000);
	char *reason = pgqrs_arg_text_or_null(fcinfo, 4, "reason");
	PgqrsCancelFilter filter = get_filter(fcinfo);
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Datum values[3];
	bool nulls[3] = {false};
	PgqrsCancelled cancelled;

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	cancelled = pgqrs_cancel_many(workflow, &filter, reason, max_rows);
	values[0] = Int64GetDatum(cancelled.changed);
	values[1] = Int64GetDatum(cancelled.skipped);
	values[2] = Int64GetDatum(cancelled.last);
	nulls[2] = cancelled.last == 0;
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	return (Datum) 0;
}

PG_FUNCTION_INFO_V1(sql_acknowledge_cancel);
Datum
sql_acknowledge_cancel(PG_FUNCTION_ARGS)
{
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");
	int64 lease = pgqrs_arg_int64(fcinfo, 1, "lease");
	Datum output;
	bool has_output = pgqrs_arg_json(fcinfo, 2, "output", &output);

	pgqrs_cancel_acknowledge(run_id, lease, has_output ? &output : NULL);
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
