/*
 * outbox.h
 *	  Telling a queue of the runs of a workflow that have ended.
 */
#ifndef PGQRS_OUTBOX_H
#define PGQRS_OUTBOX_H

#include "postgres.h"

#include "queue/queue.h"
#include "store/table.h"

/*
 * Sends the event of a run that has ended, if its workflow has an outbox; run:
 * the version in which it has.  messages is open for writing, and all waiting
 * is done.
 */
extern void pgqrs_outbox_send(PgqrsTable *messages, const PgqrsQueue *workflow,
							  const PgqrsRow *run);

/* PQ001, 42501 or PQ016 unless the role may make that queue an outbox. */
extern void pgqrs_outbox_check(const char *queue);

#endif /* PGQRS_OUTBOX_H */
