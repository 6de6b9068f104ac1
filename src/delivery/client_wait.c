/*
 * client_wait.c
 *	  Client waits: procedures sleep until a message is claimable or a run
 *	  has ended.
 *
 * Runs in the backend of the client that waits.
 *
 * A wait is a loop of looks and sleeps.  A look is a transaction that first
 * registers the wake-ups of this backend and then reads, so that no change is
 * missed between the two.  During a sleep a transaction is open that has no
 * snapshot and no lock yet.
 *
 * A backend that waits for work looks at all of its queues once, and later only
 * at those of its wake-ups.  A commit wakes as many backends as it has
 * messages.  One waiting backend of each queue is its timekeeper: it looks when
 * a message becomes due, and wakes others if more messages are claimable than
 * it takes itself.
 *
 * A backend that leaves with an unused wake-up, or as a timekeeper, hands that
 * on; also after an error and at the end of the session.  If the client of a
 * woken backend has disconnected, another backend looks at the queue after a
 * second.
 *
 * Without shared memory and on a standby, where no backend can be woken, it
 * polls at growing intervals.
 */
#include "delivery/client_wait.h"

#include "access/heaptoast.h"
#include "access/htup_details.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "base/clock.h"
#include "base/compat.h"
#include "base/guc.h"
#include "delivery/claim.h"
#include "delivery/queue_probe.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "monitor/run_list.h"
#include "portability/instr_time.h"
#include "postmaster/interrupt.h"
#include "queue/lease_limits.h"
#include "queue/worker_registry.h"
#include "shmem/sessions.h"
#include "shmem/wait_slots.h"
#include "shmem/wakeup_table.h"
#include "shmem/xact_hooks.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "workflow/run.h"

/* Milliseconds */
#define MAX_SLEEP  10000 /* then check the client's connection */
#define FIRST_POLL 10
#define LAST_POLL  1000
#define AGAIN_PAUSE \
	1000 /* after it found work: checks whether that was claimed */

/* One look counts at most so many messages for other backends. */
#define MAX_FOUND 64

/* Beside the wake-ups of the queues: the list of them, and four of a worker. */
#define MAX_QUEUE_WAKEUPS (PGQRS_MAX_WAKEUPS - 5)

/* A queue that the backend waits for. */
typedef struct WaitQueue
{
	int64 queue_id;
	int slot; /* -1: none */
	bool look;
	bool due;  /* its due instant was taken, so this backend has to look */
	bool kept; /* this backend is its timekeeper */
} WaitQueue;

typedef struct Wait
{
	instr_time start;
	int64 timeout;
	MemoryContext context; /* of this struct's lists, until the end of the wait */
	MemoryContext look;	   /* of one look */

	const int64 *run_ids; /* NULL: waits for work */
	int run_count;
	bool has_looked; /* at all runs */
	int first_ended; /* the place of the run that has ended first */
	TupleDesc desc;
	HeapTuple result; /* in context */

	const char *queue;
	int64 worker_id;
	const PgqrsPollWait *in_poll; /* or NULL */
	bool is_poll_over;
	bool has_status;
	PgqrsWorkerStatus status; /* of the worker when the wait began */
	bool ended;				  /* the status has changed since */
	bool may_take;			  /* the worker is ready and has room */
	bool full;				  /* the worker has no room, or that is not known */
	bool locked;	 /* the worker's limit is locked, so that is not known */
	bool has_queues; /* they were listed */
	int count;
	WaitQueue *queues;
	PgqrsQueueSet *set; /* of the queues or runs, if there are more than wake-ups */
	int64 found;		/* the queue with a claimable message, or 0 */

	bool polls;
	int64 poll;			 /* the next pause, if the backend polls */
	TimestampTz look_at; /* the latest time of the next look at everything */
	int64 slept;		 /* since the last look */

	bool has_taken; /* "taken" is a wake-up that is not used yet */
	PgqrsWakeup taken;
} Wait;

/*
 * Time
 */

static int64
milliseconds_waited(const Wait *w)
{
	instr_time now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, w->start);
	return (int64) INSTR_TIME_GET_MILLISEC(now);
}

static bool
has_timed_out(const Wait *w)
{
	return milliseconds_waited(w) >= w->timeout;
}

/* Milliseconds from now, rounded up. */
static int64
milliseconds_until(TimestampTz at)
{
	TimestampTz now = pgqrs_clock_peek();

	if (at == DT_NOEND)
		return PG_INT64_MAX;
	return at <= now ? 0 : (at - now + 999) / 1000;
}

