/*
 * xact_hooks.c
 *	  Transaction hooks: all work at the end of a transaction, in one place
 *	  that shows its order.
 *
 * The callbacks for commit and abort run when the end of the transaction is
 * visible to snapshots; claim_floor.c depends on that.
 *
 * A transaction that only claimed is committed asynchronously: its loss in a
 * crash equals a lease that ended early, and the lost lease is fenced off like
 * any other stale lease.  The WAL shows whether the transaction only claimed:
 * all records were written between the begin and the end of calls that claim.
 * Libraries loaded before this one may write after this callback, which is
 * called before theirs: then the callback for the commit flushes the WAL and
 * waits for synchronous standbys before the client learns of the commit.  After
 * an unclean start claims are durable for a while, so that crashes of the
 * server caused by a message are counted.
 */
#include "shmem/xact_hooks.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "base/clock.h"
#include "base/guc.h"
#include "base/inject.h"
#include "catalog/pg_control.h"
#include "common/controldata_utils.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "replication/syncrep.h"
#include "shmem/claim_floor.h"
#include "shmem/claim_hints.h"
#include "shmem/counters.h"
#include "shmem/priority_hints.h"
#include "shmem/published_keys.h"
#include "shmem/xact_wakeups.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"

/* For how long claims are durable after an unclean start. */
#define CAREFUL_TIME (10 * 60 * USECS_PER_SEC)

typedef struct Commits
{
	TimestampTz careful_until; /* written by the postmaster at start */
} Commits;

static Commits *shared = NULL;

/* Calls of the current transaction. */
static bool has_claimed = false;
static bool needs_sync_commit = false;
static XLogRecPtr calls_end = 0; /* end of the WAL after the last claiming call */

/* Requests of the current transaction to background processes. */
static struct
{
	bool any;
	bool is_due[TIMED_DUTY_COUNT];
	TimestampTz due[TIMED_DUTY_COUNT];
	bool probe;
	bool tables_written;
	bool databases_changed;
	bool roles_changed;
} requests;

/* Databases held until the end of the transaction. */
#define MAX_HELD 8
static Oid held_databases[MAX_HELD];
static int held_count = 0;

/*
 * Nesting depth of claiming calls.  After a call failed in a subtransaction the
 * depth never returns to 0, so calls_end stays behind and the commit is
 * flushed.
 */
static int call_depth = 0;

/*
 * Whether, and how, the transaction has ended without its end being published
 * yet.
 */
static bool has_ended = false;
static XactEvent end_event;

/* Nesting level of a subtransaction that was just rolled back; 0: none. */
static int aborted_level = 0;

/* Number of rollbacks and prepared (sub)transactions of this backend. */
static uint32 rollback_count = 0;

/* The user's setting during an asynchronous commit. */
static bool is_lowered = false;
static int user_setting;
static int64 wal_records_then; /* records that this backend had written before */

bool
pgqrs_start_is_clean(void)
{
	bool crc_ok;
	ControlFileData *control = get_controlfile(DataDir, &crc_ok);
	bool clean = crc_ok && control->state == DB_SHUTDOWNED;

	pfree(control);
	return clean;
}

/* Called before recovery begins. */
static void
init_commits(LWLockPadded *locks)
{
	if (!pgqrs_start_is_clean())
		shared->careful_until = GetCurrentTimestamp() + CAREFUL_TIME;
}

const PgqrsShmemModule pgqrs_xact_hooks_shmem = {
	.name = "pgqrs commits",
	.size = sizeof(Commits),
	.area = (void **) &shared,
	.init = init_commits,
};

/*
 * Claims
 */

/*
 * Records written without a transaction id, such as the pruning of a page, are
 * not flushed at a commit anyway.
 */
void
pgqrs_async_commit_begin(void)
{
	if (call_depth++ == 0 && XactLastRecEnd != calls_end &&
		TransactionIdIsValid(GetTopTransactionIdIfAny()))
		needs_sync_commit = true;
}

void
pgqrs_async_commit_end(void)
{
	if (--call_depth > 0)
		return;
	has_claimed = true;
	calls_end = XactLastRecEnd;
}

void
pgqrs_xact_require_sync_commit(void)
{
	needs_sync_commit = true;
}

/*
 * The commit's flush and its wait for synchronous standbys follow the setting,
 * and come between this callback and the one for the commit.
 */
static void
lower_durability(void)
{
	if (!has_claimed || needs_sync_commit || XactLastRecEnd != calls_end ||
		shared == NULL || !pgqrs_async_claims ||
		GetCurrentTimestamp() < shared->careful_until)
		return;
	user_setting = synchronous_commit;
	synchronous_commit = SYNCHRONOUS_COMMIT_OFF;
	wal_records_then = pgWalUsage.wal_records;
	is_lowered = true;
}

/*
 * Flushes the commit after all if records besides the commit record were
 * written since.
 */
static void
flush_late_commit(void)
{
	if (!is_lowered || user_setting == SYNCHRONOUS_COMMIT_OFF ||
		pgWalUsage.wal_records - wal_records_then <= 1)
		return;
	synchronous_commit = user_setting;
	XLogFlush(XactLastCommitEnd);
	SyncRepWaitForLSN(XactLastCommitEnd, true);
}

static void
restore_durability(void)
{
	if (is_lowered)
		synchronous_commit = user_setting;
	has_claimed = needs_sync_commit = is_lowered = false;
	calls_end = 0;
	call_depth = 0;
}

