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
	TransactionId deleter; /* another transaction that is deleting its row, or invalid */
	char name[PGQRS_NAME_SIZE];
} PgqrsQueue;

/* By name or id, for any role; false if there is none, or it is deleted. */
extern bool pgqrs_queue_by_name(const char *name, PgqrsQueue *queue);
extern bool pgqrs_queue_by_id(int64 queue_id, PgqrsQueue *queue);

/* By name for a transaction that sends to it: not while its row is being deleted. */
extern bool pgqrs_queue_to_send_to(const char *name, PgqrsQueue *queue);

/* Keeps it from being deleted until this transaction ends; false: there is none. */
extern bool pgqrs_queue_pin(const char *name);

/* By name for a role that has the privilege: else PQ001, or 42501 if it may see it. */
extern void pgqrs_queue_require(const char *name, PgqrsPrivilege privilege,
								PgqrsQueue *queue);

/* By id for a role that has any privilege on it, or that one. */
extern bool pgqrs_queue_visible(int64 queue_id, PgqrsQueue *queue);
extern bool pgqrs_queue_allows(int64 queue_id, PgqrsPrivilege privilege,
							   PgqrsQueue *queue);

/*
 * By id for a role that has the privilege.  False: the role has none at all, and
 * the answer is that of a queue that does not exist; 42501: it has another one.
 */
extern bool pgqrs_queue_admits(int64 queue_id, PgqrsPrivilege privilege,
							   PgqrsQueue *queue);

/* For a caller that is about to look up many by id: one scan, not one for each. */
extern void pgqrs_queue_remember_all(void);

/*
 * All queues that match one of the patterns (char *) and on which the current
 * role has the privilege, in order of id, as PgqrsQueue *.
 */
extern List *pgqrs_queue_match(List *patterns, PgqrsPrivilege privilege);

/* Queues by their ids, each with its slot in wakeup_table.c, or -1. */
typedef struct PgqrsQueueIds
{
	int count;
	int64 *ids;
	int *slots;
} PgqrsQueueIds;

/*
 * The same by id, remembered between calls; good until the next one.  also: NIL,
 * or patterns of which one has to match, too.
 */
extern const PgqrsQueueIds *pgqrs_queue_match_ids(List *patterns, List *also,
												  PgqrsPrivilege privilege);

extern bool pgqrs_queue_has_archived(int64 queue_id);

/* A lease of more than a year is a mistake. */
#define PGQRS_MAX_VISIBILITY_TIMEOUT (366 * USECS_PER_DAY)

/* No option is given. */
extern void pgqrs_queue_defaults(PgqrsOptions *s);

extern int64 pgqrs_queue_create(const char *name, const PgqrsOptions *s);
extern void pgqrs_queue_alter(const char *name, const PgqrsOptions *s);
extern void pgqrs_queue_pause(const char *name, bool pause);

/*
 * For other administration: rows of pgqrs_queues that are not deleted.
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
