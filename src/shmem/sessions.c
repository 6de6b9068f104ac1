/*
 * sessions.c
 *	  Sessions: which backend calls for a worker, or claims without one.
 *
 * Each backend has a slot of its own, guarded by a spinlock, from its first call
 * to its end.  The number of a session tells its slot, and the session from the
 * slot's earlier ones.
 *
 * The lease of a claim without a worker holds the session's number, so that a
 * claim writes nothing more, however many messages it takes.  A hash with a secret
 * of the server, of the lease's other bits and the message, hides the number.  The
 * hash is no signature: whether a lease is current is known by its row only.
 * Between two claims of a message by one session 32 random bits of the lease
 * differ.  A lease of before the server's start gives a number that no session has,
 * or that of a session which is younger than the claim.
 */
#include "shmem/sessions.h"

#include "base/clock.h"
#include "base/compat.h"
#include "base/guc.h"
#include "common/hashfn.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/spin.h"

/* The bits of a lease that hold the number, above its lowest bit. */
#define NUMBER_BITS 20
#define NUMBER_MASK ((UINT64CONST(1) << NUMBER_BITS) - 1)

/* Queues or patterns that a session is known to serve. */
#define MAX_SERVED 4
#define NAME_SIZE  256

typedef struct Served
{
	char queue[NAME_SIZE];
	Oid role;
	TimestampTz until;
} Served;

typedef struct SessionSlot
{
	slock_t mutex; /* this backend reads its own slot without it */
	uint32 number; /* of the last session */
	int pid;	   /* 0: it has ended */
	Oid db;
	TimestampTz since;
	int served_count;
	Served served[MAX_SERVED];
} SessionSlot;

typedef struct Sessions
{
	uint64 secret;
	SessionSlot slots[FLEXIBLE_ARRAY_MEMBER]; /* by backend */
} Sessions;

static Sessions *shared = NULL;

/* The number of this session; 0: it has no slot yet. */
static uint32 my_number = 0;

static uint32
slot_count(void)
{
	return MaxBackends + 1;
}

static Size
slots_size(void)
{
	return mul_size(slot_count(), sizeof(SessionSlot));
}

static void
init_sessions(LWLockPadded *locks)
{
	shared->secret = pg_prng_uint64(&pg_global_prng_state);
	for (uint32 i = 0; i < slot_count(); i++)
		SpinLockInit(&shared->slots[i].mutex);
}

const PgqrsShmemModule pgqrs_sessions_shmem = {
	.name = "pgqrs sessions",
	.size = offsetof(Sessions, slots),
	.more = slots_size,
	.area = (void **) &shared,
	.init = init_sessions,
};

static SessionSlot *
slot_of(uint32 number)
{
	return &shared->slots[number % slot_count()];
}

/*
 * The session
 */

static void
end_session(int code, Datum arg)
{
	SessionSlot *slot = slot_of(my_number);

	SpinLockAcquire(&slot->mutex);
	slot->pid = 0;
	slot->served_count = 0;
	SpinLockRelease(&slot->mutex);
}

static void
begin_session(void)
{
	uint32 at = pgqrs_backend_number();
	SessionSlot *slot = &shared->slots[at];
	TimestampTz now = pgqrs_clock();
	uint32 number = Max(slot->number, at) + slot_count();

	if (number > NUMBER_MASK)
		number = at + slot_count();
	SpinLockAcquire(&slot->mutex);
	slot->number = number;
	slot->pid = MyProcPid;
	slot->db = MyDatabaseId;
	slot->since = now;
	slot->served_count = 0;
	SpinLockRelease(&slot->mutex);
	my_number = number;
	on_shmem_exit(end_session, 0);
}

uint32
pgqrs_session_number(void)
{
	if (my_number == 0 && shared != NULL)
		begin_session();
	return my_number;
}

/* 0 also for a session that began after the instant. */
int
pgqrs_session_pid(uint32 number, TimestampTz at)
{
	SessionSlot *slot;
	int pid;

	if (number == 0 || shared == NULL)
		return 0;
	slot = slot_of(number);
	SpinLockAcquire(&slot->mutex);
	pid = slot->number == number && slot->db == MyDatabaseId && slot->since <= at ?
		slot->pid :
		0;
	SpinLockRelease(&slot->mutex);
	return pid;
}

/*
 * Leases
 */

/* Hides or shows the number in a lease. */
static uint64
exchange_number(uint64 lease, int64 message_id)
{
	uint64 words[] = {lease & ~(NUMBER_MASK << 1), (uint64) message_id};
	uint64 hash = hash_bytes_extended((const unsigned char *) words,
									  sizeof(words), shared->secret);

	return lease ^ (hash & NUMBER_MASK) << 1;
}

int64
pgqrs_session_mark_lease(int64 lease, int64 message_id)
{
	uint64 number = pgqrs_session_number();
	uint64 marked;

	if (number == 0)
		return lease;
	marked = exchange_number(((uint64) lease & ~(NUMBER_MASK << 1)) | number << 1,
							 message_id);
	return marked != 0 ? (int64) marked : lease;
}

int
pgqrs_session_pid_of_lease(int64 lease, int64 message_id, TimestampTz claimed_at)
{
	if (shared == NULL)
		return 0;
	return pgqrs_session_pid(exchange_number((uint64) lease, message_id) >> 1 &
								 NUMBER_MASK,
							 claimed_at);
}

/*
 * Queues that are served without a worker
 */

/* The place of the queue, or that which is to be its; -1: of a new one. */
static int
served_place(const SessionSlot *slot, const char *queue)
{
	int first = 0;

	for (int i = 0; i < slot->served_count; i++)
	{
		if (strcmp(slot->served[i].queue, queue) == 0)
			return i;
		if (slot->served[i].until < slot->served[first].until)
			first = i;
	}
	return slot->served_count < MAX_SERVED ? -1 : first;
}

void
pgqrs_session_serves(const char *queue, int64 timeout)
{
	TimestampTz until = pgqrs_clock_peek() +
		(Min(timeout, PG_INT32_MAX) + pgqrs_worker_timeout) * INT64CONST(1000);
	SessionSlot *slot;
	int place;

	if (pgqrs_session_number() == 0)
		return;
	slot = slot_of(my_number);
	place = served_place(slot, queue);
	SpinLockAcquire(&slot->mutex);
	if (place < 0)
		place = slot->served_count++;
	strlcpy(slot->served[place].queue, queue, NAME_SIZE);
	slot->served[place].role = GetUserId();
	slot->served[place].until = until;
	SpinLockRelease(&slot->mutex);
}

/* False: the session serves no more than so many queues. */
static bool
read_served(SessionSlot *slot, int place, uint32 *number, Served *served)
{
	bool found;

	SpinLockAcquire(&slot->mutex);
	found = place < slot->served_count && slot->db == MyDatabaseId;
	*number = slot->number;
	if (found)
		*served = slot->served[place];
	SpinLockRelease(&slot->mutex);
	return found;
}

void
pgqrs_sessions_visit_serving(void (*visit)(void *arg, uint32 number, Oid role,
										   const char *queue),
							 void *arg)
{
	TimestampTz now = pgqrs_clock();

	for (uint32 i = 0; shared != NULL && i < slot_count(); i++)
	{
		SessionSlot *slot = &shared->slots[i];
		Served served;
		uint32 number;

		if (slot->served_count == 0)
			continue;
		for (int j = 0; read_served(slot, j, &number, &served); j++)
			if (served.until > now)
				visit(arg, number, served.role, served.queue);
	}
}
