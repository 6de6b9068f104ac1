/*
 * message.c
 *	  SQL functions that send, claim, hold and end messages.
 */
#include "api/args.h"

#include "base/errors.h"
#include "base/int64_list.h"
#include "base/json.h"
#include "catalog/pg_type.h"
#include "delivery/claim.h"
#include "delivery/consume.h"
#include "delivery/next.h"
#include "funcapi.h"
#include "monitor/run_list.h"
#include "nodes/execnodes.h"
#include "queue/message.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "workflow/cancel.h"
#include "workflow/dead_letter.h"

PG_FUNCTION_INFO_V1(sql_enqueue);
Datum
sql_enqueue(PG_FUNCTION_ARGS)
{
	char *queue = pgqrs_arg_name(fcinfo, 0, "queue");
	PgqrsNewMessage m = {.headers = PGQRS_NULL};
	int64 id;

	m.payload = pgqrs_arg_json_required(fcinfo, 1, "payload");
	m.when = pgqrs_arg_when(fcinfo, 2, 3);
	m.priority = pgqrs_arg_priority_or(fcinfo, 4, 0);
	m.idempotency_key = pgqrs_arg_key_or_null(fcinfo, 5, "idempotency_key");
	m.headers = pgqrs_arg_json(fcinfo, 6, "headers");
	pgqrs_arg_concurrency_key(fcinfo, 7);
	m.on_duplicate = pgqrs_arg_on_duplicate(fcinfo, 8);
	id = pgqrs_message_enqueue(queue, &m);
	if (id == 0)
		PG_RETURN_NULL();
	PG_RETURN_INT64(id);
}

PG_FUNCTION_INFO_V1(sql_enqueue_batch);
Datum
sql_enqueue_batch(PG_FUNCTION_ARGS)
{
	char *queue = pgqrs_arg_name(fcinfo, 0, "queue");
	PgqrsNewMessages batch = {0};
	bool *nulls;
	int64 *ids;

	batch.count = pgqrs_arg_array(fcinfo, 1, "payloads", JSONBOID, true,
								  &batch.payloads, &nulls);
	batch.when = pgqrs_arg_when(fcinfo, 2, 3);
	batch.priority = pgqrs_arg_priority_or(fcinfo, 4, 0);
	for (int i = 0; i < batch.count; i++)
		pgqrs_json_check(batch.payloads[i], "payloads", i + 1);
	if (!PG_ARGISNULL(5))
	{
		int count;

		batch.headers = pgqrs_arg_json_array(fcinfo, 5, "headers", &count);
		pgqrs_arg_same_length(batch.count, "payloads", count, "headers");
	}
	batch.keys = pgqrs_arg_idempotency_keys(fcinfo, 6, batch.count, "payloads");
	pgqrs_arg_concurrency_keys(fcinfo, 7, batch.count, "payloads");
	ids = palloc(batch.count * sizeof(int64));
	pgqrs_message_enqueue_batch(queue, &batch, ids);
	PG_RETURN_DATUM(pgqrs_int64_array(ids, batch.count));
}

PG_FUNCTION_INFO_V1(sql_archive_message);
Datum
sql_archive_message(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(pgqrs_message_archive(pgqrs_arg_int64(fcinfo, 0, "message_id"),
										 pgqrs_arg_int64(fcinfo, 1, "lease")));
}

PG_FUNCTION_INFO_V1(sql_archive_messages);
Datum
sql_archive_messages(PG_FUNCTION_ARGS)
{
	int64 *ids;
	int64 *leases;
	int count = pgqrs_arg_leases(fcinfo, 0, "message_ids", "leases", &ids, &leases);
	bool *archived = palloc(count * sizeof(bool));
	bool *is_current = palloc(count * sizeof(bool));
	Datum *answers = palloc(count * sizeof(Datum));
	bool *nulls = palloc(count * sizeof(bool));
	int lower_bound = 1;

	pgqrs_message_archive_batch(count, ids, leases, pgqrs_ascending(ids, count),
								archived, is_current);
	for (int i = 0; i < count; i++)
	{
		answers[i] = BoolGetDatum(archived[i]);
		nulls[i] = !is_current[i];
	}
	PG_RETURN_ARRAYTYPE_P(construct_md_array(answers, nulls, count > 0 ? 1 : 0,
											 &count, &lower_bound, BOOLOID, 1,
											 true, TYPALIGN_CHAR));
}

