/*
 * monitor.c
 *	  SQL functions behind views, reports and health checks.
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
#include "base/int64_list.h"
#include "base/json.h"
#include "commands/dbcommands.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "monitor/backends.h"
#include "monitor/stats.h"
#include "monitor/why.h"
#include "queue/counter_rows.h"
#include "queue/message.h"
#include "queue/privileges.h"
#include "queue/queue.h"
#include "queue/roles.h"
#include "queue/serving.h"
#include "queue/worker_registry.h"
#include "shmem/claim_floor.h"
#include "shmem/database_registry.h"
#include "utils/acl.h"
#include "utils/backend_status.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

static NullableDatum
instant_value(TimestampTz at, bool known)
{
	return pgqrs_value_if(known, TimestampTzGetDatum(at));
}

static NullableDatum
duration_value(int64 duration, bool known)
{
	return pgqrs_value_if(known, IntervalPGetDatum(pgqrs_interval(duration)));
}

/*
 * Zeroed memory that a function in FROM keeps for the calls of a statement.  An
 * expression of PL/pgSQL would keep it longer, and gets it for this call.
 */
static void *
statement_memory(FunctionCallInfo fcinfo, Size size)
{
	if (fcinfo->resultinfo == NULL)
		return palloc0(size);
	if (fcinfo->flinfo->fn_extra == NULL)
		fcinfo->flinfo->fn_extra = MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt,
														  size);
	return fcinfo->flinfo->fn_extra;
}

PG_FUNCTION_INFO_V1(sql_count_messages);
Datum
sql_count_messages(PG_FUNCTION_ARGS)
{
	PgqrsQueue queue;
	const PgqrsQueueStats *stats;
	NullableDatum row[CountMessages_natts];

	if (!pgqrs_queue_allows(pgqrs_arg_int64(fcinfo, 0, "queue_id"),
							PRIVILEGE_MONITOR, &queue))
		PG_RETURN_NULL();
	stats = pgqrs_stats_queue(statement_memory(fcinfo, sizeof(PgqrsQueueStatsAhead)),
							  queue.queue_id);
	row[CountMessages_ready] = pgqrs_value(Int64GetDatum(stats->ready));
	row[CountMessages_delayed] = pgqrs_value(Int64GetDatum(stats->delayed));
	row[CountMessages_in_flight] = pgqrs_value(Int64GetDatum(stats->in_flight));
	row[CountMessages_dead] = pgqrs_value(Int64GetDatum(stats->dead));
	row[CountMessages_oldest_ready] = instant_value(stats->oldest_ready,
													!TIMESTAMP_IS_NOEND(
														stats->oldest_ready));
	return pgqrs_result_row(fcinfo, row);
}

/* Sums up the buckets of a histogram, each with those before it. */
static void
accumulate(const int64 *buckets, int64 *sums)
{
	int64 sum = 0;

	for (int i = 0; i < PGQRS_BUCKETS; i++)
		sums[i] = sum += buckets[i];
}

/* The counters, and the sums of the buckets of wait and work. */
PG_FUNCTION_INFO_V1(sql_counters_of);
Datum
sql_counters_of(PG_FUNCTION_ARGS)
{
	PgqrsQueue queue;
	const PgqrsCounts *counts;
	int64 values[COUNTER_COUNT + 2 * PGQRS_BUCKETS];

	if (!pgqrs_queue_allows(pgqrs_arg_int64(fcinfo, 0, "queue_id"),
							PRIVILEGE_MONITOR, &queue))
		PG_RETURN_NULL();
	counts = pgqrs_counters_of(statement_memory(fcinfo, sizeof(PgqrsCountersAhead)),
							   queue.queue_id);
	if (counts == NULL)
		PG_RETURN_NULL();
	memcpy(values, counts->n, sizeof(counts->n));
	accumulate(&counts->n[COUNT_WAIT_BUCKET], &values[COUNTER_COUNT]);
	accumulate(&counts->n[COUNT_WORK_BUCKET],
			   &values[COUNTER_COUNT + PGQRS_BUCKETS]);
	PG_RETURN_DATUM(pgqrs_int64_array(values, lengthof(values)));
}

/* For so long a statement counts what it has collected, in microseconds. */
#define SERVING_AGE 100000

typedef struct ServingCache
{
	MemoryContext context;
	PgqrsServing *serving; /* NULL: none */
	TimestampTz at;
} ServingCache;

