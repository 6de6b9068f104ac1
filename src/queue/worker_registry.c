/*
 * worker_registry.c
 *	  Worker registry: registration, heartbeats and limits of workers.
 *
 * Runs in any backend.  Writes rows of pgqrs_workers, each under its row lock.
 * Registering, suspending, resuming and stopping wait for the row; heartbeats
 * and the search for silent workers do not: the transaction that holds the row
 * is writing a heartbeat or a stop, and either is enough.
 *
 * A worker is silent if neither its row nor heartbeats.c has a recent call.
 * The row is written rarely; without preloading only the row counts.
 *
 * A worker belongs to the role that registered it.  Names are unique per role;
 * a worker of another role does not exist for the caller.  The extension's
 * owner, its members and superusers may act on every worker.  A role that may
 * call pgqrs_register_worker() may subscribe to any pattern: each claim checks
 * privileges, and a worker without the privilege does not serve a queue.
 */
#include "queue/worker_registry.h"

#include "access/xact.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/guc.h"
#include "base/name.h"
#include "miscadmin.h"
#include "queue/privileges.h"
#include "queue/queue.h"
#include "queue/roles.h"
#include "shmem/heartbeats.h"
#include "shmem/quarantine.h"
#include "shmem/sessions.h"
#include "shmem/xact_hooks.h"
#include "shmem/xact_wakeups.h"
#include "store/scan.h"
#include "store/tuple.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#define SEEN_SIZE 16 /* workers that a backend remembers */

/* Allowed changes of the status; keeping it is no change. */
static const bool allowed_moves[WORKER_STATUS_COUNT][WORKER_STATUS_COUNT] = {
	[WORKER_READY] = {[WORKER_SUSPENDED] = true, [WORKER_STOPPED] = true},
	[WORKER_SUSPENDED] = {[WORKER_READY] = true, [WORKER_STOPPED] = true},
};

/*
 * When rows of workers without a slot in heartbeats.c were last written, as
 * hints that save reading the row.  Writes of the current transaction count,
 * too, so a rollback invalidates the hints.
 */
typedef struct SeenWorker
{
	int64 worker_id;
	TimestampTz at;
	uint32 rollbacks;
} SeenWorker;

static SeenWorker seen_workers[SEEN_SIZE];

static void
remember_worker(int64 worker_id, TimestampTz at)
{
	seen_workers[worker_id % SEEN_SIZE] = (SeenWorker){worker_id, at,
													   pgqrs_xact_rollbacks()};
}

/*
 * How long a heartbeat may stay unwritten, in microseconds.  In a transaction
 * block a write keeps the row locked until the block ends, and other
 * connections of the worker from writing theirs, so there the longest time
 * applies.
 */
static int64
flush_interval(void)
{
	int third = pgqrs_worker_timeout / 3;

	if (!IsTransactionBlock())
		third = Min(third, pgqrs_heartbeat_flush);
	return third * INT64CONST(1000);
}

/* Within the interval, on either side: the clock may have been set back. */
static bool
is_fresh(TimestampTz at, TimestampTz now, int64 interval)
{
	return at > now - interval && at < now + interval;
}

/* Whether this backend knows that the row was written recently. */
static bool
was_written(int64 worker_id, TimestampTz now, int64 interval)
{
	const SeenWorker *seen = &seen_workers[worker_id % SEEN_SIZE];

	return seen->worker_id == worker_id &&
		seen->rollbacks == pgqrs_xact_rollbacks() &&
		is_fresh(seen->at, now, interval);
}

/* The later of two timestamps; a timestamp in the future does not count. */
static TimestampTz
later_past(TimestampTz a, TimestampTz b, TimestampTz now)
{
	return b <= now && b > a ? b : a;
}

/*
 * When a worker becomes silent if it does not call again.  Silence counts from
 * the last call, from the server's start or promotion, or from the last step of
 * the clock, whose length is unknown.  A timestamp in the future was recorded
 * before the clock was set back; if no other is known, silence begins now.
 */
static TimestampTz
silent_at(TupleTableSlot *slot, TimestampTz now)
{
	TimestampTz written = pgqrs_get_time(slot, Workers_heartbeat_at);
	int64 id = pgqrs_get_int64(slot, Workers_worker_id);
	TimestampTz at = DT_NOBEGIN;

	at = later_past(at, written, now);
	at = later_past(at,
					pgqrs_heartbeat_last(pgqrs_catalog_table(TABLE_WORKERS), id),
					now);
	at = later_past(at, pgqrs_clock_serving_since(), now);
	at = later_past(at, pgqrs_clock_stepped_at(), now);
	if (written > now && at == DT_NOBEGIN)
		at = now;
	return at + pgqrs_worker_timeout * INT64CONST(1000);
}

