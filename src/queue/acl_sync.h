/*
 * acl_sync.h
 *	  ACL synchronization: the rights on functions, views and the schema that
 *	  follow from the rows of pgqrs_grants.
 */
#ifndef PGQRS_ACL_SYNC_H
#define PGQRS_ACL_SYNC_H

#include "postgres.h"

#include "nodes/pg_list.h"

/* The privileges of which one allows to call a function; -1: unknown. */
extern int pgqrs_privileges_for_function(const char *name);

/* Aligns a grantee's rights with its rows. */
extern void pgqrs_acl_sync(const char *grantee);

/* Aligns the rights of all roles with the rows of these grantees, all there are. */
extern void pgqrs_acl_sync_all(List *grantees);

#endif /* PGQRS_ACL_SYNC_H */