/*
 * The background processes
 */

void
pgqrs_xact_request_duty(PgqrsDutyId kind, TimestampTz due)
{
	if (!requests.is_due[kind] || due < requests.due[kind])
		requests.due[kind] = due;
	requests.any = requests.is_due[kind] = true;
}

void
pgqrs_xact_request_probe(void)
{
	requests.any = requests.probe = true;
}

void
pgqrs_xact_tables_written(void)
{
	requests.any = requests.tables_written = true;
	for (int kind = 0; kind < TIMED_DUTY_COUNT; kind++)
		pgqrs_xact_request_duty(kind, 0);
	pgqrs_xact_wakeup_everything();
}

void
pgqrs_xact_databases_changed(void)
{
	requests.any = requests.databases_changed = true;
}

void
pgqrs_xact_roles_changed(void)
{
	requests.any = requests.roles_changed = true;
}

bool
pgqrs_xact_hold_database(Oid db)
{
	if (held_count == MAX_HELD || !pgqrs_database_hold(db))
		return false;
	held_databases[held_count++] = db;
	return true;
}

static void
release_held(void)
{
	while (held_count > 0)
		pgqrs_database_release(held_databases[--held_count]);
}

/*
 * A rollback to a savepoint withdraws no request: a background process may
 * search in vain.  PREPARE publishes the requests, too, and ddl_hooks.c those
 * of COMMIT PREPARED.
 */
static void
publish_requests(void)
{
	if (!requests.any)
		return;
	if (requests.tables_written)
	{
		pgqrs_claim_hints_forget_all();
		pgqrs_priority_hints_forget_all();
		pgqrs_floor_lower_all();
	}
	for (int kind = 0; kind < TIMED_DUTY_COUNT; kind++)
		if (requests.is_due[kind])
			pgqrs_database_request_duty(kind, requests.due[kind]);
	if (requests.probe)
		pgqrs_database_probe();
	if (requests.databases_changed)
		pgqrs_databases_changed();
	if (requests.roles_changed)
		pgqrs_databases_request_duty(DUTY_ROLES);
}

static void
forget_requests(void)
{
	if (requests.any)
		memset(&requests, 0, sizeof(requests));
}

/* Counters are flushed after a while. */
void
pgqrs_xact_request_flush(void)
{
	pgqrs_xact_request_duty(DUTY_COUNTERS,
							pgqrs_clock_peek() +
								pgqrs_heartbeat_flush * INT64CONST(1000));
}

/* The counts of a prepared transaction are rows of it already. */
static void
end_counters(XactEvent event)
{
	if (event != XACT_EVENT_COMMIT)
		pgqrs_counters_abort();
	else if (pgqrs_counters_commit())
		pgqrs_xact_request_flush();
}

static void
transaction_event(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			pgqrs_counters_pre_end(false);
			lower_durability();
			pgqrs_priority_hints_pre_end();
			if (INJECT(FLOOR_WITHDRAW_EARLY))
				pgqrs_floor_end();
			break;
		case XACT_EVENT_PRE_PREPARE:
			pgqrs_counters_pre_end(true);
			pgqrs_published_pre_prepare();
			pgqrs_xact_wakeups_pre_prepare();
			pgqrs_priority_hints_pre_end();
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			if (event == XACT_EVENT_COMMIT)
				flush_late_commit();
			restore_durability();
			end_counters(event);
			if (event == XACT_EVENT_COMMIT)
				pgqrs_claim_hints_committed();
			else
			{
				rollback_count++;
				pgqrs_claim_hints_forget();
				pgqrs_priority_hints_forget();
			}
			pgqrs_priority_hints_end();
			pgqrs_floor_end();
			has_ended = true;
			end_event = event;
			break;
		default:
			break;
	}
}

static void
subtransaction_event(SubXactEvent event, SubTransactionId id,
					 SubTransactionId parent, void *arg)
{
	if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		pgqrs_xact_wakeups_subcommit(GetCurrentTransactionNestLevel());
		pgqrs_counters_subcommit(GetCurrentTransactionNestLevel());
	}
	else if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		rollback_count++;
		pgqrs_claim_hints_forget();
		pgqrs_priority_hints_forget();
		aborted_level = GetCurrentTransactionNestLevel();
		pgqrs_counters_subabort(aborted_level);
	}
}

uint32
pgqrs_xact_rollbacks(void)
{
	return rollback_count;
}

static void
publish_end(void)
{
	has_ended = false;
	if (end_event != XACT_EVENT_ABORT)
		publish_requests();
	forget_requests();
	release_held();
	pgqrs_xact_wakeups_end(end_event);
}

/*
 * A woken process must see the changes and find no lock in its way.  So the end
 * is published last, after the invalidations of catalogs and cached queues were
 * sent and the locks released.  Called for each resource owner; the first is
 * enough.
 */
static void
resources_released(ResourceReleasePhase phase, bool is_commit,
				   bool is_top_level, void *arg)
{
	if (phase != RESOURCE_RELEASE_AFTER_LOCKS)
		return;
	if (aborted_level != 0)
		pgqrs_xact_wakeups_subabort(aborted_level);
	aborted_level = 0;
	if (is_top_level && has_ended)
		publish_end();
}

void
pgqrs_xact_hooks_init(void)
{
	RegisterXactCallback(transaction_event, NULL);
	RegisterSubXactCallback(subtransaction_event, NULL);
	RegisterResourceReleaseCallback(resources_released, NULL);
}
