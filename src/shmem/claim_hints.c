/*
 * claim_hints.c
 *	  Which messages were claimed a moment ago.
 *
 * The claims of all sessions begin at the same place of a queue.  The index
 * still has the entries of what others have claimed there since, and reading
 * each row only to find that out means to wait for those who write to its page.
 * So a claim writes down the key that it took, and others pass the entry over.
 *
 * A key that is noted was the message's, and the transaction that noted it has
 * given the message another one, later than any before (claim_floor.c).  While that
 * transaction is open, the entry is passed over as a locked row is: a floor must
 * not be raised past it.  Once it has committed, nothing claimable has the key
 * again, unless somebody writes it by hand, which removes the note.  If anything
 * of it is undone, its notes go before its locks.  A note that cannot be kept, or
 * is older than MAX_AGE, costs a look at the row.
 *
 * A claim must not wait, and heap_update() can only wait.  So the note is made
 * before the update, and reserves the place until the update is done: no other
 * claim updates, and no function locks, a message of that place meanwhile, so
 * that a row that was seen free then is free in heap_update(), too.  Where the
 * place is not to be had, the claim locks the row first, which costs WAL.  Only a
 * transaction that locks rows of pgqrs_messages or pgqrs_workflow_runs by its own
 * SQL, just between the claim's look and its update, is waited for.
 *
 * Runs in every backend that claims.  Shared memory only, without it nothing is
 * known; a place is guarded by its spinlock.
 */
#include "shmem/claim_hints.h"

#include "base/compat.h"
#include "base/inject.h"
#include "miscadmin.h"
#include "storage/spin.h"

/* The ids of what is claimed at a time are near each other. */
#define PLACES 1024

/* So much of a transaction, the first of it, is written down. */
#define MAX_NOTES 64

#define MAX_AGE USECS_PER_SEC

/* How often, and how long each time, a lock waits for an update to be done. */
#define LOCK_TRIES 100
#define LOCK_PAUSE 100L /* microseconds */

typedef struct Place
{
	slock_t mutex;
	bool committed;
	bool updating; /* the backend is about to write what is noted */
	int lockers;   /* backends that are about to lock a row of this place */
	Oid db;		   /* invalid: nothing is noted */
	int backend;
	PgqrsFloorKey key;
	TimestampTz noted_at;
} Place;

typedef union PaddedPlace
{
	Place p;
	char pad[PG_CACHE_LINE_SIZE];
} PaddedPlace;

static PaddedPlace *shared = NULL;

/* What the transaction has noted. */
static PgqrsFloorKey notes[MAX_NOTES];
static int note_count = 0;

/* The places where this backend is updating or locking. */
static Place *updating = NULL;
static Place *locking = NULL;

static void
init_places(LWLockPadded *locks)
{
	for (int i = 0; i < PLACES; i++)
		SpinLockInit(&shared[i].p.mutex);
}

const PgqrsShmemModule pgqrs_claim_hints_shmem = {
	.name = "pgqrs taken messages",
	.size = PLACES * sizeof(PaddedPlace),
	.area = (void **) &shared,
	.init = init_places,
};

static Place *
place_of(int64 message_id)
{
	return &shared[((uint64) message_id + MyDatabaseId) % PLACES].p;
}

static bool
is_noted(const Place *place, PgqrsFloorKey key)
{
	return place->db == MyDatabaseId && pgqrs_floor_compare(place->key, key) == 0;
}

static bool
is_fresh(const Place *place, TimestampTz now)
{
	return place->updating ||
		(now - place->noted_at < MAX_AGE && place->noted_at - now < MAX_AGE);
}

/* Called with the place's mutex held. */
static void
write_note(Place *place, PgqrsFloorKey key, TimestampTz now)
{
	place->db = MyDatabaseId;
	place->key = key;
	place->backend = pgqrs_backend_number();
	place->committed = false;
	place->noted_at = now;
}

void
pgqrs_claim_hint_record(PgqrsFloorKey key, TimestampTz now)
{
	Place *place;

	if (shared == NULL || note_count == MAX_NOTES)
		return;
	place = place_of(key.message_id);
	SpinLockAcquire(&place->mutex);
	if (!place->updating)
	{
		write_note(place, key, now);
		notes[note_count++] = key;
	}
	SpinLockRelease(&place->mutex);
}

