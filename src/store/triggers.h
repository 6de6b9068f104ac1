/*
 * triggers.h
 *	  The extension's own triggers, which report direct DML.
 */
#ifndef PGQRS_TRIGGERS_H
#define PGQRS_TRIGGERS_H

#include "postgres.h"

#include "utils/rel.h"

/*
 * Makes the table's own trigger fire ALWAYS again, as CREATE EXTENSION made it:
 * ENABLE TRIGGER ALL, as used by pg_restore, makes it fire in ordinary sessions
 * only. disabled: also a disabled trigger.  The caller holds
 * ShareRowExclusiveLock.  True: the trigger was changed.
 */
extern bool pgqrs_trigger_restore(Relation rel, bool disabled);

/* The same for all tables; false: a table was locked and is left for later. */
extern bool pgqrs_triggers_restore(void);

#endif /* PGQRS_TRIGGERS_H */
