/*
 * inject.h
 *	  Fault injection for the stress test: named points of the claim protocol.
 *
 * A build with -DPGQRS_BREAK_FLOOR='x' raises floors at every chance, sleeps at
 * random wherever another backend may come in between, and breaks the protocol
 * at the one point that has this letter; '-' has none, and only sleeps.  An
 * ordinary build compiles all of it away.  test/soak/stress/run builds each
 * variant and shows that the test finds the loss.
 */
#ifndef PGQRS_INJECT_H
#define PGQRS_INJECT_H

#include "postgres.h"

#include "common/pg_prng.h"

/* The letters are those of test/soak/stress/run. */
#define FLOOR_PUBLISH_NOTHING		'a'
#define FLOOR_KEY_BEFORE_PUBLISH	'b'
#define FLOOR_WITHDRAW_EARLY		'c' /* before the commit is visible */
#define FLOOR_READ_PENDING_LATE		'd' /* after the snapshot was taken */
#define FLOOR_IGNORE_PENDING		'e'
#define FLOOR_PASS_FIRST_ROW		'g'
#define FLOOR_RAISE_WHEN_DIRTY		'h' /* by a transaction that changed messages */
#define FLOOR_PUBLISH_ONCE			'i' /* further keys are published too late */
#define FLOOR_OLD_SNAPSHOT			'j' /* scan under the transaction's snapshot */
#define FLOOR_FORGET_PREPARED		'k' /* after a start */
#define FLOOR_DML_UNPUBLISHED		'l'
#define FLOOR_IGNORE_GENERATION		'm' /* direct DML has lowered the floor */
#define FLOOR_GAP_OVER_PENDING		'o'
#define FLOOR_PREPARE_UNRECORDED	'p'
#define FLOOR_DML_KEEPS_GAP			'r'
#define FLOOR_RAISE_AFTER_END		'v' /* by a call that has ended messages */
#define CLAIM_HINT_PASS_OPEN		't' /* open claims hold no floor */
#define CLAIM_HINT_KEEP_ROLLED_BACK 'u'

#ifdef PGQRS_BREAK_FLOOR
#define INJECT(point) (PGQRS_BREAK_FLOOR == (point))

/* True once in about so many calls. */
static inline bool
inject_at_random(int calls)
{
	return pg_prng_uint64_range(&pg_global_prng_state, 0, calls - 1) == 0;
}

/* Sleeps for up to 30 ms once in a while. */
static inline void
inject_delay(void)
{
	if (inject_at_random(16))
		pg_usleep(pg_prng_uint64_range(&pg_global_prng_state, 0, 30000));
}
#else
#define INJECT(point) false

static inline bool
inject_at_random(int calls)
{
	return false;
}

static inline void
inject_delay(void)
{
}
#endif

#endif /* PGQRS_INJECT_H */
