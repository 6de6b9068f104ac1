/*
 * step.c
 *	  SQL functions of steps: function steps, waits, children.
 */
#include "api/args.h"

#include "base/int64_list.h"
#include "base/json.h"
#include "funcapi.h"
#include "monitor/run_list.h"
#include "nodes/execnodes.h"
#include "workflow/await_any.h"
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
	NullableDatum input = pgqrs_arg_json(fcinfo, 3, "input");
	PgqrsStepState state;
	NullableDatum row[StepBegin_natts];

	pgqrs_step_begin(run_id, lease, step_id, input, &state);
	row[StepBegin_should_execute] = pgqrs_value(BoolGetDatum(state.should_execute));
	row[StepBegin_status] = pgqrs_text_value(
		pgqrs_enum_label(ENUM_STEP_STATUS, state.status));
	row[StepBegin_output] = state.output;
	row[StepBegin_error] = state.error;
	row[StepBegin_attempt] = pgqrs_value(Int32GetDatum(state.attempt));
	PG_RETURN_DATUM(pgqrs_result_row(fcinfo, row));
}

PG_FUNCTION_INFO_V1(sql_step_complete);
Datum
sql_step_complete(PG_FUNCTION_ARGS)
{
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");
	int64 lease = pgqrs_arg_int64(fcinfo, 1, "lease");
	char *step_id = pgqrs_arg_key(fcinfo, 2, "step_id");
	Datum output = pgqrs_arg_output(fcinfo, 3);
	TimestampTz started_at = pgqrs_arg_instant_or(fcinfo, 4, "started_at", 0);

	PG_RETURN_BOOL(pgqrs_step_complete(run_id, lease, step_id, output, started_at));
}

PG_FUNCTION_INFO_V1(sql_step_next);
Datum
sql_step_next(PG_FUNCTION_ARGS)
{
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");
	int64 lease = pgqrs_arg_int64(fcinfo, 1, "lease");
	char *step_id = pgqrs_arg_key(fcinfo, 2, "step_id");
	Datum output = pgqrs_arg_output(fcinfo, 3);
	char *next_step = pgqrs_arg_key(fcinfo, 4, "next_step");
	NullableDatum next_input = pgqrs_arg_json(fcinfo, 6, "next_input");
	TimestampTz started_at = pgqrs_arg_instant_or(fcinfo, 5, "started_at", 0);
	PgqrsStepState state = {.output = PGQRS_NULL, .error = PGQRS_NULL};
	bool cancel_requested;
	bool stored;
	NullableDatum row[StepNext_natts];

	if (strcmp(step_id, next_step) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"next_step\" is the step that is completed"),
				 errhint("Name another step, or call pgqrs_step_complete().")));
	stored = pgqrs_step_next(run_id, lease, step_id, output, started_at,
							 next_step, next_input, &state, &cancel_requested);
	row[StepNext_stored] = pgqrs_value(BoolGetDatum(stored));
	row[StepNext_should_execute] = pgqrs_value(
		BoolGetDatum(!cancel_requested && state.should_execute));
	row[StepNext_status] = pgqrs_text_value(
		cancel_requested ? NULL : pgqrs_enum_label(ENUM_STEP_STATUS, state.status));
	row[StepNext_output] = state.output;
	row[StepNext_error] = state.error;
	row[StepNext_attempt] = pgqrs_value_if(!cancel_requested,
										   Int32GetDatum(state.attempt));
	row[StepNext_cancel_requested] = pgqrs_value(BoolGetDatum(cancel_requested));
	PG_RETURN_DATUM(pgqrs_result_row(fcinfo, row));
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
	NullableDatum row[StepFail_natts];

	f.error = pgqrs_arg_error(fcinfo, 3);
	f.retryable = pgqrs_arg_bool_or(fcinfo, 4, true);
	f.retry_after = pgqrs_arg_duration_or(fcinfo, 5, "retry_after", -1);
	f.max_attempts = pgqrs_arg_max_attempts(fcinfo, 6);
	f.fail_run = pgqrs_arg_bool_or(fcinfo, 7, true);

	outcome = pgqrs_step_fail(run_id, lease, step_id, &f, &retry_at);
	row[StepFail_outcome] = pgqrs_text_value(labels[outcome]);
	row[StepFail_retry_at] = pgqrs_value_if(outcome == STEP_OUTCOME_RETRY,
											TimestampTzGetDatum(retry_at));
	PG_RETURN_DATUM(pgqrs_result_row(fcinfo, row));
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
	NullableDatum reason = pgqrs_arg_json(fcinfo, 4, "reason");
	NullableDatum row[PauseRun_natts];

	row[PauseRun_resumed] = pgqrs_value(
		BoolGetDatum(pgqrs_wait_step_pause(run_id, lease, step_id, check_after,
										   reason, &row[PauseRun_output])));
	PG_RETURN_DATUM(pgqrs_result_row(fcinfo, row));
}

PG_FUNCTION_INFO_V1(sql_resume_run);
Datum
sql_resume_run(PG_FUNCTION_ARGS)
{
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");
	char *step_id = pgqrs_arg_key_or_null(fcinfo, 1, "step_id");
	Datum output = pgqrs_arg_output(fcinfo, 2);

	PG_RETURN_BOOL(pgqrs_wait_step_resume(run_id, step_id, output));
}

