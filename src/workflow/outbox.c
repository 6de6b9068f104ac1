/*
 * outbox.c
 *	  Outbox: the queue that receives an event for each ended run of a workflow.
 *
 * Runs in the transaction that ends the run, so that the event is sent if and
 * only if the run ends.  The event is an ordinary message of an ordinary queue.
 * It has no idempotency key, so inserting it neither waits nor locks a row.
 * Privileges on the outbox are checked when the workflow's setting is changed:
 * the worker that completes a run needs none.
 *
 * The message's payload is a CloudEvent, version 1.0, in its JSON format:
 * https://github.com/cloudevents/spec
 */
#include "workflow/outbox.h"

#include "base/clock.h"
#include "base/errors.h"
#include "base/guc.h"
#include "base/json.h"
#include "commands/dbcommands.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "queue/message.h"
#include "shmem/claim_floor.h"
#include "store/tuple.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "workflow/workflow.h"

static PgqrsRunStatus
status_of_row(const PgqrsRow *run)
{
	return pgqrs_enum_value(ENUM_RUN_STATUS, run->values[Runs_status - 1]);
}

static const char *
event_type(PgqrsRunStatus status)
{
	switch (status)
	{
		case RUN_SUCCESS:
			return "pgqrs.run.succeeded";
		case RUN_ERROR:
			return "pgqrs.run.failed";
		default:
			return "pgqrs.run.cancelled";
	}
}

