/*
 * serving.h
 *	  Serving: the workers and sessions that would take a queue's messages.
 */
#ifndef PGQRS_SERVING_H
#define PGQRS_SERVING_H

#include "postgres.h"

#include "base/int64_list.h"

typedef struct PgqrsServing PgqrsServing;

/*
 * All of this instant, whatever they serve.  In the current memory context, where
 * later counts allocate, too.
 */
extern PgqrsServing *pgqrs_serving_collect(void);

/*
 * Number of live workers that are ready, of any role, and of sessions that have
 * claimed lately without a worker, that may claim from the queue.
 */
extern int pgqrs_serving_count(PgqrsServing *serving, const char *queue);

/* The ids of the workers that serve a queue which the current role may read. */
extern PgqrsInt64List pgqrs_serving_readable(void);

#endif /* PGQRS_SERVING_H */
