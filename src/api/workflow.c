/*
 * workflow.c
 *	  SQL functions that administer workflows and schedules.
 */
#include "api/args.h"

#include "base/clock.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"
#include "workflow/cron_expr.h"
#include "workflow/drop.h"
#include "workflow/schedule.h"
#include "workflow/workflow_ddl.h"

PG_FUNCTION_INFO_V1(sql_create_workflow);
Datum
sql_create_workflow(PG_FUNCTION_ARGS)
{
	PgqrsOptions options;
	char *workflow = pgqrs_arg_name(fcinfo, 0, "workflow");

	pgqrs_workflow_defaults(&options);
	pgqrs_arg_options_of_create(fcinfo, &options);
	PG_RETURN_INT64(pgqrs_workflow_create(workflow, &options));
}

PG_FUNCTION_INFO_V1(sql_alter_workflow);
Datum
sql_alter_workflow(PG_FUNCTION_ARGS)
{
	PgqrsOptions options;
	char *workflow = pgqrs_arg_name(fcinfo, 0, "workflow");

	pgqrs_workflow_defaults(&options);
	pgqrs_arg_options_of_alter(fcinfo, &options);
	pgqrs_workflow_alter(workflow, &options);
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(sql_delete_workflow);
Datum
sql_delete_workflow(PG_FUNCTION_ARGS)
{
	char *workflow = pgqrs_arg_name(fcinfo, 0, "workflow");
	bool force = pgqrs_arg_bool_or(fcinfo, 1, false);

	PG_RETURN_BOOL(pgqrs_workflow_delete(workflow, force));
}

/*
 * Schedules
 */

static char *
arg_timezone(FunctionCallInfo fcinfo, int n)
{
	char *zone = pgqrs_arg_text_or_null(fcinfo, n, "timezone");

	return zone != NULL ? zone : "UTC";
}

PG_FUNCTION_INFO_V1(sql_next_firings);
Datum
sql_next_firings(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	PgqrsCron cron;
	pg_tz *zone;
	TimestampTz slot;
	int n;

	pgqrs_cron_parse(pgqrs_arg_text(fcinfo, 0, "cron"), &cron);
	zone = pgqrs_cron_zone(arg_timezone(fcinfo, 1));
	n = pgqrs_arg_int_or(fcinfo, 2, "n", 0, PGQRS_MAX_BATCH, 5);
	slot = PG_ARGISNULL(3) ? pgqrs_clock() : pgqrs_arg_instant(fcinfo, 3, "after");

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	for (int i = 0; i < n && pgqrs_cron_next(&cron, zone, slot, &slot); i++)
	{
		Datum value = TimestampTzGetDatum(slot);
		bool isnull = false;

		CHECK_FOR_INTERRUPTS();
		tuplestore_putvalues(result->setResult, result->setDesc, &value, &isnull);
	}
	return (Datum) 0;
}

PG_FUNCTION_INFO_V1(sql_schedule);
Datum
sql_schedule(PG_FUNCTION_ARGS)
{
	PgqrsNewSchedule s = {0};

	s.name = pgqrs_arg_name(fcinfo, 0, "name");
	s.cron = pgqrs_arg_text(fcinfo, 1, "cron");
	s.workflow = pgqrs_arg_name(fcinfo, 2, "workflow");
	s.input = pgqrs_arg_json(fcinfo, 3, "input");
	s.timezone = arg_timezone(fcinfo, 4);
	s.max_catchup = pgqrs_arg_int_or(fcinfo, 5, "max_catchup", 0,
									 PGQRS_MAX_BATCH, 100);
	s.overlap = pgqrs_arg_enum_or(fcinfo, 6, "overlap", ENUM_OVERLAP,
								  OVERLAP_COUNT, OVERLAP_ALLOW);
	s.priority = pgqrs_arg_priority_or(fcinfo, 7, 0);
	s.timeout = pgqrs_arg_timeout(fcinfo, 8);
	s.tags = pgqrs_arg_json(fcinfo, 9, "tags");
	s.keep_enabled = PG_ARGISNULL(10);
	s.enabled = !s.keep_enabled && PG_GETARG_BOOL(10);
	PG_RETURN_INT64(pgqrs_schedule_set(&s));
}

PG_FUNCTION_INFO_V1(sql_unschedule);
Datum
sql_unschedule(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(pgqrs_schedule_drop(pgqrs_arg_name(fcinfo, 0, "name")));
}

PG_FUNCTION_INFO_V1(sql_schedule_may_fire);
Datum
sql_schedule_may_fire(PG_FUNCTION_ARGS)
{
	bool may_fire;

	if (!pgqrs_schedule_may_fire(pgqrs_arg_int64(fcinfo, 0, "schedule_id"), &may_fire))
		PG_RETURN_NULL();
	PG_RETURN_BOOL(may_fire);
}

PG_FUNCTION_INFO_V1(sql_enable_schedule);
Datum
sql_enable_schedule(PG_FUNCTION_ARGS)
{
	char *name = pgqrs_arg_name(fcinfo, 0, "name");

	pgqrs_schedule_enable(name, pgqrs_arg_bool(fcinfo, 1, "enabled"));
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(sql_trigger_schedule);
Datum
sql_trigger_schedule(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(pgqrs_schedule_trigger(pgqrs_arg_name(fcinfo, 0, "name")));
}
