/*
 * cron_expr.c
 *	  Cron expressions: the parser, and the next matching instant.
 *
 * Pure functions of their arguments and of the server's time zone files.
 *
 * An expression matches local times.  A matching local time that the zone skips
 * fires once, at the first instant after the gap; a local time that the zone
 * repeats fires once, at its first occurrence.  The exception are expressions
 * whose hour field begins with an asterisk, which stand for regular intervals:
 * every instant with a matching local time fires, repeated local times fire
 * each time, and skipped local times do not fire.
 *
 * As in Vixie cron, a day must match both day of month and day of week if one
 * of the two fields begins with an asterisk; otherwise one match is sufficient.
 * "L" (as in Quartz) and "$" (as in pg_cron) stand for the last day of the month.
 */
#include "workflow/cron_expr.h"

#include "base/errors.h"
#include "mb/pg_wchar.h"
#include "utils/datetime.h"

#define NFIELDS		  5
#define DAY_OF_MONTH  2 /* that field */
#define MAX_BYTES	  1000
#define SECS_PER_WEEK (7 * SECS_PER_DAY)

/* The longest gap between two matches: Feb 29 on one day of the week, across 2100. */
#define MAX_YEARS 60

/* The epoch of TimestampTz, the beginning of 2000, as pg_time_t. */
#define EPOCH_SHIFT \
	((POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * (pg_time_t) SECS_PER_DAY)

/* Stands for an instant or a local time that does not exist. */
#define NO_END PG_INT64_MAX

/* The bounds of a search; julian day numbers begin shortly before the first. */
#define FIRST_TIME (-(pg_time_t) (UNIX_EPOCH_JDATE - 366) * SECS_PER_DAY)
#define LAST_TIME  (END_TIMESTAMP / USECS_PER_SEC + EPOCH_SHIFT)

typedef struct Field
{
	const char *name;
	int min;
	int max;
	const char *const *names; /* of the values, beginning with min; or NULL */
} Field;

static const char *const month_names[] = {"jan", "feb", "mar", "apr", "may",
										  "jun", "jul", "aug", "sep", "oct",
										  "nov", "dec", NULL};
static const char *const weekday_names[] = {"sun", "mon", "tue", "wed",
											"thu", "fri", "sat", NULL};

/* Separators of fields. */
static const char blanks[] = " \t\r\n";

static const Field cron_fields[NFIELDS] = {
	{"minute", 0, 59, NULL},
	{"hour", 0, 23, NULL},
	{"day of month", 1, 31, NULL},
	{"month", 1, 12, month_names},
	{"day of week", 0, 7, weekday_names},
};

/*
 * Parsing
 */

typedef struct Parser
{
	const char *expression;
	int number; /* of the current field, from 0 */
	const char *text;
} Parser;

pg_noreturn static void refuse_expression(const char *expression,
										  const char *detail);
pg_noreturn static void refuse_field(const Parser *p, const char *what);

static void
refuse_expression(const char *expression, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_PGQRS_SCHEDULE_INVALID),
			 errmsg("invalid cron expression \"%.*s\"",
					pg_mbcliplen(expression, strlen(expression), MAX_BYTES),
					expression),
			 errdetail("%s", detail),
			 errhint("Use five fields, minute, hour, day of month, month and day of week, as in \"30 4 * * mon-fri\", or @hourly, @daily, @weekly, @monthly or @yearly.")));
}

static void
refuse_field(const Parser *p, const char *what)
{
	refuse_expression(p->expression,
					  psprintf("Field %d (%s), \"%s\": %s", p->number + 1,
							   cron_fields[p->number].name, p->text, what));
}

/* Parses a number or a name at *s and advances *s. */
static int
parse_value(const Parser *p, const char **s)
{
	const Field *field = &cron_fields[p->number];
	int value = 0;
	int digits = 0;

	for (int i = 0; field->names != NULL && field->names[i] != NULL; i++)
	{
		if (pg_strncasecmp(*s, field->names[i], 3) == 0)
		{
			*s += 3;
			return field->min + i;
		}
	}
	for (; **s >= '0' && **s <= '9' && digits < 6; (*s)++, digits++)
		value = value * 10 + (**s - '0');
	if (digits == 0)
		refuse_field(p, "a number or a name is expected.");
	if (value < field->min || value > field->max)
		refuse_field(p,
					 psprintf("%d is not from %d to %d.", value, field->min,
							  field->max));
	return value;
}

