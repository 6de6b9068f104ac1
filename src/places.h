/*
 * places.h
 *	  The places of rows that an index without an order finds.
 */
#ifndef PGQRS_PLACES_H
#define PGQRS_PLACES_H

#include "postgres.h"

#include "catalog.h"
#include "rows.h"
#include "storage/itemptr.h"

/* A set of places in a table, as a bit for each that there may be. */
typedef struct PgqrsPlaces
{
	int64 count; /* of those that were found */
	uint64 *words;
	size_t nwords;
	size_t first; /* the words before are empty */
} PgqrsPlaces;

/*
 * About how many rows have a jsonb that contains a value, as ANALYZE found; 0:
 * few, or not known.
 */
extern double pgqrs_places_expected(PgqrsTable *table, AttrNumber column,
									Datum contained);

/*
 * Where rows are whose indexed jsonb contains a value.  There may be others
 * among them, and rows that are not visible.
 */
extern void pgqrs_places_find(PgqrsPlaces *places, PgqrsTable *table,
							  PgqrsIndexId index, Datum contained);

extern bool pgqrs_places_have(const PgqrsPlaces *places, ItemPointer place);

/* Takes the first place out of the set; false: it is empty. */
extern bool pgqrs_places_take(PgqrsPlaces *places, ItemPointer place);

#endif /* PGQRS_PLACES_H */
