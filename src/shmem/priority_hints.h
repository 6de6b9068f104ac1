/*
 * priority_hints.h
 *	  Priority hints: queues without messages above the usual priority.
 *
 * Where the library is not preloaded, no queue has a hint.
 */
#ifndef PGQRS_PRIORITY_HINTS_H
#define PGQRS_PRIORITY_HINTS_H

#include "postgres.h"

#include "base/shmem_module.h"

#define PGQRS_USUAL_PRIORITY 0

extern const PgqrsShmemModule pgqrs_priority_hints_shmem;

/* The transaction writes a message. */
extern void pgqrs_priority_hints_written(int64 queue_id, int16 priority);

/*
 * Whether the queue is known to have no index entry above the usual priority.
 * *count: for pgqrs_queue_record_no_urgent().
 */
extern bool pgqrs_queue_has_no_urgent(int64 queue_id, uint64 *count);

/* A scan that began after *count was read found no entry at all. */
extern void pgqrs_queue_record_no_urgent(int64 queue_id, uint64 count);

/* Removes the hints of all sessions, or of this session. */
extern void pgqrs_priority_hints_forget_all(void);
extern void pgqrs_priority_hints_forget(void);

/*
 * Transaction end, called by xact_hooks.c: before a transaction commits or is
 * prepared, and after.
 */
extern void pgqrs_priority_hints_pre_end(void);
extern void pgqrs_priority_hints_end(void);

#endif /* PGQRS_PRIORITY_HINTS_H */
