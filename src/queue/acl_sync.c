/*
 * acl_sync.c
 *	  ACL synchronization: the rights on functions, views and the schema that
 *	  follow from the rows of pgqrs_grants.
 *
 * Runs in any backend inside a transaction that holds ShareRowExclusiveLock on
 * pgqrs_grants, so that two transactions never write the ACLs of one role at the
 * same time.
 */
#include "queue/acl_sync.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "base/catalog.h"
#include "catalog/dependency.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "queue/privileges.h"
#include "tcop/dest.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

/*
 * The privileges of which one is enough to receive EXECUTE on a function; the
 * function itself checks the name.  Functions missing from the installed
 * version are skipped; a function missing here is reserved for the extension's
 * owner.
 */
#define MONITOR CAN_ALL
#define READ	(CAN_ALL & ~CAN_MONITOR)
#define TRIGGER (CAN_TRIGGER | CAN_ADMIN)
#define WORK	(CAN_WORK | CAN_ADMIN)
#define ADMIN	CAN_ADMIN
#define OWNER	0

typedef struct ObjectNeeds
{
	const char *name;
	int needs;
} ObjectNeeds;

static const ObjectNeeds function_needs[] = {
	{"pgqrs_acknowledge_cancel", WORK},
	{"pgqrs_advance", ADMIN},
	{"pgqrs_advance_sequence", OWNER},
	{"pgqrs_advance_sequences", OWNER},
	{"pgqrs_alter_queue", ADMIN},
	{"pgqrs_alter_workflow", ADMIN},
	{"pgqrs_apply_retention", OWNER},
	{"pgqrs_archive_message", WORK},
	{"pgqrs_archive_messages", WORK},
	{"pgqrs_await_any", WORK},
	{"pgqrs_await_child", WORK},
	{"pgqrs_await_children", WORK},
	{"pgqrs_await_signal", WORK},
	{"pgqrs_background_stats", MONITOR},
	{"pgqrs_below_floors", OWNER},
	{"pgqrs_cancel_run", TRIGGER},
	{"pgqrs_cancel_runs", TRIGGER},
	{"pgqrs_complete_run", WORK},
	{"pgqrs_consume", WORK},
	{"pgqrs_count_messages", MONITOR},
	{"pgqrs_count_runs", MONITOR},
	{"pgqrs_counters_of", MONITOR},
	{"pgqrs_create_queue", ADMIN},
	{"pgqrs_create_workflow", ADMIN},
	{"pgqrs_delete_message", WORK},
	{"pgqrs_delete_queue", ADMIN},
	{"pgqrs_delete_run", ADMIN},
	{"pgqrs_delete_workflow", ADMIN},
	{"pgqrs_dequeue", WORK},
	{"pgqrs_dismiss_dead_letter", ADMIN},
	{"pgqrs_elapsed", MONITOR},
	{"pgqrs_enable_schedule", TRIGGER},
	{"pgqrs_enqueue", TRIGGER},
	{"pgqrs_enqueue_batch", TRIGGER},
	{"pgqrs_extend_lease", WORK},
	{"pgqrs_extend_leases", WORK},
	{"pgqrs_extend_worker", WORK},
	{"pgqrs_fail_run", WORK},
	{"pgqrs_find_run", READ},
	{"pgqrs_floor_stats", MONITOR},
	{"pgqrs_function_privileges", OWNER},
	{"pgqrs_get_run", READ},
	{"pgqrs_grant", OWNER},
	{"pgqrs_heartbeat", WORK},
	{"pgqrs_holder_of", MONITOR},
	{"pgqrs_html", READ},
	{"pgqrs_html_act", READ},
	{"pgqrs_html_count", READ},
	{"pgqrs_html_dead", READ},
	{"pgqrs_html_document", READ},
	{"pgqrs_html_duration", READ},
	{"pgqrs_html_error", READ},
	{"pgqrs_html_family", READ},
	{"pgqrs_html_fields", READ},
	{"pgqrs_html_figures", READ},
	{"pgqrs_html_form", READ},
	{"pgqrs_html_health", READ},
	{"pgqrs_html_json", READ},
	{"pgqrs_html_large", READ},
	{"pgqrs_html_letters", READ},
	{"pgqrs_html_link", READ},
	{"pgqrs_html_live_list", READ},
	{"pgqrs_html_live_runs", READ},
	{"pgqrs_html_matches", READ},
	{"pgqrs_html_messages", READ},
	{"pgqrs_html_overview", READ},
	{"pgqrs_html_page", READ},
	{"pgqrs_html_plot", READ},
	{"pgqrs_html_queue", READ},
	{"pgqrs_html_queues", READ},
	{"pgqrs_html_run", READ},
	{"pgqrs_html_run_list", READ},
	{"pgqrs_html_run_page", READ},
	{"pgqrs_html_runs", READ},
	{"pgqrs_html_runs_before", READ},
	{"pgqrs_html_schedules", READ},
	{"pgqrs_html_size", READ},
	{"pgqrs_html_statement", READ},
	{"pgqrs_html_status", READ},
	{"pgqrs_html_style", READ},
	{"pgqrs_html_table", READ},
	{"pgqrs_html_tags", READ},
	{"pgqrs_html_unread", READ},
	{"pgqrs_html_url", READ},
	{"pgqrs_html_view", READ},
	{"pgqrs_html_workers", READ},
	{"pgqrs_html_workflows", READ},
	{"pgqrs_install_cron", OWNER},
	{"pgqrs_list_runs", READ},
	{"pgqrs_list_steps", READ},
	{"pgqrs_live_workers", MONITOR},
	{"pgqrs_maintain", OWNER},
	{"pgqrs_may_monitor", MONITOR},
	{"pgqrs_messages_written", OWNER},
	{"pgqrs_nack_message", WORK},
	{"pgqrs_next", WORK},
	{"pgqrs_next_firings", MONITOR},
	{"pgqrs_now", MONITOR},
	{"pgqrs_old_sessions", MONITOR},
	{"pgqrs_pause_queue", ADMIN},
	{"pgqrs_pause_run", WORK},
	{"pgqrs_peek", READ},
	{"pgqrs_purge_dead_letters", ADMIN},
	{"pgqrs_poll", WORK},
	{"pgqrs_purge_queue", ADMIN},
	{"pgqrs_queue_name", READ},
	{"pgqrs_readable_queues", READ},
	{"pgqrs_readable_workers", READ},
	{"pgqrs_register_worker", WORK},
	{"pgqrs_release_message", WORK},
	{"pgqrs_replay_message", ADMIN},
	{"pgqrs_replay_queue", ADMIN},
	{"pgqrs_replay_runs", ADMIN},
	{"pgqrs_report", READ},
	{"pgqrs_report_action", READ},
	{"pgqrs_report_answer", READ},
	{"pgqrs_report_hour", READ},
	{"pgqrs_report_page", READ},
	{"pgqrs_report_run", READ},
	{"pgqrs_report_style", READ},
	{"pgqrs_rerun", TRIGGER},
	{"pgqrs_rerun_runs", TRIGGER},
	{"pgqrs_result", READ},
	{"pgqrs_resume_queue", ADMIN},
	{"pgqrs_resume_run", TRIGGER},
	{"pgqrs_resume_worker", WORK},
	{"pgqrs_revoke", OWNER},
	{"pgqrs_role_of", READ},
	{"pgqrs_run_crashes", READ},
	{"pgqrs_schedule", TRIGGER},
	{"pgqrs_schedule_may_fire", MONITOR},
	{"pgqrs_set_progress", WORK},
	{"pgqrs_set_visibility", ADMIN},
	{"pgqrs_settings_written", OWNER},
	{"pgqrs_signal", TRIGGER},
	{"pgqrs_sleep", WORK},
	{"pgqrs_start", WORK},
	{"pgqrs_start_child", WORK},
	{"pgqrs_start_children", WORK},
	{"pgqrs_step", WORK},
	{"pgqrs_step_begin", WORK},
	{"pgqrs_step_complete", WORK},
	{"pgqrs_step_fail", WORK},
	{"pgqrs_step_next", WORK},
	{"pgqrs_stop_worker", WORK},
	{"pgqrs_suspend_worker", WORK},
	{"pgqrs_sync_grants", OWNER},
	{"pgqrs_trigger", TRIGGER},
	{"pgqrs_trigger_batch", TRIGGER},
	{"pgqrs_trigger_schedule", TRIGGER},
	{"pgqrs_unschedule", TRIGGER},
	{"pgqrs_verify", OWNER},
	{"pgqrs_version", MONITOR},
	{"pgqrs_wait", READ},
	{"pgqrs_wait_any", READ},
	{"pgqrs_wait_for_work", WORK},
	{"pgqrs_why", MONITOR},
};

