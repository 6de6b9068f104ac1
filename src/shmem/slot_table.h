/*
 * slot_table.h
 *	  Open addressing in shared memory: slots by database, kind and id.
 *
 * A backend finds a slot without a lock.  It makes or frees one under the lock of
 * the module that has the table, and a slot that was found may be another one's
 * by the time that it is used.
 */
#ifndef PGQRS_SLOT_TABLE_H
#define PGQRS_SLOT_TABLE_H

#include "postgres.h"

#include "port/atomics.h"

typedef enum PgqrsSlotState
{
	SLOT_FREE,
	SLOT_USED,
	SLOT_DEAD /* free, but searches pass over it */
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
	int max_probes; /* how far a slot may stand from its place */
} PgqrsSlotTable;

extern void pgqrs_slots_init(PgqrsSlotTable *table, void *slots, Size slot_size,
							 int count, int max_probes);

/* The index of the current database's slot; -1: there is none. */
extern int pgqrs_slot_find(const PgqrsSlotTable *table, uint32 kind, int64 id);

/* The i-th of the places where that slot may be, i < max_probes. */
extern int pgqrs_slot_candidate(const PgqrsSlotTable *table, uint32 kind,
								int64 id, int i);

/* The first of them that is not used; -1: there is none. */
extern int pgqrs_slot_find_unused(const PgqrsSlotTable *table, uint32 kind,
								  int64 id);

/* Under the lock.  Whatever follows the name of a slot is written before its use. */
extern void pgqrs_slot_use(const PgqrsSlotTable *table, int at, uint32 kind,
						   int64 id);
extern void pgqrs_slot_free(const PgqrsSlotTable *table, int at);

static inline PgqrsSlotName *
pgqrs_slot_name(const PgqrsSlotTable *table, int at)
{
	return (PgqrsSlotName *) (table->slots + at * table->slot_size);
}

/* Whether a slot is one of a database. */
static inline bool
pgqrs_slot_is_of(const PgqrsSlotTable *table, int at, Oid db)
{
	PgqrsSlotName *name = pgqrs_slot_name(table, at);

	return pg_atomic_read_u32(&name->state) == SLOT_USED && name->db == db;
}

#endif /* PGQRS_SLOT_TABLE_H */
