/*
 * slot_table.c
 *	  Slot tables: open addressing in shared memory, by database, kind and id.
 *
 * Runs in any backend; raises no error.
 */
#include "shmem/slot_table.h"

#include "common/hashfn.h"
#include "miscadmin.h"

void
pgqrs_slots_init(PgqrsSlotTable *table, void *slots, Size slot_size, int count,
				 int max_probes)
{
	*table = (PgqrsSlotTable){
		.slots = slots,
		.slot_size = slot_size,
		.count = count,
		.max_probes = Min(max_probes, count),
	};
	for (int i = 0; i < count; i++)
		pg_atomic_init_u32(&pgqrs_slot_name(table, i)->state, SLOT_FREE);
}

static uint32
hash_in(Oid db, uint32 kind, int64 id)
{
	return hash_combine(hash_combine(murmurhash32(db), murmurhash32(kind)),
						hash_combine(murmurhash32((uint32) id),
									 murmurhash32((uint32) (id >> 32))));
}

static uint32
hash_of(uint32 kind, int64 id)
{
	return hash_in(MyDatabaseId, kind, id);
}

static int
probe_slot(const PgqrsSlotTable *table, uint32 hash, int i)
{
	return ((uint64) hash + i) % table->count;
}

int
pgqrs_slot_candidate(const PgqrsSlotTable *table, uint32 kind, int64 id, int i)
{
	return probe_slot(table, hash_of(kind, id), i);
}

int
pgqrs_slot_find(const PgqrsSlotTable *table, uint32 kind, int64 id)
{
	uint32 hash = hash_of(kind, id);

	for (int i = 0; i < table->max_probes; i++)
	{
		int at = probe_slot(table, hash, i);
		PgqrsSlotName *name = pgqrs_slot_name(table, at);
		uint32 state = pg_atomic_read_u32(&name->state);

		if (state == SLOT_FREE)
			break;
		pg_read_barrier();
		if (state == SLOT_USED && name->db == MyDatabaseId && name->id == id &&
			name->kind == kind)
			return at;
	}
	return -1;
}

static int
find_unused(const PgqrsSlotTable *table, uint32 hash)
{
	for (int i = 0; i < table->max_probes; i++)
	{
		int at = probe_slot(table, hash, i);

		if (pg_atomic_read_u32(&pgqrs_slot_name(table, at)->state) != SLOT_USED)
			return at;
	}
	return -1;
}

int
pgqrs_slot_find_unused(const PgqrsSlotTable *table, uint32 kind, int64 id)
{
	return find_unused(table, hash_of(kind, id));
}

static void
use_slot(const PgqrsSlotTable *table, int at, Oid db, uint32 kind, int64 id)
{
	PgqrsSlotName *name = pgqrs_slot_name(table, at);

	name->db = db;
	name->id = id;
	name->kind = kind;
	pg_write_barrier();
	pg_atomic_write_u32(&name->state, SLOT_USED);
}

void
pgqrs_slot_use(const PgqrsSlotTable *table, int at, uint32 kind, int64 id)
{
	use_slot(table, at, MyDatabaseId, kind, id);
}

int
pgqrs_slot_restore(const PgqrsSlotTable *table, Oid db, uint32 kind, int64 id)
{
	int at = find_unused(table, hash_in(db, kind, id));

	if (at >= 0)
		use_slot(table, at, db, kind, id);
	return at;
}

/* Dead slots become free where no probe sequence continues behind them. */
void
pgqrs_slot_free(const PgqrsSlotTable *table, int at)
{
	int n = table->count;

	pg_atomic_write_u32(&pgqrs_slot_name(table, at)->state, SLOT_DEAD);
	if (pg_atomic_read_u32(&pgqrs_slot_name(table, (at + 1) % n)->state) != SLOT_FREE)
		return;
	while (pg_atomic_read_u32(&pgqrs_slot_name(table, at)->state) == SLOT_DEAD)
	{
		pg_atomic_write_u32(&pgqrs_slot_name(table, at)->state, SLOT_FREE);
		at = (at + n - 1) % n;
	}
}
