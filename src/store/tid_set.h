/*
 * tid_set.h
 *	  TID set: the rows that an index without an order finds.
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
	int64 count;			/* number of TIDs found */
	PgqrsInt64List entries; /* TIDs and whole pages, ascending */
	int next;				/* next entry, */
	OffsetNumber last_item; /* and next item within a whole page */
	int sought;				/* position of the last search */
} PgqrsTidSet;

/*
 * About how many rows have a jsonb value that contains a value, by the
 * statistics of ANALYZE; 0: few, or unknown.
 */
extern double pgqrs_tid_set_estimate(PgqrsTable *table, AttrNumber column,
									 Datum contained);

/*
 * Loads the TIDs of rows whose indexed jsonb contains a value, among them
 * perhaps others, and rows that are not visible.  False: the index may be
 * incomplete.
 */
extern bool pgqrs_tid_set_load(PgqrsTidSet *tids, PgqrsTable *table,
							   PgqrsIndexId index, Datum contained);

/* Whether the set contains a TID; fast for consecutive TIDs near each other. */
extern bool pgqrs_tid_set_contains(PgqrsTidSet *tids, ItemPointer tid);

/* Returns each TID once, ascending; false: no more. */
extern bool pgqrs_tid_set_next(PgqrsTidSet *tids, ItemPointer tid);

#endif /* PGQRS_TID_SET_H */
