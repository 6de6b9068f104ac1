/*
 * slot_table.h
 *	  Slot tables: open addressing in shared memory, by database, kind and id.
 *
 * A backend finds a slot without a lock, and makes or frees one under the lock
 * of the module that owns the table.  A slot may be renamed between the search
 * and its use.
 */
#ifndef PGQRS_SLOT_TABLE_H
#define PGQRS_SLOT_TABLE_H

#include "postgres.h"

#include "port/atomics.h"

typedef enum PgqrsSlotState
{
	SLOT_FREE,
	SLOT_USED,
	SLOT_DEAD /* free, but the search continues behind it */
} PgqrsSlotState;

/* A slot begins with its name. */
typedef struct PgqrsSlotName
{
	pg_atomic_uint32 state;
	Oid db;
	int64 id;
	uint32 kind;
} PgqrsSlotName;

typedef struct PgqrsSlotTable
{
	char *slots;
	Size slot_size;
	int count;
	int max_probes; /* longest probe sequence */
} PgqrsSlotTable;

extern void pgqrs_slots_init(PgqrsSlotTable *table, void *slots, Size slot_size,
							 int count, int max_probes);

/* The index of the current database's slot; -1: there is none. */
extern int pgqrs_slot_find(const PgqrsSlotTable *table, uint32 kind, int64 id);

/* The i-th slot of the probe sequence, i < max_probes. */
extern int pgqrs_slot_candidate(const PgqrsSlotTable *table, uint32 kind,
								int64 id, int i);

/* The first unused slot of the probe sequence; -1: all are in use. */
extern int pgqrs_slot_find_unused(const PgqrsSlotTable *table, uint32 kind,
								  int64 id);

/*
 * Both are called under the lock.  The fields behind the name are written
 * before pgqrs_slot_use().
 */
extern void pgqrs_slot_use(const PgqrsSlotTable *table, int at, uint32 kind,
						   int64 id);
extern void pgqrs_slot_free(const PgqrsSlotTable *table, int at);

/*
 * Makes the slot of a database, before any backend runs; -1: all of the probe
 * sequence are in use.
 */
extern int pgqrs_slot_restore(const PgqrsSlotTable *table, Oid db, uint32 kind,
							  int64 id);

static inline PgqrsSlotName *
pgqrs_slot_name(const PgqrsSlotTable *table, int at)
{
	return (PgqrsSlotName *) (table->slots + at * table->slot_size);
}

/* Whether a slot is in use by a database. */
static inline bool
pgqrs_slot_is_of(const PgqrsSlotTable *table, int at, Oid db)
{
	PgqrsSlotName *name = pgqrs_slot_name(table, at);

	return pg_atomic_read_u32(&name->state) == SLOT_USED && name->db == db;
}

#endif /* PGQRS_SLOT_TABLE_H */
