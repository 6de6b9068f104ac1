/*
 * workflow.c
 *	  Workflow definitions by name and by id, and retry policies.
 *
 * Runs in any backend.  A lookup reads the newest committed definition and takes
 * no row lock; during a concurrent change it returns the old or the new one.
 */
#include "workflow/workflow.h"

#include <math.h>

#include "base/clock.h"
#include "base/errors.h"
#include "base/name.h"
#include "queue/privileges.h"
#include "store/scan.h"
#include "store/tuple.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"

static const char policy_hint[] = "Use max_attempts (-1 for no limit, or 1 and more), "
								  "initial_interval and max_interval (an interval such as \"1 s\"), "
								  "backoff_coefficient (more than 0), jitter (0 to 1) and "
								  "non_retryable (an array of strings that are not empty).";

pg_noreturn static void refuse_policy_value(const char *key, const char *detail);

static int64
column_duration(TupleTableSlot *slot, WorkflowsColumn column, const char *name)
{
	if (pgqrs_is_null(slot, column))
		return 0;
	return pgqrs_duration(DatumGetIntervalP(pgqrs_get(slot, column)), name);
}

static void
read_workflow(TupleTableSlot *slot, PgqrsWorkflow *workflow)
{
	PgqrsRetryPolicy *retry = &workflow->retry;

	workflow->workflow_id = pgqrs_get_int64(slot, Workflows_workflow_id);
	text_to_cstring_buffer(DatumGetTextPP(pgqrs_get(slot, Workflows_name)),
						   workflow->name, PGQRS_NAME_SIZE);
	workflow->outbox_queue[0] = '\0';
	if (!pgqrs_is_null(slot, Workflows_outbox_queue))
		text_to_cstring_buffer(DatumGetTextPP(pgqrs_get(slot, Workflows_outbox_queue)),
							   workflow->outbox_queue, PGQRS_NAME_SIZE);
	workflow->timeout = column_duration(slot, Workflows_timeout, "timeout");
	workflow->key_scope = pgqrs_enum_value(ENUM_KEY_SCOPE,
										   pgqrs_get(slot, Workflows_key_scope));
	retry->max_attempts = DatumGetInt32(pgqrs_get(slot, Workflows_max_attempts));
	retry->non_retryable = pgqrs_text_list(pgqrs_get(slot, Workflows_non_retryable));
	retry->backoff.initial_interval = column_duration(slot,
													  Workflows_initial_interval,
													  "initial_interval");
	retry->backoff.max_interval = column_duration(slot, Workflows_max_interval,
												  "max_interval");
	retry->backoff.coefficient = DatumGetFloat8(
		pgqrs_get(slot, Workflows_backoff_coefficient));
	retry->backoff.jitter = DatumGetFloat8(pgqrs_get(slot, Workflows_jitter));
}

/*
 * Rows of pgqrs_workflows, cached until any of them changes.  The rules are those
 * of the cache of queues in queue.c.
 */
static struct
{
	MemoryContext context;
	HTAB *by_id; /* of PgqrsWorkflow */
	uint64 generation;
} cache;

