/*
 * queue.c
 *	  Queues by name, by id and by pattern.
 *
 * Runs in any backend.  What was read of pgqrs_queues is remembered until
 * somebody changes a queue: as with the catalogs, a change is seen by the next
 * lookup after its commit has been noticed, at the latest when a transaction
 * starts or a new table lock is taken.  A caller that must not miss the
 * deletion of a queue locks pgqrs_messages before it looks the queue up.
 */
#include "queue/queue.h"

#include "base/clock.h"
#include "base/errors.h"
#include "base/name.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "queue/privileges.h"
#include "shmem/quarantine.h"
#include "shmem/queue_wakeups.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

typedef struct NameEntry
{
	char name[PGQRS_NAME_SIZE];
	int64 queue_id;
} NameEntry;

static struct
{
	MemoryContext context;
	HTAB *by_id;   /* of PgqrsQueue */
	HTAB *by_name; /* of NameEntry */
	uint64 generation;
	bool complete; /* holds every queue there is */
} cache;

/* Empties the cache if it may be out of date. */
static void
revalidate(void)
{
	uint64 generation = pgqrs_catalog_generation(TABLE_QUEUES);
	HASHCTL ctl;

	if (cache.by_name != NULL && cache.generation == generation)
		return;
	if (cache.context == NULL)
		cache.context = AllocSetContextCreate(CacheMemoryContext, "pgqrs queues",
											  ALLOCSET_SMALL_SIZES);
	cache.by_id = cache.by_name = NULL;
	cache.complete = false;
	MemoryContextReset(cache.context);

	ctl.hcxt = cache.context;
	ctl.keysize = sizeof(int64);
	ctl.entrysize = sizeof(PgqrsQueue);
	cache.by_id = hash_create("pgqrs queues by id", 16, &ctl,
							  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	ctl.keysize = PGQRS_NAME_SIZE;
	ctl.entrysize = sizeof(NameEntry);
	cache.by_name = hash_create("pgqrs queues by name", 16, &ctl,
								HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
	cache.generation = generation;
}

static int64
stored_duration(TupleTableSlot *slot, AttrNumber column, bool *valid)
{
	int64 duration = 0;

	*valid &= pgqrs_duration_of(DatumGetIntervalP(pgqrs_get(slot, column)),
								&duration);
	return duration;
}

/* False: the row has a setting that no function of ours would store. */
static bool
read_queue(TupleTableSlot *slot, PgqrsQueue *queue)
{
	text *name = DatumGetTextPP(pgqrs_get(slot, Queues_name));
	bool valid = VARSIZE_ANY_EXHDR(name) < PGQRS_NAME_SIZE;

	queue->queue_id = DatumGetInt64(pgqrs_get(slot, Queues_queue_id));
	queue->visibility_timeout = stored_duration(slot, Queues_visibility_timeout,
												&valid);
	queue->retention = stored_duration(slot, Queues_retention, &valid);
	queue->dead_retention = stored_duration(slot, Queues_dead_retention, &valid);
	queue->max_attempts = DatumGetInt32(pgqrs_get(slot, Queues_max_attempts));
	queue->max_in_flight = DatumGetInt32(pgqrs_get(slot, Queues_max_in_flight));
	queue->paused = !pgqrs_is_null(slot, Queues_paused_at);
	queue->is_workflow = DatumGetBool(pgqrs_get(slot, Queues_is_workflow));
	queue->deleter = pgqrs_row_deleter(slot);
	text_to_cstring_buffer(name, queue->name, PGQRS_NAME_SIZE);
	return valid;
}

static void
error_damaged(const PgqrsQueue *queue)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("queue \"%s\" has a setting out of range", queue->name),
			 errhint(PGQRS_DAMAGED_HINT)));
}

static void
remember(const PgqrsQueue *queue)
{
	NameEntry *entry;

	memcpy(hash_search(cache.by_id, &queue->queue_id, HASH_ENTER, NULL), queue,
		   sizeof(PgqrsQueue));
	entry = hash_search(cache.by_name, queue->name, HASH_ENTER, NULL);
	entry->queue_id = queue->queue_id;
}

/*
 * Reads a queue by a unique key and remembers it, unless something changed
 * meanwhile: to open the index can let an invalidation in, after the table was
 * opened.
 */
