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
#include "utils/builtins.h"
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
put_string(JsonbParseState **state, JsonbIteratorToken token, const char *s)
{
	JsonbValue v;

	v.type = jbvString;
	v.val.string.val = unconstify(char *, s);
	v.val.string.len = strlen(s);
	pushJsonbValue(state, token, &v);
}

static void
put_number(JsonbParseState **state, JsonbIteratorToken token, int64 n)
{
	JsonbValue v;

	v.type = jbvNumeric;
	v.val.numeric = int64_to_numeric(n);
	pushJsonbValue(state, token, &v);
}

static void
put_jsonb(JsonbParseState **state, JsonbIteratorToken token, Jsonb *jb)
{
	JsonbValue v;

	if (!JB_ROOT_IS_SCALAR(jb) || !JsonbExtractScalar(&jb->root, &v))
	{
		v.type = jbvBinary;
		v.val.binary.data = &jb->root;
		v.val.binary.len = VARSIZE(jb) - VARHDRSZ;
	}
	pushJsonbValue(state, token, &v);
}

Datum
pgqrs_json_null(void)
{
	JsonbValue v;

	v.type = jbvNull;
	return JsonbPGetDatum(JsonbValueToJsonb(&v));
}

/* {"type": type, "message": message} */
Datum
pgqrs_json_error(const char *type, const char *message)
{
	JsonbParseState *state = NULL;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	put_string(&state, WJB_KEY, "type");
	put_string(&state, WJB_VALUE, type);
	put_string(&state, WJB_KEY, "message");
	put_string(&state, WJB_VALUE, message);
	return JsonbPGetDatum(
		JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL)));
}

/* Payload of the message of a run: {"run_id": N} */
Datum
pgqrs_json_run_payload(int64 run_id)
{
	JsonbParseState *state = NULL;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	put_string(&state, WJB_KEY, "run_id");
	put_number(&state, WJB_VALUE, run_id);
	return JsonbPGetDatum(
		JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL)));
}

/*
 * Appends {"attempt", "at", "error"} to the history and keeps the last ten
 * failures.
 */
Datum
pgqrs_json_append_failure(NullableDatum history, int attempt, TimestampTz at,
						  Datum error)
{
	JsonbParseState *state = NULL;
	Jsonb *old = history.isnull ? NULL : DatumGetJsonbP(history.value);
	int count = old ? JB_ROOT_COUNT(old) : 0;

	pushJsonbValue(&state, WJB_BEGIN_ARRAY, NULL);
	for (int i = Max(0, count - (HISTORY_LENGTH - 1)); i < count; i++)
		pushJsonbValue(&state, WJB_ELEM,
					   getIthJsonbValueFromContainer(&old->root, i));
	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	put_string(&state, WJB_KEY, "attempt");
	put_number(&state, WJB_VALUE, attempt);
	put_string(&state, WJB_KEY, "at");
	put_string(&state, WJB_VALUE, timestamptz_to_str(at));
	put_string(&state, WJB_KEY, "error");
	put_jsonb(&state, WJB_VALUE, DatumGetJsonbP(error));
	pushJsonbValue(&state, WJB_END_OBJECT, NULL);
	return JsonbPGetDatum(
		JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_ARRAY, NULL)));
}

/*
 * The string under a key; NULL if value is not an object or has no string
 * there.
 */
