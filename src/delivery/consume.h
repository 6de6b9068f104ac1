/*
 * consume.h
 *	  Consumption: a handler function processes messages in the caller's transaction.
 */
#ifndef PGQRS_CONSUME_H
#define PGQRS_CONSUME_H

#include "postgres.h"

/* Returns the number of messages that the handler processed without an error. */
extern int pgqrs_consume_batch(const char *queue, const char *handler,
							   int batch_size);

#endif /* PGQRS_CONSUME_H */
