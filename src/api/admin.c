/*
 * admin.c
 *	  SQL functions of the owner: privileges, maintenance, and triggers on
 *	  copied tables.
 */
#include "api/args.h"

#include "access/htup_details.h"
#include "background/duties.h"
#include "base/clock.h"
#include "base/errors.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "delivery/floor_sweep.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "nodes/execnodes.h"
#include "queue/acl_sync.h"
#include "queue/privileges.h"
#include "queue/queue.h"
#include "queue/roles.h"
#include "shmem/claim_floor.h"
#include "shmem/claim_hints.h"
#include "shmem/priority_hints.h"
#include "shmem/xact_hooks.h"
#include "shmem/xact_wakeups.h"
#include "storage/lmgr.h"
#include "store/table.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/inval.h"
#include "utils/json.h"
#include "utils/rel.h"

/*
 * Privileges
 */

typedef struct Grant
{
	const char *pattern;
	const char *role;
	PgqrsPrivilege privilege;
} Grant;

static Grant
get_arguments(FunctionCallInfo fcinfo)
{
	Grant grant;

	pgqrs_require_extension_owner();
	grant.pattern = pgqrs_arg_pattern(fcinfo, 0, "pattern");
	grant.role = pgqrs_arg_text(fcinfo, 1, "role");
	grant.privilege = pgqrs_arg_enum(fcinfo, 2, "privilege", ENUM_PRIVILEGE,
									 PRIVILEGE_COUNT);
	return grant;
}

static void
require_role(const char *role)
{
	if (!pgqrs_grantee_exists(role))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("role \"%s\" does not exist", role),
				 errhint("Pass the name of a role as it is in pg_roles, without quotes, or \"public\" for every role.")));
}

PG_FUNCTION_INFO_V1(sql_grant);
Datum
sql_grant(PG_FUNCTION_ARGS)
{
	Grant grant = get_arguments(fcinfo);

	require_role(grant.role);
	pgqrs_grant_add(grant.pattern, grant.role, grant.privilege);
	PG_RETURN_VOID();
}

/* Also revokes from a role that no longer exists. */
PG_FUNCTION_INFO_V1(sql_revoke);
Datum
sql_revoke(PG_FUNCTION_ARGS)
{
	Grant grant = get_arguments(fcinfo);

	if (pgqrs_grant_remove(grant.pattern, grant.role, grant.privilege))
		PG_RETURN_VOID();

	require_role(grant.role);
	ereport(NOTICE,
			(errmsg("role \"%s\" was not granted \"%s\" on \"%s\"", grant.role,
					pgqrs_enum_label(ENUM_PRIVILEGE, grant.privilege),
					grant.pattern)));
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(sql_sync_grants);
Datum
sql_sync_grants(PG_FUNCTION_ARGS)
{
	pgqrs_current_sql_function = fcinfo->flinfo->fn_oid;
	pgqrs_require_extension_owner();
	pgqrs_grants_sync();
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(sql_function_privileges);
Datum
sql_function_privileges(PG_FUNCTION_ARGS)
{
	char *name = pgqrs_arg_text(fcinfo, 0, "function");
	int mask = pgqrs_privileges_for_function(name);
	Datum labels[PRIVILEGE_COUNT];
	int count = 0;

	if (mask < 0)
		PG_RETURN_NULL();
	for (int i = 0; i < PRIVILEGE_COUNT; i++)
		if (mask & (1 << i))
			labels[count++] = CStringGetTextDatum(
				pgqrs_enum_label(ENUM_PRIVILEGE, i));
	PG_RETURN_ARRAYTYPE_P(
		construct_array(labels, count, TEXTOID, -1, false, TYPALIGN_INT));
}

/*
 * Maintenance
 */

/* The counts from one to another, both included; more: further members. */
static Datum
counts_json(const int64 *done, PgqrsDone first, PgqrsDone last, const char *members)
{
	StringInfoData json;

	initStringInfo(&json);
	for (int i = first; i <= last; i++)
		appendStringInfo(&json, "%c \"%s\": " INT64_FORMAT, i == first ? '{' : ',',
						 pgqrs_duty_done_label(i), done[i]);
	appendStringInfo(&json, "%s}", members);
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(json.data));
}

/* The member "failed": the errors of failed duties, by name. */
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

	pgqrs_current_sql_function = fcinfo->flinfo->fn_oid;
	pgqrs_require_extension_owner();
	pgqrs_require_writable();
	errors = pgqrs_duty_run_all(done);
	PG_RETURN_DATUM(counts_json(done, 0, DONE_COUNT - 1, failed_member(errors)));
}

PG_FUNCTION_INFO_V1(sql_apply_retention);
Datum
sql_apply_retention(PG_FUNCTION_ARGS)
{
	int64 done[DONE_COUNT] = {0};
	TimestampTz next;

	pgqrs_current_sql_function = fcinfo->flinfo->fn_oid;
	pgqrs_require_extension_owner();
	pgqrs_require_writable();
	next = pgqrs_duty_retention(done);
	PG_RETURN_DATUM(
		counts_json(done, DONE_MESSAGES_REMOVED, DONE_FIRINGS_REMOVED,
					next == 0 ? ", \"more\": true" : ", \"more\": false"));
}

PG_FUNCTION_INFO_V1(sql_below_floors);
Datum
sql_below_floors(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	pgqrs_current_sql_function = fcinfo->flinfo->fn_oid;
	pgqrs_require_extension_owner();
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	pgqrs_floor_sweep_list(result->setResult, result->setDesc);
	return (Datum) 0;
}

