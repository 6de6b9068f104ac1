/*
 * options.c
 *	  Options: the arguments that create and alter take for a queue or a
 *	  workflow.
 *
 * Runs in any backend, takes no lock.
 */
#include "queue/options.h"

#include "base/errors.h"
#include "catalog/pg_type.h"
#include "store/tuple.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

pg_noreturn static void refuse_name(const PgqrsOptions *s, const char *name);

static char *
as_text(NullableDatum value, Oid type)
{
	Oid output;
	bool is_varlena;

	if (value.isnull)
		return "NULL";
	getTypeOutputInfo(type, &output, &is_varlena);
	return OidOutputFunctionCall(output, value.value);
}

/* The type of the option's argument. */
static Oid
type_of(const PgqrsOption *option)
{
	static const Oid types[] = {
		[OPTION_DURATION] = INTERVALOID, [OPTION_INTEGER] = INT4OID,
		[OPTION_NUMBER] = FLOAT8OID,	 [OPTION_BOOLEAN] = BOOLOID,
		[OPTION_TEXT] = TEXTOID,		 [OPTION_TEXTS] = TEXTARRAYOID,
		[OPTION_QUEUE] = TEXTOID,		 [OPTION_KEY_SCOPE] = TEXTOID,
		[OPTION_ON_CANCEL] = TEXTOID,
	};

	return types[option->kind];
}

static NullableDatum
default_of(const PgqrsOption *option)
{
	Oid input;
	Oid parameter;
	Datum value;

	if (option->initial == NULL)
		return PGQRS_NULL;
	if (option->kind == OPTION_KEY_SCOPE || option->kind == OPTION_ON_CANCEL)
	{
		PgqrsEnumId type = option->kind == OPTION_KEY_SCOPE ? ENUM_KEY_SCOPE :
															  ENUM_ON_CANCEL;

		return pgqrs_value(
			pgqrs_enum_datum(type, pgqrs_enum_parse(type, option->initial)));
	}
	getTypeInputInfo(type_of(option), &input, &parameter);
	value = OidInputFunctionCall(input, unconstify(char *, option->initial),
								 parameter, -1);
	if (option->kind == OPTION_DURATION)
		value = IntervalPGetDatum(pgqrs_interval(
			pgqrs_duration(DatumGetIntervalP(value), option->name)));
	return pgqrs_value(value);
}

/* Initializes the options: none is given. */
void
pgqrs_options_init(PgqrsOptions *s, const PgqrsOption *known, int count)
{
	Assert(count <= PGQRS_MAX_OPTIONS);
	s->known = known;
	s->count = count;
	s->replace = false;
	for (int i = 0; i < count; i++)
	{
		s->given[i] = s->reset[i] = false;
		s->values[i] = s->defaults[i] = default_of(&known[i]);
	}
}

/*
 * Gives a value. 0A000 for an option that is not supported yet, unless the
 * value is the default.
 */
void
pgqrs_options_give(PgqrsOptions *s, int setting, Datum value)
{
	const PgqrsOption *option = &s->known[setting];

	s->values[setting] = pgqrs_value(value);
	s->given[setting] = true;
	if (option->column == 0 &&
		strcmp(as_text(s->values[setting], type_of(option)),
			   as_text(s->defaults[setting], type_of(option))) != 0)
		pgqrs_error_not_supported(psprintf("argument \"%s\"", option->name));
}

/*
 * Replaces all settings of an existing object: options not given get their
 * defaults.
 */
void
pgqrs_options_replace(PgqrsOptions *s)
{
	s->replace = true;
	for (int i = 0; i < s->count; i++)
		s->given[i] = true;
}

static void
refuse_name(const PgqrsOptions *s, const char *name)
{
	StringInfoData known;

	initStringInfo(&known);
	for (int i = 0; i < s->count; i++)
		appendStringInfo(&known, "%s%s", i > 0 ? ", " : "", s->known[i].name);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("argument \"reset\" names \"%s\", which is not a setting", name),
			 errhint("Use some of %s.", known.data)));
}

/* Resets an option to its default; refused if the same call gives a value. */
void
pgqrs_options_reset(PgqrsOptions *s, const char *name)
{
	int i = 0;

	while (i < s->count && strcmp(s->known[i].name, name) != 0)
		i++;
	if (i == s->count)
		refuse_name(s, name);
	if (s->given[i] && !s->reset[i])
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" is both set and reset", name),
				 errhint("Give a value for it or name it in \"reset\".")));
	s->given[i] = s->reset[i] = true;
	s->values[i] = s->defaults[i];
}

static bool
is_held(const PgqrsOptions *s, int setting, PgqrsTableId table)
{
	return s->known[setting].column != 0 && s->known[setting].table == table;
}

/* Whether an option with a column in the table is given. */
bool
pgqrs_options_given(const PgqrsOptions *s, PgqrsTableId table)
{
	for (int i = 0; i < s->count; i++)
		if (s->given[i] && is_held(s, i, table))
			return true;
	return false;
}

/* Writes the options with columns in the table into a row. */
void
pgqrs_options_store(const PgqrsOptions *s, PgqrsTableId table, bool only_given,
					PgqrsRow *row)
{
	for (int i = 0; i < s->count; i++)
	{
		if (!is_held(s, i, table) || (only_given && !s->given[i]))
			continue;
		pgqrs_set_or_null(row, s->known[i].column, s->values[i]);
	}
}

/* The stored value of an option, as text. */
static char *
stored_text(const PgqrsOption *known, PgqrsTable *table, TupleTableSlot *slot,
			Oid *type)
{
	*type = TupleDescAttr(RelationGetDescr(table->rel), known->column - 1)->atttypid;
	return as_text(pgqrs_get_or_null(slot, known->column), *type);
}

/*
 * Appends the differences between a stored row and the options given.  An
 * argument with its default value cannot be distinguished from an omitted one,
 * and counts as omitted.
 */
void
pgqrs_options_compare(const PgqrsOptions *s, PgqrsTable *table,
					  TupleTableSlot *slot, StringInfo differences)
{
	for (int i = 0; i < s->count; i++)
	{
		char *asked;
		char *found;
		Oid type;

		if (!is_held(s, i, table->id))
			continue;
		found = stored_text(&s->known[i], table, slot, &type);
		asked = as_text(s->values[i], type);
		if (strcmp(asked, found) != 0 &&
			strcmp(asked, as_text(s->defaults[i], type)) != 0)
			appendStringInfo(differences, "%s%s is %s, not %s",
							 differences->len > 0 ? "; " : "", s->known[i].name,
							 found, asked);
	}
}

/*
 * Whether any setting of a stored row differs from the options, defaults
 * included.
 */
bool
pgqrs_options_differ(const PgqrsOptions *s, PgqrsTable *table, TupleTableSlot *slot)
{
	for (int i = 0; i < s->count; i++)
	{
		char *found;
		Oid type;

		if (!is_held(s, i, table->id))
			continue;
		found = stored_text(&s->known[i], table, slot, &type);
		if (strcmp(found, as_text(s->values[i], type)) != 0)
			return true;
	}
	return false;
}