static bool
is_silent(TupleTableSlot *slot, TimestampTz now)
{
	return silent_at(slot, now) < now;
}

static PgqrsWorkerStatus
status_of(TupleTableSlot *slot)
{
	return (PgqrsWorkerStatus) pgqrs_enum_value(ENUM_WORKER_STATUS,
												pgqrs_get(slot, Workers_status));
}

static const PgqrsRoleColumns owner_columns = {Workers_owner_id, Workers_owner};

/* Whether the current role may act on the worker. */
static bool
may_act_on(TupleTableSlot *slot)
{
	return pgqrs_role_of(slot, owner_columns) == GetUserId() ||
		pgqrs_is_extension_owner();
}

static void
read_worker(TupleTableSlot *slot, PgqrsWorker *worker)
{
	worker->worker_id = pgqrs_get_int64(slot, Workers_worker_id);
	worker->status = status_of(slot);
	worker->max_concurrent = DatumGetInt32(pgqrs_get(slot, Workers_max_concurrent));
	worker->queues = pgqrs_text_list(pgqrs_get(slot, Workers_queues));
	worker->name = TextDatumGetCString(pgqrs_get(slot, Workers_name));
	worker->version = pgqrs_is_null(slot, Workers_version) ?
		NULL :
		TextDatumGetCString(pgqrs_get(slot, Workers_version));
}

void
pgqrs_worker_require(int64 worker_id, PgqrsWorker *worker)
{
	PgqrsTable *workers = pgqrs_table_open(TABLE_WORKERS, false);
	TupleTableSlot *slot = pgqrs_table_slot(workers);

	if (!pgqrs_row_fetch_id(workers, worker_id, slot) || !may_act_on(slot))
		pgqrs_error_worker_not_found(worker_id);
	read_worker(slot, worker);
	pgqrs_table_close(workers);
}

void
pgqrs_worker_require_live(int64 worker_id, PgqrsWorker *worker)
{
	pgqrs_worker_require(worker_id, worker);
	if (worker->status == WORKER_STOPPED)
		pgqrs_error_worker_stopped(worker_id);
}

/*
 * Writes a heartbeat unless the row holds a recent one or is being written.
 * is_known: heartbeats.c has recorded the call.
 */
static void
write_heartbeat(int64 worker_id, TimestampTz now, int64 interval, bool is_known)
{
	PgqrsTable *workers = pgqrs_table_open(TABLE_WORKERS, true);
	TupleTableSlot *slot = pgqrs_table_slot(workers);

	if (pgqrs_row_fetch_id(workers, worker_id, slot) &&
		status_of(slot) != WORKER_STOPPED)
	{
		TimestampTz at = pgqrs_get_time(slot, Workers_heartbeat_at);
		bool write = !is_fresh(at, now, interval);

		if (!is_known)
			is_known = pgqrs_heartbeat_add(pgqrs_catalog_table(TABLE_WORKERS),
										   worker_id, now, write ? now : at);
		if (write &&
			pgqrs_row_lock(workers, slot, LockTupleNoKeyExclusive, LockWaitSkip) ==
				ROW_LOCKED)
		{
			/* the locked version is the one that was read */
			pgqrs_row_set(workers, slot, Workers_heartbeat_at,
						  pgqrs_value(TimestampTzGetDatum(now)));
			at = now;
		}
		if (!is_known && is_fresh(at, now, interval))
			remember_worker(worker_id, at);
	}
	pgqrs_table_close(workers);
}

void
pgqrs_worker_record_call(int64 worker_id)
{
	PgqrsHeartbeat heartbeat;
	TimestampTz now;
	int64 interval;

	if (worker_id <= 0)
		return;
	(void) pgqrs_session_number(); /* a session begins before its calls */
	now = pgqrs_clock();
	interval = flush_interval();
	heartbeat = pgqrs_heartbeat_record(pgqrs_catalog_table(TABLE_WORKERS),
									   worker_id, now, interval);
	if (heartbeat == HEARTBEAT_RECORDED ||
		(heartbeat == HEARTBEAT_UNKNOWN && was_written(worker_id, now, interval)))
		return;
	write_heartbeat(worker_id, now, interval, heartbeat != HEARTBEAT_UNKNOWN);
}

/*
 * Whether the worker's owner may claim from the queue. refused: owners found
 * not to; the function appends to it.
 */
