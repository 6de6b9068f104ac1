/*
 * schedule.c
 *	  Schedules: what triggers runs by the calendar.
 *
 * Runs in any backend.  next_fire_at of a schedule is its first slot that has
 * not been served.  Whoever finds one due locks the schedule's row, or leaves
 * it to who has it; looks again; triggers a run for each slot and moves
 * next_fire_at on, in one transaction.  So any number of tickers may run, and
 * a slot is served once.  The firings remember the slots, also when the clock
 * is set back and one comes again.
 *
 * A schedule fires with what its owner may do at that moment: whoever wrote it
 * last.  A role sees the schedules of workflows on which it has any privilege.
 * It may change its own, if it may trigger the workflow, and those of
 * workflows that it administers.  To give a schedule a name it needs trigger on
 * the name, too.
 */
#include "workflow/schedule.h"

#include "base/clock.h"
#include "base/errors.h"
#include "base/int64_list.h"
#include "miscadmin.h"
#include "queue/privileges.h"
#include "queue/queue.h"
#include "queue/roles.h"
#include "shmem/quarantine.h"
#include "shmem/xact_hooks.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/timestamp.h"
#include "workflow/cancel.h"
#include "workflow/cron_expr.h"
#include "workflow/run.h"

/* How many schedules one call takes. */
#define MAX_DUE 1000

/* What somebody has locked is tried again after this. */
#define RETRY (1 * USECS_PER_SEC)

/* A slot that is served within this is on time: it was not missed. */
#define ON_TIME (60 * USECS_PER_SEC)

/* How far back the newest slots are looked for at first. */
#define FIRST_WINDOW USECS_PER_HOUR

/*
 * One schedule
 */

static char *
get_text(TupleTableSlot *slot, AttrNumber column)
{
	return TextDatumGetCString(pgqrs_get(slot, column));
}

static const PgqrsRoleColumns owner_columns = {Schedules_owner_id, Schedules_owner};

static bool
fetch(PgqrsTable *schedules, const char *name, TupleTableSlot *slot)
{
	Datum key = CStringGetTextDatum(name);

	return pgqrs_row_fetch(schedules, INDEX_SCHEDULES_NAME, 1, &key, slot);
}

static bool
is_own(TupleTableSlot *slot)
{
	Oid role = pgqrs_role_of(slot, owner_columns);

	return OidIsValid(role) && has_privs_of_role(GetUserId(), role);
}

/* Whether the current role may see it; 42501 if it may, but not change it. */
static bool
check_privilege(TupleTableSlot *slot)
{
	char *workflow = get_text(slot, Schedules_workflow);
	int mask = pgqrs_grants_on(workflow);

	if (mask != 0 && (mask & CAN_ADMIN) == 0 &&
		((mask & CAN_TRIGGER) == 0 || !is_own(slot)))
		pgqrs_error_denied("admin", workflow);
	return mask != 0;
}

/*
 * Finds a schedule that the current role may change, and locks it.  False:
 * there is none that it may see.
 */
static bool
find_locked(PgqrsTable *schedules, const char *name, LockTupleMode mode,
			TupleTableSlot *slot)
{
	while (fetch(schedules, name, slot) && check_privilege(slot))
		if (pgqrs_row_lock(schedules, slot, mode, LockWaitBlock) == ROW_LOCKED)
			return true;
	return false;
}

static void
error_not_found(const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("schedule \"%s\" does not exist", name),
			 errhint("Look for it in pgqrs_schedule_list, or make it with pgqrs_schedule().")));
}

/* The first slot after an instant; NULL in the row where there is none. */
static void
set_next(PgqrsRow *row, const PgqrsCron *cron, pg_tz *zone, TimestampTz after)
{
	TimestampTz next;

	if (zone != NULL && pgqrs_cron_next(cron, zone, after, &next))
		pgqrs_set(row, Schedules_next_fire_at, TimestampTzGetDatum(next));
	else
		pgqrs_set_null(row, Schedules_next_fire_at);
}

/* The background worker has to come when the schedule fires next. */
static void
note_due(const PgqrsRow *row)
{
	if (!row->nulls[Schedules_next_fire_at - 1])
		pgqrs_commit_due(DUTY_SCHEDULES,
						 DatumGetTimestampTz(
							 row->values[Schedules_next_fire_at - 1]));
}

