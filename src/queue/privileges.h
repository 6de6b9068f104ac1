/*
 * privileges.h
 *	  Privileges: what roles may do on names.
 */
#ifndef PGQRS_PRIVILEGES_H
#define PGQRS_PRIVILEGES_H

#include "postgres.h"

#include "base/catalog.h"
#include "base/int64_list.h"
#include "nodes/pg_list.h"

/* The grantee that stands for all roles. */
#define PGQRS_PUBLIC "public"

/*
 * Sets of privileges, as bits.  admin includes all, trigger and work include
 * read, which includes monitor: a set that is not empty has monitor.
 */
#define CAN_MONITOR (1 << PRIVILEGE_MONITOR)
#define CAN_READ	(1 << PRIVILEGE_READ)
#define CAN_TRIGGER (1 << PRIVILEGE_TRIGGER)
#define CAN_WORK	(1 << PRIVILEGE_WORK)
#define CAN_ADMIN	(1 << PRIVILEGE_ADMIN)
#define CAN_ALL		(CAN_MONITOR | CAN_READ | CAN_TRIGGER | CAN_WORK | CAN_ADMIN)

/* The privileges of the current role on a name, with those that they include. */
extern int pgqrs_privileges_on(const char *name);

/* The privileges of any role, or of an invalid role; not cached. */
extern int pgqrs_privileges_of_role(Oid user, const char *name);

/* The patterns on which a role has any privilege of the set; not cached. */
extern List *pgqrs_patterns_of_role(Oid user, int mask);

/* The privileges that a grantee's rows give, on any name. */
extern int pgqrs_privileges_of_grantee(const char *grantee);

/* The extension's owner, its members and superusers have all privileges. */
extern bool pgqrs_is_extension_owner(void);
extern void pgqrs_require_extension_owner(void);

/* Raises 42501 unless the current role has the privilege on the name. */
extern void pgqrs_require_privilege(const char *name, PgqrsPrivilege privilege);

/* The ids of the queues that the current role may read. */
extern PgqrsInt64List pgqrs_readable_queue_ids(void);

/* Whether the grantee is an existing role or "public". */
extern bool pgqrs_grantee_exists(const char *grantee);

/*
 * Adds or removes a row of pgqrs_grants, with the role's rights on functions
 * and views; false: the row existed already, or did not exist.
 */
extern bool pgqrs_grant_add(const char *pattern, const char *grantee,
							PgqrsPrivilege privilege);
extern bool pgqrs_grant_remove(const char *pattern, const char *grantee,
							   PgqrsPrivilege privilege);

/* Aligns the rights of all grantees with the rows. */
extern void pgqrs_grants_sync(void);

/*
 * Updates up to max rows of renamed roles and removes those of dropped roles;
 * *removed: how many.  False if another transaction is changing grants.
 */
extern bool pgqrs_grants_follow_roles(int max, int *removed);

#endif /* PGQRS_PRIVILEGES_H */
