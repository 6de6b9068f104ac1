/*
 * run.h
 *	  Workflow runs: trigger, complete, fail, end.
 */
#ifndef PGQRS_RUN_H
#define PGQRS_RUN_H

#include "postgres.h"

#include "message.h"
#include "rows.h"
#include "workflow.h"

/*
 * The tables of a run, open for writing, and the rows of one run in them: the
 * message locked, then the run read.  For ended runs there is no message.
 */
typedef struct PgqrsRunRows
{
	PgqrsTable *messages;
	PgqrsTable *runs;
	TupleTableSlot *message;
	TupleTableSlot *run;
	bool		has_message;
	PgqrsQueue	queue;
} PgqrsRunRows;

/* What a trigger asks for; NULL pointers and absent Datums where not given. */
typedef struct PgqrsNewRun
{
	PgqrsWhen	when;
	int			priority;
	int64		timeout;		/* microseconds, 0: the workflow's */
	bool		has_input;
	Datum		input;
	bool		has_tags;
	Datum		tags;
	bool		has_headers;
	Datum		headers;
	bool		has_retry_policy;
	Datum		retry_policy;
	const char *idempotency_key;
	bool		raise_duplicate;	/* on_duplicate => 'raise' */
	bool		require_worker;
} PgqrsNewRun;

/* Opens the tables and slots; close when done. */
extern void pgqrs_run_open(PgqrsRunRows *rows);
extern void pgqrs_run_close(PgqrsRunRows *rows);

/*
 * Finds a run, its message locked in the given mode if it has one.  False if
 * there is none or the current role has no privilege on its workflow.
 */
extern bool pgqrs_run_find(PgqrsRunRows *rows, int64 run_id,
						   LockTupleMode mode);

extern PgqrsRunStatus pgqrs_run_status(TupleTableSlot *run);
extern bool pgqrs_run_status_terminal(PgqrsRunStatus status);

/* Under a lease */
typedef enum PgqrsFence
{
	FENCE_CANCEL = 1,			/* a cancel request stops the call: PQ010 */
} PgqrsFence;

extern void pgqrs_run_fence(PgqrsRunRows *rows, int64 run_id, int64 lease,
							LockTupleMode mode, int flags);

extern int64 pgqrs_run_trigger(const char *workflow, const PgqrsNewRun *r);
extern void pgqrs_run_trigger_batch(const char *workflow, const PgqrsNewRun *r,
									int count, const Datum *inputs,
									const bool *no_inputs, char **keys,
									const Datum *tags, const bool *no_tags,
									int64 *ids);
extern void pgqrs_run_complete(int64 run_id, int64 lease, Datum output);
extern bool pgqrs_run_fail(int64 run_id, int64 lease, Datum error,
						   bool retryable, int64 retry_after,
						   TimestampTz *retry_at);
extern void pgqrs_run_set_progress(int64 run_id, int64 lease, bool has,
								   Datum progress);

/*
 * Ends the run whose rows are found and whose message is locked exclusively:
 * status, output or error, completed_at, and the message archived accordingly.
 */
extern void pgqrs_run_end(PgqrsRunRows *rows, PgqrsRunStatus status,
						  bool has_output, Datum output,
						  bool has_error, Datum error);

/*
 * A failure, of the run or of a step of it, that may be retried: gives the
 * lease up and returns true with the time of the retry, or returns false when
 * the policy, max_attempts (0: the policy's) or the deadline forbid it.
 * failures counts this one; retry_after < 0: backoff.
 */
extern bool pgqrs_run_retry(PgqrsRunRows *rows, int failures, int max_attempts,
							Datum error, int64 retry_after,
							TimestampTz *retry_at);

#endif							/* PGQRS_RUN_H */
