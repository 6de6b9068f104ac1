/*
 * schedule.c
 *	  Schedules: cron expressions that trigger runs of a workflow.
 *
 * Runs in any backend.  next_fire_at of a schedule is its first slot that has
 * not been served.  In one transaction, a tick locks the row of a due schedule
 * (or skips a row that another transaction has locked), rechecks it, triggers
 * a run for each slot and advances next_fire_at.  Any number of ticks may run
 * at the same time, and each slot is served once.  pgqrs_firings records the
 * served slots, so that a clock that is set back does not serve them again.
 *
 * The owner of a schedule is the role that wrote it last.  A run is triggered
 * only if the owner has the privilege "trigger" at that moment.  A role sees the
 * schedules of the workflows that it may read.  It may change its own schedules,
 * given "trigger" on the workflow, and all schedules of a workflow that it
 * administers.  Creating a schedule requires "trigger" on the schedule's name,
 * too.
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
#include "store/scan.h"
#include "store/tuple.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "workflow/cancel.h"
#include "workflow/cron_expr.h"
#include "workflow/run.h"
#include "workflow/run_trigger.h"

/* Schedules per tick. */
#define MAX_SCHEDULES 1000

/* A slot is missed if no tick serves it within this time. */
#define MISSED_AFTER (60 * USECS_PER_SEC)

/* The search for the newest slots begins with this time span. */
#define FIRST_WINDOW USECS_PER_HOUR

/*
 * One schedule
 */

static char *
text_column(TupleTableSlot *slot, AttrNumber column)
{
	return TextDatumGetCString(pgqrs_get(slot, column));
}

static const PgqrsRoleColumns owner_columns = {Schedules_owner_id, Schedules_owner};

static bool
fetch_schedule(PgqrsTable *schedules, const char *name, TupleTableSlot *slot)
{
	Datum key = CStringGetTextDatum(name);

	return pgqrs_row_fetch(schedules, INDEX_SCHEDULES_NAME, 1, &key, slot);
}

static bool
is_owned_by_current_role(TupleTableSlot *slot)
{
	Oid role = pgqrs_role_of(slot, owner_columns);

	return OidIsValid(role) && has_privs_of_role(GetUserId(), role);
}

/* False if the current role must not see the schedule; 42501 if it may only see it. */
static bool
check_schedule_privilege(TupleTableSlot *slot)
{
	char *workflow = text_column(slot, Schedules_workflow);
	int mask = pgqrs_privileges_on(workflow);

	if (mask != 0 && (mask & CAN_ADMIN) == 0 &&
		((mask & CAN_TRIGGER) == 0 || !is_owned_by_current_role(slot)))
		pgqrs_error_permission_denied("admin", workflow);
	return mask != 0;
}

/*
 * Locks the schedule of that name.  False if it does not exist or is not visible
 * to the current role; 42501 if the role must not change it.
 */
static bool
lock_schedule(PgqrsTable *schedules, const char *name, LockTupleMode mode,
			  TupleTableSlot *slot)
{
	while (fetch_schedule(schedules, name, slot) && check_schedule_privilege(slot))
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
			 errhint("See the list in pgqrs_schedule_list, or create the schedule with pgqrs_schedule().")));
}

/* Stores the first slot after an instant, or NULL if there is none. */
static void
set_next_fire_at(PgqrsRow *row, const PgqrsCron *cron, pg_tz *zone, TimestampTz after)
{
	TimestampTz next;

	if (zone != NULL && pgqrs_cron_next(cron, zone, after, &next))
		pgqrs_set(row, Schedules_next_fire_at, TimestampTzGetDatum(next));
	else
		pgqrs_set_null(row, Schedules_next_fire_at);
}

/* Asks for a tick of the background worker at next_fire_at. */
static void
request_tick(const PgqrsRow *row)
{
	if (!row->nulls[Schedules_next_fire_at - 1])
		pgqrs_xact_request_duty(DUTY_SCHEDULES,
								DatumGetTimestampTz(
									row->values[Schedules_next_fire_at - 1]));
}

/*
 * Creating and changing
 */

static void
set_schedule_columns(PgqrsRow *row, const PgqrsNewSchedule *s)
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

/* Whether the change keeps next_fire_at, so that missed slots stay due. */
static bool
keeps_next_fire_at(TupleTableSlot *slot, const PgqrsNewSchedule *s)
{
	return DatumGetBool(pgqrs_get(slot, Schedules_enabled)) &&
		!pgqrs_is_null(slot, Schedules_next_fire_at) &&
		strcmp(text_column(slot, Schedules_cron), s->cron) == 0 &&
		strcmp(text_column(slot, Schedules_timezone), s->timezone) == 0;
}

