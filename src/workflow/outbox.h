/*
 * outbox.h
 *	  Outbox: the queue that receives an event for each ended run of a workflow.
 */
#ifndef PGQRS_OUTBOX_H
#define PGQRS_OUTBOX_H

#include "postgres.h"

#include "queue/queue.h"
#include "store/table.h"

/*
 * Sends the event of an ended run, if its workflow has an outbox.  run: the
 * row version that ends the run.  messages is open for writing; the caller waits
 * for no lock afterwards.
 */
extern void pgqrs_outbox_send(PgqrsTable *messages, const PgqrsQueue *workflow,
							  const PgqrsRow *run);

/* PQ001, 42501 or PQ016 unless the current role may use that queue as an outbox. */
extern void pgqrs_outbox_check(const char *name);

#endif /* PGQRS_OUTBOX_H */