/* Empties the cache if it may be stale. */
static void
revalidate_cache(void)
{
	uint64 generation = pgqrs_catalog_generation(TABLE_WORKFLOWS);
	HASHCTL ctl = {.keysize = sizeof(int64), .entrysize = sizeof(PgqrsWorkflow)};

	if (cache.by_id != NULL && cache.generation == generation)
		return;
	if (cache.context == NULL)
		cache.context = AllocSetContextCreate(CacheMemoryContext, "pgqrs workflows",
											  ALLOCSET_SMALL_SIZES);
	cache.by_id = NULL;
	MemoryContextReset(cache.context);
	ctl.hcxt = cache.context;
	cache.by_id = hash_create("pgqrs workflows by id", 16, &ctl,
							  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	cache.generation = generation;
}

/* A copy in the current memory context. */
static void
copy_workflow(PgqrsWorkflow *to, const PgqrsWorkflow *from)
{
	ListCell *lc;

	*to = *from;
	to->retry.non_retryable = NIL;
	foreach(lc, from->retry.non_retryable)
		to->retry.non_retryable = lappend(to->retry.non_retryable,
										  pstrdup(lfirst(lc)));
}

static void
cache_workflow(const PgqrsWorkflow *workflow)
{
	MemoryContext caller = MemoryContextSwitchTo(cache.context);
	PgqrsWorkflow copy;

	copy_workflow(&copy, workflow);
	memcpy(hash_search(cache.by_id, &workflow->workflow_id, HASH_ENTER, NULL),
		   &copy, sizeof(copy));
	MemoryContextSwitchTo(caller);
}

/*
 * Reads a workflow.  Caches the row unless a transaction is changing it, or an
 * invalidation arrived after the row was read, as detoasting a long value may
 * accept one.
 */
static bool
load_workflow(int64 workflow_id, PgqrsWorkflow *workflow)
{
	PgqrsTable *table = pgqrs_table_open(TABLE_WORKFLOWS, false);
	TupleTableSlot *slot = pgqrs_table_slot(table);
	bool found;
	bool cacheable;

	revalidate_cache(); /* opening the table may accept an invalidation, too */
	found = pgqrs_row_fetch_id(table, workflow_id, slot);
	cacheable = found && !pgqrs_row_update_waits(slot);
	if (found)
		read_workflow(slot, workflow);
	pgqrs_table_close(table);
	if (cacheable && cache.generation == pgqrs_catalog_generation(TABLE_WORKFLOWS))
		cache_workflow(workflow);
	return found;
}

bool
pgqrs_workflow_by_id(int64 workflow_id, PgqrsWorkflow *workflow)
{
	PgqrsWorkflow *known;

	revalidate_cache();
	known = hash_search(cache.by_id, &workflow_id, HASH_FIND, NULL);
	if (known == NULL)
		return load_workflow(workflow_id, workflow);
	copy_workflow(workflow, known);
	return true;
}

const char *
pgqrs_workflow_outbox(int64 workflow_id)
{
	PgqrsWorkflow *known;
	PgqrsWorkflow loaded;

	revalidate_cache();
	known = hash_search(cache.by_id, &workflow_id, HASH_FIND, NULL);
	if (known == NULL && load_workflow(workflow_id, &loaded))
		known = &loaded;
	return known != NULL && known->outbox_queue[0] != '\0' ?
		pstrdup(known->outbox_queue) :
		NULL;
}

/* A role without any privilege on the workflow must not learn that it exists. */
void
pgqrs_workflow_require(const char *name, PgqrsPrivilege privilege,
					   PgqrsWorkflow *workflow)
{
	int grants = pgqrs_privileges_on(name);
	PgqrsQueue queue;

	if (grants == 0 || !pgqrs_queue_to_send_to(name, &queue) ||
		!queue.is_workflow || !pgqrs_workflow_by_id(queue.queue_id, workflow))
		pgqrs_error_workflow_not_found(name);
	if ((grants & (1 << privilege)) == 0)
		pgqrs_error_permission_denied(pgqrs_enum_label(ENUM_PRIVILEGE, privilege),
									  name);
}

/*
 * Retry policies
 */

static void
refuse_policy_value(const char *key, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid value for \"%s\" of a retry policy", key),
			 errdetail("%s", detail), errhint("%s", policy_hint)));
}

void
pgqrs_retry_policy_check(const PgqrsRetryPolicy *policy)
{
	const PgqrsBackoff *backoff = &policy->backoff;
	ListCell *lc;

	if (policy->max_attempts < 1 && policy->max_attempts != -1)
		refuse_policy_value("max_attempts", "The value must be -1 or at least 1.");
	if (backoff->initial_interval < 0 ||
		backoff->initial_interval > PGQRS_MAX_DURATION)
		refuse_policy_value("initial_interval",
							"The interval must be from 0 to 366000 days.");
	if (backoff->max_interval < 0 || backoff->max_interval > PGQRS_MAX_DURATION)
		refuse_policy_value("max_interval",
							"The interval must be from 0 to 366000 days.");
	if (!isfinite(backoff->coefficient) || backoff->coefficient <= 0)
		refuse_policy_value("backoff_coefficient",
							"The value must be a finite number greater than 0.");
	if (!(backoff->jitter >= 0 && backoff->jitter <= 1)) /* NaN too */
		refuse_policy_value("jitter", "The value must be from 0 to 1.");
	foreach(lc, policy->non_retryable)
		if (*(char *) lfirst(lc) == '\0')
			refuse_policy_value("non_retryable",
								"The array must not contain an empty string.");
}

/* The number of a key; infinite if it is out of the range of double precision. */
static double
json_number(const char *key, const JsonbValue *value)
{
	if (value->type != jbvNumeric)
		refuse_policy_value(key, "The value must be a number.");
	return DatumGetFloat8(DirectFunctionCall1(numeric_float8_no_overflow,
											  NumericGetDatum(value->val.numeric)));
}

