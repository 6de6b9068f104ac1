/*
 * wait_slots.h
 *	  Wait slots: backends that sleep until another backend wakes them.
 *
 * All calls concern the current database.  Where the library is not preloaded
 * no backend can be woken, see pgqrs_wait_is_possible().
 */
#ifndef PGQRS_WAIT_SLOTS_H
#define PGQRS_WAIT_SLOTS_H

#include "postgres.h"

#include "base/shmem_module.h"

/*
 * Reasons for a wake-up: a transaction records them (xact_wakeups.h), waiting
 * backends are woken for them, and the background worker sends notifications of
 * them (wakeup_table.h).
 */
typedef enum PgqrsWakeupKind
{
	WAKEUP_NONE,
	WAKEUP_QUEUE,		   /* messages of a queue became claimable */
	WAKEUP_QUEUE_SETTINGS, /* a queue's settings changed: more may be claimable */
	WAKEUP_QUEUE_DELETED,
	WAKEUP_QUEUE_LIMIT,	  /* a queue's limit was unlocked */
	WAKEUP_QUEUES,		  /* the list of queues, or a setting of a queue,
						   * changed */
	WAKEUP_QUEUE_SET,	  /* any queue of a set: for waiters only */
	WAKEUP_WORKER,		  /* the messages that a worker holds changed */
	WAKEUP_WORKER_LIMIT,  /* a worker's limit was unlocked */
	WAKEUP_WORKER_POLL,	  /* there is a newer poll of a worker */
	WAKEUP_WORKER_STATUS, /* a worker was suspended, resumed or stopped */
	WAKEUP_RUN,		  /* a run ended, or a waiting run may have become ready */
	WAKEUP_RUN_SET,	  /* any run of a set: for waiters only */
	WAKEUP_RUN_BLOCK, /* the same for any run of a block */
	WAKEUP_RUNS		  /* runs were deleted, or ended without a record of
						   * their ids */
} PgqrsWakeupKind;

typedef struct PgqrsWakeup
{
	PgqrsWakeupKind kind;
	int slot; /* slot of a queue in wakeup_table.c, or -1 */
	int64 id; /* 0 for kinds without an id */
} PgqrsWakeup;

/* Number of slots for queues, for all databases together. */
#define PGQRS_QUEUE_SLOTS 32768

/*
 * A set of queues, by their slots; all queues without a slot are the last member.
 * Or a set of runs, by a hash: it may seem to have a run that it has not.
 */
typedef struct PgqrsQueueSet
{
	uint64 members[PGQRS_QUEUE_SLOTS / 64 + 1];
} PgqrsQueueSet;

extern void pgqrs_queue_set_add(PgqrsQueueSet *set, int slot);
extern void pgqrs_queue_set_add_run(PgqrsQueueSet *set, int64 run_id);

/* Wake-ups per waiter. */
#define PGQRS_MAX_WAKEUPS 20

extern const PgqrsShmemModule pgqrs_wait_shmem;
extern bool pgqrs_wait_is_possible(void);

/*
 * Registers this backend for these wake-ups.  A later call replaces the list; a
 * wake-up that was not taken stays. set: the members of WAKEUP_QUEUE_SET or
 * WAKEUP_RUN_SET, if the list contains one of them.
 */
extern void pgqrs_wait_watch(const PgqrsWakeup *wakeups, int count,
							 const PgqrsQueueSet *set);

/* Whether this backend was woken. */
extern bool pgqrs_wait_is_woken(void);

/*
 * Takes the wake-up; false if there is none.  The backend can be woken again
 * from here on, and then checks what the wake-up names; WAKEUP_NONE:
 * everything.
 */
extern bool pgqrs_wait_take(PgqrsWakeup *wakeup);

/* Unregisters this backend.  True, and the wake-up, if one was not taken. */
extern bool pgqrs_wait_leave(PgqrsWakeup *wakeup);

/*
 * Wakes up to max other backends that wait for this and are not woken yet, or
 * with PG_INT32_MAX all of them; returns their number.  The reason for the
 * wake-up must be visible to snapshots already.
 */
extern int pgqrs_wait_wake(PgqrsWakeup wakeup, int max);
extern void pgqrs_wait_wake_all(PgqrsWakeupKind kind, int64 id);

/*
 * The number of waiters for this wake-up; other waiters may be counted with
 * them.
 */
extern int pgqrs_wait_count(PgqrsWakeup wakeup);

/*
 * Makes one waiter for this wake-up read the clock again, or the backend with
 * this pgqrs_backend_number().
 */
extern void pgqrs_wait_signal_timekeeper(PgqrsWakeup wakeup);
extern void pgqrs_wait_signal_number(int number);

#endif /* PGQRS_WAIT_SLOTS_H */
