/*
 * writers.c
 *	  Writers: transactions that may be writing messages, and whether they
 *	  have ended.
 *
 * A transaction locks pgqrs_messages before it looks up the queue to which it
 * sends, and keeps that lock to its end.  So once the deletion of a queue is
 * visible, or its invalidation sent, only transactions that hold the lock at
 * that moment can still add rows to the queue; all others see the deletion.
 * Waiting for those transactions blocks no other writer, unlike a table lock:
 * CREATE INDEX CONCURRENTLY waits in the same way.
 */
#include "shmem/writers.h"

#include "base/catalog.h"
#include "base/compat.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "utils/timestamp.h"

#define POLL_INTERVAL 1000 /* microseconds between two checks */

/* Longest wait in milliseconds before the caller fails. */
#define AWAIT_TIMEOUT 900

void
pgqrs_writers_list(PgqrsWriters *writers)
{
	LOCKTAG tag;
	VirtualTransactionId *ids;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, pgqrs_catalog_table(TABLE_MESSAGES));
	ids = GetLockConflicts(&tag, ShareLock, &writers->count);
	writers->ids = palloc((writers->count + 1) * sizeof(*ids));
	memcpy(writers->ids, ids, writers->count * sizeof(*ids));
	pfree(ids);
}

/* VACUUM and index builds hold a conflicting lock, but add no rows. */
static bool
is_vacuum_or_index_build(VirtualTransactionId id)
{
	PGPROC *proc = pgqrs_proc_of(id);

	return proc != NULL &&
		(proc->statusFlags &
		 (PROC_IS_AUTOVACUUM | PROC_IN_VACUUM | PROC_IN_SAFE_IC)) != 0;
}

bool
pgqrs_writers_ended(PgqrsWriters *writers, int timeout)
{
	TimestampTz start = GetCurrentTimestamp();

	for (;;)
	{
		int open = 0;

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < writers->count; i++)
			if (!is_vacuum_or_index_build(writers->ids[i]) &&
				!VirtualXactLock(writers->ids[i], false))
				writers->ids[open++] = writers->ids[i];
		writers->count = open;
		if (open == 0)
			return true;
		if (TimestampDifferenceExceeds(start, GetCurrentTimestamp(), timeout))
			return false;
		pg_usleep(POLL_INTERVAL);
	}
}

void
pgqrs_writers_await(const char *detail, const char *hint)
{
	int timeout = LockTimeout > 0 ? Min(LockTimeout, AWAIT_TIMEOUT) : AWAIT_TIMEOUT;
	PgqrsWriters writers;

	pgqrs_writers_list(&writers);
	if (!pgqrs_writers_ended(&writers, timeout))
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("transactions that wrote messages did not end within a second"),
				 errdetail_internal("%s", detail), errhint("%s", hint)));
}
