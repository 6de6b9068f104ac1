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

extern Size pgqrs_clock_shmem_size(void);
extern void pgqrs_clock_shmem_init(void);

extern TimestampTz pgqrs_clock(void);

/* The same for who needs no reading of his own: no earlier than any reading yet. */
extern TimestampTz pgqrs_clock_peek(void);

/*
 * Counts the times that the clock was set back.  Readings of different epochs
 * cannot be compared.
 */
extern uint32 pgqrs_clock_epoch(void);

/* Since when this server takes calls that write: its start, or its promotion. */
extern TimestampTz pgqrs_clock_serving_since(void);
extern void pgqrs_clock_note_serving(void);

extern int64 pgqrs_random_lease(void);
extern int64 pgqrs_duration(const Interval *interval, const char *name);
extern Interval *pgqrs_interval(int64 duration);

#endif /* PGQRS_CLOCK_H */
