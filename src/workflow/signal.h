/*
 * signal.h
 *	  Signals: sent to a run, consumed by the run in order, once each.
 */
#ifndef PGQRS_SIGNAL_H
#define PGQRS_SIGNAL_H

#include "postgres.h"

#include "base/nullable.h"
#include "workflow/step.h"

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

/* Returns the signal's id, or the id of the run's earlier signal with the same key. */
extern int64 pgqrs_signal_send(int64 run_id, const PgqrsNewSignal *signal);

/* The content of a received signal, copied into the current memory context. */
typedef struct PgqrsSignalContent
{
	NullableDatum payload;
	NullableDatum headers;
} PgqrsSignalContent;

/*
 * Consumes the oldest signal of that name, or makes the run wait until one arrives.
 * timeout: microseconds, < 0: none.  content: set if a signal was received.
 */
extern PgqrsSignalResult pgqrs_signal_await(int64 run_id, int64 lease,
											const char *step_id,
											const char *name, int64 timeout,
											PgqrsSignalContent *content);

/*
 * For a step whose run's message is locked exclusively: consumes the oldest
 * signal of that name; false if there is none.
 */
extern bool pgqrs_signal_consume(PgqrsStepRows *s, const char *name,
								 PgqrsSignalContent *content);

#endif /* PGQRS_SIGNAL_H */
