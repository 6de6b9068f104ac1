/*
 * run.c
 *	  SQL functions that start and end runs.
 */
#include "api/run.h"

#include "api/args.h"
#include "base/errors.h"
#include "base/json.h"
#include "base/name.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "workflow/cancel.h"
#include "workflow/run.h"

void
pgqrs_arg_new_run(FunctionCallInfo fcinfo, int first, PgqrsNewRun *r)
{
	r->has_input = pgqrs_arg_json(fcinfo, first, "input", &r->input);
	r->idempotency_key = pgqrs_arg_key_or_null(fcinfo, first + 1, "idempotency_key");
	r->when = pgqrs_arg_when(fcinfo, first + 2, first + 3);
	r->priority = pgqrs_arg_priority_or(fcinfo, first + 4, 0);
	r->timeout = pgqrs_arg_timeout(fcinfo, first + 5);
	r->has_tags = pgqrs_arg_json(fcinfo, first + 6, "tags", &r->tags);
	r->has_headers = pgqrs_arg_json(fcinfo, first + 7, "headers", &r->headers);
	r->has_retry_policy = pgqrs_arg_json(fcinfo, first + 8, "retry_policy",
										 &r->retry_policy);
	r->on_duplicate = pgqrs_arg_on_duplicate(fcinfo, first + 9);
	r->require_worker = pgqrs_arg_bool_or(fcinfo, first + 10, false);
	pgqrs_arg_concurrency_key(fcinfo, first + 11);
}

PG_FUNCTION_INFO_V1(sql_trigger);
Datum
sql_trigger(PG_FUNCTION_ARGS)
{
	char *workflow = pgqrs_arg_name(fcinfo, 0, "workflow");
	PgqrsNewRun r = {0};
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
	PgqrsNewRun r = {.timeout = -1};
	Datum *inputs;
	bool *no_inputs;
	int count = pgqrs_arg_array(fcinfo, 1, "inputs", JSONBOID, false, &inputs,
								&no_inputs);
	char **keys = pgqrs_arg_idempotency_keys(fcinfo, 2, count, "inputs");
	int64 *ids = palloc(count * sizeof(int64));

	r.when = pgqrs_arg_when(fcinfo, 3, 4);
	r.priority = pgqrs_arg_priority_or(fcinfo, 5, 0);
	r.has_tags = pgqrs_arg_json(fcinfo, 6, "tags", &r.tags);
	for (int i = 0; i < count; i++)
		if (!no_inputs[i])
			pgqrs_json_check(inputs[i], "inputs", i + 1);
	pgqrs_run_trigger_batch(workflow, &r, count, inputs, no_inputs, keys, ids);
	PG_RETURN_DATUM(pgqrs_int64_array(ids, count));
}

PG_FUNCTION_INFO_V1(sql_complete_run);
Datum
sql_complete_run(PG_FUNCTION_ARGS)
{
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");
	int64 lease = pgqrs_arg_int64(fcinfo, 1, "lease");
	Datum output;

	if (!pgqrs_arg_json(fcinfo, 2, "output", &output))
		output = pgqrs_json_null();
	PG_RETURN_BOOL(pgqrs_run_complete(run_id, lease, output));
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

	if (PG_ARGISNULL(2))
		pgqrs_error_null("error");
	if (!pgqrs_run_fail(run_id, lease, PG_GETARG_DATUM(2), retryable,
						retry_after, &retry_at))
	{
		pgqrs_cancel_children(run_id);
		PG_RETURN_NULL();
	}
	PG_RETURN_TIMESTAMPTZ(retry_at);
}

PG_FUNCTION_INFO_V1(sql_set_progress);
Datum
sql_set_progress(PG_FUNCTION_ARGS)
{
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");
	int64 lease = pgqrs_arg_int64(fcinfo, 1, "lease");
	Datum progress = (Datum) 0;
	bool has_progress = pgqrs_arg_json(fcinfo, 2, "progress", &progress);

	pgqrs_run_set_progress(run_id, lease, has_progress, progress);
	PG_RETURN_VOID();
}
