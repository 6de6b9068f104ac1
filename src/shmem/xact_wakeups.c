/*
 * xact_wakeups.c
 *	  What a transaction makes claimable, or ends, and who is told of it.
 *
 * A transaction collects marks.  When it has committed, and others can see it,
 * it wakes who waits and leaves to the background worker, in queue_wakeups.c and
 * finished_runs.c, what that has to tell.  So NOTIFY is in nobody's commit, and a
 * commit that nobody waits for does little more than look.  A transaction that
 * rolls back claims makes claimable what it had claimed.
 *
 * Each mark has the nesting level of the subtransaction that made it, so the
 * last ones are always those of the innermost.  They go to the one around it, or
 * away, with its end.
 *
 * The marks of a prepared transaction are parked until its xid is no longer in
 * progress: whoever commits next, which is the one that runs COMMIT PREPARED at
 * the latest, sees to them.  Of transactions that were prepared before the
 * server started nothing is known but who they are; after one of them everybody
 * looks at everything, parked runs included.
 *
 * Runs in any backend.  The parked marks are guarded by a lock.
 */
#include "shmem/xact_wakeups.h"

#include "access/transam.h"
#include "access/twophase.h"
#include "access/xact.h"
#include "base/clock.h"
#include "base/errors.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "shmem/database_registry.h"
#include "shmem/finished_runs.h"
#include "shmem/queue_wakeups.h"
#include "shmem/wait_slots.h"
#include "storage/lwlock.h"
#include "storage/procarray.h"
#include "storage/shmem.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#define MAX_MARKS  65536 /* of a transaction; beyond, everything has changed */
#define MAX_RUNS   1024	 /* marks before runs are remembered by block */
#define MAX_PARKED 32	 /* marks of a prepared transaction */
#define LOOK_AT	   64	 /* marks that it is worth to look for a queue among */
#define LOOK_BACK  8	 /* how far to look for a mark that the new one joins */

typedef enum MarkKind
{
	MARK_QUEUE,
	MARK_LOOK,	  /* at a queue */
	MARK_DELETED, /* a queue */
	MARK_QUEUE_LIMIT,
	MARK_WORKER_LIMIT,
	MARK_WORKER,
	MARK_WORKER_STATUS,
	MARK_RUN,
	MARK_BLOCK /* of runs */
} MarkKind;

typedef struct Mark
{
	MarkKind kind;
	int level; /* of the subtransaction that it is undone with */
	int count; /* of a queue: messages that can be claimed; of a run: its status */
	int claimed; /* of a queue: messages that are claimable if this rolls back */
	int64 id;
	TimestampTz at; /* of a queue: when it is due, if ever; of a run: the end */
} Mark;

/* What a transaction has done. */
typedef struct Marks
{
	int count;
	bool everything; /* too much to be remembered */
	bool queues;	 /* their definitions changed */
	bool lost;		 /* runs ended or parked that are not remembered at all */
	bool parked;	 /* any parked run may have what it waits for */
	Mark *marks;
} Marks;

typedef struct Parked
{
	TransactionId xid; /* or invalid: free */
	Oid db;
	Marks m; /* marks points nowhere */
	Mark marks[MAX_PARKED];
} Parked;

typedef struct Wake
{
	LWLock *lock;
	pg_atomic_uint32 parked; /* as many entries are taken */
	int max_parked;
	int end; /* no entry from here on is taken; guarded by lock */
	Parked parkings[FLEXIBLE_ARRAY_MEMBER]; /* guarded by lock */
} Wake;

static Wake *shared = NULL;

static Marks mine;
static int mine_size = 0;

static int
max_parked(void)
{
	return max_prepared_xacts > 0 ? max_prepared_xacts + MaxBackends : 0;
}

static Size
parkings_size(void)
{
	return mul_size(max_parked(), sizeof(Parked));
}

static void
init_wake(LWLock *lock)
{
	shared->lock = lock;
	pg_atomic_init_u32(&shared->parked, 0);
	shared->max_parked = max_parked();
}

const PgqrsShmemModule pgqrs_wake_shmem = {
	.name = "pgqrs wake",
	.size = offsetof(Wake, parkings),
	.more = parkings_size,
	.has_lock = true,
	.area = (void **) &shared,
	.init = init_wake,
};

/*
 * Marking
 */

