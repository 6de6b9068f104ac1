/*
 * int64_list.c
 *	  Lists of 64-bit integers, such as ids.
 */
#include "base/int64_list.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/memutils.h"

#define FIRST_ROOM 64

void
pgqrs_int64_list_add(PgqrsInt64List *list, int64 value)
{
	if (list->values == NULL)
	{
		list->room = FIRST_ROOM;
		list->values = palloc(list->room * sizeof(int64));
	}
	else if (list->count == list->room)
	{
		list->room *= 2;
		list->values = repalloc_huge(list->values, list->room * sizeof(int64));
	}
	list->values[list->count++] = value;
}

static int
compare_int64(const void *a, const void *b)
{
	int64 x = *(const int64 *) a;
	int64 y = *(const int64 *) b;

	return (x > y) - (x < y);
}

void
pgqrs_int64_sort(int64 *values, int count)
{
	if (count > 1)
		qsort(values, count, sizeof(int64), compare_int64);
}

bool
pgqrs_int64_list_contains(const PgqrsInt64List *sorted, int64 value)
{
	return sorted->count > 0 &&
		bsearch(&value, sorted->values, sorted->count, sizeof(int64),
				compare_int64) != NULL;
}

Datum
pgqrs_int64_array(const int64 *values, int count)
{
	Datum *datums = palloc(count * sizeof(Datum));

	for (int i = 0; i < count; i++)
		datums[i] = Int64GetDatum(values[i]);
	return PointerGetDatum(construct_array(datums, count, INT8OID, sizeof(int64),
										   FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}
