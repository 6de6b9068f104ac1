/*
 * catalog.c
 *	  The extension's objects in the current database: finds them by name and
 *	  caches their OIDs.
 *
 * Runs in any backend.  Invalidation callbacks only set flags; the next look-up
 * loads everything again.  DROP and CREATE EXTENSION, rolled back or not,
 * change relations and therefore arrive as relation cache invalidations.
 */
#include "base/catalog.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "base/errors.h"
#include "catalog/pg_enum.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_index.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "storage/sinval.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

static const char *const table_names[TABLE_COUNT] = PGQRS_TABLE_NAMES;

/*
 * Names and columns of the indexes, in order: a dropped index may have been
 * created again with other columns.
 */
static const struct
{
	const char *name;
	AttrNumber columns[PGQRS_MAX_INDEX_COLUMNS];
} index_shapes[INDEX_COUNT] = PGQRS_INDEXES;

static const char *const sequence_names[SEQUENCE_COUNT] = PGQRS_SEQUENCE_NAMES;

static const struct
{
	const char *name;
	int count;
	const char *labels[PGQRS_MAX_LABELS];
} enums[ENUM_COUNT] = PGQRS_ENUMS;

static struct
{
	bool valid;
	Oid schema;
	Oid owner;
	Oid tables[TABLE_COUNT];
	Oid indexes[INDEX_COUNT];
	Oid sequences[SEQUENCE_COUNT];
	Oid labels[ENUM_COUNT][PGQRS_MAX_LABELS];
} cache;

/*
 * Whether a subscription writes the extension's tables; changes counts the
 * invalidations that may have changed that.
 */
static struct
{
	bool known;
	bool result;
	uint64 changes;
} subscribed;

/*
 * Generations of the tables whose rows are cached.  A backend that changes such
 * rows calls pgqrs_catalog_changed(), which reaches every backend, at commit,
 * as an invalidation of the relation.
 */
static uint64 table_generations[TABLE_COUNT];

static void
relation_changed(Datum arg, Oid relid)
{
	bool any = relid == InvalidOid || !cache.valid;

	for (int i = 0; i < TABLE_COUNT; i++)
	{
		if (any || cache.tables[i] == relid)
		{
			cache.valid = false;
			table_generations[i]++;
		}
	}
	for (int i = 0; i < INDEX_COUNT; i++)
		if (cache.indexes[i] == relid)
			cache.valid = false;
	for (int i = 0; i < SEQUENCE_COUNT; i++)
		if (cache.sequences[i] == relid)
			cache.valid = false;
}

static void
subscriptions_changed(Datum arg, int cacheid, uint32 hashvalue)
{
	subscribed.known = false;
	subscribed.changes++;
}

/* Privileges depend on role membership, too. */
static void
roles_changed(Datum arg, int cacheid, uint32 hashvalue)
{
	table_generations[TABLE_GRANTS]++;
}

void
pgqrs_catalog_init(void)
{
	CacheRegisterRelcacheCallback(relation_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(SUBSCRIPTIONRELMAP, subscriptions_changed,
								  (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHOID, roles_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHMEMROLEMEM, roles_changed, (Datum) 0);
}

/*
 * Reads the extension's row in pg_extension; its OID, invalid if the extension
 * is not installed in this database. version: palloc'd; NULL: not needed.
 */
static Oid
find_extension(Oid *schema, Oid *owner, char **version)
{
	Oid extension = InvalidOid;

	Relation rel = table_open(ExtensionRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;

	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber,
				F_NAMEEQ, CStringGetDatum("pgqrs"));
	scan = systable_beginscan(rel, ExtensionNameIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		Form_pg_extension form = (Form_pg_extension) GETSTRUCT(tuple);
		bool isnull;

		extension = form->oid;
		*schema = form->extnamespace;
		*owner = form->extowner;
		if (version != NULL)
			*version = TextDatumGetCString(
				heap_getattr(tuple, Anum_pg_extension_extversion,
							 RelationGetDescr(rel), &isnull));
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return extension;
}

/* Like find_extension(), for other files; caches nothing. */
Oid
pgqrs_catalog_extension(char **version)
{
	Oid schema;
	Oid owner;

	return find_extension(&schema, &owner, version);
}

static Oid
find_relation(const char *name, Oid schema)
{
	Oid oid = get_relname_relid(name, schema);

	if (!OidIsValid(oid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation \"%s\" of extension pgqrs does not exist", name),
				 errhint("Bring the installed objects to the library's version with ALTER EXTENSION pgqrs UPDATE.")));
	return oid;
}

static Oid
find_index(PgqrsIndexId id, Oid schema)
{
	const AttrNumber *columns = index_shapes[id].columns;
	Oid oid = find_relation(index_shapes[id].name, schema);
	HeapTuple tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(oid));
	Form_pg_index form;
	int count = 0;
	bool same;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for index %u", oid);
	form = (Form_pg_index) GETSTRUCT(tuple);
	while (count < PGQRS_MAX_INDEX_COLUMNS && columns[count] != 0)
		count++;
	same = form->indnatts == count &&
		memcmp(form->indkey.values, columns, count * sizeof(AttrNumber)) == 0;
	ReleaseSysCache(tuple);
	if (!same)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("index \"%s\" has other columns than the one of extension pgqrs",
						index_shapes[id].name),
				 errhint("Drop it and create it as the extension's install script does.")));
	return oid;
}

