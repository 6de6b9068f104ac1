/*
 * advance.h
 *	  Advance: moves the instants that a waiting run waits for earlier.
 */
#ifndef PGQRS_ADVANCE_H
#define PGQRS_ADVANCE_H

#include "postgres.h"

#include "datatype/timestamp.h"

/*
 * Moves the next claim, the deadlines of the steps in which the run waits, and the
 * run's own deadline earlier by so many microseconds, but not before now.  Returns
 * when the run may be claimed, DT_NOEND where only another transaction ends the
 * wait.  PQ003; 42501 without the privilege to administer; PQ016 if the run is under
 * a lease or has ended.
 */
extern TimestampTz pgqrs_run_advance(int64 run_id, int64 by);

#endif /* PGQRS_ADVANCE_H */
