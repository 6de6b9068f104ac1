/*
 * privileges.c
 *	  Privileges: what roles may do on names, by the rows of pgqrs_grants.
 *
 * Runs in any backend inside a transaction.  Checks use the backend's cache of
 * the rows for the current role; it is loaded again after a change of the rows,
 * of roles or of memberships has arrived as an invalidation.  Changes take
 * ShareRowExclusiveLock on pgqrs_grants to the end of the transaction.
 *
 * Roles are stored as roles.c says.  A change first updates the rows of renamed
 * and dropped roles, so that it may go by names.
 */
#include "queue/privileges.h"

#include "base/clock.h"
#include "base/errors.h"
#include "base/name.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "queue/acl_sync.h"
#include "queue/roles.h"
#include "shmem/xact_wakeups.h"
#include "storage/lmgr.h"
#include "store/scan.h"
#include "store/tuple.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/memutils.h"

/* What the current role may do on the names that match a pattern. */
typedef struct Allowed
{
	const char *pattern;
	int mask;
} Allowed;

static struct
{
	MemoryContext context; /* context of the array and its patterns */
	bool valid;
	uint64 generation;
	Oid user;
	bool is_owner;
	int count;
	Allowed *allowed; /* in the order of strcmp(), no duplicates */
} cache;

/*
 * The current role's privileges
 */

static int
row_mask(TupleTableSlot *slot)
{
	static const int masks[PRIVILEGE_COUNT] = {
		[PRIVILEGE_MONITOR] = CAN_MONITOR,
		[PRIVILEGE_READ] = CAN_READ | CAN_MONITOR,
		[PRIVILEGE_TRIGGER] = CAN_TRIGGER | CAN_READ | CAN_MONITOR,
		[PRIVILEGE_WORK] = CAN_WORK | CAN_READ | CAN_MONITOR,
		[PRIVILEGE_ADMIN] = CAN_ALL,
	};

	return masks[pgqrs_enum_value(ENUM_PRIVILEGE, pgqrs_get(slot, Grants_privilege))];
}

static const PgqrsRoleColumns grantee_columns = {Grants_grantee_id, Grants_grantee};

static bool
is_public_grant(TupleTableSlot *slot)
{
	return namestrcmp(DatumGetName(pgqrs_get(slot, Grants_grantee)),
					  PGQRS_PUBLIC) == 0;
}

static bool
concerns_user(TupleTableSlot *slot, Oid user)
{
	Oid role;

	if (is_public_grant(slot))
		return true;
	role = pgqrs_role_of(slot, grantee_columns);
	return OidIsValid(role) && has_privs_of_role(user, role);
}

/* The scan returns the patterns in order: index and column are COLLATE "C". */
static void
cache_allowed(const char *pattern, int mask, int *size)
{
	if (cache.count > 0 &&
		strcmp(cache.allowed[cache.count - 1].pattern, pattern) == 0)
	{
		cache.allowed[cache.count - 1].mask |= mask;
		return;
	}
	if (cache.count == *size)
	{
		*size *= 2;
		cache.allowed = repalloc(cache.allowed, *size * sizeof(Allowed));
	}
	cache.allowed[cache.count].pattern = MemoryContextStrdup(cache.context, pattern);
	cache.allowed[cache.count++].mask = mask;
}

static void
cache_rows(void)
{
	PgqrsTable *table = pgqrs_table_open(TABLE_GRANTS, false);
	TupleTableSlot *slot = pgqrs_table_slot(table);
	int size = 16;
	PgqrsScan scan;

	cache.count = 0;
	cache.allowed = MemoryContextAlloc(cache.context, size * sizeof(Allowed));

	pgqrs_scan_begin_table(&scan, table);
	while (pgqrs_scan_next(&scan, slot))
	{
		char *pattern;

		if (!concerns_user(slot, cache.user))
			continue;
		pattern = TextDatumGetCString(pgqrs_get(slot, Grants_pattern));
		cache_allowed(pattern, row_mask(slot), &size);
		pfree(pattern);
	}
	pgqrs_scan_end(&scan);
	pgqrs_table_close(table);
}

