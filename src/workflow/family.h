/*
 * family.h
 *	  Additional parents of a run, beside the one that triggered it.
 */
#ifndef PGQRS_FAMILY_H
#define PGQRS_FAMILY_H

#include "postgres.h"

#include "base/int64_list.h"
#include "store/table.h"

/*
 * Makes the run a child of another parent, unless it is its child already; the
 * caller has the parent's message locked.  PQ016 if the run is an ancestor of
 * the parent.
 */
extern void pgqrs_family_join(PgqrsTable *runs, PgqrsTable *messages,
							  int64 run_id, int64 parent, const char *step_id,
							  PgqrsParentEnd on_parent_end);

/* The run has ended: wakes its additional parents that wait for it. */
extern void pgqrs_family_wake_parents(int64 run_id);

/* Whether the run has joined an existing run as its child. */
extern bool pgqrs_family_has_joined(int64 parent);

/*
 * Whether the run is or was undone, so that the children of the undo go on while
 * the others end: unless the undo has failed, with which all children end.
 */
extern bool pgqrs_family_keeps_children_of_undo(TupleTableSlot *parent);

/* Whether the parent's undo has started the child of that step. */
extern bool pgqrs_family_is_of_undo(int64 parent, Datum step_id);

/*
 * Adds the ids, after the given one, of the joined runs that have to end with
 * the parent.  spares_undo: those of its undo are left out.
 */
extern void pgqrs_family_add_children(int64 parent, int64 after,
									  bool spares_undo, PgqrsInt64List *ids);

/* Whether the run has additional parents. */
extern bool pgqrs_family_is_shared(int64 run_id);

/*
 * Whether a run with several parents has to continue: one of them has not ended
 * or has ended with SUCCESS, one joined with on_parent_end abandon, or the run
 * was triggered without a parent.  The caller has the run's message locked.
 */
extern bool pgqrs_family_is_needed(PgqrsTable *runs, TupleTableSlot *run);

/* Whether a parent that may continue may still ask for the run's result. */
extern bool pgqrs_family_may_be_asked_for(PgqrsTable *runs, TupleTableSlot *run);

/*
 * Removes the additional parents of a run that is removed; returns their
 * number.
 */
extern int pgqrs_family_remove(int64 run_id);

#endif /* PGQRS_FAMILY_H */
