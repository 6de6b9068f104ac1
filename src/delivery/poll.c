/*
 * poll.c
 *	  A worker's poll: extends leases, claims work, and waits for either to change.
 *
 * Runs in the backend of a worker's client.  A poll holds a lock of its worker for
 * the session from beginning to end, so that the polls of a worker follow each
 * other.  A newer poll has the older one woken, which finds that it is not the
 * newest any more and ends: by its number in shared memory or, without that, by
 * the newer one that waits for the lock.  So no claim of an older poll commits
 * after a newer one has looked for claims whose answers were lost.
 *
 * The first transaction extends the leases that the client names, releases those
 * that an earlier poll made and the client does not name, and claims.  If it has
 * nothing to tell, client_wait.c sleeps; after that the poll extends and claims
 * once more.  Also a lease that has expired by then is extended: the backend, or
 * the machine, may have stood still.
 *
 * A lease is written only when a third of its time has passed, and a poll sleeps
 * no longer than a third: a worker that polls again at once loses no lease, and
 * one that polls for each message that it ends writes few.
 */
#include "delivery/poll.h"

#include "base/catalog.h"
#include "base/clock.h"
#include "base/int64_list.h"
#include "base/json.h"
#include "delivery/claim.h"
#include "delivery/client_wait.h"
#include "delivery/delivered_steps.h"
#include "delivery/worker.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "queue/lease_limits.h"
#include "queue/message.h"
#include "shmem/heartbeats.h"
#include "shmem/wait_slots.h"
#include "shmem/xact_hooks.h"
#include "storage/lock.h"
#include "store/scan.h"
#include "store/tuple.h"
#include "utils/datum.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

/*
 * Work of this size ends the claims of a call, and its steps have at most this
 * size: the answer is jsonb, which is limited.
 */
#define MAX_WORK_SIZE (64 * 1024 * 1024)

/* The lock of a worker's polls, beside those of lease_limits.c. */
#define LOCK_POLL 2

typedef enum HeldState
{
	HELD_EXTENDED,
	HELD_CANCEL_REQUESTED,
	HELD_GONE
} HeldState;

static const char *const held_labels[] = {
	[HELD_EXTENDED] = "extended",
	[HELD_CANCEL_REQUESTED] = "cancel_requested",
	[HELD_GONE] = "gone",
};

/* A claimed message, as the client will see it. */
typedef struct WorkItem
{
	int64 run_id; /* 0: a plain message */
	Datum object;
} WorkItem;

typedef struct Poll
{
	const PgqrsPollRequest *request;
	MemoryContext context; /* of the answer */
	instr_time start;
	int64 timeout; /* milliseconds: the request's, and as the leases allow */
	uint32 number; /* of this poll of the worker; 0: not known */
	PgqrsWorkerStatus status;
	HeldState *held;
	bool has_news; /* of the held leases */
	WorkItem *work;
	int work_count;
	Size work_size;
} Poll;

/*
 * Leases whose cancellation this session has told, sorted: it ends one poll, and
 * the client may hold the lease for long after that.  Several workers may share
 * a session, so leases that a poll does not name stay, until they are too many.
 */
static PgqrsInt64List told_cancels;

#define MAX_TOLD 4096

/*
 * One poll at a time
 */

static LOCKTAG
poll_tag(int64 worker_id)
{
	LOCKTAG tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, pgqrs_catalog_table(TABLE_WORKERS),
					   (uint32) worker_id, LOCK_POLL);
	return tag;
}

/*
 * An error releases the lock, as the end of the session does.  The number is taken
 * before the older poll is woken, which looks at it after it has said what wakes it.
 */
static void
begin_only_poll(Poll *poll)
{
	int64 worker_id = poll->request->worker_id;
	LOCKTAG tag = poll_tag(worker_id);

	poll->number = pgqrs_heartbeat_next_poll(pgqrs_catalog_table(TABLE_WORKERS),
											 worker_id);
	if (LockAcquire(&tag, ExclusiveLock, true, true) != LOCKACQUIRE_NOT_AVAIL)
		return;
	if (pgqrs_wait_is_possible())
		pgqrs_wait_wake_all(WAKEUP_WORKER_POLL, worker_id);
	(void) LockAcquire(&tag, ExclusiveLock, true, false);
}

/*
 * The claims commit before a newer poll looks for them, and before the answer is
 * sent, which may take as long as the client likes.
 */
static void
end_only_poll(const Poll *poll)
{
	LOCKTAG tag = poll_tag(poll->request->worker_id);

	pgqrs_wait_commit();
	LockRelease(&tag, ExclusiveLock, true);
}

