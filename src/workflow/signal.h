/*
 * signal.h
 *	  Signals: sent to a run, taken by it in order, once each.
 */
#ifndef PGQRS_SIGNAL_H
#define PGQRS_SIGNAL_H

#include "postgres.h"

#include "base/nullable.h"

typedef struct PgqrsNewSignal
{
	const char *name;
	const char *idempotency_key; /* or NULL */
	NullableDatum payload;
	NullableDatum headers;
} PgqrsNewSignal;

typedef enum PgqrsSignalResult
{
	SIGNAL_PARKED,
	SIGNAL_RECEIVED,
	SIGNAL_TIMED_OUT
} PgqrsSignalResult;

/* The id of the signal, or of the one of that run that has the key. */
extern int64 pgqrs_signal_send(int64 run_id, const PgqrsNewSignal *s);

/* What a signal that was received brought; copied. */
typedef struct PgqrsSignalContent
{
	NullableDatum payload;
	NullableDatum headers;
} PgqrsSignalContent;

/*
 * Takes the oldest signal of a name; timeout: microseconds, < 0: none; content:
 * where it was received.
 */
extern PgqrsSignalResult pgqrs_signal_await(int64 run_id, int64 lease,
											const char *step_id,
											const char *name, int64 timeout,
											PgqrsSignalContent *content);

#endif /* PGQRS_SIGNAL_H */
