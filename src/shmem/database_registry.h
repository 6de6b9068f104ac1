/*
 * database_registry.h
 *	  What is known in shared memory of each database, and who serves it.
 *
 * A hint: without it, every call here does nothing, and nothing runs in the
 * background.  Instants are those of pgqrs_clock().
 */
#ifndef PGQRS_DATABASE_REGISTRY_H
#define PGQRS_DATABASE_REGISTRY_H

#include "postgres.h"

#include "base/shmem_module.h"
#include "datatype/timestamp.h"

/* What a database may need its background worker for. */
typedef enum PgqrsDutyId
{
	DUTY_NOTIFY, /* to notify clients that listen */
	DUTY_QUEUES, /* to look at queues without a slot in wakeup_table.c; 0: at all */
	DUTY_REALIGN,	  /* rows of a time when the clock was ahead */
	DUTY_WORKERS,	  /* silent ones, and what stopped ones hold */
	DUTY_EXPIRY,	  /* deadlines, and leases that were the last */
	DUTY_CHILDREN,	  /* of runs that ended badly, to be cancelled */
	DUTY_RUN_WAKEUPS, /* all parked runs: which of them is not known */
	DUTY_ROLES,		  /* and all else of roles that were renamed or dropped */
	DUTY_SCHEDULES,
	DUTY_RETENTION,		 /* what has ended long enough ago */
	DUTY_FLOOR_SWEEP,	 /* messages that no backend reported */
	DUTY_DELETED_QUEUES, /* what deleted queues have left */
	TIMED_DUTY_COUNT,

	/* Duties that are never due: they are done beside others once in a while. */
	DUTY_EXHAUSTED = TIMED_DUTY_COUNT,
	DUTY_QUEUE_WAKEUPS,
	DUTY_COUNT
} PgqrsDutyId;

/* A duty retries rows that another transaction has locked after this time. */
#define PGQRS_LOCKED_ROW_RETRY (1 * USECS_PER_SEC)

/* What is kept of an error message. */
#define PGQRS_FAILURE_SIZE 160

/* A duty that failed when it was last tried. */
typedef struct PgqrsDutyFailure
{
	int failures; /* in a row; 0: it did not fail */
	int sqlerrcode;
	int64 retry_at; /* a reading of pgqrs_monotonic() */
	char message[PGQRS_FAILURE_SIZE];
} PgqrsDutyFailure;

/* What maintenance does, as counts. */
typedef enum PgqrsDone
{
	DONE_WORKERS_STOPPED, /* silent ones */
	DONE_LEASES_REAPED,	  /* of stopped workers, claimable again */
	DONE_MESSAGES_DEAD,	  /* used up, runs included */
	DONE_RUNS_CANCELLED, /* on request when the lease ran out, or with their parent */
	DONE_RUNS_TIMED_OUT,
	DONE_RUNS_WOKEN,	   /* parked, and what they wait for has come */
	DONE_FLOORS_LOWERED,   /* below which messages were found */
	DONE_GRANTS_REMOVED,   /* to roles that are gone */
	DONE_SCHEDULES_FIRED,  /* runs triggered */
	DONE_MESSAGES_REMOVED, /* kept long enough; without those of runs */
	DONE_RUNS_REMOVED,	   /* the same */
	DONE_FIRINGS_REMOVED,
	DONE_MESSAGES_REALIGNED, /* written while the clock was ahead */
	DONE_COUNT
} PgqrsDone;

typedef enum PgqrsDatabaseState
{
	DATABASE_UNKNOWN,	 /* a worker has yet to look */
	DATABASE_SERVED,	 /* has the extension */
	DATABASE_ABSENT,	 /* has not */
	DATABASE_OUTDATED,	 /* has it, in another version than the library's */
	DATABASE_SUBSCRIBED, /* has it, and a subscription that writes its tables */
	DATABASE_STATE_COUNT
} PgqrsDatabaseState;

/* What pgqrs_health shows. */
typedef struct PgqrsDatabaseStatus
{
	bool has_launcher;
	bool has_entry; /* if not, there are too many databases: no more is known */
	PgqrsDatabaseState state;
	int worker_pid; /* 0: none */
	int failures;	/* of workers, in a row */
	TimestampTz retry_at;
	TimestampTz due;	   /* the earliest; what is due at once, since when */
	TimestampTz last_pass; /* 0: none */
	int64 passes;
	int64 done[DONE_COUNT]; /* by background workers, since the server started */
	PgqrsDutyFailure duties[DUTY_COUNT];
	bool realigning; /* rows of a time when the clock was ahead are looked for */
} PgqrsDatabaseStatus;

/* One database, as the launcher sees it. */
typedef struct PgqrsDatabase
{
	Oid db;
	PgqrsDatabaseState state;
	TimestampTz due;	/* the earliest; if a worker failed, when to retry */
	TimestampTz served; /* when a worker left, or was started in vain */
	bool held;
	bool starting; /* a worker was asked for and has not attached yet */
	bool attached;
} PgqrsDatabase;

/* How many databases can have an entry at most. */
#define PGQRS_MAX_DATABASES 1024

extern const PgqrsShmemModule pgqrs_databases_shmem;

/*
 * For any backend
 */

