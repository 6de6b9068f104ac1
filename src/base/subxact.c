/*
 * subxact.c
 *	  Subtransactions: work that can be undone by itself.
 *
 * Runs in any backend inside a transaction.  Restores the caller's memory
 * context and resource owner in every case.
 */
#include "base/subxact.h"

#include "access/xact.h"
#include "utils/resowner.h"

ErrorData *
pgqrs_subtransaction(bool (*work)(void *arg), void *arg)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		if (work(arg))
			ReleaseCurrentSubTransaction();
		else
			RollbackAndReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return error;
}
