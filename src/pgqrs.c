/*
 * pgqrs.c
 *	  The library's entry point.
 */
#include "postgres.h"

#include "background/ddl_hooks.h"
#include "background/launcher.h"
#include "base/catalog.h"
#include "base/clock.h"
#include "base/compat.h"
#include "base/guc.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "queue/counter_rows.h"
#include "queue/message_writes.h"
#include "shmem/claim_floor.h"
#include "shmem/claim_hints.h"
#include "shmem/counters.h"
#include "shmem/database_registry.h"
#include "shmem/floor_counters.h"
#include "shmem/heartbeats.h"
#include "shmem/priority_hints.h"
#include "shmem/published_keys.h"
#include "shmem/quarantine.h"
#include "shmem/sessions.h"
#include "shmem/wait_slots.h"
#include "shmem/wakeup_table.h"
#include "shmem/xact_hooks.h"
#include "shmem/xact_wakeups.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "store/index_insert.h"

PGQRS_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

static shmem_request_hook_type previous_request_hook = NULL;
static shmem_startup_hook_type previous_startup_hook = NULL;

static const PgqrsShmemModule *const shmem_modules[] = {
	&pgqrs_clock_shmem,			 &pgqrs_floor_shmem,
	&pgqrs_floor_counters_shmem, &pgqrs_published_keys_shmem,
	&pgqrs_claim_hints_shmem,	 &pgqrs_priority_hints_shmem,
	&pgqrs_xact_hooks_shmem,	 &pgqrs_databases_shmem,
	&pgqrs_heartbeat_shmem,		 &pgqrs_quarantine_shmem,
	&pgqrs_wait_shmem,			 &pgqrs_wakeup_shmem,
	&pgqrs_counters_shmem,		 &pgqrs_sessions_shmem,
	&pgqrs_xact_wakeup_shmem, /* the last */
};

static Size
module_size(const PgqrsShmemModule *module)
{
	Size more = module->more != NULL ? module->more() : 0;

	return MAXALIGN(add_size(module->size, more));
}

static void
request_shmem(void)
{
	if (previous_request_hook != NULL)
		previous_request_hook();
	for (int i = 0; i < lengthof(shmem_modules); i++)
	{
		const PgqrsShmemModule *module = shmem_modules[i];

		RequestAddinShmemSpace(add_size(module_size(module), PG_CACHE_LINE_SIZE));
		if (module->locks > 0)
			RequestNamedLWLockTranche(module->name, module->locks);
	}
}

static void
start_module(const PgqrsShmemModule *module)
{
	Size size = module_size(module);
	bool found;

	*module->area = ShmemInitStruct(module->name, size, &found);
	if (found)
		return;
	memset(*module->area, 0, size);
	module->init(module->locks > 0 ? GetNamedLWLockTranche(module->name) : NULL);
}

static void
start_shmem(void)
{
	if (previous_startup_hook != NULL)
		previous_startup_hook();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	for (int i = 0; i < lengthof(shmem_modules); i++)
		start_module(shmem_modules[i]);
	LWLockRelease(AddinShmemInitLock);
}

void
_PG_init(void)
{
	pgqrs_guc_init();
	pgqrs_xact_hooks_init();
	pgqrs_catalog_init();
	pgqrs_indexes_init();
	pgqrs_message_writes_init();
	pgqrs_counter_rows_init();

	if (!process_shared_preload_libraries_in_progress)
		return;
	previous_request_hook = shmem_request_hook;
	shmem_request_hook = request_shmem;
	previous_startup_hook = shmem_startup_hook;
	shmem_startup_hook = start_shmem;
	pgqrs_ddl_hooks_init();
	pgqrs_launcher_init();
}