/* How long a worker may sleep until its next heartbeat. */
static int64
heartbeat_interval(const Wait *w)
{
	return w->worker_id != 0 ? pgqrs_worker_timeout / 3 : PG_INT64_MAX;
}

/*
 * Leaving
 */

static PgqrsWakeup
queue_wakeup(const WaitQueue *q)
{
	return (PgqrsWakeup){WAKEUP_QUEUE, q->slot, q->queue_id};
}

/*
 * Hands a wake-up to another backend: for its queue, or, for a wake-up of no
 * queue, for all queues but the found one.
 */
static void
hand_on_wakeup(const Wait *w, PgqrsWakeup wakeup)
{
	if (wakeup.kind == WAKEUP_QUEUE)
		pgqrs_wait_wake(wakeup, 1);
	for (int i = 0; wakeup.kind == WAKEUP_NONE && i < w->count; i++)
		if (w->queues[i].queue_id != w->found)
			pgqrs_wait_wake(queue_wakeup(&w->queues[i]), 1);
}

/*
 * Signals another waiting backend to become the timekeeper if there is none.
 * This backend may not have been it, but may have been signalled to become it.
 */
static void
release_queue(WaitQueue *q)
{
	if (q->slot >= 0 && pgqrs_timekeeper_release(q->slot))
		pgqrs_wait_signal_timekeeper(queue_wakeup(q));
	q->kept = false;
}

static void
release_queues(Wait *w)
{
	for (int i = 0; i < w->count; i++)
	{
		if (w->queues[i].due)
			pgqrs_wakeup_set_due(w->queues[i].queue_id, 0);
		release_queue(&w->queues[i]);
	}
	w->count = 0;
}

static PgqrsWakeup
found_wakeup(const Wait *w)
{
	return (PgqrsWakeup){WAKEUP_QUEUE, pgqrs_wakeup_slot(w->found), w->found};
}

/* For so many milliseconds from now. */
static void
serve_without_worker(const Wait *w, int64 timeout)
{
	if (w->queue != NULL && w->worker_id == 0)
		pgqrs_session_serves(w->queue, timeout);
}

/* At the end of the wait, also after an error. */
static void
leave_wait(int code, Datum arg)
{
	Wait *w = (Wait *) DatumGetPointer(arg);
	PgqrsWakeup untaken;
	bool woken;

	serve_without_worker(w, 0);
	if (!pgqrs_wait_is_possible())
		return;
	woken = pgqrs_wait_leave(&untaken);
	if (woken)
		hand_on_wakeup(w, untaken);
	if (w->has_taken)
		hand_on_wakeup(w, w->taken);
	w->has_taken = false;
	if (w->found != 0 && pgqrs_wait_count(found_wakeup(w)) > 0)
		pgqrs_wakeup_set_due(w->found,
							 pgqrs_clock_peek() + AGAIN_PAUSE * INT64CONST(1000));
	release_queues(w);
}

/*
 * Sleeping
 */

void
pgqrs_wait_check_client(void)
{
	if (!pgqrs_client_is_there())
	{
		ClientConnectionLost = true;
		InterruptPending = true;
	}
	CHECK_FOR_INTERRUPTS();
}

/*
 * Becomes the timekeeper of the queues that have none; returns the earliest
 * instant of the queues that this backend keeps.
 */
static TimestampTz
acquire_timekeeping(Wait *w)
{
	TimestampTz next = w->look_at;

	for (int i = 0; i < w->count && w->may_take; i++)
	{
		WaitQueue *q = &w->queues[i];

		if (q->slot < 0)
			continue;
		q->kept = pgqrs_timekeeper_acquire(q->slot, q->queue_id);
		if (q->kept)
			next = Min(next, pgqrs_wakeup_due(q->slot));
	}
	return next;
}

/*
 * Takes the due instants of the queues that this backend keeps; true if any is
 * due.
 */
static bool
take_due_queues(Wait *w)
{
	TimestampTz now = pgqrs_clock_peek();
	bool any = false;

	for (int i = 0; i < w->count; i++)
	{
		WaitQueue *q = &w->queues[i];

		if (!q->kept || !pgqrs_wakeup_take_due(q->slot, q->queue_id, now))
			continue;
		q->due = q->look = any = true;
	}
	return any;
}

