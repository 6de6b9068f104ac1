/*
 * family.c
 *	  Additional parents of a run, beside the one that triggered it.
 *
 * A run that starts a child with a key may get an existing run.  The row of
 * that run names the parent that triggered it, if any.  Its other parents are
 * rows of pgqrs_parents, which few runs have.
 *
 * Runs in any backend.  A parent joins a run under a key-share lock on the
 * run's message, unless the run has ended.  The end of the run locks the
 * message exclusively: it sees all parents to wake, and a parent that joins
 * later sees the end.  Two parents that fail at the same time check each other
 * under a lock on that message, one after the other, so that the second one
 * cancels the run.
 */
#include "workflow/family.h"

#include "base/errors.h"
#include "miscadmin.h"
#include "store/scan.h"
#include "store/tuple.h"
#include "utils/builtins.h"
#include "workflow/run.h"
#include "workflow/run_wakeup.h"

/* A cycle is searched for among so many ancestors. */
#define MAX_ANCESTORS 1000

typedef struct ParentsScan
{
	PgqrsTable *table;
	TupleTableSlot *slot;
	PgqrsScan scan;
} ParentsScan;

static void
begin_parents_scan(ParentsScan *p, PgqrsIndexId index, int nkeys,
				   const PgqrsKey *keys, bool write)
{
	p->table = pgqrs_table_open(TABLE_PARENTS, write);
	p->slot = pgqrs_table_slot(p->table);
	pgqrs_scan_begin(&p->scan, p->table, index, nkeys, keys);
}

static void
begin_parents_of_run(ParentsScan *p, int64 run_id, bool write)
{
	PgqrsKey key = {1, BTEqualStrategyNumber, Int64GetDatum(run_id)};

	begin_parents_scan(p, INDEX_PARENTS_PKEY, 1, &key, write);
}

static bool
next_parent(ParentsScan *p)
{
	CHECK_FOR_INTERRUPTS();
	return pgqrs_scan_next(&p->scan, p->slot);
}

static void
end_parents_scan(ParentsScan *p)
{
	pgqrs_scan_end(&p->scan);
	pgqrs_table_close(p->table);
}

static int64
scanned_parent(ParentsScan *p)
{
	return pgqrs_get_int64(p->slot, Parents_parent_run_id);
}

/*
 * Joining
 */

/* Adds the ids of the run's parents to the list. */
static void
add_parents(PgqrsTable *runs, TupleTableSlot *run, int64 run_id, PgqrsInt64List *ids)
{
	ParentsScan p;

	if (pgqrs_row_fetch_id(runs, run_id, run) &&
		!pgqrs_is_null(run, Runs_parent_run_id))
		pgqrs_int64_list_add(ids, pgqrs_get_int64(run, Runs_parent_run_id));
	begin_parents_of_run(&p, run_id, false);
	while (next_parent(&p))
		pgqrs_int64_list_add(ids, scanned_parent(&p));
	end_parents_scan(&p);
}

/*
 * PQ016 if the run is an ancestor of the parent: each would wait for the
 * other's end.
 */
static void
refuse_ancestor(PgqrsTable *runs, int64 run_id, int64 parent)
{
	TupleTableSlot *run = pgqrs_table_slot(runs);
	PgqrsInt64List ancestors = {0};

	add_parents(runs, run, parent, &ancestors);
	for (int i = 0; i < ancestors.count && i < MAX_ANCESTORS; i++)
	{
		if (ancestors.values[i] == run_id)
			ereport(ERROR,
					(errcode(ERRCODE_PGQRS_INVALID_STATE),
					 errmsg("run " INT64_FORMAT " cannot be a child of run " INT64_FORMAT,
							run_id, parent),
					 errdetail("The child is an ancestor of the parent."),
					 errhint("Use another workflow or another key for the child.")));
		add_parents(runs, run, ancestors.values[i], &ancestors);
	}
}

static void
insert_parent(int64 run_id, int64 parent, const char *step_id,
			  PgqrsParentEnd on_parent_end)
{
	PgqrsTable *table = pgqrs_table_open(TABLE_PARENTS, true);
	PgqrsRow row;

	pgqrs_row_init(&row, table);
	pgqrs_set(&row, Parents_run_id, Int64GetDatum(run_id));
	pgqrs_set(&row, Parents_parent_run_id, Int64GetDatum(parent));
	pgqrs_set(&row, Parents_on_parent_end,
			  pgqrs_enum_datum(ENUM_PARENT_END, on_parent_end));
	pgqrs_set(&row, Parents_parent_step_id, CStringGetTextDatum(step_id));
	(void) pgqrs_row_insert_unique(table, &row, INDEX_PARENTS_PKEY);
	pgqrs_table_close(table);
}

void
pgqrs_family_join(PgqrsTable *runs, PgqrsTable *messages, int64 run_id,
				  int64 parent, const char *step_id, PgqrsParentEnd on_parent_end)
{
	TupleTableSlot *run = pgqrs_table_slot(runs);

	if (!pgqrs_row_fetch_id(runs, run_id, run) ||
		(!pgqrs_is_null(run, Runs_parent_run_id) &&
		 pgqrs_get_int64(run, Runs_parent_run_id) == parent))
		return;
	if (!pgqrs_run_is_terminal(pgqrs_run_status(run)))
	{
		refuse_ancestor(runs, run_id, parent);
		(void) pgqrs_row_fetch_locked(messages, run_id, LockTupleKeyShare,
									  pgqrs_table_slot(messages));
	}
	insert_parent(run_id, parent, step_id, on_parent_end);
}

/*
 * Ends
 */

