/*
 * clock.c
 *	  The clock of the extension, and the random leases that fence.
 *
 * Runs in any backend, takes no lock.
 */
#include "base/clock.h"

#include "base/compat.h"
#include "base/guc.h"
#include "catalog/pg_control.h"
#include "common/controldata_utils.h"
#include "common/int.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "portability/instr_time.h"
#include "storage/ipc.h"
#include "storage/spin.h"
#include "utils/timestamp.h"

/* A larger step of the operating system's clock is followed. */
#define MAX_CREEP PGQRS_CLOCK_TOLERANCE

/* A server that has been up for this long after a step forward confirms it. */
#define CONFIRM_AFTER (3 * USECS_PER_DAY)

/*
 * A normal downtime is at most this: pg_control is written at checkpoints only,
 * and an idle server makes none.
 */
#define MAX_UNSEEN USECS_PER_DAY

/* A lease fits into a JSON or JavaScript number exactly. */
#define LEASE_BITS 53

/* The steps detected so far; all zero: none. */
typedef struct Steps
{
	int64 offset; /* from the monotonic clock to this one; 0: unknown */
	TimestampTz stepped_at; /* first reading after the last step */
	PgqrsClockStep forward; /* last step forward */
	PgqrsClockStep back;
	int64 unconfirmed;	  /* microseconds by which the clock went forward */
	int64 unconfirmed_at; /* since when, by the monotonic clock */
} Steps;

/* Shared by all backends where the library is preloaded. */
typedef struct Clock
{
	pg_atomic_uint64 last;	/* last reading; by compare and exchange */
	pg_atomic_uint32 epoch; /* number of steps back */

	/* first writing call, or 0; by compare and exchange */
	pg_atomic_uint64 serving_since;

	slock_t mutex; /* guards the rest */
	Steps steps;
	Latch *watcher; /* launcher's latch */
} Clock;

static Clock *shared = NULL;

/*
 * Steps seen by this backend where the library is not preloaded.  In the
 * postmaster: the steps seen before shared memory was reset after a crash.
 */
static Steps own_steps;
static uint32 own_epoch = 0;

static int64
monotonic_now(void)
{
	return pgqrs_monotonic() + pgqrs_time_passed * INT64CONST(1000);
}

static void
add_unconfirmed(Steps *steps, int64 size)
{
	if (size > steps->unconfirmed)
		steps->unconfirmed_at = monotonic_now();
	steps->unconfirmed += size;
}

/*
 * A server cannot tell a long downtime, or a restore from an old backup, from a
 * wrong clock.
 */
static void
record_downtime(Steps *steps)
{
	bool crc_ok;
	ControlFileData *control = get_controlfile(DataDir, &crc_ok);
	TimestampTz now = GetCurrentTimestamp() +
		(pgqrs_clock_offset - pgqrs_time_passed) * INT64CONST(1000);
	int64 unseen = now - time_t_to_timestamptz((pg_time_t) control->time);

	pfree(control);
	if (unseen > MAX_UNSEEN)
		add_unconfirmed(steps, unseen);
}

/*
 * Before shared memory is reset after a crash, the postmaster saves the steps.
 */
static void
save_steps(int code, Datum arg)
{
	own_steps = shared->steps;
}

static void
init_clock(LWLockPadded *locks)
{
	static bool began = false;

	pg_atomic_init_u64(&shared->last, 0);
	pg_atomic_init_u32(&shared->epoch, 0);
	pg_atomic_init_u64(&shared->serving_since, 0);
	SpinLockInit(&shared->mutex);
	if (!began)
		record_downtime(&own_steps);
	began = true;
	shared->steps = own_steps;
	on_shmem_exit(save_steps, (Datum) 0);
}

const PgqrsShmemModule pgqrs_clock_shmem = {
	.name = "pgqrs clock",
	.size = sizeof(Clock),
	.area = (void **) &shared,
	.init = init_clock,
};

uint32
pgqrs_clock_epoch(void)
{
	return shared == NULL ? own_epoch : pg_atomic_read_u32(&shared->epoch);
}

int64
pgqrs_monotonic(void)
{
	instr_time now;

	INSTR_TIME_SET_CURRENT(now);
	return (int64) INSTR_TIME_GET_MICROSEC(now);
}