/*
 * Making and changing
 */

static void
fill(PgqrsRow *row, const PgqrsNewSchedule *s)
{
	pgqrs_set(row, Schedules_name, CStringGetTextDatum(s->name));
	pgqrs_set(row, Schedules_cron, CStringGetTextDatum(s->cron));
	pgqrs_set(row, Schedules_timezone, CStringGetTextDatum(s->timezone));
	pgqrs_set(row, Schedules_workflow, CStringGetTextDatum(s->workflow));
	pgqrs_role_set(row, owner_columns, GetUserId());
	pgqrs_set(row, Schedules_max_catchup, Int32GetDatum(s->max_catchup));
	pgqrs_set(row, Schedules_overlap, pgqrs_enum_datum(ENUM_OVERLAP, s->overlap));
	pgqrs_set(row, Schedules_priority, Int16GetDatum(s->priority));
	pgqrs_set_null(row, Schedules_timeout);
	if (s->timeout > 0)
		pgqrs_set(row, Schedules_timeout,
				  IntervalPGetDatum(pgqrs_interval(s->timeout)));
	pgqrs_set_or_null(row, Schedules_input, s->input);
	pgqrs_set_or_null(row, Schedules_tags, s->tags);
}

/* Whether the times of a schedule stay as they are, missed ones included. */
static bool
keeps_times(TupleTableSlot *slot, const PgqrsNewSchedule *s)
{
	return DatumGetBool(pgqrs_get(slot, Schedules_enabled)) &&
		!pgqrs_is_null(slot, Schedules_next_fire_at) &&
		strcmp(get_text(slot, Schedules_cron), s->cron) == 0 &&
		strcmp(get_text(slot, Schedules_timezone), s->timezone) == 0;
}

static void
set_enabled(PgqrsRow *row, bool enabled, const PgqrsCron *cron, pg_tz *zone)
{
	pgqrs_set(row, Schedules_enabled, BoolGetDatum(enabled));
	if (enabled)
	{
		set_next(row, cron, zone, pgqrs_clock());
		note_due(row);
	}
	else
		pgqrs_set_null(row, Schedules_next_fire_at);
}

static bool
insert(PgqrsTable *schedules, const PgqrsNewSchedule *s, const PgqrsCron *cron,
	   pg_tz *zone, int64 *id)
{
	PgqrsRow row;

	*id = pgqrs_next_id(SEQUENCE_SCHEDULE_ID);
	pgqrs_row_init(&row, schedules);
	pgqrs_set(&row, Schedules_schedule_id, Int64GetDatum(*id));
	fill(&row, s);
	set_enabled(&row, s->keep_enabled || s->enabled, cron, zone);
	return pgqrs_row_insert_unique(schedules, &row, INDEX_SCHEDULES_NAME);
}

static int64
update(PgqrsTable *schedules, TupleTableSlot *slot, const PgqrsNewSchedule *s,
	   const PgqrsCron *cron, pg_tz *zone)
{
	bool enabled = s->keep_enabled ?
		DatumGetBool(pgqrs_get(slot, Schedules_enabled)) :
		s->enabled;
	PgqrsRow row;

	pgqrs_row_copy(&row, schedules, slot);
	fill(&row, s);
	if (!enabled || !keeps_times(slot, s))
		set_enabled(&row, enabled, cron, zone);
	pgqrs_row_update(schedules, slot, &row);
	return DatumGetInt64(pgqrs_get(slot, Schedules_schedule_id));
}

int64
pgqrs_schedule_set(const PgqrsNewSchedule *s)
{
	PgqrsTable *schedules;
	TupleTableSlot *slot;
	pg_tz *zone;
	PgqrsWorkflow workflow;
	PgqrsCron cron;
	int64 id;

	/* the names of other tenants' schedules can be neither probed nor taken */
	pgqrs_grants_require(s->name, PRIVILEGE_TRIGGER);
	schedules = pgqrs_table_open(TABLE_SCHEDULES, true);
	slot = pgqrs_table_slot(schedules);
	zone = pgqrs_cron_zone(s->timezone);
	pgqrs_workflow_require(s->workflow, PRIVILEGE_TRIGGER, &workflow);
	if (!pgqrs_queue_pin(s->workflow))
		pgqrs_error_workflow_not_found(s->workflow);
	pgqrs_cron_parse(s->cron, &cron);
	for (;;)
	{
		if (find_locked(schedules, s->name, LockTupleNoKeyExclusive, slot))
		{
			id = update(schedules, slot, s, &cron, zone);
			break;
		}
		if (fetch(schedules, s->name, slot))
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("permission denied for schedule \"%s\"", s->name),
					 errdetail("Another role's schedule of another workflow has this name."),
					 errhint("Use another name.")));
		if (insert(schedules, s, &cron, zone, &id))
			break;
	}
	pgqrs_table_close(schedules);
	return id;
}

