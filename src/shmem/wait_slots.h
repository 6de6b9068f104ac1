/*
 * wait_slots.h
 *	  Backends that sleep until something happens, and waking them.
 *
 * Everything here is of the current database.  Where the library is not
 * preloaded no backend can be woken, see pgqrs_wait_is_possible().
 */
#ifndef PGQRS_WAIT_SLOTS_H
#define PGQRS_WAIT_SLOTS_H

#include "postgres.h"

#include "base/shmem_module.h"

/*
 * What happens: a transaction records it (xact_wakeups.h), waiting backends are
 * woken for it, and the background worker sends notifications of it (wakeup_table.h).
 */
typedef enum PgqrsWakeupKind
{
	WAKEUP_NONE,
	WAKEUP_QUEUE,		   /* messages of a queue became claimable */
	WAKEUP_QUEUE_SETTINGS, /* a queue has other settings: more may be claimable */
	WAKEUP_QUEUE_DELETED,
	WAKEUP_QUEUE_LIMIT,	  /* a queue's limit is not locked any more */
	WAKEUP_QUEUES,		  /* the list of queues, or a setting of one, changed */
	WAKEUP_QUEUE_SET,	  /* any of a set of queues: only waited for */
	WAKEUP_WORKER,		  /* what a worker holds changed */
	WAKEUP_WORKER_LIMIT,  /* a worker's limit is not locked any more */
	WAKEUP_WORKER_STATUS, /* a worker was suspended, resumed or stopped */
	WAKEUP_RUN,			  /* a run ended, or may have what it is parked for */
	WAKEUP_RUN_BLOCK,	  /* the same for some of a block of runs */
	WAKEUP_RUNS			  /* runs were deleted, or ended unnamed */
} PgqrsWakeupKind;

typedef struct PgqrsWakeup
{
	PgqrsWakeupKind kind;
	int slot; /* of a queue: in wakeup_table.c, or -1 */
	int64 id; /* 0 where the kind has none */
} PgqrsWakeup;

/* So many queues of all databases can have a slot. */
#define PGQRS_QUEUE_SLOTS 16384

/* A set of queues, by their slots; those without one are in it together. */
typedef struct PgqrsQueueSet
{
	bool unplaced;
	uint64 slots[PGQRS_QUEUE_SLOTS / 64];
} PgqrsQueueSet;

extern void pgqrs_queue_set_add(PgqrsQueueSet *set, int slot);

/* A waiter names at most so many. */
#define PGQRS_MAX_WAKEUPS 20

extern const PgqrsShmemModule pgqrs_wait_shmem;
extern bool pgqrs_wait_is_possible(void);

/*
 * From now on this backend can be woken for these.  Called again, they replace
 * those named before; a wake-up that was not taken stays.  set: what
 * WAKEUP_QUEUE_SET stands for, if that is among them.
 */
extern void pgqrs_wait_watch(const PgqrsWakeup *wakeups, int count,
							 const PgqrsQueueSet *set);

/* Whether there is a wake-up to be taken. */
extern bool pgqrs_wait_is_woken(void);

/*
 * Takes the wake-up: this backend can be woken again, and looks after that at
 * what the wake-up says; WAKEUP_NONE: at everything.  False if there is none.
 */
extern bool pgqrs_wait_take(PgqrsWakeup *wakeup);

/* Waits no longer.  True, and the wake-up, if there was one that was not taken. */
extern bool pgqrs_wait_leave(PgqrsWakeup *wakeup);

/*
 * Wakes up to max other backends that wait for this and were not woken yet, or
 * with PG_INT32_MAX every one; how many.  What happened is visible.
 */
extern int pgqrs_wait_wake(PgqrsWakeup wakeup, int max);
extern void pgqrs_wait_wake_all(PgqrsWakeupKind kind, int64 id);

/* How many wait for this, or more: others may be counted with it. */
extern int pgqrs_wait_count(PgqrsWakeup wakeup);

/*
 * Has one backend that waits for this look at the clock again; or the one with
 * that pgqrs_backend_number().
 */
extern void pgqrs_wait_signal_timekeeper(PgqrsWakeup wakeup);
extern void pgqrs_wait_signal_number(int number);

#endif /* PGQRS_WAIT_SLOTS_H */