void
pgqrs_family_wake_parents(int64 run_id)
{
	ParentsScan p;

	begin_parents_of_run(&p, run_id, false);
	while (next_parent(&p))
		pgqrs_run_wakeup_sent(scanned_parent(&p));
	end_parents_scan(&p);
}

bool
pgqrs_family_has_joined(int64 parent)
{
	return pgqrs_table_has_row(TABLE_PARENTS, INDEX_PARENTS_PARENT, parent);
}

bool
pgqrs_family_is_shared(int64 run_id)
{
	return pgqrs_table_has_row(TABLE_PARENTS, INDEX_PARENTS_PKEY, run_id);
}

static bool
is_abandoned(TupleTableSlot *slot, AttrNumber on_parent_end)
{
	return pgqrs_enum_value(ENUM_PARENT_END, pgqrs_get(slot, on_parent_end)) ==
		PARENT_END_ABANDON;
}

/* Whether the run has not ended, or has ended with SUCCESS. */
static bool
has_not_failed(TupleTableSlot *run)
{
	PgqrsRunStatus status = pgqrs_run_status(run);

	return status != RUN_ERROR && status != RUN_CANCELLED;
}

bool
pgqrs_family_keeps_children_of_undo(TupleTableSlot *parent)
{
	return !pgqrs_is_null(parent, Runs_undo_cause) &&
		(!pgqrs_is_null(parent, Runs_undone) || has_not_failed(parent));
}

bool
pgqrs_family_is_of_undo(int64 parent, Datum step_id)
{
	PgqrsTable *steps = pgqrs_table_open(TABLE_STEPS, false);
	TupleTableSlot *step = pgqrs_table_slot(steps);
	Datum keys[2] = {Int64GetDatum(parent), step_id};
	bool of_undo = pgqrs_row_fetch(steps, INDEX_STEPS_PKEY, 2, keys, step) &&
		!pgqrs_is_null(step, Steps_undo);

	pgqrs_table_close(steps);
	return of_undo;
}

void
pgqrs_family_add_children(int64 parent, int64 after, bool spares_undo,
						  PgqrsInt64List *ids)
{
	PgqrsKey keys[] = {
		{1, BTEqualStrategyNumber, Int64GetDatum(parent)},
		{2, BTGreaterStrategyNumber, Int64GetDatum(after)},
	};
	ParentsScan p;

	begin_parents_scan(&p, INDEX_PARENTS_PARENT, lengthof(keys), keys, false);
	while (next_parent(&p))
		if (!is_abandoned(p.slot, Parents_on_parent_end) &&
			!(spares_undo &&
			  pgqrs_family_is_of_undo(parent,
									  pgqrs_get(p.slot, Parents_parent_step_id))))
			pgqrs_int64_list_add(ids, pgqrs_get_int64(p.slot, Parents_run_id));
	end_parents_scan(&p);
}

/*
 * Whether the parent has not ended, or has ended with SUCCESS.  One that is or was
 * undone keeps what its undo has started.
 */
static bool
parent_keeps_run(PgqrsTable *runs, TupleTableSlot *slot, int64 parent, Datum step_id)
{
	if (!pgqrs_row_fetch_id(runs, parent, slot))
		return false;
	return pgqrs_family_keeps_children_of_undo(slot) ?
		pgqrs_family_is_of_undo(parent, step_id) :
		has_not_failed(slot);
}

bool
pgqrs_family_is_needed(PgqrsTable *runs, TupleTableSlot *run)
{
	int64 run_id = pgqrs_get_int64(run, Runs_run_id);
	TupleTableSlot *slot = pgqrs_table_slot(runs);
	bool held;
	ParentsScan p;

	if (pgqrs_is_null(run, Runs_parent_run_id) ||
		is_abandoned(run, Runs_on_parent_end) ||
		parent_keeps_run(runs, slot, pgqrs_get_int64(run, Runs_parent_run_id),
						 pgqrs_get(run, Runs_parent_step_id)))
		return true;
	held = false;
	begin_parents_of_run(&p, run_id, false);
	while (!held && next_parent(&p))
		held = is_abandoned(p.slot, Parents_on_parent_end) ||
			parent_keeps_run(runs, slot, scanned_parent(&p),
							 pgqrs_get(p.slot, Parents_parent_step_id));
	end_parents_scan(&p);
	return held;
}

/*
 * Results
 */

/*
 * Whether the run has not ended, or is a failed one that a replay may continue.
 */
static bool
parent_may_ask(PgqrsTable *runs, TupleTableSlot *slot, int64 run_id)
{
	return pgqrs_row_fetch_id(runs, run_id, slot) &&
		(pgqrs_run_status(slot) == RUN_ERROR ||
		 !pgqrs_run_is_terminal(pgqrs_run_status(slot)));
}

bool
pgqrs_family_may_be_asked_for(PgqrsTable *runs, TupleTableSlot *run)
{
	TupleTableSlot *slot = pgqrs_table_slot(runs);
	bool asked = !pgqrs_is_null(run, Runs_parent_run_id) &&
		parent_may_ask(runs, slot, pgqrs_get_int64(run, Runs_parent_run_id));
	ParentsScan p;

	if (!asked)
	{
		begin_parents_of_run(&p, pgqrs_get_int64(run, Runs_run_id), false);
		while (!asked && next_parent(&p))
			asked = parent_may_ask(runs, slot, scanned_parent(&p));
		end_parents_scan(&p);
	}
	return asked;
}

int
pgqrs_family_remove(int64 run_id)
{
	ParentsScan p;
	int count = 0;

	begin_parents_of_run(&p, run_id, true);
	while (next_parent(&p))
	{
		pgqrs_row_delete(p.table, p.slot);
		count++;
	}
	end_parents_scan(&p);
	return count;
}
