/*
 * cron_expr.h
 *	  Cron expressions: the parser, and the next matching instant.
 */
#ifndef PGQRS_CRON_EXPR_H
#define PGQRS_CRON_EXPR_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "pgtime.h"

/* The bit of "days" that stands for the last day of each month. */
#define PGQRS_CRON_LAST_DAY 0

/* The values that each field allows, as bits. */
typedef struct PgqrsCron
{
	uint64 minutes;
	uint32 hours;
	uint32 days; /* 1 to 31, and PGQRS_CRON_LAST_DAY */
	uint32 months;
	uint32 weekdays; /* 0 to 6 */

	/* whether the field begins with an asterisk */
	bool any_hour;
	bool any_day;
	bool any_weekday;
} PgqrsCron;

/* PQ015 for an invalid expression, and for one that never matches. */
extern void pgqrs_cron_parse(const char *expression, PgqrsCron *cron);

/* The IANA time zone of that name, or NULL. */
extern pg_tz *pgqrs_cron_find_zone(const char *name);

/* The IANA time zone of that name, or PQ015. */
extern pg_tz *pgqrs_cron_zone(const char *name);

/* Stores the first matching instant after another in *slot; false without one. */
extern bool pgqrs_cron_next(const PgqrsCron *cron, pg_tz *zone,
							TimestampTz after, TimestampTz *slot);

#endif /* PGQRS_CRON_EXPR_H */
