/*
 * notify.h
 *	  What the background worker sends to those that LISTEN.
 */
#ifndef PGQRS_NOTIFY_H
#define PGQRS_NOTIFY_H

#include "postgres.h"

#include "datatype/timestamp.h"

/*
 * Looks at a run that may be parked, in a transaction of its own: whether what
 * it waits for is there.
 */
typedef void (*PgqrsParkedRecheck)(int64 run_id);

/* Set at start; NULL: no run is ever parked. */
extern PgqrsParkedRecheck pgqrs_notify_parked_recheck;

/*
 * One pass of the background worker of a database that has the extension,
 * outside of a transaction.  Returns when to call it again at the latest, by
 * pgqrs_clock(); DT_NOEND: not before somebody pokes for DUE_NOTIFY.
 */
extern TimestampTz pgqrs_notify_pass(void);

#endif /* PGQRS_NOTIFY_H */
