/*
 * clock.h
 *	  The clock of the extension, and the durations and random leases of its
 *	  rows.
 */
#ifndef PGQRS_CLOCK_H
#define PGQRS_CLOCK_H

#include "postgres.h"

#include "base/shmem_module.h"
#include "datatype/timestamp.h"
#include "storage/latch.h"

/* The longest duration: adding one to the present time cannot overflow. */
#define PGQRS_MAX_DURATION (INT64CONST(1000) * 366 * USECS_PER_DAY)

extern const PgqrsShmemModule pgqrs_clock_shmem;

extern TimestampTz pgqrs_clock(void);

/*
 * The present time without a new reading: no earlier than any reading so far.
 */
extern TimestampTz pgqrs_clock_peek(void);

/*
 * Microseconds of the monotonic clock, for spans of time within the life of the
 * server.  Not comparable with timestamps.
 */
extern int64 pgqrs_monotonic(void);

/*
 * How often the clock was set back.  Readings of different epochs cannot be
 * compared.
 */
extern uint32 pgqrs_clock_epoch(void);

/*
 * A backend detects a step of the operating system's clock when it reads the
 * clock.  Smaller differences than the tolerance are not steps.
 */
#define PGQRS_CLOCK_TOLERANCE (5 * USECS_PER_SEC)

typedef struct PgqrsClockStep
{
	TimestampTz from;		 /* reading expected without the step */
	TimestampTz to;			 /* reading after the step */
	TimestampTz ahead_since; /* for a step back: since when the clock had been
							  * ahead, by its own readings; DT_NOBEGIN: unknown */
} PgqrsClockStep;

/* The last step back that this server detected; false: none. */
extern bool pgqrs_clock_last_step_back(PgqrsClockStep *step);

/* The first reading after the last step in either direction; 0: no step. */
extern TimestampTz pgqrs_clock_stepped_at(void);

/*
 * How much of the time before now passed without this server running: the
 * server was down, or the clock was set forward, perhaps by mistake. 0 from
 * *until on, or once the clock is set back.  Retention does not count this time
 * before it removes rows.
 */
extern int64 pgqrs_clock_unconfirmed(TimestampTz now, TimestampTz *until);

/* Records a step that happened while no server was running. */
extern void pgqrs_clock_record_step(const PgqrsClockStep *step);

/*
 * Sets the latch at each step.  One process watches: the launcher, which
 * informs the others.
 */
extern void pgqrs_clock_watch(Latch *latch);

/* Since when this server accepts writing calls: its start or its promotion. */
extern TimestampTz pgqrs_clock_serving_since(void);
extern void pgqrs_clock_record_serving(void);

extern int64 pgqrs_random_lease(bool is_odd);
/* Converts an interval without raising an error; false: out of range. */
extern bool pgqrs_duration_of(const Interval *interval, int64 *usec);
extern int64 pgqrs_duration(const Interval *interval, const char *name);
extern Interval *pgqrs_interval(int64 duration);

#endif /* PGQRS_CLOCK_H */
