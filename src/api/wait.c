/*
 * wait.c
 *	  The procedures pgqrs_wait() and pgqrs_wait_for_work().
 */
#include "api/args.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "base/errors.h"
#include "delivery/client_wait.h"
#include "funcapi.h"
#include "nodes/parsenodes.h"
#include "utils/timestamp.h"

/* Raises 25001 where the procedure may not commit. */
static void
require_nonatomic(FunctionCallInfo fcinfo, const char *procedure)
{
	CallContext *context = (CallContext *) fcinfo->context;

	if (context == NULL || !IsA(context, CallContext) || context->atomic ||
		IsSubTransaction())
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("%s() cannot wait inside a transaction block", procedure),
				 errdetail("It would hold a snapshot and keep vacuum from its work all the while, and could see nothing new."),
				 errhint("CALL it in autocommit mode: on its own, not between BEGIN and COMMIT, and not in a function.")));
}

/* Milliseconds, rounded up. */
static int64
arg_timeout(FunctionCallInfo fcinfo, int n, int64 missing)
{
	return (pgqrs_arg_duration_or(fcinfo, n, "timeout", missing) + 999) / 1000;
}

PG_FUNCTION_INFO_V1(sql_wait);
Datum
sql_wait(PG_FUNCTION_ARGS)
{
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");
	int64 timeout = arg_timeout(fcinfo, 1, 300 * USECS_PER_SEC);
	HeapTuple result;

	require_nonatomic(fcinfo, "pgqrs_wait");
	result = pgqrs_wait_for_run(run_id, timeout, pgqrs_result_desc(fcinfo));
	if (result == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_PGQRS_WAIT_TIMEOUT),
				 errmsg("run " INT64_FORMAT " did not end in time", run_id),
				 errhint("It goes on all the same: wait again, or look at it with pgqrs_get_run().")));
	PG_RETURN_DATUM(HeapTupleGetDatum(result));
}

PG_FUNCTION_INFO_V1(sql_wait_for_work);
Datum
sql_wait_for_work(PG_FUNCTION_ARGS)
{
	char *queue = pgqrs_arg_pattern_or_null(fcinfo, 0, "queue");
	int64 worker_id = pgqrs_arg_int64_or(fcinfo, 1, 0);
	int64 timeout = arg_timeout(fcinfo, 2, 30 * USECS_PER_SEC);
	Datum value;
	bool isnull = false;

	if (queue == NULL && PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("neither \"queue\" nor \"worker_id\" is given"),
				 errhint("Name a queue or a pattern, or a worker to wait for what it subscribes to.")));
	if (!PG_ARGISNULL(1) && worker_id <= 0)
		pgqrs_error_worker_not_found(worker_id);
	require_nonatomic(fcinfo, "pgqrs_wait_for_work");
	value = BoolGetDatum(pgqrs_wait_until_work(queue, worker_id, timeout));
	PG_RETURN_DATUM(pgqrs_result_row(fcinfo, &value, &isnull));
}
