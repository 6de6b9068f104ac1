/*
 * await_any.h
 *	  Steps that wait for the first of several: signals, children, a time.
 */
#ifndef PGQRS_AWAIT_ANY_H
#define PGQRS_AWAIT_ANY_H

#include "postgres.h"

#include "base/json.h"

/* The signal or child that came first, copied into the current memory context. */
typedef struct PgqrsAnyResult
{
	const char *source;	   /* signal, child, timeout */
	const char *name;	   /* of the signal, or the child's step id; or NULL */
	NullableDatum payload; /* of the signal, or the child's end */
} PgqrsAnyResult;

/*
 * False: none of them is there, and the run waits.  wait: without run_ids and
 * deadline; timeout: microseconds, < 0: none.
 */
extern bool pgqrs_await_any(int64 run_id, int64 lease, const char *step_id,
							const PgqrsAnyWait *wait, int64 timeout,
							PgqrsAnyResult *result);

#endif /* PGQRS_AWAIT_ANY_H */
