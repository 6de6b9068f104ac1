/*
 * settings.h
 *	  Arguments of the functions that create and alter queues and workflows.
 */
#ifndef PGQRS_API_SETTINGS_H
#define PGQRS_API_SETTINGS_H

#include "postgres.h"

#include "fmgr.h"
#include "nodes/pg_list.h"
#include "queue/options.h"

/*
 * A call whose first argument is the name and whose others are the settings in
 * their order; create has "replace" after them, and alter "reset".  NULL leaves a
 * setting as it is, or at its default.
 */
typedef struct PgqrsSettingArgs
{
	FunctionCallInfo fcinfo;
	PgqrsSettings *settings;
} PgqrsSettingArgs;

extern void pgqrs_arg_setting_duration(const PgqrsSettingArgs *args,
									   int setting, int64 min, int64 max);
extern void pgqrs_arg_setting_int(const PgqrsSettingArgs *args, int setting,
								  int min);
extern void pgqrs_arg_setting_float(const PgqrsSettingArgs *args, int setting);
extern void pgqrs_arg_setting_texts(const PgqrsSettingArgs *args, int setting);
extern void pgqrs_arg_setting_name(const PgqrsSettingArgs *args, int setting);
extern void pgqrs_arg_setting_none(const PgqrsSettingArgs *args, int setting);
extern void pgqrs_arg_setting_flow(const PgqrsSettingArgs *args, int first);
extern void pgqrs_arg_replace(const PgqrsSettingArgs *args);
extern void pgqrs_arg_reset(const PgqrsSettingArgs *args);
extern bool pgqrs_arg_setting_given(const PgqrsSettingArgs *args, int setting);

#endif /* PGQRS_API_SETTINGS_H */