static void
set_enabled(PgqrsRow *row, bool enabled, const PgqrsCron *cron, pg_tz *zone)
{
	pgqrs_set(row, Schedules_enabled, BoolGetDatum(enabled));
	if (enabled)
	{
		set_next_fire_at(row, cron, zone, pgqrs_clock());
		request_tick(row);
	}
	else
		pgqrs_set_null(row, Schedules_next_fire_at);
}

static bool
insert_schedule(PgqrsTable *schedules, const PgqrsNewSchedule *s,
				const PgqrsCron *cron, pg_tz *zone, int64 *id)
{
	PgqrsRow row;

	*id = pgqrs_next_id(SEQUENCE_SCHEDULE_ID);
	pgqrs_row_init(&row, schedules);
	pgqrs_set(&row, Schedules_schedule_id, Int64GetDatum(*id));
	set_schedule_columns(&row, s);
	set_enabled(&row, s->keep_enabled || s->enabled, cron, zone);
	return pgqrs_row_insert_unique(schedules, &row, INDEX_SCHEDULES_NAME);
}

static int64
update_schedule(PgqrsTable *schedules, TupleTableSlot *slot,
				const PgqrsNewSchedule *s, const PgqrsCron *cron, pg_tz *zone)
{
	bool enabled = s->keep_enabled ?
		DatumGetBool(pgqrs_get(slot, Schedules_enabled)) :
		s->enabled;
	PgqrsRow row;

	pgqrs_row_copy(&row, schedules, slot);
	set_schedule_columns(&row, s);
	if (!enabled || !keeps_next_fire_at(slot, s))
		set_enabled(&row, enabled, cron, zone);
	pgqrs_row_update(schedules, slot, &row);
	return pgqrs_get_int64(slot, Schedules_schedule_id);
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

	/* a role can neither probe nor occupy the names of other tenants' schedules */
	pgqrs_require_privilege(s->name, PRIVILEGE_TRIGGER);
	schedules = pgqrs_table_open(TABLE_SCHEDULES, true);
	slot = pgqrs_table_slot(schedules);
	zone = pgqrs_cron_zone(s->timezone);
	pgqrs_workflow_require(s->workflow, PRIVILEGE_TRIGGER, &workflow);
	if (!pgqrs_queue_pin(s->workflow))
		pgqrs_error_workflow_not_found(s->workflow);
	pgqrs_cron_parse(s->cron, &cron);
	for (;;)
	{
		if (lock_schedule(schedules, s->name, LockTupleNoKeyExclusive, slot))
		{
			id = update_schedule(schedules, slot, s, &cron, zone);
			break;
		}
		if (fetch_schedule(schedules, s->name, slot))
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("permission denied for schedule \"%s\"", s->name),
					 errdetail("Another role's schedule of another workflow has this name."),
					 errhint("Use another name.")));
		if (insert_schedule(schedules, s, &cron, zone, &id))
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

	if (!lock_schedule(schedules, name, LockTupleNoKeyExclusive, slot))
		error_not_found(name);
	if (DatumGetBool(pgqrs_get(slot, Schedules_enabled)) != enabled)
	{
		pgqrs_cron_parse(text_column(slot, Schedules_cron), &cron);
		pgqrs_row_copy(&row, schedules, slot);
		set_enabled(&row, enabled, &cron,
					pgqrs_cron_zone(text_column(slot, Schedules_timezone)));
		pgqrs_row_update(schedules, slot, &row);
	}
	pgqrs_table_close(schedules);
}

/*
 * Deleting
 */

/* Deletes a locked schedule with its firings. */
static void
delete_schedule(PgqrsTable *schedules, TupleTableSlot *slot)
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
	bool found = lock_schedule(schedules, name, LockTupleExclusive, slot);

	if (found)
		delete_schedule(schedules, slot);
	pgqrs_table_close(schedules);
	return found;
}

/*
 * The ids of a workflow's schedules, or with NULL of all.  Tables of schedules
 * are small.
 */