/*
 * The same for SELECT on the views, which show only rows of queues on which the
 * reader has that privilege.
 */
static const ObjectNeeds view_needs[] = {
	{"pgqrs_dead_letters", READ},	{"pgqrs_events", READ},
	{"pgqrs_health", MONITOR},		{"pgqrs_histograms", MONITOR},
	{"pgqrs_in_flight", MONITOR},	{"pgqrs_live_runs", READ},
	{"pgqrs_queue_stats", MONITOR}, {"pgqrs_queues_list", READ},
	{"pgqrs_run_parents", READ},	{"pgqrs_runs", READ},
	{"pgqrs_schedule_list", READ},	{"pgqrs_sent_signals", READ},
	{"pgqrs_signals", READ},		{"pgqrs_steps", READ},
	{"pgqrs_worker_stats", READ},	{"pgqrs_workflow_stats", MONITOR},
	{"pgqrs_workflows_list", READ},
};

/*
 * The privileges of which one allows to call a function; -1: unknown function.
 */
int
pgqrs_privileges_for_function(const char *name)
{
	for (int i = 0; i < lengthof(function_needs); i++)
		if (strcmp(function_needs[i].name, name) == 0)
			return function_needs[i].needs;
	return -1;
}

/* Whether the object's owner granted the role one of the modes. */
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
is_member(Oid class, Oid object)
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
 * Appends the extension's function of a name if the role's right to call it is
 * not as wanted.
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
			!is_member(ProcedureRelationId, proc->oid))
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

	if (!OidIsValid(oid) || !is_member(RelationRelationId, oid))
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

	if (strcmp(grantee, PGQRS_PUBLIC) == 0)
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
 * Runs GRANT or REVOKE of a privilege on objects; if privilege is NULL, of all
 * privileges, and of grants that the grantee passed on.
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
 * Without USAGE on the schema no function in it can be called by name.  The
 * owner of the extension may lack the right to grant it.
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
				(errmsg("role \"%s\" lacks USAGE on schema \"%s\"", grantee, schema),
				 errdetail("The role cannot use pgqrs without it."),
				 errhint("Ask the schema's owner for GRANT USAGE ON SCHEMA %s.",
						 quote_identifier(schema))));
}