static bool
owner_may_work(TupleTableSlot *slot, const char *queue, List **refused)
{
	Oid owner = pgqrs_role_of(slot, owner_columns);

	if (list_member_oid(*refused, owner))
		return false;
	if (pgqrs_privileges_of_role(owner, queue) & CAN_WORK)
		return true;
	*refused = lappend_oid(*refused, owner);
	return false;
}

/* Whether the worker is subscribed to the queue and may claim from it. */
static bool
worker_serves(TupleTableSlot *slot, const char *queue, List **refused)
{
	List *patterns = pgqrs_text_list(pgqrs_get(slot, Workers_queues));
	bool result = pgqrs_any_pattern_matches(patterns, queue) &&
		owner_may_work(slot, queue, refused);

	list_free_deep(patterns);
	return result;
}

/*
 * Counts live workers that serve the queue, up to max, and adds them to *found.
 * NULL: ready ones only are counted.
 */
static int
find_serving(const char *queue, int max, List **found)
{
	PgqrsTable *workers = pgqrs_table_open(TABLE_WORKERS, false);
	TupleTableSlot *slot = pgqrs_table_slot(workers);
	TimestampTz now = pgqrs_clock();
	List *refused = NIL;
	int count = 0;
	PgqrsScan scan;

	pgqrs_scan_begin(&scan, workers, INDEX_WORKERS_NAME, 0, NULL);
	while (count < max && pgqrs_scan_next(&scan, slot))
	{
		PgqrsWorker *worker;

		CHECK_FOR_INTERRUPTS();
		if ((found == NULL && status_of(slot) != WORKER_READY) ||
			is_silent(slot, now) || !worker_serves(slot, queue, &refused))
			continue;
		count++;
		if (found == NULL)
			continue;
		worker = palloc(sizeof(PgqrsWorker));
		read_worker(slot, worker);
		*found = lappend(*found, worker);
	}
	pgqrs_scan_end(&scan);
	pgqrs_table_close(workers);
	list_free(refused);
	return count;
}

int
pgqrs_worker_count_serving(const char *queue, int max)
{
	return find_serving(queue, max, NULL);
}

void
pgqrs_workers_visit(bool ready, PgqrsWorkerVisit visit, void *arg)
{
	PgqrsTable *workers = pgqrs_table_open(TABLE_WORKERS, false);
	TupleTableSlot *slot = pgqrs_table_slot(workers);
	TimestampTz now = pgqrs_clock();
	PgqrsScan scan;

	pgqrs_scan_begin(&scan, workers, INDEX_WORKERS_NAME, 0, NULL);
	while (pgqrs_scan_next(&scan, slot))
	{
		CHECK_FOR_INTERRUPTS();
		if (!ready || (status_of(slot) == WORKER_READY && !is_silent(slot, now)))
			visit(arg, pgqrs_get_int64(slot, Workers_worker_id),
				  pgqrs_role_of(slot, owner_columns),
				  pgqrs_get(slot, Workers_queues));
	}
	pgqrs_scan_end(&scan);
	pgqrs_table_close(workers);
}

int
pgqrs_worker_pid(int64 worker_id)
{
	return pgqrs_heartbeat_pid(pgqrs_catalog_table(TABLE_WORKERS), worker_id);
}

List *
pgqrs_workers_serving(const char *queue)
{
	List *found = NIL;

	find_serving(queue, PG_INT32_MAX, &found);
	return found;
}

/*
 * Changes the status of the locked row. itself: the worker asked for it, so its
 * leases end without a failure.
 */
static void
write_status(PgqrsTable *workers, TupleTableSlot *slot, PgqrsWorkerStatus to,
			 bool itself)
{
	PgqrsRow row;

	Assert(allowed_moves[status_of(slot)][to]);
	pgqrs_row_copy(&row, workers, slot);
	pgqrs_set(&row, Workers_status, pgqrs_enum_datum(ENUM_WORKER_STATUS, to));
	if (to == WORKER_STOPPED)
	{
		pgqrs_set(&row, Workers_stopped_at, TimestampTzGetDatum(pgqrs_clock()));
		pgqrs_set(&row, Workers_stopped_itself, BoolGetDatum(itself));
	}
	pgqrs_row_update(workers, slot, &row);
	pgqrs_xact_wakeup(WAKEUP_WORKER_STATUS,
					  pgqrs_get_int64(slot, Workers_worker_id));
}

