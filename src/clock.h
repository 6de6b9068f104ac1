/*
 * clock.h
 *	  The one clock.
 */
#ifndef PGQRS_CLOCK_H
#define PGQRS_CLOCK_H

#include "postgres.h"

#include "datatype/timestamp.h"

/* Durations at most this long, so that adding one to now cannot overflow. */
#define PGQRS_MAX_DURATION (INT64CONST(1000) * 366 * USECS_PER_DAY)

extern TimestampTz pgqrs_clock(void);
extern int64 pgqrs_random_lease(void);
extern int64 pgqrs_duration(const Interval *interval, const char *name);
extern Interval *pgqrs_interval(int64 duration);

#endif /* PGQRS_CLOCK_H */
