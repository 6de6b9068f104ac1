/*
 * queue.h
 *	  Queues by name, by id and by pattern.
 */
#ifndef PGQRS_QUEUE_H
#define PGQRS_QUEUE_H

#include "postgres.h"

#include "base/catalog.h"
#include "nodes/pg_list.h"
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
	TransactionId deleter; /* an open transaction that deletes it, or invalid */
	char name[PGQRS_NAME_SIZE];
} PgqrsQueue;

/* By name or id, whoever asks; false if there is none. */
extern bool pgqrs_queue_by_name(const char *name, PgqrsQueue *queue);
extern bool pgqrs_queue_by_id(int64 queue_id, PgqrsQueue *queue);

/* By name for a transaction that sends to it: not while it is being deleted. */
extern bool pgqrs_queue_to_send_to(const char *name, PgqrsQueue *queue);

/* By name for a role that has the privilege: else PQ001, or 42501 if it may see it. */
extern void pgqrs_queue_require(const char *name, PgqrsPrivilege privilege,
								PgqrsQueue *queue);

/* Whether the current role has the privilege; *visible: whether it has any. */
extern bool pgqrs_queue_allows(const PgqrsQueue *queue,
							   PgqrsPrivilege privilege, bool *visible);

/* For a caller that is about to look up many by id: one scan, not one for each. */
extern void pgqrs_queue_remember_all(void);

/*
 * All queues that match one of the patterns (char *) and on which the current
 * role has the privilege, in order of id, as PgqrsQueue *.
 */
extern List *pgqrs_queue_match(List *patterns, PgqrsPrivilege privilege);

/* Queues by their ids, each with its place in queue_wakeups.c, or -1. */
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

/* Whether a table has rows of a queue; the index begins with the queue's id. */
extern bool pgqrs_queue_has(PgqrsTableId table, PgqrsIndexId index, int64 queue_id);
extern bool pgqrs_queue_has_archived(int64 queue_id);

#endif /* PGQRS_QUEUE_H */
