/*
 * run_wakeup.h
 *	  Wake-ups of runs that wait for a signal or for the end of a child.
 */
#ifndef PGQRS_RUN_WAKEUP_H
#define PGQRS_RUN_WAKEUP_H

#include "postgres.h"

#include "store/table.h"

/*
 * The kinds of waiting_for.  A run stores each of them; its message only those
 * whose wait another transaction ends.
 */
#define PGQRS_WAIT_PAUSE		"pause "
#define PGQRS_WAIT_SLEEP		"sleep "
#define PGQRS_WAIT_SIGNAL		"signal "
#define PGQRS_WAIT_CHILD		"child "
#define PGQRS_WAIT_ALL_CHILDREN "all children "
#define PGQRS_WAIT_ANY_CHILD	"any child "
#define PGQRS_WAIT_ANY			"any of "

/* The longest waiting_for, with a name or step id of 255 bytes. */
#define PGQRS_WAIT_SIZE 300

/*
 * waiting_for in the archived message of an ended run whose children are to be
 * cancelled: those with a greater id than the one that follows.
 */
#define PGQRS_CHILDREN_LEFT "children after "

/* The text after the given kind, or NULL if waiting_for is of another kind. */
extern const char *pgqrs_run_wakeup_waits_for(const char *waiting_for,
											  const char *kind);

/*
 * Makes a waiting run claimable if its condition holds.  False: another
 * transaction has its message locked, so the run has to be rechecked; true:
 * nothing is left to do.
 */
extern bool pgqrs_run_wakeup_recheck(int64 run_id);

/*
 * Called after a signal to the run or the end of a child was written: wakes the
 * run if its message is not locked, and otherwise requests a recheck after this
 * transaction commits.
 */
extern void pgqrs_run_wakeup_sent(int64 run_id);
extern void pgqrs_run_wakeup_suspended(int64 run_id);

/* The oldest signal of that name that has not been consumed. */
extern bool pgqrs_run_wakeup_find_signal(PgqrsTable *signals, TupleTableSlot *slot,
										 int64 run_id, const char *name);

/*
 * Rechecks up to max waiting runs, those after the last call's, and starts over
 * once fewer are left, or after a restart; returns how many were woken.  more:
 * there may be others.
 */
extern int pgqrs_run_wakeup_pass(int max, bool *more);
extern void pgqrs_run_wakeup_restart(void);

#endif /* PGQRS_RUN_WAKEUP_H */