char *
pgqrs_json_text(Datum value, const char *key)
{
	Jsonb *jb = DatumGetJsonbP(value);
	JsonbValue v;

	if (!JB_ROOT_IS_OBJECT(jb) ||
		getKeyJsonValueFromContainer(&jb->root, key, strlen(key), &v) == NULL ||
		v.type != jbvString)
		return NULL;
	return pnstrdup(v.val.string.val, v.val.string.len);
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
	JsonbParseState *state = NULL;
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

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	if (type != NULL)
	{
		type[pg_mbcliplen(type, strlen(type), EXCERPT_BYTES / 4)] = '\0';
		put_string(&state, WJB_KEY, "type");
		put_string(&state, WJB_VALUE, type);
	}
	text[pg_mbcliplen(text, strlen(text), EXCERPT_BYTES / 2)] = '\0';
	put_string(&state, WJB_KEY, "message");
	put_string(&state, WJB_VALUE, text);
	put_string(&state, WJB_KEY, "truncated");
	pushJsonbValue(&state, WJB_VALUE,
				   &(JsonbValue){.type = jbvBool, .val.boolean = true});
	return JsonbPGetDatum(
		JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL)));
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

static void
put_text(JsonbParseState **state, const char *key, const char *value)
{
	put_string(state, WJB_KEY, key);
	put_string(state, WJB_VALUE, value);
}

static void
put_int64(JsonbParseState **state, const char *key, int64 value)
{
	put_string(state, WJB_KEY, key);
	put_number(state, WJB_VALUE, value);
}

/* To the microsecond, in UTC, independent of the session's settings. */
static void
put_instant(JsonbParseState **state, const char *key, TimestampTz at)
{
	char text[128];
	int utc = 0;

	JsonEncodeDateTime(text, TimestampTzGetDatum(at), TIMESTAMPTZOID, &utc);
	put_text(state, key, pstrdup(text));
}

static Datum
end_object(JsonbParseState **state)
{
	return JsonbPGetDatum(
		JsonbValueToJsonb(pushJsonbValue(state, WJB_END_OBJECT, NULL)));
}

/*
 * Objects built by callers
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
	put_string(&json->state, WJB_KEY, key);
	pushJsonbValue(&json->state, WJB_BEGIN_OBJECT, NULL);
}

void
pgqrs_json_end_inner(PgqrsJson *json)
{
	pushJsonbValue(&json->state, WJB_END_OBJECT, NULL);
}

void
pgqrs_json_put_text(PgqrsJson *json, const char *key, const char *value)
{
	put_text(&json->state, key, value);
}

void
pgqrs_json_put_int64(PgqrsJson *json, const char *key, int64 value)
{
	put_int64(&json->state, key, value);
}

void
pgqrs_json_put_true(PgqrsJson *json, const char *key)
{
	put_string(&json->state, WJB_KEY, key);
	pushJsonbValue(&json->state, WJB_VALUE,
				   &(JsonbValue){.type = jbvBool, .val.boolean = true});
}

void
pgqrs_json_put_instant(PgqrsJson *json, const char *key, TimestampTz at)
{
	put_instant(&json->state, key, at);
}

void
pgqrs_json_put_json(PgqrsJson *json, const char *key, Datum value)
{
	put_string(&json->state, WJB_KEY, key);
	put_jsonb(&json->state, WJB_VALUE, DatumGetJsonbP(value));
}

Datum
pgqrs_json_end(PgqrsJson *json)
{
	return end_object(&json->state);
}

/*
 * Inputs of waiting steps
 */

/* {"until": until} */
Datum
pgqrs_json_until(TimestampTz until)
{
	JsonbParseState *state = NULL;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	put_instant(&state, "until", until);
	return end_object(&state);
}

static void
put_json_or_null(JsonbParseState **state, const char *key, NullableDatum value)
{
	JsonbValue null = {.type = jbvNull};

	put_string(state, WJB_KEY, key);
	if (value.isnull)
		pushJsonbValue(state, WJB_VALUE, &null);
	else
		put_jsonb(state, WJB_VALUE, DatumGetJsonbP(value.value));
}

/* {"signal": signal, "deadline": deadline}; no deadline: DT_NOEND */
Datum
pgqrs_json_signal_wait(const char *signal, TimestampTz deadline, NullableDatum headers)
{
	JsonbParseState *state = NULL;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	put_text(&state, "signal", signal);
	if (!TIMESTAMP_IS_NOEND(deadline))
		put_instant(&state, "deadline", deadline);
	if (!headers.isnull)
		put_json_or_null(&state, "headers", headers);
	return end_object(&state);
}

