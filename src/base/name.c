/*
 * name.c
 *	  Names of queues and workflows, patterns over names, and other keys: the
 *	  rules that each must follow.
 *
 * A pattern is a name, or "billing.*" for every name that starts with
 * "billing.", or "*".
 */
#include "base/name.h"

#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "utils/array.h"
#include "utils/builtins.h"

#define MAX_NAME_BYTES	255
#define RESERVED_PREFIX "pgqrs."

static const char name_hint[] = "Use 1 to 255 bytes without control characters or surrounding blanks.";
static const char pattern_hint[] = "Use a name, or a name followed by \".*\" for all names that begin with that name and a dot, or \"*\" for all.";
static const char reserved_hint[] = "Use another name: names that begin with \"pgqrs.\" are reserved for the extension.";

/* Control characters of ASCII and, in UTF-8, those of C1. */
static bool
has_control(const char *s)
{
	for (; *s; s++)
	{
		unsigned char c = (unsigned char) *s;
		unsigned char next = (unsigned char) s[1];

		if (c < 0x20 || c == 0x7f)
			return true;
		if (c == 0xc2 && next >= 0x80 && next <= 0x9f &&
			GetDatabaseEncoding() == PG_UTF8)
			return true;
	}
	return false;
}

/* The printable characters that Unicode calls white space. */
static bool
is_blank(pg_wchar c)
{
	switch (c)
	{
		case ' ':
		case 0x00a0:
		case 0x1680:
		case 0x2028:
		case 0x2029:
		case 0x202f:
		case 0x205f:
		case 0x3000:
			return true;
		default:
			return c >= 0x2000 && c <= 0x200a;
	}
}

static bool
is_blank_at(const char *s)
{
	if (!IS_HIGHBIT_SET(*s) || GetDatabaseEncoding() != PG_UTF8)
		return *s == ' ';
	return is_blank(utf8_to_unicode((const unsigned char *) s));
}

/* name: not empty */
static bool
has_outer_blank(const char *name)
{
	const char *last = name + strlen(name) - 1;

	if (GetDatabaseEncoding() == PG_UTF8)
		while (last > name && ((unsigned char) *last & 0xc0) == 0x80)
			last--;
	return is_blank_at(name) || is_blank_at(last);
}

static void
refuse_name(const char *argument, const char *value, const char *detail,
			const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid value for argument \"%s\": \"%s\"", argument, value),
			 errdetail("%s", detail), errhint("%s", hint)));
}

/* value: the argument as given, of which key may be a part */
static void
check_key(const char *key, const char *argument, const char *value, const char *hint)
{
	size_t len = strlen(key);

	if (len == 0)
		refuse_name(argument, value, "The value is empty.", hint);
	if (len > MAX_NAME_BYTES)
		refuse_name(argument, value, "The value is longer than 255 bytes.", hint);
	if (has_control(key))
		refuse_name(argument, value, "The value contains a control character.",
					hint);
}

static void
check_name(const char *name, const char *argument, const char *value,
		   const char *hint)
{
	check_key(name, argument, value, hint);
	if (has_outer_blank(name))
		refuse_name(argument, value, "The value begins or ends with a blank.", hint);
	if (strncmp(name, RESERVED_PREFIX, strlen(RESERVED_PREFIX)) == 0)
		refuse_name(argument, value,
					"The value begins with \"pgqrs.\", which is reserved.",
					reserved_hint);
}

/*
 * Checks a key: a step id, an idempotency key or a worker's name.
 */
void
pgqrs_check_key(const char *key, const char *argument)
{
	check_key(key, argument, key, name_hint);
}

void
pgqrs_check_name(const char *name, const char *argument)
{
	check_name(name, argument, name, name_hint);
	if (strchr(name, '*') != NULL)
		refuse_name(argument, name,
					"The value contains an asterisk, which only patterns may contain.",
					name_hint);
}

bool
pgqrs_is_pattern(const char *pattern)
{
	size_t len = strlen(pattern);

	return strcmp(pattern, "*") == 0 ||
		(len > 2 && strcmp(pattern + len - 2, ".*") == 0);
}

void
pgqrs_check_pattern(const char *pattern, const char *argument)
{
	const char *name = pattern;

	if (strcmp(pattern, "*") == 0)
		return;
	if (pgqrs_is_pattern(pattern))
		name = pnstrdup(pattern, strlen(pattern) - 2);
	check_name(name, argument, pattern, pattern_hint);
	if (strchr(name, '*') != NULL)
		refuse_name(argument, pattern,
					"An asterisk must be the whole pattern or follow a dot at its end.",
					pattern_hint);
}

bool
pgqrs_pattern_matches(const char *pattern, const char *name)
{
	if (strcmp(pattern, "*") == 0)
		return true;
	if (pgqrs_is_pattern(pattern))
		return strncmp(pattern, name, strlen(pattern) - 1) == 0;
	return strcmp(pattern, name) == 0;
}

bool
pgqrs_any_pattern_matches(const List *patterns, const char *name)
{
	ListCell *lc;

	foreach(lc, patterns)
		if (pgqrs_pattern_matches(lfirst(lc), name))
			return true;
	return false;
}

const char *
pgqrs_narrower_pattern(const char *a, const char *b)
{
	if (pgqrs_pattern_matches(a, b))
		return b;
	return pgqrs_pattern_matches(b, a) ? a : NULL;
}

/* Names that begin with a text; with its end included, the name itself. */
typedef struct Prefix
{
	const char *text;
	size_t length;
} Prefix;

static int
compare_prefix(const void *key, const void *element)
{
	const Prefix *prefix = key;

	return strncmp(prefix->text, *(const char *const *) element, prefix->length);
}

bool
pgqrs_pattern_finds(const char *pattern, const char **names, int count)
{
	size_t length = strlen(pattern);
	Prefix prefix = {pattern, pgqrs_is_pattern(pattern) ? length - 1 : length + 1};

	return bsearch(&prefix, names, count, sizeof(char *), compare_prefix) != NULL;
}

bool
pgqrs_next_pattern(const char *name, int *length, char *pattern)
{
	for (int i = *length; i < PGQRS_PATTERN_SIZE - 2 && name[i] != '\0'; i++)
	{
		pattern[i] = name[i];
		if (name[i] != '.')
			continue;
		strcpy(&pattern[i + 1], "*");
		*length = i + 1;
		return true;
	}
	return false;
}

List *
pgqrs_text_list(Datum array)
{
	List *list = NIL;
	Datum *values;
	bool *nulls;
	int count;

	deconstruct_array(DatumGetArrayTypeP(array), TEXTOID, -1, false,
					  TYPALIGN_INT, &values, &nulls, &count);
	for (int i = 0; i < count; i++)
		if (!nulls[i])
			list = lappend(list, TextDatumGetCString(values[i]));
	return list;
}

static int
compare_keys(const void *a, const void *b, void *arg)
{
	char **keys = arg;
	int x = *(const int *) a;
	int y = *(const int *) b;
	int result;

	if (keys[x] == NULL || keys[y] == NULL)
		result = (keys[x] == NULL) - (keys[y] == NULL);
	else
		result = strcmp(keys[x], keys[y]);
	return result != 0 ? result : x - y;
}

int *
pgqrs_key_order(char **keys, int count)
{
	int *order = palloc(count * sizeof(int));

	for (int i = 0; i < count; i++)
		order[i] = i;
	qsort_arg(order, count, sizeof(int), compare_keys, keys);
	return order;
}
