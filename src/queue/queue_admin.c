/*
 * queue_admin.c
 *	  Creating, altering and pausing queues.
 *
 * Runs in any backend.  Locks: the queue's row, to the end of the transaction,
 * so that changes of one queue follow one another.  Whoever uses a queue locks
 * nothing of it and may go on with the old settings until the change commits.
 * Two may create the same queue at once: one of them waits for the other and
 * finds the queue, at every isolation level.
 */
#include "queue/queue_admin.h"

#include "base/clock.h"
#include "base/errors.h"
#include "queue/privileges.h"
#include "shmem/xact_hooks.h"
#include "shmem/xact_wakeups.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

static const PgqrsSetting queue_settings[QUEUE_SETTING_COUNT] = {
	[QUEUE_VISIBILITY_TIMEOUT] = {"visibility_timeout", TABLE_QUEUES,
								  Queues_visibility_timeout},
	[QUEUE_MAX_ATTEMPTS] = {"max_attempts", TABLE_QUEUES, Queues_max_attempts},
	[QUEUE_MAX_IN_FLIGHT] = {"max_in_flight", TABLE_QUEUES, Queues_max_in_flight},
	[QUEUE_RETENTION] = {"retention", TABLE_QUEUES, Queues_retention},
	[QUEUE_DEAD_RETENTION] = {"dead_retention", TABLE_QUEUES, Queues_dead_retention},
	[QUEUE_FLOW] = PGQRS_FLOW_SETTINGS,
};

/* Nothing given; the defaults are those of pgqrs_create_queue() in SQL. */
void
pgqrs_queue_defaults(PgqrsSettings *s)
{
	pgqrs_settings_init(s, queue_settings, QUEUE_SETTING_COUNT);
	pgqrs_settings_default(s, QUEUE_VISIBILITY_TIMEOUT,
						   IntervalPGetDatum(pgqrs_interval(30 * USECS_PER_SEC)));
	pgqrs_settings_default(s, QUEUE_MAX_ATTEMPTS, Int32GetDatum(5));
	pgqrs_settings_default(s, QUEUE_RETENTION,
						   IntervalPGetDatum(pgqrs_interval(7 * USECS_PER_DAY)));
	pgqrs_settings_default(s, QUEUE_DEAD_RETENTION,
						   IntervalPGetDatum(pgqrs_interval(30 * USECS_PER_DAY)));
}

/*
 * Inserts a queue with its own default settings and, over them, those given
 * that pgqrs_queues holds.  False: another queue has the name, or had it a
 * moment ago.
 */
bool
pgqrs_queue_insert(PgqrsTable *queues, const char *name, bool is_workflow,
				   const PgqrsSettings *s, int64 *queue_id)
{
	PgqrsSettings defaults;
	PgqrsRow row;

	*queue_id = pgqrs_next_id(SEQUENCE_QUEUE_ID);
	pgqrs_queue_defaults(&defaults);
	pgqrs_row_init(&row, queues);
	pgqrs_settings_store(&defaults, TABLE_QUEUES, false, &row);
	pgqrs_settings_store(s, TABLE_QUEUES, false, &row);
	pgqrs_set(&row, Queues_queue_id, Int64GetDatum(*queue_id));
	pgqrs_set(&row, Queues_name, CStringGetTextDatum(name));
	pgqrs_set(&row, Queues_is_workflow, BoolGetDatum(is_workflow));
	pgqrs_set(&row, Queues_created_at, TimestampTzGetDatum(pgqrs_clock()));
	if (!pgqrs_row_insert_unique(queues, &row, INDEX_QUEUES_NAME))
		return false;
	pgqrs_catalog_changed(TABLE_QUEUES);
	pgqrs_wake_mark_queues();
	return true;
}

/* The row of a queue, whoever asks. */
bool
pgqrs_queue_find(PgqrsTable *queues, const char *name, TupleTableSlot *slot)
{
	Datum key = CStringGetTextDatum(name);

	return pgqrs_row_fetch(queues, INDEX_QUEUES_NAME, 1, &key, slot);
}

/*
 * Locks the row of a queue for a role that administers it.  False if there is
 * none or the role has no privilege on it at all; 42501 if it has another.
 */
bool
pgqrs_queue_lock(PgqrsTable *queues, const char *name, LockTupleMode mode,
				 TupleTableSlot *slot)
{
	if (pgqrs_grants_on(name) == 0)
		return false;
	while (pgqrs_queue_find(queues, name, slot))
	{
		pgqrs_grants_require(name, PRIVILEGE_ADMIN);
		if (pgqrs_row_lock(queues, slot, mode, LockWaitBlock) == ROW_LOCKED)
			return true;
	}
	return false;
}

