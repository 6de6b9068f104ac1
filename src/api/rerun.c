/*
 * rerun.c
 *	  pgqrs_rerun().
 */
#include "api/args.h"

#include "workflow/rerun.h"

PG_FUNCTION_INFO_V1(sql_rerun);
Datum
sql_rerun(PG_FUNCTION_ARGS)
{
	int64 run_id = pgqrs_arg_int64(fcinfo, 0, "run_id");
	Datum input;
	bool has_input = pgqrs_arg_json(fcinfo, 1, "input", &input);
	PgqrsRerun rerun;

	rerun.input = has_input ? &input : NULL;
	rerun.from_step = pgqrs_arg_key_or_null(fcinfo, 2, "from_step");
	rerun.keep_finished = pgqrs_arg_bool_or(fcinfo, 3, false);
	PG_RETURN_INT64(pgqrs_rerun_start(run_id, &rerun));
}
