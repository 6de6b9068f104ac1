/*
 * triggers.h
 *	  The extension's own triggers, which report rows written past the functions.
 */
#ifndef PGQRS_TRIGGERS_H
#define PGQRS_TRIGGERS_H

#include "postgres.h"

#include "utils/rel.h"

/*
 * Makes the table's own trigger fire ALWAYS again, as CREATE EXTENSION made it:
 * ENABLE TRIGGER ALL, as pg_restore uses it, leaves it to ordinary sessions
 * alone.  disabled: also if it is disabled.  The caller holds
 * ShareRowExclusiveLock.  True: it did not.
 */
extern bool pgqrs_trigger_restore(Relation rel, bool disabled);

/* The same for all tables; false: a table was locked, and is left to later. */
extern bool pgqrs_triggers_restore(void);

#endif /* PGQRS_TRIGGERS_H */
