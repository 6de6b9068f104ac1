/*
 * database_registry.c
 *	  Database registry: what each database needs in the background, and which
 *	  background worker serves it.
 *
 * An entry says when its database needs its background worker next and which
 * worker is attached.  A backend whose transaction committed work for later
 * moves that time forward for its own database and wakes the background worker,
 * or the launcher, if it would sleep longer.  The background worker takes the
 * due time, which clears it, then looks for work, and sets the time of the next
 * work found: so a request that arrives while it looks is not lost.
 *
 * Runs in every process.  A spinlock guards each entry; entries are assigned
 * and forgotten under the registry's spinlock, which is taken first. due and db
 * are read without a lock where an old value does no harm.  Latches are those
 * of PGPROCs, so setting the latch of a process that has exited at worst wakes
 * another process for nothing.
 */
#include "shmem/database_registry.h"

#include <signal.h>

#include "base/clock.h"
#include "base/compat.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/spin.h"
#include "utils/timestamp.h"

/*
 * Delay before the next background worker after a failure, doubled each time.
 */
#define MIN_BACKOFF (1 * USECS_PER_SEC)
#define MAX_BACKOFF (60 * USECS_PER_SEC)

/*
 * A background worker that was asked to leave has this long before it is
 * terminated.
 */
#define HOLD_GRACE_MS 1000 /* milliseconds */

/*
 * A requested background worker that has not attached within this time failed.
 */
#define START_TIMEOUT (30 * USECS_PER_SEC)

typedef struct Database
{
	pg_atomic_uint32 db; /* 0: unused; changed under both locks */
	pg_atomic_uint64 due[TIMED_DUTY_COUNT]; /* TimestampTz; changed under the lock */

	slock_t mutex; /* guards the fields below */
	PgqrsDatabaseState state;
	uint32 probes;		  /* incremented when the extension changes */
	bool seen;			  /* found in pg_database, or added since */
	bool spare;			  /* found, but not served */
	int holds;			  /* holds of backends */
	bool dismiss;		  /* requested by the launcher */
	int pid;			  /* background worker's; 0: none */
	Latch *latch;		  /* background worker's */
	TimestampTz starting; /* when the launcher requested a worker; 0: never */
	TimestampTz served;	  /* when the last background worker left */
	int failures;
	TimestampTz retry_at;
	TimestampTz pressing_since; /* since when a duty is overdue */
	TimestampTz last_pass;
	TimestampTz last_search;
	int64 passes;
	int64 done[DONE_COUNT];
	PgqrsDutyFailure duties[DUTY_COUNT];
	bool realigned; /* in this epoch: */
	uint32 realigned_epoch;
} Database;

typedef struct Databases
{
	slock_t mutex; /* guards count and launcher */
	int count;	   /* entries ever used */
	Latch *launcher;
	pg_atomic_uint32 changed; /* the launcher must read pg_database */
	pg_atomic_uint32 waiting; /* waiting databases; written by the launcher */
	ConditionVariable left;	  /* a background worker left or did not start */
	Database databases[PGQRS_MAX_DATABASES];
} Databases;

static Databases *shared = NULL;

/* Entry of this process's database, or NULL. */
static Database *own_entry = NULL;

/* The background worker leaves voluntarily. */
static bool is_leaving = false;

static void
init_databases(LWLockPadded *locks)
{
	own_entry = NULL;
	SpinLockInit(&shared->mutex);
	pg_atomic_init_u32(&shared->changed, 0);
	pg_atomic_init_u32(&shared->waiting, 0);
	ConditionVariableInit(&shared->left);
	for (int i = 0; i < PGQRS_MAX_DATABASES; i++)
	{
		Database *d = &shared->databases[i];

		SpinLockInit(&d->mutex);
		pg_atomic_init_u32(&d->db, InvalidOid);
		for (int kind = 0; kind < TIMED_DUTY_COUNT; kind++)
			pg_atomic_init_u64(&d->due[kind], (uint64) DT_NOEND);
	}
}

