/*
 * api_cancel.c
 *	  SQL functions that cancel and delete runs.
 */
#include "api.h"

#include "cancel.h"
#include "errors.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(pgqrs_cancel_run);
Datum
pgqrs_cancel_run(PG_FUNCTION_ARGS)
{
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");
	char *reason = pgqrs_arg_text_or_null(fcinfo, 1, "reason");

	PG_RETURN_DATUM(CStringGetTextDatum(
		pgqrs_enum_label(ENUM_RUN_STATUS, pgqrs_cancel(run_id, reason))));
}

PG_FUNCTION_INFO_V1(pgqrs_cancel_runs);
Datum
pgqrs_cancel_runs(PG_FUNCTION_ARGS)
{
	char *workflow = pgqrs_arg_name(fcinfo, 0, "workflow");
	PgqrsCancelFilter filter;
	int max_rows;

	filter.status = pgqrs_arg_run_status(fcinfo, 1);
	filter.has_tags = pgqrs_arg_json(fcinfo, 2, "tags", &filter.tags);
	max_rows = pgqrs_arg_int_or(fcinfo, 3, "max_rows", 0, PG_INT32_MAX, 1000);
	PG_RETURN_INT64(pgqrs_cancel_many(workflow, &filter, NULL, max_rows));
}

PG_FUNCTION_INFO_V1(pgqrs_acknowledge_cancel);
Datum
pgqrs_acknowledge_cancel(PG_FUNCTION_ARGS)
{
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");
	int64 lease = pgqrs_arg_int64(fcinfo, 1, "lease");
	Datum output;
	bool has_output = pgqrs_arg_json(fcinfo, 2, "output", &output);

	pgqrs_cancel_acknowledge(run_id, lease, has_output ? &output : NULL);
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(pgqrs_delete_run);
Datum
pgqrs_delete_run(PG_FUNCTION_ARGS)
{
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");

	pgqrs_cancel_delete(run_id, pgqrs_arg_text_or_null(fcinfo, 1, "reason"));
	PG_RETURN_VOID();
}
