/*
 * args.c
 *	  Arguments of SQL functions: fetching and checking.
 */
#include "api/args.h"

#include "access/detoast.h"
#include "access/htup_details.h"
#include "access/xact.h"
#include "base/catalog.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/json.h"
#include "base/name.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "nodes/parsenodes.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#define MAX_TEXT_BYTES	   8192
#define MAX_RESULT_COLUMNS 16

/*
 * 22004 for a NULL.  Every function with arguments calls this, so it records the
 * function for error messages.
 */
static void
require_not_null(FunctionCallInfo fcinfo, int n, const char *name)
{
	pgqrs_current_sql_function = fcinfo->flinfo->fn_oid;
	if (PG_ARGISNULL(n))
		pgqrs_error_null(name);
}

int64
pgqrs_arg_int64(FunctionCallInfo fcinfo, int n, const char *name)
{
	require_not_null(fcinfo, n, name);
	return PG_GETARG_INT64(n);
}

int64
pgqrs_arg_int64_or(FunctionCallInfo fcinfo, int n, int64 missing)
{
	return PG_ARGISNULL(n) ? missing : PG_GETARG_INT64(n);
}

int
pgqrs_arg_int(FunctionCallInfo fcinfo, int n, const char *name, int min, int max)
{
	int value;

	require_not_null(fcinfo, n, name);
	value = PG_GETARG_INT32(n);
	if (value < min || value > max)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" is %d", name, value),
				 errhint("Use a value from %d to %d.", min, max)));
	return value;
}

int
pgqrs_arg_int_or(FunctionCallInfo fcinfo, int n, const char *name, int min,
				 int max, int missing)
{
	return PG_ARGISNULL(n) ? missing : pgqrs_arg_int(fcinfo, n, name, min, max);
}

bool
pgqrs_arg_bool(FunctionCallInfo fcinfo, int n, const char *name)
{
	require_not_null(fcinfo, n, name);
	return PG_GETARG_BOOL(n);
}

bool
pgqrs_arg_bool_or(FunctionCallInfo fcinfo, int n, bool missing)
{
	return PG_ARGISNULL(n) ? missing : PG_GETARG_BOOL(n);
}

/* A smallint, given as int. */
int
pgqrs_arg_priority_or(FunctionCallInfo fcinfo, int n, int missing)
{
	return pgqrs_arg_int_or(fcinfo, n, "priority", -PGQRS_MAX_PRIORITY,
							PGQRS_MAX_PRIORITY, missing);
}

/* Refuses a text longer than any useful one. */
static void
check_text(Datum value, const char *name)
{
	Size bytes = toast_raw_datum_size(value) - VARHDRSZ;

	if (bytes > MAX_TEXT_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" is too long", name),
				 errdetail("The text has %zu bytes.", bytes),
				 errhint("Use at most %d bytes.", MAX_TEXT_BYTES)));
}

char *
pgqrs_arg_text(FunctionCallInfo fcinfo, int n, const char *name)
{
	require_not_null(fcinfo, n, name);
	check_text(PG_GETARG_DATUM(n), name);
	return text_to_cstring(PG_GETARG_TEXT_PP(n));
}

char *
pgqrs_arg_text_or_null(FunctionCallInfo fcinfo, int n, const char *name)
{
	return PG_ARGISNULL(n) ? NULL : pgqrs_arg_text(fcinfo, n, name);
}

char *
pgqrs_arg_name(FunctionCallInfo fcinfo, int n, const char *name)
{
	char *value = pgqrs_arg_text(fcinfo, n, name);

	pgqrs_check_name(value, name);
	return value;
}

char *
pgqrs_arg_pattern(FunctionCallInfo fcinfo, int n, const char *name)
{
	char *value = pgqrs_arg_text(fcinfo, n, name);

	pgqrs_check_pattern(value, name);
	return value;
}

char *
pgqrs_arg_pattern_or_null(FunctionCallInfo fcinfo, int n, const char *name)
{
	return PG_ARGISNULL(n) ? NULL : pgqrs_arg_pattern(fcinfo, n, name);
}