const PgqrsShmemModule pgqrs_databases_shmem = {
	.name = "pgqrs databases",
	.size = sizeof(Databases),
	.area = (void **) &shared,
	.init = init_databases,
};

/* Delay after so many consecutive failures, in microseconds. */
static int64
retry_delay(int failures)
{
	return Min(MAX_BACKOFF, MIN_BACKOFF << Min(failures - 1, 10));
}

static TimestampTz
duty_due(Database *d, PgqrsDutyId kind)
{
	return (TimestampTz) pg_atomic_read_u64(&d->due[kind]);
}

static void
set_due(Database *d, PgqrsDutyId kind, TimestampTz due)
{
	pg_atomic_write_u64(&d->due[kind], (uint64) due);
}

static TimestampTz
earliest_due(Database *d)
{
	TimestampTz due = DT_NOEND;

	for (int kind = 0; kind < TIMED_DUTY_COUNT; kind++)
		due = Min(due, duty_due(d, kind));
	return due;
}

/* When a duty is to be done: a failed duty waits for its retry. */
static TimestampTz
next_try(Database *d, PgqrsDutyId kind, TimestampTz now)
{
	const PgqrsDutyFailure *failure = &d->duties[kind];
	TimestampTz due = duty_due(d, kind);

	if (failure->failures == 0)
		return due;
	return Max(due, now + failure->retry_at - pgqrs_monotonic());
}

static TimestampTz
earliest_try(Database *d, TimestampTz now)
{
	TimestampTz due = DT_NOEND;

	for (int kind = 0; kind < TIMED_DUTY_COUNT; kind++)
		due = Min(due, next_try(d, kind, now));
	return due;
}

/*
 * Moves the due time forward; false: the duty was due earlier already.  The
 * lock is held.
 */
static bool
set_earlier(Database *d, PgqrsDutyId kind, TimestampTz due)
{
	if (due >= duty_due(d, kind))
		return false;
	if (due == 0 && earliest_due(d) != 0)
		d->pressing_since = Min(earliest_due(d), pgqrs_clock_peek());
	set_due(d, kind, due);
	return true;
}

static void
request_all_duties(Database *d)
{
	for (int kind = 0; kind < TIMED_DUTY_COUNT; kind++)
		(void) set_earlier(d, kind, 0);
}

/*
 * Finding entries
 */

static Database *
find_database(Oid db)
{
	for (int i = 0; i < shared->count; i++)
		if (pg_atomic_read_u32(&shared->databases[i].db) == db)
			return &shared->databases[i];
	return NULL;
}

/* Initializes an unused entry for a database. */
static void
reset_entry(Database *d, Oid db)
{
	SpinLockAcquire(&d->mutex);
	pg_atomic_write_u32(&d->db, db);
	/* the first pass finds the work */
	for (int kind = 0; kind < TIMED_DUTY_COUNT; kind++)
		set_due(d, kind, 0);
	d->pressing_since = pgqrs_clock_peek();
	d->state = DATABASE_UNKNOWN;
	d->seen = true;
	d->spare = false;
	d->holds = 0;
	d->dismiss = false;
	d->pid = 0;
	d->latch = NULL;
	d->starting = d->served = d->retry_at = d->last_pass = d->last_search = 0;
	d->failures = 0;
	d->passes = 0;
	memset(d->done, 0, sizeof(d->done));
	memset(d->duties, 0, sizeof(d->duties));
	d->realigned = false;
	SpinLockRelease(&d->mutex);
}

/*
 * Finds or assigns the entry of a database.  The lock is held: the entry is the
 * database's until the lock is released.
 */
static Database *
ensure_entry_locked(Oid db)
{
	Database *d = find_database(db);

	if (d != NULL)
		return d;
	d = find_database(InvalidOid);
	if (d == NULL && shared->count < PGQRS_MAX_DATABASES)
		d = &shared->databases[shared->count++];
	if (d != NULL)
		reset_entry(d, db);
	return d;
}

