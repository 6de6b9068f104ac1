/*
 * roles.h
 *	  Roles that rows are about: kept by name, as in a dump, and by OID.
 */
#ifndef PGQRS_ROLES_H
#define PGQRS_ROLES_H

#include "postgres.h"

#include "store/table.h"

/* What a role is called that was dropped: no role can be. */
#define PGQRS_NO_ROLE "none"

typedef enum PgqrsRoleState
{
	ROLE_SAME,	  /* the row is as it should be */
	ROLE_RENAMED, /* or came from elsewhere: it is to be written anew */
	ROLE_DROPPED, /* its name is another role's now, or nobody's */
	ROLE_UNKNOWN  /* the row came from elsewhere, and no role has the name */
} PgqrsRoleState;

/* The columns of a table that say which role a row is about. */
typedef struct PgqrsRoleColumns
{
	AttrNumber id;
	AttrNumber name;
} PgqrsRoleColumns;

/* The role that an id, or where it says nothing a name, means; or InvalidOid. */
extern Oid pgqrs_role_find(bool isnull, int64 id, const char *name);
extern Oid pgqrs_role_of(TupleTableSlot *slot, PgqrsRoleColumns columns);

/* role: that of ROLE_SAME and ROLE_RENAMED. */
extern PgqrsRoleState pgqrs_role_state(TupleTableSlot *slot,
									   PgqrsRoleColumns columns, Oid *role);

/* Writes it into a row; InvalidOid: it was dropped. */
extern void pgqrs_role_set(PgqrsRow *row, PgqrsRoleColumns columns, Oid role);

#endif /* PGQRS_ROLES_H */
