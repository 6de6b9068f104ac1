/*
 * deleted_queue.h
 *	  What deleted queues have left: their messages, runs and history.
 */
#ifndef PGQRS_DELETED_QUEUE_H
#define PGQRS_DELETED_QUEUE_H

#include "postgres.h"

#include "background/retention.h"
#include "datatype/timestamp.h"

/*
 * Ends and removes some of it, with rests if gently; cancelled: the runs ended.
 * Returns when there may be more: 0 at once, DT_NOEND: nothing is left.
 */
extern TimestampTz pgqrs_deleted_pass(bool gently, int64 *cancelled,
									  PgqrsRetained *removed);

#endif /* PGQRS_DELETED_QUEUE_H */
