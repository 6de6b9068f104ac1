/*
 * queue.c
 *	  SQL functions that administer queues.
 */
#include "api/args.h"

#include "queue/privileges.h"
#include "queue/queue.h"
#include "utils/builtins.h"
#include "workflow/drop.h"

PG_FUNCTION_INFO_V1(sql_create_queue);
Datum
sql_create_queue(PG_FUNCTION_ARGS)
{
	PgqrsOptions options;
	char *queue = pgqrs_arg_name(fcinfo, 0, "queue");

	pgqrs_queue_defaults(&options);
	pgqrs_arg_options_of_create(fcinfo, &options);
	PG_RETURN_INT64(pgqrs_queue_create(queue, &options));
}

PG_FUNCTION_INFO_V1(sql_alter_queue);
Datum
sql_alter_queue(PG_FUNCTION_ARGS)
{
	PgqrsOptions options;
	char *queue = pgqrs_arg_name(fcinfo, 0, "queue");

	pgqrs_queue_defaults(&options);
	pgqrs_arg_options_of_alter(fcinfo, &options);
	pgqrs_queue_alter(queue, &options);
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(sql_delete_queue);
Datum
sql_delete_queue(PG_FUNCTION_ARGS)
{
	char *queue = pgqrs_arg_name(fcinfo, 0, "queue");
	bool force = pgqrs_arg_bool_or(fcinfo, 1, false);

	PG_RETURN_BOOL(pgqrs_queue_delete(queue, force));
}

PG_FUNCTION_INFO_V1(sql_purge_queue);
Datum
sql_purge_queue(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(pgqrs_queue_purge(pgqrs_arg_name(fcinfo, 0, "queue")));
}

PG_FUNCTION_INFO_V1(sql_pause_queue);
Datum
sql_pause_queue(PG_FUNCTION_ARGS)
{
	pgqrs_queue_pause(pgqrs_arg_name(fcinfo, 0, "queue"), true);
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(sql_resume_queue);
Datum
sql_resume_queue(PG_FUNCTION_ARGS)
{
	pgqrs_queue_pause(pgqrs_arg_name(fcinfo, 0, "queue"), false);
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(sql_queue_name);
Datum
sql_queue_name(PG_FUNCTION_ARGS)
{
	PgqrsQueue queue;

	if (!pgqrs_queue_allows(pgqrs_arg_int64(fcinfo, 0, "queue_id"),
							PRIVILEGE_READ, &queue))
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(queue.name));
}

PG_FUNCTION_INFO_V1(sql_may_monitor);
Datum
sql_may_monitor(PG_FUNCTION_ARGS)
{
	PgqrsQueue queue;

	PG_RETURN_BOOL(pgqrs_queue_allows(pgqrs_arg_int64(fcinfo, 0, "queue_id"),
									  PRIVILEGE_MONITOR, &queue));
}
