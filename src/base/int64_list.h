/*
 * int64_list.h
 *	  Lists of 64-bit integers, such as ids.
 */
#ifndef PGQRS_INT64_LIST_H
#define PGQRS_INT64_LIST_H

#include "postgres.h"

/* All zero: an empty list. */
typedef struct PgqrsInt64List
{
	int64 *values;
	int count;
	int room;
} PgqrsInt64List;

/*
 * Appends a value.  The list lives in the memory context of the first append.
 */
extern void pgqrs_int64_list_add(PgqrsInt64List *list, int64 value);

extern void pgqrs_int64_sort(int64 *values, int count);

/* Whether a sorted list contains the value. */
extern bool pgqrs_int64_list_contains(const PgqrsInt64List *sorted, int64 value);

/* A value of bigint[] */
extern Datum pgqrs_int64_array(const int64 *values, int count);

#endif /* PGQRS_INT64_LIST_H */