/*
 * The current database needs its worker at that instant at the latest; 0: now.
 * Whatever makes it so is visible to snapshots by now.  Wakes the worker, or
 * else the launcher, unless that instant is no earlier than what is known.
 * Safe where errors are not: takes spinlocks at most, allocates nothing.
 */
extern void pgqrs_database_request_duty(PgqrsDutyId kind, TimestampTz due);

/* The same for any database, unless it has no entry. */
extern void pgqrs_database_request_duty_of(Oid db, PgqrsDutyId kind);

/* The current database's entry, counted from 0; -1: it has none. */
extern int pgqrs_database_number(void);

/* A worker has to look whether the current database has the extension. */
extern void pgqrs_database_probe(void);

/* Databases were created, renamed or altered: the launcher looks at the list. */
extern void pgqrs_databases_changed(void);

/* Something may be due in every database that has the extension. */
extern void pgqrs_databases_request_duty(PgqrsDutyId kind);

/* False if not preloaded. */
extern bool pgqrs_database_status(PgqrsDatabaseStatus *status);

/*
 * Whether all rows of the current database are of the time that the clock is
 * in: they were looked at in this epoch, and since the server started.
 */
extern bool pgqrs_database_is_realigned(uint32 epoch);
extern void pgqrs_database_set_realigned(uint32 epoch);

/*
 * No worker may be connected to a database while it is held.  Hold does not
 * wait; await does, for milliseconds at most, and ends a worker that does not
 * heed.  Each hold needs its release.
 */
extern bool pgqrs_database_hold(Oid db);
extern void pgqrs_database_await_exit(Oid db, int timeout);
extern void pgqrs_database_release(Oid db);

/*
 * For the worker of a database
 */

/* Before it connects.  False: it is not wanted.  Detaches at exit. */
extern bool pgqrs_database_attach(Oid db);

/* It leaves because it wants to: nothing has failed. */
extern void pgqrs_database_leaving(void);

/* Somebody wants it to leave now. */
extern bool pgqrs_database_must_leave(void);

/* Other databases wait for a worker. */
extern bool pgqrs_database_others_wait(void);

/*
 * What a look at the catalogs has found; probes: how often the database had been
 * probed before the look.  Not taken over if it was probed since.
 */
extern uint32 pgqrs_database_probes(void);
extern void pgqrs_database_set_state(PgqrsDatabaseState state, uint32 probes);
extern PgqrsDatabaseState pgqrs_database_state(void);

/*
 * take: the instant is due; from here on nothing is, until somebody pokes or
 * the worker itself lowers it.  To be called before what is due is looked at.
 */
extern TimestampTz pgqrs_database_due(PgqrsDutyId kind);
extern bool pgqrs_database_take_duty(PgqrsDutyId kind, TimestampTz now);

/*
 * The instant from which on what was taken last is due, 0: whenever; and how
 * often something was taken.
 */
extern TimestampTz pgqrs_database_taken_due(PgqrsDutyId kind);
extern uint32 pgqrs_database_take_count(PgqrsDutyId kind);
extern void pgqrs_database_set_earlier(PgqrsDutyId kind, TimestampTz due);

/* True once per interval (microseconds), whichever worker asks. */
extern bool pgqrs_database_may_search(int64 interval);

/*
 * How a duty ended.  One that failed is tried again after a while, longer each
 * time; until then it is not due.  failure: a copy of what is known.
 */
extern void pgqrs_database_duty_done(PgqrsDutyId duty);
extern void pgqrs_database_duty_failed(PgqrsDutyId duty, int sqlerrcode,
									   const char *message);
extern void pgqrs_database_duty_failure(PgqrsDutyId duty, PgqrsDutyFailure *failure);

/* A maintenance pass is over, and did that. */
extern void pgqrs_database_record_pass(const int64 *done);

/*
 * For the launcher
 */
extern void pgqrs_databases_launcher_begin(void);

/* Since the last call, databases were said to have changed. */
extern bool pgqrs_databases_reset_changed(void);

/* A copy of all that are known; PGQRS_MAX_DATABASES at most. */
extern int pgqrs_databases_list(PgqrsDatabase *list);

/*
 * Brings the list in line with the databases that there are: mark, then see
 * each, then forget the others; how many those are, at most
 * PGQRS_MAX_DATABASES, and which.  Then each that is to be served is given an
 * entry; false: there is no room.  Those that are not to be served make room;
 * *displaced: which one did, or invalid.
 */
extern void pgqrs_databases_mark(void);
extern void pgqrs_databases_record(Oid db, bool is_served);
extern int pgqrs_databases_sweep(Oid *forgotten);
extern bool pgqrs_databases_assign_entry(Oid db, Oid *displaced);

/* A worker was asked for; false if the database is held or has one. */
extern bool pgqrs_databases_starting(Oid db);

/* The worker that was asked for did not attach, and whose fault that is. */
extern void pgqrs_databases_not_started(Oid db, bool failed);

/* Its worker should leave, for the pool is too large. */
extern void pgqrs_databases_dismiss(Oid db);

/* How many databases wait for a worker; wakes those that may have to make room. */
extern void pgqrs_databases_set_waiting(int count);

#endif /* PGQRS_DATABASE_REGISTRY_H */
