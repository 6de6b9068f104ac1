/*
 * notifier.h
 *	  Notifier: sends notifications to sessions that LISTEN.
 */
#ifndef PGQRS_NOTIFIER_H
#define PGQRS_NOTIFIER_H

#include "postgres.h"

#include "datatype/timestamp.h"

/*
 * Runs one pass, outside of a transaction.  Returns when the next one is due at
 * the latest, by pgqrs_clock(); DT_NOEND: when DUTY_NOTIFY is requested.
 */
extern TimestampTz pgqrs_notify_pass(void);

/* The next pass must not begin before, even if it is requested. */
extern TimestampTz pgqrs_notify_not_before(void);

/* After an error in a pass: the next pass begins with all that it had taken. */
extern void pgqrs_notify_republish(void);

#endif /* PGQRS_NOTIFIER_H */