PG_FUNCTION_INFO_V1(sql_delete_message);
Datum
sql_delete_message(PG_FUNCTION_ARGS)
{
	pgqrs_message_delete(pgqrs_arg_int64(fcinfo, 0, "message_id"),
						 pgqrs_arg_int64(fcinfo, 1, "lease"));
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(sql_release_message);
Datum
sql_release_message(PG_FUNCTION_ARGS)
{
	int64 id = pgqrs_arg_int64(fcinfo, 0, "message_id");
	int64 lease = pgqrs_arg_int64(fcinfo, 1, "lease");
	int64 delay = pgqrs_arg_duration_or(fcinfo, 2, "delay", 0);

	pgqrs_cancel_or_release(id, lease, delay);
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(sql_nack_message);
Datum
sql_nack_message(PG_FUNCTION_ARGS)
{
	int64 id = pgqrs_arg_int64(fcinfo, 0, "message_id");
	int64 lease = pgqrs_arg_int64(fcinfo, 1, "lease");
	PgqrsNack nack = {.error = PGQRS_NULL};
	TimestampTz retry_at;

	if (!PG_ARGISNULL(2))
		nack.error = pgqrs_value(pgqrs_arg_error(fcinfo, 2));
	nack.delay = pgqrs_arg_duration_or(fcinfo, 3, "delay", -1);
	nack.retryable = pgqrs_arg_bool_or(fcinfo, 4, true);
	if (!pgqrs_message_nack(id, lease, &nack, &retry_at))
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(retry_at);
}

PG_FUNCTION_INFO_V1(sql_extend_lease);
Datum
sql_extend_lease(PG_FUNCTION_ARGS)
{
	int64 id = pgqrs_arg_int64(fcinfo, 0, "message_id");
	int64 lease = pgqrs_arg_int64(fcinfo, 1, "lease");
	int64 timeout = pgqrs_arg_lease_time(fcinfo, 2);
	int order = 0;
	bool extended;
	bool cancel_requested;
	NullableDatum row[ExtendLease_natts];

	pgqrs_message_extend_batch(1, &id, &lease, &order, timeout, &extended,
							   &cancel_requested);
	row[ExtendLease_extended] = pgqrs_value(BoolGetDatum(extended));
	row[ExtendLease_cancel_requested] = pgqrs_value(BoolGetDatum(cancel_requested));
	PG_RETURN_DATUM(pgqrs_result_row(fcinfo, row));
}

PG_FUNCTION_INFO_V1(sql_extend_leases);
Datum
sql_extend_leases(PG_FUNCTION_ARGS)
{
	int64 *ids;
	int64 *leases;
	int count = pgqrs_arg_leases(fcinfo, 0, "message_ids", "leases", &ids, &leases);
	int64 timeout = pgqrs_arg_lease_time(fcinfo, 2);
	bool *extended = palloc(count * sizeof(bool));
	bool *cancel_requested = palloc(count * sizeof(bool));

	pgqrs_result_begin(fcinfo);
	pgqrs_message_extend_batch(count, ids, leases, pgqrs_ascending(ids, count),
							   timeout, extended, cancel_requested);
	for (int i = 0; i < count; i++)
	{
		NullableDatum row[ExtendLeases_natts];

		row[ExtendLeases_message_id] = pgqrs_value(Int64GetDatum(ids[i]));
		row[ExtendLeases_extended] = pgqrs_value(BoolGetDatum(extended[i]));
		row[ExtendLeases_cancel_requested] = pgqrs_value(
			BoolGetDatum(cancel_requested[i]));
		pgqrs_result_put(fcinfo, row);
	}
	return (Datum) 0;
}

PG_FUNCTION_INFO_V1(sql_set_visibility);
Datum
sql_set_visibility(PG_FUNCTION_ARGS)
{
	int64 id = pgqrs_arg_int64(fcinfo, 0, "message_id");
	TimestampTz visible_after = pgqrs_arg_instant(fcinfo, 1, "visible_after");

	pgqrs_cancel_or_set_visibility(id, visible_after);
	PG_RETURN_VOID();
}

/*
 * Claiming
 */

static bool
put_delivery(void *arg, const PgqrsDelivery *d)
{
	NullableDatum id = pgqrs_value(Int64GetDatum(d->message_id));
	NullableDatum queue = pgqrs_value(CStringGetTextDatum(d->queue->name));
	NullableDatum row[Delivery_natts] = {
		[Delivery_message_id] = id,
		[Delivery_queue] = queue,
		[Delivery_lease] = pgqrs_value(Int64GetDatum(d->lease)),
		[Delivery_attempt] = pgqrs_value(Int32GetDatum(d->attempt)),
		[Delivery_failures] = pgqrs_value(Int32GetDatum(d->failures)),
		[Delivery_priority] = pgqrs_value(Int32GetDatum(d->priority)),
		[Delivery_enqueued_at] = pgqrs_value(TimestampTzGetDatum(d->enqueued_at)),
		[Delivery_visible_after] = pgqrs_value(TimestampTzGetDatum(d->visible_after)),
		[Delivery_payload] = pgqrs_value(d->payload),
		[Delivery_headers] = d->headers,
		[Delivery_run_id] = d->is_run ? id : PGQRS_NULL,
		/* a workflow has the name of its queue */
		[Delivery_workflow] = d->is_run ? queue : PGQRS_NULL,
		[Delivery_input] = d->input,
		[Delivery_cancel_requested] = pgqrs_value(BoolGetDatum(d->cancel_requested)),
	};

	pgqrs_result_put(arg, row);
	return true;
}

/* Reads the arguments of a claim, which have these numbers. */
static void
arg_claim(FunctionCallInfo fcinfo, int queue, int worker_id, int batch_size,
		  int timeout, PgqrsClaimRequest *request)
{
	*request = (PgqrsClaimRequest){.deliver = put_delivery, .arg = fcinfo};
	request->queue = pgqrs_arg_pattern_or_null(fcinfo, queue, "queue");
	request->worker_id = pgqrs_arg_worker_or_none(fcinfo, worker_id);
	request->batch_size = pgqrs_arg_int_or(fcinfo, batch_size, "batch_size", 0,
										   PGQRS_MAX_BATCH, 1);
	request->timeout = pgqrs_arg_lease_time(fcinfo, timeout);
	if (request->queue == NULL && PG_ARGISNULL(worker_id))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("neither \"queue\" nor \"worker_id\" is given"),
				 errhint("Name a queue or a pattern, or a worker to claim from its subscriptions.")));
}