/* Writes the given settings that pgqrs_queues holds into a locked row. */
void
pgqrs_queue_store(PgqrsTable *queues, TupleTableSlot *slot, const PgqrsSettings *s)
{
	PgqrsRow row;

	if (!pgqrs_settings_given(s, TABLE_QUEUES))
		return;
	pgqrs_row_copy(&row, queues, slot);
	pgqrs_settings_store(s, TABLE_QUEUES, true, &row);
	pgqrs_row_update(queues, slot, &row);
	pgqrs_catalog_changed(TABLE_QUEUES);
	pgqrs_commit_due(DUE_RETENTION, 0);
	pgqrs_wake_mark_queue(DatumGetInt64(pgqrs_get(slot, Queues_queue_id)));
}

static void
refuse_workflow(const char *name, TupleTableSlot *slot)
{
	if (DatumGetBool(pgqrs_get(slot, Queues_is_workflow)))
		ereport(ERROR,
				(errcode(ERRCODE_PGQRS_INVALID_STATE),
				 errmsg("queue \"%s\" cannot be created", name),
				 errdetail("It is the queue of the workflow of this name."),
				 errhint("Choose another name, or use the workflow's queue through pgqrs_trigger().")));
}

/* An existing queue stays as it is: says so if something else was asked for. */
static void
keep_queue(PgqrsTable *queues, const char *name, const PgqrsSettings *s,
		   TupleTableSlot *slot)
{
	StringInfoData differences;

	initStringInfo(&differences);
	pgqrs_settings_compare(s, queues, slot, &differences);
	if (differences.len > 0)
		ereport(NOTICE,
				(errmsg("queue \"%s\" exists and keeps its settings", name),
				 errdetail("%s.", differences.data),
				 errhint("Change them with pgqrs_alter_queue().")));
}

/*
 * An existing queue gets the settings; one that has them is neither written nor
 * locked.  False: it was deleted meanwhile.
 */
static bool
replace_queue(PgqrsTable *queues, const char *name, const PgqrsSettings *s,
			  TupleTableSlot *slot)
{
	if (!pgqrs_settings_differ(s, queues, slot))
		return true;
	if (!pgqrs_queue_lock(queues, name, LockTupleNoKeyExclusive, slot))
		return false;
	refuse_workflow(name, slot);
	if (pgqrs_settings_differ(s, queues, slot))
		pgqrs_queue_store(queues, slot, s);
	return true;
}

/* False: the queue was deleted meanwhile. */
static bool
meet_queue(PgqrsTable *queues, const char *name, const PgqrsSettings *s,
		   TupleTableSlot *slot)
{
	refuse_workflow(name, slot);
	if (s->replace)
		return replace_queue(queues, name, s, slot);
	keep_queue(queues, name, s, slot);
	return true;
}

int64
pgqrs_queue_create(const char *name, const PgqrsSettings *s)
{
	PgqrsTable *queues;
	TupleTableSlot *slot;
	int64 queue_id;

	pgqrs_grants_require(name, PRIVILEGE_ADMIN);
	queues = pgqrs_table_open(TABLE_QUEUES, true);
	slot = pgqrs_table_slot(queues);
	while (!pgqrs_queue_insert(queues, name, false, s, &queue_id))
	{
		if (pgqrs_queue_find(queues, name, slot) && meet_queue(queues, name, s, slot))
		{
			queue_id = DatumGetInt64(pgqrs_get(slot, Queues_queue_id));
			break;
		}
	}
	pgqrs_table_close(queues);
	return queue_id;
}

static void
refuse_workflow_settings(const char *name, const PgqrsSettings *s)
{
	if (s->given[QUEUE_VISIBILITY_TIMEOUT] || s->given[QUEUE_MAX_ATTEMPTS])
		ereport(ERROR,
				(errcode(ERRCODE_PGQRS_INVALID_STATE),
				 errmsg("visibility_timeout and max_attempts of queue \"%s\" cannot be altered",
						name),
				 errdetail("It is the queue of the workflow of this name."),
				 errhint("Alter visibility_timeout and max_crashes of the workflow with pgqrs_alter_workflow().")));
}

/* Of a workflow's queue, what the workflow has no setting for. */
void
pgqrs_queue_alter(const char *name, const PgqrsSettings *s)
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

/* A queue that is paused already keeps the time since when it is. */
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
		pgqrs_wake_mark_queue(DatumGetInt64(pgqrs_get(slot, Queues_queue_id)));
	}
	pgqrs_table_close(queues);
}
