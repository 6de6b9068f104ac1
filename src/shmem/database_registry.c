/*
 * database_registry.c
 *	  What is known in shared memory of each database, and who serves it.
 *
 * An entry says when its database needs a worker next and which worker is
 * attached to it.  Any backend lowers that instant for its own database when
 * its transaction has committed something that will be due; whoever is asleep
 * until a later one is woken.  The worker takes the instant, which leaves none,
 * then looks at what is due, and lowers it to what it found: so a poke that
 * comes while it looks is not lost.
 *
 * Runs in every process.  Each entry is guarded by its spinlock; entries are
 * made and forgotten under the spinlock of all, which is taken first.  due and
 * db are read without a lock where an old value does no harm.  Latches are
 * those of PGPROCs, so setting one of a process that has gone wakes a stranger
 * for nothing at worst.
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

/* A database whose worker failed is tried again after this, doubled each time. */
#define MIN_BACKOFF (1 * USECS_PER_SEC)
#define MAX_BACKOFF (60 * USECS_PER_SEC)

/* Within this time a worker that was asked to leave does, or is terminated. */
#define PATIENCE 1000 /* milliseconds */

/* After this time a worker that was asked for will not come. */
#define START_TIMEOUT (30 * USECS_PER_SEC)

typedef struct Database
{
	pg_atomic_uint32 db; /* 0: unused; changed under both locks */
	pg_atomic_uint64 due[TIMED_DUTY_COUNT]; /* TimestampTz; changed under the lock */

	slock_t mutex; /* guards all below */
	PgqrsDatabaseState state;
	uint32 probes; /* a change of the extension makes the state unknown */
	bool seen;	   /* in pg_database, or added since the launcher looked */
	bool spare;	   /* and not to be served */
	int holds;	   /* by backends */
	bool dismiss;  /* by the launcher */
	int pid;	   /* the worker's; 0: none */
	Latch *latch;  /* the worker's */
	TimestampTz starting; /* when the launcher asked for a worker; 0: it has not */
	TimestampTz served; /* when the last worker left */
	int failures;
	TimestampTz retry_at;
	TimestampTz pressing_since; /* when the first became due that is due at once */
	TimestampTz last_pass;
	TimestampTz last_search;
	int64 passes;
	int64 done[DONE_COUNT];
	PgqrsDutyFailure duties[DUTY_COUNT];
	bool realigned; /* in this epoch of the clock: */
	uint32 realigned_epoch;
} Database;

typedef struct Databases
{
	slock_t mutex; /* guards count and the launcher */
	int count;	   /* entries that were ever used */
	Latch *launcher;
	pg_atomic_uint32 changed; /* the launcher has to read pg_database */
	pg_atomic_uint32 waiting; /* databases that wait; written by the launcher */
	ConditionVariable left;	  /* a worker has left, or did not start */
	Database databases[PGQRS_MAX_DATABASES];
} Databases;

static Databases *shared = NULL;

/* Of this process's database, if it has an entry. */
static Database *own = NULL;

/* The worker leaves of its own accord. */
static bool leaving = false;

static void
init_databases(LWLockPadded *locks)
{
	own = NULL;
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

/* How long to wait after so many failures in a row, in microseconds. */
static int64
backoff(int failures)
{
	return Min(MAX_BACKOFF, MIN_BACKOFF << Min(failures - 1, 10));
}

static TimestampTz
due_of(Database *d, PgqrsDutyId kind)
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
		due = Min(due, due_of(d, kind));
	return due;
}

