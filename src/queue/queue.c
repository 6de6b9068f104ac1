/*
 * queue.c
 *	  Queues: found by name, id and pattern; created, altered and paused.
 *
 * Runs in any backend.  Rows of pgqrs_queues are cached until a queue changes,
 * which the next look-up by name or id after the commit sees; lists of many
 * queues see it when a transaction starts or takes a new table lock.  A caller
 * that must not miss the deletion of a queue locks pgqrs_messages before it
 * looks the queue up.
 *
 * A deleted queue keeps its row, marked with the time, until its messages and
 * runs are removed.  No look-up finds it, and its name is free.
 *
 * Administration locks the queue's row to the end of the transaction, so
 * changes of one queue follow one another.  Callers that use a queue lock
 * nothing of it and may use the old settings until a change commits.  Of two
 * transactions that create the same queue at once, one waits for the other and
 * finds the queue, at every isolation level.
 */
#include "queue/queue.h"

#include "base/clock.h"
#include "base/errors.h"
#include "base/name.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "queue/privileges.h"
#include "shmem/quarantine.h"
#include "shmem/wakeup_table.h"
#include "shmem/xact_hooks.h"
#include "shmem/xact_wakeups.h"
#include "storage/lmgr.h"
#include "store/scan.h"
#include "store/tuple.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

typedef struct QueueName
{
	char name[PGQRS_NAME_SIZE];
	int64 queue_id;
} QueueName;

static struct
{
	MemoryContext context;
	HTAB *by_id;   /* of PgqrsQueue */
	HTAB *by_name; /* of QueueName */
	uint64 generation;
	bool complete; /* holds every queue there is */
} cache;

/* Empties the cache if it may be out of date. */
static void
reset_stale_cache(void)
{
	uint64 generation;
	HASHCTL ctl;

	/*
	 * a transaction that already holds its locks would not see a change
	 * otherwise
	 */
	AcceptInvalidationMessages();
	generation = pgqrs_catalog_generation(TABLE_QUEUES);

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
	ctl.entrysize = sizeof(QueueName);
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

/* False if the row has a setting that the extension's functions never store. */
static bool
read_queue(TupleTableSlot *slot, PgqrsQueue *queue)
{
	text *name = DatumGetTextPP(pgqrs_get(slot, Queues_name));
	bool valid = VARSIZE_ANY_EXHDR(name) < PGQRS_NAME_SIZE;

	queue->queue_id = pgqrs_get_int64(slot, Queues_queue_id);
	queue->visibility_timeout = stored_duration(slot, Queues_visibility_timeout,
												&valid);
	queue->retention = stored_duration(slot, Queues_retention, &valid);
	queue->dead_retention = stored_duration(slot, Queues_dead_retention, &valid);
	queue->max_attempts = DatumGetInt32(pgqrs_get(slot, Queues_max_attempts));
	queue->max_in_flight = DatumGetInt32(pgqrs_get(slot, Queues_max_in_flight));
	queue->paused = !pgqrs_is_null(slot, Queues_paused_at);
	queue->is_workflow = DatumGetBool(pgqrs_get(slot, Queues_is_workflow));
	queue->delivers_cancel = !pgqrs_is_null(slot, Queues_on_cancel) &&
		pgqrs_enum_find(ENUM_ON_CANCEL, pgqrs_get(slot, Queues_on_cancel)) ==
			ON_CANCEL_DELIVER;
	queue->deleter = pgqrs_row_deleter(slot);
	text_to_cstring_buffer(name, queue->name, PGQRS_NAME_SIZE);
	return valid;
}

static void
error_damaged_queue(const PgqrsQueue *queue)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("queue \"%s\" has a setting out of range", queue->name),
			 errhint(PGQRS_DAMAGED_HINT)));
}