/* {"run_id": run_id, "status": status}; no status: NULL */
Datum
pgqrs_json_child(int64 run_id, const char *status)
{
	JsonbParseState *state = NULL;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	put_int64(&state, "run_id", run_id);
	if (status != NULL)
		put_text(&state, "status", status);
	return end_object(&state);
}

/* {"run_ids": [run_ids], "status": status}; no status: NULL */
Datum
pgqrs_json_children(const int64 *run_ids, int count, const char *status)
{
	JsonbParseState *state = NULL;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	put_string(&state, WJB_KEY, "run_ids");
	pushJsonbValue(&state, WJB_BEGIN_ARRAY, NULL);
	for (int i = 0; i < count; i++)
		put_number(&state, WJB_ELEM, run_ids[i]);
	pushJsonbValue(&state, WJB_END_ARRAY, NULL);
	if (status != NULL)
		put_text(&state, "status", status);
	return end_object(&state);
}

/* {"truncated": true} */
Datum
pgqrs_json_truncated(void)
{
	JsonbValue yes = {.type = jbvBool, .val.boolean = true};
	JsonbParseState *state = NULL;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	put_string(&state, WJB_KEY, "truncated");
	pushJsonbValue(&state, WJB_VALUE, &yes);
	return end_object(&state);
}

/*
 * {"run_ids": [run_ids], "any": results}; NULL: null, the results are still in
 * the output
 */
Datum
pgqrs_json_set_any(Datum children, NullableDatum results)
{
	JsonbParseState *state = NULL;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	put_json_or_null(&state, "any", results);
	return DirectFunctionCall2(jsonb_concat, children, end_object(&state));
}

/* [{"run_id", "status", "output", "error"}], null for missing values */
Datum
pgqrs_json_child_ends(const PgqrsChildEnd *ends, int count)
{
	JsonbParseState *state = NULL;

	pushJsonbValue(&state, WJB_BEGIN_ARRAY, NULL);
	for (int i = 0; i < count; i++)
	{
		pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
		put_int64(&state, "run_id", ends[i].run_id);
		put_text(&state, "status", ends[i].status);
		put_json_or_null(&state, "output", ends[i].output);
		put_json_or_null(&state, "error", ends[i].error);
		pushJsonbValue(&state, WJB_END_OBJECT, NULL);
	}
	return JsonbPGetDatum(
		JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_ARRAY, NULL)));
}

NullableDatum
pgqrs_json_value(Datum object, const char *key)
{
	JsonbContainer *root = &DatumGetJsonbP(object)->root;
	JsonbValue *found = NULL;

	if (JsonContainerIsObject(root))
		found = getKeyJsonValueFromContainer(root, key, strlen(key), NULL);
	return found == NULL ? PGQRS_NULL :
						   pgqrs_value(JsonbPGetDatum(JsonbValueToJsonb(found)));
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
	JsonbParseState *state = NULL;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	put_instant(&state, key, at);
	return DirectFunctionCall2(jsonb_concat, object, end_object(&state));
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
	Jsonb *jb = DatumGetJsonbP(object);
	JsonbValue v;

	if (!JB_ROOT_IS_OBJECT(jb) ||
		getKeyJsonValueFromContainer(&jb->root, key, strlen(key), &v) == NULL ||
		v.type != jbvNumeric)
		return false;
	*number = number_value(&v);
	return true;
}

static JsonbContainer *
array_value(Datum object, const char *key)
{
	Jsonb *jb = DatumGetJsonbP(object);
	JsonbValue v;

	if (!JB_ROOT_IS_OBJECT(jb) ||
		getKeyJsonValueFromContainer(&jb->root, key, strlen(key), &v) == NULL ||
		v.type != jbvBinary || !JsonContainerIsArray(v.val.binary.data))
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
