/*
 * tid_set.h
 *	  The TIDs of rows that an index without an order finds.
 */
#ifndef PGQRS_TID_SET_H
#define PGQRS_TID_SET_H

#include "postgres.h"

#include "base/catalog.h"
#include "base/int64_list.h"
#include "storage/itemptr.h"
#include "storage/off.h"
#include "store/table.h"

typedef struct PgqrsTidSet
{
	int64 count;			/* of those that were found */
	PgqrsInt64List entries; /* TIDs and whole pages, ascending */
	int next;				/* of the entries, */
	OffsetNumber last_item; /* and how far it has come if it is a page */
	int sought;				/* where the last search came to */
} PgqrsTidSet;

/*
 * About how many rows have a jsonb that contains a value, as ANALYZE found; 0:
 * few, or not known.
 */
extern double pgqrs_tid_set_estimate(PgqrsTable *table, AttrNumber column,
									 Datum contained);

/*
 * Where rows are whose indexed jsonb contains a value.  There may be others
 * among them, and rows that are not visible.  False: the index may lack some.
 */
extern bool pgqrs_tid_set_load(PgqrsTidSet *tids, PgqrsTable *table,
							   PgqrsIndexId index, Datum contained);

/* Fast if asked for one after the other of rows that are near each other. */
extern bool pgqrs_tid_set_contains(PgqrsTidSet *tids, ItemPointer tid);

/* Each of them once, ascending; false: no more. */
extern bool pgqrs_tid_set_next(PgqrsTidSet *tids, ItemPointer tid);

#endif /* PGQRS_TID_SET_H */
