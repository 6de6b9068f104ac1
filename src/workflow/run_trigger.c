/*
 * run_trigger.c
 *	  Triggers: store new runs with their messages, and find runs by their keys.
 *
 * Runs in any backend.  A run and its message have the same id, and the
 * transaction that triggers stores both rows.  The row that holds the idempotency
 * key is stored first: its unique index makes a second trigger with that key wait.
 */
#include "workflow/run_trigger.h"

#include "base/clock.h"
#include "base/errors.h"
#include "base/name.h"
#include "base/status.h"
#include "queue/audit.h"
#include "queue/worker_registry.h"
#include "store/scan.h"
#include "store/tuple.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"
#include "workflow/run.h"

/*
 * A session warns at most once in this time that no worker serves a workflow.
 */
#define WARN_INTERVAL (60 * USECS_PER_SEC)

/* Whether this session has to check again that a worker serves the workflow. */
static bool
warning_due(int64 workflow_id)
{
	static HTAB *checked = NULL;
	struct
	{
		int64 workflow_id;
		TimestampTz at;
	} * entry;
	TimestampTz now = pgqrs_clock();
	bool found;

	if (checked == NULL)
	{
		HASHCTL ctl = {.keysize = sizeof(int64), .entrysize = sizeof(*entry)};

		checked = hash_create("pgqrs workflows checked for workers", 16, &ctl,
							  HASH_ELEM | HASH_BLOBS);
	}
	entry = hash_search(checked, &workflow_id, HASH_ENTER, &found);
	if (found && now >= entry->at && now - entry->at < WARN_INTERVAL)
		return false;
	entry->at = now;
	return true;
}

/*
 * Warns, or refuses, if no live worker serves the workflow.  For the warning a
 * session reads the registry at most once in WARN_INTERVAL per workflow.
 */
static void
check_served(const PgqrsWorkflow *workflow, bool require)
{
	if (!require && !warning_due(workflow->workflow_id))
		return;
	if (pgqrs_worker_count_serving(workflow->name, 1) > 0)
		return;
	if (require)
		ereport(ERROR,
				(errcode(ERRCODE_PGQRS_NO_WORKER),
				 errmsg("no live worker serves workflow \"%s\"", workflow->name),
				 errhint("Start a worker that registers for the workflow, or trigger without require_worker.")));
	/* for the client only: where no worker registers, it would fill the log */
	ereport(WARNING_CLIENT_ONLY,
			(errcode(ERRCODE_PGQRS_NO_WORKER),
			 errmsg("no live worker serves workflow \"%s\"", workflow->name),
			 errhint("Start a worker that registers for the workflow, or claim the run with pgqrs_dequeue().")));
}

static void
fill_parent_columns(PgqrsRow *row, const PgqrsNewRun *r)
{
	pgqrs_set(row, Runs_parent_run_id, Int64GetDatum(r->parent_run_id));
	pgqrs_set(row, Runs_parent_step_id, CStringGetTextDatum(r->parent_step_id));
	pgqrs_set(row, Runs_on_parent_end,
			  pgqrs_enum_datum(ENUM_PARENT_END, r->on_parent_end));
}

static void
fill_run(PgqrsRow *row, PgqrsTable *runs, const PgqrsWorkflow *workflow,
		 const PgqrsNewRun *r, const PgqrsRow *message)
{
	pgqrs_row_init(row, runs);
	pgqrs_set(row, Runs_run_id, message->values[Messages_message_id - 1]);
	pgqrs_set(row, Runs_workflow_id, Int64GetDatum(workflow->workflow_id));
	pgqrs_set(row, Runs_created_at, message->values[Messages_enqueued_at - 1]);
	pgqrs_set(row, Runs_attempt, Int32GetDatum(0));
	pgqrs_set(row, Runs_failures, Int32GetDatum(0));
	pgqrs_set(row, Runs_status, pgqrs_enum_datum(ENUM_RUN_STATUS, RUN_QUEUED));
	pgqrs_set(row, Runs_priority, Int16GetDatum(r->priority));
	if (r->timeout > 0)
		pgqrs_set(row, Runs_timeout, IntervalPGetDatum(pgqrs_interval(r->timeout)));
	if (!message->nulls[Messages_deadline_at - 1])
		pgqrs_set(row, Runs_deadline_at, message->values[Messages_deadline_at - 1]);
	if (r->parent_run_id != 0)
		fill_parent_columns(row, r);
	if (r->rerun_of != 0)
		pgqrs_set(row, Runs_rerun_of, Int64GetDatum(r->rerun_of));
	if (r->schedule_slot != 0)
		pgqrs_set(row, Runs_schedule_slot, TimestampTzGetDatum(r->schedule_slot));
	if (r->idempotency_key != NULL)
	{
		pgqrs_set(row, Runs_idempotency_key,
				  CStringGetTextDatum(r->idempotency_key));
		pgqrs_set(row, Runs_key_scope,
				  pgqrs_enum_datum(ENUM_KEY_SCOPE, workflow->key_scope));
	}
	pgqrs_set_or_null(row, Runs_retry_policy, r->retry_policy);
	pgqrs_set_or_null(row, Runs_tags, r->tags);
	pgqrs_set_or_null(row, Runs_headers, r->headers);
	pgqrs_set_or_null(row, Runs_input, r->input);
}

