/*
 * status.h
 *	  The states of runs, steps and messages, and the moves between them.
 */
#ifndef PGQRS_STATUS_H
#define PGQRS_STATUS_H

#include "postgres.h"

#include "base/catalog.h"

/* No column has it: what lease and archive say of a message. */
typedef enum PgqrsMessageState
{
	MESSAGE_WAITING, /* nobody holds it: due, delayed or parked */
	MESSAGE_HELD,	 /* under a lease, live or not */
	MESSAGE_DONE,
	MESSAGE_DEAD,
	MESSAGE_DELETED,
	MESSAGE_CANCELLED,
	MESSAGE_STATE_COUNT
} PgqrsMessageState;

extern bool pgqrs_run_may_move(PgqrsRunStatus from, PgqrsRunStatus to);
extern bool pgqrs_step_may_move(PgqrsStepStatus from, PgqrsStepStatus to);
extern bool pgqrs_message_may_move(PgqrsMessageState from, PgqrsMessageState to);

extern PgqrsMessageState pgqrs_message_state_of_outcome(PgqrsOutcome outcome);

#endif /* PGQRS_STATUS_H */