static bool
has_newer_poll(const Poll *poll)
{
	int64 worker_id = poll->request->worker_id;
	LOCKTAG tag = poll_tag(worker_id);

	return pgqrs_heartbeat_newest_poll(pgqrs_catalog_table(TABLE_WORKERS),
									   worker_id) != poll->number ||
		LockHasWaiters(&tag, ExclusiveLock, true);
}

/*
 * Held leases
 */

static HeldState
state_of_held(TupleTableSlot *message, const PgqrsQueue *queue, TimestampTz now)
{
	return pgqrs_message_is_asked_to_stop(message, queue, now) ?
		HELD_CANCEL_REQUESTED :
		HELD_EXTENDED;
}

/* Reads the message of a lease, which may have expired; false: it is gone. */
static bool
fetch_held(const Poll *poll, PgqrsTable *messages, TupleTableSlot *slot,
		   int item, TimestampTz now, PgqrsQueue *queue)
{
	const PgqrsPollRequest *r = poll->request;

	return pgqrs_row_fetch_id(messages, r->held_ids[item], slot) &&
		pgqrs_lease_is_current(slot, r->held_leases[item]) &&
		pgqrs_queue_allows(pgqrs_get_int64(slot, Messages_queue_id),
						   PRIVILEGE_WORK, queue) &&
		!pgqrs_message_is_past_its_end(slot, queue, now);
}

/* How long a lease may be left alone, in microseconds; 0: it has to be written. */
static int64
spare_time(TupleTableSlot *message, const PgqrsQueue *queue, TimestampTz now)
{
	int64 left = pgqrs_get_time(message, Messages_visible_after) - now;

	return Max(0, left - queue->visibility_timeout * 2 / 3);
}

/* When the lease is to be extended, in microseconds from now. */
static int64
time_to_extend(TupleTableSlot *message, const PgqrsQueue *queue, TimestampTz now)
{
	int64 left = pgqrs_get_time(message, Messages_visible_after) - now;

	if (left <= 0 || left > queue->visibility_timeout)
		left = queue->visibility_timeout;
	return left / 3;
}

static void
limit_timeout(Poll *poll, int64 microseconds)
{
	poll->timeout = Min(poll->timeout, Max(1, microseconds / 1000));
}

/* Extends a lease, unless it has most of its time left. */
static HeldState
extend_held(Poll *poll, PgqrsTable *messages, TupleTableSlot *slot, int item)
{
	const PgqrsPollRequest *r = poll->request;
	TimestampTz now = pgqrs_clock();
	PgqrsQueue queue;
	bool cancel_requested;

	if (fetch_held(poll, messages, slot, item, now, &queue) &&
		spare_time(slot, &queue, now) > 0)
	{
		limit_timeout(poll, queue.visibility_timeout / 3);
		return state_of_held(slot, &queue, now);
	}
	if (!pgqrs_message_extend(messages, slot, r->held_ids[item],
							  r->held_leases[item], -1, &cancel_requested))
		return HELD_GONE;
	/* another transaction that was writing the message left the lease as it was */
	if (fetch_held(poll, messages, slot, item, now, &queue))
		limit_timeout(poll, time_to_extend(slot, &queue, now));
	return cancel_requested ? HELD_CANCEL_REQUESTED : HELD_EXTENDED;
}

/* Records the state of a lease, and whether the client is to be told of it. */
static void
set_held(Poll *poll, int item, HeldState state)
{
	poll->held[item] = state;
	poll->has_news |= state == HELD_GONE ||
		(state == HELD_CANCEL_REQUESTED &&
		 !pgqrs_int64_list_contains(&told_cancels,
									poll->request->held_leases[item]));
}

static void
extend_all_held(Poll *poll)
{
	const PgqrsPollRequest *r = poll->request;
	PgqrsTable *messages;
	TupleTableSlot *slot;

	if (r->held_count == 0)
		return;
	messages = pgqrs_table_open(TABLE_MESSAGES, true);
	slot = pgqrs_table_slot(messages);
	pgqrs_async_commit_begin();
	pgqrs_message_lock_limits(messages, slot, r->held_count, r->held_ids,
							  r->held_leases);
	for (int i = 0; i < r->held_count; i++)
	{
		int item = r->held_order[i];

		if (poll->held[item] != HELD_GONE)
			set_held(poll, item, extend_held(poll, messages, slot, item));
	}
	pgqrs_async_commit_end();
	pgqrs_table_close(messages);
}

/* Reads the held leases again, without a write; whether there is news of them. */
static bool
look_at_held(Poll *poll, PgqrsTable *messages)
{
	TupleTableSlot *slot = pgqrs_table_slot(messages);
	TimestampTz now = pgqrs_clock();

	for (int i = 0; i < poll->request->held_count; i++)
	{
		PgqrsQueue queue;

		if (poll->held[i] == HELD_GONE)
			continue;
		set_held(poll, i,
				 fetch_held(poll, messages, slot, i, now, &queue) ?
					 state_of_held(slot, &queue, now) :
					 HELD_GONE);
	}
	return poll->has_news;
}

