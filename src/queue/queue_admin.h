/*
 * queue_admin.h
 *	  Creating, altering and pausing queues.
 */
#ifndef PGQRS_QUEUE_ADMIN_H
#define PGQRS_QUEUE_ADMIN_H

#include "postgres.h"

#include "queue/options.h"
#include "store/table.h"

/* The settings of a queue, in the order of the arguments. */
typedef enum PgqrsQueueSetting
{
	QUEUE_VISIBILITY_TIMEOUT,
	QUEUE_MAX_ATTEMPTS,
	QUEUE_MAX_IN_FLIGHT,
	QUEUE_RETENTION,
	QUEUE_DEAD_RETENTION,
	QUEUE_FLOW,
	QUEUE_SETTING_COUNT = QUEUE_FLOW + FLOW_SETTING_COUNT
} PgqrsQueueSetting;

/* A lease of more than a year is a mistake. */
#define PGQRS_MAX_VISIBILITY_TIMEOUT (366 * USECS_PER_DAY)

extern void pgqrs_queue_defaults(PgqrsSettings *s);

extern int64 pgqrs_queue_create(const char *name, const PgqrsSettings *s);
extern void pgqrs_queue_alter(const char *name, const PgqrsSettings *s);
extern void pgqrs_queue_pause(const char *name, bool pause);

/* For the administration of workflows: rows of pgqrs_queues. */
extern bool pgqrs_queue_insert(PgqrsTable *queues, const char *name,
							   bool is_workflow, const PgqrsSettings *s,
							   int64 *queue_id);
extern bool pgqrs_queue_find(PgqrsTable *queues, const char *name,
							 TupleTableSlot *slot);
extern bool pgqrs_queue_lock(PgqrsTable *queues, const char *name,
							 LockTupleMode mode, TupleTableSlot *slot);
extern void pgqrs_queue_store(PgqrsTable *queues, TupleTableSlot *slot,
							  const PgqrsSettings *s);

#endif /* PGQRS_QUEUE_ADMIN_H */
