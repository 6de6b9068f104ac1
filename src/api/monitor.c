/*
 * monitor.c
 *	  What views, reports and health show.
 *
 * Statistics of a queue that the role cannot read are NULL.
 */
#include "api/args.h"

#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "background/duties.h"
#include "base/catalog.h"
#include "base/clock.h"
#include "base/compat.h"
#include "base/guc.h"
#include "base/json.h"
#include "catalog/pg_authid.h"
#include "commands/dbcommands.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "monitor/stats.h"
#include "queue/privileges.h"
#include "queue/queue.h"
#include "queue/roles.h"
#include "queue/worker_registry.h"
#include "shmem/claim_floor.h"
#include "shmem/database_registry.h"
#include "utils/acl.h"
#include "utils/backend_status.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

#define MAX_COLUMNS 12

/* A row of the function's result, filled column by column. */
typedef struct StatsRow
{
	int count;
	Datum values[MAX_COLUMNS];
	bool nulls[MAX_COLUMNS];
} StatsRow;

static void
put_stat(StatsRow *r, Datum value, bool known)
{
	Assert(r->count < MAX_COLUMNS);
	r->values[r->count] = value;
	r->nulls[r->count++] = !known;
}

static void
put_duration(StatsRow *r, int64 duration, bool known)
{
	put_stat(r, IntervalPGetDatum(pgqrs_interval(duration)), known);
}

/* The queue of the first argument, if the role has any privilege on it. */
static bool
arg_queue(FunctionCallInfo fcinfo, PgqrsQueue *queue)
{
	int64 queue_id = pgqrs_arg_int64(fcinfo, 0, "queue_id");

	return pgqrs_queue_by_id(queue_id, queue) && pgqrs_grants_on(queue->name) != 0;
}

PG_FUNCTION_INFO_V1(sql_count_messages);
Datum
sql_count_messages(PG_FUNCTION_ARGS)
{
	PgqrsQueue queue;
	PgqrsQueueStats stats;
	StatsRow r = {0};

	if (!arg_queue(fcinfo, &queue))
		PG_RETURN_NULL();
	pgqrs_stats_queue(queue.queue_id, &stats);
	put_stat(&r, Int64GetDatum(stats.ready), true);
	put_stat(&r, Int64GetDatum(stats.delayed), true);
	put_stat(&r, Int64GetDatum(stats.in_flight), true);
	put_stat(&r, Int64GetDatum(stats.dead), true);
	put_stat(&r, TimestampTzGetDatum(stats.oldest_ready),
			 !TIMESTAMP_IS_NOEND(stats.oldest_ready));
	put_stat(&r, Float8GetDatum(stats.out_per_minute), true);
	return pgqrs_result_row(fcinfo, r.values, r.nulls);
}

PG_FUNCTION_INFO_V1(sql_count_runs);
Datum
sql_count_runs(PG_FUNCTION_ARGS)
{
	PgqrsQueue queue;
	PgqrsWorkflowStats stats;
	StatsRow r = {0};

	if (!arg_queue(fcinfo, &queue) || !queue.is_workflow)
		PG_RETURN_NULL();
	pgqrs_stats_workflow(queue.queue_id, &stats);
	put_stat(&r, Int64GetDatum(stats.queued), true);
	put_stat(&r, Int64GetDatum(stats.running), true);
	put_stat(&r, Int64GetDatum(stats.paused), true);
	put_stat(&r, Int64GetDatum(stats.success), true);
	put_stat(&r, Int64GetDatum(stats.error), true);
	put_stat(&r, Int64GetDatum(stats.cancelled), true);
	put_duration(&r, stats.avg_duration, stats.has_durations);
	put_duration(&r, stats.p50_duration, stats.has_durations);
	put_duration(&r, stats.p95_duration, stats.has_durations);
	put_stat(&r, Int64GetDatum(stats.retries), true);
	put_stat(&r, TimestampTzGetDatum(stats.since), !TIMESTAMP_IS_NOEND(stats.since));
	put_stat(&r,
			 Int32GetDatum(pgqrs_worker_count_serving(queue.name, PG_INT32_MAX)),
			 true);
	return pgqrs_result_row(fcinfo, r.values, r.nulls);
}

PG_FUNCTION_INFO_V1(sql_elapsed);
Datum
sql_elapsed(PG_FUNCTION_ARGS)
{
	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) ||
		TIMESTAMP_NOT_FINITE(PG_GETARG_TIMESTAMPTZ(0)) ||
		TIMESTAMP_NOT_FINITE(PG_GETARG_TIMESTAMPTZ(1)))
		PG_RETURN_NULL();
	PG_RETURN_DATUM(DirectFunctionCall2(timestamp_mi, PG_GETARG_DATUM(1),
										PG_GETARG_DATUM(0)));
}

#define MANY_QUEUES 1000

PG_FUNCTION_INFO_V1(sql_readable_queues);
Datum
sql_readable_queues(PG_FUNCTION_ARGS)
{
	PgqrsNumbers ids = pgqrs_grants_readable_queues();

	/* statistics ask for one after the other */
	if (ids.count >= MANY_QUEUES)
		pgqrs_queue_remember_all();
	PG_RETURN_DATUM(pgqrs_int64_array(ids.values, ids.count));
}

