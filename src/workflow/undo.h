/*
 * undo.h
 *	  The undo: a run that was asked to stop is delivered, so that its handler
 *	  undoes what it has done.
 */
#ifndef PGQRS_UNDO_H
#define PGQRS_UNDO_H

#include "postgres.h"

#include "workflow/run.h"

/* Whether the undo of the message's run was requested. */
extern bool pgqrs_undo_is_requested(TupleTableSlot *message);

/* Whether the message is held under a lease of the undo. */
extern bool pgqrs_undo_is_held(TupleTableSlot *message);

/* Whether a request to stop would deliver the run instead of ending it. */
extern bool pgqrs_undo_may_begin(PgqrsRunRows *rows);

/* The same of a run whose deadline has passed: no transaction has written the request yet. */
extern bool pgqrs_undo_is_overdue(PgqrsRunRows *rows);

/*
 * Requests the undo.  keep_lease: its holder is asked to stop; otherwise a lease
 * ends, the message is locked exclusively, and the run becomes claimable.  error:
 * of the failure that ends the lease; it stays the message's last error.  A
 * caller that may wait calls pgqrs_cancel_children() once it waits for no more
 * locks; of other callers background work visits the children.
 */
extern void pgqrs_undo_request(PgqrsRunRows *rows, PgqrsUndoCause cause,
							   const char *reason, bool keep_lease,
							   NullableDatum error);

/*
 * A lease from before the request ends: the run becomes claimable.  The message
 * is locked exclusively.
 */
extern void pgqrs_undo_give_up_lease(PgqrsRunRows *rows, NullableDatum error);

/* Notes in the message's new version that the run's children are to be visited. */
extern void pgqrs_undo_note_children(PgqrsRow *message, PgqrsRunRows *rows);

#endif /* PGQRS_UNDO_H */
