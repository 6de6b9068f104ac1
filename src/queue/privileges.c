/*
 * privileges.c
 *	  Who may do what on which names: the rows of pgqrs_grants, and the ACLs
 *	  that follow from them.
 *
 * Runs in any backend inside a transaction.  Checks read what the backend
 * remembers of the rows for the current role; it is read again after a change
 * of the rows, of roles or of memberships has arrived as an invalidation.
 * Changes take ShareRowExclusiveLock on pgqrs_grants to the end of the
 * transaction, so that one role's ACLs are never written by two at once.
 *
 * Roles are stored as roles.c says.  Changes begin by writing what is of roles
 * that were renamed or dropped anew, so that they may go by names.
 */
#include "queue/privileges.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/name.h"
#include "catalog/dependency.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "queue/roles.h"
#include "shmem/xact_wakeups.h"
#include "storage/lmgr.h"
#include "store/scan.h"
#include "store/tuple.h"
#include "tcop/dest.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#define PUBLIC_NAME "public"
#define MAX_PATTERN 257 /* 255 bytes and ".*" */

/* What the current role may do on the names that match a pattern. */
typedef struct Allowed
{
	const char *pattern;
	int mask;
} Allowed;

static struct
{
	MemoryContext context; /* of the array and what it points to */
	bool valid;
	uint64 generation;
	Oid user;
	bool is_owner;
	int count;
	Allowed *allowed; /* in the order of strcmp(), no duplicates */
} cache;

/*
 * Which privileges allow to call a function: one of them is enough to be
 * given EXECUTE, the function itself checks the name.  Functions that do not
 * exist in the installed version are passed over; one that is missing here is
 * the owner's alone.
 */
#define TRIGGER (CAN_TRIGGER | CAN_ADMIN)
#define WORK	(CAN_WORK | CAN_ADMIN)
#define ADMIN	CAN_ADMIN
#define READ	CAN_ALL
#define OWNER	0

