/*
 * schedule.h
 *	  Schedules: what triggers runs by the calendar.
 */
#ifndef PGQRS_SCHEDULE_H
#define PGQRS_SCHEDULE_H

#include "postgres.h"

#include "base/catalog.h"
#include "datatype/timestamp.h"

/* That a slot was served is remembered for this time at least. */
#define PGQRS_FIRING_MIN_AGE USECS_PER_DAY

/* What a schedule is given. */
typedef struct PgqrsNewSchedule
{
	const char *name;
	const char *cron;
	const char *timezone;
	const char *workflow;
	NullableDatum input;
	int max_catchup;
	PgqrsOverlap overlap;
	int priority;
	int64 timeout; /* microseconds, < 0: the workflow's */
	NullableDatum tags;
	bool keep_enabled; /* as it is; a new one is enabled */
	bool enabled;
} PgqrsNewSchedule;

/* Makes a schedule, or changes the one of that name; its id. */
extern int64 pgqrs_schedule_set(const PgqrsNewSchedule *s);

/* False: there is none, or none that the current role may see. */
extern bool pgqrs_schedule_drop(const char *name);

extern void pgqrs_schedule_enable(const char *name, bool enabled);

/* Starts a run now, beside the calendar; its id. */
extern int64 pgqrs_schedule_trigger(const char *name);

/* Up to max of them get the names that their owners have now; false: more is to be done. */
extern bool pgqrs_schedule_follow_roles(int max);

/*
 * Fires what is due, up to about max runs, which it adds to *fired.  When to
 * come again: 0 at once, DT_NOEND if nothing is known to become due.
 */
extern TimestampTz pgqrs_schedule_tick(int max, int64 *fired);

/* Whether a workflow has schedules; and deletes them. */
extern bool pgqrs_schedule_exists_for(const char *workflow);
extern void pgqrs_schedule_drop_for(const char *workflow);

#endif /* PGQRS_SCHEDULE_H */
