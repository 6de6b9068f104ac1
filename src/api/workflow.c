/*
 * workflow.c
 *	  SQL functions that administer workflows and schedules.
 */
#include "api/args.h"

#include "api/settings.h"
#include "base/clock.h"
#include "base/errors.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "queue/queue.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"
#include "workflow/cron_expr.h"
#include "workflow/drop.h"
#include "workflow/schedule.h"
#include "workflow/workflow.h"
#include "workflow/workflow_ddl.h"

static int64
setting_duration(const PgqrsSettings *s, int setting)
{
	return pgqrs_duration(DatumGetIntervalP(s->values[setting].value),
						  s->known[setting].name);
}

/* The retry policy must hold together whoever sets it. */
static void
check_policy(const PgqrsSettings *s)
{
	PgqrsRetryPolicy policy;
	Datum *prefixes;
	int count;

	policy.max_attempts = DatumGetInt32(s->values[WORKFLOW_MAX_ATTEMPTS].value);
	policy.backoff.initial_interval = setting_duration(s, WORKFLOW_INITIAL_INTERVAL);
	policy.backoff.max_interval = setting_duration(s, WORKFLOW_MAX_INTERVAL);
	policy.backoff.coefficient = DatumGetFloat8(
		s->values[WORKFLOW_BACKOFF_COEFFICIENT].value);
	policy.backoff.jitter = DatumGetFloat8(s->values[WORKFLOW_JITTER].value);
	policy.non_retryable = NIL;
	deconstruct_array(DatumGetArrayTypeP(s->values[WORKFLOW_NON_RETRYABLE].value),
					  TEXTOID, -1, false, TYPALIGN_INT, &prefixes, NULL, &count);
	for (int i = 0; i < count; i++)
		policy.non_retryable = lappend(policy.non_retryable,
									   TextDatumGetCString(prefixes[i]));
	pgqrs_retry_policy_check(&policy);
}

static void
get_key_scope(const PgqrsSettingArgs *args)
{
	const char *labels[KEY_SCOPE_COUNT];
	int label;

	if (!pgqrs_arg_setting_given(args, WORKFLOW_KEY_SCOPE))
		return;
	for (int i = 0; i < KEY_SCOPE_COUNT; i++)
		labels[i] = pgqrs_enum_label(ENUM_KEY_SCOPE, i);
	label = pgqrs_arg_label(args->fcinfo, WORKFLOW_KEY_SCOPE + 1, "key_scope",
							KEY_SCOPE_COUNT, labels);
	pgqrs_settings_give(args->settings, WORKFLOW_KEY_SCOPE,
						pgqrs_enum_datum(ENUM_KEY_SCOPE, label));
}

/* Runs that are cancelled end; only that is built. */
static void
check_on_cancel(const PgqrsSettingArgs *args)
{
	static const char *const labels[] = {"end", "deliver"};

	if (pgqrs_arg_label_or(args->fcinfo, WORKFLOW_ON_CANCEL + 1, "on_cancel",
						   lengthof(labels), labels, 0) != 0)
		pgqrs_error_not_supported("on_cancel => 'deliver'");
}

static void
get_settings(const PgqrsSettingArgs *args)
{
	pgqrs_workflow_defaults(args->settings);
	pgqrs_arg_setting_none(args, WORKFLOW_HANDLER);
	pgqrs_arg_setting_int(args, WORKFLOW_MAX_ATTEMPTS, -1);
	pgqrs_arg_setting_duration(args, WORKFLOW_INITIAL_INTERVAL, 0,
							   PGQRS_MAX_DURATION);
	pgqrs_arg_setting_float(args, WORKFLOW_BACKOFF_COEFFICIENT);
	pgqrs_arg_setting_duration(args, WORKFLOW_MAX_INTERVAL, 0, PGQRS_MAX_DURATION);
	pgqrs_arg_setting_float(args, WORKFLOW_JITTER);
	pgqrs_arg_setting_texts(args, WORKFLOW_NON_RETRYABLE);
	pgqrs_arg_setting_duration(args, WORKFLOW_TIMEOUT, 1, PGQRS_MAX_DURATION);
	pgqrs_arg_setting_duration(args, WORKFLOW_VISIBILITY_TIMEOUT, 1,
							   PGQRS_MAX_VISIBILITY_TIMEOUT);
	pgqrs_arg_setting_int(args, WORKFLOW_MAX_CRASHES, 1);
	get_key_scope(args);
	pgqrs_arg_setting_name(args, WORKFLOW_OUTBOX_QUEUE);
	check_on_cancel(args);
	pgqrs_arg_setting_flow(args, WORKFLOW_FLOW);
	check_policy(args->settings);
}

PG_FUNCTION_INFO_V1(sql_create_workflow);
Datum
sql_create_workflow(PG_FUNCTION_ARGS)
{
	PgqrsSettings settings;
	PgqrsSettingArgs args = {fcinfo, &settings};
	char *workflow = pgqrs_arg_name(fcinfo, 0, "workflow");

	get_settings(&args);
	pgqrs_arg_replace(&args);
	PG_RETURN_INT64(pgqrs_workflow_create(workflow, &settings));
}

PG_FUNCTION_INFO_V1(sql_alter_workflow);
Datum
sql_alter_workflow(PG_FUNCTION_ARGS)
{
	PgqrsSettings settings;
	PgqrsSettingArgs args = {fcinfo, &settings};
	char *workflow = pgqrs_arg_name(fcinfo, 0, "workflow");

	get_settings(&args);
	pgqrs_arg_reset(&args);
	pgqrs_workflow_alter(workflow, &settings);
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
	s.input = pgqrs_arg_json(fcinfo, 3, "input");
	s.timezone = arg_timezone(fcinfo, 4);
	s.max_catchup = pgqrs_arg_int_or(fcinfo, 5, "max_catchup", 0,
									 PGQRS_MAX_BATCH, 100);
	s.overlap = arg_overlap(fcinfo, 6);
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