/* Fills the rows of a new run and of its message. */
static void
fill_run_and_message(PgqrsRunRows *rows, const PgqrsWorkflow *workflow,
					 const PgqrsNewRun *r, int64 id, PgqrsRow *message,
					 PgqrsRow *run)
{
	PgqrsNewMessage m = {
		.when = r->when,
		.priority = r->priority,
		.is_run = true,
		.headers = r->headers,
		.timeout = r->timeout,
		.latest_deadline = r->latest_deadline,
	};

	if (workflow->key_scope == KEY_ACTIVE)
		m.idempotency_key = r->idempotency_key;
	pgqrs_message_init_row(message, rows->messages, workflow->workflow_id, id,
						   &m, pgqrs_when_clock(workflow->workflow_id, &m.when));
	fill_run(run, rows->runs, workflow, r, message);
}

/*
 * Finds the run that has the key.  A run keeps the key_scope that it was
 * triggered with, so after a change of the workflow's key_scope the key may be
 * in either index: that of retained runs, or that of live messages.
 */
bool
pgqrs_run_by_key(PgqrsTable *messages, TupleTableSlot *message, PgqrsTable *runs,
				 TupleTableSlot *run, int64 workflow_id, const char *key, int64 *id)
{
	Datum keys[2] = {Int64GetDatum(workflow_id), CStringGetTextDatum(key)};

	if (pgqrs_row_fetch(runs, INDEX_RUNS_KEY, 2, keys, run))
		*id = pgqrs_get_int64(run, Runs_run_id);
	else if (pgqrs_message_by_key(messages, workflow_id, key, message))
		*id = pgqrs_get_int64(message, Messages_message_id);
	else
		return false;
	return true;
}

static void
audit_created(const PgqrsNewRun *r, int64 id)
{
	pgqrs_event(EVENT_CREATED, id, .parent_run_id = r->parent_run_id,
				.rerun_of = r->rerun_of);
	if (r->parent_run_id != 0)
		pgqrs_event(EVENT_CHILD_STARTED, r->parent_run_id,
					.step_id = r->parent_step_id, .child_run_id = id);
	if (r->rerun_of != 0)
		pgqrs_event(EVENT_RERUN, r->rerun_of, .new_run_id = id);
}

/* Stores a run without a key. */
static void
insert_run(PgqrsRunRows *rows, const PgqrsWorkflow *workflow, PgqrsNewRun *r,
		   int64 id)
{
	PgqrsRow message;
	PgqrsRow run;

	fill_run_and_message(rows, workflow, r, id, &message, &run);
	pgqrs_row_insert(rows->runs, &run);
	pgqrs_row_insert(rows->messages, &message);
	r->is_inserted = true;
	audit_created(r, id);
}

/*
 * Stores a run unless its key is taken; the row that holds the key goes first.
 */
static bool
insert_run_with_key(PgqrsRunRows *rows, const PgqrsWorkflow *workflow,
					const PgqrsRow *message, const PgqrsRow *run)
{
	if (workflow->key_scope == KEY_ACTIVE)
	{
		if (!pgqrs_row_insert_unique(rows->messages, message, INDEX_MESSAGES_KEY))
			return false;
		pgqrs_row_insert(rows->runs, run);
	}
	else
	{
		if (!pgqrs_row_insert_unique(rows->runs, run, INDEX_RUNS_KEY))
			return false;
		pgqrs_row_insert(rows->messages, message);
	}
	return true;
}