static const struct
{
	const char *name;
	int needs;
} functions[] = {
	{"pgqrs_acknowledge_cancel", WORK},
	{"pgqrs_advance_sequence", OWNER},
	{"pgqrs_advance_sequences", OWNER},
	{"pgqrs_alter_queue", ADMIN},
	{"pgqrs_alter_workflow", ADMIN},
	{"pgqrs_apply_retention", OWNER},
	{"pgqrs_archive_message", WORK},
	{"pgqrs_archive_messages", WORK},
	{"pgqrs_await_child", WORK},
	{"pgqrs_await_children", WORK},
	{"pgqrs_await_signal", WORK},
	{"pgqrs_background_stats", READ},
	{"pgqrs_below_floors", OWNER},
	{"pgqrs_cancel_run", TRIGGER},
	{"pgqrs_cancel_runs", TRIGGER},
	{"pgqrs_complete_run", WORK},
	{"pgqrs_consume", WORK},
	{"pgqrs_count_messages", READ},
	{"pgqrs_count_runs", READ},
	{"pgqrs_create_queue", ADMIN},
	{"pgqrs_create_workflow", ADMIN},
	{"pgqrs_delete_message", WORK},
	{"pgqrs_delete_queue", ADMIN},
	{"pgqrs_delete_run", ADMIN},
	{"pgqrs_delete_workflow", ADMIN},
	{"pgqrs_dequeue", WORK},
	{"pgqrs_dismiss_dead_letter", ADMIN},
	{"pgqrs_elapsed", READ},
	{"pgqrs_enable_schedule", TRIGGER},
	{"pgqrs_enqueue", TRIGGER},
	{"pgqrs_enqueue_batch", TRIGGER},
	{"pgqrs_extend_lease", WORK},
	{"pgqrs_extend_leases", WORK},
	{"pgqrs_extend_worker", WORK},
	{"pgqrs_fail_run", WORK},
	{"pgqrs_find_run", READ},
	{"pgqrs_floor_stats", READ},
	{"pgqrs_function_privileges", OWNER},
	{"pgqrs_get_run", READ},
	{"pgqrs_grant", OWNER},
	{"pgqrs_heartbeat", WORK},
	{"pgqrs_html", OWNER},
	{"pgqrs_html_duration", OWNER},
	{"pgqrs_html_error", OWNER},
	{"pgqrs_html_json", OWNER},
	{"pgqrs_html_page", OWNER},
	{"pgqrs_html_plot", OWNER},
	{"pgqrs_html_status", OWNER},
	{"pgqrs_html_table", OWNER},
	{"pgqrs_install_cron", OWNER},
	{"pgqrs_list_runs", READ},
	{"pgqrs_list_steps", READ},
	{"pgqrs_maintain", OWNER},
	{"pgqrs_messages_written", OWNER},
	{"pgqrs_nack_message", WORK},
	{"pgqrs_next_firings", READ},
	{"pgqrs_now", READ},
	{"pgqrs_old_sessions", READ},
	{"pgqrs_pause_queue", ADMIN},
	{"pgqrs_pause_run", WORK},
	{"pgqrs_peek", READ},
	{"pgqrs_purge_dead_letters", ADMIN},
	{"pgqrs_purge_queue", ADMIN},
	{"pgqrs_queue_name", READ},
	{"pgqrs_readable_queues", READ},
	{"pgqrs_register_worker", WORK},
	{"pgqrs_release_message", WORK},
	{"pgqrs_replay_message", ADMIN},
	{"pgqrs_replay_queue", ADMIN},
	{"pgqrs_report", OWNER},
	{"pgqrs_report_hour", OWNER},
	{"pgqrs_report_run", OWNER},
	{"pgqrs_rerun", TRIGGER},
	{"pgqrs_result", READ},
	{"pgqrs_resume_queue", ADMIN},
	{"pgqrs_resume_run", TRIGGER},
	{"pgqrs_resume_worker", WORK},
	{"pgqrs_revoke", OWNER},
	{"pgqrs_role_of", READ},
	{"pgqrs_run_crashes", READ},
	{"pgqrs_schedule", TRIGGER},
	{"pgqrs_set_progress", WORK},
	{"pgqrs_set_visibility", ADMIN},
	{"pgqrs_settings_written", OWNER},
	{"pgqrs_signal", TRIGGER},
	{"pgqrs_sleep", WORK},
	{"pgqrs_start_child", WORK},
	{"pgqrs_start_children", WORK},
	{"pgqrs_step", WORK},
	{"pgqrs_step_begin", WORK},
	{"pgqrs_step_complete", WORK},
	{"pgqrs_step_fail", WORK},
	{"pgqrs_stop_worker", WORK},
	{"pgqrs_suspend_worker", WORK},
	{"pgqrs_sync_grants", OWNER},
	{"pgqrs_trigger", TRIGGER},
	{"pgqrs_trigger_batch", TRIGGER},
	{"pgqrs_trigger_schedule", TRIGGER},
	{"pgqrs_unschedule", TRIGGER},
	{"pgqrs_verify", OWNER},
	{"pgqrs_version", READ},
	{"pgqrs_wait", READ},
	{"pgqrs_wait_for_work", WORK},
};

/* Views show only what the reader has a privilege on: any will do. */
static const char *const views[] = {
	"pgqrs_dead_letters", "pgqrs_events",		  "pgqrs_run_parents",
	"pgqrs_health",		  "pgqrs_in_flight",	  "pgqrs_queue_stats",
	"pgqrs_runs",		  "pgqrs_schedule_list",  "pgqrs_steps",
	"pgqrs_worker_stats", "pgqrs_workflow_stats",
};

/*
 * What the current role may do
 */

static int
row_mask(TupleTableSlot *slot)
{
	int privilege = pgqrs_enum_value(ENUM_PRIVILEGE,
									 pgqrs_get(slot, Grants_privilege));

	return privilege == PRIVILEGE_ADMIN ? CAN_ALL : 1 << privilege;
}

static const PgqrsRoleColumns grantee_columns = {Grants_grantee_id, Grants_grantee};