/* The entry of a database, assigned if needed; NULL if all are in use. */
static Database *
ensure_entry(Oid db)
{
	Database *d;

	SpinLockAcquire(&shared->mutex);
	d = ensure_entry_locked(db);
	SpinLockRelease(&shared->mutex);
	return d;
}

static void
signal_launcher(void)
{
	Latch *latch;

	SpinLockAcquire(&shared->mutex);
	latch = shared->launcher;
	SpinLockRelease(&shared->mutex);
	if (latch != NULL)
		SetLatch(latch);
}

static bool
is_unknown(Database *d)
{
	bool unknown;

	SpinLockAcquire(&d->mutex);
	unknown = d->state == DATABASE_UNKNOWN;
	SpinLockRelease(&d->mutex);
	return unknown;
}

/*
 * The entry of the current database.  The launcher is woken if its state is
 * unknown.
 */
static Database *
own_or_new_entry(void)
{
	if (shared == NULL || !OidIsValid(MyDatabaseId))
		return NULL;
	if (own_entry == NULL || pg_atomic_read_u32(&own_entry->db) != MyDatabaseId)
	{
		own_entry = ensure_entry(MyDatabaseId);
		if (own_entry != NULL && is_unknown(own_entry))
			signal_launcher();
	}
	return own_entry;
}

/* Wakes the background worker, or the launcher so that it may start one. */
static void
wake_worker(Latch *worker)
{
	if (worker != NULL)
		SetLatch(worker);
	else
		signal_launcher();
}

/*
 * For any backend
 */

/* A backend uses the extension here, or will in a moment. */
static void
doubt_absence(Database *d)
{
	if (d->state == DATABASE_ABSENT)
		d->state = DATABASE_UNKNOWN;
}

static void
request_duty(Database *d, PgqrsDutyId kind, TimestampTz due)
{
	Latch *worker;
	bool earlier;

	SpinLockAcquire(&d->mutex);
	doubt_absence(d);
	earlier = set_earlier(d, kind, due);
	worker = d->latch;
	SpinLockRelease(&d->mutex);
	if (earlier)
		wake_worker(worker);
}

/*
 * The barrier separates the commit of the work from reading the due time; its
 * counterpart is in pgqrs_database_take_duty().
 */
void
pgqrs_database_request_duty(PgqrsDutyId kind, TimestampTz due)
{
	Database *d = own_or_new_entry();

	if (d == NULL)
		return;
	pg_memory_barrier();
	if (due < duty_due(d, kind))
		request_duty(d, kind, due);
}

void
pgqrs_database_request_duty_of(Oid db, PgqrsDutyId kind)
{
	Database *d = shared == NULL ? NULL : find_database(db);

	if (d != NULL)
		request_duty(d, kind, 0);
}

int
pgqrs_database_number(void)
{
	Database *d = own_or_new_entry();

	return d == NULL ? -1 : (int) (d - shared->databases);
}

void
pgqrs_database_probe(void)
{
	Database *d = own_or_new_entry();
	Latch *worker;

	if (d == NULL)
		return;
	SpinLockAcquire(&d->mutex);
	d->state = DATABASE_UNKNOWN;
	d->probes++;
	d->failures = 0;
	d->retry_at = 0;
	request_all_duties(d);
	worker = d->latch;
	SpinLockRelease(&d->mutex);
	wake_worker(worker);
}

void
pgqrs_databases_changed(void)
{
	if (shared == NULL)
		return;
	pg_atomic_write_u32(&shared->changed, 1);
	signal_launcher();
}

void
pgqrs_databases_request_duty(PgqrsDutyId kind)
{
	if (shared == NULL)
		return;
	pg_memory_barrier();
	for (int i = 0; i < shared->count; i++)
	{
		Database *d = &shared->databases[i];
		bool served;

		SpinLockAcquire(&d->mutex);
		served = pg_atomic_read_u32(&d->db) != InvalidOid &&
			d->state == DATABASE_SERVED;
		SpinLockRelease(&d->mutex);
		if (served)
			request_duty(d, kind, 0);
	}
}

