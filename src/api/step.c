/*
 * step.c
 *	  SQL functions of steps: those that compute, those that wait, children.
 */
#include "api/args.h"

#include "base/errors.h"
#include "base/json.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "monitor/run_list.h"
#include "nodes/execnodes.h"
#include "utils/builtins.h"
#include "workflow/cancel.h"
#include "workflow/child.h"
#include "workflow/signal.h"
#include "workflow/step.h"
#include "workflow/wait_step.h"

PG_FUNCTION_INFO_V1(sql_step_begin);
Datum
sql_step_begin(PG_FUNCTION_ARGS)
{
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");
	int64 lease = pgqrs_arg_int64(fcinfo, 1, "lease");
	char *step_id = pgqrs_arg_key(fcinfo, 2, "step_id");
	Datum input = (Datum) 0;
	bool has_input = pgqrs_arg_json(fcinfo, 3, "input", &input);
	PgqrsStepState state;
	Datum values[5];
	bool nulls[5] = {0};

	pgqrs_step_start(run_id, lease, step_id, has_input, input, &state);
	values[0] = BoolGetDatum(state.should_execute);
	values[1] = CStringGetTextDatum(pgqrs_enum_label(ENUM_STEP_STATUS, state.status));
	nulls[2] = !state.has_output;
	values[2] = state.output;
	nulls[3] = !state.has_error;
	values[3] = state.error;
	values[4] = Int32GetDatum(state.attempt);
	PG_RETURN_DATUM(pgqrs_result_row(fcinfo, values, nulls));
}

PG_FUNCTION_INFO_V1(sql_step_complete);
Datum
sql_step_complete(PG_FUNCTION_ARGS)
{
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");
	int64 lease = pgqrs_arg_int64(fcinfo, 1, "lease");
	char *step_id = pgqrs_arg_key(fcinfo, 2, "step_id");
	TimestampTz started_at = 0;
	Datum output;

	if (!pgqrs_arg_json(fcinfo, 3, "output", &output))
		output = pgqrs_json_null();
	if (!PG_ARGISNULL(4))
		started_at = pgqrs_arg_instant(fcinfo, 4, "started_at");
	PG_RETURN_BOOL(pgqrs_step_store(run_id, lease, step_id, output, started_at));
}

PG_FUNCTION_INFO_V1(sql_step_fail);
Datum
sql_step_fail(PG_FUNCTION_ARGS)
{
	static const char *const labels[] = {
		[STEP_OUTCOME_RETRY] = "RETRY",
		[STEP_OUTCOME_STEP_FAILED] = "STEP_FAILED",
		[STEP_OUTCOME_RUN_FAILED] = "RUN_FAILED",
	};
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");
	int64 lease = pgqrs_arg_int64(fcinfo, 1, "lease");
	char *step_id = pgqrs_arg_key(fcinfo, 2, "step_id");
	PgqrsStepFailure f;
	PgqrsStepOutcome outcome;
	TimestampTz retry_at = 0;
	Datum values[2];
	bool nulls[2] = {false, false};

	if (PG_ARGISNULL(3))
		pgqrs_error_null("error");
	f.error = PG_GETARG_DATUM(3);
	f.retryable = pgqrs_arg_bool_or(fcinfo, 4, true);
	f.retry_after = pgqrs_arg_duration_or(fcinfo, 5, "retry_after", -1);
	f.max_attempts = pgqrs_arg_max_attempts(fcinfo, 6);
	f.fail_run = pgqrs_arg_bool_or(fcinfo, 7, true);

	outcome = pgqrs_step_failed(run_id, lease, step_id, &f, &retry_at);
	if (outcome == STEP_OUTCOME_RUN_FAILED)
		pgqrs_cancel_children(run_id);
	values[0] = CStringGetTextDatum(labels[outcome]);
	nulls[1] = outcome != STEP_OUTCOME_RETRY;
	values[1] = TimestampTzGetDatum(retry_at);
	PG_RETURN_DATUM(pgqrs_result_row(fcinfo, values, nulls));
}

/*
 * Steps that wait
 */

