/*
 * json.c
 *	  JSON values that the extension itself builds or reads.
 */
#include "base/json.h"

#include "access/detoast.h"
#include "base/errors.h"
#include "base/guc.h"
#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/numeric.h"

/* Failures kept in the history of a step. */
#define HISTORY_LENGTH 10

/* Bytes kept of an oversized error. */
#define EXCERPT_BYTES 1024

/*
 * Deeper values are refused.  Stored values are later nested into other values
 * (events, histories, results of children); a value at PostgreSQL's own limit,
 * that of the stack, would not fit, and its run could not end.
 */
#define MAX_LEVELS 1000

/* Size of an array with one element, without that element. */
#define MIN_LEVEL_BYTES (sizeof(JsonbContainer) + sizeof(JEntry))

static void
put_string(PgqrsJson *json, JsonbIteratorToken token, const char *s)
{
	JsonbValue v;

	v.type = jbvString;
	v.val.string.val = unconstify(char *, s);
	v.val.string.len = strlen(s);
	pushJsonbValue(&json->state, token, &v);
}

static void
put_number(PgqrsJson *json, JsonbIteratorToken token, int64 n)
{
	JsonbValue v;

	v.type = jbvNumeric;
	v.val.numeric = int64_to_numeric(n);
	pushJsonbValue(&json->state, token, &v);
}

/* Ends the value itself, or an array or object in it. */
static JsonbValue *
put_end(PgqrsJson *json, JsonbIteratorToken token)
{
	return pushJsonbValue(&json->state, token, NULL);
}

/*
 * Objects
 */

void
pgqrs_json_begin(PgqrsJson *json)
{
	json->state = NULL;
	pushJsonbValue(&json->state, WJB_BEGIN_OBJECT, NULL);
}

/* Begins an object nested in the object. */
void
pgqrs_json_begin_inner(PgqrsJson *json, const char *key)
{
	put_string(json, WJB_KEY, key);
	pushJsonbValue(&json->state, WJB_BEGIN_OBJECT, NULL);
}

void
pgqrs_json_end_inner(PgqrsJson *json)
{
	put_end(json, WJB_END_OBJECT);
}

void
pgqrs_json_put_text(PgqrsJson *json, const char *key, const char *value)
{
	put_string(json, WJB_KEY, key);
	put_string(json, WJB_VALUE, value);
}

void
pgqrs_json_put_int64(PgqrsJson *json, const char *key, int64 value)
{
	put_string(json, WJB_KEY, key);
	put_number(json, WJB_VALUE, value);
}

void
pgqrs_json_put_bool(PgqrsJson *json, const char *key, bool value)
{
	put_string(json, WJB_KEY, key);
	pushJsonbValue(&json->state, WJB_VALUE,
				   &(JsonbValue){.type = jbvBool, .val.boolean = value});
}

/* To the microsecond, in UTC, independent of the session's settings. */
void
pgqrs_json_put_instant(PgqrsJson *json, const char *key, TimestampTz at)
{
	char text[128];
	int utc = 0;

	JsonEncodeDateTime(text, TimestampTzGetDatum(at), TIMESTAMPTZOID, &utc);
	pgqrs_json_put_text(json, key, pstrdup(text));
}

static void
put_json(PgqrsJson *json, JsonbIteratorToken token, Datum value)
{
	Jsonb *jb = DatumGetJsonbP(value);
	JsonbValue v;

	if (!JB_ROOT_IS_SCALAR(jb) || !JsonbExtractScalar(&jb->root, &v))
	{
		v.type = jbvBinary;
		v.val.binary.data = &jb->root;
		v.val.binary.len = VARSIZE(jb) - VARHDRSZ;
	}
	pushJsonbValue(&json->state, token, &v);
}

void
pgqrs_json_put_json(PgqrsJson *json, const char *key, Datum value)
{
	put_string(json, WJB_KEY, key);
	put_json(json, WJB_VALUE, value);
}