/* Whether an awake backend has to look. */
static bool
has_reason_to_look(Wait *w)
{
	if (w->look_at != DT_NOEND && milliseconds_until(w->look_at) == 0)
	{
		for (int i = 0; i < w->count; i++)
			w->queues[i].look = true;
		take_due_queues(w);
		return true;
	}
	return take_due_queues(w) || pgqrs_wait_is_woken() ||
		w->slept >= heartbeat_interval(w);
}

/* A reload may have changed the interval of heartbeats. */
static void
apply_reload(void)
{
	if (!ConfigReloadPending)
		return;
	ConfigReloadPending = false;
	ProcessConfigFile(PGC_SIGHUP);
	/* a check hook of a setting may have read catalogs */
	InvalidateCatalogSnapshot();
}

/* Ends the transaction, and sleeps until there is a reason to look. */
static void
sleep_until_signalled(Wait *w)
{
	static uint32 wait_event = 0;
	int64 last = milliseconds_waited(w);
	int64 checked = last;

	SPI_commit();
	pgqrs_transaction_timeout(false);
	w->slept = 0;
	while (!has_timed_out(w) && !has_reason_to_look(w))
	{
		TimestampTz next = acquire_timekeeping(w);
		int64 now = milliseconds_waited(w);
		int64 time = Min(milliseconds_until(next), w->timeout - now);

		time = Min(time, heartbeat_interval(w) - w->slept);
		time = Min(time, MAX_SLEEP);
		Assert(!TransactionIdIsValid(MyProc->xmin));
		if (time > 0)
		{
			(void) WaitLatch(MyLatch,
							 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
							 (long) time,
							 pgqrs_wait_event(&wait_event, "PgqrsWait"));
			ResetLatch(MyLatch);
		}
		CHECK_FOR_INTERRUPTS();
		apply_reload();
		now = milliseconds_waited(w);
		w->slept += now - last;
		last = now;
		if (now - checked >= MAX_SLEEP || pgqrs_wait_is_woken())
		{
			pgqrs_wait_check_client();
			checked = now;
		}
	}
	pgqrs_transaction_timeout(true);
}

/*
 * Looking
 */

/* Begins a look; the next one frees its memory. */
static MemoryContext
begin_look(Wait *w)
{
	MemoryContextReset(w->look);
	PushActiveSnapshot(GetTransactionSnapshot());
	w->polls = !pgqrs_wait_is_possible() || RecoveryInProgress();
	w->look_at = DT_NOEND;
	w->has_taken = pgqrs_wait_is_woken() && pgqrs_wait_take(&w->taken);
	return MemoryContextSwitchTo(w->look);
}

static void
end_look(Wait *w, MemoryContext old)
{
	MemoryContextSwitchTo(old);
	PopActiveSnapshot();
	if (w->polls)
	{
		TimestampTz at = pgqrs_clock_peek() + w->poll * INT64CONST(1000);

		w->look_at = Min(w->look_at, at);
		w->poll = Min(2 * w->poll, LAST_POLL);
	}
}

/* More runs than wake-ups are watched as a set. */
static void
watch_runs(Wait *w)
{
	PgqrsWakeup wakeups[PGQRS_MAX_WAKEUPS];
	int count = 0;

	wakeups[count++] = (PgqrsWakeup){WAKEUP_RUNS};
	if (w->set != NULL)
		wakeups[count++] = (PgqrsWakeup){WAKEUP_RUN_SET};
	else
		for (int i = 0; i < w->run_count; i++)
			wakeups[count++] = (PgqrsWakeup){WAKEUP_RUN, -1, w->run_ids[i]};
	pgqrs_wait_watch(wakeups, count, w->set);
}

static void
make_run_set(Wait *w)
{
	if (w->run_count + 1 <= PGQRS_MAX_WAKEUPS)
		return;
	w->set = MemoryContextAllocZero(w->context, sizeof(PgqrsQueueSet));
	for (int i = 0; i < w->run_count; i++)
		pgqrs_queue_set_add_run(w->set, w->run_ids[i]);
}

/* Whether the wake-up is that of one run, for which this backend does not wait. */
static bool
is_woken_in_vain(const Wait *w)
{
	if (!w->has_looked || !w->has_taken || w->taken.kind != WAKEUP_RUN)
		return false;
	for (int i = 0; i < w->run_count; i++)
		if (w->run_ids[i] == w->taken.id)
			return false;
	return true;
}

