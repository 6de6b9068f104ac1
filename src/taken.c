/*
 * taken.c
 *	  Which messages were claimed a moment ago.
 *
 * The claims of all sessions begin at the same place of a queue.  The index
 * still has the entries of what others have claimed there since, and reading
 * each row only to find that out means to wait for those who write to its page.
 * So a claim writes down the key that it took, and others pass the entry over.
 *
 * A key that is noted was the message's, and the transaction that noted it has
 * given the message another one, later than any before (floor.c).  While that
 * transaction is open, the entry is passed over as a locked row is: a floor must
 * not be raised past it.  Once it has committed, nothing claimable has the key
 * again, unless somebody writes it by hand, which removes the note.  If anything
 * of it is undone, its notes go before its locks.  A note that cannot be kept, or
 * is older than MAX_AGE, costs a look at the row.
 *
 * Runs in every backend that claims.  Shared memory only, without it nothing is
 * known; a place is guarded by its spinlock.
 */
#include "taken.h"

#include "compat.h"
#include "miscadmin.h"
#include "storage/shmem.h"
#include "storage/spin.h"

/* The ids of what is claimed at a time are near each other. */
#define PLACES 1024

/* So much of a transaction, the first of it, is written down. */
#define MAX_NOTES 64

#define MAX_AGE USECS_PER_SEC

typedef struct Place
{
	slock_t mutex;
	bool committed;
	Oid db; /* invalid: nothing is noted */
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

Size
pgqrs_taken_shmem_size(void)
{
	return PLACES * sizeof(PaddedPlace) + PG_CACHE_LINE_SIZE;
}

/* Called by the postmaster, with AddinShmemInitLock held. */
void
pgqrs_taken_shmem_init(void)
{
	bool found;
	void *p = ShmemInitStruct("pgqrs taken messages", pgqrs_taken_shmem_size(),
							  &found);

	shared = (PaddedPlace *) CACHELINEALIGN(p);
	if (found)
		return;
	memset(shared, 0, PLACES * sizeof(PaddedPlace));
	for (int i = 0; i < PLACES; i++)
		SpinLockInit(&shared[i].p.mutex);
}

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

void
pgqrs_taken_note(PgqrsFloorKey key, TimestampTz now)
{
	Place *place;

	if (shared == NULL || note_count == MAX_NOTES)
		return;
	notes[note_count++] = key;
	place = place_of(key.message_id);
	SpinLockAcquire(&place->mutex);
	place->db = MyDatabaseId;
	place->key = key;
	place->backend = pgqrs_backend_number();
	place->committed = false;
	place->noted_at = now;
	SpinLockRelease(&place->mutex);
}

PgqrsTaken
pgqrs_taken_look(PgqrsFloorKey key, TimestampTz now)
{
	PgqrsTaken taken = TAKEN_UNKNOWN;
	Place *place;

	if (shared == NULL)
		return TAKEN_UNKNOWN;
	place = place_of(key.message_id);
	SpinLockAcquire(&place->mutex);
	if (is_noted(place, key) && now - place->noted_at < MAX_AGE &&
		place->noted_at - now < MAX_AGE)
		taken = place->committed || PGQRS_FLOOR_BROKEN('t') ? TAKEN_COMMITTED :
															  TAKEN_OPEN;
	SpinLockRelease(&place->mutex);
	return taken;
}

/* Ends the transaction's notes that nobody has written over. */
static void
end_notes(bool committed)
{
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
pgqrs_taken_committed(void)
{
	end_notes(true);
}

void
pgqrs_taken_forget(void)
{
	end_notes(PGQRS_FLOOR_BROKEN('u'));
}

void
pgqrs_taken_foreign_write(int64 message_id)
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
