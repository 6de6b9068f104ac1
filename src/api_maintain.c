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
	int64 done[DONE_COUNT] = {0};
	StringInfoData json;

	pgqrs_called = fcinfo->flinfo->fn_oid;
	pgqrs_grants_require_owner();
	pgqrs_maintain_pass(done);

	initStringInfo(&json);
	for (int i = 0; i < DONE_COUNT; i++)
		appendStringInfo(&json, "%c \"%s\": " INT64_FORMAT, i == 0 ? '{' : ',',
						 pgqrs_maintain_label(i), done[i]);
	appendStringInfoChar(&json, '}');
	PG_RETURN_DATUM(DirectFunctionCall1(jsonb_in, CStringGetDatum(json.data)));
}