static bool
look_for_runs(Wait *w)
{
	MemoryContext old = begin_look(w);
	HeapTuple result;

	if (!w->polls)
		watch_runs(w);
	if (!is_woken_in_vain(w))
	{
		w->first_ended = pgqrs_read_first_ended(w->run_ids, w->run_count);
		w->has_looked = true;
	}
	if (w->first_ended >= 0)
	{
		result = pgqrs_read_result(w->run_ids[w->first_ended], w->desc);
		MemoryContextSwitchTo(w->context);
		/* its values stay when the snapshot that keeps them is gone */
		w->result = HeapTupleHasExternal(result) ?
			toast_flatten_tuple(result, w->desc) :
			heap_copytuple(result);
		HeapTupleHeaderSetDatumLength(w->result->t_data, w->result->t_len);
	}
	w->has_taken = false;
	end_look(w, old);
	return w->result != NULL;
}

/*
 * The ends of a worker's leases are many, so only a backend is woken that waits for
 * room, or whose client is to be told of them.
 */
static int
add_worker_wakeups(const Wait *w, PgqrsWakeup *wakeups)
{
	int count = 0;

	if (w->worker_id == 0)
		return 0;
	wakeups[count++] = (PgqrsWakeup){WAKEUP_WORKER_STATUS, -1, w->worker_id};
	if (w->in_poll != NULL)
		wakeups[count++] = (PgqrsWakeup){WAKEUP_WORKER_POLL, -1, w->worker_id};
	if (w->full || (w->in_poll != NULL && w->in_poll->holds))
		wakeups[count++] = (PgqrsWakeup){WAKEUP_WORKER, -1, w->worker_id};
	if (w->locked)
		wakeups[count++] = (PgqrsWakeup){WAKEUP_WORKER_LIMIT, -1, w->worker_id};
	return count;
}

/*
 * Registers the wake-ups of this backend; no messages while its worker may take
 * none.
 */
static void
watch_queues(Wait *w)
{
	PgqrsWakeup wakeups[PGQRS_MAX_WAKEUPS];
	const PgqrsQueueSet *set = NULL;
	int count = 0;

	wakeups[count++] = (PgqrsWakeup){WAKEUP_QUEUES};
	count += add_worker_wakeups(w, wakeups + count);
	if (w->may_take && w->count > MAX_QUEUE_WAKEUPS)
	{
		wakeups[count++] = (PgqrsWakeup){WAKEUP_QUEUE_SET};
		set = w->set;
	}
	else
	{
		for (int i = 0; i < w->count && w->may_take; i++)
			wakeups[count++] = queue_wakeup(&w->queues[i]);
	}
	pgqrs_wait_watch(wakeups, count, set);
	for (int i = 0; i < w->count && !w->may_take; i++)
		release_queue(&w->queues[i]);
}

static void
look_again_soon(Wait *w)
{
	w->look_at = Min(w->look_at, pgqrs_clock_peek() + LAST_POLL * INT64CONST(1000));
}

/*
 * Whether the worker has room for another lease.  If not, registers wake-ups for the
 * ends of its leases and of the lock of its limit, and looks again.
 */
static void
look_for_room(Wait *w, PgqrsTable *messages, const PgqrsWorker *worker)
{
	int room = pgqrs_lease_limit_peek(messages, TABLE_WORKERS, w->worker_id,
									  worker->max_concurrent);

	if (room <= 0 && !w->polls)
	{
		w->full = w->locked = true;
		watch_queues(w);
		room = pgqrs_lease_limit_peek(messages, TABLE_WORKERS, w->worker_id,
									  worker->max_concurrent);
	}
	w->locked = room == PGQRS_LIMIT_LOCKED;
	w->full = room <= 0;
	w->may_take = !w->full;
	if (w->full)
		look_again_soon(w); /* a lease that expires wakes no backend */
}

/*
 * The worker has to be live when the wait begins; sets whether it may take a
 * message.
 */
static void
check_worker(Wait *w, PgqrsTable *messages, PgqrsWorker *worker)
{
	w->may_take = true;
	w->full = w->locked = false;
	if (w->worker_id == 0)
		return;
	if (w->has_status)
		pgqrs_worker_require(w->worker_id, worker);
	else
		pgqrs_worker_require_live(w->worker_id, worker);
	w->ended = w->has_status && worker->status != w->status;
	w->has_status = true;
	w->status = worker->status;
	if (w->ended)
		return;
	pgqrs_worker_record_call(w->worker_id);
	w->may_take = worker->status == WORKER_READY &&
		(w->in_poll == NULL || w->in_poll->takes_work);
	if (w->may_take && worker->max_concurrent > 0)
		look_for_room(w, messages, worker);
}

