/*
 * serving.c
 *	  Serving: the workers and sessions that would take a queue's messages.
 *
 * Runs in any backend, locks nothing and writes nothing.  They are collected once
 * and counted for many queues: reading all of them for each queue would take the
 * product of both.  Neighbours in the order of names that are alike are kept as
 * one.
 */
#include "queue/serving.h"

#include "base/clock.h"
#include "base/name.h"
#include "miscadmin.h"
#include "queue/privileges.h"
#include "queue/worker_registry.h"
#include "shmem/sessions.h"
#include "store/scan.h"
#include "utils/datum.h"
#include "utils/memutils.h"

/* A role, and the patterns from which it may claim. */
typedef struct ServingRole
{
	Oid role;
	bool is_read;
	List *patterns;
} ServingRole;

/* Workers that are alike, or what a session serves as a role. */
typedef struct ServingEntry
{
	Datum queues;	/* of workers: text[] */
	uint32 session; /* 0: workers */
	List *patterns;
	ServingRole *role;
	int count;
} ServingEntry;

struct PgqrsServing
{
	MemoryContext context;
	List *roles;
	List *entries;
};

static ServingRole *
serving_role(PgqrsServing *serving, Oid role)
{
	ServingRole *added;
	ListCell *lc;

	foreach(lc, serving->roles)
		if (((ServingRole *) lfirst(lc))->role == role)
			return lfirst(lc);
	added = palloc0(sizeof(ServingRole));
	added->role = role;
	serving->roles = lappend(serving->roles, added);
	return added;
}

static ServingEntry *
add_entry(PgqrsServing *serving, ServingRole *role)
{
	ServingEntry *entry = palloc0(sizeof(ServingEntry));

	entry->role = role;
	serving->entries = lappend(serving->entries, entry);
	return entry;
}

static void
add_worker(void *arg, Oid role, Datum queues)
{
	PgqrsServing *serving = arg;
	ServingEntry *last = serving->entries != NIL ? llast(serving->entries) : NULL;

	if (last == NULL || last->role->role != role ||
		!datum_image_eq(last->queues, queues, false, -1))
	{
		last = add_entry(serving, serving_role(serving, role));
		last->queues = datumCopy(queues, false, -1);
		last->patterns = pgqrs_text_list(last->queues);
	}
	last->count++;
}

static void
add_session(void *arg, uint32 session, Oid role, const char *queue)
{
	PgqrsServing *serving = arg;
	ServingEntry *last = serving->entries != NIL ? llast(serving->entries) : NULL;

	if (last == NULL || last->session != session || last->role->role != role)
	{
		last = add_entry(serving, serving_role(serving, role));
		last->session = session;
		last->count = 1;
	}
	last->patterns = lappend(last->patterns, pstrdup(queue));
}

PgqrsServing *
pgqrs_serving_collect(void)
{
	PgqrsServing *serving = palloc0(sizeof(PgqrsServing));

	serving->context = CurrentMemoryContext;
	pgqrs_workers_visit_ready(add_worker, serving);
	pgqrs_sessions_visit_serving(add_session, serving);
	return serving;
}

static bool
role_may_claim(const PgqrsServing *serving, ServingRole *role, const char *queue)
{
	if (!role->is_read)
	{
		MemoryContext old = MemoryContextSwitchTo(serving->context);

		role->patterns = pgqrs_patterns_of_role(role->role, CAN_WORK);
		role->is_read = true;
		MemoryContextSwitchTo(old);
	}
	return pgqrs_any_pattern_matches(role->patterns, queue);
}

int
pgqrs_serving_count(const PgqrsServing *serving, const char *queue)
{
	uint32 session = 0;
	int count = 0;
	ListCell *lc;

	foreach(lc, serving->entries)
	{
		ServingEntry *entry = lfirst(lc);

		if ((entry->session != 0 && entry->session == session) ||
			!pgqrs_any_pattern_matches(entry->patterns, queue) ||
			!role_may_claim(serving, entry->role, queue))
			continue;
		session = entry->session;
		count += entry->count;
	}
	return count;
}
