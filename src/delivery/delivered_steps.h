/*
 * delivered_steps.h
 *	  The finished steps of a run, which are delivered with it.
 */
#ifndef PGQRS_DELIVERED_STEPS_H
#define PGQRS_DELIVERED_STEPS_H

#include "postgres.h"

/*
 * {"steps": {step_id: {"kind", "status", "output", "error"}}} of the steps that are
 * SUCCESS or ERROR, and "steps_truncated": true where some are left out: those
 * that began last, of more than 4 MB or max_size bytes, or all, if one of them
 * cannot be read.
 */
extern Datum pgqrs_delivered_steps(int64 run_id, Size max_size);

#endif /* PGQRS_DELIVERED_STEPS_H */