/*
 * Finds the run that has the key, for a trigger.  If key_scope was just
 * changed, an open transaction may have stored the key under the former scope:
 * waits for its end.
 */
static bool
find_or_await_key(PgqrsRunRows *rows, const PgqrsWorkflow *workflow,
				  const char *key, int64 *id)
{
	bool active = workflow->key_scope == KEY_ACTIVE;
	Datum keys[2] = {Int64GetDatum(workflow->workflow_id), CStringGetTextDatum(key)};

	if (active ? pgqrs_message_by_key(rows->messages, workflow->workflow_id,
									  key, rows->message) :
				 pgqrs_row_fetch(rows->runs, INDEX_RUNS_KEY, 2, keys, rows->run))
	{
		*id = active ? pgqrs_get_int64(rows->message, Messages_message_id) :
					   pgqrs_get_int64(rows->run, Runs_run_id);
		return true;
	}
	return pgqrs_row_await_writer(active ? rows->runs : rows->messages,
								  active ? INDEX_RUNS_KEY : INDEX_MESSAGES_KEY,
								  2, keys) &&
		pgqrs_run_by_key(rows->messages, rows->message, rows->runs, rows->run,
						 workflow->workflow_id, key, id);
}

/*
 * Takes the key from a failed run, for the run that replaces it.  The failed
 * run then looks as if it had kept the key only until its end, so that its
 * replay finds the key taken.  Locks the dead letter first, like a replay.
 * False: the run keeps the key.
 */
static bool
release_key(PgqrsRunRows *rows, const PgqrsNewRun *r, int64 id)
{
	PgqrsTable *archive;
	TupleTableSlot *archived;
	bool released = false;

	if (r->failed_by == 0)
		return false;
	archive = pgqrs_table_open(TABLE_ARCHIVE, true);
	archived = pgqrs_table_slot(archive);
	if (pgqrs_row_fetch_locked(archive, id, LockTupleExclusive, archived) &&
		pgqrs_row_fetch_locked(rows->runs, id, LockTupleNoKeyExclusive, rows->run) &&
		(pgqrs_run_status(rows->run) == RUN_ERROR ||
		 pgqrs_run_status(rows->run) == RUN_CANCELLED) &&
		pgqrs_get_time(rows->run, Runs_completed_at) <= r->failed_by)
	{
		pgqrs_row_set(rows->runs, rows->run, Runs_key_scope,
					  pgqrs_value(pgqrs_enum_datum(ENUM_KEY_SCOPE, KEY_ACTIVE)));
		pgqrs_row_set(archive, archived, Archive_idempotency_key,
					  pgqrs_value(CStringGetTextDatum(r->idempotency_key)));
		released = true;
	}
	pgqrs_table_close(archive);
	return released;
}

/*
 * Triggers a run with a key, under the given id (0: a new one); returns the id
 * of the run that has the key, or 0 as on_duplicate asks.
 */
static int64
trigger_with_key(PgqrsRunRows *rows, const PgqrsWorkflow *workflow,
				 PgqrsNewRun *r, int64 id)
{
	PgqrsRow message;
	PgqrsRow run;
	int64 other;

	for (;;)
	{
		if (find_or_await_key(rows, workflow, r->idempotency_key, &other))
		{
			if (release_key(rows, r, other))
				continue;
			if (r->on_duplicate == DUPLICATE_RAISE)
				ereport(ERROR,
						(errcode(ERRCODE_UNIQUE_VIOLATION),
						 errmsg("workflow \"%s\" has a run with idempotency key \"%s\"",
								workflow->name, r->idempotency_key),
						 errdetail("Run " INT64_FORMAT " has the key.", other),
						 errhint("Use the existing run, or another key.")));
			return r->on_duplicate == DUPLICATE_NULL ? 0 : other;
		}
		if (id == 0)
			id = pgqrs_next_id(SEQUENCE_MESSAGE_ID);
		fill_run_and_message(rows, workflow, r, id, &message, &run);
		if (insert_run_with_key(rows, workflow, &message, &run))
		{
			r->is_inserted = true;
			audit_created(r, id);
			return id;
		}
	}
}

/* 22023 for an instant so far away that its deadline cannot be stored. */
static void
check_deadline(const PgqrsNewRun *r)
{
	if (pgqrs_when_visible(&r->when, pgqrs_clock()) >= END_TIMESTAMP - r->timeout)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the deadline of the run is out of range"),
				 errhint("Use an earlier \"run_at\" or a shorter \"timeout\".")));
}

