/*
 * consume.c
 *	  pgqrs_consume().
 */
#include "api/args.h"

#include "delivery/consume.h"

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