static bool
is_public(TupleTableSlot *slot)
{
	return namestrcmp(DatumGetName(pgqrs_get(slot, Grants_grantee)),
					  PUBLIC_NAME) == 0;
}

static bool
counts_for(TupleTableSlot *slot, Oid user)
{
	Oid role;

	if (is_public(slot))
		return true;
	role = pgqrs_role_of(slot, grantee_columns);
	return OidIsValid(role) && has_privs_of_role(user, role);
}

/* The scan returns the patterns in order: index and column are COLLATE "C". */
static void
remember(const char *pattern, int mask, int *size)
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
read_rows(void)
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

		if (!counts_for(slot, cache.user))
			continue;
		pattern = TextDatumGetCString(pgqrs_get(slot, Grants_pattern));
		remember(pattern, row_mask(slot), &size);
		pfree(pattern);
	}
	pgqrs_scan_end(&scan);
	pgqrs_table_close(table);
}

/* Makes the cache that of the current role. */
static void
load(void)
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
	/* what changes from here on makes the next call start over */
	cache.generation = pgqrs_catalog_generation(TABLE_GRANTS);
	cache.is_owner = has_privs_of_role(cache.user, pgqrs_catalog_owner());
	if (!cache.is_owner)
		read_rows();
	cache.valid = true;
}

static int
compare(const void *key, const void *element)
{
	return strcmp(key, ((const Allowed *) element)->pattern);
}

static int
mask_of_pattern(const char *pattern)
{
	Allowed *found = bsearch(pattern, cache.allowed, cache.count,
							 sizeof(Allowed), compare);

	return found ? found->mask : 0;
}

/*
 * A name is matched by itself, by "*", and by each of its prefixes that ends
 * in a dot, followed by an asterisk.
 */
int
pgqrs_privileges_on(const char *name)
{
	char pattern[MAX_PATTERN + 1];
	int mask;

	load();
	if (cache.is_owner)
		return CAN_ALL;

	mask = mask_of_pattern("*") | mask_of_pattern(name);
	for (int i = 0; i < MAX_PATTERN - 1 && name[i] != '\0'; i++)
	{
		pattern[i] = name[i];
		if (name[i] == '.')
		{
			strcpy(&pattern[i + 1], "*");
			mask |= mask_of_pattern(pattern);
		}
	}
	return mask;
}

/* Reads the rows, all of them: for what happens rarely. */
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

		if (pgqrs_pattern_matches(pattern, name) && counts_for(slot, user))
			mask |= row_mask(slot);
		pfree(pattern);
	}
	pgqrs_scan_end(&scan);
	pgqrs_table_close(table);
	return mask;
}

bool
pgqrs_is_extension_owner(void)
{
	load();
	return cache.is_owner;
}

void
pgqrs_require_extension_owner(void)
{
	if (!pgqrs_is_extension_owner())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for extension pgqrs"),
				 errdetail("Only the extension's owner and superusers may do this."),
				 errhint("Ask \"%s\" to do it.",
						 GetUserNameFromId(pgqrs_catalog_owner(), false))));
}

void
pgqrs_require_privilege(const char *name, PgqrsPrivilege privilege)
{
	if (!(pgqrs_privileges_on(name) & (1 << privilege)))
		pgqrs_error_permission_denied(pgqrs_enum_label(ENUM_PRIVILEGE, privilege),
									  name);
}

/* The ids of the queues on which the current role has any privilege. */
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

		if (pgqrs_is_null(slot, Queues_deleted_at) && pgqrs_privileges_on(name) != 0)
			pgqrs_int64_list_add(&ids, pgqrs_get_int64(slot, Queues_queue_id));
		pfree(name);
	}
	pgqrs_scan_end(&scan);
	pgqrs_table_close(table);
	return ids;
}

/*
 * The ACLs that follow
 */

/* The privileges that allow to call a function, or -1 if it is not known. */
int
pgqrs_privileges_for_function(const char *name)
{
	for (int i = 0; i < lengthof(functions); i++)
		if (strcmp(functions[i].name, name) == 0)
			return functions[i].needs;
	return -1;
}