/* Loads the cache for the current role. */
static void
load_cache(void)
{
	if (cache.valid && cache.user == GetUserId() &&
		cache.generation == pgqrs_catalog_generation(TABLE_GRANTS))
		return;

	if (cache.context == NULL)
		cache.context = AllocSetContextCreate(CacheMemoryContext, "pgqrs grants",
											  ALLOCSET_SMALL_SIZES);
	cache.valid = false;
	MemoryContextReset(cache.context);
	cache.user = GetUserId();
	/* a change from here on makes the next call start over */
	cache.generation = pgqrs_catalog_generation(TABLE_GRANTS);
	cache.is_owner = has_privs_of_role(cache.user, pgqrs_catalog_owner());
	if (!cache.is_owner)
		cache_rows();
	cache.valid = true;
}

static int
compare_allowed(const void *key, const void *element)
{
	return strcmp(key, ((const Allowed *) element)->pattern);
}

static int
mask_of_pattern(const char *pattern)
{
	Allowed *found = bsearch(pattern, cache.allowed, cache.count,
							 sizeof(Allowed), compare_allowed);

	return found ? found->mask : 0;
}

int
pgqrs_privileges_on(const char *name)
{
	char pattern[PGQRS_PATTERN_SIZE];
	int length = 0;
	int mask;

	load_cache();
	if (cache.is_owner)
		return CAN_ALL;

	mask = mask_of_pattern("*") | mask_of_pattern(name);
	while (pgqrs_next_pattern(name, &length, pattern))
		mask |= mask_of_pattern(pattern);
	return mask;
}

/* Reads all rows: for rare calls. */
int
pgqrs_privileges_of_role(Oid user, const char *name)
{
	PgqrsTable *table;
	TupleTableSlot *slot;
	PgqrsScan scan;
	int mask = 0;

	if (!OidIsValid(user))
		return 0;
	if (has_privs_of_role(user, pgqrs_catalog_owner()))
		return CAN_ALL;
	table = pgqrs_table_open(TABLE_GRANTS, false);
	slot = pgqrs_table_slot(table);
	pgqrs_scan_begin_table(&scan, table);
	while (pgqrs_scan_next(&scan, slot))
	{
		char *pattern = TextDatumGetCString(pgqrs_get(slot, Grants_pattern));

		if (pgqrs_pattern_matches(pattern, name) && concerns_user(slot, user))
			mask |= row_mask(slot);
		pfree(pattern);
	}
	pgqrs_scan_end(&scan);
	pgqrs_table_close(table);
	return mask;
}

List *
pgqrs_patterns_of_role(Oid user, int mask)
{
	PgqrsTable *table;
	TupleTableSlot *slot;
	PgqrsScan scan;
	List *patterns = NIL;

	if (!OidIsValid(user))
		return NIL;
	if (has_privs_of_role(user, pgqrs_catalog_owner()))
		return list_make1(pstrdup("*"));
	table = pgqrs_table_open(TABLE_GRANTS, false);
	slot = pgqrs_table_slot(table);
	pgqrs_scan_begin_table(&scan, table);
	while (pgqrs_scan_next(&scan, slot))
		if ((row_mask(slot) & mask) != 0 && concerns_user(slot, user))
			patterns = lappend(patterns,
							   TextDatumGetCString(pgqrs_get(slot, Grants_pattern)));
	pgqrs_scan_end(&scan);
	pgqrs_table_close(table);
	return patterns;
}

bool
pgqrs_is_extension_owner(void)
{
	load_cache();
	return cache.is_owner;
}

void
pgqrs_require_extension_owner(void)
{
	if (!pgqrs_is_extension_owner())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for extension pgqrs"),
				 errdetail("Only the extension's owner and superusers may call this function."),
				 errhint("Ask role \"%s\" to call the function.",
						 GetUserNameFromId(pgqrs_catalog_owner(), false))));
}

void
pgqrs_require_privilege(const char *name, PgqrsPrivilege privilege)
{
	if (!(pgqrs_privileges_on(name) & (1 << privilege)))
		pgqrs_error_permission_denied(pgqrs_enum_label(ENUM_PRIVILEGE, privilege),
									  name);
}

PgqrsInt64List
pgqrs_readable_queue_ids(void)
{
	PgqrsTable *table = pgqrs_table_open(TABLE_QUEUES, false);
	TupleTableSlot *slot = pgqrs_table_slot(table);
	PgqrsInt64List ids = {0};
	PgqrsScan scan;

	pgqrs_scan_begin_table(&scan, table);
	while (pgqrs_scan_next(&scan, slot))
	{
		char *name = TextDatumGetCString(pgqrs_get(slot, Queues_name));

		if (pgqrs_is_null(slot, Queues_deleted_at) &&
			(pgqrs_privileges_on(name) & CAN_READ) != 0)
			pgqrs_int64_list_add(&ids, pgqrs_get_int64(slot, Queues_queue_id));
		pfree(name);
	}
	pgqrs_scan_end(&scan);
	pgqrs_table_close(table);
	return ids;
}

