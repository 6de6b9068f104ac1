/*
 * pgqrs.c
 *	  The library's entry point.
 */
#include "postgres.h"

#include "background/ddl_hooks.h"
#include "background/launcher.h"
#include "base/catalog.h"
#include "base/clock.h"
#include "base/guc.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "shmem/claim_floor.h"
#include "shmem/claim_hints.h"
#include "shmem/database_registry.h"
#include "shmem/finished_runs.h"
#include "shmem/heartbeats.h"
#include "shmem/levels.h"
#include "shmem/quarantine.h"
#include "shmem/queue_wakeups.h"
#include "shmem/wait_slots.h"
#include "shmem/xact_hooks.h"
#include "shmem/xact_wakeups.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "store/index_insert.h"

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

static shmem_request_hook_type previous_request_hook = NULL;
static shmem_startup_hook_type previous_startup_hook = NULL;

static void
request_shmem(void)
{
	if (previous_request_hook != NULL)
		previous_request_hook();
	RequestAddinShmemSpace(pgqrs_clock_shmem_size());
	RequestAddinShmemSpace(pgqrs_floor_shmem_size());
	RequestAddinShmemSpace(pgqrs_taken_shmem_size());
	RequestAddinShmemSpace(pgqrs_levels_shmem_size());
	RequestAddinShmemSpace(pgqrs_commit_shmem_size());
	RequestAddinShmemSpace(pgqrs_databases_shmem_size());
	RequestAddinShmemSpace(pgqrs_heartbeat_shmem_size());
	RequestAddinShmemSpace(pgqrs_waiter_shmem_size());
	RequestAddinShmemSpace(pgqrs_ended_shmem_size());
	RequestAddinShmemSpace(pgqrs_faulty_shmem_size());
	RequestAddinShmemSpace(pgqrs_ready_shmem_size());
	RequestAddinShmemSpace(pgqrs_wake_shmem_size());
	RequestNamedLWLockTranche("pgqrs floors", 1);
	RequestNamedLWLockTranche("pgqrs heartbeats", 1);
	RequestNamedLWLockTranche("pgqrs ended runs", 1);
	RequestNamedLWLockTranche("pgqrs ready queues", 1);
	RequestNamedLWLockTranche("pgqrs wake", 1);
}

static void
start_shmem(void)
{
	if (previous_startup_hook != NULL)
		previous_startup_hook();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	pgqrs_clock_shmem_init();
	pgqrs_floor_shmem_init();
	pgqrs_taken_shmem_init();
	pgqrs_levels_shmem_init();
	pgqrs_commit_shmem_init();
	pgqrs_databases_shmem_init();
	pgqrs_heartbeat_shmem_init();
	pgqrs_waiter_shmem_init();
	pgqrs_ended_shmem_init();
	pgqrs_faulty_shmem_init();
	pgqrs_ready_shmem_init();
	pgqrs_wake_shmem_init();
	LWLockRelease(AddinShmemInitLock);
}

void
_PG_init(void)
{
	pgqrs_guc_init();
	pgqrs_commit_init();
	pgqrs_catalog_init();
	pgqrs_indexes_init();

	if (!process_shared_preload_libraries_in_progress)
		return;
	previous_request_hook = shmem_request_hook;
	shmem_request_hook = request_shmem;
	previous_startup_hook = shmem_startup_hook;
	shmem_startup_hook = start_shmem;
	pgqrs_utility_init();
	pgqrs_launcher_init();
}
