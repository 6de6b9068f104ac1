/*
 * claim_hints.c
 *	  Claim hints: messages that transactions claimed a moment ago.
 *
 * The claims of all sessions begin at the same key of a queue.  The index still
 * has the entries of messages claimed there since, and reading each row only to
 * discover that would wait for the transactions that write its page.  So a
 * claim records the key that it took, and other claims skip the entry.
 *
 * The recorded key was the message's, and the transaction that recorded it gave
 * the message another key, later than any before (claim_floor.c).  While that
 * transaction is open, other claims skip the entry like a locked row: a floor
 * must not be raised past it.  Once the transaction has committed, no claimable
 * message has that key again, unless direct DML writes it, which removes the
 * hint.  If a part of the transaction is rolled back, its hints are removed
 * before its locks are released.  A hint that found no slot, or is older than
 * MAX_AGE, costs reading the row.
 *
 * A claim must not wait, but heap_update() has no mode that does not wait.  So
 * the hint is recorded before the update and reserves the slot until the update
 * is done: meanwhile no other claim updates, and no function locks, a message
 * of that slot, so a row that was seen unlocked is still unlocked in
 * heap_update().  If the slot is not available, the claim locks the row first,
 * which costs WAL.  A claim waits only for a transaction that locks rows of
 * pgqrs_messages or pgqrs_workflow_runs by its own SQL just between the claim's
 * look and its update.
 *
 * Runs in every backend that claims.  Uses shared memory only; without shared
 * memory there are no hints.  A spinlock guards each slot.
 */
#include "shmem/claim_hints.h"

#include "base/compat.h"
#include "base/inject.h"
#include "miscadmin.h"
#include "storage/spin.h"

/* Slots; the ids of messages claimed at the same time are close together. */
#define CLAIM_SLOTS 1024

/* Hints recorded per transaction: the first so many. */
#define MAX_KEYS 64

#define MAX_AGE USECS_PER_SEC

/* How often, and how long each time, a locker waits for an update to end. */
#define LOCK_TRIES 100
#define LOCK_PAUSE 100L /* microseconds */

typedef struct ClaimSlot
{
	slock_t mutex;
	bool committed;
	bool updating; /* the backend is about to write the message */
	int lockers;   /* backends about to lock a row of this slot */
	Oid db;		   /* invalid: no hint */
	int backend;
	PgqrsFloorKey key;
	TimestampTz recorded_at;
} ClaimSlot;

typedef union PaddedSlot
{
	ClaimSlot p;
	char pad[PG_CACHE_LINE_SIZE];
} PaddedSlot;

static PaddedSlot *shared = NULL;

/* Keys that the transaction has recorded. */
static PgqrsFloorKey updated_keys[MAX_KEYS];
static int key_count = 0;

/* The slots in which this backend is updating or locking. */
static ClaimSlot *updating_slot = NULL;
static ClaimSlot *locking_slot = NULL;

static void
init_slots(LWLockPadded *locks)
{
	for (int i = 0; i < CLAIM_SLOTS; i++)
		SpinLockInit(&shared[i].p.mutex);
}

const PgqrsShmemModule pgqrs_claim_hints_shmem = {
	.name = "pgqrs claim hints",
	.size = CLAIM_SLOTS * sizeof(PaddedSlot),
	.area = (void **) &shared,
	.init = init_slots,
};

static ClaimSlot *
slot_of(int64 message_id)
{
	return &shared[((uint64) message_id + MyDatabaseId) % CLAIM_SLOTS].p;
}

static bool
has_hint(const ClaimSlot *slot, PgqrsFloorKey key)
{
	return slot->db == MyDatabaseId && pgqrs_floor_compare(slot->key, key) == 0;
}

static bool
is_fresh(const ClaimSlot *slot, TimestampTz now)
{
	return slot->updating ||
		(now - slot->recorded_at < MAX_AGE && slot->recorded_at - now < MAX_AGE);
}

/* The slot's spinlock is held. */
static void
write_hint(ClaimSlot *slot, PgqrsFloorKey key, TimestampTz now)
{
	slot->db = MyDatabaseId;
	slot->key = key;
	slot->backend = pgqrs_backend_number();
	slot->committed = false;
	slot->recorded_at = now;
}

void
pgqrs_claim_hint_record(PgqrsFloorKey key, TimestampTz now)
{
	ClaimSlot *slot;

	if (shared == NULL || key_count == MAX_KEYS)
		return;
	slot = slot_of(key.message_id);
	SpinLockAcquire(&slot->mutex);
	if (!slot->updating)
	{
		write_hint(slot, key, now);
		updated_keys[key_count++] = key;
	}
	SpinLockRelease(&slot->mutex);
}

