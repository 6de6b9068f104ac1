/*
 * step.c
 *	  SQL functions that begin and end steps.
 */
#include "api/args.h"

#include "base/errors.h"
#include "base/json.h"
#include "utils/builtins.h"
#include "workflow/cancel.h"
#include "workflow/step.h"

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
