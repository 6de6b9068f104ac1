/*
 * launcher.h
 *	  Launcher: starts a background worker for each database with due duties.
 */
#ifndef PGQRS_LAUNCHER_H
#define PGQRS_LAUNCHER_H

#include "postgres.h"

/* Registers the launcher with the postmaster, if the library is preloaded. */
extern void pgqrs_launcher_init(void);

#endif /* PGQRS_LAUNCHER_H */