void
pgqrs_schedule_enable(const char *name, bool enabled)
{
	PgqrsTable *schedules = pgqrs_table_open(TABLE_SCHEDULES, true);
	TupleTableSlot *slot = pgqrs_table_slot(schedules);
	PgqrsCron cron;
	PgqrsRow row;

	if (!find_locked(schedules, name, LockTupleNoKeyExclusive, slot))
		error_not_found(name);
	if (DatumGetBool(pgqrs_get(slot, Schedules_enabled)) != enabled)
	{
		pgqrs_cron_parse(get_text(slot, Schedules_cron), &cron);
		pgqrs_row_copy(&row, schedules, slot);
		set_enabled(&row, enabled, &cron,
					pgqrs_cron_zone(get_text(slot, Schedules_timezone)));
		pgqrs_row_update(schedules, slot, &row);
	}
	pgqrs_table_close(schedules);
}

/*
 * Deleting
 */

/* The firings of a schedule that is locked, and its row. */
static void
drop_locked(PgqrsTable *schedules, TupleTableSlot *slot)
{
	PgqrsTable *firings = pgqrs_table_open(TABLE_FIRINGS, true);
	TupleTableSlot *firing = pgqrs_table_slot(firings);
	PgqrsKey key = {1, BTEqualStrategyNumber,
					pgqrs_get(slot, Schedules_schedule_id)};
	PgqrsScan scan;

	pgqrs_scan_begin(&scan, firings, INDEX_FIRINGS_PKEY, 1, &key);
	while (pgqrs_scan_next(&scan, firing))
		if (pgqrs_row_lock(firings, firing, LockTupleExclusive, LockWaitBlock) ==
			ROW_LOCKED)
			pgqrs_row_delete(firings, firing);
	pgqrs_scan_end(&scan);
	pgqrs_table_close(firings);
	pgqrs_row_delete(schedules, slot);
}

bool
pgqrs_schedule_drop(const char *name)
{
	PgqrsTable *schedules = pgqrs_table_open(TABLE_SCHEDULES, true);
	TupleTableSlot *slot = pgqrs_table_slot(schedules);
	bool found = find_locked(schedules, name, LockTupleExclusive, slot);

	if (found)
		drop_locked(schedules, slot);
	pgqrs_table_close(schedules);
	return found;
}

/* The ids of a workflow's schedules, of which there are few, ascending. */
static List *
ids_of(PgqrsTable *schedules, TupleTableSlot *slot, const char *workflow)
{
	List *ids = NIL;
	PgqrsScan scan;

	pgqrs_scan_begin_table(&scan, schedules);
	while (pgqrs_scan_next(&scan, slot))
	{
		int64 *id;

		if (strcmp(get_text(slot, Schedules_workflow), workflow) != 0)
			continue;
		id = palloc(sizeof(int64));
		*id = DatumGetInt64(pgqrs_get(slot, Schedules_schedule_id));
		ids = lappend(ids, id);
	}
	pgqrs_scan_end(&scan);
	return ids;
}

bool
pgqrs_schedule_exists_for(const char *workflow)
{
	PgqrsTable *schedules = pgqrs_table_open(TABLE_SCHEDULES, false);
	bool any = ids_of(schedules, pgqrs_table_slot(schedules), workflow) != NIL;

	pgqrs_table_close(schedules);
	return any;
}

void
pgqrs_schedule_drop_for(const char *workflow)
{
	PgqrsTable *schedules = pgqrs_table_open(TABLE_SCHEDULES, true);
	TupleTableSlot *slot = pgqrs_table_slot(schedules);
	ListCell *lc;

	foreach(lc, ids_of(schedules, slot, workflow))
		if (pgqrs_row_fetch_locked(schedules, *(int64 *) lfirst(lc),
								   LockTupleExclusive, slot) &&
			strcmp(get_text(slot, Schedules_workflow), workflow) == 0)
			drop_locked(schedules, slot);
	pgqrs_table_close(schedules);
}

