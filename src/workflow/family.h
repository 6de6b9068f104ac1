/*
 * family.h
 *	  Parents of a run beside the one that it was triggered by.
 */
#ifndef PGQRS_FAMILY_H
#define PGQRS_FAMILY_H

#include "postgres.h"

#include "base/int64_list.h"
#include "store/table.h"

/*
 * The run becomes a child of another parent, unless it is one of its own; that
 * parent's message is locked.  PQ016 if it is one of the parent's ancestors.
 */
extern void pgqrs_family_join(PgqrsTable *runs, PgqrsTable *messages,
							  int64 run_id, int64 parent, const char *step_id,
							  PgqrsParentEnd on_parent_end);

/* The run has ended: its other parents may be waiting for that. */
extern void pgqrs_family_wake_parents(int64 run_id);

/* Whether a run has joined one that others have triggered. */
extern bool pgqrs_family_has_joined(int64 parent);

/* The runs after an id that a run has joined, and that are to end with it. */
extern void pgqrs_family_add_children(int64 parent, int64 after,
									  PgqrsInt64List *ids);

/* Whether the run has other parents than the one that it was triggered by. */
extern bool pgqrs_family_is_shared(int64 run_id);

/*
 * Whether somebody still wants a run of several parents, whose message is
 * locked: a parent that goes on or has ended well, one that said abandon, or
 * the trigger of a run that had none.
 */
extern bool pgqrs_family_is_held(PgqrsTable *runs, TupleTableSlot *run);

/* Whether a parent that may go on may ask for the result of the run. */
extern bool pgqrs_family_is_asked_for(PgqrsTable *runs, TupleTableSlot *run);

/* Removes what there is of the parents of a run that goes; how many. */
extern int pgqrs_family_remove(int64 run_id);

#endif /* PGQRS_FAMILY_H */