static Oid
find_label(const char *type, const char *label, Oid schema)
{
	Oid typid;
	Oid oid;

	typid = GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid,
							CStringGetDatum(type), ObjectIdGetDatum(schema));
	oid = GetSysCacheOid2(ENUMTYPOIDNAME, Anum_pg_enum_oid,
						  ObjectIdGetDatum(typid), CStringGetDatum(label));
	if (!OidIsValid(oid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("label \"%s\" of type \"%s\" does not exist", label, type),
				 errhint("Bring the installed objects to the library's version with ALTER EXTENSION pgqrs UPDATE.")));
	return oid;
}

/* Fills the cache unless it is valid; false if the extension is not installed. */
static bool
load_catalog(void)
{
	if (cache.valid)
		return true;
	if (!OidIsValid(find_extension(&cache.schema, &cache.owner, NULL)))
		return false;

	subscriptions_changed((Datum) 0, 0, 0);
	/*
	 * an invalidation that arrives from here on makes the next call load again
	 */
	cache.valid = true;
	PG_TRY();
	{
		for (int i = 0; i < TABLE_COUNT; i++)
			cache.tables[i] = find_relation(table_names[i], cache.schema);
		for (int i = 0; i < INDEX_COUNT; i++)
			cache.indexes[i] = find_index(i, cache.schema);
		for (int i = 0; i < SEQUENCE_COUNT; i++)
			cache.sequences[i] = find_relation(sequence_names[i], cache.schema);
		for (int i = 0; i < ENUM_COUNT; i++)
			for (int j = 0; j < enums[i].count; j++)
				cache.labels[i][j] = find_label(enums[i].name,
												enums[i].labels[j], cache.schema);
	}
	PG_CATCH();
	{
		cache.valid = false;
		PG_RE_THROW();
	}
	PG_END_TRY();
	return true;
}

static void
require_catalog(void)
{
	if (!load_catalog())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("extension pgqrs is not installed in this database"),
				 errhint("Run CREATE EXTENSION pgqrs.")));
}

Oid
pgqrs_catalog_owner(void)
{
	require_catalog();
	return cache.owner;
}

static bool
is_subscribed(Oid table)
{
	CatCList *list = SearchSysCacheList1(SUBSCRIPTIONRELMAP,
										 ObjectIdGetDatum(table));
	bool found = list->n_members > 0;

	ReleaseCatCacheList(list);
	return found;
}

bool
pgqrs_catalog_subscribed(void)
{
	uint64 changes;
	bool found = false;

	if (subscribed.known)
		return subscribed.result;
	require_catalog();
	changes = subscribed.changes;
	for (int i = 0; i < TABLE_COUNT && !found; i++)
		found = is_subscribed(cache.tables[i]);
	subscribed.result = found;
	subscribed.known = changes == subscribed.changes;
	return found;
}

Oid
pgqrs_catalog_schema(void)
{
	require_catalog();
	return cache.schema;
}

Oid
pgqrs_catalog_table(PgqrsTableId id)
{
	require_catalog();
	return cache.tables[id];
}

Oid
pgqrs_catalog_index(PgqrsIndexId id)
{
	require_catalog();
	return cache.indexes[id];
}

Oid
pgqrs_catalog_sequence(PgqrsSequenceId id)
{
	require_catalog();
	return cache.sequences[id];
}

/*
 * Changes whenever rows of the table that a backend has cached may be outdated.
 */
uint64
pgqrs_catalog_generation(PgqrsTableId id)
{
	require_catalog();
	return table_generations[id];
}

/*
 * Makes every backend drop its cached rows of a table: this backend now and, if
 * the change is rolled back, again then; the others when the transaction
 * commits.  An abort repeats only the invalidations of finished commands, hence
 * the end of this command.
 */
void
pgqrs_catalog_changed(PgqrsTableId id)
{
	table_generations[id]++;
	CacheInvalidateRelcacheByRelid(pgqrs_catalog_table(id));
	CommandCounterIncrement();
}

void
pgqrs_catalog_changing(PgqrsTableId id)
{
	SharedInvalidationMessage message = {0};

	message.rc.id = SHAREDINVALRELCACHE_ID;
	message.rc.dbId = MyDatabaseId;
	message.rc.relId = pgqrs_catalog_table(id);
	SendSharedInvalidMessages(&message, 1);
}

Datum
pgqrs_enum_datum(PgqrsEnumId type, int label)
{
	Assert(label >= 0 && label < enums[type].count);
	require_catalog();
	return ObjectIdGetDatum(cache.labels[type][label]);
}

int
pgqrs_enum_find(PgqrsEnumId type, Datum datum)
{
	require_catalog();
	for (int i = 0; i < enums[type].count; i++)
		if (cache.labels[type][i] == DatumGetObjectId(datum))
			return i;
	return -1;
}

int
pgqrs_enum_value(PgqrsEnumId type, Datum datum)
{
	int value = pgqrs_enum_find(type, datum);

	if (value < 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("a row has an unknown value of type %s", enums[type].name),
				 errhint(PGQRS_DAMAGED_HINT)));
	return value;
}

const char *
pgqrs_enum_label(PgqrsEnumId type, int label)
{
	return enums[type].labels[label];
}

/* The number of a label, or -1. */
int
pgqrs_enum_parse(PgqrsEnumId type, const char *label)
{
	for (int i = 0; i < enums[type].count; i++)
		if (strcmp(enums[type].labels[i], label) == 0)
			return i;
	return -1;
}
