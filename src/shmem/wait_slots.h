/*
 * wait_slots.h
 *	  Backends that sleep until something happens, and waking them.
 *
 * Everything here is of the current database.  Where the library is not
 * preloaded nobody can be woken: pgqrs_waiter_possible() tells.
 */
#ifndef PGQRS_WAIT_SLOTS_H
#define PGQRS_WAIT_SLOTS_H

#include "postgres.h"

#include "base/shmem_module.h"

/* What a backend may wait for.  An event without an id has 0 there. */
typedef enum PgqrsWaitEventKind
{
	EVENT_NONE,
	EVENT_QUEUE,	 /* something of a queue became claimable */
	EVENT_QUEUE_SET, /* to wait for it in a set of queues; never happens itself */
	EVENT_RUN,		 /* a run ended */
	EVENT_WORKER,	 /* what a worker holds changed */
	EVENT_WORKER_LIMIT,	 /* a worker's limit is not locked any more */
	EVENT_WORKER_STATUS, /* a worker was suspended, resumed or stopped */
	EVENT_QUEUES, /* which queues there are, or their settings, changed */
	EVENT_RUNS	  /* runs were deleted, or ended unnamed */
} PgqrsWaitEventKind;

typedef struct PgqrsWaitEvent
{
	PgqrsWaitEventKind kind;
	int64 id;
	int slot; /* of a queue: its place in queue_wakeups.c, or -1 */
} PgqrsWaitEvent;

/* So many queues of all databases can have a place. */
#define PGQRS_QUEUE_SLOTS 16384

/* A set of queues, by their places; those without one are in it together. */
typedef struct PgqrsQueueSet
{
	bool unplaced;
	uint64 slots[PGQRS_QUEUE_SLOTS / 64];
} PgqrsQueueSet;

extern void pgqrs_queue_set_add(PgqrsQueueSet *set, int slot);

/* A waiter names at most so many. */
#define PGQRS_MAX_EVENTS 20

extern const PgqrsShmemModule pgqrs_waiter_shmem;
extern bool pgqrs_waiter_possible(void);

/*
 * From now on this backend can be woken by the events.  Called again, they
 * replace those named before; a wake-up that was not taken stays.  set: what
 * EVENT_QUEUE_SET stands for, if that is among them.
 */
extern void pgqrs_waiter_watch(const PgqrsWaitEvent *events, int count,
							   const PgqrsQueueSet *set);

/* Whether there is a wake-up to be taken. */
extern bool pgqrs_waiter_woken(void);

/*
 * Takes the wake-up: this backend can be woken again, and looks after that at
 * what the event says; EVENT_NONE: at everything.  False if there is none.
 */
extern bool pgqrs_waiter_take(PgqrsWaitEvent *event);

/* Waits no longer.  True, and the event, if there was a wake-up that was not taken. */
extern bool pgqrs_waiter_leave(PgqrsWaitEvent *event);

/*
 * Wakes up to max other backends that wait for the event and were not woken
 * yet, or with PG_INT32_MAX every one; how many.  What happened is visible.
 */
extern int pgqrs_waiter_wake(PgqrsWaitEvent event, int max);

/* How many wait for the event, or more: others may be counted with it. */
extern int pgqrs_waiter_count(PgqrsWaitEvent event);

/* Has one backend that waits for the event look at the clock again. */
extern void pgqrs_waiter_nudge(PgqrsWaitEvent event);

/* The same for the one with that pgqrs_backend_number(). */
extern void pgqrs_waiter_nudge_number(int number);

#endif /* PGQRS_WAIT_SLOTS_H */