bool
pgqrs_worker_set_status(int64 worker_id, PgqrsWorkerStatus to)
{
	PgqrsTable *workers = pgqrs_table_open(TABLE_WORKERS, true);
	TupleTableSlot *slot = pgqrs_table_slot(workers);
	PgqrsWorkerStatus from;

	/* check before locking, so that no caller waits for another role's row */
	if (!pgqrs_row_fetch_id(workers, worker_id, slot) || !may_act_on(slot) ||
		!pgqrs_row_fetch_locked(workers, worker_id, LockTupleNoKeyExclusive, slot))
		pgqrs_error_worker_not_found(worker_id);
	from = status_of(slot);
	if (from != to && !allowed_moves[from][to])
		pgqrs_error_worker_stopped(worker_id);
	if (from != to)
		write_status(workers, slot, to, true);
	pgqrs_table_close(workers);
	return from != to;
}

bool
pgqrs_worker_add(const PgqrsNewWorker *w, int64 *worker_id)
{
	PgqrsTable *workers = pgqrs_table_open(TABLE_WORKERS, true);
	TimestampTz now = pgqrs_clock();
	PgqrsRow row;
	bool added;

	*worker_id = pgqrs_next_id(SEQUENCE_WORKER_ID);
	pgqrs_row_init(&row, workers);
	pgqrs_set(&row, Workers_worker_id, Int64GetDatum(*worker_id));
	pgqrs_set(&row, Workers_created_at, TimestampTzGetDatum(now));
	pgqrs_set(&row, Workers_heartbeat_at, TimestampTzGetDatum(now));
	pgqrs_set(&row, Workers_status,
			  pgqrs_enum_datum(ENUM_WORKER_STATUS, WORKER_READY));
	pgqrs_role_set(&row, owner_columns, GetUserId());
	pgqrs_set(&row, Workers_name, CStringGetTextDatum(w->name));
	pgqrs_set(&row, Workers_queues, w->queues);
	if (w->port != 0)
		pgqrs_set(&row, Workers_port, Int32GetDatum(w->port));
	if (w->max_concurrent != 0)
		pgqrs_set(&row, Workers_max_concurrent, Int32GetDatum(w->max_concurrent));
	if (w->hostname != NULL)
		pgqrs_set(&row, Workers_hostname, CStringGetTextDatum(w->hostname));
	if (w->version != NULL)
		pgqrs_set(&row, Workers_version, CStringGetTextDatum(w->version));
	pgqrs_set_or_null(&row, Workers_labels, w->labels);
	added = pgqrs_row_insert_unique(workers, &row, INDEX_WORKERS_NAME);
	if (added)
		pgqrs_xact_request_duty(DUTY_WORKERS,
								now + pgqrs_worker_timeout * INT64CONST(1000));
	pgqrs_table_close(workers);
	return added;
}

static bool
has_live_worker(PgqrsTable *workers, const char *owner, Datum name)
{
	TupleTableSlot *slot = pgqrs_table_slot(workers);
	Datum keys[2] = {CStringGetDatum(owner), name};

	return pgqrs_row_fetch(workers, INDEX_WORKERS_NAME, 2, keys, slot);
}

/*
 * Updates a worker's row to the present name of its role.  False: not now,
 * because the row is locked, or because the worker is live and its role was
 * dropped or has another worker with the same name, and must stop first.
 */
static bool
follow_owner(PgqrsTable *workers, TupleTableSlot *slot, LockWaitPolicy wait)
{
	bool live = pgqrs_is_null(slot, Workers_stopped_at);
	Name owner = DatumGetName(pgqrs_get(slot, Workers_owner));
	char *name;
	Oid role;

	switch (pgqrs_role_state(slot, owner_columns, &role))
	{
		case ROLE_SAME:
		case ROLE_UNKNOWN:
			return true;
		case ROLE_DROPPED:
			if (live)
				return false;
			break;
		case ROLE_RENAMED:
			name = GetUserNameFromId(role, false);
			if (live && strcmp(name, NameStr(*owner)) != 0 &&
				has_live_worker(workers, name, pgqrs_get(slot, Workers_name)))
				return false;
	}
	return pgqrs_role_update(workers, slot, owner_columns, role, wait);
}

bool
pgqrs_workers_follow_roles(int max)
{
	return pgqrs_roles_follow(TABLE_WORKERS, owner_columns, max, follow_owner);
}

/*
 * Whether an existing worker with the same name blocks a registration.  A
 * worker of a role that formerly had this role's name does not.
 */
static bool
blocks_registration(PgqrsTable *workers, TupleTableSlot *slot)
{
	Oid role;

	return pgqrs_role_state(slot, owner_columns, &role) != ROLE_RENAMED ||
		role == GetUserId() || !follow_owner(workers, slot, LockWaitBlock);
}

