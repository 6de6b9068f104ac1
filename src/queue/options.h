/*
 * options.h
 *	  What create and alter are given for a queue or a workflow.
 */
#ifndef PGQRS_OPTIONS_H
#define PGQRS_OPTIONS_H

#include "postgres.h"

#include "base/catalog.h"
#include "lib/stringinfo.h"
#include "store/table.h"

#define PGQRS_MAX_SETTINGS 24

/*
 * Limits that queues and workflows will have.  So far only their defaults are
 * taken, and no column holds them.
 */
typedef enum PgqrsFlowSetting
{
	FLOW_MAX_PER_KEY,
	FLOW_ORDERED,
	FLOW_FAIR,
	FLOW_RATE_LIMIT,
	FLOW_RATE_PERIOD,
	FLOW_RATE_PER_KEY,
	FLOW_SETTING_COUNT
} PgqrsFlowSetting;

/* Their entries in a table of settings, one after the other. */
#define PGQRS_FLOW_SETTINGS                                         \
	{"max_per_key", TABLE_QUEUES, 0}, {"ordered", TABLE_QUEUES, 0}, \
		{"fair", TABLE_QUEUES, 0}, {"rate_limit", TABLE_QUEUES, 0}, \
		{"rate_period", TABLE_QUEUES, 0},                           \
	{                                                               \
		"rate_per_key", TABLE_QUEUES, 0                             \
	}

/*
 * A setting: what its argument is called and which column holds it, 0 for none,
 * where only the default is taken.
 */
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
	bool replace; /* what exists gets all of them, also those not given */
	bool given[PGQRS_MAX_SETTINGS];
	bool reset[PGQRS_MAX_SETTINGS]; /* given by its name only */
	PgqrsSettingValue values[PGQRS_MAX_SETTINGS];
	PgqrsSettingValue defaults[PGQRS_MAX_SETTINGS];
} PgqrsSettings;

extern void pgqrs_settings_init(PgqrsSettings *s, const PgqrsSetting *known,
								int count);
extern void pgqrs_settings_default(PgqrsSettings *s, int setting, Datum value);
extern void pgqrs_settings_give(PgqrsSettings *s, int setting, Datum value);
extern void pgqrs_settings_replace(PgqrsSettings *s);
extern void pgqrs_settings_reset(PgqrsSettings *s, const char *name);
extern bool pgqrs_settings_given(const PgqrsSettings *s, PgqrsTableId table);
extern void pgqrs_settings_store(const PgqrsSettings *s, PgqrsTableId table,
								 bool only_given, PgqrsRow *row);
extern void pgqrs_settings_compare(const PgqrsSettings *s, PgqrsTable *table,
								   TupleTableSlot *slot, StringInfo differences);
extern bool pgqrs_settings_differ(const PgqrsSettings *s, PgqrsTable *table,
								  TupleTableSlot *slot);

#endif /* PGQRS_OPTIONS_H */
