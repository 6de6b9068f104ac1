/*
 * message.c
 *	  SQL functions that send, hold and end messages.
 */
#include "api/args.h"

#include "access/htup_details.h"
#include "base/errors.h"
#include "base/json.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "funcapi.h"
#include "queue/message.h"
#include "shmem/claim_floor.h"
#include "shmem/claim_hints.h"
#include "shmem/levels.h"
#include "shmem/xact_hooks.h"
#include "shmem/xact_wakeups.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "workflow/cancel.h"
#include "workflow/dead_letter.h"

PG_FUNCTION_INFO_V1(sql_enqueue);
Datum
sql_enqueue(PG_FUNCTION_ARGS)
{
	char *queue = pgqrs_arg_name(fcinfo, 0, "queue");
	PgqrsNewMessage m = {0};
	int64 id;

	m.payload = pgqrs_arg_json_required(fcinfo, 1, "payload");
	m.when = pgqrs_arg_when(fcinfo, 2, 3);
	m.priority = pgqrs_arg_priority_or(fcinfo, 4, 0);
	m.idempotency_key = pgqrs_arg_key_or_null(fcinfo, 5, "idempotency_key");
	m.has_headers = pgqrs_arg_json(fcinfo, 6, "headers", &m.headers);
	pgqrs_arg_concurrency_key(fcinfo, 7);
	m.on_duplicate = pgqrs_arg_on_duplicate(fcinfo, 8);
	id = pgqrs_message_enqueue(queue, &m);
	if (id == 0)
		PG_RETURN_NULL();
	PG_RETURN_INT64(id);
}

PG_FUNCTION_INFO_V1(sql_enqueue_batch);
Datum
sql_enqueue_batch(PG_FUNCTION_ARGS)
{
	char *queue = pgqrs_arg_name(fcinfo, 0, "queue");
	PgqrsNewMessages batch = {0};
	bool *nulls;
	int64 *ids;

	batch.count = pgqrs_arg_array(fcinfo, 1, "payloads", JSONBOID, true,
								  &batch.payloads, &nulls);
	batch.when = pgqrs_arg_when(fcinfo, 2, 3);
	batch.priority = pgqrs_arg_priority_or(fcinfo, 4, 0);
	for (int i = 0; i < batch.count; i++)
		pgqrs_json_check(batch.payloads[i], "payloads", i + 1);
	if (!PG_ARGISNULL(5))
	{
		pgqrs_arg_same_length(batch.count, "payloads",
							  pgqrs_arg_array(fcinfo, 5, "headers", JSONBOID, false,
											  &batch.headers, &batch.no_headers),
							  "headers");
		for (int i = 0; i < batch.count; i++)
			if (!batch.no_headers[i])
				pgqrs_json_check(batch.headers[i], "headers", i + 1);
	}
	batch.keys = pgqrs_arg_idempotency_keys(fcinfo, 6, batch.count, "payloads");
	pgqrs_arg_concurrency_keys(fcinfo, 7, batch.count, "payloads");
	ids = palloc(batch.count * sizeof(int64));
	pgqrs_message_enqueue_batch(queue, &batch, ids);
	PG_RETURN_DATUM(pgqrs_int64_array(ids, batch.count));
}

PG_FUNCTION_INFO_V1(sql_archive_message);
Datum
sql_archive_message(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(pgqrs_message_archive(pgqrs_arg_int64(fcinfo, 0, "message_id"),
										 pgqrs_arg_int64(fcinfo, 1, "lease")));
}

PG_FUNCTION_INFO_V1(sql_archive_messages);
Datum
sql_archive_messages(PG_FUNCTION_ARGS)
{
	int64 *ids;
	int64 *leases;
	int count = pgqrs_arg_leases(fcinfo, 0, 1, &ids, &leases);
	bool *archived = palloc(count * sizeof(bool));
	bool *is_current = palloc(count * sizeof(bool));
	Datum *answers = palloc(count * sizeof(Datum));
	bool *nulls = palloc(count * sizeof(bool));
	int lower_bound = 1;

	pgqrs_message_archive_batch(count, ids, leases, pgqrs_ascending(ids, count),
								archived, is_current);
	for (int i = 0; i < count; i++)
	{
		answers[i] = BoolGetDatum(archived[i]);
		nulls[i] = !is_current[i];
	}
	PG_RETURN_ARRAYTYPE_P(construct_md_array(answers, nulls, count > 0 ? 1 : 0,
											 &count, &lower_bound, BOOLOID, 1,
											 true, TYPALIGN_CHAR));
}