/*
 * Collected once for the queues of a statement.  An expression of PL/pgSQL is one
 * statement to its end of transaction, hence the age.
 */
static PgqrsServing *
collect_serving(FunctionCallInfo fcinfo)
{
	ServingCache *cache = fcinfo->flinfo->fn_extra;
	TimestampTz now = pgqrs_clock_peek();
	MemoryContext old;

	if (cache == NULL)
	{
		cache = MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt,
									   sizeof(ServingCache));
		cache->context = AllocSetContextCreate(fcinfo->flinfo->fn_mcxt,
											   "pgqrs serving",
											   ALLOCSET_DEFAULT_SIZES);
		fcinfo->flinfo->fn_extra = cache;
	}
	if (cache->serving != NULL && now >= cache->at && now - cache->at < SERVING_AGE)
		return cache->serving;
	cache->serving = NULL;
	MemoryContextReset(cache->context);
	old = MemoryContextSwitchTo(cache->context);
	cache->at = now;
	cache->serving = pgqrs_serving_collect();
	MemoryContextSwitchTo(old);
	return cache->serving;
}

static int
count_live_workers(FunctionCallInfo fcinfo, const PgqrsQueue *queue)
{
	return pgqrs_serving_count(collect_serving(fcinfo), queue->name);
}

PG_FUNCTION_INFO_V1(sql_count_runs);
Datum
sql_count_runs(PG_FUNCTION_ARGS)
{
	PgqrsQueue queue;
	PgqrsWorkflowStats stats;
	NullableDatum row[CountRuns_natts];
	bool known;

	if (!pgqrs_queue_allows(pgqrs_arg_int64(fcinfo, 0, "queue_id"),
							PRIVILEGE_MONITOR, &queue) ||
		!queue.is_workflow)
		PG_RETURN_NULL();
	pgqrs_stats_workflow(queue.queue_id, &stats);
	known = stats.has_durations;
	row[CountRuns_queued] = pgqrs_value(Int64GetDatum(stats.queued));
	row[CountRuns_running] = pgqrs_value(Int64GetDatum(stats.running));
	row[CountRuns_paused] = pgqrs_value(Int64GetDatum(stats.paused));
	row[CountRuns_success] = pgqrs_value(Int64GetDatum(stats.success));
	row[CountRuns_error] = pgqrs_value(Int64GetDatum(stats.error));
	row[CountRuns_cancelled] = pgqrs_value(Int64GetDatum(stats.cancelled));
	row[CountRuns_avg_duration] = duration_value(stats.avg_duration, known);
	row[CountRuns_p50_duration] = duration_value(stats.p50_duration, known);
	row[CountRuns_p95_duration] = duration_value(stats.p95_duration, known);
	row[CountRuns_retries] = pgqrs_value(Int64GetDatum(stats.retries));
	row[CountRuns_since] = instant_value(stats.since,
										 !TIMESTAMP_IS_NOEND(stats.since));
	row[CountRuns_live_workers] = pgqrs_value(
		Int32GetDatum(count_live_workers(fcinfo, &queue)));
	return pgqrs_result_row(fcinfo, row);
}

