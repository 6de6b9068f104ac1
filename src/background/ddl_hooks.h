/*
 * ddl_hooks.h
 *	  DDL hooks: utility commands that concern the background processes.
 */
#ifndef PGQRS_DDL_HOOKS_H
#define PGQRS_DDL_HOOKS_H

#include "postgres.h"

/* Installs the hooks, if the library is preloaded. */
extern void pgqrs_ddl_hooks_init(void);

#endif /* PGQRS_DDL_HOOKS_H */