void
pgqrs_json_put_json_or_null(PgqrsJson *json, const char *key, NullableDatum value)
{
	pgqrs_json_put_json(json, key, value.isnull ? pgqrs_json_null() : value.value);
}

Datum
pgqrs_json_end(PgqrsJson *json)
{
	return JsonbPGetDatum(JsonbValueToJsonb(put_end(json, WJB_END_OBJECT)));
}

static Datum
end_array(PgqrsJson *json)
{
	return JsonbPGetDatum(JsonbValueToJsonb(put_end(json, WJB_END_ARRAY)));
}

Datum
pgqrs_json_array(const Datum *values, int count)
{
	PgqrsJson json = {NULL};

	pushJsonbValue(&json.state, WJB_BEGIN_ARRAY, NULL);
	for (int i = 0; i < count; i++)
		put_json(&json, WJB_ELEM, values[i]);
	return end_array(&json);
}

Datum
pgqrs_json_merge(Datum object, Datum more)
{
	return DirectFunctionCall2(jsonb_concat, object, more);
}

Datum
pgqrs_json_null(void)
{
	JsonbValue v;

	v.type = jbvNull;
	return JsonbPGetDatum(JsonbValueToJsonb(&v));
}

/* {"sqlstate": sqlstate} */
Datum
pgqrs_json_sqlstate(int sqlstate)
{
	PgqrsJson json;

	pgqrs_json_begin(&json);
	pgqrs_json_put_text(&json, "sqlstate", unpack_sql_state(sqlstate));
	return pgqrs_json_end(&json);
}

/* {"type": type, "message": message} */
Datum
pgqrs_json_error(const char *type, const char *message)
{
	PgqrsJson json;

	pgqrs_json_begin(&json);
	pgqrs_json_put_text(&json, "type", type);
	pgqrs_json_put_text(&json, "message", message);
	return pgqrs_json_end(&json);
}

/*
 * Appends {"attempt", "at", "error"} to the history and keeps the last ten
 * failures.
 */
Datum
pgqrs_json_append_failure(NullableDatum history, int attempt, TimestampTz at,
						  Datum error)
{
	PgqrsJson json = {NULL};
	Jsonb *old = history.isnull ? NULL : DatumGetJsonbP(history.value);
	int count = old ? JB_ROOT_COUNT(old) : 0;

	pushJsonbValue(&json.state, WJB_BEGIN_ARRAY, NULL);
	for (int i = Max(0, count - (HISTORY_LENGTH - 1)); i < count; i++)
		pushJsonbValue(&json.state, WJB_ELEM,
					   getIthJsonbValueFromContainer(&old->root, i));
	pushJsonbValue(&json.state, WJB_BEGIN_OBJECT, NULL);
	pgqrs_json_put_int64(&json, "attempt", attempt);
	pgqrs_json_put_text(&json, "at", timestamptz_to_str(at));
	pgqrs_json_put_json(&json, "error", error);
	pgqrs_json_end_inner(&json);
	return end_array(&json);
}

/* The member of an object, if that is one and has it. */
static bool
get_member(Datum object, const char *key, JsonbValue *member)
{
	Jsonb *jb = DatumGetJsonbP(object);

	return JB_ROOT_IS_OBJECT(jb) &&
		getKeyJsonValueFromContainer(&jb->root, key, strlen(key), member) != NULL;
}

/*
 * The string under a key; NULL if value is not an object or has no string
 * there.
 */
char *
pgqrs_json_text(Datum object, const char *key)
{
	JsonbValue v;

	if (!get_member(object, key, &v) || v.type != jbvString)
		return NULL;
	return pnstrdup(v.val.string.val, v.val.string.len);
}

/* Whether there is an error, and of that type. */
bool
pgqrs_json_is_error(NullableDatum error, const char *type)
{
	char *found = error.isnull ? NULL : pgqrs_json_text(error.value, "type");

	return found != NULL && strcmp(found, type) == 0;
}