/*
 * Lists the queues again.  The look visits all of them; if there are many, all
 * that are not known to be empty.
 */
static void
list_queues(Wait *w, const PgqrsWorker *worker)
{
	const PgqrsQueueIds *queues = pgqrs_claim_queues(w->queue, worker);
	bool many = queues->count > MAX_QUEUE_WAKEUPS;
	TimestampTz now = pgqrs_clock_peek();

	release_queues(w);
	if (w->has_queues)
		pfree(w->queues);
	w->has_queues = true;
	w->queues = MemoryContextAllocHuge(w->context,
									   Max(1, queues->count) * sizeof(WaitQueue));
	for (int i = 0; i < queues->count; i++)
		w->queues[w->count++] = (WaitQueue){
			.queue_id = queues->ids[i],
			.slot = w->polls ? -1 : queues->slots[i],
			.look = w->polls || !many ||
				!pgqrs_wakeup_is_idle(queues->slots[i], queues->ids[i], now),
		};
	if (w->set == NULL && many)
		w->set = MemoryContextAlloc(w->context, sizeof(PgqrsQueueSet));
	if (!many)
		return;
	memset(w->set, 0, sizeof(PgqrsQueueSet));
	for (int i = 0; i < w->count; i++)
		pgqrs_queue_set_add(w->set, w->queues[i].slot);
}

/* Later changes wake this backend, and later reads see all earlier changes. */
static void
watch_changes_first(Wait *w)
{
	watch_queues(w);
	AcceptInvalidationMessages();
}

/* The queue of the wake-up; NULL if this backend does not wait for it. */
static WaitQueue *
taken_queue(Wait *w)
{
	for (int i = 0; i < w->count && w->taken.kind == WAKEUP_QUEUE; i++)
		if (w->queues[i].queue_id == w->taken.id)
			return &w->queues[i];
	return NULL;
}

/*
 * Chooses the queues to visit by the wake-up.  A wake-up of a queue that this
 * backend does not wait for, or may not claim from, makes the list anew, so
 * that the wake-up does not return after it is handed on.
 */
static void
choose_queues(Wait *w, const PgqrsWorker *worker)
{
	bool is_queue = w->has_taken && w->taken.kind == WAKEUP_QUEUE;
	PgqrsQueue queue;
	WaitQueue *q;

	if (!w->has_queues || w->polls || (w->has_taken && !is_queue) ||
		(is_queue &&
		 (taken_queue(w) == NULL ||
		  !pgqrs_queue_allows(w->taken.id, PRIVILEGE_WORK, &queue))))
		list_queues(w, worker);
	q = w->has_taken ? taken_queue(w) : NULL;
	if (q != NULL)
		q->look = true;
}

static void
look_at_queue(Wait *w, WaitQueue *q, PgqrsTable *messages, TupleTableSlot *slot)
{
	PgqrsQueueProbe probe = {.ready = 0, .next = DT_NOEND};
	PgqrsQueue queue;
	bool wants;
	bool due = q->due;

	q->look = false;
	if (!pgqrs_queue_by_id(q->queue_id, &queue))
	{
		q->due = false;
		return;
	}
	wants = w->may_take && w->found == 0 &&
		pgqrs_queue_allows(q->queue_id, PRIVILEGE_WORK, &queue);
	if (due)
		probe.ready = pgqrs_queue_probe_due(messages, slot, &queue, MAX_FOUND,
											wants);
	else if (wants)
	{
		pgqrs_queue_probe(messages, slot, &queue, 1, &probe);
		if (!w->polls)
			pgqrs_wakeup_set_due(q->queue_id, probe.next);
		if (w->polls)
			w->look_at = Min(w->look_at, probe.next);
		else if (q->slot < 0)
			look_again_soon(w);
	}
	if (wants && probe.ready > 0)
		w->found = q->queue_id;
	q->due = false;
}

/*
 * Hands an unused wake-up on: the worker may take nothing, or not from that
 * queue, or another queue has a message.  Backends that wait for queues without
 * a slot look at intervals anyway.
 */
static void
settle_wakeup(Wait *w)
{
	bool is_queue = w->taken.kind == WAKEUP_QUEUE;
	bool used = w->may_take &&
		(w->found == 0 || (is_queue && w->taken.id == w->found)) &&
		(!is_queue || taken_queue(w) != NULL || w->taken.slot < 0);

	if (w->has_taken && !used)
		hand_on_wakeup(w, w->taken);
	w->has_taken = false;
}

