/*
 * retention.h
 *	  What has ended long enough ago goes.
 */
#ifndef PGQRS_RETENTION_H
#define PGQRS_RETENTION_H

#include "postgres.h"

#include "datatype/timestamp.h"

typedef struct PgqrsRetained
{
	int64 messages; /* removed; those of runs not counted */
	int64 runs;		/* with their messages, steps, signals and events */
	int64 firings;
} PgqrsRetained;

/*
 * Removes what is due, up to a limit, and with rests if gently; when there may
 * be more to remove: 0 if the limit was reached.
 */
extern TimestampTz pgqrs_retention_pass(bool gently, PgqrsRetained *removed);

#endif /* PGQRS_RETENTION_H */
