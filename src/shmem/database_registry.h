/*
 * database_registry.h
 *	  Database registry: what each database needs in the background, and which
 *	  background worker serves it.
 *
 * Kept in shared memory.  Without shared memory every call here does nothing,
 * and no background worker runs.  Timestamps are readings of pgqrs_clock().
 */
#ifndef PGQRS_DATABASE_REGISTRY_H
#define PGQRS_DATABASE_REGISTRY_H

#include "postgres.h"

#include "base/shmem_module.h"
#include "datatype/timestamp.h"

/* Background duties of a database. */
typedef enum PgqrsDutyId
{
	DUTY_NOTIFY,   /* notifications for listening sessions */
	DUTY_QUEUES,   /* queues without a slot in wakeup_table.c; 0: all queues */
	DUTY_REALIGN,  /* rows written while the clock was ahead */
	DUTY_WORKERS,  /* silent workers, and leases of stopped workers */
	DUTY_EXPIRY,   /* deadlines, and last leases that have expired */
	DUTY_CHILDREN, /* children to be cancelled of runs that failed */
	DUTY_RUN_WAKEUPS, /* wake-ups: any waiting run may have become ready */
	DUTY_ROLES,		  /* rows about roles that were renamed or dropped */
	DUTY_SCHEDULES,
	DUTY_RETENTION,		 /* rows that ended long enough ago */
	DUTY_FLOOR_SWEEP,	 /* messages below a floor */
	DUTY_DELETED_QUEUES, /* remains of deleted queues */
	DUTY_COUNTERS,		 /* counters that changed since their last flush */
	TIMED_DUTY_COUNT,

	/* Duties without a due time, done beside others once in a while. */
	DUTY_EXHAUSTED = TIMED_DUTY_COUNT,
	DUTY_QUEUE_WAKEUPS,
	DUTY_COUNT
} PgqrsDutyId;

/* Delay after which a duty retries rows that were locked. */
#define PGQRS_LOCKED_ROW_RETRY (1 * USECS_PER_SEC)

/* Bytes kept of an error message. */
#define PGQRS_FAILURE_SIZE 160

/* The failures of a duty. */
typedef struct PgqrsDutyFailure
{
	int failures; /* consecutive failures; 0: the last try succeeded */
	int sqlerrcode;
	int64 retry_at; /* reading of pgqrs_monotonic() */
	char message[PGQRS_FAILURE_SIZE];
} PgqrsDutyFailure;

/* Counters of maintenance. */
typedef enum PgqrsDone
{
	DONE_WORKERS_STOPPED, /* silent workers */
	DONE_LEASES_REAPED,	  /* leases of stopped workers, released */
	DONE_MESSAGES_DEAD,	  /* exhausted messages, runs included */
	DONE_RUNS_CANCELLED,  /* on request after the lease expired, or with their
						  * parent */
	DONE_RUNS_TIMED_OUT,
	DONE_RUNS_WOKEN,	   /* waiting runs that became ready */
	DONE_FLOORS_LOWERED,   /* floors with messages below them */
	DONE_GRANTS_REMOVED,   /* grants of dropped roles */
	DONE_SCHEDULES_FIRED,  /* runs triggered by schedules */
	DONE_MESSAGES_REMOVED, /* after retention, without messages of runs */
	DONE_RUNS_REMOVED,	   /* after retention */
	DONE_FIRINGS_REMOVED,
	DONE_MESSAGES_REALIGNED, /* written while the clock was ahead */
	DONE_COUNT
} PgqrsDone;

typedef enum PgqrsDatabaseState
{
	DATABASE_UNKNOWN,	 /* no background worker has looked yet */
	DATABASE_SERVED,	 /* the extension is installed */
	DATABASE_ABSENT,	 /* the extension is not installed */
	DATABASE_OUTDATED,	 /* installed in another version than the library's */
	DATABASE_SUBSCRIBED, /* installed, and a subscription writes its tables */
	DATABASE_STATE_COUNT
} PgqrsDatabaseState;

/* The columns of pgqrs_health. */
typedef struct PgqrsDatabaseStatus
{
	bool has_launcher;
	bool has_entry; /* false: too many databases; the rest is unknown */
	PgqrsDatabaseState state;
	int worker_pid; /* 0: no background worker */
	int failures;	/* consecutive failures of background workers */
	TimestampTz retry_at;
	TimestampTz due; /* earliest due time; for an overdue duty, since when */
	TimestampTz last_pass; /* 0: none */
	int64 passes;
	int64 done[DONE_COUNT]; /* by background workers, since the start of the
							 * server */
	PgqrsDutyFailure duties[DUTY_COUNT];
	bool realigning; /* rows written while the clock was ahead are being
					  * searched */
} PgqrsDatabaseStatus;

/* One database, as listed for the launcher. */
typedef struct PgqrsDatabase
{
	Oid db;
	PgqrsDatabaseState state;
	TimestampTz due;	/* earliest due time, or the retry after a failure */
	TimestampTz served; /* when a background worker left, or failed to start */
	bool held;
	bool starting; /* requested, but not attached yet */
	bool attached;
} PgqrsDatabase;

/* Largest number of entries. */
#define PGQRS_MAX_DATABASES 1024

extern const PgqrsShmemModule pgqrs_databases_shmem;

/*
 * For any backend
 */