PG_FUNCTION_INFO_V1(sql_role_of);
Datum
sql_role_of(PG_FUNCTION_ARGS)
{
	Oid role;

	if (PG_ARGISNULL(1))
		PG_RETURN_NULL();
	role = pgqrs_role_find(PG_ARGISNULL(0),
						   PG_ARGISNULL(0) ? 0 : PG_GETARG_INT64(0),
						   NameStr(*PG_GETARG_NAME(1)));
	if (!OidIsValid(role))
		PG_RETURN_NULL();
	PG_RETURN_OID(role);
}

/*
 * Health
 */

PG_FUNCTION_INFO_V1(sql_floor_stats);
Datum
sql_floor_stats(PG_FUNCTION_ARGS)
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

/*
 * The duties that failed, each with its error and when it is tried again; or
 * NULL.  An error's message may name what not everybody may read.
 */
static char *
describe_failures(const PgqrsDatabaseStatus *status, bool with_message)
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
						 with_message ? failure->message : "an error",
						 unpack_sql_state(failure->sqlerrcode), failure->failures,
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

/*
 * Sessions: a role is told only of those of roles that it is a member of
 */

static bool
may_see_role(Oid role)
{
	return may_see_sessions() ||
		(OidIsValid(role) && has_privs_of_role(GetUserId(), role));
}

static const char *
describe_state(BackendState state)
{
	switch (state)
	{
		case STATE_IDLE:
			return "idle";
		case STATE_RUNNING:
			return "active";
		case STATE_IDLEINTRANSACTION:
			return "idle in transaction";
		case STATE_IDLEINTRANSACTION_ABORTED:
			return "idle in transaction (aborted)";
		case STATE_FASTPATH:
			return "fastpath function call";
		default:
			return NULL;
	}
}

static void
put_string(Datum *values, bool *nulls, int i, const char *s)
{
	put(values, nulls, i, s != NULL && s[0] != '\0',
		s == NULL ? (Datum) 0 : CStringGetTextDatum(s));
}

static void
put_session(Datum *values, bool *nulls, const PgBackendStatus *session)
{
	put(values, nulls, 0, true, Int32GetDatum(session->st_procpid));
	put_string(values, nulls, 1, GetBackendTypeDesc(session->st_backendType));
	if (OidIsValid(session->st_userid))
		put_string(values, nulls, 2, GetUserNameFromId(session->st_userid, true));
	put_string(values, nulls, 3, session->st_appname);
	put_string(values, nulls, 4, describe_state(session->st_state));
	put_string(values, nulls, 5, pgstat_clip_activity(session->st_activity_raw));
}

/* How many transactions ago the older of the two began; -1: there is none. */
static int32
age_of(TransactionId xid, TransactionId xmin)
{
	TransactionId now = GetStableLatestTransactionId();
	int32 age = -1;

	if (TransactionIdIsNormal(xid))
		age = Max(age, (int32) (now - xid));
	if (TransactionIdIsNormal(xmin))
		age = Max(age, (int32) (now - xmin));
	return age;
}

/* Autovacuum's workers do not count each other; this session is gone in a moment. */
static bool
holds_back_vacuum(const PgBackendStatus *session)
{
	return session->st_procpid != MyProcPid &&
		session->st_backendType != B_AUTOVAC_WORKER &&
		(session->st_databaseid == MyDatabaseId ||
		 !OidIsValid(session->st_databaseid));
}

PG_FUNCTION_INFO_V1(sql_old_sessions);
Datum
sql_old_sessions(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	int count = pgstat_fetch_stat_numbackends();

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	for (int i = 1; i <= count; i++)
	{
		const LocalPgBackendStatus *local = pgqrs_backend_status(i);
		const PgBackendStatus *session = &local->backendStatus;
		int32 age = age_of(local->backend_xid, local->backend_xmin);
		Datum values[8];
		bool nulls[8];

		if (age < 0 || !holds_back_vacuum(session))
			continue;
		memset(nulls, true, sizeof(nulls));
		if (may_see_role(session->st_userid))
			put_session(values, nulls, session);
		put(values, nulls, 6, true, Int32GetDatum(age));
		put(values, nulls, 7, session->st_xact_start_timestamp != 0,
			TimestampTzGetDatum(session->st_xact_start_timestamp));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

PG_FUNCTION_INFO_V1(sql_background_stats);
Datum
sql_background_stats(PG_FUNCTION_ARGS)
{
	PgqrsDatabaseStatus status;
	bool preloaded = pgqrs_database_status(&status);
	const char *reason = preloaded ? idle_reason(&status) : "not preloaded";
	char *failures = describe_failures(&status,
									   may_see_role(pgqrs_catalog_owner()));
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

/*
 * Reports
 */

/* What pgqrs_html() shows of a value at most, in bytes; it cuts to characters. */
#define MAX_SHOWN (4000 * MAX_MULTIBYTE_CHAR_LEN)

PG_FUNCTION_INFO_V1(sql_html_json);
Datum
sql_html_json(PG_FUNCTION_ARGS)
{
	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(
		cstring_to_text(pgqrs_json_excerpt(PG_GETARG_DATUM(0), MAX_SHOWN)));
}