/* For a poll, by the wake-up; after the backend watches. */
static void
look_at_held(Wait *w, PgqrsTable *messages)
{
	if (w->in_poll == NULL || (w->has_taken && w->taken.kind == WAKEUP_QUEUE))
		return;
	w->is_poll_over = w->in_poll->is_over(messages, w->in_poll->arg);
}

static void
look_at_queues(Wait *w, PgqrsTable *messages, const PgqrsWorker *worker)
{
	TupleTableSlot *slot = pgqrs_table_slot(messages);

	choose_queues(w, worker);
	if (!w->polls)
		watch_queues(w);
	look_at_held(w, messages);
	for (int i = 0; i < w->count; i++)
		if (w->queues[i].look)
			look_at_queue(w, &w->queues[i], messages, slot);
	settle_wakeup(w);
}

/*
 * Whether the wait is over: a message is claimable, or the worker's status
 * changed.
 */
static bool
look_for_work(Wait *w)
{
	MemoryContext old = begin_look(w);
	PgqrsTable *messages;
	PgqrsWorker worker;

	pgqrs_require_writable();
	if (w->has_taken && w->taken.kind == WAKEUP_WORKER_STATUS)
	{
		/* it may have replaced a wake-up of any other kind */
		w->taken.kind = WAKEUP_NONE;
		w->ended = true;
		end_look(w, old);
		return true;
	}
	pgqrs_async_commit_begin();
	messages = pgqrs_table_open(TABLE_MESSAGES, false);
	if (!w->has_queues && !w->polls)
		watch_changes_first(w);
	check_worker(w, messages, &worker);
	if (!w->ended)
		look_at_queues(w, messages, w->worker_id != 0 ? &worker : NULL);
	pgqrs_table_close(messages);
	pgqrs_async_commit_end();
	end_look(w, old);
	return w->found != 0 || w->ended || w->is_poll_over;
}

/*
 * The wait
 */

static void
wait_until(Wait *w, int64 timeout, bool (*look)(Wait *w))
{
	if (SPI_connect_ext(SPI_OPT_NONATOMIC) != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	INSTR_TIME_SET_CURRENT(w->start);
	w->timeout = timeout;
	w->poll = FIRST_POLL;
	w->look_at = DT_NOEND;
	w->look = AllocSetContextCreate(CurrentMemoryContext, "pgqrs look",
									ALLOCSET_SMALL_SIZES);

	PG_ENSURE_ERROR_CLEANUP(leave_wait, PointerGetDatum(w));
	{
		while (!look(w) && !has_timed_out(w))
			sleep_until_signalled(w);
	}
	PG_END_ENSURE_ERROR_CLEANUP(leave_wait, PointerGetDatum(w));
	leave_wait(0, PointerGetDatum(w));
	SPI_finish();
}

HeapTuple
pgqrs_wait_for_runs(const int64 *run_ids, int count, int64 timeout,
					TupleDesc desc, int *ended)
{
	Wait w = {
		.context = CurrentMemoryContext,
		.run_ids = run_ids,
		.run_count = count,
		.first_ended = -1,
		.desc = desc,
	};

	make_run_set(&w);
	wait_until(&w, timeout, look_for_runs);
	*ended = w.first_ended;
	return w.result;
}

bool
pgqrs_wait_until_work(const char *queue, int64 worker_id, int64 timeout)
{
	Wait w = {
		.context = CurrentMemoryContext,
		.queue = queue,
		.worker_id = worker_id,
	};

	serve_without_worker(&w, timeout);
	wait_until(&w, timeout, look_for_work);
	return w.found != 0;
}

void
pgqrs_wait_commit(void)
{
	if (SPI_connect_ext(SPI_OPT_NONATOMIC) != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	SPI_commit();
	SPI_finish();
}

PgqrsPollWaitResult
pgqrs_wait_in_poll(const PgqrsPollWait *poll)
{
	Wait w = {
		.context = CurrentMemoryContext,
		.in_poll = poll,
		.worker_id = poll->worker_id,
		.has_status = true,
		.status = poll->status,
	};

	wait_until(&w, poll->timeout, look_for_work);
	if (w.is_poll_over || w.ended)
		return POLL_IS_OVER;
	return w.found != 0 ? POLL_FOUND_WORK : POLL_TIMED_OUT;
}