void
pgqrs_run_check(const char *name, const PgqrsNewRun *r, PgqrsWorkflow *workflow)
{
	pgqrs_workflow_require(name, PRIVILEGE_TRIGGER, workflow);
	if (!r->retry_policy.isnull)
	{
		PgqrsRetryPolicy policy = workflow->retry;

		pgqrs_retry_policy_merge(&policy, r->retry_policy.value);
	}
}

/* Looks up the workflow and sets the defaults of the trigger's arguments. */
static void
prepare_trigger(const char *name, PgqrsNewRun *r, PgqrsWorkflow *workflow)
{
	pgqrs_run_check(name, r, workflow);
	if (r->timeout < 0)
		r->timeout = workflow->timeout;
	if (r->timeout > 0)
		check_deadline(r);
	if (!r->no_warning)
		check_served(workflow, r->require_worker);
}

int64
pgqrs_run_trigger(const char *name, PgqrsNewRun *r)
{
	PgqrsRunRows rows;
	PgqrsWorkflow workflow;
	int64 id;

	pgqrs_run_open(&rows);
	prepare_trigger(name, r, &workflow);
	if (r->idempotency_key != NULL)
		id = trigger_with_key(&rows, &workflow, r, 0);
	else
	{
		id = pgqrs_next_id(SEQUENCE_MESSAGE_ID);
		insert_run(&rows, &workflow, r, id);
	}
	pgqrs_run_close(&rows);
	return id;
}

/* Sets the arguments that differ between the items of a batch. */
static void
set_batch_item(PgqrsNewRun *r, const NullableDatum *inputs, char **keys, int item)
{
	r->input = inputs[item];
	r->idempotency_key = keys != NULL ? keys[item] : NULL;
	if (r->parent_step_ids != NULL)
		r->parent_step_id = r->parent_step_ids[item];
}

/*
 * Triggers the items in the order of their keys, so that two batches never wait
 * for each other.
 */
static void
trigger_batch_with_keys(PgqrsRunRows *rows, const PgqrsWorkflow *workflow,
						PgqrsNewRun *r, int count, const NullableDatum *inputs,
						char **keys, int64 *ids)
{
	int *order = pgqrs_key_order(keys, count);

	for (int i = 0; i < count; i++)
	{
		int item = order[i];

		set_batch_item(r, inputs, keys, item);
		if (r->idempotency_key != NULL)
			ids[item] = trigger_with_key(rows, workflow, r, ids[item]);
		else
			insert_run(rows, workflow, r, ids[item]);
	}
	pfree(order);
}

static void
trigger_batch_plain(PgqrsRunRows *rows, const PgqrsWorkflow *workflow,
					PgqrsNewRun *r, int count, const NullableDatum *inputs,
					const int64 *ids)
{
	PgqrsRow *messages = palloc(count * sizeof(PgqrsRow));
	PgqrsRow *runs = palloc(count * sizeof(PgqrsRow));

	for (int i = 0; i < count; i++)
	{
		set_batch_item(r, inputs, NULL, i);
		fill_run_and_message(rows, workflow, r, ids[i], &messages[i], &runs[i]);
	}
	pgqrs_row_insert_many(rows->runs, runs, count);
	pgqrs_row_insert_many(rows->messages, messages, count);
	for (int i = 0; i < count; i++)
	{
		set_batch_item(r, inputs, NULL, i);
		audit_created(r, ids[i]);
	}
	pfree(runs);
	pfree(messages);
}

/* keys: NULL, or one key or NULL per item; the keys are distinct. */
void
pgqrs_run_trigger_batch(const char *name, PgqrsNewRun *r, int count,
						const NullableDatum *inputs, char **keys, int64 *ids)
{
	PgqrsRunRows rows;
	PgqrsWorkflow workflow;

	pgqrs_run_open(&rows);
	r->no_warning |= count == 0;
	prepare_trigger(name, r, &workflow);
	for (int i = 0; i < count; i++)
		ids[i] = pgqrs_next_id(SEQUENCE_MESSAGE_ID);
	if (keys != NULL)
		trigger_batch_with_keys(&rows, &workflow, r, count, inputs, keys, ids);
	else
		trigger_batch_plain(&rows, &workflow, r, count, inputs, ids);
	pgqrs_run_close(&rows);
}