bool
pgqrs_database_status(PgqrsDatabaseStatus *status)
{
	Database *d = own_or_new_entry();
	TimestampTz now = pgqrs_clock_peek();

	memset(status, 0, sizeof(*status));
	if (shared == NULL)
		return false;
	SpinLockAcquire(&shared->mutex);
	status->has_launcher = shared->launcher != NULL;
	SpinLockRelease(&shared->mutex);
	status->has_entry = d != NULL;
	status->due = DT_NOEND;
	if (d == NULL)
		return true;
	SpinLockAcquire(&d->mutex);
	status->state = d->state;
	status->worker_pid = d->pid;
	status->failures = d->failures;
	status->retry_at = d->retry_at;
	status->due = earliest_try(d, now);
	if (status->due == 0)
		status->due = d->pressing_since;
	status->last_pass = d->last_pass;
	status->passes = d->passes;
	memcpy(status->done, d->done, sizeof(status->done));
	memcpy(status->duties, d->duties, sizeof(status->duties));
	status->realigning = !d->realigned ||
		d->realigned_epoch != pgqrs_clock_epoch();
	SpinLockRelease(&d->mutex);
	return true;
}

bool
pgqrs_database_is_realigned(uint32 epoch)
{
	Database *d = own_or_new_entry();
	bool realigned;

	if (d == NULL)
		return false;
	SpinLockAcquire(&d->mutex);
	realigned = d->realigned && d->realigned_epoch == epoch;
	SpinLockRelease(&d->mutex);
	return realigned;
}

void
pgqrs_database_set_realigned(uint32 epoch)
{
	Database *d = own_or_new_entry();

	if (d == NULL)
		return;
	SpinLockAcquire(&d->mutex);
	d->realigned = true;
	d->realigned_epoch = epoch;
	SpinLockRelease(&d->mutex);
}

/*
 * Holds
 */

/*
 * False if the database has no entry: no background worker can be started in
 * it.
 */
bool
pgqrs_database_hold(Oid db)
{
	Latch *worker = NULL;
	Database *d;

	if (shared == NULL)
		return false;
	SpinLockAcquire(&shared->mutex);
	d = ensure_entry_locked(db);
	if (d != NULL)
	{
		SpinLockAcquire(&d->mutex);
		d->holds++;
		worker = d->latch;
		SpinLockRelease(&d->mutex);
	}
	SpinLockRelease(&shared->mutex);
	if (worker != NULL)
		SetLatch(worker);
	return d != NULL;
}

/*
 * Waits until no background worker is connected.  A worker requested before
 * finds the hold when it attaches.  A pid in the entry is the worker's for as
 * long as the lock is held, since the worker clears the entry before it exits.
 */
void
pgqrs_database_await_exit(Oid db, int timeout)
{
	static uint32 wait_event = 0;
	TimestampTz start = GetCurrentTimestamp();
	Database *d = find_database(db);

	while (d != NULL)
	{
		long passed = TimestampDifferenceMilliseconds(start, GetCurrentTimestamp());
		int pid;

		SpinLockAcquire(&d->mutex);
		pid = d->pid;
		if (pid != 0 && passed >= HOLD_GRACE_MS)
			kill(pid, SIGTERM);
		SpinLockRelease(&d->mutex);
		if (pid == 0 || passed >= timeout)
			break;
		ConditionVariableTimedSleep(&shared->left,
									passed < HOLD_GRACE_MS ? 100 : 500,
									pgqrs_wait_event(&wait_event, "PgqrsHold"));
	}
	ConditionVariableCancelSleep();
}

void
pgqrs_database_release(Oid db)
{
	Database *d = find_database(db);
	bool dropped;

	if (d == NULL)
		return;
	SpinLockAcquire(&d->mutex);
	d->holds--;
	dropped = !d->seen;
	SpinLockRelease(&d->mutex);
	/* the launcher could not forget it while it was held */
	if (dropped)
		pgqrs_databases_changed();
	else
		signal_launcher();
}

/*
 * For the background worker of a database
 */

