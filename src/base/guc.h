/*
 * guc.h
 *	  Settings.
 */
#ifndef PGQRS_GUC_H
#define PGQRS_GUC_H

#include "postgres.h"

extern bool pgqrs_async_claims;
extern bool pgqrs_audit;
extern int pgqrs_clock_offset; /* milliseconds */
extern char *pgqrs_databases;
extern int pgqrs_heartbeat_flush; /* milliseconds */
extern int pgqrs_max_floors;
extern int pgqrs_max_workers;
extern bool pgqrs_paused;
extern int pgqrs_payload_max;	 /* bytes */
extern int pgqrs_payload_warn;	 /* bytes */
extern int pgqrs_time_passed;	 /* milliseconds */
extern int pgqrs_worker_timeout; /* milliseconds */

extern void pgqrs_guc_init(void);

/* Whether the background workers may work in a database, by its name. */
extern bool pgqrs_guc_serves(const char *database);

#endif /* PGQRS_GUC_H */
