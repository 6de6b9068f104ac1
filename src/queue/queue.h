/*
 * queue.h
 *	  Queues: found by name, id and pattern; created, altered and paused.
 */
#ifndef PGQRS_QUEUE_H
#define PGQRS_QUEUE_H

#include "postgres.h"

#include "base/catalog.h"
#include "nodes/pg_list.h"
#include "queue/options.h"
#include "store/table.h"

#define PGQRS_NAME_SIZE 256 /* 255 bytes and the end */

/* Settings of a queue; durations in microseconds. */
typedef struct PgqrsQueue
{
	int64 queue_id;
	int64 visibility_timeout;
	int64 retention;
	int64 dead_retention;
	int max_attempts;
	int max_in_flight; /* 0: no limit */
	bool paused;
	bool is_workflow;
	bool delivers_cancel;  /* on_cancel of the workflow is "deliver" */
	TransactionId deleter; /* another transaction that is deleting the row; or
						    * invalid */
	char name[PGQRS_NAME_SIZE];
} PgqrsQueue;

/*
 * Reads a queue by name or id, for any role; false if it does not exist or is
 * deleted.
 */
extern bool pgqrs_queue_by_name(const char *name, PgqrsQueue *queue);
extern bool pgqrs_queue_by_id(int64 queue_id, PgqrsQueue *queue);

/*
 * Reads a queue by name for a transaction that sends to it; waits while its row
 * is being deleted.
 */
extern bool pgqrs_queue_to_send_to(const char *name, PgqrsQueue *queue);

/*
 * Keeps a queue from being deleted until the end of this transaction; false: it
 * does not exist.
 */
extern bool pgqrs_queue_pin(const char *name);

/*
 * Reads a queue by name.  PQ001 if the current role has no privilege on it;
 * 42501 if the role lacks this one.
 */
extern void pgqrs_queue_require(const char *name, PgqrsPrivilege privilege,
								PgqrsQueue *queue);

/*
 * Reads a queue by id; false unless the current role has this privilege on it.
 */
extern bool pgqrs_queue_allows(int64 queue_id, PgqrsPrivilege privilege,
							   PgqrsQueue *queue);

/*
 * Reads a queue by id.  False: the role has no privilege on it, as if it did
 * not exist; 42501: the role lacks this privilege.
 */
extern bool pgqrs_queue_admits(int64 queue_id, PgqrsPrivilege privilege,
							   PgqrsQueue *queue);

/* So many queues will be looked up by id: if they are many, loads all in one scan. */
extern void pgqrs_queue_expect(int count);

/*
 * All queues that match one of the patterns (char *) and on which the current
 * role has the privilege, ordered by id, as PgqrsQueue *.
 */
extern List *pgqrs_queue_match(List *patterns, PgqrsPrivilege privilege);

/* Queues by id, each with its slot in wakeup_table.c, or -1. */
typedef struct PgqrsQueueIds
{
	int count;
	int64 *ids;
	int *slots;
} PgqrsQueueIds;

/*
 * Like pgqrs_queue_match(), but cached; valid until the next call. also: NIL,
 * or further patterns of which one must match, too.
 */
extern const PgqrsQueueIds *pgqrs_queue_match_ids(List *patterns, List *also,
												  PgqrsPrivilege privilege);

extern bool pgqrs_queue_has_archived(int64 queue_id);

/* Upper limit of a lease. */
#define PGQRS_MAX_VISIBILITY_TIMEOUT (366 * USECS_PER_DAY)

/* Initializes the options of a queue; none is given. */
extern void pgqrs_queue_defaults(PgqrsOptions *s);

extern int64 pgqrs_queue_create(const char *name, const PgqrsOptions *s);
extern void pgqrs_queue_alter(const char *name, const PgqrsOptions *s);
extern void pgqrs_queue_pause(const char *name, bool pause);

/*
 * For other administrative functions: rows of pgqrs_queues that are not deleted
 */
extern bool pgqrs_queue_insert(PgqrsTable *queues, const char *name,
							   bool is_workflow, const PgqrsOptions *s,
							   int64 *queue_id);
extern bool pgqrs_queue_find(PgqrsTable *queues, const char *name,
							 TupleTableSlot *slot);
extern bool pgqrs_queue_lock(PgqrsTable *queues, const char *name,
							 LockTupleMode mode, TupleTableSlot *slot);
extern void pgqrs_queue_store(PgqrsTable *queues, TupleTableSlot *slot,
							  const PgqrsOptions *s);

#endif /* PGQRS_QUEUE_H */
