/*
 * roles.h
 *	  Roles of rows, stored by name, as in a dump, and by OID.
 */
#ifndef PGQRS_ROLES_H
#define PGQRS_ROLES_H

#include "postgres.h"

#include "store/table.h"

/* Name stored for a dropped role; no role can have it. */
#define PGQRS_NO_ROLE "none"

typedef enum PgqrsRoleState
{
	ROLE_SAME,	  /* the row is up to date */
	ROLE_RENAMED, /* renamed, or the row was restored: rewrite the row */
	ROLE_DROPPED, /* dropped; another role may have its name */
	ROLE_UNKNOWN  /* the row was restored, and no role has the name */
} PgqrsRoleState;

/* The columns that store a role. */
typedef struct PgqrsRoleColumns
{
	AttrNumber id;
	AttrNumber name;
} PgqrsRoleColumns;

/* The role of an id, or of a name if the id says nothing; or InvalidOid. */
extern Oid pgqrs_role_find(bool isnull, int64 id, const char *name);
extern Oid pgqrs_role_of(TupleTableSlot *slot, PgqrsRoleColumns columns);

/*
 * Whether the current role may see sessions of a role, as in pg_stat_activity; an
 * invalid role: of any.
 */
extern bool pgqrs_role_may_see(Oid role);

/* role: the role of ROLE_SAME and ROLE_RENAMED. */
extern PgqrsRoleState pgqrs_role_state(TupleTableSlot *slot,
									   PgqrsRoleColumns columns, Oid *role);

/* Stores a role in a row; InvalidOid: a dropped role. */
extern void pgqrs_role_set(PgqrsRow *row, PgqrsRoleColumns columns, Oid role);

/* The same in the table, if the row can be locked. */
extern bool pgqrs_role_update(PgqrsTable *table, TupleTableSlot *slot,
							  PgqrsRoleColumns columns, Oid role,
							  LockWaitPolicy wait);

/*
 * Updates up to max rows whose roles were renamed or dropped, each by a call that
 * returns whether it could; false if there are more.
 */
extern bool pgqrs_roles_follow(PgqrsTableId id, PgqrsRoleColumns columns, int max,
							   bool (*follow)(PgqrsTable *table, TupleTableSlot *slot,
											  LockWaitPolicy wait));

#endif /* PGQRS_ROLES_H */