bool
pgqrs_worker_stop_named(const char *name, int64 *worker_id)
{
	PgqrsTable *workers = pgqrs_table_open(TABLE_WORKERS, true);
	TupleTableSlot *slot = pgqrs_table_slot(workers);
	char *owner = GetUserNameFromId(GetUserId(), false);
	Datum keys[2] = {CStringGetDatum(owner), CStringGetTextDatum(name)};
	bool found;

	while ((found = pgqrs_row_fetch(workers, INDEX_WORKERS_NAME, 2, keys, slot)))
	{
		if (blocks_registration(workers, slot) &&
			pgqrs_row_lock(workers, slot, LockTupleNoKeyExclusive,
						   LockWaitBlock) == ROW_LOCKED)
			break;
	}
	if (found)
	{
		*worker_id = pgqrs_get_int64(slot, Workers_worker_id);
		write_status(workers, slot, WORKER_STOPPED, false);
	}
	pgqrs_table_close(workers);
	return found;
}

/*
 * Collects the ids of up to max silent workers; *next: when further workers
 * become silent.
 */
static int
collect_silent(PgqrsTable *workers, TupleTableSlot *slot, int64 *ids, int max,
			   TimestampTz *next)
{
	TimestampTz now = pgqrs_clock();
	int count = 0;
	PgqrsScan scan;

	*next = DT_NOEND;
	pgqrs_scan_begin(&scan, workers, INDEX_WORKERS_NAME, 0, NULL);
	while (count < max && pgqrs_scan_next(&scan, slot))
	{
		TimestampTz at = silent_at(slot, now);

		if (at < now)
			ids[count++] = pgqrs_get_int64(slot, Workers_worker_id);
		else
			*next = Min(*next, at + 1);
	}
	pgqrs_scan_end(&scan);
	return count;
}

int
pgqrs_worker_stop_silent(int64 *worker_ids, int max, bool *all, TimestampTz *next)
{
	PgqrsTable *workers = pgqrs_table_open(TABLE_WORKERS, true);
	TupleTableSlot *slot = pgqrs_table_slot(workers);
	int found = collect_silent(workers, slot, worker_ids, max, next);
	int count = 0;

	*all = found < max;
	for (int i = 0; i < found; i++)
	{
		if (!pgqrs_quarantine_begin_row(QUARANTINE_WORKER, worker_ids[i]))
			*next = Min(*next, pgqrs_clock_peek() + PGQRS_QUARANTINE_PAUSE);
		else if (!pgqrs_row_fetch_id(workers, worker_ids[i], slot) ||
				 pgqrs_row_lock(workers, slot, LockTupleNoKeyExclusive,
								LockWaitSkip) != ROW_LOCKED)
			*all = false;
		else if (status_of(slot) != WORKER_STOPPED && is_silent(slot, pgqrs_clock()))
		{
			write_status(workers, slot, WORKER_STOPPED, false);
			worker_ids[count++] = worker_ids[i];
		}
	}
	pgqrs_table_close(workers);
	return count;
}

bool
pgqrs_worker_is_gone(int64 worker_id)
{
	PgqrsTable *workers = pgqrs_table_open(TABLE_WORKERS, false);
	TupleTableSlot *slot = pgqrs_table_slot(workers);
	bool gone = !pgqrs_row_fetch_id(workers, worker_id, slot) ||
		status_of(slot) == WORKER_STOPPED;

	pgqrs_table_close(workers);
	return gone;
}

bool
pgqrs_worker_stopped_itself(int64 worker_id)
{
	PgqrsTable *workers = pgqrs_table_open(TABLE_WORKERS, false);
	TupleTableSlot *slot = pgqrs_table_slot(workers);
	bool itself = pgqrs_row_fetch_id(workers, worker_id, slot) &&
		!pgqrs_is_null(slot, Workers_stopped_itself) &&
		DatumGetBool(pgqrs_get(slot, Workers_stopped_itself));

	pgqrs_table_close(workers);
	return itself;
}

static int
read_limit(int64 worker_id, bool if_usable)
{
	PgqrsTable *workers = pgqrs_table_open(TABLE_WORKERS, false);
	TupleTableSlot *slot = pgqrs_table_slot(workers);
	int limit = 0;

	if (pgqrs_row_fetch_id(workers, worker_id, slot) &&
		(!if_usable || (may_act_on(slot) && status_of(slot) == WORKER_READY)))
		limit = DatumGetInt32(pgqrs_get(slot, Workers_max_concurrent));
	pgqrs_table_close(workers);
	return limit;
}

int
pgqrs_worker_max_concurrent(int64 worker_id)
{
	return read_limit(worker_id, false);
}

int
pgqrs_worker_usable_limit(int64 worker_id)
{
	return read_limit(worker_id, true);
}
