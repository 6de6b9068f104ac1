/*
 * park.c
 *	  SQL functions of steps that wait: pause, sleep, signals.
 */
#include "api/args.h"

#include "base/errors.h"
#include "base/json.h"
#include "workflow/signal.h"
#include "workflow/wait_step.h"

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
