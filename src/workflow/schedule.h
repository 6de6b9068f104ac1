/*
 * schedule.h
 *	  Schedules: cron expressions that trigger runs of a workflow.
 */
#ifndef PGQRS_SCHEDULE_H
#define PGQRS_SCHEDULE_H

#include "postgres.h"

#include "base/catalog.h"
#include "datatype/timestamp.h"

/* Retention keeps the firing of a slot for this time at least. */
#define PGQRS_FIRING_MIN_AGE USECS_PER_DAY

/* The arguments of pgqrs_schedule(). */
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
	bool keep_enabled; /* do not change it; a new schedule is enabled */
	bool enabled;
} PgqrsNewSchedule;

/* Creates a schedule, or changes the one of that name; returns its id. */
extern int64 pgqrs_schedule_set(const PgqrsNewSchedule *s);

/* False if the schedule does not exist or the current role must not see it. */
extern bool pgqrs_schedule_drop(const char *name);

extern void pgqrs_schedule_enable(const char *name, bool enabled);

/* Triggers a run now, independently of the slots; returns its id. */
extern int64 pgqrs_schedule_trigger(const char *name);

/*
 * Updates the owner's name in up to max schedules after roles were renamed or
 * dropped; false if there are more.
 */
extern bool pgqrs_schedule_follow_roles(int max);

/*
 * Serves the due schedules, up to about max runs, and adds the number of runs
 * to *fired.  Returns when the next tick is due: 0 at once, DT_NOEND never.
 */
extern TimestampTz pgqrs_schedule_tick(int max, int64 *fired);

/*
 * Whether the owner of a schedule may trigger its workflow.  False if the schedule
 * does not exist or the current role must not see its workflow.
 */
extern bool pgqrs_schedule_may_fire(int64 schedule_id, bool *may_fire);

/* Whether a workflow has schedules. */
extern bool pgqrs_schedule_exists_for(const char *workflow);

/* Deletes all schedules of a workflow. */
extern void pgqrs_schedule_drop_for(const char *workflow);

#endif /* PGQRS_SCHEDULE_H */
