/*
 * xact_wakeups.c
 *	  Transaction wake-ups: recorded by a transaction, published at its end.
 *
 * After its commit is visible, a transaction wakes waiting backends and queues
 * the notifications that the background worker will send (wakeup_table.c).
 * NOTIFY never runs in a user's transaction, and a commit without waiting
 * backends only reads.  The rollback of a claim publishes that the messages are
 * claimable again.
 *
 * Each record has the nesting level of the subtransaction that made it, so the
 * last records are those of the innermost subtransaction.  At its end they move
 * to the parent level or are removed.
 *
 * The records of a prepared transaction are in shared memory until its xid is
 * no longer in progress: the next commit in its database, at the latest that of
 * COMMIT PREPARED, publishes them.  Of a transaction that was prepared before
 * the server started only the xid is known; after its end all waiters and the
 * background worker look at everything, waiting runs included.
 *
 * Runs in any backend.  A lock guards the records of prepared transactions.
 */
#include "shmem/xact_wakeups.h"

#include "access/transam.h"
#include "access/twophase.h"
#include "base/clock.h"
#include "base/errors.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "shmem/database_registry.h"
#include "shmem/wakeup_table.h"
#include "storage/procarray.h"
#include "storage/shmem.h"
#include "utils/memutils.h"

#define MAX_RECORDS \
	65536				  /* per transaction; after that, everything has
						    * changed */
#define MAX_RUNS	 1024 /* records before runs are recorded by block */
#define MAX_PREPARED 32	  /* records of a prepared transaction */
#define LOOK_AT		 64	  /* records searched for a queue */
#define LOOK_BACK	 8 /* last records searched for one that the new one joins */

typedef struct Record
{
	PgqrsWakeupKind kind;
	int level;	 /* nesting level of the subtransaction */
	int count;	 /* queue: claimable messages, less those that an earlier record
				  * counts and that were claimed; run: its status */
	int claimed; /* queue: messages claimable after a rollback */
	int64 id;
	TimestampTz at; /* queue: due time, if any; run: its end */
} Record;

/* The records of a transaction. */
typedef struct Records
{
	int count;
	bool everything; /* too much was recorded */
	bool lost;		 /* runs ended or began to wait without a record */
	Record *records;
} Records;

typedef struct PreparedXact
{
	TransactionId xid; /* invalid: free */
	Oid db;
	Records r; /* records points nowhere */
	Record records[MAX_PREPARED];
} PreparedXact;

typedef struct PreparedXacts
{
	LWLock *lock;
	pg_atomic_uint32 count; /* entries in use */
	int max;
	int end; /* end of the entries in use; guarded by lock */
	PreparedXact xacts[FLEXIBLE_ARRAY_MEMBER]; /* guarded by lock */
} PreparedXacts;

static PreparedXacts *shared = NULL;

static Records own_records;
static int mine_size = 0;

/*
 * The last message that was recorded as claimable, and the level of that.  If the
 * same subtransaction claims it, as pgqrs_start() does, nothing is left to claim.
 */
static int64 counted_id = 0;
static int counted_level = 0;

static int
max_prepared(void)
{
	return max_prepared_xacts > 0 ? max_prepared_xacts + MaxBackends : 0;
}

static Size
prepared_size(void)
{
	return mul_size(max_prepared(), sizeof(PreparedXact));
}

static void
init_prepared(LWLockPadded *locks)
{
	shared->lock = &locks->lock;
	pg_atomic_init_u32(&shared->count, 0);
	shared->max = max_prepared();
}

const PgqrsShmemModule pgqrs_xact_wakeup_shmem = {
	.name = "pgqrs prepared wake-ups",
	.size = offsetof(PreparedXacts, xacts),
	.more = prepared_size,
	.locks = 1,
	.area = (void **) &shared,
	.init = init_prepared,
};

/*
 * Recording
 */

/* Searches the last records for one of this kind, id and level; NULL: none. */
static Record *
find_record(const Records *r, int look_back, PgqrsWakeupKind kind, int64 id, int level)
{
	for (int i = r->count - 1; i >= 0 && i >= r->count - look_back; i--)
	{
		Record *record = &r->records[i];

		if (record->kind == kind && record->id == id && record->level == level)
			return record;
	}
	return NULL;
}