/* Whether the object's owner gave the role one of the modes. */
static bool
acl_gives(Datum datum, bool isnull, Oid owner, Oid role, AclMode mode)
{
	Acl *acl;

	if (isnull)
		return false;
	acl = DatumGetAclP(datum);
	for (int i = 0; i < ACL_NUM(acl); i++)
	{
		AclItem *item = &ACL_DAT(acl)[i];

		if (item->ai_grantee == role && item->ai_grantor == owner &&
			(ACLITEM_GET_PRIVS(*item) & mode) != 0)
			return true;
	}
	return false;
}

static bool
is_ours(Oid class, Oid object)
{
	return getExtensionOfObject(class, object) == get_extension_oid("pgqrs", false);
}

static ObjectWithArgs *
function_node(const char *schema, Form_pg_proc proc)
{
	ObjectWithArgs *node = makeNode(ObjectWithArgs);

	node->objname = list_make2(makeString(pstrdup(schema)),
							   makeString(pstrdup(NameStr(proc->proname))));
	for (int i = 0; i < proc->pronargs; i++)
		node->objargs = lappend(node->objargs,
								makeTypeNameFromOid(proc->proargtypes.values[i],
													-1));
	return node;
}

/*
 * Appends the extension's function of a name if the role's right to call it
 * is not what it should be.
 */
static List *
add_function(List *list, const char *name, Oid role, bool wanted)
{
	Oid schema = pgqrs_catalog_schema();
	CatCList *found = SearchSysCacheList1(PROCNAMEARGSNSP, CStringGetDatum(name));

	for (int i = 0; i < found->n_members; i++)
	{
		HeapTuple tuple = &found->members[i]->tuple;
		Form_pg_proc proc = (Form_pg_proc) GETSTRUCT(tuple);
		bool isnull;
		Datum acl;

		if (proc->pronamespace != schema || proc->proowner == role ||
			!is_ours(ProcedureRelationId, proc->oid))
			continue;
		acl = SysCacheGetAttr(PROCNAMEARGSNSP, tuple, Anum_pg_proc_proacl, &isnull);
		if (acl_gives(acl, isnull, proc->proowner, role, ACL_EXECUTE) != wanted)
			list = lappend(list, function_node(get_namespace_name(schema), proc));
	}
	ReleaseSysCacheList(found);
	return list;
}

static List *
add_view(List *list, const char *name, Oid role, bool wanted)
{
	Oid schema = pgqrs_catalog_schema();
	Oid oid = get_relname_relid(name, schema);
	HeapTuple tuple;
	Form_pg_class class;
	bool isnull;
	Datum acl;

	if (!OidIsValid(oid) || !is_ours(RelationRelationId, oid))
		return list;
	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(oid));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", oid);
	class = (Form_pg_class) GETSTRUCT(tuple);
	acl = SysCacheGetAttr(RELOID, tuple, Anum_pg_class_relacl, &isnull);
	if (class->relowner != role &&
		acl_gives(acl, isnull, class->relowner, role, ACL_SELECT) != wanted)
		list = lappend(list,
					   makeRangeVar(get_namespace_name(schema), pstrdup(name), -1));
	ReleaseSysCache(tuple);
	return list;
}

static RoleSpec *
role_node(const char *grantee)
{
	RoleSpec *node = makeNode(RoleSpec);

	if (strcmp(grantee, PUBLIC_NAME) == 0)
		node->roletype = ROLESPEC_PUBLIC;
	else
	{
		node->roletype = ROLESPEC_CSTRING;
		node->rolename = pstrdup(grantee);
	}
	node->location = -1;
	return node;
}

/*
 * Runs GRANT or REVOKE of a privilege on some objects; of all privileges, and
 * of what the grantee passed on, if privilege is NULL.
 */
