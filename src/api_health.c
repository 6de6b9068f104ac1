/*
 * api_health.c
 *	  What the view pgqrs_health shows of shared memory.
 */
#include "api.h"

#include "access/htup_details.h"
#include "floor.h"
#include "funcapi.h"

PG_FUNCTION_INFO_V1(pgqrs_floor_stats);
Datum
pgqrs_floor_stats(PG_FUNCTION_ARGS)
{
	PgqrsFloorStats stats;
	bool preloaded = pgqrs_floor_get_stats(&stats);
	TupleDesc desc;
	Datum values[7] = {
		BoolGetDatum(preloaded),		 Int32GetDatum(stats.floors),
		Int32GetDatum(stats.max_floors), Int64GetDatum(stats.raised),
		Int64GetDatum(stats.lowered),	 Int64GetDatum(stats.looked),
		Int64GetDatum(stats.claimed),
	};
	bool nulls[7] = {false};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (!preloaded)
		memset(&nulls[1], true, sizeof(nulls) - sizeof(nulls[0]));
	PG_RETURN_DATUM(
		HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}
