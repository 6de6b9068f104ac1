/*
 * message_writes.h
 *	  Message writes: what each write of pgqrs_messages reports to shared memory.
 */
#ifndef PGQRS_MESSAGE_WRITES_H
#define PGQRS_MESSAGE_WRITES_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "store/table.h"

extern void pgqrs_message_writes_init(void);

/* The lease of the message in the slot, if it has one, has ended now. */
extern void pgqrs_message_count_lease_end(TupleTableSlot *slot, TimestampTz now);

#endif /* PGQRS_MESSAGE_WRITES_H */