/*
 * Firing
 */

/* What a run of the schedule is triggered with. */
static void
fill_run(TupleTableSlot *slot, PgqrsNewRun *r)
{
	*r = PGQRS_NEW_RUN;
	r->priority = DatumGetInt16(pgqrs_get(slot, Schedules_priority));
	r->timeout = -1;
	if (!pgqrs_is_null(slot, Schedules_timeout))
		r->timeout = pgqrs_duration(DatumGetIntervalP(
										pgqrs_get(slot, Schedules_timeout)),
									"timeout");
	r->input = pgqrs_get_or_null(slot, Schedules_input);
	r->tags = pgqrs_get_or_null(slot, Schedules_tags);
}

int64
pgqrs_schedule_trigger(const char *name)
{
	PgqrsTable *schedules = pgqrs_table_open(TABLE_SCHEDULES, true);
	TupleTableSlot *slot = pgqrs_table_slot(schedules);
	PgqrsNewRun r;
	int64 id;

	if (!fetch(schedules, name, slot) || !check_privilege(slot))
		error_not_found(name);
	fill_run(slot, &r);
	id = pgqrs_run_trigger(get_text(slot, Schedules_workflow), &r);
	pgqrs_table_close(schedules);
	return id;
}

/* A schedule that is being served; its row is locked. */
typedef struct Due
{
	PgqrsTable *schedules;
	PgqrsTable *firings;
	TupleTableSlot *slot;
	TupleTableSlot *firing;
	int64 id;
	int64 last_run_id; /* 0: none */
	TimestampTz now;
} Due;

/* Why the schedule cannot fire; NULL: it can. */
static const char *
find_obstacle(Due *due)
{
	char *workflow = get_text(due->slot, Schedules_workflow);
	char *owner = NameStr(*DatumGetName(pgqrs_get(due->slot, Schedules_owner)));
	PgqrsQueue queue;

	if (!pgqrs_queue_by_name(workflow, &queue) || !queue.is_workflow)
		return psprintf("There is no workflow \"%s\".", workflow);
	if ((pgqrs_grants_of(pgqrs_role_of(due->slot, owner_columns), workflow) &
		 CAN_TRIGGER) == 0)
		return psprintf("Its owner \"%s\" may not trigger workflow \"%s\".",
						owner, workflow);
	return NULL;
}

/* Whether the run that the schedule triggered last has not ended. */
static bool
is_previous_live(Due *due)
{
	PgqrsTable *runs;
	TupleTableSlot *run;
	bool live;

	if (due->last_run_id == 0)
		return false;
	runs = pgqrs_table_open(TABLE_RUNS, false);
	run = pgqrs_table_slot(runs);
	live = pgqrs_row_fetch_id(runs, due->last_run_id, run) &&
		!pgqrs_run_is_terminal(pgqrs_run_status(run));
	pgqrs_table_close(runs);
	return live;
}

static bool
was_served(Due *due, TimestampTz at)
{
	Datum keys[2] = {Int64GetDatum(due->id), TimestampTzGetDatum(at)};

	return pgqrs_row_fetch(due->firings, INDEX_FIRINGS_PKEY, 2, keys, due->firing);
}

static void
note_firing(Due *due, TimestampTz at, int64 run_id)
{
	PgqrsRow row;

	pgqrs_row_init(&row, due->firings);
	pgqrs_set(&row, Firings_schedule_id, Int64GetDatum(due->id));
	pgqrs_set(&row, Firings_slot, TimestampTzGetDatum(at));
	pgqrs_set(&row, Firings_fired_at, TimestampTzGetDatum(due->now));
	if (run_id != 0)
		pgqrs_set(&row, Firings_run_id, Int64GetDatum(run_id));
	pgqrs_row_insert(due->firings, &row);
	pgqrs_commit_due(DUTY_RETENTION, due->now + PGQRS_FIRING_MIN_AGE);
}

typedef enum Served
{
	SERVED_RUN,
	SERVED_NOTHING,
	SERVED_LATER /* somebody has the run locked that is to be cancelled */
} Served;

/* Makes room for another run; false: not now. */
static bool
cancel_previous(Due *due)
{
	return !is_previous_live(due) ||
		pgqrs_cancel_try(due->last_run_id, "its schedule has come to the next run");
}

