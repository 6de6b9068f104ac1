/*
 * notifier.h
 *	  Notifications that the background worker sends to sessions that LISTEN.
 */
#ifndef PGQRS_NOTIFIER_H
#define PGQRS_NOTIFIER_H

#include "postgres.h"

#include "datatype/timestamp.h"

/*
 * One pass of the background worker of a database that has the extension,
 * outside of a transaction.  Returns when to call it again at the latest, by
 * pgqrs_clock(); DT_NOEND: not before DUTY_NOTIFY is requested.
 */
extern TimestampTz pgqrs_notify_pass(void);

/* The next pass begins no sooner than this, whatever is requested. */
extern TimestampTz pgqrs_notify_not_before(void);

/* A pass failed: the next one begins with all that it had taken. */
extern void pgqrs_notify_put_back(void);

#endif /* PGQRS_NOTIFIER_H */