PgqrsClaimAccess
pgqrs_claim_hint_begin_update(PgqrsFloorKey key, TimestampTz now)
{
	PgqrsClaimAccess access = CLAIM_BY_UPDATE;
	ClaimSlot *slot;

	if (shared == NULL)
		return CLAIM_BY_LOCK;
	slot = slot_of(key.message_id);
	SpinLockAcquire(&slot->mutex);
	if (has_hint(slot, key) && is_fresh(slot, now))
		access = CLAIM_SKIP;
	else if (slot->updating || slot->lockers > 0)
		access = CLAIM_BY_LOCK;
	else
	{
		write_hint(slot, key, now);
		slot->updating = true;
		updating_slot = slot;
	}
	SpinLockRelease(&slot->mutex);
	return access;
}

void
pgqrs_claim_hint_end_update(bool claimed)
{
	SpinLockAcquire(&updating_slot->mutex);
	updating_slot->updating = false;
	if (claimed && key_count < MAX_KEYS)
		updated_keys[key_count++] = updating_slot->key;
	else
		updating_slot->db = InvalidOid;
	SpinLockRelease(&updating_slot->mutex);
	updating_slot = NULL;
}

/*
 * An update only reads and writes a page.  If it takes longer than this call
 * waits, the locker may get in between, and the claim then waits.
 */
void
pgqrs_claim_hint_begin_lock(int64 message_id)
{
	bool entered = false;
	ClaimSlot *slot;

	if (shared == NULL)
		return;
	Assert(locking_slot == NULL);
	slot = slot_of(message_id);
	for (int tries = 0; !entered; tries++)
	{
		if (tries > 0)
			pg_usleep(LOCK_PAUSE);
		SpinLockAcquire(&slot->mutex);
		entered = !slot->updating || tries == LOCK_TRIES;
		if (entered)
		{
			slot->lockers++;
			locking_slot = slot;
		}
		SpinLockRelease(&slot->mutex);
	}
}

void
pgqrs_claim_hint_end_lock(void)
{
	if (locking_slot == NULL)
		return;
	SpinLockAcquire(&locking_slot->mutex);
	locking_slot->lockers--;
	SpinLockRelease(&locking_slot->mutex);
	locking_slot = NULL;
}

PgqrsClaimHint
pgqrs_claim_hint_look_up(PgqrsFloorKey key, TimestampTz now)
{
	PgqrsClaimHint hint = CLAIM_HINT_NONE;
	ClaimSlot *slot;

	if (shared == NULL)
		return CLAIM_HINT_NONE;
	slot = slot_of(key.message_id);
	SpinLockAcquire(&slot->mutex);
	if (has_hint(slot, key) && is_fresh(slot, now))
		hint = slot->committed || INJECT(CLAIM_HINT_PASS_OPEN) ?
			CLAIM_HINT_COMMITTED :
			CLAIM_HINT_OPEN;
	SpinLockRelease(&slot->mutex);
	return hint;
}

/* Ends the transaction's hints that no other transaction has overwritten. */
static void
end_hints(bool committed)
{
	if (updating_slot != NULL)
		pgqrs_claim_hint_end_update(false);
	pgqrs_claim_hint_end_lock();
	while (key_count > 0)
	{
		PgqrsFloorKey key = updated_keys[--key_count];
		ClaimSlot *slot = slot_of(key.message_id);

		SpinLockAcquire(&slot->mutex);
		if (has_hint(slot, key) && slot->backend == pgqrs_backend_number())
		{
			slot->committed = committed;
			if (!committed)
				slot->db = InvalidOid;
		}
		SpinLockRelease(&slot->mutex);
	}
}

void
pgqrs_claim_hints_committed(void)
{
	end_hints(true);
}

void
pgqrs_claim_hints_forget(void)
{
	end_hints(INJECT(CLAIM_HINT_KEEP_ROLLED_BACK));
}

/* The database's hints, of all sessions. */
void
pgqrs_claim_hints_forget_all(void)
{
	for (int i = 0; i < CLAIM_SLOTS && shared != NULL; i++)
	{
		ClaimSlot *slot = &shared[i].p;

		SpinLockAcquire(&slot->mutex);
		if (slot->db == MyDatabaseId)
			slot->db = InvalidOid;
		SpinLockRelease(&slot->mutex);
	}
}

void
pgqrs_claim_hint_foreign_write(int64 message_id)
{
	ClaimSlot *slot;

	if (shared == NULL)
		return;
	slot = slot_of(message_id);
	SpinLockAcquire(&slot->mutex);
	if (slot->db == MyDatabaseId && slot->key.message_id == message_id)
		slot->db = InvalidOid;
	SpinLockRelease(&slot->mutex);
}