char *
pgqrs_arg_key(FunctionCallInfo fcinfo, int n, const char *name)
{
	char *value = pgqrs_arg_text(fcinfo, n, name);

	pgqrs_check_key(value, name);
	return value;
}

char *
pgqrs_arg_key_or_null(FunctionCallInfo fcinfo, int n, const char *name)
{
	return PG_ARGISNULL(n) ? NULL : pgqrs_arg_key(fcinfo, n, name);
}

int
pgqrs_arg_label(FunctionCallInfo fcinfo, int n, const char *name, int nlabels,
				const char *const *labels)
{
	char *value = pgqrs_arg_text(fcinfo, n, name);
	StringInfoData known;

	for (int i = 0; i < nlabels; i++)
		if (strcmp(labels[i], value) == 0)
			return i;

	initStringInfo(&known);
	for (int i = 0; i < nlabels; i++)
		appendStringInfo(&known, "%s\"%s\"", i ? ", " : "", labels[i]);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("argument \"%s\" is \"%s\"", name, value),
			 errhint("Use one of %s.", known.data)));
}

int
pgqrs_arg_label_or(FunctionCallInfo fcinfo, int n, const char *name,
				   int nlabels, const char *const *labels, int missing)
{
	return PG_ARGISNULL(n) ? missing :
							 pgqrs_arg_label(fcinfo, n, name, nlabels, labels);
}

int
pgqrs_arg_enum(FunctionCallInfo fcinfo, int n, const char *name,
			   PgqrsEnumId type, int nlabels)
{
	const char *labels[PGQRS_MAX_LABELS];

	for (int i = 0; i < nlabels; i++)
		labels[i] = pgqrs_enum_label(type, i);
	return pgqrs_arg_label(fcinfo, n, name, nlabels, labels);
}

int
pgqrs_arg_enum_or(FunctionCallInfo fcinfo, int n, const char *name,
				  PgqrsEnumId type, int nlabels, int missing)
{
	return PG_ARGISNULL(n) ? missing :
							 pgqrs_arg_enum(fcinfo, n, name, type, nlabels);
}

int64
pgqrs_arg_duration(FunctionCallInfo fcinfo, int n, const char *name)
{
	require_not_null(fcinfo, n, name);
	return pgqrs_duration(PG_GETARG_INTERVAL_P(n), name);
}

int64
pgqrs_arg_duration_or(FunctionCallInfo fcinfo, int n, const char *name, int64 missing)
{
	return PG_ARGISNULL(n) ? missing : pgqrs_arg_duration(fcinfo, n, name);
}

TimestampTz
pgqrs_arg_instant(FunctionCallInfo fcinfo, int n, const char *name)
{
	TimestampTz at;

	require_not_null(fcinfo, n, name);
	at = PG_GETARG_TIMESTAMPTZ(n);
	if (TIMESTAMP_IS_NOEND(at))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" is infinity", name),
				 errhint("Use a finite instant.")));
	return Max(at, MIN_TIMESTAMP);
}

TimestampTz
pgqrs_arg_instant_or(FunctionCallInfo fcinfo, int n, const char *name,
					 TimestampTz missing)
{
	return PG_ARGISNULL(n) ? missing : pgqrs_arg_instant(fcinfo, n, name);
}

PgqrsWhen
pgqrs_arg_when(FunctionCallInfo fcinfo, int delay, int run_at)
{
	PgqrsWhen when;

	when.delay = pgqrs_arg_duration_or(fcinfo, delay, "delay", 0);
	when.run_at = PG_ARGISNULL(run_at) ?
		0 :
		pgqrs_arg_instant(fcinfo, run_at, "run_at");
	if (when.delay != 0 && !PG_ARGISNULL(run_at))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("both \"delay\" and \"run_at\" are given"),
				 errhint("Give one of them.")));
	return when;
}

