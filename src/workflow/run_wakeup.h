/*
 * run_wakeup.h
 *	  Runs that are parked until a signal or the end of a child, and who
 *	  wakes them.
 */
#ifndef PGQRS_RUN_WAKEUP_H
#define PGQRS_RUN_WAKEUP_H

#include "postgres.h"

#include "store/table.h"

/*
 * What a run waits for, as waiting_for says it.  Of a run it is told whatever
 * it waits for; of its message only what somebody else ends.
 */
#define PGQRS_WAIT_PAUSE		"pause "
#define PGQRS_WAIT_SLEEP		"sleep "
#define PGQRS_WAIT_SIGNAL		"signal "
#define PGQRS_WAIT_CHILD		"child "
#define PGQRS_WAIT_ALL_CHILDREN "all children "
#define PGQRS_WAIT_ANY_CHILD	"any child "

/* The longest of them with a name or step id of 255 bytes. */
#define PGQRS_WAIT_SIZE 300

/*
 * waiting_for of the archived message of a run that has ended and whose
 * children are still to be cancelled: those with a greater id than follows.
 */
#define PGQRS_LEFT_CHILDREN "children after "

/* What follows one of the kinds above, or NULL if it is another one. */
extern const char *pgqrs_run_wakeup_waits_for(const char *waiting_for,
											  const char *kind);

/*
 * Whoever looks at a parked run: makes it claimable if what it waits for is
 * there.  False: somebody has its message locked, so look again later; true:
 * nothing is left to do.
 */
extern bool pgqrs_run_wakeup_recheck(int64 run_id);

/*
 * After what a run may wait for was written, and after a run has parked: it is
 * looked at once more when this transaction has committed.  The sender also
 * wakes it at once if nobody has it locked.
 */
extern void pgqrs_run_wakeup_sent(int64 run_id);
extern void pgqrs_run_wakeup_parked(int64 run_id);

/* The oldest signal of a name that nobody has taken. */
extern bool pgqrs_run_wakeup_find_signal(PgqrsTable *signals, TupleTableSlot *slot,
										 int64 run_id, const char *name);

/*
 * Looks at up to max parked runs, the next ones each time, from the start once
 * fewer are left, or after a restart; how many were woken.  more: there may be
 * others.
 */
extern int pgqrs_run_wakeup_pass(int max, bool *more);
extern void pgqrs_run_wakeup_restart(void);

#endif /* PGQRS_RUN_WAKEUP_H */