PG_FUNCTION_INFO_V1(sql_live_workers);
Datum
sql_live_workers(PG_FUNCTION_ARGS)
{
	PgqrsQueue queue;

	if (!pgqrs_queue_allows(pgqrs_arg_int64(fcinfo, 0, "queue_id"),
							PRIVILEGE_MONITOR, &queue))
		PG_RETURN_NULL();
	PG_RETURN_INT32(count_live_workers(fcinfo, &queue));
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

PG_FUNCTION_INFO_V1(sql_readable_queues);
Datum
sql_readable_queues(PG_FUNCTION_ARGS)
{
	PgqrsInt64List ids = pgqrs_readable_queue_ids();

	/* callers ask for the statistics of one queue after another */
	pgqrs_queue_expect(ids.count);
	PG_RETURN_DATUM(pgqrs_int64_array(ids.values, ids.count));
}

PG_FUNCTION_INFO_V1(sql_readable_workers);
Datum
sql_readable_workers(PG_FUNCTION_ARGS)
{
	PgqrsInt64List ids = pgqrs_serving_readable();

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
	NullableDatum row[FloorStats_natts] = {
		[FloorStats_preloaded] = pgqrs_value(BoolGetDatum(preloaded)),
		[FloorStats_floors] = pgqrs_value_if(preloaded, Int32GetDatum(stats.floors)),
		[FloorStats_max_floors] = pgqrs_value_if(preloaded,
												 Int32GetDatum(stats.max_floors)),
		[FloorStats_raised] = pgqrs_value_if(preloaded,
											 Int64GetDatum(stats.counts.raised)),
		[FloorStats_lowered] = pgqrs_value_if(preloaded,
											  Int64GetDatum(stats.counts.lowered)),
		[FloorStats_looked] = pgqrs_value_if(preloaded,
											 Int64GetDatum(stats.counts.looked)),
		[FloorStats_claimed] = pgqrs_value_if(preloaded,
											  Int64GetDatum(stats.counts.claimed)),
		[FloorStats_displaced_at] = instant_value(stats.displaced_at,
												  preloaded &&
													  stats.displaced_at != 0),
	};

	PG_RETURN_DATUM(pgqrs_result_row(fcinfo, row));
}

/* A summary of counts, such as "runs_timed_out 2". */
static char *
describe_done(const int64 *done)
{
	StringInfoData text;

	initStringInfo(&text);
	for (int i = 0; i < DONE_COUNT; i++)
		if (done[i] != 0)
			appendStringInfo(&text, "%s%s " INT64_FORMAT, text.len > 0 ? ", " : "",
							 pgqrs_duty_done_label(i), done[i]);
	return text.len > 0 ? text.data : "nothing";
}

/*
 * The failed duties, each with its error and the time of its retry; or NULL.
 * The message of an error may contain names that not every role may see.
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

/* The reason why no background work runs in this database, or NULL. */
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

/*
 * Sessions
 */

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

/* NULL for an empty text. */
static NullableDatum
label_value(const char *text)
{
	return pgqrs_text_value(text != NULL && text[0] != '\0' ? text : NULL);
}

static NullableDatum
role_value(const PgBackendStatus *session)
{
	return label_value(OidIsValid(session->st_userid) ?
						   GetUserNameFromId(session->st_userid, true) :
						   NULL);
}

/* The columns that identify a session. */
static void
put_session(NullableDatum *row, const PgBackendStatus *session)
{
	row[OldSessions_pid] = pgqrs_value(Int32GetDatum(session->st_procpid));
	row[OldSessions_kind] = label_value(GetBackendTypeDesc(session->st_backendType));
	row[OldSessions_role] = role_value(session);
	row[OldSessions_application_name] = label_value(session->st_appname);
	row[OldSessions_state] = label_value(describe_state(session->st_state));
	row[OldSessions_query] = label_value(
		pgstat_clip_activity(session->st_activity_raw));
}

/* How many transactions ago the older of the two began; -1: neither is set. */
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

/*
 * Autovacuum workers ignore each other's snapshots; this session's ends with
 * the query.
 */
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
	int count = pgstat_fetch_stat_numbackends();

	pgqrs_result_begin(fcinfo);
	for (int i = 1; i <= count; i++)
	{
		const LocalPgBackendStatus *local = pgqrs_backend_status(i);
		const PgBackendStatus *session = &local->backendStatus;
		int32 age = age_of(local->backend_xid, local->backend_xmin);
		NullableDatum row[OldSessions_natts];

		if (age < 0 || !holds_back_vacuum(session))
			continue;
		for (int column = 0; column < OldSessions_natts; column++)
			row[column] = PGQRS_NULL;
		if (pgqrs_role_may_see(session->st_userid))
			put_session(row, session);
		row[OldSessions_transactions] = pgqrs_value(Int32GetDatum(age));
		row[OldSessions_began] = instant_value(session->st_xact_start_timestamp,
											   session->st_xact_start_timestamp != 0);
		pgqrs_result_put(fcinfo, row);
	}
	return (Datum) 0;
}

PG_FUNCTION_INFO_V1(sql_holder_of);
Datum
sql_holder_of(PG_FUNCTION_ARGS)
{
	int64 message_id = pgqrs_arg_int64(fcinfo, 0, "message_id");
	const PgBackendStatus *session = pgqrs_find_backend(
		pgqrs_message_holder(message_id));
	NullableDatum row[HolderOf_natts];

	if (session == NULL || !pgqrs_role_may_see(session->st_userid))
		PG_RETURN_NULL();
	row[HolderOf_pid] = pgqrs_value(Int32GetDatum(session->st_procpid));
	row[HolderOf_role] = role_value(session);
	row[HolderOf_application_name] = label_value(session->st_appname);
	return pgqrs_result_row(fcinfo, row);
}