NullableDatum
pgqrs_arg_json(FunctionCallInfo fcinfo, int n, const char *name)
{
	if (!PG_ARGISNULL(n))
		pgqrs_json_check(PG_GETARG_DATUM(n), name, 0);
	return fcinfo->args[n];
}

Datum
pgqrs_arg_json_required(FunctionCallInfo fcinfo, int n, const char *name)
{
	require_not_null(fcinfo, n, name);
	return pgqrs_arg_json(fcinfo, n, name).value;
}

Datum
pgqrs_arg_output(FunctionCallInfo fcinfo, int n)
{
	NullableDatum output = pgqrs_arg_json(fcinfo, n, "output");

	return output.isnull ? pgqrs_json_null() : output.value;
}

Datum
pgqrs_arg_error(FunctionCallInfo fcinfo, int n)
{
	require_not_null(fcinfo, n, "error");
	return pgqrs_json_cap_error(PG_GETARG_DATUM(n));
}

int
pgqrs_arg_array(FunctionCallInfo fcinfo, int n, const char *name, Oid type,
				bool refuse_nulls, Datum **values, bool **nulls)
{
	ArrayType *array;
	int16 typlen;
	bool typbyval;
	char typalign;
	int count;

	require_not_null(fcinfo, n, name);
	array = PG_GETARG_ARRAYTYPE_P(n);
	count = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
	if (ARR_NDIM(array) > 1 || count > PGQRS_MAX_BATCH)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("array \"%s\" has %d dimensions and %d elements", name,
						ARR_NDIM(array), count),
				 errhint("Pass a one-dimensional array of at most %d elements.",
						 PGQRS_MAX_BATCH)));
	get_typlenbyvalalign(type, &typlen, &typbyval, &typalign);
	deconstruct_array(array, type, typlen, typbyval, typalign, values, nulls,
					  &count);
	for (int i = 0; refuse_nulls && i < count; i++)
		if ((*nulls)[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("item %d of \"%s\" must not be null", i + 1, name),
					 errhint("Pass a value for every item.")));
	for (int i = 0; type == TEXTOID && i < count; i++)
		if (!(*nulls)[i])
			check_text((*values)[i], psprintf("%s[%d]", name, i + 1));
	return count;
}

NullableDatum *
pgqrs_arg_json_array(FunctionCallInfo fcinfo, int n, const char *name, int *count)
{
	Datum *values;
	bool *nulls;
	NullableDatum *items;

	*count = pgqrs_arg_array(fcinfo, n, name, JSONBOID, false, &values, &nulls);
	items = palloc(*count * sizeof(NullableDatum));
	for (int i = 0; i < *count; i++)
	{
		items[i] = pgqrs_value_if(!nulls[i], values[i]);
		if (!nulls[i])
			pgqrs_json_check(values[i], name, i + 1);
	}
	return items;
}

void
pgqrs_arg_same_length(int count, const char *name, int other_count,
					  const char *other_name)
{
	if (count != other_count)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("array \"%s\" has %d elements, \"%s\" has %d", name,
						count, other_name, other_count),
				 errhint("Pass arrays of the same length.")));
}

PgqrsOnDuplicate
pgqrs_arg_on_duplicate(FunctionCallInfo fcinfo, int n)
{
	static const char *const labels[] = {
		[DUPLICATE_RETURN] = "return",
		[DUPLICATE_RAISE] = "raise",
		[DUPLICATE_NULL] = "null",
		[DUPLICATE_NULL + 1] = "replace",
		[DUPLICATE_NULL + 2] = "replace_input",
	};
	int label = pgqrs_arg_label_or(fcinfo, n, "on_duplicate", lengthof(labels),
								   labels, DUPLICATE_RETURN);

	if (label > DUPLICATE_NULL)
		pgqrs_error_not_supported(psprintf("on_duplicate => '%s'", labels[label]));
	return label;
}