/* One of the last marks of that kind, id and level, or a new one; NULL: no more. */
static Mark *
get_level_mark(MarkKind kind, int64 id, int level)
{
	Mark *mark;

	for (int i = mine.count - 1; i >= 0 && i >= mine.count - LOOK_BACK; i--)
	{
		mark = &mine.marks[i];
		if (mark->kind == kind && mark->id == id && mark->level == level)
			return mark;
	}
	if (mine.count == MAX_MARKS)
	{
		mine.everything = true;
		mine.lost |= kind == MARK_RUN || kind == MARK_BLOCK;
		return NULL;
	}
	if (mine.count == mine_size)
	{
		int size = Max(16, 2 * mine_size);

		mine.marks = mine_size == 0 ?
			MemoryContextAlloc(TopMemoryContext, size * sizeof(Mark)) :
			repalloc(mine.marks, size * sizeof(Mark));
		mine_size = size;
	}
	mark = &mine.marks[mine.count++];
	*mark = (Mark){.kind = kind, .level = level, .id = id, .at = DT_NOEND};
	return mark;
}

static Mark *
get_mark(MarkKind kind, int64 id)
{
	return get_level_mark(kind, id, GetCurrentTransactionNestLevel());
}

void
pgqrs_wake_mark_message(int64 queue_id, TimestampTz visible_after, bool leased)
{
	Mark *mark = shared == NULL ? NULL : get_mark(MARK_QUEUE, queue_id);

	if (mark == NULL)
		return;
	if (leased)
		mark->claimed++;
	if (!leased && visible_after <= pgqrs_clock_peek())
		mark->count++;
	else
		mark->at = Min(mark->at, visible_after);
}

void
pgqrs_wake_mark_room(int64 queue_id)
{
	Mark *mark = shared == NULL ? NULL : get_mark(MARK_QUEUE, queue_id);

	if (mark != NULL)
		mark->count++;
}

void
pgqrs_wake_mark_limit(bool is_queue, int64 id)
{
	if (shared != NULL)
		get_mark(is_queue ? MARK_QUEUE_LIMIT : MARK_WORKER_LIMIT, id);
}

void
pgqrs_wake_await_limit(bool is_queue, int64 id)
{
	if (is_queue)
		pgqrs_ready_await_limit(id);
}

void
pgqrs_wake_limit_free(bool is_queue, int64 id)
{
	PgqrsWaitEvent event = {EVENT_WORKER_LIMIT, id, -1};

	if (is_queue)
		pgqrs_ready_limit_free(id);
	else
		pgqrs_waiter_wake(event, PG_INT32_MAX);
}

void
pgqrs_wake_mark_queue(int64 queue_id)
{
	if (shared == NULL)
		return;
	get_mark(MARK_LOOK, queue_id);
	mine.queues = true;
}

void
pgqrs_wake_mark_queues(void)
{
	mine.queues = shared != NULL;
}

void
pgqrs_wake_mark_everything(void)
{
	mine.everything = mine.parked = shared != NULL;
}

void
pgqrs_wake_mark_queue_deleted(int64 queue_id)
{
	if (shared == NULL)
		return;
	get_mark(MARK_DELETED, queue_id);
	mine.queues = true;
}

void
pgqrs_wake_mark_worker(int64 worker_id)
{
	if (shared != NULL)
		get_mark(MARK_WORKER, worker_id);
}

void
pgqrs_wake_mark_worker_status(int64 worker_id)
{
	if (shared != NULL)
		get_mark(MARK_WORKER_STATUS, worker_id);
}

bool
pgqrs_wake_has_marked(int64 queue_id)
{
	if (mine.everything || mine.count > LOOK_AT)
		return true;
	for (int i = 0; i < mine.count; i++)
		if (mine.marks[i].id == queue_id &&
			(mine.marks[i].kind == MARK_QUEUE || mine.marks[i].kind == MARK_LOOK))
			return true;
	return false;
}

static int64
block_of(int64 run_id)
{
	return run_id - run_id % PGQRS_ENDED_BLOCK;
}

void
pgqrs_wake_mark_run(int64 run_id, int status, TimestampTz at)
{
	bool many = mine.count >= MAX_RUNS;
	Mark *mark;

	if (shared == NULL)
		return;
	mark = get_mark(many ? MARK_BLOCK : MARK_RUN, many ? block_of(run_id) : run_id);
	if (mark == NULL)
		return;
	mark->count = status;
	mark->at = Min(mark->at, at);
}

void
pgqrs_wake_mark_parked(int64 run_id)
{
	if (shared != NULL)
		pgqrs_wake_mark_run(run_id, ENDED_PARKED, pgqrs_clock_peek());
}

/*
 * Telling.  What is told is visible by now.  No errors.
 */

