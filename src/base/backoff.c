/*
 * backoff.c
 *	  Backoff: the delay before a retry.
 */
#include "base/backoff.h"

#include <math.h>

#include "common/pg_prng.h"

/*
 * min(max_interval, initial_interval * coefficient^(failures - 1)) times a
 * uniform factor of [1 - jitter, 1 + jitter], in microseconds.  No number of
 * failures and no coefficient overflows: the power may be infinite or zero but
 * never NaN, and the test of delay > 0 excludes 0 * infinity.
 */
int64
pgqrs_backoff_delay(const PgqrsBackoff *policy, int failures)
{
	double delay = (double) policy->initial_interval;
	double factor;

	if (delay > 0)
		delay *= pow(policy->coefficient, Max(failures, 1) - 1);
	delay = Min(delay, (double) policy->max_interval);
	factor = 1 + policy->jitter * (2 * pg_prng_double(&pg_global_prng_state) - 1);
	return (int64) (delay * factor);
}