/* Size in bytes, detoasted and decompressed; also of text values. */
Size
pgqrs_json_size(Datum value)
{
	return toast_raw_datum_size(value);
}

static bool
is_deeper_than(JsonbContainer *container, int levels)
{
	int count = JsonContainerSize(container) *
		(JsonContainerIsObject(container) ? 2 : 1);
	char *data = (char *) &container->children[count];
	uint32 offset = 0;

	if (levels == 0)
		return true;
	for (int i = 0; i < count; i++)
	{
		JEntry entry = container->children[i];

		if (JBE_ISCONTAINER(entry) &&
			is_deeper_than((JsonbContainer *) (data + INTALIGN(offset)), levels - 1))
			return true;
		JBE_ADVANCE_OFFSET(offset, entry);
	}
	return false;
}

/*
 * Whether the value is nested too deeply.  A small value cannot be, and is not
 * read.
 */
static bool
is_too_deep(Datum value)
{
	return pgqrs_json_size(value) > MAX_LEVELS * MIN_LEVEL_BYTES &&
		is_deeper_than(&DatumGetJsonbP(value)->root, MAX_LEVELS);
}

/*
 * Refuses a value larger than pgqrs.payload_max or nested too deeply, and warns
 * of a value larger than pgqrs.payload_warn. index: 1-based index in a batch,
 * or 0.
 */
void
pgqrs_json_check(Datum value, const char *argument, int index)
{
	Size size = pgqrs_json_size(value);
	char *item = index > 0 ? psprintf(" (item %d)", index) : "";

	if (size > (Size) pgqrs_payload_max)
		ereport(ERROR,
				(errcode(ERRCODE_PGQRS_PAYLOAD_TOO_LARGE),
				 errmsg("value of \"%s\"%s is too large", argument, item),
				 errdetail("It has %zu bytes; pgqrs.payload_max allows %d.",
						   size, pgqrs_payload_max),
				 errhint("Store it elsewhere and pass a reference, or have pgqrs.payload_max raised.")));
	if (is_too_deep(value))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("value of \"%s\"%s is nested too deeply", argument, item),
				 errdetail("At most %d levels of arrays and objects are allowed.",
						   MAX_LEVELS),
				 errhint("Pass it as a JSON string, or store it elsewhere and pass a reference.")));
	if (size > (Size) pgqrs_payload_warn)
		ereport(WARNING,
				(errmsg("value of \"%s\"%s has %zu bytes, more than pgqrs.payload_warn",
						argument, item, size),
				 errhint("Store it elsewhere and pass a reference.")));
}

/*
 * Returns an error that fits unchanged.  Errors are never lost: of an error
 * that is too large or nested too deeply, the type and the beginning of the
 * text are kept, marked "truncated".
 */
Datum
pgqrs_json_cap_error(Datum error)
{
	PgqrsJson json;
	Jsonb *jb;
	char *type;
	char *text;

	if (pgqrs_json_size(error) <= (Size) pgqrs_payload_max && !is_too_deep(error))
		return error;

	jb = DatumGetJsonbP(error);
	type = pgqrs_json_text(error, "type");
	text = pgqrs_json_text(error, "message");
	if (text == NULL)
		text = JsonbToCString(NULL, &jb->root, VARSIZE(jb));

	pgqrs_json_begin(&json);
	if (type != NULL)
	{
		type[pg_mbcliplen(type, strlen(type), EXCERPT_BYTES / 4)] = '\0';
		pgqrs_json_put_text(&json, "type", type);
	}
	text[pg_mbcliplen(text, strlen(text), EXCERPT_BYTES / 2)] = '\0';
	pgqrs_json_put_text(&json, "message", text);
	pgqrs_json_put_bool(&json, "truncated", true);
	return pgqrs_json_end(&json);
}

/*
 * Excerpts for readers
 */

/* Deepest indented level. */
#define MAX_INDENT 20

