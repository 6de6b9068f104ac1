/*
 * privileges.h
 *	  Who may do what on which names.
 */
#ifndef PGQRS_PRIVILEGES_H
#define PGQRS_PRIVILEGES_H

#include "postgres.h"

#include "base/catalog.h"
#include "base/int64_list.h"

/* Sets of privileges, as bits. */
#define CAN_TRIGGER (1 << PRIVILEGE_TRIGGER)
#define CAN_WORK	(1 << PRIVILEGE_WORK)
#define CAN_ADMIN	(1 << PRIVILEGE_ADMIN)
#define CAN_ALL		(CAN_TRIGGER | CAN_WORK | CAN_ADMIN)

/* What the current role may do on a name; admin brings the other two. */
extern int pgqrs_privileges_on(const char *name);

/* The same of any role, or of none; not remembered. */
extern int pgqrs_privileges_of_role(Oid user, const char *name);

/* The owner of the extension, its members, and superusers may do everything. */
extern bool pgqrs_is_extension_owner(void);
extern void pgqrs_require_extension_owner(void);

/* 42501 unless the current role has the privilege on the name. */
extern void pgqrs_require_privilege(const char *name, PgqrsPrivilege privilege);

/* The ids of the queues on which the current role has any privilege. */
extern PgqrsInt64List pgqrs_readable_queue_ids(void);

/* The privileges of which one allows to call a function; -1: not known. */
extern int pgqrs_privileges_for_function(const char *name);

/* Whether there is such a role; "public" is one. */
extern bool pgqrs_grantee_exists(const char *grantee);

/*
 * The rows of pgqrs_grants, and the role's rights on functions and views;
 * false: it was there already, or was not there.
 */
extern bool pgqrs_grant_add(const char *pattern, const char *grantee,
							PgqrsPrivilege privilege);
extern bool pgqrs_grant_remove(const char *pattern, const char *grantee,
							   PgqrsPrivilege privilege);

/* Makes the rights of all grantees what the rows say. */
extern void pgqrs_acl_sync_all(void);

/*
 * Writes up to max grants anew, those of roles that were renamed, and removes
 * those of roles that are gone: how many.  False if another transaction is
 * changing grants.
 */
extern bool pgqrs_grants_follow_roles(int max, int *removed);

#endif /* PGQRS_PRIVILEGES_H */
