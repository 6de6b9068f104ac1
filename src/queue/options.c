/*
 * options.c
 *	  What create and alter are given for a queue or a workflow: defaults,
 *	  resets, and comparison with what is stored.
 *
 * Runs in any backend, takes no lock.
 */
#include "queue/options.h"

#include "base/errors.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

pg_noreturn static void refuse_name(const PgqrsSettings *s, const char *name);

/* Nothing is given, every default is NULL. */
void
pgqrs_settings_init(PgqrsSettings *s, const PgqrsSetting *known, int count)
{
	Assert(count <= PGQRS_MAX_SETTINGS);
	s->known = known;
	s->count = count;
	s->replace = false;
	for (int i = 0; i < count; i++)
	{
		s->given[i] = s->reset[i] = false;
		s->values[i] = s->defaults[i] = (PgqrsSettingValue){0, true};
	}
}

void
pgqrs_settings_default(PgqrsSettings *s, int setting, Datum value)
{
	s->values[setting] = s->defaults[setting] = (PgqrsSettingValue){value, false};
}

void
pgqrs_settings_give(PgqrsSettings *s, int setting, Datum value)
{
	s->values[setting] = (PgqrsSettingValue){value, false};
	s->given[setting] = true;
}

/* What exists is to have these settings, and the defaults of all others. */
void
pgqrs_settings_replace(PgqrsSettings *s)
{
	s->replace = true;
	for (int i = 0; i < s->count; i++)
		s->given[i] = true;
}

static void
refuse_name(const PgqrsSettings *s, const char *name)
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

/* Back to the default; refused if the same call gives a value. */
void
pgqrs_settings_reset(PgqrsSettings *s, const char *name)
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
is_held(const PgqrsSettings *s, int setting, PgqrsTableId table)
{
	return s->known[setting].column != 0 && s->known[setting].table == table;
}

/* Whether a setting that the table holds is given. */
bool
pgqrs_settings_given(const PgqrsSettings *s, PgqrsTableId table)
{
	for (int i = 0; i < s->count; i++)
		if (s->given[i] && is_held(s, i, table))
			return true;
	return false;
}

/* Puts those that the table holds into a row of it. */
void
pgqrs_settings_store(const PgqrsSettings *s, PgqrsTableId table,
					 bool only_given, PgqrsRow *row)
{
	for (int i = 0; i < s->count; i++)
	{
		if (!is_held(s, i, table) || (only_given && !s->given[i]))
			continue;
		if (s->values[i].isnull)
			pgqrs_set_null(row, s->known[i].column);
		else
			pgqrs_set(row, s->known[i].column, s->values[i].value);
	}
}

static char *
as_text(const PgqrsSettingValue *v, Oid type)
{
	Oid output;
	bool is_varlena;

	if (v->isnull)
		return "NULL";
	getTypeOutputInfo(type, &output, &is_varlena);
	return OidOutputFunctionCall(output, v->value);
}

/* What a stored row has in the column of a setting. */
static char *
stored_text(const PgqrsSetting *known, PgqrsTable *table, TupleTableSlot *slot,
			Oid *type)
{
	PgqrsSettingValue stored;

	*type = TupleDescAttr(RelationGetDescr(table->rel), known->column - 1)->atttypid;
	stored.value = slot_getattr(slot, known->column, &stored.isnull);
	return as_text(&stored, *type);
}

/*
 * Appends what a stored row has otherwise than asked.  An argument that has
 * its default value cannot be told from one that was left out, and counts as
 * left out.
 */
void
pgqrs_settings_compare(const PgqrsSettings *s, PgqrsTable *table,
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
		asked = as_text(&s->values[i], type);
		if (strcmp(asked, found) != 0 &&
			strcmp(asked, as_text(&s->defaults[i], type)) != 0)
			appendStringInfo(differences, "%s%s is %s, not %s",
							 differences->len > 0 ? "; " : "", s->known[i].name,
							 found, asked);
	}
}

/* Whether a stored row has any setting otherwise than asked, or by default. */
bool
pgqrs_settings_differ(const PgqrsSettings *s, PgqrsTable *table, TupleTableSlot *slot)
{
	for (int i = 0; i < s->count; i++)
	{
		char *found;
		Oid type;

		if (!is_held(s, i, table->id))
			continue;
		found = stored_text(&s->known[i], table, slot, &type);
		if (strcmp(found, as_text(&s->values[i], type)) != 0)
			return true;
	}
	return false;
}
