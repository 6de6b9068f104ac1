/*
 * claim.c
 *	  pgqrs_dequeue().
 */
#include "api/args.h"

#include "base/errors.h"
#include "base/name.h"
#include "delivery/claim.h"
#include "funcapi.h"
#include "utils/builtins.h"

#define DELIVERY_COLUMNS 14

static void
put_delivery(void *arg, const PgqrsDelivery *d)
{
	ReturnSetInfo *rsinfo = arg;
	Datum values[DELIVERY_COLUMNS];
	bool nulls[DELIVERY_COLUMNS] = {0};
	int i = 0;

	values[i++] = Int64GetDatum(d->message_id);
	values[i++] = CStringGetTextDatum(d->queue->name);
	values[i++] = Int64GetDatum(d->lease);
	values[i++] = Int32GetDatum(d->attempt);
	values[i++] = Int32GetDatum(d->failures);
	values[i++] = Int32GetDatum(d->priority);
	values[i++] = TimestampTzGetDatum(d->enqueued_at);
	values[i++] = TimestampTzGetDatum(d->visible_after);
	values[i++] = d->payload;
	nulls[i] = !d->has_headers;
	values[i++] = d->headers;
	nulls[i] = !d->is_run;
	values[i++] = Int64GetDatum(d->message_id);
	nulls[i] = !d->is_run;
	values[i++] = values[1]; /* a workflow has the name of its queue */
	nulls[i] = !d->has_input;
	values[i++] = d->input;
	values[i++] = BoolGetDatum(false); /* a run asked to stop is not delivered */
	Assert(i == DELIVERY_COLUMNS);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

PG_FUNCTION_INFO_V1(sql_dequeue);
Datum
sql_dequeue(PG_FUNCTION_ARGS)
{
	char *queue = pgqrs_arg_pattern_or_null(fcinfo, 0, "queue");
	int64 worker_id = pgqrs_arg_int64_or(fcinfo, 1, 0);
	int batch_size = pgqrs_arg_int_or(fcinfo, 2, "batch_size", 0,
									  PGQRS_MAX_BATCH, 1);
	int64 timeout = pgqrs_arg_lease_time(fcinfo, 3);

	if (queue == NULL && PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("neither \"queue\" nor \"worker_id\" is given"),
				 errhint("Name a queue or a pattern, or a worker to claim from what it subscribes to.")));
	if (!PG_ARGISNULL(1) && worker_id <= 0)
		pgqrs_error_worker_not_found(worker_id);
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	pgqrs_claim(queue, worker_id, batch_size, timeout, put_delivery,
				fcinfo->resultinfo);
	return (Datum) 0;
}
