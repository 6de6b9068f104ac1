/*
 * consume.c
 *	  Consumption: a handler function processes messages in the caller's transaction.
 *
 * Runs in any backend.  The claim, the effects of the handler and the end of the
 * message are one transaction: either all of them commit, or the message stays
 * as it was.  Each message is processed in a subtransaction; if the handler
 * raises an error, the subtransaction is rolled back and the failure is counted
 * as by a nack.  Serialization failures, deadlocks, cancellations and shutdowns
 * concern the whole transaction and are raised to the caller.
 */
#include "delivery/consume.h"

#include "base/errors.h"
#include "base/json.h"
#include "base/subxact.h"
#include "catalog/namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "delivery/claim.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "parser/parse_func.h"
#include "queue/message.h"
#include "shmem/xact_hooks.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/varlena.h"

typedef struct ClaimedMessage
{
	int64 message_id;
	int64 lease;
	Datum payload;
} ClaimedMessage;

typedef struct ClaimedBatch
{
	int count;
	ClaimedMessage *items;
} ClaimedBatch;

/*
 * The handler
 */

static void
refuse_handler(const char *handler, const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid value for argument \"handler\": \"%s\"", handler),
			 errdetail("%s", why),
			 errhint("Name a function that takes one jsonb, such as \"schema.function\".")));
}

/* The parts of a name with an optional schema. */
static List *
split_name(const char *handler)
{
	List *parts;
	List *names = NIL;
	ListCell *lc;

	if (!SplitIdentifierString(pstrdup(handler), '.', &parts) || parts == NIL ||
		list_length(parts) > 2)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_NAME),
				 errmsg("\"%s\" is not the name of a function", handler),
				 errhint("Name a function that takes one jsonb, such as \"schema.function\".")));
	foreach(lc, parts)
		names = lappend(names, makeString(lfirst(lc)));
	return names;
}

/* A query that calls the function of that name. */
static char *
handler_query(const char *handler)
{
	List *names = split_name(handler);
	Oid argument = JSONBOID;
	Oid oid = LookupFuncName(names, 1, &argument, true);

	if (!OidIsValid(oid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("function %s(jsonb) does not exist", handler),
				 errhint("Name a function that takes one jsonb, such as \"schema.function\".")));
	if (get_func_prokind(oid) != PROKIND_FUNCTION || get_func_retset(oid))
		refuse_handler(handler,
					   "Procedures, aggregates, window functions and set-returning functions cannot be handlers.");
	return psprintf("SELECT %s($1)",
					quote_qualified_identifier(get_namespace_name(
												   get_func_namespace(oid)),
											   get_func_name(oid)));
}

static SPIPlanPtr
prepare_handler(const char *handler)
{
	Oid argument = JSONBOID;
	SPIPlanPtr plan = SPI_prepare(handler_query(handler), 1, &argument);

	if (plan == NULL)
		elog(ERROR, "could not prepare a call of %s: %s", handler,
			 SPI_result_code_string(SPI_result));
	return plan;
}

/*
 * Messages
 */

static bool
collect_message(void *arg, const PgqrsDelivery *d)
{
	ClaimedBatch *batch = arg;
	ClaimedMessage *item = &batch->items[batch->count++];

	item->message_id = d->message_id;
	item->lease = d->lease;
	item->payload = PointerGetDatum(PG_DETOAST_DATUM_COPY(d->payload));
	return true;
}

/* Whether an error concerns the whole transaction instead of the message. */
static bool
is_callers_error(const ErrorData *error)
{
	return ERRCODE_TO_CATEGORY(error->sqlerrcode) ==
		ERRCODE_TO_CATEGORY(ERRCODE_T_R_SERIALIZATION_FAILURE) ||
		ERRCODE_TO_CATEGORY(error->sqlerrcode) ==
		ERRCODE_TO_CATEGORY(ERRCODE_OPERATOR_INTERVENTION);
}

/* {"type": SQLSTATE, "message": message} */
static Datum
error_json(const ErrorData *error)
{
	return pgqrs_json_cap_error(
		pgqrs_json_error(unpack_sql_state(error->sqlerrcode),
						 error->message != NULL ? error->message : ""));
}

typedef struct HandlerCall
{
	SPIPlanPtr plan;
	const ClaimedMessage *item;
} HandlerCall;

static bool
call_handler(void *arg)
{
	const HandlerCall *h = arg;
	Datum payload = h->item->payload;
	int result = SPI_execute_plan(h->plan, &payload, NULL, false, 0);

	if (result != SPI_OK_SELECT)
		elog(ERROR, "calling the handler failed: %s",
			 SPI_result_code_string(result));
	SPI_freetuptable(SPI_tuptable);
	pgqrs_message_archive(h->item->message_id, h->item->lease);
	return true;
}

/* Calls the handler and archives the message; false if it failed and was nacked. */
static bool
handle_message(SPIPlanPtr plan, const ClaimedMessage *item)
{
	HandlerCall handling = {.plan = plan, .item = item};
	ErrorData *error = pgqrs_subtransaction(call_handler, &handling);
	PgqrsNack nack = {.retryable = true, .delay = -1};
	TimestampTz retry_at;

	if (error == NULL)
		return true;
	if (is_callers_error(error))
		ReThrowError(error);
	nack.error = pgqrs_value(error_json(error));
	pgqrs_message_nack(item->message_id, item->lease, &nack, &retry_at);
	FreeErrorData(error);
	return false;
}

static void
refuse_workflow_queue(const char *name)
{
	PgqrsQueue queue;

	pgqrs_queue_require(name, PRIVILEGE_WORK, &queue);
	if (queue.is_workflow)
		ereport(ERROR,
				(errcode(ERRCODE_PGQRS_INVALID_STATE),
				 errmsg("\"%s\" is the queue of a workflow", name),
				 errdetail("The messages of a workflow end with their runs."),
				 errhint("Claim the runs with pgqrs_dequeue().")));
}

int
pgqrs_consume_batch(const char *queue, const char *handler, int batch_size)
{
	ClaimedBatch batch = {0};
	MemoryContext context;
	SPIPlanPtr plan;
	int handled = 0;

	pgqrs_require_writable();
	refuse_workflow_queue(queue);
	batch.items = palloc(batch_size * sizeof(ClaimedMessage));
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	plan = prepare_handler(handler);
	pgqrs_claim(&(PgqrsClaimRequest){
		.queue = queue,
		.batch_size = batch_size,
		.timeout = -1,
		.deliver = collect_message,
		.arg = &batch,
	});
	pgqrs_xact_require_sync_commit();
	context = AllocSetContextCreate(CurrentMemoryContext, "pgqrs consumed message",
									ALLOCSET_DEFAULT_SIZES);
	for (int i = 0; i < batch.count; i++)
	{
		MemoryContext old = MemoryContextSwitchTo(context);

		CHECK_FOR_INTERRUPTS();
		if (handle_message(plan, &batch.items[i]))
			handled++;
		MemoryContextSwitchTo(old);
		MemoryContextReset(context);
	}
	SPI_finish();
	return handled;
}
