/*
 * settings.c
 *	  Arguments of the functions that create and alter queues and workflows.
 */
#include "api/settings.h"

#include "api/args.h"
#include "base/clock.h"
#include "base/errors.h"
#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

static const char *
setting_name(const PgqrsSettingArgs *args, int setting)
{
	return args->settings->known[setting].name;
}

/* NULL leaves the setting as it is, or at its default. */
bool
pgqrs_arg_setting_given(const PgqrsSettingArgs *args, int setting)
{
	FunctionCallInfo fcinfo = args->fcinfo;

	return !PG_ARGISNULL(setting + 1);
}

static char *
duration_text(int64 duration)
{
	return DatumGetCString(
		DirectFunctionCall1(interval_out,
							IntervalPGetDatum(pgqrs_interval(duration))));
}

/* From min to max microseconds; a min of 1 reads as more than 0. */
void
pgqrs_arg_setting_duration(const PgqrsSettingArgs *args, int setting, int64 min,
						   int64 max)
{
	const char *name = setting_name(args, setting);
	int64 duration;

	if (!pgqrs_arg_setting_given(args, setting))
		return;
	duration = pgqrs_arg_duration(args->fcinfo, setting + 1, name);
	if (duration < min || duration > max)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" is %s", name, duration_text(duration)),
				 errhint("Use a duration %s 0 and at most %s.",
						 min > 0 ? "of more than" : "from", duration_text(max))));
	pgqrs_settings_give(args->settings, setting,
						IntervalPGetDatum(pgqrs_interval(duration)));
}

void
pgqrs_arg_setting_int(const PgqrsSettingArgs *args, int setting, int min)
{
	if (pgqrs_arg_setting_given(args, setting))
		pgqrs_settings_give(args->settings, setting,
							Int32GetDatum(pgqrs_arg_int(args->fcinfo, setting + 1,
														setting_name(args, setting),
														min, PG_INT32_MAX)));
}

/* Its bounds are the caller's business. */
void
pgqrs_arg_setting_float(const PgqrsSettingArgs *args, int setting)
{
	FunctionCallInfo fcinfo = args->fcinfo;

	if (pgqrs_arg_setting_given(args, setting))
		pgqrs_settings_give(args->settings, setting, PG_GETARG_DATUM(setting + 1));
}

/* The elements of a one-dimensional text[] without NULLs; empty is allowed. */
static int
get_texts(FunctionCallInfo fcinfo, int n, const char *name, Datum **values)
{
	bool *nulls;

	if (PG_ARGISNULL(n))
		return 0;
	return pgqrs_arg_array(fcinfo, n, name, TEXTOID, true, values, &nulls);
}

void
pgqrs_arg_setting_texts(const PgqrsSettingArgs *args, int setting)
{
	Datum *values;
	int count;

	if (!pgqrs_arg_setting_given(args, setting))
		return;
	count = get_texts(args->fcinfo, setting + 1, setting_name(args, setting),
					  &values);
	pgqrs_settings_give(args->settings, setting,
						PointerGetDatum(construct_array(values, count, TEXTOID,
														-1, false, TYPALIGN_INT)));
}

/* The name of a queue. */
void
pgqrs_arg_setting_name(const PgqrsSettingArgs *args, int setting)
{
	if (pgqrs_arg_setting_given(args, setting))
		pgqrs_settings_give(args->settings, setting,
							CStringGetTextDatum(
								pgqrs_arg_name(args->fcinfo, setting + 1,
											   setting_name(args, setting))));
}

static void
refuse_unless(const PgqrsSettingArgs *args, int setting, bool is_default)
{
	if (!is_default)
		pgqrs_error_not_supported(
			psprintf("argument \"%s\"", setting_name(args, setting)));
}

/* Not built yet: only NULL will do. */
void
pgqrs_arg_setting_none(const PgqrsSettingArgs *args, int setting)
{
	refuse_unless(args, setting, !pgqrs_arg_setting_given(args, setting));
}

/* Not built yet: only false will do. */
static void
arg_setting_false(const PgqrsSettingArgs *args, int setting)
{
	refuse_unless(args, setting,
				  !pgqrs_arg_bool_or(args->fcinfo, setting + 1, false));
}

/* The limits of flow control, of which only the defaults are built. */
void
pgqrs_arg_setting_flow(const PgqrsSettingArgs *args, int first)
{
	int rate_period = first + FLOW_RATE_PERIOD;

	pgqrs_arg_setting_none(args, first + FLOW_MAX_PER_KEY);
	arg_setting_false(args, first + FLOW_ORDERED);
	arg_setting_false(args, first + FLOW_FAIR);
	pgqrs_arg_setting_none(args, first + FLOW_RATE_LIMIT);
	refuse_unless(args, rate_period,
				  pgqrs_arg_duration_or(args->fcinfo, rate_period + 1,
										setting_name(args, rate_period),
										USECS_PER_SEC) == USECS_PER_SEC);
	arg_setting_false(args, first + FLOW_RATE_PER_KEY);
}

/* Of create, after all the others. */
void
pgqrs_arg_replace(const PgqrsSettingArgs *args)
{
	if (pgqrs_arg_bool_or(args->fcinfo, args->settings->count + 1, false))
		pgqrs_settings_replace(args->settings);
}

/* Of alter, after all the others. */
void
pgqrs_arg_reset(const PgqrsSettingArgs *args)
{
	Datum *names;
	int count = get_texts(args->fcinfo, args->settings->count + 1, "reset", &names);

	for (int i = 0; i < count; i++)
		pgqrs_settings_reset(args->settings, TextDatumGetCString(names[i]));
}
