/*
 * commit.c
 *	  What happens at the end of a transaction.
 *
 * One callback, so that the order of what happens stands in one place.  It is
 * registered before those of other libraries, so that it is called after them.
 * For commit and abort it is called when the end of the transaction is visible
 * to snapshots; floor.c depends on that.
 *
 * A transaction that did nothing but claim is committed asynchronously: losing
 * it in a crash equals a lease that ended early, and the lease that was handed
 * out then is fenced off like any other stale one.  That it did nothing else
 * is seen by the WAL: all that it wrote was written between the begin and the
 * end of our calls.  After an unclean start claims are durable for a while, so
 * that a message whose processing crashes the server is counted.
 */
#include "commit.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_control.h"
#include "common/controldata_utils.h"
#include "databases.h"
#include "floor.h"
#include "guc.h"
#include "miscadmin.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

/* How long claims are durable after an unclean start. */
#define CAREFUL_TIME (10 * 60 * USECS_PER_SEC)

typedef struct Commits
{
	TimestampTz careful_until; /* written by the postmaster at start */
} Commits;

static Commits *shared = NULL;

/* What the current transaction has done. */
static bool claimed = false;
static bool must_last = false;
static XLogRecPtr our_end = 0; /* where our last call left the WAL */

/* What the background processes are told of it. */
static TimestampTz maintain_at = DT_NOEND;
static bool probe = false;
static bool databases_changed = false;

/*
 * How deep we are in our calls.  After one that failed in a subtransaction it
 * never gets back to 0, so that our_end stays behind and the commit is flushed.
 */
static int depth = 0;

/* The user's setting while we have lowered it. */
static bool lowered = false;
static int user_setting;

Size
pgqrs_commit_shmem_size(void)
{
	return MAXALIGN(sizeof(Commits));
}

/* Whether the server was shut down before this start, and did not crash. */
static bool
start_is_clean(void)
{
	bool crc_ok;
	ControlFileData *control = get_controlfile(DataDir, &crc_ok);
	bool clean = crc_ok && control->state == DB_SHUTDOWNED;

	pfree(control);
	return clean;
}

/* Called by the postmaster before recovery, with AddinShmemInitLock held. */
void
pgqrs_commit_shmem_init(void)
{
	bool found;

	shared = ShmemInitStruct("pgqrs commits", sizeof(Commits), &found);
	if (!found)
		shared->careful_until = start_is_clean() ?
			0 :
			GetCurrentTimestamp() + CAREFUL_TIME;
}

/*
 * Claims
 */

void
pgqrs_commit_claim_begin(void)
{
	if (depth++ == 0 && XactLastRecEnd != our_end)
		must_last = true;
}

void
pgqrs_commit_claim_end(void)
{
	if (--depth > 0)
		return;
	claimed = true;
	our_end = XactLastRecEnd;
}

void
pgqrs_commit_must_last(void)
{
	must_last = true;
}

/*
 * The flush and the wait for synchronous standbys follow the setting, and come
 * between this and the callback for the commit.
 */
static void
lower_durability(void)
{
	if (!claimed || must_last || XactLastRecEnd != our_end || shared == NULL ||
		!pgqrs_async_claims || GetCurrentTimestamp() < shared->careful_until)
		return;
	user_setting = synchronous_commit;
	synchronous_commit = SYNCHRONOUS_COMMIT_OFF;
	lowered = true;
}

static void
forget(void)
{
	if (lowered)
		synchronous_commit = user_setting;
	claimed = must_last = lowered = false;
	our_end = 0;
	depth = 0;
}

/*
 * The background processes
 */

void
pgqrs_commit_maintain_at(TimestampTz due)
{
	maintain_at = Min(maintain_at, due);
}

void
pgqrs_commit_probe(void)
{
	probe = true;
}

void
pgqrs_commit_databases_changed(void)
{
	databases_changed = true;
}

/*
 * Nothing here is undone with a subtransaction: somebody may look for nothing.
 * What was prepared is told now, too; utility.c tells of its commit.
 */
static void
tell_background(bool ended_well)
{
	if (ended_well && maintain_at != DT_NOEND)
		pgqrs_database_poke(DUE_MAINTAIN, maintain_at);
	if (ended_well && probe)
		pgqrs_database_probe();
	if (ended_well && databases_changed)
		pgqrs_databases_changed();
	maintain_at = DT_NOEND;
	probe = databases_changed = false;
}

static void
transaction_event(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			lower_durability();
			if (PGQRS_FLOOR_BROKEN('c'))
				pgqrs_floor_end();
			break;
		case XACT_EVENT_PRE_PREPARE:
			pgqrs_floor_pre_prepare();
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			forget();
			pgqrs_floor_end();
			tell_background(event != XACT_EVENT_ABORT);
			break;
		default:
			break;
	}
}

void
pgqrs_commit_init(void)
{
	RegisterXactCallback(transaction_event, NULL);
}
