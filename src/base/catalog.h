/*
 * catalog.h
 *	  The extension's objects in the current database: schema, tables,
 *	  indexes, types.  Their names and numbers are in columns.h, which is
 *	  generated from sql/.
 */
#ifndef PGQRS_CATALOG_H
#define PGQRS_CATALOG_H

#include "postgres.h"

#include "base/columns.h"

/*
 * Maximum number of columns of a table, including columns that a later version
 * adds.
 */
#define PGQRS_MAX_COLUMNS 40

extern void pgqrs_catalog_init(void);
extern Oid pgqrs_catalog_extension(char **version);
extern Oid pgqrs_catalog_owner(void);

/* Whether a subscription writes the extension's tables in this database. */
extern bool pgqrs_catalog_subscribed(void);
extern Oid pgqrs_catalog_schema(void);
extern Oid pgqrs_catalog_table(PgqrsTableId id);
extern Oid pgqrs_catalog_index(PgqrsIndexId id);
extern Oid pgqrs_catalog_sequence(PgqrsSequenceId id);
extern uint64 pgqrs_catalog_generation(PgqrsTableId id);
extern void pgqrs_catalog_changed(PgqrsTableId id);

/*
 * Like pgqrs_catalog_changed(), but before the commit: other backends read the
 * table again from now on.
 */
extern void pgqrs_catalog_changing(PgqrsTableId id);

/* Enum values: the stored Datum of a label, and back. */
extern Datum pgqrs_enum_datum(PgqrsEnumId type, int label);
extern int pgqrs_enum_value(PgqrsEnumId type, Datum datum);
extern int pgqrs_enum_find(PgqrsEnumId type, Datum datum); /* -1: no such label */
extern const char *pgqrs_enum_label(PgqrsEnumId type, int label);
extern int pgqrs_enum_parse(PgqrsEnumId type, const char *label);

#endif /* PGQRS_CATALOG_H */
