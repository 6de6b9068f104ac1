/*
 * status.c
 *	  Statuses of runs, steps and messages, and the transitions between them.
 *
 * The one list of allowed transitions.  A transaction that changes a row locks
 * the row, then asks here; the documentation shows the same list.
 */
#include "base/status.h"

/*
 * Only a replay leaves ERROR.  RUNNING to RUNNING is the next claim after a
 * retry or a crash.
 */
static const bool run_moves[RUN_STATUS_COUNT][RUN_STATUS_COUNT] = {
	[RUN_QUEUED][RUN_RUNNING] = true,	[RUN_QUEUED][RUN_ERROR] = true,
	[RUN_QUEUED][RUN_CANCELLED] = true, [RUN_RUNNING][RUN_RUNNING] = true,
	[RUN_RUNNING][RUN_PAUSED] = true,	[RUN_RUNNING][RUN_SUCCESS] = true,
	[RUN_RUNNING][RUN_ERROR] = true,	[RUN_RUNNING][RUN_CANCELLED] = true,
	[RUN_PAUSED][RUN_RUNNING] = true,	[RUN_PAUSED][RUN_ERROR] = true,
	[RUN_PAUSED][RUN_CANCELLED] = true, [RUN_ERROR][RUN_QUEUED] = true,
};

/*
 * RUNNING to RUNNING is the next attempt after a crash.  A step goes from
 * PENDING to an end without RUNNING if the begin of its last attempt was lost
 * in a crash.  Only a replay leaves ERROR; it also makes a child that had not
 * ended PENDING.
 */
static const bool step_moves[STEP_STATUS_COUNT][STEP_STATUS_COUNT] = {
	[STEP_PENDING][STEP_RUNNING] = true, [STEP_PENDING][STEP_PENDING] = true,
	[STEP_PENDING][STEP_SUCCESS] = true, [STEP_PENDING][STEP_ERROR] = true,
	[STEP_PENDING][STEP_PAUSED] = true,	 [STEP_RUNNING][STEP_RUNNING] = true,
	[STEP_RUNNING][STEP_PENDING] = true, [STEP_RUNNING][STEP_SUCCESS] = true,
	[STEP_RUNNING][STEP_ERROR] = true,	 [STEP_RUNNING][STEP_PAUSED] = true,
	[STEP_PAUSED][STEP_PAUSED] = true,	 [STEP_PAUSED][STEP_SUCCESS] = true,
	[STEP_PAUSED][STEP_ERROR] = true,	 [STEP_PAUSED][STEP_PENDING] = true,
	[STEP_ERROR][STEP_PENDING] = true,
};

/*
 * WAITING to WAITING: an operator or a wake-up moves a message.  HELD to HELD:
 * a claim after the lease has expired.  Only a held message can be done or
 * deleted.  A waiting message can die: deadlines and limits apply to it, too.
 */
static const bool message_moves[MESSAGE_STATE_COUNT][MESSAGE_STATE_COUNT] = {
	[MESSAGE_WAITING][MESSAGE_WAITING] = true,
	[MESSAGE_WAITING][MESSAGE_HELD] = true,
	[MESSAGE_WAITING][MESSAGE_DEAD] = true,
	[MESSAGE_WAITING][MESSAGE_CANCELLED] = true,
	[MESSAGE_HELD][MESSAGE_HELD] = true,
	[MESSAGE_HELD][MESSAGE_WAITING] = true,
	[MESSAGE_HELD][MESSAGE_DONE] = true,
	[MESSAGE_HELD][MESSAGE_DEAD] = true,
	[MESSAGE_HELD][MESSAGE_DELETED] = true,
	[MESSAGE_HELD][MESSAGE_CANCELLED] = true,
	[MESSAGE_DEAD][MESSAGE_WAITING] = true,
	[MESSAGE_DEAD][MESSAGE_DELETED] = true,
};

bool
pgqrs_run_may_move(PgqrsRunStatus from, PgqrsRunStatus to)
{
	return run_moves[from][to];
}

bool
pgqrs_step_may_move(PgqrsStepStatus from, PgqrsStepStatus to)
{
	return step_moves[from][to];
}

bool
pgqrs_message_may_move(PgqrsMessageState from, PgqrsMessageState to)
{
	return message_moves[from][to];
}

PgqrsMessageState
pgqrs_message_state_of_outcome(PgqrsOutcome outcome)
{
	static const PgqrsMessageState states[OUTCOME_COUNT] = {
		[OUTCOME_DONE] = MESSAGE_DONE,
		[OUTCOME_DEAD] = MESSAGE_DEAD,
		[OUTCOME_DELETED] = MESSAGE_DELETED,
		[OUTCOME_CANCELLED] = MESSAGE_CANCELLED,
	};

	return states[outcome];
}
