/*
 * writers.c
 *	  The transactions that may be writing messages, and whether they have ended.
 *
 * A transaction locks pgqrs_messages before it looks up the queue to which it
 * sends, and keeps that lock to its end.  So once the deletion of a queue is
 * visible, or its invalidation sent, only the transactions that hold the lock at
 * that moment can still add rows to the queue; the others see the deletion.
 * Waiting for those keeps no other transaction from writing, as the lock of a
 * table would: CREATE INDEX CONCURRENTLY waits in the same way.
 */
#include "shmem/writers.h"

#include "base/catalog.h"
#include "base/compat.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "utils/timestamp.h"

#define PAUSE 1000 /* microseconds between two looks */

/* The longest wait of a caller that fails afterwards, in milliseconds. */
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

/* VACUUM and index builds hold a lock that conflicts, and add no rows. */
static bool
is_maintenance(VirtualTransactionId id)
{
	PGPROC *proc = pgqrs_proc_of(id);

	return proc != NULL &&
		(proc->statusFlags &
		 (PROC_IS_AUTOVACUUM | PROC_IN_VACUUM | PROC_IN_SAFE_IC)) != 0;
}

bool
pgqrs_writers_ended(PgqrsWriters *writers, int patience)
{
	TimestampTz start = GetCurrentTimestamp();

	for (;;)
	{
		int going_on = 0;

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < writers->count; i++)
			if (!is_maintenance(writers->ids[i]) &&
				!VirtualXactLock(writers->ids[i], false))
				writers->ids[going_on++] = writers->ids[i];
		writers->count = going_on;
		if (going_on == 0)
			return true;
		if (TimestampDifferenceExceeds(start, GetCurrentTimestamp(), patience))
			return false;
		pg_usleep(PAUSE);
	}
}

void
pgqrs_writers_await(const char *detail, const char *hint)
{
	int patience = LockTimeout > 0 ? Min(LockTimeout, AWAIT_TIMEOUT) : AWAIT_TIMEOUT;
	PgqrsWriters writers;

	pgqrs_writers_list(&writers);
	if (!pgqrs_writers_ended(&writers, patience))
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("transactions that wrote messages did not end within a second"),
				 errdetail_internal("%s", detail), errhint("%s", hint)));
}