/* Serves one slot. */
static Served
serve(Due *due, TimestampTz at)
{
	int overlap = pgqrs_enum_value(ENUM_OVERLAP,
								   pgqrs_get(due->slot, Schedules_overlap));
	const char *obstacle;
	PgqrsNewRun r;
	int64 run_id = 0;

	if (was_served(due, at))
		return SERVED_NOTHING;
	obstacle = find_obstacle(due);
	if (obstacle != NULL)
		ereport(WARNING,
				(errcode(ERRCODE_PGQRS_SCHEDULE_INVALID),
				 errmsg("schedule \"%s\" did not fire for %s",
						get_text(due->slot, Schedules_name), timestamptz_to_str(at)),
				 errdetail("%s", obstacle),
				 errhint("Change the schedule, its owner's privileges, or disable it.")));
	else if (overlap == OVERLAP_CANCEL && !cancel_previous(due))
		return SERVED_LATER;
	else if (overlap != OVERLAP_SKIP || !is_previous_live(due))
	{
		fill_run(due->slot, &r);
		r.no_warning = true;
		r.schedule_slot = at;
		run_id = pgqrs_run_trigger(get_text(due->slot, Schedules_workflow), &r);
		due->last_run_id = run_id;
	}
	note_firing(due, at, run_id);
	return run_id != 0 ? SERVED_RUN : SERVED_NOTHING;
}

/*
 * The newest slots from one instant to another, both included, in order; how
 * many.  Looks back as far as it takes to find them.
 */
static int
newest_slots(const PgqrsCron *cron, pg_tz *zone, TimestampTz from,
			 TimestampTz to, int max, TimestampTz *slots)
{
	TimestampTz *ring = palloc(max * sizeof(TimestampTz));
	int64 window = FIRST_WINDOW;
	int64 count;
	TimestampTz begin;

	do
	{
		TimestampTz at;

		begin = to - from < window ? from : to - window;
		window *= 4;
		at = begin - 1;
		for (count = 0; pgqrs_cron_next(cron, zone, at, &at) && at <= to; count++)
		{
			CHECK_FOR_INTERRUPTS();
			ring[count % max] = at;
		}
	} while (begin > from && count < max);
	for (int i = 0; i < Min(count, max); i++)
		slots[i] = ring[(Max(count - max, 0) + i) % max];
	pfree(ring);
	return (int) Min(count, max);
}

/*
 * The slots to serve: those that are on time and, of those that were missed,
 * the newest max_catchup; in order.
 */
static int
choose_slots(Due *due, const PgqrsCron *cron, pg_tz *zone, TimestampTz **slots)
{
	int catchup = DatumGetInt32(pgqrs_get(due->slot, Schedules_max_catchup));
	TimestampTz from = DatumGetTimestampTz(
		pgqrs_get(due->slot, Schedules_next_fire_at));
	TimestampTz on_time = Max(due->now - ON_TIME, from);
	int count = 0;

	/* a minute has two slots at most, its first instant and its last */
	*slots = palloc((catchup + 2) * sizeof(TimestampTz));
	if (catchup > 0 && from < on_time)
		count = newest_slots(cron, zone, from, on_time - 1, catchup, *slots);
	return count + newest_slots(cron, zone, on_time, due->now, 2, *slots + count);
}

/* Moves the schedule on to its first slot after an instant. */
static TimestampTz
move_on(Due *due, const PgqrsCron *cron, pg_tz *zone, TimestampTz after, bool fired)
{
	PgqrsRow row;

	pgqrs_row_copy(&row, due->schedules, due->slot);
	set_next(&row, cron, zone, after);
	if (fired)
	{
		pgqrs_set(&row, Schedules_last_fired_at, TimestampTzGetDatum(due->now));
		pgqrs_set(&row, Schedules_last_run_id, Int64GetDatum(due->last_run_id));
	}
	pgqrs_row_update(due->schedules, due->slot, &row);
	return row.nulls[Schedules_next_fire_at - 1] ?
		DT_NOEND :
		DatumGetTimestampTz(row.values[Schedules_next_fire_at - 1]);
}

/*
 * Serves the schedule that is locked, with up to max runs, which *fired
 * counts; when it is due again.
 */
