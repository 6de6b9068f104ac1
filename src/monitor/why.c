/*
 * why.c
 *	  Why a queue delivers nothing: what keeps its messages from being claimed.
 *
 * Runs in any backend, locks nothing and writes nothing.  Reads the first
 * MAX_LOOKED messages in the order of claims, the newest MAX_DEAD dead letters,
 * and all workers.  Sessions and prepared transactions are named only to members
 * of their roles.
 */
#include "monitor/why.h"

#include "access/subtrans.h"
#include "base/clock.h"
#include "base/compat.h"
#include "base/errors.h"
#include "base/json.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "monitor/backends.h"
#include "queue/lease_limits.h"
#include "queue/message.h"
#include "queue/privileges.h"
#include "queue/queue.h"
#include "queue/roles.h"
#include "queue/serving.h"
#include "queue/worker_registry.h"
#include "shmem/quarantine.h"
#include "store/scan.h"
#include "store/tuple.h"
#include "utils/backend_status.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "workflow/run.h"

/* Messages that are looked at, and those that a detail names. */
#define MAX_LOOKED 10000
#define MAX_NAMED  3

/* Dead letters that are looked at, the newest, and how old one may be. */
#define MAX_DEAD	   100
#define RECENT_MINUTES 60

/* Minutes after which a transaction is said to be old, as in pgqrs_health. */
#define OLD_MINUTES 10

/* Messages that are alike: how many, and what tells the operator which. */
typedef struct MessageGroup
{
	int count;
	int64 ids[MAX_NAMED];
	TimestampTz earliest; /* of visible_after, unless the group is empty */
	TransactionId xid;	  /* of an open transaction, the first found */
} MessageGroup;

typedef struct Why
{
	PgqrsQueue queue;
	PgqrsTable *messages;
	TupleTableSlot *message;
	PgqrsTable *runs;
	TupleTableSlot *run;
	PgqrsTable *workers;
	TupleTableSlot *worker;
	TimestampTz now;
	bool looked_at_all;
	MessageGroup ready;
	MessageGroup damaged;
	MessageGroup busy;
	MessageGroup unsent; /* sent by transactions that are open */
	MessageGroup held;
	MessageGroup delayed;
	MessageGroup retried;
	MessageGroup waiting;
	StringInfoData holders;
	PgqrsTellReason tell;
	void *arg;
} Why;

static void
group_add(MessageGroup *group, int64 id, TimestampTz visible_after, TransactionId xid)
{
	if (group->count < MAX_NAMED)
		group->ids[group->count] = id;
	if (group->count == 0 || visible_after < group->earliest)
		group->earliest = visible_after;
	if (!TransactionIdIsValid(group->xid))
		group->xid = xid;
	group->count++;
}

/* Such as "3 messages (17, 18, 19)". */
static char *
group_name(const Why *why, const MessageGroup *group)
{
	const char *noun = why->queue.is_workflow ? "run" : "message";
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfo(&text, "%d %s%s (", group->count, noun,
					 group->count == 1 ? "" : "s");
	for (int i = 0; i < Min(group->count, MAX_NAMED); i++)
		appendStringInfo(&text, "%s" INT64_FORMAT, i == 0 ? "" : ", ",
						 group->ids[i]);
	appendStringInfoString(&text, group->count > MAX_NAMED ? ", …)" : ")");
	return text.data;
}

static void
report_reason(const Why *why, const char *reason, const char *detail,
			  const char *hint)
{
	why->tell(reason, detail, hint, why->arg);
}

/*
 * Open transactions
 */

static const char *
describe_session(const PgBackendStatus *session)
{
	StringInfoData text;
	char *role;

	if (!pgqrs_role_may_see(session->st_userid))
		return "another session";
	initStringInfo(&text);
	appendStringInfo(&text, "pid %d", session->st_procpid);
	role = OidIsValid(session->st_userid) ?
		GetUserNameFromId(session->st_userid, true) :
		NULL;
	if (role != NULL)
		appendStringInfo(&text, ", role %s", role);
	if (session->st_appname[0] != '\0')
		appendStringInfo(&text, ", %s", session->st_appname);
	return text.data;
}

/* Since when the session's transaction is open, as far as the role may know. */
static const char *
open_since(const PgBackendStatus *session)
{
	TimestampTz began = session->st_xact_start_timestamp;

	if (began == 0 || !pgqrs_role_may_see(session->st_userid))
		return "";
	return psprintf(", open since %s", timestamptz_to_str(began));
}

