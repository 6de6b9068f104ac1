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

extern bool pgqrs_state_run_may(PgqrsRunStatus from, PgqrsRunStatus to);
extern bool pgqrs_state_step_may(PgqrsStepStatus from, PgqrsStepStatus to);
extern bool pgqrs_state_message_may(PgqrsMessageState from, PgqrsMessageState to);

extern PgqrsMessageState pgqrs_state_of_outcome(PgqrsOutcome outcome);

#endif /* PGQRS_STATUS_H */
