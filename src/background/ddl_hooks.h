/*
 * ddl_hooks.h
 *	  Commands that the background processes have to know of.
 */
#ifndef PGQRS_DDL_HOOKS_H
#define PGQRS_DDL_HOOKS_H

#include "postgres.h"

/* When the library is preloaded: hooks into utility commands. */
extern void pgqrs_ddl_hooks_init(void);

#endif /* PGQRS_DDL_HOOKS_H */
