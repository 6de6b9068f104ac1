/*
 * shmem_module.h
 *	  What a source file keeps in shared memory.
 *
 * A file defines one module; pgqrs.c lists all of them, and allocates each where
 * the library is preloaded.
 */
#ifndef PGQRS_SHMEM_MODULE_H
#define PGQRS_SHMEM_MODULE_H

#include "postgres.h"

#include "storage/lwlock.h"

typedef struct PgqrsShmemModule
{
	const char *name; /* of the area, and of its locks */
	Size size;
	Size (*more)(void); /* what follows, by the server's settings; NULL: nothing */
	int locks;			/* how many it needs */
	void **area; /* the file's pointer, NULL where the library is not preloaded */

	/*
	 * Called by the postmaster, with AddinShmemInitLock held and the area all
	 * zero.  locks: as many as it needs.
	 */
	void (*init)(LWLockPadded *locks);
} PgqrsShmemModule;

#endif /* PGQRS_SHMEM_MODULE_H */
