/*
 * catalog.h
 *	  Where this database's pgqrs objects are.  What there is, with names and
 *	  numbers, is in columns.h, which is generated from sql/.
 */
#ifndef PGQRS_CATALOG_H
#define PGQRS_CATALOG_H

#include "postgres.h"

#include "base/columns.h"

/* The most columns that a table may have, with those that a later version adds. */
#define PGQRS_MAX_COLUMNS 40

extern void pgqrs_catalog_init(void);
extern Oid pgqrs_catalog_extension(char **version);
extern Oid pgqrs_catalog_owner(void);

/* Whether a subscription writes tables of the extension here. */
extern bool pgqrs_catalog_subscribed(void);
extern Oid pgqrs_catalog_schema(void);
extern Oid pgqrs_catalog_table(PgqrsTableId id);
extern Oid pgqrs_catalog_index(PgqrsIndexId id);
extern Oid pgqrs_catalog_sequence(PgqrsSequenceId id);
extern uint64 pgqrs_catalog_generation(PgqrsTableId id);
extern void pgqrs_catalog_changed(PgqrsTableId id);

/* The same before the commit: other backends read the table again from now on. */
extern void pgqrs_catalog_changing(PgqrsTableId id);

/* Enum values: the stored Datum of a label, and back. */
extern Datum pgqrs_enum_datum(PgqrsEnumId type, int label);
extern int pgqrs_enum_value(PgqrsEnumId type, Datum datum);
extern int pgqrs_enum_find(PgqrsEnumId type, Datum datum); /* -1: no such label */
extern const char *pgqrs_enum_label(PgqrsEnumId type, int label);
extern int pgqrs_enum_parse(PgqrsEnumId type, const char *label);

#endif /* PGQRS_CATALOG_H */
