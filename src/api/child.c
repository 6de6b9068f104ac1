/*
 * child.c
 *	  SQL functions that start children and wait for them.
 */
#include "api/args.h"
#include "api/run.h"

#include "base/errors.h"
#include "base/json.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "workflow/child.h"

static PgqrsParentEnd
arg_on_parent_end(FunctionCallInfo fcinfo, int n)
{
	static const char *const labels[] = {"cancel", "abandon"};

	return pgqrs_arg_label_or(fcinfo, n, "on_parent_end", lengthof(labels),
							  labels, PARENT_END_CANCEL);
}

PG_FUNCTION_INFO_V1(sql_start_child);
Datum
sql_start_child(PG_FUNCTION_ARGS)
{
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");
	int64 lease = pgqrs_arg_int64(fcinfo, 1, "lease");
	char *step_id = pgqrs_arg_key(fcinfo, 2, "step_id");
	char *workflow = pgqrs_arg_name(fcinfo, 3, "workflow");
	PgqrsNewRun r = {0};
	bool own_priority = !PG_ARGISNULL(8);
	int64 child;

	pgqrs_arg_new_run(fcinfo, 4, &r);
	r.on_parent_end = arg_on_parent_end(fcinfo, 16);
	child = pgqrs_child_start(run_id, lease, step_id, workflow, &r, own_priority);
	if (child == 0)
		PG_RETURN_NULL();
	PG_RETURN_INT64(child);
}

PG_FUNCTION_INFO_V1(sql_start_children);
Datum
sql_start_children(PG_FUNCTION_ARGS)
{
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");
	int64 lease = pgqrs_arg_int64(fcinfo, 1, "lease");
	char *step_id = pgqrs_arg_key(fcinfo, 2, "step_id");
	char *workflow = pgqrs_arg_name(fcinfo, 3, "workflow");
	PgqrsNewChildren c = {0};
	int64 *ids;

	c.count = pgqrs_arg_array(fcinfo, 4, "inputs", JSONBOID, false, &c.inputs,
							  &c.no_inputs);
	for (int i = 0; i < c.count; i++)
		if (!c.no_inputs[i])
			pgqrs_json_check(c.inputs[i], "inputs", i + 1);
	c.keys = pgqrs_arg_idempotency_keys(fcinfo, 5, c.count, "inputs");
	c.own_priority = !PG_ARGISNULL(6);
	c.run.priority = pgqrs_arg_priority_or(fcinfo, 6, 0);
	c.run.timeout = pgqrs_arg_timeout(fcinfo, 7);
	c.run.has_tags = pgqrs_arg_json(fcinfo, 8, "tags", &c.run.tags);
	c.run.on_parent_end = arg_on_parent_end(fcinfo, 9);
	pgqrs_child_start_many(run_id, lease, step_id, workflow, &c, &ids);
	PG_RETURN_DATUM(pgqrs_int64_array(ids, c.count));
}

PG_FUNCTION_INFO_V1(sql_await_child);
Datum
sql_await_child(PG_FUNCTION_ARGS)
{
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");
	int64 lease = pgqrs_arg_int64(fcinfo, 1, "lease");
	char *step_id = pgqrs_arg_key(fcinfo, 2, "step_id");
	PgqrsChildEnd end;
	Datum values[4] = {0};
	bool nulls[4] = {false, true, true, true};
	bool done = pgqrs_child_await(run_id, lease, step_id, &end);

	values[0] = BoolGetDatum(done);
	if (done)
	{
		values[1] = CStringGetTextDatum(end.status);
		values[2] = end.output;
		values[3] = end.error;
		nulls[1] = false;
		nulls[2] = !end.has_output;
		nulls[3] = !end.has_error;
	}
	PG_RETURN_DATUM(pgqrs_result_row(fcinfo, values, nulls));
}

PG_FUNCTION_INFO_V1(sql_await_children);
Datum
sql_await_children(PG_FUNCTION_ARGS)
{
	static const char *const modes[] = {"all", "any"};
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");
	int64 lease = pgqrs_arg_int64(fcinfo, 1, "lease");
	char *step_id = pgqrs_arg_key(fcinfo, 2, "step_id");
	bool all = pgqrs_arg_label_or(fcinfo, 3, "mode", lengthof(modes), modes, 0) == 0;
	Datum values[2] = {0};
	bool nulls[2] = {0};
	bool done = pgqrs_child_await_many(run_id, lease, step_id, all, &values[1]);

	values[0] = BoolGetDatum(done);
	nulls[1] = !done;
	PG_RETURN_DATUM(pgqrs_result_row(fcinfo, values, nulls));
}