static void
run_grant(bool is_grant, ObjectType type, List *objects, const char *privilege,
		  const char *grantee)
{
	AccessPriv *priv = makeNode(AccessPriv);
	GrantStmt *stmt = makeNode(GrantStmt);
	PlannedStmt *planned = makeNode(PlannedStmt);

	if (objects == NIL)
		return;
	priv->priv_name = privilege ? pstrdup(privilege) : NULL;
	stmt->is_grant = is_grant;
	stmt->targtype = ACL_TARGET_OBJECT;
	stmt->objtype = type;
	stmt->objects = objects;
	stmt->privileges = privilege ? list_make1(priv) : NIL;
	stmt->grantees = list_make1(role_node(grantee));
	stmt->behavior = privilege ? DROP_RESTRICT : DROP_CASCADE;

	planned->commandType = CMD_UTILITY;
	planned->utilityStmt = (Node *) stmt;
	planned->stmt_location = -1;
	ProcessUtility(planned,
				   is_grant ? "GRANT by pgqrs_grant()" : "REVOKE by pgqrs_revoke()",
				   false, PROCESS_UTILITY_QUERY, NULL, NULL, None_Receiver, NULL);
	CommandCounterIncrement();
}

static bool
has_usage(Oid role, const char *mode)
{
	Oid schema = pgqrs_catalog_schema();

	return DatumGetBool(
		DirectFunctionCall3(has_schema_privilege_id_id, ObjectIdGetDatum(role),
							ObjectIdGetDatum(schema), CStringGetTextDatum(mode)));
}

/*
 * Without USAGE on the schema nothing in it can be called by name.  Who owns
 * the extension may have no say over the schema.
 */
static void
grant_schema(const char *grantee, Oid role)
{
	char *schema = get_namespace_name(pgqrs_catalog_schema());

	if (has_usage(role, "USAGE"))
		return;
	if (has_usage(GetUserId(), "USAGE WITH GRANT OPTION"))
		run_grant(true, OBJECT_SCHEMA, list_make1(makeString(schema)), "usage",
				  grantee);
	else
		ereport(WARNING,
				(errmsg("role \"%s\" has no USAGE on schema \"%s\"", grantee, schema),
				 errdetail("Until it has, it can use nothing of pgqrs."),
				 errhint("Ask the schema's owner for GRANT USAGE ON SCHEMA %s.",
						 quote_identifier(schema))));
}

/* What a grantee's rows allow on whatever name. */
static int
mask_of_grantee(const char *grantee)
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
 * Brings a role's rights on functions, views and the schema in line with its
 * rows.  Rights that others than the objects' owner gave stay as they are, as
 * does USAGE on the schema, which the role may have had before.
 */
static void
sync_acls(const char *grantee)
{
	int mask = mask_of_grantee(grantee);
	Oid role = ACL_ID_PUBLIC;
	List *lists[2] = {NIL, NIL}; /* to be revoked, to be granted */

	if (strcmp(grantee, PUBLIC_NAME) != 0)
	{
		role = get_role_oid(grantee, true);
		if (!OidIsValid(role))
			return;
	}

	for (int i = 0; i < lengthof(functions); i++)
	{
		bool wanted = (functions[i].needs & mask) != 0;

		lists[wanted] = add_function(lists[wanted], functions[i].name, role, wanted);
	}
	run_grant(false, OBJECT_ROUTINE, lists[false], "execute", grantee);
	run_grant(true, OBJECT_ROUTINE, lists[true], "execute", grantee);

	lists[mask != 0] = NIL;
	for (int i = 0; i < lengthof(views); i++)
		lists[mask != 0] = add_view(lists[mask != 0], views[i], role, mask != 0);
	run_grant(mask != 0, OBJECT_TABLE, lists[mask != 0], "select", grantee);

	if (mask != 0)
		grant_schema(grantee, role);
}

/*
 * The rows
 */

