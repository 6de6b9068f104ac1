/*
 * roles.c
 *	  Roles that rows are about: kept by name, as in a dump, and by OID.
 *
 * An OID holds as long as the role, whatever it is called, and says nothing in
 * another database or cluster.  So a row has an id, of the OID and of a mark of
 * the database that it was taken in.  Where the mark is this database's, the
 * OID alone counts; else, as after a restore, the name counts until the row is
 * written anew.
 *
 * Runs in any backend inside a transaction.
 */
#include "queue/roles.h"

#include "access/xlog.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "store/tuple.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/syscache.h"

static uint32
mark(void)
{
	uint64 system = GetSystemIdentifier();

	return hash_combine(hash_combine(murmurhash32((uint32) system),
									 murmurhash32((uint32) (system >> 32))),
						murmurhash32(MyDatabaseId));
}

static int64
make_id(Oid role)
{
	return (int64) (((uint64) mark() << 32) | role);
}

static bool
is_of_here(bool isnull, int64 id)
{
	return !isnull && (uint32) ((uint64) id >> 32) == mark();
}

Oid
pgqrs_role_find(bool isnull, int64 id, const char *name)
{
	Oid role = (Oid) (uint64) id;

	if (!is_of_here(isnull, id))
		return get_role_oid(name, true);
	return SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(role)) ? role :
																	InvalidOid;
}

static const char *
name_of(TupleTableSlot *slot, PgqrsRoleColumns columns)
{
	return NameStr(*DatumGetName(pgqrs_get(slot, columns.name)));
}

Oid
pgqrs_role_of(TupleTableSlot *slot, PgqrsRoleColumns columns)
{
	return pgqrs_role_find(pgqrs_is_null(slot, columns.id),
						   pgqrs_get_int64(slot, columns.id),
						   name_of(slot, columns));
}

PgqrsRoleState
pgqrs_role_state(TupleTableSlot *slot, PgqrsRoleColumns columns, Oid *role)
{
	bool of_here = is_of_here(pgqrs_is_null(slot, columns.id),
							  pgqrs_get_int64(slot, columns.id));

	*role = pgqrs_role_of(slot, columns);
	if (!OidIsValid(*role))
		return of_here ? ROLE_DROPPED : ROLE_UNKNOWN;
	if (of_here &&
		strcmp(GetUserNameFromId(*role, false), name_of(slot, columns)) == 0)
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
		pgqrs_set(row, columns.id, Int64GetDatum(make_id(role)));
	else
		pgqrs_set_null(row, columns.id);
}