/* Appends a segment of a path, percent-encoded as in RFC 3986. */
static void
append_segment(StringInfo path, const char *name)
{
	static const char unreserved[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
									 "abcdefghijklmnopqrstuvwxyz0123456789-._~";

	appendStringInfoChar(path, '/');
	for (const unsigned char *c = (const unsigned char *) name; *c != '\0'; c++)
		if (strchr(unreserved, *c) != NULL)
			appendStringInfoChar(path, *c);
		else
			appendStringInfo(path, "%%%02X", *c);
}

/* The event's attribute "source": /pgqrs/DATABASE/WORKFLOW */
static const char *
event_source(const PgqrsQueue *workflow)
{
	StringInfoData path;

	initStringInfo(&path);
	appendStringInfoString(&path, "/pgqrs");
	append_segment(&path, get_database_name(MyDatabaseId));
	append_segment(&path, workflow->name);
	return path.data;
}

static void
put_text_column(PgqrsJson *json, const char *key, const PgqrsRow *run,
				AttrNumber column)
{
	if (!run->nulls[column - 1])
		pgqrs_json_put_text(json, key,
							TextDatumGetCString(run->values[column - 1]));
}

static void
put_json_column(PgqrsJson *json, const char *key, const PgqrsRow *run,
				AttrNumber column)
{
	if (!run->nulls[column - 1])
		pgqrs_json_put_json(json, key, run->values[column - 1]);
}

static void
put_instant_column(PgqrsJson *json, const char *key, const PgqrsRow *run,
				   AttrNumber column)
{
	if (!run->nulls[column - 1])
		pgqrs_json_put_instant(json, key,
							   DatumGetTimestampTz(run->values[column - 1]));
}

/* Writes the event's attribute "data"; whole: including the values that may be large. */
static void
put_event_data(PgqrsJson *json, const PgqrsQueue *workflow, const PgqrsRow *run,
			   bool whole)
{
	pgqrs_json_begin_inner(json, "data");
	pgqrs_json_put_int64(json, "run_id",
						 DatumGetInt64(run->values[Runs_run_id - 1]));
	pgqrs_json_put_text(json, "workflow", workflow->name);
	pgqrs_json_put_text(json, "status",
						pgqrs_enum_label(ENUM_RUN_STATUS, status_of_row(run)));
	if (!run->nulls[Runs_parent_run_id - 1])
		pgqrs_json_put_int64(json, "parent_run_id",
							 DatumGetInt64(run->values[Runs_parent_run_id - 1]));
	put_text_column(json, "idempotency_key", run, Runs_idempotency_key);
	put_instant_column(json, "created_at", run, Runs_created_at);
	put_instant_column(json, "started_at", run, Runs_started_at);
	put_instant_column(json, "completed_at", run, Runs_completed_at);
	if (whole)
	{
		put_text_column(json, "cancel_reason", run, Runs_cancel_reason);
		put_json_column(json, "tags", run, Runs_tags);
		put_json_column(json, "output", run, Runs_output);
		put_json_column(json, "error", run, Runs_error);
	}
	else
		pgqrs_json_put_bool(json, "truncated", true);
	pgqrs_json_end_inner(json);
}

static Datum
make_event(const PgqrsQueue *workflow, const PgqrsRow *run, int64 id, bool whole)
{
	PgqrsJson json;

	pgqrs_json_begin(&json);
	pgqrs_json_put_text(&json, "specversion", "1.0");
	pgqrs_json_put_text(&json, "id", psprintf(INT64_FORMAT, id));
	pgqrs_json_put_text(&json, "source", event_source(workflow));
	pgqrs_json_put_text(&json, "type", event_type(status_of_row(run)));
	pgqrs_json_put_text(&json, "subject",
						psprintf(INT64_FORMAT,
								 DatumGetInt64(run->values[Runs_run_id - 1])));
	put_instant_column(&json, "time", run, Runs_completed_at);
	pgqrs_json_put_text(&json, "datacontenttype", "application/json");
	put_event_data(&json, workflow, run, whole);
	return pgqrs_json_end(&json);
}

/* An upper bound for the values that may be large. */
static Size
values_size(const PgqrsRow *run)
{
	static const AttrNumber columns[] = {Runs_cancel_reason, Runs_tags,
										 Runs_output, Runs_error};
	Size size = 0;

	for (int i = 0; i < lengthof(columns); i++)
		if (!run->nulls[columns[i] - 1])
			size += pgqrs_json_size(run->values[columns[i] - 1]);
	return size;
}

void
pgqrs_outbox_send(PgqrsTable *messages, const PgqrsQueue *workflow,
				  const PgqrsRow *run)
{
	const char *name = pgqrs_workflow_outbox(workflow->queue_id);
	PgqrsNewMessage m = {.headers = PGQRS_NULL};
	MemoryContext caller;
	MemoryContext context;
	PgqrsQueue outbox;
	PgqrsRow row;
	int64 id;

	if (name == NULL)
		return;
	if (!pgqrs_queue_to_send_to(name, &outbox) || outbox.is_workflow)
	{
		/* a missing outbox must not keep the run from ending */
		ereport(WARNING,
				(errcode(ERRCODE_PGQRS_QUEUE_NOT_FOUND),
				 errmsg("outbox \"%s\" of workflow \"%s\" does not exist", name,
						workflow->name),
				 errdetail("No event was sent for run " INT64_FORMAT ".",
						   DatumGetInt64(run->values[Runs_run_id - 1])),
				 errhint("Create the queue again, or change outbox_queue with pgqrs_alter_workflow().")));
		return;
	}
	id = pgqrs_next_id(SEQUENCE_MESSAGE_ID);
	/* one call may end any number of runs: free the memory of each event */
	context = AllocSetContextCreate(CurrentMemoryContext, "pgqrs event",
									ALLOCSET_DEFAULT_SIZES);
	caller = MemoryContextSwitchTo(context);
	m.payload = make_event(workflow, run, id,
						   values_size(run) <= (Size) pgqrs_payload_max);
	MemoryContextSwitchTo(caller);
	pgqrs_message_init_row(&row, messages, outbox.queue_id, id, &m,
						   pgqrs_when_clock(outbox.queue_id, &m.when));
	pgqrs_row_insert(messages, &row);
	MemoryContextDelete(context);
}

/* The pinned row makes a concurrent deletion of the queue wait. */
void
pgqrs_outbox_check(const char *name)
{
	PgqrsQueue queue;

	pgqrs_queue_require(name, PRIVILEGE_TRIGGER, &queue);
	if (queue.is_workflow)
		ereport(ERROR,
				(errcode(ERRCODE_PGQRS_INVALID_STATE),
				 errmsg("\"%s\" cannot be an outbox", name),
				 errdetail("The queue belongs to a workflow."),
				 errhint("Create a queue for the events with pgqrs_create_queue().")));
	if (!pgqrs_queue_pin(name))
		pgqrs_error_queue_not_found(name);
}