/* A background worker failed: delays the next one. */
static void
record_failure(Database *d, TimestampTz now)
{
	d->failures++;
	d->retry_at = now + retry_delay(d->failures);
}

/*
 * A background worker that failed may have taken due times and not done the
 * work, so all duties become due.  A termination is not a failure.
 */
static void
detach_worker(int code, Datum arg)
{
	Database *d = own_entry;
	TimestampTz now = pgqrs_clock();

	SpinLockAcquire(&d->mutex);
	d->pid = 0;
	d->latch = NULL;
	d->dismiss = false;
	d->served = now;
	if (is_leaving)
	{
		d->failures = 0;
		d->retry_at = 0;
	}
	else
	{
		if (ProcDiePending)
			d->retry_at = now + MIN_BACKOFF;
		else
			record_failure(d, now);
		request_all_duties(d);
	}
	SpinLockRelease(&d->mutex);
	ConditionVariableBroadcast(&shared->left);
	signal_launcher();
}

bool
pgqrs_database_attach(Oid db)
{
	Database *d = shared == NULL ? NULL : find_database(db);
	bool wanted;

	if (d == NULL)
		return false;
	SpinLockAcquire(&d->mutex);
	wanted = pg_atomic_read_u32(&d->db) == db && d->holds == 0 && d->pid == 0;
	if (pg_atomic_read_u32(&d->db) == db)
		d->starting = 0;
	if (wanted)
	{
		d->pid = MyProcPid;
		d->latch = MyLatch;
	}
	SpinLockRelease(&d->mutex);
	if (wanted)
	{
		own_entry = d;
		before_shmem_exit(detach_worker, (Datum) 0);
	}
	else
		signal_launcher();
	return wanted;
}

void
pgqrs_database_leaving(void)
{
	is_leaving = true;
}

bool
pgqrs_database_must_leave(void)
{
	bool must;

	SpinLockAcquire(&own_entry->mutex);
	must = own_entry->holds > 0 || own_entry->dismiss;
	SpinLockRelease(&own_entry->mutex);
	return must;
}

bool
pgqrs_database_others_wait(void)
{
	return pg_atomic_read_u32(&shared->waiting) > 0;
}

uint32
pgqrs_database_probes(void)
{
	uint32 probes;

	SpinLockAcquire(&own_entry->mutex);
	probes = own_entry->probes;
	SpinLockRelease(&own_entry->mutex);
	return probes;
}

void
pgqrs_database_set_state(PgqrsDatabaseState state, uint32 probes)
{
	SpinLockAcquire(&own_entry->mutex);
	if (own_entry->probes == probes)
		own_entry->state = state;
	SpinLockRelease(&own_entry->mutex);
}

PgqrsDatabaseState
pgqrs_database_state(void)
{
	PgqrsDatabaseState state;

	SpinLockAcquire(&own_entry->mutex);
	state = own_entry->state;
	SpinLockRelease(&own_entry->mutex);
	return state;
}

TimestampTz
pgqrs_database_due(PgqrsDutyId kind)
{
	return next_try(own_entry, kind, pgqrs_clock_peek());
}

/* Due times taken last, and how often. */
static TimestampTz taken_due[TIMED_DUTY_COUNT];
static uint32 take_counts[TIMED_DUTY_COUNT];

TimestampTz
pgqrs_database_taken_due(PgqrsDutyId kind)
{
	return own_entry != NULL ? taken_due[kind] : 0;
}

uint32
pgqrs_database_take_count(PgqrsDutyId kind)
{
	return take_counts[kind];
}

bool
pgqrs_database_take_duty(PgqrsDutyId kind, TimestampTz now)
{
	bool due;

	SpinLockAcquire(&own_entry->mutex);
	due = next_try(own_entry, kind, now) <= now;
	if (due)
	{
		taken_due[kind] = duty_due(own_entry, kind);
		take_counts[kind]++;
		set_due(own_entry, kind, DT_NOEND);
	}
	SpinLockRelease(&own_entry->mutex);
	pg_memory_barrier();
	return due;
}