PG_FUNCTION_INFO_V1(sql_background_stats);
Datum
sql_background_stats(PG_FUNCTION_ARGS)
{
	PgqrsDatabaseStatus status;
	bool preloaded = pgqrs_database_status(&status);
	const char *reason = preloaded ? idle_reason(&status) : "not preloaded";
	char *failures = describe_failures(&status,
									   pgqrs_role_may_see(pgqrs_catalog_owner()));
	PgqrsClockStep step;
	bool went_back = pgqrs_clock_last_step_back(&step);
	TimestampTz now = pgqrs_clock_peek();
	TimestampTz until;
	int64 unconfirmed = pgqrs_clock_unconfirmed(now, &until);
	NullableDatum row[BackgroundStats_natts] = {
		[BackgroundStats_idle_reason] = pgqrs_text_value(reason),
		[BackgroundStats_pid] = pgqrs_value_if(status.worker_pid != 0,
											   Int32GetDatum(
												   pgqrs_role_may_see(InvalidOid) ?
													   status.worker_pid :
													   0)),
		[BackgroundStats_failures] = pgqrs_value_if(preloaded,
													Int32GetDatum(status.failures)),
		[BackgroundStats_retry_at] = instant_value(status.retry_at,
												   status.retry_at != 0),
		[BackgroundStats_due] = instant_value(status.due,
											  preloaded && status.due != DT_NOEND),
		[BackgroundStats_last_pass] = instant_value(status.last_pass,
													status.last_pass != 0),
		[BackgroundStats_passes] = pgqrs_value_if(preloaded,
												  Int64GetDatum(status.passes)),
		[BackgroundStats_done] = pgqrs_text_value(
			preloaded ? describe_done(status.done) : NULL),
		[BackgroundStats_failing] = pgqrs_text_value(failures),
		[BackgroundStats_went_back_by] = duration_value(went_back ?
															step.from - step.to :
															0,
														preloaded && went_back),
		[BackgroundStats_went_back_at] = instant_value(step.to,
													   preloaded && went_back),
		[BackgroundStats_realigning] = pgqrs_value_if(preloaded,
													  BoolGetDatum(status.realigning)),
		[BackgroundStats_unconfirmed] = duration_value(unconfirmed, preloaded),
		[BackgroundStats_confirmed_at] = instant_value(until,
													   preloaded && unconfirmed > 0),
	};

	PG_RETURN_DATUM(pgqrs_result_row(fcinfo, row));
}

/*
 * Why a queue delivers nothing
 */

static void
put_reason(const char *reason, const char *detail, const char *hint, void *arg)
{
	NullableDatum row[Why_natts] = {
		[Why_reason] = pgqrs_text_value(reason),
		[Why_detail] = pgqrs_text_value(detail),
		[Why_hint] = pgqrs_text_value(hint),
	};

	pgqrs_result_put((FunctionCallInfo) arg, row);
}

PG_FUNCTION_INFO_V1(sql_why);
Datum
sql_why(PG_FUNCTION_ARGS)
{
	char *queue = pgqrs_arg_name(fcinfo, 0, "queue");
	PgqrsDatabaseStatus status;
	const char *reason;

	pgqrs_result_begin(fcinfo);
	pgqrs_why(queue, put_reason, fcinfo);
	reason = !pgqrs_database_status(&status) ? "not preloaded" :
											   idle_reason(&status);
	if (reason != NULL)
		put_reason("background work",
				   psprintf("none runs in this database: %s", reason),
				   "Time-outs and schedules come late, and waits look less often. pgqrs_health tells what to do.",
				   fcinfo);
	return (Datum) 0;
}

/*
 * Reports
 */

/* pgqrs_html() shows at most so many bytes of a value, cut at a character. */
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

PG_FUNCTION_INFO_V1(sql_html_size);
Datum
sql_html_size(PG_FUNCTION_ARGS)
{
	if (PG_ARGISNULL(0))
		PG_RETURN_INT32(0);
	PG_RETURN_INT32(pgqrs_json_size(PG_GETARG_DATUM(0)));
}