PG_FUNCTION_INFO_V1(sql_dequeue);
Datum
sql_dequeue(PG_FUNCTION_ARGS)
{
	PgqrsClaimRequest request;

	arg_claim(fcinfo, 0, 1, 2, 3, &request);
	pgqrs_result_begin(fcinfo);
	pgqrs_claim(&request);
	return (Datum) 0;
}

static void
init_delivery(NullableDatum *row)
{
	for (int i = 0; i < Delivery_natts; i++)
		row[i] = PGQRS_NULL;
}

/* A row for an item that was refused: its id, and the SQLSTATE as the payload. */
static void
put_refusal(void *arg, int64 message_id, int sqlstate)
{
	NullableDatum row[Delivery_natts];

	init_delivery(row);
	row[Delivery_message_id] = pgqrs_value(Int64GetDatum(message_id));
	row[Delivery_payload] = pgqrs_value(pgqrs_json_sqlstate(sqlstate));
	pgqrs_result_put(arg, row);
}

PG_FUNCTION_INFO_V1(sql_next);
Datum
sql_next(PG_FUNCTION_ARGS)
{
	PgqrsClaimRequest request;
	PgqrsDone done = {0};
	int64 *ids = NULL;
	int64 *leases = NULL;

	arg_claim(fcinfo, 1, 0, 2, 3, &request);
	done.count = pgqrs_arg_leases_or_none(fcinfo, 4, "done_ids", "done_leases",
										  &ids, &leases);
	done.ids = ids;
	done.leases = leases;
	done.order = pgqrs_ascending(ids, done.count);
	if (!PG_ARGISNULL(6))
	{
		int count;

		done.outputs = pgqrs_arg_json_array(fcinfo, 6, "outputs", &count);
		pgqrs_arg_same_length(done.count, "done_ids", count, "outputs");
	}
	pgqrs_result_begin(fcinfo);
	pgqrs_next(&done, put_refusal, &request);
	return (Datum) 0;
}