/* A copy of a row that is about the role under its name of now. */
static PgqrsRow *
renamed(PgqrsTable *table, TupleTableSlot *slot, Oid role)
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
 * Makes the rows follow roles that were renamed, and removes those of roles that
 * are gone; returns how many.  Names may have been swapped, so all go before
 * any comes.  The lock on the table keeps everybody from the rows.
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

		if (is_public(slot))
			continue;
		state = pgqrs_role_state(slot, grantee_columns, &role);
		if (state == ROLE_SAME ||
			pgqrs_row_lock(table, slot, LockTupleExclusive, LockWaitSkip) != ROW_LOCKED)
			continue;
		if (state == ROLE_RENAMED)
			rows = lappend(rows, renamed(table, slot, role));
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

/* Closes it, tells every backend, and makes the ACLs follow. */
static void
finish_change(PgqrsTable *table, bool changed, const char *grantee)
{
	pgqrs_table_close(table);
	if (changed)
	{
		pgqrs_catalog_changed(TABLE_GRANTS);
		pgqrs_xact_wakeup(WAKEUP_QUEUES, 0);
	}
	sync_acls(grantee);
}

bool
pgqrs_grantee_exists(const char *grantee)
{
	return strcmp(grantee, PUBLIC_NAME) == 0 ||
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
	if (strcmp(grantee, PUBLIC_NAME) != 0)
		pgqrs_role_set(&row, grantee_columns, get_role_oid(grantee, false));
	pgqrs_set(&row, Grants_granted_by, NameGetDatum(&by));
	pgqrs_set(&row, Grants_pattern, CStringGetTextDatum(pattern));
	added = pgqrs_row_insert_unique(table, &row, INDEX_GRANTS_PKEY);
	finish_change(table, added, grantee);
	return added;
}