/* The session of an open transaction; a transaction without one is prepared. */
static const char *
describe_transaction(TransactionId xid)
{
	int count = pgstat_fetch_stat_numbackends();

	if (!TransactionIdIsNormal(xid))
		return "several sessions";
	xid = SubTransGetTopmostTransaction(xid);
	for (int i = 1; i <= count; i++)
	{
		const LocalPgBackendStatus *local = pgqrs_backend_status(i);
		const PgBackendStatus *session = &local->backendStatus;

		if (TransactionIdEquals(local->backend_xid, xid))
			return psprintf("%s%s", describe_session(session), open_since(session));
	}
	return "a prepared transaction, see pg_prepared_xacts";
}

static const char *
old_since(const PgBackendStatus *session)
{
	if (!pgqrs_role_may_see(session->st_userid))
		return psprintf("for more than %d minutes", OLD_MINUTES);
	return psprintf("since %s",
					timestamptz_to_str(session->st_xact_start_timestamp));
}

/*
 * An old snapshot keeps the index entries of messages that have ended, which claims
 * read again and again.
 */
static void
tell_old_snapshot(const Why *why)
{
	TimestampTz began = why->now - OLD_MINUTES * 60 * USECS_PER_SEC;
	const PgBackendStatus *oldest = NULL;
	int count = pgstat_fetch_stat_numbackends();

	for (int i = 1; i <= count; i++)
	{
		const LocalPgBackendStatus *local = pgqrs_backend_status(i);
		const PgBackendStatus *session = &local->backendStatus;

		if (TransactionIdIsNormal(local->backend_xmin) &&
			session->st_databaseid == MyDatabaseId &&
			session->st_backendType != B_AUTOVAC_WORKER &&
			session->st_xact_start_timestamp != 0 &&
			session->st_xact_start_timestamp < began)
		{
			began = session->st_xact_start_timestamp;
			oldest = session;
		}
	}
	if (oldest != NULL)
		report_reason(why, "old snapshot",
					  psprintf("vacuum removes nothing that has ended %s: %s",
							   old_since(oldest), describe_session(oldest)),
					  "Claims slow down with dead index entries. End the session, unless it is needed.");
}

/*
 * Messages
 */

static const char *
worker_name(Why *why, int64 worker_id)
{
	if (!pgqrs_row_fetch_id(why->workers, worker_id, why->worker))
		return NULL;
	return TextDatumGetCString(pgqrs_get(why->worker, Workers_name));
}

/* The message in the slot is under a live lease. */
static void
add_held(Why *why, int64 id, TimestampTz visible_after)
{
	const char *name = NULL;
	const PgBackendStatus *session;

	group_add(&why->held, id, visible_after, InvalidTransactionId);
	if (why->held.count > MAX_NAMED)
		return;
	if (!pgqrs_is_null(why->message, Messages_worker_id))
		name = worker_name(why, pgqrs_get_int64(why->message, Messages_worker_id));
	session = pgqrs_find_backend(pgqrs_message_holder(id));
	appendStringInfo(&why->holders, "%s" INT64_FORMAT " %s%s until %s",
					 why->holders.len > 0 ? ", " : "", id,
					 name == NULL ? "without a worker" : psprintf("by \"%s\"", name),
					 session == NULL ? "" :
									   psprintf(" (%s)", describe_session(session)),
					 timestamptz_to_str(visible_after));
}

static bool
is_damaged(Why *why, int64 id)
{
	if (!pgqrs_is_null(why->message, Messages_run_id) &&
		pgqrs_run_damage(why->runs, pgqrs_get_int64(why->message, Messages_run_id),
						 why->run) != NULL)
		return true;
	return pgqrs_quarantine_contains(QUARANTINE_MESSAGE, id);
}

static void
add_due(Why *why, int64 id, TimestampTz visible_after)
{
	if (pgqrs_row_is_busy(why->message))
		group_add(&why->busy, id, visible_after, pgqrs_row_locker(why->message));
	else if (is_damaged(why, id))
		group_add(&why->damaged, id, visible_after, InvalidTransactionId);
	else
		group_add(&why->ready, id, visible_after, InvalidTransactionId);
}

static void
add_message(Why *why, int64 id, TimestampTz visible_after)
{
	bool is_run = !pgqrs_is_null(why->message, Messages_run_id);

	if (visible_after <= why->now)
		add_due(why, id, visible_after);
	else if (!pgqrs_is_null(why->message, Messages_lease))
		add_held(why, id, visible_after);
	else if (is_run && pgqrs_row_fetch_id(why->runs, id, why->run) &&
			 pgqrs_run_status(why->run) == RUN_PAUSED)
		group_add(&why->waiting, id, visible_after, InvalidTransactionId);
	else if (DatumGetInt32(pgqrs_get(why->message, Messages_attempt)) > 0)
		group_add(&why->retried, id, visible_after, InvalidTransactionId);
	else
		group_add(&why->delayed, id, visible_after, InvalidTransactionId);
}

