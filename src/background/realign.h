/*
 * realign.h
 *	  Realignment: moves rows that were written while the clock was ahead.
 */
#ifndef PGQRS_REALIGN_H
#define PGQRS_REALIGN_H

#include "postgres.h"

#include "datatype/timestamp.h"

/*
 * Runs one bounded batch and adds the number of moved messages to *moved.  Returns
 * when the next batch is due: 0 at once, DT_NOEND if no message is left.
 */
extern TimestampTz pgqrs_realign_pass(int64 *moved);

#endif /* PGQRS_REALIGN_H */