/*
 * Rows written past the functions
 */

static void
require_row_trigger(FunctionCallInfo fcinfo, const char *function)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_FOR_ROW(trigger->tg_event) ||
		!TRIGGER_FIRED_BEFORE(trigger->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("%s() must be fired BEFORE, FOR EACH ROW", function),
				 errhint("Restore the trigger as CREATE EXTENSION creates it.")));
}

/*
 * Row trigger: a transaction writes a message without the functions of pgqrs,
 * by hand, by COPY or as a subscriber.
 */
PG_FUNCTION_INFO_V1(sql_messages_written);
Datum
sql_messages_written(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;
	TupleDesc desc;
	HeapTuple row;
	bool isnull[5];
	Datum values[4];

	require_row_trigger(fcinfo, "pgqrs_messages_written");
	if (RelationGetRelid(trigger->tg_relation) != pgqrs_catalog_table(TABLE_MESSAGES))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("pgqrs_messages_written() must be fired for pgqrs_messages"),
				 errhint("Drop trigger \"%s\" of table \"%s\".",
						 trigger->tg_trigger->tgname,
						 RelationGetRelationName(trigger->tg_relation))));
	if (TRIGGER_FIRED_BY_DELETE(trigger->tg_event))
	{
		pgqrs_floor_mark_dirty();
		return PointerGetDatum(trigger->tg_trigtuple);
	}
	row = TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) ? trigger->tg_newtuple :
													   trigger->tg_trigtuple;
	desc = RelationGetDescr(trigger->tg_relation);
	values[0] = heap_getattr(row, Messages_queue_id, desc, &isnull[0]);
	values[1] = heap_getattr(row, Messages_priority, desc, &isnull[1]);
	values[2] = heap_getattr(row, Messages_visible_after, desc, &isnull[2]);
	values[3] = heap_getattr(row, Messages_message_id, desc, &isnull[3]);
	heap_getattr(row, Messages_lease, desc, &isnull[4]);
	pgqrs_xact_request_duty(DUTY_EXPIRY, 0);
	/* the table refuses a NULL */
	if (!isnull[0] && !isnull[1] && !isnull[2] && !isnull[3])
	{
		pgqrs_claim_hint_foreign_write(DatumGetInt64(values[3]));
		pgqrs_priority_hints_written(DatumGetInt64(values[0]),
									 DatumGetInt16(values[1]));
		pgqrs_floor_foreign_write(DatumGetInt64(values[0]),
								  DatumGetInt16(values[1]),
								  DatumGetTimestampTz(values[2]));
		pgqrs_xact_wakeup_message(DatumGetInt64(values[3]),
								  DatumGetInt64(values[0]),
								  DatumGetTimestampTz(values[2]), !isnull[4]);
	}
	return PointerGetDatum(row);
}

/*
 * Row trigger: queues, workflows, schedules or grants are written without the
 * functions of pgqrs, by hand, by a restore or as a subscriber.  All sessions
 * read them again.
 */
PG_FUNCTION_INFO_V1(sql_settings_written);
Datum
sql_settings_written(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;

	require_row_trigger(fcinfo, "pgqrs_settings_written");
	CacheInvalidateRelcache(trigger->tg_relation);
	pgqrs_xact_request_duty(DUTY_SCHEDULES, 0);
	pgqrs_xact_wakeup(WAKEUP_QUEUES, 0);
	return PointerGetDatum(TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) ?
							   trigger->tg_newtuple :
							   trigger->tg_trigtuple);
}

/* The last id of the sequence, or 0. */
static int64
last_id(Oid sequence)
{
	LOCAL_FCINFO(fcinfo, 1);
	Datum last;

	InitFunctionCallInfoData(*fcinfo, NULL, 1, InvalidOid, NULL, NULL);
	fcinfo->args[0].value = ObjectIdGetDatum(sequence);
	fcinfo->args[0].isnull = false;
	last = pg_sequence_last_value(fcinfo);
	return fcinfo->isnull ? 0 : DatumGetInt64(last);
}

/*
 * No transaction takes an id between the read and the setting: nextval() locks
 * the sequence until the end of its transaction, which conflicts with this
 * lock.  setval() is not transactional, so the lock is released at once.
 */
PG_FUNCTION_INFO_V1(sql_advance_sequence);
Datum
sql_advance_sequence(PG_FUNCTION_ARGS)
{
	Oid sequence = PG_GETARG_OID(0);
	int64 last = PG_GETARG_INT64(1);
	int64 past = PG_GETARG_INT64(2);

	pgqrs_current_sql_function = fcinfo->flinfo->fn_oid;
	pgqrs_require_extension_owner();
	pgqrs_require_read_write();
	if (last >= past)
		PG_RETURN_INT64(last);
	LockRelationOid(sequence, ShareRowExclusiveLock);
	last = last_id(sequence);
	if (last < past)
	{
		DirectFunctionCall2(setval_oid, ObjectIdGetDatum(sequence),
							Int64GetDatum(past));
		last = past;
	}
	UnlockRelationOid(sequence, ShareRowExclusiveLock);
	PG_RETURN_INT64(last);
}

/*
 * Others
 */

PG_FUNCTION_INFO_V1(sql_now);
Datum
sql_now(PG_FUNCTION_ARGS)
{
	PG_RETURN_TIMESTAMPTZ(pgqrs_clock());
}

PG_FUNCTION_INFO_V1(sql_version);
Datum
sql_version(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(PGQRS_VERSION));
}