PG_FUNCTION_INFO_V1(sql_pause_run);
Datum
sql_pause_run(PG_FUNCTION_ARGS)
{
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");
	int64 lease = pgqrs_arg_int64(fcinfo, 1, "lease");
	char *step_id = pgqrs_arg_key(fcinfo, 2, "step_id");
	int64 check_after = pgqrs_arg_duration_or(fcinfo, 3, "check_after",
											  USECS_PER_HOUR);
	Datum reason;
	bool has_reason = pgqrs_arg_json(fcinfo, 4, "reason", &reason);
	Datum values[2] = {0};
	bool nulls[2] = {0};
	bool resumed;

	resumed = pgqrs_park_pause(run_id, lease, step_id, check_after,
							   has_reason ? &reason : NULL, &values[1]);
	values[0] = BoolGetDatum(resumed);
	nulls[1] = !resumed;
	PG_RETURN_DATUM(pgqrs_result_row(fcinfo, values, nulls));
}

PG_FUNCTION_INFO_V1(sql_resume_run);
Datum
sql_resume_run(PG_FUNCTION_ARGS)
{
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");
	char *step_id = pgqrs_arg_key_or_null(fcinfo, 1, "step_id");
	Datum output;

	if (!pgqrs_arg_json(fcinfo, 2, "output", &output))
		output = pgqrs_json_null();
	PG_RETURN_BOOL(pgqrs_park_resume(run_id, step_id, output));
}

PG_FUNCTION_INFO_V1(sql_sleep);
Datum
sql_sleep(PG_FUNCTION_ARGS)
{
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");
	int64 lease = pgqrs_arg_int64(fcinfo, 1, "lease");
	char *step_id = pgqrs_arg_key(fcinfo, 2, "step_id");
	int64 duration = pgqrs_arg_duration_or(fcinfo, 3, "duration", -1);
	TimestampTz until = 0;

	if (!PG_ARGISNULL(4))
		until = pgqrs_arg_instant(fcinfo, 4, "until");
	else if (duration < 0)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("neither \"duration\" nor \"until\" is given"),
				 errhint("Give one of them.")));
	if (!PG_ARGISNULL(4) && duration >= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("both \"duration\" and \"until\" are given"),
				 errhint("Give one of them.")));
	PG_RETURN_BOOL(pgqrs_park_sleep(run_id, lease, step_id, duration, until));
}

PG_FUNCTION_INFO_V1(sql_signal);
Datum
sql_signal(PG_FUNCTION_ARGS)
{
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");
	PgqrsNewSignal s;

	s.name = pgqrs_arg_key(fcinfo, 1, "signal");
	s.has_payload = pgqrs_arg_json(fcinfo, 2, "payload", &s.payload);
	s.idempotency_key = pgqrs_arg_key_or_null(fcinfo, 3, "idempotency_key");
	s.has_headers = pgqrs_arg_json(fcinfo, 4, "headers", &s.headers);
	PG_RETURN_INT64(pgqrs_signal_send(run_id, &s));
}

PG_FUNCTION_INFO_V1(sql_await_signal);
Datum
sql_await_signal(PG_FUNCTION_ARGS)
{
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");
	int64 lease = pgqrs_arg_int64(fcinfo, 1, "lease");
	char *step_id = pgqrs_arg_key(fcinfo, 2, "step_id");
	char *signal = pgqrs_arg_key(fcinfo, 3, "signal");
	int64 timeout = pgqrs_arg_duration_or(fcinfo, 4, "timeout", -1);
	PgqrsSignalResult result;
	PgqrsSignalContent content = {0};
	Datum values[4];
	bool nulls[4] = {0};

	result = pgqrs_signal_await(run_id, lease, step_id, signal, timeout, &content);
	values[0] = BoolGetDatum(result == SIGNAL_RECEIVED);
	values[1] = BoolGetDatum(result == SIGNAL_TIMED_OUT);
	values[2] = content.payload;
	nulls[2] = result != SIGNAL_RECEIVED;
	values[3] = content.headers;
	nulls[3] = !content.has_headers;
	PG_RETURN_DATUM(pgqrs_result_row(fcinfo, values, nulls));
}

/*
 * Children
 */

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

/*
 * Reading
 */

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
