/*
 * clock.c
 *	  The one clock, and the random numbers that fence.
 *
 * Runs in any backend, takes no lock.
 */
#include "clock.h"

#include "common/int.h"
#include "guc.h"
#include "port/atomics.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

/* A backward step of the operating system's clock that is more than this is followed. */
#define MAX_CREEP (5 * USECS_PER_SEC)

/* Leases fit into what a JSON or JavaScript number holds exactly. */
#define LEASE_BITS 53

/* Shared by all backends where the library is preloaded. */
typedef struct Clock
{
	pg_atomic_uint64 last;	/* the last reading; by compare and exchange */
	pg_atomic_uint32 epoch; /* how often it was set back */

	/* when a call that writes came first, or 0; by compare and exchange */
	pg_atomic_uint64 serving_since;
} Clock;

static Clock *shared = NULL;

Size
pgqrs_clock_shmem_size(void)
{
	return MAXALIGN(sizeof(Clock));
}

/* Called by the postmaster, with AddinShmemInitLock held. */
void
pgqrs_clock_shmem_init(void)
{
	bool found;

	shared = ShmemInitStruct("pgqrs clock", sizeof(Clock), &found);
	if (!found)
	{
		pg_atomic_init_u64(&shared->last, 0);
		pg_atomic_init_u32(&shared->epoch, 0);
		pg_atomic_init_u64(&shared->serving_since, 0);
	}
}

uint32
pgqrs_clock_epoch(void)
{
	return shared == NULL ? 0 : pg_atomic_read_u32(&shared->epoch);
}

/*
 * The next reading after the last one.  A small backward step of the operating
 * system's clock makes it creep by a microsecond per reading until real time
 * has caught up; a large one is followed.
 */
static TimestampTz
next_reading(TimestampTz last)
{
	TimestampTz now = GetCurrentTimestamp() + pgqrs_clock_offset * INT64CONST(1000);

	return now > last || now <= last - MAX_CREEP ? now : last + 1;
}

/*
 * The server's time, to be read at the moment of use and after any lock wait.
 * Readings are unique and strictly increasing across all backends where the
 * library is preloaded, else within each.  The epoch is advanced before the
 * clock is set back, so that no reading of the new epoch bears the old one's
 * number.
 */
TimestampTz
pgqrs_clock(void)
{
	static TimestampTz local = 0;
	uint64 last;
	TimestampTz now;

	if (shared == NULL)
		return local = next_reading(local);

	last = pg_atomic_read_u64(&shared->last);
	do
	{
		now = next_reading((TimestampTz) last);
		if (now < (TimestampTz) last)
			pg_atomic_fetch_add_u32(&shared->epoch, 1);
	} while (!pg_atomic_compare_exchange_u64(&shared->last, &last, (uint64) now));
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
 * Nothing tells when a standby was promoted, but no call that writes comes
 * before.  Where the library is not preloaded, the start has to do.
 */
TimestampTz
pgqrs_clock_serving_since(void)
{
	TimestampTz since = 0;

	if (shared != NULL)
		since = (TimestampTz) pg_atomic_read_u64(&shared->serving_since);
	return Max(since, PgStartTime);
}

/* A call writes. */
void
pgqrs_clock_note_serving(void)
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
 * A fencing token: random, never a sequence or a clock, because a claim lost
 * in a crash must not be handed out again under the same lease.  Asking for
 * many at a time costs hardly more than asking for one.
 */
int64
pgqrs_random_lease(void)
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
		lease = stock[--left] >> (64 - LEASE_BITS);
	} while (lease == 0);
	return (int64) lease;
}

/*
 * An interval in microseconds, a day being 24 hours.  Months, whose length is
 * not fixed, and negative or endless durations are refused.  name: the
 * argument, for the message.
 */
int64
pgqrs_duration(const Interval *interval, const char *name)
{
	int64 days;
	int64 usec;

	if (interval->month != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" has months or years", name),
				 errhint("Use days, hours or smaller units; a day is 24 hours.")));
	if (pg_mul_s64_overflow(interval->day, USECS_PER_DAY, &days) ||
		pg_add_s64_overflow(days, interval->time, &usec) || usec < 0 ||
		usec > PGQRS_MAX_DURATION)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" is out of range", name),
				 errhint("Use a duration from 0 to 366000 days.")));
	return usec;
}

/* Microseconds as an interval, days apart. */
Interval *
pgqrs_interval(int64 duration)
{
	Interval *interval = palloc0(sizeof(Interval));

	interval->day = (int32) (duration / USECS_PER_DAY);
	interval->time = duration % USECS_PER_DAY;
	return interval;
}