static void
cache_queue(const PgqrsQueue *queue)
{
	QueueName *entry;

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
load_queue(PgqrsIndexId index, Datum key, PgqrsQueue *queue)
{
	PgqrsTable *queues = pgqrs_table_open(TABLE_QUEUES, false);
	TupleTableSlot *slot = pgqrs_table_slot(queues);
	bool found;

	reset_stale_cache(); /* opening the table may have processed an invalidation */
	found = pgqrs_row_fetch(queues, index, 1, &key, slot) &&
		pgqrs_is_null(slot, Queues_deleted_at);
	if (found && !read_queue(slot, queue))
	{
		if (index == INDEX_QUEUES_NAME)
			error_damaged_queue(queue);
		pgqrs_quarantine_add(QUARANTINE_QUEUE, queue->queue_id,
							 "it has a setting out of range");
		found = false;
	}
	pgqrs_table_close(queues);
	if (found && cache.generation == pgqrs_catalog_generation(TABLE_QUEUES))
		cache_queue(queue);
	return found;
}

bool
pgqrs_queue_by_id(int64 queue_id, PgqrsQueue *queue)
{
	PgqrsQueue *cached;

	reset_stale_cache();
	cached = hash_search(cache.by_id, &queue_id, HASH_FIND, NULL);
	if (cached == NULL || TransactionIdIsValid(cached->deleter))
		return load_queue(INDEX_QUEUES_PKEY, Int64GetDatum(queue_id), queue);
	*queue = *cached;
	return true;
}

bool
pgqrs_queue_by_name(const char *name, PgqrsQueue *queue)
{
	QueueName *cached;

	if (strlen(name) >= PGQRS_NAME_SIZE)
		return false;
	reset_stale_cache();
	cached = hash_search(cache.by_name, name, HASH_FIND, NULL);
	if (cached == NULL)
		return load_queue(INDEX_QUEUES_NAME, CStringGetTextDatum(name), queue);
	return pgqrs_queue_by_id(cached->queue_id, queue);
}

static bool
has_privilege(const PgqrsQueue *queue, PgqrsPrivilege privilege)
{
	return (pgqrs_privileges_on(queue->name) & (1 << privilege)) != 0;
}

bool
pgqrs_queue_allows(int64 queue_id, PgqrsPrivilege privilege, PgqrsQueue *queue)
{
	return pgqrs_queue_by_id(queue_id, queue) && has_privilege(queue, privilege);
}

/* False: the role has no privilege at all. 42501: it has another privilege. */
static bool
check_privilege(const PgqrsQueue *queue, PgqrsPrivilege privilege)
{
	int mask = pgqrs_privileges_on(queue->name);

	if (mask != 0 && (mask & (1 << privilege)) == 0)
		pgqrs_error_permission_denied(pgqrs_enum_label(ENUM_PRIVILEGE, privilege),
									  queue->name);
	return mask != 0;
}

bool
pgqrs_queue_admits(int64 queue_id, PgqrsPrivilege privilege, PgqrsQueue *queue)
{
	return pgqrs_queue_by_id(queue_id, queue) && check_privilege(queue, privilege);
}

/*
 * An empty queue may be deleted without force while a sender looks it up: the
 * sender waits for the end of the deleting transaction.  A forced deletion also
 * deletes messages sent before its commit, and no sender waits.  The sender has
 * locked pgqrs_messages; writers.c explains why that matters.
 */
bool
pgqrs_queue_to_send_to(const char *name, PgqrsQueue *queue)
{
	while (pgqrs_queue_by_name(name, queue))
	{
		if (!TransactionIdIsValid(queue->deleter))
			return true;
		XactLockTableWait(queue->deleter, NULL, NULL, XLTW_None);
		AcceptInvalidationMessages();
	}
	return false;
}

/* For objects that refer to a queue by name: schedules and outboxes. */
bool
pgqrs_queue_pin(const char *name)
{
	PgqrsTable *queues = pgqrs_table_open(TABLE_QUEUES, true);
	TupleTableSlot *slot = pgqrs_table_slot(queues);
	bool pinned = false;

	while (!pinned && pgqrs_queue_find(queues, name, slot))
		pinned = pgqrs_row_lock(queues, slot, LockTupleKeyShare, LockWaitBlock) ==
			ROW_LOCKED;
	pgqrs_table_close(queues);
	return pinned;
}

void
pgqrs_queue_require(const char *name, PgqrsPrivilege privilege, PgqrsQueue *queue)
{
	bool found = privilege == PRIVILEGE_TRIGGER ?
		pgqrs_queue_to_send_to(name, queue) :
		pgqrs_queue_by_name(name, queue);

	if (!found || !check_privilege(queue, privilege))
		pgqrs_error_queue_not_found(name);
}

/* Loads all queues into the cache. */
static void
cache_all_queues(void)
{
	PgqrsTable *queues;
	PgqrsScan scan;
	TupleTableSlot *slot;
	PgqrsQueue queue;

	reset_stale_cache();
	if (cache.complete)
		return;
	queues = pgqrs_table_open(TABLE_QUEUES, false);
	reset_stale_cache();
	slot = pgqrs_table_slot(queues);
	pgqrs_scan_begin_table(&scan, queues);
	while (pgqrs_scan_next(&scan, slot))
	{
		if (!pgqrs_is_null(slot, Queues_deleted_at))
			continue;
		if (read_queue(slot, &queue))
			cache_queue(&queue);
		else
			pgqrs_quarantine_add(QUARANTINE_QUEUE, queue.queue_id,
								 "it has a setting out of range");
	}
	pgqrs_scan_end(&scan);
	pgqrs_table_close(queues);
	cache.complete = true;
}

#define MANY_QUEUES 1000

void
pgqrs_queue_expect(int count)
{
	if (count >= MANY_QUEUES)
		cache_all_queues();
}

static int
compare_ids(const ListCell *a, const ListCell *b)
{
	int64 ida = ((const PgqrsQueue *) lfirst(a))->queue_id;
	int64 idb = ((const PgqrsQueue *) lfirst(b))->queue_id;

	return (ida > idb) - (ida < idb);
}

List *
pgqrs_queue_match(List *patterns, PgqrsPrivilege privilege)
{
	List *result = NIL;
	HASH_SEQ_STATUS status;
	PgqrsQueue *queue;

	cache_all_queues();
	hash_seq_init(&status, cache.by_id);
	while ((queue = hash_seq_search(&status)) != NULL)
	{
		PgqrsQueue *copy;

		if (!pgqrs_any_pattern_matches(patterns, queue->name))
			continue;
		copy = palloc(sizeof(PgqrsQueue));
		*copy = *queue;
		result = lappend(result, copy);
	}

	/* a privilege check may read tables, hence only now */
	for (int i = list_length(result) - 1; i >= 0; i--)
		if (!has_privilege(list_nth(result, i), privilege))
			result = list_delete_nth_cell(result, i);
	list_sort(result, compare_ids);
	return result;
}

/*
 * Cached lists of queues
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

static QueueList queue_lists[MAX_LISTS];

/* Patterns contain no control characters. */
static void
append_key(StringInfo key, List *patterns)
{
	ListCell *lc;

	foreach(lc, patterns)
		appendStringInfo(key, "%s\n", (const char *) lfirst(lc));
	appendStringInfoChar(key, '\t');
}

static bool
is_current_list(const QueueList *list, const char *key)
{
	return list->context != NULL && list->user == GetUserId() &&
		list->queues == pgqrs_catalog_generation(TABLE_QUEUES) &&
		list->grants == pgqrs_catalog_generation(TABLE_GRANTS) &&
		strcmp(list->key, key) == 0;
}

/* A change from here on makes the next call start over. */
static void
fill_list(QueueList *list, const char *key, List *patterns, List *also,
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

		if (also != NIL && !pgqrs_any_pattern_matches(also, queue->name))
			continue;
		list->ids.ids[at] = queue->queue_id;
		list->ids.slots[at] = pgqrs_wakeup_slot(queue->queue_id);
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
		if (is_current_list(&queue_lists[i], key.data))
			list = &queue_lists[i];
	if (list == NULL)
	{
		list = &queue_lists[next++ % MAX_LISTS];
		fill_list(list, key.data, patterns, also, privilege);
	}
	pfree(key.data);
	return &list->ids;
}

bool
pgqrs_queue_has_archived(int64 queue_id)
{
	return pgqrs_table_has_row(TABLE_ARCHIVE, INDEX_ARCHIVE_DEAD, queue_id) ||
		pgqrs_table_has_row(TABLE_ARCHIVE, INDEX_ARCHIVE_ENDED, queue_id);
}

/*
 * Administration
 */

/* In the order of the arguments. */
static const PgqrsOption queue_options[] = {
	{"visibility_timeout", OPTION_DURATION, "30 s", 1,
	 PGQRS_MAX_VISIBILITY_TIMEOUT, TABLE_QUEUES, Queues_visibility_timeout},
	{"max_attempts", OPTION_INTEGER, "5", 1, 0, TABLE_QUEUES, Queues_max_attempts},
	{"max_in_flight", OPTION_INTEGER, NULL, 1, 0, TABLE_QUEUES, Queues_max_in_flight},
	{"retention", OPTION_DURATION, "7 days", 0, PGQRS_MAX_DURATION,
	 TABLE_QUEUES, Queues_retention},
	{"dead_retention", OPTION_DURATION, "30 days", 0, PGQRS_MAX_DURATION,
	 TABLE_QUEUES, Queues_dead_retention},
	PGQRS_FLOW_OPTIONS,
};

#define QUEUE_VISIBILITY_TIMEOUT 0
#define QUEUE_MAX_ATTEMPTS		 1

void
pgqrs_queue_defaults(PgqrsOptions *s)
{
	pgqrs_options_init(s, queue_options, lengthof(queue_options));
}

/*
 * Inserts a queue with its default settings, overridden by the given options
 * that pgqrs_queues has columns for.  False: another queue has the name, or had
 * it a moment ago.
 */
bool
pgqrs_queue_insert(PgqrsTable *queues, const char *name, bool is_workflow,
				   const PgqrsOptions *s, int64 *queue_id)
{
	PgqrsOptions defaults;
	PgqrsRow row;

	*queue_id = pgqrs_next_id(SEQUENCE_QUEUE_ID);
	pgqrs_queue_defaults(&defaults);
	pgqrs_row_init(&row, queues);
	pgqrs_options_store(&defaults, TABLE_QUEUES, false, &row);
	pgqrs_options_store(s, TABLE_QUEUES, false, &row);
	pgqrs_set(&row, Queues_queue_id, Int64GetDatum(*queue_id));
	pgqrs_set(&row, Queues_name, CStringGetTextDatum(name));
	pgqrs_set(&row, Queues_is_workflow, BoolGetDatum(is_workflow));
	pgqrs_set(&row, Queues_created_at, TimestampTzGetDatum(pgqrs_clock()));
	if (!pgqrs_row_insert_unique(queues, &row, INDEX_QUEUES_NAME))
		return false;
	pgqrs_catalog_changed(TABLE_QUEUES);
	pgqrs_xact_wakeup(WAKEUP_QUEUES, 0);
	return true;
}

/* Reads the row of a queue, for any role. */
bool
pgqrs_queue_find(PgqrsTable *queues, const char *name, TupleTableSlot *slot)
{
	Datum key = CStringGetTextDatum(name);

	return pgqrs_row_fetch(queues, INDEX_QUEUES_NAME, 1, &key, slot);
}

/*
 * Locks the row of a queue for a role that administers it.  False if the queue
 * does not exist or the role has no privilege on it at all; 42501 if the role
 * has another privilege.
 */
bool
pgqrs_queue_lock(PgqrsTable *queues, const char *name, LockTupleMode mode,
				 TupleTableSlot *slot)
{
	if (pgqrs_privileges_on(name) == 0)
		return false;
	while (pgqrs_queue_find(queues, name, slot))
	{
		pgqrs_require_privilege(name, PRIVILEGE_ADMIN);
		if (pgqrs_row_lock(queues, slot, mode, LockWaitBlock) == ROW_LOCKED)
			return true;
	}
	return false;
}

/*
 * Writes the given options that pgqrs_queues has columns for into a locked row.
 */
void
pgqrs_queue_store(PgqrsTable *queues, TupleTableSlot *slot, const PgqrsOptions *s)
{
	PgqrsRow row;

	if (!pgqrs_options_given(s, TABLE_QUEUES))
		return;
	pgqrs_row_copy(&row, queues, slot);
	pgqrs_options_store(s, TABLE_QUEUES, true, &row);
	pgqrs_row_update(queues, slot, &row);
	pgqrs_catalog_changed(TABLE_QUEUES);
	pgqrs_xact_request_duty(DUTY_RETENTION, 0);
	pgqrs_xact_wakeup(WAKEUP_QUEUE_SETTINGS, pgqrs_get_int64(slot, Queues_queue_id));
}

static void
refuse_workflow(const char *name, TupleTableSlot *slot)
{
	if (DatumGetBool(pgqrs_get(slot, Queues_is_workflow)))
		ereport(ERROR,
				(errcode(ERRCODE_PGQRS_INVALID_STATE),
				 errmsg("queue \"%s\" cannot be created", name),
				 errdetail("The queue belongs to the workflow of this name."),
				 errhint("Choose another name, or use the workflow's queue through pgqrs_trigger().")));
}

/*
 * Leaves an existing queue unchanged, with a notice if its settings differ from
 * those given.
 */
static void
keep_queue(PgqrsTable *queues, const char *name, const PgqrsOptions *s,
		   TupleTableSlot *slot)
{
	StringInfoData differences;

	initStringInfo(&differences);
	pgqrs_options_compare(s, queues, slot, &differences);
	if (differences.len > 0)
		ereport(NOTICE,
				(errmsg("queue \"%s\" exists and keeps its settings", name),
				 errdetail("%s.", differences.data),
				 errhint("Change them with pgqrs_alter_queue().")));
}

/*
 * Stores the settings in an existing queue, unless it has them: then it is
 * neither written nor locked.  False: it was deleted meanwhile.
 */
static bool
replace_queue(PgqrsTable *queues, const char *name, const PgqrsOptions *s,
			  TupleTableSlot *slot)
{
	if (!pgqrs_options_differ(s, queues, slot))
		return true;
	if (!pgqrs_queue_lock(queues, name, LockTupleNoKeyExclusive, slot))
		return false;
	refuse_workflow(name, slot);
	if (pgqrs_options_differ(s, queues, slot))
		pgqrs_queue_store(queues, slot, s);
	return true;
}

/* False: the queue was deleted meanwhile. */
static bool
adopt_queue(PgqrsTable *queues, const char *name, const PgqrsOptions *s,
			TupleTableSlot *slot)
{
	refuse_workflow(name, slot);
	if (s->replace)
		return replace_queue(queues, name, s, slot);
	keep_queue(queues, name, s, slot);
	return true;
}

int64
pgqrs_queue_create(const char *name, const PgqrsOptions *s)
{
	PgqrsTable *queues;
	TupleTableSlot *slot;
	int64 queue_id;

	pgqrs_require_privilege(name, PRIVILEGE_ADMIN);
	queues = pgqrs_table_open(TABLE_QUEUES, true);
	slot = pgqrs_table_slot(queues);
	while (!pgqrs_queue_insert(queues, name, false, s, &queue_id))
	{
		if (pgqrs_queue_find(queues, name, slot) &&
			adopt_queue(queues, name, s, slot))
		{
			queue_id = pgqrs_get_int64(slot, Queues_queue_id);
			break;
		}
	}
	pgqrs_table_close(queues);
	return queue_id;
}

static void
refuse_workflow_settings(const char *name, const PgqrsOptions *s)
{
	if (s->given[QUEUE_VISIBILITY_TIMEOUT] || s->given[QUEUE_MAX_ATTEMPTS])
		ereport(ERROR,
				(errcode(ERRCODE_PGQRS_INVALID_STATE),
				 errmsg("visibility_timeout and max_attempts of queue \"%s\" cannot be altered",
						name),
				 errdetail("The queue belongs to the workflow of this name."),
				 errhint("Alter visibility_timeout and max_crashes of the workflow with pgqrs_alter_workflow().")));
}

/* Refuses settings of a workflow's queue that the workflow has itself. */
void
pgqrs_queue_alter(const char *name, const PgqrsOptions *s)
{
	PgqrsTable *queues = pgqrs_table_open(TABLE_QUEUES, true);
	TupleTableSlot *slot = pgqrs_table_slot(queues);

	if (!pgqrs_queue_lock(queues, name, LockTupleNoKeyExclusive, slot))
		pgqrs_error_queue_not_found(name);
	if (DatumGetBool(pgqrs_get(slot, Queues_is_workflow)))
		refuse_workflow_settings(name, s);
	pgqrs_queue_store(queues, slot, s);
	pgqrs_table_close(queues);
}

/* A paused queue keeps the time since when it is paused. */
void
pgqrs_queue_pause(const char *name, bool pause)
{
	PgqrsTable *queues = pgqrs_table_open(TABLE_QUEUES, true);
	TupleTableSlot *slot = pgqrs_table_slot(queues);

	if (!pgqrs_queue_lock(queues, name, LockTupleNoKeyExclusive, slot))
		pgqrs_error_queue_not_found(name);
	if (pgqrs_is_null(slot, Queues_paused_at) == pause)
	{
		PgqrsRow row;

		pgqrs_row_copy(&row, queues, slot);
		if (pause)
			pgqrs_set(&row, Queues_paused_at, TimestampTzGetDatum(pgqrs_clock()));
		else
			pgqrs_set_null(&row, Queues_paused_at);
		pgqrs_row_update(queues, slot, &row);
		pgqrs_catalog_changed(TABLE_QUEUES);
		pgqrs_xact_wakeup(WAKEUP_QUEUE_SETTINGS,
						  pgqrs_get_int64(slot, Queues_queue_id));
	}
	pgqrs_table_close(queues);
}
