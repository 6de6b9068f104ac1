/*
 * index_insert.h
 *	  Index insertion: entries of a new row version.  For tuple.c only.
 */
#ifndef PGQRS_INDEX_INSERT_H
#define PGQRS_INDEX_INSERT_H

#include "postgres.h"

#include "base/catalog.h"
#include "storage/itemptr.h"
#include "storage/lockdefs.h"
#include "utils/palloc.h"
#include "utils/relcache.h"

#define PGQRS_MAX_INDEXES 16

#define PGQRS_MAX_TESTS 4

/* A row has an entry in an index if ... */
typedef enum PgqrsIndexTestKind
{
	INDEX_IF_NULL,
	INDEX_IF_NOT_NULL,
	INDEX_IF_EQUAL,
	INDEX_IF_DIFFERENT
} PgqrsIndexTestKind;

/* ... this holds for a column, and for each other tested column. */
typedef struct PgqrsIndexTest
{
	PgqrsIndexTestKind kind;
	AttrNumber column;
	Datum value;
} PgqrsIndexTest;

typedef struct PgqrsIndex
{
	Oid oid;
	bool is_gin; /* otherwise btree */
	bool unique;
	bool is_id; /* a single-column primary key */
	int natts;
	AttrNumber columns[INDEX_MAX_KEYS];
	int ntests;
	PgqrsIndexTest tests[PGQRS_MAX_TESTS];
} PgqrsIndex;

/* A copy has room for its count only. */
typedef struct PgqrsIndexes
{
	int count;
	PgqrsIndex indexes[PGQRS_MAX_INDEXES];
} PgqrsIndexes;

/* Indexes that are open as long as their table. */
typedef struct PgqrsOpenIndexes
{
	LOCKMODE lock;
	MemoryContext context; /* context of the table */
	int count;
	Relation rels[PGQRS_MAX_INDEXES];
	MemoryContext info_context; /* made for the first index that needs an
								 * IndexInfo */
	struct IndexInfo *infos[PGQRS_MAX_INDEXES];
} PgqrsOpenIndexes;

extern Relation pgqrs_index_open(PgqrsOpenIndexes *open, Oid index);
extern void pgqrs_index_close_all(PgqrsOpenIndexes *open);

extern void pgqrs_indexes_init(void);

/*
 * The indexes of a table that is open for writing, in the caller's memory; NULL
 * if an index is not as CREATE EXTENSION made it and only the executor can
 * write it.
 */
extern PgqrsIndexes *pgqrs_indexes_of(PgqrsTableId id, Relation table);

/*
 * Writes the entry of a row, if the index includes the row. changed: columns
 * that differ from the old version, or NULL.
 */
extern void pgqrs_index_insert(const PgqrsIndex *index, PgqrsOpenIndexes *open,
							   Relation table, ItemPointer tid, const Datum *values,
							   const bool *nulls, const bool *changed);

#endif /* PGQRS_INDEX_INSERT_H */