/* A run that was triggered and not claimed: without a lease. */
static void
put_run(FunctionCallInfo fcinfo, int64 run_id, const char *workflow)
{
	NullableDatum row[Delivery_natts];

	init_delivery(row);
	row[Delivery_message_id] = row[Delivery_run_id] = pgqrs_value(
		Int64GetDatum(run_id));
	row[Delivery_queue] = row[Delivery_workflow] = pgqrs_text_value(workflow);
	pgqrs_result_put(fcinfo, row);
}

PG_FUNCTION_INFO_V1(sql_start);
Datum
sql_start(PG_FUNCTION_ARGS)
{
	PgqrsClaimRequest request = {
		.timeout = -1,
		.deliver = put_delivery,
		.arg = fcinfo,
	};
	char *workflow = pgqrs_arg_name(fcinfo, 0, "workflow");
	PgqrsNewRun r;
	int64 run_id;

	request.worker_id = pgqrs_arg_worker_or_none(fcinfo, 2);
	pgqrs_arg_new_run_after(fcinfo, 1, 3, &r);
	/* the warning would say that the run waits for a worker */
	r.no_warning = !r.require_worker;
	if (r.when.delay != 0 || !PG_ARGISNULL(5))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the run would not start at once"),
				 errhint("Call pgqrs_trigger() with \"delay\" or \"run_at\".")));
	pgqrs_result_begin(fcinfo);
	if (!pgqrs_start(workflow, &r, &request, &run_id) && run_id != 0)
		put_run(fcinfo, run_id, workflow);
	return (Datum) 0;
}

PG_FUNCTION_INFO_V1(sql_consume);
Datum
sql_consume(PG_FUNCTION_ARGS)
{
	char *queue = pgqrs_arg_name(fcinfo, 0, "queue");
	char *handler = pgqrs_arg_text(fcinfo, 1, "handler");
	int batch_size = pgqrs_arg_int_or(fcinfo, 2, "batch_size", 0,
									  PGQRS_MAX_BATCH, 1);

	PG_RETURN_INT32(pgqrs_consume_batch(queue, handler, batch_size));
}

/*
 * Reading
 */

PG_FUNCTION_INFO_V1(sql_peek);
Datum
sql_peek(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	char *queue = pgqrs_arg_name(fcinfo, 0, "queue");
	int n = pgqrs_arg_int_or(fcinfo, 1, "n", 0, PGQRS_MAX_BATCH, 10);

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	pgqrs_read_peek(queue, n, result->setResult, result->setDesc);
	return (Datum) 0;
}

/*
 * Dead letters
 */

PG_FUNCTION_INFO_V1(sql_replay_message);
Datum
sql_replay_message(PG_FUNCTION_ARGS)
{
	int64 id = pgqrs_arg_int64(fcinfo, 0, "message_id");

	pgqrs_dead_letter_replay(id, pgqrs_arg_json(fcinfo, 1, "payload"));
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(sql_replay_queue);
Datum
sql_replay_queue(PG_FUNCTION_ARGS)
{
	char *queue = pgqrs_arg_name(fcinfo, 0, "queue");
	int max_rows = pgqrs_arg_int_or(fcinfo, 1, "max_rows", 0, PG_INT32_MAX,
									PG_INT32_MAX);

	PG_RETURN_INT64(
		pgqrs_dead_letter_replay_many(queue, max_rows,
									  pgqrs_arg_text_or_null(fcinfo, 2,
															 "error_type")));
}

PG_FUNCTION_INFO_V1(sql_dismiss_dead_letter);
Datum
sql_dismiss_dead_letter(PG_FUNCTION_ARGS)
{
	pgqrs_dead_letter_dismiss(pgqrs_arg_int64(fcinfo, 0, "message_id"));
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(sql_purge_dead_letters);
Datum
sql_purge_dead_letters(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(
		pgqrs_dead_letter_purge(pgqrs_arg_name(fcinfo, 0, "queue"),
								pgqrs_arg_duration(fcinfo, 1, "older_than")));
}
