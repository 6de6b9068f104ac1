/*
 * shmem_module.h
 *	  Shared memory modules: the area and locks that a source file needs.
 *
 * A file defines one module at most.  pgqrs.c lists the modules and, where the
 * library is preloaded, allocates each of them.
 */
#ifndef PGQRS_SHMEM_MODULE_H
#define PGQRS_SHMEM_MODULE_H

#include "postgres.h"

#include "storage/lwlock.h"

typedef struct PgqrsShmemModule
{
	const char *name; /* name of the area and of its locks */
	Size size;
	Size (*more)(void); /* bytes after it that depend on settings; or NULL */
	int locks;			/* number of locks */
	void **area;		/* pointer of the file; stays NULL without preloading */

	/*
	 * Called by the postmaster, with AddinShmemInitLock held and the area all
	 * zero.  locks: its locks.
	 */
	void (*init)(LWLockPadded *locks);
} PgqrsShmemModule;

#endif /* PGQRS_SHMEM_MODULE_H */
