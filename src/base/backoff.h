/*
 * backoff.h
 *	  Backoff: the delay before a retry.
 */
#ifndef PGQRS_BACKOFF_H
#define PGQRS_BACKOFF_H

#include "postgres.h"

/* Durations are in microseconds. */
typedef struct PgqrsBackoff
{
	int64 initial_interval;
	int64 max_interval;
	double coefficient; /* finite, > 0 */
	double jitter;		/* 0..1 */
} PgqrsBackoff;

extern int64 pgqrs_backoff_delay(const PgqrsBackoff *policy, int failures);

#endif /* PGQRS_BACKOFF_H */
