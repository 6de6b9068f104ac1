/*
 * api_maintain.c
 *	  pgqrs_maintain().
 */
#include "postgres.h"

#include "errors.h"
#include "fmgr.h"
#include "grants.h"
#include "lib/stringinfo.h"
#include "maintain.h"
#include "utils/fmgrprotos.h"

PG_FUNCTION_INFO_V1(pgqrs_maintain);
Datum
pgqrs_maintain(PG_FUNCTION_ARGS)
{
	PgqrsMaintained done;
	StringInfoData json;

	pgqrs_called = fcinfo->flinfo->fn_oid;
	pgqrs_grants_require_owner();
	pgqrs_maintain_pass(&done);

	initStringInfo(&json);
	appendStringInfo(&json,
					 "{\"workers_stopped\": %d, \"leases_reaped\": %d, \"messages_dead\": %d, \"runs_cancelled\": %d, \"runs_timed_out\": %d, \"floors_lowered\": %d}",
					 done.workers_stopped, done.leases_reaped,
					 done.messages_dead, done.runs_cancelled,
					 done.runs_timed_out, done.floors_lowered);
	PG_RETURN_DATUM(DirectFunctionCall1(jsonb_in, CStringGetDatum(json.data)));
}