static TimestampTz
fire(Due *due, int max, int64 *fired)
{
	char *zone_name = get_text(due->slot, Schedules_timezone);
	pg_tz *zone = pgqrs_cron_find_zone(zone_name);
	PgqrsCron cron;
	TimestampTz *slots;
	TimestampTz after = due->now;
	TimestampTz again = due->now + RETRY;
	TimestampTz next;
	int before = (int) *fired;
	int count;

	pgqrs_cron_parse(get_text(due->slot, Schedules_cron), &cron);
	if (zone == NULL)
	{
		ereport(WARNING,
				(errcode(ERRCODE_PGQRS_SCHEDULE_INVALID),
				 errmsg("schedule \"%s\" fires no more",
						get_text(due->slot, Schedules_name)),
				 errdetail("Time zone \"%s\" is not known any more.", zone_name),
				 errhint("Give it another one with pgqrs_schedule().")));
		return move_on(due, &cron, NULL, after, false);
	}
	count = choose_slots(due, &cron, zone, &slots);
	for (int i = 0; i < count && after == due->now; i++)
	{
		Served served = SERVED_LATER;

		if (*fired - before < max)
			served = serve(due, slots[i]);
		else
			again = 0;
		if (served == SERVED_RUN)
			(*fired)++;
		else if (served == SERVED_LATER)
			after = slots[i] - 1; /* the rest is still due */
	}
	pfree(slots);
	next = move_on(due, &cron, zone, after, *fired > before);
	return next > due->now ? next : again;
}

/*
 * Ticking
 */

/* Collects what is due; *next: when more is. */
static int
find_due(Due *due, int64 *ids, int max, TimestampTz *next)
{
	PgqrsKey key = {1, BTGreaterEqualStrategyNumber,
					TimestampTzGetDatum(DT_NOBEGIN)};
	int count = 0;
	PgqrsScan scan;

	*next = DT_NOEND;
	pgqrs_scan_begin(&scan, due->schedules, INDEX_SCHEDULES_NEXT, 1, &key);
	while (*next == DT_NOEND && pgqrs_scan_next(&scan, due->slot))
	{
		TimestampTz at = DatumGetTimestampTz(
			pgqrs_get(due->slot, Schedules_next_fire_at));

		if (at > due->now)
			*next = at;
		else if (count == max)
			*next = 0;
		else
			ids[count++] = DatumGetInt64(pgqrs_get(due->slot, Schedules_schedule_id));
	}
	pgqrs_scan_end(&scan);
	pgqrs_numbers_sort(ids, count);
	return count;
}

/* Takes a schedule, unless somebody has it. */
static PgqrsLockResult
take(Due *due, int64 id)
{
	PgqrsLockResult result = ROW_CHANGED;

	while (result == ROW_CHANGED)
	{
		if (!pgqrs_row_fetch_id(due->schedules, id, due->slot))
			return ROW_CHANGED;
		result = pgqrs_row_lock(due->schedules, due->slot,
								LockTupleNoKeyExclusive, LockWaitSkip);
	}
	due->id = id;
	due->last_run_id = DatumGetInt64(pgqrs_get(due->slot, Schedules_last_run_id));
	return result;
}

static bool
is_due(Due *due)
{
	return DatumGetBool(pgqrs_get(due->slot, Schedules_enabled)) &&
		!pgqrs_is_null(due->slot, Schedules_next_fire_at) &&
		DatumGetTimestampTz(pgqrs_get(due->slot, Schedules_next_fire_at)) <=
		due->now;
}

/* The first slot after now; false: never, or the schedule cannot be read. */
static bool
next_slot(Due *due, TimestampTz *next)
{
	pg_tz *zone = pgqrs_cron_find_zone(get_text(due->slot, Schedules_timezone));
	PgqrsCron cron;

	if (zone == NULL)
		return false;
	pgqrs_cron_parse(get_text(due->slot, Schedules_cron), &cron);
	return pgqrs_cron_next(&cron, zone, due->now, next);
}

/* Whether the schedule waits for a later slot than the first that is to come. */
static bool
waits_too_long(Due *due)
{
	TimestampTz at = DatumGetTimestampTz(
		pgqrs_get(due->slot, Schedules_next_fire_at));
	TimestampTz next;

	return DatumGetBool(pgqrs_get(due->slot, Schedules_enabled)) &&
		!pgqrs_is_null(due->slot, Schedules_next_fire_at) && at > due->now &&
		next_slot(due, &next) && next < at;
}

