/*
 * next.c
 *	  Calls that end, start and claim work in one: pgqrs_next, pgqrs_start.
 *
 * Runs in the backend of a worker's client, in its transaction.  pgqrs_next() ends
 * items before it claims, so an item that has ended holds no place of a limit.
 *
 * Plain messages under their current leases are archived as they come.  From the
 * first other item on, all items are ended in one subtransaction; if one of them
 * is refused, each is ended in a subtransaction of its own.
 *
 * The claim of a transaction that has ended messages raises no floor, see
 * claim_floor.c.  So that dead index entries do not pile up in front of the claims
 * of workers that only call pgqrs_next(), some of its calls first look at a queue.
 */
#include "delivery/next.h"

#include "access/xact.h"
#include "base/errors.h"
#include "base/json.h"
#include "base/subxact.h"
#include "delivery/queue_probe.h"
#include "miscadmin.h"
#include "queue/lease_limits.h"
#include "queue/message.h"
#include "queue/worker_registry.h"
#include "store/scan.h"

/* Of so many calls of a session, one looks at a queue. */
#define PROBE_EVERY 16

/* Items to end: places in the order, from first to before end. */
typedef struct Ending
{
	const PgqrsDone *done;
	int first;
	int end;
} Ending;

static bool
is_run(int64 id)
{
	PgqrsTable *runs = pgqrs_table_open(TABLE_RUNS, false);
	bool found = pgqrs_row_fetch_id(runs, id, pgqrs_table_slot(runs));

	pgqrs_table_close(runs);
	return found;
}

static Datum
output_of(const PgqrsDone *done, int item)
{
	if (done->outputs == NULL || done->outputs[item].isnull)
		return pgqrs_json_null();
	return done->outputs[item].value;
}

static void
end_item(const PgqrsDone *done, int item)
{
	int64 id = done->ids[item];

	if (!is_run(id))
		(void) pgqrs_message_archive(id, done->leases[item]);
	else
		(void) pgqrs_run_complete(id, done->leases[item], output_of(done, item));
}

static bool
end_items(void *arg)
{
	const Ending *e = arg;

	for (int i = e->first; i < e->end; i++)
	{
		CHECK_FOR_INTERRUPTS();
		end_item(e->done, e->done->order[i]);
	}
	return true;
}

/* Raises an error again unless it refuses an item. */
static void
require_refusal(ErrorData *error)
{
	if (ERRCODE_TO_CATEGORY(error->sqlerrcode) !=
			ERRCODE_TO_CATEGORY(ERRCODE_PGQRS_LEASE_LOST) &&
		error->sqlerrcode != ERRCODE_INSUFFICIENT_PRIVILEGE)
		ReThrowError(error);
}

static void
end_one_by_one(const Ending *items, PgqrsRefuse refuse, void *arg)
{
	const PgqrsDone *done = items->done;

	for (int i = items->first; i < items->end; i++)
	{
		Ending one = {.done = done, .first = i, .end = i + 1};
		ErrorData *error = pgqrs_subtransaction(end_items, &one);

		if (error == NULL)
			continue;
		require_refusal(error);
		refuse(arg, done->ids[done->order[i]], error->sqlerrcode);
		FreeErrorData(error);
	}
}

static void
end_done(const PgqrsDone *done, PgqrsRefuse refuse, void *arg)
{
	Ending items = {.done = done, .end = done->count};
	ErrorData *error;

	items.first = pgqrs_message_archive_leading(done->count, done->ids,
												done->leases, done->order);
	if (items.first == items.end)
		return;
	error = pgqrs_subtransaction(end_items, &items);
	if (error == NULL)
		return;
	require_refusal(error);
	FreeErrorData(error);
	end_one_by_one(&items, refuse, arg);
}

/*
 * Raises the floors of the queue of the message, which the call is about to end:
 * the claim of that message left a dead index entry there.
 */
static void
probe_sometimes(int64 message_id)
{
	static uint32 calls = 0;
	PgqrsTable *messages;
	TupleTableSlot *slot;
	PgqrsQueueProbe probe;
	PgqrsQueue queue;

	if (calls++ % PROBE_EVERY != 0)
		return;
	messages = pgqrs_table_open(TABLE_MESSAGES, false);
	slot = pgqrs_table_slot(messages);
	if (pgqrs_row_fetch_id(messages, message_id, slot) &&
		pgqrs_queue_by_id(pgqrs_get_int64(slot, Messages_queue_id), &queue))
		pgqrs_queue_probe(messages, slot, &queue, 1, &probe);
	pgqrs_table_close(messages);
}

void
pgqrs_next(const PgqrsDone *done, PgqrsRefuse refuse, const PgqrsClaimRequest *request)
{
	if (done->count > 0)
	{
		probe_sometimes(done->ids[done->order[0]]);
		end_done(done, refuse, request->arg);
	}
	pgqrs_claim(request);
}

/* The receiver of pgqrs_start()'s claim, which tells whether there was one. */
typedef struct Start
{
	const PgqrsClaimRequest *request;
	bool claimed;
} Start;

static bool
receive_claim(void *arg, const PgqrsDelivery *delivery)
{
	Start *start = arg;

	start->claimed = true;
	return start->request->deliver(start->request->arg, delivery);
}

/*
 * Another start for the worker holds the limit until it has committed, which
 * does not mean that the limit is reached.  A transaction that has written
 * something does not wait: the holder may be waiting for that.  Nor does a start
 * with a key, which would hold the limit while it waits for the key.
 *
 * The messages are locked and the workflow is checked first, as of lock-order.md.
 */
static void
lock_worker_limit(const char *workflow, const PgqrsNewRun *r, int64 worker_id)
{
	PgqrsWorkflow checked;
	PgqrsTable *messages;

	if (worker_id == 0 || r->idempotency_key != NULL ||
		TransactionIdIsValid(GetTopTransactionIdIfAny()))
		return;
	messages = pgqrs_table_open(TABLE_MESSAGES, true);
	pgqrs_run_check(workflow, r, &checked);
	if (pgqrs_worker_usable_limit(worker_id) > 0)
		pgqrs_lease_limit_lock(TABLE_WORKERS, worker_id);
	pgqrs_table_close(messages);
}

/*
 * A run that existed is not claimed, but the caller is checked all the same.  A
 * worker that the caller may not use is refused last, by the claim.
 */
bool
pgqrs_start(const char *workflow, PgqrsNewRun *r,
			const PgqrsClaimRequest *request, int64 *run_id)
{
	Start start = {.request = request};
	PgqrsClaimRequest claim = *request;

	lock_worker_limit(workflow, r, request->worker_id);
	*run_id = pgqrs_run_trigger(workflow, r);
	claim.queue = workflow;
	claim.message_id = *run_id;
	claim.batch_size = r->is_inserted ? 1 : 0;
	claim.deliver = receive_claim;
	claim.arg = &start;
	pgqrs_claim(&claim);
	return start.claimed;
}