static PgqrsInt64List
schedules_of_workflow(PgqrsTable *schedules, TupleTableSlot *slot,
					  const char *workflow)
{
	PgqrsInt64List ids = {0};
	PgqrsScan scan;

	pgqrs_scan_begin_table(&scan, schedules);
	while (pgqrs_scan_next(&scan, slot))
		if (workflow == NULL ||
			strcmp(text_column(slot, Schedules_workflow), workflow) == 0)
			pgqrs_int64_list_add(&ids, pgqrs_get_int64(slot, Schedules_schedule_id));
	pgqrs_scan_end(&scan);
	return ids;
}

bool
pgqrs_schedule_exists_for(const char *workflow)
{
	PgqrsTable *schedules = pgqrs_table_open(TABLE_SCHEDULES, false);
	bool any = schedules_of_workflow(schedules, pgqrs_table_slot(schedules), workflow)
				   .count > 0;

	pgqrs_table_close(schedules);
	return any;
}

void
pgqrs_schedule_drop_for(const char *workflow)
{
	PgqrsTable *schedules = pgqrs_table_open(TABLE_SCHEDULES, true);
	TupleTableSlot *slot = pgqrs_table_slot(schedules);
	PgqrsInt64List ids = schedules_of_workflow(schedules, slot, workflow);

	for (int i = 0; i < ids.count; i++)
		if (pgqrs_row_fetch_locked(schedules, ids.values[i], LockTupleExclusive,
								   slot) &&
			strcmp(text_column(slot, Schedules_workflow), workflow) == 0)
			delete_schedule(schedules, slot);
	pgqrs_table_close(schedules);
}

/*
 * Firing
 */

/* The arguments of pgqrs_run_trigger() for a run of the schedule. */
static void
fill_scheduled_run(TupleTableSlot *slot, PgqrsNewRun *r)
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

	if (!fetch_schedule(schedules, name, slot) || !check_schedule_privilege(slot))
		error_not_found(name);
	fill_scheduled_run(slot, &r);
	id = pgqrs_run_trigger(text_column(slot, Schedules_workflow), &r);
	pgqrs_table_close(schedules);
	return id;
}

/* A tick, and the locked schedule that it serves. */
typedef struct Tick
{
	PgqrsTable *schedules;
	PgqrsTable *firings;
	TupleTableSlot *slot;
	TupleTableSlot *firing;
	int64 id;
	int64 last_run_id; /* 0: none */
	TimestampTz now;
} Tick;

static bool
owner_may_trigger(TupleTableSlot *schedule, const char *workflow)
{
	Oid owner = pgqrs_role_of(schedule, owner_columns);

	return (pgqrs_privileges_of_role(owner, workflow) & CAN_TRIGGER) != 0;
}

bool
pgqrs_schedule_may_fire(int64 schedule_id, bool *may_fire)
{
	PgqrsTable *schedules = pgqrs_table_open(TABLE_SCHEDULES, false);
	TupleTableSlot *slot = pgqrs_table_slot(schedules);
	bool found = false;

	if (pgqrs_row_fetch_id(schedules, schedule_id, slot))
	{
		char *workflow = text_column(slot, Schedules_workflow);

		found = pgqrs_privileges_on(workflow) != 0;
		*may_fire = found && owner_may_trigger(slot, workflow);
	}
	pgqrs_table_close(schedules);
	return found;
}

/* The reason why no run can be triggered, or NULL. */
static const char *
reason_not_to_trigger(Tick *tick)
{
	char *workflow = text_column(tick->slot, Schedules_workflow);
	char *owner = NameStr(*DatumGetName(pgqrs_get(tick->slot, Schedules_owner)));
	PgqrsQueue queue;

	if (!pgqrs_queue_by_name(workflow, &queue) || !queue.is_workflow)
		return psprintf("Workflow \"%s\" does not exist.", workflow);
	if (!owner_may_trigger(tick->slot, workflow))
		return psprintf("The schedule's owner \"%s\" lacks privilege \"trigger\" on workflow \"%s\".",
						owner, workflow);
	return NULL;
}

/* Whether the run of the previous slot has not ended. */
static bool
is_previous_run_live(Tick *tick)
{
	PgqrsTable *runs;
	TupleTableSlot *run;
	bool live;

	if (tick->last_run_id == 0)
		return false;
	runs = pgqrs_table_open(TABLE_RUNS, false);
	run = pgqrs_table_slot(runs);
	live = pgqrs_row_fetch_id(runs, tick->last_run_id, run) &&
		!pgqrs_run_is_terminal(pgqrs_run_status(run));
	pgqrs_table_close(runs);
	return live;
}

