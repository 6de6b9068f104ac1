/*
 * triggers.c
 *	  The row trigger of the tables that sessions cache, and the sequences after a copy.
 */
#include "api/args.h"

#include "access/table.h"
#include "base/errors.h"
#include "commands/sequence.h"
#include "commands/trigger.h"
#include "queue/privileges.h"
#include "shmem/xact_hooks.h"
#include "shmem/xact_wakeups.h"
#include "storage/lmgr.h"
#include "store/table.h"
#include "utils/fmgrprotos.h"
#include "utils/inval.h"
#include "utils/rel.h"

/*
 * Queues, workflows, schedules and grants that are written past the functions, by
 * hand, by a restore or as a subscriber: every session reads them anew.
 */
PG_FUNCTION_INFO_V1(sql_settings_written);
Datum
sql_settings_written(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_FOR_ROW(trigger->tg_event) ||
		!TRIGGER_FIRED_BEFORE(trigger->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("pgqrs_settings_written() must be fired BEFORE, FOR EACH ROW"),
				 errhint("Leave the trigger as CREATE EXTENSION made it.")));
	CacheInvalidateRelcache(trigger->tg_relation);
	pgqrs_commit_due(DUE_SCHEDULES, 0);
	pgqrs_wake_mark_queues();
	return PointerGetDatum(TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) ?
							   trigger->tg_newtuple :
							   trigger->tg_trigtuple);
}

/* The id that the sequence gave last, or 0. */
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
 * Nothing takes an id between the look and the setting: nextval() locks the
 * sequence against this to the end of its transaction.  setval() is no part of
 * the transaction, so the lock may go with it.
 */
PG_FUNCTION_INFO_V1(sql_advance_sequence);
Datum
sql_advance_sequence(PG_FUNCTION_ARGS)
{
	Oid sequence = PG_GETARG_OID(0);
	int64 last = PG_GETARG_INT64(1);
	int64 past = PG_GETARG_INT64(2);

	pgqrs_called = fcinfo->flinfo->fn_oid;
	pgqrs_grants_require_owner();
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