static int
compare_held_id(const void *key, const void *item, void *ids)
{
	int64 id = *(const int64 *) key;
	int64 held = ((const int64 *) ids)[*(const int *) item];

	return (id > held) - (id < held);
}

/* The place of a message among those that the client names; NULL: it does not. */
static const int *
find_held(const PgqrsPollRequest *r, int64 message_id)
{
	return bsearch_arg(&message_id, r->held_order, r->held_count, sizeof(int),
					   compare_held_id, unconstify(int64 *, r->held_ids));
}

static bool
is_named(int64 message_id, int64 lease, void *arg)
{
	const PgqrsPollRequest *r = arg;
	const int *item = find_held(r, message_id);

	return item != NULL && r->held_leases[*item] == lease;
}

static bool
is_received(int64 message_id, int64 lease, void *arg)
{
	return !pgqrs_claim_was_by_poll(lease) || is_named(message_id, lease, arg);
}

static void
remember_told_cancels(const Poll *poll)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	int known;

	if (told_cancels.count > MAX_TOLD)
		told_cancels.count = 0;
	known = told_cancels.count;
	for (int i = 0; i < poll->request->held_count; i++)
	{
		PgqrsInt64List before = {told_cancels.values, known};
		int64 lease = poll->request->held_leases[i];

		if (poll->held[i] == HELD_CANCEL_REQUESTED &&
			!pgqrs_int64_list_contains(&before, lease))
			pgqrs_int64_list_add(&told_cancels, lease);
	}
	MemoryContextSwitchTo(old);
	if (told_cancels.count > known)
		pgqrs_int64_sort(told_cancels.values, told_cancels.count);
}

/*
 * Claiming
 */

/* Takes a claimed message; false: the work is as much as one answer can hold. */
static bool
receive_work(void *arg, const PgqrsDelivery *d)
{
	Poll *poll = arg;
	MemoryContext old = MemoryContextSwitchTo(poll->context);
	WorkItem *item = &poll->work[poll->work_count++];
	const int *held = find_held(poll->request, d->message_id);
	PgqrsJson json;

	/* the lease that the client names was lost after the last look at it */
	if (held != NULL)
		set_held(poll, *held, HELD_GONE);
	pgqrs_json_begin(&json);
	pgqrs_json_put_int64(&json, "message_id", d->message_id);
	pgqrs_json_put_text(&json, "queue", d->queue->name);
	pgqrs_json_put_int64(&json, "lease", d->lease);
	pgqrs_json_put_int64(&json, "attempt", d->attempt);
	pgqrs_json_put_int64(&json, "failures", d->failures);
	pgqrs_json_put_int64(&json, "priority", d->priority);
	pgqrs_json_put_instant(&json, "enqueued_at", d->enqueued_at);
	pgqrs_json_put_instant(&json, "visible_after", d->visible_after);
	pgqrs_json_put_json(&json, "payload", d->payload);
	pgqrs_json_put_json_or_null(&json, "headers", d->headers);
	if (d->is_run)
	{
		pgqrs_json_put_int64(&json, "run_id", d->message_id);
		pgqrs_json_put_text(&json, "workflow", d->queue->name);
		pgqrs_json_put_json_or_null(&json, "input", d->input);
	}
	pgqrs_json_put_bool(&json, "cancel_requested", d->cancel_requested);
	item->object = pgqrs_json_end(&json);
	item->run_id = d->is_run ? d->message_id : 0;
	poll->work_size += VARSIZE_ANY(DatumGetPointer(item->object));
	MemoryContextSwitchTo(old);
	return poll->work_size < MAX_WORK_SIZE;
}