static bool
load(PgqrsIndexId index, Datum key, PgqrsQueue *queue)
{
	PgqrsTable *queues = pgqrs_table_open(TABLE_QUEUES, false);
	TupleTableSlot *slot = pgqrs_table_slot(queues);
	bool found;

	revalidate(); /* opening the table may have let one in, too */
	found = pgqrs_row_fetch(queues, index, 1, &key, slot);
	if (found && !read_queue(slot, queue))
	{
		if (index == INDEX_QUEUES_NAME)
			error_damaged(queue);
		pgqrs_faulty_found(FAULTY_QUEUE, queue->queue_id,
						   "it has a setting out of range");
		found = false;
	}
	pgqrs_table_close(queues);
	if (found && cache.generation == pgqrs_catalog_generation(TABLE_QUEUES))
		remember(queue);
	return found;
}

bool
pgqrs_queue_by_id(int64 queue_id, PgqrsQueue *queue)
{
	PgqrsQueue *known;

	revalidate();
	known = hash_search(cache.by_id, &queue_id, HASH_FIND, NULL);
	if (known == NULL || TransactionIdIsValid(known->deleter))
		return load(INDEX_QUEUES_PKEY, Int64GetDatum(queue_id), queue);
	*queue = *known;
	return true;
}

bool
pgqrs_queue_by_name(const char *name, PgqrsQueue *queue)
{
	NameEntry *known;

	if (strlen(name) >= PGQRS_NAME_SIZE)
		return false;
	revalidate();
	known = hash_search(cache.by_name, name, HASH_FIND, NULL);
	if (known == NULL)
		return load(INDEX_QUEUES_NAME, CStringGetTextDatum(name), queue);
	return pgqrs_queue_by_id(known->queue_id, queue);
}

bool
pgqrs_queue_allows(const PgqrsQueue *queue, PgqrsPrivilege privilege, bool *visible)
{
	int mask = pgqrs_grants_on(queue->name);

	*visible = mask != 0;
	return (mask & (1 << privilege)) != 0;
}

/*
 * A queue without messages may be deleted under a sender, which looks it up
 * after the deleter has looked for messages: it waits for the deleter's end.
 * The sender has locked pgqrs_messages; writers.c says why that matters.
 */
bool
pgqrs_queue_to_send_to(const char *name, PgqrsQueue *queue)
{
	while (pgqrs_queue_by_name(name, queue))
	{
		if (!TransactionIdIsValid(queue->deleter))
			return true;
		XactLockTableWait(queue->deleter, NULL, NULL, XLTW_None);
	}
	return false;
}

void
pgqrs_queue_require(const char *name, PgqrsPrivilege privilege, PgqrsQueue *queue)
{
	bool visible;

	if (!(privilege == PRIVILEGE_TRIGGER ? pgqrs_queue_to_send_to(name, queue) :
										   pgqrs_queue_by_name(name, queue)))
		pgqrs_error_queue_not_found(name);
	if (pgqrs_queue_allows(queue, privilege, &visible))
		return;
	if (!visible)
		pgqrs_error_queue_not_found(name);
	pgqrs_error_denied(pgqrs_enum_label(ENUM_PRIVILEGE, privilege), name);
}

/* Makes sure that the cache holds every queue. */
static void
load_all(void)
{
	PgqrsTable *queues;
	PgqrsScan scan;
	TupleTableSlot *slot;
	PgqrsQueue queue;

	revalidate();
	if (cache.complete)
		return;
	queues = pgqrs_table_open(TABLE_QUEUES, false);
	revalidate();
	slot = pgqrs_table_slot(queues);
	pgqrs_scan_begin_table(&scan, queues);
	while (pgqrs_scan_next(&scan, slot))
	{
		if (read_queue(slot, &queue))
			remember(&queue);
		else
			pgqrs_faulty_found(FAULTY_QUEUE, queue.queue_id,
							   "it has a setting out of range");
	}
	pgqrs_scan_end(&scan);
	pgqrs_table_close(queues);
	cache.complete = true;
}

void
pgqrs_queue_remember_all(void)
{
	load_all();
}

static int
compare_ids(const ListCell *a, const ListCell *b)
{
	int64 ida = ((const PgqrsQueue *) lfirst(a))->queue_id;
	int64 idb = ((const PgqrsQueue *) lfirst(b))->queue_id;

	return (ida > idb) - (ida < idb);
}

static bool
matches_any(List *patterns, const char *name)
{
	ListCell *lc;

	foreach(lc, patterns)
		if (pgqrs_pattern_matches(lfirst(lc), name))
			return true;
	return false;
}

