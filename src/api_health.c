/*
 * api_health.c
 *	  What the view pgqrs_health shows of shared memory.
 */
#include "api.h"

#include "access/xlog.h"
#include "catalog.h"
#include "catalog/pg_authid.h"
#include "clock.h"
#include "commands/dbcommands.h"
#include "databases.h"
#include "floor.h"
#include "guc.h"
#include "lib/stringinfo.h"
#include "maintain.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(pgqrs_floor_stats);
Datum
pgqrs_floor_stats(PG_FUNCTION_ARGS)
{
	PgqrsFloorStats stats;
	bool preloaded = pgqrs_floor_get_stats(&stats);
	Datum values[8] = {
		BoolGetDatum(preloaded),
		Int32GetDatum(stats.floors),
		Int32GetDatum(stats.max_floors),
		Int64GetDatum(stats.raised),
		Int64GetDatum(stats.lowered),
		Int64GetDatum(stats.looked),
		Int64GetDatum(stats.claimed),
		TimestampTzGetDatum(stats.displaced_at),
	};
	bool nulls[8] = {false};

	nulls[7] = stats.displaced_at == 0;

	if (!preloaded)
		memset(&nulls[1], true, sizeof(nulls) - sizeof(nulls[0]));
	PG_RETURN_DATUM(pgqrs_result_row(fcinfo, values, nulls));
}

/* A summary of what was done, such as "runs_timed_out 2". */
static char *
describe_done(const int64 *done)
{
	StringInfoData text;

	initStringInfo(&text);
	for (int i = 0; i < DONE_COUNT; i++)
		if (done[i] != 0)
			appendStringInfo(&text, "%s%s " INT64_FORMAT, text.len > 0 ? ", " : "",
							 pgqrs_maintain_label(i), done[i]);
	return text.len > 0 ? text.data : "nothing";
}

/* The duties that failed, each with its error and when it is tried again; or NULL. */
static char *
describe_failures(const PgqrsDatabaseStatus *status)
{
	StringInfoData text;

	initStringInfo(&text);
	for (int id = 0; id < DUTY_COUNT; id++)
	{
		const PgqrsDutyFailure *failure = &status->duties[id];
		const PgqrsDutyEntry *entry = pgqrs_duty_find(id);
		int64 left = failure->retry_at - pgqrs_monotonic();

		if (failure->failures == 0)
			continue;
		appendStringInfo(&text, "%s%s: %s (%s), %d %s in a row, ",
						 text.len > 0 ? "; " : "",
						 entry == NULL ? "notifications" : entry->name,
						 failure->message, unpack_sql_state(failure->sqlerrcode),
						 failure->failures,
						 failure->failures == 1 ? "failure" : "failures");
		if (left > 0)
			appendStringInfo(&text, "next try in " INT64_FORMAT " s",
							 left / USECS_PER_SEC + 1);
		else
			appendStringInfoString(&text, "tried again when it is due");
	}
	return text.len > 0 ? text.data : NULL;
}

/* Why nothing is done in the background here, or NULL. */
static const char *
idle_reason(const PgqrsDatabaseStatus *status)
{
	if (RecoveryInProgress())
		return "standby";
	if (pgqrs_catalog_subscribed())
		return "subscriber";
	if (!pgqrs_guc_serves(get_database_name(MyDatabaseId)))
		return "not in pgqrs.databases";
	if (!status->has_entry)
		return "too many databases";
	if (pgqrs_paused)
		return "paused";
	if (status->state == DATABASE_OUTDATED)
		return "version";
	if (!status->has_launcher)
		return "no launcher";
	return NULL;
}

static void
put(Datum *values, bool *nulls, int i, bool known, Datum value)
{
	values[i] = value;
	nulls[i] = !known;
}

/* As pg_stat_activity has it: only these roles are told of other roles' sessions. */
static bool
may_see_sessions(void)
{
	return has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
}

PG_FUNCTION_INFO_V1(pgqrs_background_stats);
Datum
pgqrs_background_stats(PG_FUNCTION_ARGS)
{
	PgqrsDatabaseStatus status;
	bool preloaded = pgqrs_database_status(&status);
	const char *reason = preloaded ? idle_reason(&status) : "not preloaded";
	char *failures = describe_failures(&status);
	PgqrsClockStep step;
	bool went_back = pgqrs_clock_last_step_back(&step);
	TimestampTz now = pgqrs_clock_peek();
	TimestampTz until;
	int64 unconfirmed = pgqrs_clock_unconfirmed(now, &until);
	Datum values[14];
	bool nulls[14];

	put(values, nulls, 0, reason != NULL,
		reason == NULL ? (Datum) 0 : CStringGetTextDatum(reason));
	put(values, nulls, 1, status.worker_pid != 0,
		Int32GetDatum(may_see_sessions() ? status.worker_pid : 0));
	put(values, nulls, 2, preloaded, Int32GetDatum(status.failures));
	put(values, nulls, 3, status.retry_at != 0,
		TimestampTzGetDatum(status.retry_at));
	put(values, nulls, 4, preloaded && status.due != DT_NOEND,
		TimestampTzGetDatum(status.due));
	put(values, nulls, 5, status.last_pass != 0,
		TimestampTzGetDatum(status.last_pass));
	put(values, nulls, 6, preloaded, Int64GetDatum(status.passes));
	put(values, nulls, 7, preloaded,
		CStringGetTextDatum(describe_done(status.done)));
	put(values, nulls, 8, failures != NULL,
		failures == NULL ? (Datum) 0 : CStringGetTextDatum(failures));
	put(values, nulls, 9, preloaded && went_back,
		went_back ? IntervalPGetDatum(pgqrs_interval(step.from - step.to)) :
					(Datum) 0);
	put(values, nulls, 10, preloaded && went_back, TimestampTzGetDatum(step.to));
	put(values, nulls, 11, preloaded, BoolGetDatum(status.realigning));
	put(values, nulls, 12, preloaded,
		IntervalPGetDatum(pgqrs_interval(unconfirmed)));
	put(values, nulls, 13, preloaded && unconfirmed > 0, TimestampTzGetDatum(until));
	PG_RETURN_DATUM(pgqrs_result_row(fcinfo, values, nulls));
}
