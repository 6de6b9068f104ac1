/*
 * backends.h
 *	  Backends: what PostgreSQL shows of a process.
 */
#ifndef PGQRS_BACKENDS_H
#define PGQRS_BACKENDS_H

#include "postgres.h"

#include "utils/backend_status.h"

/* What pg_stat_activity shows of a process, or NULL; pid 0: of none. */
extern const PgBackendStatus *pgqrs_find_backend(int pid);

#endif /* PGQRS_BACKENDS_H */
