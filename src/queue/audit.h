/*
 * audit.h
 *	  Audit: events of runs, recorded if pgqrs.audit is on.
 */
#ifndef PGQRS_AUDIT_H
#define PGQRS_AUDIT_H

#include "postgres.h"

#include "base/guc.h"
#include "datatype/timestamp.h"

typedef enum PgqrsEventKind
{
	EVENT_CREATED,
	EVENT_CLAIMED,
	EVENT_RELEASED,
	EVENT_RESCHEDULED,
	EVENT_STEP_BEGUN,
	EVENT_STEP_DONE,
	EVENT_STEP_FAILED,
	EVENT_CHILD_STARTED,
	EVENT_PAUSED,
	EVENT_RESUMED,
	EVENT_RESUME_DROPPED,
	EVENT_SIGNALLED,
	EVENT_RETRIED,
	EVENT_CANCEL_REQUESTED,
	EVENT_CANCELLED,
	EVENT_FINISHED,
	EVENT_DEAD,
	EVENT_REPLAYED,
	EVENT_RERUN,
	EVENT_DELETED,
	EVENT_COUNT
} PgqrsEventKind;

/* Details of an event; 0 and NULL are left out. */
typedef struct PgqrsEvent
{
	const char *step_id;
	const char *signal;
	const char *waiting_for;
	const char *reason;
	int64 attempt;
	int64 failures;
	int64 worker_id;
	int64 signal_id;
	int64 parent_run_id;
	int64 child_run_id;
	int64 rerun_of;
	int64 new_run_id;
	TimestampTz until; /* earliest time of further work */
	Datum error;
} PgqrsEvent;

/*
 * pgqrs_event(kind, run_id, .field = value, ...): with the audit off, this
 * tests one flag and evaluates no value.
 */
#define pgqrs_event(kind, run_id, ...)                                       \
	do                                                                       \
	{                                                                        \
		if (unlikely(pgqrs_audit))                                           \
			pgqrs_event_write((kind), (run_id), &(PgqrsEvent){__VA_ARGS__}); \
	} while (0)

extern void pgqrs_event_write(PgqrsEventKind kind, int64 run_id,
							  const PgqrsEvent *event);

/* The same for the run of a message, if it has one. */
#define pgqrs_event_of_message(kind, message, ...)                               \
	do                                                                           \
	{                                                                            \
		if (unlikely(pgqrs_audit) && !pgqrs_is_null(message, Messages_run_id))   \
			pgqrs_event_write((kind), pgqrs_get_int64(message, Messages_run_id), \
							  &(PgqrsEvent){__VA_ARGS__});                       \
	} while (0)

#endif /* PGQRS_AUDIT_H */
