/*
 * clock.h
 *	  The one clock.
 */
#ifndef PGQRS_CLOCK_H
#define PGQRS_CLOCK_H

#include "postgres.h"

#include "base/shmem_module.h"
#include "datatype/timestamp.h"
#include "storage/latch.h"

/* Durations at most this long, so that adding one to now cannot overflow. */
#define PGQRS_MAX_DURATION (INT64CONST(1000) * 366 * USECS_PER_DAY)

extern const PgqrsShmemModule pgqrs_clock_shmem;

extern TimestampTz pgqrs_clock(void);

/* The same for who needs no reading of his own: no earlier than any reading yet. */
extern TimestampTz pgqrs_clock_peek(void);

/*
 * Microseconds of a clock that is never set: for spans of time within the life
 * of the server.  No instant of another clock.
 */
extern int64 pgqrs_monotonic(void);

/*
 * Counts the times that the clock was set back.  Readings of different epochs
 * cannot be compared.
 */
extern uint32 pgqrs_clock_epoch(void);

/*
 * A step of the clock is noticed where it is read.  Steps within the tolerance
 * are none.
 */
#define PGQRS_CLOCK_TOLERANCE (5 * USECS_PER_SEC)

typedef struct PgqrsClockStep
{
	TimestampTz from;		 /* what it would have read without the step, ... */
	TimestampTz to;			 /* ... and what it read */
	TimestampTz ahead_since; /* of a step back: since when it had been ahead, by
							  * its own readings; DT_NOBEGIN: not known */
} PgqrsClockStep;

/* The last step back that this server has seen; false: none. */
extern bool pgqrs_clock_last_step_back(PgqrsClockStep *step);

/* The first reading after the last step in either direction; 0: there was none. */
extern TimestampTz pgqrs_clock_stepped_at(void);

/*
 * How much of the time up to now this server has not seen pass: it was down, or
 * the clock was set forward, by mistake perhaps.  0 from *until on, or if the
 * clock is set back; what is removed for good is counted without it.
 */
extern int64 pgqrs_clock_unconfirmed(TimestampTz now, TimestampTz *until);

/* A step was found that came while no server was there to see it. */
extern void pgqrs_clock_record_step(const PgqrsClockStep *step);

/* The latch is set at each step; of the one process that tells all others. */
extern void pgqrs_clock_watch(Latch *latch);

/* Since when this server takes calls that write: its start, or its promotion. */
extern TimestampTz pgqrs_clock_serving_since(void);
extern void pgqrs_clock_record_serving(void);

extern int64 pgqrs_random_lease(void);
/* The same where an error is no answer: false for one that is refused. */
extern bool pgqrs_duration_of(const Interval *interval, int64 *usec);
extern int64 pgqrs_duration(const Interval *interval, const char *name);
extern Interval *pgqrs_interval(int64 duration);

#endif /* PGQRS_CLOCK_H */
