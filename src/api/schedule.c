/*
 * schedule.c
 *	  SQL functions about schedules.
 */
#include "api/args.h"

#include "base/clock.h"
#include "base/errors.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"
#include "workflow/cron_expr.h"
#include "workflow/schedule.h"

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

/* Which of the labels of pgqrs_overlap. */
static PgqrsOverlap
arg_overlap(FunctionCallInfo fcinfo, int n)
{
	const char *labels[OVERLAP_COUNT];

	for (int i = 0; i < OVERLAP_COUNT; i++)
		labels[i] = pgqrs_enum_label(ENUM_OVERLAP, i);
	return pgqrs_arg_label_or(fcinfo, n, "overlap", OVERLAP_COUNT, labels,
							  OVERLAP_ALLOW);
}

PG_FUNCTION_INFO_V1(sql_schedule);
Datum
sql_schedule(PG_FUNCTION_ARGS)
{
	PgqrsNewSchedule s = {0};

	s.name = pgqrs_arg_name(fcinfo, 0, "name");
	s.cron = pgqrs_arg_text(fcinfo, 1, "cron");
	s.workflow = pgqrs_arg_name(fcinfo, 2, "workflow");
	s.has_input = pgqrs_arg_json(fcinfo, 3, "input", &s.input);
	s.timezone = arg_timezone(fcinfo, 4);
	s.max_catchup = pgqrs_arg_int_or(fcinfo, 5, "max_catchup", 0,
									 PGQRS_MAX_BATCH, 100);
	s.overlap = arg_overlap(fcinfo, 6);
	s.priority = pgqrs_arg_priority_or(fcinfo, 7, 0);
	s.timeout = pgqrs_arg_timeout(fcinfo, 8);
	s.has_tags = pgqrs_arg_json(fcinfo, 9, "tags", &s.tags);
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
