/*
 * maintain.c
 *	  Maintenance, by call.
 */
#include "postgres.h"

#include "background/duties.h"
#include "base/errors.h"
#include "delivery/floor_sweep.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "nodes/execnodes.h"
#include "queue/privileges.h"
#include "store/table.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"

/* Counts from one to another, both included, and more members. */
static Datum
counts(const int64 *done, PgqrsDone first, PgqrsDone last, const char *members)
{
	StringInfoData json;

	initStringInfo(&json);
	for (int i = first; i <= last; i++)
		appendStringInfo(&json, "%c \"%s\": " INT64_FORMAT, i == first ? '{' : ',',
						 pgqrs_maintain_label(i), done[i]);
	appendStringInfo(&json, "%s}", members);
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(json.data));
}

/* The member "failed": the errors of duties that failed, by name. */
static const char *
failed_member(ErrorData **errors)
{
	StringInfoData json;

	if (errors == NULL)
		return "";
	initStringInfo(&json);
	for (int i = 0; i < pgqrs_duty_count; i++)
	{
		const PgqrsDutyEntry *entry = &pgqrs_duties[i];
		const ErrorData *error = errors[entry->id];

		if (error == NULL)
			continue;
		appendStringInfo(&json, "%s\"%s\": {\"sqlstate\": \"%s\", \"message\": ",
						 json.len == 0 ? ", \"failed\": {" : ", ", entry->name,
						 unpack_sql_state(error->sqlerrcode));
		escape_json(&json, error->message);
		appendStringInfoChar(&json, '}');
	}
	appendStringInfoChar(&json, '}');
	return json.data;
}

PG_FUNCTION_INFO_V1(sql_maintain);
Datum
sql_maintain(PG_FUNCTION_ARGS)
{
	int64 done[DONE_COUNT] = {0};
	ErrorData **errors;

	pgqrs_called = fcinfo->flinfo->fn_oid;
	pgqrs_grants_require_owner();
	pgqrs_require_writable();
	errors = pgqrs_maintain_pass(done);
	PG_RETURN_DATUM(counts(done, 0, DONE_COUNT - 1, failed_member(errors)));
}

PG_FUNCTION_INFO_V1(sql_apply_retention);
Datum
sql_apply_retention(PG_FUNCTION_ARGS)
{
	int64 done[DONE_COUNT] = {0};
	TimestampTz next;

	pgqrs_called = fcinfo->flinfo->fn_oid;
	pgqrs_grants_require_owner();
	pgqrs_require_writable();
	next = pgqrs_maintain_run(pgqrs_maintain_retention, done);
	PG_RETURN_DATUM(counts(done, DONE_MESSAGES_REMOVED, DONE_FIRINGS_REMOVED,
						   next == 0 ? ", \"more\": true" : ", \"more\": false"));
}

PG_FUNCTION_INFO_V1(sql_below_floors);
Datum
sql_below_floors(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	pgqrs_called = fcinfo->flinfo->fn_oid;
	pgqrs_grants_require_owner();
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	pgqrs_sweep_list(result->setResult, result->setDesc);
	return (Datum) 0;
}