/*
 * Steps
 *
 * The operating system slews its clock and the monotonic clock alike, so the
 * distance between the two changes by steps only, and by suspension of the
 * machine, during which no backend runs.
 */

/* Records the distance between the clocks; true if it changed. */
static bool
record_offset(Steps *steps, TimestampTz now)
{
	int64 up = monotonic_now();
	int64 offset = now - up;
	PgqrsClockStep step = {steps->offset + up, now, DT_NOBEGIN};

	if (steps->offset == 0)
	{
		steps->offset = offset;
		return false;
	}
	if (offset <= steps->offset + MAX_CREEP && offset >= steps->offset - MAX_CREEP)
		return false;
	steps->offset = offset;
	steps->stepped_at = now;
	if (step.to > step.from)
	{
		steps->forward = step;
		add_unconfirmed(steps, step.to - step.from);
	}
	else
	{
		steps->unconfirmed -= step.from - step.to;
		if (steps->unconfirmed <= MAX_CREEP)
			steps->unconfirmed = 0;
		if (steps->forward.to > step.to && steps->forward.to <= step.from)
			step.ahead_since = steps->forward.to;
		steps->back = step;
	}
	return true;
}

/*
 * Called when two readings are further apart than calls are on a busy server,
 * or when the clock went back.
 */
static void
detect_step(TimestampTz now)
{
	Latch *watcher;
	bool stepped;

	if (shared == NULL)
	{
		(void) record_offset(&own_steps, now);
		return;
	}
	SpinLockAcquire(&shared->mutex);
	stepped = record_offset(&shared->steps, now);
	watcher = shared->watcher;
	SpinLockRelease(&shared->mutex);
	if (stepped && watcher != NULL)
		SetLatch(watcher);
}

static Steps
get_steps(void)
{
	Steps steps;

	if (shared == NULL)
		return own_steps;
	SpinLockAcquire(&shared->mutex);
	steps = shared->steps;
	SpinLockRelease(&shared->mutex);
	return steps;
}

void
pgqrs_clock_watch(Latch *latch)
{
	SpinLockAcquire(&shared->mutex);
	shared->watcher = latch;
	SpinLockRelease(&shared->mutex);
}

bool
pgqrs_clock_last_step_back(PgqrsClockStep *step)
{
	*step = get_steps().back;
	return step->to != 0;
}

TimestampTz
pgqrs_clock_stepped_at(void)
{
	return get_steps().stepped_at;
}

/*
 * Another backend may have read the clock and not yet recorded the step, so
 * this backend looks for a step, too.
 */
int64
pgqrs_clock_unconfirmed(TimestampTz now, TimestampTz *until)
{
	Steps steps;
	int64 left;

	detect_step(now);
	steps = get_steps();
	left = steps.unconfirmed_at + CONFIRM_AFTER - monotonic_now();
	*until = now + left;
	return left > 0 ? steps.unconfirmed : 0;
}

void
pgqrs_clock_record_step(const PgqrsClockStep *step)
{
	Steps *steps = shared == NULL ? &own_steps : &shared->steps;

	if (shared != NULL)
		SpinLockAcquire(&shared->mutex);
	if (step->to < step->from && steps->back.to == 0)
		steps->back = *step;
	steps->stepped_at = Max(steps->stepped_at, step->to);
	if (shared != NULL)
		SpinLockRelease(&shared->mutex);
}

/*
 * The reading after the last one.  After a small step back the clock advances
 * by a microsecond per reading until real time has caught up; a large step is
 * followed.
 */
static TimestampTz
next_reading(TimestampTz last)
{
	TimestampTz now = GetCurrentTimestamp() + pgqrs_clock_offset * INT64CONST(1000);

	return now > last || now <= last - MAX_CREEP ? now : last + 1;
}

/* Whether a step may lie between two readings. */
static bool
may_contain_step(TimestampTz last, TimestampTz now)
{
	return now < last || now > last + MAX_CREEP;
}

/*
 * The server's time, to be read at the moment of use and after any lock wait.
 * Readings are unique and strictly increasing across all backends where the
 * library is preloaded, otherwise within each backend.  The epoch is advanced
 * before the clock is set back, so that no reading of the new epoch carries the
 * number of the old one.
 */