static bool
has_firing(Tick *tick, TimestampTz at)
{
	Datum keys[2] = {Int64GetDatum(tick->id), TimestampTzGetDatum(at)};

	return pgqrs_row_fetch(tick->firings, INDEX_FIRINGS_PKEY, 2, keys, tick->firing);
}

static void
insert_firing(Tick *tick, TimestampTz at, int64 run_id)
{
	PgqrsRow row;

	pgqrs_row_init(&row, tick->firings);
	pgqrs_set(&row, Firings_schedule_id, Int64GetDatum(tick->id));
	pgqrs_set(&row, Firings_slot, TimestampTzGetDatum(at));
	pgqrs_set(&row, Firings_fired_at, TimestampTzGetDatum(tick->now));
	if (run_id != 0)
		pgqrs_set(&row, Firings_run_id, Int64GetDatum(run_id));
	pgqrs_row_insert(tick->firings, &row);
	pgqrs_xact_request_duty(DUTY_RETENTION, tick->now + PGQRS_FIRING_MIN_AGE);
}

typedef enum SlotResult
{
	SLOT_TRIGGERED,
	SLOT_SKIPPED,
	SLOT_POSTPONED /* the run to cancel is locked by another transaction */
} SlotResult;

/* Cancels the previous run, if it has not ended; false if the run is locked. */
static bool
cancel_previous_run(Tick *tick)
{
	return !is_previous_run_live(tick) ||
		pgqrs_cancel_without_waiting(tick->last_run_id,
									 "the next run of its schedule is due");
}

static SlotResult
serve_slot(Tick *tick, TimestampTz at)
{
	int overlap = pgqrs_enum_value(ENUM_OVERLAP,
								   pgqrs_get(tick->slot, Schedules_overlap));
	const char *obstacle;
	PgqrsNewRun r;
	int64 run_id = 0;

	if (has_firing(tick, at))
		return SLOT_SKIPPED;
	obstacle = reason_not_to_trigger(tick);
	if (obstacle != NULL)
		ereport(WARNING,
				(errcode(ERRCODE_PGQRS_SCHEDULE_INVALID),
				 errmsg("schedule \"%s\" did not fire for %s",
						text_column(tick->slot, Schedules_name),
						timestamptz_to_str(at)),
				 errdetail("%s", obstacle),
				 errhint("Change the schedule or its owner's privileges, or disable the schedule.")));
	else if (overlap == OVERLAP_CANCEL && !cancel_previous_run(tick))
		return SLOT_POSTPONED;
	else if (overlap != OVERLAP_SKIP || !is_previous_run_live(tick))
	{
		fill_scheduled_run(tick->slot, &r);
		r.no_warning = true;
		r.schedule_slot = at;
		run_id = pgqrs_run_trigger(text_column(tick->slot, Schedules_workflow), &r);
		tick->last_run_id = run_id;
	}
	insert_firing(tick, at, run_id);
	return run_id != 0 ? SLOT_TRIGGERED : SLOT_SKIPPED;
}

/*
 * Stores up to max of the newest slots from one instant to another, both
 * included, in ascending order; returns their number.  The search window grows
 * until it holds enough slots.
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
 * The slots to serve, ascending: of the missed ones the newest max_catchup, and
 * those that are not missed.
 */
static int
slots_to_serve(Tick *tick, const PgqrsCron *cron, pg_tz *zone, TimestampTz **slots)
{
	int catchup = DatumGetInt32(pgqrs_get(tick->slot, Schedules_max_catchup));
	TimestampTz from = pgqrs_get_time(tick->slot, Schedules_next_fire_at);
	TimestampTz not_missed_from = Max(tick->now - MISSED_AFTER, from);
	int count = 0;

	/* MISSED_AFTER spans two slots at most, its first instant and its last */
	*slots = palloc((catchup + 2) * sizeof(TimestampTz));
	if (catchup > 0 && from < not_missed_from)
		count = newest_slots(cron, zone, from, not_missed_from - 1, catchup, *slots);
	return count +
		newest_slots(cron, zone, not_missed_from, tick->now, 2, *slots + count);
}