PG_FUNCTION_INFO_V1(sql_delete_message);
Datum
sql_delete_message(PG_FUNCTION_ARGS)
{
	pgqrs_message_discard(pgqrs_arg_int64(fcinfo, 0, "message_id"),
						  pgqrs_arg_int64(fcinfo, 1, "lease"));
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(sql_release_message);
Datum
sql_release_message(PG_FUNCTION_ARGS)
{
	int64 id = pgqrs_arg_int64(fcinfo, 0, "message_id");
	int64 lease = pgqrs_arg_int64(fcinfo, 1, "lease");
	int64 delay = pgqrs_arg_duration_or(fcinfo, 2, "delay", 0);

	if (!pgqrs_message_release(id, lease, delay))
		pgqrs_cancel_finish(id);
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(sql_nack_message);
Datum
sql_nack_message(PG_FUNCTION_ARGS)
{
	int64 id = pgqrs_arg_int64(fcinfo, 0, "message_id");
	int64 lease = pgqrs_arg_int64(fcinfo, 1, "lease");
	PgqrsNack nack = {0};
	TimestampTz retry_at;

	nack.has_error = !PG_ARGISNULL(2);
	if (nack.has_error)
		nack.error = pgqrs_json_cap_error(PG_GETARG_DATUM(2));
	nack.delay = pgqrs_arg_duration_or(fcinfo, 3, "delay", -1);
	nack.retryable = pgqrs_arg_bool_or(fcinfo, 4, true);
	if (!pgqrs_message_nack(id, lease, &nack, &retry_at))
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(retry_at);
}

PG_FUNCTION_INFO_V1(sql_extend_lease);
Datum
sql_extend_lease(PG_FUNCTION_ARGS)
{
	int64 id = pgqrs_arg_int64(fcinfo, 0, "message_id");
	int64 lease = pgqrs_arg_int64(fcinfo, 1, "lease");
	int64 timeout = pgqrs_arg_lease_time(fcinfo, 2);
	int order = 0;
	bool extended;
	bool cancel_requested;
	Datum values[2];
	bool nulls[2] = {false, false};

	pgqrs_message_extend_batch(1, &id, &lease, &order, timeout, &extended,
							   &cancel_requested);
	values[0] = BoolGetDatum(extended);
	values[1] = BoolGetDatum(cancel_requested);
	PG_RETURN_DATUM(pgqrs_result_row(fcinfo, values, nulls));
}

PG_FUNCTION_INFO_V1(sql_extend_leases);
Datum
sql_extend_leases(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	int64 *ids;
	int64 *leases;
	int count = pgqrs_arg_leases(fcinfo, 0, 1, &ids, &leases);
	int64 timeout = pgqrs_arg_lease_time(fcinfo, 2);
	bool *extended = palloc(count * sizeof(bool));
	bool *cancel_requested = palloc(count * sizeof(bool));
	bool nulls[3] = {false, false, false};

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	pgqrs_message_extend_batch(count, ids, leases, pgqrs_ascending(ids, count),
							   timeout, extended, cancel_requested);
	for (int i = 0; i < count; i++)
	{
		Datum values[3] = {
			Int64GetDatum(ids[i]),
			BoolGetDatum(extended[i]),
			BoolGetDatum(cancel_requested[i]),
		};

		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

PG_FUNCTION_INFO_V1(sql_set_visibility);
Datum
sql_set_visibility(PG_FUNCTION_ARGS)
{
	int64 id = pgqrs_arg_int64(fcinfo, 0, "message_id");
	TimestampTz visible_after = pgqrs_arg_instant(fcinfo, 1, "visible_after");

	if (!pgqrs_message_set_visibility(id, visible_after))
		pgqrs_cancel_finish(id);
	PG_RETURN_VOID();
}

/*
 * Row trigger: somebody writes pgqrs_messages past our functions, by hand, by
 * COPY or as a subscriber.
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

	if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_FOR_ROW(trigger->tg_event) ||
		!TRIGGER_FIRED_BEFORE(trigger->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("pgqrs_messages_written() must be fired BEFORE, FOR EACH ROW"),
				 errhint("Leave the trigger as CREATE EXTENSION made it.")));
	if (RelationGetRelid(trigger->tg_relation) != pgqrs_catalog_table(TABLE_MESSAGES))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("pgqrs_messages_written() must be fired for pgqrs_messages"),
				 errhint("Drop trigger \"%s\" of table \"%s\".",
						 trigger->tg_trigger->tgname,
						 RelationGetRelationName(trigger->tg_relation))));
	if (TRIGGER_FIRED_BY_DELETE(trigger->tg_event))
	{
		pgqrs_floor_modified();
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
	pgqrs_commit_due(DUE_ENDS, 0);
	/* a NULL is refused by the table */
	if (!isnull[0] && !isnull[1] && !isnull[2] && !isnull[3])
	{
		pgqrs_taken_foreign_write(DatumGetInt64(values[3]));
		pgqrs_levels_written(DatumGetInt64(values[0]), DatumGetInt16(values[1]));
		pgqrs_floor_foreign_write(DatumGetInt64(values[0]),
								  DatumGetInt16(values[1]),
								  DatumGetTimestampTz(values[2]));
		pgqrs_wake_mark_message(DatumGetInt64(values[0]),
								DatumGetTimestampTz(values[2]), !isnull[4]);
	}
	return PointerGetDatum(row);
}

PG_FUNCTION_INFO_V1(sql_replay_message);
Datum
sql_replay_message(PG_FUNCTION_ARGS)
{
	int64 id = pgqrs_arg_int64(fcinfo, 0, "message_id");
	Datum payload;
	bool has_payload = pgqrs_arg_json(fcinfo, 1, "payload", &payload);

	pgqrs_replay(id, has_payload ? &payload : NULL);
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(sql_replay_queue);
Datum
sql_replay_queue(PG_FUNCTION_ARGS)
{
	char *queue = pgqrs_arg_name(fcinfo, 0, "queue");
	int max_rows = pgqrs_arg_int_or(fcinfo, 1, "max_rows", 0, PG_INT32_MAX,
									PG_INT32_MAX);

	PG_RETURN_INT64(
		pgqrs_replay_many(queue, max_rows,
						  pgqrs_arg_text_or_null(fcinfo, 2, "error_type")));
}

PG_FUNCTION_INFO_V1(sql_dismiss_dead_letter);
Datum
sql_dismiss_dead_letter(PG_FUNCTION_ARGS)
{
	pgqrs_replay_dismiss(pgqrs_arg_int64(fcinfo, 0, "message_id"));
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(sql_purge_dead_letters);
Datum
sql_purge_dead_letters(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(pgqrs_replay_purge(pgqrs_arg_name(fcinfo, 0, "queue"),
									   pgqrs_arg_duration(fcinfo, 1, "older_than")));
}