TimestampTz
pgqrs_clock(void)
{
	static TimestampTz local = 0;
	uint64 last;
	TimestampTz now;

	if (shared == NULL)
	{
		now = next_reading(local);
		if (may_contain_step(local, now))
			detect_step(now);
		if (now < local)
			own_epoch++;
		return local = now;
	}

	last = pg_atomic_read_u64(&shared->last);
	do
	{
		now = next_reading((TimestampTz) last);
		if (now < (TimestampTz) last)
			pg_atomic_fetch_add_u32(&shared->epoch, 1);
	} while (!pg_atomic_compare_exchange_u64(&shared->last, &last, (uint64) now));
	if (may_contain_step((TimestampTz) last, now))
		detect_step(now);
	return now;
}

TimestampTz
pgqrs_clock_peek(void)
{
	TimestampTz now = GetCurrentTimestamp() + pgqrs_clock_offset * INT64CONST(1000);
	TimestampTz last = shared == NULL ?
		0 :
		(TimestampTz) pg_atomic_read_u64(&shared->last);

	return now <= last - MAX_CREEP ? now : Max(now, last);
}

/*
 * PostgreSQL does not report when a standby was promoted, but a writing call
 * can only follow the promotion.  Without preloading, the start of the server
 * counts.
 */
TimestampTz
pgqrs_clock_serving_since(void)
{
	TimestampTz since = 0;

	if (shared != NULL)
		since = (TimestampTz) pg_atomic_read_u64(&shared->serving_since);
	return Max(since, PgStartTime);
}

/* Records that a call writes. */
void
pgqrs_clock_record_serving(void)
{
	static bool noted = false;
	uint64 never = 0;

	if (noted || shared == NULL)
		return;
	pg_atomic_compare_exchange_u64(&shared->serving_since, &never,
								   (uint64) pgqrs_clock());
	noted = true;
}

/*
 * A fencing token: random, never a sequence or a clock, because a claim lost in
 * a crash must not be handed out again under the same lease.  Requesting many
 * random numbers at a time costs hardly more than requesting one.  is_odd: the
 * lowest bit, which is the caller's.
 */
int64
pgqrs_random_lease(bool is_odd)
{
	static uint64 stock[32];
	static int left = 0;
	uint64 lease;

	do
	{
		if (left == 0)
		{
			if (!pg_strong_random(stock, sizeof(stock)))
				ereport(ERROR,
						(errcode(ERRCODE_INTERNAL_ERROR),
						 errmsg("could not generate a random lease"),
						 errhint("The operating system's source of random numbers failed; repeat the call.")));
			left = lengthof(stock);
		}
		lease = stock[--left] >> (64 - LEASE_BITS + 1);
	} while (lease == 0);
	return (int64) (lease << 1 | is_odd);
}

bool
pgqrs_duration_of(const Interval *interval, int64 *usec)
{
	int64 days;

	return interval->month == 0 &&
		!pg_mul_s64_overflow(interval->day, USECS_PER_DAY, &days) &&
		!pg_add_s64_overflow(days, interval->time, usec) && *usec >= 0 &&
		*usec <= PGQRS_MAX_DURATION;
}

/*
 * An interval in microseconds, a day being 24 hours.  Months, whose length
 * varies, and negative or infinite durations are refused. name: the argument,
 * for the message.
 */
int64
pgqrs_duration(const Interval *interval, const char *name)
{
	int64 usec;

	if (interval->month != 0 && !INTERVAL_NOT_FINITE(interval))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" has months or years", name),
				 errhint("Use days, hours or smaller units; a day is 24 hours.")));
	if (!pgqrs_duration_of(interval, &usec))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" is out of range", name),
				 errhint("Use a duration from 0 to 366000 days.")));
	return usec;
}

/* Microseconds as an interval of days and time. */
Interval *
pgqrs_interval(int64 duration)
{
	Interval *interval = palloc0(sizeof(Interval));

	interval->day = (int32) (duration / USECS_PER_DAY);
	interval->time = duration % USECS_PER_DAY;
	return interval;
}