static void
enlarge_mine(void)
{
	int size = Max(16, 2 * mine_size);

	own_records.records = mine_size == 0 ?
		MemoryContextAlloc(TopMemoryContext, size * sizeof(Record)) :
		repalloc(own_records.records, size * sizeof(Record));
	mine_size = size;
}

/* Finds or adds a record; NULL: there are too many. */
static Record *
get_level_record(PgqrsWakeupKind kind, int64 id, int level)
{
	Record *record = find_record(&own_records, LOOK_BACK, kind, id, level);

	if (record != NULL)
		return record;
	if (own_records.count == MAX_RECORDS)
	{
		own_records.everything = true;
		own_records.lost |= kind == WAKEUP_RUN || kind == WAKEUP_RUN_BLOCK;
		return NULL;
	}
	if (own_records.count == mine_size)
		enlarge_mine();
	record = &own_records.records[own_records.count++];
	*record = (Record){.kind = kind, .level = level, .id = id, .at = DT_NOEND};
	return record;
}

static Record *
get_record(PgqrsWakeupKind kind, int64 id)
{
	if (shared == NULL)
		return NULL;
	return get_level_record(kind, id, GetCurrentTransactionNestLevel());
}

void
pgqrs_xact_wakeup(PgqrsWakeupKind kind, int64 id)
{
	Record *record = get_record(kind, id);

	if (record != NULL)
		record->count++;
}

static void
count_claim(Record *record, int64 message_id)
{
	if (counted_id == message_id && counted_level == record->level)
	{
		record->count--;
		counted_id = 0;
	}
	else
		record->claimed++;
}

static void
count_claimable(Record *record, int64 message_id)
{
	record->count++;
	counted_id = message_id;
	counted_level = record->level;
}

void
pgqrs_xact_wakeup_message(int64 message_id, int64 queue_id,
						  TimestampTz visible_after, bool leased)
{
	Record *record = get_record(WAKEUP_QUEUE, queue_id);

	if (record == NULL)
		return;
	if (leased)
		count_claim(record, message_id);
	if (!leased && visible_after <= pgqrs_clock_peek())
		count_claimable(record, message_id);
	else
		record->at = Min(record->at, visible_after);
}

void
pgqrs_xact_wakeup_run(int64 run_id, int status, TimestampTz at)
{
	Record *record = own_records.count < MAX_RUNS ?
		get_record(WAKEUP_RUN, run_id) :
		get_record(WAKEUP_RUN_BLOCK, pgqrs_run_block(run_id));

	if (record == NULL)
		return;
	record->count = record->kind == WAKEUP_RUN ? status : RUN_BLOCK;
	record->at = Min(record->at, at);
}

void
pgqrs_xact_wakeup_waiting_run(int64 run_id)
{
	if (shared != NULL)
		pgqrs_xact_wakeup_run(run_id, RUN_WAITING, pgqrs_clock_peek());
}

void
pgqrs_xact_wakeup_everything(void)
{
	own_records.everything = shared != NULL;
}

bool
pgqrs_xact_has_woken(int64 queue_id)
{
	if (own_records.everything || own_records.count > LOOK_AT)
		return true;
	for (int i = 0; i < own_records.count; i++)
		if (own_records.records[i].id == queue_id &&
			(own_records.records[i].kind == WAKEUP_QUEUE ||
			 own_records.records[i].kind == WAKEUP_QUEUE_SETTINGS))
			return true;
	return false;
}

/*
 * Publishing, after the end is visible; no errors
 */

void
pgqrs_wakeup_publish_limit(PgqrsWakeupKind kind, int64 id)
{
	if (kind == WAKEUP_QUEUE_LIMIT)
		pgqrs_wakeup_limit_free(id);
	else
		pgqrs_wait_wake_all(kind, id);
}

void
pgqrs_wakeup_await(PgqrsWakeupKind kind, int64 id)
{
	if (kind == WAKEUP_QUEUE_LIMIT)
		pgqrs_wakeup_await_limit(id);
}

static void
publish_everything(void)
{
	pgqrs_wakeup_publish_all_queues();
	pgqrs_wait_wake_all(WAKEUP_QUEUES, 0);
	pgqrs_wait_wake_all(WAKEUP_RUNS, 0);
	pgqrs_database_request_duty(DUTY_RUN_WAKEUPS, 0);
}

