/*
 * roles.c
 *	  Roles of rows, stored by name, as in a dump, and by OID.
 *
 * An OID identifies a role as long as it exists, whatever its name, but means
 * nothing in another database or cluster.  So a row stores an id made of the
 * OID and a mark of its database.  If the mark is this database's, only the OID
 * counts; otherwise, as after a restore, the name counts until the row is
 * rewritten.
 *
 * Runs in any backend inside a transaction.
 */
#include "queue/roles.h"

#include "access/xlog.h"
#include "catalog/pg_authid.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "store/scan.h"
#include "store/tuple.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/syscache.h"

static uint32
database_mark(void)
{
	uint64 system = GetSystemIdentifier();

	return hash_combine(hash_combine(murmurhash32((uint32) system),
									 murmurhash32((uint32) (system >> 32))),
						murmurhash32(MyDatabaseId));
}

static int64
make_role_id(Oid role)
{
	return (int64) (((uint64) database_mark() << 32) | role);
}

static bool
is_local_id(bool isnull, int64 id)
{
	return !isnull && (uint32) ((uint64) id >> 32) == database_mark();
}

Oid
pgqrs_role_find(bool isnull, int64 id, const char *name)
{
	Oid role = (Oid) (uint64) id;

	if (!is_local_id(isnull, id))
		return get_role_oid(name, true);
	return SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(role)) ? role :
																	InvalidOid;
}

bool
pgqrs_role_may_see(Oid role)
{
	return has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS) ||
		(OidIsValid(role) && has_privs_of_role(GetUserId(), role));
}

static const char *
stored_name(TupleTableSlot *slot, PgqrsRoleColumns columns)
{
	return NameStr(*DatumGetName(pgqrs_get(slot, columns.name)));
}

Oid
pgqrs_role_of(TupleTableSlot *slot, PgqrsRoleColumns columns)
{
	return pgqrs_role_find(pgqrs_is_null(slot, columns.id),
						   pgqrs_get_int64(slot, columns.id),
						   stored_name(slot, columns));
}

PgqrsRoleState
pgqrs_role_state(TupleTableSlot *slot, PgqrsRoleColumns columns, Oid *role)
{
	bool of_here = is_local_id(pgqrs_is_null(slot, columns.id),
							   pgqrs_get_int64(slot, columns.id));

	*role = pgqrs_role_of(slot, columns);
	if (!OidIsValid(*role))
		return of_here ? ROLE_DROPPED : ROLE_UNKNOWN;
	if (of_here &&
		strcmp(GetUserNameFromId(*role, false), stored_name(slot, columns)) == 0)
		return ROLE_SAME;
	return ROLE_RENAMED;
}

void
pgqrs_role_set(PgqrsRow *row, PgqrsRoleColumns columns, Oid role)
{
	Name name = palloc0(sizeof(NameData));

	namestrcpy(name,
			   OidIsValid(role) ? GetUserNameFromId(role, false) : PGQRS_NO_ROLE);
	pgqrs_set(row, columns.name, NameGetDatum(name));
	if (OidIsValid(role))
		pgqrs_set(row, columns.id, Int64GetDatum(make_role_id(role)));
	else
		pgqrs_set_null(row, columns.id);
}

bool
pgqrs_role_update(PgqrsTable *table, TupleTableSlot *slot,
				  PgqrsRoleColumns columns, Oid role, LockWaitPolicy wait)
{
	PgqrsRow row;

	if (pgqrs_row_lock(table, slot, LockTupleNoKeyExclusive, wait) != ROW_LOCKED)
		return false;
	pgqrs_row_copy(&row, table, slot);
	pgqrs_role_set(&row, columns, role);
	pgqrs_row_update(table, slot, &row);
	return true;
}

bool
pgqrs_roles_follow(PgqrsTableId id, PgqrsRoleColumns columns, int max,
				   bool (*follow)(PgqrsTable *table, TupleTableSlot *slot,
								  LockWaitPolicy wait))
{
	PgqrsTable *table = pgqrs_table_open(id, true);
	TupleTableSlot *slot = pgqrs_table_slot(table);
	bool all = true;
	PgqrsScan scan;
	Oid role;

	pgqrs_scan_begin_table(&scan, table);
	while (max > 0 && pgqrs_scan_next(&scan, slot))
	{
		PgqrsRoleState state = pgqrs_role_state(slot, columns, &role);

		if (state == ROLE_SAME || state == ROLE_UNKNOWN)
			continue;
		if (follow(table, slot, LockWaitSkip))
			max--;
		else
			all = false;
	}
	pgqrs_scan_end(&scan);
	pgqrs_table_close(table);
	return all && max > 0;
}