typedef struct Excerpt
{
	StringInfoData text;
	int max; /* bytes, after which nothing is added */
	int level;
	bool has_element; /* in the innermost array or object */
	bool has_key;	  /* a key was just added */
} Excerpt;

/* Line break and indentation before an element, a key or a closing bracket. */
static void
begin_line(Excerpt *e, bool comma)
{
	if (comma)
		appendStringInfoChar(&e->text, ',');
	appendStringInfoChar(&e->text, '\n');
	appendStringInfoSpaces(&e->text, 4 * Min(e->level, MAX_INDENT));
}

static void
begin_element(Excerpt *e)
{
	if (!e->has_key && e->level > 0)
		begin_line(e, e->has_element);
	e->has_element = true;
	e->has_key = false;
}

static void
add_scalar(Excerpt *e, const JsonbValue *v)
{
	if (v->type == jbvString)
		escape_json(&e->text,
					pnstrdup(v->val.string.val,
							 pg_mbcliplen(v->val.string.val, v->val.string.len,
										  e->max)));
	else if (v->type == jbvNumeric)
		appendStringInfoString(&e->text,
							   DatumGetCString(
								   DirectFunctionCall1(numeric_out,
													   NumericGetDatum(
														   v->val.numeric))));
	else if (v->type == jbvBool)
		appendStringInfoString(&e->text, v->val.boolean ? "true" : "false");
	else
		appendStringInfoString(&e->text, "null");
}

static void
add_token(Excerpt *e, JsonbIteratorToken token, const JsonbValue *v)
{
	switch (token)
	{
		case WJB_BEGIN_ARRAY:
		case WJB_BEGIN_OBJECT:
			begin_element(e);
			appendStringInfoChar(&e->text, token == WJB_BEGIN_ARRAY ? '[' : '{');
			e->level++;
			e->has_element = false;
			break;
		case WJB_END_ARRAY:
		case WJB_END_OBJECT:
			e->level--;
			begin_line(e, false);
			appendStringInfoChar(&e->text, token == WJB_END_ARRAY ? ']' : '}');
			e->has_element = true;
			break;
		default:
			begin_element(e);
			add_scalar(e, v);
			if (token == WJB_KEY)
				appendStringInfoString(&e->text, ": ");
			e->has_key = token == WJB_KEY;
			break;
	}
}

/*
 * Like jsonb_pretty(), but bounded: the indentation of a deep and wide value
 * can be a thousand times larger than the value.
 */
char *
pgqrs_json_excerpt(Datum value, int max)
{
	Jsonb *jb = DatumGetJsonbP(value);
	bool is_scalar = JB_ROOT_IS_SCALAR(jb);
	JsonbIterator *it = JsonbIteratorInit(&jb->root);
	JsonbIteratorToken token;
	JsonbValue v;
	Excerpt e = {.max = max};

	initStringInfo(&e.text);
	while (e.text.len <= max && (token = JsonbIteratorNext(&it, &v, false)) != WJB_DONE)
		if (!is_scalar || token == WJB_ELEM)
			add_token(&e, token, &v);
	return e.text.data;
}

/*
 * Inputs of waiting steps
 */

/* {"until": until} */
Datum
pgqrs_json_until(TimestampTz until)
{
	PgqrsJson json;

	pgqrs_json_begin(&json);
	pgqrs_json_put_instant(&json, "until", until);
	return pgqrs_json_end(&json);
}

/* {"signal": signal, "deadline": deadline}; no deadline: DT_NOEND */
Datum
pgqrs_json_signal_wait(const char *signal, TimestampTz deadline, NullableDatum headers)
{
	PgqrsJson json;

	pgqrs_json_begin(&json);
	pgqrs_json_put_text(&json, "signal", signal);
	if (!TIMESTAMP_IS_NOEND(deadline))
		pgqrs_json_put_instant(&json, "deadline", deadline);
	if (!headers.isnull)
		pgqrs_json_put_json(&json, "headers", headers.value);
	return pgqrs_json_end(&json);
}