/* Advances next_fire_at to the first slot after an instant, and returns it. */
static TimestampTz
advance_next_fire_at(Tick *tick, const PgqrsCron *cron, pg_tz *zone,
					 TimestampTz after, bool fired)
{
	PgqrsRow row;

	pgqrs_row_copy(&row, tick->schedules, tick->slot);
	set_next_fire_at(&row, cron, zone, after);
	if (fired)
	{
		pgqrs_set(&row, Schedules_last_fired_at, TimestampTzGetDatum(tick->now));
		pgqrs_set(&row, Schedules_last_run_id, Int64GetDatum(tick->last_run_id));
	}
	pgqrs_row_update(tick->schedules, tick->slot, &row);
	return row.nulls[Schedules_next_fire_at - 1] ?
		DT_NOEND :
		DatumGetTimestampTz(row.values[Schedules_next_fire_at - 1]);
}

/*
 * Serves the locked schedule, triggers up to max runs and adds their number to
 * *fired.  Returns when the schedule is due again.
 */
static TimestampTz
serve_schedule(Tick *tick, int max, int64 *fired)
{
	char *zone_name = text_column(tick->slot, Schedules_timezone);
	pg_tz *zone = pgqrs_cron_find_zone(zone_name);
	PgqrsCron cron;
	TimestampTz *slots;
	TimestampTz after = tick->now;
	TimestampTz again = tick->now + PGQRS_LOCKED_ROW_RETRY;
	TimestampTz next;
	int before = (int) *fired;
	int count;

	pgqrs_cron_parse(text_column(tick->slot, Schedules_cron), &cron);
	if (zone == NULL)
	{
		ereport(WARNING,
				(errcode(ERRCODE_PGQRS_SCHEDULE_INVALID),
				 errmsg("schedule \"%s\" no longer fires",
						text_column(tick->slot, Schedules_name)),
				 errdetail("Time zone \"%s\" is no longer known to the server.",
						   zone_name),
				 errhint("Set another time zone with pgqrs_schedule().")));
		return advance_next_fire_at(tick, &cron, NULL, after, false);
	}
	count = slots_to_serve(tick, &cron, zone, &slots);
	for (int i = 0; i < count && after == tick->now; i++)
	{
		SlotResult result = SLOT_POSTPONED;

		if (*fired - before < max)
			result = serve_slot(tick, slots[i]);
		else
			again = 0;
		if (result == SLOT_TRIGGERED)
			(*fired)++;
		else if (result == SLOT_POSTPONED)
			after = slots[i] - 1; /* this slot and later ones stay due */
	}
	pfree(slots);
	next = advance_next_fire_at(tick, &cron, zone, after, *fired > before);
	return next > tick->now ? next : again;
}

/*
 * Ticking
 */

/*
 * Stores the ids of up to max due schedules, ascending.  *next: when the next
 * schedule is due, 0 if there are more than max.
 */
static int
find_due_schedules(Tick *tick, int64 *ids, int max, TimestampTz *next)
{
	PgqrsKey key = {1, BTGreaterEqualStrategyNumber,
					TimestampTzGetDatum(DT_NOBEGIN)};
	int count = 0;
	PgqrsScan scan;

	*next = DT_NOEND;
	pgqrs_scan_begin(&scan, tick->schedules, INDEX_SCHEDULES_NEXT, 1, &key);
	while (*next == DT_NOEND && pgqrs_scan_next(&scan, tick->slot))
	{
		TimestampTz at = pgqrs_get_time(tick->slot, Schedules_next_fire_at);

		if (at > tick->now)
			*next = at;
		else if (count == max)
			*next = 0;
		else
			ids[count++] = pgqrs_get_int64(tick->slot, Schedules_schedule_id);
	}
	pgqrs_scan_end(&scan);
	pgqrs_int64_sort(ids, count);
	return count;
}

/*
 * Locks the row of a schedule and makes it the tick's.  ROW_CHANGED if the row
 * is gone; a row that another transaction has locked is not waited for.
 */
static PgqrsLockResult
lock_tick_schedule(Tick *tick, int64 id)
{
	PgqrsLockResult result = ROW_CHANGED;

	while (result == ROW_CHANGED)
	{
		if (!pgqrs_row_fetch_id(tick->schedules, id, tick->slot))
			return ROW_CHANGED;
		result = pgqrs_row_lock(tick->schedules, tick->slot,
								LockTupleNoKeyExclusive, LockWaitSkip);
	}
	tick->id = id;
	tick->last_run_id = pgqrs_get_int64(tick->slot, Schedules_last_run_id);
	return result;
}

static bool
is_schedule_due(Tick *tick)
{
	return DatumGetBool(pgqrs_get(tick->slot, Schedules_enabled)) &&
		!pgqrs_is_null(tick->slot, Schedules_next_fire_at) &&
		pgqrs_get_time(tick->slot, Schedules_next_fire_at) <= tick->now;
}