/* Finds the row of a grant. */
static bool
find(PgqrsTable *table, const char *pattern, const char *grantee,
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
	while ((found = find(table, pattern, grantee, privilege, slot)))
	{
		/* the name of a role that has another one now */
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

/* Their ACLs went with the roles. */
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
grantees(void)
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
 * Rights that no row gives, such as those of ALTER DEFAULT PRIVILEGES
 */

typedef struct Member
{
	Oid class;
	Oid object;
	ObjectType type;
	char *name;
	Node *node; /* for GRANT */
	Oid owner;
	Acl *acl; /* NULL: nobody but the owner, or PUBLIC on a type */
} Member;

static Acl *
copy_acl(int cache_id, HeapTuple tuple, AttrNumber column)
{
	bool isnull;
	Datum acl = SysCacheGetAttr(cache_id, tuple, column, &isnull);

	return isnull ? NULL : DatumGetAclPCopy(acl);
}

static void
describe_relation(Member *m, HeapTuple tuple)
{
	Form_pg_class class = (Form_pg_class) GETSTRUCT(tuple);

	m->type = class->relkind == RELKIND_SEQUENCE ? OBJECT_SEQUENCE : OBJECT_TABLE;
	m->name = pstrdup(NameStr(class->relname));
	m->node = (Node *) makeRangeVar(get_namespace_name(class->relnamespace),
									m->name, -1);
	m->owner = class->relowner;
	m->acl = copy_acl(RELOID, tuple, Anum_pg_class_relacl);
}

static void
describe_function(Member *m, HeapTuple tuple)
{
	Form_pg_proc proc = (Form_pg_proc) GETSTRUCT(tuple);

	m->type = OBJECT_ROUTINE;
	m->name = pstrdup(NameStr(proc->proname));
	m->node = (Node *) function_node(get_namespace_name(proc->pronamespace), proc);
	m->owner = proc->proowner;
	m->acl = copy_acl(PROCOID, tuple, Anum_pg_proc_proacl);
	if (m->acl == NULL)
		m->acl = acldefault(OBJECT_FUNCTION, m->owner);
}

static void
describe_type(Member *m, HeapTuple tuple)
{
	Form_pg_type type = (Form_pg_type) GETSTRUCT(tuple);

	m->type = OBJECT_TYPE;
	m->name = pstrdup(NameStr(type->typname));
	m->node = (Node *) list_make2(makeString(get_namespace_name(type->typnamespace)),
								  makeString(m->name));
	m->owner = type->typowner;
	m->acl = copy_acl(TYPEOID, tuple, Anum_pg_type_typacl);
}

/* False for what has no rights of its own. */
static bool
describe(Member *m)
{
	int cache_id = m->class == RelationRelationId ? RELOID :
		m->class == ProcedureRelationId			  ? PROCOID :
													TYPEOID;
	HeapTuple tuple;

	if (cache_id == TYPEOID && m->class != TypeRelationId)
		return false;
	tuple = SearchSysCache1(cache_id, ObjectIdGetDatum(m->object));
	if (!HeapTupleIsValid(tuple))
		return false;
	if (cache_id == RELOID)
		describe_relation(m, tuple);
	else if (cache_id == PROCOID)
		describe_function(m, tuple);
	else
		describe_type(m, tuple);
	ReleaseSysCache(tuple);
	return m->acl != NULL;
}

/* What the rows allow a grantee on an object. */
static AclMode
allowed_mode(const Member *m, Oid grantee)
{
	int mask;

	if (m->type == OBJECT_TYPE)
		return grantee == ACL_ID_PUBLIC ? ACL_USAGE : 0;
	mask = mask_of_grantee(grantee == ACL_ID_PUBLIC ?
							   PUBLIC_NAME :
							   GetUserNameFromId(grantee, false));
	if (m->type == OBJECT_ROUTINE)
		return (pgqrs_privileges_for_function(m->name) & mask) != 0 ? ACL_EXECUTE :
																	  0;
	for (int i = 0; i < lengthof(views); i++)
		if (strcmp(views[i], m->name) == 0)
			return mask != 0 ? ACL_SELECT : 0;
	return 0;
}

static void
revoke_strays(Oid class, Oid object)
{
	Member m = {.class = class, .object = object};

	if (!describe(&m))
		return;
	for (int i = 0; i < ACL_NUM(m.acl); i++)
	{
		AclItem *item = &ACL_DAT(m.acl)[i];
		Oid grantee = item->ai_grantee;

		if (grantee == m.owner ||
			(ACLITEM_GET_PRIVS(*item) & ~allowed_mode(&m, grantee)) == 0)
			continue;
		run_grant(false, m.type, list_make1(m.node), NULL,
				  grantee == ACL_ID_PUBLIC ? PUBLIC_NAME :
											 GetUserNameFromId(grantee, false));
	}
}

/* Of every object of the extension. */
static void
revoke_all_strays(void)
{
	Relation depend = table_open(DependRelationId, AccessShareLock);
	List *classes = NIL;
	List *objects = NIL;
	ListCell *class;
	ListCell *object;
	ScanKeyData key[2];
	SysScanDesc scan;
	HeapTuple tuple;

	ScanKeyInit(&key[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(ExtensionRelationId));
	ScanKeyInit(&key[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(get_extension_oid("pgqrs", false)));
	scan = systable_beginscan(depend, DependReferenceIndexId, true, NULL, 2, key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend row = (Form_pg_depend) GETSTRUCT(tuple);

		if (row->deptype != DEPENDENCY_EXTENSION)
			continue;
		classes = lappend_oid(classes, row->classid);
		objects = lappend_oid(objects, row->objid);
	}
	systable_endscan(scan);
	table_close(depend, AccessShareLock);
	forboth(class, classes, object, objects)
		revoke_strays(lfirst_oid(class), lfirst_oid(object));
}

/*
 * Brings the rights of all roles in line with the rows.  In an extension
 * script too: there GRANT would take the rights for part of the extension,
 * which pg_dump leaves out.
 */
void
pgqrs_acl_sync_all(void)
{
	bool in_script = creating_extension;

	PgqrsTable *table = open_for_change();

	follow_roles(table, PG_INT32_MAX);
	pgqrs_table_close(table);
	creating_extension = false;
	PG_TRY();
	{
		List *names = grantees();
		ListCell *lc;

		revoke_all_strays();
		foreach(lc, names)
			sync_acls(strVal(lfirst(lc)));
	}
	PG_FINALLY();
	{
		creating_extension = in_script;
	}
	PG_END_TRY();
}
