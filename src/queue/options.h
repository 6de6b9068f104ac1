/*
 * options.h
 *	  Options: the arguments that create and alter take for a queue or a
 *	  workflow.
 */
#ifndef PGQRS_OPTIONS_H
#define PGQRS_OPTIONS_H

#include "postgres.h"

#include "base/catalog.h"
#include "base/clock.h"
#include "lib/stringinfo.h"
#include "store/table.h"

#define PGQRS_MAX_OPTIONS 24

typedef enum PgqrsOptionKind
{
	OPTION_DURATION,
	OPTION_INTEGER,
	OPTION_NUMBER,
	OPTION_BOOLEAN,
	OPTION_TEXT,
	OPTION_TEXTS,
	OPTION_QUEUE, /* name of a queue */
	OPTION_KEY_SCOPE,
	OPTION_ON_CANCEL
} PgqrsOptionKind;

/*
 * An option of queues or workflows.  The SQL of the create function states the
 * default, too; test/pgtap/defaults.sql compares the two.
 */
typedef struct PgqrsOption
{
	const char *name; /* name of its argument */
	PgqrsOptionKind kind;
	const char *initial; /* default as text, or NULL */
	int64 min;			 /* minimum of an integer, or of a duration in
						  * microseconds */
	int64 max;			 /* maximum of a duration; a min of 1 reads as more than
						  * 0 */
	PgqrsTableId table;
	AttrNumber column; /* 0: only the default is supported so far */
} PgqrsOption;

/* Limits of queues and workflows that are not supported yet. */
#define PGQRS_FLOW_OPTIONS                                                       \
	{"max_per_key", OPTION_INTEGER, NULL, PG_INT32_MIN},                         \
		{"ordered", OPTION_BOOLEAN, "false"}, {"fair", OPTION_BOOLEAN, "false"}, \
		{"rate_limit", OPTION_INTEGER, NULL, PG_INT32_MIN},                      \
		{"rate_period", OPTION_DURATION, "1 s", 0, PGQRS_MAX_DURATION},          \
	{                                                                            \
		"rate_per_key", OPTION_BOOLEAN, "false"                                  \
	}
#define PGQRS_FLOW_OPTION_COUNT 6

/* The options of a call; an option that is not given has its default. */
typedef struct PgqrsOptions
{
	const PgqrsOption *known;
	int count;
	bool replace; /* sets all options, also those not given */
	bool given[PGQRS_MAX_OPTIONS];
	bool reset[PGQRS_MAX_OPTIONS]; /* named in reset */
	NullableDatum values[PGQRS_MAX_OPTIONS];
	NullableDatum defaults[PGQRS_MAX_OPTIONS];
} PgqrsOptions;

extern void pgqrs_options_init(PgqrsOptions *s, const PgqrsOption *known, int count);
extern void pgqrs_options_give(PgqrsOptions *s, int setting, Datum value);
extern void pgqrs_options_replace(PgqrsOptions *s);
extern void pgqrs_options_reset(PgqrsOptions *s, const char *name);
extern bool pgqrs_options_given(const PgqrsOptions *s, PgqrsTableId table);
extern void pgqrs_options_store(const PgqrsOptions *s, PgqrsTableId table,
								bool only_given, PgqrsRow *row);
extern void pgqrs_options_compare(const PgqrsOptions *s, PgqrsTable *table,
								  TupleTableSlot *slot, StringInfo differences);
extern bool pgqrs_options_differ(const PgqrsOptions *s, PgqrsTable *table,
								 TupleTableSlot *slot);

#endif /* PGQRS_OPTIONS_H */