static void
publish_record(const Record *record)
{
	switch (record->kind)
	{
		case WAKEUP_QUEUE:
			if (record->count > 0)
				pgqrs_wakeup_publish_queue(record->id, record->count);
			pgqrs_wakeup_set_due(record->id, record->at);
			break;
		case WAKEUP_QUEUE_SETTINGS:
			pgqrs_wakeup_set_due(record->id, 0);
			pgqrs_wait_wake_all(WAKEUP_QUEUES, 0);
			break;
		case WAKEUP_QUEUE_DELETED:
			pgqrs_wakeup_forget_queue(record->id);
			pgqrs_wait_wake_all(WAKEUP_QUEUES, 0);
			pgqrs_wait_wake_all(WAKEUP_RUNS, 0);
			break;
		case WAKEUP_QUEUE_LIMIT:
		case WAKEUP_WORKER_LIMIT:
			pgqrs_wakeup_publish_limit(record->kind, record->id);
			break;
		case WAKEUP_RUN:
		case WAKEUP_RUN_BLOCK:
			pgqrs_wakeup_publish_run((PgqrsFinishedRun){record->id, record->at,
														record->count},
									 0);
			if (record->kind == WAKEUP_RUN)
				pgqrs_wait_wake_all(WAKEUP_RUN, record->id);
			else
				pgqrs_wait_wake_all(WAKEUP_RUNS, 0);
			break;
		default:
			pgqrs_wait_wake_all(record->kind, record->id);
	}
}

static void
publish_commit(const Records *r)
{
	for (int i = 0; i < r->count; i++)
		publish_record(&r->records[i]);
	if (r->everything)
		publish_everything();
	if (r->lost)
		pgqrs_wakeup_publish_lost();
}

/* The messages claimed by this transaction are claimable again. */
static void
publish_rollback(const Records *r)
{
	if (r->everything)
		pgqrs_wakeup_publish_all_queues();
	for (int i = 0; i < r->count; i++)
	{
		const Record *record = &r->records[i];

		if (record->kind == WAKEUP_QUEUE && record->claimed > 0)
			pgqrs_wakeup_publish_queue(record->id, record->claimed);
		else if (record->kind == WAKEUP_QUEUE_LIMIT ||
				 record->kind == WAKEUP_WORKER_LIMIT)
			pgqrs_wakeup_publish_limit(record->kind, record->id);
	}
}

static void
reset_mine(void)
{
	own_records.count = 0;
	own_records.everything = own_records.lost = false;
	counted_id = 0;
	if (mine_size > MAX_RUNS)
	{
		pfree(own_records.records);
		own_records.records = NULL;
		mine_size = 0;
	}
}

/*
 * Prepared transactions
 */

/* Takes a free entry; the lock is held. */
static PreparedXact *
get_prepared(TransactionId xid, Oid db)
{
	for (int i = 0; i < shared->max; i++)
	{
		PreparedXact *prepared = &shared->xacts[i];

		if (TransactionIdIsValid(prepared->xid))
			continue;
		memset(prepared, 0, sizeof(*prepared));
		prepared->xid = xid;
		prepared->db = db;
		shared->end = Max(shared->end, i + 1);
		pg_atomic_fetch_add_u32(&shared->count, 1);
		return prepared;
	}
	pgqrs_error_too_many_prepared();
}

/* The lock is held. */
static void
free_prepared(PreparedXact *prepared)
{
	prepared->xid = InvalidTransactionId;
	while (shared->end > 0 &&
		   !TransactionIdIsValid(shared->xacts[shared->end - 1].xid))
		shared->end--;
	pg_atomic_fetch_sub_u32(&shared->count, 1);
}

/*
 * Stores more records than fit: all queues may have changed, and runs are
 * recorded by block.
 */
static void
copy_blocks(PreparedXact *prepared)
{
	Records *r = &prepared->r;

	*r = (Records){.everything = true, .records = prepared->records};
	for (int i = 0; i < own_records.count; i++)
	{
		const Record *from = &own_records.records[i];
		int64 first = pgqrs_run_block(from->id);
		Record *to;

		if (from->kind != WAKEUP_RUN && from->kind != WAKEUP_RUN_BLOCK)
			continue;
		to = find_record(r, MAX_PREPARED, WAKEUP_RUN_BLOCK, first, 0);
		if (to != NULL)
			to->at = Min(to->at, from->at);
		else if (r->count == MAX_PREPARED)
			r->lost = true;
		else
			r->records[r->count++] = (Record){WAKEUP_RUN_BLOCK,
											  0,
											  RUN_BLOCK,
											  0,
											  first,
											  from->at};
	}
}