/*
 * The clock was ahead when a schedule was made, enabled or looked at, and was
 * set back: it would wait until the clock is there again.  It goes on from now;
 * slots that were served stay so.
 */
static void
realign(Due *due)
{
	List *ids = NIL;
	ListCell *lc;
	PgqrsScan scan;

	pgqrs_scan_begin_table(&scan, due->schedules);
	while (pgqrs_scan_next(&scan, due->slot))
	{
		int64 *id = palloc(sizeof(int64));

		*id = DatumGetInt64(pgqrs_get(due->slot, Schedules_schedule_id));
		ids = lappend(ids, id);
	}
	pgqrs_scan_end(&scan);
	foreach(lc, ids)
	{
		int64 id = *(int64 *) lfirst(lc);
		PgqrsCron cron;
		PgqrsRow row;

		if (!pgqrs_faulty_come_to(FAULTY_SCHEDULE, id) ||
			!pgqrs_row_fetch_id(due->schedules, id, due->slot) ||
			!waits_too_long(due) || take(due, id) != ROW_LOCKED ||
			!waits_too_long(due))
			continue;
		pgqrs_cron_parse(get_text(due->slot, Schedules_cron), &cron);
		pgqrs_row_copy(&row, due->schedules, due->slot);
		set_next(&row, &cron,
				 pgqrs_cron_find_zone(get_text(due->slot, Schedules_timezone)),
				 due->now);
		note_due(&row);
		pgqrs_row_update(due->schedules, due->slot, &row);
	}
	list_free_deep(ids);
}

bool
pgqrs_schedule_follow_roles(int max)
{
	PgqrsTable *schedules = pgqrs_table_open(TABLE_SCHEDULES, true);
	TupleTableSlot *slot = pgqrs_table_slot(schedules);
	bool all = true;
	PgqrsScan scan;

	pgqrs_scan_begin_table(&scan, schedules);
	while (max > 0 && pgqrs_scan_next(&scan, slot))
	{
		PgqrsRoleState state;
		PgqrsRow row;
		Oid role;

		state = pgqrs_role_state(slot, owner_columns, &role);
		if (state == ROLE_SAME || state == ROLE_UNKNOWN)
			continue;
		if (pgqrs_row_lock(schedules, slot, LockTupleNoKeyExclusive,
						   LockWaitSkip) != ROW_LOCKED)
		{
			all = false;
			continue;
		}
		pgqrs_row_copy(&row, schedules, slot);
		pgqrs_role_set(&row, owner_columns, role);
		pgqrs_row_update(schedules, slot, &row);
		max--;
	}
	pgqrs_scan_end(&scan);
	pgqrs_table_close(schedules);
	return all && max > 0;
}

TimestampTz
pgqrs_schedule_tick(int max, int64 *fired)
{
	static bool realigned = false;
	static uint32 realigned_epoch;
	uint32 epoch = pgqrs_clock_epoch();
	Due due = {
		.schedules = pgqrs_table_open(TABLE_SCHEDULES, true),
		.firings = pgqrs_table_open(TABLE_FIRINGS, true),
		.now = pgqrs_clock(),
	};
	int64 ids[MAX_DUE];
	TimestampTz next;
	int64 before = *fired;
	int count;

	due.slot = pgqrs_table_slot(due.schedules);
	due.firing = pgqrs_table_slot(due.firings);
	if (!realigned || realigned_epoch != epoch)
		realign(&due);
	count = find_due(&due, ids, MAX_DUE, &next);
	for (int i = 0; i < count; i++)
	{
		int left = max - (int) (*fired - before);

		if (left <= 0)
			next = 0;
		else if (!pgqrs_faulty_come_to(FAULTY_SCHEDULE, ids[i]))
			next = Min(next, due.now + PGQRS_FAULTY_PAUSE);
		else if (take(&due, ids[i]) != ROW_LOCKED)
			next = Min(next, due.now + RETRY);
		else if (is_due(&due))
		{
			TimestampTz again = fire(&due, left, fired);

			next = Min(next, again);
		}
	}
	pgqrs_table_close(due.firings);
	pgqrs_table_close(due.schedules);
	realigned = true;
	realigned_epoch = epoch;
	return next;
}
