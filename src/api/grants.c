/*
 * grants.c
 *	  SQL functions about privileges.
 */
#include "api/args.h"

#include "base/errors.h"
#include "catalog/pg_type.h"
#include "queue/privileges.h"
#include "queue/queue.h"
#include "queue/roles.h"
#include "utils/array.h"
#include "utils/builtins.h"

typedef struct Grant
{
	const char *pattern;
	const char *role;
	PgqrsPrivilege privilege;
} Grant;

static Grant
get_arguments(FunctionCallInfo fcinfo)
{
	const char *labels[PRIVILEGE_COUNT];
	Grant grant;

	pgqrs_grants_require_owner();
	for (int i = 0; i < PRIVILEGE_COUNT; i++)
		labels[i] = pgqrs_enum_label(ENUM_PRIVILEGE, i);
	grant.pattern = pgqrs_arg_pattern(fcinfo, 0, "pattern");
	grant.role = pgqrs_arg_text(fcinfo, 1, "role");
	grant.privilege = pgqrs_arg_label(fcinfo, 2, "privilege", PRIVILEGE_COUNT,
									  labels);
	return grant;
}

static void
require_role(const char *role)
{
	if (!pgqrs_grants_role_exists(role))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("role \"%s\" does not exist", role),
				 errhint("Pass the name of a role as it is in pg_roles, without quotes, or \"public\" for every role.")));
}

PG_FUNCTION_INFO_V1(sql_grant);
Datum
sql_grant(PG_FUNCTION_ARGS)
{
	Grant grant = get_arguments(fcinfo);

	require_role(grant.role);
	pgqrs_grants_add(grant.pattern, grant.role, grant.privilege);
	PG_RETURN_VOID();
}

/* Takes away what a role had that no longer exists, too. */
PG_FUNCTION_INFO_V1(sql_revoke);
Datum
sql_revoke(PG_FUNCTION_ARGS)
{
	Grant grant = get_arguments(fcinfo);

	if (pgqrs_grants_remove(grant.pattern, grant.role, grant.privilege))
		PG_RETURN_VOID();

	require_role(grant.role);
	ereport(NOTICE,
			(errmsg("role \"%s\" was not granted \"%s\" on \"%s\"", grant.role,
					pgqrs_enum_label(ENUM_PRIVILEGE, grant.privilege),
					grant.pattern)));
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(sql_sync_grants);
Datum
sql_sync_grants(PG_FUNCTION_ARGS)
{
	pgqrs_called = fcinfo->flinfo->fn_oid;
	pgqrs_grants_require_owner();
	pgqrs_grants_sync_all();
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(sql_role_of);
Datum
sql_role_of(PG_FUNCTION_ARGS)
{
	Oid role;

	if (PG_ARGISNULL(1))
		PG_RETURN_NULL();
	role = pgqrs_role_find(PG_ARGISNULL(0),
						   PG_ARGISNULL(0) ? 0 : PG_GETARG_INT64(0),
						   NameStr(*PG_GETARG_NAME(1)));
	if (!OidIsValid(role))
		PG_RETURN_NULL();
	PG_RETURN_OID(role);
}

#define MANY_QUEUES 1000

PG_FUNCTION_INFO_V1(sql_readable_queues);
Datum
sql_readable_queues(PG_FUNCTION_ARGS)
{
	PgqrsNumbers ids = pgqrs_grants_readable_queues();

	/* statistics ask for one after the other */
	if (ids.count >= MANY_QUEUES)
		pgqrs_queue_remember_all();
	PG_RETURN_DATUM(pgqrs_int64_array(ids.values, ids.count));
}

PG_FUNCTION_INFO_V1(sql_function_privileges);
Datum
sql_function_privileges(PG_FUNCTION_ARGS)
{
	char *name = pgqrs_arg_text(fcinfo, 0, "function");
	int mask = pgqrs_grants_for_function(name);
	Datum labels[PRIVILEGE_COUNT];
	int count = 0;

	if (mask < 0)
		PG_RETURN_NULL();
	for (int i = 0; i < PRIVILEGE_COUNT; i++)
		if (mask & (1 << i))
			labels[count++] = CStringGetTextDatum(
				pgqrs_enum_label(ENUM_PRIVILEGE, i));
	PG_RETURN_ARRAYTYPE_P(
		construct_array(labels, count, TEXTOID, -1, false, TYPALIGN_INT));
}
