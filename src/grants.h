/*
 * grants.h
 *	  Who may do what on which names.
 */
#ifndef PGQRS_GRANTS_H
#define PGQRS_GRANTS_H

#include "postgres.h"

#include "catalog.h"

/* Sets of privileges, as bits. */
#define CAN_TRIGGER		(1 << PRIVILEGE_TRIGGER)
#define CAN_WORK		(1 << PRIVILEGE_WORK)
#define CAN_ADMIN		(1 << PRIVILEGE_ADMIN)
#define CAN_ALL			(CAN_TRIGGER | CAN_WORK | CAN_ADMIN)

/* What the current role may do on a name; admin brings the other two. */
extern int	pgqrs_grants_on(const char *name);

/* The owner of the extension, its members, and superusers may do everything. */
extern bool pgqrs_grants_is_owner(void);
extern void pgqrs_grants_require_owner(void);

/* 42501 unless the current role has the privilege on the name. */
extern void pgqrs_grants_require(const char *name, PgqrsPrivilege privilege);

/* The rows of pgqrs_grants; false: it was there already, or was not there. */
extern bool pgqrs_grants_add(const char *pattern, const char *grantee,
							 PgqrsPrivilege privilege);
extern bool pgqrs_grants_remove(const char *pattern, const char *grantee,
								PgqrsPrivilege privilege);

#endif							/* PGQRS_GRANTS_H */