/* When a duty is to be done: what failed is not done before its next try. */
static TimestampTz
next_try(Database *d, PgqrsDutyId kind, TimestampTz now)
{
	const PgqrsDutyFailure *failure = &d->duties[kind];
	TimestampTz due = due_of(d, kind);

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

/* False: it was due by then already.  The lock is held. */
static bool
lower(Database *d, PgqrsDutyId kind, TimestampTz due)
{
	if (due >= due_of(d, kind))
		return false;
	if (due == 0 && earliest_due(d) != 0)
		d->pressing_since = Min(earliest_due(d), pgqrs_clock_peek());
	set_due(d, kind, due);
	return true;
}

/* The lock is held. */
static void
lower_all(Database *d)
{
	for (int kind = 0; kind < TIMED_DUTY_COUNT; kind++)
		(void) lower(d, kind, 0);
}

/*
 * Finding entries
 */

static Database *
find(Oid db)
{
	for (int i = 0; i < shared->count; i++)
		if (pg_atomic_read_u32(&shared->databases[i].db) == db)
			return &shared->databases[i];
	return NULL;
}

/* Makes an unused entry that of a database of which nothing is known. */
static void
reset(Database *d, Oid db)
{
	SpinLockAcquire(&d->mutex);
	pg_atomic_write_u32(&d->db, db);
	/* the first look finds out */
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

/* With the lock held, so that it is that database's until the lock is released. */
static Database *
find_or_make_locked(Oid db)
{
	Database *d = find(db);

	if (d != NULL)
		return d;
	d = find(InvalidOid);
	if (d == NULL && shared->count < PGQRS_MAX_DATABASES)
		d = &shared->databases[shared->count++];
	if (d != NULL)
		reset(d, db);
	return d;
}

/* The entry of a database, made if there is none; NULL if all are in use. */
static Database *
find_or_make(Oid db)
{
	Database *d;

	SpinLockAcquire(&shared->mutex);
	d = find_or_make_locked(db);
	SpinLockRelease(&shared->mutex);
	return d;
}

static void
wake_launcher(void)
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

/* Of the current database; one of which nothing is known is looked at. */
static Database *
find_own(void)
{
	if (shared == NULL || !OidIsValid(MyDatabaseId))
		return NULL;
	if (own == NULL || pg_atomic_read_u32(&own->db) != MyDatabaseId)
	{
		own = find_or_make(MyDatabaseId);
		if (own != NULL && is_unknown(own))
			wake_launcher();
	}
	return own;
}

/* The worker, or the launcher so that it may start one. */
static void
wake(Latch *worker)
{
	if (worker != NULL)
		SetLatch(worker);
	else
		wake_launcher();
}

/*
 * For any backend
 */

/* Somebody has the extension here, or will in a moment. */
static void
doubt_absence(Database *d)
{
	if (d->state == DATABASE_ABSENT)
		d->state = DATABASE_UNKNOWN;
}

static void
poke(Database *d, PgqrsDutyId kind, TimestampTz due)
{
	Latch *worker;
	bool earlier;

	SpinLockAcquire(&d->mutex);
	doubt_absence(d);
	earlier = lower(d, kind, due);
	worker = d->latch;
	SpinLockRelease(&d->mutex);
	if (earlier)
		wake(worker);
}

/*
 * The barrier stands between the commit of what will be due and the look at
 * the instant; the worker's are that of taking it.
 */
void
pgqrs_database_request_duty(PgqrsDutyId kind, TimestampTz due)
{
	Database *d = find_own();

	if (d == NULL)
		return;
	pg_memory_barrier();
	if (due < due_of(d, kind))
		poke(d, kind, due);
}

void
pgqrs_database_request_duty_of(Oid db, PgqrsDutyId kind)
{
	Database *d = shared == NULL ? NULL : find(db);

	if (d != NULL)
		poke(d, kind, 0);
}

int
pgqrs_database_number(void)
{
	Database *d = find_own();

	return d == NULL ? -1 : (int) (d - shared->databases);
}

void
pgqrs_database_probe(void)
{
	Database *d = find_own();
	Latch *worker;

	if (d == NULL)
		return;
	SpinLockAcquire(&d->mutex);
	d->state = DATABASE_UNKNOWN;
	d->probes++;
	d->failures = 0;
	d->retry_at = 0;
	lower_all(d);
	worker = d->latch;
	SpinLockRelease(&d->mutex);
	wake(worker);
}

void
pgqrs_databases_changed(void)
{
	if (shared == NULL)
		return;
	pg_atomic_write_u32(&shared->changed, 1);
	wake_launcher();
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
			poke(d, kind, 0);
	}
}

bool
pgqrs_database_status(PgqrsDatabaseStatus *status)
{
	Database *d = find_own();
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
	Database *d = find_own();
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
	Database *d = find_own();

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

/* False if the database has no entry, and nobody can be started in it. */
bool
pgqrs_database_hold(Oid db)
{
	Latch *worker = NULL;
	Database *d;

	if (shared == NULL)
		return false;
	SpinLockAcquire(&shared->mutex);
	d = find_or_make_locked(db);
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
 * Waits until no worker is connected.  One that was asked for finds the hold
 * when it attaches.  A pid that is in the entry is the worker's for as long as
 * the lock is held, since it clears the entry before it goes.
 */
void
pgqrs_database_await_exit(Oid db, int timeout)
{
	static uint32 wait_event = 0;
	TimestampTz start = GetCurrentTimestamp();
	Database *d = find(db);

	while (d != NULL)
	{
		long passed = TimestampDifferenceMilliseconds(start, GetCurrentTimestamp());
		int pid;

		SpinLockAcquire(&d->mutex);
		pid = d->pid;
		if (pid != 0 && passed >= PATIENCE)
			kill(pid, SIGTERM);
		SpinLockRelease(&d->mutex);
		if (pid == 0 || passed >= timeout)
			break;
		ConditionVariableTimedSleep(&shared->left, passed < PATIENCE ? 100 : 500,
									pgqrs_wait_event(&wait_event, "PgqrsHold"));
	}
	ConditionVariableCancelSleep();
}

void
pgqrs_database_release(Oid db)
{
	Database *d = find(db);
	bool dropped;

	if (d == NULL)
		return;
	SpinLockAcquire(&d->mutex);
	d->holds--;
	dropped = !d->seen;
	SpinLockRelease(&d->mutex);
	/* while it was held, the launcher could not forget it */
	if (dropped)
		pgqrs_databases_changed();
	else
		wake_launcher();
}

/*
 * For the worker of a database
 */

/* A worker has failed: the next one comes later, each time. */
static void
note_failure(Database *d, TimestampTz now)
{
	d->failures++;
	d->retry_at = now + backoff(d->failures);
}

/*
 * One whose end was not of its own accord may have taken what was due and not
 * done it.  To be terminated is no failure.
 */
static void
detach(int code, Datum arg)
{
	Database *d = own;
	TimestampTz now = pgqrs_clock();

	SpinLockAcquire(&d->mutex);
	d->pid = 0;
	d->latch = NULL;
	d->dismiss = false;
	d->served = now;
	if (leaving)
	{
		d->failures = 0;
		d->retry_at = 0;
	}
	else
	{
		if (ProcDiePending)
			d->retry_at = now + MIN_BACKOFF;
		else
			note_failure(d, now);
		lower_all(d);
	}
	SpinLockRelease(&d->mutex);
	ConditionVariableBroadcast(&shared->left);
	wake_launcher();
}

bool
pgqrs_database_attach(Oid db)
{
	Database *d = shared == NULL ? NULL : find(db);
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
		own = d;
		before_shmem_exit(detach, (Datum) 0);
	}
	else
		wake_launcher();
	return wanted;
}

void
pgqrs_database_leaving(void)
{
	leaving = true;
}

bool
pgqrs_database_must_leave(void)
{
	bool must;

	SpinLockAcquire(&own->mutex);
	must = own->holds > 0 || own->dismiss;
	SpinLockRelease(&own->mutex);
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

	SpinLockAcquire(&own->mutex);
	probes = own->probes;
	SpinLockRelease(&own->mutex);
	return probes;
}

void
pgqrs_database_set_state(PgqrsDatabaseState state, uint32 probes)
{
	SpinLockAcquire(&own->mutex);
	if (own->probes == probes)
		own->state = state;
	SpinLockRelease(&own->mutex);
}

PgqrsDatabaseState
pgqrs_database_state(void)
{
	PgqrsDatabaseState state;

	SpinLockAcquire(&own->mutex);
	state = own->state;
	SpinLockRelease(&own->mutex);
	return state;
}

TimestampTz
pgqrs_database_due(PgqrsDutyId kind)
{
	return next_try(own, kind, pgqrs_clock_peek());
}

/* Since when what was taken last had been due, and how often it was taken. */
static TimestampTz taken[TIMED_DUTY_COUNT];
static uint32 takes[TIMED_DUTY_COUNT];

TimestampTz
pgqrs_database_taken_due(PgqrsDutyId kind)
{
	return own != NULL ? taken[kind] : 0;
}

uint32
pgqrs_database_take_count(PgqrsDutyId kind)
{
	return takes[kind];
}

bool
pgqrs_database_take_duty(PgqrsDutyId kind, TimestampTz now)
{
	bool due;

	SpinLockAcquire(&own->mutex);
	due = next_try(own, kind, now) <= now;
	if (due)
	{
		taken[kind] = due_of(own, kind);
		takes[kind]++;
		set_due(own, kind, DT_NOEND);
	}
	SpinLockRelease(&own->mutex);
	pg_memory_barrier();
	return due;
}

void
pgqrs_database_set_earlier(PgqrsDutyId kind, TimestampTz due)
{
	SpinLockAcquire(&own->mutex);
	(void) lower(own, kind, due);
	SpinLockRelease(&own->mutex);
}

bool
pgqrs_database_may_search(int64 interval)
{
	TimestampTz now = pgqrs_clock();
	bool may;

	SpinLockAcquire(&own->mutex);
	may = now >= own->last_search + interval || now < own->last_search;
	if (may)
		own->last_search = now;
	SpinLockRelease(&own->mutex);
	return may;
}

void
pgqrs_database_duty_done(PgqrsDutyId duty)
{
	SpinLockAcquire(&own->mutex);
	own->duties[duty].failures = 0;
	SpinLockRelease(&own->mutex);
}

void
pgqrs_database_duty_failed(PgqrsDutyId duty, int sqlerrcode, const char *message)
{
	int64 now = pgqrs_monotonic();
	int len = pg_mbcliplen(message, strlen(message), PGQRS_FAILURE_SIZE - 1);
	PgqrsDutyFailure *failure = &own->duties[duty];

	SpinLockAcquire(&own->mutex);
	failure->failures++;
	failure->sqlerrcode = sqlerrcode;
	failure->retry_at = now + backoff(failure->failures);
	memcpy(failure->message, message, len);
	failure->message[len] = '\0';
	SpinLockRelease(&own->mutex);
}

void
pgqrs_database_duty_failure(PgqrsDutyId duty, PgqrsDutyFailure *failure)
{
	SpinLockAcquire(&own->mutex);
	*failure = own->duties[duty];
	SpinLockRelease(&own->mutex);
}

void
pgqrs_database_record_pass(const int64 *done)
{
	TimestampTz now = pgqrs_clock();

	SpinLockAcquire(&own->mutex);
	own->last_pass = now;
	own->passes++;
	own->failures = 0;
	for (int i = 0; i < DONE_COUNT; i++)
		own->done[i] += done[i];
	SpinLockRelease(&own->mutex);
}

/*
 * For the launcher
 */

static void
launcher_end(int code, Datum arg)
{
	SpinLockAcquire(&shared->mutex);
	if (shared->launcher == MyLatch)
		shared->launcher = NULL;
	SpinLockRelease(&shared->mutex);
}

void
pgqrs_databases_launcher_begin(void)
{
	before_shmem_exit(launcher_end, (Datum) 0);
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
	Database *d = find(db);

	if (d == NULL)
		return;
	SpinLockAcquire(&d->mutex);
	d->seen = true;
	d->spare = !is_served;
	SpinLockRelease(&d->mutex);
}

/* Its entry may become another database's.  Both locks are held. */
static bool
is_free(Database *d)
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
		if (!d->seen && is_free(d))
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
 * Makes unused the entry of a database that is not to be served; of which one,
 * or invalid.  The lock is held.
 */
static Oid
make_room(void)
{
	Oid displaced = InvalidOid;

	for (int i = 0; i < shared->count && !OidIsValid(displaced); i++)
	{
		Database *d = &shared->databases[i];

		SpinLockAcquire(&d->mutex);
		if (d->spare && is_free(d))
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
	placed = find_or_make_locked(db) != NULL;
	if (!placed)
	{
		*displaced = make_room();
		placed = OidIsValid(*displaced) && find_or_make_locked(db) != NULL;
	}
	SpinLockRelease(&shared->mutex);
	return placed;
}

bool
pgqrs_databases_starting(Oid db)
{
	Database *d = find(db);
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
	Database *d = find(db);
	TimestampTz now = pgqrs_clock();

	if (d == NULL)
		return;
	SpinLockAcquire(&d->mutex);
	if (d->starting != 0)
	{
		d->starting = 0;
		d->served = now;
		if (failed)
			note_failure(d, now);
	}
	SpinLockRelease(&d->mutex);
}

void
pgqrs_databases_dismiss(Oid db)
{
	Database *d = find(db);
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