static void
put_numbers(PgqrsJson *json, const char *key, const int64 *numbers, int count)
{
	put_string(json, WJB_KEY, key);
	pushJsonbValue(&json->state, WJB_BEGIN_ARRAY, NULL);
	for (int i = 0; i < count; i++)
		put_number(json, WJB_ELEM, numbers[i]);
	put_end(json, WJB_END_ARRAY);
}

static void
put_texts(PgqrsJson *json, const char *key, char **texts, int count)
{
	put_string(json, WJB_KEY, key);
	pushJsonbValue(&json->state, WJB_BEGIN_ARRAY, NULL);
	for (int i = 0; i < count; i++)
		put_string(json, WJB_ELEM, texts[i]);
	put_end(json, WJB_END_ARRAY);
}

/* {"signals": […], "children": [steps], "run_ids": […], "deadline": deadline} */
Datum
pgqrs_json_any_wait(const PgqrsAnyWait *wait)
{
	PgqrsJson json;

	pgqrs_json_begin(&json);
	put_texts(&json, "signals", wait->signals, wait->signal_count);
	put_texts(&json, "children", wait->children, wait->child_count);
	put_numbers(&json, "run_ids", wait->run_ids, wait->child_count);
	if (!TIMESTAMP_IS_NOEND(wait->deadline))
		pgqrs_json_put_instant(&json, "deadline", wait->deadline);
	return pgqrs_json_end(&json);
}

/* {"source": source, "name": name}; no name: NULL */
Datum
pgqrs_json_any_taken(const char *source, const char *name)
{
	PgqrsJson json;

	pgqrs_json_begin(&json);
	pgqrs_json_put_text(&json, "source", source);
	if (name != NULL)
		pgqrs_json_put_text(&json, "name", name);
	return pgqrs_json_end(&json);
}

/* {"source", "name", "payload"}, null for missing values */
Datum
pgqrs_json_any_result(const char *source, const char *name, NullableDatum payload)
{
	NullableDatum no_name = PGQRS_NULL;
	PgqrsJson json;

	pgqrs_json_begin(&json);
	pgqrs_json_put_text(&json, "source", source);
	if (name != NULL)
		pgqrs_json_put_text(&json, "name", name);
	else
		pgqrs_json_put_json_or_null(&json, "name", no_name);
	pgqrs_json_put_json_or_null(&json, "payload", payload);
	return pgqrs_json_end(&json);
}

/* {"run_id": run_id, "status": status}; no status: NULL, as in a run's message */
Datum
pgqrs_json_run(int64 run_id, const char *status)
{
	PgqrsJson json;

	pgqrs_json_begin(&json);
	pgqrs_json_put_int64(&json, "run_id", run_id);
	if (status != NULL)
		pgqrs_json_put_text(&json, "status", status);
	return pgqrs_json_end(&json);
}

/* {"run_ids": [run_ids], "status": status}; no status: NULL */
Datum
pgqrs_json_children(const int64 *run_ids, int count, const char *status)
{
	PgqrsJson json;

	pgqrs_json_begin(&json);
	put_numbers(&json, "run_ids", run_ids, count);
	if (status != NULL)
		pgqrs_json_put_text(&json, "status", status);
	return pgqrs_json_end(&json);
}

/* {"truncated": true} */
Datum
pgqrs_json_truncated(void)
{
	PgqrsJson json;

	pgqrs_json_begin(&json);
	pgqrs_json_put_bool(&json, "truncated", true);
	return pgqrs_json_end(&json);
}

/*
 * {"run_ids": [run_ids], "any": results}; NULL: null, the results are still in
 * the output
 */
Datum
pgqrs_json_set_any(Datum children, NullableDatum results)
{
	PgqrsJson json;

	pgqrs_json_begin(&json);
	pgqrs_json_put_json_or_null(&json, "any", results);
	return DirectFunctionCall2(jsonb_concat, children, pgqrs_json_end(&json));
}