/* Sorts the messages of the queue into groups. */
static void
look_at_messages(Why *why)
{
	PgqrsKey key = {CLAIM_QUEUE_ID, BTEqualStrategyNumber,
					Int64GetDatum(why->queue.queue_id)};
	int looked = 0;
	PgqrsScan scan;

	pgqrs_scan_begin(&scan, why->messages, INDEX_MESSAGES_CLAIM, 1, &key);
	pgqrs_scan_uncommitted(&scan);
	while (looked < MAX_LOOKED && pgqrs_scan_next(&scan, why->message))
	{
		int64 id = pgqrs_get_int64(why->message, Messages_message_id);
		TimestampTz visible_after = pgqrs_get_time(why->message,
												   Messages_visible_after);
		bool is_update;
		TransactionId writer = pgqrs_row_open_writer(why->message, &is_update);

		CHECK_FOR_INTERRUPTS();
		looked++;
		if (!TransactionIdIsValid(writer))
			add_message(why, id, visible_after);
		else if (!is_update) /* the version before an update is seen, too */
			group_add(&why->unsent, id, visible_after, writer);
	}
	pgqrs_scan_end(&scan);
	why->looked_at_all = looked < MAX_LOOKED;
}

static void
tell_open_transactions(const Why *why)
{
	if (why->busy.count > 0)
		report_reason(why, "open transaction",
					  psprintf("%s due, but locked or changed by a transaction that is open: %s",
							   group_name(why, &why->busy),
							   describe_transaction(why->busy.xid)),
					  "A claim does not wait for it. End the transaction: commit right after a claim.");
	if (why->unsent.count > 0)
		report_reason(why, "open transaction",
					  psprintf("%s sent by a transaction that is open: %s",
							   group_name(why, &why->unsent),
							   describe_transaction(why->unsent.xid)),
					  "What a transaction sends is claimable once it has committed.");
}

static void
tell_later(const Why *why)
{
	if (why->held.count > 0)
		report_reason(why, "in flight",
					  psprintf("%s under a lease: %s%s",
							   group_name(why, &why->held), why->holders.data,
							   why->held.count > MAX_NAMED ? ", …" : ""),
					  "A message whose worker is gone is claimable when its lease ends.");
	if (why->retried.count > 0)
		report_reason(why, "backing off",
					  psprintf("%s failed before; the next try is due at %s",
							   group_name(why, &why->retried),
							   timestamptz_to_str(why->retried.earliest)),
					  "pgqrs_set_visibility() makes a message due at once.");
	if (why->delayed.count > 0)
		report_reason(why, "delayed",
					  psprintf("%s not due; the first one is at %s",
							   group_name(why, &why->delayed),
							   timestamptz_to_str(why->delayed.earliest)),
					  "pgqrs_set_visibility() makes a message due at once.");
	if (why->waiting.count > 0)
		report_reason(why, "waiting",
					  psprintf("%s waiting for a signal, a child, a resume or a time",
							   group_name(why, &why->waiting)),
					  "waiting_for of pgqrs_live_runs tells for what.");
}

static void
tell_due(const Why *why)
{
	if (why->damaged.count > 0)
		report_reason(why, "damaged",
					  psprintf("%s due, but set aside as damaged",
							   group_name(why, &why->damaged)),
					  "The server's log names the damage, and pgqrs_verify() the rows. They are tried again every minute.");
	if (why->ready.count > 0)
		report_reason(why, "ready",
					  psprintf("%s claimable, the first one since %s",
							   group_name(why, &why->ready),
							   timestamptz_to_str(why->ready.earliest)),
					  NULL);
	if (!why->looked_at_all)
		report_reason(why, "many messages",
					  psprintf("only the first %d in the order of claims were looked at",
							   MAX_LOOKED),
					  NULL);
	else if (why->ready.count + why->damaged.count + why->busy.count +
				 why->unsent.count + why->held.count + why->retried.count +
				 why->delayed.count + why->waiting.count ==
			 0)
		report_reason(why, "empty", "no message waits", NULL);
}

/*
 * The queue and its workers
 */

static void
tell_paused(const Why *why)
{
	if (why->queue.paused)
		report_reason(why, "paused", "the queue accepts messages and delivers none",
					  "pgqrs_resume_queue() ends that.");
}

static void
tell_limit(const Why *why)
{
	int limit = why->queue.max_in_flight;
	int room;

	if (limit == 0)
		return;
	room = pgqrs_lease_limit_peek(why->messages, TABLE_QUEUES,
								  why->queue.queue_id, limit);
	if (room > 0)
		return;
	report_reason(why, "max_in_flight",
				  room == PGQRS_LIMIT_LOCKED ?
					  psprintf("a transaction that is open has used the limit of %d",
							   limit) :
					  psprintf("the limit of %d is used up: %s%s", limit,
							   why->holders.data,
							   why->held.count > MAX_NAMED ? ", …" : ""),
				  "Raise it with pgqrs_alter_queue(), or wait until a lease ends.");
}