/* The first slot after now; false without one or with an unknown time zone. */
static bool
first_slot_after_now(Tick *tick, TimestampTz *next)
{
	pg_tz *zone = pgqrs_cron_find_zone(text_column(tick->slot, Schedules_timezone));
	PgqrsCron cron;

	if (zone == NULL)
		return false;
	pgqrs_cron_parse(text_column(tick->slot, Schedules_cron), &cron);
	return pgqrs_cron_next(&cron, zone, tick->now, next);
}

/* Whether next_fire_at is later than the first slot after now. */
static bool
is_next_fire_at_late(Tick *tick)
{
	TimestampTz at = pgqrs_get_time(tick->slot, Schedules_next_fire_at);
	TimestampTz next;

	return DatumGetBool(pgqrs_get(tick->slot, Schedules_enabled)) &&
		!pgqrs_is_null(tick->slot, Schedules_next_fire_at) && at > tick->now &&
		first_slot_after_now(tick, &next) && next < at;
}

/*
 * After the clock was set back: next_fire_at that was computed while the clock
 * was ahead is computed again.  Slots with a firing are not served again.
 */
static void
realign_schedules(Tick *tick)
{
	PgqrsInt64List ids = schedules_of_workflow(tick->schedules, tick->slot, NULL);

	for (int i = 0; i < ids.count; i++)
	{
		int64 id = ids.values[i];
		PgqrsCron cron;
		PgqrsRow row;

		if (!pgqrs_quarantine_begin_row(QUARANTINE_SCHEDULE, id) ||
			!pgqrs_row_fetch_id(tick->schedules, id, tick->slot) ||
			!is_next_fire_at_late(tick) ||
			lock_tick_schedule(tick, id) != ROW_LOCKED ||
			!is_next_fire_at_late(tick))
			continue;
		pgqrs_cron_parse(text_column(tick->slot, Schedules_cron), &cron);
		pgqrs_row_copy(&row, tick->schedules, tick->slot);
		set_next_fire_at(&row, &cron,
						 pgqrs_cron_find_zone(
							 text_column(tick->slot, Schedules_timezone)),
						 tick->now);
		request_tick(&row);
		pgqrs_row_update(tick->schedules, tick->slot, &row);
	}
}

static bool
follow_role(PgqrsTable *schedules, TupleTableSlot *slot, LockWaitPolicy wait)
{
	Oid role;

	(void) pgqrs_role_state(slot, owner_columns, &role);
	return pgqrs_role_update(schedules, slot, owner_columns, role, wait);
}

bool
pgqrs_schedule_follow_roles(int max)
{
	return pgqrs_roles_follow(TABLE_SCHEDULES, owner_columns, max, follow_role);
}

TimestampTz
pgqrs_schedule_tick(int max, int64 *fired)
{
	static bool any_handled = false;
	static uint32 handled_epoch;
	uint32 epoch = pgqrs_clock_epoch();
	Tick tick = {
		.schedules = pgqrs_table_open(TABLE_SCHEDULES, true),
		.firings = pgqrs_table_open(TABLE_FIRINGS, true),
		.now = pgqrs_clock(),
	};
	int64 ids[MAX_SCHEDULES];
	TimestampTz next;
	int64 before = *fired;
	int count;

	tick.slot = pgqrs_table_slot(tick.schedules);
	tick.firing = pgqrs_table_slot(tick.firings);
	if (!any_handled || handled_epoch != epoch)
		realign_schedules(&tick);
	count = find_due_schedules(&tick, ids, MAX_SCHEDULES, &next);
	for (int i = 0; i < count; i++)
	{
		int left = max - (int) (*fired - before);

		if (left <= 0)
			next = 0;
		else if (!pgqrs_quarantine_begin_row(QUARANTINE_SCHEDULE, ids[i]))
			next = Min(next, tick.now + PGQRS_QUARANTINE_PAUSE);
		else if (lock_tick_schedule(&tick, ids[i]) != ROW_LOCKED)
			next = Min(next, tick.now + PGQRS_LOCKED_ROW_RETRY);
		else if (is_schedule_due(&tick))
		{
			TimestampTz again = serve_schedule(&tick, left, fired);

			next = Min(next, again);
		}
	}
	pgqrs_table_close(tick.firings);
	pgqrs_table_close(tick.schedules);
	any_handled = true;
	handled_epoch = epoch;
	return next;
}