PG_FUNCTION_INFO_V1(sql_sleep);
Datum
sql_sleep(PG_FUNCTION_ARGS)
{
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");
	int64 lease = pgqrs_arg_int64(fcinfo, 1, "lease");
	char *step_id = pgqrs_arg_key(fcinfo, 2, "step_id");
	int64 duration = pgqrs_arg_duration_or(fcinfo, 3, "duration", -1);
	TimestampTz until = pgqrs_arg_instant_or(fcinfo, 4, "until", 0);

	if (PG_ARGISNULL(4) && duration < 0)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("neither \"duration\" nor \"until\" is given"),
				 errhint("Give one of them.")));
	if (!PG_ARGISNULL(4) && duration >= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("both \"duration\" and \"until\" are given"),
				 errhint("Give one of them.")));
	PG_RETURN_BOOL(pgqrs_wait_step_sleep(run_id, lease, step_id, duration, until));
}

PG_FUNCTION_INFO_V1(sql_signal);
Datum
sql_signal(PG_FUNCTION_ARGS)
{
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");
	PgqrsNewSignal s;

	s.name = pgqrs_arg_key(fcinfo, 1, "signal");
	s.payload = pgqrs_arg_json(fcinfo, 2, "payload");
	s.idempotency_key = pgqrs_arg_key_or_null(fcinfo, 3, "idempotency_key");
	s.headers = pgqrs_arg_json(fcinfo, 4, "headers");
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
	PgqrsSignalContent content;
	NullableDatum row[AwaitSignal_natts];

	result = pgqrs_signal_await(run_id, lease, step_id, signal, timeout, &content);
	row[AwaitSignal_received] = pgqrs_value(BoolGetDatum(result == SIGNAL_RECEIVED));
	row[AwaitSignal_timed_out] = pgqrs_value(
		BoolGetDatum(result == SIGNAL_TIMED_OUT));
	row[AwaitSignal_payload] = content.payload;
	row[AwaitSignal_headers] = content.headers;
	PG_RETURN_DATUM(pgqrs_result_row(fcinfo, row));
}

/*
 * Children
 */

static PgqrsParentEnd
arg_on_parent_end(FunctionCallInfo fcinfo, int n)
{
	return pgqrs_arg_enum_or(fcinfo, n, "on_parent_end", ENUM_PARENT_END,
							 PARENT_END_COUNT, PARENT_END_CANCEL);
}

PG_FUNCTION_INFO_V1(sql_start_child);
Datum
sql_start_child(PG_FUNCTION_ARGS)
{
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");
	int64 lease = pgqrs_arg_int64(fcinfo, 1, "lease");
	char *step_id = pgqrs_arg_key(fcinfo, 2, "step_id");
	char *workflow = pgqrs_arg_name(fcinfo, 3, "workflow");
	PgqrsNewRun r;
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
	PgqrsNewChildren c = {.run = PGQRS_NEW_RUN};
	int64 *ids;

	c.inputs = pgqrs_arg_json_array(fcinfo, 4, "inputs", &c.count);
	c.keys = pgqrs_arg_idempotency_keys(fcinfo, 5, c.count, "inputs");
	c.own_priority = !PG_ARGISNULL(6);
	c.run.priority = pgqrs_arg_priority_or(fcinfo, 6, 0);
	c.run.timeout = pgqrs_arg_timeout(fcinfo, 7);
	c.run.tags = pgqrs_arg_json(fcinfo, 8, "tags");
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
	bool done = pgqrs_child_await(run_id, lease, step_id, &end);
	NullableDatum row[AwaitChild_natts];

	row[AwaitChild_done] = pgqrs_value(BoolGetDatum(done));
	row[AwaitChild_status] = pgqrs_text_value(done ? end.status : NULL);
	row[AwaitChild_output] = done ? end.output : PGQRS_NULL;
	row[AwaitChild_error] = done ? end.error : PGQRS_NULL;
	PG_RETURN_DATUM(pgqrs_result_row(fcinfo, row));
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
	NullableDatum results = PGQRS_NULL;
	bool done = pgqrs_child_await_many(run_id, lease, step_id, all, &results);
	NullableDatum row[AwaitChildren_natts];

	row[AwaitChildren_done] = pgqrs_value(BoolGetDatum(done));
	row[AwaitChildren_results] = results;
	PG_RETURN_DATUM(pgqrs_result_row(fcinfo, row));
}

PG_FUNCTION_INFO_V1(sql_await_any);
Datum
sql_await_any(PG_FUNCTION_ARGS)
{
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");
	int64 lease = pgqrs_arg_int64(fcinfo, 1, "lease");
	char *step_id = pgqrs_arg_key(fcinfo, 2, "step_id");
	PgqrsAnyWait wait = {0};
	int64 timeout = pgqrs_arg_duration_or(fcinfo, 5, "timeout", -1);
	PgqrsAnyResult result = {NULL, NULL, PGQRS_NULL};
	NullableDatum row[AwaitAny_natts];

	wait.signals = pgqrs_arg_keys_or(fcinfo, 3, "signals", &wait.signal_count);
	wait.children = pgqrs_arg_keys_or(fcinfo, 4, "children", &wait.child_count);
	if (wait.signal_count == 0 && wait.child_count == 0 && timeout < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("there is nothing to wait for"),
				 errhint("Name a signal, a child or a time-out.")));
	row[AwaitAny_ready] = pgqrs_value(BoolGetDatum(
		pgqrs_await_any(run_id, lease, step_id, &wait, timeout, &result)));
	row[AwaitAny_source] = pgqrs_text_value(result.source);
	row[AwaitAny_name] = pgqrs_text_value(result.name);
	row[AwaitAny_payload] = result.payload;
	PG_RETURN_DATUM(pgqrs_result_row(fcinfo, row));
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