/* The privileges that a grantee's rows give, on any name. */
int
pgqrs_privileges_of_grantee(const char *grantee)
{
	PgqrsTable *table = pgqrs_table_open(TABLE_GRANTS, false);
	TupleTableSlot *slot = pgqrs_table_slot(table);
	int mask = 0;
	PgqrsScan scan;

	pgqrs_scan_begin_table(&scan, table);
	while (pgqrs_scan_next(&scan, slot))
		if (namestrcmp(DatumGetName(pgqrs_get(slot, Grants_grantee)), grantee) == 0)
			mask |= row_mask(slot);
	pgqrs_scan_end(&scan);
	pgqrs_table_close(table);
	return mask;
}

/*
 * Rows of pgqrs_grants
 */

/* A copy of a row with the present name of its role. */
static PgqrsRow *
copy_renamed(PgqrsTable *table, TupleTableSlot *slot, Oid role)
{
	PgqrsRow *row = palloc(sizeof(PgqrsRow));

	pgqrs_row_copy(row, table, slot);
	row->values[Grants_pattern - 1] = CStringGetTextDatum(
		TextDatumGetCString(row->values[Grants_pattern - 1]));
	row->values[Grants_granted_by - 1] = datumCopy(row->values[Grants_granted_by - 1],
												   false, NAMEDATALEN);
	pgqrs_role_set(row, grantee_columns, role);
	return row;
}

/*
 * Updates the rows of renamed roles, and removes those of dropped roles;
 * returns the number removed.  Names may have been swapped, so all rows are
 * deleted before any is inserted.  The lock on the table keeps other
 * transactions from the rows.
 */
static int
follow_roles(PgqrsTable *table, int max)
{
	TupleTableSlot *slot = pgqrs_table_slot(table);
	List *rows = NIL;
	int removed = 0;
	int done = 0;
	ListCell *lc;
	PgqrsScan scan;

	pgqrs_scan_begin_table(&scan, table);
	while (done < max && pgqrs_scan_next(&scan, slot))
	{
		Oid role;
		PgqrsRoleState state;

		if (is_public_grant(slot))
			continue;
		state = pgqrs_role_state(slot, grantee_columns, &role);
		if (state == ROLE_SAME ||
			pgqrs_row_lock(table, slot, LockTupleExclusive, LockWaitSkip) != ROW_LOCKED)
			continue;
		if (state == ROLE_RENAMED)
			rows = lappend(rows, copy_renamed(table, slot, role));
		else
			removed++;
		pgqrs_row_delete(table, slot);
		done++;
	}
	pgqrs_scan_end(&scan);
	foreach(lc, rows)
		pgqrs_row_insert_unique(table, lfirst(lc), INDEX_GRANTS_PKEY);
	if (done > 0)
		pgqrs_catalog_changed(TABLE_GRANTS);
	return removed;
}

static PgqrsTable *
open_for_change(void)
{
	pgqrs_require_writable();
	LockRelationOid(pgqrs_catalog_table(TABLE_GRANTS), ShareRowExclusiveLock);
	return pgqrs_table_open(TABLE_GRANTS, true);
}

/* Closes the table, invalidates every backend's cache, and aligns the ACLs. */
static void
finish_change(PgqrsTable *table, bool changed, const char *grantee)
{
	pgqrs_table_close(table);
	if (changed)
	{
		pgqrs_catalog_changed(TABLE_GRANTS);
		pgqrs_xact_wakeup(WAKEUP_QUEUES, 0);
	}
	pgqrs_acl_sync(grantee);
}

bool
pgqrs_grantee_exists(const char *grantee)
{
	return strcmp(grantee, PGQRS_PUBLIC) == 0 ||
		OidIsValid(get_role_oid(grantee, true));
}

