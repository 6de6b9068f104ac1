/*
 * cron_expr.h
 *	  Cron expressions: parsing, and the next instant that one names.
 */
#ifndef PGQRS_CRON_EXPR_H
#define PGQRS_CRON_EXPR_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "pgtime.h"

/* Among the days: the last one of the month, whichever that is. */
#define PGQRS_CRON_LAST_DAY 0

/* The values that each field allows, as bits. */
typedef struct PgqrsCron
{
	uint64 minutes;
	uint32 hours;
	uint32 days; /* 1 to 31, and PGQRS_CRON_LAST_DAY */
	uint32 months;
	uint32 weekdays; /* 0 to 6 */

	/* the field begins with an asterisk */
	bool any_hour;
	bool any_day;
	bool any_weekday;
} PgqrsCron;

/* PQ015 for an expression that is not one, or can never fire. */
extern void pgqrs_cron_parse(const char *expression, PgqrsCron *cron);

/* An IANA zone by its name; NULL if it is not known. */
extern pg_tz *pgqrs_cron_find_zone(const char *name);

/* The same; PQ015 if it is not known. */
extern pg_tz *pgqrs_cron_zone(const char *name);

/* The first instant after another that the expression names; false: none. */
extern bool pgqrs_cron_next(const PgqrsCron *cron, pg_tz *zone,
							TimestampTz after, TimestampTz *slot);

#endif /* PGQRS_CRON_EXPR_H */
