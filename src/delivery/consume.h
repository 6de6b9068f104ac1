/*
 * consume.h
 *	  Working off a queue with a function, in the caller's transaction.
 */
#ifndef PGQRS_CONSUME_H
#define PGQRS_CONSUME_H

#include "postgres.h"

/* How many messages the handler took. */
extern int pgqrs_consume_batch(const char *queue, const char *handler,
							   int batch_size);

#endif /* PGQRS_CONSUME_H */
