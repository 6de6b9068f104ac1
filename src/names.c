/*
 * names.c
 *	  What a name, a pattern or a key may look like.
 *
 * A pattern is a name, or "billing.*" for every name that starts with
 * "billing.", or "*".
 */
#include "names.h"

#define MAX_NAME_BYTES	255
#define RESERVED_PREFIX "pgqrs."

static bool
has_control(const char *s)
{
	for (; *s; s++)
		if ((unsigned char) *s < 0x20 || *s == 0x7f)
			return true;
	return false;
}

static void
refuse(const char *argument, const char *value, const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid value for argument \"%s\": \"%s\"", argument, value),
			 errdetail("It %s.", why),
			 errhint("Use 1 to %d bytes without control characters or surrounding blanks.",
					 MAX_NAME_BYTES)));
}

/*
 * A key: a step id, an idempotency key, a worker's name, part of a name.
 */
void
pgqrs_check_key(const char *key, const char *argument)
{
	size_t len = strlen(key);

	if (len == 0)
		refuse(argument, key, "is empty");
	if (len > MAX_NAME_BYTES)
		refuse(argument, key, "is longer than 255 bytes");
	if (has_control(key))
		refuse(argument, key, "contains a control character");
}

void
pgqrs_check_name(const char *name, const char *argument)
{
	pgqrs_check_key(name, argument);
	if (name[0] == ' ' || name[strlen(name) - 1] == ' ')
		refuse(argument, name, "begins or ends with a blank");
	if (strchr(name, '*') != NULL)
		refuse(argument, name, "contains an asterisk, which only patterns may");
	if (strncmp(name, RESERVED_PREFIX, strlen(RESERVED_PREFIX)) == 0)
		refuse(argument, name, "begins with \"pgqrs.\", which is reserved");
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
	if (strcmp(pattern, "*") == 0)
		return;
	if (pgqrs_is_pattern(pattern))
		pgqrs_check_name(pnstrdup(pattern, strlen(pattern) - 2), argument);
	else
		pgqrs_check_name(pattern, argument);
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