static void
wake_all(PgqrsWaitEventKind kind, int64 id)
{
	PgqrsWaitEvent event = {kind, id, -1};

	pgqrs_waiter_wake(event, PG_INT32_MAX);
}

/* Runs that ended, some at a time. */
static void
tell_runs(const Marks *m)
{
	PgqrsEnded runs[64];
	int count = 0;
	bool any = false;

	for (int i = 0; i < m->count; i++)
	{
		const Mark *mark = &m->marks[i];

		if (mark->kind == MARK_BLOCK)
		{
			pgqrs_ended_add_block((PgqrsEndedBlock){mark->id, mark->at});
			wake_all(EVENT_RUNS, 0);
			any = true;
		}
		if (mark->kind != MARK_RUN)
			continue;
		if (count == lengthof(runs))
		{
			pgqrs_ended_add(runs, count);
			count = 0;
		}
		runs[count++] = (PgqrsEnded){mark->id, mark->at, mark->count};
		wake_all(EVENT_RUN, mark->id);
		any = true;
	}
	if (count > 0)
		pgqrs_ended_add(runs, count);
	if (any)
		pgqrs_ready_poke();
}

static void
tell_everything(void)
{
	pgqrs_ready_unknown();
	wake_all(EVENT_QUEUES, 0);
	wake_all(EVENT_RUNS, 0);
}

static void
tell(const Marks *m)
{
	bool any_run = false;

	for (int i = 0; i < m->count; i++)
	{
		const Mark *mark = &m->marks[i];

		switch (mark->kind)
		{
			case MARK_QUEUE:
				if (mark->count > 0)
					pgqrs_ready_mark(mark->id, mark->count);
				pgqrs_ready_lower(mark->id, mark->at);
				break;
			case MARK_LOOK:
				pgqrs_ready_lower(mark->id, 0);
				break;
			case MARK_DELETED:
				pgqrs_ready_forget(mark->id);
				wake_all(EVENT_RUNS, 0);
				break;
			case MARK_QUEUE_LIMIT:
			case MARK_WORKER_LIMIT:
				pgqrs_wake_limit_free(mark->kind == MARK_QUEUE_LIMIT, mark->id);
				break;
			case MARK_WORKER:
				wake_all(EVENT_WORKER, mark->id);
				break;
			case MARK_WORKER_STATUS:
				wake_all(EVENT_WORKER_STATUS, mark->id);
				break;
			case MARK_RUN:
			case MARK_BLOCK:
				any_run = true;
				break;
		}
	}
	if (any_run)
		tell_runs(m);
	if (m->queues)
		wake_all(EVENT_QUEUES, 0);
	if (m->everything)
		tell_everything();
	if (m->parked)
		pgqrs_database_poke(DUE_PARKED, 0);
	if (m->lost)
		pgqrs_ended_lose();
}

/* What was claimed is not: it can be claimed again. */
static void
tell_rollback(const Marks *m)
{
	if (m->everything)
		pgqrs_ready_unknown();
	for (int i = 0; i < m->count; i++)
	{
		const Mark *mark = &m->marks[i];

		if (mark->kind == MARK_QUEUE && mark->claimed > 0)
			pgqrs_ready_mark(mark->id, mark->claimed);
		else if (mark->kind == MARK_QUEUE_LIMIT || mark->kind == MARK_WORKER_LIMIT)
			pgqrs_wake_limit_free(mark->kind == MARK_QUEUE_LIMIT, mark->id);
	}
}

static void
forget(void)
{
	mine.count = 0;
	mine.everything = mine.queues = mine.lost = mine.parked = false;
	if (mine_size > MAX_RUNS)
	{
		pfree(mine.marks);
		mine.marks = NULL;
		mine_size = 0;
	}
}

/*
 * Prepared transactions
 */

/* A free place; the lock is held. */
static Parked *
get_parking(TransactionId xid, Oid db)
{
	for (int i = 0; i < shared->max_parked; i++)
	{
		Parked *parked = &shared->parkings[i];

		if (TransactionIdIsValid(parked->xid))
			continue;
		memset(parked, 0, sizeof(*parked));
		parked->xid = xid;
		parked->db = db;
		shared->end = Max(shared->end, i + 1);
		pg_atomic_fetch_add_u32(&shared->parked, 1);
		return parked;
	}
	pgqrs_error_too_many_prepared();
}

/* The lock is held. */
static void
free_parking(Parked *parked)
{
	parked->xid = InvalidTransactionId;
	while (shared->end > 0 &&
		   !TransactionIdIsValid(shared->parkings[shared->end - 1].xid))
		shared->end--;
	pg_atomic_fetch_sub_u32(&shared->parked, 1);
}

