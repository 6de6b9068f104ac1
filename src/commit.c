/*
 * commit.c
 *	  What happens at the end of a transaction.
 *
 * One callback, so that the order of what happens stands in one place.  The
 * callbacks for commit and abort are called when the end of the transaction is
 * visible to snapshots; floor.c depends on that.
 */
#include "commit.h"

#include "access/xact.h"
#include "floor.h"

static void
transaction_event(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_PREPARE:
			pgqrs_floor_pre_prepare();
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			pgqrs_floor_end();
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
