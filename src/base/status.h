/*
 * status.h
 *	  Statuses of runs, steps and messages, and the transitions between them.
 */
#ifndef PGQRS_STATUS_H
#define PGQRS_STATUS_H

#include "postgres.h"

#include "base/catalog.h"

/*
 * The state of a message follows from its lease and its archive row; no column
 * stores it.
 */
typedef enum PgqrsMessageState
{
	MESSAGE_WAITING, /* without a lease: due, delayed or the message of a
					  * waiting run */
	MESSAGE_HELD,	 /* leased, expired or not */
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