/*
 * More than there is room for: all queues may have changed, and runs are
 * remembered by block.
 */
static void
park_many(Parked *parked)
{
	Marks *m = &parked->m;

	m->count = 0;
	m->everything = true;
	for (int i = 0; i < mine.count; i++)
	{
		const Mark *mark = &mine.marks[i];
		int at = 0;

		if (mark->kind != MARK_RUN && mark->kind != MARK_BLOCK)
			continue;
		while (at < m->count && parked->marks[at].id != block_of(mark->id))
			at++;
		if (at == MAX_PARKED)
			m->lost = true;
		else if (at == m->count)
			parked->marks[m->count++] = (Mark){
				.kind = MARK_BLOCK,
				.id = block_of(mark->id),
				.at = mark->at,
			};
		else
			parked->marks[at].at = Min(parked->marks[at].at, mark->at);
	}
}

static bool
has_marks(void)
{
	return mine.count > 0 || mine.queues || mine.everything;
}

void
pgqrs_wake_pre_prepare(void)
{
	TransactionId xid;
	Parked *parked;

	if (shared == NULL || !has_marks() || max_prepared_xacts == 0)
		return;
	xid = GetTopTransactionId();
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	parked = get_parking(xid, MyDatabaseId);
	parked->m = mine;
	if (mine.count > MAX_PARKED)
		park_many(parked);
	else
		memcpy(parked->marks, mine.marks, mine.count * sizeof(Mark));
	LWLockRelease(shared->lock);
}

void
pgqrs_wake_prepared_before(TransactionId xid, Oid db)
{
	Parked *parked;

	if (shared == NULL)
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	parked = get_parking(xid, db);
	parked->m.everything = parked->m.parked = true;
	LWLockRelease(shared->lock);
}

/* A prepared transaction of this database that has ended, or NULL; the lock is held. */
static Parked *
find_ended(void)
{
	for (int i = 0; i < shared->end; i++)
	{
		Parked *parked = &shared->parkings[i];

		if (TransactionIdIsValid(parked->xid) && parked->db == MyDatabaseId &&
			!TransactionIdIsInProgress(parked->xid))
			return parked;
	}
	return NULL;
}

static bool
any_ended(void)
{
	bool any;

	LWLockAcquire(shared->lock, LW_SHARED);
	any = find_ended() != NULL;
	LWLockRelease(shared->lock);
	return any;
}

/* Takes the marks of such a one. */
static bool
unpark(Parked *ended)
{
	Parked *parked;

	if (!any_ended())
		return false;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	parked = find_ended();
	if (parked != NULL)
	{
		*ended = *parked;
		free_parking(parked);
	}
	LWLockRelease(shared->lock);
	return parked != NULL;
}

static void
tell_prepared(void)
{
	Parked ended;

	while (unpark(&ended))
	{
		ended.m.marks = ended.marks;
		if (TransactionIdDidCommit(ended.xid))
			tell(&ended.m);
		else
			tell_rollback(&ended.m);
	}
}

/*
 * The end of a transaction
 */

void
pgqrs_wake_commit(void)
{
	if (shared == NULL)
		return;
	if (has_marks())
	{
		tell(&mine);
		forget();
	}
	if (pg_atomic_read_u32(&shared->parked) > 0 && OidIsValid(MyDatabaseId))
		tell_prepared();
}

void
pgqrs_wake_abort(void)
{
	if (shared == NULL || !has_marks())
		return;
	tell_rollback(&mine);
	forget();
}

/* The first of the marks of the subtransaction that ends. */
static int
first_mark(int level)
{
	int first = mine.count;

	while (first > 0 && mine.marks[first - 1].level >= level)
		first--;
	return first;
}

/* Its marks are those of the one around it. */
void
pgqrs_wake_subcommit(int level)
{
	int count = mine.count;

	mine.count = first_mark(level);
	for (int i = mine.count; i < count; i++)
	{
		Mark from = mine.marks[i];
		Mark *to = get_level_mark(from.kind, from.id, level - 1);

		to->count = from.kind == MARK_QUEUE ? to->count + from.count : from.count;
		to->claimed += from.claimed;
		to->at = Min(to->at, from.at);
	}
}

void
pgqrs_wake_subabort(int level)
{
	Marks undone = mine;

	if (mine.count == 0)
		return;
	mine.count = first_mark(level);
	undone.marks += mine.count;
	undone.count -= mine.count;
	tell_rollback(&undone);
}

void
pgqrs_wake_prepare(void)
{
	forget();
}