static int
json_int(const char *key, const JsonbValue *value)
{
	double number = json_number(key, value);

	if (number != rint(number) || fabs(number) > PG_INT32_MAX)
		refuse_policy_value(key, "The value must be an integer.");
	return (int) number;
}

/*
 * Parses a duration.  The message of the input function of type interval becomes
 * the detail of the error.
 */
static int64
parse_duration(const char *key, const char *text)
{
	MemoryContext context = CurrentMemoryContext;
	Datum interval = (Datum) 0;

	PG_TRY();
	{
		interval = DirectFunctionCall3(interval_in, CStringGetDatum(text),
									   ObjectIdGetDatum(InvalidOid),
									   Int32GetDatum(-1));
	}
	PG_CATCH();
	{
		ErrorData *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		if (ERRCODE_TO_CATEGORY(error->sqlerrcode) != ERRCODE_DATA_EXCEPTION)
			PG_RE_THROW();
		FlushErrorState();
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for \"%s\" of a retry policy", key),
				 errdetail_internal("%s", error->message),
				 errhint("%s", policy_hint)));
	}
	PG_END_TRY();
	return pgqrs_duration(DatumGetIntervalP(interval), key);
}

static int64
json_duration(const char *key, const JsonbValue *value)
{
	if (value->type != jbvString)
		refuse_policy_value(key, "The value must be an interval in a JSON string.");
	return parse_duration(key,
						  pnstrdup(value->val.string.val, value->val.string.len));
}

static List *
json_strings(const char *key, const JsonbValue *value)
{
	JsonbContainer *array;
	List *list = NIL;

	if (value->type != jbvBinary || !JsonContainerIsArray(value->val.binary.data))
		refuse_policy_value(key, "The value must be an array.");
	array = value->val.binary.data;
	for (uint32 i = 0; i < JsonContainerSize(array); i++)
	{
		JsonbValue *element = getIthJsonbValueFromContainer(array, i);

		if (element->type != jbvString)
			refuse_policy_value(key, "The array must contain only strings.");
		list = lappend(list,
					   pnstrdup(element->val.string.val, element->val.string.len));
	}
	return list;
}

static void
merge_policy_value(PgqrsRetryPolicy *policy, const char *key, const JsonbValue *value)
{
	if (strcmp(key, "max_attempts") == 0)
		policy->max_attempts = json_int(key, value);
	else if (strcmp(key, "initial_interval") == 0)
		policy->backoff.initial_interval = json_duration(key, value);
	else if (strcmp(key, "backoff_coefficient") == 0)
		policy->backoff.coefficient = json_number(key, value);
	else if (strcmp(key, "max_interval") == 0)
		policy->backoff.max_interval = json_duration(key, value);
	else if (strcmp(key, "jitter") == 0)
		policy->backoff.jitter = json_number(key, value);
	else if (strcmp(key, "non_retryable") == 0)
		policy->non_retryable = json_strings(key, value);
	else
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a retry policy has no key \"%s\"", key),
				 errhint("%s", policy_hint)));
}

/* A missing key keeps the policy's value; a JSON null is an invalid value. */
void
pgqrs_retry_policy_merge(PgqrsRetryPolicy *policy, Datum overrides)
{
	Jsonb *object = DatumGetJsonbP(overrides);
	JsonbIterator *iterator;
	JsonbIteratorToken token;
	JsonbValue v;

	if (!JB_ROOT_IS_OBJECT(object))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"retry_policy\" is not a JSON object"),
				 errhint("%s", policy_hint)));

	iterator = JsonbIteratorInit(&object->root);
	while ((token = JsonbIteratorNext(&iterator, &v, true)) != WJB_DONE)
	{
		char *key;

		if (token != WJB_KEY)
			continue;
		key = pnstrdup(v.val.string.val, v.val.string.len);
		JsonbIteratorNext(&iterator, &v, true);
		merge_policy_value(policy, key, &v);
	}
	pgqrs_retry_policy_check(policy);
}

void
pgqrs_workflow_delete_row(int64 workflow_id)
{
	PgqrsTable *workflows = pgqrs_table_open(TABLE_WORKFLOWS, true);
	TupleTableSlot *slot = pgqrs_table_slot(workflows);

	if (pgqrs_row_fetch_locked(workflows, workflow_id, LockTupleExclusive, slot))
		pgqrs_row_delete(workflows, slot);
	pgqrs_table_close(workflows);
	pgqrs_catalog_changed(TABLE_WORKFLOWS);
}
