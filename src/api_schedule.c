/*
 * api_schedule.c
 *	  SQL functions about schedules.
 */
#include "api.h"

#include "clock.h"
#include "cron.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(pgqrs_next_firings);
Datum
pgqrs_next_firings(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	PgqrsCron cron;
	pg_tz *zone;
	TimestampTz slot;
	int n;

	pgqrs_cron_parse(pgqrs_arg_text(fcinfo, 0, "cron"), &cron);
	zone = pgqrs_cron_zone(pgqrs_arg_text(fcinfo, 1, "timezone"));
	n = pgqrs_arg_int(fcinfo, 2, "n", 1, PGQRS_MAX_BATCH);
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
