/*
 * consume.c
 *	  Working off a queue with a function, in the caller's transaction.
 *
 * Runs in any backend.  The claim, what the handler does and the end of the
 * message are one transaction: all of it happens once, or the message is there
 * as it was before.  Each message has a subtransaction of its own; if the
 * handler fails, that is rolled back, and the failure counted as a nack.  Errors
 * that say that the whole transaction has to be repeated, or that the caller
 * does not want to wait any longer, are passed on.
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

/* What was claimed. */
typedef struct Claimed
{
	int64 message_id;
	int64 lease;
	Datum payload;
} Claimed;

typedef struct Batch
{
	int count;
	Claimed *items;
} Batch;

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

/* The parts of the name, which may have a schema. */
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
					   "It is a procedure, an aggregate, a window function or returns a set.");
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

static void
collect(void *arg, const PgqrsDelivery *d)
{
	Batch *batch = arg;
	Claimed *item = &batch->items[batch->count++];

	item->message_id = d->message_id;
	item->lease = d->lease;
	item->payload = PointerGetDatum(PG_DETOAST_DATUM_COPY(d->payload));
}

/* Whether an error is the caller's affair and no failure of the message. */
static bool
is_callers(const ErrorData *error)
{
	return ERRCODE_TO_CATEGORY(error->sqlerrcode) ==
		ERRCODE_TO_CATEGORY(ERRCODE_T_R_SERIALIZATION_FAILURE) ||
		ERRCODE_TO_CATEGORY(error->sqlerrcode) ==
		ERRCODE_TO_CATEGORY(ERRCODE_OPERATOR_INTERVENTION);
}

/* {"type": SQLSTATE, "message": message} */
static Datum
describe(const ErrorData *error)
{
	return pgqrs_json_cap_error(
		pgqrs_json_error(unpack_sql_state(error->sqlerrcode),
						 error->message != NULL ? error->message : ""));
}

typedef struct Handling
{
	SPIPlanPtr plan;
	const Claimed *item;
} Handling;

static bool
call_handler(void *arg)
{
	const Handling *h = arg;
	Datum payload = h->item->payload;
	int result = SPI_execute_plan(h->plan, &payload, NULL, false, 0);

	if (result != SPI_OK_SELECT)
		elog(ERROR, "calling the handler failed: %s",
			 SPI_result_code_string(result));
	SPI_freetuptable(SPI_tuptable);
	pgqrs_message_archive(h->item->message_id, h->item->lease);
	return true;
}

/* Whether the handler took it. */
static bool
handle(SPIPlanPtr plan, const Claimed *item)
{
	Handling handling = {.plan = plan, .item = item};
	ErrorData *error = pgqrs_subtransaction(call_handler, &handling);
	PgqrsNack nack = {.retryable = true, .delay = -1};
	TimestampTz retry_at;

	if (error == NULL)
		return true;
	if (is_callers(error))
		ReThrowError(error);
	nack.error = pgqrs_value(describe(error));
	pgqrs_message_nack(item->message_id, item->lease, &nack, &retry_at);
	FreeErrorData(error);
	return false;
}

static void
refuse_workflow(const char *name)
{
	PgqrsQueue queue;

	pgqrs_queue_require(name, PRIVILEGE_WORK, &queue);
	if (queue.is_workflow)
		ereport(ERROR,
				(errcode(ERRCODE_PGQRS_INVALID_STATE),
				 errmsg("\"%s\" is the queue of a workflow", name),
				 errdetail("Its messages end with their runs."),
				 errhint("Work on its runs with pgqrs_dequeue().")));
}

int
pgqrs_consume_batch(const char *queue, const char *handler, int batch_size)
{
	Batch batch = {0};
	MemoryContext context;
	SPIPlanPtr plan;
	int taken = 0;

	pgqrs_require_writable();
	refuse_workflow(queue);
	batch.items = palloc(batch_size * sizeof(Claimed));
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	plan = prepare_handler(handler);
	pgqrs_claim(queue, 0, batch_size, -1, collect, &batch);
	pgqrs_commit_must_last();
	context = AllocSetContextCreate(CurrentMemoryContext, "pgqrs consumed message",
									ALLOCSET_DEFAULT_SIZES);
	for (int i = 0; i < batch.count; i++)
	{
		MemoryContext old = MemoryContextSwitchTo(context);

		CHECK_FOR_INTERRUPTS();
		if (handle(plan, &batch.items[i]))
			taken++;
		MemoryContextSwitchTo(old);
		MemoryContextReset(context);
	}
	SPI_finish();
	return taken;
}
