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
extern bool pgqrs_any_pattern_matches(List *patterns, const char *name);

/* The elements of a text[] that are not NULL, as char *. */
extern List *pgqrs_text_list(Datum array);

#endif /* PGQRS_NAME_H */