bool
pgqrs_grant_add(const char *pattern, const char *grantee, PgqrsPrivilege privilege)
{
	PgqrsTable *table = open_for_change();
	PgqrsRow row;
	NameData to;
	NameData by;
	bool added;

	follow_roles(table, PG_INT32_MAX);
	namestrcpy(&to, grantee);
	namestrcpy(&by, GetUserNameFromId(GetUserId(), false));
	pgqrs_row_init(&row, table);
	pgqrs_set(&row, Grants_granted_at, TimestampTzGetDatum(pgqrs_clock()));
	pgqrs_set(&row, Grants_privilege, pgqrs_enum_datum(ENUM_PRIVILEGE, privilege));
	pgqrs_set(&row, Grants_grantee, NameGetDatum(&to));
	if (strcmp(grantee, PGQRS_PUBLIC) != 0)
		pgqrs_role_set(&row, grantee_columns, get_role_oid(grantee, false));
	pgqrs_set(&row, Grants_granted_by, NameGetDatum(&by));
	pgqrs_set(&row, Grants_pattern, CStringGetTextDatum(pattern));
	added = pgqrs_row_insert_unique(table, &row, INDEX_GRANTS_PKEY);
	finish_change(table, added, grantee);
	return added;
}

/* Finds the row of a grant. */
static bool
find_grant(PgqrsTable *table, const char *pattern, const char *grantee,
		   PgqrsPrivilege privilege, TupleTableSlot *slot)
{
	NameData name;
	PgqrsKey keys[2];
	PgqrsScan scan;
	bool found;

	namestrcpy(&name, grantee);
	keys[0] = (PgqrsKey){1, BTEqualStrategyNumber, CStringGetTextDatum(pattern)};
	keys[1] = (PgqrsKey){2, BTEqualStrategyNumber, NameGetDatum(&name)};
	pgqrs_scan_begin(&scan, table, INDEX_GRANTS_PKEY, lengthof(keys), keys);
	do
		found = pgqrs_scan_next(&scan, slot);
	while (found &&
		   pgqrs_enum_value(ENUM_PRIVILEGE, pgqrs_get(slot, Grants_privilege)) !=
			   privilege);
	pgqrs_scan_end(&scan);
	return found;
}

bool
pgqrs_grant_remove(const char *pattern, const char *grantee, PgqrsPrivilege privilege)
{
	PgqrsTable *table = open_for_change();
	TupleTableSlot *slot = pgqrs_table_slot(table);
	bool gone = !pgqrs_grantee_exists(grantee);
	bool found;

	if (!gone)
		follow_roles(table, PG_INT32_MAX);
	while ((found = find_grant(table, pattern, grantee, privilege, slot)))
	{
		/* a role with another name now */
		if (gone && OidIsValid(pgqrs_role_of(slot, grantee_columns)))
		{
			found = false;
			break;
		}
		if (pgqrs_row_lock(table, slot, LockTupleExclusive, LockWaitBlock) ==
			ROW_LOCKED)
			break;
	}
	if (found)
		pgqrs_row_delete(table, slot);
	finish_change(table, found, grantee);
	return found;
}

/* The ACLs of dropped roles were dropped with them. */
bool
pgqrs_grants_follow_roles(int max, int *removed)
{
	PgqrsTable *table;

	*removed = 0;
	pgqrs_require_writable();
	if (!ConditionalLockRelationOid(pgqrs_catalog_table(TABLE_GRANTS),
									ShareRowExclusiveLock))
		return false;
	table = pgqrs_table_open(TABLE_GRANTS, true);
	*removed = follow_roles(table, max);
	pgqrs_table_close(table);
	return true;
}

/* The names of all grantees. */
static List *
grantee_names(void)
{
	PgqrsTable *table = pgqrs_table_open(TABLE_GRANTS, false);
	TupleTableSlot *slot = pgqrs_table_slot(table);
	List *names = NIL;
	PgqrsScan scan;

	pgqrs_scan_begin_table(&scan, table);
	while (pgqrs_scan_next(&scan, slot))
	{
		char *name = NameStr(*DatumGetName(pgqrs_get(slot, Grants_grantee)));

		names = list_append_unique(names, makeString(pstrdup(name)));
	}
	pgqrs_scan_end(&scan);
	pgqrs_table_close(table);
	return names;
}

/*
 * The rows are locked to the end of the transaction.
 */
void
pgqrs_grants_sync(void)
{
	PgqrsTable *table = open_for_change();

	follow_roles(table, PG_INT32_MAX);
	pgqrs_table_close(table);
	pgqrs_acl_sync_all(grantee_names());
}
