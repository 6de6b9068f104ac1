/*
 * message_writes.h
 *	  Message writes: what each write of pgqrs_messages reports to shared memory.
 */
#ifndef PGQRS_MESSAGE_WRITES_H
#define PGQRS_MESSAGE_WRITES_H

extern void pgqrs_message_writes_init(void);

#endif /* PGQRS_MESSAGE_WRITES_H */