static int
parse_step(const Parser *p, const char **s)
{
	const Field *field = &cron_fields[p->number];
	int most = field->max - field->min + 1;
	int step = 0;

	(*s)++;
	for (int digits = 0; **s >= '0' && **s <= '9' && digits < 6; (*s)++, digits++)
		step = step * 10 + (**s - '0');
	if (step < 1 || step > most)
		refuse_field(p, psprintf("a step is a number from 1 to %d.", most));
	return step;
}

/*
 * Parses one item of a field's list: an asterisk, a value or a range, with an
 * optional step; or the last day of the month.  Returns the values as bits.
 */
static uint64
parse_item(const Parser *p, const char **s)
{
	const Field *field = &cron_fields[p->number];
	int low = field->min;
	int high = field->max;
	int step = 1;
	bool is_range = true;
	uint64 bits = 0;

	if (p->number == DAY_OF_MONTH && **s != '\0' && strchr("Ll$", **s) != NULL)
	{
		(*s)++;
		return UINT64CONST(1) << PGQRS_CRON_LAST_DAY;
	}
	if (**s == '*')
		(*s)++;
	else
	{
		low = high = parse_value(p, s);
		is_range = **s == '-';
		if (is_range)
		{
			(*s)++;
			high = parse_value(p, s);
			/* Sunday is also the last day of a week */
			if (field->names == weekday_names && high == 0 && low > 0)
				high = 7;
		}
		if (low > high)
			refuse_field(p, "a range must not end before it begins.");
	}
	if (**s == '/' && !is_range)
		refuse_field(p, "a step follows an asterisk or a range.");
	if (**s == '/')
		step = parse_step(p, s);
	for (int value = low; value <= high; value += step)
		bits |= UINT64CONST(1) << value;
	return bits;
}

static uint64
parse_field(Parser *p, int number, const char *text)
{
	const char *s = text;
	uint64 bits;

	p->number = number;
	p->text = text;
	bits = parse_item(p, &s);
	while (*s == ',')
	{
		s++;
		bits |= parse_item(p, &s);
	}
	if (*s != '\0')
		refuse_field(p, "only lists (1,2), ranges (1-5), steps (*/2) and names are supported.");
	return bits;
}

/* Splits the expression into its five fields. */
static void
split_fields(const char *expression, const char **texts)
{
	char *copy = pstrdup(expression);
	char *save = NULL;
	int count = 0;

	for (char *word = strtok_r(copy, blanks, &save); word != NULL;
		 word = strtok_r(NULL, blanks, &save))
	{
		if (count < NFIELDS)
			texts[count] = word;
		count++;
	}
	if (count == NFIELDS + 1)
		refuse_expression(expression,
						  "The expression has 6 fields; seconds and years are not supported.");
	if (count != NFIELDS)
		refuse_expression(expression,
						  psprintf("The expression has %d fields instead of %d.",
								   count, NFIELDS));
}

/* Replaces a word such as @daily by its five fields. */
static const char *
expand_word(const char *expression)
{
	const char *word = expression + strspn(expression, blanks);
	size_t len = strcspn(word, blanks);

	static const char *const words[][2] = {
		{"@annually", "0 0 1 1 *"}, {"@daily", "0 0 * * *"},
		{"@hourly", "0 * * * *"},	{"@midnight", "0 0 * * *"},
		{"@monthly", "0 0 1 * *"},	{"@weekly", "0 0 * * 0"},
		{"@yearly", "0 0 1 1 *"},
	};

	if (word[0] != '@')
		return expression;
	for (int i = 0; i < lengthof(words); i++)
		if (len == strlen(words[i][0]) &&
			pg_strncasecmp(word, words[i][0], len) == 0 &&
			word[len + strspn(word + len, blanks)] == '\0')
			return words[i][1];
	refuse_expression(expression, "The word is not supported.");
}

/* Whether one of the months has one of the days; a day of the week always comes. */
static bool
can_fire(const PgqrsCron *cron)
{
	if (!cron->any_day && !cron->any_weekday)
		return true;
	if ((cron->days & (1U << PGQRS_CRON_LAST_DAY)) != 0)
		return true;
	for (int month = 1; month <= 12; month++)
		for (int day = 1; day <= day_tab[1][month - 1]; day++)
			if ((cron->months & (1U << month)) != 0 &&
				(cron->days & (1U << day)) != 0)
				return true;
	return false;
}

