/*
 * worker.c
 *	  SQL functions of workers.
 */
#include "api/args.h"

#include <limits.h>

#include "base/compat.h"
#include "base/errors.h"
#include "base/name.h"
#include "catalog/pg_type.h"
#include "delivery/client_wait.h"
#include "delivery/poll.h"
#include "delivery/worker.h"
#include "utils/array.h"
#include "utils/builtins.h"

/* An array of distinct patterns. */
static Datum
arg_patterns(FunctionCallInfo fcinfo, int n, const char *name)
{
	Datum *values;
	bool *nulls;
	int count = pgqrs_arg_array(fcinfo, n, name, TEXTOID, true, &values, &nulls);
	char **patterns = palloc(count * sizeof(char *));

	if (count == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("array \"%s\" is empty", name),
				 errhint("Pass the names or patterns of the queues and workflows that the worker serves.")));
	for (int i = 0; i < count; i++)
	{
		patterns[i] = TextDatumGetCString(values[i]);
		pgqrs_check_pattern(patterns[i], psprintf("%s[%d]", name, i + 1));
	}
	pgqrs_check_distinct(patterns, count, name);
	return PointerGetDatum(
		construct_array(values, count, TEXTOID, -1, false, TYPALIGN_INT));
}

PG_FUNCTION_INFO_V1(sql_register_worker);
Datum
sql_register_worker(PG_FUNCTION_ARGS)
{
	PgqrsNewWorker w;

	w.name = pgqrs_arg_key(fcinfo, 0, "name");
	w.queues = arg_patterns(fcinfo, 1, "queues");
	w.hostname = pgqrs_arg_key_or_null(fcinfo, 2, "hostname");
	w.port = pgqrs_arg_int_or(fcinfo, 3, "port", 1, 65535, 0);
	w.version = pgqrs_arg_key_or_null(fcinfo, 4, "version");
	w.max_concurrent = pgqrs_arg_int_or(fcinfo, 5, "max_concurrent", 1, INT_MAX, 0);
	w.labels = pgqrs_arg_json(fcinfo, 6, "labels");
	PG_RETURN_INT64(pgqrs_worker_register(&w));
}

PG_FUNCTION_INFO_V1(sql_heartbeat);
Datum
sql_heartbeat(PG_FUNCTION_ARGS)
{
	int64 worker_id = pgqrs_arg_int64(fcinfo, 0, "worker_id");
	PgqrsWorkerStatus status = pgqrs_worker_heartbeat(worker_id);

	PG_RETURN_TEXT_P(cstring_to_text(pgqrs_enum_label(ENUM_WORKER_STATUS, status)));
}

PG_FUNCTION_INFO_V1(sql_extend_worker);
Datum
sql_extend_worker(PG_FUNCTION_ARGS)
{
	int64 worker_id = pgqrs_arg_int64(fcinfo, 0, "worker_id");
	int64 timeout = pgqrs_arg_lease_time(fcinfo, 1);
	PgqrsExtended *answers;
	int count;

	pgqrs_result_begin(fcinfo);
	count = pgqrs_worker_extend(worker_id, timeout, &answers);
	for (int i = 0; i < count; i++)
	{
		NullableDatum id = pgqrs_value(Int64GetDatum(answers[i].message_id));
		NullableDatum row[ExtendWorker_natts];

		row[ExtendWorker_message_id] = id;
		row[ExtendWorker_run_id] = answers[i].is_run ? id : PGQRS_NULL;
		row[ExtendWorker_extended] = pgqrs_value(BoolGetDatum(answers[i].extended));
		row[ExtendWorker_cancel_requested] = pgqrs_value(
			BoolGetDatum(answers[i].cancel_requested));
		pgqrs_result_put(fcinfo, row);
	}
	return (Datum) 0;
}

PG_FUNCTION_INFO_V1(sql_suspend_worker);
Datum
sql_suspend_worker(PG_FUNCTION_ARGS)
{
	pgqrs_worker_suspend(pgqrs_arg_int64(fcinfo, 0, "worker_id"));
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(sql_resume_worker);
Datum
sql_resume_worker(PG_FUNCTION_ARGS)
{
	pgqrs_worker_resume(pgqrs_arg_int64(fcinfo, 0, "worker_id"));
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(sql_stop_worker);
Datum
sql_stop_worker(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(pgqrs_worker_stop(pgqrs_arg_int64(fcinfo, 0, "worker_id")));
}

PG_FUNCTION_INFO_V1(sql_wait_for_work);
Datum
sql_wait_for_work(PG_FUNCTION_ARGS)
{
	char *queue = pgqrs_arg_pattern_or_null(fcinfo, 0, "queue");
	int64 worker_id = pgqrs_arg_worker_or_none(fcinfo, 1);
	int64 timeout = pgqrs_arg_wait_timeout(fcinfo, 2, 30 * USECS_PER_SEC);
	NullableDatum available;

	if (queue == NULL && PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("neither \"queue\" nor \"worker_id\" is given"),
				 errhint("Name a queue or a pattern, or a worker to wait for its subscriptions.")));
	pgqrs_require_nonatomic(fcinfo, "pgqrs_wait_for_work");
	available = pgqrs_value(
		BoolGetDatum(pgqrs_wait_until_work(queue, worker_id, timeout)));
	PG_RETURN_DATUM(pgqrs_result_row(fcinfo, &available));
}

PG_FUNCTION_INFO_V1(sql_poll);
Datum
sql_poll(PG_FUNCTION_ARGS)
{
	PgqrsPollRequest request = {0};
	PgqrsPollAnswer answer;
	NullableDatum row[Poll_natts];
	int64 *ids = NULL;
	int64 *leases = NULL;

	request.worker_id = pgqrs_arg_int64(fcinfo, 0, "worker_id");
	request.timeout = pgqrs_arg_wait_timeout(fcinfo, 1, 30 * USECS_PER_SEC);
	request.batch_size = pgqrs_arg_int_or(fcinfo, 2, "batch_size", 0,
										  PGQRS_MAX_BATCH, 1);
	request.held_count = pgqrs_arg_leases_or_none(fcinfo, 3, "held_ids",
												  "held_leases", &ids, &leases);
	request.held_ids = ids;
	request.held_leases = leases;
	request.held_order = pgqrs_ascending(ids, request.held_count);
	pgqrs_require_nonatomic(fcinfo, "pgqrs_poll");
	pgqrs_poll(&request, &answer);
	row[Poll_work] = pgqrs_value(answer.work);
	row[Poll_held] = pgqrs_value(answer.held);
	row[Poll_worker_status] = pgqrs_text_value(
		pgqrs_enum_label(ENUM_WORKER_STATUS, answer.status));
	PG_RETURN_DATUM(pgqrs_result_row(fcinfo, row));
}