/*
 * Requests a duty for the current database at the time due at the latest; 0:
 * now.  The reason for it must be visible to snapshots already.  Wakes the
 * background worker, or the launcher if none is attached, unless the duty was
 * due earlier anyway.  May be called where errors are not allowed: takes
 * spinlocks only, allocates nothing.
 */
extern void pgqrs_database_request_duty(PgqrsDutyId kind, TimestampTz due);

/* The same, now, for any database that has an entry. */
extern void pgqrs_database_request_duty_of(Oid db, PgqrsDutyId kind);

/* Index of the current database's entry, from 0; -1: no entry. */
extern int pgqrs_database_number(void);

/*
 * Requests a new look for whether the extension is installed in the current
 * database.
 */
extern void pgqrs_database_probe(void);

/*
 * Databases were created, renamed or altered: the launcher reads the list
 * again.
 */
extern void pgqrs_databases_changed(void);

/* Requests a duty now in every database with the extension. */
extern void pgqrs_databases_request_duty(PgqrsDutyId kind);

/* False if the library is not preloaded. */
extern bool pgqrs_database_status(PgqrsDatabaseStatus *status);

/*
 * Whether all rows of the current database were checked in this epoch of the
 * clock, since the start of the server.
 */
extern bool pgqrs_database_is_realigned(uint32 epoch);
extern void pgqrs_database_set_realigned(uint32 epoch);

/*
 * No background worker may be connected to a database while it is held. hold
 * does not wait; await_exit waits for up to timeout milliseconds and terminates
 * a background worker that does not leave by itself.  Each hold needs its
 * release.
 */
extern bool pgqrs_database_hold(Oid db);
extern void pgqrs_database_await_exit(Oid db, int timeout);
extern void pgqrs_database_release(Oid db);

/*
 * For the background worker of a database
 */

/*
 * Called before the background worker connects.  False: it must not.  Detaches
 * at exit.
 */
extern bool pgqrs_database_attach(Oid db);

/* The background worker leaves voluntarily: no failure. */
extern void pgqrs_database_leaving(void);

/* Whether the background worker must leave now. */
extern bool pgqrs_database_must_leave(void);

/* Whether other databases wait for a background worker. */
extern bool pgqrs_database_others_wait(void);

/*
 * Stores the result of a look at the catalogs. probes: the count before the
 * look; the result is dropped if a probe was requested since.
 */
extern uint32 pgqrs_database_probes(void);
extern void pgqrs_database_set_state(PgqrsDatabaseState state, uint32 probes);
extern PgqrsDatabaseState pgqrs_database_state(void);

/*
 * take_duty: if the duty is due, clears its due time; it becomes due again only
 * by a later request or by the background worker itself.  To be called before
 * the work is looked for.
 */
extern TimestampTz pgqrs_database_due(PgqrsDutyId kind);
extern bool pgqrs_database_take_duty(PgqrsDutyId kind, TimestampTz now);

/*
 * The due time that was taken last, 0: now; and how often the duty was taken.
 */
extern TimestampTz pgqrs_database_taken_due(PgqrsDutyId kind);
extern uint32 pgqrs_database_take_count(PgqrsDutyId kind);
extern void pgqrs_database_set_earlier(PgqrsDutyId kind, TimestampTz due);

/* True once per interval (microseconds), across all background workers. */
extern bool pgqrs_database_may_search(int64 interval);

/*
 * Records how a duty ended.  A failed duty is retried after a delay that grows
 * with each failure, and is not due before. duty_failure: copies the failures.
 */
extern void pgqrs_database_duty_done(PgqrsDutyId duty);
extern void pgqrs_database_duty_failed(PgqrsDutyId duty, int sqlerrcode,
									   const char *message);
extern void pgqrs_database_duty_failure(PgqrsDutyId duty, PgqrsDutyFailure *failure);

/* A maintenance pass has ended, with these counts. */
extern void pgqrs_database_record_pass(const int64 *done);

/*
 * For the launcher
 */
extern void pgqrs_databases_launcher_begin(void);

/* Whether databases have changed since the last call. */
extern bool pgqrs_databases_reset_changed(void);

/* Copies all entries; PGQRS_MAX_DATABASES at most. */
extern int pgqrs_databases_list(PgqrsDatabase *list);

/*
 * Aligns the entries with pg_database: mark all, record each existing database,
 * then sweep; sweep returns the number of forgotten databases, at most
 * PGQRS_MAX_DATABASES, and their OIDs.  Then assign_entry gives each served
 * database an entry; false: no room.  Databases that are not served make room;
 * *displaced: the one that did, or invalid.
 */
extern void pgqrs_databases_mark(void);
extern void pgqrs_databases_record(Oid db, bool is_served);
extern int pgqrs_databases_sweep(Oid *forgotten);
extern bool pgqrs_databases_assign_entry(Oid db, Oid *displaced);

/*
 * A background worker is about to be requested; false if the database is held
 * or already has one.
 */
extern bool pgqrs_databases_starting(Oid db);

/* The requested background worker did not attach. failed: by its own fault. */
extern void pgqrs_databases_not_started(Oid db, bool failed);

/* Asks the background worker to leave, since the pool is too large. */
extern void pgqrs_databases_dismiss(Oid db);

/*
 * Sets the number of databases that wait for a background worker, and wakes
 * those that may have to make room.
 */
extern void pgqrs_databases_set_waiting(int count);

#endif /* PGQRS_DATABASE_REGISTRY_H */