void
pgqrs_cron_parse(const char *expression, PgqrsCron *cron)
{
	Parser p = {.expression = expression};
	const char *texts[NFIELDS];

	if (strlen(expression) > MAX_BYTES)
		refuse_expression(expression,
						  psprintf("The expression has %zu bytes; at most %d are allowed.",
								   strlen(expression), MAX_BYTES));
	split_fields(expand_word(expression), texts);
	cron->minutes = parse_field(&p, 0, texts[0]);
	cron->hours = (uint32) parse_field(&p, 1, texts[1]);
	cron->days = (uint32) parse_field(&p, 2, texts[2]);
	cron->months = (uint32) parse_field(&p, 3, texts[3]);
	cron->weekdays = (uint32) parse_field(&p, 4, texts[4]);
	if (cron->weekdays & (1U << 7))
		cron->weekdays |= 1U;
	cron->any_hour = texts[1][0] == '*';
	cron->any_day = texts[2][0] == '*';
	cron->any_weekday = texts[4][0] == '*';
	if (!can_fire(cron))
		refuse_expression(expression,
						  psprintf("No month of field 4 (month), \"%s\", has a day of field 3 (day of month), \"%s\".",
								   texts[3], texts[2]));
}

/*
 * Time zones
 */

/*
 * PostgreSQL also accepts POSIX rules as time zones, in which UTC+3 is west of
 * Greenwich.  Every POSIX rule has digits; of the IANA names only these do.
 */
static bool
is_posix_zone(const char *name)
{
	static const char *const known[] = {"EST5EDT", "CST6CDT", "MST7MDT",
										"PST8PDT", "GMT0",	  "GMT+0",
										"GMT-0",   "Etc/GMT0"};
	int hours;

	if (strpbrk(name, "0123456789") == NULL)
		return false;
	for (int i = 0; i < lengthof(known); i++)
		if (pg_strcasecmp(name, known[i]) == 0)
			return false;
	if (pg_strncasecmp(name, "Etc/GMT", 7) != 0 || strlen(name) > 10 ||
		(name[7] != '+' && name[7] != '-') || name[8] < '0' || name[8] > '9' ||
		(name[9] != '\0' && (name[9] < '0' || name[9] > '9' || name[8] == '0')))
		return true;
	hours = atoi(name + 8);
	return hours > (name[7] == '+' ? 12 : 14);
}

pg_tz *
pgqrs_cron_find_zone(const char *name)
{
	pg_tz *zone = is_posix_zone(name) ? NULL : pg_tzset(name);

	return zone != NULL && pg_tz_acceptable(zone) ? zone : NULL;
}

pg_tz *
pgqrs_cron_zone(const char *name)
{
	pg_tz *zone = pgqrs_cron_find_zone(name);

	if (zone == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_PGQRS_SCHEDULE_INVALID),
				 errmsg("time zone \"%s\" is not known", name),
				 errdetail("Argument \"timezone\" must be the name of an IANA time zone."),
				 errhint("Use a name from pg_timezone_names, such as \"Europe/Berlin\".")));
	return zone;
}

/*
 * Local times, in seconds as if they were UTC
 */

static bool
day_matches(const PgqrsCron *cron, int julian, int day, bool is_last)
{
	bool by_day = (cron->days & (1U << day)) != 0 ||
		(is_last && (cron->days & (1U << PGQRS_CRON_LAST_DAY)) != 0);
	bool by_weekday = (cron->weekdays & (1U << j2day(julian))) != 0;

	return cron->any_day || cron->any_weekday ? by_day && by_weekday :
												by_day || by_weekday;
}

/* The first set bit at or after a position, or -1. */
static int
next_set_bit(uint64 bits, int from)
{
	for (; from < 64; from++)
		if (bits & (UINT64CONST(1) << from))
			return from;
	return -1;
}

/* The first matching minute of a day at or after one, or -1. */
static int
next_minute(const PgqrsCron *cron, int from)
{
	for (int hour = next_set_bit(cron->hours, from / MINS_PER_HOUR); hour >= 0;
		 hour = next_set_bit(cron->hours, hour + 1))
	{
		int minute = next_set_bit(cron->minutes,
								  hour == from / MINS_PER_HOUR ?
									  from % MINS_PER_HOUR :
									  0);

		if (minute >= 0)
			return hour * MINS_PER_HOUR + minute;
	}
	return -1;
}