List *
pgqrs_queue_match(List *patterns, PgqrsPrivilege privilege)
{
	List *result = NIL;
	HASH_SEQ_STATUS status;
	PgqrsQueue *queue;
	bool visible;

	load_all();
	hash_seq_init(&status, cache.by_id);
	while ((queue = hash_seq_search(&status)) != NULL)
	{
		PgqrsQueue *copy;

		if (!matches_any(patterns, queue->name))
			continue;
		copy = palloc(sizeof(PgqrsQueue));
		*copy = *queue;
		result = lappend(result, copy);
	}

	/* a privilege check may read tables, so only now */
	for (int i = list_length(result) - 1; i >= 0; i--)
		if (!pgqrs_queue_allows(list_nth(result, i), privilege, &visible))
			result = list_delete_nth_cell(result, i);
	list_sort(result, compare_ids);
	return result;
}

/*
 * Lists of queues that a backend remembers
 */

#define MAX_LISTS 4

typedef struct QueueList
{
	MemoryContext context; /* NULL: unused */
	char *key;
	Oid user;
	uint64 queues; /* generations */
	uint64 grants;
	PgqrsQueueIds ids;
} QueueList;

static QueueList lists[MAX_LISTS];

/* No pattern has control characters. */
static void
append_key(StringInfo key, List *patterns)
{
	ListCell *lc;

	foreach(lc, patterns)
		appendStringInfo(key, "%s\n", (const char *) lfirst(lc));
	appendStringInfoChar(key, '\t');
}

static bool
is_list_of(const QueueList *list, const char *key)
{
	return list->context != NULL && list->user == GetUserId() &&
		list->queues == pgqrs_catalog_generation(TABLE_QUEUES) &&
		list->grants == pgqrs_catalog_generation(TABLE_GRANTS) &&
		strcmp(list->key, key) == 0;
}

/* What changes from here on makes the next call start over. */
static void
make_list(QueueList *list, const char *key, List *patterns, List *also,
		  PgqrsPrivilege privilege)
{
	uint64 generation_of_queues = pgqrs_catalog_generation(TABLE_QUEUES);
	uint64 generation_of_grants = pgqrs_catalog_generation(TABLE_GRANTS);
	List *queues = pgqrs_queue_match(patterns, privilege);
	Size count = Max(1, list_length(queues));
	ListCell *lc;

	if (list->context != NULL)
		MemoryContextDelete(list->context);
	list->context = NULL;
	memset(list, 0, sizeof(*list));
	list->context = AllocSetContextCreate(CacheMemoryContext, "pgqrs queue list",
										  ALLOCSET_SMALL_SIZES);
	list->key = MemoryContextStrdup(list->context, key);
	list->ids.ids = MemoryContextAllocHuge(list->context, count * sizeof(int64));
	list->ids.slots = MemoryContextAllocHuge(list->context, count * sizeof(int));
	foreach(lc, queues)
	{
		const PgqrsQueue *queue = lfirst(lc);
		int at = list->ids.count;

		if (also != NIL && !matches_any(also, queue->name))
			continue;
		list->ids.ids[at] = queue->queue_id;
		list->ids.slots[at] = pgqrs_ready_slot(queue->queue_id);
		list->ids.count++;
	}
	list_free_deep(queues);
	list->user = GetUserId();
	list->queues = generation_of_queues;
	list->grants = generation_of_grants;
}

const PgqrsQueueIds *
pgqrs_queue_match_ids(List *patterns, List *also, PgqrsPrivilege privilege)
{
	static int next = 0;
	StringInfoData key;
	QueueList *list = NULL;

	initStringInfo(&key);
	appendStringInfo(&key, "%d\t", (int) privilege);
	append_key(&key, patterns);
	append_key(&key, also);
	for (int i = 0; i < MAX_LISTS && list == NULL; i++)
		if (is_list_of(&lists[i], key.data))
			list = &lists[i];
	if (list == NULL)
	{
		list = &lists[next++ % MAX_LISTS];
		make_list(list, key.data, patterns, also, privilege);
	}
	pfree(key.data);
	return &list->ids;
}

bool
pgqrs_queue_has(PgqrsTableId id, PgqrsIndexId index, int64 queue_id)
{
	PgqrsTable *table = pgqrs_table_open(id, false);
	Datum key = Int64GetDatum(queue_id);
	bool found = pgqrs_row_fetch(table, index, 1, &key, pgqrs_table_slot(table));

	pgqrs_table_close(table);
	return found;
}

bool
pgqrs_queue_has_archived(int64 queue_id)
{
	return pgqrs_queue_has(TABLE_ARCHIVE, INDEX_ARCHIVE_DEAD, queue_id) ||
		pgqrs_queue_has(TABLE_ARCHIVE, INDEX_ARCHIVE_ENDED, queue_id);
}
