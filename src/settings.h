/*
 * settings.h
 *	  What create and alter are given for a queue or a workflow.
 */
#ifndef PGQRS_SETTINGS_H
#define PGQRS_SETTINGS_H

#include "postgres.h"

#include "catalog.h"
#include "lib/stringinfo.h"
#include "rows.h"

#define PGQRS_MAX_SETTINGS 12

/* A setting: what its argument is called and which column holds it. */
typedef struct PgqrsSetting
{
	const char *name;
	PgqrsTableId table;
	AttrNumber column;
} PgqrsSetting;

typedef struct PgqrsSettingValue
{
	Datum value;
	bool isnull;
} PgqrsSettingValue;

/* One of each; what is not given has its default. */
typedef struct PgqrsSettings
{
	const PgqrsSetting *known;
	int count;
	bool given[PGQRS_MAX_SETTINGS];
	bool reset[PGQRS_MAX_SETTINGS]; /* given by its name only */
	PgqrsSettingValue values[PGQRS_MAX_SETTINGS];
	PgqrsSettingValue defaults[PGQRS_MAX_SETTINGS];
} PgqrsSettings;

extern void pgqrs_settings_init(PgqrsSettings *s, const PgqrsSetting *known,
								int count);
extern void pgqrs_settings_default(PgqrsSettings *s, int setting, Datum value);
extern void pgqrs_settings_give(PgqrsSettings *s, int setting, Datum value);
extern void pgqrs_settings_reset(PgqrsSettings *s, const char *name);
extern bool pgqrs_settings_given(const PgqrsSettings *s, PgqrsTableId table);
extern void pgqrs_settings_store(const PgqrsSettings *s, PgqrsTableId table,
								 bool only_given, PgqrsRow *row);
extern void pgqrs_settings_compare(const PgqrsSettings *s, PgqrsTable *table,
								   TupleTableSlot *slot, StringInfo differences);

#endif /* PGQRS_SETTINGS_H */