void
pgqrs_database_set_earlier(PgqrsDutyId kind, TimestampTz due)
{
	SpinLockAcquire(&own_entry->mutex);
	(void) set_earlier(own_entry, kind, due);
	SpinLockRelease(&own_entry->mutex);
}

bool
pgqrs_database_may_search(int64 interval)
{
	TimestampTz now = pgqrs_clock();
	bool may;

	SpinLockAcquire(&own_entry->mutex);
	may = now >= own_entry->last_search + interval || now < own_entry->last_search;
	if (may)
		own_entry->last_search = now;
	SpinLockRelease(&own_entry->mutex);
	return may;
}

void
pgqrs_database_duty_done(PgqrsDutyId duty)
{
	SpinLockAcquire(&own_entry->mutex);
	own_entry->duties[duty].failures = 0;
	SpinLockRelease(&own_entry->mutex);
}

void
pgqrs_database_duty_failed(PgqrsDutyId duty, int sqlerrcode, const char *message)
{
	int64 now = pgqrs_monotonic();
	int len = pg_mbcliplen(message, strlen(message), PGQRS_FAILURE_SIZE - 1);
	PgqrsDutyFailure *failure = &own_entry->duties[duty];

	SpinLockAcquire(&own_entry->mutex);
	failure->failures++;
	failure->sqlerrcode = sqlerrcode;
	failure->retry_at = now + retry_delay(failure->failures);
	memcpy(failure->message, message, len);
	failure->message[len] = '\0';
	SpinLockRelease(&own_entry->mutex);
}

void
pgqrs_database_duty_failure(PgqrsDutyId duty, PgqrsDutyFailure *failure)
{
	SpinLockAcquire(&own_entry->mutex);
	*failure = own_entry->duties[duty];
	SpinLockRelease(&own_entry->mutex);
}

void
pgqrs_database_record_pass(const int64 *done)
{
	TimestampTz now = pgqrs_clock();

	SpinLockAcquire(&own_entry->mutex);
	own_entry->last_pass = now;
	own_entry->passes++;
	own_entry->failures = 0;
	for (int i = 0; i < DONE_COUNT; i++)
		own_entry->done[i] += done[i];
	SpinLockRelease(&own_entry->mutex);
}

/*
 * For the launcher
 */

static void
detach_launcher(int code, Datum arg)
{
	SpinLockAcquire(&shared->mutex);
	if (shared->launcher == MyLatch)
		shared->launcher = NULL;
	SpinLockRelease(&shared->mutex);
}

void
pgqrs_databases_launcher_begin(void)
{
	before_shmem_exit(detach_launcher, (Datum) 0);
	SpinLockAcquire(&shared->mutex);
	shared->launcher = MyLatch;
	SpinLockRelease(&shared->mutex);
	pg_atomic_write_u32(&shared->waiting, 0);
	pg_atomic_write_u32(&shared->changed, 1);
}

bool
pgqrs_databases_reset_changed(void)
{
	return pg_atomic_exchange_u32(&shared->changed, 0) != 0;
}

int
pgqrs_databases_list(PgqrsDatabase *list)
{
	TimestampTz now = pgqrs_clock();
	int count = 0;

	for (int i = 0; i < shared->count; i++)
	{
		Database *d = &shared->databases[i];
		Oid db = pg_atomic_read_u32(&d->db);

		if (!OidIsValid(db))
			continue;
		SpinLockAcquire(&d->mutex);
		list[count].db = db;
		list[count].state = d->state;
		list[count].due = earliest_try(d, now);
		/* unless the clock was set back */
		if (d->retry_at <= now + MAX_BACKOFF)
			list[count].due = Max(list[count].due, d->retry_at);
		list[count].served = d->served;
		list[count].held = d->holds > 0;
		list[count].starting = d->starting != 0 &&
			d->starting > now - START_TIMEOUT && d->starting <= now;
		list[count].attached = d->pid != 0;
		SpinLockRelease(&d->mutex);
		count++;
	}
	return count;
}

