/*
 * launcher.h
 *	  The process that starts background workers where they are needed.
 */
#ifndef PGQRS_LAUNCHER_H
#define PGQRS_LAUNCHER_H

#include "postgres.h"

/* When the library is preloaded: has the postmaster start it. */
extern void pgqrs_launcher_init(void);

#endif /* PGQRS_LAUNCHER_H */