static pg_time_t
floor_div(pg_time_t a, pg_time_t b)
{
	return a / b - (a % b < 0);
}

/* The first matching local time at or after another, or NO_END. */
static pg_time_t
next_local(const PgqrsCron *cron, pg_time_t from)
{
	pg_time_t minutes = -floor_div(-from, SECS_PER_MINUTE);
	pg_time_t days = floor_div(minutes, MINS_PER_HOUR * HOURS_PER_DAY);
	int start = (int) (minutes - days * MINS_PER_HOUR * HOURS_PER_DAY);
	int julian = (int) days + UNIX_EPOCH_JDATE;
	int last = julian + MAX_YEARS * 366;

	while (julian <= last)
	{
		int year;
		int month;
		int day;
		int last_day;
		int minute;

		j2date(julian, &year, &month, &day);
		last_day = day_tab[isleap(year)][month - 1];
		if ((cron->months & (1U << month)) == 0)
		{
			julian += last_day - day + 1;
			start = 0;
			continue;
		}
		if (day_matches(cron, julian, day, day == last_day) &&
			(minute = next_minute(cron, start)) >= 0)
			return (pg_time_t) (julian - UNIX_EPOCH_JDATE) * SECS_PER_DAY +
				minute * SECS_PER_MINUTE;
		julian++;
		start = 0;
	}
	return NO_END;
}

/*
 * Instants
 */

/* A time span in which a zone keeps its offset from UTC. */
typedef struct Span
{
	pg_time_t begin;
	pg_time_t end; /* exclusive, or NO_END */
	long offset;
} Span;

/* The span from an instant to the zone's next change of the offset. */
static void
zone_span(pg_tz *zone, pg_time_t at, Span *span)
{
	struct pg_tm *tm = pg_localtime(&at, zone);
	pg_time_t boundary;
	long before;
	long after;
	int before_dst;
	int after_dst;

	span->begin = at;
	span->end = NO_END;
	span->offset = tm != NULL ? tm->tm_gmtoff : 0;
	if (pg_next_dst_boundary(&at, &before, &before_dst, &boundary, &after,
							 &after_dst, zone) > 0)
		span->end = boundary;
}

/*
 * The first matching instant of the span at or after another, or NO_END.
 * reached: the latest local time before the span.
 */
static pg_time_t
next_in_span(const PgqrsCron *cron, const Span *span, pg_time_t from,
			 pg_time_t reached)
{
	pg_time_t local = Max(from, span->begin) + span->offset;
	pg_time_t found;

	if (!cron->any_hour)
	{
		/* a matching local time in the gap before the span fires now */
		if (from <= span->begin && reached < span->begin + span->offset &&
			next_local(cron, reached) < span->begin + span->offset)
			return span->begin;
		/* local times that the span repeats have fired */
		local = Max(local, reached);
	}
	found = next_local(cron, local);
	if (found == NO_END ||
		(span->end != NO_END && found - span->offset >= span->end))
		return NO_END;
	return found - span->offset;
}

bool
pgqrs_cron_next(const PgqrsCron *cron, pg_tz *zone, TimestampTz after,
				TimestampTz *slot)
{
	pg_time_t from = Max(floor_div(after, USECS_PER_SEC) + EPOCH_SHIFT + 1,
						 FIRST_TIME);
	pg_time_t last = from + (pg_time_t) MAX_YEARS * 366 * SECS_PER_DAY;
	pg_time_t reached;
	Span span;

	/* begin far enough back to know the latest local time */
	zone_span(zone, from - SECS_PER_WEEK, &span);
	reached = span.begin + span.offset;
	for (;;)
	{
		pg_time_t found = NO_END;

		if (span.end > from)
			found = next_in_span(cron, &span, from, reached);
		if (found != NO_END && found < LAST_TIME)
		{
			*slot = (found - EPOCH_SHIFT) * USECS_PER_SEC;
			return true;
		}
		if (found != NO_END || span.end > last)
			return false;
		reached = Max(reached, span.end + span.offset);
		zone_span(zone, span.end, &span);
	}
}
