/*
 * realign.h
 *	  Rows that were written while the clock was ahead.
 */
#ifndef PGQRS_REALIGN_H
#define PGQRS_REALIGN_H

#include "postgres.h"

#include "datatype/timestamp.h"

/*
 * One bounded batch; *moved counts messages.  Returns when to go on: 0 if there
 * is more, DT_NOEND if nothing is left.
 */
extern TimestampTz pgqrs_realign_pass(int64 *moved);

#endif /* PGQRS_REALIGN_H */