/* Appends a name to a list in a sentence. */
static void
append_name(StringInfo list, const char *name)
{
	appendStringInfo(list, "%s\"%s\"", list->len > 0 ? ", " : "", name);
}

static void
tell_workers(const Why *why)
{
	List *serving = pgqrs_workers_serving(why->queue.name);
	StringInfoData suspended, full;
	ListCell *cell;
	int free = 0;

	initStringInfo(&suspended);
	initStringInfo(&full);
	foreach(cell, serving)
	{
		PgqrsWorker *worker = lfirst(cell);
		int limit = worker->max_concurrent;

		if (worker->status == WORKER_SUSPENDED)
			append_name(&suspended, worker->name);
		else if (limit > 0 &&
				 pgqrs_lease_limit_peek(why->messages, TABLE_WORKERS,
										worker->worker_id, limit) <= 0)
			append_name(&full, worker->name);
		else
			free++;
	}
	if (free > 0)
		return;
	if (serving == NIL &&
		pgqrs_serving_count(pgqrs_serving_collect(), why->queue.name) == 0)
		report_reason(why, "no worker", "no live worker is registered for the queue",
					  why->queue.is_workflow ?
						  "Start a worker that registers for the workflow." :
						  "Start a worker, unless the clients of this queue claim without one.");
	if (suspended.len > 0)
		report_reason(why, "suspended",
					  psprintf("suspended workers: %s", suspended.data),
					  "pgqrs_resume_worker() lets them claim again.");
	if (full.len > 0)
		report_reason(why, "max_concurrent",
					  psprintf("workers that hold all that they may: %s", full.data),
					  "Start more workers, or raise max_concurrent when they register.");
}

static void
tell_handlers(Why *why)
{
	PgqrsTable *archive = pgqrs_table_open(TABLE_ARCHIVE, false);
	TupleTableSlot *letter = pgqrs_table_slot(archive);
	PgqrsKey key = {1, BTEqualStrategyNumber, Int64GetDatum(why->queue.queue_id)};
	TimestampTz since = why->now - RECENT_MINUTES * 60 * USECS_PER_SEC;
	MessageGroup refused = {0};
	int looked = 0;
	PgqrsScan scan;

	pgqrs_scan_begin(&scan, archive, INDEX_ARCHIVE_DEAD, 1, &key);
	scan.direction = BackwardScanDirection;
	while (looked++ < MAX_DEAD && pgqrs_scan_next(&scan, letter) &&
		   pgqrs_get_time(letter, Archive_archived_at) > since)
		if (pgqrs_json_is_error(pgqrs_get_or_null(letter, Archive_last_error),
								"no_handler_registered"))
			group_add(&refused, pgqrs_get_int64(letter, Archive_message_id),
					  why->now, InvalidTransactionId);
	pgqrs_scan_end(&scan);
	pgqrs_table_close(archive);
	if (refused.count > 0)
		report_reason(why, "no handler",
					  psprintf("%s failed within the last hour, as a worker took it and has no handler for it",
							   group_name(why, &refused)),
					  "Deploy the handler, or register that worker without the name. Then replay them by their error_type, no_handler_registered.");
}

static void
why_open(Why *why)
{
	why->now = pgqrs_clock();
	why->messages = pgqrs_table_open(TABLE_MESSAGES, false);
	why->message = pgqrs_table_slot(why->messages);
	why->runs = pgqrs_table_open(TABLE_RUNS, false);
	why->run = pgqrs_table_slot(why->runs);
	why->workers = pgqrs_table_open(TABLE_WORKERS, false);
	why->worker = pgqrs_table_slot(why->workers);
	initStringInfo(&why->holders);
}

static void
why_close(Why *why)
{
	pgqrs_table_close(why->workers);
	pgqrs_table_close(why->runs);
	pgqrs_table_close(why->messages);
}

void
pgqrs_why(const char *queue, PgqrsTellReason tell_reason, void *arg)
{
	Why why = {.tell = tell_reason, .arg = arg};

	pgqrs_queue_require(queue, PRIVILEGE_MONITOR, &why.queue);
	why_open(&why);
	look_at_messages(&why);
	tell_paused(&why);
	tell_limit(&why);
	tell_workers(&why);
	tell_handlers(&why);
	tell_open_transactions(&why);
	tell_due(&why);
	tell_later(&why);
	tell_old_snapshot(&why);
	why_close(&why);
}