/* NULL: no item has a key. */
static char **
get_keys(FunctionCallInfo fcinfo, int n, const char *name, int count,
		 const char *items_name)
{
	Datum *values;
	bool *nulls;
	char **keys;

	if (PG_ARGISNULL(n))
		return NULL;
	pgqrs_arg_same_length(count, items_name,
						  pgqrs_arg_array(fcinfo, n, name, TEXTOID, false,
										  &values, &nulls),
						  name);
	keys = palloc0(count * sizeof(char *));
	for (int i = 0; i < count; i++)
	{
		if (nulls[i])
			continue;
		keys[i] = TextDatumGetCString(values[i]);
		pgqrs_check_key(keys[i], psprintf("%s[%d]", name, i + 1));
	}
	return keys;
}

char **
pgqrs_arg_idempotency_keys(FunctionCallInfo fcinfo, int n, int count,
						   const char *items_name)
{
	char **keys = get_keys(fcinfo, n, "idempotency_keys", count, items_name);

	if (keys != NULL)
		pgqrs_check_distinct(keys, count, "idempotency_keys");
	return keys;
}

void
pgqrs_arg_concurrency_key(FunctionCallInfo fcinfo, int n)
{
	if (pgqrs_arg_key_or_null(fcinfo, n, "concurrency_key") != NULL)
		pgqrs_error_not_supported("concurrency_key");
}

void
pgqrs_arg_concurrency_keys(FunctionCallInfo fcinfo, int n, int count,
						   const char *items_name)
{
	char **keys = get_keys(fcinfo, n, "concurrency_keys", count, items_name);

	for (int i = 0; keys != NULL && i < count; i++)
		if (keys[i] != NULL)
			pgqrs_error_not_supported("concurrency_keys");
}

/* item and earlier: indexes from 0. */
static void
refuse_duplicate_item(const char *name, int item, int earlier, const char *value)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("item %d of \"%s\" repeats item %d: \"%s\"", item + 1, name,
					earlier + 1, value),
			 errhint("Pass every value once.")));
}

void
pgqrs_check_distinct(char **keys, int count, const char *name)
{
	int *order = pgqrs_key_order(keys, count);

	for (int i = 1; i < count && keys[order[i]] != NULL; i++)
		if (strcmp(keys[order[i - 1]], keys[order[i]]) == 0)
			refuse_duplicate_item(name, order[i], order[i - 1], keys[order[i]]);
	pfree(order);
}

static int
compare_indexed_ids(const void *a, const void *b, void *arg)
{
	const int64 *ids = arg;
	int x = *(const int *) a;
	int y = *(const int *) b;

	if (ids[x] != ids[y])
		return ids[x] > ids[y] ? 1 : -1;
	return x - y;
}

int *
pgqrs_ascending(const int64 *ids, int count)
{
	int *order = palloc(count * sizeof(int));

	for (int i = 0; i < count; i++)
		order[i] = i;
	qsort_arg(order, count, sizeof(int), compare_indexed_ids,
			  unconstify(int64 *, ids));
	return order;
}

static int64 *
to_int64(const Datum *values, int count)
{
	int64 *result = palloc(count * sizeof(int64));

	for (int i = 0; i < count; i++)
		result[i] = DatumGetInt64(values[i]);
	return result;
}

/* Reads argument n into values; NULL is an empty array unless it is refused. */
static int
arg_int64_array(FunctionCallInfo fcinfo, int n, const char *name,
				bool refuse_null, int64 **values)
{
	Datum *datums = NULL;
	bool *nulls;
	int count = 0;

	if (refuse_null || !PG_ARGISNULL(n))
		count = pgqrs_arg_array(fcinfo, n, name, INT8OID, true, &datums, &nulls);
	*values = to_int64(datums, count);
	return count;
}

int64 *
pgqrs_arg_ids(FunctionCallInfo fcinfo, int n, const char *name, int *count)
{
	int64 *ids;

	*count = arg_int64_array(fcinfo, n, name, true, &ids);
	return ids;
}