PgqrsClaimAccess
pgqrs_claim_hint_begin_update(PgqrsFloorKey key, TimestampTz now)
{
	PgqrsClaimAccess take = CLAIM_BY_UPDATE;
	Place *place;

	if (shared == NULL)
		return CLAIM_BY_LOCK;
	place = place_of(key.message_id);
	SpinLockAcquire(&place->mutex);
	if (is_noted(place, key) && is_fresh(place, now))
		take = CLAIM_SKIP;
	else if (place->updating || place->lockers > 0)
		take = CLAIM_BY_LOCK;
	else
	{
		write_note(place, key, now);
		place->updating = true;
		updating = place;
	}
	SpinLockRelease(&place->mutex);
	return take;
}

void
pgqrs_claim_hint_end_update(bool taken)
{
	SpinLockAcquire(&updating->mutex);
	updating->updating = false;
	if (taken && note_count < MAX_NOTES)
		notes[note_count++] = updating->key;
	else
		updating->db = InvalidOid;
	SpinLockRelease(&updating->mutex);
	updating = NULL;
}

/*
 * An update takes no longer than to read and write a page.  Should it take
 * longer, the lock may come in its way, and the claim wait.
 */
void
pgqrs_claim_hint_begin_lock(int64 message_id)
{
	bool entered = false;
	Place *place;

	if (shared == NULL)
		return;
	Assert(locking == NULL);
	place = place_of(message_id);
	for (int tries = 0; !entered; tries++)
	{
		if (tries > 0)
			pg_usleep(LOCK_PAUSE);
		SpinLockAcquire(&place->mutex);
		entered = !place->updating || tries == LOCK_TRIES;
		if (entered)
		{
			place->lockers++;
			locking = place;
		}
		SpinLockRelease(&place->mutex);
	}
}

void
pgqrs_claim_hint_end_lock(void)
{
	if (locking == NULL)
		return;
	SpinLockAcquire(&locking->mutex);
	locking->lockers--;
	SpinLockRelease(&locking->mutex);
	locking = NULL;
}

PgqrsClaimHint
pgqrs_claim_hint_look_up(PgqrsFloorKey key, TimestampTz now)
{
	PgqrsClaimHint taken = CLAIM_HINT_NONE;
	Place *place;

	if (shared == NULL)
		return CLAIM_HINT_NONE;
	place = place_of(key.message_id);
	SpinLockAcquire(&place->mutex);
	if (is_noted(place, key) && is_fresh(place, now))
		taken = place->committed || INJECT(CLAIM_HINT_PASS_OPEN) ?
			CLAIM_HINT_COMMITTED :
			CLAIM_HINT_OPEN;
	SpinLockRelease(&place->mutex);
	return taken;
}

/* Ends the transaction's notes that nobody has written over. */
static void
end_notes(bool committed)
{
	if (updating != NULL)
		pgqrs_claim_hint_end_update(false);
	pgqrs_claim_hint_end_lock();
	while (note_count > 0)
	{
		PgqrsFloorKey key = notes[--note_count];
		Place *place = place_of(key.message_id);

		SpinLockAcquire(&place->mutex);
		if (is_noted(place, key) && place->backend == pgqrs_backend_number())
		{
			place->committed = committed;
			if (!committed)
				place->db = InvalidOid;
		}
		SpinLockRelease(&place->mutex);
	}
}

void
pgqrs_claim_hints_committed(void)
{
	end_notes(true);
}

void
pgqrs_claim_hints_forget(void)
{
	end_notes(INJECT(CLAIM_HINT_KEEP_ROLLED_BACK));
}

/* Of this database, whoever noted it. */
void
pgqrs_claim_hints_forget_all(void)
{
	for (int i = 0; i < PLACES && shared != NULL; i++)
	{
		Place *place = &shared[i].p;

		SpinLockAcquire(&place->mutex);
		if (place->db == MyDatabaseId)
			place->db = InvalidOid;
		SpinLockRelease(&place->mutex);
	}
}

void
pgqrs_claim_hint_foreign_write(int64 message_id)
{
	Place *place;

	if (shared == NULL)
		return;
	place = place_of(message_id);
	SpinLockAcquire(&place->mutex);
	if (place->db == MyDatabaseId && place->key.message_id == message_id)
		place->db = InvalidOid;
	SpinLockRelease(&place->mutex);
}
