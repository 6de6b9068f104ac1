/*
 * serving.c
 *	  Serving: the workers and sessions that would take a queue's messages.
 *
 * Runs in any backend, locks nothing and writes nothing.  They are collected once
 * and counted for many queues, or looked at under the names of all queues: trying
 * each of them for each queue would take the product of both.  Neighbours in the
 * order of names that are alike are kept as one.
 */
#include "queue/serving.h"

#include "base/clock.h"
#include "base/name.h"
#include "miscadmin.h"
#include "queue/privileges.h"
#include "queue/queue.h"
#include "queue/worker_registry.h"
#include "shmem/sessions.h"
#include "store/scan.h"
#include "utils/datum.h"
#include "utils/hsearch.h"
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
	struct ServingEntry *first; /* the session's; of workers: this one */
	uint64 counted;				/* of the first: the count that it is part of */
} ServingEntry;

/* The entries with a pattern. */
typedef struct ServingPattern
{
	char pattern[PGQRS_PATTERN_SIZE];
	List *entries;
} ServingPattern;

struct PgqrsServing
{
	MemoryContext context;
	List *roles;
	List *entries;
	HTAB *patterns; /* of ServingPattern */
	uint64 counts;	/* number of counts */
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
	entry->first = entry;
	serving->entries = lappend(serving->entries, entry);
	return entry;
}

static void
add_worker(void *arg, int64 worker_id, Oid role, Datum queues)
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
		ServingEntry *added = add_entry(serving, serving_role(serving, role));

		if (last != NULL && last->session == session)
			added->first = last->first;
		added->session = session;
		added->count = 1;
		last = added;
	}
	last->patterns = lappend(last->patterns, pstrdup(queue));
}

static void
add_patterns(PgqrsServing *serving, ServingEntry *entry)
{
	ListCell *lc;

	foreach(lc, entry->patterns)
	{
		ServingPattern *pattern;
		bool found;

		if (strlen(lfirst(lc)) >= PGQRS_PATTERN_SIZE)
			continue;
		pattern = hash_search(serving->patterns, lfirst(lc), HASH_ENTER, &found);
		if (!found)
			pattern->entries = NIL;
		pattern->entries = lappend(pattern->entries, entry);
	}
}

PgqrsServing *
pgqrs_serving_collect(void)
{
	PgqrsServing *serving = palloc0(sizeof(PgqrsServing));
	HASHCTL ctl = {
		.keysize = PGQRS_PATTERN_SIZE,
		.entrysize = sizeof(ServingPattern),
		.hcxt = CurrentMemoryContext,
	};
	ListCell *lc;

	serving->context = CurrentMemoryContext;
	pgqrs_workers_visit(true, add_worker, serving);
	pgqrs_sessions_visit_serving(add_session, serving);
	serving->patterns = hash_create("pgqrs serving", 16, &ctl,
									HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
	foreach(lc, serving->entries)
		add_patterns(serving, lfirst(lc));
	return serving;
}

static const List *
claimable_patterns(PgqrsServing *serving, ServingRole *role)
{
	if (!role->is_read)
	{
		MemoryContext old = MemoryContextSwitchTo(serving->context);

		role->patterns = pgqrs_patterns_of_role(role->role, CAN_WORK);
		role->is_read = true;
		MemoryContextSwitchTo(old);
	}
	return role->patterns;
}

/* Counts the entries with a pattern that matches the queue. */
static int
count_pattern(PgqrsServing *serving, const char *pattern, const char *queue)
{
	ServingPattern *found = hash_search(serving->patterns, pattern, HASH_FIND, NULL);
	int count = 0;
	ListCell *lc;

	if (found == NULL)
		return 0;
	foreach(lc, found->entries)
	{
		ServingEntry *entry = lfirst(lc);

		if (entry->first->counted == serving->counts ||
			!pgqrs_any_pattern_matches(claimable_patterns(serving, entry->role),
									   queue))
			continue;
		entry->first->counted = serving->counts;
		count += entry->count;
	}
	return count;
}

int
pgqrs_serving_count(PgqrsServing *serving, const char *queue)
{
	char pattern[PGQRS_PATTERN_SIZE];
	int length = 0;
	int count;

	serving->counts++;
	count = count_pattern(serving, "*", queue) +
		count_pattern(serving, queue, queue);
	while (pgqrs_next_pattern(queue, &length, pattern))
		count += count_pattern(serving, pattern, queue);
	return count;
}

/*
 * Workers of readable queues
 */

/* The names that the current role may read, and the workers found to serve one. */
typedef struct Readable
{
	PgqrsServing serving; /* the roles */
	const char **names;	  /* in the order of strcmp() */
	int count;
	PgqrsInt64List workers;
} Readable;

static int
compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *) a, *(const char *const *) b);
}

static void
read_names(Readable *readable)
{
	PgqrsInt64List ids = pgqrs_readable_queue_ids();
	PgqrsQueue queue;

	readable->names = palloc(Max(ids.count, 1) * sizeof(char *));
	pgqrs_queue_expect(ids.count);
	for (int i = 0; i < ids.count; i++)
		if (pgqrs_queue_by_id(ids.values[i], &queue))
			readable->names[readable->count++] = pstrdup(queue.name);
	qsort(readable->names, readable->count, sizeof(char *), compare_names);
}

/* Whether a name matches a pattern of each list. */
static bool
find_name(const Readable *readable, const List *patterns, const List *others)
{
	ListCell *lc;
	ListCell *other;

	foreach(lc, patterns)
		foreach(other, others)
		{
			const char *both = pgqrs_narrower_pattern(lfirst(lc), lfirst(other));

			if (both != NULL &&
				pgqrs_pattern_finds(both, readable->names, readable->count))
				return true;
		}
	return false;
}

static void
add_readable(void *arg, int64 worker_id, Oid role, Datum queues)
{
	Readable *readable = arg;
	PgqrsServing *serving = &readable->serving;
	List *patterns = pgqrs_text_list(queues);

	if (find_name(readable, patterns,
				  claimable_patterns(serving, serving_role(serving, role))))
		pgqrs_int64_list_add(&readable->workers, worker_id);
	list_free_deep(patterns);
}

PgqrsInt64List
pgqrs_serving_readable(void)
{
	Readable readable = {.serving.context = CurrentMemoryContext};

	read_names(&readable);
	pgqrs_workers_visit(false, add_readable, &readable);
	return readable.workers;
}