/*
 * Grants EXECUTE on the functions that the privileges allow, or revokes it on the
 * others.
 */
static void
sync_functions(const char *grantee, Oid role, int mask, bool is_grant)
{
	List *objects = NIL;

	for (int i = 0; i < lengthof(function_needs); i++)
		if (((function_needs[i].needs & mask) != 0) == is_grant)
			objects = add_function(objects, function_needs[i].name, role, is_grant);
	run_grant(is_grant, OBJECT_ROUTINE, objects, "execute", grantee);
}

/* The same for SELECT on views. */
static void
sync_views(const char *grantee, Oid role, int mask, bool is_grant)
{
	List *objects = NIL;

	for (int i = 0; i < lengthof(view_needs); i++)
		if (((view_needs[i].needs & mask) != 0) == is_grant)
			objects = add_view(objects, view_needs[i].name, role, is_grant);
	run_grant(is_grant, OBJECT_TABLE, objects, "select", grantee);
}

/*
 * Aligns a role's rights on functions, views and the schema with its rows.
 * Rights granted by roles other than the objects' owner stay, as does USAGE on
 * the schema, which the role may have had before.
 */
void
pgqrs_acl_sync(const char *grantee)
{
	int mask = pgqrs_privileges_of_grantee(grantee);
	Oid role = ACL_ID_PUBLIC;

	if (strcmp(grantee, PGQRS_PUBLIC) != 0)
	{
		role = get_role_oid(grantee, true);
		if (!OidIsValid(role))
			return;
	}

	sync_functions(grantee, role, mask, false);
	sync_functions(grantee, role, mask, true);
	sync_views(grantee, role, mask, false);
	sync_views(grantee, role, mask, true);

	if (mask != 0)
		grant_schema(grantee, role);
}

/*
 * Rights without a row, such as those of ALTER DEFAULT PRIVILEGES
 */

typedef struct Member
{
	Oid class;
	Oid object;
	ObjectType type;
	char *name;
	Node *node; /* for GRANT */
	Oid owner;
	Acl *acl; /* NULL: the owner only, or PUBLIC on a type */
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

/* False for objects without rights of their own. */
static bool
describe_member(Member *m)
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

/* The rights on an object that the rows give a grantee. */
static AclMode
allowed_mode(const Member *m, Oid grantee)
{
	int mask;

	if (m->type == OBJECT_TYPE)
		return grantee == ACL_ID_PUBLIC ? ACL_USAGE : 0;
	mask = pgqrs_privileges_of_grantee(grantee == ACL_ID_PUBLIC ?
										   PGQRS_PUBLIC :
										   GetUserNameFromId(grantee, false));
	if (m->type == OBJECT_ROUTINE)
		return (pgqrs_privileges_for_function(m->name) & mask) != 0 ? ACL_EXECUTE :
																	  0;
	for (int i = 0; i < lengthof(view_needs); i++)
		if (strcmp(view_needs[i].name, m->name) == 0)
			return (view_needs[i].needs & mask) != 0 ? ACL_SELECT : 0;
	return 0;
}

static void
revoke_strays(Oid class, Oid object)
{
	Member m = {.class = class, .object = object};

	if (!describe_member(&m))
		return;
	for (int i = 0; i < ACL_NUM(m.acl); i++)
	{
		AclItem *item = &ACL_DAT(m.acl)[i];
		Oid grantee = item->ai_grantee;

		if (grantee == m.owner ||
			(ACLITEM_GET_PRIVS(*item) & ~allowed_mode(&m, grantee)) == 0)
			continue;
		run_grant(false, m.type, list_make1(m.node), NULL,
				  grantee == ACL_ID_PUBLIC ? PGQRS_PUBLIC :
											 GetUserNameFromId(grantee, false));
	}
}

/* For every object of the extension. */
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
 * In an extension script, GRANT would make the rights part of the extension,
 * which pg_dump leaves out.
 */
void
pgqrs_acl_sync_all(List *grantees)
{
	bool in_script = creating_extension;

	creating_extension = false;
	PG_TRY();
	{
		ListCell *lc;

		revoke_all_strays();
		foreach(lc, grantees)
			pgqrs_acl_sync(strVal(lfirst(lc)));
	}
	PG_FINALLY();
	{
		creating_extension = in_script;
	}
	PG_END_TRY();
}
