/*
 * name.h
 *	  Names of queues and workflows, patterns over names, and other keys.
 */
#ifndef PGQRS_NAME_H
#define PGQRS_NAME_H

#include "postgres.h"

#include "nodes/pg_list.h"

extern void pgqrs_check_name(const char *name, const char *argument);
extern void pgqrs_check_pattern(const char *pattern, const char *argument);
extern void pgqrs_check_key(const char *key, const char *argument);
/*
 * Indexes into keys, sorted by key and, for equal keys, by index; NULLs last.
 */
extern int *pgqrs_key_order(char **keys, int count);

extern bool pgqrs_is_pattern(const char *pattern);
extern bool pgqrs_pattern_matches(const char *pattern, const char *name);
extern bool pgqrs_any_pattern_matches(const List *patterns, const char *name);

/* Of two patterns the one of which all names match both, or NULL: no name does. */
extern const char *pgqrs_narrower_pattern(const char *a, const char *b);

/* Whether any of the names, in the order of strcmp(), matches. */
extern bool pgqrs_pattern_finds(const char *pattern, const char **names, int count);

#define PGQRS_PATTERN_SIZE 258 /* 255 bytes, ".*" and the end */

/*
 * A name is matched by itself, by "*", and by each of its prefixes that ends in a
 * dot, followed by an asterisk.  This makes the next one of the latter, or returns
 * false. *length: of the prefix, 0 at first.
 */
extern bool pgqrs_next_pattern(const char *name, int *length, char *pattern);

/* The elements of a text[] that are not NULL, as char *. */
extern List *pgqrs_text_list(Datum array);

#endif /* PGQRS_NAME_H */