static int
arg_leases(FunctionCallInfo fcinfo, int n, const char *ids_name,
		   const char *leases_name, bool refuse_null, int64 **ids, int64 **leases)
{
	int count = arg_int64_array(fcinfo, n, ids_name, refuse_null, ids);
	int *order;

	pgqrs_arg_same_length(count, ids_name,
						  arg_int64_array(fcinfo, n + 1, leases_name,
										  refuse_null, leases),
						  leases_name);
	order = pgqrs_ascending(*ids, count);
	for (int i = 1; i < count; i++)
		if ((*ids)[order[i - 1]] == (*ids)[order[i]])
			refuse_duplicate_item(ids_name, order[i], order[i - 1],
								  psprintf(INT64_FORMAT, (*ids)[order[i]]));
	pfree(order);
	return count;
}

int
pgqrs_arg_leases(FunctionCallInfo fcinfo, int n, const char *ids_name,
				 const char *leases_name, int64 **ids, int64 **leases)
{
	return arg_leases(fcinfo, n, ids_name, leases_name, true, ids, leases);
}

int
pgqrs_arg_leases_or_none(FunctionCallInfo fcinfo, int n, const char *ids_name,
						 const char *leases_name, int64 **ids, int64 **leases)
{
	return arg_leases(fcinfo, n, ids_name, leases_name, false, ids, leases);
}

int64
pgqrs_arg_worker_or_none(FunctionCallInfo fcinfo, int n)
{
	int64 worker_id = pgqrs_arg_int64_or(fcinfo, n, 0);

	if (!PG_ARGISNULL(n) && worker_id <= 0)
		pgqrs_error_worker_not_found(worker_id);
	return worker_id;
}

int64
pgqrs_arg_lease_time(FunctionCallInfo fcinfo, int n)
{
	int64 timeout = pgqrs_arg_duration_or(fcinfo, n, "visibility_timeout", -1);

	if (timeout == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"visibility_timeout\" is zero"),
				 errhint("Use a positive duration, or NULL for the queue's.")));
	return timeout;
}

int64
pgqrs_arg_timeout(FunctionCallInfo fcinfo, int n)
{
	int64 timeout = pgqrs_arg_duration_or(fcinfo, n, "timeout", -1);

	if (timeout == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"timeout\" is zero"),
				 errhint("Use a positive duration, or NULL for the workflow's.")));
	return timeout;
}

int
pgqrs_arg_run_status(FunctionCallInfo fcinfo, int n)
{
	return pgqrs_arg_enum_or(fcinfo, n, "status", ENUM_RUN_STATUS,
							 RUN_STATUS_COUNT, -1);
}

int
pgqrs_arg_max_attempts(FunctionCallInfo fcinfo, int n)
{
	int value;

	if (PG_ARGISNULL(n))
		return 0;
	value = PG_GETARG_INT32(n);
	if (value < 1 && value != -1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"max_attempts\" is %d", value),
				 errhint("Use 1 or more, or -1 for no limit.")));
	return value;
}

/*
 * The row type of a function with OUT parameters.  The session caches it, since
 * building it from the catalog costs as much as a small read; no command
 * changes the OUT parameters of an existing function.
 */
TupleDesc
pgqrs_result_desc(FunctionCallInfo fcinfo)
{
	static HTAB *known = NULL;
	struct
	{
		Oid function;
		TupleDesc desc;
	} * entry;
	TupleDesc desc;
	MemoryContext caller;

	if (known == NULL)
	{
		HASHCTL ctl = {.keysize = sizeof(Oid), .entrysize = sizeof(*entry)};

		known = hash_create("pgqrs results", 16, &ctl, HASH_ELEM | HASH_BLOBS);
	}
	entry = hash_search(known, &fcinfo->flinfo->fn_oid, HASH_FIND, NULL);
	if (entry != NULL)
		return entry->desc;
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (desc->tdtypeid != RECORDOID)
		return desc;
	caller = MemoryContextSwitchTo(TopMemoryContext);
	desc = BlessTupleDesc(CreateTupleDescCopy(desc));
	MemoryContextSwitchTo(caller);
	entry = hash_search(known, &fcinfo->flinfo->fn_oid, HASH_ENTER, NULL);
	entry->desc = desc;
	return desc;
}

