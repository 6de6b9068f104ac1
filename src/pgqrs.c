/*
 * pgqrs.c
 *	  The library's entry point.
 */
#include "postgres.h"

#include "catalog.h"
#include "fmgr.h"
#include "guc.h"

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

void
_PG_init(void)
{
	pgqrs_guc_init();
	pgqrs_catalog_init();
}
