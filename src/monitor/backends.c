/*
 * backends.c
 *	  Backends: what PostgreSQL shows of a process.
 *
 * Runs in any backend, on the copy that a transaction has of that.
 */
#include "monitor/backends.h"

#include "base/compat.h"

const PgBackendStatus *
pgqrs_find_backend(int pid)
{
	int count = pid != 0 ? pgstat_fetch_stat_numbackends() : 0;

	for (int i = 1; i <= count; i++)
	{
		const PgBackendStatus *backend = &pgqrs_backend_status(i)->backendStatus;

		if (backend->st_procpid == pid)
			return backend;
	}
	return NULL;
}