static void
split_columns(TupleDesc desc, const NullableDatum *columns, Datum *values, bool *nulls)
{
	Assert(desc->natts <= MAX_RESULT_COLUMNS);
	for (int i = 0; i < desc->natts; i++)
	{
		values[i] = columns[i].value;
		nulls[i] = columns[i].isnull;
	}
}

Datum
pgqrs_result_row(FunctionCallInfo fcinfo, const NullableDatum *columns)
{
	TupleDesc desc = pgqrs_result_desc(fcinfo);
	Datum values[MAX_RESULT_COLUMNS];
	bool nulls[MAX_RESULT_COLUMNS];

	split_columns(desc, columns, values, nulls);
	return HeapTupleGetDatum(heap_form_tuple(desc, values, nulls));
}

void
pgqrs_result_begin(FunctionCallInfo fcinfo)
{
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
}

void
pgqrs_result_put(FunctionCallInfo fcinfo, const NullableDatum *columns)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Datum values[MAX_RESULT_COLUMNS];
	bool nulls[MAX_RESULT_COLUMNS];

	split_columns(result->setDesc, columns, values, nulls);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

NullableDatum
pgqrs_text_value(const char *text)
{
	return text != NULL ? pgqrs_value(CStringGetTextDatum(text)) : PGQRS_NULL;
}

/* The elements of a one-dimensional text[] without NULLs; empty is allowed. */
static int
get_texts(FunctionCallInfo fcinfo, int n, const char *name, Datum **values)
{
	bool *nulls;

	return pgqrs_arg_array(fcinfo, n, name, TEXTOID, true, values, &nulls);
}

char **
pgqrs_arg_keys_or(FunctionCallInfo fcinfo, int n, const char *name, int *count)
{
	Datum *values;
	char **keys;

	*count = PG_ARGISNULL(n) ? 0 : get_texts(fcinfo, n, name, &values);
	keys = palloc(*count * sizeof(char *));
	for (int i = 0; i < *count; i++)
	{
		keys[i] = TextDatumGetCString(values[i]);
		pgqrs_check_key(keys[i], psprintf("%s[%d]", name, i + 1));
	}
	pgqrs_check_distinct(keys, *count, name);
	return keys;
}

/*
 * Options
 */

static char *
duration_text(int64 duration)
{
	return DatumGetCString(
		DirectFunctionCall1(interval_out,
							IntervalPGetDatum(pgqrs_interval(duration))));
}

static Datum
arg_option_duration(FunctionCallInfo fcinfo, int n, const PgqrsOption *option)
{
	int64 duration = pgqrs_arg_duration(fcinfo, n, option->name);

	if (duration < option->min || duration > option->max)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" is %s", option->name,
						duration_text(duration)),
				 option->min > 0 ?
					 errhint("Use a duration of more than 0 and at most %s.",
							 duration_text(option->max)) :
					 errhint("Use a duration from 0 to %s.",
							 duration_text(option->max))));
	return IntervalPGetDatum(pgqrs_interval(duration));
}