static void
put_child_end(PgqrsJson *json, const PgqrsChildEnd *end)
{
	pgqrs_json_put_text(json, "status", end->status);
	pgqrs_json_put_json_or_null(json, "output", end->output);
	pgqrs_json_put_json_or_null(json, "error", end->error);
}

/* {"status", "output", "error"}, null for missing values */
Datum
pgqrs_json_child_end(const PgqrsChildEnd *end)
{
	PgqrsJson json;

	pgqrs_json_begin(&json);
	put_child_end(&json, end);
	return pgqrs_json_end(&json);
}

/* [{"run_id", "status", "output", "error"}], null for missing values */
Datum
pgqrs_json_child_ends(const PgqrsChildEnd *ends, int count)
{
	PgqrsJson json = {NULL};

	pushJsonbValue(&json.state, WJB_BEGIN_ARRAY, NULL);
	for (int i = 0; i < count; i++)
	{
		pushJsonbValue(&json.state, WJB_BEGIN_OBJECT, NULL);
		pgqrs_json_put_int64(&json, "run_id", ends[i].run_id);
		put_child_end(&json, &ends[i]);
		pgqrs_json_end_inner(&json);
	}
	return end_array(&json);
}

NullableDatum
pgqrs_json_value(Datum object, const char *key)
{
	JsonbValue v;

	if (!get_member(object, key, &v))
		return PGQRS_NULL;
	return pgqrs_value(JsonbPGetDatum(JsonbValueToJsonb(&v)));
}

bool
pgqrs_json_instant(Datum object, const char *key, TimestampTz *at)
{
	char *text = pgqrs_json_text(object, key);

	if (text == NULL)
		return false;
	*at = DatumGetTimestampTz(
		DirectFunctionCall3(timestamptz_in, CStringGetDatum(text),
							ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1)));
	return true;
}

Datum
pgqrs_json_set_instant(Datum object, const char *key, TimestampTz at)
{
	PgqrsJson json;

	pgqrs_json_begin(&json);
	pgqrs_json_put_instant(&json, key, at);
	return DirectFunctionCall2(jsonb_concat, object, pgqrs_json_end(&json));
}

static int64
number_value(const JsonbValue *value)
{
	return DatumGetInt64(
		DirectFunctionCall1(numeric_int8, NumericGetDatum(value->val.numeric)));
}

bool
pgqrs_json_int64(Datum object, const char *key, int64 *number)
{
	JsonbValue v;

	if (!get_member(object, key, &v) || v.type != jbvNumeric)
		return false;
	*number = number_value(&v);
	return true;
}

static JsonbContainer *
array_value(Datum object, const char *key)
{
	JsonbValue v;

	if (!get_member(object, key, &v) || v.type != jbvBinary ||
		!JsonContainerIsArray(v.val.binary.data))
		return NULL;
	return v.val.binary.data;
}

bool
pgqrs_json_is_null(Datum value)
{
	Jsonb *jb = DatumGetJsonbP(value);
	JsonbValue v;

	return JsonbExtractScalar(&jb->root, &v) && v.type == jbvNull;
}

/* Number of elements of the array under a key. */
int
pgqrs_json_count(Datum object, const char *key)
{
	JsonbContainer *array = array_value(object, key);

	return array != NULL ? JsonContainerSize(array) : -1;
}

/* The index-th number, from 0, of the array under a key, which must exist. */
int64
pgqrs_json_element(Datum object, const char *key, int index)
{
	return number_value(
		getIthJsonbValueFromContainer(array_value(object, key), index));
}

/* The same for a text; NULL if the element is none. */
char *
pgqrs_json_element_text(Datum object, const char *key, int index)
{
	JsonbValue *v = getIthJsonbValueFromContainer(array_value(object, key), index);

	return v->type == jbvString ? pnstrdup(v->val.string.val, v->val.string.len) :
								  NULL;
}
