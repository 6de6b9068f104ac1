/*
 * levels.h
 *	  Which queues have nothing above the usual priority.
 *
 * A hint: where the library is not preloaded, nothing is known.
 */
#ifndef PGQRS_LEVELS_H
#define PGQRS_LEVELS_H

#include "postgres.h"

#include "base/shmem_module.h"

#define PGQRS_USUAL_PRIORITY 0

extern const PgqrsShmemModule pgqrs_levels_shmem;

/* The transaction writes a message. */
extern void pgqrs_levels_written(int64 queue_id, int16 priority);

/* Whether the queue is known to have no index entry above; count: for note. */
extern bool pgqrs_levels_none_above(int64 queue_id, uint64 *count);

/* A search that began after the count was read found no entry at all. */
extern void pgqrs_levels_note_none(int64 queue_id, uint64 count);

/* What is known counts no more: in any session, or in this one. */
extern void pgqrs_levels_forget_all(void);
extern void pgqrs_levels_forget(void);

/* The end of a transaction, called by xact_hooks.c: before it commits or is prepared, and after. */
extern void pgqrs_levels_pre_end(void);
extern void pgqrs_levels_end(void);

#endif /* PGQRS_LEVELS_H */