void
pgqrs_databases_mark(void)
{
	for (int i = 0; i < shared->count; i++)
	{
		SpinLockAcquire(&shared->databases[i].mutex);
		shared->databases[i].seen = false;
		SpinLockRelease(&shared->databases[i].mutex);
	}
}

void
pgqrs_databases_record(Oid db, bool is_served)
{
	Database *d = find_database(db);

	if (d == NULL)
		return;
	SpinLockAcquire(&d->mutex);
	d->seen = true;
	d->spare = !is_served;
	SpinLockRelease(&d->mutex);
}

/* Whether the entry may become another database's.  Both locks are held. */
static bool
is_reusable(Database *d)
{
	return d->holds == 0 && d->pid == 0 && pg_atomic_read_u32(&d->db) != InvalidOid;
}

int
pgqrs_databases_sweep(Oid *forgotten)
{
	int count = 0;

	SpinLockAcquire(&shared->mutex);
	for (int i = 0; i < shared->count; i++)
	{
		Database *d = &shared->databases[i];

		SpinLockAcquire(&d->mutex);
		if (!d->seen && is_reusable(d))
		{
			forgotten[count++] = pg_atomic_read_u32(&d->db);
			pg_atomic_write_u32(&d->db, InvalidOid);
		}
		SpinLockRelease(&d->mutex);
	}
	SpinLockRelease(&shared->mutex);
	return count;
}

/*
 * Frees the entry of a database that is not served; returns that database, or
 * invalid.  The lock is held.
 */
static Oid
displace_unserved(void)
{
	Oid displaced = InvalidOid;

	for (int i = 0; i < shared->count && !OidIsValid(displaced); i++)
	{
		Database *d = &shared->databases[i];

		SpinLockAcquire(&d->mutex);
		if (d->spare && is_reusable(d))
			displaced = pg_atomic_exchange_u32(&d->db, InvalidOid);
		SpinLockRelease(&d->mutex);
	}
	return displaced;
}

bool
pgqrs_databases_assign_entry(Oid db, Oid *displaced)
{
	bool placed;

	*displaced = InvalidOid;
	SpinLockAcquire(&shared->mutex);
	placed = ensure_entry_locked(db) != NULL;
	if (!placed)
	{
		*displaced = displace_unserved();
		placed = OidIsValid(*displaced) && ensure_entry_locked(db) != NULL;
	}
	SpinLockRelease(&shared->mutex);
	return placed;
}

bool
pgqrs_databases_starting(Oid db)
{
	Database *d = find_database(db);
	bool may;

	if (d == NULL)
		return false;
	SpinLockAcquire(&d->mutex);
	may = d->holds == 0 && d->pid == 0;
	if (may)
		d->starting = pgqrs_clock();
	SpinLockRelease(&d->mutex);
	return may;
}

void
pgqrs_databases_not_started(Oid db, bool failed)
{
	Database *d = find_database(db);
	TimestampTz now = pgqrs_clock();

	if (d == NULL)
		return;
	SpinLockAcquire(&d->mutex);
	if (d->starting != 0)
	{
		d->starting = 0;
		d->served = now;
		if (failed)
			record_failure(d, now);
	}
	SpinLockRelease(&d->mutex);
}

void
pgqrs_databases_dismiss(Oid db)
{
	Database *d = find_database(db);
	Latch *worker;

	if (d == NULL)
		return;
	SpinLockAcquire(&d->mutex);
	worker = d->latch;
	d->dismiss = worker != NULL;
	SpinLockRelease(&d->mutex);
	if (worker != NULL)
		SetLatch(worker);
}

void
pgqrs_databases_set_waiting(int count)
{
	if (pg_atomic_exchange_u32(&shared->waiting, count) != 0 || count == 0)
		return;
	for (int i = 0; i < shared->count; i++)
	{
		Latch *worker;

		SpinLockAcquire(&shared->databases[i].mutex);
		worker = shared->databases[i].latch;
		SpinLockRelease(&shared->databases[i].mutex);
		if (worker != NULL)
			SetLatch(worker);
	}
}