static bool
has_records(void)
{
	return own_records.count > 0 || own_records.everything;
}

void
pgqrs_xact_wakeups_pre_prepare(void)
{
	TransactionId xid;
	PreparedXact *prepared;

	if (shared == NULL || !has_records() || max_prepared_xacts == 0)
		return;
	xid = GetTopTransactionId();
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	prepared = get_prepared(xid, MyDatabaseId);
	prepared->r = own_records;
	if (own_records.count > MAX_PREPARED)
		copy_blocks(prepared);
	else if (own_records.count > 0) /* else there is no array */
		memcpy(prepared->records, own_records.records,
			   own_records.count * sizeof(Record));
	LWLockRelease(shared->lock);
}

void
pgqrs_xact_wakeups_prepared_before(TransactionId xid, Oid db)
{
	if (shared == NULL)
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	get_prepared(xid, db)->r.everything = true;
	LWLockRelease(shared->lock);
}

/*
 * A prepared transaction of this database that has ended, or NULL; the lock is
 * held.
 */
static PreparedXact *
find_ended(void)
{
	for (int i = 0; i < shared->end; i++)
	{
		PreparedXact *prepared = &shared->xacts[i];

		if (TransactionIdIsValid(prepared->xid) && prepared->db == MyDatabaseId &&
			!TransactionIdIsInProgress(prepared->xid))
			return prepared;
	}
	return NULL;
}

/*
 * Removes an ended prepared transaction.  Most commits find none, under the
 * shared lock.
 */
static bool
take_ended(PreparedXact *ended)
{
	PreparedXact *found;

	LWLockAcquire(shared->lock, LW_SHARED);
	found = find_ended();
	LWLockRelease(shared->lock);
	if (found == NULL)
		return false;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	found = find_ended();
	if (found != NULL)
	{
		*ended = *found;
		free_prepared(found);
	}
	LWLockRelease(shared->lock);
	return found != NULL;
}

static void
publish_prepared(void)
{
	PreparedXact ended;

	while (take_ended(&ended))
	{
		ended.r.records = ended.records;
		if (TransactionIdDidCommit(ended.xid))
			publish_commit(&ended.r);
		else
			publish_rollback(&ended.r);
	}
}

/*
 * The end of a transaction
 */

void
pgqrs_xact_wakeups_end(XactEvent event)
{
	if (shared == NULL)
		return;
	if (has_records())
	{
		if (event == XACT_EVENT_COMMIT)
			publish_commit(&own_records);
		else if (event == XACT_EVENT_ABORT)
			publish_rollback(&own_records);
		reset_mine();
	}
	if (event == XACT_EVENT_COMMIT && pg_atomic_read_u32(&shared->count) > 0 &&
		OidIsValid(MyDatabaseId))
		publish_prepared();
}

/* The first record of the subtransaction that ends. */
static int
first_record(int level)
{
	int first = own_records.count;

	while (first > 0 && own_records.records[first - 1].level >= level)
		first--;
	return first;
}

/* Moves the records of the subtransaction to its parent. */
void
pgqrs_xact_wakeups_subcommit(int level)
{
	int count = own_records.count;

	counted_level = Min(counted_level, level - 1);
	own_records.count = first_record(level);
	for (int i = own_records.count; i < count; i++)
	{
		Record from = own_records.records[i];
		Record *to = get_level_record(from.kind, from.id, level - 1);

		to->count = from.kind == WAKEUP_QUEUE ? to->count + from.count : from.count;
		to->claimed += from.claimed;
		to->at = Min(to->at, from.at);
	}
}

void
pgqrs_xact_wakeups_subabort(int level)
{
	Records undone = own_records;

	if (own_records.count == 0)
		return;
	counted_id = 0;
	own_records.count = first_record(level);
	undone.records += own_records.count;
	undone.count -= own_records.count;
	publish_rollback(&undone);
}
