/*
 * read.c
 *	  SQL-callable functions that read: runs, steps, waiting messages.
 */
#include "api/args.h"

#include "access/htup_details.h"
#include "base/clock.h"
#include "base/json.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "monitor/run_list.h"
#include "nodes/execnodes.h"
#include "queue/privileges.h"
#include "queue/queue.h"
#include "utils/builtins.h"

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

PG_FUNCTION_INFO_V1(sql_list_runs);
Datum
sql_list_runs(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	PgqrsRunFilter filter;

	filter.workflow = pgqrs_arg_pattern_or_null(fcinfo, 0, "workflow");
	filter.status = pgqrs_arg_run_status(fcinfo, 1);
	filter.has_tags = pgqrs_arg_json(fcinfo, 2, "tags", &filter.tags);
	filter.before = pgqrs_arg_int64_or(fcinfo, 3, PG_INT64_MAX);
	filter.page_size = pgqrs_arg_int_or(fcinfo, 4, "page_size", 0,
										PGQRS_MAX_BATCH, 50);
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	if (filter.page_size > 0)
		pgqrs_read_runs(&filter, result->setResult, result->setDesc);
	return (Datum) 0;
}

PG_FUNCTION_INFO_V1(sql_list_steps);
Datum
sql_list_steps(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	pgqrs_read_steps(run_id, result->setResult, result->setDesc);
	return (Datum) 0;
}

PG_FUNCTION_INFO_V1(sql_peek);
Datum
sql_peek(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	char *queue = pgqrs_arg_name(fcinfo, 0, "queue");
	int n = pgqrs_arg_int_or(fcinfo, 1, "n", 0, PGQRS_MAX_BATCH, 10);

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	pgqrs_read_peek(queue, n, result->setResult, result->setDesc);
	return (Datum) 0;
}

PG_FUNCTION_INFO_V1(sql_queue_name);
Datum
sql_queue_name(PG_FUNCTION_ARGS)
{
	PgqrsQueue queue;

	if (!pgqrs_queue_by_id(pgqrs_arg_int64(fcinfo, 0, "queue_id"), &queue) ||
		pgqrs_grants_on(queue.name) == 0)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(queue.name));
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

PG_FUNCTION_INFO_V1(sql_now);
Datum
sql_now(PG_FUNCTION_ARGS)
{
	PG_RETURN_TIMESTAMPTZ(pgqrs_clock());
}

PG_FUNCTION_INFO_V1(sql_version);
Datum
sql_version(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(PGQRS_VERSION));
}

/* What pgqrs_html() shows of a value at most, in bytes; it cuts to characters. */
#define MAX_SHOWN (4000 * MAX_MULTIBYTE_CHAR_LEN)

PG_FUNCTION_INFO_V1(sql_html_json);
Datum
sql_html_json(PG_FUNCTION_ARGS)
{
	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(
		cstring_to_text(pgqrs_json_excerpt(PG_GETARG_DATUM(0), MAX_SHOWN)));
}