/* Adds its steps to a run, of max_size bytes at most; their size. */
static Size
add_steps(Poll *poll, WorkItem *item, Size max_size)
{
	MemoryContext reading = AllocSetContextCreate(CurrentMemoryContext,
												  "pgqrs steps",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(reading);
	Datum steps = pgqrs_delivered_steps(item->run_id, max_size);
	Size size = VARSIZE_ANY(DatumGetPointer(steps));
	Datum object = pgqrs_json_merge(item->object, steps);

	MemoryContextSwitchTo(poll->context);
	pfree(DatumGetPointer(item->object));
	item->object = datumCopy(object, false, -1);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(reading);
	return size;
}

static void
add_all_steps(Poll *poll)
{
	Size left = MAX_WORK_SIZE;

	for (int i = 0; i < poll->work_count; i++)
	{
		if (poll->work[i].run_id == 0)
			continue;
		CHECK_FOR_INTERRUPTS();
		left -= Min(left, add_steps(poll, &poll->work[i], left));
	}
}

static void
look_at_worker(Poll *poll)
{
	PgqrsWorker worker;

	pgqrs_worker_require_live(poll->request->worker_id, &worker);
	poll->status = worker.status;
}

/* Claims, unless there is a newer poll, and reads the worker's status. */
static void
claim_work(Poll *poll)
{
	const PgqrsPollRequest *r = poll->request;

	pgqrs_wait_check_client();
	if (has_newer_poll(poll))
	{
		look_at_worker(poll);
		return;
	}
	pgqrs_claim(&(PgqrsClaimRequest){
		.worker_id = r->worker_id,
		.batch_size = r->batch_size,
		.timeout = -1,
		.by_poll = true,
		.status = &poll->status,
		.deliver = receive_work,
		.arg = poll,
	});
	add_all_steps(poll);
}

/*
 * The loop
 */

static int64
milliseconds_left(const Poll *poll)
{
	instr_time now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, poll->start);
	return poll->timeout - (int64) INSTR_TIME_GET_MILLISEC(now);
}

/* Ends the wait: the held leases have news, or there is a newer poll. */
static bool
is_over(PgqrsTable *messages, void *arg)
{
	Poll *poll = arg;

	return has_newer_poll(poll) || look_at_held(poll, messages);
}

/* The leases of a client that has disconnected are not extended again. */
static PgqrsPollWaitResult
wait_for_news(Poll *poll)
{
	PgqrsPollWaitResult waited;
	PgqrsPollWait wait = {
		.worker_id = poll->request->worker_id,
		.status = poll->status,
		.timeout = milliseconds_left(poll),
		.takes_work = poll->request->batch_size > 0,
		.holds = poll->request->held_count > 0,
		.is_over = is_over,
		.arg = poll,
	};

	waited = pgqrs_wait_in_poll(&wait);
	pgqrs_wait_check_client();
	PushActiveSnapshot(GetTransactionSnapshot());
	extend_all_held(poll);
	PopActiveSnapshot();
	return waited;
}

/* Before the first claim */
static void
begin_poll(Poll *poll)
{
	pgqrs_require_writable();
	look_at_worker(poll);
	begin_only_poll(poll);
	extend_all_held(poll);

	/*
	 * A late call, whose client has given it up, does not know the claims of the
	 * newer poll.
	 */
	pgqrs_wait_check_client();
	if (!has_newer_poll(poll))
		pgqrs_worker_release_unreceived(poll->request->worker_id, is_received,
										unconstify(PgqrsPollRequest *,
												   poll->request));
}

/* Claims; true: there is something to answer. */
static bool
claim_once(Poll *poll)
{
	PushActiveSnapshot(GetTransactionSnapshot());
	claim_work(poll);
	PopActiveSnapshot();
	return poll->work_count > 0 || poll->has_news;
}

static Datum
work_array(const Poll *poll)
{
	Datum *objects = palloc(poll->work_count * sizeof(Datum));

	for (int i = 0; i < poll->work_count; i++)
		objects[i] = poll->work[i].object;
	return pgqrs_json_array(objects, poll->work_count);
}

static Datum
held_array(const Poll *poll)
{
	int count = poll->request->held_count;
	Datum *objects = palloc(count * sizeof(Datum));

	for (int i = 0; i < count; i++)
	{
		PgqrsJson json;

		pgqrs_json_begin(&json);
		pgqrs_json_put_int64(&json, "message_id", poll->request->held_ids[i]);
		pgqrs_json_put_text(&json, "state", held_labels[poll->held[i]]);
		objects[i] = pgqrs_json_end(&json);
	}
	return pgqrs_json_array(objects, count);
}

void
pgqrs_poll(const PgqrsPollRequest *request, PgqrsPollAnswer *answer)
{
	Poll poll = {
		.request = request,
		.context = CurrentMemoryContext,
		.timeout = request->timeout,
		.held = palloc0(request->held_count * sizeof(HeldState)),
		.work = palloc(request->batch_size * sizeof(WorkItem)),
	};
	PgqrsPollWaitResult waited = POLL_FOUND_WORK;

	INSTR_TIME_SET_CURRENT(poll.start);
	begin_poll(&poll);
	while (!claim_once(&poll) && waited == POLL_FOUND_WORK &&
		   milliseconds_left(&poll) > 0)
		waited = wait_for_news(&poll);
	answer->work = work_array(&poll);
	answer->held = held_array(&poll);
	answer->status = poll.status;
	remember_told_cancels(&poll);
	end_only_poll(&poll);
}