static Datum
arg_option(FunctionCallInfo fcinfo, int n, const PgqrsOption *option)
{
	Datum *values;
	int count;

	switch (option->kind)
	{
		case OPTION_DURATION:
			return arg_option_duration(fcinfo, n, option);
		case OPTION_INTEGER:
			return Int32GetDatum(pgqrs_arg_int(fcinfo, n, option->name,
											   option->min, PG_INT32_MAX));
		case OPTION_TEXTS:
			count = get_texts(fcinfo, n, option->name, &values);
			return PointerGetDatum(construct_array(values, count, TEXTOID, -1,
												   false, TYPALIGN_INT));
		case OPTION_QUEUE:
			return CStringGetTextDatum(pgqrs_arg_name(fcinfo, n, option->name));
		case OPTION_KEY_SCOPE:
			return pgqrs_enum_datum(ENUM_KEY_SCOPE,
									pgqrs_arg_enum(fcinfo, n, option->name,
												   ENUM_KEY_SCOPE, KEY_SCOPE_COUNT));
		case OPTION_ON_CANCEL:
			return pgqrs_enum_datum(ENUM_ON_CANCEL,
									pgqrs_arg_enum(fcinfo, n, option->name,
												   ENUM_ON_CANCEL, ON_CANCEL_COUNT));
		case OPTION_NUMBER:
		case OPTION_BOOLEAN:
		case OPTION_TEXT:
			break;
	}
	return PG_GETARG_DATUM(n);
}

static void
arg_options(FunctionCallInfo fcinfo, PgqrsOptions *options)
{
	for (int i = 0; i < options->count; i++)
		if (!PG_ARGISNULL(i + 1))
			pgqrs_options_give(options, i,
							   arg_option(fcinfo, i + 1, &options->known[i]));
}

void
pgqrs_arg_options_of_create(FunctionCallInfo fcinfo, PgqrsOptions *options)
{
	arg_options(fcinfo, options);
	if (pgqrs_arg_bool_or(fcinfo, options->count + 1, false))
		pgqrs_options_replace(options);
}

void
pgqrs_arg_options_of_alter(FunctionCallInfo fcinfo, PgqrsOptions *options)
{
	int n = options->count + 1;
	Datum *names;
	int count = PG_ARGISNULL(n) ? 0 : get_texts(fcinfo, n, "reset", &names);

	arg_options(fcinfo, options);
	for (int i = 0; i < count; i++)
		pgqrs_options_reset(options, TextDatumGetCString(names[i]));
}

void
pgqrs_arg_new_run(FunctionCallInfo fcinfo, int first, PgqrsNewRun *r)
{
	pgqrs_arg_new_run_after(fcinfo, first, first + 1, r);
}

void
pgqrs_arg_new_run_after(FunctionCallInfo fcinfo, int input, int first,
						PgqrsNewRun *r)
{
	*r = PGQRS_NEW_RUN;
	r->input = pgqrs_arg_json(fcinfo, input, "input");
	r->idempotency_key = pgqrs_arg_key_or_null(fcinfo, first, "idempotency_key");
	r->when = pgqrs_arg_when(fcinfo, first + 1, first + 2);
	r->priority = pgqrs_arg_priority_or(fcinfo, first + 3, 0);
	r->timeout = pgqrs_arg_timeout(fcinfo, first + 4);
	r->tags = pgqrs_arg_json(fcinfo, first + 5, "tags");
	r->headers = pgqrs_arg_json(fcinfo, first + 6, "headers");
	r->retry_policy = pgqrs_arg_json(fcinfo, first + 7, "retry_policy");
	r->on_duplicate = pgqrs_arg_on_duplicate(fcinfo, first + 8);
	r->require_worker = pgqrs_arg_bool_or(fcinfo, first + 9, false);
	pgqrs_arg_concurrency_key(fcinfo, first + 10);
}

void
pgqrs_require_nonatomic(FunctionCallInfo fcinfo, const char *procedure)
{
	CallContext *context = (CallContext *) fcinfo->context;

	if (context == NULL || !IsA(context, CallContext) || context->atomic ||
		IsSubTransaction())
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("%s() cannot wait inside a transaction block", procedure),
				 errdetail("The procedure would keep a snapshot, which holds back vacuum and hides later commits."),
				 errhint("CALL the procedure in autocommit mode: on its own, not between BEGIN and COMMIT, and not in a function.")));
}

int64
pgqrs_arg_wait_timeout(FunctionCallInfo fcinfo, int n, int64 missing)
{
	return (pgqrs_arg_duration_or(fcinfo, n, "timeout", missing) + 999) / 1000;
}
