/*
 * priority_hints.h
 *	  Which queues have nothing above the usual priority.
 *
 * A hint: where the library is not preloaded, nothing is known.
 */
#ifndef PGQRS_PRIORITY_HINTS_H
#define PGQRS_PRIORITY_HINTS_H

#include "postgres.h"

#include "base/shmem_module.h"

#define PGQRS_USUAL_PRIORITY 0

extern const PgqrsShmemModule pgqrs_priority_hints_shmem;

/* The transaction writes a message. */
extern void pgqrs_priority_hints_written(int64 queue_id, int16 priority);

/* Whether the queue is known to have no index entry above; count: for note. */
extern bool pgqrs_queue_has_no_urgent(int64 queue_id, uint64 *count);

/* A search that began after the count was read found no entry at all. */
extern void pgqrs_queue_record_no_urgent(int64 queue_id, uint64 count);

/* What is known counts no more: in any session, or in this one. */
extern void pgqrs_priority_hints_forget_all(void);
extern void pgqrs_priority_hints_forget(void);

/* The end of a transaction, called by xact_hooks.c: before it commits or is prepared, and after. */
extern void pgqrs_priority_hints_pre_end(void);
extern void pgqrs_priority_hints_end(void);

#endif /* PGQRS_PRIORITY_HINTS_H */
